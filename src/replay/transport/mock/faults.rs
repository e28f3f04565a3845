//! What can be made to go wrong, to see what an engine makes of it.

/// What goes wrong with one Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockTransportFault {
    /// The Reply never comes.
    NoReply,
    /// The connection breaks before the server has done anything.
    BreakBefore,
    /// The server restarts before it has done anything: it forgets its clients, and all connections break.
    Restart,
    /// The server restarts before it does anything, and connections stay, as where another takes its place.
    Forget,
    /// The server forgets its sessions before it does anything, and not its clients.
    ForgetSessions,
    /// The connection breaks when the work is done and half of the last chunk is written.
    BreakAfter,
    /// RDMA_ERROR with ERR_VERS. RFC 8166 section 4.5.1.
    ErrVers,
    /// RDMA_ERROR with ERR_CHUNK. RFC 8166 section 4.5.2.
    ErrChunk,
    /// The Reply comes twice.
    Twice,
    /// The Reply waits for the next, which overtakes it.
    Late,
    /// The Reply grants so many credits, and those after it too.
    Credits(u32),
    /// The header of the Reply has another XID than its message.
    OtherXid,
    /// The Reply says that more bytes came by its first Write chunk than that has room for.
    MoreThanOffered,
    /// The Reply returns another handle than was offered.
    OtherHandle,
    /// The Reply is cut in its header.
    CutHeader,
    /// One byte of the data that came by the first Write chunk is another.
    OtherByte,
    /// The RPC message of the Reply lacks its last word.
    CutMessage,
    /// The Reply says that fewer bytes came by its first Write chunk than did.
    LessThanWritten,
    /// The Reply says that more bytes came by its last Write chunk than did, as far as it has room.
    MoreThanWritten,
    /// The Reply says that data came by its first Write chunk, and none did.
    Unwritten,
    /// The Reply says that nothing came by its Write chunks, and has nothing in its message either.
    NotReturned,
}

impl MockTransportFault {
    /// Whether it is about Write chunks.
    pub(super) fn is_of_chunk(self) -> bool {
        matches!(
            self,
            Self::MoreThanOffered
                | Self::OtherHandle
                | Self::OtherByte
                | Self::LessThanWritten
                | Self::MoreThanWritten
                | Self::Unwritten
                | Self::NotReturned
        )
    }
}
