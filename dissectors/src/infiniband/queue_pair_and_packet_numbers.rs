//! Numbers of queue pairs and their packets, and partition keys.

crate::number! {
    /// Queue pair number, 24 bits. A packet carries only the destination queue pair.
    pub struct Qpn(u32) as Hex(6);

    /// Packet sequence number, 24 bits, counted modulo 2^24. InfiniBand Architecture Specification volume 1,
    /// section 9.7.1.
    pub struct Psn(u32) as Unsigned;

    /// Partition key, 16 bits; the highest bit marks full membership. Section 10.9.
    pub struct PartitionKey(u16) as Hex(4);
}

impl Qpn {
    /// Queue pair 0: subnet management.
    pub const SUBNET_MANAGEMENT: Self = Self(0);
    /// Queue pair 1: general services, including communication management.
    pub const GENERAL_SERVICES: Self = Self(1);
}

impl Psn {
    /// Number of distinct values.
    pub const MODULUS: u32 = 1 << 24;

    /// Returns the next sequence number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the sequence number `count` packets later, modulo 2^24.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & (Self::MODULUS - 1))
    }

    /// Returns the number of packets from `self` to `other`, -2^23 to 2^23 - 1; negative if `other` comes first.
    #[inline]
    pub const fn distance(self, other: Self) -> i32 {
        // Moves the 24 bits to the top of the word, so that the arithmetic shift back extends their sign.
        (other.0.wrapping_sub(self.0) << 8) as i32 >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_counts_modulo_2_24() {
        assert_eq!(Psn(0xff_ffff).next(), Psn(0));
        assert_eq!(Psn(0xff_fffe).add(4), Psn(2));
        assert_eq!(Psn(0).add(u32::MAX), Psn(0xff_ffff));
    }

    #[test]
    fn the_distance_is_the_shorter_way_around() {
        assert_eq!(Psn(5).distance(Psn(7)), 2);
        assert_eq!(Psn(7).distance(Psn(5)), -2);
        assert_eq!(Psn(0xff_ffff).distance(Psn(1)), 2);
        assert_eq!(Psn(1).distance(Psn(0xff_ffff)), -2);
        assert_eq!(Psn(0).distance(Psn(0x7f_ffff)), 0x7f_ffff);
        assert_eq!(Psn(0).distance(Psn(0x80_0000)), -0x80_0000);
    }
}
