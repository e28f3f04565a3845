//! `check`: recorded captures held to their baselines.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueHint};

use super::progress::Progress;
use super::style::{self, Color};
use super::traces::Reader;
use super::{Exit, complain, unwritten};
use crate::analysis::baseline::{self, Baseline, Canon, Counts, text};
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::selection::Selection;
use crate::analysis::comparison::{Comparison, Side};
use crate::output::ReportFormat;
use crate::output::checks::{Check, Outcome, View};
use crate::output::junit;

/// Differences of one capture that are kept; all are counted.
const DIFFERENCES: usize = 1_000;

const EXAMPLES: &str = "  nfsrdma-inspect check --bless trace.pcap              write trace.pcap.baseline
  nfsrdma-inspect check captures/*.pcap                 compare each with its baseline
  nfsrdma-inspect check --junit report.xml *.pcap       the same, with a report for CI
  nfsrdma-inspect check -T json *.pcap | jq 'select(.kind == \"difference\")'
";

/// Check captures against their baselines, for CI
///
/// With --bless it writes what a capture is into a baseline beside it, FILE.baseline: a text with its operations, their
/// statuses, names, offsets and counts, chunks, and hashes of file data. Without, it reads captures again and says what
/// is not as the baseline has it. docs/ci.md shows how to use it in CI.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  everything is as it was\n  1  a \
    capture differs from its baseline\n  2  usage, no baseline, or input that could not be read\n"))]
pub(super) struct CheckArgs {
    /// Capture files, each with its baseline beside it
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Write the baselines instead; the settings that stand in one stay
    #[arg(long)]
    bless: bool,

    /// Write a report as JUnit XML: a suite a capture, a case an operation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    /// Show so many differences of each capture; all are counted
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = 10)]
    count: usize,

    /// Say nothing of captures that are as they were
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Form of the output
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// The baseline of a capture stands beside it.
fn beside(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".baseline");
    name.into()
}

/// Checks captures, or blesses them.
pub(super) fn run(args: &CheckArgs) -> Result<Exit> {
    if args.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("standard input has no baseline beside it; name capture files");
    }
    if args.bless && args.junit.is_some() {
        bail!("--bless writes baselines, and --junit reports on them; leave out one of them");
    }
    let mut progress = Progress::new();
    let started = SystemTime::now();
    let mut checks = Vec::new();
    for file in &args.files {
        let start = Instant::now();
        let (outcome, counts) = if args.bless {
            (blessed(file, &mut progress), Counts::default())
        } else {
            checked(file, &mut progress)
        };
        let outcome = outcome.unwrap_or_else(|error| Outcome::Unreadable(format!("{error:#}")));
        checks.push(Check {
            file: file.to_string_lossy().into_owned(),
            outcome,
            counts,
            time: start.elapsed(),
        });
    }
    let view =
        View { checks: &checks, screen: style::screen(args.color), count: args.count, quiet: args.quiet };
    let mut to = BufWriter::new(progress.page());
    let written = match args.format {
        ReportFormat::Text => view.text(&mut to),
        ReportFormat::Json => view.json(&mut to),
    };
    written.and_then(|()| to.flush()).map_err(unwritten)?;
    if let Some(path) = &args.junit {
        let write = || {
            let mut to = BufWriter::new(File::create(path)?);
            junit::write(&mut to, &checks, started)?;
            to.flush()
        };
        write().with_context(|| format!("{}: cannot write the report; check the path", path.display()))?;
    }
    let mut exit = Exit::Done;
    for check in &checks {
        match &check.outcome {
            Outcome::Unreadable(what) => {
                complain(what);
                exit = Exit::Failed;
            }
            Outcome::Different(_) if exit == Exit::Done => exit = Exit::Differs,
            _ => {}
        }
    }
    Ok(exit)
}

/// Reads all of a capture; a file that is not whole is an error.
fn whole(reader: &Reader) -> Result<()> {
    match reader.errors.first() {
        Some(error) => bail!("{error}"),
        None => Ok(()),
    }
}

fn read_baseline(capture: &Path) -> Result<Baseline> {
    let path = beside(capture);
    let file = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow::anyhow!(
                "{}: there is no baseline; write it with: check --bless {}",
                path.display(),
                capture.display()
            )
        }
        _ => anyhow::anyhow!("{}: cannot open: {error}; check the path", path.display()),
    })?;
    text::read(&mut BufReader::new(file)).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

fn blessed(file: &Path, progress: &mut Progress) -> Result<Outcome> {
    let path = beside(file);
    // What a person wrote into the baseline outlives it.
    let selection = if path.exists() { read_baseline(file)?.selection } else { Selection::default() };
    let mut reader = Reader::open(file)?;
    let mut recorder = Recorder::default();
    let mut baseline = Baseline { selection, ..Baseline::default() };
    while let Some((client, record)) = reader.next(&mut recorder, progress) {
        if baseline.records.len() >= baseline::TRANSACTIONS {
            bail!(
                "{}: more than {} Transactions; cut the capture: a baseline is for people to read",
                file.display(),
                baseline::TRANSACTIONS
            );
        }
        baseline.counts.record(&record);
        baseline.records.push((client, record));
    }
    whole(&reader)?;
    baseline.counts.end(&reader.trace);
    baseline.in_order();
    let mut bytes = Vec::new();
    text::write(&mut bytes, &baseline)?;
    if fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(Outcome::Same(reader.trace));
    }
    fs::write(&path, bytes).with_context(|| format!("{}: cannot write; check the path", path.display()))?;
    Ok(Outcome::Blessed(reader.trace))
}

fn checked(file: &Path, progress: &mut Progress) -> (Result<Outcome>, Counts) {
    let mut counts = Counts::default();
    let outcome = compared(file, progress, &mut counts);
    (outcome, counts)
}

fn compared(file: &Path, progress: &mut Progress, counts: &mut Counts) -> Result<Outcome> {
    let mut reader = Reader::open(file)?;
    let baseline = read_baseline(file)?;
    let selection = Selection { exact: true, ..baseline.selection.clone() };
    let mut comparison = Comparison::new(selection, DIFFERENCES);
    let (mut recorder, mut canon) = (Recorder::default(), Canon::default());
    let mut written = baseline.records.into_iter();
    let mut are_over = [false; 2];
    while are_over != [true; 2] {
        while !are_over[0] && !comparison.has_enough(Side::A) {
            match written.next() {
                Some((client, record)) => comparison.push(Side::A, client, record),
                None => are_over[0] = true,
            }
        }
        while !are_over[1] && !comparison.has_enough(Side::B) {
            match reader.next(&mut recorder, progress) {
                Some((client, mut record)) => {
                    counts.record(&record);
                    canon.record(&mut record);
                    comparison.push(Side::B, client, record);
                }
                None => are_over[1] = true,
            }
        }
        comparison.advance(are_over);
    }
    whole(&reader)?;
    counts.end(&reader.trace);
    comparison.finish();
    baseline::compare_counts(&mut comparison, &baseline.counts, counts);
    // The operations of both, so that a report has those too that are gone.
    for title in baseline.counts.operations.keys() {
        counts.operations.entry(title.clone()).or_default();
    }
    Ok(if comparison.total() == 0 {
        Outcome::Same(reader.trace)
    } else {
        Outcome::Different(Box::new(comparison))
    })
}
