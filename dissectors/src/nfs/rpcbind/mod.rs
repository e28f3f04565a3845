//! The port mapper (version 2) and its successor RPCBIND (versions 3 and 4), which return the address of a program. RFC
//! 1833.
//!
//! No procedure has a status: port 0, an empty address or FALSE mark an unregistered program.

pub mod v2;
pub mod v3;
pub mod v4;

use crate::rpc::program::Program;
use crate::rpc::universal_address::UniversalAddress;
use crate::xdr::{Opaque, Text, XdrLinkedList};

crate::xdr! { "portmap";
    /// rpcb: a program and its address. RFC 1833 section 2.1.
    struct Rpcb<'a> {
        r_prog: Program => "portmap.rpcb.prog",
        r_vers: u32 => "portmap.rpcb.version",
        /// `tcp`, `udp6`, `rdma` and the like: RFC 5665 section 5, and RFC 8166 section 9 for RDMA.
        r_netid: Text<'a> => "portmap.rpcb.netid",
        /// Over IP: address and port, `192.0.2.1.78.81` for port 20049. RFC 5665 section 5.2.3.
        r_addr: UniversalAddress<'a> => "portmap.rpcb.addr",
        r_owner: Text<'a> => "portmap.rpcb.owner",
    }

    /// rpcblist_ptr. RFC 1833 section 2.1.
    struct Rpcblist<'a> { rpcblist: XdrLinkedList<'a, Rpcb<'a>> => "portmap.rpcb" }

    /// rpcb_rmtcallargs: the call to forward; the arguments are in the XDR of the program. RFC 1833 section 2.1.
    struct RpcbRmtcallargs<'a> {
        prog: Program,
        vers: u32 => "portmap.version",
        proc: u32,
        args: Opaque<'a>,
    }

    /// rpcb_rmtcallres: the address of the program, and its results. RFC 1833 section 2.1.
    struct RpcbRmtcallres<'a> { addr: UniversalAddress<'a> => "portmap.rpcb.addr", results: Opaque<'a> => "portmap.result" }

    /// netbuf: an address in the format of its transport. RFC 1833 section 2.1.
    struct Netbuf<'a> { maxlen: u32, buf: Opaque<'a> }

    /// A universal address, requested or returned; empty if there is none. RFC 1833 section 2.2.1.
    struct Uaddr<'a> { uaddr: UniversalAddress<'a> }

    /// Result of SET or UNSET: TRUE on success. RFC 1833 section 2.2.1.
    struct RpcbindSetRes { answer: bool }

    /// Result of GETTIME: seconds since 1970-01-01 00:00:00 UTC. RFC 1833 section 2.2.1.
    struct RpcbindGettimeRes { time: u32 }
}

#[cfg(test)]
pub(super) mod tests;
