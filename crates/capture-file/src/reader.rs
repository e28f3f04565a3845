//! Reader of a single capture file.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};

use super::buffer::{CaptureFileReadBuffer, CaptureRecord};
use super::compression::DecompressedCaptureInput;
use super::error::{SourceError, SourceErrorKind};
use super::format::CaptureFormatParser;
use super::pcapng::{CaptureFileInterface, PcapngFileReader};
use crate::zstd_window_memory::ZstdWindowBudget;

/// A file with its buffer, its format and the last read frame.
pub(super) struct CaptureFileReader {
    name: String,
    buffer: CaptureFileReadBuffer,
    format: Option<CaptureFormatParser>,
    pcap_interface: Option<CaptureFileInterface>,
    record: CaptureRecord,
    /// `true` if `record` holds a frame.
    has_record: bool,
    frame_count: u64,
    /// End offset of the first frame, and [`PcapngFileReader::interface_state`] at that point.
    first_frame_end: Option<(u64, (u64, usize))>,
    has_ended: bool,
    path: Option<PathBuf>,
    /// `true` if the file was closed at its first frame, until that frame is needed.
    is_parked: bool,
    buffer_bytes: usize,
    has_reported_link: bool,
}

impl CaptureFileReader {
    /// Returns a reader with a buffer of `window` bytes and `windows` as the memory budget of zstd windows. `total` is
    /// the length of the input, if known.
    pub(super) fn new(
        name: String,
        reader: Box<dyn Read + Send>,
        total: Option<u64>,
        (window, windows): (usize, &ZstdWindowBudget),
    ) -> Self {
        let buffer = CaptureFileReadBuffer::new(DecompressedCaptureInput::new(reader, total, windows.clone()), window);
        Self {
            name,
            buffer,
            format: None,
            pcap_interface: None,
            record: CaptureRecord::default(),
            has_record: false,
            frame_count: 0,
            first_frame_end: None,
            has_ended: false,
            path: None,
            is_parked: false,
            buffer_bytes: window,
            has_reported_link: false,
        }
    }

    /// Sets the path for reopening the file.
    pub(super) fn with_path(self, path: Option<PathBuf>) -> Self {
        Self { path, ..self }
    }

    /// Closes a file at its first frame until that frame is needed, if the file can be reopened and holds memory that
    /// others need: decompression windows use more than half of their share. Files of a ring buffer are read one by one.
    pub(super) fn park_if_tight(&mut self) {
        let (input, is_first) = (self.input(), self.frame_count == 1);
        if is_first && self.path.is_some() && input.has_window() && input.windows.is_under_pressure() {
            self.reset(Box::new(io::empty()));
            self.is_parked = true;
        }
    }

    fn reset(&mut self, input: Box<dyn Read + Send>) {
        self.buffer = CaptureFileReadBuffer::new(
            DecompressedCaptureInput::new(input, self.input().total, self.input().windows.clone()),
            self.buffer_bytes,
        );
        self.format = None;
        self.has_record = false;
        self.frame_count = 0;
    }

    /// Reopens a file that was closed at its first frame, and reads that frame. After an error, the file has
    /// ended.
    #[inline]
    pub(super) fn unpark(&mut self) -> Result<(), SourceError> {
        if self.is_parked { self.reopen() } else { Ok(()) }
    }

    #[cold]
    fn reopen(&mut self) -> Result<(), SourceError> {
        self.is_parked = false;
        if let Some(path) = &self.path {
            match File::open(path) {
                Ok(file) => self.reset(Box::new(file)),
                Err(error) => return Err(self.fail(SourceErrorKind::Open(error))),
            }
        }
        self.advance().map(|_| ())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn input(&self) -> &DecompressedCaptureInput {
        &self.buffer.input
    }

    /// Reads the next frame and returns its time; `None` at the end, and after an error.
    #[inline(always)]
    pub(super) fn advance(&mut self) -> Result<Option<Timestamp>, SourceError> {
        let result = match &mut self.format {
            _ if self.has_ended => Ok(false),
            // The record is filled in place: copying it here took a third of the time on short frames.
            Some(CaptureFormatParser::Pcap(pcap)) => pcap.next(&mut self.buffer, &mut self.record),
            Some(CaptureFormatParser::Pcapng(pcapng)) => pcapng.next(&mut self.buffer, &mut self.record),
            None => self.read_first(),
        };
        self.has_record = match result {
            Ok(has_record) => has_record,
            Err(kind) => return Err(self.fail(kind)),
        };
        if self.has_record {
            self.frame_count += 1;
            Ok(Some(self.record.time))
        } else {
            self.has_ended = true;
            Ok(None)
        }
    }

    #[cold]
    fn read_first(&mut self) -> Result<bool, SourceErrorKind> {
        let has_one = match self.format.insert(CaptureFormatParser::open(&mut self.buffer)?) {
            CaptureFormatParser::Pcap(pcap) => {
                self.pcap_interface = Some(pcap.interface());
                pcap.next(&mut self.buffer, &mut self.record)
            }
            CaptureFormatParser::Pcapng(pcapng) => pcapng.next(&mut self.buffer, &mut self.record),
        }?;
        self.first_frame_end = has_one.then(|| (self.buffer.offset(), self.interface_state()));
        Ok(has_one)
    }

    fn interface_state(&self) -> (u64, usize) {
        self.pcapng().map_or((0, 0), |(pcapng, _)| pcapng.interface_state())
    }

    /// Returns the end offsets of the first and of the last frame; `None` if reading cannot resume there with only the
    /// beginning of the file as context.
    pub(super) fn resume_offsets(&self) -> Option<(u64, u64)> {
        let (end, interface_state) = self.first_frame_end?;
        let is_plain = !self.buffer.input.is_compressed() && self.input().total.is_some();
        (is_plain && interface_state == self.interface_state()).then(|| (end, self.buffer.offset()))
    }

    #[cold]
    fn fail(&mut self, kind: SourceErrorKind) -> SourceError {
        self.has_ended = true;
        self.has_record = false;
        SourceError {
            file: self.name.clone(),
            frame: self.format.is_some().then(|| FrameNumber(self.frame_count.saturating_add(1))),
            offset: Some(self.buffer.offset()),
            decompressed: self.buffer.input.is_compressed(),
            kind,
        }
    }

    /// Returns an error if the last frame has an unknown link type, the first time.
    #[cold]
    pub(super) fn unknown_link(&mut self) -> Option<SourceError> {
        let is_first_report = self.has_record && !self.record.link.is_known() && !self.has_reported_link;
        self.has_reported_link |= is_first_report;
        is_first_report.then(|| SourceError {
            file: self.name.clone(),
            frame: Some(FrameNumber(self.frame_count)),
            offset: None,
            decompressed: false,
            kind: SourceErrorKind::UnknownLinkType(self.record.link.0),
        })
    }

    /// Returns the last read frame, with `number` as its frame number.
    #[inline]
    pub(super) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let record = self.has_record.then_some(&self.record)?;
        Some(Frame {
            number,
            time: record.time,
            link: record.link,
            bytes: self.buffer.get(record.bytes.clone()),
            length: record.length,
        })
    }

    pub(super) fn pcapng(&self) -> Option<(&PcapngFileReader, &CaptureFileReadBuffer)> {
        match &self.format {
            Some(CaptureFormatParser::Pcapng(pcapng)) => Some((pcapng, &self.buffer)),
            _ => None,
        }
    }

    /// Returns the interface of the last read frame.
    pub(super) fn interface(&self) -> Option<&CaptureFileInterface> {
        match &self.format {
            _ if !self.has_record => None,
            Some(CaptureFormatParser::Pcapng(pcapng)) => pcapng.last_interface(),
            _ => self.pcap_interface.as_ref(),
        }
    }

    /// Returns the interfaces described so far.
    pub(super) fn interfaces(&self) -> &[CaptureFileInterface] {
        match &self.format {
            Some(CaptureFormatParser::Pcapng(pcapng)) => &pcapng.interfaces,
            _ => self.pcap_interface.as_slice(),
        }
    }
}
