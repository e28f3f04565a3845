//! `check --server`: compiles, seeds and replays captures, and compares the Replies with the recorded ones.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use nfsrdma_dissectors::rpcrdma::Dialect;

use super::compile;
use super::replay_preparation::ReplayStartError;
use super::run::{FinishedReplay, ReplayRunOptionArgs, seed_and_run};
use super::server::ReplayServerArgs;
use crate::cli::{ExitStatus, print_report, report_error};
use crate::output::replay::ReplayReportOrRefusal;
use nfsrdma_analysis::memory_budget::CommandMemoryBudget;
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_replay::seed::SeedMode;

pub(in crate::cli) fn check_against_server(
    files: &[PathBuf],
    inputs: &ProtectedInputFiles,
    server: &ReplayServerArgs,
    how: &ReplayRunOptionArgs,
    (memory, dialect): (&CommandMemoryBudget, Option<Dialect>),
) -> Result<ExitStatus> {
    let started = SystemTime::now();
    how.part.check()?;
    how.reports.check(files.len())?;
    let pages = how.reports.open(how.junit.as_ref(), inputs)?;
    let mut done: Vec<(String, Result<FinishedReplay, String>)> = Vec::new();
    let mut end = ExitStatus::Done;
    for file in files {
        let outcome = compile::compile_to_scratch(file, memory, dialect)
            .map_err(ReplayStartError::from)
            .and_then(|trace| seed_and_run(trace.path(), inputs, server, how, SeedMode::Make));
        let name = file.to_string_lossy().into_owned();
        match outcome {
            Ok(ran) => {
                ran.report_problems(how.min_coverage);
                if let Err(error) = ran.check_recording(&how.reports) {
                    report_error(error);
                    end = more_severe(end, ExitStatus::Failed);
                }
                let of_this = ran.exit_status(how.min_coverage);
                end = more_severe(end, of_this);
                if !how.quiet || of_this != ExitStatus::Done {
                    print_report(how.format, &ran.view(&name, server, how))?;
                }
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
    let outcomes: Vec<_> = { done.iter() }
        .map(|(name, outcome)| match outcome {
            Ok(ran) => ReplayReportOrRefusal::Report(Box::new(ran.view(name, server, how))),
            Err(error) => ReplayReportOrRefusal::Refused { trace: name, error },
        })
        .collect();
    pages.write(&outcomes, started)?;
    Ok(end)
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
