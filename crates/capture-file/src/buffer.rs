//! A forward-moving window over a byte stream, refilled in large reads.

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};

use super::compression::DecompressedCaptureInput;
use super::error::SourceErrorKind;

/// Maximum length of a record or block that is buffered as a whole, in bytes.
///
/// libpcap itself refuses more than 256 KiB for network links. 16 MiB leaves space for offloaded segments and long
/// options, and a damaged length cannot take all memory.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;

/// A record of any format. `bytes` is the range of its data in a [`CaptureFileReadBuffer`].
pub(super) struct CaptureRecord {
    pub(super) time: Timestamp,
    pub(super) link: LinkType,
    pub(super) length: u32,
    pub(super) bytes: Range<usize>,
}

impl Default for CaptureRecord {
    fn default() -> Self {
        Self { time: Timestamp(0), link: LinkType::NULL, length: 0, bytes: 0..0 }
    }
}

/// The window. Ranges into it stay valid until the next [`CaptureFileReadBuffer::fill`].
pub(super) struct CaptureFileReadBuffer {
    pub(super) input: DecompressedCaptureInput,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Stream offset of `bytes[0]`.
    base_offset: u64,
    has_ended: bool,
    /// Stream offset at which the unfinished [`CaptureFileReadBuffer::skip`] began, if any.
    skip_start: Option<u64>,
}

impl CaptureFileReadBuffer {
    /// Returns a window of `size` bytes (at least 64) over `input`.
    pub(super) fn new(input: DecompressedCaptureInput, size: usize) -> Self {
        Self {
            input,
            bytes: vec![0; size.max(64)],
            start: 0,
            end: 0,
            base_offset: 0,
            has_ended: false,
            skip_start: None,
        }
    }

    /// Returns the stream offset of the next byte to take, or of the start of an unfinished skip.
    pub(super) fn offset(&self) -> u64 {
        self.skip_start.unwrap_or(self.base_offset.saturating_add(self.start as u64))
    }

    /// Returns the buffered bytes, without reading.
    #[inline]
    pub(super) fn buffered(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the bytes of a range that [`CaptureFileReadBuffer::take`] returned.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// Moves past `length` bytes, or past all buffered bytes if there are fewer, and returns their range.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Range<usize> {
        let from = self.start;
        self.start = self.end.min(from.saturating_add(length));
        from..self.start
    }

    /// Reads until at least `length` bytes are buffered. Returns `false` if the stream ends before that.
    /// Errors: [`SourceErrorKind::ImplausibleLength`] above [`MAX_RECORD_BYTES`], and those of the stream.
    #[inline]
    pub(super) fn fill(&mut self, length: usize) -> Result<bool, SourceErrorKind> {
        if self.end - self.start >= length { Ok(true) } else { self.refill(length) }
    }

    #[cold]
    fn refill(&mut self, length: usize) -> Result<bool, SourceErrorKind> {
        if length > MAX_RECORD_BYTES {
            return Err(SourceErrorKind::ImplausibleLength(length as u64));
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.base_offset = self.base_offset.saturating_add(self.start as u64);
        self.end -= self.start;
        self.start = 0;
        while self.end < length && !self.has_ended {
            // The buffer grows only with the bytes that arrive, so a false length costs nothing.
            if self.end == self.bytes.len() {
                let grown = self.bytes.len().saturating_mul(2).min(MAX_RECORD_BYTES);
                self.bytes.resize(grown, 0);
            }
            let free = self.bytes.get_mut(self.end..).unwrap_or_default();
            match self.input.read(free) {
                Ok(0) => self.has_ended = true,
                Ok(read) => self.end += read.min(free.len()),
                Err(error) => {
                    self.has_ended = true;
                    return Err(error);
                }
            }
        }
        Ok(self.end >= length)
    }

    /// Reads until at least `length` bytes, those of a record, are buffered. Returns an error as
    /// [`CaptureFileReadBuffer::fill`], or if the stream ends before that.
    #[inline]
    pub(super) fn require(&mut self, length: usize) -> Result<(), SourceErrorKind> {
        if self.fill(length)? { Ok(()) } else { Err(self.truncated(length)) }
    }

    /// Returns the error for a stream that ends within the first `required` bytes of a record.
    #[cold]
    pub(super) fn truncated(&self, required: usize) -> SourceErrorKind {
        SourceErrorKind::Truncated { available_bytes: self.buffered().len() as u64, required_bytes: required as u64 }
    }

    /// Returns `false` at the end of a stream, or an error if it ends within the first `required` bytes of a record.
    pub(super) fn end_within(&self, required: usize) -> Result<bool, SourceErrorKind> {
        if self.buffered().is_empty() { Ok(false) } else { Err(self.truncated(required)) }
    }

    /// Moves past `length` bytes without keeping them, and returns the number of bytes skipped. Errors: those of
    /// the stream.
    pub(super) fn skip(&mut self, length: u64) -> Result<u64, SourceErrorKind> {
        let mut remaining_bytes = length;
        self.skip_start = Some(self.offset());
        loop {
            let step = usize::try_from(remaining_bytes).unwrap_or(usize::MAX);
            remaining_bytes -= self.take(step).len() as u64;
            if remaining_bytes == 0 {
                self.skip_start = None;
                return Ok(length);
            }
            if !self.fill(1)? {
                return Ok(length - remaining_bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::input_of;
    use super::*;

    fn over(bytes: &[u8], size: usize) -> CaptureFileReadBuffer {
        CaptureFileReadBuffer::new(input_of(bytes), size)
    }

    #[test]
    fn a_record_longer_than_the_window_grows_it() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let mut buffer = over(&bytes, 64);
        assert!(buffer.fill(10).unwrap());
        let first = buffer.take(10);
        assert_eq!(buffer.get(first), &bytes[..10]);
        assert!(buffer.fill(900).unwrap());
        let second = buffer.take(900);
        assert_eq!(buffer.get(second), &bytes[10..910]);
        assert_eq!(buffer.offset(), 910);
    }

    #[test]
    fn a_false_length_does_not_take_memory() {
        let mut buffer = over(&[0; 100], 64);
        assert!(!buffer.fill(MAX_RECORD_BYTES).unwrap());
        assert!(buffer.bytes.len() <= 256);
        assert!(matches!(buffer.fill(MAX_RECORD_BYTES + 1), Err(SourceErrorKind::ImplausibleLength(_))));
    }

    #[test]
    fn skipping_buffers_nothing_and_returns_the_skipped_length() {
        let mut buffer = over(&[7; 1000], 64);
        assert_eq!(buffer.skip(990).unwrap(), 990);
        assert_eq!(buffer.offset(), 990);
        assert_eq!(buffer.skip(u64::MAX).unwrap(), 10);
        assert_eq!(buffer.offset(), 990);
        assert_eq!(buffer.bytes.len(), 64);
    }
}
