# shellcheck shell=bash
# Four processes at once on four connections: many small files, and data past the caches.
# settings: GRACE_ENDS=never
MOUNT_OPTIONS=${MOUNT_OPTIONS:-nconnect=4,rsize=262144,wsize=262144}
data=/mnt/nfs/data

# work PROCESS: what one of them does.
work() {
    local mine=$data/p$1 number
    mkdir "$mine"
    dd if=/tmp/source of="$mine/a" bs=256k count=8 oflag=direct status=none
    for number in $(seq 20); do echo "$1 $number" > "$mine/small$number"; done
    dd if="$mine/a" of=/dev/null bs=256k iflag=direct status=none
    ls -l "$mine" > /dev/null
    ls -l $data/many300 > /dev/null
    for number in $(seq 20); do rm "$mine/small$number"; done
}

yes "four at once" | head -c 2M > /tmp/source || true
start_recording
mount_export "$VERS"
processes=()
for process in 1 2 3 4; do
    work $process &
    processes+=($!)
done
for process in "${processes[@]}"; do wait "$process"; done
keep_counters
umount /mnt/nfs
stop_recording
