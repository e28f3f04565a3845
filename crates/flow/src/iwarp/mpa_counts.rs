//! Counts of MPA CRC check results and of discarded bytes.

/// Counts of MPA CRC check results and of discarded bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpaCounts {
    /// FPDUs with a correct CRC.
    pub good: u64,
    /// FPDUs with a wrong CRC, which are rejected.
    pub bad: u64,
    /// FPDUs of connections without CRCs.
    pub absent: u64,
    /// FPDUs that were not captured completely.
    pub unknown: u64,
    /// Bytes of rejected FPDUs.
    pub refused_bytes: u64,
    /// Captured bytes in which no FPDU was found.
    pub skipped_bytes: u64,
}

impl MpaCounts {
    /// Iterates over the nonzero FPDU counts with their names in output.
    pub fn named_counts(self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { good, bad, absent, unknown, .. } = self;
        let counts = [("good", good), ("bad", bad), ("absent", absent), ("unknown", unknown)];
        counts.into_iter().filter(|(_, count)| *count > 0)
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.good += other.good;
        self.bad += other.bad;
        self.absent += other.absent;
        self.unknown += other.unknown;
        self.refused_bytes += other.refused_bytes;
        self.skipped_bytes += other.skipped_bytes;
    }
}
