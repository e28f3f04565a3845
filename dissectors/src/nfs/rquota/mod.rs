//! RQUOTA, which tells and sets quotas of a user (version 1), or of a user or a group (version 2).

mod types;
pub mod v1;
pub mod v2;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
