//! Calls of the reverse direction that wait for their answers. RFC 8167.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{Body, ChunkLists, Header, VERSION};
use nfsrdma_dissectors::xdr::{Chain, Encoder, Xdr};

use super::super::framing::SHORTEST_HEADER;
use super::super::{Discard, Refusal};

/// The Responder of the reverse direction.
#[derive(Debug)]
pub(crate) struct Responder {
    granted: u32,
    waiting: Vec<Xid>,
}

impl Responder {
    /// One that grants this many credits; with none it takes no Call.
    pub(crate) fn new(granted: u32) -> Self {
        Self { granted, waiting: Vec::new() }
    }

    /// Takes a Call, if it is within the credits.
    pub(crate) fn take(&mut self, xid: Xid) -> Result<(), Discard> {
        if self.waiting.len() >= self.granted as usize {
            return Err(Discard::ReverseCall);
        }
        self.waiting.push(xid);
        Ok(())
    }

    /// Whether the Call of this XID can be answered with so long a message in a Send of at most `inline` bytes.
    pub(crate) fn answers(&self, xid: Xid, message: &[u8], inline: u32) -> Result<(), Refusal> {
        if !self.waiting.contains(&xid) {
            return Err(Refusal::NoCall);
        }
        if message.first_chunk() != Some(&xid.0.to_be_bytes()) {
            return Err(Refusal::Xid);
        }
        if SHORTEST_HEADER + message.len() > inline as usize { Err(Refusal::TooLong) } else { Ok(()) }
    }

    /// The Call has its answer.
    pub(crate) fn answered(&mut self, xid: Xid) {
        if let Some(at) = self.waiting.iter().position(|waiting| *waiting == xid) {
            self.waiting.remove(at);
        }
    }

    /// The header of an answer.
    pub(crate) fn encode(&self, xid: Xid, encoder: &mut Encoder) {
        let lists =
            ChunkLists { rdma_reads: Chain::default(), rdma_writes: Chain::default(), rdma_reply: None };
        let rdma_body = Body::Msg(lists);
        Header { rdma_xid: xid, rdma_vers: VERSION, rdma_credit: self.granted, rdma_body }.encode(encoder);
    }
}
