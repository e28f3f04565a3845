//! Calls whose reply was not captured, and the identifiers that these replies must have contained.
//!
//! A later call uses a filehandle, a stateid, a clientid or a session that no captured reply gave. The step of the lost
//! reply that gave it defines it: its reply then has no bytes, but a slot for each such identifier, and the live reply
//! gives the value. A stateid, a clientid or a session belongs to the latest lost reply that fits. A filehandle belongs
//! to the lost reply of a call that looked up or created a name if other replies show that the object had this name at
//! the time of the call, or if nothing else can have given it. If several can, the steps that use the filehandle are left
//! out: a wrong guess would write into another file.

use std::io::{self, Seek, Write};

use nfsrdma_analysis::second_chance_map::SecondChanceMap;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Args, Attribute, Createhow4, Newoffset4, Openflag4};
use nfsrdma_dissectors::nfs::{Procedure, mount, v3};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr, XdrArray};
use nfsrdma_nfs_model::names::claimed_name;
use rustc_hash::{FxHashMap, FxHashSet};

use super::variable_resolution::UndefinedVariableUsage;
use crate::trace::file_format::TraceFileType;
use crate::trace::live_reply_binding::{CONFIRMED_PLACE, FIRST_PLACE, SECOND_PLACE};
use crate::trace::reader::decode_step;
use crate::trace::step::{NONE, SubstitutableMessageSlot, TraceSlotValueKind, TraceStep, VariableUseKind, stateid_use};
use crate::trace::step_writer::ReplayTraceWriter;
use crate::trace::value_substitution::captured_value;
use crate::tree::inferred_object::{InferredObjectId, ROOT};
use crate::tree::inferred_tree::{InferredTree, InitialNames, PastBinding, key};
use crate::tree::nfs4_tree_inference::MAX_LOST_OPERATIONS;

/// Bytes of a kept step besides its encoding.
const STEP_OVERHEAD_BYTES: usize = 256;
/// Bytes of the size of a file, in a hash table that is rehashed.
const SIZE_BYTES: usize = 64;
/// Maximum number of lost results among which the origin of an identifier is searched.
const MAX_SEARCHED_RESULTS: usize = 4096;

/// The object of a lost result, as the call names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CalledObject {
    /// Variable of a filehandle in the call, [`ROOT`], or [`NONE`] if the object is unknown.
    base: u32,
    /// Names from there.
    path: Vec<Box<[u8]>>,
}

impl CalledObject {
    fn of_handle(base: u32) -> Self {
        Self { base, path: Vec::new() }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<LostResult>() + self.path.iter().map(|name| size_of::<Box<[u8]>>() + name.len()).sum::<usize>()
    }

    fn child(&self, name: &[u8]) -> Self {
        let mut path = self.path.clone();
        path.push(name.into());
        Self { base: self.base, path }
    }

    /// Returns the variable of the filehandle of a file, and its size with `count` bytes at an offset.
    fn size(&self, offset: u64, count: u64) -> Option<(u32, u64)> {
        (self.path.is_empty() && self.base != NONE).then_some((self.base, offset.saturating_add(count)))
    }
}

/// An identifier that a lost reply may have contained.
#[derive(Clone, Debug)]
struct LostResult {
    operation: u32,
    value_kind: TraceSlotValueKind,
    /// The object of the filehandle, or that of the stateid.
    object: CalledObject,
    /// `true` if the operation creates the object, or opens it so that it exists.
    creates: bool,
    /// `true` if the object may have existed: the call then only opens it.
    may_exist: bool,
    file_type: TraceFileType,
    /// `true` for the stateid of a lock.
    is_lock: bool,
    /// Path of MOUNT, for the filehandle of a root.
    mount_path: Option<Box<[u8]>>,
}

impl LostResult {
    fn new(operation: usize, value_kind: TraceSlotValueKind, object: CalledObject) -> Self {
        Self {
            operation: operation as u32,
            value_kind,
            object,
            creates: false,
            may_exist: false,
            file_type: TraceFileType::UNKNOWN,
            is_lock: false,
            mount_path: None,
        }
    }
}

/// The file of a stateid, and `true` for that of a lock; `None` for other identifiers.
type StateidFile = Option<(InferredObjectId, bool)>;

/// A lost result that may have given an identifier other than a filehandle.
#[derive(Clone, Copy, Debug)]
struct Giver<'a> {
    /// Position of its step.
    at: usize,
    step: &'a LostStep,
    result: &'a LostResult,
    /// Time until which its file is known to have had its name.
    until_ns: u64,
}

/// A lost result that gave no known filehandle.
#[derive(Clone, Copy, Debug)]
struct OpenResult<'a> {
    /// Position of its step.
    at: usize,
    result: &'a LostResult,
    /// `true` if it can have given no other filehandle than an unknown one.
    is_unknown: bool,
}

/// The way in which a call without a captured reply may have changed a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostNameChange {
    /// The name of a new object.
    Created,
    /// The name of an object that had another one before: RENAME, LINK.
    Moved,
    /// The old name: REMOVE, RENAME.
    Removed,
}

/// A name that a call without a captured reply may have changed.
#[derive(Clone, Debug)]
struct LostName {
    directory: CalledObject,
    name: Box<[u8]>,
    change: LostNameChange,
    /// `true` if the object may have existed: the call then only opens it.
    may_exist: bool,
}

impl LostName {
    fn new(directory: &CalledObject, name: &[u8], change: LostNameChange) -> Self {
        Self { directory: directory.clone(), name: name.into(), change, may_exist: false }
    }
}

/// Times at which calls without a captured reply may have changed a name, in nanoseconds since 1970 and in order.
#[derive(Debug, Default)]
struct LostNameTimes {
    created: Vec<u64>,
    removed: Vec<u64>,
    /// The latest at which it was given to an object with another name; 0 if none was.
    last_moved: u64,
}

/// The objects that names denoted in the past.
#[derive(Debug)]
struct PastNames {
    initial: InitialNames,
    /// Changes by calls without a captured reply, by the hash of directory and name.
    lost: FxHashMap<u128, LostNameTimes>,
}

impl PastNames {
    fn new(tree: &InferredTree, steps: &[LostStep]) -> Self {
        let mut past = Self { initial: tree.initial_names(), lost: FxHashMap::default() };
        for step in steps {
            for name in &step.names {
                let (PastBinding::Bound(directory), _) = past.object(tree, &name.directory, step, true) else {
                    continue;
                };
                let times = past.lost.entry(key(directory, &name.name)).or_default();
                match name.change {
                    LostNameChange::Created => times.created.push(step.time_ns),
                    LostNameChange::Moved => times.last_moved = step.time_ns,
                    LostNameChange::Removed => times.removed.push(step.time_ns),
                }
            }
        }
        past
    }

    /// Returns the object that a call names, and the time until which calls without a captured reply left it its name.
    /// `creates` is `true` if no later call can create it.
    fn object(&self, tree: &InferredTree, object: &CalledObject, step: &LostStep, creates: bool) -> (PastBinding, u64) {
        self.walk(tree, (object.base, &object.path), step, creates)
    }

    /// Returns the last name of a call's object and its directory, if the tree knows that.
    fn name<'o>(
        &self,
        tree: &InferredTree,
        object: &'o CalledObject,
        step: &LostStep,
    ) -> Option<(&'o [u8], InferredObjectId)> {
        let (name, parents) = object.path.split_last()?;
        match self.walk(tree, (object.base, parents), step, true) {
            (PastBinding::Bound(directory), _) => Some((name, directory)),
            _ => None,
        }
    }

    fn walk(
        &self,
        tree: &InferredTree,
        (base, path): (u32, &[Box<[u8]>]),
        step: &LostStep,
        creates: bool,
    ) -> (PastBinding, u64) {
        let base = match base {
            NONE => None,
            ROOT => tree.root(step.server),
            variable => tree.find_by_handle(variable),
        };
        let Some(mut at) = base else { return (PastBinding::Unknown, u64::MAX) };
        let mut until = u64::MAX;
        for (index, name) in path.iter().enumerate() {
            if let Some(times) = self.lost.get(&key(at, name)) {
                let next = |times: &[u64]| {
                    let later = times.partition_point(|time| *time <= step.time_ns);
                    times.get(later).copied().unwrap_or(u64::MAX)
                };
                until = until.min(next(&times.removed));
                if times.last_moved > step.time_ns {
                    until = 0;
                }
                if !creates && index + 1 == path.len() {
                    until = until.min(next(&times.created));
                }
            }
            match self.child(tree, at, name, step.time_ns) {
                PastBinding::Bound(id) => at = id,
                unbound => return (unbound, until),
            }
        }
        (PastBinding::Bound(at), until)
    }

    fn child(&self, tree: &InferredTree, parent: InferredObjectId, name: &[u8], at_ns: u64) -> PastBinding {
        match tree.object_at(parent, name, at_ns) {
            PastBinding::Unknown if !tree.is_changed(parent, name) => match *self.initial.objects(parent, name) {
                [] => PastBinding::Unknown,
                [id] => PastBinding::Bound(id),
                _ => PastBinding::Ambiguous,
            },
            binding => binding,
        }
    }
}

/// What a call does if it succeeds.
#[derive(Debug, Default)]
struct CallResults {
    results: Vec<LostResult>,
    names: Vec<LostName>,
    /// Variables of filehandles, and the sizes in bytes that the call can give their files.
    sizes: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct LostStep {
    id: u64,
    time_ns: u64,
    client: u32,
    server: u32,
    is_nfs4: bool,
    results: Vec<LostResult>,
    names: Vec<LostName>,
    /// The encoded step.
    bytes: Box<[u8]>,
}

/// Steps whose reply was not captured, until the end of the capture.
#[derive(Debug)]
pub(super) struct LostReplies {
    steps: Vec<LostStep>,
    /// The size in bytes that calls without a captured reply can have given a file, by the variable of its filehandle.
    sizes: FxHashMap<u32, u64>,
    free_bytes: usize,
}

/// Variables that are not undefined, or of which the object must not be used.
#[derive(Debug, Default)]
pub(super) struct InferredDefinitions {
    /// Variables that lost replies define.
    pub(super) defined: FxHashSet<u32>,
    /// Variables of filehandles that one of several lost replies gave, and of the stateids of such files.
    pub(super) ambiguous: FxHashSet<u32>,
}

impl LostReplies {
    /// Creates a store of at most this many bytes; further steps are written at once, and define nothing.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { steps: Vec::new(), sizes: FxHashMap::default(), free_bytes: max_bytes }
    }

    /// Keeps a step until the end of the capture if its reply was lost. Returns `false` if it must be written now.
    pub(super) fn keep(&mut self, step: &TraceStep<'_>) -> bool {
        if !step.reply.is_empty() || !step.call.is_complete() || step.caller.is_reverse {
            return false;
        }
        let CallResults { results, names, sizes } = results_of_call(step);
        for (file, size) in sizes {
            let is_known = self.sizes.contains_key(&file);
            if is_known || self.free_bytes >= SIZE_BYTES {
                self.free_bytes -= if is_known { 0 } else { SIZE_BYTES };
                let known = self.sizes.entry(file).or_default();
                *known = size.max(*known);
            }
        }
        if results.is_empty() && names.is_empty() {
            return false;
        }
        let mut encoder = Encoder::new();
        step.encode(&mut encoder);
        let (bytes, _) = encoder.finish();
        let objects = results.iter().map(|result| &result.object).chain(names.iter().map(|name| &name.directory));
        let needed = bytes.len() + STEP_OVERHEAD_BYTES + objects.map(CalledObject::memory_bytes).sum::<usize>();
        if self.free_bytes < needed {
            return false;
        }
        self.free_bytes -= needed;
        self.steps.push(LostStep {
            id: step.origin.id,
            time_ns: step.origin.time_ns,
            client: step.caller.client,
            server: step.caller.server,
            is_nfs4: step.procedure.find_description() == Some(Procedure::Compound),
            results,
            names,
            bytes: bytes.into_boxed_slice(),
        });
        true
    }

    /// Finds the steps that define undefined variables, corrects the tree accordingly, and writes the steps.
    pub(super) fn finish<W: Write + Seek>(
        mut self,
        undefined: &FxHashMap<u32, UndefinedVariableUsage>,
        unknown_owners: &mut SecondChanceMap<u32, u32>,
        tree: &mut InferredTree,
        writer: &mut ReplayTraceWriter<W>,
    ) -> io::Result<InferredDefinitions> {
        let mut found = InferredDefinitions::default();
        if self.steps.is_empty() {
            return Ok(found);
        }
        self.steps.sort_by_key(|step| step.time_ns);
        let mut slots: Vec<Vec<SubstitutableMessageSlot>> = vec![Vec::new(); self.steps.len()];
        let past = PastNames::new(tree, &self.steps);
        self.define_filehandles(undefined, tree, &past, &mut slots, &mut found);
        self.define_others((undefined, unknown_owners), tree, &past, &mut slots, &mut found);
        for step in &self.steps {
            for name in step.names.iter().filter(|name| name.change != LostNameChange::Removed) {
                let (PastBinding::Bound(directory), _) = past.object(tree, &name.directory, step, true) else {
                    continue;
                };
                if let PastBinding::Bound(id) = past.child(tree, directory, &name.name, step.time_ns) {
                    let max_size = name.may_exist.then(|| self.max_size(tree, id));
                    let creation = (name.change == LostNameChange::Created, max_size);
                    tree.record_lost_name(&past.initial, id, (directory, &name.name), creation, step.id);
                }
            }
        }
        for (step, mut slots) in self.steps.iter().zip(slots) {
            slots.sort_by_key(|slot| slot.operation);
            let Some(mut decoded) = decode_step(&step.bytes) else { continue };
            decoded.reply.slots = XdrArray::from(&slots[..]);
            writer.step(&decoded)?;
        }
        Ok(found)
    }

    /// Returns the size in bytes that calls without a captured reply can have given a file.
    fn max_size(&self, tree: &InferredTree, id: InferredObjectId) -> u64 {
        let handles = tree.nodes().get(id.0 as usize).map_or(&[][..], |node| &node.handles);
        handles.iter().filter_map(|handle| self.sizes.get(handle)).copied().max().unwrap_or_default()
    }

    /// Assigns undefined filehandles to lost results: by a name that the object is known to have, or if nothing else
    /// can have given one.
    fn define_filehandles(
        &self,
        undefined: &FxHashMap<u32, UndefinedVariableUsage>,
        tree: &mut InferredTree,
        past: &PastNames,
        slots: &mut [Vec<SubstitutableMessageSlot>],
        found: &mut InferredDefinitions,
    ) {
        // Lost results that gave no known filehandle, in the order of time, by server and client.
        let mut open: FxHashMap<(u32, u32), Vec<OpenResult<'_>>> = FxHashMap::default();
        let is_of_client = |usage: &&UndefinedVariableUsage| {
            matches!(usage.value_kind, TraceSlotValueKind::SESSION | TraceSlotValueKind::CLIENTID)
        };
        // Clients that may have opened files before the capture began.
        let from_before: FxHashSet<u32> = undefined.values().filter(is_of_client).map(|usage| usage.client).collect();
        for (at, step) in self.steps.iter().enumerate() {
            for result in step.results.iter().filter(|result| result.value_kind == TraceSlotValueKind::FILEHANDLE) {
                let (named, until_ns) = past.object(tree, &result.object, step, result.creates);
                let handles = match named {
                    PastBinding::Bound(id) => tree.nodes().get(id.0 as usize).map_or(&[][..], |node| &node.handles),
                    PastBinding::Unknown | PastBinding::Ambiguous => &[],
                };
                let handles = handles.to_vec();
                let mut is_known = false;
                for variable in &handles {
                    let is_later =
                        |usage: &&UndefinedVariableUsage| usage.first_ns > step.time_ns && usage.first_ns <= until_ns;
                    if undefined.get(variable).is_some_and(|usage| is_later(&usage)) && found.defined.insert(*variable)
                    {
                        is_known = true;
                        add_slot(slots, at, step.id, result, *variable);
                        if let Some(id) = tree.find_by_handle(*variable).filter(|_| result.creates) {
                            let max_size = result.may_exist.then(|| self.max_size(tree, id));
                            tree.record_lost_creation(&past.initial, id, step.id, max_size);
                        }
                    }
                }
                let is_new = result.creates && step.is_nfs4 && !from_before.contains(&step.client);
                if !is_known && (handles.is_empty() || result.creates || result.object.base == NONE) {
                    let open_results = open.entry((step.server, step.client)).or_default();
                    let is_free = handles.is_empty() && named != PastBinding::Ambiguous;
                    open_results.push(OpenResult { at, result, is_unknown: is_free || is_new });
                }
            }
        }
        let is_nameless = |variable: &u32| {
            let node = tree.find_by_handle(*variable).and_then(|id| tree.nodes().get(id.0 as usize));
            node.filter(|node| node.names.is_empty()).map(|node| node.server)
        };
        let handles = undefined.iter().filter(|(variable, usage)| {
            usage.value_kind == TraceSlotValueKind::FILEHANDLE && !found.defined.contains(variable)
        });
        let mut nameless: Vec<_> =
            handles.filter_map(|(variable, usage)| Some((*variable, usage, is_nameless(variable)?))).collect();
        nameless.sort_unstable_by_key(|(variable, ..)| *variable);
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        nameless.iter().for_each(|(.., server)| *counts.entry(*server).or_default() += 1);
        for (variable, usage, server) in nameless {
            let Some(id) = tree.find_by_handle(variable) else { continue };
            let candidates = open.get(&(server, usage.client)).map_or(&[][..], Vec::as_slice);
            let is_before = |at: usize| self.steps.get(at).is_some_and(|step| step.time_ns < usage.first_ns);
            // In the order of time.
            let mut earlier = candidates.iter().take_while(|open| is_before(open.at));
            let (Some(&OpenResult { at, result, is_unknown }), second) = (earlier.next(), earlier.next()) else {
                continue;
            };
            let Some(step) = self.steps.get(at) else { continue };
            let is_certain = second.is_none()
                && is_unknown
                && counts.get(&server) == Some(&1)
                && is_of_type(tree, id, result.file_type)
                && result.object.base != NONE;
            let max_size = result.may_exist.then(|| self.max_size(tree, id));
            if is_certain && name_object(tree, past, (id, max_size), result, step) {
                found.defined.insert(variable);
                add_slot(slots, at, step.id, result, variable);
            } else {
                found.ambiguous.insert(variable);
                tree.exclude_from_seeding(id);
            }
        }
    }

    /// Assigns undefined stateids, clientids, sessions and confirmations to lost results.
    fn define_others(
        &self,
        (undefined, unknown_owners): (&FxHashMap<u32, UndefinedVariableUsage>, &mut SecondChanceMap<u32, u32>),
        tree: &InferredTree,
        past: &PastNames,
        slots: &mut [Vec<SubstitutableMessageSlot>],
        found: &mut InferredDefinitions,
    ) {
        let mut others: Vec<_> =
            undefined.iter().filter(|(_, usage)| usage.value_kind != TraceSlotValueKind::FILEHANDLE).collect();
        others.sort_unstable_by_key(|(variable, usage)| (usage.first_ns, **variable));
        // In the order of time; of stateids by file and kind.
        let mut givers: FxHashMap<(TraceSlotValueKind, u32, StateidFile), Vec<Giver<'_>>> = FxHashMap::default();
        for (at, step) in self.steps.iter().enumerate() {
            let results = step.results.iter().filter(|result| result.value_kind != TraceSlotValueKind::FILEHANDLE);
            for result in results {
                let (file, until_ns) = match result.value_kind {
                    TraceSlotValueKind::STATEID => match past.object(tree, &result.object, step, true) {
                        (PastBinding::Bound(id), until_ns) => (Some((id, result.is_lock)), until_ns),
                        _ => continue,
                    },
                    _ => (None, u64::MAX),
                };
                let of_kind = givers.entry((result.value_kind, step.client, file)).or_default();
                of_kind.push(Giver { at, step, result, until_ns });
            }
        }
        let mut taken: FxHashSet<(usize, u32, u32, bool)> = FxHashSet::default();
        for (variable, usage) in others {
            let file = tree.find_by_handle(usage.file);
            let is_stateid = usage.value_kind == TraceSlotValueKind::STATEID;
            let is_lock = usage.access & stateid_use::LOCK != 0;
            let is_delegation = usage.access & stateid_use::DELEGATION != 0;
            let kind = (usage.value_kind, usage.client, file.filter(|_| is_stateid).map(|id| (id, is_lock)));
            let of_kind = givers.get(&kind).map_or(&[][..], Vec::as_slice);
            // The latest before the first use, which may be a call without a captured reply, too.
            let end = of_kind.partition_point(|giver| giver.step.time_ns < usage.first_ns);
            let earlier = of_kind.iter().take(end).rev().take(MAX_SEARCHED_RESULTS);
            let giver =
                earlier.filter(|giver| usage.first_ns <= giver.until_ns).find(|Giver { at, result, .. }| {
                    !taken.contains(&(*at, result.operation, result.value_kind.0, is_delegation))
                });
            match giver {
                Some(&Giver { at, step, result, .. }) => {
                    taken.insert((at, result.operation, result.value_kind.0, is_delegation));
                    found.defined.insert(*variable);
                    let place = if is_delegation { SECOND_PLACE } else { FIRST_PLACE };
                    let stateid_place = if usage.is_confirmed { CONFIRMED_PLACE } else { place };
                    add_slot_at(slots, (at, stateid_place), step.id, result, *variable);
                    let count = match usage.value_kind {
                        TraceSlotValueKind::STATEID => Some(TraceSlotValueKind::STATEID_SEQID),
                        TraceSlotValueKind::CLIENTID => Some(TraceSlotValueKind::CREATE_SEQUENCE),
                        _ => None,
                    };
                    if let Some(value_kind) = count {
                        let result = LostResult { value_kind, ..result.clone() };
                        add_slot_at(slots, (at, place), step.id, &result, *variable);
                    }
                    if let Some(owner) = unknown_owners.get(*variable).copied().filter(|_| is_stateid) {
                        let value_kind = match result.is_lock {
                            true => TraceSlotValueKind::LOCK_SEQID,
                            false => TraceSlotValueKind::OPEN_SEQID,
                        };
                        add_slot(slots, at, step.id, &LostResult { value_kind, ..result.clone() }, owner);
                    }
                }
                // A file that a lost call created cannot be opened before the first step.
                None if is_stateid && file.is_some_and(|id| tree.is_created(id))
                    || found.ambiguous.contains(&usage.file) =>
                {
                    found.ambiguous.insert(*variable);
                }
                None => {}
            }
        }
    }
}

fn add_slot(slots: &mut [Vec<SubstitutableMessageSlot>], at: usize, step: u64, result: &LostResult, variable: u32) {
    add_slot_at(slots, (at, FIRST_PLACE), step, result, variable);
}

fn add_slot_at(
    slots: &mut [Vec<SubstitutableMessageSlot>],
    (at, place): (usize, u64),
    step: u64,
    result: &LostResult,
    variable: u32,
) {
    if let Some(slots) = slots.get_mut(at) {
        slots.push(SubstitutableMessageSlot {
            at: 0,
            length: 0,
            value_kind: result.value_kind,
            part: VariableUseKind::DEFINED,
            is_counted: false,
            operation: result.operation,
            variable,
            definition: step,
            place,
        });
    }
}

fn is_of_type(tree: &InferredTree, id: InferredObjectId, file_type: TraceFileType) -> bool {
    let known = tree.nodes().get(id.0 as usize).map_or(TraceFileType::UNKNOWN, |node| node.file_type);
    [known, file_type].contains(&TraceFileType::UNKNOWN) || known == file_type
}

/// Gives a nameless object the name by which a lost call found or created it. Returns `false` if its directory is
/// unknown.
fn name_object(
    tree: &mut InferredTree,
    past: &PastNames,
    (id, max_size): (InferredObjectId, Option<u64>),
    result: &LostResult,
    step: &LostStep,
) -> bool {
    if let Some(path) = &result.mount_path {
        tree.make_root(id, path);
        return true;
    }
    let Some((name, directory)) = past.name(tree, &result.object, step) else {
        let is_root = result.object == CalledObject::of_handle(ROOT);
        if is_root {
            tree.make_root(id, b"/");
        }
        return is_root;
    };
    if result.creates {
        tree.record_lost_creation(&past.initial, id, step.id, max_size);
    }
    // A file with content from before the call was only opened: it has had its name before.
    let is_new = result.creates && tree.is_created(id);
    tree.add_lost_name(id, directory, name, if is_new { step.id } else { 0 });
    true
}

/// Returns the identifiers that the reply of a call has if the call succeeds, the names that it adds, and the sizes
/// that it sets.
fn results_of_call(step: &TraceStep<'_>) -> CallResults {
    let mut handles: FxHashMap<&[u8], u32> = FxHashMap::default();
    for slot in step.call.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE) {
        if let Some(handle) = captured_value(step.call.head.0, &slot) {
            handles.insert(handle, slot.variable);
        }
    }
    let handle = |bytes: &[u8]| CalledObject::of_handle(handles.get(bytes).copied().unwrap_or(NONE));
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    match step.procedure.find_description() {
        Some(Procedure::Compound) => results_of_compound(&mut cursor, &handle),
        Some(Procedure::V3(procedure)) => results_of_nfs3(procedure, &mut cursor, &handle),
        Some(Procedure::Mount3(procedure)) => {
            let args = mount::v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver);
            let Ok(mount::v3::Args::MNT(args)) = args else { return CallResults::default() };
            let result = LostResult {
                mount_path: Some(args.dirpath.0.into()),
                file_type: TraceFileType::DIRECTORY,
                ..LostResult::new(0, TraceSlotValueKind::FILEHANDLE, CalledObject::of_handle(ROOT))
            };
            CallResults { results: vec![result], ..CallResults::default() }
        }
        _ => CallResults::default(),
    }
}

fn results_of_compound(cursor: &mut Cursor<'_>, handle: &dyn Fn(&[u8]) -> CalledObject) -> CallResults {
    let CallResults { mut results, mut names, mut sizes } = CallResults::default();
    let Ok(call) = v4::CompoundCall::decode(cursor, &mut NullFieldObserver) else { return CallResults::default() };
    let unknown = CalledObject::of_handle(NONE);
    let (mut current, mut saved) = (unknown.clone(), unknown.clone());
    // Origin of the current object.
    let (mut creates, mut may_exist, mut file_type, mut is_given) = (false, false, TraceFileType::UNKNOWN, false);
    for (at, operation) in call.operations().map_while(Result::ok).take(MAX_LOST_OPERATIONS).enumerate() {
        match &operation {
            Args::PUTFH(args) => {
                (current, is_given, creates, may_exist) = (handle(args.object.0), true, false, false);
                file_type = TraceFileType::UNKNOWN;
            }
            Args::PUTROOTFH(_) | Args::PUTPUBFH(_) => {
                (current, is_given, creates) = (CalledObject::of_handle(ROOT), false, false);
                file_type = TraceFileType::DIRECTORY;
            }
            Args::SAVEFH(_) => saved = current.clone(),
            Args::RESTOREFH(_) => (current, is_given) = (saved.clone(), true),
            Args::LOOKUP(args) => {
                (current, is_given, creates) = (current.child(args.objname.0), false, false);
                file_type = TraceFileType::UNKNOWN;
            }
            Args::LOOKUPP(_) | Args::OPENATTR(_) => (current, is_given) = (unknown.clone(), false),
            Args::CREATE(args) => {
                names.push(LostName::new(&current, args.objname.0, LostNameChange::Created));
                (current, is_given, creates, may_exist) = (current.child(args.objname.0), false, true, false);
                file_type = match &args.objtype {
                    v4::Createtype4::Link(_) => TraceFileType::LINK,
                    v4::Createtype4::Block(_) => TraceFileType::BLOCK,
                    v4::Createtype4::Character(_) => TraceFileType::CHARACTER,
                    v4::Createtype4::Other(created) => (*created).into(),
                };
            }
            Args::OPEN(args) => {
                if let Some(name) = claimed_name(&args.claim) {
                    creates = matches!(args.openhow, Openflag4::Create(_));
                    may_exist = matches!(args.openhow, Openflag4::Create(Createhow4::Unchecked(_)));
                    if creates {
                        names.push(LostName { may_exist, ..LostName::new(&current, name, LostNameChange::Created) });
                    }
                    (current, is_given, file_type) = (current.child(name), false, TraceFileType::FILE);
                }
                results.push(LostResult::new(at, TraceSlotValueKind::STATEID, current.clone()));
            }
            Args::LOCK(_) => {
                let result = LostResult::new(at, TraceSlotValueKind::STATEID, current.clone());
                results.push(LostResult { is_lock: true, ..result });
            }
            Args::GETFH(_) if !is_given => {
                let result = LostResult::new(at, TraceSlotValueKind::FILEHANDLE, current.clone());
                results.push(LostResult { creates, may_exist, file_type, ..result });
            }
            // Its entries may have filehandles, of unknown names.
            Args::READDIR(_) => results.push(LostResult::new(at, TraceSlotValueKind::FILEHANDLE, unknown.clone())),
            Args::LINK(args) => names.push(LostName::new(&current, args.newname.0, LostNameChange::Moved)),
            Args::RENAME(args) => {
                names.push(LostName::new(&saved, args.oldname.0, LostNameChange::Removed));
                names.push(LostName::new(&current, args.newname.0, LostNameChange::Moved));
            }
            Args::REMOVE(args) => names.push(LostName::new(&current, args.target.0, LostNameChange::Removed)),
            Args::WRITE(args) => sizes.extend(current.size(args.offset, args.data.length().into())),
            Args::ALLOCATE(args) => sizes.extend(current.size(args.aa_offset, args.aa_length)),
            Args::COPY(args) => sizes.extend(current.size(args.ca_dst_offset, whole_if_zero(args.ca_count))),
            Args::CLONE(args) => sizes.extend(current.size(args.cl_dst_offset, whole_if_zero(args.cl_count))),
            Args::WRITE_SAME(args) => {
                let blocks = &args.wsa_adb;
                sizes.extend(
                    current.size(blocks.adb_offset, blocks.adb_block_size.saturating_mul(blocks.adb_block_count)),
                );
            }
            Args::LAYOUTCOMMIT(args) => {
                if let Newoffset4::New(last) = args.loca_last_write_offset {
                    sizes.extend(current.size(last, 1));
                }
            }
            Args::SETATTR(args) => {
                let attributes = args.obj_attributes.items().map_while(Result::ok);
                let set = attributes.filter_map(|attribute| match attribute {
                    Attribute::SIZE(size) => current.size(size, 0),
                    _ => None,
                });
                sizes.extend(set);
            }
            Args::EXCHANGE_ID(_) => {
                results.push(LostResult::new(at, TraceSlotValueKind::CLIENTID, unknown.clone()));
            }
            Args::SETCLIENTID(_) => {
                for kind in [TraceSlotValueKind::CLIENTID, TraceSlotValueKind::CONFIRM_VERIFIER] {
                    results.push(LostResult::new(at, kind, unknown.clone()));
                }
            }
            Args::CREATE_SESSION(_) => {
                results.push(LostResult::new(at, TraceSlotValueKind::SESSION, unknown.clone()));
            }
            _ => {}
        }
    }
    CallResults { results, names, sizes }
}

/// Returns the number of bytes that a COPY or CLONE copies at most; 0 means up to the end of the source.
fn whole_if_zero(count: u64) -> u64 {
    if count == 0 { u64::MAX } else { count }
}

fn results_of_nfs3(
    procedure: v3::Procedure,
    cursor: &mut Cursor<'_>,
    handle: &dyn Fn(&[u8]) -> CalledObject,
) -> CallResults {
    use v3::Args;
    let Ok(args) = Args::decode(procedure, cursor, &mut NullFieldObserver) else { return CallResults::default() };
    let result = |object: CalledObject, creates: bool, file_type: TraceFileType| LostResult {
        creates,
        file_type,
        ..LostResult::new(0, TraceSlotValueKind::FILEHANDLE, object)
    };
    let found = |result: LostResult| CallResults { results: vec![result], ..CallResults::default() };
    let opened = |place: &v3::Diropargs3<'_>, file_type: TraceFileType, may_exist: bool| {
        let directory = handle(place.dir.0);
        let name = LostName { may_exist, ..LostName::new(&directory, place.name.0, LostNameChange::Created) };
        let result = LostResult { may_exist, ..result(directory.child(place.name.0), true, file_type) };
        CallResults { results: vec![result], names: vec![name], sizes: Vec::new() }
    };
    let created = |place: &v3::Diropargs3<'_>, file_type: TraceFileType| opened(place, file_type, false);
    let changed =
        |place: &v3::Diropargs3<'_>, change: LostNameChange| LostName::new(&handle(place.dir.0), place.name.0, change);
    let named = |names: Vec<LostName>| CallResults { names, ..CallResults::default() };
    let sized = |size: Option<(u32, u64)>| CallResults { sizes: size.into_iter().collect(), ..CallResults::default() };
    match &args {
        Args::LOOKUP(args) => {
            let object = handle(args.what.dir.0).child(args.what.name.0);
            found(result(object, false, TraceFileType::UNKNOWN))
        }
        Args::CREATE(args) => {
            opened(&args.r#where, TraceFileType::FILE, matches!(args.how, v3::Createhow3::Unchecked(_)))
        }
        Args::MKDIR(args) => created(&args.r#where, TraceFileType::DIRECTORY),
        Args::SYMLINK(args) => created(&args.r#where, TraceFileType::LINK),
        Args::MKNOD(args) => created(&args.r#where, TraceFileType::UNKNOWN),
        Args::LINK(args) => named(vec![changed(&args.link, LostNameChange::Moved)]),
        Args::RENAME(args) => {
            named(vec![changed(&args.from, LostNameChange::Removed), changed(&args.to, LostNameChange::Moved)])
        }
        Args::REMOVE(args) => named(vec![changed(&args.object, LostNameChange::Removed)]),
        Args::RMDIR(args) => named(vec![changed(&args.object, LostNameChange::Removed)]),
        Args::READDIRPLUS(_) => found(result(CalledObject::of_handle(NONE), false, TraceFileType::UNKNOWN)),
        Args::WRITE(args) => sized(handle(args.file.0).size(args.offset, args.count.into())),
        Args::SETATTR(args) => sized(args.new_attributes.size.and_then(|size| handle(args.object.0).size(size, 0))),
        _ => CallResults::default(),
    }
}

#[cfg(test)]
mod tests;
