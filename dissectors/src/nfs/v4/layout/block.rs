//! Block layout type, LAYOUT4_BLOCK_VOLUME. RFC 5663 section 2.

use crate::nfs::v4::types::{Deviceid4, Length4, Offset4};
use crate::xdr::{Opaque, XdrArray};

crate::xdr! { "nfs";
    /// pnfs_block_sig_component4: a signature on the disk. RFC 5663 section 2.2.1.
    struct PnfsBlockSigComponent4<'a> { bsc_sig_offset: i64, bsc_contents: Opaque<'a> }

    /// pnfs_block_volume_type4. RFC 5663 section 2.2.2.
    enum PnfsBlockVolumeType4 {
        PNFS_BLOCK_VOLUME_SIMPLE = 0, PNFS_BLOCK_VOLUME_SLICE = 1, PNFS_BLOCK_VOLUME_CONCAT = 2,
        PNFS_BLOCK_VOLUME_STRIPE = 3,
    }

    /// pnfs_block_simple_volume_info4: signatures that identify the disk. RFC 5663 section 2.2.2.
    struct PnfsBlockSimpleVolumeInfo4<'a> { bsv_ds: XdrArray<'a, PnfsBlockSigComponent4<'a>, 16> }

    /// pnfs_block_slice_volume_info4; a volume is an index into the volume list. RFC 5663 section 2.2.2.
    struct PnfsBlockSliceVolumeInfo4 { bsv_start: Offset4, bsv_length: Length4, bsv_volume: u32 }

    /// pnfs_block_concat_volume_info4. RFC 5663 section 2.2.2.
    struct PnfsBlockConcatVolumeInfo4<'a> { bcv_volumes: XdrArray<'a, u32> }

    /// pnfs_block_stripe_volume_info4. RFC 5663 section 2.2.2.
    struct PnfsBlockStripeVolumeInfo4<'a> { bsv_stripe_unit: Length4, bsv_volumes: XdrArray<'a, u32> }

    /// pnfs_block_volume4. RFC 5663 section 2.2.2.
    union PnfsBlockVolume4<'a> switch (type: PnfsBlockVolumeType4 => "nfs.bv_type") {
        PNFS_BLOCK_VOLUME_SIMPLE => Simple(PnfsBlockSimpleVolumeInfo4<'a>) as bv_simple_info,
        PNFS_BLOCK_VOLUME_SLICE => Slice(PnfsBlockSliceVolumeInfo4) as bv_slice_info,
        PNFS_BLOCK_VOLUME_CONCAT => Concat(PnfsBlockConcatVolumeInfo4<'a>) as bv_concat_info,
        PNFS_BLOCK_VOLUME_STRIPE => Stripe(PnfsBlockStripeVolumeInfo4<'a>) as bv_stripe_info,
    }

    /// pnfs_block_deviceaddr4: the content of da_addr_body. RFC 5663 section 2.2.2.
    struct PnfsBlockDeviceaddr4<'a> { bda_volumes: XdrArray<'a, PnfsBlockVolume4<'a>> }

    /// pnfs_block_extent_state4. RFC 5663 section 2.3.
    enum PnfsBlockExtentState4 {
        PNFS_BLOCK_READ_WRITE_DATA = 0, PNFS_BLOCK_READ_DATA = 1, PNFS_BLOCK_INVALID_DATA = 2,
        PNFS_BLOCK_NONE_DATA = 3,
    }

    /// pnfs_block_extent4. RFC 5663 section 2.3.
    struct PnfsBlockExtent4 {
        bex_vol_id: Deviceid4 => "nfs.deviceid",
        bex_file_offset: Offset4,
        bex_length: Length4,
        bex_storage_offset: Offset4,
        bex_state: PnfsBlockExtentState4,
    }

    /// pnfs_block_layout4: the content of loc_body. RFC 5663 section 2.3.
    struct PnfsBlockLayout4<'a> { blo_extents: XdrArray<'a, PnfsBlockExtent4> }

    /// pnfs_block_layoutupdate4: the content of lou_body of LAYOUTCOMMIT. RFC 5663 section 2.3.2.
    struct PnfsBlockLayoutupdate4<'a> { blu_commit_list: XdrArray<'a, PnfsBlockExtent4> }

    /// pnfs_block_layouthint4: the content of loh_body. RFC 5663 section 2.3.
    struct PnfsBlockLayouthint4 {
        /// In seconds.
        blh_maximum_io_time: u64,
    }
}
