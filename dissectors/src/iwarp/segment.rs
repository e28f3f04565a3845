//! DDP segment with its RDMAP control field, the content of one FPDU.

use super::ddp::{DdpControl, DdpMessageSequenceNumber, DdpQueueNumber, Tagged, Untagged};
use super::rdmap_headers::{RdmapControl, RdmapInvalidateStag, RdmapOpcode, RdmapUntaggedReservedField};
use crate::captured_frame::CapturedSlice;
use crate::field::{FieldObserver, NullFieldObserver};
use crate::memory_handle::Handle;

/// Destination of the bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DdpSegmentDestination {
    /// Memory identified by an STag.
    Tagged {
        /// STag of the memory.
        stag: Handle,
        /// Offset in the memory in bytes.
        offset: u64,
    },
    /// Next buffer of a queue.
    Untagged {
        /// Queue number.
        queue: DdpQueueNumber,
        /// Sequence number of the message in the queue.
        number: DdpMessageSequenceNumber,
        /// Offset in the message in bytes.
        offset: u32,
    },
}

/// Headers of one DDP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DdpSegment {
    /// Message type.
    pub opcode: RdmapOpcode,
    /// `true` for the last segment of its message.
    pub is_last: bool,
    /// Destination of its bytes.
    pub target: DdpSegmentDestination,
    /// Memory to invalidate, in the two Sends with Invalidate.
    pub invalidate: Option<Handle>,
    /// `true` if reserved bits of the control fields are used.
    has_reserved_bits: bool,
    /// `true` if versions, opcode and queue conform to the specifications.
    is_conformant: bool,
}

impl DdpSegment {
    /// Length of the headers of a tagged segment in bytes. RFC 5041 section 4.1.
    pub const TAGGED_HEADER_LENGTH: usize = DdpControl::LENGTH + RdmapControl::LENGTH + Tagged::LENGTH;
    /// Length of the headers of an untagged segment in bytes. RFC 5041 section 4.2.
    pub const UNTAGGED_HEADER_LENGTH: usize =
        DdpControl::LENGTH + RdmapControl::LENGTH + RdmapInvalidateStag::LENGTH + Untagged::LENGTH;

    /// Decodes the headers of a ULPDU. Returns them with the payload, or `None` if there are too few bytes.
    #[inline]
    pub fn decode<'a, O: FieldObserver<'a>>(
        ulpdu: CapturedSlice<'a>,
        observer: &mut O,
    ) -> Option<(Self, CapturedSlice<'a>)> {
        let (ddp, rest) = DdpControl::decode_slice(ulpdu, observer)?;
        let (rdmap, rest) = RdmapControl::decode_slice(rest, observer)?;
        let (target, queue, invalidate, payload) = if ddp.tagged {
            let (Tagged { stag, offset }, payload) = Tagged::decode_slice(rest, observer)?;
            (DdpSegmentDestination::Tagged { stag, offset }, None, None, payload)
        } else {
            let (invalidate, rest) = if rdmap.opcode.invalidates() {
                let (field, rest) = RdmapInvalidateStag::decode_slice(rest, observer)?;
                (Some(field.stag), rest)
            } else {
                (None, RdmapUntaggedReservedField::decode_slice(rest, observer)?.1)
            };
            let (Untagged { queue, number, offset }, payload) = Untagged::decode_slice(rest, observer)?;
            let target = DdpSegmentDestination::Untagged { queue, number, offset };
            (target, Some(queue), invalidate, payload)
        };
        let is_conformant = ddp.version == DdpControl::VERSION
            && rdmap.version <= 1
            && rdmap.opcode.queue() == Some(queue)
            && ulpdu.length >= payload.at - ulpdu.at;
        let segment = Self {
            opcode: rdmap.opcode,
            is_last: ddp.last,
            target,
            invalidate,
            has_reserved_bits: ddp.reserved != 0 || rdmap.reserved != 0,
            is_conformant,
        };
        Some((segment, payload))
    }

    /// Returns the memory and the offset to which the headers of a ULPDU direct its bytes, if it is a tagged segment.
    #[inline]
    pub fn tagged_destination(ulpdu: &[u8]) -> Option<(Handle, u64)> {
        let (ddp, rest) = DdpControl::decode(ulpdu, 0, &mut NullFieldObserver)?;
        let rest = rest.get(RdmapControl::LENGTH..).filter(|_| ddp.tagged)?;
        let (Tagged { stag, offset }, _) = Tagged::decode(rest, 0, &mut NullFieldObserver)?;
        Some((stag, offset))
    }

    /// Returns the length of the DDP and RDMAP headers in bytes.
    pub const fn header_length(&self) -> usize {
        match self.target {
            DdpSegmentDestination::Tagged { .. } => Self::TAGGED_HEADER_LENGTH,
            DdpSegmentDestination::Untagged { .. } => Self::UNTAGGED_HEADER_LENGTH,
        }
    }

    /// Returns `true` if the headers are valid for a ULPDU of this length, and reserved bits are zero. Random bytes
    /// hardly ever pass.
    pub fn is_plausible(&self, ulpdu_length: usize) -> bool {
        !self.has_reserved_bits && self.is_acceptable(ulpdu_length)
    }

    /// Returns `true` if a receiver accepts the headers of a ULPDU of this length: it ignores reserved bits. RFC 5041
    /// section 4.1, RFC 5040 section 4.1.
    pub fn is_acceptable(&self, ulpdu_length: usize) -> bool {
        let payload = ulpdu_length.checked_sub(self.header_length());
        let length_fits =
            payload.is_some_and(|payload| self.opcode.fixed_length().is_none_or(|fixed| payload == fixed));
        let offset_fits = match self.target {
            DdpSegmentDestination::Tagged { .. } => true,
            DdpSegmentDestination::Untagged { offset, .. } => offset == 0 || self.opcode.is_send(),
        };
        self.is_conformant && length_fits && offset_fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Option<DdpSegment> {
        DdpSegment::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullFieldObserver)
            .map(|(segment, _)| segment)
    }

    #[test]
    fn rfc5041_section_4_1_a_tagged_segment() {
        let bytes = [0xc1, 0x40, 0, 0, 0x0a, 0xf3, 0, 0, 0, 0, 0, 0, 0x10, 0];
        let segment = decode(&bytes).unwrap();
        assert_eq!((segment.opcode, segment.is_last), (RdmapOpcode::WRITE, true));
        assert_eq!(segment.target, DdpSegmentDestination::Tagged { stag: Handle(0xaf3), offset: 0x1000 });
        assert!(segment.is_plausible(14) && !segment.is_plausible(13));
        assert_eq!(DdpSegment::tagged_destination(&bytes), Some((Handle(0xaf3), 0x1000)));
        assert_eq!(DdpSegment::tagged_destination(&bytes[..13]), None, "a snap length");
        assert_eq!(DdpSegment::tagged_destination(&[0x41; 14]), None, "untagged");
    }

    #[test]
    fn rfc5040_section_4_1_a_send_with_invalidate_names_memory_in_the_field_reserved_for_the_layer_above() {
        let bytes = [0x41, 0x44, 0, 0, 9, 0x71, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16];
        let segment = decode(&bytes).unwrap();
        assert_eq!(segment.invalidate, Some(Handle(0x971)));
        let number = DdpMessageSequenceNumber(7);
        assert_eq!(segment.target, DdpSegmentDestination::Untagged { queue: DdpQueueNumber::SEND, number, offset: 16 });
        let with_event = [&[0x41, 0x46], &bytes[2..]].concat();
        assert_eq!(decode(&with_event).unwrap().invalidate, Some(Handle(0x971)));
        let without = [&[0x41, 0x45], &bytes[2..]].concat();
        assert_eq!(decode(&without).unwrap().invalidate, None);
    }

    #[test]
    fn invalid_header_values_are_not_plausible() {
        let send = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert!(decode(&send).unwrap().is_plausible(18));
        for (at, value) in [(0, 0xc1), (0, 0x40), (0, 0x45), (1, 0x83), (1, 0x53), (1, 0x42), (1, 0x4c), (9, 1)] {
            let mut bytes = send;
            bytes[at] = value;
            assert!(!decode(&bytes).unwrap().is_plausible(18), "byte {at} = {value:#x}");
        }
        let read_request = [0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
        assert!(decode(&read_request).unwrap().is_plausible(46));
        assert!(!decode(&read_request).unwrap().is_plausible(47));
    }
}
