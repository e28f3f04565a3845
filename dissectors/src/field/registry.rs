//! Registry of all fields, collected from the descriptions of all structures.
//!
//! There is no hand-written field list. An XDR structure registers its own fields and those of its types
//! ([`Xdr::describe`](crate::xdr::Xdr::describe)); a header of fixed layout registers its own. Each protocol has a
//! function `describe` that lists its headers and top-level XDR types; [`catalog`](crate::catalog) lists the protocols.

use std::any::type_name;
use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::definition::{FieldDefinition, FieldKind, FlagName};

/// Layer that must be decoded to see a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldDecodeLayer {
    /// The headers of a frame.
    #[default]
    Frame,
    /// A management datagram.
    Management,
    /// The headers of iWARP, in a TCP stream.
    Iwarp,
    /// Private data of connection establishment, in management datagrams and in MPA startup frames.
    PrivateData,
    /// The RPC-over-RDMA header of a message.
    RpcRdma,
    /// The RPC header of a message.
    Rpc,
    /// The arguments and results of a procedure.
    Procedure,
}

/// A field in one of the structures that contain it.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredField {
    /// The field.
    pub field: &'static FieldDefinition,
    /// Names of its values or bits in the specification.
    pub names: &'static [FlagName],
    /// Documentation of the structure; empty for a standalone field.
    pub structure: &'static str,
    /// Layer that reports the field.
    pub layer: FieldDecodeLayer,
}

/// Collector of fields from the descriptions of structures.
#[derive(Debug, Default)]
pub struct FieldRegistry {
    fields: BTreeMap<&'static str, Vec<RegisteredField>>,
    /// Names of visited types, so that recursive types end.
    visited_types: FxHashSet<&'static str>,
    /// Layer of the fields added next.
    layer: FieldDecodeLayer,
}

impl FieldRegistry {
    /// Sets the layer of the fields added next.
    pub fn set_layer(&mut self, layer: FieldDecodeLayer) -> &mut Self {
        self.layer = layer;
        self
    }

    /// Returns the fields in order of name, each with the structures that contain it.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &[RegisteredField])> {
        self.fields.iter().map(|(name, entries)| (*name, entries.as_slice()))
    }

    /// Adds a standalone field.
    pub fn field(&mut self, field: &'static FieldDefinition) {
        self.add(field, &[], "");
    }

    /// Returns `true` on the first visit of `T`.
    pub fn mark_visited<T>(&mut self) -> bool {
        self.visited_types.insert(type_name::<T>())
    }

    /// Adds a field with the names of its values, and the documentation of the structure that contains it.
    pub fn add(&mut self, field: &'static FieldDefinition, names: &'static [FlagName], structure: &'static str) {
        let entry = RegisteredField { field, names, structure, layer: self.layer };
        // An unnamed group exists only for the encoding.
        if entry.field.name.is_empty() {
            return;
        }
        let entries = self.fields.entry(entry.field.name).or_default();
        let is_known = entries.iter().any(|existing| {
            (existing.field.label, existing.field.doc, existing.structure)
                == (entry.field.label, entry.field.doc, entry.structure)
        });
        if !is_known {
            entries.push(entry);
        }
    }
}

/// Adds headers of fixed layout to a registry, by their type names.
macro_rules! describe_headers {
    ($registry:ident; $($header:ident),* $(,)?) => { $($header::describe($registry);)* };
}
pub(crate) use describe_headers;

/// Description of a field, and the source that defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldDoc {
    /// Description without the source.
    pub text: String,
    /// Specification and section, as `RFC 8881 section 18.22.1`; empty if none is named.
    pub source: String,
}

/// Prefixes that start a source.
const SOURCE_PREFIXES: [&str; 11] = [
    "RFC ",
    "NFS over RDMA (SIGCOMM 2003)",
    "draft-",
    "XNFS",
    "InfiniBand Architecture",
    "Section ",
    "Sections ",
    "Chapter ",
    "Annex ",
    "IEEE ",
    "<http",
];

/// Prefixes of field names that are defined only in an XDR file, not in a specification.
pub(crate) const XDR_FILE_PREFIXES: [(&str, &str); 9] = [
    ("nfsacl.", "nfs_acl.x"),
    ("nfs.access_check", "nfs_acl.x"),
    ("nfs.access_rights", "nfs_acl.x"),
    ("nfs.fhandle", "nfs_acl.x"),
    ("rquota.", "rquota.x"),
    ("mount.pathconf.", "mount.x"),
    ("mount.PATHCONF", "mount.x"),
    ("mount.pc_xxx", "mount.x"),
    ("mount.EXPORTALL", "mount.x"),
];

impl FieldDoc {
    /// Splits a documentation comment into description and source.
    pub fn parse(doc: &str) -> Self {
        let mut parsed = Self::default();
        for sentence in sentences(doc) {
            let source_start = SOURCE_PREFIXES.iter().filter_map(|source| sentence.find(source)).min();
            let (text, source) = sentence.split_at(source_start.unwrap_or(sentence.len()));
            let text = text.trim_end_matches([' ', ':', '(', '.']).trim();
            let is_about_another = !parsed.source.is_empty() && !text.is_empty();
            if !text.is_empty() && parsed.source.is_empty() {
                append(&mut parsed.text, text, ". ");
            }
            if !source.is_empty() && !is_about_another {
                append(&mut parsed.source, source.trim_end_matches(')'), "; ");
            }
        }
        parsed
    }
}

fn append(to: &mut String, text: &str, separator: &str) {
    if !to.is_empty() {
        to.push_str(separator);
    }
    to.push_str(text);
}

/// Splits text into sentences without full stops. A full stop ends a sentence before a capital letter, `<` or the end.
fn sentences(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let stops = rest.match_indices('.').map(|(at, _)| at);
        let mut stops = stops.filter(|at| {
            let after = rest.get(at + 1..).unwrap_or_default();
            let next = after.trim_start().chars().next();
            after.is_empty()
                || after.starts_with(char::is_whitespace) && next.is_none_or(|next| next.is_uppercase() || next == '<')
        });
        let end = stops.next().unwrap_or(rest.len());
        let (sentence, after) = rest.split_at(end);
        rest = after.strip_prefix('.').unwrap_or(after);
        Some(sentence.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

impl RegisteredField {
    /// Returns the field's description and source, with the structure's as fallback.
    pub fn doc(&self) -> FieldDoc {
        let field_doc = FieldDoc::parse(if self.field.doc == self.structure { "" } else { self.field.doc });
        let structure = FieldDoc::parse(self.structure);
        let text = match (field_doc.text.as_str(), structure.text.as_str()) {
            ("", "") => self.field.label.to_owned(),
            ("", structure) => {
                // A name in the specification, or the first sentence up to its explanation.
                let sentence = structure.split([':', '.']).next().unwrap_or_default();
                let word = sentence.split(',').next().unwrap_or_default();
                let name = if word.contains(' ') { sentence } else { word };
                let separator = if name.contains(' ') { ": " } else { " of " };
                format!("{}{separator}{name}", self.field.label)
            }
            (own, _) => own.to_owned(),
        };
        let mut source = if field_doc.source.is_empty() { structure.source } else { field_doc.source };
        // The headers of InfiniBand name their specification once per file.
        if let Some(prefix) = ["Section ", "Chapter ", "Annex "].iter().find(|word| source.starts_with(**word)) {
            let (word, section) = source.split_at(prefix.len());
            source = format!("InfiniBand Architecture Specification volume 1, {}{section}", word.to_lowercase());
        }
        if source.is_empty() {
            let file = XDR_FILE_PREFIXES.iter().find(|(start, _)| self.field.name.starts_with(start));
            source = file.map_or(String::new(), |(_, file)| format!("the Solaris and Linux {file}"));
        }
        FieldDoc { text, source }
    }

    /// Returns `true` if the field only groups others.
    pub fn is_group(&self) -> bool {
        self.field.kind == FieldKind::Group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(doc: &str) -> (String, String) {
        let FieldDoc { text, source } = FieldDoc::parse(doc);
        (text, source)
    }

    #[test]
    fn a_comment_is_split_into_description_and_source() {
        let pair = |text: &str, source: &str| (text.to_owned(), source.to_owned());
        assert_eq!(split(" READ4args. RFC 8881 section 18.22.1.\n"), pair("READ4args", "RFC 8881 section 18.22.1"));
        assert_eq!(
            split(" READ4resok. RFC 8881 section 18.22.2. The data may travel in a chunk: RFC 8267 section 6.1."),
            pair("READ4resok", "RFC 8881 section 18.22.2")
        );
        assert_eq!(
            split("Variant CRC, as the two bytes stand. Section 7.8.2."),
            pair("Variant CRC, as the two bytes stand", "Section 7.8.2")
        );
        assert_eq!(split("RFC 8881 section 5.8.1.1"), pair("", "RFC 8881 section 5.8.1.1"));
        assert_eq!(
            split(" What an IP datagram carries. <https://www.iana.org/assignments/protocol-numbers>"),
            pair("What an IP datagram carries", "<https://www.iana.org/assignments/protocol-numbers>")
        );
    }
}
