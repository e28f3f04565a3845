//! Direct Data Placement: where the bytes of a segment go. RFC 5041.

use crate::rdma::Handle;

crate::number! {
    /// Message Sequence Number of an untagged message, from 1. RFC 5041 section 4.2.
    pub struct MessageNumber(u32) as Unsigned;
}

crate::named! {
    /// Queue of untagged buffers, as RDMAP uses them. RFC 5040 section 4.1.
    pub struct DdpQueue(u32) {
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
    /// The byte that begins every DDP segment. RFC 5041 section 4.
    pub struct DdpControl [1] "iwarp_ddp.control_field" {
        /// T: the segment tells the memory that it goes to.
        0..1 tagged: bool => "iwarp_ddp.tagged_flag",
        /// L: the segment is the last of its message.
        1..2 last: bool => "iwarp_ddp.last_flag",
        /// Reserved.
        2..6 reserved: u8 => "iwarp_ddp.rsvd",
        /// DV: version of DDP, 1.
        6..8 version: u8 => "iwarp_ddp.dv",
    }

    /// The rest of the header of a tagged segment, behind the control fields of DDP and RDMAP. RFC 5041 section 4.1.
    pub struct Tagged [12] "iwarp_ddp.tagged" {
        /// The memory that the bytes go to.
        0..32 stag: Handle => "iwarp_ddp.stag",
        /// TO: where in the memory they go.
        32..96 offset: u64 => "iwarp_ddp.tagged_offset",
    }

    /// The rest of the header of an untagged segment, behind the Invalidate STag. RFC 5041 section 4.2.
    pub struct Untagged [12] "iwarp_ddp.untagged" {
        /// QN: the queue whose next buffer the message goes to.
        0..32 queue: DdpQueue => "iwarp_ddp.qn",
        /// MSN: which message of the queue it is.
        32..64 number: MessageNumber => "iwarp_ddp.msn",
        /// MO: where in the message the bytes go.
        64..96 offset: u32 => "iwarp_ddp.mo",
    }
}

impl DdpControl {
    /// The version of DDP. RFC 5041 section 4.1.
    pub const VERSION: u8 = 1;
}

impl MessageNumber {
    /// How many messages `other` comes after `self`; negative when it comes before.
    pub const fn distance(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0) as i32
    }
}
