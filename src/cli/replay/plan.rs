//! `replay plan`: what a run will do.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, ValueHint};

use super::server::open_trace_file;
use super::step_selection::StepSelectionArgs;
use crate::cli::style::{self, Color};
use crate::cli::{ExitStatus, unwritten};
use crate::output::ReportFormat;
use crate::output::plan::PlanReportView;
use crate::replay::plan::ReplayPlan;
use crate::replay::trace::TraceReader;

/// What people may want to do, for the help.
pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay plan work.trace              what a run will do, what it will not, and why
  nfsrdma-inspect replay plan -c 1000 work.trace      the same, with a thousand files of the tree
  nfsrdma-inspect replay plan --filter 'nfs.opcode == \"WRITE\"' work.trace
                                                      the WRITEs, and what they need
  nfsrdma-inspect replay plan -T json work.trace | jq '.reasons[] | select(.state == \"unreplayable\")'
";

/// Objects of the tree that are shown as text.
const COUNT: usize = 20;

/// Say what a run of a trace will do, and what not, and why
///
/// Every step runs, is synthesized (it runs, and something that the capture does not tell is put in its place), is skipped (it
/// need not run) or is unreplayable. Each that does not run as it was captured has its reason, with the first frames. The
/// tree is what the files and directories are before the first step, as far as the steps tell: what seeding makes.
/// docs/plan.schema.json states the JSON.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the trace was read, whatever it holds\n  \
    2  usage, or a trace that could not be read\n"))]
pub(super) struct PlanArgs {
    /// A trace that `replay compile` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    part: StepSelectionArgs,

    /// Show so many objects of the tree
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = COUNT)]
    count: usize,

    /// Form of the output
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// Plans a run, and shows the plan.
pub(super) fn run(args: &PlanArgs) -> Result<ExitStatus> {
    let name = args.trace.to_string_lossy();
    let part = args.part.of(&args.trace)?;
    let file = open_trace_file(&args.trace)?;
    let plan = TraceReader::open(file)
        .and_then(|mut trace| ReplayPlan::for_selection(&mut trace, part.chosen, part.gss));
    let plan = plan.map_err(|error| anyhow!("{name}: {error}"))?;
    let view =
        PlanReportView { name: &name, plan: &plan, count: args.count, screen: style::screen(args.color) };
    let mut to = BufWriter::new(io::stdout().lock());
    let written = match args.format {
        ReportFormat::Text => view.text(&mut to),
        ReportFormat::Json => view.json(&mut to),
    };
    written.and_then(|()| to.flush()).map_err(unwritten)?;
    Ok(ExitStatus::Done)
}
