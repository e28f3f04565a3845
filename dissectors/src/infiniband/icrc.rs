//! Invariant CRC, an end-to-end check of all bytes that no switch or router may change.

use crc32fast::Hasher;

use super::bth::Bth;
use super::headers::{Grh, Lrh};
use super::packet::{ICRC_LENGTH, RdmaEncapsulation};

/// Result of an ICRC check. The values are the four bytes on the wire in big-endian order, as tshark shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icrc {
    /// The ICRC matches.
    Good,
    /// The packet is corrupt, or its sender computes another ICRC.
    Bad {
        /// The computed ICRC.
        expected: u32,
        /// The ICRC of the packet.
        found: u32,
    },
    /// The capture does not have the complete packet with its route headers.
    Unknown,
}

/// Masked Local Route Header, all ones, for RoCE packets and packets that a router may forward.
const MASKED_LRH: [u8; Lrh::LENGTH] = [0xff; Lrh::LENGTH];

/// Offset of the BTH byte that holds the congestion bits.
const CONGESTION_OFFSET: usize = 4;

/// Length of a UDP header in bytes; its last two are the checksum.
const UDP_HEADER_BYTES: usize = 8;

/// Checks the ICRC of a packet. InfiniBand Architecture Specification volume 1, section 7.8.1; RoCE: annex A16; RoCEv2:
/// annex A17.
///
/// `routes` are the bytes before the Base Transport Header: from the Local Route Header, the Global Route Header of
/// RoCEv1, or the IP header. `packet` are the bytes from the Base Transport Header through the ICRC.
pub fn check(wire: RdmaEncapsulation, routes: &[u8], packet: &[u8]) -> Icrc {
    let mut hasher = Hasher::new();
    let route_result = match wire {
        RdmaEncapsulation::RoceV2 => hash_roce_v2_route(routes, &mut hasher),
        RdmaEncapsulation::RoceV1 => {
            hasher.update(&MASKED_LRH);
            hash_global_route(routes, &mut hasher)
        }
        RdmaEncapsulation::InfiniBand => hash_native_route(routes, &mut hasher),
    };
    let (Some(()), Some((covered, icrc)), Some((bth, _))) =
        (route_result, packet.split_last_chunk::<ICRC_LENGTH>(), packet.split_first_chunk::<{ Bth::LENGTH }>())
    else {
        return Icrc::Unknown;
    };
    let Some(after_bth) = covered.get(Bth::LENGTH..) else { return Icrc::Unknown };
    let mut bth = *bth;
    bth[CONGESTION_OFFSET] = 0xff;
    hasher.update(&bth);
    hasher.update(after_bth);
    // The CRC is sent least significant byte first.
    let expected = hasher.finalize().swap_bytes();
    let found = u32::from_be_bytes(*icrc);
    if expected == found { Icrc::Good } else { Icrc::Bad { expected, found } }
}

fn hash_roce_v2_route(routes: &[u8], hasher: &mut Hasher) -> Option<()> {
    hasher.update(&MASKED_LRH);
    let (ip, udp) = routes.split_at_checked(routes.len().checked_sub(UDP_HEADER_BYTES)?)?;
    match ip.first()? >> 4 {
        4 => {
            let (header, options) = ip.split_first_chunk::<20>()?;
            let mut header = *header;
            // Type of service, time to live and checksum.
            for variant in [1, 8, 10, 11] {
                header[variant] = 0xff;
            }
            hasher.update(&header);
            hasher.update(options);
        }
        6 => hash_ipv6_header(ip, hasher)?,
        _ => return None,
    }
    let (udp, _) = udp.split_first_chunk::<6>()?;
    hasher.update(udp);
    hasher.update(&[0xff; 2]);
    Some(())
}

fn hash_native_route(routes: &[u8], hasher: &mut Hasher) -> Option<()> {
    let (lrh, global) = routes.split_first_chunk::<{ Lrh::LENGTH }>()?;
    if global.is_empty() {
        let mut lrh = *lrh;
        // The virtual lane.
        lrh[0] |= 0xf0;
        hasher.update(&lrh);
        return Some(());
    }
    // Routers replace the Local Route Header, so none of it is invariant.
    hasher.update(&MASKED_LRH);
    hash_global_route(global, hasher)
}

fn hash_global_route(routes: &[u8], hasher: &mut Hasher) -> Option<()> {
    if routes.len() == Grh::LENGTH { hash_ipv6_header(routes, hasher) } else { None }
}

/// Hashes an IPv6 header or Global Route Header: traffic class, flow label and hop limit vary.
fn hash_ipv6_header(header: &[u8], hasher: &mut Hasher) -> Option<()> {
    let (fixed, extensions) = header.split_first_chunk::<{ Grh::LENGTH }>()?;
    let mut fixed = *fixed;
    fixed[0] |= 0x0f;
    for variant in [1, 2, 3, 7] {
        fixed[variant] = 0xff;
    }
    hasher.update(&fixed);
    hasher.update(extensions);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of Linux rxe over IPv4: IP and UDP, BTH, AETH, ICRC.
    const OVER_IPV4: [u8; 48] = [
        0x45, 0x00, 0x00, 0x30, 0x4d, 0xba, 0x40, 0x00, 0x40, 0x11, 0xd8, 0xee, 0x0a, 0x09, 0x00, 0x01, 0x0a, 0x09,
        0x00, 0x02, 0xe9, 0x09, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
        0x00, 0xc7, 0x3b, 0xf3, 0x1f, 0x00, 0x00, 0x01, 0xfd, 0x81, 0x31, 0x4d,
    ];

    /// The same over IPv6.
    const OVER_IPV6: [u8; 68] = [
        0x60, 0x00, 0x00, 0x00, 0x00, 0x1c, 0x11, 0x40, 0xfd, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfd, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x01, 0xd7, 0x43, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00,
        0x00, 0x11, 0x00, 0x31, 0x5c, 0xa0, 0x1f, 0x00, 0x00, 0x01, 0x19, 0x28, 0x8f, 0xc7,
    ];

    fn over_ip(datagram: &[u8], routes: usize) -> Icrc {
        check(RdmaEncapsulation::RoceV2, &datagram[..routes], &datagram[routes..])
    }

    /// Flips every bit of a datagram in turn, and returns the bytes with a bit that the check does not cover.
    fn not_covered(datagram: &[u8], routes: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for bit in 0..datagram.len() * 8 {
            let mut flipped = datagram.to_vec();
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            if over_ip(&flipped, routes) == Icrc::Good {
                found.push(bit / 8);
            }
        }
        found.dedup();
        found
    }

    #[test]
    fn packets_of_linux_are_good_and_variant_fields_are_not_covered() {
        assert_eq!(over_ip(&OVER_IPV4, 28), Icrc::Good);
        assert_eq!(not_covered(&OVER_IPV4, 28), [1, 8, 10, 11, 26, 27, 32]);
        assert_eq!(over_ip(&OVER_IPV6, 48), Icrc::Good);
        assert_eq!(not_covered(&OVER_IPV6, 48), [0, 1, 2, 3, 7, 46, 47, 52]);
    }

    #[test]
    fn a_bad_icrc_has_the_expected_value() {
        let mut datagram = OVER_IPV4;
        datagram[47] ^= 1;
        assert_eq!(over_ip(&datagram, 28), Icrc::Bad { expected: 0xfd81_314d, found: 0xfd81_314c });
    }

    #[test]
    fn without_all_of_the_packet_nothing_is_known() {
        assert_eq!(over_ip(&OVER_IPV4[..28], 28), Icrc::Unknown);
        assert_eq!(check(RdmaEncapsulation::RoceV2, &OVER_IPV4[..19], &OVER_IPV4[28..]), Icrc::Unknown);
        assert_eq!(check(RdmaEncapsulation::RoceV1, &[], &OVER_IPV4[28..]), Icrc::Unknown);
        assert_eq!(check(RdmaEncapsulation::InfiniBand, &[0; 4], &OVER_IPV4[28..]), Icrc::Unknown);
    }

    /// Appends the ICRC of a packet whose variant bytes are all ones.
    fn sealed(invariant: &[&[u8]], packet: &[u8]) -> Vec<u8> {
        let mut masked = packet.to_vec();
        masked[4] = 0xff;
        let icrc = crc32fast::hash(&[&invariant.concat()[..], &masked].concat());
        [packet, &icrc.to_le_bytes()].concat()
    }

    #[test]
    fn native_packets_cover_the_local_route_unless_a_router_may_replace_it() {
        let packet = &OVER_IPV4[28..44];
        let lrh = [0x20, 0x02, 0x00, 0x09, 0x00, 0x07, 0x00, 0x02];
        let local = sealed(&[&[0xf0], &lrh[1..]], packet);
        assert_eq!(check(RdmaEncapsulation::InfiniBand, &lrh, &local), Icrc::Good);

        let mut grh = OVER_IPV6[..40].to_vec();
        grh[6] = Grh::NEXT_BTH;
        let masked = [&[0x6f, 0xff, 0xff, 0xff, 0x00, 0x1c, 0x1b, 0xff][..], &grh[8..]].concat();
        let global = sealed(&[&[0xff; 8], &masked], packet);
        assert_eq!(check(RdmaEncapsulation::InfiniBand, &[&lrh[..], &grh].concat(), &global), Icrc::Good);
        assert_eq!(check(RdmaEncapsulation::RoceV1, &grh, &global), Icrc::Good);
        assert!(matches!(check(RdmaEncapsulation::InfiniBand, &lrh, &global), Icrc::Bad { .. }));
    }
}
