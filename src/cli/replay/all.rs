//! `replay FILE --server URL`: all steps of a replay, one after the other.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};

use super::compile;
use super::run::{HowArgs, replay};
use super::server::ServerArgs;
use crate::cli::Exit;
use crate::cli::traces::is_trace;
use crate::replay::seed::How;

/// What people may want to do, for the help.
pub(super) const EXAMPLES: &str = "  nfsrdma-inspect replay capture.pcap --server rdma://nas/scratch
                                                                         compile, seed, run, and check
";

/// A capture or a trace, and where it is to run.
#[derive(Debug, Args)]
pub(super) struct AllArgs {
    /// The capture, or a trace that was compiled before
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    how: HowArgs,
}

/// Does all steps.
pub(super) fn run(args: &AllArgs) -> Result<Exit> {
    let how = if args.server.into_existing { How::Complete } else { How::Make };
    if is_trace(&args.file) {
        return replay(&args.file, &args.file, &args.server, &args.how, how);
    }
    let trace = compile::passing(&args.file)?;
    replay(&args.file, trace.path(), &args.server, &args.how, how)
}
