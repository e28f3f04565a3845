//! Resuming in the middle of a file that was read before.
//!
//! A [`CaptureResumePoint`] is the position of a frame in a plain file. A source opened there returns the frames from
//! it on under their own numbers: the beginning of the file up to its first frame is read again, and the rest is
//! skipped.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::error::{SourceError, SourceErrorKind, input_error};
use super::frame_source::{CaptureFrameSource, READ_BUFFER_BYTES};
use super::reader::CaptureFileReader;
use crate::zstd_window_memory::ZstdWindowBudget;

/// Maximum length of the beginning of a file that is read again, in bytes.
const MAX_BEGINNING_BYTES: u64 = 1 << 20;

/// The position of a frame in a plain file that is read alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureResumePoint {
    /// Frame number.
    pub frame: FrameNumber,
    /// Offset of the frame in the file.
    offset: u64,
    /// Offset at which the first frame of the file ends.
    first_frame_end: u64,
}

impl CaptureFrameSource {
    /// Returns the position of the frame after the last one. Returns `None` if reading cannot resume there: for a
    /// compressed file, one of several files, standard input, and a pcapng file that described another interface since
    /// its first frame.
    pub fn resume_point(&self) -> Option<CaptureResumePoint> {
        let [only] = self.readers.as_slice() else { return None };
        let (beginning, offset) = only.resume_offsets()?;
        let is_within_limit = beginning <= MAX_BEGINNING_BYTES;
        is_within_limit.then_some(CaptureResumePoint {
            frame: FrameNumber(self.number + 1),
            offset,
            first_frame_end: beginning,
        })
    }

    /// Opens a file at a position returned by a source of the same file.
    ///
    /// # Errors
    /// Returns [`SourceErrorKind::Open`] or [`SourceErrorKind::Read`], or the error of the beginning of the file.
    pub fn open_at(path: &Path, resume_point: CaptureResumePoint) -> Result<Self, SourceError> {
        let name = path.to_string_lossy().into_owned();
        let result = File::open(path).map_err(SourceErrorKind::Open).and_then(|mut file| {
            let mut beginning = Vec::new();
            file.by_ref()
                .take(resume_point.first_frame_end)
                .read_to_end(&mut beginning)
                .and_then(|_| file.seek(SeekFrom::Start(resume_point.offset)))
                .map_err(SourceErrorKind::Read)?;
            Ok(std::io::Cursor::new(beginning).chain(file))
        });
        let input = match result {
            Ok(input) => input,
            Err(kind) => return Err(input_error(name, kind)),
        };
        let mut source = Self::from_readers([CaptureFileReader::new(
            name,
            Box::new(input),
            None,
            (READ_BUFFER_BYTES, &ZstdWindowBudget::default()),
        )]);
        if resume_point.frame.0 > 1 {
            source.next()?;
            source.number = resume_point.frame.0 - 1;
        }
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name)
    }

    #[test]
    fn from_any_place_the_frames_are_the_same_with_their_numbers() {
        let path = path("rxe-v42.pcap");
        let mut places = Vec::new();
        let mut source = CaptureFrameSource::open([&path]).unwrap();
        let mut all = Vec::new();
        while let Some(frame) = source.next().unwrap() {
            all.push((frame.number, frame.time, frame.bytes.to_vec()));
            places.extend(source.resume_point());
        }
        assert_eq!(places.len(), all.len());
        for place in places.into_iter().step_by(97) {
            let mut again = CaptureFrameSource::open_at(&path, place).unwrap();
            let mut rest = all[place.frame.0 as usize - 1..].iter();
            for (number, time, bytes) in rest.by_ref().take(20) {
                let frame = again.next().unwrap().unwrap();
                assert_eq!((frame.number, frame.time, frame.bytes), (*number, *time, bytes.as_slice()));
            }
        }
    }

    #[test]
    fn a_compressed_file_has_no_places() {
        let plain = std::fs::read(path("rxe-v42.pcap")).unwrap();
        let packed = super::super::testing::gzip(&plain);
        let mut source = CaptureFrameSource::from_reader("test", std::io::Cursor::new(packed));
        source.next().unwrap();
        assert_eq!(source.resume_point(), None);
    }
}
