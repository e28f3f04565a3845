//! Where in a message identities, counts and file data stand, as its decoders tell it.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, Observer, Value};

use super::variables::{Server, Variables};
use crate::analysis::comparison::difference::Kind;
use crate::analysis::comparison::role::{Identity, Role, role_of};
use crate::replay::trace::{Holds, Slot};

/// File data that was heard: where its content belongs, and the content where it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    /// Where the content belongs, as the decoder counts.
    pub(super) at: usize,
    /// Bytes of content.
    pub(super) length: u32,
    /// Whether the content stands in the message.
    pub(super) is_inline: bool,
    /// The content.
    pub(super) bytes: Option<&'a [u8]>,
}

/// Hears one message.
pub(super) struct Listener<'l, 'a> {
    pub(super) server: Server,
    pub(super) variables: &'l mut Variables,
    /// Positions are those of the decoder.
    pub(super) slots: &'l mut Vec<(usize, Slot)>,
    pub(super) payloads: Vec<Heard<'a>>,
    /// Where the arguments or results begin.
    pub(super) body: Option<usize>,
    depth: usize,
    operations: u32,
    /// The owner or the stateid that a count belongs to is told after it.
    last: Option<usize>,
}

impl<'l, 'a> Listener<'l, 'a> {
    pub(super) fn new(
        server: Server,
        variables: &'l mut Variables,
        slots: &'l mut Vec<(usize, Slot)>,
    ) -> Self {
        Self {
            server,
            variables,
            slots,
            payloads: Vec::new(),
            body: None,
            depth: 0,
            operations: 0,
            last: None,
        }
    }

    fn slot(&mut self, range: Range<usize>, holds: Holds, is_counted: bool, variable: u32) {
        let length = range.len().next_multiple_of(4) as u32;
        let operation = self.operations.saturating_sub(1);
        self.slots.push((range.start, Slot { at: 0, length, holds, is_counted, operation, variable }));
    }

    fn identity(&mut self, range: Range<usize>, holds: Holds, name: &[u8]) {
        let is_counted = range.len() != name.len();
        let variable = self.variables.of(self.server, holds, name).0;
        self.slot(range, holds, is_counted, variable);
        self.own(holds, variable);
    }

    /// Tells the count that stands before an owner or a stateid whose it is.
    fn own(&mut self, holds: Holds, variable: u32) {
        let Some((_, slot)) = self.last.and_then(|at| self.slots.get_mut(at)) else { return };
        let is_its = match slot.holds {
            Holds::STATEID_SEQID => holds == Holds::STATEID,
            Holds::OPEN_SEQID | Holds::LOCK_SEQID => matches!(holds, Holds::OWNER | Holds::STATEID),
            Holds::CREATE_SEQUENCE => holds == Holds::CLIENTID,
            _ => false,
        };
        if is_its && slot.variable == NOBODY {
            slot.variable = variable;
            self.last = None;
        }
    }

    fn count(&mut self, range: Range<usize>, holds: Holds) {
        self.slot(range, holds, false, NOBODY);
        self.last = Some(self.slots.len() - 1);
    }
}

/// The variable of a count whose owner was not told.
pub(super) const NOBODY: u32 = u32::MAX;

/// Values that name nothing: RFC 8881 section 8.2.3 has the stateids of zeros and of ones, and a cookie, a clientid and a
/// verifier of zeros say that there is none.
fn is_constant(name: &[u8]) -> bool {
    name.iter().all(|byte| *byte == 0) || name.iter().all(|byte| *byte == 0xff)
}

fn holds(identity: Identity) -> Option<Holds> {
    Some(match identity {
        Identity::Filehandle => Holds::FILEHANDLE,
        Identity::Stateid => Holds::STATEID,
        Identity::Clientid => Holds::CLIENTID,
        Identity::Session => Holds::SESSION,
        Identity::Cookie => Holds::COOKIE,
        Identity::Verifier => Holds::VERIFIER,
        Identity::Owner => Holds::OWNER,
        Identity::ClientOwner => Holds::CLIENT_OWNER,
        Identity::ServerOwner => Holds::SERVER_OWNER,
        Identity::Host => Holds::HOST,
        Identity::Program => Holds::PROGRAM,
        Identity::Context => Holds::CONTEXT,
        Identity::Device => Holds::DEVICE,
        Identity::MinorVersion => return None,
    })
}

/// What a count counts, by its name in the RFC.
fn counts(label: &str, field: &str) -> Option<Holds> {
    Some(match (field, label) {
        (_, "sa_sequenceid") => Holds::SEQUENCE_ID,
        (_, "sa_slotid") => Holds::SLOT_ID,
        (_, "sa_highest_slotid") => Holds::HIGHEST_SLOT_ID,
        (_, "csa_sequence") => Holds::CREATE_SEQUENCE,
        ("nfs.seqid", "seqid" | "open_seqid") => Holds::OPEN_SEQID,
        ("nfs.lock_seqid", _) => Holds::LOCK_SEQID,
        ("nfs.stateid.seqid", _) => Holds::STATEID_SEQID,
        _ => return None,
    })
}

impl<'a> Observer<'a> for Listener<'_, 'a> {
    fn enter(&mut self, field: &'static Field, at: usize) {
        self.depth += 1;
        if self.depth == 1 && !field.name.starts_with("rpc") {
            self.body.get_or_insert(at);
            self.operations += 1;
            self.last = None;
        }
    }

    fn leave(&mut self, _: usize) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: Value<'a>) {
        if !field.name.starts_with("rpc") {
            self.body.get_or_insert(bytes.start);
        } else if self.body.is_none() {
            return;
        }
        if let Value::Chunk(length, content) = value {
            self.payloads.push(Heard { at: bytes.end, length, is_inline: false, bytes: content });
            return;
        }
        if let Some(holds) = counts(field.label, field.name) {
            self.count(bytes, holds);
            return;
        }
        match (role_of(field.name, true), value) {
            (Role::Equal(Kind::Data), Value::Bytes(content)) if bytes.len() == content.len() + 4 => {
                let length = content.len() as u32;
                let at = bytes.start + 4;
                self.payloads.push(Heard { at, length, is_inline: true, bytes: Some(content) });
            }
            (Role::Identity(identity), value) => {
                let Some(holds) = holds(identity) else { return };
                match value {
                    Value::Bytes(name) | Value::Text(name) if !is_constant(name) => {
                        self.identity(bytes, holds, name);
                    }
                    Value::Unsigned(number) if number != 0 && bytes.len() == 8 => {
                        self.identity(bytes, holds, &number.to_be_bytes());
                    }
                    Value::Unsigned(number) if number != 0 && bytes.len() == 4 => {
                        self.identity(bytes, holds, &(number as u32).to_be_bytes());
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
