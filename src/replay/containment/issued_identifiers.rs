//! What a server has given a run.
//!
//! Hashes stand for values, so that an entry costs the same whatever the length of a filehandle. The key of the hash is drawn for each
//! run (SipHash of the standard library): no trace can be made to meet an entry.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use rustc_hash::{FxHashMap, FxHashSet};

/// Entries at most: 112 MiB of tables.
const MOST: usize = 7 << 20;
/// Bytes of the longest filehandle. RFC 8881 section 3.2.
const HANDLE: usize = 128;

/// Where the object of a filehandle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainmentZone {
    /// The directory that the user named. Nothing in it but the run's directory is named.
    Export,
    /// The run's directory.
    Home,
    /// The root of one of its trees: nothing leads above it.
    Edge,
    /// In one of its trees; it may be the root of it, so that nothing leads above it.
    Inside,
    /// Below the root of one of its trees, wherever steps move it to: one step up stays in there.
    Below,
}

/// A kind of value that has no standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StateIdentifierKind {
    /// The `other` of a stateid.
    Stateid,
    /// A clientid.
    Clientid,
    /// A session id.
    Session,
    /// A device of pNFS.
    Device,
}

/// What a server has given.
#[derive(Clone, Debug, Default)]
pub(super) struct IssuedIdentifiers {
    key: RandomState,
    handles: FxHashMap<u64, ContainmentZone>,
    others: FxHashSet<u64>,
    /// Values that there was no room for.
    pub(super) forgotten: u64,
}

impl IssuedIdentifiers {
    pub(super) fn standing(&self, handle: &[u8]) -> Option<ContainmentZone> {
        self.handles.get(&self.key.hash_one(handle)).copied()
    }

    /// Remembers a filehandle. What is known of its object already stays, unless more is known now: an object below the root of
    /// a tree never becomes that root.
    pub(super) fn handle(&mut self, handle: &[u8], standing: ContainmentZone) {
        if handle.is_empty() || handle.len() > HANDLE {
            return;
        }
        let key = self.key.hash_one(handle);
        let has_room = self.handles.len() < MOST;
        match (self.handles.get_mut(&key), standing) {
            (Some(known @ ContainmentZone::Inside), ContainmentZone::Below | ContainmentZone::Edge)
            | (Some(known @ ContainmentZone::Below), ContainmentZone::Edge) => *known = standing,
            (Some(_), _) => {}
            (None, _) if has_room => drop(self.handles.insert(key, standing)),
            (None, _) => self.forgotten += 1,
        }
    }

    pub(super) fn has(&self, kind: StateIdentifierKind, value: &[u8]) -> bool {
        self.others.contains(&self.key.hash_one((kind, value)))
    }

    pub(super) fn add(&mut self, kind: StateIdentifierKind, value: &[u8]) {
        let key = self.key.hash_one((kind, value));
        if self.others.len() < MOST || self.others.contains(&key) {
            self.others.insert(key);
        } else {
            self.forgotten += 1;
        }
    }
}
