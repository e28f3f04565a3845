//! A capture with a snap length decodes as far as its bytes go, says what is missing, and counts by the lengths
//! that the headers carry. `rxe-v42-snap128` holds 128 bytes of each frame: an RPC-over-RDMA message of up to 74
//! bytes is whole.

use std::collections::BTreeMap;

use crate::captures;
use crate::kernel_counters::{equals_the_second_count, totals};
use crate::mountstats::Mountstats;
use crate::program::{self, Transaction};
use crate::second_count::{self, Message};

const NAME: &str = "rxe-v42-snap128";

/// DESTROY_SESSION and DESTROY_CLIENTID, which the unmount sends after the kernel's counters were read.
const CALLS_OF_THE_UNMOUNT: u64 = 2;

fn transactions() -> Vec<Transaction> {
    program::json(&captures::path(NAME)).transactions
}

/// The SENDs of the capture, by XID and by the side of the Transaction that they are.
fn sends() -> BTreeMap<(u32, &'static str), Message> {
    let messages = second_count::messages(&captures::bytes(NAME));
    messages.into_iter().map(|m| ((m.xid, if m.is_call { "call" } else { "reply" }), m)).collect()
}

#[test]
fn with_a_snap_length_every_message_is_counted_and_every_segment_that_is_there() {
    equals_the_second_count(NAME, &transactions());
}

#[test]
fn with_a_snap_length_there_are_as_many_calls_and_replies_as_the_kernel_counted() {
    let (totals, line) = (totals(&transactions()), Mountstats::read(NAME).transport);
    assert_eq!(totals.sends(), line.sends + CALLS_OF_THE_UNMOUNT);
    assert_eq!(totals.receives(), line.receives + CALLS_OF_THE_UNMOUNT);
}

#[test]
fn with_a_snap_length_the_bytes_are_the_kernels() {
    let (totals, line) = (totals(&transactions()), Mountstats::read(NAME).transport);
    assert_eq!(totals.counts.returned, line.counts.returned, "bytes returned");
    assert_eq!(totals.counts.write_segments, line.counts.write_segments, "Write segments");
    // The last segment of a long list lies behind the snap length, one at most of a Call.
    let cut = sends().values().filter(|send| send.is_call && send.are_lists_cut).count() as u64;
    let missing = (line.counts.read_segments + line.counts.reply_segments)
        .checked_sub(totals.counts.read_segments + totals.counts.reply_segments)
        .expect("the kernel marshalled every segment that is there");
    assert!(missing <= cut, "{missing} segments are missing, {cut} Calls have cut lists");
}

#[test]
fn with_a_snap_length_moved_says_what_the_headers_say() {
    for transaction in transactions() {
        for segment in transaction.segments("read_chunks") {
            assert_eq!(segment["moved"], segment["length"], "{segment} of {transaction:?}");
        }
        for segment in [transaction.segments("write_chunks"), transaction.segments("reply_chunk")].concat() {
            let returned = segment["returned"].as_u64();
            assert!(returned.is_none_or(|returned| segment["moved"] == returned), "{segment}");
        }
    }
}

#[test]
fn a_transaction_that_the_snap_length_cut_says_so() {
    let sends = sends();
    for transaction in transactions() {
        for side in ["call", "reply"] {
            let is_cut = sends.get(&(transaction.xid(), side)).is_some_and(|send| send.is_cut);
            let missing = transaction.missing();
            let says_so = missing.iter().any(|code| code.starts_with(&format!("{side}:")));
            assert_eq!(says_so, is_cut, "{side} of {transaction:?}");
            assert!(!is_cut || transaction.0["complete"] == false, "{transaction:?}");
        }
    }
}

#[test]
fn with_a_snap_length_operations_are_the_kernels_as_far_as_the_bytes_go() {
    // The credential alone fills what is left of a Call, so no COMPOUND shows its operations: NULL is whole,
    // and every other Call that holds its procedure (RFC 5531 section 9: the sixth word) is a COMPOUND.
    let kernel = Mountstats::read(NAME);
    let sends = sends();
    let shows_procedure = |xid| sends.get(&(xid, "call")).is_some_and(|send| send.rpc_captured >= 24);
    let mut calls: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for transaction in transactions().iter().filter(|t| shows_procedure(t.xid())) {
        assert!(transaction.is_nfs(), "{transaction:?}");
        *calls.entry(transaction.text("operation").map(str::to_owned)).or_default() += 1;
    }
    let compounds = sends.values().filter(|send| send.is_call && send.rpc_captured >= 24).count() as u64 - 1;
    let expected = [("NULL", kernel.operations["NULL"].calls), ("COMPOUND", compounds)];
    assert_eq!(calls, expected.into_iter().map(|(name, calls)| (Some(name.to_owned()), calls)).collect());
}
