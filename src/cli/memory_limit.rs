//! `--max-memory`: memory limit of a command.

use anyhow::{Result, bail};
use clap::Args;
use nfsrdma_analysis::memory_budget_shares;

use super::bytes::BytesArg;

/// The option, for every command that reads captures.
#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    /// Memory limit, such as 64M or 1G
    ///
    /// Protocol state, file names, zstd windows, tables and buffered frames share it. State dropped at the limit is
    /// counted in the summary.
    #[arg(long, value_name = "SIZE", hide_short_help = true, default_value_t = BytesArg(memory_budget_shares::DEFAULT_BYTES))]
    max_memory: BytesArg,
}

impl MemoryArgs {
    pub(super) fn limit_bytes(&self) -> Result<u64> {
        if self.max_memory.0 < memory_budget_shares::MIN_BYTES {
            bail!(
                "--max-memory {}: too small; the minimum is {}",
                self.max_memory,
                BytesArg(memory_budget_shares::MIN_BYTES)
            );
        }
        Ok(self.max_memory.0)
    }
}
