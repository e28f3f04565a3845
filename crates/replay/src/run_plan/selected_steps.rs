//! The steps of a trace that a display filter selects, with the steps that these need: those that defined their
//! filehandles, stateids and sessions, and those that registered their clients.

use std::io::{Read, Seek};

use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{self, Operation};
use nfsrdma_nfs_model::{self as model, Naming};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{SubstitutableMessageSlot, TraceSlotValueKind, TraceStep, VariableUseKind};
use crate::trace::step_to_transaction_conversion::StepToTransactionConverter;

/// Number of step IDs per page.
const PAGE: u64 = 4_096;
/// Maximum number of pages: 64 MiB for the IDs of 536,870,912 steps.
const PAGES: usize = 1 << 17;
/// Maximum number of opens, of directories and of clients that are tracked.
const MAX_REMEMBERED: usize = 1 << 20;
/// Maximum number of passes over the steps to find the needed ones: the first, and another for steps stored out of
/// order.
const MAX_PASSES: usize = 64;

/// A set of step IDs, with one bit each.
#[derive(Clone, Debug, Default)]
struct StepIdSet {
    pages: FxHashMap<u64, Box<[u64; (PAGE / 64) as usize]>>,
    count: u64,
    dropped: u64,
}

impl StepIdSet {
    fn contains(&self, id: u64) -> bool {
        let word = self.pages.get(&(id / PAGE)).and_then(|page| page.get((id % PAGE / 64) as usize));
        word.is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// Adds an ID. Returns `true` if it is new.
    fn add(&mut self, id: u64) -> bool {
        if self.pages.len() >= PAGES && !self.pages.contains_key(&(id / PAGE)) {
            self.dropped += 1;
            return false;
        }
        let page = self.pages.entry(id / PAGE).or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
        let Some(word) = page.get_mut((id % PAGE / 64) as usize) else { return false };
        let is_new = *word >> (id % 64) & 1 == 0;
        *word |= 1 << (id % 64);
        self.count += u64::from(is_new);
        is_new
    }
}

/// The steps that run.
#[derive(Clone, Debug, Default)]
pub struct SelectedSteps {
    ids: StepIdSet,
    /// Number of steps that the filter selects.
    pub selected: u64,
    /// Number of other steps that these need.
    pub needed: u64,
    /// Number of additions that failed at the memory limit: their steps do not run.
    pub dropped: u64,
}

impl SelectedSteps {
    /// Selects steps of a trace, which is opened twice.
    ///
    /// # Errors
    /// Returns an error if the trace is truncated or damaged.
    pub fn select<R: Read + Seek>(
        steps: &mut ReplayTraceReader<R>,
        contents: &mut ReplayTraceReader<R>,
        filter: Filter,
    ) -> Result<Self, TraceError> {
        let mut selection = FilterRunner::new(filter, &CommandMemoryBudget::default());
        let mut retelling = StepToTransactionConverter::for_trace(steps.summary());
        let (mut ids, mut clients) = (StepIdSet::default(), FxHashSet::default());
        steps.rewind();
        while let Some(step) = steps.next_step()? {
            let (transaction, _) = retelling.transaction(&step, contents)?;
            let selected =
                transaction.with_messages(|reading| selection.transaction(None, &transaction, reading, None));
            if selected.is_some() {
                ids.add(step.origin.id);
                if clients.len() < MAX_REMEMBERED {
                    clients.insert((step.caller.client, step.caller.server));
                }
            }
        }
        let selected = ids.count;
        steps.for_each_step(|step| {
            if clients.contains(&(step.caller.client, step.caller.server)) && is_client_setup(step) {
                ids.add(step.origin.id);
            }
        })?;
        // A needed step is stored before the step that needs it, unless it was stored out of order.
        for _ in 0..MAX_PASSES {
            let before = ids.count;
            let mut behind = LaterStepRequirements::default();
            steps.for_each_step_backward(|step| add_required_steps(step, &mut ids, &mut behind))?;
            if ids.count == before {
                break;
            }
        }
        steps.rewind();
        Ok(Self { selected, needed: ids.count - selected, dropped: ids.dropped, ids })
    }

    /// Returns `true` if the step with this ID runs.
    pub fn contains(&self, id: u64) -> bool {
        self.ids.contains(id)
    }
}

/// State from the steps after the current one.
#[derive(Debug, Default)]
struct LaterStepRequirements {
    /// The step that confirms the open of a stateid.
    confirming_steps: FxHashMap<u32, u64>,
    /// Directories in which a step that runs removes or replaces an existing name.
    directories: FxHashSet<u32>,
}

fn add_required_steps(step: &TraceStep<'_>, ids: &mut StepIdSet, behind: &mut LaterStepRequirements) {
    let filehandles = || step.call.variables(TraceSlotValueKind::FILEHANDLE);
    let naming = naming(step);
    // The Reply of REMOVE or RENAME does not identify the object, so all steps that change names in the directory run.
    if naming != Naming::Kept && filehandles().any(|directory| behind.directories.contains(&directory)) {
        ids.add(step.origin.id);
    }
    if ids.contains(step.origin.id) {
        let used = step.call.slots.iter().filter(|slot| slot.part.uses_value());
        // The objects of filehandles that the Reply repeats must exist by then.
        let again = step.reply.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE);
        for slot in used.chain(again).filter(|slot| !slot.value_kind.is_count() && slot.definition != 0) {
            ids.add(slot.definition);
        }
        // An unconfirmed open is unusable (RFC 7530 section 16.18).
        let is_new = |slot: &SubstitutableMessageSlot| {
            slot.value_kind == TraceSlotValueKind::STATEID && slot.part == VariableUseKind::DEFINED
        };
        let opened = step.reply.slots.iter().filter(is_new);
        opened.filter_map(|slot| behind.confirming_steps.get(&slot.variable)).for_each(|confirm| {
            ids.add(*confirm);
        });
        if naming == Naming::Replaces && behind.directories.len() < MAX_REMEMBERED {
            behind.directories.extend(filehandles());
        }
    } else if operations(step).contains(&Operation::OPEN_CONFIRM)
        && behind.confirming_steps.len() < MAX_REMEMBERED
        && let Some(stateid) = step.call.variable(TraceSlotValueKind::STATEID)
    {
        behind.confirming_steps.insert(stateid, step.origin.id);
    }
}

/// Returns what a step does to names.
fn naming(step: &TraceStep<'_>) -> Naming {
    let naming = match step.procedure.find_description() {
        Some(Procedure::Compound) => {
            operations(step).into_iter().map(|operation| model::v4::meaning(operation).naming).max()
        }
        Some(Procedure::V2(procedure)) if !step.caller.is_reverse => Some(model::v2::meaning(procedure).naming),
        Some(Procedure::V3(procedure)) if !step.caller.is_reverse => Some(model::v3::meaning(procedure).naming),
        _ => None,
    };
    naming.unwrap_or(Naming::Kept)
}

/// Returns `true` if the step registers a client or sets up its session.
fn is_client_setup(step: &TraceStep<'_>) -> bool {
    operations(step).iter().any(|operation| {
        matches!(
            *operation,
            Operation::EXCHANGE_ID
                | Operation::CREATE_SESSION
                | Operation::BIND_CONN_TO_SESSION
                | Operation::RECLAIM_COMPLETE
                | Operation::SETCLIENTID
                | Operation::SETCLIENTID_CONFIRM
        )
    })
}

/// Returns the first eight operations of a COMPOUND; empty for any other procedure and for callbacks.
fn operations(step: &TraceStep<'_>) -> Vec<Operation> {
    if !matches!(step.procedure.find_description(), Some(Procedure::Compound)) || step.caller.is_reverse {
        return Vec::new();
    }
    let call = v4::CompoundCall::decode(&mut step.call.body_cursor(), &mut NullFieldObserver).ok();
    let operations = call.iter().flat_map(|call| call.operations().map_while(Result::ok));
    operations.map(|operation| operation.operation()).take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_remembered_once_and_no_other_is() {
        let mut ids = StepIdSet::default();
        assert!(ids.add(4_095) && ids.add(4_096) && !ids.add(4_095));
        assert!(ids.contains(4_095) && ids.contains(4_096));
        assert!(!ids.contains(0) && !ids.contains(4_094) && !ids.contains(1 << 40));
        assert_eq!(ids.count, 2);
    }
}
