//! RPC-over-RDMA version 1, RFC 8166: the header before each RPC message, its chunk lists, and what the two sides
//! tell each other as they connect (RFC 8797).

use crate::field::registry::Registry;

mod header;
pub mod private_data;
mod recognize;

pub use header::{
    Body, ChunkLists, ErrCode, FixedFields, Header, PaddedHeader, Proc, RdmaError, ReadSegment, Segment,
    Unread, VERSION, Versions, WriteChunk,
};
pub use private_data::{PrivateData, SidePrivateData};
pub use recognize::{Evidence, MIN_HEADER, is_cut_short, recognize};

/// Adds the fields of a message to a registry; those of a connection's set-up are told with its frames.
pub(crate) fn describe(registry: &mut Registry) {
    registry.xdr::<Header<'_>>(Header::FIELD, "");
}
