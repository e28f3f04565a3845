//! Transport errors: the reason, the place, and the remedy.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection attempt that failed, or a transport that is unusable. `Display` gives one line without a final newline.
#[derive(Debug)]
pub struct RpcClientTransportError {
    /// The server as the user named it, or the local device.
    pub place: String,
    /// The address of the attempt, if there is one.
    pub address: Option<SocketAddr>,
    /// The reason.
    pub kind: RpcClientTransportErrorKind,
}

/// The reason of a transport error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpcClientTransportErrorKind {
    /// The name cannot be resolved.
    #[error("cannot resolve host name: {0}; check the name")]
    Name(io::Error),
    /// Connection refused: no process listens on the port.
    #[error("connection refused; check the port and that the server is running")]
    Refused,
    /// The server's host rejects this connection: its reason.
    #[error("connection rejected by the server: {0}; check the port and the server's log")]
    Rejected(String),
    /// There is no route to the host.
    #[error("no route to host; check the address and the network")]
    NoRoute,
    /// No answer within this time.
    #[error("connection timed out after {} s; check address, port and firewalls", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection was reset during its setup.
    #[error("connection reset by peer; check the server's log")]
    Reset,
    /// A library that is loaded at run time is missing, or cannot be loaded: its name, and its package.
    #[error("{0} cannot be loaded, which RDMA needs; install the package {1}")]
    Library(&'static str, &'static str),
    /// There is no RDMA device, or none of them reaches the server.
    #[error(
        "no RDMA device for this route; see 'rdma link', and load the driver of one (rdma_rxe and siw need no \
         hardware)"
    )]
    NoDevice,
    /// The program lacks the permission for this operation.
    #[error("operation not permitted: {0}; run as root, or grant the capability")]
    NotAllowed(&'static str),
    /// Memory cannot be registered: its length in bytes, and the cause.
    #[error("cannot register {0} bytes of memory: {1}; raise the limit of locked memory (ulimit -l)")]
    Memory(u64, io::Error),
    /// Another error of the operating system: the operation and the cause.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The program was built without this transport: the feature that it needs.
    #[error("not built in; build with the feature '{0}'")]
    NotBuilt(&'static str),
    /// A Call that could not be submitted.
    #[error("{0}")]
    Submit(SubmitError),
}

/// The party at fault, which determines the exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportErrorResponsibility {
    /// The server or the transport is unreachable, or the server does not serve the call: exit code 4.
    Unreachable,
    /// The server violated the protocol: exit code 1.
    Server,
    /// The program itself violated the protocol: exit code 6.
    Program,
}

impl RpcClientTransportError {
    /// Creates an error of a server or device.
    pub fn at(name: &str, address: Option<SocketAddr>, kind: RpcClientTransportErrorKind) -> Self {
        Self { place: name.to_owned(), address, kind }
    }

    /// Returns the party at fault.
    pub fn blame(&self) -> TransportErrorResponsibility {
        match self.kind {
            RpcClientTransportErrorKind::Submit(SubmitError::Refused(reason))
                if reason != PermanentSubmitRefusal::Memory =>
            {
                TransportErrorResponsibility::Program
            }
            _ => TransportErrorResponsibility::Unreachable,
        }
    }
}

impl fmt::Display for RpcClientTransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            f.write_str(&self.place)?;
            if let Some(address) = self.address {
                write!(f, " ({address})")?;
            }
            f.write_str(": ")?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for RpcClientTransportError {}

/// The reason that a Call was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Retry later: the resource that is exhausted.
    #[error("{0}; wait for a reply")]
    Busy(SubmitBusyReason),
    /// Never possible on this connection.
    #[error("{0}")]
    Refused(PermanentSubmitRefusal),
}

/// An exhausted resource, which a later event frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitBusyReason {
    /// No credit is left: a Reply grants one.
    #[error("no credit is left")]
    Credits,
    /// No registered memory is left: a Reply releases some.
    #[error("no registered memory is left")]
    Memory,
    /// The send queue is full.
    #[error("the send queue is full")]
    Queue,
}

/// The reason that a Call can never be sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermanentSubmitRefusal {
    /// The connection is closed, or never existed.
    #[error("the connection is closed; connect again")]
    Closed,
    /// A Call in flight has this XID.
    #[error("a call in flight has this XID; take another")]
    XidInFlight,
    /// The message does not begin with the XID of the Call.
    #[error("the message does not begin with the XID of the call")]
    Xid,
    /// The position of a payload is outside the message, out of order, or not a multiple of four.
    #[error("the position of a payload is not in the message")]
    Position,
    /// More payloads, or more DDP-eligible results, than the maximum.
    #[error("more payloads than a call may have")]
    TooMany,
    /// The message or one of its chunks exceeds the maximum of the transport, or an answer exceeds its inline
    /// threshold.
    #[error("longer than the transport can carry")]
    TooLong,
    /// No memory can be registered for its chunks, and no Call in flight would release any.
    #[error("no memory can be registered for its chunks; raise the limit of locked memory (ulimit -l)")]
    Memory,
    /// The stored payload is not in shared memory.
    #[error("the payload is not in shared memory")]
    UnknownSharedMemory,
    /// No Call of the reverse direction with this XID is pending.
    #[error("no call of the reverse direction waits for this answer")]
    NoCall,
}

impl From<SubmitError> for RpcClientTransportError {
    fn from(error: SubmitError) -> Self {
        Self { place: String::new(), address: None, kind: RpcClientTransportErrorKind::Submit(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_place_cause_and_remedy_in_one_line() {
        let address = "192.0.2.1:20049".parse().ok();
        let error =
            RpcClientTransportError::at("nas", address, RpcClientTransportErrorKind::Timeout(Duration::from_secs(5)));
        assert_eq!(
            error.to_string(),
            "nas (192.0.2.1:20049): connection timed out after 5 s; check address, port and firewalls"
        );
        assert_eq!(error.blame(), TransportErrorResponsibility::Unreachable);
    }

    #[test]
    fn a_call_that_can_never_be_sent_is_a_fault_of_our_own() {
        assert_eq!(
            RpcClientTransportError::from(SubmitError::Refused(PermanentSubmitRefusal::Xid)).blame(),
            TransportErrorResponsibility::Program
        );
        let memory = RpcClientTransportError::from(SubmitError::Refused(PermanentSubmitRefusal::Memory));
        assert_eq!(memory.blame(), TransportErrorResponsibility::Unreachable, "the limit of this machine");
        assert!(memory.to_string().contains("ulimit -l"), "{memory}");
        assert_eq!(
            RpcClientTransportError::from(SubmitError::Busy(SubmitBusyReason::Credits)).blame(),
            TransportErrorResponsibility::Unreachable
        );
    }
}
