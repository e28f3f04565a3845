//! The identifier of a connection in librdmacm, with its event channel.

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::Instant;

use rdma_mummy_sys as ffi;

use super::errno_conversion;
use super::rdma_cm_events::{RdmaCmEvent, RdmaCmEventChannel, RdmaCmEventKind};
use super::socket_address;
use crate::transport_error::RpcClientTransportErrorKind;

/// An `rdma_cm_id` and its event channel. Destroyed with its last user: a queue pair, or an object created on its
/// device.
pub(super) struct SharedRdmaCmId {
    id: NonNull<ffi::rdma_cm_id>,
    // Dropped after the identifier, which `drop` destroys.
    pub(super) channel: RdmaCmEventChannel,
}

// SAFETY: an identifier is memory of librdmacm, which locks what it shares; none of it is bound to a thread.
unsafe impl Send for SharedRdmaCmId {}
// SAFETY: as above; calls that are not thread-safe are made only by the one owner of a `RdmaCmIdSetup` or a queue pair.
unsafe impl Sync for SharedRdmaCmId {}

impl SharedRdmaCmId {
    /// Creates an identifier and its event channel. Returns an error if the libraries, a device or the permission to
    /// use it are missing.
    pub(super) fn new() -> Result<Self, RpcClientTransportErrorKind> {
        let channel = RdmaCmEventChannel::new()?;
        let mut id = std::ptr::null_mut();
        // SAFETY: the channel is valid and outlives the identifier, `id` points to a pointer, and no context is given.
        let result = unsafe {
            ffi::rdma_create_id(channel.pointer(), &raw mut id, std::ptr::null_mut(), ffi::rdma_port_space::RDMA_PS_TCP)
        };
        errno_conversion::check_last("rdma_create_id", result)?;
        let id = NonNull::new(id).ok_or_else(|| errno_conversion::from_last_errno("rdma_create_id"))?;
        Ok(Self { id, channel })
    }

    /// Returns the identifier for calls of librdmacm; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Returns the device that the identifier is bound to; null before its address is resolved.
    pub(super) fn verbs(&self) -> *mut ffi::ibv_context {
        // SAFETY: the identifier is valid, and librdmacm sets this field once, in the call that resolves the address,
        // which only the single owner makes.
        unsafe { self.id.as_ref().verbs }
    }

    /// Returns the number of the device port that the identifier is bound to.
    pub(super) fn port(&self) -> u8 {
        // SAFETY: as above.
        unsafe { self.id.as_ref().port_num }
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: the identifier is valid, and the address in it is a union that is large enough for every family, as
        // one of its members is a `sockaddr_storage`.
        unsafe { socket_address::read(&raw const self.id.as_ref().route.addr.src_addr_union.src_storage) }
    }

    /// Waits for an event of kind `expected`. `error` returns the error for another event.
    pub(super) fn expect(
        &self,
        expected: RdmaCmEventKind,
        deadline: Instant,
        error: impl FnOnce(&RdmaCmEvent) -> RpcClientTransportErrorKind,
    ) -> Result<RdmaCmEvent, RpcClientTransportErrorKind> {
        let start = Instant::now();
        match self.channel.wait(deadline)? {
            Some(event) if event.kind == expected => Ok(event),
            Some(event) => Err(error(&event)),
            None => Err(RpcClientTransportErrorKind::Timeout(deadline.saturating_duration_since(start))),
        }
    }
}

impl Drop for SharedRdmaCmId {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once; all its events were acknowledged as they were read,
        // and no queue pair uses it any more, as each owns a reference until its own end.
        unsafe { ffi::rdma_destroy_id(self.pointer()) };
    }
}
