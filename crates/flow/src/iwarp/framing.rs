//! FPDUs in one direction of a stream. RFC 5044 sections 4 to 6.

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::DdpSegment;
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::mpa::{
    FpduHeader, MARKER_INTERVAL, MAX_PRIVATE_DATA_BYTES, Marker, MpaStartupFrame, MpaStartupFrameKind, REPLY_KEY,
    REQUEST_KEY,
};

use super::ddp_segment_payload::{DdpSegmentPayload, FrameTimeRange};
use super::events::{CrcUse, IwarpEventSink};
use super::fpdu_payload_buffering::{FpduHeaderFrames, FpduPayloadBuffer};
use super::fpdu_search::{self, FpduConfidence, FpduSearchBudget, MAX_HEADER_BYTES};
use super::fpdu_sink::{IwarpFpduSink, IwarpSharedState};
use super::markers::MpaMarkerPositions;
use super::messages::{FpduTail, IwarpMessageReassembler};
use super::mpa_recognition;
use super::partial_fpdu::{FpduCrcCheckState, PartialFpdu};
use super::segment_faults;
use super::startup_faults;
use super::stream_byte_cursor::StreamByteCursor;
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{MpaStartupFault, RdmapFault};
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::CapturedPacketPayload;
use crate::stream::stream_bytes::{StreamBytes, StreamPosition};

#[derive(Debug, Default)]
enum MpaFramingState {
    /// Before the first byte: a start-up frame may follow.
    #[default]
    Initial,
    /// In a start-up frame; these are its bytes so far.
    Startup(Vec<u8>),
    /// An FPDU begins at the next byte.
    AtFpduStart(FpduConfidence),
    /// In an FPDU.
    Fpdu(PartialFpdu),
    /// The start of the next FPDU is unknown.
    Lost,
    /// The connection was refused: the following bytes are not MPA.
    Refused {
        /// `true` if the sender of the bytes refused it.
        by_sender: bool,
    },
}

impl MpaFramingState {
    /// Returns `true` if an FPDU begins at the next byte for certain.
    fn is_at_certain_fpdu(&self) -> bool {
        matches!(self, Self::AtFpduStart(FpduConfidence::Certain))
    }
}

/// Framing state of one direction.
#[derive(Debug, Default)]
pub(super) struct MpaStreamDeframer {
    state: MpaFramingState,
    /// `None` if their use or their positions are unknown.
    markers: Option<MpaMarkerPositions>,
    /// Use of markers requested by the other side, if known.
    requested_markers: Option<bool>,
    /// Start of an earlier FPDU: others begin at a multiple of four bytes from it.
    last_fpdu_start: Option<StreamPosition>,
    /// End of the start-up frame; the first marker is here if markers are used.
    startup_end: Option<StreamPosition>,
    /// Position before which the use of markers is not proven: an FPDU is accepted if it fits without any.
    markers_unproven_until: StreamPosition,
    /// `true` if markers inferred from structure were confirmed.
    are_markers_confirmed: bool,
    payload_buffer: FpduPayloadBuffer,
    /// `true` if the positions of FPDUs follow from the start-up frame, from a correct CRC, or from many FPDUs in a
    /// row: only then does a wrong CRC prove damage.
    is_proven: bool,
    /// Number of FPDUs in a row, each of which begins where the one before ends, up to [`MIN_PROVING_FPDUS`].
    fpdus_in_row: u8,
    /// `true` if a fault was reported since: what follows from it is not reported.
    is_blamed: bool,
    /// Budget of the FPDU search in the current bytes.
    search_budget: FpduSearchBudget,
    /// Number of FPDUs in the current bytes whose ULPDU_Length was examined.
    length_checks: u32,
}

/// Length of the shortest FPDU. TCP segments that are shorter have the rest of one.
const MIN_FPDU_BYTES: u32 = (FpduHeader::LENGTH + DdpSegment::TAGGED_HEADER_LENGTH + RunningFpduCrc::LENGTH) as u32;

/// Maximum number of FPDUs in one TCP segment whose ULPDU_Length is examined because their CRC is not where it says.
const MAX_LENGTH_CHECKS: u32 = 4;

/// Number of FPDUs in a row that prove the framing without CRCs, if the start-up frame was not captured: data rarely
/// looks like one header, and not like so many at the places where the FPDUs before end.
const MIN_PROVING_FPDUS: u8 = 8;

/// Returns the reason for bytes in which no FPDU was found.
fn framing_reason(is_cut: bool) -> UndecodedReason {
    if is_cut { UndecodedReason::CutStream } else { UndecodedReason::Framing }
}

impl MpaStreamDeframer {
    /// Handles the other side's request for markers, or for none.
    pub(super) fn set_requested_markers(&mut self, are_needed: bool) {
        self.requested_markers = Some(are_needed);
        if !are_needed && self.markers.is_none() {
            self.markers = Some(MpaMarkerPositions::Off);
        }
    }

    /// Handles a connection that the sender of this direction, or its peer, refused.
    pub(super) fn set_refused(&mut self, by_sender: bool) {
        self.state = MpaFramingState::Refused { by_sender };
        self.payload_buffer.clear();
    }

    /// Returns `true` if the next bytes are the content of an FPDU, or one, with or without its CRC, that continues the
    /// last tagged segment.
    #[inline]
    pub(super) fn is_within_payload(
        &self,
        data: CapturedPacketPayload<'_>,
        messages: &IwarpMessageReassembler,
    ) -> bool {
        let length = data.length as usize;
        match &self.state {
            MpaFramingState::Fpdu(fpdu) => fpdu.has_payload_of(length),
            MpaFramingState::AtFpduStart(FpduConfidence::Certain) => {
                let Some((header, ulpdu)) = FpduHeader::decode(data.bytes, 0, &mut NullFieldObserver) else {
                    return false;
                };
                let end = header.fpdu_length();
                (length == end || length + RunningFpduCrc::LENGTH == end)
                    && DdpSegment::tagged_destination(ulpdu)
                        .is_some_and(|(stag, offset)| messages.is_continued_at(stag, offset))
            }
            _ => false,
        }
    }

    /// Returns the memory of the buffered payload in bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.payload_buffer.memory_bytes()
    }

    /// Drops the buffered payload and skips the rest of its FPDU.
    pub(super) fn drop_buffered(&mut self) {
        self.payload_buffer.clear();
        if let MpaFramingState::Fpdu(fpdu) = &mut self.state {
            (fpdu.segment, fpdu.is_buffered) = (None, false);
        }
    }

    #[inline]
    pub(super) fn process(&mut self, stream_bytes: StreamBytes<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        let mut cursor = StreamByteCursor::new(stream_bytes);
        self.search_budget = FpduSearchBudget::for_segment(cursor.bytes.len());
        self.length_checks = 0;
        self.recheck_tentative_fpdu(&cursor, out);
        self.recheck_fpdu_length(&cursor, out);
        let tcp_segment = cursor;
        while cursor.length > 0 {
            match self.state {
                MpaFramingState::AtFpduStart(confidence) => {
                    let confidence = if cursor.at < self.markers_unproven_until {
                        self.confidence_at_start(&cursor, out)
                    } else {
                        confidence
                    };
                    if confidence == FpduConfidence::Tentative || !self.process_contiguous_fpdu(&mut cursor, out) {
                        let is_aligned = cursor.at == tcp_segment.at && cursor.length >= MIN_FPDU_BYTES;
                        self.begin_fpdu(cursor.at, confidence, is_aligned, out.shared.crc_use);
                        cursor.had_payload = false;
                    }
                }
                MpaFramingState::Fpdu(_) => self.process_fpdu(&mut cursor, out),
                // MPA may start on a stream that carried another protocol before.
                MpaFramingState::Lost
                    if MpaStartupFrameKind::from_key(cursor.bytes.get(..REQUEST_KEY.len()).unwrap_or_default())
                        .is_some() =>
                {
                    self.state = MpaFramingState::Startup(Vec::new());
                }
                MpaFramingState::Lost => self.resynchronize(&mut cursor, out),
                MpaFramingState::Initial if begins_startup(cursor.bytes) => {
                    self.state = MpaFramingState::Startup(Vec::new())
                }
                MpaFramingState::Initial => self.state = MpaFramingState::Lost,
                MpaFramingState::Startup(_) => self.process_startup(&mut cursor, out),
                // The connection may be requested again.
                MpaFramingState::Refused { .. } if begins_startup(cursor.bytes) => {
                    self.state = MpaFramingState::Startup(Vec::new())
                }
                // Both sides may use it nevertheless.
                MpaFramingState::Refused { by_sender }
                    if mpa_recognition::begins_fpdu(
                        CapturedPacketPayload { bytes: cursor.bytes, length: cursor.length },
                        false,
                    ) =>
                {
                    if by_sender {
                        out.fault(RdmapFault::Startup(MpaStartupFault::UsedAfterRejection), cursor.meta);
                    }
                    self.state = MpaFramingState::Lost;
                }
                MpaFramingState::Refused { .. } => return,
            }
        }
        self.recheck_cut_header(tcp_segment.meta, out);
    }

    /// Returns `true` if a fault at the current position is certain, and not what follows from an earlier one.
    fn reports_faults(&self) -> bool {
        self.is_proven && !self.is_blamed
    }

    /// Returns `true` if a wrong ULPDU_Length would show.
    fn shows_lengths(&self) -> bool {
        self.is_proven && self.markers == Some(MpaMarkerPositions::Off)
    }

    /// Handles an FPDU that begins where the one before ends. `at` is its start.
    fn record_fpdu_in_row(&mut self, at: StreamPosition) {
        if self.fpdus_in_row < MIN_PROVING_FPDUS && at >= self.markers_unproven_until {
            self.fpdus_in_row += 1;
            if self.fpdus_in_row == MIN_PROVING_FPDUS && self.markers == Some(MpaMarkerPositions::Off) {
                (self.is_proven, self.is_blamed) = (true, false);
            }
        }
    }

    /// Handles a position of an FPDU that is uncertain.
    fn lose_proof(&mut self) {
        (self.is_proven, self.fpdus_in_row) = (false, 0);
    }

    /// Handles a reported fault: what follows may be its consequence.
    fn blame(&mut self) {
        (self.is_blamed, self.fpdus_in_row) = (true, 0);
    }

    /// Returns `true` if the length of an FPDU of this confidence is checked without a CRC.
    fn checks_length(&self, confidence: FpduConfidence, out: &IwarpFpduSink<'_, impl IwarpEventSink>) -> bool {
        self.is_proven && confidence == FpduConfidence::Certain && out.checks_lengths()
    }

    /// Handles a CRC: a correct one proves the positions of FPDUs.
    fn record_crc(&mut self, is_right: bool) {
        if is_right {
            (self.is_proven, self.is_blamed) = (true, false);
        }
    }

    /// Returns `true` if the position of the last FPDU is certain, and nothing but the FPDU behind it shows its length.
    fn lacks_proof_of_length(&self, shared: &IwarpSharedState) -> bool {
        self.is_proven && shared.crc_use == CrcUse::No && self.markers == Some(MpaMarkerPositions::Off)
    }

    /// Ends an FPDU in the middle of which the next one begins, with a TCP segment: its ULPDU_Length is wrong.
    #[inline]
    fn recheck_fpdu_length(&mut self, cursor: &StreamByteCursor<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        if let MpaFramingState::Fpdu(PartialFpdu {
            confidence: FpduConfidence::Certain,
            header,
            captured_bytes,
            segment: current,
            ..
        }) = self.state
            && self.is_proven
            && !matches!(out.shared.crc_use, CrcUse::Unknown { .. })
            && self.markers == Some(MpaMarkerPositions::Off)
            && segment_faults::first_segment(cursor.bytes)
                .is_some_and(|segment| out.expects(&segment, current.as_ref()))
            && let (Some(start), Some(last)) = (self.last_fpdu_start, out.own.last_fpdu.take())
        {
            let overhead = FpduHeader::LENGTH + RunningFpduCrc::LENGTH;
            let length = cursor.at.saturating_sub(start).saturating_sub(overhead as u64) as u16;
            // Without a header, these bytes are the end of the FPDU before.
            let fault = header.map_or(RdmapFault::NoFpduBehind, |header| RdmapFault::UlpduLength {
                announced: out.announced_length(header),
                length,
            });
            out.misframed_fpdu(last, self.reports_faults().then_some(fault));
            out.shared.counts.skipped_bytes += captured_bytes;
            self.payload_buffer.clear();
            out.lost_bytes(UndecodedReason::Framing, cursor.meta.time);
            self.lose_proof();
            self.state = MpaFramingState::AtFpduStart(FpduConfidence::Certain);
        }
    }

    /// Ends the framing at bytes behind an FPDU that end with the TCP segment and begin no FPDU.
    #[inline]
    fn recheck_cut_header(&mut self, packet_meta: PacketMeta<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        if let MpaFramingState::Fpdu(PartialFpdu {
            header: None,
            confidence: FpduConfidence::Certain,
            headers,
            processed_bytes,
            captured_bytes,
            is_aligned,
            ..
        }) = &self.state
            && *captured_bytes == *processed_bytes as u64
            && self.lacks_proof_of_length(out.shared)
            && !segment_faults::may_begin_fpdu(headers.get(..*processed_bytes).unwrap_or_default())
        {
            let (is_aligned, captured) = (*is_aligned, *captured_bytes);
            self.lose_fpdu(is_aligned, captured, packet_meta, out);
        }
    }

    /// Reports that no FPDU is behind the last one, if framing is proven, and enters the search state. `is_aligned`:
    /// the last one ended with a TCP segment, so that its length is right.
    #[cold]
    fn lose_fpdu(
        &mut self,
        is_aligned: bool,
        captured_bytes: u64,
        packet_meta: PacketMeta<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        let reports_faults = self.reports_faults();
        match out.own.last_fpdu.take_if(|_| !is_aligned) {
            Some(last) => out.misframed_fpdu(last, reports_faults.then_some(RdmapFault::NoFpduBehind)),
            None => {
                out.confirm_fpdu_before();
                if reports_faults {
                    out.fault(RdmapFault::NoFpdu, packet_meta);
                }
            }
        }
        self.drop_fpdu(captured_bytes, packet_meta, out);
    }

    /// Enters the search state at bytes that are no FPDU.
    fn drop_fpdu(
        &mut self,
        captured_bytes: u64,
        packet_meta: PacketMeta<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        self.resolve_unconfirmed_fpdu(false, out);
        out.shared.counts.skipped_bytes += captured_bytes;
        out.undecoded(UndecodedReason::Framing, packet_meta);
        self.lose_sync(out.shared);
    }

    /// Returns `true` if no bytes were processed.
    #[inline]
    pub(super) fn is_initial(&self) -> bool {
        matches!(self.state, MpaFramingState::Initial)
    }

    /// Returns `true` if the last FPDU has not ended.
    pub(super) fn is_within_fpdu(&self) -> bool {
        matches!(self.state, MpaFramingState::Fpdu(_))
    }

    /// Discards a tentative FPDU if a certain one begins with a segment in the middle of it.
    #[inline]
    fn recheck_tentative_fpdu(
        &mut self,
        cursor: &StreamByteCursor<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        let MpaFramingState::Fpdu(PartialFpdu {
            confidence: FpduConfidence::Tentative, captured_bytes: captured, ..
        }) = &self.state
        else {
            return;
        };
        if let Some(MpaMarkerPositions::At(_)) = self.markers {
            return;
        }
        let fpdu =
            fpdu_search::find_at_start(&cursor.to_search_bytes(&self.search_budget), |stag| out.knows_memory(stag));
        if let Some(fpdu) = fpdu
            && (fpdu.confidence, fpdu.markers) == (FpduConfidence::Certain, MpaMarkerPositions::Off)
        {
            out.shared.counts.skipped_bytes += captured;
            self.payload_buffer.reject(UndecodedReason::Framing, out);
            self.markers = Some(MpaMarkerPositions::Off);
            self.state = MpaFramingState::AtFpduStart(FpduConfidence::Certain);
            self.lose_proof();
        }
    }

    /// Processes a contiguous FPDU without markers; nothing is copied. Returns `true` if it did.
    #[inline]
    fn process_contiguous_fpdu(
        &mut self,
        cursor: &mut StreamByteCursor<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) -> bool {
        if self.markers != Some(MpaMarkerPositions::Off) {
            return false;
        }
        let Some((header, _)) = FpduHeader::decode(cursor.bytes, 0, &mut NullFieldObserver) else {
            return false;
        };
        let (length, ulpdu_length) = (header.fpdu_length(), usize::from(header.ulpdu_length));
        if length > cursor.length as usize {
            // The next TCP segment shows where it ends.
            if out.records_events() {
                self.check_request_length(cursor, out);
                if self.check_ulpdu_length(cursor, header, out).is_some() {
                    self.blame();
                }
            }
            return false;
        }
        let ulpdu = CapturedSlice::new(cursor.bytes, cursor.length as usize, 0)
            .skip_bytes(FpduHeader::LENGTH)
            .with_length(ulpdu_length);
        let Some((segment, payload)) = DdpSegment::decode(ulpdu, &mut NullFieldObserver) else {
            if out.records_events() && self.reports_faults() {
                let rest = cursor.bytes.get(FpduHeader::LENGTH..).unwrap_or_default();
                if let Some(fault) = segment_faults::length_fault(header, rest) {
                    out.fault(fault, cursor.meta);
                    self.blame();
                }
            }
            return false;
        };
        if !segment.is_plausible(ulpdu_length) {
            let is_start = self.is_proven && self.state.is_at_certain_fpdu();
            let fault =
                is_start.then(|| segment_faults::fault_of_fpdu(cursor.bytes, header, out.shared.crc_use)).flatten();
            if let Some(kind) = fault
                && self.reports_faults()
            {
                out.transport_event(kind, cursor.meta);
            }
            if fault.is_none() {
                if out.records_events() {
                    self.check_request_length(cursor, out);
                }
                return false;
            }
            if !segment.is_acceptable(ulpdu_length) {
                self.lose_proof();
                return false;
            }
        }
        if self.lacks_proof_of_length(out.shared)
            && self.state.is_at_certain_fpdu()
            && !may_continue_with(cursor, length)
        {
            let fpdu = cursor.take(length as u32);
            self.last_fpdu_start = Some(fpdu.at);
            out.record_fpdu((header, &segment), (fpdu.at, true), &fpdu.meta);
            self.lose_fpdu(false, fpdu.bytes.len() as u64, fpdu.meta, out);
            return true;
        }
        let checks_length = matches!(self.state, MpaFramingState::AtFpduStart(c) if self.checks_length(c, out));
        let (mut header, mut ulpdu_length, mut payload) = (header, ulpdu_length, payload);
        if checks_length && let Some(other) = out.length_in_words(header, &segment) {
            if self.reports_faults() {
                let (announced, length) = (header.ulpdu_length, other.ulpdu_length);
                out.fault(RdmapFault::UlpduLength { announced, length }, cursor.meta);
            }
            header = other;
            ulpdu_length = usize::from(header.ulpdu_length);
            payload = CapturedSlice::new(cursor.bytes, cursor.length as usize, 0)
                .skip_bytes(FpduHeader::LENGTH + segment.header_length())
                .with_length(ulpdu_length - segment.header_length());
        }
        let covered = length - RunningFpduCrc::LENGTH;
        let is_accepted = match (out.shared.crc_use, cursor.bytes.get(..covered), cursor.bytes.get(covered..length)) {
            (CrcUse::No, ..) => {
                out.shared.counts.absent += 1;
                true
            }
            (_, Some(covered), Some(field)) => {
                let is_right = RunningFpduCrc::compute(covered).to_wire_bytes() == field;
                self.record_crc(is_right);
                out.shared.record_crc_result(is_right)
            }
            _ => {
                out.shared.counts.unknown += 1;
                true
            }
        };
        self.last_fpdu_start = Some(cursor.at);
        self.record_fpdu_in_row(cursor.at);
        self.resolve_unconfirmed_fpdu(true, out);
        out.record_fpdu((header, &segment), (cursor.at, self.shows_lengths()), &cursor.meta);
        let end = if is_accepted { None } else { self.check_ulpdu_length(cursor, header, out) };
        let fpdu = cursor.take(end.unwrap_or(length) as u32);
        if !is_accepted {
            out.shared.counts.refused_bytes += fpdu.bytes.len() as u64;
            out.refused_fpdu(self.reports_faults() && end.is_none(), fpdu.meta);
            out.undecoded(UndecodedReason::BadCrc, fpdu.meta);
            return true;
        }
        let pad = fpdu.bytes.get(FpduHeader::LENGTH + ulpdu_length..covered).unwrap_or_default();
        let pad = self.reports_faults().then(|| segment_faults::pad_value(pad)).filter(|pad| *pad != 0);
        let pad = pad.filter(|_| may_end_fpdu(cursor));
        if let Some(pad) = pad.filter(|_| !checks_length) {
            out.fault(RdmapFault::Pad(pad), fpdu.meta);
        }
        let payload_at = fpdu.at + (FpduHeader::LENGTH + segment.header_length()) as u64;
        let length = payload.length as u32;
        out.payload(DdpSegmentPayload {
            segment: &segment,
            length,
            offset: 0,
            data: CapturedPacketPayload { bytes: payload.bytes, length },
            range: payload_at..payload_at + u64::from(length),
            meta: fpdu.meta,
            times: FrameTimeRange::at(fpdu.meta.time),
        });
        if checks_length {
            let mut tail = FpduTail::UNKNOWN;
            if let Some(covered) = fpdu.bytes.get(..covered) {
                tail = FpduTail::EMPTY;
                tail.append(covered);
            }
            out.end_fpdu(tail, pad, fpdu.meta);
        }
        true
    }

    /// Reports an FPDU with a wrong ULPDU_Length, and returns its length in bytes.
    #[inline(never)]
    fn check_ulpdu_length(
        &mut self,
        cursor: &StreamByteCursor<'_>,
        header: FpduHeader,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) -> Option<usize> {
        let is_certain =
            self.is_proven && out.shared.crc_use == CrcUse::Yes && !cursor.is_cut() && self.state.is_at_certain_fpdu();
        if !is_certain || self.length_checks >= MAX_LENGTH_CHECKS {
            return None;
        }
        self.length_checks += 1;
        let (fault, end) = segment_faults::ulpdu_length_fault(cursor.bytes, header)?;
        if self.reports_faults() {
            out.fault(fault, cursor.meta);
        }
        Some(end)
    }

    /// Reports an RDMA Read Request whose ULPDU_Length is wrong: its other bytes show where it ends.
    #[inline(never)]
    fn check_request_length(
        &mut self,
        cursor: &StreamByteCursor<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        if self.reports_faults()
            && self.state.is_at_certain_fpdu()
            && let Some(fault) = segment_faults::fault_of_request_length(cursor, out.shared.crc_use)
        {
            out.transport_event(fault, cursor.meta);
            self.blame();
        }
    }

    /// Begins an FPDU that is not contiguous, or has markers in it. `is_aligned`: a TCP segment begins with it.
    fn begin_fpdu(&mut self, at: StreamPosition, confidence: FpduConfidence, is_aligned: bool, crc_use: CrcUse) {
        let check = match crc_use {
            CrcUse::No => FpduCrcCheckState::Unused,
            _ => FpduCrcCheckState::Running(RunningFpduCrc::default()),
        };
        self.last_fpdu_start = Some(at);
        self.state = MpaFramingState::Fpdu(PartialFpdu {
            headers: [0; MAX_HEADER_BYTES],
            processed_bytes: 0,
            header: None,
            segment: None,
            crc_check: check,
            is_buffered: confidence == FpduConfidence::Tentative || crc_use == CrcUse::Yes,
            confidence,
            is_aligned,
            crc_field: [0; RunningFpduCrc::LENGTH],
            tail: FpduTail::EMPTY,
            captured_bytes: 0,
            header_frames: FpduHeaderFrames::default(),
        });
    }

    fn process_fpdu(&mut self, cursor: &mut StreamByteCursor<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        let markers = self.markers.unwrap_or_default();
        let marker_bytes = markers.remaining_marker_bytes(cursor.at);
        if marker_bytes > 0 {
            let marker = cursor.take(marker_bytes.min(u64::from(cursor.length)) as u32);
            fpdu.update_crc(&marker);
            if let Some(start) = self.last_fpdu_start
                && self.requested_markers == Some(true)
                && let Some(fault) = segment_faults::marker_fault(&marker, start)
            {
                out.fault(fault, marker.meta);
            }
            self.attribute_frame(&marker, cursor);
            return;
        }
        let until_marker = markers.next_marker(cursor.at).map_or(u64::MAX, |next| next - cursor.at);
        let max_length = until_marker.min(u64::from(cursor.length)) as u32;
        let Some(header) = fpdu.header else { return self.process_headers(cursor, max_length, out) };
        let payload_at = FpduHeader::LENGTH + fpdu.segment.map_or(MAX_HEADER_BYTES, |segment| segment.header_length());
        let ulpdu_end = FpduHeader::LENGTH + usize::from(header.ulpdu_length);
        let crc_at = ulpdu_end + header.pad();
        let end = header.fpdu_length();
        let Some(segment) = fpdu.segment.filter(|_| fpdu.processed_bytes < crc_at) else {
            if fpdu.processed_bytes >= crc_at {
                let field = cursor.take(max_length.min((end - fpdu.processed_bytes) as u32));
                let crc_offset = fpdu.processed_bytes - crc_at;
                match fpdu.crc_field.get_mut(crc_offset..crc_offset + field.bytes.len()) {
                    Some(target) if !field.is_cut() => target.copy_from_slice(field.bytes),
                    _ => fpdu.mark_crc_missing(),
                }
                fpdu.captured_bytes += field.bytes.len() as u64;
                fpdu.processed_bytes += field.length as usize;
                let is_over = fpdu.processed_bytes == end;
                self.attribute_frame(&field, cursor);
                if is_over {
                    self.end_fpdu(field.meta, cursor, out);
                }
                return;
            }
            // Its headers were not captured: it is skipped.
            let skipped = cursor.take(max_length.min((crc_at - fpdu.processed_bytes) as u32));
            fpdu.update_crc(&skipped);
            fpdu.processed_bytes += skipped.length as usize;
            out.lost_fpdus();
            if !skipped.bytes.is_empty() {
                out.shared.counts.skipped_bytes += skipped.bytes.len() as u64;
                // A snap length removed its headers.
                out.undecoded(UndecodedReason::CutFrame, skipped.meta);
            }
            return;
        };
        if fpdu.processed_bytes >= ulpdu_end {
            let pad = cursor.take(max_length.min((crc_at - fpdu.processed_bytes) as u32));
            fpdu.update_crc(&pad);
            fpdu.processed_bytes += pad.length as usize;
            self.attribute_frame(&pad, cursor);
            return;
        }
        let data = cursor.take(max_length.min((ulpdu_end - fpdu.processed_bytes) as u32));
        cursor.had_payload = true;
        let length = (ulpdu_end - payload_at) as u32;
        let offset = (fpdu.processed_bytes - payload_at) as u32;
        fpdu.update_crc(&data);
        fpdu.processed_bytes += data.length as usize;
        let payload = DdpSegmentPayload {
            segment: &segment,
            length,
            offset,
            data: CapturedPacketPayload { bytes: data.bytes, length: data.length },
            range: data.at..data.at + u64::from(data.length),
            meta: data.meta,
            times: FrameTimeRange::at(data.meta.time),
        };
        if fpdu.is_buffered
            && fpdu.crc_check == FpduCrcCheckState::Missing
            && fpdu.confidence == FpduConfidence::Certain
        {
            // The CRC cannot be checked.
            fpdu.is_buffered = false;
            self.payload_buffer.deliver(&segment, length, out);
        }
        let trailer_end = markers.end_of(cursor.at, (end - fpdu.processed_bytes) as u64);
        self.emit_or_buffer_payload(payload, trailer_end - cursor.at <= u64::from(cursor.length), out);
    }

    /// Delivers payload, or buffers it if its trailer is not in the current bytes, to wait for the frames of
    /// the trailer.
    fn emit_or_buffer_payload(
        &mut self,
        payload: DdpSegmentPayload<'_>,
        has_trailer: bool,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        fpdu.is_buffered |= payload.is_end() && !has_trailer;
        let (is_buffered, buffer) = (fpdu.is_buffered, &mut self.payload_buffer);
        fpdu.header_frames.pass_with_frames(payload, |payload| {
            if is_buffered { buffer.push(&payload) } else { out.payload(payload) }
        });
    }

    /// Attributes the frame of bytes without payload to the payload of their FPDU.
    fn attribute_frame(&mut self, consumed: &StreamByteCursor<'_>, rest: &StreamByteCursor<'_>) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        if fpdu.is_in_trailer() {
            self.payload_buffer.add_trailer_frames(consumed.meta);
        } else if rest.length == 0 && !rest.had_payload {
            fpdu.header_frames.add(consumed.meta);
        }
    }

    fn process_headers(
        &mut self,
        cursor: &mut StreamByteCursor<'_>,
        max_length: u32,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        let needed = if self.markers.is_none() { FpduHeader::LENGTH } else { fpdu.needed_header_bytes() };
        let data = cursor.take(max_length.min((needed - fpdu.processed_bytes) as u32));
        fpdu.update_crc(&data);
        if let Some(target) = fpdu.headers.get_mut(fpdu.processed_bytes..fpdu.processed_bytes + data.bytes.len()) {
            target.copy_from_slice(data.bytes);
        }
        let captured_length = fpdu.processed_bytes + data.bytes.len();
        fpdu.processed_bytes += data.length as usize;
        if cursor.length == 0 {
            fpdu.header_frames.add(data.meta);
        }
        if data.is_cut() {
            out.lost_fpdus();
            // It can be skipped if its length is known.
            let header = fpdu
                .headers
                .get(..captured_length)
                .and_then(|bytes| FpduHeader::decode(bytes, 0, &mut NullFieldObserver));
            match header {
                Some((header, _)) if usize::from(header.ulpdu_length) >= DdpSegment::TAGGED_HEADER_LENGTH => {
                    fpdu.header = Some(header);
                    if !data.meta.frames.is_empty() {
                        out.undecoded(UndecodedReason::CutFrame, data.meta);
                    }
                    self.resolve_unconfirmed_fpdu(false, out);
                }
                _ => self.lose_sync(out.shared),
            }
            return;
        }
        // If the use of markers is unknown, the first word decides it: no ULPDU has length zero.
        if self.markers.is_none() && fpdu.processed_bytes == FpduHeader::LENGTH {
            self.markers = Some(MpaMarkerPositions::Off);
            let is_marker = matches!(fpdu.headers, [0, 0, ..]);
            if !is_marker && self.requested_markers == Some(true) && self.last_fpdu_start == self.startup_end {
                out.fault(RdmapFault::NoMarkers, data.meta);
            }
            if is_marker && let Some(began) = self.last_fpdu_start {
                self.markers = Some(MpaMarkerPositions::At(began));
                self.are_markers_confirmed = true;
                fpdu.processed_bytes = 0;
                return;
            }
        }
        if fpdu.processed_bytes < fpdu.needed_header_bytes() {
            return;
        }
        let bytes = fpdu.headers.get(..fpdu.processed_bytes).unwrap_or_default();
        let decoded = FpduHeader::decode(bytes, 0, &mut NullFieldObserver).and_then(|(header, rest)| {
            let length = usize::from(header.ulpdu_length);
            let (segment, _) = DdpSegment::decode(CapturedSlice::new(rest, length, 0), &mut NullFieldObserver)?;
            segment.is_plausible(length).then_some((header, segment))
        });
        let Some((header, segment)) = decoded else {
            let captured = fpdu.captured_bytes;
            let is_marker = fpdu.headers.starts_with(&[0; Marker::LENGTH]);
            if is_marker && self.requested_markers == Some(false) && self.last_fpdu_start == self.startup_end {
                out.fault(RdmapFault::UnrequestedMarkers, data.meta);
            } else if out.shared.crc_use == CrcUse::No && fpdu.confidence == FpduConfidence::Certain {
                // With CRCs, that of the FPDU before is wrong, too.
                let is_aligned = fpdu.is_aligned;
                return self.lose_fpdu(is_aligned, captured, data.meta, out);
            }
            return self.drop_fpdu(captured, data.meta, out);
        };
        let confidence = fpdu.confidence;
        let other = self.checks_length(confidence, out).then(|| out.length_in_words(header, &segment)).flatten();
        let announced = header.ulpdu_length;
        let header = other.unwrap_or(header);
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        (fpdu.header, fpdu.segment) = (Some(header), Some(segment));
        let payload_length = usize::from(header.ulpdu_length) - segment.header_length();
        let at = data.at + u64::from(data.length);
        self.resolve_unconfirmed_fpdu(true, out);
        let start = self.last_fpdu_start.unwrap_or_default();
        self.record_fpdu_in_row(start);
        out.record_fpdu((header, &segment), (start, self.shows_lengths()), &data.meta);
        if other.is_some() && self.reports_faults() {
            // It may end elsewhere: the next FPDU shows it.
            out.length_until_confirmed(RdmapFault::UlpduLength { announced, length: header.ulpdu_length }, data.meta);
        }
        if payload_length == 0 {
            let payload = DdpSegmentPayload {
                segment: &segment,
                length: 0,
                offset: 0,
                data: CapturedPacketPayload::default(),
                range: at..at,
                meta: data.meta,
                times: FrameTimeRange::at(data.meta.time),
            };
            let markers = self.markers.unwrap_or_default();
            let trailer_end = markers.end_of(cursor.at, (header.pad() + RunningFpduCrc::LENGTH) as u64);
            self.emit_or_buffer_payload(payload, trailer_end - cursor.at <= u64::from(cursor.length), out);
        }
    }

    /// Confirms or rejects the previous FPDU, which waited for its successor.
    fn resolve_unconfirmed_fpdu(&mut self, is_one: bool, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        if let Some((segment, length, _)) = self.payload_buffer.unconfirmed.take() {
            self.are_markers_confirmed |= is_one && self.markers != Some(MpaMarkerPositions::Off);
            if is_one {
                self.payload_buffer.deliver(&segment, length, out)
            } else {
                self.payload_buffer.reject(UndecodedReason::Framing, out)
            }
        }
    }

    fn end_fpdu(
        &mut self,
        packet_meta: PacketMeta<'_>,
        rest: &StreamByteCursor<'_>,
        out: &mut IwarpFpduSink<'_, impl IwarpEventSink>,
    ) {
        let MpaFramingState::Fpdu(fpdu) =
            std::mem::replace(&mut self.state, MpaFramingState::AtFpduStart(FpduConfidence::Certain))
        else {
            return;
        };
        let crc_result = match fpdu.crc_check {
            FpduCrcCheckState::Unused => {
                out.shared.counts.absent += 1;
                None
            }
            FpduCrcCheckState::Missing => {
                out.shared.counts.unknown += 1;
                None
            }
            FpduCrcCheckState::Running(crc) => {
                let is_right = crc.to_wire_bytes() == fpdu.crc_field;
                self.record_crc(is_right);
                let is_believed = out.shared.record_crc_result(is_right);
                Some((is_right, is_believed))
            }
        };
        let (Some(header), Some(segment)) = (fpdu.header, fpdu.segment) else { return };
        let length = (usize::from(header.ulpdu_length) - segment.header_length()) as u32;
        let is_accepted = !matches!(crc_result, Some((_, false)));
        let is_certain = self.reports_faults() && fpdu.confidence == FpduConfidence::Certain;
        let checks_length = self.checks_length(fpdu.confidence, out) && may_end_fpdu(rest);
        let pad = fpdu.tail.last(header.pad()).filter(|pad| *pad != 0 && is_accepted && is_certain);
        let pad = pad.filter(|_| may_end_fpdu(rest));
        if let Some(pad) = pad.filter(|_| !checks_length) {
            out.fault(RdmapFault::Pad(pad), packet_meta);
        }
        match crc_result {
            Some((_, false)) => {
                out.shared.counts.refused_bytes += fpdu.captured_bytes;
                let fault = match fpdu.crc_check {
                    FpduCrcCheckState::Running(crc) if is_certain && out.records_events() => {
                        segment_faults::padded_length_fault(header, crc, fpdu.crc_field)
                    }
                    _ => None,
                };
                out.refused_fpdu(is_certain && fault.is_none(), packet_meta);
                if let Some(fault) = fault {
                    out.fault(fault, packet_meta);
                }
                if fpdu.is_buffered {
                    self.payload_buffer.reject(UndecodedReason::BadCrc, out);
                } else {
                    out.undecoded(UndecodedReason::BadCrc, packet_meta);
                }
            }
            // If no correct CRC confirms that it is an FPDU, its successor will.
            Some((false, true)) | None if fpdu.confidence == FpduConfidence::Tentative => {
                self.payload_buffer.unconfirmed = Some((segment, length, fpdu.captured_bytes));
            }
            _ if fpdu.is_buffered => self.payload_buffer.deliver(&segment, length, out),
            _ => {}
        }
        if checks_length {
            out.end_fpdu(fpdu.tail, pad, packet_meta);
        }
    }

    /// Enters the search state: the start of the next FPDU is unknown.
    fn lose_sync(&mut self, shared: &mut IwarpSharedState) {
        if let Some((.., captured)) = self.payload_buffer.unconfirmed {
            shared.counts.skipped_bytes += captured;
        }
        self.payload_buffer.clear();
        self.state = MpaFramingState::Lost;
        self.lose_proof();
        // Inferred from structure, possibly wrong.
        match (self.requested_markers, self.startup_end) {
            (Some(true), Some(start)) => self.markers = Some(MpaMarkerPositions::At(start)),
            (None, _) if !self.are_markers_confirmed => self.markers = None,
            _ => {}
        }
    }

    /// Searches for the start of an FPDU.
    fn resynchronize(&mut self, cursor: &mut StreamByteCursor<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        let fpdu = fpdu_search::find(
            &cursor.to_search_bytes(&self.search_budget),
            self.markers,
            self.last_fpdu_start,
            |stag| out.knows_memory(stag),
        );
        let skipped = cursor.take(fpdu.as_ref().map_or(cursor.length, |fpdu| fpdu.offset as u32));
        if !skipped.bytes.is_empty() {
            out.shared.counts.skipped_bytes += skipped.bytes.len() as u64;
            out.undecoded(framing_reason(skipped.is_cut()), skipped.meta);
        }
        if let Some(fpdu) = fpdu {
            if self.markers.is_none() && fpdu.markers == MpaMarkerPositions::Off {
                self.markers_unproven_until = cursor.at + MARKER_INTERVAL;
            }
            self.are_markers_confirmed |=
                fpdu.markers != MpaMarkerPositions::Off && fpdu.confidence == FpduConfidence::Certain;
            self.markers = Some(fpdu.markers);
            self.state = MpaFramingState::AtFpduStart(fpdu.confidence);
        }
    }

    /// Returns the confidence in an FPDU that begins here while the use of markers is not proven.
    fn confidence_at_start(
        &mut self,
        cursor: &StreamByteCursor<'_>,
        out: &IwarpFpduSink<'_, impl IwarpEventSink>,
    ) -> FpduConfidence {
        let fpdu =
            fpdu_search::find_at_start(&cursor.to_search_bytes(&self.search_budget), |stag| out.knows_memory(stag));
        let markers = fpdu.map_or(MpaMarkerPositions::Off, |fpdu| fpdu.markers);
        self.markers = Some(markers);
        if markers != MpaMarkerPositions::Off {
            self.markers_unproven_until = 0;
        }
        self.are_markers_confirmed =
            markers != MpaMarkerPositions::Off && fpdu.is_some_and(|fpdu| fpdu.confidence == FpduConfidence::Certain);
        fpdu.map_or(FpduConfidence::Tentative, |fpdu| fpdu.confidence)
    }

    fn process_startup(&mut self, cursor: &mut StreamByteCursor<'_>, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        let MpaFramingState::Startup(bytes) = &mut self.state else { return };
        let length_before = bytes.len();
        if length_before >= MpaStartupFrame::FIXED_LENGTH && segment_faults::begins_fpdu(cursor.bytes) {
            // Its private data has ended, whatever its length says.
            if let Some((startup, fault)) = startup_faults::shorter_frame(bytes) {
                out.startup(startup, cursor.meta);
                out.fault(RdmapFault::Startup(fault), cursor.meta);
            }
            return self.begin_fpdus(cursor.at);
        }
        let max_length = MpaStartupFrame::FIXED_LENGTH + MAX_PRIVATE_DATA_BYTES - length_before;
        bytes.extend_from_slice(cursor.bytes.get(..max_length).unwrap_or(cursor.bytes));
        let Some(startup) = MpaStartupFrame::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullFieldObserver)
        else {
            let is_short = bytes.len() < MpaStartupFrame::FIXED_LENGTH && !cursor.is_cut();
            cursor.take(cursor.length);
            if !is_short {
                if let Some(fault) = startup_faults::length_fault(bytes) {
                    out.fault(RdmapFault::Startup(fault), cursor.meta);
                }
                self.state = MpaFramingState::Lost;
            }
            return;
        };
        let is_whole = bytes.len() >= startup.length;
        if !is_whole && !cursor.is_cut() {
            cursor.take(cursor.length);
            return;
        }
        // Truncated bytes of it are skipped by its length.
        let remaining_length = (startup.length - length_before).min(cursor.length as usize);
        let data = cursor.take(remaining_length as u32);
        let end = data.at + remaining_length as u64;
        out.startup(startup, data.meta);
        self.begin_fpdus(end);
    }

    /// Expects the first FPDU at this position, behind the start-up frame.
    fn begin_fpdus(&mut self, at: StreamPosition) {
        (self.last_fpdu_start, self.startup_end) = (Some(at), Some(at));
        (self.is_proven, self.is_blamed) = (true, false);
        self.state = MpaFramingState::AtFpduStart(FpduConfidence::Certain);
    }

    /// Ends the direction: nothing more will come, or bytes that do not follow the last ones.
    pub(super) fn finish(&mut self, out: &mut IwarpFpduSink<'_, impl IwarpEventSink>) {
        out.confirm_writes();
        self.last_fpdu_start = None;
        let MpaFramingState::Fpdu(fpdu) = &self.state else { return out.confirm_fpdu_before() };
        let (Some(header), Some(segment)) = (fpdu.header, fpdu.segment) else { return };
        let length = (usize::from(header.ulpdu_length) - segment.header_length()) as u32;
        out.shared.counts.unknown += 1;
        if fpdu.is_buffered && fpdu.confidence == FpduConfidence::Certain {
            // Its CRC was not captured.
            self.payload_buffer.deliver(&segment, length, out);
        }
        self.lose_sync(out.shared);
    }
}

/// Returns `false` if the bytes behind an FPDU of this length in bytes are no FPDU, not even one with a deviation.
#[inline]
fn may_continue_with(cursor: &StreamByteCursor<'_>, fpdu_length: usize) -> bool {
    let rest = cursor.bytes.get(fpdu_length..).unwrap_or_default();
    // The usual ends, from few bytes.
    cursor.length as usize == fpdu_length
        || (rest.len() >= segment_faults::CONTROL_BYTES && segment_faults::may_begin_fpdu(rest))
        || may_continue_at(*cursor, fpdu_length)
}

#[cold]
fn may_continue_at(mut cursor: StreamByteCursor<'_>, fpdu_length: usize) -> bool {
    cursor.take(fpdu_length as u32);
    if may_end_fpdu(&cursor) {
        return true;
    }
    let Some((header, rest)) = FpduHeader::decode(cursor.bytes, 0, &mut NullFieldObserver) else {
        return segment_faults::may_begin_fpdu(cursor.bytes);
    };
    (cursor.length < MIN_FPDU_BYTES && segment_faults::may_begin_fpdu(cursor.bytes))
        || segment_faults::fault_of_fpdu(cursor.bytes, header, CrcUse::No).is_some()
        || segment_faults::length_fault(header, rest).is_some()
        || segment_faults::fault_of_request_length(&cursor, CrcUse::No).is_some()
}

/// Returns `true` if an FPDU may end before these bytes, the rest of its TCP segment.
fn may_end_fpdu(rest: &StreamByteCursor<'_>) -> bool {
    rest.length == 0 || rest.is_cut() || segment_faults::begins_fpdu(rest.bytes)
}

/// Returns `true` if these bytes may begin a start-up frame.
fn begins_startup(bytes: &[u8]) -> bool {
    let count = bytes.len().min(REQUEST_KEY.len());
    count > 0 && [REQUEST_KEY, REPLY_KEY].iter().any(|key| key.get(..count) == bytes.get(..count))
}
