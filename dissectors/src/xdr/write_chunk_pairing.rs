//! Which Write chunk holds which result. RFC 8166 section 4.3.2, RFC 8267 section 6.4.1.

/// A walk over the operations of a Reply that can have a DDP-eligible result.
///
/// The k-th of them matches the k-th Write chunk of the Call, whether it has data or not: a chunk whose operation failed or
/// returned no bytes comes back empty in its place, and so does a chunk that the Call offered empty to have the result inline
/// (RFC 8267 section 6.4.1). Servers deviate, so the lengths decide where they contradict the order:
/// - A chunk that returned bytes, and whose own operation has none, belongs to the next result that is as long: the server
///   does not count results without data (RFC 8166 section 4.3.2.2 asks for that).
/// - A result whose chunk came back empty is inline where the message can hold it. Otherwise it is in the next chunk that
///   returned as many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteChunkPairing {
    /// Operations that ended: the index of the matching chunk.
    ordinal: usize,
    /// Chunks before this have their result, or have none.
    taken: usize,
}

impl WriteChunkPairing {
    /// Before the operation that has so many before it.
    #[must_use]
    pub fn at(self, ordinal: usize) -> Self {
        Self { ordinal, ..self }
    }

    /// Ends an operation, whether it had a result or not.
    pub fn end_operation(&mut self) {
        self.ordinal += 1;
    }

    /// Takes the chunk of a result of `length` bytes, more than 0; `None` where the result is inline. `returned` tells what each
    /// chunk returned, in bytes, and `None` behind the last; `fits_inline` says whether the message can hold the result.
    pub fn take(
        &mut self,
        returned: impl Fn(usize) -> Option<u32>,
        length: u32,
        fits_inline: bool,
    ) -> Option<usize> {
        let filled = (self.taken..).map_while(|at| Some((at, returned(at)?))).find(|(_, bytes)| *bytes > 0);
        let (next, bytes) = filled?;
        let is_it = match next.cmp(&self.ordinal) {
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Less => bytes == length || !fits_inline,
            std::cmp::Ordering::Greater => bytes == length && !fits_inline,
        };
        let at = match is_it {
            true => next,
            // The chunk before it has no result, but this one has its own.
            false if next < self.ordinal && returned(self.ordinal).is_some_and(|bytes| bytes > 0) => {
                self.ordinal
            }
            false => return None,
        };
        self.taken = at + 1;
        Some(at)
    }
}
