//! Transport header of version 2. draft-ietf-nfsv4-rpcrdma-version-two sections 5, 6 and 8.
//!
//! Segments, Read segments and Write chunks are those of version 1 (section 6.2). The structures end before
//! `rdma_rpc_first_word` of the draft, which is the first word of the RPC message or of a part of it.

use super::header::{
    ReadSegment, RpcRdmaErrvers, RpcRdmaVersionBody, RpcRdmaVersionedHeader, UnknownRdmaBody, WriteChunk,
};
use crate::field::{FieldDefinition, FieldObserver};
use crate::memory_handle::Handle;
use crate::xdr::{Cursor, Opaque, StructuredOpaque, Xdr, XdrArray, XdrError, XdrLinkedList};

/// Version number.
pub const VERSION: u32 = 2;

crate::xdr! { "rpcordma";
    /// Header types. draft-ietf-nfsv4-rpcrdma-version-two section 6.1.
    open_enum RpcRdma2HeaderType {
        RDMA2_ERROR = 4,
        RDMA2_GRANT = 5,
        RDMA2_CONNPROP_MIDDLE = 6,
        RDMA2_CONNPROP_FINAL = 7,
        RDMA2_CALL_EXTERNAL = 8,
        RDMA2_CALL_MIDDLE = 9,
        RDMA2_CALL_INLINE = 10,
        RDMA2_REPLY_EXTERNAL = 11,
        RDMA2_REPLY_MIDDLE = 12,
        RDMA2_REPLY_INLINE = 13,
    }

    /// rpcrdma2_propid: a transport property identifier. draft-ietf-nfsv4-rpcrdma-version-two section 5.2.
    open_enum RpcRdma2PropertyId {
        RDMA2_PROPID_SBSIZ = 1,
        RDMA2_PROPID_RBSIZ = 2,
        RDMA2_PROPID_RSSIZ = 3,
        RDMA2_PROPID_RCSIZ = 4,
        RDMA2_PROPID_BRS = 5,
        RDMA2_PROPID_HOSTAUTH = 6,
    }

    /// rpcrdma2_prop_brs: reverse-direction support of a client. draft-ietf-nfsv4-rpcrdma-version-two section 5.2.5.
    open_enum ReverseDirectionSupport {
        RDMA2_RVRSDIR_NONE = 0,
        RDMA2_RVRSDIR_SIMPLE = 1,
        RDMA2_RVRSDIR_CONT = 2,
        RDMA2_RVRSDIR_GENL = 3,
    }

    /// rpcrdma2_propval: a transport property; an empty value is the default. draft-ietf-nfsv4-rpcrdma-version-two
    /// section 5.1.
    union RpcRdma2Property<'a> switch (which: RpcRdma2PropertyId => "rpcordma.propid") {
        /// Maximum Send Size in bytes.
        RDMA2_PROPID_SBSIZ => SendSize(StructuredOpaque<'a, u32>) as rdma_sbsiz => "rpcordma.sbsiz",
        /// Receive Buffer Size in bytes.
        RDMA2_PROPID_RBSIZ => ReceiveSize(StructuredOpaque<'a, u32>) as rdma_rbsiz => "rpcordma.rbsiz",
        /// Maximum Segment Size in bytes.
        RDMA2_PROPID_RSSIZ => SegmentSize(StructuredOpaque<'a, u32>) as rdma_rssiz => "rpcordma.rssiz",
        /// Maximum Segment Count of a header.
        RDMA2_PROPID_RCSIZ => SegmentCount(StructuredOpaque<'a, u32>) as rdma_rcsiz => "rpcordma.rcsiz",
        /// Reverse-Direction Support.
        RDMA2_PROPID_BRS => Reverse(StructuredOpaque<'a, ReverseDirectionSupport>) as rdma_brs => "rpcordma.brs",
        /// Host Authentication Message.
        RDMA2_PROPID_HOSTAUTH => HostAuth(StructuredOpaque<'a, Opaque<'a>>) as rdma_hostauth => "rpcordma.hostauth",
        /// An unknown property, which receivers ignore.
        default => Other(Opaque<'a>) as rdma_data => "rpcordma.propval",
    }

    /// rpcrdma2_hdr_connprop. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.3.
    struct Properties<'a> { rdma_props: XdrArray<'a, RpcRdma2Property<'a>> => "rpcordma.property" }

    /// rpcrdma2_errcode. draft-ietf-nfsv4-rpcrdma-version-two section 7.
    open_enum RpcRdma2ErrCode {
        RDMA2_ERR_VERS = 1,
        RDMA2_ERR_BAD_XDR = 2,
        RDMA2_ERR_BAD_PROPVAL = 3,
        RDMA2_ERR_INVAL_HTYPE = 4,
        RDMA2_ERR_INVAL_CONT = 5,
        RDMA2_ERR_READ_CHUNKS = 6,
        RDMA2_ERR_WRITE_CHUNKS = 7,
        RDMA2_ERR_SEGMENTS = 8,
        RDMA2_ERR_WRITE_RESOURCE = 9,
        RDMA2_ERR_REPLY_RESOURCE = 10,
        RDMA2_ERR_VERS_MISMATCH = 11,
        RDMA2_ERR_SYSTEM = 100,
    }

    /// rpcrdma2_err_write: the first Write chunk that is too short, counted from 1, and its required length in bytes.
    /// draft-ietf-nfsv4-rpcrdma-version-two section 7.3.4.
    struct RpcRdma2ShortWriteError {
        rdma_chunk_index: u32 => "rpcordma.chunk_index",
        rdma_length_needed: u32 => "rpcordma.length_needed",
    }

    /// rpcrdma2_hdr_error. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.1.
    union RpcRdma2Error switch (err: RpcRdma2ErrCode => "rpcordma.v2_errcode") {
        RDMA2_ERR_VERS => Vers(RpcRdmaErrvers),
        RDMA2_ERR_READ_CHUNKS => ReadChunks(u32) as rdma_max_chunks => "rpcordma.max_chunks",
        RDMA2_ERR_WRITE_CHUNKS => WriteChunks(u32) as rdma_max_chunks => "rpcordma.max_chunks",
        RDMA2_ERR_SEGMENTS => Segments(u32) as rdma_max_segments => "rpcordma.max_segments",
        RDMA2_ERR_WRITE_RESOURCE => WriteResource(RpcRdma2ShortWriteError),
        RDMA2_ERR_REPLY_RESOURCE => ReplyResource(u32) as rdma_length_needed => "rpcordma.length_needed",
        /// An error code without further data.
        default => Plain,
    }

    /// rpcrdma2_hdr_call_external. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.5.
    struct RpcRdma2CallExternalHeader<'a> {
        rdma_inv_handle: Handle => "rpcordma.inv_handle",
        rdma_call: XdrLinkedList<'a, ReadSegment> => "rpcordma.call",
        rdma_reads: XdrLinkedList<'a, ReadSegment> => "rpcordma.reads",
        rdma_provisional_writes: XdrLinkedList<'a, WriteChunk<'a>> => "rpcordma.writes",
        rdma_provisional_reply: Option<WriteChunk<'a>> => "rpcordma.reply",
    }

    /// rpcrdma2_hdr_call_middle and rpcrdma2_hdr_reply_middle: a part of a message, and the number of bytes in the
    /// following parts. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.6.
    struct RpcRdma2MiddleHeader { rdma_remaining: u32 => "rpcordma.remaining" }

    /// rpcrdma2_hdr_call_inline. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.7.
    struct RpcRdma2CallInlineHeader<'a> {
        rdma_inv_handle: Handle => "rpcordma.inv_handle",
        rdma_reads: XdrLinkedList<'a, ReadSegment> => "rpcordma.reads",
        rdma_provisional_writes: XdrLinkedList<'a, WriteChunk<'a>> => "rpcordma.writes",
        rdma_provisional_reply: Option<WriteChunk<'a>> => "rpcordma.reply",
    }

    /// rpcrdma2_hdr_reply_external. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.8.
    struct RpcRdma2ReplyExternalHeader<'a> {
        rdma_writes: XdrLinkedList<'a, WriteChunk<'a>> => "rpcordma.writes",
        rdma_reply: Option<WriteChunk<'a>> => "rpcordma.reply",
    }

    /// rpcrdma2_hdr_reply_inline. draft-ietf-nfsv4-rpcrdma-version-two section 6.3.10.
    struct RpcRdma2ReplyInlineHeader<'a> { rdma_writes: XdrLinkedList<'a, WriteChunk<'a>> => "rpcordma.writes" }

    /// The structure of a header type. draft-ietf-nfsv4-rpcrdma-version-two section 6.1.
    union RpcRdma2Body<'a> switch (htype: RpcRdma2HeaderType => "rpcordma.htype") {
        /// A Call or a control message could not be processed.
        RDMA2_ERROR => Error(RpcRdma2Error) as rdma_error => "rpcordma.error",
        /// The sender only grants credits.
        RDMA2_GRANT => Grant,
        /// Properties of the sender; more follow.
        RDMA2_CONNPROP_MIDDLE => ConnpropMiddle(Properties<'a>),
        /// The last properties of the sender.
        RDMA2_CONNPROP_FINAL => ConnpropFinal(Properties<'a>),
        /// The Call is in a Call chunk.
        RDMA2_CALL_EXTERNAL => CallExternal(RpcRdma2CallExternalHeader<'a>),
        /// A part of a call follows, not the last.
        RDMA2_CALL_MIDDLE => CallMiddle(RpcRdma2MiddleHeader),
        /// A Call follows, or the last part of one.
        RDMA2_CALL_INLINE => CallInline(RpcRdma2CallInlineHeader<'a>),
        /// The Reply is in the Reply chunk.
        RDMA2_REPLY_EXTERNAL => ReplyExternal(RpcRdma2ReplyExternalHeader<'a>),
        /// A part of a Reply follows, not the last.
        RDMA2_REPLY_MIDDLE => ReplyMiddle(RpcRdma2MiddleHeader),
        /// A Reply follows, or the last part of one.
        RDMA2_REPLY_INLINE => ReplyInline(RpcRdma2ReplyInlineHeader<'a>),
        /// A header type of an extension, or of another version.
        default => Unread(UnknownRdmaBody<'a>),
    }
}

/// The header of version 2. draft-ietf-nfsv4-rpcrdma-version-two sections 6.3 and 6.4.
pub type RpcRdma2Header<'a> = RpcRdmaVersionedHeader<RpcRdma2Body<'a>>;

impl<'a> RpcRdmaVersionedHeader<RpcRdma2Body<'a>> {
    /// Returns the header type.
    pub fn header_type(&self) -> RpcRdma2HeaderType {
        self.rdma_body.tag()
    }

    /// Returns the properties, if the message has any.
    pub fn properties(&self) -> Option<&Properties<'a>> {
        match &self.rdma_body {
            RpcRdma2Body::ConnpropMiddle(properties) | RpcRdma2Body::ConnpropFinal(properties) => Some(properties),
            _ => None,
        }
    }

    /// Returns the segments of the Call chunk, then those of the other Read chunks.
    pub fn reads(&self) -> impl Iterator<Item = ReadSegment> + use<'a> {
        let (call, reads) = match &self.rdma_body {
            RpcRdma2Body::CallExternal(call) => (call.rdma_call, call.rdma_reads),
            RpcRdma2Body::CallInline(call) => (XdrLinkedList::default(), call.rdma_reads),
            _ => (XdrLinkedList::default(), XdrLinkedList::default()),
        };
        call.iter().chain(reads.iter())
    }

    /// Returns the Write list.
    pub fn writes(&self) -> XdrLinkedList<'a, WriteChunk<'a>> {
        match &self.rdma_body {
            RpcRdma2Body::CallExternal(call) => call.rdma_provisional_writes,
            RpcRdma2Body::CallInline(call) => call.rdma_provisional_writes,
            RpcRdma2Body::ReplyExternal(reply) => reply.rdma_writes,
            RpcRdma2Body::ReplyInline(reply) => reply.rdma_writes,
            _ => XdrLinkedList::default(),
        }
    }

    /// Returns the Reply chunk.
    pub fn reply_chunk(&self) -> Option<&WriteChunk<'a>> {
        match &self.rdma_body {
            RpcRdma2Body::CallExternal(call) => call.rdma_provisional_reply.as_ref(),
            RpcRdma2Body::CallInline(call) => call.rdma_provisional_reply.as_ref(),
            RpcRdma2Body::ReplyExternal(reply) => reply.rdma_reply.as_ref(),
            _ => None,
        }
    }
}

/// Accumulated transport properties of a peer. draft-ietf-nfsv4-rpcrdma-version-two section 5.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerProperties {
    /// Maximum Send Size in bytes.
    pub send_size_bytes: Option<u32>,
    /// Receive Buffer Size in bytes.
    pub receive_size_bytes: Option<u32>,
    /// Maximum Segment Size in bytes.
    pub segment_size_bytes: Option<u32>,
    /// Maximum Segment Count of a header.
    pub segment_count: Option<u32>,
    /// Reverse-Direction Support.
    pub reverse_direction: Option<ReverseDirectionSupport>,
    /// `true` if the peer sent a Host Authentication Message.
    pub has_host_auth: bool,
}

impl PeerProperties {
    /// Adds the properties of one message. A later value replaces an earlier one.
    pub fn record(&mut self, properties: &Properties<'_>) {
        // An empty value is the default (section 5.1); any other undecodable value is ignored.
        fn value<T: Copy>(value: &StructuredOpaque<'_, T>, default: T) -> Option<T> {
            match value {
                StructuredOpaque::Known(value) => Some(*value),
                StructuredOpaque::Unread(Opaque([])) => Some(default),
                StructuredOpaque::Unread(_) => None,
            }
        }
        for property in properties.rdma_props.iter() {
            match property {
                RpcRdma2Property::SendSize(size) => self.send_size_bytes = value(&size, 4096),
                RpcRdma2Property::ReceiveSize(size) => self.receive_size_bytes = value(&size, 4096),
                RpcRdma2Property::SegmentSize(size) => self.segment_size_bytes = value(&size, 1 << 20),
                RpcRdma2Property::SegmentCount(count) => self.segment_count = value(&count, 16),
                RpcRdma2Property::Reverse(support) => {
                    self.reverse_direction = value(&support, ReverseDirectionSupport::RDMA2_RVRSDIR_NONE);
                }
                RpcRdma2Property::HostAuth(_) => self.has_host_auth = true,
                RpcRdma2Property::Other(..) => {}
            }
        }
    }
}

impl<'a> RpcRdmaVersionBody<'a> for RpcRdma2Body<'a> {
    const VERSION: u32 = VERSION;
    const HEADER: &'static FieldDefinition = &FieldDefinition::group(
        "rpcordma",
        "rpcrdma2_hdr",
        "Header of version 2. draft-ietf-nfsv4-rpcrdma-version-two section 6.4",
    );
    const FIELD: &'static FieldDefinition = &FieldDefinition::group(
        "rpcordma.v2_body",
        "rdma_body",
        "The header type and its structure. draft-ietf-nfsv4-rpcrdma-version-two section 6.3",
    );

    fn decode_unread<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        let htype = RpcRdma2HeaderType::decode(cursor, RpcRdma2Body::TAG, observer)?;
        UnknownRdmaBody::decode(cursor, <Self as RpcRdmaVersionBody>::FIELD, observer)
            .map(|unread| Self::Unread(htype, unread))
    }

    fn is_version_error(&self) -> bool {
        matches!(self, Self::Error(RpcRdma2Error::Vers(_)))
    }
}
