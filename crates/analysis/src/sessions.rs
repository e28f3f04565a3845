//! Sessions of NFSv4.1 and later, the connections that are bound to their channels, and the limits of these channels
//! (RFC 8881 section 2.10).

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{
    Args, ChannelAttrs4, ChannelDirFromServer4, CompoundCall, CompoundReply, CreateSessionFlags, Operation, Results,
};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::{ProcedureOrMainOperation, RpcSummary, TransactionMessages};

use super::call_session_slots::{self, SessionId};

/// Maximum number of pairs of a session and a connection.
const MAX_BINDINGS: usize = 4_096;

/// A session, as the line of one of its connections shows it (RFC 8881 section 2.10.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSessionSummary {
    /// The session ID.
    pub id: SessionId,
    /// Numbers of the connections on which it was seen so far, in order.
    pub connections: Vec<u64>,
    /// Channels for which the session uses the connection.
    pub binding: SessionChannelBinding,
    /// Limits of the fore channel and of the backchannel, if CREATE_SESSION was captured.
    pub channels: Option<[SessionChannelLimits; 2]>,
    /// State of the backchannel, if a connection was bound to it.
    pub backchannel: Option<BackchannelState>,
}

/// Channels of a session that a connection is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionChannelBinding {
    /// `true` if the connection carries Calls of the client.
    pub is_fore: bool,
    /// `true` if the connection is bound to the backchannel, or carries callbacks.
    pub is_back: bool,
}

/// State of the backchannel of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackchannelState {
    /// A connection that has not ended is bound to it.
    Bound,
    /// All connections bound to it have ended, and the session was not destroyed: the server cannot recall delegations.
    Lost,
    /// The session was destroyed.
    Destroyed,
}

impl BackchannelState {
    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Lost => "lost",
            Self::Destroyed => "destroyed",
        }
    }
}

/// Limits of a channel, as the server returned them in channel_attrs4 (RFC 8881 section 18.36.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionChannelLimits {
    /// `ca_headerpadsize`: padding in bytes that aligns the data of inline WRITEs.
    pub header_padding_bytes: u32,
    /// `ca_maxrequestsize`, in bytes.
    pub max_request_bytes: u32,
    /// `ca_maxresponsesize`, in bytes.
    pub max_response_bytes: u32,
    /// `ca_maxresponsesize_cached`, in bytes.
    pub max_cached_response_bytes: u32,
    /// `ca_maxoperations`: number of operations in a COMPOUND.
    pub max_operations: u32,
    /// `ca_maxrequests`: number of Calls in flight.
    pub max_requests: u32,
    /// `ca_rdma_ird`: number of RDMA Reads at a time, if the channel has it.
    pub rdma_reads: Option<u32>,
}

impl From<&ChannelAttrs4<'_>> for SessionChannelLimits {
    fn from(attributes: &ChannelAttrs4<'_>) -> Self {
        Self {
            header_padding_bytes: attributes.ca_headerpadsize,
            max_request_bytes: attributes.ca_maxrequestsize,
            max_response_bytes: attributes.ca_maxresponsesize,
            max_cached_response_bytes: attributes.ca_maxresponsesize_cached,
            max_operations: attributes.ca_maxoperations,
            max_requests: attributes.ca_maxrequests,
            rdma_reads: attributes.ca_rdma_ird.iter().next(),
        }
    }
}

#[derive(Debug, Default)]
struct SessionEntry {
    bindings: BTreeMap<u64, SessionChannelBinding>,
    channels: Option<[SessionChannelLimits; 2]>,
    is_destroyed: bool,
}

/// All sessions, and the connections that they use.
#[derive(Debug, Default)]
pub(super) struct CapturedSessionConnections {
    sessions: BTreeMap<SessionId, SessionEntry>,
    by_connection: BTreeMap<u64, BTreeSet<SessionId>>,
    /// Connections with sessions that have ended.
    ended: BTreeSet<u64>,
    binding_count: usize,
}

impl CapturedSessionConnections {
    pub(super) fn record(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
    ) {
        let number = transaction.connection.number;
        let operation = match summary.operation {
            Some(ProcedureOrMainOperation::Named(name)) => Operation::from_name(name),
            _ => None,
        };
        if let Some(Operation::CREATE_SESSION | Operation::BIND_CONN_TO_SESSION | Operation::DESTROY_SESSION) =
            operation
        {
            self.record_change(number, messages);
        }
        // The Call that binds a connection to the backchannel uses no channel.
        if operation != Some(Operation::BIND_CONN_TO_SESSION)
            && let Some(id) = call_session_slots::session(messages)
            && let Some(binding) = self.bind(id, number)
        {
            match transaction.direction {
                CallDirection::Forward => binding.is_fore = true,
                CallDirection::Reverse => binding.is_back = true,
            }
        }
    }

    /// Records the creation, binding or destruction of a session, if the server did it.
    fn record_change(&mut self, connection: u64, messages: &TransactionMessages<'_>) {
        let (Some((Procedure::Compound, mut call)), Some((Procedure::Compound, mut reply))) =
            (messages.body(RpcMessageKind::Call), messages.body(RpcMessageKind::Reply))
        else {
            return;
        };
        let (Ok(call), Ok(reply)) = (
            CompoundCall::decode(&mut call, &mut NullFieldObserver),
            CompoundReply::decode(&mut reply, &mut NullFieldObserver),
        ) else {
            return;
        };
        for (arguments, result) in call.operations().zip(reply.operations()) {
            let (Ok(arguments), Ok(result)) = (arguments, result) else { return };
            match (&arguments, &result) {
                (_, Results::CREATE_SESSION(created)) => {
                    let Some(created) = created.ok() else { continue };
                    const BACK: CreateSessionFlags = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
                    let Some(binding) = self.bind(created.csr_sessionid, connection) else { return };
                    binding.is_fore = true;
                    binding.is_back |= created.csr_flags.contains(BACK);
                    if let Some(session) = self.sessions.get_mut(&created.csr_sessionid) {
                        let channels = [&created.csr_fore_chan_attrs, &created.csr_back_chan_attrs];
                        session.channels = Some(channels.map(SessionChannelLimits::from));
                    }
                }
                (_, Results::BIND_CONN_TO_SESSION(bound)) => {
                    let Some(bound) = bound.ok() else { continue };
                    let Some(binding) = self.bind(bound.bctsr_sessid, connection) else { return };
                    binding.is_fore |= bound.bctsr_dir != ChannelDirFromServer4::CDFS4_BACK;
                    binding.is_back |= bound.bctsr_dir != ChannelDirFromServer4::CDFS4_FORE;
                }
                (Args::DESTROY_SESSION(destroyed), Results::DESTROY_SESSION(result)) => {
                    let session = self.sessions.get_mut(&destroyed.dsa_sessionid);
                    if let Some(session) = session.filter(|_| result.ok().is_some()) {
                        session.is_destroyed = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the binding of a session to a connection; `None` if there are too many.
    fn bind(&mut self, id: SessionId, connection: u64) -> Option<&mut SessionChannelBinding> {
        let is_known = self.by_connection.get(&connection).is_some_and(|sessions| sessions.contains(&id));
        if !is_known {
            if self.binding_count >= MAX_BINDINGS {
                return None;
            }
            self.binding_count += 1;
            self.by_connection.entry(connection).or_default().insert(id);
        }
        Some(self.sessions.entry(id).or_default().bindings.entry(connection).or_default())
    }

    pub(super) fn end_connection(&mut self, connection: u64) {
        if self.by_connection.contains_key(&connection) {
            self.ended.insert(connection);
        }
    }

    pub(super) fn sessions_of(&self, connection: u64) -> Vec<ConnectionSessionSummary> {
        let ids = self.by_connection.get(&connection).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.sessions.get(id)?)))
            .map(|(id, session)| ConnectionSessionSummary {
                id: *id,
                connections: session.bindings.keys().copied().collect(),
                binding: session.bindings.get(&connection).copied().unwrap_or_default(),
                channels: session.channels,
                backchannel: self.backchannel(session),
            })
            .collect()
    }

    fn backchannel(&self, session: &SessionEntry) -> Option<BackchannelState> {
        let mut bound = session.bindings.iter().filter(|(_, binding)| binding.is_back).peekable();
        bound.peek()?;
        Some(if session.is_destroyed {
            BackchannelState::Destroyed
        } else if bound.all(|(connection, _)| self.ended.contains(connection)) {
            BackchannelState::Lost
        } else {
            BackchannelState::Bound
        })
    }
}
