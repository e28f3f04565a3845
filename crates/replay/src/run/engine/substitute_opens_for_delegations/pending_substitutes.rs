//! Opens in place of delegations that are active, are being made, or are to be made.

use std::collections::VecDeque;
use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashSet;

use super::substitute_open_request::{DelegationSubstituteCall, DelegationSubstituteOpenRequest};
use crate::run::engine::step_window::StepWindowEntry;

#[derive(Debug, Default)]
pub(in crate::run::engine) struct DelegationSubstituteOpens {
    /// First delegation that the current Reply lacks: its variable, and the operation's index in the COMPOUND, from 0.
    pub(in crate::run::engine) missing: Option<(u32, u32)>,
    /// Request that the current Reply makes necessary.
    pub(super) wanted: Option<DelegationSubstituteOpenRequest>,
    /// Substitutes that are to be made or in flight.
    pub(super) waiting: VecDeque<PendingDelegationSubstitute>,
    /// Variables of delegations that are currently replaced by an open.
    pub(in crate::run::engine) active: FxHashSet<u32>,
}

/// A substitute that is being made.
#[derive(Debug, Default)]
pub(super) struct PendingDelegationSubstitute {
    /// Window index of the step that opened the file, and its buffers.
    pub(super) window_index: u32,
    pub(super) window_step: Box<StepWindowEntry>,
    pub(super) request: DelegationSubstituteOpenRequest,
    /// Stages to be done; the first is in flight or next.
    pub(super) stages: VecDeque<DelegationSubstituteCall>,
    pub(super) line: usize,
    /// Session variable and captured slot.
    pub(super) session: Option<(u32, u32)>,
    /// Live slot in use.
    pub(super) slot: Option<(u32, u32)>,
    /// Call that is in flight or to be sent; sent again unchanged after a lost connection.
    pub(super) message: Option<(Xid, Vec<u8>)>,
    pub(super) sent: Option<Instant>,
    pub(super) retry_at: Option<Instant>,
    pub(super) tries: u32,
    pub(super) resends: u32,
    /// `true` if the server had forgotten the client, which is re-established.
    pub(super) is_renewed: bool,
}
