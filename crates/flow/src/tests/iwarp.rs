//! RPC over iWARP, from frames to Transactions.

use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;

use super::tcp::{Stream, record};
use super::wire::Who;
use super::*;
use crate::iwarp::tests::wire::{Sender, payload};
use crate::transaction::ConnectionTransport;

/// A connection: the stream, and the bytes that both sides write to it.
struct Connection {
    stream: Stream,
    client: Sender,
    server: Sender,
}

impl Connection {
    /// A newly opened connection with MPA started, in five frames.
    fn open(wants_markers: bool, wants_crc: bool) -> (Self, Frames) {
        let wants = (wants_markers, wants_crc);
        let mut this = Self {
            stream: Stream::new(700),
            client: Sender::starting(true, wants, wants),
            server: Sender::starting(false, wants, wants),
        };
        this.stream.ports[1] = 20049;
        let mut frames = this.stream.open();
        frames.extend([this.flush(Client), this.flush(Server)]);
        (this, frames)
    }

    /// Returns a segment with everything that a side has written to the stream.
    fn flush(&mut self, who: Who) -> Vec<u8> {
        let sender = if who == Client { &mut self.client } else { &mut self.server };
        self.stream.send(who, &sender.take())
    }

    fn sends(&mut self, who: Who, message: &Rdma) -> Vec<u8> {
        let sender = if who == Client { &mut self.client } else { &mut self.server };
        sender.send(RdmapOpcode::SEND, &message.bytes());
        self.flush(who)
    }

    /// A READ of 2000 bytes by RDMA Write, and a WRITE of 1500 by RDMA Read, in seven frames.
    fn work(&mut self) -> Frames {
        let mut frames = Vec::new();
        let target = memory(0xaf3, 0x1000, 4096);
        frames.push(self.sends(Client, &read_call(7, 4096).write(&[target])));
        self.server.write(0xaf3, 0x1000, &data(2000));
        frames.push(self.flush(Server));
        frames.push(self.sends(Server, &read_reply(7, 2000).write(&[target.of(2000)])));
        frames.push(self.sends(Client, &write_call(8, 1500).read(&[memory(0x971, 0x2000, 1500)])));
        self.server.read((0x55, 0x8000), 1500, (0x971, 0x2000));
        frames.push(self.flush(Server));
        self.client.respond((0x55, 0x8000), &data(1500));
        frames.push(self.flush(Client));
        frames.push(self.sends(Server, &write_reply(8, 1500)));
        frames
    }
}

const WORK: [&str; 2] = [
    "#1 c1 > 7 READ NFS3_OK call 6 reply 8 w[2000/2000/4096@7-7]",
    "#2 c1 > 8 WRITE NFS3_OK call 9 reply 12 r68[1500/1500@11-11]",
];

#[test]
fn calls_replies_and_their_chunks_come_over_iwarp() {
    for (wants_markers, wants_crc) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut connection, mut frames) = Connection::open(wants_markers, wants_crc);
        frames.extend(connection.work());
        let outcome = expect_all(&frames, &WORK);
        let name = outcome.transactions[0].connection;
        assert_eq!((name.transport.to_string(), name.server.port), ("iwarp".into(), Some(20049)));
        let counts = outcome.flow.mpa_counts();
        assert_eq!((counts.good > 0, counts.bad, counts.unknown), (wants_crc, 0, 0));
        assert_eq!(outcome.meanings[3], FrameContentKind::Management);
    }
}

#[test]
fn without_its_beginning_a_stream_has_the_same_transactions() {
    for (wants_markers, wants_crc) in [(false, false), (false, true), (true, true)] {
        let (mut connection, _) = Connection::open(wants_markers, wants_crc);
        let frames = connection.work();
        expect_all(
            &frames,
            &[
                "#1 c1 > 7 READ NFS3_OK call 1 reply 3 w[2000/2000/4096@2-2]",
                "#2 c1 > 8 WRITE NFS3_OK call 4 reply 7 r68[1500/1500@6-6]",
            ],
        );
    }
}

#[test]
fn a_segment_that_tcp_sends_again_is_a_copy_of_its_message() {
    let (mut connection, mut frames) = Connection::open(false, true);
    frames.extend(connection.work());
    frames.insert(6, frames[5].clone());
    expect_all(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 6,7 x2 reply 9 w[2000/2000/4096@8-8]",
            "#2 c1 > 8 WRITE NFS3_OK call 10 reply 13 r68[1500/1500@12-12]",
        ],
    );
}

#[test]
fn rfc5044_section_6_data_with_a_bad_crc_is_missing() {
    let (mut connection, mut frames) = Connection::open(false, true);
    frames.extend(connection.work());
    // In the last of the four FPDUs of the RDMA Write, which has 200 bytes.
    let at = frames[6].len() - 50;
    frames[6][at] ^= 1;
    let outcome = expect(
        &frames,
        &["#1 c1 > 7 READ NFS3_OK call 6 reply 8 w[1800/2000/4096@7-7] missing write:0:1800-1999", WORK[1]],
    );
    assert_eq!((outcome.undecoded(), outcome.flow.mpa_counts().bad), (vec![(UndecodedReason::BadCrc, 1)], 1));
}

#[test]
fn a_lost_segment_is_missing_and_later_ones_are_not() {
    let (mut connection, mut frames) = Connection::open(false, false);
    frames.extend(connection.work());
    // The RDMA Write is not captured; the client acknowledges it with its next Call.
    frames.remove(6);
    expect(
        &frames,
        &[
            "#1 c1 > 7 READ NFS3_OK call 6 reply 7 w[0/2000/4096] missing write:0:0-1999",
            "#2 c1 > 8 WRITE NFS3_OK call 8 reply 11 r68[1500/1500@10-10]",
        ],
    );
}

#[test]
fn the_parameters_of_both_sides_are_known() {
    let (mut connection, mut frames) = Connection::open(false, false);
    frames.extend(connection.work());
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in (1..).zip(&frames) {
        feed(&mut flow, number, number as i64, bytes, usize::MAX);
    }
    let at = flow.connections.all_slots()[0];
    let terms = flow.connections.get(at).unwrap().parameters.clone().unwrap();
    assert_eq!(terms.service, ServiceIdOrPort::Port(nfsrdma_dissectors::address::Port(20049)));
    assert_eq!(terms.client.present().unwrap().receive_threshold_bytes(), 4096);
    assert_eq!(terms.server.present().unwrap().receive_threshold_bytes(), 4096);
}

proptest::proptest! {
    #[test]
    fn a_stream_with_markers_seen_from_anywhere_adds_no_transaction(
        begin in 0usize..4000,
        length in 1usize..1500,
        wants_crc: bool,
    ) {
        let (mut connection, _) = Connection::open(true, wants_crc);
        let frames = connection.work();
        let whole = run(&frames);
        let mut stream = Stream::new(700);
        stream.ports[1] = 20049;
        let rest = connection.server.bytes.get(begin..).unwrap_or_default();
        let segments: Frames = rest.chunks(length).map(|bytes| stream.send(Server, bytes)).collect();
        let transactions = run(&segments).transactions;
        // Its Calls were not captured.
        proptest::prop_assert!(transactions.len() <= whole.transactions.len());
        proptest::prop_assert!(transactions.iter().all(|transaction| transaction.call.is_none()));
    }
}

/// draft-talpey-nfsv4-rdma-sess-01 section 2.3.2; RFC 8881 section 18.36.3
/// (CREATE_SESSION4_FLAG_CONN_RDMA).
#[test]
fn a_connection_that_carries_records_may_step_up_to_rdma() {
    let mut connection = Connection::open(false, true).0;
    let mut stream = Stream::new(700);
    let mut frames = stream.open();
    frames.push(stream.send(Client, &record(&getattr_call(1).body)));
    frames.push(stream.send(Server, &record(&getattr_reply(1).body)));
    let wants = (false, true);
    (connection.client, connection.server) =
        (Sender::starting(true, wants, wants), Sender::starting(false, wants, wants));
    connection.stream = stream;
    frames.extend([connection.flush(Client), connection.flush(Server)]);
    frames.extend(connection.work());
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 1 GETATTR NFS3ERR_STALE call 4 reply 5",
            "#2 c1 > 7 READ NFS3_OK call 8 reply 10 w[2000/2000/4096@9-9]",
            "#3 c1 > 8 WRITE NFS3_OK call 11 reply 14 r68[1500/1500@13-13]",
        ],
    );
    let transports = [0, 1].map(|at| outcome.transactions[at].connection.transport.to_string());
    assert_eq!(transports, ["tcp", "iwarp"]);
}

#[test]
fn neighbours_that_were_captured_in_the_wrong_order_change_nothing() {
    for wants_crc in [false, true] {
        for swapped in 5..11 {
            let (mut connection, mut frames) = Connection::open(false, wants_crc);
            frames.extend(connection.work());
            frames.swap(swapped, swapped + 1);
            let outcome = run(&frames);
            let are_complete = outcome.transactions.iter().all(|transaction| transaction.missing_parts().is_empty());
            assert!(are_complete, "{swapped}: {:?} {:?}", outcome.lines(), outcome.undecoded());
            assert_eq!(outcome.transactions.len(), 2);
        }
    }
}

#[test]
fn rfc5040_section_4_8_a_terminate_has_layer_type_and_error_names() {
    use nfsrdma_dissectors::iwarp::ddp::DdpQueueNumber;
    let (mut connection, mut frames) = Connection::open(false, false);
    connection.server.untagged(RdmapOpcode::TERMINATE, DdpQueueNumber::TERMINATE, 1, &[0x01, 0x01, 0, 0]);
    frames.push(connection.flush(Server));
    let outcome = run(&frames);
    let Some(FrameContentKind::Terminate(terminate)) = outcome.meanings.last() else {
        panic!("{:?}", outcome.meanings)
    };
    assert_eq!(terminate.to_string(), "RDMA, Remote Protection Error, Base or bounds violation");
}

#[test]
fn another_protocol_on_another_port_is_not_iwarp() {
    let mut stream = Stream::new(700);
    stream.ports[1] = 8080;
    let frames: Vec<_> = (0..20).map(|seed| stream.send(Server, &payload(1400, seed))).collect();
    let outcome = expect_all(&frames, &[]);
    assert_eq!(outcome.flow.mpa_counts(), MpaCounts::default());
}

#[test]
fn an_fpdu_of_single_bytes_is_given_up_when_it_costs_too_much() {
    let (mut connection, mut frames) = Connection::open(false, true);
    connection.server.segment = 1400;
    connection.server.write(0xaf3, 0x1000, &data(1400));
    let bytes = connection.server.take();
    frames.extend(connection.stream.send_in(Server, &bytes, 1));
    frames.extend(connection.work());
    let outcome = run_within(FlowLimits { stream_bytes: 16 << 10, ..FlowLimits::default() }, &frames, |_| usize::MAX);
    assert_eq!(outcome.flow.evicted_counts().collect::<Vec<_>>(), [(EvictedState::MessageParts, 1)]);
    assert_eq!(outcome.transactions.len(), 2);
}

#[test]
fn memory_ends_with_its_last_address() {
    let (mut connection, mut frames) = Connection::open(false, false);
    let target = memory(0xaf3, u64::MAX - 100, 4096);
    frames.push(connection.sends(Client, &read_call(7, 4096).write(&[target])));
    connection.server.write(0xaf3, u64::MAX - 100, &data(2000));
    connection.server.write(0xaf3, u64::MAX, &data(2000));
    connection.server.read((0x55, u64::MAX - 10), 1500, (0xaf3, u64::MAX - 10));
    frames.push(connection.flush(Server));
    connection.client.respond((0x55, u64::MAX - 10), &data(1500));
    frames.push(connection.flush(Client));
    frames.push(connection.sends(Server, &read_reply(7, 2000).write(&[target.of(2000)])));
    assert_eq!(run(&frames).transactions.len(), 1);
}

/// draft-talpey-nfsv4-rdma-sess-01 section 2.3.2: a session over TCP steps up to RDMA on its existing
/// connection.
#[test]
fn seed_004_2_3_2_a_step_up_to_rdma_is_a_second_phase_of_one_connection() {
    let wants = (false, true);
    let mut this = Connection {
        stream: Stream::new(700),
        client: Sender::starting(true, wants, wants),
        server: Sender::starting(false, wants, wants),
    };
    this.stream.ports[1] = 20049;
    let mut frames = this.stream.open();
    frames.push(this.stream.send(Client, &record(&null_call(5).body)));
    frames.push(this.stream.send(Server, &record(&null_reply(5).body)));
    frames.extend([this.flush(Client), this.flush(Server)]);
    frames.extend(this.work());
    let limits = FlowLimits { report_closed_connections: true, ..FlowLimits::default() };
    let mut outcome = run_within(limits, &frames, |_| usize::MAX);
    let phases: Vec<_> =
        { outcome.transactions.iter() }.map(|t| (t.connection.number, t.connection.transport, t.xid.0)).collect();
    let expected =
        [(1, ConnectionTransport::Tcp, 5), (1, ConnectionTransport::Iwarp, 7), (1, ConnectionTransport::Iwarp, 8)];
    assert_eq!(phases, expected, "{:?}", outcome.lines());
    assert_eq!(outcome.undecoded(), []);
    // It has not ended, and is listed once.
    assert_eq!(outcome.flow.next_closed(), None);
    assert_eq!(outcome.flow.connections().map(|state| state.number).collect::<Vec<_>>(), [1]);
}
