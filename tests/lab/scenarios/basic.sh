# shellcheck shell=bash
# The basic workload, recorded from before the connection to after the unmount. With LOSS (LOSS=1%) so
# many of the server's packets are lost.
# settings: GRACE_ENDS=50+4.7
if [ -n "$LOSS" ]; then on_server "modprobe sch_netem; tc qdisc add dev eth0 root netem loss $LOSS"; fi

start_recording
mount_export "$VERS"
do_workload
keep_counters
umount /mnt/nfs
stop_recording

if [ -n "$LOSS" ]; then on_server 'tc -s qdisc show dev eth0'; fi
