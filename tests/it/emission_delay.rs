//! Transactions that are emitted as soon as their Replies are acknowledged: the same, in the same order, and soon.

use std::io::Cursor;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::captures;

/// Returns the identity of a Transaction, and its completeness.
fn about(transaction: &Transaction) -> String {
    format!("{transaction:?}")
}

/// Returns all Transactions, and for each with a Reply the delay between its last frame and its emission, by the clock
/// of the capture.
fn read(name: &'static str, prompt: bool) -> (Vec<String>, Vec<u64>) {
    let mut source = CaptureFrameSource::from_reader(name, Cursor::new(captures::bytes(name)));
    let mut flow = Flow::new(FlowLimits {
        emit_on_acknowledgment: prompt,
        record_transport_events: true,
        ..FlowLimits::default()
    });
    let (mut all, mut waited) = (Vec::new(), Vec::new());
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        while let Some(transaction) = flow.next_transaction() {
            waited.extend(transaction.reply.as_ref().and_then(|reply| frame.time.nanoseconds_since(reply.end_time)));
            all.push(about(&transaction));
        }
    }
    flow.finish();
    all.extend(std::iter::from_fn(|| flow.next_transaction()).map(|transaction| about(&transaction)));
    waited.sort_unstable();
    (all, waited)
}

/// Every capture except three that are prefixes of others.
const CAPTURES: [&str; 12] = [
    "rxe-v3",
    "rxe-v40",
    "rxe-v42",
    "rxe-v42-ip6",
    "rxe-v42-deleg",
    "rxe-v42-loss",
    "rxe-v42-mid",
    "rxe-v42-snap128",
    "siw-v42",
    "siw-v42-crc",
    "tcp-v3",
    "tcp-v42",
];

#[test]
fn prompt_transactions_are_those_that_waited_in_the_same_order() {
    for name in CAPTURES {
        assert!(read(name, true).0 == read(name, false).0, "{name}");
    }
}

#[test]
fn nineteen_of_twenty_come_within_a_tenth_of_a_second_also_where_a_packet_in_a_hundred_is_lost() {
    for name in CAPTURES {
        let (all, waited) = read(name, true);
        let at = |part: f64| waited[((waited.len() - 1) as f64 * part) as usize] as f64 / 1e6;
        eprintln!(
            "{name}: {} of {}: p50 {:.3} p95 {:.3} p99 {:.3} max {:.3} ms",
            waited.len(),
            all.len(),
            at(0.5),
            at(0.95),
            at(0.99),
            at(1.0)
        );
        assert!(waited.len() * 10 >= all.len() * 9, "{name}");
        assert!(at(0.95) < 100.0, "{name}: {} ms", at(0.95));
    }
}
