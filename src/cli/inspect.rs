//! The default command: one line a Transaction, or a frame, and then a summary.

use std::fs;
use std::io::{self, BufWriter, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use nfsrdma_dissectors::flow::{Flow, Limits, fragments};

use super::bytes::Bytes;
use super::progress::Progress;
use super::style::{self, Color};
use super::{Exit, complain, unwritten};
use crate::filter::Filter;
use crate::output::{Filehandles, Format, Output, Settings, SummaryFormat, TimeFormat, View};
use crate::source::{Source, SourceError};

const BOUNDS: &str = "Bounds of memory";

/// Arguments of the default command.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
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
    view: View,

    /// Show each line with its whole tree, down to the last field
    #[arg(short = 'V', long)]
    tree: bool,

    /// Form of the lines
    #[arg(short = 'T', long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Stop after COUNT lines
    #[arg(short = 'c', long, value_name = "COUNT")]
    count: Option<NonZeroUsize>,

    /// Leave out the lines, and show the summary alone
    #[arg(short = 'q', long)]
    quiet: bool,

    /// How times are written
    #[arg(short = 't', long, value_name = "FORMAT", default_value = "r")]
    time: TimeFormat,

    /// Form of the summary after the lines [default: that of the lines]
    #[arg(long, value_name = "FORMAT")]
    summary: Option<SummaryFormat>,

    /// How files are told
    #[arg(long, value_name = "HOW", default_value = "names")]
    filehandles: Filehandles,

    /// No names of files, which are learnt from what the Calls and Replies before said
    #[arg(short = 'n', long)]
    no_names: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,

    /// Check the invariant CRC of every packet, and count those that are wrong
    #[arg(long)]
    check_icrc: bool,

    #[command(flatten)]
    bounds: Bounds,
}

/// What a capture of any length can make the program remember. What a bound made it give up is in the summary.
#[derive(Debug, Args)]
struct Bounds {
    /// Connections; then those that were silent longest are forgotten
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(Limits::default().connections))]
    max_connections: NonZeroUsize,

    /// Transactions that wait for their Reply; then the oldest are given up
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(Limits::default().open_transactions))]
    max_open_transactions: NonZeroUsize,

    /// Transactions that are done, and wait for late copies of their messages
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(Limits::default().lingering_transactions))]
    max_lingering_transactions: NonZeroUsize,

    /// Bytes of the messages of all Transactions; then those that are done are given out, and then the oldest
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().message_bytes as u64))]
    max_message_bytes: Bytes,

    /// Connections that are being set up
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(Limits::default().set_ups))]
    max_set_ups: NonZeroUsize,

    /// Streams of TCP; then those that were silent longest are forgotten
    #[arg(long, value_name = "COUNT", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = of(Limits::default().streams))]
    max_streams: NonZeroUsize,

    /// Bytes of one TCP stream that wait behind a hole; then the hole is given up
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().hole_bytes as u64))]
    max_hole_bytes: Bytes,

    /// Bytes that all TCP streams hold, behind holes and in messages that are not whole yet
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().stream_bytes as u64))]
    max_stream_bytes: Bytes,

    /// Bytes of RDMA messages that are not whole yet
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().part_bytes as u64))]
    max_part_bytes: Bytes,

    /// Bytes of RDMA packets that were captured before what tells their place
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().early_bytes))]
    max_early_bytes: Bytes,

    /// Bytes of IP fragments that wait for the others of their datagram
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().fragments.bytes as u64))]
    max_fragment_bytes: Bytes,

    /// Bytes of chunks that are kept until they are decoded
    #[arg(long, value_name = "BYTES", help_heading = BOUNDS, hide_short_help = true,
        default_value_t = Bytes(Limits::default().kept_bytes))]
    max_kept_bytes: Bytes,
}

fn of(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

impl InspectArgs {
    fn limits(&self) -> Limits {
        let limits = Limits::default();
        let bytes = |bytes: &Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        Limits {
            connections: self.bounds.max_connections.get(),
            open_transactions: self.bounds.max_open_transactions.get(),
            lingering_transactions: self.bounds.max_lingering_transactions.get(),
            set_ups: self.bounds.max_set_ups.get(),
            message_bytes: bytes(&self.bounds.max_message_bytes),
            streams: self.bounds.max_streams.get(),
            hole_bytes: bytes(&self.bounds.max_hole_bytes),
            stream_bytes: bytes(&self.bounds.max_stream_bytes),
            part_bytes: bytes(&self.bounds.max_part_bytes),
            early_bytes: self.bounds.max_early_bytes.0,
            fragments: fragments::Bounds {
                bytes: bytes(&self.bounds.max_fragment_bytes),
                ..limits.fragments
            },
            kept_bytes: self.bounds.max_kept_bytes.0,
            check_icrc: self.check_icrc,
            keep_data: self.tree,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            format: self.format,
            view: self.view,
            tree: self.tree,
            quiet: self.quiet,
            time: self.time,
            summary: self.summary.unwrap_or(match self.format {
                Format::Text => SummaryFormat::Text,
                Format::Json => SummaryFormat::Json,
            }),
            icrc: self.check_icrc,
            filehandles: if self.no_names { Filehandles::Off } else { self.filehandles },
            screen: style::screen(self.color),
        }
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.read.iter().chain(&self.files)
    }

    /// Whether the input may pause: then nothing that is known may wait in a buffer.
    fn may_pause(&self) -> bool {
        self.files().any(|file| {
            let about = if file.as_os_str() == "-" { fs::metadata("/dev/stdin") } else { fs::metadata(file) };
            !about.is_ok_and(|about| about.is_file())
        })
    }
}

/// Shows what the files hold.
pub(super) fn run(args: &InspectArgs) -> Result<Exit> {
    if args.files().next().is_none() {
        bail!("no capture file is named; name one, or '-' for standard input; see --help");
    }
    if args.tree && args.format == Format::Json {
        bail!("-V is a tree of text, and -T json is not; leave out one of them");
    }
    if args.view == View::Frames && args.format == Format::Json && !args.quiet {
        bail!(
            "--view frames is text, and -T json is not; leave out one of them, or add -q for the summary alone"
        );
    }
    let filter = match args.display_filter.as_deref().map(Filter::parse).transpose() {
        Ok(filter) => filter,
        Err(error) => bail!("-Y: {error}"),
    };
    let mut source = Source::open(args.files())?;
    let errors = show(args, filter, &mut source).map_err(unwritten)?;
    for error in &errors {
        complain(error);
    }
    Ok(if errors.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Reads to the end and shows everything; gives what was wrong with the files.
fn show(args: &InspectArgs, filter: Option<Filter>, source: &mut Source) -> io::Result<Vec<SourceError>> {
    let mut flow = Flow::new(args.limits());
    let mut progress = Progress::new();
    let page = BufWriter::with_capacity(64 << 10, progress.page());
    let mut output = Output::new(args.settings(), page).with_filter(filter);
    let flush_each = args.may_pause();
    let flush_often = io::stdout().is_terminal();
    let most = args.count.map_or(u64::MAX, |count| count.get() as u64);
    let mut errors = Vec::new();
    let mut has_frames = false;
    let mut is_over = false;
    while !is_over && output.lines() < most {
        match source.next() {
            Ok(Some(frame)) => {
                has_frames = true;
                let is_known = frame.link.is_known();
                output.frame(&frame, &mut flow)?;
                if !is_known {
                    errors.extend(source.unknown_link());
                }
            }
            Ok(None) => {
                flow.finish();
                is_over = true;
            }
            // The other files go on.
            Err(error) => errors.push(error),
        }
        while output.lines() < most
            && let Some((key, transaction)) = flow.next_named()
        {
            output.transaction(key, &transaction)?;
        }
        if flush_each {
            output.flush()?;
        }
        if progress.is_due() {
            if flush_often {
                output.flush()?;
            }
            progress.draw(source.progress(), output.transactions());
        }
    }
    if output.not_kept() > 0 {
        complain(format_args!(
            "-Y: {} frames belong to Transactions that were open for long; of these their values were not kept, and a \
             Transaction may be missing",
            output.not_kept()
        ));
    }
    // Of what is no capture there is nothing to sum up.
    if has_frames || errors.is_empty() {
        output.finish(&flow, source.dropped())?;
    }
    Ok(errors)
}
