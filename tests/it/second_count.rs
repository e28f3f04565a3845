//! Second count: from the packets of a RoCEv2 capture directly to the SENDs (`second_count_iwarp` from the segments of
//! iWARP), and from these to messages, segments and bytes. It shares nothing with the dissectors, so that they are not
//! tuned to each other. (InfiniBand Architecture volume 1, chapter 9, opcodes and PSNs; RFC 8166 sections 4 and 5.)

use std::collections::{HashMap, HashSet};

use crate::captures;
use crate::mountstats::Mountstats;
use crate::second_count_iwarp;
use crate::transport_line::{Kind, Segment, Totals};

/// RPC-over-RDMA message, complete or as far as the snap length allows.
pub(crate) struct Message {
    pub(crate) from_client: bool,
    pub(crate) is_call: bool,
    pub(crate) xid: u32,
    /// `true` for RDMA_NOMSG (1), `false` for RDMA_MSG (0).
    pub(crate) is_nomsg: bool,
    /// Segments in the chunk lists: offered by a Call, returned by a Reply.
    pub(crate) segments: Vec<Segment>,
    /// `true` if the snap length truncated the message, and if it truncated its chunk lists.
    pub(crate) is_cut: bool,
    pub(crate) are_lists_cut: bool,
    /// Inline bytes of the RPC message that were captured.
    pub(crate) rpc_captured: usize,
}

/// Returns the records of a little-endian pcap file: the offset of each, and its packet.
pub(crate) fn records(pcap: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 24;
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(pcap.get(at + 8..at + 12)?.try_into().ok()?) as usize;
        let record = (at, pcap.get(at + 16..at + 16 + length)?);
        at += 16 + length;
        Some(record)
    })
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// RoCEv2 packet: sender, destination queue pair, opcode, PSN, and the bytes after the BTH.
pub(crate) struct Packet<'a> {
    from: &'a [u8],
    to: (&'a [u8], u32),
    pub(crate) opcode: u8,
    psn: u32,
    after_bth: &'a [u8],
    /// Bytes after the BTH on the wire, without pad and ICRC.
    length: usize,
}

/// Decodes UDP port 4791 over IPv4 or IPv6 over Ethernet; returns `None` for anything else.
pub(crate) fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let ip = frame.get(14..)?;
    let (from, to, protocol, udp) = match frame.get(12..14)? {
        [0x08, 0x00] => (ip.get(12..16)?, ip.get(16..20)?, *ip.get(9)?, ip.get((ip[0] as usize & 15) * 4..)?),
        [0x86, 0xdd] => (ip.get(8..24)?, ip.get(24..40)?, *ip.get(6)?, ip.get(40..)?),
        _ => return None,
    };
    if protocol != 17 || udp.get(2..4)? != 4791u16.to_be_bytes() {
        return None;
    }
    let udp_length = u16::from_be_bytes([udp[4], udp[5]]) as usize;
    let pad = (udp.get(9)? >> 4 & 3) as usize;
    Some(Packet {
        from,
        to: (to, be32(udp, 12)? & 0xff_ffff),
        opcode: udp[8],
        psn: be32(udp, 16)? & 0xff_ffff,
        after_bth: udp.get(20..)?,
        length: udp_length.checked_sub(8 + 12 + 4 + pad)?,
    })
}

/// SEND in reassembly: the next PSN, its bytes, and its length on the wire.
struct Send {
    next: u32,
    bytes: Vec<u8>,
    length: usize,
}

/// Returns the messages of a capture in order, each XID once per direction: a retransmitted SEND adds nothing.
pub(crate) fn messages(pcap: &[u8]) -> Vec<Message> {
    let mut sends: HashMap<_, Send> = HashMap::new();
    let mut seen = HashSet::new();
    let mut client = None;
    let mut messages = Vec::new();
    for packet in records(pcap).filter_map(|(_, frame)| packet(frame)) {
        // SEND First, Middle, Last, Last with Immediate, Only, Only with Immediate, Last and Only with Invalidate.
        let (is_first, is_last, extension) = match packet.opcode {
            0x00 => (true, false, 0),
            0x01 => (false, false, 0),
            0x02 => (false, true, 0),
            0x04 => (true, true, 0),
            0x03 | 0x16 => (false, true, 4),
            0x05 | 0x17 => (true, true, 4),
            _ => continue,
        };
        let key = (packet.from, packet.to);
        if is_first {
            sends.insert(key, Send { next: packet.psn, bytes: Vec::new(), length: 0 });
        }
        let Some(send) = sends.get_mut(&key).filter(|send| send.next == packet.psn) else { continue };
        let length = packet.length - extension;
        let payload = packet.after_bth.get(extension..).unwrap_or_default();
        send.bytes.extend_from_slice(&payload[..payload.len().min(length)]);
        send.length += length;
        send.next = (packet.psn + 1) & 0xff_ffff;
        if is_last && let Some(send) = sends.remove(&key) {
            let from_client = *client.get_or_insert(packet.from) == packet.from;
            let Some(message) = message(&send.bytes, send.length, from_client) else { continue };
            if seen.insert((key, message.xid, message.is_call)) {
                messages.push(message);
            }
        }
    }
    messages.extend(second_count_iwarp::messages(pcap));
    messages
}

/// RFC 8166 section 4: XID, version, credits, procedure, Read list, Write list, Reply chunk, RPC message.
pub(crate) fn message(bytes: &[u8], length: usize, from_client: bool) -> Option<Message> {
    let (xid, procedure) = (be32(bytes, 0)?, be32(bytes, 12)?);
    if be32(bytes, 4)? != 1 || procedure > 1 {
        return None;
    }
    let mut segments = Vec::new();
    let end = lists(bytes, &mut segments);
    let rpc = end.unwrap_or(bytes.len());
    // RDMA_NOMSG has no RPC header inline: a Call has it at Position zero, a Reply in the Reply chunk. If the snap
    // length truncated the RPC header, the message counts as a forward one.
    let is_call = match be32(bytes, rpc + 4) {
        _ if end.is_none() => from_client,
        _ if procedure == 1 => segments.iter().any(|segment| segment.kind == Kind::Read),
        Some(message_type) => message_type == 0,
        None => from_client,
    };
    Some(Message {
        from_client,
        is_call,
        xid,
        is_nomsg: procedure == 1,
        segments,
        is_cut: bytes.len() < length,
        are_lists_cut: end.is_none(),
        rpc_captured: bytes.len() - rpc,
    })
}

/// Decodes the three chunk lists; returns the offset of the RPC message, or `None` if the bytes end before.
fn lists(bytes: &[u8], segments: &mut Vec<Segment>) -> Option<usize> {
    let mut at = 16;
    let mut word = || {
        at += 4;
        be32(bytes, at - 4).map(|word| (word, at))
    };
    let mut segment = |kind, word: &mut dyn FnMut() -> Option<(u32, usize)>| {
        let _handle = word()?;
        let (length, _) = word()?;
        let _offset = (word()?, word()?);
        segments.push(Segment { kind, length: u64::from(length) });
        Some(())
    };
    while word()?.0 != 0 {
        let _position = word()?;
        segment(Kind::Read, &mut word)?;
    }
    while word()?.0 != 0 {
        for _ in 0..word()?.0 {
            segment(Kind::Write, &mut word)?;
        }
    }
    let (present, mut end) = word()?;
    if present != 0 {
        let (count, after) = word()?;
        end = after + count as usize * 16;
        for _ in 0..count {
            segment(Kind::Reply, &mut word)?;
        }
    }
    Some(end)
}

/// Returns the second count of a capture, as the kernel's transport line counts.
pub(crate) fn totals(messages: &[Message]) -> Totals {
    let mut totals = Totals::default();
    for message in messages {
        let kind = if message.is_nomsg { "RDMA_NOMSG" } else { "RDMA_MSG" };
        totals.add(message.from_client, message.is_call, kind, &message.segments);
    }
    totals
}

/// The kernel's counters were read before the unmount, which sends two more Calls from NFSv4.1 on, DESTROY_SESSION and
/// DESTROY_CLIENTID.
fn equals_the_transport_line(name: &str, calls_of_the_unmount: u64) {
    let totals = totals(&messages(&captures::bytes(name)));
    let line = Mountstats::read(name).transport;
    assert_eq!(totals.sends(), line.sends + calls_of_the_unmount, "{name}: messages that the client sent");
    assert_eq!(totals.receives(), line.receives + calls_of_the_unmount, "{name}: replies that the client received");
    line.assert_counts(name, &totals);
}

#[test]
fn second_count_of_rxe_v3_equals_the_transport_line() {
    equals_the_transport_line("rxe-v3", 0);
}

#[test]
fn second_count_of_rxe_v40_equals_the_transport_line() {
    equals_the_transport_line("rxe-v40", 0);
}

#[test]
fn second_count_of_rxe_v40_deleg_equals_the_transport_line() {
    equals_the_transport_line("rxe-v40-deleg", 0);
}

#[test]
fn second_count_of_rxe_v41_equals_the_transport_line() {
    equals_the_transport_line("rxe-v41", 2);
}

#[test]
fn second_count_of_rxe_v42_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42", 2);
}

#[test]
fn second_count_of_rxe_v42_deleg_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42-deleg", 2);
}

#[test]
fn second_count_of_rxe_v42_ip6_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42-ip6", 2);
}

#[test]
fn second_count_of_concurrent_calls_that_use_all_credits_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42-credits", 2);
}

#[test]
fn applications_and_large_calls_equal_the_transport_line() {
    // The unmount also returns delegations.
    equals_the_transport_line("rxe-v42-database", 2 + 2);
    equals_the_transport_line("rxe-v42-large", 2);
    equals_the_transport_line("rxe-v42-maildir", 2 + 21);
}

#[test]
fn second_count_of_large_reads_and_writes_under_loss_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42-bulk-loss1", 2);
    equals_the_transport_line("rxe-v42-bulk-loss5", 2);
}

#[test]
fn second_count_of_rxe_v42_loss_equals_the_transport_line() {
    equals_the_transport_line("rxe-v42-loss", 2);
}

#[test]
fn second_count_of_siw_v3_equals_the_transport_line() {
    equals_the_transport_line("siw-v3", 0);
}

#[test]
fn second_count_of_siw_v41_equals_the_transport_line() {
    equals_the_transport_line("siw-v41", 2);
}

#[test]
fn second_count_of_siw_v42_equals_the_transport_line() {
    // Two delegations were returned at the unmount, too.
    equals_the_transport_line("siw-v42", 4);
}

#[test]
fn second_count_of_siw_v42_with_crcs_equals_the_transport_line() {
    equals_the_transport_line("siw-v42-crc", 2);
}
