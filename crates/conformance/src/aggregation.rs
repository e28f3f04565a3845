//! Findings that are made once per connection and side.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::transaction::EndpointRole;
use rustc_hash::FxHashMap;

use crate::finding::Finding;
use crate::finding_text::AggregatedViolationValues;
use crate::rule::{FindingGranularity, Rule, RuleCheck};
use crate::rules::RULES;
use crate::severity::ReportedFindingSeverity;

/// Maximum number of findings that are counted together. Violations beyond it are counted in the tally of their rule
/// alone.
const MAX_FINDINGS: usize = 1 << 16;
/// Maximum number of connections whose judgements are counted. Beyond it, they are forgotten, and texts lack them.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Rule, connection, side and severity.
pub(crate) type FindingKey = (&'static str, u64, EndpointRole, ReportedFindingSeverity);

#[derive(Clone, Copy, Debug, Default)]
struct RuleJudgementsBySender {
    of_transactions: u32,
    /// Of messages of the client, and of the server.
    of_messages: [u32; 2],
}

/// Numbers of judgements on one connection, by [`tally_index`].
#[derive(Debug, Default)]
pub(crate) struct ConnectionJudgementCounts(Vec<RuleJudgementsBySender>);

impl ConnectionJudgementCounts {
    /// Counts a judgement of a message of this sender, or of a Transaction.
    #[inline]
    pub(crate) fn count(&mut self, tally_index: usize, sender: Option<EndpointRole>) {
        if self.0.len() <= tally_index {
            self.0.resize(tally_index + 1, RuleJudgementsBySender::default());
        }
        let Some(counts) = self.0.get_mut(tally_index) else { return };
        let count = match sender {
            None => &mut counts.of_transactions,
            Some(EndpointRole::Client) => &mut counts.of_messages[0],
            Some(EndpointRole::Server) => &mut counts.of_messages[1],
        };
        *count = count.saturating_add(1);
    }

    /// Returns the number of judgements of Transactions and of the messages of these senders; 0 if it is not known.
    fn total(&self, tally_index: usize, senders: ViolationSenders) -> u64 {
        self.0.get(tally_index).map_or(0, |counts| {
            let messages = counts.of_messages.iter().zip(senders.0);
            let of_messages = messages.filter(|(_, is_sender)| *is_sender).map(|(count, _)| u64::from(*count));
            u64::from(counts.of_transactions) + of_messages.sum::<u64>()
        })
    }
}

/// Senders of the messages that broke a rule: client, and server.
#[derive(Clone, Copy, Debug, Default)]
struct ViolationSenders([bool; 2]);

impl ViolationSenders {
    fn add(&mut self, sender: EndpointRole) {
        self.0[usize::from(sender == EndpointRole::Server)] = true;
    }
}

/// Returns the index of the judgements of a rule, if its findings are about connections and come from messages.
pub(crate) fn tally_index(rule: &Rule) -> Option<usize> {
    let is_tallied = |rule: &&&Rule| {
        rule.scope == FindingGranularity::Connection
            && !matches!(rule.check, RuleCheck::Event(_) | RuleCheck::Absence(..) | RuleCheck::Counted(..))
    };
    RULES.iter().filter(is_tallied).position(|tallied| tallied.id == rule.id)
}

/// Findings by rule, connection, side and severity.
#[derive(Debug, Default)]
pub(crate) struct MergedFindings {
    findings: FxHashMap<FindingKey, (Finding, ViolationSenders)>,
    /// By the number of the connection.
    judgements: FxHashMap<u64, ConnectionJudgementCounts>,
}

impl MergedFindings {
    /// Adds a violation by a message of this sender. Returns it if it is the first of its rule, connection, side and
    /// severity.
    pub(crate) fn add(&mut self, finding: Finding, sender: EndpointRole) -> Option<&Finding> {
        let key = (finding.rule.id, finding.connection.number, finding.side, finding.severity);
        if self.add_to_earlier(key, finding.measurement.as_ref(), &finding.frames, sender) {
            return None;
        }
        let has_room = self.findings.len() < MAX_FINDINGS;
        let mut senders = ViolationSenders::default();
        senders.add(sender);
        has_room.then(|| &self.findings.entry(key).or_insert((finding, senders)).0)
    }

    /// Adds a violation to the finding with this key. Returns `false` if there is none.
    pub(crate) fn add_to_earlier(
        &mut self,
        key: FindingKey,
        measurement: Option<&AggregatedViolationValues>,
        frames: &[FrameNumber],
        sender: EndpointRole,
    ) -> bool {
        let Some((finding, senders)) = self.findings.get_mut(&key) else { return false };
        senders.add(sender);
        finding.count += 1;
        if let (Some(merged), Some(later)) = (&mut finding.measurement, measurement) {
            merged.add(later);
        }
        for frame in frames {
            if finding.frames.len() >= Finding::MAX_FRAMES {
                break;
            }
            // A frame may have several violations.
            if finding.frames.last() != Some(frame) {
                finding.frames.push(*frame);
            }
        }
        true
    }

    /// Counts a judgement of a message of this sender, or of a Transaction, on a connection.
    pub(crate) fn count(&mut self, connection: u64, tally_index: usize, sender: Option<EndpointRole>) {
        if self.judgements.len() >= MAX_CONNECTIONS && !self.judgements.contains_key(&connection) {
            self.judgements.clear();
        }
        self.judgements.entry(connection).or_default().count(tally_index, sender);
    }

    /// Removes and returns all findings, in the order of their first frames.
    pub(crate) fn take_all(&mut self) -> Vec<Finding> {
        let mut findings = Vec::with_capacity(self.findings.len());
        for (mut finding, senders) in std::mem::take(&mut self.findings).into_values() {
            let judgements = self.judgements.get(&finding.connection.number);
            let counts_and_index = judgements.zip(tally_index(finding.rule));
            finding.complete_text(counts_and_index.map_or(0, |(counts, at)| counts.total(at, senders)));
            findings.push(finding);
        }
        findings.sort_by_key(|finding: &Finding| {
            (finding.connection.number, finding.frames.first().copied(), finding.rule.id)
        });
        findings
    }
}
