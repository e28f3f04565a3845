//! Real messages of a Linux client and server over RoCEv2, from the RPC-over-RDMA header to the last argument or
//! result.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{Args, Nfsstat3, Procedure, ProcedureNumber, Results};
use nfsrdma_dissectors::rpc::{Program, RpcMsg};
use nfsrdma_dissectors::rpcrdma::{RdmaProc, RpcRdma1Header, RpcRdmaEvidence, recognize};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, Ddp, Encoder, Xdr};

/// WRITE of 12345 bytes in a Read chunk at Position 112.
const WRITE_CALL: &str = "\
    b98d628400000001000000800000000000000001000000700000064000003039 \
    b98d62840b936c60000000000000000000000000b98d62840000000000000002 \
    000186a30000000300000007000000010000001c0000000000000006636c6965 \
    6e74000000000000000000000000000000000000000000000000001401000181 \
    000000008a00000000000000e453f29000000000000000000000303900000002 \
    00003039";

/// READ of 100 bytes, returned in a Write chunk.
const READ_REPLY: &str = "\
    c38d628400000001000000800000000000000000000000010000000100000c91 \
    00000064c38d62843cb870000000000000000000c38d62840000000100000000 \
    000000000000000000000000000000000000000100000001000001a400000001 \
    0000000000000000000000000000006400000000000010000000000000000000 \
    000000000000000000000000000000856b010a852d9d16a66b010a8518a1fe9c \
    6b010a8518a1fe9c000000640000000100000064";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn a_write_call_is_read_with_its_data_in_a_read_chunk() {
    let bytes = bytes(WRITE_CALL);
    assert_eq!(recognize(&bytes, bytes.len()), RpcRdmaEvidence::Strong);
    let mut cursor = Cursor::new(&bytes);
    let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    assert_eq!(header.proc(), RdmaProc::RDMA_MSG);
    let chunks: Vec<_> = header
        .chunk_lists()
        .unwrap()
        .rdma_reads
        .iter()
        .map(|read| ChunkedDataItem { position: Some(read.position), length: read.target.length, bytes: None })
        .collect();

    let payload = cursor.rest();
    let mut cursor = Cursor::new(payload).with_base(cursor.at()).with_chunks(&chunks);
    let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let call = message.call().unwrap();
    assert_eq!((message.xid, call.prog, call.vers), (header.rdma_xid, Program::NFS, 3));
    assert_eq!(call.cred.sys().unwrap().machinename.0, b"client");

    let procedure = ProcedureNumber(call.proc).known().unwrap();
    let args = Args::decode(procedure, &mut cursor, &mut NullFieldObserver).unwrap();
    let Args::WRITE(write) = &args else { panic!("{args:?}") };
    assert_eq!((write.count, write.data), (12_345, Ddp::Chunk { length: 12_345, bytes: None }));
    assert_eq!((cursor.remaining(), cursor.position()), (0, bytes.len()));

    let mut encoder = Encoder::new();
    message.encode(&mut encoder);
    args.encode(&mut encoder);
    let positions: Vec<_> = encoder.splices().iter().map(|splice| splice.position).collect();
    assert_eq!((encoder.bytes(), positions), (payload, vec![112]));
}

#[test]
fn a_read_reply_is_read_with_its_data_in_a_write_chunk() {
    let bytes = bytes(READ_REPLY);
    assert_eq!(recognize(&bytes, bytes.len()), RpcRdmaEvidence::Strong);
    let mut cursor = Cursor::new(&bytes);
    let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let chunks: Vec<_> = header
        .chunk_lists()
        .unwrap()
        .rdma_writes
        .iter()
        .map(|chunk| ChunkedDataItem { position: None, length: chunk.length() as u32, bytes: None })
        .collect();

    let payload = cursor.rest();
    let mut cursor = Cursor::new(payload).with_chunks(&chunks);
    let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    assert!(message.reply().unwrap().status().is_success());

    let results = Results::decode(Procedure::READ, &mut cursor, &mut NullFieldObserver).unwrap();
    let Results::READ(outcome) = &results else { panic!("{results:?}") };
    assert_eq!((outcome.status(), cursor.remaining()), (Nfsstat3::NFS3_OK, 0));
    let read = outcome.ok().unwrap();
    assert_eq!((read.count, read.eof, read.data.length()), (100, true, 100));

    let mut encoder = Encoder::new();
    message.encode(&mut encoder);
    results.encode(&mut encoder);
    assert_eq!(encoder.bytes(), payload);
}

/// Truncated at any byte, they are recognized or undecided, and nothing panics.
#[test]
fn real_messages_may_be_cut_at_any_byte() {
    for message in [WRITE_CALL, READ_REPLY] {
        let bytes = bytes(message);
        for end in 0..bytes.len() {
            let expected = match end {
                0..16 => RpcRdmaEvidence::None,
                _ => RpcRdmaEvidence::Weak,
            };
            assert!(recognize(&bytes[..end], bytes.len()) >= expected, "{end}");
            let mut cursor = Cursor::new(&bytes[..end]).with_length(bytes.len());
            if RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).is_ok() {
                let error = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).err();
                assert!(error.is_none_or(|error| error.is_cut()), "{end}");
            }
        }
    }
}
