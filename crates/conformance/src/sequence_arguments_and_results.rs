//! SEQUENCE and CB_SEQUENCE: slots of the two channels of a session. RFC 8881 sections 2.10.6, 18.46 and 20.9.

use nfsrdma_dissectors::nfs::v4::{
    Args, CbArgs, CbResults, CbSequence4Args, CbSequence4Resok, Results, Sequence4Args, Sequence4Resok,
    Sessionid4,
};

/// Channel of a session. RFC 8881 section 2.10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionChannelKind {
    /// Calls of the client: COMPOUND.
    #[default]
    Fore,
    /// Calls of the server: CB_COMPOUND.
    Back,
}

impl SessionChannelKind {
    /// Returns the prefix of the arguments of SEQUENCE or CB_SEQUENCE.
    pub(crate) fn argument_prefix(self) -> &'static str {
        match self {
            Self::Fore => "sa",
            Self::Back => "csa",
        }
    }

    /// Returns the prefix of the results of SEQUENCE or CB_SEQUENCE.
    pub(crate) fn result_prefix(self) -> &'static str {
        match self {
            Self::Fore => "sr",
            Self::Back => "csr",
        }
    }
}

/// Arguments of SEQUENCE or CB_SEQUENCE. RFC 8881 sections 18.46.1 and 20.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceArguments {
    /// Session.
    pub session: Sessionid4,
    /// Sequence ID of the slot.
    pub sequence_id: u32,
    /// Slot.
    pub slot: u32,
    /// Highest slot in use.
    pub highest_slot: u32,
    /// `true` if the replier is to cache its Reply.
    pub is_cache_requested: bool,
}

impl SequenceArguments {
    /// Returns the arguments of SEQUENCE.
    pub(crate) fn of(operation: &Args<'_>) -> Option<Self> {
        let Args::SEQUENCE(Sequence4Args {
            sa_sessionid,
            sa_sequenceid,
            sa_slotid,
            sa_highest_slotid,
            sa_cachethis,
        }) = operation
        else {
            return None;
        };
        Some(Self {
            session: *sa_sessionid,
            sequence_id: *sa_sequenceid,
            slot: *sa_slotid,
            highest_slot: *sa_highest_slotid,
            is_cache_requested: *sa_cachethis,
        })
    }

    /// Returns the arguments of CB_SEQUENCE.
    pub(crate) fn of_callback(operation: &CbArgs<'_>) -> Option<Self> {
        let CbArgs::CB_SEQUENCE(CbSequence4Args {
            csa_sessionid,
            csa_sequenceid,
            csa_slotid,
            csa_highest_slotid,
            csa_cachethis,
            ..
        }) = operation
        else {
            return None;
        };
        Some(Self {
            session: *csa_sessionid,
            sequence_id: *csa_sequenceid,
            slot: *csa_slotid,
            highest_slot: *csa_highest_slotid,
            is_cache_requested: *csa_cachethis,
        })
    }

    /// Returns `true` if the results belong to the arguments.
    pub(crate) fn is_echoed_by(&self, result: &SequenceResult) -> bool {
        (self.session, self.slot, self.sequence_id) == (result.session, result.slot, result.sequence_id)
    }
}

/// Results of a SEQUENCE or CB_SEQUENCE that succeeded. RFC 8881 sections 18.46.2 and 20.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceResult {
    /// Session.
    pub session: Sessionid4,
    /// Sequence ID of the slot.
    pub sequence_id: u32,
    /// Slot.
    pub slot: u32,
    /// Highest slot that the replier accepts.
    pub highest_slot: u32,
    /// Highest slot that the replier prefers.
    pub target_highest_slot: u32,
}

impl SequenceResult {
    /// Returns the results of a SEQUENCE that succeeded.
    pub(crate) fn of(result: &Results<'_>) -> Option<Self> {
        let Results::SEQUENCE(result) = result else { return None };
        let Sequence4Resok {
            sr_sessionid,
            sr_sequenceid,
            sr_slotid,
            sr_highest_slotid,
            sr_target_highest_slotid,
            ..
        } = result.ok()?;
        Some(Self {
            session: *sr_sessionid,
            sequence_id: *sr_sequenceid,
            slot: *sr_slotid,
            highest_slot: *sr_highest_slotid,
            target_highest_slot: *sr_target_highest_slotid,
        })
    }

    /// Returns the results of a CB_SEQUENCE that succeeded.
    pub(crate) fn of_callback(result: &CbResults<'_>) -> Option<Self> {
        let CbResults::CB_SEQUENCE(result) = result else { return None };
        let CbSequence4Resok {
            csr_sessionid,
            csr_sequenceid,
            csr_slotid,
            csr_highest_slotid,
            csr_target_highest_slotid,
        } = result.ok()?;
        Some(Self {
            session: *csr_sessionid,
            sequence_id: *csr_sequenceid,
            slot: *csr_slotid,
            highest_slot: *csr_highest_slotid,
            target_highest_slot: *csr_target_highest_slotid,
        })
    }
}
