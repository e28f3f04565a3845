//! COMPOUND of NFSv4.0 to 4.2. RFC 7530 section 15.2, RFC 8881 section 16.2.

mod attributes;
mod clients;
mod compound;
mod namespace_attributes_and_io;
mod opens;
pub(super) mod state;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Args, Bitmap4, CompoundCall, CompoundReplyHead, Nfsstat4, Operation, OperationNumber, Results, Setattr4Res,
};
use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};
use nfsrdma_replay::seed::file_server_client::SessionLimits;

use super::mock_server::MockServer;
use super::reply::{MockReplyBuffers, unreadable};
use compound::{MockCompoundExecution, OPERATIONS};
use state::MockCachedReply;

/// The highest supported minor version.
const MINOR: u32 = 2;

pub(super) fn call(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    buffers: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    if number == 0 {
        return Ok(());
    }
    let call = CompoundCall::decode(cursor, &mut NullFieldObserver).map_err(unreadable)?;
    let minor = call.head.minorversion;
    let mut compound = MockCompoundExecution {
        minor,
        current: None,
        saved: None,
        stateid: None,
        client: None,
        limits: SessionLimits::default(),
        body: Encoder::new(),
        data: buffers.data,
    };
    let (mut status, mut count) = (Nfsstat4::NFS4_OK, 0);
    let mut slot = None;
    if minor > MINOR {
        status = Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
    } else if call.count() > OPERATIONS {
        status = if minor == 0 { Nfsstat4::NFS4ERR_RESOURCE } else { Nfsstat4::NFS4ERR_TOO_MANY_OPS };
    } else {
        for (index, operation) in call.operations().enumerate() {
            let args = match operation {
                Ok(args) => args,
                Err(stop) => {
                    // RFC 8881 section 16.2.4: an unknown operation is OP_ILLEGAL, one that cannot be decoded BADXDR.
                    count += 1;
                    let known_operation = stop.operation.filter(|operation| operation.name().is_some());
                    compound.body.word(known_operation.unwrap_or(OperationNumber::ILLEGAL).0);
                    status = match known_operation {
                        Some(_) => Nfsstat4::NFS4ERR_BADXDR,
                        None => Nfsstat4::NFS4ERR_OP_ILLEGAL,
                    };
                    status.encode(&mut compound.body);
                    break;
                }
            };
            count += 1;
            let operation = args.operation();
            compound.body.word(operation.number().0);
            let may_refuse = server.refusal.as_ref().is_some_and(|refusal| refusal.concerns(&args));
            if let Some(refused) = server.refused_status(may_refuse.then_some(operation.name())) {
                if let (0, Some(refusal)) = (minor, &server.refusal) {
                    refusal.count_seqids(&args, &mut server.state);
                }
                status = Nfsstat4(refused);
                encode_failure(operation, status, &mut compound.body);
                break;
            }
            let cached = clients::check_position(&compound, &args, index, call.count())
                .and_then(|()| clients::sequence(server, &mut compound, &args, &mut slot));
            let outcome = match cached {
                Ok(Some(reply)) => {
                    encode_cached_reply(reply, &call, buffers);
                    return Ok(());
                }
                Ok(None) if call.count() > compound.limits.operations => {
                    server.exceeded += 1;
                    Err(Nfsstat4::NFS4ERR_TOO_MANY_OPS)
                }
                Ok(None) => {
                    *server.operation_counts.entry(operation.number().0).or_default() += 1;
                    step(server, &mut compound, &args)
                }
                Err(status) => Err(status),
            };
            if let Err(error) = outcome {
                status = error;
                encode_failure(operation, error, &mut compound.body);
                break;
            }
        }
    }
    let body = std::mem::take(&mut compound.body);
    CompoundReplyHead { status, tag: call.head.tag }.encode(buffers.encoder);
    buffers.encoder.word(count);
    buffers.encoder.append(&body);
    if let Some(slot) = slot.and_then(|slot| clients::slot(server, slot)) {
        slot.cached_reply = Some(MockCachedReply { status, count, body, data: buffers.data.clone() });
    }
    Ok(())
}

fn encode_cached_reply(reply: MockCachedReply, call: &CompoundCall<'_>, buffers: &mut MockReplyBuffers<'_>) {
    CompoundReplyHead { status: reply.status, tag: call.head.tag }.encode(buffers.encoder);
    buffers.encoder.word(reply.count);
    buffers.encoder.append(&reply.body);
    *buffers.data = reply.data;
}

/// Encodes the results of a failed operation: its status, and for SETATTR an empty mask (RFC 8881 section 18.30.2).
fn encode_failure(operation: Operation, status: Nfsstat4, body: &mut Encoder) {
    match operation {
        Operation::SETATTR => {
            Results::SETATTR(Setattr4Res { status, attrsset: Bitmap4::default() }).encode(body);
        }
        // The client that uses the name: a netid and an address, both empty. RFC 7530 section 16.33.
        Operation::SETCLIENTID if status == Nfsstat4::NFS4ERR_CLID_INUSE => {
            status.encode(body);
            (0..2).for_each(|_| body.word(0));
        }
        // LOCK and LOCKT have encoded the conflicting lock themselves.
        Operation::LOCK | Operation::LOCKT if status == Nfsstat4::NFS4ERR_DENIED => {}
        _ => status.encode(body),
    }
}

fn step(server: &mut MockServer, compound: &mut MockCompoundExecution<'_>, args: &Args<'_>) -> Result<(), Nfsstat4> {
    match args {
        Args::SEQUENCE(_) => Ok(()),
        Args::EXCHANGE_ID(_)
        | Args::CREATE_SESSION(_)
        | Args::DESTROY_SESSION(_)
        | Args::DESTROY_CLIENTID(_)
        | Args::BIND_CONN_TO_SESSION(_)
        | Args::RECLAIM_COMPLETE(_)
        | Args::SETCLIENTID(_)
        | Args::SETCLIENTID_CONFIRM(_)
        | Args::RENEW(_) => clients::step(server, compound, args),
        Args::OPEN(_)
        | Args::OPEN_CONFIRM(_)
        | Args::OPEN_DOWNGRADE(_)
        | Args::CLOSE(_)
        | Args::LOCK(_)
        | Args::LOCKT(_)
        | Args::LOCKU(_)
        | Args::RELEASE_LOCKOWNER(_)
        | Args::FREE_STATEID(_)
        | Args::DELEGRETURN(_)
        | Args::GET_DIR_DELEGATION(_)
        | Args::TEST_STATEID(_) => opens::step(server, compound, args),
        _ => namespace_attributes_and_io::step(server, compound, args),
    }
}
