//! Integers in the byte order of the capturing machine.

/// Byte order of a pcap file or of a pcapng section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ByteOrder {
    #[default]
    Little,
    Big,
}

impl ByteOrder {
    /// Decodes two bytes.
    #[inline]
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Decodes four bytes.
    #[inline]
    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Decodes eight bytes.
    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Decodes the first `N` words of four bytes. Returns `None` if `bytes` is too short.
    #[inline]
    pub(super) fn decode_words<const N: usize>(self, bytes: &[u8]) -> Option<[u32; N]> {
        let (chunks, _) = bytes.as_chunks::<4>();
        Some(chunks.first_chunk::<N>()?.map(|word| self.u32(word)))
    }

    /// Splits a word that holds two 16-bit integers, in file order.
    pub(super) fn split_halves(self, word: u32) -> (u16, u16) {
        // Lossless: each is one half of the word.
        let (high, low) = ((word >> 16) as u16, word as u16);
        match self {
            Self::Little => (low, high),
            Self::Big => (high, low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_come_in_the_order_of_the_file() {
        let bytes = [0x00, 0x02, 0x00, 0x04];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let [word] = order.decode_words(&bytes).unwrap();
            assert_eq!(order.split_halves(word), (order.u16([0x00, 0x02]), order.u16([0x00, 0x04])));
        }
    }

    #[test]
    fn too_few_bytes_are_no_words() {
        assert_eq!(ByteOrder::Big.decode_words::<2>(&[0, 0, 0, 1, 0, 0, 0]), None);
        assert_eq!(ByteOrder::Big.decode_words::<1>(&[0, 0, 0, 1, 0]), Some([1]));
    }
}
