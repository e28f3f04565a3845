//! Lines of the values of fields, as tshark writes them: `-T fields`, `-T csv`, and `-T json` with `-e`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::LazyLock;

use nfsrdma_dissectors::flow::Flow;
use nfsrdma_dissectors::frame::{Frame, Timestamp};
use serde::Serializer;

use crate::escape;
use crate::filter::catalog::FilterType;
use crate::filter::{FilterColumn, FilterRunner, PlainValue};

use super::all_fields::FrameFieldValues;
use super::settings::LineView;
use super::units::{CalendarTime, LongDate};

/// Numbers that Wireshark shows in hexadecimal, with how many digits.
static HEXADECIMAL: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let lines = include_str!("fields/hexadecimal.txt").lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, digits)| Some((name, digits.parse().ok()?)))
        .collect()
});

/// The fields of a line of CSV where none is named.
pub const fn columns_of(view: LineView) -> &'static [&'static str] {
    match view {
        LineView::Transactions => &[
            "nfsrdma.index",
            "nfsrdma.connection",
            "nfsrdma.call.time_epoch",
            "nfsrdma.client",
            "nfsrdma.server",
            "nfsrdma.vlan_id",
            "nfsrdma.vni",
            "nfsrdma.direction",
            "nfsrdma.xid",
            "nfsrdma.program",
            "nfsrdma.version",
            "nfsrdma.operation",
            "nfsrdma.status",
            "nfsrdma.latency",
            "nfsrdma.complete",
        ],
        LineView::Frames => &[
            "frame.number",
            "frame.time_epoch",
            "frame.len",
            "frame.protocols",
            "nfsrdma.xid",
            "nfsrdma.operation",
        ],
        // Their columns are counts, and no fields.
        LineView::Operations | LineView::Connections => &[],
    }
}

/// Which values of a field are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occurrence {
    /// The first.
    First,
    /// The last.
    Last,
    /// All.
    #[default]
    All,
}

/// How a line is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLineFormat {
    /// Values between separators.
    Plain {
        /// Between fields.
        separator: char,
        /// Around the values of a field that has any.
        quote: Option<char>,
    },
    /// RFC 4180: commas, and double quotes where they are needed.
    Csv,
    /// An object of lists of texts.
    Json,
}

/// Writes lines of fields.
#[derive(Debug)]
pub struct FieldLines {
    /// What is shown.
    pub columns: Vec<FilterColumn>,
    /// How a line is put together.
    pub form: FieldLineFormat,
    /// Whether the names come first; not in JSON, where they stand in every line.
    pub header: bool,
    /// Which values are written.
    pub occurrence: Occurrence,
    /// Between the values of one field.
    pub aggregator: char,
    whole: Option<Box<FrameFieldValues>>,
}

impl FieldLines {
    /// Lines of no fields yet.
    pub fn new(form: FieldLineFormat) -> Self {
        Self {
            columns: Vec::new(),
            form,
            header: form == FieldLineFormat::Csv,
            occurrence: Occurrence::All,
            aggregator: ',',
            whole: None,
        }
    }

    /// The same in JSON, where the line of a frame has everything that the frame has behind the columns.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = Some(Box::default());
        self
    }
}

impl FieldLines {
    /// Writes the values of what a selection judged last; before the first line the names, if they are wanted.
    pub(super) fn line(&mut self, to: &mut impl Write, selection: &FilterRunner) -> io::Result<()> {
        self.line_of(to, selection, None)
    }

    /// The same of a frame, with everything that it has where that is wanted.
    pub(super) fn frame(
        &mut self,
        to: &mut impl Write,
        selection: &FilterRunner,
        frame: &Frame<'_>,
        flow: &Flow,
    ) -> io::Result<()> {
        let Some(mut whole) = self.whole.take() else { return self.line(to, selection) };
        whole.take(frame, flow);
        let written = self.line_of(to, selection, Some(&whole));
        self.whole = Some(whole);
        written
    }

    fn line_of(
        &mut self,
        to: &mut impl Write,
        selection: &FilterRunner,
        whole: Option<&FrameFieldValues>,
    ) -> io::Result<()> {
        if std::mem::take(&mut self.header) && self.form != FieldLineFormat::Json {
            let names: Vec<_> = self.columns.iter().map(|column| Some(column.name.to_owned())).collect();
            // As in tshark, names have no quotes.
            self.cells(to, &names, true)?;
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut members = Vec::new();
        for column in &self.columns {
            let mut values = selection.shown(column);
            let values: Vec<String> = match self.occurrence {
                Occurrence::First => values
                    .next()
                    .into_iter()
                    .map(|value| text((column.name, column.kind), value.plain()))
                    .collect(),
                Occurrence::Last => values
                    .last()
                    .into_iter()
                    .map(|value| text((column.name, column.kind), value.plain()))
                    .collect(),
                Occurrence::All => {
                    values.map(|value| text((column.name, column.kind), value.plain())).collect()
                }
            };
            if self.form == FieldLineFormat::Json {
                members.push((column.name, values));
            } else {
                let between = self.aggregator.to_string();
                cells.push((!values.is_empty()).then(|| values.join(&between)));
            }
        }
        if self.form != FieldLineFormat::Json {
            return self.cells(to, &cells, false);
        }
        let is_named = |name: &str| self.columns.iter().any(|column| column.name == name);
        let whole = whole.into_iter().flat_map(FrameFieldValues::members);
        let others = whole.filter(|(name, _)| !is_named(name));
        // In the order in which they were named.
        let members = members.iter().map(|(name, values)| (*name, values.as_slice())).chain(others);
        let members = members.filter(|(_, values)| !values.is_empty());
        serde_json::Serializer::with_formatter(&mut *to, escape::EscapedJsonFormatter)
            .collect_map(members)?;
        to.write_all(b"\n")
    }

    fn cells(&self, to: &mut impl Write, cells: &[Option<String>], is_header: bool) -> io::Result<()> {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let text = cell.as_deref().unwrap_or_default();
            match self.form {
                FieldLineFormat::Plain { separator, quote } => {
                    line.extend((at > 0).then_some(separator));
                    let quote = quote.filter(|_| cell.is_some() && !is_header);
                    line.extend(quote);
                    line.push_str(text);
                    line.extend(quote);
                }
                FieldLineFormat::Csv | FieldLineFormat::Json => {
                    line.extend((at > 0).then_some(','));
                    quoted(&escape::formula(text), &mut line);
                }
            }
        }
        line.push('\n');
        to.write_all(line.as_bytes())
    }
}

/// Writes a value of a line of CSV, in double quotes where it needs them (RFC 4180 section 2).
pub(super) fn quoted(text: &str, line: &mut String) {
    if text.contains(['"', ',', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

/// A value as tshark 4.0 writes it; times are in UTC.
pub(super) fn text((name, kind): (&str, FilterType), value: PlainValue<'_>) -> String {
    let mut text = String::new();
    // A text takes all that is written.
    let _ = match value {
        PlainValue::Number(number) => match HEXADECIMAL.get(name) {
            Some(digits) if number >= 0 => write!(text, "0x{number:0digits$x}"),
            _ => write!(text, "{number}"),
        },
        PlainValue::Bool(value) => write!(text, "{}", u8::from(value)),
        PlainValue::Bytes(bytes) => {
            if HEXADECIMAL.contains_key(name) {
                text.push_str("0x");
            }
            let colon = if kind == FilterType::Ethernet { ":" } else { "" };
            bytes
                .iter()
                .enumerate()
                .try_for_each(|(at, byte)| write!(text, "{}{byte:02x}", if at > 0 { colon } else { "" }))
        }
        PlainValue::Text(bytes) => {
            String::from_utf8_lossy(bytes).chars().try_for_each(|letter| escape::letter(letter, &mut text))
        }
        PlainValue::Ipv4(address) => write!(text, "{address}"),
        PlainValue::Ipv6(address) => write!(text, "{address}"),
        PlainValue::Time(time) => {
            write!(text, "{}", LongDate(CalendarTime::of(Timestamp(i64::try_from(time).unwrap_or(i64::MAX)))))
        }
        PlainValue::Duration(duration) => {
            let sign = if duration < 0 { "-" } else { "" };
            let duration = duration.unsigned_abs();
            write!(text, "{sign}{}.{:09}", duration / 1_000_000_000, duration % 1_000_000_000)
        }
        // A protocol or a structure is shown by its name, and of data that was not kept nothing is known.
        PlainValue::Unknown if matches!(kind, FilterType::Protocol | FilterType::Structure) => {
            write!(text, "{name}")
        }
        PlainValue::Unknown => Ok(()),
    };
    text
}
