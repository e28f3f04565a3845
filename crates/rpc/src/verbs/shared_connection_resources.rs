//! Resources that the connections to one server over one device share: a completion queue, and memory that no other
//! server can access.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::{RegisteredPayloadMemoryId, RpcTransportErrorKind};
use super::buffer_pool::{VerbsBufferPool, VerbsBufferPoolError};
use super::completions::{CompletionQueue, VerbsCompletion, VerbsCompletionBatch};
use super::context::{ProtectionDomain, VerbsContext};
use super::memory::{VerbsBuffer, VerbsMemoryAccess, VerbsSharedRegion};

/// Number of entries of the completion queue: an upper limit for the Work Requests of all its queue pairs together.
const COMPLETIONS: u32 = 1 << 16;
/// Maximum registered memory of each pool in bytes: for messages, for Read chunks, and for Write and Reply chunks.
const MAX_POOL_BYTES: usize = 1 << 30;

/// A device and the objects created on it for one server. A handle is valid for all queue pairs of a protection domain,
/// and some servers guess handles; so each server has its own domain.
#[derive(Debug)]
pub(super) struct PerServerVerbsResources {
    pub(super) server: IpAddr,
    pub(super) context: Arc<VerbsContext>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Completions that were polled but not processed.
    pub(super) ready: VecDeque<VerbsCompletion>,
    /// Buffer for the next poll.
    pub(super) batch: Box<VerbsCompletionBatch>,
    messages: VerbsBufferPool,
    read_pool: VerbsBufferPool,
    write_pool: VerbsBufferPool,
    /// Shared memory by its number; `None` for empty memory, which is not registered.
    stores: Vec<Option<VerbsSharedRegion>>,
}

impl PerServerVerbsResources {
    /// Creates the resources on an open device. `windows`: the server accesses memory only through windows.
    pub(super) fn new(
        context: VerbsContext,
        server: IpAddr,
        windows: bool,
    ) -> Result<Self, RpcTransportErrorKind> {
        let context = Arc::new(context);
        let domain = ProtectionDomain::new(&context, windows)?;
        let completions = CompletionQueue::new(&context, COMPLETIONS)?;
        let pool = |right| VerbsBufferPool::new(&domain, right, MAX_POOL_BYTES);
        Ok(Self {
            server,
            messages: pool(VerbsMemoryAccess::Message),
            read_pool: pool(VerbsMemoryAccess::RemoteRead),
            write_pool: pool(VerbsMemoryAccess::RemoteWrite),
            ready: VecDeque::new(),
            batch: Box::default(),
            stores: Vec::new(),
            context,
            domain,
            completions,
        })
    }

    /// Returns a buffer of at least `length` bytes for this access.
    pub(super) fn take(
        &mut self,
        right: VerbsMemoryAccess,
        length: usize,
    ) -> Result<VerbsBuffer, VerbsBufferPoolError> {
        self.pool(right).take(length)
    }

    /// Adds `count` buffers of at least `length` bytes to `into`, all or none.
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
                    self.release_all(into);
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    pub(super) fn release_all(&mut self, buffers: &mut Vec<VerbsBuffer>) {
        buffers.drain(..).for_each(|buffer| self.release(buffer));
    }

    pub(super) fn release(&mut self, buffer: VerbsBuffer) {
        self.pool(buffer.access()).release(buffer);
    }

    fn pool(&mut self, right: VerbsMemoryAccess) -> &mut VerbsBufferPool {
        match right {
            VerbsMemoryAccess::Message => &mut self.messages,
            VerbsMemoryAccess::RemoteRead => &mut self.read_pool,
            VerbsMemoryAccess::RemoteWrite => &mut self.write_pool,
        }
    }

    pub(super) fn share(&mut self, bytes: &Arc<[u8]>) -> Result<(), RpcTransportErrorKind> {
        let stored = if bytes.is_empty() { None } else { Some(VerbsSharedRegion::new(&self.domain, bytes)?) };
        self.stores.push(stored);
        Ok(())
    }

    pub(super) fn unshare(&mut self) {
        self.stores.pop();
    }

    /// Returns the registration of shared memory, unless it is empty or unknown.
    pub(super) fn shared_region(&self, store: RegisteredPayloadMemoryId) -> Option<&VerbsSharedRegion> {
        self.stores.get(store.0 as usize)?.as_ref()
    }
}
