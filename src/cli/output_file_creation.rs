//! [`OutputFile`]s of subcommands. They are created before the work begins, so that an error is reported first.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nfsrdma_output_file::{OutputError, OutputFile, ProtectedInputFiles, directory_and_name};

use crate::interrupt;

/// Creates a file whose header is written last, such as a trace.
pub(super) fn create_seekable(path: &Path, inputs: &ProtectedInputFiles) -> Result<OutputFile> {
    interrupt::watch()?;
    Ok(OutputFile::create_seekable(path, inputs)?)
}

pub(super) fn create(path: &Path, inputs: &ProtectedInputFiles) -> Result<OutputFile> {
    interrupt::watch()?;
    Ok(OutputFile::create(path, inputs)?)
}

/// Creates the file of a report option.
pub(super) fn create_report(
    option: &str,
    path: Option<&PathBuf>,
    inputs: &ProtectedInputFiles,
) -> Result<Option<OutputFile>> {
    let Some(path) = path else { return Ok(None) };
    if path.as_os_str() == "-" {
        bail!("{option} -: standard output has the lines; name a file");
    }
    create(path, inputs).map(Some)
}

/// Returns an error if two options name one file.
pub(super) fn check_distinct(outputs: &[(&str, Option<&PathBuf>)]) -> Result<()> {
    let named_outputs: Vec<_> = outputs.iter().filter_map(|(option, path)| Some((option, path.as_ref()?))).collect();
    for (at, (option, path)) in named_outputs.iter().enumerate() {
        // Several options may write to one device.
        if path.exists() && !path.is_file() {
            continue;
        }
        for (earlier_option, earlier_path) in named_outputs.iter().take(at) {
            let location = directory_and_name(path);
            if location.is_some() && directory_and_name(earlier_path) == location {
                bail!("{option}: {} is written by {earlier_option}; name another file", path.display());
            }
        }
    }
    Ok(())
}

/// Returns `true` if all inputs are files; `-` may be one, too.
pub(super) fn can_be_read_again<'p>(mut inputs: impl Iterator<Item = &'p PathBuf>) -> bool {
    inputs.all(|input| match input.as_os_str() == "-" {
        true => Path::new("/dev/stdin").is_file(),
        false => input.is_file(),
    })
}

/// Writes a complete file and commits it.
pub(super) fn write_and_commit(
    mut to: OutputFile,
    write: impl FnOnce(&mut OutputFile) -> io::Result<()>,
) -> Result<()> {
    if let Err(error) = write(&mut to) {
        return Err(OutputError::write_error(to.path(), error).into());
    }
    Ok(to.commit()?)
}
