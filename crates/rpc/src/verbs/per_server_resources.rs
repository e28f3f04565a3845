//! Resources that the connections to one server over one device share: a completion queue, and memory that no other
//! server can access.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::completions::{CompletionQueue, VerbsCompletion, VerbsCompletionBatch};
use super::context::{ProtectionDomain, VerbsContext};
use super::memory::{self, VerbsBuffer, VerbsMemoryAccess, VerbsSharedRegion};
use crate::outgoing_call::RegisteredPayloadMemoryId;
use crate::transport_error::RpcClientTransportErrorKind;

/// Number of entries of the completion queue: an upper limit for the Work Requests of all its queue pairs together.
const COMPLETIONS: u32 = 1 << 16;
/// Maximum registered memory of each pool in bytes: for messages, for Read chunks, and for Write and Reply chunks.
const MAX_POOL_BYTES: usize = 1 << 30;

/// A device and the objects created on it for one server. A handle is valid for all queue pairs of a protection domain,
/// and some servers guess handles; so each server has its own domain.
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
    ) -> Result<Self, RpcClientTransportErrorKind> {
        let context = Arc::new(context);
        let domain = ProtectionDomain::new(&context, windows)?;
        let completions = CompletionQueue::new(&context, COMPLETIONS)?;
        let pool = |access| VerbsBufferPool::new(&domain, access, MAX_POOL_BYTES);
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
        access: VerbsMemoryAccess,
        length: usize,
    ) -> Result<VerbsBuffer, VerbsBufferPoolError> {
        self.pool(access).take(length)
    }

    /// Adds `count` buffers of at least `length` bytes to `buffers`, all or none.
    pub(super) fn take_all(
        &mut self,
        access: VerbsMemoryAccess,
        length: usize,
        count: u32,
        buffers: &mut Vec<VerbsBuffer>,
    ) -> Result<(), VerbsBufferPoolError> {
        for _ in 0..count {
            let buffer = self.take(access, length).inspect_err(|_| self.release_all(buffers))?;
            buffers.push(buffer);
        }
        Ok(())
    }

    pub(super) fn release_all(&mut self, buffers: &mut Vec<VerbsBuffer>) {
        buffers.drain(..).for_each(|buffer| self.release(buffer));
    }

    pub(super) fn release(&mut self, buffer: VerbsBuffer) {
        self.pool(buffer.access()).release(buffer);
    }

    fn pool(&mut self, access: VerbsMemoryAccess) -> &mut VerbsBufferPool {
        match access {
            VerbsMemoryAccess::Message => &mut self.messages,
            VerbsMemoryAccess::RemoteRead => &mut self.read_pool,
            VerbsMemoryAccess::RemoteWrite => &mut self.write_pool,
        }
    }

    pub(super) fn share(&mut self, bytes: &Arc<[u8]>) -> Result<(), RpcClientTransportErrorKind> {
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

/// Size of the smallest buffers in bytes: the minimum inline threshold.
const SMALLEST: usize = 1024;
/// Size of the largest buffers: 64 MiB, more than any NFS server accepts in one operation.
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CLASSES: usize = 17;
/// Minimum number of bytes per registration.
const MIN_REGISTRATION_BYTES: usize = 1 << 20;

/// Free buffers of one access right, by size class: powers of two. Sending a Call registers no memory.
struct VerbsBufferPool {
    domain: Arc<ProtectionDomain>,
    access: VerbsMemoryAccess,
    free: [Vec<VerbsBuffer>; CLASSES],
    registered: usize,
    max_bytes: usize,
}

/// The reason that there is no buffer.
pub(super) enum VerbsBufferPoolError {
    /// All memory of the pool is in use.
    Exhausted,
    /// No size class has this length, or its first registration alone exceeds the limit of the pool.
    TooLong,
    /// The device, or the limit of locked memory, does not allow more.
    Failed(RpcClientTransportErrorKind),
}

impl VerbsBufferPoolError {
    /// Returns the error of a connection that cannot be set up for this reason.
    pub(super) fn into_kind(self) -> RpcClientTransportErrorKind {
        match self {
            Self::Failed(kind) => kind,
            Self::Exhausted | Self::TooLong => {
                let error = std::io::Error::other("all registered memory is in use");
                RpcClientTransportErrorKind::System("taking memory for messages", error)
            }
        }
    }
}

impl VerbsBufferPool {
    /// Creates an empty pool that registers at most `max_bytes` bytes.
    fn new(domain: &Arc<ProtectionDomain>, access: VerbsMemoryAccess, max_bytes: usize) -> Self {
        Self { domain: Arc::clone(domain), access, free: Default::default(), registered: 0, max_bytes }
    }

    /// Returns a buffer of at least `length` bytes; registers memory if none is free. Returns the
    /// [`VerbsBufferPoolError`] that applies.
    fn take(&mut self, length: usize) -> Result<VerbsBuffer, VerbsBufferPoolError> {
        let (class, size) = class(length).ok_or(VerbsBufferPoolError::TooLong)?;
        let free = self.free.get_mut(class).ok_or(VerbsBufferPoolError::TooLong)?;
        if let Some(buffer) = free.pop() {
            return Ok(buffer);
        }
        let count = (MIN_REGISTRATION_BYTES / size).max(1);
        if self.registered + count * size > self.max_bytes {
            return Err(if count * size > self.max_bytes {
                VerbsBufferPoolError::TooLong
            } else {
                VerbsBufferPoolError::Exhausted
            });
        }
        let buffers = memory::allocate(&self.domain, self.access, size, count).map_err(VerbsBufferPoolError::Failed)?;
        self.registered += count * size;
        free.extend(buffers);
        free.pop().ok_or(VerbsBufferPoolError::Exhausted)
    }

    fn release(&mut self, buffer: VerbsBuffer) {
        if let Some(free) = class(buffer.length()).and_then(|(class, _)| self.free.get_mut(class)) {
            free.push(buffer);
        }
    }
}

/// Returns the size class for `length` bytes, and the size of its buffers.
fn class(length: usize) -> Option<(usize, usize)> {
    if length > LARGEST {
        return None;
    }
    let size = length.max(SMALLEST).next_power_of_two();
    Some(((size / SMALLEST).trailing_zeros() as usize, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_the_next_power_of_two() {
        assert_eq!(class(0), Some((0, 1024)));
        assert_eq!(class(1024), Some((0, 1024)));
        assert_eq!(class(1025), Some((1, 2048)));
        assert_eq!(class(1 << 20), Some((10, 1 << 20)));
        assert_eq!(class(LARGEST), Some((CLASSES - 1, LARGEST)));
        assert_eq!(class(LARGEST + 1), None);
    }
}
