//! `export`: writes Parquet tables of captures for DuckDB, Spark and others.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_capture_file::{CaptureFrameSource, SourceError};
use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_output_file::{OutputError, ProtectedInputFiles, missing_directory, write_advice};
use nfsrdma_text::os_error_text;

use super::exit_status::ExitStatus;
use super::memory_limit::MemoryArgs;
use super::progress::ProgressLine;
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::standard_streams::report_error;
use crate::interrupt;
use crate::parquet_export::ParquetExport;

/// Export captures as Parquet tables, for DuckDB, Spark and others
///
/// Each capture becomes five tables (docs/tables.md): DIR/transactions/capture=NAME/part-0.parquet, and likewise
/// operations, segments, connections and findings. NAME is the file name without its path; an earlier export under the
/// same name is replaced. Captures can be exported in parallel, on several machines: see docs/scale-out.md.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Capture files, each exported separately; '-' is standard input and needs --name
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    files: Vec<PathBuf>,

    /// Output directory (created if missing, in an existing directory)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    to: PathBuf,

    /// Merge all files by time and export them as one capture with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    memory: MemoryArgs,

    /// Maximum number of connections; the longest idle are dropped first
    #[arg(long, value_name = "COUNT", hide_short_help = true,
        default_value_t = NonZeroUsize::new(FlowLimits::default().connections).unwrap_or(NonZeroUsize::MIN))]
    max_connections: NonZeroUsize,

    #[command(flatten)]
    dialect: CaptureDialectArgs,
}

/// Capture to export: its name and its files.
struct ExportInputCapture<'a> {
    name: String,
    files: Vec<&'a Path>,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitStatus> {
    interrupt::watch()?;
    // A directory that is missing above is more likely a typing error or an absent mount.
    if let Some(missing) = missing_directory(&args.to) {
        bail!(
            "{}: cannot write: no such directory {}; create it, or name another directory with --to",
            args.to.display(),
            missing.display()
        );
    }
    let memory = CommandMemoryBudget::for_command(args.memory.limit_bytes()?, &args.files, 1);
    let inputs = ProtectedInputFiles::new(&args.files);
    let mut is_good = true;
    for capture in captures(args)? {
        is_good &= export(args, &memory, &capture, &inputs)?;
    }
    Ok(if is_good { ExitStatus::Done } else { ExitStatus::Failed })
}

fn captures(args: &ExportArgs) -> Result<Vec<ExportInputCapture<'_>>> {
    let paths = || args.files.iter().map(PathBuf::as_path);
    if let Some(name) = &args.name {
        if name.is_empty() {
            bail!("--name: the name is empty");
        }
        return Ok(vec![ExportInputCapture { name: name.clone(), files: paths().collect() }]);
    }
    let mut names = BTreeSet::new();
    let mut captures = Vec::new();
    for path in paths() {
        let Some(name) = path.file_name().filter(|_| path.as_os_str() != "-") else {
            bail!("{}: no file name to label the rows with; give one with --name", path.display());
        };
        let name = name.to_string_lossy().into_owned();
        if !names.insert(name.clone()) {
            bail!("{}: another file has the same name {name}; export it alone, with --name", path.display());
        }
        captures.push(ExportInputCapture { name, files: vec![path] });
    }
    Ok(captures)
}

/// Returns the error for a table that cannot be written or would replace an input.
fn write_error(args: &ExportArgs, error: &io::Error) -> anyhow::Error {
    if let Some(output_error) = error.get_ref().filter(|inner| inner.is::<OutputError>()) {
        return anyhow::anyhow!("{output_error}");
    }
    anyhow::anyhow!("{}: cannot write: {}; {}", args.to.display(), os_error_text(error), write_advice(error))
}

/// Exports a capture. Returns `true` if it was read to its end. Writes nothing for a file that is not a capture.
fn export(
    args: &ExportArgs,
    memory: &CommandMemoryBudget,
    capture: &ExportInputCapture<'_>,
    inputs: &ProtectedInputFiles,
) -> Result<bool> {
    let mut source = match CaptureFrameSource::open_within(&capture.files, memory.windows()) {
        Ok(source) => source,
        Err(error) => {
            report_error(error);
            return Ok(false);
        }
    };
    let (tables, errors) =
        read(args, memory, (capture, inputs), &mut source).map_err(|error| write_error(args, &error))?;
    for error in &errors {
        report_error(error);
    }
    if let Some(tables) = tables {
        tables.finish(errors.is_empty()).map_err(|error| write_error(args, &error))?;
    }
    Ok(errors.is_empty())
}

fn read(
    args: &ExportArgs,
    memory: &CommandMemoryBudget,
    (capture, inputs): (&ExportInputCapture<'_>, &ProtectedInputFiles),
    source: &mut CaptureFrameSource,
) -> io::Result<(Option<ParquetExport>, Vec<SourceError>)> {
    let mut flow = Flow::new(FlowLimits {
        connections: args.max_connections.get(),
        dialect: args.dialect.selected(),
        name_open_transactions: false,
        record_transport_events: true,
        ..memory.limits()
    });
    let mut progress = ProgressLine::new();
    let mut errors = Vec::new();
    let mut tables = None;
    let mut transactions = 0;
    let mut is_over = false;
    while !is_over {
        let mut is_known = true;
        match source.next() {
            Ok(Some(frame)) => {
                flow.process_frame(&frame);
                is_known = frame.link.is_known();
            }
            Ok(None) => {
                flow.finish();
                is_over = true;
            }
            // The other files are still read.
            Err(error) => {
                errors.push(error);
                continue;
            }
        }
        if !is_known {
            errors.extend(source.unknown_link());
        }
        // A capture without Transactions has tables without rows; a file that is not a capture has none.
        if tables.is_none() && (!is_over || errors.is_empty()) {
            tables = Some(ParquetExport::create(&args.to, &capture.name, inputs, memory)?);
        }
        if let Some(tables) = &mut tables {
            tables.record_events(&flow)?;
        }
        while let Some((key, transaction)) = flow.next_with_key() {
            transactions += 1;
            if let Some(tables) = &mut tables {
                tables.transaction(key, &transaction)?;
            }
        }
        if progress.is_due(false) {
            progress.draw(source.progress(), transactions);
        }
    }
    Ok((tables, errors))
}
