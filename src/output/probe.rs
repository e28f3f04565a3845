//! Capabilities of a server, as text and as JSON. The schema is `docs/probe.schema.json`.

use std::io::{self, Write};
use std::time::Duration;

use nfsrdma_dissectors::nfs::v3::Fsinfo3Resok;
use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_replay::probe::{Nfs4ProbeReport, ProbeFailure, ProbedChannelLimits, ProbedExports, ServerProbeReport};
use nfsrdma_rpc::NegotiatedRpcRdmaParameters;
use nfsrdma_rpc::url::{NfsVersion, ServerUrl};
use serde::Serialize;

use super::connections::private_data_object;
use super::json::object::{JsonArray, SCHEMA, json_object, write_json_line};
use super::report::Report;
use super::style::{StyledText, TerminalProfile};
use super::units::{HumanCount, HumanDuration, escape};

/// Report on a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeReportView<'a> {
    /// URL of the server, as given.
    pub url: &'a ServerUrl,
    /// Result of the probe.
    pub probe: &'a ServerProbeReport,
    /// Output device.
    pub screen: TerminalProfile,
}

const LABEL_WIDTH: usize = 14;

/// Formats a number with commas.
fn count(number: impl Into<u64>) -> String {
    HumanCount(number.into()).to_string()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Report for ProbeReportView<'_> {
    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let ServerProbeReport { terms, credits, null, .. } = self.probe;
        let styles = self.screen.styles;
        writeln!(to, "{}", StyledText(styles.header, self.escaped(&self.url.to_string())))?;
        self.line(to, "address", &self.probe.address.to_string())?;
        if let Some(local) = terms.local {
            self.line(to, "from", &local.to_string())?;
        }
        let device = terms.rdma.as_ref().map(|rdma| format!(", device {}", rdma.device));
        self.line(to, "transport", &format!("{}{}", terms.kind, device.unwrap_or_default()))?;
        if let Some(rdma) = &terms.rdma {
            self.rdma(to, rdma)?;
        }
        if self.probe.abandoned_connections > 0 {
            let abandoned = count(self.probe.abandoned_connections);
            self.line(to, "abandoned", &format!("{abandoned} earlier connection without a reply to its first call"))?;
        }
        if let Some(credits) = credits {
            let granted = credits.granted.map_or("none".into(), count);
            self.line(to, "credits", &format!("{granted} granted, {} requested", count(credits.requested)))?;
        }
        let time = |time| HumanDuration(nanoseconds(time), self.screen.glyphs);
        let (fastest, median) = (time(null.fastest), time(null.median));
        self.line(to, "NULL", &format!("{fastest} fastest, {median} median of {}", null.calls))?;
        let versions: Vec<_> = self.probe.versions.iter().map(u32::to_string).collect();
        self.line(to, "NFS versions", &versions.join(", "))?;
        if let Some(message) = &self.probe.missing_version_message {
            writeln!(to, "{}", self.escaped(message))?;
        }
        if let Some(v3) = &self.probe.v3 {
            writeln!(to, "{}", StyledText(styles.header, "NFSv3"))?;
            match v3 {
                Ok(v3) => self.v3(to, v3)?,
                Err(failure) => self.line(to, "unknown", &failure.text)?,
            }
        }
        let mut last_failure = None;
        for (minor, v4) in &self.probe.v4 {
            // A failure of NULL is that of all minor versions.
            let failure = v4.as_ref().err();
            if failure.is_some_and(|failure| failure.is_of_null) && failure == last_failure {
                continue;
            }
            last_failure = failure;
            let version = NfsVersion::V4(*minor);
            let title = failure.map_or_else(|| format!("NFSv{version}"), |failure| failure.concerned_version(version));
            writeln!(to, "{}", StyledText(styles.header, title))?;
            match v4 {
                Ok(v4) => self.v4(to, v4)?,
                Err(failure) => self.line(to, "unknown", &failure.text)?,
            }
        }
        match &self.probe.exports {
            Some(Ok(exports)) => self.exports(to, exports),
            Some(Err(error)) => {
                writeln!(to, "{}", StyledText(styles.header, "Exports"))?;
                self.line(to, "unknown", error)
            }
            None => Ok(()),
        }
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let ServerProbeReport { address, terms, credits, null, versions, v3, v4, exports, .. } = self.probe;
        let object = json_object! {
            schema: SCHEMA,
            kind: "probe",
            server: self.url.to_string(),
            address: address.to_string(),
            local: terms.local.map(|local| local.to_string()),
            transport: terms.kind.to_string(),
            rdma: terms.rdma.as_ref().map(|rdma| rdma_object(rdma, self.probe)),
            credits: credits.map(|credits| {
                json_object! { requested: credits.requested, granted: credits.granted }
            }),
            connections_given_up: self.probe.abandoned_connections,
            null_ns: json_object! {
                calls: null.calls,
                fastest: nanoseconds(null.fastest),
                median: nanoseconds(null.median),
            },
            versions: versions,
            absent: &self.probe.missing_version_message,
            v3: v3.as_ref().map(v3_object),
            v4: JsonArray(|| v4.iter().map(|(minor, result)| v4_object(*minor, result))),
            exports: exports.as_ref().map(exports_object),
        };
        write_json_line(to, &object)
    }
}

impl ProbeReportView<'_> {
    /// Escapes text of a server, so that it cannot affect a terminal.
    fn escaped(&self, text: &str) -> String {
        let mut escaped = String::new();
        escape(text.as_bytes(), &self.screen.glyphs, &mut escaped);
        escaped
    }

    fn line(&self, to: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
        writeln!(to, "  {name:LABEL_WIDTH$}  {}", self.escaped(text))
    }

    fn rdma(&self, to: &mut impl Write, rdma: &NegotiatedRpcRdmaParameters) -> io::Result<()> {
        self.line(to, "private data", &format!("sent      {}", private(rdma.sent.as_ref())))?;
        let received = private(rdma.received.as_ref());
        self.line(to, "", &format!("received  {received}, in {} bytes", count(rdma.received_length as u64)))?;
        let (call, reply) = (count(rdma.call_inline), count(rdma.reply_inline));
        self.line(to, "inline", &format!("{call} bytes per call, {reply} bytes per reply"))?;
        self.line(to, "remote inval.", &self.remote_invalidation(rdma))
    }

    /// Describes the use and announcement of remote invalidation. Linux's server uses it without
    /// announcing it, if the client announced it.
    fn remote_invalidation(&self, rdma: &NegotiatedRpcRdmaParameters) -> String {
        let (used, replies) = self.probe.invalidations;
        let times = format!("used in {} of {} replies", count(used), count(replies));
        let is_announced = rdma.sent.as_ref().is_some_and(|sent| sent.remote_invalidation);
        match (used, is_announced, rdma.remote_invalidation) {
            (1.., _, true) => format!("agreed on, {times}"),
            (1.., true, false) => format!("{times}, not announced by the server"),
            (1.., false, false) => format!("{times}, not announced by this side"),
            (0, _, true) => "agreed on, not used".to_owned(),
            (0, true, false) => "not announced by the server, not used".to_owned(),
            (0, false, false) if self.probe.asked_for_invalidation => {
                "not announced: the device has no memory windows".to_owned()
            }
            (0, false, false) => "not requested".to_owned(),
        }
    }

    fn v3(&self, to: &mut impl Write, v3: &Fsinfo3Resok) -> io::Result<()> {
        let io = |max: u32, pref: u32, mult: u32| {
            format!("{} at most, {} preferred, multiples of {}", count(max), count(pref), count(mult))
        };
        self.line(to, "READ", &io(v3.rtmax, v3.rtpref, v3.rtmult))?;
        self.line(to, "WRITE", &io(v3.wtmax, v3.wtpref, v3.wtmult))?;
        self.line(to, "READDIR", &format!("{} preferred", count(v3.dtpref)))?;
        self.line(to, "file", &format!("{} at most", count(v3.maxfilesize)))
    }

    fn v4(&self, to: &mut impl Write, v4: &Nfs4ProbeReport) -> io::Result<()> {
        let limit_text =
            |bytes: Option<u64>| bytes.map_or("no limit reported".into(), |bytes| format!("{} at most", count(bytes)));
        self.line(to, "READ", &limit_text(v4.maxread))?;
        self.line(to, "WRITE", &limit_text(v4.maxwrite))?;
        self.line(to, "file", &limit_text(v4.maxfilesize))?;
        if let Some(seconds) = v4.lease_time {
            self.line(to, "lease", &format!("{} s", count(seconds)))?;
        }
        if let Some(session) = &v4.session {
            self.channel(to, "session", &session.fore)?;
            self.channel(to, "backchannel", &session.back)?;
        }
        if let Some(server) = &v4.server {
            let mut text = server.owner.clone();
            if let Some(implementation) = &server.implementation {
                text += &format!(", {implementation}");
            }
            if !server.roles.is_empty() {
                text += &format!(", {}", server.roles.join(", "));
            }
            self.line(to, "server", &text)?;
        }
        let names =
            v4.root.iter().map(|(name, is_directory)| format!("{name}{}", if *is_directory { "/" } else { "" }));
        let mut names = names.collect::<Vec<_>>().join(" ");
        if v4.has_more {
            names += " ...";
        }
        self.line(to, "root", if names.is_empty() { "empty" } else { &names })
    }

    fn channel(&self, to: &mut impl Write, name: &str, channel: &ProbedChannelLimits) -> io::Result<()> {
        let text = format!(
            "{} slots of {} operations, calls of {}, replies of {}, {} kept",
            count(channel.max_requests),
            count(channel.max_operations),
            count(channel.max_request),
            count(channel.max_response),
            count(channel.max_response_cached),
        );
        self.line(to, name, &text)
    }

    fn exports(&self, to: &mut impl Write, exports: &ProbedExports) -> io::Result<()> {
        let title = format!("Exports (MOUNT, port {})", exports.port);
        writeln!(to, "{}", StyledText(self.screen.styles.header, title))?;
        for (path, groups) in &exports.list {
            let groups = if groups.is_empty() { "everybody".into() } else { groups.join(" ") };
            self.line(to, &self.escaped(path), &groups)?;
        }
        Ok(())
    }
}

fn private(data: Option<&PrivateData>) -> String {
    let Some(data) = data else { return "nothing of RFC 8797".into() };
    let invalidation = if data.remote_invalidation { "remote invalidation" } else { "no remote invalidation" };
    format!(
        "Send {}, Receive {}, {invalidation}",
        count(data.send_threshold_bytes()),
        count(data.receive_threshold_bytes())
    )
}

fn rdma_object(rdma: &NegotiatedRpcRdmaParameters, probe: &ServerProbeReport) -> impl Serialize {
    let (invalidations, replies) = probe.invalidations;
    json_object! {
        device: &rdma.device,
        sent: rdma.sent.map(private_data_object),
        received: rdma.received.map(private_data_object),
        received_length: rdma.received_length,
        call_inline: rdma.call_inline,
        reply_inline: rdma.reply_inline,
        remote_invalidation: rdma.remote_invalidation,
        remote_invalidation_asked: probe.asked_for_invalidation,
        invalidations: invalidations,
        replies: replies,
    }
}

fn v3_object(result: &Result<Fsinfo3Resok, ProbeFailure>) -> impl Serialize {
    json_object! {
        #[serde(flatten)]
        error: result.as_ref().err().map(|failure| json_object! { error: &failure.text }),
        #[serde(flatten)]
        limits: result.as_ref().ok().map(|v3| {
            json_object! {
                rtmax: v3.rtmax,
                rtpref: v3.rtpref,
                rtmult: v3.rtmult,
                wtmax: v3.wtmax,
                wtpref: v3.wtpref,
                wtmult: v3.wtmult,
                dtpref: v3.dtpref,
                maxfilesize: v3.maxfilesize,
            }
        }),
    }
}

fn v4_object(minor: u32, result: &Result<Nfs4ProbeReport, ProbeFailure>) -> impl Serialize {
    json_object! {
        minor_version: minor,
        #[serde(flatten)]
        error: result.as_ref().err().map(|failure| json_object! { error: &failure.text }),
        #[serde(flatten)]
        found: result.as_ref().ok().map(capabilities_object),
    }
}

fn capabilities_object(v4: &Nfs4ProbeReport) -> impl Serialize {
    let channel = |channel: &ProbedChannelLimits| {
        json_object! {
            maxrequestsize: channel.max_request,
            maxresponsesize: channel.max_response,
            maxresponsesize_cached: channel.max_response_cached,
            maxoperations: channel.max_operations,
            maxrequests: channel.max_requests,
        }
    };
    let server = v4.server.as_ref();
    json_object! {
        maxread: v4.maxread,
        maxwrite: v4.maxwrite,
        maxfilesize: v4.maxfilesize,
        lease_time: v4.lease_time,
        server_owner: server.map(|server| &server.owner),
        server_scope: server.map(|server| &server.scope),
        implementation: server.map(|server| &server.implementation),
        fore_channel: v4.session.as_ref().map(|session| channel(&session.fore)),
        back_channel: v4.session.as_ref().map(|session| channel(&session.back)),
        root: JsonArray(|| {
            v4.root.iter().map(|(name, is_directory)| json_object! { name: name, is_directory: is_directory })
        }),
    }
}

fn exports_object(result: &Result<ProbedExports, String>) -> impl Serialize {
    let list = || result.iter().flat_map(|exports| &exports.list);
    json_object! {
        #[serde(flatten)]
        error: result.as_ref().err().map(|error| json_object! { error: error }),
        #[serde(flatten)]
        port: result.as_ref().ok().map(|exports| json_object! { port: exports.port }),
        list: JsonArray(move || list().map(|(path, groups)| json_object! { path: path, groups: groups })),
    }
}
