//! A connection: its queue pair, its Calls in flight, and the memory that they expose.

use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::exposed_buffer::VerbsExposedBuffer;
use super::memory::VerbsBuffer;
use super::per_server_resources::PerServerVerbsResources;
use super::queue_pair::{ConnectedTypestate, QueuePair};
use super::reverse_responder::VerbsReverseResponder;
use super::window::VerbsBoundWindow;
use super::work_queues::QueuePairDestructionProof;
use crate::client_transport_events::DisconnectReason;
use crate::params::{NegotiatedTransportParams, RpcClientConnectionCounters, TransportCredits};
use crate::rpcrdma_framing::in_flight::InFlightCalls;
use crate::rpcrdma_framing::offered_chunks::OutgoingCallChunks;

/// The memory that a Call in flight exposes. Its allocations are reused for later Calls.
#[derive(Default)]
pub(super) struct VerbsInFlightCall {
    /// The chunks, as in the Call's header.
    pub(super) chunks: OutgoingCallChunks,
    /// Buffers of the Read chunks; none for payloads in shared memory.
    pub(super) read_buffers: Vec<VerbsExposedBuffer>,
    /// Buffers of the Write chunks; `None` for a chunk without segments.
    pub(super) write_buffers: Vec<Option<VerbsExposedBuffer>>,
    pub(super) reply: Option<VerbsExposedBuffer>,
    /// Windows of the payloads in shared memory; exposed buffers own theirs.
    pub(super) windows: Vec<VerbsBoundWindow>,
}

impl VerbsInFlightCall {
    /// Returns all buffers to the pools, after the end of the connection.
    pub(super) fn into_pool(self, end: &QueuePairDestructionProof, shared: &mut PerServerVerbsResources) {
        let buffers = self.read_buffers.into_iter().chain(self.write_buffers.into_iter().flatten()).chain(self.reply);
        for buffer in buffers.filter_map(|exposed| exposed.take_after_end(end).ok()) {
            shared.release(buffer);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbsDisconnectCause {
    /// Work Requests were flushed: another event has the reason, or had it.
    Flushed,
    Reason(DisconnectReason),
}

/// A connection. Its parameters and counts outlive its closing.
pub(super) struct VerbsConnection {
    /// Index of its server resources in the transport.
    pub(super) device: usize,
    /// `None` if the connection is closed.
    pub(super) queue: Option<QueuePair<ConnectedTypestate>>,
    pub(super) in_flight_calls: InFlightCalls<VerbsInFlightCall>,
    pub(super) credits: TransportCredits,
    pub(super) responder: VerbsReverseResponder,
    pub(super) terms: NegotiatedTransportParams,
    pub(super) counts: RpcClientConnectionCounters,
    /// Receive buffers to post again.
    pub(super) free_receive_buffers: Vec<VerbsBuffer>,
    pub(super) disconnect_cause: Option<VerbsDisconnectCause>,
}

impl VerbsConnection {
    /// Returns the queue pair if Calls can be sent.
    pub(super) fn open_queue(&mut self) -> Option<&mut QueuePair<ConnectedTypestate>> {
        if self.disconnect_cause.is_some() { None } else { self.queue.as_mut() }
    }

    /// Returns `true` if the connection has ended, but is not torn down yet.
    pub(super) fn has_ended(&self) -> bool {
        self.disconnect_cause.is_some() && self.queue.is_some()
    }

    /// Returns `true` if this side closed the connection.
    pub(super) fn is_closing(&self) -> bool {
        self.disconnect_cause == Some(VerbsDisconnectCause::Reason(DisconnectReason::LocalClose))
    }

    /// Records the cause of the end. The first reason is kept; only [`VerbsDisconnectCause::Flushed`] is replaced.
    pub(super) fn record_disconnect_cause(&mut self, cause: VerbsDisconnectCause) {
        if matches!(self.disconnect_cause, None | Some(VerbsDisconnectCause::Flushed)) {
            self.disconnect_cause = Some(cause);
        }
    }

    /// Returns the call inline threshold in bytes.
    pub(super) fn call_inline(&self) -> u32 {
        let rdma = self.terms.rdma.as_ref();
        rdma.map_or(PrivateData::DEFAULT.send_threshold_bytes(), |rdma| rdma.call_inline)
    }
}
