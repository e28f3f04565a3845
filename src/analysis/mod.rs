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
pub mod pending;
pub mod rates;
pub mod sequence;
pub mod series;
pub mod sessions;
pub mod statistics;
