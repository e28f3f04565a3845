//! One file, read to its end.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use nfsrdma_dissectors::frame::{Frame, FrameNumber, Timestamp};

use crate::memory::Windows;

use super::CaptureRecord;
use super::buffer::CaptureBuffer;
use super::compression::Input;
use super::error::{SourceError, SourceErrorKind};
use super::format::CaptureFormat;
use super::pcapng::{Interface, Pcapng};

/// A file with its window, its format, and the frame that was read last.
pub(super) struct CaptureFileReader {
    name: String,
    buffer: CaptureBuffer,
    format: Option<CaptureFormat>,
    /// The interface of a pcap file, which has one.
    only: Option<Interface>,
    record: CaptureRecord,
    /// Whether `record` is one.
    holds: bool,
    frames: u64,
    /// Where the first frame ended, and what the file had described by then.
    first: Option<(u64, (u64, usize))>,
    ended: bool,
    /// Where the file is opened again.
    path: Option<PathBuf>,
    /// Whether the file was closed at its first frame, until that frame is wanted.
    is_parked: bool,
    /// Bytes of the window.
    window: usize,
    /// Whether it was told that there is a link type that is not known.
    has_told_link: bool,
}

impl CaptureFileReader {
    /// A reader with a window of `window` bytes, and of zstd data a share of `windows`; `total` is the length of the input
    /// where it is known.
    pub(super) fn new(
        name: String,
        reader: Box<dyn Read + Send>,
        total: Option<u64>,
        (window, windows): (usize, &Windows),
    ) -> Self {
        let buffer = CaptureBuffer::new(Input::new(reader, total, windows.clone()), window);
        Self {
            name,
            buffer,
            format: None,
            only: None,
            record: CaptureRecord::default(),
            holds: false,
            frames: 0,
            first: None,
            ended: false,
            path: None,
            is_parked: false,
            window,
            has_told_link: false,
        }
    }

    /// The file can be opened again under this path.
    pub(super) fn opened_from(self, path: PathBuf) -> Self {
        Self { path: Some(path), ..self }
    }

    /// Closes a file whose first frame was read, and which takes memory that others may need, until that frame is wanted:
    /// files of a ring buffer are read one after another.
    pub(super) fn park(&mut self) {
        if self.frames == 1 && self.path.is_some() && self.input().has_window() {
            self.reset(Box::new(io::empty()));
            self.is_parked = true;
        }
    }

    /// True if windows take more than half of the memory that they share.
    pub(super) fn are_windows_tight(&self) -> bool {
        self.input().windows().are_tight()
    }

    fn reset(&mut self, input: Box<dyn Read + Send>) {
        self.buffer = CaptureBuffer::new(
            Input::new(input, self.input().total(), self.input().windows().clone()),
            self.window,
        );
        self.format = None;
        self.holds = false;
        self.frames = 0;
    }

    /// Opens a file again that was closed at its first frame, and reads that.
    ///
    /// # Errors
    /// Those of [`CaptureFileReader::advance`]; the file has then ended.
    #[inline]
    pub(super) fn unpark(&mut self) -> Result<(), SourceError> {
        if self.is_parked { self.begin_again() } else { Ok(()) }
    }

    #[cold]
    fn begin_again(&mut self) -> Result<(), SourceError> {
        self.is_parked = false;
        if let Some(path) = &self.path {
            match File::open(path) {
                Ok(file) => self.reset(Box::new(file)),
                Err(error) => return Err(self.fail(SourceErrorKind::Open(error))),
            }
        }
        self.advance().map(|_| ())
    }

    /// The name to tell of it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The compressed or plain bytes below.
    pub(super) fn input(&self) -> &Input {
        self.buffer.input()
    }

    /// Reads the next frame and returns its time; `None` at the end, and after an error.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Option<Timestamp>, SourceError> {
        let result = match &mut self.format {
            _ if self.ended => Ok(false),
            // The record is filled in place: copying it here cost a third of the time on short frames.
            Some(CaptureFormat::Pcap(pcap)) => pcap.next(&mut self.buffer, &mut self.record),
            Some(CaptureFormat::Pcapng(pcapng)) => pcapng.next(&mut self.buffer, &mut self.record),
            None => self.begin(),
        };
        self.holds = match result {
            Ok(holds) => holds,
            Err(kind) => return Err(self.fail(kind)),
        };
        if self.holds {
            self.frames += 1;
            Ok(Some(self.record.time))
        } else {
            self.ended = true;
            Ok(None)
        }
    }

    #[cold]
    fn begin(&mut self) -> Result<bool, SourceErrorKind> {
        let has_one = match self.format.insert(CaptureFormat::open(&mut self.buffer)?) {
            CaptureFormat::Pcap(pcap) => {
                let interface = Interface::unnamed(pcap.link(), pcap.snap_length());
                self.only = Some(interface.ticking(pcap.tick()));
                pcap.next(&mut self.buffer, &mut self.record)
            }
            CaptureFormat::Pcapng(pcapng) => pcapng.next(&mut self.buffer, &mut self.record),
        }?;
        self.first = has_one.then(|| (self.buffer.offset(), self.shape()));
        Ok(has_one)
    }

    fn shape(&self) -> (u64, usize) {
        self.pcapng().map_or((0, 0), |(pcapng, _)| pcapng.shape())
    }

    /// Where the first frame ends, and where what follows the last one begins; `None` where the file cannot be read on from
    /// there with what stands before.
    pub(super) fn places(&self) -> Option<(u64, u64)> {
        let (end, shape) = self.first?;
        let is_plain = !self.buffer.input().is_compressed() && self.input().total().is_some();
        (is_plain && shape == self.shape()).then(|| (end, self.buffer.offset()))
    }

    #[cold]
    fn fail(&mut self, kind: SourceErrorKind) -> SourceError {
        self.ended = true;
        self.holds = false;
        SourceError {
            file: self.name.clone(),
            frame: self.format.is_some().then(|| FrameNumber(self.frames.saturating_add(1))),
            offset: Some(self.buffer.offset()),
            decompressed: self.buffer.input().is_compressed(),
            kind,
        }
    }

    /// That the link type of the last frame is not known, the first time.
    #[cold]
    pub(super) fn unknown_link(&mut self) -> Option<SourceError> {
        let is_news = self.holds && !self.record.link.is_known() && !self.has_told_link;
        self.has_told_link |= is_news;
        is_news.then(|| SourceError {
            file: self.name.clone(),
            frame: Some(FrameNumber(self.frames)),
            offset: None,
            decompressed: false,
            kind: SourceErrorKind::LinkType(self.record.link.0),
        })
    }

    /// The frame that was read last, under a number.
    #[inline]
    pub(super) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let record = self.holds.then_some(&self.record)?;
        Some(Frame {
            number,
            time: record.time,
            link: record.link,
            bytes: self.buffer.get(record.bytes.clone()),
            length: record.length,
        })
    }

    /// The pcapng file, with its window.
    pub(super) fn pcapng(&self) -> Option<(&Pcapng, &CaptureBuffer)> {
        match &self.format {
            Some(CaptureFormat::Pcapng(pcapng)) => Some((pcapng, &self.buffer)),
            _ => None,
        }
    }

    /// The interface of the frame that was read last.
    pub(super) fn interface(&self) -> Option<&Interface> {
        match &self.format {
            _ if !self.holds => None,
            Some(CaptureFormat::Pcapng(pcapng)) => pcapng.last_interface(),
            _ => self.only.as_ref(),
        }
    }

    /// The interfaces that are known so far.
    pub(super) fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Some(CaptureFormat::Pcapng(pcapng)) => pcapng.interfaces(),
            _ => self.only.as_slice(),
        }
    }
}
