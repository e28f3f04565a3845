//! Inference of paths from filename tokens. RFC 8881 section 16.2.3 describes the current and the saved filehandle.

use std::ops::Range;

use nfsrdma_dissectors::nfs::{Procedure, mount, v2, v3, v4};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_flow::transaction_message_decoding::{MainOperation, RpcSummary};
use nfsrdma_nfs_model::Naming;
use nfsrdma_nfs_model::v4::{Current, Meaning, meaning};

use super::file_node_store::{FileNodeId, FileNodeStore, PathComponent, ServerAddressAndVirtualNetwork};
use super::path_inference_token_stream::{
    MessageFilenameTokens, OperationPathInferenceTokens, PathInferenceTokenByteRange,
};
use super::transaction_paths::{
    FilehandleDisplay, ResolvedPathTextRanges, TransactionOperationPaths, UNKNOWN_PREFIX, path,
};

/// The status of a missing name: NFSERR_NOENT, NFS3ERR_NOENT and NFS4ERR_NOENT.
const STATUS_NOENT: u32 = 2;

/// A file within the operations of a Transaction.
#[derive(Clone, Copy, Debug)]
enum InferredCurrentFile {
    Unknown,
    File(FileNodeId),
    /// The file of this name, not confirmed by the server. The directory may be unknown.
    NamedIn(Option<FileNodeId>, PathInferenceTokenByteRange),
}

impl InferredCurrentFile {
    fn id(self) -> Option<FileNodeId> {
        match self {
            Self::File(id) => Some(id),
            Self::Unknown | Self::NamedIn(..) => None,
        }
    }
}

impl From<Option<FileNodeId>> for InferredCurrentFile {
    fn from(id: Option<FileNodeId>) -> Self {
        id.map_or(Self::Unknown, Self::File)
    }
}

/// Returns `true` if a Transaction has filehandles or their names.
pub(super) fn has_files(summary: &RpcSummary) -> bool {
    let is_null = summary.procedure.is_none_or(|number| number == 0);
    !is_null
        && summary.program.is_some_and(|program| {
            matches!(program, Program::NFS | Program::MOUNT | Program::NLM | Program::NFSACL) || program.is_transient()
        })
}

/// What a procedure does to the names in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathInferenceNameEffect {
    /// Finds a name.
    Finds,
    /// Adds a name of a new object.
    Adds,
    /// Removes a name.
    Removes,
    /// Moves a name.
    Renames,
    /// Adds a name of an existing file.
    Links,
    /// Returns names with their filehandles.
    Lists,
    /// Has no name, or only reads names without filehandles.
    None,
}

impl PathInferenceNameEffect {
    fn of_procedure(procedure: Procedure) -> Self {
        match procedure {
            Procedure::V2(procedure) => Self::of_v2(procedure),
            Procedure::V3(procedure) => Self::of_v3(procedure),
            _ => Self::None,
        }
    }

    fn of_v2(procedure: v2::Procedure) -> Self {
        use v2::Procedure::*;
        match procedure {
            LOOKUP => Self::Finds,
            CREATE | MKDIR | SYMLINK => Self::Adds,
            REMOVE | RMDIR => Self::Removes,
            RENAME => Self::Renames,
            LINK => Self::Links,
            NULL | GETATTR | SETATTR | ROOT | READLINK | READ | WRITECACHE | WRITE | READDIR | STATFS => Self::None,
        }
    }

    fn of_v3(procedure: v3::Procedure) -> Self {
        use v3::Procedure::*;
        match procedure {
            LOOKUP => Self::Finds,
            CREATE | MKDIR | SYMLINK | MKNOD => Self::Adds,
            REMOVE | RMDIR => Self::Removes,
            RENAME => Self::Renames,
            LINK => Self::Links,
            READDIRPLUS => Self::Lists,
            NULL | GETATTR | SETATTR | ACCESS | READLINK | READ | WRITE | READDIR | FSSTAT | FSINFO | PATHCONF
            | COMMIT => Self::None,
        }
    }
}

pub(super) struct TransactionPathResolver<'n> {
    pub(super) display: FilehandleDisplay,
    pub(super) store: &'n mut FileNodeStore,
    pub(super) call: &'n MessageFilenameTokens,
    pub(super) reply: &'n MessageFilenameTokens,
    pub(super) resolved: &'n mut TransactionOperationPaths,
    pub(super) server: ServerAddressAndVirtualNetwork,
    pub(super) uses_reply: bool,
}

impl TransactionPathResolver<'_> {
    pub(super) fn transaction(&mut self, summary: &RpcSummary) {
        match summary.described_procedure() {
            Some(Procedure::Compound) => self.compound(summary),
            Some(Procedure::CbCompound) => self.callbacks(summary),
            Some(Procedure::Mount1(procedure)) => self.mount(procedure == mount::v1::Procedure::MNT, summary),
            Some(Procedure::Mount2(procedure)) => self.mount(procedure == mount::v2::Procedure::MNT, summary),
            Some(Procedure::Mount3(procedure)) => self.mount(procedure == mount::v3::Procedure::MNT, summary),
            Some(procedure) => self.procedure(PathInferenceNameEffect::of_procedure(procedure), summary),
            None => {}
        }
    }

    /// Handles a procedure of NFSv2, NFSv3, NLM or NFSACL.
    fn procedure(&mut self, effect: PathInferenceNameEffect, summary: &RpcSummary) {
        let (call, reply) = (self.call, self.reply);
        let (call_tokens, reply_tokens) = (words(call), words(reply));
        let mut handles = call_tokens.handles().map(|span| call.bytes(span));
        let mut names = call_tokens.names();
        let Some(first) = handles.next().map(|handle| self.store.find_or_insert(self.server, handle)) else {
            return;
        };
        let status = summary.status.filter(|_| self.uses_reply);
        let is_done = status.is_some_and(|status| status.is_ok);
        let current = InferredCurrentFile::File(first);
        let paths = match (effect, names.next()) {
            (PathInferenceNameEffect::Finds | PathInferenceNameEffect::Adds, Some(name)) => {
                let path = self.write_child_path(current, name);
                let bytes = call.bytes(name);
                match reply_tokens.handles().next().filter(|_| is_done) {
                    Some(handle) => {
                        let id = self.store.find_or_insert_child(first, bytes);
                        self.store.bind(id, self.server, reply.bytes(handle));
                    }
                    None if effect == PathInferenceNameEffect::Finds
                        && status.is_some_and(|status| status.number == STATUS_NOENT) =>
                    {
                        self.store.remove(first, bytes);
                    }
                    None => {}
                }
                ResolvedPathTextRanges::of_path(path)
            }
            (PathInferenceNameEffect::Removes, Some(name)) => {
                let path = self.write_child_path(current, name);
                if is_done {
                    self.store.remove(first, call.bytes(name));
                }
                ResolvedPathTextRanges::of_path(path)
            }
            (PathInferenceNameEffect::Renames, Some(old_name)) => {
                let to = handles.next().map(|handle| self.store.find_or_insert(self.server, handle));
                let new_name = names.next();
                let path = self.write_child_path(current, old_name);
                let new_path = to
                    .zip(new_name)
                    .and_then(|(to, new_name)| self.write_child_path(InferredCurrentFile::File(to), new_name));
                if let (true, Some(to), Some(new_name)) = (is_done, to, new_name) {
                    self.store.rename(first, call.bytes(old_name), to, call.bytes(new_name));
                }
                ResolvedPathTextRanges { path, new_path, start: None }
            }
            (PathInferenceNameEffect::Links, Some(name)) => {
                let to = handles.next().map(|handle| self.store.find_or_insert(self.server, handle));
                let path = self.write(current);
                let new_path = to.and_then(|to| self.write_child_path(InferredCurrentFile::File(to), name));
                if let (true, Some(to)) = (is_done, to) {
                    self.store.link(first, to, call.bytes(name));
                }
                ResolvedPathTextRanges { path, new_path, start: None }
            }
            // The name was cut: the file is in this directory, and the Reply may have its filehandle.
            (PathInferenceNameEffect::Finds | PathInferenceNameEffect::Adds, None) => {
                let handle = reply_tokens.handles().next().filter(|_| is_done);
                let file = handle.map(|handle| self.store.find_or_insert(self.server, reply.bytes(handle)));
                let path = file.and_then(|file| self.write(InferredCurrentFile::File(file)));
                let start = if path.is_none() { self.write(current) } else { None };
                ResolvedPathTextRanges { path, new_path: None, start }
            }
            (PathInferenceNameEffect::Removes | PathInferenceNameEffect::Renames, None) => {
                ResolvedPathTextRanges { start: self.write(current), ..ResolvedPathTextRanges::default() }
            }
            (PathInferenceNameEffect::Lists, _) if is_done => {
                self.entries(first, reply_tokens);
                ResolvedPathTextRanges::of_path(self.write(current))
            }
            _ => ResolvedPathTextRanges::of_path(self.write(current)),
        };
        self.resolved.transaction = paths;
    }

    /// Handles MOUNT, where the path of a directory is its name on the server. RFC 1813 section 5.2.1.
    fn mount(&mut self, is_mnt: bool, summary: &RpcSummary) {
        let Some(path) = words(self.call).names().next().map(|name| self.call.bytes(name)) else { return };
        let is_done = summary.status.is_some_and(|status| status.is_ok);
        let is_mount = is_mnt && is_done;
        if let Some(handle) = words(self.reply).handles().next().filter(|_| is_mount) {
            self.store.mount(self.server, self.reply.bytes(handle), path);
        }
        let start = self.resolved.text.len();
        self.resolved.text.extend_from_slice(path);
        self.resolved.transaction.path = Some(start..self.resolved.text.len());
    }

    /// Handles callbacks, each of which has the filehandle of its file.
    fn callbacks(&mut self, summary: &RpcSummary) {
        for operation in self.call.operations() {
            let handle = operation.handles().next().map(|handle| self.call.bytes(handle));
            let file = handle.map(|handle| self.store.find_or_insert(self.server, handle));
            let path = file.and_then(|file| self.write(InferredCurrentFile::File(file)));
            let is_main =
                summary.main_operation == Some(MainOperation::Callback(v4::CbOperationNumber(operation.number)));
            self.add_operation(ResolvedPathTextRanges::of_path(path), is_main);
        }
    }

    /// Adds the paths of an operation. The first main operation has those of the Transaction.
    fn add_operation(&mut self, paths: ResolvedPathTextRanges, is_main: bool) {
        if is_main && self.resolved.transaction.path.is_none() {
            self.resolved.transaction = paths.clone();
        }
        self.resolved.operations.push(paths);
    }

    fn compound(&mut self, summary: &RpcSummary) {
        let (call, reply) = (self.call, self.reply);
        let minor_version = summary.minor_version.unwrap_or_default();
        let is_path = summary.main_operation == Some(MainOperation::Operation(v4::OperationNumber::LOOKUP));
        let mut results = reply.operations();
        let (mut current, mut saved) = (InferredCurrentFile::Unknown, InferredCurrentFile::Unknown);
        let call_count = call.operations().count();
        let is_cut = summary.call_error.is_some_and(|error| error.is_cut());
        // File that a truncated main operation starts from.
        let mut start = InferredCurrentFile::Unknown;
        // The current file remains the directory, which is not the object.
        let mut names_entry = false;
        let mut is_main_known = false;
        // Operations missing at the end of a truncated Call still have results.
        let cut_operations = reply.operations().skip(call_count);
        let cut_operations = cut_operations.map(|result| (OperationPathInferenceTokens { words: &[], ..result }, true));
        let operations = call.operations().map(|operation| (operation, false)).chain(cut_operations);
        for (at, (operation, is_in_reply_only)) in (1..).zip(operations) {
            let number = v4::OperationNumber(operation.number);
            let result = results.next().filter(|result| result.number == operation.number);
            let is_main = summary.main_operation == Some(MainOperation::Operation(number));
            let needs_paths = is_main || self.resolved.wants_all;
            let step = PathInferenceOperation { name: number.known(), minor_version, operation, result, needs_paths };
            if is_main {
                start = if step.name == Some(v4::Operation::RENAME) { saved } else { current };
            }
            names_entry |= is_main && step.replaces_names();
            is_main_known |= is_main;
            // The arguments of the last operation before a cut may be missing.
            let may_lack_arguments = is_cut && at == call_count && step.operation.names().next().is_none();
            let paths = match is_in_reply_only || may_lack_arguments {
                true => self.step_of_reply(&step, &mut current, &mut saved),
                false => self.step(&step, &mut current, &mut saved),
            };
            if is_path && is_main && !is_in_reply_only {
                // A path is several LOOKUPs, of which the last counts.
                self.resolved.transaction = ResolvedPathTextRanges::default();
            }
            self.add_operation(paths, is_main);
        }
        let has_results_alone = call_count < reply.operations().count();
        if has_results_alone && is_main_known && self.resolved.transaction.path.is_none() && !names_entry {
            // The main operation lost its arguments, but a later result has its filehandle.
            let path = self.write(current);
            self.resolved.transaction.path = path;
        }
        if is_cut && self.resolved.transaction.path.is_none() {
            self.resolved.transaction.start = self.write(start);
        }
    }

    /// Handles an operation without arguments, which may select a new current file.
    fn step_of_reply(
        &mut self,
        step: &PathInferenceOperation<'_>,
        current: &mut InferredCurrentFile,
        saved: &mut InferredCurrentFile,
    ) -> ResolvedPathTextRanges {
        match step.meaning().map(|meaning| meaning.current) {
            Some(Current::Argument) if step.operation.handles().next().is_some() => self.step(step, current, saved),
            Some(Current::Argument | Current::Name | Current::Claim | Current::Consumed) => {
                *current = InferredCurrentFile::Unknown;
                ResolvedPathTextRanges::default()
            }
            _ if step.replaces_names() => ResolvedPathTextRanges::default(),
            _ => self.step(step, current, saved),
        }
    }

    fn step(
        &mut self,
        step: &PathInferenceOperation<'_>,
        current: &mut InferredCurrentFile,
        saved: &mut InferredCurrentFile,
    ) -> ResolvedPathTextRanges {
        let call = self.call;
        let mut names = step.operation.names();
        let is_done = step.is_done();
        let mut new_path = None;
        let becomes = step.meaning().map_or(Current::Kept, |meaning| meaning.current);
        let path = match (becomes, step.name, names.next()) {
            (Current::Name | Current::Claim, _, Some(name)) => {
                let path = self.write_child_if_needed(step, *current, name);
                let bytes = call.bytes(name);
                if step.result.and_then(|result| result.status()) == Some(STATUS_NOENT)
                    && let Some(parent) = current.id()
                {
                    self.store.remove(parent, bytes);
                }
                *current = match current.id() {
                    Some(parent) if is_done => {
                        InferredCurrentFile::File(self.store.find_or_insert_child(parent, bytes))
                    }
                    parent => InferredCurrentFile::NamedIn(parent, name),
                };
                path
            }
            (Current::Kept, Some(v4::Operation::REMOVE), Some(name)) => {
                let path = self.write_child_if_needed(step, *current, name);
                if let Some(parent) = current.id().filter(|_| is_done) {
                    self.store.remove(parent, call.bytes(name));
                }
                path
            }
            (Current::Kept, Some(v4::Operation::RENAME), Some(old_name)) => {
                let path = self.write_child_if_needed(step, *saved, old_name);
                if let Some(new_name) = names.next() {
                    new_path = self.write_child_if_needed(step, *current, new_name);
                    if let (true, Some(from), Some(to)) = (is_done, saved.id(), current.id()) {
                        self.store.rename(from, call.bytes(old_name), to, call.bytes(new_name));
                    }
                }
                path
            }
            (Current::Kept, Some(v4::Operation::LINK), Some(name)) => {
                let path = self.write_if_needed(step, *saved);
                new_path = self.write_child_if_needed(step, *current, name);
                if let (true, Some(file), Some(parent)) = (is_done, saved.id(), current.id()) {
                    self.store.link(file, parent, call.bytes(name));
                }
                path
            }
            (Current::Kept, Some(v4::Operation::COPY | v4::Operation::CLONE), _) => {
                new_path = self.write_if_needed(step, *current);
                self.write_if_needed(step, *saved)
            }
            (Current::Consumed, _, name) => {
                let path = match name {
                    Some(name) => self.write_child_if_needed(step, *current, name),
                    None => self.write_if_needed(step, *current),
                };
                *current = if step.minor_version == 0 { *current } else { InferredCurrentFile::Unknown };
                path
            }
            (_, _, _) => {
                *current = match becomes {
                    Current::Kept | Current::Name | Current::Claim | Current::Consumed => *current,
                    Current::Public | Current::Attributes => InferredCurrentFile::Unknown,
                    Current::Argument => {
                        let handle = step.operation.handles().next().map(|handle| call.bytes(handle));
                        handle.map(|handle| self.store.find_or_insert(self.server, handle)).into()
                    }
                    Current::Root => InferredCurrentFile::File(self.store.root(self.server)),
                    Current::Saved => *saved,
                    Current::Parent => current.id().and_then(|id| self.store.parent(id)).into(),
                };
                if step.name == Some(v4::Operation::SAVEFH) {
                    *saved = *current;
                }
                self.result(step.name, current, step.result.filter(|_| is_done));
                self.write_if_needed(step, *current)
            }
        };
        ResolvedPathTextRanges { path, new_path, start: None }
    }

    /// Binds the filehandles that a successful operation returned.
    fn result(
        &mut self,
        operation: Option<v4::Operation>,
        current: &mut InferredCurrentFile,
        result: Option<OperationPathInferenceTokens<'_>>,
    ) {
        let Some(result) = result else { return };
        match (operation, current.id()) {
            (Some(v4::Operation::GETFH | v4::Operation::GETATTR), _) => self.handle(current, result),
            (Some(v4::Operation::LAYOUTGET), Some(file)) => {
                for handle in result.handles() {
                    self.store.add_layout_handle(file, self.reply.bytes(handle));
                }
            }
            (Some(v4::Operation::READDIR), Some(directory)) => self.entries(directory, result),
            _ => {}
        }
    }

    /// Binds the current filehandle that the server returned.
    fn handle(&mut self, current: &mut InferredCurrentFile, result: OperationPathInferenceTokens<'_>) {
        let Some(handle) = result.handles().next().map(|handle| self.reply.bytes(handle)) else { return };
        *current = InferredCurrentFile::File(match current.id() {
            Some(id) => self.store.bind(id, self.server, handle),
            None => self.store.find_or_insert(self.server, handle),
        });
    }

    /// Binds the filehandles of directory entries that the server returned.
    fn entries(&mut self, directory: FileNodeId, result: OperationPathInferenceTokens<'_>) {
        for (name, handle) in result.entries() {
            let name = self.reply.bytes(name);
            if !matches!(name, b"." | b"..") {
                let id = self.store.find_or_insert_child(directory, name);
                self.store.bind(id, self.server, self.reply.bytes(handle));
            }
        }
    }

    fn write_if_needed(
        &mut self,
        step: &PathInferenceOperation<'_>,
        file: InferredCurrentFile,
    ) -> Option<Range<usize>> {
        if step.needs_paths { self.write(file) } else { None }
    }

    fn write_child_if_needed(
        &mut self,
        step: &PathInferenceOperation<'_>,
        file: InferredCurrentFile,
        name: PathInferenceTokenByteRange,
    ) -> Option<Range<usize>> {
        if step.needs_paths { self.write_child_path(file, name) } else { None }
    }

    fn write(&mut self, file: InferredCurrentFile) -> Option<Range<usize>> {
        let start = self.resolved.text.len();
        match file {
            InferredCurrentFile::Unknown => return None,
            InferredCurrentFile::File(id) => {
                if !path(self.display, self.store, id, &mut self.resolved.text) {
                    self.resolved.text.truncate(start);
                    return None;
                }
            }
            InferredCurrentFile::NamedIn(parent, name) => {
                return self.write_child_path(parent.into(), name);
            }
        }
        Some(start..self.resolved.text.len())
    }

    fn write_child_path(
        &mut self,
        directory: InferredCurrentFile,
        name: PathInferenceTokenByteRange,
    ) -> Option<Range<usize>> {
        let start = self.resolved.text.len();
        let is_nameless = match directory {
            InferredCurrentFile::File(id) if self.display == FilehandleDisplay::Names => {
                self.store.components_up(id).next().is_none_or(|(_, step)| step == PathComponent::Unknown)
            }
            InferredCurrentFile::Unknown => true,
            InferredCurrentFile::File(_) | InferredCurrentFile::NamedIn(..) => false,
        };
        if is_nameless {
            self.resolved.text.extend_from_slice(UNKNOWN_PREFIX.as_bytes());
        } else {
            self.write(directory);
        }
        if self.resolved.text.last() != Some(&b'/') {
            self.resolved.text.push(b'/');
        }
        self.resolved.text.extend_from_slice(self.call.bytes(name));
        Some(start..self.resolved.text.len())
    }
}

/// An operation of a COMPOUND with its result.
struct PathInferenceOperation<'h> {
    /// `None` for a number that is not known.
    name: Option<v4::Operation>,
    minor_version: u32,
    operation: OperationPathInferenceTokens<'h>,
    result: Option<OperationPathInferenceTokens<'h>>,
    needs_paths: bool,
}

impl PathInferenceOperation<'_> {
    fn meaning(&self) -> Option<Meaning> {
        self.name.map(meaning)
    }

    fn is_done(&self) -> bool {
        self.result.and_then(|result| result.status()) == Some(0)
    }

    /// Returns `true` if the operation changes names in the current directory, which remains the current file.
    fn replaces_names(&self) -> bool {
        self.meaning().is_some_and(|meaning| meaning.naming == Naming::Replaces)
    }
}

/// Returns all tokens of a message without operations.
fn words(tokens: &MessageFilenameTokens) -> OperationPathInferenceTokens<'_> {
    OperationPathInferenceTokens { number: 0, words: &tokens.words }
}
