//! Events of a connection: messages with effects beyond it, its pairing, its end and its removal.

use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::connection::{FlowConnection, QueuePairFlowKey};
use super::connection_key::ConnectionSlabKey;
use super::count_categories::{EvictedState, UndecodedReason};
use super::cross_connection_call_retries::{CallRetryHash, EarlierCallEmissionState};
use super::finality;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::packet_meta::PacketMeta;
use super::transaction::CapturedMessage;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedFlowTransaction;
use crate::rdma_operation::ConnectionSideAOrB;

impl Flow {
    /// Applies the effects of a message beyond its own connection.
    #[inline(always)]
    pub(super) fn on_message(&mut self, at: usize, content: FrameContentKind, packet_meta: PacketMeta<'_>) {
        let FrameContentKind::Message { key, which } = content else { return };
        self.number_connection(at);
        self.connections.update_memory_bytes(at);
        if which == RpcMessageKind::Call {
            self.link_repeated_call(key, packet_meta);
        }
    }

    /// Links a Call to the unanswered Call on another connection that it repeats, and closes the latter.
    #[inline(never)]
    fn link_repeated_call(&mut self, key: TransactionSlabKey, packet_meta: PacketMeta<'_>) {
        let Some(entry) = self.transaction_table.get(key) else { return };
        let Some(call) = &entry.transaction.call else { return };
        let Some(connection) = self.connections.get(entry.connection) else { return };
        let route = connection.route(entry.requester);
        match self.retries.record_call(route, entry.transaction.xid, key) {
            Some(EarlierCallEmissionState::Pending(previous_key)) => {
                let has_same_bytes = |other: &&TrackedFlowTransaction| {
                    let bytes = other.transaction.call.as_ref().map(CapturedMessage::inline_bytes);
                    bytes == Some(call.inline_bytes())
                };
                let previous = self.transaction_table.get(previous_key).filter(has_same_bytes);
                let repeats_call = previous.is_some();
                let is_retry = previous
                    .is_some_and(|previous| previous.connection != entry.connection && previous.is_unanswered());
                if repeats_call && let Some(entry) = self.transaction_table.get_mut(key) {
                    entry.transaction.repeats_call = true;
                }
                if is_retry {
                    if self.transaction_table.get(previous_key).is_some_and(TrackedFlowTransaction::is_open) {
                        self.transaction_table.close(previous_key, packet_meta);
                    }
                    if let Some(previous) = self.transaction_table.get_mut(previous_key) {
                        previous.repeated_by = Some(key);
                    }
                }
            }
            Some(EarlierCallEmissionState::Emitted { index, hash })
                if hash == CallRetryHash::new(call.inline_bytes()) =>
            {
                if let Some(entry) = self.transaction_table.get_mut(key) {
                    entry.transaction.retry_of = Some(index);
                    entry.transaction.repeats_call = true;
                }
            }
            Some(EarlierCallEmissionState::Emitted { .. }) | None => {}
        }
    }

    /// Moves the Transactions of connection `merged`, which is the direction of `at` on which `sender` sends.
    pub(super) fn on_connections_joined(&mut self, at: usize, merged: usize, sender: ConnectionSideAOrB) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let split_keys = std::mem::take(&mut connection.conversation.split_transactions);
        let keys = connection.conversation.transaction_keys().chain(split_keys.iter().map(|(_, other)| *other));
        // A connection with only one direction names its sender A.
        self.transaction_table.move_to_connection(keys, merged, at, sender == ConnectionSideAOrB::B);
        for halves in split_keys {
            connection.conversation.merge_halves(&mut self.transaction_table, halves, self.limits.keep_file_data);
        }
    }

    /// Handles a new connection: applies a partly captured set-up and enforces the limit of the table.
    pub(super) fn on_new_connection(&mut self, newest: usize, path: QueuePairFlowKey, packet_meta: PacketMeta<'_>) {
        if self.set_ups.has_request_from(path.tenant, path.destination, path.source, path.qpn)
            && let Some(connection) = self.connections.get_mut(newest)
        {
            connection.opened_by = Some(ConnectionSideAOrB::B);
        }
        if self.connections.exceeds_limit() {
            self.evict_connections(Some(newest), packet_meta);
        }
    }

    /// Ends the reassembly of partial messages: processes each as far as it was captured.
    pub(super) fn flush_partial_messages(&mut self, at: usize, packet_meta: PacketMeta<'_>) {
        let Some((connection, mut context)) = self.rpc_context(at, ConnectionSideAOrB::A, &packet_meta) else {
            return;
        };
        let FlowConnection { ends, conversation, .. } = connection;
        let mut contents = Vec::new();
        let mut partial_message_bytes = 0;
        for side in ConnectionSideAOrB::BOTH {
            let requests = &mut ends[side].requests;
            partial_message_bytes += requests.partial_message_bytes();
            requests.finish();
            context.sender = side;
            while let Some(message) = requests.take_ended_message(packet_meta.time) {
                contents.push(conversation.handle_operation(&mut context, message));
            }
            let dropped_frames = requests.take_dropped_frames();
            context.stats.count_undecoded_frames(UndecodedReason::MessagePart, dropped_frames);
        }
        conversation.drop_suspected_accesses(&mut context);
        conversation.drop_suspected_messages(&mut context);
        self.partial_message_bytes = self.partial_message_bytes.saturating_sub(partial_message_bytes);
        for content in contents {
            self.on_message(at, content, packet_meta);
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.reorder_buffer.drop_all(&mut self.stats);
            connection.conversation.continuations.drop_all(&mut self.stats);
        }
    }

    /// Evicts the connections idle longest while there are too many.
    pub(super) fn evict_connections(&mut self, newest: Option<usize>, packet_meta: PacketMeta<'_>) {
        for at in self.connections.longest_idle() {
            if Some(at) != newest {
                if !self.has_ended_idle(at) {
                    self.stats.count_evicted(EvictedState::Connection);
                }
                self.close_connection(at, packet_meta);
            }
        }
    }

    /// Returns `true` if a connection has ended with nothing open, so that its removal loses nothing.
    fn has_ended_idle(&self, at: usize) -> bool {
        self.connections.get(at).is_some_and(|connection| {
            let mut keys = connection.conversation.transaction_keys();
            connection.is_ending
                && !keys.any(|key| self.transaction_table.get(key).is_some_and(TrackedFlowTransaction::is_open))
        })
    }

    /// Removes a connection and closes its open Transactions unanswered.
    pub(super) fn close_connection(&mut self, at: usize, packet_meta: PacketMeta<'_>) {
        self.flush_partial_messages(at, packet_meta);
        let Some(connection) = self.connections.get(at) else { return };
        let mut open: Vec<TransactionSlabKey> = connection.conversation.transaction_keys().collect();
        open.sort_unstable_by_key(|key| self.transaction_table.get(*key).and_then(TrackedFlowTransaction::first_frame));
        for key in open {
            if self.transaction_table.get(key).is_some_and(TrackedFlowTransaction::is_open) {
                self.transaction_table.close(key, packet_meta);
            }
        }
        // They are emitted now because only the connection knows their names.
        while self.transaction_table.has_closed_on(at) {
            let Some(key) = self.transaction_table.first_closed() else { break };
            self.emit_transaction(key);
        }
        self.record_transport_end(at);
        if self.limits.report_closed_connections
            && let Some(connection) = self.connections.get(at)
        {
            self.closing_connections.record_closed(connection);
        }
        self.connections.remove(at);
    }

    /// Records that the end of a connection was seen.
    pub(super) fn record_connection_end(&mut self, key: ConnectionSlabKey) {
        if let Some(connection) = self.connections.get_by_key(key) {
            for side in ConnectionSideAOrB::BOTH {
                let sent = &connection.ends[side].requests;
                finality::record_refused_messages(sent, &mut self.transaction_table, true);
            }
        }
        if self.connections.record_end(key, self.now) && self.limits.report_closed_connections {
            self.closing_connections.record_end(key);
        }
    }
}
