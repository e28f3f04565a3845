//! Ports at which a server opens streams to this side, for the callbacks of NFSv4.0. RFC 7530 section 10.2.
//!
//! The peers are hostile: only streams from the server's own address are accepted, only a few, each with limited
//! buffers, and data that is not a record of a Call closes its stream.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::record_reader::{TcpRecordReader, TcpRecordStatus};
use super::send_queue::TcpSendQueue;
use crate::outgoing_call::{CallTag, OutgoingRpcCall};
use crate::rpcrdma_framing::chunk_plan::check_call;

/// Maximum number of streams per port. The oldest is closed first, as a restarted server does not close its old
/// streams.
const MAX_STREAMS_PER_PORT: usize = 8;
/// Maximum number of streams of all ports.
const STREAMS: usize = 512;
/// Maximum number of streams accepted per port before the others are served.
const ACCEPTED: usize = 16;
/// Maximum length of a Call in bytes: callbacks of NFSv4.0 have a few hundred.
const LONGEST: u32 = 1 << 16;
/// Maximum number of queued answer bytes per stream.
const MAX_QUEUED_BYTES: u64 = 1 << 16;
/// Pause of a port after a failed accept, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A listening port.
#[derive(Debug)]
pub struct TcpCallbackPort {
    listener: TcpListener,
    permitted_host: IpAddr,
    address: SocketAddr,
    paused_until: Option<Instant>,
}

impl TcpCallbackPort {
    /// Listens at a local address, on any free port, for streams from one host.
    ///
    /// # Errors
    /// Returns an error if no port can be opened.
    pub fn open(mut local: SocketAddr, from: IpAddr) -> io::Result<Self> {
        // Only the port changes, so that the scope of a link-local address stays.
        local.set_port(0);
        let listener = TcpListener::bind(local)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, permitted_host: from.to_canonical(), address, paused_until: None })
    }

    /// Returns the address and port on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next stream from the permitted host; others are closed at once. `None` if no such stream is waiting.
    fn accept(&mut self) -> Option<(TcpStream, SocketAddr)> {
        for _ in 0..ACCEPTED {
            match self.listener.accept() {
                Ok((stream, peer)) if peer.ip().to_canonical() == self.permitted_host => {
                    if stream.set_nonblocking(true).is_ok() {
                        // Nagle's algorithm would only add delay.
                        let _ = stream.set_nodelay(true);
                        return Some((stream, peer));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => {
                    let is_transient =
                        matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted);
                    self.paused_until = (!is_transient).then(|| Instant::now() + ACCEPT_PAUSE);
                    return None;
                }
            }
        }
        None
    }
}

#[derive(Debug)]
struct TcpCallbackStream {
    stream: TcpStream,
    peer: SocketAddr,
    /// Index of its port.
    port: usize,
    number: u64,
    inbox: TcpRecordReader,
    outbox: TcpSendQueue,
}

/// A Call on one of the streams.
#[derive(Clone, Copy, Debug)]
pub struct TcpCallbackCall<'a> {
    /// Index of the port, in the order of adding.
    pub port: usize,
    /// The stream number, from 0, never reused.
    pub stream: u64,
    /// The server's address and port.
    pub peer: SocketAddr,
    /// The local address and port.
    pub local: SocketAddr,
    /// The RPC message.
    pub message: &'a [u8],
}

/// The ports, and the streams to them.
#[derive(Debug, Default)]
pub struct TcpCallbackListener {
    ports: Vec<TcpCallbackPort>,
    streams: Vec<TcpCallbackStream>,
    accepted: u64,
}

impl TcpCallbackListener {
    /// Adds a port.
    pub fn add(&mut self, port: TcpCallbackPort) {
        self.ports.push(port);
    }

    /// Waits for a stream, for data, for space to send a queued answer, or until `wake` is readable. Returns `true` if
    /// `wake` is.
    ///
    /// # Errors
    /// Returns an error if polling fails.
    pub fn wait(&mut self, wake: BorrowedFd<'_>) -> io::Result<bool> {
        let now = Instant::now();
        for port in &mut self.ports {
            port.paused_until = port.paused_until.filter(|end| *end > now);
        }
        let pause_end = self.ports.iter().filter_map(|port| port.paused_until).min();
        let timeout = pause_end.map(|end| {
            Timespec::try_from(end - now).unwrap_or(Timespec { tv_sec: ACCEPT_PAUSE.as_secs() as i64, tv_nsec: 0 })
        });
        let listeners = self.ports.iter().filter(|port| port.paused_until.is_none());
        let mut poll_fds: Vec<_> = std::iter::once(PollFd::from_borrowed_fd(wake, PollFlags::IN))
            .chain(listeners.map(|port| PollFd::new(&port.listener, PollFlags::IN)))
            .chain(self.streams.iter().map(|stream| {
                let out = if stream.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                PollFd::new(&stream.stream, PollFlags::IN | out)
            }))
            .collect();
        match rustix::event::poll(&mut poll_fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(poll_fds.first().is_some_and(|wake| !wake.revents().is_empty()))
    }

    /// Accepts streams, reads Calls, answers them with `handler`, and sends queued data. A Call without an answer
    /// closes its stream.
    pub fn serve(&mut self, handler: &mut dyn FnMut(&TcpCallbackCall<'_>) -> Option<Vec<u8>>) {
        self.accept();
        let ports = &self.ports;
        self.streams.retain_mut(|stream| {
            let local = ports.get(stream.port).map_or(stream.peer, TcpCallbackPort::address);
            stream.serve(local, handler).is_some()
        });
    }

    fn accept(&mut self) {
        let Self { ports, streams, accepted } = self;
        for (number, port) in ports.iter_mut().enumerate().filter(|(_, port)| port.paused_until.is_none()) {
            for _ in 0..ACCEPTED {
                let Some((stream, peer)) = port.accept() else { break };
                let stream_count = streams.iter().filter(|stream| stream.port == number).count();
                let oldest = match stream_count >= MAX_STREAMS_PER_PORT {
                    true => streams.iter().position(|stream| stream.port == number),
                    false if streams.len() >= STREAMS => Some(0),
                    false => None,
                };
                if let Some(oldest) = oldest {
                    streams.remove(oldest);
                }
                let (inbox, outbox) = (TcpRecordReader::with_max_record(LONGEST), TcpSendQueue::default());
                streams.push(TcpCallbackStream { stream, peer, port: number, number: *accepted, inbox, outbox });
                *accepted += 1;
            }
        }
    }
}

impl TcpCallbackStream {
    /// Reads once, and answers all complete Calls. `None` if the stream is to be closed.
    fn serve(
        &mut self,
        local: SocketAddr,
        handler: &mut dyn FnMut(&TcpCallbackCall<'_>) -> Option<Vec<u8>>,
    ) -> Option<()> {
        let mut is_closed = false;
        match self.inbox.fill(&mut self.stream) {
            Ok(0) => is_closed = true,
            Ok(_) => {}
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => return None,
            },
        }
        loop {
            match self.inbox.next() {
                TcpRecordStatus::Record => {}
                TcpRecordStatus::More => break,
                TcpRecordStatus::TooLong => return None,
            }
            let message = self.inbox.record();
            let callback = TcpCallbackCall { port: self.port, stream: self.number, peer: self.peer, local, message };
            let reply_bytes = handler(&callback)?;
            let xid = Xid(u32::from_be_bytes(*reply_bytes.first_chunk()?));
            let reply = OutgoingRpcCall::without_payloads(xid, CallTag(0), &reply_bytes, 0);
            check_call(&reply).ok()?;
            self.outbox.put_call(&reply);
            self.outbox.send(&mut self.stream, &[]).ok()?;
            if self.outbox.waiting() > MAX_QUEUED_BYTES {
                return None;
            }
        }
        self.outbox.send(&mut self.stream, &[]).ok()?;
        (!is_closed).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::thread::sleep;

    use super::*;

    const TICK: Duration = Duration::from_millis(2);

    fn ports(locals: &[SocketAddr]) -> (TcpCallbackListener, Vec<SocketAddr>) {
        let mut listening = TcpCallbackListener::default();
        let mut addresses = Vec::new();
        for local in locals {
            let port = TcpCallbackPort::open(*local, local.ip()).unwrap();
            addresses.push(port.address());
            listening.add(port);
        }
        (listening, addresses)
    }

    fn v4() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// Serves with an echo, until the peer has received `expected` bytes, or the end of the stream.
    fn echoed(listening: &mut TcpCallbackListener, peer: &mut TcpStream, expected: usize) -> Vec<u8> {
        peer.set_read_timeout(Some(TICK)).unwrap();
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        for _ in 0..1000 {
            listening.serve(&mut |called| Some(called.message.to_vec()));
            match peer.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(_) => {}
            }
            if bytes.len() >= expected {
                break;
            }
        }
        bytes
    }

    #[test]
    fn rfc7530_section_10_2_a_call_at_the_port_is_answered_on_its_stream_over_ipv4_and_ipv6() {
        let mut locals = vec![v4(), (Ipv6Addr::LOCALHOST, 0).into()];
        // Some machines have no IPv6.
        locals.retain(|local| TcpListener::bind(local).is_ok());
        let (mut listening, addresses) = ports(&locals);
        for address in addresses {
            let mut peer = TcpStream::connect(address).unwrap();
            let records = b"\x80\0\0\x08\0\0\0\x09abcd\0\0\0\x04\0\0\0\x0a\x80\0\0\x04efgh";
            peer.write_all(records).unwrap();
            let expected = b"\x80\0\0\x08\0\0\0\x09abcd\x80\0\0\x08\0\0\0\x0aefgh";
            assert_eq!(echoed(&mut listening, &mut peer, expected.len()), expected);
        }
    }

    #[test]
    fn calls_from_other_hosts_are_ignored() {
        let mut listening = TcpCallbackListener::default();
        let port = TcpCallbackPort::open(v4(), Ipv4Addr::new(192, 0, 2, 1).into()).unwrap();
        let address = port.address();
        listening.add(port);
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"\x80\0\0\x04\0\0\0\x09").unwrap();
        assert_eq!(echoed(&mut listening, &mut peer, 8), b"");
        assert!(listening.streams.is_empty());
    }

    #[test]
    fn a_record_that_is_too_long_or_no_call_ends_its_stream() {
        let (mut listening, addresses) = ports(&[v4()]);
        for bytes in [b"\x80\x01\0\x01....", b"\x80\0\0\x04nono"] {
            let mut peer = TcpStream::connect(addresses[0]).unwrap();
            peer.write_all(bytes).unwrap();
            let mut is_over = false;
            for _ in 0..1000 {
                listening.serve(&mut |_| None);
                peer.set_read_timeout(Some(TICK)).unwrap();
                is_over = match peer.read(&mut [0; 8]) {
                    Ok(count) => count == 0,
                    Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
                };
                if is_over {
                    break;
                }
            }
            assert!(is_over && listening.streams.is_empty());
        }
    }

    #[test]
    fn of_many_streams_the_newest_stay() {
        let (mut listening, addresses) = ports(&[v4()]);
        let mut peers = Vec::new();
        for _ in 0..3 * MAX_STREAMS_PER_PORT {
            peers.push(TcpStream::connect(addresses[0]).unwrap());
            sleep(TICK);
            listening.serve(&mut |_| None);
            assert!(listening.streams.len() <= MAX_STREAMS_PER_PORT);
        }
        let mut newest = peers.pop().unwrap();
        newest.write_all(b"\x80\0\0\x04\0\0\0\x09").unwrap();
        assert_eq!(echoed(&mut listening, &mut newest, 8).len(), 8);
    }

    #[test]
    fn a_peer_that_reads_no_answers_is_disconnected() {
        let (mut listening, addresses) = ports(&[v4()]);
        let mut peer = TcpStream::connect(addresses[0]).unwrap();
        peer.set_nonblocking(true).unwrap();
        let record = [&b"\x80\0\x80\0"[..], &[7; 0x8000]].concat();
        let mut was_there = false;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            let _ = peer.write(&record);
            listening.serve(&mut |called| Some(called.message.to_vec()));
            was_there |= !listening.streams.is_empty();
            if was_there && listening.streams.is_empty() {
                return;
            }
        }
        panic!("the stream is still there");
    }

    #[test]
    fn waiting_ends_when_it_is_woken() {
        use std::os::fd::AsFd;
        let (mut listening, addresses) = ports(&[v4()]);
        let (reader, mut writer) = io::pipe().unwrap();
        let _peer = TcpStream::connect(addresses[0]).unwrap();
        assert!(!listening.wait(reader.as_fd()).unwrap());
        listening.serve(&mut |_| None);
        writer.write_all(b"!").unwrap();
        assert!(listening.wait(reader.as_fd()).unwrap());
    }
}
