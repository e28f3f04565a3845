//! `replay`: replays captures. One file per subcommand.

mod compile;
mod compile_seed_and_run;
mod learn;
mod plan;
pub(super) mod report_files;
pub(super) mod run;
mod seed;
mod seeded_directory_markers;
mod server_connection_and_seeding;
pub(super) mod server_regression_check;
mod single_server_requirement;
pub(super) mod step_selection;
pub(super) mod target_server_options;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::exit_status::ExitStatus;

/// Replay captured traffic against a server
///
/// With FILE and --server, perform all steps: compile the capture to a trace, plan the replay, create the initial tree
/// in a separate directory on the server, send the calls, compare the replies with the captured ones, and check the
/// final state of the files. Each step is also a subcommand.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true)]
#[command(after_long_help = format!("Examples:\n{}\n{}\n{}\n{}\n{}\n{}",
    compile_seed_and_run::EXAMPLES, compile::EXAMPLES, plan::EXAMPLES, seed::EXAMPLES, run::EXAMPLES, learn::EXAMPLES))]
pub(super) struct ReplayArgs {
    // Before the subcommand, which is removed from the matches when it is read.
    #[command(flatten)]
    all: compile_seed_and_run::ReplayArgsWithoutSubcommand,

    #[command(subcommand)]
    step: Option<ReplayCommand>,
}

#[derive(Debug, Subcommand)]
enum ReplayCommand {
    Compile(compile::TraceCompileArgs),
    Plan(plan::ReplayPlanArgs),
    Seed(seed::ReplaySeedArgs),
    Run(Box<run::ReplayRunArgs>),
    Learn(learn::ToleranceLearningArgs),
}

pub(super) fn run(args: &ReplayArgs) -> Result<ExitStatus> {
    match (&args.step, &args.all.0) {
        (Some(ReplayCommand::Compile(args)), _) => compile::run(args),
        (Some(ReplayCommand::Plan(args)), _) => plan::run(args),
        (Some(ReplayCommand::Seed(args)), _) => seed::run(args),
        (Some(ReplayCommand::Run(args)), _) => run::run(args),
        (Some(ReplayCommand::Learn(args)), _) => learn::run(args),
        (None, Some(args)) => compile_seed_and_run::run(args),
        (None, None) => bail!("no capture or trace given; name one, and a server with --server; see --help"),
    }
}
