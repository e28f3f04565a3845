//! Direct Data Placement: headers with the destination of a segment. RFC 5041.

use crate::memory_handle::Handle;

crate::number! {
    /// Message Sequence Number of an untagged message, counted from 1. RFC 5041 section 4.2.
    pub struct DdpMessageSequenceNumber(u32) as Unsigned;
}

crate::named! {
    /// Queue number of untagged buffers, as assigned by RDMAP. RFC 5040 section 4.1.
    pub struct DdpQueueNumber(u32) {
        /// Sends.
        SEND = 0 "Send",
        /// RDMA Read Requests.
        READ_REQUEST = 1 "RDMA Read Request",
        /// Terminate.
        TERMINATE = 2 "Terminate",
        /// Atomic Responses. RFC 7306 section 5.
        ATOMIC_RESPONSE = 3 "Atomic Response",
    }
}

crate::header! {
    /// DDP control field: the first byte of every DDP segment. RFC 5041 section 4.
    pub struct DdpControl [1] "iwarp_ddp.control_field" {
        /// T: tagged; the segment names its destination memory.
        0..1 tagged: bool => "iwarp_ddp.tagged_flag",
        /// L: last segment of its message.
        1..2 last: bool => "iwarp_ddp.last_flag",
        /// Reserved.
        2..6 reserved: u8 => "iwarp_ddp.rsvd",
        /// DV: version of DDP, 1.
        6..8 version: u8 => "iwarp_ddp.dv",
    }

    /// Rest of the header of a tagged segment, after the control fields of DDP and RDMAP. RFC 5041 section 4.1.
    pub struct Tagged [12] "iwarp_ddp.tagged" {
        /// Destination memory.
        0..32 stag: Handle => "iwarp_ddp.stag",
        /// TO: offset in the destination memory.
        32..96 offset: u64 => "iwarp_ddp.tagged_offset",
    }

    /// Rest of the header of an untagged segment, after the Invalidate STag. RFC 5041 section 4.2.
    pub struct Untagged [12] "iwarp_ddp.untagged" {
        /// QN: queue of the receive buffer.
        0..32 queue: DdpQueueNumber => "iwarp_ddp.qn",
        /// MSN: sequence number of the message in the queue.
        32..64 number: DdpMessageSequenceNumber => "iwarp_ddp.msn",
        /// MO: offset in the message.
        64..96 offset: u32 => "iwarp_ddp.mo",
    }
}

impl DdpControl {
    /// Version of DDP. RFC 5041 section 4.1.
    pub const VERSION: u8 = 1;
}

impl DdpMessageSequenceNumber {
    /// Returns the number of messages from `self` to `other`, modulo 2^32; negative if `other` comes first.
    pub const fn distance(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0) as i32
    }
}
