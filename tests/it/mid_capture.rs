//! A capture that begins in the middle of a connection decodes as completely as one that does not: BTH has no source
//! QP, so without the CM exchange the two directions are paired by their traffic.

use serde_json::{Value, json};

use crate::captures::{self, Temporary};
use crate::kernel_counters::{equals_the_second_count, every_byte_moved};
use crate::linux_names::linux_name;
use crate::program::{self, Transaction, nanoseconds};
use crate::second_count::{packet, records};

/// System call of the workload, and the operations that it causes in NFSv4.2 and in NFSv3, by the Linux client's names.
/// Operations that the client may answer from its caches (most LOOKUPs, ACCESSes and GETATTRs, a lock under a write
/// delegation) are not required; nor are those of other programs (locks and ACLs of NFSv3).
struct Workload {
    call: &'static str,
    v4: &'static [&'static str],
    v3: &'static [&'static str],
    /// Suffix of the status of the last operation if the call fails.
    error: &'static str,
}

const fn call(
    call: &'static str,
    v4: &'static [&'static str],
    v3: &'static [&'static str],
    error: &'static str,
) -> Workload {
    Workload { call, v4, v3, error }
}

const WORKLOAD: [Workload; 44] = [
    call("mkdir", &["CREATE"], &["MKDIR"], ""),
    call("write+fsync", &["OPEN", "WRITE", "CLOSE"], &["CREATE", "WRITE"], ""),
    call("write O_DIRECT", &["OPEN", "WRITE", "CLOSE"], &["CREATE", "WRITE"], ""),
    call("write O_SYNC", &["OPEN", "WRITE", "CLOSE"], &["CREATE", "WRITE"], ""),
    call("read", &["OPEN", "READ", "CLOSE"], &["LOOKUP", "READ"], ""),
    // A file opened for the second time is opened by its filehandle.
    call("read O_DIRECT", &["READ", "CLOSE"], &["READ"], ""),
    call("symlink", &["SYMLINK"], &["SYMLINK"], ""),
    call("readlink", &["LOOKUP", "READLINK"], &["LOOKUP", "READLINK"], ""),
    call("link", &["LINK"], &["LINK"], ""),
    call("rename", &["RENAME"], &["RENAME"], ""),
    call("mknod fifo", &["CREATE"], &["MKNOD"], ""),
    call("note", &[], &[], ""),
    call("readdir", &["READDIR"], &["READDIRPLUS"], ""),
    call("readdir+stat", &["GETATTR"], &["GETATTR"], ""),
    call("stat", &["LOOKUP"], &["LOOKUP"], ""),
    call("statfs", &["STATFS"], &["FSSTAT"], ""),
    call("chmod", &["SETATTR"], &["SETATTR"], ""),
    call("chown", &["SETATTR"], &["SETATTR"], ""),
    call("utime", &["SETATTR"], &["SETATTR"], ""),
    call("truncate", &["SETATTR"], &["SETATTR"], ""),
    call("access", &["ACCESS"], &["ACCESS"], ""),
    // NFSv3 has no extended attributes.
    call("setxattr", &["SETXATTR"], &[], ""),
    call("getxattr", &["GETXATTR"], &[], ""),
    call("listxattr", &["LISTXATTRS"], &[], ""),
    call("removexattr", &["REMOVEXATTR"], &[], ""),
    call("getacl", &["GETACL"], &[], ""),
    call("setacl", &["SETACL"], &[], ""),
    call(
        "sparse file",
        &["OPEN", "WRITE", "COMMIT", "SETATTR", "CLOSE"],
        &["CREATE", "WRITE", "COMMIT", "SETATTR"],
        "",
    ),
    call("lseek hole/data/hole", &["OPEN", "SEEK", "CLOSE"], &["LOOKUP"], ""),
    call("read hole", &["READ", "CLOSE"], &["READ"], ""),
    call("fallocate", &["OPEN", "ALLOCATE", "CLOSE"], &["CREATE"], ""),
    call("punch hole", &["OPEN", "DEALLOCATE", "CLOSE"], &["LOOKUP"], ""),
    call("copy_file_range", &["OPEN", "COPY", "CLOSE"], &["CREATE", "READ", "WRITE"], ""),
    call("clone", &["OPEN", "CLONE", "CLOSE"], &["CREATE"], ""),
    call("fcntl lock/unlock", &["OPEN", "LOCK", "LOCKU", "CLOSE"], &["LOOKUP"], ""),
    call("flock", &["OPEN"], &["LOOKUP"], ""),
    call("open missing", &["OPEN"], &["LOOKUP"], "ERR_NOENT"),
    call("mkdir exists", &["CREATE"], &["MKDIR"], "ERR_EXIST"),
    call("rmdir not empty", &["REMOVE"], &["RMDIR"], "ERR_NOTEMPTY"),
    // ACCESS itself succeeds: it returns the granted rights.
    call("readdir as uid 1000", &["ACCESS"], &["ACCESS"], ""),
    call("chmod as uid 1000", &["SETATTR"], &["SETATTR"], "ERR_PERM"),
    call("write to a full fs", &["OPEN", "WRITE"], &["CREATE", "WRITE"], "ERR_NOSPC"),
    call("unlink", &["REMOVE"], &["REMOVE"], ""),
    call("rmdir", &["REMOVE"], &["RMDIR"], ""),
];

/// Each line of `.ops` has its Transactions, whose Calls are between the end of the call before it and its own: the
/// workload writes a line when a call returns, by the clock of the packets.
fn every_line_of_the_workload_has_its_transactions(name: &str, transactions: &[Transaction]) {
    let is_v3 = transactions.iter().any(|t| t.is_nfs() && t.0["version"] == 3);
    let mut from = 0;
    let ops = captures::companion(name, "ops");
    let mut lines = ops.lines().peekable();
    while let Some(line) = lines.next() {
        let columns: Vec<&str> = line.split('\t').collect();
        let (until, call) = (nanoseconds(columns[1]), columns[2]);
        if call == "end" {
            break;
        }
        let during: Vec<_> = transactions
            .iter()
            .filter(|t| t.is_nfs() && t.call_time().is_some_and(|time| from < time && time <= until))
            .collect();
        let workload = WORKLOAD.iter().find(|w| w.call == call).unwrap_or_else(|| panic!("{name}: {line}"));
        // The client may send a CLOSE after the call has returned.
        let next = lines.peek().map_or(until, |next| nanoseconds(next.split('\t').nth(1).unwrap_or_default()));
        let closes =
            |t: &Transaction| linux_name(t) == "CLOSE" && t.call_time().is_some_and(|time| from < time && time <= next);
        let needed = if is_v3 { workload.v3 } else { workload.v4 };
        for operation in needed {
            assert!(
                during.iter().any(|t| linux_name(t) == *operation && t.message("reply").is_some())
                    || (*operation == "CLOSE" && transactions.iter().any(closes)),
                "{name}: no {operation} for line {line}"
            );
        }
        let has_error = |t: &&&Transaction| t.text("status").is_some_and(|s| s.ends_with(workload.error));
        let last = during.iter().filter(|t| needed.last() == Some(&linux_name(t).as_str())).find(has_error);
        assert!(workload.error.is_empty() || last.is_some(), "{name}: no {} for line {line}", workload.error);
        from = until;
    }
}

#[test]
fn a_capture_from_the_middle_has_the_transactions_of_every_line_of_the_workload() {
    for name in ["rxe-v42-mid", "siw-v42-mid"] {
        let lines = program::json(&captures::path(name));
        every_line_of_the_workload_has_its_transactions(name, &lines.transactions);
    }
}

#[test]
fn a_capture_from_the_middle_is_complete() {
    for name in ["rxe-v42-mid", "siw-v42-mid"] {
        let lines = program::json(&captures::path(name));
        equals_the_second_count(name, &lines.transactions);
        every_byte_moved(name, &lines.transactions);
    }
}

#[test]
fn a_capture_from_the_middle_knows_client_and_server() {
    let captures = ["rxe-v42-mid", "siw-v42-mid"].map(|name| program::json(&captures::path(name)).transactions);
    for transaction in captures.into_iter().flatten() {
        let sides = ["client", "server", "direction"].map(|key| transaction.text(key));
        assert_eq!(sides, [Some("10.9.0.2"), Some("10.9.0.1"), Some("forward")], "{transaction:?}");
    }
}

#[test]
fn a_whole_capture_has_the_transactions_of_every_line_of_the_workload() {
    for name in ["rxe-v3", "rxe-v42", "rxe-v42-ip6", "rxe-v42-loss", "siw-v3", "siw-v42-crc"] {
        let lines = program::json(&captures::path(name));
        every_line_of_the_workload_has_its_transactions(name, &lines.transactions);
    }
}

/// Removes the CM exchange (UD SENDs, opcode 0x64, to QP 1) from a capture; returns also the original numbers of the
/// remaining frames.
fn without_cm(pcap: &[u8]) -> (Vec<u8>, Vec<u64>) {
    let (mut cut, mut numbers) = (pcap[..24].to_vec(), Vec::new());
    for (number, (at, frame)) in (1..).zip(records(pcap)) {
        if packet(frame).is_none_or(|packet| packet.opcode != 0x64) {
            cut.extend_from_slice(&pcap[at..at + 16 + frame.len()]);
            numbers.push(number);
        }
    }
    (cut, numbers)
}

/// Replaces the frame numbers of a Transaction by those in the whole capture.
fn renumber(value: &mut Value, numbers: &[u64]) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_array_mut() {
                    Some(frames) if key == "frames" => {
                        for frame in frames {
                            *frame = json!(frame.as_u64().map(|n| numbers[n as usize - 1]));
                        }
                    }
                    _ => renumber(value, numbers),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| renumber(value, numbers)),
        _ => {}
    }
}

#[test]
fn without_its_cm_exchange_a_capture_has_the_same_transactions() {
    for name in ["rxe-v3", "rxe-v42", "rxe-v42-deleg", "rxe-v42-loss"] {
        let bytes = captures::bytes(name);
        let (pcap, numbers) = without_cm(&bytes);
        assert_eq!(numbers.len() + 5, records(&bytes).count(), "{name}: REQ, REP, RTU, DREQ and DRSP");
        let cut = Temporary::new(&format!("{name}-without-cm.pcap"), &pcap);
        let whole = program::json(&captures::path(name)).transactions;
        let without = program::json(cut.path()).transactions;
        let whole: Vec<_> = whole.into_iter().filter(Transaction::is_rdma).collect();
        let without: Vec<_> = without.into_iter().filter(Transaction::is_rdma).collect();
        assert_eq!(without.len(), whole.len(), "{name}: transactions without the CM exchange, and with it");
        for (mut without, mut whole) in without.into_iter().zip(whole) {
            renumber(&mut without.0, &numbers);
            // Connections are numbered as they appear, and one appears later without its CM exchange.
            // Some rules need the CM exchange.
            for key in ["connection", "index", "findings"] {
                without.0[key] = Value::Null;
                whole.0[key] = Value::Null;
            }
            // The ACK timeout is in the CM exchange: without it, no pause is long.
            for transaction in [&mut without, &mut whole] {
                transaction.0["call"].as_object_mut().map(|call| call.remove("lost_copy"));
                let recovery = transaction.0.as_object_mut().unwrap().remove("possible_recovery");
                let has_phase = transaction.0["phases_ns"]["server"].as_u64() >= Some(4_096 << 14);
                assert!(recovery.is_none() || has_phase, "{name}: {recovery:?}");
            }
            assert_eq!(without, whole, "{name}: without the CM exchange (left), with it (right)");
        }
    }
}
