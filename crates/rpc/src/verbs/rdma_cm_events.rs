//! Events of the connection manager: addresses and routes resolved, connections established or ended.

use std::ptr::NonNull;
use std::time::Instant;

use rdma_mummy_sys as ffi;
use rdma_mummy_sys::rdma_cm_event_type as event_type;

use super::{errno_conversion, wait};
use crate::transport_error::RpcClientTransportErrorKind;

/// Maximum length of private data in bytes, over any fabric: the length field is one byte.
const MOST_PRIVATE_DATA: usize = 255;

/// The kind of an event of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RdmaCmEventKind {
    /// The address is resolved to a device.
    AddressResolved,
    /// No device reaches the address, or nothing answers there.
    AddressError,
    RouteResolved,
    RouteError,
    Established,
    /// The connection could not be set up.
    ConnectError,
    /// The peer did not answer.
    Unreachable,
    Rejected,
    Disconnected,
    DeviceRemoval,
    Other(u32),
}

/// An event, copied out of the library's memory.
#[derive(Clone, Debug)]
pub(crate) struct RdmaCmEvent {
    pub(crate) kind: RdmaCmEventKind,
    /// Zero, a negative errno, or for a rejection over InfiniBand and RoCE the positive reason of its CM.
    pub(crate) status: i32,
    /// The private data of the peer; empty except for [`RdmaCmEventKind::Established`] and
    /// [`RdmaCmEventKind::Rejected`].
    pub(crate) private_data: Vec<u8>,
}

/// The event channel of one identifier, which is destroyed before it. Closed on drop.
pub(super) struct RdmaCmEventChannel(NonNull<ffi::rdma_event_channel>);

// SAFETY: a channel is a descriptor and state that librdmacm keeps under its own locks; none of it is bound to a
// thread.
unsafe impl Send for RdmaCmEventChannel {}
// SAFETY: as above; the calls made with a shared reference are those that librdmacm allows from any thread.
unsafe impl Sync for RdmaCmEventChannel {}

impl RdmaCmEventChannel {
    /// Opens a channel. It is the first call to fail on a machine without RDMA.
    pub(super) fn new() -> Result<Self, RpcClientTransportErrorKind> {
        // SAFETY: takes no argument, and returns a channel, or null with errno set.
        let channel = NonNull::new(unsafe { ffi::rdma_create_event_channel() }).ok_or_else(channel_error)?;
        let this = Self(channel);
        wait::set_nonblocking(this.fd()).map_err(|error| errno_conversion::from_io_error("an event channel", error))?;
        Ok(this)
    }

    /// Returns the channel for calls of librdmacm; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::rdma_event_channel {
        self.0.as_ptr()
    }

    /// Returns the descriptor that becomes readable when there is an event.
    pub(super) fn fd(&self) -> i32 {
        // SAFETY: the channel is valid until `drop`, and its descriptor does not change.
        unsafe { self.0.as_ref().fd }
    }

    /// Returns the next event, if there is one, without waiting.
    pub(super) fn next(&self) -> Result<Option<RdmaCmEvent>, RpcClientTransportErrorKind> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the channel is valid, and `event` points to a pointer that is read only after success.
        if unsafe { ffi::rdma_get_cm_event(self.pointer(), &raw mut event) } != 0 {
            let error = std::io::Error::last_os_error();
            return match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(None),
                _ => Err(errno_conversion::from_io_error("rdma_get_cm_event", error)),
            };
        }
        // SAFETY: after success the event is valid until it is acknowledged below, and nothing refers to it after that.
        // Of the two kinds of parameters these are those of connections: no identifier here has another port space.
        // Private data that is not null has the length in `private_data_len`.
        let copy = unsafe {
            let (kind, conn) = (kind((*event).event), (*event).param.conn);
            let length = usize::from(conn.private_data_len).min(MOST_PRIVATE_DATA);
            let private_data = match NonNull::new(conn.private_data.cast_mut().cast::<u8>()) {
                Some(bytes) if matches!(kind, RdmaCmEventKind::Established | RdmaCmEventKind::Rejected) => {
                    std::slice::from_raw_parts(bytes.as_ptr(), length).to_vec()
                }
                _ => Vec::new(),
            };
            RdmaCmEvent { kind, status: (*event).status, private_data }
        };
        // SAFETY: the event is acknowledged once, as its identifier cannot be destroyed before.
        unsafe { ffi::rdma_ack_cm_event(event) };
        Ok(Some(copy))
    }

    /// Returns the next event, or `None` if none arrives before the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> Result<Option<RdmaCmEvent>, RpcClientTransportErrorKind> {
        loop {
            if let Some(event) = self.next()? {
                return Ok(Some(event));
            }
            let ready = wait::readable(&mut [wait::poll_entry(self.fd())], deadline);
            if !ready.map_err(|error| errno_conversion::from_io_error("poll", error))? {
                return Ok(None);
            }
        }
    }
}

impl Drop for RdmaCmEventChannel {
    fn drop(&mut self) {
        // SAFETY: the channel was opened by `new`, is closed once, and its identifier was destroyed before:
        // `SharedRdmaCmId` owns both, in this order.
        unsafe { ffi::rdma_destroy_event_channel(self.pointer()) }
    }
}

const DEVICE_FILE: &str = "/dev/infiniband/rdma_cm";

/// Returns the reason that no event channel can be opened. The library reports the file as absent both if it is missing
/// and if it may not be opened.
#[expect(clippy::disallowed_methods, reason = "a device is opened as the library does, and nothing written")]
fn channel_error() -> RpcClientTransportErrorKind {
    let error = std::io::Error::last_os_error();
    let open = std::fs::File::options().read(true).write(true).open(DEVICE_FILE);
    let has_devices = ibverbs::devices().is_ok_and(|devices| !devices.is_empty());
    match (error.raw_os_error(), open.map_err(|error| error.kind())) {
        (Some(libc::ENODEV | libc::ENOENT), Err(std::io::ErrorKind::PermissionDenied)) => {
            RpcClientTransportErrorKind::NotAllowed("opening /dev/infiniband/rdma_cm")
        }
        (Some(libc::ENODEV | libc::ENOENT), _) if has_devices => {
            RpcClientTransportErrorKind::System("/dev/infiniband/rdma_cm is missing (modprobe rdma_ucm)", error)
        }
        (Some(libc::ENOENT), _) => RpcClientTransportErrorKind::NoDevice,
        _ => errno_conversion::from_first_call("opening /dev/infiniband/rdma_cm", error),
    }
}

fn kind(event: event_type::Type) -> RdmaCmEventKind {
    match event {
        event_type::RDMA_CM_EVENT_ADDR_RESOLVED => RdmaCmEventKind::AddressResolved,
        event_type::RDMA_CM_EVENT_ADDR_ERROR => RdmaCmEventKind::AddressError,
        event_type::RDMA_CM_EVENT_ROUTE_RESOLVED => RdmaCmEventKind::RouteResolved,
        event_type::RDMA_CM_EVENT_ROUTE_ERROR => RdmaCmEventKind::RouteError,
        event_type::RDMA_CM_EVENT_ESTABLISHED => RdmaCmEventKind::Established,
        event_type::RDMA_CM_EVENT_CONNECT_ERROR => RdmaCmEventKind::ConnectError,
        event_type::RDMA_CM_EVENT_UNREACHABLE => RdmaCmEventKind::Unreachable,
        event_type::RDMA_CM_EVENT_REJECTED => RdmaCmEventKind::Rejected,
        event_type::RDMA_CM_EVENT_DISCONNECTED => RdmaCmEventKind::Disconnected,
        event_type::RDMA_CM_EVENT_DEVICE_REMOVAL => RdmaCmEventKind::DeviceRemoval,
        other => RdmaCmEventKind::Other(other),
    }
}
