//! Display filters in Wireshark's language, over the fields that the protocols describe.
//!
//! A filter is compiled in three steps: [`token`] splits the text, [`syntax`] parses it, and [`compile`] generates a
//! [`compiled_program`] over its fields. The [`catalog`] has all fields, of which [`derived_fields`] are in no
//! structure, and [`possible_generated_values`] their possible values; [`mask_bit_boolean_fields`] and
//! [`procedure_fields`] are derived from masks and tables.
//!
//! At run time, [`required_layers`] selects the layers to decode, [`extractor`] observes the decoders for the used
//! fields, [`transaction_fields`] adds values beyond the bytes, and [`runner`] selects frames or Transactions.

pub mod catalog;
pub mod derived_fields;

mod cache_by_description_address;
mod compile;
mod compiled_program;
pub(crate) mod error;
mod extractor;
mod literal;
mod mask_bit_boolean_fields;
mod output_field_extraction;
mod possible_generated_values;
mod procedure_fields;
mod required_layers;
mod runner;
mod syntax;
mod token;
mod transaction_fields;
mod value;

pub use error::FilterError;
pub use error::proposal;
pub use literal::quoted;
pub use output_field_extraction::{OutputColumnField, OutputFieldValue};
pub use runner::{FilterRunner, SelectedFrameTally};

use catalog::{FilterFieldCatalog, FilterFieldSource};
use compile::{FilterCompiler, ReferencedFilterField};
use compiled_program::CompiledFilterNode;
use derived_fields::GeneratedField;

/// A compiled display filter.
#[derive(Clone, Debug)]
pub struct Filter {
    program: CompiledFilterNode,
    fields: Vec<ReferencedFilterField>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Returns an error with its column.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let test = syntax::parse(text)?;
        let mut compiler = FilterCompiler::new(text, FilterFieldCatalog::shared());
        let program = compiler.test(&test)?;
        Ok(Self { program, fields: compiler.fields })
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

#[cfg(test)]
mod tests;
