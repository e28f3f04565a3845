//! Time spent in loss recovery, in every view that shows phases or latencies.

use std::collections::BTreeMap;

use nfsrdma_flow::transaction_message_decoding::ProcedureOrMainOperation;

use super::Screen;
use crate::output::style::Glyphs;
use crate::output::units::HumanDuration;
use crate::testing::transactions;

const LOSS: &str = "rxe-v42-loss.pcap";

/// Returns the recovery time of each operation, from the phases of its Transactions, in nanoseconds.
fn by_operation() -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for transaction in transactions(LOSS) {
        let recovery_ns = transaction.phases().map_or(0, |phases| phases.recovery_ns);
        let operation = transaction.with_messages(|reading| reading.summary().operation);
        if let Some(ProcedureOrMainOperation::Named(name)) = operation.filter(|_| recovery_ns > 0) {
            *sums.entry(name).or_default() += recovery_ns;
        }
    }
    sums
}

fn text(ns: u64) -> String {
    HumanDuration(ns, Glyphs::UNICODE).to_string()
}

/// Returns the cell of the row that begins with `name`, in the column `heading`, whose cells are aligned right.
fn cell(screen: &str, name: &str, heading: &str) -> String {
    let lines: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
    let head = screen.lines().position(|line| line.contains(heading)).unwrap_or_else(|| panic!("{screen}"));
    let at = screen.lines().nth(head).unwrap().find(heading).unwrap();
    let to = screen.lines().nth(head).unwrap()[..at].chars().count() + heading.chars().count();
    let row = lines.iter().skip(head + 1).find(|line| line.iter().collect::<String>().trim().starts_with(name));
    let row: String = row.unwrap_or_else(|| panic!("{name}: {screen}")).iter().take(to).collect();
    let words: Vec<&str> = row.split(' ').filter(|word| !word.is_empty()).collect();
    if row.ends_with(' ') { String::new() } else { words[words.len() - 2..].join(" ") }
}

#[test]
fn the_table_of_operations_has_the_time_in_recovery() {
    let sums = by_operation();
    let mut screen = Screen::open(LOSS, 200, 50);
    let shown = screen.keys("2").text();
    assert!(!sums.is_empty());
    for (operation, ns) in &sums {
        assert_eq!(cell(&shown, operation, "RECOVERY"), text(*ns), "{operation}: {shown}");
    }
    assert_eq!(cell(&shown, "REMOVE", "RECOVERY"), "", "{shown}");
}

#[test]
fn the_table_of_connections_has_the_time_in_recovery() {
    let mut screen = Screen::open(LOSS, 200, 50);
    let shown = screen.keys("3").text();
    let sum = by_operation().values().sum();
    assert_eq!(cell(&shown, "10.9.0.2 QP 17", "RECOVERY"), text(sum), "{shown}");
}

#[test]
fn latency_charts_have_the_part_in_recovery() {
    let sums = by_operation();
    for (width, height) in [(80, 24), (120, 40)] {
        let mut screen = Screen::open(LOSS, width, height);
        let shown = screen.keys("6").text();
        let sum = text(sums.values().sum());
        // In the summary of the capture, and above the distribution of the latencies.
        assert_eq!(shown.matches(&format!("{sum} in recovery")).count(), 2, "{shown}");
        assert!(shown.contains("Latency of all operations"), "{shown}");
        let mut screen = Screen::open("rxe-v42.pcap", width, height);
        assert!(!screen.keys("6").text().contains("recovery"));
    }
}

/// The LOOKUP with XID 0x8dc00cfc: 561 ms of the server, longer than the ACK timeout of 537 ms.
#[test]
fn waterfall_reserves_long_server_time() {
    let mut screen = Screen::open(LOSS, 120, 60);
    let shown = screen.ask('g', "0x8dc00cfc").keys("w").text();
    let note = "server: or a packet, such as the reply, was lost before the capture point and sent again after the ACK";
    assert!(shown.contains(note) && shown.contains("timeout of 537 ms"), "{shown}");
    let shown = screen.ask('g', "0x53c00cfc").text();
    assert!(!shown.contains("server: or"), "{shown}");
}

/// The READ of 256 KiB with XID 0x53c00cfc: its recovery is 718 ms of 732 ms, as `-V` and JSON say.
#[test]
fn the_waterfall_has_bars_for_recovery() {
    let transaction = transactions(LOSS).into_iter().find(|one| one.xid.0 == 0x53c0_0cfc).unwrap();
    let mut screen = Screen::open(LOSS, 120, 60);
    let shown = screen.ask('g', "0x53c00cfc").keys("w").text();
    let recovery_ns = transaction.phases().unwrap().recovery_ns;
    assert!(shown.contains(&format!("recovery {}", text(recovery_ns))), "{shown}");
    let bars = shown.lines().filter(|line| line.starts_with("Recovery ")).count();
    assert_eq!(bars, transaction.stalls.len(), "{shown}");
}
