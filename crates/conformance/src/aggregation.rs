//! Findings that are made once per connection and side.

use nfsrdma_dissectors::flow::transaction::ConnectionRole;
use rustc_hash::FxHashMap;

use crate::finding::{Finding, SeverityLevel};
use crate::rule::{Rule, RuleCheck, RuleScope};
use crate::rules::RULES;

/// Maximum number of findings that are counted together. Violations beyond it are counted in the tally of their rule alone.
const MAX_FINDINGS: usize = 1 << 16;
/// Maximum number of connections whose judgements are counted. Beyond it, they are forgotten, and texts lack them.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Rule, connection, side and severity.
type FindingKey = (&'static str, u64, ConnectionRole, SeverityLevel);

/// Numbers of judgements on one connection, by [`tally_index`].
pub(crate) type Judgements = Vec<u32>;

/// Returns the index of the judgements of a rule, if its findings are about connections and come from messages.
pub(crate) fn tally_index(rule: &Rule) -> Option<usize> {
    let is_tallied = |rule: &&&Rule| {
        rule.scope == RuleScope::Connection
            && !matches!(rule.check, RuleCheck::Event(_) | RuleCheck::Absence(..) | RuleCheck::Counted(..))
    };
    RULES.iter().filter(is_tallied).position(|tallied| tallied.id == rule.id)
}

/// Findings by rule, connection, side and severity.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFindings {
    findings: FxHashMap<FindingKey, Finding>,
    /// By the number of the connection.
    judgements: FxHashMap<u64, Judgements>,
}

impl ConnectionFindings {
    /// Adds a violation. Returns it if it is the first of its rule, connection, side and severity.
    pub(crate) fn add(&mut self, finding: Finding) -> Option<&Finding> {
        let key = (finding.rule.id, finding.connection.number, finding.side, finding.severity);
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += finding.count;
            if let (Some(all), Some(later)) = (&mut known.measurement, &finding.measurement) {
                all.add(later);
            }
            for frame in finding.frames {
                // A frame may have several violations.
                if known.frames.len() < Finding::MAX_FRAMES && known.frames.last() != Some(&frame) {
                    known.frames.push(frame);
                }
            }
            return None;
        }
        let has_room = self.findings.len() < MAX_FINDINGS;
        has_room.then(|| &*self.findings.entry(key).or_insert(finding))
    }

    /// Removes and returns the judgements on a connection. Add them again.
    pub(crate) fn take_judgements(&mut self, connection: u64) -> Judgements {
        self.judgements.get_mut(&connection).map(std::mem::take).unwrap_or_default()
    }

    /// Adds the judgements on a connection.
    pub(crate) fn put_judgements(&mut self, connection: u64, judgements: Judgements) {
        if judgements.is_empty() {
            return;
        }
        if self.judgements.len() >= MAX_CONNECTIONS && !self.judgements.contains_key(&connection) {
            self.judgements.clear();
        }
        self.judgements.insert(connection, judgements);
    }

    /// Removes and returns all findings, in the order of their first frames.
    pub(crate) fn take_all(&mut self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = std::mem::take(&mut self.findings).into_values().collect();
        for finding in &mut findings {
            let judgements = self.judgements.get(&finding.connection.number);
            let judged = judgements.zip(tally_index(finding.rule)).and_then(|(counts, at)| counts.get(at));
            finding.complete_text(judged.copied().unwrap_or(0).into());
        }
        findings.sort_by_key(|finding| {
            (finding.connection.number, finding.frames.first().copied(), finding.rule.id)
        });
        findings
    }
}
