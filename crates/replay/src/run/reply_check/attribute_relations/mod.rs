//! Relations between successive values from a server, on which client caches rely.
//!
//! Change attributes, times and file numbers have other values on each server, so the values themselves are not
//! compared. The relations that hold between recorded values must hold here, too:
//!
//! - `moves`: the value differs after the run's own change of the object;
//! - `stays`: the value is unchanged if nothing has changed the object;
//! - `rises`: the value never decreases (RFC 7862 section 12.2.3), neither in the captured order, nor below a value
//!   that arrived before the Call was sent ([`received_value_floor`]);
//! - `set`: the time of last modification is the one that a step has set;
//! - `of now`: a time set by a change is of the day of the run, and a change attribute is not below all those that
//!   changes of the run have set, if the server draws them from one clock;
//! - `one`: an object has one fileid, a file system one fsid, and an owner one name;
//! - `possible`: a size in a Reply that overlapped with a change is one that the file had.
//!
//! Except for lower bounds of received values, only relations that the recording proves are checked: steps that
//! overlapped a change, there or here, prove no order, and changes by other clients in the capture are not expected.
//! The granularity of the server's values is inferred ([`server_clock_granularity`]).
//!
//! - [`reply_attribute_values`]: attributes in a Reply; [`operation_filehandles`]: their objects; [`violations`]:
//!   violated relations;
//! - [`operation_effect_recording`]: effects of operations on what is known of their objects;
//! - [`overlapped_sizes`]: sizes in Replies that overlapped with a change;
//! - [`server_clock_granularity`]: properties of the server's times and change attributes.

mod captured_live_fsid_pairs;
mod captured_live_owner_pairs;
mod operation_effect_recording;
mod operation_filehandles;
mod overlapped_sizes;
mod received_value_floor;
pub(super) mod reply_attribute_values;
mod server_clock_granularity;
pub(super) mod violations;

use std::ops::Range;
use std::time::Instant;

use nfsrdma_analysis::comparison::comparable_transaction_recorder::LocatedField;
use nfsrdma_analysis::comparison::field_path_text::has_label;
use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{NfsFtype4, Operation};
use rustc_hash::FxHashMap;

use self::captured_live_fsid_pairs::FileSystemPairs;
use self::captured_live_owner_pairs::CapturedToLiveFileOwners;
use self::operation_filehandles::OperationFilehandleVariables;
use self::overlapped_sizes::OverlappedFileSizes;
use self::received_value_floor::{AttributeValueLowerBound, StepReplyTiming};
use self::reply_attribute_values::{AttributeSubject, ComparedAttributeKind, MatchedReplyAttribute};
use self::server_clock_granularity::ServerChangeAndTimeTraits;
use self::violations::{AttributeRelationViolation, RecordedLiveAttributePair};
use super::reply_pair::{ReplyCheckStepContext, ReplyPair};
use crate::run::dependencies::effects::OperationEffect;
use crate::run::tolerance_rules::{ACCESS_TIME, BuiltInToleranceRule, OWNER};
use crate::seed::file_server_client::{FileUserAndGroup, ObjectVersionAttributes};
use crate::trace::step::{NONE, SubstitutableMessageSlot, TraceSlotValueKind};
use crate::tree::inferred_object::ROOT;

/// Maximum number of objects, and of names; each table is cleared when it is full.
const MAX_ENTRIES: usize = 1 << 16;
/// Maximum number of filehandles of the root.
const MAX_ROOT_HANDLES: usize = 16;
/// Number of ordered attributes of an object.
const ORDERED_ATTRIBUTES: usize = 5;
/// Number of those that never decrease: change attribute, and time of last change.
const RISING_ATTRIBUTES: usize = 2;

/// Likelihood that steps have changed an attribute since its last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum AttributeModificationLikelihood {
    #[default]
    None,
    Possible,
    Certain,
}

#[derive(Clone, Debug)]
struct LastCapturedAndLiveAttribute {
    values: [u128; 2],
    likelihood: AttributeModificationLikelihood,
    /// Number of reads since, or in flight with its Call: each may have updated the access time.
    reads: u32,
    /// Arrival time of the Reply of the last read.
    last_read: Option<Instant>,
    /// Send time of the first change that the next value must show.
    changed: Option<Instant>,
    received: Instant,
    is_before_restart: bool,
    /// Send time of the last change before it.
    previous_change: Option<Instant>,
    /// Counts of removed and renamed names at that time.
    names: [u32; 2],
    /// Filter name of the field with these values.
    field: &'static str,
}

/// A difference between the final state of an object and its last value in Replies.
#[derive(Debug)]
pub(in crate::run) struct FinalAttributeDifference {
    /// Attribute and relation: `change (stays)`.
    pub(in crate::run) aspect: &'static str,
    /// Filter name of the field, or empty.
    pub(super) field: &'static str,
    /// The last value in a Reply and the final value.
    pub(in crate::run) values: [String; 2],
    pub(super) rule: Option<BuiltInToleranceRule>,
}

#[derive(Debug, Default)]
struct ReplyCheckFileState {
    turn: u64,
    ordered: [Option<LastCapturedAndLiveAttribute>; ORDERED_ATTRIBUTES],
    /// Lower bounds of the change attribute and of the time of last change.
    floors: [AttributeValueLowerBound; RISING_ATTRIBUTES],
    fileid: Option<[u128; 2]>,
    mounted_on_fileid: Option<[u128; 2]>,
    /// Send time of its last change.
    changed: Option<Instant>,
    /// Turn of the step that last wrote its content, unless its times were set since.
    written: Option<u64>,
    /// `true` if data was written that no COMMIT has made stable since.
    has_uncommitted_data: bool,
    /// `true` if a client holds a delegation with which it sets the times itself. RFC 9754 section 5.
    has_delegated_times: bool,
    is_set: bool,
    /// Seconds of its time of last modification, if a step has set it and none has written the object since.
    set_modify_seconds: Option<i64>,
    /// Turn of the step that created it, if it was unknown before.
    made: Option<u64>,
}

#[derive(Debug, Default)]
pub(in crate::run) struct AttributeRelationCheckState {
    objects: FxHashMap<u32, ReplyCheckFileState>,
    /// Fileid of the object of a name, by directory and name, with its variable or [`NONE`].
    names: FxHashMap<(u32, u64), ([u128; 2], u32)>,
    file_systems: FileSystemPairs,
    owners: CapturedToLiveFileOwners,
    clock: ServerChangeAndTimeTraits,
    pub(super) sizes: OverlappedFileSizes,
    /// Counts of unknown objects whose name was removed, and renamed, so far: their ctime has changed.
    changed_names: [u32; 2],
    roots: Vec<u32>,
    may_have_restarted: bool,
}

impl AttributeRelationCheckState {
    /// Notes that the server may have restarted, and with it translates owners in another way.
    pub(super) fn record_reconnection(&mut self) {
        self.may_have_restarted = true;
    }

    /// Notes a restart of the server. Only what was not committed may be lost: a file that was written since its last
    /// COMMIT may have an earlier state. File numbers, file systems, owners and names stay, and change attributes and
    /// ctimes of other objects do not decrease. RFC 1813 section 4.8, RFC 8881 section 18.3.3.
    pub(super) fn record_restart(&mut self) {
        for object in self.objects.values_mut() {
            let is_lost = std::mem::take(&mut object.has_uncommitted_data);
            for entry in object.ordered.iter_mut().take(ComparedAttributeKind::Owner as usize) {
                if is_lost {
                    *entry = None;
                } else if let Some(last_pair) = entry {
                    last_pair.likelihood = last_pair.likelihood.max(AttributeModificationLikelihood::Possible);
                    last_pair.is_before_restart = true;
                }
            }
            object.floors = Default::default();
            if is_lost {
                object.set_modify_seconds = None;
            }
        }
        self.sizes.clear();
        self.clock.forget();
    }

    #[cfg(test)]
    pub(super) fn set_change_attr_type(&mut self, number: u32) {
        self.clock.change_attr_type = Some(number);
    }

    /// Marks objects as uncertain after a step with these effects; also their sizes, if it may have changed these.
    pub(in crate::run) fn mark_uncertain(
        &mut self,
        objects: impl Iterator<Item = u32>,
        effects: &[OperationEffect],
        may_change_sizes: bool,
    ) {
        for object in objects {
            if may_change_sizes {
                self.sizes.set_unlimited(object);
            }
            let object = if self.roots.contains(&object) { ROOT } else { object };
            let state = self.objects.remove(&object);
            let has_delegated_times = state.as_ref().is_some_and(|state| state.has_delegated_times);
            let has_uncommitted_data = state.is_some_and(|state| state.has_uncommitted_data)
                || effects.iter().any(|effect| effect.writes_data());
            if has_uncommitted_data || has_delegated_times {
                let unknown =
                    ReplyCheckFileState { has_uncommitted_data, has_delegated_times, ..ReplyCheckFileState::default() };
                self.objects.insert(object, unknown);
            }
        }
        if effects.iter().any(|effect| effect.changes_names() || matches!(effect, OperationEffect::Open(_, true))) {
            self.clear_names();
        }
    }

    fn clear_names(&mut self) {
        self.names.clear();
        self.changed_names.iter_mut().for_each(|count| *count = count.wrapping_add(1));
    }

    fn was_created_in_run(&self, context: &ReplyCheckStepContext<'_>, object: u32) -> bool {
        object < ROOT && !self.roots.contains(&object) && !context.seeded.contains_key(&object)
    }

    /// Checks the attributes of a reply pair against earlier ones. `sections` is the number of executed operations.
    pub(super) fn check_attributes<'s>(
        &mut self,
        replies: &ReplyPair<'_>,
        attributes: &'s [MatchedReplyAttribute],
        sections: usize,
        sides: [&'s [u8]; 2],
    ) -> Vec<AttributeRelationViolation> {
        let mut violations = Vec::new();
        let Some(context) = &replies.execution else { return violations };
        let Some(names) = OperationFilehandleVariables::from_step(replies, context) else {
            return violations;
        };
        self.record_root_handles(context, &names);
        let mut name = None;
        for (index, effect) in context.parts.effects.iter().enumerate().take(sections) {
            // The change_info of an OPEN without a name (CLAIM_FH, CLAIM_PREVIOUS) describes no directory. RFC 8881
            // section 18.16.4.
            let has_parent = !matches!(effect, OperationEffect::Open(None, _));
            let operation_attributes = |is_before: bool| {
                attributes.iter().filter(move |attribute| {
                    attribute.recorded.section == index + 1
                        && attribute.recorded.is_before == is_before
                        && (has_parent || attribute.recorded.subject != AttributeSubject::Parent)
                })
            };
            let observation = |attribute: &'s MatchedReplyAttribute, name| {
                let bytes = [sides[0].get(attribute.recorded.bytes.clone())?, sides[1].get(attribute.live.clone())?];
                let object = names.subject(attribute.recorded.subject, index);
                Some(RecordedLiveAttributePair { fact: &attribute.recorded, bytes, object, name })
            };
            for observation in operation_attributes(true).filter_map(|attribute| observation(attribute, None)) {
                self.check_value(context, &observation, &mut violations);
            }
            self.apply_effect(context, &names, index, is_unchanged(operation_attributes, sides));
            self.record_possible_sizes(replies, context, &names, index);
            name = self.reached_name(context, &names, index, name);
            let (mut times, mut change) = (Vec::new(), None);
            for attribute in operation_attributes(false) {
                let subject = attribute.recorded.subject;
                let is_reached = matches!(subject, AttributeSubject::Current | AttributeSubject::ReplyHandle);
                let Some(observation) = observation(attribute, name.filter(|_| is_reached)) else { continue };
                self.check_value(context, &observation, &mut violations);
                self.check_size(replies, &observation);
                match attribute.recorded.aspect {
                    ComparedAttributeKind::Modified | ComparedAttributeKind::Metadata => {
                        times.extend(server_clock_granularity::decode_time(observation.bytes[1]));
                    }
                    ComparedAttributeKind::Change if subject == AttributeSubject::Current => {
                        change = Some(observation.number()[1] as u64);
                    }
                    _ => {}
                }
            }
            if let Some(change) = change {
                self.clock.record_change(change, &times);
            }
        }
        violations
    }

    fn record_root_handles(&mut self, context: &ReplyCheckStepContext<'_>, names: &OperationFilehandleVariables<'_>) {
        for (index, operation) in context.parts.operations.iter().enumerate() {
            if *operation != Operation::GETFH || names.file_variable(Some(index)) != ROOT {
                continue;
            }
            let is_of_operation = |slot: &SubstitutableMessageSlot| {
                slot.value_kind == TraceSlotValueKind::FILEHANDLE && slot.operation as usize == index
            };
            let root = context.slots[1].iter().find(is_of_operation).map(|slot| slot.variable);
            let is_new = |root: &u32| self.roots.len() < MAX_ROOT_HANDLES && !self.roots.contains(root);
            self.roots.extend(root.filter(is_new));
        }
    }

    /// Checks the attributes of directory entries, which are matched by name.
    pub(super) fn check_entries(
        &mut self,
        replies: &ReplyPair<'_>,
        [recorded, live]: [&[LocatedField<'_>]; 2],
        sides: [&[u8]; 2],
    ) -> Vec<AttributeRelationViolation> {
        let mut violations = Vec::new();
        let (Some(context), Some((directory, _))) = (&replies.execution, replies.listing) else {
            return violations;
        };
        let live_entries: FxHashMap<&[u8], _> =
            reply_attribute_values::listed_entries(live).into_iter().map(|entry| (entry.name, entry.facts)).collect();
        for entry in reply_attribute_values::listed_entries(recorded) {
            let (Some(live_occurrences), false) = (live_entries.get(entry.name), entry.name == b"..") else {
                continue;
            };
            let is_itself = entry.name == b".";
            let has_handle = |slot: &SubstitutableMessageSlot, handle: &Range<usize>| {
                let (at, end) = (slot.at as usize, (slot.at + slot.length) as usize);
                slot.value_kind == TraceSlotValueKind::FILEHANDLE && at <= handle.start && handle.end <= end
            };
            let object = if is_itself {
                directory
            } else {
                let slot = entry
                    .handle
                    .as_ref()
                    .and_then(|handle| context.slots[1].iter().find(|slot| has_handle(slot, handle)));
                slot.map_or(NONE, |slot| slot.variable)
            };
            let name = (directory != NONE && !is_itself).then(|| (directory, hash(entry.name) as u64));
            for (occurrence, live_occurrence) in entry.facts.iter().zip(live_occurrences) {
                let is_same =
                    occurrence.aspect == live_occurrence.aspect && occurrence.path.text == live_occurrence.path.text;
                let bytes = sides[0].get(occurrence.bytes.clone()).zip(sides[1].get(live_occurrence.bytes.clone()));
                if let (true, Some((recorded, live))) = (is_same, bytes) {
                    let bytes = [recorded, live];
                    let observation = RecordedLiveAttributePair { fact: occurrence, bytes, object, name };
                    self.check_value(context, &observation, &mut violations);
                }
            }
        }
        violations
    }

    /// Compares the final state of an object with its last values in Replies, unless it was changed since. The final
    /// check may have listed it before.
    pub(super) fn final_differences(
        &self,
        variable: u32,
        version: &ObjectVersionAttributes,
        owner: Option<&FileUserAndGroup>,
        was_listed: bool,
    ) -> Vec<FinalAttributeDifference> {
        let variable = if self.roots.contains(&variable) { ROOT } else { variable };
        let Some(object) = self.objects.get(&variable) else { return Vec::new() };
        let last_value = |aspect: ComparedAttributeKind| {
            let last_pair = object.ordered.get(aspect as usize)?.as_ref()?;
            // The last value of a change attribute may come from change_info.
            let field =
                if aspect == ComparedAttributeKind::Change { field_names::NFS_CHANGEID4 } else { last_pair.field };
            // Removing or renaming an object does not change its owner.
            let is_owner = matches!(aspect, ComparedAttributeKind::Owner | ComparedAttributeKind::Group);
            (last_pair.likelihood == AttributeModificationLikelihood::None
                && (is_owner || last_pair.names == self.changed_names))
                .then_some((field, last_pair.values[1]))
        };
        let time = |value: u128| format!("{}.{:09}", value >> 32, value & u128::from(u32::MAX));
        let number = |value: u128| value.to_string();
        let aspects: [(_, _, _, &dyn Fn(u128) -> String); 4] = [
            ("change (stays)", last_value(ComparedAttributeKind::Change), version.change, &number),
            ("time_modify (stays)", last_value(ComparedAttributeKind::Modified), version.modified, &time),
            ("time_metadata (stays)", last_value(ComparedAttributeKind::Metadata), version.metadata, &time),
            ("fileid (one)", object.fileid.map(|fileid| ("", fileid[1])), version.fileid, &number),
        ];
        let owners = [
            ("owner (stays)", ComparedAttributeKind::Owner, owner.map(|owner| &owner.user)),
            ("group (stays)", ComparedAttributeKind::Group, owner.map(|owner| &owner.group)),
        ];
        let other_owners = owners.into_iter().filter_map(|(aspect, kind, now)| {
            let ((field, last), now) = (last_value(kind)?, now?);
            captured_live_owner_pairs::owner_number(now).filter(|now| *now != last)?;
            let is_translated = self.may_have_restarted
                && captured_live_owner_pairs::encoded_owner(now)
                    .is_some_and(|now| self.owners.is_translation(last, &now));
            let last = self.owners.other_than(last, now)?;
            let values = [last, format!("{now:?}")];
            Some(FinalAttributeDifference { aspect, field, values, rule: is_translated.then_some(OWNER) })
        });
        let differing = aspects.into_iter().filter_map(|(aspect, last, now, format)| {
            let ((field, last), now) = (last?, now?);
            let change = object.ordered.get(ComparedAttributeKind::Change as usize).and_then(Option::as_ref);
            // The check itself may have listed a directory.
            let is_read = aspect.starts_with(field_labels::CHANGE)
                && change.is_some_and(|last_pair| {
                    let reads = last_pair.reads.saturating_add(was_listed.into());
                    is_raised_by_reads(last_pair.values[1], reads, now)
                });
            let rule = is_read.then_some(ACCESS_TIME);
            let values = [format(last), format(now)];
            (last != now).then_some(FinalAttributeDifference { aspect, field, values, rule })
        });
        other_owners.chain(differing).collect()
    }

    /// Returns the fsid if file systems are known, and this one is not among them.
    pub(super) fn unknown_file_system(&self, version: &ObjectVersionAttributes) -> Option<u128> {
        version.file_system.filter(|live| self.file_systems.is_unknown(*live))
    }

    fn check_value(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        observation: &RecordedLiveAttributePair<'_>,
        violations: &mut Vec<AttributeRelationViolation>,
    ) {
        match observation.fact.aspect {
            ComparedAttributeKind::ChangeType => {
                self.clock.change_attr_type = u32::try_from(observation.number()[1]).ok()
            }
            ComparedAttributeKind::FileSystem => {
                let [recorded, live] = observation.number();
                let expected = self.file_systems.insert(recorded, live);
                let violation = || observation.violation_after("one", [recorded, expected]);
                violations.extend((expected != live).then(violation));
            }
            ComparedAttributeKind::Fileid | ComparedAttributeKind::MountedOn => {
                violations.extend(self.check_fileid(context, observation))
            }
            ComparedAttributeKind::Owner | ComparedAttributeKind::Group => {
                self.owners.record(observation.bytes[1]);
                violations.extend(self.check_owner(context, observation));
                violations.extend(self.check_ordered(context, observation));
            }
            ComparedAttributeKind::Modified | ComparedAttributeKind::Metadata => {
                if let Some(time) = server_clock_granularity::decode_time(observation.bytes[1]) {
                    self.clock.record_time(time);
                }
                violations.extend(self.check_ordered(context, observation));
            }
            ComparedAttributeKind::Change => violations.extend(self.check_ordered(context, observation)),
            ComparedAttributeKind::Size | ComparedAttributeKind::FileType => {}
        }
    }

    /// Checks the size of a file in a Reply that overlapped with a change of files.
    fn check_size(&mut self, replies: &ReplyPair<'_>, observation: &RecordedLiveAttributePair<'_>) {
        let file = observation.object;
        if file == NONE || file == ROOT {
            return;
        }
        let [recorded, live] = observation.number().map(|value| value as u64);
        match observation.fact.aspect {
            ComparedAttributeKind::FileType if recorded != u64::from(NfsFtype4::NF4REG.0) => {
                self.sizes.set_unlimited(file);
            }
            ComparedAttributeKind::Size if !replies.is_racing => self.sizes.add_base(file, recorded),
            ComparedAttributeKind::Size => {
                self.sizes.add(file, recorded);
                self.sizes.check(file, live, || {
                    let values = [recorded, live].map(|bytes| bytes.to_string());
                    let violation = observation.violation("possible", values);
                    violation.difference(replies.place(), replies.title.to_owned(), &|_| None)
                });
            }
            _ => {}
        }
    }

    fn check_fileid(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        observation: &RecordedLiveAttributePair<'_>,
    ) -> Option<AttributeRelationViolation> {
        let now = observation.number();
        let is_own = observation.fact.aspect == ComparedAttributeKind::Fileid;
        let is_other = |pair: &[u128; 2]| pair[0] == now[0] && pair[1] != now[1];
        let mut before = None;
        if observation.object != NONE {
            let object = self.object_state(observation.object, context.step_turn);
            before = object.fileid.filter(is_other);
            if is_own {
                object.fileid = Some(now);
            } else {
                before = before.or(object.mounted_on_fileid.filter(is_other));
                object.mounted_on_fileid = Some(now);
            }
        }
        if let Some(name) = observation.name.filter(|(directory, _)| *directory != NONE && context.has_no_overlap) {
            if self.names.len() >= MAX_ENTRIES {
                self.names.clear();
            }
            let existing = self.names.get(&name).copied();
            before = before.or(existing.map(|(fileid, _)| fileid).filter(is_other));
            if is_own {
                let object =
                    existing.filter(|_| observation.object == NONE).map_or(observation.object, |(_, object)| object);
                self.names.insert(name, (now, object));
            }
        }
        before.map(|before| observation.violation_after("one", before))
    }

    /// An owner has one name on the live server. Seeded objects may have another owner until it is set.
    fn check_owner(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        observation: &RecordedLiveAttributePair<'_>,
    ) -> Option<AttributeRelationViolation> {
        if observation.object == NONE {
            return None;
        }
        let is_seeded = observation.object == ROOT
            || self.roots.contains(&observation.object)
            || context.seeded.contains_key(&observation.object);
        if is_seeded && self.object_state(observation.object, context.step_turn).is_set {
            return None;
        }
        let (aspect, may_have_restarted) = (observation.fact.aspect, self.may_have_restarted);
        let (values, is_translated) = self.owners.insert(aspect, is_seeded, observation.bytes, may_have_restarted)?;
        let rule = is_translated.then_some(OWNER);
        Some(AttributeRelationViolation { rule, ..observation.violation("one", values) })
    }

    fn check_ordered(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        observation: &RecordedLiveAttributePair<'_>,
    ) -> Option<AttributeRelationViolation> {
        if observation.object == NONE {
            return None;
        }
        let aspect = observation.fact.aspect;
        let is_time = matches!(aspect, ComparedAttributeKind::Modified | ComparedAttributeKind::Metadata);
        // A step that writes or creates an object sets its time to now, whatever else was in flight.
        if is_time {
            let is_of_run = self.was_created_in_run(context, observation.object);
            // A step may have set a live time that has the recorded second.
            let [recorded_seconds, live_seconds] = observation.seconds();
            let object = self.object_state(observation.object, context.step_turn);
            let is_written = !observation.fact.is_before && object.written == Some(context.step_turn);
            let may_be_set =
                aspect == ComparedAttributeKind::Modified && (object.is_set || recorded_seconds == live_seconds);
            if (is_written || is_of_run && !may_be_set) && observation.is_unexpected_time(context.call_time_ns) {
                return Some(observation.violation_after("of now", observation.number()));
            }
        }
        if let Some(before) = self.value_above(context, observation) {
            return Some(observation.violation_after("rises", before));
        }
        if !context.has_no_overlap {
            return None;
        }
        if aspect == ComparedAttributeKind::Modified
            && let Some(set) = self.object_state(observation.object, context.step_turn).set_modify_seconds
        {
            let [recorded, live] = observation.seconds();
            let set = Some(set.cast_unsigned());
            if recorded == set && live != set {
                return Some(observation.violation_after("set", observation.number()));
            }
        }
        if aspect == ComparedAttributeKind::Change
            && self.object_state(observation.object, context.step_turn).made == Some(context.step_turn)
            && self.clock.is_below_run(context.step_turn, observation.number().map(|value| value as u64))
        {
            return Some(observation.violation_after("of now", observation.number()));
        }
        let (now, names) = (observation.number(), self.changed_names);
        let is_directory = is_directory_change(observation);
        let object = self.object_state(observation.object, context.step_turn);
        let (is_written, before, at) = (object.written.is_some(), object.changed, aspect as usize);
        let entry = object.ordered.get_mut(at)?;
        let last_pair = entry.take();
        // A read that was in flight with this Call may have been executed after it.
        let overlapping_read =
            last_pair.as_ref().filter(|pair| pair.last_read.is_some_and(|arrival| arrival > context.times[0]));
        let (reads, last_read) = overlapping_read.map_or((0, None), |pair| (pair.reads, pair.last_read));
        // The live value has been the same since it was first received.
        let unchanged_since = last_pair.as_ref().filter(|pair| pair.values[1] == now[1]).map(|known| known.received);
        let first_received = unchanged_since.unwrap_or(context.times[1]);
        *entry = Some(LastCapturedAndLiveAttribute {
            values: now,
            likelihood: AttributeModificationLikelihood::None,
            reads,
            last_read,
            changed: None,
            received: first_received,
            is_before_restart: false,
            previous_change: before,
            names,
            field: observation.fact.path.field,
        });
        let last_pair = last_pair?;
        let relation_violation = |relation| Some(observation.violation_after(relation, last_pair.values));
        let [recorded, live] = [0, 1].map(|side| last_pair.values[side] != now[side]);
        let is_same_names = last_pair.names[1] == names[1] && (is_directory || last_pair.names[0] == names[0]);
        if !recorded && last_pair.likelihood == AttributeModificationLikelihood::None && is_same_names {
            let violation = if live { relation_violation("stays") } else { None };
            let rule = match aspect {
                ComparedAttributeKind::Change => {
                    is_raised_by_reads(last_pair.values[1], last_pair.reads, now[1]).then_some(ACCESS_TIME)
                }
                ComparedAttributeKind::Owner | ComparedAttributeKind::Group => {
                    let is_translated = self.may_have_restarted
                        && self.owners.is_translation(last_pair.values[1], observation.bytes[1]);
                    is_translated.then_some(OWNER)
                }
                _ => None,
            };
            return violation.map(|violation| AttributeRelationViolation { rule, ..violation });
        }
        // A restart may change a value that stayed in the capture, but does not reduce it.
        let may_rise = recorded || last_pair.is_before_restart;
        if matches!(aspect, ComparedAttributeKind::Owner | ComparedAttributeKind::Group) || !may_rise {
            return None;
        }
        if recorded && last_pair.likelihood == AttributeModificationLikelihood::Certain {
            let changed = last_pair.changed.unwrap_or(last_pair.received);
            let elapsed = changed.saturating_duration_since(last_pair.received);
            let must_move = match aspect {
                ComparedAttributeKind::Change => {
                    let change_interval =
                        last_pair.previous_change.map(|before| context.times[1].saturating_duration_since(before));
                    if live && self.clock.is_below_run(context.step_turn, now.map(|value| value as u64)) {
                        return relation_violation("of now");
                    }
                    self.clock.must_move(elapsed, change_interval, live)
                }
                _ => !live && elapsed >= self.clock.granularity(),
            };
            if must_move {
                return relation_violation("moves");
            }
            if is_time && live && is_written && observation.is_unexpected_time(context.call_time_ns) {
                return relation_violation("of now");
            }
        }
        let is_recorded_rising = !recorded || last_pair.values[0] < now[0];
        let falls = match aspect {
            ComparedAttributeKind::Change => {
                let [before, now] = [last_pair.values[1], now[1]].map(|value| value as u64);
                self.clock.is_forbidden_decrease(before, now) && is_recorded_rising
            }
            ComparedAttributeKind::Metadata => is_recorded_rising && now[1] < last_pair.values[1],
            _ => false,
        };
        if falls { relation_violation("rises") } else { None }
    }

    /// Returns both values of an earlier Reply that the live value is below, although it must not decrease.
    fn value_above(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        observation: &RecordedLiveAttributePair<'_>,
    ) -> Option<[u128; 2]> {
        let aspect = observation.fact.aspect;
        // A step may set the time of last modification to an earlier one, also through another filehandle.
        let at = match aspect {
            ComparedAttributeKind::Change => 0,
            ComparedAttributeKind::Metadata => 1,
            _ => return None,
        };
        let is_change = aspect == ComparedAttributeKind::Change;
        let (turn, now) = (context.step_turn, observation.number());
        let reply = StepReplyTiming {
            turn,
            sent: context.times[0],
            received: context.times[1],
            is_before: observation.fact.is_before,
        };
        let floor = self.object_state(observation.object, turn).floors.get_mut(at)?;
        let before = floor.before(reply).filter(|_| !context.was_resent);
        let is_below = before.is_some_and(|before| now[1] < before[1]);
        let is_forbidden = match before {
            Some(before) if is_change => self.clock.is_forbidden_decrease(before[1] as u64, now[1] as u64),
            _ => is_below,
        };
        let floor = self.object_state(observation.object, turn).floors.get_mut(at)?;
        if is_forbidden {
            *floor = AttributeValueLowerBound::default();
        }
        floor.record(now, reply);
        before.filter(|_| is_forbidden)
    }

    /// Returns the state of an object. Ordered values are dropped if the order of steps is not that of the capture.
    fn object_state(&mut self, variable: u32, turn: u64) -> &mut ReplyCheckFileState {
        let variable = if self.roots.contains(&variable) { ROOT } else { variable };
        if self.objects.len() >= MAX_ENTRIES && !self.objects.contains_key(&variable) {
            self.objects.clear();
        }
        let object = self.objects.entry(variable).or_default();
        if turn < object.turn {
            object.ordered = Default::default();
        }
        object.turn = object.turn.max(turn);
        object
    }
}

/// Returns `true` if a change attribute has risen by at most the number of reads since its last value: servers count
/// updates of the access time in it (XFS before Linux 6.13).
fn is_raised_by_reads(before: u128, reads: u32, live: u128) -> bool {
    let raised = live.checked_sub(before);
    raised.is_some_and(|raised| (1..=u128::from(reads)).contains(&raised))
}

/// Returns `true` if the recorded change_info of an operation shows an unchanged directory.
fn is_unchanged<'f, I: Iterator<Item = &'f MatchedReplyAttribute>>(
    attributes: impl Fn(bool) -> I,
    sides: [&[u8]; 2],
) -> bool {
    let change = |is_before: bool| {
        let attribute = attributes(is_before).find(|attribute| {
            attribute.recorded.aspect == ComparedAttributeKind::Change
                && attribute.recorded.subject == AttributeSubject::Parent
        })?;
        sides[0].get(attribute.recorded.bytes.clone())
    };
    change(true).is_some_and(|before| change(false) == Some(before))
}

/// Returns `true` for a value of a directory whose names change: removing its own name does not affect it.
fn is_directory_change(observation: &RecordedLiveAttributePair<'_>) -> bool {
    let path = &*observation.fact.path.text;
    [field_labels::CINFO, field_labels::SOURCE_CINFO, field_labels::TARGET_CINFO, field_labels::DIR_ATTRIBUTES]
        .iter()
        .chain(field_labels::DIRECTORY_WCC_DATA)
        .any(|label| has_label(path, label))
}
