//! Collects the dependencies of a step.
//!
//! | resource | rule |
//! |---|---|
//! | value given by the live server | used after the step that gives it |
//! | slot, owner seqid (RFC 8881 section 2.10.6.1, RFC 7530 section 9.1.7) | one step at a time |
//! | stateid | steps that change or end it wait for those that use it |
//! | open | ends after the locks made with it, and before another of the client with a stateid of its own |
//! | name | concurrent lookups, exclusive changes; a listing excludes changes of the directory |
//! | object | not removed, and its attributes not set, while others use it |
//! | size of a file | changes and reads in captured order, if they did not overlap there |
//! | bytes of a file | concurrent reads, exclusive writes |
//! | client | sessions and client IDs are created and destroyed exclusively |

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Attribute, Operation, Results};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, v3};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

use super::super::call_operations_and_files::{CallOperationsAndFiles, ROOT};
use super::super::options::{self, ReplayPace};
use super::effects::OperationEffect;
use super::name_to_object_bindings::{DirectoryEntryReferent, DirectoryEntryTargetTable};
use super::{DependencyResource, DependencyResourceKind, ResourceAccessMode, StepDependency};
use crate::trace::{NONE, SubstitutableMessageSlot, TraceSlotValueKind, TraceStep, VariableUseKind};

/// Maximum number of directory entries of a listing that are read.
const MAX_LISTING_ENTRIES: usize = 4096;

fn group(kind: DependencyResourceKind, of: u32, part: u64, way: ResourceAccessMode) -> StepDependency {
    StepDependency::Access(DependencyResource { kind, id: of, part }, way)
}

/// Collects the dependencies of one step at a time.
#[derive(Debug)]
pub(in crate::run) struct DependencyCollector {
    order: options::ReplayOrder,
    uses_think_time: bool,
    names: DirectoryEntryTargetTable,
    /// Dependencies of the current step.
    pub(in crate::run) dependencies: Vec<StepDependency>,
}

impl DependencyCollector {
    /// Creates a collector for this order and pace.
    pub(in crate::run) fn new(
        order: options::ReplayOrder,
        pace: ReplayPace,
        names: DirectoryEntryTargetTable,
    ) -> Self {
        Self { order, uses_think_time: pace == ReplayPace::ThinkTime, names, dependencies: Vec::new() }
    }

    fn add_access(&mut self, kind: DependencyResourceKind, of: u32, part: u64, way: ResourceAccessMode) {
        self.dependencies.push(group(kind, of, part, way));
    }

    /// Collects the dependencies of a step. `slot` is its session variable and captured slot; `is_directory` returns
    /// `true` for variables of directories.
    pub(in crate::run) fn collect(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        slot: Option<(u32, u32)>,
        is_directory: impl Fn(u32) -> bool,
    ) {
        self.dependencies.clear();
        if let Some((session, slot)) = slot {
            self.add_access(
                DependencyResourceKind::Slot,
                session,
                slot.into(),
                ResourceAccessMode::Exclusive,
            );
        }
        let client = step.caller.client;
        if self.order == options::ReplayOrder::Captured {
            self.dependencies.push(StepDependency::Interval(
                DependencyResource { kind: DependencyResourceKind::All, id: 0, part: 0 },
                true,
            ));
            self.add_state_ends(step, parts);
            return;
        }
        if self.uses_think_time {
            self.dependencies.push(StepDependency::Interval(
                DependencyResource { kind: DependencyResourceKind::Client, id: client, part: 0 },
                true,
            ));
        }
        let is_alone = self.order == options::ReplayOrder::Serial
            || parts.effects.contains(&OperationEffect::ExclusiveClient);
        self.add_access(
            DependencyResourceKind::Client,
            client,
            0,
            if is_alone { ResourceAccessMode::Exclusive } else { ResourceAccessMode::SharedRead },
        );
        self.add_access(DependencyResourceKind::All, 0, 0, ResourceAccessMode::SharedRead);
        self.add_slots(step, parts);
        match step.asked.find_description() {
            Some(Procedure::Compound) => self.add_compound(step, parts, &is_directory),
            Some(Procedure::V3(_)) => self.add_v3(step, parts, &is_directory),
            Some(Procedure::Nfsacl3(_)) => {
                let act = parts.effects.first().copied().unwrap_or(OperationEffect::ReadAttributes);
                let file = self.nth_handle_object(step, 0);
                self.add_effect(act, file, NONE, NONE, step, &is_directory);
            }
            Some(Procedure::Null) => {}
            // NLM locks: the state of the file is unknown.
            _ => {
                self.add_access(DependencyResourceKind::Client, client, 0, ResourceAccessMode::Exclusive);
                self.add_opens_access(self.nth_handle_object(step, 0));
            }
        }
    }

    /// Adds the dependencies of the values in the Call and the Reply.
    fn add_slots(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        let has_seqids = step.asked.minor_version == 0;
        for slot in step.call.slots.iter() {
            match slot.holds {
                TraceSlotValueKind::OPEN_SEQID if has_seqids => self.add_access(
                    DependencyResourceKind::Owner,
                    slot.variable,
                    0,
                    ResourceAccessMode::Exclusive,
                ),
                TraceSlotValueKind::LOCK_SEQID if has_seqids => self.add_access(
                    DependencyResourceKind::Owner,
                    slot.variable,
                    1,
                    ResourceAccessMode::Exclusive,
                ),
                TraceSlotValueKind::STATEID => {
                    self.dependencies.push(StepDependency::Need(slot.variable));
                    let way = if parts.ends_state(&slot) {
                        ResourceAccessMode::Exclusive
                    } else {
                        ResourceAccessMode::SharedRead
                    };
                    self.add_stateid(slot.variable, way);
                }
                TraceSlotValueKind::FILEHANDLE => {
                    self.dependencies.push(StepDependency::Need(slot.variable));
                    let object = self.names.object(slot.variable);
                    self.add_access(
                        DependencyResourceKind::Object,
                        object,
                        0,
                        ResourceAccessMode::SharedRead,
                    );
                }
                holds if holds.is_assigned_by_server() => {
                    self.dependencies.push(StepDependency::Need(slot.variable))
                }
                _ => {}
            }
        }
        for slot in step.reply.slots.iter().filter(|slot| slot.holds.is_assigned_by_server()) {
            match (slot.holds, slot.part) {
                (_, VariableUseKind::DEFINED) => {
                    self.dependencies.push(StepDependency::Define(slot.variable))
                }
                (TraceSlotValueKind::STATEID, _) => self.add_access(
                    DependencyResourceKind::Stateid,
                    slot.variable,
                    0,
                    ResourceAccessMode::Exclusive,
                ),
                _ => {}
            }
            if slot.holds == TraceSlotValueKind::FILEHANDLE {
                let object = self.names.object(slot.variable);
                self.add_access(DependencyResourceKind::Object, object, 0, ResourceAccessMode::SharedRead);
            }
        }
    }

    /// Orders the end of a stateid after its uses, also where both overlapped in the capture: there the server executed
    /// the uses first.
    fn add_state_ends(&mut self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) {
        for (at, operation) in parts.operations.iter().enumerate() {
            if *operation == Operation::LOCK {
                self.record_lock_open(step, at as u32);
            }
        }
        for slot in step.call.slots.iter().filter(|slot| slot.holds == TraceSlotValueKind::STATEID) {
            let operation = parts.operations.get(slot.operation as usize);
            let is_end = matches!(
                operation,
                Some(&(Operation::CLOSE | Operation::DELEGRETURN | Operation::FREE_STATEID))
            );
            let way = if is_end { ResourceAccessMode::Exclusive } else { ResourceAccessMode::SharedRead };
            self.add_stateid(slot.variable, way);
        }
    }

    /// Adds the access to a stateid. That of a lock uses the open that the lock was made with, too.
    fn add_stateid(&mut self, variable: u32, way: ResourceAccessMode) {
        self.add_access(DependencyResourceKind::Stateid, variable, 0, way);
        if let Some(open) = self.names.open_of(variable) {
            self.add_access(DependencyResourceKind::Stateid, open, 0, ResourceAccessMode::SharedRead);
        }
    }

    /// Returns the object of the filehandle number `nth` of the Call.
    fn nth_handle_object(&self, step: &TraceStep<'_>, nth: usize) -> u32 {
        let handle =
            step.call.slots.iter().filter(|slot| slot.holds == TraceSlotValueKind::FILEHANDLE).nth(nth);
        handle.map_or(NONE, |slot| self.names.object(slot.variable))
    }

    fn add_compound(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        is_directory: &impl Fn(u32) -> bool,
    ) {
        let (mut before, mut saved) = (NONE, NONE);
        for (at, act) in parts.effects.iter().enumerate() {
            let file = parts.files.get(at).map_or(NONE, |file| self.names.object(*file));
            let operation = parts.operations.get(at).copied();
            match operation {
                Some(Operation::SAVEFH) => saved = file,
                Some(Operation::LOCK) => self.record_lock_open(step, at as u32),
                Some(Operation::PUTROOTFH | Operation::PUTPUBFH) => {
                    self.add_access(DependencyResourceKind::Object, ROOT, 0, ResourceAccessMode::SharedRead);
                }
                _ => {}
            }
            self.add_open_end(step, at as u32, operation, file);
            let payload = step.call.payloads.iter().find(|payload| payload.operation as usize == at);
            let act = match act {
                OperationEffect::Write(offset, None) => {
                    OperationEffect::Write(*offset, Some(payload.map_or(0, |payload| payload.length.into())))
                }
                act => *act,
            };
            self.add_effect(act, file, before, saved, step, is_directory);
            before = file;
        }
    }

    /// Orders an OPEN after an overlapping CLOSE if it was granted a new stateid: before the CLOSE it would have been
    /// granted the same one (RFC 8881 section 9.9).
    fn add_open_end(&mut self, step: &TraceStep<'_>, at: u32, operation: Option<Operation>, file: u32) {
        let is_new = |slot: &SubstitutableMessageSlot| {
            slot.holds == TraceSlotValueKind::STATEID
                && slot.operation == at
                && slot.part == VariableUseKind::DEFINED
        };
        let way = match operation {
            Some(Operation::CLOSE) => ResourceAccessMode::SharedRead,
            Some(Operation::OPEN) if step.reply.slots.iter().any(|slot| is_new(&slot)) => {
                ResourceAccessMode::Exclusive
            }
            _ => return,
        };
        if file != NONE {
            self.add_access(DependencyResourceKind::OpenEnds, file, step.caller.client.into(), way);
        }
    }

    /// Records the open that a lock was made with.
    fn record_lock_open(&mut self, step: &TraceStep<'_>, at: u32) {
        let find = |slot: &SubstitutableMessageSlot| {
            slot.holds == TraceSlotValueKind::STATEID && slot.operation == at
        };
        let open = step.call.slots.iter().find(find);
        let lock = step.reply.slots.iter().find(find);
        if let (Some(open), Some(lock)) = (open, lock)
            && open.variable != lock.variable
        {
            self.names.record_lock_open(lock.variable, open.variable);
        }
    }

    /// Returns the variable that represents all filehandles of the same object.
    pub(in crate::run) fn object(&self, variable: u32) -> u32 {
        self.names.object(variable)
    }

    fn add_v3(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        is_directory: &impl Fn(u32) -> bool,
    ) {
        let Some(act) = parts.effects.first().copied() else { return };
        let (first, second) = (self.nth_handle_object(step, 0), self.nth_handle_object(step, 1));
        let given = step.reply.slots.iter().find(|slot| slot.holds == TraceSlotValueKind::FILEHANDLE);
        let given = given.map_or(NONE, |slot| self.names.object(slot.variable));
        match act {
            OperationEffect::Lookup(_) | OperationEffect::Create(_) => {
                self.add_effect(act, given, first, NONE, step, is_directory)
            }
            OperationEffect::Link(_) | OperationEffect::Rename(..) => {
                self.add_effect(act, second, second, first, step, is_directory)
            }
            _ => self.add_effect(act, first, first, NONE, step, is_directory),
        }
    }

    /// Adds the dependencies of an operation: `file` is the current file after it, `before` the one before it, `saved`
    /// the saved one.
    fn add_effect(
        &mut self,
        act: OperationEffect,
        file: u32,
        before: u32,
        saved: u32,
        step: &TraceStep<'_>,
        is_directory: &impl Fn(u32) -> bool,
    ) {
        match act {
            OperationEffect::Nothing | OperationEffect::ExclusiveClient | OperationEffect::FreeState => {}
            OperationEffect::ReadAttributes => self.add_size_read(file, is_directory),
            OperationEffect::ChangeAttributes => {
                self.add_access(DependencyResourceKind::Object, file, 0, ResourceAccessMode::Exclusive);
                self.add_size_access(file, true);
            }
            OperationEffect::Lookup(name) => {
                self.add_access(DependencyResourceKind::Name, before, name, ResourceAccessMode::SharedRead);
                self.add_size_read(file, is_directory);
                let found = Some(file).filter(|file| *file != NONE);
                if found.is_some() || self.names.target(before, name) == DirectoryEntryReferent::Unknown {
                    self.names.set_target(before, name, found);
                }
            }
            OperationEffect::Create(name) => self.add_name_change(before, name, Some(file)),
            OperationEffect::Link(name) => {
                self.add_name_change(file, name, Some(saved));
                self.add_access(DependencyResourceKind::Object, saved, 0, ResourceAccessMode::Exclusive);
                self.add_size_access(saved, true);
            }
            OperationEffect::Remove(name) => {
                self.add_object_removal(file, name);
                self.add_name_change(file, name, None);
            }
            OperationEffect::Rename(from, to) => {
                let moved = self.names.target(saved, from);
                self.add_object_removal(file, to);
                self.add_name_change(saved, from, None);
                let moved =
                    if let DirectoryEntryReferent::Object(moved) = moved { Some(moved) } else { None };
                self.add_name_change(file, to, moved);
            }
            OperationEffect::ReadDirectory => {
                self.add_access(DependencyResourceKind::Names, file, 0, ResourceAccessMode::SharedRead);
                let entries =
                    step.reply.slots.iter().filter(|slot| slot.holds == TraceSlotValueKind::FILEHANDLE);
                for slot in entries.take(MAX_LISTING_ENTRIES) {
                    let entry = self.names.object(slot.variable);
                    self.add_size_read(entry, is_directory);
                }
            }
            OperationEffect::Open(name, creates) => {
                match name {
                    Some(name) if creates => self.add_name_change(before, name, Some(file)),
                    Some(name) => {
                        self.add_access(
                            DependencyResourceKind::Name,
                            before,
                            name,
                            ResourceAccessMode::SharedRead,
                        );
                        if file != NONE {
                            self.names.set_target(before, name, Some(file));
                        }
                    }
                    None => {}
                }
                if creates && file != NONE {
                    self.dependencies.push(StepDependency::Range(file, 0, u64::MAX, true));
                }
                self.add_size_access(file, creates);
                self.add_opens_access(file);
            }
            OperationEffect::ChangeFileState => {
                self.add_opens_access(file);
                self.add_size_read(file, is_directory);
            }
            OperationEffect::Read(offset, count) => {
                self.dependencies.push(StepDependency::Range(
                    file,
                    offset,
                    offset.saturating_add(count),
                    false,
                ));
                self.add_size_read(file, is_directory);
            }
            OperationEffect::Write(offset, count) => {
                let to = offset.saturating_add(count.unwrap_or(0));
                self.dependencies.push(StepDependency::Range(file, offset, to, true));
                self.add_size_access(file, may_extend(step, to));
            }
            OperationEffect::Copy(from, to, count) => {
                let end = |at: u64| if count == 0 { u64::MAX } else { at.saturating_add(count) };
                self.dependencies.push(StepDependency::Range(saved, from, end(from), false));
                self.dependencies.push(StepDependency::Range(file, to, end(to), true));
                self.add_size_read(saved, is_directory);
                self.add_size_access(file, true);
            }
        }
    }

    fn add_size_read(&mut self, file: u32, is_directory: &impl Fn(u32) -> bool) {
        // The size of a directory is not tracked, and its names are tracked separately.
        if !is_directory(file) && file != ROOT {
            self.add_size_access(file, false);
        }
    }

    fn add_size_access(&mut self, file: u32, changes: bool) {
        if file != NONE {
            self.dependencies.push(StepDependency::Interval(
                DependencyResource { kind: DependencyResourceKind::Size, id: file, part: 0 },
                changes,
            ));
        }
    }

    fn add_opens_access(&mut self, file: u32) {
        if file != NONE {
            self.dependencies.push(StepDependency::Interval(
                DependencyResource { kind: DependencyResourceKind::FileOpens, id: file, part: 0 },
                true,
            ));
        }
    }

    /// Adds the change of a name, which then refers to `object` or nothing.
    fn add_name_change(&mut self, directory: u32, name: u64, object: Option<u32>) {
        self.add_access(DependencyResourceKind::Name, directory, name, ResourceAccessMode::Exclusive);
        self.add_access(DependencyResourceKind::Names, directory, 0, ResourceAccessMode::SharedPartialWrite);
        self.names.set_target(directory, name, object.filter(|object| *object != NONE));
    }

    /// Adds the possible removal of the object that a name refers to.
    fn add_object_removal(&mut self, directory: u32, name: u64) {
        match self.names.target(directory, name) {
            DirectoryEntryReferent::NoObject => {}
            DirectoryEntryReferent::Object(object) => {
                self.add_access(DependencyResourceKind::Object, object, 0, ResourceAccessMode::Exclusive)
            }
            // It may be any object that others use.
            DirectoryEntryReferent::Unknown => {
                self.add_access(DependencyResourceKind::All, 0, 0, ResourceAccessMode::Exclusive)
            }
        }
    }
}

/// Returns `true` if a WRITE that ends at `end` may have extended the file, unless the recorded Reply shows a larger
/// size.
fn may_extend(step: &TraceStep<'_>, end: u64) -> bool {
    recorded_size(step).is_none_or(|size| end >= size)
}

/// Returns the size that the recorded Reply of a WRITE shows: for NFSv3 the size before it plus one, for NFSv4 the size
/// after it.
fn recorded_size(step: &TraceStep<'_>) -> Option<u64> {
    let items: [ChunkedDataItem<'_>; 0] = [];
    let mut cursor = Cursor::new(step.reply.head.0).with_chunks(&items);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    match step.asked.find_description()? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            reply.operations().map_while(Result::ok).find_map(|results| match results {
                Results::GETATTR(StatusUnion::Ok(given)) => {
                    given.obj_attributes.items().map_while(Result::ok).find_map(|attribute| match attribute {
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
                v3::Results::WRITE(StatusUnion::Ok(done)) => {
                    Some(done.file_wcc.before?.size.saturating_add(1))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
