//! `replay learn`: what a server that is known to be good answers otherwise than was recorded, as a file of rules.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};

use super::check::ReplayCheckOptions;
use super::reports::ReportArgs;
use super::run::{RunOptionArgs, exit, ran};
use super::server::ServerArgs;
use super::step_selection::StepSelectionArgs;
use crate::cli::style::Color;
use crate::cli::{ExitStatus, outputs, unwritten};
use crate::memory::Memory;
use crate::output::ReportFormat;
use crate::output_file::InputFiles;
use crate::replay::run::rules::inference::infer_rules;
use crate::replay::seed::SeedMode;

/// What people may want to do, for the help.
pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay learn work.trace --server tcp://good/scratch -o noise.rules
                                                                         review the rules, then run with --rules
";

/// Runs, so that what is another each time shows.
const RUNS: usize = 2;
/// Mismatches of a run that are learnt from.
const MOST: usize = 1 << 16;

/// Infer tolerance rules from a known good server
///
/// Run the trace twice, in separate directories, and write rules for replies that differ from the captured ones. Review the
/// rules before using them with 'replay run --rules': differences covered by a rule are no longer reported. Differences in
/// status, names and file data are written as comments only.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the rules were written\n  2  usage error, \
    invalid trace, or request refused by the server\n  4  server unreachable\n  6  protocol error by this program\n"))]
pub(super) struct LearnArgs {
    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    server: ServerArgs,

    /// Write the rules to this file [default: standard output]
    #[arg(short = 'o', long, value_name = "RULES", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Runs the trace, and writes what differed.
pub(super) fn run(args: &LearnArgs) -> Result<ExitStatus> {
    if args.server.directory.is_some() {
        bail!("--directory cannot be used here: each run needs a separate directory");
    }
    let how = RunOptionArgs::checking(&ReplayCheckOptions {
        dialect: None,
        memory: &Memory::default(),
        junit: None,
        format: ReportFormat::Text,
        color: Color::Never,
        count: MOST,
        quiet: true,
        rules: None,
        no_final_check: false,
        remove: false,
        part: &StepSelectionArgs::default(),
        reports: &ReportArgs::default(),
        strict: false,
        allow_source_server: false,
        min_coverage: 0.0,
    });
    let inputs = InputFiles::new([&args.trace]);
    let output = args.output.as_ref().map(|path| outputs::create(path, &inputs)).transpose()?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        match ran(&args.trace, &inputs, &args.server, &how, SeedMode::Make) {
            // Half of a run shows no rule, and the next one would wait for the server again.
            Ok(ran) if ran.report.is_interrupted => bail!("interrupted; no rules were written"),
            Ok(ran) => runs.push(ran),
            Err(refused) => return refused.tell(),
        }
    }
    let reports: Vec<_> = runs.iter().map(|ran| &ran.report).collect();
    let text = infer_rules(&args.trace.to_string_lossy(), &args.server.server.to_string(), &reports);
    match output {
        Some(to) => outputs::write(to, |to| to.write_all(text.as_bytes()))?,
        None => std::io::stdout().lock().write_all(text.as_bytes()).map_err(unwritten)?,
    }
    for ran in &runs {
        ran.complain(0.0);
    }
    let is_own = runs.iter().any(|ran| exit(&ran.report, 0.0) == ExitStatus::OwnFault);
    Ok(if is_own { ExitStatus::OwnFault } else { ExitStatus::Done })
}
