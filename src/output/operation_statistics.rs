//! View of operations: one line per operation with counts, rates, latencies and errors.

use std::io::{self, Write};

use nfsrdma_analysis::operation_statistics::{self, OperationStats, RatioDenominators};
use nfsrdma_analysis::statistics::{FrameAndTransactionStatistics, Latencies, OperationKey, OperationTally};
use serde::Serialize;

use super::json::line::name_or_number;
use super::json::object::{SCHEMA, json_object, write_json_line};
use super::settings::OutputLineFormat;
use super::style::{Glyphs, Style, TerminalProfile};
use super::table::{TableColumn, TableLineWriter, csv, csv_cells, number, text, text_from};
use super::units::{EventRateText, HumanCount, HumanDuration, HumanSize};

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
pub fn cells(row: &OperationStats, denominators: &RatioDenominators, glyphs: Glyphs) -> [String; COLUMNS.len()] {
    let time = |quantile: fn(&operation_statistics::LatencySpread) -> u64| {
        row.latency.as_ref().map_or(String::new(), |latency| HumanDuration(quantile(latency), glyphs).to_string())
    };
    let bytes = |bytes: f64| HumanSize(bytes as u64).to_string();
    [
        row.name(),
        row.program(),
        HumanCount(row.calls).to_string(),
        EventRateText(denominators.rate(row.calls)).to_string(),
        if row.errors > 0 { HumanCount(row.errors).to_string() } else { String::new() },
        time(|latency| latency.p50),
        time(|latency| latency.p90),
        time(|latency| latency.p99),
        time(|latency| latency.max),
        format!("{:.1}", denominators.share(row)),
        recovery_text(row.recovery_ns, glyphs),
        HumanSize(row.bytes_in).to_string(),
        HumanSize(row.bytes_out).to_string(),
        bytes(denominators.rate(row.bytes_in)),
        bytes(denominators.rate(row.bytes_out)),
    ]
}

/// Returns the text of a time in loss recovery: none if nothing was lost.
pub fn recovery_text(recovery_ns: u64, glyphs: Glyphs) -> String {
    if recovery_ns > 0 { HumanDuration(recovery_ns, glyphs).to_string() } else { String::new() }
}

/// Writes at most `max_rows` lines of the view and returns their number.
pub(super) fn write(
    to: &mut impl Write,
    statistics: &FrameAndTransactionStatistics,
    (format, screen): (OutputLineFormat, TerminalProfile),
    max_rows: u64,
) -> io::Result<u64> {
    let max_rows = usize::try_from(max_rows).unwrap_or(usize::MAX);
    let busiest = operation_statistics::busiest(statistics);
    let row_count = busiest.len().min(max_rows);
    match format {
        OutputLineFormat::Text => {
            let rows = operation_statistics::rows(statistics);
            let denominators = RatioDenominators::new(&rows, statistics.times());
            let mut table = TableLineWriter::new(screen, COLUMNS);
            let styles = screen.styles;
            for row in rows.iter().take(max_rows) {
                let mut cells = cells(row, &denominators, screen.glyphs).map(|cell| (cell, Style::new()));
                for (at, style) in [(0, styles.operation), (1, styles.dim), (4, styles.error), (10, styles.error)] {
                    cells[at].1 = style;
                }
                table.line(to, &cells)?;
            }
        }
        OutputLineFormat::Json => {
            for (key, tally) in busiest.into_iter().take(max_rows) {
                write_json_line(
                    to,
                    &json_object! {
                        schema: SCHEMA,
                        kind: "operation",
                        #[serde(flatten)]
                        operation: json_object_of(key, tally),
                    },
                )?;
            }
        }
        OutputLineFormat::Csv | OutputLineFormat::Fields => {
            csv(to, CSV_KEYS)?;
            for (key, tally) in busiest.into_iter().take(max_rows) {
                csv(to, csv_cells(CSV_KEYS, &json_object_of(key, tally))?)?;
            }
        }
    }
    Ok(row_count as u64)
}

pub(super) fn json_object_of(key: &OperationKey, tally: &OperationTally) -> impl Serialize {
    json_object! {
        program_name: key.program,
        version: key.version,
        operation: key.operation.map(name_or_number),
        calls: tally.calls,
        replies: tally.replies,
        errors: tally.errors,
        latency_ns: (tally.latencies.count() > 0).then(|| latency_object(&tally.latencies)),
        recovery_ns: tally.recovery_ns,
        read_chunk_bytes: tally.read_chunk_bytes,
        write_chunk_bytes: tally.write_chunk_bytes,
        reply_chunk_bytes: tally.reply_chunk_bytes,
        call_bytes: tally.call_bytes,
        reply_bytes: tally.reply_bytes,
    }
}

fn latency_object(latencies: &Latencies) -> impl Serialize {
    json_object! {
        min: latencies.min(),
        p50: latencies.quantile(0.5),
        p90: latencies.quantile(0.9),
        p99: latencies.quantile(0.99),
        p999: latencies.quantile(0.999),
        max: latencies.max(),
        mean: latencies.mean(),
    }
}

/// Columns of CSV: keys of the JSON object, and of the object in it.
const CSV_KEYS: &[&str] = &[
    "program_name",
    "version",
    "operation",
    "calls",
    "replies",
    "errors",
    "latency_ns.min",
    "latency_ns.p50",
    "latency_ns.p90",
    "latency_ns.p99",
    "latency_ns.p999",
    "latency_ns.max",
    "latency_ns.mean",
    "recovery_ns",
    "read_chunk_bytes",
    "write_chunk_bytes",
    "reply_chunk_bytes",
    "call_bytes",
    "reply_bytes",
];
