//! Conformance findings of Transactions, from the pass that reads all frames to the reader of single Transactions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfsrdma_conformance::Finding;

/// Maximum number of Transactions whose findings are stored; those of the earliest are dropped first.
const MAX_TRANSACTIONS: usize = 16 << 10;

/// Findings by Transaction number. A Transaction that is read again alone cannot be judged again: the rules depend on
/// all earlier frames.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionFindingStore(Arc<Mutex<BTreeMap<u64, Vec<Finding>>>>);

impl TransactionFindingStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Finding>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the findings of a Transaction.
    pub(super) fn record(&self, transaction: u64, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        let mut store = self.lock();
        store.insert(transaction, findings.to_vec());
        while store.len() > MAX_TRANSACTIONS {
            store.pop_first();
        }
    }

    /// Returns the findings of a Transaction.
    pub(super) fn of(&self, transaction: u64) -> Vec<Finding> {
        self.lock().get(&transaction).cloned().unwrap_or_default()
    }
}
