//! SEQUENCE and CB_SEQUENCE: slots of the two channels of a session. RFC 8881 sections 2.10.6, 18.46 and 20.9.

use nfsrdma_dissectors::nfs::v4::{Args, CbArgs, CbResults, Results, Sessionid4};

/// Channel of a session. RFC 8881 section 2.10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum SessionChannelKind {
    /// Calls of the client: COMPOUND.
    #[default]
    Fore,
    /// Calls of the server: CB_COMPOUND.
    Back,
}

impl SessionChannelKind {
    /// Returns the prefixes of the names of the arguments and of the results of SEQUENCE or CB_SEQUENCE.
    pub(crate) fn prefixes(self) -> [&'static str; 2] {
        match self {
            Self::Fore => ["sa", "sr"],
            Self::Back => ["csa", "csr"],
        }
    }
}

/// Arguments of SEQUENCE or CB_SEQUENCE. RFC 8881 sections 18.46.1 and 20.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceArguments {
    pub(crate) session: Sessionid4,
    pub(crate) sequence_id: u32,
    pub(crate) slot: u32,
    /// Highest slot in use.
    pub(crate) highest_slot: u32,
    /// `true` if the replier is to cache its Reply.
    pub(crate) is_cache_requested: bool,
}

impl SequenceArguments {
    pub(crate) fn of(operation: &Args<'_>) -> Option<Self> {
        let Args::SEQUENCE(arguments) = operation else { return None };
        Some(Self {
            session: arguments.sa_sessionid,
            sequence_id: arguments.sa_sequenceid,
            slot: arguments.sa_slotid,
            highest_slot: arguments.sa_highest_slotid,
            is_cache_requested: arguments.sa_cachethis,
        })
    }

    pub(crate) fn of_callback(operation: &CbArgs<'_>) -> Option<Self> {
        let CbArgs::CB_SEQUENCE(arguments) = operation else { return None };
        Some(Self {
            session: arguments.csa_sessionid,
            sequence_id: arguments.csa_sequenceid,
            slot: arguments.csa_slotid,
            highest_slot: arguments.csa_highest_slotid,
            is_cache_requested: arguments.csa_cachethis,
        })
    }

    pub(crate) fn is_echoed_by(&self, result: &SequenceResult) -> bool {
        (self.session, self.slot, self.sequence_id) == (result.session, result.slot, result.sequence_id)
    }
}

/// Results of a SEQUENCE or CB_SEQUENCE that succeeded. RFC 8881 sections 18.46.2 and 20.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceResult {
    pub(crate) session: Sessionid4,
    pub(crate) sequence_id: u32,
    pub(crate) slot: u32,
    /// Highest slot that the replier accepts.
    pub(crate) highest_slot: u32,
    /// Highest slot that the replier prefers.
    pub(crate) target_highest_slot: u32,
}

impl SequenceResult {
    /// Returns the results of SEQUENCE, and in it `None` if it failed.
    pub(crate) fn of(result: &Results<'_>) -> Option<Option<Self>> {
        let Results::SEQUENCE(result) = result else { return None };
        Some(result.ok().map(|result| Self {
            session: result.sr_sessionid,
            sequence_id: result.sr_sequenceid,
            slot: result.sr_slotid,
            highest_slot: result.sr_highest_slotid,
            target_highest_slot: result.sr_target_highest_slotid,
        }))
    }

    /// Returns the results of CB_SEQUENCE, and in it `None` if it failed.
    pub(crate) fn of_callback(result: &CbResults<'_>) -> Option<Option<Self>> {
        let CbResults::CB_SEQUENCE(result) = result else { return None };
        Some(result.ok().map(|result| Self {
            session: result.csr_sessionid,
            sequence_id: result.csr_sequenceid,
            slot: result.csr_slotid,
            highest_slot: result.csr_highest_slotid,
            target_highest_slot: result.csr_target_highest_slotid,
        }))
    }
}
