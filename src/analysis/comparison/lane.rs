//! What one client does in one direction, on both sides: records wait here until both sides can be put together.

use std::collections::VecDeque;
use std::rc::Rc;

use nfsrdma_dissectors::flow::transaction::Direction;

use super::record::Record;
use super::renaming::{Name, Renaming};
use super::role::{Identity, Role};

/// Records that are looked at when the two sides are not together.
pub(super) const WINDOW: usize = 128;
/// Records that found no partner and wait for one that comes late, of all lanes.
pub(super) const LEFT: usize = 4_096;

/// Who calls whom: the same client on both sides has the same place in the order in which clients appear, or the same
/// address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Address of the client of the connection, as text.
    pub address: Rc<str>,
    /// Whether it calls, or is called.
    pub direction: Direction,
}

/// One side of a lane.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) client: Option<Client>,
    pub(super) waiting: VecDeque<Record>,
    /// The first frame of the last record that was taken.
    pub(super) passed: u64,
    /// The last frame of those that were taken.
    until: u64,
    /// Those that found no partner.
    pub(super) left: VecDeque<Record>,
    /// Those that were given out after what followed them was taken: a Reply never came.
    pub(super) late: Vec<Record>,
    pub(super) records: u64,
    /// Whether any of them went over RDMA.
    pub(super) is_rdma: bool,
}

impl Row {
    /// Adds a record in the order of its first frame.
    pub(super) fn push(&mut self, record: Record) {
        self.records += 1;
        self.is_rdma |= record.is_rdma();
        let frame = frame(&record);
        if frame < self.passed {
            self.late.push(record);
            return;
        }
        let at = self.waiting.iter().rposition(|other| self::frame(other) <= frame).map_or(0, |at| at + 1);
        self.waiting.insert(at, record);
    }

    /// Whether nothing of it waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.left.is_empty() && self.late.is_empty()
    }

    /// Takes the first so many.
    pub(super) fn take(&mut self, count: usize) -> Vec<Record> {
        let mut taken = Vec::with_capacity(count.min(self.waiting.len()));
        while taken.len() < count
            && let Some(mut record) = self.waiting.pop_front()
        {
            let next = self.waiting.front().map(frame);
            record.is_racing = frame(&record) < self.until || next.is_some_and(|next| next < record.until);
            self.until = self.until.max(record.until);
            self.passed = self.passed.max(frame(&record));
            taken.push(record);
        }
        taken
    }
}

/// First frame of a record.
pub(super) fn frame(record: &Record) -> u64 {
    record.place.frame().map_or(0, |frame| frame.0)
}

/// Both sides of what one client does in one direction.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) rows: [Row; 2],
}

/// What a Call is, as far as both sides can be expected to have it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The operation.
    pub(super) signature: u64,
    /// Its names, offsets and counts.
    pub(super) about: u64,
    /// Everything in it that must be equal.
    arguments: u64,
    /// Its filehandles, as far as both sides are known to call them so.
    filehandles: u64,
}

impl Key {
    pub(super) fn of(record: &Record, side: usize, renaming: &mut Renaming) -> Self {
        let mut filehandles = 0_u64;
        for entry in record.call.iter().flat_map(|call| &call.sections).flat_map(|section| &section.entries) {
            if entry.path.role == Role::Identity(Identity::Filehandle)
                && let Some(name) = Name::of(Identity::Filehandle, &entry.datum, None)
            {
                filehandles = filehandles.rotate_left(7).wrapping_mul(31) ^ renaming.number(side, name);
            }
        }
        Self { signature: record.signature, about: record.about, arguments: record.arguments, filehandles }
    }
}
