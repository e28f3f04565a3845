//! Clients, sessions and leases. RFC 7530 section 16, RFC 8881 section 18.

use super::address::Netaddr4;
use super::bitmap::NamedBitmap;
use super::operation_numbers::OperationBitNames;
use super::status::results;
use super::types::{Clientid4, Count4, Flavor, Nfstime4, RpcGssSvcT, Sequenceid4, Sessionid4, Slotid4, Verifier4};
use crate::xdr::{Opaque, Text, XdrArray};

crate::xdr! { "nfs";
    /// nfs_client_id4. RFC 7530 section 2.2.12.
    struct NfsClientId4<'a> { verifier: Verifier4 => "nfs.verifier4", id: Opaque<'a, 1024> => "nfs.nfs_client_id4.id" }

    /// cb_client4. RFC 7530 section 2.2.11.
    struct CbClient4<'a> { cb_program: u32, cb_location: Netaddr4<'a> }

    /// SETCLIENTID4args. RFC 7530 section 16.33.2.
    struct Setclientid4Args<'a> {
        client: NfsClientId4<'a>,
        callback: CbClient4<'a>,
        callback_ident: u32 => "nfs.callback.ident",
    }

    /// SETCLIENTID4resok, and SETCLIENTID_CONFIRM4args. RFC 7530 sections 16.33.3 and 16.34.2.
    struct SetclientidConfirm { clientid: Clientid4, setclientid_confirm: Verifier4 => "nfs.verifier4" }

    /// SETCLIENTID4res, with NFS4ERR_CLID_INUSE. RFC 7530 section 16.33.3.
    struct ClidInuse<'a> { client_using: Netaddr4<'a> }

    /// RENEW4args. RFC 7530 section 16.28.2.
    struct Renew4Args { clientid: Clientid4 }

    /// gss_cb_handles4. RFC 8881 section 18.33.1.
    struct GssCbHandles4<'a> {
        gcbp_service: RpcGssSvcT => "nfs.service4",
        gcbp_handle_from_server: Opaque<'a> => "nfs.gsshandle4",
        gcbp_handle_from_client: Opaque<'a> => "nfs.gsshandle4",
    }

    /// authsys_parms. RFC 5531 appendix A.
    struct AuthsysParms<'a> {
        stamp: u32 => "nfs.stamp4",
        machinename: Text<'a, 255> => "nfs.machinename4",
        uid: u32 => "nfs.uid4",
        gid: u32 => "nfs.gid4",
        gids: XdrArray<'a, u32, 16> => "nfs.gid4",
    }

    /// callback_sec_parms4. RFC 8881 section 18.33.1.
    union CallbackSecParms4<'a> switch (cb_secflavor: Flavor => "nfs.flavor4") {
        AUTH_NONE => None,
        AUTH_SYS => Sys(AuthsysParms<'a>) as cbsp_sys_cred,
        RPCSEC_GSS => Gss(GssCbHandles4<'a>) as cbsp_gss_handles,
    }

    /// BACKCHANNEL_CTL4args. RFC 8881 section 18.33.1.
    struct BackchannelCtl4Args<'a> {
        bca_cb_program: u32 => "nfs.cb_program",
        bca_sec_parms: XdrArray<'a, CallbackSecParms4<'a>>,
    }

    /// channel_dir_from_client4. RFC 8881 section 18.34.1.
    enum ChannelDirFromClient4 {
        CDFC4_FORE = 1, CDFC4_BACK = 2, CDFC4_FORE_OR_BOTH = 3, CDFC4_BACK_OR_BOTH = 7,
    }

    /// BIND_CONN_TO_SESSION4args. RFC 8881 section 18.34.1.
    struct BindConnToSession4Args {
        bctsa_sessid: Sessionid4 => "nfs.session_id4",
        bctsa_dir: ChannelDirFromClient4,
        bctsa_use_conn_in_rdma_mode: bool,
    }

    /// channel_dir_from_server4. RFC 8881 section 18.34.2.
    enum ChannelDirFromServer4 { CDFS4_FORE = 1, CDFS4_BACK = 2, CDFS4_BOTH = 3 }

    /// BIND_CONN_TO_SESSION4resok. RFC 8881 section 18.34.2.
    struct BindConnToSession4Resok {
        bctsr_sessid: Sessionid4 => "nfs.session_id4",
        bctsr_dir: ChannelDirFromServer4,
        bctsr_use_conn_in_rdma_mode: bool,
    }

    /// eia_flags and eir_flags. RFC 8881 section 18.35.1, RFC 7862 section 14.1.
    flags ExchangeIdFlags {
        EXCHGID4_FLAG_SUPP_MOVED_REFER = 0x1, EXCHGID4_FLAG_SUPP_MOVED_MIGR = 0x2,
        EXCHGID4_FLAG_SUPP_FENCE_OPS = 0x4, EXCHGID4_FLAG_BIND_PRINC_STATEID = 0x100,
        EXCHGID4_FLAG_USE_NON_PNFS = 0x1_0000, EXCHGID4_FLAG_USE_PNFS_MDS = 0x2_0000,
        EXCHGID4_FLAG_USE_PNFS_DS = 0x4_0000, EXCHGID4_FLAG_UPD_CONFIRMED_REC_A = 0x4000_0000,
        EXCHGID4_FLAG_CONFIRMED_R = 0x8000_0000,
    }

    /// client_owner4. RFC 8881 section 18.35.1.
    struct ClientOwner4<'a> { co_verifier: Verifier4 => "nfs.verifier4", co_ownerid: Opaque<'a, 1024> }

    /// server_owner4. RFC 8881 section 18.35.2.
    struct ServerOwner4<'a> { so_minor_id: u64 => "nfs.minorid4", so_major_id: Opaque<'a, 1024> => "nfs.majorid4" }

    /// nfs_impl_id4. RFC 8881 section 3.3.21.
    struct NfsImplId4<'a> {
        nii_domain: Text<'a> => "nfs.nii_domain4",
        nii_name: Text<'a> => "nfs.nii_name4",
        nii_date: Nfstime4,
    }

    /// state_protect_ops4. RFC 8881 section 18.35.1.
    struct StateProtectOps4<'a> {
        spo_must_enforce: NamedBitmap<'a, OperationBitNames> => "nfs.op_mask",
        spo_must_allow: NamedBitmap<'a, OperationBitNames> => "nfs.op_mask",
    }

    /// ssv_sp_parms4. RFC 8881 section 18.35.1.
    struct SsvSpParms4<'a> {
        ssp_ops: StateProtectOps4<'a>,
        ssp_hash_algs: XdrArray<'a, Opaque<'a>> => "nfs.sp_parms4_hash_algs",
        ssp_encr_algs: XdrArray<'a, Opaque<'a>> => "nfs.sp_parms4_encr_algs",
        ssp_window: u32 => "nfs.state_protect_window",
        ssp_num_gss_handles: u32 => "nfs.state_protect_num_gss_handles",
    }

    /// state_protect_how4. RFC 8881 section 18.35.1.
    enum StateProtectHow4 { SP4_NONE = 0, SP4_MACH_CRED = 1, SP4_SSV = 2 }

    /// state_protect4_a. RFC 8881 section 18.35.1.
    union StateProtect4A<'a> switch (spa_how: StateProtectHow4 => "nfs.exchange_id.state_protect") {
        SP4_NONE => None,
        SP4_MACH_CRED => MachCred(StateProtectOps4<'a>) as spa_mach_ops,
        SP4_SSV => Ssv(SsvSpParms4<'a>) as spa_ssv_parms,
    }

    /// EXCHANGE_ID4args. RFC 8881 section 18.35.1.
    struct ExchangeId4Args<'a> {
        eia_clientowner: ClientOwner4<'a>,
        eia_flags: ExchangeIdFlags => "nfs.exchange_id.call_flags",
        eia_state_protect: StateProtect4A<'a>,
        eia_client_impl_id: XdrArray<'a, NfsImplId4<'a>, 1>,
    }

    /// ssv_prot_info4. RFC 8881 section 18.35.2.
    struct SsvProtInfo4<'a> {
        spi_ops: StateProtectOps4<'a>,
        spi_hash_alg: u32 => "nfs.prot_info4_hash_alg",
        spi_encr_alg: u32 => "nfs.prot_info4_encr_alg",
        spi_ssv_len: u32 => "nfs.prot_info4_svv_length",
        spi_window: u32 => "nfs.prot_info4_spi_window",
        spi_handles: XdrArray<'a, Opaque<'a>> => "nfs.gsshandle4",
    }

    /// state_protect4_r. RFC 8881 section 18.35.2.
    union StateProtect4R<'a> switch (spr_how: StateProtectHow4 => "nfs.exchange_id.state_protect") {
        SP4_NONE => None,
        SP4_MACH_CRED => MachCred(StateProtectOps4<'a>) as spr_mach_ops,
        SP4_SSV => Ssv(SsvProtInfo4<'a>) as spr_ssv_info,
    }

    /// EXCHANGE_ID4resok. RFC 8881 section 18.35.2.
    struct ExchangeId4Resok<'a> {
        eir_clientid: Clientid4 => "nfs.clientid",
        eir_sequenceid: Sequenceid4 => "nfs.seqid",
        eir_flags: ExchangeIdFlags => "nfs.exchange_id.reply_flags",
        eir_state_protect: StateProtect4R<'a>,
        eir_server_owner: ServerOwner4<'a>,
        eir_server_scope: Opaque<'a, 1024> => "nfs.scope",
        eir_server_impl_id: XdrArray<'a, NfsImplId4<'a>, 1>,
    }

    /// channel_attrs4. RFC 8881 section 18.36.1.
    struct ChannelAttrs4<'a> {
        ca_headerpadsize: Count4 => "nfs.padsize4",
        ca_maxrequestsize: Count4 => "nfs.maxreqsize4",
        ca_maxresponsesize: Count4 => "nfs.maxrespsize4",
        ca_maxresponsesize_cached: Count4 => "nfs.maxrespsizecached4",
        ca_maxoperations: Count4 => "nfs.maxops4",
        ca_maxrequests: Count4 => "nfs.maxreqs4",
        ca_rdma_ird: XdrArray<'a, u32, 1> => "nfs.rdmachanattrs4",
    }

    /// csa_flags and csr_flags. RFC 8881 section 18.36.1.
    flags CreateSessionFlags {
        CREATE_SESSION4_FLAG_PERSIST = 0x1, CREATE_SESSION4_FLAG_CONN_BACK_CHAN = 0x2,
        CREATE_SESSION4_FLAG_CONN_RDMA = 0x4,
    }

    /// CREATE_SESSION4args. RFC 8881 section 18.36.1.
    struct CreateSession4Args<'a> {
        csa_clientid: Clientid4 => "nfs.clientid",
        csa_sequence: Sequenceid4 => "nfs.seqid",
        csa_flags: CreateSessionFlags => "nfs.create_session_flags",
        csa_fore_chan_attrs: ChannelAttrs4<'a>,
        csa_back_chan_attrs: ChannelAttrs4<'a>,
        csa_cb_program: u32 => "nfs.cb_program",
        csa_sec_parms: XdrArray<'a, CallbackSecParms4<'a>>,
    }

    /// CREATE_SESSION4resok. RFC 8881 section 18.36.2.
    struct CreateSession4Resok<'a> {
        csr_sessionid: Sessionid4 => "nfs.session_id4",
        csr_sequence: Sequenceid4 => "nfs.seqid",
        csr_flags: CreateSessionFlags => "nfs.create_session_flags",
        csr_fore_chan_attrs: ChannelAttrs4<'a>,
        csr_back_chan_attrs: ChannelAttrs4<'a>,
    }

    /// DESTROY_SESSION4args. RFC 8881 section 18.37.1.
    struct DestroySession4Args { dsa_sessionid: Sessionid4 => "nfs.session_id4" }

    /// DESTROY_CLIENTID4args. RFC 8881 section 18.50.1.
    struct DestroyClientid4Args { dca_clientid: Clientid4 => "nfs.clientid" }

    /// RECLAIM_COMPLETE4args. RFC 8881 section 18.51.1.
    struct ReclaimComplete4Args { rca_one_fs: bool => "nfs.reclaim_one_fs4" }

    /// SEQUENCE4args. RFC 8881 section 18.46.1.
    struct Sequence4Args {
        sa_sessionid: Sessionid4 => "nfs.session_id4",
        sa_sequenceid: Sequenceid4 => "nfs.seqid",
        sa_slotid: Slotid4 => "nfs.slotid",
        sa_highest_slotid: Slotid4 => "nfs.high_slotid",
        sa_cachethis: bool => "nfs.cachethis4",
    }

    /// sr_status_flags. RFC 8881 section 18.46.2.
    flags SequenceStatusFlags {
        SEQ4_STATUS_CB_PATH_DOWN = 0x1, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING = 0x2,
        SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED = 0x4, SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED = 0x8,
        SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED = 0x10, SEQ4_STATUS_ADMIN_STATE_REVOKED = 0x20,
        SEQ4_STATUS_RECALLABLE_STATE_REVOKED = 0x40, SEQ4_STATUS_LEASE_MOVED = 0x80,
        SEQ4_STATUS_RESTART_RECLAIM_NEEDED = 0x100, SEQ4_STATUS_CB_PATH_DOWN_SESSION = 0x200,
        SEQ4_STATUS_BACKCHANNEL_FAULT = 0x400, SEQ4_STATUS_DEVID_CHANGED = 0x800,
        SEQ4_STATUS_DEVID_DELETED = 0x1000,
    }

    /// SEQUENCE4resok. RFC 8881 section 18.46.2.
    struct Sequence4Resok {
        sr_sessionid: Sessionid4 => "nfs.session_id4",
        sr_sequenceid: Sequenceid4 => "nfs.seqid",
        sr_slotid: Slotid4 => "nfs.slotid",
        sr_highest_slotid: Slotid4 => "nfs.high_slotid",
        sr_target_highest_slotid: Slotid4 => "nfs.target_high_slotid",
        sr_status_flags: SequenceStatusFlags => "nfs.sequence.flags",
    }

    /// SET_SSV4args. RFC 8881 section 18.47.1.
    struct SetSsv4Args<'a> { ssa_ssv: Opaque<'a>, ssa_digest: Opaque<'a> }

    /// SET_SSV4resok. RFC 8881 section 18.47.2.
    struct SetSsv4Resok<'a> { ssr_digest: Opaque<'a> }
}

results! {
    /// SETCLIENTID4res. RFC 7530 section 16.33.3.
    SetclientidRes<'a> { NFS4_OK => SetclientidConfirm, NFS4ERR_CLID_INUSE => ClidInuse(ClidInuse<'a>) }
}
