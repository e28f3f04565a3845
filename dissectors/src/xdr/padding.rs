//! Padding of opaque data: fill bytes after it (RFC 4506 section 4.10), alignment before it in RDMA_MSGP (RFC 5666
//! section 3.9).

/// Returns the number of fill bytes after `length` bytes of opaque data (RFC 4506 section 4.10).
pub const fn roundup(length: usize) -> usize {
    length.wrapping_neg() % 4
}

/// Alignment of opaque data in a Send. Positions count from the first byte of the Send, which begins the receive
/// buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaMsgpPadding {
    /// rdma_align: alignment in bytes; 0 for none.
    pub align: u32,
    /// rdma_thresh: minimum length of aligned data in bytes.
    pub threshold: u32,
}

impl RdmaMsgpPadding {
    /// Returns the number of padding bytes before data of `length` bytes at `position`.
    pub fn bytes_before(self, position: usize, length: u32) -> usize {
        match self.align as usize {
            0 => 0,
            align if length >= self.threshold => position.next_multiple_of(align) - position,
            _ => 0,
        }
    }
}
