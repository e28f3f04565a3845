//! `check --server`: compiles, seeds and replays captures, and compares the Replies with the recorded ones.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::Result;
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_replay::seed::SeedMode;

use super::compile;
use super::run::{FinishedReplay, ReplayRunOptionArgs, seed_and_run};
use super::server_connection_and_seeding::ReplayStartError;
use super::target_server_options::ReplayServerArgs;
use crate::cli::exit_status::ExitStatus;
use crate::cli::standard_streams::{print_report, report_error, with_capture, write_error};
use crate::output::baseline_report::{BaselineCheckOutcome, CaptureBaselineCheckResult};
use crate::output::replay::printable_report::ReplayReportOrRefusal;
use crate::output::settings::ReportFormat;

pub(in crate::cli) fn check_against_server(
    files: &[PathBuf],
    inputs: &ProtectedInputFiles,
    server: &ReplayServerArgs,
    run_args: &ReplayRunOptionArgs,
    (memory, dialect): (&CommandMemoryBudget, Option<Dialect>),
) -> Result<ExitStatus> {
    let started = SystemTime::now();
    run_args.part.check()?;
    run_args.reports.check(files.len())?;
    let pages = run_args.reports.open(run_args.junit.as_ref(), inputs)?;
    let mut replays: Vec<(String, Result<FinishedReplay, String>)> = Vec::new();
    let mut exit = ExitStatus::Done;
    for file in files {
        let (name, begun) = (file.to_string_lossy().into_owned(), Instant::now());
        let mut scratch = None;
        let outcome =
            compile::compile_to_scratch(file, memory, dialect).map_err(ReplayStartError::from).and_then(|trace| {
                scratch = Some(trace.path().display().to_string());
                seed_and_run(trace.path(), inputs, server, run_args, SeedMode::Make)
            });
        match outcome {
            Ok(replay) => {
                replay.report_problems(Some(&name), run_args.min_coverage);
                if let Err(error) = replay.check_recording(&run_args.reports) {
                    report_error(with_capture(&name, &error.to_string()));
                    exit = more_severe(exit, ExitStatus::Failed);
                }
                let status = replay.exit_status(run_args.min_coverage);
                exit = more_severe(exit, status);
                // With -q, one line per capture follows.
                if !run_args.quiet || run_args.format == ReportFormat::Json && status != ExitStatus::Done {
                    print_report(run_args.format, &replay.view(&name, server, run_args))?;
                }
                // A capture at its time limit does not end the others.
                let is_over = replay.report.end.is_interrupted && replay.report.end.limit.is_none();
                replays.push((name, Ok(replay)));
                if is_over {
                    break;
                }
            }
            Err(start_error) => {
                // The user knows the capture, not its compiled trace.
                let error = start_error.to_string();
                let error = scratch.map_or_else(|| error.clone(), |trace| error.replace(&trace, &name));
                report_error(with_capture(&name, &error));
                if run_args.format == ReportFormat::Json {
                    let outcome = BaselineCheckOutcome::Unreadable(error.clone());
                    let check = CaptureBaselineCheckResult { file: name.clone(), outcome, time: begun.elapsed() };
                    check.json(&mut std::io::stdout().lock()).map_err(write_error)?;
                }
                exit = more_severe(exit, start_error.exit_status());
                replays.push((name, Err(error)));
                if matches!(start_error, ReplayStartError::Interrupted(_)) {
                    break;
                }
            }
        }
    }
    let outcomes: Vec<_> = { replays.iter() }
        .map(|(name, outcome)| match outcome {
            Ok(replay) => ReplayReportOrRefusal::Report(Box::new(replay.view(name, server, run_args))),
            Err(error) => ReplayReportOrRefusal::Refused { trace: name, error },
        })
        .collect();
    pages.write(&outcomes, started)?;
    let has_lines = files.len() > 1 || run_args.quiet && exit != ExitStatus::Done;
    if has_lines && run_args.format == ReportFormat::Text {
        let mut to = std::io::stdout().lock();
        if !run_args.quiet {
            writeln!(to).map_err(write_error)?;
        }
        ReplayReportOrRefusal::summary_lines(&outcomes, &mut to).map_err(write_error)?;
    }
    Ok(exit)
}

/// Returns the more severe exit status: failures first, then faults of this program, then differences.
fn more_severe(a: ExitStatus, b: ExitStatus) -> ExitStatus {
    let severity = |exit: ExitStatus| match exit {
        ExitStatus::Done => 0,
        ExitStatus::Uncovered => 1,
        ExitStatus::Differs => 2,
        ExitStatus::Unreachable => 3,
        ExitStatus::OwnFault => 4,
        ExitStatus::Failed => 5,
    };
    if severity(b) > severity(a) { b } else { a }
}
