//! Evicted pages of rows. They are made as the first time, by reading from the start, because numbers, names and
//! connections depend on all earlier frames.

use nfsrdma_analysis::filter::FilterRunner;
use nfsrdma_analysis::names::FileNames;

use super::reload_messages::{FrameReloadRequest, ReloadResponse};
use super::reload_worker::{FrameReloadWorker, STALE_CHECK_FRAMES};
use crate::tui::model::transaction_list_row::{PAGE_ROWS, RowPage, TuiTransactionRowBuilder};

impl FrameReloadWorker {
    /// Reads until the page is complete; `None` if another request has priority.
    pub(super) fn page(&mut self, request: FrameReloadRequest) -> Option<ReloadResponse> {
        let FrameReloadRequest::Page { number, filter } = request else { return None };
        let (filter, text) = match filter {
            Some((filter, text)) => (Some(filter), Some(text)),
            None => (None, None),
        };
        let first = number * PAGE_ROWS;
        let mut frames = self.capture.reread(None).ok()?;
        let (mut flow, mut conformance) = self.manner.flow(filter.as_ref(), self.manner.limits.clone());
        let mut selection =
            filter.map(|filter| FilterRunner::with_filehandles(filter, self.manner.filehandles, &self.manner.memory));
        let mut names = FileNames::new(self.manner.filehandles, self.manner.memory.names_bytes());
        let mut writer = TuiTransactionRowBuilder::new(self.manner.glyphs);
        let (mut page, mut rows, mut count) = (RowPage::default(), 0, 0);
        loop {
            let is_over = match frames.next() {
                Some(frame) => {
                    match &mut selection {
                        Some(selection) => selection.add_frame(&frame, &mut flow),
                        None => _ = flow.process_frame(&frame),
                    }
                    false
                }
                None => {
                    flow.finish();
                    true
                }
            };
            if let Some(conformance) = &mut conformance {
                conformance.record_events(&flow);
            }
            while let Some((key, transaction)) = flow.next_with_key() {
                transaction.with_messages(|messages| {
                    let summary = messages.summary();
                    names.infer(&transaction, messages, &summary);
                    let findings = match &mut conformance {
                        Some(conformance) => conformance.check(Some(key), &transaction, messages, &summary),
                        None => Vec::new(),
                    };
                    if let Some(selection) = &mut selection {
                        selection.set_findings(&findings);
                    }
                    if let Some(selection) = &mut selection
                        && selection.transaction(Some(key), &transaction, messages, None).is_none()
                    {
                        return;
                    }
                    if rows >= first && page.len() < PAGE_ROWS {
                        writer.add(&mut page, &transaction, messages, &summary, names.paths(), &findings);
                    }
                    rows += 1;
                });
            }
            if is_over || page.len() == PAGE_ROWS {
                return Some(ReloadResponse::Page { number, filter: text, page });
            }
            count += 1;
            if count % STALE_CHECK_FRAMES == 0 && self.is_superseded() {
                return None;
            }
        }
    }
}
