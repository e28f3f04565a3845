//! Memory of connections: bounded, however many come and go, and however long they live.

use allocation_counter::measure;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::infiniband::OpcodeService;
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_flow::{Flow, FlowLimits};

use crate::loss_comparison::ALL;
use crate::mutations::Kept;

const MIB: u64 = 1 << 20;

/// Offsets of the IPv4 addresses after the Ethernet header.
const ADDRESSES: [std::ops::Range<usize>; 2] = [26..30, 30..34];

/// The client of the captures.
const CLIENT: [u8; 4] = [10, 9, 0, 2];

/// Setup of a connection, its first Call and the Reply, from any number of clients.
struct Connections {
    frames: Vec<Kept>,
    /// Frame index and offset of each client address.
    places: Vec<(usize, std::ops::Range<usize>)>,
    sent: u64,
}

impl Connections {
    fn new(exhibit: usize, is_wanted: impl Fn(&NetworkLayerPayload<'_>) -> bool) -> Self {
        let exhibit = &*ALL[exhibit];
        let first = exhibit.transactions.iter().find(|t| t.connection.transport.is_rdma()).unwrap();
        let messages = [first.call.as_ref().unwrap(), first.reply.as_ref().unwrap()];
        let is_message = |number: u64| messages.iter().any(|message| message.frames[0].0 == number);
        let last = messages[1].frames[0].0 as usize;
        let frames: Vec<_> = exhibit
            .numbered(0..last)
            .filter(|(number, kept)| {
                is_message(*number) || is_wanted(&net::decode(&kept.frame(1), &mut NullFieldObserver).payload)
            })
            .map(|(_, kept)| kept.clone())
            .collect();
        let places = { frames.iter().enumerate() }
            .flat_map(|(at, kept)| ADDRESSES.into_iter().map(move |place| (at, kept, place)))
            .filter(|(_, kept, place)| kept.bytes[place.clone()] == CLIENT)
            .map(|(at, _, place)| (at, place))
            .collect();
        Self { frames, places, sent: 0 }
    }

    /// Replays it for `count` more clients, and returns the number of Transactions.
    fn run(&mut self, count: u32, flow: &mut Flow) -> u64 {
        let mut transactions = 0;
        for _ in 0..count {
            let client = (0x0b00_0000 + (self.sent / self.frames.len() as u64) as u32).to_be_bytes();
            for (at, place) in &self.places {
                replace_address(&mut self.frames[*at].bytes, place.clone(), client);
            }
            for kept in &mut self.frames {
                self.sent += 1;
                kept.time = Timestamp(self.sent as i64 * 10_000);
                flow.process_frame(&kept.frame(self.sent));
            }
            transactions += std::iter::from_fn(|| flow.next_transaction()).count() as u64;
        }
        transactions
    }
}

/// Replaces an address of a frame, and corrects the checksum of its TCP segment: RFC 1624 section 3.
fn replace_address(bytes: &mut [u8], place: std::ops::Range<usize>, new: [u8; 4]) {
    const TCP: u8 = 6;
    let words = |bytes: &[u8]| [0, 2].map(|at| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])));
    let old = words(&bytes[place.clone()]);
    bytes[place].copy_from_slice(&new);
    let checksum = 14 + usize::from(bytes[14] & 15) * 4 + 16;
    if bytes[23] == TCP {
        let sum = !u16::from_be_bytes([bytes[checksum], bytes[checksum + 1]]);
        let mut sum =
            u32::from(sum) + words(&new).iter().sum::<u32>() + old.map(|word| 0xffff - word).iter().sum::<u32>();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[checksum..checksum + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// After the limits are reached, more connections take no more memory.
fn stays_flat(mut connections: Connections) {
    let (some, more) = (60_000, 140_000);
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = 0;
    let first = measure(|| transactions += connections.run(some, &mut flow));
    let rest = measure(|| transactions += connections.run(more, &mut flow));
    flow.finish();
    transactions += std::iter::from_fn(|| flow.next_transaction()).count() as u64;
    assert_eq!(transactions, u64::from(some + more));
    assert_eq!(flow.stats().undecoded_counts().count(), 0);
    assert!(first.bytes_max < 136 * MIB, "{first:?}");
    // Tables grow to twice their size once in a while.
    assert!(rest.bytes_max < 16 * MIB, "{rest:?}");
}

#[test]
fn any_number_of_connections_of_rocev2_takes_a_bounded_amount_of_memory() {
    stays_flat(Connections::new(
        0,
        |carried| matches!(carried, NetworkLayerPayload::Infiniband(packet) if packet.properties.service == OpcodeService::Ud),
    ));
}

#[test]
fn any_number_of_connections_of_iwarp_takes_a_bounded_amount_of_memory() {
    stays_flat(Connections::new(
        4,
        |carried| matches!(carried, NetworkLayerPayload::Tcp(segment) if segment.payload.bytes.starts_with(b"MPA ID")),
    ));
}

/// Returns `true` if a packet belongs to the main connection of the capture, and not to MOUNT, NLM or PORTMAP.
fn is_of_nfs(kept: &Kept) -> bool {
    match net::decode(&kept.frame(1), &mut NullFieldObserver).payload {
        NetworkLayerPayload::Infiniband(_) => true,
        NetworkLayerPayload::Tcp(tcp) => {
            [tcp.source_port, tcp.destination_port].iter().any(|port| matches!(port.0, 2049 | 20049))
        }
        _ => false,
    }
}

/// With the default limits, connections that were all used for long take less than half a gigabyte.
#[test]
fn a_connection_in_long_use_takes_a_few_tens_of_kilobytes() {
    for exhibit in [1, 3, 4].map(|at| &*ALL[at]) {
        let count = 40;
        let mut flow = Flow::new(FlowLimits::default());
        let mut number = 0;
        let mut use_one = |flow: &mut Flow, one: u8| {
            for kept in exhibit.frames.iter().filter(|kept| is_of_nfs(kept)) {
                let mut kept = kept.clone();
                for place in ADDRESSES {
                    if kept.bytes.get(place.clone()) == Some(&CLIENT[..]) {
                        kept.bytes[place.end - 1] = 100 + one;
                    }
                }
                kept.seal();
                number += 1;
                flow.process_frame(&Kept { time: Timestamp(number * 10_000), ..kept }.frame(number as u64));
                while flow.next_transaction().is_some() {}
            }
            // The wait for duplicates is over.
            number += 1_000_000;
            let arp = [[0xff; 12].as_slice(), &[8, 6], &[0; 46]].concat();
            let link = exhibit.frames[0].link;
            let kept = Kept { time: Timestamp(number * 10_000), link, length: arp.len() as u32, bytes: arp };
            flow.process_frame(&kept.frame(number as u64));
            while flow.next_transaction().is_some() {}
        };
        use_one(&mut flow, 0);
        let info = measure(|| (1..=count).for_each(|one| use_one(&mut flow, one)));
        let each = info.bytes_current / i64::from(count);
        let most = each * FlowLimits::default().connections as i64;
        println!("{}: {each} bytes", exhibit.name);
        assert!(most < 512 * MIB as i64, "{}: {most} bytes", exhibit.name);
    }
}
