//! Rows of the operations table: those of a COMPOUND, and each other procedure.
//!
//! The values come from the JSON of the operation, so that both are the same.

use std::borrow::Cow;
use std::marker::PhantomData;

use nfsrdma_analysis::names::FileNames;
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{CbOperation, Operation};
use nfsrdma_flow::transaction_message_decoding::RpcSummary;
use serde_json::Value;

use super::table_schema::table;
use crate::output::json::line::{self, DecodedValuesJson};

table! {
    /// One row per operation: those of a COMPOUND in the order of the call, and each other procedure.
    OperationRow<'r> "operations" {
        /// The `index` of its transaction.
        transaction: u64,
        /// Index in the COMPOUND, from 0.
        position: u64,
        /// RFC name of the operation or procedure.
        op: Cow<'r, str>,
        /// Status of the operation; null if no result was captured.
        status: Option<Cow<'r, str>>,
        /// Filehandle that it applies to, in hexadecimal: the current filehandle in NFSv4, if known; that of the file
        /// in a callback or NLM.
        filehandle: Option<Cow<'r, str>>,
        /// Filehandle in the result: GETFH; LOOKUP, CREATE, MKDIR, SYMLINK and MKNOD of NFSv2 and NFSv3; MNT.
        result_filehandle: Option<Cow<'r, str>>,
        /// File name in the directory `filehandle`; for GETFH the name that led to the file.
        name: Option<Cow<'r, str>>,
        /// Offset in the file.
        offset: Option<u64>,
        /// READ and READ_PLUS: bytes requested; WRITE: bytes written; length of the range in COPY, CLONE, ALLOCATE,
        /// DEALLOCATE, LAYOUTGET and LAYOUTSTATS.
        count: Option<u64>,
        /// Bytes of data in a READ or WRITE, inline or in chunks.
        data: Option<u64>,
        /// READ and READDIR: true if the end was reached.
        eof: Option<bool>,
        /// Path of its file, as in `transactions`.
        path: Option<Cow<'r, str>>,
        /// The operation as in JSON output; `arguments` and `results` of a procedure other than COMPOUND.
        detail: Cow<'r, str>,
    }
}

/// JSON keys of names in NFSv4, and of offsets.
const NAMES: [&str; 8] = [
    field_labels::OBJNAME,
    field_labels::FILE,
    field_labels::TARGET,
    field_labels::OLDNAME,
    field_labels::NEWNAME,
    field_labels::GXA_NAME,
    field_labels::SXA_KEY,
    field_labels::RXA_NAME,
];
const OFFSETS: [&str; 11] = [
    field_labels::OFFSET,
    field_labels::AA_OFFSET,
    field_labels::DA_OFFSET,
    field_labels::SA_OFFSET,
    field_labels::RPA_OFFSET,
    field_labels::CA_SRC_OFFSET,
    field_labels::CL_SRC_OFFSET,
    field_labels::LOCA_OFFSET,
    field_labels::LOGA_OFFSET,
    field_labels::LSA_OFFSET,
    field_labels::L_OFFSET,
];
/// JSON keys of byte counts.
const COUNTS: [&str; 8] = [
    field_labels::COUNT,
    field_labels::RPA_COUNT,
    field_labels::CA_COUNT,
    field_labels::CL_COUNT,
    field_labels::AA_LENGTH,
    field_labels::DA_LENGTH,
    field_labels::LOGA_LENGTH,
    field_labels::LSA_LENGTH,
];
/// JSON keys of the filehandle that a procedure applies to, and of the one that it returns.
const HANDLES: [&str; 6] = [
    field_labels::OBJECT,
    field_labels::FILE,
    field_labels::DIR,
    field_labels::SYMLINK,
    field_labels::FSROOT,
    field_labels::FH,
];
const RESULT_HANDLE_KEYS: [&str; 4] =
    [field_labels::OBJECT, field_labels::OBJ, field_labels::FILE, field_labels::FHANDLE];
/// JSON keys of the filehandle in a callback.
const CALLBACK_HANDLE_KEYS: [&str; 6] = [
    field_labels::FH,
    field_labels::LOR_FH,
    field_labels::CNA_FH,
    field_labels::CPDA_FH,
    field_labels::CNLA_FH,
    field_labels::COA_FH,
];
/// JSON keys of nested arguments: the source of RENAME and LINK, the lock of NLM.
const NESTED_KEYS: [&str; 2] = [field_labels::FROM, field_labels::ALOCK];

fn text<'r>(value: &'r Value, keys: &[&str]) -> Option<Cow<'r, str>> {
    keys.iter().find_map(|key| value.get(*key)?.as_str()).map(Cow::from)
}

fn number(value: &Value, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| unsigned(value.get(*key)?))
}

/// Returns a number; one beyond 2^53 - 1 is text.
fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The current and the saved filehandle of a COMPOUND (RFC 8881 section 16.2.3.1), as far as its fields contain them.
#[derive(Default)]
struct CompoundFilehandles {
    current: Option<String>,
    saved: Option<String>,
    /// The name that led to the current filehandle.
    name: Option<String>,
}

impl CompoundFilehandles {
    /// Applies an operation.
    fn follow(&mut self, operation: Operation, entry: &Value) {
        let keeps_filehandle = || {
            let claim = entry.get(field_labels::CLAIM).and_then(Value::as_str);
            claim.is_some_and(|claim| claim.ends_with("_FH") || claim == enumerator_names::CLAIM_PREVIOUS)
        };
        match operation {
            Operation::PUTFH => {
                self.current = text(entry, &[field_labels::OBJECT]).map(Cow::into_owned);
                self.name = None;
            }
            Operation::GETFH => {
                self.current = text(entry, &[field_labels::OBJECT]).map(Cow::into_owned).or(self.current.take())
            }
            Operation::SAVEFH => self.saved.clone_from(&self.current),
            Operation::RESTOREFH => {
                self.current.clone_from(&self.saved);
                self.name = None;
            }
            Operation::OPEN if keeps_filehandle() => {}
            Operation::LOOKUP
            | Operation::LOOKUPP
            | Operation::OPEN
            | Operation::CREATE
            | Operation::OPENATTR
            | Operation::PUTROOTFH
            | Operation::PUTPUBFH
            | Operation::SECINFO
            | Operation::SECINFO_NO_NAME => {
                self.current = None;
                self.name = text(entry, &NAMES).map(Cow::into_owned);
            }
            _ => {}
        }
    }
}

/// Calls `write_row` with a row for each operation of a transaction.
pub(super) fn for_each_row<E>(
    transaction: u64,
    summary: &RpcSummary,
    values: &DecodedValuesJson<'_, '_>,
    names: &FileNames,
    mut write_row: impl FnMut(&OperationRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(entries) = values.operation_values() else {
        return procedure(transaction, summary, values, names, write_row);
    };
    let mut handles = CompoundFilehandles::default();
    for ((at, position), entry) in (0..).zip(0..).zip(&entries) {
        let op = entry.get("op").and_then(Value::as_str).unwrap_or_default();
        let status = text(entry, &[field_labels::STATUS]);
        let operation = Operation::from_name(op);
        let is_given = operation == Some(Operation::GETFH);
        let filehandle = match operation {
            Some(Operation::PUTFH) => text(entry, &[field_labels::OBJECT]),
            None if CbOperation::from_name(op).is_some() => text(entry, &CALLBACK_HANDLE_KEYS),
            _ => None,
        };
        write_row(&OperationRow {
            transaction,
            position,
            op: op.into(),
            filehandle: filehandle.or(handles.current.as_deref().map(Cow::from)),
            result_filehandle: if is_given { text(entry, &[field_labels::OBJECT]) } else { None },
            name: if is_given { handles.name.as_deref().map(Cow::from) } else { text(entry, &NAMES) },
            offset: number(entry, &OFFSETS),
            count: number(entry, &COUNTS),
            data: number(entry, &[field_labels::DATA]),
            eof: entry.get(field_labels::EOF).and_then(Value::as_bool),
            path: names.operation_paths(at).path.map(String::from_utf8_lossy),
            detail: entry.to_string().into(),
            status,
            of: PhantomData,
        })?;
        if let Some(operation) = operation {
            handles.follow(operation, entry);
        }
    }
    Ok(())
}

/// Calls `write_row` with the row of a procedure without operations.
fn procedure<E>(
    transaction: u64,
    summary: &RpcSummary,
    values: &DecodedValuesJson<'_, '_>,
    names: &FileNames,
    mut write_row: impl FnMut(&OperationRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(op) = line::procedure(summary) else { return Ok(()) };
    let [arguments, results] = values.body_values();
    let nested_value =
        |keys: &[&str]| NESTED_KEYS.iter().find_map(|name| keys.iter().find_map(|key| arguments.get(*name)?.get(*key)));
    let nested_text = |keys: &[&str]| nested_value(keys).and_then(Value::as_str).map(Cow::from);
    let data = number(&arguments, &[field_labels::DATA]).or_else(|| number(&results, &[field_labels::DATA]));
    let detail = serde_json::json!({ "arguments": arguments, "results": results }).to_string();
    write_row(&OperationRow {
        transaction,
        position: 0,
        op,
        status: line::status(summary),
        filehandle: text(&arguments, &HANDLES).or_else(|| nested_text(&HANDLES)),
        result_filehandle: text(&results, &RESULT_HANDLE_KEYS),
        name: text(&arguments, &[field_labels::NAME]).or_else(|| nested_text(&[field_labels::NAME])),
        offset: number(&arguments, &[field_labels::OFFSET])
            .or_else(|| unsigned(nested_value(&[field_labels::L_OFFSET])?)),
        count: number(&arguments, &[field_labels::COUNT]),
        data,
        eof: results.get(field_labels::EOF).and_then(Value::as_bool),
        path: names.paths().path.map(String::from_utf8_lossy),
        detail: detail.into(),
        of: PhantomData,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_beyond_floating_point_are_the_same_in_a_table() {
        let arguments = json!({"loga_offset": 4096, "loga_length": "18446744073709551615"});
        assert_eq!(number(&arguments, &OFFSETS), Some(4096));
        assert_eq!(number(&arguments, &COUNTS), Some(u64::MAX));
    }
}
