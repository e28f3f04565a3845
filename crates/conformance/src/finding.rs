//! A violation with its context.

use std::borrow::Cow;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::transaction::{Endpoint, EndpointRole, TransactionConnection};

use crate::finding_text::AggregatedViolationValues;
use crate::rule::Rule;
use crate::severity::{ReportedFindingSeverity, Severity};

/// A violation of a rule in a capture.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Severity.
    pub severity: ReportedFindingSeverity,
    /// Severity if it were not the known deviation of an implementation.
    pub severity_unless_known: Severity,
    /// Implementation that is known for it, if `severity` is `Known`.
    pub known: Option<Cow<'static, str>>,
    /// Values that broke the rule.
    pub text: String,
    /// Values from which the text is made when all violations are known; `None` afterwards.
    pub measurement: Option<AggregatedViolationValues>,
    /// Side that broke the rule.
    pub side: EndpointRole,
    /// Connection.
    pub connection: TransactionConnection,
    /// Index of the Transaction; `None` for a finding about a connection.
    pub transaction: Option<u64>,
    /// XID of the Transaction.
    pub xid: Option<Xid>,
    /// First frames that show the violation, at most [`Finding::MAX_FRAMES`].
    pub frames: Vec<FrameNumber>,
    /// Time of the first of them.
    pub time: Timestamp,
    /// Number of violations: more than one only for rules with one finding per connection.
    pub count: u64,
    /// Name of the field that shows the violation.
    pub field: Option<&'static str>,
    /// Value of that field, if the message may have several fields of that name.
    pub value: Option<u64>,
}

impl Finding {
    /// Maximum number of frames of a finding.
    pub const MAX_FRAMES: usize = 16;

    /// Makes the text of all violations. `judged` is the number of judgements on the connection, or 0.
    pub(crate) fn complete_text(&mut self, judged: u64) {
        if let Some(mut measurement) = self.measurement.take() {
            measurement.judged = judged;
            self.text = measurement.text();
        }
    }

    /// Makes the finding one of an unknown implementation.
    pub fn forget_known(&mut self) {
        self.severity = self.severity_unless_known.into();
        self.known = None;
    }

    /// Returns the side that broke the rule.
    pub fn endpoint(&self) -> &Endpoint {
        match self.side {
            EndpointRole::Client => &self.connection.client,
            EndpointRole::Server => &self.connection.server,
        }
    }
}
