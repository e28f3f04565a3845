//! The setup of the identifier of a connection, from an address to a route. Each step returns the type that the next
//! one takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_mummy_sys as ffi;

use super::cm_id::SharedRdmaCmId;
use super::context::VerbsContext;
use super::errno_conversion;
use super::rdma_cm_events::{RdmaCmEvent, RdmaCmEventKind};
use super::socket_address::VerbsSocketAddress;
use crate::transport_error::RpcClientTransportErrorKind;

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
    pub(crate) fn new() -> Result<Self, RpcClientTransportErrorKind> {
        Ok(Self { identifier: Arc::new(SharedRdmaCmId::new()?), state: RdmaCmAddressUnresolvedState })
    }

    /// Binds the identifier to a local address, so that the connection comes from its port. Returns an error if the
    /// port is in use, or the program may not bind it.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), RpcClientTransportErrorKind> {
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
    ) -> Result<RdmaCmIdSetup<RdmaCmAddressResolved>, RpcClientTransportErrorKind> {
        let mut address = VerbsSocketAddress::from(server);
        let time = milliseconds(deadline);
        // SAFETY: as in `bind`; no source address is given, so the routing table decides.
        let result =
            unsafe { ffi::rdma_resolve_addr(self.identifier.pointer(), std::ptr::null_mut(), address.pointer(), time) };
        errno_conversion::check_last("resolving the address", result)?;
        self.identifier.expect(RdmaCmEventKind::AddressResolved, deadline, |event| {
            resolve_error("resolving the address", event)
        })?;
        Ok(RdmaCmIdSetup { identifier: self.identifier, state: RdmaCmAddressResolved })
    }
}

impl RdmaCmIdSetup<RdmaCmAddressResolved> {
    /// Returns the device that reaches the server. Returns an error if the device's properties cannot be queried.
    pub(crate) fn context(&self) -> Result<VerbsContext, RpcClientTransportErrorKind> {
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
    ) -> Result<RdmaCmIdSetup<RdmaCmRouteResolved>, RpcClientTransportErrorKind> {
        let time = milliseconds(deadline);
        // SAFETY: the identifier is valid, and bound to a device, as its state shows.
        let result = unsafe { ffi::rdma_resolve_route(self.identifier.pointer(), time) };
        errno_conversion::check_last("resolving the route", result)?;
        self.identifier
            .expect(RdmaCmEventKind::RouteResolved, deadline, |event| resolve_error("resolving the route", event))?;
        Ok(RdmaCmIdSetup { identifier: self.identifier, state: RdmaCmRouteResolved })
    }
}

impl RdmaCmIdSetup<RdmaCmRouteResolved> {
    pub(super) fn into_identifier(self) -> Arc<SharedRdmaCmId> {
        let Self { identifier, state: RdmaCmRouteResolved } = self;
        identifier
    }
}

fn resolve_error(operation: &'static str, event: &RdmaCmEvent) -> RpcClientTransportErrorKind {
    match event.kind {
        RdmaCmEventKind::DeviceRemoval => RpcClientTransportErrorKind::NoDevice,
        _ if event.status == -libc::ETIMEDOUT => RpcClientTransportErrorKind::NoRoute,
        _ => errno_conversion::from_returned_errno(operation, event.status),
    }
}

/// Returns the milliseconds until the deadline as librdmacm takes them; at least 1, as it ignores 0.
fn milliseconds(deadline: Instant) -> i32 {
    let remaining = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    i32::try_from(remaining.as_millis()).unwrap_or(i32::MAX)
}
