//! `--max-memory`: memory limit of a command.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::bytes::BytesArg;
use nfsrdma_analysis::memory_budget::{self, CommandMemoryBudget};

/// The option, for every command that reads captures.
#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    /// Memory limit, such as 64M or 1G
    ///
    /// Protocol state, file names, zstd windows, tables and buffered frames share it. State dropped at the limit is
    /// counted in the summary.
    #[arg(long, value_name = "SIZE", hide_short_help = true, default_value_t = BytesArg(memory_budget::DEFAULT_BYTES))]
    max_memory: BytesArg,
}

impl MemoryArgs {
    /// Returns the memory budget of a command that reads these files with `flows` concurrent flows.
    pub(super) fn plan<'a>(
        &self,
        files: impl IntoIterator<Item = &'a PathBuf>,
        flows: u64,
    ) -> Result<CommandMemoryBudget> {
        Ok(CommandMemoryBudget::for_command(self.bytes()?, files, flows))
    }

    /// Returns the memory budget of a command that compares these files, with `flows` concurrent flows.
    pub(super) fn plan_comparison<'a>(
        &self,
        files: impl IntoIterator<Item = &'a PathBuf>,
        flows: u64,
    ) -> Result<CommandMemoryBudget> {
        Ok(CommandMemoryBudget::for_comparison(self.bytes()?, files, flows))
    }

    /// Returns the memory budget of a command that compiles these files to a trace.
    pub(super) fn plan_compilation<'a>(
        &self,
        files: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<CommandMemoryBudget> {
        Ok(CommandMemoryBudget::for_compilation(self.bytes()?, files))
    }

    /// Returns the memory budget of the terminal interface for these files.
    #[cfg(feature = "tui")]
    pub(super) fn plan_interface(&self, files: &[PathBuf]) -> Result<CommandMemoryBudget> {
        Ok(CommandMemoryBudget::for_interface(self.bytes()?, files))
    }

    fn bytes(&self) -> Result<u64> {
        if self.max_memory.0 < memory_budget::MIN_BYTES {
            bail!(
                "--max-memory {}: too small; the minimum is {}",
                self.max_memory,
                BytesArg(memory_budget::MIN_BYTES)
            );
        }
        Ok(self.max_memory.0)
    }
}
