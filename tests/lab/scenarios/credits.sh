# shellcheck shell=bash
# More processes than the server grants credits (GRANT): the client has as many Calls in flight as it may. Each reads and writes a
# file of its own, past the caches.
# keys: GRANT
# settings: GRACE_ENDS=never GRANT=8 MOUNT_OPTIONS=rsize=65536,wsize=65536
data=/mnt/nfs/data

# work PROCESS: what one of them does.
work() {
    dd if=/tmp/source of="$data/c$1" bs=4k count=8 oflag=direct status=none
    dd if="$data/c$1" of=/dev/null bs=4k iflag=direct status=none
    rm "$data/c$1"
}

yes "credits" | head -c 64K > /tmp/source || true
# The limit of a new connection.
on_server "echo $GRANT > /proc/sys/sunrpc/svc_rdma/max_requests; cat /proc/sys/sunrpc/svc_rdma/max_requests"
start_recording
mount_export "$VERS"
processes=()
for process in $(seq 32); do
    work "$process" &
    processes+=($!)
done
for process in "${processes[@]}"; do wait "$process"; done
keep_counters
umount /mnt/nfs
stop_recording
