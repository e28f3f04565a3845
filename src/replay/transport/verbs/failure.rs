//! What an errno of libibverbs or librdmacm means to a person.

use std::io;

use super::super::RpcTransportErrorKind;

/// Where the libraries are: the library, and Debian's and Ubuntu's package that has it.
const LIBRARIES: RpcTransportErrorKind = RpcTransportErrorKind::Library(
    "librdmacm.so.1 or libibverbs.so.1",
    "librdmacm1 (Debian 13: librdmacm1t64) and ibverbs-providers",
);

/// The error of a call that just failed and left it in errno.
pub(super) fn last(what: &'static str) -> RpcTransportErrorKind {
    kind(what, io::Error::last_os_error())
}

/// The error of a call that returned it.
pub(super) fn returned(what: &'static str, errno: i32) -> RpcTransportErrorKind {
    // Some verbs return -1 and set errno, others return it, or its negative.
    if errno == -1 { last(what) } else { kind(what, io::Error::from_raw_os_error(errno.abs())) }
}

/// What an error of the first call of a library means: the shim answers everything with EOPNOTSUPP where it found none. From any other
/// call the device may say so.
pub(super) fn first(what: &'static str, error: io::Error) -> RpcTransportErrorKind {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) { LIBRARIES } else { kind(what, error) }
}

/// What an error means where it does not depend on what was tried.
pub(super) fn kind(what: &'static str, error: io::Error) -> RpcTransportErrorKind {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => RpcTransportErrorKind::NotAllowed(what),
        Some(libc::ECONNREFUSED) => RpcTransportErrorKind::Refused,
        Some(libc::ECONNRESET) => RpcTransportErrorKind::Reset,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => RpcTransportErrorKind::NoRoute,
        Some(libc::ENODEV) => RpcTransportErrorKind::NoDevice,
        _ => RpcTransportErrorKind::System(what, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(errno: i32) -> String {
        first("rdma_create_event_channel", io::Error::from_raw_os_error(errno)).to_string()
    }

    #[test]
    fn what_is_not_there_is_said_in_one_line_with_its_remedy() {
        assert_eq!(
            line(libc::EOPNOTSUPP),
            "librdmacm.so.1 or libibverbs.so.1 is not there, or cannot be loaded, which RDMA needs; install the package \
             librdmacm1 (Debian 13: librdmacm1t64) and ibverbs-providers"
        );
        assert!(line(libc::ENODEV).starts_with("no RDMA device"), "{}", line(libc::ENODEV));
        assert!(line(libc::EACCES).starts_with("not allowed: rdma_create_event_channel"));
    }

    #[test]
    fn what_a_device_does_not_support_is_no_missing_library() {
        let line = kind("ibv_alloc_mw", io::Error::from_raw_os_error(libc::EOPNOTSUPP)).to_string();
        assert!(line.starts_with("ibv_alloc_mw: "), "{line}");
    }

    #[test]
    fn an_errno_is_one_returned_or_negated() {
        for errno in [libc::EINVAL, -libc::EINVAL] {
            let RpcTransportErrorKind::System(_, error) = returned("", errno) else { panic!() };
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
