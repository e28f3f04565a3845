//! The current filter, and filters for the selection. Every key that filters, follows or copies a filter uses them.

use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_dissectors::field_names;

use super::application_state::{App, FocusPane, NOTHING_CHOSEN, TableViewState};
use super::read_pass_results::ReadPassResults;
use crate::tui::prompt::PromptPurpose;

impl App {
    /// Returns the filter for the value under the cursor: of a field of the tree, or of the row of a table.
    pub(super) fn filter_for_value(&self) -> Result<String, &'static str> {
        if self.view.has_tree() && self.focus != FocusPane::List {
            let line = self.tree.chosen().ok_or(NOTHING_CHOSEN)?;
            let field = line.field.ok_or("not a field; select one in the tree")?;
            let filter = match &line.literal {
                Some(value) => format!("{} == {value}", field.name),
                None => field.name.to_owned(),
            };
            return Filter::parse(&filter).map(|_| filter).map_err(|_| "this field cannot be filtered");
        }
        self.row_filter()
    }

    /// Returns the filter for the connection of the chosen Transaction.
    pub(super) fn filter_for_connection(&self) -> Result<String, &'static str> {
        let entry = self.entry().ok_or(NOTHING_CHOSEN)?;
        Ok(format!("{} == {}", GeneratedField::Connection, entry.row.connection))
    }

    /// Returns the filter for its XID.
    pub(super) fn filter_for_xid(&self) -> Result<String, &'static str> {
        let entry = self.entry().ok_or(NOTHING_CHOSEN)?;
        Ok(format!("{} == {}", GeneratedField::Xid, entry.row.xid))
    }

    /// Returns the filter for its file. It uses the filehandle, which does not change when the file is renamed.
    pub(super) fn filter_for_file(&self) -> Result<String, &'static str> {
        let value = self.tree.literal(field_names::NFS_FHANDLE).ok_or("the selected transaction has no file")?;
        Ok(format!("{} == {value}", field_names::NFS_FHANDLE))
    }

    /// Returns the filter for its session and slot.
    pub(super) fn filter_for_slot(&self) -> Result<String, &'static str> {
        let value = |name| self.tree.literal(name);
        let (Some(session), Some(slot)) = (value(field_names::NFS_SESSION_ID4), value(field_names::NFS_SLOTID)) else {
            return Err("the selected transaction has no session (NFSv4.1 and later)");
        };
        Ok(format!("{} == {session} && {} == {slot}", field_names::NFS_SESSION_ID4, field_names::NFS_SLOTID))
    }

    /// Sets a filter.
    pub(super) fn set_filter(&mut self, text: &str) {
        match Filter::parse(text) {
            Ok(filter) => {
                let filter = Some((filter, text.to_owned()));
                self.filtered =
                    Some(ReadPassResults::start(&self.capture, filter, &self.pass_settings, Some(&self.unfiltered)));
                let rows = self.filtered.as_mut().map(|pass| &mut pass.rows);
                self.shares.apply_limits(&mut self.unfiltered.rows, rows);
                self.reset_rows();
            }
            Err(error) => {
                self.show_error(error.to_string());
                self.open_prompt(PromptPurpose::Filter, text);
            }
        }
    }

    /// Returns the text of the current filter.
    pub(super) fn filter_text(&self) -> Option<String> {
        self.filtered.as_ref().and_then(|side| side.filter.as_ref()).map(|(_, text)| text.clone())
    }

    /// Removes the filter. The cursor stays on its Transaction.
    pub(super) fn remove_filter(&mut self) {
        let index = self.entry().map(|entry| entry.row.index);
        if self.filtered.take().is_some() {
            self.shares.apply_limits(&mut self.unfiltered.rows, None);
            self.reset_rows();
            if let (Some(index), None) = (index, self.list.sort) {
                // The cursor of the list moves, whatever view is shown.
                let view = self.view;
                self.go_to(&format!("#{index}"));
                (self.view, self.message) = (view, None);
            }
        }
    }

    fn reset_rows(&mut self) {
        self.tables = self.tables.map(|table| TableViewState { at: 0, top: 0, ..table });
        self.search = None;
        self.clear_row_rates();
        let (list, rows) = self.list_and_rows();
        list.reset(rows);
    }
}
