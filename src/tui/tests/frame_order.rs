//! The sorted packet list, compared with the frames of the file.

use std::cmp::Reverse;

use nfsrdma_capture_file::CaptureFrameSource;
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Screen, path};
use crate::tui::app::filtered_sorted_frame_list::FrameColumn;

const CAPTURE: &str = "rxe-v42.pcap";

/// Returns the number and length of every frame of the file.
fn lengths() -> Vec<(u64, u32)> {
    let mut source = CaptureFrameSource::open([path(CAPTURE)]).unwrap();
    let mut lengths = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        lengths.push((frame.number.0, frame.length));
    }
    lengths
}

fn shown(screen: &Screen) -> Vec<u64> {
    screen.app.frame_list.lines.as_ref().unwrap().lines_from(0).map(|line| line.number.0).collect()
}

fn by_length(mut frames: Vec<(u64, u32)>) -> Vec<u64> {
    frames.sort_by_key(|(_, length)| Reverse(*length));
    frames.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn frames_are_sorted_by_length_and_the_other_way_round() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    // TIME, SOURCE, DESTINATION, PROTO, BYTES.
    screen.keys("5>>>>>");
    assert_eq!(screen.app.frame_list.sort.by, FrameColumn::Bytes);
    let expected = by_length(lengths());
    assert_eq!(shown(&screen), expected);
    let text = screen.text();
    assert!(text.contains("sorted by BYTES") && text.contains("1,978 of 1,978 frames"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains(" BYTES▼ "), "{text}");
    screen.press(KeyCode::Home);
    assert_eq!(screen.app.frame_list.at, expected[0]);
    screen.keys("j");
    assert_eq!(screen.app.frame_list.at, expected[1]);
    // The cursor stays on its frame when the order is reversed.
    screen.keys("r");
    assert_eq!(screen.app.frame_list.at, expected[1]);
    let lengths: std::collections::HashMap<u64, u32> = lengths().into_iter().collect();
    assert!(shown(&screen).is_sorted_by_key(|number| lengths[number]));
    // In capture order no frames need to be loaded.
    screen.keys("<<<<<");
    assert!(screen.app.frame_list.sort.is_capture_order() && screen.app.frame_list.lines.is_none());
    assert_eq!(screen.app.frame_list.at, expected[1]);
}

#[test]
fn frames_that_a_filter_selects_are_searched_in_sorted_order() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("5").ask('f', "frame.number > 600 && frame.number < 700").keys(">>>>>");
    let selected: Vec<_> = lengths().into_iter().filter(|(number, _)| (601..700).contains(number)).collect();
    let expected = by_length(selected);
    assert_eq!(shown(&screen), expected);
    screen.press(KeyCode::Home).ask('/', "ack");
    let place = expected.iter().position(|number| *number == screen.app.frame_list.at).unwrap();
    let has_ack = |number: &u64| {
        let held = screen.app.frame_list.lines.as_ref().unwrap();
        held.get(held.position_of(*number)).unwrap().text.to_ascii_lowercase().contains("ack")
    };
    assert_eq!(expected.iter().skip(1).position(has_ack).map(|at| at + 1), Some(place));
    // Without the filter all frames have this order.
    screen.keys("u");
    assert_eq!(shown(&screen).len(), 1978);
}

#[test]
fn right_scrolls_the_packet_list() {
    for keys in ["5", "5>>>>>"] {
        let mut screen = Screen::open(CAPTURE, 40, 20);
        screen.keys(keys);
        let text = screen.text();
        assert!(text.contains("INFO") && !text.contains("Ack, MSN 1"), "{text}");
        screen.ask('g', "7");
        for _ in 0..3 {
            screen.press(KeyCode::Right);
        }
        let text = screen.text();
        assert!(text.contains("Ack, MSN 1") && !text.contains("FRAME"), "{text}");
        for _ in 0..3 {
            screen.press(KeyCode::Left);
        }
        assert!(screen.text().contains(" FRAME        TIME PROTO"), "{}", screen.text());
    }
}

#[test]
fn every_column_sorts_and_a_click_on_its_name_does_so_too() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("5");
    for column in FrameColumn::ALL {
        let held = screen.app.frame_list.lines.as_ref();
        let cells: Vec<_> = held.iter().flat_map(|held| held.lines_from(0)).collect();
        let is_sorted = match column {
            FrameColumn::Number => held.is_none(),
            FrameColumn::Time => cells.is_sorted_by_key(|line| line.cells.time),
            FrameColumn::Source => cells.is_sorted_by_key(|line| line.cells.source),
            FrameColumn::Destination => cells.is_sorted_by_key(|line| line.cells.destination),
            FrameColumn::Protocol => cells.is_sorted_by_key(|line| &line.cells.protocol),
            FrameColumn::Bytes => cells.is_sorted_by_key(|line| Reverse(line.cells.length_bytes)),
            FrameColumn::Info => cells.is_sorted_by_key(|line| &line.cells.info),
        };
        assert!(is_sorted && screen.app.frame_list.sort.by == column, "{column:?}");
        screen.keys(">");
    }
    assert!(screen.app.frame_list.sort.is_capture_order());
    let (place, number) = screen.app.areas.headings[4];
    assert_eq!(FrameColumn::ALL[number], FrameColumn::Protocol);
    let kind = MouseEventKind::Down(MouseButton::Left);
    let (column, row) = (place.x + place.width / 2, place.y);
    let click = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    screen.app.event(&Event::Mouse(click));
    screen.settle();
    assert_eq!(screen.app.frame_list.sort.by, FrameColumn::Protocol);
    screen.app.event(&Event::Mouse(click));
    screen.settle();
    assert!(screen.app.frame_list.sort.is_descending);
}
