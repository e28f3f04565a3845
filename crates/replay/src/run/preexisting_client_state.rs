//! State that a capture requires from before its start: clients, sessions and opens.

use std::io::{Read, Seek};

use nfsrdma_rpc::synchronous_client::RpcClient;
use nfsrdma_rpc::{ConnectTarget, RpcTransport};
use rustc_hash::{FxHashMap, FxHashSet};

use super::live_values::{LiveServerSession, LiveVariableValues};
use crate::containment::{ContainedRpcClient, Containment};
use crate::root_credential;
use crate::seed::file_server_client::FileServerError;
use crate::seed::v4::{Nfs4Client, Nfs4ClientHandover};
use crate::trace::{NONE, ReplayTraceReader, TraceError, TraceSlotValueKind};
use nfsrdma_dissectors::rpc::Xid;

/// Maximum number of values that are created.
const MAX_VALUES: usize = 1 << 16;

/// Missing state of one client.
#[derive(Debug, Default)]
struct MissingClientState {
    minor_version: u32,
    sessions: FxHashSet<u32>,
    clientids: FxHashSet<u32>,
    /// Stateids: variable, variable of the file, and access.
    opens: Vec<(u32, u32, u32)>,
}

/// An error that ends a prologue early.
#[derive(Debug)]
pub(super) enum PreexistingStateSetupError {
    /// Error in the trace.
    Trace(TraceError),
    /// Error of the server.
    Server(String),
    /// Error of the transport.
    Transport(nfsrdma_rpc::RpcTransportError),
}

/// Creates the missing state and assigns it to its variables. Returns the number of clients and opens created.
///
/// # Errors
/// Returns an error if the server refuses, cannot be reached, or the trace is damaged.
pub(super) fn create_missing_state(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
    transport: &mut dyn RpcTransport,
    target: &ConnectTarget,
    tag: &str,
    values: &mut LiveVariableValues,
    containment: &mut Containment,
) -> Result<u64, PreexistingStateSetupError> {
    let clients = missing_state(trace).map_err(PreexistingStateSetupError::Trace)?;
    let mut made = 0;
    for (client, missing) in clients {
        let connection = transport.connect(target).map_err(PreexistingStateSetupError::Transport)?;
        let xid = nfsrdma_analysis::comparison::record::hash(format!("{tag} prologue {client}").as_bytes());
        let line =
            RpcClient::new(transport, connection, root_credential(), Xid(xid as u32), target.options.timeout)
                .with_reconnect(target);
        let line = ContainedRpcClient::new(line, containment);
        let name = format!("{} {tag} {client}", crate::PROGRAM);
        let refused = |problem: FileServerError| PreexistingStateSetupError::Server(problem.to_string());
        let mut files = Nfs4Client::new(line, &name, &[missing.minor_version]).map_err(refused)?;
        for (owner, (variable, file, access)) in missing.opens.iter().enumerate() {
            let Some(handle) = values.get(*file).map(<[u8]>::to_vec) else { continue };
            // Steps that use the missing stateid report it.
            if let Ok(stateid) = files.open(&handle, owner as u32, *access) {
                values.set_value(*variable, &stateid.other);
                values.set_seqid(*variable, stateid.seqid);
                made += 1;
            }
        }
        // A session that no step uses would keep DESTROY_CLIENTID from succeeding: RFC 8881 section 18.50.3.
        if missing.sessions.is_empty() {
            files.destroy_session();
        }
        match files.hand_over() {
            Nfs4ClientHandover::Session { clientid, create_sequence, id, sequence, slots, limits } => {
                for variable in &missing.sessions {
                    values.set_value(*variable, &id);
                    let session =
                        LiveServerSession::with_used_slot(slots, sequence).with_limits(limits, limits);
                    values.open_session(*variable, session);
                }
                for variable in &missing.clientids {
                    values.set_value(*variable, &clientid.to_be_bytes());
                    values.set_create_sequence(*variable, create_sequence);
                }
            }
            Nfs4ClientHandover::Client { clientid } => missing.clientids.iter().for_each(|variable| {
                values.set_value(*variable, &clientid.to_be_bytes());
            }),
        }
        made += 1;
    }
    Ok(made)
}

/// Returns the missing state by client.
fn missing_state(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
) -> Result<Vec<(u32, MissingClientState)>, TraceError> {
    let mut wanted: FxHashMap<u32, (TraceSlotValueKind, u32, u32)> = FxHashMap::default();
    let mut objects: FxHashSet<u32> = FxHashSet::default();
    trace.for_each_undefined(|line| {
        if matches!(
            line.holds,
            TraceSlotValueKind::SESSION | TraceSlotValueKind::CLIENTID | TraceSlotValueKind::STATEID
        ) && wanted.len() < MAX_VALUES
        {
            wanted.insert(line.variable, (line.holds, line.object, line.access));
            objects.insert(line.object);
        }
    })?;
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut handles: FxHashMap<u32, u32> = FxHashMap::default();
    trace.for_each_object(|object| {
        if objects.contains(&object.number)
            && let Some(handle) = object.handles.iter().next()
        {
            handles.insert(object.number, handle);
        }
    })?;
    let mut clients: FxHashMap<u32, MissingClientState> = FxHashMap::default();
    trace.for_each_step(|step| {
        if step.asked.minor_version == NONE || step.caller.is_reverse {
            return;
        }
        for slot in step.call.slots.iter().filter(|slot| !slot.holds.is_count()) {
            let Some((holds, object, access)) = wanted.remove(&slot.variable) else { continue };
            let missing = clients.entry(step.caller.client).or_default();
            missing.minor_version = step.asked.minor_version;
            match holds {
                TraceSlotValueKind::SESSION => {
                    missing.sessions.insert(slot.variable);
                }
                TraceSlotValueKind::CLIENTID => {
                    missing.clientids.insert(slot.variable);
                }
                // Locks and delegations cannot be created by OPEN.
                _ if access & 12 == 0 => {
                    if let Some(handle) = handles.get(&object) {
                        missing.opens.push((slot.variable, *handle, access));
                    }
                }
                _ => {}
            }
        }
    })?;
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(client, _)| *client);
    Ok(clients)
}
