//! Every dialect of RPC-over-RDMA, and connections that change or hide theirs. Headers are written as
//! words, from their specifications. `draft` is draft-ietf-nfsv4-rpcrdma-version-two.

use nfsrdma_dissectors::rpcrdma::version2::{PeerProperties, RpcRdma2HeaderType};
use nfsrdma_dissectors::rpcrdma::{Dialect, RpcRdmaMessageType};

use super::*;

/// A header followed by an RPC message.
fn message(words: &[u32], rpc: &[u8]) -> Vec<u8> {
    [words.iter().flat_map(|word| word.to_be_bytes()).collect(), rpc.to_vec()].concat()
}

/// RDMA2_CALL_INLINE and RDMA2_REPLY_INLINE without chunks. draft sections 6.3.7 and 6.3.10.
fn call2(xid: u32, rpc: &[u8]) -> Vec<u8> {
    message(&[xid, 2, 8, 10, 0, 0, 0, 0], rpc)
}

fn reply2(xid: u32, rpc: &[u8]) -> Vec<u8> {
    message(&[xid, 2, 8, 13, 0], rpc)
}

/// RDMA2_CALL_MIDDLE or RDMA2_REPLY_MIDDLE. draft section 6.3.6.
fn middle(xid: u32, htype: u32, remaining: usize, rpc: &[u8]) -> Vec<u8> {
    message(&[xid, 2, 8, htype, remaining as u32], rpc)
}

fn getattr2(link: &mut Link, xid: u32) -> Frames {
    [
        link.send_bytes(Client, &call2(xid, &getattr_call(xid).body)),
        link.send_bytes(Server, &reply2(xid, &getattr_reply(xid).body)),
    ]
    .concat()
}

fn dialects(outcome: &Outcome) -> Vec<[Option<Dialect>; 2]> {
    let dialect = |t: &Transaction, which| t.message(which).and_then(|message| message.dialect());
    let of = |t| [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| dialect(t, which));
    outcome.transactions.iter().map(of).collect()
}

/// draft section 4.3.2: the server answers version 2 in a form that both versions have, and the client
/// continues with version 1.
#[test]
fn a_server_without_version_2_makes_the_client_go_on_in_version_1() {
    let mut link = Link::new(17);
    let frames = [
        link.send_bytes(Client, &call2(6, &getattr_call(6).body)),
        link.send_bytes(Server, &message(&[6, 2, 1, 4, 1, 1, 1], &[])),
        getattr(&mut link, 7),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &["#1 c1 > 6 GETATTR RDMA2_ERR_VERS call 1 reply 2", "#2 c1 > 7 GETATTR NFS3ERR_STALE call 3 reply 4"],
    );
    assert_eq!(dialects(&outcome), [[Some(Dialect::Version2); 2], [Some(Dialect::Rfc8166); 2]]);
}

/// draft sections 6.3.2 to 6.3.4, 7: messages without a Transaction, and an error that ends one.
#[test]
fn properties_and_grants_are_messages_without_transaction_and_errors_end_one() {
    let mut link = Link::new(17);
    let properties = message(&[0, 2, 8, 7, 1, 1, 4, 8192], &[]);
    let grant = message(&[0, 2, 16, 5], &[]);
    let refused = message(&[0, 2, 8, 4, 3], &[]);
    let frames = [
        link.send_bytes(Client, &properties),
        link.send_bytes(Server, &properties),
        link.send_bytes(Server, &refused),
        link.send_bytes(Client, &call2(6, &read_call(6, 100).body)),
        link.send_bytes(Server, &message(&[6, 2, 8, 4, 9, 1, 4096], &[])),
        link.send_bytes(Server, &grant),
    ]
    .concat();
    let frames = [frames, getattr2(&mut link, 7)].concat();
    let outcome = expect_all(
        &frames,
        &["#1 c1 > 6 READ RDMA2_ERR_WRITE_RESOURCE call 4 reply 5", "#2 c1 > 7 GETATTR NFS3ERR_STALE call 7 reply 8"],
    );
    let transport = |htype| FrameContentKind::TransportMessage(RpcRdmaMessageType::Version2(htype));
    assert_eq!(
        outcome.meanings[..3],
        [
            transport(RpcRdma2HeaderType::RDMA2_CONNPROP_FINAL),
            transport(RpcRdma2HeaderType::RDMA2_CONNPROP_FINAL),
            transport(RpcRdma2HeaderType::RDMA2_ERROR),
        ]
    );
    assert_eq!(outcome.meanings[5], transport(RpcRdma2HeaderType::RDMA2_GRANT));
    // The header of the last of them is kept for views.
    assert_eq!(outcome.flow.header_only_messages(FrameNumber(5)).len(), 0);
    let [lone] = outcome.flow.header_only_messages(FrameNumber(6)) else { panic!() };
    assert_eq!(lone.observe(&mut NullFieldObserver), Ok(()));
    let state = outcome.flow.connections().next().unwrap();
    let printed = PeerProperties { send_size_bytes: Some(8192), ..PeerProperties::default() };
    assert_eq!(state.properties, [Some(printed); 2]);
}

/// draft section 4.2.1: each message has the number of messages that its receiver may have sent since the
/// connection began.
#[test]
fn draft_section_4_2_1_each_side_has_credits_for_its_messages() {
    let printed = |has_set_up: bool| {
        let mut link = Link::new(17);
        let mut frames = if has_set_up { link.connect(1) } else { Vec::new() };
        let client = |xid: u32, limit: u32| message(&[xid, 2, limit, 10, 0, 0, 0, 0], &getattr_call(xid).body);
        let server = |xid: u32, limit: u32| message(&[xid, 2, limit, 13, 0], &getattr_reply(xid).body);
        let sends = [
            (Client, client(6, 4)),
            (Server, server(6, 3)),
            (Client, client(7, 5)),
            (Client, client(8, 5)),
            // The client has no credits left before this grant.
            (Server, message(&[0, 2, 10, 5], &[])),
            (Server, server(7, 10)),
            (Server, server(8, 11)),
        ];
        frames.extend(sends.iter().flat_map(|(who, bytes)| link.send_bytes(*who, bytes)));
        let outcome = run(&frames);
        outcome.flow.connections().next().unwrap().message_credits
    };
    let credits = |sent, limit, least_left| Version2SendCredits {
        sent_messages: sent,
        send_limit: Some(limit),
        min_remaining: least_left,
    };
    assert_eq!(printed(true), [credits(3, 11, Some(0)), credits(4, 5, Some(1))]);
    assert_eq!(printed(false), [credits(3, 11, None), credits(4, 5, None)]);
}

/// draft section 6.6.2: a message is reported incomplete whichever part is lost, and complete after the
/// retransmission of that part.
#[test]
fn a_lost_part_of_a_continued_message_is_missing_until_retransmitted() {
    let body = write_call_inline(7, &data(900)).body;
    let cuts = [0, 300, 700, body.len()];
    let sends: Vec<_> = (0..3)
        .map(|at| {
            let part = &body[cuts[at]..cuts[at + 1]];
            match at {
                2 => call2(7, part),
                _ => middle(7, 9, body.len() - cuts[at + 1], part),
            }
        })
        .collect();
    let whole = |order: &[usize]| {
        let mut link = Link::new(17);
        let mut frames = getattr2(&mut link, 6);
        for at in order {
            frames.extend(link.send_bytes(Client, &sends[*at]));
        }
        frames.extend(link.send_bytes(Server, &reply2(7, &write_reply(7, 900).body)));
        run(&frames)
    };
    for order in [&[0, 1, 2][..], &[1, 2, 0], &[2, 0, 1], &[0, 2, 1], &[2, 1, 0], &[0, 0, 1, 2]] {
        let outcome = whole(order);
        let write = &outcome.transactions[1];
        assert_eq!((write.missing_parts(), outcome.undecoded()), (vec![], vec![]), "{order:?}");
        let call = write.call.as_ref().unwrap();
        assert_eq!((call.inline_bytes(), call.sends), (&body[..], 3), "{order:?}");
        assert_eq!(call.frames.len(), order.len(), "{order:?}");
    }
    for (order, missing) in [
        (&[0, 2][..], "missing call:300-699"),
        // Only the lost parts have their own lengths.
        (&[1, 2], "missing call:0-"),
        (&[2], "missing call:0-"),
    ] {
        let outcome = whole(order);
        assert!(outcome.lines()[1].contains(missing), "{order:?} {}", outcome.lines()[1]);
    }
    // The last part was not captured: only the Reply shows that there was a Call.
    let outcome = whole(&[0, 1]);
    assert!(outcome.lines()[1].contains("missing call"), "{:?}", outcome.lines());
    assert_eq!(outcome.undecoded(), [(UndecodedReason::MessagePart, 2)]);
}

/// Continuation has no limit of its own.
#[test]
fn parts_of_messages_that_never_end_are_given_up() {
    let mut link = Link::new(17);
    let body = write_call_inline(7, &data(900)).body;
    let mut frames = getattr2(&mut link, 6);
    for xid in 7..200 {
        frames.extend(link.send_bytes(Client, &middle(xid, 9, 5000, &[&xid.to_be_bytes(), &body[4..]].concat())));
    }
    frames.extend(getattr2(&mut link, 300));
    let outcome = run(&frames);
    assert_eq!(outcome.transactions.len(), 2);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::MessagePart, 193)]);
    let limits = FlowLimits { partial_message_bytes: 4000, ..FlowLimits::default() };
    let outcome = run_within(limits, &frames, |_| usize::MAX);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::MessagePart, 193)]);
    assert!(outcome.flow.evicted_counts().any(|(what, count)| what == EvictedState::MessageParts && count > 0));
}

/// NFS over RDMA (SIGCOMM 2003) sections 4.3.1 and 4.4: the client reads the chunk of a Reply, and reports
/// when it is done.
#[test]
fn seed_003_4_4_a_reply_of_the_prototype_is_read_and_ends_with_done() {
    let mut link = Link::new(17);
    let source = memory(0xd1, 0x1000, 2000);
    let reply = message(&[7, 1, 0, 1, 44, 2000, 0xd1, 0, 0x1000, 0], &read_reply(7, 2000).body);
    let frames = [
        link.send_bytes(Client, &message(&[7, 1, 0, 0], &read_call(7, 2000).body)),
        link.send_bytes(Server, &reply),
        link.read(Client, source, &data(2000)),
        link.send_bytes(Client, &message(&[7, 1, 1], &[])),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 READ NFS3_OK call 1 reply 2 rr44[2000/2000@4-5] done"]);
    assert_eq!(dialects(&outcome), [[Some(Dialect::Prototype); 2]]);
    assert!(matches!(outcome.meanings[5], FrameContentKind::Done { .. }));
    // Without the bytes that the client fetched it is incomplete.
    let outcome = run(&without(&frames, &[5]));
    assert!(outcome.lines()[0].contains("missing replyread:0:1024-1999"), "{:?}", outcome.lines());
}

/// NFS over RDMA (SIGCOMM 2003) section 4.6.2.
#[test]
fn seed_003_4_6_2_a_long_call_of_the_prototype_is_its_first_chunk() {
    let mut link = Link::new(17);
    let body = write_call_inline(7, &data(500)).body;
    let source = memory(0xa1, 0x1000, body.len() as u32);
    let frames = [
        link.send_bytes(Client, &message(&[7, 1, 0, 1, 0, source.length, 0xa1, 0, 0x1000, 0], &[])),
        link.read(Server, source, &body),
        link.send_bytes(Server, &message(&[7, 1, 0, 0], &write_reply(7, 500).body)),
    ]
    .concat();
    let outcome = expect_all(&frames, &["#1 c1 > 7 WRITE NFS3_OK call 1 reply 4 r0[568/568@3-3]"]);
    assert_eq!(outcome.transactions[0].rpc_length(RpcMessageKind::Call), Some(body.len() as u64));
}

/// RFC 5666 sections 3.5 and 3.9: one message reveals the dialect of a connection.
#[test]
fn a_connection_is_of_rfc5666_once_a_message_shows_it() {
    let mut link = Link::new(17);
    let frames = [getattr(&mut link, 6), null(&mut link, 7)].concat();
    assert_eq!(dialects(&run(&frames)), [[Some(Dialect::Rfc8166); 2]; 2]);

    let mut link = Link::new(17);
    let source = memory(0xd1, 0x1000, 2000);
    let frames = [
        getattr(&mut link, 6),
        link.send(Client, &read_call(7, 2000)),
        link.send(Server, &read_reply(7, 2000).read_at(44, &[source])),
        link.read(Client, source, &data(2000)),
    ]
    .concat();
    assert_eq!(dialects(&run(&frames)), [[Some(Dialect::Rfc5666); 2]; 2]);
}

/// A configured dialect is used where none could be detected, and no other is.
#[test]
fn a_named_dialect_is_the_one_that_is_read() {
    let named = |dialect, frames: &[Vec<u8>]| {
        run_within(FlowLimits { dialect: Some(dialect), ..FlowLimits::default() }, frames, |_| usize::MAX)
    };
    let mut link = Link::new(17);
    let grants: Vec<_> = (0..2).flat_map(|_| link.send_bytes(Client, &message(&[0, 2, 16, 5], &[]))).collect();
    assert_eq!(run(&grants).undecoded(), [(UndecodedReason::NotRpcRdma, 2)]);
    assert_eq!(named(Dialect::Version2, &grants).undecoded(), []);

    let mut link = Link::new(17);
    let version1 = getattr(&mut link, 6);
    let outcome = named(Dialect::Rfc5666, &version1);
    assert_eq!(dialects(&outcome), [[Some(Dialect::Rfc5666); 2]]);
    let outcome = named(Dialect::Prototype, &version1);
    assert_eq!((outcome.transactions.len(), outcome.undecoded()), (0, vec![(UndecodedReason::NotRpcRdma, 2)]));

    // With version 1 configured, version 2 is not decoded.
    let mut link = Link::new(17);
    let frames = [getattr(&mut link, 6), getattr2(&mut link, 7)].concat();
    let outcome = named(Dialect::Rfc8166, &frames);
    assert_eq!(dialects(&outcome)[1], [None; 2]);
    assert!(outcome.lines()[1].contains("undecoded:call:0-"));
    assert_eq!(dialects(&run(&frames))[1], [Some(Dialect::Version2); 2]);
}

/// The path MTU is unknown before the first message of several packets: a Last packet is not attributed to
/// an RDMA Write before it, and is placed by the unseen range that the Reply reveals.
#[test]
fn a_last_packet_without_path_mtu_belongs_to_no_earlier_write() {
    let mut link = Link::new(17);
    let (small, sink) = (memory(0xb1, 0, 100), memory(0xb2, 0, 1100));
    let frames = [
        getattr(&mut link, 5),
        link.send(Client, &read_call(6, 100).write(&[small])),
        link.write(Server, small, &data(100)),
        link.send(Server, &read_reply(6, 100).write(&[small])),
        link.send(Client, &read_call(7, 1100).write(&[sink])),
        link.write(Server, sink, &data(1100)),
        link.send(Server, &read_reply(7, 1100).write(&[sink])),
    ]
    .concat();
    let lines = run(&without(&frames, &[7])).lines();
    assert!(lines[1].contains("w[100/100/100@4-4]"), "{lines:?}");
    assert!(lines[2].contains("w[76/1100/1100@7-7] missing write:0:0-1023"), "{lines:?}");
}
