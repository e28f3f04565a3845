//! The bytes of a file or of standard input, decompressed if necessary.
//!
//! The compression is detected from the first bytes and never from the name, so it is recognised on standard input too.

use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};

use crate::zstd_window_memory::ZstdWindowBudget;

use super::error::SourceErrorKind;
use super::gzip::{self, GzipDecompressor};
use super::zstd::{self, ZstdDecompressor};

/// Size of the read buffer for compressed input, in bytes.
const COMPRESSED_BUFFER: usize = 64 << 10;

/// A plain or compressed input, read from its start.
pub(super) struct DecompressedCaptureInput {
    stream: CaptureInputStream,
    /// Length in bytes before decompression, if known.
    pub(super) total: Option<u64>,
    /// Memory budget that the windows of all inputs share.
    pub(super) windows: ZstdWindowBudget,
}

enum CaptureInputStream {
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
        Self {
            stream: CaptureInputStream::Unread(Some(CountedReader {
                reader,
                bytes_read: 0,
                has_failed: false,
            })),
            total,
            windows,
        }
    }

    /// Returns `true` if offsets in this input are offsets in decompressed data.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.stream, CaptureInputStream::Gzip(_) | CaptureInputStream::Zstd(_))
    }

    /// Returns `true` if the input holds window memory that other inputs may need.
    pub(super) fn has_window(&self) -> bool {
        matches!(self.stream, CaptureInputStream::Zstd(_))
    }

    /// Returns the number of bytes read so far, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        let raw = match &self.stream {
            CaptureInputStream::Unread(_) => return 0,
            CaptureInputStream::Plain(raw) => raw,
            CaptureInputStream::Gzip(gzip) => gzip.input.raw.get_ref(),
            CaptureInputStream::Zstd(zstd) => zstd.input.raw.get_ref(),
        };
        raw.get_ref().1.bytes_read
    }

    /// Reads some bytes. Returns 0 at the end. Errors: [`SourceErrorKind::Read`],
    /// [`SourceErrorKind::TruncatedCompression`] and [`SourceErrorKind::Compression`].
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        if let CaptureInputStream::Unread(reader) = &mut self.stream
            && let Some(reader) = reader.take()
        {
            self.stream = recognise(reader, &self.windows).map_err(SourceErrorKind::Read)?;
        }
        match &mut self.stream {
            CaptureInputStream::Unread(_) => Ok(0),
            CaptureInputStream::Plain(raw) => raw.read(buffer).map_err(SourceErrorKind::Read),
            CaptureInputStream::Gzip(gzip) => gzip.read(buffer),
            CaptureInputStream::Zstd(zstd) => zstd.read(buffer),
        }
    }
}

fn recognise(mut reader: CountedReader, windows: &ZstdWindowBudget) -> io::Result<CaptureInputStream> {
    let mut first = [0; 4];
    let length = read_up_to(&mut reader, &mut first)?;
    let first = first.get(..length).unwrap_or_default().to_vec();
    let (is_gzip, is_zstd) = (gzip::is_gzip_member(&first), zstd::is_zstd_frame(&first));
    let raw = Cursor::new(first).chain(reader);
    Ok(if is_gzip {
        CaptureInputStream::Gzip(Box::new(GzipDecompressor::new(CompressedInput::new(raw))))
    } else if is_zstd {
        CaptureInputStream::Zstd(Box::new(ZstdDecompressor::new(CompressedInput::new(raw), windows)))
    } else {
        CaptureInputStream::Plain(raw)
    })
}

/// The first bytes, which were inspected, followed by the rest.
pub(super) type PeekedInputReader = Chain<Cursor<Vec<u8>>, CountedReader>;

/// A reader that counts the bytes it delivers and records that it failed: the decompressors wrap its errors in theirs.
pub(super) struct CountedReader {
    reader: Box<dyn Read + Send>,
    bytes_read: u64,
    has_failed: bool,
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
    fn new(raw: PeekedInputReader) -> Self {
        Self { raw: BufReader::with_capacity(COMPRESSED_BUFFER, raw) }
    }

    /// Reads until `buffer` is full or the input ends, and returns the number of bytes read.
    pub(super) fn read_up_to(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        read_up_to(&mut self.raw, buffer).map_err(SourceErrorKind::Read)
    }

    pub(super) fn read_all(
        &mut self,
        buffer: &mut [u8],
        format: &'static str,
    ) -> Result<(), SourceErrorKind> {
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
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(free) = buffer.get_mut(length..).filter(|free| !free.is_empty()) {
        match reader.read(free)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// Returns an input over bytes in memory.
    pub(in super::super) fn input_of(bytes: &[u8]) -> DecompressedCaptureInput {
        DecompressedCaptureInput::new(
            Box::new(Cursor::new(bytes.to_vec())),
            Some(bytes.len() as u64),
            ZstdWindowBudget::default(),
        )
    }

    /// Returns the bytes that an input delivers before it ends or fails.
    pub(in super::super) fn drain(
        mut input: DecompressedCaptureInput,
    ) -> (Vec<u8>, Result<(), SourceErrorKind>) {
        let mut contents = Vec::new();
        let mut buffer = [0; 1000];
        loop {
            match input.read(&mut buffer) {
                Ok(0) => return (contents, Ok(())),
                Ok(read) => contents.extend_from_slice(&buffer[..read]),
                Err(error) => return (contents, Err(error)),
            }
        }
    }

    pub(in super::super) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::GzBuilder::new()
            .filename("trace.pcap")
            .comment("kept")
            .extra(vec![1, 2, 3])
            .write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(in super::super) fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn what_is_not_compressed_passes_unchanged() {
        for bytes in [&b""[..], b"\x1f", b"plain, and longer than the first look"] {
            let input = input_of(bytes);
            assert!(!input.is_compressed());
            let (contents, end) = drain(input);
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
            assert!(matches!(drain(input).1, Err(SourceErrorKind::Read(_))));
        }
    }
}
