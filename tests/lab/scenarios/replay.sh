# shellcheck shell=bash
# Replays captures (BRING=FILE,...) against the kernel's server, and records each run. The report of each run is written
# to NAME.json, and its packets to NAME.pcap. The server repeats what the captured server did because of its state
# again: a small file system is full, and locks are refused until the grace period ends. So does somebody on the server who had
# delegations recalled. With KERBEROS=1 what was signed is signed anew.
#
# SERVER names a server that repeats nothing of that, but for the small file system:
#   plain       the kernel's
#   limits      the kernel's, with at most MAX_KIB (64) KiB in a READ or WRITE
#   squash      the kernel's, with root_squash
#   undelegated the kernel's, without delegations
#   grace       the kernel's, in the grace period for NFSv4 and locks during the first ten seconds of each run
#   ganesha     nfs-ganesha (TRANSPORT=tcp), without the small file system
# keys: PACE TIMEOUT OPTIONS SERVER MAX_KIB
# settings: MEMORY=3072 LIMIT=3000
# shellcheck source=tests/lab/guest/replaying.sh
. /lab/guest/replaying.sh
security=sys
if [ -n "$KERBEROS" ]; then
    security=krb5
    # Tickets of the machine, as the captured client had.
    export KRB5_CLIENT_KTNAME=/etc/krb5.keytab
fi
refused='nfs.status == 10013 || nlm.stat == 4'

# limit_blocks KIB: limits READ and WRITE. The limit cannot change while nfsd runs.
limit_blocks() {
    on_server "echo 0 > /proc/fs/nfsd/threads; echo $(($1 * 1024)) > /proc/fs/nfsd/max_block_size; $nfsd; $end_grace"
}

# become SERVER: makes the server that one.
become() {
    case $1 in
    '' | plain | grace) ;;
    limits) limit_blocks "${MAX_KIB:-64}" ;;
    # As for everybody who is not root, the directory of the export must be writable.
    squash)
        squash=root_squash
        on_server 'sed -i s/no_root_squash/root_squash/ /etc/exports; exportfs -ua; exportfs -ra; chmod 1777 /export'
        ;;
    undelegated) on_server 'echo 0 > /proc/sys/fs/leases-enable' ;;
    ganesha) on_server 'pkill rpc.mountd; bash /lab/guest/ganesha.sh' ;;
    *)
        say "there is no SERVER $1"
        return 1
        ;;
    esac
}

# begin_long_grace: the server begins anew. A client of NFSv4 that was there before, and does not come back, makes it wait.
begin_long_grace() {
    on_server "echo 0 > /proc/fs/nfsd/threads
        python3 -S - <<END
import sqlite3
record = sqlite3.connect('/var/lib/nfs/nfsdcld/main.sqlite')
(epoch,), = record.execute('select current from grace')
record.execute(f'insert or replace into \"rec-{epoch:016x}\" (id) values (?)', (b'somebody else',))
record.commit()
END
        $nfsd
        dmesg | grep 'grace period' | tail -n 1
        (
            sleep 10
            $end_grace
        ) > /dev/null 2>&1 &"
}

# begin_grace SIGN: the server begins anew, with a grace period for locks, which ends at the sign; that for the state of NFSv4,
# which waits for clients that were there before, ends at once.
begin_grace() {
    on_server "echo 0 > /proc/fs/nfsd/threads
        $nfsd
        $end_nfs_grace
        (
            until [ -e /shared/$1 ]; do sleep 0.02; done
            echo Y > /proc/fs/lockd/nlm_end_grace
        ) > /dev/null 2>&1 &"
}

# count_refused COUNT SIGN: gives the sign as soon as sign_of has selected so many transactions.
count_refused() {
    "$program" -l -i eth0 -Y "$sign_of" -c "$1" --summary none > /dev/null 2> /tmp/refused
    sign "$2"
}

# pace_of NAME: that of the capture, but where what happens on the server must come between two calls that are near to each other:
# a sign takes some tenths of a second to be seen and followed. PACE= is for all.
pace_of() {
    if [ -n "${PACE:-}" ]; then
        echo "$PACE"
        return
    fi
    case $1${SERVER:+-$SERVER} in
    # Between the call that an outsider comes after, and the one that answers him, are 150 ms.
    *-deleg | *-cb-getattr) echo x0.1 ;;
    # The grace period ended within 30 ms of an OPEN.
    siw-v42) echo x0.1 ;;
    # Three GETATTR overlapped with others by less than an emulated machine may be late.
    *-krb5) echo x0.25 ;;
    *) echo captured ;;
    esac
}

# outsider TREE NUMBER: somebody on the server, who waits for a sign before each thing that he does to the files of deleg.sh. What the
# client still asks after the call of a sign comes within a third of a second.
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

# looker TREE NUMBER: another client, the server itself over TCP, that looks at the file of cb-getattr.sh again and again until the sign.
looker() {
    on_server "mkdir -p /mnt/self
        mountpoint -q /mnt/self || mount -t nfs4 -o vers=4.2,noac 127.0.0.1:/ /mnt/self
        (
            until [ -e /shared/looker.$2 ]; do
                timeout 20 stat -c %s /mnt/self/${1#/export/}/data/ga
                sleep 0.3
            done
        ) > /shared/looker.$2.said 2>&1 &"
}

# send_outsider NUMBER COUNT...: gives a sign each time that so many calls of NFSv4 about open files were answered. OPENs that follow a
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

# as_captured CAPTURE NAME NUMBER: begins a grace period where the captured server was in one, and says in denied and sign_of which
# Transactions end it.
as_captured() {
    local confirmed='!(nfs.open_rflags & 0x2)'
    # Locks that were refused, or else OPENs without a delegation before the first with one: both end with the grace period. One that is
    # yet to be confirmed has none at any time (OPEN4_RESULT_CONFIRM).
    sign_of=$refused
    denied=$("$program" -Y "$refused" --summary none "$1" | tail -n +2 | wc -l)
    if [ "$denied" -eq 0 ]; then
        sign_of="nfs.open.delegation_type in {0, 3} && $confirmed"
        denied=$("$program" -T fields -e nfs.open.delegation_type -Y "nfs.open.delegation_type && $confirmed" "$1" |
            awk '/^[03]$/ { none++; next } { given = 1; exit } END { print given ? none + 0 : 0 }')
    fi
    # The grace period of these did not end while they were captured, so that nobody had a delegation.
    case $2 in
    *krb5* | *conc* | *large*) begin_grace "refused.$3" ;;
    *) if [ "$denied" -gt 0 ]; then begin_grace "refused.$3"; fi ;;
    esac
}

replay() {
    local capture=$1 name=$2 number=$3 trace directory top run result=0 counting='' sending='' denied sign_of
    seed_capture "$capture" "$name" "$number" || return

    denied=0
    case $SERVER in
    '') as_captured "$capture" "$name" "$number" ;;
    grace) begin_long_grace ;;
    esac
    # nfsd's counters around the run.
    on_server "cat /proc/net/rpc/nfsd > /shared/$name.nfsd-before"
    start_recording "$name"
    if [ "$denied" -gt 0 ]; then
        : > /tmp/refused
        count_refused "$denied" "refused.$number" &
        counting=$!
        await_capturing /tmp/refused
    fi
    # After the last call about each file before its delegation was recalled, or the file was looked at.
    local after=()
    case $name${SERVER:+-$SERVER} in
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
    local looks=''
    case $name${SERVER:+-$SERVER} in
    *-cb-getattr)
        looker "$top" "$number"
        looks=1
        ;;
    esac
    # There a file is removed from outside in the end, which no step of the capture tells.
    local check=()
    case $name${SERVER:+-$SERVER} in *-deleg) check=(--no-final-check) ;; esac
    # Another server is asked as it is by default.
    local how=(--order captured --chunks captured --delegations as-captured)
    [ -z "$SERVER" ] || how=()
    # shellcheck disable=SC2086 # OPTIONS are words
    timeout "${TIMEOUT:-200}" "$program" replay run "${run[@]}" --seeded --pace "$(pace_of "$name")" "${how[@]}" "${check[@]}" \
        --sec "$security" -c 1000 -T json ${OPTIONS:-} "$trace" > "/shared/$name.json" 2> "/shared/$name.said" || result=$?
    stop_recording
    on_server "cat /proc/net/rpc/nfsd > /shared/$name.nfsd-after"
    if [ -n "$counting" ]; then
        kill "$counting" 2> /dev/null || true
        wait "$counting" || true
    fi
    if [ -n "$sending" ]; then
        pkill -P "$sending" || true
        wait "$sending" || true
        cat "/shared/outsider.$number.said"
    fi
    if [ -n "$looks" ]; then
        sign "looker.$number"
        # Its client would renew its lease while the operations of later runs are counted.
        on_server "timeout 30 bash -c 'until umount /mnt/self 2> /dev/null; do sleep 0.3; done'"
        say "sizes that the other client saw: $(sort "/shared/looker.$number.said" | uniq -c | tr '\n' ';')"
        if ! grep -q '"callbacks":{[^}]*"CB_GETATTR":[1-9]' "/shared/$name.json"; then
            say "$name: the server has not asked for attributes"
            result=1
        fi
    fi
    sign "refused.$number"
    cat "/shared/$name.said"
    say "$name: exit code $result"
    return $result
}

become "$SERVER"
failed=() number=0
for capture in /shared/brought/*; do
    name=$(basename "$capture" .gz)
    name=${name%.pcap}
    number=$((number + 1))
    # The captured server accepted 1 MiB, which is more than the default.
    large=''
    case $name-$SERVER in
    *-large-limits | *-large-ganesha) ;;
    *-large-*) large=1 ;;
    esac
    if [ -n "$large" ]; then
        default=$(on_server 'cat /proc/fs/nfsd/max_block_size' | tail -n 1)
        limit_blocks 1024
    fi
    replay "$capture" "$name" $number || failed+=("$name")
    if [ -n "$large" ]; then limit_blocks $((default / 1024)); fi
done
say "not as they were: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
