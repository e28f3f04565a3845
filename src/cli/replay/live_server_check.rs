//! `check --server`: compiles, seeds and replays captures, and compares the Replies with the recorded ones.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_rpc::url::ServerUrl;

use super::compile;
use super::replay_preparation::ReplayStartError;
use super::report_files::ReplayOutputArgs;
use super::run::{FinishedReplay, ReplayRunOptionArgs, seed_and_run};
use super::server::{DEFAULT_TIMEOUT_SECONDS, ReplayServerArgs};
use super::step_selection::StepSelectionArgs;
use crate::cli::terminal_capabilities::ColorChoice;
use crate::cli::{ExitStatus, report_error, write_error};
use crate::output::ReportFormat;
use crate::output::replay::ReplayReportOrRefusal;
use nfsrdma_analysis::memory_budget::CommandMemoryBudget;
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_replay::seed::SeedMode;

/// Options of `check --server`: tolerance, reports and output.
pub(in crate::cli) struct CheckAgainstServerOptions<'a> {
    pub(in crate::cli) junit: Option<&'a PathBuf>,
    pub(in crate::cli) format: ReportFormat,
    pub(in crate::cli) color: ColorChoice,
    pub(in crate::cli) count: usize,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) dialect: Option<Dialect>,
    pub(in crate::cli) memory: &'a CommandMemoryBudget,
    pub(in crate::cli) part: &'a StepSelectionArgs,
    pub(in crate::cli) reports: &'a ReplayOutputArgs,
    pub(in crate::cli) rules: Option<&'a Path>,
    pub(in crate::cli) no_final_check: bool,
    pub(in crate::cli) remove: bool,
    pub(in crate::cli) strict: bool,
    pub(in crate::cli) allow_source_server: bool,
    /// Timeout of connecting and of each Reply in seconds; `None` for the default.
    pub(in crate::cli) timeout: Option<f64>,
    /// Time limit of each replay in seconds; `None` for the default.
    pub(in crate::cli) max_time: Option<f64>,
    pub(in crate::cli) min_coverage: f64,
}

/// Checks captures against a server.
pub(in crate::cli) fn check(
    files: &[PathBuf],
    inputs: &ProtectedInputFiles,
    server: &ServerUrl,
    reported: &CheckAgainstServerOptions<'_>,
) -> Result<ExitStatus> {
    let started = SystemTime::now();
    let server = ReplayServerArgs {
        allow_source_server: reported.allow_source_server,
        timeout: reported.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        max_time: reported.max_time,
        ..ReplayServerArgs::with_defaults(server.clone())
    };
    let how = ReplayRunOptionArgs::for_check(reported);
    reported.part.check()?;
    reported.reports.check(files.len())?;
    let pages = reported.reports.open(reported.junit, inputs)?;
    let mut done: Vec<(String, Result<FinishedReplay, String>)> = Vec::new();
    let mut end = ExitStatus::Done;
    for file in files {
        let outcome = check_capture(file, reported, inputs, &server, &how);
        let name = file.to_string_lossy().into_owned();
        match outcome {
            Ok(ran) => {
                ran.report_problems(reported.min_coverage);
                if let Err(error) = ran.check_recording(reported.reports) {
                    report_error(error);
                    end = more_severe(end, ExitStatus::Failed);
                }
                let of_this = ran.exit_status(reported.min_coverage);
                end = more_severe(end, of_this);
                let mut to = BufWriter::new(io::stdout().lock());
                let view = ran.view(&name, &server, &how);
                let written = match reported.format {
                    _ if reported.quiet && of_this == ExitStatus::Done => Ok(()),
                    ReportFormat::Text => view.text(&mut to),
                    ReportFormat::Json => view.json(&mut to),
                };
                written.and_then(|()| to.flush()).map_err(write_error)?;
                // A capture at its time limit does not end the others.
                let is_over = ran.report.end.is_interrupted && ran.report.end.limit.is_none();
                done.push((name, Ok(ran)));
                if is_over {
                    break;
                }
            }
            Err(refused) => {
                let error = refused.to_string();
                report_error(&error);
                end = more_severe(end, refused.exit_status());
                done.push((name, Err(error)));
                if matches!(refused, ReplayStartError::Interrupted(_)) {
                    break;
                }
            }
        }
    }
    let mut outcomes = Vec::with_capacity(done.len());
    for (name, outcome) in &done {
        outcomes.push(match outcome {
            Ok(ran) => ReplayReportOrRefusal::Report(Box::new(ran.view(name, &server, &how))),
            Err(error) => ReplayReportOrRefusal::Refused { trace: name, error },
        });
    }
    pages.write(&outcomes, started)?;
    Ok(end)
}

fn check_capture(
    file: &Path,
    reported: &CheckAgainstServerOptions<'_>,
    inputs: &ProtectedInputFiles,
    server: &ReplayServerArgs,
    how: &ReplayRunOptionArgs,
) -> Result<FinishedReplay, ReplayStartError> {
    let trace = compile::compile_to_scratch(file, reported.memory, reported.dialect)?;
    seed_and_run(trace.path(), inputs, server, how, SeedMode::Make)
}

/// Returns the more severe exit status: failures first, then faults of this program, then differences.
fn more_severe(one: ExitStatus, other: ExitStatus) -> ExitStatus {
    let weight = |exit: ExitStatus| match exit {
        ExitStatus::Done => 0,
        ExitStatus::Uncovered => 1,
        ExitStatus::Differs => 2,
        ExitStatus::Unreachable => 3,
        ExitStatus::OwnFault => 4,
        ExitStatus::Failed => 5,
    };
    if weight(other) > weight(one) { other } else { one }
}
