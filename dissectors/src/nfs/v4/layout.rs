//! pNFS: layouts and devices. RFC 8881 section 18, RFC 7862 section 15.
//!
//! Several structures consist of a layout type and an opaque body. They are described as unions with the same encoding,
//! so that the type selects the structure of the body. A body of another form stays opaque.

mod block;
mod device_report;
mod files;
mod flex_files;
mod objects;
mod scsi;

pub use block::*;
pub use device_report::*;
pub use files::*;
pub use flex_files::*;
pub use objects::*;
pub use scsi::*;

use super::bitmap::NamedBitmap;
use super::device_notifications::DeviceNotifications;
use super::status::results;
use super::types::{Bool, Count4, Deviceid4, Layouttype4, Length4, NfsCookie4, Nfstime4, Offset4, Stateid4, Verifier4};
use crate::xdr::{Opaque, StructuredOpaque, XdrArray};

crate::xdr! { "nfs";
    /// layoutiomode4. RFC 8881 section 3.3.20.
    enum Layoutiomode4 { LAYOUTIOMODE4_READ = 1, LAYOUTIOMODE4_RW = 2, LAYOUTIOMODE4_ANY = 3 }

    /// layout_content4. RFC 8881 section 3.3.16.
    union LayoutContent4<'a> switch (loc_type: Layouttype4 => "nfs.layouttype") {
        LAYOUT4_NFSV4_1_FILES => Files(StructuredOpaque<'a, Nfsv41FileLayout4<'a>>) as loc_body => "nfs.loc_body.files",
        LAYOUT4_OSD2_OBJECTS => Objects(StructuredOpaque<'a, PnfsOsdLayout4<'a>>) as loc_body => "nfs.loc_body.osd",
        LAYOUT4_BLOCK_VOLUME => Block(StructuredOpaque<'a, PnfsBlockLayout4<'a>>) as loc_body => "nfs.loc_body.block",
        LAYOUT4_FLEX_FILES => FlexFiles(StructuredOpaque<'a, FfLayout4<'a>>) as loc_body => "nfs.loc_body.flex_files",
        LAYOUT4_SCSI => Scsi(StructuredOpaque<'a, PnfsScsiLayout4<'a>>) as loc_body => "nfs.loc_body.scsi",
        default => Other(Opaque<'a>) as loc_body => "nfs.layout",
    }

    /// layout4. RFC 8881 section 3.3.17.
    struct Layout4<'a> {
        lo_offset: Offset4 => "nfs.offset4",
        lo_length: Length4 => "nfs.length4",
        lo_iomode: Layoutiomode4 => "nfs.iomode",
        lo_content: LayoutContent4<'a>,
    }

    /// device_addr4. RFC 8881 section 3.3.15.
    union DeviceAddr4<'a> switch (da_layout_type: Layouttype4 => "nfs.layouttype") {
        LAYOUT4_NFSV4_1_FILES => Files(StructuredOpaque<'a, Nfsv41FileLayoutDsAddr4<'a>>)
            as da_addr_body => "nfs.da_addr_body.files",
        LAYOUT4_OSD2_OBJECTS => Objects(StructuredOpaque<'a, PnfsOsdDeviceaddr4<'a>>) as da_addr_body => "nfs.da_addr_body.osd",
        LAYOUT4_BLOCK_VOLUME => Block(StructuredOpaque<'a, PnfsBlockDeviceaddr4<'a>>)
            as da_addr_body => "nfs.da_addr_body.block",
        LAYOUT4_FLEX_FILES => FlexFiles(StructuredOpaque<'a, FfDeviceAddr4<'a>>)
            as da_addr_body => "nfs.da_addr_body.flex_files",
        LAYOUT4_SCSI => Scsi(StructuredOpaque<'a, PnfsScsiDeviceaddr4<'a>>) as da_addr_body => "nfs.da_addr_body.scsi",
        default => Other(Opaque<'a>) as da_addr_body => "nfs.devinfo",
    }

    /// layoutupdate4. The body is empty for files, and for flexible files except in LAYOUTSTATS. RFC 8881 section
    /// 3.3.18.
    union Layoutupdate4<'a> switch (lou_type: Layouttype4 => "nfs.layouttype") {
        LAYOUT4_OSD2_OBJECTS => Objects(StructuredOpaque<'a, PnfsOsdLayoutupdate4>) as lou_body => "nfs.lou_body.osd",
        LAYOUT4_BLOCK_VOLUME => Block(StructuredOpaque<'a, PnfsBlockLayoutupdate4<'a>>) as lou_body => "nfs.lou_body.block",
        LAYOUT4_FLEX_FILES => FlexFiles(StructuredOpaque<'a, FfLayoutupdate4<'a>>) as lou_body => "nfs.lou_body.flex_files",
        LAYOUT4_SCSI => Scsi(StructuredOpaque<'a, PnfsScsiLayoutupdate4<'a>>) as lou_body => "nfs.lou_body.scsi",
        default => Other(Opaque<'a>) as lou_body => "nfs.layoutupdate",
    }

    /// layouthint4. RFC 8881 section 3.3.19.
    union Layouthint4<'a> switch (loh_type: Layouttype4 => "nfs.layouttype") {
        LAYOUT4_NFSV4_1_FILES => Files(StructuredOpaque<'a, Nfsv41FileLayouthint4>) as loh_body => "nfs.loh_body.files",
        LAYOUT4_OSD2_OBJECTS => Objects(StructuredOpaque<'a, PnfsOsdLayouthint4>) as loh_body => "nfs.loh_body.osd",
        LAYOUT4_BLOCK_VOLUME => Block(StructuredOpaque<'a, PnfsBlockLayouthint4>) as loh_body => "nfs.loh_body.block",
        LAYOUT4_FLEX_FILES => FlexFiles(StructuredOpaque<'a, FfLayouthint4>) as loh_body => "nfs.loh_body.flex_files",
        LAYOUT4_SCSI => Scsi(StructuredOpaque<'a, PnfsScsiLayouthint4>) as loh_body => "nfs.loh_body.scsi",
        default => Other(Opaque<'a>) as loh_body,
    }

    /// GETDEVICEINFO4args. RFC 8881 section 18.40.1.
    struct Getdeviceinfo4Args<'a> {
        gdia_device_id: Deviceid4 => "nfs.deviceid",
        gdia_layout_type: Layouttype4 => "nfs.layouttype",
        gdia_maxcount: Count4 => "nfs.maxcount",
        gdia_notify_types: NamedBitmap<'a, DeviceNotifications> => "nfs.notify_mask",
    }

    /// GETDEVICEINFO4resok. RFC 8881 section 18.40.2.
    struct Getdeviceinfo4Resok<'a> {
        gdir_device_addr: DeviceAddr4<'a>,
        gdir_notification: NamedBitmap<'a, DeviceNotifications> => "nfs.notify_mask",
    }

    /// GETDEVICEINFO4res, with NFS4ERR_TOOSMALL. RFC 8881 section 18.40.2.
    struct GetdeviceinfoToosmall { gdir_mincount: Count4 => "nfs.count4" }

    /// GETDEVICELIST4args. RFC 8881 section 18.41.1.
    struct Getdevicelist4Args {
        gdla_layout_type: Layouttype4 => "nfs.layouttype",
        gdla_maxdevices: Count4 => "nfs.maxcount",
        gdla_cookie: NfsCookie4 => "nfs.cookie4",
        gdla_cookieverf: Verifier4 => "nfs.cookie_verf4",
    }

    /// GETDEVICELIST4resok. RFC 8881 section 18.41.2.
    struct Getdevicelist4Resok<'a> {
        gdlr_cookie: NfsCookie4 => "nfs.cookie4",
        gdlr_cookieverf: Verifier4 => "nfs.cookie_verf4",
        gdlr_deviceid_list: XdrArray<'a, Deviceid4> => "nfs.deviceid",
        gdlr_eof: bool => "nfs.eof",
    }

    /// newtime4. RFC 8881 section 18.42.1.
    union Newtime4 switch (nt_timechanged: Bool => "nfs.newtime") { TRUE => Changed(Nfstime4) as nt_time, FALSE => Same }

    /// newoffset4. RFC 8881 section 18.42.1.
    union Newoffset4 switch (no_newoffset: Bool => "nfs.newoffset") {
        TRUE => New(Offset4) as no_offset => "nfs.offset4",
        FALSE => None,
    }

    /// newsize4. RFC 8881 section 18.42.2.
    union Newsize4 switch (ns_sizechanged: Bool => "nfs.newsize") {
        TRUE => Changed(Length4) as ns_size => "nfs.length4",
        FALSE => Same,
    }

    /// LAYOUTCOMMIT4args. RFC 8881 section 18.42.1.
    struct Layoutcommit4Args<'a> {
        loca_offset: Offset4 => "nfs.offset4",
        loca_length: Length4 => "nfs.length4",
        loca_reclaim: bool => "nfs.reclaim4",
        loca_stateid: Stateid4 => "nfs.stateid",
        loca_last_write_offset: Newoffset4,
        loca_time_modify: Newtime4,
        loca_layoutupdate: Layoutupdate4<'a>,
    }

    /// LAYOUTCOMMIT4resok. RFC 8881 section 18.42.2.
    struct Layoutcommit4Resok { locr_newsize: Newsize4 }

    /// LAYOUTGET4args. RFC 8881 section 18.43.1.
    struct Layoutget4Args {
        loga_signal_layout_avail: bool => "nfs.layoutavail",
        loga_layout_type: Layouttype4 => "nfs.layouttype",
        loga_iomode: Layoutiomode4 => "nfs.iomode",
        loga_offset: Offset4 => "nfs.offset4",
        loga_length: Length4 => "nfs.length4",
        loga_minlength: Length4 => "nfs.minlength4",
        loga_stateid: Stateid4 => "nfs.stateid",
        loga_maxcount: Count4 => "nfs.maxcount",
    }

    /// LAYOUTGET4resok. RFC 8881 section 18.43.2.
    struct Layoutget4Resok<'a> {
        logr_return_on_close: bool => "nfs.retclose4",
        logr_stateid: Stateid4 => "nfs.stateid",
        logr_layout: XdrArray<'a, Layout4<'a>>,
    }

    /// LAYOUTGET4res, with NFS4ERR_LAYOUTTRYLATER. RFC 8881 section 18.43.2.
    struct LayoutgetTrylater { logr_will_signal_layout_avail: bool => "nfs.layoutavail" }

    /// layoutreturn_type4. RFC 8881 section 18.44.1.
    enum LayoutreturnType4 { LAYOUTRETURN4_FILE = 1, LAYOUTRETURN4_FSID = 2, LAYOUTRETURN4_ALL = 3 }

    /// layoutreturn_file4 of a layout type with an empty or unknown lrf_body. RFC 8881 section 18.44.1.
    struct LayoutreturnFile4<'a> {
        lrf_offset: Offset4 => "nfs.offset4",
        lrf_length: Length4 => "nfs.length4",
        lrf_stateid: Stateid4 => "nfs.stateid",
        lrf_body: Opaque<'a> => "nfs.lrf_body_content",
    }

    /// layoutreturn_file4 of flexible files. RFC 8881 section 18.44.1, RFC 8435 section 9.3.
    struct FfLayoutreturnFile4<'a> {
        lrf_offset: Offset4 => "nfs.offset4",
        lrf_length: Length4 => "nfs.length4",
        lrf_stateid: Stateid4 => "nfs.stateid",
        lrf_body: StructuredOpaque<'a, FfLayoutreturn4<'a>> => "nfs.lrf_body.flex_files",
    }

    /// layoutreturn_file4 of object storage. RFC 8881 section 18.44.1, RFC 5664 section 8.
    struct OsdLayoutreturnFile4<'a> {
        lrf_offset: Offset4 => "nfs.offset4",
        lrf_length: Length4 => "nfs.length4",
        lrf_stateid: Stateid4 => "nfs.stateid",
        lrf_body: StructuredOpaque<'a, PnfsOsdLayoutreturn4<'a>> => "nfs.lrf_body.osd",
    }

    /// lora_iomode and layoutreturn4. RFC 8881 section 18.44.1.
    struct LayoutreturnFromIomode<'a> {
        lora_iomode: Layoutiomode4 => "nfs.iomode",
        lora_layoutreturn: Layoutreturn4<'a>,
    }

    /// lora_iomode and layoutreturn4 of flexible files. RFC 8881 section 18.44.1.
    struct FfLayoutreturnRemainingArgs<'a> {
        lora_iomode: Layoutiomode4 => "nfs.iomode",
        lora_layoutreturn: FlexFilesLayoutreturn4<'a>,
    }

    /// lora_iomode and layoutreturn4 of object storage. RFC 8881 section 18.44.1.
    struct OsdLayoutreturnIomodeAndBody<'a> {
        lora_iomode: Layoutiomode4 => "nfs.iomode",
        lora_layoutreturn: OsdLayoutreturn4<'a>,
    }

    /// layoutreturn4. RFC 8881 section 18.44.1.
    union Layoutreturn4<'a> switch (lr_returntype: LayoutreturnType4 => "nfs.returntype") {
        LAYOUTRETURN4_FILE => File(LayoutreturnFile4<'a>) as lr_layout,
        default => Other,
    }

    /// layoutreturn4 of flexible files. RFC 8881 section 18.44.1.
    union FlexFilesLayoutreturn4<'a> switch (lr_returntype: LayoutreturnType4 => "nfs.returntype") {
        LAYOUTRETURN4_FILE => File(FfLayoutreturnFile4<'a>) as lr_layout => "nfs.lr_layout.flex_files",
        default => Other,
    }

    /// layoutreturn4 of object storage. RFC 8881 section 18.44.1.
    union OsdLayoutreturn4<'a> switch (lr_returntype: LayoutreturnType4 => "nfs.returntype") {
        LAYOUTRETURN4_FILE => File(OsdLayoutreturnFile4<'a>) as lr_layout => "nfs.lr_layout.osd",
        default => Other,
    }

    /// Members after lora_reclaim: the layout type selects the structure of lrf_body, the last member. RFC 8881 section
    /// 18.44.1.
    // The label is the operation's name, so that observers receive no groups that the RFC does not have.
    union LayoutreturnByLayoutType<'a> switch (lora_layout_type: Layouttype4 => "nfs.layouttype") {
        LAYOUT4_FLEX_FILES => FlexFiles(FfLayoutreturnRemainingArgs<'a>) as LAYOUTRETURN,
        LAYOUT4_OSD2_OBJECTS => Objects(OsdLayoutreturnIomodeAndBody<'a>) as LAYOUTRETURN,
        default => Other(LayoutreturnFromIomode<'a>) as LAYOUTRETURN,
    }

    /// LAYOUTRETURN4args. RFC 8881 section 18.44.1.
    struct Layoutreturn4Args<'a> {
        lora_reclaim: bool => "nfs.reclaim4",
        lora_by_type: LayoutreturnByLayoutType<'a> => "nfs.LAYOUTRETURN",
    }

    /// layoutreturn_stateid. RFC 8881 section 18.44.2.
    union LayoutreturnStateid switch (lrs_present: Bool => "nfs.lrs_present") {
        TRUE => Present(Stateid4) as lrs_stateid => "nfs.stateid",
        FALSE => Absent,
    }

    /// LAYOUTRETURN4res, on success. RFC 8881 section 18.44.2.
    struct Layoutreturn4Resok { lorr_stateid: LayoutreturnStateid }

    /// LAYOUTERROR4args. RFC 7862 section 15.6.1.
    struct Layouterror4Args<'a> {
        lea_offset: Offset4 => "nfs.offset4",
        lea_length: Length4 => "nfs.length4",
        lea_stateid: Stateid4 => "nfs.stateid",
        lea_errors: XdrArray<'a, DeviceError4>,
    }

    /// LAYOUTSTATS4args. RFC 7862 section 15.7.1.
    struct Layoutstats4Args<'a> {
        lsa_offset: Offset4 => "nfs.offset4",
        lsa_length: Length4 => "nfs.length4",
        lsa_stateid: Stateid4 => "nfs.stateid",
        lsa_read: IoInfo4,
        lsa_write: IoInfo4,
        lsa_deviceid: Deviceid4 => "nfs.deviceid",
        lsa_layoutupdate: Layoutupdate4<'a>,
    }
}

results! {
    /// GETDEVICEINFO4res. RFC 8881 section 18.40.2.
    GetdeviceinfoRes<'a> { NFS4_OK => Getdeviceinfo4Resok<'a>, NFS4ERR_TOOSMALL => Toosmall(GetdeviceinfoToosmall) }

    /// LAYOUTGET4res. RFC 8881 section 18.43.2.
    LayoutgetRes<'a> { NFS4_OK => Layoutget4Resok<'a>, NFS4ERR_LAYOUTTRYLATER => Trylater(LayoutgetTrylater) }
}
