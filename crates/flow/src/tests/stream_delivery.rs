//! Delivery times over TCP and iWARP if segments are lost behind the capture point. The expected times come from a
//! receiver that is simulated (RFC 9293 section 3.10.7.4, RFC 2018) next to the capture point: a message is delivered
//! by the first segment after which the receiver has all bytes before the end of the message.

use std::collections::BTreeSet;
use std::ops::Range;

use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use proptest::prelude::*;

use super::tcp::{ACK, Stream, record};
use super::*;
use crate::iwarp::tests::wire::Sender;
use crate::transaction::DeliveryEvidence;

/// Nanoseconds between two frames.
const STEP_NS: i64 = 10_000;

/// Returns an acknowledgement of the client with SACK blocks.
fn acknowledgement(stream: &Stream, number: u32, blocks: &[[u32; 2]]) -> Vec<u8> {
    const TCP_AT: usize = 14 + 20;
    let mut frame = stream.at(Client, stream.next[0], ACK, &[]);
    frame[TCP_AT + 8..TCP_AT + 12].copy_from_slice(&number.to_be_bytes());
    if !blocks.is_empty() {
        let edges = blocks.as_flattened().iter().flat_map(|edge| edge.to_be_bytes());
        let options: Vec<u8> = [1, 1, 5, 2 + 8 * blocks.len() as u8].into_iter().chain(edges).collect();
        // The data offset in words, and the length of the IPv4 datagram.
        frame[TCP_AT + 12] = ((20 + options.len()) as u8 / 4) << 4;
        frame[16..18].copy_from_slice(&((40 + options.len()) as u16).to_be_bytes());
        frame.extend(options);
    }
    frame
}

/// Capture with times.
struct Timeline {
    stream: Stream,
    frames: Vec<(i64, Vec<u8>)>,
    now: i64,
    /// `true` to emit acknowledged Transactions at once.
    is_live: bool,
}

impl Timeline {
    fn new(stream: Stream, before: Frames) -> Self {
        let mut timeline = Self { stream, frames: Vec::new(), now: 0, is_live: false };
        before.into_iter().for_each(|frame| timeline.push(frame));
        timeline
    }

    fn push(&mut self, frame: Vec<u8>) {
        self.now += STEP_NS;
        self.frames.push((self.now, frame));
    }

    fn acknowledge(&mut self, number: u32, blocks: &[[u32; 2]]) {
        self.push(acknowledgement(&self.stream, number, blocks));
    }

    /// A segment of the server at this sequence number.
    fn segment(&mut self, sequence: u32, bytes: &[u8]) -> i64 {
        self.push(self.stream.at(Server, sequence, ACK, bytes));
        self.now
    }

    fn run(&self) -> Vec<Transaction> {
        let mut flow = Flow::new(FlowLimits { emit_on_acknowledgment: self.is_live, ..FlowLimits::default() });
        for (number, (time, frame)) in (1..).zip(&self.frames) {
            feed(&mut flow, number, *time, frame, usize::MAX);
        }
        flow.finish();
        let transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
        transactions.iter().for_each(whole);
        assert_eq!(flow.stats().duplicate_frames(), 0);
        transactions
    }

    /// Returns the end of the Reply with this XID, its recovery, and if it was acknowledged.
    fn reply(&self, xid: u32) -> (i64, u64, bool) {
        let transactions = self.run();
        let found = transactions.iter().find(|t| t.xid.0 == xid).unwrap();
        let reply = found.reply.as_ref().unwrap();
        let is_acknowledged = reply.delivery_evidence == DeliveryEvidence::Acknowledged;
        (reply.end_time.0, found.recovery_ns(), is_acknowledged)
    }
}

/// Calls over TCP that were received, after an exchange with acknowledgements.
fn tcp_calls(xids: &[u32]) -> Timeline {
    let mut stream = Stream::new(700);
    let mut frames = stream.open();
    frames.push(stream.send(Client, &record(&null_call(1).body)));
    frames.push(stream.send(Server, &record(&null_reply(1).body)));
    frames.push(stream.flags(Client, ACK));
    frames.extend(xids.iter().map(|xid| stream.send(Client, &record(&getattr_call(*xid).body))));
    frames.push(stream.flags(Server, ACK));
    Timeline::new(stream, frames)
}

fn tcp_reply(xid: u32) -> Vec<u8> {
    record(&getattr_reply(xid).body)
}

/// The same over iWARP, with the bytes that the server writes to the stream for each of its Replies.
fn iwarp_calls(xids: &[u32]) -> (Timeline, Vec<Vec<u8>>) {
    let wants = (false, true);
    let mut stream = Stream::new(700);
    stream.ports[1] = 20049;
    let mut frames = stream.open();
    let (mut client, mut server) = (Sender::starting(true, wants, wants), Sender::starting(false, wants, wants));
    frames.push(stream.send(Client, &client.take()));
    frames.push(stream.send(Server, &server.take()));
    frames.push(stream.flags(Client, ACK));
    let mut replies = Vec::new();
    for xid in xids {
        let target = memory(0xa00 + xid, 0x1000, 4096);
        client.send(RdmapOpcode::SEND, &read_call(*xid, 4096).write(&[target]).bytes());
        frames.push(stream.send(Client, &client.take()));
        server.write(target.handle, target.offset, &data(700));
        server.send(RdmapOpcode::SEND, &read_reply(*xid, 700).write(&[target.of(700)]).bytes());
        replies.push(server.take());
    }
    frames.push(stream.flags(Server, ACK));
    (Timeline::new(stream, frames), replies)
}

/// What a receiver does with bytes after a gap, and how it reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reports {
    /// It keeps them, and reports them.
    Selective,
    /// It keeps them, and sends duplicate acknowledgements.
    Duplicates,
    /// It discards them, and sends duplicate acknowledgements.
    Discards,
}

/// Loss of the segments of a stream.
#[derive(Clone, Debug)]
struct Losses {
    segment_size: usize,
    /// Numbers of the transmissions that are lost.
    lost: BTreeSet<usize>,
    reports: Reports,
    /// Only the last segment of a burst is acknowledged.
    is_acknowledged_once: bool,
}

/// The receiver: the next number that it expects, what it keeps after a gap, and when it expected which number.
struct Receiver {
    next: usize,
    kept: BTreeSet<usize>,
    delivered: Vec<(usize, i64)>,
}

/// Sends these bytes as the server until all arrived. Returns the time at which each end of a message was delivered.
fn send_with_losses(timeline: &mut Timeline, messages: &[Vec<u8>], losses: &Losses) -> Vec<i64> {
    let bytes = messages.concat();
    let segments: Vec<&[u8]> = bytes.chunks(losses.segment_size).collect();
    let start = timeline.stream.next[1];
    *timeline.stream.next(Server) = start.wrapping_add(bytes.len() as u32);
    let place = |segment: usize| start.wrapping_add((segment * losses.segment_size).min(bytes.len()) as u32);
    let mut receiver = Receiver { next: 0, kept: BTreeSet::new(), delivered: Vec::new() };
    let mut transmission = 0;
    let mut burst: Vec<usize> = (0..segments.len()).collect();
    loop {
        let mut has_report = false;
        for (at, &segment) in burst.iter().enumerate() {
            let time = timeline.segment(place(segment), segments[segment]);
            let is_lost = losses.lost.contains(&transmission);
            transmission += 1;
            if !is_lost {
                if losses.reports != Reports::Discards || segment == receiver.next {
                    receiver.kept.insert(segment);
                }
                while receiver.kept.remove(&receiver.next) {
                    receiver.next += 1;
                    receiver.delivered.push((receiver.next, time));
                }
            }
            let is_last = at + 1 == burst.len();
            if is_last || !losses.is_acknowledged_once && !is_lost {
                has_report |= segment > receiver.next;
                let mut blocks: Vec<[u32; 2]> = Vec::new();
                for &kept in &receiver.kept {
                    match blocks.last_mut() {
                        Some(block) if block[1] == place(kept) => block[1] = place(kept + 1),
                        _ => blocks.push([place(kept), place(kept + 1)]),
                    }
                }
                // The last ones are enough, because those before were reported.
                blocks.reverse();
                blocks.truncate(4);
                blocks.retain(|_| losses.reports == Reports::Selective);
                timeline.acknowledge(place(receiver.next), &blocks);
            }
        }
        if receiver.next == segments.len() {
            break;
        }
        // Without a report of a gap, the sender waits for its timeout.
        timeline.now += if has_report { 30_000_000 } else { 210_000_000 };
        burst = match losses.reports {
            Reports::Selective => {
                (receiver.next..segments.len()).filter(|segment| !receiver.kept.contains(segment)).collect()
            }
            Reports::Duplicates => vec![receiver.next],
            Reports::Discards => (receiver.next..segments.len()).collect(),
        };
    }
    let mut end = 0;
    let ends = messages.iter().map(|message| {
        end += message.len();
        end
    });
    let delivered = |end: usize| {
        let count = end.div_ceil(losses.segment_size);
        receiver.delivered.iter().find(|(next, _)| *next >= count).unwrap().1
    };
    ends.map(delivered).collect()
}

fn losses() -> impl Strategy<Value = Losses> {
    let reports = prop_oneof![Just(Reports::Selective), Just(Reports::Duplicates), Just(Reports::Discards)];
    (60..700usize, prop::collection::btree_set(0..16usize, 0..5), reports, any::<bool>()).prop_map(
        |(segment_size, lost, reports, is_acknowledged_once)| Losses {
            segment_size,
            lost,
            reports,
            is_acknowledged_once,
        },
    )
}

/// Asserts the delivery times of Replies.
fn check(timeline: &Timeline, xids: &[u32], expected: &[i64]) -> Result<(), TestCaseError> {
    let transactions = timeline.run();
    for (xid, end) in xids.iter().zip(expected) {
        let found = transactions.iter().find(|t| t.xid.0 == *xid).unwrap();
        let reply = found.reply.as_ref().unwrap();
        prop_assert_eq!(reply.end_time.0, *end, "{}", xid);
        prop_assert_eq!(reply.delivery_evidence, DeliveryEvidence::Acknowledged);
        // All segments of a Reply are sent within a millisecond if none is lost.
        let is_late = *end - reply.time.0 > 2_000_000;
        prop_assert!(!is_late || found.recovery_ns() > 29_000_000, "{}: {}", xid, found.recovery_ns());
    }
    Ok(())
}

const XIDS: [u32; 4] = [7, 8, 9, 10];

proptest! {
    #[test]
    fn replies_over_tcp_end_when_their_receiver_has_all_bytes_before_their_end(losses in losses()) {
        let mut timeline = tcp_calls(&XIDS);
        let expected = send_with_losses(&mut timeline, &XIDS.map(tcp_reply), &losses);
        check(&timeline, &XIDS, &expected)?;
    }

    #[test]
    fn replies_over_iwarp_end_when_their_receiver_has_all_bytes_before_their_end(losses in losses()) {
        let (mut timeline, replies) = iwarp_calls(&XIDS);
        let expected = send_with_losses(&mut timeline, &replies, &losses);
        check(&timeline, &XIDS, &expected)?;
    }
}

/// Two Replies in one segment each; returns their sequence numbers and the time of the second.
fn two_replies(timeline: &mut Timeline) -> ([u32; 3], i64) {
    let lengths = [7, 8].map(|xid| tcp_reply(xid).len() as u32);
    let first = timeline.stream.next[1];
    let ends = [first, first + lengths[0], first + lengths[0] + lengths[1]];
    timeline.stream.next[1] = ends[2];
    timeline.segment(ends[0], &tcp_reply(7));
    let time = timeline.segment(ends[1], &tcp_reply(8));
    (ends, time)
}

#[test]
fn a_reply_behind_a_lost_segment_waits_for_the_retransmission() {
    let mut timeline = tcp_calls(&[7, 8]);
    let ([first, second, end], sent) = two_replies(&mut timeline);
    timeline.acknowledge(first, &[[second, end]]);
    timeline.now += 30_000_000;
    let again = timeline.segment(first, &tcp_reply(7));
    timeline.acknowledge(end, &[]);
    assert_eq!(timeline.reply(7), (again, (again - sent + STEP_NS) as u64, true));
    assert_eq!(timeline.reply(8), (again, (again - sent) as u64, true));
}

/// Returns the places of FPDUs without markers: ULPDU Length, ULPDU, pad, CRC (RFC 5044 section 4).
fn fpdus(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut fpdus: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let ulpdu_length = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let end = at + (2 + ulpdu_length).next_multiple_of(4) + 4;
        fpdus.push(at..end);
        at = end;
    }
    fpdus
}

/// The segments of an RDMA Write were captured; the first was lost behind the capture point.
#[test]
fn an_rdma_write_over_tcp_that_is_sent_again_ends_a_recovery() {
    const SPLIT: usize = 400;
    for wait_ns in [30_000_000, 210_000_000] {
        let (mut timeline, replies) = iwarp_calls(&[7]);
        let is_tagged = |fpdu: &&Range<usize>| replies[0][fpdu.start + 2] & 0x80 != 0;
        let write_end = fpdus(&replies[0]).iter().take_while(is_tagged).last().unwrap().end;
        let (write, reply) = replies[0].split_at(write_end);
        let start = timeline.stream.next[1];
        let at = |bytes: usize| start.wrapping_add(bytes as u32);
        timeline.segment(start, &write[..SPLIT]);
        let last = timeline.segment(at(SPLIT), &write[SPLIT..]);
        timeline.acknowledge(start, &[[at(SPLIT), at(write.len())]]);
        timeline.now += wait_ns;
        let again = timeline.segment(start, &write[..SPLIT]);
        timeline.acknowledge(at(write.len()), &[]);
        let end = timeline.segment(at(write.len()), reply);
        timeline.acknowledge(at(replies[0].len()), &[]);
        assert_eq!(timeline.reply(7), (end, (again - last) as u64, true));
        let phases = timeline.run()[0].phases().unwrap();
        assert_eq!(phases.data_out_ns, STEP_NS as u64);
    }
}

/// RFC 2018 section 3: bytes in a block were received.
#[test]
fn a_retransmission_of_bytes_in_a_sack_block_delays_nothing() {
    let mut timeline = tcp_calls(&[7, 8]);
    let ([first, second, end], _) = two_replies(&mut timeline);
    timeline.acknowledge(first, &[[second, end]]);
    timeline.now += 30_000_000;
    let again = timeline.segment(first, &tcp_reply(7));
    timeline.segment(second, &tcp_reply(8));
    timeline.acknowledge(end, &[]);
    assert_eq!((timeline.reply(7).0, timeline.reply(8).0), (again, again));
}

/// RFC 2883 section 4: the first block names bytes that were received twice.
#[test]
fn a_retransmission_that_the_receiver_calls_a_duplicate_delays_nothing() {
    for is_alone in [true, false] {
        let mut timeline = tcp_calls(&[7, 8]);
        let ([first, second, end], sent) = two_replies(&mut timeline);
        // The second segment overtook the first.
        timeline.acknowledge(first, &[[second, end]]);
        timeline.now += 1_000_000;
        timeline.segment(first, &tcp_reply(7));
        if is_alone {
            timeline.acknowledge(second, &[[first, second]]);
        }
        timeline.acknowledge(end, &[[first, second]]);
        assert_eq!(timeline.reply(7), (sent - STEP_NS, 0, true));
        assert_eq!(timeline.reply(8), (sent, 0, true));
    }
}

/// An acknowledgement that crossed the retransmission precedes the report. A report seconds later is about another
/// copy.
#[test]
fn a_retransmission_reported_as_a_duplicate_after_the_acknowledgement_delays_nothing() {
    for (wait, is_in_time) in [(20_000_000, true), (2_000_000_000, false)] {
        for is_live in [false, true] {
            let mut timeline = tcp_calls(&[7, 8]);
            timeline.is_live = is_live;
            let ([first, second, end], sent) = two_replies(&mut timeline);
            timeline.now += 210_000_000;
            let again = timeline.segment(first, &tcp_reply(7));
            timeline.acknowledge(end, &[]);
            timeline.now += wait;
            timeline.acknowledge(end, &[[first, second]]);
            let delay = if is_in_time { 0 } else { again - sent };
            assert_eq!(timeline.reply(8), (sent + delay, delay as u64, true), "{wait} {is_live}");
        }
    }
}

#[test]
fn a_duplicate_sent_after_the_acknowledgement_is_not_the_earlier_retransmission() {
    let mut timeline = tcp_calls(&[7, 8]);
    let ([first, second, end], sent) = two_replies(&mut timeline);
    timeline.now += 210_000_000;
    let again = timeline.segment(first, &tcp_reply(7));
    timeline.acknowledge(end, &[]);
    timeline.now += 210_000_000;
    timeline.segment(first, &tcp_reply(7));
    timeline.acknowledge(end, &[[first, second]]);
    assert_eq!(timeline.reply(8), (again, (again - sent) as u64, true));
}

/// RFC 5681 section 2: a duplicate acknowledgement has the same window.
#[test]
fn a_window_update_reports_no_gap() {
    let mut timeline = tcp_calls(&[7, 8]);
    let ([first, _, end], sent) = two_replies(&mut timeline);
    let (_, last) = timeline.frames.pop().unwrap();
    let mut update = acknowledgement(&timeline.stream, first, &[]);
    update[14 + 20 + 14] = 0x7f;
    timeline.now -= STEP_NS;
    timeline.push(update);
    timeline.push(last);
    timeline.segment(first, &tcp_reply(7));
    timeline.acknowledge(end, &[]);
    assert_eq!(timeline.reply(8), (sent + STEP_NS, 0, true));
}

/// RFC 9293 section 3.8.1: bytes that were acknowledged need no retransmission.
#[test]
fn a_retransmission_of_acknowledged_bytes_delays_nothing() {
    let mut timeline = tcp_calls(&[7, 8]);
    let ([first, second, end], sent) = two_replies(&mut timeline);
    timeline.acknowledge(second, &[]);
    timeline.now += 300_000_000;
    timeline.segment(first, &tcp_reply(7));
    timeline.acknowledge(end, &[]);
    assert_eq!(timeline.reply(7), (sent - STEP_NS, 0, true));
    assert_eq!(timeline.reply(8), (sent, 0, true));
}

/// RFC 9293 section 3.8.4: a keep-alive is sent if nothing is to be acknowledged.
#[test]
fn repeating_the_last_byte_is_a_keep_alive_only_once_acknowledged() {
    for (is_acknowledged, delay) in [(false, 210_000_000), (true, 0)] {
        let mut timeline = tcp_calls(&[7]);
        let (bytes, first) = (tcp_reply(7), timeline.stream.next[1]);
        let (last, end) = (first + bytes.len() as u32 - 1, first + bytes.len() as u32);
        timeline.stream.next[1] = end;
        timeline.segment(first, &bytes[..bytes.len() - 1]);
        let sent = timeline.segment(last, &bytes[bytes.len() - 1..]);
        timeline.acknowledge(if is_acknowledged { end } else { last }, &[]);
        timeline.now = sent + 210_000_000 - STEP_NS;
        timeline.segment(last, &bytes[bytes.len() - 1..]);
        timeline.acknowledge(end, &[]);
        assert_eq!(timeline.reply(7), (sent + delay, delay as u64, true));
    }
}
