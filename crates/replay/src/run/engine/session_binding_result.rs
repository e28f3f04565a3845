//! Results of BIND_CONN_TO_SESSION: the Reply, its loss or its timeout.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_rpc::{CallTag, TransportReply};

use super::super::recovery::{self, MAX_RESENDS, SessionBindError};
use super::connections::ConnectionSessionBinding;
use super::replay_engine::ReplayEngine;
use super::scheduler::RETRY_DELAY;

impl<R: Read + Seek> ReplayEngine<'_, R> {
    pub(super) fn lose_binding(&mut self, tag: CallTag, reason: &str) {
        let Some((number, line, binding)) = self.connections.take_binding(tag) else { return };
        line.refuse_binding(binding.session);
        self.scheduler.unpark(number, usize::MAX);
        self.report.add_refusal(format!("BIND_CONN_TO_SESSION: {reason}"));
    }

    pub(super) fn expire_bindings(&mut self, now: Instant) {
        let in_flight = self.connections.lines.iter().filter_map(|line| line.binding_in_flight);
        let overdue: Vec<_> = in_flight.filter(|call| self.context.is_overdue(call.sent, now)).collect();
        for call in overdue {
            self.lose_binding(call.tag, &self.context.timeout_text());
        }
    }

    pub(super) fn handle_bind_reply(&mut self, reply: &TransportReply<'_>) {
        let Some((number, line, binding)) = self.connections.take_binding(reply.tag) else { return };
        let ConnectionSessionBinding { session, direction, .. } = binding;
        let recoveries = line.recoveries_at_binding;
        self.scheduler.unpark(number, usize::MAX);
        match recovery::decode_bind_reply(reply.cursor(), direction) {
            Ok(()) => self.report.recovery.rebound += 1,
            Err(SessionBindError::UnknownSession) => {
                let id = self.call_builder.values.identifier(session);
                if let Some(session) = id.and_then(|id| self.call_builder.client_state.sessions.get(&id)) {
                    self.start_recovery_since(session.client, id, reply.connection, recoveries);
                }
            }
            Err(SessionBindError::Delayed) if binding.delays < MAX_RESENDS => {
                line.next_binding = Some(Instant::now() + RETRY_DELAY);
                line.pending_bindings.push(ConnectionSessionBinding { delays: binding.delays + 1, ..binding });
            }
            Err(SessionBindError::Delayed) => {
                line.refuse_binding(session);
                self.report.add_refusal("BIND_CONN_TO_SESSION: NFS4ERR_DELAY".to_owned());
            }
            Err(SessionBindError::Status(status)) => {
                line.refuse_binding(session);
                let operation = Operation::BIND_CONN_TO_SESSION;
                self.report.protocol.add_own_status(&operation.to_string(), (binding.minor_version, operation), status);
                self.report.add_refusal(format!("{operation}: {status}"));
            }
            Err(SessionBindError::Refused(reason)) => {
                line.refuse_binding(session);
                self.report.add_refusal(reason);
            }
        }
    }
}
