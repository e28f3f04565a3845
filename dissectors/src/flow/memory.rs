//! The memory that a flow may use: one budget, and the share of each kind of state in it.
//!
//! Everything that input makes the flow allocate is weighed in bytes. Each kind has a bound of its own in [`FlowLimits`], and the
//! kinds that come and go with the traffic share a pool, because they are seldom large at the same time: when the pool is
//! used up, closed Transactions are given out first, then each kind gives up its own when it would grow.

use crate::frame::Timestamp;

use super::{Flow, FlowLimits, PacketMeta, ip_reassembly};

/// Memory of a flow unless it is told otherwise, in bytes.
const DEFAULT_BYTES: u64 = 96 << 20;

impl FlowLimits {
    /// Bounds for a flow that may use so many bytes of memory.
    ///
    /// Five eighths are the pool, of which no kind has more than four fifths; three eighths are for connections and streams.
    pub fn within(memory_bytes: u64) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let pool = memory_bytes / 8 * 5;
        let most = pool / 5 * 4;
        Self {
            pool_bytes: bytes(pool),
            table_bytes: bytes(memory_bytes / 8 * 3),
            message_bytes: bytes(most),
            hole_bytes: bytes(most / 6),
            stream_bytes: bytes(most),
            part_bytes: bytes(most),
            fragments: ip_reassembly::FragmentLimits { bytes: bytes(pool / 15 * 2), ..Default::default() },
            early_bytes: pool / 15,
            kept_bytes: pool,
            connections: 16_384,
            open_transactions: 16_384,
            call_age_ns: None,
            lingering_transactions: 4_096,
            streams: 32_768,
            set_ups: 4_096,
            keep_data: false,
            dialect: None,
            check_icrc: false,
            note_steps: false,
            note_closed: false,
            prompt: false,
        }
    }
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self::within(DEFAULT_BYTES)
    }
}

impl Flow {
    /// Memory of the pool that is used beside Transactions, in bytes.
    #[inline]
    pub(super) fn pooled_bytes(&self) -> usize {
        let account = &self.account;
        let packets = account.kept_bytes.saturating_add(account.early_bytes);
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .saturating_add(self.held)
            .saturating_add(self.stream_bytes)
            .saturating_add(self.fragments.kept_bytes())
    }

    /// Keeps connections and streams within their share: of the kind that takes more, those are forgotten that were silent
    /// longest.
    #[cold]
    pub(super) fn forget_heavier_table(&mut self, now: Timestamp) {
        if self.streams.memory_bytes() > self.connections.memory_bytes() {
            if self.streams.len() > 1 {
                self.forget_streams(usize::MAX, now);
            }
        } else if self.connections.len() > 1 {
            self.forget_connections(None, PacketMeta::new(&[], now));
        }
    }

    /// Whether connections and streams take more than their share.
    #[inline]
    pub(super) fn are_tables_full(&self) -> bool {
        self.connections.memory_bytes() + self.streams.memory_bytes() > self.limits.table_bytes
    }
}
