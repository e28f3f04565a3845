//! Compressed data before decompression.

use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};

use super::error::SourceErrorKind;

/// Size of the read buffer for compressed input, in bytes.
const COMPRESSED_BUFFER: usize = 64 << 10;

/// The first bytes, which were inspected, followed by the rest.
pub(super) type PeekedInputReader = Chain<Cursor<Vec<u8>>, CountedReader>;

/// A reader that counts the bytes it delivers and records that it failed: the decompressors wrap its errors in theirs.
pub(super) struct CountedReader {
    reader: Box<dyn Read + Send>,
    pub(super) bytes_read: u64,
    has_failed: bool,
}

impl CountedReader {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader, bytes_read: 0, has_failed: false }
    }
}

impl Read for CountedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Ok(read) => {
                    self.bytes_read = self.bytes_read.saturating_add(read as u64);
                    return Ok(read);
                }
                // Interrupted by a signal.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_failed = true;
                    return Err(error);
                }
            }
        }
    }
}

/// Compressed data, with the interpretation of decompressor errors.
pub(super) struct CompressedInput {
    pub(super) raw: BufReader<PeekedInputReader>,
}

impl CompressedInput {
    pub(super) fn new(raw: PeekedInputReader) -> Self {
        Self { raw: BufReader::with_capacity(COMPRESSED_BUFFER, raw) }
    }

    /// Reads until `buffer` is full or the input ends, and returns the number of bytes read.
    pub(super) fn read_up_to(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        read_up_to(&mut self.raw, buffer).map_err(SourceErrorKind::Read)
    }

    pub(super) fn read_all(&mut self, buffer: &mut [u8], format: &'static str) -> Result<(), SourceErrorKind> {
        let length = self.read_up_to(buffer)?;
        if length == buffer.len() { Ok(()) } else { Err(SourceErrorKind::TruncatedCompression(format)) }
    }

    pub(super) fn skip(&mut self, length: u64, format: &'static str) -> Result<(), SourceErrorKind> {
        let skipped = io::copy(&mut (&mut self.raw).take(length), &mut io::sink());
        match skipped.map_err(SourceErrorKind::Read)? {
            skipped if skipped == length => Ok(()),
            _ => Err(SourceErrorKind::TruncatedCompression(format)),
        }
    }

    /// Maps an error of the decompressor that reads this input: the input failed, ended early, or is damaged.
    pub(super) fn map_error(
        &mut self,
        format: &'static str,
        error: &(dyn std::error::Error + 'static),
    ) -> SourceErrorKind {
        let has_read_error = self.raw.get_ref().get_ref().1.has_failed;
        let text = one_line(error);
        if has_read_error {
            SourceErrorKind::Read(io::Error::other(text))
        } else if matches!(read_up_to(&mut self.raw, &mut [0]), Ok(0)) && is_unexpected_eof(error) {
            SourceErrorKind::TruncatedCompression(format)
        } else {
            SourceErrorKind::Compression(format, text)
        }
    }
}

/// Returns `true` if `error` or one of its sources is an unexpected end of file.
fn is_unexpected_eof(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads until `buffer` is full or the input ends, and returns the number of bytes read.
pub(super) fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(free) = buffer.get_mut(length..).filter(|free| !free.is_empty()) {
        match reader.read(free)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
