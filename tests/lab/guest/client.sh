# shellcheck shell=bash
# The NFS client: runs the scenario, which finds here what it needs.
# shellcheck source=tests/lab/guest/machine.sh
. /lab/guest/machine.sh
# shellcheck source=tests/lab/guest/recording.sh
. /lab/guest/recording.sh
trap 'stop_recording; sign client.done' EXIT

case $ADDRESS in
4) host=10.9.0.1 family='' ;;
6) host='[fd09::1]' family=6 ;;
esac

# mount_export VERS [OPTIONS]: the export at /mnt/nfs.
mount_export() {
    local options="vers=$1,hard,timeo=600" path=/
    if [ "$TRANSPORT" = tcp ]; then options+=",proto=tcp$family"; else options+=",proto=rdma$family,port=20049"; fi
    if [ "$1" = 3 ]; then
        options+=",mountproto=tcp$family"
        path=/export
    fi
    options+=${2:+,$2}${MOUNT_OPTIONS:+,$MOUNT_OPTIONS}
    mount -t nfs -o "$options" "$host:$path" /mnt/nfs
    grep /mnt/nfs /proc/mounts
}

# keep_counters: the client's own, which an unmount ends.
keep_counters() { sed -n '/ mounted on \/mnt\/nfs /,$p' /proc/self/mountstats > /shared/client.mountstats; }

# on_server COMMAND: runs it there, says what it said, and gives its exit code.
commands=0
on_server() {
    # What a subshell asked for is not counted here.
    while [ -e "/shared/command.$((commands + 1)).code" ]; do commands=$((commands + 1)); done
    commands=$((commands + 1))
    say "on the server: $1"
    echo "$1" > /shared/command.new
    mv /shared/command.new "/shared/command.$commands"
    await "command.$commands.code"
    cat "/shared/command.$commands.said"
    return "$(cat "/shared/command.$commands.code")"
}

# do_workload: the basic workload. With GRACE_ENDS=CALL+SECONDS the server's grace period ends so long after it comes to that call.
do_workload() { python3 -S /lab/guest/workload.py /mnt/nfs "$VERS" "${GRACE_ENDS:-0+0}" > /shared/client.ops; }

drop_caches() { echo 3 > /proc/sys/vm/drop_caches; }

join_network 2
add_rdma_device
modprobe -a nfs nfsv3 nfsv4
start_rpc
await server.up
if [ -n "$KERBEROS" ]; then
    # shellcheck source=tests/lab/guest/kerberos.sh
    . /lab/guest/kerberos.sh
    kerberos_on_the_client
    host=server.lab
fi

say "the scenario begins"
# shellcheck disable=SC1091 # run puts it there
. /shared/scenario.sh
say "the scenario has ended well"
