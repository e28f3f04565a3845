//! Opaque data with the structure given by a preceding number: bodies of credentials, layouts and device addresses.

use super::cursor::{Cursor, XdrError};
use super::encoder::Encoder;
use super::types::{Opaque, report_fill};
use super::xdr_type::Xdr;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, NullFieldObserver};

/// An opaque item of at most `BOUND` bytes whose structure depends on a preceding value.
///
/// Other content is not an error: it stays opaque, and decoding continues after it.
#[derive(Clone, Debug, PartialEq)]
pub enum StructuredOpaque<'a, T, const BOUND: u32 = { u32::MAX }> {
    /// The structure, which fills the item exactly.
    Known(T),
    /// Other content.
    Unread(Opaque<'a, BOUND>),
}

impl<T, const BOUND: u32> StructuredOpaque<'_, T, BOUND> {
    /// Returns the structure, if the item contains it.
    pub fn structure(&self) -> Option<&T> {
        match self {
            Self::Known(structure) => Some(structure),
            Self::Unread(_) => None,
        }
    }
}

impl<'a, T: Xdr<'a>, const BOUND: u32> Xdr<'a> for StructuredOpaque<'a, T, BOUND> {
    const KIND: FieldKind = T::KIND;
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
        let (at, position) = (cursor.at(), cursor.position());
        let length = cursor.word()?;
        if length > BOUND {
            return Err(XdrError::TooLong { at, length, bound: BOUND });
        }
        let content = cursor.take_enclosed(length)?;
        if content.remaining() < length as usize {
            return Err(XdrError::NotEligible { at });
        }
        // Trial decode without the observer, so that it never receives fields of a structure that does not match;
        // one that receives no fields takes part.
        let mut trial = content;
        let decoded = match O::is_enabled() {
            true => T::decode(&mut trial, field, &mut NullFieldObserver),
            false => T::decode(&mut trial, field, observer),
        };
        match decoded {
            Ok(known) if trial.remaining() == 0 => {
                if O::is_enabled() {
                    observer.structural_bytes(position..position + 4);
                    T::decode(&mut { content }, field, observer)?;
                    report_fill(trial.position(), cursor, observer);
                }
                // Checks that the fill bytes were captured, too.
                cursor.take(0)?;
                return Ok(Self::Known(known));
            }
            Err(error) if error.is_cut() => {
                T::decode(&mut { content }, field, observer)?;
                return Err(error);
            }
            _ => {}
        }
        let bytes = { content }.take(content.remaining())?;
        observer.value(field, position..position + 4 + bytes.len(), FieldValue::Bytes(bytes));
        report_fill(position + 4 + bytes.len(), cursor, observer);
        cursor.take(0)?;
        Ok(Self::Unread(Opaque(bytes)))
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Known(structure) => encoder.append_nested(|encoder| structure.encode(encoder)),
            Self::Unread(body) => body.encode(encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::ChunkedDataItem;

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

    fn decode(cursor: &mut Cursor<'static>) -> Result<StructuredOpaque<'static, u64, 8>, XdrError> {
        StructuredOpaque::decode(cursor, &FIELD, &mut NullFieldObserver)
    }

    #[test]
    fn a_structure_that_fills_the_item_is_read() {
        let mut cursor = Cursor::new(b"\0\0\0\x08\0\0\0\0\0\0\0\x2anext");
        assert_eq!(decode(&mut cursor), Ok(StructuredOpaque::Known(42)));
        assert_eq!(cursor.rest(), b"next");
    }

    #[test]
    fn any_other_item_stays_opaque_and_decoding_continues() {
        for (bytes, body) in [(&b"\0\0\0\x04\0\0\0\x2anext"[..], &b"\0\0\0\x2a"[..]), (b"\0\0\0\x01a\0\0\0next", b"a")]
        {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(decode(&mut cursor), Ok(StructuredOpaque::Unread(Opaque(body))));
            assert_eq!(cursor.rest(), b"next");
        }
    }

    #[test]
    fn a_length_over_the_bound_is_refused() {
        let error = XdrError::TooLong { at: 0, length: 12, bound: 8 };
        assert_eq!(decode(&mut Cursor::new(b"\0\0\0\x0ctwelve bytes")), Err(error));
    }

    #[test]
    fn an_item_that_the_capture_cut_is_no_other_structure() {
        let mut cursor = Cursor::new(b"\0\0\0\x08\0\0\0\0").with_length(12);
        assert!(decode(&mut cursor).is_err_and(|error| error.is_cut()));
        let mut cursor = Cursor::new(b"\0\0\0\x01a").with_length(8);
        assert_eq!(decode(&mut cursor), Err(XdrError::Cut { at: 5 }));
    }

    #[test]
    fn a_chunk_inside_the_item_is_named() {
        static CHUNKS: [ChunkedDataItem<'static>; 1] = [ChunkedDataItem { position: Some(8), length: 4, bytes: None }];
        let mut cursor = Cursor::new(b"\0\0\0\x08\0\0\0\0").with_chunks(&CHUNKS);
        assert_eq!(decode(&mut cursor), Err(XdrError::NotEligible { at: 0 }));
    }
}
