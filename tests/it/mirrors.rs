//! Mirror ports that deliver each packet twice: at once, or some packets later. Neither bytes nor messages count twice.
//! And captures that are played twice, and virtual networks with the same addresses.

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::{CapturedMessage, ConnectionTransport, RpcMessageKind};
use nfsrdma_dissectors::frame::Timestamp;

use crate::independent_decoder;
use crate::loss_comparison::{ALL, named, run, same};
use crate::mutations::Kept;

/// Returns each frame, and a copy `behind` nanoseconds later.
fn twice(frames: &[Kept], behind: i64) -> Vec<Kept> {
    let again = { frames.iter() }.map(|kept| Kept { time: Timestamp(kept.time.0 + behind), ..kept.clone() });
    let mut order: Vec<_> = frames.iter().cloned().chain(again).collect();
    order.sort_by_key(|kept| kept.time);
    order
}

#[test]
fn packets_that_were_captured_twice_change_nothing() {
    for exhibit in &ALL {
        for behind in [0, 20_000, 200_000, 2_000_000] {
            let said = format!("{}, again {behind} ns later", exhibit.name);
            let outcome = run((1..).zip(&twice(&exhibit.frames, behind)));
            assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
            let found = named(&outcome.transactions, &said);
            assert_eq!(found.len(), exhibit.transactions.len(), "{said}");
            // All frames of connections with RPC; others are ARP, ICMP and the like.
            let few = exhibit.frames.len() as u64 * 9 / 10;
            assert!(outcome.captured_twice >= few, "{said}: {}", outcome.captured_twice);
            for before in &exhibit.transactions {
                assert_eq!(
                    found[&independent_decoder::name(before)].phases(),
                    before.phases(),
                    "{said}: {}",
                    before.xid
                );
                let now = found[&independent_decoder::name(before)];
                same(now, before, false, &said);
                for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                    let counts = |t: &Transaction| {
                        t.message(which)
                            .map(|m| (m.copies, m.retransmissions, m.time, m.end_time, m.delivery_evidence))
                    };
                    assert_eq!(counts(now), counts(before), "{said}: {which:?} of {}", now.xid);
                    let frames = |t: &Transaction| t.message(which).unwrap().frames.len();
                    assert_eq!(frames(now), 2 * frames(before), "{said}: {which:?} of {}", now.xid);
                }
            }
        }
    }
}

/// Later than the lifetime of connections and Transactions: messages are copies if their Transactions are still
/// pending, and undecoded bytes otherwise.
#[test]
fn packets_that_were_captured_again_much_later_invent_nothing() {
    for exhibit in &ALL {
        for behind in [5_000_000, 10_000_000, 100_000_000] {
            let said = format!("{}, again {behind} ns later", exhibit.name);
            let outcome = run((1..).zip(&twice(&exhibit.frames, behind)));
            let found = named(&outcome.transactions, &said);
            assert_eq!(found.len(), exhibit.transactions.len(), "{said}: {:?}", outcome.undecoded);
            for before in &exhibit.transactions {
                same(found[&independent_decoder::name(before)], before, false, &said);
            }
        }
    }
}

/// Formats the visible content of a Transaction, without the numbers of its frames and of its connection.
fn told(transaction: &Transaction) -> String {
    let message = |which| {
        let message = transaction.message(which)?;
        let CapturedMessage {
            copies,
            retransmissions: resent,
            delivery_evidence: delivered,
            length,
            bytes,
            ..
        } = message;
        Some((*copies, *resent, *delivered, *length, bytes.clone()))
    };
    let moved: Vec<u64> = { transaction.read_chunks.iter().chain(&transaction.write_chunks) }
        .chain(&transaction.reply_chunk)
        .map(|chunk| chunk.moved_bytes())
        .collect();
    let Transaction { xid, connection, direction, retry_of, .. } = transaction;
    let ends = (connection.transport, connection.client, connection.server, direction);
    let both = [message(RpcMessageKind::Call), message(RpcMessageKind::Reply)];
    let times = (transaction.latency_ns(), transaction.phases());
    format!("{xid} {ends:?} {retry_of:?} {both:?} {moved:?} {times:?} {:?}", transaction.missing_parts())
}

fn all(transactions: &[Transaction]) -> Vec<String> {
    let mut all: Vec<String> = transactions.iter().map(told).collect();
    all.sort_unstable();
    all
}

fn later(frames: &[Kept], by: i64) -> impl Iterator<Item = Kept> + '_ {
    frames.iter().map(move |kept| Kept { time: Timestamp(kept.time.0 + by), ..kept.clone() })
}

/// Connections established again with the same numbers are distinct: each Transaction comes twice, complete.
#[test]
fn a_capture_that_is_played_twice_has_everything_twice() {
    for exhibit in &ALL {
        let (first, last) = (exhibit.frames[0].time.0, exhibit.frames.last().unwrap().time.0);
        let once = all(&exhibit.transactions);
        let connections = |transactions: &[Transaction]| {
            let rdma = transactions.iter().filter(|t| t.connection.transport != ConnectionTransport::Udp);
            rdma.map(|t| t.connection.number).collect::<std::collections::BTreeSet<_>>().len()
        };
        // One after the other, within the lifetime of a segment and after it, and concatenated, so that the clock goes back.
        let pauses = [3, 100, 121, 86_400].map(|pause| last - first + pause * 1_000_000_000);
        for by in pauses.into_iter().chain([0]) {
            let said = format!("{}, again {by} ns later", exhibit.name);
            let frames: Vec<Kept> =
                exhibit.frames.iter().cloned().chain(later(&exhibit.frames, by)).collect();
            let outcome = run((1..).zip(&frames));
            assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
            assert_eq!(outcome.captured_twice, 0, "{said}");
            let mut twice: Vec<String> = once.iter().chain(&once).cloned().collect();
            twice.sort_unstable();
            assert!(all(&outcome.transactions) == twice, "{said}");
            let numbers = (connections(&outcome.transactions), connections(&exhibit.transactions));
            assert_eq!(numbers.0, 2 * numbers.1, "{said}");
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
    let length = kept.bytes.len() as u16;
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
    for exhibit in &ALL {
        for wrap in [
            |kept: &Kept, tenant: u32, by| tagged(kept, tenant as u16, by),
            |kept: &Kept, tenant: u32, by| tunnelled(kept, tenant, by),
        ] {
            let of = |tenant, by| exhibit.frames.iter().map(move |kept| wrap(kept, tenant, by));
            let alone = |tenant, by| {
                let frames: Vec<Kept> = of(tenant, by).collect();
                all(&run((1..).zip(&frames)).transactions)
            };
            let mut mixed: Vec<Kept> = of(100, 0).chain(of(200, 70_000)).collect();
            mixed.sort_by_key(|kept| kept.time);
            let outcome = run((1..).zip(&mixed));
            let mut apart = [alone(100, 0), alone(200, 70_000)].concat();
            apart.sort_unstable();
            assert_eq!(apart.len(), 2 * exhibit.transactions.len());
            assert!(all(&outcome.transactions) == apart, "{}", exhibit.name);
            assert_eq!(outcome.captured_twice, 0, "{}", exhibit.name);
        }
    }
}
