//! Builders of the RPC-over-RDMA messages in the tests.

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::{self, Args, Results};
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::auth::{Credential, Flavor, UndecodedAuthBody, Verifier};
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::rpcrdma::{
    self, ChunkLists, RdmaBody, RdmaProc, RdmaSegment, ReadSegment, RpcRdma1Header, RpcRdmaHeaderPadded, WriteChunk,
};
use nfsrdma_dissectors::xdr::{Ddp, Encoder, Opaque, Text, Void, Xdr};

/// A segment of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) handle: u32,
    pub(super) offset: u64,
    pub(super) length: u32,
}

pub(super) fn memory(handle: u32, offset: u64, length: u32) -> Memory {
    Memory { handle, offset, length }
}

impl Memory {
    /// Returns the segment with another length, as a Reply returns it.
    pub(super) fn of(self, length: u32) -> Self {
        Self { length, ..self }
    }

    /// Returns the segment without its first bytes.
    pub(super) fn from(self, skip: u32) -> Self {
        Self { offset: self.offset + u64::from(skip), length: self.length - skip, ..self }
    }

    fn segment(self) -> RdmaSegment {
        RdmaSegment { handle: Handle(self.handle), length: self.length, offset: self.offset }
    }
}

/// A message with its chunk lists.
#[derive(Clone, Debug)]
pub(super) struct Rdma {
    xid: u32,
    credits: u32,
    proc: RdmaProc,
    reads: Vec<ReadSegment>,
    writes: Vec<Vec<RdmaSegment>>,
    reply: Option<Vec<RdmaSegment>>,
    /// The RPC message.
    pub(super) body: Vec<u8>,
    /// Position of the first data item in a Read chunk.
    position: u32,
}

impl Rdma {
    pub(super) fn new(xid: u32, body: Vec<u8>) -> Self {
        let (reads, writes) = (Vec::new(), Vec::new());
        Self { xid, credits: 32, proc: RdmaProc::RDMA_MSG, reads, writes, reply: None, body, position: 0 }
    }

    pub(super) fn credits(mut self, credits: u32) -> Self {
        self.credits = credits;
        self
    }

    /// Adds entries to the Read list.
    pub(super) fn read_at(mut self, position: u32, segments: &[Memory]) -> Self {
        let entries = segments.iter().map(|memory| ReadSegment { position, target: memory.segment() });
        self.reads.extend(entries);
        self
    }

    /// Adds entries to the Read list for the item that was removed from the message.
    pub(super) fn read(self, segments: &[Memory]) -> Self {
        let position = self.position;
        self.read_at(position, segments)
    }

    /// Adds a Write chunk.
    pub(super) fn write(mut self, segments: &[Memory]) -> Self {
        self.writes.push(segments.iter().map(|memory| memory.segment()).collect());
        self
    }

    /// Sets the Reply chunk.
    pub(super) fn reply(mut self, segments: &[Memory]) -> Self {
        self.reply = Some(segments.iter().map(|memory| memory.segment()).collect());
        self
    }

    /// Moves the RPC message to a chunk.
    pub(super) fn nomsg(mut self) -> Self {
        self.proc = RdmaProc::RDMA_NOMSG;
        self.body.clear();
        self
    }

    /// RDMA_MSGP.
    pub(super) fn padded(mut self) -> Self {
        self.proc = RdmaProc::RDMA_MSGP;
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let writes: Vec<_> = self.writes.iter().map(|segments| WriteChunk { target: segments[..].into() }).collect();
        let lists = ChunkLists {
            rdma_reads: self.reads[..].into(),
            rdma_writes: writes[..].into(),
            rdma_reply: self.reply.as_ref().map(|segments| WriteChunk { target: segments[..].into() }),
        };
        let rdma_body = match self.proc {
            RdmaProc::RDMA_MSG => RdmaBody::Msg(lists),
            RdmaProc::RDMA_NOMSG => RdmaBody::Nomsg(lists),
            RdmaProc::RDMA_MSGP => RdmaBody::Msgp(RpcRdmaHeaderPadded { rdma_align: 4096, rdma_thresh: 1024, lists }),
            proc => panic!("{proc} has no chunk lists"),
        };
        let header = header(self.xid, rpcrdma::VERSION, self.credits, rdma_body);
        [header, self.body.clone()].concat()
    }
}

/// A header alone: RDMA_DONE, RDMA_ERROR, or one of another version.
pub(super) fn header(xid: u32, version: u32, credits: u32, rdma_body: RdmaBody<'_>) -> Vec<u8> {
    let header = RpcRdma1Header { rdma_xid: Xid(xid), rdma_vers: version, rdma_credit: credits, rdma_body };
    let mut encoder = Encoder::new();
    header.encode(&mut encoder);
    encoder.finish().0
}

const NOBODY: UndecodedAuthBody<'static> = UndecodedAuthBody { body: Opaque(b"") };

fn rpc_call(xid: u32, prog: Program, vers: u32, proc: u32, arguments: impl FnOnce(&mut Encoder)) -> Rdma {
    let call = rpc::CallBody {
        rpcvers: rpc::VERSION,
        prog,
        vers,
        proc,
        cred: Credential::Other(Flavor::AUTH_NONE, NOBODY),
        verf: Verifier::Other(Flavor::AUTH_NONE, NOBODY),
    };
    let mut encoder = Encoder::new();
    rpc::RpcMsg { xid: Xid(xid), body: rpc::RpcMsgBody::Call(call) }.encode(&mut encoder);
    arguments(&mut encoder);
    let (body, splices) = encoder.finish();
    let mut message = Rdma::new(xid, body);
    message.position = splices.first().map_or(0, |splice| splice.position as u32);
    message
}

fn rpc_reply(xid: u32, results: impl FnOnce(&mut Encoder)) -> Rdma {
    let reply = rpc::ReplyBody::Accepted(rpc::AcceptedReply {
        verf: Verifier::Other(Flavor::AUTH_NONE, NOBODY),
        reply_data: rpc::ReplyData::Success,
    });
    let mut encoder = Encoder::new();
    rpc::RpcMsg { xid: Xid(xid), body: rpc::RpcMsgBody::Reply(reply) }.encode(&mut encoder);
    results(&mut encoder);
    Rdma::new(xid, encoder.finish().0)
}

/// A Reply with the reason why the procedure was not called.
pub(super) fn refusal(xid: u32, stat: rpc::AcceptStat) -> Rdma {
    let reply = rpc::ReplyBody::Accepted(rpc::AcceptedReply {
        verf: Verifier::Other(Flavor::AUTH_NONE, NOBODY),
        reply_data: rpc::ReplyData::Failed(stat),
    });
    let mut encoder = Encoder::new();
    rpc::RpcMsg { xid: Xid(xid), body: rpc::RpcMsgBody::Reply(reply) }.encode(&mut encoder);
    Rdma::new(xid, encoder.finish().0)
}

fn nfs_call(xid: u32, args: &Args<'_>) -> Rdma {
    rpc_call(xid, Program::NFS, v3::VERSION, args.operation().number().0, |encoder| args.encode(encoder))
}

fn nfs_reply(xid: u32, results: &Results<'_>) -> Rdma {
    rpc_reply(xid, |encoder| results.encode(encoder))
}

const FILE: v3::NfsFh3<'static> = Opaque(b"file");
const NO_WCC: v3::WccData = v3::WccData { before: None, after: None };

/// COMPOUND of NFSv4.1: PUTROOTFH, GETFH and so on, whatever these operations contain.
pub(super) fn compound_call(xid: u32, operations: &[v4::Args<'_>]) -> Rdma {
    let head = v4::CompoundCallHead { tag: Text(b""), minorversion: 1 };
    rpc_call(xid, Program::NFS, 4, 1, |encoder| v4::CompoundCall::new(head, operations).encode(encoder))
}

pub(super) fn compound_reply(xid: u32, status: v4::Nfsstat4, results: &[v4::Results<'_>]) -> Rdma {
    let head = v4::CompoundReplyHead { status, tag: Text(b"") };
    rpc_reply(xid, |encoder| v4::CompoundReply::new(head, results).encode(encoder))
}

/// A Call of a procedure with 8 bytes of arguments.
pub(super) fn call_of(xid: u32, program: u32, version: u32, procedure: u32) -> Rdma {
    rpc_call(xid, Program(program), version, procedure, |encoder| encoder.hyper(7))
}

/// Its Reply, with 8 bytes of results.
pub(super) fn reply_of(xid: u32) -> Rdma {
    rpc_reply(xid, |encoder| encoder.hyper(7))
}

/// NULL of NFSv3.
pub(super) fn null_call(xid: u32) -> Rdma {
    nfs_call(xid, &Args::NULL(Void))
}

pub(super) fn null_reply(xid: u32) -> Rdma {
    nfs_reply(xid, &Results::NULL(Void))
}

/// GETATTR of NFSv3, which fails.
pub(super) fn getattr_call(xid: u32) -> Rdma {
    nfs_call(xid, &Args::GETATTR(v3::Getattr3Args { object: FILE }))
}

pub(super) fn getattr_reply(xid: u32) -> Rdma {
    nfs_reply(xid, &Results::GETATTR(StatusUnion::Fail(v3::Nfsstat3::NFS3ERR_STALE, Void)))
}

/// NULL of the callback program.
pub(super) fn callback(xid: u32) -> Rdma {
    rpc_call(xid, Program::NFS_CB, 1, 0, |_| {})
}

/// READ of NFSv3.
pub(super) fn read_call(xid: u32, count: u32) -> Rdma {
    nfs_call(xid, &Args::READ(v3::Read3Args { file: FILE, offset: 0, count }))
}

fn read_results(data: Ddp<'_>) -> Results<'_> {
    let count = data.length();
    Results::READ(StatusUnion::Ok(v3::Read3Resok { file_attributes: None, count, eof: true, data }))
}

/// The Reply to READ, its data in a Write chunk.
pub(super) fn read_reply(xid: u32, length: u32) -> Rdma {
    nfs_reply(xid, &read_results(Ddp::Chunk { length, bytes: None }))
}

/// The Reply to READ, its data in the message.
pub(super) fn read_reply_inline(xid: u32, data: &[u8]) -> Rdma {
    nfs_reply(xid, &read_results(Ddp::Inline(data)))
}

fn write_arguments(data: Ddp<'_>) -> Args<'_> {
    let (count, stable) = (data.length(), v3::StableHow::FILE_SYNC);
    Args::WRITE(v3::Write3Args { file: FILE, offset: 0, count, stable, data })
}

/// WRITE of NFSv3, its data in a Read chunk.
pub(super) fn write_call(xid: u32, length: u32) -> Rdma {
    nfs_call(xid, &write_arguments(Ddp::Chunk { length, bytes: None }))
}

/// WRITE of NFSv3, its data in the message.
pub(super) fn write_call_inline(xid: u32, data: &[u8]) -> Rdma {
    nfs_call(xid, &write_arguments(Ddp::Inline(data)))
}

pub(super) fn write_reply(xid: u32, count: u32) -> Rdma {
    let committed = v3::StableHow::FILE_SYNC;
    let ok = v3::Write3Resok { file_wcc: NO_WCC, count, committed, verf: [7; 8] };
    nfs_reply(xid, &Results::WRITE(StatusUnion::Ok(ok)))
}

/// Bytes that encode their position.
pub(super) fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}
