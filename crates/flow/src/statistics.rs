//! Counts of the traffic and state that are in no Transaction, so that nothing is dropped silently.

use super::count_categories::{EvictedState, IgnoredTraffic, UndecodedReason};
use super::frame_kind::FrameContentKind;
use super::iwarp::mpa_counts::MpaCounts;
use super::packet_meta::PacketMeta;

/// Counts of undecoded, ignored and evicted traffic and state of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowDecodingStatistics {
    undecoded: [u64; UndecodedReason::ALL.len()],
    evicted: [u64; EvictedState::ALL.len()],
    ignored: [u64; IgnoredTraffic::ALL.len()],
    /// Bytes of chunk content currently stored.
    pub(super) chunk_content_bytes: u64,
    /// Bytes of packets currently in reorder buffers.
    pub(super) reorder_bytes: u64,
    /// Bytes of messages in several Sends that are incomplete.
    pub(super) continuation_bytes: u64,
    /// MPA CRC check results of the last frame.
    pub(super) frame_mpa_counts: MpaCounts,
    /// Frames that are duplicates made by the capture.
    pub(super) duplicate_frames: u64,
    /// Packets captured after their acknowledgement for the first time.
    pub(super) late_packets: u64,
    /// Bytes of records whose marks were not captured.
    pub(super) skipped_bytes: u64,
    /// Undecoded frames of unknown streams between ports that carried RPC before.
    pub(super) unknown_rpc_frames: u64,
}

impl FlowDecodingStatistics {
    pub(super) fn count_undecoded(&mut self, reason: UndecodedReason) -> FrameContentKind {
        self.undecoded[reason as usize] += 1;
        FrameContentKind::Undecoded(reason)
    }

    /// Counts the undecoded frame of a packet, unless it is a duplicate made by the capture.
    pub(super) fn count_undecoded_packet(
        &mut self,
        reason: UndecodedReason,
        packet_meta: &PacketMeta<'_>,
    ) -> FrameContentKind {
        match packet_meta.is_captured_twice() {
            true => FrameContentKind::Undecoded(reason),
            false => self.count_undecoded(reason),
        }
    }

    /// Takes back the count of a frame that may still be decoded.
    pub(super) fn uncount_undecoded(&mut self, reason: UndecodedReason) {
        let count = &mut self.undecoded[reason as usize];
        *count = count.saturating_sub(1);
    }

    /// Counts frames that turned out undecodable.
    pub(super) fn count_undecoded_frames(&mut self, reason: UndecodedReason, frames: u64) {
        self.undecoded[reason as usize] += frames;
    }

    /// Counts a frame that is neither RDMA nor RPC.
    pub(super) fn count_ignored(&mut self, traffic: IgnoredTraffic) -> FrameContentKind {
        self.ignored[traffic as usize] += 1;
        FrameContentKind::Unrelated
    }

    pub(super) fn count_evicted(&mut self, state: EvictedState) {
        self.evicted[state as usize] += 1;
    }

    /// Iterates over the nonzero counts of undecoded frames by reason.
    pub fn undecoded_counts(&self) -> impl Iterator<Item = (UndecodedReason, u64)> + '_ {
        UndecodedReason::ALL.iter().copied().zip(self.undecoded).filter(|(_, count)| *count > 0)
    }

    /// Iterates over the nonzero counts of frames that are neither RDMA nor RPC by kind; malformed ones are undecoded.
    pub fn ignored_counts(&self) -> impl Iterator<Item = (IgnoredTraffic, u64)> + '_ {
        IgnoredTraffic::ALL.iter().copied().zip(self.ignored).filter(|(_, count)| *count > 0)
    }

    /// Returns the number of duplicate frames made by the capture, such as by mirror ports; they are no
    /// retransmissions.
    pub fn duplicate_frames(&self) -> u64 {
        self.duplicate_frames
    }

    /// Returns the number of packets of RC and segments of TCP that were captured after their acknowledgement, although
    /// nothing shows a loss: the capture does not keep the order of the two directions, or their clocks differ, and
    /// times between the directions are not exact.
    pub fn late_packets(&self) -> u64 {
        self.late_packets
    }

    /// Returns the number of bytes of TCP streams that were skipped because their record mark was not captured.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Returns the number of undecoded frames of unknown streams between addresses and ports that carried RPC before:
    /// they may have messages.
    pub fn unknown_rpc_frames(&self) -> u64 {
        self.unknown_rpc_frames
    }

    /// Iterates over the nonzero counts of evicted state by kind.
    pub fn evicted_counts(&self) -> impl Iterator<Item = (EvictedState, u64)> + '_ {
        EvictedState::ALL.iter().copied().zip(self.evicted).filter(|(_, count)| *count > 0)
    }
}
