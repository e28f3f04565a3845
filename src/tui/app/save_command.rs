//! Saving of the marked or chosen rows of the view, or of the displayed Transactions.

use std::path::PathBuf;

use super::application_state::App;
use crate::tui::frame_reload::reload_messages::FrameReloadRequest;
use crate::tui::save::{SaveRequest, SaveSelection};

impl App {
    /// Saves to the path that was entered. The suffix `all` selects every displayed Transaction, and `control` adds the
    /// control frames of their connections.
    pub(super) fn save_to(&mut self, text: &str) {
        let (mut path, mut is_all, mut has_control) = (text.trim(), false, false);
        loop {
            if let Some(stem) = path.strip_suffix(" all") {
                (path, is_all) = (stem.trim(), true);
            } else if let Some(stem) = path.strip_suffix(" control") {
                (path, has_control) = (stem.trim(), true);
            } else {
                break;
            }
        }
        if path.is_empty() {
            return;
        }
        let selection = match if is_all { Ok(self.displayed_selection()) } else { self.row_selection() } {
            Ok(SaveSelection::Frames(_)) if has_control => {
                return self.show_error("control applies to transactions; mark the frames to save");
            }
            Ok(selection) => selection,
            Err(problem) => return self.show_error(problem),
        };
        self.show_message(format!("saving to {path} {}", self.tui_glyphs.glyphs.cut));
        self.reload_client.request(FrameReloadRequest::Save(SaveRequest {
            to: PathBuf::from(path),
            selection,
            has_control_frames: has_control,
        }));
    }

    /// Returns the selection of all displayed Transactions.
    fn displayed_selection(&self) -> SaveSelection {
        match self.displayed_pass().filter.as_ref() {
            // Frames received once are found by their rows.
            Some(_) if self.capture.is_received_once() => SaveSelection::for_rows(self.rows().entries()),
            filter => SaveSelection::Selected(filter.map(|(filter, _)| filter.clone())),
        }
    }
}
