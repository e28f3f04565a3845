//! Hundreds of connections at once, mixed with other protocols.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::{Flow, FlowLimits};

use crate::independent_decoder;
use crate::loss_comparison::{ALL, Exhibit, named, run, same};
use crate::mutations::Kept;

/// Offsets of the IPv4 addresses after the Ethernet header.
const ADDRESSES: [std::ops::Range<usize>; 2] = [26..30, 30..34];

/// Returns a frame with another client's address.
fn of_client(kept: &Kept, client: [u8; 4], other: [u8; 4]) -> Kept {
    let mut kept = kept.clone();
    for place in ADDRESSES {
        if let Some(address) = kept.bytes.get_mut(place).filter(|address| *address == &client[..]) {
            address.copy_from_slice(&other);
        }
    }
    kept
}

#[test]
fn three_hundred_connections_at_once_are_three_hundred_times_the_transactions() {
    const CROWD: u32 = 300;
    for exhibit in &ALL {
        let range = exhibit.quiet(0, 100);
        let expected = exhibit.within(&range);
        let mut flow = Flow::new(FlowLimits::default());
        let mut transactions = Vec::new();
        let mut number = 0;
        // Each begins a few frames after the one before.
        for step in 0..range.len() + CROWD as usize {
            for one in 0..CROWD as usize {
                let at = step.checked_sub(one).map(|at| range.start + at).filter(|at| range.contains(at));
                let Some(at) = at else { continue };
                let other = [10, 64, (one >> 8) as u8, one as u8];
                let kept = of_client(&exhibit.frames[at], [10, 9, 0, 2], other);
                number += 1;
                flow.process_frame(&Kept { time: Timestamp(number * 1000), ..kept }.frame(number as u64));
                transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
            }
        }
        flow.finish();
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
        assert_eq!(flow.stats().undecoded_counts().count(), 0, "{}", exhibit.name);
        assert_eq!(flow.evicted_counts().count(), 0, "{}", exhibit.name);
        assert_eq!(transactions.len(), CROWD as usize * expected.len(), "{}", exhibit.name);
        let mut clients = std::collections::BTreeMap::<_, Vec<_>>::new();
        for transaction in transactions {
            let ends = [transaction.connection.client.address, transaction.connection.server.address];
            let client = ends.into_iter().find(|end| end.to_string().starts_with("10.64.")).unwrap();
            clients.entry(client).or_default().push(transaction);
        }
        assert_eq!(clients.len(), CROWD as usize, "{}", exhibit.name);
        for (client, transactions) in clients {
            let said = format!("{}, {client}", exhibit.name);
            let mut found: Vec<_> = transactions.iter().map(|t| (t.xid.0, t)).collect();
            let mut before: Vec<_> =
                expected.values().map(|at| &exhibit.transactions[*at]).map(|t| (t.xid.0, t)).collect();
            found.sort_by_key(|(xid, _)| *xid);
            before.sort_by_key(|(xid, _)| *xid);
            assert_eq!(found.len(), before.len(), "{said}");
            for ((_, now), (_, before)) in found.iter().zip(&before) {
                same(now, before, false, &said);
            }
        }
    }
}

/// Generator of pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.next() % most;
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Returns a frame unrelated to NFS.
    fn frame(&mut self) -> Vec<u8> {
        let kind = self.next() % 7;
        let port = 8000 + (self.next() % 5000) as u16;
        let mut random = self.bytes(1200);
        match kind {
            0 => return [[0xff; 12].as_slice(), &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &random].concat(),
            1 => return self.ip(17, port, 53, &random),
            2 => return self.ip(17, port, port ^ 1, &random),
            3 => random.splice(..0, *b"GET / HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n").for_each(drop),
            4 => random.splice(..0, [0x17, 3, 3, 4, 0]).for_each(drop),
            5 => random.splice(..0, *b"HTTP/1.1 200 OK\r\n\r\n").for_each(drop),
            // Any other content that does not look like TLS.
            _ => random.splice(..0, [0x80 | kind as u8]).for_each(drop),
        }
        // On the port of NFS, too; but there TLS would be RPC-over-TLS.
        let any = [80, 443, 2049, 111, 20049, 22][self.next() as usize % 6];
        let service = if kind == 4 { 443 } else { any };
        self.ip(6, port, service, &random)
    }

    fn ip(&mut self, protocol: u8, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
        let header = if protocol == 6 { 20 } else { 8 };
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + header + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 7, 2, 10, 9, 7, 1]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        if protocol == 6 {
            frame.extend((self.next() as u32).to_be_bytes());
            frame.extend((self.next() as u32).to_be_bytes());
            frame.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            frame.extend((8 + payload.len() as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend(payload);
        frame
    }
}

fn amid_noise(exhibit: &Exhibit, seed: u64) {
    let said = format!("{} amid noise {seed}", exhibit.name);
    let mut noise = Noise(seed);
    let mut frames = Vec::new();
    let mut on_nfs_ports = 0;
    for kept in &exhibit.frames {
        for _ in 0..noise.next() % 4 {
            let bytes = noise.frame();
            let service = bytes.get(36..38).map(|port| u16::from_be_bytes([port[0], port[1]]));
            on_nfs_ports += u64::from(matches!(service, Some(2049 | 20049)));
            frames.push(Kept { time: kept.time, link: kept.link, length: bytes.len() as u32, bytes });
        }
        frames.push(kept.clone());
    }
    let outcome = run((1..).zip(&frames));
    let found = named(&outcome.transactions, &said);
    assert_eq!(found.len(), exhibit.transactions.len(), "{said}");
    for before in &exhibit.transactions {
        same(found[&independent_decoder::name(before)], before, false, &said);
    }
    assert_eq!(outcome.given_up, 0, "{said}");
    // On the ports of NFS, unknown content is reported as such.
    let mut undecoded = outcome.undecoded;
    let unknown = undecoded.remove("unknown_stream").unwrap_or(0);
    assert!(undecoded.is_empty(), "{said}: {undecoded:?}");
    assert!(unknown <= on_nfs_ports, "{said}: {unknown} of {on_nfs_ports}");
}

#[test]
fn other_protocols_all_around_change_nothing_and_are_not_counted_as_something() {
    for exhibit in &ALL {
        for seed in 1..4 {
            amid_noise(exhibit, seed);
        }
    }
}

/// The list describes a packet of InfiniBand by its own protocol, not by that of the last TCP segment.
#[test]
fn parts_of_messages_over_roce_are_no_fpdus_beside_iwarp() {
    let iwarp = crate::captures::path("siw-v3");
    let arguments = ["--view", "frames", iwarp.to_str().unwrap()];
    let list = crate::program::output(&crate::captures::path("rxe-v3"), &arguments);
    let of_roce = || list.lines().filter(|line| line.contains("QP="));
    assert!(of_roce().any(|line| line.contains("part of a message (")), "{list}");
    assert_eq!(of_roce().find(|line| line.contains("FPDU")), None);
}
