//! A security context of this run, and the contexts that replace it after the server has denied it.

use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::gss::{GssContext, GssContextSetup, GssReplyProtection};

/// Data needed to verify the Reply to a signed Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GssReplyVerificationData {
    pub(super) context: usize,
    /// Number of renewals of the context at the time.
    pub(super) generation: u32,
    pub(super) protection: GssReplyProtection,
}

/// Reason why a Call cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GssUnsignedCallReason {
    /// The context is being renewed.
    NotYet,
    /// The context is lost, for this reason.
    Never(String),
}

/// A context and its replacements.
#[derive(Debug)]
pub(super) struct RenewableGssContext {
    /// Version of NFS that the context is for.
    pub(super) version: u32,
    pub(super) context: GssContext,
    /// Previous context, which may have signed Replies in flight.
    pub(super) previous: Option<GssContext>,
    /// Number of renewals.
    pub(super) generation: u32,
    pub(super) state: GssContextRenewalState,
}

#[derive(Debug)]
pub(super) enum GssContextRenewalState {
    /// Calls can be signed.
    Ready,
    /// The server denied the context; a new one is being established.
    Renewing(GssContextRenewal),
    /// The context could not be renewed, for this reason.
    Lost(String),
}

/// A context that is being established in place of another.
#[derive(Debug)]
pub(super) struct GssContextRenewal {
    /// Index of the live connection that carries the Calls.
    pub(super) connection_index: usize,
    /// `None` before the first Call and after a lost one: a server may refuse a token that it has seen.
    pub(super) setup: Option<GssContextSetup>,
    /// Send time and XID of the Call in flight.
    pub(super) sent: Option<(Instant, Xid)>,
    pub(super) tries: u32,
}

impl RenewableGssContext {
    pub(super) fn new(version: u32, context: GssContext) -> Self {
        Self { version, context, previous: None, generation: 0, state: GssContextRenewalState::Ready }
    }

    /// Succeeds if Calls can be signed with the context.
    ///
    /// # Errors
    /// Returns an error if Calls cannot be signed yet, or never again.
    pub(super) fn is_ready(&self) -> Result<(), GssUnsignedCallReason> {
        match &self.state {
            GssContextRenewalState::Ready => Ok(()),
            GssContextRenewalState::Renewing(_) => Err(GssUnsignedCallReason::NotYet),
            GssContextRenewalState::Lost(reason) => Err(GssUnsignedCallReason::Never(reason.clone())),
        }
    }

    /// Returns the context of a generation: the current or the previous one.
    pub(super) fn at_generation(&mut self, generation: u32) -> Option<&mut GssContext> {
        match self.generation.checked_sub(generation)? {
            0 => Some(&mut self.context),
            1 => self.previous.as_mut(),
            _ => None,
        }
    }
}
