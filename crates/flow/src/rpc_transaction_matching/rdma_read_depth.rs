//! RDMA Reads in flight, and the number that the owner of the memory answers at a time.

use std::collections::VecDeque;

use crate::borrowed_flow_state::BorrowedFlowState;
use crate::by_side::ConnectionSidePair;
use crate::connection_setup::{NegotiatedParameters, RdmaReadResources};
use crate::exceptional_transport_events::{ConnectionSlotTransportEvent, MAX_REPLY_SKEW_NS, TransportAnomalyKind};
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution};
use crate::transaction_slab_key::TransactionSlabKey;

/// Inbound RDMA Read Queue Depth that leaves the number to the implementation. RFC 6581 section 9.1.
const UNSPECIFIED_DEPTH: u16 = 0x3fff;

/// Maximum number of RDMA Reads of a side that are tracked.
const MAX_TRACKED: usize = 4096;

/// An RDMA Read without its last response.
#[derive(Clone, Copy, Debug)]
struct RdmaReadInFlight {
    owner: RdmaAttribution,
    offset: u64,
    length: u32,
}

/// RDMA Reads of one side.
#[derive(Debug, Default)]
struct OutboundRdmaReads {
    /// Maximum number in flight, if the set-up was captured.
    limit: Option<u16>,
    in_flight: VecDeque<RdmaReadInFlight>,
    /// More RDMA Reads in flight than the owner of the memory answers, if the first of them was not answered before the
    /// last was sent: a capture of several queues reorders packets.
    suspect: Option<ConnectionSlotTransportEvent>,
}

/// RDMA Reads of both sides. Tracked only if transport events are recorded.
#[derive(Debug, Default)]
pub(super) struct RdmaReadDepthTracker(ConnectionSidePair<OutboundRdmaReads>);

impl RdmaReadDepthTracker {
    /// Sets the maximum numbers from the set-up of a connection that `client` opened.
    pub(super) fn set_limits(&mut self, client: ConnectionSideAOrB, parameters: &NegotiatedParameters) {
        let limit = |owner: Option<RdmaReadResources>| {
            owner.map(|reads| reads.inbound).filter(|limit| *limit < UNSPECIFIED_DEPTH)
        };
        self.0[client].limit = limit(parameters.server_reads);
        self.0[client.peer()].limit = limit(parameters.client_reads);
    }

    /// Adopts the maximum numbers of another part of the connection.
    pub(super) fn merge_limits(&mut self, other: &Self, is_swapped: bool) {
        for side in ConnectionSideAOrB::BOTH {
            let other_side = if is_swapped { side.peer() } else { side };
            self.0[side].limit = self.0[side].limit.or(other.0[other_side].limit);
        }
    }

    /// Forgets the Reads in flight: packets were lost.
    pub(super) fn forget(&mut self) {
        for side in &mut self.0.0 {
            side.in_flight.clear();
            side.suspect = None;
        }
    }

    pub(super) fn count_request(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        owner: RdmaAttribution,
        (offset, length): (u64, u32),
    ) {
        if context.packet_meta.anomaly.is_some() {
            return self.forget();
        }
        let side = &mut self.0[context.sender];
        let Some(limit) = side.limit else { return };
        if length == 0 || side.in_flight.len() >= MAX_TRACKED {
            return;
        }
        side.in_flight.push_back(RdmaReadInFlight { owner, offset, length });
        let count = side.in_flight.len() as u32;
        let transaction = TransactionSlabKey::from_attribution(owner).map(|(key, _)| key);
        let kind = TransportAnomalyKind::ReadsInFlight { count, limit };
        if count > u32::from(limit) {
            side.suspect.get_or_insert(context.event(transaction, kind));
        } else if count == u32::from(limit) {
            context.record_event(transaction, kind);
        }
    }

    /// Counts bytes of a response to an RDMA Read. Responses arrive in the order of their requests.
    pub(super) fn count_response(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        owner: RdmaAttribution,
        (offset, length): (u64, u32),
    ) {
        let side = &mut self.0[context.sender.peer()];
        if side.limit.is_none() {
            return;
        }
        let end = offset.saturating_add(u64::from(length));
        let is_answered = |read: &RdmaReadInFlight| {
            let read_end = read.offset.saturating_add(u64::from(read.length));
            read.owner == owner && read.offset <= offset && end <= read_end
        };
        let is_first = side.in_flight.front().is_some_and(is_answered);
        if !is_first {
            let Some(at) = side.in_flight.iter().position(is_answered) else { return };
            side.in_flight.drain(..at);
        }
        let is_complete =
            { side.in_flight.front() }.is_some_and(|read| read.offset.saturating_add(u64::from(read.length)) == end);
        if is_complete {
            side.in_flight.pop_front();
        }
        if let Some(suspect) = side.suspect.take() {
            let is_late = context.packet_meta.time.abs_diff_ns(suspect.time) > MAX_REPLY_SKEW_NS;
            context.record_suspect(suspect, is_first && is_late);
        }
    }
}
