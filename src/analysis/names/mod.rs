//! The names of files: what a filehandle stands for, learnt from the Transactions as they go by.
//!
//! A filehandle is bytes that mean something to its server alone. Its name is told by the Call that it answers: LOOKUP,
//! OPEN, CREATE and their like name a file in a directory, READDIRPLUS names all of them, MNT and PUTROOTFH say where
//! paths begin, RENAME, LINK and REMOVE change what is known. [`FileNames`] listens to each Transaction, remembers what it
//! learns for each server, and tells what the Transaction and its operations are about. What is learnt later does not
//! change what was told before.
//!
//! - [`filename_tokens`]: the words of a message that tell of files;
//! - [`path_inference`]: what they say, with the current and the saved filehandle of a COMPOUND;
//! - [`store`]: what is remembered, in bounded memory.

mod filename_tokens;
mod path_inference;
mod store;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::ops::Range;

use clap::ValueEnum;
use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::{CallDirection, RpcMessageKind, Transaction};
use nfsrdma_dissectors::flow::{Flow, FrameKind};

use crate::memory::Memory;

use filename_tokens::FilenameTokens;
use store::{FileNameStore, FileNodeId, Host, PathComponent};

/// The name of every field that is a filehandle.
pub const FILEHANDLE: &str = "nfs.fhandle";
/// Stands before a path whose beginning is not known.
pub const UNKNOWN: &str = "…";

/// How files are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Filehandles {
    /// By path; by hash where no name was seen
    #[default]
    Names,
    /// By the CRC-32 of the filehandle, Wireshark's nfs.fh.hash
    Hash,
    /// By all bytes of the filehandle
    Hex,
    /// Not at all: no paths
    #[value(name = "none")]
    Off,
}

/// What a Transaction or one of its operations is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationPaths<'n> {
    /// The path of the file: `/data/db/log.1`, `…/log.1` where the directory is not known; `0x62d40c52`, the hash of its
    /// filehandle, where no name is known. Names are bytes, and mostly UTF-8.
    pub path: Option<&'n [u8]>,
    /// The path that RENAME and LINK give it; the destination of COPY and CLONE.
    pub new_path: Option<&'n [u8]>,
}

/// The same as places in [`ResolvedPaths::text`].
#[derive(Clone, Debug, Default)]
struct PathRanges {
    path: Option<Range<usize>>,
    new_path: Option<Range<usize>>,
}

/// What was found out about one Transaction.
#[derive(Debug, Default)]
struct ResolvedPaths {
    text: Vec<u8>,
    transaction: PathRanges,
    operations: Vec<PathRanges>,
    /// Whether what each operation is about is wanted.
    wants_all: bool,
}

impl ResolvedPaths {
    fn clear(&mut self) {
        self.text.clear();
        self.operations.clear();
        self.transaction = PathRanges::default();
    }

    fn about(&self, ranges: &PathRanges) -> OperationPaths<'_> {
        let bytes = |range: &Option<Range<usize>>| self.text.get(range.clone()?);
        OperationPaths { path: bytes(&ranges.path), new_path: bytes(&ranges.new_path) }
    }
}

/// Knows the names of files.
#[derive(Debug)]
pub struct FileNames {
    how: Filehandles,
    store: FileNameStore,
    call: FilenameTokens,
    reply: FilenameTokens,
    told: ResolvedPaths,
}

impl Default for FileNames {
    fn default() -> Self {
        Self::new(Filehandles::default(), Memory::default().names_bytes())
    }
}

impl FileNames {
    /// Nothing is known yet; what is learnt may take so many bytes. With [`Filehandles::Off`] nothing is.
    pub fn new(how: Filehandles, room_bytes: usize) -> Self {
        Self {
            how,
            store: FileNameStore::new(room_bytes),
            call: FilenameTokens::default(),
            reply: FilenameTokens::default(),
            told: ResolvedPaths::default(),
        }
    }

    /// The same, which tells of every operation of a COMPOUND, too.
    #[must_use]
    pub fn of_operations(mut self) -> Self {
        self.told.wants_all = true;
        self
    }

    /// Whether anything is told.
    pub fn is_on(&self) -> bool {
        self.how != Filehandles::Off
    }

    /// Learns from a Transaction that is over, and finds out what it is about.
    pub fn learn(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
    ) {
        self.listen(transaction, reading, facts, true);
    }

    /// Learns from the Replies that the last frame completed.
    pub fn learn_frame(&mut self, flow: &Flow) {
        if !self.is_on() {
            return;
        }
        for meaning in flow.meanings() {
            if let FrameKind::Message { key, which: RpcMessageKind::Reply } = *meaning
                && let Some(transaction) = flow.transaction(key)
            {
                transaction.read(|reading| self.learn(transaction, reading, &reading.facts()));
            }
        }
    }

    /// Finds out what a Transaction is about that is not over yet, or was learnt from before.
    pub fn look(&mut self, transaction: &Transaction, reading: &TransactionMessages<'_>, facts: &RpcSummary) {
        self.listen(transaction, reading, facts, false);
    }

    fn listen(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        is_new: bool,
    ) {
        if !self.is_on() {
            return;
        }
        self.told.clear();
        self.call.clear();
        self.reply.clear();
        if !path_inference::tells_of_files(facts) {
            return;
        }
        // What was heard before a message could not be read further stands.
        let _ = reading.observe_rpc(RpcMessageKind::Call, &mut self.call);
        if is_new {
            let _ = reading.observe_rpc(RpcMessageKind::Reply, &mut self.reply);
        }
        let Self { how, store, call, reply, told } = self;
        let server = server(transaction, facts);
        path_inference::FilenameWalk { how: *how, store, call, reply, told, server, learns: is_new }
            .transaction(facts);
    }

    /// What the Transaction is about that was learnt from last.
    pub fn about(&self) -> OperationPaths<'_> {
        self.told.about(&self.told.transaction)
    }

    /// What an operation of it is about, counted from 0 in its Call.
    pub fn about_operation(&self, at: usize) -> OperationPaths<'_> {
        self.told.operations.get(at).map(|ranges| self.told.about(ranges)).unwrap_or_default()
    }

    /// What is shown beside a filehandle, or beside an owner that is one: its path, if it is known, or its hash.
    pub fn beside(
        &self,
        transaction: &Transaction,
        facts: &RpcSummary,
        handle: &[u8],
        text: &mut Vec<u8>,
    ) -> bool {
        match self.how {
            Filehandles::Off | Filehandles::Hex => false,
            Filehandles::Hash => {
                number(Filehandles::Hash, handle, text);
                true
            }
            Filehandles::Names => {
                let id = self.store.find(server(transaction, facts), handle);
                let is_named = |id: &FileNodeId| {
                    self.store.way_up(*id).next().is_some_and(|(_, step)| step != PathComponent::Unknown)
                };
                let is_told = id.filter(is_named).is_some_and(|id| path(self.how, &self.store, id, text));
                if !is_told {
                    // As a line of the list calls the file.
                    number(Filehandles::Hash, handle, text);
                }
                true
            }
        }
    }

    /// Files that were forgotten because the memory for them is bounded, and words that were too many or too long.
    pub fn given_up(&self) -> u64 {
        self.store.forgotten + self.call.left_out + self.reply.left_out
    }
}

/// The server that the filehandles of a Transaction belong to. A callback comes from it.
fn server(transaction: &Transaction, facts: &RpcSummary) -> Host {
    let is_callback = facts.program.is_some_and(|program| program.is_transient());
    let name = &transaction.connection;
    let address = match is_callback == (transaction.direction == CallDirection::Reverse) {
        true => name.server.address,
        false => name.client.address,
    };
    Host { address, tenant: name.tenant }
}

/// Writes a filehandle without a name.
fn number(how: Filehandles, handle: &[u8], text: &mut Vec<u8>) {
    let mut digits = String::with_capacity(2 + 2 * handle.len());
    digits.push_str("0x");
    let _ = match how {
        Filehandles::Hex => handle.iter().try_for_each(|byte| write!(digits, "{byte:02x}")),
        _ => write!(digits, "{:08x}", hash(handle)),
    };
    text.extend_from_slice(digits.as_bytes());
}

/// The short hash that Wireshark has of a filehandle, `nfs.fh.hash`: its CRC-32, as Ethernet has it.
pub fn hash(handle: &[u8]) -> u32 {
    crc32fast::hash(handle)
}

/// Writes the path of a file; `false` if nothing is known of it.
fn path(how: Filehandles, store: &FileNameStore, id: FileNodeId, text: &mut Vec<u8>) -> bool {
    let start = text.len();
    let mut names: Vec<&[u8]> = Vec::new();
    for (at, step) in store.way_up(id) {
        let handle = store.handle_of(at);
        match (step, handle) {
            (_, Some(handle)) if how != Filehandles::Names => {
                number(how, handle, text);
                break;
            }
            (PathComponent::Name(name), _) => names.push(name),
            (PathComponent::Root(path), _) => {
                text.extend_from_slice(path.strip_suffix(b"/").unwrap_or(path));
                if names.is_empty() && text.len() == start {
                    text.push(b'/');
                }
                break;
            }
            (PathComponent::Unknown, Some(handle)) if names.is_empty() => {
                number(how, handle, text);
                break;
            }
            (PathComponent::Unknown, None) if names.is_empty() => return false,
            (PathComponent::Unknown, _) => {
                text.extend_from_slice(UNKNOWN.as_bytes());
                break;
            }
        }
    }
    for name in names.iter().rev() {
        text.push(b'/');
        text.extend_from_slice(name);
    }
    true
}
