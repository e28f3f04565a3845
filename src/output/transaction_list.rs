//! Transaction list: one line per Transaction.
//!
//! The widths of the columns depend only on the width of the screen, so that a line can be written as soon as its
//! Transaction is complete. A narrow terminal omits the least important columns and truncates long cells; a pipe does
//! neither.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;

use nfsrdma_analysis::names::FileNames;
use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::transaction::{
    CallDirection, CapturedMessage, ChunkListCompleteness, MissingPart, RpcMessageKind, Transaction, TransactionFault,
};
use nfsrdma_flow::transaction_message_decoding::{
    ProcedureOrMainOperation, RpcStatus, RpcSummary, TransactionMessages,
};

use super::info_column::InfoColumnFormatter;
use super::pending_call_progress::PendingCallProgress;
use super::settings::TimeFormat;
use super::style::{Glyphs, Style, StyledText, TerminalProfile, columns, fit_words};
use super::units::{ExactByteSizeText, HumanDuration, HumanSize, TransferredOfOfferedBytes, ViewTimeFormatter};

/// Column of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the help of the program says what they show")]
pub enum TransactionListColumn {
    Time,
    Frame,
    Connection,
    Client,
    Xid,
    Version,
    Operation,
    Chunks,
    Bytes,
    Latency,
    Status,
}

impl TransactionListColumn {
    /// Returns the name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "TIME",
            Self::Frame => "FRAME",
            Self::Connection => "CONN",
            Self::Client => "CLIENT",
            Self::Xid => "XID",
            Self::Version => "VERS",
            Self::Operation => "OPERATION",
            Self::Chunks => "CHUNKS",
            Self::Bytes => "BYTES",
            Self::Latency => "LATENCY",
            Self::Status => "STATUS",
        }
    }

    /// Returns `true` if the cells are aligned right.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Time | Self::Frame | Self::Connection | Self::Bytes | Self::Latency)
    }
}

/// Width of the longest text of an IPv6 address (RFC 5952): eight groups of four digits.
const IPV6_CLIENT_WIDTH: usize = 39;
/// Width of the chunk column on a narrow screen: one kind of chunk, in rounded numbers.
const NARROW_CHUNKS_WIDTH: usize = 13;

/// Columns of a screen and their widths; the operation takes the rest of the line.
#[derive(Clone, Debug)]
pub struct TransactionListLayout {
    /// Columns from left to right.
    pub columns: Vec<(TransactionListColumn, usize)>,
    /// Separator of columns.
    pub gap: &'static str,
}

impl TransactionListLayout {
    /// The columns of a screen that is so wide; of a pipe, which is not, all of them.
    pub fn of(width: Option<usize>, time: TimeFormat) -> Self {
        use TransactionListColumn::*;
        // From where on a column is shown, and its width there; the widest screen that is reached counts.
        let screen_width = width.unwrap_or(usize::MAX);
        let gap = if screen_width >= 110 { "  " } else { " " };
        let status = match screen_width {
            ..52 => 8,
            52..100 => 13,
            100..120 => 14,
            120..160 => 16,
            _ => 24,
        };
        let chunks = match screen_width {
            ..120 => NARROW_CHUNKS_WIDTH,
            120..160 => 14,
            _ => 18,
        };
        let mut columns = Vec::new();
        let mut add_column = |from: usize, column: TransactionListColumn, width: usize| {
            if screen_width >= from {
                columns.push((column, width));
            }
        };
        // The operation with its file and how it went matter more than when it was.
        add_column(48, Time, time.width());
        add_column(150, Frame, 7);
        add_column(90, Connection, 4);
        add_column(160, Client, 15);
        add_column(96, Xid, 10);
        add_column(66, Version, 5);
        add_column(0, Operation, 44);
        add_column(60, Chunks, chunks);
        add_column(108, Bytes, 8);
        add_column(30, Latency, 7);
        add_column(0, Status, status);
        if let Some(width) = width {
            let other_widths: usize =
                columns.iter().filter(|(column, _)| *column != Operation).map(|(_, width)| width + gap.len()).sum();
            // A screen that has no room for the columns gets lines that are cut at its edge.
            let operation_width = width.saturating_sub(other_widths).max(8);
            columns
                .iter_mut()
                .filter(|(column, _)| *column == Operation)
                .for_each(|(_, width)| *width = operation_width);
        }
        Self { columns, gap }
    }
}

/// Writer of the list.
#[derive(Debug)]
pub struct TransactionListWriter {
    screen: TerminalProfile,
    layout: TransactionListLayout,
    clock: ViewTimeFormatter,
    labels: InfoColumnFormatter,
    has_header: bool,
    cell: String,
    line: String,
    /// State of the pending Call whose line is being written.
    pending: Option<PendingCallProgress>,
    /// Worst finding of the Transaction whose line is being written, if it is an error or a warning.
    worst_finding: Option<ReportedFindingSeverity>,
}

impl TransactionListWriter {
    /// Creates a list for this screen.
    pub fn new(screen: TerminalProfile, time: TimeFormat) -> Self {
        Self {
            screen,
            layout: TransactionListLayout::of(screen.width, time),
            clock: ViewTimeFormatter::new(time),
            labels: InfoColumnFormatter::default(),
            has_header: false,
            cell: String::new(),
            line: String::new(),
            pending: None,
            worst_finding: None,
        }
    }

    /// Sets the time of the first frame, from which relative times count.
    pub fn start(&mut self, time: Timestamp) {
        self.clock.start(time);
    }

    /// Writes the line of a Transaction with its findings, or of a pending Call with its age as latency and its phase
    /// as status; before the first line the header.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn transaction(
        &mut self,
        out: &mut impl Write,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        names: &FileNames,
        (findings, pending): (&[Finding], Option<PendingCallProgress>),
    ) -> io::Result<()> {
        (self.worst_finding, self.pending) = (marked_severity(findings), pending);
        self.widen_client_column(transaction.connection.client.address);
        if !self.has_header {
            self.has_header = true;
            let style = TwoPartTextStyle::whole(self.screen.styles.header);
            self.write_line(out, |list, (column, _)| {
                list.cell.push_str(column.name());
                style
            })?;
        }
        self.write_line(out, |list, column| list.cell(column, transaction, messages, summary, names))
    }

    /// Widens the client column of a pipe for any IPv6 address when the first one comes, so that this line and the
    /// following ones are aligned.
    fn widen_client_column(&mut self, client: Address) {
        let layout = &mut self.layout.columns;
        let column = layout.iter_mut().find(|(column, _)| *column == TransactionListColumn::Client);
        // Every IPv4 address fits.
        if let (None, Address::Ip(IpAddr::V6(_)), Some((_, width))) = (self.screen.width, client, column) {
            *width = IPV6_CLIENT_WIDTH;
        }
    }

    /// Writes a line; `fill` fills the cell of each column and returns its style.
    fn write_line(
        &mut self,
        out: &mut impl Write,
        fill: impl Fn(&mut Self, (TransactionListColumn, usize)) -> TwoPartTextStyle,
    ) -> io::Result<()> {
        self.line.clear();
        let mut remaining = self.screen.width.unwrap_or(usize::MAX);
        for index in 0..self.layout.columns.len() {
            let Some((column, width)) = self.layout.columns.get(index).copied() else { break };
            self.cell.clear();
            let style = fill(self, (column, width));
            let is_last = index + 1 == self.layout.columns.len();
            self.push_cell(column, width, style, is_last, &mut remaining);
        }
        self.line.truncate(self.line.trim_end_matches(' ').len());
        self.line.push('\n');
        out.write_all(self.line.as_bytes())
    }

    /// Appends the cell to the line, padded to the width of its column; `remaining` is the number of columns left on
    /// the screen.
    fn push_cell(
        &mut self,
        column: TransactionListColumn,
        width: usize,
        parts: TwoPartTextStyle,
        is_last: bool,
        remaining: &mut usize,
    ) {
        let width = width.min(*remaining);
        let is_cut = self.screen.width.is_some();
        let cell = if is_cut { fit_words(&self.cell, width, &self.screen.glyphs) } else { self.cell.as_str().into() };
        let fill = width.saturating_sub(columns(&cell));
        if column.is_number() {
            self.line.extend(std::iter::repeat_n(' ', fill));
        }
        let end = parts.split.min(cell.len());
        let split = (0..=end).rev().find(|at| cell.is_char_boundary(*at)).unwrap_or(0);
        let (first, rest) = cell.split_at(split);
        for (style, text) in [(parts.first, first), (parts.rest, rest)] {
            if !text.is_empty() {
                let _ = write!(self.line, "{}", StyledText(style, text));
            }
        }
        if !column.is_number() && !is_last {
            self.line.extend(std::iter::repeat_n(' ', fill));
        }
        let gap = self.layout.gap.len().min(remaining.saturating_sub(width));
        *remaining = remaining.saturating_sub(width + gap);
        if !is_last {
            self.line.push_str(self.layout.gap.get(..gap).unwrap_or_default());
        }
    }

    /// Fills the cell of a column and returns its style.
    fn cell(
        &mut self,
        (column, width): (TransactionListColumn, usize),
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        names: &FileNames,
    ) -> TwoPartTextStyle {
        let TerminalProfile { styles, glyphs, .. } = self.screen;
        let cell = &mut self.cell;
        let first = transaction.call.as_ref().or(transaction.reply.as_ref());
        match column {
            TransactionListColumn::Time => {
                if let Some(message) = first {
                    self.clock.write(message.time, cell);
                }
                TwoPartTextStyle::whole(styles.time)
            }
            TransactionListColumn::Frame => {
                if let Some(frame) = first.and_then(|message| message.frames.first()) {
                    let _ = write!(cell, "{frame}");
                }
                TwoPartTextStyle::whole(styles.dim)
            }
            TransactionListColumn::Connection => {
                let _ = write!(cell, "{}", transaction.connection.number);
                TwoPartTextStyle::whole(styles.dim)
            }
            TransactionListColumn::Client => {
                let _ = write!(cell, "{}", transaction.connection.client.address);
                TwoPartTextStyle::whole(styles.dim)
            }
            TransactionListColumn::Xid => {
                let _ = write!(cell, "{}", transaction.xid);
                TwoPartTextStyle::whole(styles.xid)
            }
            TransactionListColumn::Version => {
                if transaction.direction == CallDirection::Reverse {
                    cell.push_str(glyphs.reply_arrow);
                    version(summary, cell);
                    return TwoPartTextStyle::whole(styles.callback);
                }
                version(summary, cell);
                TwoPartTextStyle::default()
            }
            TransactionListColumn::Operation => {
                self.labels.write(messages, summary, names.paths(), &glyphs, cell);
                if self.screen.width.is_some() {
                    self.labels.shorten(width, &glyphs, cell);
                }
                let is_callback = transaction.direction == CallDirection::Reverse;
                let name = match summary.label_operation() {
                    Some(ProcedureOrMainOperation::Named(name)) => name.len(),
                    _ => 0,
                };
                let style = if is_callback { styles.callback } else { styles.operation };
                TwoPartTextStyle { first: style, split: name, rest: Style::new() }
            }
            TransactionListColumn::Chunks => {
                chunks(transaction, false, cell);
                let chunks_column =
                    self.layout.columns.iter().find(|(other, _)| *other == TransactionListColumn::Chunks);
                if self.screen.width.is_some() && chunks_column.is_some_and(|(_, width)| columns(cell) > *width) {
                    cell.clear();
                    chunks(transaction, true, cell);
                }
                TwoPartTextStyle::whole(styles.chunk)
            }
            TransactionListColumn::Bytes => {
                let _ = write!(cell, "{}", HumanSize(wire_bytes(transaction)));
                TwoPartTextStyle::default()
            }
            TransactionListColumn::Latency => {
                let pending = self.pending.map(|pending| pending.age_ns);
                if let Some(latency_ns) = pending.or_else(|| transaction.latency_ns()) {
                    let _ = write!(cell, "{}", HumanDuration(latency_ns, glyphs));
                }
                TwoPartTextStyle::default()
            }
            TransactionListColumn::Status => self.status(transaction, summary),
        }
    }

    /// Fills the status and the marks of the Transaction, or the phase of a pending Call.
    fn status(&mut self, transaction: &Transaction, summary: &RpcSummary) -> TwoPartTextStyle {
        let TerminalProfile { styles, glyphs, .. } = self.screen;
        if let Some(pending) = self.pending {
            let _ = write!(self.cell, "pending: {pending}");
            return TwoPartTextStyle { first: styles.error, split: "pending".len(), rest: styles.mark };
        }
        let width = self.layout.columns.last().map_or(0, |(_, width)| *width);
        let (is_ok, split) = status_and_marks(transaction, summary, width, &glyphs, &mut self.cell);
        if let Some(severity) = self.worst_finding {
            let _ = write!(self.cell, " !{}", severity.name());
        }
        TwoPartTextStyle { first: if is_ok { styles.ok } else { styles.error }, split, rest: styles.mark }
    }
}

/// Returns the severity that marks a line: that of the worst finding, if it is an error or a warning.
pub(crate) fn marked_severity(findings: &[Finding]) -> Option<ReportedFindingSeverity> {
    let worst = findings.iter().map(|finding| finding.severity).max();
    worst.filter(|severity| *severity >= ReportedFindingSeverity::Warning)
}

/// Styles of a text whose first bytes differ from the rest.
#[derive(Clone, Copy, Debug, Default)]
struct TwoPartTextStyle {
    first: Style,
    split: usize,
    rest: Style,
}

impl TwoPartTextStyle {
    fn whole(style: Style) -> Self {
        Self { first: style, split: usize::MAX, rest: style }
    }
}

/// Writes the status of the procedure, then marks for defects of the Transaction itself: in a column of 24 or more
/// `width`, the ranges of missing bytes, else their sum. Returns `true` if the status needs no attention, and the
/// length of the status in bytes.
pub(crate) fn status_and_marks(
    transaction: &Transaction,
    summary: &RpcSummary,
    width: usize,
    glyphs: &Glyphs,
    cell: &mut String,
) -> (bool, usize) {
    let has_room = width >= 24;
    let missing = summary.missing(transaction);
    let bytes: u64 = missing.iter().map(missing_bytes).sum();
    let mut is_ok = status(summary, cell);
    let fault = summary.fault(transaction);
    if let Some(fault) = fault {
        cell.clear();
        cell.push_str(fault.name());
        is_ok = false;
    }
    let is_undecoded = missing.iter().any(|part| matches!(part, MissingPart::Undecoded(RpcMessageKind::Reply, _)));
    if is_ok && (is_undecoded || (bytes > 0 && !has_room)) {
        // What is missing needs the place more than that nothing went wrong.
        cell.clear();
    }
    let split = cell.len();
    let push_mark = |cell: &mut String, text: std::fmt::Arguments<'_>| {
        if !cell.is_empty() {
            cell.push(' ');
        }
        let _ = cell.write_fmt(text);
    };
    let copies = |kind| transaction.message(kind).map_or(1, |message| message.copies);
    match (copies(RpcMessageKind::Call), copies(RpcMessageKind::Reply)) {
        (..=1, ..=1) => {}
        (calls, ..=1) => push_mark(cell, format_args!("call{}{calls}", glyphs.times)),
        (..=1, replies) => push_mark(cell, format_args!("reply{}{replies}", glyphs.times)),
        (calls, replies) => {
            push_mark(cell, format_args!("call{}{calls} reply{}{replies}", glyphs.times, glyphs.times));
        }
    }
    if let Some(index) = transaction.retry_of {
        push_mark(cell, format_args!("retry of {index}"));
    }
    for missing in &missing {
        match missing {
            MissingPart::Message(RpcMessageKind::Call) => push_mark(cell, format_args!("no call")),
            MissingPart::Message(RpcMessageKind::Reply) if transaction.is_done => push_mark(cell, format_args!("done")),
            MissingPart::Message(RpcMessageKind::Reply) => push_mark(cell, format_args!("no reply")),
            MissingPart::Header(RpcMessageKind::Call) => push_mark(cell, format_args!("call cut")),
            MissingPart::Header(RpcMessageKind::Reply) => push_mark(cell, format_args!("reply cut")),
            MissingPart::Undecoded(RpcMessageKind::Call, _) => push_mark(cell, format_args!("call undecoded")),
            // That it is wrong says why it is not decoded.
            MissingPart::Undecoded(RpcMessageKind::Reply, _) if fault == Some(TransactionFault::WrongResult) => {}
            MissingPart::Undecoded(RpcMessageKind::Reply, _) => push_mark(cell, format_args!("reply undecoded")),
            MissingPart::Bytes(..) | MissingPart::Chunk(..) | MissingPart::ReplyRead(..) => {}
            // They are the status.
            MissingPart::Refused(_) | MissingPart::WrongResult => {}
        }
    }
    if bytes > 0 && has_room {
        push_mark(cell, format_args!("missing"));
        for missing in missing.iter().filter(|missing| missing_bytes(missing) > 0) {
            push_mark(cell, format_args!("{missing}"));
        }
    } else if bytes > 0 {
        let amount = HumanSize(bytes).to_string();
        let used = columns(cell) + usize::from(!cell.is_empty());
        // Where there is too little room, the sum gives way first, then the word: other marks say more.
        if used + amount.len() + " missing".len() <= width {
            push_mark(cell, format_args!("{amount} missing"));
        } else if used + "missing".len() <= width {
            push_mark(cell, format_args!("missing"));
        }
    }
    (is_ok, split)
}

/// Appends the version: `4.2` for NFS and its callbacks, else with a prefix for the program.
pub(crate) fn version(summary: &RpcSummary, text: &mut String) {
    let (Some(program), Some(version)) = (summary.program, summary.version) else { return };
    let prefix = match program {
        Program::NFS => "",
        program if program.is_transient() => "",
        Program::MOUNT => "mnt",
        Program::NFSACL => "acl",
        Program::NLM => "nlm",
        Program::NSM => "nsm",
        Program::PORTMAP => "pmap",
        Program::RQUOTA => "quota",
        _ => "?",
    };
    let _ = match summary.minor_version {
        Some(minor) => write!(text, "{prefix}4.{minor}"),
        None if program.is_transient() => write!(text, "cb{version}"),
        None => write!(text, "{prefix}{version}"),
    };
}

/// Appends the status of the procedure, or of RPC if it failed, without the prefix common to the names of its version.
/// Returns `true` for success or if no status is known.
pub(crate) fn status(summary: &RpcSummary, text: &mut String) -> bool {
    if let Some(status) = summary.status {
        return match status.name {
            Some(_) if status.is_ok => {
                text.push_str("ok");
                true
            }
            Some(name) => {
                text.push_str(strip_status_prefix(name));
                false
            }
            None => {
                let _ = write!(text, "status {}", status.number);
                false
            }
        };
    }
    match summary.rpc_status {
        Some(RpcStatus::Rpc(status)) if status.is_success() => {
            text.push_str("ok");
            true
        }
        Some(RpcStatus::Rpc(status)) => {
            let _ = write!(text, "{status}");
            false
        }
        Some(RpcStatus::RdmaError(error)) => {
            let _ = write!(text, "{error}");
            false
        }
        None => true,
    }
}

/// Removes the common prefix of a status name: `NOENT` of `NFS3ERR_NOENT`, `DENIED` of `NLM4_DENIED`.
fn strip_status_prefix(name: &'static str) -> &'static str {
    let error = name.split_once("ERR_").map(|(_, short)| short);
    error
        .or_else(|| ["NLM4_", "LCK_", "STAT_", "Q_"].iter().find_map(|prefix| name.strip_prefix(prefix)))
        .unwrap_or(name)
}

/// Returns the bytes of the Transaction on the wire: the messages, including their RPC-over-RDMA headers, and the data
/// of chunks.
pub(crate) fn wire_bytes(transaction: &Transaction) -> u64 {
    let message = |kind| transaction.message(kind).map_or(0, |message| message.length as u64);
    let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks);
    let chunks = chunks.chain(&transaction.reply_chunk).chain(&transaction.reply_read_chunks);
    message(RpcMessageKind::Call) + message(RpcMessageKind::Reply) + chunks.map(Chunk::moved_bytes).sum::<u64>()
}

/// Returns the number of missing bytes; 0 if a whole message is missing.
fn missing_bytes(missing: &MissingPart) -> u64 {
    match missing {
        MissingPart::Message(_)
        | MissingPart::Header(_)
        | MissingPart::Undecoded(..)
        | MissingPart::Refused(_)
        | MissingPart::WrongResult => 0,
        MissingPart::Bytes(_, range) | MissingPart::Chunk(_, _, range) | MissingPart::ReplyRead(_, range) => {
            range.end.saturating_sub(range.start)
        }
    }
}

/// Appends the chunks, summed by kind: `R 8192`, `W 2000/4096`: the bytes moved, and the bytes offered if they differ;
/// `?` if the chunk lists are not completely known.
pub(crate) fn chunks(transaction: &Transaction, is_short: bool, text: &mut String) {
    let reply = transaction.reply_chunk.as_slice();
    let kinds = [
        (ChunkKind::Read, transaction.read_chunks.as_slice()),
        (ChunkKind::Write, transaction.write_chunks.as_slice()),
        (ChunkKind::Reply, reply),
        // The Read list of a Reply (RFC 5666 section 3.5).
        (ChunkKind::Read, transaction.reply_read_chunks.as_slice()),
    ];
    for (at, (kind, chunks)) in kinds.into_iter().enumerate() {
        if chunks.is_empty() {
            continue;
        }
        let label = match kind {
            ChunkKind::Read if at > 0 => "rR",
            ChunkKind::Read => "R",
            ChunkKind::Write => "W",
            ChunkKind::Reply => "r",
        };
        let moved = chunks.iter().map(Chunk::moved_bytes).sum::<u64>();
        let offered = chunks.iter().map(Chunk::offered_bytes).sum::<u64>();
        if !text.is_empty() {
            text.push(' ');
        }
        // A narrow column would truncate the number of bytes offered.
        let columns = NARROW_CHUNKS_WIDTH.saturating_sub(label.len() + 1);
        let _ = match (is_short, moved == offered) {
            (false, true) => write!(text, "{label} {moved}"),
            (false, false) => write!(text, "{label} {moved}/{offered}"),
            (true, true) => write!(text, "{label} {}", ExactByteSizeText(moved)),
            (true, false) => {
                write!(text, "{label} {}", TransferredOfOfferedBytes { bytes: moved, offered_bytes: offered, columns })
            }
        };
    }
    // Lists that are not known are not empty.
    let lists = transaction.call.as_ref().and_then(CapturedMessage::chunk_lists);
    if lists.is_some_and(|lists| lists != ChunkListCompleteness::Complete) {
        text.push_str(if text.is_empty() { "?" } else { " ?" });
    }
}
