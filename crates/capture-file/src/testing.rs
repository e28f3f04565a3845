//! Inputs for tests, and their results.

use std::io::{Cursor, Write};

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};

use super::compression::DecompressedCaptureInput;
use super::error::{SourceError, SourceErrorKind};
use super::frame_source::CaptureFrameSource;
use super::zstd_window_memory::ZstdWindowBudget;

/// A frame copied out of its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) time: Timestamp,
    pub(super) link: LinkType,
    pub(super) length: u32,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn kept(number: u64, time: i64, link: LinkType, length: u32, bytes: &[u8]) -> Kept {
    Kept { number, time: Timestamp(time), link, length, bytes: bytes.to_vec() }
}

pub(super) fn source(bytes: &[u8]) -> CaptureFrameSource {
    CaptureFrameSource::from_reader("test", Cursor::new(bytes.to_vec()))
}

/// Returns all frames and all errors.
pub(super) fn drain(source: &mut CaptureFrameSource) -> (Vec<Kept>, Vec<SourceError>) {
    let (mut frames, mut errors) = (Vec::new(), Vec::new());
    loop {
        match source.next() {
            Ok(Some(frame)) => {
                frames.push(kept(frame.number.0, frame.time.0, frame.link, frame.length, frame.bytes));
            }
            Ok(None) => return (frames, errors),
            Err(error) => errors.push(error),
        }
    }
}

/// Returns the frames of a valid file.
pub(super) fn frames(bytes: &[u8]) -> Vec<Kept> {
    let (frames, errors) = drain(&mut source(bytes));
    assert!(errors.is_empty(), "{}", errors[0]);
    frames
}

/// Returns the frames before an error, and the error.
pub(super) fn failure(bytes: &[u8]) -> (Vec<Kept>, SourceError) {
    let (frames, mut errors) = drain(&mut source(bytes));
    assert_eq!(errors.len(), 1);
    (frames, errors.remove(0))
}

/// Returns an input over bytes in memory.
pub(super) fn input_of(bytes: &[u8]) -> DecompressedCaptureInput {
    DecompressedCaptureInput::new(
        Box::new(Cursor::new(bytes.to_vec())),
        Some(bytes.len() as u64),
        ZstdWindowBudget::default(),
    )
}

/// Returns the bytes that an input delivers before it ends or fails.
pub(super) fn drain_input(mut input: DecompressedCaptureInput) -> (Vec<u8>, Result<(), SourceErrorKind>) {
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

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new()
        .filename("trace.pcap")
        .comment("kept")
        .extra(vec![1, 2, 3])
        .write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
