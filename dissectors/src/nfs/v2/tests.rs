//! Arguments and results of each procedure, encoded by hand from RFC 1094 sections 2.2 and 2.3.

use super::*;
use crate::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use crate::nfs::example_messages::{FieldOrderChecker, items, lay_out};
use crate::nfs::{self, ProcedureStatus, StatusUnionDiscriminant};
use crate::xdr::{ChunkedDataItem, Cursor, Ddp, DdpText, Encoder, Text, Xdr, XdrError};

const FH: Fhandle = *b"a filehandle is 32 bytes always.";

/// fattr of a file, encoded and decoded.
fn fattr() -> Vec<u8> {
    lay_out![1, 0o100_644, 2, 1000, 100, 42, 4096, 8, 1, 0xfd00, 128, 1, 2, 3, 4, 5, 6]
}
const FATTR: Fattr = Fattr {
    r#type: Ftype::NFREG,
    mode: Mode(0o100_644),
    nlink: 2,
    uid: 1000,
    gid: 100,
    size: 42,
    blocksize: 4096,
    rdev: 8,
    blocks: 1,
    fsid: 0xfd00,
    fileid: 128,
    atime: Timeval { seconds: 1, useconds: 2 },
    mtime: Timeval { seconds: 3, useconds: 4 },
    ctime: Timeval { seconds: 5, useconds: 6 },
};

/// sattr that sets mode, size and mtime, encoded and decoded.
fn sattr() -> Vec<u8> {
    lay_out![0o755, -1, -1, 0, -1, -1, 7, 8]
}
const SATTR: Sattr = Sattr {
    mode: Sattr2ValueOrUnchanged(Some(Mode(0o755))),
    uid: Sattr2ValueOrUnchanged(None),
    gid: Sattr2ValueOrUnchanged(None),
    size: Sattr2ValueOrUnchanged(Some(0)),
    atime: Sattr2ValueOrUnchanged(None),
    mtime: Sattr2ValueOrUnchanged(Some(Timeval { seconds: 7, useconds: 8 })),
};

const WHERE: Diropargs<'static> = Diropargs { dir: FH, name: Text(b"file") };
const TO: Diropargs<'static> = Diropargs { dir: FH, name: Text(b"other") };

fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
    let place = lay_out![FH, "file"];
    let other = lay_out![FH, "other"];
    let create = Create2Args { r#where: WHERE, attributes: SATTR };
    let write = Write2Args { file: FH, beginoffset: 1, offset: 2, totalcount: 3, data: Ddp::Inline(b"hello") };
    let symlink = Symlink2Args { from: WHERE, to: DdpText::Inline(b"../to"), attributes: SATTR };
    vec![
        (lay_out![], Args::NULL(Void)),
        (lay_out![FH], Args::GETATTR(Fhandle2Args { file: FH })),
        (lay_out![FH, sattr()], Args::SETATTR(Setattr2Args { file: FH, attributes: SATTR })),
        (lay_out![], Args::ROOT(Void)),
        (place.clone(), Args::LOOKUP(WHERE)),
        (lay_out![FH], Args::READLINK(Fhandle2Args { file: FH })),
        (lay_out![FH, 1, 2, 3], Args::READ(Read2Args { file: FH, offset: 1, count: 2, totalcount: 3 })),
        (lay_out![], Args::WRITECACHE(Void)),
        (lay_out![FH, 1, 2, 3, "hello"], Args::WRITE(write)),
        (lay_out![place.clone(), sattr()], Args::CREATE(create.clone())),
        (place.clone(), Args::REMOVE(WHERE)),
        (lay_out![place.clone(), other.clone()], Args::RENAME(Rename2Args { from: WHERE, to: TO })),
        (lay_out![FH, other], Args::LINK(Link2Args { from: FH, to: TO })),
        (lay_out![place.clone(), "../to", sattr()], Args::SYMLINK(symlink)),
        (lay_out![place.clone(), sattr()], Args::MKDIR(create)),
        (place, Args::RMDIR(WHERE)),
        (lay_out![FH, 9, 4096], Args::READDIR(Readdir2Args { dir: FH, cookie: 9, count: 4096 })),
        (lay_out![FH], Args::STATFS(Fhandle2Args { file: FH })),
    ]
}

fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
    let attributes = || StatusUnion::Ok(Attrstat2Ok { attributes: FATTR });
    let diropok = || StatusUnion::Ok(Diropok { file: FH, attributes: FATTR });
    let entry = |fileid, name, cookie| Entry2 { fileid, name: Text(name), cookie };
    let entries = items([entry(128, b".", 1), entry(129, b"file", 2)]);
    let statfs = Statfs2Ok { tsize: 8192, bsize: 4096, blocks: 100, bfree: 50, bavail: 40 };
    vec![
        (lay_out![], Results::NULL(Void)),
        (lay_out![0, fattr()], Results::GETATTR(attributes())),
        (lay_out![70], Results::GETATTR(StatusUnion::Fail(Nfsstat::NFSERR_STALE, Void))),
        (lay_out![0, fattr()], Results::SETATTR(attributes())),
        (lay_out![], Results::ROOT(Void)),
        (lay_out![0, FH, fattr()], Results::LOOKUP(diropok())),
        (lay_out![2], Results::LOOKUP(StatusUnion::Fail(Nfsstat::NFSERR_NOENT, Void))),
        (lay_out![0, "../to"], Results::READLINK(StatusUnion::Ok(Readlink2Ok { data: DdpText::Inline(b"../to") }))),
        (
            lay_out![0, fattr(), "hello"],
            Results::READ(StatusUnion::Ok(Read2Ok { attributes: FATTR, data: Ddp::Inline(b"hello") })),
        ),
        (lay_out![5], Results::READ(StatusUnion::Fail(Nfsstat::NFSERR_IO, Void))),
        (lay_out![], Results::WRITECACHE(Void)),
        (lay_out![0, fattr()], Results::WRITE(attributes())),
        (lay_out![99], Results::WRITE(StatusUnion::Fail(Nfsstat::NFSERR_WFLUSH, Void))),
        (lay_out![0, FH, fattr()], Results::CREATE(diropok())),
        (lay_out![0], Results::REMOVE(StatusUnion::Ok(Void))),
        (lay_out![13], Results::RENAME(StatusUnion::Fail(Nfsstat::NFSERR_ACCES, Void))),
        (lay_out![0], Results::LINK(StatusUnion::Ok(Void))),
        (lay_out![0], Results::SYMLINK(StatusUnion::Ok(Void))),
        (lay_out![0, FH, fattr()], Results::MKDIR(diropok())),
        (lay_out![66], Results::RMDIR(StatusUnion::Fail(Nfsstat::NFSERR_NOTEMPTY, Void))),
        (
            lay_out![0, 1, 128, ".", 1, 1, 129, "file", 2, 0, 1],
            Results::READDIR(StatusUnion::Ok(Readdir2Ok { entries, eof: true })),
        ),
        (lay_out![0, 8192, 4096, 100, 50, 40], Results::STATFS(StatusUnion::Ok(statfs))),
    ]
}

pub(in crate::nfs) mod table {
    use super::{calls, replies};

    crate::nfs::example_messages::examples! { crate::nfs::v2: calls(), replies() }
}

#[test]
fn rfc1094_section_2_3_6_a_value_of_minus_one_leaves_the_attribute_as_it_is() {
    let bytes = lay_out![FH, -1, -1, -1, -1, -1, -1, -1, -1];
    let decoded = Args::decode(Procedure::SETATTR, &mut Cursor::new(&bytes), &mut NullFieldObserver).unwrap();
    let Args::SETATTR(Setattr2Args { attributes, .. }) = decoded else { panic!() };
    assert_eq!(
        (attributes.mode, attributes.uid, attributes.gid),
        (Sattr2ValueOrUnchanged(None), Sattr2ValueOrUnchanged(None), Sattr2ValueOrUnchanged(None))
    );
    assert_eq!((attributes.size, attributes.atime.0, attributes.mtime.0), (Sattr2ValueOrUnchanged(None), None, None));
}

#[test]
fn rfc1094_section_2_3_7_a_file_name_has_at_most_255_bytes() {
    let lookup = |length| {
        let bytes = lay_out![FH, "x".repeat(length).as_str()];
        Args::decode(Procedure::LOOKUP, &mut Cursor::new(&bytes), &mut NullFieldObserver).map(|_| ())
    };
    assert_eq!(lookup(255), Ok(()));
    assert_eq!(lookup(256), Err(XdrError::TooLong { at: 32, length: 256, bound: 255 }));
}

#[test]
fn rfc1094_section_2_3_1_every_result_but_three_begins_with_a_status() {
    for procedure in Procedure::ALL {
        let status = nfs::Procedure::V2(*procedure).status(Cursor::new(&[0, 0, 0, 70])).unwrap();
        let expected = ProcedureStatus { number: 70, name: Some("NFSERR_STALE"), is_ok: false };
        let has_none = matches!(*procedure, Procedure::NULL | Procedure::ROOT | Procedure::WRITECACHE);
        assert_eq!(status, (!has_none).then_some(expected), "{procedure}");
    }
    assert_eq!(Nfsstat::OK, Nfsstat::NFS_OK);
}

/// Encodes a reduced body. Returns its bytes, and Position and length of the omitted items.
fn reduce(encode: impl FnOnce(&mut Encoder)) -> (Vec<u8>, Vec<(usize, u32)>) {
    let mut encoder = Encoder::new();
    encode(&mut encoder);
    let (bytes, splices) = encoder.finish();
    (bytes, splices.iter().map(|splice| (splice.position, splice.length)).collect())
}

#[test]
fn rfc8267_section_4_data_and_paths_may_travel_in_chunks() {
    let in_a_chunk = |bytes: &[u8], procedure| {
        let chunks = [ChunkedDataItem { position: Some(bytes.len() as u32), length: 5, bytes: Some(b"../to") }];
        let mut cursor = Cursor::new(bytes).with_chunks(&chunks);
        let decoded = Args::decode(procedure, &mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(cursor.remaining(), 0);
        reduce(|encoder| decoded.encode(encoder))
    };
    let write = lay_out![FH, 1, 2, 3, 5];
    assert_eq!(in_a_chunk(&write, Procedure::WRITE), (write.clone(), vec![(write.len(), 5)]));

    let path = lay_out![FH, "file", 5];
    let symlink = lay_out![path.clone(), sattr()];
    let chunks = [ChunkedDataItem { position: Some(path.len() as u32), length: 5, bytes: Some(b"../to") }];
    let mut cursor = Cursor::new(&symlink).with_chunks(&chunks);
    let decoded = Args::decode(Procedure::SYMLINK, &mut cursor, &mut NullFieldObserver).unwrap();
    let Args::SYMLINK(args) = &decoded else { panic!() };
    assert_eq!(args.to.bytes(), Some(&b"../to"[..]));
    assert_eq!(reduce(|encoder| decoded.encode(encoder)), (symlink, vec![(path.len(), 5)]));

    for (procedure, bytes) in [(Procedure::READ, lay_out![0, fattr(), 5]), (Procedure::READLINK, lay_out![0, 5])] {
        let chunks = [ChunkedDataItem { position: None, length: 5, bytes: Some(b"hello") }];
        let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
        let decoded = Results::decode(procedure, &mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(reduce(|encoder| decoded.encode(encoder)), (bytes.clone(), vec![(bytes.len(), 5)]));
    }
}

#[test]
fn rfc8267_section_4_a_result_without_data_leaves_its_write_chunk_empty() {
    let chunks = [ChunkedDataItem { position: None, length: 0, bytes: None }];
    for bytes in [lay_out![5], lay_out![0, fattr(), 0], lay_out![0, fattr(), "hello"]] {
        let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
        let decoded = Results::decode(Procedure::READ, &mut cursor, &mut NullFieldObserver).unwrap();
        let again = reduce(|encoder| decoded.encode(encoder));
        assert_eq!((cursor.remaining(), again), (0, (bytes, Vec::new())));
    }
    let eligible: Vec<_> = Procedure::ALL.iter().filter(|number| Results::is_ddp_eligible(**number)).collect();
    assert_eq!(eligible, [&Procedure::READLINK, &Procedure::READ]);
}

#[test]
fn rfc8267_section_4_nothing_else_may_travel_in_a_chunk() {
    let bytes = lay_out![FH, 4];
    let chunks = [ChunkedDataItem { position: Some(36), length: 4, bytes: None }];
    let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
    let result = Args::decode(Procedure::LOOKUP, &mut cursor, &mut NullFieldObserver);
    assert_eq!(result, Err(XdrError::NotEligible { at: 32 }));

    for procedure in Procedure::ALL {
        let texts = nfs::link_text_chunks(nfs::Procedure::V2(*procedure), Cursor::new(&[]));
        let expected = (*procedure == Procedure::SYMLINK, *procedure == Procedure::READLINK);
        assert_eq!((texts.call, texts.reply), expected, "{procedure}");
    }
}

#[test]
fn fields_have_the_names_that_wireshark_gives_them() {
    let bytes = lay_out![FH, 1, 2, 3, "hello"];
    let mut observer = FieldOrderChecker::default();
    Args::decode(Procedure::WRITE, &mut Cursor::new(&bytes), &mut observer).unwrap();
    let expected = ["nfs.fhandle", "nfs.write.beginoffset", "nfs.write.offset", "nfs.write.totalcount", "nfs.data"];
    assert_eq!(observer.names, expected);
    let label = |mode: u32| Mode::NAMES.iter().find(|(bits, _)| *bits == u64::from(mode)).map(|(_, name)| *name);
    assert_eq!([0o40_000, 0o100_000, 0o120_000].map(label), [Some("S_IFDIR"), Some("S_IFREG"), Some("S_IFLNK")]);
}

/// Microseconds are at most 999,999 (RFC 1094 section 2.3.4); 1,000,000 requests the server's time.
#[test]
fn a_time_that_is_to_be_the_servers_is_no_instant() {
    #[derive(Default)]
    struct Instants(Vec<(&'static str, i128)>, Vec<u64>);
    impl<'a> FieldObserver<'a> for Instants {
        fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
        fn leave(&mut self, _: usize) {}
        fn value(&mut self, field: &'static FieldDefinition, _: std::ops::Range<usize>, value: FieldValue<'a>) {
            if let ("nfs.timeval.useconds", FieldValue::Unsigned(number)) = (field.name, value) {
                self.1.push(number);
            }
        }
        fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
            self.0.push((field.label, nanoseconds));
        }
    }
    let mut bytes = [0xff; 32];
    for (at, word) in [(16, 3_u32), (20, 1_000_000), (24, 3), (28, 999_999)] {
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    static FIELD: FieldDefinition = FieldDefinition::group("nfs.sattr", "attributes", "");
    let mut seen = Instants::default();
    Sattr::decode(&mut Cursor::new(&bytes), &FIELD, &mut seen).unwrap();
    assert_eq!(seen.0, [("mtime", 3_999_999_000)]);
    assert_eq!(seen.1, [1_000_000, 999_999], "what was sent is told");
}
