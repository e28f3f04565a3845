//! An ONC RPC client from user space, with transports over RDMA and TCP.
//!
//! - [`RpcClientTransport`] carries RPC messages: over TCP ([`tcp`]), and with the feature `verbs` over RDMA (`verbs`).
//!   [`open`] creates the one that a [`url`] names.
//! - [`rpcrdma_framing`]: forms and headers of RPC-over-RDMA, for every transport that has them.
//! - [`synchronous_client`]: a client on top of a transport, for one Call at a time.
//! - [`gss`]: RPCSEC_GSS contexts, which sign Calls and verify Replies; Kerberos needs the feature `gss`.
//!
//! # Transports
//! The interface is RPC messages with their DDP-eligible items, not packets or memory registrations. A
//! [`OutgoingRpcCall`] contains the message without the DDP-eligible arguments, those arguments with their positions,
//! and the limits of the Reply. The transport encodes it: a record on TCP; on RDMA a Send with the inline part, Read,
//! Write and Reply chunks, or a Long Call. A [`RpcClientTransportEvent`] borrows received data in place until the next
//! call of [`RpcClientTransport::poll`].
//!
//! One value drives any number of connections from one thread: with RDMA they share completion queue, memory and event
//! channel, with TCP one `poll`. [`RpcClientTransport::submit`] never waits; it returns the resource that is exhausted.
//! Only [`RpcClientTransport::connect`] and [`RpcClientTransport::poll`] wait.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use nfsrdma_rpc::{ConnectTarget, OutgoingRpcCall, RpcClientTransport, RpcClientTransportError,
//! RpcClientTransportEvent};
//!
//! fn one_call(
//!     transport: &mut dyn RpcClientTransport,
//!     target: &ConnectTarget,
//!     call: &OutgoingRpcCall<'_>,
//! ) -> Result<usize, RpcClientTransportError> {
//!     let connection = transport.connect(target)?;
//!     transport.submit(connection, call)?;
//!     let deadline = Instant::now() + Duration::from_secs(5);
//!     while let Some(event) = transport.poll(Some(deadline))? {
//!         if let RpcClientTransportEvent::Reply(reply) = event {
//!             return Ok(reply.message.len());
//!         }
//!     }
//!     Ok(0)
//! }
//! ```
//!
//! # Invariants of all transports
//! - Credits (RFC 8166 section 3.3.1, RFC 8167 section 4.1): one Call until the first Reply, then the lower of the
//!   requested and the last granted number. A grant of zero counts as one. Each direction has its own credits.
//! - Inline thresholds (RFC 8166 section 3.3.2, RFC 8797 section 4.2): no Send exceeds them.
//! - Data from a server is hostile: lengths, counts, chunks and XIDs are checked before use. A Reply with a wrong
//!   header is discarded (RFC 8166 section 4.5) and reported as an event; its Call stays in flight.
//! - Memory that a Call exposes is not reused until its Reply has arrived or the connection is gone, even if nobody
//!   waits for the Reply any more (RFC 8166 section 4.4.1).
//! - After the first calls no call allocates, and payloads are not copied except for
//!   [`PayloadContentLocation::Copied`].

mod client_transport_events;
pub mod gss;
mod outgoing_call;
mod params;
mod reconnection;
mod rpc_transport;
pub mod rpcrdma_framing;
pub mod synchronous_client;
pub mod tcp;
mod transport_error;
pub mod url;
#[cfg(feature = "verbs")]
#[allow(unsafe_code, reason = "libibverbs and librdmacm are called here, and nowhere else")]
pub mod verbs;

use url::UrlTransport;

pub use client_transport_events::{
    DisconnectReason, NonRpcServerProtocol, ReceivedMessageDiscardReason, ReplyWriteChunkReceivedData, ReverseCall,
    RpcClientTransportEvent, TransportReply,
};
pub use outgoing_call::{
    CallTag, CapturedCallChunkLayout, DdpEligibleArgument, OutgoingRpcCall, PayloadContentLocation,
    RegisteredPayloadMemoryId, ReplySizeLimits, RequestedCallForm, RpcMessageWireForm, SubmittedCallForm,
};
pub use params::{
    ConnectOptions, ConnectTarget, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, RdmaFabric,
    RpcClientConnectionCounters, RpcClientConnectionId, TransportCredits, TransportKind,
};
pub use reconnection::ReconnectionAttempts;
pub use rpc_transport::RpcClientTransport;
pub use transport_error::{
    PermanentSubmitRefusal, RpcClientTransportError, RpcClientTransportErrorKind, SubmitBusyReason, SubmitError,
    TransportErrorResponsibility,
};

/// Creates the transport for a URL's scheme.
///
/// # Errors
/// Returns an error if the program was built without it.
pub fn open(transport: UrlTransport) -> Result<Box<dyn RpcClientTransport>, RpcClientTransportError> {
    match transport {
        UrlTransport::Tcp => Ok(Box::new(tcp::TcpTransport::new())),
        #[cfg(feature = "verbs")]
        UrlTransport::Rdma => Ok(Box::new(verbs::VerbsTransport::new())),
        #[cfg(not(feature = "verbs"))]
        UrlTransport::Rdma => {
            Err(RpcClientTransportError::at("RDMA", None, RpcClientTransportErrorKind::NotBuilt("verbs")))
        }
    }
}
