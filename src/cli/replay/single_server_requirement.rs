//! Refuses a trace whose steps were sent to several servers. A replay has one server and one tree, and a client that
//! was registered at two servers cannot be registered twice at one (RFC 8881 section 2.4).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_replay::run_plan::step_replayability::StepReplayabilityAnalyzer;
use nfsrdma_replay::trace::{NONE, TraceError};
use rustc_hash::FxHashSet;

use super::step_selection::StepSelection;
use super::target_server_options::{ReplayTraceFileReader, open_trace};

/// Maximum number of servers that the message names.
const MAX_NAMED_SERVERS: usize = 5;

/// Returns the numbers of the objects of other servers than that of the selected steps, which need not be seeded.
/// `option` selects the steps of one server.
///
/// # Errors
/// Returns an error if the trace cannot be read, or if the selected steps that run belong to more than one server.
pub(super) fn require_single_server(
    path: &Path,
    selection: &StepSelection,
    option: &str,
) -> Result<Arc<FxHashSet<u32>>> {
    let mut trace = open_trace(path)?;
    // Most traces are not read for this.
    if trace.summary().hosts.iter().filter(|host| host.is_server).count() < 2 {
        return Ok(Arc::default());
    }
    let unreadable = |error: TraceError| anyhow!("{}: {error}", path.display());
    let used_servers = servers_of_steps(&mut trace, selection).map_err(unreadable)?;
    let hosts = trace.summary().hosts.iter();
    let servers: Vec<_> = hosts
        .filter(|host| host.is_server && used_servers.contains(&host.number))
        .map(|host| host.address.as_str())
        .collect();
    let [first, _, ..] = servers[..] else {
        return Ok(Arc::new(objects_of_other_servers(&mut trace, &used_servers).map_err(unreadable)?));
    };
    let mut server_list = servers.iter().take(MAX_NAMED_SERVERS).copied().collect::<Vec<_>>().join(", ");
    if servers.len() > MAX_NAMED_SERVERS {
        server_list += ", ...";
    }
    bail!(
        "{}: the trace has {} servers ({server_list}), and a replay has one; choose one, e.g. with {option} \
         'nfsrdma.server == {first}'",
        path.display(),
        servers.len()
    )
}

/// Returns the numbers of the servers of the NFS steps that run.
fn servers_of_steps(
    trace: &mut ReplayTraceFileReader,
    selection: &StepSelection,
) -> Result<FxHashSet<u32>, TraceError> {
    let mut planner = StepReplayabilityAnalyzer::new(trace)?.with_selection(selection.chosen.clone(), selection.gss);
    let mut servers = FxHashSet::default();
    trace.for_each_step(|step| {
        let is_sent = planner.plan_step(step).state().is_sent();
        let is_nfs = matches!(Program(step.procedure.program), Program::NFS | Program::NFSACL);
        // NULL has no effect. MOUNT and NLM may have other addresses than NFS.
        if is_sent && is_nfs && step.procedure.number != 0 && step.caller.server != NONE {
            servers.insert(step.caller.server);
        }
    })?;
    trace.rewind();
    Ok(servers)
}

/// Returns the numbers of the objects of other servers. MOUNT may have another address than NFS: an object whose
/// filehandle the used server has is not one of them.
fn objects_of_other_servers(
    trace: &mut ReplayTraceFileReader,
    used_servers: &FxHashSet<u32>,
) -> Result<FxHashSet<u32>, TraceError> {
    let mut used_handles = FxHashSet::default();
    trace.for_each_step(|step| {
        if used_servers.contains(&step.caller.server) {
            used_handles.extend(step.filehandles());
        }
    })?;
    let mut excluded = FxHashSet::default();
    trace.for_each_object(|object| {
        if !used_servers.contains(&object.server) && !object.handles.iter().any(|handle| used_handles.contains(&handle))
        {
            excluded.insert(object.number);
        }
    })?;
    trace.rewind();
    Ok(excluded)
}
