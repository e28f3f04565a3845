# shellcheck shell=bash
# The basic workload, recorded from the middle of the connection: its begin and the unmount are not in the capture.
mount_export "$VERS"
mkdir /mnt/nfs/data/before
for number in 1 2 3 4 5 6 7 8; do echo $number > /mnt/nfs/data/before/f$number; done

start_recording
python3 -S /lab/guest/workload.py /mnt/nfs "$VERS" > /shared/client.ops
stop_recording
keep_counters
umount /mnt/nfs
