//! Layouts and devices of every known layout type.

use super::*;
use crate::xdr::StructuredOpaque::{Known, Unread};

/// An undefined layout type.
const UNKNOWN: Layouttype4 = Layouttype4(0x8000_0001);

fn object() -> PnfsOsdObjid4 {
    PnfsOsdObjid4 { oid_device_id: DEVICE, oid_partition_id: 2, oid_object_id: 3 }
}

fn credential() -> PnfsOsdObjectCred4<'static> {
    PnfsOsdObjectCred4 {
        oc_object_id: object(),
        oc_osd_version: PnfsOsdVersion4::PNFS_OSD_VERSION_1,
        oc_cap_key_sec: PnfsOsdCapKeySec4::PNFS_OSD_CAP_KEY_SEC_SSV,
        oc_capability_key: Opaque(b"key"),
        oc_capability: Opaque(b"cap"),
    }
}

fn netaddr6() -> Netaddr4<'static> {
    Netaddr4 { na_r_netid: Text(b"rdma6"), na_r_addr: UniversalAddress(Text(b"fd00::1.78.81")) }
}

fn extent(bex_state: PnfsBlockExtentState4) -> PnfsBlockExtent4 {
    PnfsBlockExtent4 { bex_vol_id: DEVICE, bex_file_offset: 0, bex_length: 4096, bex_storage_offset: 8192, bex_state }
}

fn flex_update() -> FfLayoutupdate4<'static> {
    let latency = || FfIoLatency4 {
        ffil_ops_requested: 1,
        ffil_bytes_requested: 2,
        ffil_ops_completed: 3,
        ffil_bytes_completed: 4,
        ffil_bytes_not_delivered: 5,
        ffil_total_busy_time: SPAN,
        ffil_aggregate_completion_time: SPAN,
    };
    FfLayoutupdate4 {
        ffl_addr: netaddr(),
        ffl_fhandle: FH,
        ffl_read: latency(),
        ffl_write: latency(),
        ffl_duration: SPAN,
        ffl_local: true,
    }
}

fn flex_return() -> FfLayoutreturn4<'static> {
    FfLayoutreturn4 {
        fflr_ioerr_report: list([FfIoerr4 {
            ffie_offset: 4096,
            ffie_length: 4096,
            ffie_stateid: STATEID,
            ffie_errors: list([DeviceError4 {
                de_deviceid: DEVICE,
                de_status: Nfsstat4::NFS4ERR_NXIO,
                de_opnum: OperationNumber::WRITE,
            }]),
        }]),
        fflr_iostats_report: list([FfIostats4 {
            ffis_offset: 0,
            ffis_length: u64::MAX,
            ffis_stateid: STATEID,
            ffis_read: IoInfo4 { ii_count: 1, ii_bytes: 2 },
            ffis_write: IoInfo4 { ii_count: 3, ii_bytes: 4 },
            ffis_deviceid: DEVICE,
            ffis_layoutupdate: flex_update(),
        }]),
    }
}

pub(super) fn calls() -> Vec<(Args<'static>, &'static str)> {
    let layoutcommit = |loca_last_write_offset, loca_time_modify, loca_layoutupdate| {
        Args::LAYOUTCOMMIT(Box::new(Layoutcommit4Args {
            loca_offset: 0,
            loca_length: 4096,
            loca_reclaim: false,
            loca_stateid: STATEID,
            loca_last_write_offset,
            loca_time_modify,
            loca_layoutupdate,
        }))
    };
    let committed = |update| layoutcommit(Newoffset4::None, Newtime4::Same, update);
    let layoutreturn =
        |lora_by_type| Args::LAYOUTRETURN(Box::new(Layoutreturn4Args { lora_reclaim: false, lora_by_type }));
    let rest =
        |lora_layoutreturn| LayoutreturnFromIomode { lora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY, lora_layoutreturn };
    let flex_rest = |lora_layoutreturn| FfLayoutreturnRemainingArgs {
        lora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
        lora_layoutreturn,
    };
    let flex_body = |lrf_body| {
        FlexFilesLayoutreturn4::File(FfLayoutreturnFile4 {
            lrf_offset: 0,
            lrf_length: u64::MAX,
            lrf_stateid: STATEID,
            lrf_body,
        })
    };
    let layoutstats = |lsa_layoutupdate| {
        Args::LAYOUTSTATS(Box::new(Layoutstats4Args {
            lsa_offset: 0,
            lsa_length: 1,
            lsa_stateid: STATEID,
            lsa_read: IoInfo4 { ii_count: 1, ii_bytes: 2 },
            lsa_write: IoInfo4 { ii_count: 3, ii_bytes: 4 },
            lsa_deviceid: DEVICE,
            lsa_layoutupdate,
        }))
    };
    vec![
        (
            Args::GETDEVICEINFO(Getdeviceinfo4Args {
                gdia_device_id: DEVICE,
                gdia_layout_type: FILES,
                gdia_maxcount: 4096,
                gdia_notify_types: bitmap(&[6]),
            }),
            "$device 00000001 00001000 00000001 00000006",
        ),
        (
            Args::GETDEVICELIST(Getdevicelist4Args {
                gdla_layout_type: FILES,
                gdla_maxdevices: 8,
                gdla_cookie: 0,
                gdla_cookieverf: VERIFIER,
            }),
            "00000001 00000008 00000000 00000000 $verifier",
        ),
        (
            layoutcommit(Newoffset4::New(4095), Newtime4::Changed(SECONDS), Layoutupdate4::Other(FILES, Opaque(b""))),
            "00000000 00000000 00000000 00001000 00000000 $stateid 00000001 00000000 00000fff 00000001 $time 00000001 00000000",
        ),
        (
            committed(Layoutupdate4::Block(Known(PnfsBlockLayoutupdate4 {
                blu_commit_list: list([extent(PnfsBlockExtentState4::PNFS_BLOCK_READ_WRITE_DATA)]),
            }))),
            "00000000 00000000 00000000 00001000 00000000 $stateid 00000000 00000000 00000003 00000030 00000001 $device 00000000 00000000 00000000 00001000 00000000 00002000 00000000",
        ),
        (
            committed(Layoutupdate4::Scsi(Known(PnfsScsiLayoutupdate4 {
                slu_commit_list: list([PnfsScsiRange4 { sr_file_offset: 0, sr_length: 4096 }]),
            }))),
            "00000000 00000000 00000000 00001000 00000000 $stateid 00000000 00000000 00000005 00000014 00000001 00000000 00000000 00000000 00001000",
        ),
        (
            committed(Layoutupdate4::Objects(Known(PnfsOsdLayoutupdate4 {
                olu_delta_space_used: PnfsOsdDeltaspaceused4::Valid(-4096),
                olu_ioerr_flag: true,
            }))),
            "00000000 00000000 00000000 00001000 00000000 $stateid 00000000 00000000 00000002 00000010 00000001 ffffffff fffff000 00000001",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::Objects(OsdLayoutreturnIomodeAndBody {
                lora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
                lora_layoutreturn: OsdLayoutreturn4::File(OsdLayoutreturnFile4 {
                    lrf_offset: 0,
                    lrf_length: u64::MAX,
                    lrf_stateid: STATEID,
                    lrf_body: Known(PnfsOsdLayoutreturn4 {
                        olr_ioerr_report: list([PnfsOsdIoerr4 {
                            oer_component: object(),
                            oer_comp_offset: 4096,
                            oer_comp_length: 8192,
                            oer_iswrite: true,
                            oer_errno: PnfsOsdErrno4::PNFS_OSD_ERR_NO_SPACE,
                        }]),
                    }),
                }),
            })),
            "00000000 00000002 00000003 00000001 00000000 00000000 ffffffff ffffffff $stateid 0000003c 00000001 $device 00000000 00000002 00000000 00000003 00000000 00001000 00000000 00002000 00000001 00000003",
        ),
        (
            committed(Layoutupdate4::Block(Unread(Opaque(&[1, 2, 3])))),
            "00000000 00000000 00000000 00001000 00000000 $stateid 00000000 00000000 00000003 00000003 010203 00",
        ),
        (
            Args::LAYOUTGET(Layoutget4Args {
                loga_signal_layout_avail: false,
                loga_layout_type: FILES,
                loga_iomode: Layoutiomode4::LAYOUTIOMODE4_RW,
                loga_offset: 0,
                loga_length: u64::MAX,
                loga_minlength: 4096,
                loga_stateid: STATEID,
                loga_maxcount: 4096,
            }),
            "00000000 00000001 00000002 00000000 00000000 ffffffff ffffffff 00000000 00001000 $stateid 00001000",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::Other(
                FILES,
                rest(Layoutreturn4::File(LayoutreturnFile4 {
                    lrf_offset: 0,
                    lrf_length: u64::MAX,
                    lrf_stateid: STATEID,
                    lrf_body: Opaque(b""),
                })),
            )),
            "00000000 00000001 00000003 00000001 00000000 00000000 ffffffff ffffffff $stateid 00000000",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::Other(
                FILES,
                rest(Layoutreturn4::Other(LayoutreturnType4::LAYOUTRETURN4_ALL)),
            )),
            "00000000 00000001 00000003 00000003",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::FlexFiles(flex_rest(flex_body(Known(flex_return()))))),
            "00000000 00000004 00000003 00000001 00000000 00000000 ffffffff ffffffff $stateid 00000148 00000001 00000000 00001000 00000000 00001000 $stateid 00000001 $device 00000006 00000026 00000001 00000000 00000000 ffffffff ffffffff $stateid 00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004 $device $flex_update",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::FlexFiles(flex_rest(flex_body(Unread(Opaque(b"")))))),
            "00000000 00000004 00000003 00000001 00000000 00000000 ffffffff ffffffff $stateid 00000000",
        ),
        (
            layoutreturn(LayoutreturnByLayoutType::FlexFiles(flex_rest(FlexFilesLayoutreturn4::Other(
                LayoutreturnType4::LAYOUTRETURN4_FSID,
            )))),
            "00000000 00000004 00000003 00000002",
        ),
        (
            Args::LAYOUTERROR(Layouterror4Args {
                lea_offset: 0,
                lea_length: 1,
                lea_stateid: STATEID,
                lea_errors: list([DeviceError4 {
                    de_deviceid: DEVICE,
                    de_status: Nfsstat4::NFS4ERR_NXIO,
                    de_opnum: OperationNumber::READ,
                }]),
            }),
            "00000000 00000000 00000000 00000001 $stateid 00000001 $device 00000006 00000019",
        ),
        (
            layoutstats(Layoutupdate4::FlexFiles(Known(flex_update()))),
            "00000000 00000000 00000000 00000001 $stateid 00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004 $device 00000004 000000b4 $flex_update",
        ),
        (
            layoutstats(Layoutupdate4::Other(FILES, Opaque(&[1, 2, 3]))),
            "00000000 00000000 00000000 00000001 $stateid 00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004 $device 00000001 00000003 010203 00",
        ),
    ]
}

pub(super) fn replies() -> Vec<(Results<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    let device = |gdir_device_addr| {
        Results::GETDEVICEINFO(Box::new(GetdeviceinfoRes::Ok(Getdeviceinfo4Resok {
            gdir_device_addr,
            gdir_notification: bitmap(&[]),
        })))
    };
    let segment = |lo_content| Layout4 {
        lo_offset: 0,
        lo_length: u64::MAX,
        lo_iomode: Layoutiomode4::LAYOUTIOMODE4_READ,
        lo_content,
    };
    let layouts = list([
        segment(LayoutContent4::Files(Known(Nfsv41FileLayout4 {
            nfl_deviceid: DEVICE,
            nfl_util: NflUtil4(0x0001_0002),
            nfl_first_stripe_index: 0,
            nfl_pattern_offset: 0,
            nfl_fh_list: list([FH]),
        }))),
        segment(LayoutContent4::Block(Known(PnfsBlockLayout4 {
            blo_extents: list([extent(PnfsBlockExtentState4::PNFS_BLOCK_INVALID_DATA)]),
        }))),
        segment(LayoutContent4::FlexFiles(Known(FfLayout4 {
            ffl_stripe_unit: 4096,
            ffl_mirrors: list([FfMirror4 {
                ffm_data_servers: list([FfDataServer4 {
                    ffds_deviceid: DEVICE,
                    ffds_efficiency: 1,
                    ffds_stateid: STATEID,
                    ffds_fh_vers: list([FH]),
                    ffds_user: Text(b"1000"),
                    ffds_group: Text(b"100"),
                }]),
            }]),
            ffl_flags: FfFlags4(3),
            ffl_stats_collect_hint: 60,
        }))),
        segment(LayoutContent4::Scsi(Known(PnfsScsiLayout4 {
            sl_extents: list([PnfsScsiExtent4 {
                se_vol_id: DEVICE,
                se_file_offset: 0,
                se_length: 4096,
                se_storage_offset: 8192,
                se_state: PnfsScsiExtentState4::PNFS_SCSI_READ_WRITE_DATA,
            }]),
        }))),
        segment(LayoutContent4::Objects(Known(PnfsOsdLayout4 {
            olo_map: PnfsOsdDataMap4 {
                odm_num_comps: 1,
                odm_stripe_unit: 65536,
                odm_group_width: 0,
                odm_group_depth: 0,
                odm_mirror_cnt: 0,
                odm_raid_algorithm: PnfsOsdRaidAlgorithm4::PNFS_OSD_RAID_0,
            },
            olo_comps_index: 0,
            olo_components: list([credential()]),
        }))),
        segment(LayoutContent4::Other(UNKNOWN, Opaque(&[9; 5]))),
        segment(LayoutContent4::Files(Unread(Opaque(&[1, 2, 3])))),
    ]);
    vec![
        (
            device(DeviceAddr4::Files(Known(Nfsv41FileLayoutDsAddr4 {
                nflda_stripe_indices: list([0, 1, 0]),
                nflda_multipath_ds_list: list([MultipathList4 { multipath_list: list([netaddr(), netaddr6()]) }]),
            }))),
            "00000000 00000001 00000054 00000003 00000000 00000001 00000000 00000001 00000002 $netaddr $netaddr6 00000000",
        ),
        (
            device(DeviceAddr4::Block(Known(PnfsBlockDeviceaddr4 {
                bda_volumes: list([
                    PnfsBlockVolume4::Simple(PnfsBlockSimpleVolumeInfo4 {
                        bsv_ds: list([PnfsBlockSigComponent4 { bsc_sig_offset: -512, bsc_contents: Opaque(b"mark") }]),
                    }),
                    PnfsBlockVolume4::Slice(PnfsBlockSliceVolumeInfo4 {
                        bsv_start: 4096,
                        bsv_length: 65536,
                        bsv_volume: 0,
                    }),
                    PnfsBlockVolume4::Concat(PnfsBlockConcatVolumeInfo4 { bcv_volumes: list([0, 1]) }),
                    PnfsBlockVolume4::Stripe(PnfsBlockStripeVolumeInfo4 {
                        bsv_stripe_unit: 65536,
                        bsv_volumes: list([1, 2]),
                    }),
                ]),
            }))),
            "00000000 00000003 0000005c 00000004 00000000 00000001 ffffffff fffffe00 00000004 'mark' 00000001 00000000 00001000 00000000 00010000 00000000 00000002 00000002 00000000 00000001 00000003 00000000 00010000 00000002 00000001 00000002 00000000",
        ),
        (
            device(DeviceAddr4::Scsi(Known(PnfsScsiDeviceaddr4 {
                sda_volumes: list([
                    PnfsScsiVolume4::Base(PnfsScsiBaseVolumeInfo4 {
                        sbv_code_set: PnfsScsiCodeSet::PS_CODE_SET_BINARY,
                        sbv_designator_type: PnfsScsiDesignatorType::PS_DESIGNATOR_NAA,
                        sbv_designator: Opaque(b"designat"),
                        sbv_pr_key: *b"resv key",
                    }),
                    PnfsScsiVolume4::Slice(PnfsScsiSliceVolumeInfo4 {
                        ssv_start: 4096,
                        ssv_length: 65536,
                        ssv_volume: 0,
                    }),
                    PnfsScsiVolume4::Concat(PnfsScsiConcatVolumeInfo4 { scv_volumes: list([0, 1]) }),
                    PnfsScsiVolume4::Stripe(PnfsScsiStripeVolumeInfo4 {
                        ssv_stripe_unit: 65536,
                        ssv_volumes: list([1, 2]),
                    }),
                ]),
            }))),
            "00000000 00000005 00000064 00000004 00000004 00000001 00000003 00000008 'designat' 'resv key' 00000001 00000000 00001000 00000000 00010000 00000000 00000002 00000002 00000000 00000001 00000003 00000000 00010000 00000002 00000001 00000002 00000000",
        ),
        (
            device(DeviceAddr4::FlexFiles(Known(FfDeviceAddr4 {
                ffda_netaddrs: MultipathList4 { multipath_list: list([netaddr()]) },
                ffda_versions: list([FfDeviceVersions4 {
                    ffdv_version: 4,
                    ffdv_minorversion: 2,
                    ffdv_rsize: 1 << 20,
                    ffdv_wsize: 1 << 20,
                    ffdv_tightly_coupled: false,
                }]),
            }))),
            "00000000 00000004 00000038 00000001 $netaddr 00000001 00000004 00000002 00100000 00100000 00000000 00000000",
        ),
        (
            device(DeviceAddr4::Objects(Known(PnfsOsdDeviceaddr4 {
                oda_targetid: PnfsOsdTargetid4::ScsiName(Text(b"iqn")),
                oda_targetaddr: PnfsOsdTargetaddr4::Available(netaddr()),
                oda_lun: [0, 0, 0, 0, 0, 0, 0, 7],
                oda_systemid: Opaque(b"id"),
                oda_root_obj_cred: credential(),
                oda_osdname: Opaque(b"osd"),
            }))),
            "00000000 00000002 0000007c 00000002 00000003 'iqn' 00 00000001 $netaddr 00000000 00000007 00000002 'id' 0000 $device 00000000 00000002 00000000 00000003 00000001 00000001 00000003 'key' 00 00000003 'cap' 00 00000003 'osd' 00 00000000",
        ),
        (device(DeviceAddr4::Other(UNKNOWN, Opaque(&[0; 8]))), "00000000 80000001 00000008 00000000 00000000 00000000"),
        (
            Results::GETDEVICEINFO(Box::new(GetdeviceinfoRes::Toosmall(GetdeviceinfoToosmall { gdir_mincount: 100 }))),
            "00002715 00000064",
        ),
        (
            Results::GETDEVICELIST(StatusUnion::Ok(Getdevicelist4Resok {
                gdlr_cookie: 1,
                gdlr_cookieverf: VERIFIER,
                gdlr_deviceid_list: list([DEVICE]),
                gdlr_eof: true,
            })),
            "00000000 00000000 00000001 $verifier 00000001 $device 00000001",
        ),
        (
            Results::LAYOUTCOMMIT(StatusUnion::Ok(Layoutcommit4Resok { locr_newsize: Newsize4::Changed(4096) })),
            "00000000 00000001 00000000 00001000",
        ),
        (
            Results::LAYOUTGET(LayoutgetRes::Ok(Layoutget4Resok {
                logr_return_on_close: true,
                logr_stateid: STATEID,
                logr_layout: layouts,
            })),
            "00000000 00000001 $stateid 00000007 $segment 00000001 0000002c $device 00010002 00000000 00000000 00000000 00000001 $fh $segment 00000003 00000030 00000001 $device 00000000 00000000 00000000 00001000 00000000 00002000 00000002 $segment 00000004 00000058 00000000 00001000 00000001 00000001 $device 00000001 $stateid 00000001 $fh 00000004 '1000' 00000003 '100' 00 00000003 0000003c $segment 00000005 00000030 00000001 $device 00000000 00000000 00000000 00001000 00000000 00002000 00000000 $segment 00000002 0000005c 00000001 00000000 00010000 00000000 00000000 00000000 00000001 00000000 00000001 $device 00000000 00000002 00000000 00000003 00000001 00000001 00000003 'key' 00 00000003 'cap' 00 $segment 80000001 00000005 0909090909 000000 $segment 00000001 00000003 010203 00",
        ),
        (
            Results::LAYOUTGET(LayoutgetRes::Trylater(LayoutgetTrylater { logr_will_signal_layout_avail: true })),
            "0000274a 00000001",
        ),
        (
            Results::LAYOUTRETURN(StatusUnion::Ok(Layoutreturn4Resok {
                lorr_stateid: LayoutreturnStateid::Present(STATEID),
            })),
            "00000000 00000001 $stateid",
        ),
        (
            Results::LAYOUTRETURN(StatusUnion::Ok(Layoutreturn4Resok { lorr_stateid: LayoutreturnStateid::Absent })),
            "00000000 00000000",
        ),
        (Results::LAYOUTERROR(DONE), "00000000"),
        (Results::LAYOUTSTATS(DONE), "00000000"),
    ]
}
