//! Saving of the selection as a pcapng file with comments.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay};
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::{FlowLimits, Transaction};
use nfsrdma_output_file::{OutputError, OutputErrorKind, OutputFile};
use nfsrdma_text::os_error_text;
use rustc_hash::FxHashMap;

use super::frame_reload::detail_subject::TransactionReloadKey;
use super::memory_shares::ViewMemoryShares;
use super::model::transaction_list_row::{self, TransactionRowWithText};
use super::read_pass::ReadPassSettings;
use super::rereadable_capture::{RetainedLiveFrameReader, SharedCapture};
use crate::output::pcapng_export::{FrameFileWriter, WrittenFrameTotals};
use crate::output::settings::OutputLineUnit;

/// A request to save Transactions or frames.
#[derive(Clone, Debug)]
pub(super) struct SaveRequest {
    /// Path of the file, which must not exist yet.
    pub(super) to: PathBuf,
    /// The Transactions or frames.
    pub(super) selection: SaveSelection,
    /// `true` to save the ACKs, NAKs, CNPs and empty TCP segments of their connections too.
    pub(super) has_control_frames: bool,
}

/// The Transactions or frames to save.
#[derive(Clone, Debug)]
pub(super) enum SaveSelection {
    /// Transactions with these numbers.
    Numbers(BTreeSet<u64>),
    /// These Transactions, by XID and first frame.
    Rows(FxHashMap<(Xid, FrameNumber), TransactionReloadKey>),
    /// Transactions that a filter selects; without one, all.
    Selected(Option<Filter>),
    /// Frames with these numbers, and no others.
    Frames(BTreeSet<u64>),
}

impl SaveSelection {
    /// Selects the Transactions of rows.
    pub(super) fn for_rows<'p>(entries: impl Iterator<Item = TransactionRowWithText<'p>>) -> Self {
        let keys = entries.map(|entry| TransactionReloadKey::from(entry.row));
        Self::Rows(keys.map(|key| ((key.xid, key.first), key)).collect())
    }

    fn contains(&self, transaction: &Transaction) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.contains(&transaction.index),
            Self::Rows(keys) => {
                let name = (transaction.xid, transaction_list_row::frames(transaction).0);
                keys.get(&name).is_some_and(|key| key.matches(transaction))
            }
            Self::Selected(_) => true,
            Self::Frames(_) => false,
        }
    }

    fn contains_frame(&self, frame: FrameNumber) -> bool {
        matches!(self, Self::Frames(frames) if frames.contains(&frame.0))
    }
}

/// Source of the frames to save.
enum SaveFrameSource {
    Files(Box<CaptureFrameSource>),
    ReceivedOnce(RetainedLiveFrameReader),
}

/// Returns `true` for a call that has no reply yet, and removes its number, which is that of this reading.
fn is_pending(capture: &SharedCapture, transaction: &mut Transaction) -> bool {
    let is_pending = transaction.reply.is_none() && capture.adopt_pending(transaction);
    if is_pending {
        transaction.index = 0;
    }
    is_pending
}

/// Saves Transactions with all their frames, or single frames. Returns a message about the result or the error.
pub(super) fn save(
    capture: &SharedCapture,
    settings: &ReadPassSettings,
    request: &SaveRequest,
) -> Result<String, String> {
    let SaveRequest { to, selection: what, has_control_frames: has_control } = request;
    let name = to.display();
    let describe_error = |error: OutputError| match error.kind() {
        // Root privileges are dropped once an interface is open.
        OutputErrorKind::Create(why) if why.kind() == ErrorKind::PermissionDenied && capture.is_received_once() => {
            let error = os_error_text(why);
            format!(
                "{name}: cannot write: {error}; choose a folder like /tmp, or set the user that writes files with -Z"
            )
        }
        _ => error.to_string(),
    };
    let unwritten = |error: io::Error| describe_error(OutputError::write_error(to, error));
    // Never overwrite a file: it may be the capture itself.
    let sink = OutputFile::create_new(to).map_err(describe_error)?;
    let memory = &settings.memory;
    let memory_bytes = ViewMemoryShares::new(memory.view_bytes(), capture.is_received_once()).saving_bytes;
    let open = |files| CaptureFrameSource::open_within(files, memory.windows()).map_err(|error| error.to_string());
    let unit = match what {
        SaveSelection::Frames(_) => OutputLineUnit::Frames,
        SaveSelection::Numbers(_) | SaveSelection::Rows(_) | SaveSelection::Selected(_) => OutputLineUnit::Transactions,
    };
    let (mut frames, mut file) = match capture.paths() {
        Some(files) => (
            SaveFrameSource::Files(Box::new(open(files)?)),
            FrameFileWriter::with_second_pass(sink, unit, memory_bytes, open(files)?).map_err(unwritten)?,
        ),
        None => {
            let mut reader = capture.follow();
            reader.until = capture.first_pass_progress().frame;
            (
                SaveFrameSource::ReceivedOnce(reader),
                FrameFileWriter::with_buffered_frames(sink, unit, memory_bytes).map_err(unwritten)?,
            )
        }
    };
    if *has_control {
        file = file.with_control_frames();
    }
    let filter = match what {
        SaveSelection::Selected(filter) => filter.as_ref(),
        SaveSelection::Numbers(_) | SaveSelection::Rows(_) | SaveSelection::Frames(_) => None,
    };
    let limits = FlowLimits { record_transaction_frames: true, ..settings.limits.clone() };
    let (mut flow, mut conformance) = settings.flow(filter, limits);
    let mut selection = filter.map(|filter| FilterRunner::new(filter.clone(), memory));
    let mut names = FileNames::new(FilehandleDisplay::default(), memory.names_bytes());
    let mut saved = 0_u64;
    let mut is_over = false;
    while !is_over {
        let frame = match &mut frames {
            // Errors of a file were reported by the first pass.
            SaveFrameSource::Files(source) => match source.next() {
                Ok(frame) => frame,
                Err(_) => continue,
            },
            SaveFrameSource::ReceivedOnce(reader) => reader.next(),
        };
        let mut is_wanted = false;
        match frame {
            Some(frame) => {
                is_wanted = what.contains_frame(frame.number);
                saved += u64::from(is_wanted);
                match &mut selection {
                    Some(selection) => selection.add_frame(&frame, &mut flow),
                    None => _ = flow.process_frame(&frame),
                }
                if capture.is_received_once()
                    && let Some((number, interface)) = capture.interface(frame.number)
                {
                    let interface_of_frame = (number, &interface);
                    file.buffered_frame(&frame, interface_of_frame, Vec::new, &flow, is_wanted).map_err(unwritten)?;
                }
            }
            None => {
                flow.finish();
                is_over = true;
            }
        }
        if let SaveFrameSource::Files(source) = &frames
            && !is_over
        {
            file.frame(source, &flow, is_wanted).map_err(unwritten)?;
        }
        if let Some(conformance) = &mut conformance {
            conformance.record_events(&flow);
        }
        // A call that never gets a reply must not lose its frames while others are queued.
        let due = file.take_due_calls(&flow);
        let due_calls = (!due.is_empty()).then(|| flow.pending_calls().filter(|call| due.contains(&call.key)));
        for call in due_calls.into_iter().flatten() {
            let mut transaction = call.to_transaction();
            let is_whole = !capture.is_received_once() || is_pending(capture, &mut transaction);
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                names.resolve(&transaction, messages, &summary);
                let is_selected = match &mut selection {
                    Some(selection) => selection.pending(call.key, &transaction, messages, names.paths()),
                    None => what.contains(&transaction),
                };
                if is_whole && is_selected {
                    file.pending(&call, &transaction, messages, &summary, names.paths());
                }
            });
        }
        while let Some((key, mut transaction)) = flow.next_with_key() {
            let is_whole = !capture.is_received_once()
                || capture.first_pass_result(&mut transaction).is_some()
                || is_pending(capture, &mut transaction);
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                let findings = match &mut conformance {
                    Some(conformance) => conformance.check(Some(key), &transaction, messages, &summary),
                    None => Vec::new(),
                };
                let is_selected = match &mut selection {
                    Some(selection) => {
                        selection.set_findings(&findings);
                        selection.transaction(Some(key), &transaction, messages, None).is_some()
                    }
                    None => what.contains(&transaction),
                };
                let is_chosen = is_whole && is_selected;
                saved += u64::from(is_chosen);
                names.infer(&transaction, messages, &summary);
                let paths = (is_chosen || unit == OutputLineUnit::Frames).then(|| names.paths());
                file.transaction(key, &transaction, messages, &summary, paths, &findings);
            });
        }
    }
    let (file, WrittenFrameTotals { too_late, .. }) = file.finish().map_err(unwritten)?;
    file.commit().map_err(describe_error)?;
    let (units, wanted_count) = match what {
        SaveSelection::Frames(frames) => ("frame", Some(frames.len())),
        SaveSelection::Rows(keys) => ("transaction", Some(keys.len())),
        SaveSelection::Numbers(_) | SaveSelection::Selected(_) => ("transaction", None),
    };
    let mut text = format!("saved {saved} {units}{} to {name}", if saved == 1 { "" } else { "s" });
    if let Some(wanted_count) = wanted_count
        && let missing = (wanted_count as u64).saturating_sub(saved)
        && missing > 0
    {
        text += &format!("; {missing} are no longer in memory (--max-memory)");
    }
    // Of a single frame, only a comment may be missing.
    if too_late > 0 && unit == OutputLineUnit::Transactions {
        text += &format!("; {too_late} frames arrived too late and were not saved");
    }
    Ok(text)
}
