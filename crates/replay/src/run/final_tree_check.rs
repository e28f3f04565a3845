//! Tree check: compares the files on the server after a run with those that the steps
//! [must have left](super::expected_final_tree). At the end the directories are listed, and type, size, mode, link text
//! and known content of the objects are read, through NFS as in seeding.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind, DifferenceSideValue};
use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::synchronous_client::RpcCallError;
use nfsrdma_rpc::{ConnectTarget, ReconnectionAttempts, TransportErrorResponsibility};
use rustc_hash::{FxHashMap, FxHashSet};

use super::expected_final_tree::{ExpectedFinalTree, MAX_PATH_NAMES};
use super::live_values::LiveVariableValues;
use super::missing_calls::MissingCalls;
use super::reply_check::attribute_relations::FinalAttributeDifference;
use super::reply_check::{FinalAttributeDifferences, ReplyChecker};
use super::report::steps::{StepIdWithFrames, StepMismatch};
use crate::containment::{Containment, ContainmentCheckedTransport};
use crate::seed::SeededTree;
use crate::seed::file_server_client::{
    FileServerClientError, LiveFilehandle, LiveObjectAttributes, NfsOperationFailure, VersionIndependentNfsClient,
};
use crate::seed::v3::Nfs3Client;
use crate::seed::v4::Nfs4Client;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::reader::ReplayTraceReader;
use crate::tree::inferred_object::{InferredObject, InferredObjectId, ROOT};
use crate::tree::inferred_tree::InferredTree;
use crate::tree::latest_file_state::{CurrentNameBinding, ExtentContent, LatestInferredFileState};

/// Maximum number of bytes of one READ.
const READ_BYTES: u64 = 256 << 10;
/// Maximum number of payloads that are kept while a file is compared.
const MAX_CACHED_PAYLOADS: usize = 16;
/// Shown instead of the path of an object whose name was not captured.
const NAMELESS_OBJECT: &str = "object without a captured name";
/// Maximum number of paths of unchecked objects that are shown.
pub(super) const MAX_LEFT_OUT_PATHS: usize = 10;
/// Result of the tree check.
#[derive(Clone, Debug, Default)]
pub struct FinalTreeCheckReport {
    /// Number of names looked up, or found although they must not exist.
    pub names: u64,
    /// Number of objects checked.
    pub objects: u64,
    /// Number of bytes of content read.
    pub bytes: u64,
    /// Number of bytes that the run has written, copied or cleared and whose content is known: those to be read. With
    /// those of steps that were not sent because the server does not accept their file.
    pub written_bytes: u64,
    /// Number of names and objects that could not be checked: they or their directory are uncertain or unknown, or the
    /// server does not accept them.
    pub left_out: u64,
    /// Number of those that are uncertain only because of calls in flight when the capture ended.
    pub in_flight: u64,
    /// Paths of the first of these, as far as they are known.
    pub left_out_paths: Vec<String>,
    /// Number of attributes that differ from the last values in Replies as a rule tolerates, and of names that the
    /// server adds.
    pub tolerated: u64,
    /// Number of differences; an object may have several.
    pub differing: u64,
    /// First differences, those of relations to earlier values last.
    pub mismatches: Vec<StepMismatch>,
    /// Reason why the check was not completed.
    pub failed: Option<String>,
    /// The party at fault for that.
    pub blame: Option<TransportErrorResponsibility>,
}

impl FinalTreeCheckReport {
    /// Returns the number of names and objects that were not checked, without those of calls in flight when the capture
    /// ended: no run can check these. If they are more than what was checked, they count.
    pub(super) fn unverified(&self) -> u64 {
        let is_proof = self.in_flight <= self.names + self.objects;
        self.left_out.saturating_sub(if is_proof { self.in_flight } else { 0 })
    }

    /// Returns the checked fraction (0 to 1) of names and objects or of bytes, whichever is lower; 1 if there was
    /// nothing to check.
    pub fn coverage(&self) -> f64 {
        let fraction = |checked: u64, total: u64| {
            if total == 0 { 1.0 } else { checked.min(total) as f64 / total as f64 }
        };
        let compared = self.names + self.objects;
        fraction(compared, compared + self.unverified()).min(fraction(self.bytes, self.written_bytes))
    }
}

impl ExpectedFinalTree {
    pub(super) fn check<R: Read + Seek>(
        &self,
        (transport, containment): (&mut ContainmentCheckedTransport<'_>, &mut Containment),
        target: &ConnectTarget,
        tag: &str,
        live: &FinalTreeCheckLiveIdentifiers<'_>,
        contents: &mut ReplayTraceReader<R>,
    ) -> FinalTreeCheckReport {
        let (left_out, left_out_paths, written_bytes) = self.unseeded(MAX_LEFT_OUT_PATHS);
        let mut report =
            FinalTreeCheckReport { left_out, left_out_paths, written_bytes, ..FinalTreeCheckReport::default() };
        // The server may restart between the run and its check.
        let mut attempts = ReconnectionAttempts::new(Instant::now(), target.options.timeout);
        let connection = match attempts.connect_blocking(target, |target| transport.connect(target)) {
            Ok(connection) => connection,
            Err(error) => return FinalTreeCheckReport { failed: Some(error.to_string()), ..report },
        };
        let xid = Xid(hash(format!("{tag} walk").as_bytes()) as u32);
        let rpc_client = transport.rpc_client(connection, xid, containment, target, Instant::now() + live.max_duration);
        let mut files: Box<dyn VersionIndependentNfsClient + '_> = match &live.seeded.supported {
            None => Box::new(Nfs3Client::new(rpc_client, live.seeded.root.clone())),
            Some(_) => {
                let name = format!("{} {tag} walk", crate::PROGRAM);
                let minors = live.seeded.minor_version.map_or_else(|| vec![2, 1, 0], |minor| vec![minor]);
                match Nfs4Client::new(rpc_client, &name, &minors) {
                    Ok(files) => Box::new(files),
                    Err(problem) => {
                        let (failed, blame) = (Some(problem.to_string()), problem.blame());
                        return FinalTreeCheckReport { failed, blame, ..report };
                    }
                }
            }
        };
        files.limit_io(live.seeded.io);
        let mut checker = FinalTreeChecker {
            tree: &self.tree,
            live,
            files: &mut *files,
            report: &mut report,
            contents,
            first_names: FxHashMap::default(),
            fileids: FxHashMap::default(),
            in_flight: FxHashSet::default(),
        };
        if let Err(problem) = checker.check_names() {
            report.blame = problem.blame();
            report.failed = Some(match &problem {
                FileServerClientError::Call(error @ RpcCallError::DeadlineExceeded) => {
                    format!("{error} (--max-time)")
                }
                problem => problem.to_string(),
            });
        }
        files.close();
        drop(files);
        report.mismatches.sort_by_key(is_relation);
        report
    }
}

/// Returns `true` for a name that a server gives a file that is removed while it is open: an NFS client, or FUSE, whose
/// file system the server exports.
fn is_server_silly_rename(name: &[u8]) -> bool {
    let is_hexadecimal = |rest: &[u8]| rest.len() >= 8 && rest.iter().all(u8::is_ascii_hexdigit);
    [&b".nfs"[..], b".fuse_hidden"].iter().any(|prefix| name.strip_prefix(*prefix).is_some_and(is_hexadecimal))
}

/// Returns `true` for a name of the server, such as `.snapshot`: each directory had it before the run.
fn is_server_name(seeded: &SeededTree, name: &[u8]) -> bool {
    let mut listings = seeded.initial_names.values().peekable();
    name.starts_with(b".") && listings.peek().is_some() && listings.all(|listing| listing.contains(name))
}

/// Returns `true` if a mismatch violates a relation to earlier values.
pub(super) fn is_relation(mismatch: &StepMismatch) -> bool {
    mismatch.differences.iter().all(|difference| difference.kind == DifferenceKind::Relation)
}

pub(super) struct FinalTreeCheckLiveIdentifiers<'a> {
    pub(super) seeded: &'a SeededTree,
    pub(super) values: &'a LiveVariableValues,
    /// Last values in Replies.
    pub(super) checker: &'a ReplyChecker,
    /// Calls that the capture lacks, which may explain differences.
    pub(super) missing_calls: Option<&'a MissingCalls>,
    /// `true` if the run signed its Calls: Linux returns owners by name then, and by number with AUTH_SYS.
    pub(super) signs_calls: bool,
    pub(super) max_duration: Duration,
    /// Maximum number of mismatches kept for display.
    pub(super) max_shown_mismatches: usize,
}

/// Filehandle and attributes of an object on the server.
type FoundObject = Result<(LiveFilehandle, LiveObjectAttributes), FileServerClientError>;

/// An object, with the path by which it was found.
#[derive(Clone, Copy)]
struct ObjectAtPath<'p> {
    id: InferredObjectId,
    path: &'p str,
}

struct FinalTreeChecker<'a, R> {
    tree: &'a InferredTree,
    live: &'a FinalTreeCheckLiveIdentifiers<'a>,
    files: &'a mut dyn VersionIndependentNfsClient,
    report: &'a mut FinalTreeCheckReport,
    contents: &'a mut ReplayTraceReader<R>,
    first_names: FxHashMap<InferredObjectId, CurrentNameBinding<'a>>,
    /// Fileid of each checked object, if the server returned it.
    fileids: FxHashMap<InferredObjectId, Option<u128>>,
    /// Objects that calls in flight when the capture ended make uncertain.
    in_flight: FxHashSet<InferredObjectId>,
}

impl<'a, R: Read + Seek> FinalTreeChecker<'a, R> {
    fn directory_handle(&self, id: InferredObjectId) -> Option<LiveFilehandle> {
        let node = self.tree.nodes().get(id.0 as usize)?;
        let handle = node.handles.iter().rev().find_map(|variable| self.live.values.get(*variable));
        if let Some(handle) = handle {
            return Some(handle.to_vec());
        }
        let is_root = node.existence == TraceObjectOrigin::ROOT && node.names.iter().any(|name| &*name.name == b"/");
        is_root.then(|| self.live.seeded.root.clone())
    }

    /// Returns the path of a name, as far as known, for display.
    fn path(&self, parent: InferredObjectId, name: &[u8]) -> String {
        let mut names = vec![String::from_utf8_lossy(name).into_owned()];
        let mut at = parent;
        while let Some(binding) = self.first_names.get(&at).filter(|_| names.len() < MAX_PATH_NAMES) {
            names.push(String::from_utf8_lossy(binding.name).into_owned());
            at = binding.parent;
        }
        names.reverse();
        let path = names.join("/");
        // The root has no name.
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// Groups the objects that are directories by the live directory that they denote: an object of each filehandle, of
    /// each captured server and of each mount. Removed ones are left out; one that may have been removed or renamed is
    /// there if its filehandle is.
    fn live_directories(
        &mut self,
        names: &mut FxHashMap<InferredObjectId, Vec<CurrentNameBinding<'_>>>,
    ) -> Result<BTreeMap<LiveFilehandle, Vec<InferredObjectId>>, FileServerClientError> {
        // These were created outside of the captured tree.
        let nameless = &self.live.seeded.nameless_handles;
        let in_uncertain_directories = self.tree.bound_in_uncertain_directories();
        let mut directories: BTreeMap<LiveFilehandle, Vec<InferredObjectId>> = BTreeMap::new();
        for (id, node) in (0..).map(InferredObjectId).zip(self.tree.nodes()) {
            if node.file_type != TraceFileType::DIRECTORY && !names.contains_key(&id) {
                continue;
            }
            let known = names.get(&id).map_or(&[][..], Vec::as_slice);
            let name_count = known.iter().filter(|binding| binding.object.is_some()).count() as u64;
            let had_name = node.existence != TraceObjectOrigin::ROOT && !node.names.is_empty();
            let is_there = node.existence == TraceObjectOrigin::ROOT
                || self.first_names.contains_key(&id)
                || node.handles.iter().any(|handle| nameless.contains(handle));
            let is_removed = !is_there && (had_name || known.is_empty());
            let first_name = self.first_names.get(&id);
            let may_be_removed =
                first_name.is_some_and(|binding| self.tree.is_name_uncertain(binding.parent, binding.name));
            // It was certainly removed, unless its parent is uncertain.
            if is_removed && in_uncertain_directories.contains(&id) {
                self.report.left_out += name_count;
            }
            if is_removed {
                names.remove(&id);
                continue;
            }
            let mut handle = self.directory_handle(id);
            if let Some(live) = handle.as_deref().filter(|_| may_be_removed) {
                match self.files.status(live) {
                    Ok(_) => {}
                    Err(error @ FileServerClientError::Refused(..)) if error.blame().is_none() => handle = None,
                    Err(error) => return Err(error),
                }
            }
            match handle {
                Some(handle) => directories.entry(handle).or_default().push(id),
                None => self.report.left_out += name_count,
            }
        }
        Ok(directories)
    }

    /// Lists the directories and checks their entries.
    fn check_names(&mut self) -> Result<(), FileServerClientError> {
        let tree = self.tree;
        self.report.left_out += tree.uncertain_name_count() + tree.dropped_name_count();
        let nameless = &self.live.seeded.nameless_handles;
        self.report.written_bytes += tree.written_bytes(&|variable| nameless.contains(&variable));
        let mut by_directory: FxHashMap<_, Vec<CurrentNameBinding<'a>>> = FxHashMap::default();
        for binding in tree.current_names() {
            if let Some(object) = binding.object {
                self.first_names.entry(object).or_insert(binding);
            }
            by_directory.entry(binding.parent).or_default().push(binding);
        }
        for (handle, objects) in self.live_directories(&mut by_directory)? {
            let mut names: Vec<_> = objects.iter().filter_map(|id| by_directory.remove(id)).flatten().collect();
            // Names that one object of the directory has and another lacks are uncertain.
            names.sort_by(|a, b| (a.name, a.object.is_none()).cmp(&(b.name, b.object.is_none())));
            let Some(directory) = objects.first().copied() else { continue };
            let path = self.path(directory, b"");
            if objects.iter().any(|id| tree.is_uncertain(*id)) {
                self.leave_out(names.len() as u64, &path);
                continue;
            }
            self.check_directory(&handle, ObjectAtPath { id: directory, path: &path }, &objects, names)?;
        }
        for id in tree.nameless_objects(&|variable| nameless.contains(&variable)) {
            let node = tree.nodes().get(id.0 as usize);
            if node.is_some_and(|node| node.file_type != TraceFileType::DIRECTORY)
                && let Some(handle) = self.directory_handle(id)
            {
                let lookup_result = self.files.status(&handle).map(|status| (handle, status));
                self.check_object(ObjectAtPath { id, path: NAMELESS_OBJECT }, lookup_result)?;
            }
        }
        // What these contain is uncertain, too.
        let unread = self.in_flight.iter().filter(|id| !self.fileids.contains_key(id));
        let unread_bytes: u64 = unread.map(|id| tree.known_bytes(*id)).sum();
        self.report.written_bytes = self.report.written_bytes.saturating_sub(unread_bytes);
        Ok(())
    }

    /// Checks the sorted names in a directory, which `objects` denote, and the objects that they denote.
    fn check_directory(
        &mut self,
        handle: &[u8],
        directory: ObjectAtPath<'_>,
        objects: &[InferredObjectId],
        names: Vec<CurrentNameBinding<'_>>,
    ) -> Result<(), FileServerClientError> {
        let tree = self.tree;
        let node = |id: &InferredObjectId| tree.nodes().get(id.0 as usize);
        let is_root = |id: &&InferredObjectId| node(id).is_some_and(|node| node.existence == TraceObjectOrigin::ROOT);
        if let Some(id) = objects.iter().find(is_root) {
            self.check_root(ObjectAtPath { id: *id, ..directory }, handle)?;
        }
        let mut live_names: FxHashSet<Box<[u8]>> = FxHashSet::default();
        let listing = self.files.list_names(handle, &mut |name| {
            live_names.insert(name.into());
        });
        if self.accept(listing, directory, "names", "present", Some(names.len() as u64))?.is_none() {
            return Ok(());
        }
        for bindings in names.chunk_by(|a, b| a.name == b.name) {
            let (Some(binding), Some(last)) = (bindings.first(), bindings.last()) else { continue };
            let is_there = live_names.remove(binding.name);
            let path = &self.path(binding.parent, binding.name);
            let is_uncertain = binding.object.is_some() != last.object.is_some()
                || objects.iter().any(|id| tree.is_name_uncertain(*id, binding.name));
            if is_uncertain {
                let mut uncertain = objects.iter().filter(|id| tree.is_name_uncertain(**id, binding.name)).peekable();
                let is_in_flight = binding.object.is_some() == last.object.is_some()
                    && uncertain.peek().is_some()
                    && uncertain.all(|id| tree.is_name_in_flight(*id, binding.name));
                self.leave_out(1, path);
                if is_in_flight {
                    self.report.in_flight += 1;
                    self.in_flight.extend(bindings.iter().filter_map(|binding| binding.object));
                }
                self.check_by_filehandle(bindings, path)?;
                continue;
            }
            self.report.names += 1;
            match (binding.object, is_there) {
                (Some(id), true) => {
                    let lookup_result = self.find_object(handle, binding.name);
                    let object = ObjectAtPath { id, path };
                    match self.fileids.get(&id).copied() {
                        None => self.check_object(object, lookup_result)?,
                        Some(fileid) => self.check_further_name(object, fileid, lookup_result)?,
                    }
                }
                (Some(id), false) => {
                    let object = ObjectAtPath { id, path };
                    self.report_difference(object, DifferenceKind::Name, "name", "present", "missing");
                }
                (None, true) => self.report_additional_name(directory.id, path),
                (None, false) => {}
            }
        }
        // All names are known that a directory got in the run, unless some were dropped at the memory limit.
        let is_new = |id: &InferredObjectId| {
            node(id).is_some_and(|node| node.existence == TraceObjectOrigin::CREATED && node.step != 0)
        };
        let seeded = self.live.seeded;
        let initial_names = seeded.initial_names.get(handle);
        if initial_names.is_none() && !objects.iter().all(is_new) || !tree.has_all_names() || tree.has_unknown_changes()
        {
            self.leave_out(1, directory.path);
            return Ok(());
        }
        live_names.retain(|name| {
            initial_names.is_none_or(|initial_names| !initial_names.contains(name))
                && !is_server_name(seeded, name)
                && !objects.iter().any(|id| tree.is_name_uncertain(*id, name))
        });
        let total_count = live_names.len();
        live_names.retain(|name| !is_server_silly_rename(name));
        self.report.tolerated += (total_count - live_names.len()) as u64;
        let mut additional: Vec<_> = live_names.into_iter().collect();
        additional.sort();
        for name in additional {
            self.report.names += 1;
            self.report_additional_name(directory.id, &self.path(directory.id, &name));
        }
        Ok(())
    }

    /// Checks an object whose name is uncertain by its filehandle, if it still exists.
    fn check_by_filehandle(
        &mut self,
        bindings: &[CurrentNameBinding<'_>],
        path: &str,
    ) -> Result<(), FileServerClientError> {
        let Some(id) = bindings.iter().find_map(|binding| binding.object) else { return Ok(()) };
        let is_directory =
            self.tree.nodes().get(id.0 as usize).is_none_or(|node| node.file_type == TraceFileType::DIRECTORY);
        if is_directory || self.fileids.contains_key(&id) {
            return Ok(());
        }
        let Some(handle) = self.directory_handle(id) else { return Ok(()) };
        match self.files.status(&handle) {
            Ok(status) => self.check_object(ObjectAtPath { id, path }, Ok((handle, status))),
            // The step that was not compared removed it.
            Err(error @ FileServerClientError::Refused(..)) if error.blame().is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Counts names and objects that are not checked, with the path of the first.
    fn leave_out(&mut self, count: u64, path: &str) {
        self.report.left_out += count;
        let paths = &mut self.report.left_out_paths;
        if paths.len() < MAX_LEFT_OUT_PATHS && !paths.iter().any(|existing| existing == path) {
            paths.push(path.to_owned());
        }
    }

    fn report_additional_name(&mut self, directory: InferredObjectId, path: &str) {
        let object = ObjectAtPath { id: directory, path };
        self.report_difference(object, DifferenceKind::Name, "name", "absent", "present");
    }

    /// Returns a value, unless the server refuses it. A refusal is a difference of the field, except for access by
    /// a squashed root: then this number of names and objects is skipped.
    fn accept<T>(
        &mut self,
        result: Result<T, FileServerClientError>,
        object: ObjectAtPath<'_>,
        field: &str,
        expected: &str,
        left_out: Option<u64>,
    ) -> Result<Option<T>, FileServerClientError> {
        match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) if error.blames_client() => return Err(error),
            Err(FileServerClientError::Refused(_, status)) if self.is_refused_to_root(&status) => {
                left_out.into_iter().for_each(|count| self.leave_out(count, object.path));
            }
            Err(FileServerClientError::Refused(operation, status)) => {
                let failure = format!("{operation}: {status}");
                self.report_difference(object, DifferenceKind::Status, field, expected, failure);
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Checks a root, which has no name: its last values in Replies must still hold.
    fn check_root(&mut self, root: ObjectAtPath<'_>, handle: &[u8]) -> Result<(), FileServerClientError> {
        let status = match self.files.status(handle) {
            Ok(status) => status,
            Err(error) if error.blames_client() => return Err(error),
            Err(FileServerClientError::Refused(_, reason)) => {
                self.report_difference(root, DifferenceKind::Status, "attributes", "readable", reason);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let handles = self.tree.nodes().get(root.id.0 as usize).map_or(&[][..], |node| &node.handles);
        self.check_attribute_relations(root, &[&[ROOT][..], handles].concat(), &status, false);
        Ok(())
    }

    /// Compares the attributes of an object with the last values in Replies.
    fn check_attribute_relations(
        &mut self,
        object: ObjectAtPath<'_>,
        handles: &[u32],
        status: &LiveObjectAttributes,
        was_listed: bool,
    ) {
        let owner = status.owner.as_ref().filter(|_| !self.live.signs_calls);
        let FinalAttributeDifferences { differences, tolerated } =
            self.live.checker.final_differences(handles, &status.version, owner, was_listed);
        self.report.tolerated += tolerated;
        for FinalAttributeDifference { aspect, values: [expected, actual], .. } in differences {
            self.report_difference(object, DifferenceKind::Relation, aspect, expected, actual);
        }
    }

    /// Returns `true` if a status refuses access to the user to whom root is squashed, who checks the tree.
    fn is_refused_to_root(&self, refusal: &NfsOperationFailure) -> bool {
        self.live.seeded.squashed_owner.is_some()
            && matches!(refusal.status(), Some(Nfsstat4::NFS4ERR_ACCESS | Nfsstat4::NFS4ERR_PERM))
    }

    /// Looks up a name that the directory lists. Returns its filehandle and attributes.
    fn find_object(&mut self, parent: &[u8], name: &[u8]) -> FoundObject {
        match self.files.lookup(parent, name)? {
            Some(handle) => self.files.status(&handle).map(|status| (handle, status)),
            None => Err(FileServerClientError::Refused(
                Operation::LOOKUP.to_string(),
                NfsOperationFailure::UnusableResults("no such name".into()),
            )),
        }
    }

    fn check_further_name(
        &mut self,
        object: ObjectAtPath<'_>,
        fileid: Option<u128>,
        lookup_result: FoundObject,
    ) -> Result<(), FileServerClientError> {
        let live_object = self.accept(lookup_result, object, "object", "present", Some(1))?;
        if let (Some(expected), Some(actual)) = (fileid, live_object.and_then(|(_, status)| status.version.fileid))
            && actual != expected
        {
            self.report_difference(object, DifferenceKind::Relation, "fileid (one)", expected, actual);
        }
        Ok(())
    }

    /// Checks an object that was found by one of its names, or by its filehandle.
    fn check_object(
        &mut self,
        object: ObjectAtPath<'_>,
        lookup_result: FoundObject,
    ) -> Result<(), FileServerClientError> {
        let tree = self.tree;
        let Some(node) = tree.nodes().get(object.id.0 as usize) else { return Ok(()) };
        if tree.is_uncertain(object.id) {
            self.leave_out(1, object.path);
            if tree.is_in_flight(object.id) {
                self.report.in_flight += 1;
                self.in_flight.insert(object.id);
            }
            return Ok(());
        }
        let is_left_out = matches!(&lookup_result, Err(FileServerClientError::Refused(_, status))
            if self.is_refused_to_root(status));
        self.report.objects += u64::from(!is_left_out);
        self.fileids.insert(object.id, None);
        let Some((handle, status)) = self.accept(lookup_result, object, "object", "present", Some(1))? else {
            return Ok(());
        };
        let LiveObjectAttributes { file_type, size, .. } = status;
        self.fileids.insert(object.id, status.version.fileid);
        if node.file_type != TraceFileType::UNKNOWN && node.file_type != file_type {
            self.report_difference(object, DifferenceKind::Result, field_labels::TYPE, node.file_type, file_type);
            return Ok(());
        }
        let is_directory = file_type == TraceFileType::DIRECTORY;
        self.check_attribute_relations(object, &node.handles, &status, is_directory);
        let unknown_state = LatestInferredFileState::default();
        let expected_state = tree.current_state(object.id).unwrap_or(&unknown_state);
        let mode = status.mode & 0o7777;
        if let Some(expected) = expected_state.mode.map(|mode| mode & 0o7777).filter(|expected| *expected != mode) {
            let [expected, mode] = [expected, mode].map(|mode| format!("0{mode:o}"));
            self.report_difference(object, DifferenceKind::Result, field_labels::MODE, expected, mode);
        }
        match file_type {
            TraceFileType::FILE => {
                if let Some(expected) = expected_state.size.filter(|expected| *expected != size) {
                    self.report_difference(object, DifferenceKind::Result, field_labels::SIZE, expected, size);
                    return Ok(());
                }
                self.check_content(object, expected_state, &handle)
            }
            TraceFileType::LINK if !node.target.is_empty() => {
                let quoted = |text: &[u8]| format!("{:?}", String::from_utf8_lossy(text));
                let expected = quoted(&node.target);
                let text = self.files.read_link(&handle);
                let text = self.accept(text, object, "text", &expected, Some(1))?;
                if let Some(text) = text.filter(|text| **text != *node.target) {
                    self.report_difference(object, DifferenceKind::Name, "text", expected, quoted(&text));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_content(
        &mut self,
        object: ObjectAtPath<'_>,
        expected_state: &LatestInferredFileState,
        handle: &[u8],
    ) -> Result<(), FileServerClientError> {
        let zeros = vec![0; READ_BYTES as usize];
        // Extents of a payload that was overwritten in part alternate with those of others.
        let mut payloads: VecDeque<(_, Vec<u8>)> = VecDeque::new();
        for extent in expected_state.known_extents() {
            if let ExtentContent::Payload(payload, _) = &extent.content {
                let key = (payload.data, payload.file, payload.offset, payload.length, payload.hash);
                match payloads.iter().position(|(cached, _)| *cached == key) {
                    Some(at) => payloads.swap(0, at),
                    None => {
                        let is_full = payloads.len() >= MAX_CACHED_PAYLOADS;
                        let unused = if is_full { payloads.pop_back() } else { None };
                        let mut sent = unused.map_or_else(Vec::new, |(_, bytes)| bytes);
                        // A damaged trace was reported before.
                        if self.contents.content_or_generated(payload, &mut sent).is_err() {
                            continue;
                        }
                        payloads.push_front((key, sent));
                    }
                }
            }
            let sent = payloads.front().map_or(&[][..], |(_, bytes)| bytes);
            let (mut at, end) = extent.range;
            while at < end {
                let count = (end - at).min(READ_BYTES);
                let expected = match &extent.content {
                    ExtentContent::Payload(_, start) => {
                        sent.get((start + (at - extent.range.0)) as usize..).unwrap_or_default()
                    }
                    ExtentContent::Zeros => &zeros[..],
                };
                let field = |at: u64| format!("content at byte {at}");
                let bytes = self.files.read(handle, at, count as u32);
                // Bytes that a squashed root may not read count as written, but not as read.
                let Some(bytes) = self.accept(bytes, object, &field(at), "present", None)? else {
                    return Ok(());
                };
                self.report.bytes += bytes.len() as u64;
                // A READ may return less than requested, but not nothing.
                let length = bytes.len().max(1);
                let expected = expected.get(..length).unwrap_or(expected);
                if bytes.is_empty() || bytes != expected {
                    let first = bytes.iter().zip(expected).take_while(|(a, b)| a == b).count();
                    let byte_text = |bytes: &[u8]| {
                        bytes.get(first).map_or_else(|| "nothing".to_owned(), |byte| format!("0x{byte:02x}"))
                    };
                    let [expected, actual] = [expected, &bytes[..]].map(byte_text);
                    let field = field(at + first as u64);
                    self.report_difference(object, DifferenceKind::Data, &field, expected, actual);
                    return Ok(());
                }
                at += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Returns `true` if the capture lacks calls that may have changed an object: any but those that steps created
    /// after the last of them.
    fn may_be_changed_by_missing_call(&self, id: InferredObjectId) -> bool {
        let Some(missing) = self.live.missing_calls.filter(|missing| !missing.is_empty()) else { return false };
        let node = self.tree.nodes().get(id.0 as usize);
        let is_spared = |node: &InferredObject| {
            node.existence == TraceObjectOrigin::CREATED && missing.is_before(node.server, node.step)
        };
        !node.is_some_and(is_spared)
    }

    fn report_difference(
        &mut self,
        object: ObjectAtPath<'_>,
        kind: DifferenceKind,
        field: &str,
        expected: impl ToString,
        actual: impl ToString,
    ) {
        if self.may_be_changed_by_missing_call(object.id) {
            return self.leave_out(1, object.path);
        }
        self.report.differing += 1;
        if self.report.mismatches.len() >= self.live.max_shown_mismatches {
            // Differences of files are shown rather than those of attributes to earlier ones.
            let last_relation = self.report.mismatches.iter().rposition(is_relation);
            let Some(last) = last_relation.filter(|_| kind != DifferenceKind::Relation) else { return };
            self.report.mismatches.remove(last);
        }
        let frames = self.tree.current_state(object.id).map_or([0; 2], |file| file.frames);
        let step = StepIdWithFrames { step: 0, frames };
        let location = step.location();
        let [a, b] = [expected.to_string(), actual.to_string()].map(|value| DifferenceSideValue {
            location: Some(location),
            frame: location.call,
            value: Some(value),
        });
        let (operation, path) = (object.path.to_owned(), field.to_owned());
        let difference = Difference { kind, operation: operation.clone(), path, section: 0, field: "", count: 1, a, b };
        self.report.mismatches.push(StepMismatch {
            step,
            operation,
            differences: vec![difference],
            ..StepMismatch::default()
        });
    }
}
