//! Calls in flight, one rule per test.

use super::*;
use crate::exceptional_transport_events::{TransportAnomalyKind, UnexpectedRpcMessageReason};
use crate::pending_call_queries::PendingTransactionPhase;

const MS: u64 = 1_000_000;

/// Feeds frames that are a microsecond apart.
fn fed(limits: FlowLimits, frames: &[Vec<u8>]) -> Flow {
    let mut flow = Flow::new(limits);
    for (number, bytes) in (1..).zip(frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    flow
}

fn phases(flow: &Flow) -> Vec<(u32, PendingTransactionPhase)> {
    flow.pending_calls().map(|call| (call.transaction.xid.0, call.phase())).collect()
}

#[test]
fn a_call_is_pending_from_its_last_frame_to_its_reply() {
    let mut link = Link::new(17);
    let frames = [
        link.connect(1),
        link.send(Client, &getattr_call(7)),
        link.send(Client, &getattr_call(8)),
        link.send(Server, &getattr_reply(7)),
    ]
    .concat();
    let first = frames.len() as u64 - 1;
    let flow = fed(FlowLimits::default(), &frames[..frames.len() - 1]);
    assert_eq!(phases(&flow), [(7, PendingTransactionPhase::Server), (8, PendingTransactionPhase::Server)]);
    let flow = fed(FlowLimits::default(), &frames);
    let [call] = &flow.pending_calls().collect::<Vec<_>>()[..] else { panic!("{:?}", phases(&flow)) };
    assert_eq!((call.transaction.xid.0, call.copies), (8, 1));
    assert_eq!((call.since, call.first_frame), (Timestamp(first as i64 * 1000), FrameNumber(first)));
    let named = call.to_transaction();
    assert_eq!((named.connection.number, named.direction), (1, CallDirection::Forward));
    assert_eq!(flow.now(), Timestamp(frames.len() as i64 * 1000));
}

/// RFC 8166 section 3.4: the Responder reads the Read chunks before it answers, and writes the Write
/// chunks.
#[test]
fn the_phase_has_the_bytes_moved_so_far() {
    let mut link = Link::new(17);
    let source = memory(0xa1, 0, 1000);
    let call = link.send(Client, &write_call(7, 1000).read(&[source]));
    let flow = fed(FlowLimits::default(), &call);
    assert_eq!(phases(&flow), [(7, PendingTransactionPhase::DataIn { moved_bytes: 0, offered_bytes: 1000 })]);
    let frames = [call, link.read(Server, source, &data(1000))].concat();
    assert_eq!(phases(&fed(FlowLimits::default(), &frames)), [(7, PendingTransactionPhase::Server)]);
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 2048);
    let whole = read(&mut link, 8, sink);
    let flow = fed(FlowLimits::default(), &whole[..whole.len() - 2]);
    let moved = PendingTransactionPhase::DataOut { moved_bytes: 2048 };
    assert_eq!(phases(&flow), [(8, moved)]);
}

#[test]
fn a_call_older_than_the_bound_is_emitted_incomplete() {
    let mut link = Link::new(17);
    let frames = [link.send(Client, &getattr_call(7)), link.send(Client, &getattr_call(8))].concat();
    let mut flow = fed(FlowLimits { call_age_ns: Some(100 * MS), ..FlowLimits::default() }, &frames);
    flow.advance_time(Timestamp(100 * MS as i64 + 1000));
    assert!(flow.next_transaction().is_none());
    flow.advance_time(Timestamp(100 * MS as i64 + 1001));
    let given = flow.next_transaction().unwrap();
    assert_eq!((given.xid.0, given.index, given.reply.is_none()), (7, 1, true));
    assert_eq!(phases(&flow), [(8, PendingTransactionPhase::Server)]);
    flow.advance_time(Timestamp(200 * MS as i64));
    assert_eq!(flow.next_transaction().map(|given| given.xid.0), Some(8));
    assert_eq!(flow.evicted_counts().collect::<Vec<_>>(), [(EvictedState::OldCall, 2)]);
    // The Reply that finally arrives has no Call.
    feed(&mut flow, 3, 300 * MS as i64, &link.send(Server, &getattr_reply(8))[0], usize::MAX);
    flow.finish();
    let late = flow.next_transaction().unwrap();
    assert_eq!((late.xid.0, late.call.is_none(), late.reply.is_some()), (8, true, true));
}

/// RFC 5531 section 9: a Reply has the XID of its Call.
#[test]
fn a_reply_is_unexpected_unless_its_call_was_emitted_before() {
    const SECOND: i64 = 1_000_000_000;
    for is_forgotten in [false, true] {
        let mut link = Link::new(17);
        let limits = FlowLimits { record_transport_events: true, ..FlowLimits::default() };
        let call_age_ns = is_forgotten.then_some(100 * MS);
        let mut flow = Flow::new(FlowLimits { call_age_ns, ..limits });
        let first = [link.send(Client, &getattr_call(6)), link.send(Server, &getattr_reply(6))].concat();
        for (number, bytes) in (1..).zip(&first) {
            feed(&mut flow, number, number as i64, bytes, usize::MAX);
        }
        // Another Call is answered late, or has the XID of no Reply. Messages 20 seconds apart show that no Call is
        // missing.
        let call = link.send(Client, &getattr_call(if is_forgotten { 7 } else { 8 }));
        feed(&mut flow, 3, 20 * SECOND, &call[0], usize::MAX);
        feed(&mut flow, 4, 40 * SECOND, &link.send(Server, &getattr_reply(7))[0], usize::MAX);
        feed(&mut flow, 5, 60 * SECOND, &link.send(Client, &getattr_call(9))[0], usize::MAX);
        let kinds: Vec<_> = flow.transport_events().map(|event| (event.frame.0, event.kind)).collect();
        let unexpected = TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::ReplyWithoutCall);
        let expected = if is_forgotten { vec![] } else { vec![(4, unexpected)] };
        assert_eq!(kinds, expected, "the call was forgotten: {is_forgotten}");
    }
}

#[test]
fn without_a_bound_a_call_waits_for_the_end() {
    let mut link = Link::new(17);
    let mut flow = fed(FlowLimits::default(), &link.send(Client, &getattr_call(7)));
    flow.advance_time(Timestamp(86_400_000_000_000));
    assert!(flow.next_transaction().is_none());
    flow.finish();
    assert!(flow.next_transaction().is_some());
}

/// RFC 8166 section 3.3.1: a Requester has no more Calls in flight than the last Reply granted.
#[test]
fn the_use_of_credits_is_counted_from_call_to_reply() {
    let mut link = Link::new(17);
    let frames = [
        link.send(Client, &getattr_call(1)),
        link.send(Server, &getattr_reply(1).credits(2)),
        link.send(Client, &getattr_call(2)),
        link.send(Client, &getattr_call(3)),
        link.send(Server, &getattr_reply(2).credits(2)),
        link.send(Server, &getattr_reply(3).credits(2)),
        link.send(Client, &getattr_call(4)),
        link.send(Server, &getattr_reply(4).credits(2)),
    ]
    .concat();
    let outcome = run(&frames);
    let used: Vec<_> = outcome
        .transactions
        .iter()
        .map(|one| (one.xid.0, one.credit_use.in_flight, one.credit_use.at_limit_ns))
        .collect();
    // Calls 2 and 3 are in flight together from frame 4 to the Reply in frame 5.
    assert_eq!(used, [(1, 1, 0), (2, 1, 1000), (3, 2, 0), (4, 1, 0)]);
}
