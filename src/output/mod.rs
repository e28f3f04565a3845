//! Text and JSON views of Transactions and frames.
//!
//! [`ViewAndSummaryWriter`] receives every frame and every Transaction and writes the selected view: the
//! [`transaction_list`], the [`tree`], the [`frames`], JSON Lines ([`json`]) or the [`statistics_summary`].

mod all_frame_fields;
pub mod baseline_report;
pub mod comparison;
pub mod connections;
pub mod fields_format;
pub mod frames;
mod hex_dump;
pub(crate) mod info_column;
pub mod json;
pub mod junit;
pub mod lint;
#[cfg(feature = "live")]
pub mod live_capture_writer;
pub mod operation_statistics;
pub mod pcapng_export;
pub mod pending_call_progress;
pub mod plan;
pub mod probe;
pub mod recent_frame_buffer;
pub mod replay;
pub(crate) mod report;
pub(crate) mod settings;
pub mod statistics_summary;
pub mod style;
pub mod table;
pub mod transaction_list;
pub mod tree;
mod tshark_field_value;
pub mod units;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use nfsrdma_analysis::call_session_slots;
use nfsrdma_analysis::conformance::run::ConformanceRun;
use nfsrdma_analysis::connection_states_and_credits::ConnectionStats;
use nfsrdma_analysis::connection_states_and_credits::OpenConnectionTallies;
use nfsrdma_analysis::filter::{Filter, FilterRunner, SelectedFrameTally};
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay, OperationPaths};
use nfsrdma_analysis::statistics::FrameAndTransactionStatistics;
use nfsrdma_capture_file::CapturePacketCounters;
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_flow::pending_call_queries::PendingCall;
use nfsrdma_flow::{Flow, Transaction, TransactionSlabKey};

use connections::ConnectionLineWriter;
use fields_format::TsharkFieldsWriter;
use frames::FrameListWriter;
use json::TransactionJsonLineWriter;
use pending_call_progress::PendingCallProgress;
use recent_frame_buffer::RecentFrameBuffer;
pub use report::Report;
pub use settings::{OutputLineFormat, OutputLineUnit, OutputSettings, ReportFormat, SummaryFormat, TimeFormat};
use statistics_summary::capture_summary::CaptureSummary;
use transaction_list::TransactionListWriter;
use tree::transaction::FieldTreeTextWriter;

/// Width of the summary in columns if the output has no width limit.
const DEFAULT_SUMMARY_WIDTH: usize = 100;

/// View that writes the lines.
enum SelectedViewLineWriter {
    /// No lines.
    None,
    List(TransactionListWriter),
    Trees(Box<FieldTreeTextWriter>, RecentFrameBuffer),
    Json(TransactionJsonLineWriter),
    /// List, and the tree of each frame, if selected.
    Frames(FrameListWriter, Option<Box<FieldTreeTextWriter>>),
    Fields(TsharkFieldsWriter),
    /// Lines at the end of the input only.
    Operations,
    Connections(ConnectionLineWriter, Box<OpenConnectionTallies>),
}

impl SelectedViewLineWriter {
    fn for_settings(settings: &OutputSettings) -> Self {
        let OutputSettings { screen, time, .. } = *settings;
        let view_bytes = settings.memory.view_bytes();
        // The statistics share the memory of the tables.
        let open = OpenConnectionTallies::new(view_bytes);
        match (settings.quiet, settings.view, settings.format, settings.tree) {
            (true, ..) => Self::None,
            (_, OutputLineUnit::Operations, ..) => Self::Operations,
            (_, OutputLineUnit::Connections, format, _) => {
                let lines = ConnectionLineWriter::new((format, time), screen, settings.findings);
                Self::Connections(lines, Box::new(open))
            }
            (_, OutputLineUnit::Transactions, OutputLineFormat::Json, _) => {
                Self::Json(TransactionJsonLineWriter::new(time == TimeFormat::Iso))
            }
            (_, OutputLineUnit::Transactions, _, false) => Self::List(TransactionListWriter::new(screen, time)),
            (_, OutputLineUnit::Transactions, _, true) => {
                Self::Trees(Box::new(FieldTreeTextWriter::new(screen)), RecentFrameBuffer::new(view_bytes))
            }
            (_, OutputLineUnit::Frames, _, has_trees) => Self::Frames(
                FrameListWriter::new(screen, time),
                has_trees.then(|| Box::new(FieldTreeTextWriter::new(screen))),
            ),
        }
    }
}

/// Writer of the selected view and summary. Writes lines as soon as they are complete.
pub struct ViewAndSummaryWriter<W> {
    settings: OutputSettings,
    to: W,
    lines_view: SelectedViewLineWriter,
    statistics: FrameAndTransactionStatistics,
    lines: u64,
    selection: Option<FilterRunner>,
    names: FileNames,
    /// Names for frames and pending Calls, if Transactions are emitted later than their Replies are seen.
    early_names: Option<FileNames>,
    /// Lines after which reading stopped before the end of the input.
    stopped_after: Option<u64>,
    /// Conformance rules, if they are applied.
    conformance: Option<Box<ConformanceRun>>,
    /// Findings of the last Transaction.
    findings: Vec<Finding>,
}

impl<W: Write> ViewAndSummaryWriter<W> {
    /// Creates an output that has written nothing.
    pub fn new(settings: OutputSettings, to: W) -> Self {
        let lines_view = SelectedViewLineWriter::for_settings(&settings);
        let names_bytes = settings.memory.names_bytes();
        let statistics = FrameAndTransactionStatistics::new(settings.memory.tables_bytes());
        let names = match lines_view {
            // Names are not needed if no line shows them.
            SelectedViewLineWriter::None
            | SelectedViewLineWriter::Operations
            | SelectedViewLineWriter::Connections(..)
                if !settings.needs_file_names =>
            {
                FileNames::new(FilehandleDisplay::Off, 0)
            }
            SelectedViewLineWriter::Json(_) => FileNames::new(settings.filehandles, names_bytes).with_operations(),
            _ => FileNames::new(settings.filehandles, names_bytes),
        };
        // Names in frame lines come from all earlier frames; names in Transactions come from the Transactions emitted
        // before.
        let has_both = settings.view == OutputLineUnit::Frames && settings.needs_file_names;
        let conformance = settings.findings.then(|| match &lines_view {
            SelectedViewLineWriter::Connections(..) => {
                Box::new(ConformanceRun::default().with_findings_by_connection())
            }
            _ => Box::default(),
        });
        let writer = Self {
            lines_view,
            settings,
            to,
            statistics,
            lines: 0,
            selection: None,
            names,
            early_names: None,
            stopped_after: None,
            conformance,
            findings: Vec::new(),
        };
        if has_both { writer.with_early_names() } else { writer }
    }

    /// Records that reading stopped after this number of lines, before the end of the input.
    pub fn set_stopped_after(&mut self, lines: u64) {
        self.stopped_after = Some(lines);
    }

    /// Names the files of pending Calls from all Replies seen so far, as the lines behind them do. Takes half of the
    /// memory for names.
    #[must_use]
    pub fn with_early_names(mut self) -> Self {
        let limit_bytes = self.settings.memory.names_bytes() / 2;
        if self.names.is_enabled() {
            let has_operations = matches!(self.lines_view, SelectedViewLineWriter::Json(_));
            let names = || {
                let names = FileNames::new(self.settings.filehandles, limit_bytes);
                if has_operations { names.with_operations() } else { names }
            };
            (self.names, self.early_names) = (names(), Some(names()));
        }
        self
    }

    /// Restricts the output to what `filter` selects.
    pub fn with_filter(mut self, filter: Option<Filter>) -> Self {
        let OutputSettings { filehandles, memory, .. } = &self.settings;
        self.selection = filter.map(|filter| FilterRunner::with_filehandles(filter, *filehandles, memory));
        self
    }

    /// Writes lines of fields, whose values the filter collects.
    pub fn with_fields(mut self, fields: Option<TsharkFieldsWriter>) -> Self {
        if let Some(fields) = fields
            && !self.settings.quiet
        {
            self.lines_view = SelectedViewLineWriter::Fields(fields);
        }
        self
    }

    /// Returns the number of frames whose values for the filter were dropped before their Transactions were complete.
    pub fn dropped_frames(&self) -> u64 {
        self.selection.as_ref().map_or(0, FilterRunner::dropped_frames)
    }

    /// Passes the next frame to the flow and writes it in the view of frames. Returns `true` if the frame was shown.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn frame(&mut self, frame: &Frame<'_>, flow: &mut Flow) -> io::Result<bool> {
        // Relative times count from the first frame, shown or not.
        match &mut self.lines_view {
            SelectedViewLineWriter::List(list) => list.start(frame.time),
            SelectedViewLineWriter::Trees(_, recent_frames) => recent_frames.push(frame),
            SelectedViewLineWriter::Frames(list, _) => list.start(frame.time),
            _ => {}
        }
        if self.settings.view != OutputLineUnit::Frames {
            match &mut self.selection {
                // Its frames are counted with a selected Transaction.
                Some(selection) => selection.add_frame(frame, flow),
                None => {
                    flow.process_frame(frame);
                    self.statistics.frame(frame);
                }
            }
            if let SelectedViewLineWriter::Trees(_, recent_frames) = &mut self.lines_view {
                recent_frames.set_last_crc(flow.frame_mpa_counts());
            }
            if let SelectedViewLineWriter::Connections(_, open) = &mut self.lines_view {
                open.frame(flow);
            }
            if let Some(names) = &mut self.early_names {
                names.infer_from_frame(flow);
            }
            self.record_events(flow);
            return Ok(false);
        }
        let (datagram, frame_kind, is_selected) = match &mut self.selection {
            Some(selection) => selection.frame(frame, flow),
            None => {
                let (datagram, frame_kind) = flow.process_frame_observed(frame, &mut NullFieldObserver);
                (datagram, frame_kind, true)
            }
        };
        self.record_events(flow);
        let names = self.early_names.as_mut().unwrap_or(&mut self.names);
        names.infer_from_frame(flow);
        if !is_selected {
            return Ok(false);
        }
        self.statistics.frame(frame);
        self.lines += 1;
        match &mut self.lines_view {
            SelectedViewLineWriter::Frames(list, tree) => {
                list.frame(&mut self.to, frame, &datagram, frame_kind, flow, names)?;
                if let Some(tree) = tree {
                    tree.frame(&mut self.to, frame, flow, names)?;
                    self.to.write_all(b"\n")?;
                }
            }
            SelectedViewLineWriter::Fields(fields) => {
                if let Some(selection) = &self.selection {
                    fields.frame(&mut self.to, selection, frame, flow)?;
                }
            }
            _ => {}
        }
        if self.settings.bytes && !self.settings.quiet {
            hex_dump::frame(&mut self.to, frame.bytes)?;
        }
        Ok(true)
    }

    /// Judges the transport events of the flow's last step, if rules are applied: [`ViewAndSummaryWriter::frame`] does
    /// so after each frame.
    #[inline]
    pub fn record_events(&mut self, flow: &Flow) {
        if let Some(conformance) = &mut self.conformance {
            conformance.record_events(flow);
        }
    }

    /// Writes the next Transaction if it is selected, and returns `true` if it is; `key` identifies it in the events of
    /// its frames.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn transaction(&mut self, key: TransactionSlabKey, transaction: &Transaction) -> io::Result<bool> {
        self.write_transaction(Some(key), transaction)
    }

    /// Writes a Transaction without frames, as read from a trace. Display filters do not apply.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn trace_transaction(&mut self, transaction: &Transaction) -> io::Result<bool> {
        self.write_transaction(None, transaction)
    }

    fn write_transaction(&mut self, key: Option<TransactionSlabKey>, transaction: &Transaction) -> io::Result<bool> {
        let Self { to, lines_view, statistics, selection, lines, settings, names, conformance, findings, .. } = self;
        let is_frames = settings.view == OutputLineUnit::Frames;
        transaction.with_messages(|messages| {
            // Transactions that the filter rejects provide names, too.
            let mut summary = None;
            if conformance.is_some() {
                // The rules need the operations, from which the summary is then made.
                messages.compound();
            }
            if names.is_enabled() {
                let summary = summary.get_or_insert_with(|| messages.summary());
                // In the view of frames, names were inferred from the frames already, before the connection had a name.
                if !is_frames || settings.needs_file_names {
                    names.infer(transaction, messages, summary);
                }
            }
            if let Some(conformance) = conformance {
                let summary = summary.get_or_insert_with(|| messages.summary());
                *findings = conformance.check(key, transaction, messages, summary);
            }
            if let SelectedViewLineWriter::Connections(_, open) = lines_view {
                open.credits(transaction, messages, summary.get_or_insert_with(|| messages.summary()));
            }
            if let (Some(selection), Some(key)) = (selection.as_mut(), key) {
                selection.set_findings(findings);
                let tally = match is_frames {
                    // Its frames were counted one by one.
                    true => selection.take_selected(key).then(SelectedFrameTally::default),
                    false => selection.transaction(Some(key), transaction, messages, None),
                };
                let Some(frames) = tally else { return Ok(false) };
                statistics.record_selected_frames(frames);
            }
            if let Some(conformance) = conformance {
                conformance.select(findings);
            }
            *lines += u64::from(settings.view == OutputLineUnit::Transactions);
            let summary = summary.unwrap_or_else(|| messages.summary());
            statistics.transaction(transaction, &summary);
            match lines_view {
                SelectedViewLineWriter::Fields(fields) if !is_frames => match selection {
                    Some(selection) => fields.line(to, selection),
                    None => Ok(()),
                },
                SelectedViewLineWriter::None
                | SelectedViewLineWriter::Frames(..)
                | SelectedViewLineWriter::Fields(_)
                | SelectedViewLineWriter::Operations => Ok(()),
                SelectedViewLineWriter::Connections(_, open) => {
                    open.transaction(transaction, &summary);
                    Ok(())
                }
                SelectedViewLineWriter::List(list) => {
                    list.transaction(to, transaction, messages, &summary, names, (findings, None))
                }
                SelectedViewLineWriter::Trees(tree, recent_frames) => {
                    tree.transaction(to, transaction, messages, &summary, (names, findings), recent_frames)
                }
                SelectedViewLineWriter::Json(json) => {
                    json.transaction(to, transaction, messages, &summary, names, (findings, None))
                }
            }?;
            if settings.bytes && !is_frames && !settings.quiet {
                hex_dump::transaction(to, transaction)?;
            }
            Ok(true)
        })
    }

    /// Writes a pending Call in Transaction views if it is selected; it does not count as a line.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn pending(&mut self, call: &PendingCall<'_>, age_ns: u64) -> io::Result<()> {
        let Self { to, lines_view, selection, names, early_names, .. } = self;
        let names = early_names.as_mut().unwrap_or(names);
        if !matches!(lines_view, SelectedViewLineWriter::List(_) | SelectedViewLineWriter::Json(_)) {
            return Ok(());
        }
        let transaction = call.to_transaction();
        transaction.with_messages(|messages| {
            let summary = messages.summary();
            names.resolve(&transaction, messages, &summary);
            if let Some(selection) = selection
                && !selection.pending(call.key, &transaction, messages, names.paths())
            {
                return Ok(());
            }
            let slot = call_session_slots::slot(messages);
            let pending = PendingCallProgress { age_ns, phase: call.phase(), slot, direction: call.direction };
            match lines_view {
                SelectedViewLineWriter::List(list) => {
                    list.transaction(to, &transaction, messages, &summary, names, (&[], Some(pending)))
                }
                SelectedViewLineWriter::Json(json) => {
                    json.transaction(to, &transaction, messages, &summary, names, (&[], Some(pending)))
                }
                _ => Ok(()),
            }
        })
    }

    /// Returns a call without a reply with its paths, if the filter selects it. In the view of frames, a filter selects
    /// frames only.
    pub fn selected_pending(&mut self, call: &PendingCall<'_>) -> Option<(Transaction, OperationPaths<'_>)> {
        let names = self.early_names.as_mut().unwrap_or(&mut self.names);
        let transaction = call.to_transaction();
        let selection = self.selection.as_mut().filter(|_| self.settings.view != OutputLineUnit::Frames);
        let is_selected = transaction.with_messages(|messages| {
            names.resolve(&transaction, messages, &messages.summary());
            selection.is_none_or(|one| one.pending(call.key, &transaction, messages, names.paths()))
        });
        is_selected.then(|| (transaction, names.paths()))
    }

    /// Writes the closed connections, all of whose Transactions were passed before.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    #[inline]
    pub fn write_closed_connections(&mut self, flow: &mut Flow) -> io::Result<()> {
        match &self.lines_view {
            SelectedViewLineWriter::Connections(..) => self.write_closed(flow),
            _ => Ok(()),
        }
    }

    /// Counts the calls of which only a part has arrived. Called before the flow ends.
    pub fn partial_calls(&mut self, flow: &Flow) {
        if let SelectedViewLineWriter::Connections(_, open) = &mut self.lines_view {
            open.set_partial_calls(flow);
        }
    }

    fn write_closed(&mut self, flow: &mut Flow) -> io::Result<()> {
        let SelectedViewLineWriter::Connections(view, open) = &mut self.lines_view else { return Ok(()) };
        while self.lines < self.settings.max_lines
            && let Some(state) = flow.next_closed()
        {
            if let Some(row) = open.close(state, flow.now()) {
                let findings = findings_of(&mut self.conformance, &row);
                view.line(&mut self.to, &row, &findings, self.settings.tree)?;
                self.lines += 1;
            }
        }
        Ok(())
    }

    /// Writes the lines that need the end of the input.
    fn write_last_lines(&mut self, flow: &Flow) -> io::Result<()> {
        let OutputSettings { format, screen, max_lines, tree, .. } = self.settings;
        match &mut self.lines_view {
            SelectedViewLineWriter::Operations => {
                self.lines += operation_statistics::write(&mut self.to, &self.statistics, (format, screen), max_lines)?;
            }
            SelectedViewLineWriter::Connections(view, open) => {
                let remaining = usize::try_from(max_lines.saturating_sub(self.lines)).unwrap_or(usize::MAX);
                for row in open.take_remaining(flow).iter().take(remaining) {
                    let findings = findings_of(&mut self.conformance, row);
                    view.line(&mut self.to, row, &findings, tree)?;
                    self.lines += 1;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the paths of the last Transaction.
    pub fn paths(&self) -> OperationPaths<'_> {
        self.names.paths()
    }

    /// Returns the conformance findings of the last Transaction; none unless the rules are applied.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of lines of the view so far, including suppressed ones.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of Transactions so far.
    pub fn transactions(&self) -> u64 {
        self.statistics.transactions()
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes the last lines and the summary at the end of the input. `dropped` is the number of packets that the
    /// capturing program reports as lost, and `counters` are those of a live source.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn finish(
        &mut self,
        flow: &Flow,
        dropped: Option<u64>,
        counters: Option<CapturePacketCounters>,
    ) -> io::Result<()> {
        self.write_last_lines(flow)?;
        if let Some(conformance) = &mut self.conformance {
            conformance.finish();
        }
        let icrc = self.settings.icrc.then(|| flow.icrc_counts());
        let names = self.names.dropped_count();
        let view = (self.lines > 0 && !self.settings.quiet).then_some(self.settings.view);
        let has_iso = self.settings.time == TimeFormat::Iso;
        let statistics = &self.statistics;
        let glyphs = self.settings.screen.glyphs;
        let is_filtered = self.selection.as_ref().is_some_and(|selection| !selection.accepts_all());
        let findings = self.conformance.as_deref().map(|conformance| match is_filtered {
            true => conformance.selected_counts(),
            false => conformance.counts(),
        });
        let summary = CaptureSummary {
            statistics,
            flow,
            icrc,
            dropped,
            counters,
            names,
            shown: view,
            filtered: is_filtered.then_some(self.settings.view),
            stopped_after: self.stopped_after,
            has_iso,
            glyphs,
            findings,
        };
        match self.settings.summary {
            SummaryFormat::None => {}
            SummaryFormat::Json => summary.json(&mut self.to)?,
            SummaryFormat::Text => {
                if self.lines > 0 && !self.settings.quiet {
                    self.to.write_all(b"\n")?;
                }
                summary.text(&mut self.to, self.settings.screen.width.unwrap_or(DEFAULT_SUMMARY_WIDTH))?;
            }
        }
        self.flush()
    }
}

/// Removes and returns the findings of a connection, if rules are applied.
fn findings_of(conformance: &mut Option<Box<ConformanceRun>>, row: &ConnectionStats) -> Vec<Finding> {
    let number = row.tally.name.number;
    conformance.as_mut().map(|conformance| conformance.take_of_connection(number)).unwrap_or_default()
}
