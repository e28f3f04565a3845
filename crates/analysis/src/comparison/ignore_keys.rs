//! The words of `--ignore` and `--only`: kinds of differences, compared fields and operations. An unknown word is an
//! error that proposes the closest match.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use nfsrdma_dissectors::field::registry::FieldDecodeLayer;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::{Procedure, procedure_name};

use super::difference::DifferenceKind;
use super::field_equality::pattern_covers;
use crate::filter::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry, FilterFieldSource, nearest};
use crate::filter::error::proposal;
use crate::filter::filter_type::FilterType;

/// Number of procedure numbers to try; no program has more.
const PROCEDURES: u32 = 64;
/// Fields whose values are the names of operations.
const OPERATIONS: [&str; 2] = [field_names::NFS_OPCODE, field_names::NFS_CB_OPERATION];

/// Returns `true` if records have the field: RPC-over-RDMA (with `--strict`), RPC and procedures.
fn is_compared(entry: &FilterFieldCatalogEntry) -> bool {
    let is_in_records = match &entry.origin {
        FilterFieldSource::Structure(layers) => layers.iter().any(|layer| {
            matches!(layer, FieldDecodeLayer::RpcRdma | FieldDecodeLayer::Rpc | FieldDecodeLayer::Procedure)
        }),
        _ => false,
    };
    is_in_records && !matches!(entry.kind, FilterType::Structure | FilterType::Protocol)
}

fn fields() -> impl Iterator<Item = &'static str> {
    FilterFieldCatalog::shared().iter().filter(|entry| is_compared(entry)).map(|entry| entry.name)
}

/// Returns every procedure, and every operation of NFSv4.
fn operations() -> &'static BTreeSet<&'static str> {
    static SHARED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let catalog = FilterFieldCatalog::shared();
        let of_compound = OPERATIONS.iter().filter_map(|name| catalog.get(name));
        let mut names: BTreeSet<_> = of_compound.flat_map(|entry| &entry.names).map(|(_, name)| *name).collect();
        for (program, version) in Procedure::PROGRAMS {
            names.extend((0..PROCEDURES).filter_map(|number| procedure_name(*program, *version, number)));
        }
        names
    });
    &SHARED
}

/// Returns operations, and fields with their descriptions.
pub(super) fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
    let fields = FilterFieldCatalog::shared().iter().filter(|entry| is_compared(entry));
    let fields = fields.map(|entry| (entry.name, entry.text.lines().next().unwrap_or_default()));
    operations().iter().map(|name| (*name, "")).chain(fields)
}

/// Checks that a field with this name or prefix exists and is compared.
pub(super) fn field(pattern: &str) -> Result<(), String> {
    if fields().any(|field| pattern_covers(pattern, field)) {
        return Ok(());
    }
    if FilterFieldCatalog::shared().iter().any(|entry| pattern_covers(pattern, entry.name)) {
        return Err(format!("{pattern} is not compared: not a field of RPC-over-RDMA, RPC or a procedure"));
    }
    let similar = nearest(pattern.trim_end_matches('*'), fields());
    Err(format!("unknown field {pattern}{}", proposal(&similar)))
}

/// Checks that an operation or a procedure has this name.
pub(super) fn operation(name: &str) -> Result<(), String> {
    if operations().contains(name) {
        return Ok(());
    }
    let similar = nearest(name, operations().iter().copied().chain(kinds()));
    Err(format!("unknown operation {name}{}", proposal(&similar)))
}

/// Returns the message for a word that is not a kind, field or operation.
pub(super) fn unknown(word: &str) -> String {
    // A kind with this prefix wins over a similar procedure: `stat` is `status`, not STAT of NSM.
    let mut similar: Vec<_> = kinds().filter(|kind| !word.is_empty() && kind.starts_with(word)).collect();
    if similar.is_empty() {
        similar = nearest(word, kinds().chain(operations().iter().copied()));
    }
    if similar.is_empty() {
        let kinds: Vec<_> = kinds().collect();
        return format!(
            "give a kind of difference ({}), a field such as nfs.fattr4.size, or an operation such as READ",
            kinds.join(", ")
        );
    }
    format!("unknown difference kind {word}{} (compare --help lists them)", proposal(&similar))
}

fn kinds() -> impl Iterator<Item = &'static str> {
    DifferenceKind::ALL.iter().map(|kind| kind.word())
}

#[cfg(test)]
mod tests {
    use super::super::comparable_transaction_recorder::ComparableTransactionRecorder;
    use super::*;
    use crate::testing::transactions;

    #[test]
    fn every_field_and_operation_of_a_capture_can_be_named() {
        let mut recorder = ComparableTransactionRecorder::default();
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
        // The headers belong to no operation.
        operations.remove("");
        assert!(fields.len() > 100 && operations.len() > 40, "{} {}", fields.len(), operations.len());
        let unknown: Vec<_> = fields.iter().filter_map(|name| field(name).err()).collect();
        assert_eq!(unknown, Vec::<String>::new());
        let unknown: Vec<_> = operations.iter().filter_map(|name| operation(name).err()).collect();
        assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn fields_that_are_not_compared_cannot_be_selected() {
        assert!(field("frame.number").is_err_and(|message| message.contains("is not compared")));
        assert!(field("infiniband.bth.*").is_err_and(|message| message.contains("is not compared")));
        assert_eq!(field("nfs.fattr4.*"), Ok(()));
    }
}
