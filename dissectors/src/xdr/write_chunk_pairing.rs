//! Pairing of Write chunks with results. RFC 8166 section 4.3.2, RFC 8267 section 6.4.1.

/// Pairs the operations of a Reply that can have a DDP-eligible result with Write chunks.
///
/// The k-th such operation matches the k-th Write chunk of the Call, even without data. A chunk stays empty if its
/// operation failed or returned no bytes, or if the Call offered it empty to request an inline result (RFC 8267 section
/// 6.4.1). Servers deviate, so lengths override the order:
/// - A chunk that returned bytes, but whose own operation has none, belongs to the next result of the same length: the
///   server skips results without data (as RFC 8166 section 4.3.2.2 requires).
/// - A result with an empty chunk is inline if the message can hold it. Otherwise it is in the next chunk that returned
///   the same number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultWriteChunkAssignment {
    /// Number of operations ended; the index of the matching chunk.
    operation_index: u32,
    /// Number of leading chunks that are already assigned or skipped.
    next_chunk: u32,
}

impl ResultWriteChunkAssignment {
    /// Returns the pairing at the operation with this index.
    #[must_use]
    pub fn at_operation(self, ordinal: usize) -> Self {
        Self { operation_index: index_of(ordinal), ..self }
    }

    /// Returns the number of operations that were ended.
    pub fn operation(&self) -> usize {
        self.operation_index as usize
    }

    /// Returns the number of leading chunks that are assigned or skipped.
    pub fn taken_chunks(&self) -> usize {
        self.next_chunk as usize
    }

    /// Ends an operation, with or without result.
    pub fn end_operation(&mut self) {
        self.operation_index = self.operation_index.saturating_add(1);
    }

    /// Takes the chunk of a result of `length` > 0 bytes, or returns `None` if the result is inline. `returned` gives
    /// the number of bytes returned in each chunk, and `None` after the last; `fits_inline` says if the message can
    /// hold the result.
    pub fn take(&mut self, returned: impl Fn(usize) -> Option<u32>, length: u32, fits_inline: bool) -> Option<usize> {
        let (next, bytes) = self.next_filled(&returned)?;
        let operation = self.operation();
        let is_next = match next.cmp(&operation) {
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Less => bytes == length || !fits_inline,
            std::cmp::Ordering::Greater => bytes == length && !fits_inline,
        };
        let at = match is_next {
            true => next,
            // The preceding chunk has no result, but this one has its own.
            false if next < operation && returned(operation).is_some_and(|bytes| bytes > 0) => operation,
            false => return None,
        };
        self.next_chunk = index_of(at + 1);
        Some(at)
    }

    /// Takes the chunk of a result that is neither DDP-eligible nor inline: the next chunk that returned bytes, if it
    /// returned `length` of them.
    pub(super) fn take_ineligible(&mut self, returned: impl Fn(usize) -> Option<u32>, length: u32) -> Option<usize> {
        let (at, _) = self.next_filled(&returned).filter(|(_, bytes)| *bytes == length)?;
        self.next_chunk = index_of(at + 1);
        Some(at)
    }

    /// Returns the index of the next chunk that returned bytes, and their number.
    fn next_filled(&self, returned: impl Fn(usize) -> Option<u32>) -> Option<(usize, u32)> {
        let chunks = self.taken_chunks()..;
        chunks.map_while(|at| Some((at, returned(at)?))).find(|(_, bytes)| *bytes > 0)
    }
}

/// Returns an index as it is stored: no message has more operations or chunks.
fn index_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
