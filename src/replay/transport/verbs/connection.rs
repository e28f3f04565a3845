//! One connection: its queue pair, its Calls in flight, and what of the memory they offer.

use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::super::framing::{InFlightCalls, OfferedChunks};
use super::super::{DisconnectReason, TransportCounts, TransportCredits, TransportParams};
use super::memory::{VerbsBuffer, VerbsExposedBuffer};
use super::queue_pair::{QueuePair, QueuePairConnected};
use super::reverse_responder::VerbsReverseResponder;
use super::server_resources::VerbsServerResources;
use super::window::VerbsBoundWindow;
use super::work_queues::VerbsQueuePairEnd;

/// What a Call in flight offers, and the memory for it. Its room serves Call after Call.
#[derive(Debug, Default)]
pub(super) struct VerbsInFlightCall {
    /// The chunks, as its header has them.
    pub(super) offered: OfferedChunks,
    /// For Read chunks; none for what the server fetches from shared memory.
    pub(super) fetched: Vec<VerbsExposedBuffer>,
    /// For each Write chunk; `None` for one without segments.
    pub(super) writes: Vec<Option<VerbsExposedBuffer>>,
    /// For the Reply chunk.
    pub(super) reply: Option<VerbsExposedBuffer>,
    /// The windows of what the server fetches from shared memory; the others have their own.
    pub(super) windows: Vec<VerbsBoundWindow>,
}

impl VerbsInFlightCall {
    /// All of it, after the end of its connection.
    pub(super) fn into_pool(self, end: &VerbsQueuePairEnd, shared: &mut VerbsServerResources) {
        let all = self.fetched.into_iter().chain(self.writes.into_iter().flatten()).chain(self.reply);
        for buffer in all.filter_map(|exposed| exposed.after(end).ok()) {
            shared.give_back(buffer);
        }
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbsDisconnectCause {
    /// Work Requests were flushed: something says why, or has said it.
    Flushed,
    /// It is known.
    Because(DisconnectReason),
}

/// A connection. When it is closed, its terms and counts stay.
#[derive(Debug)]
pub(super) struct VerbsConnection {
    /// Which device it goes over.
    pub(super) device: usize,
    /// `None` when it is closed.
    pub(super) queue: Option<QueuePair<QueuePairConnected>>,
    pub(super) flight: InFlightCalls<VerbsInFlightCall>,
    pub(super) credits: TransportCredits,
    pub(super) responder: VerbsReverseResponder,
    pub(super) terms: TransportParams,
    pub(super) counts: TransportCounts,
    /// Receive buffers that are to be posted again.
    pub(super) spare: Vec<VerbsBuffer>,
    pub(super) ending: Option<VerbsDisconnectCause>,
}

impl VerbsConnection {
    /// The queue pair, where Calls can be sent.
    pub(super) fn open_queue(&mut self) -> Option<&mut QueuePair<QueuePairConnected>> {
        if self.ending.is_some() { None } else { self.queue.as_mut() }
    }

    /// Whether this side closed it.
    pub(super) fn is_closing(&self) -> bool {
        self.ending == Some(VerbsDisconnectCause::Because(DisconnectReason::Asked))
    }

    /// Notes why it ends; what is known first stands, but for mere flushing.
    pub(super) fn end(&mut self, why: VerbsDisconnectCause) {
        if matches!(self.ending, None | Some(VerbsDisconnectCause::Flushed)) {
            self.ending = Some(why);
        }
    }

    /// The call inline threshold in bytes.
    pub(super) fn call_inline(&self) -> u32 {
        let rdma = self.terms.rdma.as_ref();
        rdma.map_or(PrivateData::DEFAULT.send_threshold(), |rdma| rdma.call_inline)
    }
}
