//! The trait of all types with an XDR encoding.

use super::cursor::{Cursor, XdrError};
use super::encoder::Encoder;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FlagName};

/// A type with an XDR encoding.
pub trait Xdr<'a>: Sized {
    /// Display type of the values.
    const KIND: FieldKind;
    /// Names of the values, or of the bits of a mask, in the specification.
    const NAMES: &'static [FlagName] = &[];
    /// Length of the encoding in bytes, if all values have the same.
    const LENGTH: Option<usize> = None;
    /// `true` if a value can contain a DDP-eligible item (RFC 8166 section 6.1) in any of its forms.
    const IS_DDP_ELIGIBLE: bool = false;

    /// Adds the fields inside a value to a registry. The default is for types without fields.
    fn describe(_: &mut FieldRegistry) {}

    /// Adds a field of this type, and the fields inside its values, to a registry. `structure` is the documentation of
    /// the structure that contains the field.
    fn describe_field(registry: &mut FieldRegistry, field: &'static FieldDefinition, structure: &'static str) {
        registry.add(field, Self::NAMES, structure);
        Self::describe(registry);
    }

    /// Decodes a value and reports it to the observer under `field`.
    ///
    /// # Errors
    /// Returns an error if the message is truncated or the value is invalid.
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError>;

    /// Appends the encoding of the value.
    fn encode(&self, encoder: &mut Encoder);
}

/// Returns the sum of the field lengths, or `None` if a field has no fixed length.
pub const fn sum(lengths: &[Option<usize>]) -> Option<usize> {
    match lengths {
        [] => Some(0),
        [Some(first), rest @ ..] => match sum(rest) {
            Some(rest_sum) => Some(*first + rest_sum),
            None => None,
        },
        [None, ..] => None,
    }
}

/// Returns `true` if any flag is set.
pub const fn any(flags: &[bool]) -> bool {
    match flags {
        [] => false,
        [first, rest @ ..] => *first || any(rest),
    }
}
