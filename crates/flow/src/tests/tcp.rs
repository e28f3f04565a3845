//! Builders of TCP segments and UDP datagrams.

use nfsrdma_dissectors::address::Port;
use nfsrdma_dissectors::net::{
    EtherType, Ethernet, IpIdentification, IpProtocol, Ipv4, LengthInWords, Tcp, TcpFlags, TcpSequence, Udp,
};

use super::wire::Who::{self, Client, Server};

pub(super) const SYN: u8 = 0x02;
pub(super) const FIN: u8 = 0x01;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// A connection between 10.9.0.2 and 10.9.0.1: ports and next sequence numbers of both sides.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) ports: [u16; 2],
    pub(super) next: [u32; 2],
}

impl Stream {
    /// Creates a connection to port 2049.
    pub(super) fn new(port: u16) -> Self {
        Self { ports: [port, 2049], next: [1_000_000, 5_000_000] }
    }

    /// Sets the initial sequence numbers.
    pub(super) fn from(mut self, client: u32, server: u32) -> Self {
        self.next = [client, server];
        self
    }

    pub(super) fn next(&mut self, who: Who) -> &mut u32 {
        &mut self.next[usize::from(who == Server)]
    }

    fn sequence(&self, who: Who) -> u32 {
        self.next[usize::from(who == Server)]
    }

    /// SYN, SYN/ACK, ACK.
    pub(super) fn open(&mut self) -> Vec<Vec<u8>> {
        vec![self.flags(Client, SYN), self.flags(Server, SYN | ACK), self.flags(Client, ACK)]
    }

    /// A segment without data; SYN and FIN use a sequence number.
    pub(super) fn flags(&mut self, who: Who, flags: u8) -> Vec<u8> {
        let frame = self.at(who, self.sequence(who), flags, &[]);
        *self.next(who) = self.next(who).wrapping_add(u32::from(flags & (SYN | FIN) != 0));
        frame
    }

    /// A segment with the next bytes.
    pub(super) fn send(&mut self, who: Who, bytes: &[u8]) -> Vec<u8> {
        let frame = self.at(who, self.sequence(who), ACK, bytes);
        *self.next(who) = self.next(who).wrapping_add(bytes.len() as u32);
        frame
    }

    /// The next bytes in segments of this size.
    pub(super) fn send_in(&mut self, who: Who, bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
        bytes.chunks(size).map(|part| self.send(who, part)).collect()
    }

    /// A segment with these numbers; it acknowledges everything that the peer has sent.
    pub(super) fn at(&self, who: Who, sequence: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
        let peer = if who == Client { Server } else { Client };
        let [client, server] = self.ports;
        let (srcport, dstport) = if who == Client { (client, server) } else { (server, client) };
        let tcp = Tcp {
            srcport: Port(srcport),
            dstport: Port(dstport),
            seq: TcpSequence(sequence),
            ack: TcpSequence(self.sequence(peer)),
            hdr_len: LengthInWords(5),
            flags: TcpFlags(flags),
            window: 0xffff,
            checksum: 0,
            urgent_pointer: 0,
        };
        frame(who, IpProtocol::TCP, &[&tcp.encode()[..], bytes].concat())
    }
}

/// A UDP datagram.
pub(super) fn datagram(who: Who, ports: [u16; 2], bytes: &[u8]) -> Vec<u8> {
    let [client, server] = ports.map(Port);
    let (srcport, dstport) = if who == Client { (client, server) } else { (server, client) };
    let length = (Udp::LENGTH + bytes.len()) as u16;
    let udp = Udp { srcport, dstport, length, checksum: 0 };
    frame(who, IpProtocol::UDP, &[&udp.encode()[..], bytes].concat())
}

fn frame(who: Who, proto: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let (client, server) = ("10.9.0.2".parse().unwrap(), "10.9.0.1".parse().unwrap());
    let (src, dst) = if who == Client { (client, server) } else { (server, client) };
    let ip = Ipv4 {
        version: 4,
        hdr_len: LengthInWords(5),
        dsfield: 0,
        len: (Ipv4::LENGTH + payload.len()) as u16,
        id: IpIdentification(0),
        rb: false,
        df: true,
        mf: false,
        frag_offset: LengthInWords(0),
        ttl: 64,
        proto,
        checksum: 0,
        src,
        dst,
    };
    let ethernet = Ethernet { dst: [2; 6], src: [4; 6], ethertype: EtherType::IPV4 };
    [&ethernet.encode()[..], &ip.encode(), payload].concat()
}

/// A record of one fragment.
pub(super) fn record(message: &[u8]) -> Vec<u8> {
    fragment(message, true)
}

/// A fragment of a record.
pub(super) fn fragment(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mark = nfsrdma_dissectors::rpc::record_marking::RecordMark { is_last, length: bytes.len() as u32 };
    [&mark.encode()[..], bytes].concat()
}
