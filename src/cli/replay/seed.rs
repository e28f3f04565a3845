//! `replay seed`: creates the tree that a trace expects on a server.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use nfsrdma_replay::seed::SeedMode;

use super::server_connection_and_seeding::{ReplayClientCopyIdentity, SeedingControl};
use super::single_server_requirement::require_single_server;
use super::step_selection::StepSelection;
use super::target_server_options::{ReplayServerArgs, open_trace};
use crate::cli::exit_status::ExitStatus;
use crate::cli::standard_streams::write_error;
use crate::interrupt::ShutdownSignalRegistration;
use crate::output::units::{HumanSize, PluralCount};

pub(super) const EXAMPLES: &str = "  nfsrdma-inspect replay seed work.trace --server rdma://nas/scratch --directory one
                                                                         create the tree in /scratch/one
";

/// Create the initial tree of a trace on a server
///
/// Create the files, directories and links that exist before the first step, with their sizes and the content that is
/// read before it is written. They are created through NFS in a separate directory; nothing else is modified.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the tree was created\n  1  the server \
    broke the protocol\n  2  usage error, invalid trace, or request refused by the server\n  3  stopped by --max-time \
    or a signal\n  4  server unreachable or busy\n  6  protocol error by this program\n"))]
pub(super) struct ReplaySeedArgs {
    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    server: ReplayServerArgs,

    /// Do not print a summary
    #[arg(short = 'q', long)]
    quiet: bool,
}

pub(super) fn run(args: &ReplaySeedArgs) -> Result<ExitStatus> {
    require_single_server(&args.trace, &StepSelection::default(), "replay compile -Y")?;
    let mut trace = open_trace(&args.trace)?;
    let seed_mode = if args.server.allow_non_empty { SeedMode::Complete } else { SeedMode::Make };
    let interrupted = ShutdownSignalRegistration::new()?;
    let (copy, control) = (ReplayClientCopyIdentity::only(), SeedingControl::new(&interrupted));
    let ready = match args.server.prepare(&args.trace, &mut trace, seed_mode, &copy, &control) {
        Ok(ready) => ready,
        Err(error) => return error.report(),
    };
    if !args.quiet {
        let counts = ready.seeded.counts;
        let mut to = std::io::stdout().lock();
        let mut write_summary = || -> std::io::Result<()> {
            let [objects, links] = [(counts.objects, "object"), (counts.links, "further name")]
                .map(|(count, noun)| PluralCount(count, noun));
            writeln!(to, "{}: {objects}, {links}, {} of content", ready.directory, HumanSize(counts.bytes))?;
            if counts.unknown_bytes > 0 {
                writeln!(to, "  {} of it not captured: replaced by zeros", HumanSize(counts.unknown_bytes))?;
            }
            if counts.left_out > 0 {
                let left_out = PluralCount(counts.left_out, "object");
                writeln!(to, "  {left_out} not created: devices, refused names or sizes, or nested too deeply")?;
            }
            Ok(())
        };
        write_summary().map_err(write_error)?;
    }
    Ok(ExitStatus::Done)
}
