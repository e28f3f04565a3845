//! iWARP on one connection: the bytes of both directions of a stream become RDMA operations.
//!
//! - [`framing`]: bytes become FPDUs, with [`markers`] and CRCs; [`fpdu_search`] finds them again after a gap, and in the middle;
//! - [`payload`]: what an FPDU carries goes on, or is held until it is known to be one ([`fpdu`]);
//! - [`messages`]: FPDUs become operations: Sends put together, Read responses matched with their requests;
//! - [`segment_view`]: what a view tells of one segment.
//!
//! Payload goes on as it arrives, without being kept, but where its CRC must be known first: an FPDU with a CRC in use that
//! does not lie in one piece is held until it is whole. What is lost in the middle of an FPDU loses no framing.
//!
//! Every frame that holds a part of an FPDU goes with its payload, if it is only headers or the trailer (pad and CRC) that
//! Soft-iWARP often writes as a segment of its own. So the end of the payload waits for a trailer that comes behind it: the
//! receiver, too, must not use an FPDU before its CRC (RFC 5044 section 6), and a message is whole when that has come.

mod fpdu;
mod fpdu_search;
mod framing;
mod markers;
mod messages;
mod payload;
mod segment_view;
#[cfg(test)]
pub(super) mod tests;
mod unparsed_bytes;

use crate::field::NullObserver;
use crate::frame::CapturedSlice;
use crate::iwarp::DdpSegment;
use crate::iwarp::mpa::{FpduHeader, Startup};
use crate::iwarp::rdmap::Terminate;
use crate::rdma::{ConnectionSide, Handle, PacketPayload, RdmaOperation};
use crate::rpcrdma;

use super::PacketMeta;
use super::statistics::UndecodedReason;
use super::stream::{Position, StreamBytes};

pub use segment_view::observe_segment;

use fpdu_search::{FpduConfidence, SearchBudget};
use framing::Framing;
use messages::IwarpMessages;
use payload::{FpduPayload, FpduSink};

/// What the bytes of a stream turned out to be.
#[derive(Debug)]
pub(super) enum IwarpEvent<'a> {
    /// A frame that starts MPA.
    Startup,
    /// An RDMA operation.
    Operation(RdmaOperation<'a>),
    /// A part of a message that is not whole yet.
    Part,
    /// Something that moves no bytes: what only tells that the sender is ready (RFC 6581 section 9.2).
    Control,
    /// The stream ends, for this reason.
    Terminate(Terminate),
    /// Bytes without meaning.
    Undecoded(UndecodedReason),
}

/// Whether a segment in the middle of a stream begins with FPDUs; on any port but that of NFS over RDMA only if the first of
/// them holds a message of RPC-over-RDMA.
pub(super) fn begins_fpdu(data: PacketPayload<'_>, is_expected: bool) -> bool {
    let length = data.length as usize;
    let work = SearchBudget::of(data.bytes.len());
    let bytes =
        fpdu_search::FpduSearchBytes { bytes: data.bytes, length, at: Position::default(), work: &work };
    let found = fpdu_search::at_start(&bytes, |_| false);
    if !found.is_some_and(|found| found.trust == FpduConfidence::Certain) {
        return false;
    }
    let part = CapturedSlice::new(data.bytes, length, 0);
    let payload = FpduHeader::decode(data.bytes, 0, &mut NullObserver).and_then(|(header, _)| {
        let ulpdu = part.after(FpduHeader::LENGTH).sized(usize::from(header.ulpdu_length));
        DdpSegment::decode(ulpdu, &mut NullObserver)
    });
    is_expected
        || payload.is_some_and(|(segment, payload)| {
            segment.opcode.is_send()
                && rpcrdma::recognize_dialect(payload.bytes, payload.length, None).0
                    == rpcrdma::RpcRdmaEvidence::Strong
        })
}

/// What takes the events of a connection.
pub(super) trait IwarpEventSink {
    /// Takes what one side did.
    fn event(&mut self, sight: PacketMeta<'_>, event: IwarpEvent<'_>);

    /// Whether the receiver of these bytes has advertised memory of this name: evidence that a header is one.
    fn knows_memory(&self, stag: Handle) -> bool;
}

/// Whether the two sides use CRCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrcUse {
    /// Nothing tells yet; so many FPDUs had none that is right.
    Unknown {
        /// How many.
        misses: u8,
    },
    /// They do.
    Yes,
    /// They do not, and the field has no meaning.
    No,
}

/// After so many FPDUs without a right CRC, none is expected any more.
const MISSES: u8 = 8;

/// What the CRCs of FPDUs were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpaCounts {
    /// FPDUs whose CRC is right.
    pub good: u64,
    /// FPDUs whose CRC is wrong; they are not believed.
    pub bad: u64,
    /// FPDUs of connections that use none.
    pub absent: u64,
    /// FPDUs that were not captured whole.
    pub unknown: u64,
    /// Bytes of FPDUs that were not believed.
    pub refused_bytes: u64,
    /// Captured bytes in which no FPDU was found.
    pub skipped_bytes: u64,
}

impl MpaCounts {
    /// FPDUs by what their CRC is, in a word, where there are any.
    pub fn verdicts(self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { good, bad, absent, unknown, .. } = self;
        let counts = [("good", good), ("bad", bad), ("absent", absent), ("unknown", unknown)];
        counts.into_iter().filter(|(_, count)| *count > 0)
    }
}

impl MpaCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.good += other.good;
        self.bad += other.bad;
        self.absent += other.absent;
        self.unknown += other.unknown;
        self.refused_bytes += other.refused_bytes;
        self.skipped_bytes += other.skipped_bytes;
    }
}

/// What both directions of a connection have in common.
#[derive(Debug)]
struct IwarpSharedState {
    crc: CrcUse,
    counts: MpaCounts,
}

/// One direction.
#[derive(Debug, Default)]
struct IwarpDirection {
    framing: Framing,
    messages: IwarpMessages,
    /// The frame that started it.
    startup: Option<Startup>,
}

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct Iwarp {
    a: IwarpDirection,
    b: IwarpDirection,
    shared: IwarpSharedState,
    /// Whether a frame that starts MPA came since this was asked last.
    has_started: bool,
}

impl Default for Iwarp {
    fn default() -> Self {
        let shared = IwarpSharedState { crc: CrcUse::Unknown { misses: 0 }, counts: MpaCounts::default() };
        Self { a: IwarpDirection::default(), b: IwarpDirection::default(), shared, has_started: false }
    }
}

impl Iwarp {
    fn directions(
        &mut self,
        sender: ConnectionSide,
    ) -> (&mut IwarpDirection, &mut IwarpDirection, &mut IwarpSharedState) {
        match sender {
            ConnectionSide::A => (&mut self.a, &mut self.b, &mut self.shared),
            ConnectionSide::B => (&mut self.b, &mut self.a, &mut self.shared),
        }
    }

    /// Takes the next bytes that a side sent.
    #[inline]
    pub(super) fn piece(
        &mut self,
        sender: ConnectionSide,
        piece: StreamBytes<'_>,
        taker: &mut impl IwarpEventSink,
    ) {
        let (own, peer, shared) = self.directions(sender);
        let mut inner =
            IwarpFpduSink { own: &mut own.messages, peer: &mut peer.messages, taker, startup: None };
        own.framing.piece(piece, shared, &mut inner);
        if let Some(startup) = inner.startup {
            self.start(sender, startup);
        }
    }

    /// A side sent bytes again that were taken before.
    pub(super) fn again(
        &mut self,
        sender: ConnectionSide,
        range: std::ops::Range<Position>,
        sight: PacketMeta<'_>,
        taker: &mut impl IwarpEventSink,
    ) {
        self.directions(sender).0.messages.again(range, sight, taker);
    }

    /// Nothing more comes from a side: what is not whole is given out as what it is.
    pub(super) fn finish(&mut self, sender: ConnectionSide, taker: &mut impl IwarpEventSink) {
        let (own, peer, shared) = self.directions(sender);
        let mut inner =
            IwarpFpduSink { own: &mut own.messages, peer: &mut peer.messages, taker, startup: None };
        own.framing.finish(shared, &mut inner);
        own.messages.give_up(taker);
    }

    /// The private data of the two sides comes with the frames that start MPA.
    pub(super) fn startup(&self, sender: ConnectionSide) -> Option<&Startup> {
        match sender {
            ConnectionSide::A => self.a.startup.as_ref(),
            ConnectionSide::B => self.b.startup.as_ref(),
        }
    }

    /// Whether a frame that starts MPA came since this was asked last.
    pub(super) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.has_started)
    }

    /// What was counted since this was asked last.
    pub(super) fn take_counts(&mut self) -> MpaCounts {
        std::mem::take(&mut self.shared.counts)
    }

    /// How many bytes unfinished messages and FPDUs cost, with what is known of their pieces and gaps.
    pub(super) fn held_bytes(&self) -> usize {
        [&self.a, &self.b].iter().map(|own| own.framing.held_bytes() + own.messages.held_bytes()).sum()
    }

    /// The memory that it takes without what is held, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.a.messages.memory_bytes() + self.b.messages.memory_bytes()
    }

    /// Drops what is held.
    pub(super) fn drop_parts(&mut self) {
        for own in [&mut self.a, &mut self.b] {
            own.framing.drop_held();
            own.messages.drop_parts();
        }
    }

    /// A side started MPA.
    fn start(&mut self, sender: ConnectionSide, startup: Startup) {
        self.has_started = true;
        let (own, peer, shared) = self.directions(sender);
        // A second pair of frames follows a refusal.
        own.startup = Some(startup);
        peer.framing.told_markers(startup.markers);
        if startup.rejected {
            own.framing.refuse();
            peer.framing.refuse();
        }
        let other = peer.startup.map(|other| other.crc);
        if startup.crc || other == Some(true) {
            shared.crc = CrcUse::Yes;
        } else if other.is_some() {
            shared.crc = CrcUse::No;
        }
    }
}

/// What the FPDUs of one direction go to.
struct IwarpFpduSink<'a, T> {
    own: &'a mut IwarpMessages,
    peer: &'a mut IwarpMessages,
    taker: &'a mut T,
    startup: Option<Startup>,
}

impl<T: IwarpEventSink> FpduSink for IwarpFpduSink<'_, T> {
    #[inline]
    fn payload(&mut self, payload: FpduPayload<'_>) {
        self.own.payload(self.peer, payload, self.taker);
    }

    fn startup(&mut self, startup: Startup, sight: PacketMeta<'_>) {
        self.startup = Some(startup);
        self.taker.event(sight, IwarpEvent::Startup);
    }

    fn undecoded(&mut self, why: UndecodedReason, sight: PacketMeta<'_>) {
        self.own.has_cut_segments |= why == UndecodedReason::CutFrame;
        self.taker.event(sight, IwarpEvent::Undecoded(why));
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.taker.knows_memory(stag) || self.peer.waits_for(stag)
    }
}
