# shellcheck shell=bash
# Captures replayed at their original times while the server restarts or the network fails. BRING=FILE,... are the captures. Each is replayed
# twice without an interruption, and then once for each moment of each kind (KINDS):
#   restart  nfsd stops and starts again, with a grace period of GRACE seconds, at MOMENTS moments spread over the run
#   loss     all packets are lost on arrival, on both sides, for 5 seconds from the middle of the run on
#   link     the client's link is down for 5 seconds from the middle of the run on. Not over rxe: a packet that it cannot send leaves its queue
#            pair 1 in the state ERR (rdma resource show qp), and no program can connect until the device is made anew.
# interruptions.tsv has one line per run: capture, kind, moment in seconds, seconds, exit code, and the steps per state. A run that ends with
# another exit code than 0, has a mismatch, has other unreplayable steps, or takes longer than twice the run without an interruption, makes
# the scenario fail.
# keys: KINDS MOMENTS GRACE OPTIONS
# settings: MEMORY=3072 LIMIT=6000 KINDS=restart,loss,link MOMENTS=20 GRACE=6
# shellcheck source=tests/lab/guest/replaying.sh
. /lab/guest/replaying.sh

# With KERBEROS=1 and OPTIONS=--sec=krb5, calls are signed with tickets of the machine, as the captured client had them.
if [ -n "$KERBEROS" ]; then export KRB5_CLIENT_KTNAME=/etc/krb5.keytab; fi

# interrupt KIND SECONDS: does it so many seconds after the run has changed the directory data, which is then no longer as in $seeded.
interrupt() {
    [ "$1" != none ] || return 0
    on_server "for _ in \$(seq 1000); do
            [ \"\$(ls -A $top/data)\" = \"\$(ls -A $seeded/data)\" ] || exit 0
            sleep 0.05
        done"
    sleep "$2"
    case $1 in
    restart) on_server "echo 0 > /proc/fs/nfsd/threads; $nfsd; (sleep $GRACE; $end_grace) > /dev/null 2>&1 &" ;;
    loss)
        local lose='modprobe -a sch_ingress cls_matchall act_gact; tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress matchall action drop'
        eval "$lose"
        on_server "$lose; sleep 5; tc qdisc del dev eth0 clsact"
        tc qdisc del dev eth0 clsact
        ;;
    link)
        ip link set eth0 down
        sleep 5
        ip link set eth0 up
        ;;
    esac
}

# replay NAME KIND MOMENT: one run. Sets took, in milliseconds.
replay() {
    local name=$1 kind=$2 moment=$3 result=0 seeded=$top
    local trace=$trace directory=$directory top=$top run=("${run[@]}")
    number=$((number + 1))
    copy_seeded "$name" "$number"
    interrupt "$kind" "$moment" > /tmp/interrupt 2>&1 &
    # shellcheck disable=SC2086 # OPTIONS are words
    timeout 200 "$program" replay run "${run[@]}" --seeded --pace captured -c 1000 -T json ${OPTIONS:-} --record "/tmp/record" "$trace" \
        > "/shared/$name-$kind-$moment.json" 2> "/shared/$name-$kind-$moment.said" || result=$?
    wait $!
    took=$(sed -n 's/.*"elapsed_ns":\([0-9]*\)[0-9]\{6\},.*/\1/p' "/shared/$name-$kind-$moment.json")
    took=${took:-999999}
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$kind" "$moment" "$took" "$result" \
        "$(sed -n 's/.*"states":{\([^}]*\)}.*/\1/p' "/shared/$name-$kind-$moment.json")" | tee -a /shared/interruptions.tsv
    if [ $result -ne 0 ]; then cp /tmp/record "/shared/$name-$kind-$moment.trace"; fi
    rm -f /tmp/record
    # An interruption may cost no step: as many are unreplayable as without one.
    unreplayable=$(sed -n 's/.*"states":{[^}]*"unreplayable":\([0-9]*\).*/\1/p' "/shared/$name-$kind-$moment.json")
    [ $result -eq 0 ]
}

if [ "$TRANSPORT" = rxe ]; then KINDS=${KINDS//link/}; fi
failed=() number=0
for capture in /shared/brought/*; do
    name=$(basename "$capture" .gz)
    name=${name%.pcap}
    number=$((number + 1))
    seed_capture "$capture" "$name" "$number"
    # The first run may take longer: siw loses first calls on a busy host.
    replay "$name" none 1 || failed+=("$name")
    undisturbed=$took lost=$unreplayable
    replay "$name" none 2 || failed+=("$name")
    [ "$took" -ge "$undisturbed" ] || undisturbed=$took
    for kind in ${KINDS//,/ }; do
        moments=1
        # shellcheck disable=SC2153 # run sets it
        if [ "$kind" = restart ]; then moments=$MOMENTS; fi
        for moment in $(seq "$moments"); do
            at=$(awk -v ms="$undisturbed" -v i="$moment" -v n="$moments" 'BEGIN { printf "%.2f", ms / 1000 * (i - 0.5) / n }')
            replay "$name" "$kind" "$at" || failed+=("$name $kind $at: not as captured")
            [ "$unreplayable" = "$lost" ] || failed+=("$name $kind $at: $unreplayable steps unreplayable instead of $lost")
            [ "$took" -le $((2 * undisturbed)) ] || failed+=("$name $kind $at: $took ms instead of $undisturbed")
        done
    done
done
printf '%s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]
