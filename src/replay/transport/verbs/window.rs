//! Memory windows of type 2: a handle for one chunk of one Call, which ends with the Call.
//!
//! A window is bound by a Work Request before the Send of its Call, and from then on its handle opens the bytes of the chunk, to
//! its own queue pair alone. The server ends it with the Reply (Send With Invalidate, RFC 8166 section 4.4.1 and RFC 8797
//! section 4.1), or this side does with a Work Request of its own, which the server can delay; until that has completed the
//! queue pair keeps the bytes. So a handle is never good for a second Call, on whichever connection.

use std::ptr::NonNull;
use std::sync::Arc;

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;

use super::super::RpcTransportErrorKind;
use super::context::ProtectionDomain;
use super::failure;

/// The bits of a handle that its owner chooses; the others are the window's. InfiniBand Architecture Specification,
/// volume 1, section 10.6.7.2.
const KEY: u32 = 0xff;

/// What the handle of a window opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerbsWindowState {
    /// Nothing: it was not bound since the window was taken, or has ended.
    Closed,
    /// What the Work Request will bind it to, which waits for the doorbell: nobody can have ended it.
    Staged,
    /// What the Work Request has bound it to, or will.
    Open,
}

/// What is known of a window.
#[derive(Debug)]
struct VerbsMemoryWindow {
    /// What it was bound with last, or has from the device.
    handle: Handle,
    state: VerbsWindowState,
}

/// What is known of the windows of one queue pair.
#[derive(Debug, Default)]
struct VerbsWindowTable {
    windows: Vec<VerbsMemoryWindow>,
    free: Vec<usize>,
}

/// The windows of one queue pair. They end before it does.
#[derive(Debug)]
pub(super) struct VerbsQueuePairWindows {
    table: VerbsWindowTable,
    /// Each at its place in the table.
    allocated: Vec<NonNull<ffi::ibv_mw>>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: a window is memory of libibverbs, of which nothing belongs to a thread; what changes it has `&mut self`.
unsafe impl Send for VerbsQueuePairWindows {}
// SAFETY: as above.
unsafe impl Sync for VerbsQueuePairWindows {}

/// A window that belongs to a chunk, until it is given back. It names the window and its new handle.
#[derive(Debug)]
pub(crate) struct VerbsBoundWindow {
    at: usize,
    pub(super) handle: Handle,
}

impl VerbsQueuePairWindows {
    /// None yet: the first Calls allocate them.
    pub(super) fn new(domain: &Arc<ProtectionDomain>) -> Self {
        Self { table: VerbsWindowTable::default(), allocated: Vec::new(), domain: Arc::clone(domain) }
    }

    /// Takes as many windows as this, each with a new handle; all or none.
    pub(super) fn take(
        &mut self,
        count: usize,
        into: &mut Vec<VerbsBoundWindow>,
    ) -> Result<(), RpcTransportErrorKind> {
        while self.table.free.len() < count {
            self.allocate()?;
        }
        self.table.take(count, into);
        Ok(())
    }

    fn allocate(&mut self) -> Result<(), RpcTransportErrorKind> {
        // SAFETY: the domain is valid.
        let window = unsafe { ffi::ibv_alloc_mw(self.domain.pointer(), ffi::ibv_mw_type::IBV_MW_TYPE_2) };
        let window = NonNull::new(window).ok_or_else(|| failure::last("ibv_alloc_mw"))?;
        // SAFETY: allocated by the line above.
        let handle = Handle(unsafe { window.as_ref().rkey });
        self.allocated.push(window);
        self.table.add(handle);
        Ok(())
    }

    /// Notes that its Work Request is on its way.
    pub(super) fn bind(&mut self, bound: &VerbsBoundWindow) {
        self.table.set(bound.at, bound.handle, VerbsWindowState::Staged);
    }

    /// The window for a Work Request that binds it, as long as `self` is not changed.
    pub(super) fn pointer(&self, at: usize) -> *mut ffi::ibv_mw {
        self.allocated.get(at).map_or(std::ptr::null_mut(), |window| window.as_ptr())
    }

    /// Tells libibverbs the handle of a window whose Work Request was posted: the next one names the window by it.
    pub(super) fn posted(&mut self, at: usize, handle: Handle) {
        if let Some(window) = self.allocated.get_mut(at) {
            // SAFETY: the window is valid until `drop`, and this is its only user.
            unsafe { window.as_mut().rkey = handle.0 };
        }
        self.table.set(at, handle, VerbsWindowState::Open);
    }

    /// A Send came that invalidated a handle. Tells whether that ended a window.
    pub(super) fn invalidated(&mut self, handle: Handle) -> bool {
        self.table.invalidated(handle)
    }

    /// Whether the handle of a chunk opens its bytes, or will.
    pub(super) fn is_open(&self, bound: &VerbsBoundWindow) -> bool {
        self.table.is_open(bound)
    }

    /// Takes a window back from its chunk, and tells whether its handle is still good: then this side has to end it before
    /// anything else is done with the queue, and the bytes are the server's until that is done.
    pub(super) fn give_back(&mut self, bound: VerbsBoundWindow) -> Option<Handle> {
        self.table.give_back(bound)
    }
}

impl Drop for VerbsQueuePairWindows {
    fn drop(&mut self) {
        for window in self.allocated.drain(..) {
            // SAFETY: allocated by `allocate`, and freed once. If the device keeps one, its queue pair cannot be destroyed either,
            // or ends it: in the first case the bytes do not come back.
            unsafe { ffi::ibv_dealloc_mw(window.as_ptr()) };
        }
    }
}

impl VerbsWindowTable {
    fn add(&mut self, handle: Handle) {
        self.free.push(self.windows.len());
        self.windows.push(VerbsMemoryWindow { handle, state: VerbsWindowState::Closed });
    }

    /// As many as this, of those that are free.
    fn take(&mut self, count: usize, into: &mut Vec<VerbsBoundWindow>) {
        for at in self.free.drain(self.free.len().saturating_sub(count)..) {
            let Some(window) = self.windows.get_mut(at) else { continue };
            window.handle = next(window.handle);
            into.push(VerbsBoundWindow { at, handle: window.handle });
        }
    }

    /// Notes what a handle opens now, if it is still that of its window.
    fn set(&mut self, at: usize, handle: Handle, state: VerbsWindowState) {
        if let Some(window) = self.windows.get_mut(at).filter(|window| window.handle == handle) {
            window.state = state;
        }
    }

    fn invalidated(&mut self, handle: Handle) -> bool {
        let mut open = self.windows.iter_mut().filter(|window| window.state == VerbsWindowState::Open);
        let Some(window) = open.find(|window| window.handle == handle) else { return false };
        window.state = VerbsWindowState::Closed;
        true
    }

    fn is_open(&self, bound: &VerbsBoundWindow) -> bool {
        self.windows.get(bound.at).is_none_or(|window| window.state != VerbsWindowState::Closed)
    }

    fn give_back(&mut self, bound: VerbsBoundWindow) -> Option<Handle> {
        let window = self.windows.get_mut(bound.at)?;
        self.free.push(bound.at);
        let was = std::mem::replace(&mut window.state, VerbsWindowState::Closed);
        (was != VerbsWindowState::Closed).then_some(bound.handle)
    }
}

impl VerbsBoundWindow {
    /// Which window it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

/// The handle for the next use of a window.
fn next(Handle(handle): Handle) -> Handle {
    Handle((handle & !KEY) | (handle.wrapping_add(1) & KEY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_another_handle_each_time() {
        assert_eq!(next(Handle(0x1234_5600)), Handle(0x1234_5601));
        assert_eq!(next(Handle(0x1234_56ff)), Handle(0x1234_5600), "the window's own bits stay");
    }

    /// A table of two windows, and one of them bound to a chunk: the Work Request was posted.
    fn one_open() -> (VerbsWindowTable, VerbsBoundWindow) {
        let mut table = VerbsWindowTable::default();
        table.add(Handle(0x100));
        table.add(Handle(0x200));
        let mut taken = Vec::new();
        table.take(1, &mut taken);
        let bound = taken.pop().unwrap();
        table.set(bound.at, bound.handle, VerbsWindowState::Staged);
        table.set(bound.at, bound.handle, VerbsWindowState::Open);
        (table, bound)
    }

    #[test]
    fn a_window_is_open_until_its_handle_is_invalidated() {
        let (mut table, bound) = one_open();
        assert!(table.is_open(&bound));
        assert!(!table.invalidated(Handle(0x100)), "of a window that is bound to nothing");
        assert!(table.is_open(&bound));
        assert!(table.invalidated(bound.handle));
        assert!(!table.is_open(&bound));
        assert!(!table.invalidated(bound.handle), "it ends once");
        assert_eq!(table.give_back(bound), None, "nothing is left to be ended");
    }

    #[test]
    fn a_window_that_the_server_did_not_invalidate_is_ended_by_this_side() {
        let (mut table, bound) = one_open();
        let handle = bound.handle;
        assert_eq!(table.give_back(bound), Some(handle));
        assert!(!table.invalidated(handle), "a server that is late ends nothing");
    }

    #[test]
    fn a_server_cannot_end_what_was_not_posted() {
        let (mut table, bound) = one_open();
        table.set(bound.at, bound.handle, VerbsWindowState::Staged);
        assert!(!table.invalidated(bound.handle), "the handle was guessed");
        assert!(table.is_open(&bound));
        let handle = bound.handle;
        assert_eq!(table.give_back(bound), Some(handle), "it is bound first, and then ended");
    }

    #[test]
    fn a_window_that_is_used_again_has_nothing_to_do_with_its_last_handle() {
        let (mut table, bound) = one_open();
        let (at, last) = (bound.at, bound.handle);
        table.give_back(bound);
        let mut taken = Vec::new();
        table.take(2, &mut taken);
        assert_eq!(taken.len(), 2);
        let again = taken.iter().find(|bound| bound.at == at).unwrap();
        assert_ne!(again.handle, last);
        assert!(!table.is_open(again), "not before it is bound");
        table.set(at, again.handle, VerbsWindowState::Open);
        assert!(!table.invalidated(last));
        table.set(at, last, VerbsWindowState::Closed);
        assert!(table.is_open(again));
    }

    #[test]
    fn a_window_that_was_not_bound_goes_back_as_it_is() {
        let mut table = VerbsWindowTable::default();
        table.add(Handle(0x100));
        let mut taken = Vec::new();
        table.take(1, &mut taken);
        assert_eq!(table.give_back(taken.pop().unwrap()), None);
        table.take(1, &mut taken);
        assert_eq!(taken.len(), 1);
    }
}
