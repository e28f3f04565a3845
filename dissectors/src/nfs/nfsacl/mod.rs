//! NFSACL, POSIX access control lists beside NFSv2 (version 2) and NFSv3 (version 3), mostly on their connection.
//!
//! No item of it is DDP-eligible: RFC 8267 section 5.2.

mod types;
pub mod v2;
pub mod v3;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
