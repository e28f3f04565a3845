//! Lines of field values in tshark's formats: `-T fields`, `-T csv`, and `-T json` with `-e`.

use std::io::{self, Write};

use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_analysis::filter::{FilterRunner, OutputColumnField};
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_flow::Flow;
use serde::Serializer;

use super::all_frame_fields::FrameFieldValues;
use super::settings::OutputLineUnit;
use super::tshark_field_value::format_value;
use super::units::IsoTimestamp;
use crate::escape;

/// Time of a frame, and the key of the same time in ISO 8601.
const TIME_FIELD: &str = GeneratedField::TimeEpoch.name();
const ISO_TIME_KEY: &str = "frame.time_iso";

/// Returns the default columns of CSV.
pub const fn columns_of(view: OutputLineUnit) -> &'static [GeneratedField] {
    match view {
        OutputLineUnit::Transactions => &[
            GeneratedField::Index,
            GeneratedField::Connection,
            GeneratedField::CallTime,
            GeneratedField::Client,
            GeneratedField::Server,
            GeneratedField::VlanId,
            GeneratedField::Vni,
            GeneratedField::Direction,
            GeneratedField::Xid,
            GeneratedField::Program,
            GeneratedField::Version,
            GeneratedField::Operation,
            GeneratedField::Status,
            GeneratedField::Latency,
            GeneratedField::Complete,
        ],
        OutputLineUnit::Frames => &[
            GeneratedField::Number,
            GeneratedField::TimeEpoch,
            GeneratedField::Length,
            GeneratedField::Protocols,
            GeneratedField::Xid,
            GeneratedField::Operation,
        ],
        // The columns of these views are counts, not fields.
        OutputLineUnit::Operations | OutputLineUnit::Connections => &[],
    }
}

/// Values of a field to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOccurrenceSelection {
    /// First value.
    First,
    /// Last value.
    Last,
    /// All values.
    #[default]
    All,
}

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedFieldsLineFormat {
    /// Values between separators.
    Plain {
        /// Separator of fields.
        separator: char,
        /// Quote around the values of a field, if it has any.
        quote: Option<char>,
    },
    /// RFC 4180: commas, and double quotes if needed.
    Csv,
    /// JSON object of lists of strings.
    Json,
}

/// Writer of lines of fields.
#[derive(Debug)]
pub struct TsharkFieldsWriter {
    /// Columns to write.
    pub columns: Vec<OutputColumnField>,
    /// Format of a line.
    pub form: SelectedFieldsLineFormat,
    /// `true` to write a header line first; JSON has none, because each line has the names.
    pub header: bool,
    /// Values of a field to write.
    pub occurrence: FieldOccurrenceSelection,
    /// Separator of the values of one field.
    pub aggregator: char,
    all_fields: Option<Box<FrameFieldValues>>,
    /// `true` to add the time of a whole frame in ISO 8601.
    has_iso: bool,
}

impl TsharkFieldsWriter {
    /// Creates a writer without columns.
    pub fn new(format: SelectedFieldsLineFormat) -> Self {
        Self {
            columns: Vec::new(),
            form: format,
            header: format == SelectedFieldsLineFormat::Csv,
            occurrence: FieldOccurrenceSelection::All,
            aggregator: ',',
            all_fields: None,
            has_iso: false,
        }
    }

    /// Adds to the JSON line of a frame all its fields after the columns.
    #[must_use]
    pub fn with_all_fields(mut self) -> Self {
        self.all_fields = Some(Box::default());
        self
    }

    /// Adds to the JSON line of a whole frame its time in ISO 8601.
    #[must_use]
    pub fn with_iso_time(mut self) -> Self {
        self.has_iso = true;
        self
    }
}

impl TsharkFieldsWriter {
    /// Writes the values that a selection evaluated last, and before the first line the header if selected.
    pub(super) fn line(&mut self, to: &mut impl Write, selection: &FilterRunner) -> io::Result<()> {
        self.write_line(to, selection, None)
    }

    /// Writes the values of a frame, with all its fields if selected.
    pub(super) fn frame(
        &mut self,
        to: &mut impl Write,
        selection: &FilterRunner,
        frame: &Frame<'_>,
        flow: &Flow,
    ) -> io::Result<()> {
        let Some(mut all_fields) = self.all_fields.take() else { return self.line(to, selection) };
        all_fields.replace_with(frame, flow);
        let iso = self.has_iso.then(|| IsoTimestamp(frame.time).to_string());
        let result = self.write_line(to, selection, Some((&all_fields, iso)));
        self.all_fields = Some(all_fields);
        result
    }

    fn write_line(
        &mut self,
        to: &mut impl Write,
        selection: &FilterRunner,
        all_fields: Option<(&FrameFieldValues, Option<String>)>,
    ) -> io::Result<()> {
        let (all_fields, mut iso) = all_fields.map_or((None, None), |(all_fields, iso)| (Some(all_fields), iso));
        if std::mem::take(&mut self.header) && self.form != SelectedFieldsLineFormat::Json {
            let names: Vec<_> = self.columns.iter().map(|column| Some(column.name.to_owned())).collect();
            // As in tshark, names have no quotes.
            self.cells(to, &names, true)?;
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut members = Vec::new();
        for column in &self.columns {
            let mut values = selection.shown(column);
            let values: Vec<String> = match self.occurrence {
                FieldOccurrenceSelection::First => {
                    values.next().into_iter().map(|value| format_value((column.name, column.kind), value)).collect()
                }
                FieldOccurrenceSelection::Last => {
                    values.last().into_iter().map(|value| format_value((column.name, column.kind), value)).collect()
                }
                FieldOccurrenceSelection::All => {
                    values.map(|value| format_value((column.name, column.kind), value)).collect()
                }
            };
            if self.form == SelectedFieldsLineFormat::Json {
                members.push((column.name, values));
                if column.name == TIME_FIELD
                    && let Some(iso) = iso.take()
                {
                    members.push((ISO_TIME_KEY, vec![iso]));
                }
            } else {
                let separator = self.aggregator.to_string();
                cells.push((!values.is_empty()).then(|| values.join(&separator)));
            }
        }
        if self.form != SelectedFieldsLineFormat::Json {
            return self.cells(to, &cells, false);
        }
        let is_named = |name: &str| self.columns.iter().any(|column| column.name == name);
        let all_members = all_fields.into_iter().flat_map(FrameFieldValues::members);
        let other_members = all_members.filter(|(name, _)| !is_named(name));
        // In the order of the columns.
        let members = members.iter().map(|(name, values)| (*name, values.as_slice())).chain(other_members);
        let members = members.filter(|(_, values)| !values.is_empty());
        serde_json::Serializer::with_formatter(&mut *to, escape::EscapedJsonFormatter).collect_map(members)?;
        to.write_all(b"\n")
    }

    fn cells(&self, to: &mut impl Write, cells: &[Option<String>], is_header: bool) -> io::Result<()> {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let text = cell.as_deref().unwrap_or_default();
            match self.form {
                SelectedFieldsLineFormat::Plain { separator, quote } => {
                    line.extend((at > 0).then_some(separator));
                    let quote = quote.filter(|_| cell.is_some() && !is_header);
                    line.extend(quote);
                    line.push_str(text);
                    line.extend(quote);
                }
                SelectedFieldsLineFormat::Csv | SelectedFieldsLineFormat::Json => {
                    line.extend((at > 0).then_some(','));
                    push_csv_cell(&escape::escape_formula(text), &mut line);
                }
            }
        }
        line.push('\n');
        to.write_all(line.as_bytes())
    }
}

/// Appends a CSV cell, in double quotes if needed (RFC 4180 section 2).
pub(super) fn push_csv_cell(text: &str, line: &mut String) {
    if text.contains(['"', ',', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
