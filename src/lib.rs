//! Modules of the program `nfsrdma-inspect`; ARCHITECTURE.md describes the data flow.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make files of their own"))]

pub mod analysis;
pub mod cli;
pub mod escape;
#[cfg(feature = "parquet")]
pub mod export;
pub mod filter;
mod interrupt;
pub mod memory;
pub mod output;
pub mod output_file;
pub mod replay;
pub mod second_chance_map;
#[cfg(feature = "tui")]
pub mod tui;

#[cfg(test)]
mod testing;
