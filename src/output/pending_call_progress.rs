//! State of a pending Call that its Transaction does not contain.

use std::fmt;

use nfsrdma_analysis::call_session_slots::CallSessionSlot;
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_flow::transaction::CallDirection;

use super::units::HumanSize;

/// Progress of a pending Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCallProgress {
    /// Nanoseconds since the first frame of the Call.
    pub age_ns: u64,
    /// Phase that the Call has reached.
    pub phase: PendingTransactionPhase,
    /// Session slot of the Call, from NFSv4.1 on.
    pub slot: Option<CallSessionSlot>,
    /// The side that sends the call: the other one owes the reply.
    pub direction: CallDirection,
}

/// Returns the side that answers calls of a direction.
pub fn responder(direction: CallDirection) -> &'static str {
    match direction {
        CallDirection::Forward => "server",
        CallDirection::Reverse => "client",
    }
}

/// Example: `data in 8.00 KiB of 64.0 KiB, slot 3`.
impl fmt::Display for PendingCallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            PendingTransactionPhase::DataIn { moved_bytes, offered_bytes } => {
                write!(f, "data in {} of {}", HumanSize(moved_bytes), HumanSize(offered_bytes))?;
            }
            PendingTransactionPhase::Call { received_bytes, total_bytes } => {
                write!(f, "call {} of {}", HumanSize(received_bytes), HumanSize(total_bytes))?;
            }
            PendingTransactionPhase::Server => f.write_str(responder(self.direction))?,
            PendingTransactionPhase::DataOut { moved_bytes } => write!(f, "data out {}", HumanSize(moved_bytes))?,
        }
        match self.slot {
            Some(used) => write!(f, ", slot {}", used.slot),
            None => Ok(()),
        }
    }
}
