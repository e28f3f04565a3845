//! What the connections to one server over one device share: a completion queue, and memory that no other server reaches.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::{RpcTransportErrorKind, SharedMemoryId};
use super::completions::{CompletionQueue, VerbsCompletion, VerbsCompletionBatch};
use super::context::{ProtectionDomain, VerbsContext};
use super::memory::{VerbsBuffer, VerbsMemoryAccess, VerbsSharedRegion};
use super::pool::{VerbsBufferPool, VerbsBufferPoolError};

/// Completions that are asked for room: the queue pairs of all connections together post no more than that.
const COMPLETIONS: u32 = 1 << 16;
/// Memory for messages, for what servers fetch, and for what they write, each: so much is registered at most.
const MOST_MEMORY: usize = 1 << 30;

/// A device and what is made on it for one server. Handles are good for all queue pairs of a protection domain, and some servers
/// guess: so each has its own.
#[derive(Debug)]
pub(super) struct VerbsServerResources {
    /// The server's address.
    pub(super) server: IpAddr,
    pub(super) context: Arc<VerbsContext>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Completions that were taken and not looked at.
    pub(super) ready: VecDeque<VerbsCompletion>,
    /// Room for those that are taken next.
    pub(super) batch: Box<VerbsCompletionBatch>,
    messages: VerbsBufferPool,
    fetched: VerbsBufferPool,
    written: VerbsBufferPool,
    /// Shared memory by its number; `None` where it is empty, and nothing to be registered.
    stores: Vec<Option<VerbsSharedRegion>>,
}

impl VerbsServerResources {
    /// Opens a device for use. `windows`: the server reaches memory by windows alone.
    pub(super) fn new(
        context: VerbsContext,
        server: IpAddr,
        windows: bool,
    ) -> Result<Self, RpcTransportErrorKind> {
        let context = Arc::new(context);
        let domain = ProtectionDomain::new(&context, windows)?;
        let completions = CompletionQueue::new(&context, COMPLETIONS)?;
        let pool = |right| VerbsBufferPool::new(&domain, right, MOST_MEMORY);
        Ok(Self {
            server,
            messages: pool(VerbsMemoryAccess::Message),
            fetched: pool(VerbsMemoryAccess::Fetched),
            written: pool(VerbsMemoryAccess::Written),
            ready: VecDeque::new(),
            batch: Box::default(),
            stores: Vec::new(),
            context,
            domain,
            completions,
        })
    }

    /// A buffer of at least this many bytes, for this use.
    pub(super) fn take(
        &mut self,
        right: VerbsMemoryAccess,
        length: usize,
    ) -> Result<VerbsBuffer, VerbsBufferPoolError> {
        self.pool(right).take(length)
    }

    /// So many buffers of at least this many bytes, all or none.
    pub(super) fn take_all(
        &mut self,
        right: VerbsMemoryAccess,
        length: usize,
        count: u32,
        into: &mut Vec<VerbsBuffer>,
    ) -> Result<(), VerbsBufferPoolError> {
        for _ in 0..count {
            match self.take(right, length) {
                Ok(buffer) => into.push(buffer),
                Err(why) => {
                    self.give_back_all(into);
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Takes buffers back.
    pub(super) fn give_back_all(&mut self, buffers: &mut Vec<VerbsBuffer>) {
        buffers.drain(..).for_each(|buffer| self.give_back(buffer));
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&mut self, buffer: VerbsBuffer) {
        self.pool(buffer.right()).give_back(buffer);
    }

    fn pool(&mut self, right: VerbsMemoryAccess) -> &mut VerbsBufferPool {
        match right {
            VerbsMemoryAccess::Message => &mut self.messages,
            VerbsMemoryAccess::Fetched => &mut self.fetched,
            VerbsMemoryAccess::Written => &mut self.written,
        }
    }

    /// Registers the next shared memory.
    pub(super) fn share(&mut self, bytes: &Arc<[u8]>) -> Result<(), RpcTransportErrorKind> {
        let stored = if bytes.is_empty() { None } else { Some(VerbsSharedRegion::new(&self.domain, bytes)?) };
        self.stores.push(stored);
        Ok(())
    }

    /// Takes back the last shared memory.
    pub(super) fn unshare(&mut self) {
        self.stores.pop();
    }

    /// Shared memory, if it is not empty.
    pub(super) fn stored(&self, store: SharedMemoryId) -> Option<&VerbsSharedRegion> {
        self.stores.get(store.0 as usize)?.as_ref()
    }
}
