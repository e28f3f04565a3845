//! `-w`: the frames of what is shown go to a capture file.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nfsrdma_dissectors::flow::{Flow, Transaction, TransactionKey};

use super::complain;
use crate::analysis::names::OperationPaths;
use crate::interrupt;
use crate::memory::Windows;
use crate::output::LineView;
use crate::output::pcapng_export::{FrameFile, FrameTotals};
use crate::output::units::PluralCount;
use crate::output_file::{InputFiles, OutputError, OutputFile, is_standard_output};
use crate::source::CaptureSource;

/// A capture file that is being written.
pub(super) struct FrameFileOutput {
    path: PathBuf,
    view: LineView,
    file: FrameFile<OutputFile>,
}

/// Begins to write to `to`; `-` is standard output. `files` are the inputs, none of a live
/// capture, and `room` the bytes that what waits may take; `windows` are those of zstd data. `has_control` chooses control frames, too.
pub(super) fn open(
    to: &Path,
    files: &[&PathBuf],
    view: LineView,
    (room, windows): (usize, &Windows),
    has_control: bool,
) -> Result<FrameFileOutput> {
    let is_live = files.is_empty();
    if is_standard_output(to) && io::stdout().is_terminal() {
        bail!("-w -: standard output is a terminal; name a file, or pipe to another program");
    }
    // Who captures gives up rights first, which concerns each thread.
    if is_live {
        interrupt::catch()?
    } else {
        interrupt::watch()?
    }
    let sink = OutputFile::create(to, &InputFiles::new(files))?;
    let file = if !is_live && files.iter().all(|file| file.is_file()) {
        FrameFile::reading_again(sink, view, room, CaptureSource::open_within(files, windows)?)
    } else {
        FrameFile::keeping(sink, view, room)
    };
    let mut file = file.map_err(|error| OutputError::unwritten(to, error))?;
    if has_control {
        file = file.with_control_frames();
    }
    if is_live {
        // It can be looked at while it grows.
        file.output().publish()?;
    }
    Ok(FrameFileOutput { path: to.to_owned(), view, file })
}

impl FrameFileOutput {
    /// Takes the last frame of the source, which the flow took before; in the view of frames it may be shown.
    pub(super) fn frame(&mut self, source: &CaptureSource, flow: &Flow, is_shown: bool) -> Result<()> {
        let is_chosen = is_shown && self.view == LineView::Frames;
        Ok(self
            .file
            .frame(source, flow, is_chosen)
            .map_err(|error| OutputError::unwritten(&self.path, error))?)
    }

    /// Takes a Transaction that is done, and what it is about. In the view of frames it tells what those are that are shown.
    pub(super) fn transaction(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        about: OperationPaths<'_>,
        is_shown: bool,
    ) {
        let is_chosen = is_shown || self.view == LineView::Frames;
        transaction.with_messages(|reading| {
            self.file.transaction(key, transaction, reading, &reading.summary(), is_chosen.then_some(about));
        });
    }

    /// Writes what waits. Says what is missing and, unless it `is_quiet`, how many frames the file has.
    pub(super) fn finish(mut self, flow: &mut Flow, is_quiet: bool) -> Result<()> {
        // What the frames belong to that were shown last.
        if self.view == LineView::Frames {
            flow.finish();
            while let Some((key, transaction)) = flow.next_with_key() {
                self.transaction(key, &transaction, OperationPaths::default(), false);
            }
        }
        let Self { path, view, file } = self;
        let (file, FrameTotals { written, too_late }) =
            file.finish().map_err(|error| OutputError::unwritten(&path, error))?;
        file.commit()?;
        let name = if is_standard_output(&path) { "standard output".into() } else { path.to_string_lossy() };
        if !is_quiet {
            complain(format_args!("wrote {} to {name}", PluralCount(written, "frame")));
        }
        if too_late > 0 {
            let what = if view == LineView::Frames { "have no comment" } else { "were not written" };
            complain(format_args!(
                "{name}: {too_late} frames were dropped from the buffer before their transactions completed, and {what}; \
                 raise --max-write-bytes, or read from a file instead of a pipe"
            ));
        }
        Ok(())
    }
}
