//! State that a capture requires from before its start: clients, sessions and opens.
//!
//! Delegations and locks cannot be created. The file is opened in their place, with an open-owner of this program, as
//! for a delegation that the live server does not grant: steps use the stateid of that open, and DELEGRETURN is
//! replaced by its CLOSE. The open in place of a lock stays open.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{Args, Clientid4, CompoundCall, CompoundReply, Nfsstat4};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::synchronous_client::RpcClient;
use nfsrdma_rpc::{ConnectTarget, RpcClientTransport, TransportErrorResponsibility};
use rustc_hash::{FxHashMap, FxHashSet};

use super::live_values::{LiveServerSession, LiveVariableValues};
use super::report::SynthesizedStateCounts;
use crate::containment::{Containment, ContainmentCheckedRpcClient};
use crate::root_credential;
use crate::run::run_error::ReplayRunError;
use crate::seed::file_server_client::FileServerClientError;
use crate::seed::v4::{ClientidAndSessionState, Nfs4Client};
use crate::trace::error::TraceError;
use crate::trace::file_format::TraceFileType;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep, stateid_use};

/// Maximum number of values that are created.
const MAX_VALUES: usize = 1 << 16;

/// A captured client, once per minor version of NFSv4: a session has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ClientOfMinorVersion {
    client: u32,
    minor_version: u32,
}

#[derive(Debug, Default)]
struct MissingClientState {
    sessions: FxHashSet<u32>,
    clientids: FxHashSet<u32>,
    opens: Vec<MissingStateid>,
    /// `true` if the client sends RECLAIM_COMPLETE in the trace; `None` until a step tells.
    completes: Option<bool>,
}

impl MissingClientState {
    /// Returns `true` if the client must be complete before the trace: no step completes it, or files are to be opened.
    fn must_be_complete(&self) -> bool {
        self.completes != Some(true) || !self.opens.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct MissingStateid {
    variable: u32,
    /// Variable of the filehandle of its file.
    file: u32,
    access: u32,
    /// `true` if a step opens the file again: the stateid is then that of its own open, and no step closes this one.
    is_reopened: bool,
}

#[derive(Debug, Default)]
pub(super) struct PreexistingStateSetupResult {
    pub(super) counts: SynthesizedStateCounts,
    /// Variables of delegations in whose place the file was opened.
    pub(super) delegations: Vec<u32>,
    /// `true` if an open is in the place of a lock, or a step opens its file again, so that no step closes it.
    pub(super) leaves_open: bool,
    /// Captured clients of NFSv4.0, with the client IDs made for them.
    pub(super) clientids: Vec<(u32, Clientid4)>,
    /// Stateids that could not be created: the variable, and the reason.
    pub(super) refused: Vec<(u32, String)>,
    /// Failures with the party at fault.
    pub(super) faults: Vec<(TransportErrorResponsibility, String)>,
    /// Clients that the server refused, with the reason. Others follow, unless the server does not answer.
    pub(super) refused_clients: Vec<String>,
}

/// Creates the missing state and assigns it to its variables.
///
/// # Errors
/// Returns an error if the server cannot be reached or the trace is damaged.
pub(super) fn create_missing_state(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
    transport: &mut dyn RpcClientTransport,
    target: &ConnectTarget,
    tag: &str,
    values: &mut LiveVariableValues,
    containment: &mut Containment,
) -> Result<PreexistingStateSetupResult, ReplayRunError> {
    let mut result = PreexistingStateSetupResult::default();
    let mut clients = missing_state(trace)?.into_iter();
    while let Some((ClientOfMinorVersion { client, minor_version }, missing)) = clients.next() {
        let connection = transport.connect(target)?;
        let xid = Xid(hash(format!("{tag} prologue {client} {minor_version}").as_bytes()) as u32);
        let rpc_client = RpcClient::new(transport, connection, root_credential(), xid, target.options.timeout)
            .with_reconnect(target);
        let rpc_client = ContainmentCheckedRpcClient::new(rpc_client, containment);
        let name = format!("{} {tag} {client}.{minor_version}", crate::PROGRAM);
        let registered = match missing.must_be_complete() {
            true => Nfs4Client::new(rpc_client, &name, &[minor_version]),
            false => Nfs4Client::without_completion(rpc_client, &name, minor_version),
        };
        let mut files = match registered {
            Ok(files) => files,
            // Steps that use the missing values report them. If the server does not answer for one client, the
            // remaining ones would each time out as well.
            Err(problem) => {
                result.refused_clients.push(problem.to_string());
                let failure = problem.is_server_failure().then_some(TransportErrorResponsibility::Server);
                let blame = problem.blame().or(failure);
                result.faults.extend(blame.map(|blame| (blame, problem.to_string())));
                match problem {
                    FileServerClientError::Refused(..) => continue,
                    FileServerClientError::Busy(..) | FileServerClientError::Call(_) => {
                        if clients.len() > 0 {
                            result.refused_clients.push(format!("{} more were not tried", clients.len()));
                        }
                        break;
                    }
                }
            }
        };
        for (owner, open) in missing.opens.iter().enumerate() {
            let Some(handle) = values.get(open.file).map(<[u8]>::to_vec) else { continue };
            let access = match open.access & (stateid_use::READ | stateid_use::WRITE) {
                // A delegation or lock that no step uses: reading is refused least.
                0 => stateid_use::READ,
                access => access,
            };
            match files.open(&handle, owner as u32, access) {
                Ok(stateid) => {
                    values.set_value(open.variable, &stateid.other);
                    values.set_seqid(open.variable, stateid.seqid);
                    result.counts.opens += 1;
                    if open.access & stateid_use::DELEGATION != 0 {
                        result.delegations.push(open.variable);
                    }
                    result.leaves_open |= open.is_reopened
                        || open.access & (stateid_use::LOCK | stateid_use::DELEGATION) == stateid_use::LOCK;
                }
                Err(problem) => {
                    // The file is there, and can be opened.
                    let failure = problem.is_server_failure().then_some(TransportErrorResponsibility::Server);
                    let blame = problem.blame().or(failure);
                    result.faults.extend(blame.map(|blame| (blame, problem.to_string())));
                    result.refused.push((open.variable, problem.to_string()));
                }
            }
        }
        // A session that no step uses would keep DESTROY_CLIENTID from succeeding: RFC 8881 section 18.50.3.
        if missing.sessions.is_empty() {
            files.destroy_session();
        }
        match files.hand_over() {
            None => {}
            Some(ClientidAndSessionState::Session { clientid, create_sequence, id, sequence, slots, limits }) => {
                for variable in &missing.sessions {
                    values.set_value(*variable, &id);
                    let session = LiveServerSession::with_used_slot(slots, sequence)
                        .with_limits(limits, limits)
                        .with_holder(client, minor_version);
                    values.open_session(*variable, session);
                }
                for variable in &missing.clientids {
                    values.set_value(*variable, &clientid.to_be_bytes());
                    values.set_create_sequence(*variable, create_sequence);
                }
            }
            Some(ClientidAndSessionState::Client { clientid }) => {
                result.clientids.push((client, clientid));
                for variable in &missing.clientids {
                    values.set_value(*variable, &clientid.to_be_bytes());
                }
            }
        }
        result.counts.clients += 1;
    }
    Ok(result)
}

/// Returns `true` if an operation of a COMPOUND, by its index, is an OPEN.
fn is_open(step: &TraceStep<'_>, operation: u32) -> bool {
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver);
    let operation = call.ok().and_then(|call| call.operations().nth(operation as usize)?.ok());
    matches!(operation, Some(Args::OPEN(_)))
}

/// Returns `true` for a step whose client completes its registration for the first time, `false` if an earlier one
/// did so or another one registers, and `None` if the step does not tell. RFC 8881 section 18.51.3: a client opens no file
/// before, but to reclaim it.
fn completes(step: &TraceStep<'_>) -> Option<bool> {
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    call.operations().map_while(Result::ok).find_map(|operation| match operation {
        Args::RECLAIM_COMPLETE(args) if !args.rca_one_fs => Some(!has_failed(step)),
        Args::EXCHANGE_ID(_) | Args::OPEN(_) | Args::LOCK(_) => Some(false),
        _ => None,
    })
}

/// Returns `true` if the reply of a COMPOUND reports a failure.
fn has_failed(step: &TraceStep<'_>) -> bool {
    let items = step.reply.items();
    let mut cursor = step.reply.body_cursor().with_chunks(&items);
    let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver);
    reply.is_ok_and(|reply| reply.head.status != Nfsstat4::NFS4_OK)
}

fn missing_state(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
) -> Result<BTreeMap<ClientOfMinorVersion, MissingClientState>, TraceError> {
    let mut clients: BTreeMap<ClientOfMinorVersion, MissingClientState> = BTreeMap::new();
    let mut undefined_values: FxHashMap<u32, (TraceSlotValueKind, u32, u32)> = FxHashMap::default();
    let mut objects: FxHashSet<u32> = FxHashSet::default();
    trace.for_each_undefined(|value| {
        if matches!(
            value.value_kind,
            TraceSlotValueKind::SESSION | TraceSlotValueKind::CLIENTID | TraceSlotValueKind::STATEID
        ) && undefined_values.len() < MAX_VALUES
        {
            undefined_values.insert(value.variable, (value.value_kind, value.object, value.access));
            objects.insert(value.object);
        }
    })?;
    if undefined_values.is_empty() {
        return Ok(clients);
    }
    // Files only: a directory cannot be opened in place of its delegation.
    let mut handles: FxHashMap<u32, u32> = FxHashMap::default();
    trace.for_each_object(|object| {
        if objects.contains(&object.number)
            && object.file_type != TraceFileType::DIRECTORY
            && let Some(handle) = object.handles.iter().next()
        {
            handles.insert(object.number, handle);
        }
    })?;
    // Client of each stateid, and its index among the missing ones.
    let mut opened: FxHashMap<u32, (ClientOfMinorVersion, usize)> = FxHashMap::default();
    trace.for_each_step(|step| {
        if step.procedure.minor_version == NONE || step.caller.is_reverse {
            return;
        }
        for slot in step.reply.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::STATEID) {
            let Some((client, at)) = opened.get(&slot.variable) else { continue };
            let open = clients.get_mut(client).and_then(|missing| missing.opens.get_mut(*at));
            if let Some(open) = open.filter(|open| !open.is_reopened) {
                open.is_reopened = is_open(step, slot.operation);
            }
        }
        for slot in step.call.slots.iter().filter(|slot| !slot.value_kind.is_count()) {
            let Some((kind, object, access)) = undefined_values.remove(&slot.variable) else { continue };
            let minor_version = step.procedure.minor_version;
            let client = ClientOfMinorVersion { client: step.caller.client, minor_version };
            let missing = clients.entry(client).or_default();
            match kind {
                TraceSlotValueKind::SESSION => _ = missing.sessions.insert(slot.variable),
                TraceSlotValueKind::CLIENTID => _ = missing.clientids.insert(slot.variable),
                // NFSv4.0 opens by name alone.
                _ if minor_version > 0 => {
                    if let Some(file) = handles.get(&object).copied() {
                        opened.insert(slot.variable, (client, missing.opens.len()));
                        let stateid = MissingStateid { variable: slot.variable, file, access, is_reopened: false };
                        missing.opens.push(stateid);
                    }
                }
                _ => {}
            }
        }
        let client = ClientOfMinorVersion { client: step.caller.client, minor_version: step.procedure.minor_version };
        if let Some(missing) = clients.get_mut(&client).filter(|missing| missing.completes.is_none()) {
            missing.completes = completes(step);
        }
    })?;
    clients.retain(|_, missing| {
        !(missing.sessions.is_empty() && missing.clientids.is_empty() && missing.opens.is_empty())
    });
    Ok(clients)
}
