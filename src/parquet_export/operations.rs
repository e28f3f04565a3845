//! Rows of the operations table: those of a COMPOUND, and each other procedure.
//!
//! The values come from the JSON of the operation, so that both are the same.

use std::borrow::Cow;
use std::marker::PhantomData;

use nfsrdma_analysis::names::FileNames;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{Args, CbOperation, Operation};
use nfsrdma_flow::transaction_message_decoding::{DecodedCompound, RpcSummary, TransactionMessages};
use nfsrdma_nfs_model::v4::filehandles::{Filehandles, Handles, Object, Step};
use serde_json::Value;

use super::table_schema::table;
use crate::output::json::line::{self, DecodedValuesJson};
use crate::output::units::HexBytes;

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
        /// Filehandle that it applies to, in hexadecimal: the current filehandle in NFSv4, if known; the saved one, of
        /// the source, in RENAME, LINK, COPY and CLONE; that of the file in a callback or NLM.
        filehandle: Option<Cow<'r, str>>,
        /// RENAME and LINK: that of the directory of the new name; COPY and CLONE: that of the target file.
        target_filehandle: Option<Cow<'r, str>>,
        /// Filehandle in the result: GETFH; LOOKUP, CREATE, MKDIR, SYMLINK and MKNOD of NFSv2 and NFSv3; MNT.
        result_filehandle: Option<Cow<'r, str>>,
        /// File name in the directory `filehandle`; for GETFH the name that led to the file; for extended attributes
        /// the name of the attribute.
        name: Option<Cow<'r, str>>,
        /// RENAME and LINK: the new name in the directory `target_filehandle`.
        target_name: Option<Cow<'r, str>>,
        /// Offset in the file; in COPY and CLONE, in the source.
        offset: Option<u64>,
        /// COPY and CLONE: offset in the file `target_filehandle`.
        target_offset: Option<u64>,
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
    field_labels::FILE_DELEGATE_PREV,
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
/// JSON keys of offsets in the target.
const TARGET_OFFSETS: [&str; 2] = [field_labels::CA_DST_OFFSET, field_labels::CL_DST_OFFSET];
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
const HANDLES: [&str; 7] = [
    field_labels::OBJECT,
    field_labels::FILE,
    field_labels::DIR,
    field_labels::SYMLINK,
    field_labels::FSROOT,
    field_labels::FH,
    field_labels::FROM,
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
/// JSON keys of nested arguments: the source of RENAME, the lock of NLM.
const NESTED_KEYS: [&str; 2] = [field_labels::FROM, field_labels::ALOCK];
/// JSON keys of the new name of RENAME and LINK.
const TARGET_KEYS: [&str; 2] = [field_labels::TO, field_labels::LINK];

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

/// Returns the name in the arguments of an operation. That of an OPEN with a delegation is nested.
fn name(entry: &Value) -> Option<Cow<'_, str>> {
    text(entry, &NAMES).or_else(|| text(entry.get(field_labels::DELEGATE_CUR_INFO)?, &[field_labels::FILE]))
}

/// The operations of a COMPOUND with their objects, and the filehandles of these.
#[derive(Default)]
struct CompoundObjects<'m> {
    steps: Vec<(Operation, Step<'m>)>,
    handles: Handles<'m>,
}

impl<'m> CompoundObjects<'m> {
    /// Follows the operations of the call, and then those of a call that was cut, whose names are in `entries`.
    fn new(compound: &DecodedCompound<'m>, entries: &[Value]) -> Self {
        let Some(call) = &compound.call else { return Self::default() };
        let mut objects = Self::default();
        let mut filehandles = Filehandles::new(call.head.minorversion);
        for (at, entry) in entries.iter().enumerate() {
            let args = call.operations.get(at);
            let by_name = || Operation::from_name(entry.get("op")?.as_str()?);
            let Some(operation) = args.map(Args::operation).or_else(by_name) else { break };
            let step = filehandles.apply(operation, args);
            let result = compound.reply.as_ref().and_then(|reply| reply.operations.get(at));
            objects.handles.learn(&step, result.filter(|result| result.operation() == operation));
            objects.steps.push((operation, step));
        }
        objects
    }

    fn handle<'r>(&self, object: Option<Object>) -> Option<Cow<'r, str>> {
        self.handles.of(object).map(|handle| HexBytes(handle).to_string().into())
    }

    /// Returns the filehandle that an operation is about, and that of its target.
    fn of_operation<'r>(&self, at: usize) -> [Option<Cow<'r, str>>; 2] {
        let Some((operation, step)) = self.steps.get(at) else { return [None, None] };
        let object = if *operation == Operation::PUTFH { step.next } else { step.object(*operation) };
        [object, step.target(*operation)].map(|object| self.handle(object))
    }

    /// Returns the name that led to the object of GETFH.
    fn name_of_given<'v>(&self, at: usize, entries: &'v [Value]) -> Option<Cow<'v, str>> {
        let (_, step) = self.steps.get(at)?;
        name(entries.get(step.current?.operation())?)
    }
}

/// Calls `write_row` with a row for each operation of a transaction.
pub(super) fn for_each_row<E>(
    transaction: u64,
    (messages, summary): (&TransactionMessages<'_>, &RpcSummary),
    values: &DecodedValuesJson<'_, '_>,
    names: &FileNames,
    mut write_row: impl FnMut(&OperationRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(entries) = values.operation_values() else {
        return procedure(transaction, summary, values, names, write_row);
    };
    let objects = CompoundObjects::new(messages.compound(), &entries);
    for ((at, position), entry) in (0..).zip(0..).zip(&entries) {
        let op = entry.get("op").and_then(Value::as_str).unwrap_or_default();
        let is_given = op == Operation::GETFH.name();
        let [mut filehandle, target_filehandle] = objects.of_operation(at);
        if CbOperation::from_name(op).is_some() {
            filehandle = text(entry, &CALLBACK_HANDLE_KEYS);
        }
        write_row(&OperationRow {
            transaction,
            position,
            op: op.into(),
            status: text(entry, &[field_labels::STATUS]),
            filehandle,
            target_filehandle,
            result_filehandle: if is_given { text(entry, &[field_labels::OBJECT]) } else { None },
            name: if is_given { objects.name_of_given(at, &entries) } else { name(entry) },
            target_name: text(entry, &[field_labels::NEWNAME]),
            offset: number(entry, &OFFSETS),
            target_offset: number(entry, &TARGET_OFFSETS),
            count: number(entry, &COUNTS),
            data: number(entry, &[field_labels::DATA]),
            eof: entry.get(field_labels::EOF).and_then(Value::as_bool),
            path: names.operation_paths(at).path.map(String::from_utf8_lossy),
            detail: entry.to_string().into(),
            of: PhantomData,
        })?;
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
    let member = |parents: &[&str], keys: &[&str]| {
        parents.iter().find_map(|parent| keys.iter().find_map(|key| arguments.get(*parent)?.get(*key)))
    };
    let member_text = |parents: &[&str], keys: &[&str]| member(parents, keys).and_then(Value::as_str).map(Cow::from);
    let data = number(&arguments, &[field_labels::DATA]).or_else(|| number(&results, &[field_labels::DATA]));
    let detail = serde_json::json!({ "arguments": arguments, "results": results }).to_string();
    write_row(&OperationRow {
        transaction,
        position: 0,
        op,
        status: line::status(summary),
        filehandle: text(&arguments, &HANDLES).or_else(|| member_text(&NESTED_KEYS, &HANDLES)),
        target_filehandle: member_text(&TARGET_KEYS, &[field_labels::DIR]),
        result_filehandle: text(&results, &RESULT_HANDLE_KEYS),
        name: text(&arguments, &[field_labels::NAME]).or_else(|| member_text(&NESTED_KEYS, &[field_labels::NAME])),
        target_name: member_text(&TARGET_KEYS, &[field_labels::NAME]),
        offset: number(&arguments, &[field_labels::OFFSET])
            .or_else(|| unsigned(member(&NESTED_KEYS, &[field_labels::L_OFFSET])?)),
        target_offset: None,
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
