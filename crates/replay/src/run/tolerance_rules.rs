//! Table of the rules by which a difference of a live Reply from the recorded one is tolerated.
//!
//! A field without a rule must be as recorded, unless no comparison includes it
//! ([`field_equality`](nfsrdma_analysis::comparison::field_equality)). `--strict` turns the rules off, `--without`
//! single ones; a [file of rules](mod@file) adds others, which may be [inferred](inference).

pub mod file;
pub mod inference;

use nfsrdma_analysis::comparison::field_path_text::{has_label, is_within};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{Operation, SequenceStatusFlags};
use nfsrdma_dissectors::nfs::{mount, rpcbind, v3, v4};

/// Rule that tolerates a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuiltInToleranceRule {
    /// Name in reports and in files of rules.
    pub name: &'static str,
    /// Justification.
    pub reason: &'static str,
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $rule:ident = $name:literal, $reason:literal;)*) => {
        $($(#[doc = $doc])+ pub const $rule: BuiltInToleranceRule = BuiltInToleranceRule { name: $name, reason: $reason };)*

        /// All rules.
        pub const ALL: &[BuiltInToleranceRule] = &[$($rule),*];
    };
}

rules! {
    /// Results of CREATE_SESSION.
    SESSION_LIMITS = "session-limits", "slots and sizes depend on the resources of the server";
    /// Results of EXCHANGE_ID.
    SERVER_IDENTITY = "server-identity", "the identity of the server";
    /// Capabilities of a file system.
    CAPABILITIES = "capabilities", "capabilities and limits depend on the file system";
    /// Attributes that the live server never returns.
    ATTRIBUTES_OFFERED = "attributes-offered", "an attribute that only one of the two servers supports";
    /// Flavors in SECINFO and MNT.
    SECURITY_FLAVORS = "security-flavors", "security flavors are configured on the server";
    /// Delegations.
    DELEGATION = "delegation", "a server need not grant a delegation (RFC 8881 section 10.4)";
    /// rflags of OPEN.
    OPEN_FLAGS = "open-flags", "the server chooses its lock type and whether an open needs confirmation";
    /// Size and link count of a directory.
    DIRECTORY_SIZE = "directory-size", "size and link count of a directory depend on the file system";
    /// Link count of an object whose name was not captured.
    NAMELESS_LINKS = "nameless-links", "an object without a captured name has a name of its own in the run, and one with too many links has fewer";
    /// Access control lists.
    ACL = "acl", "the ACL that results from a mode depends on the file system";
    /// Owners as text.
    OWNER = "owner", "owners are mapped by each server (RFC 8881 section 5.9)";
    /// rdev of objects that are not devices.
    RAWDEV = "rawdev", "device numbers of objects that are not devices";
    /// `atomic` of change_info4.
    ATOMIC = "atomic", "a server may report changes atomically or not";
    /// Rights supported by ACCESS.
    ACCESS_SUPPORTED = "access-supported", "a server may support other access rights";
    /// attrset of OPEN and CREATE.
    ATTRSET = "attrset", "servers report differently which attributes they set";
    /// Mode of a file that was created exclusively.
    EXCLUSIVE_CREATE = "exclusive-create", "a file that is created exclusively has the server's mode until one is set";
    /// Rights of root to change an object.
    READ_ONLY_EXPORT = "read-only-export", "root was read-only or squashed in the capture, but not here";
    /// sr_status_flags.
    STATUS_FLAGS = "status-flags", "status flags report callback paths, moved leases and, after a restart, lost state";
    /// Mode of COPY.
    COPY_MODE = "copy-mode", "a server may copy synchronously or asynchronously";
    /// Data that is more stable than requested.
    COMMITTED = "committed", "a server may commit data more safely than requested (RFC 8881 section 18.32.3)";
    /// Segments of READ_PLUS.
    SEGMENTS = "segments", "the file system chooses where holes are; the data was equal";
    /// Post-operation attributes of NFSv3.
    POST_OP = "post-op-attributes", "attributes after an operation are optional (RFC 1813 section 2.6)";
    /// Another error for the same refusal.
    SAME_REFUSAL = "same-refusal", "another status with the same meaning";
    /// Listings in progress.
    LISTING = "listing", "a listing is divided into other replies";
    /// Rights of another user.
    CREDENTIALS = "credentials", "the capture had RPCSEC_GSS, and the run has AUTH_SYS as root";
    /// NFS4ERR_NOSPC and similar.
    ROOM = "room", "free and total space depend on the file system";
    /// Files that an earlier step left in another state.
    AFTER = "after-difference", "the file differs because of an earlier step, or because of data that the capture lacks";
    /// Change attributes after reads.
    ACCESS_TIME = "access-time", "a server may count updates of the access time in the change attribute";
    /// NFS4ERR_DELAY and NFS4ERR_GRACE.
    DELAYED = "delayed", "one of the two servers asked for a retry";
}

/// Returns the rule of a field in a Reply, by the name of its operation and its path of RFC names.
pub(super) fn rule_of_field(operation: &str, path: &str, field: &str) -> Option<BuiltInToleranceRule> {
    let operation_rule = match v4::Operation::from_name(operation) {
        Some(operation) => rule_of_v4(operation, path),
        None => rule_of_procedure(operation, path),
    };
    operation_rule
        .or_else(|| path.rsplit_once('.').is_some_and(|(_, leaf)| leaf == field_labels::ATOMIC).then_some(ATOMIC))
        .or_else(|| rule_of_attribute(path, field))
}

/// Returns the rule of results of an operation of NFSv4, or of the procedure of NFSv3 with the same name.
fn rule_of_v4(operation: v4::Operation, path: &str) -> Option<BuiltInToleranceRule> {
    use v4::Operation as Op;
    let is_status = path == field_labels::STATUS;
    Some(match operation {
        Op::CREATE_SESSION if !is_status && path != field_labels::CSR_SESSIONID => SESSION_LIMITS,
        Op::EXCHANGE_ID | Op::SETCLIENTID if !is_status => SERVER_IDENTITY,
        Op::SECINFO | Op::SECINFO_NO_NAME if !is_status => SECURITY_FLAVORS,
        Op::OPEN if is_within(path, field_labels::DELEGATION) => DELEGATION,
        Op::GET_DIR_DELEGATION | Op::WANT_DELEGATION if !is_status => DELEGATION,
        Op::OPEN if path == field_labels::RFLAGS => OPEN_FLAGS,
        Op::ACCESS if path == field_labels::SUPPORTED => ACCESS_SUPPORTED,
        Op::OPEN | Op::CREATE | Op::SETATTR
            if has_label(path, field_labels::ATTRSET) || path == field_labels::ATTRSSET =>
        {
            ATTRSET
        }
        Op::SEQUENCE if path == field_labels::SR_STATUS_FLAGS => STATUS_FLAGS,
        Op::COPY if is_copy_mode(path) => COPY_MODE,
        Op::READ_PLUS if path != field_labels::DATA && has_label(path, field_labels::RPR_CONTENTS) => SEGMENTS,
        _ => return None,
    })
}

/// Returns the rule of results of a procedure of NFSv3 or an auxiliary program.
fn rule_of_procedure(name: &str, path: &str) -> Option<BuiltInToleranceRule> {
    use mount::v3::Procedure as Mount;
    use rpcbind::v4::Procedure as Rpcbind;
    use v3::Procedure as Nfs;
    let is_status = path == field_labels::STATUS;
    let is_address = rpcbind::v2::Procedure::from_name(name) == Some(rpcbind::v2::Procedure::GETPORT)
        || matches!(Rpcbind::from_name(name), Some(Rpcbind::GETADDR | Rpcbind::GETADDRLIST));
    Some(match (Nfs::from_name(name), Mount::from_name(name)) {
        (Some(Nfs::FSINFO | Nfs::PATHCONF | Nfs::FSSTAT), _)
            if !is_status && !has_label(path, field_labels::OBJ_ATTRIBUTES) =>
        {
            CAPABILITIES
        }
        (_, Some(Mount::MNT)) if has_label(path, field_labels::AUTH_FLAVORS) => SECURITY_FLAVORS,
        // Exports with their permissions, and addresses of programs.
        (_, Some(Mount::EXPORT | Mount::DUMP)) if !is_status => SERVER_IDENTITY,
        _ if is_address && !is_status => SERVER_IDENTITY,
        _ => return None,
    })
}

fn is_copy_mode(path: &str) -> bool {
    [field_labels::CR_CONSECUTIVE, field_labels::CR_SYNCHRONOUS, field_labels::WR_CALLBACK_ID]
        .iter()
        .any(|label| has_label(path, label))
}

/// Returns `true` for a field within an attribute with one of these labels. NFSACL has fields of the same label, which
/// are at the start of the path.
fn is_within_attribute(path: &str, labels: &[&str]) -> bool {
    path.split_once('.').is_some_and(|(_, below)| labels.iter().any(|label| is_within(below, label)))
}

fn rule_of_attribute(path: &str, field: &str) -> Option<BuiltInToleranceRule> {
    let leaf = path.rsplit('.').next().unwrap_or_default();
    Some(match field {
        _ if is_within(path, field_labels::OPEN_ARGUMENTS) => CAPABILITIES,
        // The ACL of an object or of a directory entry.
        _ if is_within_attribute(path, &[field_labels::ACL, field_labels::DACL, field_labels::SACL]) => ACL,
        // NFSACL, the companion protocol of NFSv3.
        field_names::NFSACL_DFACLCNT => ACL,
        _ if field.starts_with(field_names::NFSACL_ACL) => ACL,
        field_names::NFS_SPECDATA1 | field_names::NFS_SPECDATA2 => RAWDEV,
        field_names::NFS_FATTR4_OWNER | field_names::NFS_FATTR4_OWNER_GROUP => OWNER,
        _ if CAPABILITY_ATTRIBUTES.contains(&leaf) => CAPABILITIES,
        _ => return None,
    })
}

/// Attributes that describe capabilities of a file system. RFC 8881 section 5.
const CAPABILITY_ATTRIBUTES: &[&str] = &[
    field_labels::SUPPORTED_ATTRS,
    field_labels::SUPPATTR_EXCLCREAT,
    field_labels::FH_EXPIRE_TYPE,
    field_labels::LINK_SUPPORT,
    field_labels::SYMLINK_SUPPORT,
    field_labels::NAMED_ATTR,
    field_labels::UNIQUE_HANDLES,
    field_labels::ACLSUPPORT,
    field_labels::ARCHIVE,
    field_labels::CANSETTIME,
    field_labels::CASE_INSENSITIVE,
    field_labels::CASE_PRESERVING,
    field_labels::CHOWN_RESTRICTED,
    field_labels::HOMOGENEOUS,
    field_labels::MAXFILESIZE,
    field_labels::MAXLINK,
    field_labels::MAXNAME,
    field_labels::MAXREAD,
    field_labels::MAXWRITE,
    field_labels::NO_TRUNC,
    field_labels::CHANGE_ATTR_TYPE,
    field_labels::CLONE_BLKSIZE,
    field_labels::LAYOUT_BLKSIZE,
    field_labels::LAYOUT_ALIGNMENT,
    field_labels::FS_LAYOUT_TYPES,
    field_labels::FS_CHARSET_CAP,
    field_labels::XATTR_SUPPORT,
    field_labels::CHANGE_POLICY,
    field_labels::FS_STATUS,
    field_labels::RETENTION_GET,
    field_labels::SEC_LABEL,
    field_labels::TIME_DELTA,
];

/// Returns `true` if two statuses of an operation are the same refusal for a client.
///
/// A client drops a name after NFS4ERR_NOENT and the directory after NFS4ERR_STALE, so that these are the same only for
/// operations without a name. RFC 8881 section 15.4 allows NFS4ERR_EXIST and NFS4ERR_NOTEMPTY only where a name is
/// replaced or removed.
pub(super) fn is_same_refusal(operation: &str, recorded: &str, live: &str) -> bool {
    let mut pair = [recorded, live].map(|status| status.split_once("ERR_").map_or("", |(_, name)| name));
    pair.sort_unstable();
    match pair {
        ["ACCES" | "ACCESS", "PERM"] => true,
        ["NOENT", "STALE"] => !has_name(operation),
        ["EXIST", "NOTEMPTY"] => {
            use v3::Procedure as Nfs3;
            matches!(v4::Operation::from_name(operation), Some(v4::Operation::REMOVE | v4::Operation::RENAME))
                || Nfs3::from_name(operation) == Some(Nfs3::RMDIR)
        }
        ["NOENT", "NOXATTR"] => {
            use v4::Operation as Op;
            matches!(Op::from_name(operation), Some(Op::GETXATTR | Op::SETXATTR | Op::REMOVEXATTR))
        }
        _ => false,
    }
}

fn has_name(operation: &str) -> bool {
    use Operation as Op;
    use v3::Procedure as Nfs;
    matches!(
        Op::from_name(operation),
        Some(Op::LOOKUP | Op::OPEN | Op::CREATE | Op::REMOVE | Op::RENAME | Op::LINK | Op::SECINFO)
    ) || matches!(Nfs::from_name(operation), Some(Nfs::MKDIR | Nfs::SYMLINK | Nfs::MKNOD | Nfs::RMDIR))
}

/// Returns `true` if a status asks for a retry. RFC 1813 sections 2.6, 6.1.4, RFC 8881 sections 15.1.1.3,
/// 15.1.9.2.
pub(super) fn is_delay(status: &str) -> bool {
    [
        enumerator_names::NFS4ERR_DELAY,
        enumerator_names::NFS4ERR_GRACE,
        enumerator_names::NFS3ERR_JUKEBOX,
        enumerator_names::LCK_DENIED_GRACE_PERIOD,
        enumerator_names::NLM4_DENIED_GRACE_PERIOD,
    ]
    .contains(&status)
}

/// Flags for the callback path, and for leases that moved to another server. RFC 8881 section 18.46.3.
const EVENT_STATUS_FLAGS: u32 = SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN.0
    | SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN_SESSION.0
    | SequenceStatusFlags::SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING.0
    | SequenceStatusFlags::SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED.0
    | SequenceStatusFlags::SEQ4_STATUS_BACKCHANNEL_FAULT.0
    | SequenceStatusFlags::SEQ4_STATUS_LEASE_MOVED.0;

/// Returns `true` if a server may report these status flags where the recorded one reported others. `lost_state` is
/// `true` if the run's server has restarted or ended a lease. RFC 8881 section 18.46.3.
pub(super) fn may_report_status_flags([recorded, live]: [u64; 2], lost_state: bool) -> bool {
    lost_state || live & !recorded & !u64::from(EVENT_STATUS_FLAGS) == 0
}

/// Returns `true` if a status means that there is no space, which another file system may have.
pub(super) fn is_no_space(status: &str) -> bool {
    let name = status.strip_prefix("NFS4ERR_").or(status.strip_prefix("NFS3ERR_"));
    matches!(name, Some("NOSPC" | "DQUOT" | "FBIG"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_data_and_names_have_no_rule() {
        for (operation, path, field) in [
            ("CREATE_SESSION", "status", "nfs.nfsstat4"),
            ("READ", "data", "nfs.data"),
            ("READ", "eof", "nfs.eof"),
            ("GETATTR", "obj_attributes.size", "nfs.fattr4.size"),
            ("GETATTR", "obj_attributes.mode", "nfs.mode"),
            ("READDIR", "reply.entries.name", "nfs.entry_name"),
            ("WRITE", "count", "nfs.count4"),
        ] {
            assert_eq!(rule_of_field(operation, path, field), None, "{operation} {path}");
        }
    }

    #[test]
    fn fields_that_a_server_decides_have_a_rule() {
        assert_eq!(rule_of_field("OPEN", "delegation.delegation_type", ""), Some(DELEGATION));
        assert_eq!(rule_of_field("GETATTR", "obj_attributes.maxread", ""), Some(CAPABILITIES));
        assert_eq!(rule_of_field("GETATTR", "obj_attributes.acl.who", "nfs.who"), Some(ACL));
        assert_eq!(rule_of_field("GETACL", "acl.mask", "nfsacl.mask"), None);
        assert_eq!(rule_of_field("REMOVE", "cinfo.atomic", ""), Some(ATOMIC));
    }

    #[test]
    fn rfc8881_section_15_4_another_refusal_is_the_same_only_for_some_operations() {
        for (operation, one, other, is_same) in [
            ("SETATTR", "NFS4ERR_PERM", "NFS4ERR_ACCESS", true),
            ("SETATTR", "NFS3ERR_ACCES", "NFS3ERR_PERM", true),
            ("LOOKUP", "NFS4ERR_NOENT", "NFS4ERR_STALE", false),
            ("LOOKUP", "NFS3ERR_STALE", "NFS3ERR_NOENT", false),
            ("MKDIR", "NFS3ERR_STALE", "NFS3ERR_NOENT", false),
            ("GETATTR", "NFS4ERR_NOENT", "NFS4ERR_STALE", true),
            ("CREATE", "NFS4ERR_EXIST", "NFS4ERR_NOTEMPTY", false),
            ("MKDIR", "NFS3ERR_EXIST", "NFS3ERR_NOTEMPTY", false),
            ("RMDIR", "NFS3ERR_EXIST", "NFS3ERR_NOTEMPTY", true),
            ("RENAME", "NFS4ERR_NOTEMPTY", "NFS4ERR_EXIST", true),
            ("GETXATTR", "NFS4ERR_NOXATTR", "NFS4ERR_NOENT", true),
            ("LOOKUP", "NFS4ERR_NOXATTR", "NFS4ERR_NOENT", false),
            ("READ", "NFS4ERR_IO", "NFS4ERR_NOENT", false),
        ] {
            assert_eq!(is_same_refusal(operation, one, other), is_same, "{operation} {one} {other}");
        }
    }

    /// The ACL that results from a mode depends on the file system; SETACL's status and GETACL's attributes do not.
    #[test]
    fn entries_of_nfsacl_have_the_rule_of_acls() {
        for field in ["nfsacl.acl", "nfsacl.aclcnt", "nfsacl.aclent", "nfsacl.aclent.perm", "nfsacl.dfaclcnt"] {
            assert_eq!(rule_of_field("GETACL", "resok.acl", field), Some(ACL), "{field}");
        }
        for (operation, path, field) in [
            ("GETACL", "status", "nfs.nfsstat3"),
            ("SETACL", "status", "nfs.nfsstat3"),
            ("GETACL", "resok.attr.size", "nfs.fattr3.size"),
            ("GETACL", "resok.mask", "nfsacl.mask"),
        ] {
            assert_eq!(rule_of_field(operation, path, field), None, "{operation} {path}");
        }
    }

    #[test]
    fn rfc8881_section_18_46_3_revoked_state_is_reported_only_after_a_loss() {
        // CB_PATH_DOWN, CB_GSS_CONTEXTS_EXPIRING, CB_GSS_CONTEXTS_EXPIRED, LEASE_MOVED, CB_PATH_DOWN_SESSION and
        // BACKCHANNEL_FAULT.
        for event in [0x1, 0x2, 0x4, 0x80, 0x200, 0x400] {
            assert!(may_report_status_flags([0, event], false), "{event:#x}");
        }
        // EXPIRED_ALL_STATE_REVOKED, EXPIRED_SOME_STATE_REVOKED, ADMIN_STATE_REVOKED, RECALLABLE_STATE_REVOKED,
        // RESTART_RECLAIM_NEEDED, DEVID_CHANGED, DEVID_DELETED and a bit that is not defined.
        for lost in [0x8, 0x10, 0x20, 0x40, 0x100, 0x800, 0x1000, 0x8000_0000] {
            assert!(!may_report_status_flags([0, lost | 1], false), "{lost:#x}");
            assert!(may_report_status_flags([lost, lost | 1], false) && may_report_status_flags([lost, 0], false));
            assert!(may_report_status_flags([0, lost], true));
        }
    }

    #[test]
    fn the_document_has_every_rule() {
        let document = include_str!("../../../../docs/replay.md");
        for BuiltInToleranceRule { name, reason } in ALL {
            assert!(document.contains(&format!("| `{name}` | {reason} |")), "{name}");
        }
    }

    #[test]
    fn names_of_rules_are_all_different() {
        for (at, rule) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(at + 1).all(|other| other.name != rule.name), "{}", rule.name);
        }
    }
}
