//! Detection of frames that a capture contains twice. A switch that mirrors both ports copies each frame on
//! entry and on exit, and once more for every further mirror.
//!
//! Copies of one frame are equal from the innermost IP header on, except for the fields that routers change
//! (hop limit, traffic class, and the checksum over them), whatever link layer, VLAN tag of the same
//! network, or mirror tunnel surrounds them. A retransmitted packet may be equal too: the same PSN and so
//! the same ICRC, or the same bytes of a stream. The two are distinguished at no cost for a packet that
//! continues its sequence:
//!
//! - If a sender gives each IPv4 datagram another identification (RFC 6864 section 4: not all do), equal
//!   ones are copies made by the capture, for up to [`MAX_DISTANCE_WITH_IP_ID_NS`] nanoseconds.
//! - Otherwise (IPv6, identification 0 or constant, native InfiniBand links) time and the receiver decide.
//!   A copy made by the capture follows within [`MAX_DISTANCE_WITHOUT_IP_ID_NS`] nanoseconds, which is less than any ACK timeout
//!   in use (4.096 µs × 2^14 is 67 ms) and than the retransmission timeout of TCP (RFC 6298: 1 s; Linux:
//!   200 ms). And the receiver has not requested it since: no NAK, no duplicate acknowledgement; for a
//!   response, no repeated request.
//!
//! A copy that arrives later, or after more than [`MAX_FRAMES`] other frames, is a retransmission.

use crate::frame::Timestamp;

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

/// Hash of the fields that copies of one frame share: sequence numbers, opcode, identification, connection.
pub(super) type FrameFingerprint = u64;

/// Mixes two words into a hash.
#[inline]
pub(super) fn mix_fingerprint(one: u64, other: u64) -> FrameFingerprint {
    (one.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ other).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Detector for a sender that gives each of its IPv4 datagrams another identification.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IpIdVariation {
    last: u16,
    is_varying: bool,
}

impl IpIdVariation {
    /// Records the identification of a packet that continues its sequence.
    #[inline]
    pub(super) fn record(&mut self, identification: u16) {
        if !self.is_varying {
            let before = std::mem::replace(&mut self.last, identification);
            self.is_varying = before != 0 && identification != 0 && before != identification;
        }
    }

    /// Returns `true` if the identification distinguishes packets.
    pub(super) fn distinguishes_packets(self, identification: u16) -> bool {
        self.is_varying && identification != 0
    }
}

/// Ring of the frames captured last.
#[derive(Debug)]
pub(super) struct RecentFrames {
    fingerprints: Box<[FrameFingerprint; MAX_FRAMES]>,
    times: Box<[Timestamp; MAX_FRAMES]>,
    /// Index of the next frame.
    next_index: usize,
}

impl Default for RecentFrames {
    fn default() -> Self {
        Self {
            fingerprints: Box::new([0; MAX_FRAMES]),
            times: Box::new([Timestamp(i64::MIN); MAX_FRAMES]),
            next_index: 0,
        }
    }
}

impl RecentFrames {
    /// Records a frame.
    #[inline]
    pub(super) fn record(&mut self, mark: FrameFingerprint, time: Timestamp) {
        let at = self.next_index % MAX_FRAMES;
        (self.fingerprints[at], self.times[at]) = (mark, time);
        self.next_index = (at + 1) % MAX_FRAMES;
    }

    /// Forgets all frames: another capture begins, and no copies of them follow.
    pub(super) fn clear(&mut self) {
        self.times.fill(Timestamp(i64::MIN));
    }

    /// Returns `true` if a frame is a copy made by the capture. `identities_tell`: identifications distinguish
    /// frames. `asked`: time at which the receiver last requested a packet like it.
    #[cold]
    pub(super) fn contains_copy(
        &self,
        mark: FrameFingerprint,
        time: Timestamp,
        identities_tell: bool,
        asked: Option<Timestamp>,
    ) -> bool {
        let (new, old) = self.fingerprints.split_at(self.next_index % MAX_FRAMES);
        let found = last_position(new, mark).or_else(|| Some(new.len() + last_position(old, mark)?));
        let Some(before) = found.and_then(|at| self.times.get(at)).copied() else { return false };
        let apart = time.abs_diff_ns(before);
        match identities_tell {
            true => apart <= MAX_DISTANCE_WITH_IP_ID_NS,
            false => apart <= MAX_DISTANCE_WITHOUT_IP_ID_NS && asked.is_none_or(|asked| asked < before),
        }
    }
}

/// Returns the index of the last of `fingerprints` that is equal to `mark`.
fn last_position(fingerprints: &[FrameFingerprint], mark: FrameFingerprint) -> Option<usize> {
    // Mostly none is equal, which the loop over a block finds without a branch for each of them.
    const BLOCK: usize = 64;
    let has_mark = |block: &[FrameFingerprint]| block.iter().fold(false, |has, known| has | (*known == mark));
    let block = fingerprints.chunks(BLOCK).rposition(has_mark)?;
    let before = block * BLOCK;
    let found = fingerprints.get(before..)?.iter().take(BLOCK).rposition(|known| *known == mark)?;
    Some(before + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifications_tell_copies_from_what_was_sent_again() {
        let mut identities = IpIdVariation::default();
        identities.record(7);
        assert!(!identities.distinguishes_packets(7));
        identities.record(8);
        assert!(identities.distinguishes_packets(8) && !identities.distinguishes_packets(0));
        let mut constant = IpIdVariation::default();
        [5, 5, 0, 0, 5].into_iter().for_each(|identification| constant.record(identification));
        assert!(!constant.distinguishes_packets(5));
    }

    #[test]
    fn a_copy_comes_soon_or_under_its_identification() {
        let mut recent = RecentFrames::default();
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
    fn what_lies_behind_many_frames_is_forgotten() {
        let mut recent = RecentFrames::default();
        recent.record(u64::MAX, Timestamp(0));
        (0..MAX_FRAMES as u64 - 1).for_each(|mark| recent.record(mark, Timestamp(0)));
        assert!(recent.contains_copy(u64::MAX, Timestamp(0), true, None));
        recent.record(9, Timestamp(0));
        assert!(!recent.contains_copy(u64::MAX, Timestamp(0), true, None));
    }

    #[test]
    fn a_clock_that_goes_back_begins_another_capture() {
        let mut recent = RecentFrames::default();
        recent.record(1, Timestamp(0));
        recent.record(2, Timestamp(2 * MAX_CLOCK_STEP_BACK_NS));
        recent.clear();
        assert!(!recent.contains_copy(1, Timestamp(0), true, None));
        recent.record(3, Timestamp(0));
        assert!(
            !recent.contains_copy(1, Timestamp(1), true, None)
                && recent.contains_copy(3, Timestamp(1), true, None)
        );
    }
}
