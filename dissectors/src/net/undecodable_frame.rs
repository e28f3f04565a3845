//! Reasons that a frame has no decodable payload.

use std::fmt;

use super::ip::IpProtocol;
use super::link_headers::{ErfType, EtherType, LoopbackAddressFamily};
use crate::captured_frame::{CapturedSlice, LinkType};
use crate::infiniband::packet::PacketError;

/// Reason that a frame has no decodable payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndecodableFrameReason {
    /// Unsupported link type.
    LinkType(LinkType),
    /// Unsupported network protocol, such as ARP; below 0x0600 the length of an IEEE 802.3 frame.
    EtherType(EtherType),
    /// Unsupported IP protocol, such as ICMP.
    IpProtocol(IpProtocol),
    /// Unsupported ERF record type, such as flow control of an InfiniBand link.
    ErfRecord(ErfType),
    /// Unsupported address family of a loopback frame.
    Family(LoopbackAddressFamily),
    /// The capture ends within the header at this position.
    Cut {
        /// Position in the frame.
        at: usize,
    },
    /// A malformed header.
    Malformed {
        /// Kind of the defect.
        what: NetworkHeaderDefect,
        /// Position in the frame.
        at: usize,
    },
    /// A malformed packet of the InfiniBand transport.
    Infiniband(PacketError),
}

/// Kind of a header defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkHeaderDefect {
    /// Neither version 4 nor 6, or not the version announced by the layer below.
    IpVersion,
    /// A header length below 20 bytes or beyond the datagram.
    IpHeaderLength,
    /// An extension header beyond the datagram, or in an invalid position.
    IpExtension,
    /// A length below 8 or beyond the datagram.
    UdpLength,
    /// A header length below 20 bytes or beyond the datagram.
    TcpHeaderLength,
    /// A link version that is not 0.
    LrhVersion,
    /// A packet length shorter than the headers.
    LrhLength,
    /// A version that is not 6.
    GrhVersion,
    /// The next header is not the Base Transport Header.
    GrhNextHeader,
    /// A version of GRE that is neither 0 nor 1.
    GreVersion,
    /// The GRE header extends beyond the datagram.
    GreHeader,
    /// The version does not match the GRE protocol type.
    ErspanVersion,
    /// A frame type that is neither Ethernet nor IP.
    ErspanFrameType,
    /// The ERSPAN header extends beyond the datagram.
    ErspanHeader,
    /// The label stack extends beyond the frame.
    MplsStack,
    /// Tunnels are nested too deeply.
    TunnelDepth,
}

impl fmt::Display for NetworkHeaderDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IpVersion => "IP version",
            Self::IpHeaderLength => "IP header length",
            Self::IpExtension => "IPv6 extension header",
            Self::UdpLength => "UDP length",
            Self::TcpHeaderLength => "TCP header length",
            Self::LrhVersion => "LRH version",
            Self::LrhLength => "LRH packet length",
            Self::GrhVersion => "GRH version",
            Self::GrhNextHeader => "GRH next header",
            Self::GreVersion => "GRE version",
            Self::GreHeader => "GRE header length",
            Self::ErspanVersion => "ERSPAN version",
            Self::ErspanFrameType => "ERSPAN frame type",
            Self::ErspanHeader => "ERSPAN header length",
            Self::MplsStack => "MPLS label stack",
            Self::TunnelDepth => "nesting of tunnels",
        })
    }
}

impl fmt::Display for UndecodableFrameReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(link) => write!(f, "link type {} is not known here", link.0),
            Self::EtherType(ether_type) => write!(f, "ether type {ether_type}"),
            Self::IpProtocol(protocol) => write!(f, "IP protocol {protocol}"),
            Self::ErfRecord(record) => write!(f, "ERF record type {record}"),
            Self::Family(family) => write!(f, "address family {family}"),
            Self::Cut { at } => write!(f, "the capture ends within the header at byte {at}"),
            Self::Malformed { what, at } => write!(f, "bad {what} at byte {at}"),
            Self::Infiniband(error) => error.fmt(f),
        }
    }
}

impl UndecodableFrameReason {
    /// Returns the defect of an incomplete header: malformed if the enclosing length is below `length` bytes, otherwise
    /// cut.
    pub(super) fn incomplete(slice: CapturedSlice<'_>, length: usize, defect: NetworkHeaderDefect) -> Self {
        if slice.length < length { Self::Malformed { what: defect, at: slice.at } } else { Self::Cut { at: slice.at } }
    }
}
