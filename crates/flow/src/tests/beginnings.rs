//! Start and end of TCP streams: copies, new incarnations, and the counts of unknown streams.

use super::tcp::{ACK, FIN, RST, SYN, Stream, record};
use super::*;

fn call(xid: u32) -> Vec<u8> {
    record(&getattr_call(xid).body)
}

fn reply(xid: u32) -> Vec<u8> {
    record(&getattr_reply(xid).body)
}

/// A connection from its SYN to its FINs, with one Call.
fn short(mut s: Stream, xid: u32) -> Frames {
    let mut frames = s.open();
    frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
    frames.extend([s.flags(Client, FIN | ACK), s.flags(Server, FIN | ACK), s.flags(Client, ACK)]);
    frames
}

/// Runs frames at these times in milliseconds.
fn run_at<'a>(frames: impl IntoIterator<Item = (i64, &'a Vec<u8>)>) -> Outcome {
    let mut flow = Flow::new(FlowLimits::default());
    let mut meanings = Vec::new();
    for (number, (time, bytes)) in (1..).zip(frames) {
        meanings.push(feed(&mut flow, number, time * 1_000_000, bytes, usize::MAX));
    }
    flow.finish();
    let transactions = std::iter::from_fn(|| flow.next_transaction()).collect();
    Outcome { flow, transactions, meanings }
}

const WHOLE: &str = "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5";

#[test]
fn rfc9293_section_3_4_2_segments_within_the_msl_are_copies() {
    let once = short(Stream::new(700), 7);
    let segments = &once[2..];
    for late in [5, 1000] {
        let again = segments.iter().map(|frame| (late, frame));
        let outcome = run_at(once.iter().map(|frame| (0, frame)).chain(again));
        assert_eq!(outcome.lines(), ["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4,10 x2 reply 5,11 x2"], "{late}");
        assert_eq!(outcome.undecoded(), [], "{late}");
    }
    // The Transaction has been emitted.
    let again = segments.iter().map(|frame| (100_000, frame));
    let outcome = run_at(once.iter().map(|frame| (0, frame)).chain(again));
    assert_eq!(outcome.lines(), [WHOLE]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::LateCopy, 2)]);
}

/// No SYN is retransmitted after data of its sender: a capture that is replayed twice contains the
/// connection twice.
#[test]
fn a_syn_with_the_same_number_behind_bytes_begins_another_stream() {
    let once = short(Stream::new(700), 7);
    for late in [5, 1000, 100_000] {
        let again = once.iter().map(|frame| (late, frame));
        let outcome = run_at(once.iter().map(|frame| (0, frame)).chain(again));
        let second = "#2 c2 > 7 GETATTR NFS3ERR_STALE call 12 reply 13";
        assert_eq!(outcome.lines(), [WHOLE, second], "{late}");
        assert_eq!(outcome.undecoded(), [], "{late}");
    }
}

#[test]
fn rfc9293_section_3_4_2_a_syn_with_the_same_number_after_the_msl_begins_another_stream() {
    let once = short(Stream::new(700), 7);
    let again = once.iter().map(|frame| (121_000, frame));
    let outcome = run_at(once.iter().map(|frame| (0, frame)).chain(again));
    assert_eq!(outcome.transactions.len(), 2);
}

/// The sequence numbers of the next incarnation are near those of the previous one (RFC 6528), or anywhere.
#[test]
fn copies_of_a_stream_may_come_when_the_next_between_the_same_ports_has_begun() {
    for next in [1_500_000, 30_000_000, 0x9000_0000] {
        let first = short(Stream::new(700), 7);
        let second = short(Stream::new(700).from(next, next.wrapping_add(77_777)), 8);
        let mut frames = first.clone();
        frames.extend_from_slice(&second[..4]);
        frames.extend(first);
        frames.extend_from_slice(&second[4..]);
        let outcome = expect(
            &frames,
            &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5", "#2 c2 > 8 GETATTR NFS3ERR_STALE call 12 reply 21"],
        );
        assert_eq!(outcome.undecoded(), [(UndecodedReason::LateCopy, 2)], "{next}");
    }
}

#[test]
fn a_connection_that_has_ended_is_forgotten_without_being_given_up() {
    let mut flow = Flow::new(FlowLimits { connections: 8, streams: 8, ..FlowLimits::default() });
    let mut number = 0;
    for port in 1000..1200 {
        for frame in short(Stream::new(port), 7) {
            number += 1;
            feed(&mut flow, number, number as i64 * 1000, &frame, usize::MAX);
        }
        assert!(flow.connections.size().0 <= 9);
    }
    flow.finish();
    assert_eq!(std::iter::from_fn(|| flow.next_transaction()).count(), 200);
    assert_eq!(flow.evicted_counts().collect::<Vec<_>>(), []);
}

#[test]
fn a_connection_that_ends_with_an_open_call_is_given_up() {
    let mut flow = Flow::new(FlowLimits { connections: 8, ..FlowLimits::default() });
    let mut number = 0;
    for port in 1000..1009 {
        let mut s = Stream::new(port);
        let frames = [s.open(), vec![s.send(Client, &call(port.into())), s.flags(Client, RST)]].concat();
        for frame in frames {
            number += 1;
            feed(&mut flow, number, number as i64 * 1000, &frame, usize::MAX);
        }
    }
    assert_eq!(flow.evicted_counts().collect::<Vec<_>>(), [(EvictedState::Connection, 1)]);
}

#[test]
fn late_segments_of_an_evicted_connection_open_no_other() {
    let mut flow = Flow::new(FlowLimits { connections: 8, ..FlowLimits::default() });
    let mut number = 0;
    let mut take = |flow: &mut Flow, frames: &[Vec<u8>]| {
        for frame in frames {
            number += 1;
            feed(flow, number, number as i64 * 1000, frame, usize::MAX);
        }
    };
    for port in 1000..1100 {
        take(&mut flow, &short(Stream::new(port), 7));
    }
    let before = flow.connections.size().0;
    // Their ports are reused, and copies of their segments arrive late.
    for port in 1000..1050 {
        take(&mut flow, &short(Stream::new(port), 7)[3..]);
        take(&mut flow, &Stream::new(port).from(77_000_000, 99_000_000).open());
    }
    assert_eq!(flow.connections.size().0, before);
}

/// The SYN and the first Call were not captured, and the first captured bytes of a direction are the middle
/// of a record.
#[test]
fn first_bytes_of_a_direction_without_syn_decide_nothing() {
    let mut s = Stream::new(700);
    let _syn = s.flags(Client, SYN);
    let mut frames = vec![s.flags(Server, SYN | ACK)];
    let large = s.send_in(Client, &record(&write_call_inline(6, &data(4000)).body), 1000);
    frames.extend_from_slice(&large[1..]);
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let outcome = expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 6 reply 7"]);
    assert!(outcome.flow.stats().ignored_counts().eq([(IgnoredTraffic::Tcp, 1)]));
    assert_eq!(outcome.undecoded(), [(UndecodedReason::NoRecordMark, 4)]);
}

#[test]
fn bytes_on_a_port_of_nfs_that_are_not_known_are_counted() {
    for port in [2049, 20049] {
        let mut s = Stream { ports: [700, port], ..Stream::new(0) };
        let mut frames = s.open();
        frames.extend([s.send(Client, b"GET / HTTP/1.1\r\n\r\n"), s.send(Server, &[7; 1400])]);
        let outcome = expect(&frames, &[]);
        assert_eq!(outcome.undecoded(), [(UndecodedReason::UnknownStream, 2)], "{port}");
        assert!(outcome.flow.stats().ignored_counts().eq([(IgnoredTraffic::Tcp, 3)]), "{port}");
    }
}

#[test]
fn messages_in_cut_streams_on_an_nfs_port_are_counted() {
    for snap in [54, 58, 66] {
        for is_opened in [true, false] {
            let mut s = Stream::new(700);
            let mut frames = s.open();
            if !is_opened {
                frames.clear();
            }
            for xid in 0..100 {
                frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
            }
            let outcome = run_cut(&frames, 0, snap);
            let undecoded: u64 = outcome.undecoded().iter().map(|(_, count)| count).sum();
            let known = outcome.transactions.len() as u64 * 2;
            assert_eq!((undecoded, known), (200, 0), "{snap}: {:?}", outcome.undecoded());
            assert_eq!(outcome.undecoded()[0].0, UndecodedReason::CutStream, "{snap}");
        }
    }
}
