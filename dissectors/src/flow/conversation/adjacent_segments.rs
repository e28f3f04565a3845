//! RDMA operations over several segments of one chunk that are adjacent in memory and have one handle. A Responder may access
//! them at once, because the Call offers all of the range (RFC 8166 section 3.4.3).

use crate::flow::frame_kind::FrameKind;
use crate::flow::transaction_table::{SegmentIndex, TransactionKey, TransactionTable};
use crate::flow::transport_event::{MemoryAccess, MemoryAccessFault};
use crate::rdma::{ConnectionSide, Handle, PacketPayload, RdmaAttribution};

use super::{ConversationContext, RpcConversation, record_payload};

/// Maximum number of segments of one packet or RDMA Read request that are examined.
const MAX_ADJACENT: usize = 256;

/// A packet with chunk data.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkDataPacket<'a> {
    /// Sender of the packet.
    pub(super) sender: ConnectionSide,
    /// `true` for a response to an RDMA Read, `false` for an RDMA Write.
    pub(super) is_read: bool,
    /// Offset of the first byte.
    pub(super) offset: u64,
    /// Bytes of the packet.
    pub(super) data: PacketPayload<'a>,
}

impl RpcConversation {
    /// Returns `true` if the segments of a chunk contain a range that begins in one of them, `(key, at)`.
    #[cold]
    pub(super) fn does_chunk_contain(
        &self,
        ledger: &TransactionTable,
        side: ConnectionSide,
        handle: Handle,
        (offset, length): (u64, u32),
        (key, at): (TransactionKey, SegmentIndex),
    ) -> bool {
        let Some((entry, end)) = ledger.get(key).zip(offset.checked_add(u64::from(length))) else {
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
            match self.find_next_segment(ledger, side, handle, segment_end, (key, at)) {
                Some(next) => last = next,
                None => return false,
            }
        }
        false
    }

    /// Returns the segment of a chunk that contains an offset; `(key, at)` is another segment of it.
    fn find_next_segment(
        &self,
        ledger: &TransactionTable,
        side: ConnectionSide,
        handle: Handle,
        offset: u64,
        (key, at): (TransactionKey, SegmentIndex),
    ) -> Option<SegmentIndex> {
        let entry = ledger.get(key)?;
        let candidates = self.handles.get(&(side, handle))?.candidates_at(offset);
        candidates
            .filter(|(other, next)| *other == key && next.is_in_chunk_of(at))
            .map(|(_, next)| next)
            .find(|next| {
                let segment = entry.segment_at(*next);
                segment.is_some_and(|segment| segment.handle == handle && segment.contains_range(offset, 1))
            })
    }

    /// Records the last `rest` bytes of a packet, which are behind the segment `owner`: in the segments of the chunk that
    /// follow. `owner` becomes the last of them. Bytes behind the chunk violate its bounds.
    #[cold]
    pub(super) fn record_rest(
        &mut self,
        context: &mut ConversationContext<'_>,
        packet: ChunkDataPacket<'_>,
        owner: &mut RdmaAttribution,
        (mut rest, first): (u32, FrameKind),
    ) -> FrameKind {
        let ChunkDataPacket { sender, is_read, offset, data } = packet;
        let Some((key, at)) = TransactionKey::from_attribution(*owner) else { return first };
        let segment = context.transaction_table.get(key).and_then(|entry| entry.segment_at(at));
        let Some(handle) = segment.map(|segment| segment.handle) else { return first };
        let side = if is_read { sender } else { sender.peer() };
        let unknown = self.unknown_memory_reason(super::unknown_memory(is_read));
        for _ in 0..MAX_ADJACENT {
            let done = data.length - rest;
            let Some(rest_offset) = offset.checked_add(u64::from(done)) else { break };
            let next =
                self.find_next_segment(context.transaction_table, side, handle, rest_offset, (key, at));
            let Some(next) = next else {
                if !is_read && context.transaction_table.transport_events.is_enabled() {
                    let access = MemoryAccess { is_read, handle, offset, length: data.length };
                    let fault = (MemoryAccessFault::OutOfBounds, Some(key));
                    self.suspect_access(context, sender, access, fault);
                }
                return if done == 0 { context.count_undecoded(unknown) } else { first };
            };
            *owner = key.to_attribution(next);
            let bytes = data.bytes.get(done as usize..).unwrap_or_default();
            (_, rest) =
                record_payload(context, *owner, rest_offset, &PacketPayload { bytes, length: rest }, unknown);
            if rest == 0 {
                break;
            }
        }
        first
    }
}
