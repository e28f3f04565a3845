//! Seeding: creates the directory of a run with the tree that a trace expects.
//!
//! A run has its own directory in the export, with two subdirectories: [`TREE_DIRECTORY`], which represents the root of
//! the captured server, and [`NAMELESS_DIRECTORY`], for objects whose names were not captured. Everything is created
//! through NFS. The export itself gets no other new name than the run's directory.
//!
//! - [`owners`]: gives the objects to their captured owners; [`removal`]: removes the directory;
//! - [`file_server_client`]: the file operations of a server; [`v3`], [`v4`]: their implementations.

pub mod file_server_client;
mod owners;
pub mod removal;
pub mod v3;
pub mod v4;

use std::fmt;
use std::io::{Read, Seek};

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_rpc::synchronous_client::RpcCallError;
use rustc_hash::{FxHashMap, FxHashSet};

use super::trace::error::TraceError;
use super::trace::file_format::{TraceFileSystemObject, TraceFileType, TraceObjectOrigin};
use super::trace::generated_file_data;
use super::trace::reader::ReplayTraceReader;
use super::trace::step::{NONE, PayloadContentState};
use super::tree::inferred_object::{ROOT, name_hash};
use file_server_client::{
    FileServerClientError, FileServerClientResult, FileSystemCapabilities, FileUserAndGroup, IoLimits, LiveFilehandle,
    MAX_LISTED_NAMES, NewObjectKind, VersionIndependentNfsClient,
};
use owners::{set_owners, shorten};

/// Directory that represents the root of the captured server, in the directory of the run.
pub const TREE_DIRECTORY: &str = "tree";
/// Directory of the objects whose names were not captured.
pub const NAMELESS_DIRECTORY: &str = "nameless";
/// Maximum number of bytes of a WRITE.
const PIECE: usize = 256 << 10;
/// Maximum number of refused names and sizes that are reported.
const MAX_REPORTED_REFUSALS: usize = 20;
/// Maximum nesting depth of directories; deeper ones are left out.
const DEPTH: usize = 256;
/// Maximum length of the text of a symbolic link whose text was not captured: PATH_MAX of Linux without the final NUL.
const MAX_LINK_TEXT_BYTES: u64 = 4095;
/// Maximum number of names that are remembered of the directories of a tree. A listing that ends at its own limit is
/// longer, so that it is never taken for a complete one.
const MAX_INITIAL_NAMES: usize = 1 << 19;
const _: () = assert!(MAX_INITIAL_NAMES < MAX_LISTED_NAMES - 2);

/// The reason that there is no tree.
#[derive(Debug)]
pub enum SeedError {
    /// The name of the directory is invalid.
    Name(String),
    /// The directory exists and is not empty.
    NotEmpty(String),
    /// The directory does not exist, but should.
    Missing(String),
    /// The server refused an operation, or did not answer: object and error.
    Server(String, FileServerClientError),
    /// The trace cannot be read.
    Trace(TraceError),
}

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?} is not a directory name; give one without '/'"),
            Self::NotEmpty(name) => {
                write!(f, "{name}: directory not empty; name another directory, or use --allow-non-empty")
            }
            Self::Missing(name) => {
                write!(f, "{name}: missing in the directory of the run; create its tree with `replay seed`")
            }
            Self::Server(object, problem) => write!(f, "{object}: {problem}"),
            Self::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SeedError {}

impl From<TraceError> for SeedError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// The location of a run on the server.
#[derive(Clone, Debug)]
pub struct ServerRunDirectory<'a> {
    /// Path of the export in the URL.
    pub export: &'a str,
    /// Name of the run's directory in the export.
    pub directory: &'a str,
}

impl ServerRunDirectory<'_> {
    fn check(&self) -> Result<(), SeedError> {
        let name = self.directory;
        let is_name =
            !name.is_empty() && name.len() <= 200 && !matches!(name, "." | "..") && !name.contains(['/', '\0']);
        if is_name { Ok(()) } else { Err(SeedError::Name(name.to_owned())) }
    }
}

/// The names in a directory, as hashes.
#[derive(Clone, Debug, Default)]
pub struct DirectoryNameHashes(FxHashSet<u64>);

impl DirectoryNameHashes {
    /// Returns `true` if the directory has the name, or one with the same hash.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.0.contains(&name_hash(name))
    }
}

/// Names in directories, by the live filehandle of each.
pub type NamesByDirectory = FxHashMap<LiveFilehandle, DirectoryNameHashes>;

/// The live tree that represents the captured server's files.
#[derive(Clone, Debug, Default)]
pub struct SeededTree {
    /// Server path of the directory that represents the root.
    pub path: String,
    /// Filehandle of the directory that represents the root.
    pub root: LiveFilehandle,
    /// Live filehandles, by the variable whose initial value they are.
    pub handles: FxHashMap<u32, LiveFilehandle>,
    /// The variables of objects below the root, whose parents are in the run's directory, too.
    pub handles_below_root: FxHashSet<u32>,
    /// The variables of objects whose names were not captured, in [`NAMELESS_DIRECTORY`].
    pub nameless_handles: FxHashSet<u32>,
    /// Variables of objects that the server refused, e.g. for too long a name or too large a size.
    pub refused_handles: FxHashSet<u32>,
    /// Variables of the parent directories of these objects.
    pub parents_of_refused: FxHashSet<u32>,
    /// The first refused names and sizes, with the status, for display.
    pub refusals: Vec<String>,
    /// Variables of the filehandles of directories, including those that the run creates.
    pub directories: FxHashSet<u32>,
    /// Words of the `supported_attrs` bitmap of the file system; `None` in NFSv3.
    pub supported: Option<Vec<u32>>,
    /// Minor version of NFSv4 with which the tree was made or found; `None` in NFSv3.
    pub minor_version: Option<u32>,
    /// Maximum sizes of a READ and a WRITE in the file system.
    pub io: IoLimits,
    /// Lease time of the server in seconds, if it was made with NFSv4.
    pub lease_seconds: Option<u32>,
    /// Paths below the root that represent the captured mounts, none below another. No NFSv3 step can change them or
    /// their parents. Empty in NFSv4.
    pub mounts: Vec<Vec<u8>>,
    /// Owner of the objects that root creates, if the export squashes root.
    pub squashed_owner: Option<FileUserAndGroup>,
    /// Names that each directory of the tree has before the first step, by its live filehandle. Empty without
    /// [`record_initial_names`](Self::record_initial_names).
    pub initial_names: NamesByDirectory,
    /// Directories that were made without an entry: variable of the directory above, and hash of the name.
    pub empty_directories: FxHashSet<(u32, u64)>,
    /// File IDs of the objects without a captured name, except directories: each has one more link than in the capture,
    /// in [`NAMELESS_DIRECTORY`].
    pub nameless_fileids: FxHashSet<u128>,
    /// File IDs of the objects that have fewer links than in the capture, because there are too many to be made.
    pub unlinked_fileids: FxHashSet<u128>,
    /// Counts of the created objects.
    pub counts: SeedCounts,
}

impl SeededTree {
    /// Lists the directories of the tree, as far as [`MAX_INITIAL_NAMES`] allows: the final check needs to know what
    /// was there before the first step.
    ///
    /// # Errors
    /// Returns an error if the server does not answer, or says that this program broke the protocol. A directory that it
    /// refuses to list is left out and reported.
    pub fn record_initial_names(&mut self, files: &mut dyn VersionIndependentNfsClient) -> FileServerClientResult<()> {
        let mut variables: Vec<u32> = self.directories.iter().copied().collect();
        variables.sort_unstable();
        let directories = variables.iter().filter_map(|variable| self.handles.get(variable));
        let directories = [&self.root].into_iter().chain(directories);
        self.initial_names = list_directories(files, directories, MAX_INITIAL_NAMES, &mut self.refusals)?;
        Ok(())
    }
}

/// Returns the names in directories that the server lists completely. Stops at a directory with which there are more
/// than `max_names` names.
fn list_directories<'d>(
    files: &mut dyn VersionIndependentNfsClient,
    directories: impl Iterator<Item = &'d LiveFilehandle>,
    max_names: usize,
    refusals: &mut Vec<String>,
) -> FileServerClientResult<NamesByDirectory> {
    let (mut names_by_directory, mut count) = (NamesByDirectory::default(), 0);
    for directory in directories {
        if names_by_directory.contains_key(directory) {
            continue;
        }
        let mut names = DirectoryNameHashes::default();
        let mut add = |name: &[u8]| {
            count += 1;
            if count <= max_names {
                names.0.insert(name_hash(name));
            }
        };
        match files.list_names(directory, &mut add) {
            Ok(()) if count <= max_names => drop(names_by_directory.insert(directory.clone(), names)),
            Ok(()) => break,
            Err(problem) if problem.blame().is_some() || problem.is_server_failure() => return Err(problem),
            Err(FileServerClientError::Refused(operation, reason)) => {
                if refusals.len() < MAX_REPORTED_REFUSALS {
                    refusals.push(format!("names of a directory before the first step: {operation}: {reason}"));
                }
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(names_by_directory)
}

/// Counts of the created or found objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeedCounts {
    /// Number of created objects.
    pub objects: u64,
    /// Number of additional hard links.
    pub links: u64,
    /// Number of bytes of content.
    pub bytes: u64,
    /// Number of bytes of unknown content, which is replaced by zeros.
    pub unknown_bytes: u64,
    /// Number of objects that were not created: devices, refused ones, and those that are nested too deeply.
    pub left_out: u64,
}

struct SeedObject {
    kind: TraceFileType,
    is_root: bool,
    names: Vec<(u32, Box<[u8]>)>,
    handles: Vec<u32>,
    size: u64,
    mode: Option<u32>,
    /// Owner and group as the captured server wrote them; empty if unknown.
    owners: [Box<[u8]>; 2],
    target: Box<[u8]>,
    is_parent: bool,
    live_handle: Option<LiveFilehandle>,
    /// `true` if the server refused the name or size of the object, or of a directory above it.
    is_refused: bool,
    /// `true` if the object is below the root of the tree, and not the root itself.
    is_below_root: bool,
}

/// The way in which the tree is created or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedMode {
    /// Create the tree, in a directory that must not exist or must be empty.
    Make,
    /// Create the missing parts of the tree, in a directory that may exist.
    Complete,
    /// Find the tree, which was seeded before.
    Find,
}

/// Creates or finds the tree of a trace. Calls `begin` with the directory of the run before anything is created in it.
///
/// # Errors
/// Returns an error if the directory is unusable, the server or `begin` refuses, or the trace is damaged. Created
/// objects remain.
pub fn seed(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
    files: &mut dyn VersionIndependentNfsClient,
    location: &ServerRunDirectory<'_>,
    mode: SeedMode,
    begin: impl FnOnce(&mut dyn VersionIndependentNfsClient, &[u8]) -> FileServerClientResult<()>,
) -> Result<SeededTree, SeedError> {
    location.check()?;
    let server_error = |object: String| move |problem| SeedError::Server(object, problem);
    let export = files.export(location.export).map_err(server_error(location.export.to_owned()))?;
    let name = location.directory;
    let existing = files.lookup(&export, name.as_bytes()).map_err(server_error(name.to_owned()))?;
    let run = match (existing, mode) {
        (None, SeedMode::Find) => return Err(SeedError::Missing(name.to_owned())),
        (Some(run), SeedMode::Make) if !files.is_empty(&run).map_err(server_error(name.to_owned()))? => {
            return Err(SeedError::NotEmpty(name.to_owned()));
        }
        (Some(run), _) => run,
        (None, _) => {
            match files.make(&export, name.as_bytes(), NewObjectKind::Directory, 0o755) {
                // The Call was resent after it had succeeded, or somebody else was faster.
                Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => {
                    let existing = files.lookup(&export, name.as_bytes()).map_err(server_error(name.to_owned()))?;
                    let run = existing.ok_or_else(|| server_error(name.to_owned())(error))?;
                    if !files.is_empty(&run).map_err(server_error(name.to_owned()))? {
                        return Err(SeedError::NotEmpty(name.to_owned()));
                    }
                    run
                }
                result => result.map_err(server_error(name.to_owned()))?,
            }
        }
    };
    if mode != SeedMode::Find {
        begin(files, &run).map_err(server_error(name.to_owned()))?;
    }
    let mut seeder = TreeSeeder {
        files,
        refusals: Vec::new(),
        mode,
        counts: SeedCounts::default(),
        mounts: Vec::new(),
        nameless_fileids: FxHashSet::default(),
        unlinked_fileids: FxHashSet::default(),
        root: LiveFilehandle::new(),
        nameless: LiveFilehandle::new(),
    };
    let root = seeder.find_or_make_directory(&run, TREE_DIRECTORY.as_bytes())?;
    let nameless = seeder.find_or_make_directory(&run, NAMELESS_DIRECTORY.as_bytes())?;
    (seeder.root, seeder.nameless) = (root.clone(), nameless.clone());

    // Root made this directory, which no object of the trace represents: another owner shows that the export squashes
    // root.
    let owner = seeder.files.status(&nameless).map_err(server_error(NAMELESS_DIRECTORY.into()))?.owner;
    let squashed_owner = owner.filter(|owner| !owner.is_root());

    let capabilities = seeder.files.capabilities(&root).map_err(server_error(field_labels::SUPPORTED_ATTRS.into()))?;
    seeder.files.limit_io(capabilities.io);
    let (mut objects, directories) = load_objects(trace)?;
    let mut numbers: Vec<u32> = objects.keys().copied().collect();
    numbers.sort_unstable();
    for number in &numbers {
        seeder.object(&mut objects, *number, 0)?;
    }
    if mode != SeedMode::Find {
        write_contents(trace, &mut seeder, &mut objects)?;
        // A change of the owner may clear bits of the mode, so it comes before.
        let live_objects = numbers.iter().filter_map(|number| {
            let object = objects.get(number)?;
            Some((object.live_handle.as_deref()?, &object.owners))
        });
        let unset = set_owners(seeder.files, live_objects, squashed_owner.is_some());
        seeder.refusals.extend(unset.map_err(server_error(field_labels::OWNER.into()))?);
        // Modes come last: read-only files and directories could not be filled.
        for number in &numbers {
            let Some(SeedObject { live_handle: Some(live), mode: Some(mode), kind, .. }) = objects.get(number) else {
                continue;
            };
            if *kind != TraceFileType::LINK {
                seeder
                    .files
                    .set_attributes(live, Some(*mode), None)
                    .map_err(server_error(field_labels::MODE.into()))?;
            }
        }
    }
    let FileSystemCapabilities { supported, io, lease_seconds } = capabilities;
    let mut tree = SeededTree {
        path: format!("{}/{name}/{TREE_DIRECTORY}", location.export.trim_end_matches('/')),
        root,
        refusals: seeder.refusals,
        directories,
        // In NFSv4 a step can change the contents of the root.
        mounts: if supported.is_none() { topmost_paths(&seeder.mounts) } else { Vec::new() },
        supported,
        minor_version: seeder.files.minor_version(),
        io,
        lease_seconds,
        squashed_owner,
        nameless_fileids: seeder.nameless_fileids,
        unlinked_fileids: seeder.unlinked_fileids,
        counts: seeder.counts,
        ..SeededTree::default()
    };
    for object in objects.values().filter(|object| object.is_refused) {
        tree.refused_handles.extend(object.handles.iter().copied());
        let parents = object.names.iter().filter_map(|(parent, _)| objects.get(parent));
        tree.parents_of_refused.extend(parents.flat_map(|parent| parent.handles.iter().copied()));
    }
    for object in objects.values().filter(|object| object.kind == TraceFileType::DIRECTORY && !object.is_parent) {
        for (parent, name) in object.names.iter().filter_map(|(parent, name)| Some((objects.get(parent)?, name))) {
            let root = parent.is_root.then_some(ROOT);
            let above = parent.handles.iter().copied().chain(root);
            tree.empty_directories.extend(above.map(|variable| (variable, name_hash(name))));
        }
    }
    for object in objects.into_values() {
        let Some(live) = object.live_handle else { continue };
        if object.names.iter().all(|(parent, _)| *parent == NONE) && !object.is_root {
            tree.nameless_handles.extend(object.handles.iter().copied());
        }
        if object.is_below_root {
            tree.handles_below_root.extend(object.handles.iter().copied());
        }
        tree.handles.extend(object.handles.into_iter().map(|variable| (variable, live.clone())));
    }
    Ok(tree)
}

/// Loads the objects that exist before the first step, and the filehandle variables of all directories.
fn load_objects(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
) -> Result<(FxHashMap<u32, SeedObject>, FxHashSet<u32>), SeedError> {
    let (mut objects, mut directories) = (FxHashMap::default(), FxHashSet::default());
    trace.for_each_object(|object| {
        if object.file_type == TraceFileType::DIRECTORY || object.existence == TraceObjectOrigin::ROOT {
            directories.extend(object.handles.iter());
        }
        if object.existence == TraceObjectOrigin::CREATED {
            return;
        }
        let names = object.names.iter().filter(|name| name.step == 0);
        objects.insert(
            object.number,
            SeedObject {
                kind: object.file_type,
                is_root: object.existence == TraceObjectOrigin::ROOT,
                names: names.map(|name| (name.parent, name.name.0.into())).collect(),
                handles: object.handles.iter().collect(),
                size: object.size,
                mode: (object.mode != NONE).then_some(object.mode & 0o7777),
                owners: [object.owner.0.into(), object.group.0.into()],
                target: link_text(object),
                is_parent: false,
                live_handle: None,
                is_refused: false,
                is_below_root: false,
            },
        );
    })?;
    let parents: FxHashSet<u32> =
        objects.values().flat_map(|object: &SeedObject| object.names.iter().map(|(parent, _)| *parent)).collect();
    for parent in parents {
        if let Some(object) = objects.get_mut(&parent) {
            object.is_parent = true;
        }
    }
    Ok((objects, directories))
}

/// Returns the text of a symbolic link; if it was not captured, a text of the captured size. Empty for other objects.
fn link_text(object: &TraceFileSystemObject<'_>) -> Box<[u8]> {
    match object.target.0 {
        [] if object.file_type == TraceFileType::LINK => {
            let length = object.size.clamp(1, MAX_LINK_TEXT_BYTES);
            vec![b'x'; length as usize].into()
        }
        text => text.into(),
    }
}

struct TreeSeeder<'f> {
    files: &'f mut dyn VersionIndependentNfsClient,
    /// Names and sizes that the server refused, for display.
    refusals: Vec<String>,
    mode: SeedMode,
    counts: SeedCounts,
    mounts: Vec<Vec<u8>>,
    nameless_fileids: FxHashSet<u128>,
    unlinked_fileids: FxHashSet<u128>,
    /// The directories that represent the root of the captured server, and that of objects without a captured name.
    root: LiveFilehandle,
    nameless: LiveFilehandle,
}

impl TreeSeeder<'_> {
    fn find_or_make_directory(&mut self, parent: &[u8], name: &[u8]) -> Result<LiveFilehandle, SeedError> {
        let directory = self.find_or_make(parent, name, NewObjectKind::Directory, 0o755)?;
        // A server resolves a symbolic link in a path that is mounted, which may lead out of the run's directory.
        let server_error = |problem| SeedError::Server(String::from_utf8_lossy(name).into_owned(), problem);
        if self.files.status(&directory).map_err(server_error)?.file_type != TraceFileType::DIRECTORY {
            return Err(server_error(FileServerClientError::unusable(enumerator_names::LOOKUP, "not a directory")));
        }
        Ok(directory)
    }

    /// Finds or creates an object.
    fn find_or_make(
        &mut self,
        parent: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> Result<LiveFilehandle, SeedError> {
        let display_name = || String::from_utf8_lossy(name).into_owned();
        let server_error = |problem| SeedError::Server(display_name(), problem);
        // Even in an empty directory the object may exist, as the trace may name it twice.
        if let Some(existing) = self.files.lookup(parent, name).map_err(server_error)? {
            return Ok(existing);
        }
        if self.mode == SeedMode::Find {
            return Err(SeedError::Missing(display_name()));
        }
        let live = match self.files.make(parent, name, kind, mode) {
            // The Call was resent after connection loss, but the server had executed it.
            Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => {
                self.files.lookup(parent, name).map_err(server_error)?.ok_or_else(|| server_error(error))?
            }
            result => result.map_err(server_error)?,
        };
        self.counts.objects += 1;
        Ok(live)
    }

    /// Finds or creates an object. Returns `None` if the server refuses its name or kind.
    fn find_or_make_unless_refused(
        &mut self,
        parent: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> Result<Option<LiveFilehandle>, SeedError> {
        match self.find_or_make(parent, name, kind, mode) {
            Err(SeedError::Server(object, FileServerClientError::Refused(operation, reason)))
                if reason.rejects_object(&operation) =>
            {
                self.refuse(format!("{}: {operation}: {reason}", shorten(&object)));
                Ok(None)
            }
            // The containment check accepts no such name.
            Err(SeedError::Server(object, FileServerClientError::Call(RpcCallError::Filtered(reason)))) => {
                self.refuse(format!("{}: {reason}", shorten(&object)));
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Records a name or size that the server refused. Affects the steps that need the object.
    fn refuse(&mut self, description: String) {
        self.counts.left_out += 1;
        if self.refusals.len() < MAX_REPORTED_REFUSALS {
            self.refusals.push(description);
        }
    }

    /// Creates an object after the directories above it. Returns its filehandle.
    fn object(
        &mut self,
        objects: &mut FxHashMap<u32, SeedObject>,
        number: u32,
        depth: usize,
    ) -> Result<Option<LiveFilehandle>, SeedError> {
        let Some(object) = objects.get(&number) else { return Ok(None) };
        if let Some(live) = &object.live_handle {
            return Ok(Some(live.clone()));
        }
        if object.is_refused {
            return Ok(None);
        }
        if depth > DEPTH {
            self.counts.left_out += 1;
            return Ok(None);
        }
        let (names, target) = (object.names.clone(), object.target.clone());
        let (kind, is_root, is_parent) = (object.kind, object.is_root, object.is_parent);
        if is_root {
            let mut live = self.root.clone();
            let path = names.first().map(|(_, path)| path.clone()).unwrap_or_default();
            for name in path.split(|byte| *byte == b'/').filter(|name| is_plain(name)) {
                live = self.find_or_make_directory(&live, name)?;
            }
            self.mounts.push(plain_path(&path));
            if let Some(object) = objects.get_mut(&number) {
                object.live_handle = Some(live.clone());
            }
            return Ok(Some(live));
        }
        let kind = match kind {
            TraceFileType::DIRECTORY => NewObjectKind::Directory,
            TraceFileType::LINK => NewObjectKind::Link(&target),
            TraceFileType::FIFO => NewObjectKind::Fifo,
            TraceFileType::SOCKET => NewObjectKind::Socket,
            TraceFileType::BLOCK | TraceFileType::CHARACTER => {
                self.counts.left_out += 1;
                return Ok(None);
            }
            _ if is_parent => NewObjectKind::Directory,
            _ => NewObjectKind::File,
        };
        let mode = if kind == NewObjectKind::Directory { 0o755 } else { 0o644 };
        let (mut live, mut is_below): (Option<LiveFilehandle>, bool) = (None, false);
        let (mut is_refused, mut is_counted) = (false, false);
        let is_named = names.iter().any(|(parent, _)| *parent != NONE);
        for (parent, name) in names.iter().filter(|(_, name)| is_plain(name)) {
            let (parent, parent_object) = match *parent {
                // A further link, not a place for an object whose name is refused.
                NONE if live.is_none() && is_named => continue,
                NONE => (Some(self.nameless.clone()), None),
                number => {
                    let live = self.object(objects, number, depth + 1)?;
                    is_refused |= objects.get(&number).is_some_and(|object| object.is_refused);
                    (live, objects.get(&number))
                }
            };
            let Some(parent) = parent else { continue };
            match &live {
                None => {
                    is_below = parent_object.is_some_and(|object| object.is_root || object.is_below_root);
                    live = self.find_or_make_unless_refused(&parent, name, kind, mode)?;
                    is_refused |= live.is_none();
                    is_counted |= live.is_none();
                }
                Some(live) if self.mode != SeedMode::Find => {
                    let server_error = |problem| SeedError::Server(String::from_utf8_lossy(name).into_owned(), problem);
                    let existing = match self.files.lookup(&parent, name) {
                        // The containment check accepts no such name.
                        Err(FileServerClientError::Call(RpcCallError::Filtered(reason))) => {
                            self.refuse(format!("{}: {reason}", shorten(&String::from_utf8_lossy(name))));
                            continue;
                        }
                        result => result.map_err(server_error)?,
                    };
                    if existing.is_none() {
                        match self.files.link(live, &parent, name) {
                            Err(FileServerClientError::Refused(operation, reason))
                                if reason.rejects_object(&operation) =>
                            {
                                let name = shorten(&String::from_utf8_lossy(name));
                                self.refuse(format!("{name}: {operation}: {reason}"));
                            }
                            Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => {}
                            linked => {
                                linked.map_err(server_error)?;
                                self.counts.links += 1;
                            }
                        }
                    }
                }
                Some(_) => {}
            }
        }
        let live = match live {
            Some(live) => live,
            None if is_refused => {
                // Below a refused directory.
                self.counts.left_out += u64::from(!is_counted);
                if let Some(object) = objects.get_mut(&number) {
                    object.is_refused = true;
                }
                return Ok(None);
            }
            None => {
                let nameless = self.nameless.clone();
                let live = self.find_or_make(&nameless, number.to_string().as_bytes(), kind, mode)?;
                if kind != NewObjectKind::Directory {
                    let status = self.files.status(&live);
                    let status = status.map_err(|problem| SeedError::Server(NAMELESS_DIRECTORY.into(), problem))?;
                    self.nameless_fileids.extend(status.version.fileid);
                }
                live
            }
        };
        if names.iter().any(|(parent, name)| *parent == NONE && name.is_empty()) {
            let status = self.files.status(&live);
            let status = status.map_err(|problem| SeedError::Server(NAMELESS_DIRECTORY.into(), problem))?;
            self.unlinked_fileids.extend(status.version.fileid);
        }
        if let Some(object) = objects.get_mut(&number) {
            (object.live_handle, object.is_below_root) = (Some(live.clone()), is_below);
        }
        Ok(Some(live))
    }
}

/// Returns a path with only its plain names: `/srv/nfs`; empty for the root.
pub fn plain_path(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/').filter(|name| is_plain(name));
    names.flat_map(|name| [b"/", name].concat()).collect()
}

/// Returns the paths that are below no other.
fn topmost_paths(paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let is_above =
        |ancestor: &[u8], path: &[u8]| path.strip_prefix(ancestor).is_some_and(|rest| rest.first() == Some(&b'/'));
    paths.iter().filter(|path| !paths.iter().any(|other| is_above(other, path))).cloned().collect()
}

/// Returns `true` if a name stays in its directory.
fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

fn write_contents(
    trace: &mut ReplayTraceReader<impl Read + Seek>,
    seeder: &mut TreeSeeder<'_>,
    objects: &mut FxHashMap<u32, SeedObject>,
) -> Result<(), SeedError> {
    let server_error = |problem| SeedError::Server("content".into(), problem);
    let mut too_large = Vec::new();
    for object in objects.values_mut() {
        let is_file = matches!(object.kind, TraceFileType::FILE | TraceFileType::UNKNOWN) && !object.is_parent;
        if let (Some(live), true) = (&object.live_handle, is_file && object.size > 0 && !object.is_root) {
            match seeder.files.set_attributes(live, None, Some(object.size)) {
                Err(FileServerClientError::Refused(operation, reason)) if reason.rejects_object(&operation) => {
                    let name = object.names.first().map(|(_, name)| shorten(&String::from_utf8_lossy(name)));
                    let name = name.unwrap_or_default();
                    seeder.refuse(format!("{name}, {} bytes: {operation}: {reason}", object.size));
                    (object.live_handle, object.is_refused) = (None, true);
                    too_large.extend(object.names.iter().cloned());
                }
                result => result.map_err(server_error)?,
            }
        }
    }
    // A file of another size is not the one that steps expect.
    for (parent, name) in too_large.iter().filter(|(_, name)| is_plain(name)) {
        let directory = match *parent {
            NONE => Some(&seeder.nameless),
            number => objects.get(&number).and_then(|object| object.live_handle.as_ref()),
        };
        if let Some(directory) = directory {
            seeder.files.remove(directory, name, false).map_err(server_error)?;
        }
    }
    let key = trace.summary().key;
    let mut extents = Vec::new();
    trace.for_each_extent(|extent| extents.push(extent.clone()))?;
    let mut data = Vec::new();
    for extent in extents {
        let Some(object) = objects.get(&extent.object) else { continue };
        let Some(live) = &object.live_handle else { continue };
        if !trace.extent(&extent, &mut data)? {
            data.clear();
            data.resize(extent.length as usize, 0);
            match (extent.content, object.handles.first()) {
                (PayloadContentState::KEYED, Some(file)) => {
                    generated_file_data::fill(key, *file, extent.offset, &mut data)
                }
                _ => seeder.counts.unknown_bytes += u64::from(extent.length),
            }
        }
        for (index, piece) in data.chunks(PIECE).enumerate() {
            let offset = extent.offset + (index * PIECE) as u64;
            seeder.files.write(live, offset, piece).map_err(server_error)?;
        }
        seeder.counts.bytes += data.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
