//! Callback operations.

use super::*;

pub(super) fn calls() -> Vec<(CbArgs<'static>, &'static str)> {
    let entry = || NotifyEntry4 { ne_file: NAME, ne_attrs: fattr() };
    let removed = || NotifyRemove4 { nrm_old_entry: entry(), nrm_old_entry_cookie: 3 };
    let added = || NotifyAdd4 {
        nad_old_entry: list([removed()]),
        nad_new_entry: entry(),
        nad_new_entry_cookie: list([4]),
        nad_prev_entry: list([PrevEntry4 { pe_prev_entry: entry(), pe_prev_entry_cookie: 2 }]),
        nad_last_entry: true,
    };
    let notifications = masked(&[
        Notification::CHANGE_CHILD_ATTRS(NotifyAttr4 { na_changed_entry: entry() }),
        Notification::CHANGE_DIR_ATTRS(NotifyAttr4 { na_changed_entry: entry() }),
        Notification::REMOVE_ENTRY(removed()),
        Notification::ADD_ENTRY(added()),
        Notification::RENAME_ENTRY(NotifyRename4 { nrn_old_entry: removed(), nrn_new_entry: added() }),
        Notification::CHANGE_COOKIE_VERIFIER(NotifyVerifier4 {
            nv_old_cookieverf: VERIFIER,
            nv_new_cookieverf: VERIFIER,
        }),
    ]);
    assert_eq!(notifications.items().filter(Result::is_ok).count(), 6);
    let devices = masked(&[
        DeviceNotification::CHANGE(NotifyDeviceidChange4 {
            ndc_layouttype: FILES,
            ndc_deviceid: DEVICE,
            ndc_immediate: false,
        }),
        DeviceNotification::DELETE(NotifyDeviceidDelete4 { ndd_layouttype: FILES, ndd_deviceid: DEVICE }),
    ]);
    assert_eq!(devices.items().filter(Result::is_ok).count(), 2);
    let recall = |clora_recall| {
        CbArgs::CB_LAYOUTRECALL(CbLayoutrecall4Args {
            clora_type: FILES,
            clora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
            clora_changed: true,
            clora_recall,
        })
    };
    let recall_any = || CbRecallAny4Args { craa_objects_to_keep: 10, craa_type_mask: bitmap(&[0x3]) };
    let offload =
        |coa_offload_info| CbArgs::CB_OFFLOAD(CbOffload4Args { coa_fh: FH, coa_stateid: STATEID, coa_offload_info });
    vec![
        (CbArgs::CB_GETATTR(CbGetattr4Args { fh: FH, attr_request: bitmap(&[0x18]) }), "$fh 00000001 00000018"),
        (CbArgs::CB_RECALL(CbRecall4Args { stateid: STATEID, truncate: false, fh: FH }), "$stateid 00000000 $fh"),
        (
            recall(Layoutrecall4::File(LayoutrecallFile4 {
                lor_fh: FH,
                lor_offset: 0,
                lor_length: u64::MAX,
                lor_stateid: STATEID,
            })),
            "00000001 00000003 00000001 00000001 $fh 00000000 00000000 ffffffff ffffffff $stateid",
        ),
        (
            recall(Layoutrecall4::Fsid(Fsid4 { major: 1, minor: 2 })),
            "00000001 00000003 00000001 00000002 00000000 00000001 00000000 00000002",
        ),
        (recall(Layoutrecall4::All), "00000001 00000003 00000001 00000003"),
        (
            CbArgs::CB_NOTIFY(CbNotify4Args { cna_stateid: STATEID, cna_fh: FH, cna_changes: list([notifications]) }),
            "$stateid $fh 00000001 00000001 0000003f 00000200 $name $fattr $name $fattr $name $fattr 00000000 00000003 00000001 $name $fattr 00000000 00000003 $name $fattr 00000001 00000000 00000004 00000001 $name $fattr 00000000 00000002 00000001 $name $fattr 00000000 00000003 00000001 $name $fattr 00000000 00000003 $name $fattr 00000001 00000000 00000004 00000001 $name $fattr 00000000 00000002 00000001 $verifier $verifier",
        ),
        (
            CbArgs::CB_PUSH_DELEG(CbPushDeleg4Args {
                cpda_fh: FH,
                cpda_delegation: OpenDelegation4::Write(write_delegation()),
            }),
            "$fh 00000002 $write_delegation",
        ),
        (CbArgs::CB_RECALL_ANY(recall_any()), "0000000a 00000001 00000003"),
        (CbArgs::CB_RECALLABLE_OBJ_AVAIL(recall_any()), "0000000a 00000001 00000003"),
        (CbArgs::CB_RECALL_SLOT(CbRecallSlot4Args { rsa_target_highest_slotid: 7 }), "00000007"),
        (
            CbArgs::CB_SEQUENCE(CbSequence4Args {
                csa_sessionid: SESSION,
                csa_sequenceid: 1,
                csa_slotid: 0,
                csa_highest_slotid: 0,
                csa_cachethis: false,
                csa_referring_call_lists: list([ReferringCallList4 {
                    rcl_sessionid: SESSION,
                    rcl_referring_calls: list([ReferringCall4 { rc_sequenceid: 9, rc_slotid: 1 }]),
                }]),
            }),
            "$session 00000001 00000000 00000000 00000000 00000001 $session 00000001 00000009 00000001",
        ),
        (
            CbArgs::CB_WANTS_CANCELLED(CbWantsCancelled4Args {
                cwca_contended_wants_cancelled: true,
                cwca_resourced_wants_cancelled: false,
            }),
            "00000001 00000000",
        ),
        (CbArgs::CB_NOTIFY_LOCK(CbNotifyLock4Args { cnla_fh: FH, cnla_lock_owner: OWNER }), "$fh $owner"),
        (
            CbArgs::CB_NOTIFY_DEVICEID(CbNotifyDeviceid4Args { cnda_changes: list([devices]) }),
            "00000001 00000001 00000006 0000002c 00000001 $device 00000000 00000001 $device",
        ),
        (offload(OffloadInfo4::Ok(write_response())), "$fh $stateid 00000000 $write_response"),
        (offload(OffloadInfo4::Fail(Nfsstat4::NFS4ERR_IO, 4096)), "$fh $stateid 00000005 00000000 00001000"),
        (CbArgs::CB_ILLEGAL(Void), ""),
    ]
}

pub(super) fn replies() -> Vec<(CbResults<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    const FAILED: StatusUnion<Nfsstat4, Void> = StatusUnion::Fail(Nfsstat4::NFS4ERR_BADHANDLE, Void);
    vec![
        (CbResults::CB_GETATTR(StatusUnion::Ok(Getattr4Resok { obj_attributes: fattr() })), "00000000 $fattr"),
        (CbResults::CB_RECALL(DONE), "00000000"),
        (CbResults::CB_LAYOUTRECALL(FAILED), "00002711"),
        (CbResults::CB_NOTIFY(DONE), "00000000"),
        (CbResults::CB_PUSH_DELEG(DONE), "00000000"),
        (CbResults::CB_RECALL_ANY(DONE), "00000000"),
        (CbResults::CB_RECALLABLE_OBJ_AVAIL(DONE), "00000000"),
        (CbResults::CB_RECALL_SLOT(DONE), "00000000"),
        (
            CbResults::CB_SEQUENCE(StatusUnion::Ok(CbSequence4Resok {
                csr_sessionid: SESSION,
                csr_sequenceid: 1,
                csr_slotid: 0,
                csr_highest_slotid: 0,
                csr_target_highest_slotid: 0,
            })),
            "00000000 $session 00000001 00000000 00000000 00000000",
        ),
        (CbResults::CB_WANTS_CANCELLED(DONE), "00000000"),
        (CbResults::CB_NOTIFY_LOCK(DONE), "00000000"),
        (CbResults::CB_NOTIFY_DEVICEID(DONE), "00000000"),
        (CbResults::CB_OFFLOAD(DONE), "00000000"),
        (CbResults::CB_ILLEGAL(StatusUnion::Fail(Nfsstat4::NFS4ERR_OP_ILLEGAL, Void)), "0000273c"),
    ]
}
