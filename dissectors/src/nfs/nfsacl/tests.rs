//! Arguments and results of each procedure, encoded by hand from the XDR of the program.

use super::*;
use crate::nfs::example_messages::{FieldOrderChecker, items, lay_out};
use crate::nfs::v3::Access3;
use crate::nfs::{Procedure, ProcedureStatus, StatusUnion};
use crate::xdr::{Cursor, Opaque, Void, XdrError};

/// Returns the two lists of a directory, encoded and decoded.
fn acl() -> (Vec<u8>, Secattr<'static>) {
    let entry = |r#type, id, perm| Aclent { r#type: AclentType(r#type), id, perm: AclentPerm(perm) };
    let acl = Secattr {
        mask: AclMask(0xf),
        aclcnt: 4,
        aclent: items([entry(0x1, 0, 7), entry(0x2, 1000, 6), entry(0x10, 0, 7), entry(0x20, 0, 5)]),
        dfaclcnt: 1,
        dfaclent: items([entry(0x1008, 100, 4)]),
    };
    let entries = lay_out![0x1, 0, 7, 0x2, 1000, 6, 0x10, 0, 7, 0x20, 0, 5];
    (lay_out![0xf, 4, 4, entries, 1, 1, 0x1008, 100, 4], acl)
}

/// Returns the counts of an object without lists, encoded and decoded.
fn counts() -> (Vec<u8>, Secattr<'static>) {
    let acl = Secattr {
        mask: AclMask(AclMask::NA_ACLCNT.0 | AclMask::NA_DFACLCNT.0),
        aclcnt: 3,
        aclent: items([]),
        dfaclcnt: 0,
        dfaclent: items([]),
    };
    (lay_out![0xa, 3, 0, 0, 0], acl)
}

pub(in crate::nfs) mod version_2 {
    use super::*;
    use crate::nfs::nfsacl::v2::{
        Access2Args, Access2Resok, Getacl2Args, Getacl2Resok, Getattr2Args, Getxattrdir2Args, Getxattrdir2Resok,
        Nfsacl2AttrResok, Setacl2Args,
    };
    use crate::nfs::v2::{Fattr, Fhandle, Ftype, Mode, Nfsstat, Timeval};

    const FH: Fhandle = *b"a filehandle is 32 bytes always.";
    const TIME: Timeval = Timeval { seconds: 11, useconds: 12 };
    const FATTR: Fattr = Fattr {
        r#type: Ftype::NFDIR,
        mode: Mode(0o40_755),
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        blocksize: 5,
        rdev: 6,
        blocks: 7,
        fsid: 8,
        fileid: 9,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
    };

    fn fattr() -> Vec<u8> {
        lay_out![2, 0o40_755, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 11, 12, 11, 12]
    }

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let access = Access3(0x1f);
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out![FH, 5], Args::GETACL(Getacl2Args { fh: FH, mask: AclMask(5) })),
            (lay_out![FH, acl().0], Args::SETACL(Setacl2Args { fh: FH, acl: acl().1 })),
            (lay_out![FH], Args::GETATTR(Getattr2Args { fh: FH })),
            (lay_out![FH, 0x1f], Args::ACCESS(Access2Args { fh: FH, access })),
            (lay_out![FH, 1], Args::GETXATTRDIR(Getxattrdir2Args { fh: FH, create: true })),
        ]
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let (attr, access) = (FATTR, Access3(3));
        let dir = Getxattrdir2Resok { fh: FH, attr: FATTR };
        vec![
            (lay_out![], Results::NULL(Void)),
            (
                lay_out![0, fattr(), acl().0],
                Results::GETACL(StatusUnion::Ok(Getacl2Resok { attr: FATTR, acl: acl().1 })),
            ),
            (lay_out![70], Results::GETACL(StatusUnion::Fail(Nfsstat::NFSERR_STALE, Void))),
            (lay_out![0, fattr()], Results::SETACL(StatusUnion::Ok(Nfsacl2AttrResok { attr: FATTR }))),
            (lay_out![0, fattr()], Results::GETATTR(StatusUnion::Ok(Nfsacl2AttrResok { attr: FATTR }))),
            (lay_out![0, fattr(), 3], Results::ACCESS(StatusUnion::Ok(Access2Resok { attr, access }))),
            (lay_out![0, FH, fattr()], Results::GETXATTRDIR(StatusUnion::Ok(dir))),
        ]
    }

    crate::nfs::example_messages::examples! { crate::nfs::nfsacl::v2: calls(), replies() }
}

pub(in crate::nfs) mod version_3 {
    use super::*;
    use crate::nfs::nfsacl::v3::{
        Getacl3Args, Getacl3Resok, Getxattrdir3Args, Getxattrdir3Resok, Nfsacl3AttrResult, Setacl3Args,
    };
    use crate::nfs::v3::{Fattr3, Ftype3, Mode3, NfsFh3, Nfsstat3, Nfstime3, Specdata3};

    const FH: NfsFh3<'static> = Opaque(b"handle7");
    const TIME: Nfstime3 = Nfstime3 { seconds: 11, nseconds: 12 };
    const FATTR: Fattr3 = Fattr3 {
        r#type: Ftype3::NF3DIR,
        mode: Mode3(0o755),
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        used: 5,
        rdev: Specdata3 { specdata1: 6, specdata2: 7 },
        fsid: 8,
        fileid: 9,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
    };

    fn fattr() -> Vec<u8> {
        lay_out![1, 2, 0o755, 1, 2, 3, 4u64, 5u64, 6, 7, 8u64, 9u64, 11, 12, 11, 12, 11, 12]
    }

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out!["handle7", 0xf], Args::GETACL(Getacl3Args { fh: FH, mask: AclMask(0xf) })),
            (lay_out!["handle7", acl().0], Args::SETACL(Setacl3Args { fh: FH, acl: acl().1 })),
            (lay_out!["handle7", 0], Args::GETXATTRDIR(Getxattrdir3Args { fh: FH, create: false })),
        ]
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let attr = Some(FATTR);
        let dir = Getxattrdir3Resok { fh: FH, attr: None };
        vec![
            (lay_out![], Results::NULL(Void)),
            (
                lay_out![0, fattr(), acl().0],
                Results::GETACL(StatusUnion::Ok(Getacl3Resok { attr: attr.clone(), acl: acl().1 })),
            ),
            (
                lay_out![0, 0, counts().0],
                Results::GETACL(StatusUnion::Ok(Getacl3Resok { attr: None, acl: counts().1 })),
            ),
            (
                lay_out![10_004, fattr()],
                Results::GETACL(StatusUnion::Fail(Nfsstat3::NFS3ERR_NOTSUPP, Nfsacl3AttrResult { attr: attr.clone() })),
            ),
            (lay_out![0, fattr()], Results::SETACL(StatusUnion::Ok(Nfsacl3AttrResult { attr }))),
            (
                lay_out![1, 0],
                Results::SETACL(StatusUnion::Fail(Nfsstat3::NFS3ERR_PERM, Nfsacl3AttrResult { attr: None })),
            ),
            (lay_out![0, "handle7", 0], Results::GETXATTRDIR(StatusUnion::Ok(dir))),
            (lay_out![2], Results::GETXATTRDIR(StatusUnion::Fail(Nfsstat3::NFS3ERR_NOENT, Void))),
        ]
    }

    crate::nfs::example_messages::examples! { crate::nfs::nfsacl::v3: calls(), replies() }
}

#[test]
fn a_list_has_at_most_1024_entries() {
    let entries = |count: usize| lay_out!["handle7", 1, 0, count as i32, vec![0; 12 * count], 0, 0];
    let setacl = |bytes: &[u8]| {
        let mut cursor = Cursor::new(bytes);
        v3::Args::decode(v3::Procedure::SETACL, &mut cursor, &mut FieldOrderChecker::default()).map(|_| ())
    };
    assert_eq!(setacl(&entries(1024)), Ok(()));
    assert_eq!(setacl(&entries(1025)), Err(XdrError::TooLong { at: 20, length: 1025, bound: 1024 }));
}

#[test]
fn acl_entries_have_wiresharks_field_names() {
    let bytes = lay_out!["handle7", acl().0];
    let mut observer = FieldOrderChecker::default();
    v3::Args::decode(v3::Procedure::SETACL, &mut Cursor::new(&bytes), &mut observer).unwrap();
    let entry = ["nfsacl.aclent.type", "nfsacl.aclent.uid", "nfsacl.aclent.perm"];
    let mut expected = vec!["nfs.fhandle", "nfsacl.mask", "nfsacl.aclcnt"];
    expected.extend(entry.repeat(4));
    expected.push("nfsacl.dfaclcnt");
    expected.extend(entry);
    assert_eq!(observer.names, expected);
}

#[test]
fn the_status_is_that_of_the_nfs_version_beside_it() {
    let stale = ProcedureStatus { number: 70, name: Some("NFS3ERR_STALE"), is_ok: false };
    let status = |procedure: Procedure| procedure.status(Cursor::new(&[0, 0, 0, 70]));
    assert_eq!(status(Procedure::Nfsacl3(v3::Procedure::GETACL)), Ok(Some(stale)));
    assert_eq!(status(Procedure::Nfsacl3(v3::Procedure::NULL)), Ok(None));
    let stale = ProcedureStatus { name: Some("NFSERR_STALE"), ..stale };
    assert_eq!(status(Procedure::Nfsacl2(v2::Procedure::ACCESS)), Ok(Some(stale)));
    assert_eq!(status(Procedure::Nfsacl2(v2::Procedure::NULL)), Ok(None));
}
