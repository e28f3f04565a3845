# shellcheck shell=bash
# nfs-ganesha takes the place of the kernel's server: /export over TCP, NFSv3 to NFSv4.2. Run on the server.
rpc.nfsd 0
exportfs -ua
mkdir -p /run/ganesha /var/lib/nfs/ganesha
cat > /tmp/ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 3,4; }
NFSV4 { Minor_Versions = 0,1,2; Graceless = true; RecoveryRoot = /var/lib/nfs/ganesha; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Transports = TCP; }
EXPORT { Export_Id = 1; Path = /export; Pseudo = /; FSAL { Name = VFS; } }
END
ganesha.nfsd -f /tmp/ganesha.conf -L /shared/ganesha.log -p /run/ganesha.pid
for _ in $(seq 300); do
    if ss -Hltn "sport = :2049" | grep -q .; then exit 0; fi
    sleep 0.2
done
exit 1
