//! Returns delegations that the live server grants and the captured one did not.
//!
//! In NFSv4.0 an OPEN cannot ask for no delegation, and a server that reaches the client may grant one with any OPEN. No
//! step returns it, and other users of the file would wait until the server revokes it. Therefore it is returned at
//! once. RFC 7530 section 10.4. From NFSv4.1 on, an OPEN asks for none
//! ([`captured_opens`](super::super::captured_opens)), and one that is granted all the same is returned in the slot of
//! its step ([`delegation_substitutes`](super::delegation_substitutes)).

use std::io::{Read, Seek};

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, CompoundCall, CompoundCallHead, Delegreturn4Args, ObjectFh4, Results, Stateid4,
};
use nfsrdma_dissectors::rpc::{self, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text};
use nfsrdma_rpc::{ConnectionId, TransportReply};

use super::issuer::CallIssuer;
use super::window::{RETURN_INDEX, WindowStep, call_tag};
use super::{OwnCallResult, ReplayEngine};
use crate::containment::ContainedTransport;
use crate::trace::TraceStep;

/// Maximum number of delegations that wait to be returned.
const MAX_PENDING_RETURNS: usize = 1 << 12;

/// A delegation that is to be returned.
#[derive(Clone, Debug)]
pub(super) struct DelegationReturn {
    connection: ConnectionId,
    /// RPC header of the OPEN's Call, with its credential.
    header: Box<[u8]>,
    file: Box<[u8]>,
    stateid: Stateid4,
}

/// Returns the delegation that a Reply of NFSv4.0 grants, and the filehandle of the GETFH after it. `cursor` is at the
/// start of the RPC message.
fn granted_delegation(mut cursor: Cursor<'_>) -> Option<(Stateid4, Option<Box<[u8]>>)> {
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullObserver).ok()?;
    if !message.reply().is_some_and(|reply| reply.status().is_success()) {
        return None;
    }
    let reply = nfsrdma_dissectors::nfs::v4::CompoundReply::decode(&mut cursor, &mut NullObserver).ok()?;
    let mut stateid = None;
    for results in reply.operations().map_while(Result::ok) {
        match (results, &stateid) {
            (Results::OPEN(StatusUnion::Ok(open)), None) => {
                stateid = open.delegation.stateid().cloned();
            }
            (Results::GETFH(StatusUnion::Ok(file)), Some(stateid)) => {
                return Some((stateid.clone(), Some(file.object.0.into())));
            }
            _ => {}
        }
    }
    Some((stateid?, None))
}

/// Encodes DELEGRETURN with the header of another Call. RFC 7530 section 16.8.
fn encode_delegreturn(unasked: &DelegationReturn, xid: Xid) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new();
    encoder.raw(&unasked.header);
    let operations = [
        Args::PUTFH(ObjectFh4 { object: Opaque(&unasked.file) }),
        Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: unasked.stateid.clone() }),
    ];
    CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 0 }, &operations).encode(&mut encoder);
    let mut message = encoder.finish().0;
    message.get_mut(..4)?.copy_from_slice(&xid.0.to_be_bytes());
    Some(message)
}

impl CallIssuer {
    /// Records a delegation that the live OPEN grants and the recorded one does not.
    pub(super) fn record_unwanted_delegation(
        &mut self,
        held: &WindowStep,
        step: &TraceStep<'_>,
        reply: &TransportReply<'_>,
        recorded: &[u8],
    ) {
        if step.asked.minor_version != 0 {
            return;
        }
        let Some((stateid, Some(file))) = granted_delegation(reply.cursor()) else { return };
        if granted_delegation(Cursor::new(recorded)).is_some() {
            return;
        }
        let mut cursor = Cursor::new(&held.call.message);
        let header = rpc::RpcMsg::decode(&mut cursor, &mut NullObserver).ok();
        let header = header.and_then(|_| held.call.message.get(..cursor.at()));
        match header {
            Some(header) if self.unwanted_delegations.len() < MAX_PENDING_RETURNS => {
                self.unwanted_delegations.push_back(DelegationReturn {
                    connection: reply.connection,
                    header: header.into(),
                    file,
                    stateid,
                })
            }
            _ => self.dropped_values += 1,
        }
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Sends the pending DELEGRETURNs, as far as their connections have capacity.
    pub(super) fn return_unwanted_delegations(&mut self, transport: &mut ContainedTransport<'_>) {
        for _ in 0..self.issuer.unwanted_delegations.len() {
            let Some(unasked) = self.issuer.unwanted_delegations.pop_front() else { return };
            // If the connection is lost, the server may have restarted and lost the delegation; other users of the file
            // wait for that.
            let connection = unasked.connection;
            let number = self.connections.connection_index.get(&connection).copied();
            let Some(xid) = number.and_then(|number| self.connections.next_xid(number)) else { continue };
            let Some(message) = encode_delegreturn(&unasked, xid) else { continue };
            let tag = call_tag(self.context.number, RETURN_INDEX, 0);
            match self.submit_own(connection, (xid, tag), (&message, None), transport) {
                OwnCallResult::Sent => {
                    self.report.calls += 1;
                    self.report.returned_delegations += 1;
                }
                OwnCallResult::Escapes(_) => self.report.dropped_values += 1,
                OwnCallResult::Lost => {}
                _ => self.issuer.unwanted_delegations.push_back(unasked),
            }
        }
    }

    /// Handles a Reply to a DELEGRETURN of this program. Returns `true` if it is one.
    pub(super) fn handle_return_reply(&mut self, reply: &TransportReply<'_>) -> bool {
        let is_own = reply.tag == call_tag(self.context.number, RETURN_INDEX, 0);
        if is_own {
            self.unpark_connection(reply.connection, usize::MAX);
        }
        is_own
    }
}
