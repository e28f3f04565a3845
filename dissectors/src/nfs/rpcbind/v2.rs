//! Version 2, the port mapper: TCP and UDP ports. RFC 1833 section 3.

use super::RpcbindSetRes;
use crate::rpc::program::Program;
use crate::xdr::{Opaque, Void, XdrLinkedList};

crate::xdr! { "portmap";
    /// The values of prot. RFC 1833 section 3.1.
    open_enum Prot { IPPROTO_TCP = 6, IPPROTO_UDP = 17 }

    /// mapping. RFC 1833 section 3.1.
    struct Mapping { prog: Program, vers: u32 => "portmap.version", prot: Prot => "portmap.proto", port: u32 }

    /// Result of GETPORT; 0 if the program is not registered. RFC 1833 section 3.2.
    struct GetportRes { port: u32 }

    /// pmaplist. RFC 1833 section 3.1.
    struct Pmaplist<'a> { pmaplist: XdrLinkedList<'a, Mapping> => "portmap.map" }

    /// call_args: the call to forward; the arguments are in the XDR of the program. RFC 1833 section 3.1.
    struct PmapCallitArgs<'a> { prog: Program, vers: u32 => "portmap.version", proc: u32, args: Opaque<'a> }

    /// call_result: the port of the program, and its results. RFC 1833 section 3.1.
    struct PortmapCallitResult<'a> { port: u32, res: Opaque<'a> => "portmap.result" }
}

crate::operations! { "portmap";
    /// The procedures. RFC 1833 section 3.1.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1833 section 3.2";
    1 SET(Mapping) -> RpcbindSetRes, "Register a program. RFC 1833 section 3.2";
    2 UNSET(Mapping) -> RpcbindSetRes, "Unregister a program. RFC 1833 section 3.2";
    3 GETPORT(Mapping) -> GetportRes, "Ask for the port of a program. RFC 1833 section 3.2";
    4 DUMP(Void) -> Pmaplist<'a>, "List all registered programs. RFC 1833 section 3.2";
    5 CALLIT(PmapCallitArgs<'a>) -> PortmapCallitResult<'a>, "Call a procedure indirectly; no reply if it fails. RFC 1833 section 3.2";
}
