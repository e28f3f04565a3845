//! The tree as it is after the steps that were done: what each name stands for, and what files hold.
//!
//! A tree that [follows](InferredTree::following) keeps this beside what it learns of the beginning. It knows no more than steps
//! tell: of what a step left in doubt, it says nothing.

use rustc_hash::{FxHashMap, FxHashSet};

use super::inference::TreeObservedAttributes;
use super::{InferredNameBinding, InferredObjectId, InferredTree, NAME, TreeStepInput};
use crate::replay::trace::layout::FileType;
use crate::replay::trace::{MessageSlotKind, TracePayload};

/// Pieces of content of one file that are remembered; of a file that has more, no content is.
const PIECES: usize = 4096;
/// What a piece takes.
const PIECE: usize = size_of::<CurrentFileExtent>();

/// What is known of the present.
#[derive(Debug, Default)]
pub(super) struct CurrentTreeState {
    names: FxHashMap<InferredObjectId, FxHashMap<Box<[u8]>, InferredNameBinding>>,
    files: FxHashMap<InferredObjectId, CurrentFileState>,
    /// Whether the step that is learnt from overlaps with others, so that attributes may tell of what was before.
    is_racing: bool,
    /// The first frames of its Call and its Reply.
    frames: [u64; 2],
    /// Whether it overwrites what another that overlaps with it may have written.
    is_clash: bool,
}

/// What is known of an object as it is now.
#[derive(Clone, Debug, Default)]
pub struct CurrentFileState {
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its mode.
    pub mode: Option<u32>,
    /// What was written and is still there.
    pub pieces: Vec<CurrentFileExtent>,
    /// The first frames of Call and Reply of the step that touched it last.
    pub frames: [u64; 2],
    /// A step left it otherwise, nobody knows how.
    is_doubtful: bool,
    /// It had more pieces than are remembered.
    is_crowded: bool,
}

impl CurrentFileState {
    /// Whether it had more pieces than are remembered, so that none is.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }
}

/// Bytes of a file that a payload of a Call put there.
#[derive(Clone, Debug)]
pub struct CurrentFileExtent {
    /// Where in the file it begins, and before which byte it ends.
    pub range: (u64, u64),
    /// The payload, whose `offset` is where its own first byte stands in the file.
    pub payload: TracePayload,
    is_racing: bool,
}

/// A name as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentName<'t> {
    /// The directory.
    pub parent: InferredObjectId,
    /// The name.
    pub name: &'t [u8],
    /// What it stands for; `None`: it must not be there.
    pub object: Option<InferredObjectId>,
}

impl InferredTree {
    /// A tree that follows the steps.
    pub fn following() -> Self {
        Self { present: Some(CurrentTreeState::default()), ..Self::default() }
    }

    /// Learns from a step that was done. `is_racing` says that others were in flight at the same time.
    pub fn follow(&mut self, facts: &TreeStepInput<'_>, is_racing: bool, frames: [u64; 2]) {
        if let Some(present) = &mut self.present {
            (present.is_racing, present.frames) = (is_racing, frames);
        }
        self.learn(facts, &mut Vec::new());
    }

    /// Nobody knows what a step has done to the files that it names.
    pub fn doubt(&mut self, facts: &TreeStepInput<'_>) {
        for slot in facts.call.slots.iter().chain(facts.reply.slots.iter()) {
            if slot.holds != MessageSlotKind::FILEHANDLE {
                continue;
            }
            let id = self.handle(slot.variable, facts.server, facts.id);
            if let Some((present, id)) = self.present.as_mut().zip(id) {
                present.files.entry(id).or_default().is_doubtful = true;
            }
        }
    }

    /// The names that are known, in directories that are not in doubt. Their order is another in each run.
    pub fn names_now(&self) -> impl Iterator<Item = CurrentName<'_>> {
        let present = self.present.iter();
        let directories = present.flat_map(|present| present.names.iter().map(move |names| (present, names)));
        directories.filter(|(present, (parent, _))| !present.is_doubtful(**parent)).flat_map(
            |(_, (parent, names))| {
                names.iter().map(|(name, binding)| CurrentName {
                    parent: *parent,
                    name,
                    object: match binding {
                        InferredNameBinding::There(id) => Some(*id),
                        InferredNameBinding::Gone => None,
                    },
                })
            },
        )
    }

    /// A payload was written here, though not in the capture: what stood there is not there any more, and how long the file is is
    /// not known.
    pub fn replaces(&mut self, payload: &TracePayload, server: u32, step: u64, frames: [u64; 2]) {
        let Some(id) = self.handle(payload.file, server, step) else { return };
        if let Some(present) = &mut self.present {
            (present.is_racing, present.frames) = (false, frames);
        }
        self.overwrites_now(id, payload.offset, payload.offset.saturating_add(payload.length.into()));
        self.resizes_now(id, None);
    }

    /// How many names are known in directories that are in doubt.
    pub fn names_in_doubt(&self) -> u64 {
        let directories = self
            .present
            .iter()
            .flat_map(|present| present.names.iter().filter(|(parent, _)| present.is_doubtful(**parent)));
        directories.map(|(_, names)| names.len() as u64).sum()
    }

    /// Bytes that were written and are still there, also of objects that are in doubt.
    pub fn written_bytes(&self) -> u64 {
        let names = self.present.iter().flat_map(|present| present.names.values());
        let there: FxHashSet<InferredObjectId> = names
            .flat_map(FxHashMap::values)
            .filter_map(|binding| match binding {
                InferredNameBinding::There(id) => Some(*id),
                InferredNameBinding::Gone => None,
            })
            .collect();
        let files = self.present.iter().flat_map(|present| &present.files);
        let pieces = files.filter(|(id, _)| there.contains(id)).flat_map(|(_, file)| &file.pieces);
        pieces.map(|piece| piece.range.1 - piece.range.0).sum()
    }

    /// Whether a directory has this name now, as far as steps tell.
    pub fn has_name(&self, directory: u32, name: &[u8]) -> bool {
        let binding = self.of_handle(directory).and_then(|id| self.binding(id, name));
        matches!(binding, Some(InferredNameBinding::There(id)) if !self.is_doubtful(id))
    }

    /// What is known of an object; `None` of one that is in doubt.
    pub fn now(&self, id: InferredObjectId) -> Option<&CurrentFileState> {
        self.present.as_ref()?.files.get(&id).filter(|file| !file.is_doubtful)
    }

    /// Whether an object is in doubt.
    pub fn is_doubtful(&self, id: InferredObjectId) -> bool {
        self.present.as_ref().is_some_and(|present| present.is_doubtful(id))
    }

    pub(super) fn binds_now(&mut self, parent: InferredObjectId, name: &[u8], binding: InferredNameBinding) {
        if self.present.is_none() {
            return;
        }
        let known = self.present.as_ref().and_then(|present| present.names.get(&parent)?.get(name));
        if known.is_none() && !self.has_room(NAME + name.len()) {
            return;
        }
        let Some(present) = &mut self.present else { return };
        present.names.entry(parent).or_default().insert(name.into(), binding);
    }

    /// Attributes of an object were told.
    pub(super) fn tells_now(&mut self, id: InferredObjectId, attributes: &TreeObservedAttributes<'_>) {
        let is_file = attributes.file_type.is_none_or(|of| of == FileType::FILE);
        let Some(present) = self.present.as_mut().filter(|present| !present.is_racing) else { return };
        let file = present.files.entry(id).or_default();
        if is_file {
            file.size = attributes.size.or(file.size);
        }
        file.mode = attributes.mode.or(file.mode);
    }

    /// A mode was set, or something that may change it.
    pub(super) fn changes_now(&mut self, id: InferredObjectId, mode: Option<u32>) {
        let Some(present) = &mut self.present else { return };
        let frames = present.frames;
        let file = present.files.entry(id).or_default();
        (file.mode, file.frames) = (mode, frames);
    }

    /// A size was set.
    pub(super) fn resizes_now(&mut self, id: InferredObjectId, size: Option<u64>) {
        let Some(present) = &mut self.present else { return };
        present.files.entry(id).or_default().size = size;
    }

    /// What stood in a range is not there any more.
    pub(super) fn overwrites_now(&mut self, id: InferredObjectId, from: u64, to: u64) {
        let Some(present) = &mut self.present else { return };
        let (frames, is_racing) = (present.frames, present.is_racing);
        let file = present.files.entry(id).or_default();
        file.frames = frames;
        let hit = |piece: &CurrentFileExtent| piece.range.0 < to && from < piece.range.1;
        present.is_clash = file.pieces.iter().any(|piece| is_racing && piece.is_racing && hit(piece));
        if !file.pieces.iter().any(hit) {
            return;
        }
        let mut left = Vec::with_capacity(file.pieces.len() + 1);
        for piece in file.pieces.drain(..) {
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
        file.pieces = left;
    }

    /// A payload was written: so many bytes of it.
    pub(super) fn writes_now(
        &mut self,
        id: InferredObjectId,
        payload: Option<&TracePayload>,
        from: u64,
        to: u64,
    ) {
        if self.present.is_none() {
            return;
        }
        let has_room = self.has_room(PIECE);
        let Some(present) = &mut self.present else { return };
        let (is_racing, is_clash) = (present.is_racing, present.is_clash);
        let file = present.files.entry(id).or_default();
        // A file that nothing is known of may be longer than what is written.
        file.size = file.size.map(|size| size.max(to));
        file.is_crowded |= file.pieces.len() >= PIECES || !has_room;
        if file.is_crowded {
            file.pieces = Vec::new();
        } else if let Some(payload) = payload.filter(|_| !is_clash && from < to) {
            file.pieces.push(CurrentFileExtent { range: (from, to), payload: payload.clone(), is_racing });
        }
    }
}

impl CurrentTreeState {
    fn is_doubtful(&self, id: InferredObjectId) -> bool {
        self.files.get(&id).is_some_and(|file| file.is_doubtful)
    }
}
