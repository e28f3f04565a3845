//! Filename tokens of a message: operations, statuses, filehandles and names, in order.
//!
//! They come from the decoders, so that a message that ends early still has the tokens before its end.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Attributes;

/// Maximum number of tokens of a message: more than the entries of the largest READDIRPLUS of Linux.
const MAX_TOKENS: usize = 1 << 16;
/// Maximum length of a name in bytes; file systems allow 255 bytes, and MOUNT paths 1,024.
const MAX_NAME_BYTES: usize = 1_024;

/// Byte range of a handle or a name in [`MessageFilenameTokens`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathInferenceTokenByteRange {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathInferenceToken {
    /// Start of an operation of a COMPOUND.
    Operation(u32),
    /// Status of the operation.
    Status(u32),
    Handle(PathInferenceTokenByteRange),
    Name(PathInferenceTokenByteRange),
    /// Start of a directory entry.
    Entry,
}

#[derive(Debug, Default)]
pub(super) struct MessageFilenameTokens {
    pub(super) words: Vec<PathInferenceToken>,
    bytes: Vec<u8>,
    /// Number of tokens dropped at a limit.
    pub(super) dropped: u64,
}

impl MessageFilenameTokens {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.bytes.clear();
    }

    pub(super) fn bytes(&self, span: PathInferenceTokenByteRange) -> &[u8] {
        self.bytes.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Returns the operations of a COMPOUND, each with its number and tokens.
    pub(super) fn operations(&self) -> OperationFilenameTokensIterator<'_> {
        OperationFilenameTokensIterator { words: &self.words }
    }

    fn push(&mut self, token: PathInferenceToken) {
        if self.words.len() < MAX_TOKENS {
            self.words.push(token);
        } else {
            self.dropped += 1;
        }
    }

    fn push_bytes(&mut self, bytes: &[u8], new_token: fn(PathInferenceTokenByteRange) -> PathInferenceToken) {
        if bytes.is_empty() || bytes.len() > MAX_NAME_BYTES || self.words.len() >= MAX_TOKENS {
            self.dropped += u64::from(!bytes.is_empty());
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.words.push(new_token(PathInferenceTokenByteRange { start, end: self.bytes.len() as u32 }));
    }
}

impl<'a> FieldObserver<'a> for MessageFilenameTokens {
    #[inline]
    fn is_interested_in_items(&mut self, values: &'static FieldDefinition, has: &dyn Fn(u32) -> bool) -> bool {
        values.name == field_names::NFS_ATTR_VALS && has(Attributes::FILEHANDLE)
    }

    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        if field.label == field_labels::ENTRIES {
            self.push(PathInferenceToken::Entry);
        }
    }

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        match (field.name, value) {
            (field_names::NFS_OPCODE | field_names::NFS_CB_OPERATION, FieldValue::Enum(number, _)) => {
                self.push(PathInferenceToken::Operation(number as u32));
            }
            (field_names::NFS_NFSSTAT4, FieldValue::Enum(number, _)) if field.label == field_labels::STATUS => {
                self.push(PathInferenceToken::Status(number as u32));
            }
            (field_names::NFS_FHANDLE, FieldValue::Bytes(bytes)) => self.push_bytes(bytes, PathInferenceToken::Handle),
            (
                field_names::NFS_NAME
                | field_names::NFS_PATHNAME_COMPONENT
                | field_names::NFS_ENTRY_NAME
                | field_names::NFS_READDIRPLUS_ENTRY_NAME
                | field_names::MOUNT_PATH,
                FieldValue::Text(bytes),
            ) => self.push_bytes(bytes, PathInferenceToken::Name),
            _ => {}
        }
    }
}

pub(super) struct OperationFilenameTokensIterator<'h> {
    words: &'h [PathInferenceToken],
}

impl<'h> Iterator for OperationFilenameTokensIterator<'h> {
    type Item = OperationPathInferenceTokens<'h>;

    fn next(&mut self) -> Option<OperationPathInferenceTokens<'h>> {
        let is_first = |token: &PathInferenceToken| matches!(token, PathInferenceToken::Operation(_));
        let from = self.words.iter().position(is_first)?;
        let (first, rest) = self.words.get(from..)?.split_first()?;
        let end = rest.iter().position(is_first).unwrap_or(rest.len());
        let (words, rest) = rest.split_at(end);
        self.words = rest;
        let PathInferenceToken::Operation(number) = *first else { return None };
        Some(OperationPathInferenceTokens { number, words })
    }
}

/// The tokens of one operation, or of a procedure without operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationPathInferenceTokens<'h> {
    pub(super) number: u32,
    pub(super) words: &'h [PathInferenceToken],
}

impl OperationPathInferenceTokens<'_> {
    pub(super) fn status(&self) -> Option<u32> {
        self.words.iter().find_map(|token| match token {
            PathInferenceToken::Status(status) => Some(*status),
            _ => None,
        })
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = PathInferenceTokenByteRange> {
        self.words.iter().filter_map(|token| match token {
            PathInferenceToken::Handle(span) => Some(*span),
            _ => None,
        })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = PathInferenceTokenByteRange> {
        self.words.iter().filter_map(|token| match token {
            PathInferenceToken::Name(span) => Some(*span),
            _ => None,
        })
    }

    /// Returns the names and handles of directory entries that have both.
    pub(super) fn entries(&self) -> impl Iterator<Item = (PathInferenceTokenByteRange, PathInferenceTokenByteRange)> {
        self.words.split(|token| *token == PathInferenceToken::Entry).skip(1).filter_map(|words| {
            let entry = OperationPathInferenceTokens { number: 0, words };
            entry.names().next().zip(entry.handles().next())
        })
    }
}
