//! The rooms of the program `nfsrdma-inspect`; see ARCHITECTURE.md for the way of the data.

pub mod output;
pub mod source;
