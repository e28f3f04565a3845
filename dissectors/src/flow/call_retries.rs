//! Calls repeated on another connection after the first connection was lost with its answer.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::address::{Address, Tenant};
use crate::rpc::Xid;

use super::transaction_table::TransactionKey;

/// Virtual network, address of the caller and address of the callee.
type CallRoute = (Tenant, Address, Address);

/// State of the earlier copy of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierCallCopy {
    /// Its Transaction has not been emitted yet.
    Pending(TransactionKey),
    /// Its Transaction was emitted with this index.
    Emitted(u64),
}

#[derive(Debug)]
struct SentCall {
    previous: EarlierCallCopy,
    /// Hash of the RPC message: a repeated Call has the same bytes.
    hash: u64,
}

/// Calls that may be repeated.
#[derive(Debug)]
pub(super) struct CallRetries {
    calls: FxHashMap<(CallRoute, Xid), SentCall>,
    emitted_count: usize,
    max_emitted: usize,
}

impl CallRetries {
    /// Creates a table of at most `bound` Calls that were emitted unanswered.
    pub(super) fn new(bound: usize) -> Self {
        Self { calls: FxHashMap::default(), emitted_count: 0, max_emitted: bound }
    }

    /// Returns the number of Calls in the table.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.calls.len()
    }

    /// Records a Call. Returns the Call that it repeats, if any.
    pub(super) fn record_call(
        &mut self,
        route: CallRoute,
        xid: Xid,
        call: &[u8],
        key: TransactionKey,
    ) -> Option<EarlierCallCopy> {
        let mut hasher = FxHasher::default();
        call.hash(&mut hasher);
        let sent = SentCall { previous: EarlierCallCopy::Pending(key), hash: hasher.finish() };
        let hash = sent.hash;
        let before = self.calls.insert((route, xid), sent)?;
        if matches!(before.previous, EarlierCallCopy::Emitted(_)) {
            self.emitted_count -= 1;
        }
        (before.hash == hash && before.previous != EarlierCallCopy::Pending(key)).then_some(before.previous)
    }

    /// Records that a Transaction was emitted. If it is unanswered, its Call may still be repeated.
    pub(super) fn record_emission(
        &mut self,
        route: CallRoute,
        xid: Xid,
        key: TransactionKey,
        is_unanswered: bool,
        index: u64,
    ) {
        let Some(sent) = self.calls.get_mut(&(route, xid)) else { return };
        if sent.previous != EarlierCallCopy::Pending(key) {
            return;
        }
        if is_unanswered {
            sent.previous = EarlierCallCopy::Emitted(index);
            self.emitted_count += 1;
            if self.emitted_count > self.max_emitted {
                self.calls.retain(|_, sent| matches!(sent.previous, EarlierCallCopy::Pending(_)));
                self.emitted_count = 0;
            }
        } else {
            self.calls.remove(&(route, xid));
        }
    }
}
