//! Keys of Transactions, and of segments of their chunks.

use std::num::NonZeroU64;

use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::chunk::ChunkKind;
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution};

/// Unique key of an open or lingering Transaction; never reused. The order is that of their opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionSlabKey(pub(super) u64);

/// Number of bits for the place of a Transaction in its table; those above them are the number of its opening.
const PLACE_BITS: u32 = 28;

/// Number of bits for the number of an opening: the uppermost is that of partial calls.
const NUMBER_BITS: u32 = 63 - PLACE_BITS;

impl Default for TransactionSlabKey {
    /// Returns [`TransactionSlabKey::NONE`].
    fn default() -> Self {
        Self::NONE
    }
}

impl TransactionSlabKey {
    /// Returns the key of the Transaction that opened as number `opening`, from 1 on.
    pub(super) fn new(opening: u64, slot: usize) -> Self {
        let number = opening & ((1 << NUMBER_BITS) - 1);
        Self(number.max(1) << PLACE_BITS | slot as u64)
    }

    /// Returns the key of a call of which a part is still to come: of its stream, its sender and its position there.
    /// It is unique among 65,536 consecutive streams.
    pub(super) fn of_partial_call(stream: u64, side: ConnectionSideAOrB, start: u64) -> Self {
        Self(1 << 63 | (stream & 0xffff) << 46 | (side as u64) << 45 | start & ((1 << 45) - 1))
    }

    /// The key of no Transaction.
    pub(super) const NONE: Self = Self(u64::MAX);

    pub(super) fn slot(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// Returns the key with one of the Transaction's segments in the form that a transport stores.
    pub(super) fn to_attribution(self, segment: PackedChunkSegmentOrdinal) -> RdmaAttribution {
        RdmaAttribution(NonZeroU64::new(self.0).map(|key| (key, segment.0)))
    }

    pub(super) fn from_attribution(owner: RdmaAttribution) -> Option<(TransactionSlabKey, PackedChunkSegmentOrdinal)> {
        owner.0.map(|(key, segment)| (TransactionSlabKey(key.get()), PackedChunkSegmentOrdinal(segment)))
    }
}

/// Index of a segment of a chunk of a Transaction, packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackedChunkSegmentOrdinal(pub(super) u32);

impl PackedChunkSegmentOrdinal {
    pub(super) const REPLY_READ: u32 = 3;
    pub(super) const NONE: u32 = 4;

    /// Packs an index. Chunks beyond 2^13 and segments beyond 2^16 cannot be represented; headers are not that
    /// long.
    pub(super) fn new(kind: u32, chunk: usize, segment: usize) -> Self {
        Self(kind << 29 | (chunk as u32 & 0x1fff) << 16 | segment as u32 & 0xffff)
    }

    /// The Call; messages have no segment.
    pub(super) const CALL: Self = Self(Self::NONE << 29);
    /// The Reply.
    pub(super) const REPLY: Self = Self(Self::NONE << 29 | 1);
    /// An RDMA_DONE, which is neither Call nor Reply.
    pub(super) const DONE: Self = Self(Self::NONE << 29 | 2);
    /// A part of a message in several Sends.
    pub(super) const PART: Self = Self(Self::NONE << 29 | 3);
    /// A message that belongs to no Transaction.
    pub(super) const CONTROL: Self = Self(Self::NONE << 29 | 4);

    pub(super) fn of_message(kind: RpcMessageKind) -> Self {
        match kind {
            RpcMessageKind::Call => Self::CALL,
            RpcMessageKind::Reply => Self::REPLY,
        }
    }

    /// Returns the kind of the message, if this is a Call or a Reply.
    pub(super) fn message_kind(self) -> Option<RpcMessageKind> {
        [RpcMessageKind::Call, RpcMessageKind::Reply].into_iter().find(|kind| Self::of_message(*kind) == self)
    }

    pub(super) fn kind(self) -> ChunkKind {
        match self.0 >> 29 {
            1 => ChunkKind::Write,
            2 => ChunkKind::Reply,
            _ => ChunkKind::Read,
        }
    }

    /// Returns the index of the chunk among those of its kind.
    pub(super) fn chunk(self) -> usize {
        (self.0 >> 16 & 0x1fff) as usize
    }

    pub(super) fn segment(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    pub(super) fn is_in_chunk_of(self, other: Self) -> bool {
        self.0 >> 16 == other.0 >> 16
    }

    /// Returns `true` if the Reply advertised the segment.
    pub(super) fn is_reply_segment(self) -> bool {
        self.0 >> 29 == Self::REPLY_READ
    }
}
