//! Errors in filters, with their positions.

use std::fmt;

/// An error in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The column, from 1; never beyond the last character, unless the filter is empty.
    pub column: usize,
    /// The error and its remedy.
    pub message: String,
}

impl FilterError {
    /// Creates an error at byte `at` of a filter.
    pub(super) fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let before = text.char_indices().take_while(|(start, _)| *start < at).count();
        let last = text.chars().count();
        Self { column: (before + 1).clamp(1, last.max(1)), message: message.into() }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for FilterError {}

/// Returns `; did you mean A or B?`, or an empty text without names.
pub fn proposal(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_stay_inside_the_filter() {
        let column = |text, at| FilterError::new(text, at, "").column;
        assert_eq!(column("abc", 0), 1);
        assert_eq!(column("abc", 2), 3);
        assert_eq!(column("abc", 3), 3);
        assert_eq!(column("ä == ö", 6), 6);
        assert_eq!(column("", 0), 1);
    }
}
