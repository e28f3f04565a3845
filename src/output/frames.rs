//! Packet list: one line per frame, with its role in the Transactions.

mod line;

use std::fmt::Write as _;
use std::io::{self, Write};

use nfsrdma_analysis::names::FileNames;
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::{CapturedSlice, Frame, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::infiniband::cm;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::infiniband::{InfinibandPacket, PacketOperation, RdmaEncapsulation, Syndrome};
use nfsrdma_dissectors::iwarp::mpa::{MpaStartupFrame, MpaStartupFrameKind};
use nfsrdma_dissectors::net::{InnermostNetworkPacket, NetworkLayerPayload, TcpSegment, UndecodableFrameReason};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{RpcRdmaMessageType, SidePrivateData};
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::ProcedureOrMainOperation;
use nfsrdma_flow::{Flow, FrameContentKind, TransactionSlabKey, UndecodedReason};

use super::info_column::InfoColumnFormatter;
use super::settings::TimeFormat;
use super::style::{Style, TerminalProfile};
use super::transaction_list;
use super::units::{HumanDuration, ViewTimeFormatter};
use line::{FrameColumnWidths, FrameListLine};

/// Writer of the packet list.
#[derive(Debug)]
pub struct FrameListWriter {
    screen: TerminalProfile,
    clock: ViewTimeFormatter,
    labels: InfoColumnFormatter,
    has_header: bool,
    widths: FrameColumnWidths,
    /// Columns scrolled off at the left of each line.
    scroll_columns: usize,
    line: FrameListLine,
    last: LastFormattedFrameSortKeys,
}

/// Cells of the last line that its text does not contain in reusable form.
#[derive(Debug, Default)]
struct LastFormattedFrameSortKeys {
    time: Timestamp,
    source: Address,
    destination: Address,
    protocol: String,
    length_bytes: u32,
    /// Byte offset of the last column in the text.
    info_offset: usize,
}

/// Cells of a line, as sort keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameColumnSortKeys {
    /// Capture time of the frame.
    pub time: Timestamp,
    /// Address of the sender.
    pub source: Address,
    /// Address of the receiver.
    pub destination: Address,
    /// Name of the protocol.
    pub protocol: String,
    /// Length of the frame on the wire in bytes.
    pub length_bytes: u32,
    /// Text of the info column.
    pub info: String,
}

impl FrameListWriter {
    /// Creates a packet list for this screen.
    pub fn new(screen: TerminalProfile, time: TimeFormat) -> Self {
        Self {
            screen,
            clock: ViewTimeFormatter::new(time),
            labels: InfoColumnFormatter::default(),
            has_header: false,
            widths: FrameColumnWidths::for_screen(screen.width, time),
            scroll_columns: 0,
            line: FrameListLine::default(),
            last: LastFormattedFrameSortKeys::default(),
        }
    }

    /// Scrolls each line left by `scroll_columns` columns.
    #[must_use]
    pub fn with_scroll(self, scroll_columns: usize) -> Self {
        Self { scroll_columns, ..self }
    }

    /// Returns the cells of the last line.
    pub fn last_cells(&self) -> FrameColumnSortKeys {
        let LastFormattedFrameSortKeys { time, source, destination, ref protocol, length_bytes, info_offset: info_at } =
            self.last;
        let info = self.line.text.get(info_at..).unwrap_or_default().to_owned();
        FrameColumnSortKeys { time, source, destination, protocol: protocol.clone(), length_bytes, info }
    }

    /// Sets the time of the first frame, from which relative times count.
    pub fn start(&mut self, time: Timestamp) {
        self.clock.start(time);
    }

    /// Writes the line of a frame right after the flow decoded it; `datagram` and `frame_kind` are the results of
    /// [`Flow::process_frame_observed`].
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn frame(
        &mut self,
        out: &mut impl Write,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        frame_kind: FrameContentKind,
        flow: &Flow,
        names: &mut FileNames,
    ) -> io::Result<()> {
        let TerminalProfile { styles, glyphs, width } = self.screen;
        let (source, destination) = (datagram.source.to_string(), datagram.destination.to_string());
        if width.is_none() {
            self.widths.widen_addresses(&source, &destination);
        }
        let FrameColumnWidths { number, time, address, protocol, length } = self.widths;
        if !self.has_header {
            self.has_header = true;
            self.line.clear();
            let text = &mut self.line.text;
            let to = glyphs.to;
            let _ = write!(text, "{:>number$} {:>time$} ", "FRAME", "TIME");
            if address > 0 {
                let destination = if address < "DESTINATION".len() { "DEST" } else { "DESTINATION" };
                let _ = write!(text, "{:>address$} {to} {destination:<address$} ", "SOURCE");
            }
            self.line.push(styles.header, format_args!("{:<protocol$} {:>length$} INFO", "PROTO", "BYTES"));
            self.line.write_line(out, &self.screen, self.scroll_columns)?;
        }
        self.line.clear();
        self.line.push(styles.dim, format_args!("{:>number$} ", frame.number.0));
        let mut cell = String::new();
        self.clock.write(frame.time, &mut cell);
        self.line.push(styles.time, format_args!("{cell:>time$} "));
        if address > 0 {
            self.line.push(Style::new(), format_args!("{source:>address$} {} {destination:<address$} ", glyphs.to));
        }
        let name = protocol_name(datagram, frame_kind, flow);
        self.line.push(styles.label, format_args!("{name:<protocol$} "));
        self.line.push(Style::new(), format_args!("{:>length$} ", frame.length));
        let info_at = self.line.text.len();
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => self.packet(packet, frame_kind, flow, names),
            NetworkLayerPayload::Tcp(segment) => {
                self.write_payload_meanings(flow, names, segment.payload, |text| {
                    write_tcp_header(segment, glyphs.to, text)
                });
            }
            NetworkLayerPayload::Udp(datagram) => {
                self.write_payload_meanings(flow, names, datagram.payload, |text| {
                    let (source, destination) = (datagram.source_port, datagram.destination_port);
                    let length = datagram.payload.length;
                    let _ = write!(text, "{source} {} {destination} Len={length}", glyphs.to);
                });
            }
            NetworkLayerPayload::Fragment(_) => self.line.text.push_str("fragment of an IP datagram"),
            NetworkLayerPayload::Other(
                UndecodableFrameReason::EtherType(_) | UndecodableFrameReason::IpProtocol(_),
            ) => {}
            NetworkLayerPayload::Other(reason) => {
                self.line.push(styles.mark, format_args!("{reason}"));
            }
        }
        self.last = LastFormattedFrameSortKeys {
            time: frame.time,
            source: datagram.source,
            destination: datagram.destination,
            protocol: name,
            length_bytes: frame.length,
            info_offset: info_at,
        };
        self.line.text.truncate(self.line.text.trim_end().len());
        self.line.write_line(out, &self.screen, self.scroll_columns)
    }

    /// Appends the meaning of a TCP segment or UDP datagram, and then its header in parentheses.
    fn write_payload_meanings(
        &mut self,
        flow: &Flow,
        names: &mut FileNames,
        payload: CapturedSlice<'_>,
        wire: impl FnOnce(&mut String),
    ) {
        let styles = self.screen.styles;
        let is_described = |frame_kind: &&FrameContentKind| {
            !matches!(frame_kind, FrameContentKind::Unrelated | FrameContentKind::Control)
        };
        let mut frame_kinds: Vec<(FrameContentKind, usize)> = Vec::new();
        for frame_kind in flow.frame_kinds().iter().filter(is_described) {
            // Several FPDUs of one chunk count as one.
            match frame_kinds.last_mut() {
                Some((last, count)) if last == frame_kind => *count += 1,
                _ => frame_kinds.push((*frame_kind, 1)),
            }
        }
        for (index, (frame_kind, count)) in frame_kinds.iter().take(MAX_SHOWN_MESSAGES).enumerate() {
            if index > 0 {
                self.line.text.truncate(self.line.text.trim_end().len());
                self.line.text.push_str("; ");
            }
            self.write_meaning(*frame_kind, *count, payload, flow, names);
        }
        if frame_kinds.len() > MAX_SHOWN_MESSAGES {
            let _ = write!(self.line.text, "; and {} more ", frame_kinds.len() - MAX_SHOWN_MESSAGES);
        }
        if frame_kinds.is_empty() {
            return wire(&mut self.line.text);
        }
        self.line.end_piece(Style::new());
        self.line.text.push('(');
        wire(&mut self.line.text);
        self.line.text.push(')');
        self.line.end_piece(styles.dim);
    }

    /// Appends one meaning of the bytes of a stream or datagram; `count` is the number of successive FPDUs with this
    /// meaning.
    fn write_meaning(
        &mut self,
        frame_kind: FrameContentKind,
        count: usize,
        payload: CapturedSlice<'_>,
        flow: &Flow,
        names: &mut FileNames,
    ) {
        let styles = self.screen.styles;
        match frame_kind {
            FrameContentKind::Message { key, which: message_kind } => self.message(key, message_kind, flow, names),
            FrameContentKind::Retransmission { key, which: message_kind } => {
                self.line.push(styles.mark, "again ");
                self.message(key, message_kind, flow, names);
            }
            FrameContentKind::Done { key } => self.write_rdma_done(key, flow),
            FrameContentKind::TransportMessage(message_type) => self.transport_message(message_type),
            FrameContentKind::EmptyOperation => self.empty(),
            FrameContentKind::PartialMessage if flow.is_iwarp() => {
                self.line.text.push_str("part of an FPDU or of a message ")
            }
            FrameContentKind::PartialMessage => self.line.text.push_str("part of a message "),
            FrameContentKind::EarlyMessage { xid, which: message_kind } => self.early_message(xid, message_kind),
            FrameContentKind::SkippedBytes { bytes } => {
                self.line.push(styles.mark, format_args!("{bytes} bytes of a record whose mark is missing "));
            }
            FrameContentKind::Undecoded(reason) => {
                self.line.text.push_str(undecoded_reason_text(reason));
                self.line.text.push(' ');
                self.line.end_piece(styles.mark);
            }
            FrameContentKind::ChunkData { key, kind, chunk } => {
                let verb = match kind {
                    ChunkKind::Read => "RDMA Read Response from",
                    ChunkKind::Write | ChunkKind::Reply => "RDMA Write to",
                };
                let _ = write!(self.line.text, "{verb} ");
                self.chunk(key, kind, chunk, flow);
                if count > 1 {
                    self.line.push(Style::new(), format_args!("in {count} FPDUs "));
                }
            }
            FrameContentKind::ReadRequest { key, chunk } => {
                self.line.text.push_str("RDMA Read Request of ");
                self.chunk(key, ChunkKind::Read, chunk, flow);
            }
            FrameContentKind::Management => {
                write_mpa_startup(payload, &mut self.line.text);
                self.line.end_piece(Style::new());
            }
            FrameContentKind::Terminate(terminate) => {
                self.line.push(styles.error, format_args!("Terminate: {terminate} "));
            }
            FrameContentKind::Control | FrameContentKind::Unrelated => {}
        }
    }

    /// Appends the meaning of an InfiniBand packet, and then its header in parentheses.
    fn packet(
        &mut self,
        packet: &InfinibandPacket<'_>,
        frame_kind: FrameContentKind,
        flow: &Flow,
        names: &mut FileNames,
    ) {
        let styles = self.screen.styles;
        match frame_kind {
            FrameContentKind::ChunkData { key, kind, chunk } => {
                let verb = match kind {
                    ChunkKind::Read => "read from",
                    ChunkKind::Write | ChunkKind::Reply => "written to",
                };
                let _ = write!(self.line.text, "{} bytes {verb} ", packet.payload.length);
                self.chunk(key, kind, chunk, flow);
            }
            FrameContentKind::ReadRequest { key, chunk } => {
                let length = packet.reth.map_or(0, |reth| reth.dmalen);
                let _ = write!(self.line.text, "asks for {length} bytes of ");
                self.chunk(key, ChunkKind::Read, chunk, flow);
            }
            FrameContentKind::Control => self.control(packet),
            FrameContentKind::Management => {
                write_management(packet, &mut self.line.text);
                self.line.end_piece(Style::new());
            }
            // The fallback would describe the last TCP segment.
            FrameContentKind::PartialMessage => self.line.text.push_str("part of a message "),
            frame_kind => self.write_meaning(frame_kind, 1, packet.payload, flow, names),
        }
        if !matches!(frame_kind, FrameContentKind::Management) {
            let (qp, psn) = (packet.bth.destqp, packet.bth.psn);
            self.line.push(styles.dim, format_args!("({} QP={qp} PSN={psn})", packet.bth.opcode));
        }
        if packet.bth.fecn || packet.bth.becn {
            let name = if packet.bth.becn { "BECN" } else { "FECN" };
            self.line.push(styles.mark, format_args!(" {name}"));
        }
    }

    /// Appends an RDMA_DONE and the Transaction that it completes.
    fn write_rdma_done(&mut self, key: TransactionSlabKey, flow: &Flow) {
        self.line.push(self.screen.styles.operation, "RDMA_DONE ");
        if let Some(transaction) = flow.transaction(key) {
            self.line.push(self.screen.styles.xid, format_args!("of {} ", transaction.xid));
        }
    }

    /// Appends an RPC-over-RDMA message that belongs to no Transaction.
    fn transport_message(&mut self, message_type: RpcRdmaMessageType) {
        self.line.push(self.screen.styles.operation, format_args!("{message_type} "));
    }

    /// Appends a message behind bytes that were not captured yet: `Call xid 0xb38df27d, after bytes not captured yet`.
    fn early_message(&mut self, xid: Xid, kind: RpcMessageKind) {
        self.line.text.push_str(message_kind_word(kind));
        self.line.push(self.screen.styles.xid, format_args!("xid {xid}"));
        self.line.text.push_str(", after bytes not captured yet ");
    }

    /// Appends an RDMA operation without data.
    fn empty(&mut self) {
        self.line.push(self.screen.styles.dim, "no data: keep-alive or return of credits ");
    }

    fn control(&mut self, packet: &InfinibandPacket<'_>) {
        let TerminalProfile { styles, glyphs, .. } = self.screen;
        match packet.aeth.map(|aeth| (aeth.syndrome, aeth.msn)) {
            Some((Syndrome::Ack { .. }, msn)) => {
                self.line.push(styles.ok, format_args!("Ack, MSN {} ", msn.0));
            }
            Some((syndrome @ Syndrome::RnrNak { .. }, _)) => {
                let wait_ns = u64::from(syndrome.wait_us().unwrap_or(0)) * 1_000;
                self.line.push(
                    styles.error,
                    format_args!("NAK: receiver not ready, wait {} ", HumanDuration(wait_ns, glyphs)),
                );
            }
            Some((Syndrome::Nak(code), _)) => {
                self.line.push(styles.error, format_args!("NAK: {code} "));
            }
            Some((Syndrome::Reserved(byte), _)) => {
                self.line.push(styles.mark, format_args!("reserved syndrome {byte:#04x} "));
            }
            None if packet.properties.operation == PacketOperation::Cnp => {
                self.line.push(styles.mark, "congestion ");
            }
            None => {}
        }
    }

    /// Appends an RPC message: `V4.2 Call READ 0+4096 xid 0xb38df27d`,
    /// `V4.2 Reply READ ok xid 0xb38df27d, Call in 590`.
    fn message(&mut self, key: TransactionSlabKey, kind: RpcMessageKind, flow: &Flow, names: &mut FileNames) {
        let Some(transaction) = flow.transaction(key) else {
            self.line.text.push_str("message of a transaction that is over ");
            return;
        };
        let TerminalProfile { styles, glyphs, .. } = self.screen;
        transaction.with_messages(|messages| {
            let summary = messages.summary();
            let _ = match (summary.minor_version, summary.version) {
                (Some(minor), _) => write!(self.line.text, "V4.{minor} "),
                (None, Some(version)) => write!(self.line.text, "V{version} "),
                (None, None) => Ok(()),
            };
            self.line.text.push_str(message_kind_word(kind));
            self.line.end_piece(Style::new());
            match kind {
                RpcMessageKind::Call => {
                    names.resolve(transaction, messages, &summary);
                    self.labels.write(messages, &summary, names.paths(), &glyphs, &mut self.line.text);
                    self.line.end_piece(styles.operation);
                }
                RpcMessageKind::Reply => {
                    if let Some(ProcedureOrMainOperation::Named(name)) = summary.operation {
                        self.line.push(styles.operation, name);
                        self.line.text.push(' ');
                    }
                    let is_ok = match summary.fault(transaction) {
                        Some(fault) => {
                            self.line.text.push_str(fault.name());
                            false
                        }
                        None => transaction_list::status(&summary, &mut self.line.text),
                    };
                    self.line.end_piece(if is_ok { styles.ok } else { styles.error });
                }
            }
        });
        self.line.push(styles.xid, format_args!(" xid {}", transaction.xid));
        let call = transaction.call.as_ref().and_then(|call| call.frames.first());
        match (kind, call) {
            (RpcMessageKind::Reply, Some(call)) => {
                let _ = write!(self.line.text, ", call in {call} ");
            }
            (RpcMessageKind::Reply, None) => self.line.text.push_str(", no call "),
            (RpcMessageKind::Call, _) => self.line.text.push(' '),
        }
        self.line.end_piece(Style::new());
    }

    /// Appends a chunk: `Write chunk 0 of 0xb38df27d`.
    fn chunk(&mut self, key: TransactionSlabKey, kind: ChunkKind, chunk: usize, flow: &Flow) {
        let styles = self.screen.styles;
        let _ = match kind {
            ChunkKind::Read => write!(self.line.text, "Read chunk {chunk}"),
            ChunkKind::Write => write!(self.line.text, "Write chunk {chunk}"),
            ChunkKind::Reply => write!(self.line.text, "Reply chunk"),
        };
        self.line.end_piece(styles.chunk);
        if let Some(transaction) = flow.transaction(key) {
            self.line.push(Style::new(), " of");
            self.line.push(styles.xid, format_args!(" {}", transaction.xid));
        }
        self.line.text.push(' ');
        self.line.end_piece(Style::new());
    }
}

/// Maximum number of messages shown of a TCP segment.
const MAX_SHOWN_MESSAGES: usize = 8;

/// Returns the name of the highest protocol found in a frame.
fn protocol_name(datagram: &InnermostNetworkPacket<'_>, frame_kind: FrameContentKind, flow: &Flow) -> String {
    let mut messages = flow.frame_kinds().iter().filter_map(|frame_kind| match frame_kind {
        FrameContentKind::Message { key, .. }
        | FrameContentKind::Retransmission { key, .. }
        | FrameContentKind::Done { key } => flow.transaction(*key),
        _ => None,
    });
    let message = messages.next();
    match &datagram.payload {
        NetworkLayerPayload::Infiniband(packet) => match (message, frame_kind) {
            (Some(transaction), _) => program_name(transaction),
            (None, FrameContentKind::Management) => "CM".to_owned(),
            _ => match packet.encapsulation {
                RdmaEncapsulation::RoceV2 => "RoCEv2".to_owned(),
                RdmaEncapsulation::RoceV1 => "RoCEv1".to_owned(),
                RdmaEncapsulation::InfiniBand => "IB".to_owned(),
            },
        },
        NetworkLayerPayload::Tcp(_) => match (message, frame_kind) {
            (Some(transaction), _) => program_name(transaction),
            (None, FrameContentKind::Undecoded(UndecodedReason::Tls)) => "TLS".to_owned(),
            (None, FrameContentKind::Management) => "MPA".to_owned(),
            (None, FrameContentKind::PartialMessage | FrameContentKind::Undecoded(_)) if flow.is_iwarp() => {
                "iWARP".to_owned()
            }
            (None, frame_kind) if is_iwarp(frame_kind) => "iWARP".to_owned(),
            (
                None,
                FrameContentKind::PartialMessage
                | FrameContentKind::EarlyMessage { .. }
                | FrameContentKind::SkippedBytes { .. }
                | FrameContentKind::Undecoded(_),
            ) => "RPC".to_owned(),
            _ => "TCP".to_owned(),
        },
        NetworkLayerPayload::Udp(_) => message.map_or("UDP".to_owned(), program_name),
        NetworkLayerPayload::Fragment(_) => "IP".to_owned(),
        NetworkLayerPayload::Other(UndecodableFrameReason::EtherType(ether_type)) => ether_type.to_string(),
        NetworkLayerPayload::Other(UndecodableFrameReason::IpProtocol(protocol)) => protocol.to_string(),
        NetworkLayerPayload::Other(UndecodableFrameReason::Infiniband(_)) => "IB".to_owned(),
        NetworkLayerPayload::Other(_) => "?".to_owned(),
    }
}

/// Returns the word that begins the description of a message.
fn message_kind_word(kind: RpcMessageKind) -> &'static str {
    match kind {
        RpcMessageKind::Call => "Call ",
        RpcMessageKind::Reply => "Reply ",
    }
}

/// Returns `true` if only iWARP has this meaning, of all protocols on TCP streams.
fn is_iwarp(frame_kind: FrameContentKind) -> bool {
    match frame_kind {
        FrameContentKind::ChunkData { .. }
        | FrameContentKind::ReadRequest { .. }
        | FrameContentKind::TransportMessage(_)
        | FrameContentKind::Terminate(_) => true,
        FrameContentKind::Undecoded(reason) => matches!(
            reason,
            UndecodedReason::Framing
                | UndecodedReason::BadCrc
                | UndecodedReason::WriteToUnknownMemory
                | UndecodedReason::ReadOfUnknownMemory
                | UndecodedReason::ReadWithoutRequest
                | UndecodedReason::OtherService
        ),
        _ => false,
    }
}

fn program_name(transaction: &Transaction) -> String {
    let program = transaction.with_messages(|messages| messages.summary().program);
    match program {
        Some(program) if program.is_transient() => "NFS_CB".to_owned(),
        Some(program) if program.name().is_some() => program.to_string(),
        _ => "RPC".to_owned(),
    }
}

/// Appends a TCP header like tshark, but with the absolute sequence number: `42296 → 111 [SYN, ACK] Seq=0 Len=0`.
fn write_tcp_header(segment: &TcpSegment<'_>, to: &str, text: &mut String) {
    let (source, destination) = (segment.source_port, segment.destination_port);
    let _ = write!(text, "{source} {to} {destination} [");
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set_flags = names.iter().enumerate().filter(|(bit, _)| segment.flags.0 >> bit & 1 == 1);
    for (count, (_, name)) in set_flags.enumerate() {
        let _ = write!(text, "{}{name}", if count > 0 { ", " } else { "" });
    }
    let _ = write!(text, "] Seq={} Len={}", segment.sequence.0, segment.payload.length);
}

/// Appends a message of the connection manager and the inline thresholds of its private data.
fn write_management(packet: &InfinibandPacket<'_>, text: &mut String) {
    let Some(mad) = Mad::from_packet(packet, &mut NullFieldObserver) else {
        text.push_str("management datagram");
        return;
    };
    let Some(message) = cm::CmMessage::decode(&mad, &mut NullFieldObserver) else {
        let _ = write!(text, "{}", mad.header.mgmtclass);
        return;
    };
    let _ = write!(text, "CM {}", cm::CmMessageType(mad.header.attributeid.0));
    let _ = match &message {
        cm::CmMessage::Request(request, ends, _) => {
            let _ = write!(text, " QP={} PSN={}", request.local_qpn, request.starting_psn);
            match ends {
                Some(ends) => write!(text, " to port {}", ends.destination_port),
                None => Ok(()),
            }
        }
        cm::CmMessage::Reply(reply, _) => write!(text, " QP={} PSN={}", reply.local_qpn, reply.starting_psn),
        cm::CmMessage::Reject(reject, ..) => write!(text, ": {}", reject.reason),
        cm::CmMessage::Cut(..) => write!(text, ", cut"),
        _ => Ok(()),
    };
    // Only these two establish a connection.
    if let cm::CmMessage::Request(_, _, part) | cm::CmMessage::Reply(_, part) = message {
        private_data(SidePrivateData::find(part, &mut NullFieldObserver), text);
    }
}

/// Appends an MPA startup frame and its parameters.
fn write_mpa_startup(payload: CapturedSlice<'_>, text: &mut String) {
    let Some(startup) = MpaStartupFrame::decode(payload, &mut NullFieldObserver) else {
        text.push_str("end of a frame that starts MPA ");
        return;
    };
    text.push_str(match (startup.kind, startup.rejected) {
        (MpaStartupFrameKind::Request, _) => "MPA Request",
        (MpaStartupFrameKind::Reply, false) => "MPA Reply",
        (MpaStartupFrameKind::Reply, true) => "MPA Reply: rejected",
    });
    let _ = write!(text, ", revision {}", startup.revision);
    text.push_str(if startup.markers { ", markers" } else { "" });
    text.push_str(if startup.crc { ", CRC" } else { "" });
    if let Some(enhanced) = startup.enhanced {
        let _ = write!(text, ", IRD {} ORD {}", enhanced.ird.0, enhanced.ord.0);
    }
    private_data(startup.rpcrdma, text);
    text.push(' ');
}

/// Appends the inline thresholds of private data.
fn private_data(private: SidePrivateData, text: &mut String) {
    let private = match private {
        SidePrivateData::Present(private) => private,
        SidePrivateData::Absent => return,
        SidePrivateData::Cut => return text.push_str(", private data cut"),
    };
    let (send, receive) = (private.send_threshold_bytes(), private.receive_threshold_bytes());
    let invalidation = if private.remote_invalidation { ", remote invalidation" } else { "" };
    let _ = write!(text, ", inline thresholds send {send} receive {receive}{invalidation}");
}

/// Returns the description of the reason why a frame was not decoded.
fn undecoded_reason_text(reason: UndecodedReason) -> &'static str {
    match reason {
        UndecodedReason::Malformed => "malformed",
        UndecodedReason::CutFrame => "too little of the packet was captured to tell what it does",
        UndecodedReason::NotRpcRdma => "no RPC-over-RDMA",
        UndecodedReason::MalformedHeader => "malformed RPC-over-RDMA header",
        UndecodedReason::DoneWithoutCall => "RDMA_DONE without its call",
        UndecodedReason::CutHeader => "too little of the message was captured to tell what it is",
        UndecodedReason::CutAdvertisement => "RDMA to memory of a chunk list that was captured in part",
        UndecodedReason::CutWrite => "part of an RDMA Write whose first packet was captured in part",
        UndecodedReason::CutRead => "RDMA Read response to a request that was captured in part",
        UndecodedReason::MessagePart => "part of a message without the others",
        UndecodedReason::WriteWithoutFirst => "part of an RDMA Write without its first packet",
        UndecodedReason::WriteToUnknownMemory => "RDMA Write to unknown memory",
        UndecodedReason::ReadOfUnknownMemory => "RDMA Read of unknown memory",
        UndecodedReason::ReadWithoutRequest => "RDMA Read response without request",
        UndecodedReason::LateCopy => "late copy of a message",
        UndecodedReason::NoRecordMark => "bytes of a record whose mark is missing",
        UndecodedReason::NotRpc => "no RPC message",
        UndecodedReason::Contradiction => "other bytes than were sent first",
        UndecodedReason::Stray => "not accepted by its stream: a SYN, or far from all other bytes",
        UndecodedReason::BadChecksum => "wrong TCP checksum",
        UndecodedReason::UnknownStream => "stream on a port of NFS that is not known",
        UndecodedReason::CutStream => "too little of the stream was captured to tell what it is",
        UndecodedReason::Tls => "TLS",
        UndecodedReason::Management => "unknown management datagram",
        UndecodedReason::Framing => "bytes without FPDU",
        UndecodedReason::BadCrc => "FPDU with a bad CRC",
        UndecodedReason::OtherService => "transport service without use for NFS",
    }
}
