//! `check --server`: captures compiled, seeded, replayed and held to what was recorded, in one command.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use nfsrdma_dissectors::rpcrdma::Dialect;

use super::compile;
use super::preparation::RunRefusal;
use super::reports::ReportArgs;
use super::run::{FinishedRun, RunOptionArgs, exit, ran};
use super::server::ServerArgs;
use super::step_selection::StepSelectionArgs;
use crate::cli::style::Color;
use crate::cli::{ExitStatus, complain, unwritten};
use crate::memory::Memory;
use crate::output::ReportFormat;
use crate::output_file::InputFiles;
use crate::replay::seed::SeedMode;
use crate::replay::url::ServerUrl;

/// What else may differ, what is reported, and where to.
pub(in crate::cli) struct ReplayCheckOptions<'a> {
    pub(in crate::cli) junit: Option<&'a PathBuf>,
    pub(in crate::cli) format: ReportFormat,
    pub(in crate::cli) color: Color,
    pub(in crate::cli) count: usize,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) dialect: Option<Dialect>,
    pub(in crate::cli) memory: &'a Memory,
    pub(in crate::cli) part: &'a StepSelectionArgs,
    pub(in crate::cli) reports: &'a ReportArgs,
    pub(in crate::cli) rules: Option<&'a Path>,
    pub(in crate::cli) no_final_check: bool,
    pub(in crate::cli) remove: bool,
    pub(in crate::cli) strict: bool,
    pub(in crate::cli) allow_source_server: bool,
    pub(in crate::cli) min_coverage: f64,
}

/// Checks captures against a server.
pub(in crate::cli) fn check(
    files: &[PathBuf],
    inputs: &InputFiles,
    server: &ServerUrl,
    reported: &ReplayCheckOptions<'_>,
) -> Result<ExitStatus> {
    let started = SystemTime::now();
    let server =
        ServerArgs { allow_source_server: reported.allow_source_server, ..ServerArgs::at(server.clone()) };
    let how = RunOptionArgs::checking(reported);
    reported.part.check()?;
    reported.reports.check(files.len())?;
    let pages = reported.reports.open(reported.junit, inputs)?;
    let mut done: Vec<(String, FinishedRun)> = Vec::new();
    let mut end = ExitStatus::Done;
    for file in files {
        let outcome = one(file, reported, inputs, &server, &how);
        let name = file.to_string_lossy().into_owned();
        match outcome {
            Ok(ran) => {
                ran.complain(reported.min_coverage);
                if let Err(error) = ran.recorded(reported.reports) {
                    complain(error);
                    end = worse(end, ExitStatus::Failed);
                }
                let of_this = exit(&ran.report, reported.min_coverage);
                end = worse(end, of_this);
                let mut to = BufWriter::new(io::stdout().lock());
                let view = ran.view(&name, &server, &how);
                let written = match reported.format {
                    _ if reported.quiet && of_this == ExitStatus::Done => Ok(()),
                    ReportFormat::Text => view.text(&mut to),
                    ReportFormat::Json => view.json(&mut to),
                };
                written.and_then(|()| to.flush()).map_err(unwritten)?;
                let is_over = ran.report.is_interrupted;
                done.push((name, ran));
                if is_over {
                    break;
                }
            }
            Err(RunRefusal::Unreachable(what, blame)) => {
                complain(what);
                end = worse(end, blame.into());
            }
            Err(RunRefusal::Usage(error)) => {
                complain(error);
                end = worse(end, ExitStatus::Failed);
            }
        }
    }
    let views: Vec<_> = done.iter().map(|(name, ran)| ran.view(name, &server, &how)).collect();
    pages.write(&views, started)?;
    Ok(end)
}

fn one(
    file: &Path,
    reported: &ReplayCheckOptions<'_>,
    inputs: &InputFiles,
    server: &ServerArgs,
    how: &RunOptionArgs,
) -> Result<FinishedRun, RunRefusal> {
    let trace = compile::passing(file, reported.memory, reported.dialect)?;
    ran(trace.path(), inputs, server, how, SeedMode::Make)
}

/// What a script must hear first: that nothing could be checked, then faults of our own, then differences.
fn worse(one: ExitStatus, other: ExitStatus) -> ExitStatus {
    let weight = |exit: ExitStatus| match exit {
        ExitStatus::Done => 0,
        ExitStatus::Uncovered => 1,
        ExitStatus::Differs => 2,
        ExitStatus::OwnFault => 3,
        ExitStatus::Unreachable => 4,
        ExitStatus::Failed => 5,
    };
    if weight(other) > weight(one) { other } else { one }
}
