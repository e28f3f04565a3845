//! Deviations of segments from RFC 5040 and RFC 5041: in their headers, and in their order.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::ddp::{DdpControl, DdpMessageSequenceNumber, DdpQueueNumber};
use nfsrdma_dissectors::iwarp::mpa::{FpduHeader, Marker, MpaStartupFrameKind};
use nfsrdma_dissectors::iwarp::rdmap::{RdmapControl, RdmapOpcode, RdmapReadRequestHeader};
use nfsrdma_dissectors::iwarp::{DdpSegment, DdpSegmentDestination};
use nfsrdma_dissectors::memory_handle::Handle;

use super::ddp_segment_payload::DdpSegmentPayload;
use super::events::CrcUse;
use super::fpdu_search::FpduSearchBudget;
use super::outstanding_rdma_read::OutstandingRdmaRead;
use super::stream_byte_cursor::StreamByteCursor;
use crate::exceptional_transport_events::{RdmapFault, TransportAnomalyKind};
use crate::stream::stream_bytes::StreamPosition;

/// Returns the deviation of an FPDU that begins at a known position and is not plausible: if its CRC is right, or if it
/// ends with the segment of TCP or before another FPDU. `bytes` are the captured bytes of the segment from there on.
#[cold]
pub(super) fn fault_of_fpdu(bytes: &[u8], header: FpduHeader, crc_use: CrcUse) -> Option<TransportAnomalyKind> {
    let fpdu = bytes.get(..header.fpdu_length())?;
    let (covered, field) = fpdu.split_at_checked(fpdu.len() - RunningFpduCrc::LENGTH)?;
    let rest = bytes.get(fpdu.len()..).unwrap_or_default();
    let ends_well = rest.is_empty() || begins_fpdu(rest);
    let has_right_crc = crc_use != CrcUse::No && RunningFpduCrc::compute(covered).to_wire_bytes() == field;
    let ulpdu = CapturedSlice::new(covered, covered.len(), 0)
        .skip_bytes(FpduHeader::LENGTH)
        .with_length(usize::from(header.ulpdu_length));
    match crc_use {
        CrcUse::Yes if !has_right_crc => ends_well.then_some(TransportAnomalyKind::BadMpaCrc),
        _ if !has_right_crc && !ends_well => None,
        _ => header_fault(ulpdu).map(TransportAnomalyKind::Rdmap),
    }
}

/// Maximum number of bytes in which the end of an FPDU with a wrong ULPDU_Length is searched, besides the end of its TCP
/// segment.
const MAX_LENGTH_SEARCH_BYTES: usize = 16 << 10;

/// Bytes over which CRCs may be computed in this search, as a multiple of the bytes that are searched: bytes may look
/// like headers everywhere.
const LENGTH_CRC_EFFORT_FACTOR: usize = 64;

/// Number of CRCs of each possible end.
const CRCS_PER_END: usize = 5;

/// Returns the deviation of an FPDU, at a known position, whose CRC is not where its ULPDU_Length says, with its length
/// in bytes: another end has a CRC that is right, for the FPDU as it is or with the ULPDU_Length of that end. It ends
/// with its TCP segment or before another FPDU. `bytes` are those of the segment from there on.
#[cold]
pub(super) fn ulpdu_length_fault(bytes: &[u8], header: FpduHeader) -> Option<(RdmapFault, usize)> {
    let effort = bytes.len().saturating_mul(LENGTH_CRC_EFFORT_FACTOR);
    ulpdu_length_fault_within(bytes, header, &FpduSearchBudget::new(effort))
}

/// [`ulpdu_length_fault`] with CRCs over as many bytes as `budget` has.
fn ulpdu_length_fault_within(
    bytes: &[u8],
    header: FpduHeader,
    budget: &FpduSearchBudget,
) -> Option<(RdmapFault, usize)> {
    // An FPDU beyond its TCP segment is usual, one that ends in it was read to its end.
    let is_beyond = header.fpdu_length() > bytes.len();
    let searched = if is_beyond { 0 } else { bytes.len().min(MAX_LENGTH_SEARCH_BYTES) };
    let smallest = FpduHeader::LENGTH + DdpSegment::TAGGED_HEADER_LENGTH + RunningFpduCrc::LENGTH;
    let is_end = |end: &usize| *end != header.fpdu_length() && bytes.get(*end..).is_some_and(begins_fpdu);
    let behind = (smallest..searched).step_by(4).filter(is_end);
    // Another number of bytes of padding.
    let same = Some(header.fpdu_length()).filter(|end| *end <= searched);
    let whole = Some(bytes.len()).filter(|end| end % 4 == 0 && *end >= smallest && *end != header.fpdu_length());
    let ends = same.into_iter().chain(whole).chain(behind);
    ends.take_while(|end| budget.try_spend(CRCS_PER_END * end)).find_map(|end| {
        let length = length_by_crc(bytes.get(..end)?)?;
        let fault = RdmapFault::UlpduLength { announced: header.ulpdu_length, length };
        Some((fault, end))
    })
}

/// Returns the ULPDU length in bytes of an FPDU with a right CRC, with its header or with the ULPDU_Length of its own
/// length.
fn length_by_crc(fpdu: &[u8]) -> Option<u16> {
    let (covered, field) = fpdu.split_at_checked(fpdu.len().checked_sub(RunningFpduCrc::LENGTH)?)?;
    let behind_header = covered.get(FpduHeader::LENGTH..)?;
    let longest = u16::try_from(behind_header.len()).ok()?;
    if RunningFpduCrc::compute(covered).to_wire_bytes() == field {
        return Some(longest);
    }
    // Up to three bytes are padding.
    (0..=3).filter_map(|pad| longest.checked_sub(pad)).find(|length| {
        let crc = RunningFpduCrc::compute(&length.to_be_bytes()).append(behind_header);
        crc.to_wire_bytes() == field
    })
}

/// Returns the deviation of an FPDU of `crc`, whose CRC field is right with the ULPDU_Length of less or more padding.
#[cold]
pub(super) fn padded_length_fault(
    header: FpduHeader,
    crc: RunningFpduCrc,
    field: [u8; RunningFpduCrc::LENGTH],
) -> Option<RdmapFault> {
    let covered = header.fpdu_length() - RunningFpduCrc::LENGTH;
    // CRCs are linear: the difference of two is the CRC of the difference, without that of zeros.
    let with_zeros = |begin: [u8; FpduHeader::LENGTH]| {
        let zeros = [0; 256];
        let mut crc = RunningFpduCrc::compute(&begin);
        let mut remaining = covered - begin.len();
        while let Some(piece) = zeros.get(..remaining.min(zeros.len())).filter(|piece| !piece.is_empty()) {
            crc = crc.append(piece);
            remaining -= piece.len();
        }
        u32::from_le_bytes(crc.to_wire_bytes())
    };
    let sought = u32::from_le_bytes(crc.to_wire_bytes()) ^ u32::from_le_bytes(field) ^ with_zeros([0, 0]);
    let others = (-3..=3).filter_map(|change| header.ulpdu_length.checked_add_signed(change));
    let announced = header.ulpdu_length;
    others
        .filter(|length| FpduHeader { ulpdu_length: *length }.fpdu_length() == header.fpdu_length())
        .find(|length| *length != announced && with_zeros((length ^ announced).to_be_bytes()) == sought)
        .map(|length| RdmapFault::UlpduLength { announced, length })
}

/// Returns the deviation of an RDMA Read Request, at a known position, whose ULPDU_Length is not that of all such
/// requests, or its wrong CRC. `cursor` are the bytes from there on.
#[inline(never)]
pub(super) fn fault_of_request_length(cursor: &StreamByteCursor<'_>, crc_use: CrcUse) -> Option<TransportAnomalyKind> {
    const ULPDU_LENGTH: usize = DdpSegment::UNTAGGED_HEADER_LENGTH + RdmapReadRequestHeader::LENGTH;
    let (header, ulpdu) = FpduHeader::decode(cursor.bytes, 0, &mut NullFieldObserver)?;
    let (segment, _) = DdpSegment::decode(CapturedSlice::new(ulpdu, ULPDU_LENGTH, 0), &mut NullFieldObserver)?;
    let length = usize::from(header.ulpdu_length);
    let is_request = segment.opcode == RdmapOpcode::READ_REQUEST && segment.is_last;
    let (covered, trailer) = cursor.bytes.split_at_checked(FpduHeader::LENGTH + ULPDU_LENGTH)?;
    let (field, rest) = trailer.split_at_checked(RunningFpduCrc::LENGTH)?;
    let ends_well = rest.is_empty() || begins_fpdu(rest);
    if !is_request || !segment.is_plausible(ULPDU_LENGTH) || length == ULPDU_LENGTH || !ends_well {
        return None;
    }
    let fpdu = cursor.bytes.get(..covered.len() + field.len())?;
    if crc_use == CrcUse::Yes && length_by_crc(fpdu).is_none() {
        return Some(TransportAnomalyKind::BadMpaCrc);
    }
    let fault = RdmapFault::UlpduLength { announced: header.ulpdu_length, length: ULPDU_LENGTH as u16 };
    Some(TransportAnomalyKind::Rdmap(fault))
}

/// Returns the padding as a big-endian number.
pub(super) fn pad_value(pad: &[u8]) -> u32 {
    pad.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// Returns the deviation of an FPDU whose ULPDU is too short for the headers of a segment, although headers follow.
/// `rest` are the bytes behind its header.
#[cold]
pub(super) fn length_fault(header: FpduHeader, rest: &[u8]) -> Option<RdmapFault> {
    let (ddp, rdmap_bytes) = DdpControl::decode(rest, 0, &mut NullFieldObserver)?;
    let (rdmap, _) = RdmapControl::decode(rdmap_bytes, 0, &mut NullFieldObserver)?;
    let is_segment = ddp.version == DdpControl::VERSION
        && rdmap.version <= 1
        && (ddp.reserved, rdmap.reserved) == (0, 0)
        && rdmap.opcode.queue().is_some_and(|queue| queue.is_none() == ddp.tagged);
    let smallest = if ddp.tagged { DdpSegment::TAGGED_HEADER_LENGTH } else { DdpSegment::UNTAGGED_HEADER_LENGTH };
    (is_segment && usize::from(header.ulpdu_length) < smallest).then_some(RdmapFault::ShortUlpdu(header.ulpdu_length))
}

/// Returns `true` if bytes begin with a plausible FPDU.
pub(super) fn begins_fpdu(bytes: &[u8]) -> bool {
    first_segment(bytes).is_some()
}

/// Returns the segment in the FPDU with which bytes begin, if it is plausible.
pub(super) fn first_segment(bytes: &[u8]) -> Option<DdpSegment> {
    let (header, rest) = FpduHeader::decode(bytes, 0, &mut NullFieldObserver)?;
    let length = usize::from(header.ulpdu_length);
    let (segment, _) = DdpSegment::decode(CapturedSlice::new(rest, length, 0), &mut NullFieldObserver)?;
    segment.is_plausible(length).then_some(segment)
}

/// Bytes of an FPDU up to the control fields of DDP and RDMAP.
pub(super) const CONTROL_BYTES: usize = 4;

/// Returns `false` if no FPDU begins with these bytes, of which there are too few for its headers: ULPDU_Length, and
/// control fields of DDP (RFC 5041 section 4.1) and of RDMAP (RFC 5040 section 4.1).
pub(super) fn may_begin_fpdu(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
    length.is_none_or(|length| length >= DdpSegment::TAGGED_HEADER_LENGTH)
        && bytes.get(2).is_none_or(|ddp| ddp & 0x3f == DdpControl::VERSION)
        && bytes.get(3).is_none_or(|rdmap| rdmap & 0xb0 == 0)
}

/// Returns the deviation of a marker in an FPDU that begins at `start`.
pub(super) fn marker_fault(marker: &StreamByteCursor<'_>, start: StreamPosition) -> Option<RdmapFault> {
    if marker.is_cut() {
        return None;
    }
    let (decoded, _) = Marker::decode(marker.bytes, 0, &mut NullFieldObserver)?;
    let expected = marker.at.checked_sub(start).and_then(|distance| u16::try_from(distance).ok())?;
    let Marker { fpduptr: pointer, reserved } = decoded;
    match (pointer == expected, reserved) {
        (false, _) => Some(RdmapFault::MarkerPointer { pointer, expected }),
        (true, 0) => None,
        (true, _) => Some(RdmapFault::MarkerReserved(reserved)),
    }
}

/// Returns the deviation in the headers of a ULPDU; `None` if there are several, so that the bytes may be no ULPDU at
/// all.
fn header_fault(ulpdu: CapturedSlice<'_>) -> Option<RdmapFault> {
    let (ddp, rest) = DdpControl::decode(ulpdu.bytes, 0, &mut NullFieldObserver)?;
    let (rdmap, _) = RdmapControl::decode(rest, 0, &mut NullFieldObserver)?;
    let (segment, payload) = DdpSegment::decode(ulpdu, &mut NullFieldObserver)?;
    let opcode = rdmap.opcode;
    let queue_fault = match (opcode.queue(), segment.target) {
        (None, _) => Some(RdmapFault::Opcode(opcode)),
        (Some(None), DdpSegmentDestination::Untagged { .. }) => Some(RdmapFault::Tagged { opcode, is_tagged: false }),
        (Some(Some(_)), DdpSegmentDestination::Tagged { .. }) => Some(RdmapFault::Tagged { opcode, is_tagged: true }),
        (Some(Some(expected_queue)), DdpSegmentDestination::Untagged { queue, .. }) => {
            (expected_queue != queue).then_some(RdmapFault::Queue { opcode, queue })
        }
        (Some(None), DdpSegmentDestination::Tagged { .. }) => None,
    };
    // The header of another kind of message has other fields.
    let has_own_header = queue_fault.is_none();
    let offset = match segment.target {
        DdpSegmentDestination::Untagged { offset, .. } if has_own_header && offset != 0 && !opcode.is_send() => {
            Some(RdmapFault::MessageOffset { offset, expected: 0 })
        }
        _ => None,
    };
    let length = payload.length;
    let fixed_length = opcode.fixed_length().filter(|fixed| has_own_header && length != *fixed);
    let is_reserved_used = ddp.reserved != 0 || rdmap.reserved != 0;
    let mut faults = [
        (ddp.version != DdpControl::VERSION).then_some(RdmapFault::DdpVersion(ddp.version)),
        (rdmap.version > 1).then_some(RdmapFault::RdmapVersion(rdmap.version)),
        is_reserved_used.then_some(RdmapFault::ReservedBits { ddp: ddp.reserved, rdmap: rdmap.reserved }),
        queue_fault,
        offset,
        fixed_length.map(|fixed| fixed_length_fault(opcode, fixed, (ulpdu.length, length))),
    ]
    .into_iter()
    .flatten();
    let first = faults.next()?;
    faults.next().is_none().then_some(first)
}

/// Returns the deviation of a message that does not have the length in bytes of its opcode: of ULPDU_Length if the FPDU
/// has room for that length, and no more. `lengths` are those of the ULPDU and of the message in it.
fn fixed_length_fault(opcode: RdmapOpcode, fixed: usize, (ulpdu, length): (usize, usize)) -> RdmapFault {
    let headers = [ulpdu, ulpdu - length + fixed].map(|length| FpduHeader { ulpdu_length: length as u16 });
    let [announced, other] = headers;
    match announced.fpdu_length() == other.fpdu_length() {
        true => RdmapFault::UlpduLength { announced: announced.ulpdu_length, length: other.ulpdu_length },
        false => RdmapFault::HeaderLength { opcode, length: length as u32 },
    }
}

/// A message whose last segment is still to come.
#[derive(Clone, Copy, Debug)]
struct UnfinishedDdpMessage {
    opcode: RdmapOpcode,
    target: DdpMessageTarget,
    /// Offset of its first byte.
    start: u64,
    /// Offset of its next byte.
    next: u64,
}

/// Destination of all segments of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DdpMessageTarget {
    Tagged(Handle),
    Untagged(DdpQueueNumber, DdpMessageSequenceNumber),
}

/// Number of queues with consecutive message numbers: Sends, RDMA Read Requests, Terminates.
pub(super) const QUEUES: usize = 3;

/// Order of the segments of one direction.
#[derive(Debug, Default)]
pub(super) struct DdpSegmentOrder {
    /// Start-up frame of the side, if it has sent no FPDU since.
    first_of: Option<MpaStartupFrameKind>,
    /// `true` if all FPDUs since the start-up frame are known.
    has_all_fpdus: bool,
    /// `true` if, in addition, no Read Response deviated.
    are_responses_regular: bool,
    /// `true` if it is known whether a message is open.
    knows_open: bool,
    /// Next number of each queue, if known.
    next_numbers: [Option<DdpMessageSequenceNumber>; QUEUES],
    open: Option<UnfinishedDdpMessage>,
    /// The message that ended with the last segment.
    ended: Option<UnfinishedDdpMessage>,
}

impl DdpSegmentOrder {
    /// Creates the order after the start-up frame: numbers begin with 1 (RFC 5041 section 4.3).
    pub(super) fn at_start(kind: MpaStartupFrameKind) -> Self {
        Self {
            first_of: Some(kind),
            has_all_fpdus: true,
            are_responses_regular: true,
            knows_open: true,
            next_numbers: [Some(DdpMessageSequenceNumber(1)); QUEUES],
            open: None,
            ended: None,
        }
    }

    /// Returns `true` if all FPDUs since the start-up frame are known.
    pub(super) fn has_all_fpdus(&self) -> bool {
        self.has_all_fpdus
    }

    /// Returns `true` if the predecessors of the next segment are known.
    pub(super) fn is_known(&self) -> bool {
        self.knows_open
    }

    /// Returns `true` if no FPDU followed the start-up frame yet.
    pub(super) fn awaits_first_fpdu(&self) -> bool {
        self.first_of.is_some()
    }

    /// Returns the bytes between the last segment and one that continues its message, or another RDMA Write to the same
    /// memory; a negative number if they overlap.
    pub(super) fn gap_before(&self, segment: &DdpSegment) -> Option<i64> {
        let (target, start) = message_place(segment);
        let before = self.open.or(self.ended.filter(|ended| ended.opcode == RdmapOpcode::WRITE));
        let before = before.filter(|before| before.target == target && before.opcode == segment.opcode)?;
        Some(start.wrapping_sub(before.next) as i64)
    }

    /// Moves the end of the open message: the length of its last segment was wrong.
    pub(super) fn resize_open(&mut self, change: i64) {
        if let Some(open) = &mut self.open {
            open.next = open.next.wrapping_add_signed(change);
        }
    }

    /// Returns the deviation of a segment, at the first part of its payload. `reads` are the RDMA Reads of the
    /// receiver, if all of them are known. `is_peer_silent`: the receiver has sent no FPDU since its start-up frame.
    pub(super) fn check(
        &mut self,
        payload: &DdpSegmentPayload<'_>,
        reads: Option<&VecDeque<OutstandingRdmaRead>>,
        is_peer_silent: bool,
    ) -> Option<RdmapFault> {
        if payload.offset > 0 {
            return None;
        }
        let is_first_of_responder = self.first_of.take() == Some(MpaStartupFrameKind::Reply);
        let start_fault = (is_first_of_responder && is_peer_silent).then_some(RdmapFault::ResponderFirst);
        let DdpSegment { opcode, is_last, .. } = *payload.segment;
        let length = u64::from(payload.length);
        let (target, start) = message_place(payload.segment);
        let open = self.open.take();
        let is_next_part = open.is_some_and(|open| open.target == target && open.opcode == opcode);
        let fault = match open {
            Some(open) if is_next_part => continuation_fault(&open, start),
            Some(UnfinishedDdpMessage { opcode, .. }) => Some(RdmapFault::Interrupted { opcode }),
            None => self.beginning_fault(target, start),
        };
        let message = match open {
            Some(open) if is_next_part => UnfinishedDdpMessage { next: start.wrapping_add(length), ..open },
            _ => UnfinishedDdpMessage { opcode, target, start, next: start.wrapping_add(length) },
        };
        let response_fault = match (target, reads) {
            (DdpMessageTarget::Tagged(stag), Some(reads))
                if opcode == RdmapOpcode::READ_RESPONSE && self.are_responses_regular && length > 0 =>
            {
                response_fault(stag, &message, (start, payload.length, is_last), reads)
            }
            _ => None,
        };
        // After a deviation, the requests that wait are unknown.
        self.are_responses_regular &= response_fault.is_none();
        if let DdpMessageTarget::Untagged(queue, number) = target
            && let Some(next) = self.next_numbers.get_mut(queue.0 as usize)
        {
            *next = Some(DdpMessageSequenceNumber(number.0.wrapping_add(u32::from(is_last))));
        }
        (self.open, self.ended) = if is_last { (None, Some(message)) } else { (Some(message), None) };
        self.knows_open |= is_last;
        match (start_fault.or(fault), response_fault) {
            // Another sink in the middle of a response.
            (Some(RdmapFault::Interrupted { .. }), Some(response_fault)) => Some(response_fault),
            (fault, response_fault) => fault.or(response_fault),
        }
    }

    /// Returns the deviation of the first segment of a message.
    fn beginning_fault(&self, target: DdpMessageTarget, offset: u64) -> Option<RdmapFault> {
        let DdpMessageTarget::Untagged(queue, number) = target else { return None };
        let expected = self.next_numbers.get(queue.0 as usize).copied().flatten();
        match expected {
            Some(expected) if expected != number => Some(RdmapFault::MessageNumber { queue, number, expected }),
            _ if self.knows_open && offset != 0 => {
                Some(RdmapFault::MessageOffset { offset: offset as u32, expected: 0 })
            }
            _ => None,
        }
    }
}

/// Returns the message of a segment, and the offset of its first byte.
fn message_place(segment: &DdpSegment) -> (DdpMessageTarget, u64) {
    match segment.target {
        DdpSegmentDestination::Tagged { stag, offset } => (DdpMessageTarget::Tagged(stag), offset),
        DdpSegmentDestination::Untagged { queue, number, offset } => {
            (DdpMessageTarget::Untagged(queue, number), u64::from(offset))
        }
    }
}

/// Returns the deviation of a segment that continues a message.
fn continuation_fault(open: &UnfinishedDdpMessage, offset: u64) -> Option<RdmapFault> {
    if offset == open.next {
        return None;
    }
    Some(match open.target {
        DdpMessageTarget::Tagged(stag) => RdmapFault::TaggedOffset { stag, offset, expected: open.next },
        DdpMessageTarget::Untagged(..) => {
            RdmapFault::MessageOffset { offset: offset as u32, expected: open.next as u32 }
        }
    })
}

/// Returns the deviation of a segment of a Read Response. A response without bytes need not name its sink (RFC 5041
/// section 5.2), so requests without bytes do not count.
fn response_fault(
    stag: Handle,
    message: &UnfinishedDdpMessage,
    (offset, length, is_last): (u64, u32, bool),
    reads: &VecDeque<OutstandingRdmaRead>,
) -> Option<RdmapFault> {
    let end = offset.checked_add(u64::from(length))?;
    let is_sink = |read: &&OutstandingRdmaRead| {
        read.sink_stag == stag
            && read.sink_offset <= offset
            && end <= read.sink_offset.saturating_add(u64::from(read.length))
    };
    let mut outstanding = reads.iter().filter(|read| read.length > 0);
    let first = outstanding.clone().next();
    let Some(unanswered) = outstanding.position(|read| is_sink(&read)) else {
        // The response to the first request goes on beyond its sink.
        if let Some(read) = first
            && (read.sink_stag, read.sink_offset) == (stag, message.start)
        {
            return Some(RdmapFault::ResponseLength { length: end - message.start, requested: read.length });
        }
        return Some(RdmapFault::UnrequestedResponse { stag, offset, length });
    };
    if unanswered > 0 {
        return Some(RdmapFault::ResponseOrder { stag, unanswered: unanswered as u32 });
    }
    let read = first?;
    if message.start != read.sink_offset {
        return Some(RdmapFault::UnrequestedResponse { stag, offset, length });
    }
    let returned_bytes = end - message.start;
    (is_last && returned_bytes != u64::from(read.length))
        .then_some(RdmapFault::ResponseLength { length: returned_bytes, requested: read.length })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: usize = 16 << 10;

    /// Returns the deviation and the bytes over which CRCs were computed.
    fn search(bytes: &[u8], effort: usize) -> (Option<(RdmapFault, usize)>, usize) {
        let (header, _) = FpduHeader::decode(bytes, 0, &mut NullFieldObserver).unwrap();
        let budget = FpduSearchBudget::new(effort);
        let found = ulpdu_length_fault_within(bytes, header, &budget);
        (found, effort - budget.remaining())
    }

    /// Bytes that look like the headers of an RDMA Write everywhere.
    fn headers(length: usize) -> Vec<u8> {
        [0, 0x20, 0xc1, 0x40].into_iter().cycle().take(length).collect()
    }

    /// Returns an FPDU with a CRC and the ULPDU_Length `announced`.
    fn fpdu(ulpdu: &[u8], announced: u16) -> Vec<u8> {
        let mut fpdu = [&announced.to_be_bytes()[..], ulpdu].concat();
        fpdu.resize(fpdu.len().next_multiple_of(4), 0);
        let crc = RunningFpduCrc::compute(&fpdu).to_wire_bytes();
        [fpdu, crc.to_vec()].concat()
    }

    #[test]
    fn length_search_grows_with_the_segment() {
        for length in [SEGMENT_BYTES / 2, SEGMENT_BYTES, 4 * SEGMENT_BYTES] {
            let bytes = headers(length);
            let (_, unlimited) = search(&bytes, usize::MAX);
            assert!(unlimited > 1000 * LENGTH_CRC_EFFORT_FACTOR * length / 64, "{unlimited} bytes");
            let (found, spent) = search(&bytes, LENGTH_CRC_EFFORT_FACTOR * length);
            assert_eq!(found, None);
            assert!(spent <= LENGTH_CRC_EFFORT_FACTOR * length, "{spent} bytes");
        }
    }

    /// The end of an FPDU is found behind as many false ones as real data has.
    #[test]
    fn length_search_passes_false_ends() {
        let mut ulpdu = vec![0xc1, 0x40];
        ulpdu.resize(9998, 7);
        for at in (1000..9000).step_by(1000) {
            ulpdu[at - 2..at + 2].copy_from_slice(&headers(4));
        }
        let announced = 5000;
        let wrong = fpdu(&ulpdu, announced);
        let right_end = wrong.len();
        let bytes = [wrong, fpdu(&ulpdu[..4000], 4000)].concat();
        let (header, _) = FpduHeader::decode(&bytes, 0, &mut NullFieldObserver).unwrap();
        let fault = RdmapFault::UlpduLength { announced, length: 9998 };
        assert_eq!(ulpdu_length_fault(&bytes, header), Some((fault, right_end)));
    }
}
