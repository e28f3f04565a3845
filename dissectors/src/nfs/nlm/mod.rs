//! NLM, the Network Lock Manager, which locks files of NFSv2 (versions 1 and 3) and of NFSv3 (version 4).

mod types;
pub mod v1;
pub mod v3;
pub mod v4;

pub use types::*;

#[cfg(test)]
pub(super) mod tests;
