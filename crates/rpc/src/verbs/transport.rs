//! RPC-over-RDMA over verbs: the connections of one thread, their completions, and the memory that events borrow.
#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::{MsgType, Xid};
use nfsrdma_dissectors::rpcrdma::{RdmaProc, RpcRdma1Header, RpcRdmaError};
use nfsrdma_dissectors::xdr::Cursor;
use rustc_hash::FxHashMap;

use super::completions::{VerbsCompletion, VerbsWorkError};
use super::connection::{VerbsConnection, VerbsDisconnectCause, VerbsInFlightCall};
use super::exposed_buffer::VerbsServerWrittenData;
use super::memory::VerbsBuffer;
use super::per_server_resources::PerServerVerbsResources;
use super::rdma_cm_events::RdmaCmEventKind;
use super::wait;
use super::window::VerbsBoundWindow;
use super::work_queues::{VerbsCompletionOutcome, VerbsReceivedMessage};
use crate::client_transport_events::{
    DisconnectReason, ReceivedMessageDiscardReason, ReplyWriteChunkReceivedData, ReverseCall, RpcClientTransportEvent,
    TransportReply,
};
use crate::outgoing_call::{
    CallTag, OutgoingRpcCall, RegisteredPayloadMemoryId, RpcMessageWireForm, SubmittedCallForm,
};
use crate::params::{
    ConnectTarget, NegotiatedTransportParams, RpcClientConnectionCounters, RpcClientConnectionId, TransportCredits,
};
use crate::rpc_transport::RpcClientTransport;
use crate::rpcrdma_framing::incoming_message_classification::{IncomingMessage, receive};
use crate::rpcrdma_framing::offered_chunks::ReturnedChunkLengths;
use crate::transport_error::{
    PermanentSubmitRefusal, RpcClientTransportError, RpcClientTransportErrorKind, SubmitError,
};

/// Number of polls of the completion queues before sleeping, if another processor may fill them meanwhile.
const POLLS_BEFORE_SLEEP: usize = 64;
/// Number of attempts to connect from different local ports.
const CONNECT_TRIES: u16 = 8;
/// Interval between polls of the connection manager while Replies arrive.
const CM_INTERVAL: Duration = Duration::from_millis(1);

/// NFS/RDMA over InfiniBand, RoCE and iWARP.
pub struct VerbsTransport {
    pub(super) devices: Vec<PerServerVerbsResources>,
    pub(super) connections: Vec<VerbsConnection>,
    pub(super) by_queue: FxHashMap<u32, usize>,
    pub(super) stores: Vec<Arc<[u8]>>,
    /// Storage for the next header.
    pub(super) scratch: Vec<u8>,
    /// Buffers of the Call that is being built.
    pub(super) call_buffers: Vec<VerbsBuffer>,
    /// Windows of the Call that is being built.
    pub(super) windows: Vec<VerbsBoundWindow>,
    /// Completed Calls, whose allocations the next Calls reuse.
    pub(super) free_calls: Vec<VerbsInFlightCall>,
    completed_sends: Vec<VerbsBuffer>,
    event_buffers: VerbsLastEventMemory,
    /// A Reply that is reported after the credits that it granted.
    deferred_reply: Option<(usize, VerbsReceivedMessage)>,
    descriptors: Vec<libc::pollfd>,
    last_cm_poll: Option<Instant>,
    is_single_core: bool,
}

#[derive(Default)]
struct VerbsLastEventMemory {
    message: Option<(usize, VerbsReceivedMessage)>,
    call: Option<VerbsInFlightCall>,
    returned: ReturnedChunkLengths,
    writes: Vec<Option<VerbsServerWrittenData>>,
    reply: Option<VerbsServerWrittenData>,
    /// Storage for copies of results.
    copy_buffers: Vec<Vec<u8>>,
    lost: Vec<CallTag>,
}

/// An event of a connection before it borrows any memory.
enum OwnedVerbsTransportEvent {
    Reply { xid: Xid, tag: CallTag, form: RpcMessageWireForm },
    Error { xid: Xid, tag: CallTag, error: RpcRdmaError },
    Call { xid: Xid },
    Credits { granted: u32 },
    Discarded { xid: Option<Xid>, reason: ReceivedMessageDiscardReason },
    Disconnected { reason: DisconnectReason },
}

impl fmt::Debug for VerbsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsTransport").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Default for VerbsTransport {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            connections: Vec::new(),
            by_queue: FxHashMap::default(),
            stores: Vec::new(),
            scratch: Vec::new(),
            call_buffers: Vec::new(),
            windows: Vec::new(),
            free_calls: Vec::new(),
            completed_sends: Vec::new(),
            event_buffers: VerbsLastEventMemory::default(),
            deferred_reply: None,
            descriptors: Vec::new(),
            last_cm_poll: None,
            is_single_core: std::thread::available_parallelism().is_ok_and(|count| count.get() == 1),
        }
    }
}

impl VerbsTransport {
    /// Creates a transport without connections; opens nothing.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn connection(&self, id: RpcClientConnectionId) -> Option<&VerbsConnection> {
        self.connections.get(id.0 as usize)
    }

    /// Returns the memory that the last event borrowed.
    fn release_event_buffers(&mut self) {
        self.event_buffers.lost.clear();
        let Some((at, received)) = self.event_buffers.message.take() else { return };
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(shared) = self.devices.get_mut(connection.device) else { return };
        self.free_calls.extend(self.event_buffers.call.take());
        for data in self.event_buffers.writes.drain(..).flatten().chain(self.event_buffers.reply.take()) {
            let (buffer, copy) = data.into_parts();
            buffer.into_iter().for_each(|buffer| shared.release(buffer));
            self.event_buffers.copy_buffers.extend(copy);
        }
        if connection.queue.is_some() {
            connection.free_receive_buffers.push(received.buffer);
        } else {
            shared.release(received.buffer);
        }
    }

    /// Posts receive buffers again, and then all staged Sends.
    fn post(&mut self) {
        let mut is_posted = false;
        for connection in &mut self.connections {
            let Some(queue) = connection.queue.as_mut().filter(|_| connection.disconnect_cause.is_none()) else {
                continue;
            };
            match queue.receive(&mut connection.free_receive_buffers).and_then(|()| queue.flush()) {
                Ok(is_any) => is_posted |= is_any,
                Err(_) => connection.record_disconnect_cause(VerbsDisconnectCause::Reason(DisconnectReason::Device)),
            }
        }
        // A software device sends only when it gets the processor.
        if is_posted && self.is_single_core && self.devices.iter().all(|shared| shared.ready.is_empty()) {
            std::thread::yield_now();
        }
    }

    /// Returns the next event, with the index of its connection.
    fn next_event(&mut self) -> Result<Option<(usize, OwnedVerbsTransportEvent)>, RpcClientTransportError> {
        loop {
            if let Some((at, received)) = self.deferred_reply.take() {
                if let Some(connection) = self.connections.get_mut(at).filter(|connection| connection.is_closing()) {
                    connection.free_receive_buffers.push(received.buffer);
                    continue;
                }
                return Ok(Some((at, self.process_message(at, received, true))));
            }
            if let Some(completion) = self.devices.iter_mut().find_map(|shared| shared.ready.pop_front()) {
                if let Some(step) = self.process_completion(completion) {
                    return Ok(Some(step));
                }
                continue;
            }
            if self.poll_completions()? > 0 {
                continue;
            }
            if self.connections.iter().any(VerbsConnection::has_ended)
                || self.last_cm_poll.is_none_or(|at| at.elapsed() >= CM_INTERVAL)
            {
                self.poll_connection_manager();
            }
            return Ok(self.tear_down_ended());
        }
    }

    /// Polls the completion queues, and returns the number of new completions.
    fn poll_completions(&mut self) -> Result<usize, RpcClientTransportError> {
        let mut count = 0;
        for shared in &mut self.devices {
            let result = shared.completions.poll(&mut shared.batch, &mut shared.ready);
            count += result.map_err(|kind| RpcClientTransportError::at(&shared.context.name, None, kind))?;
        }
        Ok(count)
    }

    fn process_completion(&mut self, completion: VerbsCompletion) -> Option<(usize, OwnedVerbsTransportEvent)> {
        let at = *self.by_queue.get(&completion.id.queue)?;
        let connection = self.connections.get_mut(at)?;
        let result = connection.queue.as_mut()?.finish(completion, &mut self.completed_sends);
        let shared = self.devices.get_mut(connection.device)?;
        self.completed_sends.drain(..).for_each(|buffer| shared.release(buffer));
        match result {
            // No events are reported for a connection that this side closed.
            Ok(VerbsCompletionOutcome::Received(received)) if connection.is_closing() => {
                connection.free_receive_buffers.push(received.buffer);
                None
            }
            Ok(VerbsCompletionOutcome::Received(mut received)) => {
                let queue = connection.queue.as_mut()?;
                connection.counts.bytes_received += received.message().len() as u64;
                received.invalidated = received.invalidated.filter(|handle| queue.record_invalidation(*handle));
                connection.counts.invalidations += u64::from(received.invalidated.is_some());
                Some((at, self.process_message(at, received, false)))
            }
            Ok(VerbsCompletionOutcome::Failed(failure)) => {
                connection.record_disconnect_cause(match failure {
                    VerbsWorkError::Flushed => VerbsDisconnectCause::Flushed,
                    VerbsWorkError::Broken(reason) => VerbsDisconnectCause::Reason(reason),
                });
                None
            }
            Ok(VerbsCompletionOutcome::Sent) | Err(_) => None,
        }
    }

    /// Processes a message. `are_credits_reported`: the credits that it granted were reported before.
    fn process_message(
        &mut self,
        at: usize,
        received: VerbsReceivedMessage,
        are_credits_reported: bool,
    ) -> OwnedVerbsTransportEvent {
        let event = match self.classify_message(at, &received, are_credits_reported) {
            Ok(event @ OwnedVerbsTransportEvent::Credits { .. }) => {
                self.deferred_reply = Some((at, received));
                return event;
            }
            Ok(event) => event,
            Err((xid, reason)) => OwnedVerbsTransportEvent::Discarded { xid, reason },
        };
        if let Some(connection) = self.connections.get_mut(at) {
            let counts = &mut connection.counts;
            match event {
                OwnedVerbsTransportEvent::Reply { .. } => counts.replies += 1,
                OwnedVerbsTransportEvent::Error { .. } => counts.rdma_errors += 1,
                OwnedVerbsTransportEvent::Call { .. } => counts.reverse_calls += 1,
                OwnedVerbsTransportEvent::Discarded { .. } => counts.discarded += 1,
                OwnedVerbsTransportEvent::Credits { .. } | OwnedVerbsTransportEvent::Disconnected { .. } => {}
            }
        }
        self.event_buffers.message = Some((at, received));
        event
    }

    /// Returns the event of a message, or its XID and the reason to discard it. For new credits, it leaves the rest of
    /// the message unprocessed.
    fn classify_message(
        &mut self,
        at: usize,
        received: &VerbsReceivedMessage,
        are_credits_reported: bool,
    ) -> Result<OwnedVerbsTransportEvent, (Option<Xid>, ReceivedMessageDiscardReason)> {
        match receive(received.message())? {
            IncomingMessage::Reply(header, _) => {
                let (xid, granted) = (header.rdma_xid, header.rdma_credit);
                let discard = |reason| (Some(xid), reason);
                let returned = self.check_chunks(at, &header).map_err(discard)?;
                if !are_credits_reported && self.grant(at, granted) {
                    return Ok(OwnedVerbsTransportEvent::Credits { granted });
                }
                self.event_buffers.returned = returned;
                let is_nomsg = header.proc() == RdmaProc::RDMA_NOMSG;
                let form = if is_nomsg { RpcMessageWireForm::Nomsg } else { RpcMessageWireForm::Message };
                let tag = self.finish_call(at, xid, is_nomsg, received).map_err(discard)?;
                Ok(OwnedVerbsTransportEvent::Reply { xid, tag, form })
            }
            IncomingMessage::Error(xid, error) => {
                self.event_buffers.returned = ReturnedChunkLengths::default();
                let tag = self.finish_call(at, xid, false, received).map_err(|reason| (Some(xid), reason))?;
                Ok(OwnedVerbsTransportEvent::Error { xid, tag, error })
            }
            IncomingMessage::Call(header, _) => {
                let xid = header.rdma_xid;
                let connection = self.connections.get_mut(at);
                let result = connection.map_or(Err(ReceivedMessageDiscardReason::ReverseCall), |connection| {
                    connection.responder.take(xid)
                });
                result.map(|()| OwnedVerbsTransportEvent::Call { xid }).map_err(|reason| (Some(xid), reason))
            }
            IncomingMessage::CallWithChunks(xid) => {
                self.refuse_chunks(at, xid);
                Err((Some(xid), ReceivedMessageDiscardReason::ReverseCall))
            }
        }
    }

    /// Checks the chunks of a Reply against those of its Call.
    fn check_chunks(
        &self,
        at: usize,
        header: &RpcRdma1Header<'_>,
    ) -> Result<ReturnedChunkLengths, ReceivedMessageDiscardReason> {
        let connection = self.connections.get(at);
        let call = connection.and_then(|connection| connection.in_flight_calls.get(header.rdma_xid));
        let call = call.ok_or(ReceivedMessageDiscardReason::UnknownXid)?;
        let lists = header.chunk_lists().ok_or(ReceivedMessageDiscardReason::Header)?;
        call.chunks.check(lists, header.proc() == RdmaProc::RDMA_NOMSG)
    }

    /// Records granted credits. Returns `true` if their number changed.
    fn grant(&mut self, at: usize, granted: u32) -> bool {
        let Some(connection) = self.connections.get_mut(at) else { return false };
        let is_new = connection.credits.granted.replace(granted) != Some(granted);
        connection.counts.zero_grants += u64::from(is_new && granted == 0);
        is_new
    }

    /// Removes a Call from those in flight, takes over its results, and releases the memory that the server only read.
    fn finish_call(
        &mut self,
        at: usize,
        xid: Xid,
        is_nomsg: bool,
        received: &VerbsReceivedMessage,
    ) -> Result<CallTag, ReceivedMessageDiscardReason> {
        let unknown = ReceivedMessageDiscardReason::UnknownXid;
        let connection = self.connections.get_mut(at).ok_or(unknown)?;
        let shared = self.devices.get_mut(connection.device).ok_or(unknown)?;
        let queue = connection.queue.as_mut().ok_or(unknown)?;
        let (tag, mut call) = connection.in_flight_calls.take(xid).ok_or(unknown)?;
        let fence = &received.fence;
        let length = self.event_buffers.returned.reply as usize;
        let mut reply_check = if is_nomsg { Err(ReceivedMessageDiscardReason::Short) } else { Ok(()) };
        let mut keeps_exposed = |chunk: &[u8]| {
            if is_nomsg {
                reply_check = check_reply(chunk.get(..length).unwrap_or_default(), xid);
            }
            reply_check.is_err()
        };
        if let Some(chunk) = call.reply.take() {
            // The content of an unused Reply chunk is irrelevant.
            let (length, copy_buffer) =
                (if is_nomsg { length } else { 0 }, self.event_buffers.copy_buffers.pop().unwrap_or_default());
            match queue.take_written(chunk, fence, length, copy_buffer, &mut keeps_exposed) {
                Ok(data) => self.event_buffers.reply = Some(data),
                Err((chunk, copy_buffer)) => {
                    call.reply = Some(chunk);
                    self.event_buffers.copy_buffers.push(copy_buffer);
                }
            }
        }
        if let Err(reason) = reply_check {
            // The Call stays in flight, and its Write chunks stay exposed.
            return connection.in_flight_calls.add(xid, tag, call).map_or(Err(reason), |()| Err(reason));
        }
        call.windows.drain(..).for_each(|window| queue.release_window(window));
        let buffers = call.read_buffers.drain(..).filter_map(|exposed| queue.take_back(exposed, fence).ok().flatten());
        buffers.for_each(|buffer| shared.release(buffer));
        for (index, chunk) in call.write_buffers.drain(..).enumerate() {
            let length = self.event_buffers.returned.writes.get(index).copied().unwrap_or(0) as usize;
            let copy_buffers = &mut self.event_buffers.copy_buffers;
            let mut take_copy_buffer = || copy_buffers.pop().unwrap_or_default();
            let data =
                chunk.and_then(|chunk| queue.take_written(chunk, fence, length, take_copy_buffer(), |_| false).ok());
            self.event_buffers.writes.push(data);
        }
        self.event_buffers.call = Some(call);
        connection.credits.in_flight = connection.credits.in_flight.saturating_sub(1);
        Ok(tag)
    }

    /// Processes the connection manager's events of each connection.
    fn poll_connection_manager(&mut self) {
        self.last_cm_poll = Some(Instant::now());
        for connection in &mut self.connections {
            let Some(queue) = &connection.queue else { continue };
            let reason = match queue.event() {
                Ok(None) => continue,
                Ok(Some(event)) => match event.kind {
                    RdmaCmEventKind::Disconnected => DisconnectReason::Closed,
                    RdmaCmEventKind::DeviceRemoval => DisconnectReason::Device,
                    _ => continue,
                },
                Err(_) => DisconnectReason::Device,
            };
            connection.record_disconnect_cause(VerbsDisconnectCause::Reason(reason));
        }
    }

    /// Tears down a connection that has ended, after all its messages were reported.
    fn tear_down_ended(&mut self) -> Option<(usize, OwnedVerbsTransportEvent)> {
        let at = self.connections.iter().position(VerbsConnection::has_ended)?;
        let connection = self.connections.get_mut(at)?;
        let shared = self.devices.get_mut(connection.device)?;
        let queue = connection.queue.take()?;
        self.by_queue.remove(&queue.number());
        let mut free = std::mem::take(&mut connection.free_receive_buffers);
        let end = queue.destroy(&mut free);
        free.into_iter().for_each(|buffer| shared.release(buffer));
        let calls = connection.in_flight_calls.drain_lost(&mut self.event_buffers.lost);
        if let Some(end) = end {
            calls.into_iter().for_each(|call| call.into_pool(&end, shared));
        }
        connection.credits.in_flight = 0;
        let reason = match connection.disconnect_cause {
            Some(VerbsDisconnectCause::Reason(reason)) => reason,
            Some(VerbsDisconnectCause::Flushed) | None => DisconnectReason::Reset,
        };
        Some((at, OwnedVerbsTransportEvent::Disconnected { reason }))
    }

    /// Sleeps until something happens. Returns `false` if the deadline passes first.
    fn sleep(&mut self, deadline: Instant) -> Result<bool, RpcClientTransportError> {
        for _ in 0..if self.is_single_core { 0 } else { POLLS_BEFORE_SLEEP } {
            if self.poll_completions()? > 0 {
                return Ok(true);
            }
        }
        for shared in &self.devices {
            let result = shared.completions.arm();
            result.map_err(|kind| RpcClientTransportError::at(&shared.context.name, None, kind))?;
        }
        // Completions that came before the queues were armed are not signalled.
        if self.poll_completions()? > 0 {
            return Ok(true);
        }
        let mut descriptors = std::mem::take(&mut self.descriptors);
        descriptors.clear();
        descriptors.extend(self.devices.iter().map(|shared| wait::poll_entry(shared.completions.fd())));
        let queues = self.connections.iter().filter_map(|connection| connection.queue.as_ref());
        descriptors.extend(queues.map(|queue| wait::poll_entry(queue.fd())));
        let ready = wait::readable(&mut descriptors, deadline);
        let is_ready = |entry: &libc::pollfd| entry.revents != 0;
        let manager = descriptors.iter().skip(self.devices.len()).any(is_ready);
        for (shared, _) in self.devices.iter().zip(&descriptors).filter(|(_, entry)| is_ready(entry)) {
            shared.completions.consume_signal();
        }
        self.descriptors = descriptors;
        let ready = ready.map_err(|error| {
            RpcClientTransportError::at("", None, RpcClientTransportErrorKind::System("waiting for completions", error))
        })?;
        if manager {
            self.poll_connection_manager();
        } else {
            // Its descriptors were polled with the others.
            self.last_cm_poll = Some(Instant::now());
        }
        Ok(ready)
    }

    /// Returns the event with the memory that it borrows.
    fn event(&self, at: usize, event: OwnedVerbsTransportEvent) -> Option<RpcClientTransportEvent<'_>> {
        let connection = RpcClientConnectionId(u32::try_from(at).unwrap_or(u32::MAX));
        let message = self.event_buffers.message.as_ref().map(|(_, received)| received);
        let bytes = message.map(VerbsReceivedMessage::message).unwrap_or_default();
        let mut cursor = Cursor::new(bytes);
        Some(match event {
            OwnedVerbsTransportEvent::Reply { xid, tag, form } => {
                let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).ok()?;
                let returned = &self.event_buffers.returned;
                let message = match (form, &self.event_buffers.reply) {
                    (RpcMessageWireForm::Nomsg, Some(chunk)) => chunk.get(..returned.reply as usize)?,
                    _ => cursor.rest(),
                };
                let contents = self.event_buffers.writes.iter().zip(&returned.writes);
                let contents = contents.map(|(buffer, length)| {
                    buffer.as_deref().and_then(|bytes| bytes.get(..*length as usize)).unwrap_or_default()
                });
                RpcClientTransportEvent::Reply(TransportReply {
                    connection,
                    xid,
                    tag,
                    message,
                    payloads: ReplyWriteChunkReceivedData::from_iter(contents),
                    form,
                    header: Some(header),
                    invalidated: self.event_buffers.message.as_ref()?.1.invalidated,
                })
            }
            OwnedVerbsTransportEvent::Error { xid, tag, error } => {
                RpcClientTransportEvent::RdmaError { connection, xid, tag, error }
            }
            OwnedVerbsTransportEvent::Call { xid } => {
                RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).ok()?;
                RpcClientTransportEvent::Call(ReverseCall { connection, xid, message: cursor.rest() })
            }
            OwnedVerbsTransportEvent::Credits { granted } => RpcClientTransportEvent::Credits { connection, granted },
            OwnedVerbsTransportEvent::Discarded { xid, reason } => {
                RpcClientTransportEvent::Discarded { connection, xid, reason }
            }
            OwnedVerbsTransportEvent::Disconnected { reason } => {
                RpcClientTransportEvent::Disconnected { connection, reason, lost_calls: &self.event_buffers.lost }
            }
        })
    }
}

/// Checks that the message in a Reply chunk is the Reply that its header announces. RFC 8166 section 4.5.2.
fn check_reply(message: &[u8], xid: Xid) -> Result<(), ReceivedMessageDiscardReason> {
    let mut words = Cursor::new(message);
    match (words.word(), words.word().map(MsgType)) {
        (Ok(first), Ok(MsgType::REPLY)) if Xid(first) == xid => Ok(()),
        (Ok(first), Ok(_)) if Xid(first) != xid => Err(ReceivedMessageDiscardReason::Xid),
        (Ok(_), Ok(_)) => Err(ReceivedMessageDiscardReason::Header),
        _ => Err(ReceivedMessageDiscardReason::Short),
    }
}

impl RpcClientTransport for VerbsTransport {
    fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        // A port that rdma_cm binds as free may be in use by TCP, below iWARP: that fails only on connecting.
        let mut result = self.try_connect(target, 0);
        for skip in 1..CONNECT_TRIES {
            match &result {
                Err(RpcClientTransportErrorKind::System(_, error)) if error.kind() == io::ErrorKind::AddrInUse => {
                    result = self.try_connect(target, skip);
                }
                _ => break,
            }
        }
        result.map_err(|kind| {
            // In whichever step the deadline passed, the reported timeout is that of all of them.
            let kind = match kind {
                RpcClientTransportErrorKind::Timeout(_) => RpcClientTransportErrorKind::Timeout(target.options.timeout),
                other => other,
            };
            RpcClientTransportError::at(&target.name, Some(target.address), kind)
        })
    }

    fn params(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams> {
        self.connection(connection).map(|connection| &connection.terms)
    }

    fn credits(&self, connection: RpcClientConnectionId) -> Option<TransportCredits> {
        let connection = self.connection(connection)?;
        connection.queue.is_some().then_some(connection.credits)
    }

    fn counts(&self, connection: RpcClientConnectionId) -> Option<&RpcClientConnectionCounters> {
        self.connection(connection).map(|connection| &connection.counts)
    }

    fn share(&mut self, memory: &Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcClientTransportError> {
        for at in 0..self.devices.len() {
            let Some(shared) = self.devices.get_mut(at) else { continue };
            if let Err(kind) = shared.share(memory) {
                let error = RpcClientTransportError::at(&shared.context.name, None, kind);
                // Shared memory has the same number on all devices.
                self.devices.iter_mut().take(at).for_each(PerServerVerbsResources::unshare);
                return Err(error);
            }
        }
        self.stores.push(Arc::clone(memory));
        Ok(RegisteredPayloadMemoryId(u32::try_from(self.stores.len() - 1).unwrap_or(u32::MAX)))
    }

    fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        self.submit_call(connection, call)
    }

    fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        self.submit_answer(connection, xid, message)
    }

    fn flush(&mut self) {
        self.release_event_buffers();
        self.post();
    }

    fn poll(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError> {
        self.release_event_buffers();
        self.post();
        let mut may_yield = self.is_single_core;
        let (at, event) = loop {
            if let Some(event) = self.next_event()? {
                break event;
            }
            match deadline {
                Some(deadline) if self.sleep(deadline)? => {}
                // A caller that only polls has other work, which keeps a software device from receiving.
                None if std::mem::take(&mut may_yield) => std::thread::yield_now(),
                _ => return Ok(None),
            }
        };
        Ok(self.event(at, event))
    }

    fn disconnect(&mut self, connection: RpcClientConnectionId) {
        if let Some(connection) = self.connections.get_mut(connection.0 as usize)
            && let Some(queue) = &connection.queue
        {
            queue.disconnect();
            connection.disconnect_cause = Some(VerbsDisconnectCause::Reason(DisconnectReason::LocalClose));
        }
    }
}

/// The error for a connection that is closed, or never existed.
pub(super) const CLOSED: SubmitError = SubmitError::Refused(PermanentSubmitRefusal::Closed);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::ConnectOptions;
    use crate::transport_error::TransportErrorResponsibility;

    fn target() -> ConnectTarget {
        let wish = ConnectOptions { timeout: Duration::from_millis(200), ..ConnectOptions::default() };
        ConnectTarget { address: "192.0.2.1:20049".parse().unwrap(), name: "nas".to_owned(), options: wish }
    }

    /// 192.0.2.1 is unassigned (RFC 5737), so that this fails both with and without libraries and devices.
    #[test]
    fn a_failure_to_connect_is_reported_in_one_line() {
        let mut transport = VerbsTransport::new();
        let error = transport.connect(&target()).unwrap_err();
        let line = error.to_string();
        assert!(line.starts_with("nas (192.0.2.1:20049): ") && !line.contains('\n'), "{line}");
        assert_eq!(error.blame(), TransportErrorResponsibility::Unreachable);
    }

    #[test]
    fn an_unknown_connection_is_reported_as_closed() {
        let mut transport = VerbsTransport::new();
        let call = OutgoingRpcCall::without_payloads(Xid(0), CallTag(0), &[0; 4], 0);
        assert_eq!(transport.submit(RpcClientConnectionId(0), &call), Err(CLOSED));
        assert_eq!(transport.answer(RpcClientConnectionId(0), Xid(0), &[0; 4]), Err(CLOSED));
        assert!(transport.poll(None).unwrap().is_none());
        assert_eq!(
            (transport.params(RpcClientConnectionId(0)), transport.credits(RpcClientConnectionId(0))),
            (None, None)
        );
    }

    #[test]
    fn rfc8166_section_4_5_2_the_message_in_a_reply_chunk_is_that_of_its_header() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        assert_eq!(check_reply(&words(&[7, 1, 0]), Xid(7)), Ok(()));
        assert_eq!(check_reply(&words(&[8, 1, 0]), Xid(7)), Err(ReceivedMessageDiscardReason::Xid));
        assert_eq!(check_reply(&words(&[7, 0, 2]), Xid(7)), Err(ReceivedMessageDiscardReason::Header));
        assert_eq!(check_reply(&words(&[7]), Xid(7)), Err(ReceivedMessageDiscardReason::Short));
    }
}
