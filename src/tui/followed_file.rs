//! File that another program still writes: reading waits at its end.
//!
//! A file that became shorter, or whose name another file has, as after a rotation, ends. It is opened again.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nfsrdma_capture_file::{CaptureFrameSource, ZstdWindowBudget};

/// Interval between checks for growth.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reason for the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowedFileEndReason {
    /// It is shorter than what was read.
    Truncated,
    /// Another file has its name.
    Replaced,
}

impl fmt::Display for FollowedFileEndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "truncated",
            Self::Replaced => "replaced",
        })
    }
}

/// State that the reader of a file shares with the interface.
#[derive(Debug, Default)]
struct FollowedFileStopState {
    change: Option<FollowedFileEndReason>,
    is_stopped: bool,
}

/// File that is followed.
#[derive(Debug)]
pub(super) struct FollowedFile {
    path: PathBuf,
    windows: ZstdWindowBudget,
    state: Arc<Mutex<FollowedFileStopState>>,
}

fn lock(state: &Mutex<FollowedFileStopState>) -> MutexGuard<'_, FollowedFileStopState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FollowedFile {
    /// Opens a file. `windows` is the memory budget of zstd windows.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub(super) fn open(path: &Path, windows: &ZstdWindowBudget) -> io::Result<(Self, CaptureFrameSource)> {
        let state = Arc::<Mutex<FollowedFileStopState>>::default();
        let file = File::open(path)?;
        let reader = FollowedFileReader { path: path.to_owned(), file, offset: 0, state: Arc::clone(&state) };
        let source = CaptureFrameSource::from_reader_within(&path.to_string_lossy(), reader, windows);
        Ok((Self { path: path.to_owned(), windows: windows.clone(), state }, source))
    }

    /// Returns the name, as given.
    pub(super) fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Opens the file of this name again, and ends the reader.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub(super) fn reopen(&self) -> io::Result<(Self, CaptureFrameSource)> {
        let reopened = Self::open(&self.path, &self.windows)?;
        lock(&self.state).is_stopped = true;
        Ok(reopened)
    }

    /// Returns the reason why the file ended, if it did.
    pub(super) fn change(&self) -> Option<FollowedFileEndReason> {
        lock(&self.state).change
    }
}

/// Reader that waits at the end of its file.
struct FollowedFileReader {
    path: PathBuf,
    file: File,
    /// Number of bytes read.
    offset: u64,
    state: Arc<Mutex<FollowedFileStopState>>,
}

impl FollowedFileReader {
    /// Returns the reason why nothing more will come.
    fn change(&self) -> io::Result<Option<FollowedFileEndReason>> {
        let open_metadata = self.file.metadata()?;
        if open_metadata.is_file() && open_metadata.len() < self.offset {
            return Ok(Some(FollowedFileEndReason::Truncated));
        }
        // While a file is rotated, no file may have its name for a moment.
        let path_metadata = fs::metadata(&self.path).ok();
        let is_other = path_metadata.is_some_and(|path_metadata| {
            (path_metadata.dev(), path_metadata.ino()) != (open_metadata.dev(), open_metadata.ino())
        });
        Ok(is_other.then_some(FollowedFileEndReason::Replaced))
    }
}

impl Read for FollowedFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut change = None;
        loop {
            let count = self.file.read(buffer)?;
            self.offset += count as u64;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // Whatever was written before the change has been read now.
            if change.is_some() || lock(&self.state).is_stopped {
                lock(&self.state).change = change;
                return Ok(0);
            }
            change = self.change()?;
            if change.is_none() {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    fn append(path: &Path, bytes: &[u8]) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn reader(path: &Path) -> FollowedFileReader {
        let state = Arc::default();
        FollowedFileReader { path: path.to_owned(), file: File::open(path).unwrap(), offset: 0, state }
    }

    fn rest(reader: &mut FollowedFileReader) -> (String, Option<FollowedFileEndReason>) {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (text, lock(&reader.state).change)
    }

    #[test]
    fn a_file_ends_when_it_shrinks_or_another_has_its_name_and_not_while_none_has() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a"), folder.path().join("b"));
        append(&path, b"one ");
        let mut replaced = reader(&path);
        let mut first = [0; 2];
        replaced.read_exact(&mut first).unwrap();
        fs::rename(&path, &old).unwrap();
        assert_eq!(replaced.change().unwrap(), None);
        // The writer still has the old file open.
        append(&old, b"two");
        append(&path, b"new");
        assert_eq!(rest(&mut replaced), ("e two".to_owned(), Some(FollowedFileEndReason::Replaced)));

        let mut truncated = reader(&path);
        truncated.read_exact(&mut first).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        assert_eq!(rest(&mut truncated), (String::new(), Some(FollowedFileEndReason::Truncated)));
    }

    #[test]
    fn a_reader_that_is_stopped_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        append(&path, b"one");
        let (file, _) = FollowedFile::open(&path, &ZstdWindowBudget::default()).unwrap();
        let mut reading = FollowedFileReader { state: Arc::clone(&file.state), ..reader(&path) };
        let again = file.reopen().unwrap();
        assert_eq!(rest(&mut reading), ("one".to_owned(), None));
        assert_eq!(again.0.change(), None);
    }
}
