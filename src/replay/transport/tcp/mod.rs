//! TCP: records of RPC over any number of non-blocking streams. RFC 5531 section 11.
//!
//! Nothing is reduced here: payloads travel in the record, at their positions. There are no credits; what waits to be
//! sent is bounded. Callbacks of NFSv4.1 come on the same stream (RFC 8881 section 2.10.3.1); those of NFSv4.0 on streams that the
//! server opens ([`listening`]).

mod connect;
mod inbox;
pub mod listening;
mod outbox;

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rpc::record::RecordMark;
use nfsrdma_dissectors::rpc::{MsgType, Xid};
use nfsrdma_dissectors::xdr::Cursor;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::framing::Flight;
use super::{
    Call, ConnectionId, Counts, Credits, Discard, Disconnect, Event, Foreign, Form, Payloads, Refusal, Reply,
    ReverseCall, Source, StoreId, SubmitError, Submitted, Tag, Target, Terms, Transport, TransportError,
    TransportErrorKind,
};
use inbox::{Inbox, Next};
use outbox::Outbox;

/// Calls of the reverse direction that may wait for their answers.
const REVERSE_CALLS: usize = 1024;
/// Calls in flight on one connection.
const CALLS: usize = 1 << 16;

/// Connections over TCP.
#[derive(Debug, Default)]
pub struct Tcp {
    links: Vec<Link>,
    stores: Vec<Arc<[u8]>>,
    /// Where the search for the next event goes on, so that no connection starves another.
    turn: usize,
    lost: Vec<Tag>,
}

#[derive(Debug)]
struct Link {
    /// `None` when the end was told.
    stream: Option<TcpStream>,
    /// Why it ended, until that is told.
    end: Option<Disconnect>,
    terms: Terms,
    counts: Counts,
    flight: Flight<()>,
    reverse: Vec<Xid>,
    inbox: Inbox,
    outbox: Outbox,
}

/// An event that was found but not lent yet.
enum Found {
    Reply(usize, Xid, Tag),
    Call(usize, Xid),
    Discarded(usize, Option<Xid>, Discard),
    End(usize, Disconnect),
}

impl Tcp {
    /// A transport without connections.
    pub fn new() -> Self {
        Self::default()
    }

    fn link(&self, connection: ConnectionId) -> Option<&Link> {
        self.links.get(connection.0 as usize)
    }

    /// The next event that needs no more bytes.
    fn find(&mut self) -> Option<Found> {
        let count = self.links.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if let Some(found) = self.links.get_mut(index).and_then(|link| link.find(index)) {
                self.turn = index;
                return Some(found);
            }
        }
        None
    }

    /// Takes what the streams have. Whether there was anything, an end included.
    fn receive(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        self.links.iter_mut().fold(false, |any, link| link.receive() | any)
    }

    /// Waits until a stream has something, or room for what waits to be sent. Whether time is left.
    fn wait(&self, deadline: Option<Instant>) -> Result<bool, TransportError> {
        let Some(left) = deadline.and_then(|deadline| deadline.checked_duration_since(Instant::now())) else {
            return Ok(false);
        };
        let mut waits: Vec<_> = self
            .links
            .iter()
            .filter_map(|link| {
                let out = if link.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                link.stream.as_ref().map(|stream| PollFd::new(stream, PollFlags::IN | out))
            })
            .collect();
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match rustix::event::poll(&mut waits, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => {
                let kind = TransportErrorKind::System("cannot wait for the connections", error.into());
                Err(TransportError::at("", None, kind))
            }
        }
    }

    fn lend(&mut self, found: Found) -> Option<Event<'_>> {
        let (Found::Reply(index, ..)
        | Found::Call(index, ..)
        | Found::Discarded(index, ..)
        | Found::End(index, _)) = found;
        let connection = ConnectionId(u32::try_from(index).unwrap_or(u32::MAX));
        let link = self.links.get_mut(index)?;
        Some(match found {
            Found::Reply(_, xid, tag) => {
                link.counts.replies += 1;
                Event::Reply(Reply {
                    connection,
                    xid,
                    tag,
                    message: link.inbox.record(),
                    payloads: Payloads::None,
                    form: Form::Record,
                    header: None,
                    invalidated: None,
                })
            }
            Found::Call(_, xid) => {
                link.counts.reverse_calls += 1;
                Event::Call(ReverseCall { connection, xid, message: link.inbox.record() })
            }
            Found::Discarded(_, xid, why) => {
                link.counts.discarded += 1;
                Event::Discarded { connection, xid, why }
            }
            Found::End(_, reason) => {
                link.stream = None;
                link.inbox = Inbox::default();
                link.outbox = Outbox::default();
                link.flight.lose(&mut self.lost);
                Event::Disconnected { connection, reason, lost: &self.lost }
            }
        })
    }
}

impl Link {
    fn is_open(&self) -> bool {
        self.stream.is_some() && self.end.is_none()
    }

    /// The next record sorted, or the end when all records were given out.
    fn find(&mut self, index: usize) -> Option<Found> {
        self.stream.as_ref()?;
        if self.end != Some(Disconnect::Asked) {
            match self.inbox.next() {
                Next::Record => return Some(self.sort(index)),
                Next::More => {}
                Next::Broken => {
                    let foreign = Foreign::of(self.inbox.unread());
                    let length = RecordMark::of(self.inbox.unread()).map_or(0, |mark| mark.length);
                    self.end = Some(foreign.map_or(Disconnect::Record(length), Disconnect::Speaks));
                }
            }
        }
        self.end.take().map(|reason| Found::End(index, reason))
    }

    /// What the record is.
    fn sort(&mut self, index: usize) -> Found {
        let mut words = Cursor::new(self.inbox.record());
        let (Ok(xid), Ok(direction)) = (words.word(), words.word()) else {
            return Found::Discarded(index, None, Discard::Short);
        };
        let xid = Xid(xid);
        let discard = |why| Found::Discarded(index, Some(xid), why);
        match MsgType(direction) {
            MsgType::REPLY => match self.flight.take(xid) {
                Some((tag, ())) => Found::Reply(index, xid, tag),
                None => discard(Discard::UnknownXid),
            },
            MsgType::CALL if self.reverse.len() < REVERSE_CALLS => {
                self.reverse.push(xid);
                Found::Call(index, xid)
            }
            MsgType::CALL => discard(Discard::ReverseCall),
            _ => discard(Discard::Header),
        }
    }

    /// Reads what there is, as far as there is room. Whether anything came, an end included.
    fn receive(&mut self) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| self.end.is_none()) else {
            return self.end.is_some();
        };
        match self.inbox.fill(stream) {
            Ok(0) => self.end = Some(Disconnect::Closed),
            Ok(count) => self.counts.bytes_received += count as u64,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return false,
                _ => self.end = Some(reason(&error)),
            },
        }
        true
    }

    /// Sends what waits, as far as the stream takes it.
    fn send(&mut self, stores: &[Arc<[u8]>]) {
        let Some(stream) = self.stream.as_mut().filter(|_| self.end.is_none()) else { return };
        match self.outbox.send(stream, stores) {
            Ok(count) => self.counts.bytes_sent += count,
            // What the server sent before is still read: it may tell why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.outbox.clear(),
            Err(error) => self.end = Some(reason(&error)),
        }
    }
}

/// Why a stream ended.
fn reason(error: &io::Error) -> Disconnect {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Disconnect::Unreachable
        }
        _ => Disconnect::Reset,
    }
}

impl Transport for Tcp {
    fn connect(&mut self, target: &Target) -> Result<ConnectionId, TransportError> {
        let (stream, terms) = connect::connect(target)?;
        let connection = ConnectionId(u32::try_from(self.links.len()).unwrap_or(u32::MAX));
        self.links.push(Link {
            stream: Some(stream),
            end: None,
            terms,
            counts: Counts::default(),
            flight: Flight::default(),
            reverse: Vec::new(),
            inbox: Inbox::default(),
            outbox: Outbox::default(),
        });
        Ok(connection)
    }

    fn terms(&self, connection: ConnectionId) -> Option<&Terms> {
        self.link(connection).map(|link| &link.terms)
    }

    fn credits(&self, _: ConnectionId) -> Option<Credits> {
        None
    }

    fn counts(&self, connection: ConnectionId) -> Option<&Counts> {
        self.link(connection).map(|link| &link.counts)
    }

    fn share(&mut self, memory: &Arc<[u8]>) -> Result<StoreId, TransportError> {
        let known = self.stores.iter().position(|store| Arc::ptr_eq(store, memory));
        let index = known.unwrap_or_else(|| {
            self.stores.push(Arc::clone(memory));
            self.stores.len() - 1
        });
        Ok(StoreId(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    fn submit(&mut self, connection: ConnectionId, call: &Call<'_>) -> Result<Submitted, SubmitError> {
        let refused = |why| Err(SubmitError::Refused(why));
        let Some(link) = self.links.get_mut(connection.0 as usize).filter(|link| link.is_open()) else {
            return refused(Refusal::Closed);
        };
        super::framing::check(call).map_err(SubmitError::Refused)?;
        if link.flight.has(call.xid) {
            return refused(Refusal::XidInFlight);
        }
        for payload in call.payloads {
            if let Source::Stored { store, at, length } = payload.source {
                let store = self.stores.get(store.0 as usize);
                if store.and_then(|store| store.get(at..at.checked_add(length as usize)?)).is_none() {
                    return refused(Refusal::Store);
                }
            }
        }
        if link.flight.len() >= CALLS || link.outbox.is_full() {
            return Err(SubmitError::Busy(super::Busy::Queue));
        }
        let inline = link.outbox.put_call(call);
        link.flight.add(call.xid, call.tag, ()).map_err(SubmitError::Refused)?;
        link.counts.calls += 1;
        Ok(Submitted { inline, ..Submitted::default() })
    }

    fn answer(&mut self, connection: ConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        let Some(link) = self.links.get_mut(connection.0 as usize).filter(|link| link.is_open()) else {
            return Err(SubmitError::Refused(Refusal::Closed));
        };
        super::framing::check(&Call::small(xid, Tag(0), message, 0)).map_err(SubmitError::Refused)?;
        let Some(place) = link.reverse.iter().position(|open| *open == xid) else {
            return Err(SubmitError::Refused(Refusal::NoCall));
        };
        if link.outbox.is_full() {
            return Err(SubmitError::Busy(super::Busy::Queue));
        }
        link.reverse.swap_remove(place);
        link.outbox.put_call(&Call::small(xid, Tag(0), message, 0));
        Ok(())
    }

    fn flush(&mut self) {
        for link in &mut self.links {
            link.send(&self.stores);
        }
    }

    fn poll(&mut self, deadline: Option<Instant>) -> Result<Option<Event<'_>>, TransportError> {
        let found = loop {
            self.flush();
            if let Some(found) = self.find() {
                break found;
            }
            // Who sends without end what makes no record keeps nobody past the deadline.
            let goes_on = match self.receive() {
                true => deadline.is_some_and(|deadline| Instant::now() < deadline),
                false => self.wait(deadline)?,
            };
            if !goes_on {
                match self.find() {
                    Some(found) => break found,
                    None => return Ok(None),
                }
            }
        };
        Ok(self.lend(found))
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        let Some(link) = self.links.get_mut(connection.0 as usize) else { return };
        if let Some(stream) = &link.stream {
            // One that is closed already needs no more closing.
            let _ = stream.shutdown(Shutdown::Both);
            link.end = Some(Disconnect::Asked);
        }
    }
}

#[cfg(test)]
mod tests;
