//! Command line: parses the arguments and returns the exit code; one file per subcommand.
//!
//! [`run`] is the program. An error is one line on standard error, `nfsrdma-inspect: FILE: error; remedy`.

mod baseline_check;
mod bytes;
#[cfg(feature = "live")]
mod capture;
mod command_suggestions;
mod compare;
mod comparison_input;
mod completion;
mod exit_status;
#[cfg(feature = "parquet")]
mod export;
mod field_options;
mod fields;
mod filehandle_display_option;
mod frame_file_output;
#[cfg(feature = "live")]
mod interfaces;
mod lint;
mod list_and_summary_command;
#[cfg(feature = "live")]
mod live_capture_options;
mod memory_limit;
mod option_values;
mod output_file_creation;
mod probe;
mod progress;
mod read_stop_condition;
mod renamed_options;
mod replay;
mod rpcrdma_dialect;
mod seconds;
mod standard_streams;
mod terminal_capabilities;
#[cfg(feature = "tui")]
mod tui;
mod version;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
pub use exit_status::ExitStatus;

#[cfg(feature = "tui")]
use tui::TuiArgs;

use baseline_check::BaselineCheckArgs;
#[cfg(feature = "live")]
use capture::CaptureCommandArgs;
use compare::CompareArgs;
#[cfg(feature = "parquet")]
use export::ExportArgs;
use fields::FilterFieldListingArgs;
use lint::LintArgs;
use list_and_summary_command::DefaultCommandArgs;
use probe::ProbeArgs;
use replay::ReplayArgs;
use standard_streams::{NAME, is_closed_pipe, report_error};

/// Examples for the help and the manual.
pub const EXAMPLES: &str = "  nfsrdma-inspect capture.pcap                    one line per transaction, then a summary
  nfsrdma-inspect -q capture.pcapng.zst           only the summary
  nfsrdma-inspect -V -c 1 capture.pcap            the first transaction in detail
  nfsrdma-inspect --view frames -t ad capture.pcap
                                                  one line per frame, with date and time
  nfsrdma-inspect --view operations capture.pcap  one line per operation: rates, percentiles, errors, bytes
  nfsrdma-inspect -w noted.pcapng capture.pcap    annotated capture for Wireshark
  nfsrdma-inspect -Y 'nfs.opcode == READ && nfsrdma.latency > 0.01' capture.pcap
                                                  display filter in Wireshark syntax
  nfsrdma-inspect compare before.pcap after.pcap  differences between two captures
  nfsrdma-inspect check trace.pcap                differences from trace.pcap.baseline
  nfsrdma-inspect lint capture.pcap               broken rules of the RFCs, with the side that broke them
  nfsrdma-inspect tui capture.pcap                interactive terminal interface
  nfsrdma-inspect fields nfs.                     list the NFS fields
  nfsrdma-inspect probe --server rdma://nas/export
                                                  server capabilities: credits, thresholds, versions, limits
  nfsrdma-inspect replay compile capture.pcap -o work.trace
                                                  convert a capture to a trace that can be replayed
  nfsrdma-inspect export --to tables capture.pcap
                                                  Parquet tables for DuckDB and Spark (docs/scale-out.md)
  nfsrdma-inspect ring_*.pcapng                   the files of a ring buffer, merged by time
  nfsrdma-inspect -T fields -e rpc.xid -e nfs.opcode -E header=y capture.pcap
                                                  field values in the format of tshark
  nfsrdma-inspect -T csv capture.pcap > t.csv     a table of transactions
  nfsrdma-inspect --view frames -x -c 1 capture.pcap
                                                  hex dump of the first frame
  nfsrdma-inspect -T json capture.pcap | jq 'select(.latency_ns > 1e6) | .operation'
  ssh HOST tcpdump -i eth0 -U -w - udp port 4791 | nfsrdma-inspect -
  nfsrdma-inspect -D                              list the capture interfaces
  nfsrdma-inspect -i eth0 -Y 'nfsrdma.latency > 0.01'
                                                  live capture of slow transactions
  nfsrdma-inspect capture -i eth0 -w ring.pcapng -b filesize:100000 -b files:10
                                                  ring buffer with the last gigabyte of traffic
";

/// Columns of the list for the help and the manual.
pub const COLUMNS: &str = "  TIME       time of the call, in the format of -t
  FRAME      first frame of the call
  CONN       connection number
  CLIENT     client address
  XID        RPC transaction identifier
  VERS       4.2: minor version 2 of NFSv4; acl3: NFSACL 3, mnt3: MOUNT 3; \u{2190}4.2: a callback
  OPERATION  the operation and its arguments:
             READ /data/log 0+4096 reads 4,096 bytes from offset 0; \u{2026}/log is a file in a directory
             whose path is unknown, 0x62d40c52 is the hash of a filehandle without a known name;
             RENAME /data/a \u{2192} b renames within a directory;
             OPEN /data/w ? opens /data/w or a file in it: the snap length cut the rest of the call
             RD LU MD XT DL XE XA are the bits of ACCESS: read, lookup, modify, extend, delete,
             execute, extended attributes
  CHUNKS     R: Read, W: Write, r: Reply chunks; W 2000/4096: 2,000 of 4,096 bytes transferred
  BYTES      bytes of RPC messages and chunk data
  LATENCY    from the first frame of the call to the last frame of the reply
  STATUS     ok, or the status without its common prefix, then anomalies:
             reply\u{d7}2: the reply was sent twice
             no call, no reply: the message was not captured
             refused: by the receiver of the message; wrong result: the reply has the results of
             another call, malformed ones, or others than its call permits, such as more bytes or
             attributes than it asks for; lint says why
             600 B missing, or missing call:46-195: bytes that were not captured
Narrow terminals show fewer columns.
";

/// Exit codes for the help and the manual.
pub const EXIT_CODES: &str = "  0  success, whatever NFS statuses the capture contains
  1  compare, check, replay: differences found, or the server broke the protocol; probe: it did; lint: denied findings
  2  usage error or read error; results up to the error are printed
  3  replay, check: too little was verified, the run was interrupted, or --remove was refused
  4  server or transport unreachable
  6  protocol error by this program
";

/// Environment variables for the help and the manual.
pub const ENVIRONMENT: &str = "  NO_COLOR        disables color if set, even to 0
  CLICOLOR_FORCE, FORCE_COLOR
                  enable color in pipes and files too, unless 0
  CLICOLOR        0 disables color
  LC_ALL, LC_CTYPE, LANG
                  character set, from the first that is set; output is ASCII unless it is UTF-8
  COLUMNS         width of a terminal that does not report its size
";

#[cfg(feature = "live")]
const USAGE: &str = "nfsrdma-inspect [OPTIONS] FILE...\n       nfsrdma-inspect [OPTIONS] -i IFACE";
#[cfg(not(feature = "live"))]
const USAGE: &str = "nfsrdma-inspect [OPTIONS] FILE...";

/// Analyze NFS over RDMA captures: operations with their chunks, latency and status.
///
/// NFS over RDMA transfers data outside the RPC message, in chunks of memory that the client advertises. This program
/// joins each RPC call with its reply and the RDMA Reads and Writes of its chunks. It reads pcap and pcapng files,
/// uncompressed or compressed with gzip or zstd, and captures live traffic.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    override_usage = USAGE,
    // -V is the tree, as in tshark.
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_help = "Use --help for details and examples.",
    after_long_help = format!("Columns:\n{COLUMNS}\nExamples:\n{EXAMPLES}\nExit codes:\n{EXIT_CODES}\nEnvironment:\n{ENVIRONMENT}"),
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    inspect: DefaultCommandArgs,

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
    Capture(CaptureCommandArgs),
    Check(BaselineCheckArgs),
    Compare(CompareArgs),
    Fields(FilterFieldListingArgs),
    Lint(LintArgs),
    Probe(ProbeArgs),
    Replay(Box<ReplayArgs>),
    #[cfg(feature = "parquet")]
    Export(ExportArgs),
    #[cfg(feature = "tui")]
    Tui(TuiArgs),
}

/// Returns the definition of the command line, from which the manual and the completions are generated.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    allow_repeated_flags(&mut command);
    command
}

/// Lets a flag without a value be given twice, as aliases and scripts do. An option with a value must not be: one of its
/// values would be ignored.
fn allow_repeated_flags(command: &mut clap::Command) {
    *command = std::mem::take(command).mut_args(|argument| match argument.get_action() {
        clap::ArgAction::SetTrue => {
            let id = argument.get_id().clone();
            argument.overrides_with(id)
        }
        _ => argument,
    });
    command.get_subcommands_mut().for_each(allow_repeated_flags);
}

/// Runs the program with these arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitStatus {
    if let Some(request) = std::env::var_os(completion::REQUEST_VARIABLE) {
        return completion::run(command(), &request, arguments.into_iter());
    }
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(advice) = command_suggestions::replay_step(command, &arguments) {
        report_error(advice);
        return ExitStatus::Failed;
    }
    let color = if terminal_capabilities::ColorChoice::Auto.on_standard_output() {
        ColorChoice::Always
    } else {
        ColorChoice::Never
    };
    if let Err(error) = nfsrdma_output_file::check_standard_output(arguments.iter().skip(1)) {
        report_error(error);
        return ExitStatus::Failed;
    }
    let cli = match command()
        .color(color)
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error, color),
    };
    let outcome = match cli.command {
        #[cfg(feature = "live")]
        Some(Command::Capture(args)) => capture::run(&args),
        Some(Command::Check(args)) => baseline_check::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Fields(args)) => fields::run(&args),
        Some(Command::Lint(args)) => lint::run(&args),
        Some(Command::Probe(args)) => probe::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        #[cfg(feature = "parquet")]
        Some(Command::Export(args)) => export::run(&args),
        #[cfg(feature = "tui")]
        Some(Command::Tui(args)) => tui::run(&args),
        None => list_and_summary_command::run(&cli.inspect, command),
    };
    // Unfinished files of other threads.
    drop(nfsrdma_output_file::remove_unfinished());
    match outcome {
        Ok(exit) => exit,
        Err(error) if is_closed_pipe(&error) => ExitStatus::Done,
        Err(error) => {
            report_error(error);
            ExitStatus::Failed
        }
    }
}

/// Writes help, in ASCII if the locale is not UTF-8.
fn write_help(error: &clap::Error, color: ColorChoice) {
    let text = match color {
        ColorChoice::Never => error.render().to_string(),
        _ => error.render().ansi().to_string(),
    };
    let text = terminal_capabilities::restrict_to_locale(text, error.use_stderr());
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
            let renamed = renamed_options::message(error);
            report_error(renamed.unwrap_or_else(|| join_paragraphs(&error.to_string())));
            ExitStatus::Failed
        }
    }
}

/// Beginning of clap's tip to pass an unknown option as a value after `--`: it would be taken for a file.
const VALUE_TIP: &str = "tip: to pass '";

/// Joins clap's message of several paragraphs into one line: the problem and its tips, without the usage.
fn join_paragraphs(text: &str) -> String {
    let collapse_whitespace = |fragment: &str| fragment.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = String::new();
    for paragraph in text.split("\n\n") {
        let lines = paragraph.lines().filter(|line| !line.trim_start().starts_with(VALUE_TIP));
        let paragraph = collapse_whitespace(&lines.collect::<Vec<_>>().join(" "));
        if paragraph.is_empty() || paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") {
            continue;
        }
        let message = paragraph.strip_prefix("error: ").or(paragraph.strip_prefix("tip: ")).unwrap_or(&paragraph);
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(message);
    }
    if line.contains("'--display-filter <FILTER>' cannot be used multiple times") {
        line += "; join filters with '&&'";
    }
    for (clap_message, plain) in PARSER_MESSAGES {
        line = line.replace(clap_message, plain);
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
