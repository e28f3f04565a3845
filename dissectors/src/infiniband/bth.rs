//! Base Transport Header, the first header of every packet of the InfiniBand transport.

use super::opcode::BthOpcode;
use super::queue_pair_and_packet_numbers::{PartitionKey, Psn, Qpn};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::NullFieldObserver;

    #[test]
    fn every_bit_of_the_header_is_decoded_and_encoded_back() {
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
