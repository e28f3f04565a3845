//! A rule, and the verdict of its judgement.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::SetUpFrame;
use nfsrdma_flow::exceptional_transport_events::{CapturedTransportEvent, ExaminedPacketCounts};
use nfsrdma_flow::transaction::EndpointRole;

use crate::finding_text::AggregatedViolationValues;
use crate::message_view::ConformanceMessage;
use crate::required_evidence::RequiredCaptureEvidence;
use crate::rule_applicability::RequiredMessageProperty;
use crate::severity::Severity;
use crate::transaction_view::ConformanceTransaction;

/// Judges a message with an RPC-over-RDMA header; `None` if the rule does not apply to it.
pub(crate) type MessageCheck = fn(&ConformanceMessage<'_>) -> Option<RuleVerdict>;
/// Judges a Transaction, on any transport; `None` if the rule does not apply to it.
pub(crate) type TransactionCheck = fn(&ConformanceTransaction<'_>) -> Option<RuleVerdict>;
/// Returns `true` for a Transaction to which a rule applies.
pub(crate) type TransactionPredicate = fn(&ConformanceTransaction<'_>) -> bool;
/// Judges a transport event; `None` if the rule does not apply to it.
pub(crate) type EventCheck = fn(&CapturedTransportEvent) -> Option<RuleVerdict>;

/// What a rule judges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleCheck {
    /// Each message with an RPC-over-RDMA header.
    Message(MessageCheck),
    /// Each Transaction.
    Transaction(TransactionCheck),
    /// Each transport event.
    Event(EventCheck),
    /// Each transport event, of which there is one only for a violation. The second function says if a Transaction had
    /// what the rule is about, so that the absence of events counts as a judgement.
    Absence(EventCheck, TransactionPredicate),
    /// Each transport event. The second function returns the number of packets, of all that were examined, to which the
    /// rule applied: without an event, they kept it. The third returns the number of those that could not be judged.
    Counted(EventCheck, fn(&ExaminedPacketCounts) -> u64, fn(&ExaminedPacketCounts) -> u64),
    /// Each message with an RPC-over-RDMA header, and each transport event: what cannot be decoded is an event.
    MessageOrEvent(MessageCheck, EventCheck),
    /// Each transport event. Each message with an RPC-over-RDMA header keeps the rule.
    MessageUnlessEvent(EventCheck),
}

/// Number of findings that a rule makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingGranularity {
    /// One finding per violation.
    Each,
    /// One finding per connection and side, with the number of violations.
    Connection,
}

/// A requirement on protocol traffic.
#[derive(Debug)]
pub struct Rule {
    /// Name: a group and a word, as in `rpcrdma/credit-zero`.
    pub id: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// Section that states the requirement.
    pub section: &'static str,
    /// The requirement in one sentence.
    pub requirement: &'static str,
    /// Consequences of a violation, an example, and where to look next.
    pub explanation: &'static str,
    /// Subjects without which the rule does not apply to a message or Transaction. Transport events are not filtered.
    pub(crate) subjects: &'static [RequiredMessageProperty],
    /// Evidence without which the rule is not judged.
    pub needs: &'static [RequiredCaptureEvidence],
    /// Subjects without one of which a message or Transaction keeps the rule, unjudged; if empty, all are judged.
    pub(crate) suspects: &'static [RequiredMessageProperty],
    /// Number of findings.
    pub scope: FindingGranularity,
    pub(crate) check: RuleCheck,
}

impl Rule {
    /// Values of most rules: a violation is an error and a separate finding, and no subject or evidence is needed.
    pub(crate) const DEFAULT: Self = Self {
        id: "",
        severity: Severity::Error,
        section: "",
        requirement: "",
        explanation: "",
        subjects: &[],
        needs: &[],
        suspects: &[],
        scope: FindingGranularity::Each,
        check: RuleCheck::Event(|_| None),
    };
    /// As [`Rule::DEFAULT`], but all violations on a connection are one finding.
    pub(crate) const PER_CONNECTION: Self = Self { scope: FindingGranularity::Connection, ..Self::DEFAULT };

    /// Returns the group in the name: `rpcrdma` of `rpcrdma/credit-zero`.
    pub fn group(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(group, _)| group)
    }
}

/// Result of a judgement.
#[derive(Clone, Debug)]
#[must_use]
pub(crate) enum RuleVerdict {
    /// The requirement is met.
    Kept,
    /// The capture lacks the evidence for a judgement.
    Unknown,
    /// The requirement is broken.
    Broken(Box<Violation>),
}

impl RuleVerdict {
    /// Returns `Kept` if the requirement is met, otherwise a violation with this text.
    pub(crate) fn from_condition<V: Into<Violation>>(is_kept: bool, text: impl FnOnce() -> V) -> Self {
        if is_kept { Self::Kept } else { Self::broken(text()) }
    }

    /// Returns a violation with this text, if there is one; otherwise `Kept`.
    pub(crate) fn from_fault(fault: Option<impl Into<Violation>>) -> Self {
        fault.map_or(Self::Kept, Self::broken)
    }

    /// Returns a violation with the first text that `fault` returns for one of the items; `None` if there are no items.
    pub(crate) fn of_items<T, V: Into<Violation>>(
        items: impl IntoIterator<Item = T>,
        fault: impl FnMut(T) -> Option<V>,
    ) -> Option<Self> {
        let mut items = items.into_iter().peekable();
        items.peek()?;
        Some(Self::from_fault(items.find_map(fault)))
    }

    /// Returns a violation with this text, or with a text and the value of the field that shows it.
    pub(crate) fn broken(violation: impl Into<Violation>) -> Self {
        Self::Broken(Box::new(violation.into()))
    }

    /// Returns `Kept` if the requirement is met, otherwise a violation with these values. Many violations of a rule
    /// with one finding per connection are common: their text is made once.
    pub(crate) fn measured(
        is_kept: bool,
        values: [u64; 4],
        describe: fn(&AggregatedViolationValues) -> String,
    ) -> Self {
        if is_kept {
            return Self::Kept;
        }
        let measurement = Some(AggregatedViolationValues::new(values, describe));
        Self::Broken(Box::new(Violation { measurement, ..Violation::default() }))
    }

    /// Sets the side that broke the requirement.
    pub(crate) fn by(self, side: EndpointRole) -> Self {
        self.map(|violation| Violation { side: Some(side), ..violation })
    }

    /// Sets the name of the field that shows the violation: the first one, or the first one with the violation's value.
    pub(crate) fn at_field(self, field: &'static str) -> Self {
        self.map(|violation| Violation { field: Some(field), ..violation })
    }

    /// Sets the frames that show the violation.
    pub(crate) fn in_frames(self, frames: &[FrameNumber]) -> Self {
        self.map(|violation| Violation { frames: frames.to_vec(), ..violation })
    }

    /// Sets the message of the connection set-up that shows the violation, if it was captured.
    pub(crate) fn in_set_up(self, frame: Option<SetUpFrame>) -> Self {
        let Some(SetUpFrame { number, time }) = frame else { return self };
        self.map(|violation| Violation { frames: vec![number], time: Some(time), ..violation })
    }

    /// Sets a severity that differs from that of the rule.
    pub(crate) fn with_severity(self, severity: Severity) -> Self {
        self.map(|violation| Violation { severity: Some(severity), ..violation })
    }

    fn map(self, change: impl FnOnce(Violation) -> Violation) -> Self {
        match self {
            Self::Broken(mut violation) => {
                *violation = change(*violation);
                Self::Broken(violation)
            }
            other => other,
        }
    }
}

/// A broken requirement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Violation {
    /// Values that broke it, such as `credit 0`; empty if it has a measurement.
    pub(crate) text: String,
    /// Values from which the text of all violations on a connection is made.
    pub(crate) measurement: Option<AggregatedViolationValues>,
    /// Side that broke it; by default the sender of the message or packet, or of the Reply of a Transaction.
    pub(crate) side: Option<EndpointRole>,
    /// Frames that show it; by default those of the message or packet, or those that the side sent in a Transaction.
    pub(crate) frames: Vec<FrameNumber>,
    /// Time of the first of them, if it is not that of the message, packet or Transaction.
    pub(crate) time: Option<Timestamp>,
    /// Name of the field that shows it.
    pub(crate) field: Option<&'static str>,
    /// Value of the field that shows it, if a message may have several fields of that name.
    pub(crate) value: Option<u64>,
    /// Severity, if it is not that of the rule.
    pub(crate) severity: Option<Severity>,
}

impl From<String> for Violation {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl<T: Into<u64>> From<(String, T)> for Violation {
    fn from((text, value): (String, T)) -> Self {
        Self { text, value: Some(value.into()), ..Self::default() }
    }
}
