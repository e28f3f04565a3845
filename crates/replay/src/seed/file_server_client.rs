//! The file operations that seeding and the tree check after a run need, independent of the NFS version.

use std::fmt;

use nfsrdma_dissectors::nfs::v3::{Nfsstat3, Procedure};
use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};
use nfsrdma_nfs_model::v4::statuses;
use nfsrdma_rpc::TransportErrorResponsibility;
use nfsrdma_rpc::synchronous_client::RpcCallError;

use crate::nfs4::remedy::{blames_client, can_have, is_server_failure};
use crate::trace::file_format::TraceFileType;

/// A live filehandle.
pub type LiveFilehandle = Vec<u8>;

/// The result of a file operation.
pub type FileServerClientResult<T> = Result<T, FileServerClientError>;

/// The reason that a file operation failed.
#[derive(Debug)]
pub enum FileServerClientError {
    /// The server refused the operation, or its results are of no use.
    Refused(String, NfsOperationFailure),
    /// The server kept asking for a delay: operation, status, and total seconds waited.
    Busy(String, NfsOperationFailure, u64),
    /// The Call failed.
    Call(RpcCallError),
}

impl fmt::Display for FileServerClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(operation, reason) if reason.blames_server() => {
                write!(f, "the server broke the protocol: {operation}: {reason}; see its log")
            }
            Self::Refused(operation, reason) => match reason.status().map(advice_for_status) {
                Some(Some(advice)) => write!(f, "{advice} ({operation}: {reason})"),
                Some(None) => write!(f, "{operation}: {reason}; see the server's log"),
                None => write!(f, "{operation}: {reason}"),
            },
            Self::Busy(operation, status, seconds) => write!(
                f,
                "{operation}: {status} for {seconds} s: the server is busy or in its grace period; check its state and \
                 try again"
            ),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileServerClientError {}

impl FileServerClientError {
    /// Creates the error for results that are of no use.
    pub(crate) fn unusable(operation: impl fmt::Display, description: &str) -> Self {
        Self::Refused(operation.to_string(), NfsOperationFailure::UnusableResults(description.into()))
    }

    pub(crate) fn without_requested_item(operation: impl fmt::Display) -> Self {
        Self::Refused(operation.to_string(), NfsOperationFailure::WrongResults("results without the requested item"))
    }

    /// Returns the party at fault; `None` if the server refused an operation as it may.
    pub fn blame(&self) -> Option<TransportErrorResponsibility> {
        match self {
            Self::Refused(_, reason) if reason.blames_client() => Some(TransportErrorResponsibility::Program),
            Self::Refused(_, reason) if reason.blames_server() => Some(TransportErrorResponsibility::Server),
            Self::Refused(..) => None,
            Self::Busy(..) => Some(TransportErrorResponsibility::Unreachable),
            Self::Call(error) => Some(error.blame()),
        }
    }

    /// Returns `true` if the server says that this program has broken the protocol, or if it has.
    pub fn blames_client(&self) -> bool {
        self.blame() == Some(TransportErrorResponsibility::Program)
    }

    /// Returns `true` if the server did not refuse the operation, but failed.
    pub(crate) fn is_server_failure(&self) -> bool {
        self.status().is_some_and(is_server_failure)
    }

    /// Returns the status with which the server refused the operation, if the operation can have it.
    pub(crate) fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::Refused(_, reason) => reason.status(),
            Self::Busy(..) | Self::Call(_) => None,
        }
    }
}

impl From<RpcCallError> for FileServerClientError {
    fn from(error: RpcCallError) -> Self {
        Self::Call(error)
    }
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NfsOperationFailure {
    /// Status of an NFSv3 procedure.
    V3(Nfsstat3),
    /// Status of an NFSv4 operation.
    V4(Nfsstat4),
    /// Status that the operation cannot have, and the section that says so.
    Impossible(Nfsstat4, &'static str),
    /// Status that no version of NFS defines.
    Undefined(u32),
    /// Results without error that are of no use, in words.
    UnusableResults(String),
    /// Results without error that the operation cannot have, in words.
    WrongResults(&'static str),
}

/// Returns the result of a call: one that was sent again and finds its own effect has succeeded.
pub(super) fn done_twice(
    result: FileServerClientResult<()>,
    was_resent: bool,
    own_effect: Nfsstat4,
) -> FileServerClientResult<()> {
    match result {
        Err(error) if was_resent && error.status() == Some(own_effect) => Ok(()),
        result => result,
    }
}

impl NfsOperationFailure {
    /// Returns the failure for a status of an operation of NFSv4, or of a COMPOUND without results.
    pub(crate) fn of_v4(minor: u32, operation: Option<Operation>, status: Nfsstat4) -> Self {
        if status.name().is_none() {
            return Self::Undefined(status.0);
        }
        match can_have(minor, operation, status) {
            true => Self::V4(status),
            false => Self::Impossible(status, statuses::section(minor, operation)),
        }
    }

    /// Returns the failure for a status of a procedure of NFSv3.
    pub(crate) fn of_v3(status: Nfsstat3) -> Self {
        if status.name().is_none() { Self::Undefined(status.0) } else { Self::V3(status) }
    }

    /// Returns `true` if the server has broken the protocol.
    fn blames_server(&self) -> bool {
        matches!(self, Self::Impossible(..) | Self::Undefined(_) | Self::WrongResults(_))
    }

    /// Returns `true` if the server says that this program has broken the protocol.
    pub(crate) fn blames_client(&self) -> bool {
        matches!(self, Self::V4(status) if blames_client(*status))
    }

    /// Returns the status as one of NFSv4, if the operation can have it. A status of NFSv3 has the number of the status of
    /// NFSv4 with its meaning. RFC 1813 section 2.6, RFC 8881 section 15.1.
    pub fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::V3(status) => Some(Nfsstat4(status.0)),
            Self::V4(status) => Some(*status),
            Self::Impossible(..) | Self::Undefined(_) | Self::UnusableResults(_) | Self::WrongResults(_) => None,
        }
    }

    /// Returns `true` if an operation with this status rejects a name, a size or a type of object. Its name may be
    /// followed by that of which it is part. At another operation these statuses say nothing about the object.
    pub fn rejects_object(&self, operation: &str) -> bool {
        let Some(status) = self.status() else { return false };
        let rejects_name = matches!(
            status,
            Nfsstat4::NFS4ERR_NAMETOOLONG
                | Nfsstat4::NFS4ERR_INVAL
                | Nfsstat4::NFS4ERR_BADCHAR
                | Nfsstat4::NFS4ERR_BADNAME
        );
        let name = operation.split(' ').next().unwrap_or_default();
        let is_procedure = |procedure: Procedure| procedure.name() == name;
        match Operation::from_name(name) {
            Some(Operation::LOOKUP) => rejects_name,
            Some(Operation::SETATTR) => matches!(status, Nfsstat4::NFS4ERR_FBIG | Nfsstat4::NFS4ERR_INVAL),
            Some(Operation::LINK) => {
                rejects_name || matches!(status, Nfsstat4::NFS4ERR_MLINK | Nfsstat4::NFS4ERR_NOTSUPP)
            }
            operation
                if matches!(operation, Some(Operation::OPEN | Operation::CREATE))
                    || [Procedure::MKDIR, Procedure::SYMLINK, Procedure::MKNOD].into_iter().any(is_procedure) =>
            {
                rejects_name
                    || matches!(
                        status,
                        Nfsstat4::NFS4ERR_MLINK
                            | Nfsstat4::NFS4ERR_NOTSUPP
                            | Nfsstat4::NFS4ERR_BADTYPE
                            | Nfsstat4::NFS4ERR_FBIG
                    )
            }
            _ => false,
        }
    }
}

impl fmt::Display for NfsOperationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3(status) => status.fmt(f),
            Self::V4(status) => status.fmt(f),
            Self::Undefined(status) => write!(f, "status {status}, which is not defined"),
            Self::Impossible(status, section) => {
                write!(f, "{status}, which it cannot have ({section})")?;
                // A server that means what it says can be helped.
                advice_for_status(*status)
                    .filter(|_| !blames_client(*status))
                    .map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::UnusableResults(description) => f.write_str(description),
            Self::WrongResults(description) => f.write_str(description),
        }
    }
}

/// Explains a status during setup, and suggests a remedy. `None` for other statuses. The statuses of NFSv3 and MOUNT
/// have the numbers of those of NFSv4.
pub fn advice_for_status(status: Nfsstat4) -> Option<&'static str> {
    Some(match status {
        // Without a path, the URL names the pseudo-root of NFSv4, which is always read-only.
        Nfsstat4::NFS4ERR_ROFS => {
            "read-only file system: export it read-write, and name the export in the URL; `probe` lists the exports"
        }
        Nfsstat4::NFS4ERR_NOSPC => "no space left on device: make room on the export",
        Nfsstat4::NFS4ERR_DQUOT => "disk quota exceeded: raise it, or make room on the export",
        Nfsstat4::NFS4ERR_NOENT => "no such file or directory: check the URL; `probe` lists the exports",
        Nfsstat4::NFS4ERR_NOTDIR => "not a directory: check the URL",
        Nfsstat4::NFS4ERR_ACCESS | Nfsstat4::NFS4ERR_PERM => {
            "permission denied: export it to this machine with no_root_squash, or make it world-writable"
        }
        Nfsstat4::NFS4ERR_WRONGSEC => {
            "the export requires security other than AUTH_SYS: allow sec=sys for this machine"
        }
        Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH => {
            "the server does not have this minor version; `probe` lists those that it has"
        }
        Nfsstat4::NFS4ERR_CLID_INUSE => "another principal uses the client's name: try again after the lease time",
        Nfsstat4::NFS4ERR_STALE | Nfsstat4::NFS4ERR_BADHANDLE | Nfsstat4::NFS4ERR_FHEXPIRED => {
            "the object or its export was removed or replaced: check the export, and try again"
        }
        Nfsstat4::NFS4ERR_RESOURCE | Nfsstat4::NFS4ERR_TOOSMALL => {
            "the server lacks resources, or offers too small sizes: see its log and its configuration"
        }
        status if blames_client(status) => {
            "the server says that this program broke the protocol: capture the connection. If `lint` of the capture \
             names the server, report it to the server's maintainers, else to those of this program"
        }
        _ => return None,
    })
}

/// The type of an object to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewObjectKind<'a> {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Link(&'a [u8]),
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

/// User and group of an object: numbers in NFSv3, names or numbers in NFSv4 (RFC 8881 section 5.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUserAndGroup {
    /// User.
    pub user: String,
    /// Group.
    pub group: String,
}

impl FileUserAndGroup {
    /// Returns `true` if the user is root.
    pub fn is_root(&self) -> bool {
        is_root_name(self.user.as_bytes())
    }

    /// Returns user and group if both are numbers.
    pub fn numbers(&self) -> Option<[u32; 2]> {
        Some([self.user.parse().ok()?, self.group.parse().ok()?])
    }
}

/// Returns `true` if a user name of NFSv4, or a number, is that of root: `root`, with or without a domain, or `0` (RFC
/// 8881 section 5.9).
pub fn is_root_name(name: &[u8]) -> bool {
    name == b"0" || name.split(|byte| *byte == b'@').next() == Some(b"root")
}

/// Attributes of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObjectAttributes {
    /// File type.
    pub file_type: TraceFileType,
    /// Size in bytes.
    pub size: u64,
    /// Mode.
    pub mode: u32,
    /// Owner; `None` if the server does not return it.
    pub owner: Option<FileUserAndGroup>,
    /// Identity and version of the object.
    pub version: ObjectVersionAttributes,
}

/// Identity and version of an object. Each value is the big-endian number of its XDR encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersionAttributes {
    /// The NFSv4 change attribute.
    pub change: Option<u128>,
    /// Modification time of the content (mtime).
    pub modified: Option<u128>,
    /// Modification time of the attributes (ctime, time_metadata).
    pub metadata: Option<u128>,
    /// File ID.
    pub fileid: Option<u128>,
    /// File system ID.
    pub file_system: Option<u128>,
}

/// Maximum sizes of a READ and a WRITE in a file system: `maxread` and `maxwrite` (RFC 8881 sections 5.8.2.20 and
/// 5.8.2.21), rtmax and wtmax (RFC 1813 section 3.3.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoLimits {
    /// Maximum number of bytes of a READ.
    pub read_bytes: u32,
    /// Maximum number of bytes of a WRITE.
    pub write_bytes: u32,
}

impl Default for IoLimits {
    /// Returns no limits.
    fn default() -> Self {
        Self { read_bytes: u32::MAX, write_bytes: u32::MAX }
    }
}

impl IoLimits {
    /// Creates limits from the values of a server, where 0 means no limit.
    pub fn from_server_values(read_bytes: u64, write_bytes: u64) -> Self {
        let limit = |bytes: u64| if bytes == 0 { u32::MAX } else { u32::try_from(bytes).unwrap_or(u32::MAX) };
        Self { read_bytes: limit(read_bytes), write_bytes: limit(write_bytes) }
    }
}

/// Limits of a Call in a session. RFC 8881 section 18.36.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// ca_maxrequestsize, in bytes of the whole RPC message.
    pub request_bytes: u32,
    /// ca_maxresponsesize, in bytes of the whole RPC message.
    pub response_bytes: u32,
    /// ca_maxoperations.
    pub operations: u32,
}

impl Default for SessionLimits {
    /// Returns no limits.
    fn default() -> Self {
        Self { request_bytes: u32::MAX, response_bytes: u32::MAX, operations: u32::MAX }
    }
}

impl SessionLimits {
    /// Returns `true` if any limit is lower than in `other`.
    pub fn is_below(&self, other: &Self) -> bool {
        self.request_bytes < other.request_bytes
            || self.response_bytes < other.response_bytes
            || self.operations < other.operations
    }
}

/// The capabilities of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystemCapabilities {
    /// Words of the `supported_attrs` bitmap; `None` in NFSv3.
    pub supported: Option<Vec<u32>>,
    /// Maximum sizes of a READ and a WRITE.
    pub io: IoLimits,
    /// Lease time in seconds; `None` in NFSv3.
    pub lease_seconds: Option<u32>,
}

/// Number of names of one directory after which listing stops.
pub const MAX_LISTED_NAMES: usize = 1 << 20;

/// Position in a directory whose names are listed in several Replies. Its cookie and verifier continue the listing: RFC
/// 1813 section 3.3.16, RFC 8881 section 18.23.
#[derive(Debug, Default)]
pub struct ReaddirPosition {
    pub(super) cookie: u64,
    pub(super) cookie_verifier: [u8; 8],
    /// Number of entries so far, `.` and `..` included.
    entries: usize,
}

impl ReaddirPosition {
    /// Passes the names of a Reply to `visit`, up to the limit. Returns `true` if the listing is over: at the limit, at
    /// the end of the directory, or at a Reply that leads no further.
    pub(super) fn add_reply<'a>(
        &mut self,
        entries: impl Iterator<Item = (u64, &'a [u8])>,
        is_end_of_directory: bool,
        visit: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let before = self.cookie;
        for (cookie, name) in entries.take(MAX_LISTED_NAMES - self.entries) {
            self.cookie = cookie;
            self.entries += 1;
            if !matches!(name, b"." | b"..") {
                visit(name);
            }
        }
        is_end_of_directory || self.cookie == before || self.entries == MAX_LISTED_NAMES
    }
}

/// A client of a file server. Its operations fail if the server refuses them or does not answer.
pub trait VersionIndependentNfsClient {
    /// Returns the filehandle of the directory that the URL names, which must exist.
    fn export(&mut self, path: &str) -> FileServerClientResult<LiveFilehandle>;

    /// Returns the object with a name, which must exist.
    fn find(&mut self, directory: &[u8], name: &[u8]) -> FileServerClientResult<LiveFilehandle>;

    /// Returns the object with a name, or `None` if there is none.
    fn lookup(&mut self, directory: &[u8], name: &[u8]) -> FileServerClientResult<Option<LiveFilehandle>> {
        match self.find(directory, name) {
            Err(error) if error.status() == Some(Nfsstat4::NFS4ERR_NOENT) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Creates an object, which must not exist.
    fn make(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> FileServerClientResult<LiveFilehandle>;

    /// Adds a hard link to an object.
    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> FileServerClientResult<()>;

    /// Removes a name. `is_directory` is `true` for a directory, which must be empty.
    fn remove(&mut self, directory: &[u8], name: &[u8], is_directory: bool) -> FileServerClientResult<()>;

    /// Sets mode and size, if given.
    fn set_attributes(&mut self, object: &[u8], mode: Option<u32>, size: Option<u64>) -> FileServerClientResult<()>;

    /// Sets owner and group, if given, as a captured server wrote them. NFSv3 accepts only numbers.
    fn set_owners(&mut self, object: &[u8], owner: Option<&[u8]>, group: Option<&[u8]>) -> FileServerClientResult<()>;

    /// Writes to stable storage of a file with one WRITE. Returns the number of bytes that the server wrote.
    fn write_once(&mut self, file: &[u8], offset: u64, data: &[u8]) -> FileServerClientResult<usize>;

    /// Writes to stable storage of a file.
    fn write(&mut self, file: &[u8], offset: u64, data: &[u8]) -> FileServerClientResult<()> {
        let mut written = 0;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            let rest = rest.get(..self.io_limits().write_bytes as usize).unwrap_or(rest);
            let count = self.write_once(file, offset + written as u64, rest)?;
            if count == 0 || count > rest.len() {
                let description = format!("{count} bytes of {}", rest.len());
                return Err(FileServerClientError::unusable(Operation::WRITE, &description));
            }
            written += count;
        }
        Ok(())
    }

    /// Returns the capabilities of the file system of an object.
    fn capabilities(&mut self, object: &[u8]) -> FileServerClientResult<FileSystemCapabilities>;

    /// Sets the limits of later reads and writes.
    fn limit_io(&mut self, limits: IoLimits);

    /// Returns the limits of reads and writes.
    fn io_limits(&self) -> IoLimits;

    /// Returns the attributes of an object.
    fn status(&mut self, object: &[u8]) -> FileServerClientResult<LiveObjectAttributes>;

    /// Reads bytes of a file. Returns fewer than `count` at the end of the file, at a limit, or if the server does.
    fn read(&mut self, file: &[u8], offset: u64, count: u32) -> FileServerClientResult<Vec<u8>>;

    /// Returns the text of a symbolic link.
    fn read_link(&mut self, link: &[u8]) -> FileServerClientResult<Vec<u8>>;

    /// Calls `visit` for the names in one Reply, except `.` and `..`. Returns `true` if the listing is over.
    fn list_next_names(
        &mut self,
        directory: &[u8],
        listing: &mut ReaddirPosition,
        visit: &mut dyn FnMut(&[u8]),
    ) -> FileServerClientResult<bool>;

    /// Calls `visit` for the names in a directory except `.` and `..`, at most [`MAX_LISTED_NAMES`] times.
    fn list_names(&mut self, directory: &[u8], visit: &mut dyn FnMut(&[u8])) -> FileServerClientResult<()> {
        let mut listing = ReaddirPosition::default();
        while !self.list_next_names(directory, &mut listing, visit)? {}
        Ok(())
    }

    /// Returns `true` if a directory has no entries.
    fn is_empty(&mut self, directory: &[u8]) -> FileServerClientResult<bool> {
        let mut is_empty = true;
        self.list_next_names(directory, &mut ReaddirPosition::default(), &mut |_| is_empty = false)?;
        Ok(is_empty)
    }

    /// Returns the minor version of NFSv4 in use; `None` for NFSv3.
    fn minor_version(&self) -> Option<u32> {
        None
    }

    /// Releases the server state of this client where possible, and closes its connection.
    fn close(&mut self);
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::rpc::{AcceptStat, AuthStat, RpcReplyStatus};

    use super::*;

    /// RFC 8881 section 15.1.1.1: the server says that it cannot decode the arguments; either side may be wrong.
    #[test]
    fn badxdr_names_both_addressees() {
        let reason = NfsOperationFailure::V4(Nfsstat4::NFS4ERR_BADXDR);
        let text = FileServerClientError::Refused("OPEN".to_owned(), reason).to_string();
        assert!(text.contains("to the server's maintainers, else to those of this program"), "{text}");
        assert!(text.ends_with("(OPEN: NFS4ERR_BADXDR)"), "{text}");
    }

    #[test]
    fn rejection_of_object_depends_on_operation() {
        let rejects = |status, operation| NfsOperationFailure::V4(status).rejects_object(operation);
        for operation in ["OPEN", "OPEN of OPEN", "CREATE", "LINK", "MKDIR", "SYMLINK", "MKNOD", "LOOKUP"] {
            assert!(rejects(Nfsstat4::NFS4ERR_NAMETOOLONG, operation), "{operation}");
        }
        assert!(rejects(Nfsstat4::NFS4ERR_MLINK, "LINK") && rejects(Nfsstat4::NFS4ERR_FBIG, "SETATTR"));
        for operation in ["CLOSE", "OPEN_CONFIRM", "SEQUENCE of OPEN", "PUTFH of OPEN", "GETFH of CREATE", "GETATTR"] {
            for status in [Nfsstat4::NFS4ERR_MLINK, Nfsstat4::NFS4ERR_INVAL, Nfsstat4::NFS4ERR_NOTSUPP] {
                assert!(!rejects(status, operation), "{operation} {status}");
            }
        }
        assert!(!rejects(Nfsstat4::NFS4ERR_MLINK, "SETATTR") && !rejects(Nfsstat4::NFS4ERR_FBIG, "LINK"));
    }

    #[test]
    fn no_reply_adds_names_above_the_limit() {
        let (mut listing, mut listed) = (ReaddirPosition::default(), 0);
        let entries = |from: u64, count: u64| (from + 1..=from + count).map(|cookie| (cookie, &b"name"[..]));
        let half = MAX_LISTED_NAMES as u64 / 2;
        assert!(!listing.add_reply(entries(0, half), false, &mut |_| listed += 1));
        assert!(listing.add_reply(entries(half, half + 7), false, &mut |_| listed += 1));
        assert_eq!(listed, MAX_LISTED_NAMES);
    }

    /// RFC 5531 section 9, RFC 8881 section 15.2.
    #[test]
    fn failure_tells_party_at_fault() {
        use TransportErrorResponsibility::{Program, Server, Unreachable};
        let refused = |reason| FileServerClientError::Refused("LOOKUP".to_owned(), reason);
        let status = |status| refused(NfsOperationFailure::of_v4(2, Some(Operation::PUTFH), status));
        let rpc = |stat| FileServerClientError::Call(RpcCallError::Rpc(RpcReplyStatus::Accepted(stat)));
        let cases = [
            (refused(NfsOperationFailure::of_v4(2, Some(Operation::LOOKUP), Nfsstat4::NFS4ERR_ACCESS)), None),
            (status(Nfsstat4::NFS4ERR_WRONGSEC), None),
            (status(Nfsstat4::NFS4ERR_ACCESS), None),
            (status(Nfsstat4::NFS4ERR_NOSPC), Some(Server)),
            (status(Nfsstat4::NFS4ERR_BADXDR), Some(Program)),
            (status(Nfsstat4::NFS4ERR_NOENT), Some(Server)),
            (status(Nfsstat4(4711)), Some(Server)),
            (refused(NfsOperationFailure::of_v3(Nfsstat3(4711))), Some(Server)),
            (refused(NfsOperationFailure::of_v3(Nfsstat3::NFS3ERR_NAMETOOLONG)), None),
            (refused(NfsOperationFailure::UnusableResults("not a directory".to_owned())), None),
            (FileServerClientError::without_requested_item("LOOKUP"), Some(Server)),
            (rpc(AcceptStat::GARBAGE_ARGS), Some(Program)),
            (rpc(AcceptStat::PROC_UNAVAIL), Some(Server)),
            (rpc(AcceptStat::PROG_UNAVAIL), Some(Unreachable)),
            (FileServerClientError::Call(RpcCallError::Versions(2, 3)), Some(Unreachable)),
            (FileServerClientError::Call(RpcCallError::Denied(AuthStat::AUTH_TOOWEAK)), Some(Unreachable)),
        ];
        for (error, blame) in cases {
            assert_eq!(error.blame(), blame, "{error}");
        }
        assert!(rpc(AcceptStat::GARBAGE_ARGS).to_string().contains("report it"));
        let of_putfh = status(Nfsstat4::NFS4ERR_NOSPC).to_string();
        let said = "the server broke the protocol: LOOKUP: NFS4ERR_NOSPC, which it cannot have (RFC 8881 section 15.2)";
        assert!(of_putfh.starts_with(said), "{of_putfh}");
        let absent = status(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH).to_string();
        assert!(!absent.contains("vers="), "the URL may name no version: {absent}");
    }

    #[test]
    fn a_listing_ends_with_the_directory_or_where_a_reply_leads_no_further() {
        let (mut listing, mut names) = (ReaddirPosition::default(), Vec::new());
        let first = [(3, &b"."[..]), (5, b".."), (9, b"a")];
        assert!(!listing.add_reply(first.into_iter(), false, &mut |name| names.push(name.to_vec())));
        assert_eq!((listing.cookie, &names), (9, &vec![b"a".to_vec()]));
        assert!(listing.add_reply([(9, &b"a"[..])].into_iter(), false, &mut |_| {}));
        assert!(listing.add_reply([(12, &b"b"[..])].into_iter(), true, &mut |_| {}));
    }
}
