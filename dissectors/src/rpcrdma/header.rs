//! The header of a message and its chunk lists. RFC 8166 section 4.

use crate::field::registry::Registry;
use crate::field::{Field, FieldKind, NullObserver, Observer};
use crate::rdma::Handle;
use crate::rpc::Xid;
use crate::xdr::{Chain, Cursor, Encoder, List, Padding, RemainingBytes, Xdr, XdrError};

/// The version that this program reads whole. RFC 8166 section 4.2.2.
pub const VERSION: u32 = 1;

crate::xdr! { "rpcordma";
    /// xdr_rdma_segment: a region of the Requester's memory. RFC 8166 section 3.4.3.
    struct RdmaSegment {
        handle: Handle => "rpcordma.rdma_handle",
        length: u32 => "rpcordma.rdma_length",
        offset: u64 => "rpcordma.rdma_offset",
    }

    /// xdr_read_chunk: one segment of a Read chunk, the chunk named by its Position. RFC 8166 section 3.4.5.
    struct ReadSegment { position: u32, target: RdmaSegment => "rpcordma.segment" }

    /// xdr_write_chunk: a Write chunk or a Reply chunk. RFC 8166 section 3.4.6.
    struct WriteChunk<'a> { target: List<'a, RdmaSegment> => "rpcordma.segment" }

    /// rpc_rdma_header and rpc_rdma_header_nomsg. RFC 8166 section 4.3.
    struct ChunkLists<'a> {
        rdma_reads: Chain<'a, ReadSegment> => "rpcordma.reads",
        rdma_writes: Chain<'a, WriteChunk<'a>> => "rpcordma.writes",
        rdma_reply: Option<WriteChunk<'a>> => "rpcordma.reply",
    }

    /// rpc_rdma_header_padded. RFC 5666 section 4.2; not to be used: RFC 8166 section 4.6.1.
    struct PaddedHeader<'a> { rdma_align: u32, rdma_thresh: u32, lists: ChunkLists<'a> }

    /// rpc_rdma_errcode. RFC 8166 section 4.5.
    enum ErrCode { ERR_VERS = 1, ERR_CHUNK = 2 }

    /// rpc_rdma_errvers: the versions that the Responder speaks. RFC 8166 section 4.5.1.
    struct Versions {
        rdma_vers_low: u32 => "rpcordma.vers_low",
        rdma_vers_high: u32 => "rpcordma.vers_high",
    }

    /// rpc_rdma_error. RFC 8166 section 4.5.
    union RpcRdmaError switch (err: ErrCode => "rpcordma.errcode") {
        ERR_VERS => Vers(Versions),
        ERR_CHUNK => Chunk,
    }

    /// rdma_proc. RFC 8166 section 4.2.4.
    enum RdmaProc { RDMA_MSG = 0, RDMA_NOMSG = 1, RDMA_MSGP = 2, RDMA_DONE = 3, RDMA_ERROR = 4 }

    /// rdma_body. RFC 8166 section 4.2.4.
    union RdmaBody<'a> switch (proc: RdmaProc => "rpcordma.msg_type") {
        /// An RPC message follows, of which parts may travel in chunks.
        RDMA_MSG => Msg(ChunkLists<'a>),
        /// The RPC message travels in a chunk.
        RDMA_NOMSG => Nomsg(ChunkLists<'a>),
        /// An RPC message with padding follows.
        RDMA_MSGP => Msgp(PaddedHeader<'a>),
        /// The Requester has read what a Reply offered.
        RDMA_DONE => Done,
        /// The Responder could not read a header.
        RDMA_ERROR => Error(RpcRdmaError),
        /// Another kind of message, or one of a version that this program does not know.
        default => Unread(UnknownRdmaBody<'a>),
    }

    /// What follows the fixed words in a form that is not known. RFC 8166 section 4.2.
    struct UnknownRdmaBody<'a> { data: RemainingBytes<'a> }

    /// The words that stand at these places in every version. RFC 8166 section 4.2.
    struct FixedFields {
        rdma_xid: Xid => "rpcordma.xid",
        rdma_vers: u32 => "rpcordma.version",
        rdma_credit: u32 => "rpcordma.flow_control",
    }
}

impl WriteChunk<'_> {
    /// Bytes in all segments: what a Requester offers, or a Responder has returned.
    pub fn length(&self) -> u64 {
        self.target.iter().map(|segment| u64::from(segment.length)).sum()
    }
}

/// The body of a header in one version, behind the words that all versions share.
pub trait VersionBody<'a>: Xdr<'a> {
    /// The version.
    const VERSION: u32;
    /// The body as a group of fields.
    const FIELD: &'static Field;

    /// Reads the body of a header of another version, of which the kind of message alone is known.
    ///
    /// # Errors
    /// If the message ends before that word.
    fn decode_unread<O: Observer<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError>;

    /// True if it is the answer to an unknown version, which repeats that version and has the same form in all of them (RFC 8166
    /// section 4.5.1, draft-ietf-nfsv4-rpcrdma-version-two section 4.3.2).
    fn is_version_error(&self) -> bool;
}

/// rdma_msg of RFC 8166 section 4.2, and rpcrdma2_hdr_prefix of draft-ietf-nfsv4-rpcrdma-version-two section 6.4: what every
/// RPC-over-RDMA message of a numbered version begins with, and the body of one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefixed<B> {
    /// The XID of the RPC message. RFC 8166 section 4.2.1. Of no meaning in RDMA2_GRANT.
    pub rdma_xid: Xid,
    /// The version of RPC-over-RDMA. RFC 8166 section 4.2.2.
    pub rdma_vers: u32,
    /// Version 1: Calls that may be in flight, asked for in a Call and granted in a Reply (RFC 8166 section 4.2.3). Version 2: how many
    /// messages the receiver of this header may have sent on the connection, counted from its beginning and modulo 2^32
    /// (draft-ietf-nfsv4-rpcrdma-version-two section 4.2.1).
    pub rdma_credit: u32,
    /// What kind of message this is, and its chunks.
    pub rdma_body: B,
}

/// The header of version 1. RFC 8166 section 4.2.
pub type RpcRdmaHeader<'a> = Prefixed<RdmaBody<'a>>;

impl<'a> Prefixed<RdmaBody<'a>> {
    /// The header as one group of fields.
    pub const FIELD: &'static Field =
        &Field::group("rpcordma", "rdma_msg", "RPC-over-RDMA header. RFC 8166 section 4.2");

    /// Reads the header, and leaves the cursor at the RPC message if one follows.
    ///
    /// # Errors
    /// When the message ends too early or holds what RFC 8166 does not allow.
    pub fn decode<O: Observer<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        <Self as Xdr>::decode(cursor, Self::FIELD, observer)
    }

    /// What kind of message this is.
    pub fn proc(&self) -> RdmaProc {
        self.rdma_body.tag()
    }

    /// How opaque data of the message is aligned; not at all but in RDMA_MSGP.
    pub fn padding(&self) -> Padding {
        match &self.rdma_body {
            RdmaBody::Msgp(padded) => Padding { align: padded.rdma_align, threshold: padded.rdma_thresh },
            RdmaBody::Msg(_)
            | RdmaBody::Nomsg(_)
            | RdmaBody::Done
            | RdmaBody::Error(_)
            | RdmaBody::Unread(..) => Padding::default(),
        }
    }

    /// The chunk lists, where there is a place for them.
    pub fn chunk_lists(&self) -> Option<&ChunkLists<'a>> {
        match &self.rdma_body {
            RdmaBody::Msg(lists) | RdmaBody::Nomsg(lists) => Some(lists),
            RdmaBody::Msgp(padded) => Some(&padded.lists),
            RdmaBody::Done | RdmaBody::Error(_) | RdmaBody::Unread(..) => None,
        }
    }
}

impl<'a> VersionBody<'a> for RdmaBody<'a> {
    const VERSION: u32 = VERSION;
    const FIELD: &'static Field = &Field::group(
        "rpcordma.body",
        "rdma_body",
        "The kind of message and its chunks. RFC 8166 section 4.2.4",
    );

    fn decode_unread<O: Observer<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        let proc = RdmaProc::decode(cursor, RdmaBody::TAG, observer)?;
        UnknownRdmaBody::decode(cursor, <Self as VersionBody>::FIELD, observer)
            .map(|unread| Self::Unread(proc, unread))
    }

    fn is_version_error(&self) -> bool {
        matches!(self, Self::Error(RpcRdmaError::Vers(_)))
    }
}

impl<'a, B: VersionBody<'a>> Xdr<'a> for Prefixed<B> {
    const KIND: FieldKind = FieldKind::Group;

    fn describe(registry: &mut Registry) {
        FixedFields::describe(registry);
        registry.xdr::<B>(B::FIELD, "");
    }

    #[inline]
    fn decode<O: Observer<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static Field,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        observer.enter(field, cursor.position());
        let [xid, vers, credit] = FixedFields::FIELDS;
        let rdma_xid = Xid::decode(cursor, xid, observer)?;
        let rdma_vers = u32::decode(cursor, vers, observer)?;
        let rdma_credit = u32::decode(cursor, credit, observer)?;
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

fn is_version_error<'a, B: VersionBody<'a>>(mut cursor: Cursor<'a>) -> bool {
    let body = B::decode(&mut cursor, B::FIELD, &mut NullObserver);
    body.is_ok_and(|body| body.is_version_error()) && cursor.remaining() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Result<RpcRdmaHeader<'_>, XdrError> {
        RpcRdmaHeader::decode(&mut Cursor::new(bytes), &mut NullObserver)
    }

    /// Decodes a header without anything after it, and holds it to encode to its own bytes.
    fn round_trip(bytes: &[u8]) -> RpcRdmaHeader<'_> {
        let mut cursor = Cursor::new(bytes);
        let header = RpcRdmaHeader::decode(&mut cursor, &mut NullObserver).unwrap();
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
        let header = RpcRdmaHeader::decode(&mut cursor, &mut NullObserver).unwrap();
        assert_eq!((header.rdma_xid, header.rdma_vers, header.rdma_credit), (Xid(0x1234_5678), 1, 128));
        assert_eq!(cursor.word(), Ok(7));

        let lists = header.chunk_lists().unwrap();
        let target = RdmaSegment { handle: Handle(0xa1), length: 0x2000, offset: 0x9c8d_f27d_0359_2000 };
        let reads = [ReadSegment { position: 180, target }];
        assert_eq!(lists.rdma_reads, Chain::from(&reads[..]));
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
        let versions = Versions { rdma_vers_low: 1, rdma_vers_high: 2 };
        assert_eq!(round_trip(&bytes).rdma_body, RdmaBody::Error(RpcRdmaError::Vers(versions)));
    }

    #[test]
    fn rfc8166_section_4_2_of_another_version_only_the_fixed_words_are_read() {
        let bytes = words(&[7, 2, 32, 0, 99, 100]);
        let header = round_trip(&bytes);
        assert_eq!((header.rdma_vers, header.rdma_credit, header.proc()), (2, 32, RdmaProc::RDMA_MSG));
        let data = RemainingBytes(&bytes[16..]);
        assert_eq!(header.rdma_body, RdmaBody::Unread(RdmaProc::RDMA_MSG, UnknownRdmaBody { data }));
    }

    #[test]
    fn rfc8166_section_4_5_2_an_invalid_procedure_is_kept_unread() {
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
    fn a_header_cut_at_any_byte_is_told_as_cut() {
        let bytes = words(&[&[7, 1, 32, 0][..], &LISTS[..24]].concat());
        for end in 0..bytes.len() {
            let mut cursor = Cursor::new(&bytes[..end]).with_length(bytes.len());
            assert!(RpcRdmaHeader::decode(&mut cursor, &mut NullObserver).unwrap_err().is_cut(), "{end}");
            assert!(!decode(&bytes[..end]).unwrap_err().is_cut(), "{end}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, length: u16) {
            let _ = RpcRdmaHeader::decode(&mut Cursor::new(&bytes).with_length(length.into()), &mut NullObserver);
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
