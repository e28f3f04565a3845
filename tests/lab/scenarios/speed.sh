# shellcheck shell=bash
# How fast a replay is beside the kernel's client: the same operations, as many in flight, on the same server. Each workload is
# recorded once and compiled; then the kernel's client and the replay take turns, RUNS times, and nobody records.
# settings: MEMORY=7168 LIMIT=3000
program=/shared/bin/nfsrdma-inspect
runs=${RUNS:-9}
data=/mnt/nfs/data
# shellcheck disable=SC2154 # client.sh says which host
run=(--server "rdma://$host/?vers=4.2" --same-server)

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
    read-4k) fio_of "$1" --rw=randread --bs=4k --iodepth=16 --size=32m --io_size=8m --randseed=7 ;;
    read-1m) fio_of "$1" --rw=read --bs=1m --iodepth=4 --size=32m ;;
    write-1m) fio_of "$1" --rw=write --bs=1m --iodepth=4 --size=32m ;;
    metadata) python3 -S /lab/guest/metadata.py $data/many300 ;;
    esac
}

# again: mounts anew, so that nothing is remembered.
again() {
    umount /mnt/nfs
    mount_export 4.2 rsize=1048576,wsize=1048576 > /dev/null
}

mount_export 4.2 rsize=1048576,wsize=1048576
dd if=/dev/urandom of=$data/speed bs=1M count=32 status=none
for name in read-4k read-1m write-1m metadata; do
    again
    start_recording "$name"
    work $name > /dev/null
    stop_recording
    "$program" replay compile -q "/shared/$name.pcap" -o "/tmp/$name.trace"
    "$program" replay seed -q "${run[@]}" --directory "speed-$name" "/tmp/$name.trace"
    calls=$("$program" -q -T json "/shared/$name.pcap" | sed -n 's/.*"transactions":\([0-9]*\).*/\1/p')
    for turn in $(seq "$runs"); do
        again
        kernel=$(work $name)
        "$program" replay run "${run[@]}" --directory "speed-$name" --seeded --pace depth -T json "/tmp/$name.trace" \
            > "/shared/$name-$turn.json" 2> "/shared/$name.said" || true
        replay=$(sed -n 's/.*"elapsed_ns":\([0-9]*\).*/\1/p' "/shared/$name-$turn.json")
        echo "$name $turn $calls $kernel $((replay / 1000))" >> /shared/speed
        say "$name: the kernel's client $kernel us, the replay $((replay / 1000)) us"
    done
done
cat /shared/speed
