//! Verifies the screens in the documentation. A comment before each screen describes how to produce it, and `UPDATE=1`
//! rewrites them.
//!
//! `<!-- screen 100x30 rxe-v42.pcap: g 0xb38df27d Enter -->`: the size, the capture, and the input as names of keys and
//! letters.

use std::fs;
use std::path::Path;

use ratatui::crossterm::event::KeyCode;

use super::Screen;

const BEGIN: &str = "<!-- screen ";

fn screen(printed: &str) -> String {
    let (what, keys) = printed.split_once(':').unwrap();
    let (size, capture) = what.trim().split_once(' ').unwrap();
    let (width, height) = size.split_once('x').unwrap();
    let mut screen = Screen::open(capture.trim(), width.parse().unwrap(), height.parse().unwrap());
    for key in keys.split_whitespace() {
        match key {
            "Enter" => screen.press(KeyCode::Enter),
            "Tab" => screen.press(KeyCode::Tab),
            "Down" => screen.press(KeyCode::Down),
            "Space" => screen.keys(" "),
            letters => screen.keys(letters),
        };
    }
    screen.text()
}

/// Returns the text with every screen regenerated between the fences after its comment.
fn renewed(text: &str) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (printed, after) = after.split_once("-->").unwrap();
        let (_, after) = after.split_once("```text\n").unwrap();
        let (_, after) = after.split_once("```\n").unwrap();
        made += &format!("{before}{BEGIN}{printed}-->\n```text\n{}```\n", screen(printed.trim()));
        rest = after;
    }
    made + rest
}

#[test]
fn screens_in_the_documentation_are_up_to_date() {
    for name in ["docs/tui.md", "README.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = fs::read_to_string(&path).unwrap();
        let made = renewed(&text);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, made).unwrap();
        } else {
            assert!(made == text, "{name}: a screen is stale; UPDATE=1 cargo test --lib documented");
        }
    }
}
