//! `/proc/self/mountstats` of a Linux NFS client: its counters by operation and of its transport.

use std::collections::BTreeMap;

use crate::captures;
use crate::transport_line::TransportLine;

/// Operations of the NFS client as a whole (`struct nfs_client`), not of one mount: each mount of the client shows the
/// same counters, so the second mount counts them a second time.
const CLIENT_WIDE: [&str; 6] =
    ["EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE", "SETCLIENTID", "SETCLIENTID_CONFIRM", "GET_LEASE_TIME"];

/// Counters of one operation.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) calls: u64,
    pub(crate) replies: u64,
    /// Bytes of complete RPC messages, including XDR padding and chunks.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) errors: u64,
}

impl Counters {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.errors += other.errors;
    }
}

/// Counters of all mounts of one capture.
pub(crate) struct Mountstats {
    /// Counters by the client's own name of the operation; unused names are omitted.
    pub(crate) operations: BTreeMap<String, Counters>,
    /// Sum of the times from the transmission of each Call, or of its last part, to its Reply, in milliseconds, by the
    /// same names.
    pub(crate) rtt_ms: BTreeMap<String, u64>,
    /// Sum of the times from the creation of each Call to that moment, in milliseconds.
    pub(crate) queue_ms: BTreeMap<String, u64>,
    pub(crate) transport: TransportLine,
}

impl Mountstats {
    pub(crate) fn read(name: &str) -> Self {
        let text = captures::companion(name, "mountstats");
        let mut stats = Self {
            operations: BTreeMap::new(),
            rtt_ms: BTreeMap::new(),
            queue_ms: BTreeMap::new(),
            transport: TransportLine::default(),
        };
        let mut mounts = 0;
        for line in text.lines() {
            if line.starts_with("device ") {
                mounts += 1;
            }
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            let numbers: Vec<u64> = value.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            // Each mount of the transport has the same line.
            if key == "xprt" && mounts == 1 {
                stats.transport.add(&numbers);
            }
            let is_operation = key.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') && numbers.len() == 9;
            if !is_operation || numbers[0] == 0 {
                continue;
            }
            let counters = Counters {
                calls: numbers[0],
                replies: numbers[1],
                bytes_sent: numbers[3],
                bytes_received: numbers[4],
                errors: numbers[8],
            };
            let is_client_wide = key == "NULL" || CLIENT_WIDE.contains(&key);
            if mounts > 1 && is_client_wide {
                assert_eq!(stats.operations.get(key), Some(&counters), "{name}: {key} of mount {mounts}");
            } else {
                stats.operations.entry(key.to_owned()).or_default().add(&counters);
                *stats.rtt_ms.entry(key.to_owned()).or_default() += numbers[6];
                *stats.queue_ms.entry(key.to_owned()).or_default() += numbers[5];
            }
        }
        assert!(!stats.operations.is_empty(), "{name}: no operation in its mountstats");
        stats
    }
}
