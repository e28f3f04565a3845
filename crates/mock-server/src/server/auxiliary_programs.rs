//! The auxiliary programs of NFS: the port mapper, MOUNT and NLM. RFC 1833 section 3, RFC 1813 sections 5 and 6.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::mount::{MountAuthFlavor, Mountres3Ok, Mountstat3, v3 as mount};
use nfsrdma_dissectors::nfs::nlm::v4::{self as nlm, Nlm4Res, Nlm4Stats, Nlm4Testres, Nlm4Testrply};
use nfsrdma_dissectors::nfs::rpcbind::v2 as portmap;
use nfsrdma_dissectors::nfs::{StatusUnion, StatusUnionDiscriminant};
use nfsrdma_dissectors::rpc::{AcceptStat, Program};
use nfsrdma_dissectors::xdr::{Cursor, Opaque, Void, XdrArray};

use super::file_tree::MockFileTree;
use super::filehandle::handle;
use super::mock_server::MockServer;
use super::nfs_error::MockNfsError;
use super::nlm_lock::MockNlmLock;
use super::reply::{MockReplyBuffers, unreadable};

/// Maximum number of locks.
const MAX_LOCKS: usize = 1 << 16;

/// Executes a procedure of the port mapper, which reports one port for MOUNT and NLM.
pub(super) fn port_mapper(
    server: &MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    buffers: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    let procedure = portmap::ProcedureNumber(number).known().ok_or(AcceptStat::PROC_UNAVAIL)?;
    match portmap::Args::decode(procedure, cursor, &mut NullFieldObserver).map_err(unreadable)? {
        portmap::Args::NULL(_) => portmap::Results::NULL(Void).encode(buffers.encoder),
        portmap::Args::GETPORT(args) => {
            let is_registered = matches!((args.prog, args.vers), (Program::MOUNT, 3) | (Program::NLM, 4));
            let port = if is_registered { server.port.into() } else { 0 };
            portmap::Results::GETPORT(portmap::GetportRes { port }).encode(buffers.encoder);
        }
        _ => return Err(AcceptStat::PROC_UNAVAIL),
    }
    Ok(())
}

pub(super) fn mount(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    buffers: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    let procedure = mount::ProcedureNumber(number).known().ok_or(AcceptStat::PROC_UNAVAIL)?;
    match mount::Args::decode(procedure, cursor, &mut NullFieldObserver).map_err(unreadable)? {
        mount::Args::NULL(_) => mount::Results::NULL(Void).encode(buffers.encoder),
        mount::Args::UMNT(_) => mount::Results::UMNT(Void).encode(buffers.encoder),
        mount::Args::MNT(args) => {
            let mut names = args.dirpath.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            let directory = names.try_fold(MockFileTree::ROOT, |directory, name| server.tree.lookup(directory, name));
            let refused = server.refused_status(Some(mount::Procedure::MNT.name()));
            let results = match refused.map_or(directory, |status| Err(MockNfsError(status))) {
                Ok(id) => StatusUnion::Ok(Mountres3Ok {
                    fhandle: Opaque(&handle(id)[..]),
                    auth_flavors: XdrArray::from(&[MountAuthFlavor::AUTH_SYS][..]),
                }),
                Err(MockNfsError(status)) => StatusUnion::Fail(Mountstat3(status), Void),
            };
            mount::Results::MNT(results).encode(buffers.encoder);
        }
        _ => return Err(AcceptStat::PROC_UNAVAIL),
    }
    Ok(())
}

/// Executes a procedure of NLM version 4. A client that would have to wait gets NLM4_BLOCKED, but no callback.
pub(super) fn nlm(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    buffers: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    use nlm::{Args, Results};
    let locks = &mut server.locks;
    let procedure = nlm::ProcedureNumber(number).known().ok_or(AcceptStat::PROC_UNAVAIL)?;
    match nlm::Args::decode(procedure, cursor, &mut NullFieldObserver).map_err(unreadable)? {
        Args::NULL(_) => Results::NULL(Void).encode(buffers.encoder),
        Args::TEST(args) => {
            let lock = MockNlmLock::from_request(&args.alock, args.exclusive);
            let test_stat = match locks.iter().find(|existing| existing.conflicts_with(&lock)) {
                None => Nlm4Testrply::Other(Nlm4Stats::OK),
                Some(existing) => Nlm4Testrply::Denied(nlm::Nlm4Holder {
                    exclusive: existing.is_exclusive,
                    svid: existing.owner.1,
                    oh: Opaque(&existing.owner.0),
                    l_offset: existing.first,
                    l_len: if existing.last == u64::MAX { 0 } else { existing.last - existing.first + 1 },
                }),
            };
            Results::TEST(Nlm4Testres { cookie: args.cookie, test_stat }).encode(buffers.encoder);
        }
        Args::LOCK(args) => {
            let lock = MockNlmLock::from_request(&args.alock, args.exclusive);
            let stat = match locks.iter().any(|existing| existing.conflicts_with(&lock)) {
                true if args.block => Nlm4Stats::NLM4_BLOCKED,
                true => Nlm4Stats::NLM4_DENIED,
                false if locks.len() >= MAX_LOCKS => Nlm4Stats::NLM4_DENIED_NOLOCKS,
                false => {
                    locks.push(lock);
                    Nlm4Stats::OK
                }
            };
            Results::LOCK(Nlm4Res { cookie: args.cookie, stat }).encode(buffers.encoder);
        }
        Args::CANCEL(args) => {
            Results::CANCEL(Nlm4Res { cookie: args.cookie, stat: Nlm4Stats::OK }).encode(buffers.encoder);
        }
        Args::UNLOCK(args) => {
            let lock = MockNlmLock::from_request(&args.alock, true);
            locks.retain(|existing| existing.owner != lock.owner || !existing.overlaps(&lock));
            Results::UNLOCK(Nlm4Res { cookie: args.cookie, stat: Nlm4Stats::OK }).encode(buffers.encoder);
        }
        _ => return Err(AcceptStat::PROC_UNAVAIL),
    }
    Ok(())
}
