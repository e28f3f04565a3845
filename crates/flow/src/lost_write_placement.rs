//! Placement of RDMA Writes between two known operations of a queue pair: PSNs are contiguous (InfiniBand Architecture
//! Specification volume 1, section 9.7.2), so the Writes between them fill the PSNs exactly, and the unseen memory that
//! the Reply reports as written exactly.

use std::ops::Range;

use nfsrdma_dissectors::infiniband::Psn;

use super::extended_psn::ExtendedPsn;
use crate::rdma_operation::RdmaMemoryRange;

/// A captured Middle or Last packet of an RDMA Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WritePacket {
    pub(super) sequence: ExtendedPsn,
    pub(super) is_last: bool,
    /// Length of the payload in bytes.
    pub(super) length: u32,
}

/// An RDMA Write whose First packet was lost: its first sequence number, or that of its first captured packet, and the
/// memory that it fills from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedWrite {
    pub(super) first: ExtendedPsn,
    pub(super) range: RdmaMemoryRange,
}

impl PlacedWrite {
    /// Returns the sequence number of its first packet.
    pub(super) fn psn(&self) -> Psn {
        Psn((self.first & 0xff_ffff) as u32)
    }
}

/// Maximum number of unseen ranges that are examined.
const MAX_HOLES: usize = 256;

/// Limit of the work for one Reply: packets, RDMA Writes and ranges that are examined, in all attempts together.
#[derive(Debug)]
pub(super) struct PlacementSteps(u32);

impl PlacementSteps {
    /// Steps of all attempts with as many packets as are kept and [`MAX_HOLES`] RDMA Writes of equal lengths.
    const MAX: u32 = 1 << 18;

    pub(super) fn new() -> Self {
        Self(Self::MAX)
    }

    /// Takes a number of steps. Returns `false` if there are not as many; then none is left.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let remaining = u32::try_from(count).ok().and_then(|count| self.0.checked_sub(count));
        self.0 = remaining.unwrap_or(0);
        remaining.is_some()
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.0 == 0
    }
}

/// Returns the RDMA Writes that fill `gap` with the last of `holes`, in order, and the number of those; `None` if the
/// packets contradict each combination, or the steps are used up. `packets` are those captured in the gap, by sequence
/// number.
pub(super) fn fill_gap(
    gap: Range<ExtendedPsn>,
    packets: &[WritePacket],
    holes: &[RdmaMemoryRange],
    mtu: u32,
    steps: &mut PlacementSteps,
) -> Option<(Vec<PlacedWrite>, usize)> {
    if !steps.take(packets.len()) {
        return None;
    }
    let last_packets: Vec<WritePacket> = packets.iter().filter(|packet| packet.is_last).copied().collect();
    let available = gap.end - gap.start;
    let mut needed = 0;
    for count in 1..=holes.len().min(MAX_HOLES) {
        let holes = holes.get(holes.len() - count..)?;
        needed += packet_count(holes.first()?.length, mtu);
        if needed > available || !steps.take(1) {
            break;
        }
        // A Last packet ends an RDMA Write within a hole: at most one packet more.
        if needed + (last_packets.len() as u64) < available {
            continue;
        }
        if let Some(writes) = fill_exactly(gap.clone(), (packets, &last_packets), holes, mtu, steps) {
            return Some((writes, count));
        }
    }
    None
}

/// Returns the RDMA Writes that fill all of `holes` up to the sequence number `end`, if no operation is known before
/// them; `None` unless one number of PSNs alone agrees with the packets.
pub(super) fn fill_until(
    end: ExtendedPsn,
    packets: &[WritePacket],
    holes: &[RdmaMemoryRange],
    mtu: u32,
    steps: &mut PlacementSteps,
) -> Option<Vec<PlacedWrite>> {
    if holes.len() > MAX_HOLES || !steps.take(packets.len()) {
        return None;
    }
    let last_packets: Vec<WritePacket> = packets.iter().filter(|packet| packet.is_last).copied().collect();
    let fewest = packet_counts(holes, mtu);
    let mut fitting = None;
    // A Last packet that ends an RDMA Write within a hole takes at most one PSN more.
    for additional in 0..=last_packets.len() as u64 {
        let Some(start) = end.checked_sub(fewest + additional) else { break };
        let since = |packets: &[WritePacket]| packets.partition_point(|packet| packet.sequence < start);
        let (packets, last_packets) = (&packets[since(packets)..], &last_packets[since(&last_packets)..]);
        if (last_packets.len() as u64) < additional || !steps.take(1) {
            break;
        }
        if let Some(writes) = fill_exactly(start..end, (packets, last_packets), holes, mtu, steps)
            && fitting.replace(writes).is_some()
        {
            return None;
        }
    }
    fitting
}

/// Returns the RDMA Writes that fill `gap` with all of `holes`. A hole takes one Write, or several if a captured Last
/// packet ends one before its end. The packets are given with those among them that are Last packets.
fn fill_exactly(
    gap: Range<ExtendedPsn>,
    (mut packets, mut last_packets): (&[WritePacket], &[WritePacket]),
    holes: &[RdmaMemoryRange],
    mtu: u32,
    steps: &mut PlacementSteps,
) -> Option<Vec<PlacedWrite>> {
    let mut writes = Vec::new();
    let mut first = gap.start;
    for hole in holes {
        let mut rest = *hole;
        while rest.length > 0 {
            let until_last = last_packets.first().and_then(|last| {
                let preceding = u32::try_from(last.sequence - first).ok()?.checked_mul(mtu)?;
                preceding.checked_add(last.length).filter(|length| *length <= rest.length)
            });
            let length = until_last.unwrap_or(rest.length);
            let end = first + packet_count(length, mtu);
            let count = packets.partition_point(|packet| packet.sequence < end);
            let (own, after) = packets.split_at(count);
            if !steps.take(1 + own.len()) {
                return None;
            }
            let last_length = length - (end - first - 1) as u32 * mtu;
            let fits = |packet: &WritePacket| match packet.sequence + 1 == end {
                true => packet.is_last && packet.length == last_length,
                false => !packet.is_last && packet.length == mtu && packet.sequence > first,
            };
            if end > gap.end || !own.iter().all(|packet| packet.sequence > first && fits(packet)) {
                return None;
            }
            writes.push(PlacedWrite { first, range: RdmaMemoryRange { length, ..rest } });
            (first, packets) = (end, after);
            last_packets = last_packets.get(last_packets.partition_point(|last| last.sequence < end)..)?;
            rest.offset = rest.offset.wrapping_add(length.into());
            rest.length -= length;
        }
    }
    (first == gap.end).then_some(writes)
}

/// Returns the number of packets of as many RDMA Writes as there are holes.
pub(super) fn packet_counts(holes: &[RdmaMemoryRange], mtu: u32) -> u64 {
    holes.iter().map(|hole| packet_count(hole.length, mtu)).sum()
}

fn packet_count(length: u32, mtu: u32) -> u64 {
    length.div_ceil(mtu).max(1).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_dissectors::memory_handle::Handle;

    const MTU: u32 = 1024;

    fn hole(offset: u64, length: u32) -> RdmaMemoryRange {
        RdmaMemoryRange { handle: Handle(7), offset, length }
    }

    /// The packets of RDMA Writes of these lengths from PSN 100 on, without the First packets, and the next PSN.
    fn headless(lengths: &[u32]) -> (Vec<WritePacket>, ExtendedPsn) {
        let mut sequence = 100;
        let mut packets = Vec::new();
        for length in lengths {
            let count = packet_count(*length, MTU);
            packets.extend((1..count).map(|at| WritePacket {
                sequence: sequence + at,
                is_last: at + 1 == count,
                length: (length - at as u32 * MTU).min(MTU),
            }));
            sequence += count;
        }
        (packets, sequence)
    }

    fn places(writes: &[PlacedWrite]) -> Vec<(ExtendedPsn, u64, u32)> {
        writes.iter().map(|write| (write.first, write.range.offset, write.range.length)).collect()
    }

    fn fill(
        gap: Range<ExtendedPsn>,
        packets: &[WritePacket],
        holes: &[RdmaMemoryRange],
    ) -> Option<(Vec<PlacedWrite>, usize)> {
        fill_gap(gap, packets, holes, MTU, &mut PlacementSteps::new())
    }

    #[test]
    fn headless_writes_fill_their_segments() {
        let holes = [hole(0, 3000), hole(10_000, 500), hole(20_000, 4096)];
        let (packets, end) = headless(&[3000, 500, 4096]);
        let (writes, count) = fill(100..end, &packets, &holes).unwrap();
        assert_eq!(places(&writes), [(100, 0, 3000), (103, 10_000, 500), (104, 20_000, 4096)]);
        assert_eq!(count, 3);
    }

    /// The start of the first RDMA Write follows from the Last packets.
    #[test]
    fn writes_after_nothing_known_are_placed() {
        let sizes = [1025, 2047, 2048, 2049, 3000, 4096];
        for lengths in sizes.iter().flat_map(|a| sizes.iter().flat_map(move |b| sizes.map(|c| [*a, *b, c]))) {
            let (packets, end) = headless(&lengths);
            let holes = [hole(0, lengths.iter().sum())];
            let writes = fill_until(end, &packets, &holes, MTU, &mut PlacementSteps::new()).unwrap();
            let [first, second, third] = lengths;
            let second_first = 100 + packet_count(first, MTU);
            let third_first = second_first + packet_count(second, MTU);
            assert_eq!(
                places(&writes),
                [(100, 0, first), (second_first, first.into(), second), (third_first, (first + second).into(), third)],
            );
        }
    }

    /// A Responder may write a segment with several RDMA Writes.
    #[test]
    fn last_packets_split_a_segment() {
        let (packets, end) = headless(&[2048, 1500, 2000]);
        let (writes, _) = fill(100..end, &packets, &[hole(0, 3548), hole(9000, 2000)]).unwrap();
        assert_eq!(places(&writes), [(100, 0, 2048), (102, 2048, 1500), (104, 9000, 2000)]);
    }

    #[test]
    fn other_packets_prevent_placement() {
        let holes = [hole(0, 3000), hole(10_000, 3000)];
        let (packets, end) = headless(&[3000, 3000]);
        // One PSN too many, one too few, and Last packets of another length.
        assert_eq!(fill(100..end + 1, &packets, &holes), None);
        assert_eq!(fill(101..end, &packets, &holes), None);
        assert_eq!(fill(100..end, &packets, &[hole(0, 3001), hole(10_000, 2999)]), None);
    }

    /// The most packets that are kept, as RDMA Writes of one length, and holes of earlier Replies.
    #[test]
    fn as_many_writes_as_holes_are_placed() {
        let holes: Vec<_> = (0..MAX_HOLES as u64).map(|at| hole(at << 20, 16 * MTU)).collect();
        for count in [1, 100, MAX_HOLES] {
            let (packets, end) = headless(&vec![16 * MTU; count]);
            let mut steps = PlacementSteps::new();
            let (writes, placed) = fill_gap(100..end, &packets, &holes, MTU, &mut steps).unwrap();
            assert_eq!((writes.len(), placed), (count, count));
            assert!(!steps.is_exhausted(), "{count}");
        }
    }

    /// Middle packets without a Last, and PSNs before them without any packet: each hole fits.
    #[test]
    fn steps_grow_with_the_packets() {
        let mut used = Vec::new();
        for count in [1024, 2048, 4096] {
            let middle = |at| WritePacket { sequence: 100 + 256 + at, is_last: false, length: MTU };
            let packets: Vec<_> = (0..count).map(middle).collect();
            let holes: Vec<_> = (0..256).map(|at| hole(at << 20, MTU)).collect();
            let mut steps = PlacementSteps::new();
            assert_eq!(fill_gap(100..100 + 256 + count, &packets, &holes, MTU, &mut steps), None);
            used.push(PlacementSteps::MAX - steps.0);
        }
        assert!(used[2] < 3 * used[1] && used[2] < 20_000, "{used:?}");
    }

    /// Each packet ends an RDMA Write, or may.
    #[test]
    fn steps_end_the_attempts() {
        let packets: Vec<_> =
            (0..4096).map(|at| WritePacket { sequence: 101 + 2 * at, is_last: true, length: 1 }).collect();
        let holes: Vec<_> = (0..256).map(|at| hole(at << 32, 16 * (MTU + 1))).collect();
        let mut steps = PlacementSteps::new();
        for _ in 0..1000 {
            fill_gap(100..100 + 8192, &packets, &holes, MTU, &mut steps);
        }
        assert!(steps.is_exhausted());
    }
}
