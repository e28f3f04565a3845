//! Record marking: framing of RPC messages in a byte stream. RFC 5531 section 11.

crate::header! {
    /// Record mark before each fragment of a record. RFC 5531 section 11.
    pub struct RecordMark [4] "rpc" {
        /// `true` for the last fragment of its record.
        0..1 is_last: bool => "rpc.lastfrag",
        /// Length of the fragment in bytes.
        1..32 length: u32 => "rpc.fraglen",
    }
}

/// Maximum accepted record length in bytes. Exceeds the file data of any Call or Reply; the limit applies before the
/// bytes are captured.
pub const MAX_RECORD_BYTES: u32 = 16 << 20;

/// Minimum message length in bytes: a Reply with an authentication failure. RFC 5531 section 9.
pub const MIN_MESSAGE_BYTES: u32 = 20;

impl RecordMark {
    /// Decodes the record mark at the start of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes, 0, &mut crate::field::NullFieldObserver).map(|(mark, _)| mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc5531_section_11_the_highest_bit_ends_a_record_and_31_bits_are_the_length() {
        let mark = RecordMark::from_bytes(b"\x80\0\x01\x02rest").unwrap();
        assert_eq!((mark.is_last, mark.length), (true, 0x102));
        let mark = RecordMark::from_bytes(b"\x7f\xff\xff\xff").unwrap();
        assert_eq!((mark.is_last, mark.length), (false, 0x7fff_ffff));
        assert_eq!(RecordMark::from_bytes(b"\x80\0\0"), None);
    }
}
