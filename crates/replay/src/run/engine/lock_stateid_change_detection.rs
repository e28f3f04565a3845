//! Stateids of locks granted by the live server.
//!
//! The locks of a lock-owner on a file have one stateid (RFC 8881 section 8.2). A LOCK that the recorded server
//! refused, for example in its grace period, returned none, so no later Call uses the live one. It is verified when the
//! same lock is requested again.

use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::FxHashMap;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::recovery::recoverable_client_state::slot_variable;
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};

const MAX_LOCK_OWNERS: usize = 1 << 12;

/// Client, file, and the variables of the open and the lock-owner of a LOCK.
type LockOwnerAndFileKey = (u32, u32, [u32; 2]);

/// Stateids of granted locks, without their seqids.
#[derive(Debug, Default)]
pub(super) struct LiveLockStateidChangeDetector {
    by_locker: FxHashMap<LockOwnerAndFileKey, [u8; 12]>,
}

impl LiveLockStateidChangeDetector {
    /// Records the stateid `stateid` by a LOCK of an answered step. Returns `true` if the same lock-owner had another
    /// stateid for the file and nothing was unlocked since.
    pub(super) fn has_changed_stateid(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        stateid: Option<[u8; 12]>,
    ) -> bool {
        if parts.operations.iter().any(|operation| ends_locks(*operation)) {
            self.by_locker.clear();
            return false;
        }
        stateid.zip(lock_key(step, parts)).is_some_and(|(stateid, locker)| self.record_stateid(locker, stateid))
    }

    /// Records the stateid of a locker. Returns `true` if it had another one before.
    fn record_stateid(&mut self, locker: LockOwnerAndFileKey, stateid: [u8; 12]) -> bool {
        if self.by_locker.len() >= MAX_LOCK_OWNERS {
            self.by_locker.clear();
        }
        *self.by_locker.entry(locker).or_insert(stateid) != stateid
    }
}

/// Returns the client, file, open and lock-owner of the step's LOCK, if it has an open stateid and a new lock-owner.
fn lock_key(step: &TraceStep<'_>, parts: &CallOperationsAndFiles) -> Option<LockOwnerAndFileKey> {
    let at = parts.operations.iter().position(|operation| *operation == Operation::LOCK)?;
    let variables =
        [TraceSlotValueKind::STATEID, TraceSlotValueKind::OWNER].map(|kind| slot_variable(&step.call, kind, at));
    (!variables.contains(&NONE)).then_some((step.caller.client, *parts.files.get(at)?, variables))
}

/// Returns `true` if a server may discard lock stateids after this operation, or if it creates or ends a client or
/// session.
fn ends_locks(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::LOCKU
            | Operation::CLOSE
            | Operation::FREE_STATEID
            | Operation::RELEASE_LOCKOWNER
            | Operation::SETCLIENTID
            | Operation::EXCHANGE_ID
            | Operation::CREATE_SESSION
            | Operation::DESTROY_SESSION
            | Operation::DESTROY_CLIENTID
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_one_owner_on_one_file_have_one_stateid() {
        let mut locks = LiveLockStateidChangeDetector::default();
        let (locker, of_another_file) = ((0, 1, [2, 3]), (0, 4, [2, 3]));
        assert!(!locks.record_stateid(locker, [7; 12]));
        assert!(!locks.record_stateid(of_another_file, [8; 12]));
        assert!(!locks.record_stateid(locker, [7; 12]));
        assert!(locks.record_stateid(locker, [9; 12]));
    }
}
