//! `compare`: two captures side by side.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};

use super::progress::Progress;
use super::style::{self, Color};
use super::traces::Reader;
use super::{Exit, complain, unwritten};
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::selection::{Selection, Word};
use crate::analysis::comparison::{Comparison, Side};
use crate::output::ReportFormat;
use crate::output::comparison::View;

/// What people may want to do, for the help.
const EXAMPLES: &str = "  nfsrdma-inspect compare before.pcap after.pcap       what an upgrade changed
  nfsrdma-inspect compare rdma.pcap tcp.pcap           operations, statuses and data; no chunks
  nfsrdma-inspect compare --ignore inline,order A B    without lengths and order
  nfsrdma-inspect compare --only data,status A B       nothing but file data and statuses
  nfsrdma-inspect compare --only READ,WRITE A B        nothing but these operations
  nfsrdma-inspect compare --ignore 'nfs.fattr4.*' A B  without attributes
  nfsrdma-inspect compare -T json A B | jq 'select(.kind == \"difference\")'
";

const KINDS_TITLE: &str = "Kinds of differences";

fn kinds() -> String {
    use crate::analysis::comparison::difference::Kind;
    Kind::ALL.iter().map(|kind| format!("  {:<13} {}\n", kind.word(), kind.meaning())).collect()
}

/// Compare two captures, and show what differs
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
    /// Capture file: a recording, or how it was before
    #[arg(value_hint = ValueHint::FilePath)]
    a: PathBuf,

    /// Capture file: its replay, or how it is now
    #[arg(value_hint = ValueHint::FilePath)]
    b: PathBuf,

    /// Leave these differences out: kinds, fields or operations
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    ignore: Vec<Word>,

    /// Show these differences alone: kinds, fields or operations
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<Word>,

    /// Compare everything as it is: order, identities, times and counters too
    #[arg(long)]
    strict: bool,

    /// Show so many differences; all are counted
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = 20)]
    count: usize,

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

/// Shows how two captures differ.
pub(super) fn run(args: &CompareArgs) -> Result<Exit> {
    let mut readers = [Reader::open(&args.a)?, Reader::open(&args.b)?];
    let mut recorder = Recorder::default();
    let mut progress = Progress::new();
    let selection = Selection {
        ignore: args.ignore.clone(),
        only: args.only.clone(),
        strict: args.strict,
        ..Selection::default()
    };
    let mut comparison = Comparison::new(selection, args.count);
    let mut are_over = [false; 2];
    while are_over != [true; 2] {
        for (side, (reader, is_over)) in
            [Side::A, Side::B].into_iter().zip(readers.iter_mut().zip(&mut are_over))
        {
            while !*is_over && !comparison.has_enough(side) {
                match reader.next(&mut recorder, &mut progress) {
                    Some((client, record)) => comparison.push(side, client, record),
                    None => *is_over = true,
                }
            }
        }
        comparison.advance(are_over);
    }
    comparison.finish();
    let [a, b] = &readers;
    let view = View { a: &a.trace, b: &b.trace, comparison: &comparison, screen: style::screen(args.color) };
    let mut to = BufWriter::new(progress.page());
    let written = match args.format {
        _ if args.quiet => Ok(()),
        ReportFormat::Text => view.text(&mut to),
        ReportFormat::Json => view.json(&mut to),
    };
    written.and_then(|()| to.flush()).map_err(unwritten)?;
    let errors: Vec<_> = readers.iter().flat_map(|reader| &reader.errors).collect();
    for error in &errors {
        complain(error);
    }
    Ok(match (errors.is_empty(), comparison.total()) {
        (false, _) => Exit::Failed,
        (true, 0) => Exit::Done,
        (true, _) => Exit::Differs,
    })
}
