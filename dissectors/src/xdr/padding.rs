//! Padding before opaque data, which RDMA_MSGP has. RFC 5666 section 3.9.

/// How a sender aligns opaque data in a Send. Positions count from the first byte of the Send, as the receiver's buffers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// rdma_align: data begins at a multiple of so many bytes. 0 is no padding.
    pub align: u32,
    /// rdma_thresh: data of at least so many bytes is aligned.
    pub threshold: u32,
}

impl Padding {
    /// Bytes of padding before data of `length` bytes that would begin at `position` without it.
    pub fn before(self, position: usize, length: u32) -> usize {
        match self.align as usize {
            0 => 0,
            align if length >= self.threshold => position.next_multiple_of(align) - position,
            _ => 0,
        }
    }
}
