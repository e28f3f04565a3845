//! Messages in several Sends: message continuation of version 2.
//! draft-ietf-nfsv4-rpcrdma-version-two section 6.6.2.
//!
//! A sender does not interleave the parts of two messages (section 4.1), but after packet loss and
//! retransmission parts are captured out of order. The header of each part has the number of bytes that
//! follow it, which gives its position.

use std::collections::VecDeque;
use std::ops::Range;

use nfsrdma_dissectors::rpc::{RpcMessageKind, Xid};

use super::count_categories::{EvictedState, UndecodedReason};
use super::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use super::statistics::FlowDecodingStatistics;
use crate::rdma_operation::{ConnectionSideAOrB, OwnedRdmaSendMessage, RdmaSendMessage};

/// Maximum number of partial messages of one connection. Beyond it, the oldest is dropped.
const MAX_PARTIAL_MESSAGES: usize = 8;

/// Maximum number of parts of one message.
const MAX_PARTS: usize = 4096;

/// Maximum number of frames recorded for one part, copies included.
const MAX_PART_FRAMES: usize = 256;

/// Bookkeeping bytes counted per part.
const PART_OVERHEAD_BYTES: u64 = 128;

/// A part of an RPC message.
#[derive(Clone, Debug)]
struct ContinuedRpcMessagePart {
    /// Bytes of the RPC message after this part, from its header.
    remaining_bytes: u64,
    /// The part without its header.
    content: OwnedRdmaSendMessage,
}

impl ContinuedRpcMessagePart {
    fn from_message(message: &RdmaSendMessage<'_>, summary: &RpcRdmaHeaderSummary) -> Self {
        let at = summary.rpc_offset.unwrap_or(message.length);
        let length = message.length.saturating_sub(at) as u64;
        let bytes = message.bytes.get(at..).unwrap_or_default().to_vec();
        let content_range = |gap: &Range<u64>| {
            let at = at as u64;
            gap.start.saturating_sub(at).min(length)..gap.end.saturating_sub(at).min(length)
        };
        let mut gaps: Vec<_> = message.gaps.iter().map(content_range).collect();
        if gaps.is_empty() && (bytes.len() as u64) < length {
            gaps.push(bytes.len() as u64..length);
        }
        let content = OwnedRdmaSendMessage {
            bytes,
            length: length as usize,
            gaps,
            frames: message.frames.to_vec(),
            time: message.time,
            end_time: message.end_time,
            stall: message.stall,
            invalidated_handle: message.invalidated_handle,
        };
        Self { remaining_bytes: summary.remaining_bytes.into(), content }
    }

    fn has_same_content(&self, other: &Self) -> bool {
        (self.remaining_bytes, &self.content.bytes) == (other.remaining_bytes, &other.content.bytes)
    }

    /// Returns the number of bytes on the wire of the message from this part on.
    fn length_with_rest(&self) -> u64 {
        self.content.length as u64 + self.remaining_bytes
    }

    fn counted_bytes(&self) -> u64 {
        self.content.bytes.len() as u64 + PART_OVERHEAD_BYTES
    }
}

/// A message with some of its parts.
#[derive(Debug)]
struct PendingContinuedRpcMessage {
    sender: ConnectionSideAOrB,
    xid: Xid,
    which: RpcMessageKind,
    /// Parts before the last, sorted by position.
    parts: Vec<ContinuedRpcMessagePart>,
    /// Header of the last part and that part, once received.
    last_part: Option<(Vec<u8>, ContinuedRpcMessagePart)>,
}

impl PendingContinuedRpcMessage {
    fn matches(&self, sender: ConnectionSideAOrB, xid: Xid, kind: RpcMessageKind) -> bool {
        (self.sender, self.xid, self.which) == (sender, xid, kind)
    }

    fn counted_bytes(&self) -> u64 {
        self.parts
            .iter()
            .chain(self.last_part.iter().map(|(_, part)| part))
            .map(ContinuedRpcMessagePart::counted_bytes)
            .sum()
    }

    /// Concatenates the parts after the header of the last one. `None` before the last part arrives.
    fn assemble(&self) -> Option<MultiSendRpcMessage> {
        let (header, last) = self.last_part.as_ref()?;
        let parts = || self.parts.iter().chain([last]);
        // `rdma_remaining` is "the number of bytes that remain to be sent", after this part.
        let total = parts().map(ContinuedRpcMessagePart::length_with_rest).max()?;
        let mut bytes = header.clone();
        let mut gaps = Vec::new();
        let mut end = 0;
        for part in parts() {
            let start = (total - part.length_with_rest()).max(end);
            if start > end {
                gaps.push(end..start);
            }
            let content = &part.content;
            if gaps.is_empty() {
                bytes.extend_from_slice(&content.bytes);
            }
            gaps.extend(content.gaps.iter().map(|gap| gap.start + start..gap.end + start));
            end = start + content.length as u64;
        }
        let header_length = header.len() as u64;
        let captured = bytes.get(header.len()..).unwrap_or_default();
        if !begins_message(captured, end, self.xid, self.which) {
            // The length of the missing first parts is unknown.
            bytes.truncate(header.len());
            gaps.clear();
            gaps.push(0..end);
        }
        let gaps = gaps.into_iter().map(|gap| gap.start + header_length..gap.end + header_length).collect();
        let contents = || parts().map(|part| &part.content);
        let message = OwnedRdmaSendMessage {
            bytes,
            length: usize::try_from(header_length + end).unwrap_or(usize::MAX),
            gaps,
            frames: contents().flat_map(|content| &content.frames).copied().collect(),
            time: contents().map(|content| content.time).min()?,
            end_time: contents().map(|content| content.end_time).max()?,
            stall: contents().find_map(|content| content.stall),
            invalidated_handle: last.content.invalidated_handle,
        };
        let send_count = u32::try_from(self.parts.len() + 1).unwrap_or(u32::MAX);
        Some(MultiSendRpcMessage { message, send_count })
    }
}

/// Bytes of the shortest RPC message: a Reply that rejects the credential. RFC 5531 section 9.
const MIN_RPC_MESSAGE_BYTES: u64 = 20;

/// Returns `true` if the captured bytes can be the start of this RPC message of `length` bytes.
fn begins_message(captured: &[u8], length: u64, xid: Xid, kind: RpcMessageKind) -> bool {
    let msg_type = match kind {
        RpcMessageKind::Call => 0_u32,
        RpcMessageKind::Reply => 1,
    };
    let [a, b, c, d] = xid.0.to_be_bytes();
    let [e, f, g, h] = msg_type.to_be_bytes();
    let expected = [a, b, c, d, e, f, g, h];
    let common = captured.len().min(expected.len());
    length >= MIN_RPC_MESSAGE_BYTES && captured.get(..common) == expected.get(..common)
}

/// A message reassembled from its parts.
#[derive(Debug)]
pub(super) struct MultiSendRpcMessage {
    /// The message as if it had arrived in one Send with the header of the last part.
    pub(super) message: OwnedRdmaSendMessage,
    pub(super) send_count: u32,
}

/// The partial messages of a connection.
#[derive(Debug, Default)]
pub(super) struct PartialRpcMessageTable(VecDeque<PendingContinuedRpcMessage>);

impl PartialRpcMessageTable {
    /// Adds a part that is not the last. Returns the message if its last part has arrived.
    pub(super) fn add_part(
        &mut self,
        (sender, xid, kind): (ConnectionSideAOrB, Xid, RpcMessageKind),
        message: &RdmaSendMessage<'_>,
        summary: &RpcRdmaHeaderSummary,
        (stats, max_bytes): (&mut FlowDecodingStatistics, usize),
    ) -> Option<MultiSendRpcMessage> {
        let part = ContinuedRpcMessagePart::from_message(message, summary);
        if stats.continuation_bytes + part.counted_bytes() > max_bytes as u64 {
            stats.count_evicted(EvictedState::MessageParts);
            stats.count_undecoded(UndecodedReason::MessagePart);
            return None;
        }
        // The first part of a new message with the same XID ends the old one.
        let is_over = |pending: &PendingContinuedRpcMessage| {
            let is_last = pending.parts.last().is_some_and(|last| last.remaining_bytes <= part.remaining_bytes);
            let is_later = !pending.parts.iter().any(|existing| existing.content.end_time >= part.content.time);
            pending.last_part.is_none()
                && is_last
                && is_later
                && !pending.parts.iter().any(|existing| existing.has_same_content(&part))
        };
        let index = self.0.iter().position(|pending| pending.matches(sender, xid, kind));
        if let Some(at) = index.filter(|at| self.0.get(*at).is_some_and(is_over)) {
            self.drop_at(at, stats);
        }
        let index = self.0.iter().position(|pending| pending.matches(sender, xid, kind));
        let at = index.unwrap_or_else(|| self.begin_message(sender, xid, kind, stats));
        let pending = self.0.get_mut(at)?;
        let position = pending.parts.partition_point(|other| other.remaining_bytes > part.remaining_bytes);
        if let Some(existing) = pending.parts.get_mut(position)
            && existing.remaining_bytes == part.remaining_bytes
        {
            // A copy of a known part.
            let frames = &mut existing.content.frames;
            if frames.len() < MAX_PART_FRAMES {
                frames.extend_from_slice(&part.content.frames);
            }
            return None;
        }
        if pending.parts.len() >= MAX_PARTS {
            stats.count_undecoded(UndecodedReason::MessagePart);
            return None;
        }
        stats.continuation_bytes += part.counted_bytes();
        pending.parts.insert(position, part);
        let assembled = pending.assemble()?;
        if assembled.message.gaps.is_empty() {
            self.remove_at(at, stats);
        }
        Some(assembled)
    }

    /// Adds the last part. Returns `None` if it is a complete message by itself.
    pub(super) fn add_last_part(
        &mut self,
        (sender, xid, kind): (ConnectionSideAOrB, Xid, RpcMessageKind),
        message: &RdmaSendMessage<'_>,
        summary: &RpcRdmaHeaderSummary,
        stats: &mut FlowDecodingStatistics,
    ) -> Option<MultiSendRpcMessage> {
        let is_whole = || {
            let at = summary.rpc_offset.unwrap_or(message.bytes.len());
            let captured = message.bytes.get(at..).unwrap_or_default();
            begins_message(captured, message.length.saturating_sub(at) as u64, xid, kind)
        };
        let index = self.0.iter().position(|pending| pending.matches(sender, xid, kind));
        // It is another copy, or another message with the same XID.
        let is_over = index.and_then(|at| self.0.get(at)).is_some_and(|pending| pending.last_part.is_some());
        if let Some(at) = index.filter(|_| is_over) {
            self.remove_at(at, stats);
        }
        let at = match index.filter(|_| !is_over) {
            Some(at) => at,
            None if is_whole() => return None,
            // The parts before it were not captured, or not yet.
            None => self.begin_message(sender, xid, kind, stats),
        };
        let pending = self.0.get_mut(at)?;
        let header = summary.rpc_offset.and_then(|at| message.bytes.get(..at)).unwrap_or_default();
        let part =
            ContinuedRpcMessagePart { remaining_bytes: 0, ..ContinuedRpcMessagePart::from_message(message, summary) };
        stats.continuation_bytes += part.counted_bytes();
        pending.last_part = Some((header.to_vec(), part));
        let assembled = pending.assemble()?;
        if assembled.message.gaps.is_empty() {
            self.remove_at(at, stats);
        }
        Some(assembled)
    }

    /// Adds an empty message and returns its index.
    fn begin_message(
        &mut self,
        sender: ConnectionSideAOrB,
        xid: Xid,
        kind: RpcMessageKind,
        stats: &mut FlowDecodingStatistics,
    ) -> usize {
        if self.0.len() >= MAX_PARTIAL_MESSAGES {
            self.drop_at(0, stats);
        }
        self.0.push_back(PendingContinuedRpcMessage { sender, xid, which: kind, parts: Vec::new(), last_part: None });
        self.0.len() - 1
    }

    /// Adopts the partial messages of a connection that turned out to be this one.
    pub(super) fn adopt(&mut self, other: Self, side: impl Fn(ConnectionSideAOrB) -> ConnectionSideAOrB) {
        self.0.extend(
            other.0.into_iter().map(|pending| PendingContinuedRpcMessage { sender: side(pending.sender), ..pending }),
        );
    }

    /// Drops all messages, because no packet will follow.
    pub(super) fn drop_all(&mut self, stats: &mut FlowDecodingStatistics) {
        while !self.0.is_empty() {
            self.drop_at(0, stats);
        }
    }

    /// Drops a message and counts its parts as undecoded if its last part never arrived.
    fn drop_at(&mut self, at: usize, stats: &mut FlowDecodingStatistics) {
        if let Some(pending) = self.0.get(at).filter(|pending| pending.last_part.is_none()) {
            let frames = pending.parts.iter().map(|part| part.content.frames.len() as u64).sum();
            stats.count_undecoded_frames(UndecodedReason::MessagePart, frames);
        }
        self.remove_at(at, stats);
    }

    fn remove_at(&mut self, at: usize, stats: &mut FlowDecodingStatistics) {
        if let Some(pending) = self.0.remove(at) {
            stats.continuation_bytes = stats.continuation_bytes.saturating_sub(pending.counted_bytes());
        }
    }
}
