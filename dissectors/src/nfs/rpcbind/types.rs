//! What versions 3 and 4 share. RFC 1833 section 2.1.

use crate::rpc::Program;
use crate::rpc::universal_address::UniversalAddress;
use crate::xdr::{Chain, Opaque, Text};

crate::xdr! { "portmap";
    /// rpcb: a program, and where it listens. RFC 1833 section 2.1.
    struct Rpcb<'a> {
        r_prog: Program => "portmap.rpcb.prog",
        r_vers: u32 => "portmap.rpcb.version",
        /// `tcp`, `udp6`, `rdma` and the like: RFC 5665 section 5, and RFC 8166 section 9 for RDMA.
        r_netid: Text<'a> => "portmap.rpcb.netid",
        /// Over IP: address and port in one, `192.0.2.1.78.81` for port 20049. RFC 5665 section 5.2.3.
        r_addr: UniversalAddress<'a> => "portmap.rpcb.addr",
        r_owner: Text<'a> => "portmap.rpcb.owner",
    }

    /// rpcblist_ptr. RFC 1833 section 2.1.
    struct Rpcblist<'a> { rpcblist: Chain<'a, Rpcb<'a>> => "portmap.rpcb" }

    /// rpcb_rmtcallargs: the program is asked with these arguments in its own XDR. RFC 1833 section 2.1.
    struct RpcbRmtcallargs<'a> {
        prog: Program,
        vers: u32 => "portmap.version",
        proc: u32,
        args: Opaque<'a>,
    }

    /// rpcb_rmtcallres: where the program listens, and what it answered. RFC 1833 section 2.1.
    struct RpcbRmtcallres<'a> { addr: UniversalAddress<'a> => "portmap.rpcb.addr", results: Opaque<'a> => "portmap.result" }

    /// netbuf: an address in the form of its transport. RFC 1833 section 2.1.
    struct Netbuf<'a> { maxlen: u32, buf: Opaque<'a> }

    /// A universal address, asked for or given: empty where there is none. RFC 1833 section 2.2.1.
    struct Uaddr<'a> { uaddr: UniversalAddress<'a> }

    /// Whether SET or UNSET was done. RFC 1833 section 2.2.1.
    struct RpcbindSetRes { answer: bool }

    /// What GETTIME answers: seconds since 1970-01-01 00:00:00 UTC. RFC 1833 section 2.2.1.
    struct Time { time: u32 }
}
