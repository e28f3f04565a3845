//! Screens of an interface: the first line and the pending Calls, at each width.

use nfsrdma_capture_file::{CaptureFrameSource, CaptureInterfaceLinkState, CapturePacketCounters, ReadProgress};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{Screen, SharedCapture, TuiOptions, path};
use crate::tui::App;
use crate::tui::model::pending_calls_and_rates::{LiveActivitySnapshot, PendingCallRow};
use crate::tui::rereadable_capture::LiveCaptureStopCondition;
use crate::tui::tui_view::TuiView;

const WIDTHS: [u16; 4] = [40, 80, 120, 200];

struct Endless;

impl LiveCaptureStopCondition for Endless {
    fn frame(&mut self, _: Timestamp) -> bool {
        false
    }

    fn idle(&mut self) -> Timestamp {
        Timestamp(0)
    }
}

/// Changes the state of the interface.
fn set(app: &mut App, link: CaptureInterfaceLinkState, waiting: usize) {
    let progress = &mut app.unfiltered.progress;
    progress.is_over = false;
    progress.bytes = ReadProgress { read_bytes: 5_578_424, total_bytes: None };
    progress.link = Some(link);
    progress.dropped = Some(0);
    progress.counters = Some(CapturePacketCounters::default());
    let entry = app.unfiltered.rows.entries().find(|entry| entry.label().contains("READ /")).unwrap();
    let row = |number: usize| PendingCallRow {
        since: Timestamp(number as i64 * 250_000_000),
        first: FrameNumber(number as u64 + 1),
        label: entry.label().to_owned(),
        path: entry.path(),
        name_length: 4,
        connection: 12,
        client: nfsrdma_dissectors::address::Address::Unknown,
        xid: entry.row.xid,
        slot: Some(nfsrdma_analysis::call_session_slots::CallSessionSlot { session: Default::default(), slot: 17 }),
        phase: match number {
            0 => PendingTransactionPhase::Server,
            _ => PendingTransactionPhase::DataIn { moved_bytes: 8192, offered_bytes: 65536 },
        },
        copies: 1,
        is_reverse: false,
    };
    app.unfiltered.activity = LiveActivitySnapshot {
        now: Timestamp(4_070_000_000),
        pending_count: waiting + 1,
        old_count: waiting,
        pending: (0..waiting).map(row).collect(),
        ..LiveActivitySnapshot::default()
    };
}

/// Opens a capture as an interface.
fn interface() -> Screen {
    let source = CaptureFrameSource::open([path("rxe-v42.pcap")]).unwrap();
    let capture = SharedCapture::live("enp65s0f0", source, 4 << 20, Box::new(Endless));
    Screen::of(capture, 120, 30, TuiOptions::default())
}

impl Screen {
    /// Draws at a width without processing results, and returns the text.
    fn at_width(&mut self, width: u16) -> String {
        self.terminal = Terminal::new(TestBackend::new(width, 30)).unwrap();
        self.draw();
        self.text()
    }
}

#[test]
fn the_first_line_and_the_pending_calls_of_an_interface() {
    let mut screen = interface();
    set(&mut screen.app, CaptureInterfaceLinkState::Up, 4);
    for width in WIDTHS {
        let text = screen.at_width(width);
        let list = text.lines().take(8).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(format!("live_{width}"), list);
    }
    set(&mut screen.app, CaptureInterfaceLinkState::NoCarrier, 4);
    let lines: Vec<String> =
        WIDTHS.map(|width| screen.at_width(width).lines().next().unwrap_or_default().to_owned()).into();
    insta::assert_snapshot!("live_without_link", lines.join("\n"));
}

/// At each width each part of the first line is complete or missing, and the important ones are there.
#[test]
fn no_part_of_the_first_line_is_cut() {
    let mut screen = interface();
    let views = ["Transactions", "Operations", "Connections", "Files", "Frames", "Charts", "Trans", "Ops", "Conn"];
    let parts = ["enp65s0f0", "5.32 MiB", "NO LINK", "DOWN", "4 waiting", "4.07 s", "0 dropped"];
    for (link, word) in [
        (CaptureInterfaceLinkState::Up, ""),
        (CaptureInterfaceLinkState::NoCarrier, "NO LINK"),
        (CaptureInterfaceLinkState::Down, "DOWN"),
    ] {
        for waiting in [0, 4] {
            set(&mut screen.app, link, waiting);
            for (key, width) in "123456".chars().flat_map(|key| (40..=200).map(move |width| (key, width))) {
                screen.app.view = TuiView::ALL[key as usize - '1' as usize];
                let text = screen.at_width(width);
                let line = text.lines().next().unwrap();
                let names = line.split(' ').filter(|word| !word.is_empty());
                let state = names
                    .skip_while(|word| {
                        word.parse::<u8>().is_ok_and(|number| (1..=6).contains(&number)) || views.contains(word)
                    })
                    .collect::<Vec<_>>()
                    .join(" ");
                // "4 waiting" begins like the name of a view.
                let state = match state.strip_prefix("waiting") {
                    Some(rest) => format!("4 waiting{rest}"),
                    None => state,
                };
                for part in state.split(" · ").filter(|part| !part.is_empty()) {
                    assert!(parts.contains(&part), "{key} at {width}: {part:?} of {line:?}");
                }
                assert!(word.is_empty() || line.contains(word), "{key} at {width}: {line:?}");
                let has_both = word != "NO LINK" || width > 42;
                assert!(waiting == 0 || !has_both || line.contains("4 waiting"), "{key} at {width}: {line:?}");
                assert!(width < 70 || line.contains("0 dropped"), "{key} at {width}: {line:?}");
                assert!(width < 90 || line.contains("enp65s0f0"), "{key} at {width}: {line:?}");
            }
        }
    }
}

#[test]
fn a_pending_call_keeps_its_file_and_whole_numbers_at_any_width() {
    let mut screen = interface();
    set(&mut screen.app, CaptureInterfaceLinkState::Up, 1);
    for width in 40..=200 {
        let text = screen.at_width(width);
        let line = text.lines().nth(2).unwrap();
        let file = screen.app.unfiltered.activity.pending[0].label.clone();
        let file = file.split_whitespace().nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
        assert!(line.contains("READ") && line.contains(&file), "{width}: {line:?}");
        if let Some((_, connection)) = line.split_once("conn") {
            assert!(connection.starts_with(" 12"), "{width}: {line:?}");
        }
        assert!(!line.contains("slot") || line.contains("slot 17"), "{width}: {line:?}");
        assert!(width < 70 || line.contains("conn 12"), "{width}: {line:?}");
    }
}

#[test]
fn drops_are_shown_in_full_at_any_width() {
    let mut screen = interface();
    set(&mut screen.app, CaptureInterfaceLinkState::Up, 0);
    screen.app.view = TuiView::Operations;
    for width in [40, 60, 80, 120] {
        let text = screen.at_width(width);
        for part in ["0 by the kernel,", "0 by the interface,", "0 by this"] {
            assert!(text.contains(part), "{width}: {part}\n{text}");
        }
    }
}
