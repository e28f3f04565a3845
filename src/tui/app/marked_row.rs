//! A marked row of any view.

use nfsrdma_analysis::statistics::OperationKey;

/// A marked row, identified independently of the order of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tui) enum MarkedRow {
    /// Transaction number.
    Transaction(u64),
    /// Frame number.
    Frame(u64),
    /// An operation.
    Operation(OperationKey),
    /// Connection number.
    Connection(u64),
    /// File path.
    File(Vec<u8>),
}
