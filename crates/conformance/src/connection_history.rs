//! Facts about a connection from its earlier messages.

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::rules::REFUSED;

/// Maximum number of connections with a history. Beyond it, all histories are forgotten, and rules that need them start
/// anew.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Facts about one connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionHistory {
    /// Version of RPC-over-RDMA in the first message.
    pub version: Option<u32>,
    /// Grant in the last Reply to the client's Calls, and to the server's.
    pub last_grants: [Option<u32>; 2],
    /// Credits that the last Call of the client requested, and of the server.
    pub last_requests: [Option<u32>; 2],
    /// `true` if a message had a form of RFC 5666 that RFC 8166 removed.
    pub is_rfc5666: bool,
    /// `true` if a session uses the connection for callbacks.
    pub has_backchannel: bool,
    /// First frame of the first Transaction.
    pub first_frame: Option<FrameNumber>,
    /// Losses until the last Transaction; see `CreditUse::losses`.
    pub losses: u64,
    /// Time of the last Call.
    pub last_call_time: Option<Timestamp>,
    /// Last Calls that were answered ERR_CHUNK.
    pub refused_xids: Vec<(CallDirection, Xid)>,
}

/// Maximum number of XIDs in [`ConnectionHistory::refused_xids`].
const MAX_REFUSED: usize = 16;

impl ConnectionHistory {
    /// Returns the grant in the last Reply to Calls in this direction.
    pub fn last_grant(&self, direction: CallDirection) -> Option<u32> {
        self.last_grants[usize::from(direction == CallDirection::Reverse)]
    }

    /// Returns the credits that the last Call in this direction requested.
    pub fn last_request(&self, direction: CallDirection) -> Option<u32> {
        self.last_requests[usize::from(direction == CallDirection::Reverse)]
    }

    /// Records the XID of a Call that was answered ERR_CHUNK.
    pub(crate) fn record_refusal(&mut self, transaction: &Transaction) {
        let error = transaction.reply.as_ref().filter(|reply| reply.is_rdma_error());
        if error.and_then(|reply| reply.header()?.error()) == Some(REFUSED) {
            self.refused_xids.truncate(MAX_REFUSED - 1);
            self.refused_xids.insert(0, (transaction.direction, transaction.xid));
        }
    }
}

/// Histories of all connections by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ConnectionHistories(FxHashMap<u64, ConnectionHistory>);

impl ConnectionHistories {
    /// Returns the history of a connection, if it has one.
    pub(crate) fn get(&self, number: u64) -> Option<&ConnectionHistory> {
        self.0.get(&number)
    }

    /// Returns the history of a connection.
    pub(crate) fn of(&mut self, number: u64) -> &mut ConnectionHistory {
        if self.0.len() >= MAX_CONNECTIONS && !self.0.contains_key(&number) {
            self.0.clear();
        }
        self.0.entry(number).or_default()
    }
}
