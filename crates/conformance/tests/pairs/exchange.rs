//! RPC exchanges over RPC-over-RDMA, encoded from RFC 8166, 5531, 1813 and 8881 alone. All parts can be changed before
//! they are sent.

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
        if self.proc == RDMA_ERROR {
            return [to.bytes, self.rpc.clone()].concat();
        }
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
/// Callback program of the client.
pub(crate) const NFS_CB: u32 = 0x4000_0000;
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

    /// NFSPROC3_READ of `length` bytes with all data inline, and no Write chunk.
    pub(crate) fn read3_inline(xid: u32, length: u32) -> Self {
        let mut exchange = Self::read3(xid, length, length);
        (exchange.call.writes, exchange.reply.writes, exchange.placed) = (Vec::new(), Vec::new(), Vec::new());
        let mut content = Writer::default();
        content.fixed(&data(length as usize));
        exchange.reply.rpc.extend(content.bytes);
        exchange
    }

    /// COMPOUND of NFSv4.0. RFC 7530 section 15.2.
    pub(crate) fn compound4(xid: u32, arguments: &[Writer], results: &[Writer]) -> Self {
        let join = |head: &mut Writer, operations: &[Writer]| {
            head.words(&[operations.len() as u32]);
            operations.iter().for_each(|operation| head.bytes.extend(&operation.bytes));
        };
        let mut call = rpc_call(xid, NFS, 4, 1);
        // No tag, minor version 0.
        join(call.words(&[0, 0]), arguments);
        let mut reply = rpc_reply(xid);
        // NFS4_OK, no tag.
        join(reply.words(&[0, 0]), results);
        Self::new(xid, call, reply)
    }

    /// PUTFH, and a READ for each length, which returns that many bytes of `count` in its own Write chunk. RFC 7530
    /// section
    /// 16.25.
    pub(crate) fn reads4(xid: u32, count: u32, lengths: &[u32]) -> Self {
        let operation = |words: &[u32]| {
            let mut to = Writer::default();
            to.words(words);
            to
        };
        let mut put = operation(&[22]);
        put.opaque(HANDLE);
        let (mut arguments, mut results) = (vec![put], vec![operation(&[22, 0])]);
        for length in lengths {
            // A stateid of four words, the offset, the count; status, eof, length of the data.
            arguments.push(operation(&[25, 0, 0, 0, 0, 0, 0, count]));
            results.push(operation(&[25, 0, 1, *length]));
        }
        let mut exchange = Self::compound4(xid, &arguments, &results);
        for (at, length) in lengths.iter().enumerate() {
            let offered = memory(xid, at as u32, count);
            exchange.call.writes.push(vec![offered]);
            exchange.reply.writes.push(vec![Memory { length: *length, ..offered }]);
            if *length > 0 {
                exchange.placed.push((offered, data(*length as usize)));
            }
        }
        exchange
    }

    /// Sends the Call as a Long Call. RFC 8166 section 3.5.3.
    pub(crate) fn long_call(mut self) -> Self {
        let offered = memory(self.call.xid, 0x20, self.call.rpc.len() as u32);
        self.call.proc = RDMA_NOMSG;
        self.call.reads.insert(0, (0, offered));
        self.fetched.insert(0, (offered, std::mem::take(&mut self.call.rpc)));
        self
    }

    /// Offers a Reply chunk of `length` bytes, which the Reply does not use.
    pub(crate) fn with_reply_chunk(mut self, length: u32) -> Self {
        let offered = memory(self.call.xid, 0x21, length);
        self.call.reply = Some(vec![offered]);
        self.reply.reply = Some(vec![Memory { length: 0, ..offered }]);
        self
    }

    /// Sends the Reply as a Long Reply in a Reply chunk of `length` bytes.
    pub(crate) fn long_reply(self, length: u32) -> Self {
        let mut exchange = self.with_reply_chunk(length);
        let offered = memory(exchange.call.xid, 0x21, length);
        let payload = std::mem::take(&mut exchange.reply.rpc);
        exchange.reply.proc = RDMA_NOMSG;
        exchange.reply.reply = Some(vec![Memory { length: payload.len() as u32, ..offered }]);
        exchange.placed.push((offered, payload));
        exchange
    }

    /// Answers with GARBAGE_ARGS. RFC 5531 section 9.
    pub(crate) fn garbage_args(mut self) -> Self {
        self.reply.rpc = rpc_reply(self.call.xid).bytes;
        self.reply.rpc[23] = 4;
        self
    }

    /// Answers with ERR_CHUNK. RFC 8166 section 4.5.
    pub(crate) fn refused(mut self) -> Self {
        self.reply.proc = RDMA_ERROR;
        self.reply.rpc = vec![0, 0, 0, 2];
        (self.fetched, self.placed) = (Vec::new(), Vec::new());
        self
    }
}

/// Divides memory into segments of `length` bytes each.
pub(crate) fn divide(memory: Memory, length: u32) -> Vec<Memory> {
    let starts = (0..memory.length).step_by(length as usize);
    starts
        .map(|at| Memory { offset: memory.offset + u64::from(at), length: length.min(memory.length - at), ..memory })
        .collect()
}

/// An operation of a COMPOUND with its result, as XDR words. RFC 8881 section 16.2.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) number: u32,
    pub(crate) arguments: Vec<u32>,
    /// Number of the result; that of the operation in a legal Reply.
    pub(crate) result_number: u32,
    /// Status and result; `None` if the operation was not reached.
    pub(crate) result: Option<(u32, Vec<u32>)>,
}

/// Session ID of all sessions.
const SESSION: [u32; 4] = [0x5e55, 1, 2, 3];
/// A stateid with seqid 1.
pub(crate) const STATEID: [u32; 4] = [1, 0x57, 0x58, 0x59];

impl Operation {
    /// An operation that succeeds.
    pub(crate) fn new(number: u32, arguments: &[u32], result: &[u32]) -> Self {
        Self { number, arguments: arguments.to_vec(), result_number: number, result: Some((0, result.to_vec())) }
    }

    /// CREATE_SESSION with 4 slots and a back channel with one. RFC 8881 section 18.36.
    pub(crate) fn create_session() -> Self {
        let channel = |slots| [0, 8192, 8192, 4096, 8, slots, 0];
        // Client ID, sequence, flags: CONN_BACK_CHAN.
        let head = [0, 0xc1, 1, 2];
        // Callback program, and one AUTH_NONE.
        let arguments = [&head[..], &channel(4), &channel(1), &[0x4000_0000, 1, 0]].concat();
        let result = [&SESSION[..], &[1, 2], &channel(4), &channel(1)].concat();
        Self::new(43, &arguments, &result)
    }

    /// SEQUENCE without sa_cachethis. RFC 8881 section 18.46.
    pub(crate) fn sequence(slot: u32, sequence_id: u32) -> Self {
        let arguments = [&SESSION[..], &[sequence_id, slot, 3, 0]].concat();
        let result = [&SESSION[..], &[sequence_id, slot, 3, 3, 0]].concat();
        Self::new(53, &arguments, &result)
    }

    /// CB_SEQUENCE without csa_cachethis and referring calls. RFC 8881 section 20.9.
    pub(crate) fn cb_sequence(slot: u32, sequence_id: u32) -> Self {
        let arguments = [&SESSION[..], &[sequence_id, slot, slot, 0, 0]].concat();
        let result = [&SESSION[..], &[sequence_id, slot, slot, slot]].concat();
        Self::new(11, &arguments, &result)
    }

    /// CB_RECALL_ANY that keeps ten objects of no type. RFC 8881 section 20.6.
    pub(crate) fn cb_recall_any() -> Self {
        Self::new(8, &[10, 0], &[])
    }

    /// BIND_CONN_TO_SESSION to both channels. RFC 8881 section 18.34.
    pub(crate) fn bind_conn_to_session() -> Self {
        let both = [&SESSION[..], &[3, 0]].concat();
        Self::new(41, &both, &both)
    }

    /// DESTROY_SESSION. RFC 8881 section 18.37.
    pub(crate) fn destroy_session() -> Self {
        Self::new(44, &SESSION, &[])
    }

    /// PUTROOTFH. RFC 8881 section 18.21.
    pub(crate) fn putrootfh() -> Self {
        Self::new(24, &[], &[])
    }

    /// ACCESS. RFC 8881 section 18.1.
    pub(crate) fn access(granted: u32) -> Self {
        Self::new(3, &[0x1f], &[0x1f, granted])
    }

    /// Makes the operation fail.
    pub(crate) fn failed(self, status: u32) -> Self {
        Self { result: Some((status, Vec::new())), ..self }
    }

    /// Leaves the operation without a result.
    pub(crate) fn not_reached(self) -> Self {
        Self { result: None, ..self }
    }
}

/// A COMPOUND under construction. RFC 8881 section 16.2.
#[derive(Clone, Debug)]
pub(crate) struct Compound {
    pub(crate) minor_version: u32,
    pub(crate) operations: Vec<Operation>,
    /// Status, if it is not that of the last result.
    pub(crate) status: Option<u32>,
    /// Tag of the Reply; that of the Call is empty.
    pub(crate) reply_tag: Vec<u8>,
}

impl Compound {
    pub(crate) fn new(minor_version: u32, operations: &[Operation]) -> Self {
        Self { minor_version, operations: operations.to_vec(), status: None, reply_tag: Vec::new() }
    }

    /// Returns the exchange with inline messages.
    pub(crate) fn exchange(&self, xid: u32) -> Exchange {
        self.exchange_after(xid, rpc_call(xid, NFS, 4, 1))
    }

    /// Returns the exchange as a CB_COMPOUND of the server. RFC 8881 section 19.2.
    pub(crate) fn callback(&self, xid: u32) -> Exchange {
        let mut call = rpc_call(xid, NFS_CB, 1, 1);
        // No tag, and callback_ident 0.
        call.opaque(b"").words(&[self.minor_version, 0]);
        self.exchange_behind(xid, call)
    }

    /// Returns the exchange whose Call has this RPC header.
    pub(crate) fn exchange_after(&self, xid: u32, mut call: Writer) -> Exchange {
        call.opaque(b"").words(&[self.minor_version]);
        self.exchange_behind(xid, call)
    }

    /// Returns the exchange whose Call begins with `call`, up to the number of operations.
    fn exchange_behind(&self, xid: u32, mut call: Writer) -> Exchange {
        call.words(&[self.operations.len() as u32]);
        for operation in &self.operations {
            call.words(&[operation.number]).words(&operation.arguments);
        }
        let results = || self.operations.iter().filter_map(|operation| operation.result.as_ref());
        let last = results().next_back().map_or(0, |(status, _)| *status);
        let mut reply = rpc_reply(xid);
        reply.words(&[self.status.unwrap_or(last)]).opaque(&self.reply_tag);
        reply.words(&[results().count() as u32]);
        for operation in &self.operations {
            if let Some((status, result)) = &operation.result {
                reply.words(&[operation.result_number, *status]).words(result);
            }
        }
        Exchange::new(xid, call, reply)
    }
}
