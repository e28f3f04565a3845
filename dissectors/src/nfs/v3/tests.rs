//! Arguments and results of each procedure, encoded by hand from RFC 1813 section 3.3.

use super::*;
use crate::field::NullFieldObserver;
use crate::nfs::example_messages::{FieldOrderChecker, holds, lay_out};
use crate::nfs::{self, StatusUnionDiscriminant};
use crate::xdr::{ChunkedDataItem, Cursor, Ddp, DdpText, Encoder, Opaque, Text, XdrError, XdrLinkedList};

const FH: NfsFh3<'static> = Opaque(b"handle7");
const VERF: Verifier3 = *b"verifier";

/// fattr3 of a file, encoded and decoded.
fn fattr() -> Vec<u8> {
    lay_out![1, 0o4644, 2, 1000, 100, 42u64, 4096u64, 8, 9, 0xfd00u64, 128u64, 1, 2, 3, 4, 5, 6]
}
const FATTR: Fattr3 = Fattr3 {
    r#type: Ftype3::NF3REG,
    mode: Mode3(0o4644),
    nlink: 2,
    uid: 1000,
    gid: 100,
    size: 42,
    used: 4096,
    rdev: Specdata3 { specdata1: 8, specdata2: 9 },
    fsid: 0xfd00,
    fileid: 128,
    atime: Nfstime3 { seconds: 1, nseconds: 2 },
    mtime: Nfstime3 { seconds: 3, nseconds: 4 },
    ctime: Nfstime3 { seconds: 5, nseconds: 6 },
};

/// wcc_data with attributes before and after, encoded and decoded.
fn wcc() -> Vec<u8> {
    lay_out![1, 40u64, 3, 4, 5, 6, 1, fattr()]
}
const WCC: WccData =
    WccData { before: Some(WccAttr { size: 40, mtime: FATTR.mtime, ctime: FATTR.ctime }), after: Some(FATTR) };

/// sattr3 that sets each attribute, encoded and decoded.
fn sattr() -> Vec<u8> {
    lay_out![1, 0o755, 1, 1000, 1, 100, 1, 30_000u64, 1, 2, 7, 8]
}
const SATTR: Sattr3 = Sattr3 {
    mode: Some(Mode3(0o755)),
    uid: Some(1000),
    gid: Some(100),
    size: Some(30_000),
    atime: SetAtime::Server,
    mtime: SetMtime::Client(Nfstime3 { seconds: 7, nseconds: 8 }),
};
const UNCHANGED: Sattr3 =
    Sattr3 { mode: None, uid: None, gid: None, size: None, atime: SetAtime::DontChange, mtime: SetMtime::DontChange };

const WHERE: Diropargs3<'static> = Diropargs3 { dir: FH, name: Text(b"file") };

holds!(arguments, Args);
holds!(results, Results);

#[test]
fn rfc1813_section_3_3_0_null_has_neither_arguments_nor_results() {
    arguments(Procedure::NULL, &[], &Args::NULL(Void));
    results(Procedure::NULL, &[], &Results::NULL(Void));
    assert_eq!(nfs::Procedure::V3(Procedure::NULL).status(Cursor::new(&[])), Ok(None));
}

#[test]
fn rfc1813_section_3_3_1_getattr() {
    arguments(Procedure::GETATTR, &lay_out!["handle7"], &Args::GETATTR(Getattr3Args { object: FH }));
    let ok = Getattr3Resok { obj_attributes: FATTR };
    results(Procedure::GETATTR, &lay_out![0, fattr()], &Results::GETATTR(StatusUnion::Ok(ok)));
    let stale = StatusUnion::Fail(Nfsstat3::NFS3ERR_STALE, Void);
    results(Procedure::GETATTR, &lay_out![70], &Results::GETATTR(stale));
}

#[test]
fn rfc1813_section_3_3_2_setattr_sets_chosen_attributes_with_an_optional_guard() {
    let all = Setattr3Args { object: FH, new_attributes: SATTR, guard: Some(FATTR.ctime) };
    arguments(Procedure::SETATTR, &lay_out!["handle7", sattr(), 1, 5, 6], &Args::SETATTR(all));
    let nothing = Setattr3Args { object: FH, new_attributes: UNCHANGED, guard: None };
    arguments(Procedure::SETATTR, &lay_out!["handle7", 0, 0, 0, 0, 0, 0, 0], &Args::SETATTR(nothing));

    let ok = StatusUnion::Ok(ObjWcc { obj_wcc: WCC });
    results(Procedure::SETATTR, &lay_out![0, wcc()], &Results::SETATTR(ok));
    let obj_wcc = WccData { before: None, after: None };
    let not_sync = StatusUnion::Fail(Nfsstat3::NFS3ERR_NOT_SYNC, ObjWcc { obj_wcc });
    results(Procedure::SETATTR, &lay_out![10002, 0, 0], &Results::SETATTR(not_sync));
}

#[test]
fn rfc1813_section_2_6_a_time_is_set_in_one_of_three_ways() {
    let bytes = lay_out!["handle7", 0, 0, 0, 0, 3];
    let result = Args::decode(Procedure::SETATTR, &mut Cursor::new(&bytes), &mut NullFieldObserver);
    assert_eq!(result, Err(XdrError::Invalid { at: 28, what: "TimeHow", value: 3 }));
}

#[test]
fn rfc1813_section_3_3_3_lookup() {
    arguments(Procedure::LOOKUP, &lay_out!["handle7", "file"], &Args::LOOKUP(Lookup3Args { what: WHERE }));
    let ok = Lookup3Resok { object: FH, obj_attributes: Some(FATTR), dir_attributes: None };
    results(Procedure::LOOKUP, &lay_out![0, "handle7", 1, fattr(), 0], &Results::LOOKUP(StatusUnion::Ok(ok)));
    let noent = StatusUnion::Fail(Nfsstat3::NFS3ERR_NOENT, DirAttributes3Resfail { dir_attributes: Some(FATTR) });
    results(Procedure::LOOKUP, &lay_out![2, 1, fattr()], &Results::LOOKUP(noent));
}

#[test]
fn rfc1813_section_3_3_4_access() {
    let access = Access3(0x1f);
    assert!(access.contains(Access3::ACCESS3_DELETE) && !access.contains(Access3::ACCESS3_EXECUTE));
    arguments(Procedure::ACCESS, &lay_out!["handle7", 0x1f], &Args::ACCESS(Access3Args { object: FH, access }));
    let ok = Access3Resok { obj_attributes: Some(FATTR), access };
    results(Procedure::ACCESS, &lay_out![0, 1, fattr(), 0x1f], &Results::ACCESS(StatusUnion::Ok(ok)));
    let stale = StatusUnion::Fail(Nfsstat3::NFS3ERR_STALE, ObjAttributes3Resfail { obj_attributes: None });
    results(Procedure::ACCESS, &lay_out![70, 0], &Results::ACCESS(stale));
}

#[test]
fn rfc1813_section_3_3_5_readlink() {
    arguments(Procedure::READLINK, &lay_out!["handle7"], &Args::READLINK(Readlink3Args { symlink: FH }));
    let ok = Readlink3Resok { symlink_attributes: None, data: DdpText::Inline(b"../to") };
    results(Procedure::READLINK, &lay_out![0, 0, "../to"], &Results::READLINK(StatusUnion::Ok(ok)));
    let inval = StatusUnion::Fail(Nfsstat3::NFS3ERR_INVAL, Readlink3Resfail { symlink_attributes: Some(FATTR) });
    results(Procedure::READLINK, &lay_out![22, 1, fattr()], &Results::READLINK(inval));
}

#[test]
fn rfc1813_section_3_3_6_read() {
    let args = Read3Args { file: FH, offset: 1 << 40, count: 4096 };
    arguments(Procedure::READ, &lay_out!["handle7", 1u64 << 40, 4096], &Args::READ(args));
    let ok = Read3Resok { file_attributes: Some(FATTR), count: 5, eof: true, data: Ddp::Inline(b"hello") };
    results(Procedure::READ, &lay_out![0, 1, fattr(), 5, 1, "hello"], &Results::READ(StatusUnion::Ok(ok)));
    let isdir = StatusUnion::Fail(Nfsstat3::NFS3ERR_ISDIR, Read3Resfail { file_attributes: None });
    results(Procedure::READ, &lay_out![21, 0], &Results::READ(isdir));
}

#[test]
fn rfc1813_section_3_3_7_write() {
    let (count, stable) = (5, StableHow::DATA_SYNC);
    let args = Write3Args { file: FH, offset: 3, count, stable, data: Ddp::Inline(b"hello") };
    arguments(Procedure::WRITE, &lay_out!["handle7", 3u64, 5, 1, "hello"], &Args::WRITE(args));
    let ok = Write3Resok { file_wcc: WCC, count, committed: StableHow::FILE_SYNC, verf: VERF };
    results(Procedure::WRITE, &lay_out![0, wcc(), 5, 2, VERF], &Results::WRITE(StatusUnion::Ok(ok)));
    let nospc = StatusUnion::Fail(Nfsstat3::NFS3ERR_NOSPC, FileWcc { file_wcc: WCC });
    results(Procedure::WRITE, &lay_out![28, wcc()], &Results::WRITE(nospc));
}

#[test]
fn rfc1813_section_3_3_8_create_in_three_modes() {
    let create = |how| Args::CREATE(Create3Args { r#where: WHERE, how });
    let unchecked = lay_out!["handle7", "file", 0, sattr()];
    arguments(Procedure::CREATE, &unchecked, &create(Createhow3::Unchecked(SATTR)));
    let guarded = lay_out!["handle7", "file", 1, sattr()];
    arguments(Procedure::CREATE, &guarded, &create(Createhow3::Guarded(SATTR)));
    let exclusive = lay_out!["handle7", "file", 2, VERF];
    arguments(Procedure::CREATE, &exclusive, &create(Createhow3::Exclusive(VERF)));
}

/// CREATE, MKDIR, SYMLINK and MKNOD share one result structure.
#[test]
fn rfc1813_sections_3_3_8_to_3_3_11_created_objects_may_have_handle_and_attributes() {
    type Creating<'a> = fn(StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>) -> Results<'a>;
    let procedures: [(Procedure, Creating<'_>); 4] = [
        (Procedure::CREATE, Results::CREATE),
        (Procedure::MKDIR, Results::MKDIR),
        (Procedure::SYMLINK, Results::SYMLINK),
        (Procedure::MKNOD, Results::MKNOD),
    ];
    for (procedure, body) in procedures {
        let given = Create3Resok { obj: Some(FH), obj_attributes: Some(FATTR), dir_wcc: WCC };
        results(procedure, &lay_out![0, 1, "handle7", 1, fattr(), wcc()], &body(StatusUnion::Ok(given)));
        let bare = Create3Resok { obj: None, obj_attributes: None, dir_wcc: WCC };
        results(procedure, &lay_out![0, 0, 0, wcc()], &body(StatusUnion::Ok(bare)));
        let exist = StatusUnion::Fail(Nfsstat3::NFS3ERR_EXIST, DirWcc { dir_wcc: WCC });
        results(procedure, &lay_out![17, wcc()], &body(exist));
    }
}

#[test]
fn rfc1813_section_3_3_9_mkdir() {
    let args = Mkdir3Args { r#where: WHERE, attributes: SATTR };
    arguments(Procedure::MKDIR, &lay_out!["handle7", "file", sattr()], &Args::MKDIR(args));
}

#[test]
fn rfc1813_section_3_3_10_symlink() {
    let symlink = Symlinkdata3 { symlink_attributes: SATTR, symlink_data: DdpText::Inline(b"../to") };
    let args = Symlink3Args { r#where: WHERE, symlink };
    arguments(Procedure::SYMLINK, &lay_out!["handle7", "file", sattr(), "../to"], &Args::SYMLINK(args));
}

#[test]
fn rfc1813_section_3_3_11_mknod_by_type() {
    let mknod = |what| Args::MKNOD(Mknod3Args { r#where: WHERE, what });
    let device = || Devicedata3 { dev_attributes: SATTR, spec: Specdata3 { specdata1: 8, specdata2: 1 } };
    let bytes = |ftype: i32| lay_out!["handle7", "file", ftype, sattr(), 8, 1];
    arguments(Procedure::MKNOD, &bytes(4), &mknod(Mknoddata3::Chr(device())));
    arguments(Procedure::MKNOD, &bytes(3), &mknod(Mknoddata3::Blk(device())));
    let bytes = |ftype: i32| lay_out!["handle7", "file", ftype, sattr()];
    arguments(Procedure::MKNOD, &bytes(6), &mknod(Mknoddata3::Sock(SATTR)));
    arguments(Procedure::MKNOD, &bytes(7), &mknod(Mknoddata3::Fifo(SATTR)));
    let regular = lay_out!["handle7", "file", 1];
    arguments(Procedure::MKNOD, &regular, &mknod(Mknoddata3::Other(Ftype3::NF3REG)));
}

#[test]
fn rfc1813_sections_3_3_12_and_3_3_13_remove_and_rmdir() {
    let bytes = lay_out!["handle7", "file"];
    arguments(Procedure::REMOVE, &bytes, &Args::REMOVE(Remove3Args { object: WHERE }));
    arguments(Procedure::RMDIR, &bytes, &Args::RMDIR(Remove3Args { object: WHERE }));
    let ok = || StatusUnion::Ok(DirWcc { dir_wcc: WCC });
    results(Procedure::REMOVE, &lay_out![0, wcc()], &Results::REMOVE(ok()));
    results(Procedure::RMDIR, &lay_out![0, wcc()], &Results::RMDIR(ok()));
    let notempty = StatusUnion::Fail(Nfsstat3::NFS3ERR_NOTEMPTY, DirWcc { dir_wcc: WCC });
    results(Procedure::RMDIR, &lay_out![66, wcc()], &Results::RMDIR(notempty));
}

#[test]
fn rfc1813_section_3_3_14_rename() {
    let args = Rename3Args { from: WHERE, to: Diropargs3 { dir: Opaque(b"there"), name: Text(b"b") } };
    arguments(Procedure::RENAME, &lay_out!["handle7", "file", "there", "b"], &Args::RENAME(args));
    let wccs = || RenameWcc { fromdir_wcc: WCC, todir_wcc: WccData { before: None, after: Some(FATTR) } };
    let bytes = |status: i32| lay_out![status, wcc(), 0, 1, fattr()];
    results(Procedure::RENAME, &bytes(0), &Results::RENAME(StatusUnion::Ok(wccs())));
    let xdev = StatusUnion::Fail(Nfsstat3::NFS3ERR_XDEV, wccs());
    results(Procedure::RENAME, &bytes(18), &Results::RENAME(xdev));
}

#[test]
fn rfc1813_section_3_3_15_link() {
    let args = Link3Args { file: Opaque(b"f"), link: WHERE };
    arguments(Procedure::LINK, &lay_out!["f", "handle7", "file"], &Args::LINK(args));
    let linked = || Link3Res { file_attributes: Some(FATTR), linkdir_wcc: WCC };
    results(Procedure::LINK, &lay_out![0, 1, fattr(), wcc()], &Results::LINK(StatusUnion::Ok(linked())));
    let mlink = StatusUnion::Fail(Nfsstat3::NFS3ERR_MLINK, linked());
    results(Procedure::LINK, &lay_out![31, 1, fattr(), wcc()], &Results::LINK(mlink));
}

#[test]
fn rfc1813_section_3_3_16_readdir_chains_its_entries() {
    let args = Readdir3Args { dir: FH, cookie: 10, cookieverf: VERF, count: 512 };
    arguments(Procedure::READDIR, &lay_out!["handle7", 10u64, VERF, 512], &Args::READDIR(args));

    let entries = [
        Entry3 { fileid: 128, name: Text(b"."), cookie: 10 },
        Entry3 { fileid: 200, name: Text(b"sub"), cookie: 1 << 33 },
    ];
    let reply = Dirlist3 { entries: XdrLinkedList::from(&entries[..]), eof: true };
    let ok = Readdir3Resok { dir_attributes: None, cookieverf: VERF, reply };
    let bytes = lay_out![0, 0, VERF, 1, 128u64, ".", 10u64, 1, 200u64, "sub", 1u64 << 33, 0, 1];
    results(Procedure::READDIR, &bytes, &Results::READDIR(StatusUnion::Ok(ok)));

    let empty = Dirlist3 { entries: XdrLinkedList::default(), eof: false };
    let ok = Readdir3Resok { dir_attributes: Some(FATTR), cookieverf: VERF, reply: empty };
    results(Procedure::READDIR, &lay_out![0, 1, fattr(), VERF, 0, 0], &Results::READDIR(StatusUnion::Ok(ok)));
    let bad = StatusUnion::Fail(Nfsstat3::NFS3ERR_BAD_COOKIE, DirAttributes3Resfail { dir_attributes: None });
    results(Procedure::READDIR, &lay_out![10003, 0], &Results::READDIR(bad));
}

#[test]
fn rfc1813_section_3_3_17_readdirplus_entries_may_have_attributes_and_handles() {
    let args = Readdirplus3Args { dir: FH, cookie: 0, cookieverf: [0; 8], dircount: 512, maxcount: 8192 };
    let bytes = lay_out!["handle7", 0u64, [0; 8], 512, 8192];
    arguments(Procedure::READDIRPLUS, &bytes, &Args::READDIRPLUS(args));

    let entry = |name, name_attributes, name_handle| Entryplus3 {
        fileid: 128,
        name: Text(name),
        cookie: 10,
        name_attributes,
        name_handle,
    };
    let entries = [entry(b"file", Some(FATTR), Some(FH)), entry(b"bare", None, None), entry(b"half", None, Some(FH))];
    let reply = Dirlistplus3 { entries: XdrLinkedList::from(&entries[..]), eof: true };
    let ok = Readdirplus3Resok { dir_attributes: Some(FATTR), cookieverf: VERF, reply };
    let bytes = lay_out![
        lay_out![0, 1, fattr(), VERF],
        lay_out![1, 128u64, "file", 10u64, 1, fattr(), 1, "handle7"],
        lay_out![1, 128u64, "bare", 10u64, 0, 0],
        lay_out![1, 128u64, "half", 10u64, 0, 1, "handle7"],
        0,
        1,
    ];
    results(Procedure::READDIRPLUS, &bytes, &Results::READDIRPLUS(StatusUnion::Ok(ok)));
    let notsupp = StatusUnion::Fail(Nfsstat3::NFS3ERR_NOTSUPP, DirAttributes3Resfail { dir_attributes: None });
    results(Procedure::READDIRPLUS, &lay_out![10004, 0], &Results::READDIRPLUS(notsupp));
}

#[test]
fn rfc1813_section_3_3_18_fsstat() {
    arguments(Procedure::FSSTAT, &lay_out!["handle7"], &Args::FSSTAT(Fsroot3Args { fsroot: FH }));
    let ok = Fsstat3Resok {
        obj_attributes: None,
        tbytes: 6,
        fbytes: 5,
        abytes: 4,
        tfiles: 3,
        ffiles: 2,
        afiles: 1,
        invarsec: 60,
    };
    let bytes = lay_out![0, 0, 6u64, 5u64, 4u64, 3u64, 2u64, 1u64, 60];
    results(Procedure::FSSTAT, &bytes, &Results::FSSTAT(StatusUnion::Ok(ok)));
    let io = StatusUnion::Fail(Nfsstat3::NFS3ERR_IO, ObjAttributes3Resfail { obj_attributes: None });
    results(Procedure::FSSTAT, &lay_out![5, 0], &Results::FSSTAT(io));
}

#[test]
fn rfc1813_section_3_3_19_fsinfo() {
    arguments(Procedure::FSINFO, &lay_out!["handle7"], &Args::FSINFO(Fsroot3Args { fsroot: FH }));
    let ok = Fsinfo3Resok {
        obj_attributes: Some(FATTR),
        rtmax: 1,
        rtpref: 2,
        rtmult: 3,
        wtmax: 4,
        wtpref: 5,
        wtmult: 6,
        dtpref: 7,
        maxfilesize: u64::MAX,
        time_delta: Duration3 { seconds: 0, nseconds: 1 },
        properties: Fsf3(0x1b),
    };
    assert!(ok.properties.contains(Fsf3::FSF3_HOMOGENEOUS));
    let bytes = lay_out![0, 1, fattr(), 1, 2, 3, 4, 5, 6, 7, u64::MAX, 0, 1, 0x1b];
    results(Procedure::FSINFO, &bytes, &Results::FSINFO(StatusUnion::Ok(ok)));
    let fault = StatusUnion::Fail(Nfsstat3::NFS3ERR_SERVERFAULT, ObjAttributes3Resfail { obj_attributes: None });
    results(Procedure::FSINFO, &lay_out![10006, 0], &Results::FSINFO(fault));
}

#[test]
fn rfc1813_section_3_3_20_pathconf() {
    arguments(Procedure::PATHCONF, &lay_out!["handle7"], &Args::PATHCONF(Pathconf3Args { object: FH }));
    let ok = Pathconf3Resok {
        obj_attributes: None,
        linkmax: 255,
        name_max: 250,
        no_trunc: false,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    let bytes = lay_out![0, 0, 255, 250, 0, 1, 0, 1];
    results(Procedure::PATHCONF, &bytes, &Results::PATHCONF(StatusUnion::Ok(ok)));
    let bad = StatusUnion::Fail(Nfsstat3::NFS3ERR_BADHANDLE, ObjAttributes3Resfail { obj_attributes: Some(FATTR) });
    results(Procedure::PATHCONF, &lay_out![10001, 1, fattr()], &Results::PATHCONF(bad));
}

#[test]
fn rfc1813_section_3_3_21_commit() {
    let args = Commit3Args { file: FH, offset: 0, count: 0 };
    arguments(Procedure::COMMIT, &lay_out!["handle7", 0u64, 0], &Args::COMMIT(args));
    let ok = Commit3Resok { file_wcc: WCC, verf: VERF };
    results(Procedure::COMMIT, &lay_out![0, wcc(), VERF], &Results::COMMIT(StatusUnion::Ok(ok)));
    let io = StatusUnion::Fail(Nfsstat3::NFS3ERR_IO, FileWcc { file_wcc: WCC });
    results(Procedure::COMMIT, &lay_out![5, wcc()], &Results::COMMIT(io));
}

#[test]
fn rfc1813_section_2_6_an_unknown_status_is_retained_as_its_number() {
    let bytes = lay_out![12_345];
    let decoded = Results::decode(Procedure::GETATTR, &mut Cursor::new(&bytes), &mut NullFieldObserver).unwrap();
    let Results::GETATTR(decoded) = decoded else { panic!() };
    assert_eq!(decoded.status().to_string(), "12345");
    assert_eq!(Nfsstat3::NFS3ERR_JUKEBOX.to_string(), "NFS3ERR_JUKEBOX");
    assert_eq!(Nfsstat3::OK, Nfsstat3::NFS3_OK);
}

#[test]
fn rfc1813_section_2_4_a_filehandle_has_at_most_64_bytes() {
    let bytes = lay_out!["x".repeat(65).as_str()];
    let result = Args::decode(Procedure::GETATTR, &mut Cursor::new(&bytes), &mut NullFieldObserver);
    assert_eq!(result, Err(XdrError::TooLong { at: 0, length: 65, bound: 64 }));
}

#[test]
fn rfc1813_section_3_nfsv3_has_22_procedures() {
    let numbers = Procedure::ALL.iter().map(|procedure| procedure.number().0);
    assert_eq!(numbers.collect::<Vec<_>>(), (0..22).collect::<Vec<_>>());
    assert_eq!(ProcedureNumber(22).known(), None);
}

/// Encodes a reduced body. Returns its bytes, and Position and length of the omitted items.
fn reduce(encode: impl FnOnce(&mut Encoder)) -> (Vec<u8>, Vec<(usize, u32)>) {
    let mut encoder = Encoder::new();
    encode(&mut encoder);
    let (bytes, splices) = encoder.finish();
    (bytes, splices.iter().map(|splice| (splice.position, splice.length)).collect())
}

#[test]
fn rfc8267_section_4_the_data_of_write_is_found_in_the_read_chunk_of_its_position() {
    let bytes = lay_out!["handle7", 0u64, 8192, 0, 8192];
    let position = bytes.len() as u32;
    let chunks = [ChunkedDataItem { position: Some(position), length: 8192, bytes: None }];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let decoded = Args::decode(Procedure::WRITE, &mut cursor, &mut NullFieldObserver).unwrap();
    let Args::WRITE(args) = &decoded else { panic!() };
    assert_eq!((args.count, args.data), (8192, Ddp::Chunk { length: 8192, bytes: None }));
    assert_eq!((cursor.remaining(), cursor.unreduced_position()), (0, bytes.len() + 8192));
    let expected = (bytes.clone(), vec![(position as usize, 8192)]);
    assert_eq!(reduce(|encoder| decoded.encode(encoder)), expected);
}

#[test]
fn rfc8267_section_4_the_data_of_read_is_found_in_the_write_chunk() {
    let bytes = lay_out![0, 1, fattr(), 2001, 0, 2001];
    let data = [7; 2001];
    let chunks = [ChunkedDataItem { position: None, length: 2001, bytes: Some(&data) }];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let decoded = Results::decode(Procedure::READ, &mut cursor, &mut NullFieldObserver).unwrap();
    let Results::READ(StatusUnion::Ok(ok)) = &decoded else { panic!() };
    assert_eq!((ok.eof, ok.data.length(), ok.data.bytes()), (false, 2001, Some(&data[..])));
    assert_eq!((cursor.remaining(), cursor.unreduced_position()), (0, bytes.len() + 2004));
    let expected = (bytes.clone(), vec![(bytes.len(), 2001)]);
    assert_eq!(reduce(|encoder| decoded.encode(encoder)), expected);
}

#[test]
fn rfc8267_section_4_the_paths_of_symlink_and_readlink_are_text_in_a_chunk() {
    let position = lay_out!["handle7", "file", sattr(), 5].len() as u32;
    let chunks = [ChunkedDataItem { position: Some(position), length: 5, bytes: Some(b"../to") }];
    let bytes = lay_out!["handle7", "file", sattr(), 5];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let decoded = Args::decode(Procedure::SYMLINK, &mut cursor, &mut NullFieldObserver).unwrap();
    let Args::SYMLINK(args) = &decoded else { panic!() };
    assert_eq!(args.symlink.symlink_data.bytes(), Some(&b"../to"[..]));
    assert_eq!(reduce(|encoder| decoded.encode(encoder)), (bytes, vec![(position as usize, 5)]));

    let chunks = [ChunkedDataItem { position: None, length: 5, bytes: Some(b"../to") }];
    let bytes = lay_out![0, 0, 5];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let decoded = Results::decode(Procedure::READLINK, &mut cursor, &mut NullFieldObserver).unwrap();
    let Results::READLINK(StatusUnion::Ok(ok)) = &decoded else { panic!() };
    assert_eq!(ok.data.bytes(), Some(&b"../to"[..]));
    assert_eq!(reduce(|encoder| decoded.encode(encoder)), (bytes, vec![(12, 5)]));

    for procedure in Procedure::ALL {
        let texts = nfs::link_text_chunks(nfs::Procedure::V3(*procedure), Cursor::new(&[]));
        let expected = (*procedure == Procedure::SYMLINK, *procedure == Procedure::READLINK);
        assert_eq!((texts.call, texts.reply), expected, "{procedure}");
    }
}

#[test]
fn rfc8267_section_4_a_result_without_data_leaves_its_write_chunk_empty() {
    let chunks = [0, 0].map(|length| ChunkedDataItem { position: None, length, bytes: None });
    // READ with NFS3ERR_IO, READ at the end of the file, and READ inline although a chunk was offered.
    for (bytes, splices) in
        [(lay_out![5, 0], 0), (lay_out![0, 1, fattr(), 0, 1, 0], 0), (lay_out![0, 1, fattr(), 5, 1, "hello"], 0)]
    {
        let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
        let decoded = Results::decode(Procedure::READ, &mut cursor, &mut NullFieldObserver).unwrap();
        let (again, left_out) = reduce(|encoder| decoded.encode(encoder));
        assert_eq!((cursor.remaining(), again, left_out.len()), (0, bytes, splices));
    }
    let eligible: Vec<_> = Procedure::ALL.iter().filter(|number| Results::is_ddp_eligible(**number)).collect();
    assert_eq!(eligible, [&Procedure::READLINK, &Procedure::READ]);
}

#[test]
fn rfc8267_section_4_nothing_else_may_travel_in_a_chunk() {
    let bytes = lay_out!["handle7", 4];
    let chunks = [ChunkedDataItem { position: Some(16), length: 4, bytes: None }];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let result = Args::decode(Procedure::LOOKUP, &mut cursor, &mut NullFieldObserver);
    assert_eq!(result, Err(XdrError::NotEligible { at: 12 }));
}

#[test]
fn fields_have_the_names_that_wireshark_gives_them() {
    let bytes = lay_out!["handle7", 3u64, 5, 1, "hello"];
    let mut observer = FieldOrderChecker::default();
    Args::decode(Procedure::WRITE, &mut Cursor::new(&bytes), &mut observer).unwrap();
    let expected = ["nfs.fhandle", "nfs.offset3", "nfs.count3", "nfs.write.stable", "nfs.data"];
    assert_eq!(observer.names, expected);
    assert_eq!(Fattr3::FIELDS.r#type.label, "type");
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(procedure in 0u32..24, bytes: Vec<u8>, length: u16, position: u8) {
        let chunks = [ChunkedDataItem { position: Some(position.into()), length: length.into(), bytes: None }];
        let Some(procedure) = ProcedureNumber(procedure).known() else { return Ok(()) };
        let cursor = Cursor::new(&bytes).with_length(length.into());
        let _ = Args::decode(procedure, &mut cursor.with_chunks(&chunks), &mut FieldOrderChecker::default());
        let _ = Results::decode(procedure, &mut { cursor }, &mut FieldOrderChecker::default());
    }

    #[test]
    fn arbitrary_words_that_decode_encode_to_themselves(
        procedure in 0u32..22, words in proptest::collection::vec(0u32..3, 0..60),
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut cursor = Cursor::new(&bytes);
        let Some(procedure) = ProcedureNumber(procedure).known() else { return Ok(()) };
        if let Ok(decoded) = Results::decode(procedure, &mut cursor, &mut NullFieldObserver) {
            let mut encoder = Encoder::new();
            decoded.encode(&mut encoder);
            let again = Results::decode(procedure, &mut Cursor::new(encoder.bytes()), &mut NullFieldObserver);
            proptest::prop_assert_eq!(again, Ok(decoded));
            proptest::prop_assert_eq!(encoder.bytes().len(), cursor.at());
        }
    }
}
