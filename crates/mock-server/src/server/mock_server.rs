//! The state of the server.

use std::collections::{BTreeMap, BTreeSet};

use super::caller_identity::MockCallerIdentity;
use super::directory_escape_recording::MockDirectoryEscapeRecorder;
use super::fault_injection::fault_injector::MockFaultInjector;
use super::file_tree::MockFileTree;
use super::filehandle::handle;
use super::nfs_error::MockNfsError;
use super::nlm_lock::MockNlmLock;
use super::refusal::MockRefusal;
use super::v4::state::MockNfs4State;

/// The server: one file tree, and the state of its NFSv4 clients.
#[derive(Clone, Debug, Default)]
pub struct MockServer {
    /// The files.
    pub tree: MockFileTree,
    /// Number of executions of each NFSv4 operation, by operation number. Replies from the reply cache do not count.
    pub operation_counts: BTreeMap<u32, u64>,
    /// `true` if it keeps no record of its clients across a restart, so that nothing can be reclaimed: RFC 8881 section
    /// 8.4.3.
    pub loses_clients_on_restart: bool,
    /// `true` if it requires OPEN_CONFIRM of each unknown NFSv4.0 open-owner, as Linux does. RFC 7530 section 16.18.
    pub confirms_owners: bool,
    /// `true` if an OPEN needs a RECLAIM_COMPLETE from NFSv4.1 on. RFC 8881 section 18.51.3.
    pub needs_reclaim_complete: bool,
    /// `true` if `cinfo` of an OPEN that names no directory (CLAIM_FH, CLAIM_PREVIOUS) is 0, as with Linux.
    pub omits_cinfo_without_directory: bool,
    /// Delegations that it grants from NFSv4.1 on.
    pub delegations: MockDelegationPolicy,
    /// Maximum length in bytes of a Call and of a Reply in a session; `None` for the length that a READ or WRITE
    /// requires.
    pub session_bytes: Option<u32>,
    /// Maximum number of operations in a COMPOUND of a session, if limited.
    pub operations: Option<u32>,
    /// Number of NFSv4 directory listings whose first entry has delayed attributes. RFC 8881 section 5.8.1.12.
    pub delayed_entries: u32,
    /// The way in which it lists directories.
    pub listing: MockListingPolicy,
    /// Number of READs, WRITEs and COMPOUNDs that exceeded the announced limits.
    pub exceeded: u64,
    /// Port of MOUNT and NLM, as the port mapper reports it; 0 if they are not available.
    pub port: u16,
    /// The refusal of an operation, if any.
    pub refusal: Option<MockRefusal>,
    /// The fault injector, if any.
    pub fault_injector: Option<MockFaultInjector>,
    /// `true` if a connection must be bound to a session before SEQUENCE, as with SP4_MACH_CRED. RFC 8881 section
    /// 2.10.3.1.
    pub requires_bound_connections: bool,
    /// Every content that each file below a directory of the root had after a call, if it is to be recorded: the name
    /// of the directory, and the contents by path.
    pub file_history: Option<(Vec<u8>, FileContents)>,
    /// Number of the connection of the current Call.
    pub connection: u64,
    /// Connections, with the sessions to which they are bound.
    pub(super) bound_connections: BTreeSet<(u64, [u8; 16])>,
    /// The user of the current Call.
    pub(super) caller: MockCallerIdentity,
    pub(super) state: MockNfs4State,
    /// Locks of NLM clients.
    pub(super) locks: Vec<MockNlmLock>,
}

/// The way in which a server lists directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockListingPolicy {
    /// Maximum number of entries in a reply.
    pub max_entries: usize,
    /// `true` if it never lists the last name of a directory, which a client cannot know.
    pub drops_last: bool,
}

impl Default for MockListingPolicy {
    fn default() -> Self {
        Self { max_entries: 4096, drops_last: false }
    }
}

impl MockListingPolicy {
    /// Removes the entries that it does not list from the rest of a directory. Returns `true` if no more follow.
    pub(super) fn limit<T>(self, entries: &mut Vec<T>) -> bool {
        if self.drops_last {
            entries.pop();
        }
        let is_end = entries.len() <= self.max_entries;
        entries.truncate(self.max_entries);
        is_end
    }
}

/// Contents that files had, by path.
pub type FileContents = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Delegations that a server grants. It recalls none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MockDelegationPolicy {
    /// None.
    #[default]
    Never,
    /// One with each OPEN that does not refuse it, also to reclaim an open (as Linux 7.2 does), and with each
    /// GET_DIR_DELEGATION.
    UnlessRefused,
    /// One with each OPEN, whatever that asks for, and with each GET_DIR_DELEGATION.
    Always,
}

impl MockServer {
    /// Returns the filehandle of the root, as in MOUNT and PUTROOTFH.
    pub fn root(&self) -> [u8; 16] {
        handle(MockFileTree::ROOT)
    }

    /// Records the contents of the files, if that was requested.
    pub(super) fn record_files(&mut self) {
        let Some((directory, history)) = &mut self.file_history else { return };
        for (path, content) in self.tree.files(directory) {
            let contents = history.entry(path).or_default();
            if !contents.contains(&content) {
                contents.push(content);
            }
        }
    }

    /// Returns `true` if files and directories equal those of another server, except for times.
    pub fn has_same_files(&self, other: &Self) -> bool {
        !self.tree.is_changed_since(&other.tree)
    }

    /// Returns the status with which this execution of an operation is refused.
    pub(super) fn refused_status(&mut self, operation: Option<&str>) -> Option<u32> {
        self.refusal.as_mut()?.next_status(operation?)
    }

    /// Restarts: files stay, and NFSv4 client state is lost, but may be reclaimed until the grace period ends. RFC 8881
    /// section 8.4.2.
    pub fn restart(&mut self) {
        self.state.restart(!self.loses_clients_on_restart);
    }

    /// Drops the sessions of NFSv4.1, but keeps the state of their clients.
    pub fn forget_sessions(&mut self) {
        self.state.sessions.clear();
    }

    /// Forgets which connections are bound to sessions.
    pub fn forget_bindings(&mut self) {
        self.bound_connections.clear();
    }

    /// Returns the number of opens of NFSv4 clients.
    pub fn opens(&self) -> usize {
        self.state.opens.len()
    }

    /// Returns the number of delegations that NFSv4 clients hold.
    pub fn delegation_count(&self) -> usize {
        self.state.delegations.len()
    }

    /// Returns the verifier of WRITE and COMMIT, which changes with each restart. RFC 8881 section 18.32.4.
    pub(super) fn write_verifier(&self) -> [u8; 8] {
        let mut verifier = *b"loopback";
        let [.., last] = &mut verifier;
        *last ^= self.state.boots;
        verifier
    }

    /// Makes names paths, including absolute ones and those with `..`, makes unknown filehandles represent the root,
    /// and records accesses outside the directory with this name in the root, and uses of `values`.
    ///
    /// # Errors
    /// Returns an error if there is no such directory.
    pub fn disable_confinement(
        &mut self,
        directory: &[u8],
        values: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), MockNfsError> {
        let home = self.tree.lookup(MockFileTree::ROOT, directory)?;
        let objects = self.tree.objects_outside(home);
        let values = values.into_iter().collect();
        self.tree.outside = Some(MockDirectoryEscapeRecorder::new(objects, values));
        Ok(())
    }

    /// Returns the recorded accesses outside the directory.
    pub fn outside_accesses(&self) -> Vec<String> {
        self.tree.outside.as_ref().map(MockDirectoryEscapeRecorder::accesses).unwrap_or_default()
    }
}
