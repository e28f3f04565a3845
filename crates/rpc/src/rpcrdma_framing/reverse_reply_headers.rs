//! Transport headers of the answers to reverse-direction Calls. RFC 8167 section 5.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{ChunkLists, RdmaBody, RpcRdma1Header, RpcRdmaError, VERSION};
use nfsrdma_dissectors::xdr::XdrLinkedList;

/// Returns a header without chunks that grants this many credits, at least 1. Section 5.2.
pub fn answer_header(xid: Xid, credits: u32) -> RpcRdma1Header<'static> {
    let lists =
        ChunkLists { rdma_reads: XdrLinkedList::default(), rdma_writes: XdrLinkedList::default(), rdma_reply: None };
    header(xid, credits, RdmaBody::Msg(lists))
}

/// Returns RDMA_ERROR with ERR_CHUNK, the required answer to a Call with chunks if they are not supported. Section 5.3.
pub fn chunks_refused(xid: Xid, credits: u32) -> RpcRdma1Header<'static> {
    header(xid, credits, RdmaBody::Error(RpcRdmaError::Chunk))
}

fn header(rdma_xid: Xid, credits: u32, rdma_body: RdmaBody<'static>) -> RpcRdma1Header<'static> {
    RpcRdma1Header { rdma_xid, rdma_vers: VERSION, rdma_credit: credits.max(1), rdma_body }
}
