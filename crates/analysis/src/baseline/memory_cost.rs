//! Estimates of the memory of a baseline: of a file by its lines, and of a capture by its contents, so that whatever
//! can be written can be read with the same memory.

use super::settings::SETTINGS_HEAD;

/// Maximum length of a line of `[operations]` besides its title, with all its numbers.
const OPERATION_NUMBERS: usize = 256;
/// Maximum length of a line of `[fields]`.
const FIELD_LINE: usize = 256;
/// Maximum length of the name of a header.
const HEADER_NAME: usize = 32;
/// Memory of the counts of a capture in bytes.
const CAPTURE_BYTES: usize = 32 << 10;

/// Returns the memory for a line of a part in bytes: for `[transactions]` that of its values in a record, of the line
/// itself, and of the line that is written again.
pub(super) fn line_bytes(section: &str, length: usize) -> usize {
    match section {
        SETTINGS_HEAD => 64 + length,
        "[capture]" => 256 + length,
        "[operations]" | "[fields]" => 512 + length,
        "[headers]" => 288 + length,
        _ => 256 + 32 * length,
    }
}

/// Returns the memory in bytes of an operation with a title of this length.
pub(super) fn operation_bytes(title: usize) -> usize {
    line_bytes("[operations]", OPERATION_NUMBERS + title)
}

pub(super) fn fields_bytes(count: usize) -> usize {
    line_bytes("[fields]", FIELD_LINE) * count
}

/// Returns the memory in bytes of a header with a text of this length.
pub(super) fn header_bytes(text: usize) -> usize {
    line_bytes("[headers]", HEADER_NAME + text)
}

/// Returns the memory in bytes of the settings and the counts of a capture.
pub(super) fn settings_bytes(lines: &[String]) -> usize {
    CAPTURE_BYTES + lines.iter().map(|line| line_bytes(SETTINGS_HEAD, line.len())).sum::<usize>()
}

pub(super) fn transaction_bytes(text: &str) -> usize {
    text.lines().map(|line| line_bytes("[transactions]", line.len())).sum()
}
