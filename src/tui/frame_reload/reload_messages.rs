//! The requests to the reload thread, and its responses.

use nfsrdma_analysis::filter::Filter;
use nfsrdma_capture_file::CaptureResumePoint;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use rustc_hash::FxHashMap;

use super::detail_subject::DetailSubject;
use super::waterfall::TransactionWaterfall;
use crate::output::settings::TimeFormat;
use crate::output::style::TerminalProfile;
use crate::output::tree::lines::{TreeLine, TreeLineByteSource};
use crate::tui::model::transaction_list_row::RowPage;
use crate::tui::save::SaveRequest;

/// The details of a subject.
#[derive(Debug)]
pub struct DetailPaneContent {
    /// The subject.
    pub subject: DetailSubject,
    /// Lines of the tree.
    pub lines: Vec<TreeLine>,
    /// The bytes that the lines were decoded from.
    pub bytes: FxHashMap<TreeLineByteSource, Vec<u8>>,
    /// Timeline of a Transaction.
    pub waterfall: TransactionWaterfall,
    /// Frames of the subject.
    pub frames: Vec<FrameNumber>,
    /// Reason why there are no details.
    pub problem: Option<String>,
}

impl DetailPaneContent {
    pub(super) fn missing(subject: DetailSubject, problem: &str) -> Self {
        Self {
            subject,
            lines: Vec::new(),
            bytes: FxHashMap::default(),
            waterfall: TransactionWaterfall::default(),
            frames: Vec::new(),
            problem: Some(problem.to_owned()),
        }
    }
}

/// A part of the packet list.
#[derive(Clone, Debug, Default)]
pub struct RenderedPacketListPage {
    /// First requested frame. The frames from it to `first` are gone.
    pub wanted: FrameNumber,
    /// First frame of the part.
    pub first: FrameNumber,
    /// One line per frame, with escape sequences for styles.
    pub lines: Vec<String>,
    /// Header line.
    pub header: String,
    /// Width of the lines in columns.
    pub width: usize,
    /// Number of columns scrolled past.
    pub left: usize,
}

/// A request to the reload thread.
#[derive(Debug)]
pub(in crate::tui) enum FrameReloadRequest {
    Detail(DetailSubject),
    /// The packet list of `count` frames from `first` on.
    Frames {
        first: FrameNumber,
        count: usize,
        screen: TerminalProfile,
        left: usize,
        time: TimeFormat,
        start: Option<Timestamp>,
    },
    /// A page of the rows that a filter selects.
    Page {
        number: usize,
        filter: Option<(Filter, String)>,
    },
    Save(SaveRequest),
    /// More resume points.
    ResumePoints(Vec<CaptureResumePoint>),
}

/// A response of the reload thread.
#[derive(Debug)]
pub(in crate::tui) enum ReloadResponse {
    Detail(Box<DetailPaneContent>),
    Frames(RenderedPacketListPage),
    Page {
        number: usize,
        filter: Option<String>,
        page: RowPage,
    },
    /// The message about a saved file, or the error.
    Saved(Result<String, String>),
}
