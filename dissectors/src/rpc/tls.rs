//! Recognition of RPC-over-TLS, which is not decrypted. RFC 9289.

/// Maximum length of a protected record in bytes. RFC 8446 section 5.2.
const MAX_RECORD_BYTES: u16 = (1 << 14) + 2048;

/// Returns `true` if a TLS record begins here, by type, version and length. RFC 8446 section 5.1.
pub fn begins_record(bytes: &[u8]) -> bool {
    let [kind, 3, minor, high, low, ..] = bytes else { return false };
    let length = u16::from_be_bytes([*high, *low]);
    matches!(kind, 20..=23) && (1..=4).contains(minor) && (1..=MAX_RECORD_BYTES).contains(&length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8446_section_5_1_a_record_begins_with_type_version_and_length() {
        assert!(begins_record(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"));
        assert!(begins_record(b"\x17\x03\x03\x00\x45"));
        assert!(!begins_record(b"\x17\x03\x03\x48\x01"), "too long");
        assert!(!begins_record(b"\x16\x03\x00\x00\x20"), "SSL 3.0");
        assert!(!begins_record(b"\x80\x00\x00\x28\x07"), "a record mark");
    }
}
