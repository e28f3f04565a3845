//! View of operations: one line per operation with counts, rates, latencies and errors.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::json::{NameOrNumberJson, SCHEMA};
use super::settings::OutputLineFormat;
use super::style::{Glyphs, Style, TerminalProfile};
use super::table::{TableColumn, TableLineWriter, csv, number, text, text_from};
use super::units::{EventRateText, HumanCount, HumanDuration, HumanSize};
use crate::escape;
use nfsrdma_analysis::operation_statistics::{self, OperationStats, RatioDenominators};
use nfsrdma_analysis::statistics::{FrameAndTransactionStatistics, Latencies, OperationKey, OperationTally};

/// Columns, here and in the terminal interface.
pub const COLUMNS: &[TableColumn] = &[
    text("OPERATION", 20),
    text_from("PROGRAM", 10, 100),
    number("CALLS", 9, 0),
    number("/S", 7, 60),
    number("ERRORS", 7, 0),
    number("P50", 8, 0),
    number("P90", 8, 90),
    number("P99", 8, 0),
    number("MAX", 8, 70),
    number("TIME%", 6, 110),
    number("RECOVERY", 8, 140),
    number("IN", 8, 80),
    number("OUT", 8, 80),
    number("IN/S", 8, 130),
    number("OUT/S", 8, 130),
];

/// Returns the cells of an operation.
pub fn cells(row: &OperationStats, whole: &RatioDenominators, glyphs: Glyphs) -> [String; COLUMNS.len()] {
    let time = |of: fn(&operation_statistics::LatencySpread) -> u64| {
        row.latency.as_ref().map_or(String::new(), |latency| HumanDuration(of(latency), glyphs).to_string())
    };
    let bytes = |bytes: f64| HumanSize(bytes as u64).to_string();
    [
        row.name(),
        row.program(),
        HumanCount(row.calls).to_string(),
        EventRateText(whole.rate(row.calls)).to_string(),
        if row.errors > 0 { HumanCount(row.errors).to_string() } else { String::new() },
        time(|latency| latency.p50),
        time(|latency| latency.p90),
        time(|latency| latency.p99),
        time(|latency| latency.max),
        format!("{:.1}", whole.share(row)),
        recovery_text(row.recovery_ns, glyphs),
        HumanSize(row.bytes_in).to_string(),
        HumanSize(row.bytes_out).to_string(),
        bytes(whole.rate(row.bytes_in)),
        bytes(whole.rate(row.bytes_out)),
    ]
}

/// Returns the text of a time in loss recovery: none if nothing was lost.
pub fn recovery_text(recovery_ns: u64, glyphs: Glyphs) -> String {
    if recovery_ns > 0 { HumanDuration(recovery_ns, glyphs).to_string() } else { String::new() }
}

/// Writes at most `most` lines of the view and returns their number.
pub(super) fn write(
    to: &mut impl Write,
    statistics: &FrameAndTransactionStatistics,
    (format, screen): (OutputLineFormat, TerminalProfile),
    most: u64,
) -> io::Result<u64> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let busiest = operation_statistics::busiest(statistics);
    let shown = busiest.len().min(most);
    match format {
        OutputLineFormat::Text => {
            let rows = operation_statistics::rows(statistics);
            let whole = RatioDenominators::new(&rows, statistics.times());
            let mut table = TableLineWriter::new(screen, COLUMNS);
            let styles = screen.styles;
            for row in rows.iter().take(most) {
                let mut cells = cells(row, &whole, screen.glyphs).map(|cell| (cell, Style::new()));
                for (at, style) in
                    [(0, styles.operation), (1, styles.dim), (4, styles.error), (10, styles.error)]
                {
                    cells[at].1 = style;
                }
                table.line(to, &cells)?;
            }
        }
        OutputLineFormat::Json => {
            for (key, tally) in busiest.into_iter().take(most) {
                let mut line = escape::json(&OperationStatisticsJsonLine {
                    schema: SCHEMA,
                    kind: "operation",
                    operation: OperationStatsJson::from_tally(key, tally),
                })?;
                line.push(b'\n');
                to.write_all(&line)?;
            }
        }
        OutputLineFormat::Csv | OutputLineFormat::Fields => {
            csv(to, CSV.iter().map(|(name, _)| name))?;
            for (key, tally) in busiest.into_iter().take(most) {
                let object = OperationStatsJson::from_tally(key, tally);
                csv(to, CSV.iter().map(|(_, value)| value(&object).unwrap_or_default()))?;
            }
        }
    }
    Ok(shown as u64)
}

#[derive(Serialize)]
struct OperationStatisticsJsonLine<'a> {
    schema: u32,
    kind: &'static str,
    #[serde(flatten)]
    operation: OperationStatsJson<'a>,
}

/// JSON object of an operation.
#[derive(Serialize)]
pub(super) struct OperationStatsJson<'a> {
    program_name: Option<&'static str>,
    version: Option<u32>,
    operation: Option<NameOrNumberJson>,
    calls: u64,
    replies: u64,
    errors: u64,
    latency_ns: Option<LatencyJson<'a>>,
    recovery_ns: u64,
    read_chunk_bytes: u64,
    write_chunk_bytes: u64,
    reply_chunk_bytes: u64,
    call_bytes: u64,
    reply_bytes: u64,
}

impl<'a> OperationStatsJson<'a> {
    pub(super) fn from_tally(key: &OperationKey, tally: &'a OperationTally) -> Self {
        Self {
            program_name: key.program,
            version: key.version,
            operation: key.operation.map(NameOrNumberJson::from),
            calls: tally.calls,
            replies: tally.replies,
            errors: tally.errors,
            latency_ns: (tally.latencies.count() > 0).then_some(LatencyJson(&tally.latencies)),
            recovery_ns: tally.recovery_ns,
            read_chunk_bytes: tally.read_chunk_bytes,
            write_chunk_bytes: tally.write_chunk_bytes,
            reply_chunk_bytes: tally.reply_chunk_bytes,
            call_bytes: tally.call_bytes,
            reply_bytes: tally.reply_bytes,
        }
    }

    fn latency(&self, of: impl Fn(&Latencies) -> u64) -> Option<String> {
        self.latency_ns.as_ref().map(|latencies| of(latencies.0).to_string())
    }
}

struct LatencyJson<'a>(&'a Latencies);

impl Serialize for LatencyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let latencies = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("min", &latencies.min())?;
        for (key, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            map.serialize_entry(key, &latencies.quantile(part))?;
        }
        map.serialize_entry("max", &latencies.max())?;
        map.serialize_entry("mean", &latencies.mean())?;
        map.end()
    }
}

/// CSV column: its name, and the function that returns its cell, if any.
type OperationCsvColumn = (&'static str, fn(&OperationStatsJson<'_>) -> Option<String>);

/// CSV columns, named like the keys of JSON.
const CSV: &[OperationCsvColumn] = &[
    ("program_name", |row| row.program_name.map(str::to_owned)),
    ("version", |row| row.version.map(|version| version.to_string())),
    ("operation", |row| row.operation.as_ref().map(|name| name.to_string())),
    ("calls", |row| Some(row.calls.to_string())),
    ("replies", |row| Some(row.replies.to_string())),
    ("errors", |row| Some(row.errors.to_string())),
    ("latency_ns.min", |row| row.latency(Latencies::min)),
    ("latency_ns.p50", |row| row.latency(|all| all.quantile(0.5))),
    ("latency_ns.p90", |row| row.latency(|all| all.quantile(0.9))),
    ("latency_ns.p99", |row| row.latency(|all| all.quantile(0.99))),
    ("latency_ns.p999", |row| row.latency(|all| all.quantile(0.999))),
    ("latency_ns.max", |row| row.latency(Latencies::max)),
    ("latency_ns.mean", |row| row.latency(Latencies::mean)),
    ("recovery_ns", |row| Some(row.recovery_ns.to_string())),
    ("read_chunk_bytes", |row| Some(row.read_chunk_bytes.to_string())),
    ("write_chunk_bytes", |row| Some(row.write_chunk_bytes.to_string())),
    ("reply_chunk_bytes", |row| Some(row.reply_chunk_bytes.to_string())),
    ("call_bytes", |row| Some(row.call_bytes.to_string())),
    ("reply_bytes", |row| Some(row.reply_bytes.to_string())),
];
