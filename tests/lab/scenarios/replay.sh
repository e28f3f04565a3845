# shellcheck shell=bash
# Captures driven again against the kernel's server, each recorded: BRING=FILE,... are the captures. What the run says of each comes
# out as NAME.json, what it sent and received as NAME.pcap.
# settings: MEMORY=3072 LIMIT=1500
program=/shared/bin/nfsrdma-inspect
# The grace period of the server is over since it is up: nothing waits for it.
result=0
for capture in /shared/brought/*; do
    name=$(basename "$capture" .gz)
    name=${name%.pcap}
    # shellcheck disable=SC2154 # client.sh says which host
    url=rdma://$host/
    if [ "$TRANSPORT" = tcp ]; then url=tcp://$host/; fi
    case $name in
    *-v3*) url+='export?vers=3' ;;
    esac
    trace=/tmp/$name.trace
    "$program" replay compile -q "$capture" -o "$trace"
    run=(--server "$url" --same-server --directory "$name-$$")
    "$program" replay seed -q "${run[@]}" "$trace"
    start_recording "$name"
    code=0
    # shellcheck disable=SC2086 # OPTIONS are words
    timeout "${TIMEOUT:-200}" "$program" replay run "${run[@]}" --seeded --chunks captured -c 1000 -T json ${OPTIONS:-} "$trace" \
        > "/shared/$name.json" 2> "/shared/$name.said" || code=$?
    stop_recording
    cat "/shared/$name.said"
    say "$name: exit code $code"
    [ $code -eq 0 ] || result=1
done
[ $result -eq 0 ]
