//! Errors that end a run early.

use std::fmt;

use nfsrdma_rpc::RpcClientTransportError;
use nfsrdma_rpc::gss::GssContextSetupError;

use crate::trace::error::TraceError;

/// An error that ends a run early.
#[derive(Debug)]
pub enum ReplayRunError {
    /// Error of the server or the transport.
    Transport(RpcClientTransportError),
    /// Error in the trace.
    Trace(TraceError),
    /// Error of a security context.
    Security(GssContextSetupError),
}

impl fmt::Display for ReplayRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Trace(error) => error.fmt(f),
            Self::Security(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayRunError {}

impl From<RpcClientTransportError> for ReplayRunError {
    fn from(error: RpcClientTransportError) -> Self {
        Self::Transport(error)
    }
}

impl From<TraceError> for ReplayRunError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}
