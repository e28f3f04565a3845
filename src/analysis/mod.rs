//! Statistics and other analysis of many Transactions.

pub mod baseline;
pub mod comparison;
pub mod conformance;
pub mod connection_lifetimes;
pub mod connections;
pub mod files;
pub mod histogram;
pub mod load;
pub mod names;
pub mod operations;
pub mod pending_calls;
pub mod rates;
pub mod session_slots;
pub mod sessions;
pub mod statistics;
pub mod time_series;
