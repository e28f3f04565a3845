//! Names in the arguments of an operation, and its conditions on them. RFC 1813 section 3.3, RFC 8881 section 18.

use nfsrdma_dissectors::nfs::{v3, v4};

/// Condition of an operation on a name: if it is not met, a status says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It exists: NFS4ERR_NOENT.
    Present,
    /// It does not exist: NFS4ERR_EXIST.
    Absent,
    /// It does not exist, or has an object that RENAME may replace: NFS4ERR_EXIST. RFC 1813 section 3.3.14, RFC 8881
    /// section 18.26.3.
    Replaceable,
    /// Nothing: the object is opened, or made if it is not there.
    Nothing,
}

/// A name in the arguments of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'m> {
    /// The name.
    pub text: &'m [u8],
    /// Condition of the operation on it.
    pub need: Need,
    /// `true` for the old name of RENAME. Its directory is the object of the saved filehandle; in NFSv3, of the first.
    pub is_old: bool,
}

impl<'m> Name<'m> {
    const fn new(text: &'m [u8], need: Need) -> Self {
        Self { text, need, is_old: false }
    }

    const fn renamed(old: &'m [u8], new: &'m [u8]) -> [Option<Self>; 2] {
        let old = Self { text: old, need: Need::Present, is_old: true };
        [Some(old), Some(Self::new(new, Need::Replaceable))]
    }

    /// Returns the names in the arguments of a procedure of NFSv3.
    pub fn of_v3(args: &v3::Args<'m>) -> [Option<Self>; 2] {
        use v3::Args as A;
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other procedure has a name in a directory")]
        let name = match args {
            A::LOOKUP(args) => Self::new(args.what.name.0, Need::Present),
            A::REMOVE(args) | A::RMDIR(args) => Self::new(args.object.name.0, Need::Present),
            A::CREATE(args) => Self::new(
                args.r#where.name.0,
                match args.how {
                    v3::Createhow3::Unchecked(_) => Need::Nothing,
                    v3::Createhow3::Guarded(_) | v3::Createhow3::Exclusive(_) => Need::Absent,
                },
            ),
            A::MKDIR(args) => Self::new(args.r#where.name.0, Need::Absent),
            A::SYMLINK(args) => Self::new(args.r#where.name.0, Need::Absent),
            A::MKNOD(args) => Self::new(args.r#where.name.0, Need::Absent),
            A::LINK(args) => Self::new(args.link.name.0, Need::Absent),
            A::RENAME(args) => return Self::renamed(args.from.name.0, args.to.name.0),
            _ => return [None; 2],
        };
        [Some(name), None]
    }

    /// Returns the names in the arguments of an operation of NFSv4.
    pub fn of_v4(args: &v4::Args<'m>) -> [Option<Self>; 2] {
        use v4::Args as A;
        use v4::{Createhow4 as How, Openflag4 as Flag};
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation changes or finds a name")]
        let name = match args {
            A::LOOKUP(args) => Some(Self::new(args.objname.0, Need::Present)),
            A::SECINFO(args) => Some(Self::new(args.name.0, Need::Present)),
            A::REMOVE(args) => Some(Self::new(args.target.0, Need::Present)),
            A::CREATE(args) => Some(Self::new(args.objname.0, Need::Absent)),
            A::LINK(args) => Some(Self::new(args.newname.0, Need::Absent)),
            A::RENAME(args) => return Self::renamed(args.oldname.0, args.newname.0),
            A::OPEN(args) => claimed_name(&args.claim).map(|name| {
                let need = match &args.openhow {
                    Flag::Create(How::Unchecked(_)) => Need::Nothing,
                    Flag::Create(How::Guarded(_) | How::Exclusive(_) | How::Exclusive41(_)) => Need::Absent,
                    Flag::NoCreate(_) => Need::Present,
                };
                Self::new(name, need)
            }),
            _ => None,
        };
        [name, None]
    }
}

/// Returns the name in the claim of an OPEN; `None` if it is about the object of the current filehandle. RFC 8881 section
/// 18.16.3, table of claims.
pub fn claimed_name<'m>(claim: &v4::OpenClaim4<'m>) -> Option<&'m [u8]> {
    match claim {
        v4::OpenClaim4::Null(name) | v4::OpenClaim4::DelegatePrev(name) => Some(name.0),
        v4::OpenClaim4::DelegateCur(claim) => Some(claim.file.0),
        v4::OpenClaim4::Previous(_)
        | v4::OpenClaim4::Fh
        | v4::OpenClaim4::DelegPrevFh
        | v4::OpenClaim4::DelegCurFh(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v3::{
        Create3Args, Createhow3, Diropargs3, Link3Args, Lookup3Args, Remove3Args, Rename3Args, Sattr3, SetAtime,
        SetMtime,
    };
    use nfsrdma_dissectors::nfs::v4::{
        Bitmap4, Createhow4, Fattr4, Link4Args, Open4Args, OpenClaim4, OpenDelegationType4, OpenOwner4, Openflag4,
        Opentype4, Rename4Args, ShareAccess, ShareDeny, Stateid4,
    };
    use nfsrdma_dissectors::xdr::{Opaque, Text};

    use super::*;

    fn needs(names: [Option<Name<'_>>; 2]) -> Vec<(&[u8], Need)> {
        names.into_iter().flatten().map(|name| (name.text, name.need)).collect()
    }

    /// RFC 1813 sections 3.3.3, 3.3.8, 3.3.12, 3.3.14 and 3.3.15.
    #[test]
    fn procedures_need_names() {
        let at = |name| Diropargs3 { dir: Opaque(b"d"), name: Text(name) };
        let attributes = || Sattr3 {
            mode: None,
            uid: None,
            gid: None,
            size: None,
            atime: SetAtime::DontChange,
            mtime: SetMtime::DontChange,
        };
        let create = |how| v3::Args::CREATE(Create3Args { r#where: at(b"f"), how });
        for (args, expected) in [
            (v3::Args::LOOKUP(Lookup3Args { what: at(b"f") }), vec![(&b"f"[..], Need::Present)]),
            (v3::Args::REMOVE(Remove3Args { object: at(b"f") }), vec![(b"f", Need::Present)]),
            (create(Createhow3::Unchecked(attributes())), vec![(b"f", Need::Nothing)]),
            (create(Createhow3::Guarded(attributes())), vec![(b"f", Need::Absent)]),
            (create(Createhow3::Exclusive([0; 8])), vec![(b"f", Need::Absent)]),
            (v3::Args::LINK(Link3Args { file: Opaque(b"f"), link: at(b"n") }), vec![(b"n", Need::Absent)]),
            (
                v3::Args::RENAME(Rename3Args { from: at(b"o"), to: at(b"n") }),
                vec![(b"o", Need::Present), (b"n", Need::Replaceable)],
            ),
        ] {
            assert_eq!(needs(Name::of_v3(&args)), expected, "{args:?}");
        }
    }

    /// RFC 8881 section 18.16.3: claims by name and by filehandle.
    #[test]
    fn claims_by_filehandle_keep_object() {
        let claims = [
            (OpenClaim4::Null(Text(b"f")), Some(&b"f"[..])),
            (OpenClaim4::DelegatePrev(Text(b"f")), Some(b"f")),
            (OpenClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_NONE), None),
            (OpenClaim4::Fh, None),
            (OpenClaim4::DelegPrevFh, None),
            (OpenClaim4::DelegCurFh(Stateid4 { seqid: 1, other: [7; 12] }), None),
        ];
        for (claim, name) in claims {
            assert_eq!(claimed_name(&claim), name, "{claim:?}");
        }
    }

    /// RFC 8881 sections 18.9.3, 18.16.3 and 18.26.3.
    #[test]
    fn operations_need_names() {
        let open = |openhow| {
            v4::Args::OPEN(Open4Args {
                seqid: 0,
                share_access: ShareAccess::OPEN4_SHARE_ACCESS_WRITE,
                share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
                owner: OpenOwner4 { clientid: 1, owner: Opaque(b"o") },
                openhow,
                claim: OpenClaim4::Null(Text(b"f")),
            })
        };
        let attributes = || Fattr4::new(Bitmap4::from(&[][..]), Opaque(b""));
        for (args, expected) in [
            (open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE)), vec![(&b"f"[..], Need::Present)]),
            (open(Openflag4::Create(Createhow4::Unchecked(attributes()))), vec![(b"f", Need::Nothing)]),
            (open(Openflag4::Create(Createhow4::Guarded(attributes()))), vec![(b"f", Need::Absent)]),
            (open(Openflag4::Create(Createhow4::Exclusive([0; 8]))), vec![(b"f", Need::Absent)]),
            (v4::Args::LINK(Link4Args { newname: Text(b"n") }), vec![(b"n", Need::Absent)]),
            (
                v4::Args::RENAME(Rename4Args { oldname: Text(b"o"), newname: Text(b"n") }),
                vec![(b"o", Need::Present), (b"n", Need::Replaceable)],
            ),
        ] {
            assert_eq!(needs(Name::of_v4(&args)), expected, "{args:?}");
        }
    }
}
