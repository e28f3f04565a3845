//! Messages and their copies.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::iwarp::ddp::DdpQueueNumber;
use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;

use super::wire::{Bench, START, Seen, Sender, payload, response, send, write};
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::ConnectionSideAOrB;

fn feed(sender: &Sender) -> Vec<Seen> {
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &sender.bytes);
    bench.log.seen
}

#[test]
fn the_owner_of_an_rdma_write_is_looked_up_once() {
    let mut server = Sender::plain(false);
    server.write(1, 0, &payload(6000, 0));
    server.write(1, 6000, &payload(6000, 0));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &server.bytes);
    assert_eq!((bench.log.seen.len(), bench.log.lookups), (20, 2));
}

#[test]
fn rfc5040_section_5_5_a_response_is_placed_by_its_request() {
    let mut server = Sender::plain(false);
    server.read((5, 100), 50, (0x971, 0x2000));
    server.read((5, 150), 50, (0x972, 0x9000));
    let mut client = Sender::plain(false);
    client.respond((5, 100), &payload(50, 1));
    client.respond((5, 150), &payload(50, 2));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    let responses = [(0x2000, 1), (0x9000, 2)].map(|(offset, seed)| response(offset, payload(50, seed)));
    assert_eq!(bench.log.seen[2..], responses);
    // Each was answered.
    bench.feed(ConnectionSideAOrB::A, START + client.bytes.len() as u64, &client.bytes);
    assert_eq!(
        bench.log.seen[4..],
        [Seen::Undecoded("read_response_without_request"), Seen::Undecoded("read_response_without_request")]
    );
}

#[test]
fn a_read_into_reused_memory_supersedes_one_with_a_lost_response() {
    let mut server = Sender::plain(false);
    server.read((5, 100), 50, (0x971, 0x2000));
    server.read((5, 100), 50, (0x972, 0x9000));
    let mut client = Sender::plain(false);
    client.respond((5, 100), &payload(50, 2));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    assert_eq!(bench.log.seen[2..], [response(0x9000, payload(50, 2))]);
}

#[test]
fn rfc6581_section_9_2_ready_to_receive_messages_have_no_effect() {
    let mut client = Sender::plain(false);
    client.send(RdmapOpcode::SEND, &[]);
    client.write(0, 0, &[]);
    client.read((0, 0), 0, (0, 0));
    client.send(RdmapOpcode::SEND, &payload(5, 5));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    assert_eq!(bench.log.seen, [send(payload(5, 5), &[1])]);
    let mut server = Sender::plain(false);
    server.respond((0, 0), &[]);
    server.send(RdmapOpcode::SEND, &payload(6, 6));
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    assert_eq!(bench.log.seen[1..], [send(payload(6, 6), &[2])]);
}

#[test]
fn rfc5040_section_4_8_a_terminate_is_reported() {
    let mut client = Sender::plain(false);
    client.untagged(RdmapOpcode::TERMINATE, DdpQueueNumber::TERMINATE, 1, &[0x01, 0x02, 0, 0]);
    let expected = "RDMA, Remote Protection Error, Access rights violation";
    assert_eq!(feed(&client), [Seen::Terminate(expected.to_owned())]);
}

#[test]
fn rfc7306_atomics_and_immediate_data_are_no_messages_of_rpc() {
    let mut client = Sender::plain(false);
    client.untagged(RdmapOpcode::ATOMIC_REQUEST, DdpQueueNumber::READ_REQUEST, 1, &[0; 52]);
    client.untagged(RdmapOpcode::IMMEDIATE, DdpQueueNumber::SEND, 1, &[0; 8]);
    client.untagged(RdmapOpcode::ATOMIC_RESPONSE, DdpQueueNumber::ATOMIC_RESPONSE, 1, &[0; 12]);
    assert_eq!(feed(&client), [const { Seen::Undecoded("other_rdma_service") }; 3]);
}

#[test]
fn bytes_that_tcp_sends_again_are_copies_of_the_messages_in_them() {
    let mut client = Sender::plain(false);
    client.send(RdmapOpcode::SEND, &payload(100, 1));
    let second = START + client.bytes.len() as u64;
    client.send(RdmapOpcode::SEND, &payload(1000, 2));
    let end = START + client.bytes.len() as u64;
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    bench.log.seen.clear();
    let frames = [FrameNumber(9)];
    let packet_meta = PacketMeta::new(&frames, Timestamp(9));
    bench.iwarp.process_retransmission(ConnectionSideAOrB::A, START..second, packet_meta, &mut bench.log);
    bench.iwarp.process_retransmission(ConnectionSideAOrB::A, second..end - 100, packet_meta, &mut bench.log);
    bench.iwarp.process_retransmission(ConnectionSideAOrB::A, end - 100..end, packet_meta, &mut bench.log);
    bench.iwarp.process_retransmission(ConnectionSideAOrB::A, end - 4..end, packet_meta, &mut bench.log);
    let again = |owner, ends| Seen::Again { owner, ends };
    // A trailer belongs to its message, and is not a copy of it (RFC 5044 section 4.1).
    assert_eq!(bench.log.seen, [again(1, true), again(2, false), again(2, true), again(2, false)]);
}

#[test]
fn a_message_knows_the_frames_that_carried_its_bytes() {
    let mut client = Sender::plain(false);
    client.send(RdmapOpcode::SEND, &payload(1000, 1));
    let mut bench = Bench::default();
    bench.pieces(ConnectionSideAOrB::A, &client.bytes, &[200, 424, 300]);
    assert_eq!(bench.log.seen, [send(payload(1000, 1), &[1, 2, 3, 4])]);
    let mut server = Sender::plain(false);
    server.write(3, 0, &payload(10, 1));
    server.send(RdmapOpcode::SEND, &payload(20, 1));
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    assert_eq!(bench.log.seen[1..], [write(3, 0, payload(10, 1)), send(payload(20, 1), &[5])]);
}

/// A segment of a Send, without CRC.
fn part(sender: &mut Sender, offset: u32, payload: &[u8]) {
    let headers = [0x01, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    sender.fpdu(&[&headers[..], &offset.to_be_bytes(), payload].concat());
}

#[test]
fn gaps_of_a_message_count_as_buffered_bytes_and_are_bounded() {
    let mut client = Sender::plain(false);
    part(&mut client, 0, &[7; 4]);
    let mut bench = Bench::default();
    let mut held = Vec::new();
    for index in 1..=6000 {
        part(&mut client, index * 5, &[7; 4]);
        if index % 1000 == 0 {
            let at = START + client.bytes.len() as u64;
            let bytes = client.take();
            bench.feed(ConnectionSideAOrB::A, at - bytes.len() as u64, &bytes);
            held.push(bench.iwarp.buffered_bytes());
        }
    }
    // A range of missing bytes is two numbers.
    assert!(held[0] > 1000 * 16, "{held:?}");
    // One more frame.
    assert!(held[5] - held[4] <= 8, "{held:?}");
}

#[test]
fn a_response_beyond_all_memory_answers_no_read() {
    let mut server = Sender::plain(false);
    server.read((5, 0), 50, (0x971, 0x2000));
    let mut client = Sender::plain(false);
    client.respond((5, u64::MAX - 3), &payload(50, 2));
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    bench.feed(ConnectionSideAOrB::A, START, &client.bytes);
    assert_eq!(bench.log.seen[1..], [Seen::Undecoded("read_response_without_request")]);
}
