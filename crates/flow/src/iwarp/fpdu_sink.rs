//! Receiver of the FPDUs of one direction, and the state that both directions of a connection share.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::iwarp::mpa::MpaStartupFrame;
use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use nfsrdma_dissectors::iwarp::{DdpSegment, DdpSegmentDestination};
use nfsrdma_dissectors::memory_handle::Handle;

use super::ddp_segment_payload::DdpSegmentPayload;
use super::events::{CrcUse, IwarpEvent, IwarpEventSink};
use super::messages::{DecodedFpdu, IwarpMessageReassembler};
use super::mpa_counts::MpaCounts;
use super::segment_faults::DdpSegmentOrder;
use crate::connection_setup::SetUpFrame;
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{FpduProperties, RdmapFault, TransportAnomalyKind};
use crate::packet_meta::PacketMeta;
use crate::stream::stream_bytes::StreamPosition;

/// Number of FPDUs without a correct CRC after which CRCs are considered unused.
const MAX_CRC_MISSES: u8 = 8;

/// State that both directions of a connection share.
#[derive(Debug)]
pub(super) struct IwarpSharedState {
    pub(super) crc_use: CrcUse,
    pub(super) counts: MpaCounts,
}

impl IwarpSharedState {
    /// Counts the result of a CRC check. Returns `true` if the FPDU is accepted.
    pub(super) fn record_crc_result(&mut self, is_right: bool) -> bool {
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

/// Receiver of the FPDUs of one direction.
pub(super) struct IwarpFpduSink<'a, T> {
    pub(super) shared: &'a mut IwarpSharedState,
    pub(super) own: &'a mut IwarpMessageReassembler,
    pub(super) peer: &'a mut IwarpMessageReassembler,
    pub(super) sink: &'a mut T,
    pub(super) startup: Option<(MpaStartupFrame, SetUpFrame)>,
    /// `true` if the peer has sent only a part of its last FPDU: without CRCs, its length may be wrong, so that it has
    /// requests that are unknown.
    pub(super) is_peer_within_fpdu: bool,
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
        let has_read_requests = is_response && reads.is_some() && order.has_all_fpdus();
        let fault = order.check(payload, reads, is_peer_silent);
        let has_crcs = self.shared.crc_use != CrcUse::No;
        let fault = fault.filter(|fault| has_crcs || !self.is_peer_within_fpdu || !fault.is_of_response());
        self.own.order = Some(order);
        if payload.offset == 0 {
            let properties = FpduProperties { is_ordered, is_untagged, has_read_requests };
            self.sink.event(payload.meta, IwarpEvent::Fpdu(properties));
        }
        let Some(fault) = fault.filter(|_| payload.was_captured()) else { return };
        if self.own.last_fpdu.is_some() && !has_crcs && fault.is_of_response() {
            // Its length may be wrong instead: the FPDU behind it shows that.
            let fault = (fault, payload.meta.last_frame(), payload.meta.time);
            self.own.unconfirmed_fault = Some(Box::new(fault));
        } else {
            self.fault(fault, payload.meta);
        }
    }

    /// Handles the beginning of an FPDU, which shows that the length of the FPDU before is right.
    #[inline]
    pub(super) fn confirm_fpdu_before(&mut self) {
        if let Some(fault) = self.own.unconfirmed_fault.take() {
            let (fault, frame, time) = *fault;
            self.fault(fault, PacketMeta::new(&[frame], time));
        }
    }

    /// Records an FPDU whose headers were decoded.
    #[inline]
    pub(super) fn record_fpdu(&mut self, segment: &DdpSegment, start: StreamPosition, packet_meta: &PacketMeta<'_>) {
        self.confirm_fpdu_before();
        let (frame, time) = (packet_meta.last_frame(), packet_meta.time);
        self.own.last_fpdu = Some(DecodedFpdu { opcode: segment.opcode, start, frame, time });
    }

    /// Handles an FPDU of a wrong length, and reports it if it is certain. Its content shows nothing else.
    #[cold]
    pub(super) fn misframed_fpdu(&mut self, fpdu: DecodedFpdu, fault: Option<RdmapFault>) {
        let frames = [fpdu.frame];
        let packet_meta = PacketMeta::new(&frames, fpdu.time);
        self.own.unconfirmed_fault = None;
        if let Some(fault) = fault {
            self.fault(fault, packet_meta);
        }
        if let Some(attribution) = self.own.withdraw_fpdu(fpdu.opcode, fpdu.start) {
            self.sink.event(packet_meta, IwarpEvent::Misframed(attribution));
        }
    }

    /// Returns `true` if this side is expected to send this segment next. `current`: the one whose FPDU has not ended.
    pub(super) fn expects(&self, segment: &DdpSegment, current: Option<&DdpSegment>) -> bool {
        match segment.target {
            DdpSegmentDestination::Tagged { stag, .. } => self.knows_memory(stag),
            DdpSegmentDestination::Untagged { queue, number, offset } => {
                self.own.expects(queue, number, offset, current)
            }
        }
    }

    /// Handles payload; an FPDU without payload is reported with empty payload.
    #[inline]
    pub(super) fn payload(&mut self, payload: DdpSegmentPayload<'_>) {
        if self.sink.records_events() {
            self.check_order(&payload);
        }
        self.own.process_payload(self.peer, payload, self.sink);
    }

    pub(super) fn startup(&mut self, startup: MpaStartupFrame, packet_meta: PacketMeta<'_>) {
        self.startup = Some((startup, SetUpFrame::from(&packet_meta)));
        self.own.last_numbers = Default::default();
        if self.sink.records_events() {
            self.own.order = Some(Box::new(DdpSegmentOrder::at_start(startup.kind)));
        }
        self.sink.event(packet_meta, IwarpEvent::Startup);
    }

    pub(super) fn undecoded(&mut self, reason: UndecodedReason, packet_meta: PacketMeta<'_>) {
        self.own.has_cut_segments |= reason == UndecodedReason::CutFrame;
        self.lost_fpdus();
        self.sink.event(packet_meta, IwarpEvent::Undecoded(reason));
    }

    /// Handles bytes that cannot be decoded and are already attributed to their frames.
    pub(super) fn lost_bytes(&mut self, reason: UndecodedReason, time: Timestamp) {
        self.undecoded(reason, PacketMeta::new(&[], time));
    }

    #[inline]
    pub(super) fn records_events(&self) -> bool {
        self.sink.records_events()
    }

    /// Handles FPDUs that are unknown: bytes without a known place among FPDUs were lost or damaged.
    pub(super) fn lost_fpdus(&mut self) {
        self.own.order = None;
    }

    #[cold]
    pub(super) fn fault(&mut self, fault: RdmapFault, packet_meta: PacketMeta<'_>) {
        self.transport_event(TransportAnomalyKind::Rdmap(fault), packet_meta);
    }

    #[cold]
    pub(super) fn transport_event(&mut self, kind: TransportAnomalyKind, packet_meta: PacketMeta<'_>) {
        self.sink.event(packet_meta, IwarpEvent::Transport(kind));
    }

    /// Handles an FPDU that its receiver refuses for its CRC. `is_proven`: an FPDU is certain to be there.
    #[cold]
    pub(super) fn refused_fpdu(&mut self, is_proven: bool, packet_meta: PacketMeta<'_>) {
        self.sink.event(packet_meta, IwarpEvent::Refused { is_proven });
    }

    pub(super) fn knows_memory(&self, stag: Handle) -> bool {
        self.sink.knows_memory(stag) || self.peer.has_outstanding_read_into(stag)
    }
}
