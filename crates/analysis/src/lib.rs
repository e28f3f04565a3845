//! Analysis of many Transactions: display filters, names of files, statistics, comparison and baselines.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make their own files"))]

pub mod baseline;
pub mod bounded_time_series;
pub mod call_session_slots;
pub mod comparison;
pub mod conformance;
pub mod connection_states_and_credits;
pub mod connections;
pub mod files;
pub mod filter;
pub mod histogram;
pub mod load_over_time;
pub mod memory_budget_shares;
pub mod names;
pub mod operation_statistics;
pub mod overdue_calls;
pub mod rates;
pub mod second_chance_map;
pub mod sessions;
mod slot_use;
pub mod statistics;

#[cfg(test)]
mod testing;
