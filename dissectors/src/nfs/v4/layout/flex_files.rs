//! Flexible file layout type, LAYOUT4_FLEX_FILES. RFC 8435.

use super::device_report::{DeviceError4, IoInfo4};
use super::files::MultipathList4;
use crate::nfs::v4::address::Netaddr4;
use crate::nfs::v4::types::{Bool, Deviceid4, Duration4, Length4, NfsFh4, Offset4, Stateid4};
use crate::xdr::{Text, XdrArray};

crate::xdr! { "nfs";
    /// ff_device_versions4: an NFS version that a data server supports. RFC 8435 section 4.1.
    struct FfDeviceVersions4 {
        ffdv_version: u32 => "nfs.ff.version",
        ffdv_minorversion: u32 => "nfs.ff.minorversion",
        ffdv_rsize: u32 => "nfs.ff.rsize",
        ffdv_wsize: u32 => "nfs.ff.wsize",
        ffdv_tightly_coupled: bool => "nfs.ff.tightly_coupled",
    }

    /// ff_device_addr4: the content of da_addr_body. RFC 8435 section 4.1.
    struct FfDeviceAddr4<'a> {
        ffda_netaddrs: MultipathList4<'a>,
        ffda_versions: XdrArray<'a, FfDeviceVersions4>,
    }

    /// ff_flags4. RFC 8435 section 5.1.
    flags FfFlags4 {
        FF_FLAGS_NO_LAYOUTCOMMIT = 0x1, FF_FLAGS_NO_IO_THRU_MDS = 0x2, FF_FLAGS_NO_READ_IO = 0x4,
        FF_FLAGS_WRITE_ONE_MIRROR = 0x8,
    }

    /// ff_data_server4. RFC 8435 section 5.1.
    struct FfDataServer4<'a> {
        ffds_deviceid: Deviceid4 => "nfs.deviceid",
        ffds_efficiency: u32 => "nfs.nff_mirror_eff",
        ffds_stateid: Stateid4 => "nfs.stateid",
        ffds_fh_vers: XdrArray<'a, NfsFh4<'a>> => "nfs.fhandle",
        ffds_user: Text<'a> => "nfs.ff.synthetic_owner",
        ffds_group: Text<'a> => "nfs.ff.synthetic_owner_group",
    }

    /// ff_mirror4. RFC 8435 section 5.1.
    struct FfMirror4<'a> { ffm_data_servers: XdrArray<'a, FfDataServer4<'a>> }

    /// ff_layout4: the content of loc_body. RFC 8435 section 5.1.
    struct FfLayout4<'a> {
        ffl_stripe_unit: Length4 => "nfs.stripeunit",
        ffl_mirrors: XdrArray<'a, FfMirror4<'a>>,
        ffl_flags: FfFlags4 => "nfs.ff.layout_flags",
        /// In seconds.
        ffl_stats_collect_hint: u32 => "nfs.ff.stats_collect_hint",
    }

    /// ff_ioerr4. RFC 8435 section 9.1.1.
    struct FfIoerr4<'a> {
        ffie_offset: Offset4 => "nfs.ff.ioerrs_offset",
        ffie_length: Length4 => "nfs.ff.ioerrs_length",
        ffie_stateid: Stateid4 => "nfs.stateid",
        ffie_errors: XdrArray<'a, DeviceError4>,
    }

    /// ff_io_latency4. RFC 8435 section 9.2.1.
    struct FfIoLatency4 {
        ffil_ops_requested: u64 => "nfs.ff.ops_requested",
        ffil_bytes_requested: u64 => "nfs.ff.bytes_requested",
        ffil_ops_completed: u64 => "nfs.ff.ops_completed",
        ffil_bytes_completed: u64 => "nfs.ff.bytes_completed",
        ffil_bytes_not_delivered: u64 => "nfs.ff.bytes_not_delivered",
        ffil_total_busy_time: Duration4,
        ffil_aggregate_completion_time: Duration4,
    }

    /// ff_layoutupdate4: the content of lou_body of LAYOUTSTATS. RFC 8435 section 9.2.2.
    struct FfLayoutupdate4<'a> {
        ffl_addr: Netaddr4<'a>,
        ffl_fhandle: NfsFh4<'a> => "nfs.fhandle",
        ffl_read: FfIoLatency4,
        ffl_write: FfIoLatency4,
        ffl_duration: Duration4,
        ffl_local: bool => "nfs.ff.local",
    }

    /// ff_iostats4. RFC 8435 section 9.2.3.
    struct FfIostats4<'a> {
        ffis_offset: Offset4 => "nfs.offset4",
        ffis_length: Length4 => "nfs.length4",
        ffis_stateid: Stateid4 => "nfs.stateid",
        ffis_read: IoInfo4,
        ffis_write: IoInfo4,
        ffis_deviceid: Deviceid4 => "nfs.deviceid",
        ffis_layoutupdate: FfLayoutupdate4<'a>,
    }

    /// ff_layoutreturn4: the content of lrf_body. RFC 8435 section 9.3.
    struct FfLayoutreturn4<'a> {
        fflr_ioerr_report: XdrArray<'a, FfIoerr4<'a>>,
        fflr_iostats_report: XdrArray<'a, FfIostats4<'a>>,
    }

    /// ff_mirrors_hint. RFC 8435 section 10.
    union FfMirrorsHint switch (ffmc_valid: Bool) { TRUE => Valid(u32) as ffmc_mirrors, FALSE => Invalid }

    /// ff_layouthint4: the content of loh_body. RFC 8435 section 10.
    struct FfLayouthint4 { fflh_mirrors_hint: FfMirrorsHint }
}
