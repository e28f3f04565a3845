//! The rooms of the program `nfsrdma-inspect`; see ARCHITECTURE.md for the way of the data.

pub mod analysis;
pub mod cli;
#[cfg(feature = "parquet")]
pub mod export;
pub mod filter;
pub mod output;
pub mod replay;
pub mod source;
#[cfg(feature = "tui")]
pub mod tui;

#[cfg(test)]
mod testing;
