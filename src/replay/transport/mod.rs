//! What carries RPC messages to a server: RDMA, TCP, or a server inside the program.
//!
//! The trait speaks of RPC messages with their DDP-eligible parts, not of packets and not of memory registrations. Whoever
//! submits a [`TransportCall`] says what it is: the message without the data that may travel beside it, that data with its
//! positions, and what the Reply may need. The transport makes of it what it must be there: a record on TCP; on
//! RDMA a Send with what fits inline, Read, Write and Reply chunks, or a Long Call. What comes back is lent in an
//! [`TransportEvent`], where it lies, until the next call of [`RpcTransport::poll`].
//!
//! One value drives any number of connections, from one thread: with RDMA they share completion queue, memory and
//! event channel, with TCP one wait. [`RpcTransport::submit`] never waits; it says what there is too little of. Nothing
//! waits but [`RpcTransport::connect`] and [`RpcTransport::poll`].
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use nfsrdma_inspect::replay::transport::{
//!     ConnectTarget, RpcTransport, RpcTransportError, TransportCall, TransportEvent,
//! };
//!
//! fn one_call(
//!     transport: &mut dyn RpcTransport,
//!     target: &ConnectTarget,
//!     call: &TransportCall<'_>,
//! ) -> Result<usize, RpcTransportError> {
//!     let connection = transport.connect(target)?;
//!     transport.submit(connection, call)?;
//!     let deadline = Instant::now() + Duration::from_secs(5);
//!     while let Some(event) = transport.poll(Some(deadline))? {
//!         if let TransportEvent::Reply(reply) = event {
//!             return Ok(reply.message.len());
//!         }
//!     }
//!     Ok(0)
//! }
//! ```
//!
//! # What every transport keeps to
//! - Credits (RFC 8166 section 3.3.1, RFC 8167 section 4.1): one Call until the first Reply, then as many as the
//!   lower of what was asked for and what was granted last. A grant of zero counts as one. Credits of the two
//!   directions are apart.
//! - Inline thresholds (RFC 8166 section 3.3.2, RFC 8797 section 4.2): no Send is longer.
//! - What comes from a server is hostile: lengths, counts, chunks and XIDs are checked before they are used. A Reply
//!   whose header is wrong is discarded (RFC 8166 section 4.5), which an event tells; its Call stays in flight.
//! - Memory that a Call offers stays its own until its Reply has come or the connection is gone, whether or not
//!   anyone still waits for it (RFC 8166 section 4.4.1).
//! - No allocation for a call once the first calls have made room, and no copy of a payload but where
//!   [`PayloadSource::Copied`] asks for one.

mod call;
mod error;
mod event;
pub mod framing;
pub mod mock;
mod params;
pub mod tcp;
#[cfg(feature = "verbs")]
#[allow(unsafe_code, reason = "libibverbs and librdmacm are called here, and nowhere else")]
pub mod verbs;

use std::sync::Arc;
use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;

use super::url::UrlTransport;

pub use call::{
    CallTag, CapturedCallForm, ExpectedReply, MessageForm, PayloadSource, RequestedCallForm, SubmittedCall,
    TransportCall, TransportPayload,
};
pub use error::{
    RpcTransportError, RpcTransportErrorKind, SubmitBusyReason, SubmitError, SubmitRefusal, TransportBlame,
};
pub use event::{
    DiscardReason, DisconnectReason, ForeignProtocol, ReplyPayloads, ReverseCall, TransportEvent,
    TransportReply,
};
pub use params::{
    ConnectOptions, ConnectTarget, RdmaFabric, RdmaTransportParams, TransportCounts, TransportCredits,
    TransportKind, TransportParams,
};

/// One connection of a transport. Numbers are not used again, so that what is late for a connection that is gone
/// meets no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// Memory that a transport shares, so that payloads travel from where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedMemoryId(pub u32);

/// The transport that a URL names.
///
/// # Errors
/// Where the program has none, or what it needs is not there.
pub fn open(carrier: UrlTransport) -> Result<Box<dyn RpcTransport>, RpcTransportError> {
    match carrier {
        UrlTransport::Tcp => Ok(Box::new(tcp::TcpTransport::new())),
        #[cfg(feature = "verbs")]
        UrlTransport::Rdma => Ok(Box::new(verbs::VerbsTransport::new())),
        #[cfg(not(feature = "verbs"))]
        UrlTransport::Rdma => {
            Err(RpcTransportError::at("RDMA", None, RpcTransportErrorKind::NotBuilt("verbs")))
        }
    }
}

/// Carries RPC messages over any number of connections to servers. See the [room](self) for how it is used.
pub trait RpcTransport {
    /// Opens a connection, and waits until it stands, [`ConnectOptions::timeout`] at most. Other connections rest meanwhile;
    /// what comes for them is kept.
    ///
    /// # Errors
    /// What cannot be reached, where, and what to do.
    fn connect(&mut self, target: &ConnectTarget) -> Result<ConnectionId, RpcTransportError>;

    /// What both sides agreed on. `None` for a connection that there never was; that of a closed one stays.
    fn terms(&self, connection: ConnectionId) -> Option<&TransportParams>;

    /// How many Calls may be in flight, and are. `None` where nothing limits them, as on TCP, and where the connection
    /// is closed.
    fn credits(&self, connection: ConnectionId) -> Option<TransportCredits>;

    /// What was counted on the connection since it was opened.
    fn counts(&self, connection: ConnectionId) -> Option<&TransportCounts>;

    /// Shares memory with all connections, present and future, so that payloads in it need no copy. It stays shared,
    /// and alive, until the transport is dropped.
    ///
    /// # Errors
    /// Where memory cannot be registered, as when the limit of locked memory is too low.
    fn share(&mut self, memory: &Arc<[u8]>) -> Result<SharedMemoryId, RpcTransportError>;

    /// Takes a Call to be sent. It is on its way at the next [`poll`](Self::poll) or [`flush`](Self::flush) at the
    /// latest; until then a transport may gather what is sent together. All that the Call borrows may be used
    /// again when this returns.
    ///
    /// # Errors
    /// [`SubmitError::Busy`]: nothing was taken, and a later event makes room. [`SubmitError::Refused`]: this Call can
    /// never be sent on this connection.
    fn submit(
        &mut self,
        connection: ConnectionId,
        call: &TransportCall<'_>,
    ) -> Result<SubmittedCall, SubmitError>;

    /// Answers a Call of the reverse direction with a whole RPC message, without chunks (RFC 8167 section 5.2).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    fn answer(&mut self, connection: ConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError>;

    /// Sends what was gathered, as far as that is possible without waiting.
    fn flush(&mut self);

    /// Sends what was gathered, and gives what happened next on any connection. Waits for it until the deadline;
    /// without one it looks and does not wait. What the event borrows is given back at the next call.
    ///
    /// # Errors
    /// When the transport as a whole is of no more use, as when its device is gone. What ends one connection is an
    /// event.
    fn poll(&mut self, deadline: Option<Instant>) -> Result<Option<TransportEvent<'_>>, RpcTransportError>;

    /// Closes a connection. Nothing more comes from it but one [`TransportEvent::Disconnected`], which names what was in
    /// flight.
    fn disconnect(&mut self, connection: ConnectionId);
}
