//! One connection: its queue pair, its Calls in flight, and what of the memory they offer.

use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::super::framing::{Flight, Offered};
use super::super::{Counts, Credits, Disconnect, Terms};
use super::memory::{Buffer, Exposed};
use super::posting::End;
use super::queue_pair::{Connected, QueuePair};
use super::reverse::Responder;
use super::shared::Shared;
use super::window::Bound;

/// What a Call in flight offers, and the memory for it. Its room serves Call after Call.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// The chunks, as its header has them.
    pub(super) offered: Offered,
    /// For Read chunks; none for what the server fetches from shared memory.
    pub(super) fetched: Vec<Exposed>,
    /// For each Write chunk; `None` for one without segments.
    pub(super) writes: Vec<Option<Exposed>>,
    /// For the Reply chunk.
    pub(super) reply: Option<Exposed>,
    /// The windows of what the server fetches from shared memory; the others have their own.
    pub(super) windows: Vec<Bound>,
}

impl InFlight {
    /// All of it, after the end of its connection.
    pub(super) fn into_pool(self, end: &End, shared: &mut Shared) {
        let all = self.fetched.into_iter().chain(self.writes.into_iter().flatten()).chain(self.reply);
        for buffer in all.filter_map(|exposed| exposed.after(end).ok()) {
            shared.give_back(buffer);
        }
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Work Requests were flushed: something says why, or has said it.
    Flushed,
    /// It is known.
    Because(Disconnect),
}

/// A connection. When it is closed, its terms and counts stay.
#[derive(Debug)]
pub(super) struct Connection {
    /// Which device it goes over.
    pub(super) device: usize,
    /// `None` when it is closed.
    pub(super) queue: Option<QueuePair<Connected>>,
    pub(super) flight: Flight<InFlight>,
    pub(super) credits: Credits,
    pub(super) responder: Responder,
    pub(super) terms: Terms,
    pub(super) counts: Counts,
    /// Receive buffers that are to be posted again.
    pub(super) spare: Vec<Buffer>,
    pub(super) ending: Option<Ending>,
}

impl Connection {
    /// The queue pair, where Calls can be sent.
    pub(super) fn open_queue(&mut self) -> Option<&mut QueuePair<Connected>> {
        if self.ending.is_some() { None } else { self.queue.as_mut() }
    }

    /// Whether this side closed it.
    pub(super) fn is_closing(&self) -> bool {
        self.ending == Some(Ending::Because(Disconnect::Asked))
    }

    /// Notes why it ends; what is known first stands, but for mere flushing.
    pub(super) fn end(&mut self, why: Ending) {
        if matches!(self.ending, None | Some(Ending::Flushed)) {
            self.ending = Some(why);
        }
    }

    /// The call inline threshold in bytes.
    pub(super) fn call_inline(&self) -> u32 {
        let rdma = self.terms.rdma.as_ref();
        rdma.map_or(PrivateData::DEFAULT.send_threshold(), |rdma| rdma.call_inline)
    }
}
