//! TCP: RPC records over any number of non-blocking streams. RFC 5531 section 11.
//!
//! No message is reduced: payloads are sent in the record, at their positions. There are no credits; the send queue is
//! limited. Callbacks of NFSv4.1 arrive on the same stream (RFC 8881 section 2.10.3.1); those of NFSv4.0 on streams
//! that the server opens ([`callback_listener`]).

pub mod callback_listener;
mod connect;
mod record_reader;
mod send_queue;

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rpc::record_marking::RecordMark;
use nfsrdma_dissectors::rpc::{MsgType, Xid};
use nfsrdma_dissectors::xdr::Cursor;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::client_transport_events::{
    DisconnectReason, NonRpcServerProtocol, ReceivedMessageDiscardReason, ReplyWriteChunkReceivedData, ReverseCall,
    RpcClientTransportEvent, TransportReply,
};
use crate::outgoing_call::{
    CallTag, OutgoingRpcCall, PayloadContentLocation, RegisteredPayloadMemoryId, RpcMessageWireForm, SubmittedCallForm,
};
use crate::params::{
    ConnectTarget, NegotiatedTransportParams, RpcClientConnectionCounters, RpcClientConnectionId, TransportCredits,
};
use crate::rpc_transport::RpcClientTransport;
use crate::rpcrdma_framing::chunk_plan::check_call;
use crate::rpcrdma_framing::in_flight::InFlightCalls;
use crate::transport_error::{
    PermanentSubmitRefusal, RpcClientTransportError, RpcClientTransportErrorKind, SubmitBusyReason, SubmitError,
};
use record_reader::{TcpRecordReader, TcpRecordStatus};
use send_queue::TcpSendQueue;

/// Maximum number of reverse-direction Calls that wait for an answer on one connection.
const REVERSE_CALLS: usize = 1024;
/// Maximum number of Calls in flight on one connection.
const CALLS: usize = 1 << 16;

/// The TCP transport with its connections.
#[derive(Debug, Default)]
pub struct TcpTransport {
    connections: Vec<TcpTransportConnection>,
    stores: Vec<Arc<[u8]>>,
    /// Index at which the search for the next event continues, so that no connection starves another.
    next_connection: usize,
    lost: Vec<CallTag>,
}

#[derive(Debug)]
struct TcpTransportConnection {
    /// `None` after the end was reported.
    stream: Option<TcpStream>,
    /// The reason of the end, until it is reported.
    disconnect_reason: Option<DisconnectReason>,
    terms: NegotiatedTransportParams,
    counts: RpcClientConnectionCounters,
    flight: InFlightCalls<()>,
    pending_reverse_calls: Vec<Xid>,
    inbox: TcpRecordReader,
    outbox: TcpSendQueue,
}

/// An event of a connection that is found, but not yet borrowed.
enum TcpRpcClientEvent {
    Reply(Xid, CallTag),
    Call(Xid),
    Discarded(Option<Xid>, ReceivedMessageDiscardReason),
    End(DisconnectReason),
}

impl TcpTransport {
    /// Creates a transport without connections.
    pub fn new() -> Self {
        Self::default()
    }

    fn link(&self, connection: RpcClientConnectionId) -> Option<&TcpTransportConnection> {
        self.connections.get(connection.0 as usize)
    }

    /// Returns the next event that needs no further bytes, with the index of its connection.
    fn find(&mut self) -> Option<(usize, TcpRpcClientEvent)> {
        let count = self.connections.len();
        let found = (0..count).find_map(|step| {
            let index = (self.next_connection + step) % count;
            Some((index, self.connections.get_mut(index)?.find()?))
        })?;
        self.next_connection = found.0;
        Some(found)
    }

    /// Reads from the streams. Returns `true` if there was data or an end.
    fn receive(&mut self) -> bool {
        self.next_connection = self.next_connection.wrapping_add(1);
        self.connections.iter_mut().fold(false, |is_any, link| link.receive() | is_any)
    }

    /// Waits until a stream is readable, or writable if data is queued for it. Returns `false` if the deadline has
    /// passed.
    fn wait(&self, deadline: Option<Instant>) -> Result<bool, RpcClientTransportError> {
        let Some(remaining) = deadline.and_then(|deadline| deadline.checked_duration_since(Instant::now())) else {
            return Ok(false);
        };
        let mut poll_fds: Vec<_> = self
            .connections
            .iter()
            .filter_map(|link| {
                let out = if link.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                link.stream.as_ref().map(|stream| PollFd::new(stream, PollFlags::IN | out))
            })
            .collect();
        let timeout = Timespec::try_from(remaining).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match rustix::event::poll(&mut poll_fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => {
                let kind = RpcClientTransportErrorKind::System("cannot wait for the connections", error.into());
                Err(RpcClientTransportError::at("", None, kind))
            }
        }
    }

    fn take_event(&mut self, index: usize, event: TcpRpcClientEvent) -> Option<RpcClientTransportEvent<'_>> {
        let connection = RpcClientConnectionId(u32::try_from(index).unwrap_or(u32::MAX));
        let link = self.connections.get_mut(index)?;
        Some(match event {
            TcpRpcClientEvent::Reply(xid, tag) => {
                link.counts.replies += 1;
                RpcClientTransportEvent::Reply(TransportReply {
                    connection,
                    xid,
                    tag,
                    message: link.inbox.record(),
                    payloads: ReplyWriteChunkReceivedData::None,
                    form: RpcMessageWireForm::Record,
                    header: None,
                    invalidated: None,
                })
            }
            TcpRpcClientEvent::Call(xid) => {
                link.counts.reverse_calls += 1;
                RpcClientTransportEvent::Call(ReverseCall { connection, xid, message: link.inbox.record() })
            }
            TcpRpcClientEvent::Discarded(xid, reason) => {
                link.counts.discarded += 1;
                RpcClientTransportEvent::Discarded { connection, xid, reason }
            }
            TcpRpcClientEvent::End(reason) => {
                link.stream = None;
                link.inbox = TcpRecordReader::default();
                link.outbox = TcpSendQueue::default();
                link.flight.drain_lost(&mut self.lost);
                RpcClientTransportEvent::Disconnected { connection, reason, lost_calls: &self.lost }
            }
        })
    }
}

/// Returns a connection on which Calls can be sent.
fn open_link(
    connections: &mut [TcpTransportConnection],
    connection: RpcClientConnectionId,
) -> Result<&mut TcpTransportConnection, SubmitError> {
    let link = connections.get_mut(connection.0 as usize);
    link.filter(|link| link.stream.is_some() && link.disconnect_reason.is_none())
        .ok_or(SubmitError::Refused(PermanentSubmitRefusal::Closed))
}

impl TcpTransportConnection {
    /// Returns the next record, classified, or the end after all records were reported.
    fn find(&mut self) -> Option<TcpRpcClientEvent> {
        self.stream.as_ref()?;
        if self.disconnect_reason != Some(DisconnectReason::LocalClose) {
            match self.inbox.next() {
                TcpRecordStatus::Record => return Some(self.classify_record()),
                TcpRecordStatus::More => {}
                TcpRecordStatus::TooLong => {
                    let foreign = NonRpcServerProtocol::detect(self.inbox.unread());
                    let length = RecordMark::from_bytes(self.inbox.unread()).map_or(0, |mark| mark.length);
                    self.disconnect_reason =
                        Some(foreign.map_or(DisconnectReason::Record(length), DisconnectReason::NonRpcProtocol));
                }
            }
        }
        self.disconnect_reason.take().map(TcpRpcClientEvent::End)
    }

    fn classify_record(&mut self) -> TcpRpcClientEvent {
        let mut words = Cursor::new(self.inbox.record());
        let (Ok(xid), Ok(direction)) = (words.word(), words.word()) else {
            return TcpRpcClientEvent::Discarded(None, ReceivedMessageDiscardReason::Short);
        };
        let xid = Xid(xid);
        let discard = |reason| TcpRpcClientEvent::Discarded(Some(xid), reason);
        match MsgType(direction) {
            MsgType::REPLY => match self.flight.take(xid) {
                Some((tag, ())) => TcpRpcClientEvent::Reply(xid, tag),
                None => discard(ReceivedMessageDiscardReason::UnknownXid),
            },
            MsgType::CALL if self.pending_reverse_calls.len() < REVERSE_CALLS => {
                self.pending_reverse_calls.push(xid);
                TcpRpcClientEvent::Call(xid)
            }
            MsgType::CALL => discard(ReceivedMessageDiscardReason::ReverseCall),
            _ => discard(ReceivedMessageDiscardReason::Header),
        }
    }

    /// Reads the available bytes, up to the free buffer space. Returns `true` if there was data or an end.
    fn receive(&mut self) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| self.disconnect_reason.is_none()) else {
            return self.disconnect_reason.is_some();
        };
        match self.inbox.fill(stream) {
            Ok(0) => self.disconnect_reason = Some(DisconnectReason::Closed),
            Ok(count) => self.counts.bytes_received += count as u64,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return false,
                _ => self.disconnect_reason = Some(reason(&error)),
            },
        }
        true
    }

    /// Sends queued data, as far as the stream accepts it.
    fn send(&mut self, stores: &[Arc<[u8]>]) {
        let Some(stream) = self.stream.as_mut().filter(|_| self.disconnect_reason.is_none()) else { return };
        match self.outbox.send(stream, stores) {
            Ok(count) => self.counts.bytes_sent += count,
            // Data that the server sent before is still read: it may explain the error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.outbox.clear(),
            Err(error) => self.disconnect_reason = Some(reason(&error)),
        }
    }
}

fn reason(error: &io::Error) -> DisconnectReason {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            DisconnectReason::Unreachable
        }
        _ => DisconnectReason::Reset,
    }
}

impl RpcClientTransport for TcpTransport {
    fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        let (stream, terms) = connect::connect(target)?;
        let connection = RpcClientConnectionId(u32::try_from(self.connections.len()).unwrap_or(u32::MAX));
        self.connections.push(TcpTransportConnection {
            stream: Some(stream),
            disconnect_reason: None,
            terms,
            counts: RpcClientConnectionCounters::default(),
            flight: InFlightCalls::default(),
            pending_reverse_calls: Vec::new(),
            inbox: TcpRecordReader::default(),
            outbox: TcpSendQueue::default(),
        });
        Ok(connection)
    }

    fn params(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams> {
        self.link(connection).map(|link| &link.terms)
    }

    fn credits(&self, _: RpcClientConnectionId) -> Option<TransportCredits> {
        None
    }

    fn counts(&self, connection: RpcClientConnectionId) -> Option<&RpcClientConnectionCounters> {
        self.link(connection).map(|link| &link.counts)
    }

    fn share(&mut self, memory: &Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcClientTransportError> {
        let existing = self.stores.iter().position(|store| Arc::ptr_eq(store, memory));
        let index = existing.unwrap_or_else(|| {
            self.stores.push(Arc::clone(memory));
            self.stores.len() - 1
        });
        Ok(RegisteredPayloadMemoryId(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        let refusal = |reason| Err(SubmitError::Refused(reason));
        let link = open_link(&mut self.connections, connection)?;
        check_call(call).map_err(SubmitError::Refused)?;
        if link.flight.has(call.xid) {
            return refusal(PermanentSubmitRefusal::XidInFlight);
        }
        for payload in call.payloads {
            if let PayloadContentLocation::Shared { store, offset: at, length } = payload.source {
                let store = self.stores.get(store.0 as usize);
                if store.and_then(|store| store.get(at..at.checked_add(length as usize)?)).is_none() {
                    return refusal(PermanentSubmitRefusal::UnknownSharedMemory);
                }
            }
        }
        if link.flight.len() >= CALLS || link.outbox.is_full() {
            return Err(SubmitError::Busy(SubmitBusyReason::Queue));
        }
        let inline = link.outbox.put_call(call);
        link.flight.add(call.xid, call.tag, ()).map_err(SubmitError::Refused)?;
        link.counts.calls += 1;
        Ok(SubmittedCallForm { inline_bytes: inline, ..SubmittedCallForm::default() })
    }

    fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        let link = open_link(&mut self.connections, connection)?;
        let reply = OutgoingRpcCall::without_payloads(xid, CallTag(0), message, 0);
        check_call(&reply).map_err(SubmitError::Refused)?;
        let Some(index) = link.pending_reverse_calls.iter().position(|open| *open == xid) else {
            return Err(SubmitError::Refused(PermanentSubmitRefusal::NoCall));
        };
        if link.outbox.is_full() {
            return Err(SubmitError::Busy(SubmitBusyReason::Queue));
        }
        link.pending_reverse_calls.swap_remove(index);
        link.outbox.put_call(&reply);
        Ok(())
    }

    fn flush(&mut self) {
        for link in &mut self.connections {
            link.send(&self.stores);
        }
    }

    fn poll(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError> {
        let (index, event) = loop {
            self.flush();
            if let Some(event) = self.find() {
                break event;
            }
            // A server that sends bytes without a complete record cannot delay the caller past the deadline.
            let is_before_deadline = match self.receive() {
                true => deadline.is_some_and(|deadline| Instant::now() < deadline),
                false => self.wait(deadline)?,
            };
            if !is_before_deadline {
                match self.find() {
                    Some(event) => break event,
                    None => return Ok(None),
                }
            }
        };
        Ok(self.take_event(index, event))
    }

    fn disconnect(&mut self, connection: RpcClientConnectionId) {
        let Some(link) = self.connections.get_mut(connection.0 as usize) else { return };
        if let Some(stream) = &link.stream {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
            link.disconnect_reason = Some(DisconnectReason::LocalClose);
        }
    }
}

#[cfg(test)]
mod tests;
