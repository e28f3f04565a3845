//! RQUOTA, which gets and sets quotas of users (version 1), or of users and groups (version 2).

mod types;
pub mod v1;
pub mod v2;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
