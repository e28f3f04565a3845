//! A compiled display filter.

use super::catalog::FilterFieldSource;
use super::compile::compile;
use super::compiled_program::CompiledFilterNode;
use super::derived_fields::GeneratedField;
use super::error::FilterError;
use super::referenced_filter_field::ReferencedFilterField;
use super::syntax::parse;

/// A compiled display filter.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(super) program: CompiledFilterNode,
    pub(super) fields: Vec<ReferencedFilterField>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Returns an error with its column.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let (program, fields) = compile(text, &parse(text)?)?;
        Ok(Self { program, fields })
    }

    /// Returns `true` if the filter uses conformance findings.
    pub fn uses_findings(&self) -> bool {
        let is_finding = |field: &ReferencedFilterField| {
            matches!(
                field.origin,
                FilterFieldSource::Generated(
                    GeneratedField::Finding | GeneratedField::FindingSeverity | GeneratedField::FindingSide
                )
            )
        };
        self.fields.iter().any(is_finding)
    }
}
