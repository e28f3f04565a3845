//! Capture handles: files that can be read again, or frames that are received once.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_capture_file::{
    CaptureFileInterface, CaptureFrameSource, CaptureInterfaceLinkState, CaptureResumePoint, SourceError,
    ZstdWindowBudget,
};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_flow::Transaction;

use super::followed_file::{FollowedFile, FollowedFileEndReason};
use super::retained_live_frames::{FirstPassProgress, OwnedFrame, RetainedLiveFrames, TuiFirstPassTransactionResult};

/// Maximum number of frames copied at a time from the kept ones.
const MAX_COPIED_FRAMES: usize = 256;

/// Control of the time for which an interface is read.
pub trait LiveCaptureStopCondition: Send {
    /// Records a frame. Returns `true` if it is the last one wanted.
    fn frame(&mut self, time: Timestamp) -> bool;

    /// Reports that no frame came. Returns the current time of the clock that stamps frames.
    fn idle(&mut self) -> Timestamp;

    /// Returns the state of the interface.
    fn link(&self) -> CaptureInterfaceLinkState {
        CaptureInterfaceLinkState::Up
    }
}

/// The source of frames that are received once, for its only reader.
pub(super) type OneTimeFrameSource = (CaptureFrameSource, Option<Box<dyn LiveCaptureStopCondition>>);

/// A capture, shared by its readers.
#[derive(Clone)]
pub struct SharedCapture(Arc<CaptureRereadability>);

enum CaptureRereadability {
    Files(Vec<PathBuf>, ZstdWindowBudget),
    ReceivedOnce {
        name: String,
        is_live: bool,
        /// The file, if it is followed.
        followed: Option<FollowedFile>,
        first: Mutex<Option<OneTimeFrameSource>>,
        live_frames: Box<Mutex<RetainedLiveFrames>>,
        /// Memory of `live_frames` in bytes.
        room_bytes: usize,
    },
}

impl SharedCapture {
    /// Returns a handle for files, which can be read again. `windows` is the memory budget of zstd windows.
    pub fn files(files: Vec<PathBuf>, windows: ZstdWindowBudget) -> Self {
        Self(Arc::new(CaptureRereadability::Files(files, windows)))
    }

    /// Returns a handle for frames received once, as through a pipe. The latest are kept, in `memory_bytes`.
    pub fn received_once(name: &str, source: CaptureFrameSource, memory_bytes: usize) -> Self {
        Self::new_received_once(name, (source, None), memory_bytes, None)
    }

    /// Returns a handle for a file that another program still writes. The latest frames are kept, in `memory_bytes`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn followed(path: &Path, windows: &ZstdWindowBudget, memory_bytes: usize) -> io::Result<Self> {
        Ok(Self::of_followed(FollowedFile::open(path, windows)?, memory_bytes))
    }

    fn of_followed((file, source): (FollowedFile, CaptureFrameSource), memory_bytes: usize) -> Self {
        let name = file.name();
        Self::new_received_once(&name, (source, None), memory_bytes, Some(file))
    }

    /// Returns a handle for frames of an interface. The latest are kept, in `memory_bytes`.
    pub fn live(
        name: &str,
        source: CaptureFrameSource,
        memory_bytes: usize,
        pace: Box<dyn LiveCaptureStopCondition>,
    ) -> Self {
        Self::new_received_once(name, (source, Some(pace)), memory_bytes, None)
    }

    fn new_received_once(
        name: &str,
        first: OneTimeFrameSource,
        room_bytes: usize,
        followed: Option<FollowedFile>,
    ) -> Self {
        Self(Arc::new(CaptureRereadability::ReceivedOnce {
            name: name.to_owned(),
            is_live: first.1.is_some(),
            followed,
            first: Mutex::new(Some(first)),
            live_frames: Box::new(Mutex::new(RetainedLiveFrames::new(room_bytes))),
            room_bytes,
        }))
    }

    fn followed_file(&self) -> Option<&FollowedFile> {
        match &*self.0 {
            CaptureRereadability::ReceivedOnce { followed, .. } => followed.as_ref(),
            CaptureRereadability::Files(..) => None,
        }
    }

    /// Returns `true` for a file that another program still writes.
    pub(super) fn is_followed(&self) -> bool {
        self.followed_file().is_some()
    }

    /// Returns the reason why a followed file ended, if it did.
    pub(super) fn file_change(&self) -> Option<FollowedFileEndReason> {
        self.followed_file()?.change()
    }

    /// Returns a handle for reading again from the start; `None` if frames are received once.
    ///
    /// # Errors
    /// Returns an error if a followed file cannot be opened again.
    pub(super) fn again(&self) -> io::Result<Option<Self>> {
        match &*self.0 {
            CaptureRereadability::Files(..) => Ok(Some(self.clone())),
            CaptureRereadability::ReceivedOnce { followed: Some(file), room_bytes, .. } => {
                Ok(Some(Self::of_followed(file.reopen()?, *room_bytes)))
            }
            CaptureRereadability::ReceivedOnce { .. } => Ok(None),
        }
    }

    /// Returns the display name.
    pub fn name(&self) -> String {
        match &*self.0 {
            CaptureRereadability::ReceivedOnce { name, .. } => name.clone(),
            CaptureRereadability::Files(files, _) => match files.as_slice() {
                [] => String::new(),
                [only] => file_name(only),
                [first, rest @ ..] => format!("{} and {} more", file_name(first), rest.len()),
            },
        }
    }

    /// Returns the paths of the files; `None` if frames are received once.
    pub fn paths(&self) -> Option<&[PathBuf]> {
        match &*self.0 {
            CaptureRereadability::Files(files, _) => Some(files),
            CaptureRereadability::ReceivedOnce { .. } => None,
        }
    }

    /// Returns `true` if frames are received once.
    pub fn is_received_once(&self) -> bool {
        matches!(*self.0, CaptureRereadability::ReceivedOnce { .. })
    }

    /// Returns `true` if frames come from an interface.
    pub fn is_live(&self) -> bool {
        matches!(&*self.0, CaptureRereadability::ReceivedOnce { is_live: true, .. })
    }

    /// Returns the source for reading from the start; `None` if frames are received once and the source was taken.
    pub(super) fn source(&self) -> Option<Result<OneTimeFrameSource, SourceError>> {
        match &*self.0 {
            CaptureRereadability::Files(files, windows) => {
                Some(CaptureFrameSource::open_within(files, windows).map(|source| (source, None)))
            }
            CaptureRereadability::ReceivedOnce { first, .. } => {
                first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok)
            }
        }
    }

    fn lock_live_frames(&self) -> Option<MutexGuard<'_, RetainedLiveFrames>> {
        match &*self.0 {
            CaptureRereadability::Files(..) => None,
            CaptureRereadability::ReceivedOnce { live_frames: once, .. } => {
                Some(once.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Keeps the last frame of a source that is received once.
    pub(super) fn keep(&self, source: &CaptureFrameSource) {
        if let Some(mut once) = self.lock_live_frames() {
            once.keep(source);
        }
    }

    /// Records the first pass's results for a Transaction, if frames are received once.
    pub(super) fn record_first_pass(&self, transaction: &Transaction, paths: OperationPaths<'_>) {
        if let Some(mut once) = self.lock_live_frames() {
            once.record(transaction, paths);
        }
    }

    /// Updates the progress of the first pass.
    pub(super) fn update_progress(&self, update: impl FnOnce(&mut FirstPassProgress)) {
        if let Some(mut once) = self.lock_live_frames() {
            update(&mut once.progress);
        }
    }

    /// Returns the progress of the first pass.
    pub(super) fn first_pass_progress(&self) -> FirstPassProgress {
        self.lock_live_frames().map(|once| once.progress).unwrap_or_default()
    }

    /// Returns the first pass's results for a Transaction decoded by another pass, and sets its numbers from them.
    /// Returns `None` if there are none: some of its frames are gone, or the first pass has not completed it yet.
    pub(super) fn first_pass_result(&self, transaction: &mut Transaction) -> Option<TuiFirstPassTransactionResult> {
        let first_pass = self.lock_live_frames()?.first_pass_result(transaction)?.clone();
        transaction.index = first_pass.index;
        transaction.connection.number = first_pass.connection;
        Some(first_pass)
    }

    /// Records the calls in flight of the first pass, if frames are received once.
    pub(super) fn record_pending<'t>(&self, calls: impl Iterator<Item = &'t Transaction>) {
        if let Some(mut once) = self.lock_live_frames() {
            once.set_pending(calls);
        }
    }

    /// Sets the connection of a call in flight to that of the first pass. Returns `false` if the first pass has no such
    /// call in flight, or files are read.
    pub(super) fn adopt_pending(&self, call: &mut Transaction) -> bool {
        self.lock_live_frames().is_some_and(|once| once.adopt_pending(call))
    }

    /// Returns the interface of a frame that was received once.
    pub(super) fn interface(&self, frame: FrameNumber) -> Option<(usize, CaptureFileInterface)> {
        self.lock_live_frames()?.interface(frame)
    }

    /// Returns the frames again: from `resume_point`, or from the first one available.
    pub(super) fn reread(&self, resume_point: Option<CaptureResumePoint>) -> Result<RereadFrameSource, SourceError> {
        Ok(match &*self.0 {
            CaptureRereadability::Files(files, windows) => {
                RereadFrameSource::File(Box::new(match (files.as_slice(), resume_point) {
                    ([only], Some(point)) => CaptureFrameSource::open_at(only, point)?,
                    _ => CaptureFrameSource::open_within(files, windows)?,
                }))
            }
            CaptureRereadability::ReceivedOnce { .. } => RereadFrameSource::Buffered(RetainedLiveFrameReader {
                capture: self.clone(),
                next: FrameNumber(1),
                until: FrameNumber(u64::MAX),
                copies: Vec::new(),
                at: 0,
                evicted_count: 0,
            }),
        })
    }

    /// Returns a reader of frames received once, limited to those that the first pass has processed.
    pub(super) fn follow(&self) -> RetainedLiveFrameReader {
        let until = FrameNumber(0);
        RetainedLiveFrameReader {
            capture: self.clone(),
            next: FrameNumber(1),
            until,
            copies: Vec::new(),
            at: 0,
            evicted_count: 0,
        }
    }
}

impl fmt::Debug for SharedCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Capture").field(&self.name()).finish()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The frames of a capture that was read before.
pub(super) enum RereadFrameSource {
    /// Frames from the files.
    File(Box<CaptureFrameSource>),
    /// Frames from the buffer of kept frames.
    Buffered(RetainedLiveFrameReader),
}

impl RereadFrameSource {
    /// Returns the next frame. Errors of a file were reported by the first pass.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::File(source) => loop {
                match source.next() {
                    Ok(Some(_)) => return source.frame(),
                    Ok(None) => return None,
                    Err(_) => {}
                }
            },
            Self::Buffered(reader) => reader.next(),
        }
    }
}

/// Reader of the kept frames of a capture that is received once.
pub(super) struct RetainedLiveFrameReader {
    capture: SharedCapture,
    next: FrameNumber,
    /// Last frame to return.
    pub(super) until: FrameNumber,
    copies: Vec<OwnedFrame>,
    at: usize,
    /// Number of frames evicted before they could be read.
    pub(super) evicted_count: u64,
}

impl RetainedLiveFrameReader {
    /// Returns the next frame; `None` if there is none yet.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        if self.at >= self.copies.len() {
            self.at = 0;
            self.copies.clear();
            self.capture.lock_live_frames()?.copy(self.next, self.until, MAX_COPIED_FRAMES, &mut self.copies);
        }
        let copy = self.copies.get(self.at)?;
        self.at += 1;
        self.evicted_count += copy.number.0.saturating_sub(self.next.0);
        self.next = FrameNumber(copy.number.0 + 1);
        Some(copy.frame())
    }
}
