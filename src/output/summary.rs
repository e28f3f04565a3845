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
use serde::ser::Serializer;

pub(super) use text::wrap_words;

use super::connections::ConnectionJson;
use super::json::{DisplayAsJsonString, SCHEMA};
use super::operation_statistics::OperationStatsJson;
use super::settings::OutputLineUnit;
use super::style::Glyphs;
use super::units::IsoTimestamp;
use crate::escape;
use nfsrdma_analysis::conformance::run::FindingCounts;
use nfsrdma_analysis::connections::ConnectionTallies;
use nfsrdma_analysis::statistics::{
    ChunkTallies, ChunkTally, FrameAndTransactionStatistics, IncompleteTransactionTally, RetransmissionTally,
};

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
        let mut line = escape::json(&self.object())?;
        line.push(b'\n');
        to.write_all(&line)
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
        self.flow.stats().undecoded_counts().map(|(why, count)| (why.key(), count))
    }

    /// Returns the state dropped at a memory limit, by kind.
    fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let own = [("names", self.names), ("operation_names", self.statistics.unnamed_transactions())];
        let own = own.into_iter().filter(|(_, count)| *count > 0);
        self.flow.evicted_counts().map(|(what, count)| (what.key(), count)).chain(own)
    }

    fn object(&self) -> SummaryJson<'_> {
        let Self { statistics, icrc, dropped, counters, .. } = *self;
        let iso = statistics.times().filter(|_| self.has_iso);
        SummaryJson {
            schema: SCHEMA,
            kind: "summary",
            frames: statistics.frames(),
            bytes: statistics.bytes(),
            transactions: statistics.transactions(),
            incomplete: statistics.incomplete(),
            connections: ConnectionsJson {
                count: statistics.connections().count(),
                listed: ConnectionJsonArray(statistics.connections()),
            },
            operations: OperationStatsJsonArray(statistics),
            chunks: statistics.chunks().into(),
            undecoded: NamedCountsJson(self.undecoded().collect()),
            given_up: NamedCountsJson(self.evicted().collect()),
            time: statistics.times().map(|(first, _)| DisplayAsJsonString(first)),
            time_iso: iso.map(|(first, _)| DisplayAsJsonString(IsoTimestamp(first))),
            end_time: statistics.times().map(|(_, last)| DisplayAsJsonString(last)),
            end_time_iso: iso.map(|(_, last)| DisplayAsJsonString(IsoTimestamp(last))),
            missing: statistics.missing().into(),
            repeated_messages: statistics.recovery().copies,
            recovery: statistics.recovery().into(),
            captured_twice: self.flow.stats().duplicate_frames(),
            findings: self.findings.map(FindingCountsByRuleJson::from),
            icrc: icrc.map(IcrcCountsJson::from),
            dropped,
            capture: counters,
        }
    }
}

/// Number of findings by rule.
#[derive(Serialize)]
#[serde(transparent)]
struct FindingCountsByRuleJson(BTreeMap<&'static str, u64>);

impl From<&FindingCounts> for FindingCountsByRuleJson {
    fn from(counts: &FindingCounts) -> Self {
        let mut by_rule = BTreeMap::new();
        // A rule may have findings of several severities.
        counts.iter().for_each(|(_, rule, count)| *by_rule.entry(rule).or_default() += count);
        Self(by_rule)
    }
}

/// Counts by name.
struct NamedCountsJson(Vec<(&'static str, u64)>);

impl Serialize for NamedCountsJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

#[derive(Serialize)]
struct SummaryJson<'a> {
    schema: u32,
    kind: &'static str,
    frames: u64,
    bytes: u64,
    transactions: u64,
    incomplete: u64,
    connections: ConnectionsJson<'a>,
    operations: OperationStatsJsonArray<'a>,
    chunks: ChunkTotalsByKindJson,
    undecoded: NamedCountsJson,
    given_up: NamedCountsJson,
    time: Option<DisplayAsJsonString<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    end_time: Option<DisplayAsJsonString<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time_iso: Option<DisplayAsJsonString<IsoTimestamp>>,
    missing: IncompleteTransactionTallyJson,
    repeated_messages: u64,
    recovery: RetransmissionTallyJson,
    captured_twice: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<FindingCountsByRuleJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icrc: Option<IcrcCountsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<CapturePacketCounters>,
}

#[derive(Serialize)]
struct RetransmissionTallyJson {
    transactions: u64,
    ns: u64,
    resent: u64,
    suspected: u64,
    lost_copies: u64,
    possible_lost_copies: u64,
}

impl From<RetransmissionTally> for RetransmissionTallyJson {
    fn from(tally: RetransmissionTally) -> Self {
        let RetransmissionTally {
            transactions,
            wait_ns: ns,
            rpc_copies: resent,
            suspected_transactions: suspected,
            lost_copies,
            possible_lost_copies,
            ..
        } = tally;
        Self { transactions, ns, resent, suspected, lost_copies, possible_lost_copies }
    }
}

#[derive(Serialize)]
struct ConnectionsJson<'a> {
    count: u64,
    listed: ConnectionJsonArray<'a>,
}

struct ConnectionJsonArray<'a>(&'a ConnectionTallies);

impl Serialize for ConnectionJsonArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.largest().map(ConnectionJson::from))
    }
}

struct OperationStatsJsonArray<'a>(&'a FrameAndTransactionStatistics);

impl Serialize for OperationStatsJsonArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.operations().map(|(key, tally)| OperationStatsJson::from_tally(key, tally)))
    }
}

#[derive(Serialize)]
struct ChunkTotalsByKindJson {
    read: ChunkTotalsJson,
    write: ChunkTotalsJson,
    reply: ChunkTotalsJson,
    reply_read: ChunkTotalsJson,
}

impl From<ChunkTallies> for ChunkTotalsByKindJson {
    fn from(chunks: ChunkTallies) -> Self {
        Self {
            read: chunks.read.into(),
            write: chunks.write.into(),
            reply: chunks.reply.into(),
            reply_read: chunks.reply_read.into(),
        }
    }
}

#[derive(Serialize)]
struct ChunkTotalsJson {
    chunks: u64,
    segments: u64,
    offered: u64,
    returned: u64,
    moved: u64,
}

impl From<ChunkTally> for ChunkTotalsJson {
    fn from(tally: ChunkTally) -> Self {
        let ChunkTally { chunks, segments, offered, returned, moved } = tally;
        Self { chunks, segments, offered, returned, moved }
    }
}

#[derive(Serialize)]
struct IncompleteTransactionTallyJson {
    call: u64,
    reply: u64,
    message_bytes: u64,
    chunk_bytes: u64,
    undecoded: u64,
}

impl From<IncompleteTransactionTally> for IncompleteTransactionTallyJson {
    fn from(tally: IncompleteTransactionTally) -> Self {
        let IncompleteTransactionTally { call, reply, message_bytes, chunk_bytes, undecoded } = tally;
        Self { call, reply, message_bytes, chunk_bytes, undecoded }
    }
}

#[derive(Serialize)]
struct IcrcCountsJson {
    good: u64,
    bad: u64,
    unknown: u64,
}

impl From<IcrcCounts> for IcrcCountsJson {
    fn from(counts: IcrcCounts) -> Self {
        let IcrcCounts { good, bad, unknown } = counts;
        Self { good, bad, unknown }
    }
}

/// Returns the name of an operation in the text.
fn operation_name(operation: Option<ProcedureOrMainOperation>) -> String {
    match operation {
        Some(ProcedureOrMainOperation::Named(name)) => name.to_owned(),
        Some(ProcedureOrMainOperation::Number(number)) => format!("operation {number}"),
        None => "not decoded".to_owned(),
    }
}
