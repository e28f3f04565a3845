//! The port mapper (version 2) and its successor RPCBIND (versions 3 and 4), which return the address of a program. RFC
//! 1833.
//!
//! No procedure has a status: port 0, an empty address or FALSE mark an unregistered program.

mod types;
pub mod v2;
pub mod v3;
pub mod v4;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
