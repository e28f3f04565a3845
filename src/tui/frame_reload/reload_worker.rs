//! The state of the reload thread, and its requests that are not answered yet.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use nfsrdma_capture_file::CaptureResumePoint;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::FlowLimits;

use super::detail_subject::DetailSubject;
use super::reload_messages::{FrameReloadRequest, ReloadResponse};
use crate::output::style::TerminalProfile;
use crate::tui::read_pass::{ReadPassSettings, SharedInferredFileNames};
use crate::tui::rereadable_capture::SharedCapture;
use crate::tui::save::SaveRequest;

/// Number of frames between two checks for requests.
pub(super) const STALE_CHECK_FRAMES: u64 = 1024;

/// Requests that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct UnansweredFrameReloadRequests {
    pub(super) detail: Option<DetailSubject>,
    pub(super) frames: Option<FrameReloadRequest>,
    pub(super) pages: Vec<FrameReloadRequest>,
    pub(super) saves: VecDeque<SaveRequest>,
}

impl UnansweredFrameReloadRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.detail.is_none() && self.frames.is_none() && self.pages.is_empty() && self.saves.is_empty()
    }
}

/// The worker on the reload thread.
pub(super) struct FrameReloadWorker {
    pub(super) capture: SharedCapture,
    pub(super) manner: ReadPassSettings,
    pub(super) limits: FlowLimits,
    pub(super) names: SharedInferredFileNames,
    pub(super) screen: TerminalProfile,
    pub(super) resume_points: Vec<CaptureResumePoint>,
    pub(super) requests: Receiver<FrameReloadRequest>,
    pub(super) responses: Sender<ReloadResponse>,
    pub(super) pending: UnansweredFrameReloadRequests,
}

impl FrameReloadWorker {
    /// Receives pending requests. Returns `false` when the client is gone.
    pub(super) fn receive_requests(&mut self) -> bool {
        loop {
            match self.requests.try_recv() {
                Ok(request) => self.enqueue(request),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    pub(super) fn enqueue(&mut self, request: FrameReloadRequest) {
        match request {
            FrameReloadRequest::Detail(subject) => self.pending.detail = Some(subject),
            request @ FrameReloadRequest::Frames { .. } => self.pending.frames = Some(request),
            request @ FrameReloadRequest::Page { .. } => {
                self.pending.pages.push(request);
                // Drop old requests, whose pages are no longer visible.
                if self.pending.pages.len() > 4 {
                    self.pending.pages.remove(0);
                }
            }
            FrameReloadRequest::Save(request) => self.pending.saves.push_back(request),
            FrameReloadRequest::ResumePoints(resume_points) => self.resume_points.extend(resume_points),
        }
    }

    /// Returns `true` if another request has priority, or if the client is gone.
    pub(super) fn is_superseded(&mut self) -> bool {
        !self.receive_requests() || self.pending.detail.is_some()
    }

    /// Returns the last resume point that is at least `margin` frames before `frame`.
    pub(super) fn resume_point_before(&self, frame: FrameNumber, margin: u64) -> Option<CaptureResumePoint> {
        let at = self.resume_points.partition_point(|point| point.frame.0.saturating_add(margin) <= frame.0);
        at.checked_sub(1).and_then(|at| self.resume_points.get(at)).copied()
    }
}
