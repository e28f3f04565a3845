//! Display filters in Wireshark's language, over the fields that the protocols describe.
//!
//! A filter is read in three steps: [`token`] takes the text apart, [`syntax`] finds what belongs together, and
//! [`compile`] makes of it a [`program`] over the fields that it names. The [`catalog`] knows the fields, of which
//! [`generated_fields`] are those that no structure has, and [`identifiers`] what they may be; [`bits`] and [`procedures`] follow from what
//! masks and tables describe.
//!
//! To run, [`required_layers`] says what must be done for these fields, [`extractor`] listens to the decoders for them alone,
//! [`transaction_fields`] adds what is known beyond the bytes, and [`runner`] tells which frames or Transactions pass.

pub mod catalog;
pub mod generated_fields;

mod bits;
mod columns;
mod compile;
mod error;
mod extractor;
mod identifiers;
mod literal;
mod procedures;
mod program;
mod ptr_cache;
mod required_layers;
mod runner;
mod syntax;
mod token;
mod transaction_fields;
mod types;
mod value;

pub use columns::{FilterColumn, PlainValue, ShownValue};
pub use error::FilterError;
pub(crate) use error::proposal;
pub use literal::quoted;
pub use runner::{FilterRunner, FrameTally};

use catalog::Catalog;
use compile::{FilterCompiler, FilterField};
use program::FilterNode;

/// A display filter that is ready to run.
#[derive(Clone, Debug)]
pub struct Filter {
    program: FilterNode,
    fields: Vec<FilterField>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong with it, and at which character.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let test = syntax::parse(text)?;
        let mut compiler = FilterCompiler::new(text, Catalog::shared());
        let program = compiler.test(&test)?;
        Ok(Self { program, fields: compiler.fields })
    }
}

#[cfg(test)]
mod tests;
