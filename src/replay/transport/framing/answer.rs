//! The headers of what answers a Call of the reverse direction. RFC 8167 section 5.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{ChunkLists, RdmaBody, RpcRdmaError, RpcRdmaHeader, VERSION};
use nfsrdma_dissectors::xdr::Chain;

/// A header without chunks, which grants the server so many Calls at a time. Section 5.2.
pub fn answer_header(xid: Xid, credits: u32) -> RpcRdmaHeader<'static> {
    let lists = ChunkLists { rdma_reads: Chain::default(), rdma_writes: Chain::default(), rdma_reply: None };
    header(xid, credits, RdmaBody::Msg(lists))
}

/// RDMA_ERROR with ERR_CHUNK, which a Call with chunks must have where none are taken. Section 5.3.
pub fn chunks_refused(xid: Xid, credits: u32) -> RpcRdmaHeader<'static> {
    header(xid, credits, RdmaBody::Error(RpcRdmaError::Chunk))
}

fn header(rdma_xid: Xid, credits: u32, rdma_body: RdmaBody<'static>) -> RpcRdmaHeader<'static> {
    RpcRdmaHeader { rdma_xid, rdma_vers: VERSION, rdma_credit: credits.max(1), rdma_body }
}
