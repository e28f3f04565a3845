//! What the connection manager tells: addresses and routes that were resolved, connections that stand or end.

use std::ptr::NonNull;
use std::time::Instant;

use rdma_mummy_sys as ffi;
use rdma_mummy_sys::rdma_cm_event_type as event_type;

use super::super::RpcTransportErrorKind;
use super::{failure, wait};

/// The most private data that any transport carries: the length is a byte.
const MOST_PRIVATE_DATA: usize = 255;

/// What happened on an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmEventKind {
    /// A device leads to the address.
    AddressResolved,
    /// None does, or nothing answers there.
    AddressError,
    /// The route is known.
    RouteResolved,
    /// There is none.
    RouteError,
    /// The connection stands.
    Established,
    /// It could not be set up.
    ConnectError,
    /// Nothing answered.
    Unreachable,
    /// The other side does not want it.
    Rejected,
    /// It is over.
    Disconnected,
    /// The device is gone.
    DeviceRemoval,
    /// Another event, by its number.
    Other(u32),
}

/// An event, copied out of the library's memory.
#[derive(Clone, Debug)]
pub(crate) struct CmEvent {
    /// What.
    pub(crate) kind: CmEventKind,
    /// Zero; a negative errno; or, of a rejection over InfiniBand and RoCE, the positive reason of its CM.
    pub(crate) status: i32,
    /// What the other side told with it.
    pub(crate) private_data: Vec<u8>,
}

/// Where events come from; closed when it is dropped. Each identifier has its own, which goes after it.
#[derive(Debug)]
pub(super) struct CmEventChannel(NonNull<ffi::rdma_event_channel>);

// SAFETY: a channel is a descriptor and what librdmacm keeps for it under locks of its own; nothing of it belongs to a
// thread.
unsafe impl Send for CmEventChannel {}
// SAFETY: as above; the calls made with a shared reference are those that librdmacm allows from any thread.
unsafe impl Sync for CmEventChannel {}

impl CmEventChannel {
    /// Opens one. The first thing that fails where there is no RDMA.
    pub(super) fn new() -> Result<Self, RpcTransportErrorKind> {
        // SAFETY: takes nothing, and returns a channel or null with errno.
        let channel = NonNull::new(unsafe { ffi::rdma_create_event_channel() }).ok_or_else(no_channel)?;
        let this = Self(channel);
        wait::never_block(this.fd()).map_err(|error| failure::kind("an event channel", error))?;
        Ok(this)
    }

    /// The channel for calls of librdmacm; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::rdma_event_channel {
        self.0.as_ptr()
    }

    /// The descriptor that can be read when there is an event.
    pub(super) fn fd(&self) -> i32 {
        // SAFETY: the channel is valid until `drop`, and its descriptor does not change.
        unsafe { self.0.as_ref().fd }
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Result<Option<CmEvent>, RpcTransportErrorKind> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the channel is valid, and `event` is a place for a pointer that is read only after success.
        if unsafe { ffi::rdma_get_cm_event(self.pointer(), &raw mut event) } != 0 {
            let error = std::io::Error::last_os_error();
            return match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(None),
                _ => Err(failure::kind("rdma_get_cm_event", error)),
            };
        }
        // SAFETY: after success the event is valid until it is acknowledged below, where nothing refers to it any more.
        // Of the two kinds of parameters these are those of connections: no identifier here has another port space.
        // The private data, where there is any, has the length that stands beside it.
        let copy = unsafe {
            let conn = (*event).param.conn;
            let length = usize::from(conn.private_data_len).min(MOST_PRIVATE_DATA);
            let private_data = match NonNull::new(conn.private_data.cast_mut().cast::<u8>()) {
                Some(bytes) if carries_private_data((*event).event) => {
                    std::slice::from_raw_parts(bytes.as_ptr(), length).to_vec()
                }
                _ => Vec::new(),
            };
            CmEvent { kind: kind((*event).event), status: (*event).status, private_data }
        };
        // SAFETY: it is acknowledged once, as an identifier cannot be destroyed before.
        unsafe { ffi::rdma_ack_cm_event(event) };
        Ok(Some(copy))
    }

    /// The next event, waited for until the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> Result<Option<CmEvent>, RpcTransportErrorKind> {
        loop {
            if let Some(event) = self.next()? {
                return Ok(Some(event));
            }
            let ready = wait::readable(&mut [wait::reading(self.fd())], deadline);
            if !ready.map_err(|error| failure::kind("poll", error))? {
                return Ok(None);
            }
        }
    }
}

impl Drop for CmEventChannel {
    fn drop(&mut self) {
        // SAFETY: the channel was opened by `new`, is closed once, and its identifier was destroyed before: `Identifier`
        // owns both, in this order.
        unsafe { ffi::rdma_destroy_event_channel(self.pointer()) }
    }
}

/// Where the connection manager is reached.
const DEVICE_FILE: &str = "/dev/infiniband/rdma_cm";

/// Why there is no event channel. The library says that there is none of the file, whether it is missing or may not be opened.
#[expect(clippy::disallowed_methods, reason = "a device is opened as the library does, and nothing written")]
fn no_channel() -> RpcTransportErrorKind {
    let error = std::io::Error::last_os_error();
    let open = std::fs::File::options().read(true).write(true).open(DEVICE_FILE);
    let has_devices = ibverbs::devices().is_ok_and(|devices| !devices.is_empty());
    match (error.raw_os_error(), open.map_err(|error| error.kind())) {
        (Some(libc::ENODEV | libc::ENOENT), Err(std::io::ErrorKind::PermissionDenied)) => {
            RpcTransportErrorKind::NotAllowed("opening /dev/infiniband/rdma_cm")
        }
        (Some(libc::ENODEV | libc::ENOENT), _) if has_devices => {
            RpcTransportErrorKind::System("/dev/infiniband/rdma_cm is missing (modprobe rdma_ucm)", error)
        }
        (Some(libc::ENOENT), _) => RpcTransportErrorKind::NoDevice,
        _ => failure::first("opening /dev/infiniband/rdma_cm", error),
    }
}

fn kind(event: event_type::Type) -> CmEventKind {
    match event {
        event_type::RDMA_CM_EVENT_ADDR_RESOLVED => CmEventKind::AddressResolved,
        event_type::RDMA_CM_EVENT_ADDR_ERROR => CmEventKind::AddressError,
        event_type::RDMA_CM_EVENT_ROUTE_RESOLVED => CmEventKind::RouteResolved,
        event_type::RDMA_CM_EVENT_ROUTE_ERROR => CmEventKind::RouteError,
        event_type::RDMA_CM_EVENT_ESTABLISHED => CmEventKind::Established,
        event_type::RDMA_CM_EVENT_CONNECT_ERROR => CmEventKind::ConnectError,
        event_type::RDMA_CM_EVENT_UNREACHABLE => CmEventKind::Unreachable,
        event_type::RDMA_CM_EVENT_REJECTED => CmEventKind::Rejected,
        event_type::RDMA_CM_EVENT_DISCONNECTED => CmEventKind::Disconnected,
        event_type::RDMA_CM_EVENT_DEVICE_REMOVAL => CmEventKind::DeviceRemoval,
        other => CmEventKind::Other(other),
    }
}

fn carries_private_data(event: event_type::Type) -> bool {
    matches!(event, event_type::RDMA_CM_EVENT_ESTABLISHED | event_type::RDMA_CM_EVENT_REJECTED)
}
