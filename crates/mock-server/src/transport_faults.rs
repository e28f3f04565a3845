//! Faults that tests can inject into the transport.

/// A fault of one Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockTransportFault {
    /// The Reply is never sent.
    NoReply,
    /// The connection breaks before the server executes the Call.
    BreakBefore,
    /// The server restarts before it executes the Call: it loses its client state, and all connections break.
    Restart,
    /// The server restarts before it executes the Call, but connections stay, as in a failover.
    Forget,
    /// The server loses its sessions before it executes the Call, but keeps its clients.
    ForgetSessions,
    /// The server forgets which connections are bound to sessions before it executes the Call.
    ForgetBindings,
    /// The connection breaks after execution, with the first half of each segment written.
    BreakAfter,
    /// The server answers RDMA_ERROR with ERR_VERS. RFC 8166 section 4.5.1.
    ErrVers,
    /// The server answers RDMA_ERROR with ERR_CHUNK. RFC 8166 section 4.5.2.
    ErrChunk,
    /// The Reply is sent twice.
    Twice,
    /// The Reply is delayed until after the next one.
    Late,
    /// This Reply and all later ones grant this number of credits.
    Credits(u32),
    /// The header of the Reply has another XID than its message.
    OtherXid,
    /// The Reply reports more bytes in the first segment of its Write chunks than were offered.
    MoreThanOffered,
    /// The Reply returns another handle in the first segment of its Write chunks.
    OtherHandle,
    /// The Send of the Reply ends within its header.
    CutHeader,
    /// The last byte written to each segment is changed.
    OtherByte,
    /// The Reply is MSG_DENIED with AUTH_ERROR and AUTH_TOOWEAK. RFC 5531 section 9.
    Denied,
    /// The Send of the Reply lacks its last word.
    CutMessage,
    /// The Reply reports one byte less in the first segment of its Write chunks than was written.
    LessThanWritten,
    /// The Reply reports one byte more than was written in each segment of its Write chunks that is not full.
    MoreThanWritten,
    /// The Reply reports data in its chunks that was not written.
    Unwritten,
    /// The Reply reports no data in its Write chunks, and has none inline either.
    NotReturned,
}

impl MockTransportFault {
    pub(super) fn affects_write_chunks(self) -> bool {
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
