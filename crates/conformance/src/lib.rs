//! Rules of the RFCs for NFS over RDMA, applied to captured traffic.
//!
//! [`ConformanceChecker`] takes the Transactions and transport events of a [`Flow`](nfsrdma_dissectors::flow::Flow) and
//! returns [`Finding`]s. The [`rules`] are data: each has an id, a section, a severity, the evidence that it needs, and a
//! function that judges one message, Transaction or event. The checker evaluates the evidence, so that a rule is its
//! condition alone; where evidence is missing, it counts the rule as not judged.

#![doc = include_str!("../README.md")]

mod aggregation;
mod attachment;
mod checker;
mod connection_history;
mod count;
mod eligible_items;
mod file_access;
mod finding;
mod known;
mod measurement;
mod memory_table;
mod message_view;
mod operations;
mod orphan_replies;
mod rule;
mod rule_plan;
pub mod rules;
mod sequence;
mod session_table;
mod subject;
mod transaction_view;
mod unanswered_memory;
mod waiting_calls;

pub use checker::{ConformanceChecker, RuleTally};
pub use eligible_items::DdpEligibleItems;
pub use finding::{Finding, SeverityLevel};
pub use known::{KNOWN_DEVIATIONS, KnownDeviation};
pub use measurement::ViolationValues;
pub use memory_table::OfferedMemoryOverlap;
pub use message_view::ConformanceMessage;
pub use rule::{
    FindingGranularity, JudgementEvidence, Rule, RuleCheck, RuleVerdict, Severity, Violation, find_rule,
};
pub use rules::RULES;
pub use subject::RuleSubject;
pub use transaction_view::ConformanceTransaction;
