//! iWARP on one connection: the bytes of both directions of a stream become RDMA operations.
//!
//! Payload is passed on as it arrives, without a copy, unless its CRC must be checked first: an FPDU that
//! is not contiguous is buffered until it is complete if CRCs are in use. Bytes lost inside an FPDU do not
//! affect framing.
//!
//! Each frame with a part of an FPDU is attributed to its payload, even if the frame has only headers or
//! the trailer (pad and CRC), which Soft-iWARP often sends as a separate segment. So the end of the
//! payload waits for a trailer that follows: the receiver must not use an FPDU before its CRC either
//! (RFC 5044 section 6), and a message is complete when its CRC has arrived.

mod ddp_segment_payload;
mod early_data;
pub(super) mod events;
mod fpdu_payload_buffering;
mod fpdu_search;
mod fpdu_sink;
mod framing;
pub(super) mod isolated_tcp_segment;
mod markers;
mod messages;
pub(super) mod mpa_counts;
pub(super) mod mpa_recognition;
mod outstanding_rdma_read;
mod partial_fpdu;
mod segment_faults;
mod startup_faults;
mod stream_byte_cursor;
#[cfg(test)]
pub(super) mod tests;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::iwarp::mpa::MpaStartupFrame;
use nfsrdma_dissectors::net::TcpSequence;

use super::by_side::ConnectionSidePair;
use super::connection_setup::SetUpFrame;
use super::exceptional_transport_events::{RdmapFault, TransportAnomalyKind};
use super::packet_meta::PacketMeta;
use super::stream::stream_bytes::{StreamBytes, StreamPosition};
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};
use early_data::EarlyData;
use events::{CrcUse, IwarpEvent, IwarpEventSink};
use fpdu_sink::{IwarpFpduSink, IwarpSharedState};
use framing::MpaStreamDeframer;
use messages::IwarpMessageReassembler;
use mpa_counts::MpaCounts;

/// State of one direction.
#[derive(Debug, Default)]
struct IwarpDirection {
    framing: MpaStreamDeframer,
    messages: IwarpMessageReassembler,
    /// Start-up frame that began it, and its place in the capture.
    startup: Option<(MpaStartupFrame, SetUpFrame)>,
}

/// State of both directions of a connection.
#[derive(Debug)]
pub(super) struct IwarpConnection {
    directions: ConnectionSidePair<IwarpDirection>,
    shared: IwarpSharedState,
    /// `None` unless the connection began with data whose place is unknown.
    early: Option<Box<EarlyData>>,
    /// Side that was captured before its peer, and the number that it expected from that one then; `None` once that has
    /// been captured.
    begun: Option<(ConnectionSideAOrB, TcpSequence)>,
    /// `true` if a start-up frame arrived since the last call of [`IwarpConnection::take_started`].
    has_started: bool,
}

impl Default for IwarpConnection {
    fn default() -> Self {
        let shared = IwarpSharedState { crc_use: CrcUse::Unknown { misses: 0 }, counts: MpaCounts::default() };
        Self { directions: ConnectionSidePair::default(), shared, early: None, begun: None, has_started: false }
    }
}

impl IwarpConnection {
    /// Processes the next bytes that a side sent, which had received its peer up to `acknowledgment`, if that is known.
    #[inline]
    pub(super) fn process(
        &mut self,
        sender: ConnectionSideAOrB,
        stream_bytes: StreamBytes<'_>,
        acknowledgment: Option<TcpSequence>,
        sink: &mut impl IwarpEventSink,
    ) {
        let packet_meta = stream_bytes.meta;
        if let Some(early) = self.early.as_mut().filter(|early| early.sender != sender) {
            early.drop_before(stream_bytes.at);
        }
        let (own, peer) = self.directions.own_and_peer(sender);
        let early_place = acknowledgment.filter(|_| peer.framing.is_initial()).map(|number| (sender, number));
        self.begun = self.begun.or(early_place);
        let mut inner = IwarpFpduSink {
            shared: &mut self.shared,
            own: &mut own.messages,
            peer: &mut peer.messages,
            sink,
            startup: None,
            is_peer_within_fpdu: peer.framing.is_within_fpdu(),
            early: &mut self.early,
            early_place,
        };
        own.framing.process(stream_bytes, &mut inner);
        if let Some((startup, frame)) = inner.startup {
            let request = peer.startup.as_ref().map(|(request, _)| request);
            if sink.records_events()
                && let Some(fault) = startup_faults::startup_fault(&startup, request)
            {
                let kind = TransportAnomalyKind::Rdmap(RdmapFault::Startup(fault));
                sink.event(packet_meta, IwarpEvent::Transport(kind));
            }
            self.handle_startup(sender, startup, frame);
        }
    }

    /// Returns `true` if payload that the peer of `sender` sent waits for bytes of this side.
    #[inline]
    pub(super) fn has_early_data_for(&self, sender: ConnectionSideAOrB) -> bool {
        self.early.as_ref().is_some_and(|early| early.sender != sender && !early.is_empty())
    }

    /// Returns `true` if the peer of `sender` had received bytes of this side, from `at` on, when its own first captured
    /// ones were sent: those before, which the capture lacks, may belong to the messages in them.
    #[inline]
    pub(super) fn is_answered_before_capture(&mut self, sender: ConnectionSideAOrB, at: StreamPosition) -> bool {
        let Some((_, number)) = self.begun.filter(|(first, _)| *first != sender) else { return false };
        let is_before = TcpSequence(at as u32).distance(number) > 0;
        if !is_before {
            // All that follows is later; its numbers come round.
            self.begun = None;
        }
        is_before
    }

    /// Processes the payload of the next frame that waited for bytes up to `reached`. Returns `false` if there is none.
    /// `sink` takes the events of its sender.
    #[cold]
    pub(super) fn process_early(
        &mut self,
        reached: StreamPosition,
        now: Timestamp,
        sink: &mut impl IwarpEventSink,
    ) -> bool {
        let Some(early) = &mut self.early else { return false };
        let (own, peer) = self.directions.own_and_peer(early.sender);
        let due = early.take_due(reached, now);
        let mut counted = Vec::new();
        for early in &due {
            if !counted.contains(&early.reason) {
                sink.uncount(early.reason);
                counted.push(early.reason);
            }
        }
        let mut write = None;
        for early in &due {
            own.messages.process_early(&mut peer.messages, &early.payload(), &mut write, sink);
        }
        !due.is_empty()
    }

    /// Processes a retransmission of bytes that a side sent before.
    pub(super) fn process_retransmission(
        &mut self,
        sender: ConnectionSideAOrB,
        range: std::ops::Range<StreamPosition>,
        packet_meta: PacketMeta<'_>,
        sink: &mut impl IwarpEventSink,
    ) {
        self.directions[sender].messages.report_retransmission(range, packet_meta, sink);
    }

    /// Ends a side: incomplete messages are delivered as far as they were captured.
    pub(super) fn finish(&mut self, sender: ConnectionSideAOrB, sink: &mut impl IwarpEventSink) {
        let (own, peer) = self.directions.own_and_peer(sender);
        let mut inner = IwarpFpduSink {
            shared: &mut self.shared,
            own: &mut own.messages,
            peer: &mut peer.messages,
            sink,
            startup: None,
            is_peer_within_fpdu: peer.framing.is_within_fpdu(),
            early: &mut self.early,
            early_place: None,
        };
        own.framing.finish(&mut inner);
        own.messages.deliver_incomplete(sink);
    }

    /// Returns `true` if the next bytes of a side are the content of an FPDU, or one that continues an RDMA Write or
    /// Read response.
    #[inline]
    pub(super) fn is_within_payload(&self, sender: ConnectionSideAOrB, data: CapturedPacketPayload<'_>) -> bool {
        let IwarpDirection { framing, messages, .. } = &self.directions[sender];
        framing.is_within_payload(data, messages)
    }

    /// Returns the start-up frame of a side, which has its private data, and its place in the capture.
    pub(super) fn startup(&self, sender: ConnectionSideAOrB) -> Option<&(MpaStartupFrame, SetUpFrame)> {
        self.directions[sender].startup.as_ref()
    }

    /// Returns `true` if a start-up frame arrived since the last call.
    pub(super) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.has_started)
    }

    /// Returns the counts since the last call.
    pub(super) fn take_counts(&mut self) -> MpaCounts {
        std::mem::take(&mut self.shared.counts)
    }

    /// Returns the memory in bytes of incomplete messages and FPDUs with their bookkeeping.
    pub(super) fn buffered_bytes(&self) -> usize {
        let directions = self.directions.0.iter();
        let early_bytes = self.early.as_ref().map_or(0, |early| early.counted_bytes());
        directions
            .map(|direction| direction.framing.buffered_bytes() + direction.messages.buffered_bytes())
            .sum::<usize>()
            + early_bytes
    }

    /// Returns the memory in bytes, without buffered content.
    pub(super) fn memory_bytes(&self) -> usize {
        let messages: usize = self.directions.0.iter().map(|direction| direction.messages.memory_bytes()).sum();
        size_of::<Self>() + messages
    }

    pub(super) fn drop_buffered(&mut self) {
        if let Some(early) = &mut self.early {
            early.give_up();
        }
        for direction in &mut self.directions.0 {
            direction.framing.drop_buffered();
            direction.messages.drop_partial();
        }
    }

    fn handle_startup(&mut self, sender: ConnectionSideAOrB, startup: MpaStartupFrame, frame: SetUpFrame) {
        self.has_started = true;
        let (own, peer) = self.directions.own_and_peer(sender);
        // A second pair of frames may follow a refusal.
        own.startup = Some((startup, frame));
        peer.framing.set_requested_markers(startup.markers);
        if startup.rejected {
            own.framing.set_refused(true);
            peer.framing.set_refused(false);
        }
        let peer_crc = peer.startup.map(|(peer_startup, _)| peer_startup.crc);
        if startup.crc || peer_crc == Some(true) {
            self.shared.crc_use = CrcUse::Yes;
        } else if peer_crc.is_some() {
            self.shared.crc_use = CrcUse::No;
        }
    }
}
