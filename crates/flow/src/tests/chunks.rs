//! Chunks: attribution of RDMA data to Transactions. RFC 8166 sections 3.4 and 3.5.

use nfsrdma_dissectors::rpcrdma::{self, Dialect, RdmaProc, RpcRdmaMessageType};

use super::*;
use crate::chunk::ChunkKind;

#[test]
fn a_handle_and_offset_may_be_used_again_by_the_next_call() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let frames: Frames = (7..10).flat_map(|xid| read(&mut link, xid, sink)).collect();
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 5 w[2048/2048/2048@3-4]",
            "#2 c1 > 8 READ NFS3_OK call 7 reply 11 w[2048/2048/2048@9-10]",
            "#3 c1 > 9 READ NFS3_OK call 13 reply 17 w[2048/2048/2048@15-16]",
        ],
    );
    let source = memory(0xa1, 0x1000, 2048);
    let frames: Frames = (7..9).flat_map(|xid| write(&mut link, xid, source)).collect();
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 WRITE NFS3_OK call 1 reply 5 r68[2048/2048@3-4]",
            "#2 c1 > 8 WRITE NFS3_OK call 6 reply 10 r68[2048/2048@8-9]",
        ],
    );
}

#[test]
fn a_late_copy_of_an_rdma_write_counts_for_the_call_that_it_was_sent_for() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let old = read(&mut link, 7, sink);
    let call = link.send(Client, &read_call(8, 2048).write(&[sink]));
    let reply = link.send(Server, &read_reply(8, 2048).write(&[sink]));
    // First and Last again, after the new Call has advertised the same memory; its own Writes are lost.
    expect_all(
        &[old.clone(), call, old[2..4].to_vec(), reply].concat(),
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 5 w[2048/2048/2048@3-9]",
            "#2 c1 > 8 READ NFS3_OK call 7 reply 10 w[0/2048/2048] missing write:0:0-2047",
        ],
    );
}

#[test]
fn a_late_copy_of_a_read_response_counts_for_the_call_that_it_was_sent_for() {
    let mut link = Link::new(17);
    let source = memory(0xa1, 0x1000, 2048);
    let old = write(&mut link, 7, source);
    let call = link.send(Client, &write_call(8, 2048).read(&[source]));
    let reply = link.send(Server, &write_reply(8, 2048));
    expect_all(
        &[old.clone(), call, old[2..4].to_vec(), reply].concat(),
        &[
            "#1 c1 > 7 WRITE NFS3_OK call 1 reply 5 r68[2048/2048@3-8]",
            "#2 c1 > 8 WRITE NFS3_OK call 6 reply 9 r68[0/2048] missing read:0:0-2047",
        ],
    );
}

#[test]
fn two_calls_at_once_may_divide_the_memory_of_one_handle() {
    let mut link = Link::new(17);
    let (one, two) = (memory(0xb1, 0, 1024), memory(0xb1, 1024, 1024));
    let frames = [
        link.send(Client, &read_call(7, 1024).write(&[one])),
        link.send(Client, &read_call(8, 1024).write(&[two])),
        link.write(Server, two, &data(1024)),
        link.write(Server, one, &data(1000)),
        link.send(Server, &read_reply(8, 1024).write(&[two])),
        link.send(Server, &read_reply(7, 1000).write(&[one.of(1000)])),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 8 READ NFS3_OK call 2 reply 5 w[1024/1024/1024@3-3]",
            "#2 c1 > 7 READ NFS3_OK call 1 reply 6 w[1000/1000/1024@4-4]",
        ],
    );
}

#[test]
fn the_segments_of_a_chunk_may_have_one_handle() {
    let mut link = Link::new(17);
    let (one, two) = (memory(0xb1, 0x1000, 1024), memory(0xb1, 0x9000, 2048));
    let (from, and) = (memory(0xa1, 0x1000, 1024), memory(0xa1, 0x9000, 1000));
    let frames = [
        link.send(Client, &read_call(7, 3072).write(&[one, two])),
        link.write(Server, one, &data(1024)),
        link.write(Server, two, &data(1500)),
        link.send(Server, &read_reply(7, 2524).write(&[one, two.of(1500)])),
        link.send(Client, &write_call(8, 2024).read(&[from, and])),
        link.read(Server, from, &data(1024)),
        link.read(Server, and, &data(1000)),
        link.send(Server, &write_reply(8, 2024)),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 5 w[1024/1024/1024@2-2 1500/1500/2048@3-4]",
            "#2 c1 > 8 WRITE NFS3_OK call 6 reply 11 r68[1024/1024@8-8 1000/1000@10-10]",
        ],
    );
    assert_eq!(outcome.transactions[0].rpc_length(RpcMessageKind::Reply), Some(24 + 20 + 2524));
    assert_eq!(outcome.transactions[1].rpc_length(RpcMessageKind::Call), Some(68 + 2024));
}

/// Consecutive entries of one Position are one chunk, others are separate chunks. RFC 8166 section 3.4.5.
#[test]
fn a_call_may_have_several_read_chunks_of_several_segments() {
    let mut link = Link::new(17);
    let parts: Vec<_> = (0..4).map(|part| memory(0xa1 + part, 0, 512)).collect();
    let call = write_call(7, 1024).read_at(68, &parts[..2]).read_at(200, &parts[2..3]).read_at(300, &parts[3..]);
    let mut frames = link.send(Client, &call);
    for part in &parts {
        frames.extend(link.read(Server, *part, &data(512)));
    }
    frames.extend(link.send(Server, &write_reply(7, 1024)));
    expect_all(
        &frames,
        &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 10 r68[512/512@3-3 512/512@5-5] r200[512/512@7-7] r300[512/512@9-9]"],
    );
}

/// RFC 8881 section 18.32.3: a server may write less than it is asked, and needs no more.
#[test]
fn short_write_needs_its_count() {
    let parts = [memory(0xa1, 0, 400), memory(0xa2, 0, 600)];
    for (read, count, missing) in
        [(1, 400, ""), (1, 1000, " missing read:0:400-999"), (1, 401, " missing read:0:400-400"), (0, 0, "")]
    {
        let mut link = Link::new(17);
        let mut frames = link.send(Client, &write_call(7, 1000).read(&parts));
        frames.extend(parts[..read].iter().flat_map(|part| link.read(Server, *part, &data(400))));
        frames.extend(link.send(Server, &write_reply(7, count)));
        let lines = run(&frames).lines().concat();
        assert!(lines.ends_with(&format!("/600]{missing}")), "{count}: {lines}");
    }
}

#[test]
fn several_write_chunks_are_distinguished() {
    let mut link = Link::new(17);
    let sinks = [memory(0xb1, 0, 1024), memory(0xb2, 0, 1024)];
    let frames = [
        link.send(Client, &read_call(7, 1024).write(&sinks[..1]).write(&sinks[1..])),
        link.write(Server, sinks[1], &data(600)),
        link.send(Server, &read_reply(7, 600).write(&[sinks[0].of(0)]).write(&[sinks[1].of(600)])),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 3 w[0/0/1024] w[600/600/1024@2-2]"]);
    assert_eq!(outcome.meanings[1], data_of(outcome.meanings[0], ChunkKind::Write, 1));
}

fn data_of(call: FrameContentKind, kind: ChunkKind, chunk: usize) -> FrameContentKind {
    let FrameContentKind::Message { key, .. } = call else { panic!("{call:?}") };
    FrameContentKind::ChunkData { key, kind, chunk }
}

/// RFC 8166 section 3.5.3: the whole Call in a Position-Zero Read chunk.
#[test]
fn a_long_call_is_read_out_of_its_position_zero_read_chunk() {
    let mut link = Link::new(17);
    let whole = write_call_inline(7, &data(1500));
    let length = whole.body.len();
    let (one, two) = (memory(0xa1, 0x1000, 1024), memory(0xa2, 0, length as u32 - 1024));
    let frames = [
        link.send(Client, &whole.clone().nomsg().read_at(0, &[one, two])),
        link.read(Server, one, &whole.body[..1024]),
        link.read(Server, two, &whole.body[1024..]),
        link.send(Server, &write_reply(7, 1500)),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 6 r0[1024/1024@3-3 544/544@5-5]"]);
    assert_eq!(outcome.transactions[0].rpc_length(RpcMessageKind::Call), Some(length as u64));
    assert_eq!(outcome.transactions[0].call.as_ref().unwrap().inline_length(), Some(0));

    // Without the second response the Call is known by its first bytes.
    let lost = without(&frames, &[5]);
    expect(&lost, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 5 r0[1024/1024@3-3 0/544] missing read:0:1024-1567"]);
}

/// RFC 8166 section 3.5.3 with a data item reduced from a Call that is itself in a chunk.
#[test]
fn a_long_call_may_have_a_further_read_chunk() {
    let mut link = Link::new(17);
    let reduced = write_call(7, 2000);
    let (call, source) = (memory(0xa1, 0, reduced.body.len() as u32), memory(0xa2, 0, 2000));
    let frames = [
        link.send(Client, &reduced.clone().nomsg().read_at(0, &[call]).read(&[source])),
        link.read(Server, call, &reduced.body),
        link.read(Server, source, &data(2000)),
        link.send(Server, &write_reply(7, 2000)),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 7 r0[68/68@3-3] r68[2000/2000@5-6]"]);
    assert_eq!(outcome.transactions[0].rpc_length(RpcMessageKind::Call), Some(2068));
}

/// RFC 8166 section 3.5.3: the whole Reply in the Reply chunk.
#[test]
fn a_long_reply_is_read_out_of_the_segments_of_its_reply_chunk() {
    let mut link = Link::new(17);
    let whole = read_reply_inline(7, &data(1500));
    let (one, two) = (memory(0xc1, 0, 1024), memory(0xc1, 0x8000, 2048));
    let rest = whole.body.len() as u32 - 1024;
    let frames = [
        link.send(Client, &read_call(7, 1500).reply(&[one, two])),
        link.write(Server, one, &whole.body[..1024]),
        link.write(Server, two, &whole.body[1024..]),
        link.send(Server, &whole.clone().nomsg().reply(&[one, two.of(rest)])),
    ]
    .concat();
    let outcome =
        expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 4 rc[1024/1024/1024@2-2 520/520/2048@3-3]"]);
    assert_eq!(outcome.transactions[0].rpc_length(RpcMessageKind::Reply), Some(1544));

    expect(
        &without(&frames, &[3]),
        &["#1 c1 > 7 READ NFS3_OK call 1 reply 3 rc[1024/1024/1024@2-2 0/520/2048] missing replychunk:1024-1543"],
    );
    expect(
        &without(&frames, &[2]),
        &["#1 c1 > 7 READ - call 1 reply 3 rc[0/1024/1024 520/520/2048@2-2] missing replychunk:0-1023"],
    );
}

#[test]
fn a_reply_chunk_that_was_not_needed_misses_nothing() {
    let mut link = Link::new(17);
    let frames =
        [link.send(Client, &getattr_call(7).reply(&[memory(0xc1, 0, 1024)])), link.send(Server, &getattr_reply(7))]
            .concat();
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 2 rc[0/-/1024]"]);
}

/// RFC 8166 section 4.3.2.2 requires the segments with lengths of zero, RFC 8267 section 6.4.1 a chunk
/// without segments.
#[test]
fn an_unused_write_chunk_may_come_back_in_either_form() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1024);
    let frames = [
        link.send(Client, &read_call(7, 1024).write(&[sink])),
        link.send(Server, &read_reply(7, 0).write(&[sink.of(0)])),
        link.send(Client, &read_call(8, 1024).write(&[sink])),
        link.send(Server, &read_reply(8, 0).write(&[])),
    ]
    .concat();
    expect_all(
        &frames,
        &["#1 c1 > 7 READ NFS3_OK call 1 reply 2 w[0/0/1024]", "#2 c1 > 8 READ NFS3_OK call 3 reply 4 w[0/-/1024]"],
    );
}

#[test]
fn a_snap_length_within_the_chunk_lists_leaves_the_segments_before_it() {
    let mut link = Link::new(17);
    let sinks = [memory(0xb1, 0, 1024), memory(0xb2, 0, 1024)];
    let frames = [
        link.connect(1),
        link.send(Client, &read_call(7, 2048).write(&sinks)),
        link.write(Server, sinks[0], &data(1024)),
        link.send(Server, &read_reply(7, 2048).write(&sinks)),
    ]
    .concat();
    // Ethernet, IPv4, UDP and BTH are 54 bytes, the words before the lists 16, the empty Read list 4.
    let snap = |bytes: usize| run_cut(&frames, 3, 54 + bytes).lines().concat();
    // The words "another chunk" and "two segments", and the first segment.
    assert_eq!(
        snap(20 + 8 + 16),
        "#1 c1 > 7 - - call 4 reply 6 w[1024/1024/1024@5-5] missing call:header,reply:header"
    );
    // The last word of the second segment is cut.
    assert_eq!(
        snap(20 + 8 + 31),
        "#1 c1 > 7 - - call 4 reply 6 w[1024/1024/1024@5-5] missing call:header,reply:header"
    );
    // The lists are complete, and the RPC header up to its third word.
    assert_eq!(
        snap(20 + 8 + 32 + 8 + 12),
        "#1 c1 > 7 - - call 4 reply 6 w[1024/1024/1024@5-5 0/1024/1024] missing call:12-59,reply:12-43,write:0:1024-2047"
    );
    // No list at all, and a chunk without any segment.
    for bytes in [16, 20, 24, 28, 40] {
        assert_eq!(snap(bytes), "#1 c1 > 7 - - call 4 reply 6 missing call:header,reply:header");
    }
}

/// Everything after the cut is unknown, and no length is computed from it.
#[test]
fn a_header_cut_in_its_chunk_lists_has_unknown_lengths() {
    let mut link = Link::new(17);
    let [first, second] = [memory(0xb1, 0, 1024), memory(0xb2, 0, 1024)];
    let sources = [memory(0xa1, 0, 100), memory(0xa2, 0, 100)];
    let call = read_call(7, 2048).read(&sources).write(&[first]).write(&[second]).reply(&[memory(0xc1, 0, 4096)]);
    let frames = [link.connect(1), link.send(Client, &call)].concat();
    // Segments of each chunk list, and `true` if more may follow: Read, Write and Reply chunks.
    let lists = |captured: usize| {
        let transaction = run_cut(&frames, 3, 54 + captured).transactions.swap_remove(0);
        let message = transaction.call.as_ref().unwrap();
        assert_eq!(message.inline_length().is_none(), message.rpc_offset.is_none());
        assert_eq!(transaction.rpc_length(RpcMessageKind::Call).is_none(), message.rpc_offset.is_none());
        let chunk = |chunk: &Chunk| (chunk.segments.len(), chunk.is_cut);
        let chunks = |chunks: &[Chunk]| chunks.iter().map(chunk).collect::<Vec<_>>();
        let lists = (
            chunks(&transaction.read_chunks),
            chunks(&transaction.write_chunks),
            transaction.reply_chunk.as_ref().map(chunk),
        );
        (lists, message.rpc_offset)
    };
    // Fixed words 16, two Read segments of 24 and the end of their list, two Write chunks of 24 and the end, a
    // Reply chunk of 24.
    let cases = [
        (16 + 23, vec![], vec![], None),
        (16 + 24, vec![(1, true)], vec![], None),
        (16 + 48, vec![(2, true)], vec![], None),
        (16 + 52, vec![(2, false)], vec![], None),
        (16 + 52 + 8, vec![(2, false)], vec![], None),
        (16 + 52 + 24, vec![(2, false)], vec![(1, false)], None),
        (16 + 52 + 47, vec![(2, false)], vec![(1, false)], None),
        (16 + 52 + 52, vec![(2, false)], vec![(1, false), (1, false)], None),
        (16 + 52 + 52 + 8, vec![(2, false)], vec![(1, false), (1, false)], None),
    ];
    for (captured, reads, writes, reply) in cases {
        assert_eq!(lists(captured), ((reads, writes, reply), None), "{captured} bytes");
    }
    let whole = 16 + 52 + 52 + 24;
    let expected = (vec![(2, false)], vec![(1, false), (1, false)], Some((1, false)));
    assert_eq!(lists(whole), (expected, Some(whole)));
}

/// RFC 5666: RDMA_MSGP and RDMA_DONE, and a Reply that offers its data to be read.
#[test]
fn seed_000_3_a_read_list_in_a_reply_is_fetched_and_ends_with_done() {
    let mut link = Link::new(17);
    let source = memory(0xd1, 0x1000, 2000);
    let mut frames = [
        link.send(Client, &read_call(7, 2000)),
        link.send(Server, &read_reply(7, 2000).read_at(44, &[source])),
        link.read(Client, source, &data(2000)),
    ]
    .concat();
    let done = link.send_bytes(Client, &header(7, 1, 32, rpcrdma::RdmaBody::Done));
    frames.extend([done.clone(), done].concat());
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 2 rr44[2000/2000@4-5] done"]);
    let FrameContentKind::Message { key, .. } = outcome.meanings[0] else { panic!() };
    assert_eq!(outcome.meanings[5..], [FrameContentKind::Done { key }; 2]);
}

/// RFC 5666 section 3.5: the XID of an RDMA_DONE is that of the Call, which may precede the capture.
#[test]
fn rfc5666_section_3_5_rdma_done_of_an_unknown_call_is_counted_as_such() {
    let mut link = Link::new(17);
    let done = |link: &mut Link, xid| link.send_bytes(Client, &header(xid, 1, 32, rpcrdma::RdmaBody::Done));
    let frames = [done(&mut link, 4), getattr(&mut link, 7), done(&mut link, 99)].concat();
    let outcome = run(&frames);
    assert_eq!(outcome.lines(), ["#1 c1 > 7 GETATTR NFS3ERR_STALE call 2 reply 3"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::DoneWithoutCall, 2)]);
    let meaning = FrameContentKind::Undecoded(UndecodedReason::DoneWithoutCall);
    assert_eq!((outcome.meanings[0], outcome.meanings[3]), (meaning, meaning));
    // An RDMA_DONE ends with its type.
    let longer = [header(99, 1, 32, rpcrdma::RdmaBody::Done), vec![0; 4]].concat();
    let outcome = run(&link.send_bytes(Client, &longer));
    assert_eq!(outcome.undecoded(), [(UndecodedReason::NotRpcRdma, 1)]);
}

#[test]
fn rdma_msgp_is_a_message_with_its_chunk_lists() {
    let mut link = Link::new(17);
    let frames =
        [link.send(Client, &write_call_inline(7, &data(100)).padded()), link.send(Server, &write_reply(7, 100))]
            .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 2"]);
    let words = outcome.transactions[0].call.as_ref().unwrap().rpcrdma.unwrap();
    assert_eq!(words.message_type, RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSGP));
    assert_eq!(words.dialect, Dialect::Rfc5666);
}

/// Observer that collects the file data of a message.
#[derive(Default)]
struct FileData(Vec<u8>);

impl<'a> nfsrdma_dissectors::field::FieldObserver<'a> for FileData {
    fn enter(&mut self, _: &'static nfsrdma_dissectors::field::FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(
        &mut self,
        field: &'static nfsrdma_dissectors::field::FieldDefinition,
        range: std::ops::Range<usize>,
        value: nfsrdma_dissectors::field::FieldValue<'a>,
    ) {
        if let ("nfs.data", nfsrdma_dissectors::field::FieldValue::Bytes(bytes)) = (field.name, value) {
            assert_eq!(range.end % 4096, bytes.len() % 4096);
            self.0 = bytes.to_vec();
        }
    }
}

#[test]
fn rfc5666_section_3_9_padding_before_data_is_no_data() {
    // 36 bytes of header and 68 of the Call precede the data, which is aligned to 4,096.
    for (length, padding) in [(1024, 4096 - 104), (2001, 4096 - 104), (1023, 0)] {
        let mut link = Link::new(17);
        let mut call = write_call_inline(7, &data(length)).padded();
        call.body.splice(68..68, std::iter::repeat_n(0xee, padding));
        let frames = [link.send(Client, &call), link.send(Server, &write_reply(7, length as u32))].concat();
        let outcome = run(&frames);
        let [transaction] = &outcome.transactions[..] else { panic!() };
        // 68 bytes, and the data with its roundup: the padding is not part of the RPC message.
        let rpc_length = 68 + length.next_multiple_of(4) as u64;
        assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(rpc_length));
        assert_eq!(
            transaction.rpc_length(RpcMessageKind::Reply),
            transaction.reply.as_ref().unwrap().inline_length().map(|n| n as u64)
        );
        transaction.with_messages(|reading| {
            assert_eq!(reading.summary().call_error, None);
            if padding > 0 {
                let mut heard = FileData::default();
                reading.observe_rpc(RpcMessageKind::Call, &mut heard).unwrap();
                assert_eq!(heard.0, data(length));
            }
            let mut again = reading.reencode(RpcMessageKind::Call).unwrap().unwrap().message.encoded;
            again[68..68 + padding].fill(0xee);
            assert_eq!(again, call.body);
        });
    }
}

#[test]
fn rfc8166_section_4_5_2_rdma_nomsg_without_chunks_is_a_call_that_err_chunk_answers() {
    let mut link = Link::new(17);
    let error = rpcrdma::RdmaBody::Error(rpcrdma::RpcRdmaError::Chunk);
    let frames = [
        link.send(Client, &null_call(6)),
        link.send(Server, &null_reply(6)),
        link.send(Client, &null_call(7).nomsg()),
        link.send_bytes(Server, &header(7, 1, 32, error)),
    ]
    .concat();
    let outcome = run(&frames);
    assert_eq!(outcome.transactions.len(), 2, "{:?}", outcome.lines());
    let transaction = &outcome.transactions[1];
    assert!(transaction.call.is_some() && transaction.reply.as_ref().unwrap().is_rdma_error());
    assert_eq!(transaction.direction, CallDirection::Forward);
}

#[test]
fn an_rdma_read_of_zero_bytes_moves_nothing_and_misses_nothing() {
    let mut link = Link::new(17);
    let source = memory(0xa1, 0, 0);
    let frames = [
        link.send(Client, &write_call(7, 0).read(&[source])),
        link.read(Server, source, &[]),
        link.send(Server, &write_reply(7, 0)),
    ]
    .concat();
    expect(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 4 r68[0/0]"]);
}

#[test]
fn an_rdma_write_outside_advertised_memory_is_in_no_transaction() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 1024);
    let frames = [
        link.connect(1),
        link.send(Client, &read_call(7, 1024).write(&[sink])),
        link.write(Server, memory(0xb1, 0x1400, 1024), &data(1024)),
        link.write(Server, memory(0xb2, 0x1000, 1024), &data(1024)),
        link.send(Server, &read_reply(7, 0).write(&[sink.of(0)])),
    ]
    .concat();
    let outcome = expect(&frames, &["#1 c1 > 7 READ NFS3_OK call 4 reply 7 w[0/0/1024]"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::WriteToUnknownMemory, 2)]);
}

/// Runs frames in a flow that emits answered Transactions at once: later ones take their places in the table.
fn run_without_lingering(frames: &[Vec<u8>]) -> Outcome {
    let limits = FlowLimits { lingering_transactions: 0, ..FlowLimits::default() };
    run_within(limits, frames, |_| usize::MAX)
}

/// A READ whose Reply is in a Reply chunk: the Call, the RDMA Write and the Reply.
fn long_read(link: &mut Link, xid: u32, sink: Memory) -> [Frames; 3] {
    let reply = read_reply_inline(xid, &data(900));
    [
        link.send(Client, &read_call(xid, 900).reply(&[sink])),
        link.write(Server, sink, &reply.body),
        link.send(Server, &reply.clone().nomsg().reply(&[sink.of(reply.body.len() as u32)])),
    ]
}

/// A client with one handle for all its memory. The hung Call is in the place of an earlier one, so that its key is not
/// in the order of the places.
#[test]
fn reused_buffer_belongs_to_newest_call() {
    let mut link = Link::new(17);
    let (sink, other) = (memory(0xb1, 0x1000, 2048), memory(0xb1, 0x9000, 2048));
    let earlier = getattr(&mut link, 6);
    let [hung, ..] = long_read(&mut link, 7, sink);
    let [call, write, reply] = long_read(&mut link, 8, sink);
    let [latest, ..] = long_read(&mut link, 9, other);
    let outcome = run_without_lingering(&[earlier, hung, call, latest, write, reply].concat());
    let lines = outcome.lines();
    assert_eq!(lines[1], "#2 c1 > 8 READ NFS3_OK call 4 reply 7 rc[944/944/2048@6-6]");
    assert!(lines[2].starts_with("#3 c1 > 7 READ - call 3 rc[0/-/2048]"), "{lines:?}");
    assert_eq!(outcome.undecoded(), []);
}

/// Hung Calls had smaller buffers in the memory of a new Call.
#[test]
fn many_hung_buffers_hide_no_call() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 8192);
    let mut frames = Vec::new();
    for at in 0..40 {
        let hung = memory(0xb1, 0x1000 + u64::from(at % 20) * 200, 200);
        frames.extend(link.send(Client, &read_call(100 + at, 200).write(&[hung])));
    }
    frames.extend(link.send(Client, &read_call(8, 8192).write(&[sink])));
    frames.extend(link.send(Client, &read_call(9, 10).write(&[memory(0xb1, 0x9000, 10)])));
    for part in (0..8192).step_by(128) {
        frames.extend(link.write(Server, sink.from(part), &data(128)));
    }
    frames.extend(link.send(Server, &read_reply(8, 8192).write(&[sink])));
    let outcome = run_without_lingering(&frames);
    assert_eq!(outcome.lines()[0], "#1 c1 > 8 READ NFS3_OK call 41 reply 107 w[8192/8192/8192@43-106]");
    assert_eq!(outcome.undecoded(), []);
}

/// An RDMA Write that was lost before the capture point and repeated after the Reply, to the buffer of a hung Call.
#[test]
fn repeated_write_fills_answered_call() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let [hung, ..] = long_read(&mut link, 7, sink);
    let call = link.send(Client, &read_call(8, 2048).write(&[sink]));
    let write = link.write(Server, sink, &data(2048));
    let reply = link.send(Server, &read_reply(8, 2048).write(&[sink]));
    let outcome = run(&[hung, call, reply, write].concat());
    let lines = outcome.lines();
    assert_eq!(lines[0], "#1 c1 > 8 READ NFS3_OK call 2 reply 3 w[2048/2048/2048@4-5]");
    assert!(lines[1].starts_with("#2 c1 > 7 READ - call 1 rc[0/-/2048]"), "{lines:?}");
}

/// Data of a Call whose Reply is missing do not replace those of a later Call with the same buffer.
#[test]
fn data_before_a_call_are_not_its_own() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let [hung, written, _] = long_read(&mut link, 7, sink);
    let [call, _, reply] = long_read(&mut link, 8, sink);
    let outcome = run(&[hung, written, call, reply].concat());
    let lines = outcome.lines();
    assert_eq!(lines[0], "#1 c1 > 8 READ - call 3 reply 4 rc[0/944/2048] missing replychunk:0-943");
    assert!(lines[1].starts_with("#2 c1 > 7 READ - call 1 rc[944/-/2048@2-2]"), "{lines:?}");
}

/// Two Calls in flight offer the same memory. RFC 8166 section 4.4.1 asks Requesters not to.
#[test]
fn shared_memory_has_coverage_and_content() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0x1000, 2048);
    let [one, write, reply] = long_read(&mut link, 7, sink);
    let [other, ..] = long_read(&mut link, 8, sink.from(8).of(1024));
    let outcome = run(&[one, other, write[..].to_vec(), reply].concat());
    let lines = outcome.lines();
    assert_eq!(lines[0], "#1 c1 > 7 READ NFS3_OK call 1 reply 4 rc[944/944/2048@3-3]");
    // Written in parts, of which the later Call takes those in its memory.
    let mut link = Link::new(18);
    let [one, _, reply] = long_read(&mut link, 7, sink);
    let [other, ..] = long_read(&mut link, 8, sink.from(8).of(1024));
    let body = read_reply_inline(7, &data(900)).body;
    let (head, tail) = body.split_at(400);
    let parts = [link.write(Server, sink, head), link.write(Server, sink.from(400), tail)].concat();
    let lines = run(&[one, other, parts, reply].concat()).lines();
    assert_eq!(lines[0], "#1 c1 > 7 READ NFS3_OK call 1 reply 5 rc[944/944/2048@3-3]");
}

/// A segment that begins at the end of the address space, and one at its start.
#[test]
fn memory_at_the_end_of_the_space() {
    for start in [u64::MAX - 9, u64::MAX - 31, u64::MAX] {
        let mut link = Link::new(17);
        let (sink, other) = (memory(7, start, 100), memory(7, 0, 100));
        let frames = [
            link.send(Client, &read_call(7, 100).write(&[sink])),
            link.write(Server, sink, &data(20)),
            link.send(Client, &read_call(8, 100).write(&[other])),
            link.write(Server, other, &data(100)),
            link.send(Server, &read_reply(7, 100).write(&[sink])),
            link.send(Server, &read_reply(8, 100).write(&[other])),
        ]
        .concat();
        let lines = run(&frames).lines();
        // What lies below the end of the space is missing, what lies above its start was written.
        let below = (u64::MAX - start).min(99) + 1;
        let expected = match below.checked_sub(20).filter(|missing| *missing > 0) {
            Some(missing) => format!("w[{}/100/100@2-2] missing write:0:20-{}", 100 - missing, 20 + missing - 1),
            None => "w[100/100/100@2-2]".to_owned(),
        };
        assert_eq!(lines[0], format!("#1 c1 > 7 READ NFS3_OK call 1 reply 5 {expected}"));
        // A segment of which nothing was written wraps within one missing range.
        let unwritten = without(&frames, &[2]);
        assert_eq!(run(&unwritten).lines().len(), 2);
    }
}
