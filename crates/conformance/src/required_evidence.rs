//! Evidence in a capture that a rule needs.

/// Evidence that a rule needs. Without it, the rule is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequiredCaptureEvidence {
    /// The set-up of the connection: REQ and REP of the connection manager, or the start-up frames of MPA.
    SetUp,
    /// The set-up of the connection, or a grant captured before the first of the calls in flight.
    Grant,
    /// Both the Call and the Reply.
    BothMessages,
    /// Complete chunk lists in the messages that are judged.
    ChunkLists,
    /// No loss between the last idle moment of the connection and the Reply. Without the set-up, the start of each
    /// direction counts as a loss.
    NoLoss,
    /// No message missing from the capture between the last idle moment of the connection and the Reply; without a
    /// Reply, until the end of the capture.
    NoGap,
    /// The kind of the message: Call or Reply. A snap length may cut it, and the Call that shows it may be missing.
    MessageKind,
    /// The messages that are judged, captured to their end.
    WholeMessage,
    /// The session of the COMPOUND, from its CREATE_SESSION on.
    Session,
    /// The result of a check of the ICRC, which is off by default.
    CheckedIcrc,
}

impl RequiredCaptureEvidence {
    /// Returns the description in output.
    pub fn description(self) -> &'static str {
        match self {
            Self::SetUp => "the set-up of the connection",
            Self::Grant => "the set-up of the connection, or a grant before the calls in flight",
            Self::BothMessages => "call and reply",
            Self::ChunkLists => "complete chunk lists",
            Self::NoLoss => "no packet loss before the reply",
            Self::NoGap => "no message missing from the capture before the reply",
            Self::MessageKind => "the kind of the message, call or reply",
            Self::WholeMessage => "the complete message",
            Self::Session => "the session from its CREATE_SESSION on",
            Self::CheckedIcrc => "the option --check-icrc",
        }
    }
}

/// Evidence that a message or Transaction provides, or that a rule needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequiredCaptureEvidenceSet(u16);

impl RequiredCaptureEvidenceSet {
    #[must_use]
    pub(crate) fn with(self, evidence: RequiredCaptureEvidence, is_provided: bool) -> Self {
        Self(self.0 | u16::from(is_provided) << evidence as u8)
    }

    #[must_use]
    pub(crate) fn without(self, evidence: RequiredCaptureEvidence) -> Self {
        Self(self.0 & !(1 << evidence as u8))
    }

    pub(crate) fn of(evidence: &[RequiredCaptureEvidence]) -> Self {
        evidence.iter().fold(Self::default(), |set, evidence| set.with(*evidence, true))
    }

    pub(crate) fn provides(self, needs: Self) -> bool {
        self.0 & needs.0 == needs.0
    }
}
