//! Chunks of messages: those of a Call in its Transaction, and the payload that is retained for decoding.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::{self, Procedure, SymlinkTextChunkFlags};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::Cursor;

use crate::chunk::{Chunk, ChunkSegment};
use crate::read_list::{self, ReadList};
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::transaction::Transaction;

/// Returns `true` if a copy of a Call advertises other memory, and the memory advertised before is unused.
pub(super) fn advertises_other_memory(transaction: &Transaction, copy: &RpcRdmaHeaderSummary) -> bool {
    let existing_chunks = transaction.call_chunks();
    let copied_chunks = copy.read_chunks.iter().chain(&copy.write_chunks).chain(&copy.reply_chunk);
    let memory_range = |segment: &ChunkSegment| (segment.handle, segment.offset, segment.length);
    let is_unused = existing_chunks.clone().all(|chunk| chunk.times.is_none());
    let segments = existing_chunks.flat_map(|chunk| &chunk.segments).map(memory_range);
    is_unused && !copy.is_cut && !segments.eq(copied_chunks.flat_map(|chunk| &chunk.segments).map(memory_range))
}

/// Maximum length of the text of a symbolic link in file systems (PATH_MAX), in bytes.
const MAX_LINK_TEXT_BYTES: u64 = 4_096;

/// Returns the chunks of a Call, at the cursor, that hold text.
fn link_text_chunks(cursor: Cursor<'_>, reads: &ReadList<'_>) -> Option<SymlinkTextChunkFlags> {
    let items = read_list::items_without_content(reads);
    // Positions count from the start of the RPC message.
    let mut cursor = Cursor::new(cursor.rest()).with_length(cursor.remaining()).with_chunks(&items);
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = message.call()?;
    let procedure = Procedure::from_numbers(call.prog, call.vers, call.proc)?;
    Some(nfs::link_text_chunks(procedure, cursor))
}

/// Stores the chunks of a Call, and retains the payload bytes that will be decoded.
pub(super) fn store_call_chunks(
    transaction: &mut Transaction,
    summary: RpcRdmaHeaderSummary,
    rpc: Cursor<'_>,
    keep_data: bool,
) {
    let reads = ReadList::new(&summary.read_chunks);
    let tail = read_list::message_tail(rpc, &reads);
    let text = match summary.write_chunks.is_empty() && summary.read_chunks.is_empty() {
        true => SymlinkTextChunkFlags::default(),
        false => link_text_chunks(rpc, &reads).unwrap_or_default(),
    };
    let is_long = reads.position_zero().is_some();
    transaction.read_chunks = summary.read_chunks;
    transaction.write_chunks = summary.write_chunks;
    transaction.reply_chunk = summary.reply_chunk;
    let whole_calls = transaction.read_chunks.iter_mut().filter(|chunk| chunk.position == Some(0));
    whole_calls.chain(&mut transaction.reply_chunk).for_each(|chunk| chunk.retain_payload(true));
    if let Some(tail) = tail {
        read_list::retain_tail(&mut transaction.read_chunks, tail);
    }
    // The procedure of a Long Call is not known yet.
    let may_be_text = |chunk: &&mut Chunk| is_long && chunk.offered_bytes() <= MAX_LINK_TEXT_BYTES;
    let reads = transaction.read_chunks.iter_mut().filter(|chunk| text.call || keep_data || may_be_text(chunk));
    reads.for_each(|chunk| chunk.retain_payload(false));
    let writes = transaction.write_chunks.iter_mut().filter(|chunk| text.reply || keep_data || may_be_text(chunk));
    writes.for_each(|chunk| chunk.retain_payload(false));
}

/// Retains the payload bytes that will be decoded from results that the Requester fetches with RDMA Read.
pub(super) fn retain_read_results(transaction: &mut Transaction, keep_data: bool) {
    if transaction.reply_read_chunks.is_empty() {
        return;
    }
    let has_text = || {
        let call = transaction.call.as_ref()?;
        let rpc = Cursor::new(call.inline_bytes()).with_length(call.length);
        Some(link_text_chunks(rpc, &ReadList::new(&transaction.read_chunks))?.reply)
    };
    if keep_data || has_text() == Some(true) {
        transaction.reply_read_chunks.iter_mut().for_each(|chunk| chunk.retain_payload(false));
    }
}
