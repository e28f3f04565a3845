//! What goes wrong: what, where, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no connection, or why a transport is of no more use. `Display` gives one line without a final newline.
#[derive(Debug)]
pub struct RpcTransportError {
    /// Where: the server as its user named it, or the local device.
    pub place: String,
    /// The address that was tried, where there is one.
    pub address: Option<SocketAddr>,
    /// What.
    pub kind: RpcTransportErrorKind,
}

/// What cannot be reached, or what failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RpcTransportErrorKind {
    /// The name has no address.
    Name(io::Error),
    /// Nothing listens there.
    Refused,
    /// The server's host answers, but does not take this connection: its reason.
    Rejected(String),
    /// No way leads there.
    NoRoute,
    /// No answer within this time.
    Timeout(Duration),
    /// The connection was broken off while it was set up.
    Reset,
    /// A library that is loaded at run time is not there, or cannot be loaded: its name, and the package that has it.
    Library(&'static str, &'static str),
    /// There is no RDMA device, or none of them leads to the server.
    NoDevice,
    /// The program may not: what.
    NotAllowed(&'static str),
    /// Memory cannot be registered: how many bytes, and why.
    Memory(u64, io::Error),
    /// Another error of the operating system: what was tried.
    System(&'static str, io::Error),
    /// The program was built without this transport: the feature it needs.
    NotBuilt(&'static str),
    /// A Call that could not be sent: this program made it, so the fault is its own.
    Submit(SubmitError),
}

/// Who is to blame, which the exit code of the program tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportBlame {
    /// The server or the transport cannot be reached: exit code 4.
    Unreachable,
    /// The program itself broke a rule of the protocol: exit code 6.
    Own,
}

impl RpcTransportError {
    /// An error at a server.
    pub fn at(name: &str, address: Option<SocketAddr>, kind: RpcTransportErrorKind) -> Self {
        Self { place: name.to_owned(), address, kind }
    }

    /// Who is to blame.
    pub fn blame(&self) -> TransportBlame {
        match self.kind {
            RpcTransportErrorKind::Submit(SubmitError::Refused(SubmitRefusal::Memory)) => {
                TransportBlame::Unreachable
            }
            RpcTransportErrorKind::Submit(SubmitError::Refused(_)) => TransportBlame::Own,
            _ => TransportBlame::Unreachable,
        }
    }
}

impl fmt::Display for RpcTransportError {
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

impl fmt::Display for RpcTransportErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "no address for this name: {error}; check the name"),
            Self::Refused => f.write_str("nothing listens there; check the port, and that the server runs"),
            Self::Rejected(why) => {
                write!(f, "the server rejects the connection: {why}; check the port, and the server's log")
            }
            Self::NoRoute => f.write_str("no route to this host; check the address and the network"),
            Self::Timeout(time) => write!(
                f,
                "no answer within {} s; check address, port and firewalls",
                time.as_secs_f64()
            ),
            Self::Reset => f.write_str("the connection was broken off; check the server's log"),
            Self::Library(library, package) => {
                let what = "is not there, or cannot be loaded";
                write!(f, "{library} {what}, which RDMA needs; install the package {package}")
            }
            Self::NoDevice => f.write_str(
                "no RDMA device leads there; see 'rdma link', and load the driver of one (rdma_rxe and siw need \
                 no hardware)",
            ),
            Self::NotAllowed(what) => write!(f, "not allowed: {what}; run as root, or give the program the right"),
            Self::Memory(bytes, error) => write!(
                f,
                "{bytes} bytes of memory cannot be registered: {error}; raise the limit of locked memory (ulimit -l)"
            ),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::NotBuilt(feature) => {
                write!(f, "this program was built without it; build it with the feature '{feature}'")
            }
            Self::Submit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RpcTransportError {}

/// Why a Call was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// Not now.
    Busy(SubmitBusyReason),
    /// Not ever, on this connection.
    Refused(SubmitRefusal),
}

/// What there is too little of. A later event makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitBusyReason {
    /// No credit is left: a Reply gives one.
    Credits,
    /// No registered memory is left: a Reply gives some back.
    Memory,
    /// Too much waits to be sent already.
    Queue,
}

/// Why a Call can never be sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitRefusal {
    /// The connection is closed, or there never was one of this number.
    Closed,
    /// A Call in flight has this XID.
    XidInFlight,
    /// The message does not begin with the XID of the Call.
    Xid,
    /// A payload's position is not where a payload can be: outside the message, out of order, not a multiple of four.
    Position,
    /// More payloads, or more DDP-eligible results, than a Call may have.
    TooMany,
    /// The message, or one of its chunks, is longer than the transport can carry, or an answer than its inline threshold.
    TooLong,
    /// No memory can be registered for its chunks, and no Call is in flight that would give some back.
    Memory,
    /// The stored payload is not in shared memory.
    Store,
    /// There is no Call of the reverse direction to be answered with this XID.
    NoCall,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy(SubmitBusyReason::Credits) => "no credit is left; wait for a Reply",
            Self::Busy(SubmitBusyReason::Memory) => "no registered memory is left; wait for a Reply",
            Self::Busy(SubmitBusyReason::Queue) => "too much waits to be sent; wait for a Reply",
            Self::Refused(SubmitRefusal::Closed) => "the connection is closed; connect again",
            Self::Refused(SubmitRefusal::XidInFlight) => "a Call in flight has this XID; take another",
            Self::Refused(SubmitRefusal::Xid) => "the message does not begin with the XID of the Call",
            Self::Refused(SubmitRefusal::Position) => "the position of a payload is not in the message",
            Self::Refused(SubmitRefusal::TooMany) => "more payloads than a Call may have",
            Self::Refused(SubmitRefusal::TooLong) => "longer than the transport can carry",
            Self::Refused(SubmitRefusal::Memory) => {
                "no memory can be registered for its chunks; raise the limit of locked memory (ulimit -l)"
            }
            Self::Refused(SubmitRefusal::Store) => "the payload is not in shared memory",
            Self::Refused(SubmitRefusal::NoCall) => "no Call of the reverse direction waits for this answer",
        })
    }
}

impl std::error::Error for SubmitError {}

impl From<SubmitError> for RpcTransportError {
    fn from(error: SubmitError) -> Self {
        Self { place: String::new(), address: None, kind: RpcTransportErrorKind::Submit(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_where_and_what_to_do_in_one_line() {
        let address = "192.0.2.1:20049".parse().ok();
        let error =
            RpcTransportError::at("nas", address, RpcTransportErrorKind::Timeout(Duration::from_secs(5)));
        assert_eq!(
            error.to_string(),
            "nas (192.0.2.1:20049): no answer within 5 s; check address, port and firewalls"
        );
        assert_eq!(error.blame(), TransportBlame::Unreachable);
    }

    #[test]
    fn a_call_that_can_never_be_sent_is_a_fault_of_our_own() {
        assert_eq!(
            RpcTransportError::from(SubmitError::Refused(SubmitRefusal::Xid)).blame(),
            TransportBlame::Own
        );
        let memory = RpcTransportError::from(SubmitError::Refused(SubmitRefusal::Memory));
        assert_eq!(memory.blame(), TransportBlame::Unreachable, "the limit of this machine");
        assert!(memory.to_string().contains("ulimit -l"), "{memory}");
        assert_eq!(
            RpcTransportError::from(SubmitError::Busy(SubmitBusyReason::Credits)).blame(),
            TransportBlame::Unreachable
        );
    }
}
