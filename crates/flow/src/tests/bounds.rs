//! Memory limits: a capture of any length and content uses a fixed amount of memory.

use nfsrdma_dissectors::rpcrdma::RdmaBody;

use super::*;
use crate::chunk::ChunkSegment;

/// Sizes of all tables and buffers at one moment.
#[derive(Debug, PartialEq)]
struct Sizes {
    connections: usize,
    part_bytes: usize,
    entries: usize,
    calls: usize,
    handles: usize,
    retries: usize,
    set_ups: usize,
}

impl Flow {
    fn sizes(&self) -> Sizes {
        let (connections, part_bytes) = self.connections.size();
        assert_eq!(part_bytes, self.partial_message_bytes);
        let all = self.connections.all_slots().into_iter().filter_map(|at| self.connections.get(at));
        let exchanges = all.map(|connection| connection.conversation.size());
        let (calls, handles) = exchanges.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Sizes {
            connections,
            part_bytes,
            entries: self.transaction_table.size(),
            calls,
            handles,
            retries: self.retries.size(),
            set_ups: self.set_ups.size(),
        }
    }
}

const LIMITS: FlowLimits = FlowLimits {
    pool_bytes: usize::MAX,
    table_bytes: usize::MAX,
    connections: 500,
    open_transactions: 300,
    call_age_ns: None,
    lingering_transactions: 200,
    set_ups: 100,
    message_bytes: 64 << 20,
    streams: 8,
    gap_bytes: 64 << 10,
    stream_bytes: 256 << 10,
    partial_message_bytes: 100_000,
    fragments: ip_reassembly::IpReassemblyLimits {
        datagrams: 10,
        bytes: 10_000,
        fragments: 10,
        max_age_ns: 1_000_000_000,
    },
    reorder_bytes: 64 << 10,
    chunk_content_bytes: 10_000,
    record_transaction_frames: false,
    record_transport_events: false,
    name_open_transactions: true,
    report_closed_connections: false,
    emit_on_acknowledgment: false,
    dialect: None,
    keep_file_data: true,
    check_icrc: false,
};

/// Feeds the frames that `next` makes from their numbers, checks the sizes periodically, and returns the
/// number of Transactions.
fn feed_all(count: u64, mut next: impl FnMut(u64) -> Vec<u8>) -> (Flow, u64) {
    let mut flow = Flow::new(LIMITS);
    let mut transactions = 0;
    for number in 1..=count {
        feed(&mut flow, number, number as i64 * 1000, &next(number), usize::MAX);
        transactions += std::iter::from_fn(|| flow.next_transaction()).count() as u64;
        if number % (count / 20) == 0 {
            let sizes = flow.sizes();
            let alive = LIMITS.open_transactions + LIMITS.lingering_transactions + 1;
            assert!(sizes.connections <= LIMITS.connections, "{sizes:?}");
            assert!(sizes.part_bytes <= LIMITS.partial_message_bytes, "{sizes:?}");
            assert!(sizes.entries <= 2 * alive + 1024, "{sizes:?}");
            assert!(sizes.calls <= alive && sizes.handles <= 4 * alive, "{sizes:?}");
            assert!(sizes.retries <= alive + LIMITS.open_transactions, "{sizes:?}");
            assert!(sizes.set_ups <= LIMITS.set_ups, "{sizes:?}");
        }
    }
    flow.finish();
    transactions += std::iter::from_fn(|| flow.next_transaction()).count() as u64;
    (flow, transactions)
}

fn given_up(flow: &Flow) -> Vec<(EvictedState, u64)> {
    flow.evicted_counts().collect()
}

/// Ranges of the source address, the queue pair and the sequence number in a frame over IPv4.
const SOURCE: std::ops::Range<usize> = 26..30;
const QPN: std::ops::Range<usize> = 47..50;
const PSN: std::ops::Range<usize> = 51..54;

fn put(frame: &mut [u8], place: std::ops::Range<usize>, value: u64) {
    let bytes = value.to_be_bytes();
    let length = place.len();
    frame[place].copy_from_slice(&bytes[8 - length..]);
}

/// Sets the XID in the header and in the RPC message after empty lists.
fn put_xid(frame: &mut [u8], xid: u64) {
    put(frame, 54..58, xid);
    put(frame, 54 + 28..54 + 32, xid);
}

#[test]
fn a_hundred_thousand_connections_with_a_call_each_take_as_much_as_a_thousand() {
    for (same_addresses, count) in [(false, 100_000), (true, 10_000)] {
        let template = Link::new(17).send(Client, &getattr_call(7)).remove(0);
        let (flow, transactions) = feed_all(count, |number| {
            let mut frame = template.clone();
            if !same_addresses {
                put(&mut frame, SOURCE, number);
            }
            put(&mut frame, QPN, number);
            put_xid(&mut frame, number);
            frame
        });
        assert_eq!(transactions, count);
        let given_up = given_up(&flow);
        assert!(given_up.iter().any(|(what, _)| *what == EvictedState::Connection), "{given_up:?}");
    }
}

#[test]
fn a_hundred_thousand_calls_without_replies_take_as_much_as_a_thousand() {
    let segments = [memory(1, 0, 10), memory(1, 10, 10), memory(2, 0, 10), memory(3, 0, 10)];
    let template = Link::new(17).send(Client, &read_call(7, 40).write(&segments)).remove(0);
    // After the header words and the Write list: four segments of 16 bytes each, and the RPC message.
    let lists = 54 + 16 + 4 + 8;
    let (flow, transactions) = feed_all(100_000, |number| {
        let mut frame = template.clone();
        put(&mut frame, PSN, number);
        put(&mut frame, 54..58, number);
        put(&mut frame, lists + 64 + 8..lists + 64 + 12, number);
        for segment in 0..4 {
            put(&mut frame, lists + 16 * segment..lists + 16 * segment + 4, number);
        }
        frame
    });
    assert_eq!(transactions, 100_000);
    assert_eq!(given_up(&flow), [(EvictedState::OpenTransaction, 100_000 - 300)]);
}

#[test]
fn messages_that_never_end_are_given_up() {
    let call = write_call_inline(7, &data(3000));
    let parts = Link::new(17).send(Client, &call);
    let (flow, transactions) = feed_all(50_000, |number| {
        // First and Middle of each, then the next connection, and later the same again.
        let mut frame = parts[(number % 2) as usize].clone();
        put(&mut frame, QPN, 17 + number / 2 % 700);
        put(&mut frame, PSN, number);
        frame
    });
    assert!(transactions <= 25_000, "{transactions}");
    let given_up = given_up(&flow);
    assert!(given_up.iter().any(|(what, _)| *what == EvictedState::MessageParts), "{given_up:?}");
}

#[test]
fn a_message_of_any_length_holds_a_bounded_part_of_itself() {
    let mut link = Link::new(17);
    let parts = link.send_bytes(Client, &data(3 * 1024));
    let (flow, transactions) = feed_all(20_000, |number| {
        let mut frame = parts[usize::from(number > 1)].clone();
        put(&mut frame, PSN, number);
        frame
    });
    assert_eq!(transactions, 0);
    assert!(flow.stats().undecoded_counts().any(|(reason, _)| reason == UndecodedReason::MessagePart));
}

#[test]
fn of_the_copies_of_a_message_a_bounded_number_is_listed() {
    let frame = Link::new(17).send(Client, &getattr_call(7)).remove(0);
    let mut flow = Flow::new(LIMITS);
    for number in 1..=10_000 {
        feed(&mut flow, number, 0, &frame, usize::MAX);
    }
    flow.finish();
    let call = flow.next_transaction().unwrap().call.unwrap();
    assert_eq!((call.frames.len(), call.copies), (4096, 10_000));
    assert_eq!(given_up(&flow), [(EvictedState::Copy, 10_000 - 4096)]);
}

#[test]
fn only_unanswered_set_ups_are_evicted() {
    let links = |count: u32| (0..count).map(|name| (Link::new(17).qpns(name, name + 5000), name));
    let requests: Frames = links(150).flat_map(|(link, name)| link.connect(name)[..1].to_vec()).collect();
    let outcome = run_within(LIMITS, &requests, |_| usize::MAX);
    assert_eq!(given_up(&outcome.flow), [(EvictedState::SetUp, 50)]);
    let answered: Frames = links(150).flat_map(|(link, name)| link.connect(name)).collect();
    let outcome = run_within(LIMITS, &answered, |_| usize::MAX);
    assert_eq!(given_up(&outcome.flow), []);
}

#[test]
fn stored_bytes_of_chunks_stay_within_their_limit() {
    let sink = memory(0xc1, 0, 0xffff_0000);
    let long_reply = |length: usize, skip: u32| {
        let mut link = Link::new(17);
        let whole = read_reply_inline(7, &data(length));
        let returned = sink.of(skip + whole.body.len() as u32);
        let frames = [
            link.send(Client, &read_call(7, length as u32).reply(&[sink])),
            link.write(Server, sink.from(skip), &whole.body),
            link.send(Server, &whole.clone().nomsg().reply(&[returned])),
        ]
        .concat();
        run_within(LIMITS, &frames, |_| usize::MAX)
    };
    let outcome = long_reply(12_000, 0);
    assert_eq!(given_up(&outcome.flow), [(EvictedState::KeptChunk, 1)]);
    // The bytes moved; only their content is unknown.
    assert!(outcome.lines()[0].contains(" 7 READ - call 1 "), "{:?}", outcome.lines());
    assert_eq!(outcome.transactions[0].missing_parts(), []);

    // A few bytes far from the start use no more memory than they are.
    let outcome = long_reply(100, 0xfff0_0000);
    assert_eq!(given_up(&outcome.flow), []);
    assert!(outcome.lines()[0].ends_with("missing replychunk:0-4293918719"), "{:?}", outcome.lines());
}

#[test]
fn thousands_of_segments_of_one_handle_take_no_more_time_than_others() {
    let mut link = Link::new(17);
    let segments: Vec<_> = (0..10_000).map(|at| memory(0xb1, at * 10, 8)).collect();
    let mut frames = link.send(Client, &read_call(7, 80_000).write(&segments));
    for segment in segments.iter().step_by(100) {
        frames.extend(link.write(Server, *segment, &data(8)));
    }
    frames.extend(link.send(Server, &read_reply(7, 80_000).write(&segments)));
    let outcome = run_within(FlowLimits::default(), &frames, |_| usize::MAX);
    assert_eq!(outcome.transactions.len(), 1);
    assert_eq!(outcome.transactions[0].write_chunks[0].moved_bytes(), 800);
}

/// Memory of the segments of the pending Calls, by their number alone.
fn waiting_segment_bytes(flow: &Flow) -> usize {
    let chunks = flow.pending_calls().flat_map(|call| call.to_transaction().write_chunks);
    chunks.map(|chunk| chunk.segments.len() * size_of::<ChunkSegment>()).sum()
}

#[test]
fn segments_of_chunk_lists_count_for_the_memory_of_transactions() {
    let limits = FlowLimits { message_bytes: 1 << 20, open_transactions: 10_000, ..LIMITS };
    let mut flow = Flow::new(limits);
    let mut link = Link::new(17);
    let segments: Vec<_> = (0..100).map(|at| memory(at as u32, at * 10, 8)).collect();
    // Many small Calls first: each of the large ones that follow must evict more than one of them.
    let calls = (0..500).map(getattr_call);
    let calls = calls.chain((500..1000).map(|xid| read_call(xid, 800).write(&segments)));
    let mut most_bytes = 0;
    let frames = calls.flat_map(|call| link.send(Client, &call)).collect::<Vec<_>>();
    for (number, frame) in (1..).zip(frames) {
        feed(&mut flow, number, number as i64, &frame, usize::MAX);
        most_bytes = most_bytes.max(waiting_segment_bytes(&flow));
    }
    assert!((200_000..1 << 20).contains(&most_bytes), "{most_bytes} bytes");
    let waiting = flow.pending_calls().count();
    assert_eq!(given_up(&flow), [(EvictedState::OpenTransaction, 1000 - waiting as u64)]);
}

#[test]
fn ranges_beyond_the_memory_are_counted_and_known_ones_grow() {
    let limits = FlowLimits { message_bytes: 64 << 10, ..LIMITS };
    let mut link = Link::new(17);
    let sink = memory(0xb1, 0, 1 << 20);
    let mut frames = link.send(Client, &read_call(7, 1 << 20).write(&[sink]));
    for at in 0..10_000 {
        frames.extend(link.write(Server, sink.from(at * 64), &data(8)));
    }
    // Bytes adjacent to a known range need no memory.
    frames.extend(link.write(Server, sink.from(8), &data(8)));
    let outcome = run_within(FlowLimits { keep_file_data: false, ..limits }, &frames, |_| usize::MAX);
    let [(EvictedState::MovedRange, lost)] = given_up(&outcome.flow)[..] else { panic!("{:?}", outcome.lines()) };
    assert_eq!(outcome.transactions[0].write_chunks[0].moved_bytes(), (10_001 - lost) * 8);
    let remembered = (10_000 - lost) * 32;
    assert!((32_000..64 << 10).contains(&remembered), "{remembered} bytes");
}

#[test]
fn state_for_the_recognition_of_copies_counts_as_connection_memory() {
    let limits = FlowLimits { table_bytes: 256 << 10, ..LIMITS };
    let mut flow = Flow::new(limits);
    let mut number = 0;
    // Each connection has a few Calls, and records them to recognize their copies.
    for qpn in 0..300 {
        let mut link = Link::new(17).qpns(1000 + qpn, 5000 + qpn);
        for xid in 0..20 {
            number += 1;
            let frame = link.send(Client, &getattr_call(qpn << 8 | xid)).remove(0);
            feed(&mut flow, number, number as i64, &frame, usize::MAX);
        }
    }
    let (connections, _) = flow.connections.size();
    assert!((20..200).contains(&connections), "{connections} connections");
    assert!(given_up(&flow).iter().any(|(what, _)| *what == EvictedState::Connection));
}

#[test]
fn bytes_that_arrive_in_thousands_of_pieces_are_counted() {
    let mut coverage = ByteRangeSet::default();
    for at in (0..40_000).rev() {
        coverage.add(at * 2..at * 2 + 1);
    }
    assert_eq!((coverage.total_bytes(), coverage.missing_ranges(80_000).count()), (40_000, 40_000));
    for at in 0..40_000 {
        coverage.add(at * 2 + 1..at * 2 + 2);
    }
    assert_eq!((coverage.total_bytes(), coverage.missing_ranges(80_000).count()), (80_000, 0));
}

#[test]
fn an_rdma_done_that_nothing_offered_is_counted() {
    let mut link = Link::new(17);
    let frames = [getattr(&mut link, 6), link.send_bytes(Client, &header(9, 1, 32, RdmaBody::Done))].concat();
    let outcome = expect(&frames, &["#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2"]);
    assert_eq!(outcome.undecoded(), [(UndecodedReason::DoneWithoutCall, 1)]);
}
