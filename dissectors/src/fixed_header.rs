//! Headers of a fixed layout (BTH, RETH, MPA, DDP, CM messages). They are described as in the specifications: by bit
//! positions, from the first bit on the wire, most significant bit first.
//!
//! ```
//! nfsrdma_dissectors::header! {
//!     /// ACK Extended Transport Header. InfiniBand Architecture Specification volume 1, section 9.3.5.
//!     pub struct Example [4] "infiniband.aeth" {
//!         /// The kind of acknowledgement and its details.
//!         0..8 syndrome: u8 => "infiniband.aeth.syndrome",
//!         8..32 msn: u32 => "infiniband.aeth.msn",
//!     }
//! }
//! use nfsrdma_dissectors::field::NullFieldObserver;
//! let (header, rest) = Example::decode(&[0x1f, 0, 0, 7, 99], 0, &mut NullFieldObserver).unwrap();
//! assert_eq!((header.syndrome, header.msn, rest), (0x1f, 7, &[99][..]));
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::{FieldKind, FieldValue, FlagName};

/// A value in bits `START..END` of a fixed header.
pub trait HeaderBitFieldValue<'a>: Copy {
    /// Display type of the value.
    const KIND: FieldKind;
    /// Names of the values, or of the bits of a mask, in the specification.
    const NAMES: &'static [FlagName] = &[];

    /// Reads the value. Bounds are checked at compile time.
    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self;

    /// Writes the value.
    fn put<const START: usize, const END: usize>(self, header: &mut [u8]);

    /// Returns the value for an observer.
    fn value(self) -> FieldValue<'a>;
}

/// Returns bits `START..END` of a header as a number: at most 64 bits, in at most eight bytes.
#[inline(always)]
pub fn bits<const LENGTH: usize, const START: usize, const END: usize>(header: &[u8; LENGTH]) -> u64 {
    const { assert!(START < END && END <= LENGTH * 8 && END.div_ceil(8) - START / 8 <= 8) };
    let mut value = 0u64;
    let mut byte = START / 8;
    while byte < END.div_ceil(8) {
        value = value << 8 | u64::from(header[byte]);
        byte += 1;
    }
    let value = value >> (END.div_ceil(8) * 8 - END);
    if END - START == 64 { value } else { value & ((1 << (END - START)) - 1) }
}

/// Writes a number to bits `START..END` of a header. Bits beyond its end are dropped.
pub fn put_bits<const START: usize, const END: usize>(value: u64, header: &mut [u8]) {
    for bit in START..END {
        let (byte, shift) = (bit / 8, 7 - bit % 8);
        if let Some(byte) = header.get_mut(byte) {
            *byte = *byte & !(1 << shift) | (((value >> (END - 1 - bit)) & 1) as u8) << shift;
        }
    }
}

macro_rules! fixed_number {
    ($($number:ty),*) => {$(
        impl<'a> HeaderBitFieldValue<'a> for $number {
            const KIND: FieldKind = FieldKind::Unsigned;

            #[inline(always)]
            fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
                const { assert!(END - START <= <$number>::BITS as usize) };
                bits::<LENGTH, START, END>(header) as $number
            }

            fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
                put_bits::<START, END>(u64::from(self), header);
            }

            fn value(self) -> FieldValue<'a> {
                FieldValue::Unsigned(u64::from(self))
            }
        }
    )*};
}
fixed_number!(u8, u16, u32, u64);

impl<'a> HeaderBitFieldValue<'a> for bool {
    const KIND: FieldKind = FieldKind::Bool;

    #[inline(always)]
    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
        bits::<LENGTH, START, END>(header) != 0
    }

    fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
        put_bits::<START, END>(u64::from(self), header);
    }

    fn value(self) -> FieldValue<'a> {
        FieldValue::Bool(self)
    }
}

/// Returns the `N` bytes at byte `START / 8`.
fn bytes_at<const LENGTH: usize, const START: usize, const N: usize>(header: &[u8; LENGTH]) -> [u8; N] {
    const { assert!(START.is_multiple_of(8) && START / 8 + N <= LENGTH) };
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[START / 8..START / 8 + N]);
    bytes
}

fn put_bytes<const START: usize>(bytes: &[u8], header: &mut [u8]) {
    if let Some(target) = header.get_mut(START / 8..START / 8 + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

macro_rules! fixed_bytes {
    ($($type:ty, $length:literal, $kind:ident, |$value:ident| $bytes:expr;)*) => {$(
        impl<'a> HeaderBitFieldValue<'a> for $type {
            const KIND: FieldKind = FieldKind::$kind;

            fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
                const { assert!(END - START == $length * 8) };
                Self::from(bytes_at::<LENGTH, START, $length>(header))
            }

            fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
                let $value = self;
                put_bytes::<START>(&$bytes, header);
            }

            fn value(self) -> FieldValue<'a> {
                FieldValue::$kind(self)
            }
        }
    )*};
}
fixed_bytes! {
    Ipv4Addr, 4, Ipv4, |address| address.octets();
    Ipv6Addr, 16, Ipv6, |address| address.octets();
    [u8; 6], 6, Ethernet, |address| address;
}

/// The beginning of a header whose end was not captured.
///
/// It is decoded twice, with the other bits clear and set. The captured fields are those with one value.
#[derive(Clone, Copy, Debug)]
pub struct PartlyCapturedHeader<H> {
    clear: H,
    set: H,
}

impl<H> PartlyCapturedHeader<H> {
    /// Combines the header with the bits clear, and the one with the bits set, that were not captured.
    pub fn new(clear: H, set: H) -> Self {
        Self { clear, set }
    }

    /// Returns a field if all of its bits were captured.
    pub fn field<T: PartialEq>(&self, get: impl Fn(&H) -> T) -> Option<T> {
        let value = get(&self.clear);
        (value == get(&self.set)).then_some(value)
    }
}

/// A range of whole bytes, borrowed.
impl<'a> HeaderBitFieldValue<'a> for &'a [u8] {
    const KIND: FieldKind = FieldKind::Bytes;

    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
        const { assert!(START.is_multiple_of(8) && END.is_multiple_of(8) && END <= LENGTH * 8) };
        &header[START / 8..END / 8]
    }

    fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
        put_bytes::<START>(self, header);
    }

    fn value(self) -> FieldValue<'a> {
        FieldValue::Bytes(self)
    }
}

/// Defines a newtype of a number as a value of fixed headers, and of XDR if it has 32 or 64 bits, shown in decimal or
/// hexadecimal.
///
/// `number! { /// docs  pub struct Qpn(u32) as Hex(6); }`
#[macro_export]
macro_rules! number {
    ($($(#[$meta:meta])* pub struct $name:ident($number:ident) as $kind:expr;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl<'a> $crate::fixed_header::HeaderBitFieldValue<'a> for $name {
            const KIND: $crate::field::FieldKind = { use $crate::field::FieldKind::*; $kind };

            #[inline(always)]
            fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
                Self(<$number as $crate::fixed_header::HeaderBitFieldValue>::get::<LENGTH, START, END>(header))
            }

            fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
                $crate::fixed_header::HeaderBitFieldValue::put::<START, END>(self.0, header);
            }

            fn value(self) -> $crate::field::FieldValue<'a> {
                $crate::field::FieldValue::Unsigned(u64::from(self.0))
            }
        }

        /// Displays the number as its fields do.
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match <Self as $crate::fixed_header::HeaderBitFieldValue<'_>>::KIND {
                    $crate::field::FieldKind::Hex(digits) => {
                        write!(f, "{:#0width$x}", self.0, width = usize::from(digits) + 2)
                    }
                    _ => ::std::fmt::Display::fmt(&self.0, f),
                }
            }
        }

        $crate::number!(@xdr $name $number);
    )*};
    (@xdr $name:ident u8) => {};
    (@xdr $name:ident u16) => {};
    (@xdr $name:ident $number:ident) => {
        impl<'a> $crate::xdr::Xdr<'a> for $name {
            const KIND: $crate::field::FieldKind = <Self as $crate::fixed_header::HeaderBitFieldValue<'a>>::KIND;

            #[inline]
            fn decode<O: $crate::field::FieldObserver<'a>>(
                cursor: &mut $crate::xdr::Cursor<'a>,
                field: &'static $crate::field::FieldDefinition,
                observer: &mut O,
            ) -> Result<Self, $crate::xdr::XdrError> {
                <$number as $crate::xdr::Xdr<'a>>::decode(cursor, field, observer).map(Self)
            }

            fn encode(&self, encoder: &mut $crate::xdr::Encoder) {
                $crate::xdr::Xdr::encode(&self.0, encoder);
            }
        }
    };
}

/// Defines a newtype of a number with named values as an enumeration of fixed headers. It is displayed by name, or in
/// hexadecimal if the value has none.
///
/// `named! { /// docs  pub struct MadManagementClass(u8) { COMMUNICATION = 0x07 "ComMgt", } }`
#[macro_export]
macro_rules! named {
    ($($(#[$meta:meta])* pub struct $name:ident($number:ty) {
        $($(#[$value_meta:meta])* $constant:ident = $value:literal $text:literal),* $(,)?
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        #[allow(missing_docs)]
        impl $name {
            $($(#[$value_meta])* pub const $constant: Self = Self($value);)*

            /// Returns the specification's name of the value.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl<'a> $crate::fixed_header::HeaderBitFieldValue<'a> for $name {
            const KIND: $crate::field::FieldKind = $crate::field::FieldKind::Enum;
            const NAMES: &'static [$crate::field::FlagName] = &[$(($value, $text)),*];

            #[inline(always)]
            fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
                Self(<$number as $crate::fixed_header::HeaderBitFieldValue>::get::<LENGTH, START, END>(header))
            }

            fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
                $crate::fixed_header::HeaderBitFieldValue::put::<START, END>(self.0, header);
            }

            fn value(self) -> $crate::field::FieldValue<'a> {
                $crate::field::FieldValue::Enum(u64::from(self.0), self.name())
            }
        }
    )*};
}

/// Defines headers of a fixed layout: `pub struct Name [bytes] "filter name" { bits name: Type => "filter name" }`.
///
/// Generates the structure, `LENGTH`, `GROUP`, `FIELDS` (by name), `describe`, `decode`, `decode_slice`, `encode` and,
/// if the header borrows nothing, `decode_part`. Bits without a field are reserved: not reported, and zero when
/// encoded.
#[macro_export]
macro_rules! header {
    ($($(#[doc = $doc:literal])+ pub struct $name:ident $(<$lt:lifetime>)? [$length:literal] $group:literal {
        $($(#[doc = $field_doc:literal])* $start:literal .. $end:literal $field:ident : $type:ty => $filter:literal),* $(,)?
    })*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct $name $(<$lt>)? {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// Length of the header in bytes.
            pub const LENGTH: usize = $length;

            /// The header as one group of fields.
            pub const GROUP: &'static $crate::field::FieldDefinition =
                &$crate::field::FieldDefinition::group($group, stringify!($name), concat!($($doc),+));

            /// Adds the header and its fields to a registry.
            pub fn describe(registry: &mut $crate::field::registry::FieldRegistry) {
                registry.field(Self::GROUP);
                $(registry.add(
                    Self::FIELDS.$field,
                    <$type as $crate::fixed_header::HeaderBitFieldValue>::NAMES,
                    Self::GROUP.doc,
                );)*
            }
        }

        const _: () = {
            /// The fields of the header.
            #[allow(missing_docs)]
            pub struct HeaderFieldDefinitionsByName {
                $(pub $field: &'static $crate::field::FieldDefinition,)*
            }

            impl $(<$lt>)? $name $(<$lt>)? {
                /// The fields by name.
                pub const FIELDS: &'static HeaderFieldDefinitionsByName = &HeaderFieldDefinitionsByName {
                    $($field: &$crate::field::FieldDefinition {
                        name: $filter,
                        label: stringify!($field),
                        kind: <$type as $crate::fixed_header::HeaderBitFieldValue>::KIND,
                        doc: concat!("", $($field_doc),*),
                    },)*
                };
            }
        };

        $crate::header!(@decode $name $(<$lt>)? [$length] { $($start .. $end $field: $type,)* });
    )*};
    (@decode $name:ident [$length:literal] { $($body:tt)* }) => {
        $crate::header!(@functions 'a [] ['a] $name [$length] { $($body)* });

        impl $name {
            /// Decodes the header at the start of `bytes`, of which the capture may have only the beginning.
            pub fn decode_part(bytes: &[u8]) -> Option<$crate::fixed_header::PartlyCapturedHeader<Self>> {
                let [clear, set] = [0, 0xff].map(|fill| {
                    let mut header = [fill; $length];
                    header.iter_mut().zip(bytes).for_each(|(byte, captured)| *byte = *captured);
                    Self::decode(&header, 0, &mut $crate::field::NullFieldObserver).map(|(header, _)| header)
                });
                Some($crate::fixed_header::PartlyCapturedHeader::new(clear?, set?))
            }
        }
    };
    (@decode $name:ident <$lt:lifetime> [$length:literal] { $($body:tt)* }) => {
        $crate::header!(@functions $lt [$lt] [] $name [$length] { $($body)* });
    };
    // The lifetime of the bytes belongs to the header if it borrows them, otherwise to the functions.
    (@functions $bytes:lifetime [$($lt:lifetime)?] [$($free:lifetime)?] $name:ident [$length:literal] {
        $($start:literal .. $end:literal $field:ident : $type:ty,)*
    }) => {
        impl $(<$lt>)? $name $(<$lt>)? {
            /// Decodes the header at the start of `bytes`. Returns it with the bytes after it, or `None` if there are
            /// too few bytes. `at` is the position of `bytes` for the observer.
            #[inline(always)]
            pub fn decode<$($free,)? O: $crate::field::FieldObserver<$bytes>>(
                bytes: &$bytes [u8],
                at: usize,
                observer: &mut O,
            ) -> Option<(Self, &$bytes [u8])> {
                let (header, rest) = bytes.split_first_chunk::<$length>()?;
                let this = Self {
                    $($field: <$type as $crate::fixed_header::HeaderBitFieldValue>::get::<$length, $start, $end>(header),)*
                };
                if O::is_enabled() && observer.is_interested_in_header(Self::GROUP, Self::describe) {
                    observer.enter(Self::GROUP, at);
                    $(observer.value(
                        Self::FIELDS.$field,
                        at + $start / 8..at + usize::div_ceil($end, 8),
                        $crate::fixed_header::HeaderBitFieldValue::value(this.$field),
                    );)*
                    observer.leave(at + $length);
                }
                Some((this, rest))
            }

            /// Decodes the header at the start of `part`. Returns it with the part after it, or `None` if too few bytes
            /// were captured.
            #[inline(always)]
            pub fn decode_slice<$($free,)? O: $crate::field::FieldObserver<$bytes>>(
                part: $crate::captured_frame::CapturedSlice<$bytes>,
                observer: &mut O,
            ) -> Option<(Self, $crate::captured_frame::CapturedSlice<$bytes>)> {
                let (header, _) = Self::decode(part.bytes, part.at, observer)?;
                Some((header, part.skip_bytes($length)))
            }

            /// Encodes the header.
            pub fn encode(&self) -> [u8; $length] {
                let mut header = [0; $length];
                $($crate::fixed_header::HeaderBitFieldValue::put::<$start, $end>(self.$field, &mut header);)*
                header
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infiniband::cm::CmDisconnectRequest;

    #[test]
    fn of_a_header_that_was_cut_the_fields_before_the_cut_are_known() {
        let bytes = [1, 2, 3, 4, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0];
        let fields = |length: usize| {
            let part = CmDisconnectRequest::decode_part(&bytes[..length]).unwrap();
            let numbers = (part.field(|it| it.local_comm_id), part.field(|it| it.remote_comm_id));
            (numbers.0.map(|id| id.0), numbers.1.map(|id| id.0), part.field(|it| it.remote_qpn).map(|qpn| qpn.0))
        };
        assert_eq!(fields(3), (None, None, None));
        assert_eq!(fields(4), (Some(0x0102_0304), None, None));
        assert_eq!(fields(7), (Some(0x0102_0304), None, None));
        assert_eq!(fields(8), (Some(0x0102_0304), Some(0), None));
        assert_eq!(fields(10), (Some(0x0102_0304), Some(0), None));
        assert_eq!(fields(11), (Some(0x0102_0304), Some(0), Some(0xff_ffff)));
        assert_eq!(fields(12), (Some(0x0102_0304), Some(0), Some(0xff_ffff)));
    }

    #[test]
    fn bits_are_numbered_from_the_first_on_the_wire() {
        let header = [0b1010_0101, 0xff, 0x01, 0x80, 0, 0, 0, 0];
        assert_eq!(bits::<8, 0, 1>(&header), 1);
        assert_eq!(bits::<8, 1, 4>(&header), 0b010);
        assert_eq!(bits::<8, 4, 12>(&header), 0b0101_1111);
        assert_eq!(bits::<8, 16, 25>(&header), 0b11);
        assert_eq!(bits::<8, 0, 64>(&header), 0xa5ff_0180_0000_0000);
    }

    #[test]
    fn put_is_the_inverse_of_get_and_leaves_other_bits_alone() {
        let mut header = [0xff; 8];
        put_bits::<6, 19>(0b1_0101_0101_0101, &mut header);
        assert_eq!(bits::<8, 6, 19>(&header), 0b1_0101_0101_0101);
        assert_eq!(bits::<8, 0, 6>(&header), 0b11_1111);
        assert_eq!(bits::<8, 19, 64>(&header), (1 << 45) - 1);
    }
}
