//! Errors of an input. Each message is one line with the problem, its location and a remedy.

use std::fmt;
use std::io;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_text::{escape, os_error_text};

/// An error that prevents a file from being read, or read further.
///
/// Every frame delivered before it stays valid. `Display` writes one line without a final newline.
#[derive(Debug)]
pub struct SourceError {
    pub(super) file: String,
    pub(super) frame: Option<FrameNumber>,
    pub(super) offset: Option<u64>,
    pub(super) decompressed: bool,
    pub(super) kind: SourceErrorKind,
}

impl SourceError {
    /// Returns the kind of error.
    pub fn kind(&self) -> &SourceErrorKind {
        &self.kind
    }

    /// Returns the name of the file as it was given, or `standard input`.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the number, from 1 within this file, of the frame that could not be read, if any.
    pub fn frame(&self) -> Option<FrameNumber> {
        self.frame
    }

    /// Returns the offset of the header, record or block that could not be read: bytes from the start of the capture,
    /// after decompression. `None` if no offset applies, as when the file could not be opened.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

/// Returns an error of a whole input.
pub(super) fn input_error(file: String, kind: SourceErrorKind) -> SourceError {
    SourceError { file, frame: None, offset: None, decompressed: false, kind }
}

/// The kind of an input error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The file cannot be opened.
    #[error("cannot open: {}{}", os_error_text(.0), open_advice(.0))]
    Open(#[source] io::Error),
    /// The file is a directory.
    #[error("is a directory; name the capture files in it")]
    IsDirectory,
    /// Standard input is named more than once.
    #[error("can be read only once; name '-' once")]
    StandardInputTwice,
    /// The operating system reported an error in the middle of the file.
    #[error("read error: {}; earlier frames are valid", os_error_text(.0))]
    Read(#[source] io::Error),
    /// The file is empty.
    #[error("the file is empty; expected pcap or pcapng")]
    Empty,
    /// The file is text. Holds its first characters.
    #[error("not a capture file: begins with {0:?}; expected pcap or pcapng")]
    Text(String),
    /// The file has a known format that is not supported: its name and the remedy.
    #[error("not a pcap or pcapng file but {0}; {1}")]
    UnsupportedFormat(&'static str, &'static str),
    /// The format is unknown. Holds its first bytes.
    #[error("not a capture file: begins with bytes{}; expected pcap or pcapng", hexadecimal(.0))]
    Unknown(Vec<u8>),
    /// The format version is not supported: format, major, minor.
    #[error("{0} version {1}.{2} is not supported; convert it with editcap -F pcapng")]
    Version(&'static str, u16, u16),
    /// The file ends within its first header.
    #[error(
        "the file ends after {available_bytes} of the {required_bytes} bytes of its header; capture or copy it again"
    )]
    TruncatedHeader {
        /// Number of bytes available.
        available_bytes: u64,
        /// Number of bytes in the header.
        required_bytes: u64,
    },
    /// The file ends within a record or block, as after a crash of the capturing program or on a full disk.
    #[error(
        "the file ends after {available_bytes} of the {required_bytes} bytes of this record; earlier frames are valid; \
         copy the file again if there should be more"
    )]
    Truncated {
        /// Number of bytes available.
        available_bytes: u64,
        /// Number of bytes in the record or block.
        required_bytes: u64,
    },
    /// A record or block claims an implausible length, in bytes: the file is damaged.
    #[error("implausible record length of {0} bytes; {DAMAGED}")]
    ImplausibleLength(u64),
    /// A pcapng block violates the format: its type and the violation.
    #[error("pcapng block of type {0:#010x} {1}; {DAMAGED}")]
    Block(u32, &'static str),
    /// A pcapng packet refers to an interface that was not described before it.
    #[error("packet of interface {0}, which the section does not define; {DAMAGED}")]
    UnknownInterface(u32),
    /// The link type is unknown. The file continues and may have frames of other link types.
    #[error(
        "unknown link type {0}, frames skipped; if they are Ethernet, convert the file with editcap -T ether, else \
         capture on an interface of a known type"
    )]
    UnknownLinkType(u32),
    /// An interface cannot be captured on, or no longer.
    #[error("{what}; {remedy}")]
    Capture {
        /// Description of the problem.
        what: String,
        /// Remedy.
        remedy: String,
    },
    /// The compressed data ends early. Holds the name of the compression.
    #[error("unexpected end of {0} data; earlier frames are valid; copy the file again if there should be more")]
    TruncatedCompression(&'static str),
    /// The compressed data needs a larger window than the remaining window memory.
    #[error(
        "the zstd data needs a window of {}, but only {} are left; use --max-memory {}, name fewer compressed files at a \
         time, or decompress it first (zstd -d --long=31)",
        mebibytes(*needed_bytes), mebibytes(*free_bytes), mebibytes(*budget_bytes)
    )]
    Window {
        /// Size of the window, in bytes.
        needed_bytes: u64,
        /// Window memory not used by other files, in bytes.
        free_bytes: u64,
        /// Value of `--max-memory` that suffices, in bytes.
        budget_bytes: u64,
    },
    /// The compressed data is damaged or uses an unsupported feature: the compression and the details.
    #[error("cannot decompress the {0} data: {1}; {DAMAGED}")]
    Compression(&'static str, String),
}

impl SourceErrorKind {
    /// Returns `true` if the file ends early: it may still be written to, or its end was lost.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Self::TruncatedHeader { .. } | Self::Truncated { .. } | Self::TruncatedCompression(_))
    }
}

/// EMFILE: too many open files in this process.
const TOO_MANY_FILES: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// Formats a size as `--max-memory` accepts it: `128M`, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

const DAMAGED: &str = "the file is damaged from here on; earlier frames are valid";

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name can contain anything, including line breaks and terminal control codes.
        write!(f, "{}: ", escape::escape_line(&self.file))?;
        if let Some(frame) = self.frame {
            write!(f, "frame {frame}{}", if self.offset.is_some() { ", " } else { ": " })?;
        }
        if let Some(offset) = self.offset.filter(|offset| *offset > 0 || self.frame.is_some()) {
            let suffix = if self.decompressed { " of the decompressed data" } else { "" };
            write!(f, "byte {offset}{suffix}: ")?;
        }
        self.kind.fmt(f)
    }
}

fn open_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if error.raw_os_error() == Some(TOO_MANY_FILES) => "; raise the limit (ulimit -n), or name fewer files",
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::PermissionDenied => "; check the permissions or read it as its owner",
        _ => "",
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!(" {byte:02x}")).collect()
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: SourceErrorKind) -> SourceError {
        SourceError { file: "a.pcap".into(), frame: None, offset: Some(0), decompressed: false, kind }
    }

    #[test]
    fn errors_have_place_cause_and_remedy_in_one_line() {
        let torn = SourceError {
            frame: Some(FrameNumber(3)),
            offset: Some(240),
            ..error(SourceErrorKind::Truncated { available_bytes: 10, required_bytes: 76 })
        };
        assert_eq!(
            torn.to_string(),
            "a.pcap: frame 3, byte 240: the file ends after 10 of the 76 bytes of this record; \
             earlier frames are valid; copy the file again if there should be more"
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
    fn offsets_in_compressed_files_are_marked_as_decompressed() {
        let absurd = SourceError {
            frame: Some(FrameNumber(1)),
            offset: Some(24),
            decompressed: true,
            ..error(SourceErrorKind::ImplausibleLength(1 << 30))
        };
        assert!(
            absurd
                .to_string()
                .starts_with("a.pcap: frame 1, byte 24 of the decompressed data: implausible record length")
        );
    }
}
