//! Field by field agreement with tshark, for what tshark decodes correctly: XID, direction, RPC program, version and
//! procedure, NFS operations and statuses of every message that it shows, on RoCEv2, TCP and UDP. Its errors are listed
//! in `WRONG`, with the reason. The test is skipped, with a message, if tshark is not installed.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use crate::captures;
use crate::program::{self, Transaction, frames};
use crate::rfc_names::{NFS3_PROCEDURES, callback_operation, nfs4_operation, status};
use crate::skipped::skip_without;

const FIELDS: [&str; 12] = [
    "frame.number",
    "rpc.xid",
    "rpc.msgtyp",
    "rpc.program",
    "rpc.programversion",
    "rpc.procedure",
    "nfs.opcode",
    "nfs.cb.operation",
    "nfs.status3",
    "nfs.nfsstat4",
    "infiniband.bth.opcode",
    "_ws.malformed",
];

/// RPC message as shown by tshark.
#[derive(Debug)]
struct Shown {
    frame: u64,
    is_rdma: bool,
    xid: u32,
    side: &'static str,
    program: u64,
    version: u64,
    procedure: u64,
    operations: Vec<String>,
    statuses: Vec<u64>,
    is_malformed: bool,
}

/// Comparable part of a message.
#[derive(Clone, Copy, PartialEq)]
enum Compare {
    /// Everything except the frame number.
    AllButFrame,
    /// XID, direction, program, version and procedure.
    Header,
    /// The operations up to the one at which tshark stops, and the statuses that it shows of them.
    Shorter,
    /// Everything, but only as many statuses as there are operations.
    FirstStatuses,
}

/// Error of tshark: its condition, the part that can still be compared, and the reason.
struct Wrong {
    reason: &'static str,
    is_this: fn(&Shown, &Transaction) -> bool,
    compare: Compare,
}

const WRONG: [Wrong; 7] = [
    Wrong {
        reason: "a call with Read chunks is shown at the last RDMA Read response, not at its SEND",
        is_this: |shown, transaction| {
            let moved = transaction.segments("read_chunks").into_iter().flat_map(frames);
            shown.side == "call" && moved.max() == Some(shown.frame)
        },
        compare: Compare::AllButFrame,
    },
    Wrong {
        reason: "a reply that is sent again is decoded without the chunk data of its first copy, and malformed",
        is_this: |shown, transaction| {
            let reply = transaction.message("reply");
            shown.side == "reply" && shown.is_malformed && reply.is_some_and(|reply| reply["copies"].as_u64() > Some(1))
        },
        compare: Compare::Header,
    },
    Wrong {
        reason: "an OPEN reply with OPEN_DELEGATE_NONE_EXT ends there: its boolean (RFC 8881 section 18.16.2) is not read",
        is_this: |shown, transaction| shown.side == "reply" && stops_at(shown, transaction, "OPEN", &[]),
        compare: Compare::Shorter,
    },
    Wrong {
        reason: "an OPEN call with CLAIM_DELEG_CUR_FH ends there: its stateid is not read, but shown as operation 1",
        is_this: |shown, transaction| shown.side == "call" && stops_at(shown, transaction, "OPEN", &["?"]),
        compare: Compare::Shorter,
    },
    Wrong {
        reason: "GET_DIR_DELEGATION is not decoded, and the COMPOUND ends there",
        is_this: |shown, transaction| stops_at(shown, transaction, "GET_DIR_DELEGATION", &[]),
        compare: Compare::Shorter,
    },
    Wrong {
        reason: "the attribute rdattr_error of each entry of a READDIR is shown among the statuses of operations",
        is_this: |shown, transaction| {
            let operations = transaction.operations();
            shown.side == "reply" && operations.last().is_some_and(|(operation, _)| *operation == "READDIR")
        },
        compare: Compare::FirstStatuses,
    },
    Wrong {
        reason: "the operations that an EXCHANGE_ID wants protected are shown as operations of the COMPOUND",
        is_this: |shown, transaction| {
            shown.operations.len() > 1 && transaction.operations().first().is_some_and(|(op, _)| *op == "EXCHANGE_ID")
        },
        compare: Compare::Header,
    },
];

/// Returns `true` if tshark shows the operations up to this one and then no more, except `more`.
fn stops_at(shown: &Shown, transaction: &Transaction, operation: &str, more: &[&str]) -> bool {
    let mut operations = transaction.operations();
    operations.retain(|(_, entry)| shown.side == "call" || entry["status"].is_string());
    let operations: Vec<_> = operations.into_iter().map(|(name, _)| name).collect();
    let Some(at) = operations.iter().position(|name| *name == operation) else { return false };
    let shows = [&operations[..=at], more].concat();
    shown.operations == shows && at + 1 < operations.len()
}

/// Returns every RPC message that tshark shows; `None` if it is not installed.
fn tshark(name: &str) -> Option<Vec<Shown>> {
    let mut command = Command::new("tshark");
    command.arg("-2").arg("-r").arg(captures::path(name)).args(["-T", "fields"]);
    // The client of `tcp-v42` uses the port of DNS over TLS, and its records would be dissected as that.
    command.args(["--disable-protocol", "tls"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().ok()?;
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(shown).collect())
}

fn shown(line: &str) -> Option<Shown> {
    let columns: HashMap<_, _> = FIELDS.into_iter().zip(line.split('\t')).collect();
    if columns["rpc.xid"].is_empty() {
        return None;
    }
    let numbers = |field| -> Vec<u64> { columns[field].split(',').filter_map(|n| n.parse().ok()).collect() };
    let first = |field| numbers(field).first().copied().unwrap_or(u64::MAX);
    let names = |field, name: fn(u64) -> &'static str| numbers(field).into_iter().map(move |n| name(n).to_owned());
    let statuses = [numbers("nfs.status3"), numbers("nfs.nfsstat4")].concat();
    Some(Shown {
        frame: first("frame.number"),
        is_rdma: !columns["infiniband.bth.opcode"].is_empty(),
        xid: u32::from_str_radix(columns["rpc.xid"].split(',').next()?.trim_start_matches("0x"), 16).ok()?,
        side: if first("rpc.msgtyp") == 0 { "call" } else { "reply" },
        program: first("rpc.program"),
        version: first("rpc.programversion"),
        procedure: first("rpc.procedure"),
        operations: names("nfs.opcode", nfs4_operation).chain(names("nfs.cb.operation", callback_operation)).collect(),
        statuses,
        is_malformed: !columns["_ws.malformed"].is_empty(),
    })
}

/// Returns the program's Transaction of a message: by the frame, or else (`WRONG`) by the XID alone.
fn transaction_of<'a>(shown: &Shown, transactions: &'a [Transaction]) -> Option<&'a Transaction> {
    let with_xid = || transactions.iter().filter(|t| t.is_rdma() == shown.is_rdma && t.xid() == shown.xid);
    let has_frame = |t: &&Transaction| t.message(shown.side).is_some_and(|m| frames(m).contains(&shown.frame));
    with_xid().find(has_frame).or_else(|| {
        with_xid().find(|t| WRONG.iter().any(|w| w.compare == Compare::AllButFrame && (w.is_this)(shown, t)))
    })
}

fn agree(name: &str, shown: &Shown, transaction: &Transaction, wrong: Option<&Wrong>) {
    let at = format!("{name}: tshark {shown:?}, program {transaction:?}");
    assert_eq!(transaction.0["program"].as_u64(), Some(shown.program), "program: {at}");
    assert_eq!(transaction.0["version"].as_u64(), Some(shown.version), "version: {at}");
    let procedure = match (shown.program, shown.version, shown.procedure) {
        (_, _, 0) => Some("NULL"),
        (100_003, 3, procedure) => NFS3_PROCEDURES.get(procedure as usize).copied(),
        (100_003, 4, 1) => Some("COMPOUND"),
        (0x4000_0000, _, 1) => Some("CB_COMPOUND"),
        _ => transaction.text("procedure"),
    };
    assert_eq!(transaction.text("procedure"), procedure, "procedure: {at}");
    let is_nfs = matches!(shown.program, 100_003 | 0x4000_0000);
    if !is_nfs || wrong.is_some_and(|w| w.compare == Compare::Header) {
        return;
    }

    let mut operations = transaction.operations();
    if shown.side == "reply" {
        operations.retain(|(_, entry)| entry["status"].is_string());
    }
    if wrong.is_some_and(|w| w.compare == Compare::Shorter) {
        operations.truncate(shown.operations.iter().take_while(|operation| *operation != "?").count());
    } else {
        let names: Vec<_> = operations.iter().map(|(operation, _)| *operation).collect();
        assert_eq!(names, shown.operations, "operations: {at}");
    }
    if shown.side == "reply" && shown.procedure != 0 {
        let version = if shown.version == 3 { 3 } else { 4 };
        let mut by_tshark: Vec<_> = shown.statuses.iter().map(|number| status(version, *number)).collect();
        let entries = operations.iter().map(|(_, entry)| entry["status"].as_str());
        let mut statuses: Vec<_> = std::iter::once(transaction.text("status")).chain(entries).collect();
        match wrong.map(|w| w.compare) {
            Some(Compare::FirstStatuses) => by_tshark.truncate(statuses.len()),
            Some(Compare::Shorter) => statuses.truncate(by_tshark.len()),
            _ => {}
        }
        assert!(!by_tshark.is_empty(), "no status: {at}");
        let by_tshark: Vec<_> = by_tshark.iter().map(|name| Some(name.as_str())).collect();
        assert_eq!(statuses, by_tshark, "statuses: {at}");
    }
}

fn agrees_with_tshark(name: &str) {
    let Some(messages) = tshark(name) else {
        skip_without("tshark");
        return;
    };
    assert!(!messages.is_empty(), "{name}: tshark shows no RPC message");
    let transactions = program::json(&captures::path(name)).transactions;
    let mut wrongs: BTreeMap<&str, u64> = BTreeMap::new();
    for shown in &messages {
        let transaction = transaction_of(shown, &transactions)
            .unwrap_or_else(|| panic!("{name}: no {} with the XID and frame of {shown:?}", shown.side));
        let wrong = WRONG.iter().filter(|w| (w.is_this)(shown, transaction));
        let wrong = wrong.inspect(|w| *wrongs.entry(w.reason).or_default() += 1).last();
        agree(name, shown, transaction, wrong);
    }
    eprintln!("{name}: {} messages agree with tshark, but for {wrongs:#?}", messages.len());
}

#[test]
fn rxe_v3_agrees_with_tshark() {
    agrees_with_tshark("rxe-v3");
}

#[test]
fn rxe_v40_agrees_with_tshark() {
    agrees_with_tshark("rxe-v40");
    agrees_with_tshark("rxe-v40-deleg");
}

#[test]
fn rxe_v41_agrees_with_tshark() {
    agrees_with_tshark("rxe-v41");
}

#[test]
fn rxe_v42_agrees_with_tshark() {
    agrees_with_tshark("rxe-v42");
}

#[test]
fn rxe_v42_with_callbacks_on_the_same_connection_agrees_with_tshark() {
    agrees_with_tshark("rxe-v42-deleg");
}

#[test]
fn rxe_v42_over_ipv6_agrees_with_tshark() {
    agrees_with_tshark("rxe-v42-ip6");
}

#[test]
fn rxe_v42_with_rpcsec_gss_agrees_with_tshark() {
    agrees_with_tshark("rxe-v42-krb5");
}

#[test]
fn rxe_v42_with_lost_packets_agrees_with_tshark() {
    agrees_with_tshark("rxe-v42-loss");
}

#[test]
fn four_connections_at_once_agree_with_tshark() {
    agrees_with_tshark("rxe-v42-conc-head");
}

#[test]
fn tcp_v3_agrees_with_tshark() {
    agrees_with_tshark("tcp-v3");
}

#[test]
fn tcp_v42_agrees_with_tshark() {
    agrees_with_tshark("tcp-v42");
}
