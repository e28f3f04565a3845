//! Memory windows of type 2: a handle for one chunk of one Call, which ends with the Call.
//!
//! A window is bound by a Work Request before the Send of its Call, and from then on its handle opens the bytes of the chunk, to
//! its own queue pair alone. The server ends it with the Reply (Send With Invalidate, RFC 8166 section 4.4.1 and RFC 8797
//! section 4.1), or this side does with a Work Request of its own; so a handle is never good for a second Call.

use std::ptr::NonNull;
use std::sync::Arc;

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;

use super::super::TransportErrorKind;
use super::context::ProtectionDomain;
use super::failure;

/// The bits of a handle that its owner chooses; the others are the window's. InfiniBand Architecture Specification,
/// volume 1, section 10.6.7.2.
const KEY: u32 = 0xff;

/// A window of a queue pair.
#[derive(Debug)]
struct Window {
    window: NonNull<ffi::ibv_mw>,
    /// What it was bound with last, or has from the device.
    handle: Handle,
    /// Whether that opens something, or will when the Work Request comes to it.
    is_bound: bool,
}

/// The windows of one queue pair. They end before it does.
#[derive(Debug)]
pub(super) struct Windows {
    windows: Vec<Window>,
    free: Vec<usize>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: a window is memory of libibverbs, of which nothing belongs to a thread; what changes it has `&mut self`.
unsafe impl Send for Windows {}
// SAFETY: as above.
unsafe impl Sync for Windows {}

/// A window that belongs to a chunk, until it is given back. It names the window and its new handle.
#[derive(Debug)]
pub(crate) struct Bound {
    at: usize,
    pub(super) handle: Handle,
}

/// The handle of a window that opened something, and was invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended(Handle);

impl Ended {
    /// The handle.
    pub(crate) fn handle(self) -> Handle {
        self.0
    }
}

impl Windows {
    /// None yet: the first Calls allocate them.
    pub(super) fn new(domain: &Arc<ProtectionDomain>) -> Self {
        Self { windows: Vec::new(), free: Vec::new(), domain: Arc::clone(domain) }
    }

    /// Takes as many windows as this, each with a new handle; all or none.
    pub(super) fn take(&mut self, count: usize, into: &mut Vec<Bound>) -> Result<(), TransportErrorKind> {
        while self.free.len() < count {
            self.allocate()?;
        }
        for at in self.free.drain(self.free.len() - count..) {
            let Some(window) = self.windows.get_mut(at) else { continue };
            window.handle = next(window.handle);
            into.push(Bound { at, handle: window.handle });
        }
        Ok(())
    }

    fn allocate(&mut self) -> Result<(), TransportErrorKind> {
        // SAFETY: the domain is valid.
        let window = unsafe { ffi::ibv_alloc_mw(self.domain.pointer(), ffi::ibv_mw_type::IBV_MW_TYPE_2) };
        let window = NonNull::new(window).ok_or_else(|| failure::last("ibv_alloc_mw"))?;
        // SAFETY: allocated by the line above.
        let handle = Handle(unsafe { window.as_ref().rkey });
        self.free.push(self.windows.len());
        self.windows.push(Window { window, handle, is_bound: false });
        Ok(())
    }

    /// Notes that its Work Request is on its way.
    pub(super) fn bind(&mut self, bound: &Bound) {
        if let Some(window) = self.windows.get_mut(bound.at) {
            window.is_bound = true;
        }
    }

    /// The window for a Work Request that binds it, as long as `self` is not changed.
    pub(super) fn pointer(&self, at: usize) -> *mut ffi::ibv_mw {
        self.windows.get(at).map_or(std::ptr::null_mut(), |window| window.window.as_ptr())
    }

    /// Tells libibverbs the handle of a window whose Work Request was posted: the next one names the window by it.
    pub(super) fn posted(&mut self, at: usize, handle: Handle) {
        if let Some(window) = self.windows.get_mut(at) {
            // SAFETY: the window is valid until `drop`, and this is its only user.
            unsafe { window.window.as_mut().rkey = handle.0 };
        }
    }

    /// The server invalidated a handle; nothing, if it opened nothing.
    pub(super) fn invalidated(&mut self, handle: Handle) -> Option<Ended> {
        let window = self.windows.iter_mut().find(|window| window.handle == handle)?;
        std::mem::take(&mut window.is_bound).then_some(Ended(handle))
    }

    /// Takes a window back from its chunk, and tells whether its handle is still good: then this side has to end it before
    /// anything else is done with the queue.
    pub(super) fn give_back(&mut self, bound: Bound) -> Option<Handle> {
        let window = self.windows.get_mut(bound.at)?;
        self.free.push(bound.at);
        std::mem::take(&mut window.is_bound).then_some(window.handle)
    }

    /// Ends all of them, and with them their handles.
    pub(super) fn end(&mut self) {
        self.free.clear();
        for window in self.windows.drain(..) {
            // SAFETY: allocated by `allocate`, and freed once.
            unsafe { ffi::ibv_dealloc_mw(window.window.as_ptr()) };
        }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.end();
    }
}

impl Bound {
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
}
