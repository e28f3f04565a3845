//! An FPDU that does not lie in one piece. RFC 5044 section 4.1.

use crate::iwarp::DdpSegment;
use crate::iwarp::crc::Crc;
use crate::iwarp::ddp::DdpControl;
use crate::iwarp::mpa::FpduHeader;

use super::fpdu_search::FpduConfidence;
use super::payload::HeaderFrames;
use super::unparsed_bytes::UnparsedBytes;

/// Length of the headers of an FPDU that tell what it is: of an untagged segment, which has the longer ones.
pub(super) const HEADERS: usize = FpduHeader::LENGTH + DdpSegment::UNTAGGED;

/// What is to be done about the CRC of an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FpduCrcCheck {
    /// It is computed as bytes come.
    Running(Crc),
    /// It is known already, or not used.
    Done,
    /// It cannot be known: bytes are missing.
    Missing,
}

/// An FPDU that did not lie in one piece.
#[derive(Debug)]
pub(super) struct PartialFpdu {
    /// Its first bytes, without markers.
    pub(super) headers: [u8; HEADERS],
    /// How many of its bytes were taken, without markers; of the first `HEADERS` all are in `headers`.
    pub(super) taken: usize,
    pub(super) header: Option<FpduHeader>,
    /// Its headers; `None` before they are whole, and where they were not captured.
    pub(super) segment: Option<DdpSegment>,
    pub(super) check: FpduCrcCheck,
    /// Whether its payload waits: until the CRC is known, or the next FPDU shows that this one is one.
    pub(super) waits: bool,
    pub(super) trust: FpduConfidence,
    pub(super) crc_field: [u8; Crc::LENGTH],
    /// Bytes captured of it.
    pub(super) captured: u64,
    /// Frames of it whose payload is still to come.
    pub(super) ahead: HeaderFrames,
}

impl PartialFpdu {
    /// How many bytes of headers tell what it is.
    pub(super) fn needed(&self) -> usize {
        let control = self.headers.get(FpduHeader::LENGTH).filter(|_| self.taken > FpduHeader::LENGTH);
        match control {
            None => FpduHeader::LENGTH + DdpControl::LENGTH,
            Some(control) if control & 0x80 != 0 => FpduHeader::LENGTH + DdpSegment::TAGGED,
            Some(_) => HEADERS,
        }
    }

    /// Whether its payload is over, so that what is left of it is its trailer: pad and CRC.
    pub(super) fn is_in_trailer(&self) -> bool {
        self.header.is_some_and(|header| self.taken >= FpduHeader::LENGTH + usize::from(header.ulpdu_length))
    }

    /// Bytes that its CRC covers.
    pub(super) fn cover(&mut self, bytes: &UnparsedBytes<'_>) {
        self.captured += bytes.bytes.len() as u64;
        match &mut self.check {
            FpduCrcCheck::Running(_) if bytes.is_cut() => self.check = FpduCrcCheck::Missing,
            FpduCrcCheck::Running(crc) => *crc = crc.then(bytes.bytes),
            _ => {}
        }
    }

    /// Its CRC was not captured.
    pub(super) fn miss(&mut self) {
        if let FpduCrcCheck::Running(_) = self.check {
            self.check = FpduCrcCheck::Missing;
        }
    }
}
