//! What goes on at this moment, of a capture whose frames come once: Calls in flight and rates.

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::flow::pending_calls::PendingPhase;
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;

use crate::analysis::rates::RateTable;
use crate::analysis::sequence::SlotUse;

/// Calls in flight that are listed, the oldest first.
pub const LISTED: usize = 200;
/// Nanoseconds from which on a Call in flight is old: no server that works takes so long.
pub const OLD_NS: u64 = 1_000_000_000;

/// A Call in flight.
#[derive(Clone, Debug)]
pub struct PendingCallRow {
    /// When the first frame of the Call was seen.
    pub since: Timestamp,
    /// That frame.
    pub first: FrameNumber,
    /// The operation and what it is about.
    pub label: String,
    /// Where the path of the file stands in it.
    pub path: std::ops::Range<usize>,
    /// Bytes of the name of the operation, with which the label begins.
    pub name_length: usize,
    /// Number of its connection.
    pub connection: u64,
    /// The client.
    pub client: Address,
    /// Its transaction id.
    pub xid: Xid,
    /// Its slot, from NFSv4.1 on.
    pub slot: Option<SlotUse>,
    /// The step that it has reached.
    pub phase: PendingPhase,
    /// How often the Call was sent.
    pub copies: u32,
    /// Whether the server called.
    pub is_reverse: bool,
}

/// What goes on.
#[derive(Clone, Debug, Default)]
pub struct LiveActivity {
    /// The moment, by the clock that stamps frames.
    pub now: Timestamp,
    /// How many Calls are in flight.
    pub in_flight: usize,
    /// How many of them are older than [`OLD_NS`].
    pub old: usize,
    /// The oldest of them, the oldest first.
    pub pending: Vec<PendingCallRow>,
    /// Rates over the last second, the last ten, and the last minute.
    pub rates: RateTable,
}

impl LiveActivity {
    /// Nanoseconds that a Call has been in flight.
    pub fn age_ns(&self, row: &PendingCallRow) -> u64 {
        self.now.nanoseconds_since(row.since).unwrap_or(0)
    }

    /// The old Calls that are listed.
    pub fn old_calls(&self) -> impl Iterator<Item = &PendingCallRow> {
        self.pending.iter().take_while(|row| self.age_ns(row) >= OLD_NS)
    }

    /// Whether it will be the same until another frame comes.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight == 0 && self.rates.is_idle()
    }
}
