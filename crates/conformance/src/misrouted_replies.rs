//! Replies whose Call was not sent on their connection. RFC 8881 section 2.9.2.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::CallDirection;
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;
use crate::connection_history::{ConformanceConnectionHistory, HostPair, hosts_of};

/// Maximum number of Replies. Beyond it, all are forgotten.
const MAX_REPLIES: usize = 4096;

/// Hosts, direction and XID of a Call.
type CallIdentity = (HostPair, CallDirection, Xid);

fn identity(transaction: &Transaction) -> CallIdentity {
    (hosts_of(&transaction.connection), transaction.direction, transaction.xid)
}

/// A Reply without a Call on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrphanReply {
    /// Number of its connection.
    pub(crate) connection: u64,
    /// First frame.
    pub(crate) frame: FrameNumber,
    /// Time of the first frame.
    pub(crate) time: Timestamp,
    /// Losses on its connection; the missing Call counts as one.
    losses: u64,
}

/// Replies whose Calls may be on other connections.
#[derive(Debug, Default)]
pub(crate) struct MisroutedReplies(FxHashMap<CallIdentity, OrphanReply>);

impl MisroutedReplies {
    /// Records a Transaction that has only a Reply, unless its Call may be missing from the capture. `history` is that
    /// of its connection before it.
    pub(crate) fn record(&mut self, transaction: &Transaction, history: &ConformanceConnectionHistory) {
        let losses = transaction.credit_use.losses;
        let (None, Some(reply), Some(_)) = (&transaction.call, &transaction.reply, &transaction.set_up) else {
            return;
        };
        let Some(frame) = reply.frames.first().copied() else { return };
        if losses != history.losses + 1 {
            return;
        }
        empty_if_full(&mut self.0, MAX_REPLIES);
        let connection = transaction.connection.number;
        let orphan = OrphanReply { connection, frame, time: reply.time, losses };
        self.0.insert(identity(transaction), orphan);
    }

    /// Returns the Reply to an unanswered Call on another connection. `history` returns that of the Reply's connection.
    pub(crate) fn reply_to<'h>(
        &self,
        transaction: &Transaction,
        history: impl FnOnce(u64) -> Option<&'h ConformanceConnectionHistory>,
    ) -> Option<OrphanReply> {
        let (Some(call), None) = (&transaction.call, &transaction.reply) else { return None };
        let orphan = self.0.get(&identity(transaction)).copied()?;
        let history = history(orphan.connection)?;
        // A lost Call is known when a later one is captured.
        let is_certain =
            history.losses == orphan.losses && history.last_call_time.is_some_and(|time| time > orphan.time);
        (is_certain && orphan.connection != transaction.connection.number && orphan.time > call.time).then_some(orphan)
    }
}
