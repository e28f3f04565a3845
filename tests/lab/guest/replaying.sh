# shellcheck shell=bash
# What the scenarios that replay captures share. Sourced by them.
program=/shared/bin/nfsrdma-inspect
# shellcheck disable=SC2034 # scenarios use them
{
    nfsd='rpc.nfsd --rdma=20049 8'
    if [ "$TRANSPORT" = tcp ]; then nfsd='rpc.nfsd 8'; fi
    end_nfs_grace='until grep -q Y /proc/fs/nfsd/v4_end_grace; do echo Y > /proc/fs/nfsd/v4_end_grace; sleep 0.2; done'
    end_grace="$end_nfs_grace; echo Y > /proc/fs/lockd/nlm_end_grace"
}
SERVER=${SERVER:-} squash=no_root_squash

# make_tiny DIRECTORY NUMBER: a file system of 1 MiB that is nearly full, where the captured server had one.
make_tiny() {
    on_server "mkdir -p $1
        mount -t tmpfs -o size=1m tiny $1
        chmod 1777 $1
        dd if=/dev/zero of=$1/fill bs=1k count=1000 status=none
        exportfs -o rw,$squash,insecure,no_subtree_check,fsid=$2 '*:$1'"
}

# seed_capture CAPTURE NAME NUMBER: compiles the capture and seeds its tree. Sets trace, directory, top (the tree on the server) and run (the
# options of replay run).
seed_capture() {
    local capture=$1 name=$2 number=$3 url
    trace=/tmp/$name.trace directory=$name-$number
    # shellcheck disable=SC2154 # client.sh sets host
    url=rdma://$host/
    if [ "$TRANSPORT" = tcp ]; then url=tcp://$host/; fi
    top=/export/$directory/tree
    case $name in
    *-v3*)
        url+='export?vers=3'
        top+=/export
        ;;
    esac
    "$program" replay compile -q "$capture" -o "$trace"
    case $SERVER in
    # A file system that is mounted now is none of its exports.
    ganesha) ;;
    *) make_tiny "$top/tiny" "$((100 + number))" ;;
    esac
    # Root is nobody there, who must own what the run fills.
    if [ "$SERVER" = squash ]; then on_server "find /export/$directory -xdev -exec chown nobody:nogroup {} +"; fi
    run=(--server "$url" --allow-source-server --directory "$directory")
    "$program" replay seed -q --allow-non-empty "${run[@]}" "$trace"
}

# copy_seeded NAME NUMBER: another directory as the last one that seed_capture made, which no run has used. Sets directory, top and run.
copy_seeded() {
    local name=$1 number=$2 from=/export/$directory from_top=$top
    directory=$name-$number
    top=/export/$directory${top#"$from"}
    run[4]=$directory
    on_server "cp -a -x --reflink=always $from /export/$directory"
    make_tiny "$top/tiny" "$((100 + number))"
    on_server "cp -a $from_top/tiny/. $top/tiny/"
}
