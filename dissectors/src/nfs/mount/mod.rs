//! MOUNT, which gives the first filehandle of NFSv2 (versions 1 and 2) and of NFSv3 (version 3).

mod types;
pub mod v1;
pub mod v2;
pub mod v3;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
