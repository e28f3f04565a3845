//! Kind of an RPC message.

/// Kind of an RPC message: Call or Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcMessageKind {
    /// The Call.
    Call,
    /// The Reply.
    Reply,
}
