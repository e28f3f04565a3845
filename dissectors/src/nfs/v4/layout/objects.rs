//! Object storage layout type, LAYOUT4_OSD2_OBJECTS. RFC 5664.

use crate::nfs::v4::address::Netaddr4;
use crate::nfs::v4::types::{Bool, Deviceid4, Length4};
use crate::xdr::{Opaque, Text, XdrArray};

crate::xdr! { "nfs";
    /// pnfs_osd_objid4: an object, identified by device, partition and number. RFC 5664 section 3.1.
    struct PnfsOsdObjid4 {
        oid_device_id: Deviceid4 => "nfs.deviceid",
        oid_partition_id: u64 => "nfs.osd.partition_id",
        oid_object_id: u64 => "nfs.osd.object_id",
    }

    /// pnfs_osd_version4: version of the OSD protocol, or a missing object. RFC 5664 section 3.2.
    enum PnfsOsdVersion4 { PNFS_OSD_MISSING = 0, PNFS_OSD_VERSION_1 = 1, PNFS_OSD_VERSION_2 = 2 }

    /// pnfs_osd_cap_key_sec4: protection of a capability key. RFC 5664 section 3.3.
    enum PnfsOsdCapKeySec4 { PNFS_OSD_CAP_KEY_SEC_NONE = 0, PNFS_OSD_CAP_KEY_SEC_SSV = 1 }

    /// pnfs_osd_object_cred4: an object, and the credential to access it. RFC 5664 section 3.3.
    struct PnfsOsdObjectCred4<'a> {
        oc_object_id: PnfsOsdObjid4,
        oc_osd_version: PnfsOsdVersion4 => "nfs.osd.version",
        oc_cap_key_sec: PnfsOsdCapKeySec4 => "nfs.osd.cap_key_sec",
        oc_capability_key: Opaque<'a> => "nfs.osd.capability_key",
        oc_capability: Opaque<'a> => "nfs.osd.capability",
    }

    /// pnfs_osd_raid_algorithm4. RFC 5664 section 3.4.
    enum PnfsOsdRaidAlgorithm4 {
        PNFS_OSD_RAID_0 = 1, PNFS_OSD_RAID_4 = 2, PNFS_OSD_RAID_5 = 3, PNFS_OSD_RAID_PQ = 4,
    }

    /// pnfs_osd_targetid_type4. RFC 5664 section 4.1.
    enum PnfsOsdTargetidType4 { OBJ_TARGET_ANON = 1, OBJ_TARGET_SCSI_NAME = 2, OBJ_TARGET_SCSI_DEVICE_ID = 3 }

    /// pnfs_osd_targetid4. RFC 5664 section 4.2.
    union PnfsOsdTargetid4<'a> switch (oti_type: PnfsOsdTargetidType4 => "nfs.osd.targetid_type") {
        OBJ_TARGET_SCSI_NAME => ScsiName(Text<'a>) as oti_scsi_name => "nfs.osd.scsi_name",
        OBJ_TARGET_SCSI_DEVICE_ID => ScsiDeviceId(Opaque<'a>) as oti_scsi_device_id => "nfs.osd.scsi_device_id",
        default => Other,
    }

    /// pnfs_osd_targetaddr4. RFC 5664 section 4.2.
    union PnfsOsdTargetaddr4<'a> switch (ota_available: Bool => "nfs.osd.targetaddr_available") {
        TRUE => Available(Netaddr4<'a>) as ota_netaddr,
        FALSE => Unavailable,
    }

    /// pnfs_osd_deviceaddr4: the content of da_addr_body. RFC 5664 section 4.2.
    struct PnfsOsdDeviceaddr4<'a> {
        oda_targetid: PnfsOsdTargetid4<'a>,
        oda_targetaddr: PnfsOsdTargetaddr4<'a>,
        oda_lun: [u8; 8] => "nfs.osd.lun",
        oda_systemid: Opaque<'a> => "nfs.osd.systemid",
        oda_root_obj_cred: PnfsOsdObjectCred4<'a>,
        oda_osdname: Opaque<'a> => "nfs.osd.osdname",
    }

    /// pnfs_osd_data_map4: the striping of a file over objects. RFC 5664 section 5.1.
    struct PnfsOsdDataMap4 {
        odm_num_comps: u32 => "nfs.osd.num_comps",
        odm_stripe_unit: Length4 => "nfs.stripeunit",
        odm_group_width: u32 => "nfs.osd.group_width",
        odm_group_depth: u32 => "nfs.osd.group_depth",
        odm_mirror_cnt: u32 => "nfs.osd.mirror_cnt",
        odm_raid_algorithm: PnfsOsdRaidAlgorithm4 => "nfs.osd.raid_algorithm",
    }

    /// pnfs_osd_layout4: the content of loc_body. RFC 5664 section 5.2.
    struct PnfsOsdLayout4<'a> {
        olo_map: PnfsOsdDataMap4,
        /// Index of the first listed component in the file.
        olo_comps_index: u32 => "nfs.osd.comps_index",
        olo_components: XdrArray<'a, PnfsOsdObjectCred4<'a>>,
    }

    /// pnfs_osd_deltaspaceused4: the change of the file's space usage in bytes. RFC 5664 section 6.1.
    union PnfsOsdDeltaspaceused4 switch (dsu_valid: Bool => "nfs.osd.delta_valid") {
        TRUE => Valid(i64) as dsu_delta => "nfs.osd.delta_space_used",
        FALSE => Unknown,
    }

    /// pnfs_osd_layoutupdate4: the content of lou_body of LAYOUTCOMMIT. RFC 5664 section 6.2.
    struct PnfsOsdLayoutupdate4 {
        olu_delta_space_used: PnfsOsdDeltaspaceused4,
        olu_ioerr_flag: bool => "nfs.osd.ioerr_flag",
    }

    /// pnfs_osd_errno4. RFC 5664 section 8.1.
    enum PnfsOsdErrno4 {
        PNFS_OSD_ERR_EIO = 1, PNFS_OSD_ERR_NOT_FOUND = 2, PNFS_OSD_ERR_NO_SPACE = 3, PNFS_OSD_ERR_BAD_CRED = 4,
        PNFS_OSD_ERR_NO_ACCESS = 5, PNFS_OSD_ERR_UNREACHABLE = 6, PNFS_OSD_ERR_RESOURCE = 7,
    }

    /// pnfs_osd_ioerr4: an error in a range of an object. RFC 5664 section 8.2.
    struct PnfsOsdIoerr4 {
        oer_component: PnfsOsdObjid4,
        oer_comp_offset: Length4 => "nfs.osd.ioerr_offset",
        oer_comp_length: Length4 => "nfs.osd.ioerr_length",
        oer_iswrite: bool => "nfs.osd.ioerr_iswrite",
        oer_errno: PnfsOsdErrno4 => "nfs.osd.errno",
    }

    /// pnfs_osd_layoutreturn4: the content of lrf_body. RFC 5664 section 8.3.
    struct PnfsOsdLayoutreturn4<'a> { olr_ioerr_report: XdrArray<'a, PnfsOsdIoerr4> }

    /// pnfs_osd_layouthint4: the content of loh_body. Every hint is optional. RFC 5664 section 9.1.
    struct PnfsOsdLayouthint4 {
        olh_max_comps_hint: Option<u32> => "nfs.osd.num_comps",
        olh_stripe_unit_hint: Option<Length4> => "nfs.stripeunit",
        olh_group_width_hint: Option<u32> => "nfs.osd.group_width",
        olh_group_depth_hint: Option<u32> => "nfs.osd.group_depth",
        olh_mirror_cnt_hint: Option<u32> => "nfs.osd.mirror_cnt",
        olh_raid_algorithm_hint: Option<PnfsOsdRaidAlgorithm4> => "nfs.osd.raid_algorithm",
    }
}
