//! Operations and attributes that a server must support: a server without them differs.

use std::rc::Rc;

use nfsrdma_analysis::comparison::recorder::LocatedField;
use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::FxHashSet;

use super::attribute_relations::AttributeRelationViolation;
use super::tolerance::{attribute, is_attribute};
use crate::trace::NONE;

/// Required operations of NFSv4 as in RFC 8881 section 17, and OPEN_CONFIRM, RENEW, SETCLIENTID, SETCLIENTID_CONFIRM
/// and RELEASE_LOCKOWNER of NFSv4.0 (RFC 7530 section 16).
const REQUIRED_OPERATIONS: &[Operation] = &[
    Operation::ACCESS,
    Operation::BACKCHANNEL_CTL,
    Operation::BIND_CONN_TO_SESSION,
    Operation::CLOSE,
    Operation::COMMIT,
    Operation::CREATE,
    Operation::CREATE_SESSION,
    Operation::DESTROY_CLIENTID,
    Operation::DESTROY_SESSION,
    Operation::EXCHANGE_ID,
    Operation::FREE_STATEID,
    Operation::GETATTR,
    Operation::GETFH,
    Operation::LOCK,
    Operation::LOCKT,
    Operation::LOCKU,
    Operation::LOOKUP,
    Operation::LOOKUPP,
    Operation::NVERIFY,
    Operation::OPEN,
    Operation::OPEN_CONFIRM,
    Operation::OPEN_DOWNGRADE,
    Operation::PUTFH,
    Operation::PUTPUBFH,
    Operation::PUTROOTFH,
    Operation::READ,
    Operation::READDIR,
    Operation::RECLAIM_COMPLETE,
    Operation::RELEASE_LOCKOWNER,
    Operation::REMOVE,
    Operation::RENAME,
    Operation::RENEW,
    Operation::RESTOREFH,
    Operation::SAVEFH,
    Operation::SECINFO,
    Operation::SEQUENCE,
    Operation::SETATTR,
    Operation::SETCLIENTID,
    Operation::SETCLIENTID_CONFIRM,
    Operation::SET_SSV,
    Operation::TEST_STATEID,
    Operation::VERIFY,
    Operation::WRITE,
];

/// REQUIRED attributes. RFC 8881 section 5.1, RFC 7530 section 5.6.
const REQUIRED_ATTRIBUTES: &[&str] = &[
    "supported_attrs",
    "type",
    "fh_expire_type",
    "change",
    "size",
    "link_support",
    "symlink_support",
    "named_attr",
    "fsid",
    "unique_handles",
    "lease_time",
    "rdattr_error",
    "filehandle",
];

/// Returns the violations by a live Reply that has attributes, but lacks a REQUIRED one that the recorded Reply has.
/// Values of most are not compared. `places` are the fields of both Replies.
pub(super) fn missing_required_attributes(
    [recorded, live]: [&[LocatedField<'_>]; 2],
) -> Vec<AttributeRelationViolation> {
    let is_same_layout = || recorded.iter().zip(live).all(|(a, b)| Rc::ptr_eq(&a.path, &b.path));
    if recorded.len() == live.len() && is_same_layout() {
        return Vec::new();
    }
    let mut known = FxHashSet::default();
    let mut sections = FxHashSet::default();
    for place in live.iter().filter(|place| is_attribute(&place.path.text)) {
        sections.insert(place.section.0);
        known.insert((place.section.0, &*place.path.text));
    }
    let mut missing = Vec::new();
    for place in recorded.iter().filter(|place| is_attribute(&place.path.text)) {
        let text = &*place.path.text;
        let is_required = REQUIRED_ATTRIBUTES.contains(&attribute(text));
        // Each attribute once per operation.
        if is_required && sections.contains(&place.section.0) && known.insert((place.section.0, text)) {
            missing.push(AttributeRelationViolation {
                path: format!("{}.{text} (required)", place.section.1),
                field: place.path.field,
                object: NONE,
                values: ["returned".to_owned(), "not returned".to_owned()],
                rule: None,
            });
        }
    }
    missing
}

/// NFSv3 procedures whose errors do not include NFS3ERR_NOTSUPP, except those that are named like a required operation
/// of NFSv4. RFC 1813 section 3.3.
const REQUIRED_PROCEDURES: &[v3::Procedure] = &[
    v3::Procedure::NULL,
    v3::Procedure::MKDIR,
    v3::Procedure::RMDIR,
    v3::Procedure::FSSTAT,
    v3::Procedure::FSINFO,
    v3::Procedure::PATHCONF,
];

/// Returns `true` if the status means that a server does not support a required operation of NFS.
pub(super) fn lacks_required(operation: &str, status: &str) -> bool {
    // An unsupported attribute, operation variant or minor version is something else.
    matches!(status, "NFS4ERR_NOTSUPP" | "NFS4ERR_OP_ILLEGAL" | "NFS3ERR_NOTSUPP" | "PROC_UNAVAIL")
        && (REQUIRED_OPERATIONS.iter().any(|required| required.name() == Some(operation))
            || REQUIRED_PROCEDURES.iter().any(|required| required.name() == Some(operation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8881_section_17_a_server_must_have_read_and_may_have_no_links() {
        assert!(lacks_required("READ", "NFS4ERR_NOTSUPP") && lacks_required("WRITE", "NFS4ERR_OP_ILLEGAL"));
        assert!(
            !lacks_required("READLINK", "NFS4ERR_NOTSUPP") && !lacks_required("CLONE", "NFS4ERR_NOTSUPP")
        );
        assert!(
            !lacks_required("SETATTR", "NFS4ERR_ATTRNOTSUPP")
                && !lacks_required("READ", "NFS4ERR_MINOR_VERS_MISMATCH")
        );
    }

    #[test]
    fn rfc1813_section_3_3_a_server_may_have_no_readdirplus() {
        assert!(
            lacks_required("FSINFO", "NFS3ERR_NOTSUPP") && !lacks_required("READDIRPLUS", "NFS3ERR_NOTSUPP")
        );
    }
}
