//! Read chunks of a message by Position. A Read list is not ordered: the Responder concatenates the segments of one
//! Position in list order and inserts each data item at its Position (RFC 8166 sections 3.4.5 and 4.3.1).
//!
//! Older Linux clients append the arguments that follow the data of a WRITE to its Read chunk: the message ends with
//! the length of the data, and its chunk holds the data, their roundup and the rest of the message.

use std::borrow::Cow;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::{self, RpcMessageKind};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, XdrError};

use super::chunk::{Chunk, ChunkSegment, segments_content};

/// The Read chunks of a message, in the order of their Positions.
#[derive(Debug)]
pub struct ReadList<'t>(Vec<(usize, &'t Chunk)>);

impl<'t> ReadList<'t> {
    /// Sorts a list.
    pub fn new(chunks: &'t [Chunk]) -> Self {
        let mut sorted: Vec<_> = chunks.iter().enumerate().collect();
        // The order of the chunks of one Position remains.
        sorted.sort_by_key(|(_, chunk)| chunk.position);
        Self(sorted)
    }

    /// Iterates over the Positions in ascending order, each with its chunks.
    pub fn positions(&self) -> impl Iterator<Item = PositionChunks<'t, '_>> {
        self.0.chunk_by(|(_, one), (_, other)| one.position == other.position).map(PositionChunks)
    }

    /// Returns the chunks at Position zero, which hold the whole RPC message (RFC 8166 section 3.5.3).
    pub fn position_zero(&self) -> Option<PositionChunks<'t, '_>> {
        self.positions().next().filter(|chunks| chunks.position() == Some(0))
    }

    /// Returns the number of bytes with roundup that the chunks add to the message.
    pub(super) fn filled_bytes(&self) -> u64 {
        self.positions().map(PositionChunks::filled_bytes).sum()
    }

    /// Iterates over the other Positions: each holds a data item. The item of chunks without bytes is inline (RFC 5667
    /// section 5).
    pub fn items(&self) -> impl Iterator<Item = PositionChunks<'t, '_>> {
        let has_bytes = |chunks: &PositionChunks<'_, '_>| chunks.offered_bytes() > 0 || chunks.is_cut();
        self.positions().filter(move |chunks| chunks.position() != Some(0) && has_bytes(chunks))
    }
}

/// The chunks of one Position, in list order.
#[derive(Clone, Copy, Debug)]
pub struct PositionChunks<'t, 'l>(&'l [(usize, &'t Chunk)]);

impl<'t, 'l> PositionChunks<'t, 'l> {
    /// Returns the Position.
    pub fn position(self) -> Option<u32> {
        self.0.first()?.1.position
    }

    /// Iterates over the chunks in list order.
    pub fn chunks(self) -> impl Iterator<Item = &'t Chunk> + use<'t, 'l> {
        self.0.iter().map(|(_, chunk)| *chunk)
    }

    /// Iterates over the chunks in list order, each with its index in the list.
    pub fn indexed_chunks(self) -> impl Iterator<Item = (usize, &'t Chunk)> + use<'t, 'l> {
        self.0.iter().copied()
    }

    /// Iterates over the segments in list order.
    pub fn segments(self) -> impl Iterator<Item = &'t ChunkSegment> + Clone + use<'t, 'l> {
        self.0.iter().flat_map(|(_, chunk)| &chunk.segments)
    }

    /// Returns the number of bytes advertised.
    pub fn offered_bytes(self) -> u64 {
        self.chunks().map(Chunk::offered_bytes).sum()
    }

    /// Returns the number of bytes with roundup that the chunks add to the message.
    pub(super) fn filled_bytes(self) -> u64 {
        filled(self.offered_bytes())
    }

    /// Returns `true` if the capture ends where another segment may follow.
    pub(super) fn is_cut(self) -> bool {
        self.chunks().any(|chunk| chunk.is_cut)
    }

    /// Returns the content up to the first gap in the capture; `None` if payload bytes are not retained.
    pub fn content(self) -> Option<Cow<'t, [u8]>> {
        segments_content(self.segments(), ChunkSegment::offered_bytes)
    }

    /// Returns the captured content from the byte `start` on, up to the first gap or segment that is not retained.
    fn content_from(self, start: u64) -> Vec<u8> {
        let (mut content, mut base) = (Vec::new(), 0);
        for segment in self.segments() {
            let end = base + segment.offered_bytes();
            if end > start {
                let bytes = segment.payload.as_ref().map(|payload| payload.prefix()).unwrap_or_default();
                let bytes = &bytes[..bytes.len().min(segment.length as usize)];
                let skipped = usize::try_from(start.saturating_sub(base)).unwrap_or(usize::MAX);
                content.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
                if bytes.len() < segment.length as usize {
                    break;
                }
            }
            base = end;
        }
        content
    }
}

fn filled(length: u64) -> u64 {
    length.next_multiple_of(4)
}

/// End of a message that its sender appended to the Read chunk of a data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageTail {
    /// Position of the chunk.
    pub(super) position: u32,
    /// Length of the data item; 0 if the end has a Position of its own, behind the one of the item.
    pub(super) item_length: u32,
}

impl MessageTail {
    /// Offset of the tail in the chunk.
    fn start(self) -> u64 {
        filled(self.item_length.into())
    }

    /// Returns `true` if the chunks hold an end of a message, and no data item.
    pub(super) fn is_all_of(self, chunks: PositionChunks<'_, '_>) -> bool {
        self.item_length == 0 && chunks.position() == Some(self.position)
    }
}

/// Returns the tail of a Call, whose inline part is at the cursor. The inline part ends with the length of a data item
/// and without the rest of the arguments, and the chunk of the item is longer, or another chunk begins where it ends.
pub(super) fn message_tail(rpc: Cursor<'_>, reads: &ReadList<'_>) -> Option<MessageTail> {
    let inline = rpc.rest();
    if inline.len() != rpc.remaining() {
        return None;
    }
    // Nearly all messages continue behind their last item.
    let highest = reads.0.last()?.1.position?;
    if (highest as usize) < inline.len() {
        return None;
    }
    let last = reads.items().last()?;
    let position = last.position().filter(|position| *position > 0)?;
    let before: u64 = reads.items().map(PositionChunks::filled_bytes).sum::<u64>() - last.filled_bytes();
    if u64::from(position) != inline.len() as u64 + before {
        return None;
    }
    let continues = |item: PositionChunks<'_, '_>| {
        item.position().is_some_and(|start| u64::from(start) + item.filled_bytes() == u64::from(position))
    };
    let has_own_position = reads.items().any(continues);
    let item_length = if has_own_position { 0 } else { u32::from_be_bytes(*inline.last_chunk()?) };
    let tail = MessageTail { position, item_length };
    (last.offered_bytes() > tail.start() && lacks_arguments(inline, reads, tail)).then_some(tail)
}

/// Returns `true` if the inline part of a Call ends before its arguments, after the data items of its chunks.
#[cold]
fn lacks_arguments(inline: &[u8], reads: &ReadList<'_>, tail: MessageTail) -> bool {
    let items = reads.items().filter(|chunks| !tail.is_all_of(*chunks));
    let items: Vec<_> = items.map(|chunks| item(chunks, Some(tail))).collect();
    let decode = |(procedure, mut arguments): (Procedure, Cursor<'_>)| {
        procedure.arguments(&mut arguments, &mut NullFieldObserver).err()
    };
    let error = procedure_of(Cursor::new(inline).with_chunks(&items)).and_then(decode);
    matches!(error, Some(XdrError::Short { at, .. }) if at == inline.len())
}

/// Returns `true` if a procedure has no DDP-eligible arguments, and all of them are inline: the Responder ignores the
/// Read list (RFC 5667 section 4).
pub(super) fn ignores_reads(rpc: Cursor<'_>) -> bool {
    procedure_of(rpc).is_some_and(|(procedure, mut arguments)| {
        !procedure.is_compound()
            && !procedure.has_eligible_items(RpcMessageKind::Call)
            && procedure.arguments(&mut arguments, &mut NullFieldObserver).is_ok()
            && arguments.expect_end().is_ok()
    })
}

/// Returns the procedure of a Call and a cursor at its arguments.
fn procedure_of(mut rpc: Cursor<'_>) -> Option<(Procedure, Cursor<'_>)> {
    let message = rpc::RpcMsg::decode(&mut rpc, &mut NullFieldObserver).ok()?;
    let call = message.call()?;
    Some((Procedure::from_numbers(call.prog, call.vers, call.proc)?, rpc))
}

/// Returns the data items of a Read list, without their content.
pub(super) fn items_without_content<'a>(reads: &ReadList<'_>) -> Vec<ChunkedDataItem<'a>> {
    reads.items().map(|chunks| item(chunks, None)).collect()
}

/// Returns the data item of a Position, without its content.
fn item<'a>(chunks: PositionChunks<'_, '_>, tail: Option<MessageTail>) -> ChunkedDataItem<'a> {
    let length = match tail {
        Some(tail) if chunks.position() == Some(tail.position) => tail.item_length,
        _ => u32::try_from(chunks.offered_bytes()).unwrap_or(u32::MAX),
    };
    ChunkedDataItem { position: chunks.position(), length, bytes: None }
}

/// Retains the bytes of the segments that hold a tail.
pub(super) fn retain_tail(chunks: &mut [Chunk], tail: MessageTail) {
    let mut base = 0;
    let of_tail = chunks.iter_mut().filter(|chunk| chunk.position == Some(tail.position));
    for segment in of_tail.flat_map(|chunk| &mut chunk.segments) {
        base += segment.offered_bytes();
        if base > tail.start() {
            segment.retain_payload(true);
        }
    }
}

/// An inline RPC message with the tail from its chunk, as far as it was captured, and its length.
pub(super) fn with_tail(inline: &[u8], reads: &ReadList<'_>, tail: MessageTail) -> (Vec<u8>, usize) {
    let chunks = reads.positions().find(|chunks| chunks.position() == Some(tail.position));
    let content = chunks.map(|chunks| chunks.content_from(tail.start())).unwrap_or_default();
    let length = chunks.map_or(0, |chunks| chunks.offered_bytes().saturating_sub(tail.start()));
    ([inline, &content].concat(), inline.len() + usize::try_from(length).unwrap_or(usize::MAX - inline.len()))
}
