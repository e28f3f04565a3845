//! NFSv4 implementation of the file operations, for any of the minor versions to try.

use std::fmt;

use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, Bitmap4, Close4Args, Create4Args, Createhow4, Createtype4, Fattr4, Getattr4Args,
    Link4Args, Lookup4Args, Mode4, NfsFtype4, Nfsstat4, Nfstime4, ObjectFh4, Open4Args, OpenClaim4, OpenConfirm4Args,
    OpenOwner4, OpenRflags, Openflag4, Opentype4, Operation, Read4Args, Readdir4Args, Remove4Args, Results,
    Setattr4Args, ShareAccess, ShareDeny, StableHow4, Stateid4, Write4Args, mask_and_values, words_for_bits,
};
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text, Void};
use nfsrdma_rpc::PayloadContentLocation;

use super::file_server_client::{
    FileServerClientError, FileServerClientResult, FileSystemCapabilities, FileUserAndGroup, IoLimits, LiveFilehandle,
    LiveObjectAttributes, NewObjectKind, ObjectVersionAttributes, ReaddirPosition, VersionIndependentNfsClient,
    done_twice,
};
use crate::containment::ContainmentCheckedRpcClient;
use crate::nfs4::caller::Caller;
use crate::nfs4::client::Client;

pub use crate::nfs4::client::ClientidAndSessionState;

/// The verifier of the client, which does not restart.
const VERIFIER: [u8; 8] = [7; 8];

/// The anonymous stateid, which represents no open. RFC 8881 section 8.2.3.
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };

/// Bytes reserved in a Call and a Reply in addition to file data: headers with a long credential, SEQUENCE, filehandles
/// and attributes.
const MESSAGE_OVERHEAD_BYTES: u32 = 2048;

/// An NFSv4 client.
pub struct Nfs4Client<'t> {
    caller: Caller<ContainmentCheckedRpcClient<'t>>,
    io: IoLimits,
}

impl<'t> Nfs4Client<'t> {
    /// Registers at the server as a client with this name, with the first of `minors` that the server has.
    ///
    /// # Errors
    /// Returns an error if the server has none of the minor versions, refuses, or does not answer.
    pub fn new(rpc: ContainmentCheckedRpcClient<'t>, name: &str, minors: &[u32]) -> FileServerClientResult<Self> {
        Self::register(rpc, name, Client::new(name, VERIFIER, minors))
    }

    /// Registers as [`new`](Self::new), and leaves RECLAIM_COMPLETE to the component that continues with the state.
    ///
    /// # Errors
    /// Returns an error if the server does not have the minor version, refuses, or does not answer.
    pub fn without_completion(
        rpc: ContainmentCheckedRpcClient<'t>,
        name: &str,
        minor: u32,
    ) -> FileServerClientResult<Self> {
        Self::register(rpc, name, Client::new(name, VERIFIER, &[minor]).without_completion())
    }

    fn register(mut rpc: ContainmentCheckedRpcClient<'t>, name: &str, client: Client) -> FileServerClientResult<Self> {
        rpc.add_client_identity(name);
        let mut client = Self { caller: Caller::new(rpc, client), io: IoLimits::default() };
        client.caller.establish(|_| {})?;
        Ok(client)
    }

    /// Destroys the session; the client ID stays confirmed. RFC 8881 section 18.37.
    pub fn destroy_session(&mut self) {
        self.caller.destroy_session();
    }

    /// Returns the client state, for another component to continue with; `None` if the server has just lost it.
    pub fn hand_over(self) -> Option<ClientidAndSessionState> {
        self.caller.client.established()
    }

    /// Opens a file by its filehandle (RFC 8881 section 18.16.4, CLAIM_FH). `access` is 1 for reading, 2 for writing, 3
    /// for both. Each owner has its own stateid.
    ///
    /// # Errors
    /// Returns an error if the server refuses or does not answer, and in NFSv4.0, which has no such claim.
    pub fn open(&mut self, file: &[u8], owner: u32, access: u32) -> FileServerClientResult<Stateid4> {
        if self.caller.client.minor() == 0 {
            return Err(FileServerClientError::unusable(Operation::OPEN, "NFSv4.0 opens by name alone"));
        }
        let open = Args::OPEN(Open4Args {
            seqid: 0,
            share_access: ShareAccess(if access & 3 == 0 { 3 } else { access & 3 }),
            share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: OpenOwner4 { clientid: 0, owner: Opaque(&owner.to_be_bytes()) },
            openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
            claim: OpenClaim4::Fh,
        });
        self.run(&Operation::OPEN, &[putfh(file), open], &[], |results| match results {
            Results::OPEN(outcome) => outcome.ok().map(|ok| ok.stateid.clone()),
            _ => None,
        })
    }

    fn run<T>(
        &mut self,
        name: &dyn fmt::Display,
        operations: &[Args<'_>],
        data: &[PayloadContentLocation<'_>],
        read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<T> {
        self.caller.run(name, operations, data, read)
    }

    fn setattr(&mut self, object: &[u8], attributes: &[Attribute<'_>]) -> FileServerClientResult<()> {
        let (mask, values) = mask_and_values(attributes);
        let obj_attributes = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
        let set = Args::SETATTR(Setattr4Args { stateid: ANONYMOUS, obj_attributes });
        self.run(&Operation::SETATTR, &[putfh(object), set], &[], |_| Some(()))
    }

    /// Creates a file with OPEN, and closes it.
    fn create_file(&mut self, directory: &[u8], name: &[u8], mode: u32) -> FileServerClientResult<LiveFilehandle> {
        let (mask, values) = mask_and_values(&[Attribute::MODE(Mode4(mode))]);
        self.caller.was_resent = false;
        loop {
            self.caller.establish(|_| {})?;
            let owner = self.caller.client.open_owner();
            let owner_name = format!("seed {}", owner.number);
            let attributes = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
            let open = Args::OPEN(Open4Args {
                seqid: owner.seqid,
                share_access: ShareAccess::OPEN4_SHARE_ACCESS_WRITE,
                share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
                owner: OpenOwner4 { clientid: owner.clientid, owner: Opaque(owner_name.as_bytes()) },
                openhow: Openflag4::Create(Createhow4::Guarded(attributes)),
                claim: OpenClaim4::Null(Text(name)),
            });
            let (mut opened, mut handle) = (None, Vec::new());
            let operations = [putfh(directory), open, Args::GETFH(Void)];
            let outcome = self.caller.attempt(&Operation::OPEN, &operations, &[], |results| {
                match results {
                    Results::OPEN(outcome) => {
                        let ok = outcome.ok()?;
                        opened = Some((ok.stateid.clone(), ok.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM)));
                    }
                    Results::GETFH(outcome) => handle = outcome.ok()?.object.0.to_vec(),
                    _ => {}
                }
                Some(())
            });
            let outcome = match outcome {
                Err(error) if self.caller.was_resent && error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => None,
                outcome => outcome?,
            };
            if outcome.is_none() {
                // It may have been executed, or only GETFH has failed.
                match self.lookup(directory, name)? {
                    Some(created) => handle = created,
                    None => continue,
                }
            }
            let Some((mut stateid, must_confirm)) = opened else { return Ok(handle) };
            if must_confirm {
                let confirmed = self.run_with_seqid(Operation::OPEN_CONFIRM, owner.number, &handle, |seqid| {
                    Args::OPEN_CONFIRM(OpenConfirm4Args { open_stateid: stateid.clone(), seqid })
                })?;
                let Some(confirmed) = confirmed else { return Ok(handle) };
                stateid = confirmed;
            }
            self.run_with_seqid(Operation::CLOSE, owner.number, &handle, |seqid| {
                Args::CLOSE(Close4Args { seqid, open_stateid: stateid.clone() })
            })?;
            return Ok(handle);
        }
    }

    /// Runs OPEN_CONFIRM or CLOSE of an open of this owner with the owner's next seqid. Returns the stateid, or `None`
    /// if the open is lost, together with its owner.
    fn run_with_seqid<'a>(
        &mut self,
        operation: Operation,
        owner: u32,
        file: &'a [u8],
        arguments: impl Fn(u32) -> Args<'a>,
    ) -> FileServerClientResult<Option<Stateid4>> {
        loop {
            self.caller.establish(|_| {})?;
            let current = self.caller.client.open_owner();
            if current.number != owner {
                return Ok(None);
            }
            let operations = [putfh(file), arguments(current.seqid)];
            let stateid = self.caller.attempt(&operation, &operations, &[], |results| match results {
                Results::OPEN_CONFIRM(outcome) => outcome.ok().map(|ok| ok.open_stateid.clone()),
                Results::CLOSE(outcome) => outcome.ok().map(|ok| ok.open_stateid.clone()),
                _ => None,
            })?;
            if stateid.is_some() {
                return Ok(stateid);
            }
        }
    }
}

fn putfh(handle: &[u8]) -> Args<'_> {
    Args::PUTFH(ObjectFh4 { object: Opaque(handle) })
}

fn getfh_result(results: &Results<'_>) -> Option<LiveFilehandle> {
    match results {
        Results::GETFH(outcome) => outcome.ok().map(|ok| ok.object.0.to_vec()),
        _ => None,
    }
}

impl VersionIndependentNfsClient for Nfs4Client<'_> {
    fn export(&mut self, path: &str) -> FileServerClientResult<LiveFilehandle> {
        let mut operations = vec![Args::PUTROOTFH(Void)];
        let names = path.split('/').filter(|name| !name.is_empty());
        operations.extend(names.map(|name| Args::LOOKUP(Lookup4Args { objname: Text(name.as_bytes()) })));
        operations.push(Args::GETFH(Void));
        self.run(&path, &operations, &[], getfh_result)
    }

    fn find(&mut self, directory: &[u8], name: &[u8]) -> FileServerClientResult<LiveFilehandle> {
        let lookup = Args::LOOKUP(Lookup4Args { objname: Text(name) });
        self.run(&Operation::LOOKUP, &[putfh(directory), lookup, Args::GETFH(Void)], &[], getfh_result)
    }

    fn make(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> FileServerClientResult<LiveFilehandle> {
        let objtype = match kind {
            NewObjectKind::File => return self.create_file(directory, name, mode),
            NewObjectKind::Directory => Createtype4::Other(NfsFtype4::NF4DIR),
            NewObjectKind::Fifo => Createtype4::Other(NfsFtype4::NF4FIFO),
            NewObjectKind::Socket => Createtype4::Other(NfsFtype4::NF4SOCK),
            NewObjectKind::Link(text) => Createtype4::Link(DdpText::Inline(text)),
        };
        let (mask, values) = mask_and_values(&[Attribute::MODE(Mode4(mode))]);
        let createattrs = match kind {
            NewObjectKind::Link(_) => Fattr4::default(),
            _ => Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values)),
        };
        let create = Args::CREATE(Create4Args { objtype, objname: Text(name), createattrs });
        match self.run(&Operation::CREATE, &[putfh(directory), create, Args::GETFH(Void)], &[], getfh_result) {
            Err(error) if self.caller.was_resent && error.status() == Some(Nfsstat4::NFS4ERR_EXIST) => {
                self.find(directory, name)
            }
            result => result,
        }
    }

    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> FileServerClientResult<()> {
        let link = Args::LINK(Link4Args { newname: Text(name) });
        let operations = [putfh(object), Args::SAVEFH(Void), putfh(directory), link];
        let result = self.run(&Operation::LINK, &operations, &[], |_| Some(()));
        done_twice(result, self.caller.was_resent, Nfsstat4::NFS4ERR_EXIST)
    }

    fn remove(&mut self, directory: &[u8], name: &[u8], _: bool) -> FileServerClientResult<()> {
        let remove = Args::REMOVE(Remove4Args { target: Text(name) });
        let result = self.run(&Operation::REMOVE, &[putfh(directory), remove], &[], |_| Some(()));
        done_twice(result, self.caller.was_resent, Nfsstat4::NFS4ERR_NOENT)
    }

    fn set_attributes(&mut self, object: &[u8], mode: Option<u32>, size: Option<u64>) -> FileServerClientResult<()> {
        let size = size.map(Attribute::SIZE);
        let mode = mode.map(|mode| Attribute::MODE(Mode4(mode)));
        let items: Vec<_> = size.into_iter().chain(mode).collect();
        self.setattr(object, &items)
    }

    fn set_owners(&mut self, object: &[u8], owner: Option<&[u8]>, group: Option<&[u8]>) -> FileServerClientResult<()> {
        let owner = owner.map(|owner| Attribute::OWNER(Text(owner)));
        let group = group.map(|group| Attribute::OWNER_GROUP(Text(group)));
        let items: Vec<_> = owner.into_iter().chain(group).collect();
        self.setattr(object, &items)
    }

    fn write_once(&mut self, file: &[u8], offset: u64, data: &[u8]) -> FileServerClientResult<usize> {
        let write = Args::WRITE(Write4Args {
            stateid: ANONYMOUS,
            offset,
            stable: StableHow4::FILE_SYNC4,
            data: Ddp::Chunk { length: data.len() as u32, bytes: None },
        });
        let data = [PayloadContentLocation::Copied(data)];
        self.run(&Operation::WRITE, &[putfh(file), write], &data, |results| match results {
            Results::WRITE(outcome) => outcome.ok().map(|ok| ok.count as usize),
            _ => None,
        })
    }

    fn capabilities(&mut self, object: &[u8]) -> FileServerClientResult<FileSystemCapabilities> {
        let requested = words_for_bits([
            Attributes::SUPPORTED_ATTRS,
            Attributes::LEASE_TIME,
            Attributes::MAXREAD,
            Attributes::MAXWRITE,
        ]);
        let getattr = Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&requested[..]) });
        self.run(&Operation::GETATTR, &[putfh(object), getattr], &[], |results| {
            let Results::GETATTR(outcome) = results else { return None };
            let (mut supported, mut lease_seconds, mut io) = (None, None, [0; 2]);
            for attribute in outcome.ok()?.obj_attributes.items().map_while(Result::ok) {
                match attribute {
                    Attribute::SUPPORTED_ATTRS(mask) => {
                        supported = Some(words_for_bits(mask.iter().take_while(|bit| *bit < 256)));
                    }
                    Attribute::LEASE_TIME(seconds) => lease_seconds = Some(seconds),
                    Attribute::MAXREAD(bytes) => io[0] = bytes,
                    Attribute::MAXWRITE(bytes) => io[1] = bytes,
                    _ => {}
                }
            }
            let [read, write] = io;
            let io = IoLimits::from_server_values(read, write);
            Some(FileSystemCapabilities { supported: Some(supported?), io, lease_seconds })
        })
    }

    fn limit_io(&mut self, limits: IoLimits) {
        let (request, response) = match self.caller.client.established() {
            Some(ClientidAndSessionState::Session { limits, .. }) => (limits.request_bytes, limits.response_bytes),
            _ => (u32::MAX, u32::MAX),
        };
        self.io = IoLimits {
            read_bytes: limits.read_bytes.min(response.saturating_sub(MESSAGE_OVERHEAD_BYTES).max(1)),
            write_bytes: limits.write_bytes.min(request.saturating_sub(MESSAGE_OVERHEAD_BYTES).max(1)),
        };
    }

    fn io_limits(&self) -> IoLimits {
        self.io
    }

    fn status(&mut self, object: &[u8]) -> FileServerClientResult<LiveObjectAttributes> {
        let requested = words_for_bits([
            Attributes::TYPE,
            Attributes::CHANGE,
            Attributes::SIZE,
            Attributes::FSID,
            Attributes::FILEID,
            Attributes::MODE,
            Attributes::OWNER,
            Attributes::OWNER_GROUP,
            Attributes::TIME_METADATA,
            Attributes::TIME_MODIFY,
        ]);
        let getattr = Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&requested[..]) });
        self.run(&Operation::GETATTR, &[putfh(object), getattr], &[], |results| {
            let Results::GETATTR(outcome) = results else { return None };
            let (mut file_type, mut file_size, mut file_mode) = (None, None, None);
            let (mut user, mut group) = (None, None);
            let mut version = ObjectVersionAttributes::default();
            let time = |time: &Nfstime4| Some(u128::from(time.seconds as u64) << 32 | u128::from(time.nseconds));
            for attribute in outcome.ok()?.obj_attributes.items().map_while(Result::ok) {
                match attribute {
                    Attribute::TYPE(nfs_type) => file_type = Some(nfs_type.into()),
                    Attribute::SIZE(size) => file_size = Some(size),
                    Attribute::MODE(mode) => file_mode = Some(mode.0),
                    Attribute::OWNER(text) => user = Some(String::from_utf8_lossy(text.0).into_owned()),
                    Attribute::OWNER_GROUP(text) => {
                        group = Some(String::from_utf8_lossy(text.0).into_owned());
                    }
                    Attribute::CHANGE(change) => version.change = Some(change.into()),
                    Attribute::FSID(fsid) => {
                        version.file_system = Some(u128::from(fsid.major) << 64 | u128::from(fsid.minor));
                    }
                    Attribute::FILEID(fileid) => version.fileid = Some(fileid.into()),
                    Attribute::TIME_METADATA(metadata) => version.metadata = time(&metadata),
                    Attribute::TIME_MODIFY(modify) => version.modified = time(&modify),
                    _ => {}
                }
            }
            Some(LiveObjectAttributes {
                file_type: file_type?,
                size: file_size?,
                mode: file_mode?,
                owner: user.zip(group).map(|(user, group)| FileUserAndGroup { user, group }),
                version,
            })
        })
    }

    fn read(&mut self, file: &[u8], offset: u64, count: u32) -> FileServerClientResult<Vec<u8>> {
        let count = count.min(self.io.read_bytes);
        let read = Args::READ(Read4Args { stateid: ANONYMOUS, offset, count });
        self.run(&Operation::READ, &[putfh(file), read], &[], |results| match results {
            Results::READ(outcome) => outcome.ok().map(|ok| ok.data.bytes().unwrap_or_default().to_vec()),
            _ => None,
        })
    }

    fn read_link(&mut self, link: &[u8]) -> FileServerClientResult<Vec<u8>> {
        self.run(&Operation::READLINK, &[putfh(link), Args::READLINK(Void)], &[], |results| match results {
            Results::READLINK(outcome) => outcome.ok().map(|ok| ok.link.bytes().unwrap_or_default().to_vec()),
            _ => None,
        })
    }

    fn list_next_names(
        &mut self,
        directory: &[u8],
        listing: &mut ReaddirPosition,
        visit: &mut dyn FnMut(&[u8]),
    ) -> FileServerClientResult<bool> {
        let readdir = Args::READDIR(Readdir4Args {
            cookie: listing.cookie,
            cookieverf: listing.cookie_verifier,
            dircount: 2048,
            maxcount: 4096,
            attr_request: Bitmap4::from(&[][..]),
        });
        self.run(&Operation::READDIR, &[putfh(directory), readdir], &[], |results| {
            let Results::READDIR(outcome) = results else { return None };
            let ok = outcome.ok()?;
            listing.cookie_verifier = ok.cookieverf;
            let entries = ok.reply.entries.iter().map(|entry| (entry.cookie, entry.name.0));
            Some(listing.add_reply(entries, ok.reply.eof, visit))
        })
    }

    fn minor_version(&self) -> Option<u32> {
        Some(self.caller.client.minor())
    }

    fn close(&mut self) {
        self.caller.destroy();
        self.caller.rpc.disconnect();
    }
}
