//! What is looked at: files that can be read again, or frames that come once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType, Timestamp};

use crate::output::kept_frames::KeptFrames;
use crate::output::tree::Frames as _;
use crate::source::{Place, Source, SourceError};

/// Frames that are copied at a time out of those that are kept.
const COPIED: usize = 256;

/// What besides the frames decides how long an interface is read.
pub trait Pace: Send {
    /// Notes a frame; tells whether it is the last that is wanted.
    fn frame(&mut self, time: Timestamp) -> bool;

    /// Nothing came: what time it is now by the clock that stamps frames.
    fn idle(&mut self) -> Timestamp;
}

/// Where frames come from that come once, for the one who reads them.
pub(super) type First = (Source, Option<Box<dyn Pace>>);

/// A capture, for whoever wants to read it.
#[derive(Clone)]
pub struct Capture(Arc<Kind>);

enum Kind {
    Files(Vec<PathBuf>),
    Once { name: String, first: Mutex<Option<First>>, kept: Mutex<KeptFrames> },
}

impl Capture {
    /// Files, of which each can be read again.
    pub fn files(files: Vec<PathBuf>) -> Self {
        Self(Arc::new(Kind::Files(files)))
    }

    /// Frames that come once: through a pipe, or from an interface. The latest are kept, in `room` bytes.
    pub fn once(name: &str, source: Source, room: usize) -> Self {
        Self::coming(name, (source, None), room)
    }

    /// The same from an interface.
    pub fn live(name: &str, source: Source, room: usize, pace: Box<dyn Pace>) -> Self {
        Self::coming(name, (source, Some(pace)), room)
    }

    fn coming(name: &str, first: First, room: usize) -> Self {
        let (first, kept) = (Mutex::new(Some(first)), Mutex::new(KeptFrames::new(room)));
        Self(Arc::new(Kind::Once { name: name.to_owned(), first, kept }))
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match &*self.0 {
            Kind::Once { name, .. } => name.clone(),
            Kind::Files(files) => match files.as_slice() {
                [] => String::new(),
                [only] => file_name(only),
                [first, rest @ ..] => format!("{} and {} more", file_name(first), rest.len()),
            },
        }
    }

    /// The files, as a command names them.
    pub fn paths(&self) -> Option<&[PathBuf]> {
        match &*self.0 {
            Kind::Files(files) => Some(files),
            Kind::Once { .. } => None,
        }
    }

    /// Whether its frames come once.
    pub fn is_once(&self) -> bool {
        matches!(*self.0, Kind::Once { .. })
    }

    /// The source of the first reading, or of one that begins anew; `None` where frames come once and somebody reads them.
    pub(super) fn source(&self) -> Option<Result<First, SourceError>> {
        match &*self.0 {
            Kind::Files(files) => Some(Source::open(files).map(|source| (source, None))),
            Kind::Once { first, .. } => first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok),
        }
    }

    /// Keeps a frame that comes once.
    pub(super) fn keep(&self, frame: &Frame<'_>) {
        if let Kind::Once { kept, .. } = &*self.0 {
            kept.lock().unwrap_or_else(PoisonError::into_inner).keep(frame);
        }
    }

    /// The frames again: from a place, or from the first that there is.
    pub(super) fn again(&self, place: Option<Place>) -> Result<Again, SourceError> {
        Ok(match &*self.0 {
            Kind::Files(files) => Again::File(Box::new(match (files.as_slice(), place) {
                ([only], Some(place)) => Source::open_at(only, place)?,
                _ => Source::open(files)?,
            })),
            Kind::Once { .. } => {
                Again::Kept { capture: self.clone(), next: FrameNumber(0), copies: Vec::new(), at: 0 }
            }
        })
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Capture").field(&self.name()).finish()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A frame with its own bytes.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    number: FrameNumber,
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Vec<u8>,
}

impl Copied {
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
pub(super) enum Again {
    /// From its files.
    File(Box<Source>),
    /// From what was kept of it.
    Kept { capture: Capture, next: FrameNumber, copies: Vec<Copied>, at: usize },
}

impl Again {
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
            Self::Kept { capture, next, copies, at } => {
                if *at >= copies.len() {
                    *at = 0;
                    copies.clear();
                    let Kind::Once { kept, .. } = &*capture.0 else { return None };
                    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let first = kept.first().filter(|first| first > next).unwrap_or(*next);
                    let numbers = (first.0..).take(COPIED);
                    copies.extend(
                        numbers
                            .map_while(|number| kept.frame(FrameNumber(number)))
                            .map(|frame| Copied::of(&frame)),
                    );
                }
                let copy = copies.get(*at)?;
                *at += 1;
                *next = FrameNumber(copy.number.0 + 1);
                Some(copy.frame())
            }
        }
    }
}
