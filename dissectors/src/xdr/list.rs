//! Lists: counted arrays (RFC 4506 section 4.13) and linked lists of optional entries (section 4.19).
//!
//! A decoded list borrows the message and decodes its items again on iteration. Decoding therefore never allocates.

use std::fmt;

use super::cursor::{Cursor, XdrError};
use super::encoder::Encoder;
use super::types::decode_follows;
use super::xdr_type::Xdr;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FlagName, NullFieldObserver};

/// Storage of the items: in the decoded message, or in a slice.
#[derive(Debug)]
pub(crate) enum EncodedItemsOrSlice<'a, T> {
    Message(Cursor<'a>),
    Slice(&'a [T]),
}

impl<T> Clone for EncodedItemsOrSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for EncodedItemsOrSlice<'_, T> {}

/// Field for decoding items on iteration, without an observer.
static ITEM: FieldDefinition = FieldDefinition::group("", "item", "");

/// A list of at most `BOUND` items: a linked list if `IS_CHAIN`, otherwise a counted array.
pub struct XdrList<'a, T, const IS_CHAIN: bool, const BOUND: u32> {
    count: u32,
    place: EncodedItemsOrSlice<'a, T>,
}

/// A counted array of at most `BOUND` items.
pub type XdrArray<'a, T, const BOUND: u32 = { u32::MAX }> = XdrList<'a, T, false, BOUND>;

/// A linked list of at most `BOUND` entries, each preceded by a bool: the lists of READDIR and of RPC-over-RDMA
/// headers.
pub type XdrLinkedList<'a, T, const BOUND: u32 = { u32::MAX }> = XdrList<'a, T, true, BOUND>;

impl<'a, T, const IS_CHAIN: bool, const BOUND: u32> XdrList<'a, T, IS_CHAIN, BOUND> {
    /// Returns the number of items.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns `true` if there are no items.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the offset of the items in the message, or `None` for a slice.
    pub fn begins(&self) -> Option<usize> {
        match self.place {
            EncodedItemsOrSlice::Message(cursor) => Some(cursor.at()),
            EncodedItemsOrSlice::Slice(_) => None,
        }
    }

    /// Returns a list of `count` items that were decoded before, starting at the cursor.
    pub fn from_decoded(cursor: Cursor<'a>, count: u32) -> Self {
        Self { count, place: EncodedItemsOrSlice::Message(cursor) }
    }
}

impl<'a, T: Xdr<'a> + Clone, const IS_CHAIN: bool, const BOUND: u32> XdrList<'a, T, IS_CHAIN, BOUND> {
    /// Returns the items in order.
    pub fn iter(&self) -> XdrListItems<'a, T> {
        XdrListItems { remaining: self.count, place: self.place, is_chain: IS_CHAIN }
    }
}

impl<T, const IS_CHAIN: bool, const BOUND: u32> Clone for XdrList<'_, T, IS_CHAIN, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const IS_CHAIN: bool, const BOUND: u32> Copy for XdrList<'_, T, IS_CHAIN, BOUND> {}

impl<T, const IS_CHAIN: bool, const BOUND: u32> Default for XdrList<'_, T, IS_CHAIN, BOUND> {
    fn default() -> Self {
        Self { count: 0, place: EncodedItemsOrSlice::Slice(&[]) }
    }
}

/// Returns a list of a slice, limited to the maximum count of XDR.
impl<'a, T, const IS_CHAIN: bool, const BOUND: u32> From<&'a [T]> for XdrList<'a, T, IS_CHAIN, BOUND> {
    fn from(items: &'a [T]) -> Self {
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Self { count, place: EncodedItemsOrSlice::Slice(items) }
    }
}

impl<'a, T: Xdr<'a> + Clone + PartialEq, const IS_CHAIN: bool, const BOUND: u32> PartialEq
    for XdrList<'a, T, IS_CHAIN, BOUND>
{
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Xdr<'a> + Clone + fmt::Debug, const IS_CHAIN: bool, const BOUND: u32> fmt::Debug
    for XdrList<'a, T, IS_CHAIN, BOUND>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Xdr<'a> + Clone, const IS_CHAIN: bool, const BOUND: u32> IntoIterator for XdrList<'a, T, IS_CHAIN, BOUND> {
    type Item = T;
    type IntoIter = XdrListItems<'a, T>;

    fn into_iter(self) -> XdrListItems<'a, T> {
        self.iter()
    }
}

impl<'a, T: Xdr<'a> + Clone, const IS_CHAIN: bool, const BOUND: u32> Xdr<'a> for XdrList<'a, T, IS_CHAIN, BOUND> {
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
        let (at, position) = (cursor.at(), cursor.position());
        observer.list(field, position);
        if IS_CHAIN {
            return Self::decode_chain(cursor, field, observer);
        }
        let count = cursor.word()?;
        observer.structural_bytes(position..position + 4);
        // Every item except `void` takes four bytes, so an impossible count is rejected before iteration.
        let bound = BOUND.min(u32::try_from(cursor.remaining() / 4).unwrap_or(u32::MAX));
        if count > bound {
            return Err(XdrError::TooLong { at, length: count, bound });
        }
        let place = EncodedItemsOrSlice::Message(*cursor);
        match T::LENGTH.filter(|_| cursor.is_assumed_valid() && !O::checks_values()) {
            Some(length) => {
                cursor.take((count as usize).saturating_mul(length))?;
            }
            None => (0..count).try_for_each(|_| T::decode(cursor, field, observer).map(drop))?,
        }
        Ok(Self { count, place })
    }

    fn encode(&self, encoder: &mut Encoder) {
        if !IS_CHAIN {
            encoder.word(self.count);
        }
        for item in self.iter() {
            if IS_CHAIN {
                encoder.word(1);
            }
            item.encode(encoder);
        }
        if IS_CHAIN {
            encoder.word(0);
        }
    }
}

impl<'a, T: Xdr<'a> + Clone, const IS_CHAIN: bool, const BOUND: u32> XdrList<'a, T, IS_CHAIN, BOUND> {
    #[inline]
    fn decode_chain<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let place = EncodedItemsOrSlice::Message(*cursor);
        let mut count = 0;
        loop {
            let at = cursor.at();
            if !decode_follows(cursor, observer)? {
                return Ok(Self { count, place });
            }
            if count == BOUND {
                return Err(XdrError::TooLong { at, length: count.saturating_add(1), bound: BOUND });
            }
            count += 1;
            T::decode(cursor, field, observer)?;
        }
    }
}

/// Iterator over the items of a list.
pub struct XdrListItems<'a, T> {
    remaining: u32,
    place: EncodedItemsOrSlice<'a, T>,
    is_chain: bool,
}

impl<T> Clone for XdrListItems<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T: Xdr<'a> + Clone> Iterator for XdrListItems<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.remaining = self.remaining.checked_sub(1)?;
        match &mut self.place {
            EncodedItemsOrSlice::Slice(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(first.clone())
            }
            // Decoding succeeded once, so it does not fail here.
            EncodedItemsOrSlice::Message(cursor) => {
                if self.is_chain {
                    cursor.word().ok()?;
                }
                T::decode(cursor, &ITEM, &mut NullFieldObserver).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a, T: Xdr<'a>>(bytes: &'a [u8]) -> Result<T, XdrError> {
        T::decode(&mut Cursor::new(bytes), &ITEM, &mut NullFieldObserver)
    }

    #[test]
    fn a_counted_list_gives_its_items_again() {
        let list: XdrArray<u32> = decode(&[0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8]).unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [7, 8]);
        assert_eq!(list, XdrArray::from(&[7u32, 8][..]));
    }

    #[test]
    fn a_list_that_was_decoded_before_is_the_same_again_without_a_look_at_its_items() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9];
        let mut cursor = Cursor::new(&bytes).assume_valid();
        let list = XdrArray::<bool>::decode(&mut cursor, &ITEM, &mut NullFieldObserver).unwrap();
        assert_eq!((list.iter().collect::<Vec<_>>(), cursor.at()), (vec![true, false], 12));
        // Different content ends the list where decoding would have failed.
        let other = [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 7];
        let list =
            XdrArray::<bool>::decode(&mut Cursor::new(&other).assume_valid(), &ITEM, &mut NullFieldObserver).unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [true]);
        assert!(decode::<XdrArray<bool>>(&other).is_err());
        let short = XdrArray::<u64>::decode(&mut Cursor::new(&bytes).assume_valid(), &ITEM, &mut NullFieldObserver);
        assert!(short.is_err());
    }

    #[test]
    fn a_count_that_the_message_cannot_hold_is_refused_unwalked() {
        let claimed: Result<XdrArray<u32>, _> = decode(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
        assert_eq!(claimed, Err(XdrError::TooLong { at: 0, length: u32::MAX, bound: 1 }));
    }

    #[test]
    fn a_chain_ends_with_false() {
        let chain: XdrLinkedList<u32> = decode(&[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0]).unwrap();
        assert_eq!(chain.iter().collect::<Vec<_>>(), [7]);
        assert!(matches!(decode::<XdrLinkedList<u32>>(&[0, 0, 0, 1, 0, 0, 0, 7]), Err(XdrError::Short { .. })));
    }

    #[test]
    fn lists_that_the_program_made_encode_as_those_of_a_message() {
        let mut encoder = Encoder::new();
        XdrLinkedList::<u32>::from(&[7u32][..]).encode(&mut encoder);
        XdrArray::<u32>::from(&[8u32][..]).encode(&mut encoder);
        assert_eq!(encoder.bytes(), [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8]);
    }
}
