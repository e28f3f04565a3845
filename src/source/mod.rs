//! Where frames come from.
//!
//! A [`CaptureSource`] gives the frames of one or more capture files, or of standard input, one after the other:
//!
//! ```no_run
//! use nfsrdma_inspect::source::CaptureSource;
//!
//! let mut source = CaptureSource::open(["ring_00001.pcapng.zst", "ring_00002.pcapng.zst"])?;
//! loop {
//!     match source.next() {
//!         Ok(Some(frame)) => println!("{} {} {} bytes", frame.number, frame.time, frame.bytes.len()),
//!         Ok(None) => break,
//!         // The other files go on.
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok::<(), nfsrdma_inspect::source::SourceError>(())
//! ```
//!
//! With the feature `live`, a source may be a network interface instead: `live`.
//!
//! Formats are pcap and pcapng, plain or compressed with gzip or zstd, told from the bytes and not from the name.
//!
//! The bytes go `compression` -> `buffer` -> `format` (`pcap` or `pcapng`) -> `reader` (one file) -> `merge`. A frame
//! is borrowed from the buffer of its file: nothing is copied or allocated for it. Memory is a window a file, which
//! grows with the longest record, to 16 MiB at most, and what a decompressor needs.

mod buffer;
mod bytes;
mod compression;
mod counters;
mod error;
mod format;
mod gzip;
mod link_state;
#[cfg(feature = "live")]
pub mod live;
mod merge;
mod pcap;
mod pcapng;
mod reader;
mod resume_point;
mod timestamp_resolution;
mod zstd;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType, Timestamp};

use crate::interrupt::GracefulShutdown;
use crate::memory::Windows;
pub use counters::Counters;
pub(crate) use error::reason;
pub use error::{SourceError, SourceErrorKind};
pub use link_state::LinkState;
use merge::Merge;
pub use pcapng::Interface;
use reader::CaptureFileReader;
pub use resume_point::ResumePoint;
pub(crate) use zstd::begins as begins_zstd;

/// Window of a file that is read alone: reads of this size are as fast as they get, and it stays in the cache.
const WINDOW: usize = 256 << 10;
/// Bytes that the windows of many files share, and the least that each gets.
const ALL_WINDOWS: usize = 64 << 20;
const LEAST_WINDOW: usize = 16 << 10;

const STANDARD_INPUT: &str = "standard input";

/// A record of any format; `bytes` is where its data is in the window.
struct CaptureRecord {
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Range<usize>,
}

impl Default for CaptureRecord {
    fn default() -> Self {
        Self { time: Timestamp(0), link: LinkType::NULL, length: 0, bytes: 0..0 }
    }
}

/// How far a [`CaptureSource`] has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Bytes read, before decompression, of all files.
    pub read: u64,
    /// Bytes to be read; `None` where this is not known of one of them, as of standard input.
    pub total: Option<u64>,
}

/// What a source has when it is asked with patience.
pub enum NextFrame<'a> {
    /// The next frame.
    Frame(Frame<'a>),
    /// Nothing came as long as the patience lasted; only a live source says so.
    Nothing,
    /// Nothing more comes.
    End,
}

/// Patience that is long: then it begins anew.
#[cfg(feature = "live")]
const LONG: Duration = Duration::from_secs(3600);

/// The frames of capture files, merged by time and numbered from 1; or those of a network interface.
///
/// Of frames with the same time, those of the file that was named first come first. Only the next frame of each file
/// is looked at, as mergecap does: a file in which the time goes back is given in its own order.
pub struct CaptureSource {
    readers: Vec<CaptureFileReader>,
    merge: Merge,
    number: u64,
    /// The reader that has the last frame.
    last: Option<usize>,
    /// Instead of files.
    #[cfg(feature = "live")]
    live: Option<Box<live::LiveReader>>,
}

impl CaptureSource {
    /// Opens capture files; `-` is standard input. Nothing is read yet. Windows of zstd data have the memory of
    /// [`Windows::default`].
    ///
    /// # Errors
    /// [`SourceErrorKind::Open`], [`SourceErrorKind::Directory`] and [`SourceErrorKind::StandardInputTwice`], for the
    /// first file that has one.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, SourceError> {
        Self::open_within(paths, &Windows::default())
    }

    /// The same; windows of zstd data have a share of `windows`.
    ///
    /// # Errors
    /// Those of [`CaptureSource::open`].
    pub fn open_within<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &Windows,
    ) -> Result<Self, SourceError> {
        Self::opened(paths, windows, None)
    }

    /// The same where pipes end soon after the program is asked to end.
    pub(crate) fn open_until<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &Windows,
        ending: &GracefulShutdown,
    ) -> Result<Self, SourceError> {
        Self::opened(paths, windows, Some(ending))
    }

    fn opened<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &Windows,
        ending: Option<&GracefulShutdown>,
    ) -> Result<Self, SourceError> {
        let mut inputs: Vec<OpenedInput> = Vec::new();
        let mut standard_input = false;
        for path in paths {
            let path = path.as_ref();
            if path.as_os_str() == "-" {
                if standard_input {
                    return Err(unopened(STANDARD_INPUT.to_owned(), SourceErrorKind::StandardInputTwice));
                }
                standard_input = true;
                let name = STANDARD_INPUT.to_owned();
                let input: Box<dyn Read + Send> = match ending.map(|ending| (ending, unbuffered_input())) {
                    Some((ending, Ok(input))) => Box::new(ending.input(input)),
                    Some((_, Err(error))) => return Err(unopened(name, SourceErrorKind::Open(error))),
                    None => Box::new(io::stdin()),
                };
                inputs.push(OpenedInput { name, input, total: None, path: None });
            } else {
                let name = path.to_string_lossy().into_owned();
                match open_file(path) {
                    Ok((file, total)) => {
                        let input: Box<dyn Read + Send> = match ending.filter(|_| total.is_none()) {
                            Some(ending) => Box::new(ending.input(file)),
                            None => Box::new(file),
                        };
                        let path = total.map(|_| path.to_owned());
                        inputs.push(OpenedInput { name, input, total, path });
                    }
                    Err(kind) => return Err(unopened(name, kind)),
                }
            }
        }
        let window = ALL_WINDOWS.checked_div(inputs.len()).unwrap_or(WINDOW).clamp(LEAST_WINDOW, WINDOW);
        let readers = inputs.into_iter().map(|OpenedInput { name, input, total, path }| {
            let reader = CaptureFileReader::new(name, input, total, (window, windows));
            match path {
                Some(path) => reader.opened_from(path),
                None => reader,
            }
        });
        Ok(Self::of(readers))
    }

    /// Takes the bytes of a capture file from `reader`. `name` stands for it in errors.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Self {
        Self::reading(name, reader, &Windows::default())
    }

    /// The same; windows of zstd data have a share of `windows`.
    pub(crate) fn reading(name: &str, reader: impl Read + Send + 'static, windows: &Windows) -> Self {
        Self::of([CaptureFileReader::new(name.to_owned(), Box::new(reader), None, (WINDOW, windows))])
    }

    /// Makes one source of several: their files, in this order. Those that were read from already go on from there.
    pub fn merged(sources: impl IntoIterator<Item = CaptureSource>) -> Self {
        Self::of(sources.into_iter().flat_map(|source| source.readers))
    }

    fn of(readers: impl IntoIterator<Item = CaptureFileReader>) -> Self {
        Self {
            readers: readers.into_iter().collect(),
            merge: Merge::default(),
            number: 0,
            last: None,
            #[cfg(feature = "live")]
            live: None,
        }
    }

    #[cfg(feature = "live")]
    fn of_live(reader: live::LiveReader) -> Self {
        Self { live: Some(Box::new(reader)), ..Self::of([]) }
    }

    /// The capture, where the frames come from one.
    #[cfg(feature = "live")]
    pub fn live(&self) -> Option<live::LiveCapture> {
        Some(self.live.as_ref()?.live().clone())
    }

    /// The next frame; `None` when all files have ended.
    ///
    /// # Errors
    /// What is wrong with a file. This file has then ended; go on to get the frames of the others, and at last `None`.
    /// Each file gives one error at most.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend its frames")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, SourceError> {
        #[cfg(feature = "live")]
        if self.live.is_some() {
            while let live::LiveReadOutcome::Nothing = self.advance_live(LONG)? {}
            return Ok(self.frame());
        }
        self.last = None;
        let next = match self.readers.as_mut_slice() {
            [only] => only.advance()?.map(|_| 0),
            readers => self.merge.next(readers)?,
        };
        self.last = next;
        if next.is_some() {
            self.number += 1;
        }
        Ok(self.frame())
    }

    /// The next frame, for which a live source waits no longer than `patience`. Files are read as [`CaptureSource::next`] reads them.
    ///
    /// # Errors
    /// As those of [`CaptureSource::next`].
    #[inline]
    pub fn next_within(&mut self, patience: Duration) -> Result<NextFrame<'_>, SourceError> {
        #[cfg(feature = "live")]
        if self.live.is_some() {
            return Ok(match (self.advance_live(patience)?, self.frame()) {
                (live::LiveReadOutcome::Frame, Some(frame)) => NextFrame::Frame(frame),
                (live::LiveReadOutcome::Nothing, _) => NextFrame::Nothing,
                _ => NextFrame::End,
            });
        }
        let _ = patience;
        Ok(self.next()?.map_or(NextFrame::End, NextFrame::Frame))
    }

    #[cfg(feature = "live")]
    fn advance_live(&mut self, patience: Duration) -> Result<live::LiveReadOutcome, SourceError> {
        let Some(live) = &mut self.live else { return Ok(live::LiveReadOutcome::End) };
        let step = live.advance(patience).map_err(|kind| unopened(live.interface().name.clone(), kind))?;
        self.number += u64::from(matches!(step, live::LiveReadOutcome::Frame));
        Ok(step)
    }

    /// The frame that [`CaptureSource::next`] gave last; `None` before the first, after the last, and after an error.
    #[inline]
    pub fn frame(&self) -> Option<Frame<'_>> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return live.frame(FrameNumber(self.number));
        }
        self.last_reader()?.frame(FrameNumber(self.number))
    }

    /// Name of the file that the last frame came from.
    pub fn file(&self) -> Option<&str> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return Some(&live.interface().name);
        }
        self.last_reader().map(CaptureFileReader::name)
    }

    /// What is wrong with the last frame where its link type is not known; told once of each file.
    pub fn unknown_link(&mut self) -> Option<SourceError> {
        #[cfg(feature = "live")]
        if let Some(live) = &mut self.live {
            let link = live.unknown_link()?;
            return Some(unopened(live.interface().name.clone(), SourceErrorKind::LinkType(link.0)));
        }
        self.readers.get_mut(self.last?)?.unknown_link()
    }

    /// Comments on the last frame, which only pcapng has. What is not UTF-8 in them is replaced.
    pub fn comments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let pcapng = self.last_reader().and_then(CaptureFileReader::pcapng);
        pcapng.into_iter().flat_map(|(pcapng, buffer)| pcapng.comments(buffer))
    }

    /// The file of the last frame, counted from 0 in the order in which files were named, and the interface that the frame
    /// was captured on.
    pub fn interface(&self) -> Option<(usize, &Interface)> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return Some((0, live.interface()));
        }
        Some((self.last?, self.last_reader()?.interface()?))
    }

    /// The interfaces of all files, each with the name of its file: those that were described up to now, and of a
    /// pcapng file with several sections those of the present one.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, &Interface)> {
        self.readers
            .iter()
            .flat_map(|reader| reader.interfaces().iter().map(|interface| (reader.name(), interface)))
    }

    /// Packets that the capturing programs say they lost, up to now; `None` where none says anything. Counters are
    /// mostly at the end of a file.
    pub fn dropped(&self) -> Option<u64> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return Some(live.live().counters().dropped());
        }
        let counts = self.readers.iter().filter_map(|reader| reader.pcapng()?.0.dropped());
        counts.reduce(u64::saturating_add)
    }

    /// What a live source has counted up to now; `None` of files.
    pub fn counters(&self) -> Option<Counters> {
        #[cfg(feature = "live")]
        return Some(self.live.as_ref()?.live().counters());
        #[cfg(not(feature = "live"))]
        None
    }

    /// How much has been read, and of how much.
    pub fn progress(&self) -> ReadProgress {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return ReadProgress { read: live.bytes(), total: None };
        }
        let inputs = || self.readers.iter().map(CaptureFileReader::input);
        ReadProgress {
            read: inputs().map(|input| input.bytes_read()).fold(0, u64::saturating_add),
            total: inputs()
                .map(|input| input.total())
                .try_fold(0_u64, |sum, total| Some(sum.saturating_add(total?))),
        }
    }

    #[inline]
    fn last_reader(&self) -> Option<&CaptureFileReader> {
        self.readers.get(self.last?)
    }
}

/// An input that was opened.
struct OpenedInput {
    name: String,
    input: Box<dyn Read + Send>,
    /// Its length in bytes, where it is a regular file.
    total: Option<u64>,
    /// Where it can be opened again.
    path: Option<PathBuf>,
}

/// Standard input without the buffer of the standard library, so that waiting for it tells whether there is something to read.
fn unbuffered_input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

fn open_file(path: &Path) -> Result<(File, Option<u64>), SourceErrorKind> {
    // Looked at before opening: a directory opens, and only fails to read.
    let about = fs::metadata(path).map_err(SourceErrorKind::Open)?;
    if about.is_dir() {
        return Err(SourceErrorKind::Directory);
    }
    let file = File::open(path).map_err(SourceErrorKind::Open)?;
    Ok((file, about.is_file().then_some(about.len())))
}

fn unopened(file: String, kind: SourceErrorKind) -> SourceError {
    SourceError { file, frame: None, offset: None, decompressed: false, kind }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A frame that was copied out of its buffer.
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

    pub(super) fn source(bytes: &[u8]) -> CaptureSource {
        CaptureSource::from_reader("test", Cursor::new(bytes.to_vec()))
    }

    /// All frames and all errors.
    pub(super) fn drain(source: &mut CaptureSource) -> (Vec<Kept>, Vec<SourceError>) {
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

    /// The frames of a file that is right.
    pub(super) fn frames(bytes: &[u8]) -> Vec<Kept> {
        let (frames, errors) = drain(&mut source(bytes));
        assert!(errors.is_empty(), "{}", errors[0]);
        frames
    }

    /// The frames before an error, and the error.
    pub(super) fn failure(bytes: &[u8]) -> (Vec<Kept>, SourceError) {
        let (frames, mut errors) = drain(&mut source(bytes));
        assert_eq!(errors.len(), 1);
        (frames, errors.remove(0))
    }

    /// A pcap file with a frame of one byte at each time, in nanoseconds.
    fn pcap(times: &[u32], byte: u8) -> Vec<u8> {
        let mut file =
            vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for time in times {
            file.extend([0; 4]);
            file.extend(time.to_be_bytes());
            file.extend([0, 0, 0, 1, 0, 0, 0, 1, byte]);
        }
        file
    }

    fn merged(files: &[Vec<u8>]) -> CaptureSource {
        CaptureSource::merged(files.iter().map(|file| source(file)))
    }

    /// Time and byte of each frame, which must be numbered from 1 on.
    fn order(source: &mut CaptureSource) -> (Vec<(i64, u8)>, Vec<SourceError>) {
        let (frames, errors) = drain(source);
        assert!(frames.iter().map(|frame| frame.number).eq(1..=frames.len() as u64));
        (frames.iter().map(|frame| (frame.time.0, frame.bytes[0])).collect(), errors)
    }

    #[test]
    fn files_are_merged_by_time_and_equal_times_keep_the_order_of_the_arguments() {
        let files = [pcap(&[2, 5, 5, 9], b'a'), pcap(&[1, 5, 6], b'b'), pcap(&[], b'c'), pcap(&[5], b'd')];
        let (frames, errors) = order(&mut merged(&files));
        assert!(errors.is_empty());
        let expected =
            [(1, b'b'), (2, b'a'), (5, b'a'), (5, b'a'), (5, b'b'), (5, b'd'), (6, b'b'), (9, b'a')];
        assert_eq!(frames, expected);
    }

    #[test]
    fn a_file_whose_time_goes_back_keeps_its_own_order() {
        let (frames, _) = order(&mut merged(&[pcap(&[5, 1, 7], b'a'), pcap(&[4, 6], b'b')]));
        assert_eq!(frames, [(4, b'b'), (5, b'a'), (1, b'a'), (6, b'b'), (7, b'a')]);
    }

    #[test]
    fn an_error_ends_its_file_and_no_other() {
        let mut torn = pcap(&[1, 3, 4], b'a');
        torn.truncate(torn.len() - 1);
        let (frames, errors) = order(&mut merged(&[torn, b"no capture".to_vec(), pcap(&[2, 9], b'b')]));
        assert_eq!(frames, [(1, b'a'), (2, b'b'), (3, b'a'), (9, b'b')]);
        assert!(matches!(errors[0].kind(), SourceErrorKind::Text(_)));
        assert!(matches!(errors[1].kind(), SourceErrorKind::Torn { .. }));
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn the_last_frame_stays_at_hand_with_the_name_of_its_file() {
        let mut source = source(&pcap(&[7], b'a'));
        assert!(source.frame().is_none());
        source.next().unwrap();
        let again = source.frame().unwrap();
        assert_eq!((again.number.0, again.bytes, source.file()), (1, &b"a"[..], Some("test")));
        assert_eq!(source.comments().count(), 0);
        assert!(source.next().unwrap().is_none());
        assert!(source.frame().is_none() && source.file().is_none());
    }

    #[test]
    fn no_files_have_no_frames() {
        let mut none = CaptureSource::open::<&str>([]).unwrap();
        assert!(none.next().unwrap().is_none());
        assert_eq!(none.progress(), ReadProgress { read: 0, total: Some(0) });
    }

    #[test]
    fn what_cannot_be_opened_is_told_at_once() {
        let error = |path: &str| CaptureSource::open([path]).err().unwrap().to_string();
        assert_eq!(
            error("no/such.pcap"),
            "no/such.pcap: cannot open: no such file or directory; check the path"
        );
        assert_eq!(error("src"), "src: is a directory; name the capture files in it");
        let twice = CaptureSource::open(["-", "-"]).err().unwrap();
        assert_eq!(twice.to_string(), "standard input: can be read only once; name '-' once");
    }

    #[test]
    fn compressed_captures_are_told_by_their_bytes() {
        let plain = pcap(&[1, 2, 3], b'a');
        for packed in [compression::tests::gzip(&plain), compression::tests::zstd(&plain)] {
            assert_eq!(frames(&packed), frames(&plain));
            let (some, error) = failure(&packed[..packed.len() - 1]);
            assert_eq!(some, frames(&plain));
            assert!(error.kind().is_torn(), "{error}");
        }
    }
}
