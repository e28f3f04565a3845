//! Capture files through this reader and another one, and capture files damaged in every way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking, in its helper functions too"
)]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

use std::io::{Cursor, Write};

use nfsrdma_capture_file::CaptureFrameSource;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};
use proptest::collection::vec;
use proptest::prelude::*;

/// Time in nanoseconds, link type, length on the wire, bytes.
type Seen = (i128, u32, u32, Vec<u8>);

/// Returns the frames, and the number of errors.
fn ours(mut source: CaptureFrameSource) -> (Vec<Seen>, usize) {
    let (mut seen, mut errors) = (Vec::new(), 0);
    loop {
        match source.next() {
            Ok(Some(frame)) => {
                assert_eq!(frame.number.0, seen.len() as u64 + 1);
                assert!(frame.bytes.len() <= frame.length as usize);
                seen.push((frame.time.0.into(), frame.link.0, frame.length, frame.bytes.to_vec()));
            }
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.to_string().lines().count(), 1, "{error}");
                errors += 1;
            }
        }
        assert!(source.comments().count() < 1 << 16 && source.interfaces().count() <= 1 << 16);
    }
    assert!(matches!(source.next(), Ok(None)), "the end stays the end");
    (seen, errors)
}

fn of(bytes: &[u8]) -> CaptureFrameSource {
    CaptureFrameSource::from_reader("test", Cursor::new(bytes.to_vec()))
}

/// Returns the frames of a valid file, as read by pcap-parser.
fn theirs(bytes: &[u8]) -> Vec<Seen> {
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { theirs_pcapng(bytes) } else { theirs_pcap(bytes) }
}

fn theirs_pcap(bytes: &[u8]) -> Vec<Seen> {
    let mut reader = LegacyPcapReader::new(1 << 20, bytes).unwrap();
    let (mut seen, mut link, mut unit) = (Vec::new(), 0, 0);
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        link = header.network.0.cast_unsigned();
                        unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
                    }
                    PcapBlockOwned::Legacy(record) => {
                        let time = i128::from(record.ts_sec) * 1_000_000_000 + i128::from(record.ts_usec) * unit;
                        seen.push((time, link, record.origlen, record.data[..record.caplen as usize].to_vec()));
                    }
                    PcapBlockOwned::NG(_) => unreachable!(),
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return seen,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn theirs_pcapng(bytes: &[u8]) -> Vec<Seen> {
    let mut reader = PcapNGReader::new(1 << 20, bytes).unwrap();
    let mut seen = Vec::new();
    let mut interfaces: Vec<(u32, u8, i64)> = Vec::new();
    let mut big = false;
    loop {
        match reader.next() {
            Ok((used, PcapBlockOwned::NG(block))) => {
                match block {
                    Block::SectionHeader(section) => {
                        interfaces.clear();
                        big = section.big_endian();
                    }
                    Block::InterfaceDescription(interface) => interfaces.push((
                        interface.linktype.0.cast_unsigned(),
                        interface.if_tsresol,
                        // pcap-parser 0.17 takes the offset for little-endian in every section.
                        if big { interface.ts_offset().swap_bytes() } else { interface.ts_offset() },
                    )),
                    Block::EnhancedPacket(packet) => {
                        let (link, resolution, offset) = interfaces[packet.if_id as usize];
                        let ticks = i128::from(packet.ts_high) << 32 | i128::from(packet.ts_low);
                        let power = u32::from(resolution & 0x7f);
                        let second = if resolution < 0x80 { 10_i128.pow(power) } else { 1 << power };
                        let time = ticks * 1_000_000_000 / second + i128::from(offset) * 1_000_000_000;
                        let data = packet.data[..packet.caplen as usize].to_vec();
                        seen.push((time, link, packet.origlen, data));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Ok(_) => unreachable!(),
            Err(PcapError::Eof) => return seen,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Encoder of numbers in a byte order.
#[derive(Clone, Copy, Debug)]
struct Order {
    big: bool,
}

impl Order {
    fn u16(self, n: u16) -> [u8; 2] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn u32(self, n: u32) -> [u8; 4] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| self.u32(*word)).collect()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len() as u32 + 12;
        [&self.words(&[kind, length]), body, &self.u32(length)].concat()
    }
}

fn order() -> impl Strategy<Value = Order> {
    any::<bool>().prop_map(|big| Order { big })
}

fn padded(mut data: Vec<u8>) -> Vec<u8> {
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

fn pcap() -> impl Strategy<Value = Vec<u8>> {
    let record = (any::<u32>(), 0..1_000_000_u32, vec(any::<u8>(), 0..300), 0..100_u32);
    (order(), any::<bool>(), 0..300_u32, vec(record, 0..20)).prop_map(|(order, nano, link, records)| {
        let magic = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut file = order.u32(magic).to_vec();
        file.extend(order.u16(2));
        file.extend(order.u16(4));
        file.extend(order.words(&[0, 0, 65535, link]));
        for (seconds, fraction, data, cut) in records {
            let captured = data.len() as u32;
            file.extend(order.words(&[seconds, fraction, captured, captured + cut]));
            file.extend(data);
        }
        file
    })
}

/// Packets of a section: interface, time, data, bytes truncated, and `true` if another block precedes it.
type Packets = Vec<(prop::sample::Index, u64, Vec<u8>, u32, bool)>;

fn section() -> impl Strategy<Value = Vec<u8>> {
    let resolution = prop_oneof![0..=18_u8, (0x80..=0xc0_u8)];
    let interfaces = vec((0..300_u16, resolution, -1000..1000_i64), 1..4);
    let packet = (any::<prop::sample::Index>(), 0..1_u64 << 33, vec(any::<u8>(), 0..300), 0..100_u32, any::<bool>());
    (order(), interfaces, vec(packet, 0..12)).prop_map(|(order, interfaces, packets): (_, _, Packets)| {
        let version = [order.u16(1), order.u16(0)].concat();
        let body = [&order.u32(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        let mut file = order.block(0x0a0d_0d0a, &body);
        for (link, resolution, offset) in &interfaces {
            let seconds = if order.big { offset.to_be_bytes() } else { offset.to_le_bytes() };
            let body = [
                &order.u16(*link)[..],
                &[0; 6],
                &[order.u16(9), order.u16(1)].concat(),
                &[*resolution, 0, 0, 0],
                &[order.u16(14), order.u16(8)].concat(),
                &seconds,
                &[0; 4],
            ];
            file.extend(order.block(1, &body.concat()));
        }
        for (interface, ticks, data, cut, other) in packets {
            if other {
                file.extend(order.block(0x7fff, &padded(data.clone())));
            }
            let captured = data.len() as u32;
            let id = interface.index(interfaces.len()) as u32;
            let mut body =
                order.words(&[id, (ticks >> 32) as u32, ticks as u32, captured, captured.saturating_add(cut)]);
            body.extend(padded(data));
            body.extend([order.u16(1), order.u16(2)].concat());
            body.extend(b"hi\0\0\0\0\0\0");
            file.extend(order.block(6, &body));
        }
        file
    })
}

fn pcapng() -> impl Strategy<Value = Vec<u8>> {
    vec(section(), 1..4).prop_map(|sections| sections.concat())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn capture() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop_oneof![pcap(), pcapng()];
    (plain, 0..4_u8).prop_map(|(plain, packing)| match packing {
        0 => gzip(&plain),
        1 => zstd(&plain),
        _ => plain,
    })
}

/// Magic numbers of captures and compressed data.
const MAGICS: &[&[u8]] = &[
    &[0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4],
    &[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0],
    &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
    &[0x1f, 0x8b, 8],
    &[0x28, 0xb5, 0x2f, 0xfd],
    &[0x50, 0x2a, 0x4d, 0x18],
    &[],
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn another_reader_sees_the_same_frames(file in prop_oneof![pcap(), pcapng()]) {
        let (seen, errors) = ours(of(&file));
        prop_assert_eq!(errors, 0);
        prop_assert_eq!(&seen, &theirs(&file));
        prop_assert_eq!(&ours(of(&gzip(&file))), &(seen.clone(), 0));
        prop_assert_eq!(&ours(of(&zstd(&file))), &(seen, 0));
    }

    #[test]
    fn a_file_in_small_pieces_is_the_same_file(file in capture()) {
        struct Dribble(Cursor<Vec<u8>>);
        impl std::io::Read for Dribble {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let some = into.len().min(7);
                self.0.read(&mut into[..some])
            }
        }
        let pieces = CaptureFrameSource::from_reader("test", Dribble(Cursor::new(file.clone())));
        prop_assert_eq!(ours(pieces), ours(of(&file)));
    }

    #[test]
    fn a_cut_file_gives_the_first_frames_of_the_whole_one(file in prop_oneof![pcap(), pcapng()], at in any::<prop::sample::Index>()) {
        let (whole, _) = ours(of(&file));
        let (part, errors) = ours(of(&file[..at.index(file.len())]));
        prop_assert!(whole.starts_with(&part));
        prop_assert!(errors <= 1);
    }

    #[test]
    fn damage_never_panics_and_always_ends(
        mut file in capture(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        at in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if cut {
            file.truncate(at.index(file.len() + 1));
        }
        let (_, errors) = ours(of(&file));
        prop_assert!(errors <= 1);
    }

    #[test]
    fn noise_after_any_magic_never_panics(
        magic in prop::sample::select(MAGICS),
        noise in vec(any::<u8>(), 0..2000),
    ) {
        let (_, errors) = ours(of(&[magic, &noise].concat()));
        prop_assert!(errors <= 1);
    }

    #[test]
    fn merging_keeps_every_frame_and_the_order_within_each_file(files in vec(pcap(), 0..5)) {
        let alone: Vec<Vec<Seen>> = files.iter().map(|file| ours(of(file)).0).collect();
        let (merged, errors) = ours(CaptureFrameSource::merged(files.iter().map(|file| of(file))));
        prop_assert_eq!(errors, 0);
        prop_assert_eq!(merged.len(), alone.iter().map(Vec::len).sum::<usize>());
        let mut heads = vec![0; alone.len()];
        for frame in merged {
            let earliest = (0..alone.len()).filter(|i| heads[*i] < alone[*i].len()).min_by_key(|i| (alone[*i][heads[*i]].0, *i));
            let from = earliest.unwrap();
            prop_assert_eq!(&frame, &alone[from][heads[from]]);
            heads[from] += 1;
        }
    }
}

#[test]
fn a_real_capture_is_the_same_to_both_readers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/rxe-v42-deleg.pcap");
    let file = std::fs::read(path).unwrap();
    let (seen, errors) = ours(CaptureFrameSource::open([path]).unwrap());
    assert_eq!(errors, 0);
    assert!(!seen.is_empty());
    assert_eq!(seen, theirs(&file));
}

#[test]
fn progress_of_a_file_comes_to_its_length() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/rxe-v42-deleg.pcap");
    let mut source = CaptureFrameSource::open([path]).unwrap();
    let length = std::fs::metadata(path).unwrap().len();
    assert_eq!((source.progress().read_bytes, source.progress().total_bytes), (0, Some(length)));
    while source.next().unwrap().is_some() {}
    assert_eq!(source.progress().read_bytes, length);
}
