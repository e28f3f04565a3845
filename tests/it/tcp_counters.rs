//! The program agrees with the counters of the Linux client for a mount over TCP: operations, errors, bytes, and
//! messages.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::captures;
use crate::kernel_counters::{counted_calls, operations};
use crate::mountstats::Mountstats;
use crate::program::{self, Transaction};

/// Returns the Transactions of the mount: the connection to the server with most of them.
fn of_the_mount(transactions: &[Transaction]) -> Vec<&Transaction> {
    let mut by_connection: BTreeMap<u64, Vec<&Transaction>> = BTreeMap::new();
    for transaction in transactions.iter().filter(|t| t.text("transport") == Some("tcp")) {
        let connection = program::number(&transaction.0, "connection");
        by_connection.entry(connection).or_default().push(transaction);
    }
    by_connection.into_values().max_by_key(Vec::len).expect("Transactions over TCP")
}

/// The client includes the record mark in the bytes sent, and not in the bytes received.
const RECORD_MARK: u64 = 4;

fn equals_the_kernels_counters(name: &str) {
    let transactions = program::json(&captures::path(name)).transactions;
    let kernel = Mountstats::read(name);
    let mount = of_the_mount(&transactions);
    let calls = counted_calls(mount.iter().copied(), &kernel);
    let mut operations = operations(&calls);
    for counters in operations.values_mut() {
        counters.bytes_sent += counters.calls * RECORD_MARK;
    }
    for operation in kernel.operations.keys().chain(operations.keys()) {
        let counted = (kernel.operations.get(operation), operations.get(operation));
        assert_eq!(counted.0, counted.1, "{name}: {operation}: the kernel (left) and the program (right)");
    }
    // Calls of NFSACL are not operations of the mount, but messages of its transport.
    let replies = calls.iter().filter(|t| t.message("reply").is_some()).count();
    assert_eq!(calls.len() as u64, kernel.transport.sends, "{name}: messages that the client sent");
    assert_eq!(replies as u64, kernel.transport.receives, "{name}: replies that the client received");
    for transaction in &transactions {
        assert_eq!(transaction.0["complete"], Value::Bool(true), "{name}: {transaction:?}");
    }
}

#[test]
fn tcp_v3_equals_the_kernels_counters() {
    equals_the_kernels_counters("tcp-v3");
}

#[test]
fn tcp_v42_equals_the_kernels_counters() {
    equals_the_kernels_counters("tcp-v42");
}

#[test]
fn tcp_v42_with_lost_segments_equals_the_kernels_counters() {
    equals_the_kernels_counters("tcp-v42-bulk-loss");
}

#[test]
fn calls_to_nfs_ganesha_equal_the_kernels_counters() {
    equals_the_kernels_counters("tcp-v42-ganesha");
}
