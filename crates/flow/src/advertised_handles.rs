//! Segments advertised under a handle, by offset.
//!
//! A segment is kept until its Transaction is emitted, because an RDMA Write may be sent again after the Reply; some
//! clients have one handle for all their memory. A Call without a captured Reply may keep memory that its Requester uses
//! again, so of the segments at one offset the latest is found first: keys are in the order of the Calls. Segments count
//! in the memory of their Transactions ([`Chunk::heap_bytes`](super::chunk::Chunk)).

use std::collections::BTreeSet;

use super::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

/// A segment that was advertised under a handle. The order is that of the offsets, then that of the Calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AdvertisedSegment {
    pub(super) offset: u64,
    pub(super) key: TransactionSlabKey,
    pub(super) segment_index: PackedChunkSegmentOrdinal,
}

impl AdvertisedSegment {
    /// Returns a bound above all segments that begin before an offset, and below all others.
    fn bound(offset: u64) -> Self {
        Self { offset, key: TransactionSlabKey(0), segment_index: PackedChunkSegmentOrdinal(0) }
    }
}

/// Use of the memory of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentUse {
    pub(super) length: u32,
    /// `true` if its Call waits for the Reply.
    pub(super) is_open: bool,
}

/// The segments of a handle. There is nearly always one, but a chunk may have several segments of one handle, later
/// Calls reuse handles, and some clients have one handle for all their memory.
#[derive(Debug)]
pub(super) struct HandleSegments {
    latest: AdvertisedSegment,
    /// Segments other than the latest. Allocated on demand.
    #[expect(clippy::box_collection, reason = "a connection has hundreds of handles, nearly all of one segment")]
    others: Option<Box<BTreeSet<AdvertisedSegment>>>,
}

/// Maximum number of segments before an offset that are checked: more than one only if segments overlap.
const MAX_NEIGHBOURS: usize = 8;

impl HandleSegments {
    pub(super) fn new(latest: AdvertisedSegment) -> Self {
        Self { latest, others: None }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        1 + self.others.as_ref().map_or(0, |others| others.len())
    }

    /// Adds a segment of `length` bytes. Segments of answered Calls in the same memory are removed: the Requester has
    /// received their Replies, and uses the memory again. Of those of other Calls, a few are kept.
    pub(super) fn add(
        &mut self,
        latest: AdvertisedSegment,
        length: u32,
        find_use: impl Fn(&AdvertisedSegment) -> Option<SegmentUse>,
    ) {
        let before = std::mem::replace(&mut self.latest, latest);
        let end = latest.offset.saturating_add(u64::from(length).max(1));
        let is_reused = |segment: &AdvertisedSegment| {
            find_use(segment).is_none_or(|SegmentUse { length, is_open }| {
                let other_end = segment.offset.saturating_add(u64::from(length).max(1));
                !is_open && segment.offset < end && latest.offset < other_end
            })
        };
        if before != latest && !is_reused(&before) {
            self.others.get_or_insert_default().insert(before);
        }
        let Some(others) = &mut self.others else { return };
        let mut kept = 0;
        let mut next = AdvertisedSegment::bound(end);
        while let Some(segment) = others.range(..next).next_back().copied() {
            next = segment;
            if is_reused(&segment) {
                others.remove(&segment);
            } else if segment.offset < latest.offset {
                break;
            } else if kept + 1 < MAX_NEIGHBOURS {
                kept += 1;
            } else if segment.key == latest.key {
                break;
            } else {
                // More would hide this segment from lookups.
                others.remove(&segment);
            }
        }
    }

    /// Adds the segments of another table of the same handle.
    pub(super) fn merge(&mut self, other: Self) {
        let own = self.latest;
        self.others.get_or_insert_default().extend(other.iter().filter(|segment| *segment != own));
    }

    /// Removes a segment. Returns `true` if none is left.
    pub(super) fn remove(&mut self, segment: AdvertisedSegment) -> bool {
        if let Some(others) = &mut self.others {
            others.remove(&segment);
        }
        if self.latest == segment {
            let Some(other) = self.others.as_mut().and_then(|others| others.pop_last()) else { return true };
            self.latest = other;
        }
        if self.others.as_ref().is_some_and(|others| others.is_empty()) {
            self.others = None;
        }
        false
    }

    /// Iterates over all segments, the latest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = AdvertisedSegment> + '_ {
        std::iter::once(self.latest).chain(self.others.iter().flat_map(|others| others.iter().copied()))
    }

    /// Returns the segments that may contain an offset.
    pub(super) fn candidates_at(&self, offset: u64) -> impl Iterator<Item = AdvertisedSegment> + '_ {
        let bound = match offset.checked_add(1) {
            Some(next) => AdvertisedSegment::bound(next),
            None => AdvertisedSegment { offset, key: TransactionSlabKey::NONE, ..AdvertisedSegment::bound(0) },
        };
        let preceding =
            self.others.iter().flat_map(move |others| others.range(..bound).rev().take(MAX_NEIGHBOURS).copied());
        std::iter::once(self.latest).chain(preceding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(key: u64, offset: u64) -> AdvertisedSegment {
        AdvertisedSegment { offset, key: TransactionSlabKey(key), segment_index: PackedChunkSegmentOrdinal(0) }
    }

    /// Segments of 100 bytes; those with an even key are open.
    fn use_of(segment: &AdvertisedSegment) -> Option<SegmentUse> {
        Some(SegmentUse { length: 100, is_open: segment.key.0.is_multiple_of(2) })
    }

    fn with_segments(segments: impl IntoIterator<Item = AdvertisedSegment>) -> HandleSegments {
        let mut segments = segments.into_iter();
        let mut all = HandleSegments::new(segments.next().unwrap());
        segments.for_each(|segment| all.add(segment, 100, use_of));
        all
    }

    /// A thousand answered Calls with one memory region.
    #[test]
    fn closed_segments_found_by_offset() {
        let all = with_segments((0..1000).map(|at| segment(2 * at + 1, 1000 * at)));
        assert_eq!(all.size(), 1000);
        for at in 0..1000 {
            let wanted = segment(2 * at + 1, 1000 * at);
            assert!(all.candidates_at(1000 * at + 99).any(|found| found == wanted), "{at}");
        }
    }

    /// A Call in flight with the memory of many answered ones, whose buffers were smaller.
    #[test]
    fn reused_memory_forgets_answered_calls() {
        let answered = |at: u64| segment(2 * at + 1, 100 * at);
        let mut all = with_segments((0..100).map(answered).chain([segment(1000, 50_000)]));
        all.add(segment(2000, 1050), 5000, use_of);
        // The segments at 1,000 to 6,000 overlap; the one at 50,000 is of another Call in flight.
        let removed: Vec<_> = (0..100).filter(|at| !all.iter().any(|one| one == answered(*at))).collect();
        assert_eq!(removed, (10..=60).collect::<Vec<_>>());
        assert_eq!(all.size(), 100 - 51 + 2);
    }

    /// Calls without Replies, whose buffers are in the one of the latest Call.
    #[test]
    fn hung_calls_hide_no_segment() {
        let hung = (0..50).map(|at| segment(2 * at + 2, 1000 + 2 * at));
        let mut all = with_segments(hung);
        let newest = segment(200, 1000);
        all.add(newest, 5000, use_of);
        all.add(segment(202, 9000), 100, use_of);
        assert!((1000..6000).all(|at| all.candidates_at(at).any(|found| found == newest)));
        // Segments of one Call are all kept.
        let mut all = HandleSegments::new(segment(2, 10_000));
        (0..50).for_each(|at| all.add(segment(2, 9999 - at), 5000, use_of));
        assert_eq!(all.size(), 51);
    }

    #[test]
    fn latest_segment_of_an_offset_first() {
        let all = with_segments([4, 2, 8, 6, 100].map(|key| segment(key, if key == 100 { 9000 } else { 1000 })));
        let found: Vec<_> = all.candidates_at(1050).map(|found| found.key.0).collect();
        assert_eq!(found, [100, 8, 6, 4, 2]);
    }

    #[test]
    fn merged_tables_have_all_segments() {
        let mut all = with_segments((0..10).map(|at| segment(2 * at, 1000 * at)));
        all.merge(with_segments((10..20).map(|at| segment(2 * at, 1000 * at))));
        assert_eq!(all.size(), 20);
    }

    #[test]
    fn removal_leaves_the_other_segments() {
        let mut all = with_segments((0..10).map(|at| segment(2 * at, 1000 * at)));
        for at in (0..10).rev() {
            assert_eq!(all.size() as u64, at + 1);
            assert_eq!(all.remove(segment(2 * at, 1000 * at)), at == 0);
        }
    }
}
