//! Which copy of a packet its receiver accepted, in one direction of a reliable connection.
//!
//! A responder accepts the packet with the sequence number that it expects, refuses those behind a gap with one NAK, and
//! gets them again (InfiniBand Architecture Specification volume 1, sections 9.7.5 and 9.9.2: go-back-N). So the packet
//! that was captured first may be one that the receiver threw away. [`Delivery`] keeps the expected number as the packets
//! and acknowledgements of the capture tell it:
//!
//! - a packet behind a gap is refused, until an acknowledgement says that the gap is one of the capture alone;
//! - a NAK (sequence error, or receiver not ready) names the number that the receiver expects: whatever was captured from
//!   there on was lost behind the place of the capture, or refused;
//! - a packet that is sent again and was never acknowledged was lost behind the place of the capture, too: its sender waited
//!   for the acknowledgement in vain;
//! - a packet that was acknowledged before it was sent again is a surplus copy.

use std::num::NonZeroU64;

use crate::frame::Timestamp;

use super::reliable_connection::ExtendedPsn;

/// Time that a direction lost: packets went again what had been lost or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When the loss showed: the first packet behind the gap, the NAK, or the last packet before an ACK timeout.
    pub since: Timestamp,
    /// When the packet came that was accepted at last.
    pub until: Timestamp,
}

impl Stall {
    /// From the first of two on to the end of the last.
    pub(super) fn join(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => {
                Some(Self { since: one.since.min(other.since), until: one.until.max(other.until) })
            }
            (one, other) => one.or(other),
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketOutcome {
    /// The receiver takes it, in its turn.
    Accepted,
    /// The receiver takes it, after it was lost or refused before.
    Recovered(Stall),
    /// The receiver refuses it: a gap is before it.
    Refused,
    /// The receiver had it already.
    Surplus,
}

/// A gap that was not closed yet, or the packets that are sent again after it.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Timestamp,
    /// The first packet that was refused.
    refused: ExtendedPsn,
    /// The last packet that was refused or is to be sent again.
    newest: ExtendedPsn,
    /// Whether more than the order of the capture speaks for it: a NAK, or that refused packets come again.
    is_proven: bool,
}

/// Nanoseconds of the unit of Local ACK Timeout, 4.096 µs (InfiniBand Architecture Specification volume 1, section 9.7.6.1.3).
const ACK_TIMEOUT_UNIT: u64 = 4_096;
/// The largest Local ACK Timeout that is in use: 2^20 units are 4.3 s. The field has 5 bits, and 31 stands for 2.4 hours.
const ACK_TIMEOUT_EXPONENT: u32 = 20;
/// The most retries of a packet: Retry Count of REQ has 3 bits (section 12.6.5).
const RETRIES: u64 = 7;

/// How long, in nanoseconds of the capture's clock, a gap is believed: until the last retry after ACK timeouts, 4.096 µs × 2^20 × 7 =
/// 30.06 s. What is missing then was not captured, and no acknowledgement tells.
const LONGEST: u64 = (ACK_TIMEOUT_UNIT << ACK_TIMEOUT_EXPONENT) * RETRIES;

/// Packets that one direction lost, or sent again.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    gap: Option<Gap>,
    /// When the receiver refused a packet last.
    refused: Option<Timestamp>,
    /// When a packet was sent again last.
    repeated: Option<Timestamp>,
}

/// What the receiver of one direction has accepted.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// The number that the receiver accepts next; unknown before the first packet, and behind an RDMA Read of unknown size.
    expected: Option<NonZeroU64>,
    /// Where that began: packets from before it may be late.
    from: ExtendedPsn,
    /// Every packet before this was acknowledged.
    acknowledged: ExtendedPsn,
    /// When a packet was seen last.
    last: Timestamp,
    /// Allocated by the first loss: most connections have none, and there may be very many connections.
    losses: Option<Box<Losses>>,
}

impl Delivery {
    /// Takes a packet that uses `count` numbers from `sequence` on; `None` where the count is not known.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        now: Timestamp,
    ) -> PacketOutcome {
        let last = std::mem::replace(&mut self.last, now);
        let is_in_turn = self.expected.is_some_and(|expected| expected.get() == sequence);
        if is_in_turn && self.gap().is_none() {
            self.expect_behind(sequence, count);
            return PacketOutcome::Accepted;
        }
        self.arrive_out_of_turn(sequence, count, last, now)
    }

    /// The next packet comes behind the `count` numbers from `sequence` on.
    #[inline]
    fn expect_behind(&mut self, sequence: ExtendedPsn, count: Option<u64>) {
        self.expected = count.and_then(|count| NonZeroU64::new(sequence + count));
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
    fn arrive_out_of_turn(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        last: Timestamp,
        now: Timestamp,
    ) -> PacketOutcome {
        if sequence < self.acknowledged && self.expected.is_some() {
            self.losses().repeated = Some(now);
            return PacketOutcome::Surplus;
        }
        if self.gap().is_some_and(|gap| now.apart(gap.since) > LONGEST) {
            self.end_gap();
            self.expected = None;
        }
        let Some(expected) = self.expected.map(NonZeroU64::get) else {
            self.from = sequence;
            return self.accept(sequence, count, now);
        };
        if sequence < self.from {
            return PacketOutcome::Accepted;
        }
        if sequence > expected {
            let seen = Gap { since: now, refused: sequence, newest: sequence, is_proven: false };
            let gap = self.losses().gap.get_or_insert(seen);
            gap.refused = gap.refused.min(sequence);
            gap.newest = gap.newest.max(sequence);
            return PacketOutcome::Refused;
        }
        if sequence < expected {
            let is_acknowledged = self.acknowledged > 0;
            let losses = self.losses();
            losses.repeated = Some(now);
            // Where acknowledgements are not captured nothing tells which copy it was.
            if !is_acknowledged {
                return PacketOutcome::Surplus;
            }
            // Its acknowledgement did not come in time.
            let newest = expected - 1;
            let timed_out = Gap { since: last, refused: sequence, newest, is_proven: true };
            let gap = losses.gap.get_or_insert(timed_out);
            gap.newest = gap.newest.max(newest);
            gap.is_proven = true;
        }
        self.accept(sequence, count, now)
    }

    /// The receiver takes a packet: in its turn, or as one of those that come again after a gap.
    fn accept(&mut self, sequence: ExtendedPsn, count: Option<u64>, now: Timestamp) -> PacketOutcome {
        self.expect_behind(sequence, count);
        let Some(gap) = self.losses.as_mut().and_then(|losses| losses.gap.as_mut()) else {
            return PacketOutcome::Accepted;
        };
        if sequence > gap.newest {
            self.end_gap();
            return PacketOutcome::Accepted;
        }
        gap.is_proven |= sequence >= gap.refused;
        match gap.is_proven {
            true => PacketOutcome::Recovered(Stall { since: gap.since, until: now }),
            false => PacketOutcome::Accepted,
        }
    }

    /// Everything before `next` was received.
    #[inline]
    pub(super) fn acknowledge(&mut self, next: ExtendedPsn) {
        self.acknowledged = self.acknowledged.max(next);
        if let Some(expected) = self.expected {
            self.expected = NonZeroU64::new(expected.get().max(next));
        }
        if self.gap().is_some_and(|gap| gap.newest < next) {
            self.end_gap();
        }
    }

    /// The receiver asks for everything from `next` on, `now`.
    pub(super) fn refuse(&mut self, next: ExtendedPsn, now: Timestamp) {
        self.acknowledge(next);
        let expected = self.expected.map(NonZeroU64::get);
        let losses = self.losses();
        losses.refused = Some(now);
        let Some(expected) = expected else { return };
        match &mut losses.gap {
            Some(gap) => gap.is_proven = true,
            None if next < expected => {
                let newest = expected - 1;
                losses.gap = Some(Gap { since: now, refused: next, newest, is_proven: true });
            }
            None => {}
        }
        self.expected = NonZeroU64::new(next);
    }

    /// The number that the receiver accepts next; 0 where that is not known.
    pub(super) fn expected(&self) -> ExtendedPsn {
        self.expected.map_or(0, NonZeroU64::get)
    }

    /// When the receiver asked for packets again last.
    pub(super) fn refused(&self) -> Option<Timestamp> {
        self.losses.as_ref()?.refused
    }

    /// When a packet was sent again last.
    pub(super) fn repeated(&self) -> Option<Timestamp> {
        self.losses.as_ref()?.repeated
    }

    /// Whether packets were refused for certain that did not all come again yet.
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

    fn arrive(delivery: &mut Delivery, packets: &[(ExtendedPsn, i64)]) -> Vec<PacketOutcome> {
        packets.iter().map(|(sequence, time)| delivery.arrive(*sequence, Some(1), at(*time))).collect()
    }

    fn recovered(since: i64, until: i64) -> PacketOutcome {
        PacketOutcome::Recovered(Stall { since: at(since), until: at(until) })
    }

    #[test]
    fn packets_behind_a_gap_are_refused_until_the_gap_comes_again() {
        let mut delivery = Delivery::default();
        let first = arrive(&mut delivery, &[(10, 1), (12, 3), (13, 4)]);
        assert_eq!(first, [PacketOutcome::Accepted, PacketOutcome::Refused, PacketOutcome::Refused]);
        delivery.refuse(11, at(5));
        let again = arrive(&mut delivery, &[(11, 7), (12, 8), (13, 9), (14, 10)]);
        assert_eq!(again, [recovered(3, 7), recovered(3, 8), recovered(3, 9), PacketOutcome::Accepted]);
    }

    #[test]
    fn a_nak_takes_back_what_was_captured_before_it_was_lost() {
        let mut delivery = Delivery::default();
        arrive(&mut delivery, &[(10, 1), (11, 2), (12, 3)]);
        delivery.refuse(11, at(5));
        assert_eq!(arrive(&mut delivery, &[(11, 7), (12, 8)]), [recovered(5, 7), recovered(5, 8)]);
    }

    #[test]
    fn what_is_sent_again_without_an_acknowledgement_was_lost() {
        let mut delivery = Delivery::default();
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
        let mut delivery = Delivery::default();
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
        let mut delivery = Delivery::default();
        assert_eq!(arrive(&mut delivery, &[(11, 1), (10, 2), (12, 3)]), [PacketOutcome::Accepted; 3]);
        // Behind an RDMA Read of unknown size as well.
        assert_eq!(delivery.arrive(13, None, at(4)), PacketOutcome::Accepted);
        assert_eq!(arrive(&mut delivery, &[(18, 5), (17, 6), (19, 7)]), [PacketOutcome::Accepted; 3]);
    }

    #[test]
    fn a_gap_that_only_the_capture_has_ends_with_the_acknowledgement() {
        let mut delivery = Delivery::default();
        assert_eq!(
            arrive(&mut delivery, &[(10, 1), (12, 2)]),
            [PacketOutcome::Accepted, PacketOutcome::Refused]
        );
        assert!(!delivery.has_proven_gap());
        delivery.acknowledge(13);
        assert_eq!(arrive(&mut delivery, &[(13, 3)]), [PacketOutcome::Accepted]);
    }

    /// InfiniBand Architecture Specification volume 1, section 9.7.6.1.3: 4.096 µs × 2^20 = 4.294967296 s, and up to 7 retries.
    #[test]
    fn the_last_retry_after_the_longest_ack_timeout_recovers() {
        let mut delivery = Delivery::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        let retries: Vec<_> = (1..=7).map(|retry| (12, 2 + retry * 4_294_967_296)).collect();
        assert_eq!(arrive(&mut delivery, &retries), [PacketOutcome::Refused; 7]);
        delivery.refuse(11, at(retries[6].1));
        let until = retries[6].1;
        assert_eq!(arrive(&mut delivery, &[(11, until)]), [recovered(2, until)]);
    }

    #[test]
    fn without_acknowledgements_a_gap_is_not_believed_for_ever() {
        let mut delivery = Delivery::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        assert_eq!(arrive(&mut delivery, &[(13, 2 + LONGEST as i64)]), [PacketOutcome::Refused]);
        assert_eq!(arrive(&mut delivery, &[(14, 3 + LONGEST as i64)]), [PacketOutcome::Accepted]);
    }
}
