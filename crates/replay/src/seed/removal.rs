//! Removal of the directory of a run with its contents.
//!
//! Only directories made by a run are removed: they contain the parts of a run, names of its trace and nothing else,
//! and the mark of this trace ([`SEED_MARKER_DIRECTORY`]). All names are checked before the first is removed. The mark
//! is removed last, so that an interrupted removal can be repeated.

use std::fmt;

use super::file_server_client::{FileServerClient, FileServerError};
use super::{DEPTH, NAMELESS_DIRECTORY, RunDirectory, TREE_DIRECTORY};
use crate::run::removable_names::RemovableNames;
use crate::trace::file_format::FileType;

/// Name of the directory that marks a run's directory as completely seeded. A directory in it names the trace.
pub const SEED_MARKER_DIRECTORY: &str = "seeded";
/// Marker in it that a replay has begun.
pub const RUN_MARKER: &str = "run";
/// Begin of the name of the marker in it that names the trace.
pub const TRACE_MARKER_PREFIX: &str = "trace-";
/// Maximum number of listings of a directory: a server may skip entries when names are removed during a listing.
const MAX_LISTINGS: usize = 16;

/// The reason that a directory was not removed.
#[derive(Debug)]
pub enum RunDirectoryRemovalError {
    /// The directory contains an entry that no run of the trace creates; its path below the directory.
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
            Self::ForeignEntry(name) => {
                write!(f, "not removed: it contains {name:?}, which no run of this trace creates")
            }
            Self::NotSeededForTrace => {
                f.write_str("not removed: no marker shows that it was seeded for this trace")
            }
            Self::NotEmptied => f.write_str("not completely removed: it does not become empty"),
            Self::Server(what, problem) => write!(f, "not completely removed: {what}: {problem}"),
        }
    }
}

impl std::error::Error for RunDirectoryRemovalError {}

/// Removes the directory of a run of the trace with this mark, whose runs create these names. Returns the number of
/// removed names; 0 if the directory does not exist.
///
/// # Errors
/// Returns an error if the directory contains other entries or has no mark, or if the server refuses or does not
/// answer.
pub fn remove(
    files: &mut dyn FileServerClient,
    place: &RunDirectory<'_>,
    mark: &str,
    created: &RemovableNames,
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
    let is_known = |part: &str, name: &[u8]| match part == SEED_MARKER_DIRECTORY {
        true => name == RUN_MARKER.as_bytes() || name.starts_with(TRACE_MARKER_PREFIX.as_bytes()),
        false => created.contains(name),
    };
    for part in parts {
        let Some(directory) = files.lookup(&home, part.as_bytes()).map_err(said)? else { continue };
        check_names(files, &directory, part, 0, &|name| is_known(part, name))?;
    }
    let mut removed = 0;
    for part in parts {
        if let Some(directory) = files.lookup(&home, part.as_bytes()).map_err(said)? {
            clear(files, &directory, part, 0, &|name| is_known(part, name), &mut removed)?;
            files.remove(&home, part.as_bytes(), true).map_err(said)?;
            removed += 1;
        }
    }
    files.remove(&export, place.directory.as_bytes(), true).map_err(said)?;
    Ok(removed + 1)
}

/// Returns an error if a directory or one below it has an unknown name. Symbolic links are not followed.
fn check_names(
    files: &mut dyn FileServerClient,
    directory: &[u8],
    path: &str,
    depth: usize,
    is_known: &dyn Fn(&[u8]) -> bool,
) -> Result<(), RunDirectoryRemovalError> {
    if depth > DEPTH {
        return Err(RunDirectoryRemovalError::NotEmptied);
    }
    let said = |problem| RunDirectoryRemovalError::Server(path.to_owned(), problem);
    let mut names = Vec::new();
    let listed = files.list_names(directory, &mut |name| names.push(name.to_vec()));
    if listed.is_err() {
        // A step may have removed the necessary permissions.
        files.set_attributes(directory, Some(0o700), None).map_err(said)?;
        names.clear();
        files.list_names(directory, &mut |name| names.push(name.to_vec())).map_err(said)?;
    }
    for name in names {
        let below = format!("{path}/{}", String::from_utf8_lossy(&name));
        if !is_known(&name) {
            return Err(RunDirectoryRemovalError::ForeignEntry(below));
        }
        let said = |problem| RunDirectoryRemovalError::Server(below.clone(), problem);
        let Some(object) = files.lookup(directory, &name).map_err(said)? else { continue };
        if files.status(&object).map_err(said)?.file_type == FileType::DIRECTORY {
            check_names(files, &object, &below, depth + 1, is_known)?;
        }
    }
    Ok(())
}

/// Removes the contents of a directory. Symbolic links are not followed. Names are checked once more, because an object
/// may have been added since, or a server may have listed names from its cache (nfs-ganesha).
fn clear(
    files: &mut dyn FileServerClient,
    directory: &[u8],
    path: &str,
    depth: usize,
    is_known: &dyn Fn(&[u8]) -> bool,
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
        let below = |name: &[u8]| format!("{path}/{}", String::from_utf8_lossy(name));
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(RunDirectoryRemovalError::ForeignEntry(below(name)));
        }
        for name in names {
            let said = |problem| {
                RunDirectoryRemovalError::Server(String::from_utf8_lossy(&name).into_owned(), problem)
            };
            let Some(object) = files.lookup(directory, &name).map_err(said)? else { continue };
            let is_directory = files.status(&object).map_err(said)?.file_type == FileType::DIRECTORY;
            if is_directory {
                clear(files, &object, &below(&name), depth + 1, is_known, removed)?;
            }
            files.remove(directory, &name, is_directory).map_err(said)?;
            *removed += 1;
        }
    }
    Err(RunDirectoryRemovalError::NotEmptied)
}
