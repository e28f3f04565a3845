//! Differences: a word for each kind, what differs in words, and the frames of both sides.

use std::fmt;

use nfsrdma_dissectors::frame::FrameNumber;

macro_rules! kinds {
    ($name:ident; $($(#[doc = $doc:literal])+ $variant:ident = $word:literal, $text:literal;)*) => {
        /// What differs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)* }

        impl $name {
            /// All of them, in the order in which they are counted.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its word: in output, and for `--ignore` and `--only`.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
kinds! { DifferenceKind;
    /// A client that one side has alone.
    Client = "client", "a client is in one capture alone";
    /// An operation of A that B does not have.
    Missing = "missing", "an operation that A has and B has not";
    /// An operation of B that A does not have.
    Extra = "extra", "an operation that B has and A has not";
    /// Two operations that each side has in another order.
    Order = "order", "operations that waited for each other come in another order";
    /// A Call that one side has alone.
    Call = "call", "the Call is in one capture alone";
    /// A Reply that one side has alone.
    Reply = "reply", "the Reply is in one capture alone";
    /// A status.
    Status = "status", "how an operation went";
    /// A name or the text of a link.
    Name = "name", "a name, or the text of a link";
    /// An offset.
    Offset = "offset", "where in a file";
    /// A count or a length.
    Count = "count", "how much of a file, or of a directory";
    /// File data.
    Data = "data", "file data, by length and hash";
    /// An identity that is not the one that it was.
    Identity = "identity", "a filehandle, stateid, cookie ... that stands for something else";
    /// Another argument.
    Argument = "argument", "another field of a Call";
    /// Another result.
    Result = "result", "another field of a Reply";
    /// A value that does not follow from those before as the recorded one did.
    Relation = "relation", "a value that does not follow from those before: of a replay alone";
    /// The header of RPC.
    Header = "header", "the RPC header: who calls, and how it went";
    /// RDMA_MSG or RDMA_NOMSG, and which chunks there are.
    ChunkKind = "chunk-kind", "RDMA_MSG or RDMA_NOMSG, and which kinds of chunks there are";
    /// How many chunks and segments there are, and at which Positions.
    ChunkShape = "chunk-shape", "how many chunks and segments there are, and their Positions";
    /// Lengths that a Call offers.
    ChunkLength = "chunk-length", "bytes that a Call offers in a segment";
    /// Lengths that a Reply returns.
    ChunkBytes = "chunk-bytes", "bytes that a Reply returns in a segment";
    /// Bytes that went inline.
    Inline = "inline", "bytes of the RPC message that went inline";
    /// Bytes that one capture does not have.
    Incomplete = "incomplete", "bytes that are not in one of the captures";
    /// What could not be decoded.
    Undecoded = "undecoded", "bytes or frames that could not be decoded";
    /// What is counted of a capture as a whole.
    Account = "account", "a count of the capture as a whole";
}

impl DifferenceKind {
    /// The kind of a word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Where something is on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifferenceLocation {
    /// The index of the Transaction.
    pub index: u64,
    /// First frame of the Call.
    pub call: Option<FrameNumber>,
    /// First frame of the Reply.
    pub reply: Option<FrameNumber>,
}

impl DifferenceLocation {
    /// The first frame that there is.
    pub fn frame(&self) -> Option<FrameNumber> {
        self.call.or(self.reply)
    }
}

/// One side of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferenceSide {
    /// Where it is; `None` where this side has nothing.
    pub place: Option<DifferenceLocation>,
    /// The frame that shows it: that of the Call, or of the Reply.
    pub frame: Option<FrameNumber>,
    /// What it is here.
    pub value: Option<String>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What kind.
    pub kind: DifferenceKind,
    /// The operation that the Transaction is about, with program and version: `NFS 4.2 READ`.
    pub operation: String,
    /// Which field: the operation within the COMPOUND and the RFC's names (`GETATTR.obj_attributes.size`). Empty where it
    /// is no field.
    pub path: String,
    /// The filter name of the field. Empty where it is no field.
    pub field: &'static str,
    /// How often this field differs in this Transaction, because lists have it many times; of two names that do not belong
    /// together, how often they stand together.
    pub times: u64,
    /// On side A.
    pub a: DifferenceSide,
    /// On side B.
    pub b: DifferenceSide,
}

impl Difference {
    /// By what differences are put in order: the frame of A, or of B where A has none; then that of B, and the kind.
    pub fn order(&self) -> (Option<u64>, Option<u64>, DifferenceKind) {
        let [a, b] = [&self.a, &self.b].map(|half| half.frame.map(|frame| frame.0));
        (a.or(b), b, self.kind)
    }
}
