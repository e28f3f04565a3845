//! Reverse direction: a session whose backchannel is the RDMA connection itself, a delegation, and the server's
//! CB_RECALL of it (RFC 8167, RFC 8881 sections 18.36 and 20.2).

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, CallbackSecParms4, CbArgs, CbCompoundCall, CbCompoundReply, CbResults, CbSequence4Resok, ChannelAttrs4,
    ClientOwner4, Close4Args, CompoundReply, CompoundReplyHead, CreateSession4Args, CreateSessionFlags,
    Delegreturn4Args, DestroyClientid4Args, DestroySession4Args, ExchangeId4Args, ExchangeIdFlags, Lookup4Args,
    Nfsstat4, ObjectFh4, Open4Args, OpenClaim4, OpenDelegation4, OpenOwner4, Openflag4, Opentype4,
    ReclaimComplete4Args, Results, Sequence4Args, ShareAccess, ShareDeny, StateProtect4A, Stateid4,
};
use nfsrdma_dissectors::rpc::auth::{AuthNoneVerifier, AuthNoneVerifierBody};
use nfsrdma_dissectors::rpc::{self, AcceptedReply, Program, ReplyData, RpcMsg, RpcMsgBody, Verifier, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text, Void, Xdr, XdrArray};
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::verbs::VerbsTransport;
use nfsrdma_rpc::{ConnectOptions, RpcClientConnectionId, RpcClientTransport, RpcClientTransportEvent};

use super::{Client, PATIENCE};

/// Obtains a read delegation of a file, signals it by creating the file `sign`, answers the server's Calls, and returns
/// the delegation.
pub(crate) fn recall(address: &str, path: &str, sign: &str) -> Result<()> {
    let Client { mut transport, connection, .. } = Client::connect(address, ConnectOptions::default())?;
    let mut session = Session::new(&mut transport, connection)?;
    let (file, open, delegation) = session.open(&mut transport, connection, path)?;
    println!("ok a read delegation");
    fs::write(Path::new(sign), "")?;

    let recalled = answer_recall(&mut transport, connection, &delegation)?;
    println!("ok CB_RECALL after {recalled} other calls of the server, answered");
    session.give_back(&mut transport, connection, &file, open, delegation)?;
    let counts = *transport.counts(connection).context("no counts")?;
    ensure!(counts.reverse_calls > u64::from(recalled), "{counts:?}");
    println!("ok DELEGRETURN: {counts:?}");
    Ok(())
}

struct Session {
    clientid: u64,
    id: [u8; 16],
    sequence: u32,
    xid: u32,
}

/// Runs operations in NFSv4.1, all of which must succeed.
fn run<T>(
    transport: &mut VerbsTransport,
    connection: RpcClientConnectionId,
    xid: &mut u32,
    operations: &[Args<'_>],
    mut read: impl FnMut(&Results<'_>) -> Option<T>,
) -> Result<Option<T>> {
    *xid += 1;
    let mut line = RpcClient::new(transport, connection, AuthSysCredential::default(), Xid(*xid), PATIENCE);
    let more = SynchronousProcedureCall::new(Program::NFS, 4, 1, 4096);
    let outcome = line.compound(1, operations, &more, |reply: &CompoundReply<'_>| {
        let mut found = None;
        for results in reply.operations() {
            let results = results.map_err(|stop| stop.error)?;
            if results.status() != Nfsstat4::NFS4_OK {
                return Ok(Err(format!("{}: {}", results.operation(), results.status())));
            }
            found = read(&results).or(found);
        }
        Ok(Ok(found))
    })?;
    outcome.map_err(anyhow::Error::msg)
}

impl Session {
    /// Registers the client, and offers the connection as backchannel.
    fn new(transport: &mut VerbsTransport, connection: RpcClientConnectionId) -> Result<Self> {
        let mut xid = 0x6000_0000;
        let exchange = Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [9; 8], co_ownerid: Opaque(b"transport_exercise") },
            eia_flags: ExchangeIdFlags(0),
            eia_state_protect: StateProtect4A::None,
            eia_client_impl_id: XdrArray::default(),
        }));
        let given = run(transport, connection, &mut xid, &[exchange], |results| match results {
            Results::EXCHANGE_ID(StatusUnion::Ok(given)) => Some((given.eir_clientid, given.eir_sequenceid)),
            _ => None,
        })?;
        let (clientid, csa_sequence) = given.context("EXCHANGE_ID gave nothing")?;
        let channel = || ChannelAttrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 4096,
            ca_maxresponsesize: 4096,
            ca_maxresponsesize_cached: 4096,
            ca_maxoperations: 16,
            ca_maxrequests: 4,
            ca_rdma_ird: XdrArray::default(),
        };
        let create = Args::CREATE_SESSION(Box::new(CreateSession4Args {
            csa_clientid: clientid,
            csa_sequence,
            csa_flags: CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
            csa_fore_chan_attrs: channel(),
            csa_back_chan_attrs: channel(),
            csa_cb_program: Program::NFS_CB.0,
            csa_sec_parms: XdrArray::from(&[CallbackSecParms4::None][..]),
        }));
        let given = run(transport, connection, &mut xid, &[create], |results| match results {
            Results::CREATE_SESSION(StatusUnion::Ok(given)) => Some((given.csr_sessionid, given.csr_flags)),
            _ => None,
        })?;
        let (id, flags) = given.context("CREATE_SESSION gave nothing")?;
        let back = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        ensure!(flags.contains(back), "the server does not take the connection for its calls");
        println!("ok a session whose backchannel is this connection");
        let mut session = Self { clientid, id, sequence: 0, xid };
        let complete = Args::RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false });
        session.run(transport, connection, &[complete], |_| None::<()>)?;
        Ok(session)
    }

    fn run<T>(
        &mut self,
        transport: &mut VerbsTransport,
        connection: RpcClientConnectionId,
        operations: &[Args<'_>],
        read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        self.sequence += 1;
        let mut all = vec![Args::SEQUENCE(Sequence4Args {
            sa_sessionid: self.id,
            sa_sequenceid: self.sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        })];
        all.extend_from_slice(operations);
        run(transport, connection, &mut self.xid, &all, read)
    }

    /// Opens a file for reading with a delegation. Returns its filehandle and both stateids.
    fn open(
        &mut self,
        transport: &mut VerbsTransport,
        connection: RpcClientConnectionId,
        path: &str,
    ) -> Result<(Vec<u8>, Stateid4, Stateid4)> {
        let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let name = names.pop().context("no file in the path")?;
        let mut operations = vec![Args::PUTROOTFH(Void)];
        operations.extend(names.iter().map(|name| Args::LOOKUP(Lookup4Args { objname: Text(name.as_bytes()) })));
        operations.push(Args::OPEN(Open4Args {
            seqid: 0,
            share_access: ShareAccess(
                ShareAccess::OPEN4_SHARE_ACCESS_READ.0 | ShareAccess::OPEN4_SHARE_ACCESS_WANT_READ_DELEG.0,
            ),
            share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: OpenOwner4 { clientid: self.clientid, owner: Opaque(b"exercise") },
            openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
            claim: OpenClaim4::Null(Text(name.as_bytes())),
        }));
        operations.push(Args::GETFH(Void));
        let (mut stateids, mut printed) = (None, String::new());
        let handle = self.run(transport, connection, &operations, |results| match results {
            Results::OPEN(StatusUnion::Ok(open)) => {
                printed = format!("{:?}", open.delegation);
                if let OpenDelegation4::Read(delegation) = &open.delegation {
                    stateids = Some((open.stateid.clone(), delegation.stateid.clone()));
                }
                None
            }
            Results::GETFH(StatusUnion::Ok(found)) => Some(found.object.0.to_vec()),
            _ => None,
        })?;
        let (open, delegation) = stateids.with_context(|| format!("no read delegation: {printed}"))?;
        Ok((handle.context("no filehandle")?, open, delegation))
    }

    fn give_back(
        &mut self,
        transport: &mut VerbsTransport,
        connection: RpcClientConnectionId,
        file: &[u8],
        open: Stateid4,
        delegation: Stateid4,
    ) -> Result<()> {
        let here = || Args::PUTFH(ObjectFh4 { object: Opaque(file) });
        let back = [here(), Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: delegation })];
        self.run(transport, connection, &back, |_| None::<()>)?;
        let close = [here(), Args::CLOSE(Close4Args { seqid: 0, open_stateid: open })];
        self.run(transport, connection, &close, |_| None::<()>)?;
        let destroy = [Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: self.id })];
        run(transport, connection, &mut self.xid, &destroy, |_| None::<()>)?;
        let destroy = [Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: self.clientid })];
        run(transport, connection, &mut self.xid, &destroy, |_| None::<()>)?;
        Ok(())
    }
}

/// Answers the server's Calls until it recalls the delegation. Returns the number of Calls before.
fn answer_recall(
    transport: &mut VerbsTransport,
    connection: RpcClientConnectionId,
    delegation: &Stateid4,
) -> Result<u32> {
    let deadline = Instant::now() + PATIENCE;
    for others in 0.. {
        let (xid, answer, recalled) = loop {
            match transport.poll(Some(deadline))? {
                Some(RpcClientTransportEvent::Call(call)) => {
                    let (answer, recalled) = answer(call.message)?;
                    break (call.xid, answer, recalled);
                }
                Some(RpcClientTransportEvent::Credits { .. }) => {}
                Some(other) => bail!("{other:?}"),
                None => bail!("no call of the server within {PATIENCE:?}"),
            }
        };
        transport.answer(connection, xid, &answer)?;
        transport.flush();
        if recalled.as_ref() == Some(delegation) {
            return Ok(others);
        }
    }
    unreachable!("the deadline comes first")
}

/// Returns the Reply to a Call of the server, and the stateid that it recalls.
fn answer(message: &[u8]) -> Result<(Vec<u8>, Option<Stateid4>)> {
    let mut cursor = Cursor::new(message);
    let RpcMsg { xid, body } = RpcMsg::decode(&mut cursor, &mut NullFieldObserver)?;
    let RpcMsgBody::Call(call) = body else { bail!("{body:?}") };
    ensure!(call.prog == Program::NFS_CB, "a call of program {}", call.prog.0);
    let mut encoder = Encoder::new();
    let verf = Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() });
    let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data: ReplyData::Success });
    RpcMsg { xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
    let mut recalled = None;
    // CB_NULL has no results.
    if call.proc == 1 {
        let call = CbCompoundCall::decode(&mut cursor, &mut NullFieldObserver)?;
        let mut results = Vec::new();
        for operation in call.operations() {
            results.push(match operation.map_err(|stop| stop.error)? {
                CbArgs::CB_SEQUENCE(asked) => CbResults::CB_SEQUENCE(StatusUnion::Ok(CbSequence4Resok {
                    csr_sessionid: asked.csa_sessionid,
                    csr_sequenceid: asked.csa_sequenceid,
                    csr_slotid: asked.csa_slotid,
                    csr_highest_slotid: asked.csa_highest_slotid,
                    csr_target_highest_slotid: asked.csa_highest_slotid,
                })),
                CbArgs::CB_RECALL(asked) => {
                    recalled = Some(asked.stateid);
                    CbResults::CB_RECALL(StatusUnion::Ok(Void))
                }
                CbArgs::CB_RECALL_ANY(_) => CbResults::CB_RECALL_ANY(StatusUnion::Ok(Void)),
                other => bail!("{other:?}"),
            });
        }
        let head = CompoundReplyHead { status: Nfsstat4::NFS4_OK, tag: Text(b"") };
        CbCompoundReply::new(head, &results).encode(&mut encoder);
    }
    Ok((encoder.finish().0, recalled))
}
