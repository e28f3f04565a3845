//! View of connections: one line per connection when it closes, with its endpoints, totals, credits and setup
//! parameters.

use std::fmt::Write as _;
use std::io::{self, Write};

use nfsrdma_analysis::connection_states_and_credits::ConnectionStats;
use nfsrdma_analysis::connections::ConnectionTally;
use nfsrdma_analysis::load_over_time::{CreditSeries, TimeAtLimit};
use nfsrdma_analysis::sessions::{ConnectionSessionSummary, SessionChannelBinding, SessionChannelLimits};
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::address::VirtualNetwork;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::rpcrdma::version2::PeerProperties;
use nfsrdma_dissectors::rpcrdma::{Dialect, PrivateData, SidePrivateData};
use nfsrdma_flow::transaction::{Endpoint, TransactionConnection};
use nfsrdma_flow::{NegotiatedParameters, RdmaReadResources, ServiceIdOrPort, Version2SendCredits};
use serde::Serialize;

use super::json::line::{connection_members, finding_object};
use super::json::object::{DisplayAsJsonString, JsonArray, SCHEMA, json_object, write_json_line};
use super::operation_statistics::recovery_text;
use super::settings::{OutputLineFormat, TimeFormat};
use super::style::{Glyphs, Style, TerminalProfile};
use super::table::{TableColumn, TableLineWriter, csv, csv_cells, number, text, text_from};
use super::transaction_list::marked_severity;
use super::units::{HexBytes, HumanCount, HumanDuration, HumanSize, IsoTimestamp, PluralCount};
use crate::escape;

/// Columns, here and in the terminal interface.
pub const COLUMNS: &[TableColumn] = &[
    text("CONNECTION", 40),
    number("CONN", 6, 60),
    text_from("TRANSPORT", 10, 70),
    text_from("DIALECT", 9, 120),
    number("TRANSACTIONS", 12, 0),
    number("BYTES", 8, 0),
    number("INCOMPLETE", 10, 84),
    text_from("STATE", 11, 110),
    number("GRANTED", 7, 100),
    number("IN USE", 7, 100),
    number("AT LIMIT", 8, 100),
    number("RECOVERY", 8, 130),
];

/// Columns with the severity of the worst finding.
const COLUMNS_WITH_FINDINGS: &[TableColumn; COLUMNS.len() + 1] = &{
    let mut columns = [text("FINDING", 7); COLUMNS.len() + 1];
    let (base_columns, _) = columns.split_at_mut(COLUMNS.len());
    base_columns.copy_from_slice(COLUMNS);
    columns
};

/// Returns the cells of a connection.
pub fn cells(row: &ConnectionStats, glyphs: Glyphs) -> [String; COLUMNS.len()] {
    let ConnectionTally { name, dialect, transactions, incomplete, bytes, .. } = row.tally;
    let used = row.in_use().filter(|_| row.has_credits()).map_or(String::new(), |used| used.to_string());
    [
        format_endpoints(&name, glyphs),
        name.number.to_string(),
        name.transport.to_string(),
        dialect.map_or(String::new(), |dialect| dialect.to_string()),
        HumanCount(transactions).to_string(),
        HumanSize(bytes).to_string(),
        if incomplete > 0 { HumanCount(incomplete).to_string() } else { String::new() },
        row.state_name().to_owned(),
        grants_text(row.grants()),
        used,
        at_limit_text(row.time_at_limit(), glyphs),
        recovery_text(row.tally.recovery_ns, glyphs),
    ]
}

/// Formats the credit grants, the smallest that limited calls and the largest: `16-64`, or `64` if they are the same;
/// blank without any.
pub fn grants_text((smallest, largest): (u32, u32)) -> String {
    match largest {
        0 => String::new(),
        _ if smallest == largest => largest.to_string(),
        _ => format!("{smallest}-{largest}"),
    }
}

/// Formats the time at a limit: `1.50 s`, `never`, or blank if the limit is unknown.
pub fn at_limit_text(time: TimeAtLimit, glyphs: Glyphs) -> String {
    match time {
        TimeAtLimit::Unknown => String::new(),
        TimeAtLimit::Never => "never".to_owned(),
        TimeAtLimit::Ns(ns) => HumanDuration(ns, glyphs).to_string(),
    }
}

/// Formats the endpoints of a connection, and its virtual network.
pub fn format_endpoints(name: &TransactionConnection, glyphs: Glyphs) -> String {
    let end = |end: &Endpoint| match end.port {
        Some(port) if name.transport.has_ports() => format!("{}:{port}", end.address),
        Some(port) => format!("{} QP {port}", end.address),
        None => end.address.to_string(),
    };
    let mut ends = format!("{} {} {}", end(&name.client), glyphs.to, end(&name.server));
    if name.tenant != VirtualNetwork::NONE {
        let _ = write!(ends, " {}", name.tenant);
    }
    ends
}

/// Describes the setup parameters of a connection, its sessions, and the RPC-over-RDMA version 2 properties of its
/// peers.
pub fn describe_parameters(row: &ConnectionStats, glyphs: Glyphs) -> String {
    let mut text = if row.tally.name.transport.is_rdma() { set_up(row) } else { String::new() };
    for session in &row.sessions {
        text.push_str(&describe_session(session));
        if let Some(slots) = row.slots.get(&session.id) {
            let _ = write!(text, "; {}", describe_use("slots", slots, glyphs));
        }
    }
    if let Some(sides) = message_credits(row) {
        for (name, Version2SendCredits { sent_messages: sent, send_limit: limit, min_remaining }) in
            ["client", "server"].into_iter().zip(sides)
        {
            let _ = write!(text, "; {name} sent {}", PluralCount(sent.into(), "message"));
            if let Some(limit) = limit {
                let _ = write!(text, " of {limit}");
            }
            if let Some(min_remaining) = min_remaining {
                let _ = write!(text, ", minimum left {min_remaining}");
            }
        }
    }
    let sides = row.state.map(|state| state.properties).unwrap_or_default();
    for (name, properties) in ["client", "server"].into_iter().zip(sides) {
        if let Some(properties) = properties {
            let _ = write!(text, "; {name}'s properties:");
            let mut is_first = true;
            for (property, value, unit) in property_values(&properties) {
                let Some(value) = value else { continue };
                let separator = if std::mem::replace(&mut is_first, false) { "" } else { "," };
                let _ = write!(text, "{separator} {property} {value}{unit}");
            }
        }
    }
    text.strip_prefix("; ").map(str::to_owned).unwrap_or(text)
}

/// Describes the use of credits or slots: `slots: at most 8 in use of 8 granted, at the limit for 1.50 s, to the end`.
pub fn describe_use(name: &str, series: &CreditSeries, glyphs: Glyphs) -> String {
    let (in_flight, limit) = series.most_in_flight();
    let mut text = format!("{name}: at most {in_flight} in use");
    match limit {
        0 => text.push_str(", no grant captured before"),
        limit => _ = write!(text, " of {limit} granted"),
    }
    match series.time_at_limit() {
        TimeAtLimit::Unknown => {}
        TimeAtLimit::Never => text.push_str(", never at the limit"),
        TimeAtLimit::Ns(ns) => {
            text.push_str(", at the limit");
            let reached = series.smallest_reached_limit();
            if reached != limit && reached > 0 {
                let _ = write!(text, " of {reached}");
            }
            let _ = write!(text, " for {}", HumanDuration(ns, glyphs));
            text.push_str(series.exhausted_since.map_or("", |_| ", to the end"));
        }
    }
    text
}

/// Describes a session: its connections, the channels that this connection is bound to, and the limits of the channels.
fn describe_session(session: &ConnectionSessionSummary) -> String {
    let ConnectionSessionSummary { id, connections, binding, channels, backchannel } = session;
    let numbers: Vec<_> = connections.iter().map(u64::to_string).collect();
    let plural = if connections.len() == 1 { "" } else { "s" };
    let mut text = format!("; session {} on connection{plural} {}", HexBytes(id), numbers.join(", "));
    let bound = binding_names(*binding, ["fore channel", "backchannel"]);
    if !bound.is_empty() {
        let _ = write!(text, ", this connection bound to its {}", bound.join(" and its "));
    }
    for (name, limits) in ["fore channel", "backchannel"].into_iter().zip(channels.iter().flatten()) {
        let _ = write!(
            text,
            "; {name}: up to {} of {} bytes, replies of {} bytes, {} bytes of padding",
            PluralCount(limits.max_requests.into(), "call"),
            limits.max_request_bytes,
            limits.max_response_bytes,
            limits.header_padding_bytes
        );
        if let Some(reads) = limits.rdma_reads {
            let _ = write!(text, ", {}", PluralCount(reads.into(), "RDMA Read"));
        }
    }
    if let Some(state) = backchannel {
        let _ = write!(text, "; backchannel {}", state.name());
    }
    text
}

/// Returns those of the names of the fore channel and of the backchannel that a connection is bound to.
fn binding_names(binding: SessionChannelBinding, names: [&'static str; 2]) -> Vec<&'static str> {
    let is_bound = [binding.is_fore, binding.is_back];
    is_bound.into_iter().zip(names).filter(|(is_bound, _)| *is_bound).map(|(_, name)| name).collect()
}

/// Returns the message credits of RPC-over-RDMA version 2, client and server, if any message was sent.
fn message_credits(row: &ConnectionStats) -> Option<[Version2SendCredits; 2]> {
    let sides = row.state?.message_credits;
    sides.iter().any(|side| side.sent_messages > 0).then_some(sides)
}

/// Returns the time steps in which Calls requested or used credits, or Replies granted any.
fn credit_steps(CreditSeries { steps: series, .. }: &CreditSeries) -> impl Iterator<Item = impl Serialize> {
    let width_ns = series.width();
    let steps = series.start().into_iter().flat_map(|start| (0..).zip(series.steps()).map(move |step| (start, step)));
    let active_steps = steps.filter(|(_, (_, step))| step.requested > 0 || step.granted > 0 || step.in_flight > 0);
    active_steps.map(move |(start, (at, step))| {
        let time = Timestamp(start.0.saturating_add_unsigned(width_ns.saturating_mul(at)));
        json_object! {
            time: DisplayAsJsonString(time),
            asked: step.requested,
            granted: step.granted,
            in_flight: step.in_flight,
        }
    })
}

/// Returns the properties of a peer: label, value and unit.
fn property_values(properties: &PeerProperties) -> [(&'static str, Option<String>, &'static str); 6] {
    let PeerProperties {
        send_size_bytes,
        receive_size_bytes,
        segment_size_bytes,
        segment_count,
        reverse_direction,
        has_host_auth,
    } = properties;
    [
        ("sends", send_size_bytes.map(|bytes| bytes.to_string()), " bytes"),
        ("receives", receive_size_bytes.map(|bytes| bytes.to_string()), " bytes"),
        ("segments of", segment_size_bytes.map(|bytes| bytes.to_string()), " bytes"),
        ("segments", segment_count.map(|count| count.to_string()), ""),
        ("reverse direction", reverse_direction.map(|support| support.to_string()), ""),
        ("host authentication", has_host_auth.then(|| "sent".to_owned()), ""),
    ]
}

/// Describes the service connected to, and the RFC 8797 private data with the inline thresholds.
fn set_up(row: &ConnectionStats) -> String {
    let Some(parameters) = row.state.and_then(|state| state.parameters) else {
        return "set-up not captured, or only in part".to_owned();
    };
    let side = |name: &str, data: SidePrivateData| match data {
        SidePrivateData::Present(data) => {
            let (send, receive) = (data.send_threshold_bytes(), data.receive_threshold_bytes());
            let invalidates = if data.remote_invalidation { ", remote invalidation" } else { "" };
            format!("{name} sends {send} and receives {receive} bytes inline{invalidates}")
        }
        SidePrivateData::Absent => format!("{name} sends no private data (1024 bytes inline)"),
        SidePrivateData::Cut => format!("{name}'s private data is not in the capture"),
    };
    let service = match (port(&parameters.service), parameters.service) {
        (Some(port), _) => format!("port {port}"),
        (None, ServiceIdOrPort::Id(id, _)) => format!("service 0x{:016x}", id.0),
        (None, ServiceIdOrPort::Port(port)) => format!("port {}", port.0),
    };
    let mut text = format!("{service}: {}; {}", side("client", parameters.client), side("server", parameters.server));
    if let Some((to_server, to_client)) = parameters.inline_thresholds() {
        let _ = write!(text, "; inline thresholds: {to_server} to the server, {to_client} to the client");
    }
    for (name, reads) in [("client", parameters.client_reads), ("server", parameters.server_reads)] {
        if let Some(RdmaReadResources { inbound, outbound }) = reads {
            let _ = write!(text, "; {name}: ORD {outbound}, IRD {inbound}");
        }
    }
    let ConnectionTally {
        reverse_requested_credits: reverse_requested, reverse_granted_credits: reverse_granted, ..
    } = row.tally;
    if reverse_requested > 0 || reverse_granted > 0 {
        let _ = write!(text, "; reverse credits: {reverse_requested} asked, {reverse_granted} granted");
    }
    text
}

/// Returns the port that a client connected to, if the service has one.
fn port(service: &ServiceIdOrPort) -> Option<u16> {
    match service {
        ServiceIdOrPort::Port(port) => Some(port.0),
        ServiceIdOrPort::Id(_, Some(ip)) => Some(ip.destination_port.0),
        ServiceIdOrPort::Id(id, None) => id.ip_port().map(|(_, port)| port.0),
    }
}

/// Formats a finding: severity, rule, side, first frame, values and section.
fn finding_text(finding: &Finding) -> String {
    let known_deviation =
        finding.known.as_deref().map(|deviation| format!(" deviation ({deviation})")).unwrap_or_default();
    let frame = finding.frames.first().map(|frame| format!(" in frame {frame}")).unwrap_or_default();
    let rule = finding.rule;
    format!(
        "{}{known_deviation}: {}, by the {}{frame}: {} ({})",
        finding.severity.name(),
        rule.id,
        finding.side,
        finding.text,
        rule.section
    )
}

/// Writer of the view, line by line.
#[derive(Debug)]
pub(super) struct ConnectionLineWriter {
    table: TableLineWriter,
    format: OutputLineFormat,
    has_iso: bool,
    screen: TerminalProfile,
    has_header: bool,
}

impl ConnectionLineWriter {
    pub(super) fn new(
        (format, time): (OutputLineFormat, TimeFormat),
        screen: TerminalProfile,
        has_findings: bool,
    ) -> Self {
        let columns: &[TableColumn] = if has_findings { COLUMNS_WITH_FINDINGS } else { COLUMNS };
        let table = TableLineWriter::new(screen, columns);
        Self { table, format, has_iso: time == TimeFormat::Iso, screen, has_header: false }
    }

    /// Writes the line of a connection; with `is_full`, its setup parameters and findings follow.
    pub(super) fn line(
        &mut self,
        to: &mut impl Write,
        row: &ConnectionStats,
        findings: &[Finding],
        is_full: bool,
    ) -> io::Result<()> {
        match self.format {
            OutputLineFormat::Text => {
                let styles = self.screen.styles;
                let mut cells = cells(row, self.screen.glyphs).map(|cell| (cell, Style::new()));
                let is_never = row.time_at_limit() == TimeAtLimit::Never;
                for (at, style) in [
                    (0, styles.operation),
                    (1, styles.dim),
                    (6, styles.mark),
                    (7, styles.dim),
                    (10, if is_never { styles.dim } else { styles.error }),
                    (11, styles.error),
                ] {
                    cells[at].1 = style;
                }
                let worst = marked_severity(findings);
                let severity_name = worst.map_or(String::new(), |severity| severity.name().to_owned());
                let cells: Vec<_> = cells.into_iter().chain([(severity_name, styles.error)]).collect();
                self.table.line(to, &cells)?;
                let glyphs = self.screen.glyphs;
                let mut parameters = if is_full { describe_parameters(row, glyphs) } else { String::new() };
                let hung = row.credits.as_ref().filter(|credits| is_full && credits.exhausted_since.is_some());
                if let Some(credits) = hung {
                    let _ = write!(parameters, "; {}", describe_use("credits", credits, glyphs));
                }
                if !parameters.is_empty() {
                    writeln!(to, "    {parameters}")?;
                }
                for finding in findings.iter().filter(|_| is_full) {
                    writeln!(to, "    {}", escape::escape_line(&finding_text(finding)))?;
                }
                Ok(())
            }
            OutputLineFormat::Json => write_json_line(to, &json_line(row, findings, self.has_iso)),
            OutputLineFormat::Csv | OutputLineFormat::Fields => {
                if !std::mem::replace(&mut self.has_header, true) {
                    csv(to, CSV_KEYS)?;
                }
                csv(to, csv_cells(CSV_KEYS, &json_line(row, findings, false))?)
            }
        }
    }
}

/// Returns the JSON object of a connection in the summary.
pub(super) fn json_object_of(tally: &ConnectionTally) -> impl Serialize {
    json_object! {
        #[serde(flatten)]
        name: connection_members(&tally.name),
        transactions: tally.transactions,
        incomplete: tally.incomplete,
        bytes: tally.bytes,
        recovery_ns: tally.recovery_ns,
    }
}

fn channel_object(limits: SessionChannelLimits) -> impl Serialize {
    json_object! {
        header_padding: limits.header_padding_bytes,
        max_request_size: limits.max_request_bytes,
        max_response_size: limits.max_response_bytes,
        max_cached_response_size: limits.max_cached_response_bytes,
        max_operations: limits.max_operations,
        max_requests: limits.max_requests,
        rdma_reads: limits.rdma_reads,
    }
}

/// Returns a session of NFSv4.1 or later, the connections on which it was seen, and the use of its slots.
fn session_object(session: &ConnectionSessionSummary, slots: Option<&CreditSeries>) -> impl Serialize {
    let slots = slots.map(|slots| {
        let (in_use, limit) = slots.most_in_flight();
        json_object! {
            in_use: in_use,
            limit: Some(limit).filter(|limit| *limit > 0),
            granted: Some(slots.max_of(|step| step.granted)).filter(|granted| *granted > 0),
            at_limit_ns: slots.at_limit_ns().unwrap_or(0),
            at_limit_since: slots.exhausted_since.map(DisplayAsJsonString),
        }
    });
    json_object! {
        slots: slots,
        session: DisplayAsJsonString(HexBytes(&session.id)),
        connections: &session.connections,
        bound_to: binding_names(session.binding, ["fore_channel", "backchannel"]),
        fore_channel: session.channels.map(|[fore, _]| channel_object(fore)),
        backchannel: session.channels.map(|[_, back]| channel_object(back)),
        backchannel_state: session.backchannel.map(|state| state.name()),
    }
}

/// Returns the values of both peers, `client` and `server`.
fn by_peer<T: Serialize>([client, server]: [T; 2]) -> impl Serialize {
    json_object! { client: client, server: server }
}

/// Returns the transport properties of version 2 sent by a peer.
fn properties_object(properties: PeerProperties) -> impl Serialize {
    json_object! {
        send_size: properties.send_size_bytes,
        receive_size: properties.receive_size_bytes,
        segment_size: properties.segment_size_bytes,
        segment_count: properties.segment_count,
        reverse_direction: properties.reverse_direction.map(DisplayAsJsonString),
        host_auth: properties.has_host_auth,
    }
}

fn credits_object(row: &ConnectionStats) -> impl Serialize {
    let tally = &row.tally;
    let of_side = |side: Version2SendCredits| {
        json_object! { sent: side.sent_messages, limit: side.send_limit, least_left: side.min_remaining }
    };
    json_object! {
        asked: tally.requested_credits,
        granted: row.granted_credits(),
        in_use: row.in_use(),
        limit: row.credits.as_ref().map(|credits| credits.most_in_flight().1).filter(|limit| *limit > 0),
        at_limit_ns: row.at_limit_ns(),
        at_limit_since: row.credits.as_ref().and_then(|credits| credits.exhausted_since).map(DisplayAsJsonString),
        reverse_asked: tally.reverse_requested_credits,
        reverse_granted: tally.reverse_granted_credits,
        steps: JsonArray(|| row.credits.iter().flat_map(credit_steps)),
        #[serde(flatten)]
        messages: message_credits(row).map(|sides| json_object! { messages: by_peer(sides.map(of_side)) }),
    }
}

fn set_up_object(parameters: NegotiatedParameters) -> impl Serialize {
    let sides = [parameters.client, parameters.server];
    let reads = |reads: RdmaReadResources| json_object! { inbound: reads.inbound, outbound: reads.outbound };
    let [client, server] = sides.map(|side| side.present().map(private_data_object));
    json_object! {
        port: port(&parameters.service),
        client: client,
        server: server,
        private_data: by_peer(sides.map(SidePrivateData::key)),
        inline_thresholds: parameters.inline_thresholds().map(|(to_server, to_client)| {
            json_object! { to_server: to_server, to_client: to_client }
        }),
        reads: by_peer([parameters.client_reads, parameters.server_reads].map(|side| side.map(reads))),
    }
}

/// Returns the JSON object of RFC 8797 private data.
pub(super) fn private_data_object(data: PrivateData) -> impl Serialize {
    json_object! {
        send_size: data.send_threshold_bytes(),
        receive_size: data.receive_threshold_bytes(),
        remote_invalidation: data.remote_invalidation,
    }
}

fn json_line(row: &ConnectionStats, findings: &[Finding], has_iso: bool) -> impl Serialize {
    let tally = &row.tally;
    let (time, end_time) = tally.times.unzip();
    let iso = |time: Option<Timestamp>| time.filter(|_| has_iso).map(IsoTimestamp).map(DisplayAsJsonString);
    json_object! {
        schema: SCHEMA,
        kind: "connection",
        #[serde(flatten)]
        connection: json_object_of(tally),
        time: time.map(DisplayAsJsonString),
        #[serde(flatten)]
        time_iso: iso(time).map(|time| json_object! { time_iso: time }),
        end_time: end_time.map(DisplayAsJsonString),
        #[serde(flatten)]
        end_time_iso: iso(end_time).map(|time| json_object! { end_time_iso: time }),
        closed: row.state.is_some_and(|state| state.is_ending),
        dialect: tally.dialect.map(Dialect::key),
        credits: tally.name.transport.is_rdma().then(|| credits_object(row)),
        sessions: JsonArray(|| row.sessions.iter().map(|session| session_object(session, row.slots.get(&session.id)))),
        set_up: row.state.and_then(|state| state.parameters).map(set_up_object),
        properties: row
            .state
            .map(|state| state.properties.map(|side| side.map(properties_object)))
            .filter(|sides| sides.iter().any(Option::is_some))
            .map(by_peer),
        findings: JsonArray(|| findings.iter().map(finding_object)),
    }
}

/// Columns of CSV: keys of the JSON line, and of the objects in it.
const CSV_KEYS: &[&str] = &[
    "connection",
    "transport",
    "client",
    "client_port",
    "server",
    "server_port",
    "vlan_ids",
    "vni",
    "transactions",
    "incomplete",
    "bytes",
    "recovery_ns",
    "time",
    "end_time",
    "closed",
    "dialect",
    "credits.asked",
    "credits.granted",
    "credits.in_use",
    "credits.limit",
    "credits.at_limit_ns",
    "credits.reverse_asked",
    "credits.reverse_granted",
    "set_up.port",
    "set_up.private_data.client",
    "set_up.private_data.server",
    "set_up.inline_thresholds.to_server",
    "set_up.inline_thresholds.to_client",
    "set_up.client.send_size",
    "set_up.client.receive_size",
    "set_up.client.remote_invalidation",
    "set_up.server.send_size",
    "set_up.server.receive_size",
    "set_up.server.remote_invalidation",
];
