//! Payload of segments: told as it comes, or held until it is known whether it is some.

use std::ops::Range;

use crate::flow::statistics::UndecodedReason;
use crate::flow::stream::Position;
use crate::flow::{DeliveryAnomaly, PacketMeta};
use crate::frame::{FrameNumber, Timestamp};
use crate::iwarp::DdpSegment;
use crate::iwarp::mpa::Startup;
use crate::rdma::{Handle, PacketPayload};

/// Payload of a segment, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct FpduPayload<'a> {
    /// The segment.
    pub(super) segment: &'a DdpSegment,
    /// Length of the whole payload in bytes.
    pub(super) length: u32,
    /// Where in the payload the bytes stand.
    pub(super) offset: u32,
    /// The bytes.
    pub(super) data: PacketPayload<'a>,
    /// Where they stand in the stream.
    pub(super) range: Range<Position>,
    /// The frames that carried them, and those that carried nothing of the FPDU but headers before or a trailer behind them;
    /// when the bytes were seen.
    pub(super) sight: PacketMeta<'a>,
    /// When the first and the last of the frames were seen.
    pub(super) times: FrameTimes,
}

/// The times of several frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTimes {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

impl FrameTimes {
    /// Of one frame.
    #[inline]
    pub(super) fn at(time: Timestamp) -> Self {
        Self { first: time, last: time }
    }

    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Frames that held bytes of an FPDU and no payload: headers, or a marker. They go with the payload that comes next. Few FPDUs
/// have any.
#[derive(Debug, Default)]
pub(super) struct HeaderFrames(Option<Box<(Vec<FrameNumber>, FrameTimes)>>);

impl HeaderFrames {
    pub(super) fn add(&mut self, sight: PacketMeta<'_>) {
        if sight.frames.is_empty() {
            return;
        }
        let now = FrameTimes::at(sight.time);
        let (frames, times) = &mut **self.0.get_or_insert_with(|| Box::new((Vec::new(), now)));
        if frames.last() != sight.frames.last() {
            frames.extend_from_slice(sight.frames);
            *times = times.with(now);
        }
    }

    /// Gives payload on with these frames.
    pub(super) fn before(&mut self, mut payload: FpduPayload<'_>, to: impl FnOnce(FpduPayload<'_>)) {
        // What was lost does not become seen by its headers.
        let Some(ahead) = self.0.take_if(|_| payload.was_seen()) else { return to(payload) };
        let (mut frames, times) = *ahead;
        if frames.last() != payload.sight.frames.last() {
            frames.extend_from_slice(payload.sight.frames);
        }
        payload.times = payload.times.with(times);
        to(FpduPayload { sight: PacketMeta { frames: &frames, ..payload.sight }, ..payload });
    }
}

impl FpduPayload<'_> {
    /// Whether this is all of it.
    pub(super) fn is_whole(&self) -> bool {
        self.data.length == self.length
    }

    /// Whether there are frames that carried it: bytes beyond a snap length were seen, those of a lost segment were not.
    pub(super) fn was_seen(&self) -> bool {
        !self.sight.frames.is_empty()
    }

    /// Whether it ends here.
    pub(super) fn is_end(&self) -> bool {
        self.offset + self.data.length == self.length
    }
}

/// What takes the FPDUs of a direction.
pub(super) trait FpduSink {
    /// Takes payload; of an FPDU without payload, that there is none.
    fn payload(&mut self, payload: FpduPayload<'_>);

    /// Takes the frame that starts MPA.
    fn startup(&mut self, startup: Startup, sight: PacketMeta<'_>);

    /// Captured bytes have no meaning.
    fn undecoded(&mut self, why: UndecodedReason, sight: PacketMeta<'_>);

    /// Whether memory of this name is known.
    fn knows_memory(&self, stag: Handle) -> bool;
}

/// Payload that waits.
#[derive(Debug)]
struct BufferedPayload {
    bytes: Range<usize>,
    frames: Range<usize>,
    time: Timestamp,
    times: FrameTimes,
    offset: u32,
    length: u32,
    range: Range<Position>,
    remark: Option<DeliveryAnomaly>,
}

/// Pieces of one FPDU whose memory is used again.
const KEPT: usize = 64;

/// Payload of one FPDU that waits. Its memory is used again for the next.
#[derive(Debug, Default)]
pub(super) struct FpduPayloadBuffer {
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    payloads: Vec<BufferedPayload>,
    /// Captured bytes of the FPDU, where the FPDU itself is over and its successor is to tell whether it was one.
    pub(super) over: Option<(DdpSegment, u32, u64)>,
}

impl FpduPayloadBuffer {
    /// Bytes of memory: the payload, and what is known of each piece of it.
    pub(super) fn cost(&self) -> usize {
        let Self { bytes, frames, payloads, .. } = self;
        bytes.len() + size_of_val(&frames[..]) + size_of_val(&payloads[..])
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
        self.payloads.clear();
        // Few FPDUs come in many pieces.
        self.frames.shrink_to(KEPT);
        self.payloads.shrink_to(KEPT);
        self.over = None;
    }

    pub(super) fn push(&mut self, payload: &FpduPayload<'_>) {
        let (bytes, frames) = (self.bytes.len(), self.frames.len());
        self.bytes.extend_from_slice(payload.data.bytes);
        self.frames.extend_from_slice(payload.sight.frames);
        self.payloads.push(BufferedPayload {
            bytes: bytes..self.bytes.len(),
            frames: frames..self.frames.len(),
            time: payload.sight.time,
            times: payload.times,
            offset: payload.offset,
            length: payload.data.length,
            range: payload.range.clone(),
            remark: payload.sight.remark.copied(),
        });
    }

    /// More of the FPDU was seen behind its payload: the trailer. Its frames go with the payload before it.
    pub(super) fn follow(&mut self, sight: PacketMeta<'_>) {
        // What was lost does not become seen by its trailer.
        let Some(last) = self.payloads.iter_mut().rfind(|waiting| !waiting.frames.is_empty()) else { return };
        if sight.frames.is_empty() || self.frames.last() == sight.frames.last() {
            return;
        }
        self.frames.extend_from_slice(sight.frames);
        last.frames.end = self.frames.len();
        last.times = last.times.with(FrameTimes::at(sight.time));
    }

    /// Gives out what waits.
    pub(super) fn release(&mut self, segment: &DdpSegment, length: u32, out: &mut impl FpduSink) {
        for waiting in &self.payloads {
            out.payload(FpduPayload {
                segment,
                length,
                offset: waiting.offset,
                data: PacketPayload {
                    bytes: self.bytes.get(waiting.bytes.clone()).unwrap_or_default(),
                    length: waiting.length,
                },
                range: waiting.range.clone(),
                sight: PacketMeta {
                    frames: self.frames.get(waiting.frames.clone()).unwrap_or_default(),
                    remark: waiting.remark.as_ref(),
                    ..PacketMeta::new(&[], waiting.time)
                },
                times: waiting.times,
            });
        }
        self.clear();
    }

    /// Drops what waits: it was none.
    pub(super) fn refuse(&mut self, why: UndecodedReason, out: &mut impl FpduSink) {
        let mut told = None;
        for waiting in &self.payloads {
            let frames = self.frames.get(waiting.frames.clone()).unwrap_or_default();
            // Markers part the payload of one frame.
            if frames.last() > told {
                told = frames.last();
                out.undecoded(why, PacketMeta::new(frames, waiting.time));
            }
        }
        self.clear();
    }
}
