//! A Call that is to be sent: its message, the data beside it, and what its Reply may need.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::roundup;

use super::SharedMemoryId;

/// What the sender of a Call knows it by: any number, such as the index of its own record of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallTag(pub u64);

/// A Call that is to be sent, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct TransportCall<'a> {
    /// The XID, which the message begins with. No other Call in flight on the connection has it.
    pub xid: Xid,
    /// What its Reply will carry.
    pub tag: CallTag,
    /// The RPC message as [`Encoder`](nfsrdma_dissectors::xdr::Encoder) leaves it: without the content and the fill of
    /// what stands in `payloads`, but with its lengths.
    pub message: &'a [u8],
    /// DDP-eligible arguments in the order of their positions, at most [`MAX_PAYLOADS`](Self::MAX_PAYLOADS). The
    /// transport decides what travels in a chunk and what in the message.
    pub payloads: &'a [TransportPayload<'a>],
    /// What the Reply may need.
    pub reply: ExpectedReply<'a>,
    /// What form it is to have on RDMA.
    pub shape: RequestedCallForm<'a>,
}

impl<'a> TransportCall<'a> {
    /// DDP-eligible arguments, and as many results, that one Call may have. Linux sends one.
    pub const MAX_PAYLOADS: usize = 16;

    /// A Call without payloads, whose Reply has at most `reply` bytes and no DDP-eligible results.
    pub fn small(xid: Xid, tag: CallTag, message: &'a [u8], reply: u32) -> Self {
        let reply = ExpectedReply { message: reply, payloads: &[] };
        Self { xid, tag, message, payloads: &[], reply, shape: RequestedCallForm::Fitting }
    }

    /// Length in bytes of the whole message: with the payloads and their fill (RFC 4506 section 4.10).
    pub fn length(&self) -> usize {
        self.message.len() + self.payloads.iter().map(TransportPayload::padded).sum::<usize>()
    }
}

/// A DDP-eligible argument.
#[derive(Clone, Copy, Debug)]
pub struct TransportPayload<'a> {
    /// Byte offset of the content in the whole message: the Position of its Read chunk (RFC 8166 section 3.4.5), and
    /// what [`Splice`](nfsrdma_dissectors::xdr::Splice) says.
    pub position: u32,
    /// Where the content lies.
    pub source: PayloadSource<'a>,
}

impl TransportPayload<'_> {
    /// Length of the content in bytes, without fill.
    pub fn length(&self) -> usize {
        match self.source {
            PayloadSource::Copied(bytes) => bytes.len(),
            PayloadSource::Stored { length, .. } => length as usize,
        }
    }

    /// Length of the content with its fill.
    pub fn padded(&self) -> usize {
        self.length() + roundup(self.length())
    }
}

/// Where the content of a payload lies.
#[derive(Clone, Copy, Debug)]
pub enum PayloadSource<'a> {
    /// Anywhere: the transport copies it before `submit` returns.
    Copied(&'a [u8]),
    /// In memory that the transport [shares](super::RpcTransport::share): it is sent, or fetched by the server, from
    /// there.
    Stored {
        /// The memory.
        store: SharedMemoryId,
        /// Where the content begins in it.
        at: usize,
        /// Bytes of content.
        length: u32,
    },
}

/// What the Reply of a Call may need; the transport offers Write chunks and a Reply chunk for what may not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedReply<'a> {
    /// The most bytes that the RPC message of the Reply can have, without the DDP-eligible results in `payloads`. Too
    /// small a number makes the server fail: RFC 8166 section 4.5.3.
    pub message: u32,
    /// For each DDP-eligible result that there may be, in the order of the results: the most bytes of content, without
    /// fill. Zero asks for this result in the message: an empty Write chunk (RFC 8166 section 4.3.2.3).
    pub payloads: &'a [u32],
}

/// What form a Call is to have on RDMA. TCP knows one form only.
#[derive(Clone, Copy, Debug, Default)]
pub enum RequestedCallForm<'a> {
    /// What the terms of the connection ask for: as much inline as fits, both ways; else Read and Write chunks of one
    /// segment each for the DDP-eligible items; and a Long Call, a Reply chunk, where the rest does not fit (RFC 8166
    /// section 3.5).
    #[default]
    Fitting,
    /// As it was in a capture, as far as the connection allows that; [`SubmittedCall::changed`] tells where not.
    Captured(CapturedCallForm<'a>),
}

/// The form of a Call in a capture: lengths in bytes of the segments of each of its chunks.
///
/// The last segment is made longer where the content is, and shorter (or left out) where it ends before. Chunks for
/// Replies are never made smaller than what [`ExpectedReply`] asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapturedCallForm<'a> {
    /// The Position-Zero Read chunk of a Long Call; empty where the message was inline.
    pub call: &'a [u32],
    /// The Read chunk of each payload of the Call; empty where that was in the message.
    pub reads: &'a [&'a [u32]],
    /// The Write chunk for each DDP-eligible result; empty where none was offered.
    pub writes: &'a [&'a [u32]],
    /// The Reply chunk; empty where none was offered.
    pub reply: &'a [u32],
}

/// What became of a Call that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmittedCall {
    /// How the message travels.
    pub form: MessageForm,
    /// Bytes of the RPC message, without its RPC-over-RDMA header, that travel in the Send, or in the record on TCP.
    pub inline: u32,
    /// Segments of Read chunks, that of a Long Call included.
    pub read_segments: u32,
    /// Segments of Write chunks.
    pub write_segments: u32,
    /// Segments of the Reply chunk.
    pub reply_segments: u32,
    /// Whether it has another form than [`RequestedCallForm::Captured`] asked for.
    pub changed: bool,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageForm {
    /// A record of TCP (RFC 5531 section 11).
    #[default]
    Record,
    /// RDMA_MSG: in the Send, with chunks or without (RFC 8166 sections 3.5.1 and 3.5.2).
    Message,
    /// RDMA_NOMSG: in a chunk, as Long Call or Long Reply (RFC 8166 section 3.5.3).
    Nomsg,
}
