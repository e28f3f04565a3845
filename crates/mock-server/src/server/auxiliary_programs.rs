//! The auxiliary programs of NFS: the port mapper, MOUNT and NLM. RFC 1833 section 3, RFC 1813 sections 5 and 6.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::mount::{MountAuthFlavor, Mountres3Ok, Mountstat3, v3 as mount};
use nfsrdma_dissectors::nfs::nlm::v4::{
    self as nlm, Nlm4Lock, Nlm4Res, Nlm4Stats, Nlm4Testres, Nlm4Testrply,
};
use nfsrdma_dissectors::nfs::rpcbind::v2 as portmap;
use nfsrdma_dissectors::nfs::{StatusUnion, StatusUnionDiscriminant};
use nfsrdma_dissectors::rpc::{AcceptStat, Program};
use nfsrdma_dissectors::xdr::{Cursor, List, Opaque, Void};

use super::v3::handle;
use super::{MockFileTree, MockNfsError, MockReplyBuffers, MockServer, unreadable};

/// Maximum number of locks.
const LOCKS: usize = 1 << 16;

/// An NLM lock: an inclusive byte range of a file, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MockNlmLock {
    file: Vec<u8>,
    owner: (Vec<u8>, i32),
    first: u64,
    last: u64,
    is_exclusive: bool,
}

impl MockNlmLock {
    fn from_request(asked: &Nlm4Lock<'_>, is_exclusive: bool) -> Self {
        // A length of 0 means up to the end of the file.
        let last = asked.l_len.checked_sub(1).map_or(u64::MAX, |more| asked.l_offset.saturating_add(more));
        let owner = (asked.oh.0.to_vec(), asked.svid);
        Self { file: asked.fh.0.to_vec(), owner, first: asked.l_offset, last, is_exclusive }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && self.first <= other.last && other.first <= self.last
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        self.overlaps(other) && self.owner != other.owner && (self.is_exclusive || other.is_exclusive)
    }
}

/// Executes a procedure of the port mapper, which reports one port for MOUNT and NLM.
pub(super) fn port_mapper(
    server: &MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    room: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    match portmap::Args::decode(portmap::Procedure(number), cursor, &mut NullFieldObserver)
        .map_err(unreadable)?
    {
        portmap::Args::NULL(_) => portmap::Results::NULL(Void).encode(room.encoder),
        portmap::Args::GETPORT(asked) => {
            let is_there = matches!((asked.prog, asked.vers), (Program::MOUNT, 3) | (Program::NLM, 4));
            let port = if is_there { server.port.into() } else { 0 };
            portmap::Results::GETPORT(portmap::GetportRes { port }).encode(room.encoder);
        }
        _ => return Err(AcceptStat::PROC_UNAVAIL),
    }
    Ok(())
}

pub(super) fn mount(
    server: &MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    room: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    match mount::Args::decode(mount::Procedure(number), cursor, &mut NullFieldObserver).map_err(unreadable)? {
        mount::Args::NULL(_) => mount::Results::NULL(Void).encode(room.encoder),
        mount::Args::UMNT(_) => mount::Results::UMNT(Void).encode(room.encoder),
        mount::Args::MNT(asked) => {
            let mut names = asked.dirpath.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            let found =
                names.try_fold(MockFileTree::ROOT, |directory, name| server.tree.lookup(directory, name));
            let results = match found {
                Ok(id) => StatusUnion::Ok(Mountres3Ok {
                    fhandle: Opaque(&handle(id)[..]),
                    auth_flavors: List::from(&[MountAuthFlavor::AUTH_SYS][..]),
                }),
                Err(MockNfsError(status)) => StatusUnion::Fail(Mountstat3(status), Void),
            };
            mount::Results::MNT(results).encode(room.encoder);
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
    room: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    use nlm::{Args, Results};
    let locks = &mut server.locks;
    match nlm::Args::decode(nlm::Procedure(number), cursor, &mut NullFieldObserver).map_err(unreadable)? {
        Args::NULL(_) => Results::NULL(Void).encode(room.encoder),
        Args::TEST(asked) => {
            let lock = MockNlmLock::from_request(&asked.alock, asked.exclusive);
            let test_stat = match locks.iter().find(|held| held.conflicts_with(&lock)) {
                None => Nlm4Testrply::Other(Nlm4Stats::OK),
                Some(held) => Nlm4Testrply::Denied(nlm::Nlm4Holder {
                    exclusive: held.is_exclusive,
                    svid: held.owner.1,
                    oh: Opaque(&held.owner.0),
                    l_offset: held.first,
                    l_len: if held.last == u64::MAX { 0 } else { held.last - held.first + 1 },
                }),
            };
            Results::TEST(Nlm4Testres { cookie: asked.cookie, test_stat }).encode(room.encoder);
        }
        Args::LOCK(asked) => {
            let lock = MockNlmLock::from_request(&asked.alock, asked.exclusive);
            let stat = match locks.iter().any(|held| held.conflicts_with(&lock)) {
                true if asked.block => Nlm4Stats::NLM4_BLOCKED,
                true => Nlm4Stats::NLM4_DENIED,
                false if locks.len() >= LOCKS => Nlm4Stats::NLM4_DENIED_NOLOCKS,
                false => {
                    locks.push(lock);
                    Nlm4Stats::OK
                }
            };
            Results::LOCK(Nlm4Res { cookie: asked.cookie, stat }).encode(room.encoder);
        }
        Args::CANCEL(asked) => {
            Results::CANCEL(Nlm4Res { cookie: asked.cookie, stat: Nlm4Stats::OK }).encode(room.encoder);
        }
        Args::UNLOCK(asked) => {
            let lock = MockNlmLock::from_request(&asked.alock, true);
            locks.retain(|held| held.owner != lock.owner || !held.overlaps(&lock));
            Results::UNLOCK(Nlm4Res { cookie: asked.cookie, stat: Nlm4Stats::OK }).encode(room.encoder);
        }
        _ => return Err(AcceptStat::PROC_UNAVAIL),
    }
    Ok(())
}
