//! Memory that the device can access. A [`VerbsBuffer`] owns its bytes exclusively: a buffer that the device or the
//! server may use is moved into a queue pair or an [exposed buffer](super::exposed_buffer), which hide its bytes, and
//! comes back with the completion that ends that use.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use nfsrdma_dissectors::memory_handle::Handle;
use rdma_mummy_sys as ffi;
use rdma_mummy_sys::ibv_access_flags;

use super::context::ProtectionDomain;
use super::errno_conversion;
use crate::rpcrdma_framing::offered_chunks::ContiguousChunkMemory;
use crate::transport_error::RpcClientTransportErrorKind;

/// Alignment of regions in bytes: a page on every platform.
const ALIGNMENT: usize = 4096;
/// Alignment of buffers in bytes, so that they can be read word by word.
const WORD: usize = size_of::<u64>();

/// The access that a server may have to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbsMemoryAccess {
    /// None: for Sends and Receives.
    Message,
    /// Remote read: for Read chunks.
    RemoteRead,
    /// Remote write: for Write and Reply chunks.
    RemoteWrite,
}

impl VerbsMemoryAccess {
    /// Returns the access flags of a registration. If servers use only windows, the registration itself grants them
    /// nothing, so that guessing its handle is useless. InfiniBand Architecture Specification, volume 1, section
    /// 10.6.7.2.
    fn flags(self, windows: bool) -> ibv_access_flags {
        match (self, windows) {
            (Self::Message, _) => ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
            (Self::RemoteRead, false) => ibv_access_flags::IBV_ACCESS_REMOTE_READ,
            (Self::RemoteRead, true) => ibv_access_flags::IBV_ACCESS_MW_BIND,
            (Self::RemoteWrite, false) => {
                ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            }
            (Self::RemoteWrite, true) => {
                ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_MW_BIND
            }
        }
    }

    /// Returns the access flags of a window, which never include local access.
    fn window_flags(self) -> ibv_access_flags {
        match self {
            Self::Message => ibv_access_flags(0),
            Self::RemoteRead => ibv_access_flags::IBV_ACCESS_REMOTE_READ,
            Self::RemoteWrite => ibv_access_flags::IBV_ACCESS_REMOTE_WRITE,
        }
    }
}

enum VerbsRegionMemory {
    Owned(NonNull<u8>, Layout),
    /// Written neither by the device nor by anything else.
    Shared(Arc<[u8]>),
}

impl Drop for VerbsRegionMemory {
    fn drop(&mut self) {
        if let Self::Owned(start, layout) = *self {
            // SAFETY: allocated with this layout by `VerbsMemoryRegion::allocate`, freed once, and no longer
            // registered: a region leaks its bytes if it cannot be deregistered.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// A memory region: bytes, and their registration with the device.
struct VerbsMemoryRegion {
    registration: NonNull<ffi::ibv_mr>,
    bytes: std::mem::ManuallyDrop<VerbsRegionMemory>,
    access: VerbsMemoryAccess,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: a registration is safe to use from any thread. Its bytes are accessed through `VerbsBuffer`s with disjoint
// parts, or are shared and never change.
unsafe impl Send for VerbsMemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for VerbsMemoryRegion {}

impl VerbsMemoryRegion {
    fn allocate(
        domain: &Arc<ProtectionDomain>,
        length: usize,
        access: VerbsMemoryAccess,
    ) -> Result<Self, RpcClientTransportErrorKind> {
        let no_memory = || RpcClientTransportErrorKind::Memory(length as u64, io::ErrorKind::OutOfMemory.into());
        let layout = Layout::from_size_align(length.max(1), ALIGNMENT).map_err(|_| no_memory())?;
        // SAFETY: the layout does not have size zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        Self::register(domain, VerbsRegionMemory::Owned(start, layout), access)
    }

    fn register(
        domain: &Arc<ProtectionDomain>,
        bytes: VerbsRegionMemory,
        access: VerbsMemoryAccess,
    ) -> Result<Self, RpcClientTransportErrorKind> {
        let (start, length) = match &bytes {
            VerbsRegionMemory::Owned(start, layout) => (start.as_ptr(), layout.size()),
            VerbsRegionMemory::Shared(shared) => (shared.as_ptr().cast_mut(), shared.len()),
        };
        let flags = i32::try_from(access.flags(domain.uses_windows).0).unwrap_or(0);
        // SAFETY: the bytes are allocated, and stay so until the registration is gone. Shared bytes are registered
        // read-only.
        let registration = unsafe { ffi::ibv_reg_mr(domain.pointer(), start.cast(), length, flags) };
        let Some(registration) = NonNull::new(registration) else {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                // The device does not support it: a higher limit of locked memory would not help.
                Some(libc::EOPNOTSUPP) => errno_conversion::from_io_error("ibv_reg_mr", error),
                _ => RpcClientTransportErrorKind::Memory(length as u64, error),
            });
        };
        Ok(Self { registration, bytes: std::mem::ManuallyDrop::new(bytes), access, domain: Arc::clone(domain) })
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
        // SAFETY: registered once, and deregistered once.
        let result = unsafe { ffi::ibv_dereg_mr(self.registration.as_ptr()) };
        // Leaked memory is safer than memory that the device may still access.
        if result == 0 {
            // SAFETY: dropped here only.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.bytes) };
        }
    }
}

/// Registers memory and divides it into `count` buffers of `length` bytes, rounded up to a multiple of 8. Returns an
/// error if the device, or the limit of locked memory, does not allow it.
pub(crate) fn allocate(
    domain: &Arc<ProtectionDomain>,
    access: VerbsMemoryAccess,
    length: usize,
    count: usize,
) -> Result<impl Iterator<Item = VerbsBuffer> + use<>, RpcClientTransportErrorKind> {
    let length = round_up_to_word(length);
    let region = Arc::new(VerbsMemoryRegion::allocate(domain, length.saturating_mul(count), access)?);
    // The parts are disjoint, so that no two buffers share a byte.
    let parts = region.length().checked_div(length).unwrap_or(0).min(count);
    Ok((0..parts).map(move |index| VerbsBuffer { region: Arc::clone(&region), at: index * length, length }))
}

/// Rounds up to a multiple of 8 bytes.
fn round_up_to_word(length: usize) -> usize {
    // A length that overflows here is longer than any memory.
    length.checked_next_multiple_of(WORD).unwrap_or(usize::MAX & !(WORD - 1))
}

/// Registered bytes that only this program accesses now.
pub(crate) struct VerbsBuffer {
    region: Arc<VerbsMemoryRegion>,
    at: usize,
    length: usize,
}

impl VerbsBuffer {
    /// Returns the scatter/gather entry of the first `length` bytes.
    pub(super) fn gather(&self, length: usize) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.start() as u64,
            length: u32::try_from(length.min(self.length)).unwrap_or(u32::MAX),
            lkey: self.region.local_key(),
        }
    }

    pub(crate) fn access(&self) -> VerbsMemoryAccess {
        self.region.access
    }

    /// Returns the length in bytes, including bytes that `deref` hides.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns `true` if servers access the buffer only through windows.
    pub(super) fn uses_windows(&self) -> bool {
        self.region.domain.uses_windows
    }

    /// Returns the first `length` bytes as the region to advertise to the server, with the handle of a window, or
    /// without one that of the registration.
    pub(super) fn advertised(&self, length: usize, window: Option<Handle>) -> ContiguousChunkMemory {
        let length = u32::try_from(length.min(self.length)).unwrap_or(u32::MAX);
        let handle = window.unwrap_or_else(|| self.region.handle());
        ContiguousChunkMemory { handle, offset: self.start() as u64, length }
    }

    fn start(&self) -> *mut u8 {
        self.region.start().wrapping_add(self.at)
    }

    /// Copies the first `length` bytes, which a server may be changing.
    pub(super) fn copy(&self, length: usize, bytes: &mut Vec<u8>) {
        bytes.resize(length.min(self.length), 0);
        let mut words = bytes.chunks_exact_mut(WORD);
        let mut from = self.start();
        for target in &mut words {
            // SAFETY: within the buffer, which is allocated and initialized. It is word-aligned: shared regions have no
            // buffers, and `allocate` divides the others, which are page-aligned, into whole words. The device may
            // write meanwhile, so each word is read once, as volatile memory, and any value is valid.
            let word = unsafe { from.cast::<u64>().read_volatile() };
            target.copy_from_slice(&word.to_ne_bytes());
            from = from.wrapping_add(WORD);
        }
        for target in words.into_remainder() {
            // SAFETY: as above.
            *target = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
    }

    /// Returns the first `length` bytes, regardless of the access that the server has had.
    ///
    /// # Safety
    /// The device must not write to them while the slice exists: the buffer is in no queue pair, its domain uses
    /// windows, in which the registration grants servers nothing, and no window is bound to it. A new buffer has none,
    /// and a bound one comes back only after its window has ended, on any connection.
    pub(super) unsafe fn written_bytes(&self, length: usize) -> &[u8] {
        // SAFETY: within the buffer, which is allocated and initialized; the device does not write to it, as the caller
        // guarantees.
        unsafe { std::slice::from_raw_parts(self.start(), length.min(self.length)) }
    }

    /// Returns the first `length` bytes as the target of a window.
    pub(super) fn part(&self, length: usize) -> MemoryWindowBindTarget {
        let length = u32::try_from(length.min(self.length)).unwrap_or(u32::MAX);
        MemoryWindowBindTarget { region: Arc::clone(&self.region), start: self.start() as u64, length }
    }
}

/// Bytes of a registration as the target of a window. They stay registered while this exists.
pub(super) struct MemoryWindowBindTarget {
    region: Arc<VerbsMemoryRegion>,
    start: u64,
    length: u32,
}

impl MemoryWindowBindTarget {
    /// Returns the bind parameters of the Work Request that binds a window to them.
    pub(super) fn bind_info(&self) -> ffi::ibv_mw_bind_info {
        ffi::ibv_mw_bind_info {
            mr: self.region.registration.as_ptr(),
            addr: self.start,
            length: self.length.into(),
            mw_access_flags: self.region.access.window_flags().0,
        }
    }

    /// Returns the region to advertise to the server, with the handle of the window.
    pub(super) fn region(&self, handle: Handle) -> ContiguousChunkMemory {
        ContiguousChunkMemory { handle, offset: self.start, length: self.length }
    }
}

impl Deref for VerbsBuffer {
    type Target = [u8];

    /// Returns an empty slice if servers may write to the buffer: see
    /// [`VerbsServerWrittenData`](super::exposed_buffer::VerbsServerWrittenData).
    fn deref(&self) -> &[u8] {
        let length = if self.access() == VerbsMemoryAccess::RemoteWrite { 0 } else { self.length };
        // SAFETY: this part of the region belongs to this buffer alone, as `allocate` ensures; it is initialized; no
        // server may write to it, whatever handle it has; and the device does not, as a buffer that it may write to is
        // in a queue pair.
        unsafe { std::slice::from_raw_parts(self.start(), length) }
    }
}

impl DerefMut for VerbsBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let length = if self.access() == VerbsMemoryAccess::RemoteWrite { 0 } else { self.length };
        // SAFETY: as above, and the device does not read it for this side; a server that reads it, against the rules,
        // changes nothing here.
        unsafe { std::slice::from_raw_parts_mut(self.start(), length) }
    }
}

/// Shared memory, registered in place and read-only.
pub(crate) struct VerbsSharedRegion(Arc<VerbsMemoryRegion>);

impl VerbsSharedRegion {
    /// Registers shared memory. Returns an error under the same conditions as [`allocate`].
    pub(crate) fn new(domain: &Arc<ProtectionDomain>, bytes: &Arc<[u8]>) -> Result<Self, RpcClientTransportErrorKind> {
        Ok(Self(Arc::new(VerbsMemoryRegion::register(
            domain,
            VerbsRegionMemory::Shared(Arc::clone(bytes)),
            VerbsMemoryAccess::RemoteRead,
        )?)))
    }

    /// Returns the region to advertise for `length` bytes at offset `at`; `None` if it exceeds the memory.
    pub(crate) fn region(&self, at: usize, length: u32) -> Option<ContiguousChunkMemory> {
        let end = at.checked_add(length as usize)?;
        let offset = self.0.start().wrapping_add(at) as u64;
        (end <= self.0.length()).then_some(ContiguousChunkMemory { handle: self.0.handle(), offset, length })
    }

    pub(super) fn part(&self, at: usize, length: u32) -> Option<MemoryWindowBindTarget> {
        let ContiguousChunkMemory { offset: start, length, .. } = self.region(at, length)?;
        Some(MemoryWindowBindTarget { region: Arc::clone(&self.0), start, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_begin_where_a_word_can_be_read() {
        assert_eq!(ALIGNMENT % align_of::<u64>(), 0);
        for length in [0, 1, 7, 8, 9, 1021, 1024, usize::MAX] {
            let whole = round_up_to_word(length);
            assert_eq!(whole % align_of::<u64>(), 0);
            assert!(whole >= length || length == usize::MAX, "{length}");
        }
        assert_eq!((round_up_to_word(1024), round_up_to_word(1025)), (1024, 1032));
    }

    #[test]
    fn with_memory_windows_a_registration_grants_no_remote_access() {
        let remote = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0 | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        for right in [VerbsMemoryAccess::Message, VerbsMemoryAccess::RemoteRead, VerbsMemoryAccess::RemoteWrite] {
            assert_eq!(right.flags(true).0 & remote, 0, "{right:?}");
        }
        assert_eq!(VerbsMemoryAccess::Message.flags(false).0 & remote, 0, "nobody fetches or writes messages");
        assert_eq!(VerbsMemoryAccess::RemoteRead.flags(false).0 & ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0, 0);
    }
}
