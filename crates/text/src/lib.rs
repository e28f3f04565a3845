//! Text for terminals: escapes of unsafe characters from outside, and messages of the operating system.
#![forbid(unsafe_code)]

pub mod escape;

use std::io;

/// Returns the operating system's message without the appended `(os error 2)`.
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or(&text).to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_number_of_the_error() {
        assert_eq!(os_error_text(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(os_error_text(&io::Error::other("Broken")), "Broken");
    }
}
