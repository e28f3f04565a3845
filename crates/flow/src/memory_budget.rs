//! Memory limits of a flow: one budget, and the share of each kind of state.
//!
//! Everything that input makes the flow allocate is counted in bytes. Each kind has its own limit
//! in [`FlowLimits`]. The kinds that grow and shrink with the traffic share a pool because they are
//! seldom large at the same time. When the pool is exhausted, closed Transactions are emitted
//! first; then each kind drops its own state instead of growing.

use nfsrdma_dissectors::captured_frame::Timestamp;

use super::flow_state::Flow;
use super::ip_reassembly;
use super::limits::FlowLimits;
use super::packet_meta::PacketMeta;

/// Default memory of a flow in bytes.
const DEFAULT_BYTES: u64 = 96 << 20;

impl FlowLimits {
    /// Derives the limits of a flow from its memory budget in bytes.
    ///
    /// Five eighths are the pool, of which no kind may use more than four fifths; three eighths are for
    /// connections and streams.
    pub fn for_memory_budget(memory_bytes: u64) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let pool = memory_bytes / 8 * 5;
        let max_bytes = pool / 5 * 4;
        Self {
            pool_bytes: bytes(pool),
            table_bytes: bytes(memory_bytes / 8 * 3),
            message_bytes: bytes(max_bytes),
            gap_bytes: bytes(max_bytes / 6),
            stream_bytes: bytes(max_bytes),
            partial_message_bytes: bytes(max_bytes),
            fragments: ip_reassembly::IpReassemblyLimits { bytes: bytes(pool / 15 * 2), ..Default::default() },
            reorder_bytes: pool / 15,
            chunk_content_bytes: pool,
            connections: 16_384,
            open_transactions: 16_384,
            call_age_ns: None,
            lingering_transactions: 4_096,
            streams: 32_768,
            set_ups: 4_096,
            keep_file_data: false,
            dialect: None,
            check_icrc: false,
            record_transaction_frames: false,
            record_transport_events: false,
            name_open_transactions: true,
            report_closed_connections: false,
            emit_on_acknowledgment: false,
        }
    }
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self::for_memory_budget(DEFAULT_BYTES)
    }
}

impl Flow {
    /// Returns the number of bytes of the pool used by state other than Transactions.
    #[inline]
    pub(super) fn pooled_bytes(&self) -> usize {
        let account = &self.stats;
        let packets = account.chunk_content_bytes.saturating_add(account.reorder_bytes);
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .saturating_add(self.partial_message_bytes)
            .saturating_add(self.stream_bytes)
            .saturating_add(self.ip_reassembler.buffered_bytes())
    }

    /// Keeps connections and streams within their share: evicts those idle longest from the larger of
    /// the two tables.
    #[cold]
    pub(super) fn evict_from_larger_table(&mut self, now: Timestamp) {
        if self.streams.memory_bytes() > self.connections.memory_bytes() {
            if self.streams.len() > 1 {
                self.evict_streams(usize::MAX, now);
            }
        } else if self.connections.len() > 1 {
            self.evict_connections(None, PacketMeta::new(&[], now));
        }
    }

    /// Returns `true` if connections and streams use more than their share.
    #[inline]
    pub(super) fn are_tables_full(&self) -> bool {
        self.connections.memory_bytes() + self.streams.memory_bytes() > self.limits.table_bytes
    }
}
