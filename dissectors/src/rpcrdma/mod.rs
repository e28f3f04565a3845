//! RPC-over-RDMA: the transport header of each RPC message in every [`Dialect`], its chunk lists, and the private data
//! of connection establishment (RFC 8797). [`RpcRdma1Header`] is the header of version 1 (RFC 8166).

use crate::field::registry::FieldRegistry;

mod any_dialect_header;
mod dialects;
mod header;
pub mod private_data;
mod recognize;
pub mod sigcomm2003_prototype;
#[cfg(test)]
mod tests;
pub mod version2;

pub use any_dialect_header::{AnyDialectHeader, RpcRdmaErrorCode, RpcRdmaMessageType, RpcTransferMode};
pub use dialects::Dialect;
pub use header::{
    ChunkLists, RdmaBody, RdmaProc, RdmaSegment, ReadSegment, RpcRdma1ErrCode, RpcRdma1Header, RpcRdmaError,
    RpcRdmaErrvers, RpcRdmaFixedFields, RpcRdmaHeaderPadded, RpcRdmaVersionBody, RpcRdmaVersionedHeader,
    UnknownRdmaBody, VERSION, WriteChunk,
};
pub use private_data::{PrivateData, PrivateDataVersionFlags, SidePrivateData};
pub use recognize::{
    MIN_HEADER_BYTES, RpcRdmaEvidence, is_whole_done, may_be_truncated_rpcrdma, recognize, recognize_dialect,
};

use crate::xdr::Xdr;
use sigcomm2003_prototype::NfsRdmaPrototypeHeader;
use version2::RpcRdma2Header;

/// Adds the fields of a message to a registry. Those of connection establishment belong to other layers.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    RpcRdma1Header::describe_field(registry, RpcRdma1Header::FIELD, "");
    NfsRdmaPrototypeHeader::describe_field(registry, NfsRdmaPrototypeHeader::FIELD, "");
    RpcRdma2Header::describe_field(registry, RpcRdma2Header::FIELD, "");
}
