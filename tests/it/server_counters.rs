//! The program agrees with the counters of the Linux server: procedures of NFSv3, and executed NFSv4 operations
//! (`/proc/net/rpc/nfsd`, read after the unmount).

use std::collections::BTreeMap;

use crate::captures;
use crate::program::{self, Transaction};
use crate::rfc_names::{NFS3_PROCEDURES, nfs4_operation};

/// Returns the numbers of a line of nfsd-stats, after their leading count.
fn line(text: &str, key: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} "))).unwrap_or_default();
    line.split(' ').skip(1).map(|word| word.parse().unwrap_or_else(|e| panic!("{key}: {word}: {e}"))).collect()
}

/// Returns the Calls of NFS over the transport of the capture.
fn nfs(transactions: &[Transaction], version: u64, is_rdma: bool) -> impl Iterator<Item = &Transaction> {
    transactions.iter().filter(move |t| t.is_rdma() == is_rdma && t.is_nfs() && t.0["version"] == version)
}

fn equals_the_servers_counters(name: &str) {
    let text = captures::companion(name, "nfsd-stats");
    let is_rdma = !name.starts_with("tcp");
    let transactions = program::json(&captures::path(name)).transactions;

    let mut server = BTreeMap::new();
    for (procedure, calls) in NFS3_PROCEDURES.iter().zip(line(&text, "proc3")) {
        server.insert(format!("NFSv3 {procedure}"), calls);
    }
    for (procedure, calls) in ["NULL", "COMPOUND"].iter().zip(line(&text, "proc4")) {
        server.insert(format!("NFSv4 {procedure}"), calls);
    }
    // A failing operation is executed; those after it are not.
    for (number, executed) in (0..).zip(line(&text, "proc4ops")).skip(3) {
        server.insert(format!("operation {}", nfs4_operation(number)), executed);
    }

    let mut program: BTreeMap<String, u64> = server.keys().map(|key| (key.clone(), 0)).collect();
    for version in [3, 4] {
        for transaction in nfs(&transactions, version, is_rdma) {
            let procedure = transaction.text("procedure").unwrap_or("?");
            *program.entry(format!("NFSv{version} {procedure}")).or_default() += 1;
            // The server has executed a Call whose Reply does not fit into the Reply chunk.
            let is_executed = transaction.text("rpc_status") == Some("RDMA_ERROR:ERR_CHUNK");
            for (operation, entry) in transaction.operations() {
                if version == 4 && (entry["status"].is_string() || is_executed) {
                    *program.entry(format!("operation {operation}")).or_default() += 1;
                }
            }
        }
    }
    for (key, calls) in &program {
        assert_eq!(server.get(key), Some(calls), "{name}: {key}: server (left) and program (right)");
    }
}

#[test]
fn rxe_v3_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v3");
}

#[test]
fn rxe_v40_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v40");
}

#[test]
fn rxe_v40_with_delegations_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v40-deleg");
}

#[test]
fn rxe_v41_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v41");
}

#[test]
fn rxe_v42_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v42");
}

#[test]
fn rxe_v42_with_delegations_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v42-deleg");
}

#[test]
fn rxe_v42_over_ipv6_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v42-ip6");
}

#[test]
fn rxe_v42_with_lost_packets_equals_the_servers_counters() {
    equals_the_servers_counters("rxe-v42-loss");
}

#[test]
fn tcp_v3_equals_the_servers_counters() {
    equals_the_servers_counters("tcp-v3");
}

#[test]
fn tcp_v42_equals_the_servers_counters() {
    equals_the_servers_counters("tcp-v42");
}

#[test]
fn siw_v3_equals_the_servers_counters() {
    equals_the_servers_counters("siw-v3");
}

#[test]
fn siw_v41_equals_the_servers_counters() {
    equals_the_servers_counters("siw-v41");
}

#[test]
fn siw_v42_equals_the_servers_counters() {
    equals_the_servers_counters("siw-v42");
}

#[test]
fn calls_answered_with_err_chunk_equal_the_servers_counters() {
    for name in ["rxe-v40-errors", "siw-v40-errors"] {
        equals_the_servers_counters(name);
    }
}

#[test]
fn siw_v42_with_crcs_equals_the_servers_counters() {
    equals_the_servers_counters("siw-v42-crc");
}

#[test]
fn concurrent_calls_that_use_all_credits_equal_the_servers_counters() {
    equals_the_servers_counters("rxe-v42-credits");
}

#[test]
fn large_reads_and_writes_under_loss_equal_the_servers_counters() {
    for name in ["rxe-v42-bulk-loss1", "rxe-v42-bulk-loss5", "siw-v42-bulk-loss", "tcp-v42-bulk-loss"] {
        equals_the_servers_counters(name);
    }
}

#[test]
fn applications_and_large_calls_equal_the_servers_counters() {
    for name in ["rxe-v42-database", "rxe-v42-large", "rxe-v42-maildir"] {
        equals_the_servers_counters(name);
    }
}
