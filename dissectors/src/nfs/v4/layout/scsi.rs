//! SCSI layout type, LAYOUT4_SCSI. RFC 8154 section 2.

use crate::nfs::v4::types::{Deviceid4, Length4, Offset4};
use crate::xdr::{Opaque, XdrArray};

crate::xdr! { "nfs";
    /// pnfs_scsi_code_set: as in the device identification VPD page. RFC 8154 section 2.3.
    enum PnfsScsiCodeSet { PS_CODE_SET_BINARY = 1, PS_CODE_SET_ASCII = 2, PS_CODE_SET_UTF8 = 3 }

    /// pnfs_scsi_designator_type: as in the device identification VPD page. RFC 8154 section 2.3.
    enum PnfsScsiDesignatorType {
        PS_DESIGNATOR_T10 = 1, PS_DESIGNATOR_EUI64 = 2, PS_DESIGNATOR_NAA = 3, PS_DESIGNATOR_NAME = 8,
    }

    /// pnfs_scsi_volume_type4. RFC 8154 section 2.3.
    enum PnfsScsiVolumeType4 {
        PNFS_SCSI_VOLUME_SLICE = 1, PNFS_SCSI_VOLUME_CONCAT = 2, PNFS_SCSI_VOLUME_STRIPE = 3,
        PNFS_SCSI_VOLUME_BASE = 4,
    }

    /// pnfs_scsi_base_volume_info4: a disk, and the key of its persistent reservation. RFC 8154 section 2.3.
    struct PnfsScsiBaseVolumeInfo4<'a> {
        sbv_code_set: PnfsScsiCodeSet => "nfs.devaddr.scsi_vpd_code_set",
        sbv_designator_type: PnfsScsiDesignatorType => "nfs.devaddr.scsi_vpd_designator_type",
        sbv_designator: Opaque<'a> => "nfs.devaddr.scsi_vpd_designator",
        sbv_pr_key: [u8; 8] => "nfs.devaddr.scsi_private_key",
    }

    /// pnfs_scsi_slice_volume_info4; a volume is an index into the volume list. RFC 8154 section 2.3.
    struct PnfsScsiSliceVolumeInfo4 {
        ssv_start: Offset4 => "nfs.devaddr.ssv_start",
        ssv_length: Length4 => "nfs.devaddr.ssv_length",
        ssv_volume: u32 => "nfs.devaddr.scsi_volume_ref_index",
    }

    /// pnfs_scsi_concat_volume_info4. RFC 8154 section 2.3.
    struct PnfsScsiConcatVolumeInfo4<'a> { scv_volumes: XdrArray<'a, u32> => "nfs.devaddr.scsi_volume_ref_index" }

    /// pnfs_scsi_stripe_volume_info4. RFC 8154 section 2.3.
    struct PnfsScsiStripeVolumeInfo4<'a> {
        ssv_stripe_unit: Length4 => "nfs.devaddr.ssv_stripe_unit",
        ssv_volumes: XdrArray<'a, u32> => "nfs.devaddr.scsi_volume_ref_index",
    }

    /// pnfs_scsi_volume4. RFC 8154 section 2.3.
    union PnfsScsiVolume4<'a> switch (type: PnfsScsiVolumeType4 => "nfs.devaddr.scsi_volume_type") {
        PNFS_SCSI_VOLUME_BASE => Base(PnfsScsiBaseVolumeInfo4<'a>) as sv_simple_info,
        PNFS_SCSI_VOLUME_SLICE => Slice(PnfsScsiSliceVolumeInfo4) as sv_slice_info,
        PNFS_SCSI_VOLUME_CONCAT => Concat(PnfsScsiConcatVolumeInfo4<'a>) as sv_concat_info,
        PNFS_SCSI_VOLUME_STRIPE => Stripe(PnfsScsiStripeVolumeInfo4<'a>) as sv_stripe_info,
    }

    /// pnfs_scsi_deviceaddr4: the content of da_addr_body. RFC 8154 section 2.3.
    struct PnfsScsiDeviceaddr4<'a> { sda_volumes: XdrArray<'a, PnfsScsiVolume4<'a>> }

    /// pnfs_scsi_extent_state4. RFC 8154 section 2.4.
    enum PnfsScsiExtentState4 {
        PNFS_SCSI_READ_WRITE_DATA = 0, PNFS_SCSI_READ_DATA = 1, PNFS_SCSI_INVALID_DATA = 2, PNFS_SCSI_NONE_DATA = 3,
    }

    /// pnfs_scsi_extent4. RFC 8154 section 2.4.
    struct PnfsScsiExtent4 {
        se_vol_id: Deviceid4 => "nfs.deviceid",
        se_file_offset: Offset4 => "nfs.scsil_ext_file_offset",
        se_length: Length4 => "nfs.scsil_ext_length",
        se_storage_offset: Offset4 => "nfs.scsill_ext_vol_offset",
        se_state: PnfsScsiExtentState4 => "nfs.scsil_ext_state",
    }

    /// pnfs_scsi_layout4: the content of loc_body. RFC 8154 section 2.4.
    struct PnfsScsiLayout4<'a> { sl_extents: XdrArray<'a, PnfsScsiExtent4> }

    /// pnfs_scsi_range4. RFC 8154 section 2.4.
    struct PnfsScsiRange4 {
        sr_file_offset: Offset4 => "nfs.scsil_ext_file_offset",
        sr_length: Length4 => "nfs.scsil_ext_length",
    }

    /// pnfs_scsi_layoutupdate4: the content of lou_body of LAYOUTCOMMIT. RFC 8154 section 2.4.
    struct PnfsScsiLayoutupdate4<'a> { slu_commit_list: XdrArray<'a, PnfsScsiRange4> }

    /// pnfs_scsi_layouthint4: the content of loh_body. RFC 8154 section 2.4.
    struct PnfsScsiLayouthint4 {
        /// In seconds.
        slh_maximum_io_time: u64,
    }
}
