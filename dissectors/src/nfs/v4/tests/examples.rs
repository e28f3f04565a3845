//! An example of every operation, result, callback operation and callback result.

use super::super::*;
use crate::nfs::Outcome;
use crate::xdr::{Chain, Ddp, DdpText, List, Opaque, Text, Void};

const SECONDS: Nfstime4 = Nfstime4 { seconds: 1_700_000_000, nseconds: 7 };
const STATEID: Stateid4 = Stateid4 { seqid: 1, other: *b"twelve bytes" };
const CINFO: ChangeInfo4 = ChangeInfo4 { atomic: true, before: 1, after: 2 };
const VERIFIER: Verifier4 = *b"verifier";
const SESSION: Sessionid4 = *b"session of a box";
const DEVICE: Deviceid4 = *b"a device's id is";
const OWNER: LockOwner4<'_> = LockOwner4 { clientid: 5, owner: Opaque(b"owner") };
const FH: NfsFh4<'_> = Opaque(&[1, 0, 1, 0x81]);
const NAME: Text<'_> = Text(b"name");
const ACE: Nfsace4<'_> = Nfsace4 {
    r#type: Acetype4::ACE4_ACCESS_ALLOWED_ACE_TYPE,
    flag: Aceflag4::ACE4_FILE_INHERIT_ACE,
    access_mask: Acemask4::ACE4_READ_DATA,
    who: Text(b"OWNER@"),
};
const FILES: Layouttype4 = Layouttype4::LAYOUT4_NFSV4_1_FILES;

/// A slice that lives as long as the test.
pub(super) fn slice<T>(items: impl Into<Vec<T>>) -> &'static [T] {
    Box::leak(items.into().into_boxed_slice())
}

fn list<T: Clone, const BOUND: u32>(items: impl Into<Vec<T>>) -> List<'static, T, BOUND> {
    List::from(slice(items))
}

fn bitmap<N>(words: &[u32]) -> Bitmap4<'static, N> {
    Bitmap4::from(slice(words))
}

fn masked<T: Item<'static, Names = N> + 'static, N: Names>(items: &[T]) -> Masked<'static, T, N> {
    let (words, values) = mask_and_values(items);
    Masked::new(bitmap(&words), Opaque(slice(values)))
}

fn fattr() -> Fattr4<'static> {
    masked(&[Attribute::SIZE(42), Attribute::OWNER(Text(b"root"))])
}

fn netaddr() -> Netaddr4<'static> {
    Netaddr4 { na_r_netid: Text(b"rdma"), na_r_addr: Text(b"192.0.2.1.78.81") }
}

fn channel_attrs() -> ChannelAttrs4<'static> {
    ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1_049_620,
        ca_maxresponsesize: 1_049_480,
        ca_maxresponsesize_cached: 7584,
        ca_maxoperations: 8,
        ca_maxrequests: 64,
        ca_rdma_ird: list([16]),
    }
}

fn sec_parms() -> List<'static, CallbackSecParms4<'static>> {
    list([
        CallbackSecParms4::None,
        CallbackSecParms4::Sys(AuthsysParms {
            stamp: 1,
            machinename: Text(b"client"),
            uid: 0,
            gid: 0,
            gids: list([10, 20]),
        }),
        CallbackSecParms4::Gss(GssCbHandles4 {
            gcbp_service: RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
            gcbp_handle_from_server: Opaque(b"s"),
            gcbp_handle_from_client: Opaque(b"cc"),
        }),
    ])
}

fn protect_ops() -> StateProtectOps4<'static> {
    StateProtectOps4 { spo_must_enforce: bitmap(&[0, 0x3800]), spo_must_allow: bitmap(&[0x10]) }
}

fn write_delegation() -> OpenWriteDelegation4<'static> {
    OpenWriteDelegation4 {
        stateid: STATEID,
        recall: false,
        space_limit: NfsSpaceLimit4::Blocks(NfsModifiedLimit4 { num_blocks: 1, bytes_per_block: 4096 }),
        permissions: ACE,
    }
}

fn write_response() -> WriteResponse4<'static> {
    WriteResponse4 {
        wr_callback_id: list([STATEID]),
        wr_count: 4096,
        wr_committed: StableHow4::FILE_SYNC4,
        wr_writeverf: VERIFIER,
    }
}

fn locations() -> List<'static, Netloc4<'static>> {
    list([Netloc4::Name(Text(b"host")), Netloc4::Url(Text(b"nfs://host/")), Netloc4::Netaddr(netaddr())])
}

fn open(openhow: Openflag4<'static>, claim: OpenClaim4<'static>) -> Args<'static> {
    Args::OPEN(OpenArgs {
        seqid: 0,
        share_access: ShareAccess::OPEN4_SHARE_ACCESS_BOTH,
        share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
        owner: OpenOwner4 { clientid: 5, owner: Opaque(b"open id:") },
        openhow,
        claim,
    })
}

/// The arguments of every operation, some in several forms.
pub(super) fn every_call() -> Vec<Args<'static>> {
    let create = |objtype| Args::CREATE(CreateArgs { objtype, objname: NAME, createattrs: fattr() });
    let lock = |locker| {
        Args::LOCK(LockArgs {
            locktype: NfsLockType4::WRITEW_LT,
            reclaim: false,
            offset: 0,
            length: u64::MAX,
            locker,
        })
    };
    let exchange_id = |eia_state_protect| {
        Args::EXCHANGE_ID(ExchangeIdArgs {
            eia_clientowner: ClientOwner4 {
                co_verifier: VERIFIER,
                co_ownerid: Opaque(b"Linux NFSv4.2 client"),
            },
            eia_flags: ExchangeIdFlags::EXCHGID4_FLAG_SUPP_MOVED_REFER,
            eia_state_protect,
            eia_client_impl_id: list([NfsImplId4 { nii_domain: NAME, nii_name: NAME, nii_date: SECONDS }]),
        })
    };
    let layoutreturn = |lora_layoutreturn| {
        Args::LAYOUTRETURN(LayoutreturnArgs {
            lora_reclaim: false,
            lora_layout_type: FILES,
            lora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
            lora_layoutreturn,
        })
    };
    let update = Layoutupdate4 { lou_type: FILES, lou_body: Opaque(&[1, 2, 3]) };
    let layoutcommit = |loca_last_write_offset, loca_time_modify| {
        Args::LAYOUTCOMMIT(LayoutcommitArgs {
            loca_offset: 0,
            loca_length: 4096,
            loca_reclaim: false,
            loca_stateid: STATEID,
            loca_last_write_offset,
            loca_time_modify,
            loca_layoutupdate: update.clone(),
        })
    };
    let object_attributes = || ObjAttributes { obj_attributes: fattr() };
    vec![
        Args::ACCESS(AccessArgs { access: Access4(0x1ff) }),
        Args::CLOSE(CloseArgs { seqid: 0, open_stateid: STATEID }),
        Args::COMMIT(CommitArgs { offset: 0, count: 0 }),
        create(Createtype4::Link(DdpText::Inline(b"target"))),
        create(Createtype4::Block(Specdata4 { specdata1: 8, specdata2: 1 })),
        create(Createtype4::Character(Specdata4 { specdata1: 1, specdata2: 3 })),
        create(Createtype4::Other(NfsFtype4::NF4DIR)),
        Args::DELEGPURGE(DelegpurgeArgs { clientid: 5 }),
        Args::DELEGRETURN(DelegreturnArgs { deleg_stateid: STATEID }),
        Args::GETATTR(GetattrArgs { attr_request: bitmap(&[0x11a, 0x30]) }),
        Args::GETFH(Void),
        Args::LINK(LinkArgs { newname: NAME }),
        lock(Locker4::New(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: STATEID,
            lock_seqid: 0,
            lock_owner: OWNER,
        })),
        lock(Locker4::Existing(ExistLockOwner4 { lock_stateid: STATEID, lock_seqid: 1 })),
        Args::LOCKT(LocktArgs { locktype: NfsLockType4::READ_LT, offset: 1, length: 2, owner: OWNER }),
        Args::LOCKU(LockuArgs {
            locktype: NfsLockType4::READ_LT,
            seqid: 1,
            lock_stateid: STATEID,
            offset: 1,
            length: 2,
        }),
        Args::LOOKUP(LookupArgs { objname: NAME }),
        Args::LOOKUPP(Void),
        Args::NVERIFY(object_attributes()),
        open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::Null(NAME)),
        open(
            Openflag4::Create(Createhow4::Unchecked(fattr())),
            OpenClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_WRITE),
        ),
        open(
            Openflag4::Create(Createhow4::Guarded(fattr())),
            OpenClaim4::DelegateCur(OpenClaimDelegateCur4 { delegate_stateid: STATEID, file: NAME }),
        ),
        open(Openflag4::Create(Createhow4::Exclusive(VERIFIER)), OpenClaim4::DelegatePrev(NAME)),
        open(
            Openflag4::Create(Createhow4::Exclusive41(Creatverfattr {
                cva_verf: VERIFIER,
                cva_attrs: fattr(),
            })),
            OpenClaim4::Fh,
        ),
        open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::DelegPrevFh),
        open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::DelegCurFh(STATEID)),
        Args::OPENATTR(OpenattrArgs { createdir: true }),
        Args::OPEN_CONFIRM(OpenConfirmArgs { open_stateid: STATEID, seqid: 1 }),
        Args::OPEN_DOWNGRADE(OpenDowngradeArgs {
            open_stateid: STATEID,
            seqid: 1,
            share_access: ShareAccess::OPEN4_SHARE_ACCESS_READ,
            share_deny: ShareDeny::OPEN4_SHARE_DENY_BOTH,
        }),
        Args::PUTFH(Object { object: FH }),
        Args::PUTPUBFH(Void),
        Args::PUTROOTFH(Void),
        Args::READ(ReadArgs { stateid: STATEID, offset: 4096, count: 8192 }),
        Args::READDIR(ReaddirArgs {
            cookie: 0,
            cookieverf: VERIFIER,
            dircount: 1,
            maxcount: 2,
            attr_request: bitmap(&[0x18091a, 0xb0a23a]),
        }),
        Args::READLINK(Void),
        Args::REMOVE(RemoveArgs { target: NAME }),
        Args::RENAME(RenameArgs { oldname: NAME, newname: Text(b"other") }),
        Args::RENEW(RenewArgs { clientid: 5 }),
        Args::RESTOREFH(Void),
        Args::SAVEFH(Void),
        Args::SECINFO(SecinfoArgs { name: NAME }),
        Args::SETATTR(SetattrArgs { stateid: STATEID, obj_attributes: fattr() }),
        Args::SETCLIENTID(SetclientidArgs {
            client: NfsClientId4 { verifier: VERIFIER, id: Opaque(b"Linux NFSv4.0 client") },
            callback: CbClient4 { cb_program: 0x4000_0000, cb_location: netaddr() },
            callback_ident: 1,
        }),
        Args::SETCLIENTID_CONFIRM(SetclientidConfirm { clientid: 5, setclientid_confirm: VERIFIER }),
        Args::VERIFY(object_attributes()),
        Args::WRITE(WriteArgs {
            stateid: STATEID,
            offset: 0,
            stable: StableHow4::UNSTABLE4,
            data: Ddp::Inline(b"hello"),
        }),
        Args::RELEASE_LOCKOWNER(ReleaseLockownerArgs { lock_owner: OWNER }),
        Args::BACKCHANNEL_CTL(BackchannelCtlArgs { bca_cb_program: 0x4000_0000, bca_sec_parms: sec_parms() }),
        Args::BIND_CONN_TO_SESSION(BindConnToSessionArgs {
            bctsa_sessid: SESSION,
            bctsa_dir: ChannelDirFromClient4::CDFC4_FORE_OR_BOTH,
            bctsa_use_conn_in_rdma_mode: true,
        }),
        exchange_id(StateProtect4A::None),
        exchange_id(StateProtect4A::MachCred(protect_ops())),
        exchange_id(StateProtect4A::Ssv(SsvSpParms4 {
            ssp_ops: protect_ops(),
            ssp_hash_algs: list([Opaque(b"sha")]),
            ssp_encr_algs: list([Opaque(b"aes")]),
            ssp_window: 8,
            ssp_num_gss_handles: 1,
        })),
        Args::CREATE_SESSION(CreateSessionArgs {
            csa_clientid: 5,
            csa_sequence: 1,
            csa_flags: CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_RDMA,
            csa_fore_chan_attrs: channel_attrs(),
            csa_back_chan_attrs: channel_attrs(),
            csa_cb_program: 0x4000_0000,
            csa_sec_parms: sec_parms(),
        }),
        Args::DESTROY_SESSION(DestroySessionArgs { dsa_sessionid: SESSION }),
        Args::FREE_STATEID(FreeStateidArgs { fsa_stateid: STATEID }),
        Args::GET_DIR_DELEGATION(GetDirDelegationArgs {
            gdda_signal_deleg_avail: false,
            gdda_notification_types: bitmap(&[0x3f]),
            gdda_child_attr_delay: SECONDS,
            gdda_dir_attr_delay: SECONDS,
            gdda_child_attributes: bitmap(&[]),
            gdda_dir_attributes: bitmap(&[1]),
        }),
        Args::GETDEVICEINFO(GetdeviceinfoArgs {
            gdia_device_id: DEVICE,
            gdia_layout_type: FILES,
            gdia_maxcount: 4096,
            gdia_notify_types: bitmap(&[6]),
        }),
        Args::GETDEVICELIST(GetdevicelistArgs {
            gdla_layout_type: FILES,
            gdla_maxdevices: 8,
            gdla_cookie: 0,
            gdla_cookieverf: VERIFIER,
        }),
        layoutcommit(Newoffset4::New(4095), Newtime4::Changed(SECONDS)),
        layoutcommit(Newoffset4::None, Newtime4::Same),
        Args::LAYOUTGET(LayoutgetArgs {
            loga_signal_layout_avail: false,
            loga_layout_type: FILES,
            loga_iomode: Layoutiomode4::LAYOUTIOMODE4_RW,
            loga_offset: 0,
            loga_length: u64::MAX,
            loga_minlength: 4096,
            loga_stateid: STATEID,
            loga_maxcount: 4096,
        }),
        layoutreturn(Layoutreturn4::File(LayoutreturnFile4 {
            lrf_offset: 0,
            lrf_length: u64::MAX,
            lrf_stateid: STATEID,
            lrf_body: Opaque(b""),
        })),
        layoutreturn(Layoutreturn4::Other(LayoutreturnType4::LAYOUTRETURN4_ALL)),
        Args::SECINFO_NO_NAME(SecinfoNoNameArgs { style: SecinfoStyle4::SECINFO_STYLE4_PARENT }),
        Args::SEQUENCE(SequenceArgs {
            sa_sessionid: SESSION,
            sa_sequenceid: 1,
            sa_slotid: 0,
            sa_highest_slotid: 63,
            sa_cachethis: true,
        }),
        Args::SET_SSV(SetSsvArgs { ssa_ssv: Opaque(b"ssv"), ssa_digest: Opaque(b"digest") }),
        Args::TEST_STATEID(TestStateidArgs { ts_stateids: list([STATEID, STATEID]) }),
        Args::WANT_DELEGATION(WantDelegationArgs {
            wda_want: ShareAccess::OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
            wda_claim: DelegClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_READ),
        }),
        Args::DESTROY_CLIENTID(DestroyClientidArgs { dca_clientid: 5 }),
        Args::RECLAIM_COMPLETE(ReclaimCompleteArgs { rca_one_fs: false }),
        Args::ALLOCATE(AllocateArgs { aa_stateid: STATEID, aa_offset: 0, aa_length: 100_000 }),
        Args::COPY(CopyArgs {
            ca_src_stateid: STATEID,
            ca_dst_stateid: STATEID,
            ca_src_offset: 0,
            ca_dst_offset: 0,
            ca_count: 0,
            ca_consecutive: true,
            ca_synchronous: false,
            ca_source_server: locations(),
        }),
        Args::COPY_NOTIFY(CopyNotifyArgs {
            cna_src_stateid: STATEID,
            cna_destination_server: Netloc4::Netaddr(netaddr()),
        }),
        Args::DEALLOCATE(DeallocateArgs { da_stateid: STATEID, da_offset: 0, da_length: 1 }),
        Args::IO_ADVISE(IoAdviseArgs {
            iaa_stateid: STATEID,
            iaa_offset: 0,
            iaa_count: 0,
            iaa_hints: bitmap(&[0x12]),
        }),
        Args::LAYOUTERROR(LayouterrorArgs {
            lea_offset: 0,
            lea_length: 1,
            lea_stateid: STATEID,
            lea_errors: list([DeviceError4 {
                de_deviceid: DEVICE,
                de_status: Nfsstat4::NFS4ERR_NXIO,
                de_opnum: Operation::READ,
            }]),
        }),
        Args::LAYOUTSTATS(LayoutstatsArgs {
            lsa_offset: 0,
            lsa_length: 1,
            lsa_stateid: STATEID,
            lsa_read: IoInfo4 { ii_count: 1, ii_bytes: 2 },
            lsa_write: IoInfo4 { ii_count: 3, ii_bytes: 4 },
            lsa_deviceid: DEVICE,
            lsa_layoutupdate: update.clone(),
        }),
        Args::OFFLOAD_CANCEL(OffloadCancelArgs { oca_stateid: STATEID }),
        Args::OFFLOAD_STATUS(OffloadStatusArgs { osa_stateid: STATEID }),
        Args::READ_PLUS(ReadPlusArgs { rpa_stateid: STATEID, rpa_offset: 0, rpa_count: 1 }),
        Args::SEEK(SeekArgs { sa_stateid: STATEID, sa_offset: 0, sa_what: DataContent4::NFS4_CONTENT_HOLE }),
        Args::WRITE_SAME(WriteSameArgs {
            wsa_stateid: STATEID,
            wsa_stable: StableHow4::DATA_SYNC4,
            wsa_adb: AppDataBlock4 {
                adb_offset: 0,
                adb_block_size: 4096,
                adb_block_count: 100,
                adb_reloff_blocknum: 0,
                adb_block_num: 1,
                adb_reloff_pattern: 8,
                adb_pattern: Opaque(&[0xfe, 0xed]),
            },
        }),
        Args::CLONE(CloneArgs {
            cl_src_stateid: STATEID,
            cl_dst_stateid: STATEID,
            cl_src_offset: 0,
            cl_dst_offset: 0,
            cl_count: 0,
        }),
        Args::GETXATTR(GetxattrArgs { gxa_name: NAME }),
        Args::SETXATTR(SetxattrArgs {
            sxa_option: SetxattrOption4::SETXATTR4_CREATE,
            sxa_key: NAME,
            sxa_value: Opaque(b"value"),
        }),
        Args::LISTXATTRS(ListxattrsArgs { lxa_cookie: 0, lxa_maxcount: 292 }),
        Args::REMOVEXATTR(RemovexattrArgs { rxa_name: NAME }),
        Args::ILLEGAL(Void),
    ]
}

/// The results of every operation, some in several forms.
pub(super) fn every_reply() -> Vec<Results<'static>> {
    const DONE: Outcome<Nfsstat4, Void> = Outcome::Ok(Void);
    const FAILED: Outcome<Nfsstat4, Void> = Outcome::Fail(Nfsstat4::NFS4ERR_DELAY, Void);
    let denied = || LockDenied { offset: 0, length: 1, locktype: NfsLockType4::WRITE_LT, owner: OWNER };
    let open = |delegation| {
        Results::OPEN(Outcome::Ok(OpenResok {
            stateid: STATEID,
            cinfo: CINFO,
            rflags: OpenRflags::OPEN4_RESULT_LOCKTYPE_POSIX,
            attrset: bitmap(&[0, 2]),
            delegation,
        }))
    };
    let read_delegation = || OpenReadDelegation4 { stateid: STATEID, recall: true, permissions: ACE };
    let exchange_id = |eir_state_protect| {
        Results::EXCHANGE_ID(Outcome::Ok(ExchangeIdResok {
            eir_clientid: 5,
            eir_sequenceid: 1,
            eir_flags: ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R,
            eir_state_protect,
            eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: Opaque(b"server") },
            eir_server_scope: Opaque(b"server"),
            eir_server_impl_id: list([]),
        }))
    };
    let entries = slice([
        Entry4 { cookie: 3, name: NAME, attrs: fattr() },
        Entry4 { cookie: 4, name: NAME, attrs: fattr() },
    ]);
    let secinfo = SecinfoResok {
        resok4: list([
            Secinfo4::RpcsecGss(RpcsecGssInfo {
                oid: Opaque(&[0x2a, 0x86]),
                qop: 0,
                service: RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
            }),
            Secinfo4::Other(Flavor::AUTH_SYS),
        ]),
    };
    let requirements = CopyRequirements4 { cr_consecutive: true, cr_synchronous: true };
    let layouts = list([Layout4 {
        lo_offset: 0,
        lo_length: u64::MAX,
        lo_iomode: Layoutiomode4::LAYOUTIOMODE4_READ,
        lo_content: LayoutContent4 { loc_type: FILES, loc_body: Opaque(&[9; 5]) },
    }]);
    vec![
        Results::ACCESS(Outcome::Ok(AccessResok { supported: Access4(0x1f), access: Access4(0x1f) })),
        Results::CLOSE(Outcome::Ok(OpenStateid { open_stateid: STATEID })),
        Results::COMMIT(Outcome::Ok(CommitResok { writeverf: VERIFIER })),
        Results::CREATE(Outcome::Ok(CreateResok { cinfo: CINFO, attrset: bitmap(&[0, 2]) })),
        Results::DELEGPURGE(DONE),
        Results::DELEGRETURN(FAILED),
        Results::GETATTR(Outcome::Ok(ObjAttributes { obj_attributes: fattr() })),
        Results::GETFH(Outcome::Ok(Object { object: FH })),
        Results::LINK(Outcome::Ok(Cinfo { cinfo: CINFO })),
        Results::LOCK(LockRes::Ok(LockStateid { lock_stateid: STATEID })),
        Results::LOCK(LockRes::Denied(denied())),
        Results::LOCK(LockRes::Fail(Nfsstat4::NFS4ERR_GRACE)),
        Results::LOCKT(LocktRes::Ok(Void)),
        Results::LOCKT(LocktRes::Denied(denied())),
        Results::LOCKU(Outcome::Ok(LockStateid { lock_stateid: STATEID })),
        Results::LOOKUP(FAILED),
        Results::LOOKUPP(DONE),
        Results::NVERIFY(FAILED),
        open(OpenDelegation4::None),
        open(OpenDelegation4::Read(read_delegation())),
        open(OpenDelegation4::Write(write_delegation())),
        open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Contention(true))),
        open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(false))),
        open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Other(WhyNoDelegation4::WND4_NOT_WANTED))),
        open(OpenDelegation4::ReadAttrs(read_delegation())),
        open(OpenDelegation4::WriteAttrs(OpenWriteDelegation4 {
            space_limit: NfsSpaceLimit4::Size(u64::MAX),
            ..write_delegation()
        })),
        Results::OPENATTR(DONE),
        Results::OPEN_CONFIRM(Outcome::Ok(OpenStateid { open_stateid: STATEID })),
        Results::OPEN_DOWNGRADE(Outcome::Ok(OpenStateid { open_stateid: STATEID })),
        Results::PUTFH(DONE),
        Results::PUTPUBFH(DONE),
        Results::PUTROOTFH(DONE),
        Results::READ(Outcome::Ok(ReadResok { eof: true, data: Ddp::Inline(b"hello") })),
        Results::READDIR(Outcome::Ok(ReaddirResok {
            cookieverf: VERIFIER,
            reply: Dirlist4 { entries: Chain::from(entries), eof: true },
        })),
        Results::READLINK(Outcome::Ok(ReadlinkResok { link: DdpText::Inline(b"../target") })),
        Results::REMOVE(Outcome::Ok(Cinfo { cinfo: CINFO })),
        Results::RENAME(Outcome::Ok(RenameResok { source_cinfo: CINFO, target_cinfo: CINFO })),
        Results::RENEW(DONE),
        Results::RESTOREFH(DONE),
        Results::SAVEFH(DONE),
        Results::SECINFO(Outcome::Ok(secinfo.clone())),
        Results::SETATTR(SetattrRes { status: Nfsstat4::NFS4ERR_PERM, attrsset: bitmap(&[0, 2]) }),
        Results::SETCLIENTID(SetclientidRes::Ok(SetclientidConfirm {
            clientid: 5,
            setclientid_confirm: VERIFIER,
        })),
        Results::SETCLIENTID(SetclientidRes::ClidInuse(ClidInuse { client_using: netaddr() })),
        Results::SETCLIENTID_CONFIRM(DONE),
        Results::VERIFY(DONE),
        Results::WRITE(Outcome::Ok(WriteResok {
            count: 5,
            committed: StableHow4::FILE_SYNC4,
            writeverf: VERIFIER,
        })),
        Results::RELEASE_LOCKOWNER(DONE),
        Results::BACKCHANNEL_CTL(DONE),
        Results::BIND_CONN_TO_SESSION(Outcome::Ok(BindConnToSessionResok {
            bctsr_sessid: SESSION,
            bctsr_dir: ChannelDirFromServer4::CDFS4_BOTH,
            bctsr_use_conn_in_rdma_mode: false,
        })),
        exchange_id(StateProtect4R::None),
        exchange_id(StateProtect4R::MachCred(protect_ops())),
        exchange_id(StateProtect4R::Ssv(SsvProtInfo4 {
            spi_ops: protect_ops(),
            spi_hash_alg: 0,
            spi_encr_alg: 1,
            spi_ssv_len: 32,
            spi_window: 8,
            spi_handles: list([Opaque(b"handle")]),
        })),
        Results::CREATE_SESSION(Outcome::Ok(CreateSessionResok {
            csr_sessionid: SESSION,
            csr_sequence: 1,
            csr_flags: CreateSessionFlags::CREATE_SESSION4_FLAG_PERSIST,
            csr_fore_chan_attrs: channel_attrs(),
            csr_back_chan_attrs: channel_attrs(),
        })),
        Results::DESTROY_SESSION(DONE),
        Results::FREE_STATEID(DONE),
        Results::GET_DIR_DELEGATION(Outcome::Ok(GetDirDelegationResNonFatal::Ok(GetDirDelegationResok {
            gddr_cookieverf: VERIFIER,
            gddr_stateid: STATEID,
            gddr_notification: bitmap(&[0x3c]),
            gddr_child_attributes: bitmap(&[]),
            gddr_dir_attributes: bitmap(&[]),
        }))),
        Results::GET_DIR_DELEGATION(Outcome::Ok(GetDirDelegationResNonFatal::Unavail(true))),
        Results::GETDEVICEINFO(GetdeviceinfoRes::Ok(GetdeviceinfoResok {
            gdir_device_addr: DeviceAddr4 { da_layout_type: FILES, da_addr_body: Opaque(&[0; 8]) },
            gdir_notification: bitmap(&[]),
        })),
        Results::GETDEVICEINFO(GetdeviceinfoRes::Toosmall(GetdeviceinfoToosmall { gdir_mincount: 100 })),
        Results::GETDEVICELIST(Outcome::Ok(GetdevicelistResok {
            gdlr_cookie: 1,
            gdlr_cookieverf: VERIFIER,
            gdlr_deviceid_list: list([DEVICE]),
            gdlr_eof: true,
        })),
        Results::LAYOUTCOMMIT(Outcome::Ok(LayoutcommitResok { locr_newsize: Newsize4::Changed(4096) })),
        Results::LAYOUTGET(LayoutgetRes::Ok(LayoutgetResok {
            logr_return_on_close: true,
            logr_stateid: STATEID,
            logr_layout: layouts,
        })),
        Results::LAYOUTGET(LayoutgetRes::Trylater(LayoutgetTrylater { logr_will_signal_layout_avail: true })),
        Results::LAYOUTRETURN(Outcome::Ok(LayoutreturnResok {
            lorr_stateid: LayoutreturnStateid::Present(STATEID),
        })),
        Results::LAYOUTRETURN(Outcome::Ok(LayoutreturnResok { lorr_stateid: LayoutreturnStateid::Absent })),
        Results::SECINFO_NO_NAME(Outcome::Ok(secinfo)),
        Results::SEQUENCE(Outcome::Ok(SequenceResok {
            sr_sessionid: SESSION,
            sr_sequenceid: 1,
            sr_slotid: 0,
            sr_highest_slotid: 63,
            sr_target_highest_slotid: 63,
            sr_status_flags: SequenceStatusFlags::SEQ4_STATUS_LEASE_MOVED,
        })),
        Results::SET_SSV(Outcome::Ok(SetSsvResok { ssr_digest: Opaque(b"digest") })),
        Results::TEST_STATEID(Outcome::Ok(TestStateidResok {
            tsr_status_codes: list([Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_EXPIRED]),
        })),
        Results::WANT_DELEGATION(Outcome::Ok(WantDelegationResok {
            wdr_resok4: OpenDelegation4::Read(read_delegation()),
        })),
        Results::DESTROY_CLIENTID(DONE),
        Results::RECLAIM_COMPLETE(DONE),
        Results::ALLOCATE(DONE),
        Results::COPY(CopyRes::Ok(CopyResok {
            cr_response: write_response(),
            cr_requirements: requirements.clone(),
        })),
        Results::COPY(CopyRes::NoReqs(requirements)),
        Results::COPY_NOTIFY(Outcome::Ok(CopyNotifyResok {
            cnr_lease_time: SECONDS,
            cnr_stateid: STATEID,
            cnr_source_server: locations(),
        })),
        Results::DEALLOCATE(DONE),
        Results::IO_ADVISE(Outcome::Ok(IoAdviseResok { ior_hints: bitmap(&[2]) })),
        Results::LAYOUTERROR(DONE),
        Results::LAYOUTSTATS(DONE),
        Results::OFFLOAD_CANCEL(FAILED),
        Results::OFFLOAD_STATUS(Outcome::Ok(OffloadStatusResok {
            osr_count: 1,
            osr_complete: list([Nfsstat4::NFS4_OK]),
        })),
        Results::READ_PLUS(Outcome::Ok(ReadPlusRes4 {
            rpr_eof: true,
            rpr_contents: list([
                ReadPlusContent::Data(Data4 { d_offset: 0, d_data: Opaque(b"data!") }),
                ReadPlusContent::Hole(DataInfo4 { di_offset: 5, di_length: 4091 }),
            ]),
        })),
        Results::SEEK(Outcome::Ok(SeekRes4 { sr_eof: false, sr_offset: 4096 })),
        Results::WRITE_SAME(Outcome::Ok(write_response())),
        Results::CLONE(DONE),
        Results::GETXATTR(Outcome::Ok(GetxattrResok { gxr_value: Opaque(b"value") })),
        Results::SETXATTR(Outcome::Ok(SetxattrResok { sxr_info: CINFO })),
        Results::LISTXATTRS(Outcome::Ok(ListxattrsResok {
            lxr_cookie: 2,
            lxr_names: list([NAME, Text(b"user.b")]),
            lxr_eof: true,
        })),
        Results::REMOVEXATTR(Outcome::Ok(RemovexattrResok { rxr_info: CINFO })),
        Results::ILLEGAL(Outcome::Fail(Nfsstat4::NFS4ERR_OP_ILLEGAL, Void)),
    ]
}

/// The arguments of every callback operation, some in several forms.
pub(super) fn every_callback() -> Vec<CbArgs<'static>> {
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
        CbArgs::CB_LAYOUTRECALL(CbLayoutrecallArgs {
            clora_type: FILES,
            clora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
            clora_changed: true,
            clora_recall,
        })
    };
    let recall_any = || CbRecallAnyArgs { craa_objects_to_keep: 10, craa_type_mask: bitmap(&[0x3]) };
    let offload = |coa_offload_info| {
        CbArgs::CB_OFFLOAD(CbOffloadArgs { coa_fh: FH, coa_stateid: STATEID, coa_offload_info })
    };
    vec![
        CbArgs::CB_GETATTR(CbGetattrArgs { fh: FH, attr_request: bitmap(&[0x18]) }),
        CbArgs::CB_RECALL(CbRecallArgs { stateid: STATEID, truncate: false, fh: FH }),
        recall(Layoutrecall4::File(LayoutrecallFile4 {
            lor_fh: FH,
            lor_offset: 0,
            lor_length: u64::MAX,
            lor_stateid: STATEID,
        })),
        recall(Layoutrecall4::Fsid(Fsid4 { major: 1, minor: 2 })),
        recall(Layoutrecall4::All),
        CbArgs::CB_NOTIFY(CbNotifyArgs {
            cna_stateid: STATEID,
            cna_fh: FH,
            cna_changes: list([notifications]),
        }),
        CbArgs::CB_PUSH_DELEG(CbPushDelegArgs {
            cpda_fh: FH,
            cpda_delegation: OpenDelegation4::Write(write_delegation()),
        }),
        CbArgs::CB_RECALL_ANY(recall_any()),
        CbArgs::CB_RECALLABLE_OBJ_AVAIL(recall_any()),
        CbArgs::CB_RECALL_SLOT(CbRecallSlotArgs { rsa_target_highest_slotid: 7 }),
        CbArgs::CB_SEQUENCE(CbSequenceArgs {
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
        CbArgs::CB_WANTS_CANCELLED(CbWantsCancelledArgs {
            cwca_contended_wants_cancelled: true,
            cwca_resourced_wants_cancelled: false,
        }),
        CbArgs::CB_NOTIFY_LOCK(CbNotifyLockArgs { cnla_fh: FH, cnla_lock_owner: OWNER }),
        CbArgs::CB_NOTIFY_DEVICEID(CbNotifyDeviceidArgs { cnda_changes: list([devices]) }),
        offload(OffloadInfo4::Ok(write_response())),
        offload(OffloadInfo4::Fail(Nfsstat4::NFS4ERR_IO, 4096)),
        CbArgs::CB_ILLEGAL(Void),
    ]
}

/// The results of every callback operation.
pub(super) fn every_callback_reply() -> Vec<CbResults<'static>> {
    const DONE: Outcome<Nfsstat4, Void> = Outcome::Ok(Void);
    const FAILED: Outcome<Nfsstat4, Void> = Outcome::Fail(Nfsstat4::NFS4ERR_BADHANDLE, Void);
    vec![
        CbResults::CB_GETATTR(Outcome::Ok(ObjAttributes { obj_attributes: fattr() })),
        CbResults::CB_RECALL(DONE),
        CbResults::CB_LAYOUTRECALL(FAILED),
        CbResults::CB_NOTIFY(DONE),
        CbResults::CB_PUSH_DELEG(DONE),
        CbResults::CB_RECALL_ANY(DONE),
        CbResults::CB_RECALLABLE_OBJ_AVAIL(DONE),
        CbResults::CB_RECALL_SLOT(DONE),
        CbResults::CB_SEQUENCE(Outcome::Ok(CbSequenceResok {
            csr_sessionid: SESSION,
            csr_sequenceid: 1,
            csr_slotid: 0,
            csr_highest_slotid: 0,
            csr_target_highest_slotid: 0,
        })),
        CbResults::CB_WANTS_CANCELLED(DONE),
        CbResults::CB_NOTIFY_LOCK(DONE),
        CbResults::CB_NOTIFY_DEVICEID(DONE),
        CbResults::CB_OFFLOAD(DONE),
        CbResults::CB_ILLEGAL(Outcome::Fail(Nfsstat4::NFS4ERR_OP_ILLEGAL, Void)),
    ]
}
