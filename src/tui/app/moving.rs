//! Moving about, and looking for rows.

use std::time::{Duration, Instant};

use crate::tui::model::Entry;
use crate::tui::search::{self, Hunt, Target};

use super::view_rows::Rows;
use super::{App, Part, Table, View};

/// How long rows are looked at before keys are heard again.
const STRETCH: Duration = Duration::from_millis(8);
/// How many times the median of its operation makes a Transaction slow.
const SLOW: u64 = 4;

/// What is told while what is looked for may still come.
const LOOKING_ON: &str = "looking on in what is being read; Esc stops";

impl App {
    /// Where the table of the view stands.
    pub(in crate::tui) fn table(&self) -> Table {
        self.table_number().and_then(|number| self.tables.get(number)).copied().unwrap_or_default()
    }

    pub(in crate::tui) fn table_mut(&mut self) -> Option<&mut Table> {
        let number = self.table_number()?;
        self.tables.get_mut(number)
    }

    fn table_number(&self) -> Option<usize> {
        match self.view.rows() {
            Rows::Table(_, number) => Some(number),
            Rows::Transactions | Rows::Frames => None,
        }
    }

    /// Whether the waterfall stands in the place of the tree.
    pub(in crate::tui) fn shows_waterfall(&self) -> bool {
        self.has_waterfall && self.view == View::Transactions
    }

    /// Moves by some lines, in the part of the screen where keys act.
    pub(super) fn move_by(&mut self, by: isize) {
        match self.part {
            Part::List => self.move_rows(by),
            Part::Tree if self.shows_waterfall() => self.tree.step_bar(by),
            Part::Tree => self.tree.step(by),
            Part::Bytes => {
                let top = self.tree.bytes_top.unwrap_or(0).saturating_add_signed(by);
                self.tree.bytes_top = Some(top.min(1 << 24));
            }
        }
    }

    /// Moves by pages of the part of the screen where keys act.
    pub(super) fn move_pages(&mut self, by: isize) {
        let area = match self.part {
            Part::List => self.areas.list,
            Part::Tree => self.areas.tree,
            Part::Bytes => self.areas.bytes,
        };
        let lines = isize::try_from(area.height.max(2)).unwrap_or(2) - 1;
        self.move_by(by * lines);
    }

    /// To the left or to the right.
    pub(super) fn sideways(&mut self, is_right: bool) {
        match self.part {
            Part::Tree if self.view.has_tree() => self.tree.turn(is_right),
            Part::List => self.scroll_columns(is_right),
            Part::Tree | Part::Bytes => {}
        }
    }

    /// To the next part of the screen that there is.
    pub(super) fn next_part(&mut self, steps: usize) {
        if !self.view.has_tree() {
            return;
        }
        let mut parts = vec![Part::List, Part::Tree];
        if self.areas.bytes.height > 0 {
            parts.push(Part::Bytes);
        }
        let at = parts.iter().position(|part| *part == self.part).unwrap_or(0);
        // Two steps forward are one back where there are three, and as good as one where there are two.
        let steps = if parts.len() == 2 { 1 } else { steps };
        self.part = parts.get((at + steps) % parts.len()).copied().unwrap_or_default();
    }

    /// Begins to look for text: in the tree if keys act there, else in the rows.
    pub(super) fn search_for(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.searched = Some(text.to_ascii_lowercase());
        self.search_on(true);
    }

    pub(super) fn search_on(&mut self, is_forward: bool) {
        let Some(text) = self.searched.clone() else {
            return self.complain("nothing was searched for; / searches");
        };
        if self.view.has_tree() && self.part != Part::List {
            self.part = Part::Tree;
            self.has_waterfall = false;
            if !self.tree.find(&text, is_forward) {
                self.complain(Target::Text(text).missing());
            }
        } else {
            self.search_rows(text, is_forward);
        }
    }

    /// Goes where the text says.
    pub(super) fn go_to(&mut self, text: &str) {
        let start = self.all.tables.times.map(|(start, _)| start);
        match search::place(text, start) {
            Ok(target) => self.go_to_place(target),
            Err(text) => self.complain(text),
        }
    }

    /// Begins to look for the next row of a kind.
    pub(super) fn hunt(&mut self, target: Target, is_forward: bool) {
        self.view = View::Transactions;
        let count = self.list.len(self.rows());
        self.hunt = Some(Hunt::new(target, is_forward, self.list.at, count));
        self.list.has_tail = false;
        // What is near is found before the next key.
        self.go_on_hunting();
    }

    /// Looks at some more rows; whether the search ended.
    pub(super) fn go_on_hunting(&mut self) -> bool {
        let Some(mut hunt) = self.hunt.take() else { return false };
        let start = Instant::now();
        let count = self.list.len(self.rows());
        let is_sorted = self.list.sort.is_some();
        // The last rows come together with the news that there are no more.
        if hunt.left == 0 && hunt.is_forward {
            match is_sorted {
                false => hunt.extend(count),
                // New rows are sorted in anywhere.
                true if hunt.is_of_another(count) => hunt = Hunt::from_start(hunt.target, count),
                true => {}
            }
        }
        // What is still being read may have it, and what is not sorted in yet.
        let may_come = hunt.is_forward && (!self.side().progress.is_over || self.list.is_stale(self.rows()));
        while hunt.left > 0 {
            let is_it = self
                .list
                .entry(self.rows(), hunt.next)
                .is_some_and(|entry| self.is_target(&hunt.target, &entry));
            if is_it {
                self.list.at = hunt.next;
                // Something else may have been told since.
                self.message.take_if(|message| message.text == LOOKING_ON);
                // What was far away is shown with what is around it.
                let height = usize::from(self.areas.list.height);
                if !(self.list.top..self.list.top + height).contains(&hunt.next) {
                    self.list.top = hunt.next.saturating_sub(height / 2);
                }
                self.part = Part::List;
                if hunt.has_wrapped {
                    let from = if hunt.is_forward { "first" } else { "last" };
                    self.tell(format!("going on from the {from}"));
                }
                return true;
            }
            hunt.step();
            if hunt.left % 256 == 0 && start.elapsed() > STRETCH {
                self.hunt = Some(hunt);
                return false;
            }
        }
        if may_come {
            let is_news = self.message.is_none();
            if is_news {
                self.tell(LOOKING_ON);
            }
            self.hunt = Some(hunt);
            return is_news;
        }
        let forgotten = match self.rows().forgotten() {
            0 => String::new(),
            count => format!(" among those in memory; {count} are forgotten (--max-memory)"),
        };
        self.complain(hunt.target.missing() + &forgotten);
        true
    }

    fn is_target(&self, target: &Target, entry: &Entry<'_>) -> bool {
        let row = entry.row;
        match target {
            Target::Text(text) => search::has_text(entry, text),
            Target::Incomplete => row.is_incomplete,
            Target::Failed => row.has_failed,
            Target::Slow => self.is_slow(entry),
            Target::Marked => self.is_marked(entry),
            Target::Frame(frame) => (row.first..=row.last).contains(frame),
            Target::Xid(xid) => row.xid == *xid,
            Target::Index(index) => row.index == *index,
            Target::Time(time) => row.time >= *time,
        }
    }

    /// Whether a Transaction took long: by what was asked for, or several times the median of its operation.
    pub(in crate::tui) fn is_slow(&self, entry: &Entry<'_>) -> bool {
        let Some(latency) = entry.row.latency else { return false };
        match self.options.slow {
            Some(slow) => latency >= slow,
            None => {
                let median = self.all.tables.median(entry.name());
                median.is_some_and(|median| latency > median.saturating_mul(SLOW))
            }
        }
    }
}
