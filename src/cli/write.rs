//! `-w`: the frames of what is shown go to a capture file.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nfsrdma_dissectors::flow::{Flow, Key, Transaction};

use super::complain;
use crate::analysis::names::About;
use crate::output::View;
use crate::output::frame_file::FrameFile;
use crate::source::{Source, reason};

/// A capture file that is being written.
pub(super) struct Written {
    name: String,
    view: View,
    file: FrameFile<BufWriter<Box<dyn Write>>>,
}

/// Begins to write to `to`; `-` is standard output. `files` are the inputs, none of a live
/// capture, and `room` the bytes that what waits may take.
pub(super) fn open(to: &Path, files: &[&PathBuf], view: View, room: usize) -> Result<Written> {
    let name =
        if is_standard_output(to) { "standard output".to_owned() } else { to.to_string_lossy().into_owned() };
    let sink: Box<dyn Write> = if is_standard_output(to) {
        if io::stdout().is_terminal() {
            bail!("-w -: a capture is not for a terminal; give a file, or a pipe to a program that reads it");
        }
        Box::new(io::stdout())
    } else {
        if let Some(input) = files.iter().find(|input| is_same(to, input)) {
            bail!(
                "{name}: is read as {}, and cannot be written too; name another file with -w",
                input.display()
            );
        }
        let file = File::create(to)
            .map_err(|error| anyhow::anyhow!("{name}: cannot write: {}; check the path", reason(&error)))?;
        Box::new(file)
    };
    let sink = BufWriter::with_capacity(256 << 10, sink);
    let file = if !files.is_empty() && files.iter().all(|file| file.is_file()) {
        FrameFile::reading_again(sink, view, room, Source::open(files)?)
    } else {
        FrameFile::keeping(sink, view, room)
    };
    match file {
        Ok(file) => Ok(Written { name, view, file }),
        Err(error) => Err(unwritten(&name, error)),
    }
}

/// What is said when the capture file takes no more, as when the disk is full.
fn unwritten(name: &str, error: io::Error) -> anyhow::Error {
    let what = format!("{name}: cannot write: {}; make room or write elsewhere", reason(&error));
    anyhow::Error::new(error).context(what)
}

impl Written {
    /// Takes the last frame of the source, which the flow took before; in the view of frames it may be shown.
    pub(super) fn frame(&mut self, source: &Source, flow: &Flow, is_shown: bool) -> Result<()> {
        let is_chosen = is_shown && self.view == View::Frames;
        self.file.frame(source, flow, is_chosen).map_err(|error| unwritten(&self.name, error))
    }

    /// Takes a Transaction that is done, and what it is about. In the view of frames it tells what those are that are shown.
    pub(super) fn transaction(
        &mut self,
        key: Key,
        transaction: &Transaction,
        about: About<'_>,
        is_shown: bool,
    ) {
        let is_chosen = is_shown || self.view == View::Frames;
        transaction.read(|reading| {
            self.file.transaction(key, transaction, reading, &reading.facts(), is_chosen.then_some(about));
        });
    }

    /// Writes what waits, and says what is missing.
    pub(super) fn finish(mut self, flow: &mut Flow) -> Result<()> {
        // What the frames belong to that were shown last.
        if self.view == View::Frames {
            flow.finish();
            while let Some((key, transaction)) = flow.next_named() {
                self.transaction(key, &transaction, About::default(), false);
            }
        }
        let Self { name, view, file } = self;
        let too_late = file.finish().map_err(|error| unwritten(&name, error))?;
        if too_late > 0 {
            let what = if view == View::Frames { "have no comment" } else { "are not written" };
            complain(format_args!(
                "{name}: {too_late} frames were past when their Transactions were done, and {what}; raise \
                 --max-write-bytes, or read from a file and not from a pipe"
            ));
        }
        Ok(())
    }
}

/// Whether the capture goes where else the lines go.
pub(super) fn is_standard_output(to: &Path) -> bool {
    to.as_os_str() == "-"
}

/// Whether an output is an input, under whatever name.
fn is_same(output: &Path, input: &Path) -> bool {
    let input = if input.as_os_str() == "-" { Path::new("/dev/stdin") } else { input };
    let about = fs::metadata(output).ok().zip(fs::metadata(input).ok());
    about.is_some_and(|(output, input)| output.is_file() && is_same_file(&output, &input))
        || fs::canonicalize(output)
            .ok()
            .zip(fs::canonicalize(input).ok())
            .is_some_and(|(one, other)| one == other)
}

#[cfg(unix)]
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same_file(_: &Metadata, _: &Metadata) -> bool {
    false
}
