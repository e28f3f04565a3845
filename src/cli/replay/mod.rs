//! `replay`: the work of a capture, driven again. One file a step of the way.

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

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Exit;

/// Drive the work of a capture again
///
/// A capture is compiled to a trace, and a trace is planned; neither needs a server. Then the tree that the trace expects is
/// made on a server, in a directory of its own, and the trace is run there; what the server answers is held to what was
/// recorded.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{}\n{}\n{}\n{}\n{}",
    compile::EXAMPLES, plan::EXAMPLES, seed::EXAMPLES, run::EXAMPLES, learn::EXAMPLES))]
pub(super) struct ReplayArgs {
    #[command(subcommand)]
    step: Step,
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
    match &args.step {
        Step::Compile(args) => compile::run(args),
        Step::Plan(args) => plan::run(args),
        Step::Seed(args) => seed::run(args),
        Step::Run(args) => run::run(args),
        Step::Learn(args) => learn::run(args),
    }
}
