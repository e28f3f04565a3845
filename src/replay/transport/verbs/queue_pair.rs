//! A queue pair: made before the connection, filled with receive buffers, connected, used, destroyed. Its state is its type.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;

use super::super::RpcTransportErrorKind;
use super::super::framing;
use super::cm_id::{CmId, CmRouteResolved, UnexpectedCmEvent, expect};
use super::completions::{CompletionQueue, VerbsCompletion};
use super::context::ProtectionDomain;
use super::events::{CmEvent, CmEventKind};
use super::failure;
use super::memory::{VerbsBuffer, VerbsExposedBuffer, VerbsSharedRegion, VerbsWrittenBytes};
use super::window::VerbsBoundWindow;
use super::work_queues::{
    VerbsCompletionOutcome, VerbsQueueDepths, VerbsQueuePairEnd, VerbsSendRequest, VerbsServerFence,
    VerbsWorkQueues,
};

/// How often a Send is tried again before the connection counts as broken: the most that three bits can say.
const RETRIES: u8 = 7;
/// How often a Send is tried again where the server has no buffer posted; 7 is for ever, which would hide a server that
/// breaks its own credits.
const RECEIVER_NOT_READY_RETRIES: u8 = 6;
/// The CM's reason for a service that is not there. InfiniBand Architecture Specification, volume 1, section 12.6.7.2.
const INVALID_SERVICE_ID: i32 = 8;
/// The CM's reason for a server that refuses itself.
const CONSUMER_REJECT: i32 = 28;

/// Made, and able to receive; not connected yet.
#[derive(Debug)]
pub(crate) struct QueuePairInitialized;
/// The connection stands, or stood.
#[derive(Debug)]
pub(crate) struct QueuePairConnected;

/// A queue pair of a reliable connection.
#[derive(Debug)]
pub(crate) struct QueuePair<S> {
    queues: VerbsWorkQueues,
    state: S,
}

impl QueuePair<QueuePairInitialized> {
    /// Makes a queue pair on a route.
    ///
    /// # Errors
    /// Where device or completion queue have no room for it.
    pub(crate) fn new(
        id: CmId<CmRouteResolved>,
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        depth: VerbsQueueDepths,
    ) -> Result<Self, RpcTransportErrorKind> {
        let queues = VerbsWorkQueues::new(id.into_identifier(), domain, completions, depth)?;
        Ok(Self { queues, state: QueuePairInitialized })
    }

    /// Connects, and tells what private data came back. Where there is no connection, all that was posted goes to `free`.
    ///
    /// # Errors
    /// Where the server is not reached, or does not want the connection.
    pub(crate) fn connect(
        self,
        private_data: &[u8],
        deadline: Instant,
        free: &mut Vec<VerbsBuffer>,
    ) -> Result<(QueuePair<QueuePairConnected>, Vec<u8>), RpcTransportErrorKind> {
        match self.established(private_data, deadline) {
            Ok(answer) => {
                let Self { queues, state: QueuePairInitialized } = self;
                Ok((QueuePair { queues, state: QueuePairConnected }, answer))
            }
            Err(kind) => {
                self.destroy(free);
                Err(kind)
            }
        }
    }

    /// The private data of a connection that stands.
    fn established(&self, private_data: &[u8], deadline: Instant) -> Result<Vec<u8>, RpcTransportErrorKind> {
        let limits = self.queues.domain().context().limits;
        let mut parameters = ffi::rdma_conn_param {
            private_data: private_data.as_ptr().cast(),
            private_data_len: u8::try_from(private_data.len()).unwrap_or(0),
            // What lets the server's RDMA Reads in.
            responder_resources: limits.responder_resources,
            // Nothing is read from the server, ever: RFC 8166 section 3.4.
            initiator_depth: 0,
            flow_control: 1,
            retry_count: RETRIES,
            rnr_retry_count: RECEIVER_NOT_READY_RETRIES,
            srq: 0,
            qp_num: 0,
        };
        // SAFETY: the identifier has a queue pair, as the state says; the private data is as long as told, and read in
        // this call only.
        if unsafe { ffi::rdma_connect(self.queues.identifier().pointer(), &raw mut parameters) } != 0 {
            return Err(failure::last("rdma_connect"));
        }
        match expect(self.queues.identifier(), CmEventKind::Established, deadline) {
            Ok(event) => Ok(event.private_data),
            Err(UnexpectedCmEvent::Event(event)) => Err(unconnected(&event)),
            Err(UnexpectedCmEvent::Failed(kind)) => Err(kind),
        }
    }
}

impl QueuePair<QueuePairConnected> {
    /// How many Sends there is room for.
    pub(crate) fn send_room(&self) -> usize {
        self.queues.send_room()
    }

    /// Takes a message that goes out with the next [`flush`](Self::flush); gives it back where there is no room.
    ///
    /// # Errors
    /// The buffer.
    pub(crate) fn send(&mut self, buffer: VerbsBuffer, length: usize) -> Result<(), VerbsBuffer> {
        if self.send_room() == 0 {
            return Err(buffer);
        }
        self.queues.stage(VerbsSendRequest::Send(buffer, length));
        Ok(())
    }

    /// Posts what was taken, as far as there is room, and tells whether that was anything. Only the last of a batch is signalled: it
    /// stands for those before it.
    ///
    /// # Errors
    /// Where the device refuses, after which the queue pair is of no more use.
    pub(crate) fn flush(&mut self) -> Result<bool, RpcTransportErrorKind> {
        self.queues.flush()
    }

    /// From now on each chunk has a window of its own: the server may invalidate what it is told.
    pub(crate) fn use_windows(&mut self) {
        self.queues.use_windows();
    }

    /// Whether each chunk has a window of its own.
    pub(crate) fn has_windows(&self) -> bool {
        self.queues.has_windows()
    }

    /// Takes windows for the chunks of a Call; none where chunks have no windows.
    ///
    /// # Errors
    /// Where the device gives none; then none are taken.
    pub(crate) fn take_windows(
        &mut self,
        count: usize,
        into: &mut Vec<VerbsBoundWindow>,
    ) -> Result<(), RpcTransportErrorKind> {
        self.queues.windows().map_or(Ok(()), |windows| windows.take(count, into))
    }

    /// Shows the first `length` bytes of a buffer to the server, by the window if there is one.
    pub(crate) fn expose(
        &mut self,
        buffer: VerbsBuffer,
        length: usize,
        window: Option<VerbsBoundWindow>,
    ) -> VerbsExposedBuffer {
        let window = match window {
            // A window of nothing is none.
            Some(bound) if length == 0 => {
                self.give_back(bound);
                None
            }
            Some(bound) => {
                let part = buffer.part(length);
                self.queues.bind(&bound, part);
                Some(bound)
            }
            None => None,
        };
        VerbsExposedBuffer::new(buffer, length, window, self.queues.number(), self.queues.clock())
    }

    /// What the server wrote, after a Reply: see [`VerbsExposedBuffer`]. The first `length` bytes, unless `keep` leaves them to the server. `room`
    /// is for a copy, where one is needed. A buffer whose window is still open stays here until it is not.
    ///
    /// # Errors
    /// What was exposed and the room, where they are kept, or the fence does not cover it.
    pub(crate) fn see(
        &mut self,
        exposed: VerbsExposedBuffer,
        fence: &VerbsServerFence,
        length: usize,
        room: Vec<u8>,
        keep: impl FnOnce(&[u8]) -> bool,
    ) -> Result<VerbsWrittenBytes, (VerbsExposedBuffer, Vec<u8>)> {
        if !exposed.is_of(self.queues.number()) {
            return Err((exposed, room));
        }
        let (seen, open) = exposed.see(fence, self.queues.windows(), length, room, keep)?;
        open.into_iter().for_each(|open| self.queues.invalidate(open));
        Ok(seen)
    }

    /// A buffer that was exposed, after a Reply: see [`VerbsExposedBuffer`]. One whose window is still open stays here until it is not.
    ///
    /// # Errors
    /// What was exposed, where the fence does not cover it.
    pub(crate) fn take_back(
        &mut self,
        exposed: VerbsExposedBuffer,
        fence: &VerbsServerFence,
    ) -> Result<Option<VerbsBuffer>, VerbsExposedBuffer> {
        if !exposed.is_of(self.queues.number()) {
            return Err(exposed);
        }
        match exposed.take_back(fence, self.queues.windows())? {
            Ok(buffer) => Ok(Some(buffer)),
            Err(open) => {
                self.queues.invalidate(open);
                Ok(None)
            }
        }
    }

    /// Whether buffers may come back by completions of what this side does: of Sends, and of what ends windows.
    pub(crate) fn is_sending(&self) -> bool {
        self.queues.is_sending()
    }

    /// Shows shared memory to the server, by the window if there is one.
    pub(crate) fn expose_stored(
        &mut self,
        stored: &VerbsSharedRegion,
        at: usize,
        length: u32,
        window: Option<&VerbsBoundWindow>,
    ) -> Option<framing::ChunkRegion> {
        let Some(bound) = window else { return stored.region(at, length) };
        let part = stored.part(at, length)?;
        let region = part.region(bound.handle);
        self.queues.bind(bound, part);
        Some(region)
    }

    /// A Send came that had invalidated this handle. Tells whether it was that of a window in use.
    pub(crate) fn invalidated(&mut self, handle: Handle) -> bool {
        self.queues.windows().is_some_and(|windows| windows.invalidated(handle))
    }

    /// Takes the window of shared memory back, or one that was not used. If the server did not invalidate its handle, that is done
    /// before what is sent next.
    pub(crate) fn give_back(&mut self, bound: VerbsBoundWindow) {
        if let Some(handle) = self.queues.windows().and_then(|windows| windows.give_back(bound)) {
            self.queues.stage(VerbsSendRequest::Invalidate(handle, None));
        }
    }

    /// Takes a completion of this queue pair; buffers of Sends that are done go to `free`.
    ///
    /// # Errors
    /// The completion, where it is of another.
    pub(crate) fn finish(
        &mut self,
        completion: VerbsCompletion,
        free: &mut Vec<VerbsBuffer>,
    ) -> Result<VerbsCompletionOutcome, VerbsCompletion> {
        self.queues.finish(completion, free)
    }

    /// What the connection manager tells, if anything.
    ///
    /// # Errors
    /// Where the channel is broken.
    pub(crate) fn event(&self) -> Result<Option<CmEvent>, RpcTransportErrorKind> {
        self.queues.identifier().channel().next()
    }

    /// The descriptor that can be read when there is an event.
    pub(crate) fn fd(&self) -> i32 {
        self.queues.identifier().channel().fd()
    }

    /// This side's address and port.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.queues.identifier().local_address()
    }

    /// Ends the connection. What is posted is flushed.
    pub(crate) fn disconnect(&self) {
        self.queues.disconnect();
    }
}

impl<S> QueuePair<S> {
    /// Destroys the queue pair, and gives back all that was posted, and what lets go of all that it exposed. Nothing of it comes
    /// back where the device keeps the queue pair: that memory is better lost than used for something else.
    pub(crate) fn destroy(mut self, free: &mut Vec<VerbsBuffer>) -> Option<VerbsQueuePairEnd> {
        self.queues.disconnect();
        self.queues.end(free)
    }

    /// What completions name it by.
    pub(crate) fn number(&self) -> u32 {
        self.queues.number()
    }

    /// Posts receive buffers, as far as there is room; the others stay where they are.
    ///
    /// # Errors
    /// Where the device refuses, after which the queue pair is of no more use.
    pub(crate) fn receive(&mut self, buffers: &mut Vec<VerbsBuffer>) -> Result<(), RpcTransportErrorKind> {
        self.queues.receive(buffers)
    }
}

/// Why there is no connection.
fn unconnected(event: &CmEvent) -> RpcTransportErrorKind {
    match (event.kind, event.status) {
        (CmEventKind::Rejected, INVALID_SERVICE_ID) => RpcTransportErrorKind::Refused,
        (CmEventKind::Rejected, CONSUMER_REJECT) => {
            RpcTransportErrorKind::Rejected("its NFS server does not take it".to_owned())
        }
        (CmEventKind::Rejected, status @ 1..) => {
            RpcTransportErrorKind::Rejected(format!("reason {status} of the CM"))
        }
        (CmEventKind::Disconnected, _) => RpcTransportErrorKind::Reset,
        (CmEventKind::DeviceRemoval, _) => RpcTransportErrorKind::NoDevice,
        (CmEventKind::Unreachable, _) => RpcTransportErrorKind::NoRoute,
        (_, status) => failure::returned("connecting", status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: CmEventKind, status: i32) -> String {
        unconnected(&CmEvent { kind, status, private_data: Vec::new() }).to_string()
    }

    #[test]
    fn a_wrong_port_is_told_alike_over_roce_and_iwarp() {
        let roce = event(CmEventKind::Rejected, 8);
        let iwarp = event(CmEventKind::ConnectError, -libc::ECONNREFUSED);
        assert_eq!(roce, iwarp);
        assert!(roce.starts_with("nothing listens there"), "{roce}");
    }

    #[test]
    fn a_rejection_has_its_reason() {
        assert!(event(CmEventKind::Rejected, 28).contains("its NFS server does not take it"));
        assert!(event(CmEventKind::Rejected, 3).contains("reason 3"));
        assert!(event(CmEventKind::Unreachable, -110).starts_with("no route"));
    }
}
