use nfsrdma_analysis::names::FileNames;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_flow::{Flow, FlowLimits};

use super::capture;
use crate::output::frames::FrameListWriter;
use crate::output::settings::TimeFormat;
use crate::output::style::{Glyphs, TerminalProfile, columns};

/// Returns the lines of the first frames of a capture.
fn frames(name: &str, screen: TerminalProfile, count: u64) -> String {
    let (mut source, mut flow) = (capture(name), Flow::new(FlowLimits::default()));
    let (mut list, mut out) = (FrameListWriter::new(screen, TimeFormat::Relative), Vec::new());
    let mut names = FileNames::default();
    while let Some(frame) = source.next().unwrap() {
        if frame.number.0 > count {
            break;
        }
        let (datagram, meaning) = flow.process_frame_observed(&frame, &mut NullFieldObserver);
        names.infer_from_frame(&flow);
        list.frame(&mut out, &frame, &datagram, meaning, &flow, &mut names).unwrap();
        while flow.next_transaction().is_some() {}
    }
    String::from_utf8(out).unwrap()
}

/// Returns the lines that contain a text, without number and time.
fn lines(list: &str, text: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| line.contains(text));
    lines.map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_first_frames_of_a_mount() {
    insta::assert_snapshot!(frames("rxe-v3.pcap", TerminalProfile::pipe(), 60));
}

#[test]
fn a_packet_list_of_100_columns() {
    insta::assert_snapshot!(frames("rxe-v42-deleg.pcap", TerminalProfile::terminal(100), 100));
}

#[test]
fn data_names_its_chunk_and_the_transaction() {
    let list = frames("rxe-v42.pcap", TerminalProfile::pipe(), 600);
    assert_eq!(
        lines(&list, "0xb38df27d"),
        [
            "10.9.0.2 → 10.9.0.1 NFS 286 V4.2 Call READ /data/w/s2k 0+4096 xid 0xb38df27d (RC Send Only QP=0x000011 PSN=11096522)",
            "10.9.0.1 → 10.9.0.2 RoCEv2 1098 1024 bytes written to Write chunk 0 of 0xb38df27d (RC RDMA Write First QP=0x000011 PSN=4083044)",
            "10.9.0.1 → 10.9.0.2 RoCEv2 1034 976 bytes written to Write chunk 0 of 0xb38df27d (RC RDMA Write Last QP=0x000011 PSN=4083045)",
            "10.9.0.1 → 10.9.0.2 NFS 218 V4.2 Reply READ ok xid 0xb38df27d, call in 590 (RC Send Only Invalidate QP=0x000011 PSN=4083046)",
        ]
    );
    let write = lines(&list, "0x9c8df27d");
    assert!(
        write[1].contains("asks for 8192 bytes of Read chunk 0 of 0x9c8df27d (RC RDMA Read Request"),
        "{}",
        write[1]
    );
    assert!(write[2].contains("1024 bytes read from Read chunk 0 of 0x9c8df27d"), "{}", write[2]);
}

#[test]
fn naks_and_retransmissions_are_shown() {
    let list = frames("rxe-v42-loss.pcap", TerminalProfile::pipe(), 2_560);
    assert!(!lines(&list, "NAK: PSN Sequence Error").is_empty());
    assert!(!lines(&list, "again V4.2 Reply").is_empty());
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for name in ["rxe-v42-loss.pcap", "rxe-v42-ip6.pcap.gz", "rxe-v3.pcap"] {
        for width in [1, 30, 80, 120, 160] {
            let list = frames(name, TerminalProfile::terminal(width), 2_560);
            assert!(list.lines().all(|line| columns(line) <= width), "{name} {width}");
        }
    }
}

#[test]
fn ascii_screens_get_ascii() {
    assert!(
        frames("rxe-v42.pcap", TerminalProfile { glyphs: Glyphs::ASCII, ..TerminalProfile::pipe() }, 2_000).is_ascii()
    );
}
