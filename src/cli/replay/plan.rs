//! `replay plan`: shows the plan of a replay.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, ValueHint};
use nfsrdma_replay::run_plan::ReplayPlanSummary;
use nfsrdma_replay::trace::ReplayTraceReader;

use super::step_selection::StepSelectionArgs;
use super::target_server_options::open_trace_file;
use crate::cli::exit_status::ExitStatus;
use crate::cli::standard_streams::print_report;
use crate::cli::terminal_capabilities::{self, ColorChoice};
use crate::output::plan::PlanReportView;
use crate::output::settings::ReportFormat;

pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay plan work.trace              planned, skipped and unreplayable steps, with reasons
  nfsrdma-inspect replay plan -c 1000 work.trace      the same, with 1000 objects of the tree
  nfsrdma-inspect replay plan --filter 'nfs.opcode == \"WRITE\"' work.trace
                                                      only WRITEs and the steps they depend on
  nfsrdma-inspect replay plan -T json work.trace | jq '.reasons[] | select(.state == \"unreplayable\")'
";

/// Default number of objects of the tree shown as text.
const DEFAULT_SHOWN_OBJECTS: usize = 20;

/// Show the replay plan of a trace
///
/// Each step is planned as run, synthesized (run with substitutes for information missing from the capture), skipped
/// (not needed) or unreplayable. Reasons are listed with their first frames. The tree lists the files and directories
/// that exist before the first step, as far as the steps reveal them; seeding creates it. docs/plan.schema.json
/// describes the JSON.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the plan was printed\n  \
    2  usage error or invalid trace\n"))]
pub(super) struct ReplayPlanArgs {
    /// Trace file written by 'replay compile'
    #[arg(value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    part: StepSelectionArgs,

    /// Show at most COUNT objects of the tree
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = DEFAULT_SHOWN_OBJECTS)]
    count: usize,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

pub(super) fn run(args: &ReplayPlanArgs) -> Result<ExitStatus> {
    let name = args.trace.to_string_lossy();
    let selection = args.part.select_steps(&args.trace)?;
    let file = open_trace_file(&args.trace)?;
    let plan = ReplayTraceReader::open(file)
        .and_then(|mut trace| ReplayPlanSummary::for_selection(&mut trace, selection.chosen, selection.gss));
    let plan = plan.map_err(|error| anyhow!("{name}: {error}"))?;
    let view = PlanReportView {
        name: &name,
        plan: &plan,
        count: args.count,
        screen: terminal_capabilities::screen(args.color),
    };
    print_report(args.format, &view)?;
    Ok(ExitStatus::Done)
}
