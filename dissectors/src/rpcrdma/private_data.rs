//! Private data of connection establishment: inline thresholds and support of remote invalidation. RFC 8797.

use crate::captured_frame::CapturedSlice;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};

crate::number! {
    /// Identifier that distinguishes this private data from other layers' private data. RFC 8797 section 4.
    pub struct PrivateDataFormatIdentifier(u32) as Hex(8);
}

impl PrivateDataFormatIdentifier {
    /// The identifier of RPC-over-RDMA version 1. RFC 8797 section 4.
    pub const RPC_OVER_RDMA: Self = Self(0xf6ab_0e18);
}

crate::header! {
    /// RPC-over-RDMA version 1 CM private data. RFC 8797 section 4.
    pub struct PrivateData [8] "rpcordma.private_data" {
        /// Format Identifier.
        0..32 format_identifier: PrivateDataFormatIdentifier => "rpcordma.private_data.format_identifier",
        /// Version of this format.
        32..40 version: u8 => "rpcordma.private_data.version",
        /// R: the sender supports remote invalidation. RFC 8797 section 4.1.
        47..48 remote_invalidation: bool => "rpcordma.private_data.remote_invalidation",
        /// Send Size: maximum inline Send of the sender, in KiB minus one. RFC 8797 section 4.2.
        48..56 send_size: u8 => "rpcordma.private_data.send_size",
        /// Receive Size: maximum inline Receive of the sender, in KiB minus one. RFC 8797 section 4.2.
        56..64 receive_size: u8 => "rpcordma.private_data.receive_size",
    }
}

crate::field::fields! {
    pub(crate) FLAGS = "rpcordma.private_data.flags" "flags" Hex(2),
        "All flags: R (remote invalidation is supported) and seven reserved bits. RFC 8797 section 4.";
}

/// Offset of the flags in the private data.
const FLAGS_OFFSET: usize = 5;

/// Adds the private data fields to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    PrivateData::describe(registry);
    registry.field(&FLAGS);
}

impl PrivateData {
    /// Defaults of a side without private data. RFC 8797 section 5.1.
    pub const DEFAULT: Self = Self {
        format_identifier: PrivateDataFormatIdentifier::RPC_OVER_RDMA,
        version: 1,
        remote_invalidation: false,
        send_size: 0,
        receive_size: 0,
    };

    /// Searches the private data of a connection, whose beginning other layers may use. `at` is the position of
    /// `private_data` for the observer. RFC 8797 section 5.2.
    pub fn find<'a, O: FieldObserver<'a>>(private_data: &'a [u8], at: usize, observer: &mut O) -> Option<Self> {
        let identifier = PrivateDataFormatIdentifier::RPC_OVER_RDMA.0.to_be_bytes();
        let start = private_data
            .windows(Self::LENGTH)
            .position(|window| window.starts_with(&identifier) && window.get(4) == Some(&1))?;
        let (data, _) = Self::decode(private_data.get(start..)?, at + start, observer)?;
        if let Some(flags) = private_data.get(start + FLAGS_OFFSET) {
            let at = at + start + FLAGS_OFFSET;
            observer.value(&FLAGS, at..at + 1, FieldValue::Unsigned(u64::from(*flags)));
        }
        Some(data)
    }

    /// Returns the maximum length of a Send of this side in bytes. RFC 8797 section 4.2.
    pub fn send_threshold_bytes(&self) -> u32 {
        inline_threshold_bytes(self.send_size)
    }

    /// Returns the maximum length of a Receive of this side in bytes. RFC 8797 section 4.2.
    pub fn receive_threshold_bytes(&self) -> u32 {
        inline_threshold_bytes(self.receive_size)
    }
}

/// Version and flags of private data with the format identifier, whatever the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateDataVersionFlags {
    /// Version of the format. [`PrivateData`] is version 1.
    pub version: u8,
    /// All flags, with the reserved bits. RFC 8797 section 4.
    pub flags: u8,
}

impl PrivateDataVersionFlags {
    /// Bits of the flags that a sender sets to zero. RFC 8797 section 4.
    pub const RESERVED_FLAGS: u8 = 0xfe;

    /// Searches the private data of a connection. `None` if it has no complete private data of RPC-over-RDMA.
    pub fn find(private_data: &[u8]) -> Option<Self> {
        let identifier = PrivateDataFormatIdentifier::RPC_OVER_RDMA.0.to_be_bytes();
        let mut windows = private_data.windows(PrivateData::LENGTH);
        let bytes = windows.find(|window| window.starts_with(&identifier))?;
        Some(Self { version: *bytes.get(4)?, flags: *bytes.get(FLAGS_OFFSET)? })
    }
}

/// Private data of one side of a connection, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidePrivateData {
    /// The side sent private data.
    Present(PrivateData),
    /// The side sent none; [`PrivateData::DEFAULT`] applies. RFC 8797 section 5.1.
    Absent,
    /// The private data is truncated before the format identifier, or its message was not captured.
    Cut,
}

impl SidePrivateData {
    /// Searches possibly truncated private data, as [`PrivateData::find`] does.
    pub fn find<'a, O: FieldObserver<'a>>(private_data: CapturedSlice<'a>, observer: &mut O) -> Self {
        match PrivateData::find(private_data.bytes, private_data.at, observer) {
            Some(data) => Self::Present(data),
            None if private_data.bytes.len() < private_data.length => Self::Cut,
            None => Self::Absent,
        }
    }

    /// Returns the private data, if the side sent it.
    pub fn present(self) -> Option<PrivateData> {
        match self {
            Self::Present(data) => Some(data),
            Self::Absent | Self::Cut => None,
        }
    }

    /// Returns the effective parameters of the side, or `None` if unknown.
    pub fn effective(self) -> Option<PrivateData> {
        match self {
            Self::Present(data) => Some(data),
            Self::Absent => Some(PrivateData::DEFAULT),
            Self::Cut => None,
        }
    }

    /// Returns the name in output.
    pub fn key(self) -> &'static str {
        match self {
            Self::Present(_) => "present",
            Self::Absent => "none",
            Self::Cut => "cut",
        }
    }
}

/// Returns the inline threshold in bytes of an encoded size. RFC 8797 section 4.2.
fn inline_threshold_bytes(size: u8) -> u32 {
    (u32::from(size) + 1) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldDefinition, NullFieldObserver};

    const BYTES: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 0b1, 3, 255];

    fn find(bytes: &[u8]) -> Option<PrivateData> {
        PrivateData::find(bytes, 0, &mut NullFieldObserver)
    }

    #[test]
    fn rfc8797_section_4_sizes_count_kilobytes_beyond_the_first() {
        let found = find(&BYTES).unwrap();
        assert_eq!((found.send_threshold_bytes(), found.receive_threshold_bytes()), (4096, 262_144));
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
        impl<'a> FieldObserver<'a> for Flags {
            fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
            fn leave(&mut self, _: usize) {}
            fn value(&mut self, field: &'static FieldDefinition, at: std::ops::Range<usize>, value: FieldValue<'a>) {
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
    fn the_format_is_known_for_every_version() {
        let bytes = [&[0xf6, 0xab, 0x0e][..], &[0xf6, 0xab, 0x0e, 0x18, 2, 0x81, 0, 0]].concat();
        assert_eq!(find(&bytes), None);
        assert_eq!(PrivateDataVersionFlags::find(&bytes), Some(PrivateDataVersionFlags { version: 2, flags: 0x81 }));
        assert_eq!(PrivateDataVersionFlags::find(&bytes[..10]), None);
    }

    #[test]
    fn rfc8797_section_5_2_the_identifier_may_stand_at_any_offset() {
        let bytes = [&[0xf6, 0xab, 0x0e][..], &BYTES, &[0; 45]].concat();
        assert_eq!(find(&bytes), find(&BYTES));
    }

    #[test]
    fn rfc8797_section_5_2_unknown_versions_and_short_data_are_no_private_data() {
        let mut bytes = BYTES;
        bytes[4] = 2;
        assert_eq!(find(&bytes), None);
        assert_eq!(find(&BYTES[..7]), None);
        assert_eq!(find(&[0; 56]), None);
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn private_data_that_the_capture_cut_is_not_absent() {
        let side =
            |bytes: &[u8], length| SidePrivateData::find(CapturedSlice::new(bytes, length, 0), &mut NullFieldObserver);
        let padded = [&[0; 10][..], &BYTES, &[0; 38]].concat();
        for captured in 0..padded.len() {
            let expected = match find(&padded[..captured]) {
                Some(found) => SidePrivateData::Present(found),
                None => SidePrivateData::Cut,
            };
            assert_eq!(side(&padded[..captured], padded.len()), expected, "{captured}");
        }
        assert_eq!(side(&[0; 56], 56), SidePrivateData::Absent);
        assert_eq!(side(&[], 0).effective(), Some(PrivateData::DEFAULT));
        assert_eq!(side(&[0; 30], 56).effective(), None);
    }

    #[test]
    fn rfc8797_section_5_1_the_default_threshold_is_1024_bytes() {
        assert_eq!(PrivateData::DEFAULT.send_threshold_bytes(), 1024);
        assert_eq!(PrivateData::DEFAULT.receive_threshold_bytes(), 1024);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(before: Vec<u8>, after: Vec<u8>) {
            let bytes = [&before[..], &BYTES[..4], &after].concat();
            let _ = find(&bytes);
        }
    }
}
