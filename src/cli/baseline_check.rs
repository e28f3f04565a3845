//! `check`: compares captures with their baselines.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_analysis::baseline::{
    BaselineComparator, BaselineReadError, BaselineRecorder, BaselineRecordingError, BaselineSettings,
    CurrentCaptureBaseline, OpenBaselineFile,
};
use nfsrdma_analysis::comparison::comparable_transaction_recorder::ComparableTransactionRecorder;
use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::difference_tally::DifferenceTally;
use nfsrdma_analysis::memory_budget_shares::{BaselineCheckMemoryShares, CommandMemoryBudget};
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_output_file::{ProtectedInputFiles, check_standard_output};
use nfsrdma_rpc::url::ServerUrl;
use nfsrdma_text::os_error_text;
use rustc_hash::FxHashSet;

use super::bytes::BytesArg;
use super::comparison_input::{ComparisonInput, paths_of_frames};
use super::exit_status::ExitStatus;
use super::memory_limit::MemoryArgs;
use super::output_file_creation;
use super::progress::ProgressLine;
use super::replay::report_files::ReplayOutputArgs;
use super::replay::run::ReplayRunOptionArgs;
use super::replay::server_regression_check::check_against_server;
use super::replay::step_selection::StepSelectionArgs;
use super::replay::target_server_options::{DEFAULT_TIMEOUT_SECONDS, ReplayServerArgs, parse_percent, parse_seconds};
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::standard_streams::{report_error, with_capture, write_error};
use super::terminal_capabilities::{self, ColorChoice};
use crate::output::baseline_report::{
    BaselineCheckOutcome, BaselineCheckSummary, BaselineDifferences, BaselineReportWriter, CaptureBaselineCheckResult,
    DifferencePaths,
};
use crate::output::comparison::json_line;
use crate::output::junit;
use crate::output::settings::ReportFormat;

const DEFAULT_SHOWN_DIFFERENCES: usize = 10;
/// Maximum number of frames of differences whose files and directories are named.
const MAX_PATHS: usize = 1 << 16;
/// Default minimum percentage of steps replayed with `--server`.
const DEFAULT_MIN_COVERAGE: f64 = 90.0;

const EXAMPLES: &str = "  nfsrdma-inspect check --bless trace.pcap              write trace.pcap.baseline
  nfsrdma-inspect check captures/*.pcap                 compare captures with their baselines
  nfsrdma-inspect check --junit report.xml *.pcap       with a JUnit report for CI
  nfsrdma-inspect check --server tcp://nas/scratch *.pcap
                                                        replay captures and compare the replies
  nfsrdma-inspect check -T json *.pcap | jq 'select(.kind == \"difference\")'
";

/// Check captures against baselines, or servers against captures, for CI
///
/// With --bless, write a text baseline of each capture to FILE.baseline: operations with their statuses, names, offsets
/// and counts, chunks, findings of conformance rules, and hashes of file data. By default, compare each capture with
/// its baseline. With --server, replay each capture against a server, in a separate directory, and report replies that
/// differ from the capture. See docs/ci.md.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  no differences\n  1  a \
    capture differs from its baseline, or a server from the capture; or the server broke the protocol\n  2  usage \
    error, missing baseline, read error, or the server refused to prepare a directory\n  3  insufficient coverage: \
    less than --min-coverage, final check failed, or interrupted; or --remove was refused\n  4  server unreachable or \
    busy\n  6  protocol error by this program\n"))]
pub(super) struct BaselineCheckArgs {
    /// Capture files
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: CaptureDialectArgs,

    /// Write the baselines; settings in existing ones are kept
    #[arg(long)]
    bless: bool,

    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "bless",
        help = "Replay the captures against this server and compare the replies: rdma://HOST/EXPORT or tcp://HOST/EXPORT"
    )]
    server: Option<ServerUrl>,

    /// With --server, file of additional tolerance rules (docs/replay.md)
    #[arg(long, value_name = "FILE", requires = "server", value_hint = ValueHint::FilePath)]
    rules: Option<PathBuf>,

    /// With --server, skip the final check of files and directories
    #[arg(long, requires = "server")]
    no_final_check: bool,

    /// With --server, remove the replay directories afterwards
    #[arg(long, requires = "server")]
    remove: bool,

    /// With --server, disable all tolerance rules
    #[arg(long, requires = "server")]
    strict: bool,

    /// With --server, allow the server that the captures were taken from
    #[arg(long, requires = "server")]
    allow_source_server: bool,

    /// With --server, time limit for connecting and for each reply, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", requires = "server", value_parser = parse_seconds)]
    timeout: Option<f64>,

    /// With --server, stop each replay after SECONDS with exit code 3 [default: an hour, or ten times the captured
    /// time]
    #[arg(long, value_name = "SECONDS", requires = "server", value_parser = parse_seconds)]
    max_time: Option<f64>,

    /// With --server, minimum percentage of steps replayed, and of objects covered by the final check. Skipped steps do
    /// not count, except those that --sec skip leaves out [default: 90]
    #[arg(long, value_name = "PERCENT", requires = "server", value_parser = parse_percent)]
    min_coverage: Option<f64>,

    /// Write a JUnit XML report: one suite per capture, one case per operation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    #[command(flatten)]
    part: StepSelectionArgs,

    #[command(flatten)]
    reports: ReplayOutputArgs,

    /// Show at most COUNT differences per capture [default: 10, with -T json all]; all are counted
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<usize>,

    /// Print nothing for captures without differences; with --server, one line per capture
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

fn baseline_path(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".baseline");
    name.into()
}

/// Checks captures, or writes their baselines.
pub(super) fn run(args: &BaselineCheckArgs) -> Result<ExitStatus> {
    if args.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("standard input has no baseline; name capture files");
    }
    if args.bless && args.junit.is_some() {
        bail!("--bless cannot be combined with --junit; omit one of them");
    }
    let baselines = args.files.iter().map(|file| baseline_path(file));
    check_standard_output(baselines.clone())?;
    let inputs = ProtectedInputFiles::new(args.files.iter().cloned().chain(baselines).chain(args.rules.clone()));
    if let Some(server) = &args.server {
        let memory = CommandMemoryBudget::for_compilation(args.memory.limit_bytes()?, &args.files);
        let server = ReplayServerArgs {
            allow_source_server: args.allow_source_server,
            timeout: args.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            max_time: args.max_time,
            ..ReplayServerArgs::with_defaults(server.clone())
        };
        let run_args = ReplayRunOptionArgs {
            part: args.part.clone(),
            reports: args.reports.clone(),
            strict: args.strict,
            rules: args.rules.clone(),
            no_final_check: args.no_final_check,
            remove: args.remove,
            min_coverage: args.min_coverage.unwrap_or(DEFAULT_MIN_COVERAGE),
            count: args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES),
            junit: args.junit.clone(),
            quiet: args.quiet,
            format: args.format,
            color: args.color,
            ..ReplayRunOptionArgs::serial()
        };
        return check_against_server(&args.files, &inputs, &server, &run_args, (&memory, args.dialect.selected()));
    }
    if args.part.has_selection() || args.reports.has_reports() {
        bail!("--filter, --sec, --html and --record need --server");
    }
    let memory = CommandMemoryBudget::for_comparison(args.memory.limit_bytes()?, &args.files, 1);
    let command =
        BaselineCommandContext { memory: &memory, shares: memory.check_memory(), dialect: args.dialect.selected() };
    let report = output_file_creation::create_report("--junit", args.junit.as_ref(), &inputs)?;
    let captures = ProtectedInputFiles::new(&args.files);
    let mut progress = ProgressLine::new();
    let started = SystemTime::now();
    let mut to = BufWriter::new(progress.stdout());
    let mut checks = Vec::new();
    for file in &args.files {
        let start = Instant::now();
        let name = file.to_string_lossy().into_owned();
        let outcome = if args.bless {
            command.bless(file, &captures, &mut progress)
        } else {
            let mut shown_count = 0;
            let mut write_difference = |difference: &Difference, object: Option<&str>| {
                if args.format != ReportFormat::Json || args.count.is_some_and(|count| shown_count >= count) {
                    return Ok(());
                }
                shown_count += 1;
                json_line(&mut to, difference, Some(&name), object)
            };
            let count = args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES);
            command.check(file, count, &mut progress, &mut write_difference)
        };
        // A write error ends the command; a read error is an outcome.
        let outcome = match outcome {
            Err(error) if error.is::<io::Error>() => return Err(error),
            Err(error) => BaselineCheckOutcome::Unreadable(with_capture(&name, &error.to_string())),
            Ok(outcome) => outcome,
        };
        checks.push(CaptureBaselineCheckResult { file: name, outcome, time: start.elapsed() });
        if args.format == ReportFormat::Json {
            checks.last().map_or(Ok(()), |check| check.json(&mut to)).map_err(write_error)?;
        }
    }
    if args.format == ReportFormat::Text {
        BaselineReportWriter { checks: &checks, screen: terminal_capabilities::screen(args.color), quiet: args.quiet }
            .text(&mut to)
            .map_err(write_error)?;
    }
    to.flush().map_err(write_error)?;
    if let Some(to) = report {
        output_file_creation::write_and_commit(to, |to| junit::write(to, &checks, started))?;
    }
    let mut exit = ExitStatus::Done;
    for check in &checks {
        match &check.outcome {
            BaselineCheckOutcome::NoBaseline(what) | BaselineCheckOutcome::Unreadable(what) => {
                report_error(what);
                exit = ExitStatus::Failed;
            }
            BaselineCheckOutcome::Different(_) if exit == ExitStatus::Done => exit = ExitStatus::Differs,
            _ => {}
        }
    }
    Ok(exit)
}

/// Returns an error if the capture could not be read completely.
fn check_read_errors(reader: &ComparisonInput) -> Result<()> {
    match reader.errors.first() {
        Some(error) => bail!("{error}"),
        None => Ok(()),
    }
}

/// Opens a baseline; returns `None` if there is none.
fn open_baseline(path: &Path) -> Result<Option<OpenBaselineFile>> {
    let path_error = |reason: &str| anyhow!("{}: cannot read: {reason}; check the path", path.display());
    // Another kind of file cannot be read twice, and a FIFO waits for a writer when it is opened.
    let opened = fs::metadata(path).and_then(|metadata| metadata.is_file().then(|| File::open(path)).transpose());
    match opened {
        Ok(Some(file)) => Ok(Some(OpenBaselineFile::new(file))),
        Ok(None) => Err(path_error("not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(path_error(&os_error_text(&error))),
    }
}

/// A command that needs memory for baselines.
struct BaselineCommandContext<'m> {
    memory: &'m CommandMemoryBudget,
    shares: BaselineCheckMemoryShares,
    dialect: Option<Dialect>,
}

impl BaselineCommandContext<'_> {
    /// Returns the message for an error of a baseline.
    fn read_error(&self, path: &Path, error: &BaselineReadError) -> anyhow::Error {
        match error.needed_bytes {
            Some(needed_bytes) => self.memory_error(path, needed_bytes),
            None => anyhow!("{}: {error}", path.display()),
        }
    }

    /// Returns the message for a baseline that does not fit into the memory.
    fn memory_error(&self, path: &Path, needed_bytes: u64) -> anyhow::Error {
        let needed = BytesArg(self.memory.budget_for_baseline(needed_bytes));
        anyhow!("{}: the baseline does not fit into the memory; use --max-memory {needed}", path.display())
    }

    fn open_capture(&self, file: &Path) -> Result<ComparisonInput> {
        ComparisonInput::open_with_findings(file, self.memory, self.dialect)
    }

    fn record(
        &self,
        file: &Path,
        mut reader: ComparisonInput,
        settings: BaselineSettings,
        progress: &mut ProgressLine,
    ) -> Result<CurrentCaptureBaseline> {
        let mut recorder = ComparableTransactionRecorder::default();
        let mut recording = BaselineRecorder::new(settings, &self.shares);
        while let Some((client, record)) = reader.next(&mut recorder, progress) {
            recording.add(&client, record)?;
        }
        check_read_errors(&reader)?;
        recording.finish(&reader.trace).map_err(|error| match error {
            BaselineRecordingError::TooLarge { needed_bytes } => self.memory_error(file, needed_bytes),
            BaselineRecordingError::Scratch(error) => error.into(),
        })
    }

    fn bless(
        &self,
        file: &Path,
        captures: &ProtectedInputFiles,
        progress: &mut ProgressLine,
    ) -> Result<BaselineCheckOutcome> {
        let path = baseline_path(file);
        // Settings in an existing baseline are kept, whatever the rest of it is.
        let existing = open_baseline(&path)?;
        let is_baseline = existing.as_ref().map_or(Ok(true), OpenBaselineFile::is_baseline);
        if !is_baseline.map_err(|error| self.read_error(&path, &error))? {
            bail!("{}: not a baseline, and not replaced; move or remove it, and bless again", path.display());
        }
        let settings = match &existing {
            Some(existing) => {
                existing.kept_settings(self.shares.baseline_bytes).map_err(|error| match error.needed_bytes {
                    Some(_) => self.read_error(&path, &error),
                    None => {
                        anyhow!("{}: {error}; fix or remove the line, and bless again", path.display())
                    }
                })?
            }
            None => BaselineSettings::default(),
        };
        let baseline = self.record(file, self.open_capture(file)?, settings, progress)?;
        if baseline.transactions() == 0 {
            bail!("{}: no NFS transactions, so its baseline would be empty", file.display());
        }
        let summary = BaselineCheckSummary::from_counts(baseline.counts());
        if let Some(existing) = existing
            && has_text(&existing, &baseline)?
        {
            return Ok(BaselineCheckOutcome::Same(summary));
        }
        output_file_creation::write_and_commit(output_file_creation::create(&path, captures)?, |to| {
            baseline.write(to)
        })?;
        Ok(BaselineCheckOutcome::Blessed(summary))
    }

    /// Returns the paths of files in the transactions with these frames, for display: none if a capture cannot be read
    /// twice, such as a FIFO.
    fn paths(&self, file: &Path, frames: &FxHashSet<u64>) -> DifferencePaths {
        let is_readable = || fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
        if frames.is_empty() || !is_readable() {
            return DifferencePaths::default();
        }
        DifferencePaths(paths_of_frames(file, self.memory, self.dialect, frames).unwrap_or_default())
    }

    /// Compares a capture with its baseline, and keeps the first `count` differences.
    fn check(
        &self,
        file: &Path,
        count: usize,
        progress: &mut ProgressLine,
        write_difference: &mut dyn FnMut(&Difference, Option<&str>) -> io::Result<()>,
    ) -> Result<BaselineCheckOutcome> {
        let reader = self.open_capture(file)?;
        let path = baseline_path(file);
        let Some(baseline_file) = open_baseline(&path)? else {
            return Ok(BaselineCheckOutcome::NoBaseline(format!(
                "{}: no baseline; write it with: check --bless {}",
                path.display(),
                file.display()
            )));
        };
        let max_bytes = self.shares.baseline_bytes;
        let settings = baseline_file.settings(max_bytes).map_err(|error| self.read_error(&path, &error))?;
        let recorded = self.record(file, reader, settings, progress)?;
        let mut summary = BaselineCheckSummary::from_counts(recorded.counts());
        // What this program would write needs no check.
        if has_text(&baseline_file, &recorded)? {
            return Ok(BaselineCheckOutcome::Same(summary));
        }
        let baseline = baseline_file.read(max_bytes).map_err(|error| self.read_error(&path, &error))?;
        // The differences have the frames whose paths are needed.
        let mut frames = FxHashSet::default();
        let mut comparator = BaselineComparator::new(&baseline, &recorded, self.shares.comparison_bytes);
        comparator.run(|difference| {
            if frames.len() < MAX_PATHS {
                frames.extend(DifferencePaths::frames(&difference));
            }
            anyhow::Ok(())
        })?;
        let paths = self.paths(file, &frames);
        let mut tally = DifferenceTally::new(count, junit::MAX_SHOWN_DIFFERENCES);
        if comparator.comparison().total() > 0 {
            comparator = BaselineComparator::new(&baseline, &recorded, self.shares.comparison_bytes);
            comparator.run(|difference| {
                tally.push(&difference);
                write_difference(&difference, paths.path(&difference)).map_err(anyhow::Error::from)
            })?;
        }
        // Includes operations of the baseline alone.
        summary.operations.extend(baseline.counts().operations.keys().cloned());
        let comparison = comparator.comparison();
        summary.filtered = comparison.filtered();
        Ok(if comparison.total() == 0 {
            BaselineCheckOutcome::Same(summary)
        } else {
            BaselineCheckOutcome::Different(Box::new(BaselineDifferences {
                summary,
                counts: comparison.counts().clone(),
                tally,
                paths,
            }))
        })
    }
}

/// Returns `true` if a file has the text of a baseline.
fn has_text(file: &OpenBaselineFile, baseline: &CurrentCaptureBaseline) -> Result<bool> {
    file.has_text(baseline)
        .map_err(|error| anyhow!("cannot read the temporary file: {error}; check {}", std::env::temp_dir().display()))
}
