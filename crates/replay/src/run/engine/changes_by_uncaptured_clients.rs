//! Changes by clients whose Calls are not in the capture. The steps of the trace show the state without those changes.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_analysis::comparison::field_path_text::{ends_with_labels, has_label};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::{Procedure, v3, v4};
use nfsrdma_nfs_model::v4::filehandles::claimed_name;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::dependencies::effects::OperationEffect;
use super::super::expected_final_tree::ExpectedFinalTree;
use super::super::file_divergence::FileDivergence;
use super::super::rpc_header_splitting::successful_results;
use super::reply_check_queue::LiveReply;
use crate::seed::SeededTree;
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};
use crate::tree::inferred_object::name_hash;

/// What a status says about a name or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameStatus {
    Ok,
    Missing,
    Exists,
    NotEmpty,
    Stale,
    Other,
}

impl NameStatus {
    fn of(status: &str) -> Self {
        match status.split_once("ERR_").map(|(_, name)| name) {
            None if status.ends_with("_OK") => Self::Ok,
            Some("NOENT") => Self::Missing,
            Some("EXIST") => Self::Exists,
            Some("NOTEMPTY") => Self::NotEmpty,
            Some("STALE") => Self::Stale,
            _ => Self::Other,
        }
    }
}

/// Detects a change made in the capture by a client whose Calls are not there: the live Reply agrees with the steps
/// so far, and the recorded one does not.
pub(super) fn detect_outside_change<R: Read + Seek>(
    (tree, seeded): (&ExpectedFinalTree, &SeededTree),
    written_bytes: &[u64],
    step: &TraceStep<'_>,
    parts: &CallOperationsAndFiles,
    live: LiveReply<'_>,
    differences: &[Difference],
    contents: &mut ReplayTraceReader<R>,
) -> Result<Option<FileDivergence>, TraceError> {
    for difference in differences {
        let [recorded_value, live_value] = [&difference.a, &difference.b].map(|side| side.value.as_deref());
        // A server that does not carry out the step's own change of the size shows the size before it, too.
        let is_before = has_label(&difference.path, field_labels::BEFORE);
        let must_have = |size: u64| {
            step.filehandles().any(|file| {
                let before = tree.size(file);
                let after = || size_after_step(before?, file, parts, written_bytes);
                (if is_before { before } else { after() }) == Some(size)
            })
        };
        if ends_with_labels(&difference.path, &[field_labels::SIZE])
            && live_value.and_then(|size| size.parse().ok()).is_some_and(must_have)
        {
            return Ok(Some(FileDivergence::by_other_client(false)));
        }
        let is_name_change = || {
            let [recorded, live] = [recorded_value?, live_value?].map(NameStatus::of);
            let has_name =
                || any_name((step, difference.section), parts, |directory, name| tree.has_name(directory, name));
            let lacks_name =
                || any_name((step, difference.section), parts, |directory, name| tree.lacks_name(directory, name));
            let is_empty = |directory, name: &[u8]| {
                let made_empty = seeded.empty_directories.contains(&(directory, name_hash(name)));
                tree.is_empty((step.caller.server, directory), name, made_empty)
            };
            Some(match (recorded, live) {
                (NameStatus::Stale, NameStatus::Ok) => must_have_file(tree, step),
                (NameStatus::Missing, NameStatus::Ok) | (NameStatus::Ok, NameStatus::Exists) => has_name(),
                (NameStatus::Exists, NameStatus::Ok) | (NameStatus::Ok, NameStatus::Missing) => lacks_name(),
                // RFC 1813 section 3.3.13, RFC 8881 sections 18.25.4 and 18.26.4.
                (NameStatus::NotEmpty, NameStatus::Ok) => any_name((step, difference.section), parts, is_empty),
                _ => false,
            })
        };
        if difference.kind == DifferenceKind::Status && is_name_change().unwrap_or(false) {
            return Ok(Some(FileDivergence::by_other_client(true)));
        }
    }
    for payload in step.reply.payloads.iter().filter(|payload| payload.file != NONE) {
        let Some(data) = read_data(step, live, payload.operation) else { continue };
        let end = payload.offset.saturating_add(data.len() as u64);
        let is_other = end != payload.offset.saturating_add(payload.length.into());
        // The common part of the data must be the same.
        if is_other
            && tree.size(payload.file) == Some(end)
            && is_data_unchanged_except(step, live, &FileDivergence::default(), contents)?
        {
            return Ok(Some(FileDivergence::by_other_client(false)));
        }
    }
    Ok(None)
}

/// Returns the size in bytes that a file has after a step, `None` if it depends on more than the Call.
fn size_after_step(size: u64, file: u32, parts: &CallOperationsAndFiles, written_bytes: &[u64]) -> Option<u64> {
    let mut size = size;
    for (at, effect) in parts.effects.iter().enumerate() {
        // A Call of NFSv3 has one effect, on the file of its first filehandle.
        if !parts.operations.is_empty() && parts.files.get(at) != Some(&file) {
            continue;
        }
        match effect {
            OperationEffect::Write(..) if parts.operations.get(at) == Some(&v4::Operation::DEALLOCATE) => {}
            OperationEffect::Write(offset, _) => {
                let bytes = written_bytes.get(at).copied().unwrap_or(0);
                size = size.max(offset.saturating_add(bytes));
            }
            OperationEffect::ChangeAttributes | OperationEffect::Open(_, true) => {
                size = parts.set_size_bytes.unwrap_or(size);
            }
            effect if effect.may_change_size_or_links() => return None,
            _ => {}
        }
    }
    Some(size)
}

/// Returns `true` if a file whose filehandle the step has must exist after the steps so far.
fn must_have_file(tree: &ExpectedFinalTree, step: &TraceStep<'_>) -> bool {
    step.call.variables(TraceSlotValueKind::FILEHANDLE).any(|file| tree.must_exist(file))
}

/// Returns `true` if `is_so` for the name that a step looks up, opens, makes, removes or replaces, and the variable of
/// its directory. Of a COMPOUND, the operation counts that is `section` of the message; all if that is 0.
fn any_name(
    (step, section): (&TraceStep<'_>, usize),
    parts: &CallOperationsAndFiles,
    is_so: impl Fn(u32, &[u8]) -> bool,
) -> bool {
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    match step.procedure.find_description() {
        Some(Procedure::Compound) => {
            let Ok(call) = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver) else {
                return false;
            };
            call.operations().map_while(Result::ok).enumerate().any(|(at, operation)| {
                if section != 0 && at + 1 != section {
                    return false;
                }
                let name = match &operation {
                    v4::Args::LOOKUP(args) => args.objname.0,
                    v4::Args::REMOVE(args) => args.target.0,
                    v4::Args::CREATE(args) => args.objname.0,
                    v4::Args::LINK(args) => args.newname.0,
                    v4::Args::RENAME(args) => args.newname.0,
                    v4::Args::OPEN(args) => match claimed_name(&args.claim) {
                        Some(name) => name,
                        None => return false,
                    },
                    _ => return false,
                };
                let directory = parts.current_file(at);
                directory != NONE && is_so(directory, name)
            })
        }
        Some(Procedure::V3(procedure)) => {
            let Ok(arguments) = v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver) else {
                return false;
            };
            let mut directories = step.call.variables(TraceSlotValueKind::FILEHANDLE);
            let name = match &arguments {
                v3::Args::LOOKUP(args) => args.what.name.0,
                v3::Args::REMOVE(args) | v3::Args::RMDIR(args) => args.object.name.0,
                v3::Args::CREATE(args) => args.r#where.name.0,
                v3::Args::MKDIR(args) => args.r#where.name.0,
                v3::Args::SYMLINK(args) => args.r#where.name.0,
                v3::Args::MKNOD(args) => args.r#where.name.0,
                // Their first filehandles are those of the old name, and of the file.
                v3::Args::RENAME(v3::Rename3Args { to, .. }) | v3::Args::LINK(v3::Link3Args { link: to, .. }) => {
                    let _ = directories.next();
                    to.name.0
                }
                _ => return false,
            };
            directories.next().is_some_and(|directory| is_so(directory, name))
        }
        _ => false,
    }
}

/// Returns `true` if the file data of a Reply equals the recorded data, except for bytes changed by an earlier step
/// and data that the trace does not have.
pub(super) fn is_data_unchanged_except<R: Read + Seek>(
    step: &TraceStep<'_>,
    live: LiveReply<'_>,
    touched: &FileDivergence,
    contents: &mut ReplayTraceReader<R>,
) -> Result<bool, TraceError> {
    let mut recorded_data = Vec::new();
    for payload in step.reply.payloads.iter().filter(|payload| payload.file != NONE) {
        if !contents.content_or_generated(&payload, &mut recorded_data)? {
            continue;
        }
        let Some(data) = read_data(step, live, payload.operation) else { continue };
        let end = payload.offset.saturating_add(recorded_data.len().min(data.len()) as u64);
        let is_same = touched.unchanged_ranges(payload.offset, end).into_iter().all(|(from, to)| {
            let range = (from - payload.offset) as usize..(to - payload.offset) as usize;
            recorded_data.get(range.clone()) == data.get(range)
        });
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the data of a READ in a live Reply; `operation` is its index in a COMPOUND.
fn read_data<'a>(step: &TraceStep<'_>, live: LiveReply<'a>, operation: u32) -> Option<&'a [u8]> {
    let mut cursor = successful_results(live.cursor())?;
    match step.procedure.find_description()? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            match reply.operations().map_while(Result::ok).nth(operation as usize)? {
                v4::Results::READ(outcome) => outcome.ok()?.data.bytes(),
                _ => None,
            }
        }
        Procedure::V3(v3::Procedure::READ) => {
            match v3::Results::decode(v3::Procedure::READ, &mut cursor, &mut NullFieldObserver).ok()? {
                v3::Results::READ(outcome) => outcome.ok()?.data.bytes(),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1813 section 2.6, RFC 8881 section 15.1.
    #[test]
    fn statuses_of_versions_mean_the_same() {
        for (status, expected) in [
            ("NFS3_OK", NameStatus::Ok),
            ("NFS4_OK", NameStatus::Ok),
            ("NFS3ERR_NOENT", NameStatus::Missing),
            ("NFS4ERR_EXIST", NameStatus::Exists),
            ("NFS3ERR_NOTEMPTY", NameStatus::NotEmpty),
            ("NFS4ERR_STALE", NameStatus::Stale),
            ("NFS4ERR_IO", NameStatus::Other),
        ] {
            assert_eq!(NameStatus::of(status), expected, "{status}");
        }
    }
}
