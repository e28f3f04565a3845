//! Captures made to be expensive: a hundred thousand of one thing, which must not take quadratic time.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::time::Duration;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::infiniband::{Bth, BthOpcode, PartitionKey, Psn, Qpn, Reth};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_flow::{EvictedState, Flow, FlowLimits, FrameContentKind};

const MANY: u32 = 100_000;

/// Limit of processor time per case. Unoptimized code takes some seconds; quadratic algorithms take many minutes.
const QUICK: Duration = Duration::from_secs(30);

/// Returns the processor time of this thread, or zero if the system does not report it.
fn processor_time() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let running = schedule.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(running.unwrap_or(0))
}

const CLIENT: [u8; 4] = [10, 9, 0, 2];
const SERVER: [u8; 4] = [10, 9, 0, 1];
const CLIENT_QP: u32 = 0x12;
const SERVER_QP: u32 = 0x11;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns an RDMA_MSG with these Write list and Reply chunk words, and a Call of NFSv3 NULL.
fn call(xid: u32, lists: &[u32]) -> Vec<u8> {
    let header = [&[xid, 1, 32, 0, 0][..], lists].concat();
    words(&[&header[..], &[xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]].concat())
}

/// Returns a Write list of one chunk with these segments, and no Reply chunk.
fn write_chunk(segments: &[(u32, u32, u64)]) -> Vec<u32> {
    let mut list = vec![1, segments.len() as u32];
    for (handle, length, offset) in segments {
        list.extend([*handle, *length, (offset >> 32) as u32, *offset as u32]);
    }
    list.extend([0, 0]);
    list
}

/// Returns an RDMA_MSG that returns this Write list and no Reply chunk, and a Reply of NFSv3 NULL.
fn reply(xid: u32, lists: &[u32]) -> Vec<u8> {
    let header = [&[xid, 1, 32, 0, 0][..], lists].concat();
    words(&[&header[..], &[xid, 1, 0, 0, 0, 0]].concat())
}

/// A flow and its clock: each packet is one microsecond after the previous.
struct Feed {
    flow: Flow,
    frames: u64,
    given_out: u64,
    begun: Duration,
}

impl Feed {
    fn new() -> Self {
        Self { flow: Flow::new(FlowLimits::default()), frames: 0, given_out: 0, begun: processor_time() }
    }

    fn packet(
        &mut self,
        (source, destination, qpn): ([u8; 4], [u8; 4], u32),
        opcode: BthOpcode,
        psn: u32,
        body: &[u8],
    ) -> FrameContentKind {
        let bth = Bth {
            opcode,
            se: false,
            m: false,
            padcnt: 0,
            tver: 0,
            pkey: PartitionKey(0xffff),
            fecn: false,
            becn: false,
            destqp: Qpn(qpn),
            ackreq: false,
            psn: Psn(psn & 0xff_ffff),
        };
        let length = (20 + 8 + 12 + body.len() + 4) as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        bytes.extend([source, destination].concat());
        bytes.extend([0xc0, 0, 0x12, 0xb7]);
        bytes.extend((length - 20).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(bth.encode());
        bytes.extend(body);
        bytes.extend([0; 4]);
        self.frames += 1;
        let frame = Frame {
            number: FrameNumber(self.frames),
            time: Timestamp(self.frames as i64 * 1000),
            link: LinkType::RAW,
            bytes: &bytes,
            length: bytes.len() as u32,
        };
        let meaning = self.flow.process_frame(&frame);
        while self.flow.next_transaction().is_some() {
            self.given_out += 1;
        }
        meaning
    }

    /// A TCP segment from port 700 to 2049 or back, without a checksum.
    fn segment(&mut self, is_call: bool, numbers: [u32; 2], flags: u8, data: &[u8]) {
        let (hosts, ports) = if is_call { ([CLIENT, SERVER], [700, 2049]) } else { ([SERVER, CLIENT], [2049, 700]) };
        let mut bytes = vec![0x45, 0];
        bytes.extend((40 + data.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(hosts.concat());
        bytes.extend(ports.map(u16::to_be_bytes).concat());
        bytes.extend(words(&numbers));
        bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(data);
        self.frames += 1;
        let frame = Frame {
            number: FrameNumber(self.frames),
            time: Timestamp(self.frames as i64 * 1000),
            link: LinkType::RAW,
            bytes: &bytes,
            length: bytes.len() as u32,
        };
        self.flow.process_frame(&frame);
    }

    fn client_sends(&mut self, opcode: BthOpcode, psn: u32, body: &[u8]) -> FrameContentKind {
        self.packet((CLIENT, SERVER, SERVER_QP), opcode, psn, body)
    }

    fn server_sends(&mut self, opcode: BthOpcode, psn: u32, body: &[u8]) -> FrameContentKind {
        self.packet((SERVER, CLIENT, CLIENT_QP), opcode, psn, body)
    }

    fn write(&mut self, opcode: BthOpcode, psn: u32, handle: u32, offset: u64, length: u32) -> FrameContentKind {
        let reth = Reth { va: offset, r_key: Handle(handle), dmalen: length };
        let body = [&reth.encode()[..], &[7; 1024][..length.min(1024) as usize]].concat();
        self.server_sends(opcode, psn, &body)
    }

    fn given_up(&self, what: EvictedState) -> u64 {
        self.flow.evicted_counts().find(|(kind, _)| *kind == what).map_or(0, |(_, count)| count)
    }

    /// Finishes the flow. Returns the number of Transactions.
    fn finish(mut self) -> u64 {
        self.flow.finish();
        while self.flow.next_transaction().is_some() {
            self.given_out += 1;
        }
        let taken = processor_time().saturating_sub(self.begun);
        assert!(taken < QUICK, "{taken:?}");
        self.given_out
    }
}

#[test]
fn connections_of_which_one_direction_is_seen() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        feed.packet((CLIENT, SERVER, 0x100 + number), BthOpcode::RC_SEND_ONLY, 0, &call(number, &[0, 0]));
    }
    assert!(feed.given_up(EvictedState::Connection) > 0);
    assert_eq!(feed.finish(), u64::from(MANY));
}

#[test]
fn connections_between_many_addresses() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        let [_, b, c, d] = number.to_be_bytes();
        feed.packet(([11, b, c, d], SERVER, SERVER_QP), BthOpcode::RC_SEND_ONLY, 0, &call(number, &[0, 0]));
    }
    assert!(feed.given_up(EvictedState::Connection) > 0);
    assert_eq!(feed.finish(), u64::from(MANY));
}

#[test]
fn packets_of_many_connections_seen_in_one_direction() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        feed.packet(
            (CLIENT, SERVER, 0x100 + number % 10_000),
            BthOpcode::RC_SEND_ONLY,
            number / 10_000,
            &call(number, &[0, 0]),
        );
    }
    feed.finish();
}

#[test]
fn calls_that_all_offer_memory_of_one_handle() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        let offset = u64::from(number) << 12;
        feed.client_sends(BthOpcode::RC_SEND_ONLY, number, &call(number, &write_chunk(&[(7, 4096, offset)])));
        let again = u64::from(number / 2) << 12;
        let meaning = feed.write(BthOpcode::RC_RDMA_WRITE_ONLY, number, 7, again, 1024);
        if number < 1000 {
            assert!(matches!(meaning, FrameContentKind::ChunkData { .. }), "{number}: {meaning:?}");
        }
    }
    assert!(feed.given_up(EvictedState::OpenTransaction) > 0);
    assert_eq!(feed.finish(), u64::from(MANY));
}

#[test]
fn calls_that_all_offer_the_same_memory() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        feed.client_sends(BthOpcode::RC_SEND_ONLY, number, &call(number, &write_chunk(&[(7, 4096, 0)])));
        let meaning = feed.write(BthOpcode::RC_RDMA_WRITE_ONLY, number, 7, 0, 1024);
        assert!(matches!(meaning, FrameContentKind::ChunkData { .. }), "{number}: {meaning:?}");
    }
    assert_eq!(feed.finish(), u64::from(MANY));
}

#[test]
fn a_call_of_very_many_segments_of_one_handle() {
    let mut feed = Feed::new();
    let segments: Vec<_> = (0..60_000).map(|number| (7, 16, number << 4)).collect();
    let message = call(1, &write_chunk(&segments));
    let packets: Vec<_> = message.chunks(4096).collect();
    let mut meaning = FrameContentKind::Unrelated;
    for (psn, packet) in packets.iter().enumerate() {
        let opcode = match psn {
            0 => BthOpcode::RC_SEND_FIRST,
            last if last + 1 == packets.len() => BthOpcode::RC_SEND_LAST,
            _ => BthOpcode::RC_SEND_MIDDLE,
        };
        meaning = feed.client_sends(opcode, psn as u32, packet);
    }
    assert!(matches!(meaning, FrameContentKind::Message { .. }), "{meaning:?}");
    for number in 0..60_000_u32 {
        let meaning = feed.write(BthOpcode::RC_RDMA_WRITE_ONLY, number, 7, u64::from(number) << 4, 16);
        assert!(matches!(meaning, FrameContentKind::ChunkData { .. }), "{number}: {meaning:?}");
    }
    assert_eq!(feed.finish(), 1);
}

#[test]
fn transactions_that_are_closed_again_and_again() {
    let mut feed = Feed::new();
    for number in 0..4000 {
        feed.client_sends(BthOpcode::RC_SEND_ONLY, number, &call(number, &[0, 0]));
    }
    for number in 0..MANY {
        let done = words(&[number % 4000, 1, 32, 3]);
        feed.client_sends(BthOpcode::RC_SEND_ONLY, 4000 + number, &done);
    }
    assert_eq!(feed.finish(), 4000);
}

/// Feeds a Write of 1 GiB of which only these packets are captured.
fn partial_write(packets: impl Iterator<Item = u32>) {
    let mut feed = Feed::new();
    feed.client_sends(BthOpcode::RC_SEND_ONLY, 0, &call(1, &write_chunk(&[(7, 1 << 30, 0)])));
    feed.write(BthOpcode::RC_RDMA_WRITE_FIRST, 0, 7, 0, 1 << 30);
    for packet in packets {
        let meaning = feed.server_sends(BthOpcode::RC_RDMA_WRITE_MIDDLE, packet, &[7; 1024]);
        assert!(matches!(meaning, FrameContentKind::ChunkData { .. }), "{packet}: {meaning:?}");
    }
    assert_eq!(feed.finish(), 1);
}

#[test]
fn every_second_packet_of_a_large_write_is_lost() {
    partial_write((1..=MANY).map(|number| 2 * number));
}

#[test]
fn every_second_packet_of_a_large_write_comes_from_the_last_to_the_first() {
    partial_write((1..=MANY).rev().map(|number| 2 * number));
}

/// Middle packets without First and Last, PSNs before them without any packet, and Replies whose RDMA Writes would fill
/// those.
#[test]
fn replies_whose_writes_may_be_anywhere() {
    const REPLIES: u32 = 200;
    const SEGMENTS: u32 = 256;
    const MIDDLES: u32 = 4096;
    let mut feed = Feed::new();
    let list = |number: u32| {
        let segment = |at: u32| (7, 1024, u64::from(number) << 32 | u64::from(at) << 12);
        write_chunk(&(0..SEGMENTS).map(segment).collect::<Vec<_>>())
    };
    let send = |feed: &mut Feed, is_client: bool, psn: u32, message: &[u8]| {
        let packets: Vec<_> = message.chunks(1024).collect();
        for (at, packet) in packets.iter().enumerate() {
            let opcode = match at {
                0 if packets.len() == 1 => BthOpcode::RC_SEND_ONLY,
                0 => BthOpcode::RC_SEND_FIRST,
                last if last + 1 == packets.len() => BthOpcode::RC_SEND_LAST,
                _ => BthOpcode::RC_SEND_MIDDLE,
            };
            match is_client {
                true => feed.client_sends(opcode, psn + at as u32, packet),
                false => feed.server_sends(opcode, psn + at as u32, packet),
            };
        }
        psn + packets.len() as u32
    };
    let mut calls = send(&mut feed, true, 0, &call(1, &[0, 0]));
    let mut replies = send(&mut feed, false, 0, &reply(1, &[0, 0]));
    for number in 2..REPLIES + 2 {
        calls = send(&mut feed, true, calls, &call(number, &list(number)));
    }
    replies += SEGMENTS;
    for at in 0..MIDDLES {
        feed.server_sends(BthOpcode::RC_RDMA_WRITE_MIDDLE, replies + at, &[7; 1024]);
    }
    replies += MIDDLES;
    for number in 2..REPLIES + 2 {
        replies = send(&mut feed, false, replies, &reply(number, &list(number)));
    }
    assert_eq!(feed.finish(), u64::from(REPLIES) + 1);
}

#[test]
fn parts_of_messages_that_never_begin_nor_end() {
    let mut feed = Feed::new();
    for number in (0..MANY).rev() {
        feed.client_sends(BthOpcode::RC_SEND_MIDDLE, 3 * number, &[7; 64]);
    }
    assert_eq!(feed.finish(), 0);
}

#[test]
fn writes_to_the_far_end_of_stored_memory() {
    let mut feed = Feed::new();
    for number in 0..MANY {
        // A Reply chunk, whose bytes are retained to decode the message in it.
        let list = [0, 1, 1, 7, u32::MAX, 0, 0];
        feed.client_sends(BthOpcode::RC_SEND_ONLY, number, &call(number, &list));
        feed.write(BthOpcode::RC_RDMA_WRITE_ONLY, number, 7, 60 << 20, 1024);
    }
    assert_eq!(feed.finish(), u64::from(MANY));
}

/// Segments of one byte after a lost one, each other byte only: ascending, from both ends to the middle, and
/// descending; their sender has received ever more, or ever less.
#[test]
fn segments_after_gap_are_quick() {
    let orders: [fn(u32) -> u32; 3] = [|at| at, |at| if at % 2 == 0 { at / 2 } else { MANY - at / 2 }, |at| MANY - at];
    for (order, receives_more) in orders.into_iter().flat_map(|order| [true, false].map(|more| (order, more))) {
        // More than the segments need: nothing is delivered.
        let limits = FlowLimits { gap_bytes: 1 << 30, stream_bytes: 1 << 30, ..FlowLimits::default() };
        let mut feed = Feed { flow: Flow::new(limits), ..Feed::new() };
        feed.segment(true, [1000, 0], 2, &[]);
        feed.segment(false, [1 << 30, 1001], 0x12, &[]);
        let received = (1 << 30) + 1;
        feed.segment(true, [1001, received], 0x10, &words(&[0x8000_0028, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]));
        for at in 0..MANY {
            let received = received + if receives_more { at } else { MANY - at };
            feed.segment(true, [2000 + 2 * order(at), received], 0x10, &[7]);
        }
        assert_eq!(feed.finish(), 1);
    }
}
