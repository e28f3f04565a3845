//! Current activity of a capture whose frames are received once: pending Calls and rates.

use std::time::Instant;

use nfsrdma_analysis::call_session_slots::CallSessionSlot;
use nfsrdma_analysis::rates::SlidingWindowRates;
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_flow::transaction::CallDirection;

use super::transaction_list_row::RowPage;

/// Maximum number of pending Calls listed, oldest first.
pub const MAX_LISTED_CALLS: usize = 200;
/// Age in nanoseconds from which a pending Call is old: a working server replies earlier.
pub const OLD_NS: u64 = 1_000_000_000;

/// A pending Call.
#[derive(Clone, Debug)]
pub struct PendingCallRow {
    /// Time of the Call's first frame.
    pub since: Timestamp,
    /// First frame.
    pub first: FrameNumber,
    /// Operation and its arguments, as displayed.
    pub label: String,
    /// Range of the file path in the label.
    pub path: std::ops::Range<usize>,
    /// Length in bytes of the operation name at the start of the label.
    pub name_length: usize,
    /// Connection number.
    pub connection: u64,
    /// Client address.
    pub client: Address,
    /// Transaction ID.
    pub xid: Xid,
    /// Session slot, since NFSv4.1.
    pub slot: Option<CallSessionSlot>,
    /// Phase that the Call has reached.
    pub phase: PendingTransactionPhase,
    /// Number of times the Call was sent.
    pub copies: u32,
    /// Side that sent the call.
    pub direction: CallDirection,
}

/// The activity at a point in time.
#[derive(Clone, Debug, Default)]
pub struct LiveActivitySnapshot {
    /// Time of the clock that stamps frames when the snapshot was taken.
    pub now: Timestamp,
    /// Time of the snapshot; `None` if time stands still.
    pub taken_at: Option<Instant>,
    /// Number of pending Calls.
    pub pending_count: usize,
    /// Number of pending Calls with an age of at least [`OLD_NS`].
    pub old_count: usize,
    /// The oldest pending Calls, oldest first.
    pub pending: Vec<PendingCallRow>,
    /// The rows of the listed calls that are old.
    pub rows: RowPage,
    /// Rates over the last second, ten seconds and minute.
    pub rates: SlidingWindowRates,
}

impl LiveActivitySnapshot {
    /// Returns the age of a pending call in nanoseconds.
    pub fn age_ns(&self, row: &PendingCallRow) -> u64 {
        self.ns_since(row.since)
    }

    /// Returns the nanoseconds since a time of the clock that stamps frames, until now.
    pub fn ns_since(&self, time: Timestamp) -> u64 {
        let passed = self.taken_at.map_or(0, |at| u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.now.nanoseconds_since(time).unwrap_or(0).saturating_add(passed)
    }

    /// Returns the listed Calls that are old.
    pub fn old_calls(&self) -> impl Iterator<Item = &PendingCallRow> {
        self.pending.iter().take_while(|row| self.age_ns(row) >= OLD_NS)
    }

    /// Returns `true` if it stays the same until another frame arrives.
    pub fn is_idle(&self) -> bool {
        self.pending_count == 0 && self.rates.is_idle()
    }
}
