//! Pools of registered memory, so that sending a Call registers none.

use std::sync::Arc;

use super::super::RpcTransportErrorKind;
use super::context::ProtectionDomain;
use super::memory::{self, VerbsBuffer, VerbsMemoryAccess};

/// Size of the smallest buffers in bytes: the minimum inline threshold.
const SMALLEST: usize = 1024;
/// Size of the largest buffers: 64 MiB, more than any NFS server accepts in one operation.
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CLASSES: usize = 17;
/// Minimum number of bytes per registration.
const MIN_REGISTRATION_BYTES: usize = 1 << 20;

/// Free buffers of one access right, by size class: powers of two.
#[derive(Debug)]
pub(crate) struct VerbsBufferPool {
    domain: Arc<ProtectionDomain>,
    access: VerbsMemoryAccess,
    free: [Vec<VerbsBuffer>; CLASSES],
    registered: usize,
    max_bytes: usize,
}

/// The reason that there is no buffer.
#[derive(Debug)]
pub(crate) enum VerbsBufferPoolError {
    /// All memory of the pool is in use.
    Exhausted,
    /// No size class has this length, or its first registration alone exceeds the limit of the pool.
    TooLong,
    /// The device, or the limit of locked memory, does not allow more.
    Failed(RpcTransportErrorKind),
}

impl VerbsBufferPoolError {
    /// Returns the error of a connection that cannot be set up for this reason.
    pub(crate) fn into_kind(self) -> RpcTransportErrorKind {
        match self {
            Self::Failed(kind) => kind,
            Self::Exhausted | Self::TooLong => {
                let error = std::io::Error::other("all registered memory is in use");
                RpcTransportErrorKind::System("taking memory for messages", error)
            }
        }
    }
}

impl VerbsBufferPool {
    /// Creates an empty pool that registers at most `most` bytes.
    pub(crate) fn new(domain: &Arc<ProtectionDomain>, right: VerbsMemoryAccess, most: usize) -> Self {
        Self {
            domain: Arc::clone(domain),
            access: right,
            free: Default::default(),
            registered: 0,
            max_bytes: most,
        }
    }

    /// Returns a buffer of at least `length` bytes; registers memory if none is free. Returns the
    /// [`VerbsBufferPoolError`] that applies.
    pub(crate) fn take(&mut self, length: usize) -> Result<VerbsBuffer, VerbsBufferPoolError> {
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
        let buffers =
            memory::allocate(&self.domain, self.access, size, count).map_err(VerbsBufferPoolError::Failed)?;
        self.registered += count * size;
        free.extend(buffers);
        free.pop().ok_or(VerbsBufferPoolError::Exhausted)
    }

    pub(crate) fn release(&mut self, buffer: VerbsBuffer) {
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
