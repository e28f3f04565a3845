//! Effects of keys.

use nfsrdma_capture_file::ZstdWindowBudget;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Screen, SharedCapture, TuiOptions, path};
use crate::tui::app::application_state::{FocusPane, TerminalControlRequest};
use crate::tui::app::marked_row::MarkedRow;
use crate::tui::app::view_row_commands::TuiViewRecordKind;
use crate::tui::tui_view::TuiView;

const CAPTURE: &str = "rxe-v42.pcap";

#[test]
fn a_filter_shows_selected_rows_until_it_is_removed() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "#58").ask('f', "nfs.opcode == READ");
    assert_eq!(screen.app.rows().len(), 9);
    assert!(screen.text().contains("filter nfs.opcode == READ  9 of 237"), "{}", screen.text());
    screen.keys("jjjj");
    let before = screen.chosen();
    screen.keys("u");
    assert_eq!((screen.app.rows().len(), screen.chosen()), (237, before));
}

#[test]
fn an_invalid_filter_is_reported_and_stays_in_the_prompt() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('f', "nfs.opcode == REED");
    let text = screen.text();
    assert!(text.contains("did you mean READ?"), "{text}");
    assert!(screen.last_line().starts_with("filter: nfs.opcode == REED"), "{text}");
    assert_eq!(screen.app.rows().len(), 237);
}

#[test]
fn a_search_during_the_first_pass_finds_the_last_rows() {
    let mut screen = Screen::begun(
        SharedCapture::files(vec![path(CAPTURE)], ZstdWindowBudget::default()),
        120,
        40,
        TuiOptions::default(),
    );
    for letter in "g0x318ef27d".chars() {
        screen.app.event(&Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)));
    }
    // The first update and the end of the pass arrive together.
    screen.app.event(&Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    screen.wait_until_read();
    screen.settle();
    assert_eq!(screen.chosen(), "LOCK /data/w/s100 0+10 WRITEW");
}

#[test]
fn follow_shows_the_same_file_slot_connection_or_xid() {
    for (letter, filter, least) in [
        ('f', "nfs.fhandle == ", 2),
        ('s', "nfs.session_id4 == ", 100),
        ('c', "nfsrdma.connection == 1", 237),
        ('x', "nfsrdma.xid == 0xb38df27d", 1),
    ] {
        let mut screen = Screen::open(CAPTURE, 160, 40);
        screen.ask('g', "0xb38df27d").keys("F").keys(&letter.to_string());
        let printed = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
        assert!(printed.starts_with(filter), "{letter}: {printed}");
        assert!(screen.app.rows().len() >= least, "{letter}: {}", screen.app.rows().len());
        screen.ask('g', "0xb38df27d");
        assert_eq!(screen.chosen(), "READ /data/w/s2k 0+4096 len 2000 EOF");
    }
}

#[test]
fn search_goes_on_and_back_and_around() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('/', "sparse");
    let first = screen.chosen();
    assert!(first.contains("sparse"), "{first}");
    screen.keys("n");
    let second = screen.app.list.at;
    screen.keys("N");
    assert_eq!(screen.chosen(), first);
    screen.keys("N");
    assert!(screen.last_line().contains("continuing from the last"), "{}", screen.last_line());
    screen.keys("nn");
    assert_eq!(screen.app.list.at, second);
    screen.ask('/', "no such thing");
    assert!(screen.last_line().contains(r#"not found: "no such thing""#), "{}", screen.last_line());
}

#[test]
fn search_in_charts_goes_to_the_operation() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("6").ask('/', "readdir");
    assert!(screen.text().contains("Latency of READDIR"), "{}", screen.text());
}

#[test]
fn search_in_the_tree_goes_to_the_field() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "0xb38df27d").press(KeyCode::Enter).ask('/', "slotid");
    let line = screen.app.tree.chosen().unwrap();
    assert_eq!(line.field.map(|field| field.name), Some("nfs.slotid"));
    assert!(line.bytes.is_some());
}

#[test]
fn goto_finds_a_frame_an_xid_a_time_and_a_transaction() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    for place in ["593", "0xb38df27d", "2.3013", "#49"] {
        screen.press(KeyCode::Home).ask('g', place);
        assert_eq!(screen.chosen(), "READ /data/w/s2k 0+4096 len 2000 EOF", "{place}");
    }
    screen.ask('g', "nowhere");
    assert!(screen.last_line().contains("invalid location"), "{}", screen.last_line());
    screen.ask('g', "99999");
    assert!(screen.last_line().contains("frame 99999 belongs to no transaction"), "{}", screen.last_line());
}

#[test]
fn keys_find_the_next_failed_incomplete_or_slow_transaction() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("e");
    assert!(screen.app.entry().unwrap().row.has_failed);
    let first = screen.app.list.at;
    screen.keys("e").keys("E");
    assert_eq!(screen.app.list.at, first);
    screen.keys("s");
    let entry = screen.app.entry().unwrap();
    let median = screen.app.unfiltered.tables.median_latency_ns(entry.name()).unwrap();
    assert!(entry.row.latency_ns.unwrap() > 4 * median);
    screen.keys("i");
    assert!(screen.last_line().contains("all transactions are complete"), "{}", screen.last_line());
    let mut screen = Screen::open("rxe-v42-snap128.pcap", 120, 40);
    screen.keys("i");
    assert!(screen.app.entry().unwrap().row.is_incomplete);
}

#[test]
fn sorting_by_latency_puts_the_slowest_first() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    // The columns of this width before LATENCY: TIME, CONN, XID, VERS, OPERATION, CHUNKS, BYTES.
    screen.keys(">>>>>>>>");
    let latencies = |screen: &Screen| -> Vec<Option<u64>> {
        let latency = |at| screen.app.list.entry(screen.app.rows(), at).unwrap().row.latency_ns;
        (0..237).map(latency).collect()
    };
    let sorted = latencies(&screen);
    assert!(sorted.is_sorted_by(|a, b| a >= b), "{sorted:?}");
    screen.keys("r");
    assert!(latencies(&screen).is_sorted());
    screen.keys("<<<<<<<<");
    let index = |at| screen.app.list.entry(screen.app.rows(), at).unwrap().row.index;
    assert!((0..237).map(index).eq(1..=237));
}

#[test]
fn marks_are_shown_found_and_taken_away() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("m").ask('g', "#20").keys("m").press(KeyCode::Home);
    assert!(screen.app.marks.iter().eq(&[MarkedRow::Transaction(1), MarkedRow::Transaction(20)]));
    assert!(screen.text().lines().nth(2).unwrap().starts_with('●'));
    screen.keys("'");
    assert_eq!(screen.app.entry().unwrap().row.index, 20);
    screen.keys("M");
    assert!(screen.app.marks.is_empty());
}

#[test]
fn the_value_the_filter_and_the_command_are_copied_and_shown() {
    let mut screen = Screen::open(CAPTURE, 200, 40);
    screen.ask('g', "0xb38df27d").press(KeyCode::Enter).ask('/', "slotid").keys("y");
    assert_eq!(screen.last_line(), "copied: 0");
    assert_eq!(screen.app.take_sequences(), [b"\x1b]52;c;MA==\x07"]);
    screen.keys("Y");
    assert_eq!(screen.last_line(), "copied: nfs.slotid == 0");
    screen.keys("c");
    let text = screen.text();
    let lines: Vec<&str> = text.lines().rev().skip(1).take(3).collect();
    let [tshark, own, title] = lines[..] else { panic!("{text}") };
    assert_eq!(title, "copied:");
    assert!(own.starts_with("nfsrdma-inspect -V -Y 'nfsrdma.index == 49' "), "{own}");
    assert!(tshark.ends_with("rxe-v42.pcap -Y 'frame.number in {590, 592..593, 595}'"), "{tshark}");
    screen.keys("=");
    let filter = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.clone());
    assert_eq!(filter.as_deref(), Some("nfs.slotid == 0"));
}

#[test]
fn a_file_is_opened_with_the_transactions_that_are_about_it() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("4").press(KeyCode::Home);
    let text = screen.text();
    let line = text.lines().nth(3).unwrap().to_owned();
    let path = line.split_whitespace().next().unwrap().to_owned();
    let files = &screen.app.displayed_pass().tables.files;
    let count = files.iter().find(|row| row.path == path.as_bytes()).unwrap().tally.transactions;
    screen.press(KeyCode::Enter);
    let filter = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.clone());
    assert_eq!(filter, Some(format!("nfsrdma.path == \"{path}\"")));
    assert_eq!(screen.app.rows().len() as u64, count);
}

#[test]
fn an_operation_is_opened_with_its_program_and_version() {
    let mut screen = Screen::open("rxe-v3.pcap", 120, 40);
    screen.keys("2").press(KeyCode::Enter);
    let text = screen.text();
    let filter = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.clone()).expect(&text);
    assert!(filter.contains(" && nfsrdma.program == \"NFS\" && nfsrdma.version == 3"), "{filter}");
    assert!(screen.app.rows().len() > 1);
}

#[test]
fn the_packet_list_begins_at_the_chosen_transaction_wherever_one_comes_from() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "#49").keys("25");
    assert_eq!(screen.app.frame_list.at, 590);
    screen.keys("jj25");
    assert_eq!(screen.app.frame_list.at, 592);
}

#[test]
fn a_selected_transaction_is_saved_with_all_its_frames() {
    let folder = std::env::temp_dir().join(format!("nfsrdma-inspect-tui-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let saved = |screen: &mut Screen, name: &str, suffix: &str| {
        let file = folder.join(name);
        let _ = std::fs::remove_file(&file);
        screen.ask('W', &format!("{}{suffix}", file.display()));
        let start = std::time::Instant::now();
        while !screen.last_line().starts_with("saved") {
            assert!(start.elapsed() < super::PATIENCE, "{}", screen.last_line());
            std::thread::sleep(std::time::Duration::from_millis(5));
            screen.settle();
        }
        let mut source = nfsrdma_capture_file::CaptureFrameSource::open([&file]).unwrap();
        let mut count = 0;
        while source.next().unwrap().is_some() {
            count += 1;
        }
        (screen.last_line(), count)
    };
    let mut screen = Screen::open(CAPTURE, 200, 40);
    screen.ask('g', "0xb38df27d");
    let (said, frames) = saved(&mut screen, "one.pcapng", "");
    assert!(said.starts_with("saved 1 transaction to "), "{said}");
    // Its four frames, and the five of connection setup and teardown.
    assert_eq!(frames, 9);
    // The opcode of the BTH is after the headers of Ethernet, IPv4 and UDP: 17 is an ACK or a NAK.
    let mut source = nfsrdma_capture_file::CaptureFrameSource::open([crate::testing::path(CAPTURE)]).unwrap();
    let mut control = 0;
    while let Some(frame) = source.next().unwrap() {
        control += u64::from(frame.bytes.get(36..38) == Some(&[0x12, 0xb7]) && frame.bytes.get(42) == Some(&17));
    }
    let (_, frames) = saved(&mut screen, "control.pcapng", " control");
    assert!(control > 100);
    assert_eq!(frames, 9 + control);
    screen.keys("m").keys("m");
    let (said, frames) = saved(&mut screen, "marked.pcapng", "");
    assert!(said.starts_with("saved 2 transactions to "), "{said}");
    assert!(frames > 9);
    screen.ask('f', "nfs.opcode == READ");
    let (said, _) = saved(&mut screen, "all.pcapng", " all");
    assert!(said.starts_with("saved 9 transactions to "), "{said}");
    // An existing file is not changed.
    screen.ask('W', &folder.join("one.pcapng").display().to_string());
    let start = std::time::Instant::now();
    while !screen.last_line().contains("cannot write") {
        assert!(start.elapsed() < super::PATIENCE, "{}", screen.last_line());
        std::thread::sleep(std::time::Duration::from_millis(5));
        screen.settle();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn groups_of_the_tree_open_and_close_and_stay_so_in_the_next_transaction() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "0xb38df27d").press(KeyCode::Enter).ask('/', "RPC over RDMA");
    let before = screen.app.tree.len();
    screen.press(KeyCode::Left);
    let closed = screen.app.tree.len();
    assert!(closed < before);
    screen.press(KeyCode::Esc).keys("j").keys("k");
    assert_eq!(screen.app.tree.len(), closed);
    screen.press(KeyCode::Enter).press(KeyCode::Right);
    assert_eq!(screen.app.tree.len(), before);
}

#[test]
fn enter_goes_from_an_operation_and_a_connection_to_its_transactions() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("2").press(KeyCode::Enter);
    assert_eq!((screen.app.view, screen.app.rows().len()), (TuiView::Transactions, 44));
    assert!(screen.chosen().starts_with("LOOKUP"));
    screen.keys("u").keys("3").press(KeyCode::Enter);
    assert_eq!(screen.app.rows().len(), 237);
    screen.keys("u").keys("4").press(KeyCode::Enter);
    assert!(screen.chosen().contains("/data/w/s256k"), "{}", screen.chosen());
}

#[test]
fn frames_go_to_where_the_transaction_is() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "0xb38df27d").keys("5");
    assert_eq!(screen.app.frame_list.at, 590);
    screen.ask('g', "1978").keys("j");
    assert_eq!(screen.app.frame_list.at, 1978);
    screen.ask('g', "5000");
    assert!(screen.last_line().contains("the last frame is 1978"), "{}", screen.last_line());
}

#[test]
fn a_pause_loses_nothing() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("p").ask('f', "nfs.opcode == READ");
    // The new pass is paused too.
    assert!(screen.text().contains("PAUSED"), "{}", screen.text());
    screen.keys("p");
    assert_eq!(screen.app.rows().len(), 9);
}

#[test]
fn the_mouse_chooses_views_lines_and_columns() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    let at = |screen: &mut Screen, kind, column, row| {
        screen.app.event(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        screen.settle();
    };
    let click = MouseEventKind::Down(MouseButton::Left);
    at(&mut screen, click, 20, 5);
    assert_eq!((screen.app.list.at, screen.app.focus), (3, FocusPane::List));
    at(&mut screen, MouseEventKind::ScrollDown, 20, 5);
    assert_eq!(screen.app.list.at, 6);
    at(&mut screen, click, 20, 20);
    assert_eq!(screen.app.focus, FocusPane::Tree);
    let latency = screen.app.areas.columns.iter().find(|(_, column)| column.name() == "LATENCY").unwrap().0;
    at(&mut screen, click, latency.x + 1, latency.y);
    assert_eq!(screen.app.list.sort.map(|sort| sort.by.name()), Some("LATENCY"));
    let tab = screen.app.areas.tabs[1].0;
    at(&mut screen, click, tab.x + 2, tab.y);
    assert_eq!(screen.app.view, TuiView::Operations);
}

#[test]
fn the_key_q_requests_quitting() {
    let mut screen = Screen::open(CAPTURE, 80, 24);
    screen.keys("q");
    assert_eq!(screen.app.take_requests(), [TerminalControlRequest::Quit]);
}

#[test]
fn a_file_that_is_no_capture_is_reported_on_the_screen() {
    let mut screen = Screen::open("README.md", 160, 24);
    assert!(screen.last_line().contains("not a capture file"), "{}", screen.last_line());
    for key in "123456wgmesiyYcW=Fx".chars() {
        screen.keys(&key.to_string()).press(KeyCode::Esc);
    }
}

#[test]
fn a_screen_where_nothing_changes_is_not_drawn_again() {
    for keys in ["", "w", "2", "3", "4", "5", "6", "?", "p"] {
        let mut screen = Screen::open(CAPTURE, 120, 40);
        screen.keys(keys);
        // The first tick may process results that arrived with the last screen.
        screen.app.tick();
        let draws = (0..200).filter(|_| screen.app.tick()).count();
        assert_eq!(draws, 0, "{keys}");
    }
}

/// Saves the rows of the view. Returns the message, and the number of frames in the file.
fn saved(screen: &mut Screen, name: &str) -> (String, usize) {
    let file = std::env::temp_dir().join(format!("nfsrdma-tui-{name}-{}.pcapng", std::process::id()));
    let _ = std::fs::remove_file(&file);
    screen.ask('W', &file.display().to_string());
    let start = std::time::Instant::now();
    while !screen.last_line().starts_with("saved") {
        assert!(start.elapsed() < super::PATIENCE, "{}", screen.last_line());
        std::thread::sleep(std::time::Duration::from_millis(5));
        screen.settle();
    }
    let mut source = nfsrdma_capture_file::CaptureFrameSource::open([&file]).unwrap();
    let count = std::iter::from_fn(|| source.next().unwrap().map(|_| ())).count();
    std::fs::remove_file(&file).unwrap();
    (screen.last_line(), count)
}

#[test]
fn marked_rows_are_saved_and_nothing_else() {
    let mut screen = Screen::open("rxe-v42-loss.pcap", 200, 40);
    screen.keys("5").ask('g', "652").keys("m").ask('g', "3").keys("m");
    let (said, frames) = saved(&mut screen, "frames");
    assert_eq!((said.starts_with("saved 2 frames to "), frames), (true, 2), "{said}");
    screen.ask('W', "/no/such/folder control");
    assert!(screen.last_line().contains("control applies to transactions"), "{}", screen.last_line());
    // The marks of frames select no operation.
    let mut screen = Screen::open(CAPTURE, 200, 40);
    screen.keys("5mm2").ask('/', "READ").keys("m").ask('/', "WRITE").keys("m");
    let (said, _) = saved(&mut screen, "operations");
    assert!(said.starts_with("saved 25 transactions to "), "{said}");
    screen.ask('f', "nfs.opcode == READ").keys("2M");
    let (said, _) = saved(&mut screen, "filtered");
    assert!(said.starts_with("saved 9 transactions to "), "{said}");
}

#[test]
fn keys_act_on_the_rows_of_the_view_that_is_shown() {
    for (key, view) in ('1'..).zip(TuiView::ALL) {
        let mut screen = Screen::open(CAPTURE, 120, 40);
        screen.keys(&key.to_string()).press(KeyCode::Down);
        screen.ask('/', "no such text");
        assert_eq!(screen.app.view, view);
        assert!(screen.last_line().contains(r#"not found: "no such text""#), "{key}: {}", screen.last_line());
        screen.keys("n").keys("N");
        assert_eq!(screen.app.view, view);
        screen.keys("y");
        assert!(screen.last_line().starts_with("copied: "), "{key}: {}", screen.last_line());
        screen.keys("Y");
        let copied = screen.last_line();
        let filter = copied.strip_prefix("copied: ").unwrap_or_else(|| panic!("{key}: {copied}"));
        assert!(nfsrdma_analysis::filter::Filter::parse(filter).is_ok(), "{key}: {filter}");
        screen.keys("c");
        let command = screen.app.message.as_ref().map(|message| message.text.clone()).unwrap_or_default();
        let expected = match view {
            TuiView::Transactions => "nfsrdma.index == 2",
            _ => filter,
        };
        assert!(command.contains(&format!("-Y '{expected}' ")), "{key}: {command}");
        screen.keys("m");
        assert_eq!((screen.app.marks.len(), screen.app.view), (1, view));
        let (said, frames) = saved(&mut screen, &format!("marked-{key}"));
        match view {
            TuiView::Frames => {
                assert_eq!((said.starts_with("saved 1 frame to "), frames), (true, 1), "{said}")
            }
            _ => {
                let mut other = Screen::open(CAPTURE, 120, 40);
                other.ask('f', filter);
                let (count, ending) = (other.app.rows().len(), if other.app.rows().len() == 1 { "" } else { "s" });
                assert!(said.starts_with(&format!("saved {count} transaction{ending} to ")), "{key}: {said}");
            }
        }
        screen.keys("'").keys(">").keys("r");
        assert_eq!(screen.app.view, view);
        screen.keys("=");
        let set = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.clone());
        assert!(set.is_some(), "{key}");
        screen.keys("u");
        assert_eq!((screen.app.view, screen.app.filtered.is_none()), (view, true));
    }
}

#[test]
fn frames_are_searched_from_the_cursor_on_and_back() {
    let mut screen = Screen::open("rxe-v42-loss.pcap", 120, 40);
    // Frames with a NAK, as shown in the packet list.
    let mut source = nfsrdma_capture_file::CaptureFrameSource::open([path("rxe-v42-loss.pcap")]).unwrap();
    let mut flow = nfsrdma_flow::Flow::new(nfsrdma_flow::FlowLimits::default());
    let mut naks = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        let (datagram, _) = flow.process_frame_observed(&frame, &mut nfsrdma_dissectors::field::NullFieldObserver);
        if let nfsrdma_dissectors::net::NetworkLayerPayload::Infiniband(packet) = &datagram.payload
            && let Some(aeth) = packet.aeth
            && matches!(aeth.syndrome, nfsrdma_dissectors::infiniband::Syndrome::Nak { .. })
        {
            naks.push(frame.number.0);
        }
        while flow.next_transaction().is_some() {}
    }
    assert!(naks.len() > 1, "{naks:?}");
    screen.keys("5").ask('/', "NAK");
    assert_eq!((screen.app.view, screen.app.frame_list.at), (TuiView::Frames, naks[0]), "{}", screen.text());
    screen.keys("n");
    assert_eq!(screen.app.frame_list.at, naks[1]);
    screen.keys("N").keys("N");
    assert_eq!(screen.app.frame_list.at, *naks.last().unwrap());
    assert!(screen.last_line().contains("continuing from the last"), "{}", screen.last_line());
}

#[test]
fn a_filter_selects_frames_in_the_packet_list() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("5").ask('f', "infiniband.bth.opcode == 17 && frame.number > 1000");
    let held = screen.app.frame_list.lines.as_ref().unwrap();
    // The selection of `--view frames -Y`.
    let count = held.len();
    assert!(count > 10 && held.lines_from(0).all(|line| line.number.0 > 1000), "{count}");
    let first = held.get(0).unwrap().number.0;
    screen.press(KeyCode::Home);
    assert_eq!(screen.app.frame_list.at, first);
    screen.keys("jm");
    let second = screen.app.frame_list.lines.as_ref().unwrap().get(1).unwrap().number.0;
    assert!(screen.app.marks.contains(&MarkedRow::Frame(second)));
    screen.press(KeyCode::End).ask('/', "ack").keys("u");
    assert!(screen.app.frame_list.lines.is_none());
    assert!(screen.app.frame_list.at > 1000);
}

#[test]
fn rates_of_a_file_are_those_around_the_cursor() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.ask('g', "#100").keys("2");
    let rows = screen.app.rows();
    let middle = rows.get(99).unwrap().to_ended_transaction().time;
    let (first, last) = screen.app.unfiltered.tables.times.unwrap();
    for (rate, half_ns) in screen.app.rates().all.iter().zip([500_000_000, 5_000_000_000, 30_000_000_000_u64]) {
        let ended = rows.entries().filter(|entry| entry.to_ended_transaction().time.abs_diff_ns(middle) <= half_ns);
        let part = middle.nanoseconds_since(first).unwrap().min(half_ns)
            + last.nanoseconds_since(middle).unwrap().min(half_ns);
        let expected = ended.count() as f64 / (part as f64 / 1e9);
        assert!((rate.transactions - expected).abs() < 1e-6, "{rate:?} {expected}");
    }
    assert!(screen.text().contains("around"), "{}", screen.text());
    let before = screen.app.rates().all;
    screen.keys("1").ask('g', "#230").keys("2");
    assert_ne!(screen.app.rates().all, before);
}

#[test]
fn escape_goes_back_to_where_enter_came_from() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    screen.keys("4jj");
    let at = screen.app.table().at;
    screen.press(KeyCode::Enter);
    assert_eq!(screen.app.view, TuiView::Transactions);
    screen.press(KeyCode::Esc);
    assert_eq!((screen.app.view, screen.app.table().at), (TuiView::Files, at));
    assert!(screen.app.filtered.is_none());
    // The previous filter is restored.
    screen.ask('f', "nfs.opcode == READ").keys("2").press(KeyCode::Enter).press(KeyCode::Esc);
    let filter = screen.app.displayed_pass().filter.as_ref().map(|(_, text)| text.as_str());
    assert_eq!((screen.app.view, filter), (TuiView::Operations, Some("nfs.opcode == READ")));
}

#[test]
fn numbers_of_tables_are_whole_at_every_width() {
    let mut screen = Screen::open("rxe-v3.pcap", 200, 40);
    for (key, view) in [("2", TuiView::Operations), ("3", TuiView::Connections), ("4", TuiView::Files)] {
        for width in 30..=200 {
            screen.terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(width, 24)).unwrap();
            screen.keys(key);
            let TuiViewRecordKind::Table(table) = view.rows() else { panic!() };
            let order = table.order(&screen.app);
            let shown: Vec<_> = screen.app.areas.headings.iter().filter(|(_, column)| *column > 0).copied().collect();
            assert!(!shown.is_empty(), "{width}");
            let lines = screen.app.areas.list;
            for (line, row) in order.iter().take(usize::from(lines.height)).enumerate() {
                let cells = table.cells(&screen.app, *row);
                for (place, column) in &shown {
                    if !table.headings()[*column].is_number {
                        continue;
                    }
                    let buffer = screen.terminal.backend().buffer();
                    let text: String = (place.x..place.x + place.width)
                        .map(|x| buffer.cell((x, lines.y + line as u16)).unwrap().symbol().to_owned())
                        .collect();
                    assert_eq!(text.trim(), cells[*column].0, "{key} at {width}: column {column}");
                }
            }
        }
    }
}

/// Between two names, the column of the sign would be ambiguous.
#[test]
fn the_sort_indicator_is_next_to_its_column_name() {
    let mut seen = std::collections::BTreeSet::new();
    for width in [40, 80, 120, 200] {
        let mut screen = Screen::open("rxe-v3.pcap", width, 24);
        for key in ["1", "2", "3", "4", "5"] {
            screen.keys(key);
            for _ in 0..16 {
                screen.keys(">");
                let app = &screen.app;
                let name = match (app.view, app.view.rows()) {
                    (TuiView::Transactions, _) => app.list.sort.map_or("", |sort| sort.by.name()),
                    (TuiView::Frames, _) => app.frame_list.sort.by.name(),
                    (_, TuiViewRecordKind::Table(table)) => table.headings()[app.table().sort].name,
                    _ => panic!("{:?}", app.view),
                };
                let text = screen.text();
                let Some(word) = text
                    .lines()
                    .find_map(|line| line.split_whitespace().find(|word| word.len() > 3 && word.contains(['▲', '▼'])))
                else {
                    assert!(!text.contains(['▲', '▼']), "{key} at {width}: {name}\n{text}");
                    continue;
                };
                let is_behind = |name: &str| ['▲', '▼'].iter().any(|sign| text.contains(&format!(" {name}{sign}")));
                let is_name = is_behind(name) || name == "DEST" && is_behind("DESTINATION");
                assert!(is_name && !name.is_empty(), "{key} at {width}: {word} for {name}\n{text}");
                seen.insert((key, name));
            }
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn right_scrolls_to_the_hidden_columns() {
    for key in ["1", "2", "3", "4"] {
        let mut screen = Screen::open("rxe-v3.pcap", 60, 24);
        screen.keys(key);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let heading = screen
                .text()
                .lines()
                .find(|line| line.contains("OPERATION") || line.contains("CONNECTION") || line.contains("FILE"))
                .unwrap()
                .to_owned();
            seen.extend(heading.split_whitespace().map(|name| name.trim_matches(['▼', '▲']).to_owned()));
            screen.press(KeyCode::Right);
        }
        let last: &[&str] = match key {
            "1" => &["FRAME", "CLIENT", "XID", "BYTES", "STATUS"],
            "2" => &["PROGRAM", "P90", "TIME%", "OUT"],
            "3" => &["TRANSPORT", "INCOMPLETE", "STATE", "GRANTED"],
            _ => &["BYTES", "MEAN", "ERRORS"],
        };
        for name in last {
            assert!(seen.contains(*name), "{key}: {name} is not among {seen:?}");
        }
        for _ in 0..20 {
            screen.press(KeyCode::Left);
        }
        assert_eq!((screen.app.list.scroll, screen.app.table().scroll), (0, 0));
    }
}

#[test]
fn a_transaction_is_found_by_its_number_while_the_list_is_sorted_and_read() {
    let mut screen = Screen::begun(
        SharedCapture::files(vec![path(CAPTURE)], ZstdWindowBudget::default()),
        120,
        40,
        TuiOptions::default(),
    );
    screen.draw();
    // Sort by the last column before the first update.
    for letter in "<g#200".chars() {
        screen.app.event(&Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)));
    }
    screen.app.event(&Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    assert!(screen.app.list.sort.is_some());
    screen.settle();
    assert_eq!(screen.app.entry().unwrap().row.index, 200, "{}", screen.text());
}

#[test]
fn a_message_leaves_the_keys_where_they_are() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    let keys = screen.last_line();
    screen.ask('/', "no such thing");
    let text = screen.text();
    assert_eq!(text.lines().last(), Some(keys.as_str()), "{text}");
    assert!(screen.last_line().contains(r#"not found: "no such thing""#), "{text}");
}

#[test]
fn files_are_read_again_with_the_same_filter_and_transaction() {
    let file = std::env::temp_dir().join(format!("nfsrdma-inspect-reload-{}.pcap", std::process::id()));
    let whole = std::fs::read(path(CAPTURE)).unwrap();
    std::fs::write(&file, &whole[..600_000]).unwrap();
    let mut screen = Screen::of(
        SharedCapture::files(vec![file.clone()], ZstdWindowBudget::default()),
        120,
        40,
        TuiOptions::default(),
    );
    let before = screen.app.rows().len();
    assert!((10..237).contains(&before), "{before}");
    screen.ask('g', "#9");
    std::fs::write(&file, &whole).unwrap();
    screen.keys("R");
    assert_eq!((screen.app.rows().len(), screen.app.entry().unwrap().row.index), (237, 9));
    screen.ask('f', "nfs.opcode == READ").keys("R");
    assert_eq!(screen.app.rows().len(), 9);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn files_that_are_read_again_keep_their_order() {
    let mut screen = Screen::open(CAPTURE, 120, 40);
    // TIME, CONN, XID, VERS, OPERATION, CHUNKS, BYTES.
    screen.keys(">>>>>>>>r");
    let order = |screen: &Screen| -> Vec<u64> {
        (0..237).map(|at| screen.app.list.entry(screen.app.rows(), at).unwrap().row.index).collect()
    };
    let before = order(&screen);
    assert!(!before.is_sorted());
    screen.keys("R");
    assert_eq!(screen.app.list.sort.map(|sort| sort.by.name()), Some("LATENCY"));
    assert_eq!(order(&screen), before);
}

#[test]
fn the_prompt_for_a_file_lists_the_choices() {
    for (width, text) in [
        (120, "save to:   FILE, FILE all (all shown), FILE control (ACKs and NAKs too)"),
        (40, "save to:   FILE [all] [control]"),
    ] {
        let mut screen = Screen::open(CAPTURE, width, 24);
        screen.keys("W");
        assert_eq!(screen.last_line(), text);
        screen.keys("/some/file/with/a/long/name");
        assert!(screen.text().lines().last().unwrap().starts_with("save to: /some/file"), "{}", screen.text());
    }
}
