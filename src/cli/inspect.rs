//! The default command: one line a Transaction, or a frame, and then a summary.

use std::fs;
use std::io::{self, BufWriter, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum, ValueHint};
use nfsrdma_dissectors::flow::{Flow, FlowLimits, ip_reassembly};
use nfsrdma_dissectors::frame::Timestamp;

use super::bytes::BytesArg;
use super::command_suggestions;
use super::dialect::DialectArgs;
use super::field_options::{self, FieldLayoutOption};
use super::frame_file_output::{self, FrameFileOutput};
#[cfg(feature = "live")]
use super::interfaces;
#[cfg(feature = "live")]
use super::live::{AutostopCondition, LiveArgs, LiveCaptureSession};
use super::memory::MemoryArgs;
use super::progress::ProgressLine;
use super::record_reader::{is_trace, show_trace};
use super::seconds::SecondsArg;
use super::style::{self, Color};
use super::{ExitStatus, PATIENCE, complain, unwritten};
use crate::analysis::pending::PendingWatch;
use crate::filter::Filter;
use crate::interrupt::GracefulShutdown;
use crate::memory::Memory;
use crate::output::fields_format::FieldLines;
use crate::output::{Filehandles, LineFormat, LineView, Output, OutputSettings, SummaryFormat, TimeFormat};
use crate::output_file::is_standard_output;
use crate::source::{CaptureSource, NextFrame, SourceError};

const BOUNDS: &str = "Bounds of memory";

/// Age from which on a Call without a Reply is reported while frames are captured.
const PENDING: SecondsArg = SecondsArg(5_000_000_000);

/// Arguments of the default command.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    #[cfg(feature = "live")]
    #[command(flatten)]
    live: LiveArgs,

    /// List the interfaces that can be captured on, and what each can see
    #[cfg(feature = "live")]
    #[arg(short = 'D', long, help_heading = "Live capture")]
    list_interfaces: bool,

    /// Capture files, merged by time; '-' is standard input
    ///
    /// pcap or pcapng, plain or compressed with gzip or zstd.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Capture file, the same as FILE; may be given again
    #[arg(short = 'r', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    read: Vec<PathBuf>,

    /// Show what a display filter selects, in Wireshark's language: -Y 'nfs.opcode == READ'
    ///
    /// With --view frames the filter decides frame by frame, as in Wireshark; the fields of a message count for the frame
    /// that completes it. Otherwise it decides by the Transaction as a whole: any of its frames, both of its messages, and
    /// what is known of it (nfsrdma.latency, ...). The summary counts what is selected: Transactions and their frames; with
    /// --view frames the frames, and the Transactions that one of them belongs to. What could not be decoded is counted of
    /// the whole input. 'nfsrdma-inspect fields' lists the fields.
    #[arg(short = 'Y', long, value_name = "FILTER")]
    display_filter: Option<String>,

    /// What a line is
    #[arg(long, default_value = "transactions")]
    view: LineView,

    /// Show each line with its whole tree, down to the last field
    #[arg(short = 'V', long)]
    tree: bool,

    /// Form of the lines
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: LineFormat,

    /// Show the values of this field, with -T fields, csv or json; may be given again
    ///
    /// 'nfsrdma-inspect fields' lists them. With --view frames a line has what the frame has, and what the messages have that
    /// it completes; otherwise what all frames and both messages of the Transaction have, equal values once. Without -e, csv
    /// has a table of what there is to know first, and json everything.
    #[arg(short = 'e', long = "field", value_name = "FIELD")]
    fields: Vec<String>,

    /// How fields are written, as in tshark: header=y|n, separator=/t|/s|LETTER, quote=d|s|n, occurrence=f|l|a,
    /// aggregator=,|/s|LETTER
    #[arg(short = 'E', long, value_name = "OPTION")]
    layout: Vec<FieldLayoutOption>,

    /// Follow each line with its bytes, in hexadecimal and as text
    ///
    /// Of a Transaction: both messages as they went inline, and the chunks.
    #[arg(short = 'x', long)]
    bytes: bool,

    /// Stop after COUNT lines
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<NonZeroUsize>,

    /// Give each line out at once, also from a file or a pipe, when its Reply was acknowledged
    ///
    /// So it is with -i. Else a line waits until no late copy of its messages can come any more, for two seconds of the
    /// capture's time, and a copy that comes later than an acknowledgement still counts with it.
    #[arg(short = 'l', long)]
    line_buffered: bool,

    /// Leave out the lines, and show the summary alone
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Write the frames of what is shown to FILE as pcapng, each with comments that say what it is to which Transaction
    ///
    /// '-' is standard output. The frames of a Transaction are those that carry bytes of its Call, its Reply and its chunks,
    /// copies included, and requests for bytes; for acknowledgements add --control-frames. What sets connections up is written with
    /// them, so that Wireshark knows what they carry. With --view frames all frames that are shown are written, and no others. As in
    /// tshark, lines are shown only with -P. A line on standard error says how many frames were written, unless -q leaves it out.
    #[arg(short = 'w', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    write: Option<PathBuf>,

    /// With -w, also write the ACKs, NAKs, CNPs and empty TCP segments of the connections that are written
    ///
    /// They show which copy of a message was delivered, and how long recovery took: with them, an analysis of the new file gives the
    /// same times as one of the whole capture.
    #[arg(long, requires = "write")]
    control_frames: bool,

    /// With -w, show lines too
    #[arg(short = 'P', long, requires = "write")]
    print: bool,

    /// Report a Call that has had no Reply for this long, on a line of its own; 0 reports none [default: 5 with -i]
    ///
    /// The line is that of the Transaction so far, with its age for a latency, and in the place of its status what it waits for and
    /// its slot; with -T json its kind is 'pending'. The Transaction has its own line when it is done. Without -i the age is
    /// counted by the times of frames.
    #[arg(long, value_name = "SECONDS")]
    pending: Option<SecondsArg>,

    /// How times are written
    #[arg(short = 't', long = "time-format", alias = "time", value_name = "FORMAT", default_value = "r")]
    time: TimeFormat,

    /// Form of the summary after the lines [default: that of the lines]
    #[arg(long, value_name = "FORMAT")]
    summary: Option<SummaryFormat>,

    /// How files are told
    #[arg(long, value_name = "HOW", default_value = "names")]
    filehandles: Filehandles,

    /// Do not resolve addresses and ports to names. They never are, so this changes nothing; for file names see --filehandles
    #[arg(short = 'n', long = "no-names")]
    _no_names: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,

    /// Check the invariant CRC of every packet, and count those that are wrong
    #[arg(long)]
    check_icrc: bool,

    #[command(flatten)]
    dialect: DialectArgs,

    #[command(flatten)]
    bounds: InspectLimitArgs,
}

/// What a capture of any length can make the program remember. What a bound made it give up is in the summary.
#[derive(Debug, Args)]
struct InspectLimitArgs {
    #[command(flatten)]
    memory: MemoryArgs,

    /// Connections; then those that were silent longest are forgotten
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(FlowLimits::default().connections))]
    max_connections: NonZeroUsize,

    /// Transactions that wait for their Reply; then the oldest are given up
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(FlowLimits::default().open_transactions))]
    max_open_transactions: NonZeroUsize,

    /// Seconds that a Call waits for its Reply; then it is given up [default: to the end of the input]
    #[arg(long, value_name = "SECONDS", help_heading = BOUNDS, hide_short_help = true)]
    max_call_age: Option<SecondsArg>,

    /// Transactions that are done, and wait for late copies of their messages
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(FlowLimits::default().lingering_transactions))]
    max_lingering_transactions: NonZeroUsize,

    /// Bytes of all Transactions, with their messages and chunk lists; then those that are done are given out, and then the oldest [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_message_bytes: Option<BytesArg>,

    /// Connections that are being set up
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(FlowLimits::default().set_ups))]
    max_handshakes: NonZeroUsize,

    /// Streams of TCP; then those that were silent longest are forgotten
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(FlowLimits::default().streams))]
    max_streams: NonZeroUsize,

    /// Bytes of one TCP stream that wait behind a hole; then the hole is given up [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_gap_bytes: Option<BytesArg>,

    /// Bytes that all TCP streams hold, behind holes and in messages that are not whole yet [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_stream_bytes: Option<BytesArg>,

    /// Bytes of RDMA messages that are not whole yet [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_partial_message_bytes: Option<BytesArg>,

    /// Bytes of RDMA packets that were captured before what tells their place [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_reorder_bytes: Option<BytesArg>,

    /// Bytes of IP fragments that wait for the others of their datagram [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_fragment_bytes: Option<BytesArg>,

    /// Bytes of chunks that are kept until they are decoded [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_chunk_bytes: Option<BytesArg>,

    /// Bytes of what waits until it is known which Transaction it belongs to, with -w [default: a share of --max-memory]
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true)]
    max_write_bytes: Option<BytesArg>,
}

fn of(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

impl InspectArgs {
    fn limits(&self, memory: &Memory) -> FlowLimits {
        let limits = memory.limits();
        let bytes = |given: &Option<BytesArg>, share: usize| {
            given.map_or(share, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
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
            fragments: ip_reassembly::FragmentLimits {
                bytes: bytes(&bounds.max_fragment_bytes, limits.fragments.bytes),
                ..limits.fragments
            },
            chunk_content_bytes: bounds.max_chunk_bytes.map_or(limits.chunk_content_bytes, |bytes| bytes.0),
            dialect: self.dialect.named(),
            check_icrc: self.check_icrc,
            record_frame_events: self.write.is_some(),
            report_closed_connections: self.view == LineView::Connections && !self.quiet,
            emit_on_acknowledgment: self.line_buffered || self.is_live(),
            keep_file_data: (self.tree && !self.view.counts())
                || (self.bytes && self.view == LineView::Transactions),
            ..limits
        }
    }

    fn settings(&self, memory: &Memory) -> OutputSettings {
        OutputSettings {
            format: self.format,
            view: self.view,
            bytes: self.bytes,
            tree: self.tree,
            quiet: self.quiet || (self.write.is_some() && !self.print),
            time: self.time,
            summary: self.summary.unwrap_or(match self.format {
                _ if self.writes_to_standard_output() => SummaryFormat::None,
                LineFormat::Text => SummaryFormat::Text,
                LineFormat::Json if self.fields.is_empty() && self.view == LineView::Transactions => {
                    SummaryFormat::Json
                }
                LineFormat::Json if self.quiet => SummaryFormat::Json,
                LineFormat::Json | LineFormat::Fields | LineFormat::Csv => SummaryFormat::None,
            }),
            most: self.most(),
            tells_files: self.write.is_some(),
            icrc: self.check_icrc,
            filehandles: self.filehandles,
            screen: style::screen(self.color),
            memory: memory.clone(),
        }
    }

    /// How many lines are wanted.
    fn most(&self) -> u64 {
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

    /// Whether an interface is named.
    fn is_live(&self) -> bool {
        #[cfg(feature = "live")]
        return self.live.interface.is_some();
        #[cfg(not(feature = "live"))]
        false
    }

    /// What finds the Calls that wait for long, unless none are to be reported.
    fn pending_watch(&self) -> Option<PendingWatch> {
        let age = self.pending.or(self.is_live().then_some(PENDING)).filter(|age| age.0 > 0);
        age.map(|age| PendingWatch::new(age.0))
    }

    /// Whether the input may pause: then nothing that is known may wait in a buffer.
    fn may_pause(&self) -> bool {
        if self.line_buffered || self.is_live() {
            return true;
        }
        self.files().any(|file| {
            let about = if file.as_os_str() == "-" { fs::metadata("/dev/stdin") } else { fs::metadata(file) };
            !about.is_ok_and(|about| about.is_file())
        })
    }
}

/// Shows what the files hold.
pub(super) fn run(args: &InspectArgs) -> Result<ExitStatus> {
    #[cfg(feature = "live")]
    if args.list_interfaces {
        return interfaces::run();
    }
    if args.files().next().is_none() && !args.is_live() {
        let what = if cfg!(feature = "live") { ", or an interface with -i" } else { "" };
        bail!("no capture file is named; name one, or '-' for standard input{what}; see --help");
    }
    if args.tree && args.format != LineFormat::Text {
        bail!("-V is a tree of text, and -T {} is not; leave out one of them", args.format_name());
    }
    if args.bytes && args.format != LineFormat::Text {
        bail!("-x is for people, and -T {} is not; leave out one of them", args.format_name());
    }
    if args.view.counts() {
        let view = args.view.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        if args.bytes || (args.tree && args.view == LineView::Operations) {
            bail!("--view {view} counts Transactions, and has neither a tree nor bytes; leave out -V and -x");
        }
        if args.format == LineFormat::Fields || !args.fields.is_empty() || !args.layout.is_empty() {
            bail!(
                "--view {view} has columns of its own, and no fields; give -T csv or json, without -e and -E"
            );
        }
    }
    if args.writes_to_standard_output()
        && (args.print || args.summary.is_some_and(|s| s != SummaryFormat::None))
    {
        bail!(
            "-w - writes a capture to standard output, where nothing else can go; give -w a file, or leave out -P and --summary"
        );
    }
    let filter = match args.display_filter.as_deref().map(Filter::parse).transpose() {
        Ok(filter) => filter,
        Err(error) => bail!("-Y: {error}"),
    };
    let (filter, fields) = field_options::lines(args.format, args.view, &args.fields, &args.layout, filter)?;
    let files: Vec<&PathBuf> = args.files().collect();
    if args.control_frames && args.view == LineView::Frames {
        bail!(
            "--control-frames: adds frames to those of Transactions; with --view frames, choose frames with -Y"
        );
    }
    let memory = &args.bounds.memory.plan(files.iter().copied(), 1)?;
    if let Some(trace) = files.iter().find(|file| is_trace(file)) {
        if files.len() > 1
            || args.is_live()
            || args.write.is_some()
            || args.view == LineView::Frames
            || fields.is_some()
        {
            bail!(
                "{}: is a trace, which has no frames: it is listed alone, without -i, -w, --view frames and -e",
                trace.display()
            );
        }
        return show_trace(trace, args.settings(memory), filter, args.most());
    }
    let room = args
        .bounds
        .max_write_bytes
        .map_or(memory.view_bytes(), |bytes| bytes.0.try_into().unwrap_or(usize::MAX));
    let write = || {
        args.write
            .as_ref()
            .map(|to| {
                frame_file_output::open(to, &files, args.view, (room, memory.windows()), args.control_frames)
            })
            .transpose()
    };
    #[cfg(feature = "live")]
    if let Some(interface) = &args.live.interface {
        if !files.is_empty() {
            bail!("-i: frames come from an interface or from files; leave out one of them");
        }
        if args
            .live
            .autostop
            .iter()
            .any(|stop| matches!(stop, AutostopCondition::FileSize(_) | AutostopCondition::Files(_)))
        {
            bail!("-a filesize: and files: are for 'capture'; give duration:SECONDS or packets:COUNT");
        }
        let opened = args.live.open(interface)?;
        let written = args.live.give_up(false, write)?;
        let (mut source, mut session) = args.live.start(opened, false)?;
        let errors = show(args, memory, (filter, fields), &mut source, written, &mut session)?;
        return Ok(told(&errors));
    }
    #[cfg(feature = "live")]
    args.live.refuse_for_files()?;
    if let Some(advice) = args.files.first().and_then(|first| command_suggestions::command(first)) {
        bail!("{advice}");
    }
    if args.write.is_none() || files.iter().all(|file| file.is_file()) {
        let mut source = CaptureSource::open_within(args.files(), memory.windows())?;
        let errors = show(args, memory, (filter, fields), &mut source, write()?, &mut FileReadControl)?;
        return Ok(told(&errors));
    }
    // Who ends `ssh HOST tcpdump | nfsrdma-inspect -w FILE -` with Ctrl-C wants what came up to then.
    let mut ending = GracefulShutdown::later()?;
    let mut source = CaptureSource::open_until(args.files(), memory.windows(), &ending)?;
    let written = write()?;
    ending.begin()?;
    let mut errors = show(args, memory, (filter, fields), &mut source, written, &mut FileReadControl)?;
    if ending.is_asked() {
        errors.retain(|error| !error.kind().is_truncated());
    }
    Ok(told(&errors))
}

fn told(errors: &[SourceError]) -> ExitStatus {
    for error in errors {
        complain(error);
    }
    if errors.is_empty() { ExitStatus::Done } else { ExitStatus::Failed }
}

/// What besides the frames decides how long they are read.
trait ReadControl {
    /// Notes a frame; tells whether it is the last that is wanted.
    fn frame(&mut self, time: Timestamp) -> bool;
    /// Nothing came: what time it is now by the clock that stamps frames.
    fn idle(&mut self) -> Timestamp;
}

/// Files are read as fast as they can be, to their end.
struct FileReadControl;

impl ReadControl for FileReadControl {
    fn frame(&mut self, _: Timestamp) -> bool {
        false
    }

    fn idle(&mut self) -> Timestamp {
        Timestamp::default()
    }
}

#[cfg(feature = "live")]
impl ReadControl for LiveCaptureSession {
    fn frame(&mut self, time: Timestamp) -> bool {
        LiveCaptureSession::frame(self, time)
    }

    fn idle(&mut self) -> Timestamp {
        LiveCaptureSession::idle(self)
    }
}

/// Reads to the end and shows everything; gives what was wrong with the files.
fn show(
    args: &InspectArgs,
    memory: &Memory,
    (filter, fields): (Option<Filter>, Option<FieldLines>),
    source: &mut CaptureSource,
    mut written: Option<FrameFileOutput>,
    pace: &mut impl ReadControl,
) -> Result<Vec<SourceError>> {
    let limits = args.limits(memory);
    let mut flow = Flow::new(limits.clone());
    let mut progress = ProgressLine::new();
    let page = BufWriter::with_capacity(64 << 10, progress.page());
    let mut output = Output::new(args.settings(memory), page).with_filter(filter).with_fields(fields);
    let flush_each = args.may_pause();
    let flush_often = io::stdout().is_terminal();
    let most = args.most();
    let mut pending = args.pending_watch();
    if pending.is_some() && !limits.emit_on_acknowledgment {
        output = output.with_early_names();
    }
    let mut errors = Vec::new();
    let mut has_frames = false;
    let mut is_over = false;
    let mut is_at_end = false;
    while !is_over && output.lines() < most {
        let mut is_idle = false;
        match source.next_within(PATIENCE) {
            Ok(NextFrame::Frame(frame)) => {
                has_frames = true;
                is_over = pace.frame(frame.time);
                let is_known = frame.link.is_known();
                let is_shown = output.frame(&frame, &mut flow).map_err(unwritten)?;
                if let Some(written) = &mut written {
                    written.frame(source, &flow, is_shown)?;
                }
                if !is_known {
                    errors.extend(source.unknown_link());
                }
            }
            Ok(NextFrame::Nothing) => {
                flow.advance_time(pace.idle());
                is_idle = true;
            }
            Ok(NextFrame::End) => (is_over, is_at_end) = (true, true),
            // The other files go on.
            Err(error) => errors.push(error),
        }
        if is_over {
            flow.finish();
        }
        while output.lines() < most
            && let Some((key, transaction)) = flow.next_with_key()
        {
            let is_shown = output.transaction(key, &transaction).map_err(unwritten)?;
            if let Some(written) = &mut written {
                written.transaction(key, &transaction, output.about(), is_shown);
            }
        }
        output.closed(&mut flow).map_err(unwritten)?;
        // At the end each has a line as a Transaction.
        if let Some(watch) = &mut pending
            && watch.is_due(flow.now())
            && !is_over
        {
            for (call, age_ns) in watch.take(&flow, flow.now()) {
                output.pending(&call, age_ns).map_err(unwritten)?;
            }
        }
        if flush_each {
            output.flush().map_err(unwritten)?;
        }
        if progress.is_due(is_idle) {
            if flush_often {
                output.flush().map_err(unwritten)?;
            }
            match source.counters() {
                Some(counters) => progress.draw_live(&counters, Some(output.transactions())),
                None => progress.draw(source.progress(), output.transactions()),
            }
        }
    }
    if output.not_kept() > 0 {
        complain(format_args!(
            "{}: {} frames belong to Transactions that were open for long; of these their values were not kept, and a \
             Transaction may be missing",
            if args.display_filter.is_some() { "-Y" } else { "-e" },
            output.not_kept()
        ));
    }
    // Of what is no capture there is nothing to sum up, and nothing to write: an older file stays.
    let is_capture = has_frames || errors.is_empty() || args.is_live();
    if is_capture {
        let counters = source.counters();
        // What came behind the last packet or line that was wanted was never asked for.
        let counters = if is_at_end { counters } else { counters.map(|counters| counters.without_pending()) };
        output.finish(&flow, source.dropped(), counters).map_err(unwritten)?;
    }
    if let Some(written) = written.filter(|_| is_capture) {
        written.finish(&mut flow, args.quiet)?;
    }
    Ok(errors)
}
