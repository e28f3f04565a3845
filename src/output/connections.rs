//! View of connections: one line per connection when it closes, with its endpoints, totals, credits and setup
//! parameters.

use std::fmt::Write as _;
use std::io::{self, Write};

use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::flow::transaction::{ConnectionTransport, Endpoint, TransactionConnection};
use nfsrdma_dissectors::flow::{
    NegotiatedParameters, RdmaReadResources, ServiceIdOrPort, Version2SendCredits,
};
use nfsrdma_dissectors::rpcrdma::version2::{PeerProperties, ReverseDirectionSupport};
use nfsrdma_dissectors::rpcrdma::{Dialect, PrivateData, SidePrivateData};
use serde::Serialize;

use super::json::{DisplayAsJsonString, FindingJson, SCHEMA, address};
use super::operation_statistics::recovery_text;
use super::settings::{OutputLineFormat, TimeFormat};
use super::style::{Glyphs, Style, TerminalProfile};
use super::table::{TableColumn, TableLineWriter, csv, number, text, text_from};
use super::transaction_list::marked_severity;
use super::units::{HexBytes, HumanCount, HumanSize, IsoTimestamp, PluralCount};
use crate::escape;
use nfsrdma_analysis::connection_states_and_credits::ConnectionStats;
use nfsrdma_analysis::connections::ConnectionTally;
use nfsrdma_analysis::load_over_time::CreditSeries;
use nfsrdma_analysis::sessions::{ConnectionSessionSummary, SessionChannelBinding, SessionChannelLimits};

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
    number("RECOVERY", 8, 130),
];

/// Columns with the severity of the worst finding.
const COLUMNS_WITH_FINDINGS: &[TableColumn; COLUMNS.len() + 1] = &{
    let mut columns = [text("FINDING", 7); COLUMNS.len() + 1];
    let (known, _) = columns.split_at_mut(COLUMNS.len());
    known.copy_from_slice(COLUMNS);
    columns
};

/// Returns the cells of a connection.
pub fn cells(row: &ConnectionStats, glyphs: Glyphs) -> [String; COLUMNS.len()] {
    let ConnectionTally { name, dialect, transactions, incomplete, bytes, granted_credits: granted, .. } =
        row.tally;
    let (granted, used) = match (granted, row.in_use()) {
        (0, _) => (String::new(), String::new()),
        (granted, used) => (granted.to_string(), used.map_or(String::new(), |used| used.to_string())),
    };
    [
        format_endpoints(&name, glyphs),
        name.number.to_string(),
        name.transport.to_string(),
        dialect.map_or(String::new(), |dialect| dialect.to_string()),
        HumanCount(transactions).to_string(),
        HumanSize(bytes).to_string(),
        if incomplete > 0 { HumanCount(incomplete).to_string() } else { String::new() },
        row.state_name().to_owned(),
        granted,
        used,
        recovery_text(row.tally.recovery_ns, glyphs),
    ]
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
pub fn describe_parameters(row: &ConnectionStats) -> String {
    let mut said = if row.tally.name.transport.is_rdma() { set_up(row) } else { String::new() };
    for session in &row.sessions {
        said.push_str(&describe_session(session));
    }
    if let Some(sides) = message_credits(row) {
        for (
            name,
            Version2SendCredits { sent_messages: sent, send_limit: limit, min_remaining: least_left },
        ) in ["client", "server"].into_iter().zip(sides)
        {
            let _ = write!(said, "; {name} sent {}", PluralCount(sent.into(), "message"));
            if let Some(limit) = limit {
                let _ = write!(said, " of {limit}");
            }
            if let Some(least) = least_left {
                let _ = write!(said, ", minimum left {least}");
            }
        }
    }
    let sides = row.state.map(|state| state.properties).unwrap_or_default();
    for (name, properties) in ["client", "server"].into_iter().zip(sides) {
        if let Some(properties) = properties {
            let _ = write!(said, "; {name}'s properties:");
            let mut is_first = true;
            for (about, value, unit) in property_values(&properties) {
                let Some(value) = value else { continue };
                let between = if std::mem::replace(&mut is_first, false) { "" } else { "," };
                let _ = write!(said, "{between} {about} {value}{unit}");
            }
        }
    }
    said.strip_prefix("; ").map(str::to_owned).unwrap_or(said)
}

/// Describes a session: its connections, the channels that this connection is bound to, and the limits of the channels.
fn describe_session(session: &ConnectionSessionSummary) -> String {
    let ConnectionSessionSummary { id, connections, binding, channels, backchannel } = session;
    let numbers: Vec<_> = connections.iter().map(u64::to_string).collect();
    let plural = if connections.len() == 1 { "" } else { "s" };
    let mut said = format!("; session {} on connection{plural} {}", HexBytes(id), numbers.join(", "));
    let bound = binding_names(*binding, ["fore channel", "backchannel"]);
    if !bound.is_empty() {
        let _ = write!(said, ", this one for its {}", bound.join(" and its "));
    }
    for (name, limits) in ["fore channel", "backchannel"].into_iter().zip(channels.iter().flatten()) {
        let _ = write!(
            said,
            "; {name}: up to {} of {} bytes, replies of {} bytes, {} bytes of padding",
            PluralCount(limits.max_requests.into(), "call"),
            limits.max_request_bytes,
            limits.max_response_bytes,
            limits.header_padding_bytes
        );
        if let Some(reads) = limits.rdma_reads {
            let _ = write!(said, ", {}", PluralCount(reads.into(), "RDMA Read"));
        }
    }
    if let Some(state) = backchannel {
        let _ = write!(said, "; backchannel {}", state.name());
    }
    said
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
fn credit_steps(series: &CreditSeries) -> Vec<CreditSampleJson> {
    let CreditSeries(series) = series;
    let Some(start) = series.start() else { return Vec::new() };
    let steps = (0..).zip(series.steps());
    let shown = steps.filter(|(_, step)| step.requested > 0 || step.granted > 0 || step.in_flight > 0);
    shown
        .map(|(at, step)| CreditSampleJson {
            time: DisplayAsJsonString(Timestamp(
                start.0.saturating_add_unsigned(series.width().saturating_mul(at)),
            )),
            asked: step.requested,
            granted: step.granted,
            in_flight: step.in_flight,
        })
        .collect()
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
        ("sends", to_text(send_size_bytes), " bytes"),
        ("receives", to_text(receive_size_bytes), " bytes"),
        ("segments of", to_text(segment_size_bytes), " bytes"),
        ("segments", to_text(segment_count), ""),
        ("reverse direction", to_text(reverse_direction), ""),
        ("host authentication", has_host_auth.then(|| "sent".to_owned()), ""),
    ]
}

/// Describes the service connected to, and the RFC 8797 private data with the inline thresholds.
fn set_up(row: &ConnectionStats) -> String {
    let Some(terms) = row.state.and_then(|state| state.parameters) else {
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
    let service = match (port(&terms.service), terms.service) {
        (Some(port), _) => format!("port {port}"),
        (None, ServiceIdOrPort::Id(id, _)) => format!("service 0x{:016x}", id.0),
        (None, ServiceIdOrPort::Port(port)) => format!("port {}", port.0),
    };
    let mut said = format!("{service}: {}; {}", side("client", terms.client), side("server", terms.server));
    if let Some((to_server, to_client)) = terms.inline_thresholds() {
        let _ = write!(said, "; inline thresholds: {to_server} to the server, {to_client} to the client");
    }
    for (name, reads) in [("client", terms.client_reads), ("server", terms.server_reads)] {
        if let Some(RdmaReadResources { inbound, outbound }) = reads {
            let _ = write!(said, "; {name}: {outbound} RDMA Reads at a time, answers {inbound}");
        }
    }
    let ConnectionTally {
        reverse_requested_credits: reverse_asked,
        reverse_granted_credits: reverse_granted,
        ..
    } = row.tally;
    if reverse_asked > 0 || reverse_granted > 0 {
        let _ = write!(said, "; reverse credits: {reverse_asked} asked, {reverse_granted} granted");
    }
    said
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
    let known = finding.known.as_deref().map(|known| format!(" deviation ({known})")).unwrap_or_default();
    let frame = finding.frames.first().map(|frame| format!(" in frame {frame}")).unwrap_or_default();
    let rule = finding.rule;
    format!(
        "{}{known}: {}, by the {}{frame}: {} ({})",
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
                for (at, style) in [
                    (0, styles.operation),
                    (1, styles.dim),
                    (6, styles.mark),
                    (7, styles.dim),
                    (10, styles.error),
                ] {
                    cells[at].1 = style;
                }
                let worst = marked_severity(findings);
                let mark = worst.map_or(String::new(), |severity| severity.name().to_owned());
                let cells: Vec<_> = cells.into_iter().chain([(mark, styles.error)]).collect();
                self.table.line(to, &cells)?;
                let parameters = if is_full { describe_parameters(row) } else { String::new() };
                if !parameters.is_empty() {
                    writeln!(to, "    {parameters}")?;
                }
                for finding in findings.iter().filter(|_| is_full) {
                    writeln!(to, "    {}", escape::escape_line(&finding_text(finding)))?;
                }
                Ok(())
            }
            OutputLineFormat::Json => {
                let mut line = escape::json(&ConnectionJsonLine::from_stats(row, findings, self.has_iso))?;
                line.push(b'\n');
                to.write_all(&line)
            }
            OutputLineFormat::Csv | OutputLineFormat::Fields => {
                if !std::mem::replace(&mut self.has_header, true) {
                    csv(to, CSV.iter().map(|(name, _)| name))?;
                }
                let line = ConnectionJsonLine::from_stats(row, findings, false);
                csv(to, CSV.iter().map(|(_, value)| value(&line).unwrap_or_default()))
            }
        }
    }
}

/// JSON object of a connection in the summary.
#[derive(Serialize)]
pub(super) struct ConnectionJson {
    connection: u64,
    transport: DisplayAsJsonString<ConnectionTransport>,
    client: Option<DisplayAsJsonString<Address>>,
    client_port: Option<u32>,
    server: Option<DisplayAsJsonString<Address>>,
    server_port: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlan_ids: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    transactions: u64,
    incomplete: u64,
    bytes: u64,
    recovery_ns: u64,
}

impl From<&ConnectionTally> for ConnectionJson {
    fn from(tally: &ConnectionTally) -> Self {
        let name = tally.name;
        Self {
            connection: name.number,
            transport: DisplayAsJsonString(name.transport),
            client: address(name.client.address),
            client_port: name.client.port,
            server: address(name.server.address),
            server_port: name.server.port,
            vlan_ids: name.tenant.vlan_ids().collect(),
            vni: name.tenant.network_identifier(),
            transactions: tally.transactions,
            incomplete: tally.incomplete,
            bytes: tally.bytes,
            recovery_ns: tally.recovery_ns,
        }
    }
}

/// JSON line of a connection.
#[derive(Serialize)]
struct ConnectionJsonLine<'f> {
    schema: u32,
    kind: &'static str,
    #[serde(flatten)]
    connection: ConnectionJson,
    time: Option<DisplayAsJsonString<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    end_time: Option<DisplayAsJsonString<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    closed: bool,
    dialect: Option<&'static str>,
    credits: Option<ConnectionCreditsJson>,
    sessions: Vec<SessionJson>,
    set_up: Option<ConnectionSetupJson>,
    properties: Option<TransportPropertiesJson>,
    findings: Vec<FindingJson<'f>>,
}

/// Session of NFSv4.1 or later, and the connections on which it was seen.
#[derive(Serialize)]
struct SessionJson {
    session: String,
    connections: Vec<u64>,
    bound_to: Vec<&'static str>,
    fore_channel: Option<SessionChannelJson>,
    backchannel: Option<SessionChannelJson>,
    backchannel_state: Option<&'static str>,
}

/// Limits of a channel of a session.
#[derive(Serialize)]
struct SessionChannelJson {
    header_padding: u32,
    max_request_size: u32,
    max_response_size: u32,
    max_cached_response_size: u32,
    max_operations: u32,
    max_requests: u32,
    rdma_reads: Option<u32>,
}

impl From<SessionChannelLimits> for SessionChannelJson {
    fn from(limits: SessionChannelLimits) -> Self {
        Self {
            header_padding: limits.header_padding_bytes,
            max_request_size: limits.max_request_bytes,
            max_response_size: limits.max_response_bytes,
            max_cached_response_size: limits.max_cached_response_bytes,
            max_operations: limits.max_operations,
            max_requests: limits.max_requests,
            rdma_reads: limits.rdma_reads,
        }
    }
}

impl From<&ConnectionSessionSummary> for SessionJson {
    fn from(session: &ConnectionSessionSummary) -> Self {
        let [fore_channel, backchannel] = match session.channels {
            Some(channels) => channels.map(|limits| Some(limits.into())),
            None => [None, None],
        };
        Self {
            session: HexBytes(&session.id).to_string(),
            connections: session.connections.clone(),
            bound_to: binding_names(session.binding, ["fore_channel", "backchannel"]),
            fore_channel,
            backchannel,
            backchannel_state: session.backchannel.map(|state| state.name()),
        }
    }
}

/// Transport properties of version 2 sent by each peer.
#[derive(Serialize)]
struct TransportPropertiesJson {
    client: Option<PeerTransportPropertiesJson>,
    server: Option<PeerTransportPropertiesJson>,
}

#[derive(Serialize)]
struct PeerTransportPropertiesJson {
    send_size: Option<u32>,
    receive_size: Option<u32>,
    segment_size: Option<u32>,
    segment_count: Option<u32>,
    reverse_direction: Option<DisplayAsJsonString<ReverseDirectionSupport>>,
    host_auth: bool,
}

impl From<PeerProperties> for PeerTransportPropertiesJson {
    fn from(properties: PeerProperties) -> Self {
        Self {
            send_size: properties.send_size_bytes,
            receive_size: properties.receive_size_bytes,
            segment_size: properties.segment_size_bytes,
            segment_count: properties.segment_count,
            reverse_direction: properties.reverse_direction.map(DisplayAsJsonString),
            host_auth: properties.has_host_auth,
        }
    }
}

#[derive(Serialize)]
struct ConnectionCreditsJson {
    asked: u32,
    granted: u32,
    in_use: Option<u32>,
    at_limit_ns: Option<u64>,
    reverse_asked: u32,
    reverse_granted: u32,
    steps: Vec<CreditSampleJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Version2CreditsByPeerJson>,
}

/// Credits within a time step.
#[derive(Serialize)]
struct CreditSampleJson {
    time: DisplayAsJsonString<Timestamp>,
    asked: u32,
    granted: u32,
    in_flight: u32,
}

/// Message credits of version 2.
#[derive(Serialize)]
struct Version2CreditsByPeerJson {
    client: Version2SendCreditsJson,
    server: Version2SendCreditsJson,
}

#[derive(Serialize)]
struct Version2SendCreditsJson {
    sent: u32,
    limit: Option<u32>,
    least_left: Option<i32>,
}

impl From<Version2SendCredits> for Version2SendCreditsJson {
    fn from(credits: Version2SendCredits) -> Self {
        let Version2SendCredits { sent_messages: sent, send_limit: limit, min_remaining: least_left } =
            credits;
        Self { sent, limit, least_left }
    }
}

/// Setup parameters of a connection.
#[derive(Serialize)]
struct ConnectionSetupJson {
    port: Option<u16>,
    client: Option<PrivateDataJson>,
    server: Option<PrivateDataJson>,
    private_data: PrivateDataPresenceJson,
    inline_thresholds: Option<InlineThresholdsJson>,
    reads: RdmaReadLimitsJson,
}

/// Maximum inline bytes in each direction.
#[derive(Serialize)]
struct InlineThresholdsJson {
    to_server: u32,
    to_client: u32,
}

/// Maximum number of concurrent RDMA Reads of both peers.
#[derive(Serialize)]
struct RdmaReadLimitsJson {
    client: Option<RdmaReadResourcesJson>,
    server: Option<RdmaReadResourcesJson>,
}

#[derive(Serialize)]
struct RdmaReadResourcesJson {
    inbound: u16,
    outbound: u16,
}

impl From<RdmaReadResources> for RdmaReadResourcesJson {
    fn from(reads: RdmaReadResources) -> Self {
        let RdmaReadResources { inbound, outbound } = reads;
        Self { inbound, outbound }
    }
}

/// Presence of private data of each peer.
#[derive(Serialize)]
struct PrivateDataPresenceJson {
    client: &'static str,
    server: &'static str,
}

#[derive(Serialize)]
struct PrivateDataJson {
    send_size: u32,
    receive_size: u32,
    remote_invalidation: bool,
}

impl From<PrivateData> for PrivateDataJson {
    fn from(data: PrivateData) -> Self {
        Self {
            send_size: data.send_threshold_bytes(),
            receive_size: data.receive_threshold_bytes(),
            remote_invalidation: data.remote_invalidation,
        }
    }
}

impl From<NegotiatedParameters> for ConnectionSetupJson {
    fn from(terms: NegotiatedParameters) -> Self {
        Self {
            port: port(&terms.service),
            client: terms.client.present().map(PrivateDataJson::from),
            server: terms.server.present().map(PrivateDataJson::from),
            private_data: PrivateDataPresenceJson { client: terms.client.key(), server: terms.server.key() },
            inline_thresholds: terms
                .inline_thresholds()
                .map(|(to_server, to_client)| InlineThresholdsJson { to_server, to_client }),
            reads: RdmaReadLimitsJson {
                client: terms.client_reads.map(RdmaReadResourcesJson::from),
                server: terms.server_reads.map(RdmaReadResourcesJson::from),
            },
        }
    }
}

impl<'f> ConnectionJsonLine<'f> {
    fn from_stats(row: &ConnectionStats, findings: &'f [Finding], has_iso: bool) -> Self {
        let tally = &row.tally;
        let iso = tally.times.filter(|_| has_iso);
        Self {
            schema: SCHEMA,
            kind: "connection",
            connection: tally.into(),
            time: tally.times.map(|(first, _)| DisplayAsJsonString(first)),
            time_iso: iso.map(|(first, _)| DisplayAsJsonString(IsoTimestamp(first))),
            end_time: tally.times.map(|(_, last)| DisplayAsJsonString(last)),
            end_time_iso: iso.map(|(_, last)| DisplayAsJsonString(IsoTimestamp(last))),
            closed: row.state.is_some_and(|state| state.is_ending),
            dialect: tally.dialect.map(Dialect::key),
            credits: tally.name.transport.is_rdma().then(|| ConnectionCreditsJson {
                asked: tally.requested_credits,
                granted: tally.granted_credits,
                in_use: row.in_use(),
                at_limit_ns: row.at_limit_ns(),
                reverse_asked: tally.reverse_requested_credits,
                reverse_granted: tally.reverse_granted_credits,
                steps: row.credits.as_ref().map(credit_steps).unwrap_or_default(),
                messages: message_credits(row).map(|[client, server]| Version2CreditsByPeerJson {
                    client: client.into(),
                    server: server.into(),
                }),
            }),
            sessions: row.sessions.iter().map(SessionJson::from).collect(),
            set_up: row.state.and_then(|state| state.parameters).map(ConnectionSetupJson::from),
            properties: row
                .state
                .map(|state| state.properties.map(|side| side.map(PeerTransportPropertiesJson::from)))
                .filter(|sides| sides.iter().any(Option::is_some))
                .map(|[client, server]| TransportPropertiesJson { client, server }),
            findings: findings.iter().map(FindingJson::from).collect(),
        }
    }
}

fn to_text<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(T::to_string)
}

fn side(
    line: &ConnectionJsonLine<'_>,
    side: fn(&ConnectionSetupJson) -> Option<&PrivateDataJson>,
    of: fn(&PrivateDataJson) -> String,
) -> Option<String> {
    line.set_up.as_ref().and_then(side).map(of)
}

fn thresholds<'l>(line: &'l ConnectionJsonLine<'_>) -> Option<&'l InlineThresholdsJson> {
    line.set_up.as_ref()?.inline_thresholds.as_ref()
}

/// CSV column: its name, and the function that returns its cell, if any.
type ConnectionCsvColumn = (&'static str, fn(&ConnectionJsonLine<'_>) -> Option<String>);

/// CSV columns, named like the keys of JSON.
const CSV: &[ConnectionCsvColumn] = &[
    ("connection", |line| Some(line.connection.connection.to_string())),
    ("transport", |line| Some(line.connection.transport.0.to_string())),
    ("client", |line| to_text(&line.connection.client)),
    ("client_port", |line| to_text(&line.connection.client_port)),
    ("server", |line| to_text(&line.connection.server)),
    ("server_port", |line| to_text(&line.connection.server_port)),
    ("vlan_ids", |line| {
        let ids: Vec<_> = line.connection.vlan_ids.iter().map(u16::to_string).collect();
        (!ids.is_empty()).then(|| ids.join(","))
    }),
    ("vni", |line| to_text(&line.connection.vni)),
    ("transactions", |line| Some(line.connection.transactions.to_string())),
    ("incomplete", |line| Some(line.connection.incomplete.to_string())),
    ("bytes", |line| Some(line.connection.bytes.to_string())),
    ("recovery_ns", |line| Some(line.connection.recovery_ns.to_string())),
    ("time", |line| to_text(&line.time)),
    ("end_time", |line| to_text(&line.end_time)),
    ("closed", |line| Some(line.closed.to_string())),
    ("dialect", |line| to_text(&line.dialect)),
    ("credits.asked", |line| line.credits.as_ref().map(|credits| credits.asked.to_string())),
    ("credits.granted", |line| line.credits.as_ref().map(|credits| credits.granted.to_string())),
    ("credits.in_use", |line| line.credits.as_ref().and_then(|credits| to_text(&credits.in_use))),
    ("credits.at_limit_ns", |line| line.credits.as_ref().and_then(|credits| to_text(&credits.at_limit_ns))),
    ("credits.reverse_asked", |line| line.credits.as_ref().map(|credits| credits.reverse_asked.to_string())),
    ("credits.reverse_granted", |line| {
        line.credits.as_ref().map(|credits| credits.reverse_granted.to_string())
    }),
    ("set_up.port", |line| line.set_up.as_ref().and_then(|terms| to_text(&terms.port))),
    ("set_up.private_data.client", |line| {
        line.set_up.as_ref().map(|terms| terms.private_data.client.to_owned())
    }),
    ("set_up.private_data.server", |line| {
        line.set_up.as_ref().map(|terms| terms.private_data.server.to_owned())
    }),
    ("set_up.inline_thresholds.to_server", |line| {
        thresholds(line).map(|thresholds| thresholds.to_server.to_string())
    }),
    ("set_up.inline_thresholds.to_client", |line| {
        thresholds(line).map(|thresholds| thresholds.to_client.to_string())
    }),
    ("set_up.client.send_size", |line| side(line, |it| it.client.as_ref(), |it| it.send_size.to_string())),
    ("set_up.client.receive_size", |line| {
        side(line, |it| it.client.as_ref(), |it| it.receive_size.to_string())
    }),
    ("set_up.client.remote_invalidation", |line| {
        side(line, |it| it.client.as_ref(), |it| it.remote_invalidation.to_string())
    }),
    ("set_up.server.send_size", |line| side(line, |it| it.server.as_ref(), |it| it.send_size.to_string())),
    ("set_up.server.receive_size", |line| {
        side(line, |it| it.server.as_ref(), |it| it.receive_size.to_string())
    }),
    ("set_up.server.remote_invalidation", |line| {
        side(line, |it| it.server.as_ref(), |it| it.remote_invalidation.to_string())
    }),
];
