//! Frames encoded by hand from the definitions of the headers only: RoCEv2, TCP, RPC-over-RDMA, RPC, NFSv3, pcap and
//! zstd.

use std::io::{self, Write};

/// An IPv4 address.
pub(super) type Ip = [u8; 4];

pub(super) const CLIENT: Ip = [10, 0, 0, 2];
pub(super) const SERVER: Ip = [10, 0, 0, 1];

/// Opcodes of Reliable Connection (InfiniBand Architecture Specification volume 1, table 38).
const SEND_ONLY: u8 = 0x04;
const WRITE_ONLY: u8 = 0x0a;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Sender, receiver and queue pair of a packet, and its PSN.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) from: Ip,
    pub(super) to: Ip,
    pub(super) qpn: u32,
    pub(super) psn: u32,
}

fn ipv4(from: Ip, to: Ip, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&[8, 0, 0x45, 0]);
    frame.extend_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&to);
    frame.extend_from_slice(payload);
    frame
}

fn roce(route: Route, opcode: u8, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    let pad = payload.len().next_multiple_of(4) - payload.len();
    let length = 8 + 12 + extension.len() + payload.len() + pad + 4;
    let mut udp = Vec::with_capacity(length);
    udp.extend_from_slice(&0xc000_u16.to_be_bytes());
    udp.extend_from_slice(&4791_u16.to_be_bytes());
    udp.extend_from_slice(&(length as u16).to_be_bytes());
    udp.extend_from_slice(&[0, 0, opcode, (pad as u8) << 4, 0xff, 0xff]);
    udp.extend_from_slice(&route.qpn.to_be_bytes());
    udp.extend_from_slice(&(route.psn & 0xff_ffff).to_be_bytes());
    udp.extend_from_slice(extension);
    udp.extend_from_slice(payload);
    udp.resize(length, 0);
    ipv4(route.from, route.to, 17, &udp)
}

/// Encodes a message in one Send packet.
pub(super) fn send(route: Route, message: &[u8]) -> Vec<u8> {
    roce(route, SEND_ONLY, &[], message)
}

/// Encodes an RDMA Write of one packet.
pub(super) fn write(route: Route, handle: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let reth = [&offset.to_be_bytes()[..], &words(&[handle, data.len() as u32])].concat();
    roce(route, WRITE_ONLY, &reth, data)
}

/// A segment of a chunk: handle, length, offset.
pub(super) type Segment = (u32, u32, u64);

/// An RDMA_MSG with a Write list of one chunk, or of none (RFC 8166 section 4.3).
pub(super) fn rdma_msg(xid: u32, write_chunk: &[Segment], rpc: &[u8]) -> Vec<u8> {
    let mut message = words(&[xid, 1, 32, 0, 0]);
    if !write_chunk.is_empty() {
        message.extend(words(&[1, write_chunk.len() as u32]));
        for (handle, length, offset) in write_chunk {
            message.extend(words(&[*handle, *length, (*offset >> 32) as u32, *offset as u32]));
        }
    }
    message.extend(words(&[0, 0]));
    message.extend_from_slice(rpc);
    message
}

/// A Call of NFSv3 without credentials (RFC 5531 section 9).
pub(super) fn call(xid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    [words(&[xid, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0]), arguments.to_vec()].concat()
}

/// A Reply that was accepted.
pub(super) fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    [words(&[xid, 1, 0, 0, 0, 0]), results.to_vec()].concat()
}

/// A filehandle of 32 bytes.
fn filehandle(number: u32) -> Vec<u8> {
    words(&[32, 0x5a5a_5a5a, 1, 2, 3, 4, 5, 6, number])
}

/// Arguments of LOOKUP of `d` in a directory (RFC 1813 section 3.3.3).
pub(super) fn lookup(directory: u32) -> Vec<u8> {
    lookup_of(directory, "d")
}

/// Arguments of LOOKUP of a name in a directory.
pub(super) fn lookup_of(directory: u32, name: &str) -> Vec<u8> {
    let mut padded = name.as_bytes().to_vec();
    padded.resize(name.len().next_multiple_of(4), 0);
    [filehandle(directory), words(&[name.len() as u32]), padded].concat()
}

/// Results of LOOKUP without attributes.
pub(super) fn found(file: u32) -> Vec<u8> {
    [words(&[0]), filehandle(file), words(&[0, 0])].concat()
}

/// A segment of TCP from a port of a client to port 2049.
pub(super) fn tcp(from: Ip, port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = [port.to_be_bytes(), 2049_u16.to_be_bytes()].concat();
    tcp.extend(words(&[sequence, 1]));
    tcp.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    ipv4(from, SERVER, 6, &tcp)
}

/// A record of RPC (RFC 5531 section 11).
pub(super) fn record(message: &[u8]) -> Vec<u8> {
    [&(0x8000_0000 | message.len() as u32).to_be_bytes()[..], message].concat()
}

/// Writes frames as pcap, 10 µs apart.
pub(super) struct Pcap<W> {
    to: W,
    frames: u64,
}

impl<W: Write> Pcap<W> {
    pub(super) fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&pcap_header())?;
        Ok(Self { to, frames: 0 })
    }

    pub(super) fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.frames += 1;
        let time_us = self.frames * 10;
        self.to.write_all(&pcap_record(time_us, bytes.len() as u32))?;
        self.to.write_all(bytes)
    }
}

fn pcap_header() -> Vec<u8> {
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap_record(time_us: u64, length: u32) -> Vec<u8> {
    let (seconds, microseconds) = ((time_us / 1_000_000) as u32, (time_us % 1_000_000) as u32);
    [seconds, microseconds, length, length].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The longest block of zstd (RFC 8878 section 3.1.1.2.4).
const BLOCK: u32 = 128 << 10;

/// Returns a pcap file as zstd with a window of 2^`window_log` bytes, as `zstd --long` writes it: `frames` frames of
/// 128 KiB of zeros, a microsecond apart from `time_us` on, in some 25 bytes each.
pub(super) fn zstd_pcap(window_log: u8, time_us: u64, frames: u64) -> Vec<u8> {
    // RFC 8878 section 3.1.1: magic number, descriptor, window descriptor.
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
    let mut block = |is_last: bool, is_repeated: bool, length: u32, bytes: &[u8]| {
        let header = u32::from(is_last) | u32::from(is_repeated) << 1 | length << 3;
        packed.extend_from_slice(&header.to_le_bytes()[..3]);
        packed.extend_from_slice(bytes);
    };
    let header = pcap_header();
    block(false, false, header.len() as u32, &header);
    for frame in 0..frames {
        let record = pcap_record(time_us + frame, BLOCK);
        block(false, false, record.len() as u32, &record);
        block(frame + 1 == frames, true, BLOCK, &[0]);
    }
    packed
}
