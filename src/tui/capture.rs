//! What is looked at: files that can be read again, or frames that come once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType, Timestamp};

use crate::analysis::names::OperationPaths;
use crate::memory::Windows;
use crate::source::{CaptureSource, Interface, LinkState, ResumePoint, SourceError};

use super::live_frames::{FirstPassProgress, FirstPassTransaction, LiveFrames};

/// Frames that are copied at a time out of those that are kept.
const COPIED: usize = 256;

/// What besides the frames decides how long an interface is read.
pub trait LiveReadControl: Send {
    /// Notes a frame; tells whether it is the last that is wanted.
    fn frame(&mut self, time: Timestamp) -> bool;

    /// Nothing came: what time it is now by the clock that stamps frames.
    fn idle(&mut self) -> Timestamp;

    /// The state of the interface.
    fn link(&self) -> LinkState {
        LinkState::Up
    }
}

/// Where frames come from that come once, for the one who reads them.
pub(super) type FirstReadSource = (CaptureSource, Option<Box<dyn LiveReadControl>>);

/// A capture, for whoever wants to read it.
#[derive(Clone)]
pub struct CaptureHandle(Arc<CaptureKind>);

enum CaptureKind {
    Files(Vec<PathBuf>, Windows),
    Once { name: String, is_live: bool, first: Mutex<Option<FirstReadSource>>, once: Box<Mutex<LiveFrames>> },
}

impl CaptureHandle {
    /// Files, of which each can be read again; windows of zstd data have a share of `windows`.
    pub fn files(files: Vec<PathBuf>, windows: Windows) -> Self {
        Self(Arc::new(CaptureKind::Files(files, windows)))
    }

    /// Frames that come once: through a pipe, or from an interface. The latest are kept, in `room` bytes.
    pub fn once(name: &str, source: CaptureSource, room: usize) -> Self {
        Self::coming(name, (source, None), room)
    }

    /// The same from an interface.
    pub fn live(name: &str, source: CaptureSource, room: usize, pace: Box<dyn LiveReadControl>) -> Self {
        Self::coming(name, (source, Some(pace)), room)
    }

    fn coming(name: &str, first: FirstReadSource, room: usize) -> Self {
        let is_live = first.1.is_some();
        let (first, once) = (Mutex::new(Some(first)), Box::new(Mutex::new(LiveFrames::new(room))));
        Self(Arc::new(CaptureKind::Once { name: name.to_owned(), is_live, first, once }))
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match &*self.0 {
            CaptureKind::Once { name, .. } => name.clone(),
            CaptureKind::Files(files, _) => match files.as_slice() {
                [] => String::new(),
                [only] => file_name(only),
                [first, rest @ ..] => format!("{} and {} more", file_name(first), rest.len()),
            },
        }
    }

    /// The files, as a command names them.
    pub fn paths(&self) -> Option<&[PathBuf]> {
        match &*self.0 {
            CaptureKind::Files(files, _) => Some(files),
            CaptureKind::Once { .. } => None,
        }
    }

    /// Whether its frames come once.
    pub fn is_once(&self) -> bool {
        matches!(*self.0, CaptureKind::Once { .. })
    }

    /// Whether its frames come from an interface.
    pub fn is_live(&self) -> bool {
        matches!(&*self.0, CaptureKind::Once { is_live: true, .. })
    }

    /// The source of the first reading, or of one that begins anew; `None` where frames come once and somebody reads them.
    pub(super) fn source(&self) -> Option<Result<FirstReadSource, SourceError>> {
        match &*self.0 {
            CaptureKind::Files(files, windows) => {
                Some(CaptureSource::open_within(files, windows).map(|source| (source, None)))
            }
            CaptureKind::Once { first, .. } => {
                first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok)
            }
        }
    }

    fn once_kept(&self) -> Option<MutexGuard<'_, LiveFrames>> {
        match &*self.0 {
            CaptureKind::Files(..) => None,
            CaptureKind::Once { once, .. } => Some(once.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Keeps the last frame of a source that comes once.
    pub(super) fn keep(&self, source: &CaptureSource) {
        if let Some(mut once) = self.once_kept() {
            once.keep(source);
        }
    }

    /// Notes what the first reading of what comes once tells of a Transaction.
    pub(super) fn note(&self, transaction: &Transaction, about: OperationPaths<'_>) {
        if let Some(mut once) = self.once_kept() {
            once.note(transaction, about);
        }
    }

    /// Notes how far the first reading has come.
    pub(super) fn tell(&self, tell: impl FnOnce(&mut FirstPassProgress)) {
        if let Some(mut once) = self.once_kept() {
            tell(&mut once.told);
        }
    }

    /// How far the first reading has come.
    pub(super) fn told(&self) -> FirstPassProgress {
        self.once_kept().map(|once| once.told).unwrap_or_default()
    }

    /// What the first reading told of a Transaction that another one has read, which gets the numbers that it had. `None` if it
    /// did not tell of it: then some of its frames are gone, or it is not done yet.
    pub(super) fn earlier(&self, transaction: &mut Transaction) -> Option<FirstPassTransaction> {
        let told = self.once_kept()?.earlier(transaction)?.clone();
        transaction.index = told.index;
        transaction.connection.number = told.connection;
        Some(told)
    }

    /// The interface of a frame that came once.
    pub(super) fn interface(&self, frame: FrameNumber) -> Option<(usize, Interface)> {
        self.once_kept()?.interface(frame)
    }

    /// The frames again: from a place, or from the first that there is.
    pub(super) fn again(&self, place: Option<ResumePoint>) -> Result<RereadFrames, SourceError> {
        Ok(match &*self.0 {
            CaptureKind::Files(files, windows) => {
                RereadFrames::File(Box::new(match (files.as_slice(), place) {
                    ([only], Some(place)) => CaptureSource::open_at(only, place)?,
                    _ => CaptureSource::open_within(files, windows)?,
                }))
            }
            CaptureKind::Once { .. } => RereadFrames::Kept(LiveFrameReader {
                capture: self.clone(),
                next: FrameNumber(1),
                until: FrameNumber(u64::MAX),
                copies: Vec::new(),
                at: 0,
                gone: 0,
            }),
        })
    }

    /// What comes once, as far as the first reading has told of it.
    pub(super) fn followed(&self) -> LiveFrameReader {
        let until = FrameNumber(0);
        LiveFrameReader {
            capture: self.clone(),
            next: FrameNumber(1),
            until,
            copies: Vec::new(),
            at: 0,
            gone: 0,
        }
    }
}

impl fmt::Debug for CaptureHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Capture").field(&self.name()).finish()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A frame with its own bytes.
#[derive(Clone, Debug)]
pub(super) struct FrameCopy {
    number: FrameNumber,
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Vec<u8>,
}

impl FrameCopy {
    /// A copy of a frame.
    pub(super) fn of(frame: &Frame<'_>) -> Self {
        let Frame { number, time, link, length, bytes } = *frame;
        Self { number, time, link, length, bytes: bytes.to_vec() }
    }

    /// The frame.
    pub(super) fn frame(&self) -> Frame<'_> {
        let Self { number, time, link, length, bytes } = self;
        Frame { number: *number, time: *time, link: *link, length: *length, bytes }
    }
}

/// The frames of a capture that was read before.
pub(super) enum RereadFrames {
    /// From its files.
    File(Box<CaptureSource>),
    /// From what was kept of it.
    Kept(LiveFrameReader),
}

impl RereadFrames {
    /// The next frame; what is wrong with a file was told when it was read first.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::File(source) => loop {
                match source.next() {
                    Ok(Some(_)) => return source.frame(),
                    Ok(None) => return None,
                    Err(_) => {}
                }
            },
            Self::Kept(kept) => kept.next(),
        }
    }
}

/// Frames of what comes once, as far as they are kept.
pub(super) struct LiveFrameReader {
    capture: CaptureHandle,
    next: FrameNumber,
    /// No frame beyond this one is given.
    pub(super) until: FrameNumber,
    copies: Vec<FrameCopy>,
    at: usize,
    /// Frames that were gone when they would have come.
    pub(super) gone: u64,
}

impl LiveFrameReader {
    /// The next frame; `None` if there is none yet.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        if self.at >= self.copies.len() {
            self.at = 0;
            self.copies.clear();
            self.capture.once_kept()?.copy(self.next, self.until, COPIED, &mut self.copies);
        }
        let copy = self.copies.get(self.at)?;
        self.at += 1;
        self.gone += copy.number.0.saturating_sub(self.next.0);
        self.next = FrameNumber(copy.number.0 + 1);
        Some(copy.frame())
    }
}
