//! Shares of the memory of a trace compiler.

/// Shares of the memory of a [`TraceCompiler`](super::TraceCompiler) in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompilerMemoryShares {
    /// Identities by their variables.
    pub(super) variables: usize,
    /// The inferred tree.
    pub(super) tree: usize,
    /// Steps that wait to be sorted.
    pub(super) pending_steps: usize,
    /// Contents that are stored once.
    pub(super) contents: usize,
    /// Variables without definition, with their values.
    pub(super) undefined: usize,
    /// Hosts, connections, slots, and owners of stateids.
    pub(super) callers: usize,
}

impl CompilerMemoryShares {
    /// Divides `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let part = bytes / 16;
        Self {
            variables: 5 * part,
            tree: 6 * part,
            pending_steps: 2 * part,
            contents: part,
            undefined: part,
            callers: part,
        }
    }
}
