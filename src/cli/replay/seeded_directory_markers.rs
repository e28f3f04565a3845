//! Markers in the directory of a replay: seeding has begun or is complete, for which trace, and a replay has begun.

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_replay::seed::file_server_client::{FileServerClientError, NewObjectKind, VersionIndependentNfsClient};
use nfsrdma_replay::seed::removal::{RUN_MARKER, SEED_MARKER_DIRECTORY, SEEDING_MARKER_PREFIX, TRACE_MARKER_PREFIX};
use nfsrdma_replay::seed::{ServerRunDirectory, TREE_DIRECTORY};

use super::target_server_options::ReplayTraceFileReader;

/// Returns the identifier of a trace: equal for the same captures, compiled to the same steps.
pub(super) fn trace_marker(trace: &ReplayTraceFileReader) -> String {
    let summary = trace.summary();
    let text = format!("{:?} {:?} {:?}", summary.captures, summary.hosts, summary.end);
    format!("{TRACE_MARKER_PREFIX}{:016x}", hash(text.as_bytes()) as u64)
}

/// Marks the directory of a replay as seeded for a trace.
pub(super) fn mark_seeded(
    files: &mut dyn VersionIndependentNfsClient,
    run_directory: &ServerRunDirectory<'_>,
    trace: &str,
) -> Result<(), FileServerClientError> {
    let export = files.export(run_directory.export)?;
    match files.lookup(&export, run_directory.directory.as_bytes())? {
        Some(home) => make_marker(files, &home, trace),
        None => Ok(()),
    }
}

/// Marks the directory of a replay, by its filehandle: seeding for a trace begins.
pub(super) fn mark_seeding(
    files: &mut dyn VersionIndependentNfsClient,
    home: &[u8],
    trace: &str,
) -> Result<(), FileServerClientError> {
    make_marker(files, home, &format!("{SEEDING_MARKER_PREFIX}{trace}"))
}

fn make_marker(
    files: &mut dyn VersionIndependentNfsClient,
    home: &[u8],
    marker: &str,
) -> Result<(), FileServerClientError> {
    let mut at = home.to_vec();
    for name in [SEED_MARKER_DIRECTORY, marker] {
        at = match files.lookup(&at, name.as_bytes())? {
            Some(existing) => existing,
            None => files.make(&at, name.as_bytes(), NewObjectKind::Directory, 0o755)?,
        };
    }
    Ok(())
}

/// Earlier use of the directory of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunDirectoryPreviousUse {
    /// `true` if a replay has begun there.
    pub(super) was_run: bool,
    /// `true` if it was seeded for another trace, and not for this one.
    pub(super) is_of_other_trace: bool,
}

/// Marks the begin of a replay of a trace in its directory. Returns how it was used before.
pub(super) fn mark_run(
    files: &mut dyn VersionIndependentNfsClient,
    run_directory: &ServerRunDirectory<'_>,
    trace: &str,
) -> Result<RunDirectoryPreviousUse, FileServerClientError> {
    let export = files.export(run_directory.export)?;
    let unused = RunDirectoryPreviousUse::default();
    let Some(home) = files.lookup(&export, run_directory.directory.as_bytes())? else { return Ok(unused) };
    // A directory seeded by hand has no markers.
    let Some(marks) = files.lookup(&home, SEED_MARKER_DIRECTORY.as_bytes())? else { return Ok(unused) };
    let (mut is_same, mut is_other) = (false, false);
    files.list_names(&marks, &mut |name| {
        is_same |= name == trace.as_bytes();
        is_other |= name.starts_with(TRACE_MARKER_PREFIX.as_bytes());
    })?;
    let was_run = files.lookup(&marks, RUN_MARKER.as_bytes())?.is_some();
    if !was_run {
        files.make(&marks, RUN_MARKER.as_bytes(), NewObjectKind::Directory, 0o755)?;
    }
    Ok(RunDirectoryPreviousUse { was_run, is_of_other_trace: is_other && !is_same })
}

/// Describes a directory that is not empty, and the remedies.
pub(super) fn describe_content(
    files: &mut dyn VersionIndependentNfsClient,
    run_directory: &ServerRunDirectory<'_>,
    trace: &str,
) -> Result<String, FileServerClientError> {
    let name = run_directory.directory;
    let export = files.export(run_directory.export)?;
    let run = files.lookup(&export, name.as_bytes())?.unwrap_or_default();
    let mut is_of_run = files.lookup(&run, TREE_DIRECTORY.as_bytes())?.is_some();
    let seeded = files.lookup(&run, SEED_MARKER_DIRECTORY.as_bytes())?;
    let (mut is_same, mut is_other) = (false, false);
    if let Some(seeded) = &seeded {
        files.list_names(seeded, &mut |name| {
            is_of_run |= name.starts_with(SEEDING_MARKER_PREFIX.as_bytes());
            is_same |= name == trace.as_bytes();
            is_other |= name.starts_with(TRACE_MARKER_PREFIX.as_bytes());
        })?;
    }
    let state = match (is_of_run, is_same, is_other) {
        (false, ..) => "its content is not that of a run",
        (true, true, _) => "it was seeded for this trace, and a run may have used it since",
        (true, false, true) => "it was seeded for another trace, and a run may have used it since",
        // The directory of the markers may be there without one.
        (true, false, false) => "a run ended before its tree was complete",
    };
    let advice = match (is_of_run, is_same) {
        (false, _) => "name another directory, or use --allow-non-empty to create the tree beside it",
        (true, true) => {
            "name another directory, remove this one, or use --seeded to run in it unchanged, or --allow-non-empty to complete it"
        }
        (true, false) => "name another directory, remove this one, or use --allow-non-empty to complete it",
    };
    Ok(format!("{name}: directory not empty: {state}; {advice}"))
}
