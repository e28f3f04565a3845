# shellcheck shell=bash
# What both machines do: settings, signs to each other, network, RDMA device. Sourced by the roles.
set -euo pipefail

# The settings of `run`, and what they are where it names none.
# shellcheck disable=SC2034 # roles and scenarios read them
{
    TRANSPORT=rxe VERS=4.2 ADDRESS=4 MTU=1500 SNAPLEN=0 PACKETS='' SIW=siw
    MOUNT_OPTIONS='' LOSS='' GRACE_ENDS='' KERBEROS=''
}
# shellcheck disable=SC1091 # run writes it
. /shared/settings

say() { echo "[$(cut -d ' ' -f 1 /proc/uptime)] $*"; }

# sign NAME: tells the other machine. await NAME: waits for it, until the other machine has ended, or LIMIT ends both.
sign() { : > "/shared/$1"; }
await() {
    until [ -e "/shared/$1" ]; do
        sleep 0.1
        if compgen -G '/shared/*.result' > /dev/null; then
            say "the other machine has ended while this one waits for $1"
            return 1
        fi
    done
}

# join_network HOST: 10.9.0.HOST and fd09::HOST on eth0. Without offloads, frames look as they do on the wire.
join_network() {
    modprobe virtio_net
    ip link set eth0 mtu "$MTU"
    ethtool -K eth0 tso off gso off gro off tx off rx off sg off > /dev/null
    echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
    ip link set eth0 up
    ip address add "10.9.0.$1/24" dev eth0
    ip address add "fd09::$1/64" dev eth0 nodad
}

# add_rdma_device: rxe0 or siw0 on eth0. SIW=siw-crc is the build of siw that demands the CRC of MPA.
add_rdma_device() {
    case $TRANSPORT in
    rxe) modprobe rdma_rxe ;;
    siw)
        if [ "$SIW" = siw ]; then
            modprobe siw
        else
            modprobe -a ib_core iw_cm ib_uverbs
            insmod "/shared/$SIW.ko"
        fi
        ;;
    tcp) return ;;
    *)
        say "there is no TRANSPORT $TRANSPORT: rxe, siw or tcp"
        return 1
        ;;
    esac
    rdma link add "${TRANSPORT}0" type "$TRANSPORT" netdev eth0
    modprobe -a ib_uverbs rdma_cm rdma_ucm rpcrdma
    rdma link show
}

# start_rpc: what both sides of NFSv3 need, and the pipes of the kernel.
start_rpc() {
    mkdir -p /var/lib/nfs/{rpc_pipefs,sm,sm.bak}
    touch /var/lib/nfs/state
    modprobe sunrpc
    mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
    rpcbind -w
    rpc.statd --no-notify
}
