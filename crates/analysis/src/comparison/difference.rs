//! Differences: their kinds, values and the frames of both sides.

use std::fmt;

use nfsrdma_dissectors::captured_frame::FrameNumber;

use crate::memory_budget_shares::allocated;

/// Defines an enum whose variants have words for output, and descriptions if need be.
macro_rules! enum_with_words {
    ($(#[doc = $about:literal])+ $name:ident; $($(#[doc = $doc:literal])+ $variant:ident = $word:literal $(, $text:literal)?;)*) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)* }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the word for output, options and baselines.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the description, empty if there is none.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!("" $(, $text)?),)* }
            }

            /// Returns the variant with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.word() == word)
            }
        }
    };
}
pub(super) use enum_with_words;

enum_with_words! {
    /// Kind of a difference, in the order in which they are counted.
    DifferenceKind;
    /// A client on one side only.
    Client = "client", "client in one capture only";
    /// An operation in A only.
    Missing = "missing", "operation in A only";
    /// An operation in B only.
    Extra = "extra", "operation in B only";
    /// Two operations in different order.
    Order = "order", "different order of dependent operations";
    /// A Call on one side only.
    Call = "call", "call in one capture only";
    /// A Reply on one side only.
    Reply = "reply", "reply in one capture only";
    /// A status.
    Status = "status", "status of an operation";
    /// A name or the text of a link.
    Name = "name", "file name or link target";
    /// An offset.
    Offset = "offset", "file offset";
    /// A count or a length.
    Count = "count", "length of file data or of a listing";
    /// File data.
    Data = "data", "file data, by length and hash";
    /// An identity that maps to a different object.
    Identity = "identity", "filehandle, stateid, cookie ... of another object";
    /// Another argument.
    Argument = "argument", "different argument of a call";
    /// Another result.
    Result = "result", "different result in a reply";
    /// A value whose relation to earlier values differs from the recording.
    Relation = "relation", "value inconsistent with earlier ones (replays only)";
    /// A field of the RPC header.
    Header = "header", "RPC header: credentials and status";
    /// RDMA_MSG or RDMA_NOMSG, and the kinds of chunks.
    ChunkKind = "chunk-kind", "RDMA_MSG or RDMA_NOMSG, and kinds of chunks";
    /// Number and Positions of chunks and segments.
    ChunkShape = "chunk-shape", "number of chunks and segments, and Positions";
    /// Lengths that a Call offers.
    ChunkLength = "chunk-length", "segment length offered by a call";
    /// Lengths that a Reply returns.
    ChunkBytes = "chunk-bytes", "segment length returned by a reply";
    /// Number of inline bytes.
    Inline = "inline", "inline bytes of an RPC message";
    /// Bytes missing in one capture.
    Incomplete = "incomplete", "bytes missing from one capture";
    /// Bytes or frames that could not be decoded.
    Undecoded = "undecoded", "bytes or frames that could not be decoded";
    /// A finding of a conformance rule.
    Finding = "finding", "conformance finding in one capture only (check only)";
    /// A count of the whole capture.
    Account = "account", "total of the capture";
}

impl DifferenceKind {
    /// Returns the kind for a field of a Call or a Reply that no rule names.
    pub(super) fn of_message(is_call: bool) -> Self {
        if is_call { Self::Argument } else { Self::Result }
    }
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Location of a Transaction on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCaptureLocation {
    /// Index of the Transaction.
    pub index: u64,
    /// First frame of the Call.
    pub call: Option<FrameNumber>,
    /// First frame of the Reply.
    pub reply: Option<FrameNumber>,
}

impl TransactionCaptureLocation {
    /// Returns the first frame of the Call, or else of the Reply.
    pub fn frame(&self) -> Option<FrameNumber> {
        self.call.or(self.reply)
    }
}

/// One side of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferenceSideValue {
    /// Location; `None` if this side has nothing.
    pub location: Option<TransactionCaptureLocation>,
    /// The frame of the Call or of the Reply that contains the value.
    pub frame: Option<FrameNumber>,
    /// The value on this side.
    pub value: Option<String>,
}

impl DifferenceSideValue {
    /// Returns both sides of a difference of which only `side`, 0 or 1, has a value.
    pub(super) fn on_side(self, side: usize) -> [Self; 2] {
        if side == 0 { [self, Self::default()] } else { [Self::default(), self] }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// The operation of the Transaction, with program and version: `NFS 4.2 READ`.
    pub operation: String,
    /// Path of the field: the operation within the COMPOUND and the RFC names (`GETATTR.obj_attributes.size`), or
    /// empty.
    pub path: String,
    /// Index of the operation in its message, from 1; 0 for the headers, or if it is unknown.
    pub section: usize,
    /// Filter name of the field. Empty if the difference is not in a field.
    pub field: &'static str,
    /// Number of times this field differs in this Transaction (lists repeat fields); for an identity, number of times
    /// the two names occur as a pair.
    pub count: u64,
    /// Side A.
    pub a: DifferenceSideValue,
    /// Side B.
    pub b: DifferenceSideValue,
}

impl Difference {
    /// Creates a difference that is in no field.
    pub(super) fn without_field(
        kind: DifferenceKind,
        operation: impl ToString,
        path: &str,
        [a, b]: [DifferenceSideValue; 2],
    ) -> Self {
        Self { kind, operation: operation.to_string(), path: path.to_owned(), section: 0, field: "", count: 1, a, b }
    }

    /// Returns the memory of the difference in bytes, with that of the allocator, in a list that grows and is sorted.
    pub(super) fn memory_bytes(&self) -> usize {
        let values = [&self.a, &self.b].map(|side| side.value.as_ref().map_or(0, String::capacity));
        let texts = [self.operation.capacity(), self.path.capacity()].into_iter().chain(values);
        5 * size_of::<Self>() / 2 + texts.map(allocated::<u8>).sum::<usize>()
    }

    /// Returns the sort key: the frame of A, or else of B; then the frame of B, and the kind.
    pub fn sort_key(&self) -> (Option<u64>, Option<u64>, DifferenceKind) {
        let [a, b] = [&self.a, &self.b].map(|side| side.frame.map(|frame| frame.0));
        (a.or(b), b, self.kind)
    }
}
