//! Built-in XDR types (RFC 4506 section 4), and data items that may be sent in chunks.

use super::cursor::{Cursor, XdrError};
use super::encoder::Encoder;
use super::padding::roundup;
use super::xdr_type::Xdr;
use crate::field::registry::FieldRegistry;
use crate::field::{
    DataItemPlacement, DdpEligibleItem, FieldDefinition, FieldKind, FieldObserver, FieldValue, FlagName,
};

macro_rules! xdr_number {
    ($($number:ty, $read:ident, $value:expr, $kind:ident;)*) => {$(
        impl<'a> Xdr<'a> for $number {
            const KIND: FieldKind = FieldKind::$kind;
            const LENGTH: Option<usize> = Some(size_of::<Self>());

            #[inline]
            fn decode<O: FieldObserver<'a>>(
                cursor: &mut Cursor<'a>,
                field: &'static FieldDefinition,
                observer: &mut O,
            ) -> Result<Self, XdrError> {
                let at = cursor.position();
                let number = cursor.$read()? as $number;
                observer.value(field, at..cursor.position(), $value(number.into()));
                Ok(number)
            }

            fn encode(&self, encoder: &mut Encoder) {
                encoder.$read(*self as _);
            }
        }
    )*};
}
xdr_number! {
    u32, word, FieldValue::Unsigned, Unsigned;
    u64, hyper, FieldValue::Unsigned, Unsigned;
    i32, word, FieldValue::Signed, Signed;
    i64, hyper, FieldValue::Signed, Signed;
}

impl<'a> Xdr<'a> for bool {
    const KIND: FieldKind = FieldKind::Bool;
    const LENGTH: Option<usize> = Some(4);

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let (start, at) = (cursor.position(), cursor.at());
        let word = cursor.word()?;
        let value = to_bool(word, at).inspect_err(|_| observer.undefined(field, "bool", word))?;
        observer.value(field, start..cursor.position(), FieldValue::Bool(value));
        Ok(value)
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.word(u32::from(*self));
    }
}

/// Decodes the bool before an optional value or an entry of a linked list.
pub(super) fn decode_follows<'a, O: FieldObserver<'a>>(
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<bool, XdrError> {
    let (at, position) = (cursor.at(), cursor.position());
    let follows = cursor.word()?;
    observer.structural_bytes(position..position + 4);
    to_bool(follows, at)
}

fn to_bool(value: u32, at: usize) -> Result<bool, XdrError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(XdrError::Invalid { at, what: "bool", value }),
    }
}

/// `void`: an arm without content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Void;

impl<'a> Xdr<'a> for Void {
    const KIND: FieldKind = FieldKind::Group;

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        _: &mut Cursor<'a>,
        _: &'static FieldDefinition,
        _: &mut O,
    ) -> Result<Self, XdrError> {
        Ok(Self)
    }

    fn encode(&self, _: &mut Encoder) {}
}

/// Fixed-length opaque data (RFC 4506 section 4.9).
impl<'a, const N: usize> Xdr<'a> for [u8; N] {
    const KIND: FieldKind = FieldKind::Bytes;
    const LENGTH: Option<usize> = Some(N + roundup(N));

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let bytes = cursor.take_padded(N)?;
        observer.value(field, at..at + N, FieldValue::Bytes(bytes));
        report_fill(at + N, cursor, observer);
        let mut value = [0; N];
        value.copy_from_slice(bytes);
        Ok(value)
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.append_padded(self);
    }
}

/// Fixed-length array of numbers (RFC 4506 section 4.12).
impl<'a, T: Xdr<'a> + Copy + Default, const N: usize> Xdr<'a> for [T; N] {
    const KIND: FieldKind = T::KIND;
    const IS_DDP_ELIGIBLE: bool = T::IS_DDP_ELIGIBLE;

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        observer.list(field, cursor.position());
        let mut array = [T::default(); N];
        for item in &mut array {
            *item = T::decode(cursor, field, observer)?;
        }
        Ok(array)
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.iter().for_each(|item| item.encode(encoder));
    }
}

/// Reads the length of variable-length data and checks it against `bound`.
#[inline]
fn read_length(cursor: &mut Cursor<'_>, bound: u32) -> Result<u32, XdrError> {
    let at = cursor.at();
    let length = cursor.word()?;
    if length > bound { Err(XdrError::TooLong { at, length, bound }) } else { Ok(length) }
}

/// Reports the fill bytes from `end`, the end of the data, to the cursor (RFC 4506 section 4.10).
#[inline(always)]
pub(super) fn report_fill<'a, O: FieldObserver<'a>>(end: usize, cursor: &Cursor<'a>, observer: &mut O) {
    if end < cursor.position() {
        observer.structural_bytes(end..cursor.position());
    }
}

macro_rules! inline_data {
    ($(#[doc = $doc:literal])+ $name:ident, $kind:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name<'a, const BOUND: u32 = { u32::MAX }>(pub &'a [u8]);

        impl<'a, const BOUND: u32> Xdr<'a> for $name<'a, BOUND> {
            const KIND: FieldKind = FieldKind::$kind;

            #[inline]
            fn decode<O: FieldObserver<'a>>(
                cursor: &mut Cursor<'a>,
                field: &'static FieldDefinition,
                observer: &mut O,
            ) -> Result<Self, XdrError> {
                let (at, position) = (cursor.at(), cursor.position());
                let length = read_length(cursor, BOUND)?;
                if cursor.read_chunk_here().is_some() {
                    return Err(XdrError::NotEligible { at });
                }
                let (begin, bytes) = cursor.take_opaque(length)?;
                let end = begin + bytes.len();
                observer.value(field, position..end, FieldValue::$kind(bytes));
                report_fill(end, cursor, observer);
                Ok(Self(bytes))
            }

            fn encode(&self, encoder: &mut Encoder) {
                encoder.append_opaque(self.0);
            }
        }
    };
}
inline_data! {
    /// Variable-length opaque data of at most `BOUND` bytes (RFC 4506 section 4.10).
    Opaque, Bytes
}
inline_data! {
    /// A string of at most `BOUND` bytes (RFC 4506 section 4.11), usually UTF-8, which is not checked.
    Text, Text
}

impl<const BOUND: u32> std::fmt::Debug for Opaque<'_, BOUND> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const BOUND: u32> std::fmt::Debug for Text<'_, BOUND> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

macro_rules! ddp_data {
    ($(#[doc = $doc:literal])+ $name:ident, $kind:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            /// Inline content.
            Inline(&'a [u8]),
            /// Content sent in a chunk.
            Chunk {
                /// Length in bytes, as in the message.
                length: u32,
                /// Content, if it was retained and captured completely.
                bytes: Option<&'a [u8]>,
            },
        }

        impl<'a> $name<'a> {
            /// Returns the length of the content in bytes.
            pub fn length(&self) -> u32 {
                match *self {
                    Self::Inline(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                    Self::Chunk { length, .. } => length,
                }
            }

            /// Returns the content, if available.
            pub fn bytes(&self) -> Option<&'a [u8]> {
                match *self {
                    Self::Inline(bytes) => Some(bytes),
                    Self::Chunk { bytes, .. } => bytes,
                }
            }
        }

        impl<'a> Xdr<'a> for $name<'a> {
            const KIND: FieldKind = FieldKind::$kind;
            const IS_DDP_ELIGIBLE: bool = true;

            #[inline]
            fn decode<O: FieldObserver<'a>>(
                cursor: &mut Cursor<'a>,
                field: &'static FieldDefinition,
                observer: &mut O,
            ) -> Result<Self, XdrError> {
                let position = cursor.position();
                let length = cursor.word()?;
                let (content_at, operation) = (cursor.unreduced_position(), cursor.eligible_operation());
                let chunk = cursor.take_chunk(length);
                let placement = chunk.map_or(DataItemPlacement::Inline, |chunk| cursor.placement(chunk));
                let item = DdpEligibleItem { position: content_at, length, operation, placement };
                observer.eligible_item(item);
                if let Some(chunk) = chunk {
                    let bytes = chunk.bytes.and_then(|bytes| bytes.get(..length as usize));
                    observer.value(field, position..position + 4, FieldValue::Chunk(length, bytes));
                    return Ok(Self::Chunk { length, bytes });
                }
                let (begin, bytes) = cursor.take_opaque(length)?;
                let end = begin + bytes.len();
                observer.value(field, position..end, FieldValue::$kind(bytes));
                report_fill(end, cursor, observer);
                Ok(Self::Inline(bytes))
            }

            fn encode(&self, encoder: &mut Encoder) {
                match *self {
                    Self::Inline(bytes) => encoder.append_opaque(bytes),
                    Self::Chunk { length, .. } => encoder.append_chunk_length(length),
                }
            }
        }
    };
}
ddp_data! {
    /// DDP-eligible file data (RFC 8166 section 6.1), inline or in a chunk. Never interpreted.
    Ddp, Bytes
}
ddp_data! {
    /// A DDP-eligible path or link text. Its chunk should be retained for display.
    DdpText, Text
}

/// File data that is DDP-eligible in a draft of RFC 8267, but not in the RFC: inline, or in a Write chunk of the same
/// length if the message cannot hold it. Never interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlusDdpEligibleData<'a>(pub Ddp<'a>);

impl<'a> Xdr<'a> for ReadPlusDdpEligibleData<'a> {
    const KIND: FieldKind = FieldKind::Bytes;

    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let position = cursor.position();
        let length = cursor.word()?;
        if let Some(chunk) = cursor.take_ineligible_chunk(length) {
            let bytes = chunk.bytes.and_then(|bytes| bytes.get(..length as usize));
            observer.value(field, position..position + 4, FieldValue::Chunk(length, bytes));
            return Ok(Self(Ddp::Chunk { length, bytes }));
        }
        let (begin, bytes) = cursor.take_opaque(length)?;
        let end = begin + bytes.len();
        observer.value(field, position..end, FieldValue::Bytes(bytes));
        report_fill(end, cursor, observer);
        Ok(Self(Ddp::Inline(bytes)))
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.0.encode(encoder);
    }
}

/// The rest of the message: an undecoded body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndecodedMessageRest<'a>(pub &'a [u8]);

impl<'a> Xdr<'a> for UndecodedMessageRest<'a> {
    const KIND: FieldKind = FieldKind::Bytes;

    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let bytes = cursor.take(cursor.remaining())?;
        if !bytes.is_empty() {
            observer.value(field, at..at + bytes.len(), FieldValue::Bytes(bytes));
        }
        Ok(Self(bytes))
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.raw(self.0);
    }
}

/// Optional data (RFC 4506 section 4.19): a bool, then the value if it is TRUE.
impl<'a, T: Xdr<'a>> Xdr<'a> for Option<T> {
    const KIND: FieldKind = T::KIND;
    const NAMES: &'static [FlagName] = T::NAMES;
    const IS_DDP_ELIGIBLE: bool = T::IS_DDP_ELIGIBLE;

    fn describe(registry: &mut FieldRegistry) {
        T::describe(registry);
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        decode_follows(cursor, observer)?.then(|| T::decode(cursor, field, observer)).transpose()
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.word(u32::from(self.is_some()));
        if let Some(value) = self {
            value.encode(encoder);
        }
    }
}

/// A value that is too large to be copied with the values beside it.
impl<'a, T: Xdr<'a>> Xdr<'a> for Box<T> {
    const KIND: FieldKind = T::KIND;
    const NAMES: &'static [FlagName] = T::NAMES;
    const LENGTH: Option<usize> = T::LENGTH;
    const IS_DDP_ELIGIBLE: bool = T::IS_DDP_ELIGIBLE;

    fn describe(registry: &mut FieldRegistry) {
        T::describe(registry);
    }

    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        T::decode(cursor, field, observer).map(Self::new)
    }

    fn encode(&self, encoder: &mut Encoder) {
        T::encode(self, encoder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::NullFieldObserver;
    use crate::xdr::cursor::ChunkedDataItem;

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

    fn decode<'a, T: Xdr<'a>>(cursor: &mut Cursor<'a>) -> Result<T, XdrError> {
        T::decode(cursor, &FIELD, &mut NullFieldObserver)
    }

    #[test]
    fn opaque_data_is_filled_to_a_multiple_of_four() {
        let mut cursor = Cursor::new(b"\0\0\0\x05hello\0\0\0\0\0\0\x01");
        assert_eq!(decode::<Opaque>(&mut cursor), Ok(Opaque(b"hello")));
        assert_eq!(decode::<u32>(&mut cursor), Ok(1));
    }

    #[test]
    fn an_array_of_fixed_length_has_no_count() {
        let bytes = [0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode(&mut Cursor::new(&bytes)), Ok([7, -1]));
        assert_eq!(decode::<[i32; 3]>(&mut Cursor::new(&bytes)), Err(XdrError::Short { at: 8, needed: 4 }));
        let mut encoder = Encoder::new();
        [7, -1].encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
    }

    #[test]
    fn a_length_over_its_bound_is_refused_where_it_stands() {
        let mut cursor = Cursor::new(b"\0\0\0\x05hello\0\0\0");
        assert_eq!(decode::<Opaque<4>>(&mut cursor), Err(XdrError::TooLong { at: 0, length: 5, bound: 4 }));
    }

    #[test]
    fn bytes_not_captured_are_distinguished_from_bytes_not_sent() {
        let bytes = b"\0\0\0\x08hell";
        assert_eq!(decode::<Opaque>(&mut Cursor::new(bytes)), Err(XdrError::Short { at: 4, needed: 8 }));
        assert_eq!(decode::<Opaque>(&mut Cursor::new(bytes).with_length(12)), Err(XdrError::Cut { at: 8 }));
    }

    #[test]
    fn a_read_chunk_stands_in_for_the_item_at_its_position() {
        let chunks = [
            ChunkedDataItem { position: Some(4), length: 5, bytes: Some(b"hello") },
            ChunkedDataItem { position: Some(20), length: 3, bytes: None },
        ];
        let mut cursor = Cursor::new(b"\0\0\0\x05\0\0\0\x07\0\0\0\x03\0\0\0\x09").with_chunks(&chunks);
        assert_eq!(decode(&mut cursor), Ok(Ddp::Chunk { length: 5, bytes: Some(b"hello") }));
        assert_eq!(decode::<u32>(&mut cursor), Ok(7));
        assert_eq!(decode(&mut cursor), Ok(Ddp::Chunk { length: 3, bytes: None }));
        assert_eq!(decode::<u32>(&mut cursor), Ok(9));
        assert_eq!(cursor.unreduced_position(), 16 + 8 + 4);
    }

    /// Decodes one item per operation, like results of READ and READLINK.
    fn results<'a>(cursor: &mut Cursor<'a>, count: usize) -> Vec<Result<Ddp<'a>, XdrError>> {
        let one = |_| {
            let item = decode(cursor);
            cursor.end_eligible();
            item
        };
        (0..count).map(one).collect()
    }

    fn returned<const N: usize>(lengths: [u32; N]) -> [ChunkedDataItem<'static>; N] {
        lengths.map(|length| ChunkedDataItem { position: None, length, bytes: None })
    }

    const fn in_chunk(length: u32) -> Result<Ddp<'static>, XdrError> {
        Ok(Ddp::Chunk { length, bytes: None })
    }

    #[test]
    fn rfc8267_section_6_4_3_an_empty_chunk_in_the_middle_has_its_result_inline() {
        let chunks = returned([4, 0, 8]);
        let mut cursor = Cursor::new(b"\0\0\0\x04\0\0\0\x05hello\0\0\0\0\0\0\x08").with_chunks(&chunks);
        let expected = [in_chunk(4), Ok(Ddp::Inline(b"hello")), in_chunk(8)];
        assert_eq!(results(&mut cursor, 3), expected);
        assert_eq!((cursor.remaining(), cursor.unreduced_position()), (0, 20 + 12));
    }

    #[test]
    fn rfc8267_section_6_4_1_a_chunk_without_a_result_comes_back_empty_in_its_place() {
        let chunks = returned([4, 0, 8]);
        let mut cursor = Cursor::new(b"\0\0\0\x04\0\0\0\0\0\0\0\x08").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 3), [in_chunk(4), Ok(Ddp::Inline(b"")), in_chunk(8)]);
    }

    #[test]
    fn rfc8267_section_6_4_1_results_without_a_chunk_are_inline() {
        let chunks = returned([4]);
        let mut cursor = Cursor::new(b"\0\0\0\x04\0\0\0\x04here").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 2), [in_chunk(4), Ok(Ddp::Inline(b"here"))]);
    }

    #[test]
    fn rfc8166_section_4_3_2_2_a_server_that_passes_over_a_result_without_data_is_read() {
        let chunks = returned([8, 0]);
        let mut cursor = Cursor::new(b"\0\0\0\0\0\0\0\x08").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 2), [Ok(Ddp::Inline(b"")), in_chunk(8)]);
        // As many results as chunks: the last result has no chunk of its own.
        let chunks = returned([8, 4]);
        let mut cursor = Cursor::new(b"\0\0\0\0\0\0\0\x08\0\0\0\x04").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 3), [Ok(Ddp::Inline(b"")), in_chunk(8), in_chunk(4)]);
    }

    #[test]
    fn a_server_that_answers_inline_although_a_chunk_was_offered_is_read() {
        let chunks = returned([0, 8]);
        let mut cursor = Cursor::new(b"\0\0\0\x04here\0\0\0\x08").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 2), [Ok(Ddp::Inline(b"here")), in_chunk(8)]);
        // The message cannot hold it, so it was sent in the next chunk.
        let mut cursor = Cursor::new(b"\0\0\0\x08").with_chunks(&chunks);
        assert_eq!(results(&mut cursor, 1), [in_chunk(8)]);
    }

    #[test]
    fn a_chunk_in_the_place_of_another_item_is_named() {
        let chunks = [ChunkedDataItem { position: Some(4), length: 4, bytes: None }];
        let mut cursor = Cursor::new(b"\0\0\0\x04").with_chunks(&chunks);
        assert_eq!(decode::<Opaque>(&mut cursor), Err(XdrError::NotEligible { at: 0 }));
    }

    #[test]
    fn a_reduced_message_encodes_to_its_own_bytes_and_positions() {
        let mut encoder = Encoder::new();
        Ddp::Chunk { length: 5, bytes: None }.encode(&mut encoder);
        7u32.encode(&mut encoder);
        Ddp::Chunk { length: 3, bytes: None }.encode(&mut encoder);
        assert_eq!(encoder.splices().iter().map(|s| s.position).collect::<Vec<_>>(), [4, 20]);
        assert_eq!(encoder.bytes(), b"\0\0\0\x05\0\0\0\x07\0\0\0\x03");
    }

    #[test]
    fn roundup_completes_a_word() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(roundup), [0, 3, 2, 1, 0, 3]);
    }
}
