//! Summary after the lines: statistics of the whole input. The schema of its JSON is `docs/summary.schema.json`.

mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use nfsrdma_capture_file::CapturePacketCounters;
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::flow::transaction_message_decoding::ProcedureOrMainOperation;
use nfsrdma_dissectors::flow::{Flow, IcrcCounts};
use serde::Serialize;

use super::json::object::{DisplayAsJsonString, JsonArray, JsonMap, SCHEMA, json_object, write_json_line};
use super::settings::OutputLineUnit;
use super::style::Glyphs;
use super::units::IsoTimestamp;
use super::{connections, operation_statistics};
use nfsrdma_analysis::conformance::run::FindingCounts;
use nfsrdma_analysis::statistics::{ChunkTally, FrameAndTransactionStatistics};

/// Content of a summary.
pub struct CaptureSummary<'a> {
    /// Statistics of frames and Transactions.
    pub statistics: &'a FrameAndTransactionStatistics,
    /// Flow, which has the counters of frames that belong to no Transaction.
    pub flow: &'a Flow,
    /// Results of ICRC checks, if enabled.
    pub icrc: Option<IcrcCounts>,
    /// Packets that the capturing program reports as lost, if it reports any number.
    pub dropped: Option<u64>,
    /// Counters of a live source.
    pub counters: Option<CapturePacketCounters>,
    /// Number of evicted file names.
    pub names: u64,
    /// View whose lines precede the summary, if any: the summary does not repeat them.
    pub shown: Option<OutputLineUnit>,
    /// View whose lines a display filter selects, if there is one.
    pub filtered: Option<OutputLineUnit>,
    /// `true` if JSON has each time also in ISO 8601 under a key of its own.
    pub has_iso: bool,
    /// Characters of the text.
    pub glyphs: Glyphs,
    /// Numbers of conformance findings, if the rules were applied: those of the selected Transactions behind a filter.
    pub findings: Option<&'a FindingCounts>,
}

impl CaptureSummary<'_> {
    /// Writes the summary as one line of JSON.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let Self { statistics, icrc, dropped, counters, .. } = *self;
        let (time, end_time) = statistics.times().unzip();
        let iso = |time: Option<Timestamp>| {
            time.filter(|_| self.has_iso).map(IsoTimestamp).map(DisplayAsJsonString)
        };
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
            },
            repeated_messages: recovery.copies,
            recovery: json_object! {
                transactions: recovery.transactions,
                ns: recovery.wait_ns,
                resent: recovery.rpc_copies,
                suspected: recovery.suspected_transactions,
                lost_copies: recovery.lost_copies,
                possible_lost_copies: recovery.possible_lost_copies,
            },
            captured_twice: self.flow.stats().duplicate_frames(),
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

    /// Returns the frames that were not decoded, by reason.
    fn undecoded(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.flow.stats().undecoded_counts().map(|(reason, count)| (reason.key(), count))
    }

    /// Returns the state dropped at a memory limit, by kind.
    fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let name_counts =
            [("names", self.names), ("operation_names", self.statistics.unnamed_transactions())];
        let name_counts = name_counts.into_iter().filter(|(_, count)| *count > 0);
        self.flow.evicted_counts().map(|(kind, count)| (kind.key(), count)).chain(name_counts)
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

/// Returns the name of an operation in the text.
fn operation_name(operation: Option<ProcedureOrMainOperation>) -> String {
    match operation {
        Some(ProcedureOrMainOperation::Named(name)) => name.to_owned(),
        Some(ProcedureOrMainOperation::Number(number)) => format!("operation {number}"),
        None => "not decoded".to_owned(),
    }
}
