//! Order of the packets of a message on a reliable connection: First, Middle, Last, or Only. InfiniBand Architecture
//! Specification volume 1, sections 9.4.1 and 9.7.4.1.
//!
//! Only packets with consecutive PSNs are compared, so that lost, repeated and reordered packets need no treatment.

use crate::infiniband::{BthOpcode, InfinibandPacket, PacketOperation, PacketPosition, Psn};

/// Deviation of a packet from the packet with the PSN before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrderFault {
    /// The opcodes cannot follow each other.
    Opcode {
        /// Opcode of the packet before.
        before: BthOpcode,
        /// Opcode of the packet.
        opcode: BthOpcode,
    },
    /// All packets of a message except its last have the same length, and the last is not longer.
    Length {
        /// Length of the packet before in bytes.
        before: u32,
        /// Length of the packet in bytes.
        length: u32,
    },
}

/// A packet with one PSN.
#[derive(Clone, Copy, Debug)]
struct PrecedingPacket {
    psn: Psn,
    opcode: BthOpcode,
    operation: PacketOperation,
    position: PacketPosition,
    length: u32,
}

/// Last packets that a side sent: as a request, and as a response.
#[derive(Debug, Default)]
pub(super) struct PacketOrder {
    request: Option<PrecedingPacket>,
    response: Option<PrecedingPacket>,
}

impl PacketOrder {
    /// Returns the deviation of a request or a Read response.
    pub(super) fn check(&mut self, packet: &InfinibandPacket<'_>) -> Option<PacketOrderFault> {
        let operation = packet.properties.operation;
        let is_response = operation == PacketOperation::ReadResponse;
        let last = match operation {
            PacketOperation::ReadResponse => &mut self.response,
            PacketOperation::Acknowledge | PacketOperation::AtomicAcknowledge | PacketOperation::Cnp => {
                return None;
            }
            _ => &mut self.request,
        };
        let (psn, position) = (packet.bth.psn, packet.properties.position);
        let length = packet.payload.length as u32;
        // An RDMA Read request uses the PSNs of its responses, whose number may be unknown.
        let has_one_psn = operation != PacketOperation::ReadRequest;
        let this = PrecedingPacket { psn, opcode: packet.bth.opcode, operation, position, length };
        let before = std::mem::replace(last, has_one_psn.then_some(this))?;
        if before.psn.next() != psn {
            return None;
        }
        let continues = !position.begins();
        let is_open = !before.position.ends();
        // The responder of a repeated request begins anew anywhere.
        let begins_anew = is_response && position.begins();
        let is_possible = continues == is_open && (!continues || before.operation == operation);
        if !is_possible && !begins_anew {
            return Some(PacketOrderFault::Opcode { before: before.opcode, opcode: packet.bth.opcode });
        }
        let has_right_length =
            !continues || if position.ends() { length <= before.length } else { length == before.length };
        (!has_right_length).then_some(PacketOrderFault::Length { before: before.length, length })
    }
}
