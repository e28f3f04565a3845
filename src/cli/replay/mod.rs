//! `replay`: the work of a capture, driven again. One file a step of the way.

mod compile;
mod plan;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Exit;

/// Drive the work of a capture again
///
/// A capture is compiled to a trace, and a trace is planned. Neither needs a server.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{}\n{}", compile::EXAMPLES, plan::EXAMPLES))]
pub(super) struct ReplayArgs {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    Compile(compile::CompileArgs),
    Plan(plan::PlanArgs),
}

/// Does one step.
pub(super) fn run(args: &ReplayArgs) -> Result<Exit> {
    match &args.step {
        Step::Compile(args) => compile::run(args),
        Step::Plan(args) => plan::run(args),
    }
}
