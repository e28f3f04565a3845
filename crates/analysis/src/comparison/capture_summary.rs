//! Summary of a capture in a comparison.

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_conformance::ReportedFindingSeverity;
use nfsrdma_flow::{EvictedState, Flow, Transaction, UndecodedReason};

use super::record::ComparableTransaction;
use crate::conformance::run::FindingCounts;

/// Maximum number of transports and of versions kept; real captures have fewer.
const MAX_NAMES: usize = 16;

/// Summary of a capture.
#[derive(Clone, Debug, Default)]
pub struct ComparedCaptureSummary {
    /// File name.
    pub name: String,
    /// Number of frames.
    pub frames: u64,
    /// Number of Transactions.
    pub transactions: u64,
    /// Number of incomplete Transactions.
    pub incomplete: u64,
    /// Transports of its connections.
    pub transports: BTreeSet<String>,
    /// Programs and their versions: `NFS 4.2`.
    pub versions: BTreeSet<String>,
    /// Number of frames that were not decoded, by reason.
    pub undecoded: BTreeMap<&'static str, u64>,
    /// Number of evicted states, by kind.
    pub evicted: BTreeMap<&'static str, u64>,
    /// Number of violations of conformance rules in no Transaction, by rule, of severity error or warning.
    pub findings: BTreeMap<&'static str, u64>,
}

impl ComparedCaptureSummary {
    /// Adds a Transaction and its record.
    pub fn transaction(&mut self, transaction: &Transaction, record: &ComparableTransaction) {
        self.transactions += 1;
        self.incomplete += u64::from(!record.missing.is_empty());
        let add = |names: &mut BTreeSet<String>, name: String| {
            if names.len() < MAX_NAMES {
                names.insert(name);
            }
        };
        add(&mut self.transports, transaction.connection.transport.to_string());
        // A NULL Call has no minor version.
        if !record.is_null && record.call.is_some() {
            add(&mut self.versions, record.title.split(' ').take(2).collect::<Vec<_>>().join(" "));
        }
    }

    /// Takes the counts of undecoded frames and evicted state at the end of the capture.
    pub fn record_flow_counts(&mut self, flow: &Flow) {
        self.undecoded =
            flow.stats().undecoded_counts().map(|(reason, count)| (UndecodedReason::key(reason), count)).collect();
        self.evicted = flow.evicted_counts().map(|(state, count)| (EvictedState::key(state), count)).collect();
    }

    /// Takes the counts of violations in no Transaction at the end of the capture.
    pub fn record_findings(&mut self, counts: &FindingCounts) {
        for (_, rule, count) in counts.iter().filter(|(severity, ..)| *severity >= ReportedFindingSeverity::Warning) {
            *self.findings.entry(rule).or_default() += count;
        }
    }
}
