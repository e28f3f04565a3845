//! Buffers that a server can access, and the data that it wrote to them.
//!
//! A server need not comply: a handle that it received stays valid until it is invalidated. So memory that servers may
//! write to is never visible as a slice of a buffer: the data is in [`VerbsServerWrittenData`], a copy unless the
//! handle has ended.

use std::ops::Deref;

use nfsrdma_dissectors::memory_handle::Handle;

use super::memory::VerbsBuffer;
use super::window::{QueuePairMemoryWindows, VerbsBoundWindow};
use super::work_queues::{QueuePairDestructionProof, VerbsServerCompletionProof};
use crate::rpcrdma_framing::offered_chunks::ContiguousChunkMemory;

/// A buffer whose handle the server has. Its bytes are inaccessible until it comes back: after the Reply, if no window
/// is bound to it or the window has ended, and otherwise as [`VerbsBufferAwaitingInvalidation`].
///
/// Without a window the handle is that of the whole region, so that a server which violates RFC 8166 section 4.4.1, and
/// writes after its Reply, can still change the results of later Calls to this server before their Reply. It cannot
/// access memory for other servers, as each server has its own protection domain.
pub(crate) struct VerbsExposedBuffer {
    buffer: VerbsBuffer,
    advertised: ContiguousChunkMemory,
    window: Option<VerbsBoundWindow>,
    queue: u32,
    exposed_at: u64,
}

/// A buffer whose window is still open after the Reply: the server can access its bytes until a Work Request has
/// invalidated the handle. The queue pair keeps it until then.
pub(super) struct VerbsBufferAwaitingInvalidation {
    pub(super) handle: Handle,
    pub(super) buffer: VerbsBuffer,
}

impl VerbsExposedBuffer {
    /// Wraps an exposed buffer. `window` is the window bound to it; without one the server gets the handle of the
    /// registration.
    pub(super) fn new(
        buffer: VerbsBuffer,
        length: usize,
        window: Option<VerbsBoundWindow>,
        queue: u32,
        exposed_at: u64,
    ) -> Self {
        let advertised = buffer.advertised(length, window.as_ref().map(|bound| bound.handle));
        Self { buffer, advertised, window, queue, exposed_at }
    }

    pub(super) fn is_exposed_by(&self, queue: u32) -> bool {
        self.queue == queue
    }

    pub(crate) fn region(&self) -> ContiguousChunkMemory {
        self.advertised
    }

    /// Returns the first `length` bytes, and the buffer if its window is still open, as in
    /// [`take_back`](Self::take_back), unless `keeps_exposed` leaves them exposed. `windows` are those of its queue
    /// pair; `copy_buffer` is storage for a copy, if one is necessary. Returns itself and `copy_buffer` if
    /// `keeps_exposed` returned `true`, or the fence does not cover it.
    pub(super) fn take_written(
        self,
        fence: &VerbsServerCompletionProof,
        windows: Option<&mut QueuePairMemoryWindows>,
        length: usize,
        mut copy_buffer: Vec<u8>,
        keeps_exposed: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(VerbsServerWrittenData, Option<VerbsBufferAwaitingInvalidation>), (Self, Vec<u8>)> {
        if !fence.covers(self.queue, self.exposed_at) {
            return Err((self, copy_buffer));
        }
        let length = length.min(self.advertised.length as usize);
        let has_ended = self.buffer.uses_windows()
            && match (&self.window, &windows) {
                (Some(bound), Some(windows)) => !windows.is_open(bound),
                _ => false,
            };
        let bytes = if has_ended {
            // SAFETY: the domain uses windows, this one has ended, and the buffer is not bound to another meanwhile.
            unsafe { self.buffer.written_bytes(length) }
        } else {
            self.buffer.copy(length, &mut copy_buffer);
            &copy_buffer
        };
        if keeps_exposed(bytes) {
            return Err((self, copy_buffer));
        }
        Ok(match release_window(self.buffer, self.window, windows) {
            Ok(buffer) if has_ended => {
                (VerbsServerWrittenData(VerbsWrittenBufferOrCopy::InPlace(buffer, length)), None)
            }
            Ok(buffer) => (VerbsServerWrittenData(VerbsWrittenBufferOrCopy::Copied(copy_buffer, Some(buffer))), None),
            Err(open) => (VerbsServerWrittenData(VerbsWrittenBufferOrCopy::Copied(copy_buffer, None)), Some(open)),
        })
    }

    /// Returns the buffer after a Receive that completed after it was exposed: the server's operations before that Send
    /// are done (RFC 8166 section 2.2.1). The caller knows which Receive is the Reply. `windows` are those of its queue
    /// pair. Returns itself if the fence is of another queue pair, or of an earlier Receive.
    pub(super) fn take_back(
        self,
        fence: &VerbsServerCompletionProof,
        windows: Option<&mut QueuePairMemoryWindows>,
    ) -> Result<Result<VerbsBuffer, VerbsBufferAwaitingInvalidation>, Self> {
        if !fence.covers(self.queue, self.exposed_at) {
            return Err(self);
        }
        Ok(release_window(self.buffer, self.window, windows))
    }

    /// Returns the buffer after the end of its queue pair, which also ended its window. Returns itself if the end is
    /// that of another queue pair.
    pub(crate) fn take_after_end(self, end: &QueuePairDestructionProof) -> Result<VerbsBuffer, Self> {
        if end.queue == self.queue { Ok(self.buffer) } else { Err(self) }
    }
}

/// Releases the window of a buffer. If the window is still open, the buffer is not returned as free.
fn release_window(
    buffer: VerbsBuffer,
    window: Option<VerbsBoundWindow>,
    windows: Option<&mut QueuePairMemoryWindows>,
) -> Result<VerbsBuffer, VerbsBufferAwaitingInvalidation> {
    let Some(bound) = window else { return Ok(buffer) };
    let handle = bound.handle;
    match windows.map(|windows| windows.release(bound)) {
        Some(None) => Ok(buffer),
        Some(Some(_)) | None => Err(VerbsBufferAwaitingInvalidation { handle, buffer }),
    }
}

/// Bytes that the server wrote: a copy, as the server may write for longer than it should, or the buffer itself if the
/// only handle to it was that of a window that has ended.
pub(crate) struct VerbsServerWrittenData(VerbsWrittenBufferOrCopy);

enum VerbsWrittenBufferOrCopy {
    /// The first bytes of a buffer, in place, and their number. Created only by [`VerbsExposedBuffer::take_written`],
    /// if the window has ended.
    InPlace(VerbsBuffer, usize),
    /// A copy, and the buffer that was copied, unless a window to that is still open.
    Copied(Vec<u8>, Option<VerbsBuffer>),
}

impl VerbsServerWrittenData {
    /// Returns the buffer, if it is free, and the storage of the copy.
    pub(crate) fn into_parts(self) -> (Option<VerbsBuffer>, Option<Vec<u8>>) {
        match self.0 {
            VerbsWrittenBufferOrCopy::InPlace(buffer, _) => (Some(buffer), None),
            VerbsWrittenBufferOrCopy::Copied(copy, buffer) => (buffer, Some(copy)),
        }
    }
}

impl Deref for VerbsServerWrittenData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            VerbsWrittenBufferOrCopy::Copied(copy, _) => copy,
            // SAFETY: `take_written` created this after the window with the handle that the server had was closed, in
            // a domain of windows. No other window is bound to these bytes meanwhile, as that would require the buffer.
            VerbsWrittenBufferOrCopy::InPlace(buffer, length) => unsafe { buffer.written_bytes(*length) },
        }
    }
}
