//! Names that a trace can create on a server, so that nothing else is removed after a run.

use std::io::{Read, Seek};

use rustc_hash::FxHashSet;

use super::call_operations_and_files::{CallOperationsAndFiles, StepTitleCache};
use super::dependencies::effects::OperationEffect;
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::tree::inferred_object::name_hash;

/// Names that seeding and the steps of a trace can create, as components of paths. They are stored as hashes.
#[derive(Clone, Debug, Default)]
pub struct RemovableNames(FxHashSet<u64>);

impl RemovableNames {
    /// Reads the names of a trace.
    ///
    /// # Errors
    /// Returns an error if the trace cannot be read.
    pub fn read<R: Read + Seek>(trace: &mut ReplayTraceReader<R>) -> Result<Self, TraceError> {
        let mut names = FxHashSet::default();
        trace.for_each_object(|object| {
            // A name of nameless objects is their number.
            names.insert(name_hash(object.number.to_string().as_bytes()));
            for name in object.names.iter() {
                // The name of a root is a path.
                names.extend(name.name.0.split(|byte| *byte == b'/').map(name_hash));
            }
        })?;
        let (mut call, mut titles) = (CallOperationsAndFiles::default(), StepTitleCache::default());
        trace.for_each_step(|step| {
            call.read(step, &mut titles);
            for effect in &call.effects {
                match effect {
                    OperationEffect::Create(name)
                    | OperationEffect::Link(name)
                    | OperationEffect::Rename(_, name)
                    | OperationEffect::Open(Some(name), true) => _ = names.insert(*name),
                    _ => {}
                }
            }
        })?;
        Ok(Self(names))
    }

    /// Returns `true` if the trace can create an object with this name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.0.contains(&name_hash(name))
    }
}
