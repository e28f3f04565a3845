//! Segments advertised under a handle.

use std::collections::BTreeMap;

use super::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

/// A segment that was advertised under a handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdvertisedSegment {
    pub(super) key: TransactionSlabKey,
    pub(super) segment_index: PackedChunkSegmentOrdinal,
    pub(super) offset: u64,
}

/// The segments of a handle. There is nearly always one, but a chunk may have several segments of one handle, later
/// Calls reuse handles, and some clients have one handle for all their memory.
#[derive(Debug)]
pub(super) struct HandleSegments {
    pub(super) latest: AdvertisedSegment,
    /// Allocated on demand.
    older: Option<Box<EarlierSegmentsOfHandle>>,
}

/// Segments of a handle other than the latest.
#[derive(Debug)]
struct EarlierSegmentsOfHandle {
    by_offset: BTreeMap<u64, (TransactionSlabKey, PackedChunkSegmentOrdinal)>,
    /// Size above which segments of answered Calls are evicted.
    eviction_threshold: usize,
}

/// Maximum number of segments before an offset that are checked: more than one only if segments overlap.
const MAX_NEIGHBOURS: usize = 8;

impl HandleSegments {
    pub(super) fn new(latest: AdvertisedSegment) -> Self {
        Self { latest, older: None }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        1 + self.older.as_ref().map_or(0, |earlier| earlier.by_offset.len())
    }

    pub(super) fn add(&mut self, latest: AdvertisedSegment, is_open: impl Fn(TransactionSlabKey) -> bool) {
        let before = std::mem::replace(&mut self.latest, latest);
        // An answered Call no longer owns its advertised memory.
        if is_open(before.key) {
            let empty =
                || Box::new(EarlierSegmentsOfHandle { by_offset: BTreeMap::new(), eviction_threshold: MAX_NEIGHBOURS });
            let earlier = self.older.get_or_insert_with(empty);
            earlier.by_offset.insert(before.offset, (before.key, before.segment_index));
        }
        if let Some(EarlierSegmentsOfHandle { by_offset, eviction_threshold: threshold }) = self.older.as_deref_mut()
            && by_offset.len() > *threshold
        {
            by_offset.retain(|_, (key, _)| is_open(*key));
            *threshold = MAX_NEIGHBOURS.max(2 * by_offset.len());
        }
    }

    /// Removes a segment. Returns `true` if none is left.
    pub(super) fn remove(&mut self, key: TransactionSlabKey, offset: u64) -> bool {
        if let Some(earlier) = &mut self.older
            && earlier.by_offset.get(&offset).is_some_and(|(other, _)| *other == key)
        {
            earlier.by_offset.remove(&offset);
        }
        if self.latest.key == key {
            let predecessor = self.older.as_mut().and_then(|earlier| earlier.by_offset.pop_last());
            let Some((offset, (key, at))) = predecessor else { return true };
            self.latest = AdvertisedSegment { key, segment_index: at, offset };
        }
        if self.older.as_ref().is_some_and(|earlier| earlier.by_offset.is_empty()) {
            self.older = None;
        }
        false
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = TransactionSlabKey> + '_ {
        let entries = self.older.iter().flat_map(|earlier| earlier.by_offset.values());
        std::iter::once(self.latest.key).chain(entries.map(|(key, _)| *key))
    }

    /// Returns the segments that may contain an offset.
    pub(super) fn candidates_at(
        &self,
        offset: u64,
    ) -> impl Iterator<Item = (TransactionSlabKey, PackedChunkSegmentOrdinal)> + '_ {
        let earlier = self.older.iter();
        let preceding =
            earlier.flat_map(move |segments| segments.by_offset.range(..=offset).rev().take(MAX_NEIGHBOURS));
        std::iter::once((self.latest.key, self.latest.segment_index)).chain(preceding.map(|(_, segment)| *segment))
    }
}
