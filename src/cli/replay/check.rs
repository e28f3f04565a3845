//! `check --server`: captures compiled, seeded, replayed and held to what was recorded, in one command.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use nfsrdma_dissectors::rpcrdma::Dialect;

use super::compile;
use super::part::PartArgs;
use super::ready::Refused;
use super::reports::ReportArgs;
use super::run::{HowArgs, Ran, exit, ran};
use super::server::ServerArgs;
use crate::cli::style::Color;
use crate::cli::{Exit, complain, unwritten};
use crate::memory::Memory;
use crate::output::ReportFormat;
use crate::output_file::InputFiles;
use crate::replay::seed::How;
use crate::replay::url::Url;

/// What else may differ, what is reported, and where to.
pub(in crate::cli) struct Reported<'a> {
    pub(in crate::cli) junit: Option<&'a PathBuf>,
    pub(in crate::cli) format: ReportFormat,
    pub(in crate::cli) color: Color,
    pub(in crate::cli) count: usize,
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) dialect: Option<Dialect>,
    pub(in crate::cli) memory: &'a Memory,
    pub(in crate::cli) part: &'a PartArgs,
    pub(in crate::cli) reports: &'a ReportArgs,
    pub(in crate::cli) rules: Option<&'a Path>,
    pub(in crate::cli) no_walk: bool,
    pub(in crate::cli) remove: bool,
    pub(in crate::cli) strict: bool,
    pub(in crate::cli) same_server: bool,
    pub(in crate::cli) min_coverage: f64,
}

/// Checks captures against a server.
pub(in crate::cli) fn check(
    files: &[PathBuf],
    inputs: &InputFiles,
    server: &Url,
    reported: &Reported<'_>,
) -> Result<Exit> {
    let started = SystemTime::now();
    let server = ServerArgs { same_server: reported.same_server, ..ServerArgs::at(server.clone()) };
    let how = HowArgs::checking(reported);
    reported.part.check()?;
    reported.reports.check(files.len())?;
    let pages = reported.reports.open(reported.junit, inputs)?;
    let mut done: Vec<(String, Ran)> = Vec::new();
    let mut end = Exit::Done;
    for file in files {
        let outcome = one(file, reported, inputs, &server, &how);
        let name = file.to_string_lossy().into_owned();
        match outcome {
            Ok(ran) => {
                ran.complain(reported.min_coverage);
                if let Err(error) = ran.recorded(reported.reports) {
                    complain(error);
                    end = worse(end, Exit::Failed);
                }
                let of_this = exit(&ran.report, reported.min_coverage);
                end = worse(end, of_this);
                let mut to = BufWriter::new(io::stdout().lock());
                let view = ran.view(&name, &server, &how);
                let written = match reported.format {
                    _ if reported.quiet && of_this == Exit::Done => Ok(()),
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
            Err(Refused::Unreachable(what, blame)) => {
                complain(what);
                end = worse(end, blame.into());
            }
            Err(Refused::Usage(error)) => {
                complain(error);
                end = worse(end, Exit::Failed);
            }
        }
    }
    let views: Vec<_> = done.iter().map(|(name, ran)| ran.view(name, &server, &how)).collect();
    pages.write(&views, started)?;
    Ok(end)
}

fn one(
    file: &Path,
    reported: &Reported<'_>,
    inputs: &InputFiles,
    server: &ServerArgs,
    how: &HowArgs,
) -> Result<Ran, Refused> {
    let trace = compile::passing(file, reported.memory, reported.dialect)?;
    ran(trace.path(), inputs, server, how, How::Make)
}

/// What a script must hear first: that nothing could be checked, then faults of our own, then differences.
fn worse(one: Exit, other: Exit) -> Exit {
    let weight = |exit: Exit| match exit {
        Exit::Done => 0,
        Exit::Uncovered => 1,
        Exit::Differs => 2,
        Exit::OwnFault => 3,
        Exit::Unreachable => 4,
        Exit::Failed => 5,
    };
    if weight(other) > weight(one) { other } else { one }
}
