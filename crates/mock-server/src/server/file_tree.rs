//! Files, directories and links in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::MockCallerIdentity;
use super::directory_escape_recording::MockDirectoryEscapeRecorder;

/// Maximum length of a file in bytes.
const LONGEST_FILE: u64 = 256 << 20;
/// Maximum length of all files together in bytes.
const MAX_TREE_BYTES: u64 = 1 << 30;
const MAX_OBJECTS: usize = 1 << 20;
/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 255;
/// The first cookie of a directory: lower ones are reserved for "." and "..".
const FIRST_COOKIE: u64 = 3;

/// An error status that nfsstat3 (RFC 1813 section 2.6) and nfsstat4 (RFC 7530 section 13) share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockNfsError(pub u32);

#[allow(missing_docs, reason = "the names of the RFCs")]
impl MockNfsError {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const EXIST: Self = Self(17);
    pub const NOTDIR: Self = Self(20);
    pub const ISDIR: Self = Self(21);
    pub const INVAL: Self = Self(22);
    pub const FBIG: Self = Self(27);
    pub const NOSPC: Self = Self(28);
    pub const NAMETOOLONG: Self = Self(63);
    pub const NOTEMPTY: Self = Self(66);
    pub const STALE: Self = Self(70);
    pub const BADHANDLE: Self = Self(10001);
}

/// Number of an object: its fileid.
pub(super) type MockFileId = u64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MockObjectContent {
    File(Vec<u8>),
    Directory(MockDirectory),
    Link(Vec<u8>),
    /// A device, a socket or a FIFO: its type, with the number of both versions, and the two device numbers.
    Special(u32, [u32; 2]),
}

/// The names in a directory, in the order of creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MockDirectory {
    by_cookie: BTreeMap<u64, (Vec<u8>, MockFileId)>,
    by_name: HashMap<Vec<u8>, u64>,
    next: u64,
    /// Number of subdirectories.
    inside: u32,
}

#[derive(Clone, Debug)]
pub(super) struct MockObject {
    pub(super) content: MockObjectContent,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) links: u32,
    /// Times in ticks of the tree's clock.
    pub(super) atime: u64,
    pub(super) mtime: u64,
    /// Time of last modification that a client has set, in seconds and nanoseconds, until the next change.
    pub(super) set_mtime: Option<[u32; 2]>,
    pub(super) ctime: u64,
    reads: u64,
    pub(super) parent: MockFileId,
}

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
            refused_name: None,
            file_bytes: LONGEST_FILE,
            counts_reads: false,
            outside: None,
        };
        tree.put(MockObjectContent::Directory(MockDirectory::default()), 0o755, Self::ROOT);
        tree
    }
}

impl MockObject {
    /// Returns the time of last modification in seconds and nanoseconds.
    pub(super) fn modified(&self) -> [u32; 2] {
        self.set_mtime.unwrap_or(MockFileTree::time(self.mtime))
    }

    /// Returns the type, with the number of both versions: RFC 1813 section 2.6, RFC 8881 section 3.2.
    pub(super) fn kind(&self) -> u32 {
        match self.content {
            MockObjectContent::File(_) => 1,
            MockObjectContent::Directory(_) => 2,
            MockObjectContent::Link(_) => 5,
            MockObjectContent::Special(kind, _) => kind,
        }
    }

    /// Returns the two numbers of a device; zeros for other objects.
    pub(super) fn device_numbers(&self) -> [u32; 2] {
        match self.content {
            MockObjectContent::Special(_, numbers) => numbers,
            _ => [0; 2],
        }
    }

    fn names(&self) -> Result<&MockDirectory, MockNfsError> {
        match &self.content {
            MockObjectContent::Directory(names) => Ok(names),
            _ => Err(MockNfsError::NOTDIR),
        }
    }

    fn is_directory(&self) -> bool {
        matches!(self.content, MockObjectContent::Directory(_))
    }

    pub(super) fn size(&self) -> u64 {
        match &self.content {
            MockObjectContent::File(bytes) | MockObjectContent::Link(bytes) => bytes.len() as u64,
            MockObjectContent::Directory(_) => 4096,
            MockObjectContent::Special(..) => 0,
        }
    }

    /// Returns a user's permissions in the bits of ACCESS: RFC 1813 section 3.3.4, RFC 8881 section 18.1.
    pub(super) fn rights(&self, caller: &MockCallerIdentity) -> u32 {
        let bits = match caller.uid {
            // Root may read and write everything, and execute a file that anybody may execute.
            0 => 6 | u32::from(self.kind() == 2 || self.mode & 0o111 != 0),
            uid if uid == self.uid => self.mode >> 6,
            _ if caller.is_in(self.gid) => self.mode >> 3,
            _ => self.mode,
        };
        let (read, write, execute) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
        let granted = |is_allowed: bool, right: u32| if is_allowed { right } else { 0 };
        match self.kind() {
            2 => granted(read, 0x01) | granted(execute, 0x02) | granted(write, 0x1c),
            _ => granted(read, 0x01) | granted(write, 0x0c) | granted(execute, 0x20),
        }
    }

    /// Returns `true` if the user may change mode and owners.
    pub(super) fn is_owned_by(&self, caller: &MockCallerIdentity) -> bool {
        caller.uid == 0 || caller.uid == self.uid
    }
}

impl MockDirectory {
    pub(super) fn get(&self, name: &[u8]) -> Option<MockFileId> {
        self.by_name.get(name).and_then(|cookie| self.by_cookie.get(cookie)).map(|(_, id)| *id)
    }

    fn add(&mut self, name: &[u8], id: MockFileId) {
        let cookie = self.next.max(FIRST_COOKIE);
        self.next = cookie + 1;
        self.by_name.insert(name.to_vec(), cookie);
        self.by_cookie.insert(cookie, (name.to_vec(), id));
    }

    fn take(&mut self, name: &[u8]) -> Option<MockFileId> {
        let cookie = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie).map(|(_, id)| id)
    }

    /// Returns the entries after a cookie: cookie, name, object.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], MockFileId)> {
        let start = cookie.saturating_add(1);
        self.by_cookie.range(start..).map(|(cookie, (name, id))| (*cookie, &name[..], *id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_cookie.is_empty()
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

    /// Returns seconds and nanoseconds of a tick: one millisecond each, from the program's first query on.
    pub(super) fn time(tick: u64) -> [u32; 2] {
        static BEGIN: LazyLock<u64> = LazyLock::new(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
        });
        [(*BEGIN + tick / 1000) as u32, (tick % 1000) as u32 * 1_000_000]
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

    /// Returns the link count of an object: for a directory its name, `.`, and the `..` of its subdirectories.
    pub(super) fn links(node: &MockObject) -> u32 {
        match &node.content {
            MockObjectContent::Directory(names) => names.inside.saturating_add(2),
            _ => node.links,
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

    pub(super) fn rename(
        &mut self,
        from: (MockFileId, &[u8]),
        to: (MockFileId, &[u8]),
    ) -> Result<(), MockNfsError> {
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

    pub(super) fn link(
        &mut self,
        id: MockFileId,
        directory: MockFileId,
        name: &[u8],
    ) -> Result<(), MockNfsError> {
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
    pub(super) fn read(
        &self,
        id: MockFileId,
        offset: u64,
        count: u32,
    ) -> Result<(&[u8], bool), MockNfsError> {
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
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= self.file_bytes)
            .ok_or(MockNfsError::FBIG)?;
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
    fn names_missing_in<'t>(
        &'t self,
        other: &'t Self,
    ) -> impl Iterator<Item = (MockFileId, &'t [u8], MockFileId)> {
        self.nodes.iter().flat_map(move |(directory, node)| {
            let names = node.names().ok();
            let other_names = other.directory(*directory).ok();
            let is_missing =
                move |name: &[u8]| other_names.is_some_and(|other_names| other_names.get(name).is_none());
            let entries = names.into_iter().flat_map(|names| names.after(0));
            entries.filter(move |(_, name, _)| is_missing(name)).map(|(_, name, id)| (*directory, name, id))
        })
    }

    /// Restores removed names. Returns `true` if there are any.
    pub(super) fn restore_names(before: &Self, after: &mut Self) -> bool {
        let missing: Vec<_> =
            before.names_missing_in(after).map(|(at, name, id)| (at, name.to_vec(), id)).collect();
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
    fn what_is_written_is_read_and_holes_are_zeros() {
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
    fn an_object_goes_with_its_last_name() {
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
    fn cookies_stay_whatever_is_removed() {
        let mut tree = MockFileTree::default();
        for name in [b"a", b"b", b"c"] {
            tree.create(MockFileTree::ROOT, name, FILE(), 0o644).unwrap();
        }
        let second = tree.directory(MockFileTree::ROOT).unwrap().after(0).nth(1).unwrap().0;
        tree.remove(MockFileTree::ROOT, b"b", None).unwrap();
        let after: Vec<_> =
            tree.directory(MockFileTree::ROOT).unwrap().after(second).map(|entry| entry.1).collect();
        assert_eq!(after, [b"c"]);
    }

    #[test]
    fn a_name_must_be_one() {
        let mut tree = MockFileTree::default();
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(tree.create(MockFileTree::ROOT, name, FILE(), 0), Err(MockNfsError::INVAL));
        }
        assert_eq!(tree.create(MockFileTree::ROOT, &[b'x'; 256], FILE(), 0), Err(MockNfsError::NAMETOOLONG));
    }
}
