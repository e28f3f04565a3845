//! External Data Representation, RFC 4506: zero-copy decoding, optional observation, and encoding.
//!
//! Structures are described in the notation of the RFCs with [`xdr!`](crate::xdr!) and implement [`Xdr`]. Decoding does
//! not copy: opaque data and lists borrow the message. The same decoders handle a *reduced* message (RFC 8166 section
//! 3.4.4), whose DDP-eligible items were sent in chunks: [`Ddp`] items find their chunk in the [`Cursor`].

mod cursor;
mod definition_macro;
mod enclosed_structure;
mod encoder;
mod list;
mod msgp_padding;
mod types;
mod write_chunk_pairing;

pub use cursor::{ChunkedDataItem, Cursor, XdrError};
pub use enclosed_structure::StructuredOpaque;
pub use encoder::{Encoder, ReducedDataItem};
pub(crate) use list::EncodedItemsOrSlice;
pub use list::{Chain, List, XdrList, XdrListItems};
pub use msgp_padding::RdmaMsgpPadding;
pub use types::{Ddp, DdpText, Opaque, Rfc8267DraftDdpEligibleData, Text, UndecodedMessageRest, Void};
pub use write_chunk_pairing::ResultWriteChunkAssignment;

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

/// Returns the number of fill bytes after `length` bytes of opaque data (RFC 4506 section 4.10).
pub const fn roundup(length: usize) -> usize {
    length.wrapping_neg() % 4
}
