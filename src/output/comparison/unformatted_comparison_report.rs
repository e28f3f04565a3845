//! Report on the comparison of two captures, without its format.

use nfsrdma_analysis::comparison::CaptureComparator;
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::Difference;

use crate::output::style::TerminalProfile;

/// Report on the comparison of two captures.
pub struct ComparisonReportWriter<'a> {
    /// First capture.
    pub a: &'a ComparedCaptureSummary,
    /// Second capture.
    pub b: &'a ComparedCaptureSummary,
    /// Result of the comparison.
    pub comparison: &'a CaptureComparator,
    /// First differences, up to the number shown.
    pub first: &'a [Difference],
    /// Memory limit with which no identities would have been forgotten, if some were.
    pub needed_memory: Option<String>,
    /// Output device.
    pub screen: TerminalProfile,
}
