//! The memory that the program may use: one budget, `--max-memory`, and its shares.
//!
//! Everything that input makes the program allocate is weighed in bytes against a share: the state of the dissectors
//! ([`Memory::limits`]), the windows of zstd data ([`Windows`]), names of files, values that wait for a display filter, the
//! tables of `analysis`, and the view: frames and rows that wait for output, for a comparison or for the terminal
//! interface. Captures that are not compressed need no windows, and leave that share to the others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use nfsrdma_capture_file::{WindowShare, Windows, is_zstd_frame};
use nfsrdma_dissectors::flow::FlowLimits;

/// The budget unless `--max-memory` says otherwise, in bytes.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// The least budget, in bytes.
pub const LEAST_BYTES: u64 = 16 << 20;

/// The parts of a budget, in 32nds of it.
#[derive(Clone, Copy, Debug)]
struct Shares {
    flows: u64,
    names: u64,
    /// Stores of names that exist at the same time.
    name_stores: u64,
    filter: u64,
    tables: u64,
    view: u64,
    windows: u64,
}

impl Shares {
    /// Of a command. A filter by path learns names beside the output.
    const PLAIN: Self =
        Self { flows: 16, names: 4, name_stores: 2, filter: 2, tables: 4, view: 6, windows: 0 };
    const COMPRESSED: Self =
        Self { flows: 8, names: 2, name_stores: 2, filter: 2, tables: 2, view: 2, windows: 16 };
    /// Of the terminal interface, which keeps rows, or frames that come once. Two passes, a search and a page that is read
    /// again have names of their own.
    const INTERFACE: Self =
        Self { flows: 9, names: 4, name_stores: 4, filter: 2, tables: 3, view: 14, windows: 0 };
    const COMPRESSED_INTERFACE: Self =
        Self { flows: 6, names: 4, name_stores: 4, filter: 2, tables: 2, view: 8, windows: 10 };
}

/// A budget of memory. Clones share the windows of zstd data, and each gives the same shares.
#[derive(Clone, Debug)]
pub struct Memory {
    budget_bytes: u64,
    flows: u64,
    shares: Shares,
    windows: Windows,
}

impl Default for Memory {
    /// [`DEFAULT_BYTES`] for a command with one flow that reads compressed files.
    fn default() -> Self {
        Self::new(DEFAULT_BYTES, 1, Shares::COMPRESSED)
    }
}

impl Memory {
    fn new(budget_bytes: u64, flows: u64, shares: Shares) -> Self {
        let share = WindowShare { budget_bytes, parts: shares.windows, min_recommended_bytes: DEFAULT_BYTES };
        Self { budget_bytes, flows, shares, windows: Windows::new(share) }
    }

    /// The budget of a command that reads these files, with so many flows at a time.
    pub fn of_command<'a>(
        budget_bytes: u64,
        files: impl IntoIterator<Item = &'a PathBuf>,
        flows: u64,
    ) -> Self {
        let is_compressed = files.into_iter().any(|file| may_be_zstd(file));
        Self::new(budget_bytes, flows, if is_compressed { Shares::COMPRESSED } else { Shares::PLAIN })
    }

    /// The budget of the terminal interface, which has four flows: passes over everything and over what a filter selects, a
    /// search, and one that reads parts again.
    pub fn of_interface<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let is_compressed = files.into_iter().any(|file| may_be_zstd(file));
        let shares = if is_compressed { Shares::COMPRESSED_INTERFACE } else { Shares::INTERFACE };
        Self::new(budget_bytes, 4, shares)
    }

    fn part(&self, parts: u64) -> usize {
        usize::try_from(self.budget_bytes / 32 * parts).unwrap_or(usize::MAX)
    }

    /// Bounds for each flow.
    pub fn limits(&self) -> FlowLimits {
        FlowLimits::for_memory_budget(self.budget_bytes / 32 * self.shares.flows / self.flows)
    }

    /// Memory for one store of names of files, in bytes.
    pub fn names_bytes(&self) -> usize {
        self.part(self.shares.names) / self.shares.name_stores as usize
    }

    /// Memory for values that a display filter keeps until their Transaction is done, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.part(self.shares.filter)
    }

    /// Memory for the tables of `analysis`, in bytes.
    pub fn tables_bytes(&self) -> usize {
        self.part(self.shares.tables)
    }

    /// Memory for frames and rows that wait for output or for a comparison, or that the terminal interface keeps, in bytes.
    pub fn view_bytes(&self) -> usize {
        self.part(self.shares.view)
    }

    /// The memory that windows of zstd data share.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }
}

/// Only a regular file tells without being read.
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
