//! Conformance findings in the list and in the tree.

use std::fs;

use nfsrdma_capture_file::ZstdWindowBudget;
use ratatui::crossterm::event::KeyCode;

use super::{Screen, path};
use crate::tui::TuiOptions;
use crate::tui::rereadable_capture::SharedCapture;

/// Offset of the credits in a RoCE Send over IPv4.
const CREDITS: usize = 54 + 8;

/// Returns `rxe-v42.pcap`, in which the Reply in frame 8 grants no credits.
fn without_credits() -> Vec<u8> {
    let mut bytes = fs::read(path("rxe-v42.pcap")).unwrap();
    // After the header of the file: time, lengths and bytes of each frame.
    let mut at = 24;
    for _ in 1..8 {
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    bytes[at + 16 + CREDITS..at + 16 + CREDITS + 4].fill(0);
    bytes
}

#[test]
fn a_row_has_a_mark_and_its_tree_the_finding_if_rules_are_applied() {
    let folder = std::env::temp_dir().join(format!("nfsrdma-inspect-{}-tui-findings", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("broken.pcap");
    fs::write(&file, without_credits()).unwrap();
    for findings in [true, false] {
        let capture = SharedCapture::files(vec![file.clone()], ZstdWindowBudget::default());
        let options = TuiOptions { findings, ..TuiOptions::default() };
        let mut screen = Screen::of(capture, 160, 60, options);
        let marked: Vec<_> = screen
            .app
            .rows()
            .entries()
            .filter(|entry| entry.status().0.contains("!error"))
            .map(|entry| entry.row.xid.to_string())
            .collect();
        assert_eq!(marked, if findings { &["0x838df27d"][..] } else { &[] });
        screen.ask('g', "0x838df27d").press(KeyCode::Enter);
        assert_eq!(screen.text().contains("!error"), findings, "{}", screen.text());
        if findings {
            screen.ask('/', "credit-zero");
            let line = screen.app.tree.chosen().unwrap();
            assert!(
                line.text().starts_with("error: rpcrdma/credit-zero, by the server 10.9.0.1: credit 0"),
                "{line:?}"
            );
        }
        // A filter needs the rules, whether they were asked for or not.
        screen.press(KeyCode::Esc).ask('f', "nfsrdma.finding.severity == error");
        assert_eq!(screen.app.rows().len(), 1, "{}", screen.text());
    }
    fs::remove_dir_all(&folder).unwrap();
}
