//! NFSv4 implementation of the file operations, for any of the minor versions to try.

use std::fmt;

use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, Bitmap4, CbClient4, Clientid4, Close4Args, Create4Args, Createhow4, Createtype4,
    DestroyClientid4Args, DestroySession4Args, ExchangeIdFlags, Fattr4, Getattr4Args, Link4Args, Lookup4Args, Mode4,
    Netaddr4, NfsClientId4, NfsFtype4, Nfsstat4, Nfstime4, ObjectFh4, Open4Args, OpenClaim4, OpenConfirm4Args,
    OpenOwner4, OpenRflags, Openflag4, Opentype4, Operation, Read4Args, Readdir4Args, ReclaimComplete4Args,
    Remove4Args, Results, Setattr4Args, Setclientid4Args, SetclientidConfirm, ShareAccess, ShareDeny, StableHow4,
    Stateid4, UniversalAddress, Write4Args, mask_and_values, words_for_bits,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text, Void};
use nfsrdma_rpc::PayloadContentLocation;
use nfsrdma_rpc::synchronous_client::SynchronousProcedureCall;

use super::file_server_client::{
    FileServerClientError, FileServerClientResult, FileSystemCapabilities, FileUserAndGroup, IoLimits, LiveFilehandle,
    LiveObjectAttributes, NewObjectKind, NfsOperationFailure, ObjectVersionAttributes, ReaddirPosition, SessionLimits,
    VersionIndependentNfsClient,
};
use crate::containment::ContainmentCheckedRpcClient;
use crate::nfs4_session_operations::{channel, create_session, exchange_id, read_results, sequence};
use crate::reply_size::ReplySizeUpperBound;

/// Maximum number of times that the client state is re-established.
const MAX_RENEWALS: u32 = 16;

/// The verifier of the client, which does not restart.
const VERIFIER: [u8; 8] = [7; 8];

/// Maximum number of retries when the server asks for a delay, and the delay.
const MAX_DELAY_RETRIES: u32 = 120;
const DELAY_RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// The anonymous stateid, which represents no open. RFC 8881 section 8.2.3.
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };

/// Bytes reserved in a Call and a Reply in addition to file data: headers with a long credential, SEQUENCE, filehandles
/// and attributes.
const MESSAGE_OVERHEAD_BYTES: u32 = 2048;

/// The client state at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientidAndSessionState {
    /// NFSv4.0.
    Client {
        /// The clientid.
        clientid: u64,
        /// Last seqid of its only open owner.
        seqid: u32,
    },
    /// NFSv4.1 and later.
    Session {
        /// The clientid.
        clientid: u64,
        /// Next csa_sequence of the clientid.
        create_sequence: u32,
        /// The session ID.
        id: [u8; 16],
        /// sa_sequenceid of the last Call on slot 0.
        sequence: u32,
        /// Number of slots granted.
        slots: u32,
        /// Limits of a Call.
        limits: SessionLimits,
    },
}

/// An NFSv4 client.
pub struct Nfs4Client<'t> {
    rpc: ContainmentCheckedRpcClient<'t>,
    /// Name of the client, as sent to the server.
    name: String,
    minor: u32,
    state: ClientidAndSessionState,
    /// Number of times that the server lost the client state.
    renewals: u32,
    /// Number of open owners before the current one.
    open_owner_number: u32,
    io: IoLimits,
}

impl<'t> Nfs4Client<'t> {
    /// Registers at the server as a client with this name, with the first of `minors` that succeeds.
    ///
    /// # Errors
    /// Returns an error if the server refuses all minor versions, or does not answer.
    pub fn new(mut rpc: ContainmentCheckedRpcClient<'t>, name: &str, minors: &[u32]) -> FileServerClientResult<Self> {
        rpc.add_client_identity(name);
        let mut last_error = None;
        for minor in minors {
            match register(&mut rpc, *minor, name, None) {
                Ok(state) => {
                    let mut client = Self {
                        rpc,
                        name: name.to_owned(),
                        minor: *minor,
                        state,
                        renewals: 0,
                        open_owner_number: 0,
                        io: IoLimits::default(),
                    };
                    client.reclaim_complete()?;
                    return Ok(client);
                }
                Err(FileServerClientError::Call(error)) if error.is_final() => return Err(error.into()),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(|| FileServerClientError::unusable("NFSv4", "no minor version to try")))
    }

    /// Destroys the session; the client ID stays confirmed. RFC 8881 section 18.37.
    pub fn destroy_session(&mut self) {
        if let ClientidAndSessionState::Session { id, .. } = self.state {
            let destroy = Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: id });
            // State that is not released ends with its lease.
            let _ = run(&mut self.rpc, self.minor, &Operation::DESTROY_SESSION, &[destroy], &[], |_| Some(()));
        }
    }

    /// Returns the client state, for another component to continue with.
    pub fn hand_over(self) -> ClientidAndSessionState {
        self.state
    }

    /// Opens a file by its filehandle (RFC 8881 section 18.16.4, CLAIM_FH). `access` is 1 for reading, 2 for writing, 3
    /// for both. Each owner has its own stateid.
    ///
    /// # Errors
    /// Returns an error if the server refuses or does not answer, and in NFSv4.0, which has no such claim.
    pub fn open(&mut self, file: &[u8], owner: u32, access: u32) -> FileServerClientResult<Stateid4> {
        let ClientidAndSessionState::Session { .. } = self.state else {
            return Err(FileServerClientError::unusable(Operation::OPEN, "NFSv4.0 opens by name alone"));
        };
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
        mut read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<T> {
        let mut retries = 0;
        while retries < MAX_DELAY_RETRIES {
            match self.run_once(name, operations, data, &mut read) {
                Err(error) if error.status().is_some_and(is_delay) => {
                    retries += 1;
                    std::thread::sleep(DELAY_RETRY_INTERVAL);
                    // The seqid of the owner in the operation must change before a retry.
                    if self.minor == 0 && operations.iter().any(|operation| matches!(operation, Args::OPEN(_))) {
                        return Err(error);
                    }
                }
                Err(error) if error.status().is_some_and(is_client_unknown) && self.renewals < MAX_RENEWALS => {
                    self.renew()?;
                    // In NFSv4.0 the operations themselves contain the clientid.
                    if self.minor == 0 {
                        return Err(error);
                    }
                }
                // The Call was resent, but the server had executed it without caching the Reply (RFC 8881 section
                // 15.1.10.3).
                Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP) => retries += 1,
                result => return result,
            }
        }
        let seconds = u64::from(MAX_DELAY_RETRIES) * DELAY_RETRY_INTERVAL.as_secs();
        Err(FileServerClientError::Busy(name.to_string(), seconds))
    }

    /// Registers again at a server that has restarted or lost the session. RFC 8881 section 8.4.2.
    fn renew(&mut self) -> FileServerClientResult<()> {
        self.renewals += 1;
        let registered = match self.state {
            ClientidAndSessionState::Session { clientid, create_sequence, .. } => Some((clientid, create_sequence)),
            ClientidAndSessionState::Client { .. } => None,
        };
        self.state = register(&mut self.rpc, self.minor, &self.name, registered)?;
        match self.reclaim_complete() {
            // The server had not lost the client: RFC 8881 section 18.51.3.
            Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_COMPLETE_ALREADY) => Ok(()),
            result => result,
        }
    }

    /// Tells the server that there is nothing to reclaim.
    fn reclaim_complete(&mut self) -> FileServerClientResult<()> {
        if self.minor == 0 {
            return Ok(());
        }
        let operation = Args::RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false });
        self.run(&Operation::RECLAIM_COMPLETE, &[operation], &[], |_| Some(()))
    }

    fn run_once<T>(
        &mut self,
        name: &dyn fmt::Display,
        operations: &[Args<'_>],
        data: &[PayloadContentLocation<'_>],
        read: impl FnMut(&Results<'_>) -> Option<T>,
    ) -> FileServerClientResult<T> {
        let mut compound = Vec::with_capacity(operations.len() + 1);
        if let ClientidAndSessionState::Session { id, sequence: last, .. } = &mut self.state {
            *last += 1;
            // The Replies of operations that change something are cached, so that a resent Call is not executed twice.
            // Other Replies are too long to cache.
            let is_kept = |operation: &Args<'_>| {
                !matches!(operation, Args::READ(_) | Args::READDIR(_) | Args::READLINK(_) | Args::GETATTR(_))
            };
            compound.push(sequence(*id, *last, operations.iter().all(is_kept)));
        }
        compound.extend_from_slice(operations);
        run(&mut self.rpc, self.minor, name, &compound, data, read)
    }

    fn setattr(&mut self, object: &[u8], attributes: &[Attribute<'_>]) -> FileServerClientResult<()> {
        let (mask, values) = mask_and_values(attributes);
        let obj_attributes = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
        let set = Args::SETATTR(Setattr4Args { stateid: ANONYMOUS, obj_attributes });
        self.run(&Operation::SETATTR, &[putfh(object), set], &[], |_| Some(()))
    }

    fn next_seqid(&mut self) -> u32 {
        match &mut self.state {
            ClientidAndSessionState::Client { seqid, .. } => {
                *seqid += 1;
                *seqid
            }
            ClientidAndSessionState::Session { .. } => 0,
        }
    }

    /// Creates a file. Retries if the server asks for a delay or loses the client state.
    fn create_file(&mut self, directory: &[u8], name: &[u8], mode: u32) -> FileServerClientResult<LiveFilehandle> {
        let (mut retries, mut losses) = (0, 0);
        loop {
            match self.create_file_once(directory, name, mode) {
                // The next attempt uses the next seqid of the owner (RFC 7530 section 9.1.7).
                Err(error) if error.status().is_some_and(is_delay) && retries < MAX_DELAY_RETRIES => retries += 1,
                // A resent Call may have advanced the seqid twice, so a new owner is used.
                Err(error) if error.status().is_some_and(is_state_lost) && losses < MAX_RENEWALS => {
                    losses += 1;
                    if let ClientidAndSessionState::Client { seqid, .. } = &mut self.state {
                        (*seqid, self.open_owner_number) = (0, self.open_owner_number + 1);
                    }
                    if let Some(created) = self.lookup(directory, name)? {
                        return Ok(created);
                    }
                }
                result => return result,
            }
        }
    }

    fn create_file_once(&mut self, directory: &[u8], name: &[u8], mode: u32) -> FileServerClientResult<LiveFilehandle> {
        let clientid = match self.state {
            ClientidAndSessionState::Client { clientid, .. } => clientid,
            ClientidAndSessionState::Session { .. } => 0,
        };
        let (mask, values) = mask_and_values(&[Attribute::MODE(Mode4(mode))]);
        let attributes = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
        let seqid = self.next_seqid();
        let owner = format!("seed {}", self.open_owner_number);
        let open = Args::OPEN(Open4Args {
            seqid,
            share_access: ShareAccess::OPEN4_SHARE_ACCESS_WRITE,
            share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: OpenOwner4 { clientid, owner: Opaque(owner.as_bytes()) },
            openhow: Openflag4::Create(Createhow4::Guarded(attributes)),
            claim: OpenClaim4::Null(Text(name)),
        });
        let (mut opened, mut handle) = (None, Vec::new());
        self.run(&Operation::OPEN, &[putfh(directory), open, Args::GETFH(Void)], &[], |results| {
            match results {
                Results::OPEN(outcome) => {
                    let ok = outcome.ok()?;
                    opened = Some((ok.stateid.clone(), ok.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM)));
                }
                Results::GETFH(outcome) => handle = outcome.ok()?.object.0.to_vec(),
                _ => {}
            }
            Some(())
        })?;
        let Some((mut stateid, must_confirm)) = opened else { return Ok(handle) };
        if must_confirm {
            let seqid = self.next_seqid();
            let confirm = OpenConfirm4Args { open_stateid: stateid.clone(), seqid };
            self.run(&Operation::OPEN_CONFIRM, &[putfh(&handle), Args::OPEN_CONFIRM(confirm)], &[], |results| {
                if let Results::OPEN_CONFIRM(outcome) = results {
                    stateid = outcome.ok()?.open_stateid.clone();
                }
                Some(())
            })?;
        }
        let seqid = self.next_seqid();
        let close = Args::CLOSE(Close4Args { seqid, open_stateid: stateid });
        self.run(&Operation::CLOSE, &[putfh(&handle), close], &[], |_| Some(()))?;
        Ok(handle)
    }
}

/// Returns `true` if the server has lost the client or its session.
fn is_client_unknown(status: Nfsstat4) -> bool {
    matches!(status, Nfsstat4::NFS4ERR_BADSESSION | Nfsstat4::NFS4ERR_DEADSESSION | Nfsstat4::NFS4ERR_STALE_CLIENTID)
}

/// Returns `true` if the server has lost the client's state, or expects another seqid of its owner.
fn is_state_lost(status: Nfsstat4) -> bool {
    is_client_unknown(status)
        || matches!(
            status,
            Nfsstat4::NFS4ERR_STALE_STATEID | Nfsstat4::NFS4ERR_BAD_STATEID | Nfsstat4::NFS4ERR_BAD_SEQID
        )
}

fn is_delay(status: Nfsstat4) -> bool {
    matches!(status, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE)
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
        self.run(&Operation::CREATE, &[putfh(directory), create, Args::GETFH(Void)], &[], getfh_result)
    }

    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> FileServerClientResult<()> {
        let link = Args::LINK(Link4Args { newname: Text(name) });
        let operations = [putfh(object), Args::SAVEFH(Void), putfh(directory), link];
        self.run(&Operation::LINK, &operations, &[], |_| Some(()))
    }

    fn remove(&mut self, directory: &[u8], name: &[u8], _: bool) -> FileServerClientResult<()> {
        let remove = Args::REMOVE(Remove4Args { target: Text(name) });
        self.run(&Operation::REMOVE, &[putfh(directory), remove], &[], |_| Some(()))
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
        let requested = words_for_bits([Attributes::SUPPORTED_ATTRS, Attributes::MAXREAD, Attributes::MAXWRITE]);
        let getattr = Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&requested[..]) });
        self.run(&Operation::GETATTR, &[putfh(object), getattr], &[], |results| {
            let Results::GETATTR(outcome) = results else { return None };
            let (mut supported, mut io) = (None, [0; 2]);
            for attribute in outcome.ok()?.obj_attributes.items().map_while(Result::ok) {
                match attribute {
                    Attribute::SUPPORTED_ATTRS(mask) => {
                        supported = Some(words_for_bits(mask.iter().take_while(|bit| *bit < 256)));
                    }
                    Attribute::MAXREAD(bytes) => io[0] = bytes,
                    Attribute::MAXWRITE(bytes) => io[1] = bytes,
                    _ => {}
                }
            }
            let [read, write] = io;
            Some(FileSystemCapabilities { supported: Some(supported?), io: IoLimits::from_server_values(read, write) })
        })
    }

    fn limit_io(&mut self, limits: IoLimits) {
        let (request, response) = match &self.state {
            ClientidAndSessionState::Session { limits, .. } => (limits.request_bytes, limits.response_bytes),
            ClientidAndSessionState::Client { .. } => (u32::MAX, u32::MAX),
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

    fn close(&mut self) {
        self.destroy_session();
        if let ClientidAndSessionState::Session { clientid, .. } = self.state {
            let destroy = Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid });
            let _ = run(&mut self.rpc, self.minor, &Operation::DESTROY_CLIENTID, &[destroy], &[], |_| Some(()));
        }
        self.rpc.disconnect();
    }
}

/// Runs operations. The first failure is the error; otherwise returns the last value that `read` extracted.
fn run<T>(
    rpc: &mut ContainmentCheckedRpcClient<'_>,
    minor: u32,
    name: &dyn fmt::Display,
    operations: &[Args<'_>],
    data: &[PayloadContentLocation<'_>],
    mut read: impl FnMut(&Results<'_>) -> Option<T>,
) -> FileServerClientResult<T> {
    let size = ReplySizeUpperBound::for_compound(operations);
    let procedure = SynchronousProcedureCall { data, ..SynchronousProcedureCall::new(Program::NFS, 4, 1, 0) };
    let result = rpc.compound(minor, operations, &size.apply_to(&procedure), |reply| read_results(reply, &mut read))?;
    match result {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(FileServerClientError::without_requested_item(name)),
        Err((_, status)) => Err(FileServerClientError::Refused(name.to_string(), NfsOperationFailure::V4(status))),
    }
}

/// Registers a client, and from NFSv4.1 on creates a session. `registered` has the client ID and the next csa_sequence
/// of a client that was registered under this name before. RFC 7530 section 9.1.1, RFC 8881 section 2.4.
fn register(
    rpc: &mut ContainmentCheckedRpcClient<'_>,
    minor: u32,
    name: &str,
    registered: Option<(Clientid4, u32)>,
) -> FileServerClientResult<ClientidAndSessionState> {
    if minor == 0 {
        return set_clientid(rpc, name);
    }
    let exchange = exchange_id(name, VERIFIER);
    let (clientid, sequence) = run(rpc, minor, &Operation::EXCHANGE_ID, &[exchange], &[], |results| match results {
        Results::EXCHANGE_ID(outcome) => outcome.ok().map(|ok| {
            // RFC 8881 section 18.35.3: eir_sequenceid of a confirmed client is ignored.
            let is_confirmed = ok.eir_flags.contains(ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R);
            let registered = registered.filter(|(clientid, _)| is_confirmed && *clientid == ok.eir_clientid);
            registered.unwrap_or((ok.eir_clientid, ok.eir_sequenceid))
        }),
        _ => None,
    })?;
    let channels = [channel(2 << 20, 4096, 64, 16), channel(4096, 4096, 64, 16)];
    let create = create_session(clientid, sequence, channels);
    run(rpc, minor, &Operation::CREATE_SESSION, &[create], &[], |results| match results {
        Results::CREATE_SESSION(outcome) => outcome.ok().map(|ok| {
            let channel = &ok.csr_fore_chan_attrs;
            let limits = SessionLimits {
                request_bytes: channel.ca_maxrequestsize,
                response_bytes: channel.ca_maxresponsesize,
                operations: channel.ca_maxoperations,
            };
            let (id, slots) = (ok.csr_sessionid, channel.ca_maxrequests);
            let create_sequence = sequence.wrapping_add(1);
            ClientidAndSessionState::Session { clientid, create_sequence, id, sequence: 0, slots, limits }
        }),
        _ => None,
    })
}

fn set_clientid(
    rpc: &mut ContainmentCheckedRpcClient<'_>,
    name: &str,
) -> FileServerClientResult<ClientidAndSessionState> {
    let set = Args::SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier: VERIFIER, id: Opaque(name.as_bytes()) },
        callback: CbClient4 {
            cb_program: Program::NFS_CB.0,
            cb_location: Netaddr4 { na_r_netid: Text(b"tcp"), na_r_addr: UniversalAddress(Text(b"0.0.0.0.0.0")) },
        },
        callback_ident: 1,
    });
    let (clientid, verifier) = run(rpc, 0, &Operation::SETCLIENTID, &[set], &[], |results| match results {
        Results::SETCLIENTID(outcome) => outcome.ok().map(|ok| (ok.clientid, ok.setclientid_confirm)),
        _ => None,
    })?;
    let confirm = SetclientidConfirm { clientid, setclientid_confirm: verifier };
    let confirm = Args::SETCLIENTID_CONFIRM(confirm);
    run(rpc, 0, &Operation::SETCLIENTID_CONFIRM, &[confirm], &[], |_| Some(()))?;
    Ok(ClientidAndSessionState::Client { clientid, seqid: 0 })
}
