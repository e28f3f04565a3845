//! Packet sequence numbers that do not wrap.

/// A sequence number extended beyond 24 bits, so that it never wraps.
pub(super) type ExtendedPsn = u64;
