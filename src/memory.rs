//! Memory budget of the program, `--max-memory`, and its shares.
//!
//! Everything allocated for input is counted in bytes against a share: the state of the dissectors
//! ([`MemoryBudget::limits`]), the windows of zstd data ([`Windows`]), names of files, values that wait for a display
//! filter, the tables of `analysis`, and the view: frames and rows that wait for output, for a comparison or for the
//! terminal interface. Uncompressed captures need no windows, and leave that share to the others. The text of baselines is
//! not counted: `check` holds both sides.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use nfsrdma_capture_file::{WindowShare, Windows, is_zstd_frame};
use nfsrdma_dissectors::flow::FlowLimits;

/// Default budget in bytes.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// Minimum budget in bytes.
pub const MIN_BYTES: u64 = 16 << 20;

/// Shares of a budget in 32nds.
#[derive(Clone, Copy, Debug)]
struct Shares {
    flows: u64,
    names: u64,
    /// Number of name stores that exist at the same time.
    name_stores: u64,
    filter: u64,
    tables: u64,
    view: u64,
    windows: u64,
}

impl Shares {
    /// Shares of a command. A filter by path has its own names besides the output.
    const PLAIN: Self =
        Self { flows: 16, names: 4, name_stores: 2, filter: 2, tables: 4, view: 6, windows: 0 };
    const COMPRESSED: Self =
        Self { flows: 8, names: 2, name_stores: 2, filter: 2, tables: 2, view: 2, windows: 16 };
    /// Shares of the terminal interface, which stores rows, or frames that can be read only once. Two passes, a search
    /// and a page that is reread have their own names.
    const INTERFACE: Self =
        Self { flows: 9, names: 4, name_stores: 4, filter: 2, tables: 3, view: 14, windows: 0 };
    const COMPRESSED_INTERFACE: Self =
        Self { flows: 6, names: 4, name_stores: 4, filter: 2, tables: 2, view: 8, windows: 10 };
}

/// Memory budget. Clones have the same shares and share the windows of zstd data.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    budget_bytes: u64,
    flows: u64,
    shares: Shares,
    windows: Windows,
}

impl Default for MemoryBudget {
    /// Returns a budget of [`DEFAULT_BYTES`] for a command with one flow that reads compressed files.
    fn default() -> Self {
        Self::new(DEFAULT_BYTES, 1, Shares::COMPRESSED)
    }
}

impl MemoryBudget {
    fn new(budget_bytes: u64, flows: u64, shares: Shares) -> Self {
        let share = WindowShare { budget_bytes, parts: shares.windows, min_recommended_bytes: DEFAULT_BYTES };
        Self { budget_bytes, flows, shares, windows: Windows::new(share) }
    }

    /// Creates the budget of a command that reads these files with `flows` concurrent flows.
    pub fn for_command<'a>(
        budget_bytes: u64,
        files: impl IntoIterator<Item = &'a PathBuf>,
        flows: u64,
    ) -> Self {
        let is_compressed = files.into_iter().any(|file| may_be_zstd(file));
        Self::new(budget_bytes, flows, if is_compressed { Shares::COMPRESSED } else { Shares::PLAIN })
    }

    /// Creates the budget of the terminal interface, which has four flows: a pass over everything, a pass over the
    /// selection of a filter, a search, and one that rereads parts.
    pub fn for_interface<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let is_compressed = files.into_iter().any(|file| may_be_zstd(file));
        let shares = if is_compressed { Shares::COMPRESSED_INTERFACE } else { Shares::INTERFACE };
        Self::new(budget_bytes, 4, shares)
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
    /// interface stores.
    pub fn view_bytes(&self) -> usize {
        self.part(self.shares.view)
    }

    /// Returns the shared memory of zstd windows.
    pub fn windows(&self) -> &Windows {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_no_more_than_the_budget() {
        for shares in [Shares::PLAIN, Shares::COMPRESSED, Shares::INTERFACE, Shares::COMPRESSED_INTERFACE] {
            let Shares { flows, names, filter, tables, view, windows, .. } = shares;
            assert_eq!(flows + names + filter + tables + view + windows, 32, "{shares:?}");
        }
    }
}
