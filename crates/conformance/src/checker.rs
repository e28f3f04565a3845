//! The checker: evaluates the evidence, applies the rules, and keeps their tallies.

use std::borrow::Cow;
use std::sync::LazyLock;

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::{
    CallDirection, ConnectionName, ConnectionRole, MessageRecord, RpcMessageKind,
};
use nfsrdma_dissectors::flow::transport_event::{TransportChecks, TransportEvent};
use nfsrdma_dissectors::flow::{Flow, Transaction, TransactionKey};
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::CbCompoundCall;
use rustc_hash::FxHashMap;

use crate::aggregation::ConnectionFindings;
use crate::attachment::AttachedFindings;
use crate::connection_history::{ConnectionHistories, ConnectionHistory};
use crate::finding::{Finding, SeverityLevel};
use crate::memory_table::MemoryTable;
use crate::orphan_replies::OrphanReplies;
use crate::rule::{Evidence, EvidenceSet, Rule, RuleCheck, RuleScope, Verdict, Violation};
use crate::rules::RULES;
use crate::session_table::SessionTable;
use crate::subject::SubjectSet;
use crate::transaction_view::TransactionView;

/// Maximum number of Transactions with findings from events before they are emitted.
const MAX_PENDING: usize = 1 << 14;

/// A rule that judges Transactions, prepared for the many that it judges.
#[derive(Clone, Copy, Debug)]
struct PreparedRule {
    /// Index in [`RULES`].
    at: usize,
    rule: &'static Rule,
    subjects: SubjectSet,
    needs: EvidenceSet,
}

impl PreparedRule {
    /// Judges a message or Transaction with these subjects. A rule whose evidence is missing is not judged.
    #[inline]
    fn judge(
        &self,
        subjects: SubjectSet,
        evidence: EvidenceSet,
        check: impl FnOnce() -> Option<Verdict>,
    ) -> Option<Verdict> {
        let provides = evidence.provides(self.needs);
        if !subjects.contains(self.subjects) {
            debug_assert!(!provides || check().is_none(), "{} applies without its subjects", self.rule.id);
            return None;
        }
        if provides { check() } else { Some(Verdict::Unknown) }
    }
}

/// Rules for Transactions over RDMA.
static RDMA_RULES: LazyLock<Vec<PreparedRule>> = LazyLock::new(|| prepared_rules(true));
/// Rules for Transactions over other transports.
static OTHER_RULES: LazyLock<Vec<PreparedRule>> = LazyLock::new(|| prepared_rules(false));

/// Returns the rules that judge Transactions or their messages over RDMA, or over other transports.
fn prepared_rules(is_rdma: bool) -> Vec<PreparedRule> {
    let judges_transactions =
        |rule: &Rule| !matches!(rule.check, RuleCheck::Event(_) | RuleCheck::Counted(..));
    // Rules about the set-up or about chunks apply only to RDMA.
    let is_rdma_rule = |rule: &Rule| {
        rule.needs.iter().any(|needed| matches!(needed, Evidence::SetUp | Evidence::ChunkLists))
            || matches!(rule.check, RuleCheck::Message(_) | RuleCheck::MessageOrEvent(..))
    };
    { RULES.iter().copied().enumerate() }
        .filter(|(_, rule)| judges_transactions(rule) && (is_rdma || !is_rdma_rule(rule)))
        .map(|(at, rule)| PreparedRule {
            at,
            rule,
            subjects: SubjectSet::of(rule.subjects),
            needs: EvidenceSet::of(rule.needs),
        })
        .collect()
}

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

/// Applies the rules to the output of a flow.
#[derive(Debug)]
pub struct ConformanceChecker {
    /// By the index of the rule in [`RULES`].
    tallies: Vec<RuleTally>,
    connections: ConnectionHistories,
    sessions: SessionTable,
    orphans: OrphanReplies,
    memory: MemoryTable,
    /// Findings of Transactions that were not emitted yet.
    pending: FxHashMap<TransactionKey, Vec<Finding>>,
    /// Findings without a Transaction.
    ready: Vec<Finding>,
    per_connection: ConnectionFindings,
    /// Copies of findings about connections, for Transactions that were not emitted yet, if they are wanted.
    attached: Option<AttachedFindings>,
    /// First violations of rules with one finding per connection, if they are wanted.
    first: Option<Vec<Finding>>,
}

impl Default for ConformanceChecker {
    fn default() -> Self {
        Self::new()
    }
}

/// Context of a violation.
struct FindingContext<'c> {
    transaction: Option<&'c Transaction>,
    frames: &'c [FrameNumber],
    time: Timestamp,
}

impl ConformanceChecker {
    /// Creates a checker of all rules.
    pub fn new() -> Self {
        Self {
            tallies: vec![RuleTally::default(); RULES.len()],
            connections: ConnectionHistories::default(),
            sessions: SessionTable::default(),
            orphans: OrphanReplies::default(),
            memory: MemoryTable::default(),
            pending: FxHashMap::default(),
            ready: Vec::new(),
            per_connection: ConnectionFindings::default(),
            attached: None,
            first: None,
        }
    }

    /// Makes each violation in a Transaction a finding of this Transaction, too, if the rule has one finding per connection
    /// ([`RuleScope::Connection`]). The finding about the connection counts it as well.
    #[must_use]
    pub fn with_attached_findings(self) -> Self {
        Self { attached: Some(AttachedFindings::default()), ..self }
    }

    /// Stores the first violation for each finding about a connection, for [`ConformanceChecker::take_first`].
    #[must_use]
    pub fn with_first_violations(self) -> Self {
        Self { first: Some(Vec::new()), ..self }
    }

    /// Judges the transport events of the last frame. Call it after each frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        for event in flow.transport_events() {
            self.judge_event(flow, &event);
        }
    }

    #[cold]
    fn judge_event(&mut self, flow: &Flow, event: &TransportEvent) {
        for (at, rule) in RULES.iter().enumerate() {
            let (RuleCheck::Event(check)
            | RuleCheck::Absence(check, _)
            | RuleCheck::Counted(check, _)
            | RuleCheck::MessageOrEvent(_, check)) = rule.check
            else {
                continue;
            };
            let Some(verdict) = check(event) else { continue };
            let lacks_set_up = rule.needs.contains(&Evidence::SetUp) && !event.has_set_up;
            let verdict = if lacks_set_up { Verdict::Unknown } else { verdict };
            let Some(violation) = self.count(at, verdict) else { continue };
            let finding = Finding {
                side: violation.side.unwrap_or(event.sender),
                connection: event.connection,
                frames: if violation.frames.is_empty() {
                    vec![event.frame]
                } else {
                    violation.frames.clone()
                },
                time: event.time,
                ..finding(rule, violation, event.sender, event.connection)
            };
            match (rule.scope, event.transaction) {
                (RuleScope::Connection, _) => {
                    if let Some(attached) = &mut self.attached {
                        attached.add(flow, event, finding.clone());
                    }
                    self.add_to_connection(finding);
                }
                (RuleScope::Each, Some(key)) if self.pending.len() < MAX_PENDING => {
                    self.pending.entry(key).or_default().push(finding);
                }
                (RuleScope::Each, _) => self.ready.push(finding),
            }
        }
    }

    /// Counts a verdict. Returns the violation, if it is one.
    fn count(&mut self, rule: usize, verdict: Verdict) -> Option<Violation> {
        let tally = self.tallies.get_mut(rule)?;
        match verdict {
            Verdict::Kept => tally.judged += 1,
            Verdict::Unknown => tally.not_judged += 1,
            Verdict::Broken(violation) => {
                tally.judged += 1;
                tally.findings += 1;
                return Some(violation);
            }
        }
        None
    }

    /// Judges a Transaction, and returns its findings. `key` identifies it in transport events; a Transaction from a trace
    /// has none. Transactions must come in the order in which the flow emits them.
    pub fn check_transaction(
        &mut self,
        key: Option<TransactionKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) -> Vec<Finding> {
        let mut findings = key.and_then(|key| self.pending.remove(&key)).unwrap_or_default();
        if let Some(attached) = &mut self.attached {
            attached.take(key, transaction, &mut findings);
        }
        for finding in &mut findings {
            (finding.transaction, finding.xid) = (Some(transaction.index), Some(transaction.xid));
            finding.connection = transaction.connection;
        }
        let history = self.connections.before(transaction);
        let mut view = TransactionView::new(transaction, messages, summary, &history, &self.sessions);
        view.reply_elsewhere = self.orphans.reply_to(transaction, |number| self.connections.get(number));
        self.orphans.record(transaction, &history);
        view.overlap = self.memory.record(transaction);
        let (subjects, evidence) = (view.subjects(), view.evidence());
        let messages = [RpcMessageKind::Call, RpcMessageKind::Reply].map(|kind| {
            let message = view.message(kind)?;
            let (subjects, evidence) = (message.subjects(), message.evidence(evidence));
            Some((message, subjects, evidence))
        });
        let is_rdma = transaction.connection.transport.is_rdma();
        let rules = if is_rdma { &RDMA_RULES } else { &OTHER_RULES };
        for prepared in rules.iter() {
            let PreparedRule { at, rule, needs, .. } = *prepared;
            match rule.check {
                RuleCheck::Message(check) | RuleCheck::MessageOrEvent(check, _) => {
                    for (message, subjects, evidence) in messages.iter().flatten() {
                        if let Some(verdict) = prepared.judge(*subjects, *evidence, || check(message))
                            && let Some(violation) = self.count(at, verdict)
                        {
                            let sender = message.sender();
                            let context = FindingContext {
                                transaction: Some(transaction),
                                frames: &message.record.frames,
                                time: message.record.time,
                            };
                            findings.extend(self.add(rule, violation, sender, &context));
                        }
                    }
                }
                RuleCheck::Transaction(check) => {
                    if let Some(verdict) = prepared.judge(subjects, evidence, || check(&view))
                        && let Some(violation) = self.count(at, verdict)
                    {
                        let responder = view.responder();
                        let record = transaction.reply.as_ref().or(transaction.call.as_ref());
                        let context = FindingContext {
                            transaction: Some(transaction),
                            frames: record.map_or(&[], |record| &record.frames),
                            time: record.map(|record| record.time).unwrap_or_default(),
                        };
                        findings.extend(self.add(rule, violation, responder, &context));
                    }
                }
                RuleCheck::Absence(..) if !subjects.contains(prepared.subjects) => {}
                RuleCheck::Absence(_, applies) => {
                    let is_broken = findings.iter().any(|finding| finding.rule.id == rule.id);
                    if applies(&view) && !is_broken {
                        let is_known = evidence.provides(needs);
                        self.count(at, if is_known { Verdict::Kept } else { Verdict::Unknown });
                    }
                }
                RuleCheck::Event(_) | RuleCheck::Counted(..) => {}
            }
        }
        self.record_sessions(&view);
        *self.connections.of(transaction.connection.number) = updated_history(&view, &history);
        findings
    }

    /// Adds a violation. Returns the finding if it belongs to the Transaction.
    fn add(
        &mut self,
        rule: &'static Rule,
        violation: Violation,
        side: ConnectionRole,
        context: &FindingContext<'_>,
    ) -> Option<Finding> {
        let transaction = context.transaction?;
        let frames = if violation.frames.is_empty() { context.frames } else { &violation.frames };
        let frames: Vec<FrameNumber> = frames.iter().copied().take(Finding::MAX_FRAMES).collect();
        let finding = Finding {
            frames,
            time: context.time,
            transaction: Some(transaction.index),
            xid: Some(transaction.xid),
            ..finding(rule, violation, side, transaction.connection)
        };
        match rule.scope {
            RuleScope::Each => Some(finding),
            RuleScope::Connection => {
                let copy = self.attached.is_some().then(|| finding.clone());
                self.add_to_connection(Finding { transaction: None, xid: None, ..finding });
                copy
            }
        }
    }

    fn add_to_connection(&mut self, finding: Finding) {
        if let (Some(finding), Some(first)) = (self.per_connection.add(finding), &mut self.first) {
            first.push(finding.clone());
        }
    }

    fn record_sessions(&mut self, view: &TransactionView<'_>) {
        if view.is_unknown_compound() {
            self.sessions.record_gap();
        }
        if matches!(view.arguments, Some((Procedure::Compound, _))) {
            self.sessions.record(view.transaction, &view.operations);
        }
        if let Some((Procedure::CbCompound, mut cursor)) = view.arguments
            && let Ok(call) = CbCompoundCall::decode(&mut cursor, &mut NullObserver)
        {
            self.sessions.record_callback(call.operations().map_while(Result::ok));
        }
    }

    /// Removes and returns the findings about connections that are complete.
    pub fn take_ready(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.ready)
    }

    /// Removes and returns the first violations for findings about connections, which [`ConformanceChecker::finish`] returns
    /// with all their violations. Empty without [`ConformanceChecker::with_first_violations`].
    pub fn take_first(&mut self) -> Vec<Finding> {
        self.first.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Ends the input. Returns the findings about connections, and those whose Transaction was not emitted.
    pub fn finish(&mut self) -> Vec<Finding> {
        let mut findings = self.take_ready();
        let mut pending: Vec<Finding> = std::mem::take(&mut self.pending).into_values().flatten().collect();
        pending.sort_by_key(|finding| finding.frames.first().copied());
        findings.extend(pending);
        findings.extend(self.per_connection.take_all());
        findings
    }

    /// Iterates over the rules with their tallies. `transport` are the numbers of packets that the flow examined.
    pub fn tallies(
        &self,
        transport: &TransportChecks,
    ) -> impl Iterator<Item = (&'static Rule, RuleTally)> + '_ {
        let transport = *transport;
        RULES.iter().zip(&self.tallies).map(move |(rule, tally)| match rule.check {
            RuleCheck::Counted(_, judged) => {
                let judged = judged(&transport).max(tally.findings);
                (*rule, RuleTally { judged, ..*tally })
            }
            _ => (*rule, *tally),
        })
    }
}

fn finding(
    rule: &'static Rule,
    violation: Violation,
    side: ConnectionRole,
    connection: ConnectionName,
) -> Finding {
    let severity = match violation.known {
        Some(_) => SeverityLevel::Known,
        None => violation.severity.unwrap_or(rule.severity).into(),
    };
    Finding {
        rule,
        severity,
        known: violation.known.map(Cow::Borrowed),
        text: violation.text,
        side: violation.side.unwrap_or(side),
        connection,
        transaction: None,
        xid: None,
        frames: Vec::new(),
        time: Timestamp::default(),
        count: 1,
        field: violation.field,
    }
}

/// Returns the history of a connection after a Transaction.
fn updated_history(view: &TransactionView<'_>, before: &ConnectionHistory) -> ConnectionHistory {
    let mut history = before.clone();
    let transaction = view.transaction;
    let words = |kind| transaction.message(kind).and_then(|record| record.rpcrdma);
    let (call, reply) = (words(RpcMessageKind::Call), words(RpcMessageKind::Reply));
    // A Requester may try another version after ERR_VERS: a version is that of a connection once a Reply has it.
    let is_refused = view.reply().is_some_and(MessageRecord::is_rdma_error);
    let is_agreed = call.map(|words| words.version) == reply.map(|words| words.version);
    if let Some(words) = call.filter(|words| is_agreed && !is_refused && matches!(words.version, 1 | 2)) {
        history.version.get_or_insert(words.version);
    }
    if let Some(granted) = reply.and_then(|words| words.calls_in_flight_credits()) {
        history.last_grants[usize::from(transaction.direction == CallDirection::Reverse)] = Some(granted);
    }
    if let Some(requested) = call.and_then(|words| words.calls_in_flight_credits()) {
        history.last_requests[usize::from(transaction.direction == CallDirection::Reverse)] = Some(requested);
    }
    history.record_refusal(transaction);
    history.losses = history.losses.max(transaction.credit_use.losses);
    history.last_call_time = history.last_call_time.max(transaction.call.as_ref().map(|call| call.time));
    history.is_rfc5666 |= view.is_rfc5666();
    history.at_limit_ns += transaction.credit_use.at_limit_ns;
    history.has_nfs4 |= view.is_nfs4();
    history.backchannel.update(view);
    let record = transaction.call.as_ref().or(transaction.reply.as_ref());
    let first = record.and_then(|record| record.frames.first().copied());
    history.first_frame = history.first_frame.or(first);
    history.first_time = history.first_time.or(record.map(|record| record.time));
    history
}
