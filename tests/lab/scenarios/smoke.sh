# shellcheck shell=bash
# The basic workload, and then the program in the guest reads the capture of it: it must say what the kernel counted.
start_recording
mount_export "$VERS"
do_workload
# Here nothing is under way any more, so capture and counters hold the same.
stop_recording
keep_counters
umount /mnt/nfs

program=/shared/bin/nfsrdma-inspect
$program --version
$program -T json /shared/client.pcap > /shared/client.json
$program -q /shared/client.pcap
python3 -S /lab/guest/counters.py /shared/client.json /shared/client.mountstats
