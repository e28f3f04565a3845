//! The identifier of a connection, from an address to a route: each step gives the type that the next one takes.

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_mummy_sys as ffi;

use super::super::RpcTransportErrorKind;
use super::context::VerbsContext;
use super::events::{CmEvent, CmEventChannel, CmEventKind};
use super::failure;
use super::socket_address::{self, VerbsSocketAddress};

/// An `rdma_cm_id` and the channel of its events. Destroyed when the last that needs it is gone: a queue pair, or what
/// was made on its device.
#[derive(Debug)]
pub(super) struct CmIdentifier {
    id: NonNull<ffi::rdma_cm_id>,
    // After the identifier, which is destroyed in `drop`.
    channel: CmEventChannel,
}

// SAFETY: an identifier is memory of librdmacm, which locks what it shares; nothing of it belongs to a thread.
unsafe impl Send for CmIdentifier {}
// SAFETY: as above; what is not safe from two threads at once is called by the one owner of a `CmId` or a queue pair.
unsafe impl Sync for CmIdentifier {}

impl CmIdentifier {
    /// The identifier for calls of librdmacm; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::rdma_cm_id {
        self.id.as_ptr()
    }

    /// The events of this identifier.
    pub(super) fn channel(&self) -> &CmEventChannel {
        &self.channel
    }

    /// The device that it is bound to; null before its address is resolved.
    pub(super) fn verbs(&self) -> *mut ffi::ibv_context {
        // SAFETY: the identifier is valid, and librdmacm sets this field once, in the call that resolves the address,
        // which has its only owner in the hand.
        unsafe { self.id.as_ref().verbs }
    }

    /// The port of the device that it is bound to.
    pub(super) fn port(&self) -> u8 {
        // SAFETY: as above.
        unsafe { self.id.as_ref().port_num }
    }

    /// This side's address and port.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: the identifier is valid, and the address in it is a union that is large enough for every family, as
        // a `sockaddr_storage` is one of its members.
        unsafe { socket_address::read(&raw const self.id.as_ref().route.addr.src_addr_union.src_storage) }
    }
}

impl Drop for CmIdentifier {
    fn drop(&mut self) {
        // SAFETY: created by `CmId::new`, destroyed once; all its events were acknowledged as they were read, and no
        // queue pair is left on it, as each holds the identifier until its own end.
        unsafe { ffi::rdma_destroy_id(self.pointer()) };
    }
}

/// Nothing is known yet.
#[derive(Debug)]
pub(crate) struct CmIdle;
/// A device leads to the address.
#[derive(Debug)]
pub(crate) struct CmAddressResolved;
/// The route is known: a queue pair can be made.
#[derive(Debug)]
pub(crate) struct CmRouteResolved;

/// An identifier in a state of its set-up: [`CmIdle`], [`CmAddressResolved`], [`CmRouteResolved`].
#[derive(Debug)]
pub(crate) struct CmId<S> {
    identifier: Arc<CmIdentifier>,
    state: S,
}

impl CmId<CmIdle> {
    /// A new one.
    ///
    /// # Errors
    /// Where there is no library, no device, or no right to use it.
    pub(crate) fn new() -> Result<Self, RpcTransportErrorKind> {
        let channel = CmEventChannel::new()?;
        let mut id = std::ptr::null_mut();
        // SAFETY: the channel is valid and outlives the identifier, `id` is a place for a pointer, and no context is given.
        let result = unsafe {
            ffi::rdma_create_id(
                channel.pointer(),
                &raw mut id,
                std::ptr::null_mut(),
                ffi::rdma_port_space::RDMA_PS_TCP,
            )
        };
        if result != 0 {
            return Err(failure::last("rdma_create_id"));
        }
        let id = NonNull::new(id).ok_or_else(|| failure::last("rdma_create_id"))?;
        Ok(Self { identifier: Arc::new(CmIdentifier { id, channel }), state: CmIdle })
    }

    /// Takes a port of this side, so that the connection comes from it.
    ///
    /// # Errors
    /// Where the port is in use, or the program may not take it.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), RpcTransportErrorKind> {
        let mut address = VerbsSocketAddress::from(local);
        // SAFETY: the identifier is valid, and the address is as long as its family says; librdmacm copies it.
        let result = unsafe { ffi::rdma_bind_addr(self.identifier.pointer(), address.pointer()) };
        if result == 0 { Ok(()) } else { Err(failure::last("binding a port")) }
    }

    /// Finds the device that leads to the server, and the server's own address behind it.
    ///
    /// # Errors
    /// Where none does, or nothing answers before the deadline.
    pub(crate) fn resolve_address(
        self,
        server: SocketAddr,
        deadline: Instant,
    ) -> Result<CmId<CmAddressResolved>, RpcTransportErrorKind> {
        let mut address = VerbsSocketAddress::from(server);
        let time = milliseconds(deadline);
        // SAFETY: as in `bind`; no source is given, which lets the route decide.
        let result = unsafe {
            ffi::rdma_resolve_addr(self.identifier.pointer(), std::ptr::null_mut(), address.pointer(), time)
        };
        if result != 0 {
            return Err(failure::last("resolving the address"));
        }
        let event = self.expect(CmEventKind::AddressResolved, deadline);
        match event {
            Ok(_) => Ok(CmId { identifier: self.identifier, state: CmAddressResolved }),
            Err(UnexpectedCmEvent::Event(event)) => Err(unresolved("resolving the address", &event)),
            Err(UnexpectedCmEvent::Failed(kind)) => Err(kind),
        }
    }
}

impl CmId<CmAddressResolved> {
    /// The device that leads to the server.
    ///
    /// # Errors
    /// Where the device does not tell its properties.
    pub(crate) fn context(&self) -> Result<VerbsContext, RpcTransportErrorKind> {
        VerbsContext::of(&self.identifier)
    }

    /// Whether this is the device that leads to the server.
    pub(crate) fn is_on(&self, context: &VerbsContext) -> bool {
        context.is_that_of(&self.identifier)
    }

    /// Finds the route to the server.
    ///
    /// # Errors
    /// Where there is none, or it takes too long.
    pub(crate) fn resolve_route(
        self,
        deadline: Instant,
    ) -> Result<CmId<CmRouteResolved>, RpcTransportErrorKind> {
        let time = milliseconds(deadline);
        // SAFETY: the identifier is valid, and bound to a device, as its state says.
        if unsafe { ffi::rdma_resolve_route(self.identifier.pointer(), time) } != 0 {
            return Err(failure::last("resolving the route"));
        }
        match self.expect(CmEventKind::RouteResolved, deadline) {
            Ok(_) => Ok(CmId { identifier: self.identifier, state: CmRouteResolved }),
            Err(UnexpectedCmEvent::Event(event)) => Err(unresolved("resolving the route", &event)),
            Err(UnexpectedCmEvent::Failed(kind)) => Err(kind),
        }
    }
}

impl CmId<CmRouteResolved> {
    /// The identifier for a queue pair.
    pub(super) fn into_identifier(self) -> Arc<CmIdentifier> {
        let Self { identifier, state: CmRouteResolved } = self;
        identifier
    }
}

/// What came instead of an event.
pub(super) enum UnexpectedCmEvent {
    /// Another event.
    Event(CmEvent),
    /// No event at all.
    Failed(RpcTransportErrorKind),
}

impl<S> CmId<S> {
    fn expect(&self, wanted: CmEventKind, deadline: Instant) -> Result<CmEvent, UnexpectedCmEvent> {
        expect(&self.identifier, wanted, deadline)
    }
}

/// Waits for an event of this kind.
pub(super) fn expect(
    id: &CmIdentifier,
    wanted: CmEventKind,
    deadline: Instant,
) -> Result<CmEvent, UnexpectedCmEvent> {
    let started = Instant::now();
    match id.channel().wait(deadline) {
        Ok(Some(event)) if event.kind == wanted => Ok(event),
        Ok(Some(event)) => Err(UnexpectedCmEvent::Event(event)),
        Ok(None) => {
            let waited = deadline.saturating_duration_since(started);
            Err(UnexpectedCmEvent::Failed(RpcTransportErrorKind::Timeout(waited)))
        }
        Err(kind) => Err(UnexpectedCmEvent::Failed(kind)),
    }
}

fn unresolved(what: &'static str, event: &CmEvent) -> RpcTransportErrorKind {
    match event.kind {
        CmEventKind::DeviceRemoval => RpcTransportErrorKind::NoDevice,
        _ if event.status == -libc::ETIMEDOUT => RpcTransportErrorKind::NoRoute,
        _ => failure::returned(what, event.status),
    }
}

/// What is left until the deadline, as librdmacm takes it; at least one, as zero means nothing to it.
fn milliseconds(deadline: Instant) -> i32 {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
}
