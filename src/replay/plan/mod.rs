//! What a run of a trace will do, told before it does: which steps run, which do not, and why; and the tree that it needs.
//!
//! - [`reason`]: why a step does not run as it was captured;
//! - [`selected_steps`]: which steps a filter selects, and what these need;
//! - [`planner`]: which reason there is for a step. The run asks it, too.

pub mod planner;
pub mod reason;
pub mod selected_steps;

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::rc::Rc;

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::{Procedure, v4};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Cursor;

use super::trace::layout::{FileType, ObjectExistence, TraceFileObject};
use super::trace::{
    MessageSlotKind, NONE, PayloadContentState, TraceError, TraceReader, TraceStep, TraceSummary,
};
use planner::{GssPolicy, StepPlanner};
use reason::{PlanReason, PlannedStepState};
use selected_steps::SelectedSteps;

/// Steps that are shown of each reason.
const FIRST: usize = 5;
/// Operations by name that are counted apart.
const OPERATIONS: usize = 4_096;
/// Objects that are shown.
const SHOWN: usize = 10_000;
/// Directories that a path is followed up through.
const DEPTH: usize = 64;

/// A step that a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanReasonExample {
    /// The step.
    pub step: u64,
    /// The frame of the capture that its Call begins in, or its Reply where no Call was captured.
    pub frame: u64,
    /// The step that it needs.
    pub needs: Option<u64>,
}

/// How often there is a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReasonCount {
    /// Steps.
    pub steps: u64,
    /// By operation.
    pub operations: BTreeMap<String, u64>,
    /// The first of them.
    pub first: Vec<PlanReasonExample>,
}

/// Steps by what becomes of them: in the order of [`PlannedStepState::ALL`].
pub type PlanStepCounts = [u64; 4];

/// An object that seeding makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedObject {
    /// Its path, as far as it is known; empty where no name was seen.
    pub path: Vec<u8>,
    /// Its type.
    pub file_type: FileType,
    /// Its size in bytes.
    pub size: u64,
    /// What a link says.
    pub target: Vec<u8>,
    /// Other names that it has.
    pub links: u64,
    /// Steps that use it.
    pub uses: u64,
}

/// The tree that the trace expects before its first step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreePlan {
    /// Objects that seeding makes, by type.
    pub objects: BTreeMap<FileType, u64>,
    /// Objects that steps create.
    pub created: u64,
    /// Where paths begin: what the server has.
    pub roots: Vec<Vec<u8>>,
    /// Objects of which no name was seen.
    pub nameless: u64,
    /// Bytes that the files have together.
    pub bytes: u64,
    /// Bytes that are read before they are written, and known.
    pub content: u64,
    /// Bytes that are read before they are written, and of which no more than a hash is known.
    pub unknown: u64,
    /// The objects, by path; not all where there are too many.
    pub items: Vec<PlannedObject>,
}

/// What a run of a trace will do.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// What the trace says of itself.
    pub summary: TraceSummary,
    /// Its steps.
    pub steps: PlanStepCounts,
    /// Its steps by operation.
    pub operations: BTreeMap<String, PlanStepCounts>,
    /// Why steps do not run as they were captured.
    pub reasons: BTreeMap<PlanReason, PlanReasonCount>,
    /// Variables that are used before anything defines them.
    pub undefined: BTreeMap<MessageSlotKind, u64>,
    /// The tree.
    pub tree: TreePlan,
    /// Variables of steps that do not run that could not be remembered: a step that uses one may not run either.
    pub forgotten: u64,
}

impl ReplayPlan {
    /// Plans a run of a trace.
    ///
    /// # Errors
    /// Where the trace is cut or damaged.
    pub fn new(trace: &mut TraceReader<impl Read + Seek>) -> Result<Self, TraceError> {
        Self::of(trace, None, GssPolicy::AsSys)
    }

    /// The same for a run of the chosen steps.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(
        trace: &mut TraceReader<impl Read + Seek>,
        chosen: Option<Rc<SelectedSteps>>,
        gss: GssPolicy,
    ) -> Result<Self, TraceError> {
        let mut judge = StepPlanner::new(trace)?.with(chosen, gss);
        let mut plan = Self {
            summary: trace.summary().clone(),
            steps: [0; 4],
            operations: BTreeMap::new(),
            reasons: BTreeMap::new(),
            undefined: BTreeMap::new(),
            tree: TreePlan::default(),
            forgotten: 0,
        };
        trace.steps(|step| plan.add(step, judge.step(step)))?;
        trace.undefined(|line| *plan.undefined.entry(line.holds).or_default() += 1)?;
        trace.extents(|extent| {
            let length = u64::from(extent.length);
            match extent.content {
                PayloadContentState::KEPT | PayloadContentState::KEYED | PayloadContentState::ZEROS => {
                    plan.tree.content += length
                }
                _ => plan.tree.unknown += length,
            }
        })?;
        plan.forgotten = judge.forgotten;
        plan.tree.learn(trace)?;
        Ok(plan)
    }

    fn add(&mut self, step: &TraceStep<'_>, verdict: planner::PlanDecision) {
        let name = operation(step);
        let at = PlannedStepState::ALL.iter().position(|state| *state == verdict.state()).unwrap_or(0);
        count(&mut self.steps, at);
        // A hostile trace has more names than there are.
        let has_room = self.operations.len() < OPERATIONS || self.operations.contains_key(&name);
        let name = if has_room { name } else { "other".to_owned() };
        count(self.operations.entry(name.clone()).or_default(), at);
        let Some(reason) = verdict.reason else { return };
        let because = self.reasons.entry(reason).or_default();
        because.steps += 1;
        *because.operations.entry(name).or_default() += 1;
        if because.first.len() < FIRST {
            let frame = match step.origin.call_frame {
                0 => step.origin.reply_frame,
                frame => frame,
            };
            because.first.push(PlanReasonExample { step: step.origin.id, frame, needs: verdict.needs });
        }
    }

    /// Steps in all.
    pub fn total(&self) -> u64 {
        self.steps.iter().sum()
    }
}

fn count(steps: &mut PlanStepCounts, at: usize) {
    if let Some(count) = steps.get_mut(at) {
        *count += 1;
    }
}

/// What a step is about: `NFS 4.2 READ`, `MOUNT 3 MNT`.
pub fn operation(step: &TraceStep<'_>) -> String {
    let asked = &step.asked;
    if asked.program == NONE {
        return "Reply without its Call".to_owned();
    }
    let program = Program(asked.program);
    let procedure = asked.described();
    let is_callback = program.is_transient() && procedure.is_some();
    let name = match program.name() {
        _ if is_callback => Program::NFS_CB.name().unwrap_or("NFS_CB").to_owned(),
        Some(name) => name.to_owned(),
        None => format!("program {}", asked.program),
    };
    let minor = if asked.minor_version == NONE { String::new() } else { format!(".{}", asked.minor_version) };
    let version = if asked.version == NONE { String::new() } else { format!(" {}{minor}", asked.version) };
    let body = step.call.head.0.get(step.call.body as usize..).unwrap_or_default();
    let mut cursor = Cursor::new(body);
    let named = match procedure {
        Some(Procedure::Compound) => v4::CompoundCall::decode(&mut cursor, &mut NullObserver)
            .ok()
            .and_then(|call| call.named().operation)
            .and_then(|operation| operation.name()),
        Some(Procedure::CbCompound) => v4::CbCompoundCall::decode(&mut cursor, &mut NullObserver)
            .ok()
            .and_then(|call| call.named().operation)
            .and_then(|operation| operation.name()),
        _ => None,
    };
    let what = match named.or(procedure.map(Procedure::name)) {
        Some(name) => format!(" {name}"),
        None if asked.procedure == NONE => ", procedure not captured".to_owned(),
        None => format!(" procedure {}", asked.procedure),
    };
    format!("{name}{version}{what}")
}

/// A name that an object has, for paths.
#[derive(Clone, Debug)]
struct PlanPathComponent {
    parent: u32,
    name: Box<[u8]>,
}

/// The names of directories, by number, as far as paths may need them.
type PlanDirectoryNames = BTreeMap<u32, PlanPathComponent>;

impl TreePlan {
    fn learn(&mut self, trace: &mut TraceReader<impl Read + Seek>) -> Result<(), TraceError> {
        let mut seats = PlanDirectoryNames::new();
        let mut shown: Vec<(Option<PlanPathComponent>, PlannedObject)> = Vec::new();
        trace.objects(|object| {
            let name = object.names.iter().next();
            let seat = name.map(|name| PlanPathComponent { parent: name.parent, name: name.name.0.into() });
            let is_root = object.existence == ObjectExistence::ROOT;
            if (is_root || object.file_type == FileType::DIRECTORY)
                && seats.len() < SHOWN
                && let Some(seat) = &seat
            {
                seats.insert(object.number, seat.clone());
            }
            match object.existence {
                ObjectExistence::CREATED => self.created += 1,
                ObjectExistence::ROOT if self.roots.len() >= SHOWN => {}
                ObjectExistence::ROOT => self.roots.extend(seat.map(|seat| seat.name.into_vec())),
                _ => {
                    self.count(object);
                    if shown.len() < SHOWN {
                        shown.push((seat, item(object)));
                    }
                }
            }
        })?;
        self.items = shown
            .into_iter()
            .map(|(seat, item)| PlannedObject {
                path: seat.map(|seat| path(&seats, &seat)).unwrap_or_default(),
                ..item
            })
            .collect();
        self.items.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(())
    }

    fn count(&mut self, object: &TraceFileObject<'_>) {
        *self.objects.entry(object.file_type).or_default() += 1;
        self.nameless += u64::from(object.names.is_empty());
        if object.file_type == FileType::FILE {
            self.bytes = self.bytes.saturating_add(object.size);
        }
    }
}

fn item(object: &TraceFileObject<'_>) -> PlannedObject {
    PlannedObject {
        path: Vec::new(),
        file_type: object.file_type,
        size: object.size,
        target: object.target.0.to_vec(),
        links: u64::from(object.names.len()).saturating_sub(1),
        uses: object.uses,
    }
}

/// The path of a name, as far up as directories are known.
fn path(seats: &PlanDirectoryNames, seat: &PlanPathComponent) -> Vec<u8> {
    let mut names = vec![&*seat.name];
    let mut parent = seat.parent;
    let mut has_root = false;
    for _ in 0..DEPTH {
        let Some(above) = seats.get(&parent) else { break };
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
