//! Memory budget of the program, `--max-memory`, and its shares.
//!
//! Everything allocated for input is counted in bytes against a share: the state of the dissectors
//! ([`CommandMemoryBudget::limits`]), the windows of zstd data ([`ZstdWindowBudget`]), names of files, values that wait
//! for a display filter, the tables of `analysis`, and the view: frames and rows that wait for output, for a comparison
//! or for the terminal interface. Uncompressed captures need no windows, and leave that share to the others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use nfsrdma_capture_file::{ZstdMemoryShareSettings, ZstdWindowBudget, is_zstd_frame};
use nfsrdma_flow::FlowLimits;

/// Default budget in bytes.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// Minimum budget in bytes.
pub const MIN_BYTES: u64 = 16 << 20;

/// Shares of a budget in 32nds.
#[derive(Clone, Copy, Debug)]
struct MemoryBudgetShares {
    flows: u64,
    names: u64,
    /// Number of name stores that exist at the same time.
    name_stores: u64,
    filter: u64,
    tables: u64,
    view: u64,
    windows: u64,
}

impl MemoryBudgetShares {
    /// Shares of a command for plain and for compressed input. A filter by path has its own names besides the output.
    const COMMAND: [Self; 2] = [
        Self { flows: 16, names: 4, name_stores: 2, filter: 2, tables: 4, view: 6, windows: 0 },
        Self { flows: 8, names: 2, name_stores: 2, filter: 2, tables: 2, view: 2, windows: 16 },
    ];
    /// Shares of the terminal interface, which stores rows, or frames that can be read only once. Two passes, a search
    /// and a page that is reread have their own names.
    const INTERFACE: [Self; 2] = [
        Self { flows: 9, names: 4, name_stores: 4, filter: 2, tables: 3, view: 14, windows: 0 },
        Self { flows: 6, names: 4, name_stores: 4, filter: 2, tables: 2, view: 8, windows: 10 },
    ];
    /// Shares of `compare` and `check`, which have neither names nor filters nor tables.
    const COMPARISON: [Self; 2] = [
        Self { flows: 16, names: 0, name_stores: 1, filter: 0, tables: 0, view: 16, windows: 0 },
        Self { flows: 8, names: 0, name_stores: 1, filter: 0, tables: 0, view: 8, windows: 16 },
    ];
    /// Shares of the compilation of a trace, which has no tables. Its view is the compiler.
    const COMPILATION: [Self; 2] = [
        Self { flows: 8, names: 2, name_stores: 1, filter: 2, tables: 0, view: 20, windows: 0 },
        Self { flows: 4, names: 1, name_stores: 1, filter: 1, tables: 0, view: 10, windows: 16 },
    ];
}

/// Shares of the memory of `check`, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BaselineCheckMemoryShares {
    /// Places of Transactions, headers and fields of a baseline: that of the capture, and the one that it is compared
    /// with.
    pub baseline_bytes: usize,
    /// Text of the Transactions of a capture. A longer one is in a temporary file.
    pub text_bytes: usize,
    /// Comparison of two baselines.
    pub comparison_bytes: usize,
}

impl BaselineCheckMemoryShares {
    /// Part of the budget for each of two baselines, in 32nds.
    const BASELINE_PARTS: u64 = 6;
}

/// Memory budget. Clones have the same shares and share the windows of zstd data.
#[derive(Clone, Debug)]
pub struct CommandMemoryBudget {
    budget_bytes: u64,
    flows: u64,
    shares: MemoryBudgetShares,
    windows: ZstdWindowBudget,
}

impl Default for CommandMemoryBudget {
    /// Returns a budget of [`DEFAULT_BYTES`] for a command with one flow that reads compressed files.
    fn default() -> Self {
        Self::new(DEFAULT_BYTES, 1, MemoryBudgetShares::COMMAND[1])
    }
}

impl CommandMemoryBudget {
    fn new(budget_bytes: u64, flows: u64, shares: MemoryBudgetShares) -> Self {
        let window_settings =
            ZstdMemoryShareSettings { budget_bytes, parts: shares.windows, min_recommended_bytes: DEFAULT_BYTES };
        Self { budget_bytes, flows, shares, windows: ZstdWindowBudget::new(window_settings) }
    }

    fn for_files<'a>(
        budget_bytes: u64,
        files: impl IntoIterator<Item = &'a PathBuf>,
        flows: u64,
        [plain, compressed]: [MemoryBudgetShares; 2],
    ) -> Self {
        let is_compressed = files.into_iter().any(|file| may_be_zstd(file));
        Self::new(budget_bytes, flows, if is_compressed { compressed } else { plain })
    }

    /// Creates the budget of a command that reads these files with `flows` concurrent flows.
    pub fn for_command<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>, flows: u64) -> Self {
        Self::for_files(budget_bytes, files, flows, MemoryBudgetShares::COMMAND)
    }

    /// Creates the budget of a command that compares these files, with `flows` concurrent flows.
    pub fn for_comparison<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>, flows: u64) -> Self {
        Self::for_files(budget_bytes, files, flows, MemoryBudgetShares::COMPARISON)
    }

    /// Creates the budget of a command that compiles these files to a trace.
    pub fn for_compilation<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self::for_files(budget_bytes, files, 1, MemoryBudgetShares::COMPILATION)
    }

    /// Creates the budget of the terminal interface, which has four flows: a pass over everything, a pass over the
    /// selection of a filter, a search, and one that rereads parts.
    pub fn for_interface<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self::for_files(budget_bytes, files, 4, MemoryBudgetShares::INTERFACE)
    }

    fn part(&self, parts: u64) -> usize {
        usize::try_from(self.budget_bytes / 32 * parts).unwrap_or(usize::MAX)
    }

    /// Returns the limits of each flow.
    pub fn limits(&self) -> FlowLimits {
        FlowLimits::for_memory_budget(self.budget_bytes / 32 * self.shares.flows / self.flows)
    }

    /// Returns the memory of one name store in bytes.
    pub fn names_bytes(&self) -> usize {
        self.part(self.shares.names) / self.shares.name_stores as usize
    }

    /// Returns the memory in bytes for values that a display filter stores until their Transaction is complete.
    pub fn filter_bytes(&self) -> usize {
        self.part(self.shares.filter)
    }

    /// Returns the memory of the tables of `analysis` in bytes.
    pub fn tables_bytes(&self) -> usize {
        self.part(self.shares.tables)
    }

    /// Returns the memory in bytes for frames and rows that wait for output or a comparison, or that the terminal
    /// interface stores, and for the compiler of a trace.
    pub fn view_bytes(&self) -> usize {
        self.part(self.shares.view)
    }

    /// Returns the shares of `check`. The text and the baseline of the capture use the share of the view while the
    /// capture is read; the rest is used when the memory of the flow and of zstd windows is free again.
    pub fn check_memory(&self) -> BaselineCheckMemoryShares {
        BaselineCheckMemoryShares {
            baseline_bytes: self.part(BaselineCheckMemoryShares::BASELINE_PARTS),
            text_bytes: self.part(2),
            comparison_bytes: self.part(12),
        }
    }

    /// Returns the budget in bytes, a multiple of 16 MiB, into which a baseline of this size fits.
    pub fn budget_for_baseline(&self, baseline_bytes: u64) -> u64 {
        Self::budget(baseline_bytes, BaselineCheckMemoryShares::BASELINE_PARTS)
    }

    /// Returns the budget in bytes, a multiple of 16 MiB, whose view has at least `view_bytes` bytes.
    pub fn budget_for_view(&self, view_bytes: u64) -> u64 {
        Self::budget(view_bytes, self.shares.view)
    }

    /// Returns the budget of which `parts` 32nds are at least `bytes`.
    fn budget(bytes: u64, parts: u64) -> u64 {
        const STEP_BYTES: u64 = 16 << 20;
        bytes.div_ceil(parts).saturating_mul(32).div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES)
    }

    /// Returns the shared memory of zstd windows.
    pub fn windows(&self) -> &ZstdWindowBudget {
        &self.windows
    }
}

/// Returns `true` if a file may be zstd data. Only a regular file can be checked without consuming it.
fn may_be_zstd(file: &Path) -> bool {
    if !file.is_file() {
        return true;
    }
    let mut first = [0; 4];
    let is_read = File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    is_read && is_zstd_frame(&first)
}

/// Returns the memory in bytes of an allocation of `count` values, with that of the allocator.
pub(crate) const fn allocated<T>(count: usize) -> usize {
    const OVERHEAD_BYTES: usize = 16;
    if count == 0 { 0 } else { OVERHEAD_BYTES + count * size_of::<T>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_no_more_than_the_budget() {
        for shares in [
            MemoryBudgetShares::COMMAND,
            MemoryBudgetShares::INTERFACE,
            MemoryBudgetShares::COMPARISON,
            MemoryBudgetShares::COMPILATION,
        ]
        .concat()
        {
            let MemoryBudgetShares { flows, names, filter, tables, view, windows, .. } = shares;
            assert_eq!(flows + names + filter + tables + view + windows, 32, "{shares:?}");
        }
    }

    #[test]
    fn shares_of_check_fit_into_those_that_are_free() {
        for shares in MemoryBudgetShares::COMPARISON {
            let budget = CommandMemoryBudget::new(DEFAULT_BYTES, 1, shares);
            let BaselineCheckMemoryShares { baseline_bytes, text_bytes, comparison_bytes } = budget.check_memory();
            // The capture, and then the comparison with another baseline.
            assert!(baseline_bytes + text_bytes <= budget.view_bytes());
            assert!(2 * baseline_bytes + text_bytes + comparison_bytes <= DEFAULT_BYTES as usize);
            assert_eq!(budget.budget_for_baseline(baseline_bytes as u64), DEFAULT_BYTES);
        }
    }
}
