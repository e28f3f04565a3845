//! Gaps, truncation, and captures that begin in mid-stream.

use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;
use proptest::prelude::*;

use super::framing::conversation;
use super::wire::{Bench, Content, START, Seen, Sender, payload, send, write};
use crate::iwarp::mpa_recognition::begins_fpdu;
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};

/// A stream of `count` Sends and Writes, and the start of each FPDU.
fn stream(has_markers: bool, has_crc: bool, count: u8) -> (Sender, Vec<usize>, Vec<Seen>) {
    let mut server = Sender::starting(false, (false, has_crc), (has_markers, has_crc));
    let mut begins = Vec::new();
    let mut expected = Vec::new();
    for index in 0..count {
        begins.push(server.bytes.len());
        let payload = payload(200 + 10 * usize::from(index), index);
        if index % 3 == 1 {
            server.write(0x100, u64::from(index) * 1000, &payload);
            expected.push(write(0x100, u64::from(index) * 1000, payload));
        } else {
            server.send(RdmapOpcode::SEND, &payload);
            expected.push(send(payload, &[]));
        }
    }
    (server, begins, expected)
}

fn operations(bench: &Bench) -> Vec<Seen> {
    let is_operation = |seen: &&Seen| !matches!(seen, Seen::Undecoded(_) | Seen::Startup);
    bench.log.seen.iter().filter(is_operation).cloned().collect()
}

#[test]
fn a_stream_seen_from_the_middle_is_framed_from_the_first_segment_that_begins_with_an_fpdu() {
    for has_markers in [false, true] {
        for has_crc in [false, true] {
            let (server, begins, expected) = stream(has_markers, has_crc, 20);
            for skipped in 1..10 {
                let mut bench = Bench::default();
                bench.log.joins = true;
                let from = begins[skipped];
                bench.feed(ConnectionSideAOrB::B, START + from as u64, &server.bytes[from..]);
                assert_eq!(operations(&bench), expected[skipped..], "{has_markers} {has_crc} {skipped}");
                assert_eq!(bench.counts().skipped_bytes, 0);
            }
        }
    }
}

#[test]
fn one_fpdu_in_each_segment_is_found_at_once() {
    let (server, begins, expected) = stream(false, false, 20);
    let mut bench = Bench::default();
    bench.log.joins = true;
    for (index, from) in begins.iter().enumerate() {
        let end = begins.get(index + 1).copied().unwrap_or(server.bytes.len());
        bench.feed(ConnectionSideAOrB::B, START + *from as u64, &server.bytes[*from..end]);
    }
    assert_eq!(operations(&bench), expected);
}

#[test]
fn a_stream_seen_from_within_an_fpdu_is_framed_from_the_next() {
    for has_markers in [false, true] {
        for has_crc in [false, true] {
            let (server, begins, expected) = stream(has_markers, has_crc, 20);
            for into in [1, 2, 4, 20, 90, 150] {
                let mut bench = Bench::default();
                bench.log.joins = true;
                let from = begins[3] + into;
                bench.feed(ConnectionSideAOrB::B, START + from as u64, &server.bytes[from..]);
                let operations = operations(&bench);
                assert_eq!(operations, expected[4..], "{has_markers} {has_crc} {into}");
                let counts = bench.counts();
                assert_eq!(counts.skipped_bytes, (begins[4] - from) as u64);
            }
        }
    }
}

#[test]
fn a_gap_in_the_payload_of_an_fpdu_loses_only_these_bytes() {
    for has_crc in [false, true] {
        for has_markers in [false, true] {
            let mut server = Sender::starting(false, (false, has_crc), (has_markers, has_crc));
            let from = server.bytes.len();
            server.write(1, 0, &payload(600, 0));
            server.send(RdmapOpcode::SEND, &payload(60, 1));
            let mut bench = Bench::default();
            let at = |offset: usize| START + offset as u64;
            bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..from]);
            bench.feed(ConnectionSideAOrB::B, at(from), &server.bytes[from..from + 120]);
            bench.hole(ConnectionSideAOrB::B, at(from + 120), 200);
            bench.feed(ConnectionSideAOrB::B, at(from + 320), &server.bytes[from + 320..]);
            let seen: u64 = bench
                .log
                .seen
                .iter()
                .map(|seen| match seen {
                    Seen::Write { length, .. } => u64::from(*length),
                    _ => 0,
                })
                .sum();
            // One of the lost bytes may be part of a marker.
            assert!(seen == 400 || (has_markers && seen == 404), "{seen}");
            assert_eq!(bench.log.seen.last(), Some(&send(payload(60, 1), &[3])));
            let counts = bench.counts();
            assert_eq!((counts.unknown, counts.bad, counts.skipped_bytes), (1, 0, 0));
        }
    }
}

#[test]
fn a_snap_length_leaves_the_beginning_and_the_lengths() {
    for has_crc in [false, true] {
        let mut server = Sender::starting(false, (false, has_crc), (false, has_crc));
        let from = server.bytes.len();
        server.write(1, 0, &payload(600, 0));
        let second = server.bytes.len();
        server.send(RdmapOpcode::SEND, &payload(500, 1));
        let mut bench = Bench::default();
        bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..from]);
        bench.cut(ConnectionSideAOrB::B, START + from as u64, &server.bytes[from..second], 74);
        bench.cut(ConnectionSideAOrB::B, START + second as u64, &server.bytes[second..], 74);
        let cut = Seen::Write { stag: 1, offset: 0, bytes: Content(payload(58, 0)), length: 600 };
        let sent = Seen::Send { bytes: Content(payload(54, 1)), length: 500, gaps: vec![], frames: vec![3] };
        assert_eq!(bench.log.seen[1..], [cut, sent]);
        assert_eq!(bench.counts().unknown + bench.counts().absent, 2);
    }
}

#[test]
fn a_snap_length_behind_packed_fpdus_loses_those_that_it_cut_and_no_others() {
    let (server, begins, expected) = stream(false, false, 6);
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..begins[0]]);
    let at = |index: usize| START + begins[index] as u64;
    bench.cut(ConnectionSideAOrB::B, at(0), &server.bytes[begins[0]..begins[3]], 100);
    bench.cut(ConnectionSideAOrB::B, at(3), &server.bytes[begins[3]..begins[4]], begins[4] - begins[3]);
    bench.log.joins = true;
    bench.feed(ConnectionSideAOrB::B, at(4), &server.bytes[begins[4]..]);
    let operations = operations(&bench);
    assert_eq!(operations.len(), 4);
    assert_eq!(operations[2..], expected[4..]);
}

#[test]
fn lost_bytes_of_a_send_are_missing_at_the_next_message() {
    let mut server = Sender::starting(false, (false, false), (false, false));
    let from = server.bytes.len();
    server.send(RdmapOpcode::SEND, &payload(1500, 1));
    let second = server.bytes.len();
    server.send(RdmapOpcode::SEND, &payload(70, 2));
    // The middle one of three segments, and the last.
    let fpdu = 2 + 18 + 600 + 4;
    for (lost, gap, length) in
        [(from + fpdu..from + 2 * fpdu, 600..1200, 1500), (from + 2 * fpdu..second, 1200..1201, 1201)]
    {
        let mut bench = Bench::default();
        bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..lost.start]);
        bench.hole(ConnectionSideAOrB::B, START + lost.start as u64, lost.len());
        bench.feed(ConnectionSideAOrB::B, START + lost.end as u64, &server.bytes[lost.end..]);
        let bytes = Content(payload(1500, 1)[..gap.start as usize].to_vec());
        let sends: Vec<_> = operations(&bench);
        let Seen::Send { bytes: found, length: found_length, gaps, .. } = &sends[0] else { panic!("{sends:?}") };
        assert_eq!((found, *found_length, &gaps[..]), (&bytes, length, &[gap][..]));
        assert_eq!(sends.len(), 2);
    }
}

#[test]
fn a_send_without_its_beginning_is_no_message() {
    let mut server = Sender::plain(false);
    server.send(RdmapOpcode::SEND, &payload(1500, 1));
    let second = server.bytes.len();
    server.send(RdmapOpcode::SEND, &payload(70, 2));
    let fpdu = 2 + 18 + 600 + 4;
    let mut bench = Bench::default();
    bench.feed(ConnectionSideAOrB::B, START + fpdu as u64, &server.bytes[fpdu..second]);
    bench.feed(ConnectionSideAOrB::B, START + second as u64, &server.bytes[second..]);
    assert_eq!(bench.log.seen, [Seen::Undecoded("message_part"), send(payload(70, 2), &[2])]);
}

#[test]
fn rfc5044_section_6_markers_find_fpdus_that_no_segment_begins_with() {
    let mut server = Sender::starting(false, (false, false), (true, false));
    server.segment = 1300;
    let from = server.bytes.len();
    for index in 0..8 {
        server.write(index, 0, &payload(1300, index as u8));
    }
    let mut bench = Bench::default();
    bench.log.joins = true;
    bench.feed(ConnectionSideAOrB::A, START, &Sender::starting(true, (true, false), (false, false)).bytes);
    bench.feed(ConnectionSideAOrB::B, START, &server.bytes[..from]);
    // Segments of 1000 bytes, not aligned to FPDUs; the second is lost.
    for (index, part) in server.bytes[from..].chunks(1000).enumerate() {
        let at = START + (from + index * 1000) as u64;
        if index == 1 {
            bench.hole(ConnectionSideAOrB::B, at, part.len())
        } else {
            bench.feed(ConnectionSideAOrB::B, at, part)
        }
    }
    let stags: Vec<_> = operations(&bench)
        .iter()
        .filter_map(|seen| match seen {
            Seen::Write { stag, length, bytes, .. } if bytes.0.len() == *length as usize => Some(*stag),
            _ => None,
        })
        .collect();
    assert!(stags.ends_with(&[4, 5, 6, 7]), "{stags:?}");
}

/// Everything that an undamaged stream yields.
fn whole_of(bytes: &[u8], side: ConnectionSideAOrB) -> Vec<Seen> {
    let mut bench = Bench::default();
    bench.pieces(side, bytes, &[65_535]);
    operations(&bench)
}

/// Returns `true` if an operation is one of the undamaged stream, or a part of one.
fn is_part_of(seen: &Seen, whole: &[Seen]) -> bool {
    whole.iter().any(|other| match (seen, other) {
        (Seen::Send { bytes, length, .. }, Seen::Send { bytes: all, length: total, .. }) => {
            all.0.starts_with(&bytes.0) && length <= total
        }
        (Seen::Write { stag, offset, bytes, length }, Seen::Write { stag: of, offset: from, bytes: all, .. }) => {
            let into = offset.wrapping_sub(*from) as usize;
            stag == of && all.0.get(into..into + *length as usize).is_some_and(|all| all.starts_with(&bytes.0))
        }
        (seen, other) => seen == other,
    })
}

proptest! {
    #[test]
    fn the_loss_of_any_piece_adds_no_operation_and_costs_few(
        has_markers: bool,
        has_crc: bool,
        lengths in prop::collection::vec(200usize..1400, 1..30),
        lost in 1usize..12,
        knows_memory: bool,
    ) {
        let (server, ..) = stream(has_markers, has_crc, 40);
        let whole = whole_of(&server.bytes, ConnectionSideAOrB::B);
        let mut bench = Bench::default();
        if knows_memory {
            bench.log.known.push(0x100);
        }
        let (mut at, mut index, mut lost_until) = (0, 0, 0);
        while at < server.bytes.len() {
            let length = lengths[index % lengths.len()].min(server.bytes.len() - at);
            if index == lost {
                lost_until = at + length;
                bench.hole(ConnectionSideAOrB::B, START + at as u64, length);
            } else {
                bench.feed(ConnectionSideAOrB::B, START + at as u64, &server.bytes[at..at + length]);
            }
            at += length;
            index += 1;
        }
        for seen in operations(&bench) {
            prop_assert!(is_part_of(&seen, &whole), "{seen:?}");
        }
        // The end of the stream is found again.
        prop_assume!(lost_until + 4000 < server.bytes.len());
        let last = operations(&bench).last().cloned();
        let Some(Seen::Send { bytes, length, .. }) = &last else { panic!("{last:?}") };
        prop_assert_eq!((&bytes.0, *length), (&payload(200 + 390, 39), 590));
    }

    #[test]
    fn cutting_any_segment_adds_no_operation(
        has_markers: bool,
        has_crc: bool,
        snap in 0usize..300,
        length in 100usize..1400,
    ) {
        let (server, ..) = stream(has_markers, has_crc, 20);
        let whole = whole_of(&server.bytes, ConnectionSideAOrB::B);
        let mut bench = Bench::default();
        for (index, part) in server.bytes.chunks(length).enumerate() {
            bench.cut(ConnectionSideAOrB::B, START + (index * length) as u64, part, snap.min(part.len()));
        }
        for seen in operations(&bench) {
            prop_assert!(is_part_of(&seen, &whole), "{seen:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..200), 0usize..100), 0..20),
        starts: bool,
    ) {
        let mut bench = Bench::default();
        let mut at = [START, START];
        if starts {
            let (client, server) = conversation((false, true), (true, false));
            bench.feed(ConnectionSideAOrB::A, at[0], &client.bytes[..300]);
            bench.feed(ConnectionSideAOrB::B, at[1], &server.bytes[..300]);
            at = at.map(|at| at + 300);
        }
        for (is_b, bytes, hole) in pieces {
            let side = if is_b { ConnectionSideAOrB::B } else { ConnectionSideAOrB::A };
            let at = &mut at[usize::from(is_b)];
            bench.feed(side, *at, &bytes);
            *at += bytes.len() as u64;
            bench.hole(side, *at, hole);
            *at += hole as u64;
        }
        for side in [ConnectionSideAOrB::A, ConnectionSideAOrB::B] {
            bench.iwarp.finish(side, &mut bench.log);
        }
        prop_assert_eq!(bench.iwarp.buffered_bytes(), 0);
    }

    #[test]
    fn a_changed_byte_adds_no_operation_if_crcs_are_used(at in 32usize..6000, to: u8, has_markers: bool, length in 50usize..1500) {
        let (mut server, ..) = stream(has_markers, true, 20);
        let whole = whole_of(&server.bytes, ConnectionSideAOrB::B);
        let at = at.min(server.bytes.len() - 1);
        server.bytes[at] = to;
        let mut bench = Bench::default();
        bench.feed(ConnectionSideAOrB::A, START, &Sender::starting(true, (has_markers, true), (false, true)).bytes);
        bench.pieces(ConnectionSideAOrB::B, &server.bytes, &[length]);
        for seen in operations(&bench) {
            prop_assert!(is_part_of(&seen, &whole), "{seen:?}");
        }
    }
}

#[test]
fn a_segment_beginning_with_an_fpdu_is_recognized_with_any_marker_offset() {
    for has_crc in [false, true] {
        let (server, begins, _) = stream(true, has_crc, 20);
        // A marker before the first FPDU may as well be the CRC of a previous one if CRCs are not used.
        for from in begins.into_iter().skip(1) {
            let bytes = &server.bytes[from..];
            assert!(begins_fpdu(CapturedPacketPayload { bytes, length: bytes.len() as u32 }, true), "{has_crc} {from}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_in_the_middle_of_a_stream_never_panic(
        mut bytes: Vec<u8>,
        pointers in prop::collection::vec((0usize..200, 0u8..60), 0..8),
        more in 0u32..2000,
        is_expected: bool,
    ) {
        // The control bytes of an RDMA Write, and words that may be markers in it.
        if let Some(begin) = bytes.get_mut(..4) {
            begin.copy_from_slice(&[0x01, 0x00, 0xc1, 0x40]);
        }
        for (at, behind) in pointers {
            if let Some(word) = bytes.get_mut(at..at + 4) {
                word.copy_from_slice(&[0, 0, 0, behind * 4]);
            }
        }
        let length = bytes.len() as u32 + more;
        let is_one = begins_fpdu(CapturedPacketPayload { bytes: &bytes, length }, is_expected);
        // On another port, a message of RPC-over-RDMA is required.
        prop_assert!(!is_one || is_expected);
    }

    #[test]
    fn the_place_from_which_a_stream_with_markers_is_seen_changes_no_event(
        from in 0usize..4000,
        length in 1usize..1500,
        has_crc: bool,
    ) {
        let (server, ..) = stream(true, has_crc, 20);
        let rest = &server.bytes[from..];
        let seen = |begin: u64| {
            let mut bench = Bench::default();
            for (number, piece) in (0..).zip(rest.chunks(length)) {
                let _ = begins_fpdu(CapturedPacketPayload { bytes: piece, length: piece.len() as u32 }, true);
                bench.feed(ConnectionSideAOrB::B, begin + number * length as u64, piece);
            }
            bench.log.seen
        };
        prop_assert_eq!(seen(0), seen(START + from as u64));
    }
}
