# shellcheck shell=bash
# The NFS server: the kernel's, over RDMA and TCP, with NFSv3 to NFSv4.2. Does what the client asks for until that is done.
# shellcheck source=tests/lab/guest/machine.sh
. /lab/guest/machine.sh
join_network 1
add_rdma_device

# XFS, since it can clone files, on a file in memory; and a file system of 1 MiB that is nearly full.
modprobe -a loop xfs nfsd
truncate -s 3G /tmp/export
mkfs.xfs -q -m reflink=1 /tmp/export
mount -o loop /tmp/export /export
mkdir -p /export/{tiny,priv,data}
chmod 0755 /export
chmod 0700 /export/priv
chmod 1777 /export/data
mkdir /export/data/many300
for number in $(seq -w 300); do : > "/export/data/many300/file-with-a-longer-name-$number"; done
mount -t tmpfs -o size=1m tiny /export/tiny
chmod 1777 /export/tiny
dd if=/dev/zero of=/export/tiny/fill bs=1k count=1000 status=none

security=sys
[ -z "$KERBEROS" ] || security=sys:krb5:krb5i:krb5p
options="rw,sec=$security,no_root_squash,insecure,no_subtree_check"
cat > /etc/exports <<END
/export *(sync,fsid=0,crossmnt,$options)
/export/tiny *(sync,fsid=7,$options)
END
cat > /etc/nfs.conf <<END
[nfsd]
grace-time=240
lease-time=60
vers3=y
vers4.0=y
[mountd]
manage-gids=n
END

start_rpc
mkdir -p /var/lib/nfs/{v4recovery,nfsdcld}
touch /var/lib/nfs/{etab,rmtab}
mount -t nfsd nfsd /proc/fs/nfsd
modprobe lockd
nfsdcld
if [ -n "$KERBEROS" ]; then
    # shellcheck source=tests/lab/guest/kerberos.sh
    . /lab/guest/kerberos.sh
    kerberos_on_the_server
fi
exportfs -ra
rpc.mountd
if [ "$TRANSPORT" = tcp ]; then rpc.nfsd 8; else rpc.nfsd --rdma=20049 8; fi
# nfsd has no clients to wait for, and so no grace period; but that of lockd holds back locks of NFSv4, too, and delegations.
# It would end after a time, and what a capture holds would follow from how fast the machine is.
end_grace() {
    echo Y > /proc/fs/lockd/nlm_end_grace
    say "the grace period is over"
    sign grace.over
}
if [ -z "$GRACE_ENDS" ]; then
    end_grace
else
    (
        await grace.end || exit 0
        end_grace
    ) &
fi
cat /proc/fs/nfsd/{portlist,versions}
exportfs -v
say "the server is up"
sign server.up

command=1
until [ -e /shared/client.done ] || [ -e /shared/client.result ]; do
    if [ -e /shared/command.$command ]; then
        say "command: $(cat /shared/command.$command)"
        result=0
        bash /shared/command.$command > /shared/command.$command.said 2>&1 || result=$?
        echo $result > /shared/command.$command.new
        mv /shared/command.$command.new /shared/command.$command.code
        command=$((command + 1))
    fi
    sleep 0.1
done
cat /proc/net/rpc/nfsd > /shared/server.nfsd-stats
