//! Findings that are made once per connection and side.

use nfsrdma_dissectors::flow::transaction::ConnectionRole;
use rustc_hash::FxHashMap;

use crate::finding::{Finding, SeverityLevel};

/// Maximum number of findings that are counted together. Violations beyond it are counted in the tally of their rule alone.
const MAX_FINDINGS: usize = 1 << 16;

/// Rule, connection, side and severity.
type FindingKey = (&'static str, u64, ConnectionRole, SeverityLevel);

/// Findings by rule, connection, side and severity.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFindings {
    findings: FxHashMap<FindingKey, Finding>,
}

impl ConnectionFindings {
    /// Adds a violation. Returns it if it is the first of its rule, connection, side and severity.
    pub(crate) fn add(&mut self, finding: Finding) -> Option<&Finding> {
        let key = (finding.rule.id, finding.connection.number, finding.side, finding.severity);
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += finding.count;
            let room = Finding::MAX_FRAMES.saturating_sub(known.frames.len());
            known.frames.extend(finding.frames.into_iter().take(room));
            return None;
        }
        let has_room = self.findings.len() < MAX_FINDINGS;
        has_room.then(|| &*self.findings.entry(key).or_insert(finding))
    }

    /// Removes and returns all findings, in the order of their first frames.
    pub(crate) fn take_all(&mut self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = std::mem::take(&mut self.findings).into_values().collect();
        findings.sort_by_key(|finding| {
            (finding.connection.number, finding.frames.first().copied(), finding.rule.id)
        });
        findings
    }
}
