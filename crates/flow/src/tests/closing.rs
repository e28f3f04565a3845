//! Reports of ended connections and their time, one rule per test.

use super::tcp::{ACK, FIN, Stream, record};
use super::*;

/// Feeds frames that are a microsecond apart, and returns the numbers of the ended connections, each with
/// the frame that ended it.
fn closed(limits: FlowLimits, frames: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let mut flow = Flow::new(limits);
    let mut closed = Vec::new();
    for (number, bytes) in (1..).zip(frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
        closed.extend(std::iter::from_fn(|| flow.next_closed()).map(|state| (state.number, number)));
    }
    closed
}

fn noted() -> FlowLimits {
    FlowLimits { emit_on_acknowledgment: true, report_closed_connections: true, ..FlowLimits::default() }
}

/// InfiniBand Architecture Specification volume 1, section 12.9.
#[test]
fn a_connection_of_queue_pairs_is_over_with_its_dreq() {
    let mut link = Link::new(17);
    let mut frames = link.connect(1);
    frames.extend(link.send(Client, &getattr_call(7)));
    frames.extend(link.send(Server, &getattr_reply(7)));
    frames.extend(link.ack(Client));
    frames.extend(link.part(1));
    let last = frames.len() as u64;
    assert_eq!(closed(noted(), &frames), [(1, last)]);
    assert_eq!(closed(FlowLimits { report_closed_connections: false, ..noted() }, &frames), []);
}

/// A connection that carried no RPC has no number and is not reported.
#[test]
fn a_connection_without_rpc_is_not_reported() {
    let link = Link::new(17);
    assert_eq!(closed(noted(), &[link.connect(1), link.part(1)].concat()), []);
}

/// RFC 9293 section 3.6: after a FIN the other side may still send.
#[test]
fn a_stream_that_ends_is_over_when_nothing_of_it_is_open() {
    let mut tcp = Stream::new(800);
    let mut frames = tcp.open();
    frames.push(tcp.send(Client, &record(&getattr_call(7).body)));
    frames.push(tcp.flags(Client, FIN | ACK));
    frames.push(tcp.send(Server, &record(&getattr_reply(7).body)));
    let reply = frames.len() as u64;
    frames.push(tcp.flags(Client, ACK));
    assert_eq!(closed(noted(), &frames), [(1, reply + 1)]);
}

#[test]
fn a_set_up_of_the_same_queue_pairs_ends_the_connection_before() {
    let mut first = Link::new(17);
    let mut frames = first.connect(1);
    frames.extend(getattr(&mut first, 7));
    let mut second = Link::new(17);
    let set_up = second.connect(2);
    // REQ, REP: the answer establishes the connection.
    let reply = frames.len() as u64 + 2;
    frames.extend(set_up);
    frames.extend(getattr(&mut second, 8));
    assert_eq!(closed(noted(), &frames), [(1, reply)]);
}

/// A server that accepts another connection on its queue pair has ended the one before.
#[test]
fn a_rep_without_its_req_ends_the_connection_before() {
    let mut first = Link::new(17);
    let mut frames = first.connect(1);
    frames.extend(getattr(&mut first, 7));
    let mut second = Link::new(17);
    let [_, reply, ready] = <[Vec<u8>; 3]>::try_from(second.connect(2)).unwrap();
    frames.extend([reply.clone(), reply, ready]);
    frames.extend([second.send(Client, &getattr_call(8)), second.send(Server, &getattr_reply(8))].concat());
    expect_all(
        &frames,
        &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5", "#2 c2 > 8 GETATTR NFS3ERR_STALE call 9 reply 10"],
    );
}

/// Packets of a connection that are captured behind its DREQ: sent before it, or sent again.
#[test]
fn late_packets_of_an_ended_connection_open_no_other() {
    let mut link = Link::new(17);
    let mut frames = link.connect(1);
    for xid in 7..40 {
        frames.extend(getattr(&mut link, xid));
    }
    let call = link.send(Client, &getattr_call(40));
    let reply = link.send(Server, &getattr_reply(40));
    frames.extend(call.clone());
    frames.extend(link.part(1));
    frames.extend([reply.clone(), link.ack(Client), reply, call, link.ack(Server)].concat());
    let outcome = run(&frames);
    assert_eq!(outcome.transactions.len(), 34);
    assert!(outcome.transactions.iter().all(|t| t.connection.number == 1 && t.reply.is_some()));

    // Other sequence numbers are those of another connection.
    link.client.psn = link.client.psn.add(1_000_000);
    link.server.psn = link.server.psn.add(1_000_000);
    frames.extend(getattr(&mut link, 41));
    let outcome = run(&frames);
    let last = outcome.transactions.last().unwrap();
    assert_eq!((outcome.transactions.len(), last.xid.0, last.connection.number), (35, 41, 2));
    assert!(last.reply.is_some());
}

/// A mirror port that copies all packets again, with the same identification, 100 ms later: after the DREQ.
#[test]
fn copies_of_a_mirror_port_after_the_dreq_open_no_other_connection() {
    let mut link = Link::new(17);
    let mut frames = link.connect(1);
    for xid in 7..40 {
        frames.extend(getattr(&mut link, xid));
    }
    frames.extend(link.part(1));
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip([&frames[..], &frames].concat()) {
        let (nth, behind) = ((number - 1) % frames.len() as u64, (number - 1) / frames.len() as u64);
        let time = nth as i64 * 1000 + behind as i64 * 100_000_000;
        feed_as_it_is(&mut flow, number, time, &identified(&bytes, nth as u16 + 1), usize::MAX);
    }
    flow.finish();
    let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
    assert_eq!(transactions.len(), 33);
    assert!(transactions.iter().all(|t| t.connection.number == 1 && t.reply.is_some()));
}

#[test]
fn a_connection_that_is_forgotten_is_over() {
    let mut links = [17, 18, 19].map(Link::new);
    let frames: Vec<Vec<u8>> = links
        .iter_mut()
        .enumerate()
        .flat_map(|(at, link)| [link.connect(at as u32), getattr(link, 7)].concat())
        .collect();
    let over: Vec<_> =
        closed(FlowLimits { connections: 2, ..noted() }, &frames).into_iter().map(|(number, _)| number).collect();
    assert_eq!(over, [1]);
}
