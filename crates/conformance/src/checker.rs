//! The checker: evaluates the evidence, applies the rules, and keeps their tallies.

use std::borrow::Cow;
use std::sync::LazyLock;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_flow::exceptional_transport_events::{CapturedTransportEvent, ExaminedPacketCounts};
use nfsrdma_flow::transaction::{EndpointRole, RpcMessageKind, TransactionConnection};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{Flow, Transaction, TransactionSlabKey};
use rustc_hash::FxHashMap;

use crate::aggregation::MergedFindings;
use crate::attached_findings::FindingsAwaitingTransaction;
use crate::compound_operations_view::{CompoundOperationIterator, ResultlessRpcFailure};
use crate::connection_history::ConformanceConnectionHistories;
use crate::finding::Finding;
use crate::known_deviations::find_known;
use crate::message_view::ConformanceMessage;
use crate::misrouted_replies::MisroutedReplies;
use crate::offered_memory_overlap::OfferedMemoryOverlapDetector;
use crate::required_evidence::{RequiredCaptureEvidence, RequiredCaptureEvidenceSet};
use crate::rule::{
    EventCheck, FindingGranularity, MessageCheck, Rule, RuleCheck, RuleVerdict, TransactionCheck, TransactionPredicate,
    Violation,
};
use crate::rule_applicability::{RequiredMessageProperty, RequiredMessagePropertySet};
use crate::rules::RULES;
use crate::rules::loss_and_congestion::ENDS_CONNECTION;
use crate::rules::memory_access::ACCESS_RULES;
use crate::rules_by_message_properties::{
    MessageClassRuleVerdict, PreparedConformanceRule, RulePlans, RuleRelevantMessageProperties,
};
use crate::session_table::SessionTable;
use crate::severity::ReportedFindingSeverity;
use crate::transaction_view::{ConformanceTransaction, TransactionRpcRdmaHeaders};
use crate::unanswered_call_segments::UnansweredCallAdvertisedSegments;

/// Maximum number of Transactions with findings from events before they are emitted.
const MAX_PENDING: usize = 1 << 14;

fn message_rules(kind: RpcMessageKind) -> Vec<PreparedConformanceRule<MessageCheck>> {
    let other_subject = match kind {
        RpcMessageKind::Call => RequiredMessageProperty::Reply,
        RpcMessageKind::Reply => RequiredMessageProperty::Call,
    };
    PreparedConformanceRule::select(|rule| match rule.check {
        _ if rule.subjects.contains(&other_subject) => None,
        RuleCheck::Message(check) | RuleCheck::MessageOrEvent(check, _) => Some(check),
        RuleCheck::MessageUnlessEvent(_) => Some(|_| Some(RuleVerdict::Kept)),
        _ => None,
    })
}

/// Returns the rules for Transactions over RDMA, or over other transports: rules about the set-up or about chunks apply
/// only to RDMA.
fn transaction_rules(is_rdma: bool) -> Vec<PreparedConformanceRule<TransactionCheck>> {
    const OF_RDMA: [RequiredCaptureEvidence; 2] = [RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists];
    PreparedConformanceRule::select(|rule| match rule.check {
        RuleCheck::Transaction(check) if is_rdma || !rule.needs.iter().any(|need| OF_RDMA.contains(need)) => {
            Some(check)
        }
        _ => None,
    })
}

static EVENT_RULES: LazyLock<Vec<PreparedConformanceRule<EventCheck>>> = LazyLock::new(|| {
    PreparedConformanceRule::select(|rule| match rule.check {
        RuleCheck::Event(check)
        | RuleCheck::Absence(check, _)
        | RuleCheck::Counted(check, ..)
        | RuleCheck::MessageOrEvent(_, check)
        | RuleCheck::MessageUnlessEvent(check) => Some(check),
        RuleCheck::Message(_) | RuleCheck::Transaction(_) => None,
    })
});
/// Rules that are kept unless an event breaks them, with the function that returns `true` for the Transactions that
/// they judge.
static ABSENCE_RULES: LazyLock<Vec<PreparedConformanceRule<TransactionPredicate>>> = LazyLock::new(|| {
    PreparedConformanceRule::select(|rule| match rule.check {
        RuleCheck::Absence(_, applies) => Some(applies),
        _ => None,
    })
});

/// Judgements of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleTally {
    /// Number of violations.
    pub findings: u64,
    /// Number of judgements.
    pub judged: u64,
    /// Number of times that the capture lacked the evidence.
    pub not_judged: u64,
}

/// Rules by the kind of object that they judge.
#[derive(Debug)]
struct CheckerRulePlans {
    calls: RulePlans<MessageCheck>,
    replies: RulePlans<MessageCheck>,
    rdma_transactions: RulePlans<TransactionCheck>,
    other_transactions: RulePlans<TransactionCheck>,
}

type RulePlansAccessor<F> = fn(&mut CheckerRulePlans) -> &mut RulePlans<F>;

impl CheckerRulePlans {
    fn new() -> Self {
        Self {
            calls: RulePlans::new(message_rules(RpcMessageKind::Call)),
            replies: RulePlans::new(message_rules(RpcMessageKind::Reply)),
            rdma_transactions: RulePlans::new(transaction_rules(true)),
            other_transactions: RulePlans::new(transaction_rules(false)),
        }
    }

    /// Counts what uses of the plans did not judge one by one.
    fn add_to(&self, tallies: &mut [RuleTally]) {
        let mut add = |rule, verdict, uses| add_uses(tallies, rule, verdict, uses);
        self.calls.for_each_count(&mut add);
        self.replies.for_each_count(&mut add);
        self.rdma_transactions.for_each_count(&mut add);
        self.other_transactions.for_each_count(&mut add);
    }
}

/// Applies the rules to the output of a flow.
#[derive(Debug)]
pub struct ConformanceChecker {
    /// By the index of the rule in [`RULES`], without the counts of `plans`.
    tallies: Vec<RuleTally>,
    plans: CheckerRulePlans,
    connections: ConformanceConnectionHistories,
    sessions: SessionTable,
    orphans: MisroutedReplies,
    memory: OfferedMemoryOverlapDetector,
    unanswered: UnansweredCallAdvertisedSegments,
    /// Judgements of events, for Transactions that were not emitted yet.
    pending: FxHashMap<TransactionSlabKey, TransactionTransportEventJudgements>,
    /// Findings without a Transaction.
    ready: Vec<Finding>,
    per_connection: MergedFindings,
    /// Copies of findings about connections, for Transactions that were not emitted yet, if they are wanted.
    attached: Option<FindingsAwaitingTransaction>,
    /// First violations of rules with one finding per connection, if they are wanted.
    first: Option<Vec<Finding>>,
}

impl Default for ConformanceChecker {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug, Default)]
struct TransactionTransportEventJudgements {
    findings: Vec<Finding>,
    /// Indices of rules that uncertain events may have broken.
    undecided_rules: Vec<usize>,
}

/// Findings of a Transaction on a connection, with the indices of their rules.
struct TransactionFindings {
    connection: u64,
    findings: Vec<(usize, Finding)>,
}

/// Returns the verdict about a Transaction or its message. A Reply that may be that of another Call does not prove that
/// its sender broke a rule, as `is_responder` tells by the side of the violation.
fn unless_ambiguous(
    verdict: RuleVerdict,
    transaction: &Transaction,
    is_responder: impl FnOnce(Option<EndpointRole>) -> bool,
) -> RuleVerdict {
    match verdict {
        RuleVerdict::Broken(violation) if transaction.is_reply_ambiguous && is_responder(violation.side) => {
            RuleVerdict::Unknown
        }
        verdict => verdict,
    }
}

/// Context of a violation by default.
#[derive(Clone, Copy)]
struct FindingContext<'c> {
    side: EndpointRole,
    transaction: &'c Transaction,
    frames: &'c [FrameNumber],
    time: Timestamp,
}

impl ConformanceChecker {
    /// Creates a checker of all rules.
    pub fn new() -> Self {
        Self {
            tallies: vec![RuleTally::default(); RULES.len()],
            plans: CheckerRulePlans::new(),
            connections: ConformanceConnectionHistories::default(),
            sessions: SessionTable::default(),
            orphans: MisroutedReplies::default(),
            memory: OfferedMemoryOverlapDetector::default(),
            unanswered: UnansweredCallAdvertisedSegments::default(),
            pending: FxHashMap::default(),
            ready: Vec::new(),
            per_connection: MergedFindings::default(),
            attached: None,
            first: None,
        }
    }

    /// Makes each violation in a Transaction a finding of this Transaction, too, if the rule has one finding per
    /// connection ([`FindingGranularity::Connection`]). The finding about the connection counts it as well.
    #[must_use]
    pub fn with_attached_findings(self) -> Self {
        Self { attached: Some(FindingsAwaitingTransaction::default()), ..self }
    }

    /// Stores the first violation for each finding about a connection, for [`ConformanceChecker::take_first`].
    #[must_use]
    pub fn with_first_violations(self) -> Self {
        Self { first: Some(Vec::new()), ..self }
    }

    /// Judges the transport events of the last frame. Call it after each frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        if flow.has_transport_events() {
            self.judge_events(flow);
        }
    }

    #[cold]
    fn judge_events(&mut self, flow: &Flow) {
        for event in flow.transport_events() {
            self.judge_event(&event);
        }
    }

    #[cold]
    fn judge_event(&mut self, event: &CapturedTransportEvent) {
        for &PreparedConformanceRule { at, rule, check, .. } in EVENT_RULES.iter() {
            let Some(verdict) = check(event) else { continue };
            let lacks_set_up = rule.needs.contains(&RequiredCaptureEvidence::SetUp) && !event.has_set_up;
            let is_unknown = lacks_set_up || !event.is_certain;
            let verdict = if is_unknown { RuleVerdict::Unknown } else { verdict };
            if !event.is_certain
                && let Some(key) = event.transaction
                && self.pending.len() < MAX_PENDING
            {
                self.pending.entry(key).or_default().undecided_rules.push(at);
            }
            let Some(violation) = self.count(at, verdict) else { continue };
            let finding = Finding {
                side: violation.side.unwrap_or(event.sender),
                connection: event.connection,
                frames: if violation.frames.is_empty() { vec![event.frame] } else { violation.frames.clone() },
                time: event.time,
                ..finding(rule, violation, event.sender, event.connection)
            };
            match (rule.scope, event.transaction) {
                (FindingGranularity::Connection, _) => {
                    if let Some(attached) = &mut self.attached {
                        attached.add(event, finding.clone());
                    }
                    self.add_to_connection(finding, event.sender);
                }
                (FindingGranularity::Each, Some(key)) if self.pending.len() < MAX_PENDING => {
                    self.pending.entry(key).or_default().findings.push(finding);
                }
                (FindingGranularity::Each, _) => self.ready.push(finding),
            }
        }
    }

    /// Removes findings from the tallies of their rules: they count as not judged.
    #[cold]
    fn withdraw(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let rules = self.tallies.iter_mut().zip(RULES.iter());
            for (tally, _) in rules.filter(|(_, rule)| rule.id == finding.rule.id) {
                tally.findings = tally.findings.saturating_sub(1);
                tally.judged = tally.judged.saturating_sub(1);
                tally.not_judged += 1;
            }
        }
    }

    /// Counts a verdict. Returns the violation, if it is one.
    fn count(&mut self, rule: usize, verdict: RuleVerdict) -> Option<Violation> {
        let tally = self.tallies.get_mut(rule)?;
        match verdict {
            RuleVerdict::Kept => tally.judged += 1,
            RuleVerdict::Unknown => tally.not_judged += 1,
            RuleVerdict::Broken(violation) => {
                tally.judged += 1;
                tally.findings += 1;
                return Some(*violation);
            }
        }
        None
    }

    /// Judges a Transaction, and returns its findings. `key` identifies it in transport events; a Transaction from a
    /// trace has none. Transactions must come in the order in which the flow emits them.
    pub fn check_transaction(
        &mut self,
        key: Option<TransactionSlabKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) -> Vec<Finding> {
        let event_judgements = key.and_then(|key| self.pending.remove(&key)).unwrap_or_default();
        let TransactionTransportEventJudgements { findings: mut event_findings, undecided_rules } = event_judgements;
        // Bytes that an FPDU of a wrong length has swallowed or shifted, and the answer to them, prove nothing.
        let is_judged = !transaction.is_misframed;
        if !is_judged {
            self.withdraw(std::mem::take(&mut event_findings));
        }
        if let Some(attached) = &mut self.attached {
            attached.take(key, transaction, &mut event_findings);
        }
        let with_transaction = |finding| Finding {
            transaction: Some(transaction.index),
            xid: Some(transaction.xid),
            connection: transaction.connection,
            ..finding
        };
        // Findings with the indices of their rules; those of events come first.
        let findings: Vec<(usize, Finding)> =
            event_findings.into_iter().map(|finding| (0, with_transaction(finding))).collect();
        let mut history = self.connections.take(transaction);
        let failure = summary.rpc_status.and_then(ResultlessRpcFailure::of);
        let operations = CompoundOperationIterator::new(transaction, messages.compound(), failure);
        let headers = TransactionRpcRdmaHeaders::decode(transaction);
        let decoded = (&headers, &operations);
        let mut view = ConformanceTransaction::new(transaction, messages, summary, decoded, &history, &self.sessions);
        view.reply_elsewhere = self.orphans.reply_to(transaction, |number| self.connections.get(number));
        self.orphans.record(transaction, &history);
        view.overlap = self.memory.record(transaction);
        view.earlier_memory = self.unanswered.take(transaction);
        self.unanswered.record(transaction);
        view.has_invalid_access = transaction.has_suspected_access
            || findings.iter().any(|(_, finding)| ACCESS_RULES.contains(&finding.rule.id));
        let (subjects, evidence) = (view.subjects(), view.evidence());
        let number = transaction.connection.number;
        let mut collected = TransactionFindings { connection: number, findings };
        for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            if let Some(message) = view.message(kind).filter(|_| is_judged) {
                self.judge_message(&message, evidence, &mut collected);
            }
        }
        let certain = |verdict| unless_ambiguous(verdict, transaction, |side| side != Some(view.requester()));
        let is_rdma = transaction.connection.transport.is_rdma();
        let side = view.responder();
        let context = |violation: &Violation| {
            let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
            let is_requester = violation.side.is_some_and(|culprit| culprit != side);
            let record = if is_requester { call.or(reply) } else { reply.or(call) };
            let frames = record.map_or(&[][..], |record| &record.frames);
            FindingContext { side, transaction, frames, time: record.map(|record| record.time).unwrap_or_default() }
        };
        let plans: RulePlansAccessor<TransactionCheck> =
            if is_rdma { |plans| &mut plans.rdma_transactions } else { |plans| &mut plans.other_transactions };
        if is_judged {
            self.judge(plans, (subjects, evidence), None, |check| check(&view).map(certain), context, &mut collected);
        }
        if is_judged && is_rdma && subjects.contains(RequiredMessagePropertySet::of(&[RequiredMessageProperty::Chunks]))
        {
            self.judge_absences(&view, (subjects, evidence), (&collected.findings, &undecided_rules));
        }
        let TransactionFindings { mut findings, .. } = collected;
        findings.sort_by_key(|(at, _)| *at);
        self.record_sessions(&view);
        let (is_rfc5666, is_nfs4, mut backchannel) = (view.is_rfc5666(), view.is_nfs4(), history.backchannel);
        backchannel.update(transaction, summary, &operations);
        history.record(transaction);
        (history.is_rfc5666, history.backchannel) = (is_rfc5666, backchannel);
        history.has_nfs4 |= is_nfs4;
        self.connections.put(number, history);
        findings
            .into_iter()
            .map(|(_, mut finding)| {
                finding.complete_text(0);
                finding
            })
            .collect()
    }

    /// Judges a message of a Transaction that provides `evidence`. Adds findings with the indices of their rules.
    fn judge_message(
        &mut self,
        message: &ConformanceMessage<'_>,
        evidence: RequiredCaptureEvidenceSet,
        collected: &mut TransactionFindings,
    ) {
        let properties = (message.subjects(), message.evidence(evidence));
        let plans: RulePlansAccessor<MessageCheck> =
            if message.is_call() { |plans| &mut plans.calls } else { |plans| &mut plans.replies };
        let context = FindingContext {
            side: message.sender(),
            transaction: message.transaction.transaction,
            frames: &message.record.frames,
            time: message.record.time,
        };
        let certain = |verdict| unless_ambiguous(verdict, message.transaction.transaction, |_| !message.is_call());
        let check = |check: MessageCheck| check(message).map(certain);
        self.judge(plans, properties, Some(message.sender()), check, |_| context, collected);
    }

    /// Judges a message of this sender, or a Transaction, with these properties. Adds findings with the indices of
    /// their rules.
    fn judge<'c, F: Copy>(
        &mut self,
        plans: RulePlansAccessor<F>,
        properties: RuleRelevantMessageProperties,
        sender: Option<EndpointRole>,
        check: impl Fn(F) -> Option<RuleVerdict>,
        context: impl Fn(&Violation) -> FindingContext<'c>,
        collected: &mut TransactionFindings,
    ) {
        let plans = plans(&mut self.plans);
        plans.assert_subjects(properties, &check);
        let tallies = &mut self.tallies;
        let rules = plans.applicable(properties, |rule, verdict, uses| add_uses(tallies, rule, verdict, uses));
        for prepared in rules.iter() {
            let Some(verdict) = check(prepared.check) else { continue };
            if let (Some(index), RuleVerdict::Kept | RuleVerdict::Broken(_)) = (prepared.tally_index, &verdict) {
                self.per_connection.count(collected.connection, index, sender);
            }
            if let Some(violation) = self.count(prepared.at, verdict) {
                let context = context(&violation);
                let finding = self.add(prepared.rule, violation, context);
                collected.findings.extend(finding.map(|finding| (prepared.at, finding)));
            }
        }
    }

    /// Counts the rules that no event of a Transaction has broken, without those that its uncertain events may have
    /// broken: the events count as not judged.
    fn judge_absences(
        &mut self,
        view: &ConformanceTransaction<'_>,
        (subjects, evidence): (RequiredMessagePropertySet, RequiredCaptureEvidenceSet),
        (findings, undecided_rules): (&[(usize, Finding)], &[usize]),
    ) {
        for prepared in ABSENCE_RULES.iter() {
            let has_event = || {
                undecided_rules.contains(&prepared.at)
                    || findings.iter().any(|(_, finding)| finding.rule.id == prepared.rule.id)
            };
            if subjects.contains(prepared.subjects) && (prepared.check)(view) && !has_event() {
                let is_known = evidence.provides(prepared.needs);
                self.count(prepared.at, if is_known { RuleVerdict::Kept } else { RuleVerdict::Unknown });
            }
        }
    }

    /// Adds a violation. Returns the finding if it belongs to the Transaction.
    fn add(&mut self, rule: &'static Rule, violation: Violation, context: FindingContext<'_>) -> Option<Finding> {
        let FindingContext { side, transaction, .. } = context;
        let frames = if violation.frames.is_empty() { context.frames } else { &violation.frames };
        let set_up = transaction.set_up.as_deref();
        let culprit = violation.side.unwrap_or(side);
        let deviation = find_known(rule, culprit, set_up);
        // Most violations of these rules repeat an earlier one: no finding is made for them.
        if rule.scope == FindingGranularity::Connection && self.attached.is_none() {
            let severity = match deviation {
                Some(_) => ReportedFindingSeverity::Known,
                None => violation.severity.unwrap_or(rule.severity).into(),
            };
            let key = (rule.id, transaction.connection.number, culprit, severity);
            let measurement = violation.measurement.as_ref();
            if self.per_connection.add_to_earlier(key, measurement, frames, side) {
                return None;
            }
        }
        let frames: Vec<FrameNumber> = frames.iter().copied().take(Finding::MAX_FRAMES).collect();
        let mut finding = Finding {
            frames,
            time: violation.time.unwrap_or(context.time),
            transaction: Some(transaction.index),
            xid: Some(transaction.xid),
            ..finding(rule, violation, side, transaction.connection)
        };
        if let Some(deviation) = deviation {
            finding.severity = ReportedFindingSeverity::Known;
            finding.known = Some(Cow::Borrowed(deviation.implementation));
        }
        match rule.scope {
            FindingGranularity::Each => Some(finding),
            FindingGranularity::Connection => {
                let copy = self.attached.is_some().then(|| finding.clone());
                self.add_to_connection(Finding { transaction: None, xid: None, ..finding }, side);
                copy
            }
        }
    }

    fn add_to_connection(&mut self, finding: Finding, sender: EndpointRole) {
        if let (Some(finding), Some(first)) = (self.per_connection.add(finding, sender), &mut self.first) {
            first.push(finding.clone());
        }
    }

    fn record_sessions(&mut self, view: &ConformanceTransaction<'_>) {
        if view.is_unknown_compound() {
            self.sessions.record_gap();
        }
        if matches!(view.arguments, Some((Procedure::Compound | Procedure::CbCompound, _))) {
            self.sessions.record(view.transaction, view.operations);
        }
        self.sessions.record_call(view.transaction);
    }

    /// Returns `false` if [`ConformanceChecker::take_ready`] and [`ConformanceChecker::take_first`] return nothing.
    #[inline]
    pub fn has_findings(&self) -> bool {
        !self.ready.is_empty() || self.first.as_ref().is_some_and(|first| !first.is_empty())
    }

    /// Removes and returns the findings about connections that are complete.
    pub fn take_ready(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.ready)
    }

    /// Removes and returns the first violations for findings about connections, which [`ConformanceChecker::finish`]
    /// returns with all their violations. Empty without [`ConformanceChecker::with_first_violations`].
    pub fn take_first(&mut self) -> Vec<Finding> {
        let mut findings = self.first.as_mut().map(std::mem::take).unwrap_or_default();
        findings.iter_mut().for_each(|finding| finding.complete_text(0));
        findings
    }

    /// Ends the input. Returns the findings about connections, and those whose Transaction was not emitted.
    pub fn finish(&mut self) -> Vec<Finding> {
        let mut findings = self.take_ready();
        let mut pending: Vec<Finding> =
            std::mem::take(&mut self.pending).into_values().flat_map(|judgements| judgements.findings).collect();
        pending.sort_by_key(|finding| finding.frames.first().copied());
        findings.extend(pending);
        let mut connection_findings = self.per_connection.take_all();
        connection_findings.iter_mut().for_each(|finding| self.add_connection_end(finding));
        findings.extend(connection_findings);
        findings
    }

    /// Adds the end of the connection to a finding that explains it: "NFS over RDMA" (SIGCOMM 2003), section 9.4, has
    /// the end as the likely result of too few or too small buffers.
    fn add_connection_end(&self, finding: &mut Finding) {
        let unanswered = self.connections.get(finding.connection.number).map_or(0, |history| history.unanswered_calls);
        if unanswered > 0 && ENDS_CONNECTION.contains(&finding.rule.id) {
            let calls = if unanswered == 1 { "call" } else { "calls" };
            finding.text += &format!("; the connection ended with {unanswered} {calls} without a reply");
        }
    }

    /// Iterates over the rules with their tallies. `transport` are the numbers of packets that the flow examined.
    pub fn tallies(&self, transport: &ExaminedPacketCounts) -> impl Iterator<Item = (&'static Rule, RuleTally)> + '_ {
        let transport = *transport;
        let mut tallies = self.tallies.clone();
        self.plans.add_to(&mut tallies);
        RULES.iter().zip(tallies).map(move |(rule, tally)| match rule.check {
            RuleCheck::Counted(_, judged_count, unproven_count) => {
                let judged = judged_count(&transport).max(tally.findings);
                (*rule, RuleTally { judged, not_judged: tally.not_judged + unproven_count(&transport), ..tally })
            }
            _ => (*rule, tally),
        })
    }
}

fn add_uses(tallies: &mut [RuleTally], rule: usize, verdict: MessageClassRuleVerdict, uses: u64) {
    if let Some(tally) = tallies.get_mut(rule) {
        match verdict {
            MessageClassRuleVerdict::Kept => tally.judged += uses,
            MessageClassRuleVerdict::Unknown => tally.not_judged += uses,
        }
    }
}

fn finding(
    rule: &'static Rule,
    violation: Violation,
    side: EndpointRole,
    connection: TransactionConnection,
) -> Finding {
    let severity = violation.severity.unwrap_or(rule.severity);
    Finding {
        rule,
        severity: severity.into(),
        severity_unless_known: severity,
        known: None,
        text: violation.text,
        measurement: violation.measurement,
        side: violation.side.unwrap_or(side),
        connection,
        transaction: None,
        xid: None,
        frames: Vec::new(),
        time: Timestamp::default(),
        count: 1,
        field: violation.field,
        value: violation.value,
    }
}
