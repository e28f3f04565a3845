//! Operations that the server refuses instead of executing them.

use nfsrdma_dissectors::nfs::v4::{Args, Locker4, OpenClaim4};

use super::v4::state::{MockNfs4State, MockOpen};

/// Refusal of an operation with a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockRefusal {
    /// The NFSv3 or MOUNT procedure, or the operation of a COMPOUND.
    pub operation: &'static str,
    /// The status.
    pub status: u32,
    /// Number of executions before the first refusal.
    pub skip: u64,
    /// Number of refusals.
    pub count: u64,
    /// `true` if a refused LOCK of a new lock-owner advances only the seqid of the open-owner, as in nfs-ganesha 4.3
    /// during its grace period. RFC 7530 section 9.1.7 demands both.
    pub forgets_lock_owner: bool,
    /// `true` if only reclaims are refused.
    pub is_of_reclaims: bool,
    /// Number of refusals so far.
    pub refused: u64,
}

impl MockRefusal {
    /// Refuses an operation once, after `skip` executions.
    pub fn once(operation: &'static str, status: u32, skip: u64) -> Self {
        Self { operation, status, skip, count: 1, forgets_lock_owner: false, is_of_reclaims: false, refused: 0 }
    }

    /// Returns `true` if operations of this kind are refused, according to their arguments.
    pub(super) fn concerns(&self, args: &Args<'_>) -> bool {
        let is_reclaim = match args {
            Args::OPEN(args) => matches!(args.claim, OpenClaim4::Previous(_)),
            Args::LOCK(args) => args.reclaim,
            _ => false,
        };
        is_reclaim || !self.is_of_reclaims
    }

    /// Returns the status if this execution is refused.
    pub(super) fn next_status(&mut self, operation: &str) -> Option<u32> {
        if operation != self.operation || self.refused == self.count {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.refused += 1;
        Some(self.status)
    }

    /// Advances the seqids of a refused operation of NFSv4.0, unless its status is in the list of RFC 7530 section
    /// 9.1.7.
    pub(super) fn count_seqids(&self, args: &Args<'_>, state: &mut MockNfs4State) {
        if matches!(self.status, 10_018..=10_020 | 10_022 | 10_023 | 10_025 | 10_026 | 10_036) {
            return;
        }
        let open_owner = |state: &MockNfs4State, other| {
            state.opens.get(other).map(|open: &MockOpen| (open.client, open.owner.clone()))
        };
        let lock_owner =
            |state: &MockNfs4State, other| state.locks.get(other).map(|lock| (lock.client, lock.owner.clone()));
        let mut counted = Vec::new();
        match args {
            Args::OPEN(args) => {
                counted.push((Some((args.owner.clientid, args.owner.owner.0.to_vec())), args.seqid));
            }
            Args::OPEN_CONFIRM(args) => counted.push((open_owner(state, &args.open_stateid.other), args.seqid)),
            Args::CLOSE(args) => counted.push((open_owner(state, &args.open_stateid.other), args.seqid)),
            Args::OPEN_DOWNGRADE(args) => counted.push((open_owner(state, &args.open_stateid.other), args.seqid)),
            Args::LOCK(args) => match &args.locker {
                Locker4::New(new) => {
                    let owner = open_owner(state, &new.open_stateid.other);
                    let client = owner.as_ref().map(|(client, _)| *client);
                    counted.push((owner, new.open_seqid));
                    if !self.forgets_lock_owner {
                        let lock_owner = client.map(|client| (client, new.lock_owner.owner.0.to_vec()));
                        counted.push((lock_owner, new.lock_seqid));
                    }
                }
                Locker4::Existing(lock) => {
                    counted.push((lock_owner(state, &lock.lock_stateid.other), lock.lock_seqid));
                }
            },
            Args::LOCKU(args) => counted.push((lock_owner(state, &args.lock_stateid.other), args.seqid)),
            _ => {}
        }
        for (owner, seqid) in counted {
            owner.into_iter().for_each(|(client, owner)| state.advance_seqid(client, owner, seqid));
        }
    }
}
