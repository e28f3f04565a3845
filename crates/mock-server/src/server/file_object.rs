//! The objects of a file tree.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::caller_identity::MockCallerIdentity;
use super::filehandle::MockFileId;
use super::nfs_error::MockNfsError;

/// The first cookie of a directory: lower ones are reserved for "." and "..".
const FIRST_COOKIE: u64 = 3;

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
    pub(super) by_cookie: BTreeMap<u64, (Vec<u8>, MockFileId)>,
    by_name: HashMap<Vec<u8>, u64>,
    next: u64,
    /// Number of subdirectories.
    pub(super) inside: u32,
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
    pub(super) reads: u64,
    pub(super) parent: MockFileId,
}

impl MockObject {
    /// Returns seconds and nanoseconds of a tick: one millisecond each, from the program's first query on.
    pub(super) fn time(tick: u64) -> [u32; 2] {
        static BEGIN: LazyLock<u64> =
            LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()));
        [(*BEGIN + tick / 1000) as u32, (tick % 1000) as u32 * 1_000_000]
    }

    /// Returns the link count of an object: for a directory its name, `.`, and the `..` of its subdirectories.
    pub(super) fn links(&self) -> u32 {
        match &self.content {
            MockObjectContent::Directory(names) => names.inside.saturating_add(2),
            _ => self.links,
        }
    }

    /// Returns the time of last modification in seconds and nanoseconds.
    pub(super) fn modified(&self) -> [u32; 2] {
        self.set_mtime.unwrap_or(Self::time(self.mtime))
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

    pub(super) fn names(&self) -> Result<&MockDirectory, MockNfsError> {
        match &self.content {
            MockObjectContent::Directory(names) => Ok(names),
            _ => Err(MockNfsError::NOTDIR),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
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

    pub(super) fn add(&mut self, name: &[u8], id: MockFileId) {
        let cookie = self.next.max(FIRST_COOKIE);
        self.next = cookie + 1;
        self.by_name.insert(name.to_vec(), cookie);
        self.by_cookie.insert(cookie, (name.to_vec(), id));
    }

    pub(super) fn take(&mut self, name: &[u8]) -> Option<MockFileId> {
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
