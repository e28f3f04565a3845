//! Findings of a capture by rule.

use std::collections::BTreeMap;

use nfsrdma_conformance::{ConformanceChecker, Finding, ReportedFindingSeverity, Rule, RuleTally};
use nfsrdma_flow::Flow;

/// Findings of one rule with one severity.
#[derive(Debug)]
pub struct RuleFindings {
    /// The rule.
    pub rule: &'static Rule,
    /// Severity of the findings.
    pub severity: ReportedFindingSeverity,
    /// Number of violations.
    pub count: u64,
    /// Number of denied violations.
    pub denied: u64,
    /// First findings.
    pub first: Vec<Finding>,
}

/// Findings of a capture.
#[derive(Debug, Default)]
pub struct ConformanceFindingsReport {
    /// Maximum number of findings stored per rule and severity.
    max_stored: usize,
    /// By severity, the worst first, then by rule.
    findings: BTreeMap<(std::cmp::Reverse<ReportedFindingSeverity>, &'static str), RuleFindings>,
    /// Number of frames.
    pub frames: u64,
    /// Number of Transactions.
    pub transactions: u64,
    /// Judgements of each rule.
    pub tallies: Vec<(&'static Rule, RuleTally)>,
    /// `true` if there are packets with an ICRC, and their ICRCs were not to be checked.
    pub has_unchecked_icrcs: bool,
}

impl ConformanceFindingsReport {
    /// Creates an empty report that stores the first `max_stored` findings of each rule.
    pub fn new(max_stored: usize) -> Self {
        Self { max_stored, ..Self::default() }
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding, is_denied: bool) {
        let key = (std::cmp::Reverse(finding.severity), finding.rule.id);
        let entry = self.findings.entry(key).or_insert_with(|| RuleFindings {
            rule: finding.rule,
            severity: finding.severity,
            count: 0,
            denied: 0,
            first: Vec::new(),
        });
        entry.count += finding.count;
        entry.denied += if is_denied { finding.count } else { 0 };
        if entry.first.len() < self.max_stored {
            entry.first.push(finding);
        }
    }

    /// Records the judgements of a checker at the end of the input, which `flow` has processed, with its ICRCs if
    /// `checks_icrcs` is set.
    pub fn finish(&mut self, checker: &ConformanceChecker, flow: &Flow, checks_icrcs: bool) {
        let checks = flow.transport_checks();
        self.has_unchecked_icrcs = !checks_icrcs && checks.packets > 0;
        self.tallies = checker.tallies(&checks).collect();
    }

    /// Returns `true` if no rule was judged: the input has neither RDMA packets nor RPC messages.
    pub fn is_empty(&self) -> bool {
        self.tallies.iter().all(|(_, tally)| tally.judged == 0)
    }

    /// Iterates over the rules with findings, the most severe first.
    pub fn rules(&self) -> impl Iterator<Item = &RuleFindings> {
        self.findings.values()
    }

    /// Returns the number of violations of a severity.
    pub fn count(&self, severity: ReportedFindingSeverity) -> u64 {
        self.rules().filter(|entry| entry.severity == severity).map(|entry| entry.count).sum()
    }

    /// Returns the number of denied violations.
    pub fn denied(&self) -> u64 {
        self.rules().map(|entry| entry.denied).sum()
    }
}
