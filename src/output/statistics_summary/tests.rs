use nfsrdma_analysis::statistics::FrameAndTransactionStatistics;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType};
use nfsrdma_flow::{Flow, FlowLimits};
use serde_json::{Value, json};

use super::*;
use crate::output::style::Glyphs;
use crate::testing;

/// Returns the summary of a capture in the format of `form`.
fn summary(capture: &str, form: impl Fn(&CaptureSummary<'_>, &mut Vec<u8>)) -> String {
    let mut statistics = FrameAndTransactionStatistics::default();
    let mut flow = testing::read_with(capture, |frame| statistics.frame(frame));
    while let Some(transaction) = flow.next_transaction() {
        transaction.with_messages(|reading| statistics.transaction(&transaction, &reading.summary()));
    }
    let mut text = Vec::new();
    form(
        &CaptureSummary {
            statistics: &statistics,
            flow: &flow,
            icrc: None,
            dropped: None,
            counters: None,
            names: 0,
            shown: None,
            filtered: None,
            stopped_after: None,
            has_iso: false,
            glyphs: Glyphs::UNICODE,
            findings: None,
        },
        &mut text,
    );
    String::from_utf8(text).unwrap()
}

fn object(capture: &str) -> Value {
    let line = summary(capture, |summary, to| summary.json(to).unwrap());
    assert_eq!(line.matches('\n').count(), 1);
    serde_json::from_str(&line).unwrap()
}

fn text(capture: &str, width: usize) -> String {
    summary(capture, |summary, to| summary.text(to, width).unwrap())
}

#[test]
fn the_text_summary_has_totals_then_operations_then_chunks() {
    let expected = "\
3,500 frames, 3.27 MiB in 1.02 s. 43 transactions on 4 connections, 1 incomplete (no reply captured,
chunk bytes missing).

NFS version 4       calls  errors      p50      p99      max  bytes in  bytes out
  WRITE                13       0  72.2 ms   172 ms   172 ms  3.25 MiB   1.31 KiB
  ACCESS                9       0  4.51 ms  5.26 ms  5.26 ms  1.46 KiB   1.48 KiB
  GETATTR               6       0  2.56 ms  7.50 ms  7.50 ms     884 B   1.10 KiB
  CREATE                4       0  2.31 ms  15.9 ms  15.9 ms     832 B   1.28 KiB
  OPEN                  4       0  30.7 ms  31.5 ms  31.5 ms  1.11 KiB   1.45 KiB
  EXCHANGE_ID           2       0  9.63 ms  18.7 ms  18.7 ms     504 B      448 B
  CREATE_SESSION        1       0  8.80 ms  8.80 ms  8.80 ms     196 B      124 B
  LOOKUP                1       0  4.03 ms  4.03 ms  4.03 ms     164 B      292 B
  NULL                  1       0  6.45 ms  6.45 ms  6.45 ms      40 B       24 B
  RECLAIM_COMPLETE      1       0  24.6 ms  24.6 ms  24.6 ms     124 B       88 B
  SECINFO_NO_NAME       1       0  8.54 ms  8.54 ms  8.54 ms     128 B      104 B

Connections                  transport  transactions  incomplete     bytes
  10.9.0.2 20 - 10.9.0.1 20     rocev2            10           1  1.00 MiB
  10.9.0.2 17 - 10.9.0.1 17     rocev2            15           0   773 KiB
  10.9.0.2 18 - 10.9.0.1 18     rocev2             9           0   771 KiB
  10.9.0.2 19 - 10.9.0.1 19     rocev2             9           0   771 KiB

Chunks   chunks  segments   offered  returned     moved
  Read       13        26  3.25 MiB         -  3.05 MiB
  Reply       7         7  43.9 KiB  2.14 KiB  2.14 KiB
";
    assert_eq!(text("rxe-v42-conc-head.pcap.gz", 100), expected);
}

#[test]
fn a_narrow_terminal_gets_fewer_columns() {
    for width in [55, 60, 80] {
        let text = text("rxe-v42-conc-head.pcap.gz", width);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}: {widest:?}\n{text}");
    }
}

#[test]
fn the_json_summary_begins_with_the_keys_of_the_contract() {
    let line = summary("rxe-v42.pcap", |summary, to| summary.json(to).unwrap());
    let keys = [
        "schema",
        "kind",
        "frames",
        "bytes",
        "transactions",
        "incomplete",
        "connections",
        "operations",
        "chunks",
        "undecoded",
        "given_up",
    ];
    let places: Vec<_> = keys.iter().map(|key| line.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{line}");
    let summary = object("rxe-v42.pcap");
    assert_eq!((&summary["frames"], &summary["transactions"]), (&json!(1978), &json!(237)));
    assert_eq!((&summary["time"], &summary["incomplete"]), (&json!("1795230436.754465185"), &json!(0)));
    let connection = json!({
        "connection": 1, "transport": "rocev2", "client": "10.9.0.2", "client_port": 17, "server": "10.9.0.1",
        "server_port": 17, "transactions": 237, "incomplete": 0, "bytes": summary["connections"]["listed"][0]["bytes"],
        "recovery_ns": 0,
    });
    assert_eq!(summary["connections"], json!({"count": 1, "listed": [connection]}));
    assert_eq!(
        summary["chunks"]["write"],
        json!({"chunks": 8, "segments": 9, "offered": 418696, "returned": 410853, "moved": 410853})
    );
}

#[test]
fn an_operation_sums_up_its_transactions() {
    let summary = object("rxe-v42.pcap");
    let operations = summary["operations"].as_array().unwrap();
    let read = operations.iter().find(|operation| operation["operation"] == "READ").unwrap();
    assert_eq!((&read["program_name"], &read["version"]), (&json!("NFS"), &json!(4)));
    assert_eq!((&read["calls"], &read["replies"], &read["errors"]), (&json!(9), &json!(9), &json!(0)));
    assert_eq!(read["write_chunk_bytes"], summary["chunks"]["write"]["moved"]);
    let latency = &read["latency_ns"];
    let order = ["min", "p50", "p90", "p99", "p999", "max"].map(|key| latency[key].as_u64().unwrap());
    assert!(order.is_sorted(), "{latency}");
    let calls: u64 = operations.iter().filter_map(|operation| operation["calls"].as_u64()).sum();
    assert_eq!(json!(calls), summary["transactions"]);
}

#[test]
fn an_empty_capture_has_a_summary() {
    let (statistics, flow) = (FrameAndTransactionStatistics::default(), Flow::new(FlowLimits::default()));
    let summary = CaptureSummary {
        statistics: &statistics,
        flow: &flow,
        icrc: None,
        dropped: None,
        counters: None,
        names: 0,
        shown: None,
        filtered: None,
        stopped_after: None,
        has_iso: false,
        glyphs: Glyphs::UNICODE,
        findings: None,
    };
    let mut text = Vec::new();
    summary.text(&mut text, 80).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "0 frames, 0 B. 0 transactions on 0 connections.\n");
    let mut line = Vec::new();
    summary.json(&mut line).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["time"], Value::Null);
}

#[test]
fn operations_of_cut_calls_are_labelled_as_cut() {
    let text = text("rxe-v42-snap128.pcap", 100);
    assert!(text.contains("\nCut by the snap length "), "{text}");
    assert!(!text.contains("Unknown program"), "{text}");
}

#[test]
fn the_summary_of_other_traffic_names_its_contents() {
    let mut ip = [0; 54];
    ip[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    ip[16..18].copy_from_slice(&40_u16.to_be_bytes());
    (ip[23], ip[46]) = (6, 0x50);
    // With its own Identification it is another packet.
    let mut next = ip;
    next[19] = 1;
    let mut version = ip;
    version[14] = 0x95;
    let mut statistics = FrameAndTransactionStatistics::default();
    let mut flow = Flow::new(FlowLimits::default());
    for (number, bytes) in [&ip, &next, &[0; 54], &version].into_iter().enumerate() {
        let frame = Frame {
            number: FrameNumber(number as u64 + 1),
            time: Timestamp(0),
            link: LinkType::ETHERNET,
            bytes,
            length: 54,
        };
        statistics.frame(&frame);
        flow.process_frame(&frame);
    }
    let mut text = Vec::new();
    CaptureSummary {
        statistics: &statistics,
        flow: &flow,
        icrc: None,
        dropped: None,
        counters: None,
        names: 0,
        shown: None,
        filtered: None,
        stopped_after: None,
        has_iso: false,
        glyphs: Glyphs::UNICODE,
        findings: None,
    }
    .text(&mut text, 200)
    .unwrap();
    let text = String::from_utf8(text).unwrap();
    let expected = "4 frames, 216 B. No RPC in it: 2 TCP segments, 1 other frame, 1 malformed frame.\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("  1  malformed\n"), "{text}");
    assert!(text.contains("\nFrames not decoded"), "{text}");
}

#[test]
fn the_cost_of_loss_is_a_sentence_about_transactions() {
    const LOSS: &str = "rxe-v42-bulk-loss1.pcap.gz";
    let recovery = &object(LOSS)["recovery"];
    let text = summary(LOSS, |summary, to| summary.text(to, 1_000).unwrap());
    let count = recovery["transactions"].as_u64().unwrap();
    assert!(text.contains(&format!(" {count} transactions spent ")) && text.contains(" s in loss recovery."), "{text}");
}

#[test]
fn of_a_capture_that_is_cut_before_any_bytes_of_its_streams_no_claim_is_made() {
    let mut frame = [0; 54];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[16..18].copy_from_slice(&140_u16.to_be_bytes());
    (frame[23], frame[46]) = (6, 0x50);
    frame[36..38].copy_from_slice(&2049_u16.to_be_bytes());
    let mut statistics = FrameAndTransactionStatistics::default();
    let mut flow = Flow::new(FlowLimits::default());
    let frame =
        Frame { number: FrameNumber(1), time: Timestamp(0), link: LinkType::ETHERNET, bytes: &frame, length: 154 };
    statistics.frame(&frame);
    flow.process_frame(&frame);
    let mut text = Vec::new();
    CaptureSummary {
        statistics: &statistics,
        flow: &flow,
        icrc: None,
        dropped: None,
        counters: None,
        names: 0,
        shown: None,
        filtered: None,
        stopped_after: None,
        has_iso: false,
        glyphs: Glyphs::UNICODE,
        findings: None,
    }
    .text(&mut text, 200)
    .unwrap();
    let text = String::from_utf8(text).unwrap();
    let expected = "1 frame, 154 B. The captured frames are too short to detect RPC: 1 cut NFS-port segment.\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("  1  cut stream\n"), "{text}");
}
