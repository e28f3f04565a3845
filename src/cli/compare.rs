//! `compare`: compares two captures or traces.

use std::cell::Cell;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};

use super::dialect::DialectArgs;
use super::memory::MemoryArgs;
use super::progress::ProgressLine;
use super::record_reader::ComparedRecordReader;
use super::style::{self, Color};
use super::{ExitStatus, report_error, write_error};
use crate::analysis::comparison::options::{ComparisonOptions, IgnoreKey};
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::tally::FirstDifferences;
use crate::analysis::comparison::{Comparison, ComparisonSide};
use crate::output::ReportFormat;
use crate::output::comparison::{ComparisonReportView, json_line};

/// Examples for the help.
const EXAMPLES: &str = "  nfsrdma-inspect compare before.pcap after.pcap       what an upgrade changed
  nfsrdma-inspect compare rdma.pcap tcp.pcap           operations, statuses and data; no chunks
  nfsrdma-inspect compare capture.pcap live.trace      a recording of replay run --record, beside what it replayed
  nfsrdma-inspect compare --ignore inline,order A B    without lengths and order
  nfsrdma-inspect compare --only data,status A B       nothing but file data and statuses
  nfsrdma-inspect compare --only READ,WRITE A B        nothing but these operations
  nfsrdma-inspect compare --ignore 'nfs.fattr4.*' A B  without attributes
  nfsrdma-inspect compare -T json A B | jq 'select(.kind == \"difference\")'
";

/// Default number of differences shown as text.
const DEFAULT_SHOWN_DIFFERENCES: usize = 20;

const KINDS_TITLE: &str = "Kinds of differences";

fn kinds() -> String {
    use crate::analysis::comparison::difference::DifferenceKind;
    DifferenceKind::ALL.iter().map(|kind| format!("  {:<13} {}\n", kind.word(), kind.meaning())).collect()
}

/// Compare two captures or traces, and show what differs
///
/// A and B are captures, or traces that replay compile or replay run --record wrote.
///
/// Transactions of both captures are put together, client by client, and everything in them is compared: operations,
/// statuses, names, offsets, counts, file data by its hash, chunks and inline lengths. Filehandles, stateids and the like
/// are other ones in each run; they must only stand for the same things. Times, counters and numbers that a server picks
/// may differ, and so may the order of operations that were in flight at the same time. docs/comparison.md says all of it.
///
/// Where one capture has RDMA and the other has not, chunks, inline lengths and NULL are not compared, and READ_PLUS
/// counts as READ.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{KINDS_TITLE}:\n{}\nExamples:\n{EXAMPLES}\nExit codes:\n  0  \
    no difference\n  1  they differ\n  2  usage, or input that could not be read\n", kinds()))]
pub(super) struct CompareArgs {
    /// Capture or trace: a recording, or how it was before
    #[arg(value_hint = ValueHint::FilePath)]
    a: PathBuf,

    /// Capture or trace: its replay, or how it is now
    #[arg(value_hint = ValueHint::FilePath)]
    b: PathBuf,

    /// Leave these differences out: kinds, fields or operations
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    ignore: Vec<IgnoreKey>,

    /// Show these differences alone: kinds, fields or operations
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<IgnoreKey>,

    /// Compare everything as it is: order, identities, times and counters too
    #[arg(long)]
    strict: bool,

    /// Show so many differences (default: 20, and with -T json all); all are counted
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<usize>,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: DialectArgs,

    /// Say nothing; the exit code tells
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Form of the output
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// Shows the differences of two captures.
pub(super) fn run(args: &CompareArgs) -> Result<ExitStatus> {
    if [&args.a, &args.b].iter().all(|file| file.as_os_str() == "-") {
        bail!("standard input is one capture, and cannot be both; name a file for A or for B");
    }
    let selection = ComparisonOptions {
        ignore: args.ignore.clone(),
        only: args.only.clone(),
        strict: args.strict,
        ..ComparisonOptions::default()
    };
    if let Some(contradiction) = selection.contradiction() {
        bail!("{contradiction}");
    }
    let memory = args.memory.plan([&args.a, &args.b], 2)?;
    let [a, b] =
        [&args.a, &args.b].map(|file| ComparedRecordReader::open(file, &memory, args.dialect.selected()));
    let mut readers = [a?, b?];
    let mut recorder = Recorder::default();
    let mut progress = ProgressLine::new();
    let is_json = args.format == ReportFormat::Json && !args.quiet;
    let mut first =
        FirstDifferences::new(if is_json { 0 } else { args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES) });
    let mut to = BufWriter::new(progress.stdout());
    let mut left = args.count.unwrap_or(usize::MAX);
    let mut comparison = Comparison::new(selection, usize::MAX, memory.view_bytes());
    // Differences are not reported if one file is no capture.
    let is_no_capture = Cell::new(false);
    let next = |side| {
        let [a, b] = &mut readers;
        let reader = if side == ComparisonSide::A { a } else { b };
        let record = reader.next(&mut recorder, &mut progress);
        is_no_capture.set(is_no_capture.get() || reader.is_no_capture());
        record
    };
    comparison
        .run(next, |difference| {
            first.push(&difference);
            if is_json && left > 0 && !is_no_capture.get() {
                left -= 1;
                json_line(&mut to, &difference, None)?;
            }
            Ok(())
        })
        .map_err(write_error)?;
    let [a, b] = &readers;
    for error in readers.iter().flat_map(|reader| &reader.errors) {
        report_error(error);
    }
    let is_unreadable = readers.iter().any(|reader| !reader.errors.is_empty());
    let holds_nothing = readers.iter().all(|reader| reader.trace.transactions == 0);
    if !is_no_capture.get() && !holds_nothing {
        let first = first.differences();
        let view = ComparisonReportView {
            a: &a.trace,
            b: &b.trace,
            comparison: &comparison,
            first,
            screen: style::screen(args.color),
        };
        let written = match args.format {
            _ if args.quiet => Ok(()),
            ReportFormat::Text => view.text(&mut to),
            ReportFormat::Json => view.json(&mut to),
        };
        written.map_err(write_error)?;
    }
    to.flush().map_err(write_error)?;
    Ok(match comparison.total() {
        _ if is_unreadable => ExitStatus::Failed,
        _ if holds_nothing => bail!(
            "{} and {}: no Transactions in either, so there is nothing to compare; do they hold NFS?",
            a.trace.name,
            b.trace.name
        ),
        0 => ExitStatus::Done,
        _ => ExitStatus::Differs,
    })
}
