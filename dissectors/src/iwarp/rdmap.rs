//! Remote Direct Memory Access Protocol: message types, headers and Terminate. RFC 5040; RFC 7306.

use std::fmt;

pub use super::rdmap_headers::{
    RdmapAtomicOpcode, RdmapAtomicRequestHeader, RdmapAtomicResponseHeader, RdmapControl, RdmapImmediateData,
    RdmapInvalidateStag, RdmapOpcode, RdmapReadRequestHeader, RdmapUntaggedReservedField,
};
use super::segment::{DdpSegment, DdpSegmentDestination};
use crate::captured_frame::CapturedSlice;
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldObserver, NullFieldObserver};

crate::named! {
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
    pub struct LlpErrorCode(u8) {
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
        LlpErrorType => "iwarp_rdma.term_etype_llp", LlpErrorCode => "iwarp_rdma.term_errcode_llp"
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
                let segment = DdpSegment::decode(fault.skip_bytes(TerminateDdpSegmentLength::LENGTH), observer);
                if let Some((_, request)) = segment
                    && control.has_rdma
                {
                    RdmapReadRequestHeader::decode_slice(request, observer);
                }
            }
        }
        Some(Self { layer: control.layer, error_type: control.error_type, code: control.code })
    }

    /// Returns the destination of the DDP segment at fault, if the Terminate Header at the start of `slice` includes its
    /// header.
    pub fn segment_at_fault(slice: CapturedSlice<'_>) -> Option<DdpSegmentDestination> {
        let (control, fault) = OtherTerminate::decode_slice(slice, &mut NullFieldObserver)?;
        let header = fault.skip_bytes(TerminateDdpSegmentLength::LENGTH);
        let (segment, _) = DdpSegment::decode(header, &mut NullFieldObserver).filter(|_| control.has_ddp)?;
        Some(segment.target)
    }

    /// Returns the specification's names of error type and error code.
    fn names(self) -> (Option<&'static str>, Option<&'static str>) {
        match (self.layer, DdpErrorType(self.error_type)) {
            (TerminateLayer::RDMA, _) => {
                let error = (self.error_type != RdmapErrorType::LOCAL_CATASTROPHIC.0).then_some(self.code);
                (RdmapErrorType(self.error_type).name(), error.and_then(|code| RdmapErrorCode(code).name()))
            }
            (TerminateLayer::DDP, kind @ DdpErrorType::TAGGED) => (kind.name(), DdpTaggedBufferError(self.code).name()),
            (TerminateLayer::DDP, kind @ DdpErrorType::UNTAGGED) => {
                (kind.name(), DdpUntaggedBufferError(self.code).name())
            }
            (TerminateLayer::DDP, kind) => (kind.name(), None),
            (TerminateLayer::LLP, _) => (LlpErrorType(self.error_type).name(), LlpErrorCode(self.code).name()),
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
        RdmapTerminate::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullFieldObserver).unwrap().to_string()
    }

    #[test]
    fn rfc5040_section_4_8_a_terminate_has_layer_type_and_error() {
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
