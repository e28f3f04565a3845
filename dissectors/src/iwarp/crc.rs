//! CRC32C at the end of every FPDU. RFC 5044 section 4.4.

/// Running CRC of bytes on the wire. It accepts an FPDU in any pieces, including its markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningFpduCrc(u32);

impl RunningFpduCrc {
    /// Length of the field in bytes.
    pub const LENGTH: usize = 4;

    /// Returns the CRC of `bytes`.
    #[inline]
    pub fn compute(bytes: &[u8]) -> Self {
        Self(crc32c::crc32c(bytes))
    }

    /// Returns the CRC extended by `bytes`.
    #[inline]
    #[must_use]
    pub fn append(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// Returns the field as sent: least significant byte first, as in iSCSI.
    #[inline]
    pub fn to_wire_bytes(self) -> [u8; Self::LENGTH] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3720_appendix_b_4_examples() {
        assert_eq!(RunningFpduCrc::compute(&[0; 32]).to_wire_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(RunningFpduCrc::compute(&[0xff; 32]).to_wire_bytes(), [0x43, 0xab, 0xa8, 0x62]);
    }

    #[test]
    fn a_crc_of_pieces_equals_that_of_the_whole() {
        let bytes: Vec<u8> = (0..100).collect();
        assert_eq!(RunningFpduCrc::compute(&bytes[..33]).append(&bytes[33..]), RunningFpduCrc::compute(&bytes));
        assert_eq!(RunningFpduCrc::default().append(&bytes), RunningFpduCrc::compute(&bytes));
    }
}
