//! Gzip data of one or more members (RFC 1952).

use std::io::BufRead;

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::error::SourceErrorKind;
use super::raw_compressed_input::CompressedInput;

const FORMAT: &str = "gzip";

/// FLG bits, RFC 1952 section 2.3.1.
const FHCRC: u8 = 1 << 1;
const FEXTRA: u8 = 1 << 2;
const FNAME: u8 = 1 << 3;
const FCOMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xe0;

pub(super) fn is_gzip_member(first: &[u8]) -> bool {
    first.starts_with(&[0x1f, 0x8b])
}

/// A decompressor that delivers all valid bytes before an error, and then the error.
pub(super) struct GzipDecompressor {
    pub(super) input: CompressedInput,
    inflate: Decompress,
    crc: Crc,
    state: GzipState,
}

enum GzipState {
    Header,
    Body,
    Trailer,
    MemberOrEnd,
    Fail(Option<SourceErrorKind>),
    End,
}

impl GzipDecompressor {
    pub(super) fn new(input: CompressedInput) -> Self {
        Self { input, inflate: Decompress::new(false), crc: Crc::new(), state: GzipState::Header }
    }

    /// Reads some bytes. Returns 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        loop {
            match &mut self.state {
                GzipState::Header => {
                    self.read_header()?;
                    self.state = GzipState::Body;
                }
                GzipState::Body => match self.read_body(buffer)? {
                    0 => {}
                    read => return Ok(read),
                },
                GzipState::Trailer => {
                    self.read_trailer()?;
                    self.state = GzipState::MemberOrEnd;
                }
                GzipState::MemberOrEnd => self.state = self.state_after_member()?,
                GzipState::Fail(error) => {
                    let error = error.take();
                    self.state = GzipState::End;
                    return error.map_or(Ok(0), Err);
                }
                GzipState::End => return Ok(0),
            }
        }
    }

    fn read_header(&mut self) -> Result<(), SourceErrorKind> {
        let mut fixed = [0; 10];
        self.input.read_all(&mut fixed, FORMAT)?;
        let [id1, id2, method, flags, ..] = fixed;
        if !is_gzip_member(&[id1, id2]) {
            return Err(corrupt("no gzip header where a member should begin"));
        }
        if method != 8 || flags & RESERVED != 0 {
            return Err(corrupt("unknown compression method or flags"));
        }
        if flags & FEXTRA != 0 {
            let mut length = [0; 2];
            self.input.read_all(&mut length, FORMAT)?;
            self.input.skip(u64::from(u16::from_le_bytes(length)), FORMAT)?;
        }
        for flag in [FNAME, FCOMMENT] {
            if flags & flag != 0 {
                self.input.raw.skip_until(0).map_err(SourceErrorKind::Read)?;
            }
        }
        if flags & FHCRC != 0 {
            self.input.skip(2, FORMAT)?;
        }
        self.inflate.reset(false);
        self.crc.reset();
        Ok(())
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        let compressed = self.input.raw.fill_buf().map_err(SourceErrorKind::Read)?;
        let is_end = compressed.is_empty();
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let result = self.inflate.decompress(compressed, buffer, FlushDecompress::None);
        let consumed = usize::try_from(self.inflate.total_in() - before_in).unwrap_or(0);
        let produced = usize::try_from(self.inflate.total_out() - before_out).unwrap_or(0);
        self.input.raw.consume(consumed);
        self.crc.update(buffer.get(..produced).unwrap_or_default());
        match result {
            Ok(Status::StreamEnd) => self.state = GzipState::Trailer,
            Ok(_) if is_end && produced == 0 => {
                self.state = GzipState::Fail(Some(SourceErrorKind::TruncatedCompression(FORMAT)));
            }
            // Neither input nor output advanced although both are available: no progress is possible.
            Ok(_) if consumed == 0 && produced == 0 && !buffer.is_empty() => {
                self.state = GzipState::Fail(Some(corrupt("decompression makes no progress")));
            }
            Ok(_) => {}
            Err(error) => {
                let description = error.message().unwrap_or("the deflate data is damaged");
                self.state = GzipState::Fail(Some(corrupt(description)));
            }
        }
        Ok(produced)
    }

    fn read_trailer(&mut self) -> Result<(), SourceErrorKind> {
        let mut trailer = [0; 8];
        self.input.read_all(&mut trailer, FORMAT)?;
        let [a, b, c, d, length @ ..] = trailer;
        let is_correct =
            u32::from_le_bytes([a, b, c, d]) == self.crc.sum() && u32::from_le_bytes(length) == self.crc.amount();
        if is_correct { Ok(()) } else { Err(corrupt("checksum or length differ")) }
    }

    /// Returns the state after a member. Zeros up to the end are padding of block devices and tapes.
    fn state_after_member(&mut self) -> Result<GzipState, SourceErrorKind> {
        loop {
            let rest = self.input.raw.fill_buf().map_err(SourceErrorKind::Read)?;
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            match rest.get(zeros..) {
                _ if rest.is_empty() => return Ok(GzipState::End),
                Some([_, ..]) if zeros == 0 => return Ok(GzipState::Header),
                Some([_, ..]) => return Err(corrupt("unknown bytes after the end")),
                _ => self.input.raw.consume(zeros),
            }
        }
    }
}

fn corrupt(description: &str) -> SourceErrorKind {
    SourceErrorKind::Compression(FORMAT, description.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain_input, gzip, input_of};
    use super::*;

    #[test]
    fn members_follow_one_another_as_one_stream() {
        let packed = [gzip(b"one, "), gzip(b""), gzip(b"two")].concat();
        let (all, end) = drain_input(input_of(&packed));
        assert_eq!(all, b"one, two");
        end.unwrap();
    }

    #[test]
    fn zeros_after_the_last_member_are_padding_and_other_bytes_are_damage() {
        let (all, end) = drain_input(input_of(&[gzip(b"data"), vec![0; 1024]].concat()));
        assert_eq!(all, b"data");
        end.unwrap();
        for rest in [&b"rest of something else"[..], b"\0\0rest"] {
            let (all, end) = drain_input(input_of(&[&gzip(b"data"), rest].concat()));
            assert_eq!(all, b"data");
            assert!(matches!(end, Err(SourceErrorKind::Compression("gzip", _))));
        }
    }

    #[test]
    fn a_cut_at_any_byte_is_an_error_after_a_prefix() {
        let data: Vec<u8> = (0..2000_u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let packed = gzip(&data);
        for cut in 2..packed.len() {
            let (all, end) = drain_input(input_of(&packed[..cut]));
            assert!(data.starts_with(&all));
            assert!(matches!(end, Err(SourceErrorKind::TruncatedCompression("gzip"))), "cut at {cut}");
        }
        let (all, _) = drain_input(input_of(&packed[..packed.len() - 8]));
        assert_eq!(all, data, "only the trailer is missing");
    }

    #[test]
    fn a_wrong_checksum_is_an_error_after_all_data() {
        let mut packed = gzip(b"data");
        let crc = packed.len() - 8;
        packed[crc] ^= 1;
        let (all, end) = drain_input(input_of(&packed));
        assert_eq!(all, b"data");
        assert!(matches!(end, Err(SourceErrorKind::Compression("gzip", _))));
    }
}
