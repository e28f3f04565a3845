//! NFSACL, POSIX access control lists for NFSv2 (version 2) and NFSv3 (version 3), mostly on the same connection.
//!
//! None of its items is DDP-eligible: RFC 8267 section 5.2.

mod types;
pub mod v2;
pub mod v3;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
