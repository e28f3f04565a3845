//! Opcodes and headers of RDMAP messages. RFC 5040 section 4; RFC 7306.

use crate::infiniband::headers::ImmediateData;
use crate::iwarp::ddp::DdpQueueNumber;
use crate::memory_handle::Handle;

crate::named! {
    /// RDMAP opcode, 4 bits. RFC 5040 section 4.1; RFC 7306 section 10.
    pub struct RdmapOpcode(u8) {
        WRITE = 0x0 "RDMA Write",
        READ_REQUEST = 0x1 "RDMA Read Request",
        READ_RESPONSE = 0x2 "RDMA Read Response",
        SEND = 0x3 "Send",
        SEND_INVALIDATE = 0x4 "Send with Invalidate",
        SEND_EVENT = 0x5 "Send with SE",
        SEND_EVENT_INVALIDATE = 0x6 "Send with SE and Invalidate",
        TERMINATE = 0x7 "Terminate",
        IMMEDIATE = 0x8 "Immediate Data",
        IMMEDIATE_EVENT = 0x9 "Immediate Data with SE",
        ATOMIC_REQUEST = 0xa "Atomic Request",
        ATOMIC_RESPONSE = 0xb "Atomic Response",
    }

    /// Operation of an Atomic Request. RFC 7306 section 5.1.
    pub struct RdmapAtomicOpcode(u8) {
        FETCH_ADD = 0 "FetchAdd",
        COMPARE_SWAP = 2 "CmpSwap",
    }
}

crate::header! {
    /// RDMAP control field: the byte after the DDP control field. RFC 5040 section 4.1.
    pub struct RdmapControl [1] "iwarp_rdma.control_field" {
        /// RV: version of RDMAP; 1, or 0 in the RDMA Consortium's specification.
        0..2 version: u8 => "iwarp_rdma.version",
        /// Reserved.
        2..4 reserved: u8 => "iwarp_rdma.rsv",
        /// Message type.
        4..8 opcode: RdmapOpcode => "iwarp_rdma.opcode",
    }

    /// Invalidate STag: the field after the control bytes of an untagged segment of a Send with Invalidate. RFC 5040
    /// section 4.1.
    pub struct RdmapInvalidateStag [4] "iwarp_rdma.invalidate" {
        /// Memory to invalidate.
        0..32 stag: Handle => "iwarp_rdma.inval_stag",
    }

    /// Reserved field after the control bytes of all other untagged segments. RFC 5040 section 4.1.
    pub struct RdmapUntaggedReservedField [4] "iwarp_rdma.not_invalidate" {
        /// Reserved.
        0..32 reserved: u32 => "iwarp_rdma.reserved",
    }

    /// RDMA Read Request Header. RFC 5040 section 4.4.
    pub struct RdmapReadRequestHeader [28] "iwarp_rdma.rr" {
        /// Memory of the sender that receives the response.
        0..32 sink_stag: Handle => "iwarp_rdma.sinkstag",
        /// Offset in the sender's memory.
        32..96 sink_offset: u64 => "iwarp_rdma.sinkto",
        /// Number of bytes requested.
        96..128 length: u32 => "iwarp_rdma.rdmardsz",
        /// Memory of the receiver that is read.
        128..160 source_stag: Handle => "iwarp_rdma.srcstag",
        /// Offset in the receiver's memory.
        160..224 source_offset: u64 => "iwarp_rdma.srcto",
    }

    /// Immediate Data. RFC 7306 section 6.
    pub struct RdmapImmediateData [8] "iwarp_rdma.immediate" {
        /// First four bytes for the consumer.
        0..32 high: ImmediateData => "iwarp_rdma.immediate.high",
        /// Last four bytes for the consumer.
        32..64 low: ImmediateData => "iwarp_rdma.immediate.low",
    }

    /// Atomic Request Header. RFC 7306 section 5.2.1.
    pub struct RdmapAtomicRequestHeader [52] "iwarp_rdma.atomic" {
        /// Operation.
        28..32 opcode: RdmapAtomicOpcode => "iwarp_rdma.atomic.opcode",
        /// The sender's identifier of the request.
        32..64 request_identifier: u32 => "iwarp_rdma.atomic.request_identifier",
        /// Memory of the receiver.
        64..96 stag: Handle => "iwarp_rdma.atomic.remote_stag",
        /// Offset in that memory.
        96..160 offset: u64 => "iwarp_rdma.atomic.remote_tagged_offset",
        /// Value to add or to swap in.
        160..224 data: u64 => "iwarp_rdma.atomic.add_data",
        /// Mask of the significant bits of the data.
        224..288 mask: u64 => "iwarp_rdma.atomic.add_mask",
        /// Value that the swap requires.
        288..352 compare: u64 => "iwarp_rdma.atomic.compare_data",
        /// Mask of the significant bits of the comparison.
        352..416 compare_mask: u64 => "iwarp_rdma.atomic.compare_mask",
    }

    /// Atomic Response Header. RFC 7306 section 5.2.2.
    pub struct RdmapAtomicResponseHeader [12] "iwarp_rdma.atomic" {
        /// Identifier of the request.
        0..32 request_identifier: u32 => "iwarp_rdma.atomic.original_request_identifier",
        /// Value before the operation.
        32..96 value: u64 => "iwarp_rdma.atomic.original_remote_data_value",
    }
}

impl RdmapOpcode {
    /// Returns the untagged queue of the opcode's segments, `Some(None)` if they are tagged, `None` for an undefined
    /// opcode. RFC 5040 section 4.1; RFC 7306.
    pub const fn queue(self) -> Option<Option<DdpQueueNumber>> {
        Some(match self {
            Self::WRITE | Self::READ_RESPONSE => None,
            Self::SEND
            | Self::SEND_INVALIDATE
            | Self::SEND_EVENT
            | Self::SEND_EVENT_INVALIDATE
            | Self::IMMEDIATE
            | Self::IMMEDIATE_EVENT => Some(DdpQueueNumber::SEND),
            Self::READ_REQUEST | Self::ATOMIC_REQUEST => Some(DdpQueueNumber::READ_REQUEST),
            Self::TERMINATE => Some(DdpQueueNumber::TERMINATE),
            Self::ATOMIC_RESPONSE => Some(DdpQueueNumber::ATOMIC_RESPONSE),
            _ => return None,
        })
    }

    /// Returns the length in bytes of what follows the headers of DDP, if all messages with the opcode have the same.
    /// RFC 5040 section 4.4; RFC 7306 sections 5.2 and 6.
    pub const fn fixed_length(self) -> Option<usize> {
        match self {
            Self::READ_REQUEST => Some(RdmapReadRequestHeader::LENGTH),
            Self::ATOMIC_REQUEST => Some(RdmapAtomicRequestHeader::LENGTH),
            Self::ATOMIC_RESPONSE => Some(RdmapAtomicResponseHeader::LENGTH),
            Self::IMMEDIATE | Self::IMMEDIATE_EVENT => Some(RdmapImmediateData::LENGTH),
            _ => None,
        }
    }

    /// Returns `true` if the opcode is one of the four Sends.
    pub const fn is_send(self) -> bool {
        matches!(self, Self::SEND | Self::SEND_INVALIDATE | Self::SEND_EVENT | Self::SEND_EVENT_INVALIDATE)
    }

    /// Returns `true` if its segments carry an Invalidate STag.
    pub const fn invalidates(self) -> bool {
        matches!(self, Self::SEND_INVALIDATE | Self::SEND_EVENT_INVALIDATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc5040_section_4_1_opcodes_and_the_queues_they_use() {
        let names: Vec<_> = (0..16).filter_map(|code| RdmapOpcode(code).name()).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(RdmapOpcode::SEND_EVENT.queue(), Some(Some(DdpQueueNumber::SEND)));
        assert_eq!(RdmapOpcode::READ_REQUEST.queue(), Some(Some(DdpQueueNumber::READ_REQUEST)));
        assert_eq!(RdmapOpcode::READ_RESPONSE.queue(), Some(None));
        assert_eq!(RdmapOpcode(0xc).queue(), None);
    }
}
