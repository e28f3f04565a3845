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
mod padding;
mod types;
mod write_chunk_pairing;
mod xdr_type;

pub use cursor::{ChunkedDataItem, Cursor, XdrError};
pub use enclosed_structure::StructuredOpaque;
pub use encoder::{Encoder, ReducedDataItem};
pub(crate) use list::EncodedItemsOrSlice;
pub use list::{XdrArray, XdrLinkedList, XdrList, XdrListItems};
pub use padding::{RdmaMsgpPadding, roundup};
pub use types::{Ddp, DdpText, Opaque, ReadPlusDdpEligibleData, Text, UndecodedMessageRest, Void};
pub use write_chunk_pairing::ResultWriteChunkAssignment;
pub use xdr_type::{Xdr, any, sum};
