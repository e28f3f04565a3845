//! The catalogue of fields: those of all protocol structures, and the [generated fields](super::derived_fields), by
//! name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use nfsrdma_dissectors::catalog;
use nfsrdma_dissectors::field::FlagName;
use nfsrdma_dissectors::field::registry::{FieldDecodeLayer, RegisteredField};
use nfsrdma_dissectors::field_names;

use super::derived_fields::{ALIASES, FieldAlias, FieldAliasValuePart, GeneratedField};
pub use super::filter_type::FilterType;
use super::mask_bit_boolean_fields::{self, MaskBitFilterField};
use super::procedure_number_fields::{self, ProcedureNumberFilterField};

/// Origin of the values of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterFieldSource {
    /// A structure, in one of these layers.
    Structure(Vec<FieldDecodeLayer>),
    /// A protocol without its own header, present if one of its fields is.
    Protocol(Vec<FieldDecodeLayer>),
    /// A generated field of a frame or a Transaction.
    Generated(GeneratedField),
    /// An alias for other fields.
    Alias(&'static FieldAlias),
    /// A bit of a mask.
    Bit(&'static MaskBitFilterField),
    /// The procedure of a Call, also available for the Reply.
    Procedure(&'static ProcedureNumberFilterField),
}

/// A field, by its name.
#[derive(Clone, Debug)]
pub struct FilterFieldCatalogEntry {
    /// Filter name.
    pub name: &'static str,
    /// Type of the values.
    pub kind: FilterType,
    /// Description; for a field of several structures, that of the first.
    pub text: String,
    /// Sources of the definition in every structure that has it.
    pub sources: Vec<String>,
    /// Names of the values, or of the bits of a mask, in the specification.
    pub names: Vec<FlagName>,
    /// Origin of the values.
    pub origin: FilterFieldSource,
}

/// All fields, in the order of names.
#[derive(Clone, Debug)]
pub struct FilterFieldCatalog {
    entries: BTreeMap<&'static str, FilterFieldCatalogEntry>,
}

impl FilterFieldCatalog {
    pub(crate) fn new() -> Self {
        let mut entries = BTreeMap::new();
        for (name, fields) in catalog::all_fields().fields() {
            entries.extend(described(name, fields).map(|entry| (name, entry)));
        }
        for protocol in protocols(&entries) {
            entries.insert(protocol.name, protocol);
        }
        let (name, _, text, source) = COMBINED_PROTOCOL;
        let origin = FilterFieldSource::Protocol(vec![FieldDecodeLayer::Iwarp]);
        entries.insert(name, plain(name, FilterType::Protocol, text, source, origin));
        for field in GeneratedField::ALL {
            let (name, kind, text, source) = field.description();
            entries.insert(name, plain(name, kind, text, source, FilterFieldSource::Generated(*field)));
        }
        for alias in ALIASES {
            let aliased: Vec<&FilterFieldCatalogEntry> = alias.of.iter().filter_map(|name| entries.get(name)).collect();
            let kind = match alias.part {
                FieldAliasValuePart::Whole | FieldAliasValuePart::Bits(..) => {
                    aliased.first().map_or(FilterType::Unsigned, |entry| entry.kind)
                }
                FieldAliasValuePart::Length | FieldAliasValuePart::Crc32 | FieldAliasValuePart::Crc16From(_) => {
                    FilterType::Unsigned
                }
            };
            // A part of a value has the names that fit in it.
            let is_within = |(bits, _): &&FlagName| match alias.part {
                FieldAliasValuePart::Bits(shift, mask) => shift == 0 && bits & !mask == 0,
                FieldAliasValuePart::Whole => true,
                _ => false,
            };
            let names = aliased.iter().flat_map(|entry| &entry.names).filter(is_within).copied().collect();
            let entry = plain(alias.name, kind, alias.about, alias.source, FilterFieldSource::Alias(alias));
            entries.insert(alias.name, FilterFieldCatalogEntry { names, ..entry });
        }
        for bit in mask_bit_boolean_fields::all_bits() {
            let entry = plain(&bit.name, FilterType::Boolean, &bit.about, &bit.source, FilterFieldSource::Bit(bit));
            entries.entry(&bit.name).or_insert(entry);
        }
        for field in procedure_number_fields::all() {
            let source = TITLES.iter().find(|(name, ..)| *name == field.protocol).map_or("", |(.., source)| source);
            let entry =
                plain(&field.name, FilterType::Enumeration, &field.about, source, FilterFieldSource::Procedure(field));
            entries.insert(&field.name, FilterFieldCatalogEntry { names: field.names.clone(), ..entry });
        }
        Self { entries }
    }

    /// Returns the catalogue, created on first use.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<FilterFieldCatalog> = LazyLock::new(FilterFieldCatalog::new);
        &SHARED
    }

    /// Returns the field of this name.
    pub fn get(&self, name: &str) -> Option<&FilterFieldCatalogEntry> {
        self.entries.get(name)
    }

    /// Returns all fields, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = &FilterFieldCatalogEntry> {
        self.entries.values()
    }

    /// Returns the most similar names, closest first; none if no name is similar.
    pub fn nearest(&self, name: &str) -> Vec<&'static str> {
        match self.replacements(name) {
            [] => nearest(name, self.entries.keys().copied()),
            instead => instead.to_vec(),
        }
    }

    /// Returns the fields that replace a field of Wireshark, or are more precise.
    pub fn replacements(&self, name: &str) -> &'static [&'static str] {
        REPLACEMENTS.iter().find(|(replaced, _)| *replaced == name).map_or(&[], |(_, replacements)| replacements)
    }
}

fn plain(
    name: &'static str,
    kind: FilterType,
    text: &str,
    source: &str,
    origin: FilterFieldSource,
) -> FilterFieldCatalogEntry {
    FilterFieldCatalogEntry {
        name,
        kind,
        text: text.to_owned(),
        sources: vec![source.to_owned()],
        names: Vec::new(),
        origin,
    }
}

/// Titles of protocols without a header of their own, and their sources.
const TITLES: [(&str, &str, &str); 9] = [
    ("nfs", "Network File System", "RFC 1094, RFC 1813, RFC 7530, RFC 8881"),
    ("mount", "Mount protocol of NFS", "RFC 1813 section 5"),
    ("nlm", "Network Lock Manager", "RFC 1813 section 6"),
    ("portmap", "Port mapper and RPCBIND", "RFC 1833"),
    ("rquota", "Remote quotas", "the Solaris and Linux rquota.x"),
    ("stat", "Network Status Monitor", "Protocols for Interworking: XNFS, chapter 11"),
    ("nfsacl", "Access control lists beside NFSv3", "the Solaris and Linux nfs_acl.x"),
    ("iwarp_rdma", "Remote Direct Memory Access Protocol of iWARP", "RFC 5040"),
    ("infiniband", "InfiniBand", "InfiniBand Architecture Specification volume 1"),
];

/// A protocol of Wireshark that is several here: its name, and the prefixes of their fields.
pub(super) const COMBINED_PROTOCOL: (&str, &[&str], &str, &str) = (
    "iwarp_ddp_rdmap",
    &["iwarp_ddp", "iwarp_rdma"],
    "Direct Data Placement and Remote Direct Memory Access Protocol of iWARP",
    "RFC 5040, RFC 5041",
);

/// Returns the protocols that have fields, but no group with their name.
fn protocols(entries: &BTreeMap<&'static str, FilterFieldCatalogEntry>) -> Vec<FilterFieldCatalogEntry> {
    let mut protocol_entries: BTreeMap<&'static str, FilterFieldCatalogEntry> = BTreeMap::new();
    for entry in entries.values() {
        let Some((protocol, _)) = entry.name.split_once('.') else { continue };
        let FilterFieldSource::Structure(layers) = &entry.origin else { continue };
        if entries.contains_key(protocol) {
            continue;
        }
        let (text, source) = match TITLES.iter().find(|(name, ..)| *name == protocol) {
            Some((_, text, source)) => (*text, *source),
            None => (protocol, entry.sources.first().map_or("", String::as_str)),
        };
        let protocol_entry = protocol_entries.entry(protocol).or_insert_with(|| {
            plain(protocol, FilterType::Protocol, text, source, FilterFieldSource::Protocol(Vec::new()))
        });
        if let FilterFieldSource::Protocol(known_layers) = &mut protocol_entry.origin {
            known_layers.extend(layers);
        }
    }
    protocol_entries.into_values().collect()
}

fn described(name: &'static str, fields: &[RegisteredField]) -> Option<FilterFieldCatalogEntry> {
    // If a structure has the name of one of its values, the value is compared.
    let first = fields.iter().find(|field| !field.is_group()).or(fields.first())?;
    let mut entry = FilterFieldCatalogEntry {
        name,
        kind: FilterType::from_field(name, first.field.kind),
        text: first.doc().text,
        sources: Vec::new(),
        names: Vec::new(),
        origin: FilterFieldSource::Structure(fields.iter().map(|field| field.layer).collect()),
    };
    for field in fields {
        let source = field.doc().source;
        if !entry.sources.contains(&source) {
            entry.sources.push(source);
        }
        for value_name in field.names {
            if !entry.names.contains(value_name) {
                entry.names.push(*value_name);
            }
        }
    }
    Some(entry)
}

/// Replacements for fields of Wireshark that do not exist here.
const REPLACEMENTS: &[(&str, &[&str])] = &[
    ("nfs.full_name", &[GeneratedField::Path.name()]),
    ("nfs.main_opcode", &[GeneratedField::Operation.name(), field_names::NFS_OPCODE]),
    (field_names::RPC_PROCEDURE, &[GeneratedField::Procedure.name(), "nfs.procedure_v3"]),
    ("rpc.call.dup", &[GeneratedField::CallCopies.name()]),
    ("rpc.reply.dup", &[GeneratedField::ReplyCopies.name()]),
    ("rpc.dup", &[GeneratedField::CallCopies.name(), GeneratedField::ReplyCopies.name()]),
    ("nlm.time", &[GeneratedField::RpcTime.name(), GeneratedField::Latency.name()]),
    ("nlm.msg_in", &[GeneratedField::CallFrameOfReply.name()]),
    ("nlm.res_in", &[GeneratedField::ReplyFrameOfCall.name()]),
];

const PROPOSALS: usize = 3;

/// Returns the names most similar to `name`.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let max_distance = name.len().div_ceil(4).clamp(1, 4);
    let mut candidates: Vec<(usize, &str)> = names
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= max_distance)
        .map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= max_distance)
        .collect();
    candidates.sort_unstable();
    let closest = candidates.first().map_or(0, |(distance, _)| *distance);
    candidates
        .into_iter()
        .filter(|(distance, _)| *distance <= closest + 1)
        .map(|(_, name)| name)
        .take(PROPOSALS)
        .collect()
}

/// Returns the edit distance: insertions, deletions, changes and swaps of neighbours, ignoring case.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let is_same = x.eq_ignore_ascii_case(y);
            let mut cost = (at(&last, j) + usize::from(!is_same)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let (x_before, y_before) =
                (i.checked_sub(1).and_then(|i| a.get(i)), j.checked_sub(1).and_then(|j| b.get(j)));
            if y_before == Some(x) && x_before == Some(y) {
                cost = cost.min(at(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::Procedure;

    use super::*;
    use crate::filter::procedure_number_fields;

    #[test]
    fn each_name_that_the_program_looks_for_is_a_field() {
        let catalog = FilterFieldCatalog::new();
        let unknown: Vec<_> = field_names::ALL.iter().filter(|(_, name)| catalog.get(name).is_none()).collect();
        assert_eq!(unknown, Vec::<&(&str, &str)>::new());
    }

    #[test]
    fn protocols_of_tables_are_those_of_the_fields() {
        let catalog = FilterFieldCatalog::new();
        let (_, combined, ..) = COMBINED_PROTOCOL;
        let programs = Procedure::PROGRAMS.iter().map(|(program, _)| procedure_number_fields::protocol(*program));
        for name in TITLES.iter().map(|(name, ..)| *name).chain(programs) {
            assert_eq!(catalog.get(name).map(|entry| entry.kind), Some(FilterType::Protocol), "{name}");
        }
        for prefix in combined {
            assert!(catalog.iter().any(|entry| entry.name.starts_with(&format!("{prefix}."))), "{prefix}");
        }
    }

    #[test]
    fn a_field_of_many_structures_is_one_entry_with_all_their_sources() {
        let catalog = FilterFieldCatalog::new();
        let offset = catalog.get("nfs.offset4").unwrap();
        assert_eq!(offset.kind, FilterType::Unsigned);
        assert!(offset.sources.contains(&"RFC 8881 section 18.32.1".to_owned()), "{:?}", offset.sources);
        assert!(offset.sources.contains(&"RFC 7862 section 15.10.1".to_owned()), "{:?}", offset.sources);
    }

    #[test]
    fn enumerations_bring_the_names_of_their_values() {
        let catalog = FilterFieldCatalog::new();
        let names = |field: &str| catalog.get(field).unwrap().names.clone();
        assert!(names("nfs.opcode").contains(&(53, "SEQUENCE")));
        assert!(names("nfs.status").contains(&(10013, "NFS4ERR_GRACE")));
        assert!(names("infiniband.bth.opcode").contains(&(4, "RC Send Only")));
    }

    #[test]
    fn protocols_are_distinguished_from_structures() {
        let catalog = FilterFieldCatalog::new();
        for protocol in ["frame", "eth", "ip", "ipv6", "udp", "tcp", "infiniband", "rpcordma", "rpc", "nfs"] {
            assert_eq!(catalog.get(protocol).map(|entry| entry.kind), Some(FilterType::Protocol), "{protocol}");
        }
        assert_eq!(catalog.get("infiniband.bth").map(|entry| entry.kind), Some(FilterType::Structure));
        assert_eq!(catalog.get("tcp.flags").map(|entry| entry.kind), Some(FilterType::Flags));
    }

    #[test]
    fn misspelt_fields_have_proposals() {
        let catalog = FilterFieldCatalog::new();
        assert_eq!(catalog.nearest("nfs.opcod"), ["nfs.opcode"]);
        assert_eq!(catalog.nearest("infiniband.bht.destqp"), ["infiniband.bth.destqp"]);
        assert_eq!(catalog.nearest("RPC.XID").first(), Some(&"rpc.xid"));
        assert_eq!(catalog.nearest("http.request.method"), [""; 0]);
    }

    #[test]
    fn replacements_of_missing_fields_are_proposed() {
        let catalog = FilterFieldCatalog::new();
        assert_eq!(catalog.nearest("nfs.full_name"), ["nfsrdma.path"]);
        for (name, replacements) in REPLACEMENTS {
            // The number of a procedure is a field; its name is another.
            assert!(catalog.get(name).is_none() || *name == field_names::RPC_PROCEDURE, "{name}");
            for replacement in *replacements {
                assert!(catalog.get(replacement).is_some(), "{replacement}");
            }
        }
    }

    #[test]
    fn fields_of_an_alias_are_in_the_catalog() {
        let catalog = FilterFieldCatalog::new();
        for alias in ALIASES {
            assert!(alias.of.iter().all(|of| catalog.get(of).is_some()), "{}", alias.name);
        }
    }
}
