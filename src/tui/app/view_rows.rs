//! The rows of each view, and what keys do with them. This is the one place that tells views apart for keys: a view has the
//! Transactions, the frames, or the rows of a table for rows, and every key that acts on rows acts on those.

use nfsrdma_dissectors::frame::FrameNumber;

use crate::analysis::statistics::OperationKey;
use crate::tui::again::{Subject, Wanted};
use crate::tui::model::Entry;
use crate::tui::search::{Hunt, Target};
use crate::tui::views::charts::Charts;
use crate::tui::views::connections::Connections;
use crate::tui::views::files::Files;
use crate::tui::views::operations::Operations;
use crate::tui::views::table::TableView;

use super::frame_order::HeldFrames;
use super::{App, FrameColumn, FrameSort, Origin, Part, View};

const NOTHING: &str = "nothing is chosen";

/// Tables that keep their cursor and order.
pub(super) const TABLES: usize = 4;

/// What the rows of a view are.
#[derive(Clone, Copy)]
pub(in crate::tui) enum Rows {
    /// Transactions.
    Transactions,
    /// Frames.
    Frames,
    /// The rows of a table, and which of the tables it is.
    Table(&'static dyn TableView, usize),
}

/// A row that was marked, by what stays when the rows change their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tui) enum Mark {
    /// A Transaction by its number.
    Transaction(u64),
    /// A frame by its number.
    Frame(u64),
    /// An operation.
    Operation(OperationKey),
    /// A connection by its number.
    Connection(u64),
    /// A file by its path.
    File(Vec<u8>),
}

impl View {
    /// What its rows are.
    pub(in crate::tui) fn rows(self) -> Rows {
        match self {
            Self::Transactions => Rows::Transactions,
            Self::Frames => Rows::Frames,
            Self::Operations => Rows::Table(&Operations, 0),
            Self::Connections => Rows::Table(&Connections, 1),
            Self::Files => Rows::Table(&Files, 2),
            Self::Charts => Rows::Table(&Charts, 3),
        }
    }

    /// Whether it has a tree below its list.
    pub(in crate::tui) fn has_tree(self) -> bool {
        !matches!(self.rows(), Rows::Table(..))
    }

    /// The keys that matter most in its list, for the last line.
    pub(in crate::tui) fn hints(self) -> &'static [(&'static str, &'static str)] {
        match self.rows() {
            Rows::Transactions => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "tree"),
                ("w", "waterfall"),
                ("f", "filter"),
                ("/", "search"),
                ("F", "follow"),
                ("e", "error"),
                ("i", "incomplete"),
                ("s", "slow"),
                ("< >", "sort"),
                ("g", "go to"),
                ("m", "mark"),
                ("W", "save"),
                ("y", "copy"),
            ],
            Rows::Frames => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "tree"),
                ("f", "filter"),
                ("/", "search"),
                ("< >", "sort"),
                ("g", "go to"),
                ("m", "mark"),
                ("y", "copy"),
                ("c", "copy command"),
                ("Esc", "Transactions"),
            ],
            Rows::Table(view, _) if view.columns().is_empty() => {
                &[("?", "help"), ("q", "quit"), ("Up Down", "operation"), ("Enter", "its Transactions")]
            }
            Rows::Table(..) => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "its Transactions"),
                ("< >", "sort"),
                ("r", "reverse"),
                ("/", "search"),
                ("Left Right", "columns"),
                ("=", "filter"),
                ("m", "mark"),
                ("y", "copy"),
            ],
        }
    }
}

impl App {
    /// The frames that are held, in the view of frames.
    pub(in crate::tui) fn held_packets(&self) -> Option<&HeldFrames> {
        match self.view.rows() {
            Rows::Frames => self.packets.held.as_ref(),
            Rows::Transactions | Rows::Table(..) => None,
        }
    }

    /// What tree and bytes are about.
    pub(in crate::tui) fn subject(&self) -> Option<Subject> {
        match self.view.rows() {
            Rows::Frames => (self.packets.at > 0).then_some(Subject::Frame(FrameNumber(self.packets.at))),
            Rows::Transactions | Rows::Table(..) => {
                Some(Subject::Transaction(Wanted::from(self.entry()?.row)))
            }
        }
    }

    /// Goes to a place: in the packet list to a frame, and everything else is looked for among the Transactions.
    pub(super) fn go_to_place(&mut self, target: Target) {
        match (self.view.rows(), target) {
            (Rows::Frames, Target::Frame(FrameNumber(frame))) => {
                let last = self.all.progress.frames.max(1);
                self.go_to_frame(frame.clamp(1, last));
                self.step_packets(0);
                if frame > last {
                    self.complain(format!("the last frame is {last}"));
                }
            }
            (Rows::Frames | Rows::Transactions | Rows::Table(..), target) => {
                self.view = View::Transactions;
                self.list.has_tail = false;
                self.hunt = Some(Hunt::from_start(target, self.list.len(self.rows())));
                self.go_on_hunting();
            }
        }
    }

    /// The row of the cursor in a table.
    fn table_row(&self, view: &dyn TableView) -> Option<usize> {
        view.order(self).get(self.table().at).copied()
    }

    /// Moves the cursor by some rows.
    pub(super) fn move_rows(&mut self, by: isize) {
        match self.view.rows() {
            Rows::Transactions => {
                let rows = self.chosen.as_ref().map_or(&self.all.rows, |side| &side.rows);
                self.list.step(by, rows);
            }
            Rows::Frames => self.step_packets(by),
            Rows::Table(view, _) => {
                let count = view.len(self);
                if let Some(table) = self.table_mut() {
                    table.at = table.at.saturating_add_signed(by).min(count.saturating_sub(1));
                }
            }
        }
    }

    /// Puts the cursor on a row that was clicked, so many lines below the top.
    pub(super) fn click_row(&mut self, line: usize) {
        match self.view.rows() {
            Rows::Transactions => {
                let at = self.list.top + line;
                let rows = self.chosen.as_ref().map_or(&self.all.rows, |side| &side.rows);
                if at < self.list.len(rows) {
                    self.list.go(at, rows);
                    self.list.has_tail = false;
                }
            }
            Rows::Frames => self.click_packet(line as u64),
            Rows::Table(view, _) => {
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
            Rows::Transactions if is_right => self.list.scroll += usize::from(hidden > 0),
            Rows::Transactions => self.list.scroll = self.list.scroll.saturating_sub(1),
            Rows::Frames => self.scroll_packets(is_right),
            Rows::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.scroll = match is_right {
                        true => table.scroll + usize::from(hidden > 0),
                        false => table.scroll.saturating_sub(1),
                    };
                }
            }
        }
    }

    /// Looks closer at the row of the cursor: into its tree, or at its Transactions.
    pub(super) fn open_row(&mut self) {
        match self.view.rows() {
            Rows::Transactions | Rows::Frames => self.part = Part::Tree,
            Rows::Table(view, _) => {
                let filter = self.table_row(view).and_then(|row| view.filter(self, row));
                if let Some(filter) = filter {
                    let origin = Origin { view: self.view, filter: self.filter_text(), tables: self.tables };
                    self.show(View::Transactions);
                    self.set_filter(&filter);
                    self.origins.push(origin);
                }
            }
        }
    }

    /// Looks for the next row that has a text.
    pub(super) fn search_rows(&mut self, text: String, is_forward: bool) {
        match self.view.rows() {
            Rows::Transactions => self.hunt(Target::Text(text), is_forward),
            Rows::Frames => self.search_packets(&text, is_forward),
            Rows::Table(view, _) => {
                let has_text = |app: &Self, row| crate::tui::search::contains(&view.text(app, row), &text);
                self.search_table(view, is_forward, &has_text, &format!("no row has {text:?}"));
            }
        }
    }

    /// Goes to the next row that is marked.
    pub(super) fn next_mark(&mut self) {
        const NONE: &str = "nothing is marked here; m marks";
        match self.view.rows() {
            Rows::Transactions => self.hunt(Target::Marked, true),
            Rows::Frames => {
                let frames: Vec<u64> = self
                    .marks
                    .iter()
                    .filter_map(|mark| if let Mark::Frame(frame) = mark { Some(*frame) } else { None })
                    .collect();
                let next = frames.iter().find(|frame| **frame > self.packets.at).or(frames.first());
                match next {
                    Some(frame) => self.go_to_frame(*frame),
                    None => self.complain(NONE),
                }
            }
            Rows::Table(view, _) => {
                let is_marked =
                    |app: &Self, row| view.mark(app, row).is_some_and(|mark| app.marks.contains(&mark));
                self.search_table(view, true, &is_marked, NONE);
            }
        }
    }

    fn search_table(
        &mut self,
        view: &dyn TableView,
        is_forward: bool,
        is_it: &dyn Fn(&Self, usize) -> bool,
        missing: &str,
    ) {
        let order = view.order(self);
        let mut hunt = Hunt::new(Target::Marked, is_forward, self.table().at, order.len());
        while hunt.left > 0 {
            if order.get(hunt.next).is_some_and(|row| is_it(self, *row)) {
                if let Some(table) = self.table_mut() {
                    table.at = hunt.next;
                }
                if hunt.has_wrapped {
                    self.tell(format!("going on from the {}", if is_forward { "first" } else { "last" }));
                }
                return;
            }
            hunt.step();
        }
        self.complain(missing);
    }

    /// The filter for the row of the cursor.
    pub(super) fn row_filter(&self) -> Result<String, &'static str> {
        match self.view.rows() {
            Rows::Transactions => {
                let (xid, connection) = (self.filter_for_xid()?, self.filter_for_connection()?);
                Ok(format!("{xid} && {connection}"))
            }
            Rows::Frames => Ok(format!("frame.number == {}", self.packets.at)),
            Rows::Table(view, _) => {
                self.table_row(view).and_then(|row| view.filter(self, row)).ok_or(NOTHING)
            }
        }
    }

    /// The text of the row of the cursor, as it is copied.
    pub(super) fn row_value(&self) -> Option<String> {
        match self.view.rows() {
            Rows::Transactions => self.entry().map(|entry| entry.label().to_owned()),
            Rows::Frames => self.packet_text().or(Some(self.packets.at.to_string())),
            Rows::Table(view, _) => view.value(self, self.table_row(view)?),
        }
    }

    /// Marks the row of the cursor, or takes the mark away, and goes to the next.
    pub(super) fn mark_row(&mut self) {
        let mark = match self.view.rows() {
            Rows::Transactions => self.entry().map(|entry| Mark::Transaction(entry.row.index)),
            Rows::Frames => (self.packets.at > 0).then_some(Mark::Frame(self.packets.at)),
            Rows::Table(view, _) => self.table_row(view).and_then(|row| view.mark(self, row)),
        };
        let Some(mark) = mark else { return };
        if !self.marks.remove(&mark) {
            self.marks.insert(mark);
        }
        self.move_rows(1);
    }

    /// The Transactions that are marked.
    pub(super) fn marked_transactions(&self) -> std::collections::BTreeSet<u64> {
        let number = |mark: &Mark| if let Mark::Transaction(index) = mark { Some(*index) } else { None };
        self.marks.iter().filter_map(number).collect()
    }

    /// Whether a Transaction is marked.
    pub(in crate::tui) fn is_marked(&self, entry: &Entry<'_>) -> bool {
        self.marks.contains(&Mark::Transaction(entry.row.index))
    }

    /// Sorts by a column some steps beside the present one.
    pub(super) fn sort_rows(&mut self, step: isize) {
        match self.view.rows() {
            Rows::Transactions => {
                let width = usize::from(self.areas.list.width);
                let shown: Vec<_> =
                    self.layout(width).columns.into_iter().map(|(column, _)| column).collect();
                let rows = self.chosen.as_ref().map_or(&self.all.rows, |side| &side.rows);
                self.list.sort_beside(step, &shown, rows);
            }
            Rows::Frames => self.sort_packets(self.packets.sort.beside(step)),
            Rows::Table(view, _) => {
                let count = view.columns().len() as isize;
                if let Some(table) = self.table_mut()
                    && count > 0
                {
                    table.sort = (table.sort as isize + step).rem_euclid(count) as usize;
                }
            }
        }
    }

    /// Sorts by the heading that was clicked, and the other way round where it is sorted by that already.
    pub(super) fn sort_by_heading(&mut self, number: usize) {
        match self.view.rows() {
            Rows::Transactions => {}
            Rows::Frames => {
                let Some(by) = FrameColumn::ALL.get(number).copied() else { return };
                match by == self.packets.sort.by {
                    true => self.reverse_rows(),
                    false => self.sort_packets(FrameSort::by(by)),
                }
            }
            Rows::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.is_reversed = table.sort == number && !table.is_reversed;
                    table.sort = number;
                }
            }
        }
    }

    /// Sorts the other way round.
    pub(super) fn reverse_rows(&mut self) {
        match self.view.rows() {
            Rows::Transactions => {
                let rows = self.chosen.as_ref().map_or(&self.all.rows, |side| &side.rows);
                self.list.reverse(rows);
            }
            Rows::Frames => {
                let FrameSort { by, is_descending } = self.packets.sort;
                self.sort_packets(FrameSort { by, is_descending: !is_descending });
            }
            Rows::Table(..) => {
                if let Some(table) = self.table_mut() {
                    table.is_reversed = !table.is_reversed;
                }
            }
        }
    }
}
