//! RPC-over-RDMA version 1 of a Requester (RFC 8166), for all transports that use it: the form of a Call, its header,
//! and the check of its Reply.
//!
//! This module has no knowledge of memory or devices: a transport requests a [`CallChunkPlan`], provides a
//! [`ContiguousChunkMemory`] for each of its chunks, and lets [`OutgoingCallChunks`] write the header. It keeps those
//! until the Reply; [`receive`] decodes received messages.

pub(crate) mod chunk_plan;
pub(crate) mod header_lengths;
pub(crate) mod in_flight;
pub(crate) mod incoming_message_classification;
pub(crate) mod offered_chunks;
pub(crate) mod reverse_reply_headers;

pub use chunk_plan::{CallChunkPlan, check_call};
pub use header_lengths::SHORTEST_HEADER;
pub use in_flight::InFlightCalls;
pub use incoming_message_classification::{IncomingMessage, receive};
pub use offered_chunks::{ChunkRegions, ContiguousChunkMemory, OutgoingCallChunks, ReturnedChunkLengths};
pub use reverse_reply_headers::{answer_header, chunks_refused};
