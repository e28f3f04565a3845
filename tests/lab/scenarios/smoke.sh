# shellcheck shell=bash
# The program in a guest: it asks the server what it offers; then it reads the capture of the basic workload, and must say what the
# kernel counted.
program=/shared/bin/nfsrdma-inspect
$program --version

# ask URL FILE: what the server offers, as people see it, and each LINE after them, of which it must have one that matches.
ask() {
    local url=$1 said=/shared/$2 line
    shift 2
    $program probe --server "$url" > "$said"
    cat "$said"
    for line; do
        grep -Eq "$line" "$said" || { say "probe does not say: $line"; return 1; }
    done
}

fabric=RoCE filled=196
if [ "$TRANSPORT" = siw ]; then fabric=iWARP filled=8; fi
start_recording probe
# shellcheck disable=SC2154 # client.sh says which host
ask "rdma://$host/export?vers=3" probe-v3 '^  READ +[0-9,]+ at most' '^Exports \(MOUNT' '^  /export +'
ask "rdma://$host/" probe-rdma "^  transport +RDMA \($fabric\), device ${TRANSPORT}0$" \
    "^  private data +sent      Send 4,096, Receive 4,096" "^ +received  Send 4,096, Receive 4,096.*, in $filled bytes$" \
    '^  inline +4,096 bytes per call, 4,096 bytes per reply$' '^  credits +[0-9]+ granted, 128 requested$' \
    '^  NULL +.* median of 32$' '^  NFS versions +3, 4$' \
    '^NFSv3$' '^NFSv4.0$' '^NFSv4.1$' '^NFSv4.2$' '^  session +[0-9,]+ slots' '^  root +.*data/'
# What NFSv4 has at its root, NFSv3 has at /export: all minor versions have limits.
[ "$(sed -n '/^NFSv4.0$/,$p' /shared/probe-rdma | grep -c '^  READ .* at most')" -eq 3 ]
ask "tcp://$host/?vers=4.2" probe-tcp '^  transport +TCP$' '^NFSv4.2$'
# Nothing listens there.
result=0
$program probe --server "rdma://$host:20050/" 2> /tmp/refused || result=$?
cat /tmp/refused
[ $result -eq 4 ]
grep -q 'connection refused; check the port' /tmp/refused
stop_recording

start_recording
mount_export "$VERS"
do_workload
# The client may still give back delegations that nobody uses, of its own accord: what the capture has lies between what was
# counted before its end and after it.
keep_counters
mv /shared/client.mountstats /shared/client.mountstats-before
stop_recording
keep_counters
umount /mnt/nfs

$program -T json /shared/client.pcap > /shared/client.json
$program -q /shared/client.pcap
python3 -S /lab/guest/counters.py /shared/client.json /shared/client.mountstats-before /shared/client.mountstats
