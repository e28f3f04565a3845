//! Single bits of masks, under the names that Wireshark has for them.

use super::{Alias, Part};

/// What the names begin with, the fields that have the mask, where it is defined, and each bit with the end of its name.
macro_rules! bits {
    ($($start:literal in $of:expr, $source:literal { $($bit:literal $end:literal),+ })*) => {
        /// The fields that stand for single bits of others.
        pub const BITS: &[Alias] = &[$($(Alias {
            name: concat!($start, $end),
            of: &$of,
            part: Part::Bit($bit),
            about: concat!("Whether the bit ", stringify!($bit), " is set"),
            source: $source,
        },)+)*];
    };
}

bits! {
    "nfs.access_" in ["nfs.access_check", "nfs.access_rights"], "RFC 1813 section 3.3.4, RFC 8881 section 18.1, RFC 8276 section 8.5" {
        0x001 "read", 0x002 "lookup", 0x004 "modify", 0x008 "extend", 0x010 "delete", 0x020 "execute",
        0x040 "xattr_read", 0x080 "xattr_write", 0x100 "xattr_list"
    }
    "nfs.access_supp_" in ["nfs.access_supported"], "RFC 8881 section 18.1.2, RFC 8276 section 8.5" {
        0x001 "read", 0x002 "lookup", 0x004 "modify", 0x008 "extend", 0x010 "delete", 0x020 "execute",
        0x040 "xattr_read", 0x080 "xattr_write", 0x100 "xattr_list"
    }
    "nfs.aceflag4." in ["nfs.aceflags4"], "RFC 8881 section 6.2.1.4" {
        0x01 "file_inherit", 0x02 "dir_inherit", 0x04 "no_prop_inherit", 0x08 "inherit_only",
        0x10 "successful_access", 0x20 "failed_access", 0x40 "id_group", 0x80 "inherited_ace"
    }
    "nfs.acl.flags." in ["nfs.acl.flags"], "RFC 8881 section 6.4.3.2" {
        0x1 "auto_inherit", 0x2 "protected", 0x4 "defaulted"
    }
    "nfs.create_session.flags." in ["nfs.create_session_flags"], "RFC 8881 section 18.36" {
        0x1 "persist", 0x2 "conn_back_chan", 0x4 "conn_rdma"
    }
    "nfs.exchange_id.flags." in ["nfs.exchange_id.call_flags", "nfs.exchange_id.reply_flags"], "RFC 8881 section 18.35" {
        0x0000_0001 "moved_refer", 0x0000_0002 "moved_migr", 0x0000_0100 "bind_princ",
        0x0001_0000 "non_pnfs", 0x0002_0000 "pnfs_mds", 0x0004_0000 "pnfs_ds",
        0x4000_0000 "confirmed_rec_a", 0x8000_0000 "confirmed_r"
    }
    "nfs.fattr4.aclsupport." in ["nfs.fattr4.aclsupport"], "RFC 8881 section 6.2.1.2" {
        0x1 "allow_acl", 0x2 "deny_acl", 0x4 "audit_acl", 0x8 "alarm_acl"
    }
    "nfs.fattr4.fs_charset_cap." in ["nfs.fattr4.fs_charset_cap"], "RFC 8881 section 14.4" {
        0x1 "nonutf8", 0x2 "utf8"
    }
    "nfs.fsinfo.properties." in ["nfs.fsinfo.properties"], "RFC 1813 section 3.3.19" {
        0x01 "hardlinks", 0x02 "symlinks", 0x08 "pathconf", 0x10 "setattr"
    }
    "nfs.mode." in ["nfs.mode"], "RFC 1094 section 2.3.5, RFC 8881 section 6.2.4" {
        0o4000 "set_user_id", 0o2000 "set_group_id", 0o1000 "save_swap_text", 0o400 "read_owner",
        0o200 "write_owner", 0o100 "exec_owner", 0o040 "read_group", 0o020 "write_group",
        0o010 "exec_group", 0o004 "read_other", 0o002 "write_other", 0o001 "exec_other"
    }
    "nfs.mode3." in ["nfs.mode3"], "RFC 1813 section 2.5" {
        0o4000 "suid", 0o2000 "sgid", 0o1000 "sticky", 0o400 "rusr", 0o200 "wusr", 0o100 "xusr",
        0o040 "rgrp", 0o020 "wgrp", 0o010 "xgrp", 0o004 "roth", 0o002 "woth", 0o001 "xoth"
    }
    "nfs.open_rflags." in ["nfs.open_rflags"], "RFC 8881 section 18.16.2" {
        0x02 "confirm", 0x04 "locktype_posix", 0x08 "preserve_unlinked", 0x20 "may_notify_lock"
    }
    "nfs.sequence.flags." in ["nfs.sequence.flags"], "RFC 8881 section 18.46.2" {
        0x0001 "cb_path_down", 0x0002 "cb_gss_contexts_expiring", 0x0004 "cb_gss_contexts_expired",
        0x0008 "expired_all_state_revoked", 0x0010 "expired_some_state_revoked",
        0x0020 "admin_state_revoked", 0x0040 "recallable_state_revoked", 0x0080 "lease_moved",
        0x0100 "restart_reclaim_needed", 0x0200 "cb_path_down_session", 0x0400 "backchannel_fault",
        0x0800 "devid_changed", 0x1000 "devid_deleted"
    }
}
