//! Snapshots of each view at four terminal sizes.

use ratatui::crossterm::event::KeyCode;

use super::Screen;
use crate::output::style::Glyphs;
use crate::tui::TuiOptions;
use crate::tui::theme::ThemeName;

const SIZES: [(u16, u16); 4] = [(40, 20), (80, 24), (120, 40), (200, 50)];

/// Takes snapshots of a capture after some keys.
fn looks(view: &str, capture: &str, act: impl Fn(&mut Screen)) {
    for (width, height) in SIZES {
        let mut screen = Screen::open(capture, width, height);
        act(&mut screen);
        insta::assert_snapshot!(format!("{view}_{width}x{height}"), screen.text());
    }
}

#[test]
fn transactions_with_the_tree_and_the_bytes_of_the_chosen_one() {
    looks("transactions", "rxe-v42.pcap", |screen| {
        screen.ask('g', "0xb38df27d").press(KeyCode::Enter).ask('/', "rdma_writes");
    });
}

#[test]
fn the_waterfall_of_a_read_in_several_rdma_writes() {
    looks("waterfall", "rxe-v42.pcap", |screen| {
        screen.ask('g', "0xbc8df27d").keys("w");
    });
}

#[test]
fn the_waterfall_of_a_write_with_rdma_reads() {
    let mut screen = Screen::open("rxe-v42.pcap", 120, 40);
    screen.ask('g', "frame 123").keys("w").press(KeyCode::Enter);
    insta::assert_snapshot!("waterfall_of_a_write", screen.text());
}

#[test]
fn the_waterfall_of_iwarp() {
    let mut screen = Screen::open("siw-v42.pcap.gz", 120, 40);
    screen.ask('/', "READ /").keys("w");
    insta::assert_snapshot!("waterfall_of_iwarp", screen.text());
}

#[test]
fn the_waterfall_of_a_write_that_was_refused_and_sent_again() {
    let mut screen = Screen::open("rxe-v42-loss.pcap", 120, 40);
    screen.ask('g', "0xbec00cfc").keys("w");
    insta::assert_snapshot!("waterfall_of_loss", screen.text());
}

#[test]
fn operations() {
    looks("operations", "rxe-v42.pcap", |screen| {
        screen.keys("2");
    });
}

#[test]
fn connections_with_credits() {
    looks("connections", "rxe-v42-loss.pcap", |screen| {
        screen.keys("3");
    });
}

#[test]
fn files() {
    looks("files", "rxe-v3.pcap", |screen| {
        screen.keys("4");
    });
}

#[test]
fn frames_at_the_chosen_transaction() {
    looks("frames", "rxe-v42.pcap", |screen| {
        screen.ask('g', "0xb38df27d").keys("5");
    });
}

#[test]
fn frames_by_length() {
    looks("frames_sorted", "rxe-v42.pcap", |screen| {
        screen.keys("5>>>>>").press(KeyCode::Home);
    });
}

#[test]
fn charts() {
    looks("charts", "rxe-v42.pcap", |screen| {
        screen.keys("6");
    });
}

#[test]
fn the_help_has_every_key() {
    looks("help", "rxe-v42.pcap", |screen| {
        screen.keys("?");
    });
}

#[test]
fn typing_a_filter_shows_completions_and_errors() {
    looks("filter", "rxe-v42.pcap", |screen| {
        screen.keys("frpcordma.w");
    });
}

#[test]
fn an_active_filter_is_shown_below_the_view() {
    looks("filtered", "rxe-v42.pcap", |screen| {
        screen.ask('f', "nfs.opcode == LOCK && nfs.status != NFS4_OK");
    });
}

#[test]
fn losses_are_marked() {
    let mut screen = Screen::open("rxe-v42-loss.pcap", 120, 40);
    // Sorted by status.
    screen.keys("z").keys("<");
    insta::assert_snapshot!("loss", screen.text());
}

#[test]
fn a_cut_message_is_shown_as_far_as_captured() {
    let mut screen = Screen::open("rxe-v42-snap128.pcap", 120, 40);
    screen.keys("i");
    insta::assert_snapshot!("snap", screen.text());
}

#[test]
fn ascii_alone() {
    for keys in ["", "w", "2", "3", "4", "5", "6", "?", "f"] {
        let options = TuiOptions { glyphs: Glyphs::ASCII, theme: ThemeName::None, ..TuiOptions::default() };
        let mut screen = Screen::with("rxe-v42.pcap", 120, 40, options);
        screen.keys(keys);
        let text = screen.text();
        assert!(text.is_ascii(), "{keys}: {text}");
        if keys == "w" {
            insta::assert_snapshot!("ascii", text);
        }
    }
}

#[test]
fn a_small_terminal_shows_the_parts_that_fit() {
    for (width, height) in [(40, 12), (20, 6), (10, 3), (1, 1)] {
        for keys in ["", "w", "2", "3", "4", "5", "6", "?", "fnfs.op"] {
            let mut screen = Screen::open("rxe-v42-deleg.pcap", width, height);
            screen.keys(keys);
            if (width, keys) == (40, "") {
                insta::assert_snapshot!("small", screen.text());
            }
        }
    }
}

#[test]
fn without_colours_the_cursor_is_reversed() {
    let options = TuiOptions { theme: ThemeName::None, ..TuiOptions::default() };
    let screen = Screen::with("rxe-v42.pcap", 80, 24, options);
    let buffer = screen.terminal.backend().buffer();
    assert!(buffer.content().iter().all(|cell| {
        use ratatui::style::Color;
        cell.fg == Color::Reset && cell.bg == Color::Reset
    }));
    let cursor = buffer.cell((10, 2)).unwrap();
    assert!(cursor.modifier.contains(ratatui::style::Modifier::REVERSED));
}
