//! Screens of an interface: the first line and the pending Calls, at each width.

use nfsrdma_capture_file::{CaptureFrameSource, CaptureInterfaceLinkState, CapturePacketCounters, ReadProgress};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_flow::transaction::CallDirection;
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
        client: nfsrdma_dissectors::address::Address::Ip([10, 0, 0, number as u8 + 1].into()),
        xid: entry.row.xid,
        slot: Some(nfsrdma_analysis::call_session_slots::CallSessionSlot { session: Default::default(), slot: 17 }),
        phase: match number {
            0 => PendingTransactionPhase::Server,
            _ => PendingTransactionPhase::DataIn { moved_bytes: 8192, offered_bytes: 65536 },
        },
        copies: 1,
        direction: CallDirection::Forward,
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
        self.at_size(width, 30)
    }

    fn at_size(&mut self, width: u16, height: u16) -> String {
        self.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
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

/// The pane says which client waits, before the connection and the XID.
#[test]
fn pending_calls_show_their_client() {
    let mut screen = interface();
    set(&mut screen.app, CaptureInterfaceLinkState::Up, 4);
    for width in [90, 120, 160, 170, 210] {
        let text = screen.at_width(width);
        for number in 1..=4 {
            let client = format!("  10.0.0.{number}  conn 12");
            assert!(text.lines().any(|line| line.contains(&client)), "{width}: {text}");
        }
    }
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
                let text = screen.at_size(width, 6);
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

/// A capture whose end never comes, as from an interface.
struct Unending(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Unending {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(to)? {
            0 => loop {
                std::thread::park();
            },
            count => Ok(count),
        }
    }
}

/// Opens a capture as a pipe in which nothing follows it.
fn unending(name: &str, width: u16) -> Screen {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path(name)).unwrap();
    match name.ends_with(".gz") {
        true => std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes),
        false => std::io::Read::read_to_end(&mut std::io::BufReader::new(file), &mut bytes),
    }
    .unwrap();
    let source = CaptureFrameSource::from_reader("pipe", Unending(std::io::Cursor::new(bytes)));
    Screen::begun(SharedCapture::received_once("pipe", source, 16 << 20), width, 36, TuiOptions::default())
}

impl Screen {
    /// Waits until the screen shows a text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        let start = std::time::Instant::now();
        loop {
            self.app.tick();
            self.draw();
            let shown = self.text();
            if shown.contains(text) {
                return shown;
            }
            assert!(start.elapsed() < super::PATIENCE, "{text} in {shown}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Types letters, and Enter, without waiting.
    fn send(&mut self, letters: &str, enter: bool) -> &mut Self {
        use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
        let keys = letters.chars().map(KeyCode::Char).chain(enter.then_some(KeyCode::Enter));
        for code in keys {
            self.app.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
        self
    }

    /// Returns the age of the oldest call in the pane, in seconds.
    fn pane_age(&mut self) -> f64 {
        self.draw();
        let text = self.text();
        let age = text.split_once("No reply for ").unwrap_or_else(|| panic!("{text}")).1;
        age.split_once(" s").unwrap_or_else(|| panic!("{text}")).0.parse().unwrap()
    }

    /// Sets a filter, and waits until it selects these calls without a reply.
    fn filter_hung(&mut self, filter: &str, count: usize) {
        self.send("f", false);
        let length = self.app.prompt.as_ref().map_or(0, |prompt| prompt.text().chars().count());
        for _ in 0..length {
            use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
            self.app.event(&Event::Key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE)));
        }
        self.send(filter, true);
        self.wait_for(&format!("{count} in flight"));
        assert_eq!(self.app.rows().pending_len(), count, "{filter}");
    }
}

/// Fields known when a call is sent select it; its age stays that of the wall clock.
#[test]
fn filters_keep_hung_calls_and_ages() {
    let mut screen = unending("cases/all-credits-hang.pcap.gz", 120);
    screen.wait_for("16 waiting");
    let (start, before) = (std::time::Instant::now(), screen.pane_age());
    for (filter, count) in [
        ("nfsrdma.connection == 1", 16),
        ("nfsrdma.client == 10.0.0.10 && nfsrdma.server == 10.0.0.2", 16),
        ("nfsrdma.transport == \"rocev2\" && nfsrdma.direction == \"forward\"", 16),
        ("nfsrdma.path contains \"file1\"", 5),
        ("nfs.slotid == 3", 1),
        ("nfsrdma.operation == \"READ\" && nfsrdma.xid >= 0x10000127", 16),
        ("frame.number > 1760 && ip.src == 10.0.0.10", 15),
        ("nfsrdma.complete == 0 && nfsrdma.missing == \"reply\"", 16),
        ("nfsrdma.latency", 0),
    ] {
        if count > 0 {
            screen.filter_hung(filter, count);
            let (age, expected) = (screen.pane_age(), before + start.elapsed().as_secs_f64());
            assert!((age - expected).abs() < 0.2, "{filter}: {age}, expected {expected}");
        }
    }
    // Connections: 16 of 16 under every filter.
    screen.send("3", false);
    let shown = screen.wait_for("credits: 16 of 16 in use, at the limit");
    assert!(shown.contains("10.0.0.10"), "{shown}");
}

/// Every view that counts calls counts those without a reply.
#[test]
fn hung_calls_count_in_every_view() {
    let mut screen = unending("cases/all-credits-hang.pcap.gz", 140);
    screen.wait_for("16 waiting");
    let cells = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    screen.send("2", false);
    let text = screen.wait_for("310 transactions (16 incomplete, 16 in flight)");
    assert!(cells(&text, "READ").contains(&"307".to_owned()), "{text}");
    screen.send("3", false);
    let text = screen.wait_for("credits: at most 16 in use of 16 granted");
    assert!(["310", "16"].iter().all(|count| cells(&text, "10.0.0.10").contains(&(*count).to_owned())), "{text}");
    screen.send("4", false);
    let text = screen.wait_for("3 files");
    for (file, count) in [("…/file0", "298"), ("…/file1", "6"), ("…/file2", "6")] {
        assert!(cells(&text, file).contains(&count.to_owned()), "{file}: {text}");
    }
    // The mean latency is that of the calls with a reply.
    let row = screen.app.displayed_pass().tables.files.iter().find(|row| row.path.ends_with(b"/file2")).unwrap();
    assert_eq!(row.tally.mean_ns(), Some(400_000));
}

/// Keys that change the view, the cursor, the order or the pane.
const KEYS: &str = "jjkGgn1eis<>r23j<r456jkw2b1jGmM3+-";

/// Returns the age of the oldest call in the first line, in seconds: it has three digits.
fn first_line_age(text: &str) -> f64 {
    let line = text.lines().next().unwrap();
    let age = line.split_once("16 waiting · ").unwrap_or_else(|| panic!("{text}")).1;
    age.split_once(" s").unwrap_or_else(|| panic!("{text}")).0.parse().unwrap()
}

/// Ages are those of the wall clock after every key.
#[test]
fn keys_keep_ages_of_hung_calls() {
    let mut screen = unending("cases/all-credits-hang.pcap.gz", 120);
    screen.wait_for("16 waiting");
    let (start, before) = (std::time::Instant::now(), screen.pane_age());
    for key in KEYS.chars() {
        std::thread::sleep(std::time::Duration::from_millis(30));
        screen.app.tick();
        screen.send(&key.to_string(), false);
        // A prompt is closed again.
        if screen.app.prompt.is_some() {
            use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
            screen.app.event(&Event::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)));
        }
        screen.draw();
        let text = screen.text();
        let expected = before + start.elapsed().as_secs_f64();
        let age = first_line_age(&text);
        assert!((age - expected).abs() < 0.2, "{key}: {age}, expected {expected}\n{text}");
        if text.contains("No reply for ") {
            let age = screen.pane_age();
            assert!((age - expected).abs() < 0.2, "{key}: {age}, expected {expected}\n{text}");
        }
    }
}

/// RFC 8166 section 3.3.1: as long as no reply comes, the credits are used up, though no packet is captured.
#[test]
fn time_at_limit_grows_without_packets() {
    let mut screen = unending("cases/all-credits-hang.pcap.gz", 140);
    screen.wait_for("16 waiting");
    screen.send("3", false);
    let text = screen.wait_for("s, still");
    let at_limit = |text: &str| -> f64 {
        let credits = "credits: at most 16 in use of 16 granted, at the limit ";
        let time = text.split_once(credits).unwrap_or_else(|| panic!("{text}")).1;
        let (time, _) = time.split_once("s, still").unwrap_or_else(|| panic!("{text}"));
        match time.strip_suffix(" m") {
            Some(ms) => ms.parse::<f64>().unwrap() / 1e3,
            None => time.trim_end().parse().unwrap(),
        }
    };
    let (start, before) = (std::time::Instant::now(), at_limit(&text));
    while start.elapsed().as_secs_f64() < 1.5 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        screen.app.tick();
        screen.draw();
    }
    // Tables are made four times in a second.
    let (grown, expected) = (at_limit(&screen.text()) - before, start.elapsed().as_secs_f64());
    assert!((grown - expected).abs() < 0.5, "{grown}, expected {expected}");
    let row = &screen.app.displayed_pass().tables.connections[0];
    let last = *row.credits.as_ref().unwrap().steps.steps().last().unwrap();
    assert_eq!((last.in_flight, last.limit, last.at_limit_ns > 0), (16, 16, true));
}

/// First frame and last frame that a [`SlowDecoding`] let through: when, and their times.
type Decoded = std::sync::Arc<std::sync::Mutex<Option<(std::time::Instant, Timestamp, Timestamp)>>>;

/// Decoding that takes 20 ms for each frame.
struct SlowDecoding(Decoded);

impl LiveCaptureStopCondition for SlowDecoding {
    fn frame(&mut self, time: Timestamp) -> bool {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut decoded = self.0.lock().unwrap();
        let first = decoded.map_or((std::time::Instant::now(), time), |(at, first, _)| (at, first));
        *decoded = Some((first.0, first.1, time));
        false
    }

    fn idle(&mut self) -> Timestamp {
        Timestamp(0)
    }
}

/// 128 frames that an interface delivers within 4 ms are decoded in 2.6 s.
#[test]
fn lag_of_decoding_is_displayed() {
    let decoded = Decoded::default();
    let bytes = std::fs::read(path("cases/nak-after-accepted-copy.pcap")).unwrap();
    let source = CaptureFrameSource::from_reader("nfs0", std::io::Cursor::new(bytes));
    let capture = SharedCapture::live("nfs0", source, 4 << 20, Box::new(SlowDecoding(decoded.clone())));
    let mut screen = Screen::begun(capture, 120, 30, TuiOptions::default());
    let text = screen.wait_for("behind ");
    let (begin, first, last) = decoded.lock().unwrap().unwrap();
    let expected = begin.elapsed().as_secs_f64() - (last.0 - first.0) as f64 / 1e9;
    let line = text.lines().next().unwrap();
    let shown: f64 = line.split_once("behind ").unwrap().1.split_once(" s").unwrap().0.parse().unwrap();
    // The screen is read, and the expected lag computed, a moment after the frame.
    assert!(shown > 1.0 && shown < expected + 0.1 && expected < shown + 1.0, "{line}, expected {expected}");
    // Nothing is behind once all frames are decoded.
    let start = std::time::Instant::now();
    while screen.text().lines().next().unwrap().contains("behind") {
        assert!(start.elapsed() < super::PATIENCE, "{}", screen.text());
        std::thread::sleep(std::time::Duration::from_millis(5));
        screen.app.tick();
        screen.draw();
    }
    assert_eq!(screen.app.unfiltered.progress.frames, 128);
}

/// Calls without a reply are searched, gone to, opened, copied, marked and saved like others.
#[test]
fn hung_calls_are_rows() {
    let mut screen = unending("cases/all-credits-hang.pcap.gz", 120);
    screen.wait_for("16 waiting");
    assert_eq!((screen.app.rows().len(), screen.app.rows().pending_len()), (310, 16));
    screen.send("g", false).send("0x1000012c", true);
    let shown = screen.wait_for("Call without a reply: READ");
    assert!(shown.contains("xid: 0x1000012c") && shown.contains("slot"), "{shown}");
    let row = screen.app.entry().unwrap();
    assert_eq!((row.row.xid.0, row.client().to_string()), (0x1000_012c, "10.0.0.10".to_owned()));
    screen.send("y", false);
    screen.wait_for("copied: READ");
    screen.send("/", false).send("file1 106496", true);
    assert_eq!(screen.app.entry().unwrap().row.xid.0, 0x1000_0134);
    screen.send("m", false);
    let to = std::env::temp_dir().join(format!("nfsrdma-hung-{}.pcapng", std::process::id()));
    for (suffix, count) in [("", 1), (" all", 16)] {
        let _ = std::fs::remove_file(&to);
        if count == 16 {
            screen.send("M", false);
            screen.filter_hung("nfsrdma.xid >= 0x10000127", 16);
        }
        screen.send("W", false).send(&format!("{}{suffix}", to.display()), true);
        screen.wait_for(&format!("saved {count} transaction"));
        let mut source = CaptureFrameSource::open([&to]).unwrap();
        let mut flow = nfsrdma_flow::Flow::new(nfsrdma_flow::FlowLimits::default());
        while let Some(frame) = source.next().unwrap() {
            flow.process_frame(&frame);
        }
        assert_eq!(flow.pending_calls().count(), count);
    }
    std::fs::remove_file(&to).unwrap();
}

/// RFC 5531 section 11: of a record, only a part arrived.
#[test]
fn partial_call_over_tcp_is_pending() {
    // The last segments of a WRITE of 1 MiB are missing.
    let mut source = CaptureFrameSource::open([path("tcp-v3.pcap.gz")]).unwrap();
    let mut flow = nfsrdma_flow::Flow::new(nfsrdma_flow::FlowLimits::default());
    let mut most = None;
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        for call in flow.pending_calls() {
            if let PendingTransactionPhase::Call { received_bytes, total_bytes } = call.phase() {
                assert!(received_bytes < total_bytes);
                let call = call.to_transaction();
                let operation = call.with_messages(|messages| messages.summary().operation);
                most = most.max(Some((received_bytes, total_bytes, format!("{operation:?}"), call.connection.number)));
            }
        }
    }
    let (received, total, operation, connection) = most.unwrap();
    assert!(operation.contains("WRITE") && connection > 0, "{operation}");
    let progress = crate::output::pending_call_progress::PendingCallProgress {
        age_ns: 0,
        phase: PendingTransactionPhase::Call { received_bytes: 119 << 10, total_bytes: 256 << 10 },
        slot: None,
        direction: CallDirection::Forward,
    };
    assert_eq!(progress.to_string(), "call 119 KiB of 256 KiB");
    assert!(received > 0 && total > received);
}

/// Opens the first frames of an uncompressed capture as a pipe in which nothing follows them.
fn hanging_after(name: &str, frames: usize) -> Screen {
    let mut bytes = std::fs::read(path(name)).unwrap();
    let mut at = 24;
    for _ in 0..frames {
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    bytes.truncate(at);
    let source = CaptureFrameSource::from_reader("pipe", Unending(std::io::Cursor::new(bytes)));
    Screen::begun(SharedCapture::received_once("pipe", source, 16 << 20), 120, 36, TuiOptions::default())
}

/// Two of 128 credits, without slots (NFSv3): they are in use as long as the calls hang, and the limit is not reached.
#[test]
fn hung_calls_below_limit_stay_in_use() {
    let mut screen = hanging_after("rxe-v3.pcap", 1268);
    screen.wait_for("2 waiting");
    screen.send("3", false);
    let text = screen.wait_for("credits: at most 2 in use of 128 granted");
    assert!(text.contains("never") && !text.contains("slots:"), "{text}");
    std::thread::sleep(std::time::Duration::from_millis(600));
    screen.wait_for("2 waiting");
    let tables = &screen.app.displayed_pass().tables;
    let row = tables.connections.iter().find(|row| row.tally.name.number == 3).unwrap();
    let credits = row.credits.as_ref().unwrap();
    let steps = credits.steps.steps();
    assert_eq!(steps.last().map(|step| (step.in_flight, step.at_limit_ns)), Some((2, 0)));
    // The series goes on after the last packet.
    let end = credits.steps.start().unwrap().0 + (steps.len() as u64 * credits.steps.width()) as i64;
    assert!(end > tables.times.unwrap().1.0 + 1_000_000_000, "{end}");
}

/// RFC 8167: a callback waits for the client, and the tree of its transaction blames no server.
#[test]
fn hung_callback_waits_for_client() {
    // Up to the first CB_GETATTR.
    let mut screen = hanging_after("rxe-v42-cb-getattr.pcap", 96);
    let text = screen.wait_for("1 waiting");
    let line = text.lines().find(|line| line.contains("CB_GETATTR")).unwrap();
    assert!(line.contains("client, slot 0") && !line.contains("server"), "{line}");
    let mut screen = Screen::open("rxe-v42-cb-getattr.pcap", 120, 36);
    screen.send("g", false).send("0xaa986c5a", true);
    let text = screen.wait_for("latency: 5.41 ms: ");
    assert!(text.contains("latency: 5.41 ms: client 5.41 ms"), "{text}");
}
