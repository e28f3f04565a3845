//! Files, directories and links in memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::directory_escape_recording::MockDirectoryEscapeRecorder;
use super::file_object::{MockDirectory, MockObject, MockObjectContent};
use super::filehandle::MockFileId;
use super::nfs_error::MockNfsError;

/// Maximum length of a file in bytes.
const LONGEST_FILE: u64 = 256 << 20;
/// Maximum length of all files together in bytes.
const MAX_TREE_BYTES: u64 = 1 << 30;
const MAX_OBJECTS: usize = 1 << 20;
/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 255;
/// A tree of objects. Its clock counts changes, so that the same changes give the same times.
#[derive(Clone, Debug)]
pub struct MockFileTree {
    nodes: HashMap<MockFileId, MockObject>,
    next: MockFileId,
    ticks: u64,
    bytes: u64,
    /// Maximum length of a READ and WRITE in bytes.
    pub io_bytes: u32,
    /// User and group of new objects, whoever creates them, like an export that maps all users.
    pub new_object_owner: [u32; 2],
    /// An NFSv4 attribute that the server neither supports nor returns.
    pub withheld_attribute: Option<u32>,
    /// The domain in which the server has names for owners and groups of NFSv4; without one, they are numbers. RFC 8881
    /// section 5.9.
    pub owner_domain: Option<&'static str>,
    /// A name that the server rejects, like one with characters that its file system does not support.
    pub refused_name: Option<Vec<u8>>,
    /// Maximum size of a file in bytes: NFS3ERR_FBIG and NFS4ERR_FBIG beyond it.
    pub file_bytes: u64,
    /// `true` if reads raise change attributes by one, as XFS counted access times before Linux 6.13.
    pub counts_reads: bool,
    /// The objects outside the directory of a replay, if names are paths.
    pub(super) outside: Option<MockDirectoryEscapeRecorder>,
}

impl Default for MockFileTree {
    fn default() -> Self {
        let mut tree = Self {
            nodes: HashMap::new(),
            next: Self::ROOT,
            ticks: 0,
            bytes: 0,
            io_bytes: 1 << 20,
            new_object_owner: [0; 2],
            withheld_attribute: None,
            owner_domain: None,
            refused_name: None,
            file_bytes: LONGEST_FILE,
            counts_reads: false,
            outside: None,
        };
        tree.put(MockObjectContent::Directory(MockDirectory::default()), 0o755, Self::ROOT);
        tree
    }
}

fn check_name(name: &[u8]) -> Result<&[u8], MockNfsError> {
    match name {
        b"" | b"." | b".." => Err(MockNfsError::INVAL),
        _ if name.contains(&b'/') || name.contains(&0) => Err(MockNfsError::INVAL),
        _ if name.len() > LONGEST_NAME => Err(MockNfsError::NAMETOOLONG),
        _ => Ok(name),
    }
}

impl MockFileTree {
    pub(super) const ROOT: MockFileId = 1;

    /// Creates or replaces a file in the root.
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or the content exceeds a limit.
    pub fn put_file(&mut self, name: &[u8], content: &[u8]) -> Result<(), MockNfsError> {
        let id = match self.lookup(Self::ROOT, name) {
            Ok(id) => id,
            Err(_) => self.create(Self::ROOT, name, MockObjectContent::File(Vec::new()), 0o644)?,
        };
        self.truncate(id, 0)?;
        self.write(id, 0, content)
    }

    /// Returns the content of a file in the root.
    ///
    /// # Errors
    /// Returns an error if there is no such file.
    pub fn file(&self, name: &[u8]) -> Result<&[u8], MockNfsError> {
        match &self.node(self.lookup(Self::ROOT, name)?)?.content {
            MockObjectContent::File(bytes) => Ok(bytes),
            _ => Err(MockNfsError::INVAL),
        }
    }

    /// Returns the content of each file below a directory of the root, by its path there.
    pub fn files(&self, directory: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories: Vec<_> =
            self.lookup(Self::ROOT, directory).into_iter().map(|id| (id, Vec::new())).collect();
        while let Some((id, path)) = directories.pop() {
            let Ok(names) = self.node(id).and_then(MockObject::names) else { continue };
            for (name, child) in names.by_cookie.values() {
                let path = [&path[..], b"/", name].concat();
                match self.node(*child).map(|node| &node.content) {
                    Ok(MockObjectContent::Directory(_)) => directories.push((*child, path)),
                    Ok(MockObjectContent::File(content)) => drop(files.insert(path, content.clone())),
                    _ => {}
                }
            }
        }
        files
    }

    fn put(&mut self, content: MockObjectContent, mode: u32, parent: MockFileId) -> MockFileId {
        let id = self.next;
        self.next += 1;
        self.ticks += 1;
        let time = self.ticks;
        let [uid, gid] = self.new_object_owner;
        let node = MockObject {
            content,
            mode,
            uid,
            gid,
            links: 1,
            atime: time,
            mtime: time,
            set_mtime: None,
            ctime: time,
            reads: 0,
            parent,
        };
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn node(&self, id: MockFileId) -> Result<&MockObject, MockNfsError> {
        self.nodes.get(&id).ok_or(MockNfsError::STALE)
    }

    pub(super) fn node_mut(&mut self, id: MockFileId) -> Result<&mut MockObject, MockNfsError> {
        self.nodes.get_mut(&id).ok_or(MockNfsError::STALE)
    }

    pub(super) fn directory(&self, id: MockFileId) -> Result<&MockDirectory, MockNfsError> {
        self.node(id)?.names()
    }

    fn directory_mut(&mut self, id: MockFileId) -> Result<&mut MockDirectory, MockNfsError> {
        match &mut self.node_mut(id)?.content {
            MockObjectContent::Directory(directory) => Ok(directory),
            _ => Err(MockNfsError::NOTDIR),
        }
    }

    /// Advances the clock, and returns its time.
    pub(super) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Updates the change times of an object.
    fn touch(&mut self, id: MockFileId) {
        let time = self.tick();
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.mtime, node.set_mtime, node.ctime) = (time, None, time);
        }
    }

    pub(super) fn change_of(&self, object: &MockObject) -> u64 {
        if self.counts_reads { object.ctime << 16 | object.reads & 0xffff } else { object.ctime }
    }

    pub(super) fn change(&self, id: MockFileId) -> Result<u64, MockNfsError> {
        Ok(self.change_of(self.node(id)?))
    }

    pub(super) fn record_read(&mut self, id: MockFileId) {
        if let Some(object) = self.nodes.get_mut(&id) {
            object.reads += 1;
        }
    }

    /// Raises the change attribute of all objects without another change.
    pub fn raise_change_attributes(&mut self) {
        let time = self.tick();
        self.nodes.values_mut().for_each(|node| node.ctime = time);
    }

    /// Gives all objects to another owner, without a change of their times.
    pub fn change_owners(&mut self, owner: [u32; 2]) {
        self.nodes.values_mut().for_each(|object| [object.uid, object.gid] = owner);
    }

    /// Adds a name to each directory below a path, itself included, without another change. Returns their number.
    pub fn add_name_below(&mut self, path: &[&[u8]], name: &[u8]) -> usize {
        let start = path.iter().try_fold(Self::ROOT, |directory, name| self.lookup(directory, name));
        let mut pending: Vec<MockFileId> = start.into_iter().collect();
        let mut count = 0;
        while let Some(id) = pending.pop() {
            let file = self.put(MockObjectContent::File(Vec::new()), 0o644, id);
            let Ok(directory) = self.directory_mut(id) else { continue };
            let children: Vec<MockFileId> = directory.after(0).map(|(_, _, id)| id).collect();
            directory.add(name, file);
            count += 1;
            pending.extend(children.into_iter().filter(|id| self.directory(*id).is_ok()));
        }
        count
    }

    /// Changes the first byte of each file that is not empty, without another change. Returns their number.
    pub fn damage_files(&mut self) -> usize {
        let mut count = 0;
        for object in self.nodes.values_mut() {
            if let MockObjectContent::File(bytes) = &mut object.content
                && let Some(first) = bytes.first_mut()
            {
                *first ^= 1;
                count += 1;
            }
        }
        count
    }

    /// Makes each further name of a hard link denote a copy of the object.
    pub fn separate_hard_links(&mut self) {
        let names = self.nodes.iter().filter_map(|(id, object)| Some((*id, object.names().ok()?)));
        let mut names: Vec<_> = names
            .flat_map(|(directory, names)| {
                names.by_cookie.iter().map(move |(cookie, (_, object))| (*object, directory, *cookie))
            })
            .collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            let [(first, ..), (second, directory, cookie)] = pair else { continue };
            let Some(object) = self.nodes.get(second).filter(|_| first == second).cloned() else { continue };
            if object.is_directory() {
                continue;
            }
            let copy = self.next;
            self.next += 1;
            self.nodes.insert(copy, object);
            if let Ok(names) = self.directory_mut(*directory)
                && let Some((_, object)) = names.by_cookie.get_mut(cookie)
            {
                *object = copy;
            }
        }
    }

    pub(super) fn record_access(&self, id: MockFileId) {
        if let Some(outside) = &self.outside {
            outside.record_object(id);
        }
    }

    /// Returns all objects that are neither a directory nor below it.
    pub(super) fn objects_outside(&self, home: MockFileId) -> HashSet<MockFileId> {
        let is_outside = |id: &MockFileId| {
            let mut at = *id;
            while at != home && at != Self::ROOT {
                at = self.nodes.get(&at).map_or(Self::ROOT, |node| node.parent);
            }
            at != home
        };
        self.nodes.keys().copied().filter(is_outside).collect()
    }

    pub(super) fn lookup(&self, directory: MockFileId, name: &[u8]) -> Result<MockFileId, MockNfsError> {
        let (directory, name) = self.resolve(directory, name)?;
        let names = self.directory(directory)?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(self.node(directory)?.parent),
            _ => names.get(check_name(name)?).ok_or(MockNfsError::NOENT),
        }
    }

    /// Returns the object of a filehandle. Without confinement, an unknown filehandle is the root.
    pub(super) fn object(&self, handle: &[u8]) -> Result<MockFileId, MockNfsError> {
        let id = handle.strip_prefix(b"loopback").and_then(|rest| rest.try_into().ok());
        let id = id.map(u64::from_be_bytes);
        match &self.outside {
            None => id.ok_or(MockNfsError::BADHANDLE),
            Some(outside) => {
                let id = id.unwrap_or(Self::ROOT);
                outside.record_object(id);
                Ok(id)
            }
        }
    }

    /// Resolves a name to its directory and last component. Names with several components are resolved only without
    /// confinement.
    fn resolve<'n>(&self, directory: MockFileId, name: &'n [u8]) -> Result<(MockFileId, &'n [u8]), MockNfsError> {
        let Some(outside) = &self.outside else { return Ok((directory, name)) };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut at = if name.first() == Some(&b'/') { Self::ROOT } else { directory };
        let mut names = name.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let last = names.next_back().unwrap_or(b".");
        outside.record_object(at);
        for name in names {
            at = self.step(at, name)?;
            outside.record_object(at);
        }
        if let Ok(id) = self.step(at, last) {
            outside.record_object(id);
        }
        Ok((at, last))
    }

    fn step(&self, directory: MockFileId, name: &[u8]) -> Result<MockFileId, MockNfsError> {
        let names = self.directory(directory)?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(self.node(directory)?.parent),
            _ => names.get(name).ok_or(MockNfsError::NOENT),
        }
    }

    pub(super) fn create(
        &mut self,
        directory: MockFileId,
        name: &[u8],
        content: MockObjectContent,
        mode: u32,
    ) -> Result<MockFileId, MockNfsError> {
        let (directory, name) = self.resolve(directory, name)?;
        if self.refused_name.as_deref() == Some(name) {
            return Err(MockNfsError::INVAL);
        }
        if self.directory(directory)?.get(check_name(name)?).is_some() {
            return Err(MockNfsError::EXIST);
        }
        if self.nodes.len() >= MAX_OBJECTS {
            return Err(MockNfsError::NOSPC);
        }
        let is_directory = matches!(content, MockObjectContent::Directory(_));
        let id = self.put(content, mode, directory);
        let names = self.directory_mut(directory)?;
        names.add(name, id);
        names.inside += u32::from(is_directory);
        self.touch(directory);
        Ok(id)
    }

    /// Removes a name, and the object with its last name. `wants_directory` is the required type, if any.
    pub(super) fn remove(
        &mut self,
        directory: MockFileId,
        name: &[u8],
        wants_directory: Option<bool>,
    ) -> Result<(), MockNfsError> {
        let (directory, name) = self.resolve(directory, name)?;
        let id = self.directory(directory)?.get(check_name(name)?).ok_or(MockNfsError::NOENT)?;
        let is_directory = self.node(id)?.is_directory();
        match wants_directory {
            Some(false) if is_directory => return Err(MockNfsError::ISDIR),
            Some(true) if !is_directory => return Err(MockNfsError::NOTDIR),
            _ if is_directory && !self.directory(id)?.is_empty() => return Err(MockNfsError::NOTEMPTY),
            _ => {}
        }
        let names = self.directory_mut(directory)?;
        names.take(name);
        names.inside = names.inside.saturating_sub(is_directory.into());
        self.touch(directory);
        self.unlink(id);
        Ok(())
    }

    fn unlink(&mut self, id: MockFileId) {
        let time = self.tick();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.links = node.links.saturating_sub(1);
        node.ctime = time;
        if node.links == 0 {
            if let MockObjectContent::File(bytes) = &node.content {
                self.bytes = self.bytes.saturating_sub(bytes.len() as u64);
            }
            self.nodes.remove(&id);
        }
    }

    pub(super) fn rename(&mut self, from: (MockFileId, &[u8]), to: (MockFileId, &[u8])) -> Result<(), MockNfsError> {
        let (from, to) = (self.resolve(from.0, from.1)?, self.resolve(to.0, to.1)?);
        let id = self.directory(from.0)?.get(check_name(from.1)?).ok_or(MockNfsError::NOENT)?;
        let existing = self.directory(to.0)?.get(check_name(to.1)?);
        if existing == Some(id) {
            return Ok(());
        }
        let is_directory = self.node(id)?.is_directory();
        // A directory must not be moved below itself.
        let mut ancestor = to.0;
        while is_directory && ancestor != Self::ROOT {
            if ancestor == id {
                return Err(MockNfsError::INVAL);
            }
            ancestor = self.node(ancestor)?.parent;
        }
        if existing.is_some() {
            self.remove(to.0, to.1, Some(is_directory)).map_err(|error| match error {
                MockNfsError::ISDIR | MockNfsError::NOTDIR => MockNfsError::EXIST,
                fail => fail,
            })?;
        }
        let source = self.directory_mut(from.0)?;
        source.take(from.1);
        source.inside = source.inside.saturating_sub(is_directory.into());
        let target = self.directory_mut(to.0)?;
        target.add(to.1, id);
        target.inside += u32::from(is_directory);
        self.touch(from.0);
        self.touch(to.0);
        let time = self.tick();
        let node = self.node_mut(id)?;
        (node.parent, node.ctime) = (to.0, time);
        Ok(())
    }

    pub(super) fn link(&mut self, id: MockFileId, directory: MockFileId, name: &[u8]) -> Result<(), MockNfsError> {
        if self.node(id)?.is_directory() {
            return Err(MockNfsError::ISDIR);
        }
        let (directory, name) = self.resolve(directory, name)?;
        if self.directory(directory)?.get(check_name(name)?).is_some() {
            return Err(MockNfsError::EXIST);
        }
        self.directory_mut(directory)?.add(name, id);
        self.touch(directory);
        let time = self.tick();
        let node = self.node_mut(id)?;
        node.links += 1;
        node.ctime = time;
        Ok(())
    }

    fn contents_mut(&mut self, id: MockFileId) -> Result<&mut Vec<u8>, MockNfsError> {
        match &mut self.node_mut(id)?.content {
            MockObjectContent::File(bytes) => Ok(bytes),
            MockObjectContent::Directory(_) => Err(MockNfsError::ISDIR),
            _ => Err(MockNfsError::INVAL),
        }
    }

    /// Returns bytes of a file, and `true` if they reach its end.
    pub(super) fn read(&self, id: MockFileId, offset: u64, count: u32) -> Result<(&[u8], bool), MockNfsError> {
        let bytes = match &self.node(id)?.content {
            MockObjectContent::File(bytes) => bytes,
            MockObjectContent::Directory(_) => return Err(MockNfsError::ISDIR),
            _ => return Err(MockNfsError::INVAL),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(count as usize).min(bytes.len());
        Ok((bytes.get(start..end).unwrap_or_default(), end == bytes.len()))
    }

    pub(super) fn write(&mut self, id: MockFileId, offset: u64, data: &[u8]) -> Result<(), MockNfsError> {
        let end =
            offset.checked_add(data.len() as u64).filter(|end| *end <= self.file_bytes).ok_or(MockNfsError::FBIG)?;
        let length = self.contents_mut(id)?.len() as u64;
        if end > length {
            self.truncate(id, end)?;
        }
        let target = self.contents_mut(id)?.get_mut(offset as usize..end as usize);
        target.ok_or(MockNfsError::FBIG)?.copy_from_slice(data);
        self.touch(id);
        Ok(())
    }

    pub(super) fn truncate(&mut self, id: MockFileId, size: u64) -> Result<(), MockNfsError> {
        if size > self.file_bytes {
            return Err(MockNfsError::FBIG);
        }
        let length = self.contents_mut(id)?.len() as u64;
        let bytes = (self.bytes + size).saturating_sub(length);
        if size > length && bytes > MAX_TREE_BYTES {
            return Err(MockNfsError::NOSPC);
        }
        self.bytes = bytes;
        self.contents_mut(id)?.resize(size as usize, 0);
        self.touch(id);
        Ok(())
    }
}

/// File faults.
impl MockFileTree {
    /// Returns `true` if the tree differs, except for times.
    pub(super) fn is_changed_since(&self, before: &Self) -> bool {
        let is_same = |(id, node): (&MockFileId, &MockObject)| {
            before.nodes.get(id).is_some_and(|old| {
                old.content == node.content
                    && (old.mode, old.uid, old.gid, old.links) == (node.mode, node.uid, node.gid, node.links)
            })
        };
        self.nodes.len() != before.nodes.len() || !self.nodes.iter().all(is_same)
    }

    /// Returns the names in directories of this tree that exist in `other` without the name.
    fn names_missing_in<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = (MockFileId, &'t [u8], MockFileId)> {
        self.nodes.iter().flat_map(move |(directory, node)| {
            let names = node.names().ok();
            let other_names = other.directory(*directory).ok();
            let is_missing = move |name: &[u8]| other_names.is_some_and(|other_names| other_names.get(name).is_none());
            let entries = names.into_iter().flat_map(|names| names.after(0));
            entries.filter(move |(_, name, _)| is_missing(name)).map(|(_, name, id)| (*directory, name, id))
        })
    }

    /// Restores removed names. Returns `true` if there are any.
    pub(super) fn restore_names(before: &Self, after: &mut Self) -> bool {
        let missing: Vec<_> = before.names_missing_in(after).map(|(at, name, id)| (at, name.to_vec(), id)).collect();
        for (directory, name, id) in &missing {
            if let (false, Some(node)) = (after.nodes.contains_key(id), before.nodes.get(id)) {
                after.nodes.insert(*id, node.clone());
            }
            if let Ok(names) = after.directory_mut(*directory) {
                names.add(name, *id);
            }
        }
        !missing.is_empty()
    }

    /// Removes new names; their objects stay. Returns `true` if there are any.
    pub(super) fn remove_new_names(before: &Self, after: &mut Self) -> bool {
        let added: Vec<_> = after.names_missing_in(before).map(|(at, name, _)| (at, name.to_vec())).collect();
        for (directory, name) in &added {
            if let Ok(names) = after.directory_mut(*directory) {
                names.take(name);
            }
        }
        !added.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: fn() -> MockObjectContent = || MockObjectContent::File(Vec::new());
    const DIRECTORY: fn() -> MockObjectContent = || MockObjectContent::Directory(MockDirectory::default());

    #[test]
    fn written_data_is_read_back_and_holes_are_zeros() {
        let mut tree = MockFileTree::default();
        let file = tree.create(MockFileTree::ROOT, b"f", FILE(), 0o644).unwrap();
        tree.write(file, 4, b"data").unwrap();
        assert_eq!(tree.read(file, 0, 100), Ok((&b"\0\0\0\0data"[..], true)));
        assert_eq!(tree.read(file, 2, 4), Ok((&b"\0\0da"[..], false)));
        assert_eq!(tree.read(file, 100, 4), Ok((&b""[..], true)));
        assert_eq!(tree.write(file, u64::MAX, b"x"), Err(MockNfsError::FBIG));
        assert_eq!(tree.write(file, LONGEST_FILE, b"x"), Err(MockNfsError::FBIG));
    }

    #[test]
    fn an_object_is_removed_with_its_last_name() {
        let mut tree = MockFileTree::default();
        let file = tree.create(MockFileTree::ROOT, b"f", FILE(), 0o644).unwrap();
        tree.link(file, MockFileTree::ROOT, b"g").unwrap();
        tree.remove(MockFileTree::ROOT, b"f", None).unwrap();
        assert_eq!(tree.node(file).unwrap().links, 1);
        tree.remove(MockFileTree::ROOT, b"g", None).unwrap();
        assert_eq!(tree.node(file).err(), Some(MockNfsError::STALE));
    }

    #[test]
    fn a_directory_that_is_not_empty_stays_and_none_goes_into_itself() {
        let mut tree = MockFileTree::default();
        let outer = tree.create(MockFileTree::ROOT, b"outer", DIRECTORY(), 0o755).unwrap();
        let inner = tree.create(outer, b"inner", DIRECTORY(), 0o755).unwrap();
        assert_eq!(tree.remove(MockFileTree::ROOT, b"outer", Some(true)), Err(MockNfsError::NOTEMPTY));
        assert_eq!(tree.rename((MockFileTree::ROOT, b"outer"), (inner, b"x")), Err(MockNfsError::INVAL));
        assert_eq!(tree.rename((outer, b"inner"), (MockFileTree::ROOT, b"inner")), Ok(()));
        assert_eq!(tree.lookup(inner, b".."), Ok(MockFileTree::ROOT));
        assert_eq!(tree.remove(MockFileTree::ROOT, b"outer", Some(false)), Err(MockNfsError::ISDIR));
        assert_eq!(tree.remove(MockFileTree::ROOT, b"outer", Some(true)), Ok(()));
    }

    #[test]
    fn cookies_remain_valid_after_a_removal() {
        let mut tree = MockFileTree::default();
        for name in [b"a", b"b", b"c"] {
            tree.create(MockFileTree::ROOT, name, FILE(), 0o644).unwrap();
        }
        let second = tree.directory(MockFileTree::ROOT).unwrap().after(0).nth(1).unwrap().0;
        tree.remove(MockFileTree::ROOT, b"b", None).unwrap();
        let after: Vec<_> = tree.directory(MockFileTree::ROOT).unwrap().after(second).map(|entry| entry.1).collect();
        assert_eq!(after, [b"c"]);
    }

    #[test]
    fn invalid_names_are_refused() {
        let mut tree = MockFileTree::default();
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(tree.create(MockFileTree::ROOT, name, FILE(), 0), Err(MockNfsError::INVAL));
        }
        assert_eq!(tree.create(MockFileTree::ROOT, &[b'x'; 256], FILE(), 0), Err(MockNfsError::NAMETOOLONG));
    }
}
