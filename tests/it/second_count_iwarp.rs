//! Second count of iWARP: from the TCP segments directly to the bytes of both directions, from these to FPDUs, Sends
//! and messages. It shares nothing with the dissectors. (RFC 5044 sections 4.1 and 7.1.1, without markers; RFC 5041
//! section 4; RFC 5040 section 4.1.)

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::second_count::{Message, message, records};

/// The port of NFS over RDMA.
const PORT: u16 = 20049;

/// Bytes sent by one side, by their distance from the first sequence number, first copies only.
#[derive(Default)]
struct Stream {
    first: Option<u32>,
    segments: BTreeMap<u32, Vec<u8>>,
}

/// Decodes a segment between IPv4 addresses to or from the port: `true` if the client sent it, its sequence number and
/// its bytes.
fn segment(frame: &[u8]) -> Option<(bool, u16, u32, &[u8])> {
    let ip = frame.get(14..)?;
    if frame.get(12..14)? != [0x08, 0x00] || ip.get(9) != Some(&6) {
        return None;
    }
    let header = (ip[0] as usize & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let tcp = ip.get(header..total)?;
    let word = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let (from, to) = (word(0), word(2));
    if (from == PORT) == (to == PORT) {
        return None;
    }
    let number = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let client = if to == PORT { from } else { to };
    Some((to == PORT, client, number, tcp.get((tcp[12] >> 4) as usize * 4..)?))
}

/// Returns the length of an FPDU in bytes from its ULPDU Length.
fn fpdu_length(bytes: &[u8]) -> Option<usize> {
    let ulpdu = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    Some((2 + ulpdu).next_multiple_of(4) + 4)
}

impl Stream {
    fn add(&mut self, number: u32, bytes: &[u8]) {
        let first = *self.first.get_or_insert(number);
        let at = number.wrapping_sub(first);
        let is_newer = at < 1 << 31;
        if !bytes.is_empty() && is_newer && self.segments.get(&at).is_none_or(|old| old.len() < bytes.len()) {
            self.segments.insert(at, bytes.to_vec());
        }
    }

    /// Returns the contiguous bytes from the first FPDU on: after the MPA startup frame, or from the first segment that
    /// is exactly one FPDU.
    fn fpdus(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut reached = None;
        for (at, segment) in &self.segments {
            let (at, mut segment) = (*at as usize, &segment[..]);
            let Some(end) = reached else {
                if segment.starts_with(b"MPA ID Re") {
                    let private = usize::from(u16::from_be_bytes([segment[18], segment[19]]));
                    bytes.extend_from_slice(&segment[20 + private..]);
                } else if segment.get(2).is_some_and(|control| control & 0x3f == 1)
                    && fpdu_length(segment) == Some(segment.len())
                {
                    bytes.extend_from_slice(segment);
                } else {
                    continue;
                }
                reached = Some(at + segment.len());
                continue;
            };
            assert!(at <= end, "the streams of these captures have no holes");
            segment = segment.get(end - at..).unwrap_or_default();
            bytes.extend_from_slice(segment);
            reached = Some(end + segment.len());
        }
        bytes
    }
}

/// Returns the messages of a capture, each XID once per direction.
pub(crate) fn messages(pcap: &[u8]) -> Vec<Message> {
    let mut streams: HashMap<(u16, bool), Stream> = HashMap::new();
    for (_, frame) in records(pcap) {
        if let Some((from_client, client, number, bytes)) = segment(frame) {
            streams.entry((client, from_client)).or_default().add(number, bytes);
        }
    }
    let mut messages = Vec::new();
    for ((_, from_client), stream) in streams {
        let bytes = stream.fpdus();
        let mut rest = &bytes[..];
        let mut seen = HashSet::new();
        let mut send = Vec::new();
        while let Some(length) = fpdu_length(rest)
            && rest.len() >= length
        {
            let ulpdu_length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let ulpdu = &rest[2..2 + ulpdu_length];
            rest = &rest[length..];
            let (is_tagged, is_last, opcode) = (ulpdu[0] & 0x80 != 0, ulpdu[0] & 0x40 != 0, ulpdu[1] & 0xf);
            // Send, with Invalidate, with Solicited Event, with both.
            if is_tagged || !(3..=6).contains(&opcode) {
                continue;
            }
            send.extend_from_slice(&ulpdu[18..]);
            if is_last {
                let whole = std::mem::take(&mut send);
                let found = message(&whole, whole.len(), from_client);
                messages.extend(found.filter(|message| seen.insert((message.xid, message.is_call))));
            }
        }
    }
    messages
}
