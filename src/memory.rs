//! Memory budget of the program, `--max-memory`, and its shares.
//!
//! Everything allocated for input is counted in bytes against a share: the state of the dissectors
//! ([`Memory::limits`]), the windows of zstd data ([`Windows`]), names of files, values that wait for a display filter,
//! the tables of `analysis`, and the view: frames and rows that wait for output, for a comparison or for the terminal
//! interface. Uncompressed captures need no windows, and leave that share to the others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
pub struct Memory {
    budget_bytes: u64,
    flows: u64,
    shares: Shares,
    windows: Windows,
}

impl Default for Memory {
    /// Returns a budget of [`DEFAULT_BYTES`] for a command with one flow that reads compressed files.
    fn default() -> Self {
        Self::new(DEFAULT_BYTES, 1, Shares::COMPRESSED)
    }
}

impl Memory {
    fn new(budget_bytes: u64, flows: u64, shares: Shares) -> Self {
        Self { budget_bytes, flows, shares, windows: Windows::new(budget_bytes, shares.windows) }
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
    is_read && crate::source::begins_zstd(&first)
}

/// Shared memory of zstd windows; clones share it, too.
#[derive(Clone, Debug)]
pub struct Windows(Arc<WindowPool>);

#[derive(Debug)]
struct WindowPool {
    parts: u64,
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Default for Windows {
    /// Returns the windows of [`Memory::default`].
    fn default() -> Self {
        Memory::default().windows
    }
}

impl Windows {
    /// Creates windows that share `parts` 32nds of a budget.
    fn new(budget_bytes: u64, parts: u64) -> Self {
        let most_bytes = budget_bytes / 32 * parts;
        Self(Arc::new(WindowPool { parts, limit_bytes: most_bytes, used_bytes: AtomicU64::new(0) }))
    }

    /// Returns the memory of all windows in bytes.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// Returns the `--max-memory` in bytes with which a window of `needed_bytes` fits next to those that leave
    /// `free_bytes`.
    pub(crate) fn budget_for(&self, needed_bytes: u64, free_bytes: u64) -> u64 {
        let used_bytes = self.0.limit_bytes.saturating_sub(free_bytes);
        let bytes = needed_bytes.saturating_add(used_bytes);
        bytes.div_ceil(self.0.parts.max(1)).saturating_mul(32).max(DEFAULT_BYTES)
    }

    /// Returns `true` if windows take more than half of their share.
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.0.used_bytes.load(Ordering::Relaxed) > self.0.limit_bytes / 2
    }

    /// Returns the memory of the window of another decompressor, initially 0 bytes.
    pub(crate) fn new_window(&self) -> WindowMemory {
        WindowMemory { windows: self.clone(), bytes: 0 }
    }
}

/// Memory of the window of one decompressor within the share of all.
#[derive(Debug)]
pub(crate) struct WindowMemory {
    windows: Windows,
    bytes: u64,
}

/// Overhead in bytes allowed beyond the share: blocks being output.
const MAX_OVERHEAD_BYTES: u64 = 512 << 10;

impl WindowMemory {
    /// Returns the share of all windows.
    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Grows the reservation to `bytes`; a smaller value changes nothing.
    ///
    /// # Errors
    /// Returns the number of free bytes if they are not enough.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), u64> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let WindowPool { limit_bytes: most_bytes, used_bytes, .. } = &*self.windows.0;
        let used = used_bytes.fetch_add(more, Ordering::Relaxed);
        if used + more > most_bytes + MAX_OVERHEAD_BYTES {
            used_bytes.fetch_sub(more, Ordering::Relaxed);
            return Err(most_bytes.saturating_sub(used));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Releases the reservation.
    pub(crate) fn release(&mut self) {
        self.windows.0.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for WindowMemory {
    fn drop(&mut self) {
        self.release();
    }
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

    #[test]
    fn windows_of_clones_share_their_memory_and_give_it_back() {
        let memory = Memory::default();
        let half = memory.windows().limit_bytes() / 2;
        let (mut one, mut other) = (memory.windows().new_window(), memory.clone().windows().new_window());
        assert_eq!(one.grow_to(half + MAX_OVERHEAD_BYTES), Ok(()));
        assert!(memory.windows().is_under_pressure());
        assert_eq!(other.grow_to(half + MAX_OVERHEAD_BYTES), Err(half - MAX_OVERHEAD_BYTES));
        drop(one);
        assert_eq!(other.grow_to(half + MAX_OVERHEAD_BYTES), Ok(()));
    }
}
