//! Zstandard data of one or more frames (RFC 8878).

use std::io::Read;

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::SourceErrorKind;
use super::raw_compressed_input::CompressedInput;
use crate::zstd_window_memory::{ZstdWindowBudget, ZstdWindowMemory};

const FORMAT: &str = "zstd";
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An empty last block, followed by as many bytes as a checksum has.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Returns `true` if `first` begins a frame, or a skippable frame as pzstd and the seekable format write them (RFC 8878
/// sections 3.1.1 and 3.1.2).
pub fn is_zstd_frame(first: &[u8]) -> bool {
    first.starts_with(&MAGIC) || first.first_chunk().is_some_and(is_skippable)
}

fn is_skippable(magic: &[u8; 4]) -> bool {
    matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// Maximum size of a block, in bytes (RFC 8878 section 3.1.1.2).
const MAX_BLOCK_BYTES: u64 = 128 << 10;

/// Number of blocks that a decompressor holds in addition to its window.
const EXTRA_BLOCKS: u64 = 2;

/// A decompressor that delivers all data before an error, and then the error.
///
/// The windows of all decompressors share a budget ([`ZstdWindowBudget`]). Only the filled part of a window counts,
/// because a window takes no memory until it is filled.
pub(super) struct ZstdDecompressor {
    pub(super) input: CompressedInput,
    decoder: FrameDecoder,
    state: ZstdState,
    /// Window size of the current frame, in bytes.
    window: u64,
    memory: ZstdWindowMemory,
}

enum ZstdState {
    FrameOrEnd,
    Blocks,
    Fail(Option<SourceErrorKind>),
    End,
}

impl ZstdDecompressor {
    pub(super) fn new(input: CompressedInput, windows: &ZstdWindowBudget) -> Self {
        Self {
            input,
            decoder: FrameDecoder::new(),
            state: ZstdState::FrameOrEnd,
            window: 0,
            memory: windows.new_window(),
        }
    }

    /// Reads some bytes. Returns 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        loop {
            match &mut self.state {
                ZstdState::FrameOrEnd => match self.begin_frame() {
                    Ok(ZstdState::End) => self.end(),
                    Ok(next) => self.state = next,
                    Err(error) => {
                        self.end();
                        return Err(error);
                    }
                },
                ZstdState::Blocks if self.decoder.can_collect() > 0 => return self.read_decoded(buffer),
                ZstdState::Blocks if self.decoder.is_finished() => self.state = self.verify_checksum(),
                ZstdState::Blocks => self.decode(),
                ZstdState::Fail(_) if self.decoder.can_collect() > 0 => return self.read_decoded(buffer),
                ZstdState::Fail(error) => {
                    let error = error.take();
                    self.end();
                    return error.map_or(Ok(0), Err);
                }
                ZstdState::End => return Ok(0),
            }
        }
    }

    /// Ends reading and releases the memory.
    fn end(&mut self) {
        self.state = ZstdState::End;
        self.decoder = FrameDecoder::new();
        self.memory.release();
    }

    fn read_decoded(&mut self, buffer: &mut [u8]) -> Result<usize, SourceErrorKind> {
        self.decoder.read(buffer).map_err(SourceErrorKind::Read)
    }

    fn begin_frame(&mut self) -> Result<ZstdState, SourceErrorKind> {
        let mut magic = [0; 4];
        match self.input.read_up_to(&mut magic)? {
            0 => return Ok(ZstdState::End),
            4 => {}
            _ => return Err(SourceErrorKind::TruncatedCompression(FORMAT)),
        }
        if is_skippable(&magic) {
            let mut length = [0; 4];
            self.input.read_all(&mut length, FORMAT)?;
            self.input.skip(u64::from(u32::from_le_bytes(length)), FORMAT)?;
            return Ok(ZstdState::FrameOrEnd);
        }
        if magic != MAGIC {
            return Err(corrupt("no zstd frame where one should begin"));
        }
        // Minimum length of a header (RFC 8878 section 3.1.1.1).
        let mut header = [0; 2];
        self.input.read_all(&mut header, FORMAT)?;
        self.decoder.set_max_window_size(self.memory.windows.limit_bytes());
        match self.decoder.reset(magic.chain(&header[..]).chain(&mut self.input.raw)) {
            Ok(()) => {
                let [descriptor, window] = header;
                self.window = window_bytes(descriptor, window).unwrap_or(self.decoder.content_size());
                Ok(ZstdState::Blocks)
            }
            Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                Err(self.window_too_large(requested, self.memory.windows.limit_bytes()))
            }
            Err(error) => Err(self.input.map_error(FORMAT, &error)),
        }
    }

    fn decode(&mut self) {
        let filled = (self.decoder.blocks_decoded() as u64 + 1).saturating_mul(MAX_BLOCK_BYTES).min(self.window);
        if let Err(free_bytes) = self.memory.grow_to(filled + EXTRA_BLOCKS * MAX_BLOCK_BYTES) {
            self.state = ZstdState::Fail(Some(self.window_too_large(self.window, free_bytes)));
            let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
            return;
        }
        let decoded = self.decoder.decode_blocks(&mut self.input.raw, BlockDecodingStrategy::UptoBlocks(1));
        if let Err(error) = decoded {
            self.state = ZstdState::Fail(Some(self.input.map_error(FORMAT, &error)));
            // The decoder retains the last window until its frame ends. Ending the frame releases the data decoded
            // before the error. If this fails too, there is no data to return.
            let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
        }
    }

    fn window_too_large(&self, needed_bytes: u64, free_bytes: u64) -> SourceErrorKind {
        let budget_bytes = self.memory.windows.budget_for(needed_bytes, free_bytes);
        SourceErrorKind::Window { needed_bytes, free_bytes, budget_bytes }
    }

    fn verify_checksum(&self) -> ZstdState {
        match self.decoder.get_checksum_from_data() {
            Some(sum) if Some(sum) != self.decoder.get_calculated_checksum() => {
                ZstdState::Fail(Some(corrupt("the checksum differs")))
            }
            _ => ZstdState::FrameOrEnd,
        }
    }
}

/// Returns the window size of a frame header; `None` if it is the content size (RFC 8878 section 3.1.1.1.2).
fn window_bytes(descriptor: u8, window: u8) -> Option<u64> {
    let is_single_segment = descriptor & 0x20 != 0;
    let base = 1_u64 << (10 + (window >> 3));
    (!is_single_segment).then(|| base + base / 8 * u64::from(window & 7))
}

fn corrupt(description: &str) -> SourceErrorKind {
    SourceErrorKind::Compression(FORMAT, description.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain_input, input_of, zstd};
    use super::*;

    const SKIPPABLE: &[u8] = &[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];

    #[test]
    fn frames_follow_one_another_and_skippable_ones_give_nothing() {
        let packed = [SKIPPABLE, &zstd(b"one, "), SKIPPABLE, &zstd(b""), &zstd(b"two"), SKIPPABLE].concat();
        let (all, end) = drain_input(input_of(&packed));
        assert_eq!(all, b"one, two");
        end.unwrap();
    }

    #[test]
    fn a_cut_at_any_byte_is_an_error_after_a_prefix() {
        let data: Vec<u8> = (0..1000_u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let packed = [SKIPPABLE, &zstd(&data)].concat();
        for cut in (4..packed.len()).filter(|cut| *cut != SKIPPABLE.len()) {
            let (all, end) = drain_input(input_of(&packed[..cut]));
            assert!(data.starts_with(&all));
            assert!(matches!(end, Err(SourceErrorKind::TruncatedCompression("zstd"))), "cut at {cut}: {end:?}");
        }
        let (all, _) = drain_input(input_of(&packed[..packed.len() - 1]));
        assert_eq!(all, data, "only the checksum is missing");
    }

    #[test]
    fn blocks_before_a_cut_are_given_although_they_are_within_the_window() {
        let data: Vec<u8> = (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let packed = zstd(&data);
        let (all, end) = drain_input(input_of(&packed[..packed.len() - 10]));
        assert!(all.len() > data.len() - 128 * 1024 - 1, "{} of {}", all.len(), data.len());
        assert!(data.starts_with(&all));
        assert!(end.is_err());
    }

    #[test]
    fn wrong_checksums_and_trailing_bytes_are_errors_after_the_data() {
        let mut wrong = zstd(b"data, not much of it");
        if let Some(last) = wrong.last_mut() {
            *last ^= 1;
        }
        for packed in [wrong, [&zstd(b"data, not much of it"), &b"????"[..]].concat()] {
            let (all, end) = drain_input(input_of(&packed));
            assert_eq!(all, b"data, not much of it");
            assert!(matches!(end, Err(SourceErrorKind::Compression("zstd", _))));
        }
    }

    #[test]
    fn a_window_beyond_its_share_is_refused_before_it_is_allocated() {
        let (all, end) = drain_input(input_of(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 1, 0, 0]));
        assert!(all.is_empty());
        let Err(SourceErrorKind::Window { needed_bytes, free_bytes, .. }) = end else { panic!("{end:?}") };
        assert!(needed_bytes > free_bytes, "{needed_bytes} {free_bytes}");
    }

    #[test]
    fn rfc8878_section_3_1_1_1_2_the_window_size_comes_from_the_header() {
        assert_eq!(window_bytes(0, 0), Some(1024));
        assert_eq!(window_bytes(0, 17 << 3), Some(128 << 20));
        assert_eq!(window_bytes(0, 17 << 3 | 7), Some((128 << 20) / 8 * 15));
        assert_eq!(window_bytes(0x20, 0), None);
    }
}
