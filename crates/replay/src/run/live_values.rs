//! Values of the trace's variables on the live server, sessions with their slots, and seqids of owners.
//!
//! A filehandle, stateid, client ID or session ID of the capture is never sent: a Call with a variable without a value
//! is not sent at all, so that no object of the captured server, should it be the same, is affected by accident.

use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::universal_address;
use rustc_hash::FxHashMap;

use crate::nfs4::remedy::advances_seqid;
use crate::seed::file_server_client::SessionLimits;
use crate::trace::step::{SubstitutableMessageSlot, TraceSlotValueKind};
use crate::trace::value_substitution::MessageSlotValueSource;

/// Maximum number of bytes of all values; further values are not stored.
const MAX_TOTAL_BYTES: usize = 512 << 20;
/// Maximum number of bytes of one value: the longest filehandle has 128, and owners 1,024.
const MAX_VALUE_BYTES: usize = 1 << 16;
/// Maximum number of slots of one session.
const MAX_SLOTS: u32 = 4096;

/// Maximum number of characters of a tag.
const MAX_TAG_CHARS: usize = 16;

/// Returns the suffix of the client names of a run.
pub(super) fn client_suffix(tag: &str) -> String {
    std::iter::once(' ').chain(tag.chars().take(MAX_TAG_CHARS)).collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct LiveSessionSlot {
    /// sa_sequenceid of the last completed Call.
    last_sequence: u32,
    is_busy: bool,
    /// `true` if it is unknown whether its last Call was executed, and thus the next sequence ID.
    is_doubtful: bool,
}

impl LiveSessionSlot {
    fn next_sequence(&self) -> u32 {
        self.last_sequence.wrapping_add(1)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct LiveServerSession {
    slots: Vec<LiveSessionSlot>,
    pub(super) limits: SessionLimits,
    /// `true` if a limit is lower than that of the captured session.
    pub(super) has_lower_limit: bool,
    /// Captured client whose lease it renews, and minor version; `None` once it is destroyed.
    pub(super) holder: Option<(u32, u32)>,
    /// `true` if a SEQUENCE has succeeded since the leases were last examined.
    is_renewed: bool,
}

impl LiveServerSession {
    pub(super) fn new(granted: u32) -> Self {
        Self { slots: vec![LiveSessionSlot::default(); granted.clamp(1, MAX_SLOTS) as usize], ..Self::default() }
    }

    /// Sets the limits, and compares them with those of the captured session.
    pub(super) fn with_limits(self, limits: SessionLimits, captured: SessionLimits) -> Self {
        Self { limits, has_lower_limit: limits.is_below(&captured), ..self }
    }

    /// Creates a session whose first slot was used up to this sa_sequenceid.
    pub(super) fn with_used_slot(granted: u32, sequence: u32) -> Self {
        let mut session = Self::new(granted);
        if let Some(first) = session.slots.first_mut() {
            first.last_sequence = sequence;
        }
        session
    }

    /// Sets the captured client whose lease it renews, and its minor version.
    pub(super) fn with_holder(self, client: u32, minor_version: u32) -> Self {
        Self { holder: Some((client, minor_version)), ..self }
    }

    /// Returns the last slot that carries no Call and whose sequence ID is certain.
    fn idle_slot(&self) -> Option<u32> {
        self.slots.iter().rposition(|slot| !slot.is_busy && !slot.is_doubtful).map(|slot| slot as u32)
    }

    pub(super) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the live slot for a captured one. If fewer slots were granted, several captured ones share it; a
    /// doubtful slot is replaced by the next that is not, if there is one.
    pub(super) fn slot(&self, captured: u32) -> u32 {
        let count = self.slots.len().max(1) as u32;
        let preferred = captured % count;
        let is_sure = |slot: &u32| self.slots.get(*slot as usize).is_some_and(|slot| !slot.is_doubtful);
        (preferred..count).chain(0..preferred).find(is_sure).unwrap_or(preferred)
    }

    pub(super) fn is_busy(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.is_busy)
    }
}

/// Last seqid of an owner that the server must have counted. RFC 7530 section 9.1.7.
#[derive(Clone, Copy, Debug)]
struct OwnerSeqid {
    seqid: u32,
    /// Status of the operation that had it.
    status: Nfsstat4,
    /// Last seqid of an operation that succeeded, which the server has certainly counted.
    accepted: u32,
    /// `true` if the server has not counted errors, so that the seqid is a guess.
    is_rewound: bool,
    /// `true` if a later call was given up: it is unknown whether the server has counted its seqid.
    is_doubtful: bool,
}

#[derive(Debug, Default)]
pub(super) struct LiveVariableValues {
    names: Vec<Option<Box<[u8]>>>,
    bytes: usize,
    sessions: FxHashMap<u32, LiveServerSession>,
    /// Last seqid of a stateid, by its variable.
    stateid_seqids: FxHashMap<u32, u32>,
    /// Last seqid of an owner, by `true` for lock-owners and its variable.
    owner_seqids: FxHashMap<(bool, u32), OwnerSeqid>,
    /// Owners by the variables that stand for them because the reply that gave their stateid was not captured.
    owner_aliases: FxHashMap<u32, u32>,
    /// Next csa_sequence of a client ID.
    create_sequences: FxHashMap<u32, u32>,
    /// Tag that makes client owners of this run distinct from those of others: at most 16 characters.
    tag: String,
    suffix: String,
    scratch: Vec<u8>,
    /// State of the Call being emitted: start of its arguments, first variable without a value, and sequence IDs.
    body: u32,
    unbound: Option<SubstitutableMessageSlot>,
    counts: CallSlotAndSeqids,
}

#[derive(Clone, Debug, Default)]
pub(super) struct CallSlotAndSeqids {
    /// Session variable and live slot.
    pub(super) slot: Option<(u32, u32)>,
    /// Owners: `true` for a lock-owner, variable, operation, and seqid.
    pub(super) seqids: Vec<(bool, u32, u32, u32)>,
}

impl LiveVariableValues {
    /// Creates an empty set of values. `tag` becomes part of client names.
    pub(super) fn new(tag: &str) -> Self {
        Self { suffix: client_suffix(tag), tag: tag.chars().take(MAX_TAG_CHARS).collect(), ..Self::default() }
    }

    /// Begins a Call whose arguments start at this offset of its head.
    pub(super) fn begin_call(&mut self, body: u32) {
        self.body = body;
        self.unbound = None;
        self.counts.slot = None;
        self.counts.seqids.clear();
    }

    /// Returns the first bytes of the value of a variable, if it has as many.
    pub(super) fn identifier<const LENGTH: usize>(&self, variable: u32) -> Option<[u8; LENGTH]> {
        self.get(variable)?.first_chunk().copied()
    }

    /// Returns the first slot of the Call without a value; such a Call must not be sent.
    pub(super) fn unbound(&self) -> Option<&SubstitutableMessageSlot> {
        self.unbound.as_ref()
    }

    /// Swaps the sequence IDs of the emitted Call with those of a completed one.
    pub(super) fn swap_counts(&mut self, counts: &mut CallSlotAndSeqids) {
        std::mem::swap(&mut self.counts, counts);
    }

    pub(super) fn get(&self, variable: u32) -> Option<&[u8]> {
        self.names.get(variable as usize)?.as_deref()
    }

    /// Sets the value of a variable. Returns `false` if a limit is reached.
    pub(super) fn set_value(&mut self, variable: u32, value: &[u8]) -> bool {
        let at = variable as usize;
        if let Some(Some(existing)) = self.names.get_mut(at)
            && existing.len() == value.len()
        {
            existing.copy_from_slice(value);
            return true;
        }
        let added_bytes = (at + 1).saturating_sub(self.names.len()) * size_of::<Option<Box<[u8]>>>() + value.len();
        if value.len() > MAX_VALUE_BYTES || self.bytes + added_bytes > MAX_TOTAL_BYTES {
            return false;
        }
        if at >= self.names.len() {
            self.names.resize(at + 1, None);
        }
        if let Some(entry) = self.names.get_mut(at) {
            self.bytes = (self.bytes + added_bytes).saturating_sub(entry.as_ref().map_or(0, |old| old.len()));
            *entry = Some(value.into());
        }
        true
    }

    /// Binds the value of a slot in a live Reply, if it has one there. Returns `false` if a limit is reached.
    pub(super) fn bind(&mut self, slot: &SubstitutableMessageSlot, value: Option<&[u8]>) -> bool {
        let Some(value) = value else { return true };
        let counts = match slot.value_kind {
            TraceSlotValueKind::STATEID_SEQID => &mut self.stateid_seqids,
            TraceSlotValueKind::CREATE_SEQUENCE => &mut self.create_sequences,
            kind if kind.is_count() => return true,
            _ => return self.set_value(slot.variable, value),
        };
        counts.extend(leading_number(value).map(|number| (slot.variable, number)));
        true
    }

    pub(super) fn set_seqid(&mut self, variable: u32, seqid: u32) {
        self.stateid_seqids.insert(variable, seqid);
    }

    /// Returns the seqid of a stateid; 1, the initial one, if unknown.
    pub(super) fn seqid(&self, variable: u32) -> u32 {
        self.stateid_seqids.get(&variable).copied().unwrap_or(1)
    }

    /// Removes the value of a variable that the server does not know any more.
    pub(super) fn unset(&mut self, variable: u32) {
        if let Some(entry) = self.names.get_mut(variable as usize) {
            self.bytes = self.bytes.saturating_sub(entry.take().map_or(0, |old| old.len()));
        }
    }

    pub(super) fn set_create_sequence(&mut self, clientid: u32, sequence: u32) {
        self.create_sequences.insert(clientid, sequence);
    }

    pub(super) fn has_create_sequence(&self, clientid: u32) -> bool {
        self.create_sequences.contains_key(&clientid)
    }

    /// Returns the next seqid of an owner: `true` for a lock-owner, and its variable.
    pub(super) fn next_seqid(&self, owner: (bool, u32)) -> u32 {
        let owner = (owner.0, self.real_owner(owner.1));
        self.owner_seqids.get(&owner).map_or(1, |last| last.seqid.wrapping_add(1))
    }

    /// Binds a variable to an owner.
    pub(super) fn alias_owner(&mut self, variable: u32, owner: u32) {
        if variable != owner {
            self.owner_aliases.insert(variable, owner);
        }
    }

    fn real_owner(&self, variable: u32) -> u32 {
        self.owner_aliases.get(&variable).copied().unwrap_or(variable)
    }

    /// Replaces a session, keeping its limits.
    pub(super) fn renew_session(&mut self, variable: u32, session: LiveServerSession) {
        let existing = self.sessions.entry(variable).or_default();
        existing.slots = session.slots;
    }

    /// Stops renewing the lease with a session that was destroyed.
    pub(super) fn end_lease(&mut self, variable: u32) {
        if let Some(session) = self.sessions.get_mut(&variable) {
            session.holder = None;
        }
    }

    /// Returns the sessions without a successful SEQUENCE since the last time: their holders, and slots without a Call.
    /// Calls in flight on all slots renew the lease, too.
    pub(super) fn take_due_session_slots(&mut self) -> Vec<((u32, u32), (u32, u32))> {
        let slots = self.sessions.iter_mut().map(|(variable, session)| {
            let is_renewed = std::mem::take(&mut session.is_renewed);
            let slot = session.idle_slot().filter(|_| !is_renewed)?;
            Some((session.holder?, (*variable, slot)))
        });
        slots.flatten().collect()
    }

    pub(super) fn close_session(&mut self, variable: u32) {
        self.sessions.remove(&variable);
    }

    pub(super) fn open_session(&mut self, variable: u32, session: LiveServerSession) {
        self.sessions.insert(variable, session);
    }

    /// Assigns the Call to the live slot for this captured one. Returns `false` if the session is unknown.
    pub(super) fn use_slot(&mut self, session: u32, captured: u32) -> bool {
        self.counts.slot = self.sessions.get(&session).map(|live_session| (session, live_session.slot(captured)));
        self.counts.slot.is_some()
    }

    /// Increments the csa_sequence of a client ID after a successful CREATE_SESSION (RFC 8881 section 18.36.4).
    pub(super) fn increment_create_sequence(&mut self, clientid: u32) {
        if let Some(sequence) = self.create_sequences.get_mut(&clientid) {
            *sequence = sequence.wrapping_add(1);
        }
    }

    pub(super) fn session(&self, variable: u32) -> Option<&LiveServerSession> {
        self.sessions.get(&variable)
    }

    /// Returns `true` if the result of SEQUENCE has the slot and sequence ID sent (RFC 8881 section 18.46.3); called
    /// before [`set_slot_state`](Self::set_slot_state) increments the latter.
    pub(super) fn matches_sequence(
        &self,
        (session, slot): (u32, u32),
        (id, slot_id, sequence): ([u8; 16], u32, u32),
    ) -> bool {
        self.get(session) == Some(&id[..])
            && slot_id == slot
            && self.slot((session, slot)).is_some_and(|slot| slot.next_sequence() == sequence)
    }

    /// Returns the next sa_sequenceid of a slot; 1 if the session is unknown.
    pub(super) fn next_sequence(&self, slot: (u32, u32)) -> u32 {
        self.slot(slot).map_or(1, LiveSessionSlot::next_sequence)
    }

    /// Adds an open-owner's seqid to the emitted Call.
    pub(super) fn add_seqid(&mut self, owner: u32, operation: u32, seqid: u32) {
        self.counts.seqids.push((false, owner, operation, seqid));
    }

    /// Returns `true` if all Calls on a slot were confirmed, so that its next sequence ID is known.
    pub(super) fn is_slot_certain(&self, slot: (u32, u32)) -> bool {
        self.slot(slot).is_some_and(|slot| !slot.is_doubtful)
    }

    /// Marks a slot as busy or free, and increments its sequence ID if the server has executed SEQUENCE.
    pub(super) fn set_slot_state(&mut self, slot: (u32, u32), is_busy: bool, is_counted: bool) {
        if let Some(state) = self.slot_mut(slot) {
            state.is_busy = is_busy;
            if is_counted {
                state.last_sequence = state.next_sequence();
            }
        }
        if let Some(session) = self.sessions.get_mut(&slot.0).filter(|_| is_counted) {
            session.is_renewed = true;
        }
    }

    /// Sets the sequence ID of the last call of the run's own on a slot.
    pub(super) fn set_last_sequence(&mut self, slot: (u32, u32), sequence: u32) {
        if let Some(state) = self.slot_mut(slot) {
            state.last_sequence = sequence;
        }
    }

    /// Marks a slot as doubtful because its Call was given up. If the server executes the Call, reusing its sequence ID
    /// would look like a retry (RFC 8881 section 2.10.6.1.3.1); if not, incrementing it would be misordered. Therefore
    /// other slots replace it.
    pub(super) fn mark_slot_doubtful(&mut self, slot: (u32, u32)) {
        if let Some(slot) = self.slot_mut(slot) {
            (slot.is_busy, slot.is_doubtful) = (false, true);
        }
    }

    fn slot(&self, (session, slot): (u32, u32)) -> Option<&LiveSessionSlot> {
        self.sessions.get(&session)?.slots.get(slot as usize)
    }

    fn slot_mut(&mut self, (session, slot): (u32, u32)) -> Option<&mut LiveSessionSlot> {
        self.sessions.get_mut(&session)?.slots.get_mut(slot as usize)
    }

    /// Updates the seqid of an owner after an operation with this status.
    pub(super) fn update_owner_seqid(&mut self, is_lock: bool, owner: u32, seqid: u32, status: u32) {
        let status = Nfsstat4(status);
        if advances_seqid(status) {
            let key = (is_lock, self.real_owner(owner));
            let before = self.owner_seqids.get(&key).map_or(seqid.wrapping_sub(1), |last| last.accepted);
            let accepted = if status == Nfsstat4::NFS4_OK { seqid } else { before };
            let last = OwnerSeqid { seqid, status, accepted, is_rewound: false, is_doubtful: false };
            self.owner_seqids.insert(key, last);
        }
    }

    /// Records that a call with these seqids was given up.
    pub(super) fn mark_owners_doubtful(&mut self, seqids: &[(bool, u32, u32, u32)]) {
        for (is_lock, owner, _, seqid) in seqids {
            let before = seqid.wrapping_sub(1);
            let (status, accepted) = (Nfsstat4::NFS4_OK, before);
            let last = OwnerSeqid { seqid: before, status, accepted, is_rewound: false, is_doubtful: true };
            let owner = self.real_owner(*owner);
            self.owner_seqids.entry((*is_lock, owner)).or_insert(last).is_doubtful = true;
        }
    }

    /// Returns the first error that the server must have counted, but has not, if it answers NFS4ERR_BAD_SEQID to an
    /// operation with these seqids of its owners. `None` if the operation may deserve the status.
    pub(super) fn uncounted_error(&self, operation: u32, seqids: &[(bool, u32, u32, u32)]) -> Option<Nfsstat4> {
        let mut error = None;
        for (is_lock, owner, _, seqid) in seqids.iter().filter(|(_, _, at, _)| *at == operation) {
            // The server does not check the seqid of an unknown owner: RFC 7530 section 9.1.9.
            let Some(last) = self.owner_seqids.get(&(*is_lock, self.real_owner(*owner))) else { continue };
            if last.is_doubtful || last.seqid.wrapping_add(1) != *seqid {
                return None;
            }
            error = error.or(Some(last.status).filter(|status| *status != Nfsstat4::NFS4_OK));
        }
        error
    }

    /// Takes back the seqid of an owner of an operation to the last that the server may have counted, if it does not
    /// count errors: the first error after the last success, which nfs-ganesha 4.3 counts when it makes a lock-owner,
    /// and then that success. Returns `false` if there is none left, and otherwise `true` and whether it is the first attempt.
    pub(super) fn rewind_seqid(&mut self, operation: u32, seqids: &[(bool, u32, u32, u32)]) -> (bool, bool) {
        let keys =
            seqids.iter().filter(|(_, _, at, _)| *at == operation).map(|(is_lock, owner, ..)| (*is_lock, *owner));
        let keys = keys.map(|(is_lock, owner)| (is_lock, self.real_owner(owner)));
        let is_behind = |key: &(bool, u32)| {
            self.owner_seqids.get(key).is_some_and(|last| !last.is_doubtful && last.seqid != last.accepted)
        };
        // The open-owner only if there is no lock-owner with an error.
        let Some(key) = keys.filter(is_behind).max() else { return (false, false) };
        let is_first = seqids.iter().all(|(is_lock, owner, ..)| {
            self.owner_seqids.get(&(*is_lock, self.real_owner(*owner))).is_none_or(|last| !last.is_rewound)
        });
        let Some(last) = self.owner_seqids.get_mut(&key) else { return (false, false) };
        let first_error = last.accepted.wrapping_add(1);
        last.seqid = if last.seqid == first_error { last.accepted } else { first_error };
        last.is_rewound = true;
        (true, is_first)
    }

    /// Makes the seqids of owners begin with 1 again.
    pub(super) fn forget_owner_seqids(&mut self, owners: [Option<(u32, u32)>; 2]) {
        for (is_lock, owner) in [false, true].into_iter().zip(owners) {
            if let Some((owner, _)) = owner {
                let key = (is_lock, self.real_owner(owner));
                self.owner_seqids.remove(&key);
            }
        }
    }

    fn owner_seqid(&mut self, is_lock: bool, slot: &SubstitutableMessageSlot, captured: &[u8]) -> u32 {
        let last = self.owner_seqids.get(&(is_lock, self.real_owner(slot.variable)));
        let seqid = last.map_or(leading_number(captured).unwrap_or(1), |last| last.seqid.wrapping_add(1));
        self.counts.seqids.push((is_lock, slot.variable, slot.operation, seqid));
        seqid
    }

    fn put(&mut self, value: &[u8]) -> &[u8] {
        self.scratch.clear();
        self.scratch.extend_from_slice(value);
        &self.scratch
    }
}

fn leading_number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

impl MessageSlotValueSource for LiveVariableValues {
    fn value(&mut self, slot: &SubstitutableMessageSlot, captured: &[u8]) -> Option<&[u8]> {
        let number = match slot.value_kind {
            // sa_sequenceid may precede sa_slotid, whose value is known from the step.
            TraceSlotValueKind::SEQUENCE_ID => self.counts.slot.map_or(1, |slot| self.next_sequence(slot)),
            TraceSlotValueKind::SLOT_ID => self.counts.slot.map_or(0, |(_, slot)| slot),
            TraceSlotValueKind::HIGHEST_SLOT_ID => {
                let count = self.sessions.get(&slot.variable).map_or(0, LiveServerSession::slot_count);
                leading_number(captured).unwrap_or(0).min(count.saturating_sub(1))
            }
            TraceSlotValueKind::OPEN_SEQID | TraceSlotValueKind::LOCK_SEQID => {
                self.owner_seqid(slot.value_kind == TraceSlotValueKind::LOCK_SEQID, slot, captured)
            }
            TraceSlotValueKind::CREATE_SEQUENCE => *self.create_sequences.get(&slot.variable)?,
            TraceSlotValueKind::STATEID_SEQID if captured.iter().all(|byte| *byte == 0) => return None,
            TraceSlotValueKind::STATEID_SEQID => *self.stateid_seqids.get(&slot.variable)?,
            TraceSlotValueKind::CLIENT_OWNER => {
                return Some(self.put(&[captured, self.suffix.as_bytes()].concat()));
            }
            TraceSlotValueKind::CLIENT_VERIFIER => {
                let tag = nfsrdma_analysis::comparison::record::hash(self.tag.as_bytes()).to_be_bytes();
                self.scratch.clear();
                self.scratch.extend(captured.iter().zip(tag).map(|(byte, tag_byte)| byte ^ tag_byte));
                return (self.scratch.len() == captured.len()).then_some(&self.scratch);
            }
            // The callback address is cleared, but no host name; rewriting the Call sets that of this run.
            TraceSlotValueKind::HOST if slot.at >= self.body && universal_address::parse(captured).is_some() => {
                return Some(self.put(b"0.0.0.0.0.0"));
            }
            kind if kind.is_assigned_by_server() => {
                let value = self.names.get(slot.variable as usize).and_then(Option::as_deref);
                let is_optional = matches!(
                    kind,
                    TraceSlotValueKind::COOKIE_VERIFIER | TraceSlotValueKind::CHANGE | TraceSlotValueKind::SERVER_OWNER
                );
                if value.is_none() && !is_optional {
                    self.unbound.get_or_insert_with(|| slot.clone());
                }
                return value;
            }
            _ => return None,
        };
        Some(self.put(&number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::step::VariableUseKind;

    fn slot(value_kind: TraceSlotValueKind, variable: u32) -> SubstitutableMessageSlot {
        SubstitutableMessageSlot {
            at: 100,
            length: 4,
            value_kind,
            part: VariableUseKind::USED,
            is_counted: false,
            operation: 0,
            variable,
            definition: 0,
            place: 0,
        }
    }

    #[test]
    fn a_filehandle_of_the_capture_is_never_sent() {
        let mut values = LiveVariableValues::new("t");
        values.begin_call(0);
        assert_eq!(values.value(&slot(TraceSlotValueKind::FILEHANDLE, 3), b"captured"), None);
        assert!(values.unbound().is_some());
        values.begin_call(0);
        assert!(values.set_value(3, b"live"));
        assert_eq!(values.value(&slot(TraceSlotValueKind::FILEHANDLE, 3), b"captured"), Some(&b"live"[..]));
        assert!(values.unbound().is_none());
    }

    #[test]
    fn a_host_name_is_unchanged_and_a_host_address_is_zeroed() {
        let mut values = LiveVariableValues::new("t");
        values.begin_call(0);
        assert_eq!(values.value(&slot(TraceSlotValueKind::HOST, 3), b"client"), None);
        assert_eq!(values.value(&slot(TraceSlotValueKind::HOST, 3), b"192.0.2.1.3.86"), Some(&b"0.0.0.0.0.0"[..]));
    }

    #[test]
    fn rfc8881_section_2_10_6_1_a_slot_counts_the_calls_that_were_done() {
        let mut values = LiveVariableValues::new("t");
        values.open_session(7, LiveServerSession::new(2));
        for (is_done, sent) in [(true, 1u32), (false, 2), (true, 2), (true, 3)] {
            values.begin_call(0);
            assert!(values.use_slot(7, 5));
            let used = values.counts.slot.unwrap();
            assert_eq!(used, (7, 1), "the sixth slot of the capture shares one of two");
            assert_eq!(values.value(&slot(TraceSlotValueKind::SEQUENCE_ID, 7), &[0; 4]), Some(&sent.to_be_bytes()[..]));
            values.set_slot_state(used, true, false);
            assert!(values.session(7).unwrap().is_busy(1));
            values.set_slot_state(used, false, is_done);
        }
    }

    /// RFC 8881 section 8.3: a SEQUENCE that succeeds renews the lease.
    #[test]
    fn busy_session_needs_no_renewal() {
        let mut values = LiveVariableValues::new("t");
        let session = LiveServerSession { holder: Some((1, 2)), ..LiveServerSession::new(2) };
        values.open_session(7, session);
        let mut due = |is_done: Option<bool>| {
            if let Some(is_done) = is_done {
                values.set_slot_state((7, 1), true, false);
                values.set_slot_state((7, 1), false, is_done);
            }
            values.take_due_session_slots().len()
        };
        assert_eq!([None, Some(true), None, Some(false), Some(true), Some(true)].map(&mut due), [1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_slot_with_an_abandoned_call_is_used_last() {
        let mut values = LiveVariableValues::new("t");
        values.open_session(7, LiveServerSession::new(3));
        let taken = |values: &LiveVariableValues| [0, 1, 2].map(|slot| values.session(7).unwrap().slot(slot));
        values.set_slot_state((7, 1), true, false);
        values.mark_slot_doubtful((7, 1));
        assert_eq!(taken(&values), [0, 2, 2]);
        assert!(!values.session(7).unwrap().is_busy(1));
        values.mark_slot_doubtful((7, 2));
        assert_eq!(taken(&values), [0, 0, 0]);
        values.mark_slot_doubtful((7, 0));
        assert_eq!(taken(&values), [0, 1, 2]);
    }

    #[test]
    fn rfc8881_section_18_46_3_sequence_answers_to_its_session_slot_and_sequence_id() {
        let mut values = LiveVariableValues::new("t");
        assert!(values.set_value(7, &[9; 16]));
        values.open_session(7, LiveServerSession::with_used_slot(2, 5));
        assert!(values.matches_sequence((7, 0), ([9; 16], 0, 6)));
        for wrong in [([8; 16], 0, 6), ([9; 16], 1, 6), ([9; 16], 0, 5)] {
            assert!(!values.matches_sequence((7, 0), wrong), "{wrong:?}");
        }
    }

    #[test]
    fn rfc7530_section_9_1_7_a_seqid_advances_unless_its_call_was_not_processed() {
        let mut values = LiveVariableValues::new("t");
        for (status, sent) in [(0, 9u32), (17, 10), (10_026, 11), (0, 11), (0, 12)] {
            values.begin_call(0);
            let captured = 9u32.to_be_bytes();
            assert_eq!(
                values.value(&slot(TraceSlotValueKind::OPEN_SEQID, 1), &captured),
                Some(&sent.to_be_bytes()[..])
            );
            let (is_lock, owner, _, seqid) = values.counts.seqids[0];
            values.update_owner_seqid(is_lock, owner, seqid, status);
        }
    }

    /// RFC 7530 section 9.1.7: GRACE is not among the errors that leave the seqid. A call without a reply leaves it
    /// open.
    #[test]
    fn bad_seqid_after_grace_blames_server() {
        let mut values = LiveVariableValues::new("t");
        let lock = |seqid| [(false, 1, 1, 50 + seqid), (true, 2, 1, seqid)];
        values.update_owner_seqid(false, 1, 50, 0);
        values.update_owner_seqid(true, 2, 0, 0);
        assert_eq!(values.uncounted_error(1, &lock(1)), None, "no error so far");
        values.update_owner_seqid(false, 1, 51, 10_013);
        values.update_owner_seqid(true, 2, 1, 10_013);
        assert_eq!(values.uncounted_error(1, &lock(2)), Some(Nfsstat4::NFS4ERR_GRACE));
        assert_eq!(values.uncounted_error(1, &lock(1)), None, "not the next one");
        values.mark_owners_doubtful(&lock(2));
        assert_eq!(values.uncounted_error(1, &lock(2)), None, "a call was given up");
    }

    /// RFC 7530 section 9.1.7: of 24 errors, nfs-ganesha 4.3 counts the first or none.
    #[test]
    fn rewound_seqid_is_that_of_first_error() {
        let mut values = LiveVariableValues::new("t");
        let lock = |seqid| [(false, 1, 1, 50 + seqid), (true, 2, 1, seqid)];
        (0..25).for_each(|seqid| {
            let status = if seqid == 0 { 0 } else { 10_013 };
            values.update_owner_seqid(false, 1, 50 + seqid, status);
            values.update_owner_seqid(true, 2, seqid, status);
        });
        assert_eq!(values.uncounted_error(1, &lock(25)), Some(Nfsstat4::NFS4ERR_GRACE));
        assert_eq!(values.rewind_seqid(1, &lock(25)), (true, true));
        assert_eq!([values.next_seqid((false, 1)), values.next_seqid((true, 2))], [75, 2]);
        assert_eq!(values.rewind_seqid(1, &lock(2)), (true, false));
        assert_eq!([values.next_seqid((false, 1)), values.next_seqid((true, 2))], [75, 1]);
        values.update_owner_seqid(true, 2, 1, 0);
        values.update_owner_seqid(false, 1, 75, 0);
        assert_eq!(values.rewind_seqid(1, &lock(2)), (false, false), "both are settled");
    }

    #[test]
    fn the_most_recent_stateid_stays_so_and_another_has_the_live_count() {
        let mut values = LiveVariableValues::new("t");
        let of = slot(TraceSlotValueKind::STATEID_SEQID, 4);
        assert!(values.bind(&of, Some(&5u32.to_be_bytes())));
        assert_eq!(values.value(&of, &[0; 4]), None);
        assert_eq!(values.value(&of, &2u32.to_be_bytes()), Some(&5u32.to_be_bytes()[..]));
    }

    #[test]
    fn a_client_has_another_name_in_each_run() {
        let [mut one, mut other] = [LiveVariableValues::new("one"), LiveVariableValues::new("other")];
        let owner = slot(TraceSlotValueKind::CLIENT_OWNER, 0);
        assert_ne!(one.value(&owner, b"client").unwrap(), other.value(&owner, b"client").unwrap());
    }
}
