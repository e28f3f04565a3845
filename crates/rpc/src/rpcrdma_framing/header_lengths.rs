//! Lengths of the parts of an RPC-over-RDMA version 1 header. RFC 8166 section 4.3.

/// Length in bytes of a header without chunks: four fixed words, and three for the empty lists. RFC 8166 section 4.5.
pub const SHORTEST_HEADER: usize = 28;
/// Length in bytes of a Read segment in the header: a presence word, the Position, and the segment.
pub(super) const READ_SEGMENT: usize = 24;
/// Length in bytes of a Write chunk in the header without its segments: a presence word, and a count.
pub(super) const WRITE_CHUNK: usize = 8;
/// Length in bytes of the Reply chunk in the header without its segments: a count.
pub(super) const REPLY_CHUNK: usize = 4;
/// Length in bytes of a segment without Position.
pub(super) const SEGMENT: usize = 16;
