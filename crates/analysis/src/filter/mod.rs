//! Display filters in Wireshark's language, over the fields that the protocols describe.
//!
//! A filter is compiled in three steps: [`token`] splits the text, [`syntax`] parses it, and [`compile`] generates a
//! [`compiled_program`] over its fields: a [`compiled_filter`]. The [`catalog`] has all fields, of which
//! [`derived_fields`] are in no structure, and [`possible_generated_values`] their possible values;
//! [`mask_bit_boolean_fields`] and [`procedure_number_fields`] are derived from masks and tables.
//!
//! At run time, [`required_layers`] selects the layers to decode, [`extractor`] observes the decoders for the used
//! fields, [`transaction_fields`] adds values beyond the bytes, and [`runner`] selects frames or Transactions.

pub mod catalog;
pub mod derived_fields;

mod cache_by_description_address;
mod compile;
mod compiled_filter;
mod compiled_program;
pub(crate) mod error;
mod extractor;
pub(crate) mod filter_type;
mod literal;
mod mask_bit_boolean_fields;
mod output_field_extraction;
mod possible_generated_values;
pub mod procedure_number_fields;
mod referenced_filter_field;
mod required_layers;
pub(crate) mod runner;
mod syntax;
mod token;
mod transaction_fields;
mod value;

pub use compiled_filter::Filter;
pub use error::FilterError;
pub use error::proposal;
pub use literal::quoted;
pub use output_field_extraction::{OutputColumnField, OutputFieldValue};
pub use runner::{FilterRunner, SelectedFrameTally};

#[cfg(test)]
mod tests;
