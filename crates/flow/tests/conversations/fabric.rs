//! Frames of RoCEv2, iWARP and TCP, encoded from the InfiniBand Architecture Specification (volume 1, section 9; annex
//! A17) and RFC 5040, 5041, 5044 and 5531.

use super::writer::Memory;

/// Sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

/// Transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Roce,
    Iwarp,
    /// Records of RPC, without RDMA.
    Tcp,
}

/// A connection and its frames.
pub(crate) struct Fabric {
    pub(crate) kind: Kind,
    mtu: usize,
    /// Next PSN, or next TCP sequence number, by side.
    pub(crate) next: [u32; 2],
    /// Message sequence numbers of iWARP Sends, Read Requests and Terminates, by side.
    pub(crate) messages: [[u32; 3]; 2],
    pub(crate) frames: Vec<Vec<u8>>,
    /// Number of frames up to the first Reply.
    pub(crate) first_reply: Option<usize>,
    /// Indices of the first packets of multi-packet RDMA Writes.
    pub(crate) write_firsts: Vec<usize>,
    /// Those of conversations that were alone on the connection, with the XID.
    pub(crate) firsts_alone: Vec<(u32, Vec<usize>)>,
    /// Frames of the Replies of conversations without loss, with the XID.
    pub(crate) replies: Vec<(u32, std::ops::Range<usize>)>,
    /// Distinguishes connections between the same hosts, by client port and queue pairs.
    pub(crate) connection: u16,
}

const CLIENT_PORT: u16 = 0xc001;
const ADDRESSES: [[u8; 4]; 2] = [[10, 1, 0, 1], [10, 1, 0, 2]];
const QPNS: [u32; 2] = [0x11, 0x22];

fn ip(protocol: u8, from: usize, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = (20 + payload.len()) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend(ADDRESSES[from]);
    frame.extend(ADDRESSES[1 - from]);
    frame.extend(payload);
    frame
}

impl Fabric {
    /// Creates a connection. Its set-up is captured over iWARP only.
    pub(crate) fn new(kind: Kind, mtu: usize) -> Self {
        let mut fabric = Self::without_set_up(kind, mtu);
        if kind == Kind::Iwarp {
            // RFC 5044 section 7.1: no markers, no CRC.
            fabric.tcp(Side::Client, 0x02, &[]);
            fabric.tcp(Side::Server, 0x12, &[]);
            fabric.tcp(Side::Client, 0x18, b"MPA ID Req Frame\x00\x01\x00\x00");
            fabric.tcp(Side::Server, 0x18, b"MPA ID Rep Frame\x00\x01\x00\x00");
        }
        fabric
    }

    /// Creates a connection without frames.
    pub(crate) fn without_set_up(kind: Kind, mtu: usize) -> Self {
        Self {
            kind,
            mtu,
            next: [0x10_0000, 0x80_0000],
            messages: [[1; 3]; 2],
            frames: Vec::new(),
            first_reply: None,
            write_firsts: Vec::new(),
            firsts_alone: Vec::new(),
            replies: Vec::new(),
            connection: 0,
        }
    }

    pub(crate) fn tcp(&mut self, from: Side, flags: u8, payload: &[u8]) {
        let at = from as usize;
        let mut segment = Vec::new();
        let port = |at: usize| match (at, self.kind) {
            (0, _) => CLIENT_PORT + self.connection,
            (_, Kind::Tcp) => 2049,
            _ => 20049,
        };
        segment.extend(port(at).to_be_bytes());
        segment.extend(port(1 - at).to_be_bytes());
        segment.extend(self.next[at].to_be_bytes());
        segment.extend(self.next[1 - at].to_be_bytes());
        segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(payload);
        let length = payload.len() as u32 + u32::from(flags & 2 != 0);
        self.next[at] = self.next[at].wrapping_add(length);
        self.frames.push(ip(6, at, &segment));
    }

    /// Sends an FPDU. RFC 5044 section 4.
    pub(crate) fn fpdu(&mut self, from: Side, ulpdu: &[u8]) {
        let mut fpdu = (ulpdu.len() as u16).to_be_bytes().to_vec();
        fpdu.extend(ulpdu);
        fpdu.resize(fpdu.len().next_multiple_of(4), 0);
        fpdu.extend(CRC32C.compute(&fpdu).to_le_bytes());
        self.tcp(from, 0x18, &fpdu);
    }

    /// Sends an untagged DDP message. RFC 5041 section 4.3, RFC 5040 section 4.2.
    pub(crate) fn untagged(&mut self, from: Side, opcode: u8, queue: u32, (invalidate, bytes): (u32, &[u8])) {
        let number = &mut self.messages[from as usize][queue as usize];
        let message = *number;
        *number += 1;
        let parts = bytes.len().div_ceil(self.mtu).max(1);
        for part in 0..parts {
            let offset = part * self.mtu;
            let data = &bytes[offset..bytes.len().min(offset + self.mtu)];
            let mut ulpdu = vec![if part + 1 == parts { 0x41 } else { 0x01 }, 0x40 | opcode];
            ulpdu.extend(invalidate.to_be_bytes());
            for word in [queue, message, offset as u32] {
                ulpdu.extend(word.to_be_bytes());
            }
            ulpdu.extend(data);
            self.fpdu(from, &ulpdu);
        }
    }

    /// Sends a tagged DDP message. RFC 5041 section 4.2.
    pub(crate) fn tagged(&mut self, from: Side, opcode: u8, tag: u32, offset: u64, bytes: &[u8]) {
        let parts = bytes.len().div_ceil(self.mtu).max(1);
        for part in 0..parts {
            let at = part * self.mtu;
            let mut ulpdu = vec![if part + 1 == parts { 0xc1 } else { 0x81 }, 0x40 | opcode];
            ulpdu.extend(tag.to_be_bytes());
            ulpdu.extend((offset + at as u64).to_be_bytes());
            ulpdu.extend(&bytes[at..bytes.len().min(at + self.mtu)]);
            self.fpdu(from, &ulpdu);
        }
    }

    /// Sends a packet of the Reliable Connection service.
    pub(crate) fn packet(&mut self, from: Side, opcode: u8, psn: u32, headers: &[u8], payload: &[u8]) {
        let queue_pair = QPNS[1 - from as usize] + (u32::from(self.connection) << 8);
        self.packet_to(from, queue_pair, opcode, psn, headers, payload);
    }

    /// Sends a packet to a queue pair.
    pub(crate) fn packet_to(
        &mut self,
        from: Side,
        queue_pair: u32,
        opcode: u8,
        psn: u32,
        headers: &[u8],
        payload: &[u8],
    ) {
        let at = from as usize;
        let pad = (4 - payload.len() % 4) % 4;
        let mut packet = vec![opcode, (pad as u8) << 4, 0xff, 0xff];
        packet.extend(queue_pair.to_be_bytes());
        packet.extend((psn & 0xff_ffff).to_be_bytes());
        packet.extend(headers);
        packet.extend(payload);
        packet.extend(vec![0; pad + 4]);
        let mut udp = Vec::new();
        udp.extend(0xc000_u16.to_be_bytes());
        udp.extend(4791_u16.to_be_bytes());
        udp.extend((8 + packet.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(packet);
        let mut frame = ip(17, at, &udp);
        seal(&mut frame);
        self.frames.push(frame);
    }

    /// Sends the packets of a message. `opcodes` are those of First, Middle, Last and Only; the headers are those of
    /// First and Only, of Last and Only, and of all except Middle.
    pub(crate) fn packets(
        &mut self,
        from: Side,
        opcodes: [u8; 4],
        psn: u32,
        [header, end, each]: [&[u8]; 3],
        bytes: &[u8],
    ) -> u32 {
        let parts = bytes.len().div_ceil(self.mtu).max(1);
        for part in 0..parts {
            let data = &bytes[part * self.mtu..bytes.len().min((part + 1) * self.mtu)];
            let is_last = part + 1 == parts;
            let opcode = match (part, is_last) {
                (0, true) => opcodes[3],
                (0, false) => opcodes[0],
                (_, false) => opcodes[1],
                (_, true) => opcodes[2],
            };
            let is_middle = part > 0 && !is_last;
            let more = if part == 0 { header } else { &[] };
            let headers = [more, if is_last { end } else { &[] }, if is_middle { &[] } else { each }].concat();
            self.packet(from, opcode, psn.wrapping_add(part as u32), &headers, data);
        }
        parts as u32
    }

    pub(crate) fn take_psns(&mut self, side: Side, count: u32) {
        self.next[side as usize] = self.next[side as usize].wrapping_add(count) & 0xff_ffff;
    }

    pub(crate) fn send(&mut self, from: Side, bytes: &[u8]) {
        self.send_and_invalidate(from, bytes, None);
    }

    /// Sends a message, optionally with invalidation of the receiver's memory.
    pub(crate) fn send_and_invalidate(&mut self, from: Side, bytes: &[u8], handle: Option<u32>) {
        match self.kind {
            Kind::Roce => {
                let (opcodes, ieth) = match handle {
                    Some(handle) => ([0, 1, 0x16, 0x17], handle.to_be_bytes().to_vec()),
                    None => ([0, 1, 2, 4], Vec::new()),
                };
                let count = self.packets(from, opcodes, self.next[from as usize], [&[], &ieth, &[]], bytes);
                self.take_psns(from, count);
            }
            Kind::Iwarp => self.untagged(from, if handle.is_some() { 4 } else { 3 }, 0, (handle.unwrap_or(0), bytes)),
            Kind::Tcp => {
                // RFC 5531 section 11: the last fragment of a record.
                let mark = (bytes.len() as u32 | 1 << 31).to_be_bytes();
                self.tcp(from, 0x18, &[&mark, bytes].concat());
            }
        }
    }

    /// Sends an RDMA Write from the server to the client's memory.
    pub(crate) fn write(&mut self, memory: Memory, bytes: &[u8]) {
        self.write_from(Side::Server, memory, bytes);
    }

    /// Sends an RDMA Write to the memory of the other side.
    pub(crate) fn write_from(&mut self, from: Side, memory: Memory, bytes: &[u8]) {
        match self.kind {
            Kind::Roce => {
                let reth = reth(memory, bytes.len());
                if bytes.len() > self.mtu {
                    self.write_firsts.push(self.frames.len());
                }
                let psn = self.next[from as usize];
                let count = self.packets(from, [6, 7, 8, 10], psn, [&reth, &[], &[]], bytes);
                self.take_psns(from, count);
            }
            Kind::Iwarp => self.tagged(from, 0, memory.handle, memory.offset, bytes),
            Kind::Tcp => unreachable!("no RDMA"),
        }
    }

    /// Sends an RDMA Read of the other side's memory.
    pub(crate) fn read(&mut self, reader: Side, memory: Memory, bytes: &[u8]) {
        let owner = if reader == Side::Server { Side::Client } else { Side::Server };
        match self.kind {
            Kind::Roce => {
                let psn = self.next[reader as usize];
                self.packet(reader, 12, psn, &reth(memory, bytes.len()), &[]);
                let aeth = [0x1f, 0, 0, 1];
                let count = self.packets(owner, [13, 14, 15, 16], psn, [&[], &[], &aeth], bytes);
                self.take_psns(reader, count);
            }
            Kind::Iwarp => {
                // RFC 5040 section 4.4: sink, size, source. The sink is the reader's own memory.
                let (tag, offset) =
                    (memory.handle ^ 0x5a5a_5a5a, 0x7000 + u64::from(self.messages[reader as usize][1]) * 0x1_0000);
                let mut request = tag.to_be_bytes().to_vec();
                request.extend(offset.to_be_bytes());
                request.extend((bytes.len() as u32).to_be_bytes());
                request.extend(memory.handle.to_be_bytes());
                request.extend(memory.offset.to_be_bytes());
                self.untagged(reader, 1, 1, (0, &request));
                self.tagged(owner, 2, tag, offset, bytes);
            }
            Kind::Tcp => unreachable!("no RDMA"),
        }
    }

    /// Sends an acknowledgement of the peer's packet `psn`, or a NAK: the syndrome decides. InfiniBand Architecture
    /// Specification volume 1, section 9.7.5.1.2.
    pub(crate) fn acknowledge(&mut self, from: Side, psn: u32, syndrome: u8) {
        self.packet(from, 0x11, psn, &[syndrome, 0, 0, 1], &[]);
    }

    /// Sends a Congestion Notification Packet. Annex A17.9.3.
    pub(crate) fn notify_congestion(&mut self, from: Side) {
        self.packet(from, 0x81, 0, &[], &[0; 16]);
    }

    /// Takes back the frames from `at` on: they are lost before the capture point.
    pub(crate) fn lose_from(&mut self, at: usize) -> Vec<Vec<u8>> {
        self.write_firsts.retain(|first| *first < at);
        self.frames.split_off(at)
    }

    /// Captures frame `at` again as a retransmission: with another identification of its IPv4 datagram.
    pub(crate) fn repeat(&mut self, at: usize) {
        let mut frame = self.frames[at].clone();
        let identification = u16::from_be_bytes([frame[18], frame[19]]) + 77;
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        if frame[23] == 17 {
            seal(&mut frame);
        }
        self.frames.push(frame);
    }

    /// Changes the bytes of frame `at` from the Base Transport Header, or from the first byte of the stream, on.
    /// Its CRC remains right.
    pub(crate) fn alter(&mut self, at: usize, change: impl FnOnce(&mut [u8])) {
        const BTH: usize = 42;
        const STREAM: usize = 54;
        let frame = &mut self.frames[at];
        match self.kind {
            Kind::Roce => {
                change(&mut frame[BTH..]);
                seal(frame);
            }
            Kind::Iwarp => {
                change(&mut frame[STREAM..]);
                let end = frame.len() - 4;
                let crc = CRC32C.compute(&frame[STREAM..end]);
                frame[end..].copy_from_slice(&crc.to_le_bytes());
            }
            Kind::Tcp => change(&mut frame[STREAM..]),
        }
    }

    /// Changes one bit at the end of the last frame: in its ICRC, or in the CRC of its FPDU.
    pub(crate) fn damage_last(&mut self) {
        *self.frames.last_mut().unwrap().last_mut().unwrap() ^= 1;
    }

    /// Marks the last frame as a congested switch does. RFC 3168 section 5.
    pub(crate) fn mark_last(&mut self) {
        self.frames.last_mut().unwrap()[15] |= 0b11;
    }

    /// Sets the window of the last TCP segment to zero. RFC 9293 section 3.1.
    pub(crate) fn close_window(&mut self) {
        self.frames.last_mut().unwrap()[48..50].fill(0);
    }
}

fn reth(memory: Memory, length: usize) -> Vec<u8> {
    let mut reth = memory.offset.to_be_bytes().to_vec();
    reth.extend(memory.handle.to_be_bytes());
    reth.extend((length as u32).to_be_bytes());
    reth
}

/// CRC with a reflected polynomial, bytes in the order of their least significant bits.
struct Crc([u32; 256]);

/// CRC of Ethernet, which ICRC uses. InfiniBand Architecture Specification volume 1, section 7.8.1.
const CRC32: Crc = Crc::new(0xedb8_8320);
/// CRC32C. RFC 5044 section 4.4.
const CRC32C: Crc = Crc::new(0x82f6_3b78);

impl Crc {
    const fn new(polynomial: u32) -> Self {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut value, mut bit) = (byte as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ polynomial } else { value >> 1 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        Self(table)
    }

    fn compute(&self, bytes: &[u8]) -> u32 {
        let step = |crc: u32, byte: &u8| crc >> 8 ^ self.0[(crc as u8 ^ byte) as usize];
        !bytes.iter().fold(u32::MAX, step)
    }
}

/// Computes the ICRC of a RoCEv2 frame: over the headers from IP on, with ones in place of the fields that routers may
/// change, after eight bytes of ones. InfiniBand Architecture Specification volume 1, annex A17.3.3.
fn seal(frame: &mut [u8]) {
    const IP: usize = 14;
    const UDP: usize = IP + 20;
    const BTH: usize = UDP + 8;
    let end = frame.len() - 4;
    let mut covered = frame[IP..end].to_vec();
    // Type of service, time to live, header checksum; checksum of UDP; reserved byte with FECN and BECN.
    for at in [IP + 1, IP + 8, IP + 10, IP + 11, UDP + 6, UDP + 7, BTH + 4] {
        covered[at - IP] = 0xff;
    }
    let crc = CRC32.compute(&[&[0xff; 8], &covered[..]].concat());
    frame[end..].copy_from_slice(&crc.to_le_bytes());
}
