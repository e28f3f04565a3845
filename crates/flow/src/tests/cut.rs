//! Bytes removed by a snap length are unknown: neither empty, nor absent, nor malformed.

use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{self, Args, Nfsstat4, Results};
use nfsrdma_dissectors::rpcrdma::SidePrivateData;
use nfsrdma_dissectors::xdr::{Opaque, Void};

use super::*;
use crate::transaction::ChunkListCompleteness;

/// Bytes of Ethernet, IPv4, UDP and BTH before a message.
const HEADERS: usize = 14 + 20 + 8 + 12;

#[test]
fn chunk_lists_that_end_with_the_capture_are_cut() {
    let sink = memory(0xb1, 0, 4096);
    let mut link = Link::new(17);
    let frames = [getattr(&mut link, 6), link.send(Client, &read_call(7, 4096).write(&[sink]))].concat();
    // Four words, an empty Read list, a Write chunk of one segment, the end of the Write list, no Reply chunk.
    let header = 16 + 4 + 8 + 16 + 4 + 4;
    for captured in 16..header + 40 {
        let outcome = run_cut(&frames, 2, HEADERS + captured);
        let call = outcome.transactions[1].call.as_ref().unwrap();
        let expected = if captured < header { ChunkListCompleteness::Cut } else { ChunkListCompleteness::Complete };
        assert_eq!(call.chunk_lists(), Some(expected), "{captured}");
    }
}

/// The Reply has a result for each operation of its Call, each with its number: RFC 8881 section 16.2.3.
#[test]
fn an_operation_cut_from_the_call_is_known_from_the_reply() {
    let operations = [Args::PUTROOTFH(Void), Args::READLINK(Void), Args::GETFH(Void)];
    let handle = || Results::GETFH(StatusUnion::Ok(v4::ObjectFh4 { object: Opaque(b"root") }));
    let results = [
        Results::PUTROOTFH(StatusUnion::Ok(Void)),
        Results::READLINK(StatusUnion::Fail(Nfsstat4::NFS4ERR_INVAL, Void)),
    ];
    let link_text = Results::READLINK(StatusUnion::Ok(v4::Readlink4Resok {
        link: nfsrdma_dissectors::xdr::DdpText::Inline(b"to"),
    }));
    let all = [results[0].clone(), link_text, handle()];
    let name = |call_bytes: usize, results: &[Results<'_>], status: Nfsstat4| {
        let mut link = Link::new(17);
        let frames = [
            getattr(&mut link, 6),
            link.send(Client, &compound_call(7, &operations)),
            link.send(Server, &compound_reply(7, status, results)),
        ]
        .concat();
        let snap = |number| if number == 3 { HEADERS + 28 + call_bytes } else { usize::MAX };
        let outcome = run_within(FlowLimits::default(), &frames, snap);
        let facts = outcome.transactions[1].with_messages(|reading| reading.summary());
        let main = facts.main_operation.map(ProcedureOrMainOperation::from);
        assert!(main.is_none() || main == facts.label_operation());
        facts.operation
    };
    let (named, compound) =
        (Some(ProcedureOrMainOperation::Named("READLINK")), Some(ProcedureOrMainOperation::Named("COMPOUND")));
    // RPC header 40, then tag, minor version, count, and one word per operation.
    for call_bytes in 32..64 {
        assert_eq!(name(call_bytes, &all, Nfsstat4::NFS4_OK), named, "{call_bytes}");
    }
    // Operations after a failed one have no result: they may be anything.
    assert_eq!(name(52, &results, Nfsstat4::NFS4ERR_INVAL), compound);
    assert_eq!(name(60, &results, Nfsstat4::NFS4ERR_INVAL), compound);
    assert_eq!(name(64, &results, Nfsstat4::NFS4ERR_INVAL), named);
}

/// Frames of 64 and 72 bytes have 10 and 18 bytes after the BTH.
#[test]
fn frames_cut_in_their_headers_are_not_malformed() {
    let mut link = Link::new(17);
    let frames = [link.connect(1), read(&mut link, 7, memory(0xb1, 0, 4096)), getattr(&mut link, 8)].concat();
    for snap in 54..HEADERS + 16 {
        let outcome = run_cut(&frames, 0, snap);
        for (reason, count) in outcome.undecoded() {
            assert!(reason.is_cut(), "{snap}: {count} {reason:?}");
        }
        assert_eq!(outcome.transactions.len(), 0, "{snap}");
    }
    // Within the BTH too.
    let outcome = run_cut(&frames, 0, 50);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::CutFrame, frames.len() as u64)]);
}

/// RFC 8797 section 5.1 applies to absent private data, not to private data that was not captured.
#[test]
fn private_data_that_was_cut_is_not_absent() {
    let mut link = Link::new(17);
    let mut frames = link.connect(1);
    frames.extend(getattr(&mut link, 7));
    let sides = |snap| {
        let outcome = run_cut(&frames, 0, snap);
        let terms = outcome.flow.connections().next().and_then(|state| state.parameters);
        terms.map(|terms| (terms.client.key(), terms.server.key()))
    };
    assert_eq!(sides(usize::MAX), Some(("present", "present")));
    let mut seen: Vec<_> = (62..400).filter_map(sides).collect();
    seen.dedup();
    // The fields before the private data of a REQ are longer than a REP with all of its private data, and are used as
    // far as they were captured.
    assert_eq!(seen, [("cut", "cut"), ("cut", "present"), ("present", "present")]);
    assert_eq!(SidePrivateData::Cut.effective(), None);
}

/// The fields of a REQ and a REP in front of the cut are used. The service ID and the queue pair number of REQ end at
/// bytes 16 and 35, the Initiator Depth at 40, the PSN at 47, the path MTU at 51, and the ACK timeout at 96 (InfiniBand
/// Architecture Specification volume 1, section 12.6.5).
#[test]
fn infiniband_12_6_5_fields_before_the_cut_of_a_set_up_are_used() {
    // Behind the BTH: DETH, and the header of the management datagram.
    let data = HEADERS + 8 + 24;
    for captured in [30, 34, 35, 39, 40, 47, 51, 95, 96, 139, 140, 147, 148, 232] {
        let mut link = Link::new(17);
        let connect = link.connect(1);
        let count = connect.len();
        let mut flow = Flow::new(FlowLimits::default());
        for (number, bytes) in (1..).zip(&[connect, getattr(&mut link, 7)].concat()) {
            let is_request = number == 1;
            let snap = if is_request { data + captured } else { usize::MAX };
            feed(&mut flow, number, number as i64 * 1000, bytes, snap);
        }
        flow.finish();
        let transaction = flow.next_transaction().unwrap();
        assert_eq!(transaction.call.as_ref().unwrap().frames[0].0, count as u64 + 1);
        let Some(set_up) = transaction.set_up.as_deref() else {
            assert!(captured < 35, "{captured}");
            continue;
        };
        assert!(captured >= 35, "{captured}");
        assert_eq!(set_up.is_cut, captured < 140, "{captured}");
        assert_eq!(set_up.client_reads.is_some(), captured >= 40, "{captured}");
        assert_eq!(set_up.ack_timeout_ns.is_some(), captured >= 96, "{captured}");
        assert_eq!(set_up.client == SidePrivateData::Cut, captured < 148, "{captured}");
        assert_eq!(set_up.client.present().is_some(), captured >= 148, "{captured}");
        assert!(set_up.server.present().is_some(), "{captured}");
        assert_eq!(set_up.server_reads.map(|reads| reads.inbound), Some(16), "{captured}");
    }
}

/// A snap length that cuts a header in its chunk lists hides the kind of the message, which its Call shows. RFC 8797
/// section 4.1: only a Reply invalidates a handle.
#[test]
fn the_kind_of_a_message_that_was_cut_is_known_from_its_call() {
    let target = memory(0xb1, 0, 4096);
    let mut link = Link::new(17);
    let before = getattr(&mut link, 6);
    let whole = before.len() as u64;
    let call = link.send(Client, &read_call(7, 4096).write(&[target]));
    let reply = link.send(Server, &read_reply(7, 0).write(&[target.of(0)]));
    let invalidation = link.send_invalidate(Server, &read_reply(7, 0).write(&[target.of(0)]), 0xb1);
    let in_lists = HEADERS + 40;
    let (is_call, is_known) = (true, true);
    for (frames, captured, expected) in [
        (&reply, in_lists, (is_call, !is_known)),
        (&invalidation, in_lists, (!is_call, !is_known)),
        (&reply, usize::MAX, (!is_call, is_known)),
        (&call, usize::MAX, (is_call, is_known)),
    ] {
        let outcome = run_cut(&[before.clone(), frames.clone()].concat(), whole, captured);
        let Transaction { call, reply, .. } = &outcome.transactions[1];
        let message = call.as_ref().or(reply.as_ref()).unwrap();
        assert_eq!((call.is_some(), message.is_kind_known), expected);
    }
    for reply in [reply, invalidation] {
        let outcome = run_cut(&[before.clone(), call.clone(), reply].concat(), whole, in_lists);
        let [_, transaction] = &outcome.transactions[..] else { panic!("{:?}", outcome.transactions) };
        assert!(transaction.reply.as_ref().unwrap().is_kind_known);
    }
}
