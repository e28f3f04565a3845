//! Search for the start of an FPDU: after a gap, and in a stream captured from mid-stream on.
//!
//! Markers point at it (RFC 5044 section 6). Without them the structure decides: the headers of an FPDU
//! have many bits that random bytes do not match, its length leads to the next FPDU or to the end of the
//! segment, where senders align FPDUs if they can (RFC 5044 section 5.1), and its CRC, if used, is correct.
//! [`FpduSearchBudget`] limits the bytes over which CRCs are computed; beyond it, only structure decides.

use std::cell::Cell;

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::mpa::{FpduHeader, MARKER_INTERVAL, Marker};
use nfsrdma_dissectors::iwarp::{DdpSegment, DdpSegmentDestination};
use nfsrdma_dissectors::memory_handle::Handle;

use super::markers::MpaMarkerPositions;
use crate::stream::stream_bytes::StreamPosition;

/// Length in bytes of the headers that identify an FPDU: those of an untagged segment, the longest.
pub(super) const MAX_HEADER_BYTES: usize = FpduHeader::LENGTH + DdpSegment::UNTAGGED_HEADER_LENGTH;

/// Confidence that an FPDU begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FpduConfidence {
    /// It begins there.
    Certain,
    /// It may begin there; the next FPDU decides.
    Tentative,
}

/// Evidence for an FPDU, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FpduEvidence {
    /// Headers of a tagged segment to unknown memory that extends beyond these bytes: about 14 bits.
    Headers,
    /// Headers that name a queue, or known memory: about 40 bits.
    KnownTarget,
    /// A marker in the FPDU points at its start.
    MarkerPointer,
    /// More FPDUs follow it, or only its CRC is after the end of these bytes.
    Chain,
    /// It ends where these bytes end.
    EndsExactly,
    /// Its CRC is correct.
    Crc,
}

/// Remaining bytes over which CRCs may be computed while one segment is searched. Without it, bytes that
/// look like headers everywhere would each cost the length of the segment.
#[derive(Debug, Default)]
pub(super) struct FpduSearchBudget(Cell<usize>);

/// Bytes over which CRCs may be computed, as a multiple of the segment length. Some FPDUs are examined more
/// than once, and few bytes that begin no FPDU look like headers.
const CRC_EFFORT_FACTOR: usize = 16;

impl FpduSearchBudget {
    /// Creates the budget for a segment of `length` bytes.
    pub(super) fn for_segment(length: usize) -> Self {
        Self::new(length.saturating_mul(CRC_EFFORT_FACTOR))
    }

    /// Creates a budget of a number of bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Returns the bytes that are left.
    #[cfg(test)]
    pub(super) fn remaining(&self) -> usize {
        self.0.get()
    }

    /// Returns `true` if a CRC over `bytes` bytes fits the budget, and subtracts them.
    pub(super) fn try_spend(&self, bytes: usize) -> bool {
        let remaining = self.0.get().checked_sub(bytes);
        self.0.set(remaining.unwrap_or(0));
        remaining.is_some()
    }
}

/// Contiguous bytes to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct FpduSearchBytes<'a> {
    /// Captured bytes.
    pub(super) bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub(super) length: usize,
    /// Stream position of the first byte.
    pub(super) at: StreamPosition,
    pub(super) budget: &'a FpduSearchBudget,
}

/// An FPDU that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundFpdu {
    /// Offset from the start of the bytes.
    pub(super) offset: usize,
    pub(super) markers: MpaMarkerPositions,
    pub(super) confidence: FpduConfidence,
}

/// Maximum number of consecutive FPDUs examined.
const MAX_CHAINED_FPDUS: usize = 4;

impl FpduSearchBytes<'_> {
    /// Copies FPDU bytes from an offset on, without markers. Returns the number of bytes.
    fn copy_without_markers(
        &self,
        offset: usize,
        markers: MpaMarkerPositions,
        buffer: &mut [u8; MAX_HEADER_BYTES],
    ) -> usize {
        let mut count = 0;
        let mut offset = offset;
        for to in buffer {
            offset += markers.remaining_marker_bytes(self.at + offset as u64) as usize;
            let Some(byte) = self.bytes.get(offset) else { break };
            *to = *byte;
            count += 1;
            offset += 1;
        }
        count
    }

    /// Decodes the headers of the FPDU at an offset, and computes its end. `None` if too few bytes are
    /// available.
    fn decode_fpdu(
        &self,
        offset: usize,
        markers: MpaMarkerPositions,
    ) -> Option<Result<CandidateFpdu, FpduHeaderMismatch>> {
        let mut headers = [0; MAX_HEADER_BYTES];
        let count = self.copy_without_markers(offset, markers, &mut headers);
        let (header, ulpdu) = FpduHeader::decode(headers.get(..count)?, 0, &mut NullFieldObserver)?;
        let length = usize::from(header.ulpdu_length);
        let (segment, _) = DdpSegment::decode(CapturedSlice::new(ulpdu, length, 0), &mut NullFieldObserver)?;
        if !segment.is_plausible(length) {
            return Some(Err(FpduHeaderMismatch));
        }
        let end = markers.end_of(self.at + offset as u64, header.fpdu_length() as u64);
        let end = (end - self.at) as usize;
        let Some(is_pointed_at) = self.check_markers(offset, end, markers) else {
            return Some(Err(FpduHeaderMismatch));
        };
        Some(Ok(CandidateFpdu { segment, end, has_marker_pointer: is_pointed_at }))
    }

    /// Returns `true` if a marker between two offsets points at the first, or after the marker that may be
    /// there. `None` if a marker points elsewhere.
    fn check_markers(&self, offset: usize, end: usize, markers: MpaMarkerPositions) -> Option<bool> {
        let mut is_pointed_at = false;
        let mut next = markers.next_marker(self.at + offset as u64);
        let mut fpdu_start = offset;
        while let Some(marker_offset) = next.map(|next| (next - self.at) as usize)
            && marker_offset < end
            && let Some((marker, _)) =
                self.bytes.get(marker_offset..).and_then(|bytes| Marker::decode(bytes, 0, &mut NullFieldObserver))
        {
            if marker.reserved != 0 || usize::from(marker.fpduptr) != marker_offset - fpdu_start {
                return None;
            }
            if marker_offset == fpdu_start {
                fpdu_start += Marker::LENGTH;
            } else {
                is_pointed_at = true;
            }
            next = next.map(|next| next + MARKER_INTERVAL);
        }
        Some(is_pointed_at)
    }

    /// Returns `true` if the CRC of the FPDU between these offsets was checked and is correct.
    fn has_right_crc(&self, offset: usize, end: usize) -> bool {
        let field = end.checked_sub(RunningFpduCrc::LENGTH);
        field.is_some_and(|field| match (self.bytes.get(offset..field), self.bytes.get(field..end)) {
            (Some(covered), Some(field)) => {
                self.budget.try_spend(covered.len()) && RunningFpduCrc::compute(covered).to_wire_bytes() == field
            }
            _ => false,
        })
    }

    /// Returns the evidence for FPDUs from an offset on; `None` if there are none.
    fn evaluate(
        &self,
        offset: usize,
        markers: MpaMarkerPositions,
        is_known: &impl Fn(Handle) -> bool,
    ) -> Option<FpduEvidence> {
        let mut evidence = None;
        let mut at = offset;
        for _ in 0..MAX_CHAINED_FPDUS {
            let CandidateFpdu { segment, end, has_marker_pointer: is_pointed_at } = match self.decode_fpdu(at, markers)
            {
                Some(Ok(fpdu)) => fpdu,
                // If the following bytes are not an FPDU, neither are the first.
                Some(Err(FpduHeaderMismatch)) => return None,
                None => return evidence,
            };
            if self.has_right_crc(at, end) {
                return Some(FpduEvidence::Crc);
            }
            let is_named = match segment.target {
                DdpSegmentDestination::Tagged { stag, .. } => is_known(stag),
                DdpSegmentDestination::Untagged { .. } => true,
            };
            let fpdu_evidence = match end.cmp(&self.length) {
                std::cmp::Ordering::Equal => FpduEvidence::EndsExactly,
                std::cmp::Ordering::Greater if end - self.length == RunningFpduCrc::LENGTH => FpduEvidence::Chain,
                _ if evidence.is_some() => FpduEvidence::Chain,
                _ if is_pointed_at => FpduEvidence::MarkerPointer,
                _ if is_named => FpduEvidence::KnownTarget,
                _ => FpduEvidence::Headers,
            };
            evidence = evidence.max(Some(fpdu_evidence));
            if end >= self.length {
                break;
            }
            at = end;
        }
        evidence
    }

    /// Returns the evidence for an FPDU at an offset, and the markers it implies, if the use of markers is
    /// unknown.
    fn evaluate_any_markers(
        &self,
        offset: usize,
        is_known: &impl Fn(Handle) -> bool,
    ) -> Option<(FpduEvidence, MpaMarkerPositions)> {
        if self.bytes.get(offset..offset + Marker::LENGTH) == Some(&[0; Marker::LENGTH]) {
            // A marker before an FPDU, or the CRC of the previous FPDU if CRCs are not used.
            let markers = MpaMarkerPositions::At(self.at + offset as u64);
            let evidence = self.evaluate(offset, markers, is_known)?;
            let unmarked = self.evaluate(offset + Marker::LENGTH, MpaMarkerPositions::Off, is_known);
            return unmarked.is_none_or(|unmarked| unmarked < evidence).then_some((evidence, markers));
        }
        if !may_be_header(self.bytes, offset) {
            return None;
        }
        let unmarked = self
            .evaluate(offset, MpaMarkerPositions::Off, is_known)
            .map(|evidence| (evidence, MpaMarkerPositions::Off));
        if unmarked.is_some_and(|(evidence, _)| evidence >= FpduEvidence::EndsExactly) {
            return unmarked;
        }
        // A marker in the first FPDU contains its distance from the start of the FPDU; by chance, a number in the
        // headers may too.
        let distances = (MAX_HEADER_BYTES..MARKER_INTERVAL as usize).step_by(Marker::LENGTH);
        let marked = distances.filter_map(|distance| {
            let marker_offset = offset + distance;
            let (marker, _) = Marker::decode(self.bytes.get(marker_offset..)?, 0, &mut NullFieldObserver)?;
            if marker.reserved != 0 || usize::from(marker.fpduptr) != distance {
                return None;
            }
            let markers = MpaMarkerPositions::At(self.at + marker_offset as u64);
            self.evaluate(offset, markers, is_known).map(|evidence| (evidence, markers))
        });
        marked.chain(unmarked).reduce(|best, other| if other.0 > best.0 { other } else { best })
    }
}

/// An FPDU according to its headers.
#[derive(Debug)]
struct CandidateFpdu {
    segment: DdpSegment,
    end: usize,
    /// `true` if a marker in it points at its start.
    has_marker_pointer: bool,
}

/// Error of headers that are not those of an FPDU.
#[derive(Debug)]
struct FpduHeaderMismatch;

/// Maps evidence to confidence. Weak evidence counts only at the first bytes of a segment.
fn classify(offset: usize, evidence: FpduEvidence, markers: MpaMarkerPositions, are_told: bool) -> Option<FoundFpdu> {
    let confidence = match evidence {
        FpduEvidence::Headers if offset > 0 => return None,
        FpduEvidence::Headers => FpduConfidence::Tentative,
        FpduEvidence::KnownTarget | FpduEvidence::MarkerPointer if !are_told => FpduConfidence::Tentative,
        _ => FpduConfidence::Certain,
    };
    Some(FoundFpdu { offset, markers, confidence })
}

/// Returns the FPDU that begins at the first byte, if the use of markers is unknown.
pub(super) fn find_at_start(bytes: &FpduSearchBytes<'_>, is_known: impl Fn(Handle) -> bool) -> Option<FoundFpdu> {
    let (evidence, markers) = bytes.evaluate_any_markers(0, &is_known)?;
    classify(0, evidence, markers, false)
}

/// Finds the first FPDU. `markers`: `None` if their use is unknown. `began`: position at which an earlier
/// FPDU began. `is_known`: returns `true` for STags of known memory.
pub(super) fn find(
    bytes: &FpduSearchBytes<'_>,
    markers: Option<MpaMarkerPositions>,
    began: Option<StreamPosition>,
    is_known: impl Fn(Handle) -> bool,
) -> Option<FoundFpdu> {
    if let Some(markers @ MpaMarkerPositions::At(_)) = markers
        && let Some(offset) = find_by_marker(bytes, markers, &is_known)
    {
        return Some(FoundFpdu { offset, markers, confidence: FpduConfidence::Certain });
    }
    // FPDUs begin at a distance that is a multiple of four bytes.
    let (first, step) = match began {
        Some(began) => ((4 - (bytes.at.wrapping_sub(began)) as usize % 4) % 4, 4),
        None => (0, 1),
    };
    let last = bytes.bytes.len().checked_sub(FpduHeader::LENGTH + DdpSegment::TAGGED_HEADER_LENGTH)?;
    (first..=last).step_by(step).find_map(|offset| {
        let evaluated = match markers {
            Some(markers) => bytes.evaluate(offset, markers, &is_known).map(|evidence| (evidence, markers)),
            None => bytes.evaluate_any_markers(offset, &is_known),
        };
        let (evidence, found_markers) = evaluated?;
        classify(offset, evidence, found_markers, markers.is_some())
    })
}

/// Returns `true` if the control bytes at an offset can be those of an FPDU: a fast check.
fn may_be_header(bytes: &[u8], offset: usize) -> bool {
    let control = bytes.get(offset + FpduHeader::LENGTH..);
    control.is_some_and(|control| {
        control.first().is_some_and(|ddp| ddp & 0x3f == 1) && control.get(1).is_some_and(|rdmap| rdmap & 0xb0 == 0)
    })
}

/// Returns the offset of the first FPDU at which a marker points.
fn find_by_marker(
    bytes: &FpduSearchBytes<'_>,
    markers: MpaMarkerPositions,
    is_known: &impl Fn(Handle) -> bool,
) -> Option<usize> {
    let mut next = markers.next_marker(bytes.at)?;
    loop {
        let marker_offset = usize::try_from(next - bytes.at).ok()?;
        let (marker, _) = Marker::decode(bytes.bytes.get(marker_offset..)?, 0, &mut NullFieldObserver)?;
        let distance = usize::from(marker.fpduptr & !3);
        // It may point before these bytes; a later one will not.
        if let Some(offset) = marker_offset.checked_sub(distance)
            && bytes.evaluate(offset, markers, is_known).is_some()
        {
            return Some(offset);
        }
        next += MARKER_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::wire::{START, Sender, payload};
    use super::*;
    use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;

    fn left(work: &FpduSearchBudget) -> usize {
        work.0.get()
    }

    #[test]
    fn headers_everywhere_cost_no_more_than_some_times_their_bytes() {
        // An RDMA Write of half the segment begins at every fourth byte.
        let mut bytes = [&[0xff; 4][..], &[0x80, 0x00, 0xc1, 0x40].repeat(8190)].concat();
        bytes.extend([0; 32758]);
        let work = FpduSearchBudget::for_segment(bytes.len());
        let searched = FpduSearchBytes { bytes: &bytes, length: bytes.len(), at: START, budget: &work };
        assert_eq!(find(&searched, Some(MpaMarkerPositions::Off), None, |_| false), None);
        assert_eq!(left(&work), 0);
    }

    #[test]
    fn an_fpdu_behind_bytes_of_another_is_found_long_before_its_work_is_done() {
        for (has_markers, has_crc) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut sender = Sender::plain(has_crc);
            sender.markers = has_markers.then_some(0);
            sender.write(1, 0, &payload(3000, 1));
            sender.send(RdmapOpcode::SEND, &payload(100, 2));
            let rest = &sender.bytes[20..];
            let all = rest.len() * CRC_EFFORT_FACTOR;
            let work = FpduSearchBudget::for_segment(rest.len());
            let found = find(
                &FpduSearchBytes { bytes: rest, length: rest.len(), at: START + 20, budget: &work },
                None,
                None,
                |_| false,
            );
            assert!(found.is_some_and(|found| found.offset > 0 && found.offset < 1300), "{found:?}");
            assert!(all - left(&work) <= all / 4, "{} of {all}", all - left(&work));
        }
    }
}
