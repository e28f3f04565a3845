//! `replay compile`: compiles captures into a trace.

use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum, ValueHint};
use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_capture_file::{CaptureFrameSource, SourceError};
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_output_file::{OutputError, ProtectedInputFiles, ScratchFile, is_standard_output};
use nfsrdma_replay::compile::{TraceCompileCounts, TraceCompiler};
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;

use crate::cli::exit_status::ExitStatus;
use crate::cli::memory_limit::MemoryArgs;
use crate::cli::output_file_creation;
use crate::cli::progress::ProgressLine;
use crate::cli::rpcrdma_dialect::CaptureDialectArgs;
use crate::cli::standard_streams::{report_error, write_error};
use crate::escape;
use crate::output::units::{HumanCount, HumanSize};

pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay compile capture.pcap -o work.trace              everything, with file data
  nfsrdma-inspect replay compile --data hash capture.pcap -o work.trace  hashes of file data only
  nfsrdma-inspect replay compile -Y 'nfsrdma.client == 10.9.0.2' ring_*.pcapng -o one.trace
                                                                         one client only
";

/// Maximum number of complete Transactions that await late duplicates. They keep their file data until it is written,
/// so the limit is lower than the default.
const MAX_LINGERING_TRANSACTIONS: usize = 256;

/// Treatment of file data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CompiledFileDataMode {
    /// Keep the data, deduplicated
    #[default]
    Keep,
    /// Keep only hashes; a replay sends generated data
    Hash,
    /// Generate data from --key and the file offset
    Key,
}

/// Convert captures to a trace for replay
///
/// A trace has the calls and replies of a capture with their data, chunks and times, and records the origin and the
/// uses of each filehandle, stateid and other identifier. RDMA (RoCE, InfiniBand, iWARP), TCP and UDP captures are
/// supported. docs/trace.md describes the file format.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  the trace was written, even if packets are missing\n  \
    2  usage error, read error (a new trace has everything before it, an older one is \
    not replaced) or write error\n"))]
pub(super) struct TraceCompileArgs {
    /// Capture files, merged by time; '-' is standard input
    #[arg(value_name = "CAPTURE", value_hint = ValueHint::FilePath, required = true)]
    files: Vec<PathBuf>,

    /// Write the trace to this file
    #[arg(short = 'o', long, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    output: PathBuf,

    /// Storage of file data in the trace
    #[arg(long, value_name = "MODE", default_value = "keep")]
    data: CompiledFileDataMode,

    /// Seed for --data key
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    key: u64,

    /// Compile only the transactions that match a display filter
    #[arg(short = 'Y', long, value_name = "FILTER")]
    display_filter: Option<String>,

    #[command(flatten)]
    memory: MemoryArgs,

    /// Do not print a summary
    #[arg(short = 'q', long)]
    quiet: bool,

    #[command(flatten)]
    dialect: CaptureDialectArgs,
}

pub(super) fn run(args: &TraceCompileArgs) -> Result<ExitStatus> {
    let filter = match args.display_filter.as_deref().map(Filter::parse).transpose() {
        Ok(filter) => filter,
        Err(error) => bail!("-Y: {error}"),
    };
    if args.key != 0 && args.data != CompiledFileDataMode::Key {
        bail!("--key needs --data key");
    }
    let memory = CommandMemoryBudget::for_compilation(args.memory.limit_bytes()?, &args.files);
    if is_standard_output(&args.output) {
        bail!("-o -: standard output is not seekable; name a file");
    }
    let mut source = CaptureFrameSource::open_within(&args.files, memory.windows())?;
    let output_error = |error: io::Error| OutputError::write_error(&args.output, error);
    let retention = match args.data {
        CompiledFileDataMode::Keep => TraceFileDataRetention::KEPT,
        CompiledFileDataMode::Hash => TraceFileDataRetention::HASHED,
        CompiledFileDataMode::Key => TraceFileDataRetention::KEYED,
    };
    let to = output_file_creation::create_seekable(&args.output, &ProtectedInputFiles::new(&args.files))?;
    let mut compiler = TraceCompiler::new(to, retention, memory.view_bytes()).map_err(output_error)?.with_key(args.key);
    let errors = read(&mut source, (filter, args.dialect.selected()), &memory, &mut compiler).map_err(output_error)?;
    for error in &errors {
        report_error(error);
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let captures: Vec<_> = args.files.iter().map(name).collect();
    let (to, counts) = compiler.finish(&captures).map_err(output_error)?;
    if counts.end.steps == 0 && !errors.is_empty() {
        // The input was not a capture, so there is no trace, and an older one stays.
        return Ok(ExitStatus::Failed);
    }
    match errors.is_empty() {
        true => to.commit()?,
        false => to.commit_part(!output_file_creation::can_be_read_again(args.files.iter()))?,
    }
    if !args.quiet {
        let mut to = io::stdout().lock();
        write_summary(&mut to, &args.output, &counts).map_err(write_error)?;
    }
    Ok(if errors.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Compiles a complete capture into a scratch file.
pub(super) fn compile_to_scratch(
    capture: &Path,
    memory: &CommandMemoryBudget,
    dialect: Option<Dialect>,
) -> Result<ScratchFile> {
    let name = capture.file_name().unwrap_or(capture.as_os_str()).to_string_lossy().into_owned();
    let mut source = CaptureFrameSource::open_within([capture], memory.windows())?;
    // A scratch file is private, because file data must not become readable for others.
    let (file, to) = ScratchFile::new(name.split('.').next().unwrap_or("capture"), ".trace")?;
    let output_error = |error: io::Error| OutputError::write_error(file.path(), error);
    let mut compiler =
        TraceCompiler::new(to, TraceFileDataRetention::KEPT, memory.view_bytes()).map_err(output_error)?;
    let errors = read(&mut source, (None, dialect), memory, &mut compiler).map_err(output_error)?;
    if let Some(error) = errors.first() {
        bail!("{error}");
    }
    let (mut to, _) = compiler.finish(&[name]).map_err(output_error)?;
    to.flush().map_err(output_error)?;
    Ok(file)
}

fn read<W: Write + Seek>(
    source: &mut CaptureFrameSource,
    (filter, dialect): (Option<Filter>, Option<Dialect>),
    memory: &CommandMemoryBudget,
    compiler: &mut TraceCompiler<W>,
) -> io::Result<Vec<SourceError>> {
    let mut flow = Flow::new(FlowLimits {
        keep_file_data: true,
        lingering_transactions: MAX_LINGERING_TRANSACTIONS,
        dialect,
        ..memory.limits()
    });
    let mut selection = filter.map(|filter| FilterRunner::new(filter, memory));
    let mut progress = ProgressLine::new();
    let mut errors = Vec::new();
    let (mut transactions, mut is_over) = (0, false);
    while !is_over {
        match source.next() {
            Ok(Some(frame)) => {
                let is_known = frame.link.is_known();
                match &mut selection {
                    Some(selection) => selection.add_frame(&frame, &mut flow),
                    None => {
                        flow.process_frame(&frame);
                    }
                }
                if !is_known {
                    errors.extend(source.unknown_link());
                }
            }
            Ok(None) => {
                flow.finish();
                is_over = true;
            }
            // The other files are still read.
            Err(error) => errors.push(error),
        }
        while let Some((key, transaction)) = flow.next_with_key() {
            transactions += 1;
            transaction.with_messages(|messages| {
                let is_selected = selection
                    .as_mut()
                    .is_none_or(|selection| selection.transaction(Some(key), &transaction, messages, None).is_some());
                compiler.add(&transaction, messages, is_selected)
            })?;
        }
        if progress.is_due(false) {
            progress.draw(source.progress(), transactions);
        }
    }
    Ok(errors)
}

fn write_summary(to: &mut impl Write, output: &Path, counts: &TraceCompileCounts) -> io::Result<()> {
    let end = &counts.end;
    writeln!(
        to,
        "{}: {} steps, {} of file data, {} variables",
        escape::display_line(output.display()),
        HumanCount(end.steps),
        HumanSize(end.payload_bytes),
        HumanCount(end.variables)
    )?;
    let incomplete =
        [(counts.without_call, "without a complete call"), (counts.without_reply, "without a complete reply")];
    for (steps, problem) in incomplete.into_iter().filter(|(steps, _)| *steps > 0) {
        writeln!(to, "  {steps} steps {problem}")?;
    }
    if end.forgotten > 0 {
        let count = HumanCount(end.forgotten);
        let effect = "a later use has another variable; use a larger --max-memory";
        writeln!(to, "  {count} identities forgotten: {effect}")?;
    }
    if end.left_out > 0 {
        let count = HumanCount(end.left_out);
        writeln!(to, "  {count} facts about files and messages omitted; use a larger --max-memory")?;
    }
    if end.unknown_bytes > 0 {
        writeln!(to, "  {} of file data were not captured", HumanSize(end.unknown_bytes))?;
    }
    Ok(())
}
