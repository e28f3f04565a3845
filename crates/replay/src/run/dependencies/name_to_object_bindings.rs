//! Objects that directory entries refer to after the steps so far: a step that removes a name must wait for the users
//! of its object.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::record::hash;
use rustc_hash::FxHashMap;

use crate::trace::error::TraceError;
use crate::trace::file_format::TraceObjectOrigin;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::NONE;
use crate::tree::inferred_object::ROOT;

/// Maximum number of names that are remembered; the targets of others are unknown.
const MAX_NAMES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryEntryReferent {
    NoObject,
    Object(u32),
    Unknown,
}

#[derive(Debug, Default)]
pub(in crate::run) struct DirectoryEntryTargetTable {
    objects: FxHashMap<(u32, u64), u32>,
    /// Representative variable of filehandles that refer to the same object.
    representatives: FxHashMap<u32, u32>,
    /// Open that a lock was made with, by the variables of their stateids.
    open_by_lock: FxHashMap<u32, u32>,
}

impl DirectoryEntryTargetTable {
    /// Reads the tables of a trace.
    ///
    /// # Errors
    /// Returns an error if the trace is truncated or damaged.
    pub(in crate::run) fn new(trace: &mut ReplayTraceReader<impl Read + Seek>) -> Result<Self, TraceError> {
        let mut names = Self::default();
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        trace.for_each_object(|object| {
            let is_root = object.existence == TraceObjectOrigin::ROOT;
            let first = if is_root { ROOT } else { object.handles.iter().next().unwrap_or(NONE) };
            if numbers.len() < MAX_NAMES {
                numbers.insert(object.number, first);
            }
            for handle in object.handles.iter().filter(|handle| *handle != first) {
                if names.representatives.len() < MAX_NAMES {
                    names.representatives.insert(handle, first);
                }
            }
        })?;
        trace.for_each_object(|object| {
            let Some(first) = numbers.get(&object.number).copied() else { return };
            for name in object.names.iter() {
                if let Some(directory) = numbers.get(&name.parent).copied()
                    && names.objects.len() < MAX_NAMES
                {
                    // The name from before the first step takes precedence.
                    let entry = names.objects.entry((directory, hash(name.name.0) as u64));
                    let object = entry.or_insert(first);
                    if name.step == 0 {
                        *object = first;
                    }
                }
            }
        })?;
        Ok(names)
    }

    /// Returns the variable that represents all filehandles of the same object.
    pub(super) fn object(&self, variable: u32) -> u32 {
        self.representatives.get(&variable).copied().unwrap_or(variable)
    }

    pub(super) fn target(&self, directory: u32, name: u64) -> DirectoryEntryReferent {
        match self.objects.get(&(directory, name)) {
            None => DirectoryEntryReferent::Unknown,
            Some(&NONE) => DirectoryEntryReferent::NoObject,
            Some(variable) => DirectoryEntryReferent::Object(*variable),
        }
    }

    /// Sets the target of a name; `None` for no object.
    pub(super) fn set_target(&mut self, directory: u32, name: u64, object: Option<u32>) {
        if directory != NONE && (self.objects.len() < MAX_NAMES || self.objects.contains_key(&(directory, name))) {
            self.objects.insert((directory, name), object.unwrap_or(NONE));
        }
    }

    pub(super) fn record_lock_open(&mut self, lock: u32, open: u32) {
        if self.open_by_lock.len() < MAX_NAMES {
            self.open_by_lock.insert(lock, open);
        }
    }

    pub(super) fn open_of(&self, lock: u32) -> Option<u32> {
        self.open_by_lock.get(&lock).copied()
    }
}
