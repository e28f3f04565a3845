//! Refuses a trace whose steps were sent to several servers. A replay has one server and one tree, and a client that was
//! registered at two servers cannot be registered twice at one (RFC 8881 section 2.4).

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use rustc_hash::FxHashSet;

use super::server::{TraceFile, open_trace};
use super::step_selection::StepSelection;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_replay::run_plan::step_replayability::StepPlanner;
use nfsrdma_replay::trace::{NONE, TraceError};

/// Maximum number of servers that the message names.
const MAX_NAMED_SERVERS: usize = 5;

/// Returns an error if the selected steps that run belong to more than one server. `option` selects the steps of one.
pub(super) fn require_single_server(path: &Path, part: &StepSelection, option: &str) -> Result<()> {
    let mut trace = open_trace(path)?;
    // Most traces are not read for this.
    if trace.summary().hosts.iter().filter(|host| host.is_server).count() < 2 {
        return Ok(());
    }
    let used = servers_of_steps(&mut trace, part).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let hosts = trace.summary().hosts.iter();
    let servers: Vec<_> = hosts
        .filter(|host| host.is_server && used.contains(&host.number))
        .map(|host| host.address.as_str())
        .collect();
    let [first, _, ..] = servers[..] else { return Ok(()) };
    let mut named = servers.iter().take(MAX_NAMED_SERVERS).copied().collect::<Vec<_>>().join(", ");
    if servers.len() > MAX_NAMED_SERVERS {
        named += ", ...";
    }
    bail!(
        "{}: the trace has {} servers ({named}), and a replay has one; choose one, e.g. with {option} \
         'nfsrdma.server == {first}'",
        path.display(),
        servers.len()
    )
}

/// Returns the numbers of the servers of the NFS steps that run.
fn servers_of_steps(trace: &mut TraceFile, part: &StepSelection) -> Result<FxHashSet<u32>, TraceError> {
    let mut planner = StepPlanner::new(trace)?.with_selection(part.chosen.clone(), part.gss);
    let mut servers = FxHashSet::default();
    trace.for_each_step(|step| {
        let is_sent = planner.plan_step(step).state().is_sent();
        let is_nfs = matches!(Program(step.asked.program), Program::NFS | Program::NFSACL);
        // NULL has no effect. MOUNT and NLM may have other addresses than NFS.
        if is_sent && is_nfs && step.asked.procedure != 0 && step.caller.server != NONE {
            servers.insert(step.caller.server);
        }
    })?;
    trace.rewind();
    Ok(servers)
}
