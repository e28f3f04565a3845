//! iWARP on one connection: the bytes of both directions of a stream become RDMA operations.
//!
//! Payload is passed on as it arrives, without a copy, unless its CRC must be checked first: an FPDU that
//! is not contiguous is buffered until it is complete if CRCs are in use. Bytes lost inside an FPDU do not
//! affect framing.
//!
//! Each frame with a part of an FPDU is attributed to its payload, even if the frame has only headers or
//! the trailer (pad and CRC), which Soft-iWARP often sends as a segment of its own. So the end of the
//! payload waits for a trailer that follows: the receiver must not use an FPDU before its CRC either
//! (RFC 5044 section 6), and a message is complete when its CRC has arrived.

pub(super) mod events;
mod fpdu_payload_buffering;
mod fpdu_search;
mod framing;
pub(super) mod isolated_tcp_segment;
mod markers;
mod messages;
pub(super) mod mpa_counts;
mod partial_fpdu;
mod segment_faults;
mod startup_faults;
mod stream_byte_cursor;
#[cfg(test)]
pub(super) mod tests;

use crate::captured_frame::CapturedSlice;
use crate::field::NullFieldObserver;
use crate::iwarp::mpa::{FpduHeader, MpaStartupFrame};
use crate::iwarp::rdmap::RdmapOpcode;
use crate::iwarp::{DdpSegment, DdpSegmentDestination};
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB, Handle};
use crate::rpcrdma;

use super::by_side::BySide;
use super::connection_setup::SetUpFrame;
use super::count_categories::UndecodedReason;
use super::packet_meta::PacketMeta;
use super::stream::{StreamBytes, StreamPosition};
use super::transport_event::{RdmapFault, TransportAnomalyKind};

use events::CrcUse;
use events::{IwarpEvent, IwarpEventSink};
use fpdu_payload_buffering::DdpSegmentPayload;
use fpdu_search::{FpduConfidence, FpduSearchBudget};
use framing::MpaStreamDeframer;
use messages::IwarpMessages;
use mpa_counts::MpaCounts;
use segment_faults::DdpSegmentOrder;

/// Returns `true` if a segment in mid-stream begins with FPDUs. On ports other than that of NFS over RDMA
/// (`is_expected` is `false`), the first FPDU must contain an RPC-over-RDMA message.
pub(super) fn begins_fpdu(data: CapturedPacketPayload<'_>, is_expected: bool) -> bool {
    let length = data.length as usize;
    let budget = FpduSearchBudget::for_segment(data.bytes.len());
    let bytes = fpdu_search::FpduSearchBytes {
        bytes: data.bytes,
        length,
        at: StreamPosition::default(),
        budget: &budget,
    };
    let fpdu = fpdu_search::find_at_start(&bytes, |_| false);
    if !fpdu.is_some_and(|fpdu| fpdu.confidence == FpduConfidence::Certain) {
        return false;
    }
    let slice = CapturedSlice::new(data.bytes, length, 0);
    let payload = FpduHeader::decode(data.bytes, 0, &mut NullFieldObserver).and_then(|(header, _)| {
        let ulpdu = slice.skip_bytes(FpduHeader::LENGTH).with_length(usize::from(header.ulpdu_length));
        DdpSegment::decode(ulpdu, &mut NullFieldObserver)
    });
    is_expected
        || payload.is_some_and(|(segment, payload)| {
            segment.opcode.is_send()
                && rpcrdma::recognize_dialect(payload.bytes, payload.length, None).0
                    == rpcrdma::RpcRdmaEvidence::Strong
        })
}

/// Number of FPDUs without a correct CRC after which CRCs are considered unused.
const MAX_CRC_MISSES: u8 = 8;

/// State that both directions of a connection share.
#[derive(Debug)]
struct IwarpSharedState {
    crc_use: CrcUse,
    counts: MpaCounts,
}

impl IwarpSharedState {
    /// Counts the result of a CRC check. Returns `true` if the FPDU is accepted.
    fn record_crc_result(&mut self, is_right: bool) -> bool {
        match (&mut self.crc_use, is_right) {
            (CrcUse::No, _) => self.counts.absent += 1,
            (CrcUse::Yes, true) => self.counts.good += 1,
            (CrcUse::Yes, false) => {
                self.counts.bad += 1;
                return false;
            }
            (CrcUse::Unknown { .. }, true) => {
                self.crc_use = CrcUse::Yes;
                self.counts.good += 1;
            }
            (CrcUse::Unknown { misses }, false) => {
                self.counts.absent += 1;
                *misses += 1;
                if *misses >= MAX_CRC_MISSES {
                    self.crc_use = CrcUse::No;
                }
            }
        }
        true
    }
}

/// State of one direction.
#[derive(Debug, Default)]
struct IwarpDirection {
    framing: MpaStreamDeframer,
    messages: IwarpMessages,
    /// Start-up frame that began it, and its place in the capture.
    startup: Option<(MpaStartupFrame, SetUpFrame)>,
}

/// State of both directions of a connection.
#[derive(Debug)]
pub(super) struct IwarpConnection {
    directions: BySide<IwarpDirection>,
    shared: IwarpSharedState,
    /// `true` if a start-up frame arrived since the last call of [`IwarpConnection::take_started`].
    has_started: bool,
}

impl Default for IwarpConnection {
    fn default() -> Self {
        let shared =
            IwarpSharedState { crc_use: CrcUse::Unknown { misses: 0 }, counts: MpaCounts::default() };
        Self { directions: BySide::default(), shared, has_started: false }
    }
}

impl IwarpConnection {
    /// Processes the next bytes that a side sent.
    #[inline]
    pub(super) fn process(
        &mut self,
        sender: ConnectionSideAOrB,
        stream_bytes: StreamBytes<'_>,
        sink: &mut impl IwarpEventSink,
    ) {
        let packet_meta = stream_bytes.meta;
        let (own, peer) = self.directions.own_and_peer(sender);
        let mut inner = IwarpFpduSink {
            shared: &mut self.shared,
            own: &mut own.messages,
            peer: &mut peer.messages,
            sink,
            startup: None,
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
        };
        own.framing.finish(&mut inner);
        own.messages.deliver_incomplete(sink);
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
        directions
            .map(|direction| direction.framing.buffered_bytes() + direction.messages.buffered_bytes())
            .sum()
    }

    /// Returns the memory in bytes, without buffered content.
    pub(super) fn memory_bytes(&self) -> usize {
        let messages: usize =
            self.directions.0.iter().map(|direction| direction.messages.memory_bytes()).sum();
        size_of::<Self>() + messages
    }

    pub(super) fn drop_buffered(&mut self) {
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

/// Receiver of the FPDUs of one direction.
struct IwarpFpduSink<'a, T> {
    shared: &'a mut IwarpSharedState,
    own: &'a mut IwarpMessages,
    peer: &'a mut IwarpMessages,
    sink: &'a mut T,
    startup: Option<(MpaStartupFrame, SetUpFrame)>,
}

impl<T: IwarpEventSink> IwarpFpduSink<'_, T> {
    /// Checks the place of a segment among the segments before it.
    #[cold]
    fn check_order(&mut self, payload: &DdpSegmentPayload<'_>) {
        let reads = self.peer.known_reads();
        let mut order = self.own.order.take().unwrap_or_default();
        let is_peer_silent = self.peer.order.as_ref().is_some_and(|order| order.awaits_first_fpdu());
        let is_ordered = order.is_known();
        let is_untagged = matches!(payload.segment.target, DdpSegmentDestination::Untagged { .. });
        let is_response = payload.segment.opcode == RdmapOpcode::READ_RESPONSE;
        let has_requests = is_response && reads.is_some() && order.has_all_fpdus();
        let fault = order.check(payload, reads, is_peer_silent);
        self.own.order = Some(order);
        if payload.offset == 0 {
            let properties = [true, is_ordered, is_ordered && is_untagged, has_requests];
            self.sink.event(payload.meta, IwarpEvent::Fpdu(properties));
        }
        if let Some(fault) = fault.filter(|_| payload.was_captured()) {
            self.fault(fault, payload.meta);
        }
    }

    /// Handles payload; an FPDU without payload is reported with empty payload.
    #[inline]
    fn payload(&mut self, payload: DdpSegmentPayload<'_>) {
        if self.sink.records_events() {
            self.check_order(&payload);
        }
        self.own.process_payload(self.peer, payload, self.sink);
    }

    fn startup(&mut self, startup: MpaStartupFrame, packet_meta: PacketMeta<'_>) {
        self.startup = Some((startup, SetUpFrame::from(&packet_meta)));
        if self.sink.records_events() {
            self.own.order = Some(Box::new(DdpSegmentOrder::at_start(startup.kind)));
        }
        self.sink.event(packet_meta, IwarpEvent::Startup);
    }

    fn undecoded(&mut self, reason: UndecodedReason, packet_meta: PacketMeta<'_>) {
        self.own.has_cut_segments |= reason == UndecodedReason::CutFrame;
        self.lost_fpdus();
        self.sink.event(packet_meta, IwarpEvent::Undecoded(reason));
    }

    #[inline]
    fn records_events(&self) -> bool {
        self.sink.records_events()
    }

    /// Handles FPDUs that are unknown: bytes without a known place among FPDUs were lost or damaged.
    fn lost_fpdus(&mut self) {
        self.own.order = None;
    }

    #[cold]
    fn fault(&mut self, fault: RdmapFault, packet_meta: PacketMeta<'_>) {
        self.transport_event(TransportAnomalyKind::Rdmap(fault), packet_meta);
    }

    #[cold]
    fn transport_event(&mut self, kind: TransportAnomalyKind, packet_meta: PacketMeta<'_>) {
        self.sink.event(packet_meta, IwarpEvent::Transport(kind));
    }

    /// Handles an FPDU that its receiver refuses for its CRC. `is_proven`: an FPDU is certain to be there.
    #[cold]
    fn refused_fpdu(&mut self, is_proven: bool, packet_meta: PacketMeta<'_>) {
        self.sink.event(packet_meta, IwarpEvent::Refused { is_proven });
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.sink.knows_memory(stag) || self.peer.has_outstanding_read_into(stag)
    }
}
