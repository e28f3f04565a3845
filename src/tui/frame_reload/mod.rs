//! The thread that reads frames again: for the chosen item, evicted pages, and frames to save.
//!
//! Details come first, then the packet list, pages (latest first) and saves. Obsolete requests are dropped, and a long
//! read regularly checks for new ones.

pub mod detail_subject;
mod evicted_row_pages;
mod packet_list_page;
mod rdma_acknowledgements;
pub mod reload_messages;
mod reload_worker;
mod transaction;
pub mod waterfall;
pub mod waterfall_bar;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nfsrdma_flow::FlowLimits;

use super::read_pass::{ReadPassSettings, SharedInferredFileNames};
use super::rereadable_capture::SharedCapture;
use super::save;
use crate::output::style::TerminalProfile;
use reload_messages::{FrameReloadRequest, ReloadResponse};
use reload_worker::{FrameReloadWorker, UnansweredFrameReloadRequests};

/// The client end of the reload thread.
#[derive(Debug)]
pub(super) struct FrameReloadClient {
    requests: Sender<FrameReloadRequest>,
    responses: Receiver<ReloadResponse>,
}

impl FrameReloadClient {
    /// Starts the thread.
    pub(super) fn start(
        capture: SharedCapture,
        settings: ReadPassSettings,
        names: SharedInferredFileNames,
        screen: TerminalProfile,
    ) -> Self {
        let (request_sender, request_receiver) = channel();
        let (response_sender, response_receiver) = channel();
        thread::spawn(move || {
            let limits =
                FlowLimits { keep_file_data: true, record_transaction_frames: true, ..settings.limits.clone() };
            let mut worker = FrameReloadWorker {
                capture,
                manner: settings,
                limits,
                names,
                screen,
                resume_points: Vec::new(),
                requests: request_receiver,
                responses: response_sender,
                pending: UnansweredFrameReloadRequests::default(),
            };
            while worker.serve_next() {}
        });
        Self { requests: request_sender, responses: response_receiver }
    }

    pub(super) fn request(&self, request: FrameReloadRequest) {
        // The thread ends when the client is dropped.
        let _ = self.requests.send(request);
    }

    pub(super) fn try_response(&self) -> Option<ReloadResponse> {
        self.responses.try_recv().ok()
    }
}

impl FrameReloadWorker {
    /// Answers one request. Returns `false` when the client is gone.
    fn serve_next(&mut self) -> bool {
        if self.pending.is_empty() {
            match self.requests.recv() {
                Ok(request) => self.enqueue(request),
                Err(_) => return false,
            }
        }
        if !self.receive_requests() {
            return false;
        }
        let response = if let Some(subject) = self.pending.detail.take() {
            self.detail(subject).map(|detail| ReloadResponse::Detail(Box::new(detail)))
        } else if let Some(request) = self.pending.frames.take() {
            self.frames(request).map(ReloadResponse::Frames)
        } else if let Some(request) = self.pending.pages.pop() {
            self.page(request)
        } else {
            self.pending
                .saves
                .pop_front()
                .map(|request| ReloadResponse::Saved(save::save(&self.capture, &self.manner, &request)))
        };
        response.is_none_or(|response| self.responses.send(response).is_ok())
    }
}
