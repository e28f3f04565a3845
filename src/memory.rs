//! The memory that the program may use: one budget, `--max-memory`, and its shares.
//!
//! Weighed in bytes against a share are the state of the dissectors ([`limits`]), the windows of zstd data
//! ([`WindowMemory`]), names of files ([`names_bytes`]), and frames and values that wait for output ([`view_bytes`]). Outside
//! of it are the rows and frames of the terminal interface, the row groups of an export, and tables of operations and
//! connections, which are bounded by count. The rest is for the program itself. Captures that are not compressed need no windows, and give most
//! of that share to the others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nfsrdma_dissectors::flow::Limits;

/// The budget unless `--max-memory` says otherwise, in bytes.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// The least budget, in bytes.
pub const LEAST_BYTES: u64 = 16 << 20;

static BUDGET_BYTES: AtomicU64 = AtomicU64::new(DEFAULT_BYTES);
static FLOWS: AtomicU64 = AtomicU64::new(1);
static NEEDS_WINDOWS: AtomicBool = AtomicBool::new(true);
static WINDOW_BYTES: AtomicU64 = AtomicU64::new(0);

/// Sets the budget of a program that reads these files, with so many flows at a time.
pub fn plan<'a>(budget_bytes: u64, files: impl IntoIterator<Item = &'a PathBuf>, flows: u64) {
    BUDGET_BYTES.store(budget_bytes, Ordering::Relaxed);
    FLOWS.store(flows.max(1), Ordering::Relaxed);
    NEEDS_WINDOWS.store(files.into_iter().any(|file| may_be_zstd(file)), Ordering::Relaxed);
}

/// Only a regular file tells without being read.
fn may_be_zstd(file: &Path) -> bool {
    if !file.is_file() {
        return true;
    }
    let mut first = [0; 4];
    let is_read = File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    is_read && crate::source::begins_zstd(&first)
}

/// So many sixteenths of the budget, in bytes: of a budget that needs windows, and of one that does not.
fn share(with_windows: u64, without: u64) -> u64 {
    let parts = if NEEDS_WINDOWS.load(Ordering::Relaxed) { with_windows } else { without };
    BUDGET_BYTES.load(Ordering::Relaxed) / 16 * parts
}

/// Bounds for a flow.
pub fn limits() -> Limits {
    Limits::within(share(5, 9) / FLOWS.load(Ordering::Relaxed))
}

/// Memory for names of files, in bytes.
pub fn names_bytes() -> usize {
    usize::try_from(share(1, 1)).unwrap_or(usize::MAX)
}

/// Memory for what waits for output or for a comparison, in bytes.
pub fn view_bytes() -> u64 {
    share(1, 4)
}

/// Memory for the windows of zstd data, in bytes.
pub(crate) fn windows_bytes() -> u64 {
    // Standard input shows only when it is read that it is compressed.
    share(8, 8)
}

/// Whether windows take more than half of their share.
pub(crate) fn are_windows_tight() -> bool {
    WINDOW_BYTES.load(Ordering::Relaxed) > windows_bytes() / 2
}

/// The memory that the window of one decompressor takes of the share of all.
#[derive(Debug, Default)]
pub(crate) struct WindowMemory {
    bytes: u64,
}

impl WindowMemory {
    /// Takes so much in all.
    ///
    /// # Errors
    /// The bytes that are free, where they are too few.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), u64> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let most = windows_bytes() + SLACK_BYTES;
        let used = WINDOW_BYTES.fetch_add(more, Ordering::Relaxed);
        if used + more > most {
            WINDOW_BYTES.fetch_sub(more, Ordering::Relaxed);
            return Err((most - SLACK_BYTES).saturating_sub(used));
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Memory beyond its share that a window of all of it takes: blocks on their way out, in bytes.
const SLACK_BYTES: u64 = 512 << 10;

impl Drop for WindowMemory {
    fn drop(&mut self) {
        WINDOW_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
