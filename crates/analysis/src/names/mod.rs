//! File names: the paths of filehandles, inferred from Transactions.
//!
//! A filehandle is opaque to everyone except its server. Calls and Replies name it: LOOKUP, OPEN, CREATE and similar
//! operations name a file in a directory, READDIRPLUS names all of them, MNT and PUTROOTFH are the roots of paths, and
//! RENAME, LINK and REMOVE change names. [`FileNames`] observes each Transaction, stores the names by server, and
//! returns the paths of the Transaction and its operations. Later names do not change paths that were returned before.
//!
//! - [`path_inference_token_stream`]: the tokens of a message;
//! - [`path_inference`]: their meaning, with the current and the saved filehandle of a COMPOUND;
//! - [`transaction_paths`]: paths of a Transaction and its operations, as text;
//! - [`file_node_store`]: the names, in bounded memory.

mod file_node_store;
mod path_inference;
mod path_inference_token_stream;
#[cfg(test)]
mod tests;
pub(crate) mod transaction_paths;

use nfsrdma_flow::transaction::{CallDirection, RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{Flow, FrameContentKind, TransactionSlabKey};
use rustc_hash::FxHashSet;

use crate::memory_budget_shares::CommandMemoryBudget;
use file_node_store::{FileNodeId, FileNodeStore, PathComponent, ServerAddressAndVirtualNetwork};
use path_inference_token_stream::MessageFilenameTokens;
use transaction_paths::{TransactionOperationPaths, number, path};

/// The name of every field that is a filehandle.
pub use nfsrdma_dissectors::field_names::NFS_FHANDLE as FILEHANDLE;
pub use transaction_paths::{FilehandleDisplay, OperationPaths, UNKNOWN_PREFIX, hash};

/// Maximum number of Transactions whose Replies may be completed by later copies.
const MAX_PARTIAL_REPLIES: usize = 4_096;

/// The names of files.
#[derive(Debug)]
pub struct FileNames {
    display: FilehandleDisplay,
    store: FileNodeStore,
    call: MessageFilenameTokens,
    reply: MessageFilenameTokens,
    resolved: TransactionOperationPaths,
    /// Transactions whose Reply could not be decoded to its end when it came: data of its Reply chunk was lost.
    partial_replies: FxHashSet<TransactionSlabKey>,
}

impl Default for FileNames {
    fn default() -> Self {
        Self::new(FilehandleDisplay::default(), CommandMemoryBudget::default().names_bytes())
    }
}

impl FileNames {
    /// Creates an empty table that uses up to `limit_bytes` bytes. With [`FilehandleDisplay::Off`] it stays empty.
    pub fn new(display: FilehandleDisplay, limit_bytes: usize) -> Self {
        Self {
            display,
            store: FileNodeStore::new(limit_bytes),
            call: MessageFilenameTokens::default(),
            reply: MessageFilenameTokens::default(),
            resolved: TransactionOperationPaths::default(),
            partial_replies: FxHashSet::default(),
        }
    }

    /// Enables paths for every operation of a COMPOUND.
    #[must_use]
    pub fn with_operations(mut self) -> Self {
        self.resolved.wants_all = true;
        self
    }

    /// Returns `true` unless names are off.
    pub fn is_enabled(&self) -> bool {
        self.display != FilehandleDisplay::Off
    }

    /// Adds the names of a completed Transaction, and resolves its paths.
    pub fn infer(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        self.infer_paths(transaction, messages, summary, true);
    }

    /// Adds the names of the Replies that the last frame completed. The first copy of a Reply may come without the data
    /// of its Reply chunk; then a later copy has the names.
    pub fn infer_from_frame(&mut self, flow: &Flow) {
        if !self.is_enabled() {
            return;
        }
        for kind in flow.frame_kinds() {
            let key = match *kind {
                FrameContentKind::Message { key, which: RpcMessageKind::Reply } => key,
                FrameContentKind::Retransmission { key, which: RpcMessageKind::Reply }
                    if self.partial_replies.remove(&key) =>
                {
                    key
                }
                _ => continue,
            };
            let Some(transaction) = flow.transaction(key) else { continue };
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                self.infer(transaction, messages, &summary);
                if summary.reply_error.is_some() {
                    // Most are of Transactions without later copies.
                    if self.partial_replies.len() >= MAX_PARTIAL_REPLIES {
                        self.partial_replies.clear();
                    }
                    self.partial_replies.insert(key);
                }
            });
        }
    }

    /// Resolves the paths of a Transaction that is incomplete or was added before.
    pub fn resolve(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        self.infer_paths(transaction, messages, summary, false);
    }

    fn infer_paths(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        is_new: bool,
    ) {
        if !self.is_enabled() {
            return;
        }
        self.resolved.clear();
        self.call.clear();
        self.reply.clear();
        if !path_inference::has_files(summary) {
            return;
        }
        // Tokens before a decoding error are valid.
        let _ = messages.observe_rpc(RpcMessageKind::Call, &mut self.call);
        if is_new {
            let _ = messages.observe_rpc(RpcMessageKind::Reply, &mut self.reply);
        }
        let Self { display, store, call, reply, resolved, .. } = self;
        let server = server(transaction, summary);
        path_inference::TransactionPathResolver {
            display: *display,
            store,
            call,
            reply,
            resolved,
            server,
            uses_reply: is_new,
        }
        .transaction(summary);
    }

    /// Returns the paths of the Transaction resolved last.
    pub fn paths(&self) -> OperationPaths<'_> {
        self.resolved.paths(&self.resolved.transaction)
    }

    /// Returns the paths of an operation of it, counted from 0 in its Call.
    pub fn operation_paths(&self, at: usize) -> OperationPaths<'_> {
        self.resolved.operations.get(at).map(|ranges| self.resolved.paths(ranges)).unwrap_or_default()
    }

    /// Writes the path or hash of a filehandle, or of an owner that is one; returns `false` if there is none to show.
    pub fn write_annotation(
        &self,
        transaction: &Transaction,
        summary: &RpcSummary,
        handle: &[u8],
        text: &mut Vec<u8>,
    ) -> bool {
        match self.display {
            FilehandleDisplay::Off | FilehandleDisplay::Hex => return false,
            FilehandleDisplay::Hash => {}
            FilehandleDisplay::Names => {
                let is_named = |id: &FileNodeId| {
                    let mut components = self.store.components_up(*id);
                    components.next().is_some_and(|(_, component)| component != PathComponent::Unknown)
                };
                let id = self.store.find(server(transaction, summary), handle).filter(is_named);
                if id.is_some_and(|id| path(self.display, &self.store, id, text)) {
                    return true;
                }
            }
        }
        // A file without a name has the same text as in the list of Transactions.
        number(FilehandleDisplay::Hash, handle, text);
        true
    }

    /// Returns the number of evicted files and of dropped tokens.
    pub fn dropped_count(&self) -> u64 {
        self.store.evicted + self.call.dropped + self.reply.dropped
    }
}

/// Returns the server of the filehandles of a Transaction. A callback comes from it.
fn server(transaction: &Transaction, summary: &RpcSummary) -> ServerAddressAndVirtualNetwork {
    let is_callback = summary.program.is_some_and(|program| program.is_transient());
    let name = &transaction.connection;
    let address = match is_callback == (transaction.direction == CallDirection::Reverse) {
        true => name.server.address,
        false => name.client.address,
    };
    ServerAddressAndVirtualNetwork { address, tenant: name.tenant }
}
