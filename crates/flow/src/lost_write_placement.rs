//! Placement of RDMA Writes between two known operations of a queue pair: PSNs are contiguous (InfiniBand Architecture
//! Specification volume 1, section 9.7.2), so the Writes between them fill the PSNs exactly, and the unseen memory that
//! the Reply reports as written exactly.

use std::ops::Range;

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

/// An RDMA Write: its first sequence number and the memory that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedWrite {
    pub(super) first: ExtendedPsn,
    pub(super) range: RdmaMemoryRange,
}

/// Maximum number of unseen ranges that are examined.
const MAX_HOLES: usize = 256;

/// Returns the RDMA Writes that fill `gap` with the last of `holes`, in order, and the number of those; `None` if the
/// packets contradict each combination. `packets` are those captured in the gap, by sequence number.
pub(super) fn fill_gap(
    gap: Range<ExtendedPsn>,
    packets: &[WritePacket],
    holes: &[RdmaMemoryRange],
    mtu: u32,
) -> Option<(Vec<PlacedWrite>, usize)> {
    let available = gap.end - gap.start;
    let mut needed = 0;
    for count in 1..=holes.len().min(MAX_HOLES) {
        let holes = holes.get(holes.len() - count..)?;
        needed += packet_count(holes.first()?.length, mtu);
        if needed > available {
            break;
        }
        if let Some(writes) = fill_exactly(gap.clone(), packets, holes, mtu) {
            return Some((writes, count));
        }
    }
    None
}

/// Returns the RDMA Writes that fill `gap` with all of `holes`. A hole takes one Write, or several if a captured Last
/// packet ends one before its end.
fn fill_exactly(
    gap: Range<ExtendedPsn>,
    packets: &[WritePacket],
    holes: &[RdmaMemoryRange],
    mtu: u32,
) -> Option<Vec<PlacedWrite>> {
    let mut writes = Vec::new();
    let (mut first, mut packets) = (gap.start, packets);
    for hole in holes {
        let mut rest = *hole;
        while rest.length > 0 {
            let last = packets.iter().find(|packet| packet.is_last);
            let until_last = last.and_then(|last| {
                let preceding = u32::try_from(last.sequence - first).ok()?.checked_mul(mtu)?;
                preceding.checked_add(last.length).filter(|length| *length <= rest.length)
            });
            let length = until_last.unwrap_or(rest.length);
            let end = first + packet_count(length, mtu);
            let count = packets.partition_point(|packet| packet.sequence < end);
            let (own, after) = packets.split_at(count);
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

    #[test]
    fn headless_writes_fill_their_segments() {
        let holes = [hole(0, 3000), hole(10_000, 500), hole(20_000, 4096)];
        let (packets, end) = headless(&[3000, 500, 4096]);
        let (writes, count) = fill_gap(100..end, &packets, &holes, MTU).unwrap();
        assert_eq!(places(&writes), [(100, 0, 3000), (103, 10_000, 500), (104, 20_000, 4096)]);
        assert_eq!(count, 3);
    }

    /// A Responder may write a segment with several RDMA Writes.
    #[test]
    fn last_packets_split_a_segment() {
        let (packets, end) = headless(&[2048, 1500, 2000]);
        let (writes, _) = fill_gap(100..end, &packets, &[hole(0, 3548), hole(9000, 2000)], MTU).unwrap();
        assert_eq!(places(&writes), [(100, 0, 2048), (102, 2048, 1500), (104, 9000, 2000)]);
    }

    #[test]
    fn other_packets_prevent_placement() {
        let holes = [hole(0, 3000), hole(10_000, 3000)];
        let (packets, end) = headless(&[3000, 3000]);
        // One PSN too many, one too few, and Last packets of another length.
        assert_eq!(fill_gap(100..end + 1, &packets, &holes, MTU), None);
        assert_eq!(fill_gap(101..end, &packets, &holes, MTU), None);
        assert_eq!(fill_gap(100..end, &packets, &[hole(0, 3001), hole(10_000, 2999)], MTU), None);
    }
}
