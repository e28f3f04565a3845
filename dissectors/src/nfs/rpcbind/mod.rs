//! The port mapper (version 2) and RPCBIND after it (versions 3 and 4), which tell where a program listens. RFC 1833.
//!
//! No procedure has a status: what is not registered is told by port 0, an empty address or FALSE.

mod types;
pub mod v2;
pub mod v3;
pub mod v4;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
