//! MOUNT, which returns the root filehandle of exports, for NFSv2 (versions 1 and 2) and NFSv3 (version 3).

mod types;
pub mod v1;
pub mod v2;
pub mod v3;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
