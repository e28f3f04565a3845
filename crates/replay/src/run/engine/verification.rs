//! Verification of a run: live Replies against recorded ones, and the file tree that the steps must leave.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{CompoundReply, OpenDelegation4, Operation, Results};
use nfsrdma_dissectors::nfs::{StatusUnion, field_labels};
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::{Program, RpcMsg};
use nfsrdma_dissectors::xdr::Cursor;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::dependencies::effects::OperationEffect;
use super::super::difference_path::{TracePaths, path_of_difference};
use super::super::expected_final_tree::{ExecutedStepFidelity, ExpectedFinalTree};
use super::super::file_divergence::{FileDivergence, MAX_DIVERGENT_FILES, record_divergence};
use super::super::missing_calls::MissingCalls;
use super::super::options::ReplayOptions;
use super::super::reply_check::reply_pair::{ReplyCheckResult, ReplyCheckStepContext, ReplyPair};
use super::super::reply_check::{ReplyChecker, UNLISTED};
use super::super::step_outcome::StepOutcome;
use super::super::{recovery, root_and_attribute_rewriting, tolerance_rules};
use super::changes_by_uncaptured_clients::{detect_outside_change, is_data_unchanged_except};
use super::lock_stateid_change_detection::LiveLockStateidChangeDetector;
use super::recorded_reply::{recorded_items, unprotected_reply};
use super::reply_check_queue::{LiveReply, ReplyCheckQueue, UncheckedLiveReplyFacts};
use super::step_window::StepWindowEntry;
use crate::run_plan::reason::PlanReason;
use crate::seed::SeededTree;
use crate::trace::error::TraceError;
use crate::trace::file_format::LONGEST;
use crate::trace::generated_file_data;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{
    MessageCaptureCompleteness, NONE, PayloadContentState, TracePayload, TraceSlotValueKind, TraceStep,
};
use crate::tree::inferred_object::ROOT;

/// Maximum number of bytes of a symbolic link's text that are read for comparison.
const MAX_LINK_TEXT_BYTES: u32 = 4096;
/// State of a step whose recorded Reply shows a change by another client.
const CHANGED_OUTSIDE_REASON: &str =
    "changed by another client: the capture shows the effects of its calls, but not the calls";

/// State that determines whether a live Reply is right. It sends nothing.
pub(super) struct LiveReplyVerificationState<'r> {
    seeded: &'r SeededTree,
    options: &'r ReplayOptions,
    signs_calls: bool,
    pub(super) checker: ReplyChecker,
    pub(super) unchecked_replies: ReplyCheckQueue,
    /// Variables given by Replies that are not processed yet.
    pub(super) pending_variables: FxHashSet<u32>,
    pub(super) expected_tree: Option<ExpectedFinalTree>,
    /// Paths of the whole capture, read for the first mismatch whose file the tree does not know.
    trace_paths: Option<TracePaths>,
    /// Calls that are missing from the capture.
    pub(super) missing_calls: MissingCalls,
    /// Number of replayed calls that were in flight when the capture ended.
    pub(super) calls_in_flight: u64,
    pub(super) locks: LiveLockStateidChangeDetector,
    /// Differences of files from the capture caused by earlier steps, by the variable of the file.
    pub(super) divergent_files: FxHashMap<u32, FileDivergence>,
    /// Variables of directories in which a create, remove or rename was not sent.
    pub(super) unmodified_directories: FxHashSet<u32>,
    /// Hashes of names that a step without a captured reply may have changed, and variables of their directories.
    pub(super) uncertain_names: FxHashSet<u64>,
    pub(super) uncertain_directories: FxHashSet<u32>,
    /// `true` if an open of the trace, or one that replaces a delegation, is closed by no step.
    pub(super) leaves_open: bool,
    /// For each operation of the answered step, `true` if its file is a directory.
    pub(super) is_directory: Vec<bool>,
    /// For each operation of the answered step, the number of bytes that it writes.
    pub(super) written_bytes: Vec<u64>,
    /// Length and hash of the file data that the Reply must have, and a buffer for data generated from the key.
    pub(super) expected_data: Vec<(u32, Option<u128>)>,
    pub(super) key_data: Vec<u8>,
}

impl<'r> LiveReplyVerificationState<'r> {
    pub(super) fn new(options: &'r ReplayOptions, seeded: &'r SeededTree, signs_calls: bool) -> Self {
        Self {
            seeded,
            options,
            signs_calls,
            checker: ReplyChecker::for_run(options, seeded),
            unchecked_replies: ReplyCheckQueue::default(),
            pending_variables: FxHashSet::default(),
            expected_tree: Some(ExpectedFinalTree::new()),
            trace_paths: None,
            missing_calls: MissingCalls::default(),
            calls_in_flight: 0,
            locks: LiveLockStateidChangeDetector::default(),
            divergent_files: FxHashMap::default(),
            unmodified_directories: seeded.parents_of_refused.clone(),
            uncertain_names: FxHashSet::default(),
            uncertain_directories: FxHashSet::default(),
            leaves_open: false,
            is_directory: Vec::new(),
            written_bytes: Vec::new(),
            expected_data: Vec::new(),
            key_data: Vec::new(),
        }
    }

    /// Records that a step that the filter does not select does not change its files.
    pub(super) fn record_filtered(&mut self, step: &TraceStep<'_>, entry: &StepWindowEntry) {
        if entry.description.effects.is_empty() || entry.may_change_size_or_links() {
            for file in step.filehandles() {
                record_divergence(&mut self.divergent_files, file, &FileDivergence::everything());
            }
        }
    }

    /// Returns the path of the file that a difference of a step is about, below the captured root.
    pub(super) fn path_of_difference<R: Read + Seek>(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        difference: Option<&Difference>,
        contents: &mut ReplayTraceReader<R>,
    ) -> Option<String> {
        let tree = self.expected_tree.as_ref();
        let live = |file: u32| tree.and_then(|tree| tree.path(file));
        let is_unknown = |file: u32| live(file).is_none();
        if self.trace_paths.is_none() && step.filehandles().any(is_unknown) {
            // A trace that cannot be read ends the run elsewhere.
            self.trace_paths = Some(TracePaths::read(contents).unwrap_or_default());
        }
        let captured = |file: u32| self.trace_paths.as_ref().and_then(|paths| paths.path(file));
        let (section, field) = difference.map_or((0, ""), |difference| (difference.section, &difference.path));
        path_of_difference(step, parts, (section, field), &|file| live(file).or_else(|| captured(file)))
    }

    /// Returns the files of a step other than the directories from before it.
    fn files_of_step(&self, step: &TraceStep<'_>) -> Vec<u32> {
        let directories = &self.seeded.directories;
        step.filehandles().filter(|file| !directories.contains(file)).collect()
    }

    /// Records that a step, if it lists a directory, is not compared.
    fn forget_listing(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        if let Some((directory, _)) = listed_directory(step, parts) {
            self.checker.forget_listing(directory);
        }
    }

    /// Returns the names of a part of a captured listing that the live one does not have so far.
    pub(super) fn unlisted_names(
        &self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        names: &[&[u8]],
    ) -> FxHashSet<Box<[u8]>> {
        listed_directory(step, parts)
            .map_or_else(FxHashSet::default, |listing| self.checker.unlisted_names(listing, names))
    }

    /// Records the names that a step changes, or would have changed, in directories that are being listed.
    fn record_name_changes(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        // The directory may be one that was looked up.
        let is_anywhere =
            parts.has_root() || parts.effects.iter().any(|effect| matches!(effect, OperationEffect::Lookup(_)));
        for effect in parts.effects.iter().filter(|effect| effect.changes_names()) {
            for name in effect.names() {
                let is_affected = |directory| is_anywhere || step.filehandles().any(|file| file == directory);
                self.checker.record_name_change(name, is_affected);
            }
        }
    }

    /// Records that the effects of a step on its files did not take place.
    pub(super) fn record_undone_effects(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        self.forget_listing(step, parts);
        self.record_name_changes(step, parts);
        let files = self.files_of_step(step);
        record_operation_divergence(&mut self.divergent_files, step, parts, &files, 0);
        if parts.effects.iter().any(|effect| effect.changes_names()) {
            let free_count = MAX_DIVERGENT_FILES - self.unmodified_directories.len();
            let directories = step.call.variables(TraceSlotValueKind::FILEHANDLE);
            self.unmodified_directories.extend(directories.take(free_count));
        }
        self.leaves_open |= parts
            .operations
            .iter()
            .any(|operation| matches!(*operation, Operation::CLOSE | Operation::DELEGRETURN | Operation::LOCKU));
    }

    /// Records that the captured server may not have executed a step, or at another time: later replies about its files
    /// and its names may differ.
    pub(super) fn record_unknown_effects(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        let files = self.files_of_step(step);
        record_operation_divergence(&mut self.divergent_files, step, parts, &files, 0);
        for effect in parts.effects.iter().filter(|effect| effect.changes_names()) {
            if self.uncertain_names.len() + 2 <= MAX_DIVERGENT_FILES {
                self.uncertain_names.extend(effect.names());
            }
            let free_count = MAX_DIVERGENT_FILES - self.uncertain_directories.len();
            let directories = step.call.variables(TraceSlotValueKind::FILEHANDLE);
            self.uncertain_directories.extend(directories.take(free_count));
        }
    }

    /// Returns `true` if an operation looks up, changes or lists a name of which it is unknown whether it exists in the
    /// capture.
    fn touches_uncertain_name(&self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) -> bool {
        if self.uncertain_names.is_empty() {
            return false;
        }
        let lists = parts.effects.contains(&OperationEffect::ReadDirectory);
        parts.effects.iter().flat_map(|effect| effect.names()).any(|name| self.uncertain_names.contains(&name))
            || lists
                && (parts.has_root()
                    || step
                        .call
                        .variables(TraceSlotValueKind::FILEHANDLE)
                        .any(|directory| self.uncertain_directories.contains(&directory)))
    }

    pub(super) fn check<R: Read + Seek>(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        findings: &UncheckedLiveReplyFacts,
        contents: &mut ReplayTraceReader<R>,
    ) -> Result<StepOutcome, TraceError> {
        self.record_name_changes(step, &entry.description);
        let (mut state, fidelity) = match findings.is_echo {
            true => self.compare_reply(entry, step, live, findings, contents)?,
            // A Reply whose SEQUENCE has another slot than its Call. RFC 8881 section 18.46.3.
            false => {
                let values = ["the session, slot and sequence ID of the call", "others"].map(str::to_owned);
                let difference = entry.difference(DifferenceKind::Result, enumerator_names::SEQUENCE, values);
                (StepOutcome::Mismatched(vec![difference]), ExecutedStepFidelity::Differently)
            }
        };
        let values = match findings.missing.map(TraceSlotValueKind::display_name) {
            Some(name) => Some([format!("gave a {name}"), format!("gave no {name}")]),
            None if findings.is_other_lock => {
                Some(["gave the stateid of these locks", "gave another"].map(str::to_owned))
            }
            None => None,
        };
        if let Some(values) = values
            && matches!(state, StepOutcome::Matched | StepOutcome::Tolerated(_) | StepOutcome::Substituted(_))
        {
            state = StepOutcome::Mismatched(vec![entry.difference(DifferenceKind::Identity, "", values)]);
        }
        if entry.rewrites.piece.is_some() && state == StepOutcome::Matched {
            state = StepOutcome::Substituted(recovery::SPLIT.code);
        }
        if entry.rewrites.listing.is_some() && state == StepOutcome::Matched {
            state = StepOutcome::Tolerated(tolerance_rules::LISTING);
        }
        if entry.resend.count > 0 {
            state = recovery::resent_state(state, findings.is_done_twice, entry.resend.renewals > 0);
        } else if entry.resend.completed_client && matches!(state, StepOutcome::Matched | StepOutcome::Tolerated(_)) {
            state = StepOutcome::Substituted(recovery::CLIENT_COMPLETED.code);
        } else if entry.resend.denials > 0 && matches!(state, StepOutcome::Matched | StepOutcome::Tolerated(_)) {
            state = StepOutcome::Substituted(match entry.resend.was_unbound {
                true => recovery::CONNECTION_BOUND.code,
                false => recovery::CONTEXT_RENEWED.code,
            });
        }
        if !has_recorded_effects(&state, fidelity) {
            self.mark_objects_uncertain(entry, step, &state);
            let is_lost = state == StepOutcome::Substituted(PlanReason::ReplyLost.code());
            // No step closes an open whose stateid is unknown.
            let may_open = |operation: &Operation| matches!(*operation, Operation::OPEN | Operation::LOCK);
            self.leaves_open |= is_lost && entry.description.operations.iter().any(may_open);
            if is_lost && !(step.reply.defines_filehandle() && findings.outcome.is_success()) {
                self.record_unknown_effects(step, &entry.description);
            }
        } else if matches!(state, StepOutcome::Matched | StepOutcome::Tolerated(_))
            && !entry.captured.overlaps_change
            && !entry.call.overlaps_change
        {
            self.clear_written_divergence(step, &entry.description);
        }
        let is_in_flight = state == StepOutcome::Substituted(PlanReason::ReplyLost.code())
            && self.missing_calls.is_in_flight_at_end(step);
        self.calls_in_flight += u64::from(is_in_flight);
        if let Some(tree) = &mut self.expected_tree {
            // The last status is that of the operation that failed, unless all succeeded.
            let failed_count = usize::from(!findings.outcome.is_success());
            let executed_count = findings.outcome.statuses.len().saturating_sub(failed_count);
            let circumstances = (entry.captured.overlaps_change, entry.resend.count > 0, executed_count);
            tree.apply_step(step, &entry.description, (&state, fidelity), circumstances, is_in_flight, contents);
        }
        if let StepOutcome::Mismatched(differences) = &state
            && !self.options.strict
        {
            let tree = self.expected_tree.as_ref();
            let creation_of = |file: u32| tree.and_then(|tree| tree.creation_step(file));
            if self.missing_calls.explain(step, &entry.description, differences, &creation_of) {
                state = StepOutcome::Substituted(recovery::CALL_MISSING.code);
            }
        }
        Ok(state)
    }

    /// Ends the divergence of file data that a step has written as in the capture.
    fn clear_written_divergence(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        if self.divergent_files.is_empty() {
            return;
        }
        for (at, effect) in parts.effects.iter().enumerate() {
            let OperationEffect::Write(offset, _) = effect else { continue };
            let file = parts.files.get(at).and_then(|file| self.divergent_files.get_mut(file));
            let Some(file) = file.filter(|_| sends_recorded_data(step, at)) else { continue };
            file.clear_data_range(*offset, offset.saturating_add(written_bytes(step, at)));
        }
    }

    /// Marks the objects of a step as uncertain, if the step may have changed them or its Reply did not match.
    pub(super) fn mark_objects_uncertain(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        state: &StepOutcome,
    ) {
        if !matches!(state, StepOutcome::Mismatched(_)) && !entry.description.may_change() {
            return;
        }
        let files = step.filehandles().chain(entry.description.files.iter().copied());
        let description = &entry.description;
        let may_change_sizes = description.may_change_sizes();
        self.checker.relations.mark_uncertain(files, &description.effects, may_change_sizes);
    }

    fn compare_reply<R: Read + Seek>(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        findings: &UncheckedLiveReplyFacts,
        contents: &mut ReplayTraceReader<R>,
    ) -> Result<(StepOutcome, ExecutedStepFidelity), TraceError> {
        let outcome = &findings.outcome;
        let message = unprotected_reply(step);
        if step.reply.completeness != MessageCaptureCompleteness::WHOLE {
            self.forget_listing(step, &entry.description);
            return Ok((StepOutcome::Substituted(PlanReason::ReplyLost.code()), ExecutedStepFidelity::AsRecorded));
        }
        // The client's next Call shows what the captured server decided.
        let is_decided = outcome.is_success() || outcome.is_refused();
        let is_delayed_in_capture = findings.was_delayed_in_capture && is_decided;
        // A reply of NLM has nothing else to compare.
        if is_delayed_in_capture && step.procedure.program == Program::NLM.0 && !self.options.strict {
            return Ok((StepOutcome::Tolerated(tolerance_rules::DELAYED), ExecutedStepFidelity::Differently));
        }
        let key = contents.summary().key;
        let is_text = entry.description.reads_link(step.procedure.find_description());
        let payloads = || step.reply.payloads.iter().filter(|payload| !payload.is_inside);
        // Only the text of symbolic links is read; for file data the hash suffices.
        let mut texts: Vec<Option<Vec<u8>>> = Vec::new();
        self.expected_data.clear();
        for payload in payloads() {
            let is_read = is_text
                && payload.length <= MAX_LINK_TEXT_BYTES
                && matches!(payload.content, PayloadContentState::KEPT | PayloadContentState::ZEROS);
            let mut text = Vec::new();
            let is_known = is_read && contents.content(&payload, &mut text)?;
            if is_text {
                texts.push(is_known.then_some(text));
            }
            if !is_known {
                self.expected_data.push((payload.length, expected_hash(key, &payload, &mut self.key_data)));
            }
        }
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        let items = recorded_items(step, text);
        let parts = &entry.description;
        let is_directory = |file: &u32| *file == ROOT || self.seeded.directories.contains(file);
        self.is_directory.clear();
        self.is_directory.extend(parts.files.iter().map(is_directory));
        let written = |(at, effect): (usize, &OperationEffect)| match effect {
            OperationEffect::Write(_, Some(bytes)) => *bytes,
            OperationEffect::Write(..) => written_bytes(step, at),
            _ => 0,
        };
        self.written_bytes.clear();
        self.written_bytes.extend(parts.effects.iter().enumerate().map(written));
        let listing = listed_directory(step, parts);
        let tree = self.expected_tree.as_ref();
        let path_of = |file: u32| tree.and_then(|tree| tree.path(file));
        let supported = self.seeded.supported.as_deref().filter(|_| !self.options.strict);
        let may_return = |index: usize, attribute: &str| {
            root_and_attribute_rewriting::may_return_attribute(&step.call, supported, index, attribute)
        };
        let grants_delegated_times = parts.operations.contains(&Operation::OPEN)
            && [Cursor::new(&message).with_chunks(&items), live.cursor()].into_iter().any(grants_delegated_times);
        let verdict = self.checker.check(&ReplyPair {
            step: entry.id.step,
            frames: entry.id.frames,
            title: entry.description.title(),
            procedure: step.procedure.find_description(),
            recorded: Cursor::new(&message).with_chunks(&items),
            known: &self.expected_data,
            live: live.cursor(),
            chunks: live.chunks,
            directories: &self.is_directory,
            creates_exclusively: parts.creates_exclusively,
            files: &parts.files,
            execution: findings.sent.map(|sent| ReplyCheckStepContext {
                parts,
                slots: [step.call.slots, step.reply.slots],
                step_turn: entry.turn,
                call_time_ns: step.origin.time_ns,
                times: [sent, sent + findings.latency],
                has_no_overlap: !entry.captured.overlaps_change
                    && !entry.call.overlaps_change
                    && entry.resend.count == 0,
                was_resent: entry.resend.count != 0,
                was_sent_unchanged: !entry.rewrites.has_dropped_attributes
                    && entry.rewrites.piece.is_none()
                    && entry.rewrites.listing.is_none()
                    && entry.resend.count == 0,
                grants_delegated_times,
                seeded: &self.seeded.handles,
                statuses: &outcome.statuses,
                written_bytes: &self.written_bytes,
                may_return: &may_return,
                path_of: &path_of,
            }),
            is_racing: entry.captured.overlaps_change,
            is_delayed_in_capture,
            listing,
        });
        // Differences of operations before one whose status may differ.
        let (verdict, earlier) = match verdict {
            ReplyCheckResult::MismatchedBefore { differences, status, otherwise } => {
                (*otherwise, Some((differences, status)))
            }
            verdict => (verdict, None),
        };
        let files = self.files_of_step(step);
        let mut touched = FileDivergence::default();
        files.iter().filter_map(|file| self.divergent_files.get(file)).for_each(|divergence| touched.merge(divergence));
        if !self.unmodified_directories.is_empty() {
            let mut directories = step.call.variables(TraceSlotValueKind::FILEHANDLE);
            if directories.any(|directory| self.unmodified_directories.contains(&directory)) {
                touched.merge(&FileDivergence::from_operation(Some(Operation::REMOVE), OperationEffect::Remove(0), 0));
            }
        }
        if tree.is_some_and(|tree| step.filehandles().any(|file| tree.modeless.contains(&file))) {
            touched.merge(&FileDivergence::of_attributes());
        }
        // Where a file from before the first step has holes is unknown.
        for (at, (operation, file)) in parts.operations.iter().zip(&parts.files).enumerate() {
            if *operation == Operation::SEEK && self.seeded.handles.contains_key(file) {
                touched.add_holes(at + 1);
            }
        }
        let ends_owner =
            |operation: &Operation| matches!(*operation, Operation::RELEASE_LOCKOWNER | Operation::FREE_STATEID);
        if self.leaves_open && parts.operations.iter().any(ends_owner) {
            touched.merge(&FileDivergence::of_locks());
        }
        if self.touches_uncertain_name(step, parts) {
            touched.merge(&FileDivergence::from_operation(Some(Operation::REMOVE), OperationEffect::Remove(0), 0));
        }
        let is_copy = [Operation::COPY, Operation::CLONE].iter().any(|copy| parts.operations.contains(copy));
        // Index of the first operation that was executed only in the capture or only here.
        let from = match verdict {
            ReplyCheckResult::Unsupported(..) => Some(outcome.statuses.len().saturating_sub(1)),
            ReplyCheckResult::Tolerated(tolerance_rules::ROOM) => Some(0),
            _ => (is_copy && !touched.is_empty()).then_some(0),
        };
        if let Some(from) = from {
            record_operation_divergence(&mut self.divergent_files, step, parts, &files, from);
        }
        if let ReplyCheckResult::Mismatched(differences) = &verdict
            && self.checker.is_enabled(tolerance_rules::AFTER)
            && !entry.captured.overlaps_change
            && !touched.is_outside()
            && !touched.explains(differences)
            && let Some(tree) = &self.expected_tree
            && let Some(outside_change) = detect_outside_change(
                (tree, self.seeded),
                &self.written_bytes,
                step,
                parts,
                live,
                differences,
                contents,
            )?
        {
            files.iter().for_each(|file| record_divergence(&mut self.divergent_files, *file, &outside_change));
            touched.merge(&outside_change);
        }
        let earlier = earlier.filter(|(differences, _)| {
            !(self.checker.is_enabled(tolerance_rules::AFTER) && touched.explains(differences))
        });
        let mut fidelity = match verdict {
            ReplyCheckResult::Tolerated(tolerance_rules::DELAYED) => ExecutedStepFidelity::Differently,
            _ => ExecutedStepFidelity::AsRecorded,
        };
        let is_after = match &verdict {
            ReplyCheckResult::Mismatched(differences)
                if (self.checker.is_enabled(tolerance_rules::AFTER) || self.options.selected_steps.is_some())
                    && touched.explains(differences) =>
            {
                let has_kind = |kind| differences.iter().any(|difference| difference.kind == kind);
                let kinds = [DifferenceKind::Status, DifferenceKind::Missing, DifferenceKind::Extra];
                fidelity = match kinds.into_iter().any(has_kind) {
                    true => ExecutedStepFidelity::Differently,
                    false => ExecutedStepFidelity::WithOtherAttributes,
                };
                !has_kind(DifferenceKind::Data) || is_data_unchanged_except(step, live, &touched, contents)?
            }
            _ => false,
        };
        if is_after && fidelity == ExecutedStepFidelity::Differently && !touched.is_outside() {
            // Later steps see the effects that are missing or new here.
            self.record_undone_effects(step, parts);
            self.leaves_open |= parts.operations.contains(&Operation::OPEN);
        }
        if let Some((mut differences, status)) = earlier {
            differences.push(*status);
            return Ok((StepOutcome::Mismatched(differences), ExecutedStepFidelity::Differently));
        }
        let state = match verdict {
            ReplyCheckResult::Mismatched(differences)
                if findings.has_delayed_entry
                    && outcome.is_success()
                    && !self.options.strict
                    && differences.iter().all(is_entry_attribute) =>
            {
                fidelity = ExecutedStepFidelity::WithOtherAttributes;
                StepOutcome::Tolerated(tolerance_rules::DELAYED)
            }
            ReplyCheckResult::Mismatched(differences)
                if step.procedure.flavor == Flavor::RPCSEC_GSS.0
                    && !self.signs_calls
                    && self.checker.are_only_access_rights(&differences) =>
            {
                StepOutcome::Tolerated(tolerance_rules::CREDENTIALS)
            }
            ReplyCheckResult::Mismatched(differences)
                if is_root_call(step) && self.checker.are_only_rights_to_change(&differences) =>
            {
                StepOutcome::Tolerated(tolerance_rules::READ_ONLY_EXPORT)
            }
            // The file is still open: through an open in place of a delegation, or because its CLOSE was not sent.
            ReplyCheckResult::Mismatched(differences)
                if self.leaves_open && self.checker.are_only_client_busy(&differences) =>
            {
                StepOutcome::Tolerated(tolerance_rules::DELEGATION)
            }
            ReplyCheckResult::Mismatched(_)
                if is_after && touched.is_outside() && !entry.may_change_size_or_links() =>
            {
                StepOutcome::Unreplayable(CHANGED_OUTSIDE_REASON.into())
            }
            ReplyCheckResult::Mismatched(_) if is_after => StepOutcome::Tolerated(tolerance_rules::AFTER),
            // The files differ from the capture, which the final check must know.
            ReplyCheckResult::Tolerated(
                rule @ (tolerance_rules::ROOM | tolerance_rules::CREDENTIALS | tolerance_rules::DELAYED),
            ) => StepOutcome::Tolerated(rule),
            ReplyCheckResult::Tolerated(UNLISTED) => StepOutcome::Substituted(recovery::UNLISTED.code),
            ReplyCheckResult::Matched | ReplyCheckResult::Tolerated(_) if entry.reason.is_some() => {
                StepOutcome::Substituted(entry.reason.map_or("", PlanReason::code))
            }
            ReplyCheckResult::Matched if entry.rewrites.has_dropped_attributes => {
                StepOutcome::Tolerated(tolerance_rules::ATTRIBUTES_OFFERED)
            }
            ReplyCheckResult::Matched if entry.rewrites.has_changed_wants => {
                StepOutcome::Tolerated(tolerance_rules::DELEGATION)
            }
            ReplyCheckResult::Matched if entry.delay_retries > 0 => StepOutcome::Tolerated(tolerance_rules::DELAYED),
            ReplyCheckResult::Matched => StepOutcome::Matched,
            ReplyCheckResult::Tolerated(rule) => StepOutcome::Tolerated(rule),
            ReplyCheckResult::Unsupported(operation, status) => {
                StepOutcome::Unreplayable(format!("unsupported: the server has no {operation} ({status})"))
            }
            ReplyCheckResult::Mismatched(differences) | ReplyCheckResult::MismatchedBefore { differences, .. } => {
                StepOutcome::Mismatched(differences)
            }
        };
        Ok((state, fidelity))
    }
}

/// Returns `true` if a difference is in an attribute of a directory entry.
fn is_entry_attribute(difference: &Difference) -> bool {
    let [operation, reply, entries] = [enumerator_names::READDIR, field_labels::REPLY, field_labels::ENTRIES];
    let mut labels = difference.path.splitn(4, '.');
    [operation, reply, entries].into_iter().all(|label| labels.next() == Some(label))
        && labels.next().is_some_and(|leaf| leaf != field_labels::NAME)
        && difference.kind != DifferenceKind::Name
}

/// Returns `true` if a step with this state has changed the same objects as in the capture.
fn has_recorded_effects(state: &StepOutcome, fidelity: ExecutedStepFidelity) -> bool {
    match state {
        // Execution by the captured server is unknown.
        StepOutcome::Substituted(reason) if *reason == PlanReason::ReplyLost.code() => false,
        StepOutcome::Matched | StepOutcome::Substituted(_) => true,
        StepOutcome::Tolerated(tolerance_rules::DELAYED) => fidelity == ExecutedStepFidelity::AsRecorded,
        StepOutcome::Tolerated(rule) => {
            ![tolerance_rules::ROOM, tolerance_rules::AFTER, tolerance_rules::CREDENTIALS].contains(rule)
        }
        StepOutcome::Mismatched(differences) => {
            differences.iter().all(|difference| difference.kind == DifferenceKind::Relation)
        }
        StepOutcome::Skipped(_) | StepOutcome::Unreplayable(_) => false,
    }
}

/// Returns `true` if a reply grants a delegation with which the client sets the times of a file. RFC 9754 section 5.
fn grants_delegated_times(mut cursor: Cursor<'_>) -> bool {
    if RpcMsg::decode(&mut cursor, &mut NullFieldObserver).is_err() {
        return false;
    }
    let Ok(reply) = CompoundReply::decode(&mut cursor, &mut NullFieldObserver) else { return false };
    reply.operations().map_while(Result::ok).any(|results| {
        let Results::OPEN(StatusUnion::Ok(open)) = results else { return false };
        matches!(open.delegation, OpenDelegation4::ReadAttrs(_) | OpenDelegation4::WriteAttrs(_))
    })
}

/// Returns `true` if a Call has the credential of root with AUTH_SYS.
fn is_root_call(step: &TraceStep<'_>) -> bool {
    let header = RpcMsg::decode(&mut Cursor::new(step.call.head.0), &mut NullFieldObserver);
    header.is_ok_and(|header| {
        header.call().and_then(|call| call.cred.sys()).is_some_and(|credential| credential.uid == 0)
    })
}

/// Records changes by operations from index `from` on, which were executed only in the capture or only here. `files`
/// are all files of the step.
pub(super) fn record_operation_divergence(
    divergent_files: &mut FxHashMap<u32, FileDivergence>,
    step: &TraceStep<'_>,
    parts: &CallOperationsAndFiles,
    files: &[u32],
    from: usize,
) {
    for (at, effect) in parts.effects.iter().enumerate().skip(from) {
        let written = written_bytes(step, at);
        let touched = FileDivergence::from_operation(parts.operations.get(at).copied(), *effect, written);
        let file = parts.files.get(at).filter(|file| files.contains(file) && !touched.affects_only_names());
        for file in file.map_or(files, std::slice::from_ref) {
            record_divergence(divergent_files, *file, &touched);
        }
    }
}

/// Returns `true` if the payloads of an operation were sent as recorded.
fn sends_recorded_data(step: &TraceStep<'_>, operation: usize) -> bool {
    let mut payloads = step.call.payloads.iter().filter(|payload| payload.operation as usize == operation);
    payloads.all(|payload| matches!(payload.content, PayloadContentState::KEPT | PayloadContentState::ZEROS))
}

/// Returns the number of bytes in the payloads of an operation.
fn written_bytes(step: &TraceStep<'_>, operation: usize) -> u64 {
    let payloads = step.call.payloads.iter().filter(|payload| payload.operation as usize == operation);
    payloads.map(|payload| u64::from(payload.length)).sum()
}

/// Returns the listed directory, and `true` if the listing starts at its beginning.
fn listed_directory(step: &TraceStep<'_>, parts: &CallOperationsAndFiles) -> Option<(u32, bool)> {
    if !parts.lists(step.procedure.find_description()) {
        return None;
    }
    let is_first = step.call.variable(TraceSlotValueKind::COOKIE).is_none();
    let at = parts.operations.iter().position(|operation| *operation == Operation::READDIR);
    let directory = match at {
        Some(at) => parts.files.get(at).copied(),
        None => step.call.variable(TraceSlotValueKind::FILEHANDLE),
    };
    Some((directory.unwrap_or(NONE), is_first))
}

/// Returns the hash that the file data of a Reply must have, if known.
fn expected_hash(key: u64, payload: &TracePayload, buffer: &mut Vec<u8>) -> Option<u128> {
    match payload.content {
        PayloadContentState::UNKNOWN => None,
        PayloadContentState::KEYED if payload.length > LONGEST => None,
        PayloadContentState::KEYED => {
            buffer.resize(payload.length as usize, 0);
            generated_file_data::fill(key, payload.file, payload.offset, buffer);
            Some(hash(buffer))
        }
        _ => Some(u128::from_be_bytes(payload.hash)),
    }
}
