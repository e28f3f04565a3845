//! Extended attributes. RFC 8276.

use super::types::{ChangeInfo4, Component4, Count4, NfsCookie4};
use crate::xdr::{Opaque, XdrArray};

crate::xdr! { "nfs";
    /// GETXATTR4args. RFC 8276 section 8.4.1.1.
    struct Getxattr4Args<'a> { gxa_name: Component4<'a> => "nfs.xattr.key" }

    /// GETXATTR4res, on success. RFC 8276 section 8.4.1.2. The value is never in its own chunk.
    struct Getxattr4Resok<'a> { gxr_value: Opaque<'a> => "nfs.data" }

    /// setxattr_option4. RFC 8276 section 8.4.2.1.
    enum SetxattrOption4 { SETXATTR4_EITHER = 0, SETXATTR4_CREATE = 1, SETXATTR4_REPLACE = 2 }

    /// SETXATTR4args. RFC 8276 section 8.4.2.1.
    struct Setxattr4Args<'a> {
        sxa_option: SetxattrOption4 => "nfs.setxattr.options",
        sxa_key: Component4<'a> => "nfs.xattr.key",
        sxa_value: Opaque<'a> => "nfs.data",
    }

    /// SETXATTR4res, on success. RFC 8276 section 8.4.2.2.
    struct Setxattr4Resok { sxr_info: ChangeInfo4 }

    /// LISTXATTRS4args. RFC 8276 section 8.4.3.1.
    struct Listxattrs4Args {
        lxa_cookie: NfsCookie4 => "nfs.lisxtattr.cookie",
        lxa_maxcount: Count4 => "nfs.lisxtattr.maxcount",
    }

    /// LISTXATTRS4resok. RFC 8276 section 8.4.3.2.
    struct Listxattrs4Resok<'a> {
        lxr_cookie: NfsCookie4 => "nfs.lisxtattr.cookie",
        lxr_names: XdrArray<'a, Component4<'a>> => "nfs.xattr.key",
        lxr_eof: bool => "nfs.lisxtattr.eof",
    }

    /// REMOVEXATTR4args. RFC 8276 section 8.4.4.1.
    struct Removexattr4Args<'a> { rxa_name: Component4<'a> => "nfs.xattr.key" }

    /// REMOVEXATTR4res, on success. RFC 8276 section 8.4.4.2.
    struct Removexattr4Resok { rxr_info: ChangeInfo4 }
}
