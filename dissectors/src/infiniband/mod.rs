//! The InfiniBand transport, which RoCE carries unchanged: packets, invariant CRC, and communication management.

mod bth;
pub mod cm;
pub(crate) mod headers;
pub mod icrc;
pub mod mad;
mod opcode;
pub(crate) mod packet;
mod queue_pair_and_packet_numbers;

use crate::field::registry::{FieldRegistry, describe_headers};

pub use bth::Bth;
pub use headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Grh, Ieth, ImmDt, ImmediateData, InfinibandQKey, Lrh, LrhLinkNextHeader,
    Msn, NakCode, Rdeth, Reth, Syndrome, XrcEth,
};
pub use opcode::{
    BthOpcode, ExtensionHeaderSet, ExtensionTransportHeader, OpcodeProperties, OpcodeService, PacketOperation,
    PacketPositionInMessage,
};
pub use packet::{INFINIBAND, InfinibandPacket, PacketError, PacketErrorKind, RdmaEncapsulation};
pub use queue_pair_and_packet_numbers::{PartitionKey, Psn, Qpn};

/// Adds the fields of packets to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; Lrh, Grh, Bth, Rdeth, Deth, Reth, AtomicEth, Aeth, AtomicAckEth, ImmDt, Ieth);
    describe_headers!(registry; XrcEth, Feth);
    packet::describe(registry);
}

/// Adds the fields of management datagrams to a registry.
pub(crate) fn describe_management(registry: &mut FieldRegistry) {
    use mad::MadHeader;
    describe_headers!(registry; MadHeader);
    cm::describe(registry);
}
