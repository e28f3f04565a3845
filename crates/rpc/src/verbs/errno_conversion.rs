//! Conversion of an errno of libibverbs or librdmacm into a transport error.

use std::io;

use crate::transport_error::RpcClientTransportErrorKind;

/// Error for missing libraries: their names, and their packages in Debian and Ubuntu.
const LIBRARIES: RpcClientTransportErrorKind = RpcClientTransportErrorKind::Library(
    "librdmacm.so.1 or libibverbs.so.1",
    "librdmacm1 (Debian 13: librdmacm1t64) and ibverbs-providers",
);

/// Returns the error of a call that just failed and set errno.
pub(super) fn from_last_errno(operation: &'static str) -> RpcClientTransportErrorKind {
    from_io_error(operation, io::Error::last_os_error())
}

/// Returns the error of a call that set errno, unless its result is 0.
pub(super) fn check_last(operation: &'static str, result: i32) -> Result<(), RpcClientTransportErrorKind> {
    if result == 0 { Ok(()) } else { Err(from_last_errno(operation)) }
}

/// Returns the error of a call that returned its errno, unless that is 0.
pub(super) fn check_returned(operation: &'static str, errno: i32) -> Result<(), RpcClientTransportErrorKind> {
    if errno == 0 { Ok(()) } else { Err(from_returned_errno(operation, errno)) }
}

/// Returns the error of a call that returned its errno.
pub(super) fn from_returned_errno(operation: &'static str, errno: i32) -> RpcClientTransportErrorKind {
    // Some verbs return -1 and set errno, others return errno, or its negative.
    if errno == -1 {
        from_last_errno(operation)
    } else {
        from_io_error(operation, io::Error::from_raw_os_error(errno.abs()))
    }
}

/// Returns the error of the first call of a library, where EOPNOTSUPP means that the shim found no library: it answers
/// every call with it. Later calls may get EOPNOTSUPP from the device.
pub(super) fn from_first_call(operation: &'static str, error: io::Error) -> RpcClientTransportErrorKind {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) { LIBRARIES } else { from_io_error(operation, error) }
}

/// Returns the error for an errno whose meaning does not depend on the call.
pub(super) fn from_io_error(operation: &'static str, error: io::Error) -> RpcClientTransportErrorKind {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => RpcClientTransportErrorKind::NotAllowed(operation),
        Some(libc::ECONNREFUSED) => RpcClientTransportErrorKind::Refused,
        Some(libc::ECONNRESET) => RpcClientTransportErrorKind::Reset,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => RpcClientTransportErrorKind::NoRoute,
        Some(libc::ENODEV) => RpcClientTransportErrorKind::NoDevice,
        _ => RpcClientTransportErrorKind::System(operation, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(errno: i32) -> String {
        from_first_call("rdma_create_event_channel", io::Error::from_raw_os_error(errno)).to_string()
    }

    #[test]
    fn missing_libraries_and_devices_are_reported_in_one_line() {
        assert_eq!(
            line(libc::EOPNOTSUPP),
            "librdmacm.so.1 or libibverbs.so.1 cannot be loaded, which RDMA needs; install the package \
             librdmacm1 (Debian 13: librdmacm1t64) and ibverbs-providers"
        );
        assert!(line(libc::ENODEV).starts_with("no RDMA device"), "{}", line(libc::ENODEV));
        assert!(line(libc::EACCES).starts_with("operation not permitted: rdma_create_event_channel"));
    }

    #[test]
    fn an_unsupported_verb_is_not_reported_as_a_missing_library() {
        let line = from_io_error("ibv_alloc_mw", io::Error::from_raw_os_error(libc::EOPNOTSUPP)).to_string();
        assert!(line.starts_with("ibv_alloc_mw: "), "{line}");
    }

    #[test]
    fn an_errno_is_one_returned_or_negated() {
        for errno in [libc::EINVAL, -libc::EINVAL] {
            let RpcClientTransportErrorKind::System(_, error) = from_returned_errno("", errno) else { panic!() };
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
