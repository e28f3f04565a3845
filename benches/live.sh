#!/usr/bin/env bash
# Live capture beside tcpdump, on a wire between two network namespaces: benches/live.sh [CAPTURE [SECONDS]]
#
# First the highest rate is looked for at which `tcpdump -w` loses nothing, in each of five runs; then what the program loses
# at that rate, as `capture -w` and with all its decoding, and what it says of its losses at the highest rate of the wire.
# Needs root, ip and tcpdump.
set -euo pipefail
cd "$(dirname "$0")/.."

capture=${1:-captures/rxe-v42.pcap}
seconds=${2:-3}
runs=5
target=${CARGO_TARGET_DIR:-target}/dist
program=$target/nfsrdma-inspect
player=$target/examples/play
cargo build --profile dist --locked --bin nfsrdma-inspect --example play

work=$(mktemp -d)
tag=nfsbench$$
trap 'ip netns del ${tag}a 2>/dev/null; ip netns del ${tag}b 2>/dev/null; rm -rf "$work"' EXIT
# nobody writes here, after the rights of root are given up.
chmod 777 "$work"
ip netns add ${tag}a
ip netns add ${tag}b
ip -n ${tag}a link add nfs0 mtu 9500 type veth peer name nfs1 mtu 9500 netns ${tag}b
for end in "a nfs0" "b nfs1"; do
    read -r side interface <<<"$end"
    ip -n $tag$side link set "$interface" addrgenmode none
    ip -n $tag$side link set "$interface" up
done

frames=$($program -q --summary json --view frames "$capture" | grep -o '"frames":[0-9]*' | head -1 | cut -d: -f2)

# play RATE: sends for some seconds at so many packets a second; 0 is as fast as it goes. Prints how fast that was.
play() {
    local times=$((seconds * ${1} / frames + 1))
    if [ "$1" -eq 0 ]; then
        ip netns exec ${tag}a "$player" nfs0 "$capture" $((seconds * 300000 / frames + 1))
    else
        ip netns exec ${tag}a "$player" nfs0 "$capture" "$times" "$1"
    fi | sed 's/.*, \(.*\) a second/\1/'
}

# What the wire took and did not lose itself.
carried() { ip netns exec ${tag}a cat /sys/class/net/nfs0/statistics/tx_packets; }

median() { sort -n | sed -n "$(((runs + 1) / 2))p"; }

# lost_by_tcpdump RATE: packets that the kernel dropped of what tcpdump was to write.
lost_by_tcpdump() {
    ip netns exec ${tag}b tcpdump -i nfs1 -B 65536 -w "$work/tcpdump.pcap" -Z root 2>"$work/tcpdump.log" &
    local pid=$!
    until grep -q 'listening on' "$work/tcpdump.log"; do sleep 0.05; done
    sleep 0.2
    play "$1" >"$work/rate"
    sleep 0.5
    kill -INT $pid
    wait $pid || true
    sed -n 's/\([0-9]*\) packets dropped by kernel/\1/p' "$work/tcpdump.log"
}

# lost RATE ARGUMENT...: what the program lost, by kernel, interface and itself, and whether its counts agree.
lost() {
    local rate=$1 before after
    shift
    ip netns exec ${tag}b "$program" "$@" >"$work/out" 2>"$work/err" &
    local pid=$!
    until grep -q 'capturing on' "$work/err"; do sleep 0.05; done
    sleep 0.2
    before=$(carried)
    play "$rate" >"$work/rate"
    after=$(carried)
    sleep 0.5
    kill -INT $pid
    wait $pid
    sent=$((after - before))
}

# counts: of the JSON summary in the output.
counts() {
    tail -1 "$work/out" | grep -o '"capture":{[^}]*}' | tr -d '"{}' | sed 's/^capture://; s/,/ /g'
}

echo "machine: $(nproc) processors, $(uname -r); $(tcpdump --version 2>&1 | tr '\n' ' ')"
echo "capture: $capture, $frames frames; $seconds s a run, $runs runs"

low=10000
high=1600000
while [ $((high - low)) -gt $((low / 20)) ]; do
    rate=$(((low + high) / 2))
    worst=$(lost_by_tcpdump $rate)
    # What the player does not reach is no rate that was held.
    reached=$(cut -d. -f1 "$work/rate")
    if [ "$worst" -eq 0 ] && [ "$reached" -gt $((rate * 95 / 100)) ]; then low=$rate; else high=$rate; fi
done
echo "tcpdump -w holds about $low packets a second; $runs runs at it:"
for _ in $(seq $runs); do lost_by_tcpdump $low; done | tee "$work/tcpdump.lost" | tr '\n' ' '
echo "dropped, median $(median <"$work/tcpdump.lost")"

for what in "capture -w" "all decoding, JSON of every Transaction"; do
    echo "nfsrdma-inspect, $what, at $low packets a second:"
    : >"$work/lost"
    for _ in $(seq $runs); do
        if [ "$what" = "capture -w" ]; then
            lost $low capture -i nfs1 -f '' -w "$work/own.pcapng"
            line=$(tail -1 "$work/err")
            echo "  sent $sent at $(cat "$work/rate") a second: ${line#*: }"
            sed -n 's/.*dropped: \([0-9]*\) by the kernel, \([0-9]*\) by the interface, \([0-9]*\) here/\1 \2 \3/p' \
                <<<"$line" | awk '{ print $1 + $2 + $3 }' >>"$work/lost"
        else
            lost $low -i nfs1 -f '' -T json
            echo "  sent $sent at $(cat "$work/rate") a second: $(counts)"
            tail -1 "$work/out" | grep -o '"dropped":[0-9]*' | cut -d: -f2 >>"$work/lost"
        fi
    done
    echo "  dropped, median: $(median <"$work/lost")"
done

echo "as fast as the wire takes them, in little memory (-B 2 --max-queue-bytes 4M):"
for _ in $(seq $runs); do
    lost 0 -i nfs1 -f '' -T json -B 2 --max-queue-bytes 4M
    echo "  sent $sent at $(cat "$work/rate") a second: $(counts)"
    counts | tr ' ' '\n' | awk -F: '{ count[$1] = $2 } END {
        if (count["received"] - count["dropped_by_kernel"] != count["captured"]) print "  received - dropped_by_kernel is not captured"
        if (count["decoded"] + count["dropped_by_program"] != count["captured"]) print "  decoded + dropped_by_program is not captured"
    }'
    [ "$(counts | tr ' ' '\n' | sed -n 's/received://p')" -eq "$sent" ] || echo "  received is not what was sent"
done
