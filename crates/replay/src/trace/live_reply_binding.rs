//! Assigns values of a live reply to the variables of a step.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};
use rustc_hash::FxHashMap;

use super::run_dependent_field_visitor::{LocatedSubstitutableField, SubstitutableFieldVisitor};
use super::step::{SubstitutableMessageSlot, TraceProcedure, TraceStep};
use super::value_substitution::value_in_field;

/// Place of a slot in a reply that was not captured: the first value of its kind in the result of its operation.
pub const FIRST_PLACE: u64 = 0;
/// The second value: the stateid of the delegation of an OPEN.
pub const SECOND_PLACE: u64 = 1;
/// The first value: the stateid of an OPEN that a later step confirms (RFC 7530 section 16.18).
pub const CONFIRMED_PLACE: u64 = 2;

impl TraceProcedure {
    /// Returns the description of the procedure; `None` if there is none.
    pub fn find_description(&self) -> Option<Procedure> {
        Procedure::from_numbers(Program(self.program), self.version, self.number)
    }
}

/// Returns the value of a field, without length and padding. `message` begins where positions are counted from.
pub fn field_value<'m>(message: &'m [u8], field: &LocatedSubstitutableField) -> Option<&'m [u8]> {
    value_in_field(message.get(field.range.clone())?, field.is_counted)
}

/// Decodes a live reply of a step and collects its fields. `message` is the RPC message; the cursor has its
/// DDP-eligible results. The caller must have removed the protection of the results.
///
/// # Errors
/// Returns the error that stopped the decoding, together with the fields collected before it.
pub fn visit_reply<'m>(
    trace_procedure: &TraceProcedure,
    mut cursor: Cursor<'m>,
) -> (SubstitutableFieldVisitor<'m>, Result<(), XdrError>) {
    let mut visitor = SubstitutableFieldVisitor::new(true);
    let result = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).and_then(|message| {
        let is_done = message.reply().is_some_and(|reply| reply.status().is_success());
        match trace_procedure.find_description().filter(|_| is_done) {
            Some(procedure) => procedure.results(&mut cursor, &mut visitor),
            None => Ok(()),
        }
    });
    (visitor, result)
}

/// Calls `visit` for each slot of the captured reply with the value at the same place of the live one, or `None` if
/// that has no value there. Counts are included. Does nothing if the reply of the step was not captured.
pub fn bind_slots(
    step: &TraceStep<'_>,
    visitor: &SubstitutableFieldVisitor<'_>,
    message: &[u8],
    mut visit: impl FnMut(&SubstitutableMessageSlot, Option<&[u8]>),
) {
    let field_key = |field: &LocatedSubstitutableField| (field.place, field.operation, field.value_kind);
    // A listing has thousands of fields. Other replies have a few, mostly in the same order.
    let is_long = visitor.slot_fields.len() > 32;
    let by_place: FxHashMap<_, _> = match is_long {
        true => visitor.slot_fields.iter().map(|field| (field_key(field), field)).collect(),
        false => FxHashMap::default(),
    };
    for slot in step.reply.slots.iter() {
        // The reply was not captured.
        if matches!(slot.place, FIRST_PLACE | SECOND_PLACE | CONFIRMED_PLACE) {
            let is_like_it = |field: &&LocatedSubstitutableField| {
                field.operation == slot.operation && field.value_kind == slot.value_kind && !field.is_constant
            };
            let field = visitor.slot_fields.iter().filter(is_like_it).nth(usize::from(slot.place == SECOND_PLACE));
            visit(&slot, field.and_then(|field| field_value(message, field)));
            continue;
        }
        let key = (slot.place, slot.operation, slot.value_kind);
        let field = match is_long {
            true => by_place.get(&key).copied(),
            false => visitor.slot_fields.iter().find(|field| field_key(field) == key),
        };
        visit(&slot, field.and_then(|field| field_value(message, field)));
    }
}
