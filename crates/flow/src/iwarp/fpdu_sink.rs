//! Receiver of the FPDUs of one direction, and the state that both directions of a connection share.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::iwarp::mpa::{FpduHeader, MpaStartupFrame};
use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use nfsrdma_dissectors::iwarp::{DdpSegment, DdpSegmentDestination};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::net::TcpSequence;
use nfsrdma_dissectors::xdr::roundup;

use super::ddp_segment_payload::DdpSegmentPayload;
use super::early_data::EarlyData;
use super::events::{CrcUse, IwarpEvent, IwarpEventSink};
use super::messages::{
    DecodedFpdu, EndedWrite, FpduTail, IwarpMessageReassembler, UnconfirmedFault, UnconfirmedLengths,
};
use super::mpa_counts::MpaCounts;
use super::segment_faults::DdpSegmentOrder;
use crate::connection_setup::SetUpFrame;
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{FpduProperties, RdmapFault, TransportAnomalyKind};
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution};
use crate::stream::stream_bytes::StreamPosition;

/// Maximum number of RDMA Writes that wait for their Replies: more than the chunks of one Reply.
const MAX_ENDED_WRITES: usize = 16;

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
    pub(super) early: &'a mut Option<Box<EarlyData>>,
    /// Sender, and the number that it expects next, if nothing of its peer was captured yet.
    pub(super) early_place: Option<(ConnectionSideAOrB, TcpSequence)>,
}

impl<T: IwarpEventSink> IwarpFpduSink<'_, T> {
    /// Checks the place of a segment among the segments before it.
    #[inline(never)]
    fn check_order(&mut self, payload: &DdpSegmentPayload<'_>) {
        let reads = self.peer.known_reads();
        let mut order = self.own.order.take().unwrap_or_default();
        let is_peer_silent =
            !self.is_peer_within_fpdu && self.peer.order.as_ref().is_some_and(|order| order.awaits_first_fpdu());
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
            let unconfirmed = self.own.unconfirmed.get_or_insert_default();
            unconfirmed.fault = Some(UnconfirmedFault::new(fault, payload.meta));
        } else {
            self.fault(fault, payload.meta);
        }
    }

    /// Handles the beginning of an FPDU, which shows that the length of the FPDU before is right.
    #[inline]
    pub(super) fn confirm_fpdu_before(&mut self) {
        let fault = self.own.unconfirmed.as_mut().and_then(|unconfirmed| unconfirmed.fault.take());
        self.confirm(fault);
    }

    /// Handles the end of the direction, behind which there is no Reply.
    pub(super) fn confirm_writes(&mut self) {
        while let Some(write) = self.own.unconfirmed.as_mut().and_then(|all| all.ended_writes.pop_front()) {
            self.confirm(write.unconfirmed);
        }
    }

    #[inline]
    fn confirm(&mut self, fault: Option<UnconfirmedFault>) {
        if let Some(UnconfirmedFault { fault, frame, time }) = fault {
            self.fault(fault, PacketMeta::new(&[frame], time));
        }
    }

    /// Returns `true` if wrong lengths of FPDUs are looked for without CRCs, which show them otherwise.
    #[inline]
    pub(super) fn checks_lengths(&self) -> bool {
        self.shared.crc_use == CrcUse::No
    }

    /// Returns the header of an FPDU with the length of its ULPDU if another one was announced: messages of
    /// RPC-over-RDMA version 1 consist of words (RFC 4506 section 3), so that the last segment of a Send has no
    /// padding.
    pub(super) fn length_in_words(&self, header: FpduHeader, segment: &DdpSegment) -> Option<FpduHeader> {
        let DdpSegmentDestination::Untagged { offset, .. } = segment.target else { return None };
        let payload_length = usize::from(header.ulpdu_length).saturating_sub(segment.header_length());
        let missing = roundup(offset as usize + payload_length);
        let other = FpduHeader { ulpdu_length: header.ulpdu_length.checked_add(missing as u16)? };
        let is_other = missing > 0 && other.fpdu_length() == header.fpdu_length();
        let is_end = segment.is_last && segment.opcode.is_send();
        (is_other && is_end && self.sink.sends_words()).then_some(other)
    }

    /// Keeps the wrong length of the last FPDU until the next one begins behind it.
    #[cold]
    pub(super) fn length_until_confirmed(&mut self, fault: RdmapFault, packet_meta: PacketMeta<'_>) {
        if self.sink.records_events() {
            let unconfirmed = self.own.unconfirmed.get_or_insert_default();
            unconfirmed.fault = Some(UnconfirmedFault::new(fault, packet_meta));
        }
    }

    /// Returns the ULPDU_Length that the last FPDU has announced, whose header it is, perhaps with another length.
    pub(super) fn announced_length(&self, header: FpduHeader) -> u16 {
        match self.own.unconfirmed_fault() {
            Some(RdmapFault::UlpduLength { announced, .. }) => announced,
            _ => header.ulpdu_length,
        }
    }

    /// Corrects the Send in reassembly if the place of its next segment shows that the FPDU before has another length,
    /// and reports that FPDU: the message is complete with the bytes of the right length.
    #[inline]
    fn check_send_length(&mut self, segment: &DdpSegment) {
        let Some(change) = self.own.send_gap_before(segment).filter(|change| *change != 0) else { return };
        let Some(last) = self.own.last_fpdu.filter(|last| last.segment.opcode.is_send() && !last.segment.is_last)
        else {
            return;
        };
        let Some(length) = last.other_length(change) else { return };
        self.own.last_fpdu = None;
        self.own.drop_unconfirmed_fault();
        self.own.resize_send(&last, change);
        if let Some(order) = &mut self.own.order {
            order.resize_open(change);
        }
        let fault = RdmapFault::UlpduLength { announced: last.header.ulpdu_length, length };
        self.fault(fault, PacketMeta::new(&[last.frame], last.time));
    }

    /// Reports the FPDU before a tagged segment if the place of the segment in their message shows that it has another
    /// length.
    #[inline(never)]
    fn check_tagged_length(&mut self, segment: &DdpSegment) {
        let has_fault = self.own.unconfirmed_fault().is_some();
        let (Some(order), Some(last)) = (&mut self.own.order, &self.own.last_fpdu) else { return };
        let DdpSegmentDestination::Tagged { stag, offset } = segment.target else { return };
        let Some(change) = order.gap_before(segment) else { return };
        // Another RDMA Write may go to other memory that begins in the next word.
        if last.segment.is_last
            && change > 0
            && !has_fault
            && self
                .sink
                .memory(stag, offset.wrapping_sub(1), RdmaAttribution::default())
                .is_none_or(|(memory, _)| !memory.contains(&offset))
        {
            return;
        }
        let Some(length) = last.other_length(change) else { return };
        order.resize_open(change);
        self.wrong_length(length);
    }

    /// Reports the last FPDU, whose ULPDU has another length in bytes than announced.
    #[cold]
    fn wrong_length(&mut self, length: u16) {
        if let Some(last) = self.own.last_fpdu.take() {
            let fault = RdmapFault::UlpduLength { announced: last.header.ulpdu_length, length };
            self.misframed_fpdu(last, Some(fault));
        }
    }

    /// Handles the end of the last FPDU, if there are no CRCs. `pad` is its padding if it is not zero: the end of the
    /// ULPDU if its length is wrong.
    #[inline]
    pub(super) fn end_fpdu(&mut self, tail: FpduTail, pad: Option<u32>, packet_meta: PacketMeta<'_>) {
        let Some(last) = &mut self.own.last_fpdu else { return };
        last.tail = tail;
        if self.sink.records_events() {
            self.check_ended_fpdu(pad, packet_meta);
        }
    }

    #[inline(never)]
    fn check_ended_fpdu(&mut self, pad: Option<u32>, packet_meta: PacketMeta<'_>) {
        let Some(last) = self.own.last_fpdu else { return };
        let DdpSegment { opcode, is_last, .. } = last.segment;
        let unconfirmed = self.own.unconfirmed_fault();
        if let Some(RdmapFault::ResponseLength { length, requested }) = unconfirmed
            && let Some(length) = last.length_of_message(length, requested.into())
        {
            return self.wrong_length(length);
        }
        if let Some(pad) = pad {
            let fault = RdmapFault::Pad(pad);
            // Another segment or the Reply shows which of the two is wrong.
            if unconfirmed.is_none() && (!is_last || opcode == RdmapOpcode::WRITE) {
                let unconfirmed = self.own.unconfirmed.get_or_insert_default();
                unconfirmed.fault = Some(UnconfirmedFault::new(fault, packet_meta));
            } else {
                self.fault(fault, packet_meta);
            }
        }
        if is_last && opcode.is_send() {
            self.check_ended_writes();
        }
    }

    /// Compares the ends of RDMA Writes with the Reply, if there is one.
    #[inline(never)]
    fn check_ended_writes(&mut self) {
        let Some(unconfirmed) = &self.own.unconfirmed else { return };
        for _ in 0..unconfirmed.ended_writes.len() {
            let Some(ended) = self.own.unconfirmed.as_mut().and_then(|all| all.ended_writes.pop_front()) else {
                return;
            };
            let EndedWrite { fpdu: write, attribution, unconfirmed } = ended;
            let returned = match write.segment.target {
                DdpSegmentDestination::Tagged { stag, offset } => {
                    let memory = self.sink.memory(stag, offset, attribution);
                    memory.and_then(|(memory, returned)| {
                        Some((write.end_of(offset).wrapping_sub(memory.start), u64::from(returned?)))
                    })
                }
                DdpSegmentDestination::Untagged { .. } => None,
            };
            let Some((written, returned)) = returned else {
                self.own.unconfirmed.get_or_insert_default().ended_writes.push_back(ended);
                continue;
            };
            match write.length_of_message(written, returned) {
                Some(length) => {
                    let fault = RdmapFault::UlpduLength { announced: write.header.ulpdu_length, length };
                    self.misframed_fpdu(write, Some(fault));
                }
                None => self.confirm(unconfirmed),
            }
        }
    }

    /// Keeps the last FPDU until the Reply if it ends an RDMA Write.
    #[inline(never)]
    fn keep_write(&mut self) {
        let is_end = |last: &DecodedFpdu| last.segment.is_last && last.segment.opcode == RdmapOpcode::WRITE;
        let Some(last) = self.own.last_fpdu.filter(is_end) else { return };
        let Some(attribution) = self.own.chunk_data_at(last.start) else { return };
        let UnconfirmedLengths { fault, ended_writes } = &mut **self.own.unconfirmed.get_or_insert_default();
        let oldest = if ended_writes.len() < MAX_ENDED_WRITES { None } else { ended_writes.pop_front() };
        ended_writes.push_back(EndedWrite { fpdu: last, attribution, unconfirmed: fault.take() });
        self.confirm(oldest.and_then(|oldest| oldest.unconfirmed));
    }

    /// Records an FPDU whose headers were decoded. `is_proven`: a wrong ULPDU_Length would show.
    #[inline]
    pub(super) fn record_fpdu(
        &mut self,
        (header, segment): (FpduHeader, &DdpSegment),
        (start, is_proven): (StreamPosition, bool),
        packet_meta: &PacketMeta<'_>,
    ) {
        if self.checks_lengths() {
            self.check_send_length(segment);
            if self.sink.records_events() {
                self.check_tagged_length(segment);
                self.keep_write();
            }
        }
        if !is_proven && self.sink.records_events() {
            self.sink.event(*packet_meta, IwarpEvent::UnprovenFpdu);
        }
        self.confirm_fpdu_before();
        let (frame, time) = (packet_meta.last_frame(), packet_meta.time);
        self.own.last_fpdu =
            Some(DecodedFpdu { segment: *segment, header, tail: FpduTail::UNKNOWN, start, frame, time });
    }

    /// Handles an FPDU of a wrong length, and reports it if it is certain. Its content shows nothing else.
    #[cold]
    pub(super) fn misframed_fpdu(&mut self, fpdu: DecodedFpdu, fault: Option<RdmapFault>) {
        let frames = [fpdu.frame];
        let packet_meta = PacketMeta::new(&frames, fpdu.time);
        self.own.drop_unconfirmed_fault();
        if let Some(fault) = fault {
            self.fault(fault, packet_meta);
        }
        if let Some(attribution) = self.own.withdraw_fpdu(fpdu.segment.opcode, fpdu.start) {
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
        if !self.own.process_payload(self.peer, &payload, self.sink) && self.early_place.is_some() {
            self.keep_early(&payload);
        }
    }

    /// Keeps payload that was captured before any bytes of the peer: those that determine its place may follow.
    #[cold]
    fn keep_early(&mut self, payload: &DdpSegmentPayload<'_>) {
        if let Some((sender, acknowledgment)) = self.early_place
            && payload.was_captured()
            && !payload.meta.is_captured_twice()
            && let Some(reason) = self.sink.unplaced_reason()
        {
            let early = self.early.get_or_insert_with(|| Box::new(EarlyData::new(sender)));
            early.add(payload, acknowledgment, reason);
        }
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
