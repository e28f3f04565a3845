//! The error for a baseline that cannot be read, and the messages in it.

pub(super) const REWRITE_ADVICE: &str = "restore it, or write it again with check --bless";

/// The error for a baseline that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineReadError {
    /// The line number, from 1.
    pub line: u64,
    /// The error and its remedy.
    pub reason: String,
    /// The share of the memory into which the baseline fits, in bytes, if it is too small.
    pub needed_bytes: Option<u64>,
}

impl BaselineReadError {
    pub(super) fn new(line: u64, reason: String) -> Self {
        Self { line, reason, needed_bytes: None }
    }

    pub(super) fn too_large(line: u64) -> Self {
        Self { line, reason: "too large for the memory".to_owned(), needed_bytes: Some(0) }
    }
}

impl std::fmt::Display for BaselineReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for BaselineReadError {}

/// Returns the beginning of a line, for a message.
pub(super) fn begin(line: &str) -> String {
    let mut text: String = line.chars().take(80).collect();
    if text.len() < line.len() {
        text += " ...";
    }
    text
}

/// Returns the message for a line that differs from what the other lines say.
pub(super) fn contradiction(actual: &str, expected: &str) -> String {
    let (actual, expected) = (begin(actual), begin(expected));
    format!("{actual:?} contradicts {expected:?}, which follows from the other lines; {REWRITE_ADVICE}")
}
