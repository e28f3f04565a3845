//! Shares of the memory of a comparison.

use super::MAX_IDLE_CLIENTS;
use super::pairing_queue::FILEHANDLE_ORIGIN_BYTES;

/// Approximate memory of a client without waiting records, in bytes.
const IDLE_CLIENT_BYTES: usize = 1_024;
/// Part of the memory for identities, in sixteenths.
const IDENTITY_PARTS: u64 = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct ComparisonMemoryShares {
    /// Bytes of the waiting records of one side.
    pub(super) waiting_bytes: usize,
    /// Bytes of the records without partners.
    pub(super) unpaired_bytes: usize,
    /// Bytes of the differences that are not passed on yet.
    pub(super) difference_bytes: usize,
    /// Bytes of the pairs of identities.
    pub(super) identity_bytes: usize,
    /// Number of clients.
    pub(super) clients: usize,
    /// Number of filehandles of one side whose origins are known.
    pub(super) filehandles: usize,
}

impl ComparisonMemoryShares {
    pub(super) fn new(bytes: usize) -> Self {
        let part = bytes / 16;
        Self {
            waiting_bytes: 3 * part,
            unpaired_bytes: 2 * part,
            difference_bytes: part,
            identity_bytes: IDENTITY_PARTS as usize * part,
            clients: MAX_IDLE_CLIENTS.min(part / IDLE_CLIENT_BYTES),
            filehandles: part / 2 / FILEHANDLE_ORIGIN_BYTES,
        }
    }

    /// Returns the memory of a comparison whose share for identities is `identity_bytes`.
    pub(super) fn memory_for_identities(identity_bytes: u64) -> u64 {
        identity_bytes.div_ceil(IDENTITY_PARTS).saturating_mul(16)
    }
}
