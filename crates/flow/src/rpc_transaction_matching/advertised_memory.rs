//! Memory that messages advertise: lookup of the segment of an RDMA operation.
//!
//! An operation may access several segments of one chunk that are adjacent in memory and have one handle, because the
//! Call offers all of the range (RFC 8166 section 3.4.3).

use std::collections::hash_map::Entry;
use std::ops::Range;

use nfsrdma_dissectors::memory_handle::Handle;

use super::connection_rpc_state::ConnectionRpcState;
use crate::advertised_handles::{AdvertisedSegment, HandleSegments, SegmentUse};
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution, RdmaMemoryRange};
use crate::reliable_connection::UncapturedRdmaReadRange;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::transaction_table::{TrackedFlowTransaction, TrackedTransactionTable};

/// Precedence of a Call for bytes in its memory: whether it expects them, and its order.
type Precedence = (bool, TransactionSlabKey);

/// Returns `true` if a candidate is found already that takes precedence over another or equals it.
fn is_preceded(other: Precedence, found: Option<(Precedence, PackedChunkSegmentOrdinal)>) -> bool {
    found.is_some_and(|(precedence, _)| precedence >= other)
}

/// Maximum number of segments of one packet or RDMA Read request that are examined.
pub(super) const MAX_ADJACENT: usize = 256;

impl ConnectionRpcState {
    /// Returns the ranges of Read segments of a side of which no byte was captured; `answered_call` is the Call that
    /// was just answered. Empty if too many segments would have to be examined: hostile captures have many.
    pub(crate) fn unread_ranges(
        &self,
        transactions: &TrackedTransactionTable,
        requester: ConnectionSideAOrB,
        answered_call: TransactionSlabKey,
    ) -> Vec<UncapturedRdmaReadRange> {
        const MAX_EXAMINED: usize = 4096;
        let mut ranges = Vec::new();
        let mut examined = 0;
        for key in self.transaction_keys() {
            let Some(entry) = transactions.get(key).filter(|entry| entry.requester == requester) else {
                continue;
            };
            let Some(call) = &entry.transaction.call else { continue };
            examined += 1;
            for segment in entry.transaction.read_chunks.iter().flat_map(|chunk| &chunk.segments) {
                examined += 1;
                if examined + ranges.len() > MAX_EXAMINED {
                    return Vec::new();
                }
                let missing = segment.unmoved_memory(segment.offered_bytes());
                ranges.extend(missing.take(MAX_EXAMINED).map(|range| UncapturedRdmaReadRange {
                    range,
                    offered: call.time,
                    is_answered: key == answered_call,
                }));
            }
        }
        ranges
    }

    pub(crate) fn has_handle(&self, side: ConnectionSideAOrB, handle: Handle) -> bool {
        self.handles.contains_key(&(side, handle))
    }

    /// Returns the segment that contains a byte of the side's memory, and its bytes with data according to the Reply:
    /// that of the call to which data are attributed, or else the latest one.
    pub(crate) fn memory_at(
        &self,
        transactions: &TrackedTransactionTable,
        side: ConnectionSideAOrB,
        (handle, offset): (Handle, u64),
        attribution: RdmaAttribution,
    ) -> Option<(Range<u64>, Option<u32>)> {
        let owner = TransactionSlabKey::from_attribution(attribution).map(|(key, _)| key);
        let segments = self.handles.get(&(side, handle))?.candidates_at(offset).filter_map(|candidate| {
            let segment = transactions.get(candidate.key)?.segment_at(candidate.segment_index)?;
            let is_own = owner.is_none_or(|owner| owner == candidate.key);
            let is_there = is_own && segment.handle == handle && segment.contains_range(offset, 1);
            let end = segment.offset.saturating_add(segment.length.into());
            is_there.then_some((candidate.key, segment.offset..end, segment.returned_length))
        });
        let (_, range, returned) = segments.max_by_key(|(key, ..)| *key)?;
        Some((range, returned))
    }

    /// Returns the advertised segment that contains a range of the side's memory, or in which it begins if other
    /// segments of the chunk contain the rest: of the latest Call that waits for the bytes, or else of the latest one.
    pub(crate) fn find_segment(
        &self,
        transactions: &TrackedTransactionTable,
        side: ConnectionSideAOrB,
        range: RdmaMemoryRange,
    ) -> RdmaAttribution {
        let RdmaMemoryRange { handle, offset, length } = range;
        let Some(uses) = self.handles.get(&(side, handle)) else { return RdmaAttribution::default() };
        let (mut containing, mut begins_in) = (None, None);
        for AdvertisedSegment { key, segment_index: at, .. } in uses.candidates_at(offset) {
            if is_preceded((true, key), containing) {
                continue;
            }
            let Some(entry) = transactions.get(key) else { continue };
            let Some(segment) = entry.segment_at(at).filter(|segment| segment.handle == handle) else {
                continue;
            };
            if segment.contains_range(offset, length.into()) {
                let precedence = (entry.is_open() || segment.lacks_returned_byte(offset), key);
                if !is_preceded(precedence, containing) {
                    containing = Some((precedence, at));
                }
            } else if entry.is_open() && segment.contains_range(offset, 1) && !is_preceded((true, key), begins_in) {
                begins_in = Some(((true, key), at));
            }
        }
        if let Some((precedence, at)) = begins_in
            && !is_preceded(precedence, containing)
            && self.does_chunk_contain(transactions, side, range, (precedence.1, at))
        {
            return precedence.1.to_attribution(at);
        }
        containing.map_or(RdmaAttribution::default(), |((_, key), at)| key.to_attribution(at))
    }

    /// Adds the segments of a message's chunks to the handle table.
    pub(super) fn advertise(
        &mut self,
        transactions: &TrackedTransactionTable,
        key: TransactionSlabKey,
        is_new: impl Fn(PackedChunkSegmentOrdinal) -> bool,
    ) {
        let Some(entry) = transactions.get(key) else { return };
        for (at, segment) in entry.segments().filter(|(at, _)| is_new(*at)) {
            let latest = AdvertisedSegment { key, segment_index: at, offset: segment.offset };
            self.add_segment(transactions, (entry.memory_side(at), segment.handle), latest);
        }
    }

    /// Adds a segment to the handle table.
    fn add_segment(
        &mut self,
        transactions: &TrackedTransactionTable,
        owner: (ConnectionSideAOrB, Handle),
        segment: AdvertisedSegment,
    ) {
        let find_use = |other: &AdvertisedSegment| {
            let entry = transactions.get(other.key)?;
            let length = entry.segment_at(other.segment_index)?.length;
            Some(SegmentUse { length, is_open: other.key == segment.key || entry.is_open() })
        };
        match self.handles.entry(owner) {
            Entry::Occupied(mut uses) => {
                let length = find_use(&segment).map_or(0, |new| new.length);
                uses.get_mut().add(segment, length, find_use);
            }
            Entry::Vacant(entry) => {
                entry.insert(HandleSegments::new(segment));
            }
        }
    }

    pub(super) fn remove_advertised_memory(&mut self, key: TransactionSlabKey, entry: &TrackedFlowTransaction) {
        for (at, segment) in entry.segments() {
            if let Entry::Occupied(mut uses) = self.handles.entry((entry.memory_side(at), segment.handle))
                && uses.get_mut().remove(AdvertisedSegment { key, segment_index: at, offset: segment.offset })
            {
                uses.remove();
            }
        }
    }

    /// Returns `true` if the segments of a chunk contain a range that begins in one of them, `(key, at)`.
    #[cold]
    fn does_chunk_contain(
        &self,
        transactions: &TrackedTransactionTable,
        side: ConnectionSideAOrB,
        RdmaMemoryRange { handle, offset, length }: RdmaMemoryRange,
        (key, at): (TransactionSlabKey, PackedChunkSegmentOrdinal),
    ) -> bool {
        let Some((entry, end)) = transactions.get(key).zip(offset.checked_add(u64::from(length))) else {
            return false;
        };
        let mut last = at;
        for _ in 0..MAX_ADJACENT {
            let Some(segment) = entry.segment_at(last) else { return false };
            let Some(segment_end) = segment.offset.checked_add(u64::from(segment.length)) else {
                return false;
            };
            if segment_end >= end {
                return true;
            }
            match self.find_next_segment(transactions, side, handle, segment_end, (key, at)) {
                Some(next) => last = next,
                None => return false,
            }
        }
        false
    }

    /// Returns the segment of a chunk that contains an offset; `(key, at)` is another segment of it.
    pub(super) fn find_next_segment(
        &self,
        transactions: &TrackedTransactionTable,
        side: ConnectionSideAOrB,
        handle: Handle,
        offset: u64,
        (key, at): (TransactionSlabKey, PackedChunkSegmentOrdinal),
    ) -> Option<PackedChunkSegmentOrdinal> {
        let entry = transactions.get(key)?;
        let candidates = self.handles.get(&(side, handle))?.candidates_at(offset);
        let of_chunk = candidates.filter(|other| other.key == key && other.segment_index.is_in_chunk_of(at));
        of_chunk.map(|next| next.segment_index).find(|next| {
            let segment = entry.segment_at(*next);
            segment.is_some_and(|segment| segment.handle == handle && segment.contains_range(offset, 1))
        })
    }
}
