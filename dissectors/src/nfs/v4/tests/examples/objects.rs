//! Operations on names, filehandles, attributes and extended attributes.

use super::*;

pub(super) fn calls() -> Vec<(Args<'static>, &'static str)> {
    let create = |objtype| Args::CREATE(Create4Args { objtype, objname: NAME, createattrs: fattr() });
    let object_attributes = || Getattr4Resok { obj_attributes: fattr() };
    vec![
        (Args::ACCESS(Access4Args { access: Access4(0x1ff) }), "000001ff"),
        (create(Createtype4::Link(DdpText::Inline(b"target"))), "00000005 00000006 'target' 0000 $name $fattr"),
        (
            create(Createtype4::Block(Specdata4 { specdata1: 8, specdata2: 1 })),
            "00000003 00000008 00000001 $name $fattr",
        ),
        (
            create(Createtype4::Character(Specdata4 { specdata1: 1, specdata2: 3 })),
            "00000004 00000001 00000003 $name $fattr",
        ),
        (create(Createtype4::Other(NfsFtype4::NF4DIR)), "00000002 $name $fattr"),
        (Args::GETATTR(Getattr4Args { attr_request: bitmap(&[0x11a, 0x30]) }), "00000002 0000011a 00000030"),
        (Args::GETFH(Void), ""),
        (Args::LINK(Link4Args { newname: NAME }), "$name"),
        (Args::LOOKUP(Lookup4Args { objname: NAME }), "$name"),
        (Args::LOOKUPP(Void), ""),
        (Args::NVERIFY(object_attributes()), "$fattr"),
        (Args::OPENATTR(Openattr4Args { createdir: true }), "00000001"),
        (Args::PUTFH(ObjectFh4 { object: FH }), "$fh"),
        (Args::PUTPUBFH(Void), ""),
        (Args::PUTROOTFH(Void), ""),
        (
            Args::READDIR(Readdir4Args {
                cookie: 0,
                cookieverf: VERIFIER,
                dircount: 1,
                maxcount: 2,
                attr_request: bitmap(&[0x18091a, 0xb0a23a]),
            }),
            "00000000 00000000 $verifier 00000001 00000002 00000002 0018091a 00b0a23a",
        ),
        (Args::READLINK(Void), ""),
        (Args::REMOVE(Remove4Args { target: NAME }), "$name"),
        (Args::RENAME(Rename4Args { oldname: NAME, newname: Text(b"other") }), "$name 00000005 'other' 000000"),
        (Args::RESTOREFH(Void), ""),
        (Args::SAVEFH(Void), ""),
        (Args::SECINFO(Secinfo4Args { name: NAME }), "$name"),
        (Args::SETATTR(Setattr4Args { stateid: STATEID, obj_attributes: fattr() }), "$stateid $fattr"),
        (Args::VERIFY(object_attributes()), "$fattr"),
        (Args::SECINFO_NO_NAME(SecinfoNoName4Args { style: SecinfoStyle4::SECINFO_STYLE4_PARENT }), "00000001"),
        (Args::GETXATTR(Getxattr4Args { gxa_name: NAME }), "$name"),
        (
            Args::SETXATTR(Setxattr4Args {
                sxa_option: SetxattrOption4::SETXATTR4_CREATE,
                sxa_key: NAME,
                sxa_value: Opaque(b"value"),
            }),
            "00000001 $name 00000005 'value' 000000",
        ),
        (Args::LISTXATTRS(Listxattrs4Args { lxa_cookie: 0, lxa_maxcount: 292 }), "00000000 00000000 00000124"),
        (Args::REMOVEXATTR(Removexattr4Args { rxa_name: NAME }), "$name"),
        (Args::ILLEGAL(Void), ""),
    ]
}

pub(super) fn replies() -> Vec<(Results<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    const FAILED: StatusUnion<Nfsstat4, Void> = StatusUnion::Fail(Nfsstat4::NFS4ERR_DELAY, Void);
    let entries =
        slice([Entry4 { cookie: 3, name: NAME, attrs: fattr() }, Entry4 { cookie: 4, name: NAME, attrs: fattr() }]);
    let secinfo = Secinfo4Resok {
        resok4: list([
            Secinfo4::RpcsecGss(RpcsecGssInfo {
                oid: Opaque(&[0x2a, 0x86]),
                qop: 0,
                service: RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
            }),
            Secinfo4::Other(Flavor::AUTH_SYS),
        ]),
    };
    vec![
        (
            Results::ACCESS(StatusUnion::Ok(Access4Resok { supported: Access4(0x1f), access: Access4(0x1f) })),
            "00000000 0000001f 0000001f",
        ),
        (
            Results::CREATE(StatusUnion::Ok(Create4Resok { cinfo: CINFO, attrset: bitmap(&[0, 2]) })),
            "00000000 $cinfo 00000002 00000000 00000002",
        ),
        (Results::GETATTR(StatusUnion::Ok(Getattr4Resok { obj_attributes: fattr() })), "00000000 $fattr"),
        (Results::GETFH(StatusUnion::Ok(ObjectFh4 { object: FH })), "00000000 $fh"),
        (Results::LINK(StatusUnion::Ok(ChangeInfoResok4 { cinfo: CINFO })), "00000000 $cinfo"),
        (Results::LOOKUP(FAILED), "00002718"),
        (Results::LOOKUPP(DONE), "00000000"),
        (Results::NVERIFY(FAILED), "00002718"),
        (Results::OPENATTR(DONE), "00000000"),
        (Results::PUTFH(DONE), "00000000"),
        (Results::PUTPUBFH(DONE), "00000000"),
        (Results::PUTROOTFH(DONE), "00000000"),
        (
            Results::READDIR(StatusUnion::Ok(Readdir4Resok {
                cookieverf: VERIFIER,
                reply: Dirlist4 { entries: XdrLinkedList::from(entries), eof: true },
            })),
            "00000000 $verifier 00000001 00000000 00000003 $name $fattr 00000001 00000000 00000004 $name $fattr 00000000 00000001",
        ),
        (
            Results::READLINK(StatusUnion::Ok(Readlink4Resok { link: DdpText::Inline(b"../target") })),
            "00000000 00000009 '../target' 000000",
        ),
        (Results::REMOVE(StatusUnion::Ok(ChangeInfoResok4 { cinfo: CINFO })), "00000000 $cinfo"),
        (
            Results::RENAME(StatusUnion::Ok(Rename4Resok { source_cinfo: CINFO, target_cinfo: CINFO })),
            "00000000 $cinfo $cinfo",
        ),
        (Results::RESTOREFH(DONE), "00000000"),
        (Results::SAVEFH(DONE), "00000000"),
        (
            Results::SECINFO(StatusUnion::Ok(secinfo.clone())),
            "00000000 00000002 00000006 00000002 2a86 0000 00000000 00000003 00000001",
        ),
        (
            Results::SETATTR(Setattr4Res { status: Nfsstat4::NFS4ERR_PERM, attrsset: bitmap(&[0, 2]) }),
            "00000001 00000002 00000000 00000002",
        ),
        (Results::VERIFY(DONE), "00000000"),
        (
            Results::SECINFO_NO_NAME(StatusUnion::Ok(secinfo)),
            "00000000 00000002 00000006 00000002 2a86 0000 00000000 00000003 00000001",
        ),
        (
            Results::GETXATTR(StatusUnion::Ok(Getxattr4Resok { gxr_value: Opaque(b"value") })),
            "00000000 00000005 'value' 000000",
        ),
        (Results::SETXATTR(StatusUnion::Ok(Setxattr4Resok { sxr_info: CINFO })), "00000000 $cinfo"),
        (
            Results::LISTXATTRS(StatusUnion::Ok(Listxattrs4Resok {
                lxr_cookie: 2,
                lxr_names: list([NAME, Text(b"user.b")]),
                lxr_eof: true,
            })),
            "00000000 00000000 00000002 00000002 $name 00000006 'user.b' 0000 00000001",
        ),
        (Results::REMOVEXATTR(StatusUnion::Ok(Removexattr4Resok { rxr_info: CINFO })), "00000000 $cinfo"),
        (Results::ILLEGAL(StatusUnion::Fail(Nfsstat4::NFS4ERR_OP_ILLEGAL, Void)), "0000273c"),
    ]
}
