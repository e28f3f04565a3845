//! Calls to send: the message, its payloads, and the limits of the Reply.

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::roundup;

/// An identifier that the sender of a Call chooses, such as the index of its own record of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallTag(pub u64);

/// A Call to send, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRpcCall<'a> {
    /// The XID, with which the message begins. No other Call in flight on the connection may have it.
    pub xid: Xid,
    /// The tag that its events return.
    pub tag: CallTag,
    /// The RPC message as [`Encoder`](nfsrdma_dissectors::xdr::Encoder) produces it: with the lengths of the items in
    /// `payloads`, but without their content and XDR padding.
    pub message: &'a [u8],
    /// DDP-eligible arguments in the order of their positions, at most [`MAX_PAYLOADS`](Self::MAX_PAYLOADS). The
    /// transport decides which are sent in chunks and which inline.
    pub payloads: &'a [DdpEligibleArgument<'a>],
    /// The limits of the Reply.
    pub reply: ReplySizeLimits<'a>,
    /// The requested form on RDMA.
    pub requested_form: RequestedCallForm<'a>,
}

impl<'a> OutgoingRpcCall<'a> {
    /// Maximum number of DDP-eligible arguments, and of such results, in one Call. Linux sends one.
    pub const MAX_PAYLOADS: usize = 16;

    /// Returns a Call without payloads, whose Reply has at most `reply` bytes and no DDP-eligible results.
    pub fn without_payloads(xid: Xid, tag: CallTag, message: &'a [u8], reply: u32) -> Self {
        let reply = ReplySizeLimits { message_bytes: reply, payloads: &[] };
        Self { xid, tag, message, payloads: &[], reply, requested_form: RequestedCallForm::Fitting }
    }

    /// Returns the length in bytes of the complete message, with the payloads and their XDR padding (RFC 4506 section
    /// 4.10).
    pub fn length(&self) -> usize {
        self.message.len() + self.payloads.iter().map(DdpEligibleArgument::padded).sum::<usize>()
    }
}

/// A DDP-eligible argument.
#[derive(Clone, Copy, Debug)]
pub struct DdpEligibleArgument<'a> {
    /// Byte offset of the content in the complete message: the Position of its Read chunk (RFC 8166 section 3.4.5), as
    /// in [`ReducedDataItem`](nfsrdma_dissectors::xdr::ReducedDataItem).
    pub position: u32,
    /// The location of the content.
    pub source: PayloadContentLocation<'a>,
}

impl DdpEligibleArgument<'_> {
    /// Returns the length of the content in bytes, without XDR padding.
    pub fn length(&self) -> usize {
        match self.source {
            PayloadContentLocation::Copied(bytes) => bytes.len(),
            PayloadContentLocation::Shared { length, .. } => length as usize,
        }
    }

    /// Returns the length of the content in bytes, with XDR padding.
    pub fn padded(&self) -> usize {
        self.length() + roundup(self.length())
    }
}

/// The number of memory that a transport shares, so that payloads are sent from it in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredPayloadMemoryId(pub u32);

/// The location of a payload's content.
#[derive(Clone, Copy, Debug)]
pub enum PayloadContentLocation<'a> {
    /// Borrowed memory: the transport copies it before `submit` returns.
    Copied(&'a [u8]),
    /// Memory that the transport [shares](super::RpcClientTransport::share): sent in place, or fetched from it by the
    /// server.
    Shared {
        /// The number of the shared memory.
        store: RegisteredPayloadMemoryId,
        /// Byte offset of the content in it.
        offset: usize,
        /// Length of the content in bytes.
        length: u32,
    },
}

/// Limits of the Reply of a Call. The transport offers Write chunks and a Reply chunk for results that may not fit
/// inline.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplySizeLimits<'a> {
    /// Maximum length in bytes of the Reply's RPC message, without the DDP-eligible results in `payloads`. If it is too
    /// small, the server fails: RFC 8166 section 4.5.3.
    pub message_bytes: u32,
    /// Maximum content length in bytes of each possible DDP-eligible result, in order, without XDR padding. Zero
    /// requests this result inline: an empty Write chunk (RFC 8166 section 4.3.2.3).
    pub payloads: &'a [u32],
}

/// The requested form of a Call on RDMA. TCP has only one form.
#[derive(Clone, Copy, Debug, Default)]
pub enum RequestedCallForm<'a> {
    /// The form that fits the parameters of the connection: inline as far as the thresholds allow, in both directions;
    /// else Read and Write chunks of one segment each for the DDP-eligible items; a Long Call or a Reply chunk if the
    /// rest does not fit (RFC 8166 section 3.5).
    #[default]
    Fitting,
    /// The form in a capture, as far as the connection allows it; [`SubmittedCallForm::changed`] reports deviations.
    Captured(CapturedCallChunkLayout<'a>),
}

/// The form of a Call in a capture: segment lengths in bytes of each of its chunks.
///
/// The last segment is extended if the content is longer, and shortened or omitted if it is shorter. Write and Reply
/// chunks are never smaller than [`ReplySizeLimits`] requires, except that an empty Write chunk stays empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapturedCallChunkLayout<'a> {
    /// The Position-Zero Read chunk of a Long Call; empty if the message was inline.
    pub call: &'a [u32],
    /// The Read chunk of each payload of the Call; empty if the payload was inline.
    pub reads: &'a [&'a [u32]],
    /// The Write chunk of each DDP-eligible result; empty if none was offered.
    pub writes: &'a [&'a [u32]],
    /// The Reply chunk; empty if none was offered.
    pub reply: &'a [u32],
}

/// The form in which a Call was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmittedCallForm {
    /// The form of the message.
    pub form: RpcMessageWireForm,
    /// Number of bytes of the RPC message, without its transport header, in the Send, or in the record on TCP.
    pub inline_bytes: u32,
    /// Number of segments of Read chunks, including that of a Long Call.
    pub read_segments: u32,
    /// Number of segments of Write chunks.
    pub write_segments: u32,
    /// Number of segments of the Reply chunk.
    pub reply_segments: u32,
    /// `true` if the form differs from the one that [`RequestedCallForm::Captured`] requested.
    pub changed: bool,
}

/// The form of a message on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RpcMessageWireForm {
    /// A record of TCP (RFC 5531 section 11).
    #[default]
    Record,
    /// RDMA_MSG: in the Send, with chunks or without (RFC 8166 sections 3.5.1 and 3.5.2).
    Message,
    /// RDMA_NOMSG: in a chunk, as Long Call or Long Reply (RFC 8166 section 3.5.3).
    Nomsg,
}
