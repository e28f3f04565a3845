# shellcheck shell=bash
# The capture: tcpdump on eth0, which sees what rxe sends and receives, too. Sourced by the client.
recording=

# start_recording [NAME]: returns when tcpdump listens. stop_recording brings it out as NAME.pcap (client.pcap): SNAPLEN bytes
# of each packet, and only the first PACKETS.
start_recording() {
    recorded=${1:-client}
    tcpdump -i eth0 -Z root -B 65536 -s "$SNAPLEN" --time-stamp-precision=nano ${PACKETS:+-c "$PACKETS"} \
        -w "/tmp/$recorded.pcap" 2> /tmp/tcpdump &
    recording=$!
    local tries
    for tries in $(seq 200); do
        if grep -q listening /tmp/tcpdump; then return; fi
        sleep 0.05
    done
    say "tcpdump does not listen after $tries tries: $(cat /tmp/tcpdump)"
    return 1
}

# stop_recording: gives the last packets time to arrive. A capture that lacks packets is no good.
stop_recording() {
    [ -n "$recording" ] || return 0
    sleep 1
    kill -INT "$recording" 2> /dev/null || true # it has ended if it was for some PACKETS only
    wait "$recording" || true
    recording=
    cat /tmp/tcpdump
    cp "/tmp/$recorded.pcap" /shared/
    grep -q '^0 packets dropped by kernel' /tmp/tcpdump
}
