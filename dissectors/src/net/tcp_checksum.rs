//! Checksums of TCP segments and IPv4 headers. RFC 9293 section 3.1, RFC 1071.

use std::net::IpAddr;

use super::ip::{IpProtocol, Ipv4};
use super::transport_headers::TcpSegment;
use crate::address::Address;

/// Offset of the octet of the data offset in a TCP header: the length of the header in words, in its high 4 bits.
const DATA_OFFSET: usize = 12;
/// Offset of the checksum in a TCP header.
const CHECKSUM_OFFSET: usize = 16;

/// Result of checking the checksum of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpChecksum {
    /// It fits.
    Good,
    /// It covers only the addresses: the capture precedes the network card that completes it, or follows one that
    /// joined several segments.
    Partial,
    /// It contradicts the bytes.
    Bad,
    /// It is 0, not computed, or not all bytes that it covers were captured.
    Unknown,
}

/// Returns the sum of 16-bit words, byte order of the host, not folded to 16 bits. RFC 1071 section 2.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(target, byte)| *target = *byte);
    let add = |words: &[[u8; 8]]| words.iter().map(|word| u128::from(u64::from_ne_bytes(*word))).sum::<u128>();
    // Blocks of a fixed length are summed without a loop.
    let (blocks, words) = words.as_chunks::<8>();
    let all = blocks.iter().map(|block| add(block)).sum::<u128>() + add(words) + add(&[last]);
    let low = all as u64;
    (low & 0xffff_ffff) + (low >> 32) + (all >> 64) as u64
}

/// Adds the carries: 16 bits, byte order of the network.
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::from_be(sum as u16)
}

/// Returns `true` if bytes begin with a whole IPv4 header whose checksum is wrong. RFC 791 section 3.1.
pub fn has_wrong_ipv4_checksum(bytes: &[u8]) -> bool {
    let words = bytes.first().filter(|first| **first >> 4 == 4).map(|first| usize::from(first & 0xf));
    let header = words.and_then(|words| bytes.get(..words * 4)).filter(|header| header.len() >= Ipv4::LENGTH);
    // 0: a network card computes it later.
    header.is_some_and(|header| header.get(10..12) != Some(&[0, 0]) && fold(sum(header)) != 0xffff)
}

impl TcpSegment<'_> {
    /// Checks the checksum of a segment between these addresses.
    pub fn checksum(&self, source: &Address, destination: &Address) -> TcpChecksum {
        let field = self.header.get(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2).and_then(|field| field.try_into().ok());
        let words = self.header.get(DATA_OFFSET).map(|octet| octet >> 4);
        let is_whole = !self.payload.is_cut() && words.is_some_and(|words| self.header.len() == usize::from(words) * 4);
        let Some(field) = field.map(u16::from_be_bytes).filter(|_| is_whole) else {
            return TcpChecksum::Unknown;
        };
        let addresses = match (source, destination) {
            (Address::Ip(IpAddr::V4(source)), Address::Ip(IpAddr::V4(destination))) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
            (Address::Ip(IpAddr::V6(source)), Address::Ip(IpAddr::V6(destination))) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
            _ => return TcpChecksum::Unknown,
        };
        let length = self.header.len() + self.payload.length;
        let addresses = addresses + sum(&[0, 0, 0, IpProtocol::TCP.0]);
        let pseudo_header = addresses + sum(&(length as u32).to_be_bytes());
        // This needs no sum of the bytes. Header and payload are contiguous, and a header has whole words.
        if field == fold(pseudo_header) || field == fold(addresses) {
            TcpChecksum::Partial
        } else if fold(pseudo_header + sum(self.header) + sum(self.payload.bytes)) == 0xffff {
            TcpChecksum::Good
        } else if field == 0 {
            TcpChecksum::Unknown
        } else {
            TcpChecksum::Bad
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::transport_headers::{TcpFlags, TcpSequence};
    use super::*;
    use crate::address::Port;
    use crate::captured_frame::CapturedSlice;

    /// A segment of a capture of the Linux kernel, whose checksum Wireshark confirms: 10.9.0.2 port 666 to 10.9.0.1
    /// port 2049, frame 71 of captures/tcp-v3.pcap.gz.
    fn check(header: &[u8], payload: &[u8], length: usize) -> TcpChecksum {
        let [source, destination] = ["10.9.0.2", "10.9.0.1"].map(|address| Address::Ip(address.parse().unwrap()));
        let segment = TcpSegment {
            source_port: Port(0),
            destination_port: Port(0),
            sequence: TcpSequence(0),
            acknowledgment: TcpSequence(0),
            flags: TcpFlags(0),
            window: 0,
            header,
            payload: CapturedSlice::new(payload, length, 0),
        };
        segment.checksum(&source, &destination)
    }

    /// Sums bytes in another way than the code: RFC 1071 section 4.1.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn rfc9293_section_3_1_checksum_covers_addresses_header_and_data() {
        for (length, filler) in [0_usize, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1448, 65_000]
            .into_iter()
            .flat_map(|length| [(length, 0), (length, 0xff)])
        {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7 + 3) as u8 | filler).collect();
            let mut header: Vec<u8> = (0..32).map(|at| at as u8 ^ 0xa5).collect();
            header[DATA_OFFSET] = 8 << 4;
            header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].fill(0);
            let pseudo = [&[10, 9, 0, 2, 10, 9, 0, 1, 0, 6][..], &(32 + length as u16).to_be_bytes()].concat();
            assert_eq!(check(&header, &payload, length), TcpChecksum::Unknown);
            header[16..18].copy_from_slice(&reference(&pseudo).to_be_bytes());
            assert_eq!(check(&header, &payload, length), TcpChecksum::Partial);
            header[16..18].fill(0);
            let whole = [&pseudo[..], &header, &payload].concat();
            header[16..18].copy_from_slice(&(!reference(&whole)).to_be_bytes());
            assert_eq!(check(&header, &payload, length), TcpChecksum::Good);
            assert_eq!(check(&header, &payload, length + 1), TcpChecksum::Unknown, "a snap length");
            assert_eq!(check(&header[..24], &[], 0), TcpChecksum::Unknown, "a snap length within the options");
            header[5] ^= 4;
            assert_eq!(check(&header, &payload, length), TcpChecksum::Bad);
        }
    }
}
