//! Command line: parses the arguments and returns the exit code; one file per subcommand.
//!
//! [`run`] is the program. An error is one line on standard error, `nfsrdma-inspect: FILE: error; remedy`.

mod bytes;
#[cfg(feature = "live")]
mod capture;
mod check;
mod command_suggestions;
mod compare;
mod completion;
mod dialect;
#[cfg(feature = "parquet")]
mod export;
mod field_options;
mod fields;
mod frame_file_output;
mod inspect;
#[cfg(feature = "live")]
mod interfaces;
#[cfg(feature = "live")]
mod live;
mod memory;
mod outputs;
mod probe;
mod progress;
mod record_reader;
mod replay;
mod seconds;
mod style;
#[cfg(feature = "tui")]
mod tui;
mod version;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use nfsrdma_rpc::TransportBlame;

#[cfg(feature = "live")]
use capture::CaptureArgs;
use check::CheckArgs;
use compare::CompareArgs;
#[cfg(feature = "parquet")]
use export::ExportArgs;
use fields::FieldsArgs;
use inspect::InspectArgs;
use probe::ProbeArgs;
use replay::ReplayArgs;

use crate::escape;
use crate::output_file;
#[cfg(feature = "tui")]
use tui::TuiArgs;

const NAME: &str = env!("CARGO_PKG_NAME");

/// Maximum wait for a live source before other work, such as output of delayed lines or the end of the capture.
const SOURCE_WAIT: Duration = Duration::from_millis(20);

/// Examples for the help and the manual.
pub const EXAMPLES: &str =
    "  nfsrdma-inspect capture.pcap                    one line a Transaction, then a summary
  nfsrdma-inspect -q capture.pcapng.zst           the summary alone
  nfsrdma-inspect -V -c 1 capture.pcap            the first Transaction in full
  nfsrdma-inspect --view frames -t ad capture.pcap
                                                  one line a frame, with date and time
  nfsrdma-inspect --view operations capture.pcap  one line an operation: rates, percentiles, errors, bytes
  nfsrdma-inspect -w noted.pcapng capture.pcap    its frames for Wireshark, each with a comment that names its Transaction
  nfsrdma-inspect -Y 'nfs.opcode == READ && nfsrdma.latency > 0.01' capture.pcap
                                                  what a display filter selects, in Wireshark's language
  nfsrdma-inspect compare before.pcap after.pcap  what differs between two captures
  nfsrdma-inspect check trace.pcap                what differs from the baseline trace.pcap.baseline
  nfsrdma-inspect tui capture.pcap                the terminal interface
  nfsrdma-inspect fields nfs.                     the fields of NFS that there are
  nfsrdma-inspect probe --server rdma://nas/export
                                                  what a server offers: credits, thresholds, versions, limits
  nfsrdma-inspect replay compile capture.pcap -o work.trace
                                                  a trace of what was done, to be run again; replay plan tells of it
  nfsrdma-inspect export --to tables capture.pcap
                                                  Parquet tables for DuckDB and Spark (docs/scale-out.md)
  nfsrdma-inspect ring_*.pcapng                   the files of a ring buffer, merged by time
  nfsrdma-inspect -T fields -e rpc.xid -e nfs.opcode -E header=y capture.pcap
                                                  the values of fields, as tshark writes them
  nfsrdma-inspect -T csv capture.pcap > t.csv     a table of Transactions
  nfsrdma-inspect --view frames -x -c 1 capture.pcap
                                                  a frame with its bytes
  nfsrdma-inspect -T json capture.pcap | jq 'select(.latency_ns > 1e6) | .operation'
  ssh HOST tcpdump -i eth0 -U -w - udp port 4791 | nfsrdma-inspect -
  nfsrdma-inspect -D                              the interfaces, and what each can see
  nfsrdma-inspect -i eth0 -Y 'nfsrdma.latency > 0.01'
                                                  what is slow, as it happens
  nfsrdma-inspect capture -i eth0 -w ring.pcapng -b filesize:100000 -b files:10
                                                  the last gigabyte of what the network does
";

/// Columns of the list for the help and the manual.
pub const COLUMNS: &str = "  TIME       when the Call was seen; -t says in which form
  FRAME      the first frame of the Call
  CONN       number of the connection
  CLIENT     address of the client
  XID        transaction identifier of the RPC
  VERS       4.2: minor version 2 of NFSv4; acl3: NFSACL 3, mnt3: MOUNT 3; \u{2190}4.2: a callback
  OPERATION  the operation, and what it is about:
             READ /data/log 0+4096 is 4,096 bytes of that file from offset 0; \u{2026}/log is a file in
             a directory of which no name was seen, 0x62d40c52 a file of which none was seen;
             RENAME /data/a \u{2192} b: what is in the same directory is told without it
             RD LU MD XT DL XE XA are the bits of ACCESS: read, lookup, modify, extend, delete,
             execute, extended attributes
  CHUNKS     R: Read, W: Write, r: Reply chunks; W 2000/4096: 2,000 bytes moved of 4,096 offered
  BYTES      RPC messages, and what moved through chunks
  LATENCY    from the first frame of the Call to the last frame of the Reply
  STATUS     ok, or the status without the prefix that all have, and then what is special:
             reply\u{d7}2: the Reply was sent twice
             no call, no reply: that message is not in the capture
             600 B missing, or missing call:46-195: bytes that are not in the capture
A narrow terminal shows fewer columns.
";

/// Exit codes for the help and the manual.
pub const EXIT_CODES: &str = "  0  done, whatever statuses the capture holds
  1  compare, check: something differs
  2  usage, or input that could not be read; what was understood before is printed
  4  the server or the transport cannot be reached
  6  this program itself broke a rule of the protocol
";

/// Environment variables for the help and the manual.
pub const ENVIRONMENT: &str = "  NO_COLOR        no colours, whatever its value
  CLICOLOR_FORCE, FORCE_COLOR
                  colours in pipes and files too, unless 0
  CLICOLOR        0 for no colours
  LC_ALL, LC_CTYPE, LANG
                  the first that is set; a locale that is not UTF-8 gets ASCII alone
  COLUMNS         columns of a terminal that does not tell them
";

#[cfg(feature = "live")]
const USAGE: &str = "nfsrdma-inspect [OPTIONS] FILE...\n       nfsrdma-inspect [OPTIONS] -i IFACE";
#[cfg(not(feature = "live"))]
const USAGE: &str = "nfsrdma-inspect [OPTIONS] FILE...";

/// Shows the NFS operations of a capture of NFS over RDMA, each with its chunks.
///
/// RDMA moves the data of NFS outside the RPC message, in chunks of memory that the client advertised. This program
/// puts together what belongs together: the Call, the RDMA Reads and Writes that filled or fetched its chunks, and the
/// Reply. It reads pcap and pcapng files, plain or compressed with gzip or zstd, or captures by itself.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    override_usage = USAGE,
    // -V is the tree, as in tshark.
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "Use --help for more, with examples.",
    after_long_help = format!("Columns:\n{COLUMNS}\nExamples:\n{EXAMPLES}\nExit codes:\n{EXIT_CODES}\nEnvironment:\n{ENVIRONMENT}"),
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    inspect: InspectArgs,

    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// Subcommands, each a variant here and a file beside this one. Without one, files are inspected.
///
/// A capture file with the name of a subcommand is read as `./stats` or `-r stats`.
#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "live")]
    Capture(CaptureArgs),
    Check(CheckArgs),
    Compare(CompareArgs),
    Fields(FieldsArgs),
    Probe(ProbeArgs),
    Replay(Box<ReplayArgs>),
    #[cfg(feature = "parquet")]
    Export(ExportArgs),
    #[cfg(feature = "tui")]
    Tui(TuiArgs),
}

/// Exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Success, whatever statuses the capture contains.
    Done,
    /// A check failed: two captures differ, or a capture differs from its baseline.
    Differs,
    /// The arguments are invalid, an input could not be read to its end, or the output could not be written.
    Failed,
    /// Too little of a trace could be replayed.
    Uncovered,
    /// The server or the transport cannot be reached.
    Unreachable,
    /// This program itself broke a rule of the protocol.
    OwnFault,
}

impl From<TransportBlame> for ExitStatus {
    fn from(blame: TransportBlame) -> Self {
        match blame {
            TransportBlame::Unreachable => Self::Unreachable,
            TransportBlame::Program => Self::OwnFault,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(match exit {
            ExitStatus::Done => 0,
            ExitStatus::Differs => 1,
            ExitStatus::Failed => 2,
            ExitStatus::Uncovered => 3,
            ExitStatus::Unreachable => 4,
            ExitStatus::OwnFault => 6,
        })
    }
}

/// Returns the definition of the command line, from which the manual and the completions are generated.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with these arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitStatus {
    if let Some(how) = std::env::var_os(completion::REQUEST_VARIABLE) {
        return completion::run(&how, arguments.into_iter());
    }
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(advice) = command_suggestions::replay_step(&arguments) {
        report_error(advice);
        return ExitStatus::Failed;
    }
    let color =
        if style::Color::Auto.on_standard_output() { ColorChoice::Always } else { ColorChoice::Never };
    let cli = match command()
        .color(color)
        .try_get_matches_from(arguments)
        .and_then(|found| Cli::from_arg_matches(&found))
    {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error, color),
    };
    let outcome = match cli.command {
        #[cfg(feature = "live")]
        Some(Command::Capture(args)) => capture::run(&args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Fields(args)) => fields::run(&args),
        Some(Command::Probe(args)) => probe::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        #[cfg(feature = "parquet")]
        Some(Command::Export(args)) => export::run(&args),
        #[cfg(feature = "tui")]
        Some(Command::Tui(args)) => tui::run(&args),
        None => inspect::run(&cli.inspect),
    };
    // Unfinished files of other threads.
    drop(output_file::remove_unfinished());
    match outcome {
        Ok(exit) => exit,
        Err(error) if is_closed_pipe(&error) => ExitStatus::Done,
        Err(error) => {
            report_error(error);
            ExitStatus::Failed
        }
    }
}

/// Writes one line to standard error.
fn report_error(what: impl fmt::Display) {
    // If standard error is closed, nothing can be reported.
    let _ = writeln!(io::stderr(), "{NAME}: {}", escape::display_line(what));
}

/// Returns `true` if the reader of the output closed it, as `head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed))
}

/// Returns the error for standard output that cannot be written, as when the disk is full.
fn write_error(error: io::Error) -> anyhow::Error {
    let what = format!("standard output: cannot write: {error}; make room or write elsewhere");
    anyhow::Error::new(error).context(what)
}

/// Writes help, in ASCII if the locale is not UTF-8.
fn write_help(error: &clap::Error, color: ColorChoice) {
    let text = match color {
        ColorChoice::Never => error.render().to_string(),
        _ => error.render().ansi().to_string(),
    };
    let text = style::restrict_to_locale(text, error.use_stderr());
    // A failure to write help is ignored.
    let _ = match error.use_stderr() {
        true => io::stderr().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    };
}

fn report_usage_error(error: &clap::Error, color: ColorChoice) -> ExitStatus {
    match error.kind() {
        ErrorKind::DisplayVersion => {
            let _ = io::stdout().write_all(version::text().as_bytes());
            ExitStatus::Done
        }
        ErrorKind::DisplayHelp => {
            write_help(error, color);
            ExitStatus::Done
        }
        // A command that requires a subcommand has none.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            write_help(error, color);
            ExitStatus::Failed
        }
        _ => {
            report_error(join_paragraphs(&error.to_string()));
            ExitStatus::Failed
        }
    }
}

/// Joins clap's message of several paragraphs into one line: the problem and its tips, without the usage.
fn join_paragraphs(text: &str) -> String {
    let words = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = String::new();
    for paragraph in text.split("\n\n") {
        let paragraph = words(paragraph);
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") {
            continue;
        }
        let part =
            paragraph.strip_prefix("error: ").or(paragraph.strip_prefix("tip: ")).unwrap_or(&paragraph);
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(part);
    }
    for (of_the_parser, plain) in PARSER_MESSAGES {
        line = line.replace(of_the_parser, plain);
    }
    line + "; see --help"
}

/// Messages of the standard library's parsers, and their replacements.
const PARSER_MESSAGES: &[(&str, &str)] = &[
    ("number would be zero for non-zero type", "give a whole number from 1 on"),
    ("invalid digit found in string", "give a whole number"),
    ("cannot parse integer from empty string", "give a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "give a number, such as 5 or 0.25"),
    ("cannot parse float from empty string", "give a number, such as 5 or 0.25"),
    (
        "arguments were not provided: --server <URL>",
        "arguments were not provided: --server <URL>, such as rdma://HOST/EXPORT or tcp://HOST/EXPORT",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }
}
