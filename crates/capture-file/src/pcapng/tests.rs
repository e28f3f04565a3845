//! Hand-written blocks, laid out as in the sections of the draft.

use super::super::error::SourceErrorKind;
use super::super::frame_source::CaptureFrameSource;
use super::super::testing::{drain, failure, frames, kept, source};
use super::*;

/// Returns a block with its type, and its length around the body, in a byte order.
fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 12) as u32;
    [&bytes(order, kind), &bytes(order, length), body, &bytes(order, length)].concat()
}

fn bytes(order: ByteOrder, word: u32) -> [u8; 4] {
    match order {
        ByteOrder::Little => word.to_le_bytes(),
        ByteOrder::Big => word.to_be_bytes(),
    }
}

fn little(kind: u32, body: &[u8]) -> Vec<u8> {
    block(ByteOrder::Little, kind, body)
}

const SHB_LITTLE: &[u8] = &[
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, //
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
];
const SHB_BIG: &[u8] = &[
    0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, //
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28,
];

/// Interface Description Block: link type, reserved, snap length, options.
fn idb(link: u8, snap_length: u8, options: &[u8]) -> Vec<u8> {
    little(1, &[&[link, 0, 0, 0, snap_length, 0, 0, 0], options].concat())
}

/// Enhanced Packet Block: interface, high and low half of the time, captured and original length, data, options.
fn epb(interface: u8, time: u8, data: &[u8], options: &[u8]) -> Vec<u8> {
    let captured = data.len() as u8;
    let mut body = vec![interface, 0, 0, 0, 0, 0, 0, 0, time, 0, 0, 0, captured, 0, 0, 0, 100, 0, 0, 0];
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(options);
    little(6, &body)
}

fn file(blocks: &[&[u8]]) -> Vec<u8> {
    [&[SHB_LITTLE], blocks].concat().concat()
}

fn blames(bytes: &[u8], kind: impl Fn(&SourceErrorKind) -> bool) {
    let (_, error) = failure(bytes);
    assert!(kind(error.kind()), "{error}");
}

#[test]
fn an_enhanced_packet_has_the_link_type_and_the_clock_of_its_interface() {
    let nanoseconds = [9, 0, 1, 0, 9, 0, 0, 0];
    let bytes = file(&[&idb(1, 0, &[]), &idb(247, 0, &nanoseconds), &epb(1, 7, b"abc", &[]), &epb(0, 7, b"d", &[])]);
    assert_eq!(
        frames(&bytes),
        [kept(1, 7, LinkType::INFINIBAND, 100, b"abc"), kept(2, 7_000, LinkType::ETHERNET, 100, b"d")]
    );
}

#[test]
fn the_time_is_two_halves_the_higher_one_first() {
    let packet = little(6, &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let bytes = file(&[&idb(1, 0, &[]), &packet]);
    assert_eq!(frames(&bytes)[0].time, Timestamp(((1 << 32) + 2) * 1000));
}

#[test]
fn an_offset_in_seconds_is_added_to_the_times_of_its_interface() {
    let offset = [14, 0, 8, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let bytes = file(&[&idb(1, 0, &offset), &epb(0, 7, b"a", &[])]);
    assert_eq!(frames(&bytes)[0].time, Timestamp(7_000 - 1_000_000_000));
}

#[test]
fn each_section_has_its_own_byte_order_and_its_own_interfaces() {
    let order = ByteOrder::Big;
    let big = [
        SHB_BIG,
        &block(order, 1, &[0, 247, 0, 0, 0, 0, 0, 0]),
        &block(order, 6, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, b'b', 0, 0, 0]),
    ]
    .concat();
    let bytes =
        file(&[&idb(1, 0, &[]), &epb(0, 7, b"a", &[]), &big, SHB_LITTLE, &idb(1, 0, &[]), &epb(0, 8, b"c", &[])]);
    assert_eq!(
        frames(&bytes),
        [
            kept(1, 7_000, LinkType::ETHERNET, 100, b"a"),
            kept(2, 9_000, LinkType::INFINIBAND, 2, b"b"),
            kept(3, 8_000, LinkType::ETHERNET, 100, b"c"),
        ]
    );
    blames(&file(&[&idb(1, 0, &[]), SHB_LITTLE, &epb(0, 7, b"a", &[])]), |kind| {
        matches!(kind, SourceErrorKind::UnknownInterface(0))
    });
}

#[test]
fn a_simple_packet_is_cut_by_the_snap_length_and_has_the_time_of_the_packet_before_it() {
    let simple = little(3, &[9, 0, 0, 0, b'a', b'b', b'c', 0]);
    let bytes = file(&[&idb(1, 3, &[]), &simple, &epb(0, 7, b"x", &[]), &simple]);
    let frames = frames(&bytes);
    assert_eq!(frames[0], kept(1, 0, LinkType::ETHERNET, 9, b"abc"));
    assert_eq!(frames[2], kept(3, 7_000, LinkType::ETHERNET, 9, b"abc"));
    let whole = little(3, &[3, 0, 0, 0, b'a', b'b', b'c', 0]);
    assert_eq!(super::super::testing::frames(&file(&[&idb(1, 0, &[]), &whole]))[0].bytes, b"abc");
    blames(&file(&[&simple]), |kind| matches!(kind, SourceErrorKind::UnknownInterface(0)));
}

#[test]
fn the_obsolete_packet_block_has_16_bits_of_interface_and_16_of_drops() {
    let body = [1, 0, 0xff, 0xff, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, b'a', b'b', 0, 0];
    let bytes = file(&[&idb(1, 0, &[]), &idb(113, 0, &[]), &little(2, &body)]);
    assert_eq!(frames(&bytes), [kept(1, 7_000, LinkType::LINUX_SLL, 5, b"ab")]);
}

#[test]
fn comments_of_the_last_packet_are_at_hand_with_its_bytes() {
    let options =
        [2, 0, 4, 0, 0, 0, 0, 0, 1, 0, 5, 0, b'f', b'i', b'r', b's', b't', 0, 0, 0, 1, 0, 1, 0, 0xff, 0, 0, 0];
    let end = [0, 0, 0, 0];
    let bytes = file(&[&idb(1, 0, &[]), &epb(0, 1, b"abc", &[&options[..], &end].concat()), &epb(0, 2, b"d", &[])]);
    let mut source = source(&bytes);
    source.next().unwrap();
    assert_eq!(source.comments().collect::<Vec<_>>(), ["first", "\u{fffd}"]);
    assert_eq!(source.frame().unwrap().bytes, b"abc");
    source.next().unwrap();
    assert_eq!(source.comments().count(), 0);
}

#[test]
fn interfaces_have_names_and_the_last_counters_of_their_statistics() {
    let statistics = |dropped: u8| {
        let counter = |code: u8, count: u8| [code, 0, 8, 0, count, 0, 0, 0, 0, 0, 0, 0];
        little(5, &[&[0; 12][..], &counter(4, 50), &counter(5, dropped), &counter(7, 1)].concat())
    };
    let name = [2, 0, 4, 0, b'r', b'x', b'e', b'0'];
    let bytes =
        file(&[&idb(1, 96, &name), &statistics(1), &statistics(3), SHB_LITTLE, &idb(1, 0, &[]), &statistics(8)]);
    let first = bytes.len() - SHB_LITTLE.len() - idb(1, 0, &[]).len() - statistics(8).len();

    let mut one = source(&bytes[..first]);
    drain(&mut one);
    let (file, interface) = one.interfaces().next().unwrap();
    assert_eq!((file, interface.name.as_str(), interface.snap_length), ("test", "rxe0", 96));
    assert_eq!((interface.received, interface.dropped, one.dropped()), (Some(50), Some(4), Some(4)));

    let mut both = source(&bytes);
    drain(&mut both);
    assert_eq!(both.dropped(), Some(13), "sections add up");
    assert_eq!(CaptureFrameSource::merged([one, both]).dropped(), Some(17), "and so do files");
    assert_eq!(source(&bytes).dropped(), None);
}

#[test]
fn packets_that_passed_the_filter_are_received_ones_where_no_other_counter_is() {
    let accepted = |count: u8| little(5, &[&[0; 12][..], &[6, 0, 8, 0, count, 0, 0, 0, 0, 0, 0, 0]].concat());
    let mut source = source(&file(&[&idb(1, 96, &[]), &accepted(20), &accepted(30)]));
    drain(&mut source);
    assert_eq!(source.interfaces().next().unwrap().1.received, Some(30));
}

#[test]
fn blocks_without_packets_of_any_length_are_skipped() {
    let secrets = little(10, &vec![0x55; 1 << 20]);
    let custom = little(0x0bad, &[1, 2, 3, 4]);
    let bytes =
        file(&[&custom, &idb(1, 0, &[]), &secrets, &epb(0, 7, b"a", &[]), &little(4, &[]), &little(0x7fff, &[])]);
    assert_eq!(frames(&bytes).len(), 1);
    assert_eq!(super::super::testing::frames(&file(&[])), []);
}

#[test]
fn a_wrong_length_after_the_body_is_not_looked_at() {
    let mut packet = epb(0, 7, b"a", &[]);
    if let Some(last) = packet.last_chunk_mut::<4>() {
        *last = [0; 4];
    }
    assert_eq!(super::super::testing::frames(&file(&[&idb(1, 0, &[]), &packet, &packet])).len(), 2);
}

#[test]
fn a_truncated_last_block_is_an_error_after_the_packets() {
    let bytes = file(&[&idb(1, 0, &[]), &epb(0, 7, b"a", &[]), &epb(0, 8, b"b", &[])]);
    let start = bytes.len() - 36;
    for cut in 1..36 {
        let (frames, error) = failure(&bytes[..bytes.len() - cut]);
        assert_eq!(frames.len(), 1);
        assert!(
            matches!(error.kind(), SourceErrorKind::Truncated { available_bytes, .. } if *available_bytes == 36 - cut as u64),
            "{error}"
        );
        assert_eq!((error.frame().map(|n| n.0), error.offset()), (Some(2), Some(start as u64)));
    }
    let skipped = file(&[&little(10, &[0; 100])]);
    let (_, error) = failure(&skipped[..100]);
    assert!(matches!(error.kind(), SourceErrorKind::Truncated { available_bytes: 72, required_bytes: 112 }), "{error}");
    assert_eq!(error.offset(), Some(28));
    for cut in 4..28 {
        blames(&SHB_LITTLE[..cut], |kind| matches!(kind, SourceErrorKind::TruncatedHeader { required_bytes: 28, .. }));
    }
}

#[test]
fn a_block_shorter_than_its_fixed_part_is_an_error() {
    for (kind, least) in [(1, 20), (2, 32), (3, 16), (5, 24), (6, 32), (10, 12), (0x0a0d_0d0a, 28)] {
        for length in (0..least).step_by(4) {
            let mut block = little(kind, &[0; 100]);
            block[4..8].copy_from_slice(&u32::to_le_bytes(length));
            block[8..12].copy_from_slice(&[0x4d, 0x3c, 0x2b, 0x1a]);
            blames(
                &file(&[&idb(1, 0, &[]), &block]),
                |error| matches!(error, SourceErrorKind::Block(k, what) if *k == kind && what.contains("shorter")),
            );
        }
    }
}

#[test]
fn lengths_that_contradict_each_other_are_errors() {
    let mut packet = epb(0, 7, b"abcd", &[]);
    packet[20] = 5;
    blames(&file(&[&idb(1, 0, &[]), &packet]), |kind| matches!(kind, SourceErrorKind::Block(6, _)));
    packet[4] += 2;
    blames(
        &file(&[&idb(1, 0, &[]), &packet]),
        |kind| matches!(kind, SourceErrorKind::Block(6, what) if what.contains("multiple of 4")),
    );
    packet[4..8].copy_from_slice(&[0, 0, 0, 0x40]);
    blames(&file(&[&idb(1, 0, &[]), &packet]), |kind| matches!(kind, SourceErrorKind::ImplausibleLength(0x4000_0000)));
}

#[test]
fn a_packet_of_an_interface_that_is_not_described_is_an_error() {
    let bytes = file(&[&idb(1, 0, &[]), &epb(1, 7, b"a", &[])]);
    let (_, error) = failure(&bytes);
    assert_eq!(
        error.to_string(),
        "test: frame 1, byte 48: packet of interface 1, which the section does not define; \
         the file is damaged from here on; earlier frames are valid"
    );
}

#[test]
fn a_section_without_byte_order_or_of_another_version_is_an_error() {
    let mut bytes = SHB_LITTLE.to_vec();
    bytes[12] = 2;
    blames(&bytes, |kind| matches!(kind, SourceErrorKind::Version("pcapng", 2, 0)));
    bytes[8] = 0;
    blames(&bytes, |kind| matches!(kind, SourceErrorKind::Block(SECTION_HEADER, _)));
}

#[test]
fn options_that_do_not_fit_end_the_options_and_not_the_file() {
    let name_then_junk = [2, 0, 1, 0, b'x', 0, 0, 0, 9, 0, 200, 0, 9, 0, 0, 0];
    let mut source = source(&file(&[&idb(1, 0, &name_then_junk), &epb(0, 7, b"a", &[1, 0, 99, 0])]));
    let frame = source.next().unwrap().unwrap();
    assert_eq!(frame.time, Timestamp(7_000));
    assert_eq!(source.comments().count(), 0);
    assert_eq!(source.interfaces().next().unwrap().1.name, "x");
}

#[test]
fn the_memory_of_interfaces_is_bounded() {
    let long = [&[2, 0, 0x00, 0x10][..], &vec![b'n'; 4096]].concat();
    let mut one = source(&file(&[&idb(1, 0, &long)]));
    drain(&mut one);
    assert_eq!(one.interfaces().next().unwrap().1.name.len(), MAX_NAME_BYTES);
    blames(&file(&[&idb(1, 0, &[]).repeat(MAX_INTERFACES + 1)]), |kind| {
        matches!(kind, SourceErrorKind::Block(INTERFACE_DESCRIPTION, _))
    });
}
