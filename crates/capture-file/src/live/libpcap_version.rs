//! The runtime version of libpcap, which the `pcap` crate does not expose.

use std::ffi::{CStr, c_char};

// The `pcap` crate links libpcap, but does not declare this function.
unsafe extern "C" {
    // SAFETY: This is the declaration in pcap/pcap.h since libpcap 0.8, `const char *pcap_lib_version(void)`.
    fn pcap_lib_version() -> *const c_char;
}

/// Returns libpcap's own version string: `libpcap version 1.10.3 (with TPACKET_V3)`.
pub fn library_version() -> String {
    // SAFETY: The function takes no arguments, and pcap/pcap.h and pcap_lib_version(3PCAP) state no preconditions: no
    // library state must be initialized, and concurrent calls are not excluded.
    let version = unsafe { pcap_lib_version() };
    if version.is_null() {
        return "libpcap".to_owned();
    }
    // SAFETY: The pointer is not null. According to pcap_lib_version(3PCAP) it points to a C string, so it is readable
    // up to and including its NUL. The library owns the string and offers no function that frees or changes it; the
    // reference ends below, where the bytes are copied.
    let version = unsafe { CStr::from_ptr(version) };
    version.to_string_lossy().into_owned()
}
