//! Content of a summary: statistics and counters of the whole input.

use nfsrdma_analysis::conformance::run::FindingCounts;
use nfsrdma_analysis::statistics::FrameAndTransactionStatistics;
use nfsrdma_capture_file::CapturePacketCounters;
use nfsrdma_flow::{Flow, IcrcCounts};

use crate::output::settings::OutputLineUnit;
use crate::output::style::Glyphs;

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
    /// Lines after which reading stopped before the end of the input (option -c).
    pub stopped_after: Option<u64>,
    /// `true` if JSON has each time also in ISO 8601 under its own key.
    pub has_iso: bool,
    /// Characters of the text.
    pub glyphs: Glyphs,
    /// Numbers of conformance findings, if the rules were applied: those of the selected Transactions behind a filter.
    pub findings: Option<&'a FindingCounts>,
}

impl CaptureSummary<'_> {
    /// Returns the frames that were not decoded, by reason.
    pub(super) fn undecoded(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.flow.stats().undecoded_counts().map(|(reason, count)| (reason.key(), count))
    }

    /// Returns the state dropped at a memory limit, by kind.
    pub(super) fn evicted(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let name_counts = [("names", self.names), ("operation_names", self.statistics.unnamed_transactions())];
        let name_counts = name_counts.into_iter().filter(|(_, count)| *count > 0);
        self.flow.evicted_counts().map(|(kind, count)| (kind.key(), count)).chain(name_counts)
    }
}
