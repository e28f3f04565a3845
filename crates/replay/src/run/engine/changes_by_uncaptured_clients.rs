//! Changes by clients whose Calls are not in the capture. The steps of the trace show the state without those changes.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_analysis::comparison::field_path_text::{ends_with_labels, has_label};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::{Procedure, v3, v4};
use nfsrdma_nfs_model::names::{Name, Need};

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

/// Meaning of a status for a name or a file.
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
            let statuses = [recorded_value?, live_value?].map(NameStatus::of);
            Some(match statuses {
                [NameStatus::Stale, NameStatus::Ok] => must_have_file(tree, step),
                statuses => any_name((step, difference.section), parts, |names| {
                    explains_statuses((tree, seeded), step.caller.server, statuses, names)
                }),
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

/// A name that an operation looks up, opens, makes, removes or replaces, and the variable of its directory.
type NameInDirectory<'m> = (u32, Name<'m>);

/// Returns `true` if the live status is what the steps so far lead to, and the recorded one is about a name that another
/// client has made or removed. NOENT is about a name that the operation needs, EXIST about one that it makes.
fn explains_statuses(
    (tree, seeded): (&ExpectedFinalTree, &SeededTree),
    server: u32,
    statuses: [NameStatus; 2],
    names: [Option<NameInDirectory<'_>>; 2],
) -> bool {
    let any = |needs: &[Need], predicate: &dyn Fn(NameInDirectory<'_>) -> bool| {
        names.into_iter().flatten().any(|name| needs.contains(&name.1.need) && predicate(name))
    };
    let has_name = |(directory, name): NameInDirectory<'_>| tree.has_name(directory, name.text);
    let lacks_name = |(directory, name): NameInDirectory<'_>| tree.lacks_name(directory, name.text);
    let is_empty = |(directory, name): NameInDirectory<'_>| {
        let made_empty = seeded.empty_directories.contains(&(directory, name_hash(name.text)));
        tree.is_empty((server, directory), name.text, made_empty)
    };
    match statuses {
        [NameStatus::Missing, NameStatus::Ok] => any(&[Need::Present], &has_name),
        [NameStatus::Ok, NameStatus::Missing] => any(&[Need::Present], &lacks_name),
        [NameStatus::Exists, NameStatus::Ok] => {
            any(&[Need::Absent, Need::Replaceable], &lacks_name) || any(&[Need::Replaceable], &is_empty)
        }
        [NameStatus::Ok, NameStatus::Exists] => match names.map(|name| name.map(|(at, name)| (at, name.text))) {
            [Some(old), Some(new)] => tree.cannot_replace(server, old, new),
            _ => any(&[Need::Absent], &has_name),
        },
        // RFC 1813 section 3.3.13, RFC 8881 sections 18.25.4 and 18.26.4: of RENAME, the new name.
        [NameStatus::NotEmpty, NameStatus::Ok] => match names {
            [_, Some(new)] => is_empty(new),
            _ => any(&[Need::Present], &is_empty),
        },
        _ => false,
    }
}

/// Returns `true` if `predicate` for the names of an operation; of a COMPOUND, the one that is `section` of the message.
/// The status in its header (0) is that of an operation, too.
fn any_name(
    (step, section): (&TraceStep<'_>, usize),
    parts: &CallOperationsAndFiles,
    predicate: impl Fn([Option<NameInDirectory<'_>>; 2]) -> bool,
) -> bool {
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    match step.procedure.find_description() {
        Some(Procedure::Compound) => {
            let Ok(call) = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver) else {
                return false;
            };
            call.operations().map_while(Result::ok).enumerate().any(|(at, operation)| {
                at + 1 == section
                    && predicate(Name::of_v4(&operation).map(|name| {
                        let name = name?;
                        let directory = if name.is_old { parts.saved_file(at) } else { parts.current_file(at) };
                        (directory != NONE).then_some((directory, name))
                    }))
            })
        }
        Some(Procedure::V3(procedure)) => {
            let Ok(arguments) = v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver) else {
                return false;
            };
            // The first filehandle of RENAME is that of the old directory, the first of LINK that of the file.
            let is_second =
                |name: &Name<'_>| !name.is_old && matches!(arguments, v3::Args::RENAME(_) | v3::Args::LINK(_));
            predicate(Name::of_v3(&arguments).map(|name| {
                let name = name?;
                let mut directories = step.call.variables(TraceSlotValueKind::FILEHANDLE);
                Some((directories.nth(usize::from(is_second(&name)))?, name))
            }))
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
    use crate::trace::file_format::TraceFileType;

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

    /// Directory 1 has the file `file`, the directory `full` with an entry, and the directory `empty`, but not `gone`.
    fn tree() -> (ExpectedFinalTree, SeededTree) {
        let mut expected = ExpectedFinalTree::new();
        let tree = &mut expected.tree;
        let directory = tree.find_or_add_by_handle(1, 0, 1).unwrap();
        for (name, file_type) in [
            (&b"file"[..], TraceFileType::FILE),
            (b"full", TraceFileType::DIRECTORY),
            (b"empty", TraceFileType::DIRECTORY),
        ] {
            let id = tree.resolve_name(directory, name, NONE, 1).unwrap();
            tree.set_type(id, file_type);
            if name == b"full" {
                tree.resolve_name(id, b"entry", NONE, 1);
            }
        }
        tree.unbind_name(directory, b"gone");
        let mut seeded = SeededTree::default();
        seeded.empty_directories.insert((1, name_hash(b"empty")));
        (expected, seeded)
    }

    fn is_explained(statuses: [NameStatus; 2], names: &[(&'static str, Need)]) -> bool {
        let (expected, seeded) = tree();
        let mut in_directory = [None; 2];
        for (at, (name, need)) in names.iter().enumerate() {
            let is_old = names.len() == 2 && at == 0;
            in_directory[at] = Some((1, Name { text: name.as_bytes(), need: *need, is_old }));
        }
        explains_statuses((&expected, &seeded), 0, statuses, in_directory)
    }

    /// RFC 1813 sections 3.3.3 and 3.3.8, RFC 8881 section 18.16.3: NOENT is about a name that is looked up, opened or
    /// removed, EXIST about one that is made exclusively. For each, the statuses that another client explains, and others.
    #[test]
    fn statuses_concern_needed_and_made_names() {
        use NameStatus::{Exists, Missing, NotEmpty, Ok};
        for (name, need, explained) in [
            ("gone", Need::Present, &[[Ok, Missing]][..]),
            ("gone", Need::Absent, &[[Exists, Ok]]),
            ("gone", Need::Nothing, &[]),
            ("file", Need::Present, &[[Missing, Ok]]),
            ("file", Need::Absent, &[[Ok, Exists]]),
            ("file", Need::Nothing, &[]),
            ("empty", Need::Present, &[[Missing, Ok], [NotEmpty, Ok]]),
            ("full", Need::Present, &[[Missing, Ok]]),
            ("unknown", Need::Present, &[]),
            ("unknown", Need::Absent, &[]),
        ] {
            let all = [[Ok, Missing], [Missing, Ok], [Ok, Exists], [Exists, Ok], [NotEmpty, Ok], [Ok, NotEmpty]];
            let found: Vec<_> = all.into_iter().filter(|statuses| is_explained(*statuses, &[(name, need)])).collect();
            let mut expected = explained.to_vec();
            expected.sort_by_key(|statuses| all.iter().position(|other| other == statuses));
            assert_eq!(found, expected, "{name} {need:?}");
        }
    }

    /// RFC 1813 section 3.3.14, RFC 8881 section 18.26.3: NOENT is about the old name, EXIST about a new one that cannot be
    /// replaced.
    #[test]
    fn statuses_of_rename_concern_names() {
        use NameStatus::{Exists, Missing, NotEmpty, Ok};
        for (statuses, old, new, expected) in [
            ([Ok, Missing], "gone", "file", true),
            ([Ok, Missing], "file", "gone", false),
            ([Missing, Ok], "file", "gone", true),
            ([Missing, Ok], "gone", "file", false),
            ([Ok, Exists], "unknown", "file", false),
            ([Ok, Exists], "file", "file", false),
            ([Ok, Exists], "file", "gone", false),
            ([Ok, Exists], "empty", "full", true),
            ([Ok, Exists], "full", "empty", false),
            ([Ok, Exists], "file", "full", true),
            ([Ok, Exists], "full", "file", true),
            ([Exists, Ok], "file", "gone", true),
            ([Exists, Ok], "full", "empty", true),
            ([Exists, Ok], "empty", "full", false),
            ([NotEmpty, Ok], "full", "empty", true),
            ([NotEmpty, Ok], "empty", "full", false),
        ] {
            let names = [(old, Need::Present), (new, Need::Replaceable)];
            assert_eq!(is_explained(statuses, &names), expected, "{statuses:?} {old} to {new}");
        }
    }
}
