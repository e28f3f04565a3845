//! Packets captured before the packet that determines where their bytes go. Mirror ports and multiple
//! queues reorder packets of both directions, and of one.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::{InfinibandPacket, PacketOperation, Psn};

use super::count_categories::{EvictedState, UndecodedReason};
use super::extended_psn::ExtendedPsn;
use super::limits::FlowLimits;
use super::packet_meta::{DeliveryAnomaly, PacketMeta};
use super::statistics::FlowDecodingStatistics;
use super::transaction_slab_key::TransactionSlabKey;
use crate::rdma_operation::ConnectionSideAOrB;

/// Maximum number of packets per connection that wait for the memory they access. Each Call retries all of
/// them.
const MAX_PACKETS: usize = 64;

/// Maximum number of RDMA Write packets per connection without their First packet: an RDMA Write of 4 MiB
/// in packets of 1,024 bytes.
const MAX_ORPHANS: usize = 4096;

/// Bookkeeping bytes counted per buffered packet.
const PACKET_OVERHEAD_BYTES: u64 = 256;

/// Nanoseconds of frame time that a packet may be early. After a longer time, the handle it names may
/// belong to a later Call that reuses it.
pub(super) const MAX_AGE_NS: u64 = 50_000_000;

/// Nanoseconds of frame time that a packet of an RDMA Write waits for its First packet in any case. If that
/// was lost, it waits for the Reply that has the number of bytes written, as long as a Call is in flight
/// that may have offered the memory.
const MIN_WRITE_AGE_NS: u64 = 1_000_000_000;

/// Number of packets after which a packet of an RDMA Write waits no longer: its sequence number has 24 bits,
/// and would be taken for that of a later packet.
const MAX_WRITE_DISTANCE: ExtendedPsn = 1 << 22;

/// A Middle or Last packet of an RDMA Write whose First packet was not captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrphanWritePacket {
    pub(super) psn: Psn,
    /// `true` for the Last packet.
    pub(super) is_last: bool,
    /// Length of the payload in bytes.
    pub(super) length: u32,
}

/// An RDMA Read response whose request was not captured, but all of its packets were.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrphanReadResponse {
    /// Sequence number of its first packet.
    pub(super) first: Psn,
    pub(super) packets: u32,
    pub(super) length: u32,
    /// Time of its first packet.
    pub(super) time: Timestamp,
}

/// A buffered packet.
#[derive(Debug)]
pub(super) struct PacketBeforeMemoryOffer {
    pub(super) sender: ConnectionSideAOrB,
    packet: InfinibandPacket<'static>,
    /// Length of the payload on the wire; a snap length may have truncated it.
    length: u32,
    payload: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    reason: UndecodedReason,
    /// Transaction whose Reply followed: only its Call may have advertised the memory.
    answered_by: Option<TransactionSlabKey>,
    sequence: ExtendedPsn,
}

/// Reason for which packets of RDMA Writes of one side may still wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlyRdmaWriteHoldReason {
    /// Time of the oldest Call in flight that offers memory to write to.
    pub(super) oldest_call: Option<Timestamp>,
    /// Highest sequence number of the side.
    pub(super) newest: ExtendedPsn,
}

impl PacketBeforeMemoryOffer {
    fn counted_bytes(&self) -> u64 {
        self.payload.len() as u64 + PACKET_OVERHEAD_BYTES
    }

    /// Returns the side that offers the memory: responses come from it, RDMA Writes and RDMA Read requests go to it.
    fn memory_owner(&self) -> ConnectionSideAOrB {
        match self.packet.properties.operation {
            PacketOperation::ReadResponse => self.sender,
            _ => self.sender.peer(),
        }
    }

    fn is_orphan(&self) -> bool {
        matches!(self.reason, UndecodedReason::WriteWithoutFirst | UndecodedReason::CutWrite)
    }

    /// Returns `true` if a packet of an RDMA Write belongs to a Call in flight.
    fn may_be_placed(&self, expected: EarlyRdmaWriteHoldReason) -> bool {
        expected.oldest_call.is_some_and(|call| call <= self.time)
            && expected.newest.saturating_sub(self.sequence) < MAX_WRITE_DISTANCE
    }

    /// Returns the packet with its payload.
    pub(super) fn packet(&self) -> InfinibandPacket<'_> {
        self.packet.with_payload(&self.payload)
    }

    pub(super) fn meta(&self) -> PacketMeta<'_> {
        PacketMeta { anomaly: Some(&DeliveryAnomaly::Reordered), ..PacketMeta::new(&self.frames, self.time) }
    }
}

/// Buffered packets of one connection in capture order.
#[derive(Debug, Default)]
pub(super) struct PacketsAwaitingMemoryOwner {
    /// Packets that wait for the memory they access.
    early_packets: VecDeque<PacketBeforeMemoryOffer>,
    /// Packets of RDMA Writes without their First packet.
    orphans: VecDeque<PacketBeforeMemoryOffer>,
    /// Time at which they were last compared with the Calls in flight.
    last_check: Timestamp,
}

impl PacketsAwaitingMemoryOwner {
    pub(super) fn is_empty(&self) -> bool {
        self.early_packets.is_empty() && self.orphans.is_empty()
    }

    /// Buffers a packet that was just counted as undecoded and takes the count back. If the queue is full, its
    /// oldest packet is counted instead.
    pub(super) fn add(
        &mut self,
        (sender, sequence): (ConnectionSideAOrB, ExtendedPsn),
        packet: &InfinibandPacket<'_>,
        packet_meta: PacketMeta<'_>,
        reason: UndecodedReason,
        stats: &mut FlowDecodingStatistics,
        limits: &FlowLimits,
    ) {
        let payload = packet.payload.bytes;
        if !reason.is_unplaced() {
            return;
        }
        if stats.reorder_bytes + payload.len() as u64 + PACKET_OVERHEAD_BYTES > limits.reorder_bytes {
            stats.count_evicted(EvictedState::Early);
            return;
        }
        stats.uncount_undecoded(reason);
        let entry = PacketBeforeMemoryOffer {
            sender,
            packet: packet.with_payload(&[]),
            length: packet.payload.length as u32,
            payload: payload.to_vec(),
            frames: packet_meta.frames.to_vec(),
            time: packet_meta.time,
            reason,
            answered_by: None,
            sequence,
        };
        stats.reorder_bytes += entry.counted_bytes();
        let (queue, max_packets) = match entry.is_orphan() {
            true => (&mut self.orphans, MAX_ORPHANS),
            false => (&mut self.early_packets, MAX_PACKETS),
        };
        queue.push_back(entry);
        if queue.len() > max_packets {
            drop_oldest(queue, stats);
        }
    }

    /// Returns `true` if a Call of this side may offer the memory of a buffered packet.
    pub(super) fn may_wait_for_call_of(&self, side: ConnectionSideAOrB) -> bool {
        self.early_packets.iter().chain(&self.orphans).any(|entry| entry.memory_owner() == side)
    }

    /// Assigns the buffered packets to the Transaction of a Reply without a Call: they precede that Reply.
    pub(super) fn assign_to_transaction(&mut self, key: TransactionSlabKey) {
        for entry in self.early_packets.iter_mut().chain(&mut self.orphans) {
            entry.answered_by.get_or_insert(key);
        }
    }

    /// Yields the packets in capture order that belong to RDMA Writes of a side and lack their First packet.
    pub(super) fn orphans(&self, sender: ConnectionSideAOrB) -> impl Iterator<Item = OrphanWritePacket> + '_ {
        let orphans = self.orphans.iter().filter(move |orphan| orphan.sender == sender);
        orphans.map(|orphan| OrphanWritePacket {
            psn: orphan.packet.bth.psn,
            is_last: orphan.packet.properties.position.ends(),
            length: orphan.length,
        })
    }

    /// Returns the complete RDMA Read responses of a side whose requests were not captured.
    pub(super) fn orphan_responses(&self, sender: ConnectionSideAOrB) -> Vec<OrphanReadResponse> {
        let is_part = |entry: &&PacketBeforeMemoryOffer| {
            entry.sender == sender && entry.reason == UndecodedReason::ReadWithoutRequest
        };
        let mut packets: Vec<_> = self.early_packets.iter().filter(is_part).collect();
        let Some(origin) = packets.first().map(|entry| entry.packet.bth.psn) else { return Vec::new() };
        packets.sort_by_key(|entry| origin.distance(entry.packet.bth.psn));
        packets.dedup_by_key(|entry| entry.packet.bth.psn);
        let mut responses = Vec::new();
        let mut response: Option<OrphanReadResponse> = None;
        for entry in packets {
            let (psn, position) = (entry.packet.bth.psn, entry.packet.properties.position);
            let continued = response.filter(|response| response.first.add(response.packets) == psn);
            let new_response = OrphanReadResponse { first: psn, packets: 0, length: 0, time: entry.time };
            response = if position.begins() { Some(new_response) } else { continued };
            if let Some(response) = &mut response {
                response.packets += 1;
                response.length = response.length.saturating_add(entry.length);
            }
            if position.ends() {
                responses.extend(response.take());
            }
        }
        responses
    }

    /// Drops the packets of RDMA Writes for which no First packet and no Reply will come. `expected` returns what the
    /// packets of a side may wait for.
    pub(super) fn drop_expired_orphans(
        &mut self,
        now: Timestamp,
        stats: &mut FlowDecodingStatistics,
        expected: impl Fn(ConnectionSideAOrB) -> EarlyRdmaWriteHoldReason,
    ) {
        let is_old = |entry: &PacketBeforeMemoryOffer| now.abs_diff_ns(entry.time) > MIN_WRITE_AGE_NS;
        // The Calls in flight may be many.
        if !self.orphans.front().is_some_and(is_old) || now.abs_diff_ns(self.last_check) <= MAX_AGE_NS {
            return;
        }
        self.last_check = now;
        let [a, b] = [ConnectionSideAOrB::A, ConnectionSideAOrB::B].map(expected);
        while let Some(first) = self.orphans.front()
            && is_old(first)
            && !first.may_be_placed(if first.sender == ConnectionSideAOrB::A { a } else { b })
        {
            drop_oldest(&mut self.orphans, stats);
        }
    }

    /// Removes the packets whose place may be known now: after the Call of `call`, or after a packet with
    /// sequence number `start` that starts an RDMA Write or an RDMA Read and so determines the place of the
    /// packets after it.
    pub(super) fn take_retryable(
        &mut self,
        call: Option<TransactionSlabKey>,
        start: Option<(ConnectionSideAOrB, Psn)>,
        now: Timestamp,
        stats: &mut FlowDecodingStatistics,
    ) -> Vec<PacketBeforeMemoryOffer> {
        while self.early_packets.front().is_some_and(|first| now.abs_diff_ns(first.time) > MAX_AGE_NS) {
            drop_oldest(&mut self.early_packets, stats);
        }
        let mut retries = Vec::new();
        let mut sort = |queue: &mut VecDeque<PacketBeforeMemoryOffer>,
                        may_belong: &dyn Fn(&PacketBeforeMemoryOffer) -> bool| {
            for entry in std::mem::take(queue) {
                if may_belong(&entry) {
                    stats.reorder_bytes -= entry.counted_bytes();
                    retries.push(entry);
                } else {
                    queue.push_back(entry);
                }
            }
        };
        sort(&mut self.early_packets, &|entry| entry.answered_by.is_none() || entry.answered_by == call);
        // There may be thousands of them. For most packets none follows, and none has to move.
        if let Some((side, psn)) = start {
            let follows =
                |entry: &PacketBeforeMemoryOffer| side == entry.sender && psn.distance(entry.packet.bth.psn) >= 0;
            if self.orphans.iter().any(follows) {
                sort(&mut self.orphans, &follows);
            }
        }
        retries
    }

    /// Puts back the packets whose place is still unknown.
    pub(super) fn put_back(&mut self, retries: Vec<PacketBeforeMemoryOffer>, stats: &mut FlowDecodingStatistics) {
        for entry in retries.into_iter().rev() {
            stats.reorder_bytes += entry.counted_bytes();
            match entry.is_orphan() {
                true => self.orphans.push_front(entry),
                false => self.early_packets.push_front(entry),
            }
        }
    }

    /// Adopts the packets of a connection that turned out to be this one.
    pub(super) fn adopt(&mut self, other: Self, is_swapped: bool) {
        let adopted = |entry: PacketBeforeMemoryOffer| PacketBeforeMemoryOffer {
            sender: if is_swapped { entry.sender.peer() } else { entry.sender },
            ..entry
        };
        self.early_packets.extend(other.early_packets.into_iter().map(adopted));
        self.orphans.extend(other.orphans.into_iter().map(adopted));
    }

    /// Drops all packets and counts them as undecoded.
    pub(super) fn drop_all(&mut self, stats: &mut FlowDecodingStatistics) {
        for queue in [&mut self.early_packets, &mut self.orphans] {
            while !queue.is_empty() {
                drop_oldest(queue, stats);
            }
        }
    }
}

/// Drops the oldest packet of a queue and counts it as undecoded.
fn drop_oldest(queue: &mut VecDeque<PacketBeforeMemoryOffer>, stats: &mut FlowDecodingStatistics) {
    if let Some(entry) = queue.pop_front() {
        stats.reorder_bytes -= entry.counted_bytes();
        stats.count_undecoded(entry.reason);
    }
}
