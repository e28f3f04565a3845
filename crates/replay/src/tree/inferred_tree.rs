//! The tree of objects that was inferred so far, and the memory that it uses.

use std::collections::VecDeque;

use nfsrdma_nfs_model::types::Types;
use rustc_hash::{FxHashMap, FxHashSet};

use super::inferred_object::{InferredNameBinding, InferredObject, InferredObjectId, InferredObjectName, Occupancy};
use super::latest_file_state::FileTreeAfterExecutedSteps;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::step::NONE;

/// Default maximum of the memory of a tree in bytes.
pub(super) const DEFAULT_MEMORY_BYTES: usize = 128 << 20;
/// Maximum number of separate ranges per file: while less than half of the memory is used, while less than all of it is
/// used, and at the limit.
const MAX_RANGES_PER_FILE: [usize; 3] = [1 << 16, 64, 1];
/// Estimated bytes of an object without its names, table entries included.
const OBJECT_BYTES: usize = size_of::<InferredObject>() + 64;
/// Overhead of a name in bytes.
pub(super) const NAME_OVERHEAD_BYTES: usize = 96;
/// Bytes of the first changes of a name: a hash table that is rehashed, and a list of four.
const FIRST_CHANGES_BYTES: usize = 96 + 4 * size_of::<NameChange>();
/// Bytes of a listing that is not at its end.
const LISTING_BYTES: usize = 32;
const MAX_NAMES_PER_OBJECT: usize = 256;
const MAX_HANDLES_PER_OBJECT: usize = 64;
/// Maximum number of names that are tried for an entry whose name is not known.
const MAX_UNNAMED: u32 = 1024;
/// Maximum number of links without known names that are made for the objects of a tree: each is a call to the server.
const MAX_UNNAMED_LINKS: usize = 4096;
/// Maximum number of removed objects that are remembered because they may have been links of others.
const MAX_REMOVED_UNKNOWN: usize = 256;
/// Beginning of the name of an entry of a directory of which it is only known that it is not empty.
const UNNAMED: &str = "unnamed-entry";

/// The tree inferred so far.
#[derive(Debug)]
pub struct InferredTree {
    pub(super) nodes: Vec<InferredObject>,
    /// Objects by the variable of a filehandle.
    pub(super) by_handle: FxHashMap<u32, InferredObjectId>,
    /// Bindings by the hash of directory and name.
    pub(super) by_name: FxHashMap<u128, InferredNameBinding>,
    /// Times of the call and of the reply of the current step, in nanoseconds since 1970; `None` if changes of names
    /// are not recorded.
    pub(super) step_ns: Option<[u64; 2]>,
    /// Changes of names that had another binding before, by the hash of directory and name.
    pub(super) changes: FxHashMap<u128, Vec<NameChange>>,
    /// `true` if changes were left out because of the memory limit.
    pub(super) has_dropped_changes: bool,
    /// The root of each server.
    pub(super) roots: FxHashMap<u32, InferredObjectId>,
    pub(super) memory_bytes: usize,
    /// Maximum of `memory_bytes`. Facts above the limit are left out and counted.
    pub(super) max_memory_bytes: usize,
    pub(super) left_out: u64,
    /// `true` if objects or names were left out because of it.
    pub(super) has_dropped_names: bool,
    /// `true` if a call without a captured reply may have changed link counts.
    pub(super) has_lost_links: bool,
    /// The last removed objects of which only the name was known, with the times of the call and of the reply.
    pub(super) removed_unknown: VecDeque<([u64; 2], InferredObjectId)>,
    /// Directories whose listing was captured from its beginning, but not to its end, with the cookie that it reached.
    pub(super) listings: FxHashMap<InferredObjectId, u64>,
    /// The current state of the tree, if it is tracked.
    pub(super) current: Option<FileTreeAfterExecutedSteps>,
}

/// Names that objects have had since before the first step, or with which they were created.
#[derive(Debug, Default)]
pub(crate) struct InitialNames {
    /// Objects by the hash of directory and name.
    objects: FxHashMap<u128, Vec<InferredObjectId>>,
    /// Directories of objects from before the first step.
    parents: FxHashSet<InferredObjectId>,
}

impl InitialNames {
    /// Returns the objects that have or had a name.
    pub(crate) fn objects(&self, parent: InferredObjectId, name: &[u8]) -> &[InferredObjectId] {
        self.objects.get(&key(parent, name)).map_or(&[], Vec::as_slice)
    }
}

/// A binding of a name that was another one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameChange {
    /// Times of the call and of the reply that made or found it, in nanoseconds since 1970.
    from_ns: u64,
    to_ns: u64,
    binding: InferredNameBinding,
    /// `true` if the step made it, `false` if the step found it.
    is_made: bool,
}

/// Result of [`InferredTree::object_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastBinding {
    /// The name denoted this object.
    Bound(InferredObjectId),
    /// No message shows that the name denoted an object.
    Unknown,
    /// The name may have denoted one of several objects.
    Ambiguous,
}

pub(crate) fn key(parent: InferredObjectId, name: &[u8]) -> u128 {
    let mut hasher = twox_hash::xxhash3_128::Hasher::with_seed(u64::from(parent.0));
    hasher.write(name);
    hasher.finish_128()
}

/// Returns `true` for the names of a directory itself and of the one above it.
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl InferredTree {
    /// Creates a tree that uses at most about `max_memory_bytes` bytes.
    pub fn new(max_memory_bytes: usize) -> Self {
        Self {
            nodes: Vec::new(),
            by_handle: FxHashMap::default(),
            by_name: FxHashMap::default(),
            step_ns: None,
            changes: FxHashMap::default(),
            has_dropped_changes: false,
            roots: FxHashMap::default(),
            memory_bytes: 0,
            max_memory_bytes,
            left_out: 0,
            has_dropped_names: false,
            has_lost_links: false,
            removed_unknown: VecDeque::new(),
            listings: FxHashMap::default(),
            current: None,
        }
    }

    /// Returns the objects, indexed by number.
    pub fn nodes(&self) -> &[InferredObject] {
        &self.nodes
    }

    /// Returns the number of objects, names and contents left out because of the memory limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns `true` if no object or name was left out because of the memory limit.
    pub fn has_all_names(&self) -> bool {
        !self.has_dropped_names
    }

    /// Returns the object of a filehandle.
    pub fn find_by_handle(&self, variable: u32) -> Option<InferredObjectId> {
        self.by_handle.get(&variable).copied()
    }

    pub(super) fn node(&mut self, id: InferredObjectId) -> Option<&mut InferredObject> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Returns the maximum number of separate ranges of a file for the memory that is used.
    fn max_ranges(&self) -> usize {
        let [many, few, one] = MAX_RANGES_PER_FILE;
        match self.memory_bytes {
            used if used < self.max_memory_bytes / 2 => many,
            used if used < self.max_memory_bytes => few,
            _ => one,
        }
    }

    pub(super) fn reserve_memory(&mut self, bytes: usize) -> bool {
        let has_space = self.memory_bytes + bytes <= self.max_memory_bytes;
        self.left_out += u64::from(!has_space);
        self.has_dropped_names |= !has_space;
        if has_space {
            self.memory_bytes += bytes;
        }
        has_space
    }

    fn add(&mut self, existence: TraceObjectOrigin, step: u64, now: u64, server: u32) -> Option<InferredObjectId> {
        let existence = match existence {
            TraceObjectOrigin::CREATED if now == 0 => TraceObjectOrigin::BEFORE,
            existence => existence,
        };
        if !self.reserve_memory(OBJECT_BYTES) || self.nodes.len() >= NONE as usize {
            return None;
        }
        let id = InferredObjectId(self.nodes.len() as u32);
        self.nodes.push(InferredObject { existence, step, server, first: now, ..InferredObject::default() });
        Some(id)
    }

    /// Returns the root of a server, or the directory that MOUNT returned for a path. Creates it if necessary.
    pub(super) fn find_or_add_root(&mut self, server: u32, path: &[u8], now: u64) -> Option<InferredObjectId> {
        if path == b"/"
            && let Some(id) = self.roots.get(&server)
        {
            return Some(*id);
        }
        let key = key(InferredObjectId(NONE - server.min(1 << 16)), path);
        if let Some(InferredNameBinding::Bound(id)) = self.by_name.get(&key) {
            return Some(*id);
        }
        let id = self.add(TraceObjectOrigin::ROOT, 0, now, server)?;
        self.set_type(id, TraceFileType::DIRECTORY);
        if let Some(node) = self.node(id) {
            node.names.push(InferredObjectName { parent: None, name: path.into(), step: 0 });
        }
        self.by_name.insert(key, InferredNameBinding::Bound(id));
        if path == b"/" {
            self.roots.insert(server, id);
        }
        Some(id)
    }

    /// Returns the object of a filehandle. Creates one from before the first step if the filehandle is new.
    pub(crate) fn find_or_add_by_handle(&mut self, variable: u32, server: u32, now: u64) -> Option<InferredObjectId> {
        if variable == NONE {
            return None;
        }
        if let Some(id) = self.by_handle.get(&variable) {
            return Some(*id);
        }
        let id = self.add(TraceObjectOrigin::BEFORE, 0, now, server)?;
        self.attach(id, variable);
        Some(id)
    }

    fn attach(&mut self, id: InferredObjectId, variable: u32) {
        if variable == NONE || !self.reserve_memory(32) {
            return;
        }
        if let Some(node) = self.node(id)
            && node.handles.len() < MAX_HANDLES_PER_OBJECT
            && !node.handles.contains(&variable)
        {
            node.handles.push(variable);
        }
        self.by_handle.insert(variable, id);
    }

    /// Records the type of an object, as an attribute or an argument has it.
    pub(crate) fn set_type(&mut self, id: InferredObjectId, file_type: TraceFileType) {
        if let Some(node) = self.node(id).filter(|node| !node.types.is_captured)
            && file_type != TraceFileType::UNKNOWN
        {
            (node.file_type, node.types.is_captured) = (file_type, true);
        }
    }

    /// Records the types that an object can have if an operation succeeded or failed as it did.
    pub(super) fn prove_types(&mut self, id: InferredObjectId, types: Types, is_success: bool) {
        if let Some(node) = self.node(id).filter(|node| !node.types.is_captured) {
            node.types.add(types, is_success);
            node.file_type = node.types.proven();
        }
    }

    /// Sets the times of the call and of the reply of the steps that follow, in nanoseconds since 1970.
    pub(crate) fn set_step_times(&mut self, step_ns: [u64; 2]) {
        self.step_ns = Some(step_ns);
    }

    /// Records the binding that a step made (`is_made`) or found.
    fn record_binding(&mut self, key: u128, binding: InferredNameBinding, is_made: bool) {
        let Some([from_ns, to_ns]) = self.step_ns else { return };
        let known = self.by_name.get(&key).copied();
        // What a step finds first was there from the beginning.
        let is_first = known.is_none() && !is_made && binding.object().is_some();
        if known == Some(binding) || is_first {
            return;
        }
        let is_new = !self.changes.contains_key(&key);
        let initial = known.filter(|_| is_new);
        let initial = initial.map(|binding| NameChange { from_ns: 0, to_ns: 0, binding, is_made: false });
        if !self.reserve_memory(if is_new { FIRST_CHANGES_BYTES } else { 2 * size_of::<NameChange>() }) {
            self.has_dropped_changes = true;
            return;
        }
        let changes = self.changes.entry(key).or_default();
        let last_ns = changes.last().map_or(0, |change| change.to_ns);
        changes.extend(initial);
        changes.push(NameChange { from_ns, to_ns: to_ns.max(last_ns), binding, is_made });
    }

    /// Returns the object that a name denoted at a time, in nanoseconds since 1970.
    pub(crate) fn object_at(&self, parent: InferredObjectId, name: &[u8], at_ns: u64) -> PastBinding {
        let current = |id: InferredObjectId| {
            let merged = self.nodes.get(id.0 as usize).and_then(|node| node.merged_into);
            PastBinding::Bound(merged.unwrap_or(id))
        };
        if self.has_dropped_changes {
            return PastBinding::Ambiguous;
        }
        let Some(changes) = self.changes.get(&key(parent, name)) else {
            return self.bound_object(parent, name).map_or(PastBinding::Unknown, current);
        };
        let (before, after) = changes.split_at(changes.partition_point(|change| change.to_ns <= at_ns));
        let bound = before.last().and_then(|change| change.binding.object());
        match (bound, after.first()) {
            (_, Some(next)) if next.is_made && next.from_ns <= at_ns => PastBinding::Ambiguous,
            // Found later, and not made by a step that was captured.
            (None, Some(next)) if !next.is_made => next.binding.object().map_or(PastBinding::Unknown, current),
            (Some(_), Some(next)) if !next.is_made && next.binding.object().is_some() => PastBinding::Ambiguous,
            (Some(id), _) => current(id),
            (None, _) => PastBinding::Unknown,
        }
    }

    /// Binds a name as a step made it.
    pub(super) fn bind(&mut self, parent: InferredObjectId, name: &[u8], binding: InferredNameBinding) {
        self.bind_as(parent, name, binding, true);
    }

    /// Binds a name as a step made it (`is_made`) or found it.
    fn bind_as(&mut self, parent: InferredObjectId, name: &[u8], binding: InferredNameBinding, is_made: bool) {
        if is_dots(name) {
            return;
        }
        self.bind_current_name(parent, name, binding);
        let key = key(parent, name);
        self.record_binding(key, binding, is_made);
        let was_bound = self.by_name.get(&key).is_some_and(|known| known.object().is_some());
        if !self.by_name.contains_key(&key) && !self.reserve_memory(NAME_OVERHEAD_BYTES) {
            return;
        }
        self.by_name.insert(key, binding);
        if let Some(directory) = self.node(parent) {
            let is_bound = binding.object().is_some();
            directory.entries = (directory.entries + u32::from(is_bound)).saturating_sub(u32::from(was_bound));
        }
    }

    pub(super) fn binding(&self, parent: InferredObjectId, name: &[u8]) -> Option<InferredNameBinding> {
        self.by_name.get(&key(parent, name)).copied()
    }

    /// Adds a name that an object has since a step, or has had since before the first one.
    fn add_name(&mut self, id: InferredObjectId, parent: InferredObjectId, name: &[u8], step: u64) {
        if is_dots(name) || !self.reserve_memory(NAME_OVERHEAD_BYTES + name.len()) {
            return;
        }
        if let Some(directory) = self.node(parent).filter(|directory| directory.occupancy == Occupancy::Needed)
            && step == 0
        {
            directory.occupancy = Occupancy::Unknown;
        }
        if let Some(node) = self.node(id)
            && node.names.len() < MAX_NAMES_PER_OBJECT
        {
            let new_name = InferredObjectName { parent: Some(parent), name: name.into(), step };
            if !node.names.contains(&new_name) {
                node.names.push(new_name);
            }
        }
    }

    /// Records that a name exists. `handle` is the filehandle returned for it, or [`NONE`]. Returns its object.
    pub(crate) fn resolve_name(
        &mut self,
        parent: InferredObjectId,
        name: &[u8],
        handle: u32,
        now: u64,
    ) -> Option<InferredObjectId> {
        let server = self.nodes.get(parent.0 as usize).map_or(NONE, |node| node.server);
        if is_dots(name) {
            return self.resolve_dots(parent, name, handle, (server, now));
        }
        let by_handle = self.find_by_handle(handle);
        let has_handle = |tree: &Self, id: InferredObjectId| {
            tree.nodes.get(id.0 as usize).is_some_and(|node| !node.handles.is_empty())
        };
        let id = match (self.binding(parent, name), by_handle) {
            // Only the filehandle of the object was known before.
            (Some(InferredNameBinding::Bound(named)), Some(handled))
                if named != handled && !has_handle(self, named) =>
            {
                self.merge(named, handled);
                self.by_name.insert(key(parent, name), InferredNameBinding::Bound(handled));
                handled
            }
            // If it is another object, somebody else renamed, linked, replaced or created it.
            (Some(_), Some(handled)) => handled,
            (Some(InferredNameBinding::Bound(named)), None) if handle == NONE || !has_handle(self, named) => named,
            (Some(_), None) => self.add(TraceObjectOrigin::CREATED, 0, now, server)?,
            (None, Some(handled)) => {
                let is_from_before =
                    self.nodes.get(handled.0 as usize).is_some_and(|node| node.existence == TraceObjectOrigin::BEFORE);
                self.add_name(handled, parent, name, if is_from_before { 0 } else { now });
                handled
            }
            (None, None) => {
                let id = self.add(TraceObjectOrigin::BEFORE, 0, now, server)?;
                self.add_name(id, parent, name, 0);
                id
            }
        };
        self.attach_handle_if_new(id, handle);
        self.bind_as(parent, name, InferredNameBinding::Bound(id), false);
        Some(id)
    }

    /// Returns the directory itself for ".", and the one above it for "..", which are the names of no entry. RFC 1813
    /// section 3.2.
    fn resolve_dots(
        &mut self,
        directory: InferredObjectId,
        name: &[u8],
        handle: u32,
        (server, now): (u32, u64),
    ) -> Option<InferredObjectId> {
        let above = || self.nodes.get(directory.0 as usize)?.names.last()?.parent;
        let known = if name == b"." { Some(directory) } else { above() };
        let lacks_handle =
            |id: InferredObjectId| self.nodes.get(id.0 as usize).is_some_and(|node| node.handles.is_empty());
        let id = match (self.find_by_handle(handle), known) {
            (Some(handled), _) => handled,
            (None, Some(id)) if handle == NONE || lacks_handle(id) => id,
            (None, _) => self.find_or_add_by_handle(handle, server, now)?,
        };
        self.attach_handle_if_new(id, handle);
        self.prove_types(id, Types::DIRECTORY, true);
        if name == b".."
            && let Some(node) = self.node(directory).filter(|_| id != directory)
        {
            node.above = node.above.or(Some(id));
        }
        Some(id)
    }

    pub(super) fn attach_handle_if_new(&mut self, id: InferredObjectId, handle: u32) {
        if handle != NONE && self.find_by_handle(handle).is_none() {
            self.attach(id, handle);
        }
    }

    /// Merges an object known only by name into the same object known by its filehandle.
    fn merge(&mut self, named: InferredObjectId, handled: InferredObjectId) {
        let Some(from) = self.nodes.get_mut(named.0 as usize) else { return };
        let names = std::mem::take(&mut from.names);
        let (file_type, types) = (from.file_type, from.types);
        let (mode, target) = (from.mode, std::mem::take(&mut from.target));
        let (existence, step) = (from.existence, from.step);
        let (owners, changer) = (from.owners.take(), from.changer);
        let (entries, occupancy) = (from.entries, from.occupancy);
        let (links, link_change) = (from.links, from.link_change);
        // The remaining node never existed.
        from.existence = TraceObjectOrigin::CREATED;
        from.merged_into = Some(handled);
        if let Some(node) = self.node(handled) {
            node.names.extend(names);
            (node.existence, node.step) = (existence, step);
            node.mode = node.mode.or(mode);
            node.owners = node.owners.take().or(owners);
            node.changer = node.changer.or(changer);
            node.entries += entries;
            node.links = node.links.or(links);
            node.link_change = node.link_change.saturating_add(link_change);
            if node.occupancy == Occupancy::Unknown {
                node.occupancy = occupancy;
            }
            if node.target.is_empty() {
                node.target = target;
            }
        }
        match types.is_captured {
            true => self.set_type(handled, file_type),
            false => {
                self.prove_types(handled, types.by_success, true);
                self.prove_types(handled, types.by_failure, false);
            }
        }
    }

    /// Records that a name does not exist: it never did, or a step removed it.
    pub(crate) fn unbind_name(&mut self, parent: InferredObjectId, name: &[u8]) {
        self.bind_as(parent, name, InferredNameBinding::Unbound, false);
    }

    /// Records that a step created a name. `was_there` is `true` if the server only opened an existing file.
    pub(super) fn create_name(
        &mut self,
        parent: InferredObjectId,
        name: &[u8],
        handle: u32,
        file_type: TraceFileType,
        was_there: bool,
        now: u64,
    ) -> Option<InferredObjectId> {
        let is_there = self.binding(parent, name).is_some_and(|binding| binding.object().is_some());
        if was_there || is_there && file_type == TraceFileType::FILE {
            let id = self.resolve_name(parent, name, handle, now)?;
            self.set_type(id, file_type);
            return Some(id);
        }
        let server = self.nodes.get(parent.0 as usize).map_or(NONE, |node| node.server);
        let existing = self.find_by_handle(handle);
        let id = existing.or_else(|| self.add(TraceObjectOrigin::CREATED, now, now, server))?;
        self.add_name(id, parent, name, now);
        self.set_type(id, file_type);
        self.attach_handle_if_new(id, handle);
        self.bind(parent, name, InferredNameBinding::Bound(id));
        Some(id)
    }

    /// Records that a step removed or renamed a name, and returns its object. Unless a step created it, it existed
    /// before.
    pub(super) fn remove_name(
        &mut self,
        parent: InferredObjectId,
        name: &[u8],
        types: Types,
        now: u64,
    ) -> Option<InferredObjectId> {
        let id = self.take_name(parent, name, now)?;
        self.prove_types(id, types, true);
        self.record_removal(id);
        Some(id)
    }

    /// Unbinds a name that a step removed or renamed, and returns its object.
    fn take_name(&mut self, parent: InferredObjectId, name: &[u8], now: u64) -> Option<InferredObjectId> {
        if is_dots(name) {
            return None;
        }
        let existing = self.bound_object(parent, name);
        let id = existing.or_else(|| self.resolve_name(parent, name, NONE, now));
        self.bind(parent, name, InferredNameBinding::Unbound);
        id
    }

    /// Records that a step removed a name of an object: a directory was empty.
    fn record_removal(&mut self, id: InferredObjectId) {
        self.change_links(id, -1);
        self.record_listed(id);
        let (Some(node), Some(step_ns)) = (self.nodes.get(id.0 as usize), self.step_ns) else { return };
        let is_unknown = node.existence == TraceObjectOrigin::BEFORE && node.handles.is_empty();
        if is_unknown && !node.types.is_captured && node.names.len() == 1 {
            if self.removed_unknown.len() >= MAX_REMOVED_UNKNOWN {
                self.removed_unknown.pop_front();
            }
            self.removed_unknown.push_back((step_ns, id));
        }
    }

    /// Records that a directory is not empty. If no name in it is known, it gets one before the first step.
    pub(super) fn record_occupied(&mut self, id: InferredObjectId) {
        if let Some(node) = self.node(id)
            && node.existence == TraceObjectOrigin::BEFORE
            && node.entries == 0
            && node.occupancy == Occupancy::Unknown
        {
            node.occupancy = Occupancy::Needed;
        }
    }

    /// Records a part of a listing, which begins behind a cookie and ends with another, or at the end of the directory
    /// (`None`). Only a listing whose parts were all captured shows all names. RFC 1813 section 3.3.16, RFC 8881 section
    /// 18.23.3.
    pub(super) fn record_listing(&mut self, id: InferredObjectId, from: u64, to: Option<u64>) {
        if from != 0 && self.listings.get(&id) != Some(&from) {
            return;
        }
        match to {
            Some(to) => {
                if self.listings.contains_key(&id) || self.reserve_memory(LISTING_BYTES) {
                    self.listings.insert(id, to);
                }
            }
            None => {
                if self.listings.remove(&id).is_some() {
                    self.memory_bytes = self.memory_bytes.saturating_sub(LISTING_BYTES);
                }
                self.record_listed(id);
            }
        }
    }

    /// Records that all names in a directory are known: those that a listing shows, or none.
    pub(super) fn record_listed(&mut self, id: InferredObjectId) {
        if let Some(node) = self.node(id) {
            node.occupancy = Occupancy::Excluded;
        }
    }

    /// Records a link count in a reply, unless it is that of a directory, which depends on the file system. The lowest
    /// value counts, as the reply may have overlapped with a change.
    pub(super) fn record_links(&mut self, id: InferredObjectId, links: u32) {
        let (has_lost_links, [call_ns, reply_ns]) = (self.has_lost_links, self.step_ns.unwrap_or_default());
        let Some(node) = self.node(id).filter(|node| node.possible_types() != Types::DIRECTORY) else { return };
        let initial = u32::try_from(i64::from(links).saturating_sub(node.link_change)).unwrap_or(0);
        let seen_ns = std::mem::replace(&mut node.links_seen_ns, reply_ns);
        let Some(known) = node.links else {
            node.links = Some(initial).filter(|_| !has_lost_links);
            return;
        };
        let lost = known.saturating_sub(initial);
        if lost > 0 && !self.adopt_removed_names(id, lost as usize, [seen_ns, call_ns]) {
            self.node(id).into_iter().for_each(|node| node.links = Some(initial));
        }
    }

    /// Gives an object with fewer links than before the names of the last objects that were removed between these times,
    /// and of which nothing else is known: they may have been its links, and no reply tells. Returns `false` if there
    /// are too few. A directory has one name.
    fn adopt_removed_names(&mut self, id: InferredObjectId, count: usize, [from_ns, to_ns]: [u64; 2]) -> bool {
        let known = self.nodes.get(id.0 as usize).filter(|node| node.existence == TraceObjectOrigin::BEFORE);
        let types = known.map(InferredObject::possible_types).filter(|types| !types.has(Types::DIRECTORY));
        let Some(types) = types else { return false };
        let is_between = |[call_ns, reply_ns]: [u64; 2]| from_ns < call_ns && reply_ns < to_ns;
        let is_candidate = |(removed_ns, removed): &&([u64; 2], InferredObjectId)| {
            let node = self.nodes.get(removed.0 as usize);
            let may_be_link = |node: &InferredObject| {
                node.possible_types().has(types) && node.names.iter().all(|name| name.parent != Some(id))
            };
            *removed != id && is_between(*removed_ns) && node.is_some_and(may_be_link)
        };
        let candidates = self.removed_unknown.iter().rev().filter(is_candidate);
        let removed: Vec<_> = candidates.map(|(_, removed)| *removed).take(count).collect();
        if removed.len() < count {
            return false;
        }
        for removed in removed {
            self.removed_unknown.retain(|(_, other)| *other != removed);
            self.merge(removed, id);
        }
        true
    }

    /// Records that a step added or removed links of an object.
    pub(super) fn change_links(&mut self, id: InferredObjectId, change: i64) {
        if let Some(node) = self.node(id) {
            node.link_change = node.link_change.saturating_add(change);
        }
    }

    /// Adds what replies show, but do not name: an entry of each directory that was not empty, the place of a directory
    /// of which only the one above is known, and further links.
    pub(crate) fn add_unnamed(&mut self) {
        let mut free_links = MAX_UNNAMED_LINKS;
        for number in 0..self.nodes.len() {
            let id = InferredObjectId(number as u32);
            let Some(node) = self.nodes.get(number) else { return };
            if node.existence != TraceObjectOrigin::BEFORE {
                continue;
            }
            if node.initial_type() != TraceFileType::DIRECTORY {
                self.add_links(id, &mut free_links);
                continue;
            }
            let above = node.above.filter(|_| node.names.is_empty());
            if node.occupancy == Occupancy::Needed {
                let server = node.server;
                if let Some(entry) = self.add(TraceObjectOrigin::BEFORE, 0, 0, server) {
                    self.set_type(entry, TraceFileType::FILE);
                    self.name_entry(entry, id);
                }
            }
            // Unless all its entries are known: it is one of these.
            let is_listed = |above: &InferredObjectId| {
                self.nodes.get(above.0 as usize).is_some_and(|above| above.occupancy == Occupancy::Excluded)
            };
            if let Some(above) = above.filter(|above| !is_listed(above)) {
                self.name_entry(id, above);
            }
        }
    }

    /// Gives an entry of a directory a name that no step uses.
    fn name_entry(&mut self, id: InferredObjectId, directory: InferredObjectId) {
        let mut names = (0..MAX_UNNAMED).map(|number| format!("{UNNAMED}-{number}").into_bytes());
        if let Some(name) = names.find(|name| self.binding(directory, name).is_none()) {
            self.add_name(id, directory, &name, 0);
            self.bind_as(directory, &name, InferredNameBinding::Bound(id), false);
        }
    }

    /// Adds the links of an object whose names are unknown, outside of the captured tree: at most `free_links`, which it
    /// reduces. Those that are left out are counted; one link with an empty name marks them.
    fn add_links(&mut self, id: InferredObjectId, free_links: &mut usize) {
        let Some(node) = self.nodes.get(id.0 as usize) else { return };
        let named = node.names.iter().filter(|name| name.step == 0).count();
        let missing = node.links.unwrap_or(0).saturating_sub(named as u32) as usize;
        // An object without a name has one there anyway.
        if missing == 0 || named == 0 && missing == 1 {
            return;
        }
        let max_links = MAX_NAMES_PER_OBJECT.saturating_sub(node.names.len()).min(*free_links);
        let unnamed = |name: Vec<u8>| InferredObjectName { parent: None, name: name.into(), step: 0 };
        for link in 0..missing.min(max_links) {
            let name = format!("{}-{link}", id.0).into_bytes();
            if !self.reserve_memory(NAME_OVERHEAD_BYTES + name.len()) {
                return;
            }
            *free_links -= 1;
            self.node(id).into_iter().for_each(|node| node.names.push(unnamed(name.clone())));
        }
        if missing > max_links {
            self.left_out += (missing - max_links) as u64;
            self.node(id).into_iter().for_each(|node| node.names.push(unnamed(Vec::new())));
        }
    }

    pub(super) fn rename(&mut self, from: (InferredObjectId, &[u8]), to: (InferredObjectId, &[u8]), now: u64) {
        // Both names of a hard link stay: RFC 1813 section 3.3.14, RFC 8881 section 18.26.3.
        let bound = [from, to].map(|(parent, name)| self.binding(parent, name)?.object());
        if bound[0].is_some() && bound[0] == bound[1] {
            return;
        }
        if let Some(id) = self.take_name(from.0, from.1, now) {
            if let Some(replaced) = bound[1] {
                self.record_removal(replaced);
            }
            self.bind(to.0, to.1, InferredNameBinding::Bound(id));
        }
    }

    /// Records that a step reads a range. Calls `on_new_range` with each part that was in the file before the first
    /// step.
    pub(super) fn record_read(
        &mut self,
        id: InferredObjectId,
        from: u64,
        to: u64,
        mut on_new_range: impl FnMut(u64, u64),
    ) {
        let max_ranges = self.max_ranges();
        let Some(node) = self.nodes.get_mut(id.0 as usize) else { return };
        let is_from_before = node.existence != TraceObjectOrigin::CREATED;
        let before = node.content.heap_bytes();
        let mut has_initial_content = false;
        let is_full = node.content.add(from, to, max_ranges, |from, to| {
            if is_from_before {
                has_initial_content = true;
                on_new_range(from, to);
            }
        });
        node.has_initial_content |= has_initial_content;
        if !node.is_resized && !node.is_size_known {
            node.size = node.size.max(to);
        }
        self.memory_bytes = (self.memory_bytes + node.content.heap_bytes()).saturating_sub(before);
        self.left_out += u64::from(is_full && is_from_before);
    }

    pub(super) fn record_write(&mut self, id: InferredObjectId, from: u64, to: u64, now: u64) {
        // Data written before the first step is initial content.
        if now == 0 {
            return;
        }
        self.remove_current_range(id, from, to);
        self.exclude_from_initial_content(id, from, to);
    }

    /// Returns the size of a file before the first step, in bytes, if a message showed it.
    pub(super) fn known_initial_size(&self, id: InferredObjectId) -> Option<u64> {
        self.nodes.get(id.0 as usize).filter(|node| node.is_size_known).map(|node| node.size)
    }

    /// Records that a range no longer holds initial content.
    pub(super) fn exclude_from_initial_content(&mut self, id: InferredObjectId, from: u64, to: u64) {
        let max_ranges = self.max_ranges();
        let Some(node) = self.nodes.get_mut(id.0 as usize) else { return };
        let before = node.content.heap_bytes();
        node.content.add(from, to, max_ranges, |_, _| {});
        node.is_resized = true;
        node.written_end = node.written_end.max(to);
        self.memory_bytes = (self.memory_bytes + node.content.heap_bytes()).saturating_sub(before);
    }

    /// Records the size of a file that steps have changed: what it has beyond that later is not initial content.
    pub(super) fn exclude_beyond_size(&mut self, id: InferredObjectId, size: u64) {
        let max_ranges = self.max_ranges();
        let Some(node) = self.nodes.get_mut(id.0 as usize) else { return };
        if node.is_resized && node.existence == TraceObjectOrigin::BEFORE {
            let before = node.content.heap_bytes();
            node.content.add(size, u64::MAX, max_ranges, |_, _| {});
            self.memory_bytes = (self.memory_bytes + node.content.heap_bytes()).saturating_sub(before);
        }
    }

    /// Records that a step changes the size of a file, which discards the bytes after `size`.
    pub(super) fn record_resize(&mut self, id: InferredObjectId, size: u64, now: u64) {
        self.record_write(id, size, u64::MAX, now);
        self.set_current_size(id, Some(size));
        self.set_current_tail(id, size);
    }

    /// Returns the root of a server, if a message used it.
    pub(crate) fn root(&self, server: u32) -> Option<InferredObjectId> {
        self.roots.get(&server).copied()
    }

    /// Returns the object that a name denotes now, if it is known.
    pub(crate) fn bound_object(&self, parent: InferredObjectId, name: &[u8]) -> Option<InferredObjectId> {
        self.binding(parent, name)?.object()
    }

    /// Returns `true` if the object of a name is known to have changed.
    pub(crate) fn is_changed(&self, parent: InferredObjectId, name: &[u8]) -> bool {
        self.changes.contains_key(&key(parent, name))
    }

    /// Returns the names that objects have had since before the first step.
    pub(crate) fn initial_names(&self) -> InitialNames {
        let mut names = InitialNames::default();
        for (id, node) in (0..).map(InferredObjectId).zip(&self.nodes) {
            for name in &node.names {
                let Some(parent) = name.parent else { continue };
                if node.existence == TraceObjectOrigin::BEFORE {
                    names.parents.insert(parent);
                }
                names.objects.entry(key(parent, &name.name)).or_default().push(id);
            }
        }
        names
    }

    /// Returns `true` if a step creates an object.
    pub(crate) fn is_created(&self, id: InferredObjectId) -> bool {
        self.nodes.get(id.0 as usize).is_some_and(|node| node.existence == TraceObjectOrigin::CREATED)
    }

    /// Records that a call whose reply was lost created an object that later steps use, unless these show content from
    /// before it. A call that only opens a file that is there has `max_size`: what steps without a reply can have made
    /// of a new file, in bytes. A larger initial size is from before the call.
    pub(crate) fn record_lost_creation(
        &mut self,
        names: &InitialNames,
        id: InferredObjectId,
        step: u64,
        max_size: Option<u64>,
    ) {
        let is_parent = names.parents.contains(&id);
        let Some(known) = self.nodes.get(id.0 as usize) else { return };
        // In a directory that a step created, only steps create objects: those without a reply wrote the content.
        let is_new = !known.names.is_empty()
            && known.names.iter().all(|name| name.parent.is_some_and(|parent| self.is_created(parent)));
        let has_initial_size = known.is_size_known && max_size.is_some_and(|max_size| known.size > max_size);
        let was_there = is_parent || !is_new && (known.has_initial_content || has_initial_size);
        if let Some(node) = self.node(id).filter(|node| node.existence == TraceObjectOrigin::BEFORE && !was_there) {
            (node.existence, node.step) = (TraceObjectOrigin::CREATED, step);
            for name in &mut node.names {
                name.step = step;
            }
        }
    }

    /// Records that a call whose reply was lost gave an object a name: by creating it, or besides another one.
    pub(crate) fn record_lost_name(
        &mut self,
        names: &InitialNames,
        id: InferredObjectId,
        (parent, name): (InferredObjectId, &[u8]),
        (creates, max_size): (bool, Option<u64>),
        step: u64,
    ) {
        let is_it =
            |known: &InferredObjectName| known.parent == Some(parent) && *known.name == *name && known.step == 0;
        if names.objects(parent, name) != [id] {
            return;
        }
        if creates {
            self.record_lost_creation(names, id, step, max_size);
        } else if let Some(node) = self.node(id).filter(|node| node.names.len() > 1) {
            node.names.iter_mut().filter(|known| is_it(known)).for_each(|known| known.step = step);
        }
    }

    /// Gives a name to an object without one, since a step or (0) since before the first one.
    pub(crate) fn add_lost_name(&mut self, id: InferredObjectId, parent: InferredObjectId, name: &[u8], step: u64) {
        self.add_name(id, parent, name, step);
        self.bind_as(parent, name, InferredNameBinding::Bound(id), false);
    }

    /// Makes an object without a name the root of its server, or the directory that MOUNT returned for a path.
    pub(crate) fn make_root(&mut self, id: InferredObjectId, path: &[u8]) {
        let Some(node) = self.node(id) else { return };
        (node.existence, node.file_type) = (TraceObjectOrigin::ROOT, TraceFileType::DIRECTORY);
        node.types.is_captured = true;
        node.names.push(InferredObjectName { parent: None, name: path.into(), step: 0 });
        let server = node.server;
        if path == b"/"
            && let Some(other) = self.roots.insert(server, id)
            && let Some(other_node) = self.node(other)
        {
            // The same root, known without its filehandle.
            other_node.existence = TraceObjectOrigin::CREATED;
            let names = self.nodes.iter_mut().flat_map(|node| &mut node.names);
            names.filter(|name| name.parent == Some(other)).for_each(|name| name.parent = Some(id));
        }
    }

    /// Records that an object must not be created before the first step: steps that use it are left out.
    pub(crate) fn exclude_from_seeding(&mut self, id: InferredObjectId) {
        if let Some(node) = self.node(id) {
            node.existence = TraceObjectOrigin::CREATED;
        }
    }

    pub(super) fn record_use(&mut self, id: InferredObjectId, now: u64) {
        if let Some(node) = self.node(id).filter(|_| now != 0) {
            node.uses += 1;
            if node.first == 0 {
                node.first = now;
            }
        }
    }
}
