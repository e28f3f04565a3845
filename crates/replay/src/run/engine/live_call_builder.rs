//! Calls of a run: the values, stateids and signatures that they need, and the check that each must pass.

use std::time::Duration;

use nfsrdma_dissectors::nfs::v4::Bitmap4;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::gss::GssMechanismError;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::live_values::LiveVariableValues;
use super::super::recovery::recoverable_client_state::RecoverableState;
use super::cb_getattr::CapturedCbGetattrAnswers;
use super::renewable_gss_context::{GssReplyVerificationData, GssUnsignedCallReason, RenewableGssContext};
use super::rpcsec_gss::{GssCallSigner, is_signed};
use super::send_result::StepSendObstacle;
use super::substitute_opens_for_delegations::pending_substitutes::DelegationSubstituteOpens;
use super::unbound_variable_reason::UnboundVariableReason;
use crate::auxiliary_programs::AuxiliaryRpcConnections;
use crate::containment::Containment;
use crate::trace::step::TraceStep;
use crate::trace::value_substitution::{ReplayedRpcHeader, TracePayloadInMessage, emit};

/// State that turns captured Calls into Calls of this run. It does not know the order of steps nor their connections.
#[derive(Default)]
pub(super) struct LiveCallBuilder {
    pub(super) values: LiveVariableValues,
    pub(super) client_state: RecoverableState,
    /// Variables of state that could not be recovered.
    pub(super) unrecovered: FxHashSet<u32>,
    /// Check that every Call must pass before it is sent.
    pub(super) containment: Containment,
    /// Signs Calls with RPCSEC_GSS, if the run does.
    pub(super) signing: Option<GssCallSigner>,
    /// Reasons why variables have no value.
    pub(super) missing_values: FxHashMap<u32, UnboundVariableReason>,
    /// Stateids from before the capture that the server refused, with the reason.
    pub(super) refused_opens: FxHashMap<u32, String>,
    /// Variables of delegations that the live server did not grant, or that were granted before the capture.
    pub(super) ungranted_delegations: FxHashSet<u32>,
    /// Opens that replace these delegations.
    pub(super) substitutes: DelegationSubstituteOpens,
    pub(super) cb_getattr_answers: CapturedCbGetattrAnswers,
    /// Connections of the programs other than NFS; `None` while one of them is in use.
    pub(super) auxiliary: Option<AuxiliaryRpcConnections>,
    /// Call that is being built, without payloads, and the payloads with their positions.
    pub(super) call_buffer: Vec<u8>,
    pub(super) placed: Vec<TracePayloadInMessage>,
    /// Contents of its payloads.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Number of values dropped because of a limit.
    pub(super) dropped_values: u64,
    /// Maximum length of each payload of its Reply in bytes.
    pub(super) needs: Vec<u32>,
}

impl LiveCallBuilder {
    /// Returns the mask words and values of the attributes for which the live server asks in CB_GETATTR at this time.
    pub(super) fn next_cb_getattr_attributes(
        &mut self,
        handle: &[u8],
        requested: &Bitmap4<'_>,
        since_1970: Duration,
    ) -> Option<(Vec<u32>, Vec<u8>)> {
        self.cb_getattr_answers.next_attributes(&self.values, handle, requested, since_1970)
    }

    /// Writes the Call of a step with the values of this run, and with this header if its own cannot be used. Returns
    /// `true` if all values have room; that values are missing is noted in them.
    pub(super) fn emit_call(
        &mut self,
        step: &TraceStep<'_>,
        header: Option<Vec<u8>>,
        xid: Xid,
        slot: Option<(u32, u32)>,
    ) -> bool {
        self.values.begin_call(step.call.body);
        if let Some((session, slot)) = slot {
            self.values.use_slot(session, slot);
        }
        let header = header.as_deref().map_or(ReplayedRpcHeader::Xid(xid), ReplayedRpcHeader::New);
        emit(&step.call, header, &mut self.values, &mut self.call_buffer, &mut self.placed).is_ok()
    }

    /// Signs the emitted Call if the captured one was signed. Returns `true` if it is signed.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    pub(super) fn sign(&mut self, step: &TraceStep<'_>, xid: Xid) -> Result<bool, GssMechanismError> {
        let Some(signing) = &mut self.signing else { return Ok(false) };
        signing.last_signature = None;
        if !is_signed(step) {
            return Ok(false);
        }
        signing.sign(step, xid, (&self.call_buffer, &self.placed, &self.buffers))?;
        Ok(true)
    }

    /// Returns `true` if another signed Call would move one in flight out of the sequence window, so that the server
    /// would drop that silently. RFC 2203 section 5.3.3.1.
    pub(super) fn is_window_full(
        &self,
        step: &TraceStep<'_>,
        in_flight: impl Iterator<Item = GssReplyVerificationData>,
    ) -> bool {
        let Some(signing) = self.signing.as_ref().filter(|_| is_signed(step)) else { return false };
        let at = signing.context_index(step);
        let Some(current) = signing.contexts.get(at) else { return false };
        let of_context =
            in_flight.filter(|signature| (signature.context, signature.generation) == (at, current.generation));
        let oldest = of_context.map(|signature| signature.protection.sequence_number).min();
        oldest.is_some_and(|oldest| current.context.is_beyond(oldest))
    }

    /// Succeeds if the Call of a step on this connection can be signed now or is not to be signed.
    ///
    /// # Errors
    /// Returns the reason why the step cannot be sent.
    pub(super) fn check_signing(&self, step: &TraceStep<'_>, connection: usize) -> Result<(), StepSendObstacle> {
        let Some(signing) = self.signing.as_ref().filter(|_| is_signed(step)) else { return Ok(()) };
        match signing.contexts.get(signing.context_index(step)).map(RenewableGssContext::is_ready) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(GssUnsignedCallReason::NotYet)) => Err(StepSendObstacle::Parked(connection)),
            Some(Err(GssUnsignedCallReason::Never(reason))) => {
                Err(StepSendObstacle::unreplayable(format_args!("security: {reason}")))
            }
        }
    }
}
