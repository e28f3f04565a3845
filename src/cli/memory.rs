//! `--max-memory`: the memory that a command may use.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::bytes::Bytes;
use crate::memory;

/// The option, for every command that reads captures.
#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    /// Memory that the program may use, such as 64M or 1G
    ///
    /// Its state, names of files, windows of zstd files and output that waits have shares of it. State that finds no memory
    /// is given up, and counted in the summary.
    #[arg(long, value_name = "SIZE", hide_short_help = true, default_value_t = Bytes(memory::DEFAULT_BYTES))]
    max_memory: Bytes,
}

impl MemoryArgs {
    /// Sets the memory of a command that reads these files, with so many flows at a time.
    pub(super) fn plan<'a>(&self, files: impl IntoIterator<Item = &'a PathBuf>, flows: u64) -> Result<()> {
        if self.max_memory.0 < memory::LEAST_BYTES {
            bail!(
                "--max-memory {}: too little; give at least {}",
                self.max_memory,
                Bytes(memory::LEAST_BYTES)
            );
        }
        memory::plan(self.max_memory.0, files, flows);
        Ok(())
    }
}
