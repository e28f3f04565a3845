//! The identifier of a connection, from an address to a route. Each step returns the type that the next one takes.

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_mummy_sys as ffi;

use super::super::RpcTransportErrorKind;
use super::context::VerbsContext;
use super::errno_conversion;
use super::rdma_cm_events::{RdmaCmEvent, RdmaCmEventChannel, RdmaCmEventKind};
use super::socket_address::{self, VerbsSocketAddress};

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
}

impl Drop for SharedRdmaCmId {
    fn drop(&mut self) {
        // SAFETY: created by `RdmaCmIdSetup::new`, destroyed once; all its events were acknowledged as they were read,
        // and no queue pair uses it any more, as each owns a reference until its own end.
        unsafe { ffi::rdma_destroy_id(self.pointer()) };
    }
}

/// Initial state: neither address nor route is resolved.
pub(crate) struct RdmaCmAddressUnresolvedState;
/// The address is resolved to a device.
pub(crate) struct RdmaCmAddressResolved;
/// The route is resolved: a queue pair can be created.
pub(crate) struct RdmaCmRouteResolved;

/// An identifier and its setup state: [`RdmaCmAddressUnresolvedState`], [`RdmaCmAddressResolved`] or
/// [`RdmaCmRouteResolved`].
pub(crate) struct RdmaCmIdSetup<S> {
    identifier: Arc<SharedRdmaCmId>,
    state: S,
}

impl RdmaCmIdSetup<RdmaCmAddressUnresolvedState> {
    /// Creates an identifier and its event channel. Returns an error if the libraries, a device or the permission to
    /// use it are missing.
    pub(crate) fn new() -> Result<Self, RpcTransportErrorKind> {
        let channel = RdmaCmEventChannel::new()?;
        let mut id = std::ptr::null_mut();
        // SAFETY: the channel is valid and outlives the identifier, `id` points to a pointer, and no context is given.
        let result = unsafe {
            ffi::rdma_create_id(
                channel.pointer(),
                &raw mut id,
                std::ptr::null_mut(),
                ffi::rdma_port_space::RDMA_PS_TCP,
            )
        };
        errno_conversion::check_last("rdma_create_id", result)?;
        let id = NonNull::new(id).ok_or_else(|| errno_conversion::from_last_errno("rdma_create_id"))?;
        Ok(Self { identifier: Arc::new(SharedRdmaCmId { id, channel }), state: RdmaCmAddressUnresolvedState })
    }

    /// Binds the identifier to a local address, so that the connection comes from its port. Returns an error if the
    /// port is in use, or the program may not bind it.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), RpcTransportErrorKind> {
        let mut address = VerbsSocketAddress::from(local);
        // SAFETY: the identifier is valid, and the address is as long as its family requires; librdmacm copies it.
        let result = unsafe { ffi::rdma_bind_addr(self.identifier.pointer(), address.pointer()) };
        errno_conversion::check_last("binding a port", result)
    }

    /// Resolves the server's address to the device that reaches it, and to the server's hardware address. Returns an
    /// error if no device reaches it, or nothing answers before the deadline.
    pub(crate) fn resolve_address(
        self,
        server: SocketAddr,
        deadline: Instant,
    ) -> Result<RdmaCmIdSetup<RdmaCmAddressResolved>, RpcTransportErrorKind> {
        let mut address = VerbsSocketAddress::from(server);
        let time = milliseconds(deadline);
        // SAFETY: as in `bind`; no source address is given, so the routing table decides.
        let result = unsafe {
            ffi::rdma_resolve_addr(self.identifier.pointer(), std::ptr::null_mut(), address.pointer(), time)
        };
        errno_conversion::check_last("resolving the address", result)?;
        expect(&self.identifier, RdmaCmEventKind::AddressResolved, deadline, |event| {
            resolve_error("resolving the address", event)
        })?;
        Ok(RdmaCmIdSetup { identifier: self.identifier, state: RdmaCmAddressResolved })
    }
}

impl RdmaCmIdSetup<RdmaCmAddressResolved> {
    /// Returns the device that reaches the server. Returns an error if the device's properties cannot be queried.
    pub(crate) fn context(&self) -> Result<VerbsContext, RpcTransportErrorKind> {
        VerbsContext::for_identifier(&self.identifier)
    }

    /// Returns `true` if `context` is the device that reaches the server.
    pub(crate) fn uses_device(&self, context: &VerbsContext) -> bool {
        context.is_device_of(&self.identifier)
    }

    /// Resolves the route to the server. Returns an error if there is no route, or the deadline passes.
    pub(crate) fn resolve_route(
        self,
        deadline: Instant,
    ) -> Result<RdmaCmIdSetup<RdmaCmRouteResolved>, RpcTransportErrorKind> {
        let time = milliseconds(deadline);
        // SAFETY: the identifier is valid, and bound to a device, as its state shows.
        let result = unsafe { ffi::rdma_resolve_route(self.identifier.pointer(), time) };
        errno_conversion::check_last("resolving the route", result)?;
        expect(&self.identifier, RdmaCmEventKind::RouteResolved, deadline, |event| {
            resolve_error("resolving the route", event)
        })?;
        Ok(RdmaCmIdSetup { identifier: self.identifier, state: RdmaCmRouteResolved })
    }
}

impl RdmaCmIdSetup<RdmaCmRouteResolved> {
    pub(super) fn into_identifier(self) -> Arc<SharedRdmaCmId> {
        let Self { identifier, state: RdmaCmRouteResolved } = self;
        identifier
    }
}

/// Waits for an event of kind `expected`. `error` returns the error for another event.
pub(super) fn expect(
    id: &SharedRdmaCmId,
    expected: RdmaCmEventKind,
    deadline: Instant,
    error: impl FnOnce(&RdmaCmEvent) -> RpcTransportErrorKind,
) -> Result<RdmaCmEvent, RpcTransportErrorKind> {
    let start = Instant::now();
    match id.channel.wait(deadline)? {
        Some(event) if event.kind == expected => Ok(event),
        Some(event) => Err(error(&event)),
        None => Err(RpcTransportErrorKind::Timeout(deadline.saturating_duration_since(start))),
    }
}

fn resolve_error(operation: &'static str, event: &RdmaCmEvent) -> RpcTransportErrorKind {
    match event.kind {
        RdmaCmEventKind::DeviceRemoval => RpcTransportErrorKind::NoDevice,
        _ if event.status == -libc::ETIMEDOUT => RpcTransportErrorKind::NoRoute,
        _ => errno_conversion::from_returned_errno(operation, event.status),
    }
}

/// Returns the milliseconds until the deadline as librdmacm takes them; at least 1, as it ignores 0.
fn milliseconds(deadline: Instant) -> i32 {
    let remaining = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    i32::try_from(remaining.as_millis()).unwrap_or(i32::MAX)
}
