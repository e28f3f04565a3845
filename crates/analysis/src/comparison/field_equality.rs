//! The table of equality requirements of fields.
//!
//! A field without a rule must be equal, so operations of every program are compared, also those described later. An
//! identity, or a value that the server may choose, needs one more rule. `docs/comparison.md` shows the table, and a
//! test compares the two.

use std::sync::LazyLock;

use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use rustc_hash::FxHashMap;

use super::difference::{DifferenceKind, enum_with_words};
use super::field_path_text;

/// Equality requirement of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldEqualityRequirement {
    /// Must be equal; otherwise it is a difference of this kind.
    Equal(DifferenceKind),
    /// Must be equal unless another operation was in flight at the same time, whose progress it may show.
    Racing(DifferenceKind),
    /// Must be equal unless only one side uses RDMA.
    TransportDependent(DifferenceKind),
    /// Names an object. Each side has its own names, which must map one to one.
    Identity(MappedIdentifierType),
    /// May differ, for this reason.
    Varies(&'static str),
}

impl FieldEqualityRequirement {
    /// Returns `true` for names, offsets and counts, which tell what a Call is about.
    pub(crate) fn is_subject(self) -> bool {
        matches!(self, Self::Equal(DifferenceKind::Name | DifferenceKind::Offset | DifferenceKind::Count))
    }
}

enum_with_words! {
    /// Type of an identity. Each type has its own identity map.
    MappedIdentifierType;
    /// A file system object.
    Filehandle = "filehandle";
    /// Opens, locks, delegations and layouts: the `other` of a stateid.
    Stateid = "stateid";
    /// A client ID that the server assigned.
    Clientid = "clientid";
    /// A session.
    Session = "session";
    /// A position in a directory.
    Cookie = "cookie";
    /// A verifier that changes when a server or client restarts, or that distinguishes two creations of one name.
    Verifier = "verifier";
    /// An open-owner or lock-owner.
    Owner = "owner";
    /// The owner string of a client.
    ClientOwner = "client-owner";
    /// The owner string of a server.
    ServerOwner = "server-owner";
    /// The name or address of a host in a message.
    Host = "host";
    /// A program number that a client picks.
    Program = "program";
    /// A security context.
    Context = "context";
    /// A pNFS device.
    Device = "device";
    /// The minor version of NFSv4, so that captures of different ones can be compared.
    MinorVersion = "minor-version";
}

/// A rule of the table: field names and their class. `nfs.nfstime4.*` matches every name with that prefix.
pub struct FieldEqualityRule {
    /// Filter names of fields, or their prefixes.
    pub fields: &'static [&'static str],
    /// Class of the fields.
    pub class: FieldEqualityRequirement,
}

const fn identity(identity: MappedIdentifierType, fields: &'static [&'static str]) -> FieldEqualityRule {
    FieldEqualityRule { fields, class: FieldEqualityRequirement::Identity(identity) }
}

const fn varies(reason: &'static str, fields: &'static [&'static str]) -> FieldEqualityRule {
    FieldEqualityRule { fields, class: FieldEqualityRequirement::Varies(reason) }
}

const fn equal(kind: DifferenceKind, fields: &'static [&'static str]) -> FieldEqualityRule {
    FieldEqualityRule { fields, class: FieldEqualityRequirement::Equal(kind) }
}

/// The table. The first rule that matches a field applies.
pub const RULES: &[FieldEqualityRule] = &[
    identity(MappedIdentifierType::Filehandle, &[field_names::NFS_FHANDLE]),
    identity(MappedIdentifierType::Stateid, &[field_names::NFS_STATEID_OTHER]),
    identity(MappedIdentifierType::Clientid, &[field_names::NFS_CLIENTID]),
    identity(MappedIdentifierType::Session, &[field_names::NFS_SESSION_ID4]),
    identity(
        MappedIdentifierType::Cookie,
        &[
            field_names::NFS_COOKIE3,
            field_names::NFS_COOKIE4,
            field_names::NFS_READDIR_ENTRY3_COOKIE,
            field_names::NFS_READDIRPLUS_ENTRY_COOKIE,
            field_names::NFS_LISXTATTR_COOKIE,
            field_names::NFS_READDIR_COOKIE,
            field_names::NFS_READDIR_ENTRY_COOKIE,
        ],
    ),
    identity(
        MappedIdentifierType::Verifier,
        &[field_names::NFS_VERIFIER, field_names::NFS_VERIFIER4, field_names::NFS_COOKIE_VERF4],
    ),
    identity(
        MappedIdentifierType::Owner,
        &[
            field_names::NFS_OPEN_OWNER4,
            field_names::NFS_LOCK_OWNER4,
            field_names::NLM_LOCK_OWNER,
            field_names::NLM_LOCK_SVID,
            field_names::STAT_PRIV,
        ],
    ),
    identity(MappedIdentifierType::ClientOwner, &[field_names::NFS_NFS_CLIENT_ID4_ID, field_names::NFS_CO_OWNERID]),
    identity(MappedIdentifierType::ServerOwner, &[field_names::NFS_MAJORID4, field_names::NFS_SCOPE]),
    identity(
        MappedIdentifierType::Host,
        &[
            field_names::RPC_AUTH_MACHINENAME,
            field_names::NFS_MACHINENAME4,
            field_names::NFS_R_ADDR,
            field_names::NFS_SERVER,
            "nfs.universal_address.*",
            field_names::NLM_LOCK_CALLER_NAME,
            field_names::STAT_NAME,
            field_names::STAT_MON_ID_NAME,
            field_names::STAT_MY_ID_HOSTNAME,
            field_names::MOUNT_DUMP_HOSTNAME,
        ],
    ),
    identity(
        MappedIdentifierType::Program,
        &[
            field_names::RPC_PROGRAM,
            field_names::NFS_CB_PROGRAM,
            field_names::NFS_CALLBACK_IDENT,
            field_names::STAT_MY_ID_PROG,
        ],
    ),
    identity(MappedIdentifierType::Context, &[field_names::RPC_AUTHGSS_CONTEXT, field_names::NFS_GSSHANDLE4]),
    identity(MappedIdentifierType::Device, &[field_names::NFS_DEVICEID]),
    identity(MappedIdentifierType::MinorVersion, &[field_names::NFS_MINORVERSION]),
    varies("a Requester chooses its XIDs", &[field_names::RPC_XID, field_names::RPCORDMA_XID, field_names::NLM_COOKIE]),
    varies(
        "memory is registered for each call",
        &[field_names::RPCORDMA_RDMA_HANDLE, field_names::RPCORDMA_RDMA_OFFSET],
    ),
    varies("credits follow the load", &[field_names::RPCORDMA_FLOW_CONTROL]),
    varies("chosen by the client", &[field_names::RPC_AUTH_STAMP, field_names::NFS_STAMP4]),
    varies(
        "depends on the other bytes of the message and on the key",
        &[
            field_names::RPC_AUTHGSS_SEQNUM,
            field_names::RPC_AUTHGSS_CHECKSUM,
            "rpc.authgss.data*",
            "rpc.authgss.token*",
        ],
    ),
    varies("a time", &["nfs.timeval.*", "nfs.nfstime3.*", "nfs.nfstime4.*"]),
    varies(
        "each server has its own change counter",
        &["nfs.changeid4*", field_names::NFS_CP_MAJOR, field_names::NFS_CP_MINOR],
    ),
    varies(
        "file number, assigned and reused by the file system",
        &[
            field_names::NFS_FATTR3_FILEID,
            field_names::NFS_FATTR4_FILEID,
            field_names::NFS_FATTR4_MOUNTED_ON_FILEID,
            field_names::NFS_FATTR_FILEID,
            field_names::NFS_READDIR_ENTRY_FILEID,
            field_names::NFS_READDIR_ENTRY3_FILEID,
            field_names::NFS_READDIRPLUS_ENTRY_FILEID,
        ],
    ),
    varies(
        "identifier of the file system",
        &[field_names::NFS_FATTR_FSID, field_names::NFS_FATTR3_FSID, "nfs.fsid4.*"],
    ),
    varies(
        "space on the file system, which other clients also use",
        &[
            field_names::NFS_FATTR_BLOCKS,
            "nfs.statfs.b*",
            field_names::NFS_FATTR3_USED,
            "nfs.fattr4.space_*",
            "nfs.fattr4.files_*",
            "nfs.fattr4.quota_*",
            "nfs.fsstat3_resok.*",
        ],
    ),
    varies("lease time of the server", &[field_names::NFS_FATTR4_LEASE_TIME, field_names::NFS_CNR_LEASE_TIME]),
    varies("sequence number of a slot or an owner", &[field_names::NFS_SEQID, field_names::NFS_LOCK_SEQID]),
    varies(
        "a client uses any free slot",
        &[field_names::NFS_SLOTID, field_names::NFS_HIGH_SLOTID, field_names::NFS_TARGET_HIGH_SLOTID],
    ),
    varies(
        "the version of the program at the other end",
        &[field_names::NFS_NII_DOMAIN4, field_names::NFS_NII_NAME4, field_names::NFS_NII_DATE],
    ),
    varies("network type and address family", &[field_names::NFS_R_NETID]),
    varies(
        "a count of the restarts of a host",
        &[field_names::NLM_STATE, field_names::STAT_STATE, field_names::STAT_STAT_RES_STATE],
    ),
    varies(
        "address and port of a program",
        &[
            field_names::PORTMAP_PORT,
            field_names::PORTMAP_RPCB_ADDR,
            field_names::PORTMAP_UADDR,
            field_names::PORTMAP_TIME,
            field_names::NFSRDMA_UNIVERSAL_ADDRESS_PORT,
        ],
    ),
    varies("minor ID that the server chooses", &[field_names::NFS_MINORID4]),
    FieldEqualityRule {
        fields: &[
            field_names::NFS_PADSIZE4,
            field_names::NFS_MAXREQSIZE4,
            field_names::NFS_MAXRESPSIZE4,
            field_names::NFS_MAXRESPSIZECACHED4,
            field_names::NFS_RDMACHANATTRS4,
        ],
        class: FieldEqualityRequirement::TransportDependent(DifferenceKind::Argument),
    },
    FieldEqualityRule {
        fields: &[
            field_names::NFS_FATTR3_SIZE,
            field_names::NFS_WCC_ATTR_SIZE,
            field_names::NFS_FATTR_SIZE,
            field_names::NFS_FATTR_NLINK,
            field_names::NFS_FATTR3_NLINK,
            field_names::NFS_FATTR4_SIZE,
            field_names::NFS_FATTR4_NUMLINKS,
        ],
        class: FieldEqualityRequirement::Racing(DifferenceKind::Result),
    },
    equal(
        DifferenceKind::Status,
        &[
            field_names::NFS_NFSSTAT4,
            field_names::NFS_STATUS3,
            field_names::RPC_REPLYSTAT,
            field_names::RPC_STATE_ACCEPT,
            field_names::RPC_STATE_REJECT,
            field_names::RPC_STATE_AUTH,
        ],
    ),
    equal(
        DifferenceKind::Name,
        &[
            field_names::NFS_NAME,
            field_names::NFS_PATHNAME_COMPONENT,
            field_names::NFS_ENTRY_NAME,
            field_names::NFS_READDIR_ENTRY_NAME,
            field_names::NFS_READDIR_ENTRY3_NAME,
            field_names::MOUNT_PATH,
            field_names::NLM_SHARE_NAME,
            field_names::NFS_READDIRPLUS_ENTRY_NAME,
            "nfs.symlink.*",
            field_names::NFS_READLINK_DATA,
            field_names::NFS_XATTR_KEY,
        ],
    ),
    equal(DifferenceKind::Offset, &[field_names::NFS_OFFSET3, field_names::NFS_OFFSET4, "nlm.lock.l_offset*"]),
    equal(
        DifferenceKind::Count,
        &[
            "nfs.count3*",
            field_names::NFS_COUNT4,
            field_names::NFS_LENGTH4,
            field_names::NFS_DIRCOUNT,
            field_names::NFS_READDIR_COUNT,
            "nlm.lock.l_len*",
            field_names::NFS_MAXCOUNT,
        ],
    ),
    equal(DifferenceKind::Data, &[field_names::NFS_DATA]),
    equal(DifferenceKind::Header, &["rpc.*"]),
];

/// The operation count of a COMPOUND, which is not compared because the operations are.
pub const OPERATION_COUNT_FIELD: &str = field_names::NFS_OPS_COUNT;

/// A field that depends on the minor version of NFSv4, and may differ between two of them.
pub struct MinorVersionDependentField {
    /// Filter name.
    pub field: &'static str,
    /// Bits that both versions have and that must be equal; 0 if none is compared.
    pub common: u64,
    /// Reason for the dependency.
    pub reason: &'static str,
}

const fn follows(field: &'static str, common: u64, reason: &'static str) -> MinorVersionDependentField {
    MinorVersionDependentField { field, common, reason }
}

/// Fields that may differ between two minor versions. So may an attribute on one side only: it was requested by mask.
pub const FOLLOWS_MINOR_VERSION: &[MinorVersionDependentField] = &[
    follows(
        field_names::NFS_ATTR_MASK,
        0,
        "each minor version defines other attributes, and a client requests those it knows",
    ),
    follows(field_names::NFS_ACCESS_CHECK, 0x3f, "RFC 8276 section 8.5 adds the rights to extended attributes"),
    follows(field_names::NFS_ACCESS_SUPPORTED, 0x3f, "a server reports only rights that the client requested"),
    follows(field_names::NFS_ACCESS_RIGHTS, 0x3f, "a server reports only rights that the client requested"),
    follows(
        field_names::NFS_SHARE_ACCESS,
        !0x0030_0000,
        "the delegation that a client requests: OPEN4_SHARE_ACCESS_WANT_* of RFC 9754",
    ),
    follows(
        field_names::NFS_OPEN_RFLAGS,
        !0x10,
        "OPEN4_RESULT_NO_OPEN_STATEID of RFC 9754: a delegation without an open stateid",
    ),
    follows(field_names::NFS_OPEN_DELEGATION_TYPE, 0, "present only if the client requested a delegation"),
    follows(field_names::NFS_OPEN_WHY_NO_DELEGATION, 0, "present only if the client requested a delegation"),
    follows(field_names::NFS_OND_SERVER_WILL_SIGNAL_AVAIL, 0, "present only if the client requested a delegation"),
];

/// Returns the entry of a field that depends on the minor version.
pub fn follows_minor_version(field: &str) -> Option<&'static MinorVersionDependentField> {
    FOLLOWS_MINOR_VERSION.iter().find(|follows| follows.field == field)
}

/// Returns `true` if a pattern of the table, or of an option, matches a field.
pub(super) fn pattern_covers(pattern: &str, field: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => field.starts_with(start),
        None => pattern == field,
    }
}

/// Returns `true` for times that a Call sets, by the name of the parent: SET_TO_CLIENT_TIME (RFC 1813 section 2.6, RFC
/// 8881 section 3.3.3) and sattr (RFC 1094 section 2.3.6). They are arguments like others, while times of the server
/// and of a delegation (RFC 9754) come from a clock.
fn is_set_time(field: &str, parent: &str) -> bool {
    let structure = |field: &'static str| field.rsplit_once('.').map(|(structure, _)| structure);
    let is_part = |component| field.rsplit_once('.').map(|(of, _)| of) == structure(component);
    let is_nfstime = is_part(field_names::NFS_NFSTIME3_SECONDS) || is_part(field_names::NFS_NFSTIME4_SECONDS);
    is_nfstime && field_path_text::ends_with_labels(parent, &[field_labels::TIME])
        || is_part(field_names::NFS_TIMEVAL_USECONDS)
}

/// Returns the class of a field from its filter name, the RFC names above it, and the message that contains it.
pub fn requirement_of_field(field: &str, parent: &str, is_call: bool) -> FieldEqualityRequirement {
    if is_call && is_set_time(field, parent) {
        return FieldEqualityRequirement::Equal(DifferenceKind::Argument);
    }
    let rule = INDEX.first(field).and_then(|at| RULES.get(at));
    rule.map_or(FieldEqualityRequirement::Equal(DifferenceKind::of_message(is_call)), |rule| rule.class)
}

/// The index of the table; a replay looks up the fields of every Reply that has identities.
#[derive(Default)]
struct FieldEqualityRuleLookupTable {
    names: FxHashMap<&'static str, usize>,
    /// Prefix patterns and rules, by the first letter after the protocol; `None` for a whole protocol.
    starts: FxHashMap<Option<u8>, Vec<(&'static str, usize)>>,
}

static INDEX: LazyLock<FieldEqualityRuleLookupTable> = LazyLock::new(|| {
    let mut index = FieldEqualityRuleLookupTable::default();
    for (at, rule) in RULES.iter().enumerate() {
        for pattern in rule.fields {
            match pattern.strip_suffix('*') {
                Some(start) => index.starts.entry(letter(start)).or_default().push((start, at)),
                None => _ = index.names.entry(pattern).or_insert(at),
            }
        }
    }
    index
});

/// Returns the letter after a protocol name of three letters and its dot.
fn letter(field: &str) -> Option<u8> {
    field.as_bytes().get(4).copied()
}

impl FieldEqualityRuleLookupTable {
    fn first(&self, field: &str) -> Option<usize> {
        let starts = [None, letter(field)].into_iter().filter_map(|letter| self.starts.get(&letter)).flatten();
        let of_start = starts.filter(|(start, _)| field.starts_with(start)).map(|(_, at)| *at);
        of_start.chain(self.names.get(field).copied()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_field_must_be_equal() {
        assert_eq!(
            requirement_of_field("nfs.something_new", "", true),
            FieldEqualityRequirement::Equal(DifferenceKind::Argument)
        );
        assert_eq!(
            requirement_of_field("nfs.something_new", "", false),
            FieldEqualityRequirement::Equal(DifferenceKind::Result)
        );
    }

    #[test]
    fn only_times_that_a_call_sets_are_arguments() {
        let of = |above, is_call| requirement_of_field("nfs.nfstime4.seconds", above, is_call);
        assert_eq!(
            of("obj_attributes.time_modify_set.time", true),
            FieldEqualityRequirement::Equal(DifferenceKind::Argument)
        );
        assert!(matches!(of("obj_attributes.time_modify_set.time", false), FieldEqualityRequirement::Varies(_)));
        assert!(matches!(of("obj_attributes.time_deleg_modify", true), FieldEqualityRequirement::Varies(_)));
        assert_eq!(
            requirement_of_field("nfs.timeval.seconds", "attributes.mtime", true),
            FieldEqualityRequirement::Equal(DifferenceKind::Argument)
        );
    }

    #[test]
    fn fields_that_follow_the_minor_version_exist() {
        let catalog = crate::filter::catalog::FilterFieldCatalog::new();
        for MinorVersionDependentField { field, .. } in FOLLOWS_MINOR_VERSION {
            assert!(catalog.iter().any(|entry| entry.name == *field), "{field}");
        }
    }

    #[test]
    fn a_pattern_covers_fields_that_begin_with_it() {
        assert!(matches!(
            requirement_of_field("nfs.nfstime4.seconds", "", false),
            FieldEqualityRequirement::Varies("a time")
        ));
        assert_eq!(
            requirement_of_field("nfs.count3_maxcount", "", true),
            FieldEqualityRequirement::Equal(DifferenceKind::Count)
        );
        assert_eq!(
            requirement_of_field("nfs.count3_maxcount", "", false),
            FieldEqualityRequirement::Equal(DifferenceKind::Count)
        );
    }

    #[test]
    fn the_index_agrees_with_the_first_rule_of_the_table() {
        for entry in crate::filter::catalog::FilterFieldCatalog::new().iter() {
            let is_about =
                |rule: &FieldEqualityRule| rule.fields.iter().any(|pattern| pattern_covers(pattern, entry.name));
            assert_eq!(INDEX.first(entry.name), RULES.iter().position(is_about), "{}", entry.name);
        }
    }

    #[test]
    fn every_line_of_the_table_names_existing_fields() {
        let catalog = crate::filter::catalog::FilterFieldCatalog::new();
        let is_there = |pattern: &str| catalog.iter().any(|entry| pattern_covers(pattern, entry.name));
        let patterns = RULES.iter().flat_map(|rule| rule.fields);
        assert_eq!(patterns.filter(|pattern| !is_there(pattern)).collect::<Vec<_>>(), [&""; 0]);
    }

    #[test]
    fn the_document_has_every_line_of_the_table() {
        let document = include_str!("../../../../docs/comparison.md");
        for rule in RULES {
            let missing: Vec<_> =
                rule.fields.iter().filter(|field| !document.contains(&format!("`{field}`"))).collect();
            assert!(missing.is_empty(), "{missing:?}");
            match rule.class {
                FieldEqualityRequirement::Varies(reason) => assert!(document.contains(reason), "{reason}"),
                FieldEqualityRequirement::Identity(identity) => {
                    assert!(document.contains(identity.word()), "{identity:?}")
                }
                _ => {}
            }
        }
        for MinorVersionDependentField { field, reason, .. } in FOLLOWS_MINOR_VERSION {
            let row = document.lines().find(|line| line.starts_with(&format!("| `{field}` |")));
            assert!(row.is_some_and(|row| row.contains(reason)), "{field}");
        }
        for kind in DifferenceKind::ALL {
            assert!(document.contains(&format!("| `{kind}` | {} |", kind.meaning())), "{kind}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_reached() {
        for (at, rule) in RULES.iter().enumerate() {
            for pattern in rule.fields {
                let name = pattern.trim_end_matches('*');
                let first = RULES.iter().position(|rule| rule.fields.iter().any(|other| pattern_covers(other, name)));
                assert_eq!(first, Some(at), "{pattern}");
            }
        }
    }
}
