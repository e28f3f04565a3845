//! NLM, the Network Lock Manager, which locks files of NFSv2 (versions 1 and 3) and of NFSv3 (version 4). XNFS version
//! 3W chapter 10.

pub mod v1;
pub mod v3;
pub mod v4;

use crate::xdr::{Opaque, Text};

/// netobj, at most MAXNETOBJ_SZ bytes. XNFS section 10.
pub type Netobj<'a> = Opaque<'a, 1024>;

/// Name of the calling host, at most LM_MAXSTRLEN bytes. XNFS section 10.
pub type CallerName<'a> = Text<'a, 1024>;

crate::xdr! { "nlm";
    /// fsh_mode and fsh4_mode: access denied to others while the file is open. XNFS section 10.
    enum FshMode { fsm_DN = 0, fsm_DR = 1, fsm_DW = 2, fsm_DRW = 3 }

    /// fsh_access and fsh4_access: requested access to the file. XNFS section 10.
    enum FshAccess { fsa_NONE = 0, fsa_R = 1, fsa_W = 2, fsa_RW = 3 }

    /// nlm_share and nlm4_share. XNFS section 10, RFC 1813 section 6.1.4.
    struct NlmShare<'a> {
        caller_name: CallerName<'a> => "nlm.lock.caller_name",
        fh: Netobj<'a> => "nfs.fhandle",
        oh: Netobj<'a> => "nlm.lock.owner",
        mode: FshMode => "nlm.share.mode",
        access: FshAccess => "nlm.share.access",
    }

    /// nlm_shareargs and nlm4_shareargs. XNFS section 10, NLM_SHARE.
    struct NlmShareargs<'a> { cookie: Netobj<'a>, share: NlmShare<'a>, reclaim: bool }

    /// nlm_notify and nlm4_notify: the restarted host; its name has at most LM_MAXNAMELEN bytes. XNFS section 10,
    /// NLM_FREE_ALL.
    struct NlmNotify<'a> { name: Text<'a, 1025> => "nlm.share.name", state: u32 }
}

#[cfg(test)]
pub(super) mod tests;
