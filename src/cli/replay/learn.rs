//! `replay learn`: writes rules for the differences of a known good server from the recording.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_replay::run::tolerance_rules::inference::infer_rules;
use nfsrdma_replay::seed::SeedMode;

use super::run::{ReplayRunOptionArgs, exit_status, seed_and_run};
use super::target_server_options::ReplayServerArgs;
use crate::cli::exit_status::ExitStatus;
use crate::cli::output_file_creation;
use crate::cli::standard_streams::write_error;

pub(super) const EXAMPLES: &str = "  nfsrdma-inspect replay learn work.trace --server tcp://good/scratch -o noise.rules
                                                                         review the rules, then run with --rules
";

/// Number of replays, so that values that change between them are detected.
const RUNS: usize = 2;
/// Maximum number of mismatches evaluated per replay.
const MAX_MISMATCHES: usize = 1 << 16;

/// Infer tolerance rules from a known good server
///
/// Run the trace twice, in separate directories, and write rules for replies that differ from the captured ones. Review
/// the rules before using them with 'replay run --rules': differences covered by a rule are no longer reported.
/// Differences in status, names and file data are written as comments only.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the rules were written\n  1  the server \
    broke the protocol in set-up\n  2  usage error, invalid trace, or request refused by the server\n  3  stopped by \
    --max-time\n  4  server unreachable or busy\n  6  protocol error by this program\n"))]
pub(super) struct ToleranceLearningArgs {
    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    server: ReplayServerArgs,

    /// Write the rules to this file [default: standard output]
    #[arg(short = 'o', long, value_name = "RULES", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Replays the trace and writes rules for the differences.
pub(super) fn run(args: &ToleranceLearningArgs) -> Result<ExitStatus> {
    if args.server.directory.is_some() {
        bail!("--directory cannot be used here: each run needs a separate directory");
    }
    let run_args = ReplayRunOptionArgs { count: MAX_MISMATCHES, ..ReplayRunOptionArgs::serial() };
    let inputs = ProtectedInputFiles::new([&args.trace]);
    let output = args.output.as_ref().map(|path| output_file_creation::create(path, &inputs)).transpose()?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        match seed_and_run(&args.trace, &inputs, &args.server, &run_args, SeedMode::Make) {
            // An interrupted replay yields no rules, and the next one would wait for the server again.
            Ok(replay) if replay.report.end.is_interrupted => bail!("interrupted; no rules were written"),
            Ok(replay) => runs.push(replay),
            Err(error) => return error.report(),
        }
    }
    let reports: Vec<_> = runs.iter().map(|replay| &replay.report).collect();
    let text = infer_rules(&args.trace.to_string_lossy(), &args.server.server.to_string(), &reports);
    match output {
        Some(to) => output_file_creation::write_and_commit(to, |to| to.write_all(text.as_bytes()))?,
        None => std::io::stdout().lock().write_all(text.as_bytes()).map_err(write_error)?,
    }
    for replay in &runs {
        replay.report_problems(None, 0.0);
    }
    let is_own = runs.iter().any(|replay| exit_status(&replay.report, 0.0) == ExitStatus::OwnFault);
    Ok(if is_own { ExitStatus::OwnFault } else { ExitStatus::Done })
}
