//! An FPDU that is not contiguous. RFC 5044 section 4.1.

use nfsrdma_dissectors::iwarp::DdpSegment;
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::ddp::DdpControl;
use nfsrdma_dissectors::iwarp::mpa::FpduHeader;

use super::fpdu_payload_buffering::FpduHeaderFrames;
use super::fpdu_search::{FpduConfidence, MAX_HEADER_BYTES};
use super::messages::FpduTail;
use super::stream_byte_cursor::StreamByteCursor;

/// State of the CRC check of an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FpduCrcCheckState {
    /// The CRC is computed as bytes arrive.
    Running(RunningFpduCrc),
    /// The CRC is not used.
    Unused,
    /// The CRC cannot be checked: bytes are missing.
    Missing,
}

/// An FPDU that is not contiguous or has markers in it.
#[derive(Debug)]
pub(super) struct PartialFpdu {
    /// Its first bytes, without markers.
    pub(super) headers: [u8; MAX_HEADER_BYTES],
    /// Number of its bytes processed, without markers; the first `HEADERS` of them are in `headers`.
    pub(super) processed_bytes: usize,
    pub(super) header: Option<FpduHeader>,
    /// Its DDP header; `None` before it is complete, and if it was not captured.
    pub(super) segment: Option<DdpSegment>,
    pub(super) crc_check: FpduCrcCheckState,
    /// `true` if its payload is buffered: until its CRC is checked, or the next FPDU confirms this one.
    pub(super) is_buffered: bool,
    pub(super) confidence: FpduConfidence,
    /// `true` if a TCP segment begins with it.
    pub(super) is_aligned: bool,
    pub(super) crc_field: [u8; RunningFpduCrc::LENGTH],
    /// Its last bytes so far, without its CRC.
    pub(super) tail: FpduTail,
    pub(super) captured_bytes: u64,
    /// Frames of its header bytes whose payload is still to come.
    pub(super) header_frames: FpduHeaderFrames,
}

impl PartialFpdu {
    /// Returns the number of header bytes needed to identify it.
    pub(super) fn needed_header_bytes(&self) -> usize {
        let control = self.headers.get(FpduHeader::LENGTH).filter(|_| self.processed_bytes > FpduHeader::LENGTH);
        match control {
            None => FpduHeader::LENGTH + DdpControl::LENGTH,
            Some(control) if control & 0x80 != 0 => FpduHeader::LENGTH + DdpSegment::TAGGED_HEADER_LENGTH,
            Some(_) => MAX_HEADER_BYTES,
        }
    }

    /// Returns `true` if its headers are complete, and it continues for this number of bytes.
    pub(super) fn has_payload_of(&self, length: usize) -> bool {
        self.segment.is_some()
            && self.header.is_some_and(|header| header.fpdu_length() >= self.processed_bytes.saturating_add(length))
    }

    /// Returns `true` if its payload is complete, so that the rest is its trailer: pad and CRC.
    pub(super) fn is_in_trailer(&self) -> bool {
        self.header.is_some_and(|header| self.processed_bytes >= FpduHeader::LENGTH + usize::from(header.ulpdu_length))
    }

    /// Adds bytes that its CRC covers.
    pub(super) fn update_crc(&mut self, bytes: &StreamByteCursor<'_>) {
        self.captured_bytes += bytes.bytes.len() as u64;
        if bytes.is_cut() {
            self.tail = FpduTail::UNKNOWN
        } else {
            self.tail.append(bytes.bytes)
        }
        match &mut self.crc_check {
            FpduCrcCheckState::Running(_) if bytes.is_cut() => self.crc_check = FpduCrcCheckState::Missing,
            FpduCrcCheckState::Running(crc) => *crc = crc.append(bytes.bytes),
            _ => {}
        }
    }

    /// Records that its CRC field was not captured.
    pub(super) fn mark_crc_missing(&mut self) {
        if let FpduCrcCheckState::Running(_) = self.crc_check {
            self.crc_check = FpduCrcCheckState::Missing;
        }
    }
}
