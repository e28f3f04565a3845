//! FPDUs in undamaged streams.

use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use proptest::prelude::*;

use super::wire::{Bench, START, Seen, Sender, payload, response, send, write};
use crate::rdma_operation::ConnectionSideAOrB;

const ALL_SENDS: [RdmapOpcode; 4] =
    [RdmapOpcode::SEND, RdmapOpcode::SEND_INVALIDATE, RdmapOpcode::SEND_EVENT, RdmapOpcode::SEND_EVENT_INVALIDATE];

/// Both directions of a connection: the start-up, a Send in parts, RDMA Writes, and a Read with its
/// response.
pub(super) fn conversation(client_wants: (bool, bool), server_wants: (bool, bool)) -> (Sender, Sender) {
    let mut client = Sender::starting(true, client_wants, server_wants);
    let mut server = Sender::starting(false, server_wants, client_wants);
    client.send(RdmapOpcode::SEND, &payload(176, 1));
    server.write(0xaf3, 0x1000, &payload(2000, 2));
    server.send(RdmapOpcode::SEND_INVALIDATE, &payload(104, 3));
    client.send(RdmapOpcode::SEND, &payload(1500, 4));
    server.read((0x55, 0x8000), 1300, (0x971, 0x2000));
    client.respond((0x55, 0x8000), &payload(1300, 5));
    server.send(RdmapOpcode::SEND_EVENT, &payload(1, 6));
    server.write(0xaf4, 3, &payload(511, 7));
    server.send(RdmapOpcode::SEND, &payload(77, 8));
    (client, server)
}

/// The expected events of the conversation.
fn expected() -> (Vec<Seen>, Vec<Seen>) {
    let server = vec![
        Seen::Startup,
        write(0xaf3, 0x1000, payload(2000, 2)),
        send(payload(104, 3), &[]),
        Seen::ReadRequest { stag: 0x971, offset: 0x2000, length: 1300 },
        send(payload(1, 6), &[]),
        write(0xaf4, 3, payload(511, 7)),
        send(payload(77, 8), &[]),
    ];
    let client = vec![
        Seen::Startup,
        send(payload(176, 1), &[]),
        send(payload(1500, 4), &[]),
        response(0x2000, payload(1300, 5)),
    ];
    (client, server)
}

fn joined(client: &Sender, server: &Sender, lengths: &[usize]) -> (Vec<Seen>, Vec<Seen>, Bench) {
    let mut bench = Bench::default();
    bench.log.joins = true;
    bench.pieces(ConnectionSideAOrB::B, &server.bytes, lengths);
    let from_server = std::mem::take(&mut bench.log.seen);
    bench.pieces(ConnectionSideAOrB::A, &client.bytes, lengths);
    let from_client = std::mem::take(&mut bench.log.seen);
    (from_client, from_server, bench)
}

const FLAGS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn rfc5044_section_4_markers_and_crcs_change_nothing() {
    for client_wants in FLAGS {
        for server_wants in FLAGS {
            let (client, server) = conversation(client_wants, server_wants);
            for length in [1, 4, 100, 512, 1460, 65_535] {
                let (from_client, from_server, mut bench) = joined(&client, &server, &[length]);
                assert_eq!((from_client, from_server), expected(), "{client_wants:?} {server_wants:?} {length}");
                let counts = bench.counts();
                assert_eq!((counts.bad, counts.unknown, counts.skipped_bytes), (0, 0, 0));
                assert_eq!(counts.good > 0, client_wants.1 || server_wants.1);
                assert_eq!(counts.good + counts.absent, 16);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_split_into_pieces_gives_the_same_operations(
        client_wants: (bool, bool),
        server_wants: (bool, bool),
        lengths in prop::collection::vec(1usize..900, 1..40),
    ) {
        let (client, server) = conversation(client_wants, server_wants);
        let (from_client, from_server, _) = joined(&client, &server, &lengths);
        prop_assert_eq!((from_client, from_server), expected());
    }
}

#[test]
fn rfc5044_section_4_3_without_the_peer_the_first_word_reveals_markers() {
    let (client, _) = conversation((false, false), (true, true));
    let mut bench = Bench::default();
    bench.log.joins = true;
    bench.pieces(ConnectionSideAOrB::A, &client.bytes, &[300]);
    assert_eq!(bench.log.seen[..3], expected().0[..3]);
    assert_eq!(bench.log.seen[3], Seen::Undecoded("read_response_without_request"));
}

#[test]
fn rfc5044_section_4_3_markers_over_packed_fpdus() {
    let mut server = Sender::starting(false, (false, true), (true, true));
    for index in 0..40u8 {
        server.send(RdmapOpcode::SEND, &payload(40 + usize::from(index), index));
    }
    let mut bench = Bench::default();
    let (startup, rest) = server.bytes.split_at(32);
    bench.feed(ConnectionSideAOrB::B, START, startup);
    // All in one segment.
    bench.feed(ConnectionSideAOrB::B, START + 32, rest);
    let expected: Vec<_> = (0..40u8).map(|index| send(payload(40 + usize::from(index), index), &[2])).collect();
    assert_eq!(bench.log.seen[1..], expected);
    assert_eq!(bench.counts().good, 40);
}

#[test]
fn rfc5040_section_4_1_every_kind_of_send_is_one() {
    let mut client = Sender::plain(false);
    for (index, opcode) in ALL_SENDS.into_iter().enumerate() {
        client.send(opcode, &payload(50, index as u8));
    }
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    let expected: Vec<_> = (0..4).map(|index| send(payload(50, index), &[1])).collect();
    assert_eq!(bench.log.seen, expected);
}

#[test]
fn a_crc_behind_the_end_of_a_segment_is_waited_for() {
    let mut server = Sender::starting(false, (false, true), (false, true));
    server.segment = 1428;
    server.write(1, 0, &payload(1428, 0));
    let mut bench = Bench::default();
    let end = server.bytes.len() - 4;
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..32]);
    bench.feed(ConnectionSideAOrB::B, START + 32, &server.bytes[32..end]);
    assert_eq!(bench.log.seen, [Seen::Startup]);
    bench.feed(ConnectionSideAOrB::B, START + end as u64, &server.bytes[end..]);
    assert_eq!(bench.log.seen[1..], [write(1, 0, payload(1428, 0))]);
    assert_eq!(bench.counts().good, 1);
}

#[test]
fn without_crcs_payload_goes_on_as_it_arrives() {
    let mut server = Sender::starting(false, (false, false), (false, false));
    let from = server.bytes.len();
    server.segment = 1428;
    server.write(1, 0, &payload(1428, 0));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &Sender::starting(true, (false, false), (false, false)).bytes);
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..from + 16 + 100]);
    assert_eq!(bench.log.seen[2..], [write(1, 0, payload(1428, 0)[..100].to_vec())]);
    assert_eq!(bench.iwarp.buffered_bytes(), 0);
}

#[test]
fn rfc5044_section_6_an_fpdu_with_a_bad_crc_is_rejected_alone() {
    for has_markers in [false, true] {
        for length in [65_535, 300] {
            let mut server = Sender::starting(false, (false, true), (has_markers, true));
            server.send(RdmapOpcode::SEND, &payload(100, 1));
            let bad_at = server.bytes.len() + 50;
            server.send(RdmapOpcode::SEND, &payload(400, 2));
            server.send(RdmapOpcode::SEND, &payload(120, 3));
            server.bytes[bad_at] ^= 1;
            let mut bench = Bench::default();
            bench.log.joins = true;
            bench.pieces(ConnectionSideAOrB::B, &server.bytes, &[length]);
            bench.log.seen.dedup();
            let bad = Seen::Undecoded("mpa_crc");
            let expected = [Seen::Startup, send(payload(100, 1), &[]), bad, send(payload(120, 3), &[])];
            assert_eq!(bench.log.seen, expected, "{has_markers} {length}");
            let counts = bench.counts();
            assert_eq!((counts.good, counts.bad, counts.skipped_bytes), (2, 1, 0));
            assert!(counts.refused_bytes >= 400);
        }
    }
}

#[test]
fn crcs_are_found_out_where_the_start_was_not_seen() {
    for (has_crc, good, bad) in [(true, 2, 1), (false, 0, 0)] {
        let mut server = Sender::plain(has_crc);
        server.send(RdmapOpcode::SEND, &payload(100, 1));
        let bad_at = server.bytes.len() + 50;
        server.send(RdmapOpcode::SEND, &payload(100, 2));
        server.send(RdmapOpcode::SEND, &payload(100, 3));
        server.bytes[bad_at] ^= 1;
        let mut bench = Bench::default();
        bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
        let counts = bench.counts();
        assert_eq!((counts.good, counts.bad, counts.absent), (good, bad, 3 - good - bad));
    }
}

#[test]
fn rfc5044_section_7_1_2_after_a_refusal_nothing_is_mpa_until_it_is_asked_for_again() {
    let mut server = Sender::starting(false, (false, false), (false, false));
    server.bytes[16] |= 0x20;
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &Sender::starting(true, (false, false), (false, false)).bytes);
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    bench.feed(ConnectionSideAOrB::A, START + 32, &payload(100, 0));
    assert_eq!(bench.log.seen, [Seen::Startup, Seen::Startup]);
    assert!(bench.iwarp.startup(ConnectionSideAOrB::B).unwrap().0.rejected);
    let mut again = Sender::starting(true, (false, false), (false, false));
    again.send(RdmapOpcode::SEND, &payload(10, 1));
    bench.feed(ConnectionSideAOrB::A, START + 132, &again.bytes);
    assert_eq!(bench.log.seen[2..], [Seen::Startup, send(payload(10, 1), &[4])]);
}

#[test]
fn rfc8797_private_data_of_both_sides_is_known() {
    let (client, server) = conversation((false, false), (false, false));
    let (_, _, bench) = joined(&client, &server, &[7]);
    for side in [ConnectionSideAOrB::A, ConnectionSideAOrB::B] {
        let startup = bench.iwarp.startup(side).unwrap();
        assert_eq!(startup.0.rpcrdma.present().unwrap().send_threshold_bytes(), 4096);
        assert_eq!(startup.0.enhanced.unwrap().ird.0, 16);
    }
}

#[test]
fn buffered_bytes_include_the_parts_of_an_incomplete_fpdu() {
    let mut server = Sender::starting(false, (false, true), (false, true));
    server.segment = 1400;
    server.write(1, 0, &payload(1400, 0));
    let mut bench = Bench::default();
    let (before, end) = server.bytes.split_at(server.bytes.len() - 1);
    bench.pieces(ConnectionSideAOrB::B, before, &[1]);
    // Each part has its range in the bytes, its frame, its time and its stream position.
    assert!(bench.iwarp.buffered_bytes() > 1400 * 50, "{}", bench.iwarp.buffered_bytes());
    bench.feed(ConnectionSideAOrB::B, START + before.len() as u64, end);
    assert_eq!(bench.iwarp.buffered_bytes(), 0);
    assert_eq!(bench.log.seen.len(), 1401);
}
