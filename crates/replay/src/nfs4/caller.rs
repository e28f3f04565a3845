//! Execution of the [`Client`] state machine over RPC, one call at a time.

use std::fmt;
use std::thread;

use nfsrdma_dissectors::nfs::v4::{Args, CompoundReply, DestroyClientid4Args, DestroySession4Args, Operation, Results};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::XdrError;
use nfsrdma_nfs_model::v4::{self, Position};
use nfsrdma_rpc::PayloadContentLocation;
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient, SynchronousProcedureCall};

use super::client::{Client, ClientidAndSessionState, Reaction};
use super::operations::{CompoundFailure, read_results};
use crate::containment::ContainmentCheckedRpcClient;
use crate::reply_size::ReplySizeUpperBound;
use crate::seed::file_server_client::{FileServerClientError, FileServerClientResult, NfsOperationFailure};

/// Sends COMPOUNDs.
pub(crate) trait CompoundRpcClient {
    /// As [`RpcClient::compound`].
    fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[Args<'_>],
        procedure: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&CompoundReply<'_>) -> Result<T, XdrError>,
    ) -> Result<T, RpcCallError>;

    /// As [`RpcClient::was_resent`].
    fn was_resent(&self) -> bool;
}

impl CompoundRpcClient for &mut RpcClient<'_> {
    fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[Args<'_>],
        procedure: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&CompoundReply<'_>) -> Result<T, XdrError>,
    ) -> Result<T, RpcCallError> {
        RpcClient::compound(self, minor, operations, procedure, results)
    }

    fn was_resent(&self) -> bool {
        self.was_resent
    }
}

impl CompoundRpcClient for ContainmentCheckedRpcClient<'_> {
    fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[Args<'_>],
        procedure: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&CompoundReply<'_>) -> Result<T, XdrError>,
    ) -> Result<T, RpcCallError> {
        ContainmentCheckedRpcClient::compound(self, minor, operations, procedure, results)
    }

    fn was_resent(&self) -> bool {
        ContainmentCheckedRpcClient::was_resent(self)
    }
}

/// A client with its RPC client.
pub(crate) struct Caller<R> {
    pub(crate) rpc: R,
    pub(crate) client: Client,
    /// `true` if a call of the operation was sent again, so that its status may be that of a second execution.
    pub(crate) was_resent: bool,
}

impl<R: CompoundRpcClient> Caller<R> {
    pub(crate) fn new(rpc: R, client: Client) -> Self {
        Self { rpc, client, was_resent: false }
    }

    /// Sends the requests that the client needs, and shows `observe` their results.
    ///
    /// # Errors
    /// Returns an error if the server refuses, or does not answer.
    pub(crate) fn establish(&mut self, mut observe: impl FnMut(&Results<'_>)) -> FileServerClientResult<()> {
        while let Some(request) = self.client.next_request() {
            let client = self.client.clone();
            let operations = [client.arguments(request)];
            let answer = self.attempt(&request.operation(), &operations, &[], |results| {
                observe(results);
                Some(())
            })?;
            if answer.is_some() && self.client.next_request() == Some(request) {
                let reason = NfsOperationFailure::WrongResults(OTHER_OPERATIONS);
                return Err(FileServerClientError::Refused(request.operation().to_string(), reason));
            }
        }
        Ok(())
    }

    /// Runs operations that do not depend on the state of the client, until they have results or fail. Returns the last
    /// value that `read` extracts.
    ///
    /// # Errors
    /// Returns the first failure.
    pub(crate) fn run<T>(
        &mut self,
        name: &dyn fmt::Display,
        operations: &[Args<'_>],
        data: &[PayloadContentLocation<'_>],
        mut read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<T> {
        self.was_resent = false;
        loop {
            self.establish(|_| {})?;
            if let Some(value) = self.attempt(name, operations, data, &mut read)? {
                return Ok(value);
            }
        }
    }

    /// Sends operations once. Returns `None` if they are to be sent again, after what the client needs then.
    ///
    /// # Errors
    /// Returns the first failure.
    pub(crate) fn attempt<T>(
        &mut self,
        name: &dyn fmt::Display,
        operations: &[Args<'_>],
        data: &[PayloadContentLocation<'_>],
        mut read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<Option<T>> {
        // The replies of operations that change something are cached, so that a call sent again is not executed twice.
        // Other replies are too long to cache.
        let is_kept = |operation: &Args<'_>| {
            !matches!(operation, Args::READ(_) | Args::READDIR(_) | Args::READLINK(_) | Args::GETATTR(_))
        };
        let sequence = operations
            .first()
            .filter(|first| !stands_alone(first.operation()))
            .and_then(|_| self.client.sequence(operations.iter().all(is_kept)));
        let has_sequence = sequence.is_some();
        let compound: Vec<_> = sequence.into_iter().chain(operations.iter().cloned()).collect();
        let size = ReplySizeUpperBound::for_compound(&compound);
        let procedure = SynchronousProcedureCall { data, ..SynchronousProcedureCall::new(Program::NFS, 4, 1, 0) };
        let client = &mut self.client;
        let outcome = self.rpc.compound(client.minor(), &compound, &size.apply_to(&procedure), |reply| {
            read_results(&compound, reply, &mut |results| {
                client.record(results);
                read(results)
            })
        });
        self.was_resent |= self.rpc.was_resent();
        let (operation, status) = match outcome {
            Ok(Ok(value)) => {
                self.client.end_waits();
                return value.map(Some).ok_or_else(|| FileServerClientError::without_requested_item(name));
            }
            Ok(Err(CompoundFailure::Status(operation, status))) => (operation, status),
            Ok(Err(CompoundFailure::OtherOperations)) => {
                let reason = NfsOperationFailure::WrongResults(OTHER_OPERATIONS);
                return Err(FileServerClientError::Refused(name.to_string(), reason));
            }
            Err(error) => {
                // The server may have executed it.
                if has_sequence && !matches!(error, RpcCallError::Filtered(_)) {
                    self.client.count_sequence();
                }
                return Err(error.into());
            }
        };
        match self.client.react(operation, status) {
            Reaction::Done => Ok(None),
            Reaction::Retry(wait) => {
                thread::sleep(wait);
                Ok(None)
            }
            Reaction::Failed => {
                let reason = NfsOperationFailure::of_v4(self.client.minor(), operation, status);
                Err(FileServerClientError::Refused(failed_operation(name, operation), reason))
            }
            Reaction::Busy(seconds) => {
                let reason = NfsOperationFailure::V4(status);
                Err(FileServerClientError::Busy(failed_operation(name, operation), reason, seconds))
            }
        }
    }

    /// Destroys the session; the client ID stays confirmed. RFC 8881 section 18.37.
    pub(crate) fn destroy_session(&mut self) {
        if let Some(ClientidAndSessionState::Session { id, .. }) = self.client.established() {
            self.send_once(Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: id }));
        }
    }

    /// Destroys the session and the client ID, from NFSv4.1 on. RFC 8881 sections 18.37 and 18.50.
    pub(crate) fn destroy(&mut self) {
        self.destroy_session();
        if let Some(clientid) = self.client.clientid().filter(|_| self.client.minor() > 0) {
            self.send_once(Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid }));
        }
    }

    /// Sends an operation whose failure is harmless: state that is not released ends with its lease.
    fn send_once(&mut self, operation: Args<'_>) {
        let procedure = SynchronousProcedureCall::new(Program::NFS, 4, 1, 0);
        let operations = [operation];
        let size = ReplySizeUpperBound::for_compound(&operations);
        let _ = self.rpc.compound(self.client.minor(), &operations, &size.apply_to(&procedure), |_| Ok(()));
    }
}

const OTHER_OPERATIONS: &str = "results of other operations than those that were sent";

/// Returns `true` if an operation has no SEQUENCE before it. RFC 8881 section 2.10.
fn stands_alone(operation: Operation) -> bool {
    v4::meaning(operation).position != Position::InSession
}

/// Returns the name of what failed, with the operation if that is another one: `LOOKUP of /export`.
fn failed_operation(name: &dyn fmt::Display, operation: Option<Operation>) -> String {
    let name = name.to_string();
    match operation.map(|operation| operation.to_string()) {
        Some(operation) if operation != name => format!("{operation} of {name}"),
        _ => name,
    }
}
