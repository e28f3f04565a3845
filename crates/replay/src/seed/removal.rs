//! Removal of the directory of a run with its contents.
//!
//! Only directories made by a run are removed: they contain the parts of a run and nothing else, and the mark of this
//! trace ([`SEED_MARKER_DIRECTORY`]). The mark is removed last, so that an interrupted removal can be repeated.

use std::fmt;

use super::file_server_client::{FileServerClient, FileServerError};
use super::{DEPTH, NAMELESS_DIRECTORY, RunDirectory, TREE_DIRECTORY};
use crate::trace::file_format::FileType;

/// Name of the directory that marks a run's directory as completely seeded. A directory in it names the trace.
pub const SEED_MARKER_DIRECTORY: &str = "seeded";
/// Maximum number of listings of a directory: a server may skip entries when names are removed during a listing.
const MAX_LISTINGS: usize = 16;

/// The reason that a directory was not removed.
#[derive(Debug)]
pub enum RunDirectoryRemovalError {
    /// The directory contains an entry that no run has made.
    ForeignEntry(String),
    /// The directory has no mark of a run of this trace.
    NotSeededForTrace,
    /// Directories are nested too deeply, or a directory does not become empty.
    NotEmptied,
    /// The server refused an operation, or did not answer: object and error.
    Server(String, FileServerError),
}

impl fmt::Display for RunDirectoryRemovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignEntry(name) => write!(f, "not removed: {name:?} is in it, which no run has made"),
            Self::NotSeededForTrace => {
                f.write_str("not removed: it does not say that it was seeded for this trace")
            }
            Self::NotEmptied => f.write_str("not removed to its end: it does not become empty"),
            Self::Server(what, problem) => write!(f, "not removed to its end: {what}: {problem}"),
        }
    }
}

impl std::error::Error for RunDirectoryRemovalError {}

/// Removes the directory of a run of the trace with this mark. Returns the number of removed names; 0 if the directory
/// does not exist.
///
/// # Errors
/// Returns an error if the directory contains other entries or has no mark, or if the server refuses or does not
/// answer.
pub fn remove(
    files: &mut dyn FileServerClient,
    place: &RunDirectory<'_>,
    mark: &str,
) -> Result<u64, RunDirectoryRemovalError> {
    let said = |problem| RunDirectoryRemovalError::Server(place.directory.to_owned(), problem);
    let export = files.export(place.export).map_err(said)?;
    let Some(home) = files.lookup(&export, place.directory.as_bytes()).map_err(said)? else { return Ok(0) };
    let mut names = Vec::new();
    files.list_names(&home, &mut |name| names.push(name.to_vec())).map_err(said)?;
    let parts = [TREE_DIRECTORY, NAMELESS_DIRECTORY, SEED_MARKER_DIRECTORY];
    if let Some(name) = names.iter().find(|name| !parts.iter().any(|part| part.as_bytes() == **name)) {
        return Err(RunDirectoryRemovalError::ForeignEntry(String::from_utf8_lossy(name).into_owned()));
    }
    let marks = files
        .lookup(&home, SEED_MARKER_DIRECTORY.as_bytes())
        .map_err(said)?
        .ok_or(RunDirectoryRemovalError::NotSeededForTrace)?;
    files
        .lookup(&marks, mark.as_bytes())
        .map_err(said)?
        .ok_or(RunDirectoryRemovalError::NotSeededForTrace)?;
    let mut removed = 0;
    for part in parts {
        if let Some(directory) = files.lookup(&home, part.as_bytes()).map_err(said)? {
            clear(files, &directory, 0, &mut removed)?;
            files.remove(&home, part.as_bytes(), true).map_err(said)?;
            removed += 1;
        }
    }
    files.remove(&export, place.directory.as_bytes(), true).map_err(said)?;
    Ok(removed + 1)
}

/// Removes the contents of a directory. Symbolic links are not followed.
fn clear(
    files: &mut dyn FileServerClient,
    directory: &[u8],
    depth: usize,
    removed: &mut u64,
) -> Result<(), RunDirectoryRemovalError> {
    if depth > DEPTH {
        return Err(RunDirectoryRemovalError::NotEmptied);
    }
    // A step may have removed the necessary permissions.
    let _ = files.set_attributes(directory, Some(0o700), None);
    for _ in 0..MAX_LISTINGS {
        let mut names = Vec::new();
        let listed = files.list_names(directory, &mut |name| names.push(name.to_vec()));
        listed.map_err(|problem| RunDirectoryRemovalError::Server("READDIR".into(), problem))?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            let said = |problem| {
                RunDirectoryRemovalError::Server(String::from_utf8_lossy(&name).into_owned(), problem)
            };
            let Some(object) = files.lookup(directory, &name).map_err(said)? else { continue };
            let is_directory = files.status(&object).map_err(said)?.file_type == FileType::DIRECTORY;
            if is_directory {
                clear(files, &object, depth + 1, removed)?;
            }
            files.remove(directory, &name, is_directory).map_err(said)?;
            *removed += 1;
        }
    }
    Err(RunDirectoryRemovalError::NotEmptied)
}
