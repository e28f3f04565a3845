//! `replay`: the work of a capture, driven again. One file a step of the way.

mod all;
pub(super) mod check;
mod compile;
mod learn;
mod marks;
pub(super) mod part;
mod plan;
mod ready;
pub(super) mod reports;
mod run;
mod seed;
pub(super) mod server;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::Exit;

/// Drive the work of a capture again
///
/// With a capture or a trace and --server all steps are done: the capture is compiled, and what cannot be replayed is planned
/// out; the tree that it expects is made on the server, in a directory of its own; the trace is run there; what the server
/// answers is held to what was recorded, and in the end the files to what the steps must have left. Each step has a
/// subcommand, too; 'replay run' has all options of a run.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
#[command(after_long_help = format!("Examples:\n{}\n{}\n{}\n{}\n{}\n{}",
    all::EXAMPLES, compile::EXAMPLES, plan::EXAMPLES, seed::EXAMPLES, run::EXAMPLES, learn::EXAMPLES))]
pub(super) struct ReplayArgs {
    // Before the subcommand, which is taken away when it is read.
    #[command(flatten)]
    all: all::AllSteps,

    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Debug, Subcommand)]
enum Step {
    Compile(compile::CompileArgs),
    Plan(plan::PlanArgs),
    Seed(seed::SeedArgs),
    Run(Box<run::RunArgs>),
    Learn(learn::LearnArgs),
}

/// Does one step.
pub(super) fn run(args: &ReplayArgs) -> Result<Exit> {
    match (&args.step, &args.all.0) {
        (Some(Step::Compile(args)), _) => compile::run(args),
        (Some(Step::Plan(args)), _) => plan::run(args),
        (Some(Step::Seed(args)), _) => seed::run(args),
        (Some(Step::Run(args)), _) => run::run(args),
        (Some(Step::Learn(args)), _) => learn::run(args),
        (None, Some(args)) => all::run(args),
        (None, None) => bail!("name a capture or a trace, and its server with --server; see --help"),
    }
}
