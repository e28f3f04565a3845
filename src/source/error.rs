//! What can be wrong with an input, said in one line: what, where, and what to do.

use std::fmt;
use std::io;

use nfsrdma_dissectors::frame::FrameNumber;

use crate::escape;

/// Why a file could not be read, or not be read further.
///
/// Every frame that was delivered before it stays valid. `Display` gives one line without a final newline.
#[derive(Debug)]
pub struct SourceError {
    pub(super) file: String,
    pub(super) frame: Option<FrameNumber>,
    pub(super) offset: Option<u64>,
    pub(super) decompressed: bool,
    pub(super) kind: SourceErrorKind,
}

impl SourceError {
    /// What is wrong.
    pub fn kind(&self) -> &SourceErrorKind {
        &self.kind
    }

    /// Name of the file as it was given, or `standard input`.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Number, from 1 and within this file, of the frame that could not be read; `None` where no frame is concerned.
    pub fn frame(&self) -> Option<FrameNumber> {
        self.frame
    }

    /// Where the header, record or block starts that could not be read: bytes from the start of the capture,
    /// after decompression. `None` where the file could not be opened.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

/// What is wrong with an input.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The file cannot be opened.
    Open(io::Error),
    /// The file is a directory.
    Directory,
    /// Standard input is named more than once.
    StandardInputTwice,
    /// The operating system reports an error in the middle of the file.
    Read(io::Error),
    /// There is not one byte.
    Empty,
    /// The file is text; its first characters.
    Text(String),
    /// A known format which is not read here: its name and what to do about it.
    Foreign(&'static str, &'static str),
    /// Nothing known; its first bytes.
    Unknown(Vec<u8>),
    /// A version of the format that does not exist yet, or no longer: format, major, minor.
    Version(&'static str, u16, u16),
    /// The file ends within its first header.
    TornHeader {
        /// Bytes that are there.
        have: u64,
        /// Bytes that the header has.
        need: u64,
    },
    /// The file ends within a record or block, as after a crash of the capturing program or a full disk.
    Torn {
        /// Bytes that are there.
        have: u64,
        /// Bytes that the record or block has.
        need: u64,
    },
    /// A record or block claims a length that no capture has, in bytes: the file is damaged.
    Absurd(u64),
    /// A pcapng block contradicts its format: its type, and how.
    Block(u32, &'static str),
    /// A pcapng packet belongs to an interface that was not described before it.
    Interface(u32),
    /// The number of a link type that is not known. The file goes on, and may have frames of others.
    LinkType(u32),
    /// An interface cannot be captured on, or no longer.
    Capture {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The compressed data ends too early: the compression.
    TornCompression(&'static str),
    /// The compressed data needs a window that does not fit into the memory that is left for windows.
    Window {
        /// Bytes of the window.
        needed_bytes: u64,
        /// Bytes that no other file takes.
        free_bytes: u64,
        /// The `--max-memory` that is enough for it, in bytes.
        budget_bytes: u64,
    },
    /// The compressed data is damaged, or needs what is not supported: the compression, and the details.
    Compression(&'static str, String),
}

impl SourceErrorKind {
    /// Whether the file just ends too early: it may still be being written, or its end was lost.
    pub fn is_torn(&self) -> bool {
        matches!(self, Self::TornHeader { .. } | Self::Torn { .. } | Self::TornCompression(_))
    }
}

/// EMFILE: the process has as many files open as it may.
const TOO_MANY_FILES: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// A size as `--max-memory` takes it: `128M`, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

const DAMAGED: &str = "the file is damaged from here on; frames before it are valid";

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name can hold anything, also a line break or a terminal's control codes.
        write!(f, "{}: ", escape::line(&self.file))?;
        if let Some(frame) = self.frame {
            write!(f, "frame {frame}{}", if self.offset.is_some() { ", " } else { ": " })?;
        }
        if let Some(offset) = self.offset.filter(|offset| *offset > 0 || self.frame.is_some()) {
            let of = if self.decompressed { " of the decompressed data" } else { "" };
            write!(f, "byte {offset}{of}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for SourceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => {
                write!(f, "cannot open: {}", reason(error))?;
                match error.kind() {
                    _ if error.raw_os_error() == Some(TOO_MANY_FILES) => {
                        f.write_str("; raise the limit (ulimit -n), or name fewer files")
                    }
                    io::ErrorKind::NotFound => f.write_str("; check the path"),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; check the permissions or read it as its owner")
                    }
                    _ => Ok(()),
                }
            }
            Self::Directory => f.write_str("is a directory; name the capture files in it"),
            Self::StandardInputTwice => f.write_str("can be read only once; name '-' once"),
            Self::Read(error) => write!(f, "cannot read on: {}; frames before it are valid", reason(error)),
            Self::Empty => f.write_str("the file is empty; expected pcap or pcapng"),
            Self::Text(text) => {
                write!(f, "not a capture file: begins with {text:?}; expected pcap or pcapng")
            }
            Self::Foreign(name, advice) => write!(f, "not a pcap or pcapng file but {name}; {advice}"),
            Self::Unknown(bytes) => {
                f.write_str("not a capture file: begins with bytes")?;
                for byte in bytes {
                    write!(f, " {byte:02x}")?;
                }
                f.write_str("; expected pcap or pcapng")
            }
            Self::Version(format, major, minor) => write!(
                f,
                "{format} version {major}.{minor} is not supported; convert it with editcap -F pcapng"
            ),
            Self::TornHeader { have, need } => {
                write!(
                    f,
                    "the file ends after {have} of the {need} bytes of its header; capture or copy it again"
                )
            }
            Self::Torn { have, need } => write!(
                f,
                "the file ends after {have} of the {need} bytes of this record; frames before it are valid, \
                 copy the file again if there should be more"
            ),
            Self::Window { needed_bytes, free_bytes, budget_bytes } => {
                write!(
                    f,
                    "the zstd data needs a window of {}, and {} are left for it; give --max-memory {}, name fewer \
                     compressed files at a time, or decompress it first (zstd -d --long=31)",
                    mebibytes(*needed_bytes),
                    mebibytes(*free_bytes),
                    mebibytes(*budget_bytes),
                )
            }
            Self::Absurd(length) => write!(f, "absurd record length of {length} bytes; {DAMAGED}"),
            Self::Block(kind, what) => write!(f, "pcapng block of type {kind:#010x} {what}; {DAMAGED}"),
            Self::Interface(id) => {
                write!(f, "packet of interface {id}, which the section does not describe; {DAMAGED}")
            }
            Self::LinkType(link) => write!(
                f,
                "link type {link} is not known, and its frames were left out; if they are Ethernet, \
                 convert the file with editcap -T ether, else capture on an interface of a known type"
            ),
            Self::Capture { what, remedy } => write!(f, "{what}; {remedy}"),
            Self::TornCompression(format) => write!(
                f,
                "the {format} data ends too early; frames before it are valid, \
                 copy the file again if there should be more"
            ),
            Self::Compression(format, what) => {
                write!(f, "cannot decompress the {format} data: {what}; {DAMAGED}")
            }
        }
    }
}

/// The words of the operating system alone, without the `(os error 2)` that is appended to them.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or(&text).to_lowercase(),
        None => text,
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            SourceErrorKind::Open(error) | SourceErrorKind::Read(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: SourceErrorKind) -> SourceError {
        SourceError { file: "a.pcap".into(), frame: None, offset: Some(0), decompressed: false, kind }
    }

    #[test]
    fn says_what_where_and_what_to_do_in_one_line() {
        let torn = SourceError {
            frame: Some(FrameNumber(3)),
            offset: Some(240),
            ..error(SourceErrorKind::Torn { have: 10, need: 76 })
        };
        assert_eq!(
            torn.to_string(),
            "a.pcap: frame 3, byte 240: the file ends after 10 of the 76 bytes of this record; \
             frames before it are valid, copy the file again if there should be more"
        );
        let text = error(SourceErrorKind::Text("Dear \"Bob\"\n".into()));
        assert_eq!(
            text.to_string(),
            r#"a.pcap: not a capture file: begins with "Dear \"Bob\"\n"; expected pcap or pcapng"#
        );
        let missing = error(SourceErrorKind::Open(io::Error::from_raw_os_error(2)));
        assert_eq!(missing.to_string(), "a.pcap: cannot open: no such file or directory; check the path");
    }

    #[test]
    fn control_characters_of_a_file_name_are_escaped() {
        let name = SourceError { file: "a\n\u{1b}[2J".into(), ..error(SourceErrorKind::Empty) };
        assert_eq!(name.to_string(), "a\\n\\u{1b}[2J: the file is empty; expected pcap or pcapng");
    }

    #[test]
    fn offsets_of_compressed_files_are_said_to_be_of_the_decompressed_data() {
        let absurd = SourceError {
            frame: Some(FrameNumber(1)),
            offset: Some(24),
            decompressed: true,
            ..error(SourceErrorKind::Absurd(1 << 30))
        };
        assert!(
            absurd
                .to_string()
                .starts_with("a.pcap: frame 1, byte 24 of the decompressed data: absurd record length")
        );
    }
}
