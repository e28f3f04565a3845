//! Zstandard data of one or more frames (RFC 8878).

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::compression::Compressed;
use super::error::SourceErrorKind;

const FORMAT: &str = "zstd";
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An empty last block, and as many bytes as a checksum has.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Whether `first` begins a frame, or a skippable frame as pzstd and the seekable format write them
/// (RFC 8878 sections 3.1.1 and 3.1.2).
pub(super) fn begins(first: &[u8]) -> bool {
    first.starts_with(&MAGIC) || first.first_chunk().is_some_and(is_skippable)
}

fn is_skippable(magic: &[u8; 4]) -> bool {
    matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// A decompressor that gives what comes before an error, and then the error.
///
/// Windows of more than 128 MiB are refused, as the zstd program does without `--long=31` or `--memory`.
pub(super) struct Zstd {
    input: Compressed,
    decoder: FrameDecoder,
    next: Next,
}

enum Next {
    FrameOrEnd,
    Blocks,
    Fail(Option<SourceErrorKind>),
    End,
}

impl Zstd {
    pub(super) fn new(input: Compressed) -> Self {
        Self { input, decoder: FrameDecoder::new(), next: Next::FrameOrEnd }
    }

    pub(super) fn input(&self) -> &Compressed {
        &self.input
    }

    /// Reads some bytes; none are the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, SourceErrorKind> {
        loop {
            match &mut self.next {
                Next::FrameOrEnd => self.next = self.begin()?,
                Next::Blocks if self.decoder.can_collect() > 0 => return self.collect(into),
                Next::Blocks if self.decoder.is_finished() => self.next = self.check(),
                Next::Blocks => self.decode(),
                Next::Fail(_) if self.decoder.can_collect() > 0 => return self.collect(into),
                Next::Fail(error) => {
                    let error = error.take();
                    self.next = Next::End;
                    return error.map_or(Ok(0), Err);
                }
                Next::End => return Ok(0),
            }
        }
    }

    fn collect(&mut self, into: &mut [u8]) -> Result<usize, SourceErrorKind> {
        self.decoder.read(into).map_err(SourceErrorKind::Read)
    }

    fn begin(&mut self) -> Result<Next, SourceErrorKind> {
        let mut magic = [0; 4];
        match self.input.read_up_to(&mut magic)? {
            0 => return Ok(Next::End),
            4 => {}
            _ => return Err(SourceErrorKind::TornCompression(FORMAT)),
        }
        if is_skippable(&magic) {
            let mut length = [0; 4];
            self.input.read_all(&mut length, FORMAT)?;
            self.input.skip(u64::from(u32::from_le_bytes(length)), FORMAT)?;
            return Ok(Next::FrameOrEnd);
        }
        if magic != MAGIC {
            return Err(corrupt("no zstd frame where one should begin"));
        }
        match self.decoder.reset(magic.chain(&mut self.input.raw)) {
            Ok(()) => Ok(Next::Blocks),
            Err(error) => Err(self.input.explain(FORMAT, &error)),
        }
    }

    fn decode(&mut self) {
        let decoded = self.decoder.decode_blocks(&mut self.input.raw, BlockDecodingStrategy::UptoBlocks(1));
        if let Err(error) = decoded {
            self.next = Next::Fail(Some(self.input.explain(FORMAT, &error)));
            // The decoder holds the last window back until its frame ends. Ending the frame for it sets free what was
            // decoded before the error; that this fails in turn only means that there is nothing to be had.
            let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
        }
    }

    fn check(&self) -> Next {
        match self.decoder.get_checksum_from_data() {
            Some(sum) if Some(sum) != self.decoder.get_calculated_checksum() => {
                Next::Fail(Some(corrupt("the checksum differs")))
            }
            _ => Next::FrameOrEnd,
        }
    }
}

fn corrupt(what: &str) -> SourceErrorKind {
    SourceErrorKind::Compression(FORMAT, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::compression::tests::{drain, input_of, zstd};
    use super::*;

    const SKIPPABLE: &[u8] = &[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];

    #[test]
    fn frames_follow_one_another_and_skippable_ones_give_nothing() {
        let packed = [SKIPPABLE, &zstd(b"one, "), SKIPPABLE, &zstd(b""), &zstd(b"two"), SKIPPABLE].concat();
        let (all, end) = drain(input_of(&packed));
        assert_eq!(all, b"one, two");
        end.unwrap();
    }

    #[test]
    fn a_cut_at_any_byte_is_told_and_gives_a_prefix() {
        let data: Vec<u8> = (0..1000_u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let packed = [SKIPPABLE, &zstd(&data)].concat();
        for cut in (4..packed.len()).filter(|cut| *cut != SKIPPABLE.len()) {
            let (all, end) = drain(input_of(&packed[..cut]));
            assert!(data.starts_with(&all));
            assert!(matches!(end, Err(SourceErrorKind::TornCompression("zstd"))), "cut at {cut}: {end:?}");
        }
        let (all, _) = drain(input_of(&packed[..packed.len() - 1]));
        assert_eq!(all, data, "only the checksum is missing");
    }

    #[test]
    fn blocks_before_a_cut_are_given_although_they_are_within_the_window() {
        let data: Vec<u8> =
            (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let packed = zstd(&data);
        let (all, end) = drain(input_of(&packed[..packed.len() - 10]));
        assert!(all.len() > data.len() - 128 * 1024 - 1, "{} of {}", all.len(), data.len());
        assert!(data.starts_with(&all));
        assert!(end.is_err());
    }

    #[test]
    fn a_wrong_checksum_and_trailing_bytes_are_told_after_the_data() {
        let mut wrong = zstd(b"data, not much of it");
        if let Some(last) = wrong.last_mut() {
            *last ^= 1;
        }
        for packed in [wrong, [&zstd(b"data, not much of it"), &b"????"[..]].concat()] {
            let (all, end) = drain(input_of(&packed));
            assert_eq!(all, b"data, not much of it");
            assert!(matches!(end, Err(SourceErrorKind::Compression("zstd", _))));
        }
    }

    #[test]
    fn a_window_above_128_mib_is_refused_before_it_is_allocated() {
        let (all, end) = drain(input_of(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 1, 0, 0]));
        assert!(all.is_empty());
        assert!(matches!(end, Err(SourceErrorKind::Compression("zstd", _))));
    }
}
