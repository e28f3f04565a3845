//! Remote Direct Memory Access Protocol: message types, headers and Terminate. RFC 5040; RFC 7306.

use std::fmt;

use crate::captured_frame::CapturedSlice;
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldObserver, NullFieldObserver};
use crate::infiniband::ImmediateData;
use crate::rdma_operation::Handle;

use super::DdpSegment;
use super::ddp::DdpQueueNumber;

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

    /// Layer that detected an error. RFC 5040 section 4.8.
    pub struct TerminateLayer(u8) {
        RDMA = 0 "RDMA",
        DDP = 1 "DDP",
        LLP = 2 "LLP",
    }

    /// Error types of RDMAP. RFC 5040 section 4.8.
    pub struct RdmapErrorType(u8) {
        LOCAL_CATASTROPHIC = 0 "Local Catastrophic Error",
        REMOTE_PROTECTION = 1 "Remote Protection Error",
        REMOTE_OPERATION = 2 "Remote Operation Error",
    }

    /// Error codes of RDMAP. RFC 5040 section 4.8.
    pub struct RdmapErrorCode(u8) {
        INVALID_STAG = 0x00 "Invalid STag",
        BOUNDS = 0x01 "Base or bounds violation",
        ACCESS_RIGHTS = 0x02 "Access rights violation",
        STAG_OF_OTHER_STREAM = 0x03 "STag not associated with RDMAP Stream",
        OFFSET_WRAP = 0x04 "TO wrap",
        VERSION = 0x05 "Invalid RDMAP version",
        OPCODE = 0x06 "Unexpected OpCode",
        CATASTROPHIC_STREAM = 0x07 "Catastrophic error, localized to RDMAP Stream",
        CATASTROPHIC_GLOBAL = 0x08 "Catastrophic error, global",
        CANNOT_INVALIDATE = 0x09 "STag cannot be Invalidated",
        UNSPECIFIED = 0xff "Unspecified Error",
    }

    /// Error types of DDP. RFC 5041 section 7.2.
    pub struct DdpErrorType(u8) {
        LOCAL_CATASTROPHIC = 0 "Local Catastrophic",
        TAGGED = 1 "Tagged Buffer Error",
        UNTAGGED = 2 "Untagged Buffer Error",
        LLP = 3 "Reserved for the LLP",
    }

    /// Error codes of DDP for tagged segments. RFC 5041 section 7.2.
    pub struct DdpTaggedBufferError(u8) {
        INVALID_STAG = 0 "Invalid STag",
        BOUNDS = 1 "Base or bounds violation",
        STAG_OF_OTHER_STREAM = 2 "STag not associated with DDP Stream",
        OFFSET_WRAP = 3 "TO wrap",
        VERSION = 4 "Invalid DDP version",
    }

    /// Error codes of DDP for untagged segments. RFC 5041 section 7.2.
    pub struct DdpUntaggedBufferError(u8) {
        QUEUE = 1 "Invalid QN",
        NO_BUFFER = 2 "Invalid MSN - no buffer available",
        NUMBER_RANGE = 3 "Invalid MSN - MSN range is not valid",
        OFFSET = 4 "Invalid MO",
        TOO_LONG = 5 "DDP Message too long for available buffer",
        VERSION = 6 "Invalid DDP version",
    }

    /// Error types of the layer below DDP. RFC 6581 section 8.
    pub struct LlpErrorType(u8) {
        MPA = 0 "MPA",
    }

    /// Error codes of MPA. RFC 5044 section 8; RFC 6581 section 8.
    pub struct LlpError(u8) {
        CLOSED = 1 "TCP connection closed, terminated, or lost",
        CRC = 2 "MPA CRC error",
        MARKER = 3 "MPA Marker and ULPDU Length field mismatch",
        STARTUP = 4 "Invalid MPA Request Frame or MPA Response Frame",
        LOCAL_CATASTROPHIC = 5 "Local catastrophic",
        INSUFFICIENT_IRD = 6 "Insufficient IRD resources",
        NO_MATCHING_RTR = 7 "No matching RTR option",
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

    /// Length of the message at fault that a Terminate includes. RFC 5040 section 4.8.
    pub struct TerminateDdpSegmentLength [2] "iwarp_rdma.terminate" {
        /// Length of the DDP segment in bytes.
        0..16 length: u16 => "iwarp_rdma.term_ddp_seg_len",
    }
}

/// Defines a Terminate Control field per layer, because error types and codes have different names.
macro_rules! terminate_control {
    ($($(#[doc = $doc:literal])+ $name:ident { $type:ty => $type_filter:literal, $code:ty => $code_filter:literal })*) => {$(
        crate::header! {
            $(#[doc = $doc])+
            pub struct $name [4] "iwarp_rdma.term_ctrl" {
                /// Layer that detected the error.
                0..4 layer: TerminateLayer => "iwarp_rdma.term_layer",
                /// Error type.
                4..8 error_type: $type => $type_filter,
                /// Error code.
                8..16 code: $code => $code_filter,
                /// M: the length of the DDP segment is valid.
                16..17 has_length: bool => "iwarp_rdma.term_hdrct_m",
                /// D: the DDP header at fault is included.
                17..18 has_ddp: bool => "iwarp_rdma.hdrct_d",
                /// R: the RDMA Read Request Header at fault is included.
                18..19 has_rdma: bool => "iwarp_rdma.hdrct_r",
                /// Reserved.
                19..32 reserved: u16 => "iwarp_rdma.term_rsvd",
            }
        }
    )*};
}
terminate_control! {
    /// Terminate Control of an error detected by RDMAP. RFC 5040 section 4.8.
    RdmaTerminate {
        RdmapErrorType => "iwarp_rdma.term_etype_rdma", RdmapErrorCode => "iwarp_rdma.term_errcode_rdma"
    }
    /// Terminate Control of an error detected by DDP in a tagged segment. RFC 5041 section 7.2.
    TaggedTerminate {
        DdpErrorType => "iwarp_rdma.term_etype_ddp", DdpTaggedBufferError => "iwarp_rdma.term_errcode_ddp_tagged"
    }
    /// Terminate Control of an error detected by DDP in an untagged segment. RFC 5041 section 7.2.
    UntaggedTerminate {
        DdpErrorType => "iwarp_rdma.term_etype_ddp", DdpUntaggedBufferError => "iwarp_rdma.term_errcode_ddp_untagged"
    }
    /// Terminate Control of an error detected by MPA. RFC 5044 section 8.
    LlpTerminate {
        LlpErrorType => "iwarp_rdma.term_etype_llp", LlpError => "iwarp_rdma.term_errcode_llp"
    }
    /// Terminate Control of another layer. RFC 5040 section 4.8.
    OtherTerminate {
        u8 => "iwarp_rdma.term_etype", u8 => "iwarp_rdma.term_errcode"
    }
}

/// Adds the fields of Terminate to a registry.
pub(super) fn describe_terminate(registry: &mut FieldRegistry) {
    describe_headers!(registry; RdmaTerminate, TaggedTerminate, UntaggedTerminate, LlpTerminate, OtherTerminate);
    describe_headers!(registry; TerminateDdpSegmentLength);
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

/// Reason that a stream ends, from a Terminate. RFC 5040 section 4.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RdmapTerminate {
    /// Layer that detected the error.
    pub layer: TerminateLayer,
    /// Error type of that layer.
    pub error_type: u8,
    /// Error code of that layer.
    pub code: u8,
}

impl RdmapTerminate {
    /// Decodes the Terminate Header at the start of `slice`, and reports the included headers of the message at fault.
    pub fn decode<'a, O: FieldObserver<'a>>(slice: CapturedSlice<'a>, observer: &mut O) -> Option<Self> {
        let (control, fault) = OtherTerminate::decode_slice(slice, &mut NullFieldObserver)?;
        if O::is_enabled() {
            match (control.layer, DdpErrorType(control.error_type)) {
                (TerminateLayer::RDMA, _) => RdmaTerminate::decode_slice(slice, observer).map(drop),
                (TerminateLayer::DDP, DdpErrorType::UNTAGGED) => {
                    UntaggedTerminate::decode_slice(slice, observer).map(drop)
                }
                (TerminateLayer::DDP, _) => TaggedTerminate::decode_slice(slice, observer).map(drop),
                (TerminateLayer::LLP, _) => LlpTerminate::decode_slice(slice, observer).map(drop),
                _ => OtherTerminate::decode_slice(slice, observer).map(drop),
            };
            if control.has_ddp {
                TerminateDdpSegmentLength::decode_slice(fault, observer);
                let segment =
                    DdpSegment::decode(fault.skip_bytes(TerminateDdpSegmentLength::LENGTH), observer);
                if let Some((_, request)) = segment
                    && control.has_rdma
                {
                    RdmapReadRequestHeader::decode_slice(request, observer);
                }
            }
        }
        Some(Self { layer: control.layer, error_type: control.error_type, code: control.code })
    }

    /// Returns the specification's names of error type and error code.
    fn names(self) -> (Option<&'static str>, Option<&'static str>) {
        match (self.layer, DdpErrorType(self.error_type)) {
            (TerminateLayer::RDMA, _) => {
                let error = (self.error_type != RdmapErrorType::LOCAL_CATASTROPHIC.0).then_some(self.code);
                (RdmapErrorType(self.error_type).name(), error.and_then(|code| RdmapErrorCode(code).name()))
            }
            (TerminateLayer::DDP, kind @ DdpErrorType::TAGGED) => {
                (kind.name(), DdpTaggedBufferError(self.code).name())
            }
            (TerminateLayer::DDP, kind @ DdpErrorType::UNTAGGED) => {
                (kind.name(), DdpUntaggedBufferError(self.code).name())
            }
            (TerminateLayer::DDP, kind) => (kind.name(), None),
            (TerminateLayer::LLP, _) => (LlpErrorType(self.error_type).name(), LlpError(self.code).name()),
            _ => (None, None),
        }
    }
}

/// Displays `RDMA, Remote Protection Error, Invalid STag`; types and codes without a name as numbers.
impl fmt::Display for RdmapTerminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, error) = self.names();
        write!(f, "{}, ", self.layer)?;
        match kind {
            Some(kind) => f.write_str(kind)?,
            None => write!(f, "type {:#x}", self.error_type)?,
        }
        match error {
            Some(error) => write!(f, ", {error}"),
            None => write!(f, ", code {:#04x}", self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::NullFieldObserver;

    fn terminate(bytes: &[u8]) -> String {
        RdmapTerminate::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullFieldObserver)
            .unwrap()
            .to_string()
    }

    #[test]
    fn rfc5040_section_4_1_opcodes_and_the_queues_they_use() {
        let names: Vec<_> = (0..16).filter_map(|code| RdmapOpcode(code).name()).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(RdmapOpcode::SEND_EVENT.queue(), Some(Some(DdpQueueNumber::SEND)));
        assert_eq!(RdmapOpcode::READ_REQUEST.queue(), Some(Some(DdpQueueNumber::READ_REQUEST)));
        assert_eq!(RdmapOpcode::READ_RESPONSE.queue(), Some(None));
        assert_eq!(RdmapOpcode(0xc).queue(), None);
    }

    #[test]
    fn rfc5040_section_4_8_a_terminate_says_layer_kind_and_error() {
        assert_eq!(terminate(&[0x01, 0x00, 0, 0]), "RDMA, Remote Protection Error, Invalid STag");
        assert_eq!(terminate(&[0x02, 0x06, 0, 0]), "RDMA, Remote Operation Error, Unexpected OpCode");
        assert_eq!(terminate(&[0x00, 0x06, 0, 0]), "RDMA, Local Catastrophic Error, code 0x06");
        assert_eq!(
            terminate(&[0x12, 0x05, 0, 0]),
            "DDP, Untagged Buffer Error, DDP Message too long for available buffer"
        );
        assert_eq!(terminate(&[0x11, 0x01, 0, 0]), "DDP, Tagged Buffer Error, Base or bounds violation");
        assert_eq!(terminate(&[0x20, 0x02, 0, 0]), "LLP, MPA, MPA CRC error");
        assert_eq!(terminate(&[0x20, 0x07, 0, 0]), "LLP, MPA, No matching RTR option");
        assert_eq!(terminate(&[0x35, 0x07, 0, 0]), "0x3, type 0x5, code 0x07");
    }
}
