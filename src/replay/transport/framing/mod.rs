//! RPC-over-RDMA version 1 from the side of a Requester (RFC 8166), for every transport that has it: which form a Call
//! takes, its header, and whether what comes back belongs to it.
//!
//! Nothing here knows memory or devices: a transport asks for a [`CallChunkPlan`], provides a [`ChunkRegion`] for each chunk of it, and
//! has the header written. [`OfferedChunks`] is what it keeps until the Reply; [`receive`] reads what comes.

mod answer;
mod chunk_plan;
mod in_flight;
mod incoming_message;
mod offered_chunks;

pub use answer::{answer_header, chunks_refused};
pub use chunk_plan::{CallChunkPlan, check};
pub use in_flight::InFlightCalls;
pub use incoming_message::{IncomingMessage, receive};
pub use offered_chunks::{ChunkRegion, ChunkRegions, OfferedChunks, ReturnedChunkLengths};

/// Bytes of a header without chunks: four fixed words, and three that say that no list is there. RFC 8166 section 4.5.
pub const SHORTEST_HEADER: usize = 28;
/// Bytes that each segment of a Read chunk adds: a word that says that it is there, its Position, and the segment.
const READ_SEGMENT: usize = 24;
/// Bytes that each Write chunk adds, without its segments: a word that says that it is there, and a count.
const WRITE_CHUNK: usize = 8;
/// Bytes that the Reply chunk adds, without its segments: a count.
const REPLY_CHUNK: usize = 4;
/// Bytes of a segment without Position.
const SEGMENT: usize = 16;
