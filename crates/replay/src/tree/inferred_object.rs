//! Inferred objects: files, directories and links, with their facts and names.

use nfsrdma_nfs_model::types::Types;
use twox_hash::XxHash3_128;

use super::byte_ranges::ReplayByteRangeSet;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::step::NONE;

/// Represents the root of a server where the variable of a filehandle is expected.
pub(crate) const ROOT: u32 = NONE - 1;

/// An object, as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InferredObjectId(pub u32);

/// A name that an object has before the first step, or with which it was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferredObjectName {
    /// The directory.
    pub parent: Option<InferredObjectId>,
    /// Name in the directory; for a root its path.
    pub name: Box<[u8]>,
    /// Step that gave the name; 0 for a name from before the first step.
    pub step: u64,
}

/// The inferred facts about an object.
#[derive(Clone, Debug, Default)]
pub struct InferredObject {
    /// The way in which the object comes into existence.
    pub existence: TraceObjectOrigin,
    /// Step that creates the object; 0 if none does.
    pub step: u64,
    /// The type of the object, if it is proven.
    pub file_type: TraceFileType,
    /// Evidence of the type.
    pub(super) types: TypeEvidence,
    /// The names of the object.
    pub names: Vec<InferredObjectName>,
    /// The variables of the filehandles of the object.
    pub handles: Vec<u32>,
    /// Number of the server in the trace.
    pub server: u32,
    /// Size in bytes before the first step.
    pub size: u64,
    /// `true` if the size is from an attribute or an end of file.
    pub is_size_known: bool,
    /// Mode before the first step.
    pub mode: Option<u32>,
    /// Owner and group before the first step, as the captured server wrote them; an empty one is unknown.
    pub owners: Option<Box<[Box<[u8]>; 2]>>,
    /// User and group with AUTH_SYS that first changed the object. Unless an attribute shows others, they are taken for
    /// its owners.
    pub changer: Option<[u32; 2]>,
    /// Text of a symbolic link.
    pub target: Box<[u8]>,
    /// Step of the first use.
    pub first: u64,
    /// Number of steps that use the object.
    pub uses: u64,
    /// The object, known by its filehandle, that this one was found to be.
    pub(super) merged_into: Option<InferredObjectId>,
    /// `true` if a step read content from before the first step.
    pub(super) has_initial_content: bool,
    /// `true` if a step may have changed the size: later attributes need not show the initial one.
    pub(super) is_resized: bool,
    /// End of what steps wrote so far; `u64::MAX` if later attributes cannot show a larger initial size.
    pub(super) written_end: u64,
    /// Likewise, mode, owner and group.
    pub(super) changed: ChangedAttributeFlags,
    /// Ranges of the content that were read or written.
    pub(super) content: ReplayByteRangeSet,
    /// Link count before the first step, as far as attributes show it.
    pub(super) links: Option<u32>,
    /// Number of links that steps have added so far; negative if they have removed some.
    pub(super) link_change: i64,
    /// Time of the last reply that showed the link count, in nanoseconds since 1970.
    pub(super) links_seen_ns: u64,
    /// The directory above, as "..", a name of this directory, denotes it.
    pub(super) above: Option<InferredObjectId>,
    /// Number of known names in the directory now.
    pub(super) entries: u32,
    pub(super) occupancy: Occupancy,
}

/// Need of a directory for an entry that no message names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Occupancy {
    /// No status shows that it had one.
    #[default]
    Unknown,
    /// It was not empty, and no name in it is known.
    Needed,
    /// It was listed to its end, or removed as an empty one: no entry can have been there all the time.
    Excluded,
}

/// Evidence of the type of an object, from all steps: an attribute or an argument outranks a success, and a success
/// a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeEvidence {
    /// `true` if an attribute or an argument is the type.
    pub(super) is_captured: bool,
    /// Types with which all operations have succeeded.
    pub(super) by_success: Types,
    /// Types with which all operations have failed as they did.
    pub(super) by_failure: Types,
}

impl TypeEvidence {
    /// Adds what an operation proves. What contradicts earlier evidence of its strength is left out.
    pub(super) fn add(&mut self, types: Types, is_success: bool) {
        let existing = if is_success { &mut self.by_success } else { &mut self.by_failure };
        *existing = existing.and(types).unwrap_or(*existing);
    }

    /// Returns the types that the object can have.
    fn possible(self) -> Types {
        self.by_success.and(self.by_failure).unwrap_or(self.by_success)
    }

    /// Returns the type that successes prove, or [`TraceFileType::UNKNOWN`].
    pub(super) fn proven(self) -> TraceFileType {
        match self.by_success {
            Types::FILE => TraceFileType::FILE,
            Types::DIRECTORY => TraceFileType::DIRECTORY,
            Types::LINK => TraceFileType::LINK,
            _ => TraceFileType::UNKNOWN,
        }
    }
}

impl InferredObject {
    /// Returns the types that the object can have.
    pub(crate) fn possible_types(&self) -> Types {
        match self.file_type {
            TraceFileType::UNKNOWN => self.types.possible(),
            TraceFileType::FILE => Types::FILE,
            TraceFileType::DIRECTORY => Types::DIRECTORY,
            TraceFileType::LINK => Types::LINK,
            _ => Types::SPECIAL,
        }
    }

    /// Returns the type with which the object is created before the first step: the proven one, or one with which the
    /// steps have the captured statuses.
    pub fn initial_type(&self) -> TraceFileType {
        match self.types.possible() {
            _ if self.file_type != TraceFileType::UNKNOWN => self.file_type,
            Types::ANY => TraceFileType::UNKNOWN,
            types if types.has(Types::FILE) => TraceFileType::FILE,
            types if types.has(Types::DIRECTORY) => TraceFileType::DIRECTORY,
            types if types.has(Types::SPECIAL) => TraceFileType::FIFO,
            _ => TraceFileType::LINK,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedAttributeFlags {
    pub(super) mode: bool,
    pub(super) owner: bool,
    pub(super) group: bool,
}

/// The current binding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InferredNameBinding {
    Bound(InferredObjectId),
    Unbound,
}

impl InferredNameBinding {
    /// Returns the object of a bound name.
    pub(super) fn object(self) -> Option<InferredObjectId> {
        match self {
            Self::Bound(id) => Some(id),
            Self::Unbound => None,
        }
    }
}

pub(crate) fn name_hash(name: &[u8]) -> u64 {
    XxHash3_128::oneshot(name) as u64
}

/// Returns the 128-bit XXH3 hash of a content, as big-endian bytes.
pub(crate) fn hash(bytes: &[u8]) -> [u8; 16] {
    XxHash3_128::oneshot(bytes).to_be_bytes()
}
