//! Emission of Transactions, with their number, their connection and the other connections of its hosts.

use super::connection::FlowConnection;
use super::flow_state::Flow;
use super::session_slots::SlotRetry;
use super::transaction::{CapturedMessage, SiblingConnectionStatus};
use super::transaction_slab_key::TransactionSlabKey;

impl Flow {
    /// Records the other connections between the hosts of the Transactions that were closed. Rules need them; how long
    /// a Transaction waits for its emission must not matter.
    pub(super) fn record_siblings(&mut self) {
        while let Some(key) = self.transaction_table.newly_closed.pop() {
            let Some(connection) = self.transaction_table.get(key).map(|entry| entry.connection) else {
                continue;
            };
            let siblings = self.siblings(connection);
            if let Some(entry) = self.transaction_table.get_mut(key) {
                entry.transaction.siblings = siblings;
            }
        }
    }

    /// Returns the other connections between the hosts of a connection.
    fn siblings(&self, at: usize) -> SiblingConnectionStatus {
        let addresses = self.connections.get(at).map(FlowConnection::addresses);
        if addresses.is_some_and(|addresses| self.streams.has_undetermined_between(addresses)) {
            return SiblingConnectionStatus::Open;
        }
        self.connections.siblings(at)
    }

    pub(super) fn emit_transaction(&mut self, key: TransactionSlabKey) {
        self.record_siblings();
        let Some(mut entry) = self.transaction_table.remove(key) else { return };
        if entry.is_open() && self.transaction_table.transport_events.is_enabled() {
            entry.transaction.siblings = self.siblings(entry.connection);
        }
        self.emitted_transactions += 1;
        entry.transaction.index = self.emitted_transactions;
        if let Some(repeated_by) = entry.repeated_by
            && let Some(repeat) = self.transaction_table.get_mut(repeated_by)
        {
            repeat.transaction.retry_of = Some(self.emitted_transactions);
        }
        if let Some(connection) = self.connections.get_mut(entry.connection) {
            connection.conversation.remove_transaction(key, &entry);
            connection.conversation.apply_dialect(&mut entry.transaction);
            let transaction = &mut entry.transaction;
            let route = connection.route(entry.requester);
            match self.session_slots.record(route.tenant, transaction) {
                Some(SlotRetry::Same) => transaction.repeats_call = true,
                Some(SlotRetry::FalseWithCachedResults) => transaction.has_results_of_other = true,
                None => {}
            }
            let unanswered = match (&transaction.call, &transaction.reply) {
                (_, Some(_)) => None,
                (call, None) => Some(call.as_ref().map_or(&[][..], CapturedMessage::inline_bytes)),
            };
            self.retries.record_emission(route, transaction.xid, key, unanswered, transaction.index);
            let name_and_direction = connection.name_and_direction(entry.requester);
            (entry.transaction.connection, entry.transaction.direction) = name_and_direction;
            let is_unanswered = entry.transaction.reply.is_none();
            entry.transaction.has_connection_ended = connection.is_ending && is_unanswered;
            if is_unanswered {
                let has_gap = entry.gaps_when_idle != connection.conversation.gaps();
                entry.transaction.credit_use.is_gapless = entry.transaction.call.is_some() && !has_gap;
            }
            if entry.transaction.has_connection_ended {
                let conversation = &connection.conversation;
                entry.transaction.credit_use.is_exact = entry.transaction.credit_use.is_gapless;
                let is_unanswered = |key: TransactionSlabKey| {
                    self.transaction_table.get(key).is_some_and(|other| {
                        let has_call = other.transaction.call.is_some();
                        other.requester == entry.requester && has_call && other.is_unanswered()
                    })
                };
                let count = || 1 + conversation.transaction_keys().filter(|key| is_unanswered(*key)).count();
                let counted = connection.ends[entry.requester].unanswered_at_end;
                let unanswered = counted.unwrap_or_else(|| u32::try_from(count()).unwrap_or(u32::MAX));
                connection.ends[entry.requester].unanswered_at_end = Some(unanswered);
                entry.transaction.unanswered_at_end = unanswered;
            }
            entry.transaction.credit_use.is_direction_known = connection.client().is_some();
            entry.transaction.credit_use.may_follow_reply |= connection.conversation.is_misordered;
            entry.transaction.set_up.clone_from(&connection.parameters);
        }
        self.stats.chunk_content_bytes =
            self.stats.chunk_content_bytes.saturating_sub(entry.transaction.chunk_content_bytes());
        self.ready.push_back((key, entry.transaction));
    }
}
