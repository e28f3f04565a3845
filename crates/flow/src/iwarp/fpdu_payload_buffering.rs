//! FPDU payload: passed on as it arrives, or buffered until its FPDU is confirmed.

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::iwarp::DdpSegment;

use super::ddp_segment_payload::{DdpSegmentPayload, FrameTimeRange};
use super::events::IwarpEventSink;
use super::fpdu_sink::IwarpFpduSink;
use crate::count_categories::UndecodedReason;
use crate::packet_meta::{DeliveryAnomaly, PacketMeta};
use crate::rdma_operation::CapturedPacketPayload;
use crate::stream::stream_bytes::StreamPosition;

/// Frames with bytes of an FPDU but no payload: headers, or a marker. They are attributed to the payload
/// that follows. Few FPDUs have any.
#[derive(Debug, Default)]
pub(super) struct FpduHeaderFrames(Option<Box<(Vec<FrameNumber>, FrameTimeRange)>>);

impl FpduHeaderFrames {
    pub(super) fn add(&mut self, packet_meta: PacketMeta<'_>) {
        if packet_meta.frames.is_empty() {
            return;
        }
        let now = FrameTimeRange::at(packet_meta.time);
        let (frames, times) = &mut **self.0.get_or_insert_with(|| Box::new((Vec::new(), now)));
        if frames.last() != packet_meta.frames.last() {
            frames.extend_from_slice(packet_meta.frames);
            *times = times.union(now);
        }
    }

    pub(super) fn pass_with_frames(
        &mut self,
        mut payload: DdpSegmentPayload<'_>,
        to: impl FnOnce(DdpSegmentPayload<'_>),
    ) {
        // Header bytes do not prove that lost payload was captured.
        let Some(ahead) = self.0.take_if(|_| payload.was_captured()) else { return to(payload) };
        let (mut frames, times) = *ahead;
        if frames.last() != payload.meta.frames.last() {
            frames.extend_from_slice(payload.meta.frames);
        }
        payload.times = payload.times.union(times);
        to(DdpSegmentPayload { meta: PacketMeta { frames: &frames, ..payload.meta }, ..payload });
    }
}

/// Buffered payload.
#[derive(Debug)]
struct BufferedFpduPayloadPart {
    bytes: Range<usize>,
    frames: Range<usize>,
    time: Timestamp,
    times: FrameTimeRange,
    offset: u32,
    length: u32,
    range: Range<StreamPosition>,
    anomaly: Option<DeliveryAnomaly>,
}

/// Maximum number of parts of an FPDU whose memory is kept for the next.
const RETAINED_PARTS: usize = 64;

/// Buffered payload of one FPDU. Its memory is reused for the next.
#[derive(Debug, Default)]
pub(super) struct FpduPayloadBuffer {
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    payloads: Vec<BufferedFpduPayloadPart>,
    /// Segment, payload length and captured bytes of a complete FPDU that its successor must confirm.
    pub(super) unconfirmed: Option<(DdpSegment, u32, u64)>,
}

impl FpduPayloadBuffer {
    /// Returns the memory in bytes: the payload and its bookkeeping.
    pub(super) fn memory_bytes(&self) -> usize {
        let Self { bytes, frames, payloads, .. } = self;
        bytes.len() + size_of_val(&frames[..]) + size_of_val(&payloads[..])
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
        self.payloads.clear();
        // Few FPDUs consist of many parts.
        self.frames.shrink_to(RETAINED_PARTS);
        self.payloads.shrink_to(RETAINED_PARTS);
        self.unconfirmed = None;
    }

    pub(super) fn push(&mut self, payload: &DdpSegmentPayload<'_>) {
        let (bytes, frames) = (self.bytes.len(), self.frames.len());
        self.bytes.extend_from_slice(payload.data.bytes);
        self.frames.extend_from_slice(payload.meta.frames);
        self.payloads.push(BufferedFpduPayloadPart {
            bytes: bytes..self.bytes.len(),
            frames: frames..self.frames.len(),
            time: payload.meta.time,
            times: payload.times,
            offset: payload.offset,
            length: payload.data.length,
            range: payload.range.clone(),
            anomaly: payload.meta.anomaly.copied(),
        });
    }

    pub(super) fn add_trailer_frames(&mut self, packet_meta: PacketMeta<'_>) {
        // A trailer does not prove that lost payload was captured.
        let Some(last) = self.payloads.iter_mut().rfind(|payload| !payload.frames.is_empty()) else { return };
        if packet_meta.frames.is_empty() || self.frames.last() == packet_meta.frames.last() {
            return;
        }
        self.frames.extend_from_slice(packet_meta.frames);
        last.frames.end = self.frames.len();
        last.times = last.times.union(FrameTimeRange::at(packet_meta.time));
    }

    pub(super) fn deliver(
        &mut self,
        segment: &DdpSegment,
        length: u32,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        for payload in &self.payloads {
            out.payload(DdpSegmentPayload {
                segment,
                length,
                offset: payload.offset,
                data: CapturedPacketPayload {
                    bytes: self.bytes.get(payload.bytes.clone()).unwrap_or_default(),
                    length: payload.length,
                },
                range: payload.range.clone(),
                meta: PacketMeta {
                    frames: self.frames.get(payload.frames.clone()).unwrap_or_default(),
                    anomaly: payload.anomaly.as_ref(),
                    ..PacketMeta::new(&[], payload.time)
                },
                times: payload.times,
            });
        }
        self.clear();
    }

    /// Drops the buffered payload and reports its frames as undecoded.
    pub(super) fn reject(&mut self, reason: UndecodedReason, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        let mut last_frame = None;
        for payload in &self.payloads {
            let frames = self.frames.get(payload.frames.clone()).unwrap_or_default();
            // Markers split the payload of one frame.
            if frames.last() > last_frame {
                last_frame = frames.last();
                out.undecoded(reason, PacketMeta::new(frames, payload.time));
            }
        }
        self.clear();
    }
}
