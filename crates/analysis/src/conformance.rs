//! Conformance findings as a user selects them: patterns of rules, known implementations of a site, and totals by rule.

pub mod report;
pub mod run;
pub mod selection;
