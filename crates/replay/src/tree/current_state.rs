//! The current state of the tree after the executed steps: bindings of names and contents of files.
//!
//! A tree with [current state](InferredTree::with_current_state) tracks it in addition to the initial state. State that a step
//! left uncertain is not reported.

use rustc_hash::{FxHashMap, FxHashSet};

use super::inference::TreeObservedAttributes;
use super::{InferredNameBinding, InferredObjectId, InferredTree, NAME_OVERHEAD_BYTES, TreeInferenceInput};
use crate::trace::file_format::FileType;
use crate::trace::{MessageSlotKind, TracePayload};

/// Maximum number of extents tracked per file. The content of a file with more extents is not tracked.
const MAX_EXTENTS_PER_FILE: usize = 4096;
/// Bytes of memory of an extent.
const EXTENT_BYTES: usize = size_of::<CurrentFileExtent>();

/// The tracked current state.
#[derive(Debug, Default)]
pub(super) struct CurrentTreeState {
    names: FxHashMap<InferredObjectId, FxHashMap<Box<[u8]>, InferredNameBinding>>,
    files: FxHashMap<InferredObjectId, CurrentFileState>,
    /// `true` if the current step overlaps with others, so that its attributes may be from before them.
    is_concurrent: bool,
    /// The first frames of its Call and its Reply.
    frames: [u64; 2],
    /// `true` if it overwrites a range that an overlapping step may have written.
    has_write_conflict: bool,
}

/// The current state of an object.
#[derive(Clone, Debug, Default)]
pub struct CurrentFileState {
    /// Size in bytes.
    pub size: Option<u64>,
    /// Mode.
    pub mode: Option<u32>,
    /// Extents that were written and not overwritten.
    pub extents: Vec<CurrentFileExtent>,
    /// First frames of Call and Reply of the step that last changed the object.
    pub frames: [u64; 2],
    /// `true` if a step left the object in an unknown state.
    is_uncertain: bool,
    /// `true` if the object had too many extents to track.
    has_too_many_extents: bool,
}

impl CurrentFileState {
    /// Returns `true` if the object had too many extents to track; it then has none.
    pub fn has_too_many_extents(&self) -> bool {
        self.has_too_many_extents
    }
}

/// Bytes of a file that are from a payload of a Call.
#[derive(Clone, Debug)]
pub struct CurrentFileExtent {
    /// Start and end offset in the file; the end is exclusive.
    pub range: (u64, u64),
    /// The payload, whose `offset` is the file offset of its first byte.
    pub payload: TracePayload,
    is_concurrent: bool,
}

/// The current binding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentNameBinding<'t> {
    /// The directory.
    pub parent: InferredObjectId,
    /// The name.
    pub name: &'t [u8],
    /// Object of the name; `None` if the name must not exist.
    pub object: Option<InferredObjectId>,
}

impl InferredTree {
    /// Creates a tree that tracks the current state.
    pub fn with_current_state() -> Self {
        Self { current: Some(CurrentTreeState::default()), ..Self::default() }
    }

    /// Updates the tree from an executed step. `is_racing` is `true` if others were in flight at the same time.
    pub fn update(&mut self, facts: &TreeInferenceInput<'_>, is_racing: bool, frames: [u64; 2]) {
        if let Some(present) = &mut self.current {
            (present.is_concurrent, present.frames) = (is_racing, frames);
        }
        self.infer_from_step(facts, &mut Vec::new());
    }

    /// Marks the objects that a step names as uncertain, because its effect on them is unknown.
    pub fn mark_uncertain(&mut self, facts: &TreeInferenceInput<'_>) {
        for slot in facts.call.slots.iter().chain(facts.reply.slots.iter()) {
            if slot.holds != MessageSlotKind::FILEHANDLE {
                continue;
            }
            let id = self.find_or_add_by_handle(slot.variable, facts.server, facts.id);
            if let Some((present, id)) = self.current.as_mut().zip(id) {
                present.files.entry(id).or_default().is_uncertain = true;
            }
        }
    }

    /// Returns the known names in directories that are not uncertain, in unspecified order.
    pub fn current_names(&self) -> impl Iterator<Item = CurrentNameBinding<'_>> {
        let present = self.current.iter();
        let directories = present.flat_map(|present| present.names.iter().map(move |names| (present, names)));
        directories.filter(|(present, (parent, _))| !present.is_uncertain(**parent)).flat_map(
            |(_, (parent, names))| {
                names.iter().map(|(name, binding)| CurrentNameBinding {
                    parent: *parent,
                    name,
                    object: match binding {
                        InferredNameBinding::Bound(id) => Some(*id),
                        InferredNameBinding::Unbound => None,
                    },
                })
            },
        )
    }

    /// Records that the run wrote a payload here that the capture did not: it replaces the content of its range, and
    /// makes the file size unknown.
    pub fn record_replacement(&mut self, payload: &TracePayload, server: u32, step: u64, frames: [u64; 2]) {
        let Some(id) = self.find_or_add_by_handle(payload.file, server, step) else { return };
        if let Some(present) = &mut self.current {
            (present.is_concurrent, present.frames) = (false, frames);
        }
        self.remove_current_range(id, payload.offset, payload.offset.saturating_add(payload.length.into()));
        self.set_current_size(id, None);
    }

    /// Returns the number of known names in uncertain directories.
    pub fn uncertain_name_count(&self) -> u64 {
        let directories = self
            .current
            .iter()
            .flat_map(|present| present.names.iter().filter(|(parent, _)| present.is_uncertain(**parent)));
        directories.map(|(_, names)| names.len() as u64).sum()
    }

    /// Returns the number of bytes that were written and not overwritten, including those of uncertain objects.
    pub fn written_bytes(&self) -> u64 {
        let names = self.current.iter().flat_map(|present| present.names.values());
        let there: FxHashSet<InferredObjectId> = names
            .flat_map(FxHashMap::values)
            .filter_map(|binding| match binding {
                InferredNameBinding::Bound(id) => Some(*id),
                InferredNameBinding::Unbound => None,
            })
            .collect();
        let files = self.current.iter().flat_map(|present| &present.files);
        let pieces = files.filter(|(id, _)| there.contains(id)).flat_map(|(_, file)| &file.extents);
        pieces.map(|piece| piece.range.1 - piece.range.0).sum()
    }

    /// Returns `true` if a directory is known to have this name now.
    pub fn has_name(&self, directory: u32, name: &[u8]) -> bool {
        let binding = self.find_by_handle(directory).and_then(|id| self.binding(id, name));
        matches!(binding, Some(InferredNameBinding::Bound(id)) if !self.is_uncertain(id))
    }

    /// Returns the current state of an object; `None` if it is unknown or uncertain.
    pub fn current_state(&self, id: InferredObjectId) -> Option<&CurrentFileState> {
        self.current.as_ref()?.files.get(&id).filter(|file| !file.is_uncertain)
    }

    /// Returns `true` if the state of an object is uncertain.
    pub fn is_uncertain(&self, id: InferredObjectId) -> bool {
        self.current.as_ref().is_some_and(|present| present.is_uncertain(id))
    }

    pub(super) fn bind_current_name(
        &mut self,
        parent: InferredObjectId,
        name: &[u8],
        binding: InferredNameBinding,
    ) {
        if self.current.is_none() {
            return;
        }
        let known = self.current.as_ref().and_then(|present| present.names.get(&parent)?.get(name));
        if known.is_none() && !self.reserve_memory(NAME_OVERHEAD_BYTES + name.len()) {
            return;
        }
        let Some(present) = &mut self.current else { return };
        present.names.entry(parent).or_default().insert(name.into(), binding);
    }

    /// Records attributes of an object from a Reply.
    pub(super) fn update_current_attributes(
        &mut self,
        id: InferredObjectId,
        attributes: &TreeObservedAttributes<'_>,
    ) {
        let is_file = attributes.file_type.is_none_or(|of| of == FileType::FILE);
        let Some(present) = self.current.as_mut().filter(|present| !present.is_concurrent) else { return };
        let file = present.files.entry(id).or_default();
        if is_file {
            file.size = attributes.size.or(file.size);
        }
        file.mode = attributes.mode.or(file.mode);
    }

    /// Records a new mode; `None` if it may have changed to an unknown value.
    pub(super) fn set_current_mode(&mut self, id: InferredObjectId, mode: Option<u32>) {
        let Some(present) = &mut self.current else { return };
        let frames = present.frames;
        let file = present.files.entry(id).or_default();
        (file.mode, file.frames) = (mode, frames);
    }

    /// Records a new size; `None` if it is unknown.
    pub(super) fn set_current_size(&mut self, id: InferredObjectId, size: Option<u64>) {
        let Some(present) = &mut self.current else { return };
        present.files.entry(id).or_default().size = size;
    }

    /// Removes a range from the tracked extents.
    pub(super) fn remove_current_range(&mut self, id: InferredObjectId, from: u64, to: u64) {
        let Some(present) = &mut self.current else { return };
        let (frames, is_racing) = (present.frames, present.is_concurrent);
        let file = present.files.entry(id).or_default();
        file.frames = frames;
        let hit = |piece: &CurrentFileExtent| piece.range.0 < to && from < piece.range.1;
        present.has_write_conflict =
            file.extents.iter().any(|piece| is_racing && piece.is_concurrent && hit(piece));
        if !file.extents.iter().any(hit) {
            return;
        }
        let mut left = Vec::with_capacity(file.extents.len() + 1);
        for piece in file.extents.drain(..) {
            if !hit(&piece) {
                left.push(piece);
                continue;
            }
            for range in [(piece.range.0, from), (to, piece.range.1)] {
                if range.0 < range.1 {
                    left.push(CurrentFileExtent { range, payload: piece.payload.clone(), ..piece });
                }
            }
        }
        file.extents = left;
    }

    /// Adds the written range of a payload to the tracked extents.
    pub(super) fn add_current_extent(
        &mut self,
        id: InferredObjectId,
        payload: Option<&TracePayload>,
        from: u64,
        to: u64,
    ) {
        if self.current.is_none() {
            return;
        }
        let has_room = self.reserve_memory(EXTENT_BYTES);
        let Some(present) = &mut self.current else { return };
        let (is_racing, is_clash) = (present.is_concurrent, present.has_write_conflict);
        let file = present.files.entry(id).or_default();
        // A file of unknown size may be longer than the written range.
        file.size = file.size.map(|size| size.max(to));
        file.has_too_many_extents |= file.extents.len() >= MAX_EXTENTS_PER_FILE || !has_room;
        if file.has_too_many_extents {
            file.extents = Vec::new();
        } else if let Some(payload) = payload.filter(|_| !is_clash && from < to) {
            file.extents.push(CurrentFileExtent {
                range: (from, to),
                payload: payload.clone(),
                is_concurrent: is_racing,
            });
        }
    }
}

impl CurrentTreeState {
    fn is_uncertain(&self, id: InferredObjectId) -> bool {
        self.files.get(&id).is_some_and(|file| file.is_uncertain)
    }
}
