//! The plan of a run, made before it starts: the steps that run, the steps that do not with their reasons, and the tree
//! that the run needs.
//!
//! - [`reason`]: reasons that a step does not run as it was captured;
//! - [`selected_steps`]: the steps that a filter selects, and the steps that these need;
//! - [`step_replayability`]: the decision about each step, which the run uses, too.

mod name_changes_resent_after_delay;
pub mod reason;
pub mod selected_steps;
pub mod step_replayability;

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::rc::Rc;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::{Procedure, v4};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Cursor;
use rustc_hash::{FxHashMap, FxHashSet};

use super::containment::is_plain_name;
use super::trace::error::TraceError;
use super::trace::file_format::{TraceFileSystemObject, TraceFileSystemObjectName, TraceFileType, TraceObjectOrigin};
use super::trace::reader::{ReplayTraceReader, TraceMetadata};
use super::trace::step::{NONE, PayloadContentState, TraceSlotValueKind, TraceStep};
use reason::{PlanReason, PlannedStepDisposition};
use selected_steps::SelectedSteps;
use step_replayability::{GssCallReplayPolicy, StepReplayabilityAnalyzer};

/// Maximum number of example steps per reason.
const MAX_EXAMPLES_PER_REASON: usize = 5;
/// Maximum number of operation names with a count of their own.
const MAX_OPERATION_NAMES: usize = 4_096;
/// Maximum number of listed objects.
const MAX_LISTED_OBJECTS: usize = 10_000;
/// Maximum number of directories that are known to have no safe name.
const MAX_UNSAFE_DIRECTORIES: usize = 1 << 20;
/// Maximum number of files whose initial content is counted.
const MAX_CONTENTS: usize = 1 << 20;
/// Maximum number of directories in a path.
const DEPTH: usize = 64;

/// An example step of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanReasonExample {
    /// ID of the step.
    pub step: u64,
    /// First frame of its Call, or of its Reply if the Call was not captured.
    pub frame: u64,
    /// The step that it needs, if the reason is about one.
    pub needs: Option<u64>,
}

/// The steps of a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReasonCount {
    /// Number of steps.
    pub steps: u64,
    /// Number of steps by operation.
    pub operations: BTreeMap<String, u64>,
    /// The first of these steps.
    pub examples: Vec<PlanReasonExample>,
}

/// Numbers of steps by state, in the order of [`PlannedStepDisposition::ALL`].
pub type PlanStepCounts = [u64; 4];

/// An object that seeding creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedObject {
    /// Path as far as it is known; empty if no name was captured.
    pub path: Vec<u8>,
    /// Type of the object.
    pub file_type: TraceFileType,
    /// Size in bytes.
    pub size: u64,
    /// Text of a symbolic link.
    pub target: Vec<u8>,
    /// Number of additional names.
    pub links: u64,
    /// Number of steps that use the object.
    pub uses: u64,
}

/// The tree that the trace expects before its first step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTreePlan {
    /// Number of objects that seeding creates, by type.
    pub objects: BTreeMap<TraceFileType, u64>,
    /// Number of objects that steps create.
    pub created: u64,
    /// The roots of paths, which exist on the server.
    pub roots: Vec<Vec<u8>>,
    /// Number of objects without a captured name.
    pub nameless: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Number of bytes of known content that are read before they are written.
    pub known_bytes: u64,
    /// Number of bytes of unknown content (at most a hash) that are read before they are written.
    pub unknown_bytes: u64,
    /// The first objects up to a limit, sorted by path.
    pub items: Vec<PlannedObject>,
}

/// The plan of a run of a trace.
#[derive(Clone, Debug)]
pub struct ReplayPlanSummary {
    /// The tables that describe the trace as a whole.
    pub summary: TraceMetadata,
    /// Numbers of steps by state.
    pub steps: PlanStepCounts,
    /// Numbers of steps by operation and state.
    pub operations: BTreeMap<String, PlanStepCounts>,
    /// Reasons that steps do not run as they were captured.
    pub reasons: BTreeMap<PlanReason, PlanReasonCount>,
    /// Number of variables that are used before a step defines them, by kind.
    pub undefined: BTreeMap<TraceSlotValueKind, u64>,
    /// The tree that the trace expects.
    pub tree: FileTreePlan,
    /// Number of variables of skipped steps that were dropped at the limit: steps that use them may not run either.
    pub dropped_variables: u64,
}

impl ReplayPlanSummary {
    /// Plans a run of a trace.
    ///
    /// # Errors
    /// Returns an error if the trace is truncated or damaged.
    pub fn new(trace: &mut ReplayTraceReader<impl Read + Seek>) -> Result<Self, TraceError> {
        Self::for_selection(trace, None, GssCallReplayPolicy::Sys)
    }

    /// Plans a run of the selected steps.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_selection(
        trace: &mut ReplayTraceReader<impl Read + Seek>,
        chosen: Option<Rc<SelectedSteps>>,
        gss: GssCallReplayPolicy,
    ) -> Result<Self, TraceError> {
        let mut judge = StepReplayabilityAnalyzer::new(trace)?.with_selection(chosen, gss).with_containment();
        let mut plan = Self {
            summary: trace.summary().clone(),
            steps: [0; 4],
            operations: BTreeMap::new(),
            reasons: BTreeMap::new(),
            undefined: BTreeMap::new(),
            tree: FileTreePlan::default(),
            dropped_variables: 0,
        };
        trace.for_each_step(|step| plan.add(step, judge.plan_step(step)))?;
        trace.for_each_undefined(|line| *plan.undefined.entry(line.value_kind).or_default() += 1)?;
        plan.dropped_variables = judge.dropped_variables;
        plan.tree.read_objects(trace)?;
        Ok(plan)
    }

    fn add(&mut self, step: &TraceStep<'_>, verdict: step_replayability::PlanDecision) {
        let name = operation(step);
        let at = PlannedStepDisposition::ALL.iter().position(|state| *state == verdict.state()).unwrap_or(0);
        count(&mut self.steps, at);
        // A hostile trace may have arbitrarily many names.
        let has_room = self.operations.len() < MAX_OPERATION_NAMES || self.operations.contains_key(&name);
        let name = if has_room { name } else { "other".to_owned() };
        count(self.operations.entry(name.clone()).or_default(), at);
        let Some(reason) = verdict.reason else { return };
        let because = self.reasons.entry(reason).or_default();
        because.steps += 1;
        *because.operations.entry(name).or_default() += 1;
        if because.examples.len() < MAX_EXAMPLES_PER_REASON {
            let frame = match step.origin.call_frame {
                0 => step.origin.reply_frame,
                frame => frame,
            };
            because.examples.push(PlanReasonExample { step: step.origin.id, frame, needs: verdict.needs });
        }
    }

    /// Returns the total number of steps.
    pub fn total(&self) -> u64 {
        self.steps.iter().sum()
    }
}

fn count(steps: &mut PlanStepCounts, at: usize) {
    if let Some(count) = steps.get_mut(at) {
        *count += 1;
    }
}

/// Returns the label of a step's operation, e.g. `NFS 4.2 READ` or `MOUNT 3 MNT`.
pub fn operation(step: &TraceStep<'_>) -> String {
    let numbers = &step.procedure;
    if numbers.program == NONE {
        return "Reply without its call".to_owned();
    }
    let program = Program(numbers.program);
    let procedure = numbers.find_description();
    let is_callback = program.is_transient() && procedure.is_some();
    let name = match program.name() {
        _ if is_callback => Program::NFS_CB.name().unwrap_or_default().to_owned(),
        Some(name) => name.to_owned(),
        None => format!("program {}", numbers.program),
    };
    let minor = if numbers.minor_version == NONE { String::new() } else { format!(".{}", numbers.minor_version) };
    let version = if numbers.version == NONE { String::new() } else { format!(" {}{minor}", numbers.version) };
    let body = step.call.head.0.get(step.call.body as usize..).unwrap_or_default();
    let mut cursor = Cursor::new(body);
    let named = match procedure {
        Some(Procedure::Compound) => v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver)
            .ok()
            .and_then(|call| call.main_operation().operation)
            .and_then(|operation| operation.name()),
        Some(Procedure::CbCompound) => v4::CbCompoundCall::decode(&mut cursor, &mut NullFieldObserver)
            .ok()
            .and_then(|call| call.main_operation().operation)
            .and_then(|operation| operation.name()),
        _ => None,
    };
    let operation = match named.or(procedure.map(Procedure::name)) {
        Some(name) => format!(" {name}"),
        None if numbers.number == NONE => ", procedure not captured".to_owned(),
        None => format!(" procedure {}", numbers.number),
    };
    format!("{name}{version}{operation}")
}

#[derive(Clone, Debug)]
struct PlanPathComponent {
    parent: u32,
    name: Box<[u8]>,
}

/// The path components of directories, by object number.
type PlanDirectoriesByObjectNumber = BTreeMap<u32, PlanPathComponent>;

impl FileTreePlan {
    fn read_objects(&mut self, trace: &mut ReplayTraceReader<impl Read + Seek>) -> Result<(), TraceError> {
        let unsafe_directories = unsafe_directories(trace)?;
        let contents = initial_contents(trace)?;
        let mut directories = PlanDirectoriesByObjectNumber::new();
        let mut shown: Vec<(Option<PlanPathComponent>, PlannedObject)> = Vec::new();
        trace.for_each_object(|object| {
            let is_root = object.existence == TraceObjectOrigin::ROOT;
            let names = || object.names.iter().filter(|name| is_root || is_safe(&unsafe_directories, name));
            let name = names().find(|name| is_root || name.parent != NONE);
            let links = names().skip(1).count() as u64;
            let is_unsafe = name.is_none() && object.is_named();
            let component = name.map(|name| PlanPathComponent { parent: name.parent, name: name.name.0.into() });
            if (is_root || object.file_type == TraceFileType::DIRECTORY)
                && directories.len() < MAX_LISTED_OBJECTS
                && let Some(component) = &component
            {
                directories.insert(object.number, component.clone());
            }
            match object.existence {
                TraceObjectOrigin::CREATED => self.created += u64::from(!is_unsafe),
                TraceObjectOrigin::ROOT if self.roots.len() >= MAX_LISTED_OBJECTS => {}
                TraceObjectOrigin::ROOT => self.roots.extend(component.map(|component| component.name.into_vec())),
                // Neither seeding nor a step creates an object under a name that is not sent, or below one.
                _ if is_unsafe => {}
                _ => {
                    *self.objects.entry(object.file_type).or_default() += 1;
                    self.nameless += u64::from(!object.is_named());
                    let content = contents.get(&object.number).copied().unwrap_or_default();
                    let is_file = object.file_type == TraceFileType::FILE;
                    let size = if is_file { object.size.max(content.end) } else { content.end };
                    self.bytes = self.bytes.saturating_add(size);
                    self.known_bytes += content.known_bytes;
                    self.unknown_bytes += content.unknown_bytes;
                    if shown.len() < MAX_LISTED_OBJECTS {
                        shown.push((component, PlannedObject { links, ..item(object) }));
                    }
                }
            }
        })?;
        self.items = shown
            .into_iter()
            .map(|(component, item)| PlannedObject {
                path: component.map(|component| path(&directories, &component)).unwrap_or_default(),
                ..item
            })
            .collect();
        self.items.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(())
    }
}

/// Content of a file from before the first step that steps read.
#[derive(Clone, Copy, Debug, Default)]
struct InitialContent {
    known_bytes: u64,
    unknown_bytes: u64,
    /// End of the last range.
    end: u64,
}

/// Returns the content that steps read before they write it, by the number of its file.
fn initial_contents(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
) -> Result<FxHashMap<u32, InitialContent>, TraceError> {
    let mut contents: FxHashMap<u32, InitialContent> = FxHashMap::default();
    trace.for_each_extent(|extent| {
        if contents.len() >= MAX_CONTENTS && !contents.contains_key(&extent.object) {
            return;
        }
        let (content, length) = (contents.entry(extent.object).or_default(), u64::from(extent.length));
        content.end = content.end.max(extent.offset.saturating_add(length));
        match extent.content {
            PayloadContentState::KEPT | PayloadContentState::KEYED | PayloadContentState::ZEROS => {
                content.known_bytes += length;
            }
            _ => content.unknown_bytes += length,
        }
    })?;
    Ok(contents)
}

/// Returns `true` if a name is sent, and so are those of its directory.
fn is_safe(unsafe_directories: &FxHashSet<u32>, name: &TraceFileSystemObjectName<'_>) -> bool {
    is_plain_name(name.name.0) && !unsafe_directories.contains(&name.parent)
}

/// Returns the numbers of the directories of which no name is sent, or that are below such a directory.
fn unsafe_directories(trace: &mut ReplayTraceReader<impl Read + Seek>) -> Result<FxHashSet<u32>, TraceError> {
    let mut found = FxHashSet::default();
    // A directory may follow what is in it.
    for _ in 0..DEPTH {
        let known = found.len();
        trace.for_each_object(|object| {
            let may_be_directory = [TraceFileType::DIRECTORY, TraceFileType::UNKNOWN].contains(&object.file_type);
            let is_unsafe = object.existence != TraceObjectOrigin::ROOT
                && !object.names.is_empty()
                && !object.names.iter().any(|name| is_safe(&found, &name));
            if may_be_directory && is_unsafe && found.len() < MAX_UNSAFE_DIRECTORIES {
                found.insert(object.number);
            }
        })?;
        if found.len() == known {
            break;
        }
    }
    Ok(found)
}

fn item(object: &TraceFileSystemObject<'_>) -> PlannedObject {
    PlannedObject {
        path: Vec::new(),
        file_type: object.file_type,
        size: object.size,
        target: object.target.0.to_vec(),
        links: 0,
        uses: object.uses,
    }
}

/// Returns the path of a name, as far up as directories are known.
fn path(directories: &PlanDirectoriesByObjectNumber, component: &PlanPathComponent) -> Vec<u8> {
    let mut names = vec![&*component.name];
    let mut parent = component.parent;
    let mut has_root = false;
    for _ in 0..DEPTH {
        let Some(above) = directories.get(&parent) else { break };
        parent = above.parent;
        has_root = parent == NONE;
        names.push(&above.name);
        if has_root {
            break;
        }
    }
    let mut path = if has_root { Vec::new() } else { "…".as_bytes().to_vec() };
    for name in names.iter().rev() {
        let is_apart = path.last() != Some(&b'/') && !(path.is_empty() && name.starts_with(b"/"));
        if is_apart {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    path
}

#[cfg(test)]
mod tests;
