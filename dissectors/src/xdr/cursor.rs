//! Cursor over an XDR message that tracks the captured length and the items sent in chunks.

use std::fmt;

use super::padding::{RdmaMsgpPadding, roundup};
use super::write_chunk_pairing::ResultWriteChunkAssignment;
use crate::field::DataItemPlacement;

/// A decoding error; `at` is the byte offset in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdrError {
    /// The message ends inside an item.
    Short {
        /// Offset of the item.
        at: usize,
        /// Number of bytes that the item needs.
        needed: usize,
    },
    /// The item was on the wire, but was not captured (snap length, packet loss).
    Cut {
        /// End of the captured bytes.
        at: usize,
    },
    /// A length or count exceeds the limit of its type or the rest of the message.
    TooLong {
        /// Offset of the length.
        at: usize,
        /// Length in the message.
        length: u32,
        /// Maximum length.
        bound: u32,
    },
    /// A value that the type does not define.
    Invalid {
        /// Offset of the value.
        at: usize,
        /// Name of the type.
        what: &'static str,
        /// The value.
        value: u32,
    },
    /// An unknown operation, attribute or layout type, whose content cannot be decoded.
    Unknown {
        /// Offset of the number.
        at: usize,
        /// Kind of number.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// A chunk replaces an item that is not DDP-eligible (RFC 8166 section 6.1).
    NotEligible {
        /// Offset of the item's length.
        at: usize,
    },
    /// Bytes follow the last item.
    Trailing {
        /// End of the last item.
        at: usize,
        /// Number of bytes after it.
        length: usize,
    },
    /// A successful COMPOUND has fewer results than its Call has operations (RFC 8881 section 16.2.3).
    ResultsMissing {
        /// End of the last result.
        at: usize,
        /// Number of results.
        results: u32,
        /// Number of operations of the Call.
        operations: u32,
    },
    /// The message is in a chunk according to its RPC-over-RDMA header, but no chunk holds it (RFC 8166 section 4.5.2).
    NoMessage,
    /// The chunk of a data item is longer or shorter than the item (RFC 8166 sections 3.4.5.2 and 3.4.6.2). The rest of
    /// the message is decoded.
    ChunkLength {
        /// Offset of the item's length.
        at: usize,
        /// Index of the Write chunk; `None` for a Read chunk.
        write_chunk: Option<u32>,
        /// Length of the chunk.
        chunk: u32,
        /// Length of the item.
        item: u32,
    },
}

impl XdrError {
    /// Returns `true` if the capture is incomplete; the message itself may be valid.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Cut { .. })
    }

    /// Returns the byte offset in the message.
    pub fn at(&self) -> usize {
        match *self {
            Self::Short { at, .. }
            | Self::Cut { at }
            | Self::TooLong { at, .. }
            | Self::Invalid { at, .. }
            | Self::Unknown { at, .. }
            | Self::NotEligible { at }
            | Self::Trailing { at, .. }
            | Self::ResultsMissing { at, .. }
            | Self::ChunkLength { at, .. } => at,
            Self::NoMessage => 0,
        }
    }

    /// Returns the error without its byte offset.
    pub fn reason(&self) -> impl fmt::Display {
        XdrErrorReason(*self)
    }
}

/// An error without its byte offset.
struct XdrErrorReason(XdrError);

impl fmt::Display for XdrErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            XdrError::Short { needed, .. } => {
                write!(f, "the message ends before the {needed} bytes that belong here")
            }
            XdrError::Cut { .. } => f.write_str("the rest was not captured"),
            XdrError::TooLong { length, bound, .. } => {
                write!(f, "length {length} where at most {bound} can be")
            }
            XdrError::Invalid { what, value, .. } => write!(f, "{value} is not a valid {what}"),
            XdrError::Unknown { what, number, .. } => write!(f, "{what} {number} is not known"),
            XdrError::NotEligible { .. } => f.write_str("a chunk takes the place of an item that is not DDP-eligible"),
            XdrError::Trailing { length: 1, .. } => f.write_str("1 byte follows the last item"),
            XdrError::Trailing { length, .. } => write!(f, "{length} bytes follow the last item"),
            XdrError::ResultsMissing { results, operations, .. } => {
                write!(f, "results of {results} of {operations} operations only")
            }
            XdrError::NoMessage => f.write_str("no chunk holds the message"),
            XdrError::ChunkLength { write_chunk, chunk, item, .. } => {
                match chunk < item {
                    true => write!(f, "{chunk} of {item} bytes in ")?,
                    false => write!(f, "{chunk} bytes for an item of {item} in ")?,
                }
                match write_chunk {
                    Some(index) => write!(f, "Write chunk {index}"),
                    None => f.write_str("its Read chunk"),
                }
            }
        }
    }
}

impl fmt::Display for XdrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at(), XdrErrorReason(*self))
    }
}

impl std::error::Error for XdrError {}

/// A data item that was sent in a chunk instead of inline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkedDataItem<'a> {
    /// Read chunks: the byte offset of the content in the unreduced message (RFC 8166 section 3.4.5). `None` for Write
    /// chunks: each matches an operation (RFC 8267 section 6.4.1).
    pub position: Option<u32>,
    /// Length of the content in bytes; for a Write chunk, as returned in the Reply.
    pub length: u32,
    /// Content, if it was retained and captured completely.
    pub bytes: Option<&'a [u8]>,
}

/// A position in a message.
///
/// Decoders copy cursors for each operation and message. Up to 128 bytes are copied without a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Length of the message in bytes; exceeds `bytes.len()` if the capture is truncated.
    length: usize,
    /// Position of the message's first byte for the observer.
    base_position: usize,
    /// Remaining Read chunks, or all Write chunks.
    chunks: &'a [ChunkedDataItem<'a>],
    pairing: ResultWriteChunkAssignment,
    /// Total size of chunks before `at` in the unreduced message in bytes, roundup included.
    spliced_bytes: usize,
    padding: RdmaMsgpPadding,
    /// Number of padding bytes before `at`, which the unreduced message does not have.
    padded_bytes: usize,
    is_assumed_valid: bool,
    /// The first chunk that is longer or shorter than its item.
    chunk_error: Option<XdrError>,
}

const _: () = assert!(size_of::<Cursor<'_>>() <= 128);

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of a completely captured message without chunks.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, length: bytes.len(), ..Self::default() }
    }

    /// Sets the length of the message on the wire, which may exceed the captured bytes.
    #[must_use]
    pub fn with_length(mut self, length: usize) -> Self {
        self.length = length.max(self.bytes.len());
        self
    }

    /// Marks the bytes as decoded before without error. Lists of fixed-length items then skip their items until
    /// iteration. If the claim is wrong, a list may yield fewer items than its count.
    #[must_use]
    pub fn assume_valid(mut self) -> Self {
        self.is_assumed_valid = true;
        self
    }

    /// Returns `true` after [`assume_valid`](Self::assume_valid).
    pub fn is_assumed_valid(&self) -> bool {
        self.is_assumed_valid
    }

    /// Sets the position of the message's first byte for observers.
    #[must_use]
    pub fn with_base(mut self, base: usize) -> Self {
        self.base_position = base;
        self
    }

    /// Sets the items of a reduced message that were sent in chunks. Write chunks include all that the Call offered, in
    /// order; those that returned nothing have length 0.
    #[must_use]
    pub fn with_chunks(mut self, chunks: &'a [ChunkedDataItem<'a>]) -> Self {
        self.chunks = chunks;
        self
    }

    /// Sets the alignment of opaque data, for RDMA_MSGP. Observer positions, including the [base](Self::with_base),
    /// must then count from the first byte of the Send.
    #[must_use]
    pub fn with_padding(mut self, padding: RdmaMsgpPadding) -> Self {
        self.padding = padding;
        self
    }

    /// Returns the byte offset in the message as sent.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the byte offset for an observer.
    pub fn position(&self) -> usize {
        self.base_position + self.at
    }

    /// Returns the byte offset in the unreduced message, as in the Position of a Read chunk (RFC 8166 section 3.4.5).
    pub fn unreduced_position(&self) -> usize {
        self.at + self.spliced_bytes - self.padded_bytes
    }

    /// Returns the number of padding bytes so far (RFC 5666 section 3.9).
    pub fn padding_bytes(&self) -> usize {
        self.padded_bytes
    }

    /// Returns the length of the message as sent in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of bytes left in the message, captured or not.
    pub fn remaining(&self) -> usize {
        self.length - self.at
    }

    /// Checks that the message ends here, and that the chunks of its items were as long as the items.
    ///
    /// # Errors
    /// Returns [`XdrError::Trailing`] if bytes follow, captured or not, and [`XdrError::ChunkLength`].
    pub fn expect_end(&self) -> Result<(), XdrError> {
        match (self.remaining(), self.chunk_error) {
            (0, None) => Ok(()),
            (0, Some(error)) => Err(error),
            (length, _) => Err(XdrError::Trailing { at: self.at, length }),
        }
    }

    /// Returns `true` if the message ends here and all its chunks were taken.
    pub fn is_at_end(&self) -> bool {
        self.remaining() == 0 && self.chunks.is_empty()
    }

    /// Returns the remaining captured bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns a cursor at this position whose message ends after `count` bytes, for opaque items that contain XDR.
    #[must_use]
    pub fn limited_to(&self, count: usize) -> Self {
        let length = self.at.saturating_add(count).min(self.length);
        Self { bytes: self.bytes.get(..length).unwrap_or(self.bytes), length, ..*self }
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], XdrError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.missing_bytes_error(count)),
        }
    }

    /// Takes the next four bytes as a big-endian number.
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn word(&mut self) -> Result<u32, XdrError> {
        self.take_array().map(u32::from_be_bytes)
    }

    /// Returns the next four captured bytes as a big-endian number.
    #[inline]
    pub fn peek_word(&self) -> Option<u32> {
        self.bytes.get(self.at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_be_bytes(*word))
    }

    /// Takes the next eight bytes as a big-endian number.
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn hyper(&mut self) -> Result<u64, XdrError> {
        self.take_array().map(u64::from_be_bytes)
    }

    #[inline]
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.missing_bytes_error(N)),
        }
    }

    /// Takes `count` bytes of opaque data and the fill bytes after them (RFC 4506 section 4.10).
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn take_padded(&mut self, count: usize) -> Result<&'a [u8], XdrError> {
        let bytes = self.take(count)?;
        self.take(roundup(count))?;
        Ok(bytes)
    }

    /// Takes `count` bytes of opaque data with the fill bytes after them, and any padding before them. Returns the
    /// position of the first byte, and the bytes.
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub(super) fn take_opaque(&mut self, count: u32) -> Result<(usize, &'a [u8]), XdrError> {
        let padding = self.padding.bytes_before(self.position(), count);
        if padding > 0 && padding + count as usize + roundup(count as usize) <= self.remaining() {
            self.take(padding)?;
            self.padded_bytes += padding;
        }
        let position = self.position();
        Ok((position, self.take_padded(count as usize)?))
    }

    /// Opens the next `length` bytes, an opaque item that contains XDR. Returns a cursor that ends with the content;
    /// this cursor moves past the item's fill bytes. Read chunks with a Position in the content belong to the new
    /// cursor, and `length` includes them. Write chunks remain here, because nothing assigns them to the content.
    ///
    /// # Errors
    /// Returns [`XdrError::Short`] if the message cannot hold the content, [`XdrError::TooLong`] if the content cannot
    /// hold its chunks. Bytes that were not captured are reported by the cursor that reads them.
    pub fn take_enclosed(&mut self, length: u32) -> Result<Cursor<'a>, XdrError> {
        let content = length as usize;
        let end = self.unreduced_position() + content;
        let belongs = |chunk: &ChunkedDataItem<'_>| chunk.position.is_some_and(|position| (position as usize) < end);
        let chunks = self.chunks_from(self.unreduced_position());
        let count = chunks.iter().take_while(|chunk| belongs(chunk)).count();
        let (enclosed, after) = chunks.split_at(count);
        let mut spliced = 0;
        for chunk in enclosed {
            spliced += chunk.length as usize + roundup(chunk.length as usize);
            if spliced > content {
                return Err(XdrError::TooLong { at: self.at, length: chunk.length, bound: length });
            }
        }
        let (sent, fill) = (content - spliced, roundup(content));
        if sent + fill > self.remaining() {
            return Err(XdrError::Short { at: self.at, needed: sent + fill });
        }
        let stop = self.at + sent;
        let bytes = self.bytes.get(..stop).unwrap_or(self.bytes);
        let inner = Cursor { bytes, length: stop, chunks: enclosed, ..*self };
        *self = Cursor { at: stop + fill, chunks: after, spliced_bytes: self.spliced_bytes + spliced, ..*self };
        Ok(inner)
    }

    #[cold]
    fn missing_bytes_error(&self, needed: usize) -> XdrError {
        if needed <= self.remaining() {
            XdrError::Cut { at: self.bytes.len() }
        } else {
            XdrError::Short { at: self.at, needed }
        }
    }

    /// Returns the Read chunk at this position without taking it.
    pub(super) fn read_chunk_here(&self) -> Option<&'a ChunkedDataItem<'a>> {
        let here = self.unreduced_position();
        let item = self.chunks_from(here).first()?;
        (item.position.is_some_and(|position| position as usize == here)).then_some(item)
    }

    /// Returns the chunks without the Read chunks before a position. Nothing is there for these: the Responder ignores
    /// them, or the position is wrong.
    fn chunks_from(&self, here: usize) -> &'a [ChunkedDataItem<'a>] {
        let mut chunks = self.chunks;
        while let [first, rest @ ..] = chunks
            && first.position.is_some_and(|position| (position as usize) < here)
        {
            chunks = rest;
        }
        chunks
    }

    /// Takes the chunk of a DDP-eligible item, whose length precedes this position: the Read chunk at this position, or
    /// the Write chunk of the operation (RFC 8267 section 6.4.1). Returns `None` if the item is inline.
    pub(super) fn take_chunk(&mut self, length: u32) -> Option<&'a ChunkedDataItem<'a>> {
        let item = match self.chunks.first()?.position {
            Some(_) => {
                let item = self.read_chunk_here()?;
                self.chunks = self.chunks_from(self.unreduced_position()).get(1..).unwrap_or_default();
                item
            }
            None if length == 0 => return None,
            None => {
                let chunks = self.chunks;
                let returned = |at: usize| chunks.get(at).map(|chunk| chunk.length);
                let fits_inline = length as usize + roundup(length as usize) <= self.remaining();
                chunks.get(self.pairing.take(returned, length, fits_inline)?)?
            }
        };
        let (content, with_roundup) = (length as usize, length as usize + roundup(length as usize));
        self.spliced_bytes += with_roundup;
        if item.length as usize != content && item.length as usize != with_roundup {
            self.record_chunk_error(item, length);
        }
        Some(item)
    }

    #[cold]
    fn record_chunk_error(&mut self, chunk: &ChunkedDataItem<'_>, item: u32) {
        let index = u32::try_from(self.pairing.taken_chunks().saturating_sub(1)).ok();
        self.chunk_error.get_or_insert(XdrError::ChunkLength {
            at: self.at.saturating_sub(4),
            write_chunk: index.filter(|_| chunk.position.is_none()),
            chunk: chunk.length,
            item,
        });
    }

    /// Takes the Write chunk of an item of this length that is not DDP-eligible. Returns `None` if the message can hold
    /// the item inline, or if the next chunk with data has another length.
    pub(super) fn take_ineligible_chunk(&mut self, length: u32) -> Option<&'a ChunkedDataItem<'a>> {
        let with_roundup = length as usize + roundup(length as usize);
        if self.chunks.first()?.position.is_some() || with_roundup <= self.remaining() {
            return None;
        }
        let chunks = self.chunks;
        let returned = |at: usize| chunks.get(at).map(|chunk| chunk.length);
        let item = chunks.get(self.pairing.take_ineligible(returned, length)?)?;
        self.spliced_bytes += with_roundup;
        Some(item)
    }

    /// Returns the place of an item whose chunk was taken last.
    #[inline]
    pub(super) fn placement(&self, chunk: &ChunkedDataItem<'_>) -> DataItemPlacement {
        match chunk.position {
            Some(_) => DataItemPlacement::ReadChunk,
            None => DataItemPlacement::WriteChunk(self.pairing.taken_chunks().saturating_sub(1)),
        }
    }

    /// Returns the number of operations so far that can have a DDP-eligible item.
    #[inline]
    pub(super) fn eligible_operation(&self) -> usize {
        self.pairing.operation()
    }

    /// Ends an operation that can have a DDP-eligible item, even if it has none. Following items match the next Write
    /// chunk (RFC 8267 section 6.4.1).
    #[inline]
    pub fn end_eligible(&mut self) {
        self.pairing.end_operation();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enclosed_item_ends_at_its_length_and_keeps_its_positions() {
        let mut cursor = Cursor::new(b"\0\0\0\x06abcdef\0\0next").with_base(100);
        let length = cursor.word().unwrap();
        let mut inner = cursor.take_enclosed(length).unwrap();
        assert_eq!((inner.at(), inner.position(), inner.remaining()), (4, 104, 6));
        assert_eq!(inner.word(), Ok(0x6162_6364));
        assert_eq!(inner.word(), Err(XdrError::Short { at: 8, needed: 4 }));
        assert_eq!(cursor.take(4), Ok(&b"next"[..]));
    }

    #[test]
    fn an_enclosed_item_counts_the_chunks_that_belong_in_it() {
        let chunks = [4, 12].map(|position| ChunkedDataItem { position: Some(position), length: 3, bytes: None });
        let mut cursor = Cursor::new(b"\0\0\0\x08tailnext").with_chunks(&chunks);
        let length = cursor.word().unwrap();
        let mut inner = cursor.take_enclosed(length).unwrap();
        assert_eq!(inner.take_chunk(3), Some(&chunks[0]));
        assert_eq!((inner.take(4), inner.unreduced_position(), inner.remaining()), (Ok(&b"tail"[..]), 12, 0));
        assert_eq!((cursor.at(), cursor.unreduced_position()), (8, 12));
        assert_eq!(cursor.take_chunk(3), Some(&chunks[1]));
    }

    #[test]
    fn an_enclosed_item_longer_than_the_message_is_refused() {
        assert_eq!(Cursor::new(b"abcd").take_enclosed(8).unwrap_err(), XdrError::Short { at: 0, needed: 8 });
        assert_eq!(Cursor::new(b"abcd").take_enclosed(u32::MAX).unwrap_err().at(), 0);
    }

    #[test]
    fn an_enclosed_item_may_be_cut_by_the_capture() {
        let mut cursor = Cursor::new(b"abcdef").with_length(12);
        let mut inner = cursor.take_enclosed(8).unwrap();
        assert_eq!(inner.take(4), Ok(&b"abcd"[..]));
        assert_eq!(inner.take(4), Err(XdrError::Cut { at: 6 }));
        assert_eq!(cursor.word(), Err(XdrError::Cut { at: 6 }));
    }
}
