//! The frames of capture files or of a network interface.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber};

use super::error::{SourceError, SourceErrorKind, input_error};
#[cfg(feature = "live")]
use super::live::live_reader::{LiveCaptureControl, LiveReadOutcome, LiveReader};
use super::live_capture_counters::CapturePacketCounters;
use super::merge::CaptureMergeQueue;
use super::pcapng::CaptureFileInterface;
use super::reader::CaptureFileReader;
use super::zstd_window_memory::ZstdWindowBudget;

/// Buffer size of a file that is read alone, in bytes: larger reads are not faster, and it fits in the cache.
pub(super) const READ_BUFFER_BYTES: usize = 256 << 10;
/// Total size of the buffers of all files, and the minimum per file, in bytes.
const TOTAL_BUFFER_BYTES: usize = 64 << 20;
const MIN_BUFFER_BYTES: usize = 16 << 10;

const STANDARD_INPUT: &str = "standard input";

/// The progress of a [`CaptureFrameSource`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Number of bytes read from all files, before decompression.
    pub read_bytes: u64,
    /// Total number of bytes to read; `None` if unknown for one of the files, such as standard input.
    pub total_bytes: Option<u64>,
}

/// The result of [`CaptureFrameSource::next_within`].
pub enum NextFrame<'a> {
    /// The next frame.
    Frame(Frame<'a>),
    /// No frame came within the timeout. Only live sources return this.
    Nothing,
    /// The end of the source.
    End,
}

/// Timeout of one wait, which is repeated.
#[cfg(feature = "live")]
const LONG_WAIT: Duration = Duration::from_secs(3600);

/// The frames of capture files, merged by time and numbered from 1; or those of a network interface.
///
/// Of frames with the same time, those of the file that was named first come first. Only the next frame of each file is
/// compared, as in mergecap: a file whose clock goes backwards keeps its own order.
pub struct CaptureFrameSource {
    pub(super) readers: Vec<CaptureFileReader>,
    merge: CaptureMergeQueue,
    pub(super) number: u64,
    last_reader_index: Option<usize>,
    /// Live capture, instead of files.
    #[cfg(feature = "live")]
    live: Option<Box<LiveReader>>,
}

impl CaptureFrameSource {
    /// Opens capture files; `-` is standard input. Nothing is read yet. Windows of zstd data use the memory of
    /// [`ZstdWindowBudget::default`].
    ///
    /// # Errors
    /// Returns [`SourceErrorKind::Open`], [`SourceErrorKind::IsDirectory`] or [`SourceErrorKind::StandardInputTwice`],
    /// for the first file that has such an error.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, SourceError> {
        Self::open_within(paths, &ZstdWindowBudget::default())
    }

    /// Opens capture files as [`CaptureFrameSource::open`] does, with `windows` as the memory budget of zstd windows.
    ///
    /// # Errors
    /// Returns the errors of [`CaptureFrameSource::open`].
    pub fn open_within<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &ZstdWindowBudget,
    ) -> Result<Self, SourceError> {
        Self::open_inputs(paths, windows, None)
    }

    /// Opens capture files as [`CaptureFrameSource::open_within`] does. What is not a regular file, such as standard
    /// input or a pipe, is read through the reader that `wrap` returns for it, which may end it early.
    ///
    /// # Errors
    /// Returns the errors of [`CaptureFrameSource::open`].
    pub fn open_wrapped<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &ZstdWindowBudget,
        wrap: impl Fn(File) -> Box<dyn Read + Send>,
    ) -> Result<Self, SourceError> {
        Self::open_inputs(paths, windows, Some(&wrap))
    }

    fn open_inputs<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        windows: &ZstdWindowBudget,
        wrap: Option<&dyn Fn(File) -> Box<dyn Read + Send>>,
    ) -> Result<Self, SourceError> {
        let paths: Vec<P> = paths.into_iter().collect();
        let window = TOTAL_BUFFER_BYTES
            .checked_div(paths.len())
            .unwrap_or(READ_BUFFER_BYTES)
            .clamp(MIN_BUFFER_BYTES, READ_BUFFER_BYTES);
        let mut readers = Vec::with_capacity(paths.len());
        let mut has_standard_input = false;
        for path in &paths {
            let path = path.as_ref();
            let is_standard_input = path.as_os_str() == "-";
            let name = if is_standard_input { STANDARD_INPUT.into() } else { path.to_string_lossy() };
            let result = match is_standard_input && std::mem::replace(&mut has_standard_input, true) {
                true => Err(SourceErrorKind::StandardInputTwice),
                false => open_input(path, wrap),
            };
            let (input, length) = result.map_err(|kind| input_error(name.clone().into_owned(), kind))?;
            let reader = CaptureFileReader::new(name.into_owned(), input, length, (window, windows));
            readers.push(reader.with_path(length.map(|_| path.to_owned())));
        }
        Ok(Self::from_readers(readers))
    }

    /// Reads a capture file from `reader`. `name` identifies it in errors.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Self {
        Self::from_reader_within(name, reader, &ZstdWindowBudget::default())
    }

    /// Reads a capture file from `reader`, with `windows` as the memory budget of zstd windows.
    pub fn from_reader_within(name: &str, reader: impl Read + Send + 'static, windows: &ZstdWindowBudget) -> Self {
        Self::from_readers([CaptureFileReader::new(
            name.to_owned(),
            Box::new(reader),
            None,
            (READ_BUFFER_BYTES, windows),
        )])
    }

    /// Merges the files of several sources, in this order. Files that were read partially continue from there.
    pub fn merged(sources: impl IntoIterator<Item = CaptureFrameSource>) -> Self {
        Self::from_readers(sources.into_iter().flat_map(|source| source.readers))
    }

    pub(super) fn from_readers(readers: impl IntoIterator<Item = CaptureFileReader>) -> Self {
        Self {
            readers: readers.into_iter().collect(),
            merge: CaptureMergeQueue::default(),
            number: 0,
            last_reader_index: None,
            #[cfg(feature = "live")]
            live: None,
        }
    }

    #[cfg(feature = "live")]
    pub(super) fn from_live(reader: LiveReader) -> Self {
        Self { live: Some(Box::new(reader)), ..Self::from_readers([]) }
    }

    /// Returns the live capture, if this source is one.
    #[cfg(feature = "live")]
    pub fn live(&self) -> Option<LiveCaptureControl> {
        Some(self.live.as_ref()?.live.clone())
    }

    /// Returns the next frame; `None` when all files have ended.
    ///
    /// # Errors
    /// Returns the error of a file, which has then ended. Further calls return the frames of the others, and finally
    /// `None`. Each file returns at most one error.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend its frames")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, SourceError> {
        #[cfg(feature = "live")]
        if self.live.is_some() {
            while let LiveReadOutcome::Nothing = self.advance_live(LONG_WAIT)? {}
            return Ok(self.frame());
        }
        self.last_reader_index = None;
        let next = match self.readers.as_mut_slice() {
            [only] => only.advance()?.map(|_| 0),
            readers => self.merge.next(readers)?,
        };
        self.last_reader_index = next;
        if next.is_some() {
            self.number += 1;
        }
        Ok(self.frame())
    }

    /// Returns the next frame. A live source waits up to `timeout` for it; files are read as by
    /// [`CaptureFrameSource::next`].
    ///
    /// # Errors
    /// Returns the errors of [`CaptureFrameSource::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<NextFrame<'_>, SourceError> {
        #[cfg(feature = "live")]
        if self.live.is_some() {
            return Ok(match (self.advance_live(timeout)?, self.frame()) {
                (LiveReadOutcome::Frame, Some(frame)) => NextFrame::Frame(frame),
                (LiveReadOutcome::Nothing, _) => NextFrame::Nothing,
                _ => NextFrame::End,
            });
        }
        let _ = timeout;
        Ok(self.next()?.map_or(NextFrame::End, NextFrame::Frame))
    }

    #[cfg(feature = "live")]
    fn advance_live(&mut self, timeout: Duration) -> Result<LiveReadOutcome, SourceError> {
        let Some(live) = &mut self.live else { return Ok(LiveReadOutcome::End) };
        let outcome = live.advance(timeout)?;
        self.number += u64::from(matches!(outcome, LiveReadOutcome::Frame));
        Ok(outcome)
    }

    /// Returns the last frame of [`CaptureFrameSource::next`]; `None` before the first, at the end, and after an error.
    #[inline]
    pub fn frame(&self) -> Option<Frame<'_>> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return live.frame(FrameNumber(self.number));
        }
        self.last_reader()?.frame(FrameNumber(self.number))
    }

    /// Returns the name of the file that holds the last frame.
    pub fn file(&self) -> Option<&str> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return live.interface().map(|(_, interface)| interface.name.as_str());
        }
        self.last_reader().map(CaptureFileReader::name)
    }

    /// Returns an error if the last frame has an unknown link type, once per file.
    pub fn unknown_link(&mut self) -> Option<SourceError> {
        #[cfg(feature = "live")]
        if let Some(live) = &mut self.live {
            let (link, name) = live.unknown_link()?;
            return Some(input_error(name, SourceErrorKind::UnknownLinkType(link.0)));
        }
        self.readers.get_mut(self.last_reader_index?)?.unknown_link()
    }

    /// Returns the comments on the last frame (pcapng only). Invalid UTF-8 is replaced.
    pub fn comments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let pcapng = self.last_reader().and_then(CaptureFileReader::pcapng);
        pcapng.into_iter().flat_map(|(pcapng, buffer)| pcapng.comments(buffer))
    }

    /// Returns the interface of the last frame and the index of its file, or of the interface in a live capture, counted
    /// from 0 in the order of the arguments.
    pub fn interface(&self) -> Option<(usize, &CaptureFileInterface)> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return live.interface();
        }
        Some((self.last_reader_index?, self.last_reader()?.interface()?))
    }

    /// Returns the interfaces described so far, each with the name of its file. Of a pcapng file with several sections
    /// these are the interfaces of the current section.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, &CaptureFileInterface)> {
        self.readers.iter().flat_map(|reader| reader.interfaces().iter().map(|interface| (reader.name(), interface)))
    }

    /// Returns the interfaces of a live capture in the order of the arguments; none of files.
    pub fn live_interfaces(&self) -> impl Iterator<Item = &CaptureFileInterface> {
        #[cfg(feature = "live")]
        return self.live.iter().flat_map(|live| live.interfaces());
        #[cfg(not(feature = "live"))]
        std::iter::empty()
    }

    /// Returns the number of packets that the capturing programs reported as dropped so far; `None` if there is no such
    /// report. Counters are mostly at the end of a file.
    pub fn dropped(&self) -> Option<u64> {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return Some(live.live.counters().dropped());
        }
        let counts = self.readers.iter().filter_map(|reader| reader.pcapng()?.0.dropped());
        counts.reduce(u64::saturating_add)
    }

    /// Returns the counters of a live source; `None` for files.
    pub fn counters(&self) -> Option<CapturePacketCounters> {
        #[cfg(feature = "live")]
        return Some(self.live.as_ref()?.live.counters());
        #[cfg(not(feature = "live"))]
        None
    }

    /// Returns the numbers of bytes read and to read.
    pub fn progress(&self) -> ReadProgress {
        #[cfg(feature = "live")]
        if let Some(live) = &self.live {
            return ReadProgress { read_bytes: live.bytes_read, total_bytes: None };
        }
        let inputs = || self.readers.iter().map(CaptureFileReader::input);
        ReadProgress {
            read_bytes: inputs().map(|input| input.bytes_read()).fold(0, u64::saturating_add),
            total_bytes: inputs()
                .map(|input| input.total)
                .try_fold(0_u64, |sum, total| Some(sum.saturating_add(total?))),
        }
    }

    #[inline]
    fn last_reader(&self) -> Option<&CaptureFileReader> {
        self.readers.get(self.last_reader_index?)
    }
}

/// Opens a file or standard input. Returns the length in bytes, too, if it is a regular file.
fn open_input(
    path: &Path,
    wrap: Option<&dyn Fn(File) -> Box<dyn Read + Send>>,
) -> Result<(Box<dyn Read + Send>, Option<u64>), SourceErrorKind> {
    if path.as_os_str() == "-" {
        let Some(wrap) = wrap else { return Ok((Box::new(io::stdin()), None)) };
        // Without a buffer, so that polling it shows whether data is available.
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(SourceErrorKind::Open)?;
        return Ok((wrap(input.into()), None));
    }
    // Checked before opening: a directory can be opened, but not read.
    let metadata = fs::metadata(path).map_err(SourceErrorKind::Open)?;
    if metadata.is_dir() {
        return Err(SourceErrorKind::IsDirectory);
    }
    let file = File::open(path).map_err(SourceErrorKind::Open)?;
    Ok(match wrap {
        _ if metadata.is_file() => (Box::new(file), Some(metadata.len())),
        Some(wrap) => (wrap(file), None),
        None => (Box::new(file), None),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain, failure, frames, gzip, source, zstd};
    use super::*;

    /// Returns a pcap file with one 1-byte frame at each time, in nanoseconds.
    fn pcap(times: &[u32], byte: u8) -> Vec<u8> {
        let mut file = vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for time in times {
            file.extend([0; 4]);
            file.extend(time.to_be_bytes());
            file.extend([0, 0, 0, 1, 0, 0, 0, 1, byte]);
        }
        file
    }

    fn merged(files: &[Vec<u8>]) -> CaptureFrameSource {
        CaptureFrameSource::merged(files.iter().map(|file| source(file)))
    }

    /// Returns the time and byte of each frame, and checks that frames are numbered from 1.
    fn order(source: &mut CaptureFrameSource) -> (Vec<(i64, u8)>, Vec<SourceError>) {
        let (frames, errors) = drain(source);
        assert!(frames.iter().map(|frame| frame.number).eq(1..=frames.len() as u64));
        (frames.iter().map(|frame| (frame.time.0, frame.bytes[0])).collect(), errors)
    }

    #[test]
    fn files_are_merged_by_time_and_equal_times_keep_the_order_of_the_arguments() {
        let files = [pcap(&[2, 5, 5, 9], b'a'), pcap(&[1, 5, 6], b'b'), pcap(&[], b'c'), pcap(&[5], b'd')];
        let (frames, errors) = order(&mut merged(&files));
        assert!(errors.is_empty());
        let expected = [(1, b'b'), (2, b'a'), (5, b'a'), (5, b'a'), (5, b'b'), (5, b'd'), (6, b'b'), (9, b'a')];
        assert_eq!(frames, expected);
    }

    #[test]
    fn a_file_with_decreasing_times_keeps_its_own_order() {
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
        assert!(matches!(errors[1].kind(), SourceErrorKind::Truncated { .. }));
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
        let mut none = CaptureFrameSource::open::<&str>([]).unwrap();
        assert!(none.next().unwrap().is_none());
        assert_eq!(none.progress(), ReadProgress { read_bytes: 0, total_bytes: Some(0) });
    }

    #[test]
    fn inputs_that_cannot_be_opened_are_reported_at_once() {
        let error = |path: &str| CaptureFrameSource::open([path]).err().unwrap().to_string();
        assert_eq!(error("no/such.pcap"), "no/such.pcap: cannot open: no such file or directory; check the path");
        assert_eq!(error("src"), "src: is a directory; name the capture files in it");
        let twice = CaptureFrameSource::open(["-", "-"]).err().unwrap();
        assert_eq!(twice.to_string(), "standard input: can be read only once; name '-' once");
    }

    #[test]
    fn compressed_captures_are_recognized_by_their_bytes() {
        let plain = pcap(&[1, 2, 3], b'a');
        for packed in [gzip(&plain), zstd(&plain)] {
            assert_eq!(frames(&packed), frames(&plain));
            let (some, error) = failure(&packed[..packed.len() - 1]);
            assert_eq!(some, frames(&plain));
            assert!(error.kind().is_truncated(), "{error}");
        }
    }
}
