//! `replay FILE --server URL`: runs all steps of a replay.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueHint};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_replay::seed::SeedMode;

use super::compile;
use super::run::{ReplayRunOptionArgs, report_refusal, run_and_report};
use super::target_server_options::ReplayServerArgs;
use crate::cli::comparison_input::is_trace;
use crate::cli::exit_status::ExitStatus;
use crate::cli::memory_limit::MemoryArgs;
use crate::cli::rpcrdma_dialect::CaptureDialectArgs;

pub(super) const EXAMPLES: &str = "  nfsrdma-inspect replay capture.pcap --server rdma://nas/scratch
                                                                         compile, seed, run and check
";

/// A capture or a trace, and where it is to run.
#[derive(Debug, Args)]
pub(super) struct WholeReplayArgs {
    /// Capture or compiled trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    server: ReplayServerArgs,

    #[command(flatten)]
    run_options: ReplayRunOptionArgs,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: CaptureDialectArgs,
}

/// Arguments of a complete replay, if there is no subcommand.
#[derive(Debug)]
pub(super) struct ReplayArgsWithoutSubcommand(pub(super) Option<WholeReplayArgs>);

impl FromArgMatches for ReplayArgsWithoutSubcommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => Ok(Self(None)),
            None => WholeReplayArgs::from_arg_matches(matches).map(Some).map(Self),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ReplayArgsWithoutSubcommand {
    fn augment_args(command: Command) -> Command {
        WholeReplayArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        WholeReplayArgs::augment_args_for_update(command)
    }
}

pub(super) fn run(args: &WholeReplayArgs) -> Result<ExitStatus> {
    let seed_mode = if args.server.allow_non_empty { SeedMode::Complete } else { SeedMode::Make };
    let memory = CommandMemoryBudget::for_compilation(args.memory.limit_bytes()?, [&args.file]);
    if is_trace(&args.file) {
        return run_and_report(&args.file, &args.file, &args.server, &args.run_options, seed_mode);
    }
    match compile::compile_to_scratch(&args.file, &memory, args.dialect.selected()) {
        Ok(trace) => run_and_report(&args.file, trace.path(), &args.server, &args.run_options, seed_mode),
        Err(error) => report_refusal(&args.file, &args.run_options, error),
    }
}
