//! State of the compilation of a filter: its text, its fields, and errors at places in the text.

use crate::filter::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry, FilterFieldSource};
use crate::filter::error::{FilterError, proposal};
use crate::filter::possible_generated_values;
use crate::filter::referenced_filter_field::ReferencedFilterField;
use crate::filter::syntax::{FilterSpan, Operand, OperandForm};

pub(super) struct FilterCompiler<'c> {
    pub(super) text: &'c str,
    pub(super) catalog: &'c FilterFieldCatalog,
    pub(super) fields: Vec<ReferencedFilterField>,
}

pub(super) type FilterCompileResult<T> = Result<T, FilterError>;

impl<'c> FilterCompiler<'c> {
    pub(super) fn error(&self, span: FilterSpan, message: impl Into<String>) -> FilterError {
        FilterError::new(self.text, span.at, message)
    }

    pub(super) fn source_text(&self, span: FilterSpan) -> &'c str {
        self.text.get(span.at..span.end).unwrap_or_default()
    }

    pub(super) fn no_field(&self, span: FilterSpan) -> FilterError {
        self.error(span, format!("{} has no field in it", self.source_text(span)))
    }

    pub(super) fn unknown_field(&self, name: &str, span: FilterSpan) -> FilterError {
        let message = format!("unknown field {name}{}", proposal(&self.catalog.nearest(name)));
        self.error(span, message)
    }

    pub(super) fn field_of(&self, operand: &Operand<'_>) -> Option<&'c FilterFieldCatalogEntry> {
        match &operand.form {
            OperandForm::Word(word) => self.catalog.get(word.strip_prefix('.').unwrap_or(word)),
            _ => None,
        }
    }

    /// Returns the words that a field can have as values; `None` for other values.
    pub(super) fn possible_words(&self, field: &FilterFieldCatalogEntry) -> Option<Vec<String>> {
        match &field.origin {
            FilterFieldSource::Generated(field) => possible_generated_values::possible_values(*field, self.catalog),
            _ => None,
        }
    }
}
