//! `check`: compares captures with their baselines.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_rpc::url::ServerUrl;

use super::comparison_input::ComparisonInput;
use super::dialect::DialectArgs;
use super::memory::MemoryArgs;
use super::progress::ProgressLine;
use super::replay::check::{ReplayCheckOptions, check as replayed};
use super::replay::reports::ReportArgs;
use super::replay::server::parse_percent;
use super::replay::step_selection::StepSelectionArgs;
use super::style::{self, ColorChoice};
use super::{ExitStatus, outputs, report_error, write_error};
use crate::analysis::baseline::{self, Baseline, BaselineCheck, BaselineSettings};
use crate::analysis::comparison::difference::Difference;
use crate::analysis::comparison::recorder::ComparisonRecorder;
use crate::analysis::comparison::tally::DifferenceTally;
use crate::memory::MemoryBudget;
use crate::output::ReportFormat;
use crate::output::check_report::{
    BaselineDifferences, CaptureCheckResult, CheckOutcome, CheckReportView, CheckedCaptureSummary,
};
use crate::output::comparison::json_line;
use crate::output::junit;
use crate::output_file::InputFiles;

/// Default number of differences shown per capture.
const DEFAULT_SHOWN_DIFFERENCES: usize = 10;
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
/// With --bless, write a text baseline of each capture to FILE.baseline: operations with their statuses, names, offsets and
/// counts, chunks, findings of conformance rules, and hashes of file data. By default, compare each capture with its baseline. With --server, replay each
/// capture against a server, in a separate directory, and report replies that differ from the capture. See docs/ci.md.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  no differences\n  1  a \
    capture differs from its baseline, or a server from the capture\n  2  usage error, missing baseline or read \
    error\n  3  insufficient coverage: less than --min-coverage, final check failed, or interrupted\n  4  server \
    unreachable\n  6  protocol error by this program\n"))]
pub(super) struct CheckArgs {
    /// Capture files
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: DialectArgs,

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

    /// With --server, minimum percentage of steps replayed, not counting skipped ones [default: 90]
    #[arg(long, value_name = "PERCENT", requires = "server", value_parser = parse_percent)]
    min_coverage: Option<f64>,

    /// Write a JUnit XML report: one suite per capture, one case per operation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    #[command(flatten)]
    part: StepSelectionArgs,

    #[command(flatten)]
    reports: ReportArgs,

    /// Show at most COUNT differences per capture [default: 10, with -T json all]; all are counted
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<usize>,

    /// Print nothing for captures without differences
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Returns the path of the baseline of a capture.
fn baseline_path(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".baseline");
    name.into()
}

/// Checks captures, or writes their baselines.
pub(super) fn run(args: &CheckArgs) -> Result<ExitStatus> {
    if args.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("standard input has no baseline; name capture files");
    }
    if args.bless && args.junit.is_some() {
        bail!("--bless cannot be combined with --junit; omit one of them");
    }
    let memory = args.memory.plan(&args.files, 1)?;
    let baselines = args.files.iter().map(|file| baseline_path(file));
    let inputs = InputFiles::new(args.files.iter().cloned().chain(baselines).chain(args.rules.clone()));
    if let Some(server) = &args.server {
        let reported = ReplayCheckOptions {
            junit: args.junit.as_ref(),
            format: args.format,
            color: args.color,
            count: args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES),
            quiet: args.quiet,
            dialect: args.dialect.selected(),
            memory: &memory,
            part: &args.part,
            reports: &args.reports,
            rules: args.rules.as_deref(),
            no_final_check: args.no_final_check,
            remove: args.remove,
            strict: args.strict,
            allow_source_server: args.allow_source_server,
            min_coverage: args.min_coverage.unwrap_or(DEFAULT_MIN_COVERAGE),
        };
        return replayed(&args.files, &inputs, server, &reported);
    }
    if args.part.has_selection() || args.reports.has_reports() {
        bail!("--filter, --sec, --html and --record need --server");
    }
    let report = outputs::create_report("--junit", args.junit.as_ref(), &inputs)?;
    let captures = InputFiles::new(&args.files);
    let mut progress = ProgressLine::new();
    let started = SystemTime::now();
    let mut to = BufWriter::new(progress.stdout());
    let mut checks = Vec::new();
    let dialect = args.dialect.selected();
    for file in &args.files {
        let start = Instant::now();
        let name = file.to_string_lossy().into_owned();
        let outcome = if args.bless {
            bless_capture(file, &memory, dialect, &captures, &mut progress)
        } else {
            let mut shown = 0;
            let mut tell = |difference: &Difference| {
                if args.format != ReportFormat::Json || args.count.is_some_and(|count| shown >= count) {
                    return Ok(());
                }
                shown += 1;
                json_line(&mut to, difference, Some(&name))
            };
            check_capture(
                file,
                (&memory, dialect),
                args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES),
                &mut progress,
                &mut tell,
            )
        };
        // A write error ends the command; a read error is an outcome.
        let outcome = match outcome {
            Err(error) if error.is::<io::Error>() => return Err(error),
            Err(error) => CheckOutcome::Unreadable(error.to_string()),
            Ok(outcome) => outcome,
        };
        checks.push(CaptureCheckResult { file: name, outcome, time: start.elapsed() });
        if args.format == ReportFormat::Json {
            checks.last().map_or(Ok(()), |check| check.json(&mut to)).map_err(write_error)?;
        }
    }
    if args.format == ReportFormat::Text {
        CheckReportView { checks: &checks, screen: style::screen(args.color), quiet: args.quiet }
            .text(&mut to)
            .map_err(write_error)?;
    }
    to.flush().map_err(write_error)?;
    if let Some(to) = report {
        outputs::write_and_commit(to, |to| junit::write(to, &checks, started))?;
    }
    let mut exit = ExitStatus::Done;
    for check in &checks {
        match &check.outcome {
            CheckOutcome::Unreadable(what) => {
                report_error(what);
                exit = ExitStatus::Failed;
            }
            CheckOutcome::Different(_) if exit == ExitStatus::Done => exit = ExitStatus::Differs,
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

/// Maximum number of bytes of a baseline.
const MAX_BASELINE_BYTES: u64 = 1 << 30;

/// Returns the text of a baseline, or `None` if there is none.
fn read_baseline_text(path: &Path) -> Result<Option<String>> {
    let bytes = match File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(MAX_BASELINE_BYTES + 1).read_to_end(&mut bytes).map(|_| bytes)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    };
    let bytes = bytes.map_err(|error| anyhow!("{}: cannot read: {error}; check the path", path.display()))?;
    if bytes.len() as u64 > MAX_BASELINE_BYTES {
        bail!("{}: more than {MAX_BASELINE_BYTES} bytes; not a baseline", path.display());
    }
    // Bytes that are not UTF-8 occur in no baseline, and are refused with their line.
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| {
        String::from_utf8_lossy(error.as_bytes()).replace(char::REPLACEMENT_CHARACTER, "\u{0}")
    })))
}

fn read_baseline(capture: &Path) -> Result<Baseline> {
    let path = baseline_path(capture);
    let Some(text) = read_baseline_text(&path)? else {
        bail!("{}: no baseline; write it with: check --bless {}", path.display(), capture.display());
    };
    baseline::read(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn bless_capture(
    file: &Path,
    memory: &MemoryBudget,
    dialect: Option<Dialect>,
    captures: &InputFiles,
    progress: &mut ProgressLine,
) -> Result<CheckOutcome> {
    let path = baseline_path(file);
    // Settings in an existing baseline are kept, whatever the rest of it is.
    let old = read_baseline_text(&path)?;
    // A text is a baseline that somebody edited; a capture is not.
    if old.as_deref().is_some_and(|old| old.contains('\0')) {
        bail!("{}: not a baseline, and not replaced; move or remove it, and bless again", path.display());
    }
    let settings = match old.as_deref().map(BaselineSettings::from_text) {
        Some(settings) => settings.map_err(|error| {
            anyhow!("{}: {error}; fix or remove the line, and bless again", path.display())
        })?,
        None => BaselineSettings::default(),
    };
    let mut reader = ComparisonInput::open_with_findings(file, memory, dialect)?;
    let mut recorder = ComparisonRecorder::default();
    let Ok(mut baseline) = Baseline::from_records(settings, || reader.next(&mut recorder, progress)) else {
        bail!("{}: more than {} transactions; split the capture", file.display(), baseline::MAX_TRANSACTIONS);
    };
    check_read_errors(&reader)?;
    if baseline.records.is_empty() {
        bail!("{}: no NFS transactions, so its baseline would be empty", file.display());
    }
    baseline.counts.add_capture_totals(&reader.trace);
    let mut bytes = Vec::new();
    baseline::write(&mut bytes, &baseline)?;
    if old.is_some_and(|old| old.as_bytes() == bytes) {
        return Ok(CheckOutcome::Same(CheckedCaptureSummary::from_counts(&baseline.counts)));
    }
    outputs::write_and_commit(outputs::create(&path, captures)?, |to| to.write_all(&bytes))?;
    Ok(CheckOutcome::Blessed(CheckedCaptureSummary::from_counts(&baseline.counts)))
}

/// Compares a capture with its baseline, and keeps the first `count` differences.
fn check_capture(
    file: &Path,
    (memory, dialect): (&MemoryBudget, Option<Dialect>),
    count: usize,
    progress: &mut ProgressLine,
    tell: &mut dyn FnMut(&Difference) -> io::Result<()>,
) -> Result<CheckOutcome> {
    let mut reader = ComparisonInput::open_with_findings(file, memory, dialect)?;
    let mut checking = BaselineCheck::new(read_baseline(file)?, memory.view_bytes());
    let mut recorder = ComparisonRecorder::default();
    let mut tally = DifferenceTally::new(count, junit::MAX_SHOWN_DIFFERENCES);
    let mut hear = |difference: Difference| {
        tally.push(&difference);
        tell(&difference)
    };
    checking.run(|| reader.next(&mut recorder, progress), &mut hear)?;
    check_read_errors(&reader)?;
    checking.finish(&reader.trace, hear)?;
    let [then, now] = checking.counts();
    let mut summary = CheckedCaptureSummary::from_counts(now);
    // Includes operations of the baseline alone.
    summary.operations.extend(then.operations.keys().cloned());
    let comparison = checking.comparison();
    summary.filtered = comparison.filtered();
    Ok(if comparison.total() == 0 {
        CheckOutcome::Same(summary)
    } else {
        CheckOutcome::Different(Box::new(BaselineDifferences {
            summary,
            counts: comparison.counts().clone(),
            tally,
        }))
    })
}
