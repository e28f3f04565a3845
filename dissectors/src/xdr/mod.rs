//! External Data Representation, RFC 4506: a borrowed decode, the same walk told to an observer, and encode.
//!
//! A structure is written as in the RFCs with [`xdr!`](crate::xdr!) and implements [`Xdr`]. Decoding copies
//! nothing: opaque data and lists borrow the message. A *reduced* message (RFC 8166 section 3.4.4), whose
//! DDP-eligible items travelled in chunks, is walked by the same decoders: [`Ddp`] items find their chunk in the
//! [`Cursor`].

mod cursor;
mod describe;
mod enclosed_structure;
mod encoder;
mod list;
mod padding;
mod types;
mod write_chunk_pairing;

pub use cursor::{ChunkItem, Cursor, XdrError};
pub use enclosed_structure::EnclosedStructure;
pub use encoder::{Encoder, Splice};
pub use list::{Chain, List, ListItems};
pub use padding::Padding;
pub use types::{Ddp, DdpText, Opaque, RemainingBytes, Text, Void};
pub use write_chunk_pairing::WriteChunkPairing;

use crate::field::registry::Registry;
use crate::field::{Field, FieldKind, FlagName, Observer};

/// A type with an XDR form.
pub trait Xdr<'a>: Sized {
    /// How values of this type are shown.
    const KIND: FieldKind;
    /// What the specification calls the values, or the bits of a mask, that have names.
    const NAMES: &'static [FlagName] = &[];
    /// Bytes of the XDR form, where every value has as many.
    const LENGTH: Option<usize> = None;
    /// Whether a value can hold a DDP-eligible item (RFC 8166 section 6.1): some form of it has one.
    const IS_DDP_ELIGIBLE: bool = false;

    /// Adds the fields inside a value to a registry; one without fields has none to add.
    fn describe(_: &mut Registry) {}

    /// Reads a value, telling the observer about it under the name `field`.
    ///
    /// # Errors
    /// When the message ends too early or holds what the type does not allow.
    fn decode<O: Observer<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static Field,
        observer: &mut O,
    ) -> Result<Self, XdrError>;

    /// Appends the value's XDR form.
    fn encode(&self, encoder: &mut Encoder);
}

/// The length of a structure by those of its fields, where each has one.
pub const fn sum(lengths: &[Option<usize>]) -> Option<usize> {
    match lengths {
        [] => Some(0),
        [Some(first), rest @ ..] => match sum(rest) {
            Some(more) => Some(*first + more),
            None => None,
        },
        [None, ..] => None,
    }
}

/// Whether one of these is true.
pub const fn any(flags: &[bool]) -> bool {
    match flags {
        [] => false,
        [first, rest @ ..] => *first || any(rest),
    }
}

/// Bytes of zero fill after `length` bytes of opaque data (RFC 4506 section 4.10).
pub const fn roundup(length: usize) -> usize {
    length.wrapping_neg() % 4
}
