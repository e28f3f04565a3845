//! Options `-e` and `-E` of tshark: the fields of a line and their format.

use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::filter::derived_fields::GeneratedField;

use super::option_values::reject_repeated;
use crate::output::fields_format::{self, FieldOccurrenceSelection, SelectedFieldsLineFormat, TsharkFieldsWriter};
use crate::output::settings::{OutputLineFormat, OutputLineUnit};

/// Option of `-E`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TsharkFieldPrintOption {
    Header(bool),
    Separator(char),
    Quote(Option<char>),
    Occurrence(FieldOccurrenceSelection),
    Aggregator(char),
}

/// Parses a character, or tshark's name for one that a shell would interpret: `/t`, `/s`.
fn letter(text: &str) -> Option<char> {
    let mut letters = text.chars();
    match (text, letters.next(), letters.next()) {
        ("/t", ..) => Some('\t'),
        ("/s", ..) => Some(' '),
        (_, Some(character), None) => Some(character),
        _ => None,
    }
}

impl TsharkFieldPrintOption {
    fn name(&self) -> &'static str {
        match self {
            Self::Header(_) => "header",
            Self::Separator(_) => "separator",
            Self::Quote(_) => "quote",
            Self::Occurrence(_) => "occurrence",
            Self::Aggregator(_) => "aggregator",
        }
    }
}

impl FromStr for TsharkFieldPrintOption {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHAT: &str =
            "give header=y|n, separator=/t|/s|CHAR, quote=d|s|n, occurrence=f|l|a or aggregator=,|/s|CHAR";
        let (name, value) = text.split_once('=').ok_or(WHAT)?;
        Ok(match (name, value) {
            ("header", "y") => Self::Header(true),
            ("header", "n") => Self::Header(false),
            ("quote", "d") => Self::Quote(Some('"')),
            ("quote", "s") => Self::Quote(Some('\'')),
            ("quote", "n") => Self::Quote(None),
            ("occurrence", "f") => Self::Occurrence(FieldOccurrenceSelection::First),
            ("occurrence", "l") => Self::Occurrence(FieldOccurrenceSelection::Last),
            ("occurrence", "a") => Self::Occurrence(FieldOccurrenceSelection::All),
            ("separator", value) => Self::Separator(letter(value).ok_or(WHAT)?),
            ("aggregator", value) => Self::Aggregator(letter(value).ok_or(WHAT)?),
            _ => return Err(WHAT),
        })
    }
}

/// Returns the writer of field lines and the filter that collects their values; no writer if the lines are not made of
/// fields.
pub(super) fn lines(
    format: OutputLineFormat,
    view: OutputLineUnit,
    names: &[String],
    layouts: &[TsharkFieldPrintOption],
    filter: Option<Filter>,
) -> Result<(Option<Filter>, Option<TsharkFieldsWriter>)> {
    let is_whole = names.is_empty();
    let names: Vec<String> = match (format, names.is_empty()) {
        (OutputLineFormat::Text, false) => bail!("-e needs -T fields, csv or json"),
        (OutputLineFormat::Fields, true) => {
            bail!("-T fields needs -e FIELD; 'nfsrdma-inspect fields' lists the fields")
        }
        (OutputLineFormat::Text, true) => Vec::new(),
        (OutputLineFormat::Json, true) if view == OutputLineUnit::Transactions => Vec::new(),
        (OutputLineFormat::Json | OutputLineFormat::Csv, true) if view.is_aggregate() => Vec::new(),
        (OutputLineFormat::Json | OutputLineFormat::Csv, true) => default_columns(view),
        (_, false) => names.to_vec(),
    };
    if names.is_empty() {
        if !layouts.is_empty() {
            bail!("-E needs -T fields");
        }
        return Ok((filter, None));
    }
    // A field selected with -e shows all its values, as in tshark; the default table shows one value per cell.
    let is_named = format == OutputLineFormat::Fields || names != default_columns(view);
    let mut lines = TsharkFieldsWriter::new(match format {
        OutputLineFormat::Csv => SelectedFieldsLineFormat::Csv,
        OutputLineFormat::Json => SelectedFieldsLineFormat::Json,
        _ => SelectedFieldsLineFormat::Plain { separator: '\t', quote: None },
    });
    lines.occurrence = if is_named { FieldOccurrenceSelection::All } else { FieldOccurrenceSelection::First };
    if format == OutputLineFormat::Json && is_whole {
        lines = lines.with_all_fields();
    }
    reject_repeated("-E", layouts.iter().map(|layout| layout.name()))?;
    for layout in layouts {
        match (*layout, &mut lines.form) {
            (TsharkFieldPrintOption::Header(header), _) => lines.header = header,
            (TsharkFieldPrintOption::Occurrence(occurrence), _) => lines.occurrence = occurrence,
            (TsharkFieldPrintOption::Aggregator(character), _) => lines.aggregator = character,
            (TsharkFieldPrintOption::Separator(character), SelectedFieldsLineFormat::Plain { separator, .. }) => {
                *separator = character
            }
            (TsharkFieldPrintOption::Quote(character), SelectedFieldsLineFormat::Plain { quote, .. }) => {
                *quote = character
            }
            (TsharkFieldPrintOption::Separator(_) | TsharkFieldPrintOption::Quote(_), _) => {
                bail!("-E separator and quote apply to -T fields only")
            }
        }
    }
    let filter = filter.unwrap_or_else(Filter::accept_all);
    let (filter, columns) = filter.with_columns(&names).map_err(|error| anyhow!("-e: {error}"))?;
    lines.columns = columns;
    Ok((Some(filter), Some(lines)))
}

fn default_columns(view: OutputLineUnit) -> Vec<String> {
    fields_format::columns_of(view).iter().map(GeneratedField::to_string).collect()
}
