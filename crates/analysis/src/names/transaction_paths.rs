//! Paths of a Transaction and its operations, and the text of a path or a filehandle.

use std::fmt::Write as _;
use std::ops::Range;

use super::file_node_store::{FileNodeId, FileNodeStore, PathComponent};

/// Prefix of a path whose beginning is unknown.
pub const UNKNOWN_PREFIX: &str = "…";

/// Display of filehandles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilehandleDisplay {
    /// Path, or hash if no name was captured.
    #[default]
    Names,
    /// CRC-32 of the filehandle (`nfs.fh.hash` in Wireshark).
    Hash,
    /// All bytes of the filehandle.
    Hex,
    /// Filehandles and paths are omitted.
    Off,
}

/// Paths of a Transaction or of one of its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationPaths<'n> {
    /// The path of the file: `/data/db/log.1`, or `…/log.1` if the directory is unknown, or the hash of its filehandle,
    /// `0x62d40c52`, if no name is known. Names are bytes, usually UTF-8.
    pub path: Option<&'n [u8]>,
    /// The new path of RENAME and LINK; the destination of COPY and CLONE.
    pub new_path: Option<&'n [u8]>,
    /// The path of the file that the operation starts from, a directory if it names a file, if the capture truncates
    /// the Call and `path` is therefore unknown.
    pub start: Option<&'n [u8]>,
}

/// The same as ranges of [`TransactionOperationPaths::text`].
#[derive(Clone, Debug, Default)]
pub(super) struct ResolvedPathTextRanges {
    pub(super) path: Option<Range<usize>>,
    pub(super) new_path: Option<Range<usize>>,
    pub(super) start: Option<Range<usize>>,
}

impl ResolvedPathTextRanges {
    pub(super) fn of_path(path: Option<Range<usize>>) -> Self {
        Self { path, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct TransactionOperationPaths {
    pub(super) text: Vec<u8>,
    pub(super) transaction: ResolvedPathTextRanges,
    pub(super) operations: Vec<ResolvedPathTextRanges>,
    /// `true` if the paths of every operation are needed.
    pub(super) wants_all: bool,
}

impl TransactionOperationPaths {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.operations.clear();
        self.transaction = ResolvedPathTextRanges::default();
    }

    pub(super) fn paths(&self, ranges: &ResolvedPathTextRanges) -> OperationPaths<'_> {
        let bytes = |range: &Option<Range<usize>>| self.text.get(range.clone()?);
        OperationPaths { path: bytes(&ranges.path), new_path: bytes(&ranges.new_path), start: bytes(&ranges.start) }
    }
}

/// Writes a filehandle without a name.
pub(super) fn number(display: FilehandleDisplay, handle: &[u8], text: &mut Vec<u8>) {
    let mut digits = String::with_capacity(2 + 2 * handle.len());
    digits.push_str("0x");
    let _ = match display {
        FilehandleDisplay::Hex => handle.iter().try_for_each(|byte| write!(digits, "{byte:02x}")),
        _ => write!(digits, "{:08x}", hash(handle)),
    };
    text.extend_from_slice(digits.as_bytes());
}

/// Returns the short hash of a filehandle, Wireshark's `nfs.fh.hash`: its CRC-32 as in Ethernet.
pub fn hash(handle: &[u8]) -> u32 {
    crc32fast::hash(handle)
}

/// Writes the path of a file; returns `false` if nothing is known.
pub(super) fn path(display: FilehandleDisplay, store: &FileNodeStore, id: FileNodeId, text: &mut Vec<u8>) -> bool {
    let start = text.len();
    let mut names: Vec<&[u8]> = Vec::new();
    for (at, step) in store.components_up(id) {
        let handle = store.handle_of(at);
        match (step, handle) {
            (_, Some(handle)) if display != FilehandleDisplay::Names => {
                number(display, handle, text);
                break;
            }
            (PathComponent::Name(name), _) => names.push(name),
            (PathComponent::Root(path), _) => {
                text.extend_from_slice(path.strip_suffix(b"/").unwrap_or(path));
                if names.is_empty() && text.len() == start {
                    text.push(b'/');
                }
                break;
            }
            (PathComponent::Unknown, Some(handle)) if names.is_empty() => {
                number(display, handle, text);
                break;
            }
            (PathComponent::Unknown, None) if names.is_empty() => return false,
            (PathComponent::Unknown, _) => {
                text.extend_from_slice(UNKNOWN_PREFIX.as_bytes());
                break;
            }
        }
    }
    for name in names.iter().rev() {
        text.push(b'/');
        text.extend_from_slice(name);
    }
    true
}
