//! Base Transport Header, the first header of every packet of the InfiniBand transport.

use super::BthOpcode;

crate::number! {
    /// Queue pair number, 24 bits. A packet carries only the destination queue pair.
    pub struct Qpn(u32) as Hex(6);

    /// Packet sequence number, 24 bits, counted modulo 2^24. InfiniBand Architecture Specification volume 1,
    /// section 9.7.1.
    pub struct Psn(u32) as Unsigned;

    /// Partition key, 16 bits; the highest bit marks full membership. Section 10.9.
    pub struct PartitionKey(u16) as Hex(4);
}

crate::header! {
    /// Base Transport Header. InfiniBand Architecture Specification volume 1, section 9.2.
    pub struct Bth [12] "infiniband.bth" {
        /// Transport service, operation, and the headers that follow.
        0..8 opcode: BthOpcode => "infiniband.bth.opcode",
        /// Solicited event: requests an event for the responder's consumer.
        8..9 se: bool => "infiniband.bth.se",
        /// Migration request: state of path migration.
        9..10 m: bool => "infiniband.bth.m",
        /// Number of padding bytes after the payload, 0 to 3, which align the ICRC.
        10..12 padcnt: u8 => "infiniband.bth.padcnt",
        /// Version of the transport header; 0.
        12..16 tver: u8 => "infiniband.bth.tver",
        /// Partition that the packet belongs to.
        16..32 pkey: PartitionKey => "infiniband.bth.p_key",
        /// Forward explicit congestion notification: the packet passed a congested port.
        32..33 fecn: bool => "infiniband.bth.fecn",
        /// Backward explicit congestion notification: packets of the other direction passed a congested port.
        33..34 becn: bool => "infiniband.bth.becn",
        /// Destination queue pair.
        40..64 destqp: Qpn => "infiniband.bth.destqp",
        /// Acknowledge request.
        64..65 ackreq: bool => "infiniband.bth.a",
        /// Packet sequence number.
        72..96 psn: Psn => "infiniband.bth.psn",
    }
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
    use crate::field::NullFieldObserver;

    #[test]
    fn psn_counts_modulo_2_24() {
        assert_eq!(Psn(0xff_ffff).next(), Psn(0));
        assert_eq!(Psn(0xff_fffe).add(4), Psn(2));
        assert_eq!(Psn(0).add(u32::MAX), Psn(0xff_ffff));
    }

    #[test]
    fn distance_goes_the_short_way_round() {
        assert_eq!(Psn(5).distance(Psn(7)), 2);
        assert_eq!(Psn(7).distance(Psn(5)), -2);
        assert_eq!(Psn(0xff_ffff).distance(Psn(1)), 2);
        assert_eq!(Psn(1).distance(Psn(0xff_ffff)), -2);
        assert_eq!(Psn(0).distance(Psn(0x7f_ffff)), 0x7f_ffff);
        assert_eq!(Psn(0).distance(Psn(0x80_0000)), -0x80_0000);
    }

    #[test]
    fn every_bit_of_the_header_has_its_place_and_comes_back() {
        let bytes = [0x04, 0b1110_0000, 0xff, 0xff, 0b0100_0000, 0, 0, 0x11, 0x80, 0xc7, 0x3b, 0xf3];
        let (bth, rest) = Bth::decode(&bytes, 0, &mut NullFieldObserver).unwrap();
        assert_eq!(rest, []);
        assert_eq!(
            bth,
            Bth {
                opcode: BthOpcode::RC_SEND_ONLY,
                se: true,
                m: true,
                padcnt: 2,
                tver: 0,
                pkey: PartitionKey(0xffff),
                fecn: false,
                becn: true,
                destqp: Qpn(0x11),
                ackreq: true,
                psn: Psn(0xc7_3bf3),
            }
        );
        assert_eq!(bth.encode(), bytes);
        assert_eq!(Bth::decode(&bytes[..11], 0, &mut NullFieldObserver), None);
    }
}
