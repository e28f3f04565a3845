//! A Transaction reduced to what a comparison needs: fields and their values, lengths, shapes of chunks. File data is a
//! hash. So a record is small however much moved.

use std::fmt::{self, Write};
use std::rc::Rc;

use nfsrdma_dissectors::field::FlagName;
use twox_hash::XxHash3_128;

use super::compare_class::{CompareClass, IdentityType};
use super::difference::{DifferenceKind, DifferenceLocation};
use super::identity_map::IdentityName;

use crate::escape;

/// Bytes of a value that is shown as it is; of a longer one the hash is kept.
pub(super) const SHOWN: usize = 64;

/// The hash of file data, and of everything else that is too long to keep: XXH3 with 128 bits, which is specified, the
/// same on every machine, and faster than memory. It is no cryptographic hash: it finds what changed by accident.
pub fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// What stands for the filter name where a baseline has two fields in one place.
pub(crate) const SEVERAL: &str = "?";

/// Where a field stands, and what it is to a comparison. One for each place; records share them.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The RFC's names, from the operation down: `obj_attributes.size`.
    pub text: Box<str>,
    /// The filter name; empty where there is none any more, as in an old baseline.
    pub field: &'static str,
    /// What the field is to a comparison.
    pub role: CompareClass,
    /// Where the field's own name begins in `text`.
    leaf: usize,
}

impl FieldPath {
    /// The place with these names.
    pub fn new(text: impl Into<Box<str>>, field: &'static str, role: CompareClass) -> Self {
        let text = text.into();
        let leaf = text.rfind('.').map_or(0, |dot| dot + 1);
        Self { text, field, role, leaf }
    }

    /// The names of what is above the field, with the dot behind them; empty where nothing is.
    pub fn above(&self) -> &str {
        self.text.get(..self.leaf).unwrap_or_default()
    }

    /// The RFC's name of the field alone.
    pub fn leaf(&self) -> &str {
        self.text.get(self.leaf..).unwrap_or_default()
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// A number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// Yes or no.
    Bool(bool),
    /// A number that has a name.
    Named(&'static str),
    /// A mask.
    Flags(u64, MaskBitNames),
    /// Text of at most [`SHOWN`] bytes.
    Text(Box<[u8]>),
    /// Bytes, at most [`SHOWN`] of them.
    Bytes(Box<[u8]>),
    /// Length and hash of more bytes, and of file data.
    Digest(u64, u128),
    /// Bytes that are not in the capture, and how many.
    Unknown(u64),
    /// An identity by the beginning of its hash, as a baseline has it: `filehandle:62d40c52`.
    Name(IdentityType, u32),
    /// The values that a field has in a long list: how many, and their hash.
    Fold(u64, u64),
    /// The name of a number, of a baseline, that this program does not know.
    Written(Box<str>),
}

/// The names of the bits of a mask. They do not count when values are compared.
#[derive(Clone, Copy, Debug)]
pub struct MaskBitNames(pub &'static [FlagName]);

impl PartialEq for MaskBitNames {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for MaskBitNames {}

impl RecordValue {
    /// Bytes as they are, or the hash of many.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        match bytes.len() > SHOWN {
            true => Self::Digest(bytes.len() as u64, hash(bytes)),
            false => Self::Bytes(bytes.into()),
        }
    }

    /// Whether both are the same value. Of two types they are where they are written alike, as the name of a number that
    /// one side does not know.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other
            || std::mem::discriminant(self) != std::mem::discriminant(other)
                && self.to_string() == other.to_string()
    }

    /// Whether other fields may be there or not by its value: a number with a name, yes or no, a mask of attributes.
    pub fn is_discriminant(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Bool(_) | Self::Flags(..))
    }

    /// Whether both are masks that are the same in these bits.
    pub fn is_same_in(&self, other: &Self, bits: u64) -> bool {
        match (self, other) {
            (Self::Flags(one, _), Self::Flags(other, _)) => one & bits == other & bits,
            _ => false,
        }
    }

    /// Whether the bytes are not known.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether it stands for many values.
    pub fn is_fold(&self) -> bool {
        matches!(self, Self::Fold(..))
    }

    /// As people read it: a mask by the names of its bits.
    pub fn shown(&self) -> String {
        match self {
            Self::Flags(mask, names) => {
                let set: Vec<_> = names
                    .0
                    .iter()
                    .filter(|(bit, _)| *bit != 0 && mask & bit == *bit)
                    .map(|(_, name)| *name)
                    .collect();
                if set.is_empty() { format!("{mask:#x}") } else { format!("{mask:#x} ({})", set.join(", ")) }
            }
            Self::Digest(length, hash) => format!("{length} bytes, hash {:08x}", (hash >> 96) as u32),
            Self::Unknown(length) => format!("{length} bytes that are not in the capture"),
            _ => self.to_string(),
        }
    }
}

/// As a baseline writes it: without a blank outside of quotes.
impl fmt::Display for RecordValue {
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
            Self::Name(identity, number) => write!(f, "{}:{number:08x}", identity.name()),
            Self::Fold(count, hash) => write!(f, "{count}*{hash:016x}"),
            Self::Written(text) => f.write_str(text),
        }
    }
}

/// At most 32 bytes, two digits each.
fn hexadecimal(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    let written = text.get(..2 * bytes.len()).unwrap_or_default();
    f.write_str(std::str::from_utf8(written).unwrap_or_default())
}

/// Text in quotes: what is not UTF-8 or has no width as an escape.
fn quoted(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                letter => escape::letter(letter, f)?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    f.write_char('"')
}

/// A field with its value.
#[derive(Clone, Debug)]
pub struct RecordField {
    /// Which field.
    pub path: Rc<FieldPath>,
    /// Its value.
    pub datum: RecordValue,
}

/// An operation of a COMPOUND, or the one procedure of a Call; or the headers before them.
#[derive(Clone, Debug, Default)]
pub struct RecordSection {
    /// The operation's name; empty for the headers.
    pub name: Rc<str>,
    /// Its fields.
    pub entries: Vec<RecordField>,
}

/// How far a message could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MessageCompleteness {
    /// To its end.
    #[default]
    Whole,
    /// To where the capture cut it.
    Cut,
    /// To what could not be decoded, or is not described.
    Undecoded,
}

/// A Call or a Reply.
#[derive(Clone, Debug, Default)]
pub struct RecordMessage {
    /// The headers, then the operations.
    pub sections: Vec<RecordSection>,
    /// Where the reading ended.
    pub end: MessageCompleteness,
    /// RDMA_MSG, RDMA_NOMSG ...; `None` without RPC-over-RDMA.
    pub proc: Option<Rc<str>>,
    /// Bytes that went inline.
    pub length: u64,
    /// Bytes of identities and of what may differ in it, with their fill: lengths follow them.
    pub varying: u64,
}

/// A segment's length as the Call offers it, and as the Reply returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSegment {
    /// Bytes offered.
    pub length: u64,
    /// Bytes returned.
    pub returned: Option<u64>,
}

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChunkKind {
    /// A Read chunk at this Position, and how many bytes before it follow identities.
    Read(u64, u64),
    /// A Write chunk.
    Write,
    /// A Reply chunk.
    Reply,
    /// A Read chunk of a Reply.
    ReplyRead(u64),
}

impl RecordChunkKind {
    /// Its letter, as in the list of Transactions.
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
pub struct RecordChunk {
    /// What it is.
    pub kind: RecordChunkKind,
    /// Its segments.
    pub segments: Vec<RecordSegment>,
    /// Bytes of its content that follow identities: those of the message that travels in it.
    pub varying: u64,
}

/// A Transaction, reduced.
#[derive(Clone, Debug, Default)]
pub struct ComparisonRecord {
    /// Where it is in its capture.
    pub place: DifferenceLocation,
    /// Frame of the last byte of the Reply, or of the Call without one: until then it was in flight.
    pub until: u64,
    /// What it is about: `NFS 4.2 READ`. Two captures of different minor versions have different titles for it.
    pub title: Rc<str>,
    /// The same without the minor version: what is counted as one operation.
    pub class: Rc<str>,
    /// The minor version of NFSv4.
    pub minor_version: Option<u32>,
    /// Of a recording of a run, the step that was run: the index of its Transaction in the capture.
    pub run_of: Option<u64>,
    /// Whether another operation of the same client was in flight at the same time.
    pub is_racing: bool,
    /// Program, version, procedure and operation, hashed: what may stand for each other.
    pub signature: u64,
    /// Everything in the Call that must be equal, hashed.
    pub arguments: u64,
    /// The names, offsets and counts of the Call, hashed.
    pub about: u64,
    /// Whether it is a NULL.
    pub is_null: bool,
    /// Whether it only finds the way to a program: a NULL, or a Call of PORTMAP.
    pub is_set_up: bool,
    /// The Call.
    pub call: Option<RecordMessage>,
    /// The Reply.
    pub reply: Option<RecordMessage>,
    /// Its chunks.
    pub chunks: Vec<RecordChunk>,
    /// What is not in the capture (`call:46-195`).
    pub missing: Vec<String>,
    /// Its status in one word.
    pub status: Rc<str>,
}

impl ComparisonRecord {
    /// Whether it went over RPC-over-RDMA.
    pub fn is_rdma(&self) -> bool {
        self.call.iter().chain(&self.reply).any(|message| message.proc.is_some())
    }

    /// Whether the Reply says that all went well.
    pub fn is_ok(&self) -> bool {
        self.status.ends_with("_OK") || matches!(&*self.status, "SUCCESS" | "NLM4_GRANTED" | "NLM_GRANTED")
    }

    /// The filehandle that the cookies of a Transaction are places in.
    pub fn scope(&self) -> Option<IdentityName> {
        let entries = self.call.iter().flat_map(|call| &call.sections).flat_map(|section| &section.entries);
        let is_filehandle =
            |entry: &&RecordField| entry.path.role == CompareClass::Identity(IdentityType::Filehandle);
        entries
            .filter(is_filehandle)
            .find_map(|entry| IdentityName::of(IdentityType::Filehandle, &entry.datum, None))
    }

    /// What the Call is about, and how it went: its names, offsets and counts.
    pub fn about(&self) -> String {
        let entries = self.call.iter().flat_map(|call| &call.sections).flat_map(|section| &section.entries);
        let main = |entry: &&RecordField| {
            let is_main = matches!(
                entry.path.role,
                CompareClass::Equal(DifferenceKind::Name | DifferenceKind::Offset | DifferenceKind::Count)
            );
            is_main && entry.path.field != "nfs.ops.count"
        };
        let mut words: Vec<_> = entries
            .filter(main)
            .take(4)
            .map(|entry| format!("{} {}", entry.path.leaf(), entry.datum.shown()))
            .collect();
        words.push(self.status.to_string());
        words.join(", ")
    }

    /// Memory that it takes, about, in bytes.
    pub fn size(&self) -> usize {
        let of = |message: &RecordMessage| {
            message.sections.iter().map(|section| 40 + 48 * section.entries.len()).sum::<usize>()
        };
        size_of::<Self>()
            + self.call.iter().chain(&self.reply).map(of).sum::<usize>()
            + 64 * self.chunks.len()
    }
}
