//! Trees of Transactions and frames.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::ops::Range;

use nfsrdma_analysis::names::FileNames;
use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber};
use nfsrdma_dissectors::infiniband::cm;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_dissectors::xdr::XdrError;
use nfsrdma_flow::chunk::{Chunk, ChunkKind, ChunkSegment};
use nfsrdma_flow::read_list::ReadList;
use nfsrdma_flow::transaction::{
    CallDirection, CapturedMessage, ConnectionTransport, DeliveryEvidence, Endpoint, PossibleRecovery, RpcMessageKind,
    Transaction, TransactionConnection, TransactionFault, UncapturedOriginalCallEvidence,
};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{Flow, FrameContentKind, MpaCounts, RpcRdmaControlMessage, observe_segment};

use super::field_tree::FieldTree;
use super::filehandle_names::{FilehandleNameAnnotator, FilehandleNamingContext};
use super::frame_store::FrameStore;
use super::lines::{TreeLine, TreeLineByteSource, fact_line, heading, styled_fact_line};
use super::value;
use crate::output::info_column::InfoColumnFormatter;
use crate::output::json::line;
use crate::output::pending_call_progress::responder;
use crate::output::style::{Glyphs, Style, TerminalProfile};
use crate::output::transaction_list;
use crate::output::units::{CalendarTime, DateTimeUtc, HumanDuration};

/// Maximum number of frames of a message whose headers are shown; the others are only named.
const MAX_FRAMES_WITH_HEADERS: usize = 4;

/// Writer of trees.
#[derive(Debug)]
pub struct FieldTreeTextWriter {
    screen: TerminalProfile,
    tree: FieldTree,
    labels: InfoColumnFormatter,
    lines: Vec<TreeLine>,
}

impl FieldTreeTextWriter {
    /// Creates a view for this screen; its lines are never truncated.
    pub fn new(screen: TerminalProfile) -> Self {
        let tree = FieldTree::new(screen.glyphs);
        Self { screen, tree, labels: InfoColumnFormatter::default(), lines: Vec::new() }
    }

    /// Adds the values in display filter syntax to the lines.
    #[must_use]
    pub fn with_literals(mut self) -> Self {
        self.tree.has_literals = true;
        self
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| line.write(out, &self.screen.styles))?;
        writeln!(out)
    }

    /// Writes a Transaction: its summary, then its Call and its Reply with headers and fields.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn transaction(
        &mut self,
        out: &mut impl Write,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        (names, findings): (&FileNames, &[Finding]),
        frames: &impl FrameStore,
    ) -> io::Result<()> {
        self.transaction_lines(transaction, messages, summary, names, findings, frames);
        self.write(out)
    }

    /// Returns the lines of a Transaction, as [`FieldTreeTextWriter::transaction`] writes them.
    pub fn transaction_lines(
        &mut self,
        transaction: &Transaction,
        transaction_messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        names: &FileNames,
        findings: &[Finding],
        frames: &impl FrameStore,
    ) -> &[TreeLine] {
        self.lines.clear();
        let context = FilehandleNamingContext { names, transaction, facts: summary };
        self.summary_lines(transaction, transaction_messages, context);
        let summary_end = self.lines.len();
        let mut message_ranges = Vec::new();
        for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let start = self.lines.len();
            match transaction.message(kind) {
                Some(message) => self.message(transaction_messages, context, kind, message, frames),
                None => {
                    let text = match kind {
                        RpcMessageKind::Call => "Call: not in the capture",
                        RpcMessageKind::Reply if transaction.is_done => {
                            "Reply: none, an RDMA_DONE ended the transaction"
                        }
                        RpcMessageKind::Reply => "Reply: not in the capture",
                    };
                    self.lines.push(heading(1, self.screen.styles.mark, text));
                }
            }
            let frames = transaction.message(kind).map_or(&[][..], |message| &message.frames);
            message_ranges.push((start..self.lines.len(), frames));
        }
        self.add_findings(findings, summary_end, &message_ranges);
        &self.lines
    }

    /// Adds the findings: under the line of their field and value in the message that breaks the rule, else under the
    /// first line of the field, else behind the summary.
    /// `messages` are the lines and frames of the Call and of the Reply.
    fn add_findings(&mut self, findings: &[Finding], summary_end: usize, messages: &[(Range<usize>, &[FrameNumber])]) {
        let locate = |finding: &Finding| {
            let name = finding.field?;
            let is_in = |frames: &[FrameNumber]| finding.frames.iter().any(|frame| frames.contains(frame));
            let (lines, _) = messages.iter().find(|(_, frames)| is_in(frames))?;
            let find = |value| lines.clone().find(|at| self.lines.get(*at).is_some_and(|line| line.shows(name, value)));
            let at = find(finding.value).or_else(|| find(None))?;
            Some((at + 1, self.lines.get(at)?.depth + 1))
        };
        let mut added: Vec<(usize, TreeLine)> = Vec::new();
        for finding in findings {
            let (at, depth) = locate(finding).unwrap_or((summary_end, 1));
            added.push((at, self.finding_line(finding, depth)));
        }
        // Those at one place keep their order, and the last places come first, so that the others stay valid.
        added.reverse();
        added.sort_by_key(|(at, _)| Reverse(*at));
        for (at, line) in added {
            self.lines.insert(at.min(self.lines.len()), line);
        }
    }

    fn finding_line(&self, finding: &Finding, depth: usize) -> TreeLine {
        let styles = self.screen.styles;
        let (style, deviation) = match finding.severity {
            ReportedFindingSeverity::Error => (styles.error, None),
            ReportedFindingSeverity::Warning => (styles.mark, None),
            ReportedFindingSeverity::Known => (styles.dim, finding.known.as_deref()),
            ReportedFindingSeverity::Info => (styles.dim, None),
        };
        let (severity, rule) = (finding.severity.name(), finding.rule);
        let known_deviation = deviation.map(|deviation| format!(" deviation ({deviation})")).unwrap_or_default();
        let address = line::address(finding.endpoint().address);
        let address = address.map(|text| format!(" {}", text.0)).unwrap_or_default();
        let text = format_args!(
            "{severity}{known_deviation}: {}, by the {}{address}: {} ({})",
            rule.id, finding.side, finding.text, rule.section
        );
        heading(depth, style, text)
    }

    /// Returns the content of the chunk that contains a complete message, which lines with
    /// [`TreeLineByteSource::Chunk`] refer to, or `None` for an inline message.
    pub fn message_chunk_content(transaction: &Transaction, kind: RpcMessageKind) -> Option<Vec<u8>> {
        transaction.message_in_chunk(kind).map(std::borrow::Cow::into_owned)
    }

    /// Writes the headers of the frame that the flow decoded last, and the messages that it completed or repeated.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn frame(&mut self, out: &mut impl Write, frame: &Frame<'_>, flow: &Flow, names: &FileNames) -> io::Result<()> {
        self.frame_lines(frame, flow, names);
        self.write(out)
    }

    /// Returns the lines of a frame, as [`FieldTreeTextWriter::frame`] writes them.
    pub fn frame_lines(&mut self, frame: &Frame<'_>, flow: &Flow, names: &FileNames) -> &[TreeLine] {
        self.lines.clear();
        self.frame_at(frame, 0, flow.is_iwarp(), flow.frame_mpa_counts());
        for frame_kind in flow.frame_kinds() {
            if let FrameContentKind::Message { key, which } | FrameContentKind::Retransmission { key, which } =
                *frame_kind
                && let Some(transaction) = flow.transaction(key)
                && let Some(message) = transaction.message(which)
            {
                transaction.with_messages(|messages| {
                    let context = FilehandleNamingContext { names, transaction, facts: &messages.summary() };
                    self.fields(messages, context, which, message, 1);
                });
            }
        }
        for message in flow.header_only_messages(frame.number) {
            self.header_only_message(message);
        }
        &self.lines
    }

    /// Adds the lines of a message that consists of a header only.
    fn header_only_message(&mut self, message: &RpcRdmaControlMessage) {
        self.tree.clear();
        let result = message.observe(&mut self.tree);
        self.tree.finish();
        let styles = self.screen.styles;
        // Positions count in the message, and not in the frame.
        let origin = TreeLineByteSource::Nothing;
        self.tree.lines(&mut self.lines, &styles, 1, (origin, origin), None);
        let error = result.err().map(|error| heading(1, styles.error, format_args!("not decoded further: {error}")));
        self.lines.extend(error);
    }

    fn summary_lines(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        FilehandleNamingContext { names, facts, .. }: FilehandleNamingContext<'_>,
    ) {
        let TerminalProfile { styles, glyphs, .. } = self.screen;
        let glyphs = &glyphs;
        let (mut operation, mut version, mut status) = (String::new(), String::new(), String::new());
        self.labels.write(messages, facts, names.paths(), glyphs, &mut operation);
        transaction_list::version(facts, &mut version);
        let is_ok = transaction_list::status(facts, &mut status);
        let title = match transaction.index {
            0 => format!("Call without a reply: {operation}"),
            index => format!("Transaction {index}: {operation}"),
        };
        self.lines.push(heading(0, styles.layer, title));

        let name = &transaction.connection;
        let (direction, arrow) = match transaction.direction {
            CallDirection::Forward => ("forward", glyphs.to),
            CallDirection::Reverse => ("reverse", glyphs.reply_arrow),
        };
        let (client, server) = (EndpointDisplay(name, &name.client), EndpointDisplay(name, &name.server));
        let connection = format_args!("{}, {}, {client} {arrow} {server}, {direction}", name.number, name.transport);
        self.lines.push(fact_line(&styles, 1, "connection", connection));
        self.lines.push(styled_fact_line(&styles, 1, "xid", styles.xid, transaction.xid));
        if let Some(program) = facts.program {
            let number = facts.version.unwrap_or(0);
            let minor = facts.minor_version.map(|minor| format!(", minor version {minor}")).unwrap_or_default();
            let procedure = match (facts.procedure_name, facts.procedure) {
                (Some(name), Some(number)) => format!(", procedure {name} ({number})"),
                (None, Some(number)) => format!(", procedure {number}"),
                _ => String::new(),
            };
            let text = format_args!("{program} version {number}{minor}{procedure}");
            self.lines.push(fact_line(&styles, 1, "program", text));
        }
        let fault = facts.fault(transaction).map(TransactionFault::name);
        if !status.is_empty() || fault.is_some() {
            let style = if is_ok && fault.is_none() { styles.ok } else { styles.error };
            let name = facts.status.and_then(|status| status.name).unwrap_or(&status);
            let words: Vec<&str> = [name].into_iter().chain(fault).filter(|word| !word.is_empty()).collect();
            self.lines.push(styled_fact_line(&styles, 1, "status", style, words.join(", ")));
        }
        if let Some((latency, phases)) = transaction.latency_ns().zip(transaction.phases()) {
            let time = |ns| HumanDuration(ns, *glyphs);
            let phases = phases.named_durations().into_iter().filter(|(_, ns)| *ns > 0);
            // In a callback, the client is the one that answers.
            let responder = responder(transaction.direction);
            let name = |name: &str| name.replace("server", responder).replace('_', " ");
            let phases: Vec<String> = phases.map(|(phase, ns)| format!("{} {}", name(phase), time(ns))).collect();
            let phases = format!("{}: {}", time(latency), phases.join(", "));
            self.lines.push(fact_line(&styles, 1, "latency", phases));
            if let Some(evidence) = transaction.possible_recovery() {
                let text = possible_recovery_text(evidence, *glyphs);
                self.lines.push(styled_fact_line(&styles, 1, responder, styles.mark, text));
            }
        }
        if let Some(evidence) = transaction.lost_copy() {
            let time = HumanDuration(evidence.ns(), *glyphs);
            let text = match evidence {
                UncapturedOriginalCallEvidence::Certain { .. } => format!(
                    "lost before the capture point: a packet that was sent behind it was captured {time} before the call"
                ),
                UncapturedOriginalCallEvidence::Possible { .. } => format!(
                    "possibly lost before the capture point, or the client was idle: {time} without a message before the call"
                ),
            };
            self.lines.push(styled_fact_line(&styles, 1, "earlier copy of the call", styles.mark, text));
        }
        self.chunks(transaction);
        if let Some(original) = transaction.retry_of {
            self.lines.push(fact_line(&styles, 1, "retry of", format_args!("transaction {original}")));
        }
        let missing = facts.missing(transaction);
        if !missing.is_empty() {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            self.lines.push(styled_fact_line(&styles, 1, "missing", styles.mark, missing.join(", ")));
        }
    }

    fn chunks(&mut self, transaction: &Transaction) {
        let kinds = [
            (ChunkKind::Read, transaction.read_chunks.as_slice()),
            (ChunkKind::Write, transaction.write_chunks.as_slice()),
            (ChunkKind::Reply, transaction.reply_chunk.as_slice()),
        ];
        for (kind, chunks) in kinds {
            for (index, chunk) in chunks.iter().enumerate() {
                self.chunk(&chunk_name(kind, index, chunk), chunk);
            }
        }
        for (index, chunk) in transaction.reply_read_chunks.iter().enumerate() {
            self.chunk(&format!("{} of the reply", chunk_name(ChunkKind::Read, index, chunk)), chunk);
        }
    }

    fn chunk(&mut self, name: &str, chunk: &Chunk) {
        let styles = self.screen.styles;
        let returned = chunk.returned_bytes().map(|returned| format!(", returned {returned}")).unwrap_or_default();
        let (offered, moved) = (chunk.offered_bytes(), chunk.moved_bytes());
        let cut = if chunk.is_cut { ", more segments may follow" } else { "" };
        let duration = match chunk.times.and_then(|(first, last)| last.nanoseconds_since(first)) {
            Some(ns) if ns > 0 => format!(" in {}", HumanDuration(ns, self.screen.glyphs)),
            _ => String::new(),
        };
        let text = format_args!("offered {offered}{returned}, moved {moved} bytes{duration}{cut}");
        self.lines.push(fact_line(&styles, 1, name, text));
        for (index, segment) in chunk.segments.iter().enumerate() {
            let ChunkSegment { handle, offset, length, frames, .. } = segment;
            let moved = segment.moved_coverage.total_bytes();
            let frames = match frames {
                Some((first, last)) if first == last => format!(", frame {first}"),
                Some((first, last)) => format!(", frames {first} to {last}"),
                None => String::new(),
            };
            let text = format_args!("handle {handle}, offset 0x{offset:016x}, length {length}, moved {moved}{frames}");
            self.lines.push(fact_line(&styles, 2, &format!("segment {index}"), text));
        }
    }

    fn message(
        &mut self,
        messages: &TransactionMessages<'_>,
        context: FilehandleNamingContext<'_>,
        kind: RpcMessageKind,
        message: &CapturedMessage,
        frames: &impl FrameStore,
    ) {
        let name = match kind {
            RpcMessageKind::Call => "Call",
            RpcMessageKind::Reply => "Reply",
        };
        let copies = match message.copies {
            ..=1 => String::new(),
            copies => format!(", sent {copies} times"),
        };
        let time = DateTimeUtc(CalendarTime::from_timestamp(message.time));
        // A refused copy ends before the message.
        let end = match message.end_time == message.time {
            true => String::new(),
            false => {
                format!(
                    "{} {}",
                    end_label(message.delivery_evidence),
                    DateTimeUtc(CalendarTime::from_timestamp(message.end_time))
                )
            }
        };
        // The time of delivery is that of a later copy.
        let first = if message.copies > 1 && !end.is_empty() { "first copy " } else { "" };
        let (numbers, length) = (FrameNumberList(&message.frames), message.length);
        let text = format_args!("{name}: {numbers}, {first}{time}{end}, {length} bytes{copies}");
        self.lines.push(heading(1, self.screen.styles.layer, text));
        for number in message.frames.iter().take(MAX_FRAMES_WITH_HEADERS) {
            if let Some(frame) = frames.frame(*number) {
                let is_iwarp = context.transaction.connection.transport == ConnectionTransport::Iwarp;
                self.frame_at(&frame, 2, is_iwarp, frames.crc(*number));
            }
        }
        self.fields(messages, context, kind, message, 2);
    }

    /// Adds the lines of a frame, with the CRC results of the FPDUs that it completes.
    fn frame_at(&mut self, frame: &Frame<'_>, depth: usize, is_iwarp: bool, crc: MpaCounts) {
        let (captured, length) = (frame.bytes.len(), frame.length);
        let cut = if captured < length as usize { format!(", {captured} captured") } else { String::new() };
        let time = DateTimeUtc(CalendarTime::from_timestamp(frame.time));
        let text = format_args!("Frame {}: {length} bytes{cut}, {time}", frame.number);
        let origin = TreeLineByteSource::Frame(frame.number);
        let mut line = heading(depth, self.screen.styles.layer, text);
        line.origin = origin;
        self.lines.push(line);
        self.tree.clear();
        let datagram = net::decode(frame, &mut self.tree);
        let mut error = None;
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => {
                if let Some(mad) = Mad::from_packet(packet, &mut self.tree)
                    && let Some(message) = cm::CmMessage::decode(&mad, &mut self.tree)
                    && let Some(private) = message.private_data()
                {
                    PrivateData::find(private.bytes, private.at, &mut self.tree);
                }
            }
            NetworkLayerPayload::Tcp(segment) if is_iwarp => observe_segment(segment.payload, &mut self.tree),
            NetworkLayerPayload::Other(reason) => error = Some(reason.to_string()),
            _ => {}
        }
        self.tree.finish();
        self.tree.lines(&mut self.lines, &self.screen.styles, depth + 1, (origin, origin), None);
        for (verdict, count) in crc.named_counts() {
            let (style, description) = match verdict {
                "good" => (self.screen.styles.ok, "right"),
                "bad" => (self.screen.styles.error, "wrong"),
                "absent" => (self.screen.styles.dim, "not in use"),
                _ => (self.screen.styles.mark, "not known: bytes are missing"),
            };
            let fpdus = if count == 1 { String::new() } else { format!(", {count} FPDUs") };
            let line = TreeLine::new(depth + 1, origin).with_text(self.screen.styles.label, "MPA CRC");
            self.lines.push(line.with_text(Style::new(), ": ").with_text(style, format_args!("{description}{fpdus}")));
        }
        self.lines.extend(error.map(|error| heading(depth + 1, self.screen.styles.mark, error)));
    }

    fn fields(
        &mut self,
        messages: &TransactionMessages<'_>,
        context: FilehandleNamingContext<'_>,
        kind: RpcMessageKind,
        message: &CapturedMessage,
        depth: usize,
    ) {
        let transaction = context.transaction;
        self.tree.clear();
        self.tree.chunks = data_chunks(transaction, kind);
        let result = messages.observe(kind, &mut FilehandleNameAnnotator { tree: &mut self.tree, context });
        let in_rpc = self.tree.rpc_root().is_some();
        let chunk_content = transaction.message_in_chunk(kind).filter(|_| in_rpc);
        let (bytes, base) = match &chunk_content {
            Some(content) => (&**content, 0),
            None => (message.bytes.as_slice(), message.rpc_offset.filter(|_| in_rpc).unwrap_or(0)),
        };
        let end = self.tree.end();
        self.tree.finish();
        let note = chunk_content.as_ref().map(|content| {
            let length = content.len();
            match kind {
                _ if !message.is_nomsg() => format!(
                    "the end of the RPC message is in a Read chunk, {} of {length} bytes; offsets are relative to the \
                     message",
                    length.saturating_sub(message.inline_bytes().len())
                ),
                RpcMessageKind::Call => format!(
                    "the RPC message is in the Position-Zero Read chunk, {length} bytes; offsets are relative to the chunk"
                ),
                RpcMessageKind::Reply => format!(
                    "the RPC message is in the Reply chunk, {length} bytes; offsets are relative to the chunk"
                ),
            }
        });
        let inline = TreeLineByteSource::Message(kind);
        let rpc = if chunk_content.is_some() { TreeLineByteSource::Chunk(kind) } else { inline };
        let styles = self.screen.styles;
        self.tree.lines(&mut self.lines, &styles, depth, (inline, rpc), note.as_deref());
        let rest = bytes.get(end..).unwrap_or_default();
        if let Err(error) = &result {
            let reason = match error {
                // A pending Transaction has no number yet, and a later frame may complete it.
                XdrError::Cut { .. } if transaction.index == 0 => "the rest was not seen up to this frame".to_owned(),
                error => error.reason().to_string(),
            };
            let text = format_args!("not decoded further: byte {}: {reason}", error.at() + base);
            self.lines.push(heading(depth, styles.error, text));
        }
        if !rest.is_empty() {
            let mut text = String::new();
            value::opaque(rest, &self.screen.glyphs, &mut text);
            let mut line = fact_line(&styles, depth, "undecoded", text).with_bytes(end..end + rest.len());
            line.origin = rpc;
            self.lines.push(line);
        }
    }
}

/// Says why the time of the responder may include loss recovery.
pub(crate) fn possible_recovery_text(evidence: PossibleRecovery, glyphs: Glyphs) -> String {
    let (lost, timeout) =
        ("or a packet, such as the reply, was lost before the capture point", "sent again after the ACK timeout");
    match evidence {
        PossibleRecovery::Nak => format!("{lost}: a NAK before the reply refuses packets that were not captured"),
        PossibleRecovery::AckTimeout { ns } => format!("{lost} and {timeout} of {}", HumanDuration(ns, glyphs)),
        PossibleRecovery::UnknownAckTimeout => format!("{lost} and {timeout}, which is unknown without the set-up"),
    }
}

/// Returns the text before the end time of a message.
fn end_label(delivered: DeliveryEvidence) -> &'static str {
    match delivered {
        DeliveryEvidence::Acknowledged => ", delivered",
        DeliveryEvidence::Assumed | DeliveryEvidence::AssumedFirst => " to",
    }
}

/// Endpoint of a connection: `10.9.0.2 QP 0x000011`, `10.9.0.2 port 2049`.
struct EndpointDisplay<'a>(&'a TransactionConnection, &'a Endpoint);

impl std::fmt::Display for EndpointDisplay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(name, end) = self;
        write!(f, "{}", end.address)?;
        match end.port {
            Some(port) if name.transport.has_ports() => write!(f, " port {port}"),
            Some(port) => write!(f, " QP 0x{port:06x}"),
            None => Ok(()),
        }
    }
}

/// List of frame numbers: `frame 590`, `frames 590, 591 and 593`; a long list is shortened to the first and the last.
struct FrameNumberList<'a>(&'a [FrameNumber]);

impl std::fmt::Display for FrameNumberList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => f.write_str("no frame"),
            [only] => write!(f, "frame {only}"),
            [first @ .., last] if first.len() < MAX_FRAMES_WITH_HEADERS => {
                f.write_str("frames ")?;
                for (index, number) in first.iter().enumerate() {
                    write!(f, "{}{number}", if index > 0 { ", " } else { "" })?;
                }
                write!(f, " and {last}")
            }
            [first, .., last] => write!(f, "{} frames from {first} to {last}", self.0.len()),
        }
    }
}

fn chunk_name(kind: ChunkKind, index: usize, chunk: &Chunk) -> String {
    match (kind, chunk.position) {
        (ChunkKind::Read, Some(0)) => "Position-Zero Read chunk".to_owned(),
        (ChunkKind::Read, Some(position)) => format!("Read chunk {index} at Position {position}"),
        (ChunkKind::Read, None) => format!("Read chunk {index}"),
        (ChunkKind::Write, _) => format!("Write chunk {index}"),
        (ChunkKind::Reply, _) => "Reply chunk".to_owned(),
    }
}

/// Returns the chunks of the data items of a message, in the order in which the message uses them.
fn data_chunks(transaction: &Transaction, kind: RpcMessageKind) -> Vec<String> {
    match kind {
        RpcMessageKind::Call => {
            let reads = ReadList::new(&transaction.read_chunks);
            let indices = reads.items().map(|chunks| chunks.indexed_chunks().map(|(index, _)| index.to_string()));
            indices.map(|of_item| format!("Read chunk {}", of_item.collect::<Vec<_>>().join(" and "))).collect()
        }
        RpcMessageKind::Reply => {
            let chunks = transaction.write_chunks.iter().enumerate();
            let chunks = chunks.filter(|(_, chunk)| chunk.returned_bytes().is_some_and(|returned| returned > 0));
            chunks.map(|(index, _)| format!("Write chunk {index}")).collect()
        }
    }
}
