//! Applies the rules while a view is written, and counts the findings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nfsrdma_conformance::{ConformanceChecker, Finding, FindingGranularity, ReportedFindingSeverity};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{Flow, Transaction, TransactionSlabKey};
use rustc_hash::FxHashMap;

/// Numbers of findings by severity and rule, the most severe first.
#[derive(Clone, Debug, Default)]
pub struct FindingCounts(BTreeMap<(Reverse<ReportedFindingSeverity>, &'static str), u64>);

impl FindingCounts {
    fn add(&mut self, finding: &Finding) {
        *self.0.entry((Reverse(finding.severity), finding.rule.id)).or_default() += finding.count;
    }

    /// Iterates over the rules with findings: severity, id and number, the most severe first.
    pub fn iter(&self) -> impl Iterator<Item = (ReportedFindingSeverity, &'static str, u64)> + '_ {
        self.0.iter().map(|((Reverse(severity), rule), count)| (*severity, *rule, *count))
    }

    /// Returns the number of findings of a severity.
    pub fn of_severity(&self, severity: ReportedFindingSeverity) -> u64 {
        self.iter().filter(|(rule_severity, ..)| *rule_severity == severity).map(|(.., count)| count).sum()
    }

    /// Returns the difference to counts that this includes.
    fn without(&self, included: &Self) -> Self {
        let counts = self.0.iter().filter_map(|(key, count)| {
            let remaining = count.saturating_sub(included.0.get(key).copied().unwrap_or(0));
            (remaining > 0).then_some((*key, remaining))
        });
        Self(counts.collect())
    }
}

/// A checker and the number of its findings by severity and rule.
#[derive(Debug)]
pub struct ConformanceRun {
    checker: ConformanceChecker,
    counts: FindingCounts,
    of_transactions: FindingCounts,
    of_selected: FindingCounts,
    of_connections: Option<FindingsByConnection>,
}

/// Maximum number of findings that are kept by connection.
const MAX_OF_CONNECTIONS: usize = 1 << 14;

/// First findings of each rule by the number of their connection.
#[derive(Debug, Default)]
struct FindingsByConnection {
    findings: FxHashMap<u64, Vec<Finding>>,
    count: usize,
}

impl FindingsByConnection {
    fn add(&mut self, finding: &Finding) {
        let findings = self.findings.entry(finding.connection.number).or_default();
        let is_same = |existing: &Finding| {
            (existing.rule.id, existing.side, existing.severity) == (finding.rule.id, finding.side, finding.severity)
        };
        if self.count < MAX_OF_CONNECTIONS && !findings.iter().any(is_same) {
            findings.push(finding.clone());
            self.count += 1;
        }
    }
}

impl Default for ConformanceRun {
    fn default() -> Self {
        Self {
            checker: ConformanceChecker::new().with_attached_findings(),
            counts: FindingCounts::default(),
            of_transactions: FindingCounts::default(),
            of_selected: FindingCounts::default(),
            of_connections: None,
        }
    }
}

impl ConformanceRun {
    /// Keeps the first findings of each connection, for [`ConformanceRun::take_of_connection`].
    #[must_use]
    pub fn with_findings_by_connection(self) -> Self {
        let of_connections = Some(FindingsByConnection::default());
        Self { checker: self.checker.with_first_violations(), of_connections, ..self }
    }

    /// Judges the transport events of the last frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        self.checker.record_events(flow);
        if self.checker.has_findings() {
            self.take_ready();
        }
    }

    #[cold]
    fn take_ready(&mut self) {
        let ready = self.checker.take_ready();
        ready.iter().for_each(|finding| self.counts.add(finding));
        let first = self.checker.take_first();
        if let Some(of_connections) = &mut self.of_connections {
            ready.iter().chain(&first).for_each(|finding| of_connections.add(finding));
        }
    }

    /// Removes and returns the first finding of each rule on a connection, in its Transactions or about the connection
    /// itself, the most severe first.
    pub fn take_of_connection(&mut self, number: u64) -> Vec<Finding> {
        if self.checker.has_findings() {
            self.take_ready();
        }
        let Some(of_connections) = &mut self.of_connections else { return Vec::new() };
        let mut findings = of_connections.findings.remove(&number).unwrap_or_default();
        of_connections.count -= findings.len();
        findings.sort_by_key(|finding| (Reverse(finding.severity), finding.frames.first().copied()));
        findings
    }

    /// Judges a Transaction, and returns its findings, the most severe first: also the violations in it that count for
    /// a finding about its connection.
    pub fn check(
        &mut self,
        key: Option<TransactionSlabKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) -> Vec<Finding> {
        let mut findings = self.checker.check_transaction(key, transaction, messages, summary);
        findings.sort_by_key(|finding| Reverse(finding.severity));
        for finding in &findings {
            self.of_transactions.add(finding);
            // Otherwise, the finding about the connection counts it at the end.
            if finding.rule.scope == FindingGranularity::Each {
                self.counts.add(finding);
                if let Some(of_connections) = &mut self.of_connections {
                    of_connections.add(finding);
                }
            }
        }
        findings
    }

    /// Counts the findings of a Transaction that a filter selected.
    pub fn select(&mut self, findings: &[Finding]) {
        findings.iter().for_each(|finding| self.of_selected.add(finding));
    }

    /// Ends the input.
    pub fn finish(&mut self) {
        self.checker.finish().iter().for_each(|finding| self.counts.add(finding));
    }

    /// Returns the counts of all findings; those about connections are included from the end of the input on.
    pub fn counts(&self) -> &FindingCounts {
        &self.counts
    }

    /// Returns the counts of the findings of selected Transactions.
    pub fn selected_counts(&self) -> &FindingCounts {
        &self.of_selected
    }

    /// Returns the counts of violations in no Transaction, at the end of the input.
    pub fn counts_without_transaction(&self) -> FindingCounts {
        self.counts.without(&self.of_transactions)
    }
}
