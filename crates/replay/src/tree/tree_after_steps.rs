//! The current state of the tree after the executed steps: bindings of names and contents of files.
//!
//! A tree with [current state](InferredTree::with_current_state) tracks it in addition to the initial state. State that
//! a step left uncertain is not reported.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::inference::{CapturedObjectAttributes, TreeInferenceStepInput};
use super::inferred_object::{InferredNameBinding, InferredObjectId, ROOT, name_hash};
use super::inferred_tree::{DEFAULT_MEMORY_BYTES, InferredTree, NAME_OVERHEAD_BYTES};
use super::latest_file_state::{
    CurrentNameBinding, ExtentContent, FileTreeAfterExecutedSteps, KnownFileContentRange, LatestInferredFileState,
};
use crate::trace::file_format::TraceFileType;
use crate::trace::step::{TracePayload, TraceSlotValueKind};

/// Bytes of memory of an extent with its key, in a map whose nodes are half full.
const EXTENT_BYTES: usize = 2 * (size_of::<u64>() + size_of::<KnownFileContentRange>());

impl InferredTree {
    /// Creates a tree that tracks the current state.
    pub fn with_current_state() -> Self {
        Self { current: Some(FileTreeAfterExecutedSteps::default()), ..Self::new(DEFAULT_MEMORY_BYTES) }
    }

    /// Updates the tree from an executed step. `is_racing` is `true` if others were in flight at the same time.
    pub fn update(&mut self, input: &TreeInferenceStepInput<'_>, is_racing: bool, frames: [u64; 2]) {
        self.begin_step(is_racing, frames);
        self.infer_from_step(input, &mut Vec::new());
        self.forget_unnamed_content();
    }

    /// Updates the tree from an executed step whose reply was not captured. If it gave filehandles that later steps use,
    /// their objects have the names by which the call found or created them.
    pub fn update_from_lost_reply(&mut self, input: &TreeInferenceStepInput<'_>, frames: [u64; 2]) {
        self.begin_step(true, frames);
        self.infer_from_lost_reply(input);
        self.forget_unnamed_content();
    }

    fn begin_step(&mut self, is_concurrent: bool, frames: [u64; 2]) {
        if let Some(current) = &mut self.current {
            (current.is_concurrent, current.frames) = (is_concurrent, frames);
        }
    }

    /// Marks the objects that a step names as uncertain, because its effect on them is unknown.
    pub fn mark_uncertain(&mut self, input: &TreeInferenceStepInput<'_>) {
        for slot in input.call.slots.iter().chain(input.reply.slots.iter()) {
            if slot.value_kind != TraceSlotValueKind::FILEHANDLE {
                continue;
            }
            let id = self.find_or_add_by_handle(slot.variable, input.server, input.id);
            id.into_iter().for_each(|id| self.mark_object_uncertain(id));
        }
    }

    /// Returns the object of a filehandle, which is added if it is new; `variable` may be that of the root.
    fn object_of(&mut self, variable: u32, (server, step): (u32, u64)) -> Option<InferredObjectId> {
        match variable {
            ROOT => self.find_or_add_root(server, b"/", step),
            variable => self.find_or_add_by_handle(variable, server, step),
        }
    }

    /// Marks a name in a directory as uncertain: a step may have created or removed it. `may_change_object` is `true`
    /// if the step may also have changed the object of the name.
    pub fn mark_name_uncertain(
        &mut self,
        directory: u32,
        server_and_step: (u32, u64),
        name: u64,
        may_change_object: bool,
    ) {
        let Some(directory) = self.object_of(directory, server_and_step) else {
            return self.mark_unknown_changes();
        };
        let has_space = self.reserve_memory(NAME_OVERHEAD_BYTES);
        let Some(current) = &mut self.current else { return };
        if !has_space {
            current.has_unknown_changes = true;
            return;
        }
        let is_first = current.uncertain_names.entry(directory).or_default().insert(name);
        let names_in_flight = current.names_in_flight.entry(directory).or_default();
        match current.is_in_flight {
            true if is_first => drop(names_in_flight.insert(name)),
            true => {}
            false => drop(names_in_flight.remove(&name)),
        }
        let bindings = current.names.get(&directory);
        let matching = bindings.into_iter().flatten().filter(|(bound_name, _)| name_hash(bound_name) == name);
        let bound = matching.filter_map(|(_, binding)| binding.object()).next();
        if let Some(id) = bound.filter(|_| may_change_object) {
            self.mark_object_uncertain(id);
        }
    }

    /// Records whether the effects that are marked as uncertain from now on are those of a call in flight when the
    /// capture ends.
    pub fn set_in_flight(&mut self, is_in_flight: bool) {
        if let Some(current) = &mut self.current {
            current.is_in_flight = is_in_flight;
        }
    }

    /// Returns `true` if only calls in flight when the capture ends may have created or removed a name.
    pub fn is_name_in_flight(&self, directory: InferredObjectId, name: &[u8]) -> bool {
        let current = self.current.as_ref();
        let names = current.and_then(|current| current.names_in_flight.get(&directory));
        names.is_some_and(|names| names.contains(&name_hash(name)))
    }

    /// Returns `true` if only calls in flight when the capture ends make an object uncertain.
    pub fn is_in_flight(&self, id: InferredObjectId) -> bool {
        let file = self.current.as_ref().and_then(|current| current.files.get(&id));
        file.is_some_and(|file| file.is_uncertain && file.is_in_flight)
    }

    /// Records that a step may have changed names in an unknown directory.
    pub fn mark_unknown_changes(&mut self) {
        if let Some(current) = &mut self.current {
            current.has_unknown_changes = true;
        }
    }

    /// Returns `true` if a step may have changed names in an unknown directory.
    pub fn has_unknown_changes(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.has_unknown_changes)
    }

    /// Returns `true` if a step may have created or removed a name.
    pub fn is_name_uncertain(&self, directory: InferredObjectId, name: &[u8]) -> bool {
        let current = self.current.as_ref();
        let names = current.and_then(|current| current.uncertain_names.get(&directory));
        names.is_some_and(|names| names.contains(&name_hash(name)))
    }

    /// Marks a range of a file as unknown, and its size.
    pub fn mark_range_uncertain(&mut self, file: u32, server_and_step: (u32, u64), from: u64, to: u64) {
        let Some(id) = self.object_of(file, server_and_step) else { return };
        if let Some(current) = &mut self.current {
            current.is_concurrent = false;
        }
        self.remove_current_range(id, from, to);
        self.set_current_size(id, None);
    }

    /// Marks the mode of an object as unknown.
    pub fn mark_mode_uncertain(&mut self, file: u32, server_and_step: (u32, u64)) {
        if let Some(id) = self.object_of(file, server_and_step) {
            self.set_current_mode(id, None);
        }
    }

    /// Records the size of a file before the first step.
    pub fn set_initial_size(&mut self, file: u32, server: u32, size: u64) {
        if let Some(id) = self.find_or_add_by_handle(file, server, 0) {
            self.set_current_size(id, Some(size));
        }
    }

    /// Records content from before the first step. It is checked as what the steps write.
    pub fn add_initial_content(&mut self, payload: &TracePayload, server: u32) {
        let Some(id) = self.find_or_add_by_handle(payload.file, server, 0) else { return };
        let to = payload.offset.saturating_add(payload.length.into());
        self.begin_step(false, [0; 2]);
        self.remove_current_range(id, payload.offset, to);
        self.add_current_extent(id, Some(payload), payload.offset, to);
    }

    /// Returns the state of an object to be updated, if the current state is tracked.
    fn current_file(&mut self, id: InferredObjectId) -> Option<&mut LatestInferredFileState> {
        Some(self.current.as_mut()?.files.entry(id).or_default())
    }

    pub(super) fn mark_object_uncertain(&mut self, id: InferredObjectId) {
        let is_in_flight = self.current.as_ref().is_some_and(|current| current.is_in_flight);
        if let Some(file) = self.current_file(id) {
            file.is_in_flight = is_in_flight && (!file.is_uncertain || file.is_in_flight);
            file.is_uncertain = true;
        }
    }

    /// Returns the known names in directories that are not uncertain, in unspecified order.
    pub fn current_names(&self) -> impl Iterator<Item = CurrentNameBinding<'_>> {
        let current = self.current.iter();
        let directories = current.flat_map(|current| current.names.iter().map(move |names| (current, names)));
        directories.filter(|(current, (parent, _))| !current.is_uncertain(**parent)).flat_map(|(_, (parent, names))| {
            names.iter().map(|(name, binding)| CurrentNameBinding { parent: *parent, name, object: binding.object() })
        })
    }

    /// Records that the run wrote a payload here that the capture did not: it replaces the content of its range, and
    /// makes the file size unknown.
    pub fn record_replacement(&mut self, payload: &TracePayload, server: u32, step: u64, frames: [u64; 2]) {
        let Some(id) = self.find_or_add_by_handle(payload.file, server, step) else { return };
        self.begin_step(false, frames);
        self.remove_current_range(id, payload.offset, payload.offset.saturating_add(payload.length.into()));
        self.set_current_size(id, None);
    }

    fn names_in_uncertain_directories(&self) -> impl Iterator<Item = &FxHashMap<Box<[u8]>, InferredNameBinding>> {
        let directories = self
            .current
            .iter()
            .flat_map(|current| current.names.iter().filter(|(parent, _)| current.is_uncertain(**parent)));
        directories.map(|(_, names)| names)
    }

    /// Returns the objects that have a name in an uncertain directory.
    pub fn bound_in_uncertain_directories(&self) -> FxHashSet<InferredObjectId> {
        let bindings = self.names_in_uncertain_directories().flat_map(FxHashMap::values);
        bindings.filter_map(|binding| binding.object()).collect()
    }

    /// Returns the number of known names in uncertain directories.
    pub fn uncertain_name_count(&self) -> u64 {
        self.names_in_uncertain_directories().map(|names| names.len() as u64).sum()
    }

    /// Returns the number of bytes of known content, including those of uncertain objects, and of written bytes that
    /// exceeded the memory limit.
    pub fn written_bytes(&self, is_nameless: &dyn Fn(u32) -> bool) -> u64 {
        let names = self.current.iter().flat_map(|current| current.names.values());
        let mut existing: FxHashSet<InferredObjectId> =
            names.flat_map(FxHashMap::values).filter_map(|binding| binding.object()).collect();
        existing.extend(self.nameless_objects(is_nameless));
        existing.into_iter().map(|id| self.known_bytes(id)).sum()
    }

    /// Returns the number of bytes of known content of an object, and of its written bytes that exceeded the memory
    /// limit.
    pub fn known_bytes(&self, id: InferredObjectId) -> u64 {
        let Some(file) = self.current.as_ref().and_then(|current| current.files.get(&id)) else { return 0 };
        let known_bytes: u64 = file.known_extents().map(|extent| extent.range.1 - extent.range.0).sum();
        known_bytes + file.untracked_bytes
    }

    /// Returns the objects without a name that have a filehandle for which `is_nameless` returns `true`: they were
    /// created outside of the captured tree, where no step can remove them.
    pub fn nameless_objects<'t>(
        &'t self,
        is_nameless: &'t dyn Fn(u32) -> bool,
    ) -> impl Iterator<Item = InferredObjectId> + 't {
        let objects = (0..).map(InferredObjectId).zip(&self.nodes);
        objects
            .filter(move |(_, node)| node.names.is_empty() && node.handles.iter().any(|handle| is_nameless(*handle)))
            .map(|(id, _)| id)
    }

    /// Returns `true` if a directory is known to have this name now.
    pub fn has_name(&self, directory: u32, name: &[u8]) -> bool {
        let Some(directory) = self.find_by_handle(directory) else { return false };
        let binding = self.binding(directory, name);
        matches!(binding, Some(InferredNameBinding::Bound(id)) if !self.is_uncertain(id))
            && !self.is_name_uncertain(directory, name)
    }

    /// Returns `true` if a directory is known not to have this name now.
    pub fn lacks_name(&self, directory: u32, name: &[u8]) -> bool {
        let Some(directory) = self.find_by_handle(directory) else { return false };
        self.binding(directory, name) == Some(InferredNameBinding::Unbound)
            && !self.is_name_uncertain(directory, name)
            && !self.has_unknown_changes()
    }

    /// Returns `true` if a directory is known to have no name now.
    pub(crate) fn has_no_entry(&self, directory: InferredObjectId) -> bool {
        let uncertain = self.current.as_ref().and_then(|current| current.uncertain_names.get(&directory));
        self.nodes.get(directory.0 as usize).is_some_and(|node| node.entries == 0)
            && !self.is_uncertain(directory)
            && !self.has_unknown_changes()
            && uncertain.is_none_or(FxHashSet::is_empty)
    }

    /// Returns `true` if a directory is known to have a name now.
    pub(crate) fn has_entry(&self, directory: InferredObjectId) -> bool {
        let uncertain = self.current.as_ref().and_then(|current| current.uncertain_names.get(&directory));
        self.nodes.get(directory.0 as usize).is_some_and(|node| node.entries > 0)
            && !self.is_uncertain(directory)
            && uncertain.is_none_or(FxHashSet::is_empty)
    }

    /// Returns the current state of an object; `None` if it is unknown or uncertain.
    pub fn current_state(&self, id: InferredObjectId) -> Option<&LatestInferredFileState> {
        self.current.as_ref()?.files.get(&id).filter(|file| !file.is_uncertain)
    }

    /// Returns `true` if the state of an object is uncertain.
    pub fn is_uncertain(&self, id: InferredObjectId) -> bool {
        self.current.as_ref().is_some_and(|current| current.is_uncertain(id))
    }

    pub(super) fn bind_current_name(&mut self, parent: InferredObjectId, name: &[u8], binding: InferredNameBinding) {
        if self.current.is_none() {
            return;
        }
        let existing = self.current.as_ref().and_then(|current| current.names.get(&parent)?.get(name));
        let previous = existing.and_then(|binding| binding.object());
        let has_space = existing.is_some() || self.reserve_memory(NAME_OVERHEAD_BYTES + name.len());
        let Some(current) = &mut self.current else { return };
        if let Some(uncertain) = current.uncertain_names.get_mut(&parent) {
            uncertain.remove(&name_hash(name));
        }
        if let Some(in_flight) = current.names_in_flight.get_mut(&parent) {
            in_flight.remove(&name_hash(name));
        }
        if !has_space {
            current.dropped_names += 1;
            return;
        }
        current.names.entry(parent).or_default().insert(name.into(), binding);
        if let InferredNameBinding::Bound(id) = binding {
            *current.name_counts.entry(id).or_default() += 1;
        }
        if let Some(previous) = previous
            && let Some(count) = current.name_counts.get_mut(&previous)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                current.unnamed.push(previous);
            }
        }
    }

    /// Forgets the content of objects that have no name any more after a step: it is not checked.
    fn forget_unnamed_content(&mut self) {
        let Some(current) = &mut self.current else { return };
        for id in std::mem::take(&mut current.unnamed) {
            // A rename removes the old name before it adds the new one.
            if current.name_counts.get(&id).is_some_and(|count| *count > 0) {
                continue;
            }
            current.name_counts.remove(&id);
            if let Some(file) = current.files.get_mut(&id) {
                self.memory_bytes = self.memory_bytes.saturating_sub(file.extents.len() * EXTENT_BYTES);
                file.extents = BTreeMap::new();
                file.untracked_bytes = 0;
            }
        }
    }

    /// Returns the number of names that were not recorded because of the memory limit.
    pub fn dropped_name_count(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.dropped_names)
    }

    /// Records attributes of an object from a Reply.
    pub(super) fn update_current_attributes(
        &mut self,
        id: InferredObjectId,
        attributes: &CapturedObjectAttributes<'_>,
    ) {
        let is_file = attributes.file_type.is_none_or(|file_type| file_type == TraceFileType::FILE);
        let Some(current) = self.current.as_mut().filter(|current| !current.is_concurrent) else { return };
        let file = current.files.entry(id).or_default();
        if let Some(size) = attributes.size.filter(|_| is_file) {
            // Somebody else wrote what no step explains.
            if file.size.is_some_and(|old_size| old_size < size) {
                file.tail_zeros_from = file.tail_zeros_from.map(|tail| tail.max(size));
            }
            // What a shorter file has after its end when it grows again is unknown.
            if file.size.is_some_and(|old_size| size < old_size) {
                file.tail_zeros_from = None;
            } else if file.tail_zeros_from.is_none() {
                let end = file.extents.values().next_back().map_or(0, |extent| extent.range.1);
                file.tail_zeros_from = Some(size.max(end));
            }
            file.size = Some(size);
        }
        file.mode = attributes.mode.or(file.mode);
    }

    /// Records a new mode; `None` if it may have changed to an unknown value.
    pub(super) fn set_current_mode(&mut self, id: InferredObjectId, mode: Option<u32>) {
        let Some(current) = &mut self.current else { return };
        let frames = current.frames;
        let file = current.files.entry(id).or_default();
        (file.mode, file.frames) = (mode, frames);
    }

    /// Records a new size; `None` if it is unknown.
    pub(super) fn set_current_size(&mut self, id: InferredObjectId, size: Option<u64>) {
        if let Some(file) = self.current_file(id) {
            file.size = size;
        }
    }

    /// Removes a range from the tracked extents.
    pub(super) fn remove_current_range(&mut self, id: InferredObjectId, from: u64, to: u64) {
        let Some(current) = &mut self.current else { return };
        let (frames, is_racing) = (current.frames, current.is_concurrent);
        let file = current.files.entry(id).or_default();
        file.frames = frames;
        let overlapping: Vec<u64> = file.overlapping_extents(from, to).map(|extent| extent.range.0).collect();
        current.has_write_conflict = is_racing && file.overlapping_extents(from, to).any(|extent| extent.is_concurrent);
        let gap = match file.tail_zeros_from {
            Some(tail) if tail < to => {
                file.tail_zeros_from = (to < u64::MAX).then_some(to);
                Some((tail, from)).filter(|gap| gap.0 < gap.1)
            }
            _ => None,
        };
        let before = file.extents.len();
        for start in overlapping {
            let Some(extent) = file.extents.remove(&start) else { continue };
            let rest = [extent.part(0, from), extent.part(to, u64::MAX)].into_iter().flatten();
            file.extents.extend(rest.map(|part| (part.range.0, part)));
        }
        if from == 0 && to == u64::MAX {
            file.untracked_bytes = 0;
        }
        self.memory_bytes = match file.extents.len() {
            now if now < before => self.memory_bytes.saturating_sub((before - now) * EXTENT_BYTES),
            now => self.memory_bytes + (now - before) * EXTENT_BYTES,
        };
        // A range that was never written between the end of the file and the data behind it.
        self.push_current_extents(id, gap.map(KnownFileContentRange::zeros));
    }

    /// Records that a range was written with a payload; `None` if the content is unknown.
    pub(super) fn add_current_extent(
        &mut self,
        id: InferredObjectId,
        payload: Option<&TracePayload>,
        from: u64,
        to: u64,
    ) {
        let Some(current) = &self.current else { return };
        let (is_concurrent, is_clash) = (current.is_concurrent, current.has_write_conflict);
        let content = payload.filter(|_| !is_clash).map(|payload| ExtentContent::Payload(payload.clone(), 0));
        let extent = content.map(|content| KnownFileContentRange { range: (from, to), content, is_concurrent });
        self.push_current_extents(id, extent);
        // A file of unknown size may be longer than the written range.
        self.grow_current_file(id, to);
    }

    /// Records that a file is at least this long now, if its size is known.
    pub(super) fn grow_current_file(&mut self, id: InferredObjectId, to: u64) {
        if let Some(file) = self.current_file(id) {
            file.size = file.size.map(|size| size.max(to));
        }
    }

    /// Records that a range has no data now. It must have been [removed](Self::remove_current_range) before.
    pub(super) fn deallocate_current_range(&mut self, id: InferredObjectId, from: u64, to: u64) {
        if self.current.as_ref().is_some_and(|current| !current.is_concurrent) {
            self.push_current_extents(id, [KnownFileContentRange::zeros((from, to))]);
        }
    }

    /// Records that no byte after `from` has been written.
    pub(super) fn set_current_tail(&mut self, id: InferredObjectId, from: u64) {
        if let Some(current) = self.current.as_mut().filter(|current| !current.is_concurrent) {
            current.files.entry(id).or_default().tail_zeros_from = Some(from);
        }
    }

    /// Returns the known content of a range of a file, moved so that it starts at `to`. Empty if the content is
    /// uncertain, for example because another step is in flight.
    pub(super) fn moved_current_extents(
        &self,
        id: InferredObjectId,
        (start, end): (u64, u64),
        to: u64,
    ) -> Vec<KnownFileContentRange> {
        let Some(current) = self.current.as_ref().filter(|current| !current.is_concurrent) else {
            return Vec::new();
        };
        let file = current.files.get(&id).filter(|file| !file.is_uncertain);
        let moved = |extent: KnownFileContentRange| {
            let offset = |at: u64| (at - start).checked_add(to);
            let range = (offset(extent.range.0)?, offset(extent.range.1)?);
            Some(KnownFileContentRange { range, is_concurrent: false, ..extent })
        };
        let extents = file.into_iter().flat_map(|file| file.known_extents_in(start, end));
        extents.filter_map(|extent| extent.part(start, end)).filter_map(moved).collect()
    }

    /// Adds extents, which must not overlap any other.
    pub(super) fn push_current_extents(
        &mut self,
        id: InferredObjectId,
        extents: impl IntoIterator<Item = KnownFileContentRange>,
    ) {
        for extent in extents.into_iter().filter(|extent| extent.range.0 < extent.range.1) {
            if self.current.is_none() {
                return;
            }
            let has_space = self.reserve_memory(EXTENT_BYTES);
            let Some(current) = &mut self.current else { return };
            let file = current.files.entry(id).or_default();
            if has_space {
                file.extents.insert(extent.range.0, extent);
            } else if !matches!(extent.content, ExtentContent::Zeros) {
                let size = file.size.unwrap_or(u64::MAX).max(extent.range.1);
                file.untracked_bytes = (file.untracked_bytes + extent.range.1 - extent.range.0).min(size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::latest_file_state::MAX_ZEROS_BYTES;
    use super::*;
    use crate::trace::step::{NONE, PayloadContentState};

    const SERVER: u32 = 0;

    fn tree_with_files() -> (InferredTree, [InferredObjectId; 2]) {
        let mut tree = InferredTree::with_current_state();
        let ids = [1, 2].map(|handle| tree.find_or_add_by_handle(handle, SERVER, 1).unwrap());
        let empty = CapturedObjectAttributes { size: Some(0), ..CapturedObjectAttributes::default() };
        ids.iter().for_each(|id| tree.update_current_attributes(*id, &empty));
        (tree, ids)
    }

    fn write(tree: &mut InferredTree, id: InferredObjectId, from: u64, to: u64) {
        let payload = TracePayload {
            at: 0,
            length: (to - from) as u32,
            is_inside: false,
            content: PayloadContentState::KEPT,
            hash: [0; 16],
            data: from,
            operation: 0,
            file: NONE,
            offset: from,
        };
        tree.remove_current_range(id, from, to);
        tree.add_current_extent(id, Some(&payload), from, to);
    }

    /// The content per extent: its range, and the position in the payload or `None` for zeros.
    fn extents(tree: &InferredTree, id: InferredObjectId) -> Vec<(u64, u64, Option<u64>)> {
        let mut all: Vec<_> = tree
            .current_state(id)
            .unwrap()
            .known_extents()
            .map(|extent| {
                let start = match &extent.content {
                    ExtentContent::Payload(_, start) => Some(*start),
                    ExtentContent::Zeros => None,
                };
                (extent.range.0, extent.range.1, start)
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_hole_is_zeros_up_to_the_end_of_the_file() {
        let (mut tree, [id, _]) = tree_with_files();
        write(&mut tree, id, 0, 100);
        for (from, to) in [(20, 30), (90, 200)] {
            tree.remove_current_range(id, from, to);
            tree.deallocate_current_range(id, from, to);
        }
        let expected = [(0, 20, Some(0)), (20, 30, None), (30, 90, Some(30)), (90, 100, None)];
        assert_eq!(extents(&tree, id), expected);
        // The size, and so the end of the hole, is unknown.
        tree.set_current_size(id, None);
        tree.remove_current_range(id, 0, 300);
        tree.deallocate_current_range(id, 0, 300);
        assert!(extents(&tree, id).is_empty());
    }

    #[test]
    fn a_file_grows_with_zeros() {
        let (mut tree, [id, _]) = tree_with_files();
        write(&mut tree, id, 50, 60);
        tree.grow_current_file(id, 80);
        assert_eq!(extents(&tree, id), [(0, 50, None), (50, 60, Some(0)), (60, 80, None)]);
        tree.grow_current_file(id, 60 + MAX_ZEROS_BYTES + 1);
        let read = [(0, 50, None), (50, 60, Some(0)), (60, 60 + MAX_ZEROS_BYTES, None)];
        assert_eq!(extents(&tree, id), read, "the rest is too long to be read");
    }

    #[test]
    fn a_hole_between_two_writes_at_the_same_time_is_zeros() {
        let (mut tree, [id, _]) = tree_with_files();
        tree.current.as_mut().unwrap().is_concurrent = true;
        write(&mut tree, id, 100, 110);
        write(&mut tree, id, 0, 10);
        assert_eq!(extents(&tree, id), [(0, 10, Some(0)), (10, 100, None), (100, 110, Some(0))]);
    }

    #[test]
    fn content_that_another_client_wrote_is_unknown() {
        let (mut tree, [id, _]) = tree_with_files();
        write(&mut tree, id, 0, 10);
        let longer = CapturedObjectAttributes { size: Some(50), ..CapturedObjectAttributes::default() };
        tree.update_current_attributes(id, &longer);
        write(&mut tree, id, 60, 70);
        assert_eq!(extents(&tree, id), [(0, 10, Some(0)), (50, 60, None), (60, 70, Some(0))]);
    }

    #[test]
    fn a_copy_has_the_known_content_of_its_source() {
        let (mut tree, [source, id]) = tree_with_files();
        write(&mut tree, source, 0, 100);
        write(&mut tree, source, 120, 200);
        let mut copy = |(start, end): (u64, u64), from: u64| {
            let to = from + (end - start);
            let file = if from == 1000 { source } else { id };
            let moved = tree.moved_current_extents(file, (start, end), from);
            tree.remove_current_range(id, from, to);
            tree.push_current_extents(id, moved);
            tree.grow_current_file(id, to);
        };
        copy((50, 150), 1000);
        // A copy of the copy, into the same file.
        copy((1040, 1060), 0);
        let expected = [
            (0, 10, Some(90)),
            (10, 20, None),
            (20, 1000, None),
            (1000, 1050, Some(50)),
            (1050, 1070, None),
            (1070, 1100, Some(0)),
        ];
        assert_eq!(extents(&tree, id), expected);
        // An extent that moved to a lower offset is cut.
        tree.remove_current_range(id, 0, u64::MAX);
        assert!(extents(&tree, id).is_empty());
    }

    #[test]
    fn the_content_of_many_writes_is_known() {
        let (mut tree, [id, _]) = tree_with_files();
        for number in 0..20_000 {
            write(&mut tree, id, number * 10, number * 10 + 10);
        }
        // Some are written again, in part.
        for number in 0..1000 {
            write(&mut tree, id, number * 25 + 3, number * 25 + 9);
        }
        let known: u64 = extents(&tree, id).iter().map(|(from, to, _)| to - from).sum();
        assert_eq!(known, 200_000);
    }

    #[test]
    fn written_bytes_above_the_memory_limit_are_counted() {
        let limit = 100 * EXTENT_BYTES;
        let mut tree =
            InferredTree { current: Some(FileTreeAfterExecutedSteps::default()), ..InferredTree::new(limit) };
        let directory = tree.find_or_add_by_handle(1, SERVER, 1).unwrap();
        let id = tree.find_or_add_by_handle(2, SERVER, 1).unwrap();
        tree.bind_current_name(directory, b"f", InferredNameBinding::Bound(id));
        for number in 0..200 {
            write(&mut tree, id, number * 10, number * 10 + 10);
        }
        let known: u64 = extents(&tree, id).iter().map(|(from, to, _)| to - from).sum();
        assert!(known > 0 && known < 1000, "{known}");
        assert_eq!(tree.written_bytes(&|_| false), 2000, "those that are not tracked count, too");
        // Memory of content that is overwritten or cut off is used again.
        tree.remove_current_range(id, 0, u64::MAX);
        write(&mut tree, id, 0, 10);
        assert_eq!((extents(&tree, id).len(), tree.written_bytes(&|_| false)), (1, 10));
    }

    #[test]
    fn content_is_forgotten_with_the_last_name_and_not_with_a_rename() {
        let (mut tree, [directory, id]) = tree_with_files();
        let bind = |tree: &mut InferredTree, name: &[u8], is_bound: bool| {
            let binding = if is_bound { InferredNameBinding::Bound(id) } else { InferredNameBinding::Unbound };
            tree.bind_current_name(directory, name, binding);
        };
        bind(&mut tree, b"a", true);
        write(&mut tree, id, 0, 10);
        // A rename, and a hard link of which the first name is removed.
        bind(&mut tree, b"a", false);
        bind(&mut tree, b"b", true);
        tree.forget_unnamed_content();
        bind(&mut tree, b"c", true);
        bind(&mut tree, b"b", false);
        tree.forget_unnamed_content();
        assert_eq!((extents(&tree, id).len(), tree.written_bytes(&|_| false)), (1, 10));
        bind(&mut tree, b"c", false);
        tree.forget_unnamed_content();
        assert!(extents(&tree, id).is_empty());
    }

    #[test]
    fn names_below_an_uncertain_directory_are_not_removed() {
        let (mut tree, [directory, below]) = tree_with_files();
        tree.bind_current_name(directory, b"d", InferredNameBinding::Bound(below));
        assert!(tree.bound_in_uncertain_directories().is_empty());
        tree.mark_object_uncertain(directory);
        assert_eq!(tree.bound_in_uncertain_directories().into_iter().collect::<Vec<_>>(), [below]);
    }

    #[test]
    fn the_copy_of_a_file_that_changes_meanwhile_is_unknown() {
        let (mut tree, [source, _]) = tree_with_files();
        write(&mut tree, source, 0, 100);
        tree.current.as_mut().unwrap().is_concurrent = true;
        assert!(tree.moved_current_extents(source, (0, 100), 0).is_empty());
    }
}
