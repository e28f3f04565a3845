# shellcheck shell=bash
# More processes than the server grants credits (GRANT): the client has as many calls in flight as it may. Each reads and writes a
# file of its own, past the caches.
# TRACE=1 writes client.trace: the times at which xprtrdma posts each call and handles its reply, by the clock of the packets, and the
# client's own times of each (rpc_stats_latency).
# keys: GRANT TRACE
# settings: GRACE_ENDS=never GRANT=8 TRACE= MOUNT_OPTIONS=rsize=65536,wsize=65536
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
tracing=/sys/kernel/tracing
if [ -n "$TRACE" ]; then
    mount -t tracefs tracefs $tracing
    echo tai > $tracing/trace_clock
    echo 32768 > $tracing/buffer_size_kb
    for event in rpcrdma/xprtrdma_post_send rpcrdma/xprtrdma_reply sunrpc/rpc_stats_latency; do
        echo 1 > $tracing/events/$event/enable
    done
fi
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
if [ -n "$TRACE" ]; then cat $tracing/trace > /shared/client.trace; fi
