//! The bytes of a file or of standard input, decompressed if necessary.
//!
//! The compression is detected from the first bytes and never from the name, so it is recognised on standard input too.

use std::io::{self, Cursor, Read};

use super::error::SourceErrorKind;
use super::gzip::{self, GzipDecompressor};
use super::raw_compressed_input::{CompressedInput, CountedReader, PeekedInputReader, read_up_to};
use super::zstd::{self, ZstdDecompressor};
use crate::zstd_window_memory::ZstdWindowBudget;

/// A plain or compressed input, read from its start.
pub(super) struct DecompressedCaptureInput {
    stream: PlainOrCompressedInput,
    /// Length in bytes before decompression, if known.
    pub(super) total: Option<u64>,
    /// Memory budget that the windows of all inputs share.
    pub(super) windows: ZstdWindowBudget,
}

enum PlainOrCompressedInput {
    /// Not read yet. `None` after the first read failed.
    Unread(Option<CountedReader>),
    Plain(PeekedInputReader),
    // Boxed because the states of the decompressors are large.
    Gzip(Box<GzipDecompressor>),
    Zstd(Box<ZstdDecompressor>),
}

impl DecompressedCaptureInput {
    /// Returns an input of `total` bytes, if known. Nothing is read before the first
    /// [`DecompressedCaptureInput::read`].
    pub(super) fn new(reader: Box<dyn Read + Send>, total: Option<u64>, windows: ZstdWindowBudget) -> Self {
        Self { stream: PlainOrCompressedInput::Unread(Some(CountedReader::new(reader))), total, windows }
    }

    /// Returns `true` if offsets in this input are offsets in decompressed data.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.stream, PlainOrCompressedInput::Gzip(_) | PlainOrCompressedInput::Zstd(_))
    }

    /// Returns `true` if the input holds window memory that other inputs may need.
    pub(super) fn has_window(&self) -> bool {
        matches!(self.stream, PlainOrCompressedInput::Zstd(_))
    }

    /// Returns the number of bytes read so far, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        let raw = match &self.stream {
            PlainOrCompressedInput::Unread(_) => return 0,
            PlainOrCompressedInput::Plain(raw) => raw,
            PlainOrCompressedInput::Gzip(gzip) => gzip.input.raw.get_ref(),
            PlainOrCompressedInput::Zstd(zstd) => zstd.input.raw.get_ref(),
        };
        raw.get_ref().1.bytes_read
    }

    /// Reads some bytes. Returns 0 at the end. Errors: [`SourceErrorKind::Read`],
    /// [`SourceErrorKind::TruncatedCompression`] and [`SourceErrorKind::Compression`].
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        if let PlainOrCompressedInput::Unread(reader) = &mut self.stream
            && let Some(reader) = reader.take()
        {
            self.stream = recognise(reader, &self.windows).map_err(SourceErrorKind::Read)?;
        }
        match &mut self.stream {
            PlainOrCompressedInput::Unread(_) => Ok(0),
            PlainOrCompressedInput::Plain(raw) => raw.read(buffer).map_err(SourceErrorKind::Read),
            PlainOrCompressedInput::Gzip(gzip) => gzip.read(buffer),
            PlainOrCompressedInput::Zstd(zstd) => zstd.read(buffer),
        }
    }
}

fn recognise(mut reader: CountedReader, windows: &ZstdWindowBudget) -> io::Result<PlainOrCompressedInput> {
    let mut first = [0; 4];
    let length = read_up_to(&mut reader, &mut first)?;
    let first = first.get(..length).unwrap_or_default().to_vec();
    let (is_gzip, is_zstd) = (gzip::is_gzip_member(&first), zstd::is_zstd_frame(&first));
    let raw = Cursor::new(first).chain(reader);
    Ok(if is_gzip {
        PlainOrCompressedInput::Gzip(Box::new(GzipDecompressor::new(CompressedInput::new(raw))))
    } else if is_zstd {
        PlainOrCompressedInput::Zstd(Box::new(ZstdDecompressor::new(CompressedInput::new(raw), windows)))
    } else {
        PlainOrCompressedInput::Plain(raw)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain_input, gzip, input_of, zstd};
    use super::*;

    #[test]
    fn uncompressed_input_passes_unchanged() {
        for bytes in [&b""[..], b"\x1f", b"plain, and longer than the first look"] {
            let input = input_of(bytes);
            assert!(!input.is_compressed());
            let (contents, end) = drain_input(input);
            assert_eq!(contents, bytes);
            end.unwrap();
        }
    }

    #[test]
    fn progress_counts_bytes_before_decompression() {
        let packed = gzip(&[0; 100_000]);
        let mut input = input_of(&packed);
        while input.read(&mut [0; 4096]).unwrap() > 0 {}
        assert_eq!((input.bytes_read(), input.total), (packed.len() as u64, Some(packed.len() as u64)));
    }

    #[test]
    fn a_failing_input_is_not_taken_for_damaged_data() {
        struct FailingReader(Cursor<Vec<u8>>);
        impl Read for FailingReader {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(io::Error::from_raw_os_error(5)),
                    read => Ok(read),
                }
            }
        }
        let noise: Vec<u8> = (0..50_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for mut packed in [noise.clone(), gzip(&noise), zstd(&noise)] {
            packed.truncate(packed.len() / 2);
            let input = DecompressedCaptureInput::new(
                Box::new(FailingReader(Cursor::new(packed))),
                None,
                ZstdWindowBudget::default(),
            );
            assert!(matches!(drain_input(input).1, Err(SourceErrorKind::Read(_))));
        }
    }
}
