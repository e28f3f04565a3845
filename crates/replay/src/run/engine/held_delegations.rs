//! Return of the delegations that are still held at the end of a run, because the capture ends before its clients
//! returned them.
//!
//! Otherwise other users of the files, the final check among them, would wait until the server revokes the delegations
//! (RFC 8881 section 10.4.6).

use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::{
    Args, CompoundReply, Delegreturn4Args, Nfsstat4, ObjectFh4, Sequence4Args, Stateid4,
};
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::Opaque;
use nfsrdma_rpc::synchronous_client::{RpcCallError, SynchronousProcedureCall};

use super::ReplayEngine;
use crate::containment::ContainedTransport;
use crate::reply_size::ReplySizeUpperBound;
use nfsrdma_analysis::comparison::record::hash;

/// Maximum time to return all delegations. The server revokes the others.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Returns the delegations that are still held when nothing else is in flight.
    pub(super) fn return_held_delegations(&mut self, transport: &mut ContainedTransport<'_>) {
        let held = self.issuer.client_state.take_delegations();
        if held.is_empty() || self.report.end.unreachable.is_some() {
            return;
        }
        let open = self.connections.lines.iter().find(|line| line.lost.is_none()).map(|line| line.connection);
        let Some(connection) = open.or_else(|| transport.connect(self.context.target).ok()) else { return };
        let first = Xid(hash(format!("{} delegations end", self.context.tag).as_bytes()) as u32);
        let deadline = Instant::now() + RETURN_TIMEOUT;
        let issuer = &mut self.issuer;
        let containment = &mut issuer.containment;
        let mut rpc = transport.rpc_client(connection, first, containment, self.context.target, deadline);
        for (other, delegation) in held {
            let Some(client) = issuer.client_state.client(delegation.client) else { continue };
            let mut operations = Vec::with_capacity(3);
            let mut slot = None;
            if client.minor_version > 0 {
                let Some((id, session)) = issuer.client_state.session_of_client(delegation.client) else {
                    continue;
                };
                let Some(live) = issuer.values.session(session.variable) else { continue };
                let place = (session.variable, live.slot(0));
                operations.push(Args::SEQUENCE(Sequence4Args {
                    sa_sessionid: id,
                    sa_sequenceid: issuer.values.next_sequence(place),
                    sa_slotid: place.1,
                    sa_highest_slotid: place.1,
                    sa_cachethis: false,
                }));
                slot = Some(place);
            }
            let seqid = issuer.values.seqid(delegation.variable);
            operations.push(Args::PUTFH(ObjectFh4 { object: Opaque(&delegation.file) }));
            operations.push(Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: Stateid4 { seqid, other } }));
            let size = ReplySizeUpperBound::for_compound(&operations);
            let procedure = SynchronousProcedureCall::new(Program::NFS, 4, 1, 0);
            let answered = rpc.compound(
                client.minor_version,
                &operations,
                &size.apply_to(&procedure),
                |reply: &CompoundReply<'_>| {
                    let statuses = reply.operations().map_while(Result::ok).map(|results| results.status());
                    Ok(statuses.collect::<Vec<Nfsstat4>>())
                },
            );
            match answered {
                Ok(statuses) => {
                    let is_counted = statuses.first() == Some(&Nfsstat4::NFS4_OK);
                    slot.into_iter().for_each(|slot| issuer.values.set_slot_state(slot, false, is_counted));
                    let is_returned = statuses.len() == operations.len()
                        && statuses.iter().all(|status| *status == Nfsstat4::NFS4_OK);
                    self.report.returned_delegations += u64::from(is_returned);
                }
                Err(error) if error.is_final() || matches!(error, RpcCallError::DeadlineExceeded) => return,
                Err(_) => {}
            }
        }
    }
}
