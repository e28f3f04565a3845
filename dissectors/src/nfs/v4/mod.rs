//! NFSv4.0, 4.1 and 4.2, with the extensions of RFC 8275, RFC 8276 and RFC 9754, and their callbacks.
//!
//! The structures have the RFCs' names in Rust case: `READ4args` is `Read4Args`, `stateid4` is `Stateid4`.
//!
//! Opaque data without a structure in the RFCs is not decoded: filehandles, verifiers, owners, the handles and digests
//! of SSV and RPCSEC_GSS, object identifiers, patterns, values of extended attributes, file data, and the bodies of
//! unknown layout types.

mod address;
mod attribute_value_types;
mod attributes;
mod bitmap;
mod bitmap_keyed_values;
mod callback;
pub(crate) mod compound;
mod copy;
mod device_notifications;
mod directory_notifications;
mod forwarding_observer;
mod io;
mod layout;
mod locations;
mod locking;
mod namespace_and_attributes;
mod open;
mod operation_numbers;
mod operation_table;
mod operations;
mod session;
pub(super) mod status;
mod types;
mod xattr;

#[cfg(test)]
mod tests;

pub use address::*;
pub use attribute_value_types::*;
pub use attributes::*;
pub use bitmap::{BitNames, MAX_WORDS, NamedBitmap, words_for_bits};
pub use bitmap_keyed_values::{BitmapItemWalk, BitmapKeyedValue, BitmapKeyedValues, mask_and_values};
pub use callback::*;
pub use compound::*;
pub use copy::*;
pub use device_notifications::*;
pub use directory_notifications::*;
pub use io::*;
pub use layout::*;
pub use locations::*;
pub use locking::*;
pub use namespace_and_attributes::*;
pub use open::*;
pub use operation_numbers::*;
pub use operations::*;
pub use session::*;
pub use status::Nfsstat4;
pub use types::*;
pub use xattr::*;
