//! Default command: one line per Transaction or frame, and then a summary.

use std::io::{self, BufWriter, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum, ValueHint};
use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::overdue_calls::OverdueCallDetector;
use nfsrdma_capture_file::{CaptureFrameSource, NextFrame, SourceError};
use nfsrdma_flow::{Flow, FlowLimits, ip_reassembly};
use nfsrdma_output_file::is_standard_output;

use super::bytes::BytesArg;
use super::command_suggestions;
use super::comparison_input::{is_trace, show_trace};
use super::exit_status::ExitStatus;
use super::field_options::{self, TsharkFieldPrintOption};
use super::filehandle_display_option::FilehandleDisplayArgs;
use super::frame_file_output::{self, FrameFileOutput};
#[cfg(feature = "live")]
use super::interfaces;
#[cfg(feature = "live")]
use super::live_capture_options::LiveCaptureOptionArgs;
use super::memory_limit::MemoryArgs;
use super::output_file_creation::can_be_read_again;
use super::progress::ProgressLine;
use super::read_stop_condition::{NoEarlyReadStop, ReadStopCondition};
use super::rpcrdma_dialect::CaptureDialectArgs;
use super::seconds::SecondsArg;
use super::standard_streams::{SOURCE_WAIT, report_error, write_error};
use super::terminal_capabilities::{self, ColorChoice};
use crate::interrupt::ShutdownSignalRegistration;
use crate::output::ViewAndSummaryWriter;
use crate::output::fields_format::TsharkFieldsWriter;
use crate::output::settings::TimeFormat;
use crate::output::settings::{OutputLineFormat, OutputLineUnit, OutputSettings, SummaryFormat};

const LIMITS: &str = "Memory limits";

/// Default age at which a Call without a Reply is reported in live captures.
const DEFAULT_PENDING_AGE: SecondsArg = SecondsArg(5_000_000_000);

/// Arguments of the default command.
#[derive(Debug, Args)]
pub(super) struct DefaultCommandArgs {
    #[cfg(feature = "live")]
    #[command(flatten)]
    live: LiveCaptureOptionArgs,

    /// List the capture interfaces and the traffic each one sees
    #[cfg(feature = "live")]
    #[arg(short = 'D', long, help_heading = "Live capture")]
    list_interfaces: bool,

    /// Capture files, merged by time; '-' is standard input
    ///
    /// Formats: pcap and pcapng, uncompressed or compressed with gzip or zstd.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Read a capture file, like FILE; can be repeated
    #[arg(short = 'r', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    read: Vec<PathBuf>,

    /// Apply a display filter in Wireshark syntax, such as 'nfs.opcode == READ'
    ///
    /// With --view frames, the filter is evaluated for each frame, as in Wireshark; the fields of a message belong to
    /// the frame that completes it. Otherwise it is evaluated for each transaction: all its frames, both messages and
    /// the generated fields (nfsrdma.latency, ...). The summary counts the selected transactions and their frames; with
    /// --view frames, the selected frames and their transactions. Undecoded frames are counted for the whole input.
    /// 'nfsrdma-inspect fields' lists the fields.
    #[arg(short = 'Y', long, value_name = "FILTER")]
    display_filter: Option<String>,

    /// Unit of each output line
    #[arg(long, default_value = "transactions")]
    view: OutputLineUnit,

    /// Show the protocol tree of each line, with all fields
    #[arg(short = 'V', long)]
    tree: bool,

    /// Format of the lines
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: OutputLineFormat,

    /// Print this field with -T fields, csv or json; can be repeated
    ///
    /// 'nfsrdma-inspect fields' lists the fields. With --view frames, a line has the values of the frame and of the
    /// messages that it completes; otherwise those of all frames and both messages of the transaction, without
    /// duplicates. Without -e, csv prints a default set of columns and json prints all fields.
    #[arg(short = 'e', long = "field", value_name = "FIELD")]
    fields: Vec<String>,

    /// Set a field output option, as in tshark: header=y|n, separator=/t|/s|CHAR, quote=d|s|n, occurrence=f|l|a,
    /// aggregator=,|/s|CHAR
    #[arg(short = 'E', long, value_name = "OPTION")]
    layout: Vec<TsharkFieldPrintOption>,

    /// Print a hex and ASCII dump after each line
    ///
    /// The dump of a transaction has the inline part of both messages, and the chunks.
    #[arg(short = 'x', long)]
    bytes: bool,

    /// Apply the conformance rules: mark lines with errors and warnings, and count findings in the summary; comments of
    /// -w name them, too
    ///
    /// -T json and -V show findings without this option. 'nfsrdma-inspect lint' explains them.
    #[arg(long)]
    findings: bool,

    /// Stop after COUNT lines
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<NonZeroUsize>,

    /// Print each line as soon as its reply is acknowledged, for files and pipes too
    ///
    /// This is the default with -i. Otherwise a line is delayed by two seconds of capture time, so that late
    /// retransmissions are counted with their transaction.
    #[arg(short = 'l', long)]
    line_buffered: bool,

    /// Print only the summary
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Write the selected frames to FILE as pcapng, with comments that name their transaction
    ///
    /// '-' is standard output. The frames of a transaction are those with bytes of its call, reply and chunks,
    /// including retransmissions and RDMA Read requests; --control-frames adds acknowledgements. Connection setup is
    /// included, so that Wireshark recognizes the protocols. With --view frames, exactly the selected frames are
    /// written. As in tshark, lines are printed only with -P. Unless -q is given, the numbers of frames written and
    /// read are reported on standard error.
    #[arg(short = 'w', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    write: Option<PathBuf>,

    /// With -w, also write the ACKs, NAKs, CNPs and empty TCP segments of the selected connections
    ///
    /// These frames show which copy of a message was delivered: with them, an analysis of the new file gives the same
    /// latencies as one of the whole capture. Where packets were lost and only some transactions of a connection are
    /// selected, the times of phases and of loss recovery may differ; over TCP and iWARP the latencies, too, because
    /// TCP segments with data of other transactions are not written.
    #[arg(long, requires = "write")]
    control_frames: bool,

    /// Print lines even with -w
    #[arg(short = 'P', long, requires = "write")]
    print: bool,

    /// Report calls without a reply after SECONDS; 0 disables the report [default: 5 with -i]
    ///
    /// Each report is a line with the age of the call as its latency, and the awaited message and slot as its status;
    /// with -T json its kind is 'pending'. The completed transaction is printed later, on its own line. Without -i, age
    /// is measured by frame timestamps. The list of transactions and -T json without -e have reports; other formats and
    /// views have none.
    #[arg(long, value_name = "SECONDS")]
    pending: Option<SecondsArg>,

    /// Timestamp format
    #[arg(short = 't', long = "time-format", alias = "time", value_name = "FORMAT", default_value = "r")]
    time: TimeFormat,

    /// Format of the summary [default: that of the lines]
    #[arg(long, value_name = "FORMAT")]
    summary: Option<SummaryFormat>,

    #[command(flatten)]
    filehandles: FilehandleDisplayArgs,

    /// Accepted for compatibility with tshark: addresses and ports are never resolved; for file names see --filehandles
    #[arg(short = 'n', long = "no-names")]
    _no_names: bool,

    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,

    /// Verify the invariant CRC (ICRC) of each packet, and count errors
    #[arg(long)]
    check_icrc: bool,

    #[command(flatten)]
    dialect: CaptureDialectArgs,

    #[command(flatten)]
    bounds: FlowStateLimitArgs,
}

/// Limits of the state that a capture of any length may cause. The summary counts the state that was dropped at a
/// limit.
#[derive(Debug, Args)]
struct FlowStateLimitArgs {
    #[command(flatten)]
    memory: MemoryArgs,

    /// Maximum number of connections; the longest idle are dropped first
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true,
        default_value_t = non_zero(FlowLimits::default().connections))]
    max_connections: NonZeroUsize,

    /// Maximum number of transactions without a reply; the oldest are dropped first
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true,
        default_value_t = non_zero(FlowLimits::default().open_transactions))]
    max_open_transactions: NonZeroUsize,

    /// Drop calls without a reply after SECONDS [default: at the end of the input]
    #[arg(long, value_name = "SECONDS", help_heading = LIMITS, hide_short_help = true,
        value_parser = SecondsArg::parse_positive)]
    max_call_age: Option<SecondsArg>,

    /// Maximum number of completed transactions kept to recognize late retransmissions
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true,
        default_value_t = non_zero(FlowLimits::default().lingering_transactions))]
    max_lingering_transactions: NonZeroUsize,

    /// Memory for transactions with their messages and chunk lists; completed ones are printed first, then the oldest
    /// [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_message_bytes: Option<BytesArg>,

    /// Maximum number of incomplete connection handshakes
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true,
        default_value_t = non_zero(FlowLimits::default().set_ups))]
    max_handshakes: NonZeroUsize,

    /// Maximum number of TCP streams; the longest idle are dropped first
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true,
        default_value_t = non_zero(FlowLimits::default().streams))]
    max_streams: NonZeroUsize,

    /// Memory for segments after a gap in one TCP stream; then the gap is skipped [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_gap_bytes: Option<BytesArg>,

    /// Memory of all TCP streams, for segments after gaps and incomplete messages [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_stream_bytes: Option<BytesArg>,

    /// Memory for incomplete RDMA messages [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_partial_message_bytes: Option<BytesArg>,

    /// Memory for RDMA packets captured out of order [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_reorder_bytes: Option<BytesArg>,

    /// Memory for IP reassembly [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_fragment_bytes: Option<BytesArg>,

    /// Memory for chunk data that waits to be decoded [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_chunk_bytes: Option<BytesArg>,

    /// With -w, memory for frames whose transaction is not known yet [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = LIMITS, hide_short_help = true)]
    max_write_bytes: Option<BytesArg>,
}

fn non_zero(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

impl DefaultCommandArgs {
    fn limits(&self, memory: &CommandMemoryBudget) -> FlowLimits {
        let limits = memory.limits();
        let bytes = |limit: &Option<BytesArg>, share: usize| {
            limit.map_or(share, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
        };
        let bounds = &self.bounds;
        FlowLimits {
            connections: bounds.max_connections.get(),
            open_transactions: bounds.max_open_transactions.get(),
            call_age_ns: bounds.max_call_age.map(|age| age.0),
            lingering_transactions: bounds.max_lingering_transactions.get(),
            set_ups: bounds.max_handshakes.get(),
            message_bytes: bytes(&bounds.max_message_bytes, limits.message_bytes),
            streams: bounds.max_streams.get(),
            gap_bytes: bytes(&bounds.max_gap_bytes, limits.gap_bytes),
            stream_bytes: bytes(&bounds.max_stream_bytes, limits.stream_bytes),
            partial_message_bytes: bytes(&bounds.max_partial_message_bytes, limits.partial_message_bytes),
            reorder_bytes: bounds.max_reorder_bytes.map_or(limits.reorder_bytes, |bytes| bytes.0),
            fragments: ip_reassembly::IpReassemblyLimits {
                bytes: bytes(&bounds.max_fragment_bytes, limits.fragments.bytes),
                ..limits.fragments
            },
            chunk_content_bytes: bounds.max_chunk_bytes.map_or(limits.chunk_content_bytes, |bytes| bytes.0),
            dialect: self.dialect.selected(),
            check_icrc: self.check_icrc,
            record_transaction_frames: self.write.is_some(),
            name_open_transactions: self.needs_open_names(),
            report_closed_connections: self.view == OutputLineUnit::Connections && !self.quiet,
            emit_on_acknowledgment: self.line_buffered || self.is_live(),
            keep_file_data: (self.tree && !self.view.is_aggregate())
                || (self.bytes && self.view == OutputLineUnit::Transactions),
            ..limits
        }
    }

    /// Returns `true` if the conformance rules are applied, because something shows their findings.
    fn applies_rules(&self, filter: Option<&Filter>) -> bool {
        let is_shown = self.tree || (self.format == OutputLineFormat::Json && self.fields.is_empty());
        self.findings
            || filter.is_some_and(Filter::uses_findings)
            || (is_shown && self.view == OutputLineUnit::Transactions && !self.quiet)
    }

    fn settings(&self, memory: &CommandMemoryBudget, filter: Option<&Filter>) -> OutputSettings {
        OutputSettings {
            format: self.format,
            view: self.view,
            bytes: self.bytes,
            tree: self.tree,
            quiet: self.quiet || (self.write.is_some() && !self.print),
            time: self.time,
            summary: self.summary.unwrap_or(match self.format {
                _ if self.writes_to_standard_output() => SummaryFormat::None,
                OutputLineFormat::Text => SummaryFormat::Text,
                OutputLineFormat::Json if self.fields.is_empty() && self.view == OutputLineUnit::Transactions => {
                    SummaryFormat::Json
                }
                OutputLineFormat::Json if self.quiet => SummaryFormat::Json,
                OutputLineFormat::Json | OutputLineFormat::Fields | OutputLineFormat::Csv => SummaryFormat::None,
            }),
            max_lines: self.max_lines(),
            needs_file_names: self.write.is_some(),
            findings: self.applies_rules(filter),
            icrc: self.check_icrc,
            filehandles: self.filehandles.selected(),
            screen: terminal_capabilities::screen(self.color),
            memory: memory.clone(),
        }
    }

    fn max_lines(&self) -> u64 {
        self.count.map_or(u64::MAX, |count| count.get() as u64)
    }

    fn format_name(&self) -> String {
        self.format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.read.iter().chain(&self.files)
    }

    fn writes_to_standard_output(&self) -> bool {
        self.write.as_deref().is_some_and(is_standard_output)
    }

    /// Returns `true` if an interface is selected.
    fn is_live(&self) -> bool {
        #[cfg(feature = "live")]
        return !self.live.interface.is_empty();
        #[cfg(not(feature = "live"))]
        false
    }

    /// Returns `true` if something shows Transactions before they are emitted, with the files that they name: frames,
    /// filters, Calls in flight.
    fn needs_open_names(&self) -> bool {
        matches!(self.view, OutputLineUnit::Frames | OutputLineUnit::Connections)
            || self.display_filter.is_some()
            || !self.fields.is_empty()
            || self.pending_watch().is_some()
    }

    /// Returns the watch for Calls pending for long, unless reports are disabled.
    fn pending_watch(&self) -> Option<OverdueCallDetector> {
        let age = self.pending.or(self.is_live().then_some(DEFAULT_PENDING_AGE)).filter(|age| age.0 > 0);
        age.map(|age| OverdueCallDetector::new(age.0))
    }

    /// Returns the option that selects lines without reports of pending Calls.
    fn option_without_pending(&self) -> Option<String> {
        let view = self.view.to_possible_value();
        match self.format {
            _ if self.view != OutputLineUnit::Transactions => view.map(|view| format!("--view {}", view.get_name())),
            _ if self.tree => Some("-V".to_owned()),
            OutputLineFormat::Csv | OutputLineFormat::Fields => Some(format!("-T {}", self.format_name())),
            OutputLineFormat::Json if !self.fields.is_empty() => Some("-e".to_owned()),
            OutputLineFormat::Json | OutputLineFormat::Text => None,
        }
    }

    /// Returns `true` if the input may pause, so that output must not be buffered.
    fn may_pause(&self) -> bool {
        self.line_buffered || self.is_live() || !can_be_read_again(self.files())
    }
}

pub(super) fn run(args: &DefaultCommandArgs, definition: fn() -> clap::Command) -> Result<ExitStatus> {
    #[cfg(feature = "live")]
    if args.list_interfaces {
        if args.files().next().is_some() || args.is_live() {
            bail!("-D lists interfaces and reads no capture; omit -D, or the other arguments");
        }
        return interfaces::run();
    }
    if args.files().next().is_none() && !args.is_live() {
        let live_hint = if cfg!(feature = "live") { ", or an interface with -i" } else { "" };
        bail!("no capture file given; name one, or '-' for standard input{live_hint}; see --help");
    }
    if args.tree && args.format != OutputLineFormat::Text {
        bail!("-V prints text and cannot be combined with -T {}; omit one of them", args.format_name());
    }
    if args.bytes && args.format != OutputLineFormat::Text {
        bail!("-x prints text and cannot be combined with -T {}; omit one of them", args.format_name());
    }
    if args.view.is_aggregate() {
        let view = args.view.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        if args.bytes || (args.tree && args.view == OutputLineUnit::Operations) {
            bail!("--view {view} has neither a tree nor bytes; omit -V and -x");
        }
        if args.format == OutputLineFormat::Fields || !args.fields.is_empty() || !args.layout.is_empty() {
            bail!("--view {view} has fixed columns; use -T csv or json, without -e and -E");
        }
    }
    if args.quiet
        && matches!(args.format, OutputLineFormat::Csv | OutputLineFormat::Fields)
        && args.write.is_none()
        && args.summary.is_none_or(|format| format == SummaryFormat::None)
    {
        bail!("-q omits lines, and -T {} has no summary; omit -q, or add --summary text", args.format_name());
    }
    if args.pending.is_some_and(|age| age.0 > 0)
        && let Some(option) = args.option_without_pending()
    {
        bail!("--pending applies to the list of transactions and to -T json; omit it, or {option}");
    }
    if args.writes_to_standard_output() && (args.print || args.summary.is_some_and(|s| s != SummaryFormat::None)) {
        bail!("-w - writes a capture to standard output; give -w a file, or omit -P and --summary");
    }
    let filter = match args.display_filter.as_deref().map(Filter::parse).transpose() {
        Ok(filter) => filter,
        Err(error) => bail!("-Y: {error}"),
    };
    let (filter, fields) = field_options::lines(args.format, args.view, &args.fields, &args.layout, filter)?;
    let fields = match args.time {
        TimeFormat::Iso => fields.map(TsharkFieldsWriter::with_iso_time),
        _ => fields,
    };
    let files: Vec<&PathBuf> = args.files().collect();
    if args.control_frames && args.view == OutputLineUnit::Frames {
        bail!("--control-frames applies to transactions; with --view frames, select frames with -Y");
    }
    if args.view == OutputLineUnit::Frames && filter.as_ref().is_some_and(Filter::uses_findings) {
        bail!("nfsrdma.finding is a field of transactions; omit --view frames, or list the frames with 'lint'");
    }
    let memory = &CommandMemoryBudget::for_command(args.bounds.memory.limit_bytes()?, files.iter().copied(), 1);
    if let Some(trace) = files.iter().find(|file| is_trace(file)) {
        if files.len() > 1
            || args.is_live()
            || args.write.is_some()
            || args.view == OutputLineUnit::Frames
            || fields.is_some()
        {
            bail!(
                "{}: a trace has no frames: -i, -w, --view frames, -e and further files are not supported",
                trace.display()
            );
        }
        if args.findings || filter.as_ref().is_some_and(Filter::uses_findings) {
            bail!(
                "{}: conformance rules judge packets, and a trace has none: --findings and nfsrdma.finding need the capture",
                trace.display()
            );
        }
        let settings = OutputSettings { findings: false, ..args.settings(memory, filter.as_ref()) };
        return show_trace(trace, settings, filter, args.max_lines());
    }
    let buffer_bytes =
        args.bounds.max_write_bytes.map_or(memory.view_bytes(), |bytes| bytes.0.try_into().unwrap_or(usize::MAX));
    let write = || {
        args.write
            .as_ref()
            .map(|to| {
                frame_file_output::open(to, &files, args.view, (buffer_bytes, memory.windows()), args.control_frames)
            })
            .transpose()
    };
    #[cfg(feature = "live")]
    if args.is_live() {
        if !files.is_empty() {
            bail!("-i cannot be combined with capture files; omit one of them");
        }
        args.live.reject_file_conditions()?;
        let opened = args.live.open()?;
        let frame_file = args.live.drop_privileges(false, write)?;
        let (mut source, mut session) = args.live.start(opened, false)?;
        let errors = show(args, memory, (filter, fields), &mut source, frame_file, &mut session)?;
        return Ok(report_errors(&errors));
    }
    #[cfg(feature = "live")]
    args.live.reject_for_files()?;
    if let Some(advice) = args.files.first().and_then(|first| command_suggestions::command(definition, first)) {
        bail!("{advice}");
    }
    if args.write.is_none() || files.iter().all(|file| file.is_file()) {
        let mut source = CaptureFrameSource::open_within(args.files(), memory.windows())?;
        let errors = show(args, memory, (filter, fields), &mut source, write()?, &mut NoEarlyReadStop)?;
        return Ok(report_errors(&errors));
    }
    // If Ctrl-C ends `ssh HOST tcpdump | nfsrdma-inspect -w FILE -`, the frames received so far are written.
    let mut shutdown = ShutdownSignalRegistration::inactive()?;
    let mut source =
        CaptureFrameSource::open_wrapped(args.files(), memory.windows(), |file| Box::new(shutdown.input(file)))?;
    let frame_file = write()?;
    shutdown.activate()?;
    let errors = show(args, memory, (filter, fields), &mut source, frame_file, &mut shutdown)?;
    Ok(report_errors(&errors))
}

fn report_errors(errors: &[SourceError]) -> ExitStatus {
    for error in errors {
        report_error(error);
    }
    if errors.is_empty() { ExitStatus::Done } else { ExitStatus::Failed }
}

/// Reads to the end and shows everything; returns the errors of the files.
fn show(
    args: &DefaultCommandArgs,
    memory: &CommandMemoryBudget,
    (filter, fields): (Option<Filter>, Option<TsharkFieldsWriter>),
    source: &mut CaptureFrameSource,
    mut frame_file: Option<FrameFileOutput>,
    stop_condition: &mut impl ReadStopCondition,
) -> Result<Vec<SourceError>> {
    let settings = args.settings(memory, filter.as_ref());
    let limits = FlowLimits { record_transport_events: settings.findings, ..args.limits(memory) };
    let mut flow = Flow::new(limits.clone());
    let mut progress = ProgressLine::new();
    let writer = BufWriter::with_capacity(64 << 10, progress.stdout());
    let mut output = ViewAndSummaryWriter::new(settings, writer).with_filter(filter).with_fields(fields);
    let flush_each = args.may_pause();
    let flush_often = io::stdout().is_terminal();
    let max_lines = args.max_lines();
    let has_frame_lines = args.view == OutputLineUnit::Frames;
    let mut pending = args.pending_watch();
    if pending.is_some() && !limits.emit_on_acknowledgment {
        output = output.with_early_names();
    }
    let mut errors = Vec::new();
    let mut has_frames = false;
    let mut is_over = false;
    let mut is_at_end = false;
    while !is_over && output.lines() < max_lines {
        let mut is_idle = false;
        match source.next_within(SOURCE_WAIT) {
            Ok(NextFrame::Frame(frame)) => {
                has_frames = true;
                is_over = stop_condition.frame(frame.time);
                let is_known = frame.link.is_known();
                let is_shown = output.frame(&frame, &mut flow).map_err(write_error)?;
                // The transactions of the frames shown count.
                is_over |= has_frame_lines && output.lines() >= max_lines;
                if let Some(frame_file) = &mut frame_file {
                    frame_file.frame(source, &flow, is_shown)?;
                    frame_file.pending(&mut output, &flow);
                }
                if !is_known {
                    errors.extend(source.unknown_link());
                }
            }
            Ok(NextFrame::Nothing) => {
                flow.advance_time(stop_condition.idle());
                output.record_events(&flow);
                if let Some(frame_file) = &mut frame_file {
                    frame_file.pending(&mut output, &flow);
                }
                is_idle = true;
            }
            Ok(NextFrame::End) => (is_over, is_at_end) = (true, true),
            // The other files are still read.
            Err(error) => errors.push(error),
        }
        if is_over {
            output.partial_calls(&flow);
            flow.finish();
            output.record_events(&flow);
        }
        while (has_frame_lines || output.lines() < max_lines)
            && let Some((key, transaction)) = flow.next_with_key()
        {
            let is_shown = output.transaction(key, &transaction).map_err(write_error)?;
            if let Some(frame_file) = &mut frame_file {
                frame_file.transaction(key, &transaction, output.paths(), output.findings(), is_shown);
            }
        }
        if let Some(frame_file) = &mut frame_file {
            frame_file.grow(&flow)?;
        }
        output.write_closed_connections(&mut flow).map_err(write_error)?;
        // At the end, each pending Call has a line as a Transaction.
        if let Some(watch) = &mut pending
            && watch.is_due(flow.now())
            && !is_over
        {
            for (call, age_ns) in watch.take(&flow, flow.now()) {
                output.pending(&call, age_ns).map_err(write_error)?;
            }
        }
        if flush_each {
            output.flush().map_err(write_error)?;
        }
        if progress.is_due(is_idle) {
            if flush_often {
                output.flush().map_err(write_error)?;
            }
            progress.draw_source(source, output.transactions());
        }
    }
    if output.dropped_frames() > 0 {
        report_error(format_args!(
            "{}: values of {} frames were dropped from memory because their transactions stayed open too long; a \
             transaction may be missing from the output",
            if args.display_filter.is_some() { "-Y" } else { "-e" },
            output.dropped_frames()
        ));
    }
    // If the input is not a capture, there is no summary and nothing to write: an older file stays.
    let is_capture = has_frames || errors.is_empty() || args.is_live();
    if is_capture {
        let counters = source.counters();
        // Packets after the last requested packet or line do not count.
        let counters = if is_at_end { counters } else { counters.map(|counters| counters.without_pending()) };
        if !is_at_end && output.lines() >= max_lines {
            output.set_stopped_after(max_lines);
        }
        output.finish(&flow, source.dropped(), counters).map_err(write_error)?;
    }
    if stop_condition.has_ended_inputs() {
        errors.retain(|error| !error.kind().is_truncated());
    }
    if let Some(frame_file) = frame_file.filter(|_| is_capture) {
        frame_file.finish(&mut flow, errors.is_empty(), args.quiet).inspect_err(|_| _ = report_errors(&errors))?;
    }
    Ok(errors)
}
