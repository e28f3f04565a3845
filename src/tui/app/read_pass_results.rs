//! A pass and its results: all Transactions, or those that a filter selects.

use nfsrdma_analysis::filter::Filter;
use nfsrdma_capture_file::CaptureResumePoint;

use crate::tui::model::TransactionRows;
use crate::tui::model::pending_calls_and_rates::LiveActivitySnapshot;
use crate::tui::model::statistics_snapshot::DisplayedStatistics;
use crate::tui::read_pass::{ReadPass, ReadPassSettings};
use crate::tui::read_pass_channel::ReadPassProgress;
use crate::tui::rereadable_capture::SharedCapture;

/// A pass with its rows and tables.
#[derive(Debug)]
pub(in crate::tui) struct ReadPassResults {
    pub(in crate::tui) pass: ReadPass,
    pub(in crate::tui) rows: TransactionRows,
    pub(in crate::tui) tables: DisplayedStatistics,
    pub(in crate::tui) activity: LiveActivitySnapshot,
    pub(in crate::tui) progress: ReadPassProgress,
    pub(in crate::tui) errors: Vec<String>,
    /// The filter and its text.
    pub(in crate::tui) filter: Option<(Filter, String)>,
}

impl ReadPassResults {
    /// Starts a pass. `first` is the pass over all Transactions, if it was started before.
    pub(super) fn start(
        capture: &SharedCapture,
        filter: Option<(Filter, String)>,
        settings: &ReadPassSettings,
        first: Option<&Self>,
    ) -> Self {
        let names = first.filter(|_| capture.is_received_once()).map(|first| first.pass.names.clone());
        let condition = filter.as_ref().map(|(filter, _)| filter.clone());
        Self {
            pass: ReadPass::start(capture.clone(), condition, settings.clone(), names),
            rows: TransactionRows::new(0),
            tables: DisplayedStatistics::default(),
            activity: LiveActivitySnapshot::default(),
            progress: ReadPassProgress::default(),
            errors: Vec::new(),
            filter,
        }
    }

    /// Takes the results of the pass; `cursor_row` is the row in view, and `all` are the tables of all transactions, if
    /// a filter selects those of this pass. Returns new resume points, and `true` if there were results.
    pub(super) fn take(
        &mut self,
        cursor_row: usize,
        all: Option<&DisplayedStatistics>,
    ) -> (Vec<CaptureResumePoint>, bool) {
        let updates = self.pass.take();
        let previous = self.progress;
        let mut is_new = !updates.pages.is_empty() || updates.tables.is_some() || !updates.errors.is_empty();
        for page in updates.pages {
            self.rows.push(page, cursor_row);
        }
        if let Some(tables) = updates.tables {
            self.tables = *tables;
            if let Some(all) = all {
                self.tables.adopt_connection_facts(all);
            }
        }
        if let Some(mut activity) = updates.activity {
            self.rows.set_pending(std::mem::take(&mut activity.rows));
            self.activity = *activity;
            is_new = true;
        }
        self.errors.extend(updates.errors);
        self.progress = updates.progress.unwrap_or(previous);
        is_new |= self.progress != previous;
        (updates.resume_points, is_new)
    }
}
