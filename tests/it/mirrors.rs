//! Mirror ports that deliver each packet twice: at once, or some packets later. Neither bytes nor messages count twice.
//! And captures that are played twice, and virtual networks with the same addresses.

use std::collections::BTreeSet;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CapturedMessage, ConnectionTransport, RpcMessageKind};

use crate::captures;
use crate::independent_decoder;
use crate::loss_comparison::{ALL, Outcome, ROCE, run, same};
use crate::mutations::{Kept, frames};

/// Capture with the result of its analysis.
struct Original {
    name: &'static str,
    frames: Vec<Kept>,
    outcome: Outcome,
}

impl Original {
    fn new(name: &'static str) -> Self {
        let frames = frames(name);
        let outcome = run((1..).zip(&frames));
        Self { name, frames, outcome }
    }
}

/// Returns every capture in turn.
fn every_capture() -> impl Iterator<Item = Original> {
    captures::ALL.into_iter().map(Original::new)
}

/// Returns each frame, and a copy `behind` nanoseconds later.
fn twice(frames: &[Kept], behind: i64) -> Vec<Kept> {
    let again = { frames.iter() }.map(|kept| Kept { time: Timestamp(kept.time.0 + behind), ..kept.clone() });
    let mut order: Vec<_> = frames.iter().cloned().chain(again).collect();
    order.sort_by_key(|kept| kept.time);
    order
}

/// Returns the Transactions in an order that does not depend on copies: those of each caller by XID, then by time.
fn sorted(transactions: &[Transaction]) -> Vec<&Transaction> {
    let mut sorted: Vec<_> = transactions.iter().collect();
    sorted.sort_by_key(|transaction| {
        let times = [RpcMessageKind::Call, RpcMessageKind::Reply].map(|w| transaction.message(w).map(|m| m.time));
        (independent_decoder::name(transaction), times)
    });
    sorted
}

/// Verifies that frames captured twice have the result of frames captured once, and that no copy counts otherwise.
fn equals_one_capture(now: &Outcome, before: &Outcome, said: &str) {
    assert_eq!(now.given_up, before.given_up, "{said}");
    assert_eq!(now.transactions.len(), before.transactions.len(), "{said}");
    for (now, before) in sorted(&now.transactions).into_iter().zip(sorted(&before.transactions)) {
        let said = format!("{said}: {}", before.xid);
        assert_eq!(now.phases(), before.phases(), "{said}");
        same(now, before, false, &said);
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let counts = |t: &Transaction| {
                t.message(which).map(|m| (m.copies, m.retransmissions, m.time, m.end_time, m.delivery_evidence))
            };
            assert_eq!(counts(now), counts(before), "{said}: {which:?}");
        }
    }
}

#[test]
fn packets_that_were_captured_twice_change_nothing() {
    for Original { name, frames, outcome: before } in every_capture() {
        assert_eq!(before.captured_twice, 0, "{name}");
        // All frames of connections with RPC; others are ARP, ICMP and the like.
        let few = frames.iter().filter(|kept| !is_refused(kept)).count() as u64 * 9 / 10;
        for behind in [0, 20_000, 200_000, 2_000_000] {
            let said = format!("{name}, again {behind} ns later");
            let now = run((1..).zip(&twice(&frames, behind)));
            equals_one_capture(&now, &before, &said);
            assert_eq!(now.undecoded, before.undecoded, "{said}");
            assert!(now.captured_twice >= few, "{said}: {}", now.captured_twice);
            for (now, before) in sorted(&now.transactions).into_iter().zip(sorted(&before.transactions)) {
                for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                    let frames = |t: &Transaction| t.message(which).map_or(0, |message| message.frames.len());
                    assert_eq!(frames(now), 2 * frames(before), "{said}: {which:?} of {}", now.xid);
                }
            }
        }
    }
}

/// At once: senders without IPv4 identifications retransmit packets that are equal to copies.
#[test]
fn packets_of_other_captures_that_were_captured_twice_change_nothing() {
    for Original { name, frames, outcome: before } in captures::more().into_iter().map(Original::new) {
        equals_one_capture(&run((1..).zip(&twice(&frames, 0))), &before, name);
    }
}

/// Returns `true` for a frame of a connection to the port of `siw-v40-errors` that nothing listens on.
fn is_refused(kept: &Kept) -> bool {
    const PORT: [u8; 2] = 20050_u16.to_be_bytes();
    // Ports of TCP behind Ethernet and IPv4.
    kept.bytes.get(34..36) == Some(&PORT) || kept.bytes.get(36..38) == Some(&PORT)
}

/// The snap length cuts most headers of RPC-over-RDMA. A copy of a frame that cannot be decoded counts once, too.
#[test]
fn cut_packets_that_were_captured_twice_change_nothing() {
    for Original { name, frames, .. } in every_capture() {
        let cut = |kept: &Kept| Kept { bytes: kept.bytes[..kept.bytes.len().min(96)].to_vec(), ..kept.clone() };
        let frames: Vec<Kept> = frames.iter().map(cut).collect();
        let before = run((1..).zip(&frames));
        let now = run((1..).zip(&twice(&frames, 200_000)));
        equals_one_capture(&now, &before, &format!("{name}, cut"));
        assert_eq!(now.undecoded, before.undecoded, "{name}, cut");
    }
}

/// Later than the lifetime of connections and Transactions: messages are copies if their Transactions are still
/// pending, and undecoded bytes otherwise.
#[test]
fn packets_captured_again_much_later_add_no_transaction() {
    for Original { name, frames, outcome: before } in every_capture() {
        for behind in [5_000_000, 10_000_000, 100_000_000] {
            let said = format!("{name}, again {behind} ns later");
            let now = run((1..).zip(&twice(&frames, behind)));
            assert_eq!(now.transactions.len(), before.transactions.len(), "{said}: {:?}", now.undecoded);
            for (now, before) in sorted(&now.transactions).into_iter().zip(sorted(&before.transactions)) {
                same(now, before, false, &said);
            }
        }
    }
}

/// Formats the visible content of a Transaction, without the numbers of its frames and of its connection.
fn printed(transaction: &Transaction) -> String {
    let message = |which| {
        let message = transaction.message(which)?;
        let CapturedMessage { copies, retransmissions: resent, delivery_evidence: delivered, length, bytes, .. } =
            message;
        Some((*copies, *resent, *delivered, *length, bytes.clone()))
    };
    let moved: Vec<u64> = { transaction.read_chunks.iter().chain(&transaction.write_chunks) }
        .chain(&transaction.reply_chunk)
        .map(|chunk| chunk.moved_bytes())
        .collect();
    let Transaction { xid, connection, direction, .. } = transaction;
    // A Call without a Reply is sent again by the next connection that has it; answered ones are new.
    let retry_of = transaction.retry_of.filter(|_| transaction.reply.is_some());
    let ends = (connection.transport, connection.client, connection.server, direction);
    let both = [message(RpcMessageKind::Call), message(RpcMessageKind::Reply)];
    let times = (transaction.latency_ns(), transaction.phases());
    format!("{xid} {ends:?} {retry_of:?} {both:?} {moved:?} {times:?} {:?}", transaction.missing_parts())
}

fn all(transactions: &[Transaction]) -> Vec<String> {
    let mut all: Vec<String> = transactions.iter().map(printed).collect();
    all.sort_unstable();
    all
}

/// Returns the connections of Transactions, except those over UDP.
fn connections(transactions: &[Transaction]) -> usize {
    let rdma = transactions.iter().filter(|t| t.connection.transport != ConnectionTransport::Udp);
    rdma.map(|t| t.connection.number).collect::<BTreeSet<_>>().len()
}

/// Checks that all of a capture's Transactions came twice, complete and on connections of their own.
#[track_caller]
fn expect_twice(outcome: &Outcome, once: &[Transaction], said: &str) {
    assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
    assert_eq!(outcome.captured_twice, 0, "{said}");
    let mut twice = [all(once), all(once)].concat();
    twice.sort_unstable();
    assert!(all(&outcome.transactions) == twice, "{said}");
    assert_eq!(connections(&outcome.transactions), 2 * connections(once), "{said}");
}

fn later(frames: &[Kept], by: i64) -> impl Iterator<Item = Kept> + '_ {
    frames.iter().map(move |kept| Kept { time: Timestamp(kept.time.0 + by), ..kept.clone() })
}

/// Connections established again with the same numbers are distinct: each Transaction comes twice.
#[test]
fn a_capture_that_is_played_twice_has_everything_twice() {
    for Original { name, frames, outcome: before } in every_capture() {
        // Without the set-up of a connection, packets with the same numbers are copies.
        if name.contains("-mid") {
            continue;
        }
        let (first, last) = (frames[0].time.0, frames.last().unwrap().time.0);
        let once = all(&before.transactions);
        let undecoded = { before.undecoded.iter() }.map(|(why, count)| (*why, 2 * count)).collect();
        // One after the other, within the lifetime of a segment and after it, and concatenated, so that the clock goes
        // back.
        let pauses = [3, 100, 121, 86_400].map(|pause| last - first + pause * 1_000_000_000);
        for by in pauses.into_iter().chain([0]) {
            let said = format!("{name}, again {by} ns later");
            let frames: Vec<Kept> = frames.iter().cloned().chain(later(&frames, by)).collect();
            let outcome = run((1..).zip(&frames));
            assert_eq!(outcome.undecoded, undecoded, "{said}");
            assert_eq!(outcome.captured_twice, 0, "{said}");
            let mut twice: Vec<String> = once.iter().chain(&once).cloned().collect();
            twice.sort_unstable();
            assert!(all(&outcome.transactions) == twice, "{said}");
            let numbers = (connections(&outcome.transactions), connections(&before.transactions));
            assert_eq!(numbers.0, 2 * numbers.1, "{said}");
        }
    }
}

/// Offset of the BTH in a frame of RoCEv2 over IPv4.
const BTH: usize = 14 + 20 + 8;
/// BTH opcode of a Send of Unreliable Datagram, which carries the messages of the connection manager.
const UD_SEND: u8 = 0x64;
/// Messages of the connection manager by attribute ID. InfiniBand Architecture Specification volume 1, section 16.7.2.
const REQ: u16 = 0x10;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;

/// Returns `true` for a packet of RoCEv2 over IPv4.
fn is_roce(kept: &Kept) -> bool {
    kept.bytes[12..14] == [0x08, 0x00] && kept.bytes[23] == 17 && kept.bytes[36..38] == 4791_u16.to_be_bytes()
}

/// Returns the attribute ID of a message of the connection manager.
fn cm_message(kept: &Kept) -> Option<u16> {
    let is_message = is_roce(kept) && kept.bytes[BTH] == UD_SEND;
    is_message.then(|| u16::from_be_bytes([kept.bytes[BTH + 12 + 8 + 16], kept.bytes[BTH + 12 + 8 + 17]]))
}

/// Adds to the PSN of a packet, unless it is one of the connection manager.
fn with_other_psn(mut kept: Kept, distance: u32) -> Kept {
    if is_roce(&kept) && kept.bytes[BTH] != UD_SEND {
        let psn = &mut kept.bytes[BTH + 8..BTH + 12];
        let word = u32::from_be_bytes(psn.try_into().unwrap());
        let shifted = word & 0xff00_0000 | word.wrapping_add(distance) & 0x00ff_ffff;
        psn.copy_from_slice(&shifted.to_be_bytes());
    }
    kept
}

/// One captured message of the set-up, or the DREQ of the connection before, shows that a connection on the same queue
/// pairs is another one, with the same or other sequence numbers.
#[test]
fn a_capture_that_is_played_again_without_parts_of_its_set_up_has_everything_twice() {
    let lost: [(&[u16], &[u16]); 8] = [
        (&[], &[REQ]),
        (&[], &[REP]),
        (&[], &[RTU]),
        (&[], &[REQ, REP]),
        (&[], &[REP, RTU]),
        (&[], &[REQ, REP, RTU]),
        (&[DREP], &[REQ, REP, RTU, DREQ, DREP]),
        (&[DREQ, DREP], &[REP, RTU]),
    ];
    for exhibit in ROCE.map(|at| &*ALL[at]) {
        let (first, last) = (exhibit.frames[0].time.0, exhibit.frames.last().unwrap().time.0);
        let soon = last - first + 10_000_000;
        // 300 packets are fewer than the capture has.
        for (by, psns) in [(soon, 0), (soon, 300), (soon, 5_000_000), (soon + 60_000_000_000, 0), (0, 0)] {
            for (lost_before, lost_after) in lost {
                let said = format!(
                    "{}, again {by} ns later, PSNs + {psns}, without {lost_before:x?} and {lost_after:x?}",
                    exhibit.name
                );
                let is_lost = |kept: &Kept, lost: &[u16]| cm_message(kept).is_some_and(|it| lost.contains(&it));
                let before = exhibit.frames.iter().filter(|kept| !is_lost(kept, lost_before)).cloned();
                let after = later(&exhibit.frames, by).filter(|kept| !is_lost(kept, lost_after));
                let after = after.map(|kept| with_other_psn(kept, psns));
                let frames: Vec<Kept> = before.chain(after).collect();
                expect_twice(&run((1..).zip(&frames)), &exhibit.transactions, &said);
            }
        }
    }
}

/// Returns an Ethernet frame in a VLAN.
fn tagged(kept: &Kept, vlan: u16, by: i64) -> Kept {
    let [high, low] = vlan.to_be_bytes();
    let (ends, rest) = kept.bytes.split_at(12);
    let bytes = [ends, &[0x81, 0x00, high, low], rest].concat();
    Kept { time: Timestamp(kept.time.0 + by), bytes, length: kept.length + 4, ..kept.clone() }
}

/// Returns an Ethernet frame in VXLAN between two other hosts.
fn tunnelled(kept: &Kept, vni: u32, by: i64) -> Kept {
    let length = kept.length as u16;
    let vxlan = [&[0x08, 0, 0, 0][..], &(vni << 8).to_be_bytes()].concat();
    let udp = [[0xc0, 0x00], 4789_u16.to_be_bytes(), (16 + length).to_be_bytes(), [0, 0]].concat();
    let mut ip = vec![0x45, 0];
    ip.extend((36 + length).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let ethernet = [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x08, 0x00];
    let bytes = [&ethernet[..], &ip, &udp, &vxlan, &kept.bytes].concat();
    Kept { time: Timestamp(kept.time.0 + by), bytes, length: kept.length + 50, ..kept.clone() }
}

/// Tenants with the same addresses, ports, queue pairs and XIDs, at the same time.
#[test]
fn virtual_networks_with_the_same_addresses_do_not_mix() {
    let others = captures::more().into_iter().map(Original::new);
    for Original { name, frames, outcome: before } in every_capture().chain(others) {
        for wrap in [
            |kept: &Kept, tenant: u32, by| tagged(kept, tenant as u16, by),
            |kept: &Kept, tenant: u32, by| tunnelled(kept, tenant, by),
        ] {
            let of = |tenant, by| frames.iter().map(move |kept| wrap(kept, tenant, by));
            let alone = |tenant, by| {
                let frames: Vec<Kept> = of(tenant, by).collect();
                all(&run((1..).zip(&frames)).transactions)
            };
            let mut mixed: Vec<Kept> = of(100, 0).chain(of(200, 70_000)).collect();
            mixed.sort_by_key(|kept| kept.time);
            let outcome = run((1..).zip(&mixed));
            let mut apart = [alone(100, 0), alone(200, 70_000)].concat();
            apart.sort_unstable();
            assert_eq!(apart.len(), 2 * before.transactions.len(), "{name}");
            let mut mixed = all(&outcome.transactions);
            // With frames of the other tenant, a Transaction is emitted before an acknowledgement that comes seconds
            // later.
            if !captures::ALL.contains(&name) {
                for lines in [&mut mixed, &mut apart] {
                    lines.iter_mut().for_each(|one| *one = one.replace("Acknowledged", "Assumed"));
                    lines.sort_unstable();
                }
            }
            assert!(mixed == apart, "{name}");
            assert_eq!(outcome.captured_twice, 0, "{name}");
        }
    }
}

/// An access port and a trunk show each session twice: a slot that is in use in one is not busy in the other.
#[test]
fn sessions_of_an_access_port_and_a_trunk_are_apart() {
    let access = frames("tcp-v42");
    // More than the time between a Reply and the next Call.
    let trunk = access.iter().map(|kept| tagged(kept, 20, 700_000));
    let mut both: Vec<Kept> = access.iter().cloned().chain(trunk).collect();
    both.sort_by_key(|kept| kept.time);
    let file = captures::Temporary::new("access-and-trunk.pcap", &crate::tunnels::pcap(&both));
    let transactions = crate::program::json(file.path()).transactions;
    assert_eq!(transactions.len(), 474);
    for one in &transactions {
        assert_eq!(one.0["findings"], serde_json::json!([]), "{}", one.0);
    }
}
