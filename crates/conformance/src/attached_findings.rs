//! Copies of findings about connections, for the Transactions in which the violations occurred.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::exceptional_transport_events::CapturedTransportEvent;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::{Transaction, TransactionSlabKey};
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;
use crate::finding::Finding;

/// Maximum number of Transactions, and of frames, whose copies wait. An event may follow the Transaction of its frame,
/// or its frame may belong to none: nothing takes such a copy.
const MAX_WAITING: usize = 1 << 14;

/// Copies that wait for their Transactions to be emitted.
#[derive(Debug, Default)]
pub(crate) struct FindingsAwaitingTransaction {
    by_transaction: FxHashMap<TransactionSlabKey, Vec<Finding>>,
    /// Copies of events that name no Transaction.
    by_frame: FxHashMap<FrameNumber, Vec<Finding>>,
}

impl FindingsAwaitingTransaction {
    /// Adds a copy for the Transaction of an event, or else of its frame.
    pub(crate) fn add(&mut self, event: &CapturedTransportEvent, finding: Finding) {
        match event.transaction {
            Some(key) => {
                empty_if_full(&mut self.by_transaction, MAX_WAITING);
                self.by_transaction.entry(key).or_default().push(finding);
            }
            None => {
                empty_if_full(&mut self.by_frame, MAX_WAITING);
                self.by_frame.entry(event.frame).or_default().push(finding);
            }
        }
    }

    /// Moves the copies of a Transaction to `findings`. A copy for a frame that holds messages of several Transactions
    /// goes to the first of them.
    pub(crate) fn take(
        &mut self,
        key: Option<TransactionSlabKey>,
        transaction: &Transaction,
        findings: &mut Vec<Finding>,
    ) {
        if let Some(copies) = key.and_then(|key| self.by_transaction.remove(&key)) {
            findings.extend(copies);
        }
        if self.by_frame.is_empty() {
            return;
        }
        let records = [RpcMessageKind::Call, RpcMessageKind::Reply].map(|kind| transaction.message(kind));
        for frame in records.into_iter().flatten().flat_map(|record| &record.frames) {
            let Some(copies) = self.by_frame.get_mut(frame) else { continue };
            let is_own = |copy: &mut Finding| copy.connection.number == transaction.connection.number;
            findings.extend(copies.extract_if(.., is_own));
            if copies.is_empty() {
                self.by_frame.remove(frame);
            }
        }
    }
}
