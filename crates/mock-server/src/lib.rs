//! An NFS server in the test process, over simulated RDMA: Sends, chunks in memory with checked handles, credits, and
//! faults.
//!
//! It is for tests of transport users, and for measuring their cost: there is no network, no other thread and no clock.
//! The server runs inside [`poll`](RpcClientTransport::poll), and a missing event is known at once, so that a poll
//! never waits.

mod connection_settings;
mod responder;
pub mod server;
mod simulated_rdma_memory;
mod transport_faults;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nfsrdma_dissectors::rpc::{MsgType, Xid};
use nfsrdma_dissectors::rpcrdma::{ChunkLists, PrivateData, RdmaBody, RpcRdma1Header, VERSION};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};
use nfsrdma_rpc::rpcrdma_framing::{
    self, CallChunkPlan, ChunkRegions, ContiguousChunkMemory, InFlightCalls, IncomingMessage, OutgoingCallChunks,
};
use nfsrdma_rpc::{
    CallTag, ConnectTarget, DisconnectReason, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, OutgoingRpcCall,
    PayloadContentLocation, PermanentSubmitRefusal, ReceivedMessageDiscardReason, RegisteredPayloadMemoryId,
    ReplyWriteChunkReceivedData, ReverseCall, RpcClientConnectionCounters, RpcClientConnectionId, RpcClientTransport,
    RpcClientTransportError, RpcClientTransportEvent, RpcMessageWireForm, SubmitBusyReason, SubmitError,
    SubmittedCallForm, TransportCredits, TransportReply,
};
use rustc_hash::FxHashMap;

use responder::{MockCallOutcome, MockRpcRdmaResponder};
use server::mock_server::MockServer;
use simulated_rdma_memory::{MockMemoryAccess, MockRegisteredMemoryTable};

pub use connection_settings::MockConnectionSettings;
pub use transport_faults::MockTransportFault;

/// Connections to a server in the test process. Several transports, each in its own thread, may share the server.
#[derive(Debug)]
pub struct MockTransport {
    server: Arc<Mutex<MockServer>>,
    settings: MockConnectionSettings,
    device: MockRegisteredMemoryTable,
    links: Vec<MockConnection>,
    next_connection: usize,
    event_buffers: MockCurrentEventStorage,
    /// Faults by the number of the Call.
    faults: FxHashMap<u64, MockTransportFault>,
    /// Number of Calls that the server processed.
    served: u64,
    lost: Vec<CallTag>,
    spare_sends: Vec<Vec<u8>>,
    free_calls: Vec<MockInFlightCallChunkMemory>,
}

/// The memory that the last event borrows.
#[derive(Debug, Default)]
struct MockCurrentEventStorage {
    link: usize,
    /// The received Send, until its event is released.
    send: Option<Vec<u8>>,
    /// `true` if the change of credits in the Send was reported, but not the Send itself.
    is_send_pending: bool,
    call: Option<MockInFlightCallChunkMemory>,
}

#[derive(Debug)]
struct MockConnection {
    terms: NegotiatedTransportParams,
    rdma: NegotiatedRpcRdmaParameters,
    credits: TransportCredits,
    counts: RpcClientConnectionCounters,
    reverse_credits: u32,
    flight: InFlightCalls<MockInFlightCallChunkMemory>,
    /// XIDs of the server's Calls that wait for an answer.
    pending_reverse_calls: Vec<Xid>,
    answers: Vec<Vec<u8>>,
    responder: MockRpcRdmaResponder,
    to_server: VecDeque<Vec<u8>>,
    from_server: VecDeque<Vec<u8>>,
    late: Option<Vec<u8>>,
    disconnect_reason: Option<DisconnectReason>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct MockInFlightCallChunkMemory {
    offered: OutgoingCallChunks,
    reads: Vec<ContiguousChunkMemory>,
    writes: Vec<ContiguousChunkMemory>,
    call: Option<ContiguousChunkMemory>,
    reply: Option<ContiguousChunkMemory>,
}

impl MockTransport {
    /// Creates a transport with its own server.
    pub fn new(settings: MockConnectionSettings) -> Self {
        Self::for_server(Arc::new(Mutex::new(MockServer::default())), settings)
    }

    /// Creates a transport to a shared server.
    pub fn for_server(server: Arc<Mutex<MockServer>>, settings: MockConnectionSettings) -> Self {
        Self {
            server,
            settings,
            device: MockRegisteredMemoryTable::default(),
            links: Vec::new(),
            next_connection: 0,
            event_buffers: MockCurrentEventStorage::default(),
            faults: FxHashMap::default(),
            served: 0,
            lost: Vec::new(),
            spare_sends: Vec::new(),
            free_calls: Vec::new(),
        }
    }

    /// Returns the server.
    pub fn server(&self) -> &Arc<Mutex<MockServer>> {
        &self.server
    }

    /// Injects a fault into a later Call: `after` is the number of Calls that the server processes before it.
    pub fn inject(&mut self, after: u64, fault: MockTransportFault) {
        self.faults.insert(self.served + after, fault);
    }

    /// Makes the server send this Call, which begins with its XID.
    pub fn call_back(&mut self, connection: RpcClientConnectionId, message: &[u8]) {
        let rdma_xid = Xid(Cursor::new(message).word().unwrap_or_default());
        let lists = ChunkLists { rdma_reads: Default::default(), rdma_writes: Default::default(), rdma_reply: None };
        let header = RpcRdma1Header { rdma_xid, rdma_vers: VERSION, rdma_credit: 1, rdma_body: RdmaBody::Msg(lists) };
        let mut encoder = Encoder::new();
        header.encode(&mut encoder);
        encoder.raw(message);
        self.send_from_server(connection, encoder.finish().0);
    }

    /// Makes the server send these bytes: a transport header and a message.
    pub fn send_from_server(&mut self, connection: RpcClientConnectionId, bytes: Vec<u8>) {
        if let Some(link) = self.links.get_mut(connection.0 as usize) {
            link.from_server.push_back(bytes);
        }
    }

    /// Removes and returns the answers that the server received, with their headers.
    pub fn answers(&mut self, connection: RpcClientConnectionId) -> Vec<Vec<u8>> {
        self.links.get_mut(connection.0 as usize).map(|link| std::mem::take(&mut link.answers)).unwrap_or_default()
    }

    /// Releases the memory that the last event borrowed.
    fn release_event_buffers(&mut self) {
        if let Some(send) = self.event_buffers.send.take() {
            self.spare_sends.push(send);
        }
        if let Some(memory) = self.event_buffers.call.take() {
            recycle(&mut self.device, &mut self.free_calls, memory);
        }
    }

    /// Returns the next connection with an event, lets its server process Calls if necessary, and stores the received
    /// Send.
    fn find(&mut self) -> Option<usize> {
        let count = self.links.len();
        for step in 0..count {
            let index = (self.next_connection + step) % count;
            loop {
                let link = self.links.get_mut(index)?;
                if link.is_closed {
                    break;
                }
                if link.disconnect_reason.is_some() {
                    return Some(index);
                }
                if let Some(send) = link.from_server.pop_front() {
                    link.counts.bytes_received += send.len() as u64;
                    self.event_buffers.link = index;
                    self.event_buffers.send = Some(send);
                    self.next_connection = index + 1;
                    return Some(index);
                }
                if !self.serve(index) {
                    break;
                }
            }
        }
        None
    }

    /// Lets the server process the next Call of a connection. Returns `false` if there is none.
    fn serve(&mut self, index: usize) -> bool {
        let Some(link) = self.links.get_mut(index) else { return false };
        let Some(call) = link.to_server.pop_front() else {
            // No later Reply can overtake the delayed one any more.
            return match link.late.take() {
                Some(delayed_reply) => {
                    link.from_server.push_back(delayed_reply);
                    true
                }
                None => false,
            };
        };
        let fault = if self.faults.is_empty() { None } else { self.faults.remove(&self.served) };
        self.served += 1;
        // The state of a server that panicked in another thread is still usable.
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.connection = index as u64;
        let fault = fault.or_else(|| MockRpcRdmaResponder::injected_fault(&call, &mut server));
        if let Some(MockTransportFault::Credits(grant)) = fault {
            link.responder.grant = grant;
        }
        match fault {
            Some(MockTransportFault::Restart | MockTransportFault::Forget) => server.restart(),
            Some(MockTransportFault::ForgetSessions) => server.forget_sessions(),
            Some(MockTransportFault::ForgetBindings) => server.forget_bindings(),
            _ => {}
        }
        if fault == Some(MockTransportFault::Restart) {
            drop(server);
            self.spare_sends.push(call);
            for link in self.links.iter_mut().filter(|link| !link.is_closed) {
                link.disconnect_reason = Some(DisconnectReason::Reset);
            }
            return true;
        }
        let mut send = self.spare_sends.pop().unwrap_or_default();
        let outcome = if fault == Some(MockTransportFault::BreakBefore) {
            MockCallOutcome::Broken
        } else {
            link.responder.respond(&call, &mut server, &mut self.device, fault, &mut send)
        };
        drop(server);
        self.spare_sends.push(call);
        match (outcome, fault) {
            (MockCallOutcome::Broken, Some(MockTransportFault::BreakBefore | MockTransportFault::BreakAfter)) => {
                link.disconnect_reason = Some(DisconnectReason::Reset)
            }
            (MockCallOutcome::Broken, _) => link.disconnect_reason = Some(DisconnectReason::RemoteAccess),
            (MockCallOutcome::Silent, _) | (_, Some(MockTransportFault::NoReply)) => self.spare_sends.push(send),
            (MockCallOutcome::Answered, Some(MockTransportFault::Late)) => link.late = Some(send),
            (MockCallOutcome::Answered, fault) => {
                if fault == Some(MockTransportFault::Twice) {
                    link.from_server.push_back(send.clone());
                }
                link.from_server.push_back(send);
                link.from_server.extend(link.late.take());
            }
        }
        true
    }
}

impl MockRegisteredMemoryTable {
    /// Checks that the message of a Long Reply begins as the Reply that its header announces.
    fn check_long_reply(
        &self,
        header: &RpcRdma1Header<'_>,
        memory: &MockInFlightCallChunkMemory,
        returned: rpcrdma_framing::ReturnedChunkLengths,
    ) -> Result<rpcrdma_framing::ReturnedChunkLengths, ReceivedMessageDiscardReason> {
        let Some(region) = memory.reply.filter(|_| matches!(header.rdma_body, RdmaBody::Nomsg(_))) else {
            return Ok(returned);
        };
        let mut cursor = Cursor::new(self.bytes(region.handle));
        match (cursor.word(), cursor.word()) {
            (Ok(xid), _) if Xid(xid) != header.rdma_xid => Err(ReceivedMessageDiscardReason::Xid),
            (Ok(_), Ok(direction)) if returned.reply >= 8 && MsgType(direction) == MsgType::REPLY => Ok(returned),
            _ => Err(ReceivedMessageDiscardReason::Short),
        }
    }
}

/// Releases the memory of a Call, and keeps its allocations for another Call.
fn recycle(
    device: &mut MockRegisteredMemoryTable,
    free_calls: &mut Vec<MockInFlightCallChunkMemory>,
    mut memory: MockInFlightCallChunkMemory,
) {
    let regions = memory.reads.iter().chain(&memory.writes).chain(&memory.call).chain(&memory.reply);
    regions.filter(|region| region.length > 0).for_each(|region| device.release(region.handle));
    memory.reads.clear();
    memory.writes.clear();
    (memory.call, memory.reply) = (None, None);
    free_calls.push(memory);
}

impl MockInFlightCallChunkMemory {
    /// Registers memory for the chunks of a plan. `None` if the limit is reached.
    fn expose(
        &mut self,
        call: &OutgoingRpcCall<'_>,
        plan: &CallChunkPlan,
        device: &mut MockRegisteredMemoryTable,
    ) -> Option<()> {
        for (_, payload) in call.payloads.iter().enumerate().filter(|(index, _)| plan.is_read(*index)) {
            let region = match payload.source {
                PayloadContentLocation::Copied(bytes) => {
                    let region = device.register(u32::try_from(bytes.len()).ok()?, MockMemoryAccess::Read)?;
                    device.bytes_mut(region.handle).copy_from_slice(bytes);
                    region
                }
                PayloadContentLocation::Shared { store, offset: at, length } => {
                    device.register_stored(store, at, length)?
                }
            };
            self.reads.push(region);
        }
        for index in (0..OutgoingRpcCall::MAX_PAYLOADS).filter(|index| plan.is_written(*index)) {
            let length = CallChunkPlan::write_length(call, index);
            let region = if length > 0 {
                device.register(length, MockMemoryAccess::Write)?
            } else {
                ContiguousChunkMemory::default()
            };
            self.writes.push(region);
        }
        if let Some(length) = plan.reply {
            self.reply = Some(device.register(length, MockMemoryAccess::Write)?);
        }
        if plan.is_long_call {
            let mut encoder = Encoder::new();
            put_message(call, plan, device, &mut encoder);
            let message = encoder.bytes();
            let region = device.register(u32::try_from(message.len()).ok()?, MockMemoryAccess::Read)?;
            device.bytes_mut(region.handle).copy_from_slice(message);
            self.call = Some(region);
        }
        Some(())
    }
}

/// Appends the message with its inline payloads.
fn put_message(
    call: &OutgoingRpcCall<'_>,
    plan: &CallChunkPlan,
    device: &MockRegisteredMemoryTable,
    encoder: &mut Encoder,
) {
    let (mut rest, mut end) = (call.message, 0);
    for (index, payload) in call.payloads.iter().enumerate() {
        let head_length = (payload.position as usize).saturating_sub(end).min(rest.len());
        let (head, tail) = rest.split_at(head_length);
        encoder.raw(head);
        if !plan.is_read(index) {
            match payload.source {
                PayloadContentLocation::Copied(bytes) => encoder.append_padded(bytes),
                PayloadContentLocation::Shared { store, offset: at, length } => {
                    encoder.append_padded(device.shared_bytes(store, at, length).unwrap_or_default());
                }
            }
        }
        end = payload.position as usize + payload.padded();
        rest = tail;
    }
    encoder.raw(rest);
}

impl MockTransport {
    /// Returns the event of a connection: its end, or the stored Send.
    fn take_event(&mut self, index: usize) -> Option<RpcClientTransportEvent<'_>> {
        let connection = RpcClientConnectionId(u32::try_from(index).unwrap_or(u32::MAX));
        let link = self.links.get_mut(index)?;
        let Some(send) = self.event_buffers.send.as_deref() else {
            let reason = link.disconnect_reason.take()?;
            link.is_closed = true;
            for memory in link.flight.drain_lost(&mut self.lost) {
                recycle(&mut self.device, &mut self.free_calls, memory);
            }
            return Some(RpcClientTransportEvent::Disconnected { connection, reason, lost_calls: &self.lost });
        };
        let incoming = rpcrdma_framing::receive(send).and_then(|incoming| match incoming {
            IncomingMessage::Reply(header, message) => match link.flight.get(header.rdma_xid) {
                Some(memory) => {
                    let is_nomsg = matches!(header.rdma_body, RdmaBody::Nomsg(_));
                    let returned = header.chunk_lists().ok_or(ReceivedMessageDiscardReason::Header);
                    let checked = returned.and_then(|lists| memory.offered.check(lists, is_nomsg));
                    match checked.and_then(|returned| self.device.check_long_reply(&header, memory, returned)) {
                        Ok(returned) => Ok((IncomingMessage::Reply(header, message), returned)),
                        Err(reason) => Err((Some(header.rdma_xid), reason)),
                    }
                }
                None => Err((Some(header.rdma_xid), ReceivedMessageDiscardReason::UnknownXid)),
            },
            IncomingMessage::Call(ref header, _)
                if link.pending_reverse_calls.len() >= link.reverse_credits as usize =>
            {
                Err((Some(header.rdma_xid), ReceivedMessageDiscardReason::ReverseCall))
            }
            IncomingMessage::CallWithChunks(xid) => {
                if link.pending_reverse_calls.len() < link.reverse_credits as usize {
                    let mut encoder = Encoder::new();
                    rpcrdma_framing::chunks_refused(xid, link.reverse_credits).encode(&mut encoder);
                    link.answers.push(encoder.finish().0);
                }
                Err((Some(xid), ReceivedMessageDiscardReason::ReverseCall))
            }
            IncomingMessage::Error(xid, _) if !link.flight.has(xid) => {
                Err((Some(xid), ReceivedMessageDiscardReason::UnknownXid))
            }
            other => Ok((other, rpcrdma_framing::ReturnedChunkLengths::default())),
        });
        let event = match incoming {
            Err((xid, reason)) => {
                link.counts.discarded += 1;
                RpcClientTransportEvent::Discarded { connection, xid, reason }
            }
            Ok((IncomingMessage::Reply(header, inline), returned)) => {
                let granted = header.rdma_credit;
                if link.credits.granted != Some(granted) {
                    link.credits.granted = Some(granted);
                    link.counts.zero_grants += u64::from(granted == 0);
                    self.event_buffers.is_send_pending = true;
                    return Some(RpcClientTransportEvent::Credits { connection, granted });
                }
                let xid = header.rdma_xid;
                let (tag, memory) = link.flight.take(xid)?;
                let memory = self.event_buffers.call.insert(memory);
                let device = &self.device;
                let chunk_bytes = |region: &ContiguousChunkMemory, length: u32| {
                    device.bytes(region.handle).get(..length as usize).unwrap_or_default()
                };
                let (message, form) = match memory.reply {
                    Some(region) if matches!(header.rdma_body, RdmaBody::Nomsg(_)) => {
                        (chunk_bytes(&region, returned.reply), RpcMessageWireForm::Nomsg)
                    }
                    _ => (inline, RpcMessageWireForm::Message),
                };
                link.credits.in_flight = link.credits.in_flight.saturating_sub(1);
                link.counts.replies += 1;
                let payloads =
                    memory.writes.iter().zip(returned.writes).map(|(region, length)| chunk_bytes(region, length));
                RpcClientTransportEvent::Reply(TransportReply {
                    connection,
                    xid,
                    tag,
                    message,
                    payloads: ReplyWriteChunkReceivedData::from_iter(payloads),
                    form,
                    header: Some(header),
                    invalidated: None,
                })
            }
            Ok((IncomingMessage::Error(xid, error), _)) => {
                let (tag, memory) = link.flight.take(xid)?;
                self.event_buffers.call = Some(memory);
                link.credits.in_flight = link.credits.in_flight.saturating_sub(1);
                link.counts.rdma_errors += 1;
                RpcClientTransportEvent::RdmaError { connection, xid, tag, error }
            }
            Ok((IncomingMessage::CallWithChunks(_), _)) => return None,
            Ok((IncomingMessage::Call(header, message), _)) => {
                link.counts.reverse_calls += 1;
                link.pending_reverse_calls.push(header.rdma_xid);
                RpcClientTransportEvent::Call(ReverseCall { connection, xid: header.rdma_xid, message })
            }
        };
        Some(event)
    }
}

impl RpcClientTransport for MockTransport {
    fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        let connection = RpcClientConnectionId(u32::try_from(self.links.len()).unwrap_or(u32::MAX));
        let options = &target.options;
        let sent = options.private_data.then(|| PrivateData { remote_invalidation: false, ..options.private_data() });
        let received = self.settings.private_data;
        let received_length = if received.is_some() { PrivateData::LENGTH } else { 0 };
        let rdma = NegotiatedRpcRdmaParameters {
            device: "loopback".into(),
            received_length,
            responder_resources: 16,
            ..NegotiatedRpcRdmaParameters::negotiate(sent, received)
        };
        let local = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let terms = NegotiatedTransportParams {
            kind: self.settings.kind,
            local,
            peer: target.address,
            rdma: Some(rdma.clone()),
        };
        self.links.push(MockConnection {
            terms,
            responder: MockRpcRdmaResponder::new(rdma.reply_inline, &self.settings),
            rdma,
            credits: TransportCredits::new(options.credits),
            counts: RpcClientConnectionCounters::default(),
            reverse_credits: options.reverse_credits,
            flight: InFlightCalls::default(),
            pending_reverse_calls: Vec::new(),
            answers: Vec::new(),
            to_server: VecDeque::new(),
            from_server: VecDeque::new(),
            late: None,
            disconnect_reason: None,
            is_closed: false,
        });
        Ok(connection)
    }

    fn params(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams> {
        self.links.get(connection.0 as usize).map(|link| &link.terms)
    }

    fn credits(&self, connection: RpcClientConnectionId) -> Option<TransportCredits> {
        self.links.get(connection.0 as usize).filter(|link| !link.is_closed).map(|link| link.credits)
    }

    fn counts(&self, connection: RpcClientConnectionId) -> Option<&RpcClientConnectionCounters> {
        self.links.get(connection.0 as usize).map(|link| &link.counts)
    }

    fn share(&mut self, memory: &Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcClientTransportError> {
        Ok(self.device.share(memory))
    }

    fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        let refusal = SubmitError::Refused;
        let link = self.links.get_mut(connection.0 as usize);
        let link = link
            .filter(|link| !link.is_closed && link.disconnect_reason.is_none())
            .ok_or(refusal(PermanentSubmitRefusal::Closed))?;
        if link.flight.has(call.xid) {
            return Err(refusal(PermanentSubmitRefusal::XidInFlight));
        }
        if link.credits.available() == 0 {
            link.counts.credit_waits += 1;
            return Err(SubmitError::Busy(SubmitBusyReason::Credits));
        }
        let plan = CallChunkPlan::for_call(call, &link.rdma).map_err(refusal)?;
        for payload in call.payloads {
            if let PayloadContentLocation::Shared { store, offset: at, length } = payload.source {
                self.device
                    .shared_bytes(store, at, length)
                    .ok_or(refusal(PermanentSubmitRefusal::UnknownSharedMemory))?;
            }
        }
        let mut memory = self.free_calls.pop().unwrap_or_default();
        if memory.expose(call, &plan, &mut self.device).is_none() {
            recycle(&mut self.device, &mut self.free_calls, memory);
            return Err(SubmitError::Busy(SubmitBusyReason::Memory));
        }
        let mut encoder = Encoder::reusing(self.spare_sends.pop().unwrap_or_default());
        let regions =
            ChunkRegions { call: memory.call, reads: &memory.reads, writes: &memory.writes, reply: memory.reply };
        memory.offered.write_header(call, &plan, link.credits.requested, &regions, &mut encoder);
        if !plan.is_long_call {
            put_message(call, &plan, &self.device, &mut encoder);
        }
        let send = encoder.finish().0;
        link.counts.bytes_sent += send.len() as u64;
        link.counts.calls += 1;
        link.credits.in_flight += 1;
        link.flight.add(call.xid, call.tag, memory).map_err(refusal)?;
        link.to_server.push_back(send);
        Ok(plan.submitted)
    }

    fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        let refusal = |reason| Err(SubmitError::Refused(reason));
        let Some(link) = self.links.get_mut(connection.0 as usize).filter(|link| !link.is_closed) else {
            return refusal(PermanentSubmitRefusal::Closed);
        };
        rpcrdma_framing::check_call(&OutgoingRpcCall::without_payloads(xid, CallTag(0), message, 0))
            .map_err(SubmitError::Refused)?;
        if rpcrdma_framing::SHORTEST_HEADER + message.len() > link.rdma.call_inline as usize {
            return refusal(PermanentSubmitRefusal::TooLong);
        }
        let Some(index) = link.pending_reverse_calls.iter().position(|open| *open == xid) else {
            return refusal(PermanentSubmitRefusal::NoCall);
        };
        link.pending_reverse_calls.swap_remove(index);
        let mut encoder = Encoder::new();
        rpcrdma_framing::answer_header(xid, link.reverse_credits).encode(&mut encoder);
        encoder.raw(message);
        link.answers.push(encoder.finish().0);
        Ok(())
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _: Option<Instant>) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError> {
        let index = if std::mem::take(&mut self.event_buffers.is_send_pending) {
            Some(self.event_buffers.link)
        } else {
            self.release_event_buffers();
            self.find()
        };
        Ok(index.and_then(|index| self.take_event(index)))
    }

    fn disconnect(&mut self, connection: RpcClientConnectionId) {
        if let Some(link) = self.links.get_mut(connection.0 as usize).filter(|link| !link.is_closed) {
            link.disconnect_reason = Some(DisconnectReason::LocalClose);
        }
    }
}

#[cfg(test)]
mod tests;
