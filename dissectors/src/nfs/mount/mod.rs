//! MOUNT, which returns the root filehandle of exports, for NFSv2 (versions 1 and 2) and NFSv3 (version 3). RFC 1094
//! appendix A and RFC 1813 section 5.
//!
//! Types common to all versions have the names of RFC 1813.

pub mod v1;
pub mod v2;
pub mod v3;

use crate::nfs::v2::Fhandle;
use crate::nfs::v3::NfsFh3;
use crate::xdr::{Text, XdrArray, XdrLinkedList};

/// dirpath: path of a directory on the server. RFC 1813 section 5.1.4.
pub type Dirpath<'a> = Text<'a, 1024>;

/// name: name of a host or group. RFC 1813 section 5.1.4.
pub type HostOrGroupName<'a> = Text<'a, 255>;

crate::xdr! { "mount";
    /// The status of fhstatus: 0, or a UNIX error number; only portable numbers have names here. RFC 1094 section
    /// A.4.2.
    open_enum FhstatusCode {
        /// Name from RFC 1813 section 5.2.1.
        MNT_OK = 0,
        EPERM = 1,
        ENOENT = 2,
        EIO = 5,
        EACCES = 13,
        ENOTDIR = 20,
        EINVAL = 22,
    }

    /// mountstat3. RFC 1813 section 5.1.5.
    enum Mountstat3 {
        MNT3_OK = 0,
        MNT3ERR_PERM = 1,
        MNT3ERR_NOENT = 2,
        MNT3ERR_IO = 5,
        MNT3ERR_ACCES = 13,
        MNT3ERR_NOTDIR = 20,
        MNT3ERR_INVAL = 22,
        MNT3ERR_NAMETOOLONG = 63,
        MNT3ERR_NOTSUPP = 10004,
        MNT3ERR_SERVERFAULT = 10006,
    }

    /// Authentication flavors of a server: those of RPC (RFC 5531 section 8.2), and pseudo flavors, each for a
    /// mechanism and a service of RPCSEC_GSS (RFC 7530 section 3.2.1.1).
    open_enum MountAuthFlavor {
        AUTH_NONE = 0,
        AUTH_SYS = 1,
        AUTH_SHORT = 2,
        AUTH_DH = 3,
        RPCSEC_GSS = 6,
        /// RFC 9289 section 4.1.
        AUTH_TLS = 7,
        RPCSEC_GSS_KRB5 = 390003,
        RPCSEC_GSS_KRB5I = 390004,
        RPCSEC_GSS_KRB5P = 390005,
    }

    /// The directory of MNT, UMNT and PATHCONF. RFC 1813 sections 5.2.1 and 5.2.3.
    struct DirpathArgs<'a> { dirpath: Dirpath<'a> => "mount.path" }

    /// The directory of fhstatus. RFC 1094 section A.4.2.
    struct FhstatusDirectory { directory: Fhandle => "nfs.fhandle" }

    /// mountres3_ok. RFC 1813 section 5.2.1.
    struct Mountres3Ok<'a> {
        fhandle: NfsFh3<'a> => "nfs.fhandle",
        auth_flavors: XdrArray<'a, MountAuthFlavor> => "mount.flavor",
    }

    /// mountlist. RFC 1813 section 5.2.2.
    struct Mountlist<'a> { mountlist: XdrLinkedList<'a, Mountbody<'a>> => "mount.dump.entry" }

    /// mountbody: a client and the directory that it mounted. RFC 1813 section 5.2.2.
    struct Mountbody<'a> {
        ml_hostname: HostOrGroupName<'a> => "mount.dump.hostname",
        ml_directory: Dirpath<'a> => "mount.dump.directory",
    }

    /// exports. RFC 1813 section 5.2.5.
    struct MountExports<'a> { exports: XdrLinkedList<'a, Exportnode<'a>> => "mount.export.entry" }

    /// exportnode: a file system, and the groups allowed to mount it. RFC 1813 section 5.2.5.
    struct Exportnode<'a> {
        ex_dir: Dirpath<'a> => "mount.export.directory",
        ex_groups: XdrLinkedList<'a, Groupnode<'a>> => "mount.export.groups",
    }

    /// groupnode. RFC 1813 section 5.2.5.
    struct Groupnode<'a> { gr_name: HostOrGroupName<'a> => "mount.export.group" }

    /// ppathcnf: the pathconf(2) values of the file system. Part of the protocol of version 2, but of no RFC. Each
    /// short and each char takes four bytes.
    struct Ppathcnf {
        pc_link_max: i32 => "mount.pathconf.link_max",
        pc_max_canon: i32 => "mount.pathconf.max_canon",
        pc_max_input: i32 => "mount.pathconf.max_input",
        pc_name_max: i32 => "mount.pathconf.name_max",
        pc_path_max: i32 => "mount.pathconf.path_max",
        pc_pipe_buf: i32 => "mount.pathconf.pipe_buf",
        pc_vdisable: u32 => "mount.pathconf.vdisable_char",
        /// Padding.
        pc_xxx: u32,
        /// Mask of the invalid values above, and two boolean values.
        pc_mask: [PcMask; 2] => "mount.pathconf.mask",
    }

    /// The bits of pc_mask: bit `n` represents `_PC_n` of pathconf(2).
    flags PcMask {
        PC_ERROR_ALL = 0x001,
        PC_ERROR_LINK_MAX = 0x002,
        PC_ERROR_MAX_CANON = 0x004,
        PC_ERROR_MAX_INPUT = 0x008,
        PC_ERROR_NAME_MAX = 0x010,
        PC_ERROR_PATH_MAX = 0x020,
        PC_ERROR_PIPE_BUF = 0x040,
        PC_CHOWN_RESTRICTED = 0x080,
        PC_NO_TRUNC = 0x100,
        PC_ERROR_VDISABLE = 0x200,
    }
}

#[cfg(test)]
pub(super) mod tests;
