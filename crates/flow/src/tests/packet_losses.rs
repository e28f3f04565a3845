//! Delivery times over RoCE if packets and acknowledgements are lost before or behind the capture point. The expected
//! times come from a receiver that is simulated next to the capture point (InfiniBand Architecture Specification volume
//! 1, section 9.7.5): it accepts packets in turn, refuses those after a gap with one NAK, and acknowledges duplicates
//! again.

use nfsrdma_dissectors::infiniband::Psn;
use proptest::prelude::*;

use super::*;
use crate::transaction::DeliveryEvidence;

const XIDS: [u32; 4] = [7, 8, 9, 10];
/// More rounds of retransmission than any test has losses for.
const MAX_ROUNDS: usize = 40;
/// Nanoseconds between two packets.
const STEP_NS: i64 = 1_000;
const ACK_TIMEOUT_NS: i64 = 67_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    LostBeforeCapture,
    LostBehindCapture,
}

/// Losses of a direction, packet by packet. Later packets arrive.
type Fates = Vec<Fate>;

fn fates(losses: &'static [Fate]) -> impl Strategy<Value = Fates> {
    let fate = prop_oneof![3 => Just(Fate::Arrives), 2 => prop::sample::select(losses)];
    prop::collection::vec(fate, 0..24)
}

/// Response of the receiver: all packets before this one are acknowledged, and it is requested again if this is a NAK.
struct Response {
    next: usize,
    is_nak: bool,
}

/// A capture of the Replies of a server, and the time at which the accepted copy of each was captured.
struct Simulation {
    frames: Vec<(i64, Vec<u8>)>,
    accepted: Vec<i64>,
}

/// Each Reply is sent after as many packets of RDMA Writes as `writes` says. Responses are captured `delay_ns` after
/// the packet that they answer.
fn simulate(writes: &[usize], packets: Fates, responses: Fates, delay_ns: i64) -> Simulation {
    let mut link = Link::new(17);
    let mut frames: Vec<(i64, Vec<u8>)> = Vec::new();
    let before = [getattr(&mut link, 6), link.ack(Client)].concat();
    let sinks = XIDS.map(|xid| memory(0xb00 + xid, 0x1000, 4096));
    let calls = XIDS.iter().zip(&sinks).zip(writes).map(|((xid, sink), count)| {
        let sinks = if *count > 0 { std::slice::from_ref(sink) } else { &[] };
        link.send(Client, &read_call(*xid, 1024 * *count as u32).write(sinks))
    });
    let calls: Frames = calls.collect::<Vec<_>>().concat();
    let calls = [before, calls, link.ack(Server)].concat();
    let mut now = 0;
    for frame in calls {
        now += STEP_NS;
        frames.push((now, frame));
    }
    let first = link.server.psn;
    let (mut sent, mut ends) = (Frames::new(), Vec::new());
    for ((xid, sink), count) in XIDS.iter().zip(&sinks).zip(writes) {
        let length = 1024 * *count as u32;
        let sink = sink.of(length);
        if *count > 0 {
            sent.extend(link.write(Server, sink, &data(length as usize)));
        }
        let sinks = if *count > 0 { std::slice::from_ref(&sink) } else { &[] };
        sent.extend(link.send(Server, &read_reply(*xid, length).write(sinks)));
        ends.push(sent.len() - 1);
    }
    let psn = |at: usize| -> Psn { first.add(at as u32) };
    let (mut packets, mut responses) = (packets.into_iter(), responses.into_iter());
    let mut accepted = Vec::new();
    let (mut is_refusing, mut acknowledged) = (false, 0);
    for _ in 0..MAX_ROUNDS {
        let mut is_nak_received = false;
        for (at, frame) in sent.iter().enumerate().skip(acknowledged) {
            now += STEP_NS;
            let fate = packets.next().unwrap_or(Fate::Arrives);
            if fate != Fate::LostBeforeCapture {
                frames.push((now, frame.clone()));
            }
            if fate != Fate::Arrives {
                continue;
            }
            let response = if at == accepted.len() {
                accepted.push(now);
                is_refusing = false;
                ends.contains(&at).then_some(Response { next: at + 1, is_nak: false })
            } else if at < accepted.len() {
                Some(Response { next: accepted.len(), is_nak: false })
            } else {
                let is_refused_before = std::mem::replace(&mut is_refusing, true);
                (!is_refused_before).then_some(Response { next: accepted.len(), is_nak: true })
            };
            let Some(Response { next, is_nak }) = response else { continue };
            let fate = responses.next().unwrap_or(Fate::Arrives);
            if fate != Fate::LostBeforeCapture {
                let response = if is_nak {
                    link.nak(Client, psn(next))
                } else {
                    let end = link.server.psn;
                    link.server.psn = psn(next);
                    let response = link.ack(Client);
                    link.server.psn = end;
                    response
                };
                frames.extend(response.into_iter().map(|frame| (now + delay_ns, frame)));
            }
            if fate == Fate::Arrives {
                acknowledged = acknowledged.max(next);
                is_nak_received |= is_nak;
            }
        }
        if acknowledged == sent.len() {
            break;
        }
        now += if is_nak_received { 20 * STEP_NS } else { ACK_TIMEOUT_NS };
    }
    assert_eq!((accepted.len(), acknowledged), (sent.len(), sent.len()));
    frames.sort_by_key(|(time, _)| *time);
    Simulation { frames, accepted: ends.into_iter().map(|end| accepted[end]).collect() }
}

/// Returns the Transactions of [`XIDS`], with the time at which the Reply of each was accepted.
fn transactions(simulation: &Simulation) -> Vec<(Transaction, i64)> {
    let mut flow = Flow::new(FlowLimits::default());
    for (number, (time, frame)) in (1..).zip(&simulation.frames) {
        feed(&mut flow, number, *time, frame, usize::MAX);
    }
    flow.finish();
    let mut transactions: Vec<_> = std::iter::from_fn(|| flow.next_transaction()).collect();
    transactions.iter().for_each(whole);
    transactions.retain(|t| XIDS.contains(&t.xid.0));
    transactions.sort_by_key(|t| t.xid.0);
    assert_eq!(transactions.len(), XIDS.len());
    transactions.into_iter().zip(simulation.accepted.iter().copied()).collect()
}

fn is_acknowledged(transaction: &Transaction) -> bool {
    transaction.reply.as_ref().unwrap().delivery_evidence == DeliveryEvidence::Acknowledged
}

fn writes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..4usize, XIDS.len())
}

const ANYWHERE: &[Fate] = &[Fate::LostBeforeCapture, Fate::LostBehindCapture];
const BEFORE_CAPTURE: &[Fate] = &[Fate::LostBeforeCapture];
const BEHIND_CAPTURE: &[Fate] = &[Fate::LostBehindCapture];

proptest! {
    /// Wherever packets are lost, `acknowledged` names the accepted copy.
    #[test]
    fn an_acknowledged_reply_ends_with_the_copy_that_its_receiver_accepted(
        writes in writes(),
        packets in fates(ANYWHERE),
        responses in fates(ANYWHERE),
        delay_ns in prop::sample::select(&[500, 3_500][..]),
    ) {
        for (transaction, accepted) in transactions(&simulate(&writes, packets, responses, delay_ns)) {
            let end = transaction.reply.as_ref().unwrap().end_time.0;
            prop_assert!(!is_acknowledged(&transaction) || end == accepted, "{}", transaction.xid);
        }
    }

    /// The capture point is next to the receiver, and sees all its responses.
    #[test]
    fn every_reply_is_acknowledged_if_nothing_is_lost_between_the_capture_point_and_the_receiver(
        writes in writes(),
        packets in fates(BEFORE_CAPTURE),
        responses in fates(BEHIND_CAPTURE),
        delay_ns in prop::sample::select(&[500, 3_500][..]),
    ) {
        for (transaction, accepted) in transactions(&simulate(&writes, packets, responses, delay_ns)) {
            let end = transaction.reply.as_ref().unwrap().end_time.0;
            prop_assert_eq!((end, is_acknowledged(&transaction)), (accepted, true));
        }
    }

    /// Only acknowledgements are lost, before the capture point: the first copies were accepted, and no time was lost.
    #[test]
    fn lost_acknowledgements_delay_nothing(
        writes in writes(),
        responses in fates(BEFORE_CAPTURE),
        delay_ns in prop::sample::select(&[500, 3_500][..]),
    ) {
        for (transaction, accepted) in transactions(&simulate(&writes, Vec::new(), responses, delay_ns)) {
            prop_assert_eq!(transaction.reply.as_ref().unwrap().end_time.0, accepted);
            prop_assert_eq!(transaction.recovery_ns(), 0);
        }
    }
}
