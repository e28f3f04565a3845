//! What many Transactions say together.

pub mod connections;
pub mod statistics;
