//! NFSv3 implementation of the file operations. RFC 1813.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v3::{
    Args, Create3Args, Createhow3, Diropargs3, Fattr3, Fsroot3Args, Getattr3Args, Link3Args, Lookup3Args, Mkdir3Args,
    Mknod3Args, Mknoddata3, Mode3, Nfsstat3, Nfstime3, Procedure as Nfs, Read3Args, Readdir3Args, Readlink3Args,
    Remove3Args, Results, Sattr3, SetAtime, SetMtime, Setattr3Args, StableHow, Symlink3Args, Symlinkdata3, Write3Args,
};
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text};
use nfsrdma_rpc::PayloadContentLocation;
use nfsrdma_rpc::synchronous_client::SynchronousProcedureCall;

use super::file_server_client::{
    FileServerClientError, FileServerClientResult, FileSystemCapabilities, FileUserAndGroup, IoLimits, LiveFilehandle,
    LiveObjectAttributes, NewObjectKind, NfsOperationFailure, ObjectVersionAttributes, ReaddirPosition,
    VersionIndependentNfsClient, done_twice,
};
use crate::containment::ContainmentCheckedRpcClient;
use crate::nfs4::backoff::Backoff;
use crate::reply_size::ReplySizeUpperBound;

/// An NFSv3 client. Needs only the first filehandle from the server.
pub struct Nfs3Client<'t> {
    rpc: ContainmentCheckedRpcClient<'t>,
    root: LiveFilehandle,
    io: IoLimits,
    /// `true` if the last procedure was sent again, so that its status may be that of a second execution.
    was_resent: bool,
}

impl<'t> Nfs3Client<'t> {
    /// Creates a client with the filehandle that MOUNT returned for the export.
    pub fn new(rpc: ContainmentCheckedRpcClient<'t>, root: LiveFilehandle) -> Self {
        Self { rpc, root, io: IoLimits::default(), was_resent: false }
    }

    /// Calls a procedure, and returns what `read` extracts from its results.
    fn call<T>(
        &mut self,
        arguments: &Args<'_>,
        data: &[PayloadContentLocation<'_>],
        mut read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<T> {
        let procedure = arguments.operation();
        let size = ReplySizeUpperBound::for_v3(arguments);
        let call = size.apply_to(&SynchronousProcedureCall {
            data,
            ..SynchronousProcedureCall::new(Program::NFS, 3, procedure.number().0, 0)
        });
        let mut backoff = Backoff::default();
        self.was_resent = false;
        loop {
            let outcome = self.rpc.call(
                &call,
                |encoder| arguments.encode(encoder),
                |cursor| {
                    let status = Procedure::V3(procedure).status(*cursor)?;
                    let results = Results::decode(procedure, cursor, &mut NullFieldObserver)?;
                    Ok((Nfsstat3(status.map_or(0, |status| status.number)), read(&results)))
                },
            );
            self.was_resent |= self.rpc.was_resent();
            let (status, value) = outcome?;
            match status {
                Nfsstat3::NFS3_OK => {
                    return value.ok_or_else(|| FileServerClientError::without_requested_item(procedure));
                }
                // RFC 1813 section 2.6.
                Nfsstat3::NFS3ERR_JUKEBOX => match backoff.next_wait() {
                    Some(wait) => std::thread::sleep(wait),
                    None => {
                        let seconds = backoff.waited_seconds();
                        return Err(FileServerClientError::Busy(
                            procedure.to_string(),
                            NfsOperationFailure::V3(status),
                            seconds,
                        ));
                    }
                },
                status => {
                    let reason = NfsOperationFailure::of_v3(status);
                    return Err(FileServerClientError::Refused(procedure.to_string(), reason));
                }
            }
        }
    }

    fn setattr(&mut self, object: &[u8], new_attributes: Sattr3) -> FileServerClientResult<()> {
        let arguments = Args::SETATTR(Setattr3Args { object: Opaque(object), new_attributes, guard: None });
        self.call(&arguments, &[], |_| Some(()))
    }
}

fn attributes(mode: Option<u32>, size: Option<u64>) -> Sattr3 {
    let mode = mode.map(Mode3);
    Sattr3 { mode, uid: None, gid: None, size, atime: SetAtime::DontChange, mtime: SetMtime::DontChange }
}

fn object_version(attributes: &Fattr3) -> ObjectVersionAttributes {
    let time = |time: &Nfstime3| Some(u128::from(time.seconds) << 32 | u128::from(time.nseconds));
    ObjectVersionAttributes {
        change: None,
        modified: time(&attributes.mtime),
        metadata: time(&attributes.ctime),
        fileid: Some(attributes.fileid.into()),
        file_system: Some(attributes.fsid.into()),
    }
}

impl VersionIndependentNfsClient for Nfs3Client<'_> {
    fn export(&mut self, _: &str) -> FileServerClientResult<LiveFilehandle> {
        Ok(self.root.clone())
    }

    fn find(&mut self, directory: &[u8], name: &[u8]) -> FileServerClientResult<LiveFilehandle> {
        let what = Diropargs3 { dir: Opaque(directory), name: Text(name) };
        self.call(&Args::LOOKUP(Lookup3Args { what }), &[], |results| match results {
            Results::LOOKUP(outcome) => outcome.ok().map(|ok| ok.object.0.to_vec()),
            _ => None,
        })
    }

    fn make(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> FileServerClientResult<LiveFilehandle> {
        let r#where = Diropargs3 { dir: Opaque(directory), name: Text(name) };
        let sattr = attributes(Some(mode), None);
        let arguments = match kind {
            NewObjectKind::File => Args::CREATE(Create3Args { r#where, how: Createhow3::Guarded(sattr) }),
            NewObjectKind::Directory => Args::MKDIR(Mkdir3Args { r#where, attributes: sattr }),
            NewObjectKind::Link(text) => {
                let (symlink_attributes, symlink_data) = (attributes(None, None), DdpText::Inline(text));
                let symlink = Symlinkdata3 { symlink_attributes, symlink_data };
                Args::SYMLINK(Symlink3Args { r#where, symlink })
            }
            NewObjectKind::Fifo => Args::MKNOD(Mknod3Args { r#where, what: Mknoddata3::Fifo(sattr) }),
            NewObjectKind::Socket => Args::MKNOD(Mknod3Args { r#where, what: Mknoddata3::Sock(sattr) }),
        };
        let handle = self.call(&arguments, &[], |results| match results {
            Results::CREATE(outcome)
            | Results::MKDIR(outcome)
            | Results::SYMLINK(outcome)
            | Results::MKNOD(outcome) => {
                outcome.ok().map(|created| created.obj.as_ref().map(|object| object.0.to_vec()))
            }
            _ => None,
        });
        let handle = match handle {
            // Its own object, unless that is gone again.
            Err(error) if self.was_resent && error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => None,
            handle => handle?,
        };
        // The Reply may have no filehandle: RFC 1813 section 3.3.8.
        let handle = handle.map_or_else(|| self.lookup(directory, name), |handle| Ok(Some(handle)))?;
        handle.ok_or_else(|| FileServerClientError::unusable(Nfs::LOOKUP, "the new object does not exist"))
    }

    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> FileServerClientResult<()> {
        let link = Diropargs3 { dir: Opaque(directory), name: Text(name) };
        let arguments = Args::LINK(Link3Args { file: Opaque(object), link });
        let result = self.call(&arguments, &[], |_| Some(()));
        done_twice(result, self.was_resent, Nfsstat4::NFS4ERR_EXIST)
    }

    fn remove(&mut self, directory: &[u8], name: &[u8], is_directory: bool) -> FileServerClientResult<()> {
        let arguments = Remove3Args { object: Diropargs3 { dir: Opaque(directory), name: Text(name) } };
        let arguments = if is_directory { Args::RMDIR(arguments) } else { Args::REMOVE(arguments) };
        let result = self.call(&arguments, &[], |_| Some(()));
        done_twice(result, self.was_resent, Nfsstat4::NFS4ERR_NOENT)
    }

    fn set_attributes(&mut self, object: &[u8], mode: Option<u32>, size: Option<u64>) -> FileServerClientResult<()> {
        self.setattr(object, attributes(mode, size))
    }

    fn set_owners(&mut self, object: &[u8], owner: Option<&[u8]>, group: Option<&[u8]>) -> FileServerClientResult<()> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
        let [uid, gid] = [owner, group].map(|text| text.map(number));
        if uid == Some(None) || gid == Some(None) {
            return Err(FileServerClientError::unusable(Nfs::SETATTR, "the owner is not a number"));
        }
        self.setattr(object, Sattr3 { uid: uid.flatten(), gid: gid.flatten(), ..attributes(None, None) })
    }

    fn write_once(&mut self, file: &[u8], offset: u64, data: &[u8]) -> FileServerClientResult<usize> {
        let length = data.len() as u32;
        let arguments = Args::WRITE(Write3Args {
            file: Opaque(file),
            offset,
            count: length,
            stable: StableHow::FILE_SYNC,
            data: Ddp::Chunk { length, bytes: None },
        });
        self.call(&arguments, &[PayloadContentLocation::Copied(data)], |results| match results {
            Results::WRITE(outcome) => outcome.ok().map(|ok| ok.count as usize),
            _ => None,
        })
    }

    fn capabilities(&mut self, object: &[u8]) -> FileServerClientResult<FileSystemCapabilities> {
        let arguments = Args::FSINFO(Fsroot3Args { fsroot: Opaque(object) });
        self.call(&arguments, &[], |results| match results {
            Results::FSINFO(outcome) => outcome.ok().map(|ok| FileSystemCapabilities {
                supported: None,
                lease_seconds: None,
                io: IoLimits::from_server_values(ok.rtmax.into(), ok.wtmax.into()),
            }),
            _ => None,
        })
    }

    fn limit_io(&mut self, limits: IoLimits) {
        self.io = limits;
    }

    fn io_limits(&self) -> IoLimits {
        self.io
    }

    fn status(&mut self, object: &[u8]) -> FileServerClientResult<LiveObjectAttributes> {
        let arguments = Args::GETATTR(Getattr3Args { object: Opaque(object) });
        self.call(&arguments, &[], |results| match results {
            Results::GETATTR(outcome) => outcome.ok().map(|ok| LiveObjectAttributes {
                file_type: ok.obj_attributes.r#type.into(),
                size: ok.obj_attributes.size,
                mode: ok.obj_attributes.mode.0,
                owner: Some(FileUserAndGroup {
                    user: ok.obj_attributes.uid.to_string(),
                    group: ok.obj_attributes.gid.to_string(),
                }),
                version: object_version(&ok.obj_attributes),
            }),
            _ => None,
        })
    }

    fn read(&mut self, file: &[u8], offset: u64, count: u32) -> FileServerClientResult<Vec<u8>> {
        let count = count.min(self.io.read_bytes);
        let arguments = Args::READ(Read3Args { file: Opaque(file), offset, count });
        self.call(&arguments, &[], |results| match results {
            Results::READ(outcome) => outcome.ok().map(|ok| ok.data.bytes().unwrap_or_default().to_vec()),
            _ => None,
        })
    }

    fn read_link(&mut self, link: &[u8]) -> FileServerClientResult<Vec<u8>> {
        let arguments = Args::READLINK(Readlink3Args { symlink: Opaque(link) });
        self.call(&arguments, &[], |results| match results {
            Results::READLINK(outcome) => outcome.ok().map(|ok| ok.data.bytes().unwrap_or_default().to_vec()),
            _ => None,
        })
    }

    fn list_next_names(
        &mut self,
        directory: &[u8],
        listing: &mut ReaddirPosition,
        visit: &mut dyn FnMut(&[u8]),
    ) -> FileServerClientResult<bool> {
        let arguments = Args::READDIR(Readdir3Args {
            dir: Opaque(directory),
            cookie: listing.cookie,
            cookieverf: listing.cookie_verifier,
            count: 2048,
        });
        self.call(&arguments, &[], |results| {
            let Results::READDIR(outcome) = results else { return None };
            let ok = outcome.ok()?;
            listing.cookie_verifier = ok.cookieverf;
            let entries = ok.reply.entries.iter().map(|entry| (entry.cookie, entry.name.0));
            Some(listing.add_reply(entries, ok.reply.eof, visit))
        })
    }

    fn close(&mut self) {
        self.rpc.disconnect();
    }
}
