//! RDMA by rdma_cm and libibverbs: the only room with `unsafe` in it.
//!
//! The libraries are opened when the program starts, and are not missed before they are needed: without them, without
//! a device or without the right to use it, [`connect`](super::RpcTransport::connect) says so in one line.
//!
//! What may not happen does not compile:
//! - A connection is set up step by step, and each step gives the type that has the next: [`CmId`](cm_id::CmId) `Idle`,
//!   `Addressed`, `Routed`; [`QueuePair`](queue_pair::QueuePair) `Initialized`, which receives, and `Connected`, which
//!   sends, exposes memory, and ends with `destroy`.
//! - A [`Buffer`](memory::VerbsBuffer) has its bytes alone. Posting it moves it into the queue pair, and its completion moves it
//!   out. Offering it to the server moves it into an [`Exposed`](memory::VerbsExposedBuffer), which shows no bytes, and gives the
//!   buffer back for a [`Fence`](work_queues::VerbsServerFence), a Receive that completed later, or for the [`End`](work_queues::VerbsQueuePairEnd) of
//!   the queue pair. If a window is still open after the Receive, the queue pair keeps the buffer until that has ended.
//! - What others need lives as long as they do: a queue pair holds its identifier, its completion queue and its
//!   protection domain, a region its domain, a domain its device.
//!
//! [`VerbsTransport`] puts them together, and has no `unsafe` of its own.

mod cm_id;
mod completions;
mod connect;
mod connection;
mod context;
mod device;
mod events;
mod failure;
mod memory;
mod pool;
mod queue_pair;
mod reverse_responder;
mod server_resources;
mod socket_address;
mod submission;
mod transport;
mod wait;
mod window;
mod work_queues;

pub use device::{VerbsDevice, VerbsPort, devices};
pub use transport::VerbsTransport;
