//! Ports at which a server opens streams to this side, for the callbacks of NFSv4.0. RFC 7530 section 10.2.
//!
//! What comes there is hostile: streams of the server's own address alone are kept, of those few, each with few bytes, and what makes
//! no record of a Call ends its stream.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::super::framing::check;
use super::super::{CallTag, TransportCall};
use super::record_reader::{TcpRecordReader, TcpRecordStatus};
use super::send_queue::TcpSendQueue;

/// Streams to one port, of which the newest stay: a server that has restarted does not end its old ones.
const OF_PORT: usize = 8;
/// Streams to all ports.
const STREAMS: usize = 512;
/// Streams that are accepted between two looks at the others.
const ACCEPTED: usize = 16;
/// The longest Call in bytes: what NFSv4.0 calls back has some hundreds.
const LONGEST: u32 = 1 << 16;
/// Bytes of answers that may wait on a stream.
const WAITING: u64 = 1 << 16;
/// How long a port rests at which nothing could be accepted, as when there are too many open files.
const REST: Duration = Duration::from_secs(1);

/// A port that listens.
#[derive(Debug)]
pub struct TcpListenPort {
    listener: TcpListener,
    from: IpAddr,
    address: SocketAddr,
    rests_until: Option<Instant>,
}

impl TcpListenPort {
    /// Listens at a local address, on a port that is free, for streams from one host.
    ///
    /// # Errors
    /// Where there is none to be had.
    pub fn open(mut local: SocketAddr, from: IpAddr) -> io::Result<Self> {
        // The scope of a link-local address stays.
        local.set_port(0);
        let listener = TcpListener::bind(local)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, from: from.to_canonical(), address, rests_until: None })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next stream from the host that may; others are closed at once. `None` where none waits.
    fn accept(&mut self) -> Option<(TcpStream, SocketAddr)> {
        for _ in 0..ACCEPTED {
            match self.listener.accept() {
                Ok((stream, peer)) if peer.ip().to_canonical() == self.from => {
                    if stream.set_nonblocking(true).is_ok() {
                        // A delay of small segments is no fault.
                        let _ = stream.set_nodelay(true);
                        return Some((stream, peer));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => {
                    let is_passing =
                        matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted);
                    self.rests_until = (!is_passing).then(|| Instant::now() + REST);
                    return None;
                }
            }
        }
        None
    }
}

/// A stream that the server opened.
#[derive(Debug)]
struct TcpCallbackStream {
    stream: TcpStream,
    peer: SocketAddr,
    /// The place of its port.
    port: usize,
    number: u64,
    inbox: TcpRecordReader,
    outbox: TcpSendQueue,
}

/// A Call on one of the streams.
#[derive(Clone, Copy, Debug)]
pub struct TcpCallbackCall<'a> {
    /// The place of the port, in the order in which they were added.
    pub port: usize,
    /// The stream: numbers count from 0, and are not used again.
    pub stream: u64,
    /// The server's address and port there.
    pub peer: SocketAddr,
    /// This side's.
    pub local: SocketAddr,
    /// The RPC message.
    pub message: &'a [u8],
}

/// Ports, and the streams to them.
#[derive(Debug, Default)]
pub struct TcpCallbackListener {
    ports: Vec<TcpListenPort>,
    streams: Vec<TcpCallbackStream>,
    accepted: u64,
}

impl TcpCallbackListener {
    /// One port more.
    pub fn add(&mut self, port: TcpListenPort) {
        self.ports.push(port);
    }

    /// Waits until something came, there is room for an answer, or `wake` can be read, which it says.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn wait(&mut self, wake: BorrowedFd<'_>) -> io::Result<bool> {
        let now = Instant::now();
        for port in &mut self.ports {
            port.rests_until = port.rests_until.filter(|until| *until > now);
        }
        let rest = self.ports.iter().filter_map(|port| port.rests_until).min();
        let rest = rest.map(|until| {
            Timespec::try_from(until - now).unwrap_or(Timespec { tv_sec: REST.as_secs() as i64, tv_nsec: 0 })
        });
        let listeners = self.ports.iter().filter(|port| port.rests_until.is_none());
        let mut waits: Vec<_> = std::iter::once(PollFd::from_borrowed_fd(wake, PollFlags::IN))
            .chain(listeners.map(|port| PollFd::new(&port.listener, PollFlags::IN)))
            .chain(self.streams.iter().map(|stream| {
                let out = if stream.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                PollFd::new(&stream.stream, PollFlags::IN | out)
            }))
            .collect();
        match rustix::event::poll(&mut waits, rest.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(waits.first().is_some_and(|wake| !wake.revents().is_empty()))
    }

    /// Takes what came, has each Call answered, and sends what it can. A Call without an answer ends its stream.
    pub fn serve(&mut self, answer: &mut dyn FnMut(&TcpCallbackCall<'_>) -> Option<Vec<u8>>) {
        self.accept();
        let ports = &self.ports;
        self.streams.retain_mut(|stream| {
            let local = ports.get(stream.port).map_or(stream.peer, TcpListenPort::address);
            stream.serve(local, answer).is_some()
        });
    }

    fn accept(&mut self) {
        let Self { ports, streams, accepted } = self;
        for (number, port) in ports.iter_mut().enumerate().filter(|(_, port)| port.rests_until.is_none()) {
            for _ in 0..ACCEPTED {
                let Some((stream, peer)) = port.accept() else { break };
                let of_port = streams.iter().filter(|stream| stream.port == number).count();
                let oldest = match of_port >= OF_PORT {
                    true => streams.iter().position(|stream| stream.port == number),
                    false if streams.len() >= STREAMS => Some(0),
                    false => None,
                };
                if let Some(oldest) = oldest {
                    streams.remove(oldest);
                }
                let (inbox, outbox) = (TcpRecordReader::within(LONGEST), TcpSendQueue::default());
                streams.push(TcpCallbackStream {
                    stream,
                    peer,
                    port: number,
                    number: *accepted,
                    inbox,
                    outbox,
                });
                *accepted += 1;
            }
        }
    }
}

impl TcpCallbackStream {
    /// Reads once, and answers the Calls that are whole. `None` where the stream is over.
    fn serve(
        &mut self,
        local: SocketAddr,
        answer: &mut dyn FnMut(&TcpCallbackCall<'_>) -> Option<Vec<u8>>,
    ) -> Option<()> {
        let mut is_over = false;
        match self.inbox.fill(&mut self.stream) {
            Ok(0) => is_over = true,
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
                TcpRecordStatus::Broken => return None,
            }
            let message = self.inbox.record();
            let called =
                TcpCallbackCall { port: self.port, stream: self.number, peer: self.peer, local, message };
            let answer = answer(&called)?;
            let xid = Xid(u32::from_be_bytes(*answer.first_chunk()?));
            let reply = TransportCall::small(xid, CallTag(0), &answer, 0);
            check(&reply).ok()?;
            self.outbox.put_call(&reply);
            self.outbox.send(&mut self.stream, &[]).ok()?;
            if self.outbox.waiting() > WAITING {
                return None;
            }
        }
        self.outbox.send(&mut self.stream, &[]).ok()?;
        (!is_over).then_some(())
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
            let port = TcpListenPort::open(*local, local.ip()).unwrap();
            addresses.push(port.address());
            listening.add(port);
        }
        (listening, addresses)
    }

    fn v4() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// Answers with the message itself, until the peer has `expected` bytes, or its end.
    fn echoed(listening: &mut TcpCallbackListener, peer: &mut TcpStream, expected: usize) -> Vec<u8> {
        peer.set_read_timeout(Some(TICK)).unwrap();
        let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
        for _ in 0..1000 {
            listening.serve(&mut |called| Some(called.message.to_vec()));
            match peer.read(&mut room) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&room[..count]),
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
    fn who_is_not_the_server_is_not_heard() {
        let mut listening = TcpCallbackListener::default();
        let port = TcpListenPort::open(v4(), Ipv4Addr::new(192, 0, 2, 1).into()).unwrap();
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
        for _ in 0..3 * OF_PORT {
            peers.push(TcpStream::connect(addresses[0]).unwrap());
            sleep(TICK);
            listening.serve(&mut |_| None);
            assert!(listening.streams.len() <= OF_PORT);
        }
        let mut newest = peers.pop().unwrap();
        newest.write_all(b"\x80\0\0\x04\0\0\0\x09").unwrap();
        assert_eq!(echoed(&mut listening, &mut newest, 8).len(), 8);
    }

    #[test]
    fn who_reads_no_answers_is_not_waited_for() {
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
