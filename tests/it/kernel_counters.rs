//! The program agrees with the counters of the Linux client during the capture, to the last byte.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::captures;
use crate::linux_names::linux_name;
use crate::mountstats::{Counters, Mountstats};
use crate::program::{self, Transaction, number};
use crate::second_count;
use crate::transport_line::{Kind, Segment, Totals};

/// Operations sent after mountstats was read, before the unmount, which only the capture has.
const AFTER_THE_COUNTERS: [&str; 4] = ["CLOSE", "DELEGRETURN", "DESTROY_SESSION", "DESTROY_CLIENTID"];

/// Returns the forward Transactions with a Call, in the order of the Calls.
fn forward_calls<'a>(transactions: impl IntoIterator<Item = &'a Transaction>) -> Vec<&'a Transaction> {
    let calls = transactions.into_iter().filter(|t| t.is_forward() && t.call_time().is_some());
    let mut calls: Vec<_> = calls.collect();
    calls.sort_by_key(|t| t.call_time());
    calls
}

/// Returns the Calls before the client's counters were read: all except those that an unmount sends at the end and the
/// counters do not include.
pub(crate) fn counted_calls<'a>(
    transactions: impl IntoIterator<Item = &'a Transaction>,
    kernel: &Mountstats,
) -> Vec<&'a Transaction> {
    let mut calls = forward_calls(transactions);
    let mut seen = operations(&calls);
    while let Some(name) = calls.last().filter(|t| t.is_nfs()).map(|t| linux_name(t)) {
        let counted = kernel.operations.get(&name).map_or(0, |counters| counters.calls);
        let Some(tally) = seen.get_mut(&name).filter(|tally| tally.calls > counted) else { break };
        if !AFTER_THE_COUNTERS.contains(&name.as_str()) {
            break;
        }
        tally.calls -= 1;
        calls.pop();
    }
    calls
}

/// Counts the Transactions like the Linux client.
pub(crate) fn operations(calls: &[&Transaction]) -> BTreeMap<String, Counters> {
    let mut operations: BTreeMap<String, Counters> = BTreeMap::new();
    for transaction in calls.iter().filter(|t| t.is_nfs()) {
        let counters = operations.entry(linux_name(transaction)).or_default();
        counters.calls += 1;
        counters.bytes_sent += transaction.message("call").map_or(0, |call| call["rpc_length"].as_u64().unwrap_or(0));
        if let Some(reply) = transaction.message("reply") {
            counters.replies += 1;
            counters.bytes_received += reply["rpc_length"].as_u64().unwrap_or(0);
        }
        counters.errors += u64::from(transaction.has_failed());
    }
    operations
}

fn segment(kind: Kind, length: &Value) -> Option<Segment> {
    length.as_u64().map(|length| Segment { kind, length })
}

/// Counts the Transactions like the transport line: copies of a message count once.
pub(crate) fn totals<'a>(transactions: impl IntoIterator<Item = &'a Transaction>) -> Totals {
    let mut totals = Totals::default();
    for transaction in transactions.into_iter().filter(|t| t.is_rdma()) {
        let chunks = [(Kind::Read, "read_chunks"), (Kind::Write, "write_chunks"), (Kind::Reply, "reply_chunk")];
        let lengths = |key: &str| -> Vec<Segment> {
            let all = chunks.iter().flat_map(|(kind, list)| {
                transaction.segments(list).into_iter().filter_map(|s| segment(*kind, &s[key]))
            });
            all.collect()
        };
        for (side, is_call, segments) in [("call", true, lengths("length")), ("reply", false, lengths("returned"))] {
            let Some(message) = transaction.message(side) else { continue };
            let procedure = message["rpcrdma"]["proc"].as_str().unwrap_or("?");
            totals.add(transaction.is_forward() == is_call, is_call, procedure, &segments);
        }
    }
    totals
}

/// Compares the kernel's counters, the second count and the program.
fn equals_the_kernels_counters(name: &str) {
    let lines = program::json(&captures::path(name));
    let kernel = Mountstats::read(name);
    let calls = counted_calls(lines.transactions.iter().filter(|t| t.is_rdma()), &kernel);

    let operations = operations(&calls);
    let names = kernel.operations.keys().chain(operations.keys());
    for operation in names {
        let counted = (kernel.operations.get(operation), operations.get(operation));
        assert_eq!(counted.0, counted.1, "{name}: {operation}: the kernel (left) and the program (right)");
    }

    let reverse = lines.transactions.iter().filter(|t| t.is_rdma() && !t.is_forward());
    let totals = totals(calls.into_iter().chain(reverse));
    assert_eq!(totals.sends(), kernel.transport.sends, "{name}: messages that the client sent");
    assert_eq!(totals.receives(), kernel.transport.receives, "{name}: replies that the client received");
    kernel.transport.assert_counts(name, &totals);

    equals_the_second_count(name, &lines.transactions);
    every_byte_moved(name, &lines.transactions);
}

/// Compares messages by direction and procedure, segments by kind, and bytes offered and returned.
pub(crate) fn equals_the_second_count(name: &str, transactions: &[Transaction]) {
    let second = second_count::totals(&second_count::messages(&captures::bytes(name)));
    let program = totals(transactions);
    assert_eq!(program.messages, second.messages, "{name}: messages: program (left), second count (right)");
    assert_eq!(program.counts, second.counts, "{name}: segments: program (left), second count (right)");
}

/// The client received all its data, so in a whole capture RDMA moved all data that the Calls advertised for reading
/// and all data that the Replies report as written: retransmission counts once, and every Transaction is complete.
pub(crate) fn every_byte_moved(name: &str, transactions: &[Transaction]) {
    for transaction in transactions.iter().filter(|t| t.is_rdma()) {
        let at = format!("{name}: XID {:?}", transaction.text("xid"));
        for segment in transaction.segments("read_chunks") {
            assert_eq!(segment["moved"], segment["length"], "{at}: {segment}");
        }
        for segment in [transaction.segments("write_chunks"), transaction.segments("reply_chunk")].concat() {
            // A chunk that the Reply did not use returned nothing.
            assert_eq!(number(segment, "moved"), segment["returned"].as_u64().unwrap_or(0), "{at}: {segment}");
        }
        assert_eq!(transaction.0["complete"], Value::Bool(true), "{at}: missing {:?}", transaction.missing());
    }
}

#[test]
fn rxe_v3_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v3");
}

#[test]
fn rxe_v40_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v40");
}

#[test]
fn rxe_v40_with_delegations_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v40-deleg");
}

#[test]
fn rxe_v41_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v41");
}

#[test]
fn rxe_v42_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42");
}

#[test]
fn rxe_v42_with_callbacks_on_the_same_connection_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-deleg");
}

#[test]
fn rxe_v42_over_ipv6_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-ip6");
}

#[test]
fn rxe_v42_with_lost_packets_equals_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-loss");
}

#[test]
fn rxe_v42_with_rpcsec_gss_equals_the_second_count() {
    equals_the_second_count("rxe-v42-krb5", &program::json(&captures::path("rxe-v42-krb5")).transactions);
}

#[test]
fn four_connections_at_once_equal_the_second_count() {
    equals_the_second_count("rxe-v42-conc-head", &program::json(&captures::path("rxe-v42-conc-head")).transactions);
}

#[test]
fn siw_v3_equals_the_kernels_counters() {
    equals_the_kernels_counters("siw-v3");
}

#[test]
fn siw_v41_equals_the_kernels_counters() {
    equals_the_kernels_counters("siw-v41");
}

#[test]
fn siw_v42_equals_the_kernels_counters() {
    equals_the_kernels_counters("siw-v42");
}

#[test]
fn siw_v42_with_lost_segments_equals_the_kernels_counters() {
    equals_the_kernels_counters("siw-v42-bulk-loss");
}

#[test]
fn siw_v42_with_crcs_equals_the_kernels_counters() {
    equals_the_kernels_counters("siw-v42-crc");
}

#[test]
fn concurrent_calls_that_use_all_credits_equal_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-credits");
}

#[test]
fn applications_and_large_calls_equal_the_kernels_counters() {
    for name in ["rxe-v42-database", "rxe-v42-large", "rxe-v42-maildir"] {
        equals_the_kernels_counters(name);
    }
}

#[test]
fn large_reads_and_writes_under_one_percent_of_loss_equal_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-bulk-loss1");
}

#[test]
fn large_reads_and_writes_under_five_percent_of_loss_equal_the_kernels_counters() {
    equals_the_kernels_counters("rxe-v42-bulk-loss5");
}
