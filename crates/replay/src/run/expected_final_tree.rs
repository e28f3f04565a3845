//! The file tree that the steps of a run must have left.
//!
//! The tree of the trace is [updated](InferredTree::with_current_state) by the steps that were executed as recorded,
//! which gives the object of each name and the contents of files. Effects of steps that were not sent or went otherwise
//! are not expected: what they may have changed is uncertain.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_nfs_model::types::Types;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_operations_and_files::CallOperationsAndFiles;
use super::dependencies::effects::OperationEffect;
use super::step_outcome::StepOutcome;
use super::tolerance_rules;
use crate::run_plan::reason::PlanReason;
use crate::seed::SeededTree;
use crate::trace::error::TraceError;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{NONE, PayloadContentState, TraceMessage, TracePayload, TraceSlotValueKind, TraceStep};
use crate::tree::inference::TreeInferenceStepInput;
use crate::tree::inferred_object::{InferredObject, InferredObjectId, ROOT};
use crate::tree::inferred_tree::InferredTree;
use crate::tree::latest_file_state::CurrentNameBinding;
use crate::tree::nfs4_tree_inference::MAX_CLONE_BLOCK_BYTES;

/// Maximum number of bytes of content from before the first step that are checked.
const MAX_INITIAL_BYTES: u64 = 1 << 30;
/// Maximum length of a link text that is remembered in bytes.
const MAX_LINK_TEXT_BYTES: u32 = 4096;
/// Maximum number of components of a path that are shown.
pub(super) const MAX_PATH_NAMES: usize = 64;

/// Conformance of a step to the recording, as far as it affects the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutedStepFidelity {
    AsRecorded,
    /// Each operation was executed as recorded, but the attributes in the Reply differ.
    WithOtherAttributes,
    /// An operation had another outcome.
    Differently,
}

#[derive(Debug)]
pub(super) struct ExpectedFinalTree {
    pub(super) tree: InferredTree,
    /// Variables of objects from before the first step whose mode no captured reply shows: access to them is unknown.
    pub(super) modeless: FxHashSet<u32>,
    /// Tree of the steps that need objects that the server did not accept.
    unseeded: InferredTree,
}

impl ExpectedFinalTree {
    pub(super) fn new() -> Self {
        let [tree, unseeded] = [(); 2].map(|()| InferredTree::with_current_state());
        Self { tree, modeless: FxHashSet::default(), unseeded }
    }

    /// Records the names and objects that a step shows that was not sent because it needs an object that the server did
    /// not accept: they cannot be checked.
    pub(super) fn record_unseeded(&mut self, step: &TraceStep<'_>) {
        let frames = [step.origin.call_frame, step.origin.reply_frame];
        let input = step_input(step, [&|_| None, &|_| None]);
        match step.reply.is_empty() {
            true => self.unseeded.update_from_lost_reply(&input, frames),
            false => self.unseeded.update(&input, false, frames),
        }
    }

    /// Returns the number of names and objects that cannot be checked because the server did not accept them or a
    /// directory above them, with up to `max_paths` of their paths; and the number of bytes that would have been written
    /// there.
    pub(super) fn unseeded(&self, max_paths: usize) -> (u64, Vec<String>, u64) {
        let mut names: Vec<_> = self.unseeded.current_names().collect();
        names.sort_unstable_by_key(|binding| (binding.parent.0, binding.name));
        let objects: FxHashSet<_> = names.iter().filter_map(|binding| binding.object).collect();
        let count = names.len() + objects.len();
        let path = |binding: &CurrentNameBinding<'_>| {
            let mut path = String::from_utf8_lossy(binding.name).into_owned();
            let mut at = binding.parent;
            for _ in 0..MAX_PATH_NAMES {
                let name = self.unseeded.nodes().get(at.0 as usize).and_then(|node| node.names.last());
                let Some((name, parent)) = name.and_then(|name| Some((&name.name, name.parent?))) else { break };
                path = format!("{}/{path}", String::from_utf8_lossy(name));
                at = parent;
            }
            path
        };
        let paths = names.iter().take(max_paths).map(path).collect();
        (count as u64, paths, self.unseeded.written_bytes(&|_| false))
    }

    /// Applies the effects of a finished step if it was executed as recorded.
    pub(super) fn apply_step<R: Read + Seek>(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        (outcome, fidelity): (&StepOutcome, ExecutedStepFidelity),
        (is_racing, was_resent, executed_count): (bool, bool, usize),
        is_in_flight: bool,
        contents: &mut ReplayTraceReader<R>,
    ) {
        let frames = [step.origin.call_frame, step.origin.reply_frame];
        let changes_files = || parts.effects.iter().any(|effect| effect.may_change_size_or_links());
        let is_known = match outcome {
            StepOutcome::Matched | StepOutcome::Substituted(_) => step.reply.is_complete() && step.call.is_complete(),
            // A Reply about a file that an earlier step left in another state is not used; the effects of the step are.
            // Neither is one about the rights of another user.
            StepOutcome::Tolerated(tolerance_rules::AFTER | tolerance_rules::CREDENTIALS)
                if !changes_files() && !parts.effects.is_empty() =>
            {
                return;
            }
            StepOutcome::Tolerated(tolerance_rules::AFTER) => {
                fidelity == ExecutedStepFidelity::WithOtherAttributes && step.reply.is_complete()
            }
            // The last answer is the recorded one, unless the recorded one was a delay.
            StepOutcome::Tolerated(tolerance_rules::DELAYED) => {
                fidelity != ExecutedStepFidelity::Differently && step.reply.is_complete()
            }
            // With these rules the files differ from the capture.
            StepOutcome::Tolerated(rule) => {
                ![tolerance_rules::ROOM, tolerance_rules::CREDENTIALS].contains(rule) && step.reply.is_complete()
            }
            // The effects are certain if only relations to earlier values are violated.
            StepOutcome::Mismatched(differences) => {
                let is_relation = |difference: &Difference| difference.kind == DifferenceKind::Relation;
                differences.iter().all(is_relation) && step.reply.is_complete() && step.call.is_complete()
            }
            // An unsupported operation has no effect, but the operations before it in the COMPOUND may have one.
            StepOutcome::Unreplayable(_) => return self.mark_effects_uncertain(step, parts, executed_count),
            StepOutcome::Skipped(_) => return,
        };
        let is_write = |effect: &OperationEffect| {
            !effect.may_change_size_or_links() || matches!(effect, OperationEffect::Write(..))
        };
        if *outcome == StepOutcome::Tolerated(tolerance_rules::ROOM) && parts.effects.iter().all(is_write) {
            // It failed for lack of space in the capture.
            for payload in step.call.payloads.iter() {
                self.tree.record_replacement(&payload, step.caller.server, step.origin.id, frames);
            }
            return;
        }
        // Attributes in a Reply that overlapped a change, or that belong to a differing file, are not used.
        // A copy that the live server makes later reads what the source has then (rule `copy-mode`).
        let copies = parts.effects.iter().any(|effect| matches!(effect, OperationEffect::Copy(..)));
        let is_racing = is_racing
            || fidelity == ExecutedStepFidelity::WithOtherAttributes
            || copies && *outcome != StepOutcome::Matched;
        if !is_known {
            let is_executed = executed_count >= parts.operations.len().max(1);
            // The live server says that it has changed the names.
            let changes_only_names = parts.effects.iter().any(|effect| effect.changes_names())
                && parts.effects.iter().all(|effect| {
                    use OperationEffect::{Link, Remove, Rename};
                    matches!(effect, Link(_) | Remove(_) | Rename(..)) || !effect.may_change_size_or_links()
                });
            let is_known = step.reply.defines_filehandle() || changes_only_names;
            if step.reply.is_empty() && is_known && step.call.is_complete() && is_executed {
                return self.tree.update_from_lost_reply(&step_input(step, [&|_| None, &|_| None]), frames);
            }
            // A change of names that the server refused did not happen, unless it did when the call was first sent. One
            // of data may have happened in part.
            let is_lost = !was_resent && *outcome == StepOutcome::Substituted(PlanReason::ReplyLost.code());
            let changes_data = parts.effects.get(executed_count).is_some_and(|effect| !effect.changes_names());
            let count = if is_lost { executed_count + usize::from(changes_data) } else { usize::MAX };
            self.tree.set_in_flight(is_in_flight && !was_resent);
            self.mark_effects_uncertain(step, parts, count);
            return self.tree.set_in_flight(false);
        }
        if !parts.operations.is_empty() && parts.operations.iter().all(has_no_effect) {
            return;
        }
        // Only the text of symbolic links is read here, no file data.
        let has_text = parts.has_link_text(step.procedure.find_description());
        let mut texts = |message: &TraceMessage<'_>| -> Vec<Option<Vec<u8>>> {
            let payloads = message.payloads.iter().filter(|_| has_text);
            let text = |payload: TracePayload| {
                let is_short = payload.length <= MAX_LINK_TEXT_BYTES;
                let mut bytes = Vec::new();
                let is_read = is_short
                    && payload.content == PayloadContentState::KEPT
                    && contents.content(&payload, &mut bytes).is_ok_and(|is_kept| is_kept);
                is_read.then_some(bytes)
            };
            payloads.map(text).collect()
        };
        let (calls, replies) = (texts(&step.call), texts(&step.reply));
        let call_text = |at: usize| calls.get(at)?.as_deref();
        let reply_text = |at: usize| replies.get(at)?.as_deref();
        self.tree.update(&step_input(step, [&call_text, &reply_text]), is_racing, frames);
    }

    /// Returns the path of a filehandle's object below the captured root, if its names are known, for display.
    pub(super) fn path(&self, file: u32) -> Option<String> {
        let mut at = self.tree.find_by_handle(file)?;
        let mut path = String::new();
        for _ in 0..MAX_PATH_NAMES {
            let node = self.tree.nodes().get(at.0 as usize)?;
            let name = node.names.last()?;
            let Some(parent) = name.parent else { break };
            path = format!("/{}{path}", String::from_utf8_lossy(&name.name));
            at = parent;
        }
        Some(if path.is_empty() { "/".to_owned() } else { path })
    }

    /// Returns the step that created the object of a filehandle, if one did.
    pub(super) fn creation_step(&self, file: u32) -> Option<u64> {
        let node = self.tree.nodes().get(self.tree.find_by_handle(file)?.0 as usize)?;
        (node.existence == TraceObjectOrigin::CREATED && node.step != 0).then_some(node.step)
    }

    /// Returns the size that a file must have after the steps so far, if known.
    pub(super) fn size(&self, file: u32) -> Option<u64> {
        self.tree.current_state(self.tree.find_by_handle(file)?)?.size
    }

    /// Returns `true` if a directory must have this name after the steps so far.
    pub(super) fn has_name(&self, directory: u32, name: &[u8]) -> bool {
        self.tree.has_name(directory, name)
    }

    /// Returns `true` if a directory must not have this name after the steps so far.
    pub(super) fn lacks_name(&self, directory: u32, name: &[u8]) -> bool {
        self.tree.lacks_name(directory, name)
    }

    /// Returns the object that a name in a directory denotes after the steps so far.
    fn bound_object(&self, server: u32, (directory, name): (u32, &[u8])) -> Option<InferredObjectId> {
        let parent = if directory == ROOT { self.tree.root(server) } else { self.tree.find_by_handle(directory) }?;
        self.tree.bound_object(parent, name)
    }

    /// Returns `true` if RENAME must fail after the steps so far, because of the object of the new name: it is a
    /// directory that is not empty, or one of both is a directory and the other is none. RFC 1813 section 3.3.14, RFC
    /// 8881 section 18.26.3.
    pub(super) fn cannot_replace(&self, server: u32, old: (u32, &[u8]), new: (u32, &[u8])) -> bool {
        if !self.has_name(new.0, new.1) {
            return false;
        }
        let [old_id, new_id] = [old, new].map(|name| self.bound_object(server, name));
        let types = |id: Option<InferredObjectId>| {
            id.and_then(|id| self.tree.nodes().get(id.0 as usize)).map_or(Types::ANY, InferredObject::possible_types)
        };
        let [old_types, new_types] = [types(old_id), types(new_id)];
        old_types.and(new_types).is_none() && [old_types, new_types].contains(&Types::DIRECTORY)
            || new_types == Types::DIRECTORY && new_id.is_some_and(|id| self.tree.has_entry(id))
    }

    /// Returns `true` if the directory of a name must be empty after the steps so far: it was `made_empty` before the
    /// first one, or a step made it.
    pub(super) fn is_empty(&self, (server, directory): (u32, u32), name: &[u8], made_empty: bool) -> bool {
        let id = self.bound_object(server, (directory, name));
        id.is_some_and(|id| self.tree.has_no_entry(id) && (made_empty || self.tree.is_created(id)))
    }

    /// Returns `true` if a file must have a name after the steps so far.
    pub(super) fn must_exist(&self, file: u32) -> bool {
        let id = self.tree.find_by_handle(file).filter(|id| !self.tree.is_uncertain(*id));
        let is_certain = |binding: &CurrentNameBinding<'_>| !self.tree.is_name_uncertain(binding.parent, binding.name);
        id.is_some_and(|id| self.tree.current_names().any(|binding| binding.object == Some(id) && is_certain(&binding)))
    }

    /// Adds content from before the first step, which the check reads as well.
    ///
    /// # Errors
    /// Returns an error if the trace cannot be read.
    pub(super) fn add_initial_content<R: Read + Seek>(
        &mut self,
        trace: &mut ReplayTraceReader<R>,
        seeded: &SeededTree,
    ) -> Result<(), TraceError> {
        let mut files: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        let (tree, modeless, mut bytes) = (&mut self.tree, &mut self.modeless, 0);
        trace.for_each_object(|object| {
            let seeded_handle = object.handles.iter().find(|handle| seeded.handles.contains_key(handle));
            if let Some(handle) = seeded_handle {
                files.insert(object.number, (handle, object.server));
                if object.mode == NONE {
                    modeless.extend(object.handles.iter());
                }
                if object.file_type == TraceFileType::FILE && object.is_size_known {
                    tree.set_initial_size(handle, object.server, object.size);
                }
            }
        })?;
        trace.for_each_extent(|extent| {
            let Some((file, server)) = files.get(&extent.object) else { return };
            bytes += u64::from(extent.length);
            if bytes > MAX_INITIAL_BYTES {
                return;
            }
            let payload = TracePayload {
                at: 0,
                length: extent.length,
                is_inside: false,
                content: extent.content,
                hash: extent.hash,
                data: extent.data,
                operation: 0,
                file: *file,
                offset: extent.offset,
            };
            tree.add_initial_content(&payload, *server);
        })
    }

    /// Marks the effects of a step as uncertain. One that only reads has none.
    pub(super) fn mark_uncertain(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        self.mark_effects_uncertain(step, parts, usize::MAX);
    }

    /// Marks what the first `count` operations may have changed as uncertain: names, ranges, or objects.
    pub(super) fn mark_effects_uncertain(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        count: usize,
    ) {
        // Calls of MOUNT, NLM and the port mapper change no files.
        if ![Program::NFS.0, Program::NFSACL.0].contains(&step.procedure.program) {
            return;
        }
        let is_readable = step.call.is_complete() && !parts.effects.is_empty();
        if is_readable && !parts.effects.iter().take(count).any(|effect| effect.may_change_size_or_links()) {
            return;
        }
        let step_key = (step.caller.server, step.origin.id);
        // CREATE of NFSv3 may truncate a file that is there.
        let may_truncate = parts.set_size_bytes.is_some() || step.procedure.version == 3;
        let mut is_whole = !is_readable;
        for (at, effect) in parts.effects.iter().enumerate().take(count) {
            let file = affected_handle(step, parts, at);
            match effect {
                _ if !effect.may_change_size_or_links() => {}
                OperationEffect::Link(name) | OperationEffect::Remove(name) => {
                    self.tree.mark_name_uncertain(file, step_key, *name, false);
                }
                OperationEffect::Create(name) | OperationEffect::Open(Some(name), _) => {
                    self.tree.mark_name_uncertain(file, step_key, *name, may_truncate);
                }
                OperationEffect::Open(None, _) if !may_truncate => {}
                OperationEffect::Rename(from, to) => {
                    let source = match parts.operations.is_empty() {
                        true => step.call.variable(TraceSlotValueKind::FILEHANDLE).unwrap_or(NONE),
                        false => parts.saved_file(at),
                    };
                    for (directory, name) in [(source, from), (file, to)] {
                        self.tree.mark_name_uncertain(directory, step_key, *name, false);
                    }
                }
                OperationEffect::ChangeAttributes if is_attribute_change(parts, at) => {
                    if let Some(size) = parts.set_size_bytes {
                        self.tree.mark_range_uncertain(file, step_key, size, u64::MAX);
                    }
                    self.tree.mark_mode_uncertain(file, step_key);
                }
                OperationEffect::Copy(_, to, count) if file != NONE => {
                    let end = if *count == 0 { u64::MAX } else { to.saturating_add(*count) };
                    // The rest of the last block of a CLONE may be zeros.
                    let end = end.checked_next_multiple_of(MAX_CLONE_BLOCK_BYTES).unwrap_or(u64::MAX);
                    self.tree.mark_range_uncertain(file, step_key, *to, end);
                }
                OperationEffect::Write(from, length) => {
                    let is_of_operation =
                        |payload: &TracePayload| payload.operation as usize == at || step.procedure.version == 3;
                    let payload =
                        || step.call.payloads.iter().find(is_of_operation).map(|payload| payload.length.into());
                    let end = length.or_else(payload).map_or(u64::MAX, |length| from.saturating_add(length));
                    self.tree.mark_range_uncertain(file, step_key, *from, end);
                }
                // The names or files of these are not all known here.
                _ => is_whole = true,
            }
            is_whole |= file == NONE && effect.may_change_size_or_links();
        }
        if is_whole {
            self.tree.mark_uncertain(&step_input(step, [&|_| None, &|_| None]));
            if !is_readable || parts.effects.iter().any(|effect| effect.changes_names()) {
                self.mark_unknown_directories(step, parts);
            }
        }
    }

    /// Records a change of names in a directory without a filehandle in the Call: looked up from the root.
    fn mark_unknown_directories(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        const LOOKUPS: [Operation; 4] =
            [Operation::LOOKUP, Operation::LOOKUPP, Operation::PUTROOTFH, Operation::PUTPUBFH];
        let has_handle = step.call.variable(TraceSlotValueKind::FILEHANDLE).is_some();
        if !has_handle || parts.operations.iter().any(|operation| LOOKUPS.contains(operation)) {
            self.tree.mark_unknown_changes();
        }
    }
}

/// Returns the variable of the directory in which an operation changes a name, or else of its file; else [`NONE`].
fn affected_handle(step: &TraceStep<'_>, parts: &CallOperationsAndFiles, at: usize) -> u32 {
    let effect = parts.effects.get(at);
    if parts.operations.is_empty() {
        // The directory is the second filehandle of LINK, the new one that of RENAME, and the first of the others.
        let is_second = matches!(effect, Some(OperationEffect::Link(_) | OperationEffect::Rename(..)));
        let skipped = usize::from(is_second);
        return step.call.variables(TraceSlotValueKind::FILEHANDLE).nth(skipped).unwrap_or(NONE);
    }
    // OPEN by name and CREATE make the new object the current one.
    let is_directory_before = matches!(effect, Some(OperationEffect::Create(_) | OperationEffect::Open(Some(_), _)));
    match is_directory_before {
        true => parts.current_file(at),
        false => parts.files.get(at).copied().unwrap_or(NONE),
    }
}

/// Returns `true` for SETATTR, and for changes of extended attributes, which are not checked.
fn is_attribute_change(parts: &CallOperationsAndFiles, at: usize) -> bool {
    match parts.operations.get(at) {
        None => true,
        Some(operation) => {
            matches!(*operation, Operation::SETATTR | Operation::SETXATTR | Operation::REMOVEXATTR)
        }
    }
}

/// Returns `true` if an operation changes nothing that is checked at the end, and returns nothing of it.
fn has_no_effect(operation: &Operation) -> bool {
    matches!(
        *operation,
        Operation::SEQUENCE
            | Operation::PUTFH
            | Operation::READ
            | Operation::READ_PLUS
            | Operation::ACCESS
            | Operation::RENEW
    )
}

fn step_input<'s>(
    step: &'s TraceStep<'s>,
    contents: [&'s dyn Fn(usize) -> Option<&'s [u8]>; 2],
) -> TreeInferenceStepInput<'s> {
    TreeInferenceStepInput {
        id: step.origin.id,
        server: step.caller.server,
        is_reverse: step.caller.is_reverse,
        procedure: &step.procedure,
        call: &step.call,
        reply: &step.reply,
        contents,
    }
}
