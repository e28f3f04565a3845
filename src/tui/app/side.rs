//! A pass with what it has brought: all Transactions, or those that a filter selects.

use crate::filter::Filter;
use crate::source::Place;
use crate::tui::capture::Capture;
use crate::tui::mailbox::Progress;
use crate::tui::model::Rows;
use crate::tui::model::activity::Activity;
use crate::tui::model::tables::Tables;
use crate::tui::pass::{Manner, Pass};

/// A pass and its rows and tables.
#[derive(Debug)]
pub(in crate::tui) struct Side {
    pub(in crate::tui) pass: Pass,
    pub(in crate::tui) rows: Rows,
    pub(in crate::tui) tables: Tables,
    pub(in crate::tui) activity: Activity,
    pub(in crate::tui) progress: Progress,
    pub(in crate::tui) errors: Vec<String>,
    /// The filter and its text.
    pub(in crate::tui) filter: Option<(Filter, String)>,
}

impl Side {
    /// Starts a pass; `first` is the one over everything, where there is one already.
    pub(super) fn start(
        capture: &Capture,
        filter: Option<(Filter, String)>,
        manner: &Manner,
        first: Option<&Self>,
    ) -> Self {
        let names = first.filter(|_| capture.is_once()).map(|first| first.pass.names.clone());
        let condition = filter.as_ref().map(|(filter, _)| filter.clone());
        Self {
            pass: Pass::start(capture.clone(), condition, manner.clone(), names),
            rows: Rows::new(0),
            tables: Tables::default(),
            activity: Activity::default(),
            progress: Progress::default(),
            errors: Vec::new(),
            filter,
        }
    }

    /// Takes what the pass has found; `near` is the row that is looked at. Gives new places to read from, and tells whether
    /// there was anything.
    pub(super) fn take(&mut self, near: usize) -> (Vec<Place>, bool) {
        let mail = self.pass.take();
        let before = self.progress;
        let mut is_new = !mail.pages.is_empty() || mail.tables.is_some() || !mail.errors.is_empty();
        for page in mail.pages {
            self.rows.push(page, near);
        }
        if let Some(tables) = mail.tables {
            self.tables = *tables;
        }
        if let Some(activity) = mail.activity {
            self.activity = *activity;
            is_new = true;
        }
        self.errors.extend(mail.errors);
        self.progress = mail.progress.unwrap_or(before);
        is_new |= self.progress != before;
        (mail.places, is_new)
    }
}
