//! Queue pairs: created before the connection, filled with receive buffers, connected, used, destroyed. The state is in
//! the type.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::memory_handle::Handle;
use rdma_mummy_sys as ffi;

use super::cm_id_setup::{RdmaCmIdSetup, RdmaCmRouteResolved};
use super::completions::{CompletionQueue, VerbsCompletion};
use super::context::ProtectionDomain;
use super::errno_conversion;
use super::exposed_buffer::{VerbsBufferAwaitingInvalidation, VerbsExposedBuffer, VerbsServerWrittenData};
use super::memory::{VerbsBuffer, VerbsSharedRegion};
use super::rdma_cm_events::{RdmaCmEvent, RdmaCmEventKind};
use super::window::VerbsBoundWindow;
use super::work_queues::{
    QueuePairDestructionProof, VerbsCompletionOutcome, VerbsQueueDepths, VerbsSendRequest, VerbsServerCompletionProof,
    VerbsWorkQueues,
};
use crate::rpcrdma_framing::offered_chunks::ContiguousChunkMemory;
use crate::transport_error::RpcClientTransportErrorKind;

/// Number of retransmissions of a Send before the connection is broken: the maximum of a 3-bit field.
const RETRIES: u8 = 7;
/// Number of retries of a Send while the server has no buffer posted; 7 means infinite, which would hide a server that
/// violates its own credits.
const RECEIVER_NOT_READY_RETRIES: u8 = 6;
/// The CM's rejection reason for an unknown service. InfiniBand Architecture Specification, volume 1, section 12.6.7.2.
const INVALID_SERVICE_ID: i32 = 8;
/// The CM's rejection reason for a server that declines the connection itself.
const CONSUMER_REJECT: i32 = 28;

/// State of a queue pair that is created and able to receive, but not connected.
pub(crate) struct QueuePairInitialized;
/// State of a queue pair whose connection is, or was, established.
pub(crate) struct ConnectedTypestate;

/// A queue pair of a reliable connection.
pub(crate) struct QueuePair<S> {
    queues: VerbsWorkQueues,
    state: S,
}

impl QueuePair<QueuePairInitialized> {
    /// Creates a queue pair on a route. Returns an error if the device or the completion queue has no capacity for it.
    pub(crate) fn new(
        id: RdmaCmIdSetup<RdmaCmRouteResolved>,
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        depth: VerbsQueueDepths,
    ) -> Result<Self, RpcClientTransportErrorKind> {
        let queues = VerbsWorkQueues::new(id.into_identifier(), domain, completions, depth)?;
        Ok(Self { queues, state: QueuePairInitialized })
    }

    /// Connects, and returns the server's private data. On failure all posted buffers go to `free`. Returns an error if
    /// the server is not reached, or rejects the connection.
    pub(crate) fn connect(
        self,
        private_data: &[u8],
        deadline: Instant,
        free: &mut Vec<VerbsBuffer>,
    ) -> Result<(QueuePair<ConnectedTypestate>, Vec<u8>), RpcClientTransportErrorKind> {
        match self.connect_and_wait(private_data, deadline) {
            Ok(peer_data) => {
                let Self { queues, state: QueuePairInitialized } = self;
                Ok((QueuePair { queues, state: ConnectedTypestate }, peer_data))
            }
            Err(kind) => {
                self.destroy(free);
                Err(kind)
            }
        }
    }

    fn connect_and_wait(&self, private_data: &[u8], deadline: Instant) -> Result<Vec<u8>, RpcClientTransportErrorKind> {
        let limits = self.queues.domain.context.limits;
        let mut parameters = ffi::rdma_conn_param {
            private_data: private_data.as_ptr().cast(),
            private_data_len: u8::try_from(private_data.len()).unwrap_or(0),
            // Allows the server's RDMA Reads.
            responder_resources: limits.responder_resources,
            // This side never reads from the server: RFC 8166 section 3.4.
            initiator_depth: 0,
            flow_control: 1,
            retry_count: RETRIES,
            rnr_retry_count: RECEIVER_NOT_READY_RETRIES,
            srq: 0,
            qp_num: 0,
        };
        // SAFETY: the identifier has a queue pair, as the state shows; the private data has the given length, and is
        // read only in this call.
        let result = unsafe { ffi::rdma_connect(self.queues.identifier.pointer(), &raw mut parameters) };
        errno_conversion::check_last("rdma_connect", result)?;
        let event = self.queues.identifier.expect(RdmaCmEventKind::Established, deadline, connect_error)?;
        Ok(event.private_data)
    }
}

impl QueuePair<ConnectedTypestate> {
    pub(crate) fn free_send_entries(&self) -> usize {
        self.queues.free_send_entries()
    }

    /// Stages a message for the next [`flush`](Self::flush). Returns the buffer if the send queue is full.
    pub(crate) fn send(&mut self, buffer: VerbsBuffer, length: usize) -> Result<(), VerbsBuffer> {
        if self.free_send_entries() == 0 {
            return Err(buffer);
        }
        self.queues.stage(VerbsSendRequest::Send(buffer, length));
        Ok(())
    }

    /// Posts staged requests while the send queue has free entries, and returns `true` if it posted any. Only the last
    /// of a batch is signalled; its completion covers those before it. Returns an error if the device rejects a
    /// request; the queue pair is unusable then.
    pub(crate) fn flush(&mut self) -> Result<bool, RpcClientTransportErrorKind> {
        self.queues.flush()
    }

    /// Gives each chunk its own window from now on, so that the server may invalidate the handles.
    pub(crate) fn use_windows(&mut self) {
        self.queues.use_windows();
    }

    /// Returns `true` if each chunk has its own window.
    pub(crate) fn has_windows(&self) -> bool {
        self.queues.windows.is_some()
    }

    /// Takes windows for the chunks of a Call; none if chunks have no windows. Returns an error if the device cannot
    /// allocate them; then none are taken.
    pub(crate) fn take_windows(
        &mut self,
        count: usize,
        bound_windows: &mut Vec<VerbsBoundWindow>,
    ) -> Result<(), RpcClientTransportErrorKind> {
        self.queues.windows.as_mut().map_or(Ok(()), |windows| windows.take(count, bound_windows))
    }

    /// Exposes the first `length` bytes of a buffer to the server, through the window if there is one.
    pub(crate) fn expose(
        &mut self,
        buffer: VerbsBuffer,
        length: usize,
        window: Option<VerbsBoundWindow>,
    ) -> VerbsExposedBuffer {
        let window = match window {
            // A window of length 0 is not bound.
            Some(bound) if length == 0 => {
                self.release_window(bound);
                None
            }
            Some(bound) => {
                let target = buffer.part(length);
                self.queues.bind(&bound, target);
                Some(bound)
            }
            None => None,
        };
        VerbsExposedBuffer::new(buffer, length, window, self.queues.number, self.queues.completed_receives)
    }

    /// Returns the first `length` bytes that the server wrote, after a Reply (see [`VerbsExposedBuffer`]), unless
    /// `keeps_exposed` leaves them exposed. `copy_buffer` is storage for a copy, if one is necessary. A buffer whose
    /// window is still open stays in the queue pair until that is closed. Returns the exposed buffer and `copy_buffer`
    /// if `keeps_exposed` returned `true`, the fence does not cover the buffer, or another queue pair exposed it.
    pub(crate) fn take_written(
        &mut self,
        exposed: VerbsExposedBuffer,
        fence: &VerbsServerCompletionProof,
        length: usize,
        copy_buffer: Vec<u8>,
        keeps_exposed: impl FnOnce(&[u8]) -> bool,
    ) -> Result<VerbsServerWrittenData, (VerbsExposedBuffer, Vec<u8>)> {
        if !exposed.is_exposed_by(self.queues.number) {
            return Err((exposed, copy_buffer));
        }
        let (data, open) =
            exposed.take_written(fence, self.queues.windows.as_mut(), length, copy_buffer, keeps_exposed)?;
        open.into_iter().for_each(|open| self.invalidate(open));
        Ok(data)
    }

    /// Returns an exposed buffer after a Reply (see [`VerbsExposedBuffer`]); `None` if its window is still open, as the
    /// buffer stays in the queue pair until that is closed. Returns the exposed buffer if the fence does not cover it,
    /// or another queue pair exposed it.
    pub(crate) fn take_back(
        &mut self,
        exposed: VerbsExposedBuffer,
        fence: &VerbsServerCompletionProof,
    ) -> Result<Option<VerbsBuffer>, VerbsExposedBuffer> {
        if !exposed.is_exposed_by(self.queues.number) {
            return Err(exposed);
        }
        match exposed.take_back(fence, self.queues.windows.as_mut())? {
            Ok(buffer) => Ok(Some(buffer)),
            Err(open) => {
                self.invalidate(open);
                Ok(None)
            }
        }
    }

    /// Returns `true` if completions of the send queue may still return buffers: of Sends, and of invalidations of
    /// windows.
    pub(crate) fn is_sending(&self) -> bool {
        self.queues.is_sending()
    }

    /// Exposes shared memory to the server, through the window if there is one.
    pub(crate) fn expose_shared(
        &mut self,
        stored: &VerbsSharedRegion,
        at: usize,
        length: u32,
        window: Option<&VerbsBoundWindow>,
    ) -> Option<ContiguousChunkMemory> {
        let Some(bound) = window else { return stored.region(at, length) };
        let target = stored.part(at, length)?;
        let region = target.region(bound.handle);
        self.queues.bind(bound, target);
        Some(region)
    }

    /// Records that a received Send invalidated `handle`. Returns `true` if it was the handle of an open window.
    pub(crate) fn record_invalidation(&mut self, handle: Handle) -> bool {
        self.queues.windows.as_mut().is_some_and(|windows| windows.record_invalidation(handle))
    }

    /// Stages the invalidation of a window, before the next Send, and keeps its buffer until that completes.
    fn invalidate(&mut self, open: VerbsBufferAwaitingInvalidation) {
        self.queues.stage(VerbsSendRequest::Invalidate(open.handle, Some(open.buffer)));
    }

    /// Releases the window of shared memory, or one that was not used. If the server did not invalidate its handle,
    /// this side does so before the next Send.
    pub(crate) fn release_window(&mut self, bound: VerbsBoundWindow) {
        if let Some(handle) = self.queues.windows.as_mut().and_then(|windows| windows.release(bound)) {
            self.queues.stage(VerbsSendRequest::Invalidate(handle, None));
        }
    }

    /// Processes a completion of this queue pair; buffers of completed Sends go to `free`. Returns the completion if it
    /// belongs to another queue pair, or to no posted request.
    pub(crate) fn finish(
        &mut self,
        completion: VerbsCompletion,
        free: &mut Vec<VerbsBuffer>,
    ) -> Result<VerbsCompletionOutcome, VerbsCompletion> {
        self.queues.finish(completion, free)
    }

    /// Returns the next event of the connection manager, if any. Returns an error if the event channel fails.
    pub(crate) fn event(&self) -> Result<Option<RdmaCmEvent>, RpcClientTransportErrorKind> {
        self.queues.identifier.channel.next()
    }

    /// Returns the descriptor that becomes readable when there is an event.
    pub(crate) fn fd(&self) -> i32 {
        self.queues.identifier.channel.fd()
    }

    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.queues.identifier.local_address()
    }

    /// Disconnects. Posted Work Requests are flushed.
    pub(crate) fn disconnect(&self) {
        self.queues.disconnect();
    }
}

impl<S> QueuePair<S> {
    /// Destroys the queue pair, moves all posted buffers to `free`, and returns the proof that releases all that it
    /// exposed. If the device does not destroy the queue pair, nothing is returned: leaked memory is safer than memory
    /// that the device may still use.
    pub(crate) fn destroy(mut self, free: &mut Vec<VerbsBuffer>) -> Option<QueuePairDestructionProof> {
        self.queues.disconnect();
        self.queues.destroy_and_drain(free)
    }

    /// Returns the number that identifies it in completions.
    pub(crate) fn number(&self) -> u32 {
        self.queues.number
    }

    /// Posts receive buffers while the receive queue has free entries; the others stay in `buffers`. Returns an error
    /// if the device rejects a request; the queue pair is unusable then.
    pub(crate) fn receive(&mut self, buffers: &mut Vec<VerbsBuffer>) -> Result<(), RpcClientTransportErrorKind> {
        self.queues.receive(buffers)
    }
}

/// Returns the error for an event other than an established connection.
fn connect_error(event: &RdmaCmEvent) -> RpcClientTransportErrorKind {
    match (event.kind, event.status) {
        (RdmaCmEventKind::Rejected, INVALID_SERVICE_ID) => RpcClientTransportErrorKind::Refused,
        (RdmaCmEventKind::Rejected, CONSUMER_REJECT) => {
            RpcClientTransportErrorKind::Rejected("its NFS server rejects the connection".to_owned())
        }
        (RdmaCmEventKind::Rejected, status @ 1..) => {
            RpcClientTransportErrorKind::Rejected(format!("reason {status} of the CM"))
        }
        (RdmaCmEventKind::Disconnected, _) => RpcClientTransportErrorKind::Reset,
        (RdmaCmEventKind::DeviceRemoval, _) => RpcClientTransportErrorKind::NoDevice,
        (RdmaCmEventKind::Unreachable, _) => RpcClientTransportErrorKind::NoRoute,
        (_, status) => errno_conversion::from_returned_errno("connecting", status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: RdmaCmEventKind, status: i32) -> String {
        connect_error(&RdmaCmEvent { kind, status, private_data: Vec::new() }).to_string()
    }

    #[test]
    fn a_wrong_port_has_the_same_error_over_roce_and_iwarp() {
        let roce = event(RdmaCmEventKind::Rejected, 8);
        let iwarp = event(RdmaCmEventKind::ConnectError, -libc::ECONNREFUSED);
        assert_eq!(roce, iwarp);
        assert!(roce.starts_with("connection refused"), "{roce}");
    }

    #[test]
    fn a_rejection_has_its_reason() {
        assert!(event(RdmaCmEventKind::Rejected, 28).contains("its NFS server rejects the connection"));
        assert!(event(RdmaCmEventKind::Rejected, 3).contains("reason 3"));
        assert!(event(RdmaCmEventKind::Unreachable, -110).starts_with("no route"));
    }
}
