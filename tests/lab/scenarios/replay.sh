# shellcheck shell=bash
# Captures driven again against the kernel's server, each recorded: BRING=FILE,... are the captures. What the run says of each comes
# out as NAME.json, what it sent and received as NAME.pcap. What the captured server did because of its own state it does
# again: a small file system is full, and locks are refused until the grace period ends. So does somebody on the server who had
# delegations recalled. With KERBEROS=1 what was signed is signed anew.
# keys: PACE TIMEOUT OPTIONS
# settings: MEMORY=3072 LIMIT=3000
program=/shared/bin/nfsrdma-inspect
security=sys
if [ -n "$KERBEROS" ]; then
    security=krb5
    # Tickets of the machine, as the captured client had.
    export KRB5_CLIENT_KTNAME=/etc/krb5.keytab
fi
refused='nfs.status == 10013 || nlm.stat == 4'

# make_tiny DIRECTORY NUMBER: a file system of 1 MiB that is nearly full, where the captured server had one.
make_tiny() {
    on_server "mkdir -p $1
        mount -t tmpfs -o size=1m tiny $1
        chmod 1777 $1
        dd if=/dev/zero of=$1/fill bs=1k count=1000 status=none
        exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=$2 '*:$1'"
}

# begin_grace SIGN: the server begins anew, with a grace period for locks, which ends at the sign; that for the state of NFSv4,
# which waits for clients that were there before, ends at once.
begin_grace() {
    on_server "echo 0 > /proc/fs/nfsd/threads
        rpc.nfsd --rdma=20049 8
        until grep -q Y /proc/fs/nfsd/v4_end_grace; do echo Y > /proc/fs/nfsd/v4_end_grace; sleep 0.2; done
        (
            until [ -e /shared/$1 ]; do sleep 0.02; done
            echo Y > /proc/fs/lockd/nlm_end_grace
        ) > /dev/null 2>&1 &"
}

# count_refused COUNT SIGN: gives the sign as soon as sign_of has selected so many Transactions.
count_refused() {
    "$program" -l -i eth0 -Y "$sign_of" -c "$1" --summary none > /dev/null 2> /tmp/refused
    sign "$2"
}

# pace_of NAME: that of the capture, but where what happens on the server must come between two Calls that are near to each other:
# a sign takes some tenths of a second to be seen and followed. PACE= is for all.
pace_of() {
    if [ -n "${PACE:-}" ]; then
        echo "$PACE"
        return
    fi
    case $1 in
    # Between the Call that an outsider comes after, and the one that answers him, are 150 ms.
    *-deleg) echo x0.1 ;;
    # The grace period ended within 30 ms of an OPEN.
    siw-v42) echo x0.1 ;;
    # Three GETATTR overlapped with others by less than an emulated machine may be late.
    *-krb5) echo x0.25 ;;
    *) echo captured ;;
    esac
}

# outsider TREE NUMBER: somebody on the server, who waits for a sign before each thing that he does to the files of deleg.sh. What the
# client still asks after the Call of a sign comes within a third of a second.
outsider() {
    on_server "(
        then_do() {
            until [ -e /shared/outsider.$2.\$1 ]; do sleep 0.02; done
            sleep 0.7
            timeout 20 bash -c \"\$2\"
        }
        then_do 1 'echo more >> $1/data/del1'
        then_do 2 'stat -c %s $1/data/del2; head -c 30 $1/data/del2'
        then_do 3 'rm $1/data/del3'
    ) > /shared/outsider.$2.said 2>&1 &"
}

# send_outsider NUMBER COUNT...: gives a sign each time that so many Calls of NFSv4 about open files were answered. OPENs that follow a
# recall are not counted.
send_outsider() {
    local number=$1 seen=0 sent=0
    shift
    "$program" -l -i eth0 -T fields -e frame.number --summary none \
        -Y 'rpc.program == 100003 && nfs.opcode in {4, 18, 25, 38} && !(nfs.open.claim_type == 5)' 2> /tmp/sending |
        while read -r _; do
            seen=$((seen + 1))
            if [ "$seen" -eq "${1:-0}" ]; then
                sent=$((sent + 1))
                sign "outsider.$number.$sent"
                shift
            fi
        done
}

# await_capturing FILE: until the program says there that it captures.
await_capturing() {
    until grep -q '^nfsrdma-inspect: capturing on' "$1"; do
        kill -0 $!
        sleep 0.1
    done
}

replay() {
    local capture=$1 name=$2 number=$3 url top=/export result=0 counting='' sending='' denied sign_of
    local trace=/tmp/$name.trace directory=$name-$number
    # shellcheck disable=SC2154 # client.sh says which host
    url=rdma://$host/
    if [ "$TRANSPORT" = tcp ]; then url=tcp://$host/; fi
    case $name in
    *-v3*)
        url+='export?vers=3'
        top+=/$directory/tree/export
        ;;
    *) top+=/$directory/tree ;;
    esac
    "$program" replay compile -q "$capture" -o "$trace"
    make_tiny "$top/tiny" "$((100 + number))"
    run=(--server "$url" --allow-source-server --directory "$directory")
    "$program" replay seed -q --allow-non-empty "${run[@]}" "$trace"

    # Locks that were refused, or else OPENs without a delegation before the first with one: both end with the grace period. One that is
    # yet to be confirmed has none at any time (OPEN4_RESULT_CONFIRM).
    sign_of=$refused
    denied=$("$program" -Y "$refused" --summary none "$capture" | tail -n +2 | wc -l)
    if [ "$denied" -eq 0 ]; then
        local confirmed='!(nfs.open_rflags & 0x2)'
        sign_of="nfs.open.delegation_type in {0, 3} && $confirmed"
        denied=$("$program" -T fields -e nfs.open.delegation_type -Y "nfs.open.delegation_type && $confirmed" "$capture" |
            awk '/^[03]$/ { none++; next } { given = 1; exit } END { print given ? none + 0 : 0 }')
    fi
    # The grace period of these did not end while they were captured, so that nobody had a delegation.
    case $name in
    *krb5* | *conc*) begin_grace "refused.$number" ;;
    *) if [ "$denied" -gt 0 ]; then begin_grace "refused.$number"; fi ;;
    esac
    start_recording "$name"
    if [ "$denied" -gt 0 ]; then
        : > /tmp/refused
        count_refused "$denied" "refused.$number" &
        counting=$!
        await_capturing /tmp/refused
    fi
    # After the last Call about each file before its delegation was recalled, or the file was looked at.
    local after=()
    case $name in
    *-v40-deleg) after=(4 8 11) ;;
    *-deleg) after=(2 6 9) ;;
    esac
    if [ ${#after[@]} -gt 0 ]; then
        outsider "$top" "$number"
        : > /tmp/sending
        send_outsider "$number" "${after[@]}" &
        sending=$!
        await_capturing /tmp/sending
    fi
    # There a file is removed from outside in the end, which no step of the capture tells.
    local check=()
    case $name in *-deleg) check=(--no-final-check) ;; esac
    # shellcheck disable=SC2086 # OPTIONS are words
    timeout "${TIMEOUT:-200}" "$program" replay run "${run[@]}" --seeded --pace "$(pace_of "$name")" --order captured --chunks captured --delegations as-captured "${check[@]}" \
        --sec "$security" -c 1000 -T json ${OPTIONS:-} "$trace" > "/shared/$name.json" 2> "/shared/$name.said" || result=$?
    stop_recording
    if [ -n "$counting" ]; then
        kill "$counting" 2> /dev/null || true
        wait "$counting" || true
    fi
    if [ -n "$sending" ]; then
        pkill -P "$sending" || true
        wait "$sending" || true
        cat "/shared/outsider.$number.said"
    fi
    sign "refused.$number"
    cat "/shared/$name.said"
    say "$name: exit code $result"
    return $result
}

failed=() number=0
for capture in /shared/brought/*; do
    name=$(basename "$capture" .gz)
    number=$((number + 1))
    replay "$capture" "${name%.pcap}" $number || failed+=("$name")
done
say "not as they were: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
