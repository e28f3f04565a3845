//! Modules of the program `nfsrdma-inspect`; ARCHITECTURE.md describes the data flow.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make their own files"))]

pub mod cli;
pub mod escape;
mod interrupt;
pub mod output;
#[cfg(feature = "parquet")]
pub mod parquet_export;
#[cfg(feature = "tui")]
pub mod tui;

#[cfg(test)]
#[path = "../crates/analysis/src/testing.rs"]
mod testing;
