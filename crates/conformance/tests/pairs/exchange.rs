//! RPC exchanges over RPC-over-RDMA, encoded from RFC 8166, 5531, 1813 and 8881 alone. All parts can be changed before they
//! are sent.

use crate::writer::{Memory, Writer};

/// rdma_proc. RFC 8166 section 4.2.4.
pub(crate) const RDMA_MSG: u32 = 0;
pub(crate) const RDMA_NOMSG: u32 = 1;
pub(crate) const RDMA_MSGP: u32 = 2;
pub(crate) const RDMA_ERROR: u32 = 4;

/// An RPC-over-RDMA header and what follows it in the Send.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) xid: u32,
    pub(crate) version: u32,
    pub(crate) credits: u32,
    pub(crate) proc: u32,
    /// Position and segment.
    pub(crate) reads: Vec<(u32, Memory)>,
    pub(crate) writes: Vec<Vec<Memory>>,
    pub(crate) reply: Option<Vec<Memory>>,
    /// RPC message, without what is in chunks.
    pub(crate) rpc: Vec<u8>,
}

impl Message {
    fn new(xid: u32, rpc: Writer) -> Self {
        Self {
            xid,
            version: 1,
            credits: 32,
            proc: RDMA_MSG,
            reads: Vec::new(),
            writes: Vec::new(),
            reply: None,
            rpc: rpc.bytes,
        }
    }

    /// Returns the payload of the Send. RFC 8166 section 4.3.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.words(&[self.xid, self.version, self.credits, self.proc]);
        if self.proc == RDMA_MSGP {
            // Alignment, and a threshold that no item reaches. RFC 5666 section 4.2.
            to.words(&[4, u32::MAX]);
        }
        for (position, memory) in &self.reads {
            to.words(&[1, *position, memory.handle, memory.length]).hyper(memory.offset);
        }
        to.words(&[0]);
        let chunk = |to: &mut Writer, segments: &[Memory]| {
            to.words(&[1, segments.len() as u32]);
            for memory in segments {
                to.words(&[memory.handle, memory.length]).hyper(memory.offset);
            }
        };
        self.writes.iter().for_each(|segments| chunk(&mut to, segments));
        to.words(&[0]);
        match &self.reply {
            Some(segments) => chunk(&mut to, segments),
            None => {
                to.words(&[0]);
            }
        }
        [to.bytes, self.rpc.clone()].concat()
    }
}

/// A Call, the data that RDMA moves, and its Reply.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) call: Message,
    /// RDMA Reads of the Responder: memory and its content.
    pub(crate) fetched: Vec<(Memory, Vec<u8>)>,
    /// RDMA Writes of the Responder: memory and data.
    pub(crate) placed: Vec<(Memory, Vec<u8>)>,
    pub(crate) reply: Message,
    /// Handle that the Reply invalidates.
    pub(crate) invalidate: Option<u32>,
}

/// File data of `length` bytes.
pub(crate) fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + 1) as u8).collect()
}

/// Memory of a Requester. Handles and offsets differ for each XID.
pub(crate) fn memory(xid: u32, index: u32, length: u32) -> Memory {
    Memory {
        handle: 0x0a00_0000 + (xid << 8) + index,
        offset: 0x1000_0000 * u64::from(xid & 0xff) + 0x10_0000 * u64::from(index + 1),
        length,
    }
}

/// An RPC call header with AUTH_NONE. RFC 5531 section 9.
pub(crate) fn rpc_call(xid: u32, program: u32, version: u32, procedure: u32) -> Writer {
    let mut to = Writer::default();
    to.words(&[xid, 0, 2, program, version, procedure, 0, 0, 0, 0]);
    to
}

/// An accepted reply with status SUCCESS. RFC 5531 section 9.
pub(crate) fn rpc_reply(xid: u32) -> Writer {
    let mut to = Writer::default();
    to.words(&[xid, 1, 0, 0, 0, 0]);
    to
}

const NFS: u32 = 100_003;
const HANDLE: &[u8] = b"file handle 1234";

impl Exchange {
    pub(crate) fn new(xid: u32, call: Writer, reply: Writer) -> Self {
        Self {
            call: Message::new(xid, call),
            fetched: Vec::new(),
            placed: Vec::new(),
            reply: Message::new(xid, reply),
            invalidate: None,
        }
    }

    /// NFSPROC3_GETATTR, answered with NFS3ERR_BADHANDLE. RFC 1813 section 3.3.1.
    pub(crate) fn getattr3(xid: u32) -> Self {
        let mut call = rpc_call(xid, NFS, 3, 1);
        call.opaque(HANDLE);
        let mut reply = rpc_reply(xid);
        reply.words(&[10_001]);
        Self::new(xid, call, reply)
    }

    /// NFSPROC3_READ of `count` bytes with a Write chunk, which returns `length` bytes. RFC 1813 section 3.3.6.
    pub(crate) fn read3(xid: u32, count: u32, length: u32) -> Self {
        let mut call = rpc_call(xid, NFS, 3, 6);
        call.opaque(HANDLE).hyper(0).words(&[count]);
        let mut reply = rpc_reply(xid);
        // Status, no attributes, count, eof, length of the data.
        reply.words(&[0, 0, length, 0, length]);
        let mut exchange = Self::new(xid, call, reply);
        let offered = memory(xid, 0, count);
        exchange.call.writes = vec![vec![offered]];
        exchange.reply.writes = vec![vec![Memory { length, ..offered }]];
        exchange.placed = vec![(offered, data(length as usize))];
        exchange
    }

    /// NFSPROC3_WRITE of `length` bytes in a Read chunk. RFC 1813 section 3.3.7.
    pub(crate) fn write3(xid: u32, length: u32) -> Self {
        let mut call = rpc_call(xid, NFS, 3, 7);
        call.opaque(HANDLE).hyper(0).words(&[length, 2, length]);
        let position = call.bytes.len() as u32;
        let mut reply = rpc_reply(xid);
        // Status, no attributes before and after, count, FILE_SYNC, verifier.
        reply.words(&[0, 0, 0, length, 2, 1, 2]);
        let mut exchange = Self::new(xid, call, reply);
        let offered = memory(xid, 0, length);
        exchange.call.reads = vec![(position, offered)];
        exchange.fetched = vec![(offered, data(length as usize))];
        exchange
    }
}
