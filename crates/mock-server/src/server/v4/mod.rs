//! COMPOUND of NFSv4.0 to 4.2. RFC 7530 section 15.2, RFC 8881 section 16.2.

mod attributes;
mod clients;
mod namespace_attributes_and_io;
mod opens;
mod state;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, Bitmap4, Clientid4, CompoundCall, CompoundReplyHead, Nfsstat4, Operation, Results, Setattr4Res,
    Stateid4,
};
use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};

use super::file_tree::MockFileId;
use super::{MockNfsError, MockReplyBuffers, MockServer, unreadable};
use nfsrdma_replay::seed::file_server_client::SessionLimits;
use state::MockCachedReply;

pub(super) use state::MockNfs4State;

/// Maximum number of operations in a COMPOUND.
const OPERATIONS: u32 = 64;
/// The highest supported minor version.
const MINOR: u32 = 2;

impl From<MockNfsError> for Nfsstat4 {
    fn from(fail: MockNfsError) -> Self {
        // Both versions share these numbers.
        Self(fail.0)
    }
}

struct MockCompound<'a> {
    minor: u32,
    current: Option<MockFileId>,
    saved: Option<MockFileId>,
    /// The current stateid, which {1, 0} represents: RFC 8881 section 16.2.3.1.2.
    stateid: Option<Stateid4>,
    /// The client of the session.
    client: Option<Clientid4>,
    /// The limits of the session.
    limits: SessionLimits,
    body: Encoder,
    data: &'a mut Vec<Vec<u8>>,
}

impl MockCompound<'_> {
    fn current(&self) -> Result<MockFileId, Nfsstat4> {
        self.current.ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)
    }

    fn saved(&self) -> Result<MockFileId, Nfsstat4> {
        // NFSv4.0 has its own error for RESTOREFH without a saved filehandle: RFC 7530.
        self.saved.ok_or(if self.minor == 0 {
            Nfsstat4::NFS4ERR_RESTOREFH
        } else {
            Nfsstat4::NFS4ERR_NOFILEHANDLE
        })
    }

    /// Replaces the special stateid {1, 0} by the current stateid.
    fn resolve_stateid(&self, stateid: &Stateid4) -> Result<Stateid4, Nfsstat4> {
        if self.minor > 0 && stateid.seqid == 1 && stateid.other == [0; 12] {
            return self.stateid.clone().ok_or(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        Ok(stateid.clone())
    }

    fn succeed<'r, T>(
        &mut self,
        results: impl FnOnce(StatusUnion<Nfsstat4, T>) -> Results<'r>,
        body: T,
    ) -> Result<(), Nfsstat4> {
        self.encode_results(&results(StatusUnion::Ok(body)))
    }

    fn encode_results(&mut self, results: &Results<'_>) -> Result<(), Nfsstat4> {
        results.encode(&mut self.body);
        Ok(())
    }
}

pub(super) fn call(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    room: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    if number == 0 {
        return Ok(());
    }
    let call = CompoundCall::decode(cursor, &mut NullFieldObserver).map_err(unreadable)?;
    let minor = call.head.minorversion;
    let mut run = MockCompound {
        minor,
        current: None,
        saved: None,
        stateid: None,
        client: None,
        limits: SessionLimits::default(),
        body: Encoder::new(),
        data: room.data,
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
                    let known = stop.operation.filter(|operation| operation.name().is_some());
                    run.body.word(known.unwrap_or(Operation::ILLEGAL).0);
                    status = match known {
                        Some(_) => Nfsstat4::NFS4ERR_BADXDR,
                        None => Nfsstat4::NFS4ERR_OP_ILLEGAL,
                    };
                    status.encode(&mut run.body);
                    break;
                }
            };
            count += 1;
            let operation = args.number();
            run.body.word(operation.0);
            let cached = clients::check_position(&run, &args, index, call.count())
                .and_then(|()| clients::sequence(server, &mut run, &args, &mut slot));
            let outcome = match cached {
                Ok(Some(kept)) => {
                    encode_cached_reply(kept, &call, room);
                    return Ok(());
                }
                Ok(None) if call.count() > run.limits.operations => {
                    server.exceeded += 1;
                    Err(Nfsstat4::NFS4ERR_TOO_MANY_OPS)
                }
                Ok(None) => {
                    *server.operation_counts.entry(operation.0).or_default() += 1;
                    step(server, &mut run, &args)
                }
                Err(status) => Err(status),
            };
            if let Err(failed) = outcome {
                status = failed;
                encode_failure(operation, failed, &mut run.body);
                break;
            }
        }
    }
    let body = std::mem::take(&mut run.body);
    CompoundReplyHead { status, tag: call.head.tag }.encode(room.encoder);
    room.encoder.word(count);
    room.encoder.append(&body);
    if let Some(slot) = slot.and_then(|slot| clients::slot(server, slot)) {
        slot.cached_reply = Some(MockCachedReply { status, count, body, data: room.data.clone() });
    }
    Ok(())
}

fn encode_cached_reply(kept: MockCachedReply, call: &CompoundCall<'_>, room: &mut MockReplyBuffers<'_>) {
    CompoundReplyHead { status: kept.status, tag: call.head.tag }.encode(room.encoder);
    room.encoder.word(kept.count);
    room.encoder.append(&kept.body);
    *room.data = kept.data;
}

/// Encodes the results of a failed operation: its status, and for SETATTR an empty mask (RFC 8881 section 18.30.2).
fn encode_failure(operation: Operation, status: Nfsstat4, body: &mut Encoder) {
    match operation {
        Operation::SETATTR => {
            Results::SETATTR(Setattr4Res { status, attrsset: Bitmap4::default() }).encode(body);
        }
        // LOCK and LOCKT have encoded the conflicting lock themselves.
        Operation::LOCK | Operation::LOCKT if status == Nfsstat4::NFS4ERR_DENIED => {}
        _ => status.encode(body),
    }
}

fn step(server: &mut MockServer, run: &mut MockCompound<'_>, args: &Args<'_>) -> Result<(), Nfsstat4> {
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
        | Args::RENEW(_) => clients::step(server, run, args),
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
        | Args::TEST_STATEID(_) => opens::step(server, run, args),
        _ => namespace_attributes_and_io::step(server, run, args),
    }
}
