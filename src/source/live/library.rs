//! The version of libpcap that the program runs with; the `pcap` crate does not tell it.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    fn pcap_lib_version() -> *const c_char;
}

/// The version of libpcap as the library itself writes it: `libpcap version 1.10.3 (with TPACKET_V3)`.
pub fn library_version() -> String {
    // SAFETY: The function takes nothing, and pcap_lib_version(3PCAP) says that it gives a string, which is constant.
    let version = unsafe { pcap_lib_version() };
    if version.is_null() {
        return "libpcap".to_owned();
    }
    // SAFETY: It is not null, ends with NUL, and lives as long as the program.
    let version = unsafe { CStr::from_ptr(version) };
    version.to_string_lossy().into_owned()
}
