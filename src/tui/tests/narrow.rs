//! Narrow and wide terminals: every displayed number is complete, and hints stay in place.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;

use super::Screen;
use crate::output::style::Glyphs;
use crate::tui::TuiOptions;

/// Returns the words that contain a digit, without surrounding punctuation.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ':', '▼', '▲']));
    words.filter(|word| word.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Lists and trees of 30 to 200 columns show no number that the widest lacks. Paths may be cut.
#[test]
fn no_number_is_cut_at_any_width() {
    for keys in ["", "5", "w"] {
        let mut widest = Screen::open("rxe-v42.pcap", 400, 60);
        let mut screen = Screen::open("rxe-v42.pcap", 400, 60);
        for screen in [&mut widest, &mut screen] {
            screen.ask('g', "0xbc8df27d").keys(keys);
        }
        let all = widest.text();
        let whole: std::collections::BTreeSet<&str> = numbers(&all).collect();
        for width in 30..=200 {
            screen.terminal = Terminal::new(TestBackend::new(width, 40)).unwrap();
            screen.settle();
            let text = screen.text();
            // Compare the part above bytes and hints, which format positions differently.
            let bytes = text.lines().position(|line| line.starts_with("── Call") || line.starts_with("── Frame "));
            let lines = text.lines().take(bytes.unwrap_or(usize::MAX)).take(39);
            for (at, line) in lines.enumerate().filter(|(_, line)| !line.starts_with("──")) {
                for number in numbers(line) {
                    let is_name = number.contains(['/', '…', '"']) || keys == "w" && at > 1 && !line.contains("READ");
                    assert!(is_name || whole.contains(number), "{keys:?} at {width}: {number}\n{text}");
                    // A sign directly after a complete number cuts nothing.
                    let kept = number.trim_end_matches('…').trim_end_matches(',');
                    let is_cut = number.ends_with('…')
                        && number.starts_with(|first: char| first.is_ascii_digit())
                        && !whole.contains(kept);
                    assert!(!is_cut, "{keys:?} at {width}: {number}\n{text}");
                }
            }
        }
    }
}

#[test]
fn the_narrow_list_has_the_latency() {
    let screen = Screen::open("rxe-v42.pcap", 40, 20);
    let text = screen.text();
    let heading = text.lines().nth(1).unwrap();
    for name in ["OPERATION", "LATENCY", "STATUS"] {
        assert!(heading.contains(name), "{text}");
    }
    assert!(text.lines().nth(2).unwrap().contains("7.53 ms ok"), "{text}");
    // Right shows the other columns.
    let mut screen = screen;
    screen.press(KeyCode::Right);
    assert!(screen.text().lines().nth(1).unwrap().contains("TIME"), "{}", screen.text());
}

#[test]
fn an_input_error_is_shown_above_the_keys_until_dismissed() {
    let mut screen = Screen::open("README.md", 160, 24);
    let text = screen.text();
    assert!(text.lines().last().unwrap().starts_with(" ? help"), "{text}");
    assert!(screen.last_line().contains("expected pcap or pcapng"), "{text}");
    // Another message may replace the error, which then returns.
    screen.keys("n");
    assert!(screen.last_line().contains("no previous search"), "{}", screen.text());
    screen.keys("j");
    assert!(screen.last_line().contains("expected pcap or pcapng"), "{}", screen.text());
    screen.press(KeyCode::Esc);
    assert!(!screen.text().contains("expected pcap or pcapng"), "{}", screen.text());
}

#[test]
fn sentences_have_the_units_of_the_other_views() {
    let mut screen = Screen::open("rxe-v42.pcap", 120, 40);
    screen.keys("2");
    let text = screen.text();
    // As in the summary of the command line.
    assert!(text.contains("1,978 frames, 1.06 MiB in 11.2 s"), "{text}");
    assert!(text.contains(" KiB/s") && !text.contains("KB/s"), "{text}");
}

#[test]
fn the_signs_of_the_waterfall_are_explained_in_their_own_characters() {
    for (glyphs, ack) in [(Glyphs::UNICODE, "◂ ACK"), (Glyphs::ASCII, "< ACK")] {
        let mut screen = Screen::with("rxe-v42.pcap", 120, 40, TuiOptions { glyphs, ..TuiOptions::default() });
        screen.ask('g', "0xbc8df27d").keys("w");
        let text = screen.text();
        assert!(text.contains(ack) && text.contains("copy after the reply"), "{text}");
    }
}
