# shellcheck shell=bash
# Large READs and WRITEs of one file after another, past the caches. LOSS (LOSS=5%) is the share of the server's packets that are lost,
# CLIENT_LOSS that of the client's. tcpdump records neither: it sees packets behind the queue that drops them. One in ARRIVAL_LOSS
# packets (ARRIVAL_LOSS=50) is lost on arrival, on both sides: tcpdump records it, but the receiver does not get it.
# keys: CLIENT_LOSS ARRIVAL_LOSS
# settings: GRACE_ENDS=never CLIENT_LOSS= ARRIVAL_LOSS= MOUNT_OPTIONS=rsize=262144,wsize=262144
data=/mnt/nfs/data

lose() {
    if [ -n "$LOSS" ]; then on_server "modprobe sch_netem; tc qdisc add dev eth0 root netem loss $LOSS"; fi
    if [ -n "$CLIENT_LOSS" ]; then
        modprobe sch_netem
        tc qdisc add dev eth0 root netem loss "$CLIENT_LOSS"
    fi
    if [ -n "$ARRIVAL_LOSS" ]; then
        local drop="modprobe -a sch_ingress cls_matchall act_gact; tc qdisc add dev eth0 clsact"
        drop+="; tc filter add dev eth0 ingress protocol ip matchall action gact pass random netrand drop $ARRIVAL_LOSS"
        eval "$drop"
        on_server "$drop"
    fi
}

yes "large and lossy" | head -c 512K > /tmp/source || true
start_recording
mount_export "$VERS"
mkdir $data/bulk
lose
for file in 1 2 3; do
    dd if=/tmp/source of=$data/bulk/$file bs=256k oflag=direct status=none
    dd if=$data/bulk/$file of=/tmp/copy bs=256k iflag=direct status=none
    cmp /tmp/source /tmp/copy
done
# The counters are read when nothing is lost any more: the unmount is not counted.
if [ -n "$LOSS" ]; then on_server 'tc -s qdisc show dev eth0; tc qdisc del dev eth0 root'; fi
if [ -n "$CLIENT_LOSS" ]; then
    tc -s qdisc show dev eth0
    tc qdisc del dev eth0 root
fi
if [ -n "$ARRIVAL_LOSS" ]; then
    tc -s filter show dev eth0 ingress
    tc qdisc del dev eth0 clsact
    on_server 'tc -s filter show dev eth0 ingress; tc qdisc del dev eth0 clsact'
fi
keep_counters
umount /mnt/nfs
stop_recording
