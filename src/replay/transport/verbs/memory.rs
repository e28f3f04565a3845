//! Memory that the device can reach. Whoever has a [`VerbsBuffer`] has its bytes alone: one that the device, or the server,
//! may use is moved into a queue pair or into an [`VerbsExposedBuffer`], neither of which shows its bytes, and comes back with
//! the completion that says that the use is over.
//!
//! A server need not keep to that: a handle that it was told stays good until it is invalidated. So memory that servers may write to
//! is never shown as bytes: what they wrote is [`VerbsWrittenBytes`], which is a copy unless the handle has ended.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;
use rdma_mummy_sys::ibv_access_flags as access;

use super::super::RpcTransportErrorKind;
use super::super::framing;
use super::context::ProtectionDomain;
use super::window::{VerbsBoundWindow, VerbsQueuePairWindows};
use super::work_queues::{VerbsQueuePairEnd, VerbsServerFence};

/// Regions begin at multiples of this, which is a page everywhere.
const ALIGNMENT: usize = 4096;
/// Buffers begin at multiples of this, so that they can be read word by word.
const WORD: usize = size_of::<u64>();

/// What may be done with a region from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbsMemoryAccess {
    /// Nothing: for Sends and Receives.
    Message,
    /// The server may read: for Read chunks.
    Fetched,
    /// The server may write: for Write and Reply chunks.
    Written,
}

impl VerbsMemoryAccess {
    /// Of a registration. Where the server comes by windows alone the registration itself lets it do nothing, so that a handle
    /// which it guesses is worth nothing. InfiniBand Architecture Specification, volume 1, section 10.6.7.2.
    fn flags(self, windows: bool) -> access {
        match (self, windows) {
            (Self::Message, _) => access::IBV_ACCESS_LOCAL_WRITE,
            (Self::Fetched, false) => access::IBV_ACCESS_REMOTE_READ,
            (Self::Fetched, true) => access::IBV_ACCESS_MW_BIND,
            (Self::Written, false) => access::IBV_ACCESS_LOCAL_WRITE | access::IBV_ACCESS_REMOTE_WRITE,
            (Self::Written, true) => access::IBV_ACCESS_LOCAL_WRITE | access::IBV_ACCESS_MW_BIND,
        }
    }

    /// Of a window, which has nothing to do with this side.
    fn window_flags(self) -> access {
        match self {
            Self::Message => access(0),
            Self::Fetched => access::IBV_ACCESS_REMOTE_READ,
            Self::Written => access::IBV_ACCESS_REMOTE_WRITE,
        }
    }
}

/// Where the bytes of a region are from.
enum VerbsRegionMemory {
    Owned(NonNull<u8>, Layout),
    /// Never written to, neither by the device nor by anyone else.
    Shared(Arc<[u8]>),
}

impl Drop for VerbsRegionMemory {
    fn drop(&mut self) {
        if let Self::Owned(start, layout) = *self {
            // SAFETY: allocated with this layout by `Region::allocate`, freed once, and not registered any more: a region
            // forgets its bytes where it cannot take back the registration.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// A memory region: bytes, and their registration with the device.
struct VerbsMemoryRegion {
    registration: NonNull<ffi::ibv_mr>,
    bytes: std::mem::ManuallyDrop<VerbsRegionMemory>,
    right: VerbsMemoryAccess,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: a registration is safe to use from any thread. Its bytes are reached through `Buffer`s, which have disjoint
// parts of them, or are shared and never change.
unsafe impl Send for VerbsMemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for VerbsMemoryRegion {}

impl fmt::Debug for VerbsMemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").finish_non_exhaustive()
    }
}

impl VerbsMemoryRegion {
    fn allocate(
        domain: &Arc<ProtectionDomain>,
        length: usize,
        right: VerbsMemoryAccess,
    ) -> Result<Self, RpcTransportErrorKind> {
        let no_memory = || RpcTransportErrorKind::Memory(length as u64, io::ErrorKind::OutOfMemory.into());
        let layout = Layout::from_size_align(length.max(1), ALIGNMENT).map_err(|_| no_memory())?;
        // SAFETY: the layout is not of size zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        Self::register(domain, VerbsRegionMemory::Owned(start, layout), right)
    }

    fn register(
        domain: &Arc<ProtectionDomain>,
        bytes: VerbsRegionMemory,
        right: VerbsMemoryAccess,
    ) -> Result<Self, RpcTransportErrorKind> {
        let (start, length) = match &bytes {
            VerbsRegionMemory::Owned(start, layout) => (start.as_ptr(), layout.size()),
            VerbsRegionMemory::Shared(shared) => (shared.as_ptr().cast_mut(), shared.len()),
        };
        let flags = i32::try_from(right.flags(domain.windows()).0).unwrap_or(0);
        // SAFETY: the bytes are allocated, and stay so until the registration is gone. Shared ones are registered for
        // reading only.
        let registration = unsafe { ffi::ibv_reg_mr(domain.pointer(), start.cast(), length, flags) };
        let Some(registration) = NonNull::new(registration) else {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                // More locked memory would not help.
                Some(libc::EOPNOTSUPP) => super::failure::kind("ibv_reg_mr", error),
                _ => RpcTransportErrorKind::Memory(length as u64, error),
            });
        };
        Ok(Self {
            registration,
            bytes: std::mem::ManuallyDrop::new(bytes),
            right,
            domain: Arc::clone(domain),
        })
    }

    fn start(&self) -> *mut u8 {
        match &*self.bytes {
            VerbsRegionMemory::Owned(start, _) => start.as_ptr(),
            VerbsRegionMemory::Shared(bytes) => bytes.as_ptr().cast_mut(),
        }
    }

    fn length(&self) -> usize {
        match &*self.bytes {
            VerbsRegionMemory::Owned(_, layout) => layout.size(),
            VerbsRegionMemory::Shared(bytes) => bytes.len(),
        }
    }

    fn local_key(&self) -> u32 {
        // SAFETY: the registration is valid until `drop`.
        unsafe { self.registration.as_ref().lkey }
    }

    fn handle(&self) -> Handle {
        // SAFETY: as above.
        Handle(unsafe { self.registration.as_ref().rkey })
    }
}

impl Drop for VerbsMemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered once, and given up once.
        let result = unsafe { ffi::ibv_dereg_mr(self.registration.as_ptr()) };
        // Memory that the device may still reach is better lost than used for something else.
        if result == 0 {
            // SAFETY: dropped here only.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.bytes) };
        }
    }
}

/// Registers memory and cuts it into buffers of one length, which is a multiple of a word: up to seven bytes more than asked for.
///
/// # Errors
/// Where the device, or the limit of locked memory, does not allow it.
pub(crate) fn allocate(
    domain: &Arc<ProtectionDomain>,
    right: VerbsMemoryAccess,
    length: usize,
    count: usize,
) -> Result<impl Iterator<Item = VerbsBuffer> + use<>, RpcTransportErrorKind> {
    let length = whole_words(length);
    let region = Arc::new(VerbsMemoryRegion::allocate(domain, length.saturating_mul(count), right)?);
    // Each part has its own place, so that no two buffers share a byte.
    let parts = region.length().checked_div(length).unwrap_or(0).min(count);
    Ok((0..parts).map(move |part| VerbsBuffer { region: Arc::clone(&region), at: part * length, length }))
}

/// So many bytes, or a few more.
fn whole_words(length: usize) -> usize {
    // What is too long for that is no memory there is.
    length.checked_next_multiple_of(WORD).unwrap_or(usize::MAX & !(WORD - 1))
}

/// Bytes that the device can reach, and nobody else now.
#[derive(Debug)]
pub(crate) struct VerbsBuffer {
    region: Arc<VerbsMemoryRegion>,
    at: usize,
    length: usize,
}

impl VerbsBuffer {
    /// Where the device finds the first `length` bytes.
    pub(super) fn gather(&self, length: usize) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.start() as u64,
            length: u32::try_from(length.min(self.length)).unwrap_or(u32::MAX),
            lkey: self.region.local_key(),
        }
    }

    /// What may be done with it from outside.
    pub(crate) fn right(&self) -> VerbsMemoryAccess {
        self.region.right
    }

    /// How many bytes it has, those that are not shown included.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn start(&self) -> *mut u8 {
        self.region.start().wrapping_add(self.at)
    }

    /// Copies the first `length` bytes, which a server may be changing.
    fn copy(&self, length: usize, into: &mut Vec<u8>) {
        into.resize(length.min(self.length), 0);
        let mut words = into.chunks_exact_mut(WORD);
        let mut from = self.start();
        for place in &mut words {
            // SAFETY: within the buffer, which is allocated and initialized. It begins at a multiple of a word: regions that are shared
            // have no buffers, and `allocate` cuts the others, which begin at a page, into whole words. The device may write there
            // meanwhile: so each word is read once, as memory that changes by itself, and any value is a number.
            let word = unsafe { from.cast::<u64>().read_volatile() };
            place.copy_from_slice(&word.to_ne_bytes());
            from = from.wrapping_add(WORD);
        }
        for place in words.into_remainder() {
            // SAFETY: as above.
            *place = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
    }

    /// The first `length` bytes, whatever may have been done with them from outside.
    ///
    /// # Safety
    /// The device does not write to them as long as the slice is there: the buffer is in no queue pair, its domain is one of windows,
    /// in which the registration lets no server do anything, and no window is bound to it. None is when a buffer is made, and
    /// one that was bound comes back only when its window has ended, on whichever connection that was.
    unsafe fn written(&self, length: usize) -> &[u8] {
        // SAFETY: within the buffer, which is allocated and initialized; the device does not write to it, as the caller says.
        unsafe { std::slice::from_raw_parts(self.start(), length.min(self.length)) }
    }

    /// The first `length` bytes, for a window.
    pub(super) fn part(&self, length: usize) -> VerbsRegionSlice {
        let length = u32::try_from(length.min(self.length)).unwrap_or(u32::MAX);
        VerbsRegionSlice { region: Arc::clone(&self.region), start: self.start() as u64, length }
    }
}

/// Bytes of a registration that a window is to be bound to. They stay registered as long as this is there.
#[derive(Debug)]
pub(super) struct VerbsRegionSlice {
    region: Arc<VerbsMemoryRegion>,
    start: u64,
    length: u32,
}

impl VerbsRegionSlice {
    /// What a Work Request that binds a window says of them.
    pub(super) fn bind_info(&self) -> ffi::ibv_mw_bind_info {
        ffi::ibv_mw_bind_info {
            mr: self.region.registration.as_ptr(),
            addr: self.start,
            length: self.length.into(),
            mw_access_flags: self.region.right.window_flags().0,
        }
    }

    /// What the server is told, with the handle of the window.
    pub(super) fn region(&self, handle: Handle) -> framing::ChunkRegion {
        framing::ChunkRegion { handle, offset: self.start, length: self.length }
    }
}

impl Deref for VerbsBuffer {
    type Target = [u8];

    /// Nothing, where servers may write: see [`VerbsWrittenBytes`].
    fn deref(&self) -> &[u8] {
        let length = if self.right() == VerbsMemoryAccess::Written { 0 } else { self.length };
        // SAFETY: this part of the region belongs to this buffer alone, as `allocate` made it so; it is initialized; no server
        // may write to it, whatever handle it has; and the device does not, as a buffer that it may write to is in a queue pair.
        unsafe { std::slice::from_raw_parts(self.start(), length) }
    }
}

impl DerefMut for VerbsBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let length = if self.right() == VerbsMemoryAccess::Written { 0 } else { self.length };
        // SAFETY: as above, and the device does not read it for this side; what a server reads of it, against the rules, changes
        // nothing here.
        unsafe { std::slice::from_raw_parts_mut(self.start(), length) }
    }
}

/// A buffer that the server was told the handle of. Its bytes are not to be seen until it comes back: after the Reply, if no window
/// is bound to it or that has ended, and otherwise as [`VerbsOpenWindowBuffer`].
///
/// Without a window the handle is that of the whole region, so that a server which breaks RFC 8166 section 4.4.1, and writes
/// after its Reply, can still change what later Calls to this server get, before they have their Reply; of other servers it reaches
/// nothing, as each has a protection domain of its own.
#[derive(Debug)]
pub(crate) struct VerbsExposedBuffer {
    buffer: VerbsBuffer,
    told: framing::ChunkRegion,
    window: Option<VerbsBoundWindow>,
    queue: u32,
    since: u64,
}

/// A buffer whose window is open after the Reply: the server can reach its bytes until a Work Request has ended the handle. Its
/// queue pair keeps it until then.
#[derive(Debug)]
pub(super) struct VerbsOpenWindowBuffer {
    pub(super) handle: Handle,
    pub(super) buffer: VerbsBuffer,
}

impl VerbsExposedBuffer {
    /// `window`: the window that is bound to it; without one the server is told the handle of its registration.
    pub(super) fn new(
        buffer: VerbsBuffer,
        length: usize,
        window: Option<VerbsBoundWindow>,
        queue: u32,
        since: u64,
    ) -> Self {
        let handle = window.as_ref().map_or_else(|| buffer.region.handle(), |bound| bound.handle);
        let length = u32::try_from(length.min(buffer.length)).unwrap_or(u32::MAX);
        let told = framing::ChunkRegion { handle, offset: buffer.start() as u64, length };
        Self { buffer, told, window, queue, since }
    }

    /// Whether it was exposed by this queue pair.
    pub(super) fn is_of(&self, queue: u32) -> bool {
        self.queue == queue
    }

    /// What the server is told.
    pub(crate) fn region(&self) -> framing::ChunkRegion {
        self.told
    }

    /// The first `length` bytes, and its buffer if the window is still open, as [`take_back`](Self::take_back), unless `keep` leaves
    /// them to the server. `windows`: those of its queue pair. `room` is for a copy, where one is needed.
    ///
    /// # Errors
    /// Itself and the room, where they are kept, or the fence does not cover it.
    pub(super) fn see(
        self,
        fence: &VerbsServerFence,
        windows: Option<&mut VerbsQueuePairWindows>,
        length: usize,
        mut room: Vec<u8>,
        keep: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(VerbsWrittenBytes, Option<VerbsOpenWindowBuffer>), (Self, Vec<u8>)> {
        if !fence.covers(self.queue, self.since) {
            return Err((self, room));
        }
        let length = length.min(self.told.length as usize);
        let has_ended = self.buffer.region.domain.windows()
            && match (&self.window, &windows) {
                (Some(bound), Some(windows)) => !windows.is_open(bound),
                _ => false,
            };
        let bytes = if has_ended {
            // SAFETY: the domain is one of windows, this one has ended, and the buffer is not bound to another meanwhile.
            unsafe { self.buffer.written(length) }
        } else {
            self.buffer.copy(length, &mut room);
            &room
        };
        if keep(bytes) {
            return Err((self, room));
        }
        Ok(match closed(self.buffer, self.window, windows) {
            Ok(buffer) if has_ended => (VerbsWrittenBytes(VerbsWrittenStorage::Lying(buffer, length)), None),
            Ok(buffer) => (VerbsWrittenBytes(VerbsWrittenStorage::Copied(room, Some(buffer))), None),
            Err(open) => (VerbsWrittenBytes(VerbsWrittenStorage::Copied(room, None)), Some(open)),
        })
    }

    /// The buffer, when a Receive completed after it was exposed: what the server did before the Send that was received is done
    /// (RFC 8166 section 2.2.1). Which Receive is the Reply is for the caller to know. `windows`: those of its queue pair.
    ///
    /// # Errors
    /// Itself, with a fence of another queue pair, or of something that came before.
    pub(super) fn take_back(
        self,
        fence: &VerbsServerFence,
        windows: Option<&mut VerbsQueuePairWindows>,
    ) -> Result<Result<VerbsBuffer, VerbsOpenWindowBuffer>, Self> {
        if !fence.covers(self.queue, self.since) {
            return Err(self);
        }
        Ok(closed(self.buffer, self.window, windows))
    }

    /// The buffer, after the end of its queue pair, which ended its window.
    ///
    /// # Errors
    /// Itself, with the end of another.
    pub(crate) fn after(self, end: &VerbsQueuePairEnd) -> Result<VerbsBuffer, Self> {
        if end.is_of(self.queue) { Ok(self.buffer) } else { Err(self) }
    }
}

/// Takes the window of a buffer back, which keeps the buffer from whoever asks if it is still open.
fn closed(
    buffer: VerbsBuffer,
    window: Option<VerbsBoundWindow>,
    windows: Option<&mut VerbsQueuePairWindows>,
) -> Result<VerbsBuffer, VerbsOpenWindowBuffer> {
    let Some(bound) = window else { return Ok(buffer) };
    let handle = bound.handle;
    match windows.map(|windows| windows.give_back(bound)) {
        Some(None) => Ok(buffer),
        Some(Some(_)) | None => Err(VerbsOpenWindowBuffer { handle, buffer }),
    }
}

/// What the server wrote. A copy, as the server may write there for longer than it should; the bytes where they lie, if the only
/// handle that reached them was that of a window, and has ended.
#[derive(Debug)]
pub(crate) struct VerbsWrittenBytes(VerbsWrittenStorage);

#[derive(Debug)]
enum VerbsWrittenStorage {
    /// So many bytes where they lie. Only [`VerbsExposedBuffer::see`] makes it, when the window has ended.
    Lying(VerbsBuffer, usize),
    /// A copy, and what it was taken of, unless a window is still open to that.
    Copied(Vec<u8>, Option<VerbsBuffer>),
}

impl VerbsWrittenBytes {
    /// The buffer, if it is free, and the room of the copy.
    pub(crate) fn into_parts(self) -> (Option<VerbsBuffer>, Option<Vec<u8>>) {
        match self.0 {
            VerbsWrittenStorage::Lying(buffer, _) => (Some(buffer), None),
            VerbsWrittenStorage::Copied(copy, buffer) => (buffer, Some(copy)),
        }
    }
}

impl Deref for VerbsWrittenBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            VerbsWrittenStorage::Copied(copy, _) => copy,
            // SAFETY: `see` made this after the window had ended that the server had been told of, in a domain of windows. No other
            // is bound to these bytes while this is there: that takes the buffer.
            VerbsWrittenStorage::Lying(buffer, length) => unsafe { buffer.written(*length) },
        }
    }
}

/// Memory that was registered where it lay, for reading only.
#[derive(Debug)]
pub(crate) struct VerbsSharedRegion(Arc<VerbsMemoryRegion>);

impl VerbsSharedRegion {
    /// Registers shared memory.
    ///
    /// # Errors
    /// As [`allocate`].
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        bytes: &Arc<[u8]>,
    ) -> Result<Self, RpcTransportErrorKind> {
        Ok(Self(Arc::new(VerbsMemoryRegion::register(
            domain,
            VerbsRegionMemory::Shared(Arc::clone(bytes)),
            VerbsMemoryAccess::Fetched,
        )?)))
    }

    /// What the server is told of `length` bytes at this place; `None` where there are not as many.
    pub(crate) fn region(&self, at: usize, length: u32) -> Option<framing::ChunkRegion> {
        let end = at.checked_add(length as usize)?;
        let offset = self.0.start().wrapping_add(at) as u64;
        (end <= self.0.length()).then_some(framing::ChunkRegion { handle: self.0.handle(), offset, length })
    }

    /// The same bytes, for a window.
    pub(super) fn part(&self, at: usize, length: u32) -> Option<VerbsRegionSlice> {
        let framing::ChunkRegion { offset: start, length, .. } = self.region(at, length)?;
        Some(VerbsRegionSlice { region: Arc::clone(&self.0), start, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_begin_where_a_word_can_be_read() {
        assert_eq!(ALIGNMENT % align_of::<u64>(), 0);
        for length in [0, 1, 7, 8, 9, 1021, 1024, usize::MAX] {
            let whole = whole_words(length);
            assert_eq!(whole % align_of::<u64>(), 0);
            assert!(whole >= length || length == usize::MAX, "{length}");
        }
        assert_eq!((whole_words(1024), whole_words(1025)), (1024, 1032));
    }

    #[test]
    fn in_a_domain_of_windows_a_registration_lets_no_server_do_anything() {
        let remote = access::IBV_ACCESS_REMOTE_READ.0 | access::IBV_ACCESS_REMOTE_WRITE.0;
        for right in [VerbsMemoryAccess::Message, VerbsMemoryAccess::Fetched, VerbsMemoryAccess::Written] {
            assert_eq!(right.flags(true).0 & remote, 0, "{right:?}");
        }
        assert_eq!(
            VerbsMemoryAccess::Message.flags(false).0 & remote,
            0,
            "nobody fetches or writes messages"
        );
        assert_eq!(VerbsMemoryAccess::Fetched.flags(false).0 & access::IBV_ACCESS_REMOTE_WRITE.0, 0);
    }
}
