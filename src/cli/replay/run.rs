//! `replay run`: replays a trace against a server and shows the report.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum, ValueHint};
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_replay::auxiliary_programs::ConfiguredAuxiliaryPorts;
use nfsrdma_replay::run::trace_recording::ReplayMessageRecorder;
use nfsrdma_replay::run::{
    MAX_CLIENT_COPIES, ReplayClientCopy, ReplayMonitor, ReplayOptions, ReplayOrder, ReplayPace, ReplayReport,
    ReplayRunError, run_all as drive, tolerance_rules,
};
use nfsrdma_replay::run_plan::step_replayability::GssCallReplayPolicy;
use nfsrdma_replay::seed::{SeedCounts, SeedMode};
use nfsrdma_rpc::gss;

use super::report_files::ReplayOutputArgs;
use super::server_connection_and_seeding::{
    PreparedReplay, ReplayClientCopyIdentity, ReplayStartError, SeedingControl, unique_tag,
};
use super::single_server_requirement::require_single_server;
use super::step_selection::{StepSelection, StepSelectionArgs};
use super::target_server_options::{ReplayServerArgs, open_trace, parse_percent};
use crate::cli::exit_status::ExitStatus;
use crate::cli::progress::ProgressLine;
use crate::cli::standard_streams::{print_report, report_error, with_capture};
use crate::cli::terminal_capabilities::{self, ColorChoice};
use crate::interrupt::ShutdownSignalRegistration;
use crate::output::replay::printable_report::{PrintableReplayReport, ReplayReportOrRefusal};
use crate::output::settings::ReportFormat;
use crate::output::units::PluralCount;

pub(super) const EXAMPLES: &str =
    "  nfsrdma-inspect replay run work.trace --server rdma://nas/scratch    seed, run and compare
  nfsrdma-inspect replay run work.trace --server tcp://nas/scratch --pace captured --junit report.xml
                                                                         captured timing, with a JUnit report
  nfsrdma-inspect replay run work.trace --server rdma://nas/scratch --html report.html --record live.trace
  nfsrdma-inspect compare capture.pcap live.trace                        compare the capture with the recorded run
  nfsrdma-inspect replay run work.trace --server tcp://nas/scratch --filter 'nfs.opcode == \"WRITE\"'
                                                                         only WRITEs and the steps they depend on
  nfsrdma-inspect replay run work.trace --server rdma://nas/scratch --clients 16
                                                                         16 concurrent copies, in separate directories
  nfsrdma-inspect replay run work.trace --server tcp://nas/scratch -T json | jq .states
";

/// Run a trace against a server and compare the replies
///
/// Unless --seeded is given, create the initial tree of the trace in a separate directory. Send each call with the
/// filehandles, stateids, sessions and slots of the live server, and compare each reply with the captured one. Each
/// step ends in one state: matched, tolerated (by a rule), mismatched, substituted, skipped or unreplayable.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  no differences\n  1  \
    replies or files differ, or the server violated the protocol\n  2  usage error, invalid trace, unusable \
    directory, or the server refused to prepare it\n  3  too little verified: less than --min-coverage, final check \
    incomplete, interrupted, or --max-time\n  4  server unreachable or busy\n  6  protocol error by this program\n"))]
pub(in crate::cli) struct ReplayRunArgs {
    /// Trace file
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,

    #[command(flatten)]
    server: ReplayServerArgs,

    #[command(flatten)]
    run_options: ReplayRunOptionArgs,

    /// Use the tree that 'replay seed' created in --directory
    #[arg(long, requires = "directory")]
    seeded: bool,
}

/// Default minimum coverage in percent.
const DEFAULT_MIN_COVERAGE: f64 = 50.0;

/// Chunks that a Call offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ChunkModeArg {
    /// The chunks that the connection needs
    Optimal,
    /// The captured chunks
    Captured,
}

/// Delegations that OPEN requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum RequestedDelegationArg {
    /// The type of delegation that was granted in the capture
    Granted,
    /// The request as captured
    AsCaptured,
}

/// How a trace runs, and what is reported.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayRunOptionArgs {
    /// Order of calls: dependencies (wait for the steps a step depends on), captured (captured order and concurrency)
    /// or serial (one call in flight per client)
    #[arg(long, value_name = "ORDER", default_value = "dependencies")]
    pub(in crate::cli) order: ReplayOrder,

    /// Pace of calls: max (as fast as possible), captured (at the captured times), xN (N times the captured speed),
    /// rate=N (N calls per second), think-time (captured delay after the previous reply) or queue-depth (at most the
    /// captured number of calls in flight)
    #[arg(long, value_name = "PACE", default_value = "max")]
    pub(in crate::cli) pace: ReplayPace,

    /// Number of concurrent copies of the captured clients, each in a separate directory
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_CLIENT_COPIES as i64))]
    pub(in crate::cli) clients: u32,

    /// Maximum number of connections per client [default: as captured]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(in crate::cli) connections: Option<u32>,

    /// Maximum number of steps read ahead and in flight
    #[arg(long, value_name = "STEPS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(in crate::cli) window: u32,

    /// RDMA chunks that calls offer
    #[arg(long, value_name = "MODE", default_value = "optimal")]
    pub(in crate::cli) chunks: ChunkModeArg,

    /// Delegations that OPEN requests
    #[arg(long, value_name = "MODE", default_value = "granted")]
    pub(in crate::cli) delegations: RequestedDelegationArg,

    #[command(flatten)]
    pub(in crate::cli) part: StepSelectionArgs,

    #[command(flatten)]
    pub(in crate::cli) reports: ReplayOutputArgs,

    /// Disable all tolerance rules
    #[arg(long)]
    pub(in crate::cli) strict: bool,

    /// Disable these tolerance rules
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(in crate::cli) without: Vec<String>,

    /// File of additional tolerance rules (docs/replay.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) rules: Option<PathBuf>,

    /// Skip the final check of files and directories
    #[arg(long)]
    pub(in crate::cli) no_final_check: bool,

    /// Remove the replay directory afterwards, unless it has other files
    #[arg(long)]
    pub(in crate::cli) remove: bool,

    /// Minimum percentage of steps replayed, and of objects covered by the final check. Skipped steps do not count,
    /// except those that --sec skip leaves out
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_MIN_COVERAGE, value_parser = parse_percent)]
    pub(in crate::cli) min_coverage: f64,

    /// Show at most COUNT mismatches
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = 20)]
    pub(in crate::cli) count: usize,

    /// Write a JUnit XML report: one case per operation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) junit: Option<PathBuf>,

    /// Print nothing; only set the exit code
    #[arg(short = 'q', long)]
    pub(in crate::cli) quiet: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    pub(in crate::cli) format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(in crate::cli) color: ColorChoice,
}

impl ReplayRunOptionArgs {
    /// Returns the options of a check without its settings: one step at a time per client, so that replays are
    /// reproducible.
    pub(in crate::cli) fn serial() -> Self {
        Self {
            order: ReplayOrder::Serial,
            pace: ReplayPace::Immediate,
            clients: 1,
            connections: None,
            window: 256,
            chunks: ChunkModeArg::Optimal,
            delegations: RequestedDelegationArg::Granted,
            part: StepSelectionArgs::default(),
            reports: ReplayOutputArgs::default(),
            strict: false,
            without: Vec::new(),
            rules: None,
            no_final_check: false,
            remove: false,
            min_coverage: 0.0,
            count: 0,
            junit: None,
            quiet: true,
            format: ReportFormat::Text,
            color: ColorChoice::Never,
        }
    }

    fn options(&self, server: &ReplayServerArgs, selection: StepSelection) -> Result<ReplayOptions> {
        let mut disabled_rules = Vec::new();
        for name in &self.without {
            let rule = tolerance_rules::ALL.iter().find(|rule| rule.name == name.as_str());
            let names = || tolerance_rules::ALL.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ");
            disabled_rules
                .push(rule.ok_or_else(|| anyhow!("--without: unknown rule {name}; rules: {}", names()))?.name);
        }
        let rules = match &self.rules {
            Some(path) => read_rules(path)?,
            None => Vec::new(),
        };
        Ok(ReplayOptions {
            order: self.order,
            pace: self.pace,
            connections: self.connections,
            window: self.window as usize,
            timeout: Duration::from_secs_f64(server.timeout),
            max_time: server.max_time.map(Duration::from_secs_f64),
            strict: self.strict,
            disabled_rules,
            rules,
            max_shown_mismatches: self.count,
            selected_steps: selection.chosen,
            gss: selection.gss,
            captured_chunks: self.chunks == ChunkModeArg::Captured,
            keeps_requested_wants: self.delegations == RequestedDelegationArg::AsCaptured,
            auxiliary_ports: ConfiguredAuxiliaryPorts {
                port_mapper: server.server.rpcbind_port,
                mount: server.server.mount_port,
            },
            checks_tree: !self.no_final_check,
            ..ReplayOptions::default()
        })
    }
}

fn read_rules(path: &Path) -> Result<Vec<tolerance_rules::file::ToleranceFileRule>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("--rules: {name}: cannot read"))?;
    tolerance_rules::file::parse_rules(&text).map_err(|error| anyhow!("--rules: {name}: {error}"))
}

/// Monitor of a replay that shows its progress.
struct RunProgressReporter {
    progress: ProgressLine,
    interrupted: ShutdownSignalRegistration,
    tape: Option<Box<dyn ReplayMessageRecorder>>,
}

impl ReplayMonitor for RunProgressReporter {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, elapsed: Duration) {
        if self.progress.is_due(false) {
            self.progress.draw_run(report, total, elapsed);
        }
    }

    fn should_stop(&self) -> bool {
        self.interrupted.is_requested()
    }

    fn recorder(&mut self) -> Option<Box<dyn ReplayMessageRecorder>> {
        self.tape.take()
    }
}

pub(super) fn run(args: &ReplayRunArgs) -> Result<ExitStatus> {
    let seed_mode = match (args.seeded, args.server.allow_non_empty) {
        (true, _) => SeedMode::Find,
        (false, true) => SeedMode::Complete,
        (false, false) => SeedMode::Make,
    };
    run_and_report(&args.trace, &args.trace, &args.server, &args.run_options, seed_mode)
}

pub(super) struct FinishedReplay {
    pub(super) report: ReplayReport,
    pub(super) directory: String,
    pub(super) made: SeedCounts,
    /// Errors of directories that could not be removed.
    pub(super) not_removed: Vec<ReplayStartError>,
}

/// Removes the directories of the first copies. Returns the errors of those that could not be removed.
fn remove_copies(path: &Path, server: &ReplayServerArgs, tag: &str, copies: u32) -> Result<Vec<ReplayStartError>> {
    let mut not_removed = Vec::new();
    for number in 1..=copies {
        let tag = tag.to_owned();
        let copy = ReplayClientCopyIdentity { tag, number, is_replay: true, checks_tree: false };
        let removed = server.remove(path, &mut open_trace(path)?, &copy);
        not_removed.extend(removed.err());
    }
    Ok(not_removed)
}

/// Seeds and replays a trace.
pub(super) fn seed_and_run(
    path: &Path,
    inputs: &ProtectedInputFiles,
    server: &ReplayServerArgs,
    run_args: &ReplayRunOptionArgs,
    seed_mode: SeedMode,
) -> Result<FinishedReplay, ReplayStartError> {
    // Invalid options are reported before anything is created.
    let selection = run_args.part.select_steps(path)?;
    let excluded = require_single_server(path, &selection, "--filter")?;
    let mut options = run_args.options(server, selection)?;
    if options.gss == GssCallReplayPolicy::Krb5 {
        gss::probe(&server.server.host)?;
    }
    let recorder = run_args
        .reports
        .begin_recording(path, inputs)?
        .map(|recorder| Box::new(recorder) as Box<dyn ReplayMessageRecorder>);
    // Ctrl-C ends seeding or the replay gracefully; a second one, a second later, ends the program.
    let interrupted = ShutdownSignalRegistration::new().map_err(anyhow::Error::from)?;
    let control = SeedingControl::new(&interrupted);
    let mut ready: Option<PreparedReplay> = None;
    let mut copies = Vec::new();
    for number in 1..=run_args.clients {
        let (mut steps, mut contents) = (open_trace(path)?, open_trace(path)?);
        steps.exclude_objects(Arc::clone(&excluded));
        contents.exclude_objects(Arc::clone(&excluded));
        let tag = ready.as_ref().map_or_else(unique_tag, |ready| ready.tag.clone());
        let checks_tree = options.checks_tree;
        let copy = ReplayClientCopyIdentity { tag, number, is_replay: true, checks_tree };
        let mut prepared = match server.prepare(path, &mut contents, seed_mode, &copy, &control) {
            Ok(ready) => ready,
            Err(error) => {
                // A directory that this replay did not begin to fill belongs to somebody else.
                let seeded_copies = if control.has_begun() { number } else { number - 1 };
                if run_args.remove && seed_mode != SeedMode::Find {
                    remove_copies(path, server, &copy.tag, seeded_copies)?.iter().for_each(report_error);
                }
                return Err(error);
            }
        };
        if prepared.earlier_use.is_of_other_trace {
            report_error(format!("{}: seeded for another trace, so mismatches may result", prepared.directory));
        }
        if prepared.earlier_use.was_run {
            report_error(format!(
                "{}: an earlier run changed this directory, which may cause mismatches; seed another directory",
                prepared.directory
            ));
        }
        copies.push((steps, contents, std::mem::take(&mut prepared.seeded)));
        // The connections of the first copy carry all.
        ready.get_or_insert(prepared);
    }
    let Some(mut ready) = ready else { return Err(anyhow!("--clients: no client").into()) };
    options.tag.clone_from(&ready.tag);
    let mut reporter = RunProgressReporter { progress: ProgressLine::new(), interrupted, tape: recorder };
    let client_copies = copies.iter_mut().map(|(steps, contents, seeded)| ReplayClientCopy { steps, contents, seeded });
    let outcome = drive(client_copies.collect(), &mut *ready.transport, &ready.target, &options, &mut reporter);
    drop(reporter);
    let mut seed_counts = SeedCounts::default();
    for (_, _, seeded) in &copies {
        let SeedCounts { objects, links, bytes, unknown_bytes: unknown, left_out } = seeded.counts;
        seed_counts.objects += objects;
        seed_counts.links += links;
        seed_counts.bytes += bytes;
        seed_counts.unknown_bytes += unknown;
        seed_counts.left_out += left_out;
    }
    drop(copies);
    let not_removed =
        if run_args.remove { remove_copies(path, server, &ready.tag, run_args.clients)? } else { Vec::new() };
    match outcome {
        Ok(report) => Ok(FinishedReplay { report, directory: ready.directory, made: seed_counts, not_removed }),
        Err(ReplayRunError::Transport(error)) => Err(error.into()),
        Err(ReplayRunError::Trace(error)) => Err(anyhow!("{}: {error}", path.display()).into()),
        Err(ReplayRunError::Security(error)) => Err(error.into()),
    }
}

/// Replays a trace, writes the reports, and returns the exit status. `file` is the path given by the user: the trace,
/// or its capture.
pub(super) fn run_and_report(
    file: &Path,
    path: &Path,
    server: &ReplayServerArgs,
    run_args: &ReplayRunOptionArgs,
    seed_mode: SeedMode,
) -> Result<ExitStatus> {
    let started = SystemTime::now();
    let inputs = ProtectedInputFiles::new([file, path].into_iter().chain(run_args.rules.as_deref()));
    let pages = run_args.reports.open(run_args.junit.as_ref(), &inputs)?;
    let replay = match seed_and_run(path, &inputs, server, run_args, seed_mode) {
        Ok(replay) => replay,
        Err(start_error) => {
            let (trace, error) = (file.to_string_lossy(), start_error.to_string());
            pages.write(&[ReplayReportOrRefusal::Refused { trace: &trace, error: &error }], started)?;
            return start_error.report();
        }
    };
    let name = file.to_string_lossy();
    let view = replay.view(&name, server, run_args);
    if !run_args.quiet {
        print_report(run_args.format, &view)?;
    }
    pages.write(&[ReplayReportOrRefusal::Report(Box::new(view))], started)?;
    replay.report_problems(None, run_args.min_coverage);
    replay.check_recording(&run_args.reports)?;
    Ok(replay.exit_status(run_args.min_coverage))
}

/// Writes the requested reports of a capture that cannot be replayed, and returns the error.
pub(super) fn report_refusal(file: &Path, run_args: &ReplayRunOptionArgs, error: anyhow::Error) -> Result<ExitStatus> {
    let started = SystemTime::now();
    let inputs = ProtectedInputFiles::new([file].into_iter().chain(run_args.rules.as_deref()));
    let pages = run_args.reports.open(run_args.junit.as_ref(), &inputs)?;
    let (trace, text) = (file.to_string_lossy(), error.to_string());
    pages.write(&[ReplayReportOrRefusal::Refused { trace: &trace, error: &text }], started)?;
    Err(error)
}

impl FinishedReplay {
    pub(super) fn view<'v>(
        &'v self,
        trace: &'v str,
        server: &'v ReplayServerArgs,
        run_args: &ReplayRunOptionArgs,
    ) -> PrintableReplayReport<'v> {
        PrintableReplayReport {
            trace,
            server: &server.server,
            directory: &self.directory,
            report: &self.report,
            seeded: self.made,
            pace: run_args.pace,
            min_coverage: run_args.min_coverage,
            screen: terminal_capabilities::screen(run_args.color),
        }
    }

    /// Returns an error if the requested recording was not finished.
    pub(super) fn check_recording(&self, reports: &ReplayOutputArgs) -> Result<()> {
        match (&self.report.recording, &reports.record) {
            (Some(Err(error)), Some(path)) => {
                bail!("{}: the recording was not finished: {error}; write elsewhere", path.display())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn exit_status(&self, min_coverage: f64) -> ExitStatus {
        match exit_status(&self.report, min_coverage) {
            // The server may break the protocol at a call of the removal, or find that the program does.
            ExitStatus::Done if !self.not_removed.is_empty() => {
                let is_fault = |status: &ExitStatus| matches!(status, ExitStatus::Differs | ExitStatus::OwnFault);
                let mut statuses = self.not_removed.iter().map(ReplayStartError::exit_status);
                statuses.find(is_fault).unwrap_or(ExitStatus::Uncovered)
            }
            status => status,
        }
    }

    /// Reports faults of this program, and reasons why the result is incomplete. Each line begins with the name of the
    /// capture, if that is given.
    pub(super) fn report_problems(&self, capture: Option<&str>, min_coverage: f64) {
        let report_error = |error: &dyn fmt::Display| {
            let error = error.to_string();
            report_error(capture.map_or_else(|| error.clone(), |capture| with_capture(capture, &error)));
        };
        if let Some(shortfall) = self.report.shortfall(min_coverage)
            && exit_status(&self.report, min_coverage) == ExitStatus::Uncovered
            && !self.report.end.is_interrupted
        {
            report_error(&shortfall);
        }
        if let Some(limit) = self.report.end.limit {
            let seconds = limit.as_secs_f64();
            report_error(&format!("the run was stopped after {seconds} s; --max-time changes the limit"));
        }
        if let Some(reason) = &self.report.end.unreachable {
            report_error(&format!("{reason}; the run was aborted"));
        }
        if let Some(reason) = &self.report.end.silent_program {
            report_error(&format!("{reason}; its calls were not replayed"));
        }
        self.not_removed.iter().for_each(|error| report_error(error));
        for line in own_error_lines(&self.report.protocol.own) {
            report_error(&line);
        }
    }
}

/// Returns a line for each kind of protocol error of this program: the first of it, and the number of others. Errors
/// are alike if the operation and the status are.
fn own_error_lines(errors: &[String]) -> Vec<String> {
    let kind = |error: &str| {
        let title = error.split_once(" of frame ").map_or(error, |(title, _)| title).to_owned();
        (title, error.rsplit_once(": ").map_or("", |(_, status)| status).to_owned())
    };
    let mut kinds: Vec<((String, String), &String, u64)> = Vec::new();
    for error in errors {
        let error_kind = kind(error);
        match kinds.iter_mut().find(|(other, ..)| *other == error_kind) {
            Some((_, _, count)) => *count += 1,
            None => kinds.push((error_kind, error, 1)),
        }
    }
    let lines = kinds.into_iter().map(|(_, first, count)| match count {
        1 => format!("{first}: protocol error by this program"),
        _ => format!("{first}: protocol error by this program; {} alike", PluralCount(count - 1, "other")),
    });
    lines.collect()
}

/// Returns the exit status after a replay.
pub(super) fn exit_status(report: &ReplayReport, min_coverage: f64) -> ExitStatus {
    match report {
        _ if !report.protocol.own.is_empty() => ExitStatus::OwnFault,
        _ if report.end.unreachable.is_some() || report.end.silent_program.is_some() => ExitStatus::Unreachable,
        _ if report.is_different() => ExitStatus::Differs,
        _ if report.end.is_interrupted => ExitStatus::Uncovered,
        _ if report.shortfall(min_coverage).is_some() => ExitStatus::Uncovered,
        _ => ExitStatus::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_replay::run::StepCounts;
    use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;

    /// Returns a report with `matched` matched and `unreplayable` unreplayable steps.
    fn report(matched: u64, unreplayable: u64, walked: Option<FinalTreeCheckReport>) -> ReplayReport {
        let states = StepCounts { matched, unreplayable, ..StepCounts::default() };
        let mut report = ReplayReport { tree_check: walked, ..ReplayReport::default() };
        (report.steps.total, report.steps.states) = (matched + unreplayable, states);
        report
    }

    #[test]
    fn similar_errors_of_this_program_are_one_line() {
        let errors = [
            "NFS 4.2 READ of frame 7: NFS4ERR_BADSESSION",
            "NFS 4.2 READ of frame 9: NFS4ERR_BADSESSION",
            "NFS 4.2 READ of frame 11: NFS4ERR_BADXDR",
            "NFS 4.2 READ of frame 12: NFS4ERR_BADSESSION",
        ];
        let lines = own_error_lines(&errors.map(str::to_owned));
        let of = "protocol error by this program";
        assert_eq!(lines[0], format!("{}: {of}; 2 others alike", errors[0]));
        assert_eq!(lines[1..], [format!("{}: {of}", errors[2])]);
    }

    #[test]
    fn a_run_that_replayed_next_to_nothing_is_no_success() {
        assert_eq!(exit_status(&report(665, 0, None), DEFAULT_MIN_COVERAGE), ExitStatus::Done);
        assert_eq!(exit_status(&report(1, 664, None), DEFAULT_MIN_COVERAGE), ExitStatus::Uncovered);
        for asked in [0.0, DEFAULT_MIN_COVERAGE] {
            assert_eq!(exit_status(&report(0, 665, None), asked), ExitStatus::Uncovered);
            assert_eq!(exit_status(&report(0, 0, None), asked), ExitStatus::Uncovered);
        }
        assert_eq!(exit_status(&report(1, 664, None), 0.0), ExitStatus::Done);
    }

    #[test]
    fn a_final_check_that_failed_or_covered_too_little_is_no_success() {
        let whole = FinalTreeCheckReport {
            names: 10,
            objects: 10,
            bytes: 1000,
            written_bytes: 1000,
            ..FinalTreeCheckReport::default()
        };
        let of = |walked: FinalTreeCheckReport, asked| exit_status(&report(10, 0, Some(walked)), asked);
        assert_eq!(of(whole.clone(), 100.0), ExitStatus::Done);
        let failed = FinalTreeCheckReport { failed: Some("the connection went away".into()), ..whole.clone() };
        assert_eq!(of(failed.clone(), 0.0), ExitStatus::Uncovered);
        // Differences found before the failure take precedence.
        assert_eq!(of(FinalTreeCheckReport { differing: 1, ..failed }, 0.0), ExitStatus::Differs);
        let unread = FinalTreeCheckReport { bytes: 0, written_bytes: 229 << 10, ..whole.clone() };
        assert_eq!(of(unread.clone(), DEFAULT_MIN_COVERAGE), ExitStatus::Uncovered);
        assert_eq!(of(unread, 0.0), ExitStatus::Done);
        assert_eq!(of(FinalTreeCheckReport { left_out: 30, ..whole }, DEFAULT_MIN_COVERAGE), ExitStatus::Uncovered);
        assert_eq!(of(FinalTreeCheckReport::default(), 100.0), ExitStatus::Done);
    }
}
