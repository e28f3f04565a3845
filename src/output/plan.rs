//! Plan of a replay, as text and as JSON. The schema is `docs/plan.schema.json`.

use std::io::{self, Write};

use nfsrdma_replay::run_plan::reason::{PlanReason, PlannedStepDisposition};
use nfsrdma_replay::run_plan::{FileTreePlan, PlanReasonCount, PlanStepCounts, PlannedObject, ReplayPlanSummary};
use nfsrdma_replay::trace::file_format::{TraceConnection, TraceFileDataRetention, TraceFileType, TraceTransport};
use serde::Serialize;

use super::json::object::{JsonArray, SCHEMA, json_object, write_json_line};
use super::report::Report;
use super::style::{StyledText, TerminalProfile};
use super::units::{HumanCount, HumanDuration, HumanSize, PluralCount, escape};

/// Report on a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanReportView<'a> {
    /// Path of the trace, as given.
    pub name: &'a str,
    /// Plan of the replay.
    pub plan: &'a ReplayPlanSummary,
    /// Maximum number of objects shown in the text.
    pub count: usize,
    /// Output device.
    pub screen: TerminalProfile,
}

const LABEL_WIDTH: usize = 14;

/// Maximum number of operations shown per reason.
const MAX_SHOWN_OPERATIONS: usize = 6;

fn type_name(file_type: TraceFileType, is_plural: bool) -> &'static str {
    match (file_type, is_plural) {
        (TraceFileType::FILE, false) => "file",
        (TraceFileType::FILE, true) => "files",
        (TraceFileType::DIRECTORY, false) => "directory",
        (TraceFileType::DIRECTORY, true) => "directories",
        (TraceFileType::BLOCK, false) => "block device",
        (TraceFileType::BLOCK, true) => "block devices",
        (TraceFileType::CHARACTER, false) => "character device",
        (TraceFileType::CHARACTER, true) => "character devices",
        (TraceFileType::LINK, false) => "link",
        (TraceFileType::LINK, true) => "links",
        (TraceFileType::SOCKET, false) => "socket",
        (TraceFileType::SOCKET, true) => "sockets",
        (TraceFileType::FIFO, false) => "fifo",
        (TraceFileType::FIFO, true) => "fifos",
        (_, _) => "of unknown type",
    }
}

fn transport_name(transport: TraceTransport) -> &'static str {
    match transport {
        TraceTransport::ROCEV2 => "rocev2",
        TraceTransport::ROCEV1 => "rocev1",
        TraceTransport::INFINIBAND => "infiniband",
        TraceTransport::IWARP => "iwarp",
        TraceTransport::TCP => "tcp",
        TraceTransport::UDP => "udp",
        _ => "unknown",
    }
}

fn retention_name(retention: TraceFileDataRetention) -> &'static str {
    match retention {
        TraceFileDataRetention::HASHED => "hash",
        TraceFileDataRetention::KEYED => "key",
        _ => "keep",
    }
}

/// Formats step counts by state: `110 run, 3 synthesized, 2 skipped`.
fn states(steps: &PlanStepCounts) -> String {
    let nonzero = PlannedStepDisposition::ALL.iter().zip(steps).filter(|(_, count)| **count > 0);
    let parts: Vec<_> = nonzero.map(|(state, steps)| format!("{} {}", HumanCount(*steps), state.name())).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

impl Report for PlanReportView<'_> {
    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let ReplayPlanSummary { summary, steps, operations, reasons, undefined, .. } = self.plan;
        let styles = self.screen.styles;
        let end = &summary.end;
        writeln!(to, "{}", StyledText(styles.header, self.escaped(self.name.as_bytes())))?;
        self.line(to, "captures", &summary.captures.join(", "))?;
        let time = HumanDuration(end.last_call_ns.saturating_sub(end.first_call_ns), self.screen.glyphs);
        self.line(to, "steps", &format!("{} in {time}: {}", HumanCount(self.plan.total()), states(steps)))?;
        let sides = |is_server| summary.hosts.iter().filter(|host| host.is_server == is_server).count();
        let mut transports: Vec<_> =
            summary.connections.iter().map(|connection| transport_name(connection.transport)).collect();
        transports.sort_unstable();
        transports.dedup();
        let hosts = format!(
            "{}, of {} to {}, over {}",
            HumanCount(summary.connections.len() as u64),
            PluralCount(sides(false) as u64, "client"),
            PluralCount(sides(true) as u64, "server"),
            transports.join(" and ")
        );
        self.line(to, "connections", &hosts)?;
        let data = match summary.keeping {
            TraceFileDataRetention::HASHED => "kept as hashes",
            TraceFileDataRetention::KEYED => "generated from a key",
            _ => "kept",
        };
        let unknown = match end.unknown_bytes {
            0 => String::new(),
            unknown => format!(", {} not captured", HumanSize(unknown)),
        };
        self.line(to, "file data", &format!("{}, {data}{unknown}", HumanSize(end.payload_bytes)))?;
        let drops = [
            (end.late, "step", "out of time order"),
            (end.forgotten, "name", "dropped"),
            (end.left_out, "item", "left out"),
            (self.plan.dropped_variables, "value", "dropped"),
        ];
        for (number, noun, effect) in drops.into_iter().filter(|(number, ..)| *number > 0) {
            let count = PluralCount(number, noun);
            self.line(to, "bounds", &format!("{count} {effect} (limit reached)"))?;
        }
        writeln!(to, "{}", StyledText(styles.header, "Operations"))?;
        let width = operations.keys().map(|name| name.chars().count()).max().unwrap_or(0);
        for (name, steps) in operations {
            writeln!(to, "  {name:width$}  {}", states(steps))?;
        }
        for state in PlannedStepDisposition::ALL {
            let state_reasons: Vec<_> = reasons.iter().filter(|(reason, _)| reason.state() == state).collect();
            if state_reasons.is_empty() {
                continue;
            }
            let title = match state {
                PlannedStepDisposition::Synthesized => "Synthesized: runs, with substitutes for what the capture lacks",
                PlannedStepDisposition::Skipped => "Skipped: not needed",
                _ => "Unreplayable: cannot run",
            };
            writeln!(to, "{}", StyledText(styles.header, title))?;
            for (reason, reason_count) in state_reasons {
                self.write_reason(to, *reason, reason_count)?;
            }
        }
        if !undefined.is_empty() {
            let parts: Vec<_> = undefined
                .iter()
                .map(|(value_kind, number)| PluralCount(*number, &value_kind.display_name()).to_string())
                .collect();
            writeln!(to, "{}", StyledText(styles.header, "From before the capture"))?;
            self.line(to, "identifiers", &parts.join(", "))?;
        }
        self.tree(to)
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let ReplayPlanSummary { summary, steps, operations, reasons, undefined, tree, .. } = self.plan;
        let hosts = |is_server| {
            let side_hosts = summary.hosts.iter().filter(move |host| host.is_server == is_server);
            side_hosts.map(|host| json_object! { number: host.number, address: &host.address })
        };
        let object = json_object! {
            schema: SCHEMA,
            kind: "plan",
            trace: self.name,
            captures: &summary.captures,
            data: retention_name(summary.keeping),
            first_ns: summary.end.first_call_ns,
            last_ns: summary.end.last_call_ns,
            payload_bytes: summary.end.payload_bytes,
            unknown_bytes: summary.end.unknown_bytes,
            variables: summary.end.variables,
            clients: JsonArray(|| hosts(false)),
            servers: JsonArray(|| hosts(true)),
            connections: JsonArray(|| summary.connections.iter().map(connection_object)),
            steps: states_object(steps),
            operations: JsonArray(|| {
                operations.iter().map(|(operation, steps)| {
                    json_object! { operation: operation, #[serde(flatten)] steps: states_object(steps) }
                })
            }),
            reasons: JsonArray(|| reasons.iter().map(|(reason, reason_count)| reason_object(*reason, reason_count))),
            undefined: JsonArray(|| {
                let counts = undefined.iter();
                counts.map(|(value_kind, count)| json_object! { holds: value_kind.display_name(), count: count })
            }),
            tree: tree_object(tree),
            bounds: json_object! {
                late: summary.end.late,
                forgotten: summary.end.forgotten,
                left_out: summary.end.left_out,
                needs: self.plan.dropped_variables,
            },
        };
        write_json_line(to, &object)
    }
}

impl PlanReportView<'_> {
    fn write_reason(&self, to: &mut impl Write, reason: PlanReason, reason_count: &PlanReasonCount) -> io::Result<()> {
        writeln!(to, "  {:>7}  {}", HumanCount(reason_count.steps), reason.text())?;
        let mut busiest: Vec<_> = reason_count.operations.iter().collect();
        busiest.sort_by_key(|(_, steps)| std::cmp::Reverse(**steps));
        let remaining = busiest.len().saturating_sub(MAX_SHOWN_OPERATIONS);
        let mut operations: Vec<_> = busiest
            .iter()
            .take(MAX_SHOWN_OPERATIONS)
            .map(|(name, steps)| format!("{} {name}", HumanCount(**steps)))
            .collect();
        if remaining > 0 {
            operations.push(format!("{remaining} other operations"));
        }
        let frames: Vec<_> = reason_count.examples.iter().map(|first| HumanCount(first.frame).to_string()).collect();
        let ellipsis = if reason_count.steps as usize > frames.len() { ", ..." } else { "" };
        let (operations, frames) = (operations.join(", "), frames.join(", "));
        writeln!(to, "           {}", self.escaped(format!("{operations}; frames {frames}{ellipsis}").as_bytes()))
    }

    fn tree(&self, to: &mut impl Write) -> io::Result<()> {
        let tree = &self.plan.tree;
        writeln!(to, "{}", StyledText(self.screen.styles.header, "Tree before the first step"))?;
        let parts: Vec<_> = tree
            .objects
            .iter()
            .map(|(file_type, number)| format!("{} {}", HumanCount(*number), type_name(*file_type, *number != 1)))
            .collect();
        let objects = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
        self.line(to, "to create", &objects)?;
        if tree.nameless > 0 {
            self.line(to, "unnamed", &HumanCount(tree.nameless).to_string())?;
        }
        let roots: Vec<_> = tree.roots.iter().map(|root| String::from_utf8_lossy(root)).collect();
        if !roots.is_empty() {
            self.line(to, "roots", &roots.join(", "))?;
        }
        let unknown = match tree.unknown_bytes {
            0 => String::new(),
            unknown => format!("; of {}, only a hash is known", HumanSize(unknown)),
        };
        let content = format!(
            "{}, of which {} are read before they are written{unknown}",
            HumanSize(tree.bytes),
            HumanSize(tree.known_bytes + tree.unknown_bytes)
        );
        self.line(to, "content", &content)?;
        self.line(to, "by steps", &format!("{} created", PluralCount(tree.created, "object")))?;
        for item in tree.items.iter().take(self.count) {
            let path = if item.path.is_empty() { "(no name captured)".as_bytes() } else { &item.path };
            let detail = match item.file_type {
                TraceFileType::FILE => HumanSize(item.size).to_string(),
                TraceFileType::LINK => format!("-> {}", String::from_utf8_lossy(&item.target)),
                other => type_name(other, false).to_owned(),
            };
            writeln!(to, "    {}  {}", self.escaped(path), self.escaped(detail.as_bytes()))?;
        }
        let remaining = tree.objects.values().sum::<u64>().saturating_sub(tree.items.len().min(self.count) as u64);
        if remaining > 0 {
            writeln!(to, "    and {} more; -c shows more", HumanCount(remaining))?;
        }
        Ok(())
    }

    /// Escapes text of a capture, so that it cannot affect a terminal.
    fn escaped(&self, text: &[u8]) -> String {
        let mut escaped = String::new();
        escape(text, &self.screen.glyphs, &mut escaped);
        escaped
    }

    fn line(&self, to: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
        writeln!(to, "  {name:LABEL_WIDTH$}  {}", self.escaped(text.as_bytes()))
    }
}

fn states_object(&[run, synthesized, skipped, unreplayable]: &PlanStepCounts) -> impl Serialize {
    json_object! {
        total: run + synthesized + skipped + unreplayable,
        run: run,
        synthesized: synthesized,
        skipped: skipped,
        unreplayable: unreplayable,
    }
}

fn reason_object(reason: PlanReason, because: &PlanReasonCount) -> impl Serialize {
    json_object! {
        reason: reason.code(),
        state: reason.state().name(),
        text: reason.text(),
        steps: because.steps,
        operations: JsonArray(|| {
            let operations = because.operations.iter();
            operations.map(|(operation, steps)| json_object! { operation: operation, steps: steps })
        }),
        first: JsonArray(|| {
            because.examples.iter().map(|first| {
                json_object! { step: first.step, frame: first.frame, needs: first.needs }
            })
        }),
    }
}

fn connection_object(connection: &TraceConnection) -> impl Serialize {
    json_object! {
        connection: connection.number,
        transport: transport_name(connection.transport),
        client: connection.client,
        server: connection.server,
        steps: connection.steps,
        longest_call: connection.longest[0],
        longest_reply: connection.longest[1],
        credits_asked: connection.credits[0],
        credits_granted: connection.credits[1],
    }
}

/// Returns the objects that exist before the first step.
fn tree_object(tree: &FileTreePlan) -> impl Serialize {
    let text = |bytes: &'_ [u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
    let item_object = move |item: &PlannedObject| {
        json_object! {
            path: text(&item.path),
            r#type: type_name(item.file_type, false),
            size: item.size,
            target: text(&item.target),
            links: item.links,
            uses: item.uses,
        }
    };
    json_object! {
        objects: JsonArray(|| {
            let objects = tree.objects.iter();
            objects.map(|(file_type, count)| json_object! { r#type: type_name(*file_type, false), count: count })
        }),
        nameless: tree.nameless,
        created: tree.created,
        roots: JsonArray(|| tree.roots.iter().map(|root| String::from_utf8_lossy(root))),
        bytes: tree.bytes,
        content_known: tree.known_bytes,
        content_unknown: tree.unknown_bytes,
        items: JsonArray(move || tree.items.iter().map(item_object)),
    }
}
