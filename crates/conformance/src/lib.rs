//! Rules of the RFCs for NFS over RDMA, applied to captured traffic.
//!
//! [`ConformanceChecker`] takes the Transactions and transport events of a [`Flow`](nfsrdma_flow::Flow) and
//! returns [`Finding`]s. The [`rules`] are data: each has an id, a section, a severity, the evidence that it needs, and
//! a function that judges one message, Transaction or event. The checker evaluates the evidence, so that a rule is its
//! condition alone; where evidence is missing, it counts the rule as not judged.

#![doc = include_str!("../README.md")]

mod aggregation;
mod attached_findings;
mod bounded_table;
mod checker;
mod compound_operations_view;
mod connection_history;
mod ddp_eligible_items;
mod ddp_eligible_operations;
mod finding;
mod finding_text;
mod known_deviations;
mod message_view;
mod misrouted_replies;
mod offered_memory_overlap;
mod read_write_view;
mod required_evidence;
mod rule;
mod rule_applicability;
mod rules;
mod rules_by_message_properties;
mod session_table;
mod severity;
mod transaction_view;
mod unanswered_call_segments;
mod undefined_value;
mod unjudged_earlier_calls;

pub use checker::{ConformanceChecker, RuleTally};
pub use finding::Finding;
pub use finding_text::AggregatedViolationValues;
pub use known_deviations::{KNOWN_DEVIATIONS, KnownDeviation};
pub use required_evidence::RequiredCaptureEvidence;
pub use rule::{FindingGranularity, Rule};
pub use rules::{RULES, find_rule};
pub use severity::{ReportedFindingSeverity, Severity};
