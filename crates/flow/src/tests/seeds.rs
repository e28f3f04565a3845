//! The founding documents of NFS over RDMA, by their sections. 000 is nfs-direct-data-placement, 002
//! draft-ietf-nfsv4-rfc5667bis-02, 003 "NFS over RDMA" (SIGCOMM 2003), 004 draft-talpey-nfsv4-rdma-sess-01.

use nfsrdma_dissectors::nfs::v4::{Args, Nfsstat4, Results};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Void;

use super::*;

/// 003 sections 2.1 to 2.4: NFS is a family of RPC programs, and all of them may use RDMA.
#[test]
fn seed_003_2_every_program_of_the_family_goes_over_rdma() {
    let programs = [
        (Program::NFS.0, 2, 0, "NFS"),
        (Program::NFS.0, 3, 0, "NFS"),
        (Program::NFS.0, 4, 0, "NFS"),
        (Program::MOUNT.0, 3, 0, "MOUNT"),
        (Program::NLM.0, 4, 0, "NLM"),
        (Program::NFSACL.0, 3, 0, "NFSACL"),
    ];
    let mut link = Link::new(17);
    let mut frames = Frames::new();
    for (xid, (program, version, procedure, _)) in (7..).zip(programs) {
        // NULL has neither arguments nor results.
        let (mut call, mut reply) = (call_of(xid, program, version, procedure), reply_of(xid));
        call.body.truncate(call.body.len() - 8);
        reply.body.truncate(reply.body.len() - 8);
        frames.extend([link.send(Client, &call), link.send(Server, &reply)].concat());
    }
    let outcome = run(&frames);
    let facts = outcome.transactions.iter().map(|t| t.with_messages(|reading| reading.summary()));
    let printed: Vec<_> = facts.map(|of| (of.program_name(), of.version, of.procedure_name)).collect();
    let expected: Vec<_> =
        programs.iter().map(|(_, version, _, name)| (Some(*name), Some(*version), Some("NULL"))).collect();
    assert_eq!(printed, expected);
}

/// 003 sections 3.4, 4.1 and 4.2: chunks belong at their offsets in the XDR stream, and the decoder inserts
/// them there.
#[test]
fn seed_003_3_4_segments_of_one_chunk_are_spliced_in_their_order() {
    let mut link = Link::new(17);
    let parts = [memory(0xa1, 0x1000, 512), memory(0xa2, 0x2000, 1), memory(0xa3, 0x3000, 487)];
    let bytes = data(1000);
    let mut frames = link.send(Client, &write_call(7, 1000).read(&parts));
    // They are fetched in another order.
    for (part, range) in [(parts[2], 513..1000), (parts[0], 0..512), (parts[1], 512..513)] {
        frames.extend(link.read(Server, part, &bytes[range]));
    }
    frames.extend(link.send(Server, &write_reply(7, 1000)));
    let limits = FlowLimits { keep_file_data: true, ..FlowLimits::default() };
    let outcome = run_within(limits, &frames, |_| usize::MAX);
    let [transaction] = &outcome.transactions[..] else { panic!() };
    let content = transaction.read_chunks[0].content(|segment| segment.length.into()).unwrap();
    assert_eq!((&*content, transaction.read_chunks[0].position), (&bytes[..], Some(68)));
    assert_eq!(transaction.missing_parts(), []);
}

/// 003 section 4.3, figures 7 and 10: the Call, the server's RDMA Reads or Writes, and then the Reply.
#[test]
fn seed_003_4_3_the_server_moves_data_between_call_and_reply() {
    let mut link = Link::new(17);
    let (source, sink) = (memory(0xa1, 0x1000, 100), memory(0xb1, 0x1000, 100));
    let frames = [
        link.send(Client, &write_call(7, 100).read(&[source])),
        link.read(Server, source, &data(100)),
        link.send(Server, &write_reply(7, 100)),
        link.send(Client, &read_call(8, 100).write(&[sink])),
        link.write(Server, sink, &data(100)),
        link.send(Server, &read_reply(8, 100).write(&[sink])),
    ]
    .concat();
    let outcome = run(&frames);
    let words: Vec<_> = { outcome.meanings.iter() }
        .map(|meaning| match meaning {
            FrameContentKind::Message { which, .. } => format!("{which:?}"),
            FrameContentKind::ReadRequest { chunk, .. } => format!("asks for Read chunk {chunk}"),
            FrameContentKind::ChunkData { kind, chunk, .. } => format!("moves {kind:?} chunk {chunk}"),
            other => format!("{other:?}"),
        })
        .collect();
    let write = ["Call", "asks for Read chunk 0", "moves Read chunk 0", "Reply"];
    assert_eq!(words, [&write[..], &["Call", "moves Write chunk 0", "Reply"]].concat());
}

/// 000 section 2, 002 section 2.1: the Position of a Read chunk names the argument that it contains.
#[test]
fn seed_000_2_each_read_chunk_is_the_argument_at_its_position() {
    let mut link = Link::new(17);
    let sources = [memory(0xa1, 0x1000, 600), memory(0xa2, 0x1000, 400)];
    let frames = [
        link.send(Client, &write_call(7, 1000).read(&sources)),
        link.read(Server, sources[0], &data(600)),
        link.read(Server, sources[1], &data(1000)[600..]),
        link.send(Server, &write_reply(7, 1000)),
    ]
    .concat();
    let outcome = run(&frames);
    let [transaction] = &outcome.transactions[..] else { panic!() };
    // One Position, and so one chunk of two segments: 68 bytes of header and arguments precede the data.
    let chunks: Vec<_> = transaction.read_chunks.iter().map(|chunk| (chunk.position, chunk.segments.len())).collect();
    assert_eq!(chunks, [(Some(68), 2)]);
    assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(68 + 1000));
}

/// 000 section 3: segments are filled one after the other, and the Reply has the lengths that were used; 0
/// for unused segments.
#[test]
fn seed_000_3_segments_are_filled_in_order_and_lengths_come_back() {
    let mut link = Link::new(17);
    let sinks = [memory(0xb1, 0x1000, 512), memory(0xb2, 0x1000, 512), memory(0xb3, 0x1000, 512)];
    let returned = [sinks[0], sinks[1].of(88), sinks[2].of(0)];
    let frames = [
        link.send(Client, &read_call(7, 1536).write(&sinks)),
        link.write(Server, sinks[0], &data(512)),
        link.write(Server, sinks[1], &data(88)),
        link.send(Server, &read_reply(7, 600).write(&returned)),
    ]
    .concat();
    let outcome = run(&frames);
    let [transaction] = &outcome.transactions[..] else { panic!() };
    let lengths =
        |segment: &chunk::ChunkSegment| (segment.length, segment.returned_length, segment.moved_coverage.total_bytes());
    let filled: Vec<_> = transaction.write_chunks[0].segments.iter().map(lengths).collect();
    assert_eq!(filled, [(512, Some(512), 512), (512, Some(88), 88), (512, Some(0), 0)]);
    assert_eq!(transaction.missing_parts(), []);
}

/// 000 section 4, 002 section 2.4: a long Call is in a chunk, and one of its arguments may be in another.
#[test]
fn seed_000_4_a_long_call_may_be_reduced_as_well() {
    let mut link = Link::new(17);
    let call = write_call(7, 1000);
    let (whole, source) = (memory(0xa0, 0, call.body.len() as u32), memory(0xa1, 0, 1000));
    let body = call.body.clone();
    let position = body.len() as u32;
    let frames = [
        link.send(Client, &call.nomsg().read_at(0, &[whole]).read_at(position, &[source])),
        link.read(Server, whole, &body),
        link.read(Server, source, &data(1000)),
        link.send(Server, &write_reply(7, 1000)),
    ]
    .concat();
    let outcome = run(&frames);
    let [transaction] = &outcome.transactions[..] else { panic!() };
    let facts = transaction.with_messages(|reading| reading.summary());
    assert_eq!((facts.operation, facts.call_error), (Some(ProcedureOrMainOperation::Named("WRITE")), None));
    assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(body.len() as u64 + 1000));
    assert_eq!(transaction.missing_parts(), []);
}

/// 000 section 5.1, 002 section 4.4: Calls of both directions may share an XID; their content distinguishes
/// Call from Reply.
#[test]
fn seed_000_5_1_a_callback_may_have_the_xid_of_a_call_that_waits() {
    let mut link = Link::new(17);
    let frames = [
        link.send(Client, &getattr_call(7)),
        link.send(Server, &callback(7)),
        link.send(Client, &null_reply(7)),
        link.send(Server, &getattr_reply(7)),
    ]
    .concat();
    expect_all(&frames, &["#1 c1 < 7 NULL SUCCESS call 2 reply 3", "#2 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 4"]);
}

/// 000 section 5.1: a long callback is sent as RDMA_NOMSG, with its chunk in the memory of the server.
#[test]
fn seed_000_5_1_a_long_callback_is_read_by_the_client() {
    let mut link = Link::new(17);
    let call = callback(9);
    let whole = memory(0xc1, 0x1000, call.body.len() as u32);
    let body = call.body.clone();
    let frames = [
        null(&mut link, 6),
        link.send(Server, &call.nomsg().read_at(0, &[whole])),
        link.read(Client, whole, &body),
        link.send(Client, &null_reply(9)),
    ]
    .concat();
    let outcome = run(&frames);
    let last = outcome.transactions.last().unwrap();
    let facts = last.with_messages(|reading| reading.summary());
    assert_eq!((last.direction, facts.program_name()), (CallDirection::Reverse, Some("NFS_CB")));
    assert_eq!((last.missing_parts(), last.read_chunks[0].moved_bytes()), (vec![], body.len() as u64));
}

/// 004 section 2.7: the sizes of a COMPOUND are those of its messages, however many operations it has.
#[test]
fn seed_004_2_7_a_compound_of_many_operations_has_one_length() {
    let operations = vec![Args::PUTROOTFH(Void); 40];
    let results = vec![Results::PUTROOTFH(nfsrdma_dissectors::nfs::StatusUnion::Ok(Void)); 40];
    let mut link = Link::new(17);
    let frames = [
        link.send(Client, &compound_call(7, &operations)),
        link.send(Server, &compound_reply(7, Nfsstat4::NFS4_OK, &results)),
    ]
    .concat();
    let outcome = run(&frames);
    let [transaction] = &outcome.transactions[..] else { panic!() };
    // Header of the Call 40, tag, minor version and count 12, and 4 for each; of the Reply 24, 12, and 8 for
    // each.
    assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(40 + 12 + 4 * 40));
    assert_eq!(transaction.rpc_length(RpcMessageKind::Reply), Some(24 + 12 + 8 * 40));
    assert_eq!(transaction.missing_parts(), []);
}
