//! Payload of segments: told as it comes, or held until it is known whether it is some.

use std::ops::Range;

use crate::flow::Sight;
use crate::flow::account::Undecoded;
use crate::flow::stream::Position;
use crate::frame::{FrameNumber, Timestamp};
use crate::iwarp::Segment;
use crate::iwarp::mpa::Startup;
use crate::rdma::{Data, Handle};

/// Payload of a segment, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct Payload<'a> {
    /// The segment.
    pub(super) segment: &'a Segment,
    /// Length of the whole payload in bytes.
    pub(super) length: u32,
    /// Where in the payload the bytes stand.
    pub(super) offset: u32,
    /// The bytes.
    pub(super) data: Data<'a>,
    /// Where they stand in the stream.
    pub(super) range: Range<Position>,
    /// The frames that carried them.
    pub(super) sight: Sight<'a>,
}

impl Payload<'_> {
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
pub(super) trait Fpdus {
    /// Takes payload; of an FPDU without payload, that there is none.
    fn payload(&mut self, payload: Payload<'_>);

    /// Takes the frame that starts MPA.
    fn startup(&mut self, startup: Startup, sight: Sight<'_>);

    /// Captured bytes have no meaning.
    fn undecoded(&mut self, why: Undecoded, sight: Sight<'_>);

    /// Whether memory of this name is known.
    fn knows_memory(&self, stag: Handle) -> bool;
}

/// Payload that waits.
#[derive(Debug)]
struct Waiting {
    bytes: Range<usize>,
    frames: Range<usize>,
    time: Timestamp,
    offset: u32,
    length: u32,
    range: Range<Position>,
}

/// Pieces of one FPDU whose memory is used again.
const KEPT: usize = 64;

/// Payload of one FPDU that waits. Its memory is used again for the next.
#[derive(Debug, Default)]
pub(super) struct Hold {
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    payloads: Vec<Waiting>,
    /// Captured bytes of the FPDU, where the FPDU itself is over and its successor is to tell whether it was one.
    pub(super) over: Option<(Segment, u32, u64)>,
}

impl Hold {
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

    pub(super) fn push(&mut self, payload: &Payload<'_>) {
        let (bytes, frames) = (self.bytes.len(), self.frames.len());
        self.bytes.extend_from_slice(payload.data.bytes);
        self.frames.extend_from_slice(payload.sight.frames);
        self.payloads.push(Waiting {
            bytes: bytes..self.bytes.len(),
            frames: frames..self.frames.len(),
            time: payload.sight.time,
            offset: payload.offset,
            length: payload.data.length,
            range: payload.range.clone(),
        });
    }

    /// Gives out what waits.
    pub(super) fn release(&mut self, segment: &Segment, length: u32, out: &mut impl Fpdus) {
        for waiting in &self.payloads {
            out.payload(Payload {
                segment,
                length,
                offset: waiting.offset,
                data: Data {
                    bytes: self.bytes.get(waiting.bytes.clone()).unwrap_or_default(),
                    length: waiting.length,
                },
                range: waiting.range.clone(),
                sight: Sight {
                    frames: self.frames.get(waiting.frames.clone()).unwrap_or_default(),
                    time: waiting.time,
                },
            });
        }
        self.clear();
    }

    /// Drops what waits: it was none.
    pub(super) fn refuse(&mut self, why: Undecoded, out: &mut impl Fpdus) {
        let mut told = None;
        for waiting in &self.payloads {
            let frames = self.frames.get(waiting.frames.clone()).unwrap_or_default();
            // Markers part the payload of one frame.
            if frames.last() > told {
                told = frames.last();
                out.undecoded(why, Sight { frames, time: waiting.time });
            }
        }
        self.clear();
    }
}
