//! Properties of messages and Transactions that a rule is about.

/// A property of a message or Transaction. If the capture may lack the evidence for it, it is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequiredMessageProperty {
    /// The message is a Call; the Transaction has one.
    Call,
    /// The message is a Reply; the Transaction has one.
    Reply,
    /// The header has version 1 and a known procedure.
    Version1,
    /// The message, or the Reply of the Transaction, is RDMA_ERROR.
    RdmaError,
    /// The message is a Long Call or a Long Reply (RDMA_NOMSG).
    LongMessage,
    Reverse,
    /// The message, or the Call of the Transaction, has Read chunks.
    ReadChunks,
    /// The Call has Write chunks.
    WriteChunks,
    /// The message has chunks of any kind, or the Call of the Transaction offered some.
    Chunks,
    /// The arguments or results are signed, encrypted, or of a control message of RPCSEC_GSS.
    Protected,
    /// The Reply invalidates a handle.
    Invalidation,
    /// The COMPOUND begins with SEQUENCE, or the CB_COMPOUND with CB_SEQUENCE.
    Sequence,
    /// The Transaction is a COMPOUND or CB_COMPOUND.
    Compound,
    FirstOfConnection,
    /// The header of the message, or of the Call of the Transaction, is not that of an RDMA_MSG of version 1 with
    /// credits, all of which was captured, or no RPC message follows it.
    UnusualHeader,
    /// The message, or a message of the Transaction, is not decoded to its end, or has another version of RPC; or a
    /// message of the Transaction has a value that its type does not define.
    Undecodable,
    /// The RPC failed: RDMA_ERROR, or a Reply that does not report success.
    Failure,
    /// A Call of the connection, or this one, was refused with RDMA_ERROR.
    Refusal,
    NullProcedure,
    /// The Transaction repeats a Call of an earlier connection.
    RepeatedCall,
    /// The Transaction is the first of NFS version 4 on its connection.
    FirstOfNfs4,
    /// The Transaction has a READ or a WRITE that succeeded.
    SuccessfulReadWrite,
    /// The COMPOUND or CB_COMPOUND has the sequence ID of the last use of its slot.
    RepeatedSequence,
    MinorVersion0,
    CreateSession,
    ReadPlus,
    /// The COMPOUND has COPY, OFFLOAD_CANCEL or OFFLOAD_STATUS.
    Offload,
    /// The COMPOUND or CB_COMPOUND has a minor version with sessions.
    SessionVersion,
    /// The COMPOUND has an operation that is not of its minor version.
    ReservedOperation,
    /// A rule about all COMPOUNDs may be broken; see `CompoundOperationIterator::is_usual`. CB_COMPOUND always has the
    /// subject.
    UnusualCompound,
    /// The slot had no use before the COMPOUND or CB_COMPOUND.
    FirstSlotUse,
    /// A rule about all uses of a slot may be broken; see `ConformanceTransaction::has_usual_sequence`.
    UnusualSequence,
    /// The Call or Reply may exceed a limit of the channel of its session.
    LargeMessage,
}

/// Subjects that a message or Transaction has, or that a rule requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequiredMessagePropertySet(u64);

impl RequiredMessagePropertySet {
    /// A set that no message and no Transaction has.
    pub(crate) const IMPOSSIBLE: Self = Self(u64::MAX);

    pub(crate) fn of(subjects: &[RequiredMessageProperty]) -> Self {
        subjects.iter().fold(Self::default(), |set, subject| set.with(*subject, true))
    }

    #[must_use]
    pub(crate) fn with(self, subject: RequiredMessageProperty, is_present: bool) -> Self {
        Self(self.0 | u64::from(is_present) << subject as u32)
    }

    pub(crate) fn contains(self, required: Self) -> bool {
        self.0 & required.0 == required.0
    }
}
