//! Calls that are sent again on another connection, because the one before was lost with its answer.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::address::{Address, Tenant};
use crate::rpc::Xid;

use super::transaction_table::TransactionKey;

/// The virtual network and the addresses of who calls and who is called.
type CallRoute = (Tenant, Address, Address);

/// What is known of the Call that was sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviousCall {
    /// It has not been given out yet.
    Here(TransactionKey),
    /// It was given out with this index.
    Gone(u64),
}

#[derive(Debug)]
struct SentCall {
    before: PreviousCall,
    /// Of the RPC message: a Call that is sent again has the same bytes.
    hash: u64,
}

/// The Calls that may be sent again.
#[derive(Debug)]
pub(super) struct Retries {
    sent: FxHashMap<(CallRoute, Xid), SentCall>,
    gone: usize,
    bound: usize,
}

impl Retries {
    /// Remembers `bound` Calls at most that were given out without an answer.
    pub(super) fn new(bound: usize) -> Self {
        Self { sent: FxHashMap::default(), gone: 0, bound }
    }

    /// How many Calls are remembered.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.sent.len()
    }

    /// Notes a Call, and gives the one that it repeats, if any.
    pub(super) fn note(
        &mut self,
        route: CallRoute,
        xid: Xid,
        call: &[u8],
        key: TransactionKey,
    ) -> Option<PreviousCall> {
        let mut hasher = FxHasher::default();
        call.hash(&mut hasher);
        let sent = SentCall { before: PreviousCall::Here(key), hash: hasher.finish() };
        let hash = sent.hash;
        let before = self.sent.insert((route, xid), sent)?;
        if matches!(before.before, PreviousCall::Gone(_)) {
            self.gone -= 1;
        }
        (before.hash == hash && before.before != PreviousCall::Here(key)).then_some(before.before)
    }

    /// A Transaction was given out; without an answer its Call may still be sent again.
    pub(super) fn released(
        &mut self,
        route: CallRoute,
        xid: Xid,
        key: TransactionKey,
        is_unanswered: bool,
        index: u64,
    ) {
        let Some(sent) = self.sent.get_mut(&(route, xid)) else { return };
        if sent.before != PreviousCall::Here(key) {
            return;
        }
        if is_unanswered {
            sent.before = PreviousCall::Gone(index);
            self.gone += 1;
            if self.gone > self.bound {
                self.sent.retain(|_, sent| matches!(sent.before, PreviousCall::Here(_)));
                self.gone = 0;
            }
        } else {
            self.sent.remove(&(route, xid));
        }
    }
}
