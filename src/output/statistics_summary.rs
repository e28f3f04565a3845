//! Summary after the lines: statistics of the whole input. The schema of its JSON is `docs/summary.schema.json`.

pub mod capture_summary;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use nfsrdma_analysis::conformance::run::FindingCounts;
use nfsrdma_analysis::statistics::ChunkTally;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::IcrcCounts;
use serde::Serialize;

use super::json::object::{DisplayAsJsonString, JsonArray, JsonMap, SCHEMA, json_object, write_json_line};
use super::units::IsoTimestamp;
use super::{connections, operation_statistics};
use capture_summary::CaptureSummary;

impl CaptureSummary<'_> {
    /// Writes the summary as one line of JSON.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let Self { statistics, icrc, dropped, counters, .. } = *self;
        let (time, end_time) = statistics.times().unzip();
        let iso = |time: Option<Timestamp>| time.filter(|_| self.has_iso).map(IsoTimestamp).map(DisplayAsJsonString);
        let (chunks, missing, recovery) = (statistics.chunks(), statistics.missing(), statistics.recovery());
        let object = json_object! {
            schema: SCHEMA,
            kind: "summary",
            frames: statistics.frames(),
            bytes: statistics.bytes(),
            transactions: statistics.transactions(),
            incomplete: statistics.incomplete(),
            connections: json_object! {
                count: statistics.connections().count(),
                listed: JsonArray(|| statistics.connections().largest().map(connections::json_object_of)),
            },
            operations: JsonArray(|| {
                statistics.operations().map(|(key, tally)| operation_statistics::json_object_of(key, tally))
            }),
            chunks: json_object! {
                read: chunks_object(chunks.read),
                write: chunks_object(chunks.write),
                reply: chunks_object(chunks.reply),
                reply_read: chunks_object(chunks.reply_read),
            },
            undecoded: JsonMap(|| self.undecoded()),
            given_up: JsonMap(|| self.evicted()),
            time: time.map(DisplayAsJsonString),
            #[serde(flatten)]
            time_iso: iso(time).map(|time| json_object! { time_iso: time }),
            end_time: end_time.map(DisplayAsJsonString),
            #[serde(flatten)]
            end_time_iso: iso(end_time).map(|time| json_object! { end_time_iso: time }),
            missing: json_object! {
                call: missing.call,
                reply: missing.reply,
                message_bytes: missing.message_bytes,
                chunk_bytes: missing.chunk_bytes,
                undecoded: missing.undecoded,
                refused: missing.refused,
                wrong_result: missing.wrong_result,
            },
            repeated_messages: recovery.copies,
            recovery: json_object! {
                transactions: recovery.transactions,
                ns: recovery.wait_ns,
                resent: recovery.rpc_copies,
                suspected: recovery.suspected_transactions + recovery.refused_answers,
                lost_copies: recovery.lost_copies,
                possible_lost_copies: recovery.possible_lost_copies,
            },
            captured_twice: self.flow.stats().duplicate_frames(),
            captured_late: self.flow.stats().late_packets(),
            #[serde(flatten)]
            findings: self.findings.map(|counts| json_object! { findings: counts_by_rule(counts) }),
            #[serde(flatten)]
            icrc: icrc.map(|IcrcCounts { good, bad, unknown }| {
                json_object! { icrc: json_object! { good: good, bad: bad, unknown: unknown } }
            }),
            #[serde(flatten)]
            dropped: dropped.map(|dropped| json_object! { dropped: dropped }),
            #[serde(flatten)]
            capture: counters.map(|counters| json_object! { capture: counters }),
        };
        write_json_line(to, &object)
    }

    /// Writes the summary as text, in lines of at most `width` columns if possible.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn text(&self, to: &mut impl Write, width: usize) -> io::Result<()> {
        text::write(self, to, width)
    }
}

/// Returns the number of findings by rule. A rule may have findings of several severities.
fn counts_by_rule(counts: &FindingCounts) -> BTreeMap<&'static str, u64> {
    let mut by_rule = BTreeMap::new();
    counts.iter().for_each(|(_, rule, count)| *by_rule.entry(rule).or_default() += count);
    by_rule
}

fn chunks_object(ChunkTally { chunks, segments, offered, returned, moved }: ChunkTally) -> impl Serialize {
    json_object! { chunks: chunks, segments: segments, offered: offered, returned: returned, moved: moved }
}
