# shellcheck shell=bash
# The file system of a guest, without kernels: NFS and RDMA as Debian has them, and the tools of the scenarios.
set -euo pipefail
lab=$1 scripts=$2 guest=$1/guest
packages=(
    nfs-kernel-server nfs-common rpcbind                             # both sides of NFS
    nfs-ganesha nfs-ganesha-vfs                                      # another server
    libibverbs1 librdmacm1t64 ibverbs-providers                      # what a user-space program of RDMA loads
    ibverbs-utils rdmacm-utils perftest                              # and tools to look at it
    iproute2 ethtool iputils-ping tcpdump                            # network
    kmod procps util-linux keyutils                                  # machine
    xfsprogs acl attr nfs4-acl-tools fio strace python3              # workloads
    krb5-kdc krb5-admin-server krb5-user libsasl2-modules-gssapi-mit # Kerberos
)
rm -rf "$guest"
cp -a "$lab/base" "$guest"
"$scripts/inside" "$guest" -- sh -c 'apt-get -qq install --no-install-recommends -y "$@" && apt-get clean' sh "${packages[@]}"
rm -rf "$guest"/var/lib/apt/lists/* "$guest"/usr/share/{doc,man,locale}/* "$guest"/etc/apt/sources.list
mkdir -p "$guest"/{lab,shared,export,mnt/nfs}
# rpc.mountd reads it, and does not live without.
ln -sf /proc/self/mounts "$guest/etc/mtab"
