//! What people may name where they choose differences: kinds, fields that are compared, and operations. A name that there is
//! not is an error with what is most like it, and not a choice of nothing.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use nfsrdma_dissectors::field::registry::DecodeLayer;
use nfsrdma_dissectors::nfs::{Procedure, procedure_name};

use super::compare_class::covers;
use super::difference::DifferenceKind;
use crate::filter::catalog::{Catalog, CatalogEntry, FieldOrigin, FilterType, nearest};
use crate::filter::proposal;

/// Numbers of procedures that are looked at; no program has so many.
const PROCEDURES: u32 = 64;
/// Fields whose values are the names of operations.
const OPERATIONS: [&str; 2] = ["nfs.opcode", "nfs.cb.operation"];

/// Whether records have it: the values of RPC-over-RDMA (with `--strict`), of RPC, and of procedures.
fn is_compared(entry: &CatalogEntry) -> bool {
    let is_heard = match &entry.origin {
        FieldOrigin::Structure(layers) => layers
            .iter()
            .any(|layer| matches!(layer, DecodeLayer::RpcRdma | DecodeLayer::Rpc | DecodeLayer::Procedure)),
        _ => false,
    };
    is_heard && !matches!(entry.kind, FilterType::Structure | FilterType::Protocol)
}

/// The fields that are compared.
fn fields() -> impl Iterator<Item = &'static str> {
    Catalog::shared().iter().filter(|entry| is_compared(entry)).map(|entry| entry.name)
}

/// Every procedure and every operation of NFSv4.
fn operations() -> &'static BTreeSet<&'static str> {
    static SHARED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let catalog = Catalog::shared();
        let of_compound = OPERATIONS.iter().filter_map(|name| catalog.get(name));
        let mut names: BTreeSet<_> =
            of_compound.flat_map(|entry| &entry.names).map(|(_, name)| *name).collect();
        for (program, version) in Procedure::PROGRAMS {
            names.extend((0..PROCEDURES).filter_map(|number| procedure_name(*program, *version, number)));
        }
        names
    });
    &SHARED
}

/// Operations and fields, the latter with what they are.
pub(super) fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
    let fields = Catalog::shared().iter().filter(|entry| is_compared(entry));
    let fields = fields.map(|entry| (entry.name, entry.text.lines().next().unwrap_or_default()));
    operations().iter().map(|name| (*name, "")).chain(fields)
}

/// That there are fields with this name or this beginning, and that they are compared.
///
/// # Errors
/// What is wrong with it, and what may be meant.
pub(super) fn field(pattern: &str) -> Result<(), String> {
    if fields().any(|field| covers(pattern, field)) {
        return Ok(());
    }
    if Catalog::shared().iter().any(|entry| covers(pattern, entry.name)) {
        return Err(format!(
            "{pattern} is no field of RPC-over-RDMA, of RPC or of a procedure, and is not compared"
        ));
    }
    let near = nearest(pattern.trim_end_matches('*'), fields());
    Err(format!("there is no field {pattern}{}", proposal(&near)))
}

/// That there is an operation or a procedure of this name.
///
/// # Errors
/// What may be meant.
pub(super) fn operation(name: &str) -> Result<(), String> {
    if operations().contains(name) {
        return Ok(());
    }
    let near = nearest(name, operations().iter().copied().chain(kinds()));
    Err(format!("there is no operation {name}{}", proposal(&near)))
}

/// What to say of a word that is neither a kind nor a field nor an operation.
pub(super) fn unknown(word: &str) -> String {
    // A kind that begins so is meant rather than a procedure that is spelt alike: `stat` is `status`, not STAT of NSM.
    let mut near: Vec<_> = kinds().filter(|kind| !word.is_empty() && kind.starts_with(word)).collect();
    if near.is_empty() {
        near = nearest(word, kinds().chain(operations().iter().copied()));
    }
    if near.is_empty() {
        let kinds: Vec<_> = kinds().collect();
        return format!(
            "give a kind of difference ({}), a field such as nfs.fattr4.size, or an operation such as READ",
            kinds.join(", ")
        );
    }
    format!("there is no kind of difference {word}{} (compare --help lists them)", proposal(&near))
}

fn kinds() -> impl Iterator<Item = &'static str> {
    DifferenceKind::ALL.iter().map(|kind| kind.word())
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Recorder;
    use super::*;
    use crate::testing::transactions;

    #[test]
    fn every_field_and_operation_of_a_capture_can_be_named() {
        let mut recorder = Recorder::default();
        let (mut fields, mut operations) = (BTreeSet::new(), BTreeSet::new());
        for name in ["rxe-v3.pcap", "rxe-v42.pcap", "rxe-v40-deleg.pcap", "rxe-v42-deleg.pcap"] {
            for transaction in transactions(name) {
                let record = recorder.record(&transaction);
                for section in record.call.iter().chain(&record.reply).flat_map(|message| &message.sections) {
                    operations.insert(section.name.to_string());
                    fields.extend(section.entries.iter().map(|entry| entry.path.field));
                }
            }
        }
        // The headers are of no operation.
        operations.remove("");
        assert!(fields.len() > 100 && operations.len() > 40, "{} {}", fields.len(), operations.len());
        let unknown: Vec<_> = fields.iter().filter_map(|name| field(name).err()).collect();
        assert_eq!(unknown, Vec::<String>::new());
        let unknown: Vec<_> = operations.iter().filter_map(|name| operation(name).err()).collect();
        assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_compared_cannot_be_chosen() {
        assert!(field("frame.number").is_err_and(|what| what.contains("is not compared")));
        assert!(field("infiniband.bth.*").is_err_and(|what| what.contains("is not compared")));
        assert_eq!(field("nfs.fattr4.*"), Ok(()));
    }
}
