//! ERSPAN: mirrored frames that a switch sends through GRE. draft-foschiano-erspan-03.

use super::tunnel::{TunnelPayload, TunnelPayloadType};
use super::undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

crate::header! {
    /// ERSPAN type II. draft-foschiano-erspan-03 section 4.2.
    pub struct Erspan2 [8] "erspan" {
        0..4 version: u8 => "erspan.version",
        /// VLAN of the frame when it was mirrored.
        4..16 vlan: u16 => "erspan.vlan",
        16..19 cos: u8 => "erspan.cos",
        /// Trunk encapsulation of the frame.
        19..21 encap: u8 => "erspan.encap",
        /// `true` if the mirror truncated the frame.
        21..22 truncated: bool => "erspan.truncated",
        /// Identifier of the mirror session.
        22..32 spanid: u16 => "erspan.spanid",
        44..64 index: u32 => "erspan.index",
    }

    /// ERSPAN type III. draft-foschiano-erspan-03 section 4.3.
    pub struct Erspan3 [12] "erspan" {
        0..4 version: u8 => "erspan.version",
        /// VLAN of the frame when it was mirrored.
        4..16 vlan: u16 => "erspan.vlan",
        16..19 cos: u8 => "erspan.cos",
        /// Bad, short or oversized frame.
        19..21 bso: u8 => "erspan.bso",
        /// `true` if the mirror truncated the frame.
        21..22 truncated: bool => "erspan.truncated",
        /// Identifier of the mirror session.
        22..32 spanid: u16 => "erspan.spanid",
        /// Time of mirroring, in the unit of `gra`.
        32..64 timestamp: u32 => "erspan.timestamp",
        /// Security group tag.
        64..80 sgt: u16 => "erspan.sgt",
        80..81 p: bool => "erspan.p",
        /// Type of the mirrored frame.
        81..86 ft: ErspanFrameType => "erspan.ft",
        86..92 hw: u8 => "erspan.hw",
        /// Direction: egress (true) or ingress of the mirrored port.
        92..93 direction: bool => "erspan.direction",
        /// Timestamp granularity. 0: 100 microseconds, 1: 100 nanoseconds, 2: IEEE 1588, 3: platform-specific.
        93..95 gra: u8 => "erspan.gra",
        /// `true` if a platform subheader follows.
        95..96 o: bool => "erspan.o",
    }

    /// Platform subheader of ERSPAN type III. draft-foschiano-erspan-03 section 4.3.
    pub struct ErspanPlatform [8] "erspan.platform" {
        0..6 platid: u8 => "erspan.platid",
        6..64 info: u64 => "erspan.pid.rsvd",
    }
}

crate::named! {
    /// Type of a mirrored frame, 5 bits.
    pub struct ErspanFrameType(u8) {
        ETHERNET = 0 "Ethernet",
        IP = 2 "IP",
    }
}

/// Version number in the header of type II.
const TYPE_2_VERSION: u8 = 1;
/// Version number in the header of type III.
const TYPE_3_VERSION: u8 = 2;

/// Decodes a header of type II. Returns the mirrored frame.
pub(super) fn decode_type_2<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<TunnelPayload<'a>, UndecodableFrameReason> {
    match Erspan2::decode_slice(slice, observer) {
        None => Err(incomplete(slice, Erspan2::LENGTH)),
        Some((header, _)) if header.version != TYPE_2_VERSION => {
            Err(UndecodableFrameReason::Malformed { what: NetworkHeaderDefect::ErspanVersion, at: slice.at })
        }
        Some((_, rest)) => Ok(TunnelPayload::new(TunnelPayloadType::Ethernet, rest)),
    }
}

/// Decodes a header of type III. Returns the mirrored frame.
pub(super) fn decode_type_3<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<TunnelPayload<'a>, UndecodableFrameReason> {
    let Some((header, mut rest)) = Erspan3::decode_slice(slice, observer) else {
        return Err(incomplete(slice, Erspan3::LENGTH));
    };
    if header.version != TYPE_3_VERSION {
        return Err(UndecodableFrameReason::Malformed { what: NetworkHeaderDefect::ErspanVersion, at: slice.at });
    }
    if header.o {
        let Some((_, after)) = ErspanPlatform::decode_slice(rest, observer) else {
            return Err(incomplete(rest, ErspanPlatform::LENGTH));
        };
        rest = after;
    }
    match header.ft {
        ErspanFrameType::ETHERNET => Ok(TunnelPayload::new(TunnelPayloadType::Ethernet, rest)),
        ErspanFrameType::IP => Ok(TunnelPayload::new(TunnelPayloadType::Ip, rest)),
        _ => Err(UndecodableFrameReason::Malformed { what: NetworkHeaderDefect::ErspanFrameType, at: slice.at + 10 }),
    }
}

fn incomplete(slice: CapturedSlice<'_>, length: usize) -> UndecodableFrameReason {
    UndecodableFrameReason::incomplete(slice, length, NetworkHeaderDefect::ErspanHeader)
}
