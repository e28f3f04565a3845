//! Version 3 of RPCBIND: any transport, and universal addresses. RFC 1833 section 2.

use super::{Netbuf, Rpcb, RpcbRmtcallargs, RpcbRmtcallres, RpcbindGettimeRes, RpcbindSetRes, Rpcblist, Uaddr};
use crate::xdr::Void;

crate::operations! { "portmap";
    /// The procedures. RFC 1833 section 2.1.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 5531 section 12.1";
    1 SET(Rpcb<'a>) -> RpcbindSetRes, "Register a program. RFC 1833 section 2.2.1";
    2 UNSET(Rpcb<'a>) -> RpcbindSetRes, "Unregister a program. RFC 1833 section 2.2.1";
    3 GETADDR(Rpcb<'a>) -> Uaddr<'a>, "Ask for the address of a program. RFC 1833 section 2.2.1";
    4 DUMP(Void) -> Rpcblist<'a>, "List all registered programs. RFC 1833 section 2.2.1";
    5 CALLIT(RpcbRmtcallargs<'a>) -> RpcbRmtcallres<'a>,
        "Call a procedure indirectly; no reply if it fails. RFC 1833 section 2.2.1";
    6 GETTIME(Void) -> RpcbindGettimeRes, "Ask for the time. RFC 1833 section 2.2.1";
    7 UADDR2TADDR(Uaddr<'a>) -> Netbuf<'a>, "Have a universal address converted. RFC 1833 section 2.2.1";
    8 TADDR2UADDR(Netbuf<'a>) -> Uaddr<'a>, "Have an address of a transport converted. RFC 1833 section 2.2.1";
}
