//! Keys of connections.

/// Key of a connection; never reused for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionSlabKey {
    pub(super) slot: usize,
    pub(super) serial: u64,
}
