//! Transport header and chunk lists of version 1. RFC 8166 section 4.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, NullFieldObserver};
use crate::memory_handle::Handle;
use crate::rpc::header::Xid;
use crate::xdr::{Cursor, Encoder, RdmaMsgpPadding, UndecodedMessageRest, Xdr, XdrArray, XdrError, XdrLinkedList};

/// The version that is fully decoded. RFC 8166 section 4.2.2.
pub const VERSION: u32 = 1;

crate::xdr! { "rpcordma";
    /// xdr_rdma_segment: a region of the Requester's memory. RFC 8166 section 3.4.3.
    struct RdmaSegment {
        handle: Handle => "rpcordma.rdma_handle",
        length: u32 => "rpcordma.rdma_length",
        offset: u64 => "rpcordma.rdma_offset",
    }

    /// xdr_read_chunk: one segment of a Read chunk, which is identified by its Position. RFC 8166 section 3.4.5.
    struct ReadSegment { position: u32, target: RdmaSegment => "rpcordma.segment" }

    /// xdr_write_chunk: a Write chunk or a Reply chunk. RFC 8166 section 3.4.6.
    struct WriteChunk<'a> { target: XdrArray<'a, RdmaSegment> => "rpcordma.segment" }

    /// rpc_rdma_header and rpc_rdma_header_nomsg. RFC 8166 section 4.3.
    struct ChunkLists<'a> {
        rdma_reads: XdrLinkedList<'a, ReadSegment> => "rpcordma.reads",
        rdma_writes: XdrLinkedList<'a, WriteChunk<'a>> => "rpcordma.writes",
        rdma_reply: Option<WriteChunk<'a>> => "rpcordma.reply",
    }

    /// rpc_rdma_header_padded. RFC 5666 section 4.2; deprecated: RFC 8166 section 4.6.1.
    struct RpcRdmaHeaderPadded<'a> { rdma_align: u32, rdma_thresh: u32, lists: ChunkLists<'a> }

    /// rpc_rdma_errcode. RFC 8166 section 4.5.
    enum RpcRdma1ErrCode { ERR_VERS = 1, ERR_CHUNK = 2 }

    /// rpc_rdma_errvers: the versions that the Responder supports. RFC 8166 section 4.5.1.
    struct RpcRdmaErrvers {
        rdma_vers_low: u32 => "rpcordma.vers_low",
        rdma_vers_high: u32 => "rpcordma.vers_high",
    }

    /// rpc_rdma_error. RFC 8166 section 4.5.
    union RpcRdmaError switch (err: RpcRdma1ErrCode => "rpcordma.errcode") {
        ERR_VERS => Vers(RpcRdmaErrvers),
        ERR_CHUNK => Chunk,
    }

    /// rdma_proc. RFC 8166 section 4.2.4.
    enum RdmaProc { RDMA_MSG = 0, RDMA_NOMSG = 1, RDMA_MSGP = 2, RDMA_DONE = 3, RDMA_ERROR = 4 }

    /// rdma_body. RFC 8166 section 4.2.4.
    union RdmaBody<'a> switch (proc: RdmaProc => "rpcordma.msg_type") {
        /// An RPC message follows; parts of it may be in chunks.
        RDMA_MSG => Msg(ChunkLists<'a>),
        /// The RPC message is in a chunk.
        RDMA_NOMSG => Nomsg(ChunkLists<'a>),
        /// An RPC message with padding follows.
        RDMA_MSGP => Msgp(RpcRdmaHeaderPadded<'a>),
        /// The Requester has read the chunks of a Reply.
        RDMA_DONE => Done,
        /// The Responder could not process a header.
        RDMA_ERROR => Error(RpcRdmaError),
        /// An unknown message type, or an unknown version.
        default => Unread(UnknownRdmaBody<'a>),
    }

    /// Undecoded content after the fixed words. RFC 8166 section 4.2.
    struct UnknownRdmaBody<'a> { data: UndecodedMessageRest<'a> }

    /// Fixed words, at the same position in every version. RFC 8166 section 4.2.
    struct RpcRdmaFixedFields {
        rdma_xid: Xid => "rpcordma.xid",
        rdma_vers: u32 => "rpcordma.version",
        rdma_credit: u32 => "rpcordma.flow_control",
    }
}

impl WriteChunk<'_> {
    /// Returns the total length of the segments in bytes: offered by a Requester, or returned by a Responder.
    pub fn length(&self) -> u64 {
        self.target.iter().map(|segment| u64::from(segment.length)).sum()
    }
}

/// The body of a header in one version, after the words common to all versions.
pub trait RpcRdmaVersionBody<'a>: Xdr<'a> {
    /// Version number.
    const VERSION: u32;
    /// The header as a group of fields.
    const HEADER: &'static FieldDefinition;
    /// The body as a group of fields.
    const FIELD: &'static FieldDefinition;

    /// Decodes the body of a header of another version, of which only the message type is known.
    ///
    /// # Errors
    /// Returns an error if the message ends before the message type.
    fn decode_unread<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError>;

    /// Returns `true` for the error reply to an unknown version. It repeats that version and has the same form in all
    /// versions (RFC 8166 section 4.5.1, draft-ietf-nfsv4-rpcrdma-version-two section 4.3.2).
    fn is_version_error(&self) -> bool;
}

/// Header common to all numbered versions, and the body of one version: rdma_msg of RFC 8166 section 4.2, and
/// rpcrdma2_hdr_prefix of draft-ietf-nfsv4-rpcrdma-version-two section 6.4.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRdmaVersionedHeader<B> {
    /// XID of the RPC message. RFC 8166 section 4.2.1. Meaningless in RDMA2_GRANT.
    pub rdma_xid: Xid,
    /// Version of RPC-over-RDMA. RFC 8166 section 4.2.2.
    pub rdma_vers: u32,
    /// Credits. Version 1: number of Calls that may be in flight, requested in a Call and granted in a Reply (RFC 8166
    /// section 4.2.3). Version 2: number of messages that the receiver of this header may send, counted from the start
    /// of the connection modulo 2^32 (draft-ietf-nfsv4-rpcrdma-version-two section 4.2.1).
    pub rdma_credit: u32,
    /// Message type and chunks.
    pub rdma_body: B,
}

/// The header of version 1. RFC 8166 section 4.2.
pub type RpcRdma1Header<'a> = RpcRdmaVersionedHeader<RdmaBody<'a>>;

impl<'a, B: RpcRdmaVersionBody<'a>> RpcRdmaVersionedHeader<B> {
    /// The header as one group of fields.
    pub const FIELD: &'static FieldDefinition = B::HEADER;

    /// Decodes the header, and moves the cursor to the RPC message if one follows.
    ///
    /// # Errors
    /// Returns an error if the message is truncated or violates the specification.
    pub fn decode<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        <Self as Xdr>::decode(cursor, Self::FIELD, observer)
    }
}

impl<'a> RpcRdmaVersionedHeader<RdmaBody<'a>> {
    /// Returns the message type.
    pub fn proc(&self) -> RdmaProc {
        self.rdma_body.tag()
    }

    /// Returns the alignment of opaque data in the message; none except in RDMA_MSGP.
    pub fn padding(&self) -> RdmaMsgpPadding {
        match &self.rdma_body {
            RdmaBody::Msgp(padded) => RdmaMsgpPadding { align: padded.rdma_align, threshold: padded.rdma_thresh },
            _ => RdmaMsgpPadding::default(),
        }
    }

    /// Returns the chunk lists, if the message type has them.
    pub fn chunk_lists(&self) -> Option<&ChunkLists<'a>> {
        match &self.rdma_body {
            RdmaBody::Msg(lists) | RdmaBody::Nomsg(lists) => Some(lists),
            RdmaBody::Msgp(padded) => Some(&padded.lists),
            RdmaBody::Done | RdmaBody::Error(_) | RdmaBody::Unread(..) => None,
        }
    }
}

impl<'a> RpcRdmaVersionBody<'a> for RdmaBody<'a> {
    const VERSION: u32 = VERSION;
    const HEADER: &'static FieldDefinition =
        &FieldDefinition::group("rpcordma", "rdma_msg", "RPC-over-RDMA header. RFC 8166 section 4.2");
    const FIELD: &'static FieldDefinition = &FieldDefinition::group(
        "rpcordma.body",
        "rdma_body",
        "The kind of message and its chunks. RFC 8166 section 4.2.4",
    );

    fn decode_unread<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        let proc = RdmaProc::decode(cursor, RdmaBody::TAG, observer)?;
        UnknownRdmaBody::decode(cursor, <Self as RpcRdmaVersionBody>::FIELD, observer)
            .map(|unread| Self::Unread(proc, unread))
    }

    fn is_version_error(&self) -> bool {
        matches!(self, Self::Error(RpcRdmaError::Vers(_)))
    }
}

impl<'a, B: RpcRdmaVersionBody<'a>> Xdr<'a> for RpcRdmaVersionedHeader<B> {
    const KIND: FieldKind = FieldKind::Group;

    fn describe(registry: &mut FieldRegistry) {
        RpcRdmaFixedFields::describe(registry);
        B::describe_field(registry, B::FIELD, "");
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        observer.enter(field, cursor.position());
        let rdma_xid = Xid::decode(cursor, RpcRdmaFixedFields::FIELDS.rdma_xid, observer)?;
        let rdma_vers = u32::decode(cursor, RpcRdmaFixedFields::FIELDS.rdma_vers, observer)?;
        let rdma_credit = u32::decode(cursor, RpcRdmaFixedFields::FIELDS.rdma_credit, observer)?;
        let rdma_body = if rdma_vers == B::VERSION || is_version_error::<B>(*cursor) {
            B::decode(cursor, B::FIELD, observer)?
        } else {
            B::decode_unread(cursor, observer)?
        };
        observer.leave(cursor.position());
        Ok(Self { rdma_xid, rdma_vers, rdma_credit, rdma_body })
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.rdma_xid.encode(encoder);
        self.rdma_vers.encode(encoder);
        self.rdma_credit.encode(encoder);
        self.rdma_body.encode(encoder);
    }
}

fn is_version_error<'a, B: RpcRdmaVersionBody<'a>>(mut cursor: Cursor<'a>) -> bool {
    let body = B::decode(&mut cursor, B::FIELD, &mut NullFieldObserver);
    body.is_ok_and(|body| body.is_version_error()) && cursor.remaining() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Result<RpcRdma1Header<'_>, XdrError> {
        RpcRdma1Header::decode(&mut Cursor::new(bytes), &mut NullFieldObserver)
    }

    /// Decodes a header without following bytes, and asserts that it encodes to the same bytes.
    fn round_trip(bytes: &[u8]) -> RpcRdma1Header<'_> {
        let mut cursor = Cursor::new(bytes);
        let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(cursor.remaining(), 0);
        let mut encoder = Encoder::new();
        header.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        header
    }

    /// RFC 8166 section 4.7: a Read list of one segment, a Write list of a chunk of two, a Reply chunk of one.
    const LISTS: [u32; 25] = [
        1,
        180,
        0xa1,
        0x2000,
        0x9c8d_f27d,
        0x0359_2000,
        0, // Read list
        1,
        2,
        0xb1,
        0x1000,
        0,
        0x1000,
        0xb2,
        0x800,
        0,
        0x8000,
        0, // Write list
        1,
        1,
        0xc1,
        0x400,
        1,
        0,
        7, // Reply chunk; then the first word of what follows
    ];

    #[test]
    fn rfc8166_section_4_7_the_lists_stand_in_order_and_the_message_follows() {
        let bytes = words(&[&[0x1234_5678, 1, 128, 0][..], &LISTS].concat());
        let mut cursor = Cursor::new(&bytes);
        let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((header.rdma_xid, header.rdma_vers, header.rdma_credit), (Xid(0x1234_5678), 1, 128));
        assert_eq!(cursor.word(), Ok(7));

        let lists = header.chunk_lists().unwrap();
        let target = RdmaSegment { handle: Handle(0xa1), length: 0x2000, offset: 0x9c8d_f27d_0359_2000 };
        let reads = [ReadSegment { position: 180, target }];
        assert_eq!(lists.rdma_reads, XdrLinkedList::from(&reads[..]));
        let writes: Vec<_> = lists.rdma_writes.iter().collect();
        assert_eq!((writes.len(), writes[0].target.len(), writes[0].length()), (1, 2, 0x1800));
        assert_eq!(lists.rdma_reply.as_ref().unwrap().length(), 0x400);
    }

    #[test]
    fn rfc8166_section_4_2_4_each_procedure_has_its_body() {
        let lists = &LISTS[..24];
        let cases = [
            (RdmaProc::RDMA_MSG, words(&[&[7, 1, 32, 0][..], lists].concat())),
            (RdmaProc::RDMA_NOMSG, words(&[&[7, 1, 32, 1][..], lists].concat())),
            (RdmaProc::RDMA_MSGP, words(&[&[7, 1, 32, 2, 4096, 1024][..], lists].concat())),
            (RdmaProc::RDMA_DONE, words(&[7, 1, 32, 3])),
            (RdmaProc::RDMA_ERROR, words(&[7, 1, 32, 4, 1, 1, 1])),
            (RdmaProc::RDMA_ERROR, words(&[7, 1, 32, 4, 2])),
        ];
        for (proc, bytes) in cases {
            let header = round_trip(&bytes);
            assert_eq!(header.proc(), proc);
            assert_eq!(header.chunk_lists().is_some(), proc < RdmaProc::RDMA_DONE);
        }
    }

    #[test]
    fn rfc8166_section_4_5_1_the_error_of_an_unknown_version_is_read_in_every_version() {
        let bytes = words(&[7, 9, 32, 4, 1, 1, 2]);
        let versions = RpcRdmaErrvers { rdma_vers_low: 1, rdma_vers_high: 2 };
        assert_eq!(round_trip(&bytes).rdma_body, RdmaBody::Error(RpcRdmaError::Vers(versions)));
    }

    #[test]
    fn rfc8166_section_4_2_of_another_version_only_the_fixed_words_are_read() {
        let bytes = words(&[7, 2, 32, 0, 99, 100]);
        let header = round_trip(&bytes);
        assert_eq!((header.rdma_vers, header.rdma_credit, header.proc()), (2, 32, RdmaProc::RDMA_MSG));
        let data = UndecodedMessageRest(&bytes[16..]);
        assert_eq!(header.rdma_body, RdmaBody::Unread(RdmaProc::RDMA_MSG, UnknownRdmaBody { data }));
    }

    #[test]
    fn rfc8166_section_4_5_2_an_invalid_procedure_has_an_undecoded_body() {
        let bytes = words(&[7, 1, 32, 5, 0]);
        assert!(matches!(round_trip(&bytes).rdma_body, RdmaBody::Unread(RdmaProc(5), _)));
    }

    #[test]
    fn a_chunk_of_2_to_the_32_segments_is_refused_unwalked() {
        let bytes = words(&[7, 1, 32, 0, 0, 1, u32::MAX, 1, 2, 3, 4]);
        assert_eq!(decode(&bytes), Err(XdrError::TooLong { at: 24, length: u32::MAX, bound: 4 }));
    }

    #[test]
    fn a_read_list_that_never_ends_ends_with_the_message() {
        let bytes = words(&[&[7, 1, 32, 0][..], &[1; 600]].concat());
        assert!(matches!(decode(&bytes), Err(XdrError::Short { .. })));
    }

    #[test]
    fn rfc4506_section_4_4_a_list_goes_on_or_ends_but_nothing_else() {
        let bytes = words(&[7, 1, 32, 0, 2, 0, 0]);
        assert_eq!(decode(&bytes), Err(XdrError::Invalid { at: 16, what: "bool", value: 2 }));
    }

    #[test]
    fn a_header_cut_at_any_byte_is_reported_as_cut() {
        let bytes = words(&[&[7, 1, 32, 0][..], &LISTS[..24]].concat());
        for end in 0..bytes.len() {
            let mut cursor = Cursor::new(&bytes[..end]).with_length(bytes.len());
            assert!(RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap_err().is_cut(), "{end}");
            assert!(!decode(&bytes[..end]).unwrap_err().is_cut(), "{end}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, length: u16) {
            let mut cursor = Cursor::new(&bytes).with_length(length.into());
            let _ = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver);
        }

        #[test]
        fn arbitrary_words_never_panic(
            proc in 0u32..6, small in proptest::collection::vec(0u32..3, 0..80),
        ) {
            let bytes = words(&[&[7, 1, 32, proc][..], &small].concat());
            let _ = decode(&bytes);
        }
    }
}
