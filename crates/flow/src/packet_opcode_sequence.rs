//! Order of the packets of a message on a reliable connection: First, Middle, Last, or Only; and the length of RDMA
//! Writes. InfiniBand Architecture Specification volume 1, sections 9.4.1, 9.4.3 and 9.7.4.1.
//!
//! Only packets with consecutive PSNs are compared, so that lost, repeated and reordered packets need no treatment.

use nfsrdma_dissectors::infiniband::{
    self, BthOpcode, InfinibandPacket, PacketOperation, PacketPositionInMessage, Psn,
};

/// Deviation of a packet from the packet with the PSN before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOpcodeOrLengthViolation {
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
    /// An RDMA Write does not have as many bytes as its header announces. Section 9.4.3.
    WriteLength {
        /// DMA Length of its RDMA Extended Transport Header in bytes.
        announced: u32,
        /// Length of its packets in bytes, up to this one.
        length: u64,
    },
}

/// An RDMA Write whose packets were all captured so far.
#[derive(Clone, Copy, Debug)]
struct RdmaWriteInProgress {
    announced: u32,
    length: u64,
}

/// A packet with one PSN.
#[derive(Clone, Copy, Debug)]
struct PrecedingPacket {
    psn: Psn,
    opcode: BthOpcode,
    operation: PacketOperation,
    position: PacketPositionInMessage,
    length: u32,
}

/// Last packets that a side sent: as a request, and as a response.
#[derive(Debug, Default)]
pub(super) struct BthOpcodeSequenceChecker {
    request: Option<PrecedingPacket>,
    response: Option<PrecedingPacket>,
    write: Option<RdmaWriteInProgress>,
}

impl BthOpcodeSequenceChecker {
    /// Returns the deviation of a request or a Read response.
    pub(super) fn check(&mut self, packet: &InfinibandPacket<'_>) -> Option<PacketOpcodeOrLengthViolation> {
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
        let current = PrecedingPacket { psn, opcode: packet.bth.opcode, operation, position, length };
        let preceding =
            std::mem::replace(last, has_one_psn.then_some(current)).filter(|preceding| preceding.psn.next() == psn);
        let write_fault = if is_response { None } else { self.check_write(packet, preceding.is_some()) };
        let Some(preceding) = preceding else { return write_fault };
        let continues = !position.begins();
        let is_open = !preceding.position.ends();
        // The responder of a repeated request begins anew anywhere.
        let begins_anew = is_response && position.begins();
        let is_possible = continues == is_open && (!continues || preceding.operation == operation);
        if !is_possible && !begins_anew {
            return Some(PacketOpcodeOrLengthViolation::Opcode { before: preceding.opcode, opcode: packet.bth.opcode });
        }
        let has_right_length =
            !continues || if position.ends() { length <= preceding.length } else { length == preceding.length };
        let length_fault =
            (!has_right_length).then_some(PacketOpcodeOrLengthViolation::Length { before: preceding.length, length });
        length_fault.or(write_fault)
    }

    /// Returns the deviation of the length of an RDMA Write from its header, at its last packet or at the first one
    /// beyond the announced length.
    fn check_write(&mut self, packet: &InfinibandPacket<'_>, follows: bool) -> Option<PacketOpcodeOrLengthViolation> {
        let infiniband::OpcodeProperties { operation, position, .. } = *packet.properties;
        let previous_write = self.write.take();
        if operation != PacketOperation::Write {
            return None;
        }
        let progress = match position.begins() {
            true => RdmaWriteInProgress { announced: packet.reth?.dmalen, length: 0 },
            false => previous_write.filter(|_| follows)?,
        };
        let write = RdmaWriteInProgress { length: progress.length + packet.payload.length as u64, ..progress };
        let RdmaWriteInProgress { announced, length } = write;
        let is_right = if position.ends() { length == announced.into() } else { length <= announced.into() };
        if !is_right {
            return Some(PacketOpcodeOrLengthViolation::WriteLength { announced, length });
        }
        self.write = (!position.ends()).then_some(write);
        None
    }
}
