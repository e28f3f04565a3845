//! Subjects of messages and Transactions, which decide the rules that apply to them.

/// A property of a message or Transaction. If the capture may lack the evidence for it, it is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
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
    /// The direction is reverse.
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
    /// The COMPOUND begins with SEQUENCE.
    Sequence,
    /// The Transaction is a COMPOUND.
    Compound,
    /// The Transaction is the first of its connection.
    FirstOfConnection,
}

/// Subjects that a message or Transaction has, or that a rule requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectSet(u16);

impl SubjectSet {
    /// Returns the set of these subjects.
    pub(crate) fn of(subjects: &[Subject]) -> Self {
        subjects.iter().fold(Self::default(), |set, subject| set.with(*subject, true))
    }

    /// Adds a subject if the condition holds.
    #[must_use]
    pub(crate) fn with(self, subject: Subject, is_present: bool) -> Self {
        Self(self.0 | u16::from(is_present) << subject as u16)
    }

    /// Returns `true` if all subjects that are required are in the set.
    pub(crate) fn contains(self, required: Self) -> bool {
        self.0 & required.0 == required.0
    }
}
