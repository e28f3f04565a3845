//! Comparison of the Write chunks of a Reply with its data items.
//!
//! A Write chunk returns as many bytes as the data item, whose length is in the reduced Reply (RFC 8166 sections
//! 3.4.6.2 and 4.3.2); if it returns another number, the client cannot know which part is data.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

/// Visitor that assigns each data item of a Reply the next Write chunk that returned anything.
struct WriteChunkLengthComparisonVisitor<I> {
    returned_lengths: I,
    /// First difference: length of the item, and of the chunk.
    first_difference: Option<[u32; 2]>,
}

impl<'a, I: Iterator<Item = u32>> FieldObserver<'a> for WriteChunkLengthComparisonVisitor<I> {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        if let FieldValue::Chunk(length, _) = value {
            let returned = self.returned_lengths.next().unwrap_or(0);
            let differs = (returned != length).then_some([length, returned]);
            self.first_difference = self.first_difference.or(differs);
        }
    }
}

/// Returns the lengths of the first data item and Write chunk that differ. `reply` has the chunks.
pub(super) fn differing_lengths(
    procedure: Option<Procedure>,
    mut reply: Cursor<'_>,
    chunks: &[ChunkedDataItem<'_>],
) -> Option<[u32; 2]> {
    let lengths = chunks.iter().map(|chunk| chunk.length).filter(|length| *length > 0);
    // Most Replies have none.
    lengths.clone().next()?;
    let mut items = WriteChunkLengthComparisonVisitor { returned_lengths: lengths, first_difference: None };
    let message = rpc::RpcMsg::decode(&mut reply, &mut NullFieldObserver).ok()?;
    if !message.reply()?.status().is_success() {
        return None;
    }
    let is_read = procedure?.results(&mut reply, &mut items).is_ok();
    // A chunk without an item.
    let extra = items.returned_lengths.next().filter(|_| is_read);
    items.first_difference.or(extra.map(|length| [0, length]))
}
