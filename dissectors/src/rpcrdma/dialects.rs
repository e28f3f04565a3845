//! Dialects of RPC-over-RDMA: the four header formats since 2003.

use std::fmt;

use super::{header, version2};

/// A dialect of RPC-over-RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Header with a single chunk list, without credits. NFS over RDMA (SIGCOMM 2003) section 4.4.
    Prototype,
    /// Version 1 with RDMA_MSGP, RDMA_DONE or Read lists in Replies. RFC 5666 section 4.2.
    Rfc5666,
    /// Version 1 without them. RFC 8166 section 4.2.
    Rfc8166,
    /// Version 2. draft-ietf-nfsv4-rpcrdma-version-two section 6.
    Version2,
}

impl Dialect {
    /// All dialects, oldest first.
    pub const ALL: [Self; 4] = [Self::Prototype, Self::Rfc5666, Self::Rfc8166, Self::Version2];

    /// Returns the name in output and options.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Prototype => "prototype",
            Self::Rfc5666 => "rfc5666",
            Self::Rfc8166 => "rfc8166",
            Self::Version2 => "v2",
        }
    }

    /// Returns `true` if the header is that of version 1, which RFC 5666 and RFC 8166 share.
    pub const fn is_version1(self) -> bool {
        matches!(self, Self::Rfc5666 | Self::Rfc8166)
    }

    /// Returns the dialect of a message with this version in its header, on a connection of the dialect
    /// `connection_dialect`.
    pub fn from_version(version: u32, connection_dialect: Option<Self>) -> Self {
        match (connection_dialect, version) {
            // The paper does not number its version.
            (Some(Self::Prototype), _) => Self::Prototype,
            (_, version2::VERSION) => Self::Version2,
            (Some(dialect), header::VERSION) if dialect.is_version1() => dialect,
            (Some(Self::Version2), version) if version != header::VERSION => Self::Version2,
            _ => Self::Rfc8166,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}
