//! Reasons that a step does not run as it was captured.

use crate::containment::ContainmentViolation;

/// The planned treatment of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlannedStepDisposition {
    /// The step runs.
    Run,
    /// The step runs with substitutes for information that is missing from the capture.
    Synthesized,
    /// The step does not run and need not: the run does its work by itself, or has done it before.
    Skipped,
    /// The step cannot run.
    Unreplayable,
}

impl PlannedStepDisposition {
    /// All states, in display order.
    pub const ALL: [Self; 4] = [Self::Run, Self::Synthesized, Self::Skipped, Self::Unreplayable];

    /// Returns the name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Synthesized => "synthesized",
            Self::Skipped => "skipped",
            Self::Unreplayable => "unreplayable",
        }
    }

    /// Returns `true` if the step is sent.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Run | Self::Synthesized)
    }
}

macro_rules! reasons {
    ($name:ident; $($(#[doc = $doc:literal])+ $reason:ident => $code:literal, $state:ident, $text:literal;)*) => {
        coded_reasons! {
            /// The reason that a step does not run as it was captured.
            $name; $($(#[doc = $doc])+ $reason => $code, $text;)*
        }

        impl $name {
            /// Returns the state of the step.
            pub const fn state(self) -> PlannedStepDisposition {
                match self { $(Self::$reason => PlannedStepDisposition::$state,)* }
            }
        }
    };
}

reasons! { PlanReason;
    /// A filehandle whose origin was not captured, of an object whose name is known.
    NamedBefore => "handle-before", Synthesized, "a filehandle from before the capture; looked up by its known name";
    /// A filehandle of an object whose name was not captured.
    Nameless => "nameless", Synthesized, "a filehandle without a captured name; a separate object replaces it";
    /// A stateid of an OPEN or of the delegation of a file from before the capture.
    OpenBefore => "open-before", Synthesized, "a file that was opened or delegated before the capture; the run opens it first";
    /// A clientid or a session from before the capture.
    ClientBefore => "client-before", Synthesized, "a client or session from before the capture; the run creates its own";
    /// krb5 or krb5i.
    Secured => "secured", Synthesized, "signed with RPCSEC_GSS; the run sends it as root with AUTH_SYS";
    /// File data of the Call was not captured.
    DataUnknown => "data-unknown", Synthesized, "file data of the call that was not captured; other data replaces it";
    /// The Reply was not captured.
    ReplyLost => "reply-lost", Synthesized, "a reply that was not captured completely; it is not compared";

    /// The filter excludes the step.
    Filtered => "filtered", Skipped, "not selected by the filter, and not needed by a selected step";
    /// krb5 or krb5i, where such Calls are to be skipped.
    SecuredSkipped => "secured-skipped", Skipped, "signed with RPCSEC_GSS; omitted by --sec skip";
    /// The server sent the Call.
    Callback => "callback", Skipped, "a call from the server; the run answers those of the live server";
    /// A repetition of the same Call.
    Repeated => "repeated", Skipped, "the same call sent again; the run sends it once";
    /// The captured server asked to send the Call again later.
    Delayed => "delayed-before", Skipped, "the captured server asked to send it again later; the run sends the call that it executed";
    /// An RPCSEC_GSS control message.
    SecuritySetUp => "security-set-up", Skipped, "creates or destroys a security context; the run has its own";
    /// SETCLIENTID_CONFIRM of a SETCLIENTID from before the capture.
    ConfirmBefore => "confirm-before", Skipped, "confirms a client from before the capture; the run creates its own";

    /// An auxiliary program or procedure that is not limited to the files of a run.
    OtherProgram => "other-program", Unreplayable, "an auxiliary program or procedure that affects more than the files of the run";
    /// The Call was not captured.
    CallLost => "call-lost", Unreplayable, "a call that was not captured";
    /// Bytes of the Call were not captured.
    CallCut => "call-cut", Unreplayable, "a call that was not captured completely";
    /// RDMA_ERROR answered the Call.
    TransportError => "transport-error", Unreplayable, "answered by an RDMA_ERROR about its chunks; the run offers its own";
    /// krb5p.
    Encrypted => "encrypted", Unreplayable, "arguments that are encrypted (krb5p)";
    /// The procedure or operation is not described.
    NotDescribed => "not-described", Unreplayable, "a procedure or operation that this program does not know";
    /// The arguments cannot be decoded.
    Unreadable => "unreadable", Unreplayable, "arguments that cannot be decoded";
    /// The step uses a value that only a step that does not run would define.
    NeedsOther => "needs-other", Unreplayable, "depends on a step that does not run";
    /// A filehandle of which neither name nor type is known.
    Unknown => "unknown-object", Unreplayable, "a filehandle of unknown name and type";
    /// A stateid of which nothing is known, or of NFSv4.0, where a file cannot be opened by its filehandle.
    StateUnknown => "unknown-stateid", Unreplayable, "a stateid from before the capture, of unknown origin or of NFSv4.0";
    /// A lock from before the capture.
    LockBefore => "lock-before", Unreplayable, "a lock that was taken before the capture";
    /// A delegation of a directory, or of an unknown file, from before the capture.
    DelegationBefore => "delegation-before", Unreplayable, "the delegation of a directory or of an unknown file, from before the capture";
    /// A listing whose beginning was not captured.
    ListingBefore => "listing-before", Unreplayable, "continues a listing that began before the capture";
    /// VERIFY, NVERIFY or a SETATTR guard with a value from before the capture.
    ChangeBefore => "change-before", Unreplayable, "compares with a change value from no captured reply";
    /// A name that is not a plain component.
    UnsafeName => "unsafe-name", Unreplayable, "a name is empty, has '/' or NUL, is \".\" or \"..\", or has such a component between backslashes";
    /// A step up from the root of the tree.
    OutsideExport => "outside-export", Unreplayable, "it may leave the directory of the run";
    /// Another server.
    OtherServer => "other-server", Unreplayable, "it names another server, or an address on which this run does not listen";
    /// Layout data.
    LayoutContent => "layout-content", Unreplayable, "it carries layout data, which this program does not check";
    /// pNFS.
    DeviceBefore => "device-before", Unreplayable, "a device or layout from no captured reply";
}

impl PlanReason {
    /// Returns the reason for a call that the containment refuses whatever the live server returns.
    pub(super) fn of_violation(violation: ContainmentViolation) -> Option<Self> {
        match violation {
            ContainmentViolation::Name => Some(Self::UnsafeName),
            ContainmentViolation::Upward => Some(Self::OutsideExport),
            ContainmentViolation::Server => Some(Self::OtherServer),
            ContainmentViolation::Layout => Some(Self::LayoutContent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_the_words_of_the_containment() {
        for violation in ContainmentViolation::ALL {
            let Some(reason) = PlanReason::of_violation(*violation) else { continue };
            assert_eq!((reason.code(), reason.text()), (violation.code(), violation.text()));
        }
    }

    #[test]
    fn each_reason_has_a_distinct_code_and_text() {
        for (at, reason) in PlanReason::ALL.iter().enumerate() {
            assert!(PlanReason::ALL[..at].iter().all(|other| other.code() != reason.code()));
            assert!(PlanReason::ALL[..at].iter().all(|other| other.text() != reason.text()));
            assert_ne!(reason.state(), PlannedStepDisposition::Run);
        }
    }
}
