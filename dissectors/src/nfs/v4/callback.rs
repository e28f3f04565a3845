//! Callbacks from server to client. RFC 7530 section 17, RFC 8881 section 20, RFC 7862 section 16.

use super::attributes::Bitmap4;
use super::bitmap::bits;
use super::device_notifications::NotifyDeviceid4;
use super::directory_notifications::Notify4;
use super::io::WriteResponse4;
use super::layout::Layoutiomode4;
use super::open::OpenDelegation4;
use super::status::Nfsstat4;
use super::types::{
    Fsid4, Layouttype4, Length4, LockOwner4, NfsFh4, Offset4, Sequenceid4, Sessionid4, Slotid4, Stateid4,
};
use crate::xdr::XdrArray;

crate::xdr! { "nfs";
    /// CB_GETATTR4args. RFC 8881 section 20.1.1.
    struct CbGetattr4Args<'a> { fh: NfsFh4<'a> => "nfs.fhandle", attr_request: Bitmap4<'a> => "nfs.attr_mask" }

    /// CB_RECALL4args. RFC 8881 section 20.2.1.
    struct CbRecall4Args<'a> { stateid: Stateid4, truncate: bool, fh: NfsFh4<'a> => "nfs.fhandle" }

    /// layoutrecall_type4. RFC 8881 section 20.3.1.
    enum LayoutrecallType4 { LAYOUTRECALL4_FILE = 1, LAYOUTRECALL4_FSID = 2, LAYOUTRECALL4_ALL = 3 }

    /// layoutrecall_file4. RFC 8881 section 20.3.1.
    struct LayoutrecallFile4<'a> {
        lor_fh: NfsFh4<'a> => "nfs.fhandle",
        lor_offset: Offset4 => "nfs.offset4",
        lor_length: Length4 => "nfs.length4",
        lor_stateid: Stateid4 => "nfs.stateid",
    }

    /// layoutrecall4. RFC 8881 section 20.3.1.
    union Layoutrecall4<'a> switch (lor_recalltype: LayoutrecallType4 => "nfs.recalltype") {
        LAYOUTRECALL4_FILE => File(LayoutrecallFile4<'a>) as lor_layout,
        LAYOUTRECALL4_FSID => Fsid(Fsid4) as lor_fsid,
        LAYOUTRECALL4_ALL => All,
    }

    /// CB_LAYOUTRECALL4args. RFC 8881 section 20.3.1.
    struct CbLayoutrecall4Args<'a> {
        clora_type: Layouttype4 => "nfs.layouttype",
        clora_iomode: Layoutiomode4 => "nfs.iomode",
        clora_changed: bool => "nfs.clorachanged",
        clora_recall: Layoutrecall4<'a>,
    }

    /// CB_NOTIFY4args. RFC 8881 section 20.4.1.
    struct CbNotify4Args<'a> {
        cna_stateid: Stateid4 => "nfs.stateid",
        cna_fh: NfsFh4<'a> => "nfs.fhandle",
        cna_changes: XdrArray<'a, Notify4<'a>>,
    }

    /// CB_PUSH_DELEG4args. RFC 8881 section 20.5.1.
    struct CbPushDeleg4Args<'a> { cpda_fh: NfsFh4<'a> => "nfs.fhandle", cpda_delegation: OpenDelegation4<'a> }

    /// CB_RECALL_ANY4args and CB_RECALLABLE_OBJ_AVAIL4args. RFC 8881 sections 20.6.1 and 20.7.1.
    struct CbRecallAny4Args<'a> { craa_objects_to_keep: u32, craa_type_mask: Bitmap4<'a, RecallAnyTypes> }

    /// CB_RECALL_SLOT4args. RFC 8881 section 20.8.1.
    struct CbRecallSlot4Args { rsa_target_highest_slotid: Slotid4 => "nfs.target_high_slotid" }

    /// referring_call4. RFC 8881 section 20.9.1.
    struct ReferringCall4 { rc_sequenceid: Sequenceid4 => "nfs.seqid", rc_slotid: Slotid4 => "nfs.slotid" }

    /// referring_call_list4. RFC 8881 section 20.9.1.
    struct ReferringCallList4<'a> {
        rcl_sessionid: Sessionid4 => "nfs.session_id4",
        rcl_referring_calls: XdrArray<'a, ReferringCall4>,
    }

    /// CB_SEQUENCE4args. RFC 8881 section 20.9.1.
    struct CbSequence4Args<'a> {
        csa_sessionid: Sessionid4 => "nfs.session_id4",
        csa_sequenceid: Sequenceid4 => "nfs.seqid",
        csa_slotid: Slotid4 => "nfs.slotid",
        csa_highest_slotid: Slotid4 => "nfs.high_slotid",
        csa_cachethis: bool => "nfs.cachethis4",
        csa_referring_call_lists: XdrArray<'a, ReferringCallList4<'a>>,
    }

    /// CB_SEQUENCE4resok. RFC 8881 section 20.9.2.
    struct CbSequence4Resok {
        csr_sessionid: Sessionid4 => "nfs.session_id4",
        csr_sequenceid: Sequenceid4 => "nfs.seqid",
        csr_slotid: Slotid4 => "nfs.slotid",
        csr_highest_slotid: Slotid4 => "nfs.high_slotid",
        csr_target_highest_slotid: Slotid4 => "nfs.target_high_slotid",
    }

    /// CB_WANTS_CANCELLED4args. RFC 8881 section 20.10.1.
    struct CbWantsCancelled4Args { cwca_contended_wants_cancelled: bool, cwca_resourced_wants_cancelled: bool }

    /// CB_NOTIFY_LOCK4args. RFC 8881 section 20.11.1.
    struct CbNotifyLock4Args<'a> { cnla_fh: NfsFh4<'a> => "nfs.fhandle", cnla_lock_owner: LockOwner4<'a> }

    /// CB_NOTIFY_DEVICEID4args. RFC 8881 section 20.12.1.
    struct CbNotifyDeviceid4Args<'a> { cnda_changes: XdrArray<'a, NotifyDeviceid4<'a>> }

    /// offload_info4. RFC 7862 section 16.1.1.
    union OffloadInfo4<'a> switch (coa_status: Nfsstat4 => "nfs.nfsstat4") {
        NFS4_OK => Ok(WriteResponse4<'a>) as coa_resok4,
        default => Fail(Length4) as coa_bytes_copied => "nfs.bytes_copied",
    }

    /// CB_OFFLOAD4args. RFC 7862 section 16.1.1.
    struct CbOffload4Args<'a> {
        coa_fh: NfsFh4<'a> => "nfs.fhandle",
        coa_stateid: Stateid4 => "nfs.stateid",
        coa_offload_info: OffloadInfo4<'a>,
    }
}

bits! {
    /// Types of objects for CB_RECALL_ANY to recall. RFC 8881 section 20.6.1, RFC 8435.
    RecallAnyTypes {
        RCA4_TYPE_MASK_RDATA_DLG = 0, RCA4_TYPE_MASK_WDATA_DLG = 1, RCA4_TYPE_MASK_DIR_DLG = 2,
        RCA4_TYPE_MASK_FILE_LAYOUT = 3, RCA4_TYPE_MASK_BLK_LAYOUT = 4,
        RCA4_TYPE_MASK_OBJ_LAYOUT_MIN = 8, RCA4_TYPE_MASK_OBJ_LAYOUT_MAX = 9,
        RCA4_TYPE_MASK_OTHER_LAYOUT_MIN = 12, RCA4_TYPE_MASK_OTHER_LAYOUT_MAX = 15,
        RCA4_TYPE_MASK_FF_LAYOUT_MIN = 16, RCA4_TYPE_MASK_FF_LAYOUT_MAX = 17,
    }
}
