//! RPC over TCP, one rule per test.

use nfsrdma_dissectors::rpc::Xid;
use proptest::prelude::*;

use super::tcp::{ACK, FIN, RST, SYN, Stream, fragment, record};
use super::wire::Who;
use super::*;
use crate::transaction::DeliveryEvidence;

fn call(xid: u32) -> Vec<u8> {
    record(&getattr_call(xid).body)
}

fn reply(xid: u32) -> Vec<u8> {
    record(&getattr_reply(xid).body)
}

/// A newly opened connection, in three frames.
fn opened() -> (Stream, Frames) {
    let mut stream = Stream::new(700);
    let frames = stream.open();
    (stream, frames)
}

const WHOLE: &str = "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5";

#[test]
fn rfc5531_section_11_a_record_is_a_message() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let outcome = expect_all(&frames, &[WHOLE]);
    let transaction = &outcome.transactions[0];
    let name = transaction.connection;
    assert_eq!((name.transport.to_string(), name.client.port, name.server.port), ("tcp".into(), Some(700), Some(2049)));
    let message = transaction.call.as_ref().unwrap();
    assert_eq!((message.rpcrdma, message.inline_length()), (None, Some(getattr_call(7).body.len())));
}

#[test]
fn rfc5531_section_11_a_record_may_have_fragments() {
    let (mut s, mut frames) = opened();
    let body = getattr_call(7).body;
    let bytes = [
        fragment(&body[..30], false),
        fragment(&body[30..31], false),
        fragment(&[], false),
        fragment(&body[31..], true),
    ]
    .concat();
    frames.extend([s.send(Client, &bytes), s.send(Server, &reply(7))]);
    expect_all(&frames, &[WHOLE]);
}

#[test]
fn a_segment_may_hold_many_records_and_a_record_take_many_segments() {
    let (mut s, mut frames) = opened();
    frames.push(s.send(Client, &[call(7), call(8), call(9)].concat()));
    frames.extend(s.send_in(Server, &[reply(7), reply(8), reply(9)].concat(), 40));
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5",
            "#2 c1 > 8 GETATTR NFS3ERR_STALE call 4 reply 5,6",
            "#3 c1 > 9 GETATTR NFS3ERR_STALE call 4 reply 6,7",
        ],
    );
    assert!(matches!(outcome.meanings[3], FrameContentKind::Message { which: RpcMessageKind::Call, .. }));
}

#[test]
fn every_message_of_a_segment_is_reported() {
    let (mut s, frames) = opened();
    let mut flow = Flow::new(FlowLimits::default());
    let frames = [frames, vec![s.send(Client, &[call(7), call(8), call(9)[..20].to_vec()].concat())]].concat();
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64, bytes, usize::MAX);
    }
    let is_call =
        |meaning: &FrameContentKind| matches!(meaning, FrameContentKind::Message { which: RpcMessageKind::Call, .. });
    assert_eq!(flow.frame_kinds().iter().filter(|meaning| is_call(meaning)).count(), 2);
    assert_eq!(flow.frame_kinds().last(), Some(&FrameContentKind::PartialMessage));
}

#[test]
fn rfc9293_section_3_4_segments_in_any_order_and_a_number_that_wraps() {
    let mut s = Stream::new(700).from(u32::MAX - 30, u32::MAX - 3);
    let mut frames = s.open();
    let mut segments = s.send_in(Client, &call(7), 20);
    segments.reverse();
    let count = segments.len();
    frames.extend(segments);
    frames.push(s.send(Server, &reply(7)));
    let calls: Vec<_> = (4..4 + count).map(|number| number.to_string()).collect();
    expect_all(&frames, &[&format!("#1 c1 > 7 GETATTR NFS3ERR_STALE call {} reply {}", calls.join(","), 4 + count)]);
}

#[test]
fn a_segment_that_is_sent_again_is_a_copy() {
    let (mut s, mut frames) = opened();
    let first = s.send(Client, &call(7));
    frames.extend([first.clone(), first.clone(), s.send(Server, &reply(7)), first]);
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4,5,7 x3 reply 6"]);
}

/// RFC 9293 section 3.10.7.4: bytes after a gap wait for it.
#[test]
fn a_reply_behind_a_hole_is_delivered_when_the_hole_is_closed() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Client, &call(8))]);
    let asks = s.flags(Client, ACK);
    let (lost, behind) = (s.send(Server, &reply(7)), s.send(Server, &reply(8)));
    frames.extend([behind, asks, lost, s.flags(Client, ACK)]);
    let outcome = run(&frames);
    for (t, sent) in outcome.transactions.iter().zip([4, 5]) {
        let reply = t.reply.as_ref().unwrap();
        assert_eq!((reply.end_time.0, reply.delivery_evidence), (8000, DeliveryEvidence::Acknowledged), "{}", t.xid);
        let phases = t.phases().unwrap();
        assert_eq!((t.latency_ns(), phases.recovery_ns), (Some(8000 - sent * 1000), 2000), "{}", t.xid);
    }
}

/// Returns the meanings of the last of these frames.
fn last_meanings(frames: &[Vec<u8>]) -> Vec<FrameContentKind> {
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip(frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    flow.frame_kinds().to_vec()
}

/// RFC 5531 section 11: a record mark has the length of the record, whatever is missing before it.
#[test]
fn whole_messages_behind_gap_are_told() {
    let early = |xid, which| FrameContentKind::EarlyMessage { xid: Xid(xid), which };
    let early_call = |xid| early(xid, RpcMessageKind::Call);
    let part = FrameContentKind::PartialMessage;
    let (mut s, mut frames) = opened();
    frames.push(s.send(Client, &call(6)));
    let bytes = [call(7), call(8), call(9), call(10)].concat();
    let length = call(7).len();
    let ends = [10, 20, length + 30, 2 * length, 4 * length];
    let starts = [0].iter().chain(&ends);
    let mut parts: Vec<_> = starts.zip(&ends).map(|(start, end)| s.send(Client, &bytes[*start..*end])).collect();
    let missing = parts.remove(1);
    frames.push(parts.remove(0));
    let mut meanings = parts.iter().map(|segment| {
        frames.push(segment.clone());
        last_meanings(&frames)
    });
    // The end of the call that has lost bytes, and the beginning of the next.
    assert_eq!(meanings.next().unwrap(), [part]);
    assert_eq!(meanings.next().unwrap(), [early_call(8)]);
    assert_eq!(meanings.next().unwrap(), [early_call(9), early_call(10)]);
    drop(meanings);
    // Then the missing bytes complete their own message, and deliver the others.
    frames.push(missing);
    let meanings = last_meanings(&frames);
    assert_eq!(
        meanings.iter().filter(|kind| matches!(kind, FrameContentKind::Message { .. })).count(),
        4,
        "{meanings:?}"
    );

    // The mark is missing, too: only the start of a segment tells.
    let (mut s, mut frames) = opened();
    frames.push(s.send(Client, &call(7)));
    let _lost = s.send(Server, &reply(7));
    let halves = s.send_in(Server, &[reply(8), reply(9)].concat(), reply(8).len() + 4);
    frames.push(halves[0].clone());
    assert_eq!(last_meanings(&frames), [early(8, RpcMessageKind::Reply), part]);
    frames.push(s.send(Server, &[0; 40]));
    assert_eq!(last_meanings(&frames), [part]);
}

/// RFC 5531 section 11: bytes within a fragment of known length are no message, whatever they look like.
#[test]
fn data_behind_gap_are_no_message() {
    let (mut s, mut frames) = opened();
    let bytes = record(&[&getattr_call(7).body[..], &[0; 100], &call(8), &[0; 100]].concat());
    let at = 4 + getattr_call(7).body.len() + 100;
    frames.push(s.send(Client, &bytes[..at - 50]));
    let _lost = s.send(Client, &bytes[at - 50..at]);
    frames.push(s.send(Client, &bytes[at..at + call(8).len()]));
    assert_eq!(last_meanings(&frames), [FrameContentKind::PartialMessage]);
    frames.push(s.send(Client, &[&bytes[at + call(8).len()..], &call(9)].concat()));
    assert_eq!(last_meanings(&frames), [FrameContentKind::EarlyMessage { xid: Xid(9), which: RpcMessageKind::Call }]);
}

#[test]
fn a_resent_segment_was_lost_only_if_the_receiver_requested_it() {
    // The receiver acknowledges, requests a retransmission, or says nothing yet.
    for (says, end, recovery) in [(Some(true), 5000, 0), (Some(false), 7000, 2000), (None, 5000, 0)] {
        let (mut s, mut frames) = opened();
        let call = s.send(Client, &call(7));
        let asks = s.flags(Client, ACK);
        let reply = s.send(Server, &reply(7));
        let acknowledges = s.flags(Client, ACK);
        frames.extend([call, reply.clone()]);
        frames.extend(says.map(|all| if all { acknowledges.clone() } else { asks }));
        frames.extend([reply, acknowledges]);
        let outcome = run(&frames);
        let t = &outcome.transactions[0];
        let reply = t.reply.as_ref().unwrap();
        assert_eq!((reply.end_time.0, reply.delivery_evidence), (end, DeliveryEvidence::Acknowledged));
        assert_eq!((reply.copies, reply.retransmissions), (2, 0));
        assert_eq!(t.phases().unwrap().recovery_ns, recovery);
    }
}

#[test]
fn a_part_that_is_sent_again_is_listed_while_the_rest_is_missing() {
    let (mut s, mut frames) = opened();
    let parts = s.send_in(Client, &call(7), 20);
    frames.extend([parts[0].clone(), parts[0].clone(), parts[1].clone()]);
    frames.extend(parts[2..].iter().cloned());
    let outcome = run(&frames);
    assert_eq!(&outcome.transactions[0].call.as_ref().unwrap().frames[..3], [4, 5, 6].map(FrameNumber));
}

#[test]
fn of_bytes_sent_twice_the_first_count_and_differences_are_reported() {
    let (mut s, mut frames) = opened();
    let (start, bytes) = (s.next[0], call(7));
    let mut other = bytes.clone();
    *other.last_mut().unwrap() ^= 0xff;
    frames.extend([s.send(Client, &bytes), s.at(Client, start, ACK, &other), s.send(Server, &reply(7))]);
    let outcome = expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 4,5 x2 reply 6"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::Contradiction, 1)]);
    assert_eq!(outcome.transactions[0].call.as_ref().unwrap().bytes, bytes[4..]);
}

#[test]
fn a_contradiction_behind_a_hole_is_reported() {
    let (s, mut frames) = opened();
    let (start, bytes) = (s.next[0], call(7));
    let mut other = bytes[20..].to_vec();
    other[3] ^= 0xff;
    frames.extend([
        s.at(Client, start + 20, ACK, &bytes[20..]),
        s.at(Client, start + 20, ACK, &other),
        s.at(Client, start, ACK, &bytes[..20]),
    ]);
    let outcome = run(&frames);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::Contradiction, 1)]);
    assert_eq!(outcome.transactions[0].call.as_ref().unwrap().bytes, bytes[4..]);
}

#[test]
fn rfc9293_section_3_8_4_keep_alives_and_window_probes_change_nothing() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let next = s.next[0];
    // With the last byte, without any, and with the next byte for which the receiver's window is closed.
    frames.extend([s.at(Client, next - 1, ACK, &[0]), s.at(Client, next - 1, ACK, &[])]);
    frames.extend([s.at(Client, next, ACK, &call(8)[..1]), s.send(Client, &call(8)), s.send(Server, &reply(8))]);
    let outcome = expect_all(&frames, &[WHOLE, "#2 c1 > 8 GETATTR NFS3ERR_STALE call 8,9 reply 10"]);
    assert_eq!(outcome.meanings[5..7], [FrameContentKind::Control; 2]);
}

#[test]
fn a_hole_in_a_record_is_a_gap_of_one_message() {
    let (mut s, mut frames) = opened();
    let parts = s.send_in(Client, &record(&write_call_inline(7, &data(4000)).body), 60);
    frames.extend(parts.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, frame)| frame.clone()));
    frames.extend([
        s.send(Server, &record(&write_reply(7, 4000).body)),
        s.send(Client, &call(8)),
        s.send(Server, &reply(8)),
    ]);
    let lines = run(&frames).lines();
    assert!(lines.iter().any(|line| line.contains("> 7 ") && line.ends_with("missing call:56-115")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("> 8 GETATTR NFS3ERR_STALE") && !line.contains("missing")),
        "{lines:?}"
    );
}

#[test]
fn a_hole_over_a_record_mark_costs_the_records_that_it_touches() {
    let (mut s, mut frames) = opened();
    let bytes = [call(7), call(8), call(9)].concat();
    let length = call(7).len();
    let mut parts = Vec::new();
    // The end of the first and the beginning of the second.
    for range in [0..length - 10, length - 10..length + 10, length + 10..2 * length, 2 * length..3 * length] {
        parts.push(s.send(Client, &bytes[range]));
    }
    parts.remove(1);
    frames.extend(parts);
    frames.extend([7, 8, 9].map(|xid| s.send(Server, &reply(xid))));
    let outcome = run(&frames);
    let mut lines = outcome.lines();
    lines.sort_by_key(|line| line.split(' ').nth(3).map(str::to_owned));
    let end = length - 4 - 1;
    assert!(lines[0].ends_with(&format!("missing call:{}-{end}", end - 9)), "{lines:?}");
    assert!(lines[1].ends_with("missing call"), "{lines:?}");
    assert!(!lines[2].contains("missing"), "{lines:?}");
    assert_eq!(lines.len(), 3);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::NoRecordMark, 1)]);
    assert_eq!(outcome.flow.stats().skipped_bytes(), (length - 10) as u64);
}

#[test]
fn a_hole_that_was_acknowledged_is_given_up_soon() {
    let (mut s, mut frames) = opened();
    let _lost = s.send(Client, &call(7));
    frames.extend([s.send(Client, &call(8)), s.send(Server, &reply(8))]);
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    // The reply waits for its call, which was sent before.
    let waits = |flow: &Flow| flow.transaction_table.open_keys_by_first_frame().is_empty();
    assert!(waits(&flow));
    // Any other frame advances the time.
    feed(&mut flow, 9, 49_000_000, &[0; 60], usize::MAX);
    assert!(waits(&flow));
    feed(&mut flow, 10, 51_000_000, &[0; 60], usize::MAX);
    assert!(!waits(&flow));
}

#[test]
fn a_hole_that_was_not_acknowledged_waits_for_its_retransmission() {
    let (mut s, mut frames) = opened();
    let lost = s.send(Client, &call(7));
    // The server has not received it either.
    let next = s.next[0];
    s.next[0] = next - call(7).len() as u32;
    let early = s.at(Client, next, ACK, &call(8));
    let duplicate_ack = s.flags(Server, ACK);
    frames.extend([early, duplicate_ack]);
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64 * 1000, bytes, usize::MAX);
    }
    feed(&mut flow, 9, 20_000_000_000, &[0; 60], usize::MAX);
    feed(&mut flow, 10, 20_000_000_001, &lost, usize::MAX);
    assert_eq!(flow.frame_kinds().len(), 2);
    flow.finish();
    assert_eq!(std::iter::from_fn(|| flow.next_transaction()).count(), 2);
}

#[test]
fn a_call_that_was_captured_after_its_reply_is_whole() {
    let (mut s, mut frames) = opened();
    let late = s.send(Client, &call(7));
    frames.extend([s.send(Server, &reply(7)), late]);
    expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 5 reply 4"]);
}

#[test]
fn a_stream_that_begins_in_the_middle_is_known_by_its_structure() {
    let mut s = Stream::new(700);
    let large = record(&write_call_inline(6, &data(4000)).body);
    let end = s.send(Client, &large[300.min(large.len() - 8)..]);
    let frames = vec![end, s.send(Client, &call(7)), s.send(Server, &reply(7))];
    expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 2 reply 3"]);
    // Between two bytes of a segment too.
    let mut s = Stream::new(700);
    let frames = vec![s.send(Client, &[&large[20..], &call(7)].concat()), s.send(Server, &reply(7))];
    expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 2"]);
}

#[test]
fn a_reply_among_other_bytes_and_an_fpdu_of_mpa_claim_no_stream() {
    let mut s = Stream { ports: [700, 20049], ..Stream::new(0) };
    // ULPDU length 46, DDP and RDMAP control, and words that could be those of a Reply.
    let fpdu = [&[0, 46, 0x41, 0x43, 0, 0, 0, 7, 0, 0, 0, 1][..], &[0; 36]].concat();
    let frames = vec![s.send(Server, &[&[7; 30][..], &reply(7)].concat()), s.send(Server, &fpdu)];
    let outcome = expect(&frames, &[]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::UnknownStream, 2)]);
}

#[test]
fn the_sender_of_the_syn_is_the_client() {
    // A callback of NFSv4.0: the NFS server opens the connection.
    let mut s = Stream::new(700);
    let frames =
        vec![s.flags(Server, SYN), s.flags(Client, SYN | ACK), s.send(Server, &call(7)), s.send(Client, &reply(7))];
    let outcome = expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 3 reply 4"]);
    assert_eq!(outcome.transactions[0].connection.client.port, Some(2049));
    // The SYN was not captured, but its answer was.
    let mut s = Stream::new(700);
    s.flags(Client, SYN);
    let frames = vec![s.flags(Server, SYN | ACK), s.send(Client, &call(7)), s.send(Server, &reply(7))];
    let outcome = expect_all(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 2 reply 3"]);
    assert_eq!(outcome.transactions[0].connection.client.port, Some(700));
}

#[test]
fn a_new_syn_between_the_same_ports_is_another_connection() {
    for end in [FIN | ACK, RST] {
        let (mut s, mut frames) = opened();
        frames.extend([s.send(Client, &call(7)), s.flags(Client, end)]);
        let mut s = s.from(77_000_000, 99_000_000);
        frames.extend(s.open());
        frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
        expect_all(
            &frames,
            &[
                "#1 c1 > 7 GETATTR - call 4 missing reply",
                "#2 c2 > 7 GETATTR NFS3ERR_STALE call 9 reply 10 retry of #1",
            ],
        );
    }
}

#[test]
fn new_stream_without_syn_loses_nothing() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let mut s = s.from(0x7000_0000, 0x9000_0000);
    frames.extend([s.send(Client, &call(8)), s.send(Client, &call(9)), s.send(Server, &[reply(8), reply(9)].concat())]);
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5",
            "#2 c2 > 8 GETATTR NFS3ERR_STALE call 6 reply 8",
            "#3 c2 > 9 GETATTR NFS3ERR_STALE call 7 reply 8",
        ],
    );
}

/// RFC 9293 section 3.10.7.4: a stream at lower numbers begins when the peer acknowledges them.
#[test]
fn stream_at_lower_numbers_begins() {
    for [client, server] in [[0x10_0000, 0x30_0000], [1000, 1000], [0x800_0000, 2000], [1000, 0]] {
        let (mut s, mut frames) = opened();
        let [first_client, first_server] = s.next;
        for xid in 0..9 {
            if xid == 3 {
                s = s.from(first_client.wrapping_sub(client), first_server.wrapping_sub(server));
            }
            frames.extend([s.send(Client, &call(xid)), s.flags(Server, ACK), s.send(Server, &reply(xid))]);
        }
        let outcome = run(&frames);
        let found: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.missing_parts().is_empty())).collect();
        assert_eq!(found, (0..9).map(|xid| (xid, true)).collect::<Vec<_>>(), "{client:x} {server:x}");
        assert_eq!(outcome.undecoded(), [], "{client:x} {server:x}");
    }
}

/// RFC 7323 section 5.2: what acknowledges less than before and is not older is of another stream, although its numbers
/// were those of bytes before.
#[test]
fn stream_at_used_numbers_begins_by_timestamps() {
    for [client, server] in [[300, 300], [200, 100], [50, 150], [400, 200]] {
        for restarts in [true, false] {
            let (mut s, frames) = opened();
            let mut frames: Frames = frames;
            for xid in 0..12 {
                if xid == 6 && restarts {
                    s = s.clone().from(s.next[0] - client, s.next[1] - server);
                }
                let mut exchange = vec![s.send(Client, &call(xid)), s.flags(Server, ACK), s.send(Server, &reply(xid))];
                if xid == 6 && !restarts {
                    // Late copies of all segments have old timestamps.
                    frames.extend(frames[3..].to_vec());
                }
                exchange.iter_mut().for_each(|frame| stamp(frame, 1000 + xid));
                frames.extend(exchange);
            }
            let outcome = run_spaced(&frames, 20_000_000);
            let found: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.missing_parts().is_empty())).collect();
            assert_eq!(found, (0..12).map(|xid| (xid, true)).collect::<Vec<_>>(), "{client} {server} {restarts}");
        }
    }
}

/// Adds the option of a timestamp to the segment in a frame.
fn stamp(frame: &mut Vec<u8>, timestamp: u32) {
    let option = [&[1, 1, 8, 10][..], &timestamp.to_be_bytes(), &[0; 4]].concat();
    frame.splice(54..54, option);
    frame[46] = 8 << 4;
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
}

/// Runs frames at this distance in nanoseconds.
fn run_spaced(frames: &[Vec<u8>], distance_ns: i64) -> Outcome {
    let mut flow = Flow::new(FlowLimits::default());
    let numbered = (1_u64..).zip(frames);
    let meanings =
        numbered.map(|(at, frame)| feed(&mut flow, at, at as i64 * distance_ns, frame, usize::MAX)).collect();
    flow.finish();
    let transactions = std::iter::from_fn(|| flow.next_transaction()).collect();
    Outcome { flow, transactions, meanings }
}

/// RFC 9293 section 3.10.7.4: bytes below the window are copies, or of another connection; the peer answers them by an
/// acknowledgement of what it expects.
#[test]
fn unacknowledged_lower_numbers_begin_nothing() {
    for is_opened in [true, false] {
        let (mut s, mut frames) = opened();
        if !is_opened {
            frames.clear();
        }
        for xid in 0..9 {
            frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid)), s.flags(Client, ACK)]);
            let old = s.at(Client, 999_000, ACK, &call(77));
            frames.extend([old, s.flags(Server, ACK)]);
        }
        let outcome = run(&frames);
        let found: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.missing_parts().is_empty())).collect();
        assert_eq!(found, (0..9).map(|xid| (xid, true)).collect::<Vec<_>>(), "{is_opened}");
        assert_eq!(outcome.undecoded().iter().map(|(_, count)| count).sum::<u64>(), 9, "{is_opened}");
    }
}

#[test]
fn a_reset_emits_an_incomplete_call() {
    let (mut s, mut frames) = opened();
    let parts = s.send_in(Client, &record(&write_call_inline(7, &data(200)).body), 60);
    frames.extend(parts[..1].iter().cloned());
    frames.extend(parts[2..].iter().cloned());
    frames.push(s.flags(Client, RST));
    let lines = run(&frames).lines();
    assert!(lines[0].contains("missing call:56-115"), "{lines:?}");
}

/// RFC 9293 section 3.10.7.4, fourth: a SYN in a living connection is answered by a challenge ACK.
#[test]
fn syn_without_answer_begins_nothing() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    for who in [Client, Server] {
        let next = s.next[usize::from(who == Server)];
        for sequence in [next, next - 1, next + 1000, next - 5000, 0x7000_0000] {
            frames.extend([s.at(who, sequence, SYN, &[]), s.at(who, sequence, SYN, &call(9))]);
            frames.push(s.at(who, sequence, SYN | ACK, &[]));
            // The challenge ACK.
            frames.push(s.flags(if who == Client { Server } else { Client }, ACK));
        }
    }
    let at = frames.len();
    frames.extend([s.send(Client, &call(8)), s.send(Server, &reply(8))]);
    let line = format!("#2 c1 > 8 GETATTR NFS3ERR_STALE call {} reply {}", at + 1, at + 2);
    let outcome = expect(&frames, &[WHOLE, &line]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::Stray, 10)]);
}

/// RFC 9293 section 3.10.7.4: a capture begins within a connection, so that its first SYN is as stray as a later one.
#[test]
fn stray_syn_before_first_data_begins_nothing() {
    for who in [Client, Server] {
        let other = if who == Client { Server } else { Client };
        for (flags, data) in [(SYN, vec![]), (SYN, data(150)), (SYN | ACK, vec![])] {
            for sequence in [0x7000_0000, 0x9000_0000, 6_000_000] {
                for before in 0..3 {
                    let mut s = Stream::new(700);
                    let mut frames = vec![s.flags(other, ACK), s.flags(who, ACK)];
                    frames.insert(before, s.at(who, sequence, flags, &data));
                    (7..12).for_each(|xid| frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]));
                    let outcome = run(&frames);
                    let found = outcome
                        .transactions
                        .iter()
                        .map(|t| (t.xid.0, t.connection.number, t.connection.client.port, t.missing_parts().len()));
                    let expected = (7..12).map(|xid| (xid, 1, Some(700), 0));
                    assert!(found.eq(expected), "{who:?} {flags:?} {sequence} {before}: {:?}", outcome.lines());
                }
            }
        }
    }
}

/// A stray SYN of the server between the SYN and its answer, and one in place of the answer.
#[test]
fn stray_syn_in_handshake_splits_nothing() {
    for flags in [SYN, SYN | ACK] {
        let (mut s, mut frames) = opened();
        frames.insert(1, s.at(Server, 0x7000_0000, flags, &[]));
        frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
        let outcome = expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 5 reply 6"]);
        assert_eq!(outcome.transactions[0].connection.client.port, Some(700));
    }
}

/// RFC 9293 section 3.4.1: the same ports may be used again at once. Not all of the handshake needs to be captured, nor
/// both directions.
#[test]
fn new_connection_on_same_ports_begins() {
    // Numbers far from the old ones, the next ones that Linux chooses, and the same ones.
    for isns in [[77_000_000, 0x9900_0000], [1_000_000 + 65_537, 5_000_000 + 65_537], [1_000_000, 5_000_000]] {
        for (handshake, directions) in [
            (&[0, 1, 2][..], &[Client, Server][..]),
            (&[0, 1], &[Client, Server]),
            (&[0, 2], &[Client, Server]),
            (&[1, 2], &[Client, Server]),
            (&[0], &[Client, Server]),
            (&[0, 2], &[Client]),
            (&[1], &[Server]),
        ] {
            if isns[0] == 1_000_000 && directions.len() == 1 {
                // The first bytes look like a retransmission.
                continue;
            }
            let said = format!("{isns:?} {handshake:?} {directions:?}");
            let is_captured = |who: Who| directions.contains(&who);
            let messages = |s: &mut Stream, xid| {
                let both = [(Client, s.send(Client, &call(xid))), (Server, s.send(Server, &reply(xid)))];
                both.into_iter().filter(|(who, _)| is_captured(*who)).map(|(_, frame)| frame).collect::<Vec<_>>()
            };
            let mut s = Stream::new(700);
            let mut frames: Vec<_> = { s.open() }
                .into_iter()
                .zip([Client, Server, Client])
                .filter(|(_, who)| is_captured(*who))
                .map(|(frame, _)| frame)
                .collect();
            (1..9).for_each(|xid| frames.extend(messages(&mut s, xid)));
            let mut s = s.from(isns[0], isns[1]);
            let opening = s.open();
            frames.extend(handshake.iter().map(|at| opening[*at].clone()));
            (11..15).for_each(|xid| frames.extend(messages(&mut s, xid)));
            let outcome = run(&frames);
            let found: Vec<_> = { outcome.transactions.iter() }
                .map(|t| (t.xid.0, t.connection.number, t.connection.client.port, t.missing_parts().len()))
                .collect();
            let missing = 2 - directions.len();
            let expected = |xid: u32| (xid, if xid > 10 { 2 } else { 1 }, Some(700), missing);
            let mut found = found;
            found.sort_unstable();
            assert_eq!(found, (1..9).chain(11..15).map(expected).collect::<Vec<_>>(), "{said}");
        }
    }
}

/// RFC 5961 section 3: a RST outside the window changes nothing, and a connection that goes on was not reset.
#[test]
fn outlived_end_is_ignored() {
    for (flags, who, distance, has_ended) in [
        (RST, Client, 0, false),
        (RST, Server, 0, false),
        (RST | ACK, Server, 0x4000_0000, false),
        (FIN | ACK, Client, 0, false),
        (FIN | ACK, Server, 50, false),
        (FIN | ACK, Server, 0x4000_0000, false),
    ] {
        let (mut s, mut frames) = opened();
        frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
        let next = s.next[usize::from(who == Server)];
        frames.push(s.at(who, next.wrapping_add(distance), flags, &[]));
        for xid in 8..80 {
            frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
        }
        let outcome = run(&frames);
        let is_whole = |t: &Transaction| t.connection.number == 1 && t.missing_parts().is_empty();
        assert_eq!(outcome.transactions.len(), 73);
        assert!(outcome.transactions.iter().all(is_whole), "{flags} {distance}: {:?}", outcome.lines());
        assert_eq!(outcome.undecoded(), []);
        let connection = outcome.flow.connections().next().unwrap();
        assert_eq!((connection.is_ending, connection.ended_at.is_some()), (has_ended, has_ended), "{flags} {distance}");
    }
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7)), s.flags(Server, RST)]);
    assert!(expect_all(&frames, &[WHOLE]).flow.connections().next().unwrap().is_ending);
}

const TCP_AT: usize = 14 + 20;

/// Returns a frame with a right checksum. RFC 9293 section 3.1.
fn seal(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let pseudo = [&frame[26..34], &[0, 6], &((frame.len() - TCP_AT) as u16).to_be_bytes()].concat();
    let mut sum: u32 = 0;
    for bytes in [&pseudo[..], &frame[TCP_AT..]] {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        sum += words.sum::<u32>();
    }
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

fn seal_all(frames: &[Vec<u8>]) -> Frames {
    frames.iter().map(|frame| seal(frame)).collect()
}

/// RFC 9293 section 3.1: also file data, after the header of their message, and whatever follows before the copy.
#[test]
fn damaged_content_gives_way_to_copy() {
    let file = data(4000);
    for (fragment_bytes, place) in [5000, 2500, 700].into_iter().flat_map(|bytes| [2, 3, 4].map(|place| (bytes, place)))
    {
        let (mut s, frames) = opened();
        let mut frames = seal_all(&frames);
        frames.push(seal(&s.send(Client, &record(&getattr_call(7).body))));
        let message = read_reply_inline(7, &file).body;
        let parts = message.chunks(fragment_bytes).count();
        let is_last = |at: usize| at + 1 == parts;
        let bytes: Vec<u8> =
            message.chunks(fragment_bytes).enumerate().flat_map(|(at, part)| fragment(part, is_last(at))).collect();
        let mut segments = seal_all(&s.send_in(Server, &bytes, 1400));
        let right = segments[1].clone();
        segments[1][TCP_AT + 20 + 900] ^= 0x55;
        segments[1][TCP_AT + 20 + 300] ^= 1;
        segments.insert(place.min(segments.len()), right);
        frames.extend(segments);
        frames.push(seal(&s.flags(Client, ACK)));
        let outcome = run(&frames);
        let reply = outcome.transactions[0].reply.as_ref().unwrap();
        assert!(reply.bytes == message, "{fragment_bytes} {place}");
        assert_eq!(outcome.transactions.len(), 1);
        assert_eq!(outcome.undecoded(), [(UndecodedReason::BadChecksum, 1)], "{fragment_bytes} {place}");
    }
}

/// RFC 9293 section 3.1: the first captured data have a wrong number and a wrong checksum.
#[test]
fn damaged_start_hides_no_data() {
    for (bits, has_copy) in
        [1 << 24, 1 << 14, 1 << 27].into_iter().flat_map(|bits| [true, false].map(|has| (bits, has)))
    {
        let mut s = Stream::new(700).from(0x4000_0000, 0x2000_0000);
        let sent = seal(&s.send(Client, &call(7)));
        let mut damaged = sent.clone();
        let number = u32::from_be_bytes(damaged[TCP_AT + 4..TCP_AT + 8].try_into().unwrap()) + bits;
        damaged[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&number.to_be_bytes());
        let mut frames = vec![damaged];
        frames.extend(has_copy.then_some(sent));
        frames.push(seal(&s.send(Server, &reply(7))));
        for xid in 8..20 {
            frames.extend([seal(&s.send(Client, &call(xid))), seal(&s.send(Server, &reply(xid)))]);
        }
        // Later damage is seen.
        let sent = seal(&s.send(Client, &call(20)));
        let mut damaged = sent.clone();
        damaged[TCP_AT + 20 + 7] ^= 1;
        frames.extend([damaged, sent, seal(&s.send(Server, &reply(20)))]);
        let outcome = run(&frames);
        let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty());
        let mut xids: Vec<_> = whole.map(|t| t.xid.0).collect();
        xids.sort_unstable();
        assert_eq!(xids, (7..=20).collect::<Vec<_>>(), "{bits:x} {has_copy}: {:?}", outcome.lines());
        assert!(outcome.transactions.iter().all(|t| t.connection.number == 1), "{:?}", outcome.lines());
        assert!(outcome.undecoded().contains(&(UndecodedReason::BadChecksum, 1)), "{:?}", outcome.undecoded());
    }
}

/// All checksums are wrong, as after a change of addresses, but one that is right by chance.
#[test]
fn checksum_right_by_chance_loses_nothing() {
    for (begin, right) in [0, 3].into_iter().flat_map(|begin| (0..12).map(move |right| (begin, right))) {
        let (mut s, frames) = opened();
        let mut frames = frames[begin..].to_vec();
        for xid in 7..20 {
            frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
        }
        let mut frames = seal_all(&frames);
        for (at, frame) in frames.iter_mut().enumerate() {
            frame[TCP_AT + 16] ^= if at == right { 0 } else { 0x11 };
        }
        let outcome = run(&frames);
        let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty()).count();
        assert_eq!((whole, outcome.transactions.len()), (13, 13), "{begin} {right}: {:?}", outcome.lines());
    }
}

/// The checksum of a frame is right in all frames but one.
#[test]
fn damaged_data_are_replaced_by_their_copy() {
    // Also if they are the first data of the connection.
    for (has_copy, before) in [(true, 1..5), (false, 1..5), (true, 1..1), (false, 1..1)] {
        let (mut s, frames) = opened();
        let mut frames: Frames = frames.iter().map(|frame| seal(frame)).collect();
        for xid in before.clone() {
            frames.extend([seal(&s.send(Client, &call(xid))), seal(&s.send(Server, &reply(xid)))]);
        }
        let sent = seal(&s.send(Client, &call(7)));
        let mut damaged = sent.clone();
        // A bit of the XID.
        damaged[TCP_AT + 20 + 7] ^= 8;
        frames.push(damaged);
        frames.extend(has_copy.then_some(sent));
        frames.extend([seal(&s.send(Server, &reply(7))), seal(&s.flags(Client, ACK))]);
        frames.extend([seal(&s.send(Client, &call(8))), seal(&s.send(Server, &reply(8)))]);
        let outcome = run(&frames);
        let mut xids: Vec<_> = outcome.transactions.iter().map(|t| t.xid.0).collect();
        xids.sort_unstable();
        assert_eq!(xids, before.chain([7, 8]).collect::<Vec<_>>());
        // The receiver acknowledged another copy, which was not captured.
        let seventh = outcome.transactions.iter().find(|t| t.xid.0 == 7).unwrap();
        assert_eq!((seventh.call.is_some(), seventh.reply.is_some()), (has_copy, true));
        assert_eq!(outcome.undecoded(), [(UndecodedReason::BadChecksum, 1)]);
    }
}

/// RFC 9293 section 3.1: one bit of any part of a segment, whose right copy was not captured.
#[test]
fn damage_costs_its_own_message() {
    let bits = || (0..20).chain([20, 23, 27, 30, 45]).flat_map(|byte| [0, 3, 7].map(|bit| (byte, 1_u8 << bit)));
    let places = [(0, 0), (1, 0), (3, 0), (4, 0), (3, 3), (4, 3), (10, 0), (11, 0), (20, 3), (21, 3)];
    for ((at, begin), (byte, bit)) in places.into_iter().flat_map(|place| bits().map(move |bit| (place, bit))) {
        let (mut s, mut frames) = opened();
        for xid in 7..20 {
            frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
        }
        frames.push(s.flags(Client, ACK));
        let mut frames = seal_all(&frames).split_off(begin);
        let Some(octet) = frames[at - begin].get_mut(TCP_AT + byte) else { continue };
        *octet ^= bit;
        let outcome = run(&frames);
        let what = format!("{at} {begin} {byte} {bit:x}: {:?}", outcome.lines());
        let mut whole: Vec<_> =
            outcome.transactions.iter().filter(|t| t.missing_parts().is_empty()).map(|t| t.xid.0).collect();
        whole.sort_unstable();
        // A damaged SYN may hide the first message.
        let damaged = 7 + (at as u32).saturating_sub(3) / 2;
        let is_other = |xid: &u32| *xid != damaged;
        let whole: Vec<_> = whole.into_iter().filter(is_other).collect();
        assert_eq!(whole, (7..20).filter(is_other).collect::<Vec<_>>(), "{what}");
        assert!(outcome.transactions.len() <= 14, "{what}");
        // Nothing shows the damage of the first captured data.
        if at > begin + 1 {
            assert_eq!(outcome.transactions.len(), 13, "{what}");
            assert!(outcome.transactions.iter().all(|t| t.connection.client.port == Some(700)), "{what}");
        }
    }
}

/// RFC 9293 section 3.1: the first data of a client after its acknowledgement, with a bit of its port or address.
#[test]
fn damaged_ports_begin_no_stream() {
    for at in [12, 15, 16, 19].map(|at| 14 + at).into_iter().chain((0..4).map(|at| TCP_AT + at)) {
        let mut s = Stream::new(700);
        let mut frames = vec![s.send(Server, &reply(6)), s.flags(Client, ACK)];
        let sent = s.send(Client, &call(7));
        frames.extend([sent.clone(), sent, s.send(Server, &reply(7))]);
        let mut frames = seal_all(&frames);
        frames[2][at] ^= 4;
        let outcome = run(&frames);
        let expected = ["#1 c1 > 6 - SUCCESS reply 1 missing call", "#2 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 5"];
        assert_eq!(outcome.lines(), expected, "{at}");
        assert_eq!(outcome.undecoded()[0], (UndecodedReason::BadChecksum, 1), "{at}");
    }
}

/// A network card completes the checksums of one side later, in all of its segments or most of them.
#[test]
fn mostly_wrong_checksums_lose_nothing() {
    for (side, begin, period) in [(0, 0), (0, 3), (1, 0), (1, 3)]
        .into_iter()
        .flat_map(|(side, begin)| [8, 100].map(|every| (side, begin, every)))
    {
        let (mut s, mut frames) = opened();
        for xid in 7..340 {
            frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
        }
        let mut frames = seal_all(&frames);
        for (at, frame) in frames[3..].iter_mut().skip(side).step_by(2).enumerate() {
            frame[TCP_AT + 16] ^= if at % period == period - 1 { 0 } else { 0x11 };
        }
        let outcome = run(&frames[begin..]);
        let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty()).count();
        assert_eq!((whole, outcome.transactions.len()), (333, 333), "{side} {begin} {period}: {:?}", outcome.lines());
    }
}

/// A network card has joined some segments, which keep the checksum of the first.
#[test]
fn joined_segments_lose_nothing() {
    let file = data(8000);
    for joined in [1..2, 0..2, 0..3, 3..5] {
        let (mut s, frames) = opened();
        let mut frames = seal_all(&frames);
        for xid in 7..20 {
            frames.push(seal(&s.send(Client, &record(&getattr_call(xid).body))));
            let mut rest = &record(&read_reply_inline(xid, &file).body)[..];
            for at in 0.. {
                let length = if joined.contains(&at) { 2000 } else { 1000 };
                let (bytes, after) = rest.split_at(length.min(rest.len()));
                let mut segment = seal(&s.send(Server, bytes));
                segment[TCP_AT + 16] ^= if joined.contains(&at) { 0x11 } else { 0 };
                frames.push(segment);
                rest = after;
                if rest.is_empty() {
                    break;
                }
                if at % 2 == 0 {
                    frames.push(seal(&s.flags(Client, ACK)));
                }
            }
        }
        let outcome = run(&frames);
        let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty()).count();
        assert_eq!((whole, outcome.transactions.len()), (13, 13), "{joined:?}: {:?}", outcome.lines());
    }
}

/// RFC 9293 section 3.10.7.4: the first captured data of a side have another number, with a right checksum.
#[test]
fn stray_first_data_hide_no_data() {
    let distances = [2 << 20, 1 << 26, 1 << 29, 1 << 30];
    for (distance, is_ahead) in distances.into_iter().flat_map(|distance| [true, false].map(|ahead| (distance, ahead)))
    {
        for (who, place) in [(Client, 0), (Client, 1), (Client, 2), (Server, 0), (Server, 1), (Server, 2)] {
            let mut s = Stream::new(700).from(0x6000_0000, 0x7000_0000);
            let number = *s.next(who);
            let number = if is_ahead { number + distance } else { number - distance };
            let stray = s.at(who, number, ACK, &data(150));
            let mut frames = Vec::new();
            for xid in 7..30 {
                frames.extend([s.send(Client, &call(xid)), s.send(Server, &reply(xid))]);
            }
            frames.insert(place, stray);
            let outcome = run(&seal_all(&frames));
            let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty()).count();
            let what = format!("{who:?} {place} {is_ahead} {distance:x} {:?}", outcome.lines());
            assert!(whole >= 22 && outcome.transactions.len() <= 23, "{what}");
        }
    }
}

/// RFC 9293 section 3.10.7.4: one direction was captured, without acknowledgements, and one of its segments is missing.
#[test]
fn reused_ports_drop_no_buffered_message() {
    for (who, next) in [Client, Server].into_iter().flat_map(|who| [0x4000_0000, 0x100, 0xf000_0000].map(|n| (who, n)))
    {
        let mut s = Stream::new(700).from(0x2000_0000, 0x2000_0000);
        let message = |xid| if who == Client { call(xid) } else { reply(xid) };
        let mut frames: Frames = (1..12).map(|xid| s.send(who, &message(xid))).collect();
        frames.remove(5);
        *s.next(who) = next;
        frames.extend((100..108).map(|xid| s.send(who, &message(xid))));
        let outcome = run(&seal_all(&frames));
        let found: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.connection.number)).collect();
        let old = (1..12).filter(|xid| *xid != 6).map(|xid| (xid, 1));
        let expected: Vec<_> = old.chain((100..108).map(|xid| (xid, 2))).collect();
        assert_eq!(found, expected, "{who:?} {next:x}");
        assert_eq!(outcome.undecoded(), [], "{who:?} {next:x}");
    }
}

/// The direction begins again and again within a message, each time at numbers before.
#[test]
fn repeated_backward_restarts_lose_no_message() {
    for (who, distance) in
        [Client, Server].into_iter().flat_map(|who| [(1 << 31) - 1000, 1 << 30, 1 << 21].map(|d| (who, d)))
    {
        let mut s = Stream::new(700).from(0x10, 0x10);
        let begun = record(&read_reply_inline(7, &data(40_000)).body);
        let begun = if who == Client { record(&write_call_inline(7, &data(40_000)).body) } else { begun };
        let mut frames = Vec::new();
        for _ in 0..12 {
            frames.extend([s.send(who, &begun[..1000]), s.send(who, &begun[1000..2000])]);
            *s.next(who) = s.next(who).wrapping_sub(distance);
        }
        frames.extend((100..104).map(|xid| s.send(who, &if who == Client { call(xid) } else { reply(xid) })));
        let outcome = run(&seal_all(&frames));
        let last = outcome.transactions.iter().filter(|t| t.xid.0 >= 100).count();
        assert_eq!(last, 4, "{who:?} {distance:x}: {:?}", outcome.lines());
    }
}

/// RFC 9293 section 3.1: some damaged segments without a right copy do not make two others in a row data, before their
/// copies.
#[test]
fn damage_among_right_checksums_stays_damage() {
    for (who, lone) in [Client, Server].into_iter().flat_map(|who| (0..5).map(move |lone| (who, lone))) {
        let (mut s, frames) = opened();
        let mut frames = seal_all(&frames);
        let place = usize::from(who == Server);
        let exchange = |s: &mut Stream, xid| [seal(&s.send(Client, &call(xid))), seal(&s.send(Server, &reply(xid)))];
        let mut damaged = Vec::new();
        for xid in 7..60 {
            let mut exchange = exchange(&mut s, xid);
            if xid > 20 && (xid - 20) % 7 == 0 && (xid - 20) / 7 <= lone {
                exchange[place][TCP_AT + 20 + 7] ^= 0x40;
                damaged.push(xid);
            }
            frames.extend(exchange);
        }
        // Two in a row, whose copies follow.
        let message = |xid| if who == Client { call(xid) } else { reply(xid) };
        if who == Server {
            frames.push(seal(&s.send(Client, &[call(60), call(61)].concat())));
        }
        let sent = [60, 61].map(|xid| seal(&s.send(who, &message(xid))));
        let mut wrong = sent.clone();
        wrong.iter_mut().for_each(|frame| frame[TCP_AT + 20 + 7] ^= 0x40);
        frames.extend(wrong.into_iter().chain(sent));
        if who == Client {
            frames.push(seal(&s.send(Server, &[reply(60), reply(61)].concat())));
        }
        for xid in 62..70 {
            frames.extend(exchange(&mut s, xid));
        }
        let outcome = run(&frames);
        let whole = outcome.transactions.iter().filter(|t| t.missing_parts().is_empty());
        let mut whole: Vec<_> = whole.map(|t| t.xid.0).collect();
        whole.sort_unstable();
        let expected: Vec<_> = (7..70).filter(|xid| !damaged.contains(xid)).collect();
        assert_eq!(whole, expected, "{who:?} {lone}: {:?}", outcome.lines());
        assert_eq!(outcome.undecoded(), [(UndecodedReason::BadChecksum, damaged.len() as u64 + 2)], "{who:?} {lone}");
    }
}

/// The checksums of one side of some streams are wrong, those of other streams right in both directions.
#[test]
fn wrong_checksums_of_other_streams_lose_nothing() {
    let cases = [Client, Server].into_iter().flat_map(|who| [0, 3].map(|begin| (who, begin)));
    for ((who, begin), right) in cases.flat_map(|case| [1, 4].map(|right| (case, right))) {
        // The peer of the side may not be captured.
        for is_one_way in [false, true] {
            let mut frames = Vec::new();
            for stream in 0..right + 4 {
                let is_wrong = stream >= right;
                let mut s = Stream::new(700 + stream as u16);
                let mut sent = vec![(Client, s.flags(Client, SYN)), (Server, s.flags(Server, SYN | ACK))];
                sent.push((Client, s.flags(Client, ACK)));
                for xid in (0..6).map(|at| stream * 0x100 + at) {
                    sent.extend([(Client, s.send(Client, &call(xid))), (Server, s.send(Server, &reply(xid)))]);
                }
                for (sender, frame) in sent.into_iter().skip(begin) {
                    let mut frame = seal(&frame);
                    if is_wrong && sender == who {
                        frame[TCP_AT + 16] ^= 0x11;
                    }
                    if !(is_wrong && is_one_way && sender != who) {
                        frames.push(frame);
                    }
                }
            }
            let outcome = run(&frames);
            let count = outcome.transactions.len() as u32;
            let missing = outcome.transactions.iter().filter(|t| !t.missing_parts().is_empty()).count() as u32;
            let what = format!("{who:?} {begin} {right} {is_one_way}: {:?}", outcome.lines());
            assert_eq!((count, missing), ((right + 4) * 6, if is_one_way { 24 } else { 0 }), "{what}");
            // SYNs with wrong checksums are not known to mean anything.
            assert!(begin == 0 || outcome.undecoded().is_empty(), "{what}");
        }
    }
}

/// RFC 5531 section 11: whatever segment has a part of a record header, with the SYN and without.
#[test]
fn header_may_span_segments() {
    let first_apart = |message: &[u8], first: usize| {
        let bytes = [fragment(&message[..first], false), fragment(&message[first..], true)].concat();
        (bytes, 4 + first)
    };
    let empty_last = |message: &[u8], first: usize| ([fragment(message, false), fragment(&[], true)].concat(), first);
    type Parts<'a> = &'a dyn Fn(&[u8], usize) -> (Vec<u8>, usize);
    let whole = |message: &[u8], first: usize| (record(message), first);
    let others: [(&str, Parts<'_>); 3] = [("whole", &whole), ("parted", &first_apart), ("empty last", &empty_last)];
    for ((name, parts), first) in others.into_iter().flat_map(|other| (1..32).map(move |first| (other, first))) {
        for begin in [0, 3] {
            let (mut s, frames) = opened();
            let mut frames = frames[begin..].to_vec();
            for xid in 7..10 {
                for (who, message) in [(Client, getattr_call(xid).body), (Server, getattr_reply(xid).body)] {
                    let (bytes, end) = parts(&message, first.min(message.len() - 1));
                    frames.extend([s.send(who, &bytes[..end]), s.send(who, &bytes[end..])]);
                }
            }
            let calls: Vec<_> = (0..3).map(|at| 4 - begin + 4 * at).collect();
            let whole = |at: &usize| {
                let (xid, at) = (7 + (at + begin - 4) / 4, *at);
                let number = (at + begin - 4) / 4 + 1;
                format!("#{number} c1 > {xid} GETATTR NFS3ERR_STALE call {at},{} reply {},{}", at + 1, at + 2, at + 3)
            };
            let outcome = run(&frames);
            assert_eq!(outcome.lines(), calls.iter().map(whole).collect::<Vec<_>>(), "{name} {first} {begin}");
            let transaction = &outcome.transactions[0];
            assert_eq!(transaction.connection.client.port, Some(700), "{name} {first} {begin}");
            assert_eq!(outcome.undecoded(), [], "{name} {first} {begin}");
        }
    }
}

/// RFC 5531 section 8.3: a server's bytes that look like a call of a program that does not exist turn no role.
#[test]
fn unusual_call_in_middle_turns_no_role() {
    let mut s = Stream::new(700);
    let words = [0x8000_0100, 0xdf, 0, 2, 0x30_0000, 40, 0, 0, 0, 0, 0].map(u32::to_be_bytes);
    let mut frames = vec![s.send(Server, &[&[7; 60][..], words.as_flattened()].concat())];
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let outcome = expect(&frames, &["#1 c1 > 7 GETATTR NFS3ERR_STALE call 2 reply 3"]);
    assert_eq!(outcome.transactions[0].connection.client.port, Some(700));
}

/// RFC 5531 section 11: a fragment has any length, also 0.
#[test]
fn first_fragment_may_be_smaller_than_header() {
    let parted =
        |message: &[u8], first: usize| [fragment(&message[..first], false), fragment(&message[first..], true)].concat();
    for first in 0..24 {
        for size in [1000, 5] {
            for begin in [0, 3, 4] {
                let (mut s, frames) = opened();
                let mut frames = frames[begin.min(3)..].to_vec();
                let mut messages = Vec::new();
                for xid in 7..10 {
                    frames.extend(s.send_in(Client, &parted(&getattr_call(xid).body, first), size));
                    frames.extend(s.send_in(Server, &parted(&getattr_reply(xid).body, first), size));
                    messages.push((xid, getattr_call(xid).body, getattr_reply(xid).body));
                }
                let outcome = run(&frames);
                let bytes = |message: &Option<transaction::CapturedMessage>| message.as_ref().unwrap().bytes.clone();
                let found: Vec<_> =
                    outcome.transactions.iter().map(|t| (t.xid.0, bytes(&t.call), bytes(&t.reply))).collect();
                assert_eq!(found, messages, "{first} {size} {begin}: {:?}", outcome.undecoded());
            }
        }
    }
}

#[test]
fn a_snap_length_cuts_messages_and_not_their_places() {
    let (mut s, mut frames) = opened();
    frames.extend(s.send_in(Client, &record(&write_call_inline(7, &data(4000)).body), 1000));
    frames.extend([
        s.send(Server, &record(&write_reply(7, 4000).body)),
        s.send(Client, &call(8)),
        s.send(Server, &reply(8)),
    ]);
    let outcome = run_cut(&frames, 0, 54 + 44);
    assert_eq!(outcome.transactions.len(), 2);
    let missing: Vec<_> = outcome.transactions.iter().map(|t| t.missing_parts()[0].to_string()).collect();
    assert!(missing[0].starts_with("call:40-"), "{missing:?}");
    assert!(missing[1].starts_with("call:40-"), "{missing:?}");
}

#[test]
fn other_streams_pass_and_hold_nothing() {
    let mut s = Stream { ports: [40_000, 443], ..Stream::new(0) };
    let mut frames = s.open();
    frames.extend([
        s.send(Client, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"),
        s.send(Server, &[7; 1400]),
        s.send(Client, &[9; 1400]),
    ]);
    frames.push(s.flags(Client, FIN | ACK));
    let outcome = expect_all(&frames, &[]);
    assert_eq!(outcome.flow.stats().ignored_counts().collect::<Vec<_>>(), [(IgnoredTraffic::Tcp, 7)]);
    assert_eq!(outcome.flow.streams.size(), (1, 0));
}

#[test]
fn rfc9289_section_4_1_bytes_after_the_probe_are_tls() {
    let (mut s, mut frames) = opened();
    let words = |words: &[u32]| record(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
    let probe = words(&[7, 0, 2, 100_003, 4, 0, 7, 0, 0, 0]);
    let starttls = words(&[7, 1, 0, 0, 8, u32::from_be_bytes(*b"STAR"), u32::from_be_bytes(*b"TTLS"), 0]);
    frames.extend([s.send(Client, &probe), s.send(Server, &starttls)]);
    frames.extend([s.send(Client, b"\x16\x03\x01\0\x05hello"), s.send(Server, b"\x16\x03\x03\0\x05hello")]);
    let outcome = expect(&frames, &["#1 c1 > 7 NULL SUCCESS call 4 reply 5"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::Tls, 2)]);
}

#[test]
fn a_stream_turns_to_mpa_at_the_end_of_a_record() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7)), s.send(Client, b"MPA ID Req Frame\0\x01\0\0")]);
    let outcome = expect_all(&frames, &[WHOLE]);
    assert_eq!(outcome.meanings[5], FrameContentKind::Management);
}

#[test]
fn bytes_behind_holes_and_in_unfinished_messages_are_bounded() {
    let limits = FlowLimits { gap_bytes: 10_000, stream_bytes: 20_000, ..FlowLimits::default() };
    let mut flow = Flow::new(limits);
    let mut number = 0;
    let mut take = |flow: &mut Flow, bytes: &[u8]| {
        number += 1;
        feed(flow, number, number as i64 * 1000, bytes, usize::MAX);
    };
    let mut most = 0;
    for port in 0..40 {
        let (mut s, frames) = {
            let mut s = Stream::new(1000 + port);
            let frames = s.open();
            (s, frames)
        };
        frames.iter().for_each(|frame| take(&mut flow, frame));
        take(&mut flow, &s.send(Client, &call(7)));
        s.next[0] += 10;
        for _ in 0..20 {
            take(&mut flow, &s.send(Client, &[1; 1000]));
            most = most.max(flow.streams.size().1);
        }
    }
    assert!(most < 30_000, "{most}");
    assert!(flow.evicted_counts().any(|(what, count)| what == EvictedState::Hole && count > 0));
}

/// Segments far ahead of all others, and those with wrong checksums.
#[test]
fn kept_doubtful_bytes_are_bounded() {
    for ahead in [2 << 20, 1 << 30, 0] {
        let limits = FlowLimits { gap_bytes: 10_000, stream_bytes: 20_000, ..FlowLimits::default() };
        let mut flow = Flow::new(limits);
        let mut most = 0;
        for port in 0..40 {
            let mut s = Stream::new(1000 + port);
            let mut frames = s.open();
            frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
            let mut frames = seal_all(&frames);
            s.next[0] += ahead;
            let mut kept = seal(&s.send(Client, &[1; 9000]));
            if ahead == 0 {
                kept[TCP_AT + 17] ^= 1;
            }
            frames.push(kept);
            for (number, frame) in (1..).zip(&frames) {
                let number = u64::from(port) * 10 + number;
                feed(&mut flow, number, number as i64 * 1000, frame, usize::MAX);
                most = most.max(flow.streams.size().1);
            }
        }
        assert!((9_000..30_000).contains(&most), "{ahead} {most}");
    }
}

/// Messages that nobody acknowledges.
#[test]
fn unacknowledged_messages_are_counted() {
    let (mut s, mut frames) = opened();
    let memory = |frames: &[Vec<u8>]| {
        let mut flow = Flow::new(FlowLimits::default());
        for (number, frame) in (1..).zip(frames) {
            feed(&mut flow, number, number as i64 * 1000, frame, usize::MAX);
        }
        flow.streams.memory_bytes()
    };
    let before = memory(&frames);
    frames.extend((0..1000).map(|xid| s.send(Client, &call(xid))));
    let after = memory(&frames);
    assert!(after - before > 1000 * size_of::<u64>() * 2, "{before} {after}");
}

#[test]
fn streams_are_bounded_and_those_without_rpc_go_first() {
    let mut flow = Flow::new(FlowLimits { streams: 50, ..FlowLimits::default() });
    let mut number = 0;
    let mut take = |flow: &mut Flow, frames: &[Vec<u8>]| {
        for bytes in frames {
            number += 1;
            feed(flow, number, number as i64 * 1000, bytes, usize::MAX);
        }
    };
    let (mut kept, frames) = opened();
    take(&mut flow, &frames);
    take(&mut flow, &[kept.send(Client, &call(7))]);
    for port in 1000..2000 {
        let mut s = Stream { ports: [port, 80], ..Stream::new(0) };
        let frames = [s.open(), vec![s.send(Client, b"GET / HTTP/1.1\r\n\r\n")]].concat();
        take(&mut flow, &frames);
        assert!(flow.streams.size().0 <= 51);
    }
    take(&mut flow, &[kept.send(Server, &reply(7))]);
    flow.finish();
    assert_eq!(line(&flow.next_transaction().unwrap()), "#1 c1 > 7 GETATTR NFS3ERR_STALE call 4 reply 4005");
    assert_eq!(flow.evicted_counts().count(), 0);
}

/// The messages of a few Calls, split into segments anywhere, in any order, some of them twice and
/// overlapping.
fn shuffled() -> impl Strategy<Value = (Vec<(usize, usize)>, u32)> {
    let length = 4 * call(0).len();
    let cuts = prop::collection::btree_set(1..length, 0..12);
    let pieces = cuts.prop_map(move |cuts| {
        let ends: Vec<_> = cuts.iter().copied().chain([length]).collect();
        std::iter::once(0).chain(cuts).zip(ends).collect::<Vec<_>>()
    });
    let more = prop::collection::vec((0..length, 1..200usize), 0..4);
    let all = (pieces, more).prop_map(move |(mut pieces, more)| {
        pieces.extend(more.into_iter().map(|(at, count)| (at, (at + count).min(length))));
        pieces
    });
    (all.prop_shuffle(), any::<u32>())
}

proptest! {
    #[test]
    fn any_segmentation_in_any_order_gives_the_same_messages((pieces, isn) in shuffled()) {
        let mut s = Stream::new(700).from(isn, 5);
        let bytes = [7, 8, 9, 10].map(call).concat();
        let mut frames = s.open();
        let start = s.next[0];
        frames.extend(pieces.iter().map(|(from, to)| s.at(Client, start.wrapping_add(*from as u32), ACK, &bytes[*from..*to])));
        let outcome = run(&frames);
        let mut calls: Vec<_> = outcome.transactions.iter().map(|t| (t.xid.0, t.call.as_ref().unwrap().bytes.clone())).collect();
        calls.sort_unstable();
        prop_assert_eq!(calls, [7, 8, 9, 10].map(|xid| (xid, getattr_call(xid).body)));
        prop_assert_eq!(outcome.undecoded(), []);
        for transaction in &outcome.transactions {
            prop_assert!(transaction.missing_parts().iter().all(|missing| *missing == MissingPart::Message(RpcMessageKind::Reply)));
        }
    }

    #[test]
    fn arbitrary_segments_never_panic(
        segments in prop::collection::vec((any::<bool>(), 0u32..3000, 0u8..32, prop::collection::vec(any::<u8>(), 0..100)), 0..60),
        begins: bool,
    ) {
        let (mut s, mut frames) = opened();
        if begins {
            frames.push(s.send(Client, &call(7)));
        }
        for (is_client, at, flags, bytes) in segments {
            let who = if is_client { Client } else { Server };
            let sequence = s.next(who).wrapping_add(at).wrapping_sub(1500);
            frames.push(s.at(who, sequence, flags, &bytes));
        }
        run(&frames);
    }

    #[test]
    fn a_lost_segment_adds_no_transaction(lost in 3usize..9, size in 20usize..60) {
        let (mut s, mut frames) = opened();
        for xid in 7..10 {
            frames.extend(s.send_in(Client, &call(xid), size));
            frames.extend(s.send_in(Server, &reply(xid), size));
        }
        frames.remove(lost);
        let outcome = run(&frames);
        prop_assert_eq!(outcome.transactions.len(), 3, "{:?}", outcome.lines());
        let is_whole = |t: &&Transaction| t.missing_parts().is_empty();
        prop_assert!(outcome.transactions.iter().filter(is_whole).count() < 3);
    }
}

/// RFC 2018 section 4: duplicate acknowledgements differ only in their SACK blocks, and each is a segment
/// of its own.
#[test]
fn duplicate_acknowledgements_with_other_options_are_not_captured_twice() {
    let (mut s, mut frames) = opened();
    frames.extend([s.send(Client, &call(7)), s.send(Server, &reply(7))]);
    let acknowledgement = |s: &Stream, sack: u32| {
        let mut frame = s.at(Client, *s.clone().next(Client), ACK, &[]);
        let block = [&[1, 1, 5, 10][..], &sack.to_be_bytes(), &(sack + 100).to_be_bytes()].concat();
        // The data offset in words, and the length of the IPv4 datagram.
        frame[14 + 20 + 12] = 8 << 4;
        frame[16..18].copy_from_slice(&(20 + 32_u16).to_be_bytes());
        frame.extend(block);
        frame
    };
    let mut flow = Flow::new(FlowLimits::default());
    let others = [acknowledgement(&s, 6_000_000), acknowledgement(&s, 6_000_000), acknowledgement(&s, 6_000_100)];
    for (number, frame) in (1..).zip(frames.iter().chain(&others)) {
        feed_as_it_is(&mut flow, number, number as i64 * 1000, frame, usize::MAX);
    }
    assert_eq!(flow.stats().duplicate_frames(), 1, "the second is a copy of the first, and the third is none");
}
