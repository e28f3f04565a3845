//! A part of the packet list.

use nfsrdma_analysis::names::FileNames;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_flow::{Flow, FlowLimits};

use super::reload_messages::{FrameReloadRequest, RenderedPacketListPage};
use super::reload_worker::{FrameReloadWorker, STALE_CHECK_FRAMES};
use crate::output::frames::FrameListWriter;

/// Number of preceding frames read as context.
const CONTEXT_FRAMES: u64 = 1 << 16;

impl FrameReloadWorker {
    /// Reads the frames; `None` if another request has priority.
    pub(super) fn frames(&mut self, request: FrameReloadRequest) -> Option<RenderedPacketListPage> {
        let FrameReloadRequest::Frames { first, count, screen, left, time, start } = request else {
            return None;
        };
        let mut frames = self.capture.reread(self.resume_point_before(first, CONTEXT_FRAMES)).ok()?;
        let mut flow =
            Flow::new(FlowLimits { keep_file_data: false, record_transaction_frames: false, ..self.limits.clone() });
        let mut list = FrameListWriter::new(screen, time).with_scroll(left);
        // As in the packet list of a file, names inferred from later frames are not used.
        let mut names = FileNames::new(self.manner.filehandles, self.manner.memory.names_bytes());
        let mut page = RenderedPacketListPage {
            wanted: first,
            first,
            width: screen.width.unwrap_or(0),
            left,
            ..RenderedPacketListPage::default()
        };
        let mut read = 0;
        while let Some(frame) = frames.next() {
            list.start(start.unwrap_or(frame.time));
            let (datagram, kind) = flow.process_frame_observed(&frame, &mut NullFieldObserver);
            names.infer_from_frame(&flow);
            if frame.number >= first {
                if page.lines.is_empty() {
                    page.first = frame.number;
                }
                let mut line = Vec::new();
                list.frame(&mut line, &frame, &datagram, kind, &flow, &mut names).ok()?;
                let line = String::from_utf8_lossy(&line);
                let mut lines = line.lines().map(str::to_owned);
                if page.header.is_empty() {
                    page.header = lines.next().unwrap_or_default();
                }
                page.lines.extend(lines);
            }
            while flow.next_transaction().is_some() {}
            if page.lines.len() >= count {
                break;
            }
            read += 1;
            if read % STALE_CHECK_FRAMES == 0 && self.is_superseded() {
                // Requested again when the current request is done.
                return None;
            }
        }
        Some(page)
    }
}
