//! A checker beside a view, with its totals.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nfsrdma_conformance::{ConformanceChecker, Finding, RuleScope, SeverityLevel};
use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::{Flow, Transaction, TransactionKey};

/// Numbers of findings by severity and rule, the most severe first.
#[derive(Clone, Debug, Default)]
pub struct FindingCounts(BTreeMap<(Reverse<SeverityLevel>, &'static str), u64>);

impl FindingCounts {
    fn add(&mut self, finding: &Finding) {
        *self.0.entry((Reverse(finding.severity), finding.rule.id)).or_default() += finding.count;
    }

    /// Iterates over the rules with findings: severity, id and number, the most severe first.
    pub fn iter(&self) -> impl Iterator<Item = (SeverityLevel, &'static str, u64)> + '_ {
        self.0.iter().map(|((Reverse(severity), rule), count)| (*severity, *rule, *count))
    }

    /// Returns the number of findings of a severity.
    pub fn of_severity(&self, severity: SeverityLevel) -> u64 {
        self.iter().filter(|(of, ..)| *of == severity).map(|(.., count)| count).sum()
    }

    /// Returns the difference to counts that this includes.
    fn without(&self, included: &Self) -> Self {
        let left = self.0.iter().filter_map(|(key, count)| {
            let left = count.saturating_sub(included.0.get(key).copied().unwrap_or(0));
            (left > 0).then_some((*key, left))
        });
        Self(left.collect())
    }
}

/// A checker and the number of its findings by severity and rule.
#[derive(Debug)]
pub struct ConformanceRun {
    checker: ConformanceChecker,
    /// All findings.
    counts: FindingCounts,
    /// Findings of Transactions.
    of_transactions: FindingCounts,
    /// Findings of selected Transactions.
    of_selected: FindingCounts,
}

impl Default for ConformanceRun {
    fn default() -> Self {
        Self {
            checker: ConformanceChecker::new().with_attached_findings(),
            counts: FindingCounts::default(),
            of_transactions: FindingCounts::default(),
            of_selected: FindingCounts::default(),
        }
    }
}

impl ConformanceRun {
    /// Judges the transport events of the last frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        self.checker.record_events(flow);
        for finding in self.checker.take_ready() {
            self.counts.add(&finding);
        }
    }

    /// Judges a Transaction, and returns its findings, the most severe first: also the violations in it that count for a
    /// finding about its connection.
    pub fn check(
        &mut self,
        key: Option<TransactionKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) -> Vec<Finding> {
        let mut findings = self.checker.check_transaction(key, transaction, messages, summary);
        findings.sort_by_key(|finding| Reverse(finding.severity));
        for finding in &findings {
            self.of_transactions.add(finding);
            // Otherwise, the finding about the connection counts it at the end.
            if finding.rule.scope == RuleScope::Each {
                self.counts.add(finding);
            }
        }
        findings
    }

    /// Counts the findings of a Transaction that a filter selected.
    pub fn select(&mut self, findings: &[Finding]) {
        for finding in findings {
            self.of_selected.add(finding);
        }
    }

    /// Ends the input.
    pub fn finish(&mut self) {
        for finding in self.checker.finish() {
            self.counts.add(&finding);
        }
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
