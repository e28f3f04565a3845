//! Stateids of locks, as the live server gives them.
//!
//! The locks that a lock-owner has on a file have one stateid (RFC 8881 section 8.2). A LOCK that the recorded server refused, in its
//! grace period say, gave none there: no later Call is sent with the live one, and that it is a right one shows when the same is
//! asked for again.

use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::FxHashMap;

use super::super::call_description::CallDescription;
use crate::replay::trace::{MessageSlotKind, TraceStep};

/// Lock-owners that are remembered.
const OWNERS: usize = 1 << 12;

/// A client, a file, and what a LOCK names besides: the open and the lock-owner, by their variables.
type LiveLockKey = (u32, u32, [u32; 2]);

/// The stateids of locks that were given, without their seqids.
#[derive(Debug, Default)]
pub(super) struct LiveLockStateids {
    by_locker: FxHashMap<LiveLockKey, [u8; 12]>,
}

impl LiveLockStateids {
    /// A step was answered; `given` is the stateid that a LOCK gave. Whether the same lock-owner has had another for the file,
    /// and nothing was unlocked since then.
    pub(super) fn is_other(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallDescription,
        given: Option<[u8; 12]>,
    ) -> bool {
        if parts.operations.iter().any(|operation| ends_locks(*operation)) {
            self.by_locker.clear();
            return false;
        }
        given.zip(locker(step, parts)).is_some_and(|(given, locker)| self.give(locker, given))
    }

    /// Whether a locker has had another stateid than it is given now.
    fn give(&mut self, locker: LiveLockKey, given: [u8; 12]) -> bool {
        if self.by_locker.len() >= OWNERS {
            self.by_locker.clear();
        }
        *self.by_locker.entry(locker).or_insert(given) != given
    }
}

/// Who locks what, if the LOCK of a step begins with an open.
fn locker(step: &TraceStep<'_>, parts: &CallDescription) -> Option<LiveLockKey> {
    let at = parts.operations.iter().position(|operation| *operation == Operation::LOCK)?;
    let slots = step.call.slots.iter().filter(|slot| slot.operation as usize == at);
    let of =
        |holds: MessageSlotKind| slots.clone().find(|slot| slot.holds == holds).map(|slot| slot.variable);
    let named = [of(MessageSlotKind::STATEID)?, of(MessageSlotKind::OWNER)?];
    Some((step.caller.client, *parts.files.get(at)?, named))
}

/// Whether a server may forget the stateids of locks with an operation, or has new clients.
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
        let mut locks = LiveLockStateids::default();
        let (locker, of_another_file) = ((0, 1, [2, 3]), (0, 4, [2, 3]));
        assert!(!locks.give(locker, [7; 12]));
        assert!(!locks.give(of_another_file, [8; 12]));
        assert!(!locks.give(locker, [7; 12]));
        assert!(locks.give(locker, [9; 12]));
    }
}
