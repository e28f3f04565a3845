//! Comparison of a live Reply with the recorded one.
//!
//! Both are decoded to fields and compared with the table of the capture [`comparison`](nfsrdma_analysis::comparison).
//! Before that, fields covered by a [rule](tolerance_rules) are removed from both and compared separately, to determine
//! the rule that was needed; directory entries are sorted, because servers list them in any order.
//!
//! - [`reply_pair`]: the two Replies and the result; [`reply_sections`]: sections of decoded Replies;
//! - [`reply_check_result_cache`]: cached results for pairs of the same pattern;
//! - [`tolerated_difference_removal`]: differences that a rule tolerates; [`directory_listing`]: names of a directory
//!   across parts;
//! - [`mandatory_server_operations`]: operations that a server must support;
//! - [`write_chunks`]: Write chunks and their data items;
//! - [`attribute_relations`]: relations of values to earlier ones.

pub(super) mod attribute_relations;
mod directory_listing;
pub(super) mod mandatory_server_operations;
mod reply_check_result_cache;
pub(super) mod reply_pair;
mod reply_sections;
#[cfg(test)]
mod tests;
mod tolerated_difference_removal;
mod write_chunks;

use std::collections::BTreeMap;
use std::rc::Rc;

use nfsrdma_analysis::comparison::comparable_transaction_recorder::{ComparableTransactionRecorder, LocatedField};
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind, DifferenceSideValue};
use nfsrdma_analysis::comparison::field_path_text::ends_with_labels;
use nfsrdma_analysis::comparison::identity_map::{CrossCaptureIdentityMap, FirstOccurrenceOfIdentifierPair};
use nfsrdma_analysis::comparison::options::ComparisonOptions;
use nfsrdma_analysis::comparison::record::{ComparableMessage, ComparableTransaction};
use nfsrdma_analysis::comparison::record_comparison::{ComparedFieldAndByteCounts, RecordComparer};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{Attributes, BitNames, Bitmap4};
use nfsrdma_dissectors::rpc::RpcMsg;
use rustc_hash::FxHashSet;

use attribute_relations::violations::AttributeRelationViolation;
use attribute_relations::{AttributeRelationCheckState, FinalAttributeDifference, reply_attribute_values};
use directory_listing::DirectoryListingChecks;
pub(super) use directory_listing::UNLISTED;
use mandatory_server_operations::{lacks_required, missing_attributes, unrequested_attributes};
use reply_check_result_cache::{CheckedReplyPairPattern, ReplyCheckResultCache};
pub use reply_pair::{ReplyCheckResult, ReplyCheckStepContext, ReplyPair};

use super::options::ReplayOptions;
use super::tolerance_rules::file::ToleranceFileRule;
use super::tolerance_rules::{self, BuiltInToleranceRule};
use crate::seed::SeededTree;
use crate::seed::file_server_client::{FileUserAndGroup, ObjectVersionAttributes};
use reply_sections::{
    align_root_sections, clear_undefined_mode_bits, fill_hashes, first_differing_status, is_ok, is_status, makes_names,
    operations_before, remove_incomparable, section_status, statuses,
};
use tolerated_difference_removal::{ReplyTolerance, attribute, is_attribute};

/// Maximum number of unsupported operations that are remembered.
const MAX_UNSUPPORTED: usize = 1024;

/// Differences between the final state of an object and its last values in Replies.
#[derive(Debug)]
pub(in crate::run) struct FinalAttributeDifferences {
    pub(in crate::run) differences: Vec<FinalAttributeDifference>,
    pub(in crate::run) tolerated: u64,
}

/// A status that may differ, which explains the differences of its operation and of those after it.
#[derive(Debug)]
struct ExcusedStatusDifference {
    /// Section of the operation in the message; 0 for the header.
    section: usize,
    difference: Difference,
}

/// Compares live Replies with recorded ones.
#[derive(Debug, Default)]
pub struct ReplyChecker {
    recorder: ComparableTransactionRecorder,
    selection: ComparisonOptions,
    identities: CrossCaptureIdentityMap,
    /// Counts of compared fields and bytes.
    pub compared: ComparedFieldAndByteCounts,
    tolerance: ReplyTolerance,
    file_rules: Vec<ToleranceFileRule>,
    patterns: ReplyCheckResultCache,
    executed_operations: FxHashSet<Rc<str>>,
    /// Operations that it reported as unsupported, with the first difference.
    unsupported: BTreeMap<String, Difference>,
    /// Of these, operations that it executed later.
    inconsistent: Vec<Difference>,
    listings: DirectoryListingChecks,
    pub(in crate::run) relations: AttributeRelationCheckState,
    /// `true` if the server has restarted in this run, or may have: a connection was lost.
    may_have_restarted: bool,
}

impl ReplyChecker {
    /// Creates a checker. `disabled_rules` are the rules that are turned off.
    pub fn new(
        is_strict: bool,
        disabled_rules: impl IntoIterator<Item = &'static str>,
        selection: ComparisonOptions,
    ) -> Self {
        let disabled_rules = disabled_rules.into_iter().collect();
        let tolerance = ReplyTolerance { is_strict, disabled_rules, ..ReplyTolerance::default() };
        Self { tolerance, selection, ..Self::default() }
    }

    pub(in crate::run) fn for_run(options: &ReplayOptions, seeded: &SeededTree) -> Self {
        let supported = Bitmap4::<Attributes>::from(seeded.supported.as_deref().unwrap_or_default());
        let is_enabled = !options.disabled_rules.contains(&tolerance_rules::NAMELESS_LINKS.name);
        let nameless = if is_enabled { seeded.nameless_handles.clone() } else { FxHashSet::default() };
        Self {
            listings: DirectoryListingChecks::new(nameless),
            tolerance: ReplyTolerance {
                is_strict: options.strict,
                disabled_rules: options.disabled_rules.iter().copied().collect(),
                offered_attributes: supported.iter().filter_map(Attributes::name).map(Box::from).collect(),
                squashed_ids: seeded.squashed_owner.as_ref().and_then(FileUserAndGroup::numbers),
                nameless_fileids: seeded.nameless_fileids.clone(),
                unlinked_fileids: seeded.unlinked_fileids.clone(),
                ..ReplyTolerance::default()
            },
            // They also apply with `--strict`.
            file_rules: options.rules.clone(),
            selection: options.selection.clone(),
            ..Self::default()
        }
    }

    /// Notes a restart of the server: uncommitted data may be lost, which WRITE and COMMIT report by another verifier
    /// (RFC 8881 section 18.32.4). The tree check finds lost data.
    pub fn record_restart(&mut self) {
        self.record_reconnection();
        self.tolerance.has_lost_state = true;
        self.relations.record_restart();
    }

    /// Records that a connection was lost and replaced: the server may have restarted, which a Call without state does
    /// not reveal, and verifiers of WRITE and COMMIT then change (RFC 1813 section 3.3.21, RFC 8881 section 18.3.3).
    pub fn record_reconnection(&mut self) {
        self.may_have_restarted = true;
        self.relations.record_reconnection();
        self.patterns.clear();
    }

    /// Removes differences that a rule from the file tolerates. Returns the first of these rules.
    fn remove_tolerated(&self, differences: &mut Vec<Difference>) -> Option<BuiltInToleranceRule> {
        let mut first = None;
        differences.retain(|difference| {
            let rule = self.file_rules.iter().find(|rule| rule.allows(difference));
            first = first.or(rule.map(|rule| rule.rule));
            rule.is_none()
        });
        first
    }

    /// Compares a live Reply with the recorded one.
    pub fn check(&mut self, replies: &ReplyPair<'_>) -> ReplyCheckResult {
        if let Some(verdict) = self.cached_result(replies) {
            return verdict;
        }
        let length = replies.live.rest().len();
        // Fields compared literally may not follow the pattern.
        let is_plain = !self.tolerance.is_strict
            && !self.selection.strict
            && !self.selection.exact
            && !replies.creates_exclusively;
        let is_learnt = is_plain && self.patterns.wants_pattern(length);
        if !is_learnt && replies.execution.is_none() {
            return self.compare(replies, [None, None]).0;
        }
        self.tolerance.depends_on_objects = false;
        let before = self.compared;
        let mut fields = [Vec::new(), Vec::new()];
        let (verdict, excused) = self.compare(replies, fields.each_mut().map(Some));
        let compared = self.compared.since(before);
        let fields = fields.each_ref().map(Vec::as_slice);
        let related = reply_attribute_values::paired_attributes(fields[0], fields[1]);
        let sections = fields[1].iter().map(|field| field.section.0).max().unwrap_or(0);
        let sides = [replies.recorded.rest(), replies.live.rest()];
        let mut violations = self.relations.check_attributes(replies, &related, sections, sides);
        violations.append(&mut self.relations.check_entries(replies, fields, sides));
        let mut lacking = missing_attributes(fields, |name| self.tolerance.offered_attributes.contains(name));
        if let Some(execution) = &replies.execution {
            lacking.append(&mut unrequested_attributes(fields, execution.may_return));
        }
        if is_learnt && lacking.is_empty() && excused.is_none() && !self.tolerance.depends_on_objects {
            let (compared, related) = ((&verdict, compared), (related, sections));
            let pattern = CheckedReplyPairPattern::of(replies, fields, compared, related, self.may_have_restarted);
            self.patterns.insert(length, pattern);
        }
        violations.append(&mut lacking);
        self.add_violations(replies, verdict, excused, violations)
    }

    /// Compares the final state of an object, known by these filehandles, with the last values in Replies.
    pub(in crate::run) fn final_differences(
        &self,
        handles: &[u32],
        version: &ObjectVersionAttributes,
        owner: Option<&FileUserAndGroup>,
        was_listed: bool,
    ) -> FinalAttributeDifferences {
        let is_tolerated = |attribute: &FinalAttributeDifference| {
            let difference = Difference {
                kind: DifferenceKind::Relation,
                operation: enumerator_names::GETATTR.into(),
                path: format!("{}.{}", enumerator_names::GETATTR, attribute.aspect),
                section: 0,
                field: attribute.field,
                count: 1,
                a: DifferenceSideValue::default(),
                b: DifferenceSideValue::default(),
            };
            attribute.rule.is_some_and(|rule| self.is_enabled(rule))
                || self.file_rules.iter().any(|rule| rule.allows(&difference))
        };
        let other_fsid = self.relations.unknown_file_system(version).map(|fsid| FinalAttributeDifference {
            aspect: "fsid (one)",
            field: "",
            values: ["a known file system".to_owned(), format!("another, {fsid:#x}")],
            rule: None,
        });
        // Each filehandle has its own values; one that has differences is enough.
        let by_handle = handles.iter().map(|handle| {
            let final_differences = self.relations.final_differences(*handle, version, owner, was_listed);
            final_differences.into_iter().partition::<Vec<_>, _>(is_tolerated)
        });
        let (mut tolerated, mut differences) =
            by_handle.max_by_key(|(tolerated, differing)| (differing.len(), tolerated.len())).unwrap_or_default();
        if let Some(fsid) = other_fsid {
            let list = if is_tolerated(&fsid) { &mut tolerated } else { &mut differences };
            list.push(fsid);
        }
        FinalAttributeDifferences { differences, tolerated: tolerated.len() as u64 }
    }

    /// Adds violated relations to a result. A status that may differ explains those of its operation and of later ones.
    fn add_violations(
        &mut self,
        replies: &ReplyPair<'_>,
        mut verdict: ReplyCheckResult,
        excused: Option<ExcusedStatusDifference>,
        mut violations: Vec<AttributeRelationViolation>,
    ) -> ReplyCheckResult {
        if let Some(excused) = &excused {
            violations.retain(|violation| violation.section < excused.section);
        }
        if violations.is_empty() {
            return verdict;
        }
        let (tolerated, violations): (Vec<_>, Vec<_>) =
            violations.into_iter().partition(|violation| violation.rule.is_some_and(|rule| self.is_enabled(rule)));
        if violations.is_empty() {
            let rule = tolerated.into_iter().find_map(|violation| violation.rule);
            return match (verdict, rule) {
                (ReplyCheckResult::Matched, Some(rule)) => ReplyCheckResult::Tolerated(rule),
                (verdict, _) => verdict,
            };
        }
        let (location, operation) = (replies.place(), self.recorder.word(replies.title).to_string());
        let path_of = |variable| replies.execution.as_ref().and_then(|context| (context.path_of)(variable));
        let differences =
            violations.into_iter().map(|violation| violation.difference(location, operation.clone(), &path_of));
        let mut differences: Vec<_> = differences.filter(|difference| self.selection.includes(difference)).collect();
        if differences.is_empty() {
            return verdict;
        }
        match (&mut verdict, excused) {
            (
                ReplyCheckResult::Mismatched(known) | ReplyCheckResult::MismatchedBefore { differences: known, .. },
                _,
            ) => {
                known.append(&mut differences);
                verdict
            }
            (_, Some(ExcusedStatusDifference { difference, .. })) => {
                self.remove_tolerated(&mut differences);
                if differences.is_empty() {
                    return verdict;
                }
                let (status, otherwise) = (Box::new(difference), Box::new(verdict));
                ReplyCheckResult::MismatchedBefore { differences, status, otherwise }
            }
            (ReplyCheckResult::Tolerated(rule), None) => self.result(differences, &[*rule], None, false).0,
            (_, None) => self.result(differences, &[], None, false).0,
        }
    }

    /// Returns `true` if a live Reply is known to have its values at the positions of the recorded one.
    pub fn has_same_layout(&self, procedure: Option<Procedure>, recorded: &[u8], live: &[u8]) -> bool {
        self.patterns.has_layout(procedure, [recorded, live])
    }

    /// Returns the cached result of a pair with a known pattern. Its identifiers and counts are recorded.
    fn cached_result(&mut self, replies: &ReplyPair<'_>) -> Option<ReplyCheckResult> {
        let pattern = self.patterns.find(replies)?;
        let sides = [replies.recorded.rest(), replies.live.rest()];
        let names = pattern.identities.iter_mut().map(|slot| slot.names(sides)).collect::<Option<Vec<_>>>()?;
        let location = replies.place();
        for (slot, [recorded, live]) in pattern.identities.iter().zip(names) {
            self.identities.record_pair(recorded, live, || FirstOccurrenceOfIdentifierPair {
                operation: self.recorder.word(replies.title),
                section: slot.section.clone(),
                path: Rc::clone(&slot.path),
                identity: slot.identity,
                places: [location; 2],
                frames: [location.reply; 2],
                values: slot.values(sides),
            });
        }
        if pattern.makes_names {
            self.listings.reopen_all();
        }
        self.compared += pattern.compared;
        let violations =
            self.relations.check_attributes(replies, &pattern.attribute_pairs, pattern.operation_count, sides);
        let verdict = pattern.verdict.clone();
        Some(self.add_violations(replies, verdict, None, violations))
    }

    /// Decodes both Replies and compares them field by field. Stores the positions of their fields if requested.
    fn compare<'a>(
        &mut self,
        replies: &ReplyPair<'a>,
        [recorded_fields, live_fields]: [Option<&mut Vec<LocatedField<'a>>>; 2],
    ) -> (ReplyCheckResult, Option<ExcusedStatusDifference>) {
        let mut recorded = self.recorder.reply(replies.procedure, replies.recorded, recorded_fields);
        let mut live = self.recorder.reply(replies.procedure, replies.live, live_fields);
        fill_hashes(&mut recorded, replies.known);
        align_root_sections(&recorded, &mut live);
        // The inline length depends on names in the Reply.
        (recorded.length, live.length) = (0, 0);
        self.record_capabilities(&live);
        if live.sections.iter().any(|section| makes_names(&section.name)) {
            self.listings.reopen_all();
        }
        let mut tolerated = Vec::new();
        let mut listing_differences = Vec::new();
        let has_same_statuses = statuses(&recorded) == statuses(&live);
        for at in 0..recorded.sections.len().min(live.sections.len()) {
            let (Some(a), Some(b)) = (recorded.sections.get_mut(at), live.sections.get_mut(at)) else {
                break;
            };
            let is_directory = at > 0 && replies.directories.get(at - 1).copied().unwrap_or(false);
            for section in [&mut *a, &mut *b] {
                remove_incomparable(section, self.may_have_restarted);
                clear_undefined_mode_bits(section);
            }
            if let (Some(listing), true) = (replies.listing, has_same_statuses) {
                let differing = self.listings.compare(listing, a, b, self.tolerance.is_strict, &mut tolerated);
                listing_differences.extend(differing.into_iter().map(|difference| (at, difference)));
            }
            if !self.tolerance.is_strict && section_status(a) == section_status(b) {
                if replies.creates_exclusively
                    && self.is_enabled(tolerance_rules::EXCLUSIVE_CREATE)
                    && tolerated_difference_removal::tolerate_mode(a, b)
                {
                    tolerated.push(tolerance_rules::EXCLUSIVE_CREATE);
                }
                self.tolerance.tolerate(a, b, is_directory, &mut tolerated);
            }
        }
        let (title, status) = (self.recorder.word(replies.title), self.recorder.word(""));
        let step_location = replies.place();
        let record = |reply| ComparableTransaction {
            location: step_location,
            title: Rc::clone(&title),
            class: Rc::clone(&title),
            status: Rc::clone(&status),
            reply: Some(reply),
            is_racing: replies.is_racing,
            ..ComparableTransaction::default()
        };
        let side_value =
            |value| DifferenceSideValue { location: Some(step_location), frame: step_location.reply, value };
        let other_status = first_differing_status(&recorded, &live);
        let failing = other_status.and_then(|at| recorded.sections.get(at)).map(|section| Rc::clone(&section.name));
        let before = other_status.map(|at| [&recorded, &live].map(|message| operations_before(message, at)));
        let (recorded, live) = (record(recorded), record(live));
        let mut differences =
            RecordComparer { options: &self.selection, identities: &mut self.identities, compared: &mut self.compared }
                .compare(&recorded, &live);
        differences.retain(|difference| self.selection.includes(difference));
        differences.extend(listing_differences.into_iter().map(|(section, (path, values))| {
            let [a, b] = values.map(side_value);
            let operation = title.to_string();
            let is_name = ends_with_labels(&path, &[field_labels::NAME]);
            let (kind, field) = match is_name {
                true => (DifferenceKind::Name, field_names::NFS_ENTRY_NAME),
                false => (DifferenceKind::Result, ""),
            };
            Difference { kind, operation, path, section, field, count: 1, a, b }
        }));
        let returned = write_chunks::differing_lengths(replies.procedure, replies.live, replies.chunks);
        let wrong_chunk = returned.map(|lengths| {
            let [a, b] = lengths.map(|length| side_value(Some(length.to_string())));
            let (kind, operation) = (DifferenceKind::ChunkBytes, title.to_string());
            Difference { kind, operation, path: "write chunk".to_owned(), section: 0, field: "", count: 1, a, b }
        });
        differences.extend(wrong_chunk.clone());
        let (verdict, status) = self.result(differences, &tolerated, failing.as_deref(), replies.is_delayed_in_capture);
        let Some(difference) = status else { return (verdict, None) };
        let excused = ExcusedStatusDifference { section: other_status.unwrap_or(0), difference };
        let mut earlier_differences = Vec::from_iter(wrong_chunk);
        if let Some([recorded, live]) = before {
            let mut record_differences = RecordComparer {
                options: &self.selection,
                identities: &mut CrossCaptureIdentityMap::default(),
                compared: &mut ComparedFieldAndByteCounts::default(),
            }
            .compare(&record(recorded), &record(live));
            record_differences.retain(|difference| self.selection.includes(difference));
            earlier_differences.append(&mut record_differences);
        }
        self.remove_tolerated(&mut earlier_differences);
        if earlier_differences.is_empty() {
            return (verdict, Some(excused));
        }
        let status = Box::new(excused.difference.clone());
        let verdict = ReplyCheckResult::MismatchedBefore {
            differences: earlier_differences,
            status,
            otherwise: Box::new(verdict),
        };
        (verdict, Some(excused))
    }

    /// Returns the result of these differences, and the difference of a status that explains the others if it does.
    /// `failing` is the first operation whose status differs.
    fn result(
        &mut self,
        mut differences: Vec<Difference>,
        tolerated: &[BuiltInToleranceRule],
        failing: Option<&str>,
        is_delayed_in_capture: bool,
    ) -> (ReplyCheckResult, Option<Difference>) {
        let removed = self.remove_tolerated(&mut differences);
        if differences.is_empty() {
            let unlisted = tolerated.iter().find(|rule| **rule == UNLISTED);
            let rule = unlisted.copied().or(removed).or_else(|| tolerated.first().copied());
            return (rule.map_or(ReplyCheckResult::Matched, ReplyCheckResult::Tolerated), None);
        }
        let statuses = || differences.iter().filter(|difference| difference.kind == DifferenceKind::Status);
        let is_of_failing = |difference: &&Difference| {
            failing == Some(difference.path.split_once('.').map_or("", |(operation, _)| operation))
        };
        // The status of the COMPOUND itself is that of its last operation.
        let status = statuses().find(is_of_failing).or_else(|| statuses().next());
        if let (Some(status), false) = (status, self.tolerance.is_strict) {
            let [a, b] = [&status.a, &status.b].map(|side| side.value.clone().unwrap_or_default());
            // An unsupported operation has a result with its own name.
            let title = status.operation.rsplit(' ').next().unwrap_or_default();
            let operation = status.path.split_once('.').map_or(title, |(operation, _)| operation);
            // A Call rejected by RPC has no results and hence no operation.
            let operation = if operation == RpcMsg::FIELDS.body.label { title } else { operation };
            // All procedures of NFS are required (RFC 1813 section 3, RFC 8881 section 16.1), unlike those of others.
            let is_whole = status.operation.starts_with("NFS ")
                && (b == enumerator_names::PROC_UNAVAIL || lacks_required(operation, &b));
            if is_unsupported(&b) && !is_whole && !is_unsupported(&a) && !self.executed_operations.contains(operation) {
                if self.unsupported.len() < MAX_UNSUPPORTED || self.unsupported.contains_key(operation) {
                    self.unsupported.entry(operation.to_owned()).or_insert_with(|| status.clone());
                }
                return (ReplyCheckResult::Unsupported(operation.to_owned(), b), Some(status.clone()));
            }
            if self.is_enabled(tolerance_rules::ROOM) && tolerance_rules::is_no_space(&a) && b.ends_with("_OK") {
                return (ReplyCheckResult::Tolerated(tolerance_rules::ROOM), Some(status.clone()));
            }
            if is_delayed_in_capture && tolerance_rules::is_delay(&a) {
                return (ReplyCheckResult::Tolerated(tolerance_rules::DELAYED), Some(status.clone()));
            }
            if self.is_enabled(tolerance_rules::SAME_REFUSAL)
                && tolerance_rules::is_same_refusal(operation, &a, &b)
                && differences.iter().all(|difference| difference.kind == DifferenceKind::Status)
            {
                return (ReplyCheckResult::Tolerated(tolerance_rules::SAME_REFUSAL), None);
            }
        }
        (ReplyCheckResult::Mismatched(differences), None)
    }

    /// Returns `true` if the differences only concern access rights.
    pub fn are_only_access_rights(&self, differences: &[Difference]) -> bool {
        self.is_enabled(tolerance_rules::CREDENTIALS)
            && differences
                .iter()
                .all(|difference| ends_with_labels(&difference.path, &[enumerator_names::ACCESS, field_labels::ACCESS]))
    }

    /// Returns `true` if the differences are only that the live server grants rights to change an object (MODIFY,
    /// EXTEND, DELETE) where the recorded one granted none. RFC 8881 section 18.1.1, RFC 1813 section 3.3.4.
    pub fn are_only_rights_to_change(&self, differences: &[Difference]) -> bool {
        const CHANGE: u32 = 0x4 | 0x8 | 0x10;
        let rights = |side: &DifferenceSideValue| {
            // The names of the bits may follow.
            let number = side.value.as_deref()?.split(' ').next()?.strip_prefix("0x")?;
            u32::from_str_radix(number, 16).ok()
        };
        let is_more = |difference: &Difference| {
            let rights_pair = rights(&difference.a).zip(rights(&difference.b));
            ends_with_labels(&difference.path, &[enumerator_names::ACCESS, field_labels::ACCESS])
                && rights_pair.is_some_and(|(a, b)| a & CHANGE == 0 && b & a == a && b & !a & !CHANGE == 0)
        };
        self.is_enabled(tolerance_rules::READ_ONLY_EXPORT) && differences.iter().all(is_more)
    }

    /// Returns `true` if the differences are only that a client ID is still in use (RFC 8881 section 18.50.3).
    pub fn are_only_client_busy(&self, differences: &[Difference]) -> bool {
        let is_busy = |difference: &Difference| {
            ends_with_labels(&difference.path, &[enumerator_names::DESTROY_CLIENTID, field_labels::STATUS])
                && difference.b.value.as_deref() == Some(enumerator_names::NFS4ERR_CLIENTID_BUSY)
        };
        self.is_enabled(tolerance_rules::DELEGATION) && differences.iter().all(is_busy)
    }

    /// Returns `true` if a rule is enabled.
    pub fn is_enabled(&self, rule: BuiltInToleranceRule) -> bool {
        self.tolerance.is_enabled(rule)
    }

    /// Returns late differences: identifiers of other objects, and operations that are supported after all.
    pub fn take_late_differences(&mut self, is_last: bool) -> Vec<Difference> {
        let mut differences = self.identities.take_differences(is_last);
        differences.append(&mut self.inconsistent);
        if is_last {
            differences.extend(self.relations.sizes.take_unexplained());
        }
        self.remove_tolerated(&mut differences);
        differences.retain(|difference| self.selection.includes(difference));
        differences
    }

    /// Records that a part of the listing of a directory is not compared.
    pub fn forget_listing(&mut self, directory: u32) {
        self.listings.forget(directory);
    }

    /// Returns the names of a part of a recorded listing that the live one does not have so far.
    pub fn unlisted_names(&self, listing: (u32, bool), names: &[&[u8]]) -> FxHashSet<Box<[u8]>> {
        self.listings.unlisted(listing, names)
    }

    /// Records the change of a name, by its hash, in the directories that `is_affected` selects.
    pub fn record_name_change(&mut self, name: u64, is_affected: impl Fn(u32) -> bool) {
        self.listings.record_change(name, is_affected);
    }

    fn record_capabilities(&mut self, live: &ComparableMessage) {
        for section in live.sections.iter().skip(1) {
            let is_done = section.entries.iter().any(|entry| is_status(entry) && is_ok(&entry.datum));
            if is_done && !self.executed_operations.contains(&section.name) {
                self.executed_operations.insert(Rc::clone(&section.name));
                self.inconsistent.extend(self.unsupported.remove(&*section.name));
            }
            for entry in section.entries.iter().filter(|entry| is_attribute(&entry.path.text)) {
                let name = attribute(&entry.path.text);
                if !self.tolerance.offered_attributes.contains(name) {
                    self.tolerance.offered_attributes.insert(name.into());
                }
            }
        }
    }
}

fn is_unsupported(status: &str) -> bool {
    [
        enumerator_names::NFS4ERR_NOTSUPP,
        enumerator_names::NFS4ERR_OP_ILLEGAL,
        enumerator_names::NFS4ERR_ATTRNOTSUPP,
        enumerator_names::NFS4ERR_UNION_NOTSUPP,
        enumerator_names::NFS4ERR_UNKNOWN_LAYOUTTYPE,
        enumerator_names::NFS4ERR_MINOR_VERS_MISMATCH,
        enumerator_names::NFS3ERR_NOTSUPP,
        enumerator_names::PROC_UNAVAIL,
        enumerator_names::PROG_UNAVAIL,
        enumerator_names::PROG_MISMATCH,
    ]
    .contains(&status)
}
