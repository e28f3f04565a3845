//! OPEN and CLOSE, byte-range locks, and their stateids. RFC 7530 section 16, RFC 8881 section 18.

use nfsrdma_dissectors::nfs::v4::{
    Aceflag4, Acemask4, Acetype4, Args, Attribute, Attributes, Bitmap4, ChangeInfo4, Close4Args, Createhow4,
    GetDirDelegation4ResNonFatal, GetDirDelegation4Resok, Lock4Args, LockDenied, LockOwner4, LockRes,
    LockStateid4Resok, Locker4, LocktRes, NfsLockType4, Nfsace4, Nfsstat4, Open4Args, Open4Resok, OpenClaim4,
    OpenDelegation4, OpenReadDelegation4, OpenRflags, OpenStateid4Resok, Openflag4, Results, ShareAccess, Stateid4,
    TestStateid4Resok, words_for_bits,
};
use nfsrdma_dissectors::xdr::{Opaque, Text, Void, XdrArray};

use super::super::file_object::MockObjectContent;
use super::super::filehandle::MockFileId;
use super::super::mock_server::{MockDelegationPolicy, MockServer};
use super::attributes;
use super::compound::MockCompoundExecution;
use super::state::{MockLockRange, MockLockStateidEntry, MockNfs4State, MockOpen, MockStateidKind};

/// OPEN4_SHARE_ACCESS_BOTH: the bits without delegation wants.
const BOTH: u32 = 3;

pub(super) fn step(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Args<'_>,
) -> Result<(), Nfsstat4> {
    let state = &mut server.state;
    let minor = compound.minor;
    match args {
        Args::OPEN(args) => open(server, compound, args),
        Args::CLOSE(args) => close(state, compound, args),
        Args::OPEN_CONFIRM(args) => {
            let MockStateidKind::Open(other) = state.find(&args.open_stateid, minor)? else {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            };
            // The same as Linux and nfs-ganesha: the stateid of an open that needs no confirmation is the wrong one.
            let is_confirmed =
                server.confirms_owners && state.opens.get(&other).is_some_and(|open| state.is_confirmed(open));
            let open_stateid = advance(state, compound, other, args.seqid, |_| match is_confirmed {
                true => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
                false => Ok(()),
            })?;
            if let Some(open) = state.opens.get(&other) {
                let (client, owner) = (open.client, open.owner.clone());
                state.confirm(client, &owner);
            }
            compound.succeed(Results::OPEN_CONFIRM, OpenStateid4Resok { open_stateid })
        }
        Args::OPEN_DOWNGRADE(args) => {
            let stateid = compound.resolve_stateid(&args.open_stateid)?;
            let MockStateidKind::Open(other) = state.find(&stateid, minor)? else {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            };
            let (access, deny) = (args.share_access.0 & BOTH, args.share_deny.0);
            let open_stateid = advance(state, compound, other, args.seqid, |open| {
                if access & !open.access != 0 || deny & !open.deny != 0 {
                    return Err(Nfsstat4::NFS4ERR_INVAL);
                }
                (open.access, open.deny) = (access, deny);
                Ok(())
            })?;
            compound.succeed(Results::OPEN_DOWNGRADE, OpenStateid4Resok { open_stateid })
        }
        Args::LOCK(args) => lock(server, compound, args),
        Args::LOCKT(args) => {
            let file = compound.current()?;
            let client = compound.client.unwrap_or(args.owner.clientid);
            let requested = range(args.offset, args.length, args.locktype, client, args.owner.owner.0)?;
            if let Some(denied) = state.conflict(file, &requested) {
                Results::LOCKT(LocktRes::Denied(denial(denied))).encode(&mut compound.body);
                return Err(Nfsstat4::NFS4ERR_DENIED);
            }
            compound.encode_results(&Results::LOCKT(LocktRes::Ok(Void)))
        }
        Args::LOCKU(args) => {
            let stateid = compound.resolve_stateid(&args.lock_stateid)?;
            let MockStateidKind::Lock(other) = state.find(&stateid, minor)? else {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            };
            let lock = state.locks.get_mut(&other).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            let (client, owner, file) = (lock.client, lock.owner.clone(), lock.file);
            state.check_seqid(compound.minor, client, &owner, args.seqid)?;
            let unlocked_range = range(args.offset, args.length, args.locktype, client, &owner)?;
            state.unlock(file, &unlocked_range);
            let lock_stateid = next_lock(state, other)?;
            compound.stateid = Some(lock_stateid.clone());
            compound.succeed(Results::LOCKU, LockStateid4Resok { lock_stateid })
        }
        Args::RELEASE_LOCKOWNER(args) => {
            let is_owned = |lock: &MockLockStateidEntry| {
                lock.client == args.lock_owner.clientid && lock.owner == args.lock_owner.owner.0
            };
            let lock_stateids: Vec<_> =
                state.locks.iter().filter(|(_, lock)| is_owned(lock)).map(|(other, _)| *other).collect();
            lock_stateids.into_iter().for_each(|other| state.free_lock(other));
            compound.succeed(Results::RELEASE_LOCKOWNER, Void)
        }
        Args::FREE_STATEID(args) => match state.find(&args.fsa_stateid, minor)? {
            MockStateidKind::Lock(other) if state.has_ranges(other) => Err(Nfsstat4::NFS4ERR_LOCKS_HELD),
            MockStateidKind::Lock(other) => {
                state.free_lock(other);
                compound.succeed(Results::FREE_STATEID, Void)
            }
            _ => Err(Nfsstat4::NFS4ERR_LOCKS_HELD),
        },
        Args::DELEGRETURN(args) if server.delegations != MockDelegationPolicy::Never => {
            let client = compound.client.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            if state.delegations.get(&args.deleg_stateid.other) != Some(&client) {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            state.delegations.remove(&args.deleg_stateid.other);
            compound.succeed(Results::DELEGRETURN, Void)
        }
        Args::GET_DIR_DELEGATION(_) if server.delegations != MockDelegationPolicy::Never => {
            let client = compound.client.ok_or(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
            let granted = GetDirDelegation4Resok {
                gddr_cookieverf: [0; 8],
                gddr_stateid: state.delegate(client),
                gddr_notification: Bitmap4::default(),
                gddr_child_attributes: Bitmap4::default(),
                gddr_dir_attributes: Bitmap4::default(),
            };
            let result = Box::new(GetDirDelegation4ResNonFatal::Ok(granted));
            compound.succeed(Results::GET_DIR_DELEGATION, result)
        }
        Args::TEST_STATEID(args) => {
            let statuses: Vec<_> = args
                .ts_stateids
                .iter()
                .map(|stateid| state.find(&stateid, minor).err().unwrap_or(Nfsstat4::NFS4_OK))
                .collect();
            let ok = TestStateid4Resok { tsr_status_codes: XdrArray::from(&statuses[..]) };
            compound.succeed(Results::TEST_STATEID, ok)
        }
        _ => Err(Nfsstat4::NFS4ERR_NOTSUPP),
    }
}

/// Checks that an NFSv4.0 seqid is the next of its owner, changes an open, and returns its next stateid.
fn advance(
    state: &mut MockNfs4State,
    compound: &mut MockCompoundExecution<'_>,
    other: [u8; 12],
    seqid: u32,
    change: impl FnOnce(&mut MockOpen) -> Result<(), Nfsstat4>,
) -> Result<Stateid4, Nfsstat4> {
    let open = state.opens.get(&other).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
    let (client, owner) = (open.client, open.owner.clone());
    state.check_seqid(compound.minor, client, &owner, seqid)?;
    let open = state.opens.get_mut(&other).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
    change(open)?;
    open.seqid += 1;
    let stateid = Stateid4 { seqid: open.seqid, other };
    compound.stateid = Some(stateid.clone());
    Ok(stateid)
}

fn close(
    state: &mut MockNfs4State,
    compound: &mut MockCompoundExecution<'_>,
    args: &Close4Args,
) -> Result<(), Nfsstat4> {
    let stateid = compound.resolve_stateid(&args.open_stateid)?;
    let MockStateidKind::Open(other) = state.find(&stateid, compound.minor)? else {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
    };
    advance(state, compound, other, args.seqid, |_| Ok(()))?;
    state.close(other);
    // RFC 8881 section 18.2.4: clients ignore this stateid.
    let open_stateid = Stateid4 { seqid: u32::MAX, other: [0; 12] };
    compound.stateid = None;
    compound.succeed(Results::CLOSE, OpenStateid4Resok { open_stateid })
}

fn open(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Open4Args<'_>,
) -> Result<(), Nfsstat4> {
    let client = compound.client.unwrap_or(args.owner.clientid);
    match server.state.clients.get(&client) {
        Some(entry) if entry.is_confirmed => {
            let needs_complete = server.needs_reclaim_complete && compound.minor > 0 && !entry.is_complete;
            if needs_complete && !matches!(args.claim, OpenClaim4::Previous(_)) {
                return Err(Nfsstat4::NFS4ERR_GRACE);
            }
        }
        _ => return Err(Nfsstat4::NFS4ERR_STALE_CLIENTID),
    }
    if server.state.is_full() {
        return Err(Nfsstat4::NFS4ERR_DELAY);
    }
    server.state.check_seqid(compound.minor, client, args.owner.owner.0, args.seqid)?;
    server.state.check_grace(client, matches!(args.claim, OpenClaim4::Previous(_)))?;
    let access = args.share_access.0 & BOTH;
    if access == 0 || args.share_deny.0 > BOTH {
        return Err(Nfsstat4::NFS4ERR_INVAL);
    }
    let directory = compound.current()?;
    let tree = &server.tree;
    let before = tree.change(directory)?;
    let mut attrset = Vec::new();
    let file = match &args.claim {
        OpenClaim4::Fh | OpenClaim4::Previous(_) | OpenClaim4::DelegCurFh(_) => directory,
        OpenClaim4::Null(name) => {
            let existing = tree.lookup(directory, name.0);
            find_or_create(server, directory, name.0, existing.ok(), &args.openhow, &mut attrset)?
        }
        _ => return Err(Nfsstat4::NFS4ERR_NOTSUPP),
    };
    match server.tree.node(file)?.content {
        MockObjectContent::File(_) => {}
        MockObjectContent::Directory(_) => return Err(Nfsstat4::NFS4ERR_ISDIR),
        MockObjectContent::Link(_) => return Err(Nfsstat4::NFS4ERR_SYMLINK),
        MockObjectContent::Special(..) => return Err(Nfsstat4::NFS4ERR_INVAL),
    }
    let deny = args.share_deny.0;
    let owner = args.owner.owner.0.to_vec();
    let must_confirm = compound.minor == 0 && server.confirms_owners && server.state.cancel_unconfirmed(client, &owner);
    let stateid = server.state.open(MockOpen { client, owner, file, access, deny, seqid: 1 })?;
    compound.current = Some(file);
    compound.stateid = Some(stateid.clone());
    let has_directory = matches!(args.claim, OpenClaim4::Null(_));
    let cinfo = match server.omits_cinfo_without_directory && !has_directory {
        true => ChangeInfo4 { atomic: false, before: 0, after: 0 },
        false => ChangeInfo4 { atomic: true, before, after: server.tree.change(directory)? },
    };
    let is_refused = args.share_access.0 & ShareAccess::OPEN4_SHARE_ACCESS_WANT_NO_DELEG.0 != 0;
    let is_granted = match server.delegations {
        MockDelegationPolicy::Never => false,
        MockDelegationPolicy::UnlessRefused => !is_refused,
        MockDelegationPolicy::Always => true,
    };
    let delegation = match is_granted && compound.minor > 0 {
        true => OpenDelegation4::Read(OpenReadDelegation4 {
            stateid: server.state.delegate(client),
            recall: false,
            permissions: Nfsace4 {
                r#type: Acetype4::ACE4_ACCESS_ALLOWED_ACE_TYPE,
                flag: Aceflag4(0),
                access_mask: Acemask4(0),
                who: Text(b"OWNER@"),
            },
        }),
        false => OpenDelegation4::None,
    };
    let ok = Open4Resok {
        stateid,
        cinfo,
        rflags: match must_confirm {
            true => OpenRflags(OpenRflags::OPEN4_RESULT_LOCKTYPE_POSIX.0 | OpenRflags::OPEN4_RESULT_CONFIRM.0),
            false => OpenRflags::OPEN4_RESULT_LOCKTYPE_POSIX,
        },
        attrset: Bitmap4::from(&attrset[..]),
        delegation,
    };
    compound.succeed(Results::OPEN, ok)
}

fn find_or_create(
    server: &mut MockServer,
    directory: MockFileId,
    name: &[u8],
    existing: Option<MockFileId>,
    open_flag: &Openflag4<'_>,
    attrset: &mut Vec<u32>,
) -> Result<MockFileId, Nfsstat4> {
    let tree = &mut server.tree;
    let Openflag4::Create(create_mode) = open_flag else {
        return existing.ok_or(Nfsstat4::NFS4ERR_NOENT);
    };
    let (to, is_guarded) = match create_mode {
        Createhow4::Unchecked(to) => (Some(to), false),
        Createhow4::Guarded(to) => (Some(to), true),
        Createhow4::Exclusive(_) => (None, true),
        Createhow4::Exclusive41(exclusive) => (Some(&exclusive.cva_attrs), true),
    };
    let file = match existing {
        Some(_) if is_guarded => return Err(Nfsstat4::NFS4ERR_EXIST),
        Some(file) => file,
        None => tree.create(directory, name, MockObjectContent::File(Vec::new()), 0o644)?,
    };
    let Some(to) = to else { return Ok(file) };
    if existing.is_none() {
        *attrset = attributes::set(tree, file, to)?;
        return Ok(file);
    }
    // UNCHECKED4 sets only the size of an existing file: RFC 8881 section 18.16.3.
    let size = to.items().map_while(Result::ok).find_map(|item| match item {
        Attribute::SIZE(bytes) => Some(bytes),
        _ => None,
    });
    if let Some(size) = size {
        tree.truncate(file, size)?;
        attrset.extend(words_for_bits([Attributes::SIZE]));
    }
    Ok(file)
}

/// Returns the range of LOCK, LOCKT or LOCKU: RFC 8881 section 18.10.3.
fn range(offset: u64, length: u64, kind: NfsLockType4, client: u64, owner: &[u8]) -> Result<MockLockRange, Nfsstat4> {
    let end = match length {
        0 => return Err(Nfsstat4::NFS4ERR_INVAL),
        u64::MAX => u64::MAX,
        length => offset.checked_add(length).ok_or(Nfsstat4::NFS4ERR_INVAL)?,
    };
    let is_write = matches!(kind, NfsLockType4::WRITE_LT | NfsLockType4::WRITEW_LT);
    Ok(MockLockRange { start: offset, end, is_write, client, owner: owner.to_vec() })
}

fn denial(denied: &MockLockRange) -> LockDenied<'_> {
    LockDenied {
        offset: denied.start,
        length: if denied.end == u64::MAX { u64::MAX } else { denied.end - denied.start },
        locktype: if denied.is_write { NfsLockType4::WRITE_LT } else { NfsLockType4::READ_LT },
        owner: LockOwner4 { clientid: denied.client, owner: Opaque(&denied.owner) },
    }
}

fn next_lock(state: &mut MockNfs4State, other: [u8; 12]) -> Result<Stateid4, Nfsstat4> {
    let lock = state.locks.get_mut(&other).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
    lock.seqid += 1;
    Ok(Stateid4 { seqid: lock.seqid, other })
}

fn lock(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Lock4Args<'_>,
) -> Result<(), Nfsstat4> {
    let state = &mut server.state;
    let file = compound.current()?;
    let minor = compound.minor;
    let (open, client, owner) = match &args.locker {
        Locker4::New(new) => {
            let stateid = compound.resolve_stateid(&new.open_stateid)?;
            let MockStateidKind::Open(open) = state.find(&stateid, minor)? else {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            };
            let open_state = state.opens.get(&open).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            let (client, open_owner) = (open_state.client, open_state.owner.clone());
            state.check_seqid(compound.minor, client, &open_owner, new.open_seqid)?;
            let checked = state.check_seqid(compound.minor, client, new.lock_owner.owner.0, new.lock_seqid);
            if checked.is_err() {
                // NFS4ERR_BAD_SEQID advances no owner: RFC 7530 section 9.1.7.
                state.advance_seqid(client, open_owner, new.open_seqid.wrapping_sub(1));
            }
            checked?;
            (open, client, new.lock_owner.owner.0.to_vec())
        }
        Locker4::Existing(existing) => {
            let stateid = compound.resolve_stateid(&existing.lock_stateid)?;
            let MockStateidKind::Lock(other) = state.find(&stateid, minor)? else {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            };
            let lock_state = state.locks.get(&other).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            let (open, client, owner) = (lock_state.open, lock_state.client, lock_state.owner.clone());
            state.check_seqid(compound.minor, client, &owner, existing.lock_seqid)?;
            (open, client, owner)
        }
    };
    state.check_grace(client, args.reclaim)?;
    let requested = range(args.offset, args.length, args.locktype, client, &owner)?;
    if let Some(denied) = state.conflict(file, &requested) {
        Results::LOCK(LockRes::Denied(denial(denied))).encode(&mut compound.body);
        return Err(Nfsstat4::NFS4ERR_DENIED);
    }
    let other = state.lock_state(MockLockStateidEntry { client, owner, file, open, seqid: 0 });
    state.lock(file, requested);
    let lock_stateid = next_lock(state, other)?;
    compound.stateid = Some(lock_stateid.clone());
    compound.encode_results(&Results::LOCK(LockRes::Ok(LockStateid4Resok { lock_stateid })))
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{FreeStateid4Args, OpenConfirm4Args};
    use nfsrdma_dissectors::xdr::Encoder;
    use nfsrdma_replay::seed::file_server_client::SessionLimits;

    use super::*;

    const FILE: MockFileId = 7;

    fn run(server: &mut MockServer, minor: u32, args: &Args<'_>) -> Result<(), Nfsstat4> {
        let mut compound = MockCompoundExecution {
            minor,
            current: Some(FILE),
            saved: None,
            stateid: None,
            client: None,
            limits: SessionLimits::default(),
            body: Encoder::new(),
            data: &mut Vec::new(),
        };
        step(server, &mut compound, args)
    }

    fn opened(server: &mut MockServer) -> Stateid4 {
        let open = MockOpen { client: 1, owner: b"o".into(), file: FILE, access: 3, deny: 0, seqid: 1 };
        server.state.open(open).unwrap()
    }

    #[test]
    fn rfc7530_section_16_18_4_a_wrong_seqid_confirms_nothing() {
        let mut server = MockServer::default();
        let open_stateid = opened(&mut server);
        server.state.check_seqid(0, 1, b"o", 5).unwrap();
        let is_confirmed =
            |server: &MockServer| server.state.opens.values().all(|open| server.state.is_confirmed(open));
        let confirm = |seqid| Args::OPEN_CONFIRM(OpenConfirm4Args { open_stateid: open_stateid.clone(), seqid });
        assert_eq!(run(&mut server, 0, &confirm(8)), Err(Nfsstat4::NFS4ERR_BAD_SEQID));
        assert!(!is_confirmed(&server));
        assert_eq!(run(&mut server, 0, &confirm(6)), Ok(()));
        assert!(is_confirmed(&server));
    }

    #[test]
    fn rfc8881_section_18_38_3_a_stateid_with_locks_is_not_freed() {
        let mut server = MockServer::default();
        let open = opened(&mut server).other;
        let state = MockLockStateidEntry { client: 1, owner: b"l".into(), file: FILE, open, seqid: 1 };
        let other = server.state.lock_state(state);
        let locked = range(0, 10, NfsLockType4::WRITE_LT, 1, b"l").unwrap();
        server.state.lock(FILE, locked.clone());
        let free = Args::FREE_STATEID(FreeStateid4Args { fsa_stateid: Stateid4 { seqid: 0, other } });
        assert_eq!(run(&mut server, 1, &free), Err(Nfsstat4::NFS4ERR_LOCKS_HELD));
        assert!(server.state.conflict(FILE, &MockLockRange { client: 2, ..locked.clone() }).is_some());
        server.state.unlock(FILE, &locked);
        assert_eq!(run(&mut server, 1, &free), Ok(()));
        assert_eq!(run(&mut server, 1, &free), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    }
}
