//! RDMA through rdma_cm and libibverbs. In this crate, only this module and `gss::kerberos` have `unsafe` code.
//!
//! The libraries are loaded when the program starts, but are required only on first use: without them, without a device
//! or without permission to use it, [`RpcClientTransport::connect`](super::RpcClientTransport::connect) returns a
//! one-line error.
//!
//! Misuse does not compile:
//! - A connection is set up in steps, and each step returns the type that has the next one:
//!   [`RdmaCmIdSetup`](cm_id_setup::RdmaCmIdSetup) `RdmaCmAddressUnresolvedState`, `RdmaCmAddressResolved`,
//!   `RdmaCmRouteResolved`; [`QueuePair`](queue_pair::QueuePair) `QueuePairInitialized`, which receives, and
//!   `ConnectedTypestate`, which sends and exposes memory. `destroy` ends both.
//! - A [`VerbsBuffer`](memory::VerbsBuffer) owns its bytes exclusively. Posting it moves it into the queue pair; its
//!   completion moves it out. Exposing it to the server moves it into a
//!   [`VerbsExposedBuffer`](exposed_buffer::VerbsExposedBuffer), which hides the bytes and returns the buffer for a
//!   [`VerbsServerCompletionProof`](work_queues::VerbsServerCompletionProof), a Receive that completed later, or for
//!   the [`QueuePairDestructionProof`](work_queues::QueuePairDestructionProof) of the queue pair. If a window is still
//!   open after the Receive, the queue pair keeps the buffer until the window is closed.
//! - Dependencies stay alive: a queue pair owns a reference to its identifier, its completion queue and its protection
//!   domain, a region to its domain, a domain to its device.
//!
//! [`VerbsTransport`] combines them and has no `unsafe` code of its own.

mod cm_id;
mod cm_id_setup;
mod completions;
mod connect;
mod connection;
mod context;
mod device_enumeration;
mod errno_conversion;
mod exposed_buffer;
mod memory;
mod per_server_resources;
mod queue_pair;
mod rdma_cm_events;
mod reverse_responder;
mod rpc_message_submission;
mod socket_address;
mod transport;
mod wait;
mod window;
mod work_queues;

pub use device_enumeration::{RdmaDeviceDescription, RdmaDevicePortDescription, devices};
pub use transport::VerbsTransport;
