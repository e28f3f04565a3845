//! The header of an answer to a Call of the reverse direction. RFC 8167 section 5.2.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{Body, ChunkLists, Header, VERSION};
use nfsrdma_dissectors::xdr::Chain;

/// A header without chunks, which grants the server so many Calls at a time.
pub fn answer_header(xid: Xid, credits: u32) -> Header<'static> {
    let lists = ChunkLists { rdma_reads: Chain::default(), rdma_writes: Chain::default(), rdma_reply: None };
    Header { rdma_xid: xid, rdma_vers: VERSION, rdma_credit: credits.max(1), rdma_body: Body::Msg(lists) }
}
