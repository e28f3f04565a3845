//! What many Transactions say together.

pub mod baseline;
pub mod comparison;
pub mod connections;
pub mod names;
pub mod statistics;
