//! The subject of tree and hex pane, and the key by which the reload thread finds a Transaction again.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::transaction::{CallDirection, Transaction};

use crate::output::transaction_list::wire_bytes;
use crate::tui::model::transaction_list_row::{self, TransactionListRow};

/// Key of a Transaction to read again, taken from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionReloadKey {
    /// Transaction number.
    pub index: u64,
    /// Connection number.
    pub connection: u64,
    /// Transaction ID.
    pub xid: Xid,
    /// First frame.
    pub first: FrameNumber,
    /// Last frame.
    pub last: FrameNumber,
    /// Time from Call to Reply, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// Number of bytes in its messages and chunks.
    pub bytes: u64,
    /// `true` if the server sent the Call.
    pub is_reverse: bool,
}

impl TransactionReloadKey {
    /// Returns `true` for a call that had no reply yet.
    pub(in crate::tui) fn is_pending(&self) -> bool {
        transaction_list_row::is_pending_index(self.index)
    }

    /// Returns `true` if `transaction` is this one. Its numbers are not compared, because they may differ. A pending
    /// call may have got more of its parts.
    pub(in crate::tui) fn matches(&self, transaction: &Transaction) -> bool {
        if self.is_pending() {
            return transaction.xid == self.xid && transaction_list_row::frames(transaction).0 == self.first;
        }
        transaction.xid == self.xid
            && transaction_list_row::frames(transaction) == (self.first, self.last)
            && transaction.latency_ns() == self.latency_ns
            && wire_bytes(transaction) == self.bytes
            && (transaction.direction == CallDirection::Reverse) == self.is_reverse
    }
}

impl From<&TransactionListRow> for TransactionReloadKey {
    fn from(row: &TransactionListRow) -> Self {
        let TransactionListRow { index, connection, xid, first, last, latency_ns: latency, bytes, is_reverse, .. } =
            *row;
        // The age of a pending call grows.
        let latency = latency.filter(|_| !row.is_pending());
        Self { index, connection, xid, first, last, latency_ns: latency, bytes, is_reverse }
    }
}

/// The subject of tree and hex pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailSubject {
    /// A Transaction.
    Transaction(TransactionReloadKey),
    /// A frame with the messages that it completes.
    Frame(FrameNumber),
}
