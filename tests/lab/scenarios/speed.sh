# shellcheck shell=bash
# How fast a replay is beside the kernel's client: the same operations, as many in flight at most, on the same server. Each workload is
# recorded once and compiled; then the kernel's client and the replay take turns, RUNS times, and nobody records. Where much
# data moves ib_write_bw takes its turn, too, in the same direction, in the first turns. In the end one replay is recorded, to see where the time goes.
# WORKLOADS=NAME,... are those alone.
# keys: RUNS WORKLOADS
# settings: MEMORY=7168 LIMIT=3000
# Pages of a program that lies on the host's file system come one by one.
program=/tmp/nfsrdma-inspect
cp /shared/bin/nfsrdma-inspect $program
runs=${RUNS:-9}
# Of these it takes its turn in so many: it is slow.
wires=3
data=/mnt/nfs/data
# shellcheck disable=SC2154 # client.sh says which host
run=(--server "rdma://$host/?vers=4.2" --allow-source-server)

# fio_of NAME OPTION...: runs fio, and says the microseconds that it took.
fio_of() {
    local name=$1
    shift
    fio --name="$name" --filename=$data/speed --direct=1 --ioengine=libaio --output-format=terse --terse-version=3 \
        "$@" > "/tmp/fio-$name"
    # Field 9 is the run time of reads in milliseconds, 50 that of writes.
    awk -F ';' '{ print 1000 * ($9 + $50) }' "/tmp/fio-$name"
}

work() {
    case $1 in
    read-4k) fio_of "$1" --rw=randread --bs=4k --iodepth="$(depth_of "$1")" --size=32m --randseed=7 ;;
    read-1m) fio_of "$1" --rw=read --bs=1m --iodepth="$(depth_of "$1")" --size=32m --io_size=128m ;;
    write-1m) fio_of "$1" --rw=write --bs=1m --iodepth="$(depth_of "$1")" --size=32m --io_size=128m ;;
    metadata) python3 -S /lab/guest/metadata.py $data/many300 ;;
    esac
}

# wire_of NAME: the MiB a second of RDMA Writes (or Reads) of 1 MiB, which the server makes as it would for READ (or WRITE).
wire_of() {
    local test
    case $1 in
    read-1m) test=ib_write_bw ;;
    write-1m) test=ib_read_bw ;;
    *)
        echo -
        return
        ;;
    esac
    # It has no way to sleep until a Write is done: it looks all the time, which takes the processor from its device.
    local options="-R -F -d ${TRANSPORT}0 -s 1048576 -n 32 -Q 1"
    # shellcheck disable=SC2086 # they are words
    timeout 30 $test $options > /tmp/wire 2>&1 &
    local waiting=$!
    sleep 1
    on_server "timeout 25 $test $options 10.9.0.2" > /tmp/wire-server || true
    wait $waiting || true
    awk '$1 == 1048576 { print $4; found = 1 } END { exit !found }' /tmp/wire-server || {
        echo -
        cat /tmp/wire /tmp/wire-server >&2
    }
}

# again: mounts anew, so that nothing is remembered.
again() {
    umount /mnt/nfs
    mount_export 4.2 rsize=1048576,wsize=1048576 > /dev/null
}

# depth_of NAME: how many calls work has in flight at most.
depth_of() {
    case $1 in
    read-4k) echo 16 ;;
    *-1m) echo 4 ;;
    *) echo 1 ;;
    esac
}

# replayed NAME TURN: drives what was recorded again as fast as it goes, with as many calls in flight at most.
replayed() {
    "$program" replay run "${run[@]}" --directory "speed-$1" --seeded --pace max --credits "$(depth_of "$1")" -T json "/tmp/$1.trace" \
        > "/shared/$1-$2.json" 2> "/shared/$1.said" || {
        cat "/shared/$1.said"
        return 1
    }
    # Nothing is fast that is left out.
    grep -q '"mismatched":0,"skipped":0,"substituted":[0-9]*,"tolerated":[0-9]*,"unreplayable":0}' "/shared/$1-$2.json"
}

mount_export 4.2 rsize=1048576,wsize=1048576
dd if=/dev/urandom of=$data/speed bs=1M count=32 status=none
IFS=, read -r -a workloads <<< "${WORKLOADS:-read-4k,read-1m,write-1m,metadata}"
for name in "${workloads[@]}"; do
    again
    start_recording "$name"
    work "$name" > /dev/null
    stop_recording
    "$program" replay compile -q "/shared/$name.pcap" -o "/tmp/$name.trace"
    "$program" replay seed -q "${run[@]}" --directory "speed-$name" "/tmp/$name.trace"
    calls=$("$program" -q -T json "/shared/$name.pcap" | sed -n 's/.*"transactions":\([0-9]*\).*/\1/p')
    for turn in $(seq "$runs"); do
        again
        kernel=$(work "$name")
        replayed "$name" "$turn"
        replay=$(sed -n 's/.*"elapsed_ns":\([0-9]*\).*/\1/p' "/shared/$name-$turn.json")
        wire=-
        if [ "$turn" -le "$wires" ]; then wire=$(wire_of "$name"); fi
        echo "$name $turn $calls $kernel $((replay / 1000)) $wire" >> /shared/speed
        say "$name: the kernel's client $kernel us, the replay $((replay / 1000)) us, the wire $wire MiB/s"
    done
    start_recording "$name-replay"
    replayed "$name" recorded
    stop_recording
done
cat /shared/speed
