//! Collects the dependencies of a step.
//!
//! | resource | rule |
//! |---|---|
//! | value given by the live server | used after the step that gives it |
//! | slot, owner seqid (RFC 8881 section 2.10.6.1, RFC 7530 section 9.1.7) | one step at a time |
//! | stateid | steps that change or end it wait for those that use it |
//! | open | ends after the locks made with it, and before another open of the client with a different stateid |
//! | name | concurrent lookups, exclusive changes; a listing excludes changes of the directory |
//! | object | not removed, and its attributes not set, while others use it |
//! | size of a file | changes and reads in captured order, if they did not overlap there |
//! | bytes of a file | concurrent reads, exclusive writes |
//! | client | sessions and client IDs are created and destroyed exclusively |

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Attribute, Operation, Results};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, v3};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::Cursor;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::options::{ReplayOrder, ReplayPace};
use super::StepDependency;
use super::effects::OperationEffect;
use super::name_to_object_bindings::{DirectoryEntryReferent, DirectoryEntryTargetTable};
use super::resource_access_queues::{DependencyResource, ResourceAccessMode};
use crate::trace::step::{
    NONE, SubstitutableMessageSlot, TraceMessage, TraceSlotValueKind, TraceStep, VariableUseKind,
};
use crate::tree::inferred_object::ROOT;

/// Maximum number of directory entries of a listing that are read.
const MAX_LISTING_ENTRIES: usize = 4096;

#[derive(Debug)]
pub(in crate::run) struct DependencyCollector {
    order: ReplayOrder,
    uses_think_time: bool,
    names: DirectoryEntryTargetTable,
    pub(in crate::run) dependencies: Vec<StepDependency>,
}

impl DependencyCollector {
    pub(in crate::run) fn new(order: ReplayOrder, pace: ReplayPace, names: DirectoryEntryTargetTable) -> Self {
        Self { order, uses_think_time: pace == ReplayPace::ThinkTime, names, dependencies: Vec::new() }
    }

    fn add_access(&mut self, resource: DependencyResource, mode: ResourceAccessMode) {
        self.dependencies.push(StepDependency::Access(resource, mode));
    }

    fn share(&mut self, resource: DependencyResource) {
        self.add_access(resource, ResourceAccessMode::SharedRead);
    }

    fn exclude_others(&mut self, resource: DependencyResource) {
        self.add_access(resource, ResourceAccessMode::Exclusive);
    }

    fn add_interval(&mut self, resource: DependencyResource, changes: bool) {
        self.dependencies.push(StepDependency::Interval(resource, changes));
    }

    fn add_range(&mut self, file: u32, from: u64, to: u64, writes: bool) {
        self.dependencies.push(StepDependency::Range(file, from, to, writes));
    }

    /// Collects the dependencies of a step. `slot` is its session variable and captured slot.
    pub(in crate::run) fn collect(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        slot: Option<(u32, u32)>,
        is_directory: &dyn Fn(u32) -> bool,
    ) {
        self.dependencies.clear();
        if let Some((session, slot)) = slot {
            self.exclude_others(DependencyResource::Slot(session, slot));
        }
        let client = DependencyResource::Client(step.caller.client);
        if self.order == ReplayOrder::Captured {
            self.add_interval(DependencyResource::All, true);
            self.add_state_ends(step, parts);
            return;
        }
        if self.uses_think_time {
            self.add_interval(client, true);
        }
        if self.order == ReplayOrder::Serial || parts.effects.contains(&OperationEffect::ExclusiveClient) {
            self.exclude_others(client);
        } else {
            self.share(client);
        }
        self.share(DependencyResource::All);
        self.add_slots(step, parts);
        match step.procedure.find_description() {
            Some(Procedure::Compound) => self.add_compound(step, parts, is_directory),
            Some(Procedure::V3(_)) => self.add_v3(step, parts, is_directory),
            Some(Procedure::Nfsacl3(_)) => {
                let effect = parts.effects.first().copied().unwrap_or(OperationEffect::ReadAttributes);
                let file = self.nth_handle_object(step, 0);
                self.add_effect(effect, file, NONE, NONE, step, is_directory);
            }
            Some(Procedure::Null) => {}
            // NLM locks: the state of the file is unknown.
            _ => {
                self.exclude_others(client);
                self.add_opens_access(self.nth_handle_object(step, 0));
            }
        }
    }

    /// Adds the dependencies of the values in the Call and the Reply.
    fn add_slots(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        let has_seqids = step.procedure.minor_version == 0;
        for slot in step.call.slots.iter() {
            let is_lock_owner = slot.value_kind == TraceSlotValueKind::LOCK_SEQID;
            if slot.value_kind.is_assigned_by_server() {
                self.dependencies.push(StepDependency::Need(slot.variable));
            }
            match slot.value_kind {
                TraceSlotValueKind::OPEN_SEQID | TraceSlotValueKind::LOCK_SEQID if has_seqids => {
                    self.exclude_others(DependencyResource::Owner(slot.variable, is_lock_owner));
                }
                TraceSlotValueKind::STATEID => self.add_stateid(slot.variable, parts.ends_state(&slot)),
                TraceSlotValueKind::FILEHANDLE => {
                    self.share(DependencyResource::Object(self.names.object(slot.variable)));
                }
                _ => {}
            }
        }
        for slot in step.reply.slots.iter().filter(|slot| slot.value_kind.is_assigned_by_server()) {
            if slot.part == VariableUseKind::DEFINED {
                self.dependencies.push(StepDependency::Define(slot.variable));
            } else if slot.value_kind == TraceSlotValueKind::STATEID {
                self.exclude_others(DependencyResource::Stateid(slot.variable));
            }
            if slot.value_kind == TraceSlotValueKind::FILEHANDLE {
                self.share(DependencyResource::Object(self.names.object(slot.variable)));
            }
        }
    }

    /// Orders the end of a stateid after its uses, as the captured server did, also where both overlapped there.
    fn add_state_ends(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        for (at, operation) in (0..).zip(&parts.operations) {
            if *operation == Operation::LOCK {
                self.record_lock_open(step, at);
            }
        }
        for slot in step.call.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::STATEID) {
            let is_end = matches!(
                parts.operations.get(slot.operation as usize),
                Some(&(Operation::CLOSE | Operation::DELEGRETURN | Operation::FREE_STATEID))
            );
            self.add_stateid(slot.variable, is_end);
        }
    }

    /// Adds the access to a stateid. That of a lock uses the open that the lock was made with, too.
    fn add_stateid(&mut self, variable: u32, is_exclusive: bool) {
        let stateid = DependencyResource::Stateid(variable);
        if is_exclusive {
            self.exclude_others(stateid)
        } else {
            self.share(stateid)
        }
        if let Some(open) = self.names.open_of(variable) {
            self.share(DependencyResource::Stateid(open));
        }
    }

    fn nth_handle_object(&self, step: &TraceStep<'_>, nth: usize) -> u32 {
        let handle = step.call.variables(TraceSlotValueKind::FILEHANDLE).nth(nth);
        handle.map_or(NONE, |variable| self.names.object(variable))
    }

    fn add_compound(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        is_directory: &dyn Fn(u32) -> bool,
    ) {
        for (at, effect) in parts.effects.iter().enumerate() {
            let file = parts.files.get(at).map_or(NONE, |file| self.names.object(*file));
            let [before, saved] = [parts.current_file(at), parts.saved_file(at)].map(|file| self.names.object(file));
            let operation = parts.operations.get(at).copied();
            match operation {
                Some(Operation::LOCK) => self.record_lock_open(step, at as u32),
                Some(Operation::PUTROOTFH | Operation::PUTPUBFH) => {
                    self.share(DependencyResource::Object(ROOT));
                }
                _ => {}
            }
            self.add_open_end(step, at as u32, operation, file);
            let payload = step.call.payloads.iter().find(|payload| payload.operation as usize == at);
            let effect = match effect {
                OperationEffect::Write(offset, None) => {
                    OperationEffect::Write(*offset, Some(payload.map_or(0, |payload| payload.length.into())))
                }
                effect => *effect,
            };
            self.add_effect(effect, file, before, saved, step, is_directory);
        }
    }

    /// Orders an OPEN after an overlapping CLOSE if it was granted a new stateid: before the CLOSE it would have been
    /// granted the same one (RFC 8881 section 9.9).
    fn add_open_end(&mut self, step: &TraceStep<'_>, at: u32, operation: Option<Operation>, file: u32) {
        let is_new = |slot: SubstitutableMessageSlot| {
            slot.value_kind == TraceSlotValueKind::STATEID
                && slot.operation == at
                && slot.part == VariableUseKind::DEFINED
        };
        let ends = DependencyResource::OpenEnds(file, step.caller.client);
        match operation {
            _ if file == NONE => {}
            Some(Operation::CLOSE) => self.share(ends),
            Some(Operation::OPEN) if step.reply.slots.iter().any(is_new) => self.exclude_others(ends),
            _ => {}
        }
    }

    fn record_lock_open(&mut self, step: &TraceStep<'_>, at: u32) {
        let stateid = |message: &TraceMessage<'_>| {
            let is_stateid = |slot: &SubstitutableMessageSlot| {
                slot.value_kind == TraceSlotValueKind::STATEID && slot.operation == at
            };
            message.slots.iter().find(is_stateid).map(|slot| slot.variable)
        };
        if let (Some(open), Some(lock)) = (stateid(&step.call), stateid(&step.reply))
            && open != lock
        {
            self.names.record_lock_open(lock, open);
        }
    }

    pub(in crate::run) fn object(&self, variable: u32) -> u32 {
        self.names.object(variable)
    }

    fn add_v3(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles, is_directory: &dyn Fn(u32) -> bool) {
        let Some(effect) = parts.effects.first().copied() else { return };
        let (first, second) = (self.nth_handle_object(step, 0), self.nth_handle_object(step, 1));
        let (file, before, saved) = match effect {
            OperationEffect::Lookup(_) | OperationEffect::Create(_) => {
                let returned = step.reply.variable(TraceSlotValueKind::FILEHANDLE);
                (returned.map_or(NONE, |variable| self.names.object(variable)), first, NONE)
            }
            OperationEffect::Link(_) | OperationEffect::Rename(..) => (second, second, first),
            _ => (first, first, NONE),
        };
        self.add_effect(effect, file, before, saved, step, is_directory);
    }

    /// Adds the dependencies of an operation: `file` is the current file after it, `before` the one before it, `saved`
    /// the saved one.
    fn add_effect(
        &mut self,
        effect: OperationEffect,
        file: u32,
        before: u32,
        saved: u32,
        step: &TraceStep<'_>,
        is_directory: &dyn Fn(u32) -> bool,
    ) {
        match effect {
            OperationEffect::Nothing | OperationEffect::ExclusiveClient | OperationEffect::FreeState => {}
            OperationEffect::ReadAttributes => self.add_size_read(file, is_directory),
            OperationEffect::ChangeAttributes => {
                self.exclude_others(DependencyResource::Object(file));
                self.add_size_access(file, true);
            }
            OperationEffect::Lookup(name) => {
                self.share(DependencyResource::Name(before, name));
                self.add_size_read(file, is_directory);
                let target = Some(file).filter(|file| *file != NONE);
                if target.is_some() || self.names.target(before, name) == DirectoryEntryReferent::Unknown {
                    self.names.set_target(before, name, target);
                }
            }
            OperationEffect::ReadName(name) => self.share(DependencyResource::Name(before, name)),
            OperationEffect::Create(name) => self.add_name_change(before, name, Some(file)),
            OperationEffect::Link(name) => {
                self.add_name_change(file, name, Some(saved));
                self.exclude_others(DependencyResource::Object(saved));
                self.add_size_access(saved, true);
            }
            OperationEffect::Remove(name) => {
                self.add_object_removal(file, name);
                self.add_name_change(file, name, None);
            }
            OperationEffect::Rename(from, to) => {
                let moved = match self.names.target(saved, from) {
                    DirectoryEntryReferent::Object(moved) => Some(moved),
                    DirectoryEntryReferent::NoObject | DirectoryEntryReferent::Unknown => None,
                };
                self.add_object_removal(file, to);
                self.add_name_change(saved, from, None);
                self.add_name_change(file, to, moved);
            }
            OperationEffect::ReadDirectory => {
                self.share(DependencyResource::Names(file));
                let entries = step.reply.variables(TraceSlotValueKind::FILEHANDLE);
                for entry in entries.take(MAX_LISTING_ENTRIES) {
                    self.add_size_read(self.names.object(entry), is_directory);
                }
            }
            OperationEffect::Open(name, creates) => {
                match name {
                    Some(name) if creates => self.add_name_change(before, name, Some(file)),
                    Some(name) => {
                        self.share(DependencyResource::Name(before, name));
                        if file != NONE {
                            self.names.set_target(before, name, Some(file));
                        }
                    }
                    None => {}
                }
                if creates && file != NONE {
                    self.add_range(file, 0, u64::MAX, true);
                }
                self.add_size_access(file, creates);
                self.add_opens_access(file);
            }
            OperationEffect::ChangeFileState => {
                self.add_opens_access(file);
                self.add_size_read(file, is_directory);
            }
            OperationEffect::Read(offset, count) => {
                self.add_range(file, offset, offset.saturating_add(count), false);
                self.add_size_read(file, is_directory);
            }
            OperationEffect::Write(offset, count) => {
                let to = offset.saturating_add(count.unwrap_or(0));
                self.add_range(file, offset, to, true);
                // It may have extended the file, unless the recorded Reply shows a larger size.
                self.add_size_access(file, recorded_size(step).is_none_or(|size| to >= size));
            }
            OperationEffect::Copy(from, to, count) => {
                let end = |at: u64| if count == 0 { u64::MAX } else { at.saturating_add(count) };
                self.add_range(saved, from, end(from), false);
                self.add_range(file, to, end(to), true);
                self.add_size_read(saved, is_directory);
                self.add_size_access(file, true);
            }
        }
    }

    fn add_size_read(&mut self, file: u32, is_directory: &dyn Fn(u32) -> bool) {
        // The size of a directory is not tracked, and its names are tracked separately.
        if !is_directory(file) && file != ROOT {
            self.add_size_access(file, false);
        }
    }

    fn add_size_access(&mut self, file: u32, changes: bool) {
        if file != NONE {
            self.add_interval(DependencyResource::Size(file), changes);
        }
    }

    fn add_opens_access(&mut self, file: u32) {
        if file != NONE {
            self.add_interval(DependencyResource::FileOpens(file), true);
        }
    }

    /// Adds the change of a name, which then refers to `object` or nothing.
    fn add_name_change(&mut self, directory: u32, name: u64, object: Option<u32>) {
        self.exclude_others(DependencyResource::Name(directory, name));
        self.add_access(DependencyResource::Names(directory), ResourceAccessMode::SharedPartialWrite);
        self.names.set_target(directory, name, object.filter(|object| *object != NONE));
    }

    /// Adds the possible removal of the object that a name refers to.
    fn add_object_removal(&mut self, directory: u32, name: u64) {
        match self.names.target(directory, name) {
            DirectoryEntryReferent::NoObject => {}
            DirectoryEntryReferent::Object(object) => {
                self.exclude_others(DependencyResource::Object(object));
            }
            // It may be any object that others use.
            DirectoryEntryReferent::Unknown => self.exclude_others(DependencyResource::All),
        }
    }
}

/// Returns the size that the recorded Reply of a WRITE shows: for NFSv3 the size before it plus one, for NFSv4 the size
/// after it.
fn recorded_size(step: &TraceStep<'_>) -> Option<u64> {
    let mut cursor = Cursor::new(step.reply.head.0).with_chunks(&[]);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    match step.procedure.find_description()? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            reply.operations().map_while(Result::ok).find_map(|results| match results {
                Results::GETATTR(StatusUnion::Ok(attributes)) => {
                    attributes.obj_attributes.items().map_while(Result::ok).find_map(|attribute| match attribute {
                        Attribute::SIZE(size) => Some(size),
                        _ => None,
                    })
                }
                _ => None,
            })
        }
        Procedure::V3(v3::Procedure::WRITE) => {
            match v3::Results::decode(v3::Procedure::WRITE, &mut cursor, &mut NullFieldObserver).ok()? {
                // A WRITE up to the old end does not extend the file; one beyond does.
                v3::Results::WRITE(StatusUnion::Ok(written)) => Some(written.file_wcc.before?.size.saturating_add(1)),
                _ => None,
            }
        }
        _ => None,
    }
}
