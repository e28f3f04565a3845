//! Operations on names, filehandles and attributes. RFC 7530 section 16, RFC 8881 section 18.

use super::attributes::{Bitmap4, Fattr4};
use super::status::Nfsstat4;
use super::types::{
    ChangeInfo4, Component4, Count4, Flavor, NfsCookie4, NfsFh4, NfsFtype4, RpcGssSvcT, Specdata4, Stateid4, Verifier4,
};
use crate::xdr::{DdpText, Opaque, XdrArray, XdrLinkedList};

crate::xdr! { "nfs";
    /// Access rights of ACCESS. RFC 8881 section 18.1.1, RFC 8276 section 8.5.
    flags Access4 {
        ACCESS4_READ = 0x001, ACCESS4_LOOKUP = 0x002, ACCESS4_MODIFY = 0x004, ACCESS4_EXTEND = 0x008,
        ACCESS4_DELETE = 0x010, ACCESS4_EXECUTE = 0x020,
        ACCESS4_XAREAD = 0x040, ACCESS4_XAWRITE = 0x080, ACCESS4_XALIST = 0x100,
    }

    /// ACCESS4args. RFC 8881 section 18.1.1.
    struct Access4Args { access: Access4 => "nfs.access_check" }

    /// ACCESS4resok. RFC 8881 section 18.1.2.
    struct Access4Resok { supported: Access4 => "nfs.access_supported", access: Access4 => "nfs.access_rights" }

    /// createtype4. RFC 8881 section 18.4.1. The link text may be in a Read chunk: RFC 8267 section 6.1.
    union Createtype4<'a> switch (type: NfsFtype4 => "nfs.nfs_ftype4") {
        NF4LNK => Link(DdpText<'a>) as linkdata => "nfs.symlink.linktext",
        NF4BLK => Block(Specdata4) as devdata,
        NF4CHR => Character(Specdata4) as devdata,
        default => Other,
    }

    /// CREATE4args. RFC 8881 section 18.4.1.
    struct Create4Args<'a> {
        objtype: Createtype4<'a>,
        objname: Component4<'a> => "nfs.pathname.component",
        createattrs: Fattr4<'a>,
    }

    /// CREATE4resok. RFC 8881 section 18.4.2.
    struct Create4Resok<'a> { cinfo: ChangeInfo4, attrset: Bitmap4<'a> => "nfs.attr_mask" }

    /// GETATTR4args. RFC 8881 section 18.7.1.
    struct Getattr4Args<'a> { attr_request: Bitmap4<'a> => "nfs.attr_mask" }

    /// GETATTR4resok, and the arguments of VERIFY and NVERIFY: NVERIFY4args, VERIFY4args. RFC 8881 sections 18.7.2,
    /// 18.15.1 and 18.31.1.
    struct Getattr4Resok<'a> { obj_attributes: Fattr4<'a> }

    /// GETFH4resok and PUTFH4args. RFC 8881 sections 18.8.2 and 18.19.1.
    struct ObjectFh4<'a> { object: NfsFh4<'a> => "nfs.fhandle" }

    /// LINK4args. RFC 8881 section 18.9.1.
    struct Link4Args<'a> { newname: Component4<'a> => "nfs.pathname.component" }

    /// LINK4resok and REMOVE4resok. RFC 8881 sections 18.9.2 and 18.25.2.
    struct ChangeInfoResok4 { cinfo: ChangeInfo4 }

    /// LOOKUP4args. RFC 8881 section 18.13.1.
    struct Lookup4Args<'a> { objname: Component4<'a> => "nfs.pathname.component" }

    /// OPENATTR4args. RFC 8881 section 18.17.1.
    struct Openattr4Args { createdir: bool => "nfs.openattr4.createdir" }

    /// READDIR4args. RFC 8881 section 18.23.1.
    struct Readdir4Args<'a> {
        cookie: NfsCookie4 => "nfs.cookie4",
        cookieverf: Verifier4 => "nfs.cookie_verf4",
        dircount: Count4,
        maxcount: Count4,
        attr_request: Bitmap4<'a> => "nfs.attr_mask",
    }

    /// entry4, without the link to the next entry. RFC 8881 section 18.23.2.
    struct Entry4<'a> {
        cookie: NfsCookie4 => "nfs.cookie4",
        name: Component4<'a> => "nfs.entry_name",
        attrs: Fattr4<'a>,
    }

    /// dirlist4. RFC 8881 section 18.23.2.
    struct Dirlist4<'a> { entries: XdrLinkedList<'a, Entry4<'a>>, eof: bool => "nfs.dirlist4.eof" }

    /// READDIR4resok. RFC 8881 section 18.23.2.
    struct Readdir4Resok<'a> { cookieverf: Verifier4 => "nfs.verifier4", reply: Dirlist4<'a> }

    /// READLINK4resok. RFC 8881 section 18.24.2. The link text may be in a Write chunk: RFC 8267 section 6.1.
    struct Readlink4Resok<'a> { link: DdpText<'a> => "nfs.symlink.linktext" }

    /// REMOVE4args. RFC 8881 section 18.25.1.
    struct Remove4Args<'a> { target: Component4<'a> => "nfs.pathname.component" }

    /// RENAME4args. RFC 8881 section 18.26.1.
    struct Rename4Args<'a> {
        oldname: Component4<'a> => "nfs.pathname.component",
        newname: Component4<'a> => "nfs.pathname.component",
    }

    /// RENAME4resok. RFC 8881 section 18.26.2.
    struct Rename4Resok { source_cinfo: ChangeInfo4, target_cinfo: ChangeInfo4 }

    /// SECINFO4args. RFC 8881 section 18.29.1.
    struct Secinfo4Args<'a> { name: Component4<'a> => "nfs.pathname.component" }

    /// rpcsec_gss_info. RFC 8881 section 18.29.2.
    struct RpcsecGssInfo<'a> {
        oid: Opaque<'a> => "nfs.secinfo.flavor_info.rpcsec_gss_info.oid",
        qop: u32 => "nfs.secinfo.flavor_info.rpcsec_gss_info.qop",
        service: RpcGssSvcT => "nfs.secinfo.rpcsec_gss_info.service",
    }

    /// secinfo4. RFC 8881 section 18.29.2.
    union Secinfo4<'a> switch (flavor: Flavor => "nfs.secinfo.flavor") {
        RPCSEC_GSS => RpcsecGss(RpcsecGssInfo<'a>) as flavor_info,
        default => Other,
    }

    /// SECINFO4resok. RFC 8881 section 18.29.2.
    struct Secinfo4Resok<'a> { resok4: XdrArray<'a, Secinfo4<'a>> => "nfs.flavors.info" }

    /// secinfo_style4. RFC 8881 section 18.45.1.
    enum SecinfoStyle4 { SECINFO_STYLE4_CURRENT_FH = 0, SECINFO_STYLE4_PARENT = 1 }

    /// SECINFO_NO_NAME4args, which is a secinfo_style4. RFC 8881 section 18.45.1.
    struct SecinfoNoName4Args { style: SecinfoStyle4 => "nfs.secinfo.style" }

    /// SETATTR4args. RFC 8881 section 18.30.1.
    struct Setattr4Args<'a> { stateid: Stateid4, obj_attributes: Fattr4<'a> }

    /// SETATTR4res, which returns the attributes set, whatever the status. RFC 8881 section 18.30.2.
    struct Setattr4Res<'a> { status: Nfsstat4 => "nfs.nfsstat4", attrsset: Bitmap4<'a> => "nfs.attr_mask" }
}

impl Setattr4Res<'_> {
    /// Returns the status.
    pub fn status(&self) -> Nfsstat4 {
        self.status
    }
}
