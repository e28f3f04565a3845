//! Reassembly of IP fragments in bounded memory. RFC 791 section 3.2; RFC 8200 section 4.5.
//!
//! Fragments arrive in any order. Where two overlap, the first captured bytes win. Time is frame
//! time.

use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::{CapturedSlice, Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::field::FieldObserver;
use nfsrdma_dissectors::net::{self, InnermostNetworkPacket, IpFragment, IpIdentification, IpProtocol};
use rustc_hash::FxHashMap;

/// Limits of IP reassembly.
#[derive(Clone, Copy, Debug)]
pub struct IpReassemblyLimits {
    /// Datagrams that wait for fragments.
    pub datagrams: usize,
    /// Total bytes of their fragments.
    pub bytes: usize,
    /// Fragments of one datagram, copies included.
    pub fragments: usize,
    /// Nanoseconds of frame time after which a partial datagram expires, because its identification may
    /// have been reused.
    pub max_age_ns: u64,
}

impl Default for IpReassemblyLimits {
    /// Defaults: 30 seconds as in Linux; 65,535 bytes in fragments of 576 bytes are 120 fragments.
    fn default() -> Self {
        Self { datagrams: 256, bytes: 8 << 20, fragments: 1024, max_age_ns: 30_000_000_000 }
    }
}

/// A completely reassembled datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReassembledDatagram {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Virtual network of the datagram.
    pub tenant: VirtualNetwork,
    /// Protocol of the payload.
    pub protocol: IpProtocol,
    /// Captured payload, up to the first byte removed by a snap length.
    pub bytes: Vec<u8>,
    /// Length of the payload on the wire in bytes.
    pub length: usize,
    /// Frames of its fragments in capture order, copies included.
    pub frames: Vec<FrameNumber>,
}

impl ReassembledDatagram {
    /// Decodes the payload. Field offsets count from the start of the payload.
    pub fn decode<'a, O: FieldObserver<'a>>(&'a self, observer: &mut O) -> InnermostNetworkPacket<'a> {
        let payload = CapturedSlice::new(&self.bytes, self.length, 0);
        net::decode_payload(self.source, self.destination, self.tenant, self.protocol, payload, observer)
    }
}

/// Header fields that the fragments of one datagram share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FragmentKey {
    source: Address,
    destination: Address,
    tenant: VirtualNetwork,
    /// `None` for IPv6, where only the first fragment has it.
    protocol: Option<IpProtocol>,
    identification: IpIdentification,
}

/// A contiguous range of the payload.
#[derive(Debug)]
struct FragmentPayload {
    start: usize,
    /// End of the range on the wire; fewer bytes may have been captured.
    end: usize,
    bytes: Vec<u8>,
}

/// A datagram that waits for fragments.
#[derive(Debug)]
struct PartialDatagram {
    first_seen: Timestamp,
    /// Increasing number that orders datagrams of equal time.
    serial: u64,
    protocol: IpProtocol,
    /// Length of the payload, from the last fragment.
    length: Option<usize>,
    /// Sorted, without overlap.
    payloads: Vec<FragmentPayload>,
    frames: Vec<FrameNumber>,
    buffered_bytes: usize,
}

/// Reassembler of IP fragments.
#[derive(Debug, Default)]
pub struct IpReassembler {
    limits: IpReassemblyLimits,
    partial_datagrams: FxHashMap<FragmentKey, PartialDatagram>,
    buffered_bytes: usize,
    serial: u64,
    dropped_datagrams: u64,
}

/// Largest payload that fragment offsets can reach, in bytes.
const MAX_PAYLOAD_BYTES: usize = 65_535;

impl IpReassembler {
    /// Creates an empty reassembler.
    pub fn new(bounds: IpReassemblyLimits) -> Self {
        Self { limits: bounds, ..Self::default() }
    }

    /// Returns the number of datagrams dropped: expired, beyond a limit, or longer than a datagram can be.
    pub fn dropped_datagrams(&self) -> u64 {
        self.dropped_datagrams
    }

    /// Returns the number of datagrams that wait for fragments.
    pub fn partial_count(&self) -> usize {
        self.partial_datagrams.len()
    }

    /// Returns the number of bytes of buffered fragments.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Adds the fragment that `frame` carries as `datagram`. Returns the datagram if the fragment
    /// completes it.
    pub fn add(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        fragment: &IpFragment<'_>,
    ) -> Option<ReassembledDatagram> {
        let key = FragmentKey {
            source: datagram.source,
            destination: datagram.destination,
            tenant: datagram.tenant,
            protocol: is_ipv4(&datagram.source).then_some(fragment.protocol),
            identification: fragment.identification,
        };
        let start = fragment.offset as usize;
        let end = start.saturating_add(fragment.payload.length);
        let existing = self.partial_datagrams.get(&key);
        let is_expired =
            existing.is_some_and(|partial| frame.time.abs_diff_ns(partial.first_seen) > self.limits.max_age_ns);
        let is_full = existing.is_some_and(|partial| partial.frames.len() >= self.limits.fragments);
        if end > MAX_PAYLOAD_BYTES {
            self.dropped_datagrams += u64::from(existing.is_none());
            self.drop_datagram(&key);
            return None;
        }
        if is_expired || is_full {
            self.drop_datagram(&key);
        }
        if !self.partial_datagrams.contains_key(&key) {
            self.evict_oldest(self.limits.datagrams, self.limits.bytes, None);
            self.serial += 1;
        }
        let serial = self.serial;
        let partial = self.partial_datagrams.entry(key).or_insert_with(|| PartialDatagram {
            first_seen: frame.time,
            serial,
            protocol: fragment.protocol,
            length: None,
            payloads: Vec::new(),
            frames: Vec::new(),
            buffered_bytes: 0,
        });
        let bytes_before = partial.buffered_bytes;
        partial.frames.push(frame.number);
        if start == 0 {
            partial.protocol = fragment.protocol;
        }
        if !fragment.has_more_fragments && partial.length.is_none() {
            partial.length = Some(end);
        }
        partial.add_missing_bytes(start, end, fragment.payload.bytes);
        self.buffered_bytes += partial.buffered_bytes - bytes_before;
        if partial.is_complete() {
            let completed = self.partial_datagrams.remove(&key)?;
            self.buffered_bytes -= completed.buffered_bytes;
            return Some(completed.into_datagram(key));
        }
        self.evict_oldest(usize::MAX, self.limits.bytes, Some(serial));
        None
    }

    /// Drops the oldest datagrams until fewer than `datagrams` remain with at most `bytes` bytes; never
    /// drops `spared`.
    fn evict_oldest(&mut self, datagrams: usize, bytes: usize, spared: Option<u64>) {
        while self.partial_datagrams.len() >= datagrams || self.buffered_bytes > bytes {
            let candidates = self.partial_datagrams.iter().filter(|(_, partial)| Some(partial.serial) != spared);
            let Some(oldest) = candidates.min_by_key(|(_, partial)| partial.serial).map(|(key, _)| *key) else {
                return;
            };
            self.drop_datagram(&oldest);
        }
    }

    fn drop_datagram(&mut self, key: &FragmentKey) {
        if let Some(dropped) = self.partial_datagrams.remove(key) {
            self.buffered_bytes -= dropped.buffered_bytes;
            self.dropped_datagrams += 1;
        }
    }
}

fn is_ipv4(address: &Address) -> bool {
    matches!(address, Address::Ip(address) if address.is_ipv4())
}

impl PartialDatagram {
    /// Adds the bytes that no earlier fragment has.
    fn add_missing_bytes(&mut self, start: usize, end: usize, bytes: &[u8]) {
        let mut at = start;
        let mut index = self.payloads.partition_point(|payload| payload.end <= start);
        while at < end {
            let next = self.payloads.get(index);
            let gap_end = next.map_or(end, |next| next.start.min(end));
            let covered_to = next.map_or(end, |next| next.end);
            if at < gap_end {
                let captured = bytes.get(at - start..).unwrap_or_default();
                let bytes = captured.get(..gap_end - at).unwrap_or(captured).to_vec();
                self.buffered_bytes += bytes.len();
                self.payloads.insert(index, FragmentPayload { start: at, end: gap_end, bytes });
                index += 1;
            }
            index += 1;
            at = covered_to;
        }
    }

    fn is_complete(&self) -> bool {
        let Some(length) = self.length else { return false };
        let mut reached = 0;
        for payload in &self.payloads {
            if payload.start > reached {
                break;
            }
            reached = payload.end;
        }
        reached >= length
    }

    fn into_datagram(self, key: FragmentKey) -> ReassembledDatagram {
        let length = self.length.unwrap_or_default();
        let mut bytes = Vec::with_capacity(length);
        for payload in &self.payloads {
            bytes.extend_from_slice(&payload.bytes);
            if payload.bytes.len() < payload.end - payload.start {
                break;
            }
        }
        bytes.truncate(length);
        ReassembledDatagram {
            source: key.source,
            destination: key.destination,
            tenant: key.tenant,
            protocol: self.protocol,
            bytes,
            length,
            frames: self.frames,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nfsrdma_dissectors::address::Port;
    use nfsrdma_dissectors::captured_frame::LinkType;
    use nfsrdma_dissectors::field::NullFieldObserver;
    use nfsrdma_dissectors::net::NetworkLayerPayload;

    const SECOND: i64 = 1_000_000_000;

    /// Builds an IPv4 datagram with one fragment.
    fn ipv4(id: u16, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + payload.len() as u16).to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend((u16::from(more) << 13 | (offset / 8) as u16).to_be_bytes());
        bytes.extend([64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        [&bytes, payload].concat()
    }

    fn ipv6(id: u32, offset: usize, more: bool, next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((8 + payload.len() as u16).to_be_bytes());
        bytes.extend([44, 64]);
        bytes.extend([0xfd; 16]);
        bytes.extend([0xfe; 16]);
        bytes.extend([next, 0]);
        bytes.extend((offset as u16 | u16::from(more)).to_be_bytes());
        bytes.extend(id.to_be_bytes());
        [&bytes, payload].concat()
    }

    /// Test bench: adds numbered and timed frames of raw IP.
    struct Bench {
        fragments: IpReassembler,
        number: u64,
        time: i64,
    }

    impl Bench {
        fn new(bounds: IpReassemblyLimits) -> Self {
            Self { fragments: IpReassembler::new(bounds), number: 0, time: 0 }
        }

        fn add(&mut self, bytes: &[u8]) -> Option<ReassembledDatagram> {
            self.add_cut(bytes, bytes.len())
        }

        fn add_cut(&mut self, bytes: &[u8], captured: usize) -> Option<ReassembledDatagram> {
            self.number += 1;
            let frame = Frame {
                number: FrameNumber(self.number),
                time: Timestamp(self.time),
                link: LinkType::RAW,
                bytes: &bytes[..captured],
                length: bytes.len() as u32,
            };
            let datagram = net::decode(&frame, &mut NullFieldObserver);
            let NetworkLayerPayload::Fragment(fragment) = datagram.payload else { panic!("{datagram:?}") };
            self.fragments.add(&frame, &datagram, &fragment)
        }
    }

    /// Builds a UDP datagram of `length` bytes to port 2049; each byte encodes its position.
    fn udp(length: usize) -> Vec<u8> {
        let mut bytes = vec![0x03, 0x20, 0x08, 0x01];
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend((8..length).map(|at| at as u8));
        bytes
    }

    fn frames(numbers: &[u64]) -> Vec<FrameNumber> {
        numbers.iter().copied().map(FrameNumber).collect()
    }

    #[test]
    fn fragments_in_any_order_make_the_datagram() {
        let whole = udp(40);
        let parts = [(0, 16, true), (16, 32, true), (32, 40, false)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut bench = Bench::new(IpReassemblyLimits::default());
            let mut made = None;
            for index in order {
                assert_eq!(made, None);
                let (start, end, more) = parts[index];
                made = bench.add(&ipv4(7, start, more, &whole[start..end]));
            }
            let made = made.unwrap();
            assert_eq!((&made.bytes, made.length, made.frames.len()), (&whole, 40, 3));
            let datagram = made.decode(&mut NullFieldObserver);
            assert_eq!(datagram.source.to_string(), "10.9.0.1");
            let NetworkLayerPayload::Udp(udp) = datagram.payload else { panic!() };
            assert_eq!((udp.destination_port, udp.payload.length, udp.payload.at), (Port(2049), 32, 8));
            assert_eq!((bench.fragments.partial_count(), bench.fragments.buffered_bytes()), (0, 0));
        }
    }

    #[test]
    fn datagrams_do_not_mix() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        assert_eq!(bench.add(&ipv4(1, 0, true, &[1; 8])), None);
        assert_eq!(bench.add(&ipv4(2, 8, false, &[2; 8])), None);
        assert_eq!(bench.add(&ipv6(1, 8, false, 17, &[3; 8])), None);
        assert_eq!(bench.add(&ipv4(1, 8, false, &[4; 8])).unwrap().frames, frames(&[1, 4]));
        assert_eq!(bench.fragments.partial_count(), 2);
    }

    #[test]
    fn the_earlier_fragment_wins_where_fragments_overlap() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        bench.add(&ipv4(1, 8, true, &[1; 16]));
        bench.add(&ipv4(1, 32, false, &[2; 8]));
        let whole = bench.add(&ipv4(1, 0, true, &[3; 40])).unwrap();
        assert_eq!(whole.bytes, [&[3; 8][..], &[1; 16], &[3; 8], &[2; 8]].concat());
        assert_eq!(whole.frames, frames(&[1, 2, 3]));
    }

    #[test]
    fn copies_are_remembered_and_change_nothing() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        bench.add(&ipv4(1, 0, true, &[1; 8]));
        bench.add(&ipv4(1, 0, true, &[9; 8]));
        let whole = bench.add(&ipv4(1, 8, false, &[2; 8])).unwrap();
        assert_eq!(whole.bytes, [[1; 8], [2; 8]].concat());
        assert_eq!(whole.frames, frames(&[1, 2, 3]));
    }

    #[test]
    fn the_protocol_of_ipv6_comes_from_the_first_fragment() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        bench.add(&ipv6(5, 8, false, 59, &[0; 8]));
        assert_eq!(bench.add(&ipv6(5, 0, true, 17, &[0; 8])).unwrap().protocol, IpProtocol::UDP);
    }

    #[test]
    fn a_snap_length_leaves_the_bytes_before_the_cut_and_the_whole_length() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        let whole = udp(64);
        assert_eq!(bench.add_cut(&ipv4(1, 0, true, &whole[..32]), 20 + 24), None);
        let made = bench.add(&ipv4(1, 32, false, &whole[32..])).unwrap();
        assert_eq!((&made.bytes[..], made.length), (&whole[..24], 64));
        let NetworkLayerPayload::Udp(udp) = made.decode(&mut NullFieldObserver).payload else { panic!() };
        assert_eq!((udp.payload.length, udp.payload.bytes.len()), (56, 16));
    }

    #[test]
    fn an_identification_that_came_round_begins_a_new_datagram() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        bench.add(&ipv4(1, 0, true, &[1; 8]));
        bench.time = 31 * SECOND;
        assert_eq!(bench.add(&ipv4(1, 8, false, &[2; 8])), None);
        assert_eq!(bench.fragments.dropped_datagrams(), 1);
        assert_eq!(bench.add(&ipv4(1, 0, true, &[3; 8])).unwrap().bytes, [[3; 8], [2; 8]].concat());
    }

    #[test]
    fn the_oldest_is_given_up_and_counted_when_a_bound_is_reached() {
        let mut bench = Bench::new(IpReassemblyLimits { datagrams: 2, ..IpReassemblyLimits::default() });
        for id in 1..=3 {
            bench.add(&ipv4(id, 0, true, &[1; 8]));
        }
        assert_eq!((bench.fragments.partial_count(), bench.fragments.dropped_datagrams()), (2, 1));
        assert_eq!(bench.add(&ipv4(2, 8, false, &[2; 8])).unwrap().frames, frames(&[2, 4]));

        let mut bench = Bench::new(IpReassemblyLimits { bytes: 20, ..IpReassemblyLimits::default() });
        for id in 1..=3 {
            bench.add(&ipv4(id, 0, true, &[1; 8]));
        }
        assert_eq!((bench.fragments.buffered_bytes(), bench.fragments.dropped_datagrams()), (16, 1));

        let mut bench = Bench::new(IpReassemblyLimits { fragments: 3, ..IpReassemblyLimits::default() });
        for _ in 0..4 {
            bench.add(&ipv4(1, 0, true, &[1; 8]));
        }
        assert_eq!((bench.fragments.partial_count(), bench.fragments.dropped_datagrams()), (1, 1));
    }

    #[test]
    fn no_datagram_is_longer_than_65535_bytes() {
        let mut bench = Bench::new(IpReassemblyLimits::default());
        bench.add(&ipv4(1, 0, true, &[1; 8]));
        assert_eq!(bench.add(&ipv4(1, 65_528, false, &[2; 8])), None);
        assert_eq!((bench.fragments.partial_count(), bench.fragments.dropped_datagrams()), (0, 1));
        assert_eq!(bench.add(&ipv4(2, 65_528, true, &[2; 8])), None);
        assert_eq!((bench.fragments.partial_count(), bench.fragments.dropped_datagrams()), (0, 2));
    }

    proptest! {
        #[test]
        fn any_fragments_stay_within_bounds(
            adds in prop::collection::vec((0u16..4, 0usize..40, any::<bool>(), 0usize..80, 0i64..20), 1..200),
        ) {
            let bounds = IpReassemblyLimits { datagrams: 3, bytes: 200, fragments: 20, max_age_ns: 60 * SECOND as u64 };
            let mut bench = Bench::new(bounds);
            for (id, offset, more, length, seconds) in adds {
                bench.time += seconds * SECOND;
                if offset == 0 && !more {
                    continue;
                }
                if let Some(whole) = bench.add(&ipv4(id, offset * 8, more, &vec![id as u8; length])) {
                    prop_assert_eq!(whole.bytes.len(), whole.length);
                }
                prop_assert!(bench.fragments.partial_count() <= 3);
                // A single datagram may exceed the limit, but never the maximum size of a datagram.
                prop_assert!(bench.fragments.buffered_bytes() <= 200 || bench.fragments.partial_count() == 1);
                let kept: usize = bench.fragments.partial_datagrams.values().map(|waiting| waiting.buffered_bytes).sum();
                prop_assert_eq!(kept, bench.fragments.buffered_bytes());
            }
        }
    }
}
