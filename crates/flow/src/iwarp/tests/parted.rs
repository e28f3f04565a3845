//! FPDUs split across segments: each frame with a part of an FPDU is attributed to its content.

use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use nfsrdma_dissectors::net::TcpSequence;
use proptest::prelude::*;

use super::super::IwarpConnection;
use super::wire::{Bench, Content, START, Seen, Sender, payload, send, write};
use crate::rdma_operation::ConnectionSideAOrB;
use crate::stream::stream_bytes::StreamPosition;

/// Length of the start-up frame of a [`Sender`].
const STARTUP: usize = 32;
/// Length of the trailer of an FPDU of 4n - 20 bytes of payload in a Send: the CRC.
const TRAILER: usize = 4;

/// A server that has started, and its receiver. Both sides agree on the use of CRCs.
fn start(has_crc: bool, has_markers: bool) -> (Bench, Sender) {
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::A, START, &Sender::starting(true, (has_markers, has_crc), (false, has_crc)).bytes);
    let server = Sender::starting(false, (false, has_crc), (has_markers, has_crc));
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes);
    (bench, server)
}

/// Feeds the bytes of the server after its start-up in parts that end at these offsets.
fn feed(bench: &mut Bench, server: &Sender, ends: &[usize]) {
    let mut from = STARTUP;
    for end in ends.iter().map(|end| STARTUP + end) {
        bench.feed(ConnectionSideAOrB::B, START + from as u64, &server.bytes[from..end]);
        from = end;
    }
}

#[test]
fn rfc5044_section_4_1_a_trailer_that_comes_alone_belongs_to_its_message() {
    for has_crc in [false, true] {
        let (mut bench, mut server) = start(has_crc, false);
        // Three bytes of pad.
        server.send(RdmapOpcode::SEND, &payload(101, 1));
        let end = server.bytes.len() - STARTUP;
        feed(&mut bench, &server, &[end - TRAILER - 3, end]);
        assert_eq!(bench.log.seen[2..], [send(payload(101, 1), &[3, 4])], "{has_crc}");
        // It is complete when its CRC has arrived.
        assert_eq!(bench.log.times, [(3, 4)]);
        assert_eq!(bench.iwarp.buffered_bytes(), 0);
    }
}

#[test]
fn each_part_of_a_trailer_in_parts_belongs_to_its_message() {
    for has_crc in [false, true] {
        let (mut bench, mut server) = start(has_crc, false);
        server.send(RdmapOpcode::SEND, &payload(101, 1));
        let end = server.bytes.len() - STARTUP;
        server.write(1, 0, &payload(10, 2));
        let all = server.bytes.len() - STARTUP;
        // The last byte of the CRC arrives with the next FPDU.
        feed(&mut bench, &server, &[end - 6, end - 5, end - 1, all]);
        assert_eq!(bench.log.frames, [vec![3, 4, 5, 6], vec![6]], "{has_crc}");
        assert_eq!(bench.log.times, [(3, 6)]);
    }
}

#[test]
fn headers_that_come_alone_belong_to_their_message() {
    for has_crc in [false, true] {
        for has_markers in [false, true] {
            let (mut bench, mut server) = start(has_crc, has_markers);
            server.send(RdmapOpcode::SEND, &payload(100, 1));
            let end = server.bytes.len() - STARTUP;
            feed(&mut bench, &server, &[1, 7, end]);
            assert_eq!(bench.log.seen[2..], [send(payload(100, 1), &[3, 4, 5])], "{has_crc} {has_markers}");
            assert_eq!(bench.log.times, [(3, 5)]);
        }
    }
}

#[test]
fn headers_and_trailers_that_come_alone_belong_to_their_rdma_write() {
    for (has_crc, shared) in [(false, [3, 4].as_slice()), (true, &[3, 4])] {
        let (mut bench, mut server) = start(has_crc, false);
        server.write(1, 0, &payload(400, 1));
        let end = server.bytes.len() - STARTUP;
        feed(&mut bench, &server, &[16, 116, end - TRAILER, end]);
        let (first, second) = (payload(400, 1)[..100].to_vec(), payload(400, 1)[100..].to_vec());
        assert_eq!(bench.log.seen[2..], [write(1, 0, first), write(1, 100, second)], "{has_crc}");
        assert_eq!(bench.log.frames, [shared, &[5, 6]]);
    }
}

#[test]
fn a_read_request_in_parts_has_the_frames_of_all() {
    let (mut bench, mut server) = start(false, false);
    server.read((0x55, 0x8000), 1300, (0x971, 0x2000));
    let end = server.bytes.len() - STARTUP;
    feed(&mut bench, &server, &[10, 30, 40, end - TRAILER, end]);
    assert_eq!(bench.log.seen[2..], [Seen::ReadRequest { stag: 0x971, offset: 0x2000, length: 1300 }]);
    assert_eq!(bench.log.frames, [[3, 4, 5, 6, 7]]);
}

#[test]
fn the_beginning_of_the_next_fpdu_is_no_trailer() {
    // The use of CRCs is unknown, and each FPDU waits for the next one.
    let mut server = Sender::plain(false);
    server.send(RdmapOpcode::SEND, &payload(100, 1));
    let first = server.bytes.len();
    server.send(RdmapOpcode::SEND, &payload(100, 2));
    server.send(RdmapOpcode::SEND, &payload(100, 3));
    let mut bench = Bench::default();
    bench.pieces(ConnectionSideAOrB::B, &server.bytes, &[first - TRAILER, TRAILER, 10, first - 10, first]);
    assert_eq!(bench.log.frames[..2], [[1, 2], [3, 4]]);
}

#[test]
fn a_stream_that_ends_before_the_trailer_loses_no_payload() {
    for has_crc in [false, true] {
        let (mut bench, mut server) = start(has_crc, false);
        server.write(1, 0, &payload(400, 1));
        let end = server.bytes.len() - STARTUP;
        feed(&mut bench, &server, &[end - TRAILER]);
        assert_eq!(bench.log.seen.len(), 2);
        bench.iwarp.finish(ConnectionSideAOrB::B, &mut bench.log);
        assert_eq!(bench.log.seen[2..], [write(1, 0, payload(400, 1))], "{has_crc}");
        assert_eq!(bench.log.frames, [[3]]);
        assert_eq!(bench.iwarp.buffered_bytes(), 0);
    }
}

#[test]
fn a_gap_in_the_place_of_the_trailer_loses_no_payload() {
    for has_crc in [false, true] {
        let (mut bench, mut server) = start(has_crc, false);
        server.send(RdmapOpcode::SEND, &payload(100, 1));
        let end = server.bytes.len();
        server.send(RdmapOpcode::SEND, &payload(60, 2));
        feed(&mut bench, &server, &[end - STARTUP - TRAILER]);
        bench.hole(ConnectionSideAOrB::B, START + (end - TRAILER) as u64, TRAILER);
        assert_eq!(bench.log.seen[2..], [send(payload(100, 1), &[3])], "{has_crc}");
        assert_eq!(bench.log.times, [(3, 3)]);
        bench.feed(ConnectionSideAOrB::B, START + end as u64, &server.bytes[end..]);
        assert_eq!(bench.log.frames, [[3], [4]]);
    }
}

#[test]
fn a_trailer_that_a_snap_length_cut_belongs_to_its_message() {
    let (mut bench, mut server) = start(true, false);
    server.send(RdmapOpcode::SEND, &payload(100, 1));
    let end = server.bytes.len();
    feed(&mut bench, &server, &[end - STARTUP - TRAILER]);
    bench.cut(ConnectionSideAOrB::B, START + (end - TRAILER) as u64, &server.bytes[end - TRAILER..], 0);
    assert_eq!(bench.log.seen[2..], [send(payload(100, 1), &[3, 4])]);
    assert_eq!(bench.counts().unknown, 1);
}

#[test]
fn headers_and_trailer_make_nothing_seen_that_was_lost() {
    for has_crc in [false, true] {
        let (mut bench, mut server) = start(has_crc, false);
        server.write(1, 0, &payload(400, 1));
        let end = server.bytes.len() - STARTUP;
        feed(&mut bench, &server, &[16]);
        bench.hole(ConnectionSideAOrB::B, START + (STARTUP + 16) as u64, 400);
        bench.feed(
            ConnectionSideAOrB::B,
            START + (STARTUP + end - TRAILER) as u64,
            &server.bytes[STARTUP + end - TRAILER..],
        );
        assert_eq!(bench.log.seen.len(), 2, "{has_crc}: {:?}", bench.log.seen);
    }
}

#[test]
fn a_separate_trailer_with_a_wrong_crc_rejects_the_payload() {
    let (mut bench, mut server) = start(true, false);
    server.send(RdmapOpcode::SEND, &payload(100, 1));
    let end = server.bytes.len();
    server.bytes[end - 1] ^= 1;
    feed(&mut bench, &server, &[end - STARTUP - TRAILER, end - STARTUP]);
    assert_eq!(bench.log.seen[2..], [Seen::Undecoded("mpa_crc")]);
}

proptest! {
    #[test]
    fn every_frame_of_a_stream_has_its_operation(
        has_crc: bool,
        has_markers: bool,
        lengths in prop::collection::vec(1usize..60, 1..40),
    ) {
        let (mut bench, mut server) = start(has_crc, has_markers);
        bench.log.frames.clear();
        for index in 0..6u8 {
            server.send(RdmapOpcode::SEND, &payload(30 + usize::from(index), index));
            server.write(1, 0, &payload(700, index));
            server.read((0x55, 0x8000), 1300, (0x971, 0x2000));
        }
        let from = STARTUP as u64;
        let mut at = STARTUP;
        let mut number = 2;
        for length in lengths.iter().cycle() {
            let end = (at + length).min(server.bytes.len());
            if at == end {
                break;
            }
            bench.feed(ConnectionSideAOrB::B, START + from + (at - STARTUP) as u64, &server.bytes[at..end]);
            (at, number) = (end, number + 1);
        }
        let mut seen: Vec<u64> = bench.log.frames.concat();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen, (3..=number).collect::<Vec<_>>());
        prop_assert_eq!(bench.iwarp.buffered_bytes(), 0);
        let sent = bench.log.seen.iter().filter(|seen| matches!(seen, Seen::Send { .. })).count();
        prop_assert_eq!(sent, 6);
        let written: usize = bench.log.seen.iter().map(|seen| match seen {
            Seen::Write { bytes: Content(bytes), .. } => bytes.len(),
            _ => 0,
        }).sum();
        prop_assert_eq!(written, 6 * 700);
    }
}

/// RFC 9293 section 3.4: sequence numbers come round. A side is behind the acknowledgement of its peer only at the
/// beginning of a capture, not after 2 GiB.
#[test]
fn answered_beginning_ends_once() {
    let number = TcpSequence(1000);
    let begun = Some((ConnectionSideAOrB::A, number));
    let mut connection = IwarpConnection { begun, ..IwarpConnection::default() };
    let mut is_answered = |side, at: StreamPosition| connection.is_answered_before_capture(side, (1 << 32) + at);
    assert!(!is_answered(ConnectionSideAOrB::A, 500) && is_answered(ConnectionSideAOrB::B, 500));
    assert!(!is_answered(ConnectionSideAOrB::B, 1000) && !is_answered(ConnectionSideAOrB::B, 3 << 30));
}
