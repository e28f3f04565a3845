//! NFSv3 implementation of the file operations. RFC 1813.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{
    Args, Create3Args, Create3Resok, Createhow3, Diropargs3, Fattr3, Fsroot3Args, Getattr3Args, Link3Args,
    Lookup3Args, Mkdir3Args, Mknod3Args, Mknoddata3, Mode3, Nfsstat3, Nfstime3, Procedure as Nfs, Read3Args,
    Readdir3Args, Readlink3Args, Remove3Args, Results, Sattr3, SetAtime, SetMtime, Setattr3Args, StableHow,
    Symlink3Args, Symlinkdata3, Write3Args,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text};
use nfsrdma_rpc::OutgoingPayloadMemory;
use nfsrdma_rpc::synchronous_client::SynchronousProcedureCall;

use super::file_server_client::{
    FileServerClient, FileServerClientError, FileSystemCapabilities, FileUserAndGroup, IoLimits,
    LiveFilehandle, LiveObjectAttributes, NewObjectKind, NfsOperationFailure, ObjectVersionAttributes,
    ReaddirPosition,
};
use crate::containment::ContainmentCheckedRpcClient;
use crate::reply_size::ReplySizeUpperBound;

/// Maximum number of attempts when the server asks for a delay, and the delay. RFC 1813 section 2.6: NFS3ERR_JUKEBOX.
const MAX_JUKEBOX_RETRIES: u32 = 120;
const JUKEBOX_RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// An NFSv3 client. Needs only the first filehandle from the server.
pub struct Nfs3Client<'t> {
    rpc: ContainmentCheckedRpcClient<'t>,
    root: LiveFilehandle,
    io: IoLimits,
}

impl<'t> Nfs3Client<'t> {
    /// Creates a client with the filehandle that MOUNT returned for the export.
    pub fn new(line: ContainmentCheckedRpcClient<'t>, root: LiveFilehandle) -> Self {
        Self { rpc: line, root, io: IoLimits::default() }
    }

    fn call<T>(
        &mut self,
        number: Nfs,
        arguments: &Args<'_>,
        data: &[OutgoingPayloadMemory<'_>],
        mut read: impl FnMut(&Results<'_>) -> Result<T, Nfsstat3>,
    ) -> Result<T, FileServerClientError> {
        let size = ReplySizeUpperBound::for_v3(arguments);
        let procedure = size.apply_to(&SynchronousProcedureCall {
            data,
            ..SynchronousProcedureCall::new(Program::NFS, 3, number.0, 0)
        });
        let what = || number.name().unwrap_or("NFSv3").to_owned();
        for _ in 0..MAX_JUKEBOX_RETRIES {
            let found = self.rpc.call(
                &procedure,
                |encoder| arguments.encode(encoder),
                |cursor| Ok(read(&Results::decode(number, cursor, &mut NullFieldObserver)?)),
            )?;
            match found {
                Ok(found) => return Ok(found),
                Err(Nfsstat3::NFS3ERR_JUKEBOX) => std::thread::sleep(JUKEBOX_RETRY_INTERVAL),
                Err(status) => {
                    return Err(FileServerClientError::Refused(what(), NfsOperationFailure::V3(status)));
                }
            }
        }
        Err(FileServerClientError::Busy(
            what(),
            u64::from(MAX_JUKEBOX_RETRIES) * JUKEBOX_RETRY_INTERVAL.as_secs(),
        ))
    }

    fn setattr(&mut self, object: &[u8], new_attributes: Sattr3) -> Result<(), FileServerClientError> {
        let arguments = Args::SETATTR(Setattr3Args { object: Opaque(object), new_attributes, guard: None });
        self.call(Nfs::SETATTR, &arguments, &[], |results| match results {
            Results::SETATTR(outcome) => outcome.ok().map(|_| ()).ok_or(outcome.status()),
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    /// Creates an object and returns its filehandle, with a LOOKUP if the Reply has none (RFC 1813 section 3.3.8).
    fn create_and_get_handle(
        &mut self,
        number: Nfs,
        arguments: &Args<'_>,
        at: Diropargs3<'_>,
        data: &[OutgoingPayloadMemory<'_>],
    ) -> Result<LiveFilehandle, FileServerClientError> {
        let of = |created: &Create3Resok<'_>| created.obj.as_ref().map(|object| object.0.to_vec());
        let handle = self.call(number, arguments, data, |results| match results {
            Results::CREATE(outcome)
            | Results::MKDIR(outcome)
            | Results::SYMLINK(outcome)
            | Results::MKNOD(outcome) => outcome.ok().map(of).ok_or(outcome.status()),
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })?;
        match handle {
            Some(handle) => Ok(handle),
            None => self.lookup(at.dir.0, at.name.0)?.ok_or_else(|| {
                let reason = NfsOperationFailure::UnusableResults("the new object does not exist".into());
                FileServerClientError::Refused(Nfs::LOOKUP.to_string(), reason)
            }),
        }
    }
}

fn attributes(mode: Option<u32>, size: Option<u64>) -> Sattr3 {
    let mode = mode.map(Mode3);
    Sattr3 { mode, uid: None, gid: None, size, atime: SetAtime::DontChange, mtime: SetMtime::DontChange }
}

/// Returns the identity and version of an object.
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

impl FileServerClient for Nfs3Client<'_> {
    fn export(&mut self, _: &str) -> Result<LiveFilehandle, FileServerClientError> {
        Ok(self.root.clone())
    }

    fn lookup(
        &mut self,
        directory: &[u8],
        name: &[u8],
    ) -> Result<Option<LiveFilehandle>, FileServerClientError> {
        let what = Diropargs3 { dir: Opaque(directory), name: Text(name) };
        self.call(Nfs::LOOKUP, &Args::LOOKUP(Lookup3Args { what }), &[], |results| match results {
            Results::LOOKUP(outcome) => match outcome.status() {
                Nfsstat3::NFS3ERR_NOENT => Ok(None),
                status => outcome.ok().map(|ok| Some(ok.object.0.to_vec())).ok_or(status),
            },
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn make(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> Result<LiveFilehandle, FileServerClientError> {
        let at = || Diropargs3 { dir: Opaque(directory), name: Text(name) };
        let given = attributes(Some(mode), None);
        match kind {
            NewObjectKind::File => {
                let how = Createhow3::Guarded(given);
                self.create_and_get_handle(
                    Nfs::CREATE,
                    &Args::CREATE(Create3Args { r#where: at(), how }),
                    at(),
                    &[],
                )
            }
            NewObjectKind::Directory => {
                let make = Mkdir3Args { r#where: at(), attributes: given };
                self.create_and_get_handle(Nfs::MKDIR, &Args::MKDIR(make), at(), &[])
            }
            NewObjectKind::Link(text) => {
                let symlink = Symlinkdata3 {
                    symlink_attributes: attributes(None, None),
                    symlink_data: DdpText::Inline(text),
                };
                self.create_and_get_handle(
                    Nfs::SYMLINK,
                    &Args::SYMLINK(Symlink3Args { r#where: at(), symlink }),
                    at(),
                    &[],
                )
            }
            NewObjectKind::Fifo => {
                let make = Mknod3Args { r#where: at(), what: Mknoddata3::Fifo(given) };
                self.create_and_get_handle(Nfs::MKNOD, &Args::MKNOD(make), at(), &[])
            }
            NewObjectKind::Socket => {
                let make = Mknod3Args { r#where: at(), what: Mknoddata3::Sock(given) };
                self.create_and_get_handle(Nfs::MKNOD, &Args::MKNOD(make), at(), &[])
            }
        }
    }

    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> Result<(), FileServerClientError> {
        let link = Diropargs3 { dir: Opaque(directory), name: Text(name) };
        let arguments = Args::LINK(Link3Args { file: Opaque(object), link });
        self.call(Nfs::LINK, &arguments, &[], |results| match results {
            Results::LINK(outcome) => outcome.ok().map(|_| ()).ok_or(outcome.status()),
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn remove(
        &mut self,
        directory: &[u8],
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), FileServerClientError> {
        let object = || Diropargs3 { dir: Opaque(directory), name: Text(name) };
        let (procedure, arguments) = match is_directory {
            true => (Nfs::RMDIR, Args::RMDIR(Remove3Args { object: object() })),
            false => (Nfs::REMOVE, Args::REMOVE(Remove3Args { object: object() })),
        };
        self.call(procedure, &arguments, &[], |results| match results {
            Results::REMOVE(outcome) | Results::RMDIR(outcome) => {
                outcome.ok().map(|_| ()).ok_or(outcome.status())
            }
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn set_attributes(
        &mut self,
        object: &[u8],
        mode: Option<u32>,
        size: Option<u64>,
    ) -> Result<(), FileServerClientError> {
        self.setattr(object, attributes(mode, size))
    }

    fn set_owners(
        &mut self,
        object: &[u8],
        owner: Option<&[u8]>,
        group: Option<&[u8]>,
    ) -> Result<(), FileServerClientError> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
        let [uid, gid] = [owner, group].map(|text| text.map(number));
        if uid == Some(None) || gid == Some(None) {
            let reason = NfsOperationFailure::UnusableResults("the owner is not a number".into());
            return Err(FileServerClientError::Refused(Nfs::SETATTR.to_string(), reason));
        }
        self.setattr(object, Sattr3 { uid: uid.flatten(), gid: gid.flatten(), ..attributes(None, None) })
    }

    fn write(&mut self, file: &[u8], offset: u64, data: &[u8]) -> Result<(), FileServerClientError> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let rest = rest.get(..self.io.write_bytes as usize).unwrap_or(rest);
            let length = rest.len() as u32;
            let arguments = Args::WRITE(Write3Args {
                file: Opaque(file),
                offset: offset + done as u64,
                count: length,
                stable: StableHow::FILE_SYNC,
                data: Ddp::Chunk { length, bytes: None },
            });
            let count =
                self.call(Nfs::WRITE, &arguments, &[OutgoingPayloadMemory::Copied(rest)], |results| {
                    match results {
                        Results::WRITE(outcome) => {
                            outcome.ok().map(|ok| ok.count as usize).ok_or(outcome.status())
                        }
                        _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
                    }
                })?;
            if count == 0 || count > rest.len() {
                let reason = NfsOperationFailure::UnusableResults(format!("{count} bytes of {}", rest.len()));
                return Err(FileServerClientError::Refused(Nfs::WRITE.to_string(), reason));
            }
            done += count;
        }
        Ok(())
    }

    fn is_empty(&mut self, directory: &[u8]) -> Result<bool, FileServerClientError> {
        let arguments = Args::READDIR(Readdir3Args {
            dir: Opaque(directory),
            cookie: 0,
            cookieverf: [0; 8],
            count: 2048,
        });
        self.call(Nfs::READDIR, &arguments, &[], |results| match results {
            Results::READDIR(outcome) => outcome
                .ok()
                .map(|ok| ok.reply.entries.iter().all(|entry| matches!(entry.name.0, b"." | b"..")))
                .ok_or(outcome.status()),
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn capabilities(&mut self, object: &[u8]) -> Result<FileSystemCapabilities, FileServerClientError> {
        let arguments = Args::FSINFO(Fsroot3Args { fsroot: Opaque(object) });
        let io = self.call(Nfs::FSINFO, &arguments, &[], |results| match results {
            Results::FSINFO(outcome) => outcome
                .ok()
                .map(|ok| IoLimits::from_server_values(ok.rtmax.into(), ok.wtmax.into()))
                .ok_or(outcome.status()),
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })?;
        Ok(FileSystemCapabilities { supported: None, io })
    }

    fn limit_io(&mut self, limits: IoLimits) {
        self.io = limits;
    }

    fn status(&mut self, object: &[u8]) -> Result<LiveObjectAttributes, FileServerClientError> {
        let arguments = Args::GETATTR(Getattr3Args { object: Opaque(object) });
        self.call(Nfs::GETATTR, &arguments, &[], |results| match results {
            Results::GETATTR(outcome) => {
                outcome.ok().ok_or(outcome.status()).map(|ok| LiveObjectAttributes {
                    file_type: ok.obj_attributes.r#type.into(),
                    size: ok.obj_attributes.size,
                    mode: ok.obj_attributes.mode.0,
                    owner: Some(FileUserAndGroup {
                        user: ok.obj_attributes.uid.to_string(),
                        group: ok.obj_attributes.gid.to_string(),
                    }),
                    version: object_version(&ok.obj_attributes),
                })
            }
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn read(&mut self, file: &[u8], offset: u64, count: u32) -> Result<Vec<u8>, FileServerClientError> {
        let count = count.min(self.io.read_bytes);
        let arguments = Args::READ(Read3Args { file: Opaque(file), offset, count });
        self.call(Nfs::READ, &arguments, &[], |results| match results {
            Results::READ(outcome) => {
                outcome.ok().map(|ok| ok.data.bytes().unwrap_or_default().to_vec()).ok_or(outcome.status())
            }
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn read_link(&mut self, link: &[u8]) -> Result<Vec<u8>, FileServerClientError> {
        let arguments = Args::READLINK(Readlink3Args { symlink: Opaque(link) });
        self.call(Nfs::READLINK, &arguments, &[], |results| match results {
            Results::READLINK(outcome) => {
                outcome.ok().map(|ok| ok.data.bytes().unwrap_or_default().to_vec()).ok_or(outcome.status())
            }
            _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
        })
    }

    fn list_names(
        &mut self,
        directory: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), FileServerClientError> {
        let mut listing = ReaddirPosition::default();
        loop {
            let arguments = Args::READDIR(Readdir3Args {
                dir: Opaque(directory),
                cookie: listing.cookie,
                cookieverf: listing.cookie_verifier,
                count: 2048,
            });
            let is_over = self.call(Nfs::READDIR, &arguments, &[], |results| match results {
                Results::READDIR(outcome) => {
                    let ok = outcome.ok().ok_or(outcome.status())?;
                    listing.cookie_verifier = ok.cookieverf;
                    let entries = ok.reply.entries.iter().map(|entry| (entry.cookie, entry.name.0));
                    Ok(listing.add_reply(entries, ok.reply.eof, each))
                }
                _ => Err(Nfsstat3::NFS3ERR_SERVERFAULT),
            })?;
            if is_over {
                return Ok(());
            }
        }
    }

    fn close(&mut self) {
        self.rpc.disconnect();
    }
}
