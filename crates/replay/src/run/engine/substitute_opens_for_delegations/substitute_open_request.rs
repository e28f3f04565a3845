//! Requests for substitute opens, derived from a step of the trace, and the Calls that carry them out.

use std::collections::VecDeque;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, Close4Args, CompoundCall, CompoundReply, Delegreturn4Args, GetDirDelegation4ResNonFatal, ObjectFh4,
    Open4Args, OpenClaim4, OpenConfirm4Args, OpenOwner4, OpenRflags, Openflag4, Opentype4, Results, ShareAccess,
    ShareDeny, Stateid4,
};
use nfsrdma_dissectors::xdr::{Opaque, Text};
use nfsrdma_nfs_model::names::claimed_name;
use nfsrdma_nfs_model::v4::filehandles::{Filehandles, Handles};

use super::super::super::recovery::recoverable_client_state::{MAX_OPERATIONS, slot_variable};
use super::super::reply_check_queue::LiveReply;
use super::super::step_window::StepWindowEntry;
use crate::run::captured_open_grants::CapturedStepOpenGrants;
use crate::run::rpc_header_splitting::{split_header, successful_results};
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};
use crate::trace::value_substitution::TracePayloadInMessage;

/// OPEN4_SHARE_ACCESS_WANT_NO_DELEG. RFC 8881 section 18.16.1.
const WANT_NO_DELEGATION: u32 = ShareAccess::OPEN4_SHARE_ACCESS_WANT_NO_DELEG.0;

/// A file to be opened and an open to be closed.
#[derive(Clone, Debug, Default)]
pub(super) struct DelegationSubstituteOpenRequest {
    /// Variable of the missing delegation and the access that it gave; `None` if no delegation is missing.
    pub(super) delegation: Option<(u32, ShareAccess)>,
    /// Open that the captured client did not have.
    pub(super) surplus_open: Option<Stateid4>,
    /// Delegation that was not in the capture.
    pub(super) unwanted: Option<Stateid4>,
    /// Open that must be confirmed and was not in the capture.
    pub(super) unconfirmed: Option<UnconfirmedLiveOpen>,
    pub(super) minor_version: u32,
    /// Client ID of the OPEN and its variable; 0 and `None` from NFSv4.1 on.
    pub(super) clientid: u64,
    pub(super) client_variable: Option<u32>,
    /// RPC header of the OPEN's Call, with its credential.
    pub(super) header: Box<[u8]>,
    pub(super) file: Box<[u8]>,
    /// Directory and name, for NFSv4.0, which opens by name only.
    pub(super) name: Option<[Box<[u8]>; 2]>,
}

/// An open of the captured owner that the live server wants confirmed.
#[derive(Clone, Debug)]
pub(super) struct UnconfirmedLiveOpen {
    pub(super) stateid: Stateid4,
    /// Variables of the stateid and of the owner.
    pub(super) variables: [u32; 2],
}

/// Task of the next Call.
#[derive(Clone, Debug)]
pub(super) enum DelegationSubstituteCall {
    /// OPEN_CONFIRM of the captured owner.
    ConfirmCaptured(UnconfirmedLiveOpen),
    Open,
    /// OPEN_CONFIRM of this program's owner. RFC 7530 section 16.18.
    Confirm(Stateid4),
    /// DELEGRETURN of a delegation that the capture does not have. RFC 8881 section 18.6.
    ReturnDelegation(Stateid4),
}

impl DelegationSubstituteOpenRequest {
    pub(super) fn stages(&self) -> VecDeque<DelegationSubstituteCall> {
        let mut stages = VecDeque::new();
        stages.extend(self.unconfirmed.clone().map(DelegationSubstituteCall::ConfirmCaptured));
        if self.delegation.is_some() || self.surplus_open.is_some() {
            stages.push_back(DelegationSubstituteCall::Open);
        }
        stages.extend(self.unwanted.clone().map(DelegationSubstituteCall::ReturnDelegation));
        stages
    }

    /// Returns the request that the OPEN or GET_DIR_DELEGATION of a step makes necessary. `missing` is the delegation
    /// that the live Reply lacks: its variable and operation.
    pub(super) fn of(
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        reply: LiveReply<'_>,
        missing: Option<(u32, u32)>,
    ) -> Option<Self> {
        let opens = CapturedStepOpenGrants::recorded(step);
        let items = TracePayloadInMessage::items(&entry.call.placed);
        let (header, mut arguments) = split_header(&entry.call.message, &items)?;
        let mut results = successful_results(reply.cursor())?;
        let call = CompoundCall::decode(&mut arguments, &mut NullFieldObserver).ok()?;
        let results = CompoundReply::decode(&mut results, &mut NullFieldObserver).ok()?;
        let pairs = call.operations().map_while(Result::ok).zip(results.operations().map_while(Result::ok));
        let minor_version = call.head.minorversion;
        let mut filehandles = Filehandles::new(minor_version);
        let mut handles = Handles::default();
        // Object of the request.
        let mut opened = None;
        let mut request: Option<Self> = None;
        for (at, (args, results)) in pairs.take(MAX_OPERATIONS).enumerate() {
            let objects = filehandles.apply(args.operation(), Some(&args));
            handles.learn(&objects, Some(&results));
            match (&args, &results) {
                (Args::GET_DIR_DELEGATION(_), Results::GET_DIR_DELEGATION(StatusUnion::Ok(ok)))
                    if request.is_none() && slot_variable(&step.reply, TraceSlotValueKind::STATEID, at) == NONE =>
                {
                    if let GetDirDelegation4ResNonFatal::Ok(granted) = &**ok {
                        opened = objects.current;
                        request = Some(Self {
                            unwanted: Some(granted.gddr_stateid.clone()),
                            minor_version,
                            header: header.into(),
                            ..Self::default()
                        });
                    }
                }
                (Args::OPEN(args), Results::OPEN(StatusUnion::Ok(ok))) if request.is_none() => {
                    let delegation = missing.filter(|(_, operation)| *operation as usize == at);
                    let has_open = !ok.rflags.contains(OpenRflags::OPEN4_RESULT_NO_OPEN_STATEID);
                    // If the owner had the file open before, other steps close it.
                    let is_surplus = has_open && ok.stateid.seqid == 1 && opens.granted_only_delegation(at);
                    let name = claimed_name(&args.claim).and_then(|name| {
                        let directory = handles.of(objects.current)?;
                        Some([directory.into(), name.into()])
                    });
                    let must_confirm = minor_version == 0
                        && ok.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM)
                        && !opens.must_confirm(at);
                    // One of another type than the captured one counts as missing.
                    let is_unwanted = delegation.is_some() || opens.delegated_access(at) == 0;
                    let unwanted = ok.delegation.stateid().filter(|_| is_unwanted);
                    if delegation.is_some() || is_surplus || must_confirm || unwanted.is_some() {
                        let access = args.share_access.0 & ShareAccess::OPEN4_SHARE_ACCESS_BOTH.0;
                        let access = access | opens.delegated_access(at);
                        opened = objects.next;
                        request = Some(Self {
                            delegation: delegation.map(|(variable, _)| (variable, ShareAccess(access))),
                            surplus_open: is_surplus.then(|| ok.stateid.clone()),
                            unconfirmed: must_confirm.then(|| UnconfirmedLiveOpen {
                                stateid: ok.stateid.clone(),
                                variables: [
                                    slot_variable(&step.reply, TraceSlotValueKind::STATEID, at),
                                    slot_variable(&step.call, TraceSlotValueKind::OPEN_SEQID, at),
                                ],
                            }),
                            unwanted: unwanted.cloned(),
                            clientid: args.owner.clientid,
                            minor_version,
                            client_variable: step.call.variable(TraceSlotValueKind::CLIENTID),
                            header: header.into(),
                            name,
                            ..Self::default()
                        });
                    }
                }
                _ => {}
            }
        }
        let file = handles.of(opened).unwrap_or_default();
        let request = Self { file: file.into(), ..request? };
        let can_open = request.minor_version > 0 || request.name.is_some() || request.delegation.is_none();
        (can_open && !request.file.is_empty()).then_some(request)
    }

    /// Returns the variable of the owner whose seqid the Call of a stage counts, if it counts one. Substitutes count
    /// under the variable of their delegation.
    pub(super) fn seqid_owner(&self, stage: &DelegationSubstituteCall) -> Option<u32> {
        match stage {
            DelegationSubstituteCall::ConfirmCaptured(UnconfirmedLiveOpen { variables: [_, owner], .. }) => {
                Some(*owner)
            }
            DelegationSubstituteCall::Open | DelegationSubstituteCall::Confirm(_) => {
                self.delegation.map(|(variable, _)| variable)
            }
            DelegationSubstituteCall::ReturnDelegation(_) => None,
        }
    }

    /// Returns the operations of the next Call, without SEQUENCE.
    pub(super) fn operations<'w>(
        &'w self,
        stage: &DelegationSubstituteCall,
        owner: &'w [u8],
        seqid: u32,
    ) -> Vec<Args<'w>> {
        let putfh = |handle: &'w [u8]| Args::PUTFH(ObjectFh4 { object: Opaque(handle) });
        if let DelegationSubstituteCall::Confirm(stateid)
        | DelegationSubstituteCall::ConfirmCaptured(UnconfirmedLiveOpen { stateid, .. }) = stage
        {
            let confirm = OpenConfirm4Args { open_stateid: stateid.clone(), seqid };
            return vec![putfh(&self.file), Args::OPEN_CONFIRM(confirm)];
        }
        if let DelegationSubstituteCall::ReturnDelegation(stateid) = stage {
            let args = Delegreturn4Args { deleg_stateid: stateid.clone() };
            return vec![putfh(&self.file), Args::DELEGRETURN(args)];
        }
        let mut operations = Vec::new();
        if let Some((_, access)) = self.delegation {
            let (handle, claim, want_flags) = match &self.name {
                Some([directory, name]) if self.minor_version == 0 => (directory, OpenClaim4::Null(Text(name)), 0),
                _ => (&self.file, OpenClaim4::Fh, WANT_NO_DELEGATION),
            };
            operations.push(putfh(handle));
            operations.push(Args::OPEN(Open4Args {
                seqid,
                share_access: ShareAccess(access.0 | want_flags),
                share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
                owner: OpenOwner4 { clientid: self.clientid, owner: Opaque(owner) },
                openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
                claim,
            }));
        }
        if let Some(stateid) = &self.surplus_open {
            operations.push(putfh(&self.file));
            operations.push(Args::CLOSE(Close4Args { seqid: 0, open_stateid: stateid.clone() }));
        }
        operations
    }
}
