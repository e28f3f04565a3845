//! Facts about a connection from its earlier messages.

use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{ChannelDirFromServer4, CreateSessionFlags, Operation, Results};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{RpcRdma1ErrCode, RpcRdmaErrorCode};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, RpcMessageKind, TransactionConnection};
use nfsrdma_flow::transaction_message_decoding::RpcSummary;
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;
use crate::compound_operations_view::{CompoundOperationIterator, OperationSet};

/// Maximum number of connections with a history. Beyond it, all histories are forgotten, and rules that need them start
/// anew.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Error that a Requester answers with a larger Reply chunk.
pub(crate) const REFUSED: RpcRdmaErrorCode = RpcRdmaErrorCode::Version1(RpcRdma1ErrCode::ERR_CHUNK);

#[derive(Clone, Debug, Default)]
pub(crate) struct ConformanceConnectionHistory {
    /// Version of RPC-over-RDMA in the first message.
    pub(crate) version: Option<u32>,
    /// Grant in the last Reply to the client's Calls, and to the server's.
    pub(crate) last_grants: [Option<u32>; 2],
    /// Credits that the last Call of the client requested, and of the server.
    pub(crate) last_requests: [Option<u32>; 2],
    /// `true` if a message had a form of RFC 5666 that RFC 8166 removed.
    pub(crate) is_rfc5666: bool,
    pub(crate) backchannel: ConnectionBackchannelBinding,
    pub(crate) has_nfs4: bool,
    /// Nanoseconds during which all granted credits were in use.
    pub(crate) at_limit_ns: u64,
    /// Credits that were all in use at the last of these times; 0 if there was none.
    pub(crate) exhausted_credits: u32,
    /// Inline thresholds in bytes, client to server and server to client, of the connection before between the same
    /// hosts.
    pub(crate) previous_thresholds: Option<(u32, u32)>,
    pub(crate) first_frame: Option<FrameNumber>,
    /// Losses until the last Transaction; see `CallCreditUse::losses`.
    pub(crate) losses: u64,
    pub(crate) last_call_time: Option<Timestamp>,
    /// Last Calls that were answered ERR_CHUNK.
    pub(crate) refused_xids: Vec<(CallDirection, Xid)>,
    pub(crate) first_time: Option<Timestamp>,
    /// Number of Calls without a Reply when the connection ended.
    pub(crate) unanswered_calls: u64,
}

const BINDING_OPERATIONS: OperationSet =
    OperationSet::of(&[Operation::CREATE_SESSION, Operation::BIND_CONN_TO_SESSION]);

/// Use of a connection for callbacks by sessions. RFC 8881 section 2.10.3.1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionBackchannelBinding {
    /// `true` if a session has bound the connection to its backchannel.
    pub(crate) is_bound: bool,
    /// ca_maxrequestsize in bytes of the backchannel of the last session that was created on the connection and bound
    /// it.
    pub(crate) max_request_bytes: Option<u32>,
    /// `true` if a Call of the client could not be decoded: it may have bound the connection.
    pub(crate) is_uncertain: bool,
}

impl ConnectionBackchannelBinding {
    /// Updates the state after a Transaction.
    pub(crate) fn update(
        &mut self,
        transaction: &Transaction,
        summary: &RpcSummary,
        operations: &CompoundOperationIterator<'_>,
    ) {
        if transaction.direction == CallDirection::Reverse {
            return;
        }
        let is_compound = summary.program.is_none() || summary.described_procedure() == Some(Procedure::Compound);
        let is_read = operations.has_all_arguments && (operations.has_all_results || self.is_bound);
        self.is_uncertain |= is_compound && !is_read;
        if !operations.has_any(BINDING_OPERATIONS) {
            return;
        }
        for (_, result) in operations.pairs() {
            match result {
                Some(Results::CREATE_SESSION(created)) => {
                    const BINDS: CreateSessionFlags = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
                    let bound = created.ok().filter(|created| created.csr_flags.contains(BINDS));
                    if let Some(created) = bound {
                        self.is_bound = true;
                        self.max_request_bytes = Some(created.csr_back_chan_attrs.ca_maxrequestsize);
                    }
                }
                Some(Results::BIND_CONN_TO_SESSION(bound)) => {
                    let direction = bound.ok().map(|bound| bound.bctsr_dir);
                    self.is_bound |= direction.is_some_and(|to| to != ChannelDirFromServer4::CDFS4_FORE);
                }
                _ => {}
            }
        }
    }
}

/// Maximum number of XIDs in [`ConformanceConnectionHistory::refused_xids`].
const MAX_REFUSED: usize = 16;

impl ConformanceConnectionHistory {
    pub(crate) fn last_grant(&self, direction: CallDirection) -> Option<u32> {
        self.last_grants[usize::from(direction == CallDirection::Reverse)]
    }

    pub(crate) fn last_request(&self, direction: CallDirection) -> Option<u32> {
        self.last_requests[usize::from(direction == CallDirection::Reverse)]
    }

    /// Records what the record of a Transaction alone shows.
    pub(crate) fn record(&mut self, transaction: &Transaction) {
        let header_words = |kind| transaction.message(kind).and_then(|record| record.rpcrdma);
        let (call, reply) = (header_words(RpcMessageKind::Call), header_words(RpcMessageKind::Reply));
        // A Requester may try another version after ERR_VERS: a version is that of a connection once a Reply has it.
        let is_refused = transaction.reply.as_ref().is_some_and(CapturedMessage::is_rdma_error);
        let is_agreed = call.map(|words| words.version) == reply.map(|words| words.version);
        if let Some(words) = call.filter(|words| is_agreed && !is_refused && matches!(words.version, 1 | 2)) {
            self.version.get_or_insert(words.version);
        }
        let has_credits = transaction.credit_use.is_direction_known;
        let (call, reply) = (call.filter(|_| has_credits), reply.filter(|_| has_credits));
        let direction = usize::from(transaction.direction == CallDirection::Reverse);
        if let Some(granted) = reply.and_then(|words| words.calls_in_flight_credits()) {
            self.last_grants[direction] = Some(granted);
        }
        if let Some(requested) = call.and_then(|words| words.calls_in_flight_credits()) {
            self.last_requests[direction] = Some(requested);
        }
        self.record_refusal(transaction);
        self.losses = self.losses.max(transaction.credit_use.losses);
        self.last_call_time = self.last_call_time.max(transaction.call.as_ref().map(|call| call.time));
        self.at_limit_ns += transaction.credit_use.at_limit_ns;
        if transaction.credit_use.at_limit_ns > 0 {
            self.exhausted_credits = transaction.credit_use.granted.unwrap_or(0);
        }
        let record = transaction.call.as_ref().or(transaction.reply.as_ref());
        let first = record.and_then(|record| record.frames.first().copied());
        self.first_frame = self.first_frame.or(first);
        self.first_time = self.first_time.or(record.map(|record| record.time));
        let is_unanswered = transaction.call.is_some() && transaction.reply.is_none();
        self.unanswered_calls += u64::from(is_unanswered && transaction.has_connection_ended);
    }

    /// Records the XID of a Call that was answered ERR_CHUNK.
    fn record_refusal(&mut self, transaction: &Transaction) {
        let error = transaction.reply.as_ref().filter(|reply| reply.is_rdma_error());
        if error.and_then(|reply| reply.header()?.error()) == Some(REFUSED) {
            self.refused_xids.truncate(MAX_REFUSED - 1);
            self.refused_xids.insert(0, (transaction.direction, transaction.xid));
        }
    }
}

/// Addresses of client and server, and their virtual network.
pub(crate) type HostPair = (Address, Address, VirtualNetwork);

pub(crate) fn hosts_of(connection: &TransactionConnection) -> HostPair {
    (connection.client.address, connection.server.address, connection.tenant)
}

#[derive(Debug, Default)]
pub(crate) struct ConformanceConnectionHistories {
    /// `None` while a history is taken.
    histories: FxHashMap<u64, Option<Box<ConformanceConnectionHistory>>>,
    /// Inline thresholds of the newest connection between two hosts.
    thresholds: FxHashMap<HostPair, (u32, u32)>,
}

impl ConformanceConnectionHistories {
    pub(crate) fn get(&self, number: u64) -> Option<&ConformanceConnectionHistory> {
        self.histories.get(&number)?.as_deref()
    }

    /// Removes and returns the history of the connection of a Transaction before it. Put it back, updated.
    pub(crate) fn take(&mut self, transaction: &Transaction) -> Box<ConformanceConnectionHistory> {
        let mut history =
            self.histories.get_mut(&transaction.connection.number).and_then(Option::take).unwrap_or_default();
        if history.first_frame.is_none()
            && let Some(thresholds) = transaction.set_up.as_ref().and_then(|set_up| set_up.inline_thresholds())
        {
            empty_if_full(&mut self.thresholds, MAX_CONNECTIONS);
            history.previous_thresholds = self.thresholds.insert(hosts_of(&transaction.connection), thresholds);
        }
        history
    }

    pub(crate) fn put(&mut self, number: u64, history: Box<ConformanceConnectionHistory>) {
        if let Some(entry) = self.histories.get_mut(&number) {
            *entry = Some(history);
            return;
        }
        empty_if_full(&mut self.histories, MAX_CONNECTIONS);
        self.histories.insert(number, Some(history));
    }
}
