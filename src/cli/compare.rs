//! `compare`: compares two captures or traces.

use std::cell::Cell;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use nfsrdma_analysis::comparison::comparable_transaction_recorder::ComparableTransactionRecorder;
use nfsrdma_analysis::comparison::difference_tally::FirstDifferences;
use nfsrdma_analysis::comparison::options::{ComparisonOptions, IgnoreKey};
use nfsrdma_analysis::comparison::{CaptureComparator, ComparisonSide};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;

use super::bytes::BytesArg;
use super::comparison_input::ComparisonInput;
use super::exit_status::ExitStatus;
use super::memory_limit::MemoryArgs;
use super::progress::ProgressLine;
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::standard_streams::{report_error, write_error};
use super::terminal_capabilities::{self, ColorChoice};
use crate::output::comparison::json_line;
use crate::output::comparison::unformatted_comparison_report::ComparisonReportWriter;
use crate::output::report::Report;
use crate::output::settings::ReportFormat;

const EXAMPLES: &str = "  nfsrdma-inspect compare before.pcap after.pcap       effects of an upgrade
  nfsrdma-inspect compare rdma.pcap tcp.pcap           operations, statuses and data, without chunks
  nfsrdma-inspect compare capture.pcap live.trace      a capture and its recorded replay
  nfsrdma-inspect compare --ignore inline,order A B    ignore inline lengths and order
  nfsrdma-inspect compare --only data,status A B       only file data and statuses
  nfsrdma-inspect compare --only READ,WRITE A B        only these operations
  nfsrdma-inspect compare --ignore 'nfs.fattr4.*' A B  ignore attributes
  nfsrdma-inspect compare -T json A B | jq 'select(.kind == \"difference\")'
";

const DEFAULT_SHOWN_DIFFERENCES: usize = 20;

const KINDS_TITLE: &str = "Difference kinds";

fn kinds() -> String {
    use nfsrdma_analysis::comparison::difference::DifferenceKind;
    DifferenceKind::ALL.iter().map(|kind| format!("  {:<13} {}\n", kind.word(), kind.meaning())).collect()
}

/// Compare two captures or traces
///
/// A and B are captures, or traces written by 'replay compile' or 'replay run --record'.
///
/// The transactions of each client are aligned, then compared in full: operations, statuses, names, offsets, counts,
/// hashes of file data, chunks and inline lengths. Filehandles, stateids and other identifiers may differ, but must map
/// one to one. Times, counters, server-assigned numbers and the order of concurrent operations may differ.
/// docs/comparison.md has the complete rules.
///
/// If only one capture uses RDMA, chunks, inline lengths and NULL are not compared, and READ_PLUS counts as READ.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{KINDS_TITLE}:\n{}\nExamples:\n{EXAMPLES}\nExit codes:\n  0  \
    no differences\n  1  differences found\n  2  usage error or read error\n", kinds()))]
pub(super) struct CompareArgs {
    /// First capture or trace: the original
    #[arg(value_hint = ValueHint::FilePath)]
    a: PathBuf,

    /// Second capture or trace: the replay or the new version
    #[arg(value_hint = ValueHint::FilePath)]
    b: PathBuf,

    /// Ignore these differences: kinds, fields or operations
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    ignore: Vec<IgnoreKey>,

    /// Report only these differences: kinds, fields or operations
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    only: Vec<IgnoreKey>,

    /// Compare everything, including order, identifiers, times and counters
    #[arg(long)]
    strict: bool,

    /// Show at most COUNT differences [default: 20, with -T json all]; all are counted
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<usize>,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: CaptureDialectArgs,

    /// Print nothing; only set the exit code
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Returns the value of `--max-memory` with which no identities are forgotten, if some were.
fn needed_memory(comparison: &CaptureComparator, memory: &CommandMemoryBudget) -> Option<String> {
    let needed_bytes = memory.budget_for_view(comparison.memory_for_identities());
    (comparison.forgotten_identities() > 0).then(|| BytesArg(needed_bytes).to_string())
}

pub(super) fn run(args: &CompareArgs) -> Result<ExitStatus> {
    if [&args.a, &args.b].iter().all(|file| file.as_os_str() == "-") {
        bail!("standard input cannot be both A and B; name a file for one of them");
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
    let memory = CommandMemoryBudget::for_comparison(args.memory.limit_bytes()?, [&args.a, &args.b], 2);
    let [a, b] = [&args.a, &args.b].map(|file| ComparisonInput::open(file, &memory, args.dialect.selected()));
    let mut readers = [a?, b?];
    let mut recorder = ComparableTransactionRecorder::default();
    let mut progress = ProgressLine::new();
    let is_json = args.format == ReportFormat::Json && !args.quiet;
    let mut first = FirstDifferences::new(if is_json { 0 } else { args.count.unwrap_or(DEFAULT_SHOWN_DIFFERENCES) });
    let mut to = BufWriter::new(progress.stdout());
    let mut remaining = args.count.unwrap_or(usize::MAX);
    let mut comparison = CaptureComparator::new(selection, usize::MAX, memory.view_bytes());
    // Differences are not reported if one file is not a capture.
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
            if is_json && remaining > 0 && !is_no_capture.get() {
                remaining -= 1;
                json_line(&mut to, &difference, None, None)?;
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
        let view = ComparisonReportWriter {
            a: &a.trace,
            b: &b.trace,
            comparison: &comparison,
            first,
            needed_memory: needed_memory(&comparison, &memory),
            screen: terminal_capabilities::screen(args.color),
        };
        let result = match args.format {
            _ if args.quiet => Ok(()),
            ReportFormat::Text => view.text(&mut to),
            ReportFormat::Json => view.json(&mut to),
        };
        result.map_err(write_error)?;
    }
    to.flush().map_err(write_error)?;
    Ok(match comparison.total() {
        _ if is_unreadable => ExitStatus::Failed,
        _ if holds_nothing => {
            bail!("{} and {}: no NFS transactions in either, nothing to compare", a.trace.name, b.trace.name)
        }
        0 => ExitStatus::Done,
        _ => ExitStatus::Differs,
    })
}
