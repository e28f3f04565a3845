//! `lint`: conformance findings of captures or live traffic.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueHint};
use nfsrdma_analysis::conformance::report::ConformanceFindingsReport;
use nfsrdma_analysis::conformance::selection::{FindingSelectionPattern, LintConfig};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_capture_file::{CaptureFrameSource, NextFrame, SourceError};
use nfsrdma_conformance::{ConformanceChecker, Finding, FindingGranularity, RULES, Rule};
use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_output_file::ProtectedInputFiles;
use nfsrdma_text::os_error_text;

use super::exit_status::ExitStatus;
#[cfg(feature = "live")]
use super::live_capture_options::LiveCaptureOptionArgs;
use super::memory_limit::MemoryArgs;
use super::output_file_creation;
use super::progress::ProgressLine;
use super::read_stop_condition::{NoEarlyReadStop, ReadStopCondition};
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::standard_streams::{SOURCE_WAIT, report_error, write_error};
use super::terminal_capabilities::{self, ColorChoice};
use crate::output::lint;
use crate::output::settings::ReportFormat;
use crate::output::units::PluralCount;

/// Default number of findings shown per rule.
const DEFAULT_SHOWN_FINDINGS: usize = 5;

/// Maximum width of an explanation in columns.
const EXPLANATION_WIDTH: usize = 100;

const EXAMPLES: &str = "  nfsrdma-inspect lint capture.pcap                  findings by rule
  nfsrdma-inspect lint --deny error capture.pcap     exit code 1 if a requirement is broken
  nfsrdma-inspect lint --deny 'rpcrdma/*' --allow rpcrdma/port --junit report.xml *.pcap
                                                     for CI
  nfsrdma-inspect lint --explain rpcrdma/credit-zero what the rule requires, and why
  nfsrdma-inspect lint -T json capture.pcap | jq 'select(.severity == \"error\")'
  nfsrdma-inspect lint -i eth0                       findings as they occur
";

/// Check captures or live traffic against the RFCs
///
/// Each finding names the rule, its section, the side that broke it, the frames and the values. Severities are error (a
/// requirement is broken), warning (a recommendation is not followed, or a problem is likely), known (the deviation of
/// a known implementation) and info. A rule is not judged without the evidence that it needs, such as the set-up of the
/// connection; the summary counts that. See docs/conformance.md.
#[derive(Debug, Args)]
#[command(after_long_help = format!("Examples:\n{EXAMPLES}\nExit codes:\n  0  nothing denied was found\n  1  \
    something denied was found\n  2  usage error, read error, or nothing to judge\n"))]
pub(super) struct LintArgs {
    /// Capture files, merged by time; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Fail if these are found: severities, rules, or patterns such as 'rpcrdma/*'
    ///
    /// A pattern with '*' denies errors and warnings; the id of a rule denies its infos, too. Deviations of known
    /// implementations fail with --deny known only.
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    deny: Vec<FindingSelectionPattern>,

    /// Do not report these: severities, rules, or patterns
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    allow: Vec<FindingSelectionPattern>,

    /// TOML file with deny, allow and known implementations (docs/conformance.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,

    /// List the rules
    #[arg(long, conflicts_with_all = ["files", "explain"])]
    list: bool,

    /// Explain a rule, or the rules that match a pattern such as 'rpcrdma/*'
    #[arg(long, value_name = "ID", conflicts_with = "files")]
    explain: Option<String>,

    /// Write a JUnit XML report: one suite per group, one case per rule
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    /// Check the ICRC of each packet, which transport/icrc needs
    #[arg(long)]
    check_icrc: bool,

    /// Show at most COUNT findings per rule [default: 5, with -T json all]; all are counted
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<usize>,

    /// Print nothing; only set the exit code
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Output format
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,

    #[command(flatten)]
    memory: MemoryArgs,

    #[command(flatten)]
    dialect: CaptureDialectArgs,

    #[cfg(feature = "live")]
    #[command(flatten)]
    live: LiveCaptureOptionArgs,
}

impl LintArgs {
    /// Returns `true` if an interface is selected.
    fn is_live(&self) -> bool {
        #[cfg(feature = "live")]
        return !self.live.interface.is_empty();
        #[cfg(not(feature = "live"))]
        false
    }

    fn config(&self) -> Result<LintConfig> {
        let mut config = match &self.config {
            None => LintConfig::default(),
            Some(path) => {
                let name = path.display();
                let text =
                    fs::read_to_string(path).map_err(|error| anyhow!("--config {name}: {}", os_error_text(&error)))?;
                LintConfig::from_toml(&text).map_err(|error| anyhow!("--config {name}: {error}"))?
            }
        };
        config.deny.extend(self.deny.iter().cloned());
        config.allow.extend(self.allow.iter().cloned());
        Ok(config)
    }

    fn limits(&self, memory: &CommandMemoryBudget) -> FlowLimits {
        FlowLimits {
            dialect: self.dialect.selected(),
            check_icrc: self.check_icrc,
            record_transport_events: true,
            emit_on_acknowledgment: self.is_live(),
            ..memory.limits()
        }
    }
}

pub(super) fn run(args: &LintArgs) -> Result<ExitStatus> {
    if args.list || args.explain.is_some() {
        return show_rules(args);
    }
    if args.files.is_empty() && !args.is_live() {
        bail!("no capture file given; name one, or '-' for standard input; --list shows the rules");
    }
    let config = args.config()?;
    let memory = CommandMemoryBudget::for_command(args.memory.limit_bytes()?, &args.files, 1);
    let inputs = ProtectedInputFiles::new(args.files.iter().cloned().chain(args.config.clone()));
    let junit = output_file_creation::create_report("--junit", args.junit.as_ref(), &inputs)?;
    let started = SystemTime::now();
    let input = || {
        #[cfg(feature = "live")]
        if args.is_live() {
            if !args.files.is_empty() {
                bail!("-i cannot be combined with capture files; omit one of them");
            }
            let opened = args.live.open()?;
            args.live.drop_privileges(false, || Ok(()))?;
            let (mut source, mut session) = args.live.start(opened, args.quiet)?;
            return read(args, &config, &memory, &mut source, &mut session);
        }
        #[cfg(feature = "live")]
        args.live.reject_for_files()?;
        let mut source = CaptureFrameSource::open_within(&args.files, memory.windows())?;
        read(args, &config, &memory, &mut source, &mut NoEarlyReadStop)
    };
    let write_junit = |report: &ConformanceFindingsReport, errors: &[String]| match junit {
        Some(to) => {
            let screen = terminal_capabilities::screen(args.color);
            output_file_creation::write_and_commit(to, |to| lint::junit(to, report, errors, &screen, started))
        }
        None => Ok(()),
    };
    let (report, errors) = match input() {
        Ok(read) => read,
        Err(error) => {
            // An older report would be taken for that of this capture.
            if let Err(junit_error) = write_junit(&ConformanceFindingsReport::new(0), &[error.to_string()]) {
                report_error(junit_error);
            }
            return Err(error);
        }
    };
    for error in &errors {
        report_error(error);
    }
    write_junit(&report, &errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    // Without a judgement, success would certify a capture of the wrong interface.
    if errors.is_empty() && report.is_empty() {
        bail!("nothing to judge: no RPC-over-RDMA or NFS traffic in {}", PluralCount(report.frames, "frame"));
    }
    Ok(match report.denied() {
        _ if !errors.is_empty() => ExitStatus::Failed,
        0 => ExitStatus::Done,
        _ => ExitStatus::Differs,
    })
}

/// Lists the rules, or explains some.
fn show_rules(args: &LintArgs) -> Result<ExitStatus> {
    let rules: Vec<&'static Rule> = match &args.explain {
        None => RULES.to_vec(),
        Some(id) => match id.parse() {
            Ok(pattern @ FindingSelectionPattern::Rules(_)) => {
                RULES.iter().copied().filter(|rule| pattern.names(rule)).collect()
            }
            Ok(FindingSelectionPattern::Severity(_)) | Err(_) => {
                bail!("--explain {id}: no such rule; {}", rule_proposal(id))
            }
        },
    };
    let mut to = BufWriter::new(std::io::stdout());
    match args.format {
        ReportFormat::Json => lint::json_rules(&mut to, &rules),
        ReportFormat::Text if args.list => lint::list(&mut to, &rules),
        ReportFormat::Text => {
            let width =
                terminal_capabilities::screen(args.color).width.unwrap_or(EXPLANATION_WIDTH).min(EXPLANATION_WIDTH);
            lint::explain(&mut to, &rules, width)
        }
    }
    .map_err(write_error)?;
    to.flush().map_err(write_error)?;
    Ok(ExitStatus::Done)
}

/// Maximum number of rules that an error proposes.
const MAX_PROPOSALS: usize = 4;

/// Proposes the rules that contain a text, such as a name without its group.
fn rule_proposal(text: &str) -> String {
    let query = text.to_ascii_lowercase();
    let similar = RULES.iter().map(|rule| rule.id).filter(|id| !query.is_empty() && id.contains(&query));
    let proposals: Vec<&str> = similar.collect();
    match proposals.len() {
        1..=MAX_PROPOSALS => format!("did you mean {}?", proposals.join(", ")),
        _ => "--list shows all rules".to_owned(),
    }
}

/// Output of findings as they are made.
struct FindingWriter<'a, W> {
    args: &'a LintArgs,
    config: &'a LintConfig,
    report: ConformanceFindingsReport,
    to: W,
    /// Numbers of findings shown, by rule.
    shown: BTreeMap<&'static str, usize>,
}

impl<W: Write> FindingWriter<'_, W> {
    /// Adds findings to the report, and shows them if the format does so one by one.
    fn add(&mut self, findings: Vec<Finding>) -> Result<()> {
        for mut finding in findings {
            self.config.apply_known(&mut finding);
            if !self.config.reports(&finding) {
                continue;
            }
            // The first violation of a rule about connections was announced; the report has the total.
            let is_announced = finding.rule.scope == FindingGranularity::Connection;
            if !self.args.quiet && self.has_room(&finding) {
                match self.args.format {
                    ReportFormat::Json => lint::json_line(&mut self.to, &finding, false),
                    ReportFormat::Text if self.args.is_live() && !is_announced => {
                        lint::text_line(&mut self.to, &finding, &terminal_capabilities::screen(self.args.color))
                    }
                    ReportFormat::Text => Ok(()),
                }
                .map_err(write_error)?;
                *self.shown.entry(finding.rule.id).or_default() += 1;
            }
            let is_denied = self.config.denies(&finding);
            self.report.add(finding, is_denied);
        }
        Ok(())
    }

    /// Shows the first violations of rules about connections, whose totals follow at the end.
    fn announce(&mut self, findings: Vec<Finding>) -> Result<()> {
        for mut finding in findings {
            self.config.apply_known(&mut finding);
            if self.args.quiet || !self.config.reports(&finding) || !self.has_room(&finding) {
                continue;
            }
            match self.args.format {
                ReportFormat::Json => lint::json_line(&mut self.to, &finding, true),
                ReportFormat::Text => {
                    lint::text_line(&mut self.to, &finding, &terminal_capabilities::screen(self.args.color))
                }
            }
            .map_err(write_error)?;
        }
        Ok(())
    }

    /// Returns `true` if fewer findings of the rule were shown than `-c` permits. In text, it limits the report only.
    fn has_room(&self, finding: &Finding) -> bool {
        let shown_count = self.shown.get(finding.rule.id).copied().unwrap_or(0);
        self.args.format == ReportFormat::Text || self.args.count.is_none_or(|count| shown_count < count)
    }
}

/// Reads to the end and shows the findings; returns them with the errors of the files.
fn read(
    args: &LintArgs,
    config: &LintConfig,
    memory: &CommandMemoryBudget,
    source: &mut CaptureFrameSource,
    control: &mut impl ReadStopCondition,
) -> Result<(ConformanceFindingsReport, Vec<SourceError>)> {
    let mut flow = Flow::new(args.limits(memory));
    let mut checker = ConformanceChecker::new();
    if args.is_live() {
        checker = checker.with_first_violations();
    }
    let mut progress = ProgressLine::new();
    let mut output = FindingWriter {
        args,
        config,
        report: ConformanceFindingsReport::new(args.count.unwrap_or(DEFAULT_SHOWN_FINDINGS)),
        to: BufWriter::new(progress.stdout()),
        shown: BTreeMap::new(),
    };
    let mut errors = Vec::new();
    let mut is_over = false;
    while !is_over {
        let mut is_idle = false;
        match source.next_within(SOURCE_WAIT) {
            Ok(NextFrame::Frame(frame)) => {
                is_over = control.frame(frame.time);
                output.report.frames += 1;
                flow.process_frame(&frame);
                checker.record_events(&flow);
                if !frame.link.is_known() {
                    errors.extend(source.unknown_link());
                }
            }
            Ok(NextFrame::Nothing) => {
                flow.advance_time(control.idle());
                checker.record_events(&flow);
                is_idle = true;
            }
            Ok(NextFrame::End) => is_over = true,
            Err(error) => errors.push(error),
        }
        if is_over {
            flow.finish();
            checker.record_events(&flow);
        }
        while let Some((key, transaction)) = flow.next_with_key() {
            output.report.transactions += 1;
            let findings = transaction.with_messages(|messages| {
                // The summary is made from the operations that the rules need.
                messages.compound();
                let summary = messages.summary();
                checker.check_transaction(Some(key), &transaction, messages, &summary)
            });
            output.add(findings)?;
        }
        if checker.has_findings() {
            output.add(checker.take_ready())?;
            output.announce(checker.take_first())?;
        }
        if args.is_live() {
            output.to.flush().map_err(write_error)?;
        }
        if progress.is_due(is_idle) {
            progress.draw_source(source, output.report.transactions);
        }
    }
    output.add(checker.finish())?;
    let FindingWriter { mut report, mut to, .. } = output;
    report.finish(&checker, &flow, args.check_icrc);
    if report.frames == 0 && !errors.is_empty() {
        return Ok((report, errors));
    }
    if !args.quiet {
        match args.format {
            ReportFormat::Text => lint::text(&mut to, &report, &terminal_capabilities::screen(args.color)),
            ReportFormat::Json => lint::json_summary(&mut to, &report),
        }
        .map_err(write_error)?;
    }
    to.flush().map_err(write_error)?;
    Ok((report, errors))
}
