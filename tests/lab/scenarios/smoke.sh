# shellcheck shell=bash
# The program in a guest: it asks the server what it offers; then it reads the capture of the basic workload, and must say what the
# kernel counted.
program=/shared/bin/nfsrdma-inspect
$program --version

start_recording probe
# shellcheck disable=SC2154 # client.sh says which host
$program probe --server "tcp://$host/export?vers=3"
$program probe --server "tcp://$host/?vers=4.2"
stop_recording

start_recording
mount_export "$VERS"
do_workload
# Here nothing is under way any more, so capture and counters hold the same.
stop_recording
keep_counters
umount /mnt/nfs

$program -T json /shared/client.pcap > /shared/client.json
$program -q /shared/client.pcap
python3 -S /lab/guest/counters.py /shared/client.json /shared/client.mountstats
