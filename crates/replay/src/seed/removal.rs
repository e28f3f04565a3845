//! Removal of the directory of a run with its contents.
//!
//! Only directories made by a run are removed: they contain the parts of a run, names of its trace and nothing else,
//! and a mark of this trace ([`SEED_MARKER_DIRECTORY`]): that it was seeded, or that seeding began. All names are
//! checked before the first is removed, and again before each directory. The mark is removed last, so that an
//! interrupted removal can be repeated.

use std::fmt;

use nfsrdma_dissectors::nfs::v4::Nfsstat4;

use super::file_server_client::{FileServerClientError, FileServerClientResult, VersionIndependentNfsClient};
use super::{DEPTH, NAMELESS_DIRECTORY, ServerRunDirectory, TREE_DIRECTORY};
use crate::run::removable_names::RemovableNames;
use crate::trace::file_format::TraceFileType;

/// Name of the directory of the markers in a run's directory. Each marker is a directory.
pub const SEED_MARKER_DIRECTORY: &str = "seeded";
/// Begin of the name of the marker that seeding for a trace has begun; the name of its other marker follows.
pub const SEEDING_MARKER_PREFIX: &str = "seeding-";
/// Marker in it that a replay has begun.
pub const RUN_MARKER: &str = "run";
/// Begin of the name of the marker in it that the directory is completely seeded, which names the trace.
pub const TRACE_MARKER_PREFIX: &str = "trace-";
/// Maximum number of listings of a directory: a server may skip entries when names are removed during a listing.
const MAX_LISTINGS: usize = 16;

/// The reason that a directory was not removed.
#[derive(Debug)]
pub enum RunDirectoryRemovalError {
    /// The directory contains an entry that no run of the trace creates; its path below the directory, and `true` if
    /// other entries have been removed.
    ForeignEntry(String, bool),
    /// The directory has no mark of a run of this trace.
    NotSeededForTrace,
    /// Directories are nested too deeply, or a directory does not become empty.
    NotEmptied,
    /// The server refused an operation, or did not answer: object and error.
    Server(String, FileServerClientError),
}

impl fmt::Display for RunDirectoryRemovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignEntry(name, is_partly_removed) => {
                let completely = if *is_partly_removed { "completely " } else { "" };
                write!(f, "not {completely}removed: it contains {name:?}, which no run of this trace creates")
            }
            Self::NotSeededForTrace => f.write_str("not removed: no marker shows that it was seeded for this trace"),
            Self::NotEmptied => f.write_str("not completely removed: it does not become empty"),
            Self::Server(object, problem) => write!(f, "not completely removed: {object}: {problem}"),
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
    files: &mut dyn VersionIndependentNfsClient,
    location: &ServerRunDirectory<'_>,
    marker: &str,
    created_names: &RemovableNames,
) -> Result<u64, RunDirectoryRemovalError> {
    let server_error = |problem| RunDirectoryRemovalError::Server(location.directory.to_owned(), problem);
    let export = files.export(location.export).map_err(server_error)?;
    let Some(run) = files.lookup(&export, location.directory.as_bytes()).map_err(server_error)? else {
        return Ok(0);
    };
    let subdirectories = [TREE_DIRECTORY, NAMELESS_DIRECTORY, SEED_MARKER_DIRECTORY];
    let foreign_name = |files: &mut dyn VersionIndependentNfsClient| {
        let mut foreign = None;
        let mut find = |name: &[u8]| {
            if !subdirectories.iter().any(|subdirectory| subdirectory.as_bytes() == name) {
                foreign.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
            }
        };
        files.list_names(&run, &mut find).map_err(server_error)?;
        Ok(foreign)
    };
    if let Some(name) = foreign_name(files)? {
        return Err(RunDirectoryRemovalError::ForeignEntry(name, false));
    }
    let markers = files
        .lookup(&run, SEED_MARKER_DIRECTORY.as_bytes())
        .map_err(server_error)?
        .ok_or(RunDirectoryRemovalError::NotSeededForTrace)?;
    // The second mark is that of a seeding that failed.
    let mut is_marked = false;
    for name in [marker.to_owned(), format!("{SEEDING_MARKER_PREFIX}{marker}")] {
        is_marked = is_marked || files.lookup(&markers, name.as_bytes()).map_err(server_error)?.is_some();
    }
    if !is_marked {
        return Err(RunDirectoryRemovalError::NotSeededForTrace);
    }
    let is_known = |subdirectory: &str, name: &[u8]| match subdirectory == SEED_MARKER_DIRECTORY {
        true => {
            let prefixes = [TRACE_MARKER_PREFIX, SEEDING_MARKER_PREFIX];
            name == RUN_MARKER.as_bytes() || prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
        }
        false => created_names.contains(name),
    };
    for subdirectory in subdirectories {
        let Some(directory) = files.lookup(&run, subdirectory.as_bytes()).map_err(server_error)? else {
            continue;
        };
        check_names(files, &directory, subdirectory, 0, &|name| is_known(subdirectory, name))?;
    }
    let mut removed = 0;
    for subdirectory in subdirectories {
        // The first listing may have been from a cache.
        if subdirectory == SEED_MARKER_DIRECTORY
            && let Some(name) = foreign_name(files)?
        {
            return Err(RunDirectoryRemovalError::ForeignEntry(name, removed > 0));
        }
        if let Some(directory) = files.lookup(&run, subdirectory.as_bytes()).map_err(server_error)? {
            clear(files, &directory, subdirectory, 0, &|name| is_known(subdirectory, name), &mut removed)?;
            files.remove(&run, subdirectory.as_bytes(), true).map_err(server_error)?;
            removed += 1;
        }
    }
    files.remove(&export, location.directory.as_bytes(), true).map_err(server_error)?;
    Ok(removed + 1)
}

/// Returns an error if a directory or one below it has an unknown name. Symbolic links are not followed.
fn check_names(
    files: &mut dyn VersionIndependentNfsClient,
    directory: &[u8],
    path: &str,
    depth: usize,
    is_known: &dyn Fn(&[u8]) -> bool,
) -> Result<(), RunDirectoryRemovalError> {
    if depth > DEPTH {
        return Err(RunDirectoryRemovalError::NotEmptied);
    }
    let names =
        list_names(files, directory).map_err(|problem| RunDirectoryRemovalError::Server(path.to_owned(), problem))?;
    for name in names {
        let entry_path = format!("{path}/{}", String::from_utf8_lossy(&name));
        if !is_known(&name) {
            return Err(RunDirectoryRemovalError::ForeignEntry(entry_path, false));
        }
        let server_error = |problem| RunDirectoryRemovalError::Server(entry_path.clone(), problem);
        let Some(object) = files.lookup(directory, &name).map_err(server_error)? else { continue };
        if files.status(&object).map_err(server_error)?.file_type == TraceFileType::DIRECTORY {
            check_names(files, &object, &entry_path, depth + 1, is_known)?;
        }
    }
    Ok(())
}

/// Returns the names in a directory. Makes it accessible if the server refuses: a step may have removed permissions.
fn list_names(files: &mut dyn VersionIndependentNfsClient, directory: &[u8]) -> FileServerClientResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let result = files.list_names(directory, &mut |name| names.push(name.to_vec()));
    if matches!(result, Err(FileServerClientError::Refused(..))) {
        files.set_attributes(directory, Some(0o700), None)?;
        names.clear();
        files.list_names(directory, &mut |name| names.push(name.to_vec()))?;
        return Ok(names);
    }
    result.map(|()| names)
}

/// Removes a name. Makes the directory accessible if the server refuses, as [`list_names`] does.
fn remove_name(
    files: &mut dyn VersionIndependentNfsClient,
    directory: &[u8],
    name: &[u8],
    is_directory: bool,
) -> FileServerClientResult<()> {
    match files.remove(directory, name, is_directory) {
        Err(error) if matches!(error.status(), Some(Nfsstat4::NFS4ERR_ACCESS | Nfsstat4::NFS4ERR_PERM)) => {
            // If that is refused, so is the second attempt, with its own status.
            let _ = files.set_attributes(directory, Some(0o700), None);
            files.remove(directory, name, is_directory)
        }
        result => result,
    }
}

/// Removes the contents of a directory. Symbolic links are not followed. Names are checked once more, because an object
/// may have been added since, or a server may have listed names from its cache (nfs-ganesha).
fn clear(
    files: &mut dyn VersionIndependentNfsClient,
    directory: &[u8],
    path: &str,
    depth: usize,
    is_known: &dyn Fn(&[u8]) -> bool,
    removed: &mut u64,
) -> Result<(), RunDirectoryRemovalError> {
    if depth > DEPTH {
        return Err(RunDirectoryRemovalError::NotEmptied);
    }
    for _ in 0..MAX_LISTINGS {
        let names = list_names(files, directory)
            .map_err(|problem| RunDirectoryRemovalError::Server(path.to_owned(), problem))?;
        if names.is_empty() {
            return Ok(());
        }
        let entry_path = |name: &[u8]| format!("{path}/{}", String::from_utf8_lossy(name));
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(RunDirectoryRemovalError::ForeignEntry(entry_path(name), *removed > 0));
        }
        for name in names {
            let server_error =
                |problem| RunDirectoryRemovalError::Server(String::from_utf8_lossy(&name).into_owned(), problem);
            let Some(object) = files.lookup(directory, &name).map_err(server_error)? else { continue };
            let is_directory = files.status(&object).map_err(server_error)?.file_type == TraceFileType::DIRECTORY;
            if is_directory {
                clear(files, &object, &entry_path(&name), depth + 1, is_known, removed)?;
            }
            remove_name(files, directory, &name, is_directory).map_err(server_error)?;
            *removed += 1;
        }
    }
    Err(RunDirectoryRemovalError::NotEmptied)
}
