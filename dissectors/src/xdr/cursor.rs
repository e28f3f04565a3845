//! A position in an XDR message that knows how much of the message was captured, and what travelled in chunks.

use std::fmt;

use super::{Padding, WriteChunkPairing, roundup};

/// Why a message could not be decoded further; `at` is the byte offset in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdrError {
    /// The message ends inside an item.
    Short {
        /// Where the item begins.
        at: usize,
        /// How many bytes it needs.
        needed: usize,
    },
    /// The item's bytes were on the wire, but are not in the capture (snap length, loss).
    Cut {
        /// Where the captured bytes end.
        at: usize,
    },
    /// A length or a count is more than its type allows, or than the message can hold.
    TooLong {
        /// Where the length stands.
        at: usize,
        /// The length as the message has it.
        length: u32,
        /// The most it could be.
        bound: u32,
    },
    /// A value that the type does not have.
    Invalid {
        /// Where the value stands.
        at: usize,
        /// The type.
        what: &'static str,
        /// The value.
        value: u32,
    },
    /// A number that this program does not know what follows it: an operation, an attribute, a layout type.
    Unknown {
        /// Where the number stands.
        at: usize,
        /// What kind of number it is.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// A chunk takes the place of an item that is not DDP-eligible (RFC 8166 section 6.1).
    NotEligible {
        /// Where the item's length stands.
        at: usize,
    },
    /// The message goes on after its last item.
    Trailing {
        /// Where the last item ends.
        at: usize,
        /// How many bytes follow it.
        length: usize,
    },
    /// A COMPOUND that succeeded has fewer results than its Call has operations (RFC 8881 section 16.2.3).
    ResultsMissing {
        /// Where the last result ends.
        at: usize,
        /// How many results there are.
        results: u32,
        /// How many operations the Call has.
        operations: u32,
    },
}

impl XdrError {
    /// Whether only the capture is to blame, not the sender.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Cut { .. })
    }

    /// The byte offset in the message.
    pub fn at(&self) -> usize {
        match *self {
            Self::Short { at, .. }
            | Self::Cut { at }
            | Self::TooLong { at, .. }
            | Self::Invalid { at, .. }
            | Self::Unknown { at, .. }
            | Self::NotEligible { at }
            | Self::Trailing { at, .. }
            | Self::ResultsMissing { at, .. } => at,
        }
    }

    /// The error without its byte offset, for output that has the offset in a place of its own.
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
            XdrError::Invalid { what, value, .. } => write!(f, "{value} is no {what}"),
            XdrError::Unknown { what, number, .. } => write!(f, "{what} {number} is not known"),
            XdrError::NotEligible { .. } => {
                f.write_str("a chunk takes the place of an item that is not DDP-eligible")
            }
            XdrError::Trailing { length: 1, .. } => f.write_str("1 byte follows the last item"),
            XdrError::Trailing { length, .. } => write!(f, "{length} bytes follow the last item"),
            XdrError::ResultsMissing { results, operations, .. } => {
                write!(f, "results of {results} of {operations} operations only")
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

/// A data item that travelled in a chunk instead of in the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkItem<'a> {
    /// Read chunks: the byte offset in the unreduced message where the item's content belongs (RFC 8166
    /// section 3.4.5). Write chunks have none: each matches an operation (RFC 8267 section 6.4.1).
    pub position: Option<u32>,
    /// Length of the content in bytes; for a Write chunk the length that the Reply returned.
    pub length: u32,
    /// The content, where it was kept and all of it was seen.
    pub bytes: Option<&'a [u8]>,
}

/// A place in a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Length of the message; more than `bytes.len()` where the capture cut it.
    length: usize,
    /// Position of the message's first byte in what the observer looks at.
    base: usize,
    /// Read chunks that are still to come, or all Write chunks.
    chunks: &'a [ChunkItem<'a>],
    pairing: WriteChunkPairing,
    /// Bytes of chunks, with their roundup, that belong before `at` in the unreduced message.
    spliced: usize,
    padding: Padding,
    /// Bytes of padding before `at`, which the unreduced message does not have.
    padded: usize,
    is_known: bool,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a message that was captured whole and sent without chunks.
    pub fn new(bytes: &'a [u8]) -> Self {
        let pairing = WriteChunkPairing::default();
        let (length, padding) = (bytes.len(), Padding::default());
        Self {
            bytes,
            at: 0,
            length,
            base: 0,
            chunks: &[],
            pairing,
            spliced: 0,
            padding,
            padded: 0,
            is_known: false,
        }
    }

    /// A message that was `length` bytes long on the wire, of which `bytes` were captured.
    #[must_use]
    pub fn with_length(mut self, length: usize) -> Self {
        self.length = length.max(self.bytes.len());
        self
    }

    /// Bytes from which the same was decoded before: the items of lists are not looked at again before they are asked for, if
    /// all have one length. Where that is not so, a list may have less items than it says.
    #[must_use]
    pub fn known(mut self) -> Self {
        self.is_known = true;
        self
    }

    /// Whether they are [`known`](Self::known).
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Tells observers positions that count from `base` for the message's first byte.
    #[must_use]
    pub fn with_base(mut self, base: usize) -> Self {
        self.base = base;
        self
    }

    /// A reduced message: these items travelled in chunks. Of Write chunks all are here that the Call offered, in their
    /// order; those that returned nothing have length 0.
    #[must_use]
    pub fn with_chunks(mut self, chunks: &'a [ChunkItem<'a>]) -> Self {
        self.chunks = chunks;
        self
    }

    /// A message in which opaque data is aligned: RDMA_MSGP. Positions for observers, with their
    /// [base](Self::with_base), must count from the first byte of the Send.
    #[must_use]
    pub fn with_padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Byte offset in the message as it was sent.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Byte offset for an observer.
    pub fn position(&self) -> usize {
        self.base + self.at
    }

    /// Byte offset in the unreduced message: what the Position of a Read chunk counts (RFC 8166 section 3.4.5).
    pub fn unreduced(&self) -> usize {
        self.at + self.spliced - self.padded
    }

    /// Bytes of padding before this place (RFC 5666 section 3.9).
    pub fn padding_bytes(&self) -> usize {
        self.padded
    }

    /// Length of the message as it was sent.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes of the message from here on, captured or not.
    pub fn remaining(&self) -> usize {
        self.length - self.at
    }

    /// Holds that the message ends here.
    ///
    /// # Errors
    /// [`XdrError::Trailing`] where bytes follow, captured or not.
    pub fn end(&self) -> Result<(), XdrError> {
        match self.remaining() {
            0 => Ok(()),
            length => Err(XdrError::Trailing { at: self.at, length }),
        }
    }

    /// Whether the message ends here, and all its chunks were taken.
    pub fn is_at_end(&self) -> bool {
        self.remaining() == 0 && self.chunks.is_empty()
    }

    /// The captured bytes from here on.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The bytes between an earlier cursor of the same message and this one.
    pub fn since(&self, start: &Cursor<'a>) -> &'a [u8] {
        self.bytes.get(start.at..self.at).unwrap_or_default()
    }

    /// A cursor here whose message ends after `count` bytes: what an opaque item holds that is XDR itself.
    #[must_use]
    pub fn within(&self, count: usize) -> Self {
        let length = self.at.saturating_add(count).min(self.length);
        Self { bytes: self.bytes.get(..length).unwrap_or(self.bytes), length, ..*self }
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], XdrError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.missing(count)),
        }
    }

    /// Takes the next four bytes as a number.
    ///
    /// # Errors
    /// [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn word(&mut self) -> Result<u32, XdrError> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                self.at += 4;
                Ok(u32::from_be_bytes(*bytes))
            }
            None => Err(self.missing(4)),
        }
    }

    /// Takes the next eight bytes as a number.
    ///
    /// # Errors
    /// [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn hyper(&mut self) -> Result<u64, XdrError> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                self.at += 8;
                Ok(u64::from_be_bytes(*bytes))
            }
            None => Err(self.missing(8)),
        }
    }

    /// Takes `count` bytes of opaque data and its fill (RFC 4506 section 4.10).
    ///
    /// # Errors
    /// [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub fn padded(&mut self, count: usize) -> Result<&'a [u8], XdrError> {
        let bytes = self.take(count)?;
        self.take(roundup(count))?;
        Ok(bytes)
    }

    /// Takes `count` bytes of opaque data and its fill, and the padding before it where the message has any. Returns the
    /// bytes, and the position of the first.
    ///
    /// # Errors
    /// [`XdrError::Short`] or [`XdrError::Cut`].
    #[inline]
    pub(super) fn opaque(&mut self, count: u32) -> Result<(usize, &'a [u8]), XdrError> {
        let padding = self.padding.before(self.position(), count);
        if padding > 0 && padding + count as usize + roundup(count as usize) <= self.remaining() {
            self.take(padding)?;
            self.padded += padding;
        }
        let position = self.position();
        Ok((position, self.padded(count as usize)?))
    }

    /// Opens the next `length` bytes, the content of an opaque item that is XDR itself: a cursor that ends where the
    /// content ends. This cursor goes on after the item's fill. Read chunks whose Position is in the content go with
    /// it, and `length` counts their bytes; Write chunks stay, as nothing tells whether they belong inside.
    ///
    /// # Errors
    /// [`XdrError::Short`] where the message cannot hold the content, [`XdrError::TooLong`] where the content cannot hold
    /// its chunks. What was not captured is an error of the cursor that meets it.
    pub fn enclosed(&mut self, length: u32) -> Result<Cursor<'a>, XdrError> {
        let content = length as usize;
        let end = self.unreduced() + content;
        let belongs =
            |chunk: &ChunkItem<'_>| chunk.position.is_some_and(|position| (position as usize) < end);
        let count = self.chunks.iter().take_while(|chunk| belongs(chunk)).count();
        let (inside, after) = self.chunks.split_at(count);
        let mut spliced = 0;
        for chunk in inside {
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
        let inner = Cursor { bytes, length: stop, chunks: inside, ..*self };
        *self = Cursor { at: stop + fill, chunks: after, spliced: self.spliced + spliced, ..*self };
        Ok(inner)
    }

    #[cold]
    fn missing(&self, needed: usize) -> XdrError {
        if needed <= self.remaining() {
            XdrError::Cut { at: self.bytes.len() }
        } else {
            XdrError::Short { at: self.at, needed }
        }
    }

    /// The Read chunk whose Position is here, without taking it.
    pub(super) fn read_chunk_here(&self) -> Option<&'a ChunkItem<'a>> {
        let item = self.chunks.first()?;
        (item.position.is_some_and(|position| position as usize == self.unreduced())).then_some(item)
    }

    /// Takes the chunk that holds a DDP-eligible item of this length, if the item is not inline: the Read chunk
    /// whose Position is here, or the Write chunk that matches the operation (RFC 8267 section 6.4.1).
    pub(super) fn take_chunk(&mut self, length: u32) -> Option<&'a ChunkItem<'a>> {
        let item = match self.chunks.first()?.position {
            Some(_) => {
                let item = self.read_chunk_here()?;
                self.chunks = self.chunks.get(1..).unwrap_or_default();
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
        self.spliced += length as usize + roundup(length as usize);
        Some(item)
    }

    /// Ends an operation that can have a DDP-eligible item, whether it has one or not: what follows matches the next Write
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
    fn an_enclosed_item_ends_where_its_length_says_and_keeps_its_positions() {
        let mut cursor = Cursor::new(b"\0\0\0\x06abcdef\0\0next").with_base(100);
        let length = cursor.word().unwrap();
        let mut inner = cursor.enclosed(length).unwrap();
        assert_eq!((inner.at(), inner.position(), inner.remaining()), (4, 104, 6));
        assert_eq!(inner.word(), Ok(0x6162_6364));
        assert_eq!(inner.word(), Err(XdrError::Short { at: 8, needed: 4 }));
        assert_eq!(cursor.take(4), Ok(&b"next"[..]));
    }

    #[test]
    fn an_enclosed_item_counts_the_chunks_that_belong_in_it() {
        let chunks = [4, 12].map(|position| ChunkItem { position: Some(position), length: 3, bytes: None });
        let mut cursor = Cursor::new(b"\0\0\0\x08tailnext").with_chunks(&chunks);
        let length = cursor.word().unwrap();
        let mut inner = cursor.enclosed(length).unwrap();
        assert_eq!(inner.take_chunk(3), Some(&chunks[0]));
        assert_eq!((inner.take(4), inner.unreduced(), inner.remaining()), (Ok(&b"tail"[..]), 12, 0));
        assert_eq!((cursor.at(), cursor.unreduced()), (8, 12));
        assert_eq!(cursor.take_chunk(3), Some(&chunks[1]));
    }

    #[test]
    fn an_enclosed_item_longer_than_the_message_is_refused() {
        assert_eq!(Cursor::new(b"abcd").enclosed(8).unwrap_err(), XdrError::Short { at: 0, needed: 8 });
        assert_eq!(Cursor::new(b"abcd").enclosed(u32::MAX).unwrap_err().at(), 0);
    }

    #[test]
    fn an_enclosed_item_may_be_cut_by_the_capture() {
        let mut cursor = Cursor::new(b"abcdef").with_length(12);
        let mut inner = cursor.enclosed(8).unwrap();
        assert_eq!(inner.take(4), Ok(&b"abcd"[..]));
        assert_eq!(inner.take(4), Err(XdrError::Cut { at: 6 }));
        assert_eq!(cursor.word(), Err(XdrError::Cut { at: 6 }));
    }
}
