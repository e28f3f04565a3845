//! Faults of a server.

use std::fmt;

use nfsrdma_dissectors::rpc::AcceptStat;

use crate::transport_faults::MockTransportFault;

/// A fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockServerFault {
    /// The version of NFS.
    pub version: u32,
    /// The procedure, or the operation of a COMPOUND.
    pub operation: &'static str,
    /// The kind of the fault.
    pub kind: MockServerFaultKind,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockServerFaultKind {
    /// The Reply has another value in this field.
    WrongResult(MockFieldPath, MockFieldMutation),
    /// The Call is executed with another value of this argument.
    WrongArgument(MockFieldPath, MockFieldMutation),
    /// The Call is executed, but the Reply reports this error status.
    WrongStatus(u32),
    /// The Call is not executed; its operation asks to send it again later (NFS4ERR_DELAY, NFS3ERR_JUKEBOX).
    Delayed,
    /// The Call is executed, but RPC refuses it. RFC 5531 section 9.
    Refuses(AcceptStat),
    /// The files are wrong afterwards.
    WrongFiles(MockFileTreeFault),
    /// The transport of the Reply has a fault.
    WrongTransport(MockTransportFault),
}

/// Label of a field, after those of enclosing fields if necessary.
pub type MockFieldPath = &'static [&'static str];

/// A change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFieldMutation {
    /// Flips the lowest bit of a number, or of the first byte of text or data.
    Flipped,
    /// Flips the lowest bit of a number, or of the last byte of text or data.
    LastFlipped,
    /// Adds one.
    More,
    /// Subtracts one; zero stays.
    Less,
    /// Removes the last byte of data.
    Shorter,
    /// Removes an entry of a list.
    RemoveEntry,
    /// Duplicates an entry.
    DuplicateEntry,
    /// Adds an entry with another name.
    AddEntry,
}

/// A wrong state of the files after a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFileTreeFault {
    /// Nothing was done, but the Reply reports success.
    Nothing,
    /// The Call was executed twice, and the Reply is the second one.
    Twice,
    /// Removed names are back.
    KeepsNames,
    /// New names are missing.
    LosesNames,
}

impl fmt::Display for MockServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFSv{} {}: ", self.version, self.operation)?;
        match self.kind {
            MockServerFaultKind::WrongResult(field, change) => write!(f, "says {} {change}", field.join(".")),
            MockServerFaultKind::WrongArgument(field, change) => {
                write!(f, "takes {} {change}", field.join("."))
            }
            MockServerFaultKind::WrongStatus(status) => write!(f, "is done, and says status {status}"),
            MockServerFaultKind::Delayed => f.write_str("is not done, and is to be sent again later"),
            MockServerFaultKind::Refuses(stat) => write!(f, "is refused with {stat}"),
            MockServerFaultKind::WrongFiles(fault) => f.write_str(match fault {
                MockFileTreeFault::Nothing => "does nothing, and says it is done",
                MockFileTreeFault::Twice => "is done twice",
                MockFileTreeFault::KeepsNames => "leaves the old name",
                MockFileTreeFault::LosesNames => "does not keep the new name",
            }),
            MockServerFaultKind::WrongTransport(fault) => write!(f, "travels with {fault:?}"),
        }
    }
}

impl fmt::Display for MockFieldMutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flipped => "with another bit",
            Self::LastFlipped => "with another last byte",
            Self::More => "one higher",
            Self::Less => "one lower",
            Self::Shorter => "one byte shorter",
            Self::RemoveEntry => "without the first",
            Self::DuplicateEntry => "with the first twice",
            Self::AddEntry => "with one that is not there",
        })
    }
}
