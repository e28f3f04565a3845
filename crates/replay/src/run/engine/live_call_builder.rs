//! Calls of a run: the values, stateids and signatures that they need, and the check that each must pass.

use std::time::SystemTime;

use nfsrdma_dissectors::nfs::v4::Bitmap4;
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::live_values::LiveVariableValues;
use super::super::recovery::recoverable_client_state::RecoverableState;
use super::cb_getattr::CapturedCbGetattrAnswers;
use super::delegation_substitutes::DelegationSubstitutes;
use super::io_split::UnboundVariableReason;
use super::rpcsec_gss::GssCallSigner;
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
    pub(super) substitutes: DelegationSubstitutes,
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
    /// Returns the mask words and values of the attributes for which the live server asks in CB_GETATTR.
    pub(super) fn next_cb_getattr_attributes(
        &mut self,
        handle: &[u8],
        requested: &Bitmap4<'_>,
    ) -> Option<(Vec<u32>, Vec<u8>)> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
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
}
