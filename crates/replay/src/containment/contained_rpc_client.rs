//! The synchronous RPC client of a run.

use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder};
use nfsrdma_rpc::OutgoingRpcCall;
use nfsrdma_rpc::synchronous_client::{OutgoingCallCheck, RpcCallError, RpcClient, SynchronousProcedureCall};

use super::{Containment, ContainmentViolation};

/// An RPC client whose Calls all pass the containment check of a run.
pub struct ContainmentCheckedRpcClient<'t>(RpcClient<'t, ReplayContainmentCallCheck<'t>>);

/// The containment of a run as a filter.
struct ReplayContainmentCallCheck<'t>(&'t mut Containment);

impl OutgoingCallCheck for ReplayContainmentCallCheck<'_> {
    type Refusal = ContainmentViolation;

    fn check_call(&self, call: &OutgoingRpcCall<'_>) -> Result<(), ContainmentViolation> {
        self.0.check_call(*call).map(|_| ())
    }

    fn record_reply(&mut self, call: &OutgoingRpcCall<'_>, reply: Cursor<'_>) {
        self.0.record_reply(call, reply);
    }
}

impl<'t> ContainmentCheckedRpcClient<'t> {
    /// Makes a client check each Call against a containment, and record the identifiers in each Reply.
    pub fn new(client: RpcClient<'t>, containment: &'t mut Containment) -> Self {
        Self(client.with_filter(ReplayContainmentCallCheck(containment)))
    }

    /// As [`RpcClient::call`], but returns [`RpcCallError::Filtered`] if the check refuses the Call.
    pub fn call<T>(
        &mut self,
        procedure: &SynchronousProcedureCall<'_>,
        arguments: impl FnOnce(&mut Encoder),
        results: impl FnOnce(&mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.call(procedure, arguments, results)
    }

    /// As [`RpcClient::compound`], but returns [`RpcCallError::Filtered`] if the check refuses the Call.
    pub fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[v4::Args<'_>],
        more: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&v4::CompoundReply<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.compound(minor, operations, more, results)
    }

    /// Closes the current connection, which may not be the initial one.
    pub fn disconnect(&mut self) {
        let connection = self.0.connection;
        self.0.transport().disconnect(connection);
    }

    /// Allows this program to act as the client with this name.
    pub fn add_client_identity(&mut self, client: &str) {
        self.0.filter_mut().0.add_client_name(client);
    }
}
