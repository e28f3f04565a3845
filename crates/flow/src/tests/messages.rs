//! Messages: Calls, Replies and others. RFC 8166 section 4, RFC 8167.

use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::rpcrdma::{
    RdmaBody, RdmaProc, RpcRdmaError, RpcRdmaErrvers, RpcRdmaMessageType, UnknownRdmaBody,
};
use nfsrdma_dissectors::xdr::UndecodedMessageRest;

use super::*;

/// XIDs are independent in each direction: RFC 8167 section 2.4.1.
#[test]
fn the_same_xid_may_be_live_in_both_directions() {
    for connect in [true, false] {
        let mut link = Link::new(17);
        let mut frames = if connect { link.connect(1) } else { getattr(&mut link, 6) };
        let first = frames.len() as u64;
        let sink = memory(0xb1, 0, 1024);
        frames.extend(
            [
                link.send(Client, &read_call(7, 1024).write(&[sink])),
                link.send(Server, &callback(7)),
                link.write(Server, sink, &data(1024)),
                link.send(Client, &null_reply(7)),
                link.send(Server, &read_reply(7, 1024).write(&[sink])),
            ]
            .concat(),
        );
        let lines = run(&frames).lines();
        let [.., back, forth] = &lines[..] else { panic!("{lines:?}") };
        let at = |frame: u64| first + frame;
        assert!(back.ends_with(&format!(" c1 < 7 NULL SUCCESS call {} reply {}", at(2), at(4))), "{back}");
        let moved = format!("w[1024/1024/1024@{0}-{0}]", at(3));
        let expected = format!(" c1 > 7 READ NFS3_OK call {} reply {} {moved}", at(1), at(5));
        assert!(forth.ends_with(&expected), "{forth}");
    }
}

/// A Reply without a captured Call says nothing about a Reply of its receiver that has the same XID: RFC 8167 section
/// 2.4.1.
#[test]
fn a_reply_does_not_end_the_other_sides_reply_with_its_xid() {
    let mut link = Link::new(17);
    let setup = getattr(&mut link, 6);
    let reverse_call = link.send(Server, &read_call(7, 1500));
    let reverse_reply = link.send(Client, &read_reply_inline(7, &data(1500)));
    assert_eq!(reverse_reply.len(), 2);
    let reply = link.send(Server, &null_reply(7));
    let frames = [setup, reverse_call, vec![reverse_reply[0].clone()], reply, vec![reverse_reply[1].clone()]];
    expect_all(
        &frames.concat(),
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 - SUCCESS reply 5 missing call",
            "#3 c1 < 7 READ NFS3_OK call 3 reply 4,6",
        ],
    );
}

#[test]
fn transactions_close_in_the_order_of_their_replies_and_are_counted_in_it() {
    let mut link = Link::new(17);
    let calls: Frames = (7..11).flat_map(|xid| link.send(Client, &getattr_call(xid))).collect();
    let replies: Frames = [9, 7, 10].iter().flat_map(|xid| link.send(Server, &getattr_reply(*xid))).collect();
    let late = link.send(Client, &getattr_call(11));
    expect_all(
        &[calls, replies, late].concat(),
        &[
            "#1 c1 > 9 GETATTR NFS3ERR_STALE call 3 reply 5",
            "#2 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 6",
            "#3 c1 > a GETATTR NFS3ERR_STALE call 4 reply 7",
            "#4 c1 > 8 GETATTR - call 2 missing reply",
            "#5 c1 > b GETATTR - call 8 missing reply",
        ],
    );
}

#[test]
fn order_and_numbers_are_the_same_however_long_a_transaction_waits_for_copies() {
    let mut link = Link::new(17);
    let frames: Frames = (0..200).flat_map(|xid| getattr(&mut link, xid)).collect();
    let expected = run(&frames).lines();
    for lingering in [0, 1, 7] {
        let limits = FlowLimits { lingering_transactions: lingering, ..FlowLimits::default() };
        assert_eq!(run_within(limits, &frames, |_| usize::MAX).lines(), expected);
    }
}

#[test]
fn a_reply_with_immediate_data_or_invalidation_is_a_reply() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1000);
    let long = read_reply_inline(9, &data(2500));
    let frames = [
        link.send(Client, &read_call(7, 1000).write(&[sink])),
        link.write(Server, sink, &data(1000)),
        link.send_invalidate(Server, &read_reply(7, 1000).write(&[sink]), 0xb1),
        link.send_immediate(Client, &getattr_call(8)),
        link.send_immediate(Server, &getattr_reply(8)),
        link.send_immediate(Client, &write_call_inline(9, &data(2500))),
        link.send_invalidate(Server, &long, 0xb1),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 1 reply 3 w[1000/1000/1000@2-2]",
            "#2 c1 > 8 GETATTR NFS3ERR_STALE call 4 reply 5",
            // The results are those of a READ, for their length.
            "#3 c1 > 9 WRITE NFS3_OK call 6,7,8 reply 9,10,11 missing undecoded:reply:32-,reply:wrong-result",
        ],
    );
}

#[test]
fn a_grant_of_zero_credits_is_in_the_header_words() {
    let mut link = Link::new(17);
    let frames =
        [link.send(Client, &getattr_call(7).credits(128)), link.send(Server, &getattr_reply(7).credits(0))].concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 2"]);
    let words = |which| outcome.transactions[0].message(which).and_then(|message| message.rpcrdma).unwrap();
    assert_eq!((words(RpcMessageKind::Call).credits, words(RpcMessageKind::Reply).credits), (128, 0));
    assert_eq!(
        (words(RpcMessageKind::Reply).version, words(RpcMessageKind::Reply).message_type),
        (1, RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG))
    );
}

fn unread(proc: u32, bytes: &[u8]) -> RdmaBody<'_> {
    RdmaBody::Unread(RdmaProc(proc), UnknownRdmaBody { data: UndecodedMessageRest(bytes) })
}

#[test]
fn messages_of_an_unknown_version_are_undecoded_after_their_header() {
    let mut link = Link::new(17);
    let frames = [
        getattr(&mut link, 6),
        link.send_bytes(Client, &header(7, 3, 32, unread(0, &[1; 60]))),
        link.send_bytes(Server, &header(7, 3, 16, unread(0, &[2; 40]))),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 - - call 3 reply 4 missing undecoded:call:0-,undecoded:reply:0-",
        ],
    );
    let t = &outcome.transactions[1];
    let words = t.reply.as_ref().unwrap().rpcrdma.unwrap();
    let proc = RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG);
    assert_eq!((words.version, words.credits, words.message_type), (3, 16, proc));
    assert_eq!(t.reply.as_ref().unwrap().dialect(), None);
    assert_eq!((t.rpc_length(RpcMessageKind::Call), t.missing_parts()), (Some(0), vec![]));
}

/// RFC 8166 section 4.5.1.
#[test]
fn the_answer_err_vers_ends_the_transaction_of_its_xid() {
    for version in [1, 3] {
        let mut link = Link::new(17);
        let error = RpcRdmaError::Vers(RpcRdmaErrvers { rdma_vers_low: 1, rdma_vers_high: 1 });
        let frames = [
            getattr(&mut link, 6),
            link.send_bytes(Client, &header(7, 3, 32, unread(0, &[1; 60]))),
            link.send_bytes(Server, &header(7, version, 16, RdmaBody::Error(error))),
        ]
        .concat();
        let outcome = expect_all(
            &frames,
            &[
                "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
                "#2 c1 > 7 - ERR_VERS call 3 reply 4 missing undecoded:call:0-",
            ],
        );
        assert_eq!(outcome.transactions[1].rpc_length(RpcMessageKind::Reply), None);
    }
}

/// RFC 8166 section 4.5.2. The Responder has not fetched the chunks it refused.
#[test]
fn the_answer_err_chunk_ends_the_transaction_of_its_xid() {
    let mut link = Link::new(17);
    let frames = [
        link.send(Client, &write_call(7, 1000).read(&[memory(0xa1, 0, 1000)])),
        link.send_bytes(Server, &header(7, 1, 16, RdmaBody::Error(RpcRdmaError::Chunk))),
        link.send_bytes(Server, &header(9, 1, 16, RdmaBody::Error(RpcRdmaError::Chunk))),
    ]
    .concat();
    expect_all(
        &frames,
        &["#1 c1 > 7 WRITE ERR_CHUNK call 1 reply 2 r68[0/1000]", "#2 c1 > 9 - ERR_CHUNK reply 3 missing call"],
    );
}

#[test]
fn a_call_refused_by_rpc_misses_no_chunks() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1000);
    let frames = [
        link.send(Client, &read_call(7, 1000).write(&[sink])),
        link.send(Server, &refusal(7, AcceptStat::PROC_UNAVAIL).write(&[sink.of(0)])),
    ]
    .concat();
    expect_all(&frames, &["#1 c1 > 7 READ PROC_UNAVAIL call 1 reply 2 w[0/0/1000]"]);
}

/// RFC 8167: Calls of the server, with their Replies.
#[test]
fn calls_in_the_reverse_direction_may_be_several_at_once() {
    let mut link = Link::new(17);
    let frames = [
        getattr(&mut link, 6),
        link.send(Server, &callback(1)),
        link.send(Server, &callback(2)),
        link.send(Client, &null_reply(2)),
        link.send(Client, &null_reply(1)),
        link.send(Server, &callback(3)),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 < 2 NULL SUCCESS call 4 reply 5",
            "#3 c1 < 1 NULL SUCCESS call 3 reply 6",
            "#4 c1 < 3 NULL - call 7 missing reply",
        ],
    );
}

#[test]
fn a_call_that_is_sent_again_on_its_connection_is_the_same_transaction() {
    let mut link = Link::new(17);
    let call = getattr_call(7);
    let frames = [
        link.send(Client, &call),
        // In its own SEND, not by the transport.
        link.send(Client, &call),
        link.send(Server, &getattr_reply(7)),
        link.send(Client, &call),
        link.send(Server, &getattr_reply(7)),
    ]
    .concat();
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1,2,4 x3 reply 3,5 x2"]);
}

/// The Requester registers new memory for the second attempt.
#[test]
fn a_call_that_is_sent_again_with_other_handles_has_its_bytes_there() {
    let mut link = Link::new(17);
    let (old, new) = (memory(0xb1, 0, 1000), memory(0xb2, 0, 1000));
    let frames = [
        link.send(Client, &read_call(7, 1000).write(&[old])),
        link.send(Client, &read_call(7, 1000).write(&[new])),
        link.write(Server, new, &data(1000)),
        link.send(Server, &read_reply(7, 1000).write(&[new])),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1,2 x2 reply 4 w[1000/1000/1000@3-3]"]);
    assert_eq!(outcome.transactions[0].write_chunks[0].segments[0].handle.0, 0xb2);
}

/// RFC 5531 section 9: the earlier Call may still be answered.
#[test]
fn another_call_with_its_xid_ends_no_call() {
    let mut link = Link::new(17);
    let frames = [link.send(Client, &getattr_call(7)), null(&mut link, 7)].concat();
    expect_all(&frames, &["#1 c1 > 7 NULL SUCCESS call 2 reply 3", "#2 c1 > 7 GETATTR - call 1 missing reply"]);
}

#[test]
fn seed_004_2_1_3_a_call_that_is_sent_again_on_another_connection_is_a_retry() {
    let (mut one, mut two) = (Link::new(17), Link::new(18));
    let frames = [
        one.connect(1),
        getattr(&mut one, 6),
        one.send(Client, &getattr_call(7)),
        two.connect(2),
        getattr(&mut two, 7),
        // It is answered there, so this is not a retry, and neither is another Call with the same XID.
        getattr(&mut two, 6),
        null(&mut two, 7),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 4 reply 5",
            "#2 c1 > 7 GETATTR - call 6 missing reply",
            "#3 c2 > 7 GETATTR NFS3ERR_STALE call 10 reply 11 retry of #2",
            "#4 c2 > 6 GETATTR NFS3ERR_STALE call 12 reply 13",
            "#5 c2 > 7 NULL SUCCESS call 14 reply 15",
        ],
    );
}

#[test]
fn a_retry_names_a_transaction_that_was_emitted_long_ago() {
    let (mut one, mut two) = (Link::new(17), Link::new(18));
    let frames = [
        one.connect(1),
        one.send(Client, &getattr_call(7)),
        // The queue pairs are reused, which ends the open Transactions on them.
        one.connect(2),
        two.connect(3),
        getattr(&mut two, 7),
    ]
    .concat();
    expect_all(
        &frames,
        &["#1 c1 > 7 GETATTR - call 4 missing reply", "#2 c2 > 7 GETATTR NFS3ERR_STALE call 11 reply 12 retry of #1"],
    );
}

/// NVMe-oF, iSER, SMB Direct and ib_send_bw, each on a queue pair of its own next to NFS.
#[test]
fn sends_of_other_protocols_are_never_claimed() {
    let mut nfs = Link::new(17);
    let mut frames = Vec::new();
    let mut read_command = vec![0; 64];
    read_command[..8].copy_from_slice(&[2, 0x40, 7, 0, 0, 0, 0, 1]);
    let mut login = vec![0; 28 + 48];
    (login[0], login[7], login[28]) = (0x18, 1, 1);
    let smb = [0, 1, 0, 1, 0, 0, 0, 1, 0x54, 5, 0, 0, 0, 0x20, 0, 0, 0, 0, 0x10, 0].to_vec();
    let pattern: Vec<u8> = (0..4096u32).flat_map(|word| word.to_be_bytes()).collect();
    let payloads = [read_command, login, smb, pattern, vec![0; 5000], [0, 0, 0, 1].repeat(300)];
    for (qpn, payload) in (30..).zip(payloads) {
        for connect in [false, true] {
            let qpn = qpn + 20 * u32::from(connect);
            let mut other = Link::new(qpn).qpns(qpn, qpn + 100);
            if connect {
                frames.extend(other.connect_with(qpn, b"other"));
            }
            frames.extend(other.send_bytes(Client, &payload));
            frames.extend(getattr(&mut nfs, qpn));
            frames.extend(other.send_bytes(Server, &payload));
            frames.extend(other.write(Server, memory(0xb1, 0, 4096), &payload[..payload.len().min(4096)]));
            frames.extend(other.read(Server, memory(0xa1, 0, 4096), &payload[..payload.len().min(4096)]));
        }
    }
    let outcome = run(&frames);
    assert_eq!(outcome.transactions.len(), 12);
    for transaction in &outcome.transactions {
        assert_eq!((transaction.connection.number, transaction.missing_parts()), (1, vec![]));
    }
    let reasons: Vec<_> = outcome.undecoded().into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(
        reasons,
        [UndecodedReason::NotRpcRdma, UndecodedReason::WriteToUnknownMemory, UndecodedReason::ReadOfUnknownMemory]
    );
}

#[test]
fn malformed_headers_on_an_nfs_connection_are_counted_without_a_transaction() {
    let mut link = Link::new(17);
    let frames = [
        getattr(&mut link, 6),
        link.send_bytes(Client, &[7; 12]),
        // An RDMA_DONE of an unknown XID, and a header with endless lists.
        link.send_bytes(Client, &[header(7, 1, 32, RdmaBody::Done), vec![0; 4]].concat()),
        link.send_bytes(Client, &[&[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 0][..], &[0xff; 40]].concat()),
        getattr(&mut link, 8),
    ]
    .concat();
    let outcome = expect(
        &frames,
        &["#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2", "#2 c1 > 8 GETATTR NFS3ERR_STALE call 6 reply 7"],
    );
    let expected = [(UndecodedReason::MalformedHeader, 2), (UndecodedReason::DoneWithoutCall, 1)];
    assert_eq!(outcome.undecoded(), expected);
}

#[test]
fn fragments_of_ip_datagrams_are_put_together_and_all_their_frames_are_named() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1000);
    let frames: Frames = read(&mut link, 7, sink)
        .iter()
        .flat_map(|frame| if frame.len() > 100 { wire::fragments(frame, 64) } else { vec![frame.clone()] })
        .collect();
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1,2 reply 6,7 w[1000/1000/1000@4-5]"]);
    assert_eq!(outcome.meanings[0], FrameContentKind::PartialMessage);
}

#[test]
fn the_phases_of_a_transaction_are_distinguished() {
    let mut link = Link::new(17);
    let (source, sink) = (memory(0xa1, 0, 2000), memory(0xc1, 0, 4096));
    let mut frames = link.send(Client, &write_call_inline(7, &data(1500)).read_at(1568, &[source]).reply(&[sink]));
    frames.extend(link.ack(Server));
    frames.extend(link.read(Server, source, &data(2000)));
    frames.extend(link.ack(Client));
    let reply = write_reply(7, 1500);
    frames.extend(link.write(Server, sink, &reply.body));
    frames.extend(link.send(Server, &reply.clone().nomsg().reply(&[sink.of(reply.body.len() as u32)])));
    let outcome = run(&frames);
    // A microsecond per frame: Call 1 and 2, Read 4 to 6, Write 8, Reply 9.
    let phases = outcome.transactions[0].phases().unwrap();
    assert_eq!((phases.call_ns, phases.data_in_ns, phases.data_out_ns, phases.reply_ns), (1000, 2000, 0, 0));
    assert_eq!((phases.server_ns, outcome.transactions[0].latency_ns()), (5000, Some(8000)));
}

/// draft-talpey-nfsv4-rdma-sess-01 section 2.4: a Send without data returns credits; other protocols use it
/// as a keep-alive.
#[test]
fn seed_004_2_4_zero_length_sends_are_neither_malformed_nor_transactions() {
    let mut link = Link::new(17);
    let nowhere = memory(0, 0, 0);
    let frames = [
        link.send_bytes(Client, &[]),
        getattr(&mut link, 7),
        link.send_bytes(Client, &[]),
        link.send_bytes(Server, &[]),
        link.write(Server, nowhere, &[]),
        link.read(Client, nowhere, &[]),
        getattr(&mut link, 8),
    ]
    .concat();
    let outcome = run(&frames);
    assert_eq!((outcome.undecoded(), outcome.transactions.len()), (vec![], 2), "{:?}", outcome.meanings);
    let empty = outcome.meanings.iter().filter(|meaning| **meaning == FrameContentKind::EmptyOperation).count();
    assert_eq!(empty, 6, "{:?}", outcome.meanings);
}

/// RFC 8166 section 4.2: the shortest header with chunk lists has 28 bytes; only RDMA_DONE and RDMA_ERROR
/// are shorter.
#[test]
fn a_send_of_less_than_a_header_is_no_transaction() {
    for version in [1, 2, 7] {
        for length in 1..28 {
            let mut link = Link::new(17);
            let bytes = header(7, version, 32, unread(0, &[0; 12]));
            let frames = [getattr(&mut link, 6), link.send_bytes(Client, &bytes[..length])].concat();
            let outcome = run(&frames);
            assert_eq!(outcome.undecoded(), [(UndecodedReason::MalformedHeader, 1)], "{version} {length}");
            assert_eq!(outcome.transactions.len(), 1, "{version} {length}");
        }
    }
    let mut link = Link::new(17);
    let error = header(6, 1, 16, RdmaBody::Error(RpcRdmaError::Chunk));
    assert_eq!(error.len(), 20);
    let frames = [link.send(Client, &getattr_call(6)), link.send_bytes(Server, &error)].concat();
    expect_all(&frames, &["#1 c1 > 6 GETATTR ERR_CHUNK call 1 reply 2"]);
}
