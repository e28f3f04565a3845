//! Headers of the prototype and of version 2, encoded by hand from their specifications.

use super::version2::{
    ReverseDirectionSupport, RpcRdma2Body, RpcRdma2ErrCode, RpcRdma2Error, RpcRdma2Header, RpcRdma2HeaderType,
    RpcRdma2Property, RpcRdma2PropertyId,
};
use super::*;
use crate::field::NullFieldObserver;
use crate::memory_handle::Handle;
use crate::rpc::Xid;
use crate::xdr::{Cursor, Encoder, Opaque, StructuredOpaque};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Decodes a header without following bytes, and asserts that it encodes to the same bytes.
fn round_trip(dialect: Dialect, bytes: &[u8]) -> AnyDialectHeader<'_> {
    let mut cursor = Cursor::new(bytes);
    let header = AnyDialectHeader::decode(dialect, &mut cursor, &mut NullFieldObserver).unwrap();
    assert_eq!(cursor.remaining(), 0, "{header:?}");
    let mut encoder = Encoder::new();
    header.encode(&mut encoder);
    assert_eq!(encoder.bytes(), bytes);
    header
}

fn version2(bytes: &[u8]) -> RpcRdma2Header<'_> {
    match round_trip(Dialect::Version2, bytes) {
        AnyDialectHeader::Version2(header) => header,
        other => panic!("{other:?}"),
    }
}

fn weighed(bytes: &[u8]) -> (RpcRdmaEvidence, Dialect) {
    recognize_dialect(bytes, bytes.len(), None)
}

/// A Read segment as a list entry, a Write chunk of two segments, a Reply chunk of one.
const READ: [u32; 6] = [1, 180, 0xa1, 0x2000, 0x9c8d_f27d, 0x0359_2000];
const WRITE: [u32; 10] = [1, 2, 0xb1, 0x1000, 0, 0x1000, 0xb2, 0x800, 0, 0x8000];
const REPLY: [u32; 6] = [1, 1, 0xc1, 0x400, 1, 0];
/// A Call of NFSv3 NULL with AUTH_NONE, and its Reply.
const CALL: [u32; 10] = [7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
const ANSWER: [u32; 6] = [7, 1, 0, 0, 0, 0];

/// NFS over RDMA (SIGCOMM 2003) section 4.4, figure 11.
#[test]
fn the_prototype_has_one_list_of_offset_length_handle_and_address() {
    let bytes = words(&[7, 1, 0, 1, 44, 4096, 0xd1, 0, 0x8000, 1, 4200, 100, 0xd2, 1, 0, 0]);
    let header = round_trip(Dialect::Prototype, &bytes);
    assert_eq!((header.xid(), header.transfer_mode()), (Xid(7), RpcTransferMode::Inline));
    assert_eq!(header.message_type().to_string(), "RDMA_MSG");
    let AnyDialectHeader::Prototype(header) = header else { panic!() };
    let chunks: Vec<_> = header.chunks().iter().collect();
    assert_eq!(chunks.len(), 2);
    let first = sigcomm2003_prototype::Sigcomm2003PrototypeChunk {
        c_xdroff: 44,
        c_len: 4096,
        c_shandle: Handle(0xd1),
        c_saddr: 0x8000,
    };
    assert_eq!(chunks[0], first);
    assert_eq!(chunks[1].c_saddr, 1 << 32);

    let done = words(&[7, 1, 1]);
    assert_eq!(round_trip(Dialect::Prototype, &done).transfer_mode(), RpcTransferMode::Done);
}

/// NFS over RDMA (SIGCOMM 2003) section 4.6.2.
#[test]
fn a_first_chunk_at_offset_0_is_the_whole_message_of_the_prototype() {
    let bytes = words(&[7, 1, 0, 1, 0, 4096, 0xd1, 0, 0x8000, 1, 4200, 100, 0xd2, 1, 0, 0]);
    assert_eq!(round_trip(Dialect::Prototype, &bytes).transfer_mode(), RpcTransferMode::InChunk);
    assert_eq!(weighed(&bytes), (RpcRdmaEvidence::Strong, Dialect::Prototype));
}

/// Sections 6.3.5 to 6.3.10: the chunk lists of each header type, and the transfer mode of its RPC message.
#[test]
fn each_header_type_of_version_2_has_its_structure() {
    let inline = |htype: u32, lists: &[&[u32]]| words(&[&[7, 2, 9, htype][..], &lists.concat()].concat());
    let cases = [
        (
            RpcRdma2HeaderType::RDMA2_CALL_EXTERNAL,
            RpcTransferMode::InChunk,
            inline(8, &[&[0xa1], &[1, 0, 0xa0, 64, 0, 1, 0], &READ, &[0], &WRITE, &[0], &REPLY]),
            [2, 1, 1],
        ),
        (RpcRdma2HeaderType::RDMA2_CALL_MIDDLE, RpcTransferMode::Part, inline(9, &[&[300]]), [0, 0, 0]),
        (
            RpcRdma2HeaderType::RDMA2_CALL_INLINE,
            RpcTransferMode::Inline,
            inline(10, &[&[0], &READ, &[0], &WRITE, &[0], &REPLY]),
            [1, 1, 1],
        ),
        (
            RpcRdma2HeaderType::RDMA2_REPLY_EXTERNAL,
            RpcTransferMode::InChunk,
            inline(11, &[&WRITE, &[0], &REPLY]),
            [0, 1, 1],
        ),
        (RpcRdma2HeaderType::RDMA2_REPLY_MIDDLE, RpcTransferMode::Part, inline(12, &[&[300]]), [0, 0, 0]),
        (RpcRdma2HeaderType::RDMA2_REPLY_INLINE, RpcTransferMode::Inline, inline(13, &[&WRITE, &[0]]), [0, 1, 0]),
        (RpcRdma2HeaderType::RDMA2_GRANT, RpcTransferMode::Control, inline(5, &[]), [0, 0, 0]),
    ];
    for (htype, transfer_mode, bytes, lists) in cases {
        let header = version2(&bytes);
        assert_eq!((header.header_type(), header.rdma_credit), (htype, 9));
        let counts =
            [header.reads().count(), header.writes().len() as usize, usize::from(header.reply_chunk().is_some())];
        assert_eq!(counts, lists, "{htype}");
        let header = AnyDialectHeader::Version2(header);
        assert_eq!(header.transfer_mode(), transfer_mode, "{htype}");
        assert_eq!(header.remaining_bytes(), (transfer_mode == RpcTransferMode::Part).then_some(300));
    }
}

/// Section 5: four sizes, reverse-direction support, an authentication message, an unknown property, and a property
/// with its default.
#[test]
fn properties_of_version_2_have_their_types() {
    let set = [7, 1, 4, 8192, 2, 4, 16384, 3, 4, 1 << 20, 4, 4, 16, 5, 4, 2, 6, 8, 4, 0x7365_6372, 99, 3, 0x6162_6300];
    for htype in [6, 7] {
        let bytes = words(&[&[0, 2, 9, htype][..], &set].concat());
        let header = version2(&bytes);
        let properties: Vec<_> = header.properties().unwrap().rdma_props.iter().collect();
        assert_eq!(
            properties,
            [
                RpcRdma2Property::SendSize(StructuredOpaque::Known(8192)),
                RpcRdma2Property::ReceiveSize(StructuredOpaque::Known(16384)),
                RpcRdma2Property::SegmentSize(StructuredOpaque::Known(1 << 20)),
                RpcRdma2Property::SegmentCount(StructuredOpaque::Known(16)),
                RpcRdma2Property::Reverse(StructuredOpaque::Known(ReverseDirectionSupport::RDMA2_RVRSDIR_CONT)),
                RpcRdma2Property::HostAuth(StructuredOpaque::Known(Opaque(b"secr"))),
                RpcRdma2Property::Other(RpcRdma2PropertyId(99), Opaque(b"abc")),
            ]
        );
        assert_eq!(weighed(&bytes), (RpcRdmaEvidence::Strong, Dialect::Version2));
    }
    let default = words(&[0, 2, 9, 7, 1, 1, 0]);
    let header = version2(&default);
    let first = header.properties().unwrap().rdma_props.iter().next();
    assert_eq!(first, Some(RpcRdma2Property::SendSize(StructuredOpaque::Unread(Opaque(b"")))));
}

/// Section 6.3.1.
#[test]
fn errors_of_version_2_have_the_body_of_their_code() {
    let cases = [
        (vec![1, 1, 2], RpcRdma2Error::Vers(RpcRdmaErrvers { rdma_vers_low: 1, rdma_vers_high: 2 })),
        (vec![2], RpcRdma2Error::Plain(RpcRdma2ErrCode::RDMA2_ERR_BAD_XDR)),
        (vec![6, 4], RpcRdma2Error::ReadChunks(4)),
        (vec![7, 5], RpcRdma2Error::WriteChunks(5)),
        (vec![8, 16], RpcRdma2Error::Segments(16)),
        (
            vec![9, 1, 4096],
            RpcRdma2Error::WriteResource(version2::RpcRdma2ShortWriteError {
                rdma_chunk_index: 1,
                rdma_length_needed: 4096,
            }),
        ),
        (vec![10, 8192], RpcRdma2Error::ReplyResource(8192)),
        (vec![11], RpcRdma2Error::Plain(RpcRdma2ErrCode::RDMA2_ERR_VERS_MISMATCH)),
        (vec![100], RpcRdma2Error::Plain(RpcRdma2ErrCode::RDMA2_ERR_SYSTEM)),
    ];
    for (content, expected) in cases {
        let bytes = words(&[&[7, 2, 9, 4][..], &content].concat());
        let header = version2(&bytes);
        assert_eq!(header.rdma_body, RpcRdma2Body::Error(expected));
        let code = AnyDialectHeader::Version2(header).error().unwrap();
        assert_eq!(code.number(), content[0]);
        assert_eq!(code.status_name(), code.name().map(|name| format!("RDMA_ERROR:{name}")).as_deref());
    }
}

/// Section 4.3: a server that supports only version 1 replies in a form common to both versions.
#[test]
fn the_error_of_an_unknown_version_is_read_in_both_versions() {
    for vers in [1, 2, 9] {
        let bytes = words(&[7, vers, 32, 4, 1, 1, 1]);
        for dialect in [Dialect::Rfc8166, Dialect::Version2] {
            assert_eq!(round_trip(dialect, &bytes).transfer_mode(), RpcTransferMode::Error, "{vers} {dialect}");
        }
    }
    let unknown = words(&[7, 9, 32, 10, 0, 0]);
    assert_eq!(round_trip(Dialect::Version2, &unknown).transfer_mode(), RpcTransferMode::Unknown);
    let extension = words(&[7, 2, 32, 14, 5]);
    assert_eq!(round_trip(Dialect::Version2, &extension).transfer_mode(), RpcTransferMode::Unknown);
}

#[test]
fn each_dialect_is_recognized_by_the_structure_of_its_messages() {
    for rpc in [&CALL[..], &ANSWER] {
        let htype = if rpc[1] == 0 { 10 } else { 13 };
        let v2_lists: &[u32] = if rpc[1] == 0 { &[0, 0, 0, 0] } else { &[0] };
        let cases = [
            (Dialect::Rfc8166, vec![7, 1, 32, 0, 0, 0, 0]),
            (Dialect::Version2, [&[7, 2, 32, htype][..], v2_lists].concat()),
            (Dialect::Prototype, vec![7, 1, 0, 0]),
            (Dialect::Prototype, vec![7, 1, 0, 1, 44, 100, 0xa1, 0, 1, 0]),
        ];
        for (dialect, header) in cases {
            let bytes = words(&[&header[..], rpc].concat());
            assert_eq!(weighed(&bytes), (RpcRdmaEvidence::Strong, dialect), "{header:?}");
            for asked in Dialect::ALL {
                let is_same = asked == dialect || (asked.is_version1() && dialect.is_version1());
                let (evidence, named) = recognize_dialect(&bytes, bytes.len(), Some(asked));
                assert_eq!((evidence == RpcRdmaEvidence::Strong, named), (is_same, asked), "{header:?}");
            }
        }
    }
    // Only the first part of a message has an RPC header.
    let part = |rpc: &[u32]| weighed(&words(&[&[7, 2, 32, 9, 300][..], rpc].concat())).0;
    assert_eq!((part(&CALL), part(&[1, 2, 3])), (RpcRdmaEvidence::Strong, RpcRdmaEvidence::Weak));
}

/// ib_send_bw and similar tools send zeros, a repeated byte, counters or noise.
#[test]
fn test_patterns_are_of_no_dialect() {
    for length in [12, 16, 20, 28, 40, 64, 256, 4096] {
        let counters = words(&(0..length as u32 / 4).collect::<Vec<_>>());
        let patterns =
            [vec![0; length], vec![0xff; length], words(&vec![1; length / 4]), words(&vec![2; length / 4]), counters];
        for pattern in patterns {
            assert!(weighed(&pattern).0 < RpcRdmaEvidence::Strong, "{length} {:?}", &pattern[..12]);
        }
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_words_never_panic_and_are_never_claimed(
        xid in 1u32.., vers in 0u32..3, credit: u32, htype in 0u32..15, rest: Vec<u8>, more: u16,
    ) {
        let bytes = [words(&[xid, vers, credit, htype]), rest].concat();
        for asked in [None, Some(Dialect::Prototype), Some(Dialect::Version2)] {
            let length = bytes.len() + usize::from(more);
            proptest::prop_assert!(recognize_dialect(&bytes, length, asked).0 < RpcRdmaEvidence::Strong);
        }
    }

    #[test]
    fn small_words_never_panic(htype in 0u32..15, vers in 1u32..3, small in proptest::collection::vec(0u32..3, 0..80)) {
        let bytes = words(&[&[7, vers, 32, htype][..], &small].concat());
        for dialect in Dialect::ALL {
            let _ = AnyDialectHeader::decode(dialect, &mut Cursor::new(&bytes), &mut NullFieldObserver);
        }
    }
}
