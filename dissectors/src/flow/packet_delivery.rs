//! Inference of the copy of a packet that the receiver accepted, in one direction of a reliable connection.
//!
//! A responder accepts the packet with the expected PSN, refuses packets behind a gap with one NAK, and receives them
//! again (go-back-N: InfiniBand Architecture Specification volume 1, sections 9.7.5 and 9.9.2). The first captured copy
//! of a packet may therefore be one that the receiver discarded. [`PacketDelivery`] infers the expected PSN from
//! captured packets and acknowledgements:
//!
//! - A packet behind a gap is refused, until an acknowledgement shows that only the capture lacks packets.
//! - A NAK (sequence error, or receiver not ready) names the PSN that the receiver expects. Packets captured from there
//!   on were lost behind the capture point, or refused.
//! - A packet that is retransmitted and was never acknowledged was lost behind the capture point too: its sender timed
//!   out.
//! - A packet that was acknowledged before its retransmission is a surplus copy.

use std::num::NonZeroU64;

use crate::frame::Timestamp;

use super::reliable_connection::ExtendedPsn;

/// Time lost to retransmission of packets that were lost or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetransmissionStall {
    /// Time of the first sign of the loss: the first packet behind the gap, the NAK, or the last packet before an ACK
    /// timeout.
    pub since: Timestamp,
    /// Time of the packet that was finally accepted.
    pub until: Timestamp,
}

impl RetransmissionStall {
    /// Returns the smallest stall that spans both.
    pub(super) fn span(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => {
                Some(Self { since: one.since.min(other.since), until: one.until.max(other.until) })
            }
            (one, other) => one.or(other),
        }
    }
}

/// Outcome of a packet at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketOutcome {
    /// The receiver accepts it in order.
    Accepted,
    /// The receiver accepts it after an earlier copy was lost or refused.
    Recovered(RetransmissionStall),
    /// The receiver refuses it because of a gap before it.
    Refused,
    /// The receiver has already accepted a copy.
    Surplus,
}

/// A gap that is not closed, or whose packets are being retransmitted.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Timestamp,
    /// Lowest PSN that was refused.
    first_refused: ExtendedPsn,
    /// Highest PSN that was refused or will be retransmitted.
    last_affected: ExtendedPsn,
    /// `true` if there is more evidence than the capture order: a NAK, an ACK timeout, or retransmission of refused
    /// packets.
    is_proven: bool,
}

/// Unit of Local ACK Timeout in nanoseconds, 4.096 µs (InfiniBand Architecture Specification volume 1, section
/// 9.7.6.1.3).
const ACK_TIMEOUT_UNIT_NS: u64 = 4_096;
/// Largest Local ACK Timeout in use: 2^20 units are 4.3 s. The field has 5 bits; 31 means 2.4 hours.
const MAX_ACK_TIMEOUT_EXPONENT: u32 = 20;
/// Maximum number of retries of a packet: Retry Count of REQ has 3 bits (section 12.6.5).
const MAX_RETRIES: u64 = 7;

/// Maximum age of a gap in nanoseconds of capture time, until the last retry after ACK timeouts: 4.096 µs × 2^20 × 7 =
/// 30.06 s. Packets still missing then were not captured, and no acknowledgements are.
pub(super) const MAX_GAP_AGE_NS: u64 = (ACK_TIMEOUT_UNIT_NS << MAX_ACK_TIMEOUT_EXPONENT) * MAX_RETRIES;

/// Losses and retransmissions of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    gap: Option<Gap>,
    /// Time of the last refusal by the receiver.
    last_refusal: Option<Timestamp>,
    /// Time of the last retransmission.
    last_retransmission: Option<Timestamp>,
}

/// PSNs that the receiver of one direction has accepted.
#[derive(Debug, Default)]
pub(super) struct PacketDelivery {
    /// Next PSN that the receiver accepts; `None` before the first packet, and after an RDMA Read of unknown size.
    expected: Option<NonZeroU64>,
    /// PSN of the first packet since `expected` was last unknown. Packets before it may be captured late.
    first_sequence: ExtendedPsn,
    /// PSN before which all packets were acknowledged.
    acknowledged_before: ExtendedPsn,
    /// Time of the last packet.
    last_packet_time: Timestamp,
    /// Allocated on the first loss: most connections have none, and there may be very many connections.
    losses: Option<Box<Losses>>,
}

impl PacketDelivery {
    /// Returns the outcome of a packet that uses `count` PSNs from `sequence` on; `None` if the count is unknown.
    #[inline]
    pub(super) fn record_packet(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        now: Timestamp,
    ) -> PacketOutcome {
        let last = std::mem::replace(&mut self.last_packet_time, now);
        let is_in_turn = self.expected.is_some_and(|expected| expected.get() == sequence);
        if is_in_turn && self.gap().is_none() {
            self.expect_after(sequence, count);
            return PacketOutcome::Accepted;
        }
        self.record_out_of_order(sequence, count, last, now)
    }

    /// Expects the PSN after the `count` PSNs from `sequence` on.
    #[inline]
    fn expect_after(&mut self, sequence: ExtendedPsn, count: Option<u64>) {
        self.expected = count.and_then(|count| NonZeroU64::new(sequence + count));
    }

    /// Expects this PSN next.
    pub(super) fn expect(&mut self, sequence: ExtendedPsn) {
        self.expected = NonZeroU64::new(sequence);
    }

    #[inline]
    fn gap(&self) -> Option<&Gap> {
        self.losses.as_ref().and_then(|losses| losses.gap.as_ref())
    }

    fn end_gap(&mut self) {
        if let Some(losses) = &mut self.losses {
            losses.gap = None;
        }
    }

    fn losses(&mut self) -> &mut Losses {
        self.losses.get_or_insert_default()
    }

    #[cold]
    fn record_out_of_order(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        last: Timestamp,
        now: Timestamp,
    ) -> PacketOutcome {
        if sequence < self.acknowledged_before && self.expected.is_some() {
            self.losses().last_retransmission = Some(now);
            return PacketOutcome::Surplus;
        }
        if self.gap().is_some_and(|gap| now.abs_diff_ns(gap.since) > MAX_GAP_AGE_NS) {
            self.end_gap();
            self.expected = None;
        }
        let Some(expected) = self.expected.map(NonZeroU64::get) else {
            self.first_sequence = sequence;
            return self.accept(sequence, count, now);
        };
        if sequence < self.first_sequence {
            return PacketOutcome::Accepted;
        }
        if sequence > expected {
            let seen = Gap { since: now, first_refused: sequence, last_affected: sequence, is_proven: false };
            let gap = self.losses().gap.get_or_insert(seen);
            gap.first_refused = gap.first_refused.min(sequence);
            gap.last_affected = gap.last_affected.max(sequence);
            return PacketOutcome::Refused;
        }
        if sequence < expected {
            let is_acknowledged = self.acknowledged_before > 0;
            let losses = self.losses();
            losses.last_retransmission = Some(now);
            // Without captured acknowledgements, the accepted copy is unknown.
            if !is_acknowledged {
                return PacketOutcome::Surplus;
            }
            // The sender timed out waiting for the acknowledgement.
            let newest = expected - 1;
            let timed_out =
                Gap { since: last, first_refused: sequence, last_affected: newest, is_proven: true };
            let gap = losses.gap.get_or_insert(timed_out);
            gap.last_affected = gap.last_affected.max(newest);
            gap.is_proven = true;
        }
        self.accept(sequence, count, now)
    }

    /// Accepts a packet, in order or as a retransmission after a gap.
    fn accept(&mut self, sequence: ExtendedPsn, count: Option<u64>, now: Timestamp) -> PacketOutcome {
        self.expect_after(sequence, count);
        let Some(gap) = self.losses.as_mut().and_then(|losses| losses.gap.as_mut()) else {
            return PacketOutcome::Accepted;
        };
        if sequence > gap.last_affected {
            self.end_gap();
            return PacketOutcome::Accepted;
        }
        gap.is_proven |= sequence >= gap.first_refused;
        match gap.is_proven {
            true => PacketOutcome::Recovered(RetransmissionStall { since: gap.since, until: now }),
            false => PacketOutcome::Accepted,
        }
    }

    /// Returns `true` if no packet with this number or a later one was captured.
    #[inline]
    pub(super) fn is_missing(&self, sequence: ExtendedPsn) -> bool {
        match self.expected {
            Some(expected) => sequence >= expected.get(),
            // After an RDMA Read of unknown size, the next number is unknown.
            None => self.last_packet_time == Timestamp::default(),
        }
    }

    /// Records that everything before `next` was received.
    #[inline]
    pub(super) fn acknowledge(&mut self, next: ExtendedPsn) {
        self.acknowledged_before = self.acknowledged_before.max(next);
        if let Some(expected) = self.expected {
            self.expected = NonZeroU64::new(expected.get().max(next));
        }
        if self.gap().is_some_and(|gap| gap.last_affected < next) {
            self.end_gap();
        }
    }

    /// Records that the receiver requests retransmission from `next` on.
    pub(super) fn record_nak(&mut self, next: ExtendedPsn, now: Timestamp) {
        self.acknowledge(next);
        let expected = self.expected.map(NonZeroU64::get);
        let losses = self.losses();
        losses.last_refusal = Some(now);
        let Some(expected) = expected else { return };
        match &mut losses.gap {
            Some(gap) => gap.is_proven = true,
            None if next < expected => {
                let newest = expected - 1;
                losses.gap =
                    Some(Gap { since: now, first_refused: next, last_affected: newest, is_proven: true });
            }
            None => {}
        }
        self.expected = NonZeroU64::new(next);
    }

    /// Returns the next PSN that the receiver accepts; 0 if unknown.
    pub(super) fn expected(&self) -> ExtendedPsn {
        self.expected.map_or(0, NonZeroU64::get)
    }

    /// Returns the time of the receiver's last request for retransmission.
    pub(super) fn last_refusal(&self) -> Option<Timestamp> {
        self.losses.as_ref()?.last_refusal
    }

    /// Returns the time of the last retransmission.
    pub(super) fn last_retransmission(&self) -> Option<Timestamp> {
        self.losses.as_ref()?.last_retransmission
    }

    /// Returns `true` if refused packets are proven and not all of them were retransmitted yet.
    pub(super) fn has_proven_gap(&self) -> bool {
        self.gap().is_some_and(|gap| gap.is_proven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: i64) -> Timestamp {
        Timestamp(time)
    }

    fn arrive(delivery: &mut PacketDelivery, packets: &[(ExtendedPsn, i64)]) -> Vec<PacketOutcome> {
        packets.iter().map(|(sequence, time)| delivery.record_packet(*sequence, Some(1), at(*time))).collect()
    }

    fn recovered(since: i64, until: i64) -> PacketOutcome {
        PacketOutcome::Recovered(RetransmissionStall { since: at(since), until: at(until) })
    }

    #[test]
    fn packets_behind_a_gap_are_refused_until_the_gap_comes_again() {
        let mut delivery = PacketDelivery::default();
        let first = arrive(&mut delivery, &[(10, 1), (12, 3), (13, 4)]);
        assert_eq!(first, [PacketOutcome::Accepted, PacketOutcome::Refused, PacketOutcome::Refused]);
        delivery.record_nak(11, at(5));
        let again = arrive(&mut delivery, &[(11, 7), (12, 8), (13, 9), (14, 10)]);
        assert_eq!(again, [recovered(3, 7), recovered(3, 8), recovered(3, 9), PacketOutcome::Accepted]);
    }

    #[test]
    fn a_nak_takes_back_what_was_captured_before_it_was_lost() {
        let mut delivery = PacketDelivery::default();
        arrive(&mut delivery, &[(10, 1), (11, 2), (12, 3)]);
        delivery.record_nak(11, at(5));
        assert_eq!(arrive(&mut delivery, &[(11, 7), (12, 8)]), [recovered(5, 7), recovered(5, 8)]);
    }

    #[test]
    fn what_is_sent_again_without_an_acknowledgement_was_lost() {
        let mut delivery = PacketDelivery::default();
        arrive(&mut delivery, &[(10, 1), (11, 2)]);
        assert_eq!(
            arrive(&mut delivery, &[(11, 3)]),
            [PacketOutcome::Surplus],
            "no acknowledgement was captured"
        );
        delivery.acknowledge(11);
        assert_eq!(arrive(&mut delivery, &[(10, 500)]), [PacketOutcome::Surplus]);
        assert_eq!(
            arrive(&mut delivery, &[(11, 501), (12, 502)]),
            [recovered(500, 501), PacketOutcome::Accepted]
        );
    }

    #[test]
    fn the_order_of_a_capture_alone_loses_no_time() {
        let mut delivery = PacketDelivery::default();
        let fates = arrive(&mut delivery, &[(10, 1), (13, 2), (11, 3), (12, 4)]);
        assert_eq!(
            fates,
            [
                PacketOutcome::Accepted,
                PacketOutcome::Refused,
                PacketOutcome::Accepted,
                PacketOutcome::Accepted
            ]
        );
        delivery.acknowledge(14);
        assert_eq!(arrive(&mut delivery, &[(14, 5)]), [PacketOutcome::Accepted]);
    }

    #[test]
    fn what_was_captured_before_the_first_packet_in_turn_is_late() {
        let mut delivery = PacketDelivery::default();
        assert_eq!(arrive(&mut delivery, &[(11, 1), (10, 2), (12, 3)]), [PacketOutcome::Accepted; 3]);
        // The same applies after an RDMA Read of unknown size.
        assert_eq!(delivery.record_packet(13, None, at(4)), PacketOutcome::Accepted);
        assert_eq!(arrive(&mut delivery, &[(18, 5), (17, 6), (19, 7)]), [PacketOutcome::Accepted; 3]);
    }

    #[test]
    fn a_gap_that_only_the_capture_has_ends_with_the_acknowledgement() {
        let mut delivery = PacketDelivery::default();
        assert_eq!(
            arrive(&mut delivery, &[(10, 1), (12, 2)]),
            [PacketOutcome::Accepted, PacketOutcome::Refused]
        );
        assert!(!delivery.has_proven_gap());
        delivery.acknowledge(13);
        assert_eq!(arrive(&mut delivery, &[(13, 3)]), [PacketOutcome::Accepted]);
    }

    /// InfiniBand Architecture Specification volume 1, section 9.7.6.1.3: 4.096 µs × 2^20 = 4.294967296 s, 7 retries.
    #[test]
    fn the_last_retry_after_the_longest_ack_timeout_recovers() {
        let mut delivery = PacketDelivery::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        let retries: Vec<_> = (1..=7).map(|retry| (12, 2 + retry * 4_294_967_296)).collect();
        assert_eq!(arrive(&mut delivery, &retries), [PacketOutcome::Refused; 7]);
        delivery.record_nak(11, at(retries[6].1));
        let until = retries[6].1;
        assert_eq!(arrive(&mut delivery, &[(11, until)]), [recovered(2, until)]);
    }

    #[test]
    fn without_acknowledgements_a_gap_is_not_believed_for_ever() {
        let mut delivery = PacketDelivery::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        assert_eq!(arrive(&mut delivery, &[(13, 2 + MAX_GAP_AGE_NS as i64)]), [PacketOutcome::Refused]);
        assert_eq!(arrive(&mut delivery, &[(14, 3 + MAX_GAP_AGE_NS as i64)]), [PacketOutcome::Accepted]);
    }
}
