//! Identifiers that a server has issued to a run.
//!
//! Values are stored as hashes, so that an entry has the same size for any filehandle. The hash key is random for each
//! run (SipHash of the standard library), so that no trace can be crafted to collide with an entry.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of entries of each table; full tables take 136 MiB (filehandles) and 72 MiB.
const MAX_ENTRIES: usize = 7 << 20;
/// Maximum length of a filehandle in bytes. RFC 8881 section 3.2.
const MAX_FILEHANDLE_BYTES: usize = 128;

/// The location of the object of a filehandle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilehandleLocationInExport {
    /// The directory that the user named. Only the run's directory may be named in it.
    Export,
    /// The run's directory.
    ServerRunDirectory,
    /// The root of one of the run's trees: steps up are not allowed.
    TreeRoot,
    /// In one of the run's trees, perhaps at its root: steps up are not allowed.
    InTree,
    /// Below the root of one of the run's trees, wherever steps move it: one step up stays in the tree.
    BelowTreeRoot,
}

/// The kind of an identifier other than a filehandle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContainmentCheckedIdentifierKind {
    /// The `other` of a stateid.
    Stateid,
    /// A clientid.
    Clientid,
    /// A session ID.
    Session,
    /// A pNFS device ID.
    Device,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PermittedServerIdentifiers {
    key: RandomState,
    handles: FxHashMap<u64, FilehandleLocationInExport>,
    state_identifiers: FxHashSet<u64>,
    /// Number of identifiers dropped at the limit.
    pub(super) dropped_entries: u64,
}

impl PermittedServerIdentifiers {
    pub(super) fn zone_of_handle(&self, handle: &[u8]) -> Option<FilehandleLocationInExport> {
        self.handles.get(&self.key.hash_one(handle)).copied()
    }

    /// Records a filehandle. A known zone is kept unless the new one is more specific: an object below the root of a
    /// tree never becomes that root.
    pub(super) fn handle(&mut self, handle: &[u8], zone: FilehandleLocationInExport) {
        if handle.is_empty() || handle.len() > MAX_FILEHANDLE_BYTES {
            return;
        }
        let key = self.key.hash_one(handle);
        let has_space = self.handles.len() < MAX_ENTRIES;
        match (self.handles.get_mut(&key), zone) {
            (
                Some(known @ FilehandleLocationInExport::InTree),
                FilehandleLocationInExport::BelowTreeRoot | FilehandleLocationInExport::TreeRoot,
            )
            | (Some(known @ FilehandleLocationInExport::BelowTreeRoot), FilehandleLocationInExport::TreeRoot) => {
                *known = zone
            }
            (Some(_), _) => {}
            (None, _) if has_space => drop(self.handles.insert(key, zone)),
            (None, _) => self.dropped_entries += 1,
        }
    }

    pub(super) fn has(&self, kind: ContainmentCheckedIdentifierKind, value: &[u8]) -> bool {
        self.state_identifiers.contains(&self.key.hash_one((kind, value)))
    }

    pub(super) fn add(&mut self, kind: ContainmentCheckedIdentifierKind, value: &[u8]) {
        let key = self.key.hash_one((kind, value));
        if self.state_identifiers.len() < MAX_ENTRIES || self.state_identifiers.contains(&key) {
            self.state_identifiers.insert(key);
        } else {
            self.dropped_entries += 1;
        }
    }
}
