//! Connections with RPC on which frames were not decoded.

use std::io::Cursor;

use nfsrdma_capture_file::CaptureFrameSource;

use super::{Screen, SharedCapture, TuiOptions, path};

/// One's complement sum of 16-bit words (RFC 1071).
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Returns the Ethernet frame of a TCP segment like `like`, with other numbers, flags and data.
fn segment(like: &[u8], (seq, ack): (u32, u32), flags: u8, data: &[u8]) -> Vec<u8> {
    let (mut ip, mut tcp) = (like[14..34].to_vec(), like[34..54].to_vec());
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    (tcp[12], tcp[13]) = (0x50, flags);
    tcp[16..18].fill(0);
    let length = (20 + data.len()) as u16;
    ip[2..4].copy_from_slice(&(20 + length).to_be_bytes());
    ip[10..12].fill(0);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    let sum = checksum(&[&ip[12..20], &[0, 6], &length.to_be_bytes(), &tcp, data]);
    tcp[16..18].copy_from_slice(&sum);
    [&like[..14], &ip, &tcp, data].concat()
}

/// "All complete" never stands beside frames of a connection with RPC that were not decoded.
#[test]
fn undecoded_stream_is_not_complete() {
    let mut source = CaptureFrameSource::open([path("tcp-v3.pcap.gz")]).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        frames.push((frame.time.0, frame.bytes.to_vec()));
    }
    let is_nfs = |at: usize| {
        move |(_, frame): &&(i64, Vec<u8>)| {
            frame.len() > 54 && frame[12..14] == [8, 0] && frame[23] == 6 && frame[at..at + 2] == 666_u16.to_be_bytes()
        }
    };
    let [client, server] = [34, 36].map(|at| frames.iter().rfind(is_nfs(at)).unwrap().1.clone());
    let end = frames.last().unwrap().0;
    // A new connection on the same ports, whose data are not RPC.
    let data: Vec<u8> = (0..1000).map(|at| (at % 64) as u8 | 0x40).collect();
    let added = [
        segment(&client, (1000, 0), 0x02, &[]),
        segment(&server, (5000, 1001), 0x12, &[]),
        segment(&client, (1001, 5001), 0x10, &[]),
        segment(&client, (1001, 5001), 0x18, &data),
        segment(&client, (2001, 5001), 0x18, &data),
    ];
    frames.extend((1..).map(|at| end + at * 1_000_000).zip(added));
    let mut bytes = vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1];
    for (time, frame) in frames {
        let words = [time / 1_000_000_000, time % 1_000_000_000, frame.len() as i64, frame.len() as i64];
        bytes.extend(words.into_iter().flat_map(|word| (word as u32).to_be_bytes()));
        bytes.extend(frame);
    }
    let source = CaptureFrameSource::from_reader("pipe", Cursor::new(bytes));
    let mut screen = Screen::of(SharedCapture::received_once("pipe", source, 16 << 20), 120, 30, TuiOptions::default());
    screen.keys("2");
    let text = screen.text();
    assert!(text.contains("201 transactions (the decoded ones complete, 2 frames not decoded)"), "{text}");
    assert!(!text.contains("all complete"), "{text}");
}
