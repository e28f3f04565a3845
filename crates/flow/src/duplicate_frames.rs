//! Detection of frames that a capture contains twice. A switch that mirrors both ports copies each frame on
//! entry and on exit, and once more for every further mirror.
//!
//! Copies of one frame are equal from the innermost IP header on, except for the fields that routers change
//! (hop limit, traffic class, and the checksum over them), whatever link layer, VLAN tag of the same
//! network, or mirror tunnel surrounds them. The ICRC of a packet covers these fields (InfiniBand
//! Architecture Specification volume 1, section 7.8.1); PSN, opcode and AETH replace it for a truncated frame. A
//! retransmitted packet may be equal too: the same PSN and so the same ICRC, or the same bytes of a stream. The two are
//! distinguished at no cost for a packet that continues its sequence:
//!
//! - If a sender gives each IPv4 datagram another identification (RFC 6864 section 4: not all do), equal
//!   ones are copies made by the capture, for up to [`MAX_DISTANCE_WITH_IP_ID_NS`] nanoseconds.
//! - Otherwise (IPv6, identification 0 or constant, native InfiniBand links) time and the receiver decide. A copy made
//!   by the capture follows within [`MAX_DISTANCE_WITHOUT_IP_ID_NS`] nanoseconds, which is less than any ACK timeout in
//!   use (4.096 µs × 2^14 is 67 ms) and than the retransmission timeout of TCP (RFC 6298: 1 s; Linux: 200 ms). And the
//!   receiver has not requested it since: no NAK, no duplicate acknowledgement; for a response, no repeated request.
//!
//! A copy that arrives later, or after more than [`MAX_FRAMES`] other frames, is a retransmission.

use nfsrdma_dissectors::captured_frame::Timestamp;

/// Number of frames remembered.
const MAX_FRAMES: usize = 2048;

/// Maximum distance in nanoseconds between copies of a frame if identifications distinguish frames: merging
/// several mirrors by time adds their clock offsets.
const MAX_DISTANCE_WITH_IP_ID_NS: u64 = 200_000_000;

/// Maximum distance in nanoseconds between copies of a frame if only time distinguishes them.
const MAX_DISTANCE_WITHOUT_IP_ID_NS: u64 = 10_000_000;

/// Maximum backward step in nanoseconds of a capture's clock from one frame to the next; after a larger
/// step another capture begins.
pub(super) const MAX_CLOCK_STEP_BACK_NS: i64 = 1_000_000_000;

/// Fields that copies of one frame share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameFingerprint {
    /// Hash of sequence numbers, opcode, AETH, identification and connection.
    pub(super) headers: u64,
    /// ICRC, which covers the other headers and the payload; 0 if the frame has none, or if it was not captured.
    pub(super) icrc: u32,
}

impl From<u64> for FrameFingerprint {
    fn from(headers: u64) -> Self {
        Self { headers, icrc: 0 }
    }
}

/// Mixes two words into a hash.
#[inline]
pub(super) fn mix_fingerprint(hash: u64, value: u64) -> u64 {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Detector for a sender that gives each of its IPv4 datagrams another identification.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VaryingIpIdDetector {
    last: u16,
    is_varying: bool,
}

impl VaryingIpIdDetector {
    /// Records the identification of a packet that continues its sequence.
    #[inline]
    pub(super) fn record(&mut self, identification: u16) {
        if !self.is_varying {
            let before = std::mem::replace(&mut self.last, identification);
            self.is_varying = before != 0 && identification != 0 && before != identification;
        }
    }

    pub(super) fn distinguishes_packets(self, identification: u16) -> bool {
        self.is_varying && identification != 0
    }
}

/// Ring of the frames captured last.
#[derive(Debug)]
pub(super) struct DuplicateFrameDetector {
    headers: Box<[u64; MAX_FRAMES]>,
    icrcs: Box<[u32; MAX_FRAMES]>,
    times: Box<[Timestamp; MAX_FRAMES]>,
    next_index: usize,
}

impl Default for DuplicateFrameDetector {
    fn default() -> Self {
        Self {
            headers: Box::new([0; MAX_FRAMES]),
            icrcs: Box::new([0; MAX_FRAMES]),
            times: Box::new([Timestamp(i64::MIN); MAX_FRAMES]),
            next_index: 0,
        }
    }
}

impl DuplicateFrameDetector {
    #[inline]
    pub(super) fn record(&mut self, frame: impl Into<FrameFingerprint>, time: Timestamp) {
        let frame = frame.into();
        let at = self.next_index % MAX_FRAMES;
        (self.headers[at], self.icrcs[at], self.times[at]) = (frame.headers, frame.icrc, time);
        self.next_index = (at + 1) % MAX_FRAMES;
    }

    /// Forgets all frames: another capture begins, and no copies of them follow.
    pub(super) fn clear(&mut self) {
        self.times.fill(Timestamp(i64::MIN));
    }

    /// Returns `true` if a frame is a copy made by the capture. `identities_tell`: identifications distinguish
    /// frames. `last_retransmission`: time at which the receiver last requested a packet like it.
    #[cold]
    pub(super) fn contains_copy(
        &self,
        frame: impl Into<FrameFingerprint>,
        time: Timestamp,
        identities_tell: bool,
        last_retransmission: Option<Timestamp>,
    ) -> bool {
        let frame = frame.into();
        let (newer, older) = self.headers.split_at(self.next_index % MAX_FRAMES);
        let headers = frame.headers;
        let position = last_position(newer, headers).or_else(|| Some(newer.len() + last_position(older, headers)?));
        let is_equal = |at: &usize| {
            let icrc = self.icrcs.get(*at).copied().unwrap_or(0);
            icrc == frame.icrc || icrc == 0 || frame.icrc == 0
        };
        let before = position.filter(is_equal).and_then(|at| self.times.get(at)).copied();
        let Some(before) = before else { return false };
        let distance_ns = time.abs_diff_ns(before);
        match identities_tell {
            true => distance_ns <= MAX_DISTANCE_WITH_IP_ID_NS,
            false => {
                distance_ns <= MAX_DISTANCE_WITHOUT_IP_ID_NS && last_retransmission.is_none_or(|sent| sent < before)
            }
        }
    }
}

/// Returns the index of the last of `frames` that is equal to `headers`.
fn last_position(frames: &[u64], headers: u64) -> Option<usize> {
    // Mostly none is equal, which the loop over a block finds without a branch for each of them.
    const BLOCK: usize = 64;
    let is_in = |block: &[u64]| block.iter().fold(false, |has, candidate| has | (*candidate == headers));
    let block = frames.chunks(BLOCK).rposition(is_in)?;
    let block_start = block * BLOCK;
    let position = frames.get(block_start..)?.iter().take(BLOCK).rposition(|candidate| *candidate == headers)?;
    Some(block_start + position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_identifications_distinguish_copies_from_retransmissions() {
        let mut identities = VaryingIpIdDetector::default();
        identities.record(7);
        assert!(!identities.distinguishes_packets(7));
        identities.record(8);
        assert!(identities.distinguishes_packets(8) && !identities.distinguishes_packets(0));
        let mut constant = VaryingIpIdDetector::default();
        [5, 5, 0, 0, 5].into_iter().for_each(|identification| constant.record(identification));
        assert!(!constant.distinguishes_packets(5));
    }

    #[test]
    fn a_copy_comes_soon_or_under_its_identification() {
        let mut recent = DuplicateFrameDetector::default();
        recent.record(1, Timestamp(100));
        (2..200).for_each(|mark| recent.record(mark, Timestamp(200)));
        let soon = Timestamp(100 + MAX_DISTANCE_WITHOUT_IP_ID_NS as i64);
        let later = Timestamp(soon.0 + 1);
        assert!(recent.contains_copy(1, soon, false, None) && !recent.contains_copy(1, later, false, None));
        assert!(recent.contains_copy(1, later, true, None) && !recent.contains_copy(999, soon, true, None));
        assert!(recent.contains_copy(1, soon, false, Some(Timestamp(99))));
        assert!(!recent.contains_copy(1, soon, false, Some(Timestamp(100))), "the receiver asked for it");
    }

    #[test]
    fn frames_with_other_icrcs_are_no_copies() {
        let mut recent = DuplicateFrameDetector::default();
        let frame = |icrc| FrameFingerprint { headers: 1, icrc };
        recent.record(frame(7), Timestamp(100));
        let is_copy = |icrc| recent.contains_copy(frame(icrc), Timestamp(100), true, None);
        assert!(is_copy(7) && !is_copy(8));
        assert!(is_copy(0), "a snap length removed the ICRC");
    }

    #[test]
    fn frames_older_than_the_limit_are_forgotten() {
        let mut recent = DuplicateFrameDetector::default();
        recent.record(u64::MAX, Timestamp(0));
        (0..MAX_FRAMES as u64 - 1).for_each(|mark| recent.record(mark, Timestamp(0)));
        assert!(recent.contains_copy(u64::MAX, Timestamp(0), true, None));
        recent.record(9, Timestamp(0));
        assert!(!recent.contains_copy(u64::MAX, Timestamp(0), true, None));
    }

    #[test]
    fn a_clock_that_goes_back_begins_another_capture() {
        let mut recent = DuplicateFrameDetector::default();
        recent.record(1, Timestamp(0));
        recent.record(2, Timestamp(2 * MAX_CLOCK_STEP_BACK_NS));
        recent.clear();
        assert!(!recent.contains_copy(1, Timestamp(0), true, None));
        recent.record(3, Timestamp(0));
        assert!(
            !recent.contains_copy(1, Timestamp(1), true, None) && recent.contains_copy(3, Timestamp(1), true, None)
        );
    }
}
