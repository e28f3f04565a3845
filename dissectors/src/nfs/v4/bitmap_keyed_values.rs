//! A bitmap with opaque data that contains one item per bit: attributes, notifications, hints.

use std::fmt;
use std::marker::PhantomData;

use super::bitmap::{BitNames, NamedBitmap, words_for_bits};
use super::forwarding_observer::OuterGroupOmittingObserver;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, NullFieldObserver};
use crate::xdr::{Cursor, Encoder, Opaque, Xdr, XdrError};

/// An item announced by a bit.
pub trait BitmapKeyedValue<'a>: Sized {
    /// Names of the bits.
    type Names: BitNames;
    /// Field of the bitmap.
    const MASK: &'static FieldDefinition;
    /// Field of the opaque data.
    const VALUES: &'static FieldDefinition;

    /// Returns the number of its bit.
    fn number(&self) -> u32;

    /// Decodes the item of bit `number`.
    ///
    /// # Errors
    /// Returns [`XdrError::Unknown`] for a bit that is not in the table, or an error of the item's type.
    fn decode<O: FieldObserver<'a>>(number: u32, cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError>;

    /// Appends the encoding of the item.
    fn encode(&self, encoder: &mut Encoder);

    /// Adds the fields of all items to a registry.
    fn describe(registry: &mut FieldRegistry);
}

/// Describes the items of a bitmap with opaque data: bit number, constant, name in the RFC, type and section.
macro_rules! items {
    ($group:literal, $mask:ident => $mask_filter:literal, $values:ident => $values_filter:literal;
        $(#[doc = $doc:literal])+
        $item:ident $(<$lt:lifetime>)?, $names:ident:
        $($number:literal $constant:ident $label:ident($type:ty) $(=> $filter:literal)?, $about:literal;)*
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        // Boxing would make decoding allocate.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, clippy::large_enum_variant)]
        pub enum $item $(<$lt>)? {
            $(#[doc = $about] $constant($type),)*
        }

        /// The numbers of the bits, by the names of
        #[doc = concat!("[`", stringify!($item), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $names {}

        impl $names {
            $(#[doc = $about] pub const $constant: u32 = $number;)*
        }

        crate::nfs::v4::bitmap::names!($names, &[$(($number, stringify!($label))),*]);

        const _: () = {
            /// The fields of the items.
            #[allow(missing_docs, non_snake_case)]
            pub struct Fields {
                $(pub $constant: &'static crate::field::FieldDefinition,)*
            }

            impl $(<$lt>)? $item $(<$lt>)? {
                /// The fields of the items, by the names of the items.
                pub const FIELDS: &'static Fields = &Fields {
                    $($constant: &crate::field::FieldDefinition {
                        name: crate::nfs::v4::bitmap_keyed_values::items!(@name $group $label $($filter)?),
                        label: stringify!($label),
                        kind: <$type as crate::xdr::Xdr>::KIND,
                        doc: $about,
                    },)*
                };
            }
        };

        impl<'a> crate::nfs::v4::bitmap_keyed_values::BitmapKeyedValue<'a> for $item $(<$lt>)? {
            type Names = $names;
            const MASK: &'static crate::field::FieldDefinition = &crate::field::FieldDefinition {
                name: $mask_filter,
                label: stringify!($mask),
                kind: crate::field::FieldKind::Flags,
                doc: "Set of the items that follow. RFC 8881 section 3.3.7.",
            };
            const VALUES: &'static crate::field::FieldDefinition = &crate::field::FieldDefinition {
                name: $values_filter,
                label: stringify!($values),
                kind: crate::field::FieldKind::Bytes,
                doc: "Items that are not known, and all that follows them. RFC 8881 section 3.3.7.",
            };

            fn number(&self) -> u32 {
                match self {
                    $(Self::$constant(_) => $number,)*
                }
            }

            fn decode<O: crate::field::FieldObserver<'a>>(
                number: u32,
                cursor: &mut crate::xdr::Cursor<'a>,
                observer: &mut O,
            ) -> Result<Self, crate::xdr::XdrError> {
                match number {
                    $($number => {
                        let field = Self::FIELDS.$constant;
                        <$type as crate::xdr::Xdr>::decode(cursor, field, observer).map(Self::$constant)
                    })*
                    _ => Err(crate::xdr::XdrError::Unknown { at: cursor.at(), what: stringify!($item), number }),
                }
            }

            fn encode(&self, encoder: &mut crate::xdr::Encoder) {
                match self {
                    $(Self::$constant(value) => crate::xdr::Xdr::encode(value, encoder),)*
                }
            }

            fn describe(registry: &mut crate::field::registry::FieldRegistry) {
                const DOC: &str = concat!($($doc),+);
                $(<$type as crate::xdr::Xdr>::describe_field(registry, Self::FIELDS.$constant, DOC);)*
            }
        }
    };
    (@name $group:literal $label:ident) => { concat!($group, ".", stringify!($label)) };
    (@name $group:literal $label:ident $filter:literal) => { $filter };
}
pub(super) use items;

/// A bitmap with its items, in ascending order of the bits.
///
/// The opaque data is decoded on iteration. An unknown item therefore ends only the iteration of the items, not
/// decoding of the enclosing structure.
pub struct BitmapKeyedValues<'a, T, N> {
    /// Set of the items.
    pub mask: NamedBitmap<'a, N>,
    /// Encoded items.
    pub values: Opaque<'a>,
    items: PhantomData<fn() -> T>,
}

impl<'a, T, N> BitmapKeyedValues<'a, T, N> {
    /// Returns items encoded by [`mask_and_values`].
    pub fn new(mask: NamedBitmap<'a, N>, values: Opaque<'a>) -> Self {
        Self { mask, values, items: PhantomData }
    }
}

impl<'a, T: BitmapKeyedValue<'a, Names = N>, N: BitNames> BitmapKeyedValues<'a, T, N> {
    /// Iterates over the items. An undecodable item is an error and ends the iteration.
    pub fn items(&self) -> BitmapItemWalk<'a, T, N> {
        BitmapItemWalk::new(self.mask, Cursor::new(self.values.0))
    }
}

/// Returns the bitmap words and the opaque data of these items, which must be in ascending order.
pub fn mask_and_values<'a, 'b, T: BitmapKeyedValue<'a> + 'b>(
    items: impl IntoIterator<Item = &'b T>,
) -> (Vec<u32>, Vec<u8>) {
    let (mut bits, mut encoder) = (Vec::new(), Encoder::new());
    for item in items {
        bits.push(item.number());
        item.encode(&mut encoder);
    }
    (words_for_bits(bits), encoder.finish().0)
}

/// Iterator over the items of a [`BitmapKeyedValues`].
pub struct BitmapItemWalk<'a, T, N> {
    mask: NamedBitmap<'a, N>,
    items: PhantomData<fn() -> T>,
    cursor: Cursor<'a>,
    last_bit: Option<u32>,
    is_stopped: bool,
}

impl<'a, T: BitmapKeyedValue<'a, Names = N>, N: BitNames> BitmapItemWalk<'a, T, N> {
    fn new(mask: NamedBitmap<'a, N>, cursor: Cursor<'a>) -> Self {
        Self { mask, items: PhantomData, cursor, last_bit: None, is_stopped: false }
    }

    /// Returns the bytes not decoded yet. Not empty at the end only if the sender appended bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Decodes the next item and reports it to the observer.
    pub fn next_observed<O: FieldObserver<'a>>(&mut self, observer: &mut O) -> Option<Result<T, XdrError>> {
        if self.is_stopped {
            return None;
        }
        let next = self.mask.iter().find(|bit| self.last_bit.is_none_or(|last_bit| *bit > last_bit))?;
        let start = self.cursor;
        let mut inner_observer = OuterGroupOmittingObserver::new(observer, None);
        let item = T::decode(next, &mut self.cursor, &mut inner_observer);
        if item.is_err() {
            inner_observer.leave_all(self.cursor.position());
            self.is_stopped = true;
            self.cursor = start;
        }
        self.last_bit = Some(next);
        Some(item)
    }
}

impl<'a, T: BitmapKeyedValue<'a, Names = N>, N: BitNames> Iterator for BitmapItemWalk<'a, T, N> {
    type Item = Result<T, XdrError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_observed(&mut NullFieldObserver)
    }
}

impl<T, N> Clone for BitmapKeyedValues<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, N> Copy for BitmapKeyedValues<'_, T, N> {}

impl<T, N> Default for BitmapKeyedValues<'_, T, N> {
    fn default() -> Self {
        Self::new(NamedBitmap::default(), Opaque::default())
    }
}

impl<T, N> PartialEq for BitmapKeyedValues<'_, T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.mask == other.mask && self.values == other.values
    }
}

impl<'a, T: BitmapKeyedValue<'a, Names = N> + fmt::Debug, N: BitNames> fmt::Debug for BitmapKeyedValues<'a, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.items()).finish()
    }
}

impl<'a, T: BitmapKeyedValue<'a, Names = N>, N: BitNames> Xdr<'a> for BitmapKeyedValues<'a, T, N> {
    const KIND: FieldKind = FieldKind::Group;

    fn describe(registry: &mut FieldRegistry) {
        if registry.mark_visited::<Self>() {
            registry.field(T::MASK);
            registry.field(T::VALUES);
            T::describe(registry);
        }
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        if O::is_enabled() && !observer.is_interested_in(field, Self::describe) {
            return Self::decode(cursor, field, &mut NullFieldObserver);
        }
        observer.enter(field, cursor.position());
        let mask = NamedBitmap::decode(cursor, T::MASK, observer)?;
        let mut inner = *cursor;
        let values = Opaque::decode(cursor, T::VALUES, &mut NullFieldObserver);
        let has_item = |number| mask.contains(number);
        if O::checks_values() && (values.is_err() || observer.is_interested_in_items(T::VALUES, &has_item)) {
            // Decodes before a truncated opaque item is rejected, so that the items before the truncation are reported.
            let at = inner.position();
            let length = inner.word()?;
            observer.structural_bytes(at..at + 4);
            let mut items = BitmapItemWalk::<'a, T, N>::new(mask, inner.limited_to(length as usize));
            while items.next_observed(observer).is_some() {}
            let (at, rest) = (items.cursor.position(), items.rest());
            if !rest.is_empty() {
                observer.value(T::VALUES, at..at + rest.len(), FieldValue::Bytes(rest));
            }
            if values.is_ok() && at + rest.len() < cursor.position() {
                observer.structural_bytes(at + rest.len()..cursor.position());
            }
            if values.is_err() {
                // The captured items were reported.
                cursor.take(cursor.rest().len())?;
            }
        }
        let values = values?;
        observer.leave(cursor.position());
        Ok(Self::new(mask, values))
    }

    /// Encodes the items one by one; undecodable bytes are copied verbatim.
    fn encode(&self, encoder: &mut Encoder) {
        self.mask.encode(encoder);
        encoder.append_nested(|encoder| {
            let mut items = self.items();
            for item in items.by_ref().map_while(Result::ok) {
                item.encode(encoder);
            }
            encoder.raw(items.rest());
        });
    }
}
