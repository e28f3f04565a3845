use nfsrdma_dissectors::nfs::mount::DirpathArgs;
use nfsrdma_dissectors::nfs::v3::{
    self, Create3Args, Createhow3, Diropargs3, Link3Args, Lookup3Args, Mkdir3Args, Mknod3Args, Mknoddata3, Remove3Args,
    Rename3Args, Sattr3, SetAtime, SetMtime, Symlink3Args, Symlinkdata3,
};
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, Bitmap4, CbClient4, ClientOwner4, Close4Args, CompoundCallHead, CompoundReplyHead,
    Copy4Args, CopyNotify4Args, Create4Args, Createtype4, DestroyClientid4Args, DestroySession4Args, Deviceid4,
    ExchangeId4Args, ExchangeIdFlags, Fattr4, Getattr4Args, Getattr4Resok, Getdevicelist4Args, Getdevicelist4Resok,
    Layoutcommit4Args, Layoutiomode4, Layoutreturn4, Layoutreturn4Args, LayoutreturnByLayoutType, LayoutreturnFile4,
    LayoutreturnFromIomode, Layouttype4, Layoutupdate4, Link4Args, Lookup4Args, Netaddr4, Netloc4, Newoffset4,
    Newtime4, NfsClientId4, NfsFtype4, Nfsstat4, ObjectFh4, Open4Args, OpenClaim4, OpenOwner4, Openflag4, Opentype4,
    Read4Args, Remove4Args, Rename4Args, Results, Secinfo4Args, Sequence4Args, Setclientid4Args, ShareAccess,
    ShareDeny, StableHow4, StateProtect4A, Stateid4, Write4Args, mask_and_values,
};
use nfsrdma_dissectors::nfs::{StatusUnion, mount};
use nfsrdma_dissectors::rpc::universal_address::UniversalAddress;
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Encoder, Opaque, Text, Void, XdrArray};
use nfsrdma_rpc::{CallTag, DdpEligibleArgument, PayloadContentLocation};

use super::*;

const ROOT: &[u8] = b"root";
const INSIDE: &[u8] = b"inside";
const BELOW: &[u8] = b"below";

/// A containment that knows the root of its tree, an object that was looked up below it, and an object without a name.
fn run() -> Containment {
    let handles = [(1, INSIDE.to_vec()), (2, BELOW.to_vec())].into_iter().collect();
    let mounts = vec![Vec::new()];
    let path = "/export/run/tree".to_owned();
    let below = [2].into_iter().collect();
    let seeded =
        SeededTree { path, root: ROOT.to_vec(), handles, handles_below_root: below, mounts, ..SeededTree::default() };
    Containment::for_run(&seeded, " tag")
}

/// Encodes a Call up to its arguments, with AUTH_NONE.
fn header(program: Program, version: u32, procedure: u32) -> Encoder {
    let mut encoder = Encoder::new();
    [9, 0, 2, program.0, version, procedure, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
    encoder
}

fn check(containment: &Containment, message: &[u8]) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
    containment
        .check_call(OutgoingRpcCall::without_payloads(Xid(9), CallTag(0), message, 0))
        .map(|call| call.reply_identifiers())
}

fn message(operations: &[Args<'_>]) -> Vec<u8> {
    let mut encoder = header(Program::NFS, 4, 1);
    v4::CompoundCall::new(CompoundCallHead { tag: Text(b"tag"), minorversion: 2 }, operations).encode(&mut encoder);
    encoder.finish().0
}

fn compound(operations: &[Args<'_>]) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
    check(&run(), &message(operations))
}

/// Checks a COMPOUND with one operation on an object below the root.
fn below(operation: Args<'_>) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
    compound(&[put(BELOW), Args::SAVEFH(Void), operation])
}

fn put(handle: &[u8]) -> Args<'_> {
    Args::PUTFH(ObjectFh4 { object: Opaque(handle) })
}

fn lookup(name: &[u8]) -> Args<'_> {
    Args::LOOKUP(Lookup4Args { objname: Text(name) })
}

fn nfs3(procedure: u32, arguments: &v3::Args<'_>) -> Result<ReplyIdentifierKinds, ContainmentViolation> {
    let mut encoder = header(Program::NFS, 3, procedure);
    arguments.encode(&mut encoder);
    check(&run(), &encoder.finish().0)
}

fn at<'a>(dir: &'a [u8], name: &'a [u8]) -> Diropargs3<'a> {
    Diropargs3 { dir: Opaque(dir), name: Text(name) }
}

/// Attributes of a new NFSv3 object, all chosen by the server.
const NO_ATTRIBUTES: Sattr3 =
    Sattr3 { mode: None, uid: None, gid: None, size: None, atime: SetAtime::DontChange, mtime: SetMtime::DontChange };
const STATEID: Stateid4 = Stateid4 { seqid: 1, other: *b"not given..." };
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };
/// Names that some server takes for a path or for an existing directory.
const UNSAFE: [&[u8]; 9] = [b"", b".", b"..", b"a/b", b"/", b"../../../victim", b"/etc/passwd", b"a\0b", b"..\\victim"];

#[test]
fn a_filehandle_that_the_server_has_not_given_is_not_sent() {
    assert_eq!(compound(&[put(b"captured"), Args::GETFH(Void)]), Err(ContainmentViolation::Filehandle));
    assert_eq!(compound(&[put(b""), Args::GETFH(Void)]), Err(ContainmentViolation::Filehandle));
    assert_eq!(compound(&[put(BELOW), Args::GETFH(Void)]), Ok(ReplyIdentifierKinds::Filehandles));
    let (words, values) = mask_and_values(&[Attribute::FILEHANDLE(Opaque(b"captured"))]);
    let obj_attributes = Fattr4::new(Bitmap4::from(&words[..]), Opaque(&values));
    assert_eq!(below(Args::VERIFY(Getattr4Resok { obj_attributes })), Err(ContainmentViolation::Filehandle));
    for procedure in [v3::Procedure::GETATTR, v3::Procedure::FSSTAT, v3::Procedure::PATHCONF] {
        let [known, other] = [BELOW, b"captured"].map(|handle| {
            let mut encoder = header(Program::NFS, 3, procedure.number().0);
            encoder.append_opaque(handle);
            check(&run(), &encoder.finish().0)
        });
        assert_eq!((known, other), (Ok(ReplyIdentifierKinds::Nothing), Err(ContainmentViolation::Filehandle)));
    }
    let from = Rename3Args { from: at(BELOW, b"a"), to: at(b"captured", b"b") };
    assert_eq!(nfs3(14, &v3::Args::RENAME(from)), Err(ContainmentViolation::Filehandle));
    let link = Link3Args { file: Opaque(b"captured"), link: at(BELOW, b"b") };
    assert_eq!(nfs3(15, &v3::Args::LINK(link)), Err(ContainmentViolation::Filehandle));
}

#[test]
fn contents_of_layouts_and_referrals_are_not_sent() {
    let commit = |body| {
        below(Args::LAYOUTCOMMIT(Box::new(Layoutcommit4Args {
            loca_offset: 0,
            loca_length: 1,
            loca_reclaim: false,
            loca_stateid: ANONYMOUS,
            loca_last_write_offset: Newoffset4::None,
            loca_time_modify: Newtime4::Same,
            loca_layoutupdate: Layoutupdate4::Other(Layouttype4::LAYOUT4_NFSV4_1_FILES, Opaque(body)),
        })))
    };
    assert!(commit(b"").is_ok());
    assert_eq!(commit(b"body"), Err(ContainmentViolation::Layout));
    let give_back = |body| {
        let file = LayoutreturnFile4 { lrf_offset: 0, lrf_length: 1, lrf_stateid: ANONYMOUS, lrf_body: Opaque(body) };
        let rest = LayoutreturnFromIomode {
            lora_iomode: Layoutiomode4::LAYOUTIOMODE4_RW,
            lora_layoutreturn: Layoutreturn4::File(file),
        };
        let lora_by_type = LayoutreturnByLayoutType::Other(Layouttype4::LAYOUT4_NFSV4_1_FILES, rest);
        below(Args::LAYOUTRETURN(Box::new(Layoutreturn4Args { lora_reclaim: false, lora_by_type })))
    };
    assert!(give_back(b"").is_ok());
    assert_eq!(give_back(b"body"), Err(ContainmentViolation::Layout));
    // fs_locations: no root, no locations.
    let (mask, values) = ([1 << 24], [0; 8]);
    let obj_attributes = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
    assert_eq!(below(Args::VERIFY(Getattr4Resok { obj_attributes })), Err(ContainmentViolation::Server));
}

#[test]
fn a_name_that_some_server_takes_for_a_path_is_not_sent() {
    let open = |name| {
        Args::OPEN(Open4Args {
            seqid: 0,
            share_access: ShareAccess(1),
            share_deny: ShareDeny(0),
            owner: OpenOwner4 { clientid: 0, owner: Opaque(b"owner") },
            openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
            claim: OpenClaim4::Null(Text(name)),
        })
    };
    let create = |name| {
        Args::CREATE(Create4Args {
            objtype: Createtype4::Other(NfsFtype4::NF4DIR),
            objname: Text(name),
            createattrs: Fattr4::default(),
        })
    };
    let of_v4 = |name: &'static [u8]| {
        [
            Args::REMOVE(Remove4Args { target: Text(name) }),
            Args::RENAME(Rename4Args { oldname: Text(name), newname: Text(b"new") }),
            Args::RENAME(Rename4Args { oldname: Text(b"old"), newname: Text(name) }),
            Args::LINK(Link4Args { newname: Text(name) }),
            Args::SECINFO(Secinfo4Args { name: Text(name) }),
            create(name),
            open(name),
        ]
    };
    let symlink = |text| Symlinkdata3 { symlink_attributes: NO_ATTRIBUTES, symlink_data: DdpText::Inline(text) };
    let of_v3 = |name: &'static [u8]| {
        let r#where = || at(BELOW, name);
        [
            (8, v3::Args::CREATE(v3::Create3Args { r#where: r#where(), how: Createhow3::Guarded(NO_ATTRIBUTES) })),
            (9, v3::Args::MKDIR(v3::Mkdir3Args { r#where: r#where(), attributes: NO_ATTRIBUTES })),
            (10, v3::Args::SYMLINK(v3::Symlink3Args { r#where: r#where(), symlink: symlink(b"/etc") })),
            (12, v3::Args::REMOVE(Remove3Args { object: r#where() })),
            (13, v3::Args::RMDIR(Remove3Args { object: r#where() })),
            (14, v3::Args::RENAME(Rename3Args { from: r#where(), to: at(BELOW, b"b") })),
            (14, v3::Args::RENAME(Rename3Args { from: at(BELOW, b"b"), to: r#where() })),
            (15, v3::Args::LINK(Link3Args { file: Opaque(BELOW), link: r#where() })),
        ]
    };
    for name in UNSAFE {
        for operation in of_v4(name) {
            assert_eq!(below(operation.clone()), Err(ContainmentViolation::Name), "{operation:?}");
        }
        for (procedure, arguments) in of_v3(name) {
            assert_eq!(nfs3(procedure, &arguments), Err(ContainmentViolation::Name), "{arguments:?}");
        }
        let found = [below(lookup(name)), nfs3(3, &v3::Args::LOOKUP(Lookup3Args { what: at(BELOW, name) }))];
        // One step up from below the root stays in the tree.
        let is_up = name == b"..";
        assert!(found.iter().all(|found| found.is_ok() == is_up), "{name:?}: {found:?}");
    }
    // Other names are allowed: the text of a link is data, and Unix allows other bytes in names.
    for name in [&b"plain"[..], b"a\\b", b"...", b"\xff\xfe"] {
        assert!(of_v4(name).into_iter().all(|operation| below(operation).is_ok()));
        assert!(of_v3(name).iter().all(|(procedure, arguments)| nfs3(*procedure, arguments).is_ok()));
    }
}

#[test]
fn no_step_leads_above_the_root_of_the_tree() {
    let up = || Args::LOOKUPP(Void);
    for (climbing, outcome) in [
        (vec![put(BELOW), up()], Ok(ReplyIdentifierKinds::Nothing)),
        (vec![put(BELOW), up(), up()], Err(ContainmentViolation::Upward)),
        (vec![put(BELOW), up(), lookup(b"child"), up()], Ok(ReplyIdentifierKinds::Nothing)),
        (vec![put(BELOW), lookup(b".."), lookup(b"..")], Err(ContainmentViolation::Upward)),
        (vec![put(ROOT), up()], Err(ContainmentViolation::Upward)),
        (vec![put(INSIDE), up()], Err(ContainmentViolation::Upward)),
        (
            vec![put(BELOW), Args::SAVEFH(Void), put(ROOT), Args::RESTOREFH(Void), up()],
            Ok(ReplyIdentifierKinds::Nothing),
        ),
        (
            vec![put(ROOT), Args::SAVEFH(Void), put(BELOW), Args::RESTOREFH(Void), up()],
            Err(ContainmentViolation::Upward),
        ),
        (vec![Args::PUTROOTFH(Void)], Err(ContainmentViolation::Upward)),
        (vec![Args::PUTPUBFH(Void)], Err(ContainmentViolation::Upward)),
    ] {
        assert_eq!(compound(&climbing), outcome, "{climbing:?}");
    }
    for (dir, outcome) in [
        (BELOW, Ok(ReplyIdentifierKinds::Filehandles)),
        (ROOT, Err(ContainmentViolation::Upward)),
        (INSIDE, Err(ContainmentViolation::Upward)),
    ] {
        assert_eq!(nfs3(3, &v3::Args::LOOKUP(Lookup3Args { what: at(dir, b"..") })), outcome);
    }
}

#[test]
fn calls_with_foreign_state_are_refused() {
    for operation in [
        Args::READ(Read4Args { stateid: STATEID, offset: 0, count: 1 }),
        Args::CLOSE(Close4Args { seqid: 1, open_stateid: STATEID }),
        Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: [7; 16] }),
        Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: 7 }),
        Args::SEQUENCE(Sequence4Args {
            sa_sessionid: [7; 16],
            sa_sequenceid: 1,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        }),
    ] {
        assert_eq!(below(operation.clone()), Err(ContainmentViolation::State), "{operation:?}");
    }
    let anonymous = Args::READ(Read4Args { stateid: ANONYMOUS, offset: 0, count: 1 });
    assert_eq!(below(anonymous), Ok(ReplyIdentifierKinds::Nothing));
}

#[test]
fn client_names_end_with_the_suffix_and_callbacks_come_here() {
    let exchange = |name| {
        below(Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [0; 8], co_ownerid: Opaque(name) },
            eia_flags: ExchangeIdFlags(0),
            eia_state_protect: StateProtect4A::None,
            eia_client_impl_id: XdrArray::default(),
        })))
    };
    assert_eq!(exchange(b"client tag"), Ok(ReplyIdentifierKinds::State));
    assert_eq!(exchange(b"client"), Err(ContainmentViolation::Client));
    let set = |containment: &Containment, name, address: &[u8]| {
        let set = Args::SETCLIENTID(Setclientid4Args {
            client: NfsClientId4 { verifier: [0; 8], id: Opaque(name) },
            callback: CbClient4 {
                cb_program: 0x4000_0000,
                cb_location: Netaddr4 { na_r_netid: Text(b"tcp"), na_r_addr: UniversalAddress(Text(address)) },
            },
            callback_ident: 1,
        });
        check(containment, &message(&[set]))
    };
    let mut containment = run();
    containment.add_callback_address("192.0.2.1:20049".parse().unwrap());
    for (address, outcome) in [
        (&b"0.0.0.0.0.0"[..], Ok(ReplyIdentifierKinds::State)),
        (b"192.0.2.1.78.81", Ok(ReplyIdentifierKinds::State)),
        (b"192.0.2.1.78.82", Err(ContainmentViolation::Server)),
        (b"0.0.0.0.8.1", Err(ContainmentViolation::Server)),
        (b"victim.example", Err(ContainmentViolation::Server)),
    ] {
        assert_eq!(set(&containment, b"client tag", address), outcome);
    }
    assert_eq!(set(&containment, b"client", b"0.0.0.0.0.0"), Err(ContainmentViolation::Client));
}

#[test]
fn rfc7862_section_15_2_no_other_server_is_named() {
    let others = [Netloc4::Name(Text(b"victim"))];
    let copy = |servers: &[Netloc4<'_>]| {
        below(Args::COPY(Copy4Args {
            ca_src_stateid: ANONYMOUS,
            ca_dst_stateid: ANONYMOUS,
            ca_src_offset: 0,
            ca_dst_offset: 0,
            ca_count: 0,
            ca_consecutive: true,
            ca_synchronous: true,
            ca_source_server: XdrArray::from(servers),
        }))
    };
    assert_eq!(copy(&[]), Ok(ReplyIdentifierKinds::State));
    assert_eq!(copy(&others), Err(ContainmentViolation::Server));
    let [cna_destination_server] = others;
    let notify = CopyNotify4Args { cna_src_stateid: ANONYMOUS, cna_destination_server };
    assert_eq!(below(Args::COPY_NOTIFY(notify)), Err(ContainmentViolation::Server));
}

#[test]
fn only_paths_that_were_made_are_mounted() {
    let mount = |version, procedure, path| {
        let mut encoder = header(Program::MOUNT, version, procedure);
        mount::v3::Args::MNT(DirpathArgs { dirpath: Text(path) }).encode(&mut encoder);
        check(&run(), &encoder.finish().0)
    };
    assert_eq!(mount(3, 1, b"/export/run/tree"), Ok(ReplyIdentifierKinds::Filehandles));
    assert_eq!(mount(3, 3, b"/export/run/tree"), Ok(ReplyIdentifierKinds::Nothing));
    for path in [&b"/export"[..], b"/export/run/tree/../../..", b"/export/run/tree/link", b"", b"tree"] {
        assert_eq!(mount(3, 1, path), Err(ContainmentViolation::Upward));
        assert_eq!(mount(3, 3, path), Err(ContainmentViolation::Upward));
    }
    for (version, procedure) in [(1, 1), (2, 3), (3, 4), (3, 6)] {
        assert_eq!(mount(version, procedure, b"/export/run/tree"), Err(ContainmentViolation::Program));
    }
}

#[test]
fn procedures_that_affect_more_than_files_are_refused() {
    for (program, version, procedure) in [
        (Program::NLM, 4, 23),
        (Program::NLM, 4, 15),
        (Program::PORTMAP, 2, 5),
        (Program::NSM, 1, 6),
        (Program::NFS, 2, 1),
    ] {
        assert_eq!(check(&run(), &header(program, version, procedure).finish().0), Err(ContainmentViolation::Program));
    }
}

#[test]
fn a_call_that_cannot_be_decoded_completely_is_not_sent() {
    let whole = message(&[put(BELOW), Args::GETFH(Void)]);
    assert!(check(&run(), &whole).is_ok());
    for length in 0..whole.len() {
        assert_eq!(check(&run(), &whole[..length]), Err(ContainmentViolation::Unreadable), "{length}");
    }
    let longer = [&whole[..], &[0; 4]].concat();
    assert_eq!(check(&run(), &longer), Err(ContainmentViolation::Unreadable));
    let mut reply = whole.clone();
    reply[7] = 1;
    assert_eq!(check(&run(), &reply), Err(ContainmentViolation::Unreadable));
    let mut unknown = whole;
    let operation = unknown.len() - 1;
    unknown[operation] = 200;
    assert_eq!(check(&run(), &unknown), Err(ContainmentViolation::Unreadable));
}

#[test]
fn a_payload_is_accepted_only_at_the_position_of_its_length() {
    let write = Args::WRITE(Write4Args {
        stateid: ANONYMOUS,
        offset: 0,
        stable: StableHow4(0),
        data: Ddp::Chunk { length: 8, bytes: None },
    });
    let mut encoder = header(Program::NFS, 4, 1);
    let head = CompoundCallHead { tag: Text(b""), minorversion: 2 };
    v4::CompoundCall::new(head, &[put(BELOW), write, Args::GETFH(Void)]).encode(&mut encoder);
    let (message, splices) = encoder.finish();
    let position = splices[0].position as u32;
    let check = |position, content: &[u8]| {
        let payloads = [DdpEligibleArgument { position, source: PayloadContentLocation::Copied(content) }];
        let call = OutgoingRpcCall {
            payloads: &payloads,
            ..OutgoingRpcCall::without_payloads(Xid(9), CallTag(0), &message, 0)
        };
        run().check_call(call).map(|call| call.reply_identifiers())
    };
    assert_eq!(check(position, &[0; 8]), Ok(ReplyIdentifierKinds::Filehandles));
    // TCP would send the following operations at other positions, and a longer payload could contain operations of its
    // own.
    for (position, length) in [(position, 4), (position, 64), (position - 4, 8), (position + 4, 8), (0, 8)] {
        assert_eq!(check(position, &vec![0; length]), Err(ContainmentViolation::Unreadable), "{position} {length}");
    }
    // The filehandle of PUTFH is not DDP-eligible.
    let fh = message.windows(5).position(|bytes| bytes == b"below").unwrap() as u32;
    assert_eq!(check(fh, b"below"), Err(ContainmentViolation::Unreadable));
}

/// Encodes the Reply of a successful COMPOUND.
fn answered(results: &[Results<'_>]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    [9, 1, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
    v4::CompoundReply::new(CompoundReplyHead { status: Nfsstat4::NFS4_OK, tag: Text(b"") }, results)
        .encode(&mut encoder);
    encoder.finish().0
}

#[test]
fn returned_filehandles_are_located_by_the_operations_of_their_call() {
    let mut containment = run();
    let got = |handle| Results::GETFH(StatusUnion::Ok(ObjectFh4 { object: Opaque(handle) }));
    let mut learn = |operations: &[Args<'_>], results: &[Results<'_>]| {
        let message = message(operations);
        containment.record_reply(
            &OutgoingRpcCall::without_payloads(Xid(9), CallTag(0), &message, 0),
            Cursor::new(&answered(results)),
        );
    };
    let done = [Results::PUTFH(StatusUnion::Ok(Void)), Results::LOOKUP(StatusUnion::Ok(Void)), got(b"child")];
    learn(&[put(ROOT), lookup(b"child"), Args::GETFH(Void)], &done);
    let done = [Results::PUTFH(StatusUnion::Ok(Void)), Results::LOOKUPP(StatusUnion::Ok(Void)), got(b"above")];
    learn(&[put(BELOW), Args::LOOKUPP(Void), Args::GETFH(Void)], &done);
    // Identifiers that no Call asked for are not recorded, nor those outside the tree.
    learn(&[put(b"foreign"), Args::GETFH(Void)], &[Results::PUTFH(StatusUnion::Ok(Void)), got(b"foreign")]);
    let done = [Results::PUTFH(StatusUnion::Ok(Void)), Results::LOOKUPP(StatusUnion::Ok(Void)), got(b"outside")];
    learn(&[put(ROOT), Args::LOOKUPP(Void), Args::GETFH(Void)], &done);
    let standing = |handle: &[u8]| containment.issued_identifiers.zone_of_handle(handle);
    assert_eq!(standing(b"child"), Some(FilehandleLocationInExport::BelowTreeRoot));
    assert_eq!(standing(b"above"), Some(FilehandleLocationInExport::InTree));
    assert_eq!((standing(b"foreign"), standing(b"outside")), (None, None));
}

#[test]
fn devices_above_the_limit_of_a_reply_are_counted_as_dropped() {
    let mut containment = run();
    let devices: Vec<Deviceid4> = (0..crate::trace::step::MAX_LIST_LENGTH + 3)
        .map(|number| [number.to_be_bytes(); 4].concat().try_into().unwrap())
        .collect();
    let list = Results::GETDEVICELIST(StatusUnion::Ok(Getdevicelist4Resok {
        gdlr_cookie: 0,
        gdlr_cookieverf: [0; 8],
        gdlr_deviceid_list: XdrArray::from(&devices[..]),
        gdlr_eof: true,
    }));
    let ask = Args::GETDEVICELIST(Getdevicelist4Args {
        gdla_layout_type: Layouttype4::LAYOUT4_BLOCK_VOLUME,
        gdla_maxdevices: u32::MAX,
        gdla_cookie: 0,
        gdla_cookieverf: [0; 8],
    });
    let message = message(&[put(ROOT), ask]);
    containment.record_reply(
        &OutgoingRpcCall::without_payloads(Xid(9), CallTag(0), &message, 0),
        Cursor::new(&answered(&[Results::PUTFH(StatusUnion::Ok(Void)), list])),
    );
    assert!(containment.take_dropped_count() >= 3);
}

#[test]
fn seeding_names_nothing_in_the_export_but_the_directory_of_the_run() {
    let mut containment = Containment::for_seeding("/srv/nfs", "run");
    containment.set_export_handle(b"export");
    let make =
        |name, objtype| Args::CREATE(Create4Args { objtype, objname: Text(name), createattrs: Fattr4::default() });
    let directory = || Createtype4::Other(NfsFtype4::NF4DIR);
    let way = || vec![Args::PUTROOTFH(Void), lookup(b"srv"), lookup(b"nfs")];
    let after = |mut way: Vec<Args<'static>>, next| {
        way.push(next);
        check(&containment, &message(&way))
    };
    assert!(after(way(), Args::GETFH(Void)).is_ok());
    assert!(after(way(), lookup(b"run")).is_ok());
    assert_eq!(after(way(), lookup(b"other")), Err(ContainmentViolation::Upward));
    assert_eq!(after(vec![Args::PUTROOTFH(Void)], lookup(b"etc")), Err(ContainmentViolation::Upward));
    let remove = || Args::REMOVE(Remove4Args { target: Text(b"run") });
    assert_eq!(after(way(), remove()), Err(ContainmentViolation::Upward));
    assert!(after(vec![put(b"export")], make(b"run", directory())).is_ok());
    assert_eq!(after(vec![put(b"export")], make(b"other", directory())), Err(ContainmentViolation::Upward));
    assert_eq!(
        after(vec![put(b"export")], make(b"run", Createtype4::Link(DdpText::Inline(b"/")))),
        Err(ContainmentViolation::Upward)
    );
    assert_eq!(after(vec![put(b"export")], remove()), Err(ContainmentViolation::Upward));
    let attributes = Args::GETATTR(Getattr4Args { attr_request: Bitmap4::default() });
    assert!(after(vec![put(b"export")], attributes).is_ok());
    // RFC 1813 sections 3.3.8 to 3.3.11: in the export, only MKDIR creates a name.
    let in_export = |number: u32, arguments: &v3::Args<'_>| {
        let mut encoder = header(Program::NFS, 3, number);
        arguments.encode(&mut encoder);
        check(&containment, &encoder.finish().0)
    };
    let mkdir = |name| v3::Args::MKDIR(Mkdir3Args { r#where: at(b"export", name), attributes: NO_ATTRIBUTES });
    assert!(in_export(9, &mkdir(b"run")).is_ok());
    assert_eq!(in_export(9, &mkdir(b"other")), Err(ContainmentViolation::Upward));
    let others = [
        v3::Args::CREATE(Create3Args { r#where: at(b"export", b"run"), how: Createhow3::Unchecked(NO_ATTRIBUTES) }),
        v3::Args::SYMLINK(Symlink3Args {
            r#where: at(b"export", b"run"),
            symlink: Symlinkdata3 { symlink_attributes: NO_ATTRIBUTES, symlink_data: DdpText::Inline(b"/etc") },
        }),
        v3::Args::MKNOD(Mknod3Args { r#where: at(b"export", b"run"), what: Mknoddata3::Fifo(NO_ATTRIBUTES) }),
    ];
    for (number, arguments) in [8, 10, 11].into_iter().zip(&others) {
        assert_eq!(in_export(number, arguments), Err(ContainmentViolation::Upward), "{number}");
    }
    // Removal of a run's directory is limited to that directory.
    let mut removing = Containment::for_removal("/srv/nfs", "run");
    removing.set_export_handle(b"export");
    let of = |name| [put(b"export"), Args::REMOVE(Remove4Args { target: Text(name) })];
    assert!(check(&removing, &message(&of(b"run"))).is_ok());
    for other in [&b"other"[..], b"..", b"", b"run/../other"] {
        assert!(check(&removing, &message(&of(other))).is_err());
    }
}

#[test]
fn the_root_is_refused_if_mount_resolves_a_path_below_it() {
    let mounts = vec![b"/home".to_vec()];
    let seeded = SeededTree { path: "/run/tree".into(), root: ROOT.to_vec(), mounts, ..SeededTree::default() };
    let containment = Containment::for_run(&seeded, " tag");
    assert_eq!(check(&containment, &message(&[put(ROOT)])), Err(ContainmentViolation::Filehandle));
}

#[test]
fn the_document_has_every_reason() {
    let document = include_str!("../../../../docs/replay.md");
    for escape in ContainmentViolation::ALL {
        assert!(document.contains(&format!("| `{}` | {} |", escape.code(), escape.text())), "{escape}");
    }
}

#[test]
fn rfc2203_section_5_all_rpcsec_gss_control_messages_are_refused() {
    // INIT, CONTINUE_INIT, DESTROY, BIND_CHANNEL, CREATE, LIST and an undefined one: each as NULL and as COMPOUND.
    for gss_proc in 1..8 {
        for procedure in [0, 1] {
            let mut encoder = Encoder::new();
            // The credential: version 1, procedure, sequence number 1, service none, and a handle; then no verifier.
            let words = [9, 0, 2, 100_003, 4, procedure, 6, 24, 1, gss_proc, 1, 1, 4, 7, 0, 0];
            words.iter().for_each(|word| encoder.word(*word));
            let message = encoder.finish().0;
            assert_eq!(check(&run(), &message), Err(ContainmentViolation::Program), "{gss_proc} {procedure}");
        }
    }
}

/// A plan knows no identifier of the live server, but the names that will be refused.
#[test]
fn plan_refuses_names_not_identifiers() {
    let plan = Containment::for_plan();
    for name in UNSAFE {
        let refusal = check(&plan, &message(&[put(b"captured"), lookup(name)]));
        let expected = match name {
            b".." => Ok(ReplyIdentifierKinds::Nothing),
            _ => Err(ContainmentViolation::Name),
        };
        assert_eq!(refusal, expected, "{name:?}");
    }
    assert!(check(&plan, &message(&[put(b"captured"), lookup(b"plain"), Args::GETFH(Void)])).is_ok());
    let above_root = check(&plan, &message(&[Args::PUTROOTFH(Void), Args::LOOKUPP(Void)]));
    assert_eq!(above_root, Err(ContainmentViolation::Upward));
}
