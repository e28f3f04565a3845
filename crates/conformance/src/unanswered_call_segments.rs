//! Memory of Calls without a Reply: a Reply to the repeated Call on the next connection must not use it.

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_flow::Transaction;
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;

/// Maximum number of Calls. Beyond it, all are forgotten, and their repetitions are not judged.
const MAX_CALLS: usize = 4096;

/// Handle and offset of each segment of the Write chunks and the Reply chunk of a Call.
pub(crate) type AdvertisedResultSegments = Vec<(Handle, u64)>;

/// Memory for results by the index of the Transaction.
#[derive(Debug, Default)]
pub(crate) struct UnansweredCallAdvertisedSegments(FxHashMap<u64, AdvertisedResultSegments>);

impl UnansweredCallAdvertisedSegments {
    /// Records the memory for results of a Call without a Reply.
    pub(crate) fn record(&mut self, transaction: &Transaction) {
        let Some(call) = transaction.call.as_ref().filter(|_| transaction.reply.is_none()) else { return };
        let chunks = || transaction.write_chunks.iter().chain(&transaction.reply_chunk);
        // A Call with several copies may have offered other memory in each.
        if call.copies > 1 || chunks().next().is_none() || chunks().any(|chunk| chunk.is_cut) {
            return;
        }
        empty_if_full(&mut self.0, MAX_CALLS);
        let segments = chunks().flat_map(|chunk| &chunk.segments);
        let memory = segments.map(|segment| (segment.handle, segment.offset)).collect();
        self.0.insert(transaction.index, memory);
    }

    /// Removes and returns the memory of the Call that a Transaction repeats.
    pub(crate) fn take(&mut self, transaction: &Transaction) -> Option<AdvertisedResultSegments> {
        self.0.remove(&transaction.retry_of?)
    }
}
