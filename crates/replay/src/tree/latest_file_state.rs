//! State of names and files after the executed steps, as far as it is known.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::inferred_object::{InferredNameBinding, InferredObjectId};
use crate::trace::step::TracePayload;

/// Maximum number of bytes at the start of a hole that are read. A hole may be of any length.
pub(super) const MAX_ZEROS_BYTES: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct FileTreeAfterExecutedSteps {
    pub(super) names: FxHashMap<InferredObjectId, FxHashMap<Box<[u8]>, InferredNameBinding>>,
    /// Number of names of each object that has had one.
    pub(super) name_counts: FxHashMap<InferredObjectId, u32>,
    /// Objects that have lost their last name in the current step.
    pub(super) unnamed: Vec<InferredObjectId>,
    pub(super) files: FxHashMap<InferredObjectId, LatestInferredFileState>,
    /// `true` if the current step overlaps with others, so that its attributes may be from before them.
    pub(super) is_concurrent: bool,
    /// The first frames of its Call and its Reply.
    pub(super) frames: [u64; 2],
    /// `true` if it overwrites a range that an overlapping step may have written.
    pub(super) has_write_conflict: bool,
    /// Number of names that were not recorded because of the memory limit.
    pub(super) dropped_names: u64,
    /// Names in each directory, by their hash, that a step may have created or removed.
    pub(super) uncertain_names: FxHashMap<InferredObjectId, FxHashSet<u64>>,
    /// Those that are uncertain only because of calls in flight when the capture ends.
    pub(super) names_in_flight: FxHashMap<InferredObjectId, FxHashSet<u64>>,
    /// `true` while the effects of such a call are marked as uncertain.
    pub(super) is_in_flight: bool,
    /// `true` if a step may have created or removed a name in an unknown directory.
    pub(super) has_unknown_changes: bool,
}

/// The current state of an object.
#[derive(Clone, Debug, Default)]
pub struct LatestInferredFileState {
    /// Size in bytes.
    pub size: Option<u64>,
    /// Mode.
    pub mode: Option<u32>,
    /// Extents that were written and not overwritten, and holes, by start offset. They do not overlap.
    pub(super) extents: BTreeMap<u64, KnownFileContentRange>,
    /// Offset from which on no byte has been written. If the file grows, its bytes from there read as zeros.
    pub(super) tail_zeros_from: Option<u64>,
    /// First frames of Call and Reply of the step that last changed the object.
    pub frames: [u64; 2],
    /// `true` if a step left the object in an unknown state.
    pub(super) is_uncertain: bool,
    /// `true` if only a call in flight when the capture ends did so.
    pub(super) is_in_flight: bool,
    /// Number of written bytes whose extents exceeded the memory limit.
    pub(super) untracked_bytes: u64,
}

impl LatestInferredFileState {
    /// Returns the extents whose content is known. Of zeros, the first [`MAX_ZEROS_BYTES`] that are certainly in the
    /// file.
    pub fn known_extents(&self) -> impl Iterator<Item = KnownFileContentRange> {
        self.known_extents_in(0, u64::MAX)
    }

    /// Returns the known extents that overlap a range, and the zeros at the end of the file.
    pub(super) fn known_extents_in(&self, from: u64, to: u64) -> impl Iterator<Item = KnownFileContentRange> {
        let size = self.size.unwrap_or(0);
        let tail = self.tail_zeros_from.map(|from| KnownFileContentRange::zeros((from, size)));
        let first = self.overlapping_extents(from, from.saturating_add(1)).next().map_or(from, |extent| extent.range.0);
        // An empty range has no extents, and a reversed one would panic.
        self.extents.range(first..to.max(first)).map(|(_, extent)| extent).cloned().chain(tail).filter_map(
            move |extent| match extent.content {
                ExtentContent::Payload(..) => Some(extent),
                ExtentContent::Zeros => extent.part(0, size.min(extent.range.0.saturating_add(MAX_ZEROS_BYTES))),
            },
        )
    }

    /// Returns the extents that overlap a range, from the last to the first.
    pub(super) fn overlapping_extents(&self, from: u64, to: u64) -> impl Iterator<Item = &KnownFileContentRange> {
        self.extents.range(..to).rev().map(|(_, extent)| extent).take_while(move |extent| extent.range.1 > from)
    }
}

/// Bytes of a file whose content is known.
#[derive(Clone, Debug)]
pub struct KnownFileContentRange {
    /// Start and end offset in the file; the end is exclusive.
    pub range: (u64, u64),
    /// The content.
    pub content: ExtentContent,
    pub(super) is_concurrent: bool,
}

/// The content of an extent.
#[derive(Clone, Debug)]
pub enum ExtentContent {
    /// Bytes of a payload of a Call, from this position in the payload on.
    Payload(TracePayload, u64),
    /// Zeros, as far as the file reaches: of DEALLOCATE (RFC 7862 section 15.4), and where a file has grown without
    /// data.
    Zeros,
}

impl KnownFileContentRange {
    pub(super) fn zeros(range: (u64, u64)) -> Self {
        Self { range, content: ExtentContent::Zeros, is_concurrent: false }
    }

    /// Returns the part of the extent in a range, if there is one.
    pub(super) fn part(&self, from: u64, to: u64) -> Option<Self> {
        let range = (self.range.0.max(from), self.range.1.min(to));
        if range.0 >= range.1 {
            return None;
        }
        let mut part = Self { range, ..self.clone() };
        if let ExtentContent::Payload(_, start) = &mut part.content {
            *start += range.0 - self.range.0;
        }
        Some(part)
    }
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

impl FileTreeAfterExecutedSteps {
    pub(super) fn is_uncertain(&self, id: InferredObjectId) -> bool {
        self.files.get(&id).is_some_and(|file| file.is_uncertain)
    }
}
