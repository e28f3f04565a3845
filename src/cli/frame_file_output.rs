//! `-w`: writes the frames of the shown lines to a capture file.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_capture_file::{CaptureFrameSource, ZstdWindowBudget};
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::{Flow, Transaction, TransactionSlabKey};
use nfsrdma_output_file::{OutputError, OutputFile, ProtectedInputFiles, is_standard_output};

use super::output_file_creation::can_be_read_again;
use super::standard_streams::report_error;
use crate::interrupt;
use crate::output::ViewAndSummaryWriter;
use crate::output::pcapng_export::{FrameFileWriter, WrittenFrameTotals};
use crate::output::settings::OutputLineUnit;
use crate::output::units::{HumanCount, PluralCount};

/// Nanoseconds between two times that a growing file is written.
const GROWTH_INTERVAL_NS: u64 = 500_000_000;

pub(super) struct FrameFileOutput {
    path: PathBuf,
    view: OutputLineUnit,
    file: FrameFileWriter<OutputFile>,
    /// When a growing file was written for the last time; `None` if the file gets its name at the end.
    grew: Option<Timestamp>,
    /// `true` if the inputs cannot be read again.
    is_unique: bool,
}

/// Creates the file `to`; `-` is standard output. `files` are the inputs, none for a live capture, `buffer_bytes` is
/// the limit of the queue in bytes, and `windows` is the memory of zstd windows. `has_control` selects control frames,
/// too.
pub(super) fn open(
    to: &Path,
    files: &[&PathBuf],
    view: OutputLineUnit,
    (buffer_bytes, windows): (usize, &ZstdWindowBudget),
    has_control: bool,
) -> Result<FrameFileOutput> {
    let is_live = files.is_empty();
    if is_standard_output(to) && io::stdout().is_terminal() {
        bail!("-w -: standard output is a terminal; name a file, or pipe to another program");
    }
    // A live capture drops its privileges first, which are those of each thread.
    if is_live {
        interrupt::catch()?
    } else {
        interrupt::watch()?
    }
    let sink = OutputFile::create(to, &ProtectedInputFiles::new(files))?.refuse_terminal()?;
    let file = if !is_live && files.iter().all(|file| file.is_file()) {
        FrameFileWriter::with_second_pass(sink, view, buffer_bytes, CaptureFrameSource::open_within(files, windows)?)
    } else {
        FrameFileWriter::with_buffered_frames(sink, view, buffer_bytes)
    };
    let mut file = file.map_err(|error| OutputError::write_error(to, error))?;
    if has_control {
        file = file.with_control_frames();
    }
    if is_live {
        // The file can be read while it grows.
        file = file.with_growth();
        file.output().publish()?;
    }
    let is_unique = !can_be_read_again(files.iter().copied());
    Ok(FrameFileOutput { path: to.to_owned(), view, file, grew: is_live.then(Timestamp::default), is_unique })
}

impl FrameFileOutput {
    /// Adds the current frame of the source, after the flow has decoded it; `is_shown` selects it in the view of
    /// frames.
    pub(super) fn frame(&mut self, source: &CaptureFrameSource, flow: &Flow, is_shown: bool) -> Result<()> {
        let is_chosen = is_shown && self.view == OutputLineUnit::Frames;
        Ok(self.file.frame(source, flow, is_chosen).map_err(|error| OutputError::write_error(&self.path, error))?)
    }

    /// Adds a complete Transaction with its paths and findings. In the view of frames, it labels the shown frames.
    pub(super) fn transaction(
        &mut self,
        key: TransactionSlabKey,
        transaction: &Transaction,
        paths: OperationPaths<'_>,
        findings: &[Finding],
        is_shown: bool,
    ) {
        let is_chosen = is_shown || self.view == OutputLineUnit::Frames;
        transaction.with_messages(|messages| {
            let paths = is_chosen.then_some(paths);
            self.file.transaction(key, transaction, messages, &messages.summary(), paths, findings);
        });
    }

    /// Selects the frames of calls without a reply that have waited for long, or whose frames leave the queue, as far as
    /// `output` selects the calls: they may never be complete.
    pub(super) fn pending(&mut self, output: &mut ViewAndSummaryWriter<impl Write>, flow: &Flow) {
        let due = self.file.take_due_calls(flow);
        if due.is_empty() {
            return;
        }
        for call in flow.pending_calls().filter(|call| due.contains(&call.key)) {
            let Some((transaction, paths)) = output.selected_pending(&call) else { continue };
            transaction.with_messages(|messages| {
                self.file.pending(&call, &transaction, messages, &messages.summary(), paths);
            });
        }
    }

    /// Writes the frames of a live capture whose Transactions are complete, at intervals of the time of the flow.
    pub(super) fn grow(&mut self, flow: &Flow) -> Result<()> {
        let Some(last_growth) = &mut self.grew else { return Ok(()) };
        if flow.now().abs_diff_ns(*last_growth) < GROWTH_INTERVAL_NS {
            return Ok(());
        }
        *last_growth = flow.now();
        Ok(self.file.write_settled(flow).map_err(|error| OutputError::write_error(&self.path, error))?)
    }

    /// Writes the queued frames; unless the inputs were read to their end (`is_whole`), they replace no other file.
    /// Reports missing frames and, unless `is_quiet`, the numbers of frames written and read.
    pub(super) fn finish(mut self, flow: &mut Flow, is_whole: bool, is_quiet: bool) -> Result<()> {
        // The last shown frames belong to Transactions that are still pending.
        if self.view == OutputLineUnit::Frames {
            flow.finish();
            while let Some((key, transaction)) = flow.next_with_key() {
                self.transaction(key, &transaction, OperationPaths::default(), &[], false);
            }
        }
        let Self { path, view, file, is_unique, .. } = self;
        let (file, WrittenFrameTotals { written, read, too_late }) =
            file.finish().map_err(|error| OutputError::write_error(&path, error))?;
        match is_whole {
            true => file.commit()?,
            false => file.commit_part(is_unique)?,
        }
        let name = if is_standard_output(&path) { "standard output".into() } else { path.to_string_lossy() };
        if !is_quiet {
            let (written, read) = (HumanCount(written), PluralCount(read, "frame"));
            report_error(format_args!("wrote {written} of {read} to {name}"));
        }
        if too_late > 0 {
            let consequence = if view == OutputLineUnit::Frames { "have no comment" } else { "were not written" };
            report_error(format_args!(
                "{name}: {too_late} frames were dropped from the buffer before their transactions completed, and {consequence}; \
                 raise --max-write-bytes, or read from a file instead of a pipe"
            ));
        }
        Ok(())
    }
}
