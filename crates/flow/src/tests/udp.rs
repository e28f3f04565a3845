//! RPC over UDP, one rule per test.

use super::tcp::datagram;
use super::*;
use crate::exceptional_transport_events::{TransportAnomalyKind, UnexpectedRpcMessageReason};

const PORTS: [u16; 2] = [800, 2049];

fn call(xid: u32) -> Vec<u8> {
    datagram(Client, PORTS, &getattr_call(xid).body)
}

fn reply(xid: u32) -> Vec<u8> {
    datagram(Server, PORTS, &getattr_reply(xid).body)
}

#[test]
fn a_call_and_its_reply_are_a_transaction() {
    let outcome = expect_all(&[call(7), reply(7)], &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 2"]);
    let name = outcome.transactions[0].connection;
    assert_eq!((name.transport.to_string(), name.client.port, name.server.port), ("udp".into(), Some(800), Some(2049)));
}

#[test]
fn a_call_that_is_sent_again_and_its_second_reply_are_copies() {
    let frames = [call(7), call(7), reply(7), reply(7)];
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1,2 x2 reply 3,4 x2"]);
}

#[test]
fn a_message_in_ip_fragments_lists_them_all() {
    let call = datagram(Client, PORTS, &write_call_inline(7, &data(3000)).body);
    let frames = [wire::fragments(&call, 64), vec![reply(7)]].concat();
    let outcome = run(&frames);
    assert_eq!(outcome.transactions[0].call.as_ref().unwrap().frames, [FrameNumber(1), FrameNumber(2)]);
}

#[test]
fn a_reply_without_a_call_is_accepted_from_a_known_port_only() {
    let elsewhere = |who, body: &[u8]| datagram(who, [5353, 5353], body);
    let outcome = expect(&[elsewhere(Server, &getattr_reply(7).body)], &[]);
    assert_eq!(outcome.flow.stats().ignored_counts().collect::<Vec<_>>(), [(IgnoredTraffic::Udp, 1)]);
    expect_all(&[reply(7)], &["#1 c1 > 7 - SUCCESS reply 1 missing call"]);
}

#[test]
fn other_datagrams_pass() {
    let outcome =
        expect(&[datagram(Client, [4000, 53], b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x01\0\x01")], &[]);
    assert_eq!(outcome.flow.stats().ignored_counts().collect::<Vec<_>>(), [(IgnoredTraffic::Udp, 1)]);
}

/// RFC 5531 section 9: nothing shows that no reply is missing, so that two calls of one XID in flight are never certain.
#[test]
fn shared_xid_is_uncertain() {
    let write = datagram(Client, PORTS, &write_call_inline(7, &data(8)).body);
    let frames = [call(6), reply(6), call(7), write, reply(7), call(8), reply(8)];
    let mut flow = Flow::new(FlowLimits { record_transport_events: true, ..FlowLimits::default() });
    let mut found = Vec::new();
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
        found.extend(flow.transport_events().map(|event| (event.frame.0, event.kind, event.is_certain)));
    }
    let kind = TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::XidInUse);
    assert_eq!(found, [(4, kind, false)]);
}
