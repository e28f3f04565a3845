//! Reader of captures and traces as records, for commands that compare them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::{Result, anyhow};
use nfsrdma_analysis::comparison::ClientAddressAndCallDirection;
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::comparable_transaction_recorder::ComparableTransactionRecorder;
use nfsrdma_analysis::comparison::record::{ComparableFinding, ComparableTransaction};
use nfsrdma_analysis::conformance::run::ConformanceRun;
use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay};
use nfsrdma_capture_file::{CaptureFrameSource, ReadProgress, SourceError};
use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_flow::transaction::{CallDirection, EndpointRole};
use nfsrdma_flow::{Flow, FlowLimits, Transaction};
use nfsrdma_replay::trace::file_format::MAGIC;
use nfsrdma_replay::trace::step_to_transaction_conversion::StepToTransactionConverter;
use nfsrdma_replay::trace::{self, TraceError};
use rustc_hash::{FxHashMap, FxHashSet};

use super::exit_status::ExitStatus;
use super::progress::ProgressLine;
use super::replay::target_server_options::open_trace_file;
use super::standard_streams::write_error;
use crate::output::ViewAndSummaryWriter;
use crate::output::settings::OutputSettings;

/// Maximum number of complete Transactions that await late duplicates. They keep their file data until it is hashed, so
/// the limit is lower than the default.
const MAX_LINGERING_TRANSACTIONS: usize = 256;

enum ComparisonCaptureOrTraceReader {
    /// Capture file and its flow.
    Capture(Box<(CaptureFrameSource, Flow)>),
    /// Trace file.
    Trace(Box<ComparisonTraceReader>),
}

/// Trace file, opened for its steps and again for their file data.
struct ComparisonTraceReader {
    steps: trace::ReplayTraceReader<BufReader<File>>,
    contents: trace::ReplayTraceReader<BufReader<File>>,
    builder: StepToTransactionConverter,
    total: u64,
}

pub(super) struct ComparisonInput {
    source: ComparisonCaptureOrTraceReader,
    is_over: bool,
    /// Conformance rules, if records have findings.
    conformance: Option<Box<ConformanceRun>>,
    /// Totals of the capture.
    pub(super) trace: ComparedCaptureSummary,
    /// Errors of the file.
    pub(super) errors: Vec<anyhow::Error>,
}

/// Returns `true` if a file begins with the magic of a trace.
pub(super) fn is_trace(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let is_file = path.is_file();
    is_file && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == MAGIC
}

impl ComparisonTraceReader {
    fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let open = || {
            let file = open_trace_file(path)?;
            trace::ReplayTraceReader::open(BufReader::new(file)).map_err(|error| anyhow!("{name}: {error}"))
        };
        let (steps, contents) = (open()?, open()?);
        let (builder, total) = (StepToTransactionConverter::for_trace(steps.summary()), steps.summary().end.steps);
        Ok(Self { steps, contents, builder, total })
    }

    /// Returns the next record, and adds it to the totals.
    fn next(
        &mut self,
        recorder: &mut ComparableTransactionRecorder,
        summary: &mut ComparedCaptureSummary,
    ) -> Result<Option<(ClientAddressAndCallDirection, ComparableTransaction)>, TraceError> {
        let Some(step) = self.steps.next_step()? else { return Ok(None) };
        let (transaction, amendments) = self.builder.transaction(&step, &mut self.contents)?;
        let mut record = recorder.record(&transaction);
        amendments.apply(&mut record, recorder);
        record.replayed_step = (step.origin.run_of != 0).then_some(step.origin.run_of);
        summary.transaction(&transaction, &record);
        let client = ClientAddressAndCallDirection {
            address: recorder.word(self.builder.client(&step)),
            direction: transaction.direction,
        };
        Ok(Some((client, record)))
    }
}

impl ComparisonInput {
    /// Opens a capture or a trace; `dialect` overrides detection in a capture.
    pub(super) fn open(path: &Path, memory: &CommandMemoryBudget, dialect: Option<Dialect>) -> Result<Self> {
        Self::open_as(path, memory, dialect, None)
    }

    /// Opens a capture or a trace, and applies the conformance rules to the Transactions of a capture.
    pub(super) fn open_with_findings(
        path: &Path,
        memory: &CommandMemoryBudget,
        dialect: Option<Dialect>,
    ) -> Result<Self> {
        let conformance = (!is_trace(path)).then(Box::default);
        Self::open_as(path, memory, dialect, conformance)
    }

    fn open_as(
        path: &Path,
        memory: &CommandMemoryBudget,
        dialect: Option<Dialect>,
        conformance: Option<Box<ConformanceRun>>,
    ) -> Result<Self> {
        let source = match is_trace(path) {
            true => ComparisonCaptureOrTraceReader::Trace(Box::new(ComparisonTraceReader::open(path)?)),
            false => capture(path, memory, dialect, conformance.is_some())?,
        };
        Ok(Self {
            source,
            is_over: false,
            conformance,
            trace: ComparedCaptureSummary {
                name: path.to_string_lossy().into_owned(),
                ..ComparedCaptureSummary::default()
            },
            errors: Vec::new(),
        })
    }

    /// Returns `true` if the file turned out to be neither capture nor trace.
    pub(super) fn is_no_capture(&self) -> bool {
        !self.errors.is_empty() && self.trace.frames == 0 && self.trace.transactions == 0
    }

    /// Returns the next record and its client, or `None` at the end.
    pub(super) fn next(
        &mut self,
        recorder: &mut ComparableTransactionRecorder,
        progress: &mut ProgressLine,
    ) -> Option<(ClientAddressAndCallDirection, ComparableTransaction)> {
        if self.is_over && matches!(self.source, ComparisonCaptureOrTraceReader::Trace(_)) {
            return None;
        }
        let (source, flow) = match &mut self.source {
            ComparisonCaptureOrTraceReader::Capture(capture) => &mut **capture,
            ComparisonCaptureOrTraceReader::Trace(steps) => {
                let next = steps.next(recorder, &mut self.trace);
                if progress.is_due(false) {
                    let read = self.trace.transactions;
                    let read_progress = ReadProgress { read_bytes: read, total_bytes: Some(steps.total) };
                    progress.draw(read_progress, self.trace.transactions);
                }
                return next.unwrap_or_else(|error| {
                    self.errors.push(anyhow!("{}: {error}", self.trace.name));
                    self.is_over = true;
                    None
                });
            }
        };
        loop {
            if let Some((key, transaction)) = flow.next_with_key() {
                let mut record = recorder.record(&transaction);
                if let Some(conformance) = &mut self.conformance {
                    let findings = transaction.with_messages(|messages| {
                        conformance.check(Some(key), &transaction, messages, &messages.summary())
                    });
                    record.findings = compared_findings(&transaction, &findings, recorder);
                }
                self.trace.transaction(&transaction, &record);
                let client = ClientAddressAndCallDirection {
                    address: recorder.word(&transaction.connection.client.address.to_string()),
                    direction: transaction.direction,
                };
                return Some((client, record));
            }
            if self.is_over {
                if let Some(mut conformance) = self.conformance.take() {
                    conformance.finish();
                    self.trace.record_findings(&conformance.counts_without_transaction());
                }
                return None;
            }
            match source.next() {
                Ok(Some(frame)) => {
                    self.trace.frames += 1;
                    let is_known = frame.link.is_known();
                    flow.process_frame(&frame);
                    if let Some(conformance) = &mut self.conformance {
                        conformance.record_events(flow);
                    }
                    if !is_known {
                        self.errors.extend(source.unknown_link().map(anyhow::Error::from));
                    }
                }
                Ok(None) => {
                    flow.finish();
                    if let Some(conformance) = &mut self.conformance {
                        conformance.record_events(flow);
                    }
                    self.trace.record_flow_counts(flow);
                    self.is_over = true;
                }
                Err(error) => self.errors.push(error.into()),
            }
            if progress.is_due(false) {
                progress.draw(source.progress(), self.trace.transactions);
            }
        }
    }
}

/// Returns the paths of the files or directories of the transactions with these frames, by the frame.
///
/// # Errors
/// Returns an error if the file cannot be opened, or a trace is damaged.
pub(super) fn paths_of_frames(
    path: &Path,
    memory: &CommandMemoryBudget,
    dialect: Option<Dialect>,
    frames: &FxHashSet<u64>,
) -> Result<FxHashMap<u64, String>> {
    let mut names = FileNames::new(FilehandleDisplay::default(), memory.names_bytes());
    let mut paths = FxHashMap::default();
    let mut visit = |transaction: &Transaction| {
        transaction.with_messages(|messages| names.infer(transaction, messages, &messages.summary()));
        let messages = [transaction.call.as_ref(), transaction.reply.as_ref()].into_iter().flatten();
        for frame in messages.filter_map(|message| message.frames.first()).filter(|frame| frames.contains(&frame.0)) {
            let path = names.paths().path.map(|path| String::from_utf8_lossy(path).into_owned());
            paths.extend(path.map(|path| (frame.0, path)));
        }
    };
    if is_trace(path) {
        let ComparisonTraceReader { mut steps, mut contents, mut builder, .. } = ComparisonTraceReader::open(path)?;
        while let Some(step) = steps.next_step()? {
            visit(&builder.transaction(&step, &mut contents)?.0);
        }
        return Ok(paths);
    }
    let mut source = CaptureFrameSource::open_within([path], memory.windows())?;
    let mut flow = Flow::new(FlowLimits { dialect, ..memory.limits() });
    loop {
        // Errors were reported when the file was read first.
        let frame = source.next();
        match &frame {
            Ok(Some(frame)) => _ = flow.process_frame(frame),
            Ok(None) => flow.finish(),
            Err(_) => continue,
        }
        let is_over = matches!(frame, Ok(None));
        while let Some(transaction) = flow.next_transaction() {
            visit(&transaction);
        }
        if is_over {
            return Ok(paths);
        }
    }
}

/// Returns the findings that a baseline records: errors and warnings.
fn compared_findings(
    transaction: &Transaction,
    findings: &[Finding],
    recorder: &mut ComparableTransactionRecorder,
) -> Vec<ComparableFinding> {
    let requester = match transaction.direction {
        CallDirection::Forward => EndpointRole::Client,
        CallDirection::Reverse => EndpointRole::Server,
    };
    let warnings = findings.iter().filter(|finding| finding.severity >= ReportedFindingSeverity::Warning);
    let mut compared: Vec<ComparableFinding> = warnings
        .map(|finding| ComparableFinding { rule: recorder.word(finding.rule.id), is_call: finding.side == requester })
        .collect();
    compared.sort_unstable_by(|a, b| a.rule.cmp(&b.rule));
    compared
}

fn capture(
    path: &Path,
    memory: &CommandMemoryBudget,
    dialect: Option<Dialect>,
    has_findings: bool,
) -> Result<ComparisonCaptureOrTraceReader, SourceError> {
    let limits = FlowLimits {
        record_transport_events: has_findings,
        keep_file_data: true,
        lingering_transactions: MAX_LINGERING_TRANSACTIONS,
        dialect,
        ..memory.limits()
    };
    Ok(ComparisonCaptureOrTraceReader::Capture(Box::new((
        CaptureFrameSource::open_within([path], memory.windows())?,
        Flow::new(limits),
    ))))
}

/// Shows the steps of a trace as Transactions.
pub(super) fn show_trace(
    path: &Path,
    settings: OutputSettings,
    filter: Option<Filter>,
    max_lines: u64,
) -> Result<ExitStatus> {
    let name = path.display();
    let ComparisonTraceReader { mut steps, mut contents, builder: mut retelling, total } =
        ComparisonTraceReader::open(path)?;
    let mut selection = filter.map(|filter| FilterRunner::new(filter, &settings.memory));
    let mut progress = ProgressLine::new();
    let mut output = ViewAndSummaryWriter::new(settings, BufWriter::with_capacity(64 << 10, progress.stdout()));
    let mut read = 0;
    while output.lines() < max_lines
        && let Some(step) = steps.next_step().map_err(|error| anyhow!("{name}: {error}"))?
    {
        let (transaction, _) =
            retelling.transaction(&step, &mut contents).map_err(|error| anyhow!("{name}: {error}"))?;
        let is_chosen = selection.as_mut().is_none_or(|selection| {
            transaction.with_messages(|messages| selection.transaction(None, &transaction, messages, None).is_some())
        });
        if is_chosen {
            output.trace_transaction(&transaction).map_err(write_error)?;
        }
        read += 1;
        if progress.is_due(false) {
            progress.draw(ReadProgress { read_bytes: read, total_bytes: Some(total) }, output.transactions());
        }
    }
    output.finish(&Flow::new(FlowLimits::default()), None, None).map_err(write_error)?;
    Ok(ExitStatus::Done)
}
