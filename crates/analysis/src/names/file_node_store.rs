//! The store of nodes: each is a file with its name in its directory, found by filehandle or by that name.
//!
//! A directory and a file in it are two nodes, and a path is assembled on request, so that one RENAME of a directory
//! applies to everything below. The least recently used node is evicted at the limit. The use of a file counts for the
//! directories above it, so that a directory outlives the files in it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use nfsrdma_dissectors::address::{Address, VirtualNetwork};

/// Approximate memory of a node and its table entries, without names and handle, in bytes.
const NODE_BYTES: usize = 256;
/// Maximum number of directories in a path.
const MAX_DEPTH: usize = 128;

/// Identifier of a node; the generation distinguishes it from evicted nodes with its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileNodeId {
    index: u32,
    generation: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileNameInDirectory {
    parent: FileNodeId,
    name: Box<[u8]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum KnownFileLocation {
    /// Unknown: only the filehandle was seen.
    #[default]
    Unknown,
    /// The root of paths: that of NFSv4, or a MOUNT of this path.
    Root(Box<[u8]>),
    DirEntry(FileNameInDirectory),
}

#[derive(Debug, Default)]
struct PathInferenceNode {
    generation: u32,
    is_live: bool,
    /// Neighbors in LRU order.
    newer: Option<u32>,
    older: Option<u32>,
    /// Value of [`FileNodeStore::references`] at its last use.
    referenced_at: u64,
    origin: KnownFileLocation,
    /// Additional name from LINK.
    link_entry: Option<FileNameInDirectory>,
    /// Key of its server and filehandle.
    key: Option<Arc<[u8]>>,
    /// Key of a server without a filehandle, for its root.
    root_key: Option<Arc<[u8]>>,
    /// Keys of its filehandles on data servers, from layouts (RFC 8881 section 13.3).
    layout_keys: Vec<Arc<[u8]>>,
}

impl PathInferenceNode {
    fn memory_bytes(&self) -> usize {
        let entry = |entry: &FileNameInDirectory| 2 * entry.name.len();
        let origin = match &self.origin {
            KnownFileLocation::Unknown => 0,
            KnownFileLocation::Root(path) => path.len(),
            KnownFileLocation::DirEntry(dir_entry) => entry(dir_entry),
        };
        let layouts: usize = self.layout_keys.iter().map(|key| NODE_BYTES / 2 + key.len()).sum();
        NODE_BYTES
            + origin
            + layouts
            + self.link_entry.as_ref().map_or(0, entry)
            + self.key.iter().chain(&self.root_key).map(|key| key.len()).sum::<usize>()
    }
}

/// One component of a path, from the file up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathComponent<'s> {
    /// The name of the file in the directory of the next component.
    Name(&'s [u8]),
    /// The root, with its path.
    Root(&'s [u8]),
    /// An unknown directory.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct FileNodeStore {
    nodes: Vec<PathInferenceNode>,
    free: Vec<u32>,
    by_handle: HashMap<Arc<[u8]>, FileNodeId>,
    by_name: HashMap<Box<[u8]>, FileNodeId>,
    bytes: usize,
    limit: usize,
    /// Ends of the LRU order.
    newest: Option<u32>,
    oldest: Option<u32>,
    /// Number of uses of nodes, without the directories above them.
    references: u64,
    /// Number of nodes moved to the newest end: the cost of the LRU order.
    #[cfg(test)]
    pub(super) moves: u64,
    /// Buffer for table keys.
    key: Vec<u8>,
    pub(super) evicted: u64,
}

/// A server: equal addresses in different virtual networks are different hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerAddressAndVirtualNetwork {
    pub(super) address: Address,
    pub(super) tenant: VirtualNetwork,
}

/// Length of an address in a key, in bytes: its kind and at most 16.
const ADDRESS_KEY_BYTES: usize = 17;
/// Length of a host in a key, in bytes: the address, the network of a tunnel, and two VLAN identifiers.
const HOST_KEY_BYTES: usize = ADDRESS_KEY_BYTES + 8;

fn handle_key(server: ServerAddressAndVirtualNetwork, handle: &[u8], key: &mut Vec<u8>) {
    key.clear();
    match server.address {
        Address::Unknown => key.push(0),
        Address::Ip(IpAddr::V4(address)) => {
            key.push(4);
            key.extend_from_slice(&address.octets());
        }
        Address::Ip(IpAddr::V6(address)) => {
            key.push(6);
            key.extend_from_slice(&address.octets());
        }
        Address::Lid(lid) => {
            key.push(1);
            key.extend_from_slice(&lid.0.to_be_bytes());
        }
    }
    key.resize(ADDRESS_KEY_BYTES, 0);
    let network = server.tenant.network_identifier().map_or(0, |identifier| identifier + 1);
    key.extend_from_slice(&network.to_be_bytes());
    key.extend(server.tenant.vlan_ids().flat_map(u16::to_be_bytes));
    key.resize(HOST_KEY_BYTES, 0);
    key.extend_from_slice(handle);
}

/// Writes the key of a filehandle from a layout. Only the device names the address of its data server, so that the
/// handle matches on every server that has no such filehandle itself.
fn layout_key(handle: &[u8], key: &mut Vec<u8>) {
    key.clear();
    key.push(0xff);
    key.resize(HOST_KEY_BYTES, 0);
    key.extend_from_slice(handle);
}

/// Maximum number of data server filehandles per file: a layout has one per stripe.
const MAX_LAYOUT_KEYS: usize = 64;

fn name_key(parent: FileNodeId, name: &[u8], key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&parent.index.to_be_bytes());
    key.extend_from_slice(&parent.generation.to_be_bytes());
    key.extend_from_slice(name);
}

impl FileNodeStore {
    /// Creates a store of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    fn get(&self, id: FileNodeId) -> Option<&PathInferenceNode> {
        self.nodes.get(id.index as usize).filter(|node| node.is_live && node.generation == id.generation)
    }

    fn get_mut(&mut self, id: FileNodeId) -> Option<&mut PathInferenceNode> {
        self.nodes.get_mut(id.index as usize).filter(|node| node.is_live && node.generation == id.generation)
    }

    /// Changes a node and updates the byte count.
    fn change(&mut self, id: FileNodeId, change: impl FnOnce(&mut PathInferenceNode)) {
        let Some(node) = self.get_mut(id) else { return };
        let before = node.memory_bytes();
        change(node);
        let after = node.memory_bytes();
        self.bytes = self.bytes + after - before;
        self.reference(id);
    }

    fn insert(&mut self) -> FileNodeId {
        while self.bytes + NODE_BYTES > self.limit && self.evict_oldest() {}
        let index = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(PathInferenceNode::default());
            self.nodes.len() as u32 - 1
        });
        let generation = match self.nodes.get_mut(index as usize) {
            Some(node) => {
                let generation = node.generation;
                *node = PathInferenceNode { generation, is_live: true, ..PathInferenceNode::default() };
                self.bytes += node.memory_bytes();
                generation
            }
            None => 0,
        };
        self.link_newest(index);
        FileNodeId { index, generation }
    }

    /// Removes a node from the LRU order.
    fn unlink(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else { return };
        let (newer, older) = (node.newer.take(), node.older.take());
        match newer.and_then(|newer| self.nodes.get_mut(newer as usize)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match older.and_then(|older| self.nodes.get_mut(older as usize)) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        #[cfg(test)]
        {
            self.moves += 1;
        }
        let older = self.newest.replace(index);
        if let Some(node) = self.nodes.get_mut(index as usize) {
            node.older = older;
        }
        match older.and_then(|older| self.nodes.get_mut(older as usize)) {
            Some(older) => older.newer = Some(index),
            None => self.oldest = Some(index),
        }
    }

    /// Records the use of a node and of the directories above it, up to the maximum depth.
    ///
    /// It stops at a recently used directory, so that files of one directory do not cost its depth each. A use is
    /// recent for so few uses that [`MAX_DEPTH`] such spans are a quarter of the lifetime of an unused node.
    fn reference(&mut self, id: FileNodeId) {
        let refresh_age = (self.nodes.len() - self.free.len()) / (4 * MAX_DEPTH);
        let mut next = Some(id);
        self.references += 1;
        for depth in 0..MAX_DEPTH {
            let (Some(id), now) = (next, self.references) else { return };
            let Some(node) = self.get_mut(id) else { return };
            if depth > 0 && now - node.referenced_at <= refresh_age as u64 {
                return;
            }
            node.referenced_at = now;
            next = match node.origin {
                KnownFileLocation::DirEntry(FileNameInDirectory { parent, .. }) => Some(parent),
                KnownFileLocation::Unknown | KnownFileLocation::Root(_) => None,
            };
            self.unlink(id.index);
            self.link_newest(id.index);
        }
    }

    fn evict_oldest(&mut self) -> bool {
        let Some(index) = self.oldest else { return false };
        let Some(node) = self.nodes.get(index as usize) else { return false };
        self.remove_node(FileNodeId { index, generation: node.generation });
        self.evicted += 1;
        true
    }

    fn remove_node(&mut self, id: FileNodeId) {
        self.remove_entry(id);
        if self.get(id).is_none() {
            return;
        }
        self.unlink(id.index);
        let Some(node) = self.get_mut(id) else { return };
        let node_bytes = node.memory_bytes();
        let (key, root_key) = (node.key.take(), node.root_key.take());
        let layout_keys = std::mem::take(&mut node.layout_keys);
        *node = PathInferenceNode { generation: node.generation.wrapping_add(1), ..PathInferenceNode::default() };
        self.bytes -= node_bytes;
        self.free.push(id.index);
        for key in key.iter().chain(&root_key).chain(&layout_keys) {
            if self.by_handle.get(key) == Some(&id) {
                self.by_handle.remove(key);
            }
        }
    }

    pub(super) fn find(&self, server: ServerAddressAndVirtualNetwork, handle: &[u8]) -> Option<FileNodeId> {
        self.find_with(&mut Vec::with_capacity(HOST_KEY_BYTES + handle.len()), server, handle)
    }

    fn find_with(
        &self,
        key: &mut Vec<u8>,
        server: ServerAddressAndVirtualNetwork,
        handle: &[u8],
    ) -> Option<FileNodeId> {
        handle_key(server, handle, key);
        self.find_key(key).or_else(|| {
            layout_key(handle, key);
            self.find_key(key)
        })
    }

    fn find_key(&self, key: &[u8]) -> Option<FileNodeId> {
        self.by_handle.get(key).copied().filter(|id| self.get(*id).is_some())
    }

    /// Adds a filehandle of the file on a data server, from a layout.
    pub(super) fn add_layout_handle(&mut self, id: FileNodeId, handle: &[u8]) {
        layout_key(handle, &mut self.key);
        let is_known = self.by_handle.get(self.key.as_slice()) == Some(&id);
        let has_room = self.get(id).is_some_and(|node| node.layout_keys.len() < MAX_LAYOUT_KEYS);
        if is_known || !has_room {
            return;
        }
        let key: Arc<[u8]> = self.key.as_slice().into();
        self.by_handle.insert(key.clone(), id);
        self.change(id, |node| node.layout_keys.push(key));
    }

    pub(super) fn find_or_insert(&mut self, server: ServerAddressAndVirtualNetwork, handle: &[u8]) -> FileNodeId {
        let mut key = std::mem::take(&mut self.key);
        let existing = self.find_with(&mut key, server, handle);
        self.key = key;
        if let Some(id) = existing {
            self.reference(id);
            return id;
        }
        let id = self.insert();
        // The search and an eviction have changed the key.
        handle_key(server, handle, &mut self.key);
        self.set_key(id);
        id
    }

    /// Sets the filehandle of a node from the key buffer.
    fn set_key(&mut self, id: FileNodeId) {
        let key: Arc<[u8]> = self.key.as_slice().into();
        let old_key = self.get(id).and_then(|node| node.key.clone());
        if let Some(old_key) = old_key {
            self.by_handle.remove(&old_key);
        }
        self.by_handle.insert(key.clone(), id);
        self.change(id, |node| node.key = Some(key));
    }

    /// Returns the NFSv4 root of a server.
    pub(super) fn root(&mut self, server: ServerAddressAndVirtualNetwork) -> FileNodeId {
        let id = self.find_or_insert(server, &[]);
        if self.get(id).is_some_and(|node| node.root_key.is_none()) {
            self.change(id, |node| {
                node.origin = KnownFileLocation::Root((*b"/").into());
                node.root_key = node.key.take();
            });
        }
        id
    }

    /// Sets the root for a path from MOUNT.
    pub(super) fn mount(&mut self, server: ServerAddressAndVirtualNetwork, handle: &[u8], path: &[u8]) {
        let id = self.find_or_insert(server, handle);
        self.remove_entry(id);
        self.change(id, |node| node.origin = KnownFileLocation::Root(path.into()));
    }

    pub(super) fn find_child(&mut self, parent: FileNodeId, name: &[u8]) -> Option<FileNodeId> {
        name_key(parent, name, &mut self.key);
        let id = self.by_name.get(self.key.as_slice()).copied()?;
        self.get(id)?;
        self.reference(id);
        Some(id)
    }

    pub(super) fn find_or_insert_child(&mut self, parent: FileNodeId, name: &[u8]) -> FileNodeId {
        match name {
            b"." => return parent,
            b".." => return self.parent(parent).unwrap_or_else(|| self.insert()),
            _ => {}
        }
        if let Some(id) = self.find_child(parent, name) {
            return id;
        }
        self.reference(parent);
        let id = self.insert();
        self.move_to(id, FileNameInDirectory { parent, name: name.into() });
        id
    }

    pub(super) fn parent(&self, id: FileNodeId) -> Option<FileNodeId> {
        match &self.get(id)?.origin {
            KnownFileLocation::DirEntry(entry) => Some(entry.parent).filter(|parent| self.get(*parent).is_some()),
            KnownFileLocation::Unknown | KnownFileLocation::Root(_) => None,
        }
    }

    /// Sets the filehandle of `id` as returned by the server. Returns the node that now has it.
    pub(super) fn bind(&mut self, id: FileNodeId, server: ServerAddressAndVirtualNetwork, handle: &[u8]) -> FileNodeId {
        handle_key(server, handle, &mut self.key);
        let existing = self.find_key(&self.key);
        let Some(node) = self.get(id) else {
            return existing.unwrap_or_else(|| self.find_or_insert(server, handle));
        };
        let (has_handle, origin) = (node.key.is_some(), node.origin.clone());
        match (existing, origin) {
            (Some(existing), _) if existing == id => id,
            // The handle of the root is the root; files below that handle stay there.
            (_, KnownFileLocation::Root(path)) if !has_handle => match existing {
                Some(existing) => {
                    self.remove_entry(existing);
                    self.change(existing, |node| node.origin = KnownFileLocation::Root(path));
                    existing
                }
                None => {
                    self.set_key(id);
                    id
                }
            },
            (Some(existing), KnownFileLocation::DirEntry(entry)) => {
                self.move_to(existing, entry);
                if !has_handle {
                    self.remove_node(id);
                }
                existing
            }
            (Some(existing), KnownFileLocation::Root(_) | KnownFileLocation::Unknown) => existing,
            (None, KnownFileLocation::DirEntry(entry)) if has_handle => {
                // The name now refers to another file.
                let new_id = self.find_or_insert(server, handle);
                self.move_to(new_id, entry);
                new_id
            }
            (None, _) if has_handle => self.find_or_insert(server, handle),
            (None, _) => {
                self.set_key(id);
                id
            }
        }
    }

    /// Moves a node to a directory entry, and replaces the node there.
    fn move_to(&mut self, id: FileNodeId, entry: FileNameInDirectory) {
        if matches!(self.get(id), Some(PathInferenceNode { origin: KnownFileLocation::Root(_), .. }))
            || entry.parent == id
        {
            return;
        }
        self.remove_entry(id);
        name_key(entry.parent, &entry.name, &mut self.key);
        self.by_name.insert(self.key.as_slice().into(), id);
        self.change(id, |node| node.origin = KnownFileLocation::DirEntry(entry));
    }

    /// Removes the directory entry of a node, which keeps its name.
    fn remove_entry(&mut self, id: FileNodeId) {
        let Some(PathInferenceNode { origin: KnownFileLocation::DirEntry(entry), .. }) =
            self.nodes.get(id.index as usize).filter(|node| node.generation == id.generation)
        else {
            return;
        };
        name_key(entry.parent, &entry.name, &mut self.key);
        if self.by_name.get(self.key.as_slice()) == Some(&id) {
            self.by_name.remove(self.key.as_slice());
        }
    }

    pub(super) fn rename(&mut self, from: FileNodeId, old_name: &[u8], to: FileNodeId, new_name: &[u8]) {
        if let Some(id) = self.find_child(from, old_name) {
            self.move_to(id, FileNameInDirectory { parent: to, name: new_name.into() });
        }
    }

    /// Adds a name to a file.
    pub(super) fn link(&mut self, id: FileNodeId, parent: FileNodeId, name: &[u8]) {
        let entry = FileNameInDirectory { parent, name: name.into() };
        match self.get(id).map(|node| &node.origin) {
            Some(KnownFileLocation::Unknown) => self.move_to(id, entry),
            Some(_) => self.change(id, |node| node.link_entry = Some(entry)),
            None => {}
        }
    }

    /// Removes a name. A file in use is still shown with it, unless it has another.
    pub(super) fn remove(&mut self, parent: FileNodeId, name: &[u8]) {
        let Some(id) = self.find_child(parent, name) else { return };
        let other_link = self.get(id).and_then(|node| node.link_entry.clone());
        match other_link {
            Some(other_link) => {
                self.change(id, |node| node.link_entry = None);
                self.move_to(id, other_link);
            }
            None => self.remove_entry(id),
        }
    }

    pub(super) fn handle_of(&self, id: FileNodeId) -> Option<&[u8]> {
        self.get(id)?.key.as_ref()?.get(HOST_KEY_BYTES..)
    }

    /// Returns the path components from a file up, each with its node.
    pub(super) fn components_up(&self, id: FileNodeId) -> impl Iterator<Item = (FileNodeId, PathComponent<'_>)> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next.take()?;
            let step = match self.get(id).map(|node| &node.origin) {
                Some(KnownFileLocation::DirEntry(entry)) => {
                    next = Some(entry.parent);
                    PathComponent::Name(&entry.name)
                }
                Some(KnownFileLocation::Root(path)) => PathComponent::Root(path),
                Some(KnownFileLocation::Unknown) | None => PathComponent::Unknown,
            };
            Some((id, step))
        })
        .take(MAX_DEPTH)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks the tables and the byte count against the nodes.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let live = || self.nodes.iter().filter(|node| node.is_live);
        assert_eq!(self.bytes, live().map(PathInferenceNode::memory_bytes).sum::<usize>());
        assert_eq!(self.nodes.len(), live().count() + self.free.len());
        let in_order = std::iter::successors(self.oldest, |index| self.nodes[*index as usize].newer);
        assert_eq!(in_order.take(self.nodes.len() + 1).count(), live().count());
        let keys = |node: &PathInferenceNode| node.key.iter().chain(&node.root_key).count();
        assert_eq!(self.by_handle.len(), live().map(keys).sum::<usize>());
        for (key, id) in &self.by_handle {
            let node = self.get(*id).unwrap();
            assert!(node.key.as_ref() == Some(key) || node.root_key.as_ref() == Some(key));
        }
        for (key, id) in &self.by_name {
            let Some(PathInferenceNode { origin: KnownFileLocation::DirEntry(entry), .. }) = self.get(*id) else {
                panic!("{id:?}")
            };
            let mut expected = Vec::new();
            name_key(entry.parent, &entry.name, &mut expected);
            assert_eq!(**key, *expected);
        }
    }
}
