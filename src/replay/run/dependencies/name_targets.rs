//! Which object a name in a directory stands for, as the steps up to now tell: who removes the name must wait for those who
//! use the object.

use std::io::{Read, Seek};

use rustc_hash::FxHashMap;

use crate::analysis::comparison::record::hash;
use crate::replay::trace::layout::ObjectExistence;
use crate::replay::trace::{NONE, TraceError, TraceReader};

use super::super::call_description::ROOT;

/// Names that are remembered; of others it is not known what they stand for.
const NAMES: usize = 1 << 20;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTarget {
    /// Nothing that has a filehandle.
    Nothing,
    /// What this variable names.
    Is(u32),
    /// It was not seen.
    Unknown,
}

/// Names and what they stand for.
#[derive(Debug, Default)]
pub(in crate::replay::run) struct NameTargetTable {
    objects: FxHashMap<(u32, u64), u32>,
    /// Filehandles that name what another names, which stands for both.
    same: FxHashMap<u32, u32>,
    /// The open behind a lock, by the variables of their stateids.
    opens: FxHashMap<u32, u32>,
}

impl NameTargetTable {
    /// Reads what the tables of a trace say.
    ///
    /// # Errors
    /// Where the trace is cut or damaged.
    pub(in crate::replay::run) fn new(trace: &mut TraceReader<impl Read + Seek>) -> Result<Self, TraceError> {
        let mut names = Self::default();
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        trace.objects(|object| {
            let is_root = object.existence == ObjectExistence::ROOT;
            let first = if is_root { ROOT } else { object.handles.iter().next().unwrap_or(NONE) };
            if numbers.len() < NAMES {
                numbers.insert(object.number, first);
            }
            for handle in object.handles.iter().filter(|handle| *handle != first) {
                if names.same.len() < NAMES {
                    names.same.insert(handle, first);
                }
            }
        })?;
        trace.objects(|object| {
            let Some(first) = numbers.get(&object.number).copied() else { return };
            for name in object.names.iter() {
                if let Some(directory) = numbers.get(&name.parent).copied()
                    && names.objects.len() < NAMES
                {
                    // What is there first is the name from before.
                    let place = names.objects.entry((directory, hash(name.name.0) as u64));
                    let object = place.or_insert(first);
                    if name.step == 0 {
                        *object = first;
                    }
                }
            }
        })?;
        Ok(names)
    }

    /// The variable that stands for all that name the same object.
    pub(super) fn object(&self, variable: u32) -> u32 {
        self.same.get(&variable).copied().unwrap_or(variable)
    }

    /// What a name stands for.
    pub(super) fn find(&self, directory: u32, name: u64) -> NameTarget {
        match self.objects.get(&(directory, name)) {
            None => NameTarget::Unknown,
            Some(&NONE) => NameTarget::Nothing,
            Some(variable) => NameTarget::Is(*variable),
        }
    }

    /// A name stands for this object now, or for nothing.
    pub(super) fn set(&mut self, directory: u32, name: u64, object: Option<u32>) {
        if directory != NONE && (self.objects.len() < NAMES || self.objects.contains_key(&(directory, name)))
        {
            self.objects.insert((directory, name), object.unwrap_or(NONE));
        }
    }

    /// A lock came from this open.
    pub(super) fn lock(&mut self, lock: u32, open: u32) {
        if self.opens.len() < NAMES {
            self.opens.insert(lock, open);
        }
    }

    /// The open behind a lock.
    pub(super) fn open_of(&self, lock: u32) -> Option<u32> {
        self.opens.get(&lock).copied()
    }
}
