# shellcheck shell=bash
# The transport of the program against the kernel's server: probe in each version, and the test client (TOOL, the example
# transport_exercise) with every form of call. What it recorded is looked at afterwards (afterwards/transport.sh).
# CALLS: how many small ones; LARGEST: the most bytes in one operation, which follows from the server's MEMORY.
# keys: CALLS LARGEST
# settings: MEMORY=7168 LIMIT=2400
program=/shared/bin/nfsrdma-inspect
# An emulated machine on a busy host may be slow.
probe=("$program" probe --timeout 20)
exercise=/shared/bin/transport_exercise
# shellcheck disable=SC2154 # client.sh says which host
server=$host:20049
say "kernel $(uname -r), $TRANSPORT"

for version in 3 4.0 4.1 4.2; do
    path=/
    if [ $version = 3 ]; then path=/export; fi
    "${probe[@]}" --server "rdma://$host$path?vers=$version" > "/shared/probe-$version"
    cat "/shared/probe-$version"
    grep -q '^  READ .* at most' "/shared/probe-$version"
    say "PASSED probe $version"
done
# Whether the server invalidates handles: rxe has windows to try that with, siw has not.
case $TRANSPORT in
rxe) invalidated='used in [1-9][0-9]* of [0-9]+ replies, not announced by the server' ;;
siw) invalidated='not announced: the device has no memory windows' ;;
esac
"${probe[@]}" --remote-invalidation --server "rdma://$host/?vers=4.2" > /shared/probe-invalidation
grep -E "^  remote inval\. +$invalidated$" /shared/probe-invalidation
grep '^  remote inval\.  *not requested$' /shared/probe-4.2
"${probe[@]}" --remote-invalidation -T json --server "rdma://$host/?vers=4.2" > /shared/probe-invalidation.json
used=$(sed -n 's/.*"invalidations":\([0-9]*\).*/\1/p' /shared/probe-invalidation.json)
if [ "$TRANSPORT" = rxe ]; then [ "$used" -gt 0 ]; else [ "$used" -eq 0 ]; fi
say "PASSED probe of remote invalidation"
largest=${LARGEST:-$(sed -n 's/^  READ *\([0-9,]*\) at most$/\1/p' /shared/probe-4.0 | tr -d ,)}

# The file that is written to, in a folder whose READDIR takes a long reply; and one whose delegation is recalled.
on_server '
    : > /export/data/many300/exercise
    chmod 666 /export/data/many300/exercise
    yes "to be recalled" | head -c 5000 > /export/data/recalled
    sync'

# exercise NAME ARGUMENT...: records it. The client writes down what it does, to which the capture is held afterwards.
exercise() {
    local name=$1
    shift
    start_recording "$name"
    "$exercise" "$@" "/shared/$name.journal" > "/shared/$name.said" || {
        cat "/shared/$name.said"
        return 1
    }
    stop_recording
    cat "/shared/$name.said"
    say "PASSED $name"
}

exercise forms "$server" /data/many300/exercise "$largest" 1000
exercise windows windows "$server" /data/many300/exercise "$largest" 1000
exercise storm "$server" /data/many300/exercise 1 "${CALLS:-100000}"

start_recording errors
"$exercise" errors "$server" /data/many300/exercise > /shared/errors.said || {
    cat /shared/errors.said
    false
}
cat /shared/errors.said
stop_recording
# What the server said of the short Reply chunk, if it said anything, stands in the capture.
told=$(grep -c '^ok a short Reply chunk: ERR_CHUNK$' /shared/errors.said || true)
[ "$($program -T json --summary none /shared/errors.pcap | grep -c '"rpc_status":"RDMA_ERROR:ERR_CHUNK"' || true)" -eq "$told" ]
say "PASSED errors"

# The server recalls a delegation over the connection that the client opened.
start_recording recall
"$exercise" recall "$server" /data/recalled /tmp/delegated > /shared/recall.said 2>&1 &
recalling=$!
for _ in $(seq 300); do
    if [ -e /tmp/delegated ] || ! kill -0 $recalling 2> /dev/null; then break; fi
    sleep 0.1
done
on_server 'timeout 30 bash -c "echo more >> /export/data/recalled"'
wait $recalling || {
    cat /shared/recall.said
    false
}
cat /shared/recall.said
stop_recording
# CB_RECALL is done, in the reverse direction of the connection, and DELEGRETURN after it.
$program -T json --summary none /shared/recall.pcap > /shared/recall.json
operations() { grep -cE "\"direction\":\"$1\".*\"operation\":\"$2\".*\"status\":\"NFS4_OK\"" /shared/recall.json || true; }
[ "$(operations reverse CB_RECALL)" -eq 1 ]
[ "$(operations forward DELEGRETURN)" -eq 1 ]
say "PASSED recall"

# The server goes in the middle of calls, and comes back.
"$exercise" until-gone "$server" > /shared/gone.said 2>&1 &
going=$!
sleep 3
on_server 'echo 0 > /proc/fs/nfsd/threads; sleep 2; rpc.nfsd --rdma=20049 8'
wait $going || {
    cat /shared/gone.said
    false
}
cat /shared/gone.said
[ "$(grep -c '^ok ' /shared/gone.said)" -eq 3 ]
say "PASSED server gone and back"

# What keeps it from connecting at all is said in one line, and the exit code is 4.
refused() {
    local line=$1 result=0
    shift
    "$@" probe --server "rdma://$host/" > /dev/null 2> /tmp/refused || result=$?
    cat /tmp/refused
    [ $result -eq 4 ]
    [ "$(wc -l < /tmp/refused)" -eq 1 ]
    grep -q "$line" /tmp/refused
}
cp "$program" /tmp/nfsrdma-inspect
chmod 700 /dev/infiniband/rdma_cm
refused 'operation not permitted: .*run as root' setpriv --reuid 1000 --regid 1000 --clear-groups /tmp/nfsrdma-inspect
say "PASSED no rights"
rdma link delete "${TRANSPORT}0"
refused 'no RDMA device for this route' "$program"
say "PASSED no device"
libraries=$(dirname "$(find /usr/lib -name 'librdmacm.so.1' | head -n 1)")
mount --bind /dev/null "$(readlink -f "$libraries/librdmacm.so.1")"
refused 'librdmacm.so.1 or libibverbs.so.1 cannot be loaded, which RDMA needs; install' "$program"
say "PASSED no library"
