//! Clients and sessions. RFC 7530 section 16, RFC 8881 sections 2.10 and 18.

use nfsrdma_dissectors::nfs::v4::{
    Args, BindConnToSession4Resok, ChannelAttrs4, ChannelDirFromClient4, ChannelDirFromServer4, CreateSession4Args,
    CreateSession4Resok, CreateSessionFlags, ExchangeId4Args, ExchangeId4Resok, ExchangeIdFlags, Nfsstat4, Operation,
    Results, Sequence4Resok, SequenceStatusFlags, ServerOwner4, Sessionid4, SetclientidConfirm, SetclientidRes,
    StateProtect4R,
};
use nfsrdma_dissectors::xdr::{Opaque, Void, XdrArray};
use nfsrdma_replay::seed::file_server_client::SessionLimits;

use super::super::mock_server::MockServer;
use super::compound::{MockCompoundExecution, OPERATIONS};
use super::state::{MockCachedReply, MockClientRecord, MockSession, MockSessionSlot, SLOTS};

/// First csa_sequence of a client ID.
const FIRST_CREATE_SEQUENCE: u32 = 1;

pub(super) type MockSlotKey = (Sessionid4, u32);

/// Returns the slot that caches the Reply.
pub(super) fn slot(server: &mut MockServer, key: MockSlotKey) -> Option<&mut MockSessionSlot> {
    server.state.sessions.get_mut(&key.0)?.slots.get_mut(key.1 as usize)
}

/// Checks that an operation is allowed at its index in the COMPOUND. RFC 8881 sections 2.10.6.1 and 16.2.3.
pub(super) fn check_position(
    compound: &MockCompoundExecution<'_>,
    args: &Args<'_>,
    index: usize,
    count: u32,
) -> Result<(), Nfsstat4> {
    let operation = args.operation();
    if operation.first_minor_version() > compound.minor {
        return Err(Nfsstat4::NFS4ERR_NOTSUPP);
    }
    if compound.minor == 0 {
        return Ok(());
    }
    let is_alone = matches!(
        operation,
        Operation::EXCHANGE_ID
            | Operation::CREATE_SESSION
            | Operation::DESTROY_SESSION
            | Operation::DESTROY_CLIENTID
            | Operation::BIND_CONN_TO_SESSION
    );
    match (operation, index) {
        (Operation::SEQUENCE, 0) => Ok(()),
        (Operation::SEQUENCE, _) => Err(Nfsstat4::NFS4ERR_SEQUENCE_POS),
        (_, 0) if !is_alone => Err(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION),
        (_, 0) if count > 1 => Err(Nfsstat4::NFS4ERR_NOT_ONLY_OP),
        // RFC 8881 section 2.10.6: operations that exist only in NFSv4.0.
        (
            Operation::SETCLIENTID
            | Operation::SETCLIENTID_CONFIRM
            | Operation::RENEW
            | Operation::OPEN_CONFIRM
            | Operation::RELEASE_LOCKOWNER,
            _,
        ) => Err(Nfsstat4::NFS4ERR_NOTSUPP),
        _ => Ok(()),
    }
}

/// Executes SEQUENCE: occupies the slot, or returns its cached Reply. Ignores other operations.
pub(super) fn sequence(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Args<'_>,
    key: &mut Option<MockSlotKey>,
) -> Result<Option<MockCachedReply>, Nfsstat4> {
    let Args::SEQUENCE(args) = args else { return Ok(None) };
    let is_bound = server.bound_connections.contains(&(server.connection, args.sa_sessionid));
    if server.requires_bound_connections && !is_bound {
        return Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    }
    let session = server.state.sessions.get_mut(&args.sa_sessionid).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
    let slot = session.slots.get_mut(args.sa_slotid as usize).ok_or(Nfsstat4::NFS4ERR_BADSLOT)?;
    if args.sa_sequenceid == slot.sequence && slot.sequence > 0 {
        return slot.cached_reply.clone().map(Some).ok_or(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
    }
    if args.sa_sequenceid != slot.sequence.wrapping_add(1) {
        return Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED);
    }
    slot.sequence = args.sa_sequenceid;
    slot.cached_reply = None;
    *key = args.sa_cachethis.then_some((args.sa_sessionid, args.sa_slotid));
    compound.client = Some(session.client);
    compound.limits = session.limits;
    let ok = Sequence4Resok {
        sr_sessionid: args.sa_sessionid,
        sr_sequenceid: args.sa_sequenceid,
        sr_slotid: args.sa_slotid,
        sr_highest_slotid: SLOTS - 1,
        sr_target_highest_slotid: SLOTS - 1,
        sr_status_flags: SequenceStatusFlags(0),
    };
    compound.succeed(Results::SEQUENCE, ok)?;
    Ok(None)
}

pub(super) fn step(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Args<'_>,
) -> Result<(), Nfsstat4> {
    let state = &mut server.state;
    match args {
        Args::EXCHANGE_ID(args) => exchange_id(server, compound, args),
        Args::CREATE_SESSION(args) => create_session(server, compound, args),
        Args::DESTROY_SESSION(args) => {
            state.sessions.remove(&args.dsa_sessionid).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
            compound.succeed(Results::DESTROY_SESSION, Void)
        }
        Args::DESTROY_CLIENTID(args) => {
            if !state.clients.contains_key(&args.dca_clientid) {
                return Err(Nfsstat4::NFS4ERR_STALE_CLIENTID);
            }
            let has_more = state.sessions.values().any(|session| session.client == args.dca_clientid)
                || state.opens.values().any(|open| open.client == args.dca_clientid)
                || state.delegations.values().any(|holder| *holder == args.dca_clientid);
            if has_more {
                return Err(Nfsstat4::NFS4ERR_CLIENTID_BUSY);
            }
            state.remove_client(args.dca_clientid);
            compound.succeed(Results::DESTROY_CLIENTID, Void)
        }
        Args::BIND_CONN_TO_SESSION(args) => {
            if !state.sessions.contains_key(&args.bctsa_sessid) {
                return Err(Nfsstat4::NFS4ERR_BADSESSION);
            }
            server.bound_connections.insert((server.connection, args.bctsa_sessid));
            let ok = BindConnToSession4Resok {
                bctsr_sessid: args.bctsa_sessid,
                bctsr_dir: match args.bctsa_dir {
                    ChannelDirFromClient4::CDFC4_FORE => ChannelDirFromServer4::CDFS4_FORE,
                    ChannelDirFromClient4::CDFC4_BACK => ChannelDirFromServer4::CDFS4_BACK,
                    _ => ChannelDirFromServer4::CDFS4_BOTH,
                },
                bctsr_use_conn_in_rdma_mode: false,
            };
            compound.succeed(Results::BIND_CONN_TO_SESSION, ok)
        }
        Args::RECLAIM_COMPLETE(args) => {
            let is_complete = |client: &u64| state.clients.get(client).is_some_and(|client| client.is_complete);
            if !args.rca_one_fs && compound.client.as_ref().is_some_and(is_complete) {
                return Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY);
            }
            compound.client.iter().for_each(|client| state.complete_reclaim(*client));
            compound.succeed(Results::RECLAIM_COMPLETE, Void)
        }
        Args::SETCLIENTID(args) => {
            let clientid = state.new_number();
            let client = MockClientRecord {
                owner: args.client.id.0.to_vec(),
                verifier: args.client.verifier,
                is_confirmed: false,
                is_complete: false,
                sequence: 0,
            };
            if state.is_full() {
                return Err(Nfsstat4::NFS4ERR_RESOURCE);
            }
            state.clients.insert(clientid, client);
            let ok = SetclientidConfirm { clientid, setclientid_confirm: clientid.to_be_bytes() };
            compound.encode_results(&Results::SETCLIENTID(SetclientidRes::Ok(ok)))
        }
        Args::SETCLIENTID_CONFIRM(args) => {
            let client = state.clients.get(&args.clientid).ok_or(Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
            if args.setclientid_confirm != args.clientid.to_be_bytes() {
                return Err(Nfsstat4::NFS4ERR_STALE_CLIENTID);
            }
            // A client that comes back with another verifier has lost its state: RFC 7530 section 9.1.1.
            let (owner, verifier) = (client.owner.clone(), client.verifier);
            let old_clients: Vec<_> = state
                .clients
                .iter()
                .filter(|(id, old)| **id != args.clientid && old.owner == owner && old.verifier != verifier)
                .map(|(id, _)| *id)
                .collect();
            old_clients.into_iter().for_each(|id| state.remove_client(id));
            if let Some(client) = state.clients.get_mut(&args.clientid) {
                client.is_confirmed = true;
            }
            compound.succeed(Results::SETCLIENTID_CONFIRM, Void)
        }
        Args::RENEW(args) => match state.clients.get(&args.clientid) {
            Some(client) if client.is_confirmed => compound.succeed(Results::RENEW, Void),
            _ => Err(Nfsstat4::NFS4ERR_STALE_CLIENTID),
        },
        _ => Err(Nfsstat4::NFS4ERR_NOTSUPP),
    }
}

fn exchange_id(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &ExchangeId4Args<'_>,
) -> Result<(), Nfsstat4> {
    let state = &mut server.state;
    let owner = args.eia_clientowner.co_ownerid.0;
    let verifier = args.eia_clientowner.co_verifier;
    let existing = state
        .clients
        .iter()
        .find(|(_, client)| client.owner == owner)
        .map(|(id, client)| (*id, client.verifier == verifier));
    let clientid = match existing {
        Some((id, true)) => id,
        other => {
            if let Some((id, _)) = other {
                state.remove_client(id);
            }
            if state.is_full() {
                return Err(Nfsstat4::NFS4ERR_DELAY);
            }
            let id = state.new_number();
            let client = MockClientRecord {
                owner: owner.to_vec(),
                verifier,
                is_confirmed: false,
                is_complete: false,
                sequence: FIRST_CREATE_SEQUENCE,
            };
            state.clients.insert(id, client);
            id
        }
    };
    let client = state.clients.get(&clientid).ok_or(Nfsstat4::NFS4ERR_SERVERFAULT)?;
    let confirmed = if client.is_confirmed { ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R.0 } else { 0 };
    let ok = ExchangeId4Resok {
        eir_clientid: clientid,
        // RFC 8881 section 18.35.4 item 2: of a confirmed record, too, the result of the EXCHANGE_ID that created it.
        eir_sequenceid: FIRST_CREATE_SEQUENCE,
        eir_flags: ExchangeIdFlags(ExchangeIdFlags::EXCHGID4_FLAG_USE_NON_PNFS.0 | confirmed),
        eir_state_protect: StateProtect4R::None,
        eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: Opaque(b"loopback") },
        eir_server_scope: Opaque(b"loopback"),
        eir_server_impl_id: XdrArray::default(),
    };
    compound.succeed(Results::EXCHANGE_ID, Box::new(ok))
}

fn create_session(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &CreateSession4Args<'_>,
) -> Result<(), Nfsstat4> {
    let state = &mut server.state;
    let client = state.clients.get_mut(&args.csa_clientid).ok_or(Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
    if args.csa_sequence != client.sequence {
        return Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED);
    }
    client.sequence = client.sequence.wrapping_add(1);
    client.is_confirmed = true;
    let mut id = [0; 16];
    let (first, last) = id.split_at_mut(8);
    first.copy_from_slice(&args.csa_clientid.to_be_bytes());
    last.copy_from_slice(&state.new_number().to_be_bytes());
    let granted = |requested: &ChannelAttrs4<'_>, bytes: u32, operations: u32, slots: u32| ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: requested.ca_maxrequestsize.min(bytes),
        ca_maxresponsesize: requested.ca_maxresponsesize.min(bytes),
        ca_maxresponsesize_cached: requested.ca_maxresponsesize_cached.min(bytes),
        ca_maxoperations: requested.ca_maxoperations.min(operations),
        ca_maxrequests: requested.ca_maxrequests.clamp(1, slots),
        ca_rdma_ird: XdrArray::default(),
    };
    let bytes = server.session_bytes.unwrap_or(server.tree.io_bytes.max(1 << 20) + 4096);
    let operations = server.operations.unwrap_or(OPERATIONS);
    let fore = granted(&args.csa_fore_chan_attrs, bytes, operations, SLOTS);
    let limits = SessionLimits {
        request_bytes: fore.ca_maxrequestsize,
        response_bytes: fore.ca_maxresponsesize,
        operations: fore.ca_maxoperations,
    };
    let slots = (0..fore.ca_maxrequests).map(|_| MockSessionSlot::default()).collect();
    state.sessions.insert(id, MockSession { client: args.csa_clientid, slots, limits });
    server.bound_connections.insert((server.connection, id));
    let flags = args.csa_flags.0 & CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN.0;
    let ok = CreateSession4Resok {
        csr_sessionid: id,
        csr_sequence: args.csa_sequence,
        csr_flags: CreateSessionFlags(flags),
        csr_fore_chan_attrs: fore,
        csr_back_chan_attrs: granted(&args.csa_back_chan_attrs, 4096, 16, 16),
    };
    compound.succeed(Results::CREATE_SESSION, Box::new(ok))
}
