//! Records: Transactions reduced to fields and values, lengths and shapes of chunks. File data is a hash, so that
//! records are small.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::rc::Rc;

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field::FlagName;
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_text::escape;
use twox_hash::XxHash3_128;

use super::difference::TransactionCaptureLocation;
use super::field_equality::{MappedIdentifierType, OPERATION_COUNT_FIELD};
use super::field_path::FieldPath;
use crate::memory_budget_shares::allocated;

/// Maximum number of bytes of a value that is kept as it is; longer values are hashed.
pub(super) const MAX_VALUE_BYTES: usize = 64;

/// Returns the hash for file data and other long values: XXH3 with 128 bits, which is specified, independent of the
/// platform, and faster than memory. It is not cryptographic, but detects accidental changes.
pub fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// Maximum number of shared words; a malformed capture has more, which are allocated each time.
const MAX_SHARED_WORDS: usize = 4_096;

/// Names, titles and other words that many records share.
#[derive(Debug, Default)]
pub(crate) struct RecordStringInterner(HashSet<Rc<str>>);

impl RecordStringInterner {
    /// Returns the word, shared.
    pub(crate) fn share(&mut self, word: &str) -> Rc<str> {
        if let Some(existing) = self.0.get(word) {
            return Rc::clone(existing);
        }
        let shared: Rc<str> = word.into();
        if self.0.len() < MAX_SHARED_WORDS {
            self.0.insert(Rc::clone(&shared));
        }
        shared
    }
}

/// Statuses of success that do not end with `_OK`: of RPC, of NLM (XNFS section 10, RFC 1813 section 6.1.4) and of NSM
/// (XNFS section 11).
const OTHER_SUCCESS: [&str; 4] = [
    enumerator_names::SUCCESS,
    enumerator_names::LCK_GRANTED,
    enumerator_names::NLM4_GRANTED,
    enumerator_names::STAT_SUCC,
];

fn is_success(status: &str) -> bool {
    status.ends_with("_OK") || OTHER_SUCCESS.contains(&status)
}

/// Filter name for two different fields at one path of a baseline.
pub const AMBIGUOUS_FIELD: &str = "?";

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparedFieldValue {
    /// A number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A boolean.
    Bool(bool),
    /// The name of an enum value.
    Named(&'static str),
    /// A mask.
    Flags(u64, MaskBitNames),
    /// Text of at most [`MAX_VALUE_BYTES`] bytes.
    Text(Box<[u8]>),
    /// At most [`MAX_VALUE_BYTES`] bytes.
    Bytes(Box<[u8]>),
    /// Length and hash of longer bytes, and of file data.
    Digest(u64, u128),
    /// Number of bytes that are not in the capture.
    Unknown(u64),
    /// An identity with the first 32 bits of its hash, in baselines: `filehandle:62d40c52`.
    Name(MappedIdentifierType, u32),
    /// Count and hash of the values of a field in a long list.
    Fold(u64, u64),
    /// The name of an enum value in a baseline that this program does not know.
    UnknownName(Box<str>),
}

/// The names of the bits of a mask, which are ignored in comparisons.
#[derive(Clone, Copy, Debug)]
pub struct MaskBitNames(pub &'static [FlagName]);

impl PartialEq for MaskBitNames {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for MaskBitNames {}

impl ComparedFieldValue {
    /// Creates a value of bytes, hashed if they are long.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match bytes.len() > MAX_VALUE_BYTES {
            true => Self::Digest(bytes.len() as u64, hash(bytes)),
            false => Self::Bytes(bytes.into()),
        }
    }

    /// Returns `true` if both are the same value. Values of two types are equal if their texts are, such as enum values
    /// that one side cannot name.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other
            || std::mem::discriminant(self) != std::mem::discriminant(other) && self.to_string() == other.to_string()
    }

    /// Returns `true` if the value can decide which other fields exist: an enum, a boolean, a mask of attributes.
    pub fn is_discriminant(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Bool(_) | Self::Flags(..))
    }

    /// Returns `true` if both are masks that are equal in these bits.
    pub fn is_same_in(&self, other: &Self, bits: u64) -> bool {
        match (self, other) {
            (Self::Flags(a, _), Self::Flags(b, _)) => a & bits == b & bits,
            _ => false,
        }
    }

    /// Returns the bytes allocated for the value besides itself, without those of the allocator.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::UnknownName(name) => name.len(),
            _ => 0,
        }
    }

    /// Returns `true` if the bytes are unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Returns the text for people: a mask with the names of its bits.
    pub fn display_text(&self) -> String {
        match self {
            Self::Flags(mask, names) => {
                let set: Vec<_> =
                    names.0.iter().filter(|(bit, _)| *bit != 0 && mask & bit == *bit).map(|(_, name)| *name).collect();
                if set.is_empty() { format!("{mask:#x}") } else { format!("{mask:#x} ({})", set.join(", ")) }
            }
            Self::Digest(length, hash) => format!("{length} bytes, hash {:08x}", (hash >> 96) as u32),
            Self::Unknown(length) => format!("{length} bytes that are not in the capture"),
            _ => self.to_string(),
        }
    }
}

/// Writes the text for baselines, without spaces outside quotes.
impl fmt::Display for ComparedFieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Bool(yes) => write!(f, "{yes}"),
            Self::Named(name) => f.write_str(name),
            Self::Flags(mask, _) => write!(f, "{mask:#x}"),
            Self::Text(text) => quoted(f, text),
            Self::Bytes(bytes) => {
                f.write_str("x")?;
                bytes.chunks(32).try_for_each(|bytes| hexadecimal(f, bytes))
            }
            Self::Digest(length, hash) => write!(f, "{length}:{hash:032x}"),
            Self::Unknown(length) => write!(f, "{length}:?"),
            Self::Name(identity, number) => write!(f, "{}:{number:08x}", identity.word()),
            Self::Fold(count, hash) => write!(f, "{count}*{hash:016x}"),
            Self::UnknownName(text) => f.write_str(text),
        }
    }
}

/// Writes at most 32 bytes as hexadecimal digits.
fn hexadecimal(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    let written = text.get(..2 * bytes.len()).unwrap_or_default();
    f.write_str(std::str::from_utf8(written).unwrap_or_default())
}

/// Writes quoted text, with escapes for invalid UTF-8 and letters without width.
fn quoted(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                character => escape::write_escaped(character, f)?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    f.write_char('"')
}

/// A field with its value.
#[derive(Clone, Debug)]
pub struct ComparableMessageField {
    /// Path of the field.
    pub path: Rc<FieldPath>,
    /// Value of the field.
    pub datum: ComparedFieldValue,
}

/// An operation of a COMPOUND, or the procedure of a Call; or the headers.
#[derive(Clone, Debug, Default)]
pub struct ComparedOperationOrHeaders {
    /// The name of the operation; empty for the headers.
    pub name: Rc<str>,
    /// Its fields.
    pub entries: Vec<ComparableMessageField>,
}

impl ComparedOperationOrHeaders {
    /// Returns whether this is the operation, or the procedure of NFSv3 with the same name.
    pub fn is_operation(&self, operation: Operation) -> bool {
        operation.name() == &*self.name
    }
}

/// Extent to which a message could be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MessageDecodeCompleteness {
    /// To its end.
    #[default]
    Complete,
    /// To the end of the captured bytes.
    Truncated,
    /// To bytes that are malformed or not described.
    Undecoded,
}

/// A conformance finding.
#[derive(Clone, Debug)]
pub struct ComparableFinding {
    /// Rule.
    pub rule: Rc<str>,
    /// `true` if the Requester broke the rule, so that the Call shows it; unknown in a baseline.
    pub is_call: bool,
}

/// A Call or a Reply.
#[derive(Clone, Debug, Default)]
pub struct ComparableMessage {
    /// The headers, then the operations.
    pub sections: Vec<ComparedOperationOrHeaders>,
    /// Extent of the decoding.
    pub completeness: MessageDecodeCompleteness,
    /// RDMA_MSG, RDMA_NOMSG ...; `None` without RPC-over-RDMA.
    pub proc: Option<Rc<str>>,
    /// Number of inline bytes.
    pub length: u64,
    /// Number of bytes of identities and varying fields with padding, on which lengths depend.
    pub varying: u64,
}

impl ComparableMessage {
    pub(crate) fn fields(&self) -> impl Iterator<Item = &ComparableMessageField> {
        self.sections.iter().flat_map(|section| &section.entries)
    }

    /// Returns the memory in bytes besides the message itself.
    fn heap_bytes(&self) -> usize {
        let entry = |entry: &ComparableMessageField| allocated::<u8>(entry.datum.heap_bytes());
        let section = |section: &ComparedOperationOrHeaders| {
            allocated::<ComparableMessageField>(section.entries.capacity())
                + section.entries.iter().map(entry).sum::<usize>()
        };
        allocated::<ComparedOperationOrHeaders>(self.sections.capacity())
            + self.sections.iter().map(section).sum::<usize>()
    }
}

/// The lengths of a segment in the Call and in the Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedChunkSegment {
    /// Bytes offered.
    pub length: u64,
    /// Bytes returned.
    pub returned: Option<u64>,
}

/// Kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedChunkKind {
    /// A Read chunk: its Position, and the number of varying bytes before it.
    Read(u64, u64),
    /// A Write chunk.
    Write,
    /// A Reply chunk.
    Reply,
    /// A Read chunk of a Reply, with its Position.
    ReplyRead(u64),
}

impl ComparedChunkKind {
    /// Returns the letter in the list of Transactions.
    pub const fn letter(self) -> char {
        match self {
            Self::Read(..) => 'R',
            Self::Write => 'W',
            Self::Reply => 'r',
            Self::ReplyRead(_) => 'D',
        }
    }
}

/// A chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedChunk {
    /// Kind of the chunk.
    pub kind: ComparedChunkKind,
    /// Segments of the chunk.
    pub segments: Vec<ComparedChunkSegment>,
    /// Number of varying bytes of the message that it carries, if any.
    pub varying: u64,
}

/// A record of a Transaction.
#[derive(Clone, Debug, Default)]
pub struct ComparableTransaction {
    /// Location in the capture.
    pub location: TransactionCaptureLocation,
    /// Last frame of the Reply, or of the Call if there is no Reply: the end of its time in flight.
    pub end_frame: u64,
    /// Title: `NFS 4.2 READ`. It differs between minor versions.
    pub title: Rc<str>,
    /// The title without the minor version: records of one class are one operation.
    pub class: Rc<str>,
    /// The minor version of NFSv4.
    pub minor_version: Option<u32>,
    /// In the recording of a replay, the step: index of its Transaction in the capture.
    pub replayed_step: Option<u64>,
    /// `true` if another operation of the same client was in flight at the same time.
    pub is_racing: bool,
    /// Hash of program, version, procedure and operation: only records with equal signatures are pairs.
    pub signature: u64,
    /// Hash of everything in the Call that must be equal.
    pub arguments: u64,
    /// Hash of the names, offsets and counts of the Call.
    pub subject_hash: u64,
    /// `true` for a NULL.
    pub is_null: bool,
    /// `true` for connection setup: a NULL, or a Call of PORTMAP.
    pub is_connection_setup: bool,
    /// The Call.
    pub call: Option<ComparableMessage>,
    /// The Reply.
    pub reply: Option<ComparableMessage>,
    /// Chunks of the Transaction.
    pub chunks: Vec<ComparedChunk>,
    /// Missing parts of the messages (`call:46-195`).
    pub missing: Vec<String>,
    /// Conformance findings of severity error or warning, in the alphabetical order of their rules.
    /// Only in records of `check`.
    pub findings: Vec<ComparableFinding>,
    /// The status as one word.
    pub status: Rc<str>,
}

impl ComparableTransaction {
    /// Returns `true` if it used RPC-over-RDMA.
    pub fn is_rdma(&self) -> bool {
        self.call.iter().chain(&self.reply).any(|message| message.proc.is_some())
    }

    /// Returns `true` if the Reply reports success.
    pub fn is_ok(&self) -> bool {
        is_success(&self.status)
    }

    /// Returns the fields of the Call.
    pub(crate) fn call_fields(&self) -> impl Iterator<Item = &ComparableMessageField> {
        self.call.iter().flat_map(ComparableMessage::fields)
    }

    /// Returns up to four names, offsets and counts of the Call, and the status.
    pub fn summary(&self) -> String {
        let is_subject = |entry: &&ComparableMessageField| {
            entry.path.class.is_subject() && entry.path.field != OPERATION_COUNT_FIELD
        };
        let mut words: Vec<_> = self
            .call_fields()
            .filter(is_subject)
            .take(4)
            .map(|entry| format!("{} {}", entry.path.leaf(), entry.datum.display_text()))
            .collect();
        words.push(self.status.to_string());
        words.join(", ")
    }

    /// Returns the memory of the record in bytes, with that of the allocator.
    pub fn memory_bytes(&self) -> usize {
        let messages = self.call.iter().chain(&self.reply).map(ComparableMessage::heap_bytes);
        let segments = |chunk: &ComparedChunk| allocated::<ComparedChunkSegment>(chunk.segments.capacity());
        size_of::<Self>()
            + messages.sum::<usize>()
            + allocated::<ComparedChunk>(self.chunks.capacity())
            + self.chunks.iter().map(segments).sum::<usize>()
            + allocated::<String>(self.missing.capacity())
            + self.missing.iter().map(|code| allocated::<u8>(code.capacity())).sum::<usize>()
            + allocated::<ComparableFinding>(self.findings.capacity())
    }
}

/// Returns the class of a title: `NFS 4 READ` of `NFS 4.2 READ`.
pub fn class(title: &str) -> String {
    let words = title.split(' ').map(|word| match word.split_once('.') {
        Some((major, minor)) if [major, minor].iter().all(|number| number.parse::<u32>().is_ok()) => major,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::{StatusUnionDiscriminant, mount, nlm, nsm, rquota, v2, v3, v4};

    use super::*;

    #[test]
    fn the_status_of_success_of_each_program_is_a_success() {
        fn name<S: StatusUnionDiscriminant>() -> &'static str {
            S::OK.status().name.unwrap()
        }
        let names = [
            name::<v2::Nfsstat>(),
            name::<v3::Nfsstat3>(),
            name::<v4::Nfsstat4>(),
            name::<mount::FhstatusCode>(),
            name::<mount::Mountstat3>(),
            name::<nlm::v3::NlmStats>(),
            name::<nlm::v4::Nlm4Stats>(),
            name::<nsm::SmRes>(),
            name::<rquota::GqrStatus>(),
        ];
        for name in names {
            assert!(is_success(name), "{name}");
        }
        for failure in ["NFS4ERR_DELAY", "LCK_DENIED", "NLM4_BLOCKED", "STAT_FAIL", "Q_NOQUOTA", "PROG_UNAVAIL"] {
            assert!(!is_success(failure), "{failure}");
        }
    }
}
