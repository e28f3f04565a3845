//! Record marking: how a stream of bytes holds RPC messages. RFC 5531 section 11.

crate::header! {
    /// What stands before each fragment of a record. RFC 5531 section 11.
    pub struct RecordMark [4] "rpc" {
        /// Whether the fragment is the last of its record.
        0..1 is_last: bool => "rpc.lastfrag",
        /// Bytes of the fragment.
        1..32 length: u32 => "rpc.fraglen",
    }
}

/// The longest record that is believed, in bytes: file data of one Call or Reply is shorter everywhere, and a length is
/// believed before the bytes are seen.
pub const LONGEST: u32 = 16 << 20;

/// The shortest message, in bytes: a Reply that says that authentication failed. RFC 5531 section 9.
pub const SHORTEST: u32 = 20;

impl RecordMark {
    /// Reads the mark that these bytes begin with.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes, 0, &mut crate::field::NullObserver).map(|(mark, _)| mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc5531_section_11_the_highest_bit_ends_a_record_and_31_bits_are_the_length() {
        let mark = RecordMark::of(b"\x80\0\x01\x02rest").unwrap();
        assert_eq!((mark.is_last, mark.length), (true, 0x102));
        let mark = RecordMark::of(b"\x7f\xff\xff\xff").unwrap();
        assert_eq!((mark.is_last, mark.length), (false, 0x7fff_ffff));
        assert_eq!(RecordMark::of(b"\x80\0\0"), None);
    }
}
