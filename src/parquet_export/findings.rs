//! Rows of the table of conformance findings.

use std::borrow::Cow;
use std::marker::PhantomData;

use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::table_schema::{TimestampMicros, table};
use crate::output::json::line;

table! {
    /// One row per finding of a conformance rule; `nfsrdma-inspect lint --explain RULE` explains a rule.
    FindingRow<'r> "findings" {
        /// Id of the rule: `rpcrdma/credit-zero`.
        rule: Cow<'r, str>,
        /// `error`: a requirement (MUST) is broken; `warning`: a recommendation (SHOULD) is not followed, or a problem
        /// is likely; `known`: the deviation of a known implementation; `info`: worth knowing.
        severity: Cow<'r, str>,
        /// Name of the implementation, if the severity is `known`.
        known: Option<Cow<'r, str>>,
        /// Section that states the requirement.
        section: Cow<'r, str>,
        /// The values that broke the rule.
        text: Cow<'r, str>,
        /// Side of the connection that broke the rule: `client` or `server`.
        side: Cow<'r, str>,
        /// Address of that side.
        address: Option<Cow<'r, str>>,
        /// Number of the connection in its capture.
        connection: u64,
        /// The `index` of the transaction; null for a finding about a connection.
        transaction: Option<u64>,
        /// XID of the transaction, as `0x` and 8 digits.
        xid: Option<Cow<'r, str>>,
        /// Number of violations; more than 1 only for rules with one finding per connection and side.
        count: u64,
        /// Number of the first frame that shows the violation.
        first_frame: Option<u64>,
        /// Time of that frame, in microseconds.
        time: Option<TimestampMicros>,
        /// Time of that frame, in nanoseconds since 1970-01-01 00:00:00 UTC.
        time_ns: Option<Timestamp>,
    }
}

impl<'r> FindingRow<'r> {
    pub(super) fn of(finding: &'r Finding) -> Self {
        let time = (!finding.frames.is_empty()).then_some(finding.time);
        Self {
            rule: finding.rule.id.into(),
            severity: finding.severity.name().into(),
            known: finding.known.as_deref().map(Cow::from),
            section: finding.rule.section.into(),
            text: finding.text.as_str().into(),
            side: finding.side.name().into(),
            address: line::address(finding.endpoint().address).map(|text| text.0.to_string().into()),
            connection: finding.connection.number,
            transaction: finding.transaction,
            xid: finding.xid.map(|xid| xid.to_string().into()),
            count: finding.count,
            first_frame: finding.frames.first().map(|frame| frame.0),
            time: time.map(TimestampMicros),
            time_ns: time,
            of: PhantomData,
        }
    }
}
