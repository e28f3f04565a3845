//! RPC-over-RDMA version 1 of a Requester (RFC 8166), for all transports that use it: the form of a Call, its header,
//! and the check of its Reply.
//!
//! This module has no knowledge of memory or devices: a transport requests a [`CallChunkPlan`], provides a
//! [`ContiguousChunkMemory`] for each of its chunks, and lets [`OutgoingCallChunks`] write the header. It keeps those
//! until the Reply; [`receive`] decodes received messages.

mod chunk_plan;
mod in_flight;
mod incoming_message_classification;
mod offered_chunks;
mod reverse_reply_headers;

pub use chunk_plan::{CallChunkPlan, check_call};
pub use in_flight::InFlightCalls;
pub use incoming_message_classification::{IncomingMessage, receive};
pub use offered_chunks::{ChunkRegions, ContiguousChunkMemory, OutgoingCallChunks, ReturnedChunkLengths};
pub use reverse_reply_headers::{answer_header, chunks_refused};

/// Length in bytes of a header without chunks: four fixed words, and three for the empty lists. RFC 8166 section 4.5.
pub const SHORTEST_HEADER: usize = 28;
/// Length in bytes of a Read segment in the header: a presence word, the Position, and the segment.
const READ_SEGMENT: usize = 24;
/// Length in bytes of a Write chunk in the header without its segments: a presence word, and a count.
const WRITE_CHUNK: usize = 8;
/// Length in bytes of the Reply chunk in the header without its segments: a count.
const REPLY_CHUNK: usize = 4;
/// Length in bytes of a segment without Position.
const SEGMENT: usize = 16;
