//! Memory windows of type 2: a handle for one chunk of one Call, which ends with the Call.
//!
//! A Work Request binds a window before the Send of its Call; from then on its handle gives access to the bytes of the
//! chunk, through its own queue pair only. The server invalidates it with the Reply (Send With Invalidate, RFC 8166
//! section 4.4.1 and RFC 8797 section 4.1), or this side does with a Work Request of its own, which the server can
//! delay; until that has completed the queue pair keeps the bytes. So no handle is valid for a second Call, on any
//! connection.

use std::ptr::NonNull;
use std::sync::Arc;

use nfsrdma_dissectors::memory_handle::Handle;
use rdma_mummy_sys as ffi;

use super::context::ProtectionDomain;
use super::errno_conversion;
use crate::transport_error::RpcClientTransportErrorKind;

/// Mask of the handle bits that the consumer chooses; the other bits identify the window. InfiniBand Architecture
/// Specification, volume 1, section 10.6.7.2.
const KEY: u32 = 0xff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerbsMemoryWindowState {
    /// Gives no access: it was not bound since the window was taken, or was invalidated.
    Closed,
    /// The bind Work Request waits for the doorbell: the server cannot have invalidated the handle.
    Staged,
    /// The bind Work Request is posted: the handle gives access, or will.
    Open,
}

struct VerbsMemoryWindow {
    /// The handle of the last bind, or the one that the device assigned.
    handle: Handle,
    state: VerbsMemoryWindowState,
}

/// The states of the windows of one queue pair.
#[derive(Default)]
struct VerbsMemoryWindowTable {
    windows: Vec<VerbsMemoryWindow>,
    free: Vec<usize>,
}

/// The memory windows of one queue pair. They are freed before it is destroyed.
pub(super) struct QueuePairMemoryWindows {
    table: VerbsMemoryWindowTable,
    /// Windows by their index in the table.
    allocated: Vec<NonNull<ffi::ibv_mw>>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: a window is memory of libibverbs, none of which is bound to a thread; all changes require `&mut self`.
unsafe impl Send for QueuePairMemoryWindows {}
// SAFETY: as above.
unsafe impl Sync for QueuePairMemoryWindows {}

/// A window that is assigned to a chunk until it is released: its index and its new handle.
pub(crate) struct VerbsBoundWindow {
    pub(super) index: usize,
    pub(super) handle: Handle,
}

impl QueuePairMemoryWindows {
    /// Creates an empty set: the first Calls allocate windows.
    pub(super) fn new(domain: &Arc<ProtectionDomain>) -> Self {
        Self { table: VerbsMemoryWindowTable::default(), allocated: Vec::new(), domain: Arc::clone(domain) }
    }

    /// Takes `count` windows, each with a new handle; all or none.
    pub(super) fn take(
        &mut self,
        count: usize,
        bound_windows: &mut Vec<VerbsBoundWindow>,
    ) -> Result<(), RpcClientTransportErrorKind> {
        while self.table.free.len() < count {
            self.allocate()?;
        }
        self.table.take(count, bound_windows);
        Ok(())
    }

    fn allocate(&mut self) -> Result<(), RpcClientTransportErrorKind> {
        // SAFETY: the domain is valid.
        let window = unsafe { ffi::ibv_alloc_mw(self.domain.pointer(), ffi::ibv_mw_type::IBV_MW_TYPE_2) };
        let window = NonNull::new(window).ok_or_else(|| errno_conversion::from_last_errno("ibv_alloc_mw"))?;
        // SAFETY: allocated by the line above.
        let handle = Handle(unsafe { window.as_ref().rkey });
        self.allocated.push(window);
        self.table.add(handle);
        Ok(())
    }

    /// Records that the bind Work Request is staged.
    pub(super) fn bind(&mut self, bound: &VerbsBoundWindow) {
        self.table.set(bound.index, bound.handle, VerbsMemoryWindowState::Staged);
    }

    /// Returns the window for a bind Work Request; valid while `self` is unchanged. Null if the index is unknown.
    pub(super) fn pointer(&self, at: usize) -> *mut ffi::ibv_mw {
        self.allocated.get(at).map_or(std::ptr::null_mut(), |window| window.as_ptr())
    }

    /// Records that the bind Work Request was posted, and sets the handle in libibverbs' window: the next one names the
    /// window by it.
    pub(super) fn record_posted(&mut self, at: usize, handle: Handle) {
        if let Some(window) = self.allocated.get_mut(at) {
            // SAFETY: the window is valid until `drop`, and this is its only user.
            unsafe { window.as_mut().rkey = handle.0 };
        }
        self.table.set(at, handle, VerbsMemoryWindowState::Open);
    }

    /// Records that a received Send invalidated `handle`. Returns `true` if that closed a window.
    pub(super) fn record_invalidation(&mut self, handle: Handle) -> bool {
        self.table.record_invalidation(handle)
    }

    /// Returns `true` if the handle of a chunk gives access to its bytes, or will.
    pub(super) fn is_open(&self, bound: &VerbsBoundWindow) -> bool {
        self.table.is_open(bound)
    }

    /// Releases a window from its chunk. Returns its handle if that is still valid: this side has to invalidate it
    /// before any other Work Request, and the server can access the bytes until that completes.
    pub(super) fn release(&mut self, bound: VerbsBoundWindow) -> Option<Handle> {
        self.table.release(bound)
    }
}

impl Drop for QueuePairMemoryWindows {
    fn drop(&mut self) {
        for window in self.allocated.drain(..) {
            // SAFETY: allocated by `allocate`, and freed once. If the device keeps a window, either its queue pair
            // cannot be destroyed, and the bytes do not come back, or the end of the queue pair invalidates it.
            unsafe { ffi::ibv_dealloc_mw(window.as_ptr()) };
        }
    }
}

impl VerbsMemoryWindowTable {
    fn add(&mut self, handle: Handle) {
        self.free.push(self.windows.len());
        self.windows.push(VerbsMemoryWindow { handle, state: VerbsMemoryWindowState::Closed });
    }

    /// Takes at most `count` of the free windows.
    fn take(&mut self, count: usize, bound_windows: &mut Vec<VerbsBoundWindow>) {
        for at in self.free.drain(self.free.len().saturating_sub(count)..) {
            let Some(window) = self.windows.get_mut(at) else { continue };
            window.handle = next_handle(window.handle);
            bound_windows.push(VerbsBoundWindow { index: at, handle: window.handle });
        }
    }

    /// Sets the state of a window, if `handle` is still its handle.
    fn set(&mut self, at: usize, handle: Handle, state: VerbsMemoryWindowState) {
        if let Some(window) = self.windows.get_mut(at).filter(|window| window.handle == handle) {
            window.state = state;
        }
    }

    fn record_invalidation(&mut self, handle: Handle) -> bool {
        let mut open = self.windows.iter_mut().filter(|window| window.state == VerbsMemoryWindowState::Open);
        let Some(window) = open.find(|window| window.handle == handle) else { return false };
        window.state = VerbsMemoryWindowState::Closed;
        true
    }

    fn is_open(&self, bound: &VerbsBoundWindow) -> bool {
        self.windows.get(bound.index).is_none_or(|window| window.state != VerbsMemoryWindowState::Closed)
    }

    fn release(&mut self, bound: VerbsBoundWindow) -> Option<Handle> {
        let window = self.windows.get_mut(bound.index)?;
        self.free.push(bound.index);
        let previous = std::mem::replace(&mut window.state, VerbsMemoryWindowState::Closed);
        (previous != VerbsMemoryWindowState::Closed).then_some(bound.handle)
    }
}

/// Returns the handle for the next use of a window.
fn next_handle(Handle(handle): Handle) -> Handle {
    Handle((handle & !KEY) | (handle.wrapping_add(1) & KEY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_another_handle_each_time() {
        assert_eq!(next_handle(Handle(0x1234_5600)), Handle(0x1234_5601));
        assert_eq!(next_handle(Handle(0x1234_56ff)), Handle(0x1234_5600), "the window's own bits stay");
    }

    /// Returns a table of two windows, one of them bound to a chunk by a posted Work Request.
    fn one_open() -> (VerbsMemoryWindowTable, VerbsBoundWindow) {
        let mut table = VerbsMemoryWindowTable::default();
        table.add(Handle(0x100));
        table.add(Handle(0x200));
        let mut taken = Vec::new();
        table.take(1, &mut taken);
        let bound = taken.pop().unwrap();
        table.set(bound.index, bound.handle, VerbsMemoryWindowState::Staged);
        table.set(bound.index, bound.handle, VerbsMemoryWindowState::Open);
        (table, bound)
    }

    #[test]
    fn a_window_is_open_until_its_handle_is_invalidated() {
        let (mut table, bound) = one_open();
        assert!(table.is_open(&bound));
        assert!(!table.record_invalidation(Handle(0x100)), "of a window that is bound to nothing");
        assert!(table.is_open(&bound));
        assert!(table.record_invalidation(bound.handle));
        assert!(!table.is_open(&bound));
        assert!(!table.record_invalidation(bound.handle), "it ends once");
        assert_eq!(table.release(bound), None, "nothing is left to be ended");
    }

    #[test]
    fn a_window_that_the_server_did_not_invalidate_is_ended_by_this_side() {
        let (mut table, bound) = one_open();
        let handle = bound.handle;
        assert_eq!(table.release(bound), Some(handle));
        assert!(!table.record_invalidation(handle), "a server that is late ends nothing");
    }

    #[test]
    fn a_server_cannot_invalidate_a_window_that_was_not_posted() {
        let (mut table, bound) = one_open();
        table.set(bound.index, bound.handle, VerbsMemoryWindowState::Staged);
        assert!(!table.record_invalidation(bound.handle), "the handle was guessed");
        assert!(table.is_open(&bound));
        let handle = bound.handle;
        assert_eq!(table.release(bound), Some(handle), "it is bound first, and then ended");
    }

    #[test]
    fn a_window_that_is_used_again_has_nothing_to_do_with_its_last_handle() {
        let (mut table, bound) = one_open();
        let (at, last) = (bound.index, bound.handle);
        table.release(bound);
        let mut taken = Vec::new();
        table.take(2, &mut taken);
        assert_eq!(taken.len(), 2);
        let again = taken.iter().find(|bound| bound.index == at).unwrap();
        assert_ne!(again.handle, last);
        assert!(!table.is_open(again), "not before it is bound");
        table.set(at, again.handle, VerbsMemoryWindowState::Open);
        assert!(!table.record_invalidation(last));
        table.set(at, last, VerbsMemoryWindowState::Closed);
        assert!(table.is_open(again));
    }

    #[test]
    fn a_window_that_was_not_bound_goes_back_as_it_is() {
        let mut table = VerbsMemoryWindowTable::default();
        table.add(Handle(0x100));
        let mut taken = Vec::new();
        table.take(1, &mut taken);
        assert_eq!(table.release(taken.pop().unwrap()), None);
        table.take(1, &mut taken);
        assert_eq!(taken.len(), 1);
    }
}
