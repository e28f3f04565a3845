//! Reloaded data equals the data read first.

use std::time::Instant;

use nfsrdma_capture_file::CaptureFrameSource;
use ratatui::crossterm::event::KeyCode;

use super::{PATIENCE, Screen, TuiOptions, path};
use crate::output::tree::lines::{TreeLine, TreeLineByteSource};
use crate::tui::frame_reload::detail_subject::DetailSubject;
use crate::tui::rereadable_capture::SharedCapture;
use crate::tui::tui_view::TuiView;

/// Visits about a dozen Transactions across the capture with their trees; more would be slow in a debug build.
fn several(screen: &mut Screen, mut look: impl FnMut(&Screen, u64)) {
    let count = screen.app.rows().len();
    for number in (1..=count).step_by(count / 12 + 1) {
        screen.press(KeyCode::Home).ask('g', &format!("#{number}"));
        look(screen, number as u64);
    }
}

#[test]
fn transactions_of_every_transport_are_found_again_with_their_bytes() {
    for name in ["rxe-v42-deleg.pcap", "rxe-v42-mid.pcap.gz", "siw-v3.pcap.gz", "tcp-v42.pcap.gz"] {
        let mut screen = Screen::open(name, 80, 24);
        several(&mut screen, |screen, index| {
            let detail = screen.app.tree.detail.as_ref().unwrap();
            assert_eq!(detail.problem, None, "{name} {index}");
            let row = screen.app.entry().unwrap().row;
            assert_eq!(detail.frames.first(), Some(&row.first), "{name} {index}");
            assert!(detail.frames.last() <= Some(&row.last), "{name} {index}");
            for line in detail.lines.iter().filter(|line| line.origin != TreeLineByteSource::Nothing) {
                let bytes = &detail.bytes[&line.origin];
                assert!(line.bytes.as_ref().is_none_or(|range| range.end <= bytes.len()), "{name} {index} {line:?}");
            }
        });
    }
}

/// The highlighted bytes belong to the field: they contain its number.
#[test]
fn the_bytes_of_a_field_hold_its_value() {
    let mut screen = Screen::open("rxe-v42.pcap", 80, 24);
    let mut held = 0;
    screen.ask('g', "0xb38df27d");
    let detail = screen.app.tree.detail.as_ref().unwrap();
    let is_xid = |line: &&TreeLine| line.field.is_some_and(|field| field.name.ends_with(".xid"));
    for line in detail.lines.iter().filter(is_xid) {
        let range = line.bytes.clone().unwrap();
        assert_eq!(&detail.bytes[&line.origin][range], 0xb38d_f27d_u32.to_be_bytes(), "{line:?}");
        held += 1;
    }
    // In the RPC-over-RDMA header and in the RPC message, of Call and Reply.
    assert_eq!(held, 4);
}

#[test]
fn the_waterfall_is_as_long_as_the_latency_and_moves_the_bytes_of_the_chunks() {
    for name in ["rxe-v42.pcap", "rxe-v3.pcap"] {
        let mut screen = Screen::open(name, 80, 24);
        several(&mut screen, |screen, index| {
            let detail = screen.app.tree.detail.as_ref().unwrap();
            let row = screen.app.entry().unwrap().row;
            let (start, end) = detail.waterfall.times().unwrap();
            assert_eq!(end.nanoseconds_since(start), row.latency_ns, "{name} {index}");
            let all: u64 = detail.waterfall.bars.iter().map(|bar| bar.bytes).sum();
            assert_eq!(all, row.bytes, "{name} {index}: {:?}", detail.waterfall);
            assert!(detail.waterfall.bars.iter().all(|bar| !bar.is_open), "{name} {index}");
        });
    }
}

#[test]
fn frames_of_a_pipe_are_stored_and_evicted_ones_are_marked() {
    let source = CaptureFrameSource::open([path("rxe-v42.pcap")]).unwrap();
    let mut screen =
        Screen::of(SharedCapture::received_once("a pipe", source, 900 << 10), 120, 40, TuiOptions::default());
    assert_eq!(screen.app.rows().len(), 237);
    // The first Transaction may have been reloaded before its frames were evicted.
    screen.press(KeyCode::End).press(KeyCode::Home);
    assert!(screen.text().contains("its frames are no longer in memory"), "{}", screen.text());
    screen.press(KeyCode::End);
    let detail = screen.app.tree.detail.as_ref().unwrap();
    assert_eq!(detail.problem, None);
    assert!(detail.lines.len() > 20);
}

/// Opens a capture whose frames are received once, keeping `room` bytes of them, and processes all results.
fn once(name: &str, room: usize, width: u16) -> Screen {
    let source = CaptureFrameSource::open([path(name)]).unwrap();
    Screen::of(SharedCapture::received_once("a pipe", source, room / 2 * 3), width, 40, TuiOptions::default())
}

/// Saves, waits until it is done, and returns the message.
fn save(screen: &mut Screen, to: &str) -> String {
    screen.ask('W', to);
    let start = Instant::now();
    while screen.last_line().starts_with("saving") {
        assert!(start.elapsed() < PATIENCE, "{}", screen.last_line());
        screen.settle();
    }
    screen.app.message.as_ref().map(|message| message.text.clone()).unwrap_or_default()
}

fn saved_frames(file: &std::path::Path) -> Vec<Vec<u8>> {
    let mut source = CaptureFrameSource::open([file]).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        frames.push(frame.bytes.to_vec());
    }
    std::fs::remove_file(file).unwrap();
    frames
}

#[test]
fn transactions_of_a_pipe_are_saved_like_those_of_a_file() {
    let place = |name: &str| {
        let name = format!("nfsrdma-inspect-once-{name}-{}.pcapng", std::process::id());
        let file = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&file);
        file
    };
    let (kept, read) = (place("kept"), place("read"));
    let mut from_file = Screen::open("rxe-v42.pcap", 120, 40);
    let mut from_pipe = once("rxe-v42.pcap", 64 << 20, 120);
    for (screen, file) in [(&mut from_file, &read), (&mut from_pipe, &kept)] {
        screen.ask('g', "0xb38df27d").keys("m").ask('g', "0xbc8df27d").keys("m");
        let printed = save(screen, &file.display().to_string());
        assert_eq!(printed, format!("saved 2 transactions to {}", file.display()));
    }
    let frames = saved_frames(&kept);
    assert!(frames.len() > 20 && frames == saved_frames(&read));
    // All displayed Transactions.
    from_pipe.ask('f', "nfs.opcode == READ");
    let printed = save(&mut from_pipe, &format!("{} all", kept.display()));
    assert!(printed.starts_with("saved 9 transactions to "), "{printed}");
    assert!(saved_frames(&kept).len() > frames.len());
}

#[test]
fn transactions_of_a_pipe_that_cannot_be_saved_are_reported() {
    let mut screen = once("rxe-v42.pcap", 600 << 10, 120);
    let file = std::env::temp_dir().join(format!("nfsrdma-inspect-gone-{}.pcapng", std::process::id()));
    let _ = std::fs::remove_file(&file);
    screen.press(KeyCode::Home).keys("m").press(KeyCode::End).keys("m");
    let printed = save(&mut screen, &file.display().to_string());
    assert!(printed.starts_with("saved 1 transaction to "), "{printed}");
    assert!(printed.ends_with("; 1 are no longer in memory (--max-memory)"), "{printed}");
    assert!(!saved_frames(&file).is_empty());
    let printed = save(&mut screen, "/nonexistent/file");
    assert!(printed.contains("cannot write: no such directory /nonexistent"), "{printed}");
}

#[test]
fn a_filter_on_a_pipe_keeps_numbers_and_states_its_start() {
    let mut screen = once("rxe-v42.pcap", 600 << 10, 120);
    let last = |screen: &mut Screen| {
        screen.press(KeyCode::End);
        let entry = screen.app.entry().unwrap();
        (entry.row.index, entry.row.connection, entry.label().to_owned())
    };
    screen.ask('g', "0x318ef27d");
    let entry = screen.app.entry().unwrap();
    let before = (entry.row.index, entry.row.connection, entry.label().to_owned());
    screen.keys("=");
    assert_eq!(screen.app.rows().len(), 1, "{}", screen.text());
    assert_eq!(last(&mut screen), before);
    screen.keys("u").ask('f', "nfs.opcode == OPEN");
    let text = screen.text();
    assert!(text.contains(" of 237; only since ") && text.contains(" older frames are gone"), "{text}");
    assert!(screen.app.rows().len() < 29);
    screen.press(KeyCode::Home);
    assert!(!screen.text().contains("not in the capture"), "{}", screen.text());
    // Names inferred from frames that are gone.
    screen.keys("u").ask('f', "nfsrdma.path == \"/data/w/s100\" && nfs.opcode == LOCK");
    assert!(!screen.app.rows().is_empty(), "{}", screen.text());
}

#[test]
fn the_packet_list_counts_evicted_frames() {
    let mut screen = once("rxe-v42.pcap", 600 << 10, 120);
    screen.keys("5").press(KeyCode::Home);
    assert!(screen.text().contains("      1  no longer in memory"), "{}", screen.text());
}

#[test]
fn a_frame_shows_its_headers_and_the_message_that_it_completes() {
    let mut screen = Screen::open("rxe-v42.pcap", 120, 40);
    screen.ask('g', "0xb38df27d").keys("5");
    assert_eq!(screen.app.view, TuiView::Frames);
    let detail = screen.app.tree.detail.as_ref().unwrap();
    assert_eq!(detail.subject, DetailSubject::Frame(nfsrdma_dissectors::captured_frame::FrameNumber(590)));
    let has = |text: &str| detail.lines.iter().any(|line| line.text().contains(text));
    assert!(has("Base Transport Header") && has("Remote Procedure Call") && has("READ (25)"));
}
