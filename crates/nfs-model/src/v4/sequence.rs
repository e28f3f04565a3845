//! SEQUENCE and CB_SEQUENCE: slots of the two channels of a session. RFC 8881 sections 2.10.6, 18.46 and 20.9.

use nfsrdma_dissectors::nfs::v4::{Args, CbArgs, CbResults, Results, Sessionid4};

/// Arguments of SEQUENCE or CB_SEQUENCE. RFC 8881 sections 18.46.1 and 20.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The session.
    pub session: Sessionid4,
    /// Sequence ID of the slot.
    pub sequence_id: u32,
    /// Number of the slot.
    pub slot: u32,
    /// Highest slot in use.
    pub highest_slot: u32,
    /// `true` if the replier is to cache its reply.
    pub is_cache_requested: bool,
}

/// Results of a SEQUENCE or CB_SEQUENCE that succeeded. RFC 8881 sections 18.46.2 and 20.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceResult {
    /// The session.
    pub session: Sessionid4,
    /// Sequence ID of the slot.
    pub sequence_id: u32,
    /// Number of the slot.
    pub slot: u32,
    /// Highest slot that the replier accepts.
    pub highest_slot: u32,
    /// Highest slot that the replier prefers.
    pub target_highest_slot: u32,
}

impl Sequence {
    /// Returns the arguments of SEQUENCE; `None` for other operations.
    pub fn of(operation: &Args<'_>) -> Option<Self> {
        let Args::SEQUENCE(arguments) = operation else { return None };
        Some(Self {
            session: arguments.sa_sessionid,
            sequence_id: arguments.sa_sequenceid,
            slot: arguments.sa_slotid,
            highest_slot: arguments.sa_highest_slotid,
            is_cache_requested: arguments.sa_cachethis,
        })
    }

    /// Returns the arguments of CB_SEQUENCE; `None` for other operations.
    pub fn of_callback(operation: &CbArgs<'_>) -> Option<Self> {
        let CbArgs::CB_SEQUENCE(arguments) = operation else { return None };
        Some(Self {
            session: arguments.csa_sessionid,
            sequence_id: arguments.csa_sequenceid,
            slot: arguments.csa_slotid,
            highest_slot: arguments.csa_highest_slotid,
            is_cache_requested: arguments.csa_cachethis,
        })
    }

    /// Returns `true` if a result is of the same session, slot and sequence ID.
    pub fn is_echoed_by(&self, result: &SequenceResult) -> bool {
        (self.session, self.slot, self.sequence_id) == (result.session, result.slot, result.sequence_id)
    }
}

impl SequenceResult {
    /// Returns the results of SEQUENCE; `Some(None)` if it failed, `None` for other operations.
    pub fn of(result: &Results<'_>) -> Option<Option<Self>> {
        let Results::SEQUENCE(result) = result else { return None };
        Some(result.ok().map(|result| Self {
            session: result.sr_sessionid,
            sequence_id: result.sr_sequenceid,
            slot: result.sr_slotid,
            highest_slot: result.sr_highest_slotid,
            target_highest_slot: result.sr_target_highest_slotid,
        }))
    }

    /// Returns the results of CB_SEQUENCE; `Some(None)` if it failed, `None` for other operations.
    pub fn of_callback(result: &CbResults<'_>) -> Option<Option<Self>> {
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
