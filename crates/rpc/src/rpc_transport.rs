//! The interface of all transports of RPC messages.

use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;

use crate::client_transport_events::RpcClientTransportEvent;
use crate::outgoing_call::{OutgoingRpcCall, RegisteredPayloadMemoryId, SubmittedCallForm};
use crate::params::{
    ConnectTarget, NegotiatedTransportParams, RpcClientConnectionCounters, RpcClientConnectionId, TransportCredits,
};
use crate::transport_error::{RpcClientTransportError, SubmitError};

/// Carries RPC messages over any number of connections to servers. See the [crate] for an example.
pub trait RpcClientTransport {
    /// Opens a connection, and waits at most [`ConnectOptions::timeout`](crate::ConnectOptions::timeout) until it is
    /// established. Events of other connections are queued meanwhile.
    ///
    /// # Errors
    /// Returns an error with the server, the reason and the remedy.
    fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError>;

    /// Returns the negotiated parameters. They outlive the connection; `None` if it never existed.
    fn params(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams>;

    /// Returns the credits of the forward direction. `None` if nothing limits them, as on TCP, or the connection is
    /// closed.
    fn credits(&self, connection: RpcClientConnectionId) -> Option<TransportCredits>;

    /// Returns the counters of the connection since it was opened.
    fn counts(&self, connection: RpcClientConnectionId) -> Option<&RpcClientConnectionCounters>;

    /// Shares memory with all connections, present and future, so that payloads in it need no copy. It stays shared,
    /// and alive, until the transport is dropped.
    ///
    /// # Errors
    /// Returns an error if memory cannot be registered, for example because the limit of locked memory is too low.
    fn share(&mut self, memory: &Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcClientTransportError>;

    /// Queues a Call. It is sent by the next [`poll`](Self::poll) or [`flush`](Self::flush) at the latest; until then a
    /// transport may batch. Data that the Call borrows may be reused on return.
    ///
    /// # Errors
    /// Returns [`SubmitError::Busy`] if nothing was queued, but a later event frees the resource, and
    /// [`SubmitError::Refused`] if this Call can never be sent on this connection.
    fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError>;

    /// Answers a Call of the reverse direction with a complete RPC message, without chunks (RFC 8167 section 5.2).
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`submit`](Self::submit), or if no such Call is pending.
    fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError>;

    /// Sends queued data, as far as possible without waiting.
    fn flush(&mut self);

    /// Sends queued data, and returns the next event of any connection. Waits for it until the deadline; without a
    /// deadline it does not wait. Data that the event borrows is released by the next call.
    ///
    /// # Errors
    /// Returns an error if the whole transport is unusable, for example because its device is gone. The end of a single
    /// connection is an event.
    fn poll(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError>;

    /// Closes a connection. Its only further event is one [`RpcClientTransportEvent::Disconnected`], which lists the
    /// Calls in flight.
    fn disconnect(&mut self, connection: RpcClientConnectionId);
}
