//! Files that subcommands write, as [`OutputFile`]s: made before the work begins, so that what cannot be written is told first.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::interrupt;
use crate::output_file::{InputFiles, OutputError, OutputFile};

/// Begins a file whose beginning is written last, as that of a trace is.
pub(super) fn seekable(path: &Path, inputs: &InputFiles) -> Result<OutputFile> {
    interrupt::watch()?;
    Ok(OutputFile::create_seekable(path, inputs)?)
}

/// Begins a file.
pub(super) fn create(path: &Path, inputs: &InputFiles) -> Result<OutputFile> {
    interrupt::watch()?;
    Ok(OutputFile::create(path, inputs)?)
}

/// Begins a report that was asked for with an option beside what is shown.
pub(super) fn report(
    option: &str,
    path: Option<&PathBuf>,
    inputs: &InputFiles,
) -> Result<Option<OutputFile>> {
    let Some(path) = path else { return Ok(None) };
    if path.as_os_str() == "-" {
        bail!("{option} -: standard output has the lines; name a file");
    }
    create(path, inputs).map(Some)
}

/// Says that two options name one file.
pub(super) fn are_different(outputs: &[(&str, Option<&PathBuf>)]) -> Result<()> {
    let place = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((parent.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    let named: Vec<_> = outputs.iter().filter_map(|(option, path)| Some((option, path.as_ref()?))).collect();
    for (at, (option, path)) in named.iter().enumerate() {
        // A device takes all that comes.
        if path.exists() && !path.is_file() {
            continue;
        }
        for (earlier, other) in named.iter().take(at) {
            if place(other).is_some() && place(other) == place(path) {
                bail!("{option}: {} is written by {earlier}; name another file", path.display());
            }
        }
    }
    Ok(())
}

/// Writes all of a file.
pub(super) fn write(mut to: OutputFile, write: impl FnOnce(&mut OutputFile) -> io::Result<()>) -> Result<()> {
    if let Err(error) = write(&mut to) {
        return Err(OutputError::unwritten(to.path(), error).into());
    }
    Ok(to.commit()?)
}
