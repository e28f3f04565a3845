//! Saving of the marked, chosen or displayed Transactions.

use std::path::PathBuf;

use crate::tui::reload::ReloadRequest;
use crate::tui::save::{SaveRequest, SaveSelection};

use super::App;

impl App {
    /// Saves to the path that was entered. The suffix `all` selects every displayed Transaction, and `control` adds the
    /// control frames of their connections.
    pub(super) fn save_to(&mut self, text: &str) {
        let (mut path, mut is_all, mut has_control) = (text.trim(), false, false);
        loop {
            if let Some(before) = path.strip_suffix(" all") {
                (path, is_all) = (before.trim(), true);
            } else if let Some(before) = path.strip_suffix(" control") {
                (path, has_control) = (before.trim(), true);
            } else {
                break;
            }
        }
        if path.is_empty() {
            return;
        }
        let Some(what) = self.save_selection(is_all) else { return self.show_error("nothing is chosen") };
        self.show_message(format!("saving to {path} {}", self.tui_glyphs.glyphs.cut));
        self.reload_client.request(ReloadRequest::Save(SaveRequest {
            to: PathBuf::from(path),
            selection: what,
            has_control_frames: has_control,
        }));
    }

    /// Returns the selection to save: all displayed Transactions, the marked ones, or the one at the cursor.
    fn save_selection(&self, is_all: bool) -> Option<SaveSelection> {
        let is_once = self.capture.is_received_once();
        let marked = self.marked_transactions();
        let filter = self.displayed_pass().filter.as_ref().map(|(filter, _)| filter);
        Some(match is_all {
            // Frames received once are found by their rows.
            true if is_once && filter.is_some() => SaveSelection::for_rows(self.rows().entries()),
            true => SaveSelection::Selected(filter.cloned()),
            false if marked.is_empty() && is_once => SaveSelection::for_rows(self.entry().into_iter()),
            false if marked.is_empty() => {
                SaveSelection::Numbers([self.entry()?.row.index].into_iter().collect())
            }
            false if is_once => SaveSelection::for_rows(
                self.unfiltered.rows.entries().filter(|entry| marked.contains(&entry.row.index)),
            ),
            false => SaveSelection::Numbers(marked),
        })
    }
}
