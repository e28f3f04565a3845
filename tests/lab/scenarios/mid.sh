# shellcheck shell=bash
# The basic workload, recorded from the middle of the connection: its begin and the unmount are not in the capture.
# settings: GRACE_ENDS=50+4.7
mount_export "$VERS"
mkdir /mnt/nfs/data/before
for number in 1 2 3 4 5 6 7 8; do echo $number > /mnt/nfs/data/before/f$number; done

start_recording
do_workload
stop_recording
keep_counters
umount /mnt/nfs
