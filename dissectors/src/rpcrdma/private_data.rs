//! What each side tells the other as they connect: inline thresholds, and whether handles may be invalidated
//! remotely. RFC 8797.

use crate::field::registry::Registry;
use crate::field::{Field, FieldKind, FieldValue, Observer};
use crate::frame::CapturedSlice;

crate::number! {
    /// What tells this private data from that of other layers. RFC 8797 section 4.
    pub struct FormatIdentifier(u32) as Hex(8);
}

impl FormatIdentifier {
    /// The identifier of RPC-over-RDMA version 1. RFC 8797 section 4.
    pub const RPC_OVER_RDMA: Self = Self(0xf6ab_0e18);
}

crate::header! {
    /// RPC-over-RDMA version 1 CM private data. RFC 8797 section 4.
    pub struct PrivateData [8] "rpcordma.private_data" {
        /// Format Identifier.
        0..32 format_identifier: FormatIdentifier => "rpcordma.private_data.format_identifier",
        /// Version of this format.
        32..40 version: u8 => "rpcordma.private_data.version",
        /// R: the sender supports remote invalidation. RFC 8797 section 4.1.
        47..48 remote_invalidation: bool => "rpcordma.private_data.remote_invalidation",
        /// Send Size: KiB beyond the first of what the sender may send inline. RFC 8797 section 4.2.
        48..56 send_size: u8 => "rpcordma.private_data.send_size",
        /// Receive Size: KiB beyond the first of what the sender can receive inline. RFC 8797 section 4.2.
        56..64 receive_size: u8 => "rpcordma.private_data.receive_size",
    }
}

/// The byte of which R is the last bit. RFC 8797 section 4.
static FLAGS: Field = Field {
    name: "rpcordma.private_data.flags",
    label: "flags",
    kind: FieldKind::Hex(2),
    doc: "All flags: R, which says that remote invalidation is supported, and seven reserved bits. RFC 8797 section 4.",
};
/// Where it stands in the private data.
const FLAGS_AT: usize = 5;

/// Adds the fields of private data to a registry.
pub(crate) fn describe(registry: &mut Registry) {
    PrivateData::describe(registry);
    registry.field(&FLAGS);
}

impl PrivateData {
    /// What holds for a side that tells nothing. RFC 8797 section 5.1.
    pub const DEFAULT: Self = Self {
        format_identifier: FormatIdentifier::RPC_OVER_RDMA,
        version: 1,
        remote_invalidation: false,
        send_size: 0,
        receive_size: 0,
    };

    /// Finds it in the private data of a connection, of which other layers may have taken the beginning. `at` is
    /// the position of `private_data` that the observer is told. RFC 8797 section 5.2.
    pub fn find<'a, O: Observer<'a>>(private_data: &'a [u8], at: usize, observer: &mut O) -> Option<Self> {
        let identifier = FormatIdentifier::RPC_OVER_RDMA.0.to_be_bytes();
        let start = private_data
            .windows(Self::LENGTH)
            .position(|window| window.starts_with(&identifier) && window.get(4) == Some(&1))?;
        let (found, _) = Self::decode(private_data.get(start..)?, at + start, observer)?;
        if let Some(flags) = private_data.get(start + FLAGS_AT) {
            let at = at + start + FLAGS_AT;
            observer.value(&FLAGS, at..at + 1, FieldValue::Unsigned(u64::from(*flags)));
        }
        Some(found)
    }

    /// The most bytes that the sender of this sends in one RDMA Send. RFC 8797 section 4.2.
    pub fn send_threshold(&self) -> u32 {
        threshold(self.send_size)
    }

    /// The most bytes that the sender of this can receive with one RDMA Receive. RFC 8797 section 4.2.
    pub fn receive_threshold(&self) -> u32 {
        threshold(self.receive_size)
    }
}

/// The private data of one side of a connection, as far as its set-up is in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidePrivateData {
    /// The side sent it.
    Present(PrivateData),
    /// The side sent none, so that [`PrivateData::DEFAULT`] holds. RFC 8797 section 5.1.
    Absent,
    /// The capture ends before it could be found, or lacks the message that would carry it.
    Cut,
}

impl SidePrivateData {
    /// Finds it as [`PrivateData::find`] does, in private data of which the end may not be captured.
    pub fn find<'a, O: Observer<'a>>(private_data: CapturedSlice<'a>, observer: &mut O) -> Self {
        match PrivateData::find(private_data.bytes, private_data.at, observer) {
            Some(found) => Self::Present(found),
            None if private_data.bytes.len() < private_data.length => Self::Cut,
            None => Self::Absent,
        }
    }

    /// The private data, if the side sent it.
    pub fn present(self) -> Option<PrivateData> {
        match self {
            Self::Present(data) => Some(data),
            Self::Absent | Self::Cut => None,
        }
    }

    /// What holds for the side; `None` where that is not known.
    pub fn in_effect(self) -> Option<PrivateData> {
        match self {
            Self::Present(data) => Some(data),
            Self::Absent => Some(PrivateData::DEFAULT),
            Self::Cut => None,
        }
    }

    /// Its name in output.
    pub fn key(self) -> &'static str {
        match self {
            Self::Present(_) => "present",
            Self::Absent => "none",
            Self::Cut => "cut",
        }
    }
}

/// An inline threshold in bytes from its encoded form. RFC 8797 section 4.2.
fn threshold(size: u8) -> u32 {
    (u32::from(size) + 1) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::NullObserver;

    const BYTES: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 0b1, 3, 255];

    fn find(bytes: &[u8]) -> Option<PrivateData> {
        PrivateData::find(bytes, 0, &mut NullObserver)
    }

    #[test]
    fn rfc8797_section_4_sizes_count_kilobytes_beyond_the_first() {
        let found = find(&BYTES).unwrap();
        assert_eq!((found.send_threshold(), found.receive_threshold()), (4096, 262_144));
        assert!(found.remote_invalidation);
        assert_eq!(found.encode(), BYTES);
    }

    #[test]
    fn rfc8797_section_4_reserved_bits_are_ignored() {
        let bytes = [0xf6, 0xab, 0x0e, 0x18, 1, 0xfe, 0, 0];
        assert_eq!(find(&bytes), Some(PrivateData::DEFAULT));
    }

    #[test]
    fn rfc8797_section_4_the_flags_are_a_field_with_their_reserved_bits() {
        struct Flags(Option<(std::ops::Range<usize>, FieldValue<'static>)>);
        impl<'a> Observer<'a> for Flags {
            fn enter(&mut self, _: &'static Field, _: usize) {}
            fn leave(&mut self, _: usize) {}
            fn value(&mut self, field: &'static Field, at: std::ops::Range<usize>, value: FieldValue<'a>) {
                if let (true, FieldValue::Unsigned(flags)) = (field.name == FLAGS.name, value) {
                    self.0 = Some((at, FieldValue::Unsigned(flags)));
                }
            }
        }
        let mut flags = Flags(None);
        let bytes = [&[0; 3][..], &[0xf6, 0xab, 0x0e, 0x18, 1, 0xfe, 0, 0]].concat();
        PrivateData::find(&bytes, 100, &mut flags);
        assert_eq!(flags.0, Some((108..109, FieldValue::Unsigned(0xfe))));
    }

    #[test]
    fn rfc8797_section_5_2_the_identifier_may_stand_at_any_offset() {
        let bytes = [&[0xf6, 0xab, 0x0e][..], &BYTES, &[0; 45]].concat();
        assert_eq!(find(&bytes), find(&BYTES));
    }

    #[test]
    fn rfc8797_section_5_2_an_unknown_version_or_too_little_room_is_none() {
        let mut bytes = BYTES;
        bytes[4] = 2;
        assert_eq!(find(&bytes), None);
        assert_eq!(find(&BYTES[..7]), None);
        assert_eq!(find(&[0; 56]), None);
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn private_data_that_the_capture_cut_is_not_absent() {
        let side = |bytes: &[u8], length| {
            SidePrivateData::find(CapturedSlice::new(bytes, length, 0), &mut NullObserver)
        };
        let padded = [&[0; 10][..], &BYTES, &[0; 38]].concat();
        for captured in 0..padded.len() {
            let expected = match find(&padded[..captured]) {
                Some(found) => SidePrivateData::Present(found),
                None => SidePrivateData::Cut,
            };
            assert_eq!(side(&padded[..captured], padded.len()), expected, "{captured}");
        }
        assert_eq!(side(&[0; 56], 56), SidePrivateData::Absent);
        assert_eq!(side(&[], 0).in_effect(), Some(PrivateData::DEFAULT));
        assert_eq!(side(&[0; 30], 56).in_effect(), None);
    }

    #[test]
    fn rfc8797_section_5_1_the_default_threshold_is_1024_bytes() {
        assert_eq!(PrivateData::DEFAULT.send_threshold(), 1024);
        assert_eq!(PrivateData::DEFAULT.receive_threshold(), 1024);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(before: Vec<u8>, after: Vec<u8>) {
            let bytes = [&before[..], &BYTES[..4], &after].concat();
            let _ = find(&bytes);
        }
    }
}
