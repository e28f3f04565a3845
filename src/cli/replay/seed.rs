//! `replay seed`: the tree that a trace expects, made on a server.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};

use super::preparation::ClientCopySpec;
use super::server::{ServerArgs, open_trace};
use crate::cli::{ExitStatus, unwritten};
use crate::output::units::{HumanSize, PluralCount};
use crate::replay::seed::SeedMode;

/// What people may want to do, for the help.
pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay seed work.trace --server rdma://nas/scratch --directory one
                                                                         the tree, in /scratch/one
";

/// Make the tree that a trace expects, on a server
///
/// Files, directories and links that the trace uses before it makes them, with their sizes and the content that it reads
/// before it writes it, are made through NFS in a directory of their own. Nothing else is touched.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the tree is there\n  2  usage, a trace \
    that cannot be read, or what the server refuses\n  4  the server cannot be reached\n"))]
pub(super) struct SeedArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    server: ServerArgs,

    /// Say nothing of what was made
    #[arg(short = 'q', long)]
    quiet: bool,
}

/// Makes the tree.
pub(super) fn run(args: &SeedArgs) -> Result<ExitStatus> {
    let mut trace = open_trace(&args.trace)?;
    let how = if args.server.allow_non_empty { SeedMode::Complete } else { SeedMode::Make };
    let ready = match args.server.ready(&args.trace, &mut trace, how, &ClientCopySpec::only()) {
        Ok(ready) => ready,
        Err(refused) => return refused.tell(),
    };
    if !args.quiet {
        let made = ready.seeded.counts;
        let mut to = std::io::stdout().lock();
        let mut tell = || -> std::io::Result<()> {
            let [objects, links] = [(made.objects, "object"), (made.links, "further name")]
                .map(|(count, thing)| PluralCount(count, thing));
            writeln!(to, "{}: {objects}, {links}, {} of content", ready.directory, HumanSize(made.bytes))?;
            if made.unknown_bytes > 0 {
                writeln!(
                    to,
                    "  {} of it were not captured: zeros stand for them",
                    HumanSize(made.unknown_bytes)
                )?;
            }
            if made.left_out > 0 {
                let left_out = PluralCount(made.left_out, "object");
                writeln!(to, "  {left_out} left out: devices, or without a directory")?;
            }
            Ok(())
        };
        tell().map_err(unwritten)?;
    }
    Ok(ExitStatus::Done)
}
