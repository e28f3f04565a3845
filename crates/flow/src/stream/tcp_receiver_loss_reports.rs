//! Reports of a TCP receiver about bytes that it lacks: duplicate acknowledgements (RFC 5681 section 2), selective
//! acknowledgements (RFC 2018) and segments that it received twice (RFC 2883); and the messages that were delayed by
//! retransmissions of such bytes.
//!
//! Bytes are delivered in order (RFC 9293 section 3.10.7.4). So a retransmission that the receiver needs delays all
//! messages that end after its first byte and were not acknowledged, even if no byte of them is retransmitted.

use std::num::NonZeroU32;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::net::TcpSequence;
use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::stream_bytes::StreamPosition;
use crate::transaction_slab_key::TransactionSlabKey;

/// Maximum number of ranges after a gap that are remembered as received.
const MAX_RECEIVED_RANGES: usize = 32;

/// Maximum number of delays that can be revoked.
const MAX_DELAYS: usize = 64;

/// Nanoseconds after a retransmission within which the receiver may report it as a duplicate (D-SACK). The report takes
/// a round trip, and an acknowledgement that crossed the retransmission may precede it.
pub(crate) const MAX_DUPLICATE_REPORT_DELAY_NS: u64 = 1_000_000_000;

/// Number of the SACK option. RFC 2018 section 3.
const SACK_OPTION: u8 = 5;

/// Options of most segments: two times NOP, then a timestamp (RFC 7323 appendix A).
const TIMESTAMP_ONLY: [u8; 4] = [1, 1, 8, 10];

/// Returns the blocks of the SACK option of a segment.
#[inline]
pub(super) fn sack_blocks(options: &[u8]) -> &[[[u8; 4]; 2]] {
    if options.is_empty() || (options.len() == 12 && options.starts_with(&TIMESTAMP_ONLY)) {
        return &[];
    }
    find_sack_blocks(options)
}

/// Returns the timestamp of the sender of a segment, if that is the first option and not 0. RFC 7323 section 3.2.
#[inline]
pub(super) fn timestamp(options: &[u8]) -> Option<NonZeroU32> {
    let value = options.strip_prefix(&TIMESTAMP_ONLY)?.first_chunk()?;
    NonZeroU32::new(u32::from_be_bytes(*value))
}

#[cold]
fn find_sack_blocks(mut options: &[u8]) -> &[[[u8; 4]; 2]] {
    loop {
        options = match *options {
            [] | [_] | [0, ..] => return &[],
            [1, ref rest @ ..] => rest,
            [kind, length, ..] => {
                // An option has at least its kind and its length.
                let Some((option, rest)) = options.split_at_checked(usize::from(length).max(2)) else {
                    return &[];
                };
                if kind == SACK_OPTION {
                    let words = option.get(2..).unwrap_or_default().as_chunks::<4>().0;
                    return words.as_chunks::<2>().0;
                }
                rest
            }
        };
    }
}

/// Returns the left and the right edge of a block.
pub(super) fn block_edges(block: [[u8; 4]; 2]) -> [TcpSequence; 2] {
    block.map(|edge| TcpSequence(u32::from_be_bytes(edge)))
}

/// A message that a retransmission delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetransmissionDelayedMessage {
    pub(crate) key: TransactionSlabKey,
    pub(crate) which: RpcMessageKind,
    /// End of the message before.
    pub(crate) before: Timestamp,
    /// Time of the retransmission.
    pub(crate) until: Timestamp,
    pub(super) retransmitted: Range<StreamPosition>,
}

/// Reports of the receiver of one direction.
#[derive(Debug, Default)]
pub(super) struct TcpReceiverAcknowledgements {
    /// Position before which unacknowledged bytes are missing at the receiver, except those that it reported.
    missing_before: StreamPosition,
    /// Ranges after a gap that it reported as received; sorted, without overlap.
    received: Vec<Range<StreamPosition>>,
    /// Delays that may be revoked.
    delays: Vec<RetransmissionDelayedMessage>,
}

impl TcpReceiverAcknowledgements {
    /// Records that unacknowledged bytes before a position are missing.
    pub(super) fn record_missing_before(&mut self, position: StreamPosition) {
        self.missing_before = self.missing_before.max(position);
    }

    /// Records that bytes after a gap were received.
    pub(super) fn record_received(&mut self, range: Range<StreamPosition>) {
        self.record_missing_before(range.end);
        let from = self.received.partition_point(|existing| existing.end < range.start);
        let to = self.received.partition_point(|existing| existing.start <= range.end);
        let touching = self.received.get(from..to).unwrap_or_default();
        let merged =
            touching.iter().fold(range, |union, existing| union.start.min(existing.start)..union.end.max(existing.end));
        if from < to || self.received.len() < MAX_RECEIVED_RANGES {
            self.received.splice(from..to, [merged]);
        }
    }

    /// Returns `true` if bytes of a range, which is not acknowledged, were reported as missing.
    pub(super) fn are_missing(&self, range: &Range<StreamPosition>) -> bool {
        range.start < self.missing_before
    }

    pub(super) fn were_received(&self, range: &Range<StreamPosition>) -> bool {
        self.received.iter().any(|existing| existing.start <= range.start && range.end <= existing.end)
    }

    pub(super) fn record_delay(&mut self, delay: RetransmissionDelayedMessage) {
        let now = delay.until;
        self.delays.retain(|existing| existing.until.abs_diff_ns(now) <= MAX_DUPLICATE_REPORT_DELAY_NS);
        if self.delays.len() < MAX_DELAYS {
            self.delays.push(delay);
        }
    }

    /// Returns the delays by retransmissions of bytes that the receiver had received before, as it reports now.
    pub(super) fn take_spurious(
        &mut self,
        range: &Range<StreamPosition>,
        now: Timestamp,
    ) -> Vec<RetransmissionDelayedMessage> {
        self.delays.retain(|delay| delay.until.abs_diff_ns(now) <= MAX_DUPLICATE_REPORT_DELAY_NS);
        let is_spurious = |delay: &mut RetransmissionDelayedMessage| {
            delay.retransmitted.start < range.end && range.start < delay.retransmitted.end
        };
        // The last delay of a message is revoked first.
        let mut spurious: Vec<_> = self.delays.extract_if(.., is_spurious).collect();
        spurious.reverse();
        spurious
    }

    /// Records a retransmission of bytes that were already acknowledged. A later report of these bytes as a duplicate
    /// is about this copy, not about an earlier retransmission.
    pub(super) fn record_needless(&mut self, range: &Range<StreamPosition>) {
        self.delays.retain(|delay| delay.retransmitted.end <= range.start || range.end <= delay.retransmitted.start);
    }

    /// Forgets what lies before an acknowledged position.
    pub(super) fn acknowledge(&mut self, position: StreamPosition) {
        self.received.retain(|existing| existing.end > position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc2018_section_3_blocks_follow_any_other_option() {
        let blocks = [[1_u32, 2], [7, 9]].map(|block| block.map(u32::to_be_bytes));
        let sack = [&[5, 18][..], blocks.as_flattened().as_flattened()].concat();
        let timestamp = [&[1, 1, 8, 10][..], &[0; 8]].concat();
        for before in [&[][..], &[1, 1], &timestamp, &[4, 2], &[30, 0]] {
            assert_eq!(sack_blocks(&[before, &sack].concat()), blocks);
        }
        assert_eq!(sack_blocks(&timestamp).len(), 0);
        // The end of the list, and options that are cut.
        assert_eq!(sack_blocks(&[&[0][..], &sack].concat()).len(), 0);
        assert_eq!(sack_blocks(&sack[..17]).len(), 0);
        assert_eq!(sack_blocks(&[5]).len(), 0);
        assert_eq!(block_edges(blocks[1]), [TcpSequence(7), TcpSequence(9)]);
    }

    #[test]
    fn received_ranges_that_touch_are_one_and_their_number_is_limited() {
        let mut reports = TcpReceiverAcknowledgements::default();
        for range in [30..40, 10..20, 20..30] {
            reports.record_received(range);
        }
        assert_eq!((reports.received.len(), &reports.received[0]), (1, &(10..40)));
        assert!(reports.were_received(&(10..40)) && !reports.were_received(&(9..12)));
        assert!(reports.are_missing(&(0..5)) && !reports.are_missing(&(40..45)));
        for at in 0..100 {
            reports.record_received(100 + 10 * at..105 + 10 * at);
        }
        assert_eq!(reports.received.len(), MAX_RECEIVED_RANGES);
        reports.acknowledge(2000);
        assert_eq!(reports.received, []);
    }
}
