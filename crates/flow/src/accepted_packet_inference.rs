//! Inference of the copy of a packet that the receiver accepted, in one direction of a reliable connection.
//!
//! A responder accepts the packet with the expected PSN, refuses packets after a gap with one NAK, and receives them
//! again (go-back-N: InfiniBand Architecture Specification volume 1, sections 9.7.5 and 9.9.2). The first captured copy
//! of a packet may therefore be one that the receiver discarded. [`ReceiverPsnState`] infers the expected PSN from
//! captured packets and acknowledgements:
//!
//! - A packet after a gap is refused, until an acknowledgement shows that only the capture lacks packets.
//! - A NAK (sequence error, or receiver not ready) names the PSN that the receiver expects. Packets captured from there
//!   on were lost behind the capture point, or refused.
//! - A NAK that comes less than a round trip after a copy of the packet that it names was sent before that copy
//!   arrived: it refuses an earlier one.
//! - A packet that was acknowledged before its retransmission is a surplus copy.
//! - A packet that is retransmitted without an acknowledgement, a NAK or a gap was lost behind the capture point, or
//!   its acknowledgement was lost before it: its sender timed out. Nothing distinguishes the two, so the first copy is
//!   assumed to be the accepted one.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::Timestamp;

use super::extended_psn::ExtendedPsn;
use super::packet_meta::DeliveryAnomaly;
use crate::rdma_operation::RetransmissionStall;

/// Retransmission of everything that was not acknowledged, after an ACK timeout.
#[derive(Clone, Copy, Debug)]
struct AckTimeoutRetransmission {
    /// Time of the last packet before it.
    since: Timestamp,
    /// PSN after the packets that were retransmitted so far.
    repeated_until: ExtendedPsn,
    /// PSN after the packets that were sent before.
    sent_until: ExtendedPsn,
}

/// A gap that is not closed, or whose packets are being retransmitted.
#[derive(Clone, Copy, Debug)]
struct PsnGap {
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

/// Maximum number of ranges in [`PsnLossRecoveryState::skipped`].
const MAX_SKIPPED: usize = 8;

/// Maximum number of packets in [`PsnLossRecoveryState::recent`].
const MAX_RECENT: usize = 64;

/// Losses and retransmissions of one direction.
#[derive(Debug, Default)]
struct PsnLossRecoveryState {
    gap: Option<PsnGap>,
    timeout: Option<AckTimeoutRetransmission>,
    /// Time of the last refusal by the receiver.
    last_refusal: Option<Timestamp>,
    last_retransmission: Option<Timestamp>,
    /// PSNs that were acknowledged before a packet with them was captured.
    skipped: Vec<Range<ExtendedPsn>>,
    /// The packets accepted last behind a gap, with the times of the accepted copies. Sorted by both.
    recent: VecDeque<(ExtendedPsn, Timestamp)>,
}

/// PSNs that the receiver of one direction has accepted.
#[derive(Debug, Default)]
pub(super) struct ReceiverPsnState {
    /// Next PSN that the receiver accepts; `None` before the first packet, and after an RDMA Read of unknown size.
    expected: Option<NonZeroU64>,
    /// PSN of the first packet since `expected` was last unknown. Packets before it may be captured late.
    first_sequence: ExtendedPsn,
    acknowledged_before: ExtendedPsn,
    last_packet_time: Timestamp,
    /// Time of the newest packet, if it was accepted in order.
    newest_time: Option<Timestamp>,
    /// Shortest time from a packet to its acknowledgement, in nanoseconds: the round trip from the capture point.
    round_trip_ns: Option<u64>,
    /// Allocated on the first loss: most connections have none, and there may be very many connections.
    losses: Option<Box<PsnLossRecoveryState>>,
}

impl ReceiverPsnState {
    /// Returns the anomaly of a packet, unless the receiver accepts it in order. The packet uses `count` PSNs from
    /// `sequence` on; `None` if the count is unknown.
    #[inline]
    pub(super) fn record_packet(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        now: Timestamp,
    ) -> Option<DeliveryAnomaly> {
        let last = std::mem::replace(&mut self.last_packet_time, now);
        let is_in_turn = self.expected.is_some_and(|expected| expected.get() == sequence);
        if is_in_turn && self.gap().is_none() {
            self.expect_after(sequence, count);
            self.newest_time = Some(now);
            return None;
        }
        self.newest_time = None;
        self.record_out_of_order(sequence, count, last, now)
    }

    #[inline]
    fn expect_after(&mut self, sequence: ExtendedPsn, count: Option<u64>) {
        self.expected = count.and_then(|count| NonZeroU64::new(sequence + count));
    }

    pub(super) fn expect(&mut self, sequence: ExtendedPsn) {
        self.expected = NonZeroU64::new(sequence);
    }

    #[inline]
    fn gap(&self) -> Option<&PsnGap> {
        self.losses.as_ref().and_then(|losses| losses.gap.as_ref())
    }

    pub(super) fn has_gap(&self) -> bool {
        self.gap().is_some()
    }

    fn end_gap(&mut self) {
        if let Some(losses) = &mut self.losses {
            losses.gap = None;
        }
    }

    fn losses(&mut self) -> &mut PsnLossRecoveryState {
        self.losses.get_or_insert_default()
    }

    #[cold]
    fn record_out_of_order(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        last: Timestamp,
        now: Timestamp,
    ) -> Option<DeliveryAnomaly> {
        if self.take_skipped(sequence) {
            return None;
        }
        if sequence < self.acknowledged_before && self.expected.is_some() {
            self.losses().last_retransmission = Some(now);
            return Some(DeliveryAnomaly::Surplus);
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
            return None;
        }
        if sequence > expected {
            let new_gap = PsnGap { since: now, first_refused: sequence, last_affected: sequence, is_proven: false };
            let gap = self.losses().gap.get_or_insert(new_gap);
            gap.first_refused = gap.first_refused.min(sequence);
            gap.last_affected = gap.last_affected.max(sequence);
            return Some(DeliveryAnomaly::Refused);
        }
        if sequence < expected {
            let stall = self.record_ack_timeout(sequence, count, (expected, last), now);
            return Some(DeliveryAnomaly::Repeated(stall));
        }
        self.accept(sequence, count, now)
    }

    /// Records the retransmission of a packet that was not acknowledged, although no NAK requests it. PSNs before
    /// `sent_until` were sent before, the last packet at `last`.
    fn record_ack_timeout(
        &mut self,
        sequence: ExtendedPsn,
        count: Option<u64>,
        (sent_until, last): (ExtendedPsn, Timestamp),
        now: Timestamp,
    ) -> RetransmissionStall {
        let losses = self.losses();
        losses.last_retransmission = Some(now);
        if let Some(gap) = &mut losses.gap {
            gap.is_proven = true;
        }
        let is_next =
            |timeout: &AckTimeoutRetransmission| (timeout.repeated_until..timeout.sent_until).contains(&sequence);
        let since = losses.timeout.filter(is_next).map_or(last, |timeout| timeout.since);
        let repeated_until = sequence + count.unwrap_or(1);
        losses.timeout = Some(AckTimeoutRetransmission { since, repeated_until, sent_until });
        RetransmissionStall { since, until: now }
    }

    /// Accepts a packet, in order or as a retransmission after a gap.
    fn accept(&mut self, sequence: ExtendedPsn, count: Option<u64>, now: Timestamp) -> Option<DeliveryAnomaly> {
        self.expect_after(sequence, count);
        let losses = self.losses.as_mut()?;
        let gap = losses.gap.as_mut()?;
        if losses.recent.len() == MAX_RECENT {
            losses.recent.pop_front();
        }
        losses.recent.push_back((sequence, now));
        if sequence > gap.last_affected {
            self.end_gap();
            return None;
        }
        gap.is_proven |= sequence >= gap.first_refused;
        if !gap.is_proven {
            return None;
        }
        let stall = RetransmissionStall { since: gap.since, until: now };
        self.losses().last_retransmission = Some(now);
        Some(DeliveryAnomaly::Recovered(stall))
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
        if let Some(expected) = self.expected
            && expected.get() < next
        {
            self.skip(expected.get(), next);
            self.expected = NonZeroU64::new(next);
        }
        if self.gap().is_some_and(|gap| gap.last_affected < next) {
            self.end_gap();
        }
    }

    /// Records that packets from `expected` on were acknowledged, but not captured.
    #[cold]
    fn skip(&mut self, expected: ExtendedPsn, next: ExtendedPsn) {
        let end = self.gap().map_or(next, |gap| gap.first_refused.min(next));
        if expected < end {
            let skipped = &mut self.losses().skipped;
            if skipped.len() >= MAX_SKIPPED {
                skipped.remove(0);
            }
            skipped.push(expected..end);
        }
    }

    /// Returns `true` if a packet with this number was acknowledged, but not captured. It is captured now.
    fn take_skipped(&mut self, sequence: ExtendedPsn) -> bool {
        let Some(losses) = &mut self.losses else { return false };
        let Some(at) = losses.skipped.iter().position(|range| range.contains(&sequence)) else {
            return false;
        };
        let Range { start, end } = losses.skipped.remove(at);
        let rest = [start..sequence, sequence + 1..end];
        losses.skipped.extend(rest.into_iter().filter(|range| !range.is_empty()));
        losses.skipped.truncate(MAX_SKIPPED);
        true
    }

    /// Returns `true` if a packet with this number, which the peer answered before, is captured late: no copy was
    /// captured before, and the receiver did not ask for it again.
    pub(super) fn is_late(&self, sequence: ExtendedPsn) -> bool {
        let is_skipped = |losses: &PsnLossRecoveryState| losses.skipped.iter().any(|range| range.contains(&sequence));
        (self.is_missing(sequence) && !self.has_proven_gap()) || self.losses.as_deref().is_some_and(is_skipped)
    }

    /// Records an acknowledgement of everything before `next`, which shows the round trip time if it is the newest
    /// packet that is acknowledged.
    #[inline]
    pub(super) fn record_round_trip(&mut self, next: ExtendedPsn, now: Timestamp) {
        if let Some(sent) = self.newest_time
            && self.expected() == next
        {
            self.newest_time = None;
            self.add_round_trip(sent, now);
        }
    }

    fn add_round_trip(&mut self, sent: Timestamp, now: Timestamp) {
        let ns = now.nanoseconds_since(sent).unwrap_or(0);
        self.round_trip_ns = Some(self.round_trip_ns.map_or(ns, |shortest| shortest.min(ns)));
    }

    /// Returns `true` if a NAK that names `next` was sent before the accepted copy of that packet arrived: less than a
    /// round trip passed since that copy was captured.
    fn precedes_accepted_copy(&self, next: ExtendedPsn, now: Timestamp) -> bool {
        let Some((losses, round_trip_ns)) = self.losses.as_ref().zip(self.round_trip_ns) else { return false };
        let copy = losses.recent.iter().rev().find(|(sequence, _)| *sequence == next);
        next < self.expected()
            && copy.and_then(|(_, time)| now.nanoseconds_since(*time)).is_some_and(|ns| ns < round_trip_ns)
    }

    /// Records that the receiver requests retransmission from `next` on. Returns `true` if it refuses a copy before the
    /// accepted one.
    pub(super) fn record_nak(&mut self, next: ExtendedPsn, now: Timestamp) -> bool {
        self.acknowledge(next);
        // A receiver refuses a packet at once.
        if let Some(gap) = self.gap().filter(|gap| !gap.is_proven) {
            self.add_round_trip(gap.since, now);
        } else if let Some(sent) = self.newest_time.filter(|_| next + 1 == self.expected()) {
            self.add_round_trip(sent, now);
        }
        let precedes_accepted_copy = self.precedes_accepted_copy(next, now);
        let expected = self.expected.map(NonZeroU64::get);
        let losses = self.losses();
        losses.last_refusal = Some(now);
        losses.timeout = None;
        let Some(expected) = expected else { return false };
        if precedes_accepted_copy {
            if let Some(gap) = &mut losses.gap {
                gap.is_proven = true;
            }
            return true;
        }
        match &mut losses.gap {
            Some(gap) => gap.is_proven = true,
            None if next < expected => {
                let newest = expected - 1;
                losses.gap = Some(PsnGap { since: now, first_refused: next, last_affected: newest, is_proven: true });
            }
            None => {}
        }
        self.expected = NonZeroU64::new(next);
        self.newest_time = None;
        false
    }

    /// Returns the next PSN that the receiver accepts; 0 if unknown.
    pub(super) fn expected(&self) -> ExtendedPsn {
        self.expected.map_or(0, NonZeroU64::get)
    }

    /// Returns the time of the receiver's last request for retransmission.
    pub(super) fn last_refusal(&self) -> Option<Timestamp> {
        self.losses.as_ref()?.last_refusal
    }

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

    fn arrive(delivery: &mut ReceiverPsnState, packets: &[(ExtendedPsn, i64)]) -> Vec<Option<DeliveryAnomaly>> {
        packets.iter().map(|(sequence, time)| delivery.record_packet(*sequence, Some(1), at(*time))).collect()
    }

    fn recovered(since: i64, until: i64) -> Option<DeliveryAnomaly> {
        Some(DeliveryAnomaly::Recovered(RetransmissionStall { since: at(since), until: at(until) }))
    }

    #[test]
    fn packets_behind_a_gap_are_refused_until_its_retransmission() {
        let mut delivery = ReceiverPsnState::default();
        let first = arrive(&mut delivery, &[(10, 1), (12, 3), (13, 4)]);
        assert_eq!(first, [None, Some(DeliveryAnomaly::Refused), Some(DeliveryAnomaly::Refused)]);
        delivery.record_nak(11, at(5));
        let again = arrive(&mut delivery, &[(11, 7), (12, 8), (13, 9), (14, 10)]);
        assert_eq!(again, [recovered(3, 7), recovered(3, 8), recovered(3, 9), None]);
    }

    #[test]
    fn a_nak_revokes_the_delivery_of_packets_lost_after_their_capture() {
        let mut delivery = ReceiverPsnState::default();
        arrive(&mut delivery, &[(10, 1), (11, 2), (12, 3)]);
        delivery.record_nak(11, at(5));
        assert_eq!(arrive(&mut delivery, &[(11, 7), (12, 8)]), [recovered(5, 7), recovered(5, 8)]);
    }

    #[test]
    fn the_first_copy_counts_if_its_packet_or_its_acknowledgement_was_lost() {
        let mut delivery = ReceiverPsnState::default();
        arrive(&mut delivery, &[(10, 1), (11, 2), (12, 3)]);
        delivery.acknowledge(11);
        let repeated =
            |since, until| Some(DeliveryAnomaly::Repeated(RetransmissionStall { since: at(since), until: at(until) }));
        let again = arrive(&mut delivery, &[(10, 500), (11, 501), (12, 502), (13, 503)]);
        assert_eq!(again, [Some(DeliveryAnomaly::Surplus), repeated(500, 501), repeated(500, 502), None]);
        // Another timeout, and then a NAK: the receiver lacked 12.
        assert_eq!(arrive(&mut delivery, &[(12, 900), (13, 901)]), [repeated(503, 900), repeated(503, 901)]);
        delivery.record_nak(12, at(902));
        assert_eq!(arrive(&mut delivery, &[(12, 903), (13, 904)]), [recovered(902, 903), recovered(902, 904)]);
    }

    /// The round trip takes 20 units: a NAK that follows a copy sooner was sent before that copy arrived.
    #[test]
    fn early_nak_refuses_the_previous_copy() {
        for (passed, expected) in [(19, ReceivedCopy::Second), (21, ReceivedCopy::Third)] {
            let mut delivery = ReceiverPsnState::default();
            arrive(&mut delivery, &[(9, 0), (10, 1)]);
            delivery.record_round_trip(11, at(21));
            delivery.acknowledge(11);
            arrive(&mut delivery, &[(11, 100), (12, 101)]);
            assert!(!delivery.record_nak(11, at(122)));
            assert_eq!(arrive(&mut delivery, &[(11, 130)]), [recovered(122, 130)]);
            let is_early = delivery.record_nak(11, at(130 + passed));
            assert_eq!(is_early, expected == ReceivedCopy::Second);
            let again = arrive(&mut delivery, &[(11, 160)]);
            match expected {
                ReceivedCopy::Second => assert!(matches!(again[..], [Some(DeliveryAnomaly::Repeated(_))]), "{again:?}"),
                ReceivedCopy::Third => assert_eq!(again, [recovered(122, 160)]),
            }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum ReceivedCopy {
        Second,
        Third,
    }

    #[test]
    fn reordering_by_the_capture_alone_is_no_recovery() {
        let mut delivery = ReceiverPsnState::default();
        let fates = arrive(&mut delivery, &[(10, 1), (13, 2), (11, 3), (12, 4)]);
        assert_eq!(fates, [None, Some(DeliveryAnomaly::Refused), None, None]);
        delivery.acknowledge(14);
        assert_eq!(arrive(&mut delivery, &[(14, 5)]), [None]);
    }

    #[test]
    fn packets_before_the_first_captured_psn_are_no_anomalies() {
        let mut delivery = ReceiverPsnState::default();
        assert_eq!(arrive(&mut delivery, &[(11, 1), (10, 2), (12, 3)]), [None; 3]);
        // The same applies after an RDMA Read of unknown size.
        assert_eq!(delivery.record_packet(13, None, at(4)), None);
        assert_eq!(arrive(&mut delivery, &[(18, 5), (17, 6), (19, 7)]), [None; 3]);
    }

    #[test]
    fn a_gap_that_only_the_capture_has_ends_with_the_acknowledgement() {
        let mut delivery = ReceiverPsnState::default();
        assert_eq!(arrive(&mut delivery, &[(10, 1), (12, 2)]), [None, Some(DeliveryAnomaly::Refused)]);
        assert!(!delivery.has_proven_gap());
        delivery.acknowledge(13);
        assert_eq!(arrive(&mut delivery, &[(13, 3)]), [None]);
    }

    /// InfiniBand Architecture Specification volume 1, section 9.7.6.1.3: 4.096 µs × 2^20 = 4.294967296 s, 7 retries.
    #[test]
    fn the_last_retry_after_the_longest_ack_timeout_recovers() {
        let mut delivery = ReceiverPsnState::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        let retries: Vec<_> = (1..=7).map(|retry| (12, 2 + retry * 4_294_967_296)).collect();
        assert_eq!(arrive(&mut delivery, &retries), [Some(DeliveryAnomaly::Refused); 7]);
        delivery.record_nak(11, at(retries[6].1));
        let until = retries[6].1;
        assert_eq!(arrive(&mut delivery, &[(11, until)]), [recovered(2, until)]);
    }

    #[test]
    fn a_packet_behind_its_acknowledgement_is_late_once() {
        let mut delivery = ReceiverPsnState::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        delivery.acknowledge(13);
        assert!(delivery.is_late(11) && !delivery.is_late(12));
        assert_eq!(arrive(&mut delivery, &[(11, 3), (11, 4)]), [None, Some(DeliveryAnomaly::Surplus)]);
        assert!(!delivery.is_late(11));
        // A NAK has the number of the packet that it requests.
        arrive(&mut delivery, &[(14, 5)]);
        delivery.record_nak(13, at(6));
        assert!(!delivery.is_late(13));
    }

    #[test]
    fn without_acknowledgements_a_gap_ends_after_a_time_limit() {
        let mut delivery = ReceiverPsnState::default();
        arrive(&mut delivery, &[(10, 1), (12, 2)]);
        assert_eq!(arrive(&mut delivery, &[(13, 2 + MAX_GAP_AGE_NS as i64)]), [Some(DeliveryAnomaly::Refused)]);
        assert_eq!(arrive(&mut delivery, &[(14, 3 + MAX_GAP_AGE_NS as i64)]), [None]);
    }
}
