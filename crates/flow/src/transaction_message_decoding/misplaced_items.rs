//! Data items of a Reply that are not in the Write chunks that the Call offers for them. RFC 8166 section 4.3.2, RFC 8267
//! section 6.4.1.

use std::ops::Range;

use nfsrdma_dissectors::field::{DataItemPlacement, DdpEligibleItem, FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::rpc::gss::GssPayload;
use nfsrdma_dissectors::xdr::Cursor;

use super::TransactionMessages;
use super::call_header::CallBodyDecodeParameters;
use crate::chunk::Chunk;

impl<'a> TransactionMessages<'a> {
    /// Returns `true` if a data item of results that were captured to their end is inline although it has a Write chunk,
    /// or in that of another operation. The cursor is behind the RPC header.
    pub(super) fn has_misplaced_item(&self, call: CallBodyDecodeParameters, mut results: Cursor<'a>) -> bool {
        let is_unused =
            |chunk: &Chunk| chunk.offered_bytes() > 0 && chunk.returned_bytes().is_none_or(|bytes| bytes == 0);
        let chunks = &self.transaction.write_chunks;
        if call.payload != GssPayload::Plain || !chunks.iter().any(is_unused) {
            return false;
        }
        let procedure =
            call.described_procedure().filter(|procedure| procedure.has_eligible_items(RpcMessageKind::Reply));
        let Some(procedure) = procedure else { return false };
        let mut misplaced = MisplacedItems { chunks, is_compound: procedure.is_compound(), has_any: false };
        procedure.results(&mut results, &mut misplaced).is_ok() && misplaced.has_any
    }
}

/// Looks for items that are not in their Write chunks.
struct MisplacedItems<'t> {
    chunks: &'t [Chunk],
    is_compound: bool,
    has_any: bool,
}

impl<'a> FieldObserver<'a> for MisplacedItems<'_> {
    fn is_enabled() -> bool {
        false
    }

    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn eligible_item(&mut self, item: DdpEligibleItem) {
        let offered = self.chunks.get(item.operation).map_or(0, Chunk::offered_bytes);
        self.has_any |= match item.placement {
            DataItemPlacement::Inline => item.length > 0 && offered > 0,
            // RFC 8166 section 4.3.2.2: other procedures may skip a chunk.
            DataItemPlacement::WriteChunk(chunk) => self.is_compound && chunk != item.operation,
            DataItemPlacement::ReadChunk => false,
        };
    }

    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}
