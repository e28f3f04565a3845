//! The state of NFSv4 clients at the server: sessions, opens and locks. RFC 7530 section 9, RFC 8881 sections 2.10 and
//! 9.

use std::collections::{HashMap, HashSet};

use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Sessionid4, Stateid4, Verifier4};
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_replay::seed::file_server_client::SessionLimits;

use super::super::filehandle::MockFileId;

/// Maximum number of clients, of opens, of lock states, and of seqids.
const MAX_ENTRIES: usize = 1 << 16;
/// Maximum number of slots per session.
pub(super) const SLOTS: u32 = 64;
/// Number of NFS4ERR_GRACE errors after which a grace period ends.
const GRACE_ERRORS: u32 = 3;

#[derive(Clone, Debug, Default)]
pub(in super::super) struct MockNfs4State {
    pub(super) clients: HashMap<u64, MockClientRecord>,
    pub(in super::super) sessions: HashMap<Sessionid4, MockSession>,
    pub(in super::super) opens: HashMap<[u8; 12], MockOpen>,
    pub(in super::super) locks: HashMap<[u8; 12], MockLockStateidEntry>,
    /// The clients that hold delegations.
    pub(in super::super) delegations: HashMap<[u8; 12], u64>,
    /// Locked byte ranges by file.
    ranges: HashMap<MockFileId, Vec<MockLockRange>>,
    /// Confirmed open-owners of NFSv4.0.
    confirmed: HashSet<(u64, Vec<u8>)>,
    /// The last seqid of each open-owner and lock-owner of NFSv4.0.
    seqids: HashMap<(u64, Vec<u8>), u32>,
    next: u64,
    /// Number of restarts, and the last number assigned before the last one.
    pub(in super::super) boots: u8,
    last_number_before_restart: u64,
    grace: Option<MockGracePeriod>,
}

/// A grace period. Without a clock, it ends when all clients have reclaimed, or after enough NFS4ERR_GRACE errors. RFC
/// 8881 section 8.4.2.1.
#[derive(Clone, Debug)]
struct MockGracePeriod {
    /// Client owners that may reclaim: those confirmed before the restart.
    owners: HashSet<Vec<u8>>,
    remaining_errors: u32,
}

#[derive(Clone, Debug)]
pub(super) struct MockClientRecord {
    pub(super) owner: Vec<u8>,
    pub(super) verifier: Verifier4,
    pub(super) is_confirmed: bool,
    /// `true` after RECLAIM_COMPLETE.
    pub(super) is_complete: bool,
    /// The csa_sequence that is expected next.
    pub(super) sequence: u32,
}

#[derive(Clone, Debug)]
pub(in super::super) struct MockSession {
    pub(super) client: u64,
    pub(super) slots: Vec<MockSessionSlot>,
    pub(super) limits: SessionLimits,
}

/// A slot: its last sequence ID, and the cached Reply, if any.
#[derive(Clone, Debug, Default)]
pub(super) struct MockSessionSlot {
    pub(super) sequence: u32,
    pub(super) cached_reply: Option<MockCachedReply>,
}

#[derive(Clone, Debug)]
pub(super) struct MockCachedReply {
    pub(super) status: Nfsstat4,
    pub(super) count: u32,
    pub(super) body: Encoder,
    pub(super) data: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct MockOpen {
    pub(in super::super) client: u64,
    pub(in super::super) owner: Vec<u8>,
    pub(super) file: MockFileId,
    pub(super) access: u32,
    pub(super) deny: u32,
    pub(super) seqid: u32,
}

#[derive(Clone, Debug)]
pub(in super::super) struct MockLockStateidEntry {
    pub(in super::super) client: u64,
    pub(in super::super) owner: Vec<u8>,
    pub(super) file: MockFileId,
    pub(super) open: [u8; 12],
    pub(super) seqid: u32,
}

/// A locked range: `start` inclusive, `end` exclusive; the maximum means the end of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MockLockRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_write: bool,
    pub(super) client: u64,
    pub(super) owner: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockStateidKind {
    /// A special stateid: RFC 8881 section 8.2.3.
    Special,
    Open([u8; 12]),
    Lock([u8; 12]),
}

impl MockNfs4State {
    pub(super) fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the "other" field of a new stateid.
    fn new_stateid_other(&mut self, kind: &[u8; 4]) -> [u8; 12] {
        let mut other = [0; 12];
        let (number, tag) = other.split_at_mut(8);
        number.copy_from_slice(&self.new_number().to_be_bytes());
        tag.copy_from_slice(kind);
        other
    }

    pub(super) fn is_full(&self) -> bool {
        self.clients.len().max(self.opens.len()).max(self.locks.len()).max(self.seqids.len()) >= MAX_ENTRIES
    }

    /// Drops all state, except for the clients that may reclaim if `is_kept`.
    pub(in super::super) fn restart(&mut self, is_kept: bool) {
        let clients = self.clients.values().filter(|client| client.is_confirmed);
        let owners: HashSet<_> = clients.map(|client| client.owner.clone()).collect();
        let (boots, next) = (self.boots.wrapping_add(1), self.next);
        let grace =
            (is_kept && !owners.is_empty()).then_some(MockGracePeriod { owners, remaining_errors: GRACE_ERRORS });
        *self = Self { boots, next, last_number_before_restart: next, grace, ..Self::default() };
    }

    /// Checks that an OPEN or LOCK is allowed: in a grace period only reclaims of earlier clients, otherwise no
    /// reclaims. RFC 8881 section 8.4.2.1.
    pub(super) fn check_grace(&mut self, client: u64, is_reclaim: bool) -> Result<(), Nfsstat4> {
        let owner = self.clients.get(&client).map(|client| client.owner.as_slice()).unwrap_or_default();
        match &mut self.grace {
            None if is_reclaim => Err(Nfsstat4::NFS4ERR_NO_GRACE),
            None => Ok(()),
            Some(grace) if is_reclaim => match grace.owners.contains(owner) {
                true => Ok(()),
                false => Err(Nfsstat4::NFS4ERR_NO_GRACE),
            },
            Some(grace) => {
                grace.remaining_errors -= 1;
                if grace.remaining_errors == 0 {
                    self.grace = None;
                }
                Err(Nfsstat4::NFS4ERR_GRACE)
            }
        }
    }

    /// Records RECLAIM_COMPLETE: a client has reclaimed all its state. RFC 8881 section 18.51.
    pub(super) fn complete_reclaim(&mut self, client: u64) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        client.is_complete = true;
        if let Some(grace) = &mut self.grace {
            grace.owners.remove(&client.owner);
            if grace.owners.is_empty() {
                self.grace = None;
            }
        }
    }

    /// Removes a client with all its state.
    pub(super) fn remove_client(&mut self, client: u64) {
        self.clients.remove(&client);
        self.sessions.retain(|_, session| session.client != client);
        self.opens.retain(|_, open| open.client != client);
        self.delegations.retain(|_, holder| *holder != client);
        self.locks.retain(|_, lock| lock.client != client);
        self.seqids.retain(|(owner, _), _| *owner != client);
        self.confirmed.retain(|(owner, _)| *owner != client);
        for ranges in self.ranges.values_mut() {
            ranges.retain(|range| range.client != client);
        }
    }

    pub(super) fn delegate(&mut self, client: u64) -> Stateid4 {
        let other = self.new_stateid_other(b"dele");
        self.delegations.insert(other, client);
        Stateid4 { seqid: 1, other }
    }

    /// Records the seqid of an owner.
    pub(in super::super) fn advance_seqid(&mut self, client: u64, owner: Vec<u8>, seqid: u32) {
        self.seqids.insert((client, owner), seqid);
    }

    /// Checks that the seqid of an owner is the next in NFSv4.0: RFC 7530 section 9.1.7.
    pub(super) fn check_seqid(&mut self, minor: u32, client: u64, owner: &[u8], seqid: u32) -> Result<(), Nfsstat4> {
        if minor > 0 {
            return Ok(());
        }
        match self.seqids.insert((client, owner.to_vec()), seqid) {
            Some(last) if last.wrapping_add(1) != seqid => {
                self.seqids.insert((client, owner.to_vec()), last);
                Err(Nfsstat4::NFS4ERR_BAD_SEQID)
            }
            _ => Ok(()),
        }
    }

    /// Returns the state that a stateid identifies, if it is current: RFC 8881 section 8.2.
    pub(super) fn find(&self, stateid: &Stateid4, minor: u32) -> Result<MockStateidKind, Nfsstat4> {
        let special_stateids = [([0; 12], 0), ([0xff; 12], u32::MAX)];
        // Which file a delegation is of is not checked.
        if special_stateids.contains(&(stateid.other, stateid.seqid)) || self.delegations.contains_key(&stateid.other) {
            return Ok(MockStateidKind::Special);
        }
        let open = self.opens.get(&stateid.other).map(|open| (MockStateidKind::Open(stateid.other), open.seqid));
        let lock = self.locks.get(&stateid.other).map(|lock| (MockStateidKind::Lock(stateid.other), lock.seqid));
        let (number, _) = stateid.other.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let is_stale = u64::from_be_bytes(*number) <= self.last_number_before_restart;
        let unknown = if is_stale { Nfsstat4::NFS4ERR_STALE_STATEID } else { Nfsstat4::NFS4ERR_BAD_STATEID };
        let (kind, seqid) = open.or(lock).ok_or(unknown)?;
        match stateid.seqid {
            0 if minor > 0 => Ok(kind),
            requested if requested == seqid => Ok(kind),
            requested if requested < seqid => Err(Nfsstat4::NFS4ERR_OLD_STATEID),
            _ => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    /// Returns the open of a stateid, directly or through a lock; `None` for a special stateid.
    pub(super) fn open_of(&self, stateid: &Stateid4, minor: u32) -> Result<Option<&MockOpen>, Nfsstat4> {
        let other = match self.find(stateid, minor)? {
            MockStateidKind::Special => return Ok(None),
            MockStateidKind::Open(other) => other,
            MockStateidKind::Lock(other) => self.locks.get(&other).map_or(other, |lock| lock.open),
        };
        self.opens.get(&other).map(Some).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)
    }

    /// Opens a file: returns a new stateid, or the next one if the owner has already opened the file.
    pub(super) fn open(&mut self, new: MockOpen) -> Result<Stateid4, Nfsstat4> {
        let is_other = |open: &MockOpen| open.client != new.client || open.owner != new.owner;
        let conflicts = |open: &MockOpen| open.access & new.deny != 0 || open.deny & new.access != 0;
        let mut on_file = self.opens.values().filter(|open| open.file == new.file);
        if on_file.any(|open| is_other(open) && conflicts(open)) {
            return Err(Nfsstat4::NFS4ERR_SHARE_DENIED);
        }
        let existing = self.opens.iter_mut().find(|(_, open)| open.file == new.file && !is_other(open));
        if let Some((other, open)) = existing {
            open.access |= new.access;
            open.deny |= new.deny;
            open.seqid += 1;
            return Ok(Stateid4 { seqid: open.seqid, other: *other });
        }
        let other = self.new_stateid_other(b"open");
        let seqid = new.seqid;
        self.opens.insert(other, new);
        Ok(Stateid4 { seqid, other })
    }

    /// Returns `true` if an open-owner is unconfirmed, and then cancels its earlier opens: RFC 7530 section 16.18.5.
    pub(super) fn cancel_unconfirmed(&mut self, client: u64, owner: &[u8]) -> bool {
        let is_unconfirmed = !self.confirmed.contains(&(client, owner.to_vec()));
        if is_unconfirmed {
            self.opens.retain(|_, open| open.client != client || open.owner != owner);
        }
        is_unconfirmed
    }

    pub(super) fn confirm(&mut self, client: u64, owner: &[u8]) {
        self.confirmed.insert((client, owner.to_vec()));
    }

    pub(super) fn is_confirmed(&self, open: &MockOpen) -> bool {
        self.confirmed.contains(&(open.client, open.owner.clone()))
    }

    pub(super) fn close(&mut self, other: [u8; 12]) {
        self.opens.remove(&other);
        let lock_stateids: Vec<_> =
            self.locks.iter().filter(|(_, lock)| lock.open == other).map(|(other, _)| *other).collect();
        for other in lock_stateids {
            self.free_lock(other);
        }
    }

    /// Returns `true` if a lock-owner holds locks in a file.
    pub(super) fn has_ranges(&self, other: [u8; 12]) -> bool {
        let Some(lock) = self.locks.get(&other) else { return false };
        let mut ranges = self.ranges.get(&lock.file).into_iter().flatten();
        ranges.any(|range| range.client == lock.client && range.owner == lock.owner)
    }

    /// Removes a lock-owner's state for a file, and its locked ranges there.
    pub(super) fn free_lock(&mut self, other: [u8; 12]) {
        let Some(lock) = self.locks.remove(&other) else { return };
        if let Some(ranges) = self.ranges.get_mut(&lock.file) {
            ranges.retain(|range| range.client != lock.client || range.owner != lock.owner);
        }
    }

    /// Returns the lock state of an owner for a file; creates it if necessary.
    pub(super) fn lock_state(&mut self, new: MockLockStateidEntry) -> [u8; 12] {
        let is_same = |lock: &MockLockStateidEntry| {
            lock.file == new.file && lock.client == new.client && lock.owner == new.owner && lock.open == new.open
        };
        match self.locks.iter().find(|(_, lock)| is_same(lock)) {
            Some((other, _)) => *other,
            None => {
                let other = self.new_stateid_other(b"lock");
                self.locks.insert(other, new);
                other
            }
        }
    }

    /// Returns the first range that conflicts with the requested one.
    pub(super) fn conflict(&self, file: MockFileId, requested: &MockLockRange) -> Option<&MockLockRange> {
        self.ranges.get(&file)?.iter().find(|range| {
            let is_other = range.client != requested.client || range.owner != requested.owner;
            is_other
                && range.start < requested.end
                && requested.start < range.end
                && (range.is_write || requested.is_write)
        })
    }

    /// Locks a range, and replaces the owner's earlier locks in it.
    pub(super) fn lock(&mut self, file: MockFileId, range: MockLockRange) {
        self.unlock(file, &range);
        self.ranges.entry(file).or_default().push(range);
    }

    /// Unlocks a range of its owner, and keeps the parts of locks outside it.
    pub(super) fn unlock(&mut self, file: MockFileId, unlocked: &MockLockRange) {
        let Some(ranges) = self.ranges.get_mut(&file) else { return };
        let mut remaining = Vec::with_capacity(ranges.len() + 1);
        for range in ranges.drain(..) {
            let overlaps = range.client == unlocked.client
                && range.owner == unlocked.owner
                && range.start < unlocked.end
                && unlocked.start < range.end;
            if !overlaps {
                remaining.push(range);
                continue;
            }
            if range.start < unlocked.start {
                remaining.push(MockLockRange { end: unlocked.start, ..range.clone() });
            }
            if unlocked.end < range.end {
                remaining.push(MockLockRange { start: unlocked.end, ..range });
            }
        }
        *ranges = remaining;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, is_write: bool, owner: &[u8]) -> MockLockRange {
        MockLockRange { start, end, is_write, client: 1, owner: owner.into() }
    }

    #[test]
    fn rfc7530_section_9_locks_conflict_between_owners_and_split_within_one() {
        let mut state = MockNfs4State::default();
        state.lock(7, range(0, 100, true, b"a"));
        assert!(state.conflict(7, &range(50, 60, false, b"b")).is_some());
        assert!(state.conflict(7, &range(50, 60, true, b"a")).is_none());
        state.unlock(7, &range(40, 70, true, b"a"));
        assert!(state.conflict(7, &range(50, 60, false, b"b")).is_none());
        assert_eq!(state.conflict(7, &range(60, 80, false, b"b")), Some(&range(70, 100, true, b"a")));
        state.lock(7, range(0, 200, false, b"a"));
        assert!(state.conflict(7, &range(0, 10, false, b"b")).is_none());
        assert!(state.conflict(7, &range(0, 10, true, b"b")).is_some());
    }

    #[test]
    fn rfc8881_section_8_2_a_stateid_is_the_newest_of_its_state_or_zero() {
        let mut state = MockNfs4State::default();
        let open = |access| MockOpen { client: 1, owner: b"o".into(), file: 7, access, deny: 0, seqid: 1 };
        let first = state.open(open(1)).unwrap();
        let second = state.open(open(2)).unwrap();
        assert_eq!((second.seqid, second.other), (2, first.other));
        assert_eq!(state.find(&first, 1), Err(Nfsstat4::NFS4ERR_OLD_STATEID));
        assert_eq!(state.find(&Stateid4 { seqid: 0, ..first.clone() }, 1), Ok(MockStateidKind::Open(first.other)));
        assert_eq!(state.find(&Stateid4 { seqid: 0, ..first.clone() }, 0), Err(Nfsstat4::NFS4ERR_OLD_STATEID));
        assert_eq!(state.find(&Stateid4 { seqid: 0, other: [0; 12] }, 1), Ok(MockStateidKind::Special));
        state.close(first.other);
        assert_eq!(state.find(&second, 1), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    }

    #[test]
    fn rfc7530_section_9_1_7_seqids_of_an_owner_go_up_by_one() {
        let mut state = MockNfs4State::default();
        assert_eq!(state.check_seqid(0, 1, b"o", 5), Ok(()));
        assert_eq!(state.check_seqid(0, 1, b"o", 7), Err(Nfsstat4::NFS4ERR_BAD_SEQID));
        assert_eq!(state.check_seqid(0, 1, b"o", 6), Ok(()));
    }

    #[test]
    fn rfc8881_section_9_7_a_share_reservation_keeps_others_out() {
        let mut state = MockNfs4State::default();
        let open =
            |owner: &[u8], access, deny| MockOpen { client: 1, owner: owner.into(), file: 7, access, deny, seqid: 1 };
        state.open(open(b"a", 1, 2)).unwrap();
        assert_eq!(state.open(open(b"b", 2, 0)), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
        assert!(state.open(open(b"b", 1, 0)).is_ok());
        assert_eq!(state.open(open(b"c", 1, 1)), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
    }
}
