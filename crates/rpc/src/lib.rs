//! An ONC RPC client from user space, with transports over RDMA and TCP.
//!
//! - [`RpcTransport`] carries RPC messages: over TCP ([`tcp`]), and with the feature `verbs` over RDMA (`verbs`).
//!   [`open`] creates the one that a [`url`] names.
//! - [`rpcrdma_framing`]: forms and headers of RPC-over-RDMA, for every transport that has them.
//! - [`synchronous_client`]: a client on top of a transport, for one Call at a time.
//! - [`gss`]: RPCSEC_GSS contexts, which sign Calls and verify Replies; Kerberos needs the feature `gss`.
//!
//! # Transports
//! The interface is RPC messages with their DDP-eligible items, not packets or memory registrations. A
//! [`OutgoingRpcCall`] contains the message without the DDP-eligible arguments, those arguments with their positions,
//! and the limits of the Reply. The transport encodes it: a record on TCP; on RDMA a Send with the inline part, Read,
//! Write and Reply chunks, or a Long Call. A [`RpcTransportEvent`] borrows received data in place until the next call
//! of [`RpcTransport::poll`].
//!
//! One value drives any number of connections from one thread: with RDMA they share completion queue, memory and event
//! channel, with TCP one `poll`. [`RpcTransport::submit`] never waits; it returns the resource that is exhausted. Only
//! [`RpcTransport::connect`] and [`RpcTransport::poll`] wait.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use nfsrdma_rpc::{ConnectTarget, OutgoingRpcCall, RpcTransport, RpcTransportError, RpcTransportEvent};
//!
//! fn one_call(
//!     transport: &mut dyn RpcTransport,
//!     target: &ConnectTarget,
//!     call: &OutgoingRpcCall<'_>,
//! ) -> Result<usize, RpcTransportError> {
//!     let connection = transport.connect(target)?;
//!     transport.submit(connection, call)?;
//!     let deadline = Instant::now() + Duration::from_secs(5);
//!     while let Some(event) = transport.poll(Some(deadline))? {
//!         if let RpcTransportEvent::Reply(reply) = event {
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
//! - After the first calls no call allocates, and payloads are not copied except for [`OutgoingPayloadMemory::Copied`].

pub mod gss;
mod outgoing_call;
mod params;
mod reconnection;
mod replies_and_disconnects;
pub mod rpcrdma_framing;
pub mod synchronous_client;
pub mod tcp;
mod transport_error;
pub mod url;
#[cfg(feature = "verbs")]
#[allow(unsafe_code, reason = "libibverbs and librdmacm are called here, and nowhere else")]
pub mod verbs;

use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;

use url::UrlTransport;

pub use outgoing_call::{
    CallTag, CapturedCallChunkLayout, DdpEligibleArgument, MessageForm, OutgoingPayloadMemory,
    OutgoingRpcCall, ReplySizeLimits, RequestedCallForm, SubmittedCallForm,
};
pub use params::{
    ConnectOptions, ConnectTarget, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, RdmaFabric,
    RpcClientConnectionCounters, TransportCredits, TransportKind,
};
pub use reconnection::ReconnectionAttempts;
pub use replies_and_disconnects::{
    DisconnectReason, NonRpcServerProtocol, ReceivedMessageDiscardReason, ReplyWriteChunkReceivedData,
    ReverseCall, RpcTransportEvent, TransportReply,
};
pub use transport_error::{
    PermanentSubmitRefusal, RpcTransportError, RpcTransportErrorKind, SubmitBusyReason, SubmitError,
    TransportErrorResponsibility,
};

/// The number of a connection of a transport. Numbers are not reused, so that late data for a closed connection never
/// matches another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportConnectionId(pub u32);

/// The number of memory that a transport shares, so that payloads are sent from it in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredPayloadMemoryId(pub u32);

/// Creates the transport for a URL's scheme.
///
/// # Errors
/// Returns an error if the program was built without it.
pub fn open(transport: UrlTransport) -> Result<Box<dyn RpcTransport>, RpcTransportError> {
    match transport {
        UrlTransport::Tcp => Ok(Box::new(tcp::TcpTransport::new())),
        #[cfg(feature = "verbs")]
        UrlTransport::Rdma => Ok(Box::new(verbs::VerbsTransport::new())),
        #[cfg(not(feature = "verbs"))]
        UrlTransport::Rdma => {
            Err(RpcTransportError::at("RDMA", None, RpcTransportErrorKind::NotBuilt("verbs")))
        }
    }
}

/// Carries RPC messages over any number of connections to servers. See the [crate](self) for an example.
pub trait RpcTransport {
    /// Opens a connection, and waits at most [`ConnectOptions::timeout`] until it is established. Events of other
    /// connections are queued meanwhile.
    ///
    /// # Errors
    /// Returns an error with the server, the reason and the remedy.
    fn connect(&mut self, target: &ConnectTarget) -> Result<TransportConnectionId, RpcTransportError>;

    /// Returns the negotiated parameters. They outlive the connection; `None` if it never existed.
    fn params(&self, connection: TransportConnectionId) -> Option<&NegotiatedTransportParams>;

    /// Returns the credits of the forward direction. `None` if nothing limits them, as on TCP, or the connection is
    /// closed.
    fn credits(&self, connection: TransportConnectionId) -> Option<TransportCredits>;

    /// Returns the counters of the connection since it was opened.
    fn counts(&self, connection: TransportConnectionId) -> Option<&RpcClientConnectionCounters>;

    /// Shares memory with all connections, present and future, so that payloads in it need no copy. It stays shared,
    /// and alive, until the transport is dropped.
    ///
    /// # Errors
    /// Returns an error if memory cannot be registered, for example because the limit of locked memory is too low.
    fn share(&mut self, memory: &Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcTransportError>;

    /// Queues a Call. It is sent by the next [`poll`](Self::poll) or [`flush`](Self::flush) at the latest; until then a
    /// transport may batch. Data that the Call borrows may be reused on return.
    ///
    /// # Errors
    /// Returns [`SubmitError::Busy`] if nothing was queued, but a later event frees the resource, and
    /// [`SubmitError::Refused`] if this Call can never be sent on this connection.
    fn submit(
        &mut self,
        connection: TransportConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError>;

    /// Answers a Call of the reverse direction with a complete RPC message, without chunks (RFC 8167 section 5.2).
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`submit`](Self::submit), or if no such Call is pending.
    fn answer(
        &mut self,
        connection: TransportConnectionId,
        xid: Xid,
        message: &[u8],
    ) -> Result<(), SubmitError>;

    /// Sends queued data, as far as possible without waiting.
    fn flush(&mut self);

    /// Sends queued data, and returns the next event of any connection. Waits for it until the deadline; without a
    /// deadline it does not wait. Data that the event borrows is released by the next call.
    ///
    /// # Errors
    /// Returns an error if the whole transport is unusable, for example because its device is gone. The end of a single
    /// connection is an event.
    fn poll(&mut self, deadline: Option<Instant>)
    -> Result<Option<RpcTransportEvent<'_>>, RpcTransportError>;

    /// Closes a connection. Its only further event is one [`RpcTransportEvent::Disconnected`], which lists the Calls in
    /// flight.
    fn disconnect(&mut self, connection: TransportConnectionId);
}
