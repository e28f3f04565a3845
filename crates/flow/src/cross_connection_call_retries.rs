//! Calls repeated on another connection after the first connection was lost with its answer.

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::{FxHashMap, FxHasher};

use super::transaction_slab_key::TransactionSlabKey;

/// Hosts of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CallHostPair {
    pub(super) tenant: VirtualNetwork,
    pub(super) caller: Address,
    pub(super) callee: Address,
}

/// Hash of the RPC message of a Call: a repeated Call has the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallRetryHash(u64);

impl CallRetryHash {
    pub(super) fn new(call: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        call.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// State of the Call before that has the same XID on the same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierCallEmissionState {
    /// Its Transaction has not been emitted yet.
    Pending(TransactionSlabKey),
    /// Its Transaction was emitted with this index.
    Emitted {
        index: u64,
        /// Hash of the Call, which is gone.
        hash: CallRetryHash,
    },
}

/// Calls that may be repeated.
#[derive(Debug)]
pub(super) struct CallRetryDetectionTable {
    calls: FxHashMap<(CallHostPair, Xid), EarlierCallEmissionState>,
    emitted_count: usize,
    max_emitted: usize,
}

impl CallRetryDetectionTable {
    /// Creates a table of at most `max_emitted` Calls that were emitted unanswered.
    pub(super) fn new(max_emitted: usize) -> Self {
        Self { calls: FxHashMap::default(), emitted_count: 0, max_emitted }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.calls.len()
    }

    /// Records a Call. Returns the Call before on the route with the XID, which it repeats if both have the same bytes.
    pub(super) fn record_call(
        &mut self,
        route: CallHostPair,
        xid: Xid,
        key: TransactionSlabKey,
    ) -> Option<EarlierCallEmissionState> {
        let before = self.calls.insert((route, xid), EarlierCallEmissionState::Pending(key))?;
        if matches!(before, EarlierCallEmissionState::Emitted { .. }) {
            self.emitted_count -= 1;
        }
        (before != EarlierCallEmissionState::Pending(key)).then_some(before)
    }

    /// Records that a Transaction was emitted with this index. If it is `unanswered`, its Call, with these bytes, may
    /// still be repeated.
    pub(super) fn record_emission(
        &mut self,
        route: CallHostPair,
        xid: Xid,
        key: TransactionSlabKey,
        unanswered: Option<&[u8]>,
        index: u64,
    ) {
        let Entry::Occupied(mut sent) = self.calls.entry((route, xid)) else { return };
        if *sent.get() != EarlierCallEmissionState::Pending(key) {
            return;
        }
        let Some(call) = unanswered else {
            sent.remove();
            return;
        };
        sent.insert(EarlierCallEmissionState::Emitted { index, hash: CallRetryHash::new(call) });
        self.emitted_count += 1;
        if self.emitted_count > self.max_emitted {
            self.calls.retain(|_, sent| matches!(sent, EarlierCallEmissionState::Pending(_)));
            self.emitted_count = 0;
        }
    }
}
