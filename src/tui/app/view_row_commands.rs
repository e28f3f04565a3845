//! The rows of each view, and the keys for them. Only this module asks which view a key acts on: the rows of a view
//! are Transactions, frames or the rows of a table, and every key for rows acts on them.

use std::collections::BTreeSet;

use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::application_state::{App, FocusPane, NOTHING_CHOSEN, TuiBackStackEntry};
use super::filtered_sorted_frame_list::{FrameColumn, PacketListSortOrder};
use super::marked_row::MarkedRow;
use crate::tui::model::transaction_list_row::TransactionRowWithText;
use crate::tui::save::SaveSelection;
use crate::tui::search::{RunningSearch, SearchCriterion};
use crate::tui::tui_view::TuiView;
use crate::tui::views::charts::ChartsView;
use crate::tui::views::connections::ConnectionsView;
use crate::tui::views::files::FilesView;
use crate::tui::views::operations::OperationsView;
use crate::tui::views::table::TableView;

/// The kind of a view's rows.
#[derive(Clone, Copy)]
pub(in crate::tui) enum TuiViewRecordKind {
    /// Transactions.
    Transactions,
    /// Frames.
    Frames,
    /// Rows of a table.
    Table(&'static dyn TableView),
}

impl TuiView {
    /// Returns the kind of its rows.
    pub(in crate::tui) fn rows(self) -> TuiViewRecordKind {
        match self {
            Self::Transactions => TuiViewRecordKind::Transactions,
            Self::Frames => TuiViewRecordKind::Frames,
            Self::Operations => TuiViewRecordKind::Table(&OperationsView),
            Self::Connections => TuiViewRecordKind::Table(&ConnectionsView),
            Self::Files => TuiViewRecordKind::Table(&FilesView),
            Self::Charts => TuiViewRecordKind::Table(&ChartsView),
        }
    }
}

impl App {
    /// Goes to a location: in the packet list to a frame; everything else is searched for among the Transactions.
    pub(super) fn go_to_target(&mut self, target: SearchCriterion) {
        match (self.view.rows(), target) {
            (TuiViewRecordKind::Frames, SearchCriterion::Frame(FrameNumber(frame))) => {
                let last = self.unfiltered.progress.frames.max(1);
                self.frame_list.go_to(frame.clamp(1, last));
                self.frame_list.move_cursor(0, self.unfiltered.progress.frames);
                if frame > last {
                    self.show_error(format!("the last frame is {last}"));
                }
            }
            (TuiViewRecordKind::Frames | TuiViewRecordKind::Transactions | TuiViewRecordKind::Table(..), target) => {
                self.view = TuiView::Transactions;
                self.list.follows_tail = false;
                self.search = Some(RunningSearch::from_start(target, self.list.len(self.rows())));
                self.continue_search();
            }
        }
    }

    /// Returns the table row of the cursor.
    fn table_row(&self, view: &dyn TableView) -> Option<usize> {
        view.order(self).get(self.table().at).copied()
    }

    /// Moves the cursor by `by` rows.
    pub(super) fn move_rows(&mut self, by: isize) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let (list, rows) = self.list_and_rows();
                list.move_cursor(by, rows);
            }
            TuiViewRecordKind::Frames => self.frame_list.move_cursor(by, self.unfiltered.progress.frames),
            TuiViewRecordKind::Table(view) => {
                let count = view.len(self);
                if let Some(table) = self.table_mut() {
                    table.at = table.at.saturating_add_signed(by).min(count.saturating_sub(1));
                }
            }
        }
    }

    /// Moves the cursor to the clicked row, counted from the top.
    pub(super) fn click_row(&mut self, line: usize) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let (list, rows) = self.list_and_rows();
                let at = list.top + line;
                if at < list.len(rows) {
                    list.move_to(at, rows);
                    list.follows_tail = false;
                }
            }
            TuiViewRecordKind::Frames => self.frame_list.click(line as u64, self.unfiltered.progress.frames),
            TuiViewRecordKind::Table(view) => {
                let count = view.len(self);
                if let Some(table) = self.table_mut()
                    && table.top + line < count
                {
                    table.at = table.top + line;
                }
            }
        }
    }

    /// Scrolls the columns.
    pub(super) fn scroll_columns(&mut self, is_right: bool) {
        let hidden = self.hidden_columns;
        match self.view.rows() {
            TuiViewRecordKind::Transactions if is_right => self.list.scroll += usize::from(hidden > 0),
            TuiViewRecordKind::Transactions => self.list.scroll = self.list.scroll.saturating_sub(1),
            TuiViewRecordKind::Frames => self.frame_list.scroll_horizontally(is_right),
            TuiViewRecordKind::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.scroll = match is_right {
                        true => table.scroll + usize::from(hidden > 0),
                        false => table.scroll.saturating_sub(1),
                    };
                }
            }
        }
    }

    /// Opens the row of the cursor: its tree, or its Transactions.
    pub(super) fn open_row(&mut self) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions | TuiViewRecordKind::Frames => self.focus = FocusPane::Tree,
            TuiViewRecordKind::Table(view) => {
                let filter = self.table_row(view).and_then(|row| view.filter(self, row));
                if let Some(filter) = filter {
                    let origin = TuiBackStackEntry { view: self.view, filter: self.filter_text(), tables: self.tables };
                    self.show(TuiView::Transactions);
                    self.set_filter(&filter);
                    self.filter_origins.push(origin);
                }
            }
        }
    }

    /// Searches for the next row that contains a text.
    pub(super) fn search_rows(&mut self, text: String, is_forward: bool) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => self.start_search(SearchCriterion::Text(text), is_forward),
            TuiViewRecordKind::Frames => self.search_frames(&text, is_forward),
            TuiViewRecordKind::Table(view) => {
                let has_text = |app: &Self, row| crate::tui::search::contains_ignore_case(&view.text(app, row), &text);
                self.search_table(view, is_forward, &has_text, &format!("not found: {text:?}"));
            }
        }
    }

    /// Goes to the next marked row.
    pub(super) fn next_mark(&mut self) {
        const NONE: &str = "nothing is marked here; m marks";
        match self.view.rows() {
            TuiViewRecordKind::Transactions => self.start_search(SearchCriterion::Marked, true),
            TuiViewRecordKind::Frames => {
                let frames: Vec<u64> = self
                    .marks
                    .iter()
                    .filter_map(|mark| if let MarkedRow::Frame(frame) = mark { Some(*frame) } else { None })
                    .collect();
                let next = frames.iter().find(|frame| **frame > self.frame_list.at).or(frames.first());
                match next {
                    Some(frame) => self.frame_list.go_to(*frame),
                    None => self.show_error(NONE),
                }
            }
            TuiViewRecordKind::Table(view) => {
                let is_marked = |app: &Self, row| view.mark(app, row).is_some_and(|mark| app.marks.contains(&mark));
                self.search_table(view, true, &is_marked, NONE);
            }
        }
    }

    fn search_table(
        &mut self,
        view: &dyn TableView,
        is_forward: bool,
        is_match: &dyn Fn(&Self, usize) -> bool,
        missing: &str,
    ) {
        let order = view.order(self);
        let mut search = RunningSearch::new(SearchCriterion::Marked, is_forward, self.table().at, order.len());
        while search.remaining > 0 {
            if order.get(search.next_position).is_some_and(|row| is_match(self, *row)) {
                if let Some(table) = self.table_mut() {
                    table.at = search.next_position;
                }
                if search.has_wrapped {
                    self.show_search_wrapped(is_forward);
                }
                return;
            }
            search.advance();
        }
        self.show_error(missing);
    }

    /// Returns the filter for the row of the cursor.
    pub(super) fn row_filter(&self) -> Result<String, &'static str> {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let (xid, connection) = (self.filter_for_xid()?, self.filter_for_connection()?);
                Ok(format!("{xid} && {connection}"))
            }
            TuiViewRecordKind::Frames => Ok(format!("{} == {}", GeneratedField::Number, self.frame_list.at)),
            TuiViewRecordKind::Table(view) => {
                self.table_row(view).and_then(|row| view.filter(self, row)).ok_or(NOTHING_CHOSEN)
            }
        }
    }

    /// Returns the text of the row of the cursor, for copying.
    pub(super) fn row_value(&self) -> Option<String> {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => self.entry().map(|entry| entry.label().to_owned()),
            TuiViewRecordKind::Frames => self.frame_list.cursor_line_text().or(Some(self.frame_list.at.to_string())),
            TuiViewRecordKind::Table(view) => view.value(self, self.table_row(view)?),
        }
    }

    /// Marks or unmarks the row of the cursor, and moves to the next row.
    pub(super) fn mark_row(&mut self) {
        let mark = match self.view.rows() {
            TuiViewRecordKind::Transactions => self.entry().map(|entry| MarkedRow::Transaction(entry.row.index)),
            TuiViewRecordKind::Frames => (self.frame_list.at > 0).then_some(MarkedRow::Frame(self.frame_list.at)),
            TuiViewRecordKind::Table(view) => self.table_row(view).and_then(|row| view.mark(self, row)),
        };
        let Some(mark) = mark else { return };
        if !self.marks.remove(&mark) {
            self.marks.insert(mark);
        }
        self.move_rows(1);
    }

    /// Returns the selection to save: the marked rows of the view, or the row of the cursor if none is marked.
    pub(super) fn row_selection(&self) -> Result<SaveSelection, String> {
        let is_once = self.capture.is_received_once();
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let number = |mark: &MarkedRow| match mark {
                    MarkedRow::Transaction(index) => Some(*index),
                    _ => None,
                };
                let marked: BTreeSet<u64> = self.marks.iter().filter_map(number).collect();
                if marked.is_empty() {
                    let entry = self.entry().ok_or(NOTHING_CHOSEN)?;
                    return Ok(match is_once {
                        true => SaveSelection::for_rows(std::iter::once(entry)),
                        false => SaveSelection::Numbers(BTreeSet::from([entry.row.index])),
                    });
                }
                let is_marked = |entry: &TransactionRowWithText<'_>| marked.contains(&entry.row.index);
                Ok(match is_once {
                    true => SaveSelection::for_rows(self.unfiltered.rows.entries().filter(is_marked)),
                    false => SaveSelection::Numbers(marked),
                })
            }
            TuiViewRecordKind::Frames => {
                let number = |mark: &MarkedRow| if let MarkedRow::Frame(frame) = mark { Some(*frame) } else { None };
                let mut frames: BTreeSet<u64> = self.marks.iter().filter_map(number).collect();
                if frames.is_empty() {
                    frames.extend(Some(self.frame_list.at).filter(|frame| *frame > 0));
                }
                if frames.is_empty() { Err(NOTHING_CHOSEN.to_owned()) } else { Ok(SaveSelection::Frames(frames)) }
            }
            TuiViewRecordKind::Table(view) => {
                let is_marked = |row: &usize| view.mark(self, *row).is_some_and(|mark| self.marks.contains(&mark));
                let mut rows: Vec<usize> = view.order(self).into_iter().filter(is_marked).collect();
                if rows.is_empty() {
                    rows.extend(self.table_row(view));
                }
                if is_once {
                    let marks: BTreeSet<MarkedRow> = rows.iter().filter_map(|row| view.mark(self, *row)).collect();
                    if marks.is_empty() {
                        return Err(NOTHING_CHOSEN.to_owned());
                    }
                    // Frames received once are found by their rows.
                    let is_wanted = |entry: &TransactionRowWithText<'_>| {
                        let transaction = entry.to_ended_transaction();
                        marks.contains(&MarkedRow::Operation(transaction.operation))
                            || marks.contains(&MarkedRow::Connection(transaction.connection))
                            || transaction.path.is_some_and(|path| marks.contains(&MarkedRow::File(path.to_vec())))
                    };
                    return Ok(SaveSelection::for_rows(self.rows().entries().filter(is_wanted)));
                }
                let filters: Vec<String> =
                    rows.iter().filter_map(|row| Some(format!("({})", view.filter(self, *row)?))).collect();
                if filters.is_empty() {
                    return Err(NOTHING_CHOSEN.to_owned());
                }
                let filter = self.within_filter(&filters.join(" || "));
                let filter = Filter::parse(&filter).map_err(|error| error.to_string())?;
                Ok(SaveSelection::Selected(Some(filter)))
            }
        }
    }

    /// Restricts a filter to the rows that the current filter selects.
    fn within_filter(&self, filter: &str) -> String {
        match &self.displayed_pass().filter {
            Some((_, previous)) => format!("({previous}) && ({filter})"),
            None => filter.to_owned(),
        }
    }

    /// Returns the filter that shows the Transactions of the table row of the cursor; `None` if the view has no table.
    pub(super) fn table_row_filter(&self) -> Option<Result<String, &'static str>> {
        match self.view.rows() {
            TuiViewRecordKind::Transactions | TuiViewRecordKind::Frames => None,
            TuiViewRecordKind::Table(..) => Some(self.row_filter().map(|filter| self.within_filter(&filter))),
        }
    }

    /// Sorts by the column `step` positions from the current one.
    pub(super) fn sort_rows(&mut self, step: isize) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let width = usize::from(self.areas.list.width);
                let columns: Vec<_> = self.layout(width).columns.into_iter().map(|(column, _)| column).collect();
                let (list, rows) = self.list_and_rows();
                list.sort_by_neighbor(step, &columns, rows);
            }
            TuiViewRecordKind::Frames => self.sort_frames(self.frame_list.sort.neighbor(step)),
            TuiViewRecordKind::Table(view) => {
                let count = view.headings().len() as isize;
                if let Some(table) = self.table_mut()
                    && count > 0
                {
                    table.sort = (table.sort as isize + step).rem_euclid(count) as usize;
                }
            }
        }
    }

    /// Sorts by the clicked heading, or reverses the order if it is sorted by it already.
    pub(super) fn sort_by_heading(&mut self, number: usize) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {}
            TuiViewRecordKind::Frames => {
                let Some(by) = FrameColumn::ALL.get(number).copied() else { return };
                match by == self.frame_list.sort.by {
                    true => self.reverse_rows(),
                    false => self.sort_frames(PacketListSortOrder::by_column(by)),
                }
            }
            TuiViewRecordKind::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.is_reversed = table.sort == number && !table.is_reversed;
                    table.sort = number;
                }
            }
        }
    }

    /// Reverses the order.
    pub(super) fn reverse_rows(&mut self) {
        match self.view.rows() {
            TuiViewRecordKind::Transactions => {
                let (list, rows) = self.list_and_rows();
                list.reverse(rows);
            }
            TuiViewRecordKind::Frames => {
                let PacketListSortOrder { by, is_descending } = self.frame_list.sort;
                self.sort_frames(PacketListSortOrder { by, is_descending: !is_descending });
            }
            TuiViewRecordKind::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.is_reversed = !table.is_reversed;
                }
            }
        }
    }
}
