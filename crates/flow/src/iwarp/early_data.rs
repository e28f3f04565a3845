//! Chunk data and RDMA Read Requests captured before the bytes that their sender had received.
//!
//! If a capture begins in the middle of a connection and the clocks of its directions differ, one direction begins with
//! data whose call, or whose RDMA Read Request, is captured later. Acknowledgement numbers tell how much of its peer a
//! side had received: what acknowledges nothing of the captured bytes waits for none of them.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::iwarp::DdpSegment;
use nfsrdma_dissectors::net::TcpSequence;

use super::ddp_segment_payload::{DdpSegmentPayload, FrameTimeRange};
use crate::count_categories::UndecodedReason;
use crate::packet_meta::{DeliveryAnomaly, PacketMeta};
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};
use crate::stream::direction::MAX_CLOCK_SKEW_NS;
use crate::stream::stream_bytes::StreamPosition;

/// Maximum number of bytes kept per connection, with their bookkeeping.
const MAX_BYTES: usize = 4 << 20;

/// Bookkeeping bytes counted per payload.
const PAYLOAD_OVERHEAD_BYTES: usize = 256;

/// Payload without a known place.
#[derive(Debug)]
pub(super) struct EarlyPayload {
    segment: DdpSegment,
    /// Length of the whole payload in bytes.
    length: u32,
    offset: u32,
    bytes: Vec<u8>,
    /// Length of the bytes on the wire.
    data_length: u32,
    range: std::ops::Range<StreamPosition>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    times: FrameTimeRange,
    /// Number that its sender expects next from its peer.
    acknowledgment: TcpSequence,
    /// Reason for which its frames were counted.
    pub(super) reason: UndecodedReason,
}

impl EarlyPayload {
    fn counted_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.frames[..]) + PAYLOAD_OVERHEAD_BYTES
    }

    /// Returns `true` if its sender had received nothing behind this position.
    fn is_due(&self, reached: StreamPosition) -> bool {
        TcpSequence(reached as u32).distance(self.acknowledgment) <= 0
    }

    /// Returns the payload.
    pub(super) fn payload(&self) -> DdpSegmentPayload<'_> {
        DdpSegmentPayload {
            segment: &self.segment,
            length: self.length,
            offset: self.offset,
            data: CapturedPacketPayload { bytes: &self.bytes, length: self.data_length },
            range: self.range.clone(),
            meta: PacketMeta { anomaly: Some(&DeliveryAnomaly::Reordered), ..PacketMeta::new(&self.frames, self.time) },
            times: self.times,
        }
    }
}

/// Payload that one side sent before anything of its peer was captured.
#[derive(Debug)]
pub(super) struct EarlyData {
    pub(super) sender: ConnectionSideAOrB,
    /// In the order of the stream.
    payloads: VecDeque<EarlyPayload>,
    counted_bytes: usize,
    /// `true` if some were given up: nothing more is kept.
    is_given_up: bool,
}

impl EarlyData {
    pub(super) fn new(sender: ConnectionSideAOrB) -> Self {
        Self { sender, payloads: VecDeque::new(), counted_bytes: 0, is_given_up: false }
    }

    /// Returns the memory in bytes.
    pub(super) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Keeps payload whose frames were counted as undecoded.
    pub(super) fn add(
        &mut self,
        payload: &DdpSegmentPayload<'_>,
        acknowledgment: TcpSequence,
        reason: UndecodedReason,
    ) {
        if self.is_given_up {
            return;
        }
        let entry = EarlyPayload {
            segment: *payload.segment,
            length: payload.length,
            offset: payload.offset,
            bytes: payload.data.bytes.to_vec(),
            data_length: payload.data.length,
            range: payload.range.clone(),
            frames: payload.meta.frames.to_vec(),
            time: payload.meta.time,
            times: payload.times,
            acknowledgment,
            reason,
        };
        self.counted_bytes += entry.counted_bytes();
        self.payloads.push_back(entry);
        self.drop_old(payload.meta.time);
        if self.counted_bytes > MAX_BYTES {
            self.give_up();
        }
    }

    /// Drops everything: it stays undecoded.
    pub(super) fn give_up(&mut self) {
        (self.payloads, self.counted_bytes, self.is_given_up) = (VecDeque::new(), 0, true);
    }

    /// Drops what was captured so long ago that the clocks do not explain it.
    fn drop_old(&mut self, now: Timestamp) {
        while self.payloads.front().is_some_and(|first| first.time.abs_diff_ns(now) > MAX_CLOCK_SKEW_NS) {
            self.pop();
        }
    }

    /// Drops what was sent before the peer sent the byte at a position, its first captured one.
    pub(super) fn drop_before(&mut self, first: StreamPosition) {
        while self.payloads.front().is_some_and(|early| early.is_due(first)) {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<EarlyPayload> {
        let early = self.payloads.pop_front()?;
        self.counted_bytes -= early.counted_bytes();
        Some(early)
    }

    /// Removes the payload of the next frame, if its sender had received nothing of its peer behind a position.
    pub(super) fn take_due(&mut self, reached: StreamPosition, now: Timestamp) -> Vec<EarlyPayload> {
        self.drop_old(now);
        let mut due: Vec<EarlyPayload> = Vec::new();
        while let Some(next) = self.payloads.front()
            && next.is_due(reached)
            && due.first().is_none_or(|first| first.frames.last() == next.frames.last())
        {
            due.extend(self.pop());
        }
        due
    }

    pub(super) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }
}
