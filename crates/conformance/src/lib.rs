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
pub use eligible_items::EligibleItems;
pub use finding::{Finding, SeverityLevel};
pub use known::{KNOWN_DEVIATIONS, KnownDeviation};
pub use measurement::Measurement;
pub use memory_table::MemoryOverlap;
pub use message_view::MessageView;
pub use rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict, Violation, find_rule};
pub use rules::RULES;
pub use subject::Subject;
pub use transaction_view::TransactionView;
