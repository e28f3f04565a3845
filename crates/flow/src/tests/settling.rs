//! Prompt emission of Transactions, one rule per test.

use super::tcp::{ACK, Stream, datagram, record};
use super::*;

/// Feeds frames that are a microsecond apart to a prompt flow, and returns for each Transaction the frame
/// that emitted it.
fn given_out(frames: &[Vec<u8>]) -> Vec<u64> {
    let mut flow = prompt();
    let mut given = Vec::new();
    for (number, bytes) in (1..).zip(frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
        given.extend(std::iter::from_fn(|| flow.next_transaction()).map(|_| number));
    }
    given
}

fn prompt() -> Flow {
    Flow::new(FlowLimits { emit_on_acknowledgment: true, ..FlowLimits::default() })
}

/// InfiniBand Architecture Specification volume 1, section 9.7.5: an acknowledgement covers all PSNs up to
/// its own.
#[test]
fn over_rdma_the_acknowledgement_of_the_reply_gives_it_out() {
    let mut link = Link::new(17);
    let frames = [
        link.connect(1),
        link.send(Client, &getattr_call(7)),
        link.send(Server, &getattr_reply(7)),
        link.ack(Client),
        link.send(Client, &getattr_call(8)),
        link.send(Client, &getattr_call(9)),
        link.send(Server, &getattr_reply(8)),
        link.send(Server, &getattr_reply(9)),
        link.ack(Client),
    ]
    .concat();
    let first = link.connect(1).len() as u64;
    assert_eq!(given_out(&frames), [first + 3, first + 8, first + 8]);
}

#[test]
fn a_read_response_acknowledges_too() {
    let mut link = Link::new(17);
    let source = memory(0xa1, 0, 1000);
    let connect = link.connect(1);
    let first = connect.len() as u64;
    let frames = [
        connect,
        link.send(Client, &getattr_call(7)),
        link.send(Server, &getattr_reply(7)),
        link.read(Server, source, &data(1000)),
    ]
    .concat();
    assert_eq!(given_out(&frames), [first + 4]);
}

/// Incomplete chunks may have been captured late: 50 ms are enough for that.
#[test]
fn an_incomplete_transaction_waits_for_frames_captured_late() {
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1000);
    let frames = [
        link.connect(1),
        link.send(Client, &read_call(7, 1000).write(&[sink])),
        link.send(Server, &read_reply(7, 1000).write(&[sink])),
        link.ack(Client),
    ]
    .concat();
    let mut flow = prompt();
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    flow.advance_time(Timestamp(40_000_000));
    assert!(flow.next_transaction().is_none());
    flow.advance_time(Timestamp(60_000_000));
    assert!(flow.next_transaction().is_some());
}

#[test]
fn an_unacknowledged_reply_is_final_after_the_time_for_copies() {
    let mut link = Link::new(17);
    let frames = [link.send(Client, &getattr_call(7)), link.send(Server, &getattr_reply(7))].concat();
    let mut flow = prompt();
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    flow.advance_time(Timestamp(1_900_000_000));
    assert!(flow.next_transaction().is_none());
    flow.advance_time(Timestamp(2_100_000_000));
    assert_eq!(flow.next_transaction().map(|transaction| line(&transaction)), run(&frames).lines().pop());
}

/// Transactions are emitted in the order of closing, even if one waits and the next would not.
#[test]
fn order_and_numbers_are_those_of_a_flow_that_waits() {
    let [mut one, mut other] = [Link::new(17), Link::new(18)];
    let frames = [
        one.connect(1),
        other.connect(2),
        one.send(Client, &getattr_call(7)),
        other.send(Client, &getattr_call(8)),
        one.send(Server, &getattr_reply(7)),
        other.send(Server, &getattr_reply(8)),
        other.ack(Client),
        one.ack(Client),
    ]
    .concat();
    let last = frames.len() as u64;
    assert_eq!(given_out(&frames), [last, last]);
    let limits = FlowLimits { emit_on_acknowledgment: true, ..FlowLimits::default() };
    assert_eq!(run_within(limits, &frames, |_| usize::MAX).lines(), run(&frames).lines());
}

/// RFC 9293 section 3.4.
#[test]
fn over_tcp_the_acknowledgement_of_the_last_byte_gives_it_out() {
    let mut tcp = Stream::new(800);
    let reply = record(&getattr_reply(7).body);
    let mut frames = tcp.open();
    frames.push(tcp.send(Client, &record(&getattr_call(7).body)));
    let start = *tcp.next(Server);
    frames.push(tcp.send(Server, &reply));
    let end = *tcp.next(Server);
    // All but one byte.
    *tcp.next(Server) = end.wrapping_sub(1);
    frames.push(tcp.flags(Client, ACK));
    *tcp.next(Server) = end;
    frames.push(tcp.flags(Client, ACK));
    assert!(end > start);
    assert_eq!(given_out(&frames), [7]);
}

/// RFC 5531 section 4: each copy of a Call may be answered.
#[test]
fn over_udp_each_copy_of_the_call_may_be_answered() {
    let ports = [800, 2049];
    let call = datagram(Client, ports, &getattr_call(7).body);
    let reply = datagram(Server, ports, &getattr_reply(7).body);
    assert_eq!(given_out(&[call.clone(), reply.clone()]), [2]);
    assert_eq!(given_out(&[call.clone(), call, reply.clone(), reply]), [4]);
}
