//! Report of a command, as text or as JSON.

use std::io::{self, Write};

/// Report of a command, in one of two formats.
pub trait Report {
    /// Writes the report as text.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn text(&self, to: &mut impl Write) -> io::Result<()>;

    /// Writes the report as a line of JSON.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn json(&self, to: &mut impl Write) -> io::Result<()>;
}
