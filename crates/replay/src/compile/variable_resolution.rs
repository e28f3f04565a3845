//! Converts fields to slots: identities get their variable, and counts the variable of their owner.

use nfsrdma_analysis::second_chance_map::SecondChanceMap;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{CbOperation, Operation};
use rustc_hash::FxHashMap;

use super::variable_table::{TraceVariableNumbering, VariableDefinition, VariableScope};
use crate::trace::run_dependent_field_visitor::{
    LocatedSubstitutableField, SubstitutableFieldVisitor, VisitedNfs4Opcode, VisitedOperation,
};
use crate::trace::step::{
    NONE, SubstitutableMessageSlot, TraceCallConnectionAndSession, TraceSlotValueKind, VariableUseKind, stateid_use,
};
use crate::trace::value_substitution::value_in_field;

/// Memory of an undefined variable in bytes without its value: a hash table that is rehashed, an allocation, and its
/// element of the sorted list at the end.
const UNDEFINED_VARIABLE_BYTES: usize = 3 * (size_of::<(u32, UndefinedVariableUsage)>() + 1) + 16 + 16;

/// A variable that is used before a step defines it.
#[derive(Debug)]
pub(super) struct UndefinedVariableUsage {
    pub(super) value_kind: TraceSlotValueKind,
    pub(super) value: Box<[u8]>,
    pub(super) step: u64,
    pub(super) uses: u64,
    /// The client that uses it, and the earliest time of a use, in nanoseconds since 1970.
    pub(super) client: u32,
    pub(super) first_ns: u64,
    /// For a stateid, the file that it was used with, and (`access`) its use.
    pub(super) file: u32,
    pub(super) access: u32,
    /// `true` for the stateid of an OPEN_CONFIRM.
    pub(super) is_confirmed: bool,
}

/// Assigns variables to the identities in messages.
#[derive(Debug)]
pub(super) struct IdentityVariableAssigner {
    pub(super) variables: TraceVariableNumbering,
    pub(super) undefined: FxHashMap<u32, UndefinedVariableUsage>,
    /// Number of undefined variables that are not recorded because of the limit.
    pub(super) unrecorded_variables: u64,
    /// Time of the current call, in nanoseconds since 1970.
    pub(super) now_ns: u64,
    /// Memory that is left for undefined variables, in bytes.
    undefined_free_bytes: usize,
    /// The owner of an open or a lock, by the variable of its stateid.
    owners: SecondChanceMap<u32, u32>,
    /// The variable of a stateid's owner until a captured reply shows the owner.
    pub(super) unknown_owners: SecondChanceMap<u32, u32>,
    /// The clientid of a session.
    clientids: SecondChanceMap<u32, u32>,
    /// The last Call on a slot of a session: its sequence ID and its step.
    slots: SecondChanceMap<(u32, u32), (u32, u64)>,
}

pub(super) struct MessageWithSubstitutableFieldVisitor<'m, 'a> {
    pub(super) visitor: &'m SubstitutableFieldVisitor<'a>,
    /// The message, and the position of its first byte in the decoder.
    pub(super) bytes: &'m [u8],
    pub(super) base_position: usize,
}

impl MessageWithSubstitutableFieldVisitor<'_, '_> {
    fn value(&self, field: &LocatedSubstitutableField) -> Option<&[u8]> {
        let position = |at: usize| at.checked_sub(self.base_position);
        let bytes = self.bytes.get(position(field.range.start)?..position(field.range.end)?)?;
        value_in_field(bytes, field.is_counted)
    }
}

/// State of a Transaction while its variables are resolved.
#[derive(Debug, Default)]
pub(super) struct OperationFileAndOwnerVariables {
    /// The current filehandle of each operation, as a variable.
    files_by_operation: Vec<u32>,
    /// `true` for operations that change the current filehandle.
    changes_current_file: Vec<bool>,
    /// The owners in OPEN and LOCK operations of the Call, by operation.
    owners: Vec<(u32, u32)>,
}

impl OperationFileAndOwnerVariables {
    pub(super) fn file_of_operation(&self, operation: u32) -> u32 {
        self.files_by_operation.get(operation as usize).copied().unwrap_or(NONE)
    }

    fn clear(&mut self) {
        self.files_by_operation.clear();
        self.changes_current_file.clear();
        self.owners.clear();
    }
}

fn is_stateid(field: &&LocatedSubstitutableField) -> bool {
    field.value_kind == TraceSlotValueKind::STATEID
}

/// Returns `true` if the result of an operation determines the new current filehandle.
fn changes_file(operation: Option<Operation>) -> bool {
    matches!(
        operation,
        Some(
            Operation::LOOKUP
                | Operation::LOOKUPP
                | Operation::OPEN
                | Operation::CREATE
                | Operation::PUTROOTFH
                | Operation::PUTPUBFH
                | Operation::OPENATTR
        )
    )
}

impl IdentityVariableAssigner {
    /// Creates a resolver that uses at most `variable_bytes` bytes for identities, `undefined_bytes` for undefined
    /// variables, and `caller_bytes` for slots and owners.
    pub(super) fn new(variable_bytes: usize, undefined_bytes: usize, caller_bytes: usize) -> Self {
        let unit_bytes = caller_bytes / 8;
        Self {
            variables: TraceVariableNumbering::new(variable_bytes),
            undefined: FxHashMap::default(),
            unrecorded_variables: 0,
            now_ns: 0,
            undefined_free_bytes: undefined_bytes,
            owners: SecondChanceMap::for_memory(4 * unit_bytes),
            unknown_owners: SecondChanceMap::for_memory(unit_bytes),
            clientids: SecondChanceMap::for_memory(unit_bytes),
            slots: SecondChanceMap::for_memory(2 * unit_bytes),
        }
    }

    /// Resolves the variables of a Call and completes the caller. Slot positions are those of the decoder.
    pub(super) fn resolve_call(
        &mut self,
        visited: &MessageWithSubstitutableFieldVisitor<'_, '_>,
        procedure: Option<Procedure>,
        id: u64,
        caller: &mut TraceCallConnectionAndSession,
        files: &mut OperationFileAndOwnerVariables,
        slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
    ) {
        files.clear();
        let is_compound = procedure.is_some_and(Procedure::is_compound);
        let (mut current, mut saved) = (NONE, NONE);
        let mut slot_fields = visited.visitor.slot_fields.as_slice();
        let count = visited.visitor.operations.len().max(1);
        for at in 0..count {
            let operation = visited.visitor.operations.get(at);
            let number = operation.map_or(VisitedNfs4Opcode::None, |operation| operation.number);
            let operation = number.fore();
            let fields;
            (fields, slot_fields) = split_operation_fields(slot_fields, at as u32);
            match operation {
                Some(Operation::SAVEFH) => saved = current,
                Some(Operation::RESTOREFH) => current = saved,
                _ => {}
            }
            let first = slots.len();
            let mut file = current;
            for field in fields {
                let scope = VariableScope { server: caller.server, client: caller.client, file };
                self.resolve_call_field(visited, field, scope, id, caller.is_reverse, slots);
                if let (TraceSlotValueKind::FILEHANDLE, Some((_, slot))) = (field.value_kind, slots.last())
                    && (operation == Some(Operation::PUTFH)
                        || number == VisitedNfs4Opcode::Callback(CbOperation::CB_GETATTR)
                        || !is_compound && file == NONE)
                {
                    file = slot.variable;
                }
            }
            self.assign_count_owners(operation, first, slots, caller.clientid);
            let new_slots = slots.get(first..).unwrap_or_default();
            let source = match operation {
                Some(Operation::COPY | Operation::CLONE) => {
                    fields.iter().find(is_stateid).map(|field| field.range.start)
                }
                _ => None,
            };
            self.record_undefined_use(operation, (file, saved), source, new_slots);
            record_caller_state((at as u32, number), visited, new_slots, fields, caller, files);
            current = if changes_file(operation) { NONE } else { file };
            files.files_by_operation.push(file);
            let puts_file = matches!(operation, Some(Operation::PUTFH | Operation::RESTOREFH));
            files.changes_current_file.push(changes_file(operation) || puts_file);
        }
        if caller.clientid == NONE && caller.session != NONE {
            caller.clientid = self.clientids.get(caller.session).map_or(NONE, |clientid| *clientid);
        }
    }

    fn resolve_call_field(
        &mut self,
        visited: &MessageWithSubstitutableFieldVisitor<'_, '_>,
        field: &LocatedSubstitutableField,
        scope: VariableScope,
        id: u64,
        is_reverse: bool,
        slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
    ) {
        let Some(name) = identity_value(visited, field, scope.file != NONE, VariableUseKind::USED, slots) else {
            return;
        };
        let is_given = field.value_kind.is_assigned_by_server() == is_reverse;
        let (resolved, was_known) =
            self.variables.resolve(field.value_kind, scope, name, if is_given { id } else { 0 });
        let use_kind = if is_given && !was_known { VariableUseKind::DEFINED } else { VariableUseKind::USED };
        // A value that the caller chooses may be in several concurrent Calls.
        let definition = if is_given { id } else { resolved.definition };
        // A Call that becomes no step needs no definition.
        if definition == 0 && !is_given && id != 0 {
            self.record_undefined(field.value_kind, scope, resolved.variable, name, id);
        }
        slots.push((field.range.start, slot(field, use_kind, resolved.variable, definition)));
    }

    fn record_undefined(
        &mut self,
        kind: TraceSlotValueKind,
        scope: VariableScope,
        variable: u32,
        name: &[u8],
        id: u64,
    ) {
        let bytes = UNDEFINED_VARIABLE_BYTES + name.len();
        let is_full = self.undefined_free_bytes < bytes;
        match self.undefined.get_mut(&variable) {
            Some(missing) => {
                missing.uses += 1;
                missing.first_ns = missing.first_ns.min(self.now_ns);
            }
            None if is_full => {
                self.unrecorded_variables += u64::from(self.variables.mark_counted(kind, scope, name));
            }
            None => {
                let missing = UndefinedVariableUsage {
                    value_kind: kind,
                    value: name.into(),
                    step: id,
                    uses: 1,
                    client: scope.client,
                    first_ns: self.now_ns,
                    file: NONE,
                    access: 0,
                    is_confirmed: false,
                };
                self.undefined_free_bytes -= bytes;
                self.undefined.insert(variable, missing);
            }
        }
    }

    /// Records the file and access of undefined stateids in an operation. `source` is the position of the stateid of
    /// the saved file, from which the operation copies (RFC 7862 sections 15.2.3 and 15.13.3).
    fn record_undefined_use(
        &mut self,
        operation: Option<Operation>,
        (current, saved): (u32, u32),
        source: Option<usize>,
        slots: &[(usize, SubstitutableMessageSlot)],
    ) {
        let has_owner = slots.iter().any(|(_, slot)| slot.value_kind == TraceSlotValueKind::OWNER);
        let access = match operation {
            Some(Operation::READ | Operation::READ_PLUS | Operation::SEEK) => stateid_use::READ,
            Some(
                Operation::WRITE
                | Operation::SETATTR
                | Operation::ALLOCATE
                | Operation::DEALLOCATE
                | Operation::WRITE_SAME,
            ) => stateid_use::WRITE,
            Some(Operation::COPY | Operation::CLONE) => stateid_use::WRITE,
            Some(Operation::LOCK) if has_owner => stateid_use::READ | stateid_use::WRITE,
            Some(Operation::LOCK | Operation::LOCKU) => stateid_use::LOCK,
            Some(Operation::DELEGRETURN) => stateid_use::DELEGATION,
            _ => 0,
        };
        for (at, slot) in
            slots.iter().filter(|(_, slot)| slot.value_kind == TraceSlotValueKind::STATEID && slot.definition == 0)
        {
            let (file, access) = if source == Some(*at) { (saved, stateid_use::READ) } else { (current, access) };
            if let Some(missing) = self.undefined.get_mut(&slot.variable) {
                missing.access |= access;
                missing.is_confirmed |= operation == Some(Operation::OPEN_CONFIRM);
                if missing.file == NONE {
                    missing.file = file;
                }
            }
        }
    }

    /// Assigns the counts of an operation to the variables of their owners.
    fn assign_count_owners(
        &mut self,
        operation: Option<Operation>,
        first: usize,
        slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
        clientid: u32,
    ) {
        let Some(operation_slots) = slots.get(first..) else { return };
        if !operation_slots.iter().any(|(_, slot)| slot.value_kind.is_count()) {
            return;
        }
        let find =
            |kind| operation_slots.iter().find(|(_, slot)| slot.value_kind == kind).map(|(_, slot)| slot.variable);
        let session = find(TraceSlotValueKind::SESSION).unwrap_or(NONE);
        let clientid = find(TraceSlotValueKind::CLIENTID).unwrap_or(clientid);
        let owner = find(TraceSlotValueKind::OWNER);
        let stateid_owner = find(TraceSlotValueKind::STATEID).map_or(NONE, |stateid| self.owner_of(stateid));
        let mut next = NONE;
        for (_, slot) in slots.get_mut(first..).unwrap_or_default().iter_mut().rev() {
            match slot.value_kind {
                TraceSlotValueKind::STATEID => next = slot.variable,
                TraceSlotValueKind::STATEID_SEQID => slot.variable = std::mem::replace(&mut next, NONE),
                TraceSlotValueKind::SEQUENCE_ID | TraceSlotValueKind::SLOT_ID | TraceSlotValueKind::HIGHEST_SLOT_ID => {
                    slot.variable = session
                }
                TraceSlotValueKind::CREATE_SEQUENCE => slot.variable = clientid,
                TraceSlotValueKind::OPEN_SEQID if operation == Some(Operation::OPEN) => {
                    slot.variable = owner.unwrap_or(NONE);
                }
                TraceSlotValueKind::LOCK_SEQID => slot.variable = owner.unwrap_or(stateid_owner),
                TraceSlotValueKind::OPEN_SEQID => slot.variable = stateid_owner,
                _ => {}
            }
        }
        // The seqid of a special stateid is not a count.
        let mut at = 0;
        slots.retain(|(_, slot)| {
            at += 1;
            at <= first || slot.value_kind != TraceSlotValueKind::STATEID_SEQID || slot.variable != NONE
        });
    }

    /// Returns the owner that serializes the Calls with a stateid; a new one if its OPEN was not captured.
    fn owner_of(&mut self, stateid: u32) -> u32 {
        if let Some(owner) = self.owners.get(stateid) {
            return *owner;
        }
        let owner = self.variables.new_anonymous();
        self.owners.insert(stateid, owner);
        self.unknown_owners.insert(stateid, owner);
        owner
    }

    /// Returns the step whose Call this one repeats: same slot and same sequence ID (RFC 8881 section 2.10.6.2). 0 if
    /// none.
    pub(super) fn find_repeated_step(&mut self, id: u64, caller: &TraceCallConnectionAndSession) -> u64 {
        if caller.is_reverse || [caller.session, caller.slot, caller.sequence].contains(&NONE) {
            return 0;
        }
        let key = (caller.session, caller.slot);
        let previous = self.slots.get(key).copied().filter(|(sequence, _)| *sequence == caller.sequence);
        self.slots.insert(key, (caller.sequence, previous.map_or(id, |(_, step)| step)));
        previous.map_or(0, |(_, step)| step)
    }

    pub(super) fn resolve_reply(
        &mut self,
        visited: &MessageWithSubstitutableFieldVisitor<'_, '_>,
        id: u64,
        caller: &TraceCallConnectionAndSession,
        files: &mut OperationFileAndOwnerVariables,
        slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
    ) {
        let mut slot_fields = visited.visitor.slot_fields.as_slice();
        for (at, operation) in visited.visitor.operations.iter().enumerate() {
            let fields;
            (fields, slot_fields) = split_operation_fields(slot_fields, at as u32);
            let first = slots.len();
            for field in fields {
                let file = files.file_of_operation(at as u32);
                let scope = VariableScope { server: caller.server, client: caller.client, file };
                self.resolve_reply_field(visited, field, scope, id, caller.is_reverse, slots);
                if let (TraceSlotValueKind::FILEHANDLE, Some(Operation::GETFH), Some((_, slot))) =
                    (field.value_kind, operation.number.fore(), slots.last())
                {
                    set_current_file(files, at, slot.variable);
                }
            }
            self.assign_count_owners(operation.number.fore(), first, slots, caller.clientid);
            self.record_owners(operation, at as u32, slots.get(first..).unwrap_or_default(), caller, files);
        }
    }

    fn resolve_reply_field(
        &mut self,
        visited: &MessageWithSubstitutableFieldVisitor<'_, '_>,
        field: &LocatedSubstitutableField,
        scope: VariableScope,
        id: u64,
        is_reverse: bool,
        slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
    ) {
        // A client's answer to CB_GETATTR has the change attribute that the server has given, or the client's own
        // value.
        if is_reverse && field.value_kind == TraceSlotValueKind::CHANGE {
            let value = visited.value(field).filter(|_| scope.file != NONE && !field.is_constant);
            if let Some(definition) = value.and_then(|name| self.variables.find(field.value_kind, scope, name)) {
                let new_slot = slot(field, VariableUseKind::USED, definition.variable, definition.definition);
                slots.push((field.range.start, new_slot));
            }
            return;
        }
        let is_of_file = scope.file != NONE;
        let Some(name) = identity_value(visited, field, is_of_file, VariableUseKind::AGAIN, slots) else {
            return;
        };
        let (VariableDefinition { variable, definition, .. }, was_known) =
            self.variables.resolve(field.value_kind, scope, name, id);
        let use_kind = if was_known { VariableUseKind::AGAIN } else { VariableUseKind::DEFINED };
        slots.push((field.range.start, slot(field, use_kind, variable, definition)));
    }

    /// Records the owners of new stateids and the clientids of new sessions.
    fn record_owners(
        &mut self,
        operation: &VisitedOperation,
        at: u32,
        slots: &[(usize, SubstitutableMessageSlot)],
        caller: &TraceCallConnectionAndSession,
        files: &OperationFileAndOwnerVariables,
    ) {
        let find = |kind| slots.iter().find(|(_, slot)| slot.value_kind == kind).map(|(_, slot)| slot.variable);
        match operation.number.fore() {
            Some(Operation::OPEN | Operation::LOCK) => {
                let owner = files.owners.iter().find(|(index, _)| *index == at);
                if let (Some(stateid), Some((_, owner))) = (find(TraceSlotValueKind::STATEID), owner) {
                    self.owners.insert(stateid, *owner);
                }
            }
            Some(Operation::CREATE_SESSION) => {
                if let Some(session) = find(TraceSlotValueKind::SESSION)
                    && caller.clientid != NONE
                {
                    self.clientids.insert(session, caller.clientid);
                }
            }
            _ => {}
        }
    }
}

fn record_caller_state(
    (at, operation): (u32, VisitedNfs4Opcode),
    visited: &MessageWithSubstitutableFieldVisitor<'_, '_>,
    slots: &[(usize, SubstitutableMessageSlot)],
    slot_fields: &[LocatedSubstitutableField],
    caller: &mut TraceCallConnectionAndSession,
    files: &mut OperationFileAndOwnerVariables,
) {
    let number = |kind| {
        let field = slot_fields.iter().find(|field| field.value_kind == kind)?;
        visited.value(field)?.try_into().ok().map(u32::from_be_bytes)
    };
    for (_, slot) in slots {
        match slot.value_kind {
            TraceSlotValueKind::CLIENTID if caller.clientid == NONE => caller.clientid = slot.variable,
            TraceSlotValueKind::SESSION
                if matches!(
                    operation,
                    VisitedNfs4Opcode::Fore(Operation::SEQUENCE)
                        | VisitedNfs4Opcode::Callback(CbOperation::CB_SEQUENCE)
                ) =>
            {
                caller.session = slot.variable;
                caller.slot = number(TraceSlotValueKind::SLOT_ID).unwrap_or(NONE);
                caller.sequence = number(TraceSlotValueKind::SEQUENCE_ID).unwrap_or(NONE);
            }
            TraceSlotValueKind::OWNER if matches!(operation.fore(), Some(Operation::OPEN | Operation::LOCK)) => {
                files.owners.push((at, slot.variable))
            }
            TraceSlotValueKind::OPEN_SEQID | TraceSlotValueKind::LOCK_SEQID if caller.owner == NONE => {
                caller.owner = slot.variable
            }
            _ => {}
        }
    }
}

/// Returns the value of a field if that is an identity. A count has no variable of its own; its slot is added
/// immediately.
fn identity_value<'h>(
    visited: &'h MessageWithSubstitutableFieldVisitor<'_, '_>,
    field: &LocatedSubstitutableField,
    is_of_file: bool,
    use_kind: VariableUseKind,
    slots: &mut Vec<(usize, SubstitutableMessageSlot)>,
) -> Option<&'h [u8]> {
    if field.value_kind.is_count() {
        slots.push((field.range.start, slot(field, use_kind, NONE, 0)));
        return None;
    }
    let is_name = !field.is_constant && (is_of_file || field.value_kind != TraceSlotValueKind::CHANGE);
    visited.value(field).filter(|_| is_name)
}

/// Splits off the fields of an operation from those after it.
fn split_operation_fields(
    slot_fields: &[LocatedSubstitutableField],
    operation: u32,
) -> (&[LocatedSubstitutableField], &[LocatedSubstitutableField]) {
    let end = slot_fields.iter().position(|field| field.operation != operation).unwrap_or(slot_fields.len());
    slot_fields.split_at_checked(end).unwrap_or((slot_fields, &[]))
}

/// Sets the file from GETFH for the operations since the last change of the current filehandle.
fn set_current_file(files: &mut OperationFileAndOwnerVariables, at: usize, file: u32) {
    let start = files.changes_current_file.iter().take(at).rposition(|changes| *changes).map_or(0, |last| last + 1);
    let end = files
        .changes_current_file
        .iter()
        .skip(at)
        .position(|changes| *changes)
        .map_or(files.files_by_operation.len(), |n| at + n);
    // The operation that changes the current filehandle still applies to the previous one.
    let end = (end + 1).min(files.files_by_operation.len());
    if let Some(affected) = files.files_by_operation.get_mut(start..end) {
        affected.iter_mut().filter(|variable| **variable == NONE).for_each(|variable| *variable = file);
    }
}

fn slot(
    field: &LocatedSubstitutableField,
    use_kind: VariableUseKind,
    variable: u32,
    definition: u64,
) -> SubstitutableMessageSlot {
    SubstitutableMessageSlot {
        at: 0,
        length: field.range.len() as u32,
        value_kind: field.value_kind,
        part: use_kind,
        is_counted: field.is_counted,
        operation: field.operation,
        variable,
        definition,
        place: field.place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_value_above_the_limit_counts_once_however_often_it_is_used() {
        // One value of one byte.
        let mut resolver = IdentityVariableAssigner::new(1 << 16, UNDEFINED_VARIABLE_BYTES + 1, 1 << 16);
        let scope = VariableScope::default();
        for (id, name) in [b"a", b"b", b"b", b"a", b"c", b"b"].into_iter().enumerate() {
            let value_kind = TraceSlotValueKind::FILEHANDLE;
            let (known, _) = resolver.variables.resolve(value_kind, scope, name, 0);
            resolver.record_undefined(value_kind, scope, known.variable, name, id as u64 + 1);
        }
        let recorded: Vec<_> = resolver.undefined.values().map(|known| (&*known.value, known.uses)).collect();
        assert_eq!(recorded, [(&b"a"[..], 2)]);
        assert_eq!(resolver.unrecorded_variables, 2);
    }
}
