//! Display filters in Wireshark's language, over the fields that the protocols describe.
//!
//! A filter is read in three steps: [`token`] takes the text apart, [`syntax`] finds what belongs together, and
//! [`compile`] makes of it a [`program`] over the fields that it names. The [`catalog`] knows the fields, of which
//! [`facts`] are those that no structure has, and [`words`] what they may be; [`bits`] and [`procedures`] follow from what
//! masks and tables describe.
//!
//! To run, [`wants`] says what must be done for these fields, [`gather`] listens to the decoders for them alone,
//! [`about`] adds what is known beyond the bytes, and [`selection`] tells which frames or Transactions pass.

pub mod catalog;
pub mod facts;

mod about;
mod bits;
mod columns;
mod compile;
mod error;
mod gather;
mod literal;
mod procedures;
mod program;
mod remembered;
mod selection;
mod syntax;
mod token;
mod types;
mod value;
mod wants;
mod words;

pub use columns::{Column, Plain, Shown};
pub use error::FilterError;
pub(crate) use error::proposal;
pub use literal::quoted;
pub use selection::{Selection, Tally};

use catalog::Catalog;
use compile::{Compiler, Named};
use program::Node;

/// A display filter that is ready to run.
#[derive(Clone, Debug)]
pub struct Filter {
    program: Node,
    fields: Vec<Named>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong with it, and at which character.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let test = syntax::parse(text)?;
        let mut compiler = Compiler::new(text, Catalog::shared());
        let program = compiler.test(&test)?;
        Ok(Self { program, fields: compiler.fields })
    }
}

#[cfg(test)]
mod tests;
