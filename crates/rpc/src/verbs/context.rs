//! An open device with its limits, and the protection domain of its memory and its queue pairs.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_mummy_sys as ffi;

use super::cm_id::SharedRdmaCmId;
use super::errno_conversion;
use crate::params::RdmaFabric;
use crate::transport_error::RpcClientTransportErrorKind;

/// IBV_LINK_LAYER_ETHERNET of `infiniband/verbs.h`.
const LINK_LAYER_ETHERNET: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerbsDeviceLimits {
    /// Maximum number of RDMA Reads that a server may have outstanding on one queue pair.
    pub(crate) responder_resources: u8,
    /// Maximum number of Work Requests in a send or receive queue.
    pub(crate) queue_depth: u32,
    /// Maximum number of entries of a completion queue.
    pub(crate) completions: u32,
    /// `true` if the device supports memory windows of type 2B, which a queue pair binds and a server can invalidate.
    pub(crate) supports_windows: bool,
}

/// An open device. It stays open because it owns a reference to the identifier that is bound to it.
pub(crate) struct VerbsContext {
    verbs: NonNull<ffi::ibv_context>,
    pub(crate) name: String,
    pub(crate) fabric: RdmaFabric,
    pub(crate) limits: VerbsDeviceLimits,
    _bound: Arc<SharedRdmaCmId>,
}

// SAFETY: libibverbs allows calls from any thread on one device.
unsafe impl Send for VerbsContext {}
// SAFETY: as above.
unsafe impl Sync for VerbsContext {}

impl VerbsContext {
    /// Queries the device that an identifier is bound to.
    pub(super) fn for_identifier(identifier: &Arc<SharedRdmaCmId>) -> Result<Self, RpcClientTransportErrorKind> {
        let verbs = NonNull::new(identifier.verbs()).ok_or(RpcClientTransportErrorKind::NoDevice)?;
        // SAFETY: all-zero bytes are a valid value of these structures of numbers.
        let (mut device, mut port) =
            unsafe { (std::mem::zeroed::<ffi::ibv_device_attr>(), std::mem::zeroed::<ffi::ibv_port_attr>()) };
        // SAFETY: the device is open as long as the identifier lives, and this call owns both structures.
        let (device_result, port_result) = unsafe {
            let result = ffi::ibv_query_device(verbs.as_ptr(), &raw mut device);
            (result, ffi::ibv_query_port(verbs.as_ptr(), identifier.port(), &raw mut port))
        };
        errno_conversion::check_returned("ibv_query_device", device_result)?;
        errno_conversion::check_returned("ibv_query_port", port_result)?;
        // SAFETY: an open context points to its device, whose name is a NUL-terminated array.
        let (name, transport) = unsafe {
            let device = verbs.as_ref().device;
            (CStr::from_ptr((&raw const (*device).name).cast()), (*device).transport_type)
        };
        let fabric = match (transport, port.link_layer) {
            (ffi::ibv_transport_type::IBV_TRANSPORT_IWARP, _) => RdmaFabric::Iwarp,
            (_, LINK_LAYER_ETHERNET) => RdmaFabric::Roce,
            _ => RdmaFabric::Infiniband,
        };
        let number = |value: i32| u32::try_from(value).unwrap_or(0);
        let windows = ffi::ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2B.0;
        let limits = VerbsDeviceLimits {
            responder_resources: u8::try_from(device.max_qp_rd_atom).unwrap_or(u8::MAX),
            queue_depth: number(device.max_qp_wr),
            completions: number(device.max_cqe),
            supports_windows: device.device_cap_flags & windows != 0,
        };
        let name = name.to_string_lossy().into_owned();
        Ok(Self { verbs, name, fabric, limits, _bound: Arc::clone(identifier) })
    }

    pub(super) fn is_device_of(&self, identifier: &SharedRdmaCmId) -> bool {
        identifier.verbs() == self.verbs.as_ptr()
    }

    /// Returns the device for calls of libibverbs; open as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::ibv_context {
        self.verbs.as_ptr()
    }
}

/// A protection domain. Queue pairs, regions and windows work together only within one domain.
pub(crate) struct ProtectionDomain {
    domain: NonNull<ffi::ibv_pd>,
    pub(super) context: Arc<VerbsContext>,
    /// `true` if servers access its memory only through windows.
    pub(super) uses_windows: bool,
}

// SAFETY: libibverbs allows calls from any thread on one domain.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// Allocates a domain on a device. `windows`: servers access its memory only through windows. Returns an error if
    /// the device cannot allocate one.
    pub(crate) fn new(context: &Arc<VerbsContext>, windows: bool) -> Result<Arc<Self>, RpcClientTransportErrorKind> {
        // SAFETY: the device is open.
        let domain = NonNull::new(unsafe { ffi::ibv_alloc_pd(context.pointer()) })
            .ok_or_else(|| errno_conversion::from_last_errno("ibv_alloc_pd"))?;
        Ok(Arc::new(Self { domain, context: Arc::clone(context), uses_windows: windows }))
    }

    /// Returns the domain for calls of libibverbs; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::ibv_pd {
        self.domain.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once, and no object of the domain is left, as each owns a reference to it.
        unsafe { ffi::ibv_dealloc_pd(self.pointer()) };
    }
}
