//! What seeding, and the walk after a run, ask of a file server, in any version of NFS.

use std::fmt;

use crate::replay::rpc_client::RpcCallError;
use crate::replay::trace::layout::FileType;

/// A live filehandle.
pub type LiveFilehandle = Vec<u8>;

/// Why something could not be made.
#[derive(Debug)]
pub enum FileServerError {
    /// The server said no: what was asked, and its status.
    Refused(String, String),
    /// The server asked to be asked later, for so many seconds.
    Busy(String, u64),
    /// There was no answer.
    Call(RpcCallError),
}

impl fmt::Display for FileServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(what, status) => match meaning(status) {
                Some(meaning) => write!(f, "{meaning} ({what}: {status})"),
                None => write!(f, "{what}: {status}"),
            },
            Self::Busy(what, seconds) => {
                write!(f, "{what}: for {seconds} s the server has asked to be asked later; check its state")
            }
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileServerError {}

impl From<RpcCallError> for FileServerError {
    fn from(error: RpcCallError) -> Self {
        Self::Call(error)
    }
}

/// What a status of set-up says about the export, and what to do: of NFSv3, NFSv4 and MOUNT.
pub fn meaning(status: &str) -> Option<&'static str> {
    Some(match status.split_once("ERR_")?.1 {
        "ROFS" => "the export is read-only, and a run writes there: export it read-write",
        "NOSPC" => "the file system of the export is full: make room there",
        "DQUOT" => "the quota on the export is used up: raise it, or make room there",
        "NOENT" => "the server has no such path: check the URL, `probe` lists what the server exports",
        "NOTDIR" => "the path is no directory: check the URL",
        "ACCES" | "ACCESS" | "PERM" => {
            "the server does not let root do that there: export it with no_root_squash to this machine, or let everybody write there"
        }
        "WRONGSEC" => "the export asks for other security than AUTH_SYS: allow sec=sys for this machine",
        _ => return None,
    })
}

/// What an object is made as.
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

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveObjectAttributes {
    /// Its type.
    pub file_type: FileType,
    /// Its size in bytes.
    pub size: u64,
    /// Its mode.
    pub mode: u32,
    /// User and group that it belongs to, by number; `None` in NFSv4, which tells names.
    pub owners: Option<[u32; 2]>,
    /// What clients know it by, and whether it has changed.
    pub marks: ObjectVersion,
}

/// What clients know an object by, and whether it has changed: each as the number that its bytes are in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The change attribute of NFSv4.
    pub change: Option<u128>,
    /// When its content was modified.
    pub modified: Option<u128>,
    /// When its attributes were modified.
    pub metadata: Option<u128>,
    /// Its number.
    pub fileid: Option<u128>,
    /// Its file system.
    pub file_system: Option<u128>,
}

/// What one READ and one WRITE may have in a file system: `maxread` and `maxwrite` (RFC 8881 sections 5.8.2.20 and 5.8.2.21), rtmax and
/// wtmax (RFC 1813 section 3.3.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoLimits {
    /// Bytes of one READ.
    pub read_bytes: u32,
    /// Bytes of one WRITE.
    pub write_bytes: u32,
}

impl Default for IoLimits {
    /// None.
    fn default() -> Self {
        Self { read_bytes: u32::MAX, write_bytes: u32::MAX }
    }
}

impl IoLimits {
    /// Limits as a server tells them: 0 tells of none.
    pub fn told(read_bytes: u64, write_bytes: u64) -> Self {
        let limit = |bytes: u64| if bytes == 0 { u32::MAX } else { u32::try_from(bytes).unwrap_or(u32::MAX) };
        Self { read_bytes: limit(read_bytes), write_bytes: limit(write_bytes) }
    }
}

/// What one Call of a session may have. RFC 8881 section 18.36.3.
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
    /// None.
    fn default() -> Self {
        Self { request_bytes: u32::MAX, response_bytes: u32::MAX, operations: u32::MAX }
    }
}

impl SessionLimits {
    /// Whether one of them is lower than another session's.
    pub fn is_below(&self, other: &Self) -> bool {
        self.request_bytes < other.request_bytes
            || self.response_bytes < other.response_bytes
            || self.operations < other.operations
    }
}

/// What a file system can do, as its server tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystemCapabilities {
    /// Words of the mask of the attributes that an object can have; `None` where the version has no such mask.
    pub supported: Option<Vec<u32>>,
    /// What one READ and one WRITE may have.
    pub io: IoLimits,
}

/// Names of one directory that are told at most.
pub const NAMES: usize = 1 << 20;

/// A file server.
pub trait FileServerClient {
    /// The directory that the URL names.
    ///
    /// # Errors
    /// Where it is not there or the server does not answer.
    fn export(&mut self, path: &str) -> Result<LiveFilehandle, FileServerError>;

    /// The object of a name; `None` where there is none.
    ///
    /// # Errors
    /// Where the server refuses, or does not answer.
    fn lookup(&mut self, directory: &[u8], name: &[u8]) -> Result<Option<LiveFilehandle>, FileServerError>;

    /// Makes an object that must not be there.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn make(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: NewObjectKind<'_>,
        mode: u32,
    ) -> Result<LiveFilehandle, FileServerError>;

    /// Gives an object one more name.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn link(&mut self, object: &[u8], directory: &[u8], name: &[u8]) -> Result<(), FileServerError>;

    /// Removes a name; `is_directory` says that it is one of a directory, which must be empty.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn remove(&mut self, directory: &[u8], name: &[u8], is_directory: bool) -> Result<(), FileServerError>;

    /// Sets mode or size.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn set(&mut self, object: &[u8], mode: Option<u32>, size: Option<u64>) -> Result<(), FileServerError>;

    /// Writes into a file, and has it kept.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn write(&mut self, file: &[u8], offset: u64, data: &[u8]) -> Result<(), FileServerError>;

    /// Whether a directory has no entries.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn is_empty(&mut self, directory: &[u8]) -> Result<bool, FileServerError>;

    /// What the file system of an object can do.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn capabilities(&mut self, object: &[u8]) -> Result<FileSystemCapabilities, FileServerError>;

    /// Reads and writes keep to these limits from here on.
    fn limit_io(&mut self, limits: IoLimits);

    /// What an object is.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn status(&mut self, object: &[u8]) -> Result<LiveObjectAttributes, FileServerError>;

    /// Bytes of a file: fewer than were asked for where it ends, or the server gives fewer.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn read(&mut self, file: &[u8], offset: u64, count: u32) -> Result<Vec<u8>, FileServerError>;

    /// What a link says.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn text(&mut self, link: &[u8]) -> Result<Vec<u8>, FileServerError>;

    /// Tells the names in a directory but `.` and `..`, [`NAMES`] at most.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn names(&mut self, directory: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), FileServerError>;

    /// Gives back the state that this client has at the server, and ends its connection.
    fn leave(&mut self);
}
