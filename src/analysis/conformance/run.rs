//! A checker beside a view, with its totals.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nfsrdma_conformance::{ConformanceChecker, Finding, SeverityLevel};
use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::{Flow, Transaction, TransactionKey};

/// A checker and the number of its findings by severity and rule.
#[derive(Debug, Default)]
pub struct ConformanceRun {
    checker: ConformanceChecker,
    counts: BTreeMap<(Reverse<SeverityLevel>, &'static str), u64>,
}

impl ConformanceRun {
    /// Judges the transport events of the last frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        self.checker.record_events(flow);
    }

    /// Judges a Transaction, and returns its findings, the most severe first.
    pub fn check(
        &mut self,
        key: Option<TransactionKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) -> Vec<Finding> {
        let mut findings = self.checker.check_transaction(key, transaction, messages, summary);
        findings.sort_by_key(|finding| Reverse(finding.severity));
        self.count(&findings);
        findings
    }

    /// Removes and returns the findings about connections that are complete.
    pub fn take_ready(&mut self) -> Vec<Finding> {
        let findings = self.checker.take_ready();
        self.count(&findings);
        findings
    }

    /// Ends the input. Returns the findings about connections.
    pub fn finish(&mut self) -> Vec<Finding> {
        let findings = self.checker.finish();
        self.count(&findings);
        findings
    }

    fn count(&mut self, findings: &[Finding]) {
        for finding in findings {
            *self.counts.entry((Reverse(finding.severity), finding.rule.id)).or_default() += finding.count;
        }
    }

    /// Iterates over the rules with findings: severity, id and number, the most severe first.
    pub fn counts(&self) -> impl Iterator<Item = (SeverityLevel, &'static str, u64)> + '_ {
        self.counts.iter().map(|((Reverse(severity), rule), count)| (*severity, *rule, *count))
    }

    /// Returns the number of findings of a severity.
    pub fn count_of(&self, severity: SeverityLevel) -> u64 {
        self.counts().filter(|(of, ..)| *of == severity).map(|(.., count)| count).sum()
    }
}
