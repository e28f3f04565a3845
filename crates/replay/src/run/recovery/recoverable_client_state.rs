//! State that the clients of a run hold at an NFSv4 server, sufficient to reclaim it from a server that has forgotten
//! it.
//!
//! The state is taken from Calls as sent and from their live Replies, so it contains the server's identifiers; the
//! variables of the trace are kept with them. State created by a prologue is not included.

use std::collections::BTreeMap;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, Clientid4, CompoundCall, CompoundReply, ExchangeId4Resok, ExchangeIdFlags, GetDirDelegation4ResNonFatal,
    LockRes, Locker4, NfsLockType4, OpenRflags, Operation, Results, Sessionid4, SetclientidRes, ShareAccess, ShareDeny,
};
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_nfs_model::names::claimed_name;
use nfsrdma_nfs_model::v4::filehandles::{Filehandles, Handles, Object};

use crate::run::captured_open_grants::CapturedStepOpenGrants;
use crate::run::live_values::LiveVariableValues;
use crate::run::rpc_header_splitting::{split_header, successful_results};
use crate::trace::step::{NONE, TraceMessage, TraceSlotValueKind, TraceStep};
use crate::trace::value_substitution::TracePayloadInMessage;

/// Maximum number of clients, and of sessions.
const MAX_CLIENTS: usize = 4096;
/// Maximum number of opens, and of locks.
const MAX_STATEIDS: usize = 1 << 16;
/// Maximum number of ranges of one lock-owner in one file.
const MAX_RANGES: usize = 1024;
/// Maximum number of variables of one open or lock.
const MAX_VARIABLES: usize = 8;
/// Maximum length of a stored Call in bytes.
const MAX_CALL_BYTES: usize = 4096;
/// Maximum number of operations of a COMPOUND that are read.
pub(in crate::run) const MAX_OPERATIONS: usize = 256;

/// Constant part of a stateid: RFC 8881 section 3.3.12.
pub(in crate::run) type StateidOther = [u8; 12];

#[derive(Clone, Debug)]
pub(in crate::run) struct RecoverableNfs4ClientState {
    /// Its EXCHANGE_ID or SETCLIENTID Call, as sent.
    pub(super) message: Box<[u8]>,
    owner: Box<[u8]>,
    pub(in crate::run) minor_version: u32,
    pub(in crate::run) captured_client: u32,
    /// Variables of its client ID, and of the confirm verifier in NFSv4.0.
    pub(in crate::run) variables: [u32; 2],
    /// Next csa_sequence.
    pub(in crate::run) sequence: u32,
    /// `true` after SETCLIENTID_CONFIRM or RECLAIM_COMPLETE.
    pub(in crate::run) is_complete: bool,
    /// Number of recoveries in the run after its last one; 0 if it was never recovered.
    pub(in crate::run) recovery_number: u32,
    /// Number of times that the server has forgotten it.
    pub(in crate::run) recovery_count: u32,
}

#[derive(Clone, Debug)]
pub(in crate::run) struct RecoverableSession {
    pub(in crate::run) client: Clientid4,
    /// Its CREATE_SESSION Call, as sent.
    pub(super) message: Box<[u8]>,
    pub(in crate::run) variable: u32,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub(super) struct DirectoryEntry {
    /// Filehandle of the directory.
    pub(super) directory: Box<[u8]>,
    pub(super) name: Box<[u8]>,
}

/// An open: one open-owner and one file. RFC 8881 section 9.7.
#[derive(Clone, Debug)]
pub(in crate::run) struct RecoverableOpen {
    pub(super) client: Clientid4,
    pub(in crate::run) file: Box<[u8]>,
    /// With which it was opened, if it was by name.
    pub(super) entry: Option<DirectoryEntry>,
    pub(super) access: ShareAccess,
    pub(super) deny: ShareDeny,
    pub(super) owner: Box<[u8]>,
    /// RPC header of the OPEN's Call, with its credential.
    pub(super) header: Box<[u8]>,
    /// Variable of the open-owner that counts seqids in NFSv4.0.
    pub(in crate::run) seqid_variable: u32,
    pub(in crate::run) variables: Vec<u32>,
}

/// A delegation that the capture has, too.
#[derive(Clone, Debug)]
pub(in crate::run) struct RecoverableDelegation {
    pub(in crate::run) client: Clientid4,
    /// Its file or directory.
    pub(in crate::run) file: Box<[u8]>,
    /// The access that it covers; none for a directory.
    pub(in crate::run) access: ShareAccess,
    /// RPC header of the Call that was granted it, with its credential.
    pub(in crate::run) header: Box<[u8]>,
    pub(in crate::run) variable: u32,
}

/// Locks of one lock-owner in one file.
#[derive(Clone, Debug)]
pub(in crate::run) struct RecoverableLockOwnerFileLocks {
    pub(in crate::run) open: StateidOther,
    pub(super) owner: Box<[u8]>,
    pub(super) header: Box<[u8]>,
    pub(in crate::run) seqid_of: u32,
    pub(in crate::run) variables: Vec<u32>,
    pub(in crate::run) ranges: Vec<RecoverableLockRange>,
}

/// Locked bytes from `start` to `end` (exclusive); `u64::MAX` is the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct RecoverableLockRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_write: bool,
}

impl RecoverableLockRange {
    fn of(offset: u64, length: u64, kind: NfsLockType4) -> Self {
        let end = if length == u64::MAX { u64::MAX } else { offset.saturating_add(length) };
        let is_write = matches!(kind, NfsLockType4::WRITE_LT | NfsLockType4::WRITEW_LT);
        Self { start: offset, end, is_write }
    }
}

/// All state that is held, ordered, so that runs are deterministic.
#[derive(Debug, Default)]
pub(in crate::run) struct RecoverableState {
    pub(in crate::run) clients: BTreeMap<Clientid4, RecoverableNfs4ClientState>,
    pub(in crate::run) sessions: BTreeMap<Sessionid4, RecoverableSession>,
    pub(in crate::run) opens: BTreeMap<StateidOther, RecoverableOpen>,
    pub(in crate::run) locks: BTreeMap<StateidOther, RecoverableLockOwnerFileLocks>,
    pub(in crate::run) delegations: BTreeMap<StateidOther, RecoverableDelegation>,
    /// Number of items dropped because a limit was reached.
    pub(in crate::run) dropped: u64,
}

/// A Call as sent, and its Reply.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct SentCallWithReply<'a> {
    pub(in crate::run) step: &'a TraceStep<'a>,
    /// Call without its payloads, and the payloads with their positions.
    pub(in crate::run) sent: &'a [u8],
    pub(in crate::run) placed: &'a [TracePayloadInMessage],
    pub(in crate::run) reply: Cursor<'a>,
}

pub(in crate::run) fn may_change_state(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| {
        matches!(
            *operation,
            Operation::EXCHANGE_ID
                | Operation::CREATE_SESSION
                | Operation::DESTROY_SESSION
                | Operation::DESTROY_CLIENTID
                | Operation::RECLAIM_COMPLETE
                | Operation::SETCLIENTID
                | Operation::SETCLIENTID_CONFIRM
                | Operation::OPEN
                | Operation::OPEN_DOWNGRADE
                | Operation::CLOSE
                | Operation::LOCK
                | Operation::LOCKU
                | Operation::FREE_STATEID
                | Operation::RELEASE_LOCKOWNER
                | Operation::GET_DIR_DELEGATION
                | Operation::DELEGRETURN
        )
    })
}

/// Knowledge of a COMPOUND while it is processed.
#[derive(Default)]
struct ProcessedCompound<'a> {
    client: Option<Clientid4>,
    handles: Handles<'a>,
    /// Open and delegation of an object whose filehandle is not known yet.
    open_without_handle: Option<(Option<Object>, StateidOther, RecoverableOpen)>,
    delegation_without_handle: Option<(Option<Object>, StateidOther, RecoverableDelegation)>,
}

/// A new value of a variable that the trace does not bind to the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum RenewedValue {
    /// Seqid of a stateid.
    StateidSeqid(u32),
    /// Client ID, with the next csa_sequence from NFSv4.1 on.
    Client(Clientid4, Option<u32>),
}

impl RecoverableState {
    /// Returns the known variables to which a live reply gives other values although the captured reply is missing: the
    /// seqids of stateids (RFC 8881 section 8.2.2), and the client ID of a client owner.
    pub(in crate::run) fn values_renewed_by(&self, exchange: &SentCallWithReply<'_>) -> Vec<(u32, RenewedValue)> {
        let SentCallWithReply { step, sent, placed, reply } = *exchange;
        let items = TracePayloadInMessage::items(placed);
        let (Some((_, mut cursor)), Some(mut reply)) = (split_header(sent, &items), successful_results(reply)) else {
            return Vec::new();
        };
        let (Ok(call), Ok(reply)) = (
            CompoundCall::decode(&mut cursor, &mut NullFieldObserver),
            CompoundReply::decode(&mut reply, &mut NullFieldObserver),
        ) else {
            return Vec::new();
        };
        let pairs = call.operations().map_while(Result::ok).zip(reply.operations().map_while(Result::ok));
        let mut renewed = Vec::new();
        for (at, (args, results)) in pairs.take(MAX_OPERATIONS).enumerate() {
            let stateid = match &results {
                Results::OPEN(StatusUnion::Ok(ok)) => &ok.stateid,
                Results::OPEN_CONFIRM(StatusUnion::Ok(ok)) => &ok.open_stateid,
                Results::OPEN_DOWNGRADE(StatusUnion::Ok(ok)) => &ok.open_stateid,
                Results::LOCK(LockRes::Ok(ok)) => &ok.lock_stateid,
                Results::LOCKU(StatusUnion::Ok(ok)) => &ok.lock_stateid,
                results => {
                    let (owner, client) = match (&args, results) {
                        (Args::EXCHANGE_ID(args), Results::EXCHANGE_ID(StatusUnion::Ok(ok))) => (
                            args.eia_clientowner.co_ownerid.0,
                            RenewedValue::Client(ok.eir_clientid, Some(ok.eir_sequenceid)),
                        ),
                        (Args::SETCLIENTID(args), Results::SETCLIENTID(SetclientidRes::Ok(ok))) => {
                            (args.client.id.0, RenewedValue::Client(ok.clientid, None))
                        }
                        _ => continue,
                    };
                    let mut known = self.clients.values().filter(|client| *client.owner == *owner);
                    let variable = known.find_map(|client| Some(client.variables[0]).filter(|known| *known != NONE));
                    if slot_variable(&step.reply, TraceSlotValueKind::CLIENTID, at) == NONE {
                        renewed.extend(variable.map(|variable| (variable, client)));
                    }
                    continue;
                }
            };
            let opened = self.opens.get(&stateid.other).map(|open| &open.variables);
            let variables = opened.or_else(|| self.locks.get(&stateid.other).map(|lock| &lock.variables));
            let variables = variables.into_iter().flatten();
            renewed.extend(variables.map(|variable| (*variable, RenewedValue::StateidSeqid(stateid.seqid))));
        }
        renewed
    }

    /// Updates the state from a Call and its Reply.
    pub(in crate::run) fn update(&mut self, exchange: &SentCallWithReply<'_>) {
        let SentCallWithReply { step, sent, placed, reply } = *exchange;
        let items = TracePayloadInMessage::items(placed);
        let (Some((header, mut cursor)), Some(mut reply)) = (split_header(sent, &items), successful_results(reply))
        else {
            return;
        };
        let (Ok(call), Ok(reply)) = (
            CompoundCall::decode(&mut cursor, &mut NullFieldObserver),
            CompoundReply::decode(&mut reply, &mut NullFieldObserver),
        ) else {
            return;
        };
        let minor = call.head.minorversion;
        let mut filehandles = Filehandles::new(minor);
        let mut compound = ProcessedCompound::default();
        let pairs = call.operations().map_while(Result::ok).zip(reply.operations().map_while(Result::ok));
        for (at, (args, results)) in pairs.take(MAX_OPERATIONS).enumerate() {
            let objects = filehandles.apply(args.operation(), Some(&args));
            compound.handles.learn(&objects, Some(&results));
            self.add_with_handle(&mut compound);
            match (&args, &results) {
                (Args::SEQUENCE(args), Results::SEQUENCE(StatusUnion::Ok(_))) => {
                    compound.client = self.sessions.get(&args.sa_sessionid).map(|session| session.client);
                }
                (Args::OPEN(args), Results::OPEN(StatusUnion::Ok(ok))) => {
                    let entry = claimed_name(&args.claim).and_then(|name| {
                        let directory = compound.handles.of(objects.current)?;
                        Some(DirectoryEntry { directory: directory.into(), name: name.into() })
                    });
                    let file = compound.handles.of(objects.next);
                    let mut variables = stateid_variables(step, at);
                    let client = compound.client.unwrap_or(args.owner.clientid);
                    if let Some(stateid) = ok.delegation.stateid()
                        && CapturedStepOpenGrants::recorded(step).delegated_access(at) != 0
                        && let Some(variable) = variables.pop()
                    {
                        let delegation = RecoverableDelegation {
                            client,
                            file: file.unwrap_or_default().into(),
                            access: ok.delegation.access(),
                            header: header.into(),
                            variable,
                        };
                        match file {
                            Some(_) => self.add_delegation(stateid.other, delegation),
                            None => {
                                compound.delegation_without_handle = Some((objects.next, stateid.other, delegation));
                            }
                        }
                    }
                    if ok.rflags.contains(OpenRflags::OPEN4_RESULT_NO_OPEN_STATEID) {
                        continue;
                    }
                    let open = RecoverableOpen {
                        client,
                        file: file.unwrap_or_default().into(),
                        entry,
                        access: ShareAccess(args.share_access.0 & ShareAccess::OPEN4_SHARE_ACCESS_BOTH.0),
                        deny: args.share_deny,
                        owner: args.owner.owner.0.into(),
                        header: header.into(),
                        seqid_variable: slot_variable(&step.call, TraceSlotValueKind::OPEN_SEQID, at),
                        variables,
                    };
                    match file {
                        Some(_) => self.add_open(ok.stateid.other, open),
                        None => compound.open_without_handle = Some((objects.next, ok.stateid.other, open)),
                    }
                }
                _ => {
                    let file = compound.handles.of(objects.current);
                    self.apply_operation(step, (at, minor), (&args, &results), (sent, header), (compound.client, file));
                }
            }
        }
    }

    /// Adds the open and the delegation of a COMPOUND whose filehandle has become known.
    fn add_with_handle(&mut self, compound: &mut ProcessedCompound<'_>) {
        let handles = &compound.handles;
        if let Some((object, ..)) = &compound.open_without_handle
            && let Some(file) = handles.of(*object)
            && let Some((_, other, open)) = compound.open_without_handle.take()
        {
            self.add_open(other, RecoverableOpen { file: file.into(), ..open });
        }
        if let Some((object, ..)) = &compound.delegation_without_handle
            && let Some(file) = handles.of(*object)
            && let Some((_, other, delegation)) = compound.delegation_without_handle.take()
        {
            self.add_delegation(other, RecoverableDelegation { file: file.into(), ..delegation });
        }
    }

    /// Updates the state from another operation. `file` is its current filehandle.
    fn apply_operation(
        &mut self,
        step: &TraceStep<'_>,
        (at, minor): (usize, u32),
        pair: (&Args<'_>, &Results<'_>),
        (sent, header): (&[u8], &[u8]),
        (client, file): (Option<Clientid4>, Option<&[u8]>),
    ) {
        match pair {
            (Args::EXCHANGE_ID(args), Results::EXCHANGE_ID(StatusUnion::Ok(ok))) => {
                let variable = slot_variable(&step.reply, TraceSlotValueKind::CLIENTID, at);
                let client = (ok.eir_clientid, args.eia_clientowner.co_ownerid.0);
                self.add_client(client, minor, step.caller.client, [variable, NONE], ok.eir_sequenceid, sent);
                self.update_sequence(ok);
            }
            (Args::SETCLIENTID(args), Results::SETCLIENTID(SetclientidRes::Ok(ok))) => {
                let variables = [TraceSlotValueKind::CLIENTID, TraceSlotValueKind::CONFIRM_VERIFIER]
                    .map(|kind| slot_variable(&step.reply, kind, at));
                self.add_client((ok.clientid, args.client.id.0), 0, step.caller.client, variables, 0, sent);
            }
            (Args::SETCLIENTID_CONFIRM(args), Results::SETCLIENTID_CONFIRM(StatusUnion::Ok(_))) => {
                self.complete_client(args.clientid);
            }
            (Args::RECLAIM_COMPLETE(args), Results::RECLAIM_COMPLETE(StatusUnion::Ok(_))) if !args.rca_one_fs => {
                client.iter().for_each(|client| self.complete_client(*client));
            }
            (Args::CREATE_SESSION(args), Results::CREATE_SESSION(StatusUnion::Ok(ok))) => {
                if let Some(client) = self.clients.get_mut(&args.csa_clientid) {
                    client.sequence = args.csa_sequence.wrapping_add(1);
                }
                if self.sessions.len() >= MAX_CLIENTS || sent.len() > MAX_CALL_BYTES {
                    self.dropped += 1;
                    return;
                }
                let variable = slot_variable(&step.reply, TraceSlotValueKind::SESSION, at);
                let session = RecoverableSession { client: args.csa_clientid, message: sent.into(), variable };
                self.sessions.insert(ok.csr_sessionid, session);
            }
            (Args::DESTROY_SESSION(args), Results::DESTROY_SESSION(StatusUnion::Ok(_))) => {
                self.sessions.remove(&args.dsa_sessionid);
            }
            (Args::DESTROY_CLIENTID(args), Results::DESTROY_CLIENTID(StatusUnion::Ok(_))) => {
                self.remove_client(args.dca_clientid);
            }
            (Args::CLOSE(args), Results::CLOSE(StatusUnion::Ok(_))) => self.remove_open(args.open_stateid.other),
            (Args::OPEN_DOWNGRADE(args), Results::OPEN_DOWNGRADE(StatusUnion::Ok(_))) => {
                if let Some(open) = self.opens.get_mut(&args.open_stateid.other) {
                    (open.access, open.deny) = (args.share_access, args.share_deny);
                }
            }
            (Args::LOCK(args), Results::LOCK(LockRes::Ok(ok))) => {
                let range = RecoverableLockRange::of(args.offset, args.length, args.locktype);
                let new_owner = match &args.locker {
                    Locker4::New(locker) => Some((locker.open_stateid.other, locker.lock_owner.owner.0)),
                    Locker4::Existing(_) => None,
                };
                if let Some((open, owner)) = new_owner {
                    let lock = RecoverableLockOwnerFileLocks {
                        open,
                        owner: owner.into(),
                        header: header.into(),
                        seqid_of: slot_variable(&step.call, TraceSlotValueKind::LOCK_SEQID, at),
                        variables: stateid_variables(step, at),
                        ranges: Vec::new(),
                    };
                    self.add_lock(ok.lock_stateid.other, lock);
                }
                if let Some(lock) = self.locks.get_mut(&ok.lock_stateid.other) {
                    subtract_range(&mut lock.ranges, range);
                    match lock.ranges.len() < MAX_RANGES {
                        true => lock.ranges.push(range),
                        false => self.dropped += 1,
                    }
                }
            }
            (Args::LOCKU(args), Results::LOCKU(StatusUnion::Ok(_))) => {
                if let Some(lock) = self.locks.get_mut(&args.lock_stateid.other) {
                    subtract_range(&mut lock.ranges, RecoverableLockRange::of(args.offset, args.length, args.locktype));
                }
            }
            (Args::GET_DIR_DELEGATION(_), Results::GET_DIR_DELEGATION(StatusUnion::Ok(ok))) => {
                let variable = slot_variable(&step.reply, TraceSlotValueKind::STATEID, at);
                if let (GetDirDelegation4ResNonFatal::Ok(granted), Some(client), Some(file)) = (&**ok, client, file)
                    && variable != NONE
                {
                    let delegation = RecoverableDelegation {
                        client,
                        file: file.into(),
                        access: ShareAccess(0),
                        header: header.into(),
                        variable,
                    };
                    self.add_delegation(granted.gddr_stateid.other, delegation);
                }
            }
            (Args::DELEGRETURN(args), Results::DELEGRETURN(StatusUnion::Ok(_))) => {
                self.delegations.remove(&args.deleg_stateid.other);
            }
            (Args::FREE_STATEID(args), Results::FREE_STATEID(StatusUnion::Ok(_))) => {
                self.locks.remove(&args.fsa_stateid.other);
            }
            (Args::RELEASE_LOCKOWNER(args), Results::RELEASE_LOCKOWNER(StatusUnion::Ok(_))) => {
                let owner = &args.lock_owner;
                let opens = &self.opens;
                let is_of_client = |lock: &RecoverableLockOwnerFileLocks| {
                    opens.get(&lock.open).is_some_and(|open| open.client == owner.clientid)
                };
                self.locks.retain(|_, lock| *lock.owner != *owner.owner.0 || !is_of_client(lock));
            }
            _ => {}
        }
    }

    /// Adds a client. A previous client with the same owner string is removed.
    fn add_client(
        &mut self,
        (id, owner): (Clientid4, &[u8]),
        minor: u32,
        captured: u32,
        variables: [u32; 2],
        sequence: u32,
        sent: &[u8],
    ) {
        if let Some(existing) = self.clients.get_mut(&id) {
            for (variable, new) in existing.variables.iter_mut().zip(variables).filter(|(_, new)| *new != NONE) {
                *variable = new;
            }
            return;
        }
        // The reply that gave the variable was not captured.
        let mut known = self.clients.values().filter(|client| *client.owner == *owner);
        let mut variables = variables;
        if let (NONE, Some(replaced)) = (variables[0], known.next()) {
            variables[0] = replaced.variables[0];
        }
        // In NFSv4.0 the old client is removed when the new one is confirmed.
        if minor > 0 {
            self.remove_replaced(id, owner);
        }
        if self.clients.len() >= MAX_CLIENTS || sent.len() > MAX_CALL_BYTES {
            self.dropped += 1;
            return;
        }
        let client = RecoverableNfs4ClientState {
            message: sent.into(),
            owner: owner.into(),
            minor_version: minor,
            captured_client: captured,
            variables,
            sequence,
            is_complete: false,
            recovery_number: 0,
            recovery_count: 0,
        };
        self.clients.insert(id, client);
    }

    /// Sets the next csa_sequence of an unconfirmed client. The sequence of a confirmed one is established, and
    /// eir_sequenceid may be the initial value: RFC 8881 section 18.35.3.
    fn update_sequence(&mut self, ok: &ExchangeId4Resok<'_>) {
        let is_confirmed = ok.eir_flags.contains(ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R);
        if let Some(client) = self.clients.get_mut(&ok.eir_clientid).filter(|_| !is_confirmed) {
            client.sequence = ok.eir_sequenceid;
        }
    }

    fn remove_replaced(&mut self, id: Clientid4, owner: &[u8]) {
        let same_owner = keys_where(&self.clients, |client| *client.owner == *owner);
        same_owner.into_iter().filter(|other| *other != id).for_each(|old| self.remove_client(old));
    }

    /// Records that the registration of a client is complete.
    pub(in crate::run) fn complete_client(&mut self, id: Clientid4) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.is_complete = true;
        if client.minor_version == 0 {
            let owner = client.owner.clone();
            self.remove_replaced(id, &owner);
        }
    }

    /// Removes a client with all its state.
    pub(in crate::run) fn remove_client(&mut self, client: Clientid4) {
        self.clients.remove(&client);
        self.sessions.retain(|_, session| session.client != client);
        self.take_delegations_of(client);
        self.opens_of(client).into_iter().for_each(|open| self.remove_open(open));
    }

    /// Adds an open of this program in place of a delegation, whose variable is removed from all other opens.
    pub(in crate::run) fn add_substitute_open(&mut self, other: StateidOther, replaced: RecoverableDelegation) {
        let RecoverableDelegation { client, file, access, header, variable } = replaced;
        self.opens.values_mut().for_each(|open| open.variables.retain(|existing| *existing != variable));
        let open = RecoverableOpen {
            client,
            file,
            entry: None,
            access,
            deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: substitute_owner(variable).into(),
            header,
            seqid_variable: variable,
            variables: vec![variable],
        };
        self.add_open(other, open);
    }

    fn add_open(&mut self, other: StateidOther, new: RecoverableOpen) {
        if let Some(open) = self.opens.get_mut(&other) {
            // A further OPEN by the same owner: RFC 8881 section 9.7.
            open.access = ShareAccess(open.access.0 | new.access.0);
            open.deny = ShareDeny(open.deny.0 | new.deny.0);
            add_variables(&mut open.variables, new.variables);
            open.entry = new.entry.or(open.entry.take());
            return;
        }
        match self.opens.len() < MAX_STATEIDS && new.header.len() <= MAX_CALL_BYTES {
            true => drop(self.opens.insert(other, new)),
            false => self.dropped += 1,
        }
    }

    fn add_lock(&mut self, other: StateidOther, new: RecoverableLockOwnerFileLocks) {
        if let Some(lock) = self.locks.get_mut(&other) {
            add_variables(&mut lock.variables, new.variables);
            return;
        }
        match self.locks.len() < MAX_STATEIDS && new.header.len() <= MAX_CALL_BYTES {
            true => drop(self.locks.insert(other, new)),
            false => self.dropped += 1,
        }
    }

    fn add_delegation(&mut self, other: StateidOther, new: RecoverableDelegation) {
        match self.delegations.len() < MAX_STATEIDS && new.header.len() <= MAX_CALL_BYTES {
            true => drop(self.delegations.insert(other, new)),
            false => self.dropped += 1,
        }
    }

    /// Removes and returns the delegations of a client.
    pub(in crate::run) fn take_delegations_of(
        &mut self,
        client: Clientid4,
    ) -> BTreeMap<StateidOther, RecoverableDelegation> {
        let (removed, remaining) =
            std::mem::take(&mut self.delegations).into_iter().partition(|(_, delegation)| delegation.client == client);
        self.delegations = remaining;
        removed
    }

    /// Removes an open with its locks.
    pub(in crate::run) fn remove_open(&mut self, open: StateidOther) {
        self.opens.remove(&open);
        self.locks.retain(|_, lock| lock.open != open);
    }

    /// Returns the client of a Call of this run, by its session, client ID or a stateid.
    pub(in crate::run) fn client_of(&self, step: &TraceStep<'_>, values: &LiveVariableValues) -> Option<Clientid4> {
        step.call.slots.iter().find_map(|slot| {
            let value = values.get(slot.variable)?;
            match slot.value_kind {
                TraceSlotValueKind::SESSION => {
                    self.sessions.get(value.first_chunk::<16>()?).map(|session| session.client)
                }
                TraceSlotValueKind::CLIENTID => value.first_chunk().map(|id| Clientid4::from_be_bytes(*id)),
                TraceSlotValueKind::STATEID => {
                    let other = value.first_chunk::<12>()?;
                    let open = self.locks.get(other).map_or(other, |lock| &lock.open);
                    self.opens.get(open).map(|open| open.client)
                }
                _ => None,
            }
            .filter(|client| self.clients.contains_key(client))
        })
    }

    /// Returns the client of a session, unless it is unknown or lost.
    pub(in crate::run) fn client_of_session(&self, id: Sessionid4) -> Option<&RecoverableNfs4ClientState> {
        self.clients.get(&self.sessions.get(&id)?.client)
    }

    pub(in crate::run) fn sessions_of(&self, client: Clientid4) -> Vec<Sessionid4> {
        keys_where(&self.sessions, |session| session.client == client)
    }

    pub(in crate::run) fn opens_of(&self, client: Clientid4) -> Vec<StateidOther> {
        keys_where(&self.opens, |open| open.client == client)
    }

    /// Returns the locks made with an open.
    pub(in crate::run) fn locks_of(&self, open: StateidOther) -> Vec<StateidOther> {
        keys_where(&self.locks, |lock| lock.open == open)
    }

    pub(in crate::run) fn rename_client(&mut self, old: Clientid4, new: Clientid4) {
        rename(&mut self.clients, &old, new);
        self.sessions.values_mut().filter(|session| session.client == old).for_each(|session| session.client = new);
        self.opens.values_mut().filter(|open| open.client == old).for_each(|open| open.client = new);
        self.delegations
            .values_mut()
            .filter(|delegation| delegation.client == old)
            .for_each(|delegation| delegation.client = new);
    }

    pub(in crate::run) fn rename_open(&mut self, old: StateidOther, new: StateidOther) {
        rename(&mut self.opens, &old, new);
        self.locks.values_mut().filter(|lock| lock.open == old).for_each(|lock| lock.open = new);
    }
}

fn keys_where<K: Copy, V>(state: &BTreeMap<K, V>, is_own: impl Fn(&V) -> bool) -> Vec<K> {
    state.iter().filter(|(_, value)| is_own(value)).map(|(key, _)| *key).collect()
}

/// Replaces the identifier of a client, session, open or lock.
pub(in crate::run) fn rename<K: Ord, V>(state: &mut BTreeMap<K, V>, old: &K, new: K) {
    if let Some(value) = state.remove(old) {
        state.insert(new, value);
    }
}

/// Returns the name of this program's open-owner for a delegation, under whose variable its seqids count in NFSv4.0.
pub(in crate::run) fn substitute_owner(variable: u32) -> Vec<u8> {
    format!("{} delegation {variable}", crate::PROGRAM).into_bytes()
}

/// Returns the variable of this kind of an operation's slots, or [`NONE`].
pub(in crate::run) fn slot_variable(message: &TraceMessage<'_>, kind: TraceSlotValueKind, operation: usize) -> u32 {
    let mut slots = message.slots.iter();
    let slot = slots.find(|slot| slot.value_kind == kind && slot.operation as usize == operation);
    slot.map_or(NONE, |slot| slot.variable)
}

/// Returns the variables of the stateids that an operation gave.
fn stateid_variables(step: &TraceStep<'_>, at: usize) -> Vec<u32> {
    let slots = step.reply.slots.iter();
    let stateid_slots =
        slots.filter(|slot| slot.value_kind == TraceSlotValueKind::STATEID && slot.operation as usize == at);
    stateid_slots.map(|slot| slot.variable).take(MAX_VARIABLES).collect()
}

fn add_variables(variables: &mut Vec<u32>, added: Vec<u32>) {
    for variable in added {
        if variables.len() < MAX_VARIABLES && !variables.contains(&variable) {
            variables.push(variable);
        }
    }
}

fn subtract_range(ranges: &mut Vec<RecoverableLockRange>, removed: RecoverableLockRange) {
    let mut remaining = Vec::with_capacity(ranges.len() + 1);
    for range in ranges.drain(..) {
        if range.end <= removed.start || removed.end <= range.start {
            remaining.push(range);
            continue;
        }
        if range.start < removed.start {
            remaining.push(RecoverableLockRange { end: removed.start, ..range });
        }
        if removed.end < range.end {
            remaining.push(RecoverableLockRange { start: removed.end, ..range });
        }
    }
    remaining.truncate(MAX_RANGES);
    *ranges = remaining;
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{ServerOwner4, StateProtect4R};
    use nfsrdma_dissectors::xdr::{Opaque, XdrArray};

    use super::*;

    #[test]
    fn rfc8881_section_18_12_unlocking_the_middle_of_a_range_leaves_both_ends() {
        let range = |start, end| RecoverableLockRange { start, end, is_write: true };
        let mut ranges = vec![range(0, 100), range(200, u64::MAX)];
        subtract_range(&mut ranges, range(40, 60));
        subtract_range(&mut ranges, range(100, 300));
        assert_eq!(ranges, [range(0, 40), range(60, 100), range(300, u64::MAX)]);
    }

    #[test]
    fn rfc8881_section_18_10_3_the_highest_length_is_the_end_of_the_file() {
        let range = RecoverableLockRange::of(7, u64::MAX, NfsLockType4::WRITEW_LT);
        assert_eq!(range, RecoverableLockRange { start: 7, end: u64::MAX, is_write: true });
        assert_eq!(
            RecoverableLockRange::of(7, 3, NfsLockType4::READ_LT),
            RecoverableLockRange { start: 7, end: 10, is_write: false }
        );
    }

    #[test]
    fn rfc8881_section_18_35_3_eir_sequenceid_applies_until_the_client_is_confirmed() {
        let mut state = RecoverableState::default();
        state.add_client((7, b"client"), 1, 0, [NONE; 2], 1, b"");
        let mut exchange = |flags, sequence| {
            state.update_sequence(&ExchangeId4Resok {
                eir_clientid: 7,
                eir_sequenceid: sequence,
                eir_flags: flags,
                eir_state_protect: StateProtect4R::None,
                eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: Opaque(b"") },
                eir_server_scope: Opaque(b""),
                eir_server_impl_id: XdrArray::default(),
            });
            state.clients.get(&7).map(|client| client.sequence)
        };
        assert_eq!(exchange(ExchangeIdFlags(0), 5), Some(5));
        assert_eq!(exchange(ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R, 1), Some(5));
    }
}
