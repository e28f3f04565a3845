//! Effects of operations on what is known of their objects.

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::nfs::{Procedure, v3};

use super::operation_filehandles::OperationFilehandleVariables;
use super::reply_attribute_values::{AttributeSubject, ComparedAttributeKind};
use super::{AttributeModificationLikelihood, AttributeRelationCheckState, ReplyCheckFileState};
use crate::run::dependencies::effects::OperationEffect;
use crate::run::reply_check::reply_pair::{ReplyCheckStepContext, ReplyPair};
use crate::trace::step::NONE;
use crate::tree::inferred_object::ROOT;

impl AttributeRelationCheckState {
    /// Records sizes that files can have because of an operation, and objects that are not regular files.
    pub(super) fn record_possible_sizes(
        &mut self,
        replies: &ReplyPair<'_>,
        context: &ReplyCheckStepContext<'_>,
        names: &OperationFilehandleVariables<'_>,
        index: usize,
    ) {
        let Some(effect) = context.parts.effects.get(index) else { return };
        let file = names.subject(AttributeSubject::Current, index);
        let is_new = self.was_created_in_run(context, file);
        match effect {
            OperationEffect::Write(offset, _) => {
                let written = context.written_bytes.get(index).copied().unwrap_or(0);
                self.sizes.add(file, offset.saturating_add(written));
            }
            OperationEffect::Copy(_, _, 0) => self.sizes.set_unlimited(file),
            OperationEffect::Copy(_, to, bytes) => self.sizes.add(file, to.saturating_add(*bytes)),
            OperationEffect::ChangeAttributes => {
                if let Some(bytes) = context.parts.set_size_bytes {
                    self.sizes.add(file, bytes);
                }
            }
            OperationEffect::Open(Some(_), may_create) => {
                self.sizes.set_unlimited(names.subject(AttributeSubject::Parent, index));
                if *may_create && is_new {
                    self.sizes.add_base(file, 0);
                } else if *may_create {
                    self.sizes.add(file, 0);
                }
            }
            OperationEffect::Create(_) => {
                self.sizes.set_unlimited(names.subject(AttributeSubject::CallHandle(0), index));
                let created = names.subject(AttributeSubject::ReplyHandle, index);
                // NFSv4 has OPEN for regular files.
                match replies.procedure == Some(Procedure::V3(v3::Procedure::CREATE)) {
                    true => self.sizes.add_base(created, 0),
                    false => self.sizes.set_unlimited(created),
                }
            }
            OperationEffect::Lookup(_) | OperationEffect::ReadName(_) => {
                self.sizes.set_unlimited(names.subject(AttributeSubject::Parent, index));
            }
            OperationEffect::Remove(_) | OperationEffect::ReadDirectory => self.sizes.set_unlimited(file),
            OperationEffect::Rename(..) => {
                self.sizes.set_unlimited(file);
                self.sizes.set_unlimited(names.second_object(index));
            }
            OperationEffect::Link(_) if names.is_v3 => self.sizes.set_unlimited(names.second_object(index)),
            OperationEffect::Link(_) => self.sizes.set_unlimited(file),
            _ => {}
        }
    }

    pub(super) fn apply_effect(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        names: &OperationFilehandleVariables<'_>,
        index: usize,
        is_unchanged: bool,
    ) {
        use AttributeModificationLikelihood::{Certain, Possible};
        let Some(effect) = context.parts.effects.get(index).copied() else { return };
        let operation = context.parts.operations.get(index).copied();
        let [first, second] = [names.subject(AttributeSubject::CallHandle(0), index), names.second_object(index)];
        if effect.writes_data() && first != NONE {
            self.object_state(first, context.step_turn).has_uncommitted_data = true;
        }
        match context.statuses.get(index) {
            None | Some(0) => {}
            Some(status) if is_refusal(*status) => return,
            Some(_) => {
                for object in [first, second, names.subject(AttributeSubject::Parent, index)] {
                    self.record_change(context, object, [Possible; 3]);
                    self.record_owner_change(context, object);
                }
                if effect.changes_names() {
                    self.clear_names();
                }
                return;
            }
        }
        if names.is_commit(operation) && first != NONE {
            self.object_state(first, context.step_turn).has_uncommitted_data = false;
        }
        if context.grants_delegated_times && matches!(effect, OperationEffect::Open(..)) && first != NONE {
            self.object_state(first, context.step_turn).has_delegated_times = true;
        }
        let has_delegated_times = first != NONE && self.object_state(first, context.step_turn).has_delegated_times;
        match effect {
            // The server leaves the times to the client until the delegation is returned.
            OperationEffect::Write(..) if has_delegated_times => {
                self.record_change(context, first, [Possible; 3]);
            }
            OperationEffect::Write(..) if names.is_v3 || operation == Some(Operation::WRITE) => {
                self.record_certain_write(context, first);
            }
            OperationEffect::Write(..) => self.record_change(context, first, [Possible; 3]),
            OperationEffect::Copy(..) => {
                self.record_change(context, first, [Possible; 3]);
                self.record_read(context, second);
            }
            OperationEffect::ChangeAttributes if context.parts.sets_only_delegated_times => {
                self.record_change(context, first, [Possible; 3]);
                if first != NONE {
                    self.object_state(first, context.step_turn).floors = Default::default();
                }
            }
            OperationEffect::ChangeAttributes => {
                let modify_time = match context.parts.may_set_modify_time {
                    true => Possible,
                    false => AttributeModificationLikelihood::None,
                };
                self.record_change(context, first, [Certain, modify_time, Certain]);
                self.record_owner_change(context, first);
                self.record_write(context, first, false);
                if first != NONE {
                    let object = self.object_state(first, context.step_turn);
                    object.is_set = true;
                    if context.was_sent_unchanged && context.has_no_overlap {
                        object.set_modify_seconds = context.parts.set_modify_seconds;
                    }
                }
            }
            OperationEffect::Create(_) | OperationEffect::Open(_, true) => {
                let parent = names.subject(AttributeSubject::Parent, index);
                if !is_unchanged {
                    self.record_certain_write(context, parent);
                }
                let created = if names.is_v3 { names.subject(AttributeSubject::ReplyHandle, index) } else { first };
                let is_new = self.was_created_in_run(context, created) && !self.objects.contains_key(&created);
                self.record_change(context, created, [Possible; 3]);
                self.record_owner_change(context, created);
                self.record_write(context, created, false);
                if is_new {
                    self.object_state(created, context.step_turn).made = Some(context.step_turn);
                }
            }
            OperationEffect::Remove(name) => {
                self.remove_name(context, (first, name), 0);
                self.record_certain_write(context, first);
            }
            OperationEffect::Rename(..) | OperationEffect::Link(_) => {
                let (object, directory) = if names.is_v3 { (first, second) } else { (second, first) };
                match effect {
                    OperationEffect::Rename(from, to) => {
                        self.remove_name(context, (object, from), 1);
                        self.remove_name(context, (directory, to), 0);
                        self.record_certain_write(context, object);
                    }
                    OperationEffect::Link(name) => {
                        self.names.remove(&(directory, name));
                        self.record_change(context, object, [Certain, Possible, Certain]);
                    }
                    _ => {}
                }
                self.record_certain_write(context, directory);
            }
            OperationEffect::Read(..) | OperationEffect::ReadDirectory => self.record_read(context, first),
            _ if operation == Some(Operation::READLINK) => self.record_read(context, first),
            // COMMIT flushes earlier writes, which some file systems count as a change, and DELEGRETURN returns what a
            // client kept.
            _ if operation == Some(Operation::DELEGRETURN) || names.is_commit(operation) => {
                self.record_change(context, first, [Possible; 3]);
                if operation == Some(Operation::DELEGRETURN) && first != NONE {
                    self.object_state(first, context.step_turn).has_delegated_times = false;
                }
            }
            // Data that is not yet stable may be flushed.
            _ if operation == Some(Operation::CLOSE) && self.has_uncommitted_data(context, first) => {
                self.record_change(context, first, [Possible; 3]);
            }
            _ => {}
        }
    }

    /// Records that an object was read, which may raise its change attribute.
    fn record_read(&mut self, context: &ReplyCheckStepContext<'_>, object: u32) {
        let object = if self.roots.contains(&object) { ROOT } else { object };
        let change = ComparedAttributeKind::Change as usize;
        let object = self.objects.get_mut(&object);
        if let Some(last_pair) = object.and_then(|object| object.ordered.get_mut(change)?.as_mut()) {
            last_pair.reads = last_pair.reads.saturating_add(1);
            last_pair.last_read = Some(context.times[1]);
        }
    }

    /// Removes a name, as removed (0) or renamed (1), and marks its object as changed.
    fn remove_name(&mut self, context: &ReplyCheckStepContext<'_>, name: (u32, u64), counter: usize) {
        match self.names.remove(&name) {
            Some((_, object)) if object != NONE => {
                self.record_change(context, object, [AttributeModificationLikelihood::Possible; 3]);
            }
            _ => {
                if let Some(count) = self.changed_names.get_mut(counter) {
                    *count = count.wrapping_add(1);
                }
            }
        }
    }

    fn record_certain_write(&mut self, context: &ReplyCheckStepContext<'_>, object: u32) {
        self.record_change(context, object, [AttributeModificationLikelihood::Certain; 3]);
        self.record_write(context, object, true);
    }

    /// Records that the content or the names of an object were written, or its attributes set.
    fn record_write(&mut self, context: &ReplyCheckStepContext<'_>, object: u32, is_written: bool) {
        if object != NONE {
            let object = self.object_state(object, context.step_turn);
            object.written = is_written.then_some(context.step_turn);
        }
    }

    /// Returns `true` if data was written to an object that no COMMIT has made stable since.
    fn has_uncommitted_data(&mut self, context: &ReplyCheckStepContext<'_>, object: u32) -> bool {
        object != NONE && self.object_state(object, context.step_turn).has_uncommitted_data
    }

    /// Returns the state of an object of which a Reply had values.
    fn observed_object(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        object: u32,
    ) -> Option<&mut ReplyCheckFileState> {
        let object = if self.roots.contains(&object) { ROOT } else { object };
        let is_observed = object != NONE && self.objects.contains_key(&object);
        is_observed.then(|| self.object_state(object, context.step_turn))
    }

    /// Records that the owner and the group of an object may have changed.
    fn record_owner_change(&mut self, context: &ReplyCheckStepContext<'_>, object: u32) {
        let Some(object) = self.observed_object(context, object) else { return };
        for last_pair in object.ordered.iter_mut().skip(ComparedAttributeKind::Owner as usize).flatten() {
            last_pair.likelihood = last_pair.likelihood.max(AttributeModificationLikelihood::Possible);
        }
    }

    /// Records the likelihood of changes to the change attribute and the times of an object.
    fn record_change(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        object: u32,
        likelihoods: [AttributeModificationLikelihood; 3],
    ) {
        let likelihoods =
            if context.was_sent_unchanged { likelihoods } else { [AttributeModificationLikelihood::Possible; 3] };
        let Some(object) = self.observed_object(context, object) else { return };
        object.changed = Some(context.times[0]);
        object.set_modify_seconds = None;
        for (entry, likelihood) in object.ordered.iter_mut().zip(likelihoods) {
            let Some(last_pair) = entry else { continue };
            if likelihood == AttributeModificationLikelihood::Certain && last_pair.changed.is_none() {
                last_pair.changed = Some(context.times[0]);
            }
            last_pair.likelihood = last_pair.likelihood.max(likelihood);
        }
    }

    /// Returns the name by which the current object was reached after an operation.
    pub(super) fn reached_name(
        &mut self,
        context: &ReplyCheckStepContext<'_>,
        names: &OperationFilehandleVariables<'_>,
        index: usize,
        name: Option<(u32, u64)>,
    ) -> Option<(u32, u64)> {
        let parent = names.subject(AttributeSubject::Parent, index);
        match context.parts.effects.get(index).copied()? {
            OperationEffect::Lookup(name) | OperationEffect::Open(Some(name), false) => Some((parent, name)),
            OperationEffect::Create(name) | OperationEffect::Open(Some(name), true) => {
                self.names.remove(&(parent, name));
                Some((parent, name))
            }
            OperationEffect::Remove(_) | OperationEffect::Rename(..) | OperationEffect::Link(_) => None,
            _ => match context.parts.operations.get(index).copied() {
                Some(
                    Operation::PUTFH
                    | Operation::PUTROOTFH
                    | Operation::PUTPUBFH
                    | Operation::RESTOREFH
                    | Operation::LOOKUPP
                    | Operation::OPENATTR,
                ) => None,
                _ => name,
            },
        }
    }
}

/// Returns `true` if the operation failed and changed nothing. RFC 1813 section 2.6, RFC 8881 section 15.1.
fn is_refusal(status: u32) -> bool {
    // PERM, NOENT, ACCES, EXIST, XDEV, NODEV, NOTDIR, ISDIR, INVAL, ROFS, MLINK, NAMETOOLONG, NOTEMPTY, STALE,
    // BADHANDLE, NOT_SYNC, NOTSUPP, BADTYPE, GRACE, BADCHAR, BADNAME, WRONG_TYPE.
    const REFUSALS: [u32; 22] = [
        1, 2, 13, 17, 18, 19, 20, 21, 22, 30, 31, 63, 66, 70, 10_001, 10_002, 10_004, 10_007, 10_013, 10_040, 10_041,
        10_083,
    ];
    REFUSALS.contains(&status)
}
