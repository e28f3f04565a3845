//! Version 4 of RPCBIND: adds the versions of a program, all its addresses, and statistics. RFC 1833 section 2.

use super::{Netbuf, Rpcb, RpcbRmtcallargs, RpcbRmtcallres, RpcbindGettimeRes, RpcbindSetRes, Rpcblist, Uaddr};
use crate::rpc::program::Program;
use crate::rpc::universal_address::UniversalAddress;
use crate::xdr::{Text, Void, XdrLinkedList};

crate::xdr! { "portmap";
    /// Transport semantics. RFC 1833 section 2.1.
    open_enum NetconfigSemantics { NC_TPI_CLTS = 1, NC_TPI_COTS = 2, NC_TPI_COTS_ORD = 3, NC_TPI_RAW = 4 }

    /// rpcb_entry: an address of a program, and its transport. RFC 1833 section 2.1.
    struct RpcbEntry<'a> {
        r_maddr: UniversalAddress<'a> => "portmap.rpcb.addr",
        r_nc_netid: Text<'a> => "portmap.rpcb.netid",
        r_nc_semantics: NetconfigSemantics,
        r_nc_protofmly: Text<'a>,
        r_nc_proto: Text<'a>,
    }

    /// rpcb_entry_list_ptr. RFC 1833 section 2.1.
    struct RpcbEntryList<'a> { rpcb_entry_list: XdrLinkedList<'a, RpcbEntry<'a>> => "portmap.rpcb_entry" }

    /// rpcbs_addrlist: the number of address requests for a program. RFC 1833 section 2.1.
    struct RpcbsAddrlist<'a> {
        prog: Program,
        vers: u32 => "portmap.version",
        success: i32,
        failure: i32,
        netid: Text<'a> => "portmap.rpcb.netid",
    }

    /// rpcbs_rmtcalllist: the number of calls of a procedure through RPCBIND. RFC 1833 section 2.1.
    struct RpcbsRmtcalllist<'a> {
        prog: Program,
        vers: u32 => "portmap.version",
        proc: u32,
        success: i32,
        failure: i32,
        /// Distinguishes CALLIT from INDIRECT.
        indirect: i32,
        netid: Text<'a> => "portmap.rpcb.netid",
    }

    /// rpcb_stat: the requests to one version. RFC 1833 section 2.1.
    struct RpcbStat<'a> {
        /// rpcbs_proc: number of calls per procedure; RPCBSTAT_HIGHPROC is the array length.
        info: [i32; 13],
        setinfo: i32,
        unsetinfo: i32,
        addrinfo: XdrLinkedList<'a, RpcbsAddrlist<'a>>,
        rmtinfo: XdrLinkedList<'a, RpcbsRmtcalllist<'a>>,
    }

    /// rpcb_stat_byvers, an array; items are named after their indices here. RFC 1833 section 2.1.
    struct RpcbStatByvers<'a> {
        /// Index RPCBVERS_2_STAT, 0.
        rpcbvers_2_stat: RpcbStat<'a>,
        /// Index RPCBVERS_3_STAT, 1.
        rpcbvers_3_stat: RpcbStat<'a>,
        /// Index RPCBVERS_4_STAT, 2.
        rpcbvers_4_stat: RpcbStat<'a>,
    }
}

crate::operations! { "portmap";
    /// The procedures. RFC 1833 section 2.1.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 5531 section 12.1";
    1 SET(Rpcb<'a>) -> RpcbindSetRes, "Register a program. RFC 1833 section 2.2.1";
    2 UNSET(Rpcb<'a>) -> RpcbindSetRes, "Unregister a program. RFC 1833 section 2.2.1";
    3 GETADDR(Rpcb<'a>) -> Uaddr<'a>, "Ask for the address of a program. RFC 1833 section 2.2.1";
    4 DUMP(Void) -> Rpcblist<'a>, "List all registered programs. RFC 1833 section 2.2.1";
    5 BCAST(RpcbRmtcallargs<'a>) -> RpcbRmtcallres<'a>,
        "Call a procedure indirectly; no reply if it fails. RFC 1833 section 2.2.2";
    6 GETTIME(Void) -> RpcbindGettimeRes, "Ask for the time. RFC 1833 section 2.2.1";
    7 UADDR2TADDR(Uaddr<'a>) -> Netbuf<'a>, "Have a universal address converted. RFC 1833 section 2.2.1";
    8 TADDR2UADDR(Netbuf<'a>) -> Uaddr<'a>, "Have an address of a transport converted. RFC 1833 section 2.2.1";
    9 GETVERSADDR(Rpcb<'a>) -> Uaddr<'a>, "Ask for the address of a version of a program. RFC 1833 section 2.2.2";
    10 INDIRECT(RpcbRmtcallargs<'a>) -> RpcbRmtcallres<'a>, "Have a procedure called. RFC 1833 section 2.2.2";
    11 GETADDRLIST(Rpcb<'a>) -> RpcbEntryList<'a>, "Ask for all addresses of a program. RFC 1833 section 2.2.2";
    12 GETSTAT(Void) -> RpcbStatByvers<'a>, "Ask how often RPCBIND was asked. RFC 1833 section 2.2.2";
}
