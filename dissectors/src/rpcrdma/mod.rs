//! RPC-over-RDMA: the transport header of each RPC message in every [`Dialect`], its chunk lists, and the private data
//! of connection establishment (RFC 8797). [`RpcRdma1Header`] is the header of version 1 (RFC 8166).

use crate::field::registry::FieldRegistry;

mod any_dialect_header;
mod dialect;
mod header;
pub mod private_data;
pub mod prototype;
mod recognize;
#[cfg(test)]
mod tests;
pub mod version2;

pub use any_dialect_header::{AnyDialectHeader, RpcRdmaErrorCode, RpcRdmaMessageType, RpcTransferMode};
pub use dialect::Dialect;
pub use header::{
    ChunkLists, PaddedHeader, RdmaBody, RdmaProc, RdmaSegment, ReadSegment, RpcRdma1ErrCode, RpcRdma1Header,
    RpcRdmaError, RpcRdmaFixedFields, RpcRdmaVersionBody, RpcRdmaVersionedHeader, UnknownRdmaBody, VERSION,
    Versions, WriteChunk,
};
pub use private_data::{PrivateData, PrivateDataVersionFlags, SidePrivateData};
pub use recognize::{
    MIN_HEADER_BYTES, RpcRdmaEvidence, is_whole_done, may_be_truncated_rpcrdma, recognize, recognize_dialect,
};

/// Adds the fields of a message to a registry. Those of connection establishment belong to other layers.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    registry.xdr::<RpcRdma1Header<'_>>(RpcRdma1Header::FIELD, "");
    registry.xdr::<prototype::NfsRdmaPrototypeHeader<'_>>(prototype::NfsRdmaPrototypeHeader::FIELD, "");
    registry.xdr::<version2::RpcRdma2Header<'_>>(version2::RpcRdma2Header::FIELD, "");
}
