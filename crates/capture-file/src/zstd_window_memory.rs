//! The memory that windows of zstd data may use.
//!
//! A program with a memory budget gives a share of it to the windows of all files that it reads
//! ([`ZstdMemoryShareSettings`]). All sources that were opened with clones of the same [`ZstdWindowBudget`] use this
//! share together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of a program's memory budget that windows of zstd data may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdMemoryShareSettings {
    /// Memory budget of the program, in bytes.
    pub budget_bytes: u64,
    /// The share, in 32nds of the budget.
    pub parts: u64,
    /// The smallest budget that an error message recommends, in bytes.
    pub min_recommended_bytes: u64,
}

impl Default for ZstdMemoryShareSettings {
    /// Half of a budget of 256 MiB.
    fn default() -> Self {
        Self { budget_bytes: 256 << 20, parts: 16, min_recommended_bytes: 256 << 20 }
    }
}

/// The memory that windows of zstd data share. Clones share it, too.
#[derive(Clone, Debug)]
pub struct ZstdWindowBudget(Arc<ZstdWindowMemoryUsage>);

#[derive(Debug)]
struct ZstdWindowMemoryUsage {
    parts: u64,
    min_recommended_bytes: u64,
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Default for ZstdWindowBudget {
    /// The memory of [`ZstdMemoryShareSettings::default`].
    fn default() -> Self {
        Self::new(ZstdMemoryShareSettings::default())
    }
}

impl ZstdWindowBudget {
    /// Returns the memory of a share, of which nothing is used yet.
    pub fn new(share: ZstdMemoryShareSettings) -> Self {
        let ZstdMemoryShareSettings { budget_bytes, parts, min_recommended_bytes } = share;
        let limit_bytes = budget_bytes / 32 * parts;
        let used_bytes = AtomicU64::new(0);
        Self(Arc::new(ZstdWindowMemoryUsage { parts, min_recommended_bytes, limit_bytes, used_bytes }))
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// Returns the budget of the program, in bytes, with which a window of `needed_bytes` has space beside those that
    /// leave `free_bytes`.
    pub(crate) fn budget_for(&self, needed_bytes: u64, free_bytes: u64) -> u64 {
        let used_bytes = self.0.limit_bytes.saturating_sub(free_bytes);
        let bytes = needed_bytes.saturating_add(used_bytes);
        bytes.div_ceil(self.0.parts.max(1)).saturating_mul(32).max(self.0.min_recommended_bytes)
    }

    /// Returns `true` if windows use more than half of their memory.
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.0.used_bytes.load(Ordering::Relaxed) > self.0.limit_bytes / 2
    }

    /// Returns the window of one more decompressor, which uses no memory yet.
    pub(crate) fn new_window(&self) -> ZstdWindowMemory {
        ZstdWindowMemory { windows: self.clone(), bytes: 0 }
    }
}

/// The part of the shared memory that the window of one decompressor uses.
#[derive(Debug)]
pub(crate) struct ZstdWindowMemory {
    pub(crate) windows: ZstdWindowBudget,
    bytes: u64,
}

/// Memory beyond the share that a window of its whole size uses for blocks not returned yet, in bytes.
const MAX_OVERHEAD_BYTES: u64 = 512 << 10;

impl ZstdWindowMemory {
    /// Grows the window to `bytes` in total. Returns the number of free bytes as the error if they are too few.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), u64> {
        let Some(additional_bytes) = bytes.checked_sub(self.bytes).filter(|count| *count > 0) else {
            return Ok(());
        };
        let ZstdWindowMemoryUsage { limit_bytes, used_bytes, .. } = &*self.windows.0;
        let used = used_bytes.fetch_add(additional_bytes, Ordering::Relaxed);
        if used + additional_bytes > limit_bytes + MAX_OVERHEAD_BYTES {
            used_bytes.fetch_sub(additional_bytes, Ordering::Relaxed);
            return Err(limit_bytes.saturating_sub(used));
        }
        self.bytes = bytes;
        Ok(())
    }

    pub(crate) fn release(&mut self) {
        self.windows.0.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for ZstdWindowMemory {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_clones_share_their_memory_and_give_it_back() {
        let windows = ZstdWindowBudget::default();
        let half = windows.limit_bytes() / 2;
        let (mut one, mut other) = (windows.new_window(), windows.clone().new_window());
        assert_eq!(one.grow_to(half + MAX_OVERHEAD_BYTES), Ok(()));
        assert!(windows.is_under_pressure());
        assert_eq!(other.grow_to(half + MAX_OVERHEAD_BYTES), Err(half - MAX_OVERHEAD_BYTES));
        drop(one);
        assert_eq!(other.grow_to(half + MAX_OVERHEAD_BYTES), Ok(()));
    }
}
