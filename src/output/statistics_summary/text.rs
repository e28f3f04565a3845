//! Summary as text.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use nfsrdma_analysis::conformance::run::FindingCounts;
use nfsrdma_analysis::statistics::{
    ChunkTally, Completeness, FrameAndTransactionStatistics, OperationKey, OperationTally, RetransmissionTally,
};
use nfsrdma_capture_file::CapturePacketCounters;
use nfsrdma_conformance::ReportedFindingSeverity;
use nfsrdma_flow::UndecodedReason;
use nfsrdma_flow::transaction::Endpoint;
use nfsrdma_flow::transaction_message_decoding::ProcedureOrMainOperation;

use super::super::lint::SeverityCount;
use super::super::settings::OutputLineUnit;
use super::super::style::{Glyphs, wrap_words};
use super::super::units::{HumanCount, HumanDuration, HumanSize, PluralCount};
use super::capture_summary::CaptureSummary;

/// Maximum number of connections shown; of many, only the largest matter.
const SHOWN_CONNECTIONS: usize = 10;

pub(super) fn write(summary: &CaptureSummary<'_>, to: &mut impl Write, width: usize) -> io::Result<()> {
    let statistics = summary.statistics;
    for line in wrap_words(&totals(summary), width) {
        writeln!(to, "{line}")?;
    }
    if summary.shown != Some(OutputLineUnit::Operations) {
        for table in operation_tables(statistics, summary.glyphs) {
            table.write(to, width)?;
        }
    }
    if statistics.connections().count() > 1 && summary.shown != Some(OutputLineUnit::Connections) {
        connection_table(statistics).write(to, width)?;
    }
    chunk_table(statistics).write(to, width)?;
    write_counts(to, "Frames not decoded", summary.undecoded())?;
    write_counts(to, "State dropped (limit reached)", summary.evicted())
}

/// Writes counts by the words of their keys, which have underscores between words.
fn write_counts(to: &mut impl Write, title: &str, counts: impl Iterator<Item = (&'static str, u64)>) -> io::Result<()> {
    let rows: Vec<_> = counts.map(|(key, count)| (HumanCount(count).to_string(), key.replace('_', " "))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let widest = rows.iter().map(|(count, _)| count.len()).max().unwrap_or(0);
    writeln!(to, "\n{title}")?;
    rows.iter().try_for_each(|(count, name)| writeln!(to, "  {count:>widest$}  {name}"))
}

fn totals(summary: &CaptureSummary<'_>) -> String {
    let statistics = summary.statistics;
    let is_empty = statistics.frames() == 0 && statistics.transactions() == 0;
    let mut text = match summary.filtered.filter(|_| is_empty) {
        Some(view) => {
            let unit = if view == OutputLineUnit::Frames { "frame" } else { "transaction" };
            format!("No {unit} matches the display filter.")
        }
        None => totals_of_frames(summary),
    };
    push_recovery(statistics.recovery(), &mut text);
    let duplicates = summary.flow.stats().duplicate_frames();
    if duplicates > 0 {
        let _ = write!(text, " {} captured twice.", PluralCount(duplicates, "frame"));
    }
    push_late_packets(summary.flow.stats().late_packets(), statistics.frames(), &mut text);
    if let Some(icrc) = summary.icrc {
        let _ = write!(text, " ICRC: {} right, {} wrong", HumanCount(icrc.good), HumanCount(icrc.bad));
        if icrc.unknown > 0 {
            let _ = write!(text, ", {} not checked", HumanCount(icrc.unknown));
        }
        text.push('.');
    }
    if let Some(findings) = summary.findings {
        push_findings(findings, summary.filtered.is_some(), summary.glyphs, &mut text);
    }
    if let Some(counters) = &summary.counters {
        push_capture_counters(counters, &mut text);
    } else if let Some(dropped) = summary.dropped.filter(|dropped| *dropped > 0) {
        let _ = write!(text, " The capture lost {}.", PluralCount(dropped, "packet"));
    }
    text
}

/// Packets captured after their acknowledgement that show another clock, if they are one in 20.
const MIN_SKEWED_PACKETS: u64 = 20;

/// Appends the number of packets captured after their acknowledgement. Single ones are reordered; many show that the
/// clocks of the two directions differ.
fn push_late_packets(late: u64, frames: u64, text: &mut String) {
    let consequence = match late >= MIN_SKEWED_PACKETS && late > frames / 20 {
        true => ": the clocks of the two directions differ, and latencies are not exact",
        false => "",
    };
    match late {
        0 => {}
        1 => text.push_str(" 1 packet captured after its acknowledgement."),
        _ => _ = write!(text, " {} packets captured after their acknowledgement{consequence}.", HumanCount(late)),
    }
}

fn totals_of_frames(summary: &CaptureSummary<'_>) -> String {
    let statistics = summary.statistics;
    let mut text = PluralCount(statistics.frames(), "frame").to_string();
    let _ = write!(text, ", {}", HumanSize(statistics.bytes()));
    if let Some(duration) =
        statistics.times().and_then(|(first, last)| last.nanoseconds_since(first)).filter(|ns| *ns > 0)
    {
        let _ = write!(text, " in {}", HumanDuration(duration, summary.glyphs));
    }
    if statistics.transactions() == 0 && statistics.frames() > 0 {
        let counts = summary.flow.stats().undecoded_counts();
        let cut: u64 = counts.filter(|(reason, _)| reason.is_cut()).map(|(_, count)| count).sum();
        let finding = match cut {
            0 => "No RPC in it",
            1.. => "The captured frames are too short to detect RPC",
        };
        let _ = write!(text, ". {finding}: {}.", describe_frames(summary));
    } else {
        push_transactions(statistics, summary.flow.stats().unknown_rpc_frames(), &mut text);
        if let Some(lines) = summary.stopped_after.filter(|_| statistics.incomplete() > 0) {
            let _ = write!(text, " Reading stopped at -c {lines}: later messages were not read.");
        }
    }
    text
}

/// Appends the number of conformance findings by severity, with their rules. Findings of severity info, of which there
/// may be many, have a number only, except those about the transport.
fn push_findings(findings: &FindingCounts, is_filtered: bool, glyphs: Glyphs, text: &mut String) {
    let mut parts = Vec::new();
    for severity in ReportedFindingSeverity::ALL {
        let count = findings.of_severity(severity);
        if count == 0 {
            continue;
        }
        let (mut rules, mut unnamed) = (Vec::new(), 0);
        for (_, rule, count) in findings.iter().filter(|(other, ..)| *other == severity) {
            if severity == ReportedFindingSeverity::Info && !rule.starts_with("transport/") {
                unnamed += 1;
            } else {
                rules.push(format!("{rule} {}{}", glyphs.times, HumanCount(count)));
            }
        }
        if unnamed > 0 {
            let noun = if rules.is_empty() { "rule" } else { "other rule" };
            rules.push(PluralCount(unnamed, noun).to_string());
        }
        parts.push(format!("{} ({})", SeverityCount(severity, count), rules.join(", ")));
    }
    let listing = if parts.is_empty() { "none".to_owned() } else { parts.join("; ") };
    let scope = if is_filtered { " of these transactions" } else { "" };
    let _ = write!(text, " Conformance findings{scope}: {listing}.");
}

/// Appends the number of retransmissions by sender, and the time spent in recovery.
fn push_recovery(tally: RetransmissionTally, text: &mut String) {
    let by_transport = tally.transport_copies();
    if by_transport > 0 {
        let _ = write!(text, " {} by the transport.", PluralCount(by_transport, "message retransmission"));
    }
    if tally.rpc_copies > 0 {
        let _ = write!(text, " {} by RPC.", PluralCount(tally.rpc_copies, "message retransmission"));
    }
    if tally.transactions > 0 {
        let waited = HumanDuration(tally.wait_ns, Glyphs::UNICODE);
        let count = PluralCount(tally.transactions, "transaction");
        let _ = write!(text, " {count} spent {waited} in loss recovery.");
    }
    // A slow server alone is not a sign of loss.
    let timeouts = tally.suspected_transactions - tally.suspected_without_set_up;
    if timeouts > 0 && tally.has_loss() {
        let count = PluralCount(timeouts, "transaction");
        let _ = write!(
            text,
            " {count} waited at least one ACK timeout for the server, possibly because packets were lost."
        );
    }
    if tally.suspected_without_set_up > 0 && tally.has_loss() {
        let count = PluralCount(tally.suspected_without_set_up, "transaction");
        let _ = write!(
            text,
            " {count} waited so long for the server that packets may have been lost before the capture point: without \
             the set-up, the ACK timeout is unknown."
        );
    }
    if tally.refused_answers > 0 {
        let count = PluralCount(tally.refused_answers, "transaction");
        let _ = write!(
            text,
            " {count} waited for packets of the server that were lost before the capture point: the client refused them \
             or those behind them."
        );
    }
    if tally.lost_copies > 0 {
        let count = PluralCount(tally.lost_copies, "call");
        let _ = write!(text, " Copies of {count} were lost before the capture point: the latencies exclude that time.");
    }
    if tally.possible_lost_copies > 0 && tally.has_loss() {
        let count = PluralCount(tally.possible_lost_copies, "call");
        let _ = write!(
            text,
            " {count} followed a pause of at least one ACK timeout: the client was idle, or copies were possibly lost \
             before the capture point."
        );
    }
}

/// Appends the received and dropped packets of a live capture, and the options that reduce drops.
fn push_capture_counters(counters: &CapturePacketCounters, text: &mut String) {
    let CapturePacketCounters { received, dropped_by_kernel, dropped_by_interface, dropped_by_program, .. } = *counters;
    let _ = write!(text, " {} passed the capture filter, ", PluralCount(received, "packet"));
    if counters.dropped() == 0 {
        text.push_str("none dropped.");
    } else {
        let _ = write!(text, "{} dropped:", HumanCount(counters.dropped()));
        let parts: Vec<_> = [
            (dropped_by_interface, "by the interface"),
            (dropped_by_kernel, "by the kernel (raise -B)"),
            (
                dropped_by_program,
                "here, where decoding was slower (raise --max-queue-bytes, or record with capture -w)",
            ),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, cause)| format!(" {} {cause}", HumanCount(count)))
        .collect();
        let _ = write!(text, "{}.", parts.join(","));
    }
}

/// Describes the frames of a capture without Transactions.
fn describe_frames(summary: &CaptureSummary<'_>) -> String {
    let ignored_counts: Vec<_> = summary.flow.stats().ignored_counts().collect();
    let ignored_total: u64 = ignored_counts.iter().map(|(_, count)| count).sum();
    let undecoded_counts = [
        ("unknown NFS-port segments", undecoded(summary, UndecodedReason::UnknownStream)),
        ("cut NFS-port segments", undecoded(summary, UndecodedReason::CutStream)),
        ("malformed frames", undecoded(summary, UndecodedReason::Malformed)),
    ];
    let rdma = undecoded_counts.iter().fold(ignored_total, |sum, (_, count)| sum + count);
    let rdma = summary.statistics.frames().saturating_sub(rdma);
    let counts = [("RDMA packets", rdma)].into_iter();
    let counts = counts.chain(ignored_counts.iter().map(|(reason, count)| (reason.key(), *count)));
    let counts = counts.chain(undecoded_counts).filter(|(_, count)| *count > 0);
    let parts: Vec<_> =
        counts.map(|(name, count)| PluralCount(count, name.strip_suffix('s').unwrap_or(name)).to_string()).collect();
    parts.join(", ")
}

/// Returns the number of frames that were not decoded for this reason.
fn undecoded(summary: &CaptureSummary<'_>, reason: UndecodedReason) -> u64 {
    let counts = summary.flow.stats().undecoded_counts();
    counts.filter(|(other, _)| *other == reason).map(|(_, count)| count).sum()
}

/// Appends the number of Transactions and their missing parts. `unknown_frames`: frames on their connections that were
/// not decoded.
fn push_transactions(statistics: &FrameAndTransactionStatistics, unknown_frames: u64, text: &mut String) {
    let transactions = statistics.transactions();
    let connections = statistics.connections().count();
    let _ = write!(text, ". {}", PluralCount(transactions, "transaction"));
    let _ = write!(text, " on {}", PluralCount(connections, "connection"));
    match Completeness::new(statistics.incomplete(), unknown_frames) {
        Completeness::All | Completeness::Decoded(_) if transactions == 0 => text.push('.'),
        Completeness::All => text.push_str(", all complete."),
        Completeness::Decoded(frames) => {
            let count = PluralCount(frames, "frame");
            let _ = write!(text, ", the decoded ones complete. {count} of connections with RPC were not decoded.");
        }
        Completeness::Incomplete(incomplete) => {
            let missing = statistics.missing();
            let parts: Vec<_> = [
                (missing.call, "with ", "no call captured"),
                (missing.reply, "with ", "no reply captured"),
                (missing.message_bytes, "with ", "message bytes missing"),
                (missing.chunk_bytes, "with ", "chunk bytes missing"),
                (missing.undecoded, "", "not fully decoded"),
                (missing.refused, "", "refused by the receiver"),
                (missing.wrong_result, "with ", "wrong results"),
            ]
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .collect();
            let are_all_alike = parts.iter().all(|(count, ..)| *count == incomplete);
            let parts: Vec<_> = parts
                .into_iter()
                .map(|(count, preposition, problem)| match are_all_alike {
                    true => problem.to_owned(),
                    // A count before "bytes missing" would read as a number of bytes.
                    false => format!("{} {preposition}{problem}", HumanCount(count)),
                })
                .collect();
            // It says whose fault that is.
            let see = if missing.refused + missing.wrong_result > 0 { "; see lint" } else { "" };
            let _ = write!(text, ", {} incomplete ({}{see}).", HumanCount(incomplete), parts.join(", "));
        }
    }
}

/// Returns a table for each version of each program.
fn operation_tables(statistics: &FrameAndTransactionStatistics, glyphs: Glyphs) -> Vec<SummaryTable> {
    let mut tables: Vec<SummaryTable> = Vec::new();
    let mut previous: Option<&OperationKey> = None;
    for (key, tally) in statistics.operations() {
        if previous.is_none_or(|previous| (previous.program, previous.version) != (key.program, key.version)) {
            tables.push(operation_table(key, tally));
        }
        previous = Some(key);
        if let Some(table) = tables.last_mut() {
            table.row(operation_cells(key, tally, glyphs));
        }
    }
    // Aligns the columns of all tables.
    let widest = tables.iter().map(SummaryTable::first_width).fold(0, usize::max);
    tables.into_iter().map(|table| SummaryTable { min_first_width: widest, ..table }).collect()
}

fn operation_table(key: &OperationKey, tally: &OperationTally) -> SummaryTable {
    let title = match (key.program, key.version) {
        (Some(program), Some(version)) => format!("{program} version {version}"),
        (Some(program), None) => program.to_owned(),
        (None, Some(version)) => format!("Unknown program, version {version}"),
        (None, None) if tally.truncated_calls == 0 => "Unknown program".to_owned(),
        (None, None) if tally.truncated_calls == tally.calls => "Cut by the snap length".to_owned(),
        (None, None) => "Unknown program, or cut by the snap length".to_owned(),
    };
    // If there is no room, columns are dropped from the end of the second list.
    SummaryTable::new(
        title,
        &["calls", "errors", "p50", "p99", "max", "bytes in", "bytes out"],
        &["bytes out", "bytes in", "max", "p99"],
    )
}

fn operation_cells(key: &OperationKey, tally: &OperationTally, glyphs: Glyphs) -> Vec<String> {
    let latencies = &tally.latencies;
    let time = |ns| if latencies.count() > 0 { HumanDuration(ns, glyphs).to_string() } else { "-".to_owned() };
    vec![
        operation_name(key.operation),
        HumanCount(tally.calls).to_string(),
        HumanCount(tally.errors).to_string(),
        time(latencies.quantile(0.5)),
        time(latencies.quantile(0.99)),
        time(latencies.max()),
        HumanSize(tally.call_bytes).to_string(),
        HumanSize(tally.reply_bytes).to_string(),
    ]
}

fn connection_table(statistics: &FrameAndTransactionStatistics) -> SummaryTable {
    let connections = statistics.connections();
    let mut table = SummaryTable::new(
        "Connections".to_owned(),
        &["transport", "transactions", "incomplete", "bytes"],
        &["transport", "incomplete"],
    );
    for tally in connections.largest().take(SHOWN_CONNECTIONS) {
        let name = tally.name;
        table.row(vec![
            format!("{} - {}", SummaryEndpoint(name.client), SummaryEndpoint(name.server)),
            name.transport.to_string(),
            HumanCount(tally.transactions).to_string(),
            HumanCount(tally.incomplete).to_string(),
            HumanSize(tally.bytes).to_string(),
        ]);
    }
    let hidden_count = connections.count().saturating_sub(SHOWN_CONNECTIONS as u64);
    if hidden_count > 0 {
        table.row(vec![format!("and {} more", HumanCount(hidden_count))]);
    }
    table
}

fn chunk_table(statistics: &FrameAndTransactionStatistics) -> SummaryTable {
    let chunks = statistics.chunks();
    let mut table = SummaryTable::new(
        "Chunks".to_owned(),
        &["chunks", "segments", "offered", "returned", "moved"],
        &["segments", "returned"],
    );
    let kinds = [
        ("Read", chunks.read),
        ("Write", chunks.write),
        ("Reply", chunks.reply),
        ("Read by Requesters", chunks.reply_read),
    ];
    for (kind, tally) in kinds {
        let ChunkTally { chunks, segments, offered, returned, moved } = tally;
        if chunks > 0 {
            let returned = if kind.starts_with("Read") { "-".to_owned() } else { HumanSize(returned).to_string() };
            table.row(vec![
                kind.to_owned(),
                HumanCount(chunks).to_string(),
                HumanCount(segments).to_string(),
                HumanSize(offered).to_string(),
                returned,
                HumanSize(moved).to_string(),
            ]);
        }
    }
    table
}

/// Table with the first cell of each row aligned left and the others right. A table without rows is not shown.
struct SummaryTable {
    title: String,
    columns: Vec<&'static str>,
    /// Columns that may be dropped, the last first.
    optional_columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// Minimum width of the first column.
    min_first_width: usize,
}

impl SummaryTable {
    fn new(title: String, columns: &[&'static str], optional_columns: &'static [&'static str]) -> Self {
        Self { title, columns: columns.to_vec(), optional_columns, rows: Vec::new(), min_first_width: 0 }
    }

    fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the width of the first column.
    fn first_width(&self) -> usize {
        let names = self.rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count() + 2);
        names.fold(self.title.chars().count(), usize::max)
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column + 1)).map(|cell| cell.chars().count());
        let heading = self.columns.get(column).map_or(0, |heading| heading.chars().count());
        cells.fold(heading, usize::max)
    }

    fn write(&self, to: &mut impl Write, width: usize) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let first = self.first_width().max(self.min_first_width);
        let mut visible_columns: Vec<(usize, usize)> =
            (0..self.columns.len()).map(|column| (column, self.width_of(column))).collect();
        for column in self.optional_columns.iter().rev() {
            if first + visible_columns.iter().map(|(_, width)| width + 2).sum::<usize>() <= width {
                break;
            }
            visible_columns.retain(|(at, _)| self.columns.get(*at) != Some(column));
        }
        let mut line = |name: &str, cell: &dyn Fn(usize) -> Option<String>| {
            let mut text = format!("{name:first$}");
            for (column, width) in &visible_columns {
                let _ = write!(text, "  {:>width$}", cell(*column).unwrap_or_default());
            }
            writeln!(to, "{}", text.trim_end())
        };
        line("", &|_| None)?;
        line(&self.title, &|column| self.columns.get(column).map(|&heading| heading.to_owned()))?;
        for row in &self.rows {
            let name = row.first().map(|name| format!("  {name}")).unwrap_or_default();
            line(&name, &|column| row.get(column + 1).cloned())?;
        }
        Ok(())
    }
}

/// Returns the name of an operation for the table of operations.
fn operation_name(operation: Option<ProcedureOrMainOperation>) -> String {
    match operation {
        Some(ProcedureOrMainOperation::Named(name)) => name.to_owned(),
        Some(ProcedureOrMainOperation::Number(number)) => format!("operation {number}"),
        None => "not decoded".to_owned(),
    }
}

struct SummaryEndpoint(Endpoint);

impl fmt::Display for SummaryEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.address)?;
        self.0.port.map_or(Ok(()), |port| write!(f, " {port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_omits_columns() {
        let mut table =
            SummaryTable::new("Chunks".to_owned(), &["chunks", "segments", "moved"], &["chunks", "segments"]);
        table.row(["Read", "1,000", "2", "64.0 KiB"].map(str::to_owned).to_vec());
        let text = |width| {
            let mut text = Vec::new();
            table.write(&mut text, width).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(80), "\nChunks  chunks  segments     moved\n  Read   1,000         2  64.0 KiB\n");
        assert_eq!(text(30), "\nChunks  chunks     moved\n  Read   1,000  64.0 KiB\n");
        assert_eq!(text(1), "\nChunks     moved\n  Read  64.0 KiB\n");
    }
}
