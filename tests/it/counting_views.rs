//! `--view operations` and `--view connections`: their totals are the sums over the Transactions of the same capture,
//! and their lines are valid for the schemas in `docs/`.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use crate::captures::{self, Temporary};
use crate::mutations::frames;
use crate::program::{self, Transaction, nanoseconds, number, output};
use crate::schema::{assert_keeps, validator};
use crate::tunnels::pcap;

fn run(capture: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(arguments)
        .arg(captures::path(capture))
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

fn text(capture: &str, arguments: &[&str]) -> String {
    let output = run(capture, arguments);
    assert!(output.status.success(), "{capture}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap_or_else(|e| panic!("{capture}: {e}"))
}

fn lines(capture: &str, arguments: &[&str]) -> Vec<Value> {
    let text = text(capture, &[&["-T", "json"], arguments].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn every_line_keeps_its_schema() {
    let (operation, connection) = (validator("operation.schema.json"), validator("connection.schema.json"));
    for name in captures::ALL {
        for line in lines(name, &["--view", "operations"]) {
            assert_keeps(&operation, &line, name);
        }
        for line in lines(name, &["--view", "connections"]) {
            assert_keeps(&connection, &line, name);
        }
    }
}

/// Returns the time in loss recovery of a Transaction.
fn recovery_ns(transaction: &Transaction) -> u64 {
    transaction.0["phases_ns"]["recovery"].as_u64().unwrap_or(0)
}

/// Returns Calls, Replies, the longest latency and the time in loss recovery of each operation, from the lines of
/// Transactions.
fn added_up(transactions: &[Transaction]) -> BTreeMap<String, (u64, u64, u64, u64)> {
    let mut sums = BTreeMap::new();
    for transaction in transactions {
        let (value, seen) = (&transaction.0, |side| u64::from(transaction.message(side).is_some()));
        let key = format!("{} {} {}", value["program_name"], value["version"], value["operation"]);
        let (calls, replies, longest, recovery) = sums.entry(key).or_default();
        *calls += seen("call");
        *replies += seen("reply");
        *longest = value["latency_ns"].as_u64().unwrap_or(0).max(*longest);
        *recovery += recovery_ns(transaction);
    }
    sums
}

#[test]
fn operations_are_the_sums_of_their_transactions() {
    for name in captures::ALL {
        let expected = added_up(&program::json(&captures::path(name)).transactions);
        let lines = lines(name, &["--view", "operations"]);
        let counted: BTreeMap<_, _> = lines
            .iter()
            .map(|line| {
                let key = format!("{} {} {}", line["program_name"], line["version"], line["operation"]);
                let longest = line["latency_ns"]["max"].as_u64().unwrap_or(0);
                let counts = [number(line, "calls"), number(line, "replies"), number(line, "recovery_ns")];
                (key, (counts[0], counts[1], longest, counts[2]))
            })
            .collect();
        assert_eq!(counted, expected, "{name}");
        assert!(lines.is_sorted_by_key(|line| std::cmp::Reverse(number(line, "calls"))), "{name}");
    }
}

#[test]
fn connections_are_the_sums_of_their_transactions() {
    for name in captures::ALL {
        let mut expected: BTreeMap<u64, (u64, u64, u64, u64)> = BTreeMap::new();
        for transaction in program::json(&captures::path(name)).transactions {
            let (count, incomplete, granted, recovery) =
                expected.entry(number(&transaction.0, "connection")).or_default();
            *count += 1;
            *incomplete += u64::from(transaction.0["complete"] == false);
            let credits = transaction.0["reply"]["rpcrdma"]["credits"].as_u64().unwrap_or(0);
            *granted = if transaction.is_forward() { credits.max(*granted) } else { *granted };
            *recovery += recovery_ns(&transaction);
        }
        let counted: BTreeMap<u64, (u64, u64, u64, u64)> = lines(name, &["--view", "connections"])
            .iter()
            .map(|line| {
                let granted = line["credits"]["granted"].as_u64().unwrap_or(0);
                let counts = [number(line, "transactions"), number(line, "incomplete"), number(line, "recovery_ns")];
                (number(line, "connection"), (counts[0], counts[1], granted, counts[2]))
            })
            .collect();
        assert_eq!(counted, expected, "{name}");
    }
}

#[test]
fn the_time_in_loss_recovery_has_a_column() {
    for view in ["operations", "connections"] {
        let cells = |capture| {
            let table = text(capture, &["--view", view, "--summary", "none"]);
            let (header, rows) = table.split_once('\n').unwrap();
            let end = header.find("RECOVERY").unwrap() + "RECOVERY".len();
            // The arrow between the endpoints of a connection is one column in three bytes.
            let cell = |row: &str| row.chars().take(end).skip(end - 10).collect::<String>().trim().to_owned();
            rows.lines().map(cell).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        };
        assert!(cells("rxe-v42-loss").iter().any(|cell| cell.ends_with(" ms") || cell.ends_with(" s")));
        assert_eq!(cells("rxe-v42"), [""; 0]);
    }
}

/// The RDMA connection ends with a DREQ; those of MOUNT and PORTMAP end before and after it.
#[test]
fn connections_come_as_they_close() {
    let lines = lines("rxe-v3", &["--view", "connections"]);
    assert!(lines.iter().all(|line| line["closed"] == true));
    let ends: Vec<u64> = lines.iter().map(|line| nanoseconds(line["end_time"].as_str().unwrap_or_default())).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    let numbers: Vec<u64> = lines.iter().map(|line| number(line, "connection")).collect();
    assert!(!numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn the_set_up_of_a_connection_is_shown_if_captured() {
    let set_up = |name| lines(name, &["--view", "connections"])[0]["set_up"].clone();
    let seen = set_up("rxe-v42");
    assert_eq!((number(&seen, "port"), number(&seen["client"], "receive_size")), (20049, 4096));
    assert_eq!(set_up("rxe-v42-mid"), Value::Null);
    let text = text("rxe-v42", &["--view", "connections", "-V", "--summary", "none"]);
    insta::assert_snapshot!(text);
}

#[test]
fn csv_has_the_values_of_json() {
    for view in ["operations", "connections"] {
        let csv = text("rxe-v3", &["-T", "csv", "--view", view]);
        let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().unwrap();
        let lines = lines("rxe-v3", &["--view", view]);
        assert_eq!(rows.clone().count(), lines.len());
        for (row, line) in rows.zip(&lines) {
            assert_eq!(row.len(), names.len());
            for (name, cell) in names.iter().zip(row) {
                let value = name.split('.').fold(line, |value, key| &value[key]);
                let expected = match value {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(cell, expected, "{view}: {name}");
            }
        }
    }
}

#[test]
fn only_selected_transactions_are_counted() {
    let lines = |view, filter| lines("rxe-v3", &["--view", view, "-Y", filter]);
    let operations = lines("operations", "nfsrdma.operation in {\"READ\", \"WRITE\"}");
    let names: Vec<_> = operations.iter().map(|line| line["operation"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["WRITE", "READ"]);
    let connections = lines("connections", "mount");
    assert!(connections.iter().all(|line| line["transport"] == "tcp"), "{connections:?}");
    assert!(!connections.is_empty());
}

#[test]
fn a_count_is_of_lines() {
    for view in ["operations", "connections"] {
        let all = lines("rxe-v3", &["--view", view]);
        assert_eq!(lines("rxe-v3", &["--view", view, "-c", "2"]), all[..2], "{view}");
    }
}

#[test]
fn options_that_the_views_do_not_support_are_refused() {
    let refused = [
        (&["--view", "operations", "-V"][..], "has neither a tree nor bytes"),
        (&["--view", "connections", "-x"], "has neither a tree nor bytes"),
        (&["--view", "operations", "-T", "fields", "-e", "rpc.xid"], "has fixed columns"),
        (&["--view", "connections", "-T", "csv", "-e", "rpc.xid"], "has fixed columns"),
        (&["--view", "connections", "-T", "csv", "-E", "header=n"], "has fixed columns"),
    ];
    for (arguments, complaint) in refused {
        let output = run("rxe-v3", arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error.contains(complaint) && error.lines().count() == 1, "{arguments:?}: {error}");
    }
}

#[test]
fn operations_for_people() {
    insta::assert_snapshot!(text("rxe-v3", &["--view", "operations"]));
}

#[test]
fn connections_for_people() {
    insta::assert_snapshot!(text("rxe-v3", &["--view", "connections"]));
}

/// A TCP segment with a wrong checksum is no data (RFC 9293 section 3.10.7.4), within file data, too: the summary alone
/// says what it says below the list.
#[test]
fn summary_alone_counts_damaged_data() {
    for name in ["tcp-v3", "tcp-v42", "siw-v42"] {
        let whole = frames(name);
        let large = whole.iter().enumerate().filter(|(_, kept)| kept.bytes.len() > 1_000).map(|(at, _)| at);
        let large: Vec<_> = large.collect();
        for at in large.iter().step_by(large.len().div_ceil(6)) {
            let mut damaged = whole.clone();
            let middle = damaged[*at].bytes.len() / 2;
            damaged[*at].bytes[middle] ^= 4;
            let file = Temporary::new(&format!("{name}-{at}.pcap"), &pcap(&damaged));
            let (list, summary) = (output(file.path(), &[]), output(file.path(), &["-q"]));
            assert!(list.ends_with(&summary), "{name}, frame {}: {summary}", at + 1);
            assert!(!summary.contains("all complete"), "{name}, frame {}: {summary}", at + 1);
        }
    }
}
